//! What `treecast router` makes of packets of others: how many of them come to somebody who is listed there, and on which links
//! what is for a group becomes multicast. The figures are printed with `--nocapture`.

use std::{
    net::Ipv6Addr,
    time::{Duration, SystemTime},
};

use crate::{
    child::PrivateFile,
    mroute_network::Network,
    router_network::{
        C1, C2, C3, R1, R2, SENDER, heard_of, host, receivers, start, status, tree, udp, with_header,
    },
    session::wait_until,
};
use treecast_proto::explicit::{
    authentication::DomainKey,
    list_proof::{Kind, Listed, epoch_at},
};
use treecast_wire::{
    ipv6::next_header,
    list_proof::ListProof,
    mead::{Dialect, Header, Map, Options},
    xcast,
};

/// Packets of each attack.
const PACKETS: usize = 100;

const ROUTING_HEADER: usize = 40;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Mead,
    Xcast,
}

impl Form {
    /// A packet that lists the victim as often as can be.
    fn repeated(self) -> Vec<u8> {
        let count = if self == Self::Mead { 31 } else { 32 };
        let many: Vec<_> = (1..=count).map(|number| host(9, number)).collect();
        let mut packet = self.list(&many, false);
        // Behind MEADcast's fixed part and the router, and behind Xcast's fixed part.
        let places = packet[ROUTING_HEADER + 32..].chunks_exact_mut(16);
        places.take(count.into()).for_each(|place| place.copy_from_slice(&C1.octets()));
        if self == Self::Xcast {
            close(&mut packet[ROUTING_HEADER..][..xcast::len(32)]);
        }
        readdress(packet)
    }

    /// A packet from the sender's address for these, to the first of them, with a proof or without.
    fn list(self, receivers: &[Ipv6Addr], with_proof: bool) -> Vec<u8> {
        let segment = udp(receivers[0], b"x");
        let next = if with_proof { next_header::DESTINATION_OPTIONS } else { next_header::UDP };
        let prove = |kind, routers, addresses: &[Ipv6Addr]| {
            with_proof.then(|| {
                proof(&Listed { kind, source: SENDER, group: Ipv6Addr::UNSPECIFIED, routers, addresses })
            })
        };
        let (header, options) = match self {
            Self::Mead => {
                let header = Header::data(next, &[(R1, receivers.to_vec())]).expect("a good list");
                let list_proof = prove(Kind::Mead, header.routers, &header.addresses);
                let options = Options { list_proof, ..Options::default() };
                (header.to_bytes(Dialect::Rfc), options.to_bytes(next_header::UDP))
            }
            Self::Xcast => {
                let header = xcast::Header::new(next, Ipv6Addr::UNSPECIFIED, receivers.to_vec());
                let list_proof = prove(Kind::Xcast, Map::EMPTY, receivers);
                let options = xcast::Options { ports: None, list_proof };
                (header.expect("a good list").to_bytes(), options.to_bytes(next_header::UDP))
            }
        };
        with_header(&header, receivers[0], &[options, segment].concat())
    }

    /// What the router has made of them.
    fn copies(self, network: &Network) -> u64 {
        let status = status(network, "r1");
        match self {
            Self::Mead => status.copies.unicast + status.copies.replicas,
            Self::Xcast => status.xcast.copies + status.xcast.unicast,
        }
    }

    fn passed_on(self, network: &Network, why: &str) -> u64 {
        let status = status(network, "r1");
        let passed_on = if self == Self::Mead { status.passed_on } else { status.xcast.passed_on };
        passed_on.get(why).copied().unwrap_or(0)
    }
}

fn proof(listed: &Listed<'_>) -> ListProof {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
    DomainKey::new(&[7; 32]).of_lists().prove(epoch_at(since.as_secs()), listed)
}

/// Makes the checksum of an Xcast header right.
fn close(header: &mut [u8]) {
    header[6..8].fill(0);
    let sum: u32 = header.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    let checksum = 0xffff - (sum % 0xffff) as u16;
    header[6..8].copy_from_slice(&checksum.to_be_bytes());
}

/// Addresses a packet to the victim.
fn readdress(mut packet: Vec<u8>) -> Vec<u8> {
    packet[24..40].copy_from_slice(&C1.octets());
    let segment = udp(C1, b"x");
    let at = packet.len() - segment.len();
    packet[at..].copy_from_slice(&segment);
    packet
}

/// A network in which c3 reaches the others, too.
fn network() -> Network {
    let network = tree();
    network.route("c3", &[0, 1, 2, 3], 4, 1);
    network
}

/// One attack: what the packets are, who sends them, the router's options, and how many come to c1 of 100.
struct Attack<'a> {
    what: &'static str,
    node: &'static str,
    options: &'a [&'a str],
    packet: Vec<u8>,
    at_victim: usize,
}

