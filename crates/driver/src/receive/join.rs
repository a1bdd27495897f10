//! Joining a session: the group first, so that nothing is missed, then the sender.

use std::{
    io,
    net::{IpAddr, SocketAddr, TcpStream, UdpSocket},
    time::{Duration, Instant},
};

use treecast_wire::{
    header::{FileId, MAX_PAYLOAD_LEN},
    message::{Hello, MAX_RECEIVER_NAME_LEN, Message, PROTOCOL_VERSION},
    ticket::{Fanout, Ticket},
};

use super::{RECEIVE_BUFFER_BYTES, ReceiveError, ReceiveEvent, ReceiveOptions};
use crate::{
    clock,
    connection::Connection,
    interface::Interface,
    stop::Stop,
    udp::{GroupAddress, ReceiveBuffer, open_group_receiver, open_unicast_receiver},
};

/// How long one address gets to answer.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(2);

/// How long to wait before the addresses are tried again.
const RETRY_INTERVAL: Duration = Duration::from_millis(200);

/// The kernel sends its membership report two to three ticks after the join. A sender that starts before it is out
/// would send the first packets to nobody.
const MEMBERSHIP_TICKS: u32 = 3;

/// How long a switch gets to take the report up.
const SNOOPING_TIME: Duration = Duration::from_millis(8);

/// For all of it where routers lie between, each of which joins for itself, some ticks after the one before.
const ROUTED_MEMBERSHIP_TIME: Duration = Duration::from_millis(40);

/// A receiver with its sockets, whose Hello is on its way.
#[derive(Debug)]
pub(super) struct Joined {
    pub socket: UdpSocket,
    /// What the socket's receive buffer holds.
    pub buffer_bytes: usize,
    pub connection: Connection,
}

pub(super) fn join(
    options: &ReceiveOptions,
    stop: &Stop,
    on_event: &mut dyn FnMut(ReceiveEvent),
) -> Result<Joined, ReceiveError> {
    let ticket = &options.ticket;
    let first = ticket.control.first().ok_or(ReceiveError::NoControl)?;
    let name = options.name.clone().unwrap_or_else(default_name);
    // Refused before anything is opened.
    check_name(&name)?;
    let interface = interface(options, *first)?;
    let (socket, buffer) = open(ticket, &interface)?;
    if let Some(warning) = &buffer.warning {
        on_event(ReceiveEvent::Warning(warning.clone()));
    }
    let udp_port = match ticket.fanout {
        Fanout::Unicast => socket.local_addr()?.port(),
        Fanout::Multicast => 0,
    };
    let opened = Instant::now();
    let stream = connect(options, stop)?;
    if ticket.fanout == Fanout::Multicast {
        let sender = stream.peer_addr()?.ip();
        std::thread::sleep(membership_time(&interface, sender).saturating_sub(opened.elapsed()));
    }
    let mut connection = Connection::to_sender(stream, MAX_PAYLOAD_LEN, None).map_err(io::Error::other)?;
    let hello = Hello::new(PROTOCOL_VERSION, udp_port, announced_bytes(&buffer), &name)
        .map_err(|error| ReceiveError::Name { name, reason: error.to_string() })?;
    let file = FileId::new(ticket.session, 0);
    connection.queue(&Message::Hello(hello).to_packet(file));
    on_event(ReceiveEvent::Joined { sender: connection.peer(), interface: interface.name });
    Ok(Joined { socket, buffer_bytes: buffer.bytes, connection })
}

/// How long the group is left alone before the sender hears of this receiver.
fn membership_time(interface: &Interface, sender: IpAddr) -> Duration {
    if interface.is_on_link(sender) {
        clock::tick() * MEMBERSHIP_TICKS + SNOOPING_TIME
    } else {
        ROUTED_MEMBERSHIP_TIME
    }
}

fn check_name(name: &str) -> Result<(), ReceiveError> {
    Hello::new(PROTOCOL_VERSION, 0, 0, name)
        .map(drop)
        .map_err(|error| ReceiveError::Name { name: name.to_owned(), reason: error.to_string() })
}

/// The host's name and the process id.
fn default_name() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host: String = host.trim().chars().filter(|letter| letter.is_ascii_graphic()).collect();
    let suffix = format!("-{}", std::process::id());
    let len = host.len().min(MAX_RECEIVER_NAME_LEN - suffix.len());
    format!("{}{suffix}", &host[..len])
}

fn interface(options: &ReceiveOptions, sender: SocketAddr) -> Result<Interface, ReceiveError> {
    Ok(match &options.interface {
        Some(name) => Interface::named(name)?,
        None => Interface::by_route(Some(sender.ip()))?,
    })
}

fn open(ticket: &Ticket, interface: &Interface) -> Result<(UdpSocket, ReceiveBuffer), ReceiveError> {
    if ticket.fanout == Fanout::Unicast {
        return Ok(open_unicast_receiver(0, RECEIVE_BUFFER_BYTES)?);
    }
    let address = GroupAddress { group: ticket.group, source: ticket.source, interface: interface.clone() };
    Ok(open_group_receiver(&address, RECEIVE_BUFFER_BYTES)?)
}

/// What the sender may count on. The kernel's own limit is twice that, which single packets' bookkeeping
/// uses up; and on one host the queue between two interfaces (`net.core.netdev_max_backlog`, 1000
/// super-packets for all receivers together) overflows before larger buffers do.
fn announced_bytes(buffer: &ReceiveBuffer) -> u32 {
    u32::try_from(buffer.bytes).unwrap_or(u32::MAX)
}

/// Tries the ticket's addresses in their order, again and again until the time is up.
fn connect(options: &ReceiveOptions, stop: &Stop) -> Result<TcpStream, ReceiveError> {
    let deadline = Instant::now() + options.connect_timeout;
    loop {
        let mut reason = io::Error::from(io::ErrorKind::TimedOut);
        for address in &options.ticket.control {
            match TcpStream::connect_timeout(address, ATTEMPT_TIMEOUT) {
                Ok(stream) => return Ok(stream),
                Err(error) => reason = error,
            }
            if stop.is_requested() {
                return Err(ReceiveError::Interrupted);
            }
        }
        if Instant::now() >= deadline {
            let addresses = options.ticket.control.iter().map(ToString::to_string).collect::<Vec<_>>();
            return Err(ReceiveError::Unreachable {
                addresses: addresses.join(", "),
                reason: reason.to_string(),
            });
        }
        std::thread::sleep(RETRY_INTERVAL);
    }
}
