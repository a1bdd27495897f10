//! The plan of a run: what every host sends, in which order.

use std::time::Duration;

use super::{
    groups::{Groups, joined_by_some, main, visited},
    message::{Header, Host, Join, Round, Target, Visit},
};

/// The hop limit of the doctor's packets: enough for any site, and small enough that a loop ends soon.
pub const HOP_LIMIT: u8 = 32;
/// The number of packets in a test of whether anything arrives.
pub const FEW: u32 = 3;
/// The number of packets in a test of a rate.
pub const BURST: u32 = 40;
/// The payload of a packet in a test of a rate, in bytes.
const BURST_BYTES: u32 = 1200;
/// The rates that are tried, in Mbit/s.
pub const RATES: [u32; 3] = [1, 8, 32];
/// The number of super-packets, the packets in each, and the time between two of them in microseconds.
const SUPER_PACKETS: u32 = 2;
const AT_ONCE: u32 = 3;
const SUPER_GAP_US: u32 = 20_000;
/// The time between two packets of the other tests, in microseconds.
const GAP_US: u32 = 2_000;
/// The time between two packets that a host sends during a visit, in microseconds. With many hosts it is longer, so that all
/// together send at most 500 packets a second.
const VISIT_GAP_US: u32 = 40_000;
const VISIT_GAP_EACH_US: u32 = 2_000;
/// The IP packets, in bytes, that are tried beside those as long as the hosts' MTU. The last one needs fragments.
const LENGTHS: [u32; 3] = [576, 1280, 3000];

/// One test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Test {
    pub what: What,
    pub is_ipv4: bool,
}

/// The subject of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// Whether the group at this place arrives.
    Scope(usize),
    /// Whether a group that only some have joined arrives at the others.
    JoinedBySome,
    Unicast,
    /// Whether IP packets of this length in bytes arrive.
    Length {
        bytes: u32,
        is_group: bool,
    },
    /// Whether packets at this rate in Mbit/s arrive.
    Rate {
        mbit: u32,
        is_group: bool,
    },
    /// Whether the packets that the kernel or the network card cuts out of a super-packet arrive (UDP GSO).
    SuperPacket,
    /// The time from a join until a group comes, and the time after a leave for which it still comes. See [`Visit`].
    Visit,
    /// Whether unicast with an extension header arrives.
    Header(Header),
}

impl What {
    /// Whether the test is made at the second look only: unicast, to compare with groups.
    pub fn is_comparison(self) -> bool {
        matches!(self, Self::Length { is_group: false, .. } | Self::Rate { is_group: false, .. })
    }

    /// The number of packets that must arrive. Fewer mean that something is wrong.
    pub fn enough(self) -> u32 {
        match self {
            Self::Rate { .. } => BURST * 9 / 10,
            // Of a super-packet that nobody cuts, only the beginning is a packet of the test.
            Self::SuperPacket => SUPER_PACKETS * AT_ONCE / 2 + 1,
            _ => 1,
        }
    }
}

impl Test {
    /// The same test by unicast, if there is one.
    pub fn compared_with(self) -> Option<Self> {
        let what = match self.what {
            What::Length { bytes, is_group: true } => What::Length { bytes, is_group: false },
            What::Rate { mbit, is_group: true } => What::Rate { mbit, is_group: false },
            _ => return None,
        };
        Some(Self { what, ..self })
    }
}

/// The tests of a run between these hosts. A family is tested if two hosts have it.
pub fn tests(hosts: &[Host], groups: &Groups) -> Vec<Test> {
    let has = |is_ipv4: &bool| hosts.iter().filter(|host| host.address(*is_ipv4).is_some()).count() > 1;
    let families: Vec<_> = [true, false].into_iter().filter(has).collect();
    let mtu = hosts.iter().map(|host| host.mtu).min().unwrap_or(1500).clamp(1280, 9000);
    let mut lengths: Vec<_> = LENGTHS.into_iter().chain([mtu]).collect();
    lengths.sort_unstable();
    lengths.dedup();
    let mut tests = Vec::new();
    for is_ipv4 in families.iter().copied() {
        let mut add = |what| tests.push(Test { what, is_ipv4 });
        groups
            .of_scopes()
            .filter(|place| groups[*place].address.is_ipv4() == is_ipv4)
            .for_each(|place| add(What::Scope(place)));
        [What::Visit, What::JoinedBySome, What::Unicast, What::SuperPacket].into_iter().for_each(&mut add);
        for bytes in lengths.iter().copied() {
            [true, false].into_iter().for_each(|is_group| add(What::Length { bytes, is_group }));
        }
        if !is_ipv4 {
            let headers = [Header::Routing, Header::DestinationOptions, Header::Fragment];
            headers.into_iter().for_each(|header| add(What::Header(header)));
        }
    }
    // One family is enough: switches and queues count bytes.
    if let Some(is_ipv4) = families.first().copied() {
        let rates =
            RATES.into_iter().flat_map(|mbit| [true, false].map(|is_group| What::Rate { mbit, is_group }));
        tests.extend(rates.map(|what| Test { what, is_ipv4 }));
    }
    tests
}

/// The number of senders that a host names for a source-specific group. The kernel allows 10 (`igmp_max_msf`).
const MAX_SOURCES: usize = 8;

/// The groups that a host joins: those of each scope, and the group of some if it is the first host on its LAN.
pub fn joins(hosts: &[Host], groups: &Groups, host: usize) -> Vec<Join> {
    let named = (0..hosts.len()).filter(|sender| is_named(*sender, host));
    let sources: Vec<_> = named.flat_map(|sender| hosts[sender].addresses.clone()).collect();
    let some = [true, false].into_iter().filter(|_| is_joiner(hosts, host)).map(joined_by_some);
    let sources_of = |group: usize| match groups[group].is_source_specific {
        true => sources.clone(),
        false => Vec::new(),
    };
    groups.of_scopes().chain(some).map(|group| Join { group, sources: sources_of(group) }).collect()
}

