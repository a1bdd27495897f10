//! The judge of a run: it gathers what is wrong, whatever the protocol is.
//!
//! A protocol's own module says what must come of each receiver. What holds for all of them stands here: every run ends by
//! itself, nothing wrong has a final name, and nothing is left under a temporary one.

use std::collections::BTreeMap;

use treecast_proto::Instant;

use crate::{trace::Trace, world::End};

/// The verdict on a run.
#[derive(Debug)]
pub struct Verdict {
    pub trace: Trace,
    /// The faults of the run, one line each. Empty if all went well.
    pub faults: Vec<String>,
}

/// Gathers the faults of a run.
#[derive(Debug, Default)]
pub(crate) struct Judge {
    faults: Vec<String>,
}

impl Judge {
    /// Judges how a run ended. One that was late is right if all that must end `has_ended`.
    pub fn ended(&mut self, end: End, now: Instant, has_ended: bool) {
        let is_right = end == End::Over || end == End::Late && has_ended;
        self.require(is_right, || format!("not over at {now}: {end:?}"));
    }

    /// Notes a fault unless something is right.
    pub fn require(&mut self, is_right: bool, fault: impl FnOnce() -> String) {
        if !is_right {
            self.faults.push(fault());
        }
    }

    /// Notes what nodes have complained of during the run.
    pub fn hear(&mut self, complaints: impl IntoIterator<Item = String>) {
        self.faults.extend(complaints);
    }

    /// Judges the objects that have a final name at a receiver. `content` is what the sender has of an object.
    pub fn committed<'a>(
        &mut self,
        who: usize,
        objects: &BTreeMap<u32, Vec<u8>>,
        content: impl Fn(u32) -> &'a [u8],
    ) {
        for (index, bytes) in objects {
            self.require(bytes == content(*index), || format!("object {index} is wrong at receiver {who}"));
        }
    }

    /// Judges how many files a receiver whose session is over has left under temporary names.
    pub fn left(&mut self, who: usize, temporary: usize) {
        self.require(temporary == 0, || format!("receiver {who} has left temporary files behind"));
    }

    pub fn into_faults(self) -> Vec<String> {
        self.faults
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_run_is_right_if_everything_has_ended() {
        let faults = |end, has_ended| {
            let mut judge = Judge::default();
            judge.ended(end, Instant::ZERO, has_ended);
            judge.into_faults().len()
        };
        assert_eq!((faults(End::Over, false), faults(End::Late, true)), (0, 0));
        assert_eq!((faults(End::Late, false), faults(End::Endless, true)), (1, 1));
    }

    #[test]
    fn what_has_a_final_name_must_be_right_and_nothing_else_left() {
        let faults = |content: &'static [u8], temporary| {
            let mut judge = Judge::default();
            judge.committed(3, &BTreeMap::from([(0, b"ab".to_vec())]), |_| content);
            judge.left(3, temporary);
            judge.into_faults()
        };
        assert!(faults(b"ab", 0).is_empty());
        assert_eq!(faults(b"ab", 1), ["receiver 3 has left temporary files behind"]);
        assert_eq!(faults(b"xy", 0), ["object 0 is wrong at receiver 3"]);
    }
}
