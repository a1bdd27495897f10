//! Makes the packets of explicit multicast from a transmission group (meadcast-thesis-2024, 4.3.1).
//!
//! A packet of a program becomes one packet for each address list, and one for each receiver that is in no
//! list. Each has the right checksum for the address in its IPv6 header; a router that changes the address
//! corrects the checksum accordingly. A packet that is too long for the header of its list leaves as several,
//! each with a part of the list.
//!
//! Packets for several receivers are MEADcast's ([`mead::transmission`]), or Xcast's ([`xcast::transmission`]).

mod super_packet;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::Ipv6Addr,
};

use treecast_wire::{
    ipv6::{self, checksum_offset, next_header, updated_checksum},
    mead::MAX_ADDRESSES,
};

pub use self::super_packet::{Part, SuperPacket, complete_checksum};
use super::{
    list_proof::ListKey,
    lists::{Form, LEAST_MTU, List, TransmissionGroup},
    mead, xcast,
};

const FRAGMENT_HEADER_LEN: usize = 8;

impl Form {
    /// Returns the length of the headers between the IPv6 header and the program's data, for this number of
    /// addresses.
    pub fn header_len(&self, addresses: usize) -> usize {
        if self.xcast.is_some() {
            return xcast::transmission::header_len(addresses, self.has_ports, self.key.is_some());
        }
        mead::transmission::header_len(self, addresses)
    }

    /// Returns how many addresses fit into a packet of at most `mtu` bytes that carries `payload_len` bytes
    /// after its IPv6 header.
    pub fn fitting_addresses(&self, mtu: usize, payload_len: usize) -> usize {
        let room = mtu.min(self.mtu).saturating_sub(ipv6::HEADER_LEN + payload_len);
        (0..=MAX_ADDRESSES).rev().find(|count| self.header_len(*count) <= room).unwrap_or(0)
    }

    /// Returns how many addresses a packet has at most if the least MTU of IPv6 is left for what it carries. `None` if no two
    /// receivers can share a packet.
    pub fn most_addresses(&self) -> Option<usize> {
        Some(self.fitting_addresses(self.mtu, LEAST_MTU - ipv6::HEADER_LEN)).filter(|most| *most >= 2)
    }

    /// The key, the epoch and the source with which the proofs of lists are made.
    pub(super) fn signed(&self, epoch: u64) -> Option<((ListKey, u64), Ipv6Addr)> {
        self.key.map(|key| ((key, epoch), self.source))
    }
}

/// Counts of the packets that one packet of a program became.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sent {
    /// The number of packets with a MEADcast header.
    pub mead_packets: u64,
    /// The bytes of the packets with a MEADcast header, IPv6 headers included.
    pub mead_bytes: u64,
    /// The number of packets to single receivers.
    pub unicast_packets: u64,
    /// The bytes of the packets to single receivers, IPv6 headers included.
    pub unicast_bytes: u64,
}

impl Sent {
    fn count(&mut self, copy: &Copy, packets: usize, bytes: usize) {
        let (of_packets, of_bytes) = match copy.header.is_empty() {
            true => (&mut self.unicast_packets, &mut self.unicast_bytes),
            false => (&mut self.mead_packets, &mut self.mead_bytes),
        };
        (*of_packets, *of_bytes) = (*of_packets + packets as u64, *of_bytes + bytes as u64);
    }

    /// Adds the counts of another packet.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            mead_packets: self.mead_packets + other.mead_packets,
            mead_bytes: self.mead_bytes + other.mead_bytes,
            unicast_packets: self.unicast_packets + other.unicast_packets,
            unicast_bytes: self.unicast_bytes + other.unicast_bytes,
        }
    }
}

/// Turns payloads into the packets of one transmission group (the lists among which a sender has divided its receivers).
/// A header is made when a packet needs it for the first time, and then kept.
#[derive(Debug)]
pub struct Packets {
    form: Form,
    group: TransmissionGroup,
    /// Distinct path MTUs in bytes, longest first.
    mtus: Vec<usize>,
    /// The epoch of the lists' proofs.
    epoch: u64,
    /// Packets already worked out. The key is the number of addresses that fit for each MTU, and the header that follows: at most
    /// 33 times 256 entries for each MTU.
    copies: BTreeMap<(Vec<usize>, u8), Vec<Copy>>,
    /// Key of the current packet in `copies`.
    fitting: (Vec<usize>, u8),
}

