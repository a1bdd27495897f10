//! `treecast router` where the shortest way is not open: routers that are known by link-local addresses, neighbours that are
//! not known yet or have gone, and links that are too narrow. MEADcast and Xcast alike.

use std::{io::Read, net::Ipv6Addr};

use crate::{
    mroute_network::{Network, PATIENCE, Router},
    router_network::{
        C1, C2, C3, SENDER, assert_heard, groups, inject, packet, receivers, start, status, tree, udp,
        with_header,
    },
};
use socket2::{Domain, Protocol, Socket, Type};
use treecast_wire::{
    icmpv6::{Cause, DeliveryError, Unreachable},
    ipv6::{self, next_header},
    xcast,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Mead,
    /// Addressed to its first destination.
    Xcast,
    /// Addressed to all Xcast routers on the link, by Ethernet too.
    XcastToAll,
}

const FORMS: [Form; 3] = [Form::Mead, Form::Xcast, Form::XcastToAll];

impl Form {
    /// A packet for all three receivers.
    fn packet(self, payload: &[u8]) -> Vec<u8> {
        let destination = if self == Self::XcastToAll { xcast::ALL_XCAST_ROUTERS } else { C3 };
        let segment = udp(destination, payload);
        if self == Self::Mead {
            return packet(&groups(), destination, &segment);
        }
        let header = xcast::Header::new(next_header::UDP, Ipv6Addr::UNSPECIFIED, vec![C3, C1, C2]);
        with_header(&header.expect("good addresses").to_bytes(), destination, &segment)
    }

    fn send(self, network: &Network, text: &str) {
        inject(network, &self.packet(text.as_bytes()));
    }

    /// Packets that a router has made, for other routers and as unicast.
    fn copies(self, network: &Network, router: &str) -> [u64; 2] {
        let status = status(network, router);
        match self {
            Self::Mead => [status.copies.replicas, status.copies.unicast],
            Self::Xcast | Self::XcastToAll => [status.xcast.copies, status.xcast.unicast],
        }
    }
}

fn routers(network: &Network) -> [Router; 2] {
    [start(network, "r1", &[]), start(network, "r2", &[])]
}

/// What routing protocols tell the kernel: routers' addresses on the link.
#[test]
fn routers_with_link_local_addresses_are_next_hops() {
    let network = tree();
    network.configure("r2", "addr add fe80::2/64 dev r1 nodad\n");
    network.configure("r1", "addr add fe80::1/64 dev r2 nodad\n");
    let replace = |node: &str, ids: &[u8], gateway: &str, interface: &str| {
        let route = |id| format!("route replace fd00:{id}::/64 via {gateway} dev {interface}\n");
        network.configure(node, &ids.iter().map(route).collect::<String>());
    };
    replace("r1", &[2, 3], "fe80::2", "r2");
    replace("r2", &[0, 4], "fe80::1", "r1");
    let _routers = routers(&network);
    let receivers = receivers(&network);
    for form in FORMS {
        let before = ["r1", "r2"].map(|router| form.copies(&network, router));
        // The first one asks for the neighbours.
        for text in ["1", "2", "3"] {
            form.send(&network, text);
        }
        assert_heard(&receivers, [&["1", "2", "3"]; 3], &format!("{form:?}"));
        // One packet for both behind the other router.
        let after = ["r1", "r2"].map(|router| form.copies(&network, router));
        let more = [0, 1].map(|router| [0, 1].map(|kind| after[router][kind] - before[router][kind]));
        assert_eq!(more, [[3, 3], [0, 6]], "{form:?}");
    }
    let link_local: Ipv6Addr = "fe80::2".parse().expect("an address");
    let r1 = status(&network, "r1");
    let direct = r1.neighbours.iter().find(|neighbour| neighbour.address == link_local);
    assert!(direct.is_some_and(|neighbour| neighbour.interface == "r2" && neighbour.packets >= 4), "{r1:?}");
}

/// A socket of the sender's that hears what routers say of its packets.
struct Errors(Socket);

