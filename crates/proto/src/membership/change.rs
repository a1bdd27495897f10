//! What a listener reports when it wants something else of a group (RFC 9777, 6.1; RFC 9776, 5.1).

use std::net::IpAddr;

use treecast_wire::membership::RecordKind;

use super::{Filter, Mode, Record};

/// Sources in one record, so that a report of one record fits a packet of the smallest MTU that IPv6 allows.
const SOURCES_PER_RECORD: usize = 64;

/// The records that tell of the change from `before` to `after`; each to be sent in a report of its own.
pub fn change_records(group: IpAddr, before: &Filter, after: &Filter) -> Vec<Record> {
    match (before.mode, after.mode) {
        (Mode::Exclude, Mode::Include) => {
            split(group, RecordKind::ToInclude, RecordKind::Allow, after.sources.iter().copied())
        }
        // Those beyond a packet's room are received and dropped.
        (Mode::Include, Mode::Exclude) => {
            let sources = after.sources.iter().copied().take(SOURCES_PER_RECORD).collect();
            vec![Record { kind: RecordKind::ToExclude, group, sources }]
        }
        (Mode::Include, Mode::Include) => difference(group, before, after),
        // Of excluded sources, those that are so no longer are the new ones.
        (Mode::Exclude, Mode::Exclude) => difference(group, after, before),
    }
}

/// ALLOW what is in `after` only, BLOCK what is in `before` only; none where there is nothing to say.
fn difference(group: IpAddr, before: &Filter, after: &Filter) -> Vec<Record> {
    let new: Vec<_> = after.sources.difference(&before.sources).copied().collect();
    let old: Vec<_> = before.sources.difference(&after.sources).copied().collect();
    let records = [(RecordKind::Allow, new), (RecordKind::Block, old)].into_iter();
    let said = records.filter(|(_, sources)| !sources.is_empty());
    said.flat_map(|(kind, sources)| split(group, kind, kind, sources.into_iter())).collect()
}

/// As many records as it takes: the first of one kind, the others of another.
fn split(
    group: IpAddr,
    first: RecordKind,
    others: RecordKind,
    sources: impl Iterator<Item = IpAddr>,
) -> Vec<Record> {
    let sources: Vec<_> = sources.collect();
    let (head, tail) = sources.split_at(sources.len().min(SOURCES_PER_RECORD));
    let first = Record { kind: first, group, sources: head.to_vec() };
    let rest = tail.chunks(SOURCES_PER_RECORD);
    let rest = rest.map(|sources| Record { kind: others, group, sources: sources.to_vec() });
    [first].into_iter().chain(rest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GROUP: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(239, 0, 0, 1));

    fn sources(numbers: impl IntoIterator<Item = u8>) -> Vec<IpAddr> {
        numbers.into_iter().map(|last| IpAddr::from([192, 0, 2, last])).collect()
    }

    fn said(before: &Filter, after: &Filter) -> Vec<(RecordKind, Vec<IpAddr>)> {
        let records = change_records(GROUP, before, after).into_iter();
        records.map(|record| (record.kind, record.sources)).collect()
    }

    /// The table of RFC 9777, 6.1, line by line.
    #[test]
    fn follows_the_table() {
        let include = |numbers: &[u8]| Filter::include(sources(numbers.iter().copied()));
        let exclude = |numbers: &[u8]| Filter::exclude(sources(numbers.iter().copied()));
        assert_eq!(
            said(&include(&[1, 2]), &include(&[2, 3])),
            [(RecordKind::Allow, sources([3])), (RecordKind::Block, sources([1]))]
        );
        assert_eq!(
            said(&exclude(&[1, 2]), &exclude(&[2, 3])),
            [(RecordKind::Allow, sources([1])), (RecordKind::Block, sources([3]))]
        );
        assert_eq!(said(&include(&[1]), &exclude(&[2])), [(RecordKind::ToExclude, sources([2]))]);
        assert_eq!(said(&exclude(&[1]), &include(&[2])), [(RecordKind::ToInclude, sources([2]))]);
        assert_eq!(said(&Filter::EVERYTHING, &Filter::NOTHING), [(RecordKind::ToInclude, vec![])]);
        assert_eq!(said(&include(&[1]), &include(&[1])), []);
    }

    #[test]
    fn long_lists_are_divided() {
        let many = Filter::include(sources(0..150));
        let lens = |before: &Filter, after: &Filter| -> Vec<_> {
            said(before, after).into_iter().map(|(kind, sources)| (kind, sources.len())).collect()
        };
        let (allow, to_include) = (RecordKind::Allow, RecordKind::ToInclude);
        assert_eq!(lens(&Filter::NOTHING, &many), [(allow, 64), (allow, 64), (allow, 22)]);
        assert_eq!(lens(&Filter::EVERYTHING, &many), [(to_include, 64), (allow, 64), (allow, 22)]);
    }
}
