//! The querier's own leaving, after which it must ask whether anybody else listens.
//!
//! The querier asks when it hears a listener leave. The querier itself may be that listener, because it listens
//! on behalf of its other links. It must ask in this case, too: the other routers of the link have heard that
//! it listened, and wait for a query before they forget the group.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use super::{Filter, Mode, Timers};
use crate::Instant;

/// The queries that this router must send on a link about groups that it has left there itself.
#[derive(Debug, Default)]
pub struct Leaves {
    groups: BTreeMap<IpAddr, Leave>,
}

#[derive(Debug)]
struct Leave {
    /// Whether to ask about the group as a whole, besides `sources`.
    whole: bool,
    sources: BTreeSet<IpAddr>,
    queries_left: u8,
    next: Instant,
}

impl Leaves {
    /// Notes that the router listens to `after` instead of `before`. Schedules queries about what is no longer
    /// wanted.
    pub fn note(&mut self, now: Instant, group: IpAddr, before: &Filter, after: &Filter, timers: &Timers) {
        let whole = before.mode == Mode::Exclude && after.mode == Mode::Include;
        let named = before.sources.iter().chain(&after.sources).copied();
        let sources: BTreeSet<_> =
            named.filter(|source| before.passes(*source) && !after.passes(*source)).collect();
        if !whole && sources.is_empty() {
            return;
        }
        let leave = self.groups.entry(group).or_insert(Leave {
            whole: false,
            sources: BTreeSet::new(),
            queries_left: 0,
            next: now,
        });
        leave.whole |= whole;
        leave.sources.extend(sources);
        leave.queries_left = timers.robustness;
        leave.next = now;
    }

    /// The queries that must be sent now: groups, and sources (empty: the group as a whole).
    pub fn due(&mut self, now: Instant, timers: &Timers) -> Vec<(IpAddr, Vec<IpAddr>)> {
        let mut due = Vec::new();
        for (group, leave) in self.groups.iter_mut().filter(|(_, leave)| leave.next <= now) {
            if leave.whole {
                due.push((*group, Vec::new()));
            }
            if !leave.sources.is_empty() {
                due.push((*group, leave.sources.iter().copied().collect()));
            }
            leave.queries_left = leave.queries_left.saturating_sub(1);
            leave.next = now + timers.last_listener_query_interval;
        }
        self.groups.retain(|_, leave| leave.queries_left > 0);
        due
    }

    pub fn deadline(&self) -> Option<Instant> {
        self.groups.values().map(|leave| leave.next).min()
    }

    /// Drops all queries, because another router is the querier now.
    pub fn clear(&mut self) {
        self.groups.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const NOW: Instant = Instant::from_nanos(1_000_000_000_000);
    const GROUP: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(239, 0, 0, 1));

    fn source(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    fn asked(before: &Filter, after: &Filter) -> Vec<Vec<IpAddr>> {
        let mut leaves = Leaves::default();
        leaves.note(NOW, GROUP, before, after, &Timers::default());
        leaves.due(NOW, &Timers::default()).into_iter().map(|(_, sources)| sources).collect()
    }

    #[test]
    fn asks_about_what_is_not_wanted_any_more() {
        let include = |last: &[u8]| Filter::include(last.iter().map(|last| source(*last)));
        let exclude = |last: &[u8]| Filter::exclude(last.iter().map(|last| source(*last)));
        let nothing: Vec<Vec<IpAddr>> = vec![];
        assert_eq!(asked(&include(&[1]), &include(&[1, 2])), nothing);
        assert_eq!(asked(&include(&[1, 2]), &include(&[2])), [vec![source(1)]]);
        assert_eq!(asked(&include(&[1, 2]), &exclude(&[1])), [vec![source(1)]]);
        assert_eq!(asked(&exclude(&[]), &exclude(&[1])), [vec![source(1)]]);
        assert_eq!(asked(&exclude(&[1]), &exclude(&[])), nothing);
        assert_eq!(asked(&Filter::EVERYTHING, &Filter::NOTHING), [Vec::<IpAddr>::new()]);
    }

    #[test]
    fn asks_as_often_as_robustness_says() {
        let timers = Timers::default();
        let mut leaves = Leaves::default();
        leaves.note(NOW, GROUP, &Filter::EVERYTHING, &Filter::NOTHING, &timers);
        assert_eq!(leaves.due(NOW, &timers).len(), 1);
        assert_eq!(leaves.due(NOW, &timers).len(), 0);
        let next = NOW + Duration::from_secs(1);
        assert_eq!(leaves.deadline(), Some(next));
        assert_eq!(leaves.due(next, &timers).len(), 1);
        assert_eq!(leaves.deadline(), None);
    }
}
