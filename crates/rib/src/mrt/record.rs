//! Reads the routes of one record.

use std::net::IpAddr;

use super::{
    Header,
    attributes::{self, Attributes},
    bytes::Bytes,
    types::{BGP4MP, BGP4MP_ENTRY, BGP4MP_ET, OLD, PEER_INDEX_TABLE, TABLE_DUMP, TABLE_DUMP_V2, is_known},
};
use crate::{Family, Prefix, fault::Fault};

/// A route's peer, as the record names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerName {
    /// The place in the peer index table before.
    Index(u16),
    /// The router's address and ASN.
    Router(IpAddr, u32),
}

/// Takes what a record holds.
pub trait Sink {
    /// A route. `path` are the octets of its AS_PATH with 4-octet ASNs, unchecked.
    fn route(&mut self, peer: PeerName, prefix: Prefix, path: &[u8]);
    fn withdrawal(&mut self, peer: PeerName, prefix: Prefix);
    fn fault(&mut self, fault: Fault);
}

/// Hands the routes of a record to `sink`, and counts what is wrong in it.
pub fn read(header: Header, body: &[u8], sink: &mut impl Sink) {
    let result = match (header.kind, header.subtype) {
        (TABLE_DUMP_V2, PEER_INDEX_TABLE) => Ok(()),
        (TABLE_DUMP_V2, subtype) => table_dump_v2(subtype, Bytes(body), sink),
        (TABLE_DUMP, subtype @ 1..=2) => {
            let family = if subtype == 1 { Family::V4 } else { Family::V6 };
            table_dump(family, Bytes(body), sink)
        }
        (TABLE_DUMP, _) => Err(Fault::OtherFamily),
        (BGP4MP, subtype) => bgp4mp(subtype, Bytes(body), sink),
        // The time's microseconds come first (RFC 6396, 3).
        (BGP4MP_ET, subtype) => match body.get(4..) {
            Some(body) => bgp4mp(subtype, Bytes(body), sink),
            None => Err(Fault::RecordCutShort),
        },
        (kind, _) if OLD.contains(&kind) => Err(Fault::OldRecord),
        (kind, _) if is_known(kind) => Err(Fault::OtherRecord),
        _ => Err(Fault::UnknownType),
    };
    if let Err(fault) = result {
        sink.fault(fault);
    }
}

type Result = std::result::Result<(), Fault>;

/// RFC 6396, 4.3, and RFC 8050 for the subtypes from 8 on, whose entries have a path identifier.
fn table_dump_v2(subtype: u16, mut bytes: Bytes<'_>, sink: &mut impl Sink) -> Result {
    let (family, has_identifier) = match subtype {
        2 => (Family::V4, false),
        4 => (Family::V6, false),
        8 => (Family::V4, true),
        10 => (Family::V6, true),
        6 | 12 => return generic(bytes, subtype == 12, sink),
        // Multicast routes, and the table of geographical places (RFC 6397).
        3 | 5 | 9 | 11 => return Err(Fault::OtherFamily),
        7 => return Err(Fault::OtherRecord),
        _ => return Err(Fault::UnknownType),
    };
    bytes.u32().ok_or(Fault::RecordCutShort)?;
    let prefix = prefix(&mut bytes, family)?;
    entries(prefix, has_identifier, bytes, sink)
}

/// RIB_GENERIC (RFC 6396, 4.3.3).
fn generic(mut bytes: Bytes<'_>, has_identifier: bool, sink: &mut impl Sink) -> Result {
    let short = Fault::RecordCutShort;
    let (_, afi, safi) = (bytes.u32().ok_or(short)?, bytes.u16().ok_or(short)?, bytes.u8().ok_or(short)?);
    let family = unicast(afi, safi).ok_or(Fault::OtherFamily)?;
    let prefix = prefix(&mut bytes, family)?;
    entries(prefix, has_identifier, bytes, sink)
}

fn entries(prefix: Prefix, has_identifier: bool, mut bytes: Bytes<'_>, sink: &mut impl Sink) -> Result {
    let count = bytes.u16().ok_or(Fault::RecordCutShort)?;
    for _ in 0..count {
        let (peer, octets) = entry(&mut bytes, has_identifier).ok_or(Fault::RecordCutShort)?;
        match attributes::as_path(octets) {
            Ok(path) => sink.route(PeerName::Index(peer), prefix, path),
            Err(fault) => sink.fault(fault),
        }
    }
    Ok(())
}

/// The peer's index and the attributes of an entry.
#[inline]
fn entry<'b>(bytes: &mut Bytes<'b>, has_identifier: bool) -> Option<(u16, &'b [u8])> {
    let peer = bytes.u16()?;
    bytes.take(if has_identifier { 8 } else { 4 })?;
    let length = bytes.u16()?;
    Some((peer, bytes.take(usize::from(length))?))
}

