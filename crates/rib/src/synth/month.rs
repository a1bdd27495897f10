//! The changes of a month: stubs change providers at the rates of table 5.2, appear and vanish.

use super::model::{MAX_HOMING, Model, Peer, Stub};
use crate::paper;

/// The days between two tables.
const DAYS: i64 = 31;

/// The number of stubs of which one vanishes in a month. As many appear.
const STUBS_PER_VANISHED: usize = 200;

/// The number of stubs that are looked at for each change. A small internet may have none left that can change.
const TRIES: usize = 100;

impl Model {
    /// The internet a month later.
    ///
    /// No provider loses its last customer, because it would be a stub then.
    pub fn a_month_later(&self) -> Self {
        let mut next = self.clone();
        next.time += DAYS * 86_400;
        let mut customers = vec![0usize; next.providers.len()];
        for upstream in next.stubs.iter().flat_map(|stub| &stub.upstreams) {
            customers[*upstream] += 1;
        }
        let (_, additions, deletions) = paper::CHANGES[5];
        next.delete_upstreams(next.scaled(deletions, paper::CHANGES_STUBS, self.spec.stubs), &mut customers);
        next.add_upstreams(next.scaled(additions, paper::CHANGES_STUBS, self.spec.stubs), self);
        next.replace_stubs(self.spec.stubs / STUBS_PER_VANISHED);
        next
    }

    fn delete_upstreams(&mut self, count: usize, customers: &mut [usize]) {
        let mut left = count;
        for _ in 0..count * TRIES {
            let at = self.random.below(self.stubs.len());
            let upstreams = &mut self.stubs[at].upstreams;
            let place = self.random.below(upstreams.len());
            if left > 0 && upstreams.len() > 1 && customers[upstreams[place]] > 1 {
                customers[upstreams.remove(place)] -= 1;
                left -= 1;
            }
        }
    }

    fn add_upstreams(&mut self, count: usize, before: &Self) {
        let mut left = count;
        while left > 0 {
            let at = self.random.below(self.stubs.len());
            let another = self.random.skewed(self.providers.len());
            let is_new = !before.stubs[at].upstreams.contains(&another)
                && !self.stubs[at].upstreams.contains(&another);
            if is_new && self.stubs[at].upstreams.len() < MAX_HOMING {
                self.stubs[at].upstreams.push(another);
                left -= 1;
            }
        }
    }

    /// Replaces stubs by new ones with other ASNs and prefixes, and the same providers.
    fn replace_stubs(&mut self, count: usize) {
        let mut replaced = std::collections::BTreeSet::new();
        for _ in 0..count * TRIES {
            let at = self.random.below(self.stubs.len());
            let is_peer = self.peers.contains(&Peer::Stub(at));
            let is_in_set = self.aggregates.iter().any(|(_, _, pair)| pair.contains(&at));
            if replaced.len() == count || is_peer || is_in_set || replaced.contains(&at) {
                continue;
            }
            let Some(prefix) = self.take_block() else { return };
            let asn = self.take_asn();
            let upstreams = self.stubs[at].upstreams.clone();
            self.stubs[at] = Stub { asn, upstreams, prefixes: vec![(prefix, None)], prepends: 0 };
            replaced.insert(at);
        }
    }
}
