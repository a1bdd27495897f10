//! Joins a session: first the group, so that nothing is missed, then the sender.

use std::{
    io,
    net::{IpAddr, SocketAddr, UdpSocket},
    os::unix::fs::MetadataExt,
    path::Path,
    time::{Duration, Instant},
};

use data_encoding::HEXLOWER;
use treecast_host::{
    clock,
    interface::{Choice, Interface},
    stop::Stop,
};
use treecast_wire::{
    header::FileId,
    message::{Hello, MAX_RECEIVER_NAME_LEN, MEMBER_LEN, Message, PROTOCOL_VERSION},
    ticket::{Fanout, Repair, Ticket},
};

use super::{
    Dialect, NoFamily, RECEIVE_BUFFER_BYTES, ReceiveError, ReceiveEvent, ReceiveOptions,
    reach::{Reach, places},
};
use crate::{
    connection::Connection,
    files::Journal,
    remedies::{self, Advised, Remedy},
    security::{Identity, PublicKey, tls::ReceiverTls},
    udp::{
        GroupAddress, ReceiveBuffer, UdpError, open_group_receiver, open_unicast_receiver,
        share_port_with_group,
    },
};

/// The kernel sends its membership report two to three ticks after the join. A sender that starts before it is out
/// would send the first packets to nobody.
const MEMBERSHIP_TICKS: u32 = 3;

/// The time that a switch gets to take the report up.
const SNOOPING_TIME: Duration = Duration::from_millis(8);

/// The time for all of this where routers lie between. Each of them joins for itself, some ticks after the one
/// before.
const ROUTED_MEMBERSHIP_TIME: Duration = Duration::from_millis(40);

/// A receiver with its sockets, that the sender has answered.
#[derive(Debug)]
pub(super) struct Joined {
    pub socket: UdpSocket,
    /// The group's socket, if the other socket is for the receiver's own address.
    pub group_socket: Option<UdpSocket>,
    /// The interface where packets come in.
    pub interface: Interface,
    pub membership_time: Duration,
    /// The number of bytes that the socket's receive buffer holds.
    pub buffer_bytes: usize,
    /// The connection to the sender. `None` in a carousel, whose receivers connect to nobody.
    pub connection: Option<Connection>,
    /// The sender's key. `None` in a plain session.
    pub sender_key: Option<PublicKey>,
}

/// The identity of the receiver, the same each time it joins.
pub(super) struct Member {
    name: String,
    /// The number by which the sender of a plain session knows it again.
    number: [u8; MEMBER_LEN],
    /// The sender's key. `None` in a plain session.
    tls: Option<ReceiverTls>,
    /// The identity as the journal is to note it.
    noted: String,
}

impl Member {
    /// Determines who the receiver is: as the user said, or as in the journal. So a receiver that was killed
    /// and started again is the same one to its sender.
    pub fn new(
        options: &ReceiveOptions,
        journal: &mut Journal,
        on_event: &mut dyn FnMut(ReceiveEvent),
    ) -> Result<Self, ReceiveError> {
        let before = journal.myself().and_then(parse_myself);
        let (seed, before) = before.map_or((None, None), |(seed, name)| (seed, Some(name)));
        let name = options.name.clone().or(before).unwrap_or_else(default_name);
        check_name(&name)?;
        let identity = match (&options.identity, seed) {
            (Some(identity), _) => identity.clone(),
            (None, Some(seed)) => Identity::from_seed(&seed),
            (None, None) => Identity::generate()?,
        };
        let tls = tls(options, &identity, on_event)?;
        let number = if tls.is_none() { plain_number(&identity, &name) } else { [0; MEMBER_LEN] };
        // A key of its own lies in a file of its own.
        let seed = options.identity.is_none().then(|| HEXLOWER.encode(&*identity.seed()));
        let noted = format!("{} {name}", seed.as_deref().unwrap_or(NO_SEED));
        let member = Self { name, number, tls, noted };
        member.note_in(journal);
        Ok(member)
    }

    /// Notes the receiver's identity in the journal, for the next receiver if this one is killed.
    pub fn note_in(&self, journal: &mut Journal) {
        journal.note_myself(&self.noted);
    }
}

/// Stands for the key in the journal of a receiver that has one of its own.
const NO_SEED: &str = "-";

/// The key and the name that a journal holds.
fn parse_myself(text: &str) -> Option<(Option<[u8; 32]>, String)> {
    let (seed, name) = text.split_once(' ')?;
    let seed = match seed {
        NO_SEED => None,
        seed => Some(HEXLOWER.decode(seed.as_bytes()).ok()?.try_into().ok()?),
    };
    Some((seed, name.to_owned()))
}