/// RFC 6396, 4.2: one route a record, with ASNs of 2 octets. Collectors wrote several routes into a record before that
/// (RIPE RIS in 2000): the fields from the prefix on again, as often as they fill the record.
fn table_dump(family: Family, mut bytes: Bytes<'_>, sink: &mut impl Sink) -> Result {
    bytes.take(4).ok_or(Fault::RecordCutShort)?;
    let first = DumpEntry::parse(&mut bytes, family).ok_or(Fault::RecordCutShort)?;
    first.read(family, sink)?;
    let mut behind = bytes;
    while !behind.0.is_empty() {
        // Octets that are no entries belong to nothing.
        if DumpEntry::parse(&mut behind, family).is_none() {
            return Ok(());
        }
    }
    while let Some(entry) = DumpEntry::parse(&mut bytes, family) {
        if let Err(fault) = entry.read(family, sink) {
            sink.fault(fault);
        }
    }
    Ok(())
}

/// One route of a TABLE_DUMP record.
struct DumpEntry<'b> {
    prefix: &'b [u8],
    length: u8,
    peer: PeerName,
    attributes: &'b [u8],
}

impl<'b> DumpEntry<'b> {
    fn parse(bytes: &mut Bytes<'b>, family: Family) -> Option<Self> {
        let prefix = bytes.take(usize::from(family.address_bits()) / 8)?;
        let length = bytes.u8()?;
        // The status, and the time at which the route came.
        bytes.take(5)?;
        let peer = PeerName::Router(bytes.address(family)?, bytes.asn(false)?);
        let count = bytes.u16()?;
        Some(Self { prefix, length, peer, attributes: bytes.take(usize::from(count))? })
    }

    fn read(&self, family: Family, sink: &mut impl Sink) -> Result {
        let prefix = Prefix::from_wire(family, self.length, self.prefix).ok_or(Fault::PrefixTooLong)?;
        entry_of_two_octets(self.peer, prefix, self.attributes, sink)
    }
}

/// A table's route with attributes of 2-octet ASNs. One without an AS_PATH is a route of the router itself.
fn entry_of_two_octets(peer: PeerName, prefix: Prefix, octets: &[u8], sink: &mut impl Sink) -> Result {
    let found = attributes::all(octets)?;
    let mut wide = Vec::new();
    attributes::widen(found.as_path.unwrap_or_default(), found.as4_path, &mut wide)?;
    sink.route(peer, prefix, &wide);
    Ok(())
}

/// RFC 6396, 4.4: a message of BGP.
fn bgp4mp(subtype: u16, mut bytes: Bytes<'_>, sink: &mut impl Sink) -> Result {
    // The even ones of the subtypes that RFC 8050 adds have 2-octet ASNs, as MESSAGE has.
    let (is_wide, has_identifiers) = match subtype {
        1 | 6 => (false, false),
        4 | 7 => (true, false),
        8 | 10 => (false, true),
        9 | 11 => (true, true),
        0 | 5 => return Err(Fault::OtherMessage),
        BGP4MP_ENTRY => return bgp4mp_entry(bytes, sink),
        3 => return Err(Fault::OtherRecord),
        _ => return Err(Fault::UnknownType),
    };
    let peer = peer(&mut bytes, is_wide).ok_or(Fault::RecordCutShort)?;
    message(BgpSession { peer, is_wide, has_identifiers }, bytes, sink)
}

/// The peer, from the fields that begin each record of BGP4MP.
fn peer(bytes: &mut Bytes<'_>, is_wide: bool) -> Option<PeerName> {
    let asn = bytes.asn(is_wide)?;
    bytes.asn(is_wide)?;
    bytes.u16()?;
    let family = if bytes.u16()? == 2 { Family::V6 } else { Family::V4 };
    let peer = PeerName::Router(bytes.address(family)?, asn);
    bytes.address(family)?;
    Some(peer)
}

/// RFC 6396, appendix B.2.5: an entry of a table, with ASNs of 2 octets.
fn bgp4mp_entry(mut bytes: Bytes<'_>, sink: &mut impl Sink) -> Result {
    let mut fields = || {
        let peer = peer(&mut bytes, false)?;
        // The view, the status, and the time at which the route came.
        bytes.take(8)?;
        let family = bytes.u16().zip(bytes.u8())?;
        let next_hop = bytes.u8()?;
        bytes.take(usize::from(next_hop))?;
        Some((peer, family))
    };
    let (peer, (afi, safi)) = fields().ok_or(Fault::RecordCutShort)?;
    let prefix = prefix(&mut bytes, unicast(afi, safi).ok_or(Fault::OtherFamily)?)?;
    let length = bytes.u16().ok_or(Fault::RecordCutShort)?;
    let octets = bytes.take(usize::from(length)).ok_or(Fault::RecordCutShort)?;
    entry_of_two_octets(peer, prefix, octets, sink)
}

/// The session in which a message was sent.
#[derive(Debug, Clone, Copy)]
struct BgpSession {
    peer: PeerName,
    /// Whether ASNs have 4 octets.
    is_wide: bool,
    /// Whether each prefix has a path identifier before it (RFC 7911).
    has_identifiers: bool,
}

