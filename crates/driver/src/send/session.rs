//! The sender's loop.

mod announce;
mod config;
mod core;
mod door;
mod events;
mod farewells;
mod kind;
mod lanes;
mod local;
mod named;
mod objects;
mod peers;
mod progress;
mod receivers;
mod reports;
mod ring;
mod start;
mod stop;
mod transmit;
mod turns;
mod watch;

use std::time::Duration;

use treecast_host::{
    poller::{Interest, Poller, Ready},
    stop::Stop,
};
use treecast_proto::{Instant, object::ReceiverId};
use treecast_wire::header::FileId;

use self::{
    core::{Core, Figures},
    door::Door,
    farewells::Farewells,
    kind::Kind,
    lanes::Lanes,
    objects::Objects,
    peers::Peers,
};

pub use self::named::{NamedReceiver, Presence};
use self::{ring::Ring, turns::Turn};
use super::{Plan, Rate, SendError, SendEvent, SendSummary};
use crate::{clock::Clock, discovery::Announcing};

/// The poller's tokens: one of these below `FIRST_CONNECTION`, else a connection's number.
const LISTENER: u64 = 0;
const STOP: u64 = 1;
const FEED: u64 = 2;
const HASHES: u64 = 3;
const ROUTERS: u64 = 4;
const AUDIENCE: u64 = 5;
const MEMBERS: u64 = 6;
const ORDERS: u64 = 7;
const FIRST_CONNECTION: u64 = 8;

/// The longest time between looks at the host's clock while the start waits for it.
const LOOK_AT_CLOCK: Duration = Duration::from_secs(10);

/// One session of a sender. Its parts each have one job; this type runs them in turns.
pub(super) struct Session<'a> {
    plan: Plan,
    core: Core<'a>,
    clock: Clock,
    poller: Poller,
    kind: Kind,
    lanes: Lanes,
    objects: Objects,
    peers: Peers,
    farewells: Farewells,
    /// The receiver whose connection was served last.
    last_served: ReceiverId,
    /// Announces the session on the network. `None` if nobody asks for that.
    announcing: Option<Announcing>,
}

impl<'a> Session<'a> {
    pub fn open(plan: Plan, on_event: &'a mut dyn FnMut(SendEvent)) -> Result<Self, SendError> {
        let poller = Poller::new()?;
        let (kind, control) = Kind::open(&plan, &poller)?;
        let clock = Clock::start();
        let objects = Objects::open(&plan, &poller)?;
        let machine = config::machine(&plan, kind.me())?;
        let mut session = Self {
            core: Core::new(machine, Figures::new(&plan), on_event),
            lanes: Lanes::open(&plan, clock.now())?,
            kind,
            peers: Peers::default(),
            farewells: Farewells::default(),
            last_served: ReceiverId(0),
            announcing: None,
            objects,
            clock,
            poller,
            plan,
        };
        session.lanes.open_ways(&mut session.plan, session.clock.now(), &session.poller)?;
        session.plan.keep_session(&control)?;
        session.begin()?;
        let ticket = session.plan.ticket(control);
        session.announcing = announce::start(
            &session.plan,
            &ticket,
            session.core.figures.summary.objects,
            session.core.figures.total_bytes,
        )?;
        session.core.tell(SendEvent::Ready { ticket });
        session.tell_warnings();
        Ok(session)
    }

    /// Takes up the objects, and those receivers that are known.
    fn begin(&mut self) -> Result<(), SendError> {
        let Self { plan, core, clock, poller, kind, lanes, objects, peers, .. } = self;
        let now = clock.now();
        match kind {
            Kind::Connected(door) => {
                peers.open(plan, door, core)?;
                peers.await_listed(plan, door);
                peers.update_hold(now, plan, core);
            }
            Kind::Ring(ring) => {
                ring.begin(now, plan, objects, lanes, poller)?;
                self.turn_ways(now);
                self.lanes.follow_plan(now, &self.peers, &mut self.core);
            }
            Kind::Local(_) => {
                for (index, named) in (0..).zip(std::mem::take(&mut plan.sources)) {
                    objects.add(now, FileId::new(plan.session, index), named, core);
                }
            }
        }
        Ok(())
    }

    /// Tells what was found out before the session began, and what of its folders cannot be sent.
    fn tell_warnings(&mut self) {
        for warning in std::mem::take(&mut self.plan.warnings) {
            self.core.warn(warning);
        }
        for (path, reason) in self.plan.left_out.named() {
            self.core.tell(SendEvent::NotSent { path, reason, number: None });
        }
    }

    pub fn run(mut self, stop: &Stop) -> Result<SendSummary, SendError> {
        match self.serve(stop) {
            Ok(ended) => Ok(self.finish(ended)),
            Err(error) => {
                self.say_ended(&error.to_receivers());
                Err(error)
            }
        }
    }

