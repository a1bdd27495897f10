//! The three states of acknowledgements (lgmp-mbone-1999, 2), and how those of many become those of one.

use std::ops::Range;

use treecast_wire::message::{LocalObject, LocalReport};

/// The parts that two lists of ascending ranges have in common.
pub(super) fn common(left: &[Range<u64>], right: &[Range<u64>]) -> Vec<Range<u64>> {
    let (mut common, mut at, mut other) = (Vec::new(), 0, 0);
    while let (Some(one), Some(two)) = (left.get(at), right.get(other)) {
        let both = one.start.max(two.start)..one.end.min(two.end);
        if !both.is_empty() {
            common.push(both);
        }
        if one.end <= two.end { at += 1 } else { other += 1 }
    }
    common
}

/// The parts of `range` that are not in `taken`, a list of ascending ranges.
pub(super) fn without<'a>(
    range: &Range<u64>,
    taken: impl IntoIterator<Item = &'a Range<u64>>,
) -> Vec<Range<u64>> {
    let (mut left, mut from) = (Vec::new(), range.start);
    for taken in taken.into_iter().filter(|taken| taken.end > range.start && taken.start < range.end) {
        if taken.start > from {
            left.push(from..taken.start);
        }
        from = from.max(taken.end);
    }
    if from < range.end {
        left.push(from..range.end);
    }
    left
}

/// A report's statement about one object: everything, the listed ranges, or nothing.
pub(super) enum Word<'a> {
    Done,
    Listed(&'a LocalObject),
    Unknown,
}

pub(super) fn word(report: &LocalReport, object: u32) -> Word<'_> {
    if object < report.done {
        return Word::Done;
    }
    let listed = report.objects().iter().find(|listed| listed.object == object);
    listed.map_or(Word::Unknown, Word::Listed)
}

/// Adds a report of a member of the same group. What the member has is obtainable there.
pub(super) fn add_member(states: &mut LocalObject, report: &LocalReport) {
    match word(report, states.object) {
        Word::Done => states.missing.clear(),
        Word::Listed(listed) => {
            states.received = states.received.min(listed.received);
            if listed.seen > states.seen {
                let known = states.seen..listed.seen;
                states.missing.extend(Some(known).filter(|known| !known.is_empty()));
                states.seen = listed.seen;
            }
            let mut missing = listed.missing.clone();
            if listed.seen < states.seen {
                missing.push(listed.seen..states.seen);
            }
            states.missing = common(&states.missing, &missing);
        }
        Word::Unknown => states.received = 0,
    }
}

/// Adds a report of a group below. It changes what everyone has received, and nothing else.
pub(super) fn add_group(states: &mut LocalObject, report: &LocalReport) {
    match word(report, states.object) {
        Word::Done => {}
        Word::Listed(listed) => states.received = states.received.min(listed.received),
        Word::Unknown => states.received = 0,
    }
}

/// The position up to which everything is received or obtainable in the group.
pub(super) fn obtainable(states: &LocalObject) -> u64 {
    states.missing.first().map_or(states.seen, |first| first.start.min(states.seen))
}

#[cfg(test)]
#[expect(clippy::single_range_in_vec_init, reason = "one range is meant")]
mod tests {
    use treecast_wire::message::GroupId;

    use super::*;

    fn states(received: u64, seen: u64, missing: &[Range<u64>]) -> LocalObject {
        LocalObject { object: 3, received, seen, missing: missing.to_vec() }
    }

    fn report(done: u32, objects: Vec<LocalObject>) -> LocalReport {
        let mut report = LocalReport::new(GroupId(1), false).with_objects(objects);
        report.done = done;
        report
    }

    #[test]
    fn ranges_are_compared() {
        assert_eq!(common(&[0..10, 20..30], &[5..25, 29..40]), [5..10, 20..25, 29..30]);
        assert_eq!(common(&[0..10], &[]), []);
        assert_eq!(without(&(0..100), &[10..20, 50..60]), [0..10, 20..50, 60..100]);
        assert_eq!(without(&(15..55), &[10..20, 50..60]), [20..50]);
        assert_eq!(without(&(12..18), &[10..20]), []);
    }

    #[test]
    fn what_one_member_lacks_is_obtainable_and_what_all_lack_is_missing() {
        let mut group = states(10, 100, &[10..20, 50..60]);
        add_member(&mut group, &report(3, vec![states(15, 90, &[15..30, 55..70])]));
        assert_eq!(group, states(10, 100, &[15..20, 55..60]));
        assert_eq!(obtainable(&group), 15);
        add_member(&mut group, &report(4, vec![]));
        assert_eq!((group.missing.len(), group.received, obtainable(&group)), (0, 10, 100));
    }

    #[test]
    fn who_is_farther_has_what_the_others_have_not_seen() {
        let mut group = states(10, 50, &[10..20]);
        add_member(&mut group, &report(3, vec![states(0, 100, &[0..20, 80..90])]));
        assert_eq!(group, states(0, 100, &[10..20, 80..90]));
    }

    #[test]
    fn who_says_nothing_of_an_object_has_received_nothing() {
        let mut group = states(10, 50, &[]);
        add_member(&mut group, &report(0, vec![]));
        assert_eq!(group, states(0, 50, &[]));
        let mut above = states(10, 50, &[10..20]);
        add_group(&mut above, &report(3, vec![states(5, 80, &[])]));
        assert_eq!(above, states(5, 50, &[10..20]), "what a group below has is not obtainable in this one");
    }
}
