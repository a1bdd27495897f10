//! A host of a run: carries out what the doctor asks, within bounds.

use std::{
    io,
    net::IpAddr,
    time::{Duration, Instant},
};

use treecast_host::{interface::Interface, netlink::Netlink, user};

use super::{
    ear::{Listening, Wanted},
    groups::Groups,
    message::{Answer, Ear, Header, Host, Join, Request, Round, Target, VERSION, Visit},
    plan::HOP_LIMIT,
    probe,
    sending::Sending,
    visit,
};
use crate::host;

/// The largest number of packets, and of bytes, that a host sends in a minute, whoever asks.
const PACKETS_A_MINUTE: u32 = 20_000;
const BYTES_A_MINUTE: u64 = 24 << 20;
/// The largest number of packets, and of bytes, in one round.
const MAX_ROUND_PACKETS: u32 = 2_000;
const MAX_PACKET_BYTES: u32 = 9_000;
/// The longest that one request may send.
const MAX_SENDING: Duration = Duration::from_secs(30);
const MAX_HOPS: u8 = 16;
/// The largest number of senders' addresses whose routes are looked up.
const MAX_SENDERS: usize = 1216;

/// A host of a run.
pub struct Agent {
    name: String,
    interface: Interface,
    port: u16,
    listen: Duration,
    budget: Budget,
    listening: Option<(u64, Listening)>,
    /// The addresses that have proved that they are the asker's. `None`: the asker is this host's own user, and may
    /// send anywhere.
    proved: Option<Vec<IpAddr>>,
}

/// The packets and bytes that a host may still send in this minute.
struct Budget {
    since: Instant,
    packets: u32,
    bytes: u64,
}

impl Budget {
    fn new() -> Self {
        Self { since: Instant::now(), packets: PACKETS_A_MINUTE, bytes: BYTES_A_MINUTE }
    }

    fn take(&mut self, rounds: &[Round], now: Instant) -> Result<(), &'static str> {
        if now.duration_since(self.since) >= Duration::from_secs(60) {
            *self = Self { since: now, ..Self::new() };
        }
        let is_small = |round: &Round| {
            let is_near = round.hop_limit <= HOP_LIMIT;
            let at_once = u64::from(round.at_once) * u64::from(round.bytes);
            let is_short = round.at_once > 0 && at_once <= u64::from(MAX_PACKET_BYTES);
            round.packets <= MAX_ROUND_PACKETS && is_short && is_near
        };
        if !rounds.iter().all(is_small) {
            return Err("that is more than one round may send");
        }
        let time: u64 = rounds.iter().map(|round| u64::from(round.packets) * u64::from(round.gap_us)).sum();
        if Duration::from_micros(time) > MAX_SENDING {
            return Err("that takes too long");
        }
        let packets: u64 = rounds.iter().map(|round| u64::from(round.packets)).sum();
        let bytes: u64 = rounds.iter().map(|round| u64::from(round.packets) * u64::from(round.bytes)).sum();
        if packets > u64::from(self.packets) || bytes > self.bytes {
            return Err("this host has sent enough probes in this minute: try again in a minute");
        }
        self.packets -= packets as u32;
        self.bytes -= bytes;
        Ok(())
    }
}

impl Agent {
    /// A host with this name, which uses one interface and one port. It listens for queriers for the time `listen`.
    pub fn new(name: String, interface: Interface, port: u16, listen: Duration) -> Self {
        Self { name, interface, port, listen, budget: Budget::new(), listening: None, proved: None }
    }

    /// Serves only the asker with these addresses from now on, as [`Agent`]'s field of this name says. Ends what an
    /// earlier asker has begun.
    pub(super) fn serve_only(&mut self, proved: Vec<IpAddr>) {
        (self.listening, self.proved) = (None, Some(proved));
    }

    /// Adds an address that the asker has proved to be its own.
    pub(super) fn add_proved(&mut self, address: IpAddr) {
        self.proved.iter_mut().for_each(|proved| proved.push(address));
    }

