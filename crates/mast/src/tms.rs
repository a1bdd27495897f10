//! The Tunnel Management System of a provider (interdomain-2013, 6.3.3): it makes the provider's ends of tunnels for stubs
//! that prove who they are, without an administrator.
//!
//! [`Tms`] is a machine without sockets. Its caller verifies messages, hands them to [`Tms::handle`], and calls [`Tms::expire`]
//! from time to time.

use std::{collections::BTreeMap, net::Ipv6Addr, time::Duration};

use serde::{Deserialize, Serialize};

use super::{
    Prefix,
    message::{Envelope, Message, Open, Opened, Refusal, Stamps, TunnelKind},
    srms::Now,
};

/// The most tunnels at a time. Each needs a block of two addresses out of one of 64 bits.
const MAX_TUNNELS: usize = 4096;

/// The highest number of a tunnel: VXLAN has 24 bits for it.
const LAST_NUMBER: u32 = (1 << 24) - 1;

/// The bounds of a tunnel's lifetime in seconds.
const LIFETIMES: std::ops::RangeInclusive<u32> = 30..=3600;

/// The provider that the system manages.
#[derive(Debug, Clone)]
pub struct Provider {
    /// The name by which stubs know the system.
    pub name: String,
    pub as_number: u32,
    /// The provider's end of every tunnel.
    pub end: Ipv6Addr,
    /// The block of the addresses inside tunnels, of at most 64 bits.
    pub inner: Prefix,
    /// The kinds of tunnels that the router can make.
    pub kinds: Vec<TunnelKind>,
    pub stubs: Vec<Customer>,
}

/// A stub that may ask for tunnels.
#[derive(Debug, Clone)]
pub struct Customer {
    /// The name of its SRMS.
    pub name: String,
    pub as_number: u32,
    /// The prefixes that the provider has given to it.
    pub prefixes: Vec<Prefix>,
}

/// A tunnel as the router is to make it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tunnel {
    pub stub: String,
    pub prefix: Prefix,
    pub kind: TunnelKind,
    pub id: u32,
    pub provider_end: Ipv6Addr,
    pub stub_end: Ipv6Addr,
    pub stub_as: u32,
    pub inner_stub: Ipv6Addr,
    pub inner_provider: Ipv6Addr,
}

/// A command to the caller. Commands are carried out in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Makes a tunnel, and calls [`Tms::failed`] in place of sending `answer` if that fails.
    Make {
        tunnel: Tunnel,
        answer: Envelope,
    },
    Remove(Tunnel),
    /// Sends an answer to the stub of this name.
    Answer {
        stub: String,
        answer: Envelope,
    },
}

/// The machine.
pub struct Tms {
    provider: Provider,
    /// The tunnels, and until when each lives, by the number of the tunnel.
    tunnels: BTreeMap<u32, (Tunnel, Duration)>,
    stamps: Stamps,
}

impl Tms {
    pub fn new(provider: Provider) -> Self {
        Self { provider, tunnels: BTreeMap::new(), stamps: Stamps::default() }
    }

