//! Finds out who listens to a group on the sender's link: by MLD for IPv6, by IGMP for IPv4.
//!
//! A bridge that snoops forwards reports only to routers. So the sender behaves like a multicast router that
//! forwards nothing. It announces itself by Multicast Router Discovery (RFC 4286). It asks for listeners if
//! nobody else does, which also detects listeners that vanished silently. When a listener leaves, it asks
//! whether there are others, even if another host is the querier: a switch that is the querier asks only at the
//! port of the listener that left.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    os::fd::{AsFd, BorrowedFd},
    time::Duration,
};

use socket2::Socket;
use thiserror::Error;
use treecast_host::{interface::Interface, messages, option, raw};
use treecast_proto::{
    Instant,
    membership::{Limits, Link, LinkOutput, Message, Query, Timers, is_routable_group},
};
use treecast_wire::{igmp, membership::RecordKind, mld};

use super::group_messages::{GroupMessages, split_ip_header};
use crate::udp::GroupAddress;

/// Time between queries while no other querier is on the link: a listener that crashed is noticed after a
/// little more than two of them.
const QUERY_INTERVAL: Duration = Duration::from_secs(20);

/// Time between the two questions whether a listener that leaves was the last one, and the time for their answers. Sending stops
/// after two of them: RFC 9777's 1 s would cost 50 MB more at 200 Mbit/s.
const LAST_LISTENER_QUERY_INTERVAL: Duration = Duration::from_millis(400);

/// Number of further questions, and the time between them, after the last listener seems to have gone. Answers get
/// lost where a link is full or a host busy, and such a time passes soon.
const RECHECKS: u8 = 30;
const RECHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The longest report that a link of ordinary MTU carries, and more.
const MAX_MESSAGE_LEN: usize = 9216;

/// The most messages that are read at a time, so that a flood of them cannot keep a sender from sending.
const MAX_MESSAGES: usize = 64;

/// The reason why listeners cannot be heard.
#[derive(Debug, Error)]
pub enum ListenError {
    #[error("hearing who listens takes root (CAP_NET_RAW)")]
    Permission,
    #[error("listeners to {0} are not reported beyond their own host or link")]
    Scope(IpAddr),
    #[error("interface {0} has no address that can ask who listens")]
    NoAddress(String),
    #[error("cannot hear listeners on interface {interface}: {source}")]
    Socket { interface: String, source: io::Error },
}

/// Watches whether anybody on the link listens to one group.
#[derive(Debug)]
pub struct ListenerWatch {
    socket: Socket,
    group_messages: GroupMessages,
    link: Link,
    /// The group, and the source that packets to it come from, if the group is for one source.
    group: IpAddr,
    source: Option<IpAddr>,
    interface: Interface,
    buffer: Box<[u8]>,
    /// The time at which somebody last said to listen.
    heard_at: Instant,
    /// Whether anybody listened when it was looked last.
    is_present: bool,
    rechecks_left: u8,
    next_recheck: Instant,
}

impl ListenerWatch {
    /// Opens the sockets. The first [`ListenerWatch::look`] asks for listeners.
    ///
    /// # Errors
    /// If this process may not, or hosts do not report such a group.
    pub fn open(address: &GroupAddress, now: Instant) -> Result<Self, ListenError> {
        let group = address.group.ip();
        if address.interface.is_loopback || !is_routable_group(group) {
            return Err(ListenError::Scope(group));
        }
        let interface = address.interface.clone();
        let own = own_address(&interface, group)?;
        let failed = |source: io::Error| match source.kind() {
            io::ErrorKind::PermissionDenied => ListenError::Permission,
            _ => ListenError::Socket { interface: interface.name.clone(), source },
        };
        let socket = open_socket(&interface, group).map_err(failed)?;
        let group_messages = GroupMessages::open(&interface, group).map_err(failed)?;
        let link = Link::new(now, own, timers(), Limits::default());
        let buffer = vec![0; MAX_MESSAGE_LEN].into();
        Ok(Self {
            socket,
            group_messages,
            link,
            group,
            source: address.source,
            interface,
            buffer,
            heard_at: now,
            is_present: false,
            rechecks_left: 0,
            next_recheck: now,
        })
    }

    /// Reads messages, sends those that are due, and returns whether anybody listens.
    ///
    /// # Errors
    /// If the interface is gone.
    pub fn look(&mut self, now: Instant) -> Result<bool, ListenError> {
        // Reports of IGMPv2 come by this socket, leaves by the other one. A host that reports and then leaves has
        // left.
        for (from, message) in self.group_messages.read().map_err(|error| self.failed(error))? {
            self.handle(now, from, message);
        }
        for _ in 0..MAX_MESSAGES {
            match self.receive() {
                Ok(Some((from, message))) => self.handle(now, from, message),
                // Not one of the two protocols', or damaged.
                Ok(None) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(self.failed(error)),
            }
        }
        if self.doubt_at().is_some_and(|at| now >= at) {
            self.doubt(now);
        }
        while let Some(output) = self.link.poll(now) {
            if let LinkOutput::Send(message) = output {
                // A link that takes nothing for a moment (its queue is full) is asked again later.
                let _ = self.send(&message);
            }
        }
        let filter = self.link.filter(self.group);
        let is_present = self.source.map_or(!filter.is_nothing(), |source| filter.passes(source));
        if self.is_present && !is_present {
            (self.rechecks_left, self.next_recheck) = (RECHECKS, now);
        }
        self.is_present = is_present;
        self.recheck(now);
        Ok(is_present)
    }

