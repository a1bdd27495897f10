//! AS paths: as BGP writes them (RFC 4271, 4.3; RFC 6793), as text, and as the analysis reads them.

use std::{fmt, fmt::Write as _};

use super::asn::{self, AsnKind};

const SET: u8 = 1;
const SEQUENCE: u8 = 2;
const CONFEDERATION_SEQUENCE: u8 = 3;
const CONFEDERATION_SET: u8 = 4;

/// An AS path as announced, with its prepends: segments of 4-octet ASNs, which are known to be well formed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Path(Box<[u8]>);

/// A map of paths is searched by the octets of a path, which equal paths share.
impl std::borrow::Borrow<[u8]> for Path {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

/// An AS path as the analysis reads it (interdomain-2013, 6.2.1): repeated and private ASNs are gone.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Hops {
    /// The ASNs from the collector's peer to the origin. 0 is a hop that may be any AS: a set, or a reserved ASN.
    pub hops: Vec<u32>,
    /// The public ASNs in sets of several ASes.
    pub in_sets: Vec<u32>,
    /// The private ASNs that were removed.
    pub private: Vec<u32>,
    /// The reserved ASNs that were replaced by 0.
    pub reserved: Vec<u32>,
    /// Whether an ASN followed itself.
    pub is_prepended: bool,
    /// Whether there was a set of several ASes.
    pub has_set: bool,
    /// Whether an ASN came again behind another one.
    pub is_looped: bool,
}

impl Hops {
    /// The AS that announces the prefix. 0: it is not known.
    pub fn origin(&self) -> u32 {
        self.hops.last().copied().unwrap_or(0)
    }

    /// The AS before the origin. 0: there is none, or one of both is not known.
    pub fn upstream(&self) -> u32 {
        match self.hops[..] {
            [.., upstream, origin] if origin != 0 => upstream,
            _ => 0,
        }
    }

    /// The ASes inside the path: neither the collector's peer nor the origin. These forward for others.
    pub fn inside(&self) -> impl Iterator<Item = u32> {
        let inside = self.hops.get(1..self.hops.len().saturating_sub(1)).unwrap_or_default();
        inside.iter().copied().filter(|asn| *asn != 0)
    }
}

impl Path {
    /// Checks the octets of an AS_PATH with 4-octet ASNs, and joins sequences that follow one another, so that equal paths
    /// have equal octets. `None` if a segment is cut short, empty, or of an unknown kind.
    pub fn from_wire(octets: &[u8]) -> Option<Self> {
        let (mut left, mut before, mut is_divided) = (octets, 0, false);
        while let [kind, count, rest @ ..] = left {
            let is_known = (SET..=CONFEDERATION_SET).contains(kind);
            left = rest.get(usize::from(*count) * 4..).filter(|_| is_known && *count > 0)?;
            is_divided |= (before, *kind) == (SEQUENCE, SEQUENCE);
            before = *kind;
        }
        let path = left.is_empty().then(|| Self(octets.into()))?;
        Some(if is_divided { path.joined() } else { path })
    }

    /// The same path with as few sequences as possible.
    fn joined(&self) -> Self {
        let (mut octets, mut sequence) = (Vec::with_capacity(self.0.len()), Vec::new());
        let end = |octets: &mut Vec<u8>, sequence: &mut Vec<u32>| {
            sequence.chunks(255).for_each(|part| segment(octets, SEQUENCE, part));
            sequence.clear();
        };
        for (kind, asns) in self.segments() {
            if kind == SEQUENCE {
                sequence.extend(asns);
            } else {
                end(&mut octets, &mut sequence);
                segment(&mut octets, kind, &asns.collect::<Vec<_>>());
            }
        }
        end(&mut octets, &mut sequence);
        Self(octets.into())
    }

    /// The octets of the AS_PATH, with 4-octet ASNs.
    pub fn to_wire(&self) -> &[u8] {
        &self.0
    }

