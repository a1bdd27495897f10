//! Receivers that get copies, on a fanout without multicast.
//!
//! A receiver asks for copies by datagram, whose source address anybody can make up. So the first request is answered with a token, a keyed
//! hash of the address, and only a request that repeats it counts: the sender sends nothing to a host that has not asked.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv6Addr, SocketAddr},
    time::Duration,
};

use treecast_wire::message::{Local, Member, Message};

use super::{
    super::{CopiesSent, LISTENING},
    Sender,
};
use crate::{
    Instant, Step,
    object::{
        Address, Destination, MAX_FROM_ONE_NETWORK, MAX_RECEIVERS, PER_ADDRESS, ReceiverId, SenderEvent,
        SenderTransmit,
    },
};

/// The shortest time between two changes of a receiver's port.
const PORT_CHANGE: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Listeners {
    config: CopiesSent,
    by_member: BTreeMap<Member, Listener>,
    next: u32,
    /// The time from which a new receiver may have the sender say at once how the session is.
    next_hurry: Instant,
}

#[derive(Debug)]
struct Listener {
    receiver: ReceiverId,
    port: u16,
    /// The time when the port was named.
    named: Instant,
    heard: Instant,
}

impl Listeners {
    pub fn new(config: CopiesSent) -> Self {
        Self { config, by_member: BTreeMap::new(), next: 0, next_hurry: Instant::ZERO }
    }

    /// The number of copies of a block for which the rate counts.
    pub fn share(&self) -> u64 {
        if self.config.share_rate { self.by_member.len().max(1) as u64 } else { 1 }
    }

    /// Whether a member gets copies, and so has shown that its address is its own.
    pub fn has(&self, member: Member) -> bool {
        self.by_member.contains_key(&member)
    }

    fn token(&self, member: Member) -> u64 {
        let hash = blake3::keyed_hash(&self.config.key, member.to_string().as_bytes());
        u64::from_be_bytes(*hash.as_bytes().first_chunk().expect("a hash is longer"))
    }

    fn remove(&mut self, member: Member) -> Option<SenderEvent> {
        let listener = self.by_member.remove(&member)?;
        Some(SenderEvent::WantsNoCopies { receiver: listener.receiver })
    }

    /// Whether there is room for one more receiver: in all, from its address, and from its network.
    fn has_room(&self, member: Member) -> bool {
        let ip = member.0.ip();
        let (first, last) = match ip {
            IpAddr::V4(_) => (ip, ip),
            IpAddr::V6(ip) => {
                let low = u128::from(u64::MAX);
                let network = ip.to_bits() & !low;
                (Ipv6Addr::from_bits(network).into(), Ipv6Addr::from_bits(network | low).into())
            }
        };
        let count = |first: IpAddr, last: IpAddr, most: usize| {
            let all = Member(SocketAddr::new(first, 0))..=Member(SocketAddr::new(last, u16::MAX));
            self.by_member.range(all).take(most).count()
        };
        self.by_member.len() < MAX_RECEIVERS
            && count(ip, ip, PER_ADDRESS as usize) < PER_ADDRESS as usize
            && count(first, last, MAX_FROM_ONE_NETWORK) < MAX_FROM_ONE_NETWORK
    }

    /// Adds a receiver, or takes note that it is still there. Its copies go to another port from now on when it names one.
    fn note(&mut self, now: Instant, member: Member, port: u16) -> Option<SenderEvent> {
        let mut at = member.0;
        at.set_port(port);
        if let Some(known) = self.by_member.get_mut(&member) {
            known.heard = now;
            if known.port == port || now < known.named + PORT_CHANGE {
                return None;
            }
            (known.port, known.named) = (port, now);
            return Some(SenderEvent::WantsCopies { receiver: known.receiver, at });
        }
        if !self.has_room(member) {
            return None;
        }
        let receiver = ReceiverId(self.next);
        self.next = self.next.wrapping_add(1);
        self.by_member.insert(member, Listener { receiver, port, named: now, heard: now });
        Some(SenderEvent::WantsCopies { receiver, at })
    }

    /// Whether a new receiver may have the sender say at once how the session is: not one after the other.
    fn may_hurry(&mut self, now: Instant) -> bool {
        let may = now >= self.next_hurry;
        if may {
            self.next_hurry = now + super::STATE;
        }
        may
    }
}

impl Sender {
    /// Handles a request for copies, or for none any more.
    pub(super) fn listened(&mut self, now: Instant, from: Member, (token, port): (u64, u16)) {
        let Some(listeners) = &mut self.listeners else { return };
        let own = listeners.token(from);
        if token != own {
            let message = Message::Local(Local::Listen { token: own, port: 0 });
            let (to, file) = (Destination::Local(Address::Member(from)), self.file(0));
            return self.transmit(SenderTransmit::Message { to, file, message });
        }
        let is_new = !listeners.by_member.contains_key(&from);
        let event = match port {
            0 => listeners.remove(from),
            port => listeners.note(now, from, port),
        };
        if event.is_some() && is_new && listeners.may_hurry(now) {
            self.times.next_state = self.times.next_state.min(now + super::STATE / 10);
        }
        self.out.extend(event.map(Step::Event));
    }

