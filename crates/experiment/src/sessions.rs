//! Decides which session a client takes part in.
//!
//! A sender with the repair after or nack serves those receivers that were there when it started, and ends when
//! they have everything. So that clients which come one by one are served by multicast, too, sessions follow
//! each other: a session starts as soon as the last one is over and a client waits, and takes all clients that
//! wait by then.

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
    /// The number of further clients that the current session takes.
    places: usize,
    /// The number of clients that wait for the next.
    waiting: usize,
    /// The last session that is over.
    ended: u32,
}

impl Sessions {
    /// Creates the sessions. The first one starts before any client asks, and takes `first_places` clients.
    pub fn new(first_places: usize) -> Self {
        Self { first_places, state: Mutex::default() }
    }

    /// Asks for a place for a client. Returns the number of its session.
    pub fn ask(&self) -> u32 {
        let mut state = self.lock();
        if state.places > 0 {
            state.places -= 1;
            return state.current;
        }
        state.waiting += 1;
        state.current + 1
    }

    /// Returns the session that may start now and how many clients take part; none while no client waits.
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

    /// Takes note that the current session has ended.
    pub fn end(&self) {
        let mut state = self.lock();
        state.ended = state.current;
        state.places = 0;
    }

    /// Returns the number of the last session that has started.
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