/// A number that nobody else can guess and that is the same each time: a hash of the receiver's secret, which it does not
/// give away.
fn plain_number(identity: &Identity, name: &str) -> [u8; MEMBER_LEN] {
    let mut hasher = blake3::Hasher::new_derive_key("treecast 2026 member of a plain session");
    hasher.update(&*identity.seed());
    hasher.update(name.as_bytes());
    let mut number = [0; MEMBER_LEN];
    hasher.finalize_xof().fill(&mut number);
    number
}

/// The sockets at which a receiver hears the session's packets.
struct Sockets {
    interface: Interface,
    own: UdpSocket,
    /// The group's socket, if the other socket is for the receiver's own address.
    group: Option<UdpSocket>,
    buffer: ReceiveBuffer,
    /// The port of the receiver's own address; 0 where it hears the group alone.
    udp_port: u16,
    has_joined: bool,
    opened: Instant,
    warnings: Vec<Advised>,
}

impl Sockets {
    fn open(options: &ReceiveOptions, interface: Interface) -> Result<Self, ReceiveError> {
        let ticket = &options.ticket;
        let lacks_family = NoFamily::check(ticket, &interface).err();
        if let Some(lack) = lacks_family.as_ref().filter(|_| !can_do_without_group(ticket)) {
            return Err(ReceiveError::Family(lack.clone()));
        }
        let (own, buffer) = open(options, &interface)?;
        let lacks_group = |lack| {
            let line = format!("hears nothing of the group, and does without: {lack}");
            Advised::by(Remedy::OtherFamily, line)
        };
        let narrow = buffer.warning.clone().map(Advised::from);
        let mut warnings: Vec<_> = narrow.into_iter().chain(lacks_family.map(lacks_group)).collect();
        let udp_port = match ticket.fanout {
            Fanout::Multicast => 0,
            Fanout::Unicast | Fanout::Mead | Fanout::Xcast | Fanout::Auto => own.local_addr()?.port(),
        };
        if udp_port == ticket.group.port() && ticket.fanout == Fanout::Auto {
            share_port_with_group(&own)?;
        }
        let group = match ticket.fanout {
            Fanout::Auto => open_group(ticket, &interface, &mut warnings),
            Fanout::Multicast | Fanout::Unicast | Fanout::Mead | Fanout::Xcast => None,
        };
        let has_joined = ticket.fanout == Fanout::Multicast || group.is_some();
        Ok(Self { interface, own, group, buffer, udp_port, has_joined, opened: Instant::now(), warnings })
    }

    /// Waits until the group is joined as far as `sender`'s side knows.
    fn await_membership(&self, sender: IpAddr) {
        if self.has_joined {
            let needed = membership_time(&self.interface, sender);
            std::thread::sleep(needed.saturating_sub(self.opened.elapsed()));
        }
    }
}

/// A receiver that has been there before opens its sockets anew each time that the sender has answered: by then the
/// route may lead over another interface, and what a switch was told over a cable that was cut is lost.
///
/// `until` says whether it has been there before, and how long it tries.
pub(super) fn join(
    options: &ReceiveOptions,
    member: &Member,
    until: (bool, Instant),
    stop: &Stop,
    on_event: &mut dyn FnMut(ReceiveEvent),
) -> Result<Joined, ReceiveError> {
    let Member { name, number, tls, .. } = member;
    let is_return = until.0;
    let mut sockets = None;
    if !is_return {
        let first = places(options)?.into_iter().next().ok_or(ReceiveError::NoControl)?;
        sockets = Some(Sockets::open(options, interface_towards(options, first)?)?);
    }
    let mut reach = Reach::new(options, tls.as_ref(), stop, until, on_event);
    let connection = reach.sender(&mut |connection| {
        // The sender may have answered at another address than the first.
        let interface = interface_towards(options, connection.peer()).map_err(io::Error::other)?;
        if is_return || sockets.as_ref().is_none_or(|open| open.interface.index != interface.index) {
            // Closed first: the new ones may have the same port.
            sockets = None;
            sockets = Some(Sockets::open(options, interface).map_err(io::Error::other)?);
        }
        let Some(sockets) = &sockets else { return Ok(()) };
        sockets.await_membership(connection.peer().ip());
        let buffer_bytes = announced_bytes(&sockets.buffer);
        let hello = Hello::new(PROTOCOL_VERSION, sockets.udp_port, buffer_bytes, name);
        let mut hello = hello.map_err(io::Error::other)?;
        (hello.member, hello.role) = (*number, options.role);
        connection.queue(&Message::Hello(hello).to_packet(FileId::new(options.ticket.session, 0)));
        Ok(())
    })?;
    let Some(Sockets { interface, own, group, buffer, warnings, .. }) = sockets else {
        return Err(ReceiveError::NoControl);
    };
    warnings.into_iter().for_each(|warning| on_event(ReceiveEvent::Warning(warning)));
    Ok(Joined {
        socket: own,
        group_socket: group,
        membership_time: membership_time(&interface, connection.peer().ip()),
        interface,
        buffer_bytes: buffer.bytes,
        sender_key: connection.peer_key(),
        connection: Some(connection),
    })
}