impl Errors {
    fn open(network: &Network) -> Self {
        network.within("s", || {
            let icmpv6 = Some(Protocol::from(libc::IPPROTO_ICMPV6));
            let socket = Socket::new(Domain::IPV6, Type::RAW, icmpv6).expect("root may");
            socket.set_read_timeout(Some(PATIENCE)).expect("a good time");
            Self(socket)
        })
    }

    /// The next error: why, and the packet that did not arrive, to whom, and whether it still has a routing header.
    fn next(&mut self) -> (Cause, Ipv6Addr, bool) {
        let mut buffer = [0; 2048];
        loop {
            let len = self.0.read(&mut buffer).expect("a router says something");
            if let Some(error) = DeliveryError::parse(&buffer[..len]).expect("a good message") {
                assert_eq!(error.packet.source, SENDER);
                let is_routed = error.packet.next_header == next_header::ROUTING;
                return (error.cause, error.packet.destination, is_routed);
            }
        }
    }
}

#[test]
fn the_sender_hears_of_links_that_are_too_narrow() {
    let network = tree();
    let _routers = routers(&network);
    let receivers = receivers(&network);
    let mut errors = Errors::open(&network);
    // Neighbours are known then: a packet that is too long for the shortest way goes back to the kernel for its length alone.
    Form::Mead.send(&network, "first");
    assert_heard(&receivers, [&["first"]; 3], "first");
    let long = "x".repeat(1250);
    let too_big = Cause::TooBig { mtu_bytes: 1280 };
    network.configure("r2", "link set c1 mtu 1280\n");
    for form in FORMS {
        form.send(&network, &long);
        assert_eq!(errors.next(), (too_big, C1, false), "{form:?}: unicast is too long for one");
        assert_heard(&receivers, [&[], &[&long], &[&long]], &format!("{form:?}"));
    }
    network.configure("r2", "link set c1 mtu 1500\n");
    network.configure("r1", "link set r2 mtu 1280\n");
    for form in FORMS {
        let packet = form.packet(long.as_bytes());
        assert!(packet.len() > 1280 && ipv6::HEADER_LEN + 8 + long.len() > 1280);
        inject(&network, &packet);
        assert_eq!(errors.next(), (too_big, C1, true), "{form:?}: so is the packet for the next router");
        assert_heard(&receivers, [&[], &[], &[&long]], &format!("{form:?}"));
    }
}

#[test]
#[ignore = "it takes long: `make test-all` runs it"]
fn a_neighbour_that_is_not_known_yet_gets_all_and_one_that_is_gone_is_reported() {
    let network = tree();
    let _routers = routers(&network);
    let receivers = receivers(&network);
    for form in FORMS {
        for node in ["r1", "r2"] {
            network.configure(node, "neigh flush all\n");
        }
        let by_kernel = |node| status(&network, node).copies.by_kernel;
        let before = by_kernel("r1") + by_kernel("r2");
        let names: Vec<_> = (10..40).map(|number| number.to_string()).collect();
        for text in &names {
            form.send(&network, text);
        }
        let all: Vec<_> = names.iter().map(String::as_str).collect();
        assert_heard(&receivers, [&all; 3], &format!("{form:?}: none is lost"));
        assert!(by_kernel("r1") + by_kernel("r2") >= before + 3, "{form:?}: at least one for each neighbour");
        let known = by_kernel("r1") + by_kernel("r2");
        form.send(&network, "direct");
        assert_heard(&receivers, [&["direct"]; 3], &format!("{form:?}"));
        assert_eq!(by_kernel("r1") + by_kernel("r2"), known, "{form:?}: then they go the shortest way");
    }
    let mut errors = Errors::open(&network);
    network.configure("c1", "link set lo down\naddr flush dev r2\n");
    network.configure("r2", "neigh flush all\n");
    for form in FORMS {
        form.send(&network, "gone");
        assert_heard(&receivers, [&[], &["gone"], &["gone"]], &format!("{form:?}"));
        let (cause, destination, is_routed) = errors.next();
        let expected = (Cause::Unreachable(Unreachable::Address), C1, false);
        assert_eq!((cause, destination, is_routed), expected, "{form:?}");
    }
}
