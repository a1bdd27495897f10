//! Delegation files of the regional registries: the holders of ASNs and address blocks.
//!
//! A line is `registry|country|type|start|value|date|status`. The extended form has one more field, which is the same
//! for all resources of one holder. Only with it can a prefix be told to belong to the holder of an ASN.

use std::{
    io::{self, BufRead},
    net::IpAddr,
};

use super::{
    Family, Prefix,
    budget::Budget,
    date,
    fault::{Fault, Faults},
    lines,
};

/// A run of ASNs or addresses that a registry gave to one holder.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Delegation {
    pub resource: Resource,
    /// The first and the last number of the run. Addresses begin at the highest bit, as in [`Prefix::bits`].
    pub first: u128,
    pub last: u128,
    pub registry: String,
    /// The country's code. It may be empty.
    pub country: String,
    /// Seconds since 1970. 0: the file does not say.
    pub time: i64,
    /// `allocated` or `assigned`.
    pub status: String,
    /// The registry's name of the holder. Empty: the file does not say.
    pub holder: String,
}

impl Delegation {
    /// Memory, in bytes, that the delegation takes in a list that grows and is sorted.
    fn memory_bytes(&self) -> usize {
        let texts = [&self.registry, &self.country, &self.status, &self.holder];
        let of_texts = texts.iter().map(|text| text.len().next_multiple_of(16)).sum::<usize>();
        2 * size_of::<Self>() + of_texts
    }
}

/// The kind of resource that is delegated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Resource {
    Asn,
    Addresses(Family),
}

impl Resource {
    /// The type's name in a delegation file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Asn => "asn",
            Self::Addresses(Family::V4) => "ipv4",
            Self::Addresses(Family::V6) => "ipv6",
        }
    }

    pub fn of_name(name: &str) -> Option<Self> {
        let all = [Self::Asn, Self::Addresses(Family::V4), Self::Addresses(Family::V6)];
        all.into_iter().find(|resource| resource.name() == name)
    }
}

/// The delegations of one file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Delegations {
    pub file: String,
    /// Seconds since 1970, from the file's heading or name. 0: neither says.
    pub time: i64,
    /// The delegations, sorted by resource and first number.
    pub all: Vec<Delegation>,
    pub faults: Faults,
}

impl Delegations {
    /// Reads a file. Lines that say nothing are counted in `faults`.
    ///
    /// # Errors
    /// If the file cannot be read, or holds more delegations than all registries have by far.
    pub fn read(file: impl BufRead, name: &str) -> io::Result<Self> {
        Self::read_within(file, name, &Budget::of_text())
    }

    fn read_within(file: impl BufRead, name: &str, budget: &Budget) -> io::Result<Self> {
        let mut delegations =
            Self { file: name.to_owned(), time: date::of_name(name).unwrap_or(0), ..Self::default() };
        let mut faults = Faults::default();
        lines::each(file, &mut faults, |line| delegations.read_line(line, budget))?;
        delegations.faults.merge(&faults);
        delegations.all.sort();
        Ok(delegations)
    }

    fn read_line(&mut self, line: &str, budget: &Budget) -> io::Result<()> {
        if line.is_empty() || line.starts_with('#') {
            return Ok(());
        }
        let fields: Vec<&str> = line.split('|').collect();
        match fields[..] {
            [.., "summary"] => {}
            [version, _, serial, _, _, end, _] if version.parse::<f32>().is_ok() => {
                let time = date::parse(end).or_else(|| date::parse(serial));
                self.time = time.unwrap_or(self.time);
            }
            // Addresses that nobody holds, in the extended form.
            [_, _, _, _, _, _, "available" | "reserved", ..] => {}
            _ => match parse(&fields) {
                Some(delegation) => {
                    budget.take(delegation.memory_bytes())?;
                    self.all.push(delegation);
                }
                None => self.faults.add(Fault::LineMalformed),
            },
        }
        Ok(())
    }
}

