//! A synthetic internet with known answers: what the analysis must find is known before it runs.
//!
//! [`Model::new`] makes ASes, their providers and their prefixes. [`Model::a_month_later`] changes some of them.
//! [`write()`] turns a model into the table of a collector. [`Known::of`] reads the answers off the model, and never off
//! the table.

use std::{
    fs::File,
    io::{self, BufWriter, Write},
    path::Path,
};

use super::date;

mod known;
mod model;
mod month;
mod random;
mod write;

pub use known::{Answers, Known, KnownChanges, differences};
pub use model::{Model, Spec, SpecError};
pub use write::{Format, Tally, delegations, write};

/// The file of the answers.
pub const KNOWN: &str = "known.json";
/// The file of the delegations.
pub const DELEGATIONS: &str = "synthetic-delegations.txt";

/// Writes an internet, the same a month later, its delegations and its answers into a folder. Returns the answers, and the
/// names of the two tables.
pub fn make(model: &Model, format: Format, folder: &Path) -> io::Result<(Answers, [String; 2])> {
    std::fs::create_dir_all(folder)?;
    let create =
        |name: &str| File::create(folder.join(name)).map(|file| BufWriter::with_capacity(1 << 20, file));
    let later = model.a_month_later();
    let mut answers = Answers { changes: KnownChanges::of(model, &later), ..Answers::default() };
    let mut names = [String::new(), String::new()];
    for (at, model) in [model, &later].into_iter().enumerate() {
        names[at] = format!("synthetic-{}.mrt", date::day(model.time));
        let mut file = create(&names[at])?;
        answers.tables[at] = Known::of(model, &write(model, format, &mut file)?);
        file.flush()?;
    }
    let mut file = create(DELEGATIONS)?;
    delegations(model, &mut file)?;
    file.flush()?;
    let mut file = create(KNOWN)?;
    serde_json::to_writer_pretty(&mut file, &answers)?;
    file.flush()?;
    Ok((answers, names))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Dump, Family,
        analysis::growth,
        delegations::Delegations,
        fault::Fault,
        read::read,
        report::{analyse, comparisons},
    };

    fn spec(family: Family) -> Spec {
        Spec { family, ases: 420, stubs: 360, prefixes: 3000, peers: 26, seed: 7 }
    }

    fn table(model: &Model, format: Format) -> (Vec<u8>, Tally) {
        let mut bytes = Vec::new();
        let tally = write(model, format, &mut bytes).unwrap();
        (bytes, tally)
    }

    fn dump(bytes: &[u8], threads: usize) -> Dump {
        read(bytes, "table.mrt", threads).unwrap()
    }

    /// Every figure of tables 5.2 and 6.1, of figures 5.4 and 6.4 and of equation 6.1 is as it is known.
    #[test]
    fn the_analysis_finds_what_is_known_in_every_format_and_family() {
        for (family, format) in [
            (Family::V4, Format::TableDumpV2),
            (Family::V6, Format::TableDumpV2),
            (Family::V4, Format::TableDump),
            (Family::V6, Format::TableDump),
            (Family::V4, Format::Bgp4mp),
            (Family::V6, Format::Bgp4mp),
        ] {
            let before = Model::new(spec(family)).unwrap();
            let after = before.a_month_later();
            let mut text = Vec::new();
            delegations(&before, &mut text).unwrap();
            let held = [Delegations::read(&text[..], "synthetic").unwrap()];
            let analysed = [&before, &after].map(|model| {
                let (bytes, tally) = table(model, format);
                let analysed = analyse(&dump(&bytes, 2), &held);
                assert_eq!(
                    analysed.report.faults.errors(),
                    0,
                    "{family:?} {format:?}: {:?}",
                    analysed.report.faults
                );
                let known = Known::of(model, &tally);
                let found = Known::found(&analysed.report).unwrap();
                assert!(analysed.report.synthetic, "its peers say it, whatever the file's name");
                let (equal, different) = differences(&known, &found);
                assert_eq!((different, equal > 70), (vec![], true), "{family:?} {format:?}");
                analysed
            });
            let comparison = &comparisons(&analysed[0], &analysed[1]).unwrap()[0];
            let (_, different) =
                differences(&KnownChanges::of(&before, &after), &KnownChanges::found(&comparison.changes));
            assert_eq!(different, Vec::<String>::new(), "{family:?} {format:?}");
            assert!(comparison.changes.all.additions > 5 && comparison.changes.all.deletions > 5);
            let mut points = [analysed[1].points.clone(), analysed[0].points.clone()].concat();
            growth::sort(&mut points);
            assert!(points[0].time < points[1].time && points[0].is_synthetic);
        }
    }

    #[test]
    fn any_number_of_threads_finds_the_same() {
        let (bytes, _) = table(&Model::new(spec(Family::V4)).unwrap(), Format::TableDumpV2);
        let one = dump(&bytes, 1);
        assert_eq!(one, dump(&bytes, 3));
        assert_eq!(one.peers.len(), 26);
    }

    /// bgpkit-parser reads the same routes out of every format.
    #[test]
    fn another_parser_counts_the_same() {
        for format in [Format::TableDumpV2, Format::TableDump, Format::Bgp4mp] {
            let (bytes, _) = table(&Model::new(spec(Family::V4)).unwrap(), format);
            let ours = dump(&bytes, 2);
            let theirs: Vec<_> = bgpkit_parser::BgpkitParser::from_reader(&bytes[..]).into_iter().collect();
            assert_eq!(ours.entries(), theirs.len() as u64, "{format:?}");
            let mut paths = std::collections::BTreeMap::new();
            for element in &theirs {
                *paths.entry(element.as_path.as_ref().unwrap().to_string()).or_insert(0u64) += 1;
            }
            // It leaves AS_TRANS in tables with ASNs of 2 octets, where the AS4_PATH says more.
            let narrow = |asn: &str| match asn.parse::<u32>() {
                Ok(65_536..) if format == Format::TableDump => "23456".to_owned(),
                _ => asn.to_owned(),
            };
            let mut ours_by_path = std::collections::BTreeMap::new();
            for path in &ours.paths {
                let text = path.path.to_string();
                let asns = text.split_inclusive([' ', ',', '{', '}']);
                let text: String = asns
                    .map(|part| {
                        let asn = part.trim_end_matches([' ', ',', '{', '}']);
                        format!("{}{}", narrow(asn), &part[asn.len()..])
                    })
                    .collect();
                *ours_by_path.entry(text).or_insert(0) += path.entries;
            }
            let differs = ours_by_path.iter().zip(&paths).find(|(ours, theirs)| ours != theirs);
            assert_eq!((differs, ours_by_path.len()), (None, paths.len()), "{format:?}");
        }
    }

    /// A file is damaged in every way at many places: what is readable is read, and the rest is counted.
    #[test]
    fn damage_is_counted_by_reason_and_the_rest_is_read() {
        let model = Model::new(spec(Family::V4)).unwrap();
        let (whole, _) = table(&model, Format::TableDumpV2);
        let records = records(&whole);
        let entries = dump(&whole, 2).entries();
        let damaged = |change: &dyn Fn(&mut Vec<u8>, usize)| {
            let mut bytes = whole.clone();
            // From the end, so that places before stay where they are.
            records.iter().skip(5).step_by(100).rev().for_each(|at| change(&mut bytes, *at));
            let dump = dump(&bytes, 2);
            (dump.entries(), dump.faults)
        };
        let count = (records.len() as u64 - 5).div_ceil(100);

        // A wrong length: the record is found by the one behind it.
        for length in [0u32, 3, 5_000, u32::MAX] {
            let (found, faults) =
                damaged(&|bytes, at| bytes[at + 8..at + 12].copy_from_slice(&length.to_be_bytes()));
            assert_eq!((found, faults.count(Fault::WrongLength)), (entries, count), "{length}: {faults:?}");
        }
        // An unknown type: the record is lost, and nothing else.
        let (found, faults) = damaged(&|bytes, at| bytes[at + 5] = 99);
        assert_eq!((found, faults.count(Fault::UnknownType)), (entries - count * 26, count));
        // A wrong length of attributes: the rest of the record is lost.
        let (found, faults) = damaged(&|bytes, at| {
            let place = at + 12 + 4 + 1 + usize::from(bytes[at + 16]).div_ceil(8) + 2 + 6;
            bytes[place..place + 2].copy_from_slice(&[0xff, 0xff]);
        });
        assert_eq!((found, faults.count(Fault::RecordCutShort)), (entries - count * 26, count), "{faults:?}");
        // A prefix that is too long.
        let (_, faults) = damaged(&|bytes, at| bytes[at + 16] = 77);
        assert_eq!(faults.count(Fault::PrefixTooLong), count);
        // Cut short anywhere.
        for end in [0, 7, 100, whole.len() / 2, whole.len() - 1] {
            let dump = dump(&whole[..end], 2);
            assert!(dump.entries() <= entries && dump.faults.errors() <= 2, "{end}: {:?}", dump.faults);
        }
    }

    /// Random octets are changed, removed and repeated in tables of all formats: reading and analysing them never panics.
    #[test]
    fn no_damage_makes_a_reader_panic() {
        let model = Model::new(spec(Family::V4)).unwrap();
        let mut random = super::random::Random::new(11);
        for format in [Format::TableDumpV2, Format::TableDump, Format::Bgp4mp] {
            let mut whole = table(&model, format).0;
            whole.truncate(30_000);
            for _ in 0..150 {
                let mut bytes = whole.clone();
                for _ in 0..=random.below(20) {
                    let at = random.below(bytes.len() - 100);
                    match random.below(4) {
                        0 => drop(bytes.drain(at..at + random.below(100))),
                        1 => bytes.copy_within(at..at + 50, at + 50),
                        _ => bytes[at] = random.next() as u8,
                    }
                }
                let dump = dump(&bytes, 1);
                let routes: u64 = dump.routes.iter().map(|route| route.entries).sum();
                assert_eq!(analyse(&dump, &[]).report.entries, routes);
            }
        }
    }

    #[test]
    fn sizes_that_cannot_be_made_are_refused() {
        let with = |change: &dyn Fn(&mut Spec)| {
            let mut spec = spec(Family::V4);
            change(&mut spec);
            Model::new(spec).unwrap_err().to_string()
        };
        assert!(with(&|spec| spec.stubs = 419).contains("20 providers"));
        assert!(with(&|spec| spec.prefixes = 10).contains("prefixes"));
        assert!(with(&|spec| spec.peers = 1).contains("peers"));
    }

    /// The places of the records of a sound table.
    fn records(bytes: &[u8]) -> Vec<usize> {
        let mut places = Vec::new();
        let mut at = 0;
        while let Some(header) = bytes.get(at..).and_then(super::super::mrt::Header::parse) {
            places.push(at);
            at += 12 + header.length;
        }
        places
    }
}