fn attacks<'a>(form: Form, key: &'a [&'a str]) -> Vec<Attack<'a>> {
    let of = |what, node, options, packet, at_victim| Attack { what, node, options, packet, at_victim };
    let once = || form.list(&[C1, C2, C3], false);
    vec![
        of("the victim in every place", "s", &[][..], form.repeated(), 0),
        of("the victim in one place", "s", &[], once(), PACKETS),
        of("the victim in one place, from a wrong link", "c3", &[], once(), 0),
        of("the same, with --rpf loose", "c3", &["--rpf", "loose"], once(), PACKETS),
        of("no proof, to the victim, with --key", "s", key, once(), PACKETS),
        of("no proof, the victim second, with --key", "s", key, form.list(&[C2, C1], false), 0),
        of("every place, with --key", "s", key, form.repeated(), 0),
        of("a proof, with --key", "s", key, form.list(&[C3, C1], true), PACKETS),
    ]
}

/// Each of two tables: 100 packets of an outsider, and how many come to somebody whom they list.
#[test]
#[ignore = "it takes long: `make test-all` runs it"]
fn an_outsiders_packet_becomes_one_at_a_victim_at_most() {
    let network = network();
    let file = PrivateFile::key();
    let key = ["--key", &*file];
    let [victim, ..] = receivers(&network);
    for form in [Form::Mead, Form::Xcast] {
        println!("{form:?}: {PACKETS} packets of an outsider that list one victim");
        for Attack { what, node, options, packet, at_victim } in attacks(form, &key) {
            let _router = start(&network, "r1", options);
            network.inject(node, "r1", &packet, PACKETS);
            let came = heard_of(&victim, at_victim).len();
            assert_eq!(came, at_victim, "{form:?}: {what}");
            let copies = form.copies(&network);
            println!("  {what:<45} {came:5} at the victim, {copies:5} copies made");
            let is_unproved = what.starts_with("no proof");
            let expected = if is_unproved { (0, PACKETS as u64) } else { (copies, 0) };
            assert_eq!((copies, form.passed_on(&network, "no-proof")), expected, "{form:?}: {what}");
        }
    }
}

/// Whatever forwards: the same guard.
#[test]
#[ignore = "it takes long: `make test-all` runs it"]
fn sources_are_held_to_their_links_networks_and_numbers_of_copies() {
    let network = network();
    let file = PrivateFile::key();
    let key = ["--key", &*file];
    let [victim, ..] = receivers(&network);
    for plane in [&[][..], &["--user-space"]] {
        for (options, node, expected, why) in [
            (&[][..], "c3", 0, "reverse-path"),
            (&["--allow-source", "fd00:9::/64"], "s", 0, "source-not-allowed"),
            (&["--allow-source", "fd00:9::/64", "--allow-source", "fd00::/64"], "s", 10, ""),
            (&["--copies-per-second", "1"], "s", 0, "too-many-copies"),
            (&key, "s", 0, "no-proof"),
        ] {
            let _router = start(&network, "r1", &[plane, options].concat());
            network.inject(node, "r1", &Form::Mead.list(&[C2, C1], false), 10);
            assert_eq!(heard_of(&victim, expected).len(), expected, "{plane:?} {options:?}");
            let counted = (!why.is_empty()).then_some(10);
            wait_until(&format!("{plane:?} {options:?}: counted as {why:?}"), || {
                let status = status(&network, "r1");
                status.passed_on.get(why).or(status.dropped.get(why)).copied() == counted
            });
        }
    }
}

/// Source-specific multicast rests on that a packet came from where its source is.
#[test]
fn a_host_of_another_link_does_not_speak_in_a_channel() {
    const GROUP: &str = "ff35::4242";
    let group: Ipv6Addr = GROUP.parse().expect("a group");
    let network = network();
    let packet = |to: Ipv6Addr, text: &[u8]| {
        let header = xcast::Header::new(next_header::UDP, group, vec![to]).expect("a good list");
        with_header(&header.to_bytes(), to, &udp(to, text))
    };
    for options in [&[][..], &["--rpf", "loose"], &["--user-space"]] {
        let _router = start(&network, "r2", &[&["--xcast-plus"], options].concat());
        let listener = network.listen("c1", "r2", GROUP, Some("fd00::1"));
        listener.socket.set_read_timeout(Some(Duration::from_millis(500))).expect("a good time");
        let heard = || {
            let mut buffer = [0; 100];
            let len = listener.socket.recv(&mut buffer);
            len.ok().map(|len| String::from_utf8_lossy(&buffer[..len]).into_owned())
        };
        // Until the router has heard who listens.
        wait_until("the sender is heard", || {
            network.inject("s", "r1", &packet(R2, b"sender"), 1);
            heard().is_some()
        });
        while heard().is_some() {}
        network.inject("c2", "r1", &packet(host(3, 1), b"forged"), 10);
        let others: Vec<_> = std::iter::from_fn(heard).collect();
        assert!(!others.contains(&"forged".to_owned()), "{options:?}: {others:?}");
        network.inject("s", "r1", &packet(R2, b"sender"), 1);
        let mut last = None;
        wait_until("the sender is heard again", || {
            last = heard();
            last.is_some()
        });
        assert_eq!(last.as_deref(), Some("sender"), "{options:?}");
    }
}