/// Whether a host names a sender for source-specific groups: the first ones that are others.
pub fn is_named(sender: usize, host: usize) -> bool {
    sender != host && sender - usize::from(sender > host) < MAX_SOURCES
}

/// Whether a host joins the group of some: it is the first one on its LAN.
pub fn is_joiner(hosts: &[Host], host: usize) -> bool {
    hosts.iter().position(|other| other.lan == hosts[host].lan) == Some(host)
}

/// The visit of a host to the groups that nobody has joined for long. All hosts make theirs at the same time.
pub fn visit(hosts: &[Host], tests: &[Test], host: usize, look: usize, after: Duration) -> Visit {
    let of_host = |test: &Test| test.what == What::Visit && hosts[host].address(test.is_ipv4).is_some();
    let tests = tests.iter().enumerate().filter(|(_, test)| of_host(test));
    Visit {
        sender: host as u16,
        groups: tests.map(|(number, test)| (number as u16, visited(look, test.is_ipv4))).collect(),
        gap_us: VISIT_GAP_US.max(VISIT_GAP_EACH_US * hosts.len() as u32),
        after_ms: after.as_millis() as u32,
    }
}

/// The rounds that a host sends. Unicast goes from and to the first host only, which is the doctor's own.
pub fn rounds(hosts: &[Host], tests: &[Test], sender: usize) -> Vec<Round> {
    let mut rounds = Vec::new();
    for (number, test) in tests.iter().enumerate() {
        if hosts[sender].address(test.is_ipv4).is_none()
            || (matches!(test.what, What::Header(_)) && !hosts[sender].is_root)
        {
            continue;
        }
        let group = |place| vec![Target::Group(place)];
        let targets = match test.what {
            What::Scope(place) => group(place),
            What::JoinedBySome => group(joined_by_some(test.is_ipv4)),
            What::SuperPacket => group(main(test.is_ipv4)),
            What::Visit => continue,
            What::Length { is_group: true, .. } | What::Rate { is_group: true, .. } => {
                group(main(test.is_ipv4))
            }
            _ => unicast_peers(hosts, sender)
                .filter_map(|peer| hosts[peer].address(test.is_ipv4))
                .map(Target::Host)
                .collect(),
        };
        rounds.extend(targets.into_iter().map(|to| round(number as u16, test, to)));
    }
    rounds
}

/// The hosts that a host exchanges unicast with.
pub fn unicast_peers(hosts: &[Host], sender: usize) -> impl Iterator<Item = usize> {
    (0..hosts.len()).filter(move |peer| *peer != sender && (sender == 0 || *peer == 0))
}

fn round(number: u16, test: &Test, to: Target) -> Round {
    let headers = if test.is_ipv4 { 28 } else { 48 };
    let few = Round {
        test: number,
        to,
        packets: FEW,
        bytes: 0,
        gap_us: GAP_US,
        at_once: 1,
        hop_limit: HOP_LIMIT,
        header: Header::None,
    };
    match test.what {
        What::Length { bytes, .. } => Round { bytes: bytes - headers, ..few },
        What::Rate { mbit, .. } => {
            Round { packets: BURST, bytes: BURST_BYTES, gap_us: (BURST_BYTES + headers) * 8 / mbit, ..few }
        }
        What::SuperPacket => Round {
            packets: SUPER_PACKETS * AT_ONCE,
            bytes: BURST_BYTES,
            gap_us: SUPER_GAP_US / AT_ONCE,
            at_once: AT_ONCE,
            ..few
        },
        What::Header(header) => Round { header, ..few },
        _ => few,
    }
}

#[cfg(test)]
mod tests_of_plan {
    use super::*;

    fn host(name: &str, lan: &str, addresses: &[&str]) -> Host {
        let addresses = addresses.iter().map(|text| text.parse().unwrap()).collect();
        Host { name: name.into(), lan: lan.into(), addresses, mtu: 1500, is_root: true, ..Host::default() }
    }

    #[test]
    fn a_family_is_tested_if_two_hosts_have_it() {
        let hosts = [host("a", "x", &["10.0.0.1", "fd00::1"]), host("b", "x", &["fd00::2"])];
        let tests = tests(&hosts, &Groups::default());
        assert!(tests.iter().all(|test| !test.is_ipv4) && tests.len() > 10);
        assert!(
            rounds(&hosts, &tests, 0)
                .iter()
                .any(|round| round.to == Target::Host("fd00::2".parse().unwrap()))
        );
    }

    #[test]
    fn unicast_goes_from_and_to_the_doctors_own_host_only() {
        let hosts = ["1", "2", "3"].map(|last| host(last, "x", &[&format!("10.0.0.{last}")]));
        let tests = tests(&hosts, &Groups::default());
        let to = |sender| {
            rounds(&hosts, &tests, sender)
                .into_iter()
                .filter(|round| matches!(round.to, Target::Host(_)))
                .map(|round| round.to)
                .collect::<Vec<_>>()
        };
        let own = Target::Host("10.0.0.1".parse().unwrap());
        assert!(to(1).iter().all(|target| *target == own) && !to(1).is_empty());
        assert!(!to(0).contains(&own));
        assert_eq!([0, 1, 2].map(|host| is_joiner(&hosts, host)), [true, false, false]);
    }
}