/// Tells the sender one message, by a connection of its own, and waits for its answer.
pub(super) fn tell(
    options: &ReceiveOptions,
    message: &Message,
    until: (bool, Instant),
    stop: &Stop,
    on_event: &mut dyn FnMut(ReceiveEvent),
) -> Result<(), ReceiveError> {
    let identity = options.identity.clone().map_or_else(Identity::generate, Ok)?;
    let tls = tls(options, &identity, on_event)?;
    let mut reach = Reach::new(options, tls.as_ref(), stop, until, on_event);
    reach.sender(&mut |connection| {
        connection.queue(&message.to_packet(FileId::new(options.ticket.session, 0)));
        Ok(())
    })?;
    Ok(())
}

/// Opens the sockets at which a session without connections comes.
pub(super) fn listen(
    options: &ReceiveOptions,
    on_event: &mut dyn FnMut(ReceiveEvent),
) -> Result<Joined, ReceiveError> {
    let ticket = &options.ticket;
    let sender_key = match &ticket.security {
        Some(security) => {
            Some(PublicKey::from_bytes(security.sender_key).map_err(|_| ReceiveError::SenderKey)?)
        }
        None if options.secure_only => return Err(ReceiveError::Plain),
        None => None,
    };
    if sender_key.is_none() && options.dialect == Dialect::Session {
        on_event(ReceiveEvent::Warning(plain()));
    }
    let (place, by_chance) = listening_place(options)?;
    let Sockets { interface, own, group, buffer, warnings, .. } = Sockets::open(options, place)?;
    let warnings = warnings.into_iter().chain(by_chance);
    warnings.for_each(|warning| on_event(ReceiveEvent::Warning(warning)));
    on_event(ReceiveEvent::Joined { sender: ticket.group, interface: interface.name.clone() });
    Ok(Joined {
        socket: own,
        group_socket: group,
        membership_time: ROUTED_MEMBERSHIP_TIME,
        interface,
        buffer_bytes: buffer.bytes,
        sender_key,
        connection: None,
    })
}

/// The security of the connection. `None` where the ticket says that the session is plain.
fn tls(
    options: &ReceiveOptions,
    identity: &Identity,
    on_event: &mut dyn FnMut(ReceiveEvent),
) -> Result<Option<ReceiverTls>, ReceiveError> {
    let Some(security) = &options.ticket.security else {
        if options.secure_only {
            return Err(ReceiveError::Plain);
        }
        on_event(ReceiveEvent::Warning(plain()));
        return Ok(None);
    };
    let sender = PublicKey::from_bytes(security.sender_key).map_err(|_| ReceiveError::SenderKey)?;
    Ok(Some(ReceiverTls::new(identity, sender)?))
}

/// The warning of a receiver whose session is plain.
fn plain() -> Advised {
    let line = "the session is plain: nothing is encrypted, and nobody proves who he is";
    Advised::by(Remedy::RefusePlain, line)
}

/// The time between joining the group and telling the sender of this receiver.
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

/// The environment variable that names the lab's node in which a program runs.
const NODE_VARIABLE: &str = "TREECAST_NODE";

/// The folder of the network namespaces that have names, one file each (ip-netns(8)).
const NAMESPACES: &str = "/run/netns";

/// The node's name in a lab. Elsewhere the name of the network namespace or host and the process id: two receivers with
/// one key are told apart by it, and one that comes again has its name from the journal.
fn default_name() -> String {
    if let Some(node) = std::env::var(NODE_VARIABLE).ok().filter(|node| !node.is_empty()) {
        return plain_name(&node, "");
    }
    let host = || std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    plain_name(&namespace_name().unwrap_or_else(host), &format!("-{}", std::process::id()))
}

/// A name that a receiver may have, of at most [`MAX_RECEIVER_NAME_LEN`] bytes, `suffix` at its end.
fn plain_name(name: &str, suffix: &str) -> String {
    let name: String = name.chars().filter(char::is_ascii_graphic).collect();
    let len = name.len().min(MAX_RECEIVER_NAME_LEN - suffix.len());
    format!("{}{suffix}", &name[..len])
}