/// One packet of those that a program's packet becomes.
#[derive(Debug)]
pub(super) struct Copy {
    pub destination: Ipv6Addr,
    /// Its UDP port; none: the program's.
    pub port: Option<u16>,
    /// The routing header and the options behind it. Empty: unicast.
    pub header: Vec<u8>,
}

impl Packets {
    /// Creates the maker of packets of this form.
    pub fn new(form: Form, group: TransmissionGroup) -> Self {
        let mtu = form.mtu;
        let narrower = group.path_mtus.values().copied().filter(|path| *path < mtu).collect::<BTreeSet<_>>();
        let mtus = std::iter::once(mtu).chain(narrower.into_iter().rev()).collect();
        Self { form, group, mtus, epoch: 0, copies: BTreeMap::new(), fitting: (Vec::new(), 0) }
    }

    /// Sets the epoch that the proofs of lists are made for ([`list_proof::epoch_at`]).
    pub fn set_epoch(&mut self, epoch: u64) {
        if self.form.key.is_some() && epoch != self.epoch {
            self.copies.clear();
            self.epoch = epoch;
        }
    }

    /// The transmission group that the packets are made from.
    pub fn group(&self) -> &TransmissionGroup {
        &self.group
    }

    /// Hands to `send` the packets that a program's packet becomes, each with its destination, and returns
    /// their counts. None: the program's packet is not an IPv6 packet.
    pub fn make(&mut self, packet: &[u8], mut send: impl FnMut(Ipv6Addr, Vec<u8>)) -> Option<Sent> {
        let (ip, payload) = ipv6::Header::parse(packet).ok()?;
        let (form, copies) = self.copies_of(payload.len(), ip.next_header);
        let mut sent = Sent::default();
        for copy in copies {
            let made = copy.made(form, &ip, payload);
            sent.count(copy, 1, made.len());
            send(copy.destination, made);
        }
        Some(sent)
    }

    /// The copies, of this kind, that a packet with so many bytes behind its IPv6 header becomes.
    fn copies_of(&mut self, payload_len: usize, next_header: u8) -> (&Form, &[Copy]) {
        let Self { form, group, mtus, epoch, copies, fitting } = self;
        fitting.0.clear();
        fitting.0.extend(mtus.iter().map(|mtu| form.fitting_addresses(*mtu, payload_len)));
        fitting.1 = next_header;
        if !copies.contains_key(fitting) {
            let by_mtu = mtus.iter().copied().zip(fitting.0.iter().copied()).collect();
            let kind = Kind { form, fitting: by_mtu, upper_layer: next_header, epoch: *epoch };
            copies.insert(fitting.clone(), group.copies(&kind));
        }
        (form, &copies[fitting])
    }
}

/// The properties that a program's packets have in common if they become the same copies.
struct Kind<'a> {
    form: &'a Form,
    /// The number of addresses that fit beside such a packet, by MTU in bytes.
    fitting: BTreeMap<usize, usize>,
    /// Number of the header behind those of ours.
    upper_layer: u8,
    /// The epoch of the lists' proofs.
    epoch: u64,
}

impl TransmissionGroup {
    /// The copies that a packet of this kind becomes. Unicast goes first, as in the thesis.
    fn copies(&self, kind: &Kind) -> Vec<Copy> {
        let form = kind.form;
        let parts: Vec<_> =
            self.lists.iter().flat_map(|list| self.parts(list, form.mtu, &kind.fitting)).collect();
        let (lists, single): (Vec<_>, Vec<_>) = parts.iter().partition(|part| is_shared(part));
        let (lists, single) = [lists, single].map(|parts| parts.into_iter().map(|(part, _)| part)).into();
        let single = single.flat_map(List::receivers);
        let unicast = self.unicast.iter().copied().chain(single).map(|receiver| self.unicast_copy(receiver));
        let mut copies: Vec<_> = unicast.collect();
        for list in lists {
            match self.header(kind, list) {
                Some(header) => {
                    let (router, first) = list.first();
                    let is_listed = !list.entries.is_empty();
                    let destination = if is_listed && !form.to_router { first } else { router };
                    let mut port = self.ports.get(&first).copied();
                    if form.xcast.is_some() && form.has_ports {
                        // Each has its own in the list (RFC 5058, 8.1).
                        port = Some(0);
                    }
                    copies.push(Copy { header, destination, port });
                }
                // An address that no header may have, which discovery lets nobody answer with.
                None => copies.extend(list.receivers().map(|receiver| self.unicast_copy(receiver))),
            }
        }
        copies.extend(self.copies_for_routers(kind));
        copies
    }

