//! Which session a client takes part in.
//!
//! A sender of after or nack serves those who were there when it started, and ends when they have everything.
//! So that clients who come one by one are served by multicast, too, sessions follow each other: one starts as
//! soon as the last is over and somebody waits, for all who wait by then.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Hands out the places of one session after the other. Sessions are numbered from 1.
#[derive(Debug)]
pub struct Sessions {
    first_places: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The last session that has started; 0 before the first.
    current: u32,
    /// How many more the current session takes.
    places: usize,
    /// How many wait for the next.
    waiting: usize,
    /// The last session that is over.
    ended: u32,
}

impl Sessions {
    /// The first session starts before anybody asks, and takes `first_places` clients.
    pub fn new(first_places: usize) -> Self {
        Self { first_places, state: Mutex::default() }
    }

    /// A client asks for a place. Returns the number of its session.
    pub fn ask(&self) -> u32 {
        let mut state = self.lock();
        if state.places > 0 {
            state.places -= 1;
            return state.current;
        }
        state.waiting += 1;
        state.current + 1
    }

    /// The session that may start now, and how many take part; none while nobody waits.
    pub fn next(&self) -> Option<(u32, usize)> {
        let mut state = self.lock();
        let taking_part = if state.current == 0 { self.first_places } else { state.waiting };
        if taking_part == 0 {
            return None;
        }
        if state.current == 0 {
            state.places = taking_part.saturating_sub(state.waiting);
        }
        state.waiting = 0;
        state.current += 1;
        Some((state.current, taking_part))
    }

    /// Says that the current session is over.
    pub fn end(&self) {
        let mut state = self.lock();
        state.ended = state.current;
        state.places = 0;
    }

    /// The last session that has started.
    pub fn current(&self) -> u32 {
        self.lock().current
    }

    pub fn has_ended(&self, session: u32) -> bool {
        session <= self.lock().ended
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_comes_during_a_session_is_in_the_next_with_all_others_who_did() {
        let sessions = Sessions::new(1);
        assert_eq!(sessions.next(), Some((1, 1)));
        assert_eq!([sessions.ask(), sessions.ask(), sessions.ask()], [1, 2, 2]);
        sessions.end();
        assert!(sessions.has_ended(1) && !sessions.has_ended(2));
        assert_eq!(sessions.next(), Some((2, 2)));
        sessions.end();
        assert_eq!(sessions.next(), None);
        assert_eq!(sessions.ask(), 3);
        assert_eq!(sessions.next(), Some((3, 1)));
    }

    #[test]
    fn the_first_session_takes_all_who_start_at_once() {
        let sessions = Sessions::new(3);
        assert_eq!(sessions.ask(), 1);
        assert_eq!(sessions.next(), Some((1, 3)));
        assert_eq!([sessions.ask(), sessions.ask(), sessions.ask()], [1, 1, 2]);
    }

    #[test]
    fn a_session_that_is_over_takes_nobody_although_it_had_places() {
        let sessions = Sessions::new(usize::MAX);
        assert_eq!(sessions.ask(), 1);
        sessions.next();
        assert_eq!(sessions.ask(), 1);
        sessions.end();
        assert_eq!(sessions.ask(), 2);
        assert_eq!(sessions.next(), Some((2, 1)));
    }
}