    fn handle(&mut self, now: Instant, from: IpAddr, message: Message) {
        let word = word_about(self.group, &message);
        self.link.handle(now, from, message);
        match word {
            Some(Word::Listens) => self.heard_at = now,
            Some(Word::Leaves) if !self.link.is_querier() => self.doubt(now),
            Some(Word::Leaves) | None => {}
        }
    }

    fn doubt(&mut self, now: Instant) {
        self.heard_at = now;
        self.link.doubt(now, self.group);
    }

    /// The time at which listeners have been silent for as long as the own queries let them. Another querier may ask
    /// far less often.
    fn doubt_at(&self) -> Option<Instant> {
        let waits = self.is_present && !self.link.is_querier();
        waits.then(|| self.heard_at + timers().listening_interval())
    }

    /// Asks who listens to anything: unlike a question about one group, this makes no bridge doubt it.
    fn recheck(&mut self, now: Instant) {
        if self.is_present || self.rechecks_left == 0 || now < self.next_recheck {
            return;
        }
        self.rechecks_left -= 1;
        self.next_recheck = now + RECHECK_INTERVAL;
        let _ = self.send(&Message::Query(Query::general(RECHECK_INTERVAL / 2, QUERY_INTERVAL)));
    }

    /// The time when [`ListenerWatch::look`] has something to do even if nothing comes.
    pub fn deadline(&self) -> Instant {
        let rechecks = !self.is_present && self.rechecks_left > 0;
        let others = self.doubt_at().into_iter().chain(rechecks.then_some(self.next_recheck));
        others.fold(self.link.deadline(), Instant::min)
    }

    /// Announces that this router is gone.
    pub fn leave(&mut self) {
        let _ = self.send(&Message::RouterTermination);
    }

    /// The sockets. They are readable when [`ListenerWatch::look`] has something to read.
    pub fn sockets(&self) -> [BorrowedFd<'_>; 2] {
        [self.socket.as_fd(), self.group_messages.as_fd()]
    }

    fn receive(&mut self) -> io::Result<Option<(IpAddr, Message)>> {
        let (from, received) = messages::receive_from(&self.socket, &mut self.buffer)?;
        let len = received.len;
        let Some(from) = from.as_socket().map(|from| from.ip()) else { return Ok(None) };
        let message = match self.group {
            IpAddr::V6(_) => mld::Message::parse(&self.buffer[..len]).ok().and_then(Message::from_wire),
            IpAddr::V4(_) => split_ip_header(&self.buffer[..len])
                .and_then(|(_, bytes)| igmp::Message::parse(bytes).ok())
                .and_then(Message::from_wire),
        };
        Ok(message.map(|message| (self.speaker(from, &message), message)))
    }

    /// The link ignores what comes from its own address, but receivers on this host report from there.
    fn speaker(&self, from: IpAddr, message: &Message) -> IpAddr {
        let is_report = matches!(
            message,
            Message::Report(_) | Message::OldReport(_) | Message::IgmpV1Report(_) | Message::OldLeave(_)
        );
        match (is_report && from == self.link.address(), from) {
            (true, IpAddr::V6(_)) => Ipv6Addr::UNSPECIFIED.into(),
            (true, IpAddr::V4(_)) => Ipv4Addr::UNSPECIFIED.into(),
            (false, from) => from,
        }
    }

    /// Sends from the interface's address, also when that is another now.
    fn send(&mut self, message: &Message) -> io::Result<()> {
        match self.send_from_own(message) {
            Err(error) if says_no_such_source(&error) && self.find_address() => self.send_from_own(message),
            sent => sent,
        }
    }

    /// Looks up the address that queries come from; true if it is another.
    fn find_address(&mut self) -> bool {
        let Ok(interface) = Interface::named(&self.interface.name) else { return false };
        let Ok(own) = own_address(&interface, self.group) else { return false };
        let is_other = own != self.link.address();
        self.link.set_address(own);
        is_other
    }