    /// Returns the lists, cut so that each fits into one packet that carries this many bytes after the IPv6
    /// header. A receiver that would be alone in its list is in none.
    pub fn fitted_lists(&self, form: &Form, payload_len: usize) -> Vec<List> {
        let mtus = std::iter::once(form.mtu).chain(self.path_mtus.values().copied());
        let fitting = mtus.map(|mtu| (mtu, form.fitting_addresses(mtu, payload_len))).collect();
        let parts = self.lists.iter().flat_map(|list| self.parts(list, form.mtu, &fitting));
        parts.filter(is_shared).map(|(part, _)| part).collect()
    }

    /// The parts in which a list goes out, each with the number of addresses that it may have. The list goes
    /// out whole where it fits on the narrowest way. Otherwise the receivers behind wide ways and those
    /// behind narrow ones get packets of their own.
    fn parts(&self, list: &List, mtu: usize, fitting: &BTreeMap<usize, usize>) -> Vec<(List, usize)> {
        let of_way = |receiver: &Ipv6Addr| self.path_mtus.get(receiver).map_or(mtu, |path| mtu.min(*path));
        // One packet serves all of a designated router's.
        let together = |receiver: &Ipv6Addr| list.designated.iter().find(|(_, all)| all.contains(receiver));
        let path_mtu = |receiver: Ipv6Addr| match together(&receiver) {
            Some((_, all)) => all.iter().map(of_way).min().unwrap_or(mtu),
            None => of_way(&receiver),
        };
        let mtus: BTreeSet<_> = list.receivers().map(path_mtu).collect();
        let whole = mtus.first().and_then(|narrowest| fitting.get(narrowest)).copied().unwrap_or(0);
        if list.len() <= whole {
            return vec![(list.clone(), whole)];
        }
        let of_mtu = |mtu: &usize| {
            let max = fitting.get(mtu).copied().unwrap_or(0);
            let part = list.only(|receiver| path_mtu(receiver) == *mtu);
            part.parts(max).into_iter().map(move |part| (part, max))
        };
        mtus.iter().rev().flat_map(of_mtu).collect()
    }

    fn unicast_copy(&self, receiver: Ipv6Addr) -> Copy {
        Copy { destination: receiver, port: self.ports.get(&receiver).copied(), header: Vec::new() }
    }

    /// The routing header and the options behind it.
    fn header(&self, kind: &Kind, list: &List) -> Option<Vec<u8>> {
        let Kind { form, upper_layer, epoch, .. } = *kind;
        match &form.xcast {
            Some(xcast) => {
                let ports = form.has_ports.then_some(&self.ports);
                xcast.header(list, ports, upper_layer, form.signed(epoch))
            }
            None => mead::transmission::header(form, list, &self.ports, upper_layer, epoch),
        }
    }

    /// One packet for each as many routers as fit on the narrowest way.
    fn copies_for_routers(&self, kind: &Kind) -> Vec<Copy> {
        let Some(xcast) = &kind.form.xcast else { return Vec::new() };
        let Some((group, port)) = xcast.group else { return Vec::new() };
        let signed = kind.form.signed(kind.epoch);
        let fits = kind.fitting.values().copied().min().unwrap_or(0).clamp(1, MAX_ADDRESSES);
        let copy = |routers: &[Ipv6Addr]| {
            let header = xcast.header_for_routers(group, routers.to_vec(), kind.upper_layer, signed)?;
            Some(Copy { destination: routers[0], port: Some(port), header })
        };
        self.routers.chunks(fits).filter_map(copy).collect()
    }
}

