//! The choice of the way by which each receiver is served (`treecast send --fanout mead|xcast|auto`). Each is
//! served by itself, and by unicast until a cheaper way has proved to work.
//!
//! Receivers say how many packets they have heard at their own address and at the group's, and which was the last one
//! ([`Heard`]); the sender says what it has sent. From both follows:
//!
//! - A **trial** of a cheaper way serves a receiver by both, so that it cannot lose anything by it. Multicast works when
//!   packets are heard at the group's address; MEADcast, whose packets are plain unicast when they arrive, when about twice
//!   as many packets are heard as were sent. Then the copy that costs more is left out.
//! - A receiver that says to hear nothing of what has been sent for [`Config::patience`], or less than half of it for a second,
//!   is **back** at unicast at once. That way is tried again after a pause that doubles each time. One that says nothing at all
//!   is held up itself, or both its ways are cut; it has longer.
//!
//! MEADcast is tried where discovery has put a receiver into a list with others, for a list of one is dearer than unicast. Xcast
//! knows no discovery: its lists are tried as they are, and where no router acts, only the first one in a list hears anything.
//! A sender that is silent proves nothing: all times count from packets that were sent.

mod ears;
mod evidence;
mod receiver;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    convert::Infallible,
    fmt,
    str::FromStr,
    time::Duration,
};

pub use treecast_wire::message::Heard;

pub use self::ears::Ears;
use self::{evidence::SentLog, receiver::Receiver};
use crate::{Instant, Step};

/// The time between two looks at receivers while packets leave.
const LOOK: Duration = Duration::from_millis(20);

/// The way by which a packet reaches a receiver, the cheapest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Way {
    Multicast,
    Mead,
    Xcast,
    Unicast,
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Multicast => "multicast",
            Self::Mead => "mead",
            Self::Xcast => "xcast",
            Self::Unicast => "unicast",
        })
    }
}

impl FromStr for Way {
    type Err = String;

    /// Reads what [`Way`] displays as.
    fn from_str(text: &str) -> Result<Self, String> {
        let ways = [Self::Multicast, Self::Mead, Self::Xcast, Self::Unicast];
        let found = ways.into_iter().find(|way| way.to_string() == text);
        found.ok_or_else(|| format!("{text:?} is no way: expected multicast, mead, xcast or unicast"))
    }
}

impl Way {
    /// The name by which messages call this way.
    pub fn title(self) -> &'static str {
        match self {
            Self::Multicast => "multicast",
            Self::Mead => "MEADcast",
            Self::Xcast => "Xcast",
            Self::Unicast => "unicast",
        }
    }
}

/// The reason why a receiver is served by another way from now on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// The trial of a cheaper way has succeeded.
    Arrives,
    /// The receiver shares packets with others now. Nobody reports whether they arrive.
    Listed,
    /// The receiver heard nothing any more of what this way brought before.
    Silent(Way),
    /// The receiver heard less than half of what this way brought before.
    Lossy(Way),
    /// The lists of this way have no other receiver for it any more.
    Alone(Way),
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Arrives => f.write_str("packets arrive that way"),
            Self::Listed => f.write_str("others share its packets"),
            Self::Silent(before) => write!(f, "nothing arrives by {} any more", before.title()),
            Self::Lossy(before) => write!(f, "less than half arrives by {}", before.title()),
            Self::Alone(before) => {
                write!(f, "no other receiver shares its {} packets any more", before.title())
            }
        }
    }
}

/// The settings that the machine is told at its start.
#[derive(Debug, Clone, Copy)]
pub struct Config {
    /// Whether the session has a multicast group.
    pub has_group: bool,
    /// The way by which lists of receivers are served: MEADcast or Xcast.
    pub by_lists: Way,
    /// The time for which packets may leave for a receiver that hears none of them before the sender gives
    /// the way up. The time that the receiver's reports take comes on top.
    pub patience: Duration,
    /// Whether receivers report what they hear. Without reports no way can be tried. Then a receiver that is in
    /// a list with others is served by the list, every other one by unicast, and the group as long as somebody
    /// listens to it.
    pub has_reports: bool,
}

/// Something that has happened in the session.
#[derive(Debug, Clone)]
pub enum Input {
    /// A receiver with this number has joined.
    Joined(u32),
    Left(u32),
    /// Packets have left for every receiver; the next packet has the number `next`.
    Sent {
        next: u32,
    },
    /// A receiver has told what it has heard so far.
    Heard(u32, Heard),
    /// The receivers of each of these lists could share packets.
    Lists(Vec<Vec<u32>>),
    /// Whether anybody listens to the group, in sessions whose receivers do not report what they hear.
    Listeners(bool),
}

/// Something that the machine tells its caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Packets leave as [`Fanout::plan`] says from now on.
    Plan,
    /// A receiver is served by another way.
    Moved { receiver: u32, way: Way, why: Why },
    /// A receiver has heard nothing of what was sent to it, so none of it waits in its buffer.
    Unheard { receiver: u32 },
}

/// The event that the machine waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// The machine waits until packets leave or receivers join.
    Traffic,
    /// The machine waits for receivers' reports.
    Reports,
}

/// The ways by which each packet leaves.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// The receivers that get a unicast copy.
    pub unicast: BTreeSet<u32>,
    /// Whether a copy goes to the group.
    pub group: bool,
    /// The receivers that share a packet, for each list in the order of [`Input::Lists`]: none, or at least
    /// two.
    pub lists: Vec<BTreeSet<u32>>,
}