    /// Carries out a request. `token` is what a second connection has to show.
    pub(super) fn answer(&mut self, request: &Request, token: u64) -> Answer {
        let answer = match request {
            Request::Hello { version } if *version == VERSION => Ok(Answer::Host(self.host(token))),
            Request::Hello { version } => {
                Err(io::Error::other(format!("it speaks version {VERSION} of the doctor, and not {version}")))
            }
            Request::Also { .. } => Ok(Answer::Done),
            Request::Examine => self.examine(),
            Request::Listen { run, groups, senders, tests, joins, visit } => {
                let groups = Groups::of_run(*run, groups);
                self.listen(
                    Wanted { run: *run, senders: *senders, tests: *tests },
                    groups,
                    joins,
                    visit.as_ref(),
                )
            }
            Request::Send { run, sender, rounds } => self.send(*run, *sender, rounds),
            Request::Collect { senders } => self.collect(senders),
            Request::Trace { to, header, hops } => {
                let is_allowed = self.check(&[], &[*to]);
                is_allowed
                    .and_then(|()| {
                        self.sending(0).and_then(|it| it.trace(*to, *header, (*hops).min(MAX_HOPS)))
                    })
                    .map(|routers| Answer::Path { routers })
            }
        };
        answer.unwrap_or_else(|error| Answer::Refused { why: error.to_string() })
    }

    fn host(&self, token: u64) -> Host {
        let of_family = |is_ipv4: bool| {
            let reachable = self.interface.reachable_addresses();
            reachable.into_iter().find(|address| address.is_ipv4() == is_ipv4)
        };
        Host {
            version: VERSION,
            name: self.name.clone(),
            is_root: user::is_root(),
            interface: self.interface.name.clone(),
            addresses: [true, false].into_iter().filter_map(of_family).collect(),
            lan: host::lan(&self.interface),
            mtu: self.interface.mtu,
            token,
        }
    }

    fn examine(&self) -> io::Result<Answer> {
        let facts = host::gather(&self.name, Some(&self.interface.name), self.listen)?;
        let findings = host::findings(&facts);
        Ok(Answer::Examined { findings, queriers: facts.queriers.heard })
    }

    fn listen(
        &mut self,
        wanted: Wanted,
        groups: Groups,
        joins: &[Join],
        visit: Option<&Visit>,
    ) -> io::Result<Answer> {
        // The port must be free before it is bound again.
        self.listening = None;
        if let Some(visit) = visit {
            self.check(&[in_all(visit)], &[])?;
        }
        let joins = &joins[..joins.len().min(groups.len())];
        let listening =
            Listening::start(&self.interface, self.port, wanted, (groups, joins), visit.cloned())?;
        self.listening = Some((wanted.run, listening));
        Ok(Answer::Done)
    }

    fn send(&mut self, run: u64, sender: u16, rounds: &[Round]) -> io::Result<Answer> {
        let hosts: Vec<_> = rounds
            .iter()
            .filter_map(|round| match round.to {
                Target::Host(address) => Some(address),
                Target::Group(_) => None,
            })
            .collect();
        self.check(rounds, &hosts)?;
        if self.listening.as_ref().is_none_or(|(listening, _)| *listening != run) {
            return Err(io::Error::other("it does not listen in this run"));
        }
        let sending = self.sending(sender)?;
        let failures: Vec<_> = rounds.iter().filter_map(|round| sending.round(round).err()).collect();
        Ok(Answer::Sent { failed: failures.len() as u32, why: failures.first().map(ToString::to_string) })
    }

    /// Refuses what is too much, and packets to hosts that have not proved their address.
    fn check(&mut self, rounds: &[Round], hosts: &[IpAddr]) -> io::Result<()> {
        if let Some(proved) = &self.proved
            && let Some(stranger) = hosts.iter().find(|host| !proved.contains(host))
        {
            let why = format!("{stranger} has not proved that it is the address of whoever asks");
            return Err(io::Error::other(why));
        }
        // The own user may send what it likes.
        if self.proved.is_none() {
            return Ok(());
        }
        self.budget.take(rounds, Instant::now()).map_err(io::Error::other)
    }