    /// Sends from the address that other queriers compare with their own. To a group of wider scope a kernel would
    /// take a wider address, and all would discard the query (RFC 9777, 5.1.14). The kernel fills in ICMPv6's
    /// checksum.
    fn send_from_own(&self, message: &Message) -> io::Result<()> {
        let packet = match self.group {
            IpAddr::V6(_) => {
                message.to_wire().map(|it: mld::Message| (it.destination().into(), it.to_bytes()))
            }
            IpAddr::V4(_) => {
                message.to_wire().map(|it: igmp::Message| (it.destination().into(), it.to_bytes()))
            }
        };
        packet.map_or(Ok(()), |(to, bytes)| {
            raw::send_from(&self.socket, self.interface.index, self.link.address(), to, &bytes)
        })
    }

    fn failed(&self, source: io::Error) -> ListenError {
        ListenError::Socket { interface: self.interface.name.clone(), source }
    }
}

fn timers() -> Timers {
    let last_listener_query_interval = LAST_LISTENER_QUERY_INTERVAL;
    Timers { last_listener_query_interval, ..Timers::with_query_interval(QUERY_INTERVAL) }
}

/// A change that a host reports of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Word {
    Listens,
    /// The host listens no more, or to fewer sources.
    Leaves,
}

fn word_about(group: IpAddr, message: &Message) -> Option<Word> {
    match message {
        Message::Report(records) => {
            let record = records.iter().rfind(|record| record.group == group)?;
            let leaves = matches!(record.kind, RecordKind::ToInclude | RecordKind::Block);
            Some(if leaves { Word::Leaves } else { Word::Listens })
        }
        Message::OldReport(listens) | Message::IgmpV1Report(listens) => {
            (*listens == group).then_some(Word::Listens)
        }
        Message::OldLeave(left) => (*left == group).then_some(Word::Leaves),
        _ => None,
    }
}

/// The address that queries come from: link-local for MLD (RFC 9777, 5.1.14).
fn own_address(interface: &Interface, group: IpAddr) -> Result<IpAddr, ListenError> {
    let suits = |address: &&IpAddr| match address {
        IpAddr::V6(address) => group.is_ipv6() && address.is_unicast_link_local(),
        IpAddr::V4(_) => group.is_ipv4(),
    };
    let found = interface.addresses.iter().find(suits).copied();
    found.ok_or_else(|| ListenError::NoAddress(interface.name.clone()))
}

/// Whether the kernel refuses the source address: the interface has lost it, or checks whether another has it too.
fn says_no_such_source(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EADDRNOTAVAIL))
}

fn open_socket(interface: &Interface, group: IpAddr) -> io::Result<Socket> {
    let socket = if group.is_ipv6() { raw::open_mld()? } else { raw::open_igmp()? };
    let groups: [IpAddr; 2] = if group.is_ipv6() {
        raw::set_up_mld(&socket, &mld::Message::TYPES)?;
        [mld::REPORT_DESTINATION.into(), mld::ALL_ROUTERS.into()]
    } else {
        raw::set_up_igmp(&socket)?;
        [igmp::REPORT_DESTINATION.into(), igmp::ALL_ROUTERS.into()]
    };
    groups.iter().try_for_each(|group| option::join(&socket, *group, None, interface.index))?;
    socket.bind_device(Some(interface.name.as_bytes()))?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use treecast_proto::membership::Record;

    use super::*;

    #[test]
    fn a_word_about_another_group_is_none() {
        let group = IpAddr::from([239, 1, 2, 3]);
        let record = |kind, group| Record { kind, group, sources: Vec::new() };
        let other = IpAddr::from([239, 1, 2, 4]);
        for (kind, word) in [
            (RecordKind::IsExclude, Word::Listens),
            (RecordKind::Allow, Word::Listens),
            (RecordKind::ToInclude, Word::Leaves),
            (RecordKind::Block, Word::Leaves),
        ] {
            let message = Message::Report(vec![record(kind, group), record(RecordKind::IsExclude, other)]);
            assert_eq!(word_about(group, &message), Some(word), "{kind:?}");
        }
        assert_eq!(word_about(group, &Message::Report(vec![record(RecordKind::ToInclude, other)])), None);
        assert_eq!(word_about(group, &Message::OldLeave(other)), None);
        assert_eq!(word_about(group, &Message::OldLeave(group)), Some(Word::Leaves));
        assert_eq!(word_about(group, &Message::IgmpV1Report(group)), Some(Word::Listens));
    }

    #[test]
    fn nobody_reports_listeners_on_loopback_or_to_a_link_local_group() {
        let interface = Interface::named("lo").unwrap();
        let open = |group: &str, interface: Interface| {
            let address = GroupAddress { group: group.parse().unwrap(), source: None, interface };
            ListenerWatch::open(&address, Instant::ZERO).map(drop)
        };
        assert!(matches!(open("[ff15::1]:5000", interface.clone()), Err(ListenError::Scope(_))));
        let elsewhere = Interface { is_loopback: false, ..interface };
        assert!(matches!(open("[ff02::99]:5000", elsewhere.clone()), Err(ListenError::Scope(_))));
        assert!(matches!(open("224.0.0.99:5000", elsewhere), Err(ListenError::Scope(_))));
    }
}
