//! Keeps what the daemon does besides packets: when the program is next told that the daemon is running, which
//! groups were taken over from an earlier daemon, and whether the router is leaving.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::Ipv6Addr,
    time::Duration,
};

use treecast_proto::{
    Instant,
    explicit::mead::router::{Departure, Router},
};

use super::{Setting, lease::BEAT, status::Leaving};

/// Hosts answer a new daemon's first queries, which may be lost once, within this time (MLD, RFC 9777, 9).
const FIRST_ANSWERS: Duration = Duration::from_secs(30);

type Groups = BTreeMap<Ipv6Addr, BTreeSet<u32>>;

pub struct Course {
    /// Groups that hosts had joined when another daemon was killed, and until when these are served although nobody has said so anew.
    inherited: (Groups, Instant),
    /// The time at which the program is to hear next that the daemon lives.
    next_beat: Instant,
    /// Whether the user has been told that packets of the other dialect arrive.
    pub has_told_dialect: bool,
    pub departure: Departure,
    /// Whether the daemon ends when the router has left.
    pub ends: bool,
}

impl Course {
    pub fn new(now: Instant, groups: Groups) -> Self {
        let inherited = (groups, now + FIRST_ANSWERS);
        Self {
            inherited,
            next_beat: now,
            has_told_dialect: false,
            departure: Departure::default(),
            ends: false,
        }
    }

    /// Returns the groups to serve: `joined`, which hosts have joined, and the groups that were taken over from
    /// an earlier daemon.
    pub fn with_inherited(&mut self, now: Instant, mut joined: Groups) -> Groups {
        let (inherited, ends) = &mut self.inherited;
        if now >= *ends {
            inherited.clear();
        }
        for (group, links) in inherited {
            joined.entry(*group).or_default().extend(links.iter());
        }
        joined
    }

    pub fn deadline(&self) -> Instant {
        self.departure.deadline().map_or(self.next_beat, |departure| departure.min(self.next_beat))
    }

    /// Whether the program is due to be told that the daemon is running. If so, this counts as done.
    pub fn beats(&mut self, now: Instant) -> bool {
        let is_due = now >= self.next_beat;
        if is_due {
            self.next_beat = now + BEAT;
        }
        is_due
    }

    /// Makes a router begin to leave, unless it is leaving already or is disabled.
    pub fn leave(&mut self, now: Instant, router: &mut Router, within: Duration) {
        if router.is_enabled && !router.is_leaving {
            router.is_leaving = true;
            self.departure.begin(now, within);
        }
    }

    /// Changes a setting of a router.
    ///
    /// # Errors
    /// The message for the user that wanted the change.
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