    /// Makes the path of a sequence of ASNs.
    pub fn of_sequence(asns: &[u32]) -> Self {
        let mut octets = Vec::with_capacity(2 + asns.len() * 4);
        for part in asns.chunks(255) {
            segment(&mut octets, SEQUENCE, part);
        }
        Self(octets.into())
    }

    /// The path with a set of ASes at its end.
    pub fn with_set(&self, asns: &[u32]) -> Self {
        let mut octets = self.0.to_vec();
        segment(&mut octets, SET, asns);
        Self(octets.into())
    }

    fn segments(&self) -> impl Iterator<Item = (u8, impl Iterator<Item = u32> + '_)> {
        let mut left = &self.0[..];
        std::iter::from_fn(move || {
            let [kind, count, rest @ ..] = left else { return None };
            let (asns, behind) = rest.split_at_checked(usize::from(*count) * 4)?;
            left = behind;
            let asns = asns.chunks_exact(4).map(|asn| u32::from_be_bytes([asn[0], asn[1], asn[2], asn[3]]));
            Some((*kind, asns))
        })
    }

    /// Reads the path as the analysis does. Segments of confederations are left out (RFC 5065). A set of one AS
    /// counts as that AS.
    pub fn hops(&self) -> Hops {
        let mut hops = Hops::default();
        let mut before = None;
        for (kind, asns) in self.segments() {
            match kind {
                SEQUENCE => asns.for_each(|asn| hops.add(asn, &mut before)),
                SET => {
                    let asns: Vec<u32> = asns.collect();
                    match asns[..] {
                        [asn] => hops.add(asn, &mut before),
                        _ => hops.add_set(&asns, &mut before),
                    }
                }
                _ => {}
            }
        }
        hops.is_looped = has_loop(&hops.hops);
        hops
    }
}

impl Hops {
    fn add(&mut self, asn: u32, before: &mut Option<u32>) {
        if before.replace(asn) == Some(asn) {
            self.is_prepended = true;
            return;
        }
        match asn::kind(asn) {
            // Its upstream alone knows it, and announces the prefix to the others as its own (6.2.1).
            AsnKind::Private => self.private.push(asn),
            AsnKind::Reserved => {
                self.reserved.push(asn);
                self.hops.push(0);
            }
            // The same AS on both sides of a private one is one hop.
            AsnKind::Public if self.hops.last() != Some(&asn) => self.hops.push(asn),
            AsnKind::Public => {}
        }
    }

    fn add_set(&mut self, asns: &[u32], before: &mut Option<u32>) {
        *before = None;
        self.has_set = true;
        self.hops.push(0);
        for asn in asns {
            match asn::kind(*asn) {
                AsnKind::Public => self.in_sets.push(*asn),
                AsnKind::Private => self.private.push(*asn),
                AsnKind::Reserved => self.reserved.push(*asn),
            }
        }
    }
}

fn has_loop(hops: &[u32]) -> bool {
    let mut known: Vec<u32> = hops.iter().copied().filter(|asn| *asn != 0).collect();
    known.sort_unstable();
    known.windows(2).any(|pair| pair[0] == pair[1])
}

fn segment(octets: &mut Vec<u8>, kind: u8, asns: &[u32]) {
    octets.extend([kind, asns.len() as u8]);
    asns.iter().for_each(|asn| octets.extend(asn.to_be_bytes()));
}

/// The path as bgpdump writes it: `3356 1299 {64500,64501}`, with `(...)` and `[...]` around confederations.
impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut is_first = true;
        for (kind, asns) in self.segments() {
            if !std::mem::take(&mut is_first) {
                f.write_char(' ')?;
            }
            let (open, between, close) = marks(kind);
            f.write_str(open)?;
            for (at, asn) in asns.enumerate() {
                if at > 0 {
                    f.write_str(between)?;
                }
                write!(f, "{asn}")?;
            }
            f.write_str(close)?;
        }
        Ok(())
    }
}

