//! The three kinds of sessions, and what each alone has.

use std::net::SocketAddr;

use treecast_host::poller::Poller;
use treecast_proto::Instant;
use treecast_wire::message::Member;

use super::{
    super::{Plan, SendError, SessionKind},
    core::Core,
    door::Door,
    lanes::Lanes,
    local::Local,
    reports::Reports,
    ring::Ring,
};

/// The way in which receivers take part in a session.
pub(super) enum Kind {
    /// Receivers have a connection each.
    Connected(Box<Door>),
    /// Receivers listen to a carousel.
    Ring(Box<Ring>),
    /// Receivers mend losses in local groups.
    Local(Box<Local>),
}

impl Kind {
    /// Opens the sockets by which receivers reach the sender. Also returns their addresses.
    pub fn open(plan: &Plan, poller: &Poller) -> Result<(Self, Vec<SocketAddr>), SendError> {
        Ok(match &plan.options.kind {
            SessionKind::Connected(_) => {
                let (door, control) = Door::open(plan, poller)?;
                (Self::Connected(Box::new(door)), control)
            }
            SessionKind::Carousel(carousel) => {
                let reports = Reports::open(plan, poller)?;
                let at = reports.iter().map(Reports::at).collect();
                (Self::Ring(Box::new(Ring::new(plan, carousel.options.clone(), reports))), at)
            }
            SessionKind::Local(_) => {
                let local = Local::open(plan, poller)?;
                let at = vec![local.me().0];
                (Self::Local(Box::new(local)), at)
            }
        })
    }

    /// The sender as a member of local groups.
    pub fn me(&self) -> Option<Member> {
        if let Self::Local(local) = self { Some(local.me()) } else { None }
    }

    pub fn door(&mut self) -> Option<&mut Door> {
        if let Self::Connected(door) = self { Some(door) } else { None }
    }

    pub fn ring(&mut self) -> Option<&mut Ring> {
        if let Self::Ring(ring) = self { Some(ring) } else { None }
    }

    pub fn local(&mut self) -> Option<&mut Local> {
        if let Self::Local(local) = self { Some(local) } else { None }
    }

    /// Does what is due by the time, whether or not anything has come.
    pub fn look(
        &mut self,
        now: Instant,
        plan: &mut Plan,
        lanes: &mut Lanes,
        has_feed: bool,
        core: &mut Core<'_>,
    ) -> Result<(), SendError> {
        match self {
            Self::Connected(_) => Ok(()),
            Self::Ring(ring) => ring.look(now, plan, lanes, core),
            Self::Local(local) => local.look(now, plan, has_feed, core),
        }
    }

    /// Hands the machine what members of local groups have said, or what a carousel's receivers have reported.
    pub fn hear(
        &mut self,
        now: Instant,
        plan: &Plan,
        lanes: &mut Lanes,
        core: &mut Core<'_>,
    ) -> Result<(), SendError> {
        match self {
            Self::Connected(_) => Ok(()),
            Self::Ring(ring) => ring.hear(now, plan, core),
            Self::Local(local) => local.hear(now, lanes, core),
        }
    }

    /// The time at which there is something to do even if nothing comes. `is_first`: the session has not begun.
    pub fn deadline(&mut self, is_first: bool) -> Option<Instant> {
        match self {
            Self::Connected(door) => door.deadline(),
            Self::Ring(ring) => ring.deadline(is_first),
            Self::Local(_) => None,
        }
    }

    /// Sends the next part of the run of a carousel that is on its way to a group. Returns false when there is none.
    pub fn send_pending(
        &mut self,
        now: Instant,
        group: u8,
        lanes: &mut Lanes,
        core: &mut Core<'_>,
    ) -> Result<bool, SendError> {
        self.ring().map_or(Ok(false), |ring| ring.send_pending(now, group, lanes, core))
    }

    /// Completes the figures at the end of a session.
    pub fn finish(&mut self, now: Instant, plan: &Plan, lanes: &Lanes, core: &mut Core<'_>) {
        match self {
            Self::Connected(door) => core.figures.summary.turned_away = door.turned_away(),
            Self::Ring(ring) => ring.finish(now, plan, lanes, core),
            Self::Local(local) => local.count_deserters(core),
        }
    }
}
