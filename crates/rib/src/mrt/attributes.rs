//! Path attributes of BGP (RFC 4271, 4.3), of which the analysis needs few.

use super::bytes::Bytes;
use crate::fault::Fault;

const EXTENDED_LENGTH: u8 = 0x10;
const AS_PATH: u8 = 2;
const MP_REACH: u8 = 14;
const MP_UNREACH: u8 = 15;
const AS4_PATH: u8 = 17;

/// The attributes that the analysis reads, as the octets of their values.
#[derive(Debug, Clone, Copy, Default)]
pub struct Attributes<'b> {
    pub as_path: Option<&'b [u8]>,
    pub as4_path: Option<&'b [u8]>,
    pub mp_reach: Option<&'b [u8]>,
    pub mp_unreach: Option<&'b [u8]>,
}

/// Finds the AS_PATH alone, which is all that a routing table's entry with 4-octet ASNs needs. An entry without one is a
/// route of the router itself, and has an empty path.
pub fn as_path(octets: &[u8]) -> Result<&[u8], Fault> {
    let mut bytes = Bytes(octets);
    while !bytes.0.is_empty() {
        let (kind, value) = next(&mut bytes).ok_or(Fault::AttributesCutShort)?;
        if kind == AS_PATH {
            return Ok(value);
        }
    }
    Ok(&[])
}

/// Finds all attributes of [`Attributes`].
pub fn all(octets: &[u8]) -> Result<Attributes<'_>, Fault> {
    let mut found = Attributes::default();
    let mut bytes = Bytes(octets);
    while !bytes.0.is_empty() {
        let (kind, value) = next(&mut bytes).ok_or(Fault::AttributesCutShort)?;
        match kind {
            AS_PATH => found.as_path = Some(value),
            AS4_PATH => found.as4_path = Some(value),
            MP_REACH => found.mp_reach = Some(value),
            MP_UNREACH => found.mp_unreach = Some(value),
            _ => {}
        }
    }
    Ok(found)
}

#[inline]
fn next<'b>(bytes: &mut Bytes<'b>) -> Option<(u8, &'b [u8])> {
    let (flags, kind) = (bytes.u8()?, bytes.u8()?);
    let length = match flags & EXTENDED_LENGTH {
        0 => usize::from(bytes.u8()?),
        _ => usize::from(bytes.u16()?),
    };
    Some((kind, bytes.take(length)?))
}

/// Writes a path of 2-octet ASNs with 4-octet ones into `wide`, with the ASNs that only the AS4_PATH has.
///
/// RFC 6793, 4.2.3: the AS_PATH's first ASNs, as many as it has more than the AS4_PATH, stand before the AS4_PATH. An
/// AS4_PATH that is longer than the AS_PATH is ignored. A set counts as one.
pub fn widen(as_path: &[u8], as4_path: Option<&[u8]>, wide: &mut Vec<u8>) -> Result<(), Fault> {
    wide.clear();
    let narrow = segments(as_path, 2).ok_or(Fault::PathMalformed)?;
    let newer = as4_path.and_then(|octets| segments(octets, 4)).unwrap_or_default();
    let count =
        |segments: &[(u8, Vec<u32>)]| segments.iter().map(|(kind, asns)| hops(*kind, asns)).sum::<usize>();
    let Some(mut before) = count(&narrow).checked_sub(count(&newer)).filter(|_| !newer.is_empty()) else {
        narrow.iter().for_each(|(kind, asns)| write(wide, *kind, asns));
        return Ok(());
    };
    for (kind, asns) in &narrow {
        let hops = hops(*kind, asns);
        // Segments of confederations count nothing, and stand before the AS4_PATH while they come first.
        if before == 0 && hops > 0 {
            break;
        }
        let taken = if hops > before { before } else { asns.len() };
        write(wide, *kind, &asns[..taken]);
        before = before.saturating_sub(hops);
    }
    newer.iter().for_each(|(kind, asns)| write(wide, *kind, asns));
    Ok(())
}

/// The length of a segment as BGP counts it: a set is 1, and a confederation is 0.
fn hops(kind: u8, asns: &[u32]) -> usize {
    match kind {
        1 => 1,
        2 => asns.len(),
        _ => 0,
    }
}

fn segments(octets: &[u8], asn_octets: usize) -> Option<Vec<(u8, Vec<u32>)>> {
    let mut bytes = Bytes(octets);
    let mut segments = Vec::new();
    while !bytes.0.is_empty() {
        let (kind, count) = (bytes.u8()?, usize::from(bytes.u8()?));
        let asns = bytes.take(count * asn_octets).filter(|_| (1..=4).contains(&kind) && count > 0)?;
        let number = |octets: &[u8]| octets.iter().fold(0, |asn, octet| asn << 8 | u32::from(*octet));
        segments.push((kind, asns.chunks_exact(asn_octets).map(number).collect()));
    }
    Some(segments)
}

fn write(wide: &mut Vec<u8>, kind: u8, asns: &[u32]) {
    if !asns.is_empty() {
        wide.extend([kind, asns.len() as u8]);
        asns.iter().for_each(|asn| wide.extend(asn.to_be_bytes()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::Path;

    /// The octets of a path with 2-octet ASNs. Larger ASNs become AS_TRANS.
    fn narrow(text: &str) -> Vec<u8> {
        let path: Path = text.parse().unwrap();
        let mut octets = Vec::new();
        for (kind, asns) in segments(path.to_wire(), 4).unwrap() {
            octets.extend([kind, asns.len() as u8]);
            for asn in asns {
                octets.extend(u16::try_from(asn).unwrap_or(23_456).to_be_bytes());
            }
        }
        octets
    }

    #[test]
    fn an_as4_path_replaces_the_end_of_an_as_path() {
        for (old, newer, expected) in [
            ("1 2 3", None, "1 2 3"),
            ("1 23456 3", Some("400000 3"), "1 400000 3"),
            ("1 2 23456 {4,5}", Some("400000 {4,400001}"), "1 2 400000 {4,400001}"),
            ("23456", Some("7 400000"), "23456"),
            ("(65001) 1 23456", Some("400000"), "(65001) 1 400000"),
            ("1 {2,3} 23456", Some("400000"), "1 {2,3} 400000"),
        ] {
            let newer: Option<Path> = newer.map(|text| text.parse().unwrap());
            let mut wide = Vec::new();
            widen(&narrow(old), newer.as_ref().map(Path::to_wire), &mut wide).unwrap();
            assert_eq!(Path::from_wire(&wide), expected.parse().ok(), "{old} {newer:?}");
        }
        assert_eq!(widen(&[2, 1, 0], None, &mut Vec::new()), Err(Fault::PathMalformed));
    }

    #[test]
    fn attributes_are_found_behind_others_and_their_ends_are_checked() {
        let octets = [0x40, 1, 1, 0, 0x50, AS_PATH, 0, 2, 2, 0];
        assert_eq!(as_path(&octets), Ok(&[2, 0][..]));
        assert_eq!(as_path(&octets[..9]), Err(Fault::AttributesCutShort));
        assert_eq!(as_path(&octets[..4]), Ok(&[][..]), "a route of the router itself");
        assert_eq!(as_path(&[]), Ok(&[][..]));
        assert_eq!(all(&octets).unwrap().as_path, Some(&[2, 0][..]));
    }
}
