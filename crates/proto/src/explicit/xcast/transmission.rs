//! Packets for several receivers in Xcast (RFC 5058), whose lists name destinations alone.

use std::{collections::BTreeMap, net::Ipv6Addr};

use treecast_wire::{
    list_proof::OPTION_LEN,
    xcast::{self, Header, Options},
};

use super::router::with_options;
use crate::explicit::{
    list_proof::ListKey,
    lists::{List, Xcast},
};

/// The length of an option of ports without the ports, in bytes.
const PORTS_OPTION_LEN: usize = 2;

/// The key and the epoch of a list's proof, and the sender.
type Signed = ((ListKey, u64), Ipv6Addr);

/// Bytes of the headers for so many destinations.
pub(in crate::explicit) fn header_len(destinations: usize, has_ports: bool, has_proof: bool) -> usize {
    let ports = if has_ports { PORTS_OPTION_LEN + 2 * destinations } else { 0 };
    let options = ports + if has_proof { OPTION_LEN } else { 0 };
    let options = if options > 0 { (2 + options).next_multiple_of(8) } else { 0 };
    xcast::len(destinations) + options
}

impl Xcast {
    /// The routing header for a list, and the list of their ports behind it. None, when it names what no header may.
    pub(in crate::explicit) fn header(
        &self,
        list: &List,
        ports: Option<&BTreeMap<Ipv6Addr, u16>>,
        upper_layer: u8,
        signed: Option<Signed>,
    ) -> Option<Vec<u8>> {
        let destinations: Vec<_> = list.designated.iter().map(|(destination, _)| *destination).collect();
        let port = |ports: &BTreeMap<_, _>, to| ports.get(to).copied().unwrap_or(0);
        let ports = ports.map(|ports| destinations.iter().map(|to| port(ports, to)).collect());
        // A source that has no use for the channel identifier sets it to zero (8.3).
        let header = Header::new(upper_layer, Ipv6Addr::UNSPECIFIED, destinations).ok()?;
        let header = Header { is_anonymous: self.is_anonymous, ..header };
        Some(with_options(header, Options { ports, list_proof: None }, signed))
    }

    /// The routing header for routers that serve a group. With the X bit it stays Xcast until it is where the channel identifier tells
    /// the group.
    pub(in crate::explicit) fn header_for_routers(
        &self,
        group: Ipv6Addr,
        routers: Vec<Ipv6Addr>,
        upper_layer: u8,
        signed: Option<Signed>,
    ) -> Option<Vec<u8>> {
        let header = Header::new(upper_layer, group, routers).ok()?;
        let header = Header { is_anonymous: self.is_anonymous, stays_xcast: true, ..header };
        Some(with_options(header, Options::default(), signed))
    }
}

impl List {
    /// Makes an Xcast list of these destinations, at most 32.
    pub fn of_destinations(destinations: &[Ipv6Addr]) -> Self {
        let designated = destinations.iter().map(|one| (*one, vec![*one])).collect();
        Self { entries: Vec::new(), designated, dont_replicate: 0 }
    }

    /// Makes Xcast lists of at most `max` destinations each: as few lists as possible, about equally long. The
    /// sender does not know the paths, and each packet takes room on the first link. Destinations that are
    /// neighbours in the order of addresses share a list, because they are likely to share a path.
    pub fn of_neighbours(destinations: &[Ipv6Addr], max: usize) -> Vec<Self> {
        let count = destinations.len().div_ceil(max.max(1)).max(1);
        destinations.chunks(destinations.len().div_ceil(count).max(1)).map(Self::of_destinations).collect()
    }
}

#[cfg(test)]
mod tests {
    use treecast_wire::{
        ipv6::{self, next_header, upper_layer_checksum},
        xcast::MAX_DESTINATIONS,
    };

    use super::*;
    use crate::explicit::{
        lists::{Form, TransmissionGroup},
        mead::tree::tests::{SENDER, e, r},
        transmission::{
            Packets,
            tests::{datagram, form},
        },
    };

    const GROUP: Ipv6Addr = Ipv6Addr::new(0xff15, 0, 0, 0, 0, 0, 0, 0x77);

    fn xcast_form(has_ports: bool) -> Form {
        let xcast = Some(Xcast { is_anonymous: false, group: Some((GROUP, 4000)) });
        Form { xcast, has_ports, ..form() }
    }

    fn group(lists: &[&[u16]]) -> TransmissionGroup {
        let lists: Vec<_> = lists
            .iter()
            .map(|list| List::of_destinations(&list.iter().copied().map(e).collect::<Vec<_>>()))
            .collect();
        let ports = (1..=40).map(|number| (e(number), 5000 + number)).collect();
        TransmissionGroup { number: 1, lists, ports, ..TransmissionGroup::default() }
    }

    /// Each packet's destination, its destinations and their ports, and its own port.
    type Sent = (Ipv6Addr, Vec<Ipv6Addr>, Option<Vec<u16>>, u16);