    fn sending(&self, sender: u16) -> io::Result<Sending<'_>> {
        let (run, listening) =
            self.listening.as_ref().ok_or_else(|| io::Error::other("it does not listen"))?;
        let source = self.interface.reachable_addresses().into_iter().find_map(|address| match address {
            IpAddr::V6(address) => Some(address),
            IpAddr::V4(_) => None,
        });
        let (interface, port) = (&self.interface, self.port);
        Ok(Sending {
            sockets: listening.sockets(),
            groups: listening.groups(),
            interface,
            source,
            port,
            run: *run,
            sender,
        })
    }

    fn collect(&mut self, senders: &[IpAddr]) -> io::Result<Answer> {
        let (_, listening) = self.listening.take().ok_or_else(|| io::Error::other("it does not listen"))?;
        Ok(Answer::Heard(Ear { filtered: self.filtered(senders)?, ..listening.end() }))
    }

    /// The senders whose IPv4 packets a strict rp_filter drops, and the interface by which they are reached (RFC 3704, section 2.2).
    fn filtered(&self, senders: &[IpAddr]) -> io::Result<Vec<(IpAddr, String)>> {
        let name = &self.interface.name;
        let setting = |interface: &str| {
            let text = std::fs::read_to_string(format!("/proc/sys/net/ipv4/conf/{interface}/rp_filter"));
            text.ok().and_then(|text| text.trim().parse::<u8>().ok()).unwrap_or(0)
        };
        if setting("all").max(setting(name)) != 1 {
            return Ok(Vec::new());
        }
        let mut netlink = Netlink::open()?;
        let interfaces = netlink.interfaces()?;
        let mut filtered = Vec::new();
        for sender in senders.iter().filter(|sender| sender.is_ipv4()).take(MAX_SENDERS) {
            if let Some(route) =
                netlink.route(*sender, None)?.filter(|route| route.interface != self.interface.index)
            {
                let by = interfaces.get(&route.interface).map(|interface| interface.name.clone());
                filtered.push((*sender, by.unwrap_or_default()));
            }
        }
        Ok(filtered)
    }
}