    /// Handles a message of a stub whose code is right and that has not come before.
    pub fn handle(&mut self, now: Now, envelope: &Envelope) -> Vec<Command> {
        match &envelope.message {
            Message::Open(open) => self.open(now, envelope, open),
            Message::Close { prefix } => {
                let removed = self.number(&envelope.sender, *prefix).and_then(|id| self.tunnels.remove(&id));
                let answer = self.answer(now, Message::Closed { answers: envelope.stamp });
                let removed = removed.into_iter().map(|(tunnel, _)| Command::Remove(tunnel));
                let stub = envelope.sender.clone();
                removed.chain([Command::Answer { stub, answer }]).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Takes note that a tunnel could not be made. Returns the answer to the stub.
    pub fn failed(&mut self, now: Now, tunnel: &Tunnel, answer: &Envelope) -> Envelope {
        self.tunnels.remove(&tunnel.id);
        let answers = match answer.message {
            Message::Opened(opened) => opened.answers,
            _ => 0,
        };
        self.answer(now, Message::Refused { answers, reason: Refusal::Busy })
    }

    /// Removes the tunnels that were not asked for again.
    pub fn expire(&mut self, now: Now) -> Vec<Command> {
        let is_over = |(_, (_, until)): &(&u32, &(Tunnel, Duration))| *until <= now.elapsed;
        let over: Vec<u32> = self.tunnels.iter().filter(is_over).map(|(id, _)| *id).collect();
        let removed = over.iter().filter_map(|id| self.tunnels.remove(id));
        removed.map(|(tunnel, _)| Command::Remove(tunnel)).collect()
    }

    /// Takes up a tunnel that an earlier run has made, for the time that it has left. Returns whether its stub may still have it.
    pub fn restore(&mut self, now: Now, tunnel: Tunnel, left: Duration) -> bool {
        let open = Open {
            prefix: tunnel.prefix,
            kind: tunnel.kind,
            stub_end: tunnel.stub_end,
            stub_as: tunnel.stub_as,
            lifetime_s: 0,
        };
        let is_free =
            !self.tunnels.contains_key(&tunnel.id) && self.number(&tunnel.stub, tunnel.prefix).is_none();
        // The provider's own addresses may have been configured anew.
        let has_ends = self.provider.end == tunnel.provider_end
            && self.inner(tunnel.id) == [tunnel.inner_provider, tunnel.inner_stub];
        let is_taken = is_free && has_ends && self.judge(&tunnel.stub, &open).is_ok();
        if is_taken {
            let longest = Duration::from_secs((*LIFETIMES.end()).into());
            self.tunnels.insert(tunnel.id, (tunnel, now.elapsed + left.min(longest)));
        }
        is_taken
    }

    /// Forgets a tunnel that could not be made again.
    pub fn forget(&mut self, id: u32) {
        self.tunnels.remove(&id);
    }

    /// The time at which the next tunnel is over.
    pub fn next_expiry(&self) -> Option<Duration> {
        self.tunnels.values().map(|(_, until)| *until).min()
    }

    /// All tunnels that are there, and until when each lives.
    pub fn lifetimes(&self) -> impl Iterator<Item = (&Tunnel, Duration)> {
        self.tunnels.values().map(|(tunnel, until)| (tunnel, *until))
    }

    /// The addresses inside the tunnel with this number: the provider's and the stub's.
    fn inner(&self, id: u32) -> [Ipv6Addr; 2] {
        let provider = u128::from(self.provider.inner.address()) + 2 * u128::from(id);
        [provider, provider + 1].map(Ipv6Addr::from)
    }

    fn open(&mut self, now: Now, envelope: &Envelope, open: &Open) -> Vec<Command> {
        let refused = |tms: &mut Self, reason| {
            let message = Message::Refused { answers: envelope.stamp, reason };
            vec![Command::Answer { stub: envelope.sender.clone(), answer: tms.answer(now, message) }]
        };
        if let Err(reason) = self.judge(&envelope.sender, open) {
            return refused(self, reason);
        }
        let known = self.number(&envelope.sender, open.prefix);
        let free = || self.free_number(&envelope.sender, open.prefix);
        let Some(id) = known.or_else(free) else { return refused(self, Refusal::Busy) };
        let [inner_provider, inner_stub] = self.inner(id);
        let tunnel = Tunnel {
            stub: envelope.sender.clone(),
            prefix: open.prefix,
            kind: open.kind,
            id,
            provider_end: self.provider.end,
            stub_end: open.stub_end,
            stub_as: open.stub_as,
            inner_stub,
            inner_provider,
        };
        let lifetime_s = open.lifetime_s.clamp(*LIFETIMES.start(), *LIFETIMES.end());
        let opened = Opened {
            answers: envelope.stamp,
            prefix: tunnel.prefix,
            kind: tunnel.kind,
            id,
            provider_end: self.provider.end,
            inner_stub: tunnel.inner_stub,
            inner_provider: tunnel.inner_provider,
            provider_as: self.provider.as_number,
            lifetime_s,
        };
        let answer = self.answer(now, Message::Opened(opened));
        let until = now.elapsed + Duration::from_secs(lifetime_s.into());
        match self.tunnels.insert(id, (tunnel.clone(), until)) {
            Some((old, _)) if old == tunnel => vec![Command::Answer { stub: tunnel.stub, answer }],
            Some((old, _)) => vec![Command::Remove(old), Command::Make { tunnel, answer }],
            None => vec![Command::Make { tunnel, answer }],
        }
    }

    /// Whether the provider makes this tunnel.
    fn judge(&self, stub: &str, open: &Open) -> Result<(), Refusal> {
        let stub = self.provider.stubs.iter().find(|known| known.name == stub);
        let is_given =
            |stub: &Customer| stub.prefixes.contains(&open.prefix) && stub.as_number == open.stub_as;
        if !stub.is_some_and(is_given) {
            return Err(Refusal::Prefix);
        }
        // An end inside of the prefix is reached by the link whose failure the tunnel is for.
        let end = open.stub_end;
        let is_own = end == self.provider.end || self.provider.inner.contains(end);
        let is_none =
            end.is_multicast() || end.is_unspecified() || end.is_loopback() || end.is_unicast_link_local();
        if open.prefix.contains(end) || is_own || is_none {
            return Err(Refusal::End);
        }
        if self.provider.kinds.contains(&open.kind) { Ok(()) } else { Err(Refusal::Kind) }
    }

    /// A number for a new tunnel. It begins at a hash, because a host cannot have two VXLAN tunnels of one number, and a stub has
    /// tunnels of several providers.
    fn free_number(&self, stub: &str, prefix: Prefix) -> Option<u32> {
        if self.tunnels.len() >= MAX_TUNNELS {
            return None;
        }
        let hash = blake3::hash(format!("{}/{stub}/{prefix}", self.provider.end).as_bytes());
        let start = u32::from_be_bytes(*hash.as_bytes().first_chunk().expect("a hash has 32 bytes"));
        let number = |step: u32| 1 + start.wrapping_add(step) % LAST_NUMBER;
        (0..=MAX_TUNNELS as u32).map(number).find(|id| !self.tunnels.contains_key(id))
    }

    fn number(&self, stub: &str, prefix: Prefix) -> Option<u32> {
        let of_stub =
            |(_, (tunnel, _)): &(&u32, &(Tunnel, Duration))| tunnel.stub == stub && tunnel.prefix == prefix;
        self.tunnels.iter().find(of_stub).map(|(id, _)| *id)
    }

    fn answer(&mut self, now: Now, message: Message) -> Envelope {
        Envelope { sender: self.provider.name.clone(), stamp: self.stamps.next(now.unix_us), message }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Now {
        Now { elapsed: Duration::from_secs(seconds), unix_us: seconds * 1_000_000 }
    }

    fn tms() -> Tms {
        let customer = |name: &str, prefix: &str| Customer {
            name: name.into(),
            as_number: 64_512,
            prefixes: vec![prefix.parse().unwrap()],
        };
        Tms::new(Provider {
            name: "a".into(),
            as_number: 64_601,
            end: "2001:db8:a::1".parse().unwrap(),
            inner: "2001:db8:a:ff::/64".parse().unwrap(),
            kinds: vec![TunnelKind::Vxlan],
            stubs: vec![customer("one", "2001:db8:a:1::/64"), customer("two", "2001:db8:a:2::/64")],
        })
    }

    fn ask(sender: &str, stamp: u64, prefix: &str, change: impl FnOnce(&mut Open)) -> Envelope {
        let mut open = Open {
            prefix: prefix.parse().unwrap(),
            kind: TunnelKind::Vxlan,
            stub_end: "2001:db8:b:1::1".parse().unwrap(),
            stub_as: 64_512,
            lifetime_s: 60,
        };
        change(&mut open);
        Envelope { sender: sender.into(), stamp, message: Message::Open(open) }
    }

    fn refusal(commands: &[Command]) -> Option<Refusal> {
        match commands {
            [Command::Answer { answer: Envelope { message: Message::Refused { reason, .. }, .. }, .. }] => {
                Some(*reason)
            }
            _ => None,
        }
    }

    #[test]
    fn each_stub_gets_a_tunnel_of_its_own() {
        let mut tms = tms();
        let one = tms.handle(at(0), &ask("one", 1, "2001:db8:a:1::/64", |_| ()));
        let [Command::Make { tunnel, answer: Envelope { message: Message::Opened(opened), .. } }] = &one[..]
        else {
            panic!("{one:?}")
        };
        assert_eq!((opened.answers, opened.provider_as), (1, 64_601));
        let [provider, stub] = [tunnel.inner_provider, tunnel.inner_stub].map(u128::from);
        assert!(provider % 2 == 0 && stub == provider + 1, "both are in one block of 127 bits");
        tms.handle(at(0), &ask("two", 1, "2001:db8:a:2::/64", |_| ()));
        let ids: Vec<u32> = tms.lifetimes().map(|(tunnel, _)| tunnel.id).collect();
        assert!(ids.len() == 2 && ids.iter().all(|id| (1..=LAST_NUMBER).contains(id)), "{ids:?}");
        // The same again makes no second tunnel; another end replaces it.
        let again = tms.handle(at(1), &ask("one", 2, "2001:db8:a:1::/64", |_| ()));
        assert!(matches!(&again[..], [Command::Answer { .. }]), "{again:?}");
        let moved =
            ask("one", 3, "2001:db8:a:1::/64", |open| open.stub_end = "2001:db8:c::1".parse().unwrap());
        let moved = tms.handle(at(1), &moved);
        assert!(matches!(&moved[..], [Command::Remove(_), Command::Make { .. }]), "{moved:?}");
    }

    #[test]
    fn what_is_not_the_stubs_own_is_refused() {
        let mut tms = tms();
        let of_another = ask("one", 1, "2001:db8:a:2::/64", |_| ());
        assert_eq!(refusal(&tms.handle(at(0), &of_another)), Some(Refusal::Prefix));
        let wrong_as = ask("one", 1, "2001:db8:a:1::/64", |open| open.stub_as = 1);
        assert_eq!(refusal(&tms.handle(at(0), &wrong_as)), Some(Refusal::Prefix));
        let inside =
            ask("one", 1, "2001:db8:a:1::/64", |open| open.stub_end = "2001:db8:a:1::1".parse().unwrap());
        assert_eq!(refusal(&tms.handle(at(0), &inside)), Some(Refusal::End));
        for end in ["2001:db8:a::1", "2001:db8:a:ff::9", "::1", "fe80::1", "ff02::1", "::"] {
            let strange = ask("one", 1, "2001:db8:a:1::/64", |open| open.stub_end = end.parse().unwrap());
            assert_eq!(refusal(&tms.handle(at(0), &strange)), Some(Refusal::End), "{end}");
        }
        let gre = ask("one", 1, "2001:db8:a:1::/64", |open| open.kind = TunnelKind::Gre);
        assert_eq!(refusal(&tms.handle(at(0), &gre)), Some(Refusal::Kind));
        let close = Message::Close { prefix: "2001:db8:a:2::/64".parse().unwrap() };
        tms.handle(at(0), &ask("two", 1, "2001:db8:a:2::/64", |_| ()));
        tms.handle(at(0), &Envelope { sender: "one".into(), stamp: 2, message: close });
        assert_eq!(tms.lifetimes().count(), 1, "nobody closes the tunnel of another stub");
    }

    #[test]
    fn a_tunnel_ends_when_nobody_asks_for_it_any_more() {
        let mut tms = tms();
        tms.handle(at(0), &ask("one", 1, "2001:db8:a:1::/64", |_| ()));
        tms.handle(at(50), &ask("one", 2, "2001:db8:a:1::/64", |_| ()));
        assert_eq!((tms.expire(at(109)), tms.next_expiry()), (vec![], Some(Duration::from_secs(110))));
        assert!(matches!(&tms.expire(at(110))[..], [Command::Remove(_)]));
        assert_eq!(tms.next_expiry(), None);
    }

    #[test]
    fn tunnels_of_an_earlier_run_are_taken_up_if_their_stubs_may_have_them() {
        let mut before = tms();
        before.handle(at(0), &ask("one", 1, "2001:db8:a:1::/64", |_| ()));
        let tunnel = before.lifetimes().next().expect("a tunnel").0.clone();
        let left = Duration::from_secs(20);
        let mut after = tms();
        assert!(after.restore(at(0), tunnel.clone(), left));
        assert!(!after.restore(at(0), tunnel.clone(), left), "it is there already");
        let again = after.handle(at(1), &ask("one", 2, "2001:db8:a:1::/64", |_| ()));
        assert!(matches!(&again[..], [Command::Answer { .. }]), "the stub keeps it: {again:?}");
        let mut without = tms();
        without.provider.stubs.remove(0);
        assert!(!without.restore(at(0), tunnel.clone(), left), "the provider has no such stub any more");
        let moved = Tunnel { inner_stub: "2001:db8:a:ff::5".parse().unwrap(), ..tunnel.clone() };
        assert!(!tms().restore(at(0), moved, left), "its addresses are those of another number");
        let mut elsewhere = tms();
        elsewhere.provider.end = "2001:db8:a::2".parse().unwrap();
        assert!(!elsewhere.restore(at(0), tunnel, left), "the provider's end has another address");
        let new = elsewhere.handle(at(1), &ask("one", 2, "2001:db8:a:1::/64", |_| ()));
        let [Command::Make { tunnel, .. }] = &new[..] else { panic!("{new:?}") };
        assert_eq!(tunnel.provider_end, elsewhere.provider.end);
    }

    #[test]
    fn a_tunnel_that_could_not_be_made_is_refused_and_forgotten() {
        let mut tms = tms();
        let made = tms.handle(at(0), &ask("one", 7, "2001:db8:a:1::/64", |_| ()));
        let [Command::Make { tunnel, answer }] = &made[..] else { panic!("{made:?}") };
        let answer = tms.failed(at(0), tunnel, answer);
        assert_eq!(answer.message, Message::Refused { answers: 7, reason: Refusal::Busy });
        assert_eq!(tms.lifetimes().count(), 0);
    }
}