/// Whether a part of a list, beside which so many addresses fit, is a packet for several.
fn is_shared((part, fitting): &(List, usize)) -> bool {
    *fitting >= 2 && part.receiver_count() > 1
}

impl Copy {
    /// The IPv6 header of a packet that carries so many bytes behind all headers of ours.
    fn ip_header(&self, form: &Form, ip: &ipv6::Header, payload_len: usize) -> ipv6::Header {
        ipv6::Header {
            payload_len: (self.header.len() + payload_len) as u16,
            next_header: if self.header.is_empty() { ip.next_header } else { next_header::ROUTING },
            source: form.source,
            destination: self.destination,
            ..*ip
        }
    }

    fn made(&self, form: &Form, ip: &ipv6::Header, payload: &[u8]) -> Vec<u8> {
        let header = &self.header;
        let new = self.ip_header(form, ip, payload.len());
        let mut made = Vec::with_capacity(ipv6::HEADER_LEN + header.len() + payload.len());
        made.extend_from_slice(&new.to_bytes());
        made.extend_from_slice(header);
        let at = made.len();
        made.extend_from_slice(payload);
        if let Some((upper_layer, at_segment)) = upper_layer(ip.next_header, payload) {
            readdress(upper_layer, &mut made[at + at_segment..], ip, &new, form.source_port, self.port);
        }
        made
    }
}

/// The upper layer whose checksum covers the addresses, and where it begins. None in fragments but the first.
fn upper_layer(next: u8, payload: &[u8]) -> Option<(u8, usize)> {
    match next {
        next_header::FRAGMENT => {
            let offset = u16::from_be_bytes([*payload.get(2)?, *payload.get(3)?]) >> 3;
            (offset == 0).then_some((payload[0], FRAGMENT_HEADER_LEN))
        }
        next => Some((next, 0)),
    }
}

/// Corrects the checksum of a segment for its packet's new addresses, and gives a UDP one its new ports.
fn readdress(
    upper_layer: u8,
    segment: &mut [u8],
    old: &ipv6::Header,
    new: &ipv6::Header,
    source_port: Option<u16>,
    destination_port: Option<u16>,
) {
    let Some(at) = checksum_offset(upper_layer).filter(|at| segment.len() >= at + 2) else { return };
    let mut before = [old.source.octets(), old.destination.octets()].concat();
    let mut after = [new.source.octets(), new.destination.octets()].concat();
    if upper_layer == next_header::UDP {
        before.extend_from_slice(&segment[..4]);
        for (place, port) in [(0, source_port), (2, destination_port)] {
            if let Some(port) = port {
                segment[place..place + 2].copy_from_slice(&port.to_be_bytes());
            }
        }
        after.extend_from_slice(&segment[..4]);
    }
    let checksum = u16::from_be_bytes([segment[at], segment[at + 1]]);
    let updated = match updated_checksum(checksum, &before, &after) {
        // In UDP 0 says that there is none (RFC 8200, 8.1).
        0 if upper_layer == next_header::UDP => 0xffff,
        updated => updated,
    };
    segment[at..at + 2].copy_from_slice(&updated.to_be_bytes());
}

#[cfg(test)]
pub(super) mod tests {
    use crate::explicit::{
        authentication::DomainKey,
        list_proof::{self, Listed},
    };
    use treecast_wire::{
        ipv6::upper_layer_checksum,
        mead::{Dialect, Header, Options},
    };

    use super::{
        super::mead::tree::tests::{SENDER, e, r},
        *,
    };

    const PROGRAM: Ipv6Addr = Ipv6Addr::new(0xfd15, 0, 0, 0, 0, 0, 0, 1);

    pub(in crate::explicit) fn form() -> Form {
        Form {
            source: SENDER,
            source_port: None,
            dialect: Dialect::Rfc,
            dont_replicate: true,
            to_router: false,
            has_ports: false,
            group: None,
            xcast: None,
            key: None,
            mtu: 1500,
        }
    }

