//! The event loop of every simulation but the crowd's, which has windows of time.
//!
//! A [`Scene`] is what a simulation consists of: nodes, and what lies between them. Its [`Agenda`] has what happens next.
//! [`run`] lets time pass.

use std::collections::BTreeMap;

use treecast_proto::Instant;

use crate::schedule::Schedule;

/// Nodes, and what happens to them.
pub(crate) trait Scene {
    /// The name of a node that asks to be woken.
    type Node: Copy + Ord;
    /// What happens: a packet arrives, or something that was planned.
    type Event;

    fn agenda(&mut self) -> &mut Agenda<Self::Node, Self::Event>;

    /// Handles an event, and plans what follows from it.
    fn happen(&mut self, now: Instant, event: Self::Event);

    /// Lets a node act that has asked to be woken at this time.
    fn wake(&mut self, now: Instant, node: Self::Node);

    /// Whether the run ends here, whatever is still planned.
    fn is_over(&self) -> bool {
        false
    }
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// Nothing more was planned, or the scene was over.
    Over,
    /// There was more to do at the time at which every run ends.
    Late,
    /// The run had more events than any run may have. It goes round in circles.
    Endless,
}

/// Lets time pass up to `until`, and at most `most_events` events happen.
pub(crate) fn run<S: Scene>(scene: &mut S, until: Instant, most_events: u64) -> End {
    for _ in 0..most_events {
        let due = if scene.is_over() { None } else { scene.agenda().take() };
        let now = scene.agenda().now();
        match due {
            None => return End::Over,
            Some(_) if now > until => return End::Late,
            Some(Due::Wake(node)) => scene.wake(now, node),
            Some(Due::Event(event)) => scene.happen(now, event),
        }
    }
    End::Endless
}

/// What happens when: events, and the times at which nodes wake.
#[derive(Debug)]
pub(crate) struct Agenda<N, E> {
    schedule: Schedule<Due<N, E>>,
    /// The time at which each node wakes next. Wake-ups at other times, which were planned before, are ignored.
    wakes: BTreeMap<N, Instant>,
}

#[derive(Debug)]
enum Due<N, E> {
    Wake(N),
    Event(E),
}

impl<N, E> Default for Agenda<N, E> {
    fn default() -> Self {
        Self { schedule: Schedule::default(), wakes: BTreeMap::new() }
    }
}

impl<N: Copy + Ord, E> Agenda<N, E> {
    /// Returns the present time.
    pub fn now(&self) -> Instant {
        self.schedule.now()
    }

    /// Adds an event. An event in the past happens now.
    pub fn at(&mut self, time: Instant, event: E) {
        self.schedule.at(time, Due::Event(event));
    }

    /// Wakes a node at this time, or before, if it has asked for that. A time in the past means now.
    pub fn wake(&mut self, node: N, time: Instant) {
        let time = time.max(self.now());
        if self.wakes.get(&node).is_none_or(|set| time < *set) {
            self.wakes.insert(node, time);
            self.schedule.at(time, Due::Wake(node));
        }
    }

    /// Returns the time at which a node wakes next. `None` if it sleeps until something comes.
    pub fn wakes_at(&self, node: N) -> Option<Instant> {
        self.wakes.get(&node).copied()
    }

    /// Takes what happens next, and moves time on to it.
    fn take(&mut self) -> Option<Due<N, E>> {
        loop {
            match self.schedule.take()? {
                Due::Wake(node) if self.wakes.get(&node) == Some(&self.now()) => {
                    self.wakes.remove(&node);
                    return Some(Due::Wake(node));
                }
                Due::Wake(_) => {}
                event => return Some(event),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    /// Notes what happens. Each event wakes a node twice, the second time sooner than the first.
    #[derive(Default)]
    struct Notes {
        agenda: Agenda<u8, &'static str>,
        notes: Vec<(u64, String)>,
        most: usize,
    }

    impl Scene for Notes {
        type Node = u8;
        type Event = &'static str;

        fn agenda(&mut self) -> &mut Agenda<u8, &'static str> {
            &mut self.agenda
        }

        fn happen(&mut self, now: Instant, event: &'static str) {
            self.notes.push((now.as_nanos() / 1_000_000, event.to_owned()));
            self.agenda.wake(7, now + Duration::from_millis(9));
            self.agenda.wake(7, now + Duration::from_millis(3));
        }

        fn wake(&mut self, now: Instant, node: u8) {
            self.notes.push((now.as_nanos() / 1_000_000, format!("wakes {node}")));
        }

        fn is_over(&self) -> bool {
            self.notes.len() >= self.most
        }
    }

    fn notes(most: usize, until: Instant, most_events: u64) -> (End, Vec<(u64, String)>) {
        let mut notes = Notes { most, ..Notes::default() };
        notes.agenda.at(at(5), "late");
        notes.agenda.at(at(1), "soon");
        (run(&mut notes, until, most_events), notes.notes)
    }

    #[test]
    fn a_node_wakes_once_and_as_soon_as_it_has_asked_to() {
        let (end, all) = notes(10, at(100), 100);
        let expected = [(1, "soon"), (4, "wakes 7"), (5, "late"), (8, "wakes 7")];
        assert_eq!(end, End::Over);
        assert_eq!(all, expected.map(|(millis, what)| (millis, what.to_owned())));
    }

    #[test]
    fn a_run_ends_when_it_is_over_late_or_endless() {
        let ends = [(2, at(100), 100), (10, at(4), 100), (10, at(100), 3)];
        let ended = ends.map(|(most, until, events)| {
            let (end, all) = notes(most, until, events);
            (end, all.len())
        });
        assert_eq!(ended, [(End::Over, 2), (End::Late, 2), (End::Endless, 3)]);
    }
}