/// A round with as many packets, in as much time, as a visit.
fn in_all(visit: &Visit) -> Round {
    let groups = visit.groups.len() as u32;
    Round {
        test: 0,
        to: Target::Group(0),
        packets: visit::packets(visit).saturating_mul(groups),
        bytes: probe::LEN as u32,
        at_once: 1,
        gap_us: visit.gap_us / groups.max(1),
        hop_limit: HOP_LIMIT,
        header: Header::None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(to: Target, packets: u32, bytes: u32) -> Round {
        Round { test: 0, to, packets, bytes, at_once: 1, gap_us: 0, hop_limit: 1, header: Header::None }
    }

    fn agent() -> Agent {
        Agent::new("a".into(), Interface::named("lo").unwrap(), 0, Duration::ZERO)
    }

    fn refused(agent: &mut Agent, rounds: &[Round]) -> String {
        match agent.answer(&Request::Send { run: 1, sender: 0, rounds: rounds.to_vec() }, 0) {
            Answer::Refused { why } => why,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_listener_sends_to_nobody_who_has_not_proved_an_address() {
        let (asker, victim) = (IpAddr::from([192, 0, 2, 1]), IpAddr::from([192, 0, 2, 2]));
        let mut agent = agent();
        agent.serve_only(vec![asker]);
        assert!(
            refused(&mut agent, &[round(Target::Host(victim), 1, 0)]).contains("192.0.2.2 has not proved")
        );
        let trace = Request::Trace { to: victim, header: Header::None, hops: 3 };
        assert!(matches!(agent.answer(&trace, 0), Answer::Refused { why } if why.contains("has not proved")));
        let of_asker = refused(&mut agent, &[round(Target::Host(asker), 1, 0)]);
        assert!(of_asker.contains("does not listen"), "{of_asker}");
        agent.add_proved(victim);
        assert!(!refused(&mut agent, &[round(Target::Host(victim), 1, 0)]).contains("proved"));
        // The next asker begins anew.
        agent.serve_only(vec![asker]);
        assert!(refused(&mut agent, &[round(Target::Host(victim), 1, 0)]).contains("has not proved"));
    }

    #[test]
    fn a_listener_sends_no_more_than_so_much_in_a_minute() {
        let mut budget = Budget::new();
        let group = |packets, bytes| round(Target::Group(0), packets, bytes);
        assert!(budget.take(&[group(MAX_ROUND_PACKETS + 1, 100)], Instant::now()).is_err());
        assert!(budget.take(&[group(1, MAX_PACKET_BYTES + 1)], Instant::now()).is_err());
        assert!(budget.take(&[Round { at_once: 0, ..group(1, 60_000) }], Instant::now()).is_err());
        assert!(budget.take(&[Round { at_once: 60, ..group(60, 1_200) }], Instant::now()).is_err());
        assert!(budget.take(&[Round { hop_limit: HOP_LIMIT + 1, ..group(1, 100) }], Instant::now()).is_err());
        let slow = Round { gap_us: 20_000, ..group(2_000, 100) };
        assert!(budget.take(&[slow], Instant::now()).is_err());
        let mut packets = 0;
        while budget.take(&[group(1_000, 100)], Instant::now()).is_ok() {
            packets += 1_000;
        }
        assert_eq!(packets, PACKETS_A_MINUTE);
        let mut budget = Budget::new();
        let mut bytes = 0;
        while budget.take(&[group(500, 9_000)], Instant::now()).is_ok() {
            bytes += 500 * 9_000;
        }
        assert!(bytes <= BYTES_A_MINUTE && bytes > BYTES_A_MINUTE - 5_000_000, "{bytes}");
        assert!(budget.take(&[group(1_000, 100)], Instant::now() + Duration::from_secs(60)).is_ok());
    }

    fn listen(joins: Vec<Join>, visit: Option<Visit>) -> Request {
        Request::Listen { run: 1, groups: Vec::new(), senders: 1, tests: 1, joins, visit }
    }

    #[test]
    fn a_visit_counts_as_what_it_sends() {
        let mut agent = agent();
        agent.serve_only(Vec::new());
        let mut visit = |groups: Vec<(u16, usize)>, gap_us, after_ms| {
            let visit = Visit { sender: 0, groups, gap_us, after_ms };
            agent.answer(&listen(Vec::new(), Some(visit)), 0)
        };
        let refused = |answer, text: &str| matches!(answer, Answer::Refused { why } if why.contains(text));
        assert!(refused(visit(vec![(0, 13)], 100, 1000), "more than one round"));
        assert!(refused(visit(vec![(0, 13); 9999], 40_000, 1000), "more than one round"));
        assert!(refused(visit(vec![(0, 13)], 0, 0), "more than one round"));
        assert!(refused(visit(vec![(0, 13)], 40_000, 60_000), "too long"));
        assert!(refused(visit(vec![(0, 13)], 1000, 4_294_965_395), "more than one round"));
        assert!(refused(visit(vec![(0, 13)], u32::MAX, u32::MAX), "too long"));
        assert_eq!(visit(vec![(0, 13)], 40_000, 100), Answer::Done);
    }

    #[test]
    fn only_the_groups_of_the_run_are_sent_to() {
        let mut agent = agent();
        agent.port = 47_245;
        let join = Join { group: 9999, sources: vec![] };
        assert_eq!(agent.answer(&listen(vec![join], None), 0), Answer::Done);
        let none = Request::Send {
            run: 1,
            sender: 0,
            rounds: vec![round(Target::Group(Groups::of_run(1, &[]).len()), 1, 0)],
        };
        assert!(
            matches!(agent.answer(&none, 0), Answer::Sent { failed: 1, why: Some(why) } if why.contains("no such group"))
        );
    }
}