    pub(in crate::explicit) fn group() -> TransmissionGroup {
        let list = List {
            entries: vec![(r(1), vec![e(1), e(2), e(3)]), (r(2), vec![e(4), e(5)])],
            designated: Vec::new(),
            dont_replicate: 2,
        };
        let ports = (1..=6).map(|number| (e(number), 5000 + number)).collect();
        TransmissionGroup {
            number: 1,
            lists: vec![list],
            unicast: vec![e(6)],
            ports,
            ..TransmissionGroup::default()
        }
    }

    pub(in crate::explicit) fn datagram(len: usize) -> Vec<u8> {
        let mut segment = vec![7; 8 + len];
        segment[..8].copy_from_slice(&[0x10, 0, 0, 9, 0, 0, 0, 0]);
        let segment_len = segment.len() as u16;
        segment[4..6].copy_from_slice(&segment_len.to_be_bytes());
        let checksum = upper_layer_checksum(PROGRAM, PROGRAM, next_header::UDP, &segment);
        segment[6..8].copy_from_slice(&checksum.to_be_bytes());
        let ip = ipv6::Header::new(PROGRAM, PROGRAM, next_header::UDP);
        ipv6::Header { class_and_label: 0x12345, hop_limit: 61, ..ip }.packet(&[&segment])
    }

    /// Each packet's destination, header if it has one, and UDP segment; its checksum has been looked at.
    fn sent(form: &Form, packet: &[u8]) -> Vec<(Ipv6Addr, Option<Header>, Vec<u8>)> {
        sent_by(group(), form, packet)
    }

    fn sent_by(
        group: TransmissionGroup,
        form: &Form,
        packet: &[u8],
    ) -> Vec<(Ipv6Addr, Option<Header>, Vec<u8>)> {
        let mut packets = Vec::new();
        let mut made = Packets::new(form.clone(), group);
        let sent = made.make(packet, |to, packet| packets.push((to, packet))).expect("IPv6");
        let mut again = Vec::new();
        assert_eq!(made.make(packet, |to, packet| again.push((to, packet))), Some(sent));
        assert_eq!(again, packets, "what was kept is as what was made");
        let bytes: usize = packets.iter().map(|(_, packet)| packet.len()).sum();
        assert_eq!(sent.mead_bytes + sent.unicast_bytes, bytes as u64);
        assert_eq!(sent.mead_packets + sent.unicast_packets, packets.len() as u64);
        let read = |(to, packet): (Ipv6Addr, Vec<u8>)| {
            assert!(packet.len() <= form.mtu);
            let (ip, mut payload) = ipv6::Header::parse(&packet).expect("an IPv6 packet");
            assert_eq!((ip.source, ip.destination, ip.class_and_label), (SENDER, to, 0x12345));
            let mut header = None;
            if ip.next_header == next_header::ROUTING {
                let (parsed, rest) = Header::parse(payload, form.dialect).expect("a good header");
                payload = rest;
                if parsed.next_header == next_header::DESTINATION_OPTIONS {
                    let (options, next, len) = Options::parse(payload).expect("good options");
                    assert_eq!(
                        (next, options.ports.map(|ports| ports.len())),
                        (17, Some(parsed.addresses.len()))
                    );
                    payload = &payload[len..];
                }
                header = Some(parsed);
            }
            assert_eq!(
                upper_layer_checksum(SENDER, to, next_header::UDP, payload),
                0,
                "the checksum is right"
            );
            (to, header, payload.to_vec())
        };
        packets.into_iter().map(read).collect()
    }

    #[test]
    fn a_packet_goes_to_lists_and_single_receivers_with_right_checksums() {
        let packets = sent(&form(), &datagram(100));
        let [(single, None, _), (first, Some(header), segment)] = &packets[..] else { panic!("{packets:?}") };
        assert_eq!((*single, *first, header.dont_replicate), (e(6), e(1), 2));
        assert_eq!(header.addresses, [r(1), e(1), e(2), e(3), r(2), e(4), e(5)]);
        assert_eq!((&segment[..4], &segment[8..]), (&[0x10, 0, 0x13, 0x89][..], &[7; 100][..]), "port 5001");
    }

    #[test]
    fn each_part_of_the_revision_is_a_switch() {
        let form = Form {
            source_port: Some(0x1234),
            dont_replicate: false,
            to_router: true,
            has_ports: true,
            dialect: Dialect::Linux65,
            ..form()
        };
        let packets = sent(&form, &datagram(100));
        let (to, header, segment) = &packets[1];
        assert_eq!((*to, header.as_ref().map(|header| header.dont_replicate)), (r(1), Some(0)));
        assert_eq!(segment[..2], [0x12, 0x34]);
    }

