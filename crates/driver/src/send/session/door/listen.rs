//! The control port.

use std::{
    io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener},
};

use socket2::{Domain, Socket, Type};
use treecast_host::{interface::Interface, option};
use treecast_wire::ticket;

use super::super::super::{OptionsError, Plan, SendError, SessionFileError};
use crate::connection;

/// Opens the control port, and lists the addresses that receivers reach it at.
pub(super) fn listen(plan: &Plan) -> Result<(TcpListener, Vec<SocketAddr>), SendError> {
    let interface = &plan.group.interface;
    let asked = asked(plan)?.map(|address| option::scoped(address, interface.index));
    let port = plan.control.first().map_or(0, SocketAddr::port);
    let any_v6 = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), port);
    let any_v4 = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port);
    let listener = match asked {
        Some(address) => bind(address),
        None => bind(any_v6).or_else(|_| bind(any_v4)),
    };
    let listener = listener.map_err(|source| {
        let address = asked.unwrap_or(any_v4);
        match source.kind() {
            io::ErrorKind::AddrInUse => SendError::PortInUse { port: address.port() },
            _ => SendError::Listen { address, source },
        }
    })?;
    listener.set_nonblocking(true)?;
    if !plan.control.is_empty() {
        return Ok((listener, plan.control.clone()));
    }
    let local = listener.local_addr()?;
    if !local.ip().is_unspecified() {
        return Ok((listener, vec![local]));
    }
    // Where no route says which network the receivers are in, they may reach the sender by any of them.
    let places = [interface].into_iter().chain(&plan.other_interfaces);
    let addresses = places.flat_map(Interface::reachable_addresses);
    let reached = addresses.filter(|address| local.is_ipv6() || address.is_ipv4());
    let control: Vec<_> = reached
        .map(|address| SocketAddr::new(address, local.port()))
        .take(ticket::MAX_CONTROL_ADDRESSES)
        .collect();
    if control.is_empty() {
        return Err(OptionsError::NoControl(interface.name.clone()).into());
    }
    Ok((listener, control))
}

/// The control address that the user wants. A session that goes on keeps the one at which its receivers look for it.
fn asked(plan: &Plan) -> Result<Option<SocketAddr>, SendError> {
    let (Some(asked), Some(kept)) = (plan.options.control(), plan.control.first()) else {
        return Ok(plan.options.control());
    };
    let is_port = [0, kept.port()].contains(&asked.port());
    let is_address = asked.ip().is_unspecified() || plan.control.iter().any(|kept| kept.ip() == asked.ip());
    if is_port && is_address {
        return Ok(Some(SocketAddr::new(asked.ip(), kept.port())));
    }
    Err(SessionFileError::Control(*kept).into())
}

fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    const BACKLOG: i32 = 1024;
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    if address.is_ipv6() {
        socket.set_only_v6(false)?;
    }
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    connection::hurry_answers(&socket);
    connection::bound_packets(&socket);
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use std::{net::TcpStream, time::Duration};

    use treecast_host::tcp_info;

    use super::*;

    /// The loopback interface takes packets of 64 KiB.
    #[test]
    fn packets_of_a_connection_fit_into_an_ethernet_frame() {
        let listener = bind((Ipv6Addr::LOCALHOST, 0).into()).unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (far, _) = listener.accept().unwrap();
        for end in [&near, &far] {
            let bytes = socket2::SockRef::from(end).tcp_mss().unwrap();
            assert!((500..=1_440).contains(&bytes), "{bytes}");
        }
    }

    /// Guards against a first flight of TLS that is repeated only after 200 ms, while everybody waits for the
    /// receiver that has lost it.
    #[test]
    fn the_first_answer_is_soon_repeated() {
        let listener = bind((Ipv6Addr::LOCALHOST, 0).into()).unwrap();
        let _near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (far, _) = listener.accept().unwrap();
        let timeout = tcp_info::retransmission_timeout(&far).unwrap();
        // Linux before 6.15 has no such option.
        assert!(timeout < Duration::from_millis(100) || !connection::hurry_answers(&listener), "{timeout:?}");
    }
}