    /// Forgets receivers that have been silent for too long.
    pub(super) fn forget_silent_listeners(&mut self, now: Instant) {
        let Some(listeners) = &mut self.listeners else { return };
        let is_silent =
            |(member, known): (&Member, &Listener)| (now >= known.heard + LISTENING).then_some(*member);
        let silent: Vec<Member> = listeners.by_member.iter().filter_map(is_silent).collect();
        let events: Vec<_> = silent.into_iter().filter_map(|member| listeners.remove(member)).collect();
        self.out.extend(events.into_iter().map(Step::Event));
    }

    /// The number of the receiver that asks for copies from this address.
    pub fn listener(&self, member: Member) -> Option<ReceiverId> {
        Some(self.listeners.as_ref()?.by_member.get(&member)?.receiver)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use treecast_wire::{
        header::{FileId, SessionId},
        message::{BeginOfFile, TransferType},
    };

    use super::*;
    use crate::{
        local::{Mode, SenderConfig, Tuning},
        object::{Lane, SenderInput},
    };

    fn sender() -> Sender {
        let config = SenderConfig {
            session: SessionId(1),
            block_len: 1_200,
            me: member(0),
            mode: Mode::Local,
            max_run_len: 1_200,
            rate_bps: 1_000_000,
            shares_link: false,
            minimum_rate_bps: 0,
            window_bytes: 1 << 20,
            settling: Duration::ZERO,
            wait_for: None,
            named: None,
            copies: Some(CopiesSent { key: [7; 32], share_rate: true }),
            tuning: Tuning::default(),
        };
        Sender::new(config, BeginOfFile::new(TransferType::DiskToDisk, 10, "a").into_iter().collect())
    }

    fn member(port: u16) -> Member {
        Member(([192, 0, 2, 1], port).into())
    }

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    /// Returns the token with which the sender answers a request for copies, and the receivers that get
    /// copies then.
    fn ask(
        sender: &mut Sender,
        millis: u64,
        from: Member,
        (token, port): (u64, u16),
    ) -> (Option<u64>, Vec<String>) {
        let message = Message::Local(Local::Listen { token, port });
        sender.handle(at(millis), SenderInput::Local { from, file: FileId::new(SessionId(1), 0), message });
        let (mut told, mut events) = (None, Vec::new());
        loop {
            match sender.poll(at(millis), Lane::Group) {
                Step::Transmit(SenderTransmit::Message { to, message, .. }) => {
                    if let Message::Local(Local::Listen { token, .. }) = message {
                        assert_eq!(to, Destination::Local(Address::Member(from)));
                        told = Some(token);
                    }
                }
                Step::Transmit(other) => panic!("{other:?}"),
                Step::Event(event) => events.push(format!("{event:?}")),
                Step::Wait(..) => return (told, events),
            }
        }
    }

    #[test]
    fn copies_go_only_where_a_receiver_has_shown_that_it_is() {
        let mut sender = sender();
        let (token, events) = ask(&mut sender, 0, member(9), (0, 6_000));
        let token = token.expect("it is told");
        assert_eq!(events, Vec::<String>::new(), "the address may be made up");
        let (told, events) = ask(&mut sender, 10, member(8), (token, 6_000));
        assert!(told.is_some_and(|other| other != token) && events.is_empty(), "that token is another's");
        let (told, events) = ask(&mut sender, 20, member(9), (token, 6_000));
        assert_eq!((told, events.len(), sender.listener(member(9))), (None, 1, Some(ReceiverId(0))));
        assert!(events[0].contains("WantsCopies") && events[0].contains("192.0.2.1:6000"), "{events:?}");
        assert_eq!(ask(&mut sender, 2_000, member(9), (token, 6_000)).1, Vec::<String>::new());
        let (_, events) = ask(&mut sender, 2_500, member(9), (token, 7_000));
        assert!(events.len() == 1 && events[0].contains("ReceiverId(0), at: 192.0.2.1:7000"), "{events:?}");
        assert_eq!(ask(&mut sender, 2_600, member(9), (token, 8_000)).1, Vec::<String>::new(), "too soon");
        let (_, events) = ask(&mut sender, 7_000, member(8), (0, 6_000));
        assert!(events.len() == 1 && events[0].contains("WantsNoCopies"), "it was silent: {events:?}");
    }

    #[test]
    fn one_host_takes_no_more_copies_than_its_share() {
        let mut sender = sender();
        let mut joined = 0;
        for port in 1..=300 {
            let (token, _) = ask(&mut sender, 0, member(port), (0, 6_000));
            joined += ask(&mut sender, 0, member(port), (token.unwrap(), 6_000)).1.len();
        }
        assert_eq!(joined, PER_ADDRESS as usize);
        let other = Member(([192, 0, 2, 2], 9).into());
        let (token, _) = ask(&mut sender, 0, other, (0, 6_000));
        assert_eq!(ask(&mut sender, 0, other, (token.unwrap(), 6_000)).1.len(), 1);
    }
}
