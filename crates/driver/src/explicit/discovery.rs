//! The loop that `treecast mead` and senders of sessions share: it sends requests, and reads responses of
//! routers and ICMPv6 errors.

use std::{
    io,
    net::Ipv6Addr,
    os::fd::{AsFd, BorrowedFd},
};

use treecast_proto::{
    Instant, Step,
    explicit::{finder::Finder, lists::Form, mead::sender::Event},
};
use treecast_wire::mead::Dialect;

use super::{
    raw::{ErrorSocket, PacketSocket, ResponseSocket, epoch},
    registrations::RegistrationSocket,
};

/// Errors that are looked at before packets leave again.
const ERRORS_AT_ONCE: usize = 256;

/// The sockets on which a sender hears from routers.
#[derive(Debug)]
pub(crate) struct Hearing {
    /// Answers to discovery. None with Xcast, which asks for no routers.
    responses: Option<ResponseSocket>,
    /// Reports of routers about packets that they cannot pass on.
    errors: ErrorSocket,
    /// Routers that register, in Xcast+.
    registrations: Option<RegistrationSocket>,
}

/// Something that a machine has done or found out.
#[derive(Debug)]
pub(crate) enum News {
    /// A request of so many bytes was sent to a receiver's address, or could not be, and why.
    Asked { receiver: Ipv6Addr, bytes: usize, failure: Option<io::Error> },
    /// An event of the machine's own.
    Event(Event),
}

impl Hearing {
    /// Opens the sockets at the sender's address. The one for responses is only opened if `asks` is set.
    ///
    /// # Errors
    /// If this user may not, or the address is not this host's.
    pub fn open(source: Ipv6Addr, dialect: Dialect, asks: bool) -> io::Result<Self> {
        let responses = asks.then(|| ResponseSocket::open(source, dialect)).transpose()?;
        Ok(Self { responses, errors: ErrorSocket::open(source, dialect)?, registrations: None })
    }

    /// Makes the sockets accept registrations of routers, too.
    pub fn with_registrations(self, registrations: Option<RegistrationSocket>) -> Self {
        Self { registrations, ..self }
    }

    /// All sockets, for waiting. The first one is for responses, if there is one.
    pub fn sockets(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let responses = self.responses.iter().map(AsFd::as_fd);
        responses.chain([self.errors.as_fd()]).chain(self.registrations.iter().map(AsFd::as_fd))
    }

    /// Hands the messages that have come to `machine`: all responses and registrations, and a limited number of
    /// ICMPv6 errors. Without a machine it only takes them off the sockets. Returns how many messages were
    /// malformed.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn hear(&self, now: Instant, mut machine: Option<&mut Finder>) -> io::Result<u64> {
        let mut malformed = 0;
        let mut tell = |act: &mut dyn FnMut(&mut Finder)| machine.iter_mut().for_each(|machine| act(machine));
        if let Some(responses) = &self.responses {
            while let Some(response) = responses.receive()? {
                match response {
                    Ok(response) => tell(&mut |machine| machine.respond(now, &response)),
                    Err(_) => malformed += 1,
                }
            }
        }
        for _ in 0..ERRORS_AT_ONCE {
            let Some(failure) = self.errors.receive()? else { break };
            tell(&mut |machine| machine.fail(now, &failure));
        }
        for registration in self.registrations.iter().map(RegistrationSocket::receive) {
            for registration in registration? {
                match registration {
                    Ok(registration) => tell(&mut |machine| machine.register(now, &registration)),
                    Err(_) => malformed += 1,
                }
            }
        }
        Ok(malformed)
    }
}

/// Carries out all that a machine wants now. Returns the news, in order, and when it wants more.
pub(crate) fn carry_out(
    machine: &mut Finder,
    now: Instant,
    form: &Form,
    packets: &PacketSocket,
) -> (Vec<News>, Option<Instant>) {
    let mut news = Vec::new();
    loop {
        match machine.poll(now) {
            Step::Transmit(request) => {
                let (receiver, packet) = (request.receiver, request.packet(form, epoch()));
                let bytes = packet.len();
                let (_, failure) = packets.send(&[(receiver, packet)]);
                news.push(News::Asked { receiver, bytes, failure });
            }
            Step::Event(event) => news.push(News::Event(event)),
            Step::Wait(deadline, ()) => return (news, deadline),
        }
    }
}
