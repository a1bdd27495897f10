//! The socket at which routers register in Xcast+.

use std::{
    io,
    net::{IpAddr, Ipv6Addr, SocketAddrV6, UdpSocket},
    os::fd::{AsFd, BorrowedFd},
};

use treecast_wire::{
    ParseError,
    xcast::{REGISTRATION_LEN, REGISTRATION_PORT, Registration},
};

use super::Error;

/// Registrations that are taken before anything else is looked at.
const BATCH: usize = 256;

#[derive(Debug)]
pub(crate) struct RegistrationSocket(UdpSocket);

impl RegistrationSocket {
    pub fn open(source: Ipv6Addr) -> Result<Self, Error> {
        let failed = |error| Error::Registrations { address: source, port: REGISTRATION_PORT, error };
        let socket = UdpSocket::bind(SocketAddrV6::new(source, REGISTRATION_PORT, 0, 0)).map_err(failed)?;
        socket.set_nonblocking(true).map_err(failed)?;
        Ok(Self(socket))
    }

    /// Reads the registrations that have come, at most [`BATCH`], so that there is time for other work.
    pub fn receive(&self) -> io::Result<Vec<Result<Registration, ParseError>>> {
        let mut registrations = Vec::new();
        let mut buffer = [0; REGISTRATION_LEN + 1];
        while registrations.len() < BATCH {
            match self.0.recv_from(&mut buffer) {
                Ok((len, from)) => {
                    let read = Registration::parse(&buffer[..len]);
                    registrations.push(read.and_then(|one| said_by_itself(one, from.ip())));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(registrations)
    }
}

impl AsFd for RegistrationSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Checks that a registration comes from the host that it names. So nobody can have a stream sent to somebody else,
/// as long as networks look at where packets come from.
fn said_by_itself(registration: Registration, from: IpAddr) -> Result<Registration, ParseError> {
    match from == IpAddr::from(registration.router) {
        true => Ok(registration),
        false => Err(ParseError::invalid("router", registration.router, "the address that it comes from")),
    }
}