/// The machine. Call order: see the crate's documentation.
#[derive(Debug)]
pub struct Fanout {
    config: Config,
    receivers: BTreeMap<u32, Receiver>,
    lists: Vec<Vec<u32>>,
    /// Whether somebody listens to the group without a report.
    has_listeners: bool,
    log: SentLog,
    plan: Plan,
    next_look: Instant,
    events: VecDeque<Event>,
}

/// # What happens
impl Fanout {
    pub fn new(config: Config) -> Self {
        Self {
            config,
            receivers: BTreeMap::new(),
            lists: Vec::new(),
            has_listeners: false,
            log: SentLog::default(),
            plan: Plan::default(),
            next_look: Instant::ZERO,
            events: VecDeque::new(),
        }
    }

    pub fn handle(&mut self, now: Instant, input: Input) {
        match input {
            Input::Joined(number) => _ = self.receivers.insert(number, Receiver::new(now, self.log.total())),
            Input::Left(number) => _ = self.receivers.remove(&number),
            Input::Sent { next } => return self.log.sent(now, next),
            Input::Heard(number, heard) => {
                let Some(receiver) = self.receivers.get_mut(&number) else { return };
                receiver.heard(now, heard, &self.log);
                if !receiver.has_moved() {
                    return;
                }
            }
            Input::Lists(lists) => self.lists = lists,
            Input::Listeners(present) => self.has_listeners = present,
        }
        self.next_look = now;
    }
}

/// # What is to be done
impl Fanout {
    pub fn poll(&mut self, now: Instant) -> Step<Infallible, Event, Wait> {
        if self.events.is_empty() && now >= self.next_look {
            self.next_look = now + LOOK;
            self.look(now);
        }
        if let Some(event) = self.events.pop_front() {
            return Step::Event(event);
        }
        let awaits = |receiver: &Receiver| self.config.has_reports && receiver.is_waited_for(&self.log);
        match self.receivers.values().any(awaits) {
            true => Step::Wait(Some(self.next_look), Wait::Reports),
            false => Step::Wait(None, Wait::Traffic),
        }
    }

    /// Returns the ways by which packets leave now.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Returns the way by which a receiver is served.
    pub fn way(&self, receiver: u32) -> Option<Way> {
        self.receivers.get(&receiver).map(Receiver::way)
    }

    /// Ends what does not work, begins what is due, and tells what changes by it.
    fn look(&mut self, now: Instant) {
        if !self.config.has_reports {
            return self.look_without_reports();
        }
        for (number, receiver) in &mut self.receivers {
            if receiver.judge(now, &self.log, self.config.patience) {
                self.events.push_back(Event::Unheard { receiver: *number });
            }
            if self.config.has_group && receiver.may_try(now, Way::Multicast) {
                receiver.begin(Way::Multicast, &self.log);
            }
        }
        self.form_lists(now);
        self.tell_changes();
    }

    /// Tells which receivers are served by another way, and by which ways packets leave.
    fn tell_changes(&mut self) {
        for (number, receiver) in &mut self.receivers {
            if let Some((way, why)) = receiver.take_move() {
                self.events.push_back(Event::Moved { receiver: *number, way, why });
            }
        }
        let plan = self.planned();
        if plan != self.plan {
            self.plan = plan;
            self.events.push_back(Event::Plan);
        }
    }

    /// Serves by lists the receivers that have company in one.
    fn look_without_reports(&mut self) {
        let number = |list: &&Vec<u32>| list.iter().filter(|one| self.receivers.contains_key(one)).count();
        let in_company = self.lists.iter().filter(|list| number(list) > 1).flatten().copied();
        let in_company: BTreeSet<u32> = in_company.collect();
        for (number, receiver) in &mut self.receivers {
            let way = if in_company.contains(number) { self.config.by_lists } else { Way::Unicast };
            receiver.serve_by(way);
        }
        self.tell_changes();
    }

    /// Tries lists with receivers that have company in one, and leaves them with those that have none any more.
    fn form_lists(&mut self, now: Instant) {
        let way = self.config.by_lists;
        let mut in_company = BTreeSet::new();
        for list in &self.lists {
            let may_be = |number: &&u32| {
                let receiver = self.receivers.get(*number);
                receiver.is_some_and(|receiver| receiver.uses(way) || receiver.may_try(now, way))
            };
            let members: Vec<u32> = list.iter().filter(may_be).copied().collect();
            if members.len() > 1 {
                in_company.extend(members);
            }
        }
        for (number, receiver) in &mut self.receivers {
            match (in_company.contains(number), receiver.uses(way)) {
                (true, false) => receiver.begin(way, &self.log),
                (false, true) => receiver.give_up_company(now, way, &self.log),
                _ => {}
            }
        }
    }

    fn planned(&self) -> Plan {
        let using = |way: Way| self.receivers.iter().filter(move |(_, receiver)| receiver.uses(way));
        let uses_lists: BTreeSet<u32> = using(self.config.by_lists).map(|(number, _)| *number).collect();
        let members = |list: &Vec<u32>| list.iter().copied().filter(|one| uses_lists.contains(one)).collect();
        Plan {
            unicast: using(Way::Unicast).map(|(number, _)| *number).collect(),
            group: using(Way::Multicast).next().is_some() || (self.config.has_group && self.has_listeners),
            lists: self.lists.iter().map(members).collect(),
        }
    }
}

#[cfg(test)]
mod tests;