    fn sent(form: &Form, group: TransmissionGroup, len: usize) -> Vec<(Sent, bool)> {
        let mut packets = Vec::new();
        let made =
            Packets::new(form.clone(), group).make(&datagram(len), |to, packet| packets.push((to, packet)));
        assert!(made.is_some());
        let read = |(to, packet): (Ipv6Addr, Vec<u8>)| {
            assert!(packet.len() <= form.mtu);
            let (ip, mut segment) = ipv6::Header::parse(&packet).expect("a packet");
            assert_eq!((ip.source, ip.destination), (SENDER, to));
            let (mut destinations, mut ports, mut stays) = (vec![to], None, false);
            if ip.next_header == next_header::ROUTING {
                let (header, rest) = Header::parse(segment).expect("a header");
                segment = rest;
                if header.next_header == next_header::DESTINATION_OPTIONS {
                    let (options, _, len) = Options::parse(rest, header.destinations.len()).expect("a list");
                    (ports, segment) = (options.ports, &rest[len..]);
                }
                assert_eq!(header.channel.is_multicast(), header.stays_xcast);
                (destinations, stays) = (header.destinations, header.stays_xcast);
            }
            assert_eq!(upper_layer_checksum(SENDER, to, next_header::UDP, segment), 0);
            ((to, destinations, ports, u16::from_be_bytes([segment[2], segment[3]])), stays)
        };
        packets.into_iter().map(read).collect()
    }

    #[test]
    fn neighbours_share_few_lists_of_about_one_length() {
        let addresses = |count: u16| -> Vec<Ipv6Addr> {
            (0..count).map(|host| Ipv6Addr::new(0xfd00, 0, 0, host / 3, 0, 0, 0, host)).collect()
        };
        let lens = |count, max| -> Vec<usize> {
            List::of_neighbours(&addresses(count), max).iter().map(|list| list.designated.len()).collect()
        };
        assert!(lens(0, 10).is_empty());
        assert_eq!((lens(10, 10), lens(11, 10)), (vec![10], vec![6, 5]));
        assert_eq!(lens(65, 32), [22, 22, 21]);
        let all: Vec<_> = List::of_neighbours(&addresses(65), 32).iter().flat_map(List::receivers).collect();
        assert_eq!(all, addresses(65));
    }

    #[test]
    fn a_list_is_one_packet_to_its_first_destination() {
        let list = [1, 2, 3].map(e).to_vec();
        let packets = sent(&xcast_form(false), group(&[&[1, 2, 3], &[4]]), 100);
        let alone = (e(4), vec![e(4)], None, 5004);
        assert_eq!(packets, [(alone.clone(), false), ((e(1), list.clone(), None, 5001), false)]);
        let ports = Some(vec![5001, 5002, 5003]);
        let packets = sent(&xcast_form(true), group(&[&[1, 2, 3], &[4]]), 100);
        assert_eq!(packets, [(alone, false), ((e(1), list, ports, 0), false)]);
    }

    #[test]
    fn a_packet_too_long_for_its_list_goes_out_in_parts() {
        let numbers: Vec<u16> = (1..=32).collect();
        for (has_ports, addresses) in [(false, 12), (true, 12), (true, 5), (false, 2)] {
            let form = xcast_form(has_ports);
            let len = 1500 - 40 - 8 - form.header_len(addresses);
            let packets = sent(&form, group(&[&numbers]), len);
            let counts: Vec<_> = packets.iter().map(|((_, list, ..), _)| list.len()).collect();
            assert_eq!(counts.iter().sum::<usize>(), 32);
            assert!(counts.iter().all(|count| *count <= addresses), "{counts:?}");
            assert_eq!(counts.len(), 32_usize.div_ceil(addresses), "{counts:?}");
        }
        let whole = sent(&Form { mtu: 9000, ..xcast_form(true) }, group(&[&numbers]), 1000);
        assert_eq!(whole[0].0.1.len(), MAX_DESTINATIONS);
        assert_eq!(
            sent(&xcast_form(false), group(&[&[1, 2]]), 1500 - 48).len(),
            2,
            "unicast is what is left"
        );
    }

    #[test]
    fn lists_are_cut_to_what_fits_where_they_go() {
        let (form, payload_len) = (xcast_form(true), 8 + 1000);
        let lens = |group: &TransmissionGroup| -> Vec<usize> {
            let lists = group.fitted_lists(&form, payload_len);
            lists.iter().map(|list| list.receivers().count()).collect()
        };
        let group = group(&[&[1, 2, 3, 4, 5]]);
        assert_eq!(lens(&group), [5]);
        let for_two = ipv6::HEADER_LEN + payload_len + form.header_len(2);
        let path_mtus = [2, 3, 4].map(|number| (e(number), for_two)).into();
        let narrow = TransmissionGroup { path_mtus, ..group.clone() };
        assert_eq!(
            lens(&narrow),
            [2, 2],
            "behind wide ways, and behind narrow ones; the third there is alone"
        );
        let path_mtus = [(e(1), for_two - 1)].into();
        assert_eq!(lens(&TransmissionGroup { path_mtus, ..group }), [4]);
    }

    #[test]
    fn routers_that_serve_a_group_get_packets_that_stay_xcast() {
        let one = TransmissionGroup { routers: vec![r(1)], ..group(&[&[1, 2]]) };
        let packets = sent(&xcast_form(true), one, 100);
        assert_eq!(packets[1], ((r(1), vec![r(1)], None, 4000), true), "also a single one");
        let many = TransmissionGroup { routers: (1..=40).map(r).collect(), ..group(&[]) };
        let packets = sent(&Form { mtu: 9000, ..xcast_form(false) }, many, 100);
        assert_eq!(packets.iter().map(|((_, list, ..), _)| list.len()).collect::<Vec<_>>(), [32, 8]);
    }
}