    #[test]
    fn a_packet_too_long_for_its_list_goes_out_in_parts() {
        let addresses = |len| {
            let packets = sent(&form(), &datagram(len));
            packets
                .into_iter()
                .map(|(_, header, _)| header.map_or(0, |header| header.addresses.len()))
                .collect()
        };
        let room = |addresses: usize| 1500 - 40 - 8 - 16 - 16 * addresses;
        let cases: [(usize, Vec<usize>); 5] = [
            (room(7), vec![0, 7]),
            (room(6), vec![0, 0, 6]),
            (room(5), vec![0, 4, 3]),
            (room(2), vec![0; 6]),
            (1500 - 40 - 8, vec![0; 6]),
        ];
        for (len, expected) in cases {
            let found: Vec<usize> = addresses(len);
            assert_eq!(found, expected, "{len}");
        }
    }

    /// R1 serves E1 to E3 by the group, and R3 one.
    #[test]
    fn designated_routers_stand_alone_and_the_group_beside_them() {
        const GROUP: Ipv6Addr = Ipv6Addr::new(0xff15, 0, 0, 0, 0, 0, 0, 0x77);
        let form = Form { group: Some(GROUP), has_ports: true, mtu: 1500, ..form() };
        let list = List {
            entries: vec![(r(2), vec![e(4)])],
            designated: vec![(r(1), vec![e(1), e(2), e(3)]), (r(3), vec![e(5)])],
            dont_replicate: 0,
        };
        let made = |list: &List, len: usize| {
            let group = TransmissionGroup { lists: vec![list.clone()], ..group() };
            let mut packets = Vec::new();
            Packets::new(form.clone(), group)
                .make(&datagram(len), |to, packet| packets.push((to, packet)))
                .expect("IPv6");
            let read = |(to, packet): &(Ipv6Addr, Vec<u8>)| {
                assert!(packet.len() <= form.mtu);
                let (_, payload) = ipv6::Header::parse(packet).expect("an IPv6 packet");
                let (header, rest) = Header::parse(payload, form.dialect).expect("a good header");
                let (options, _, len) = Options::parse(rest).expect("good options");
                assert_eq!(form.header_len(header.addresses.len()), header.emitted_len() + len);
                (*to, header.addresses, options)
            };
            let with_header = packets.iter().filter(|(_, packet)| packet[6] == next_header::ROUTING);
            with_header.map(read).collect::<Vec<_>>()
        };
        let ports = Some(vec![0, 5004, 5001, 5005]);
        let options = Options { ports, group: Some(GROUP), ..Options::default() };
        assert_eq!(made(&list, 100), [(e(4), vec![r(2), e(4), r(1), r(3)], options)]);
        let alone = List { entries: Vec::new(), ..list.clone() };
        let [(to, addresses, _)] = &made(&alone, 100)[..] else { panic!("one packet") };
        assert_eq!((*to, &addresses[..]), (r(1), &[r(1), r(3)][..]), "there is no receiver to address");
        // Room for two addresses: R2 with E4 alone is better off by unicast.
        let parts = made(&list, 1500 - 40 - 8 - form.header_len(2));
        assert_eq!(parts.iter().map(|(to, ..)| *to).collect::<Vec<_>>(), [r(1)]);
        let mut group = TransmissionGroup { lists: vec![list], ..group() };
        [e(1), e(2), e(3), e(4)].into_iter().for_each(|receiver| group.remove(receiver));
        assert_eq!(
            (&group.lists[0].designated, group.lists[0].entries.len()),
            (&vec![(r(3), vec![e(5)])], 0)
        );
    }