fn marks(kind: u8) -> (&'static str, &'static str, &'static str) {
    match kind {
        SET => ("{", ",", "}"),
        CONFEDERATION_SEQUENCE => ("(", " ", ")"),
        CONFEDERATION_SET => ("[", ",", "]"),
        _ => ("", " ", ""),
    }
}

/// Reads a path as [`Path`]'s `Display` writes it.
impl std::str::FromStr for Path {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is no AS path: expected ASNs, and sets such as {{64500,64501}}");
        let mut octets = Vec::new();
        let mut left = text.trim_start();
        while let Some(first) = left.chars().next() {
            let kind = [SET, CONFEDERATION_SEQUENCE, CONFEDERATION_SET]
                .into_iter()
                .find(|kind| marks(*kind).0.starts_with(first));
            let (inner, behind) = match kind {
                Some(kind) => left[1..].split_once(marks(kind).2).ok_or_else(wrong)?,
                None => left.split_at(left.find(['{', '(', '[']).unwrap_or(left.len())),
            };
            let asns = inner.split([' ', ',']).filter(|asn| !asn.is_empty());
            let asns: Vec<u32> =
                asns.map(|asn| asn.parse().map_err(|_| wrong())).collect::<Result<_, _>>()?;
            for part in asns.chunks(255) {
                segment(&mut octets, kind.unwrap_or(SEQUENCE), part);
            }
            left = behind.trim_start();
        }
        Ok(Self(octets.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> Path {
        text.parse().unwrap()
    }

    #[test]
    fn repeated_and_private_asns_are_removed_and_sets_are_any_as() {
        let hops = path("1 2 2 2 64512 3 3 4200000000").hops();
        assert_eq!((&hops.hops[..], hops.origin(), hops.upstream()), (&[1, 2, 3][..], 3, 2));
        assert_eq!((&hops.private[..], hops.is_prepended), (&[64512, 4_200_000_000][..], true));
        assert_eq!(hops.inside().collect::<Vec<_>>(), [2]);

        let hops = path("1 2 {3,4}").hops();
        assert_eq!((&hops.hops[..], hops.origin(), hops.upstream()), (&[1, 2, 0][..], 0, 0));
        assert_eq!((&hops.in_sets[..], hops.inside().collect::<Vec<_>>()), (&[3, 4][..], vec![2]));

        assert_eq!(path("1 2 {3}").hops().hops, [1, 2, 3], "a set of one AS is that AS");
        assert_eq!(path("1 23456 3").hops().upstream(), 0, "AS_TRANS may be any AS");
        assert_eq!(path("(65001 65002) 1 2").hops().hops, [1, 2], "confederations are left out");
        assert_eq!(path("1 64512 1").hops().hops, [1], "a private AS announces through its upstream");
        let looped = path("1 2 3 2").hops();
        assert!(looped.is_looped && !looped.is_prepended);
        assert_eq!(path("").hops(), Hops::default());
        assert_eq!((path("7").hops().origin(), path("7").hops().upstream()), (7, 0));
    }

    #[test]
    fn text_and_octets_say_the_same() {
        for text in ["", "1 2 3", "1 {2,3}", "{2,3}", "(65001 65002) 1 2 [65003,65004]", "4294967295 1 1"] {
            assert_eq!(path(text).to_string(), text);
            assert_eq!(Path::from_wire(path(text).to_wire()), Some(path(text)), "{text}");
        }
        for wrong in ["x", "1 {2", "1 2}", "4294967296", "1,é"] {
            assert!(wrong.parse::<Path>().is_err(), "{wrong}");
        }
        let long: Vec<u32> = (1..=300).collect();
        assert_eq!(Path::of_sequence(&long).hops().hops, long);
    }

    #[test]
    fn malformed_octets_are_refused() {
        for wrong in [
            &[2][..],
            &[2, 0],
            &[2, 1, 0, 0, 0],
            &[5, 1, 0, 0, 0, 1],
            &[0, 1, 0, 0, 0, 1],
            &[2, 1, 0, 0, 0, 1, 9],
        ] {
            assert_eq!(Path::from_wire(wrong), None, "{wrong:?}");
        }
    }
}