/// RFC 4271, 4.1 and 4.3.
fn message(session: BgpSession, mut bytes: Bytes<'_>, sink: &mut impl Sink) -> Result {
    const HEADER: usize = 19;
    const UPDATE: u8 = 2;
    let mut fields = || Some((bytes.take(16)?, bytes.u16()?, bytes.u8()?));
    let (marker, length, kind) = fields().ok_or(Fault::MessageMalformed)?;
    let rest = usize::from(length).checked_sub(HEADER).and_then(|length| bytes.take(length));
    let mut bytes = Bytes(rest.filter(|_| marker == [0xff; 16]).ok_or(Fault::MessageMalformed)?);
    if kind != UPDATE {
        return Err(Fault::OtherMessage);
    }
    let mut block = || {
        let length = bytes.u16()?;
        bytes.take(usize::from(length))
    };
    let (withdrawn, octets) = block().zip(block()).ok_or(Fault::MessageMalformed)?;
    let found = attributes::all(octets)?;
    prefixes(session, Family::V4, withdrawn, |prefix| sink.withdrawal(session.peer, prefix))?;
    if let Some((family, withdrawn)) = found.mp_unreach.map(multiprotocol).transpose()? {
        prefixes(session, family, withdrawn.0, |prefix| sink.withdrawal(session.peer, prefix))?;
    }
    announced(session, bytes.0, found, sink)
}

/// The routes of an update: of IPv4 at its end, and of any family in MP_REACH_NLRI (RFC 4760, 3).
fn announced(session: BgpSession, plain: &[u8], found: Attributes<'_>, sink: &mut impl Sink) -> Result {
    let reached = match found.mp_reach.map(multiprotocol).transpose()? {
        Some((family, mut bytes)) => {
            let mut skip = || {
                let next_hop = bytes.u8()?;
                bytes.take(usize::from(next_hop) + 1)
            };
            skip().ok_or(Fault::AttributesCutShort)?;
            Some((family, bytes.0))
        }
        None => None,
    };
    if plain.is_empty() && reached.is_none() {
        return Ok(());
    }
    let path = found.as_path.ok_or(Fault::NoPath)?;
    let mut wide = Vec::new();
    let path = match session.is_wide {
        true => path,
        false => {
            attributes::widen(path, found.as4_path, &mut wide)?;
            &wide
        }
    };
    for (family, octets) in reached.into_iter().chain([(Family::V4, plain)]) {
        prefixes(session, family, octets, |prefix| sink.route(session.peer, prefix, path))?;
    }
    Ok(())
}

/// The family of MP_REACH_NLRI or MP_UNREACH_NLRI, and what follows it.
fn multiprotocol(octets: &[u8]) -> std::result::Result<(Family, Bytes<'_>), Fault> {
    let mut bytes = Bytes(octets);
    let (afi, safi) = bytes.u16().zip(bytes.u8()).ok_or(Fault::AttributesCutShort)?;
    Ok((unicast(afi, safi).ok_or(Fault::OtherFamily)?, bytes))
}

fn prefixes(session: BgpSession, family: Family, octets: &[u8], mut visit: impl FnMut(Prefix)) -> Result {
    let mut bytes = Bytes(octets);
    while !bytes.0.is_empty() {
        if session.has_identifiers {
            bytes.u32().ok_or(Fault::MessageMalformed)?;
        }
        visit(prefix(&mut bytes, family)?);
    }
    Ok(())
}

fn prefix(bytes: &mut Bytes<'_>, family: Family) -> std::result::Result<Prefix, Fault> {
    let length = bytes.u8().ok_or(Fault::RecordCutShort)?;
    if length > family.address_bits() {
        return Err(Fault::PrefixTooLong);
    }
    let octets = bytes.take(usize::from(length).div_ceil(8)).ok_or(Fault::RecordCutShort)?;
    Prefix::from_wire(family, length, octets).ok_or(Fault::PrefixTooLong)
}

/// The family of unicast routes with these numbers (RFC 4760).
fn unicast(afi: u16, safi: u8) -> Option<Family> {
    match (afi, safi) {
        (1, 1) => Some(Family::V4),
        (2, 1) => Some(Family::V6),
        _ => None,
    }
}

/// The collector's name of the view and its peers, from a peer index table (RFC 6396, 4.3.1).
pub(crate) fn peer_table(body: &[u8]) -> Option<(String, Vec<(IpAddr, u32)>)> {
    let mut bytes = Bytes(body);
    bytes.u32()?;
    let length = bytes.u16()?;
    let view = String::from_utf8_lossy(bytes.take(usize::from(length))?).into_owned();
    let count = bytes.u16()?;
    let mut peers = Vec::new();
    for _ in 0..count {
        let kind = bytes.u8()?;
        bytes.u32()?;
        let address = bytes.address(if kind & 1 == 0 { Family::V4 } else { Family::V6 })?;
        peers.push((address, bytes.asn(kind & 2 != 0)?));
    }
    Some((view, peers))
}