    /// Returns when the session was over.
    fn serve(&mut self, stop: &Stop) -> Result<Instant, SendError> {
        // At `Max` the processors are the limit, and each turn costs some of them.
        if self.plan.options.rate() != Rate::Max {
            treecast_host::turns::take_short();
        }
        self.poller.add(stop, STOP, Interest::Read)?;
        if let Some(starter) = &self.plan.options.start.starter {
            self.poller.add(starter, ORDERS, Interest::Read)?;
        }
        if let Some(ring) = self.kind.ring() {
            ring.hash_frames(stop, &self.plan, &mut self.objects)?;
        }
        let (mut ready, mut is_stopping) = (Vec::new(), false);
        loop {
            let now = self.clock.now();
            self.start_if_due(now)?;
            let has_feed = self.objects.has_feed();
            self.kind.look(now, &mut self.plan, &mut self.lanes, has_feed, &mut self.core)?;
            self.give_up_if_due(now);
            self.farewells.look(now);
            self.objects.look_at_feed(now, &mut self.core);
            self.objects.manifests.sign_if_due(now, &mut self.core);
            // The first packet goes where receivers are by now.
            let turn = self.turn_ways(now);
            let turn = turn.or(self.turn_group(now)?);
            let turn = turn.or(self.turn_slower(now)?);
            let lanes = self.turn_connections(now);
            self.report_progress(now);
            let closed = self.core.figures.closed;
            let results_until =
                if closed { self.peers.awaits_results(now, &self.plan, &self.core) } else { None };
            if closed && results_until.is_none() {
                // That receivers close their connections is no part of what they waited for.
                return Ok(self.core.figures.ended.unwrap_or(now));
            }
            let timeout = match turn {
                Turn::Again => Some(Duration::ZERO),
                Turn::Until(_) if self.core.has_news() => Some(Duration::ZERO),
                Turn::Until(deadline) => match lanes {
                    Turn::Again => Some(Duration::ZERO),
                    Turn::Until(lanes) => {
                        self.timeout([deadline, lanes, results_until].into_iter().flatten().min())
                    }
                },
            };
            self.core.tell(SendEvent::Idle);
            self.poller.wait(timeout, &mut ready)?;
            self.kind.door().into_iter().for_each(Door::begin_turn);
            for event in ready.drain(..) {
                self.handle_ready(event)?;
            }
            if stop.is_requested() {
                if let Some(ended) = self.interrupt()? {
                    return Ok(ended);
                }
                // It would wake the session all the time until the end.
                if !std::mem::replace(&mut is_stopping, true) {
                    self.poller.remove(stop)?;
                }
            }
        }
    }

    fn handle_ready(&mut self, ready: Ready) -> Result<(), SendError> {
        match ready.token {
            LISTENER => {
                if let Some(door) = self.kind.door() {
                    door.accept(self.clock.now(), &self.poller, &mut self.core)?;
                }
            }
            FEED => self.objects.take_feed_wake(),
            HASHES => self.objects.take_hashes(self.clock.now(), &mut self.core),
            ROUTERS => {
                let ways = self.lanes.ways.as_mut();
                ways.map_or(Ok(()), |ways| ways.hear_routers(self.clock.now()))?;
            }
            MEMBERS => {
                self.kind.hear(self.clock.now(), &self.plan, &mut self.lanes, &mut self.core)?;
            }
            STOP => {}
            ORDERS => self.take_order(),
            // Handshakes cost; the next turn's are as good.
            AUDIENCE => self.kind.ring().into_iter().for_each(Ring::look_now),
            token if self.kind.door().is_some_and(|door| door.holds(token)) => self.admit(token),
            token => self.read(ReceiverId((token - FIRST_CONNECTION) as u32)),
        }
        Ok(())
    }

    fn timeout(&mut self, machine: Option<Instant>) -> Option<Duration> {
        let now = self.clock.now();
        // The host's clock may be set meanwhile.
        let held_back = self.plan.held_back().map(|left| now + left.min(LOOK_AT_CLOCK));
        let give_up =
            held_back.unwrap_or(self.core.figures.waits_since + self.plan.options.start.wait_timeout);
        let start = self.core.figures.started.is_none().then_some(give_up);
        let goes_on = self.returned_at();
        let start = start.map(|start| if now < goes_on { start.min(goes_on) } else { start });
        let progress = self.core.figures.started.is_some().then_some(self.core.figures.watch.next_report());
        let kind = self.kind.deadline(self.core.figures.started.is_none());
        let start = start.filter(|_| self.kind.ring().is_none());
        let expiry = self.objects.next_expiry();
        let (unsigned, stop) = (self.objects.manifests.deadline(), self.core.figures.stops_at);
        let given_up = self.gives_up_at().filter(|at| *at > now);
        let farewells = self.farewells.deadline();
        let deadlines = [machine, start, progress, kind, expiry, unsigned, stop, given_up, farewells];
        deadlines.into_iter().flatten().min().map(|deadline| deadline.saturating_duration_since(now))
    }

    fn finish(mut self, now: Instant) -> SendSummary {
        self.farewells.settle(std::iter::empty());
        // The next sender of the session sends what receivers lack that are away.
        let away_since = self.peers.away_since(now, &self.plan);
        self.objects.settle_kept(away_since);
        self.core.figures.summary.dropped = self.objects.dropped();
        self.kind.finish(now, &self.plan, &self.lanes, &mut self.core);
        self.core.figures.summary.never_came = self.peers.never_came(&self.plan, &self.core);
        // What waits of a feed was not sent.
        self.core.figures.summary.interrupted |= self.core.figures.stops_at.is_some();
        let (objects, interrupted) =
            (self.core.figures.summary.objects, self.core.figures.summary.interrupted);
        self.peers.settle_results(self.clock.now(), interrupted, &self.plan, &self.core);
        self.peers.values_mut().for_each(|peer| peer.settle(objects, interrupted));
        let mut progress = self.progress(now);
        // A short session ends before its first report of progress.
        if !self.lanes.is_unheard() {
            self.peers.warn_of_deaf(&progress.receivers, &self.plan, &mut self.core);
        }
        for (receiver, peer) in progress.receivers.iter_mut().zip(self.peers.values_mut()) {
            receiver.failures = std::mem::take(&mut peer.tally.failures);
        }
        self.core.figures.summary.progress = progress;
        self.core.tell(SendEvent::Progress(self.core.figures.summary.progress.clone()));
        self.core.figures.summary
    }
}