fn parse(fields: &[&str]) -> Option<Delegation> {
    let [registry, country, kind, start, value, day, status, rest @ ..] = fields else { return None };
    let resource = Resource::of_name(kind)?;
    let (first, last) = match resource {
        Resource::Asn => {
            let (start, count) = (start.parse::<u32>().ok()?, value.parse::<u32>().ok()?);
            (u128::from(start), u128::from(start.checked_add(count.checked_sub(1)?)?))
        }
        Resource::Addresses(Family::V4) => {
            let IpAddr::V4(start) = start.parse().ok()? else { return None };
            let count = value.parse::<u32>().ok()?.checked_sub(1)?;
            let last = start.to_bits().checked_add(count)?;
            (u128::from(start.to_bits()) << 96, u128::from(last) << 96 | (u128::MAX >> 32))
        }
        Resource::Addresses(Family::V6) => {
            let prefix: Prefix = format!("{start}/{value}").parse().ok()?;
            (prefix.bits(), last_address(prefix))
        }
    };
    Some(Delegation {
        resource,
        first,
        last,
        registry: (*registry).to_owned(),
        country: (*country).to_owned(),
        time: date::parse(day).unwrap_or(0),
        status: (*status).to_owned(),
        holder: rest.first().map_or(String::new(), |holder| (*holder).to_owned()),
    })
}

/// The last address of a prefix. Bits behind an address of IPv4 are ones.
pub(crate) fn last_address(prefix: Prefix) -> u128 {
    prefix.bits() | u128::MAX.checked_shr(u32::from(prefix.length())).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A few kilobytes of gzip can hold millions of delegations.
    #[test]
    fn delegations_without_end_are_refused_within_the_budget() {
        let line = b"r||asn|1|1||a\n";
        let read = |lines: usize| {
            let budget = Budget::new(10_000 * 2 * size_of::<Delegation>() as u64);
            Delegations::read_within(&line.repeat(lines)[..], "x", &budget)
        };
        assert_eq!(read(5_000).unwrap().all.len(), 5_000);
        assert_eq!(read(10_001).unwrap_err().kind(), io::ErrorKind::OutOfMemory);
        let endless = [&b"r|US|asn|1|1|20150201|"[..], &vec![b'a'; 1 << 20][..], b"\n", line].concat();
        let found = Delegations::read(&endless[..], "x").unwrap();
        assert_eq!((found.all.len(), found.faults.count(Fault::LineMalformed)), (1, 1));
    }

    #[test]
    fn all_kinds_of_lines_are_read() {
        let text = "# comment\n2.3|apnic|20150306|5|19870101|20150305|+1000\napnic|*|asn|*|9|summary\n\
            apnic|JP|asn|173|3|20020801|allocated|A91\napnic|AU|ipv4|1.0.0.0|768|20110811|assigned|A91\n\
            apnic|AU|ipv6|2001:db8::|32||allocated\napnic||ipv4|2.0.0.0|256||available|\n\
            apnic|AU|ipv4|255.255.255.0|512|20110811|assigned\nwrong\napnic|AU|asn|1|0|20110811|assigned\n";
        let found = Delegations::read(text.as_bytes(), "x").unwrap();
        assert_eq!(
            (date::day(found.time), found.faults.count(Fault::LineMalformed)),
            ("2015-03-05".into(), 3)
        );
        let ranges: Vec<_> = found.all.iter().map(|one| (one.resource.name(), one.first, one.last)).collect();
        let v6: Prefix = "2001:db8::/32".parse().unwrap();
        let v4: u128 = 1 << 120;
        let expected = [
            ("asn", 173, 175),
            ("ipv4", v4, v4 + (768 << 96) - 1),
            ("ipv6", v6.bits(), v6.bits() | (u128::MAX >> 32)),
        ];
        assert_eq!(ranges, expected);
        assert_eq!((found.all[0].holder.as_str(), found.all[2].holder.as_str()), ("A91", ""));
    }
}
