//! Files of relations between ASes, as CAIDA publishes them.
//!
//! Two forms are in use. `A|B|R` (serial-1): R is -1 if A is a provider of B, 0 for peers. `A B R` (2004 to 2007), where each
//! pair stands twice: R is 1 if A is a provider of B, -1 if A is a customer of B, 0 for peers, 2 for siblings.

use std::{
    collections::BTreeMap,
    io::{self, BufRead},
};

use super::{
    budget::Budget,
    date,
    fault::{Fault, Faults},
    lines,
};

/// The relation of two ASes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Relation {
    /// The first AS is a provider of the second.
    ProviderOf,
    Peers,
    Siblings,
}

impl Relation {
    /// The number that a store holds, as in serial-1: -1, 0, and 2 for siblings.
    pub fn number(self) -> i64 {
        match self {
            Self::ProviderOf => -1,
            Self::Peers => 0,
            Self::Siblings => 2,
        }
    }

    pub fn of_number(number: i64) -> Option<Self> {
        [Self::ProviderOf, Self::Peers, Self::Siblings].into_iter().find(|one| one.number() == number)
    }
}

/// The relations of one date.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Relations {
    pub file: String,
    /// Seconds since 1970, from the file's name or its comments. 0: neither says.
    pub time: i64,
    /// The relation of each pair of ASes. Of peers and siblings, the smaller ASN comes first.
    pub pairs: BTreeMap<(u32, u32), Relation>,
    pub faults: Faults,
}

impl Relations {
    /// Reads a file. Lines that say nothing are counted in `faults`.
    ///
    /// # Errors
    /// If the file cannot be read, or holds more relations than the Internet has by far.
    pub fn read(file: impl BufRead, name: &str) -> io::Result<Self> {
        Self::read_within(file, name, &Budget::of_text())
    }

    fn read_within(file: impl BufRead, name: &str, budget: &Budget) -> io::Result<Self> {
        /// Memory, in bytes, of a pair in the map.
        const PAIR_BYTES: usize = 24;
        let mut relations = Self { file: name.to_owned(), ..Self::default() };
        relations.time = date::of_name(name).unwrap_or(0);
        let mut faults = Faults::default();
        lines::each(file, &mut faults, |line| {
            match line.strip_prefix('#') {
                Some(comment) if relations.time == 0 => relations.time = date::of_name(comment).unwrap_or(0),
                None if !line.is_empty() => match parse(line) {
                    Ok((pair, relation)) => {
                        if relations.pairs.insert(pair, relation).is_none() {
                            budget.take(PAIR_BYTES)?;
                        }
                    }
                    Err(fault) => relations.faults.add(fault),
                },
                _ => {}
            }
            Ok(())
        })?;
        relations.faults.merge(&faults);
        Ok(relations)
    }

    /// The number of ASes, and of those with a customer.
    pub fn counts(&self) -> (u64, u64) {
        let distinct = |asns: Vec<u32>| {
            let mut asns = asns;
            asns.sort_unstable();
            asns.dedup();
            asns.len() as u64
        };
        let all = self.pairs.keys().flat_map(|(left, right)| [*left, *right]).collect();
        let is_provider = |relation: &Relation| *relation == Relation::ProviderOf;
        let providers = self.pairs.iter().filter(|(_, relation)| is_provider(relation));
        (distinct(all), distinct(providers.map(|(pair, _)| pair.0).collect()))
    }
}

fn parse(line: &str) -> Result<((u32, u32), Relation), Fault> {
    let is_new = line.contains('|');
    let separator = |letter: char| if is_new { letter == '|' } else { letter.is_whitespace() };
    let fields: Vec<&str> = line.split(separator).filter(|field| !field.is_empty()).collect();
    let [left, right, number, ..] = fields[..] else { return Err(Fault::LineMalformed) };
    let asns = left.parse().ok().zip(right.parse().ok());
    let ((left, right), number) = asns.zip(number.parse::<i32>().ok()).ok_or(Fault::LineMalformed)?;
    let sorted = if left < right { (left, right) } else { (right, left) };
    match (is_new, number) {
        (true, -1) | (false, 1) => Ok(((left, right), Relation::ProviderOf)),
        (false, -1) => Ok(((right, left), Relation::ProviderOf)),
        (_, 0) => Ok((sorted, Relation::Peers)),
        (_, 2) | (true, 1) => Ok((sorted, Relation::Siblings)),
        _ => Err(Fault::UnknownRelation),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relations_without_end_are_refused_within_the_budget() {
        let text: String = (0..2_000).map(|asn| format!("{asn}|{}|-1\n", asn + 1)).collect();
        let read = |bytes| Relations::read_within(text.as_bytes(), "x", &Budget::new(bytes));
        assert_eq!(read(2_000 * 24).unwrap().pairs.len(), 2_000);
        assert_eq!(read(1_999 * 24).unwrap_err().kind(), io::ErrorKind::OutOfMemory);
        let same = "1|2|-1\n".repeat(2_000);
        let found = Relations::read_within(same.as_bytes(), "x", &Budget::new(24)).unwrap();
        assert_eq!(found.pairs.len(), 1, "equal lines take no memory");
    }

    #[test]
    fn both_forms_are_read_and_what_is_unknown_is_counted() {
        let new = "# comment\n1|2|-1\n3|2|0\n4|5|7\nno line\n";
        let relations = Relations::read(new.as_bytes(), "20150201.as-rel.txt").unwrap();
        let expected = [((1, 2), Relation::ProviderOf), ((2, 3), Relation::Peers)];
        assert_eq!(relations.pairs, BTreeMap::from(expected));
        assert_eq!((relations.counts(), date::day(relations.time)), ((3, 1), "2015-02-01".into()));
        let faults =
            (relations.faults.count(Fault::UnknownRelation), relations.faults.count(Fault::LineMalformed));
        assert_eq!(faults, (1, 1));

        let old = "# Directed graph: as-caida20071105.txt\n1\t2\t1\n2\t1\t-1\n3 2 0\n2 3 0\n4 5 2\n5 4 2\n";
        let relations = Relations::read(old.as_bytes(), "old.txt").unwrap();
        let expected =
            [((1, 2), Relation::ProviderOf), ((2, 3), Relation::Peers), ((4, 5), Relation::Siblings)];
        assert_eq!(relations.pairs, BTreeMap::from(expected));
        assert_eq!((relations.counts(), date::day(relations.time)), ((5, 1), "2007-11-05".into()));
    }
}