    /// One proof a list and epoch, whatever packets carry it; there is room for it.
    #[test]
    fn lists_prove_that_a_sender_of_the_domain_has_written_them() {
        let key = DomainKey::new(&[7; 32]).of_lists();
        let form = Form { key: Some(key), has_ports: true, ..form() };
        let mut packets = Packets::new(form.clone(), group());
        let mut proof = |epoch, len| {
            packets.set_epoch(epoch);
            let mut made = Vec::new();
            packets.make(&datagram(len), |_, packet| made.push(packet)).expect("IPv6");
            let listed = made.iter().find(|packet| packet[6] == next_header::ROUTING).expect("a list");
            assert!(listed.len() <= form.mtu);
            let (ip, payload) = ipv6::Header::parse(listed).expect("an IPv6 packet");
            let (header, rest) = Header::parse(payload, form.dialect).expect("a good header");
            let (options, _, len) = Options::parse(rest).expect("good options");
            assert_eq!(form.header_len(header.addresses.len()), header.emitted_len() + len);
            let (kind, group) = (list_proof::Kind::Mead, Ipv6Addr::UNSPECIFIED);
            let (source, routers) = (ip.source, header.routers);
            let listed = Listed { kind, source, group, routers, addresses: &header.addresses };
            let proof = options.list_proof.expect("a proof");
            assert_eq!(key.check(epoch, &proof, &listed), Ok(()));
            proof
        };
        let first = proof(100, 100);
        assert_eq!(proof(100, 101), first);
        assert_ne!(proof(101, 100), first);
    }

    #[test]
    fn receivers_behind_a_narrow_way_share_packets_only_while_those_fit_there() {
        // e(3) behind r(1) and e(4) behind r(2) are behind narrow links.
        let group = TransmissionGroup { path_mtus: [(e(3), 1300), (e(4), 1300)].into(), ..group() };
        let lists = |len| {
            let packets = sent_by(group.clone(), &form(), &datagram(len));
            let list = |(to, header, segment): (_, Option<Header>, Vec<u8>)| {
                let addresses = header.map_or(vec![to], |header| header.addresses);
                let size =
                    40 + segment.len() + if addresses.len() == 1 { 0 } else { 16 + 16 * addresses.len() };
                let is_narrow = addresses.contains(&e(3)) || addresses.contains(&e(4));
                assert!(size <= if is_narrow { 1300 } else { 1500 });
                addresses
            };
            packets.into_iter().map(list).collect::<Vec<_>>()
        };
        let room = |mtu: usize, addresses: usize| mtu - 40 - 8 - 16 - 16 * addresses;
        let whole = vec![r(1), e(1), e(2), e(3), r(2), e(4), e(5)];
        let wide = vec![r(1), e(1), e(2), r(2), e(5)];
        assert_eq!(lists(room(1300, 7)), [vec![e(6)], whole]);
        let narrow = vec![r(1), e(3), r(2), e(4)];
        assert_eq!(lists(room(1300, 4)), [vec![e(6)], wide.clone(), narrow]);
        assert_eq!(lists(room(1300, 2) + 1), [vec![e(6)], vec![e(3)], vec![e(4)], wide]);
    }

    #[test]
    fn only_the_first_fragment_has_a_checksum() {
        let mut packet = datagram(64);
        packet[6] = next_header::FRAGMENT;
        packet[5] += 8;
        let fragment = |offset: u8| {
            let mut packet = packet.clone();
            packet.splice(40..40, [17, 0, 0, offset << 3 | 1, 0, 0, 0, 1]);
            packet
        };
        for (offset, is_changed) in [(0, true), (1, false)] {
            let packet = fragment(offset);
            let mut count = 0;
            let made = Packets::new(form(), group()).make(&packet, |_, sent| {
                let same = sent[sent.len() - 72..] == packet[48..];
                assert_eq!(same, !is_changed);
                count += 1;
            });
            assert!(made.is_some() && count == 2);
        }
    }

    #[test]
    fn who_leaves_is_sent_nothing_and_who_joins_gets_unicast() {
        let mut group = group();
        [e(4), e(5), e(6), e(9)].into_iter().for_each(|receiver| group.remove(receiver));
        group.add(e(7), 1);
        group.add(e(7), 2);
        let in_lists: usize = group.lists.iter().map(List::receiver_count).sum();
        assert_eq!((in_lists, &group.unicast), (3, &vec![e(7)]));
        assert_eq!((group.lists[0].entries.len(), group.ports[&e(7)]), (1, 2));
    }
}