/// The name of the network namespace that this process is in; none for the host's own.
fn namespace_name() -> Option<String> {
    let identity = |path: &Path| std::fs::metadata(path).ok().map(|file| (file.dev(), file.ino()));
    let ours = identity(Path::new("/proc/self/ns/net"))?;
    let mut named = std::fs::read_dir(NAMESPACES).ok()?.flatten();
    named.find(|name| identity(&name.path()) == Some(ours))?.file_name().into_string().ok()
}

/// The interface that the user names, or the one towards the sender.
fn interface_towards(options: &ReceiveOptions, sender: SocketAddr) -> Result<Interface, ReceiveError> {
    Ok(match (&options.interface, sender) {
        (Some(name), _) => Interface::named(name)?,
        (None, SocketAddr::V6(sender)) if sender.scope_id() != 0 => Interface::numbered(sender.scope_id())?,
        (None, sender) => Interface::by_route(Some(sender.ip()))?,
    })
}

/// The interface where a session without connections is listened to: a carousel does not say where its sender is. With it comes a
/// line for the user where no route has decided.
fn listening_place(options: &ReceiveOptions) -> Result<(Interface, Option<Advised>), ReceiveError> {
    let ticket = &options.ticket;
    if let Some(name) = &options.interface {
        return Ok((Interface::named(name)?, None));
    }
    let towards = match (ticket.repair, ticket.control.first()) {
        (_, Some(sender)) => Some(sender.ip()),
        (Repair::Carousel | Repair::Local, None) => ticket.fanout.has_group().then(|| ticket.group.ip()),
        (Repair::None | Repair::After | Repair::Nack, None) => return Err(ReceiveError::NoControl),
    };
    let choice = Choice::towards(towards)?;
    let line = remedies::by_chance(&choice, "the sender");
    Ok((choice.interface, line))
}

fn open(options: &ReceiveOptions, interface: &Interface) -> Result<(UdpSocket, ReceiveBuffer), ReceiveError> {
    let (ticket, named) = (&options.ticket, options.port);
    match (ticket.fanout, named) {
        (Fanout::Multicast, Some(_)) if ticket.local.is_none_or(|local| local.is_static) => {
            Err(ReceiveError::NoPort { port: ticket.group.port() })
        }
        (Fanout::Multicast, _) => {
            Ok(open_group_receiver(&group_address(ticket, interface), RECEIVE_BUFFER_BYTES)?)
        }
        _ => match open_unicast_receiver(named.unwrap_or(ticket.own_port()), RECEIVE_BUFFER_BYTES) {
            // A port that a firewall lets in is not to be had by another.
            Err(UdpError::PortInUse { port }) if named.is_some() => Err(ReceiveError::PortInUse { port }),
            // A carousel's sender hears of no other port.
            Err(UdpError::PortInUse { port }) if ticket.repair == Repair::Carousel => {
                Err(ReceiveError::CopiesPortInUse { port })
            }
            // Another receiver on this host has it.
            Err(UdpError::PortInUse { .. }) => Ok(open_unicast_receiver(0, RECEIVE_BUFFER_BYTES)?),
            opened => Ok(opened?),
        },
    }
}

/// Whether everything can come otherwise: over a connection, or to the receiver's own address.
fn can_do_without_group(ticket: &Ticket) -> bool {
    match ticket.repair {
        Repair::Nack | Repair::After => true,
        Repair::None | Repair::Carousel | Repair::Local => ticket.fanout != Fanout::Multicast,
    }
}

/// The group, where a receiver can do without it.
fn open_group(ticket: &Ticket, interface: &Interface, warnings: &mut Vec<Advised>) -> Option<UdpSocket> {
    match open_group_receiver(&group_address(ticket, interface), RECEIVE_BUFFER_BYTES) {
        Ok((socket, _)) => Some(socket),
        Err(error) => {
            warnings.push(format!("does without multicast: {error}").into());
            None
        }
    }
}

fn group_address(ticket: &Ticket, interface: &Interface) -> GroupAddress {
    GroupAddress { group: ticket.group, source: ticket.source, interface: interface.clone() }
}

/// The buffer size, in bytes, that the sender may count on. The kernel's own limit is twice that, which single
/// packets' bookkeeping uses up. On one host the queue between two interfaces (`net.core.netdev_max_backlog`, 1000
/// super-packets for all receivers together) overflows before larger buffers do.
fn announced_bytes(buffer: &ReceiveBuffer) -> u32 {
    u32::try_from(buffer.bytes).unwrap_or(u32::MAX)
}
