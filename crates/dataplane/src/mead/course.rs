//! What goes on beside packets: that the daemon lives, and whether the router stays.

use std::time::Duration;

use treecast_proto::{
    Instant,
    mead::router::{Departure, Router},
};

use super::{Setting, lease::BEAT, status::Leaving};

pub struct Course {
    /// When the program is to hear next that the daemon lives.
    next_beat: Instant,
    /// Whether it has been said that packets of the other dialect come.
    pub has_told_dialect: bool,
    pub departure: Departure,
    /// Whether the daemon ends when the router has left.
    pub ends: bool,
}

impl Course {
    pub fn new(now: Instant) -> Self {
        Self { next_beat: now, has_told_dialect: false, departure: Departure::default(), ends: false }
    }

    pub fn deadline(&self) -> Instant {
        self.departure.deadline().map_or(self.next_beat, |departure| departure.min(self.next_beat))
    }

    /// Whether a beat is due, which then counts as done.
    pub fn beats(&mut self, now: Instant) -> bool {
        let is_due = now >= self.next_beat;
        if is_due {
            self.next_beat = now + BEAT;
        }
        is_due
    }

    /// Has a router leave, unless it does already or is off.
    pub fn leave(&mut self, now: Instant, router: &mut Router, within: Duration) {
        if router.is_enabled && !router.is_leaving {
            router.is_leaving = true;
            self.departure.begin(now, within);
        }
    }

    /// Changes a setting of a router.
    ///
    /// # Errors
    /// What is to be said to who wanted it.
    pub fn set(
        &mut self,
        now: Instant,
        setting: Setting,
        router: &mut Router,
        within: Duration,
    ) -> Result<(), &'static str> {
        match setting {
            Setting::Enabled(true) if self.ends => return Err("it is about to end"),
            Setting::Enabled(is_enabled) => {
                (router.is_enabled, router.is_leaving) = (is_enabled, false);
                self.departure.cancel();
            }
            Setting::Leave => self.leave(now, router, within),
            Setting::MinDsts(min_dsts) => router.min_dsts = min_dsts,
        }
        Ok(())
    }

    pub fn leaving(&self, now: Instant) -> Option<Leaving> {
        self.departure.progress(now).map(|(since, left)| Leaving {
            seconds: since.as_secs_f64(),
            at_most_seconds: left.as_secs_f64(),
            ends: self.ends,
        })
    }
}
