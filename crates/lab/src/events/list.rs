//! A list of events from a file, and the times of its steps.

use std::{fmt, path::Path, time::Duration};

use serde::Deserialize;
use treecast_host::text;

use super::error::EventError;
use super::fault::{Fault, Forgery};
use super::trace::Trace;
use crate::{
    quantity::Time,
    topology::{Loss, Topology},
};

/// The size of the largest trace file.
const MAX_TRACE_BYTES: u64 = 1 << 20;

/// An event of a list: a fault, its begin and its end.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "Written")]
pub struct Event {
    /// The time since the run's start.
    pub at: Duration,
    /// The time when the fault is undone. `None`: at the end of the run.
    pub until: Option<Duration>,
    pub fault: Fault,
    /// The delay after which routes avoid a link that is down or fails, and after which they use it again when
    /// it is mended. This imitates the time that a routing protocol takes to notice. `None`: routes do not
    /// change.
    pub noticed: Option<Duration>,
    /// The loss over time, for a fault that loses as a trace file says.
    pub trace: Option<Trace>,
}

/// An event, as written in the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    at: Time,
    until: Option<Time>,
    fault: String,
    link: Option<String>,
    node: Option<String>,
    interface: Option<String>,
    noticed: Option<Time>,
    loss: Option<String>,
    trace: Option<String>,
    to: Option<String>,
    router: Option<String>,
    receivers: Option<Vec<String>>,
    hops: Option<u8>,
    every: Option<Time>,
    after: Option<Time>,
}

/// A step at a certain time of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// The time since the run's start.
    pub at: Duration,
    /// Whether the fault begins, or ends.
    pub begins: bool,
    pub fault: Fault,
}

/// All steps in order of time. Steps at the same time have the order of the list.
pub fn agenda(events: &[Event]) -> Vec<Step> {
    let mut steps: Vec<Step> = events.iter().flat_map(Event::steps).collect();
    steps.sort_by_key(|step| step.at);
    steps
}

/// Checks a list: everything that it names must exist, and a fault must not begin while it goes on.
///
/// # Errors
/// The event, and what is wrong with it.
pub fn check(events: &[Event], topology: &Topology) -> Result<(), EventError> {
    for (index, event) in events.iter().enumerate() {
        let what = |why| EventError::Event(index + 1, event.fault.to_string(), event.at, Box::new(why));
        event.fault.check(topology).map_err(what)?;
        let is_same = |other: &&Event| {
            let key = |event: &Event| {
                let (place, interface) = event.fault.place();
                (event.fault.words(), place.to_owned(), interface.map(str::to_owned))
            };
            key(other) == key(event) && other.is_during(event)
        };
        if events[..index].iter().any(|other| is_same(&other)) {
            return Err(what(EventError::GoesOn));
        }
    }
    Ok(())
}

impl Event {
    /// Reads the event's trace file, if it has one. Its path starts at `folder`.
    ///
    /// # Errors
    /// If the file cannot be read, or is no trace.
    pub fn read_trace(&mut self, folder: &Path) -> Result<(), EventError> {
        let Some(trace) = &mut self.trace else { return Ok(()) };
        let text = text::read(&folder.join(&trace.file), MAX_TRACE_BYTES);
        let text = text.map_err(|error| EventError::Trace(trace.file.clone(), error.to_string()))?;
        trace.read(&text)?;
        self.until = trace.steps.last().map(|(end, _)| self.at + *end);
        Ok(())
    }

    fn steps(&self) -> Vec<Step> {
        if let (Some(trace), Fault::Lose { node, interface, .. }) = (&self.trace, &self.fault) {
            let step = |(after, loss): &(Duration, Option<Loss>)| {
                let (node, interface) = (node.clone(), interface.clone());
                let fault = Fault::Lose { node, interface, loss: loss.unwrap_or_default() };
                Step { at: self.at + *after, begins: loss.is_some(), fault }
            };
            return trace.steps.iter().map(step).collect();
        }
        let step = |at, begins, fault: &Fault| Step { at, begins, fault: fault.clone() };
        let mut steps = vec![step(self.at, true, &self.fault)];
        steps.extend(self.until.map(|until| step(until, false, &self.fault)));
        let (link, _) = self.fault.place();
        let avoid = Fault::Avoid { link: link.to_owned() };
        // A fault that is over before routes would change is not noticed.
        let noticed =
            self.noticed.filter(|noticed| self.until.is_none_or(|until| self.at + *noticed < until));
        if let Some(noticed) = noticed {
            steps.push(step(self.at + noticed, true, &avoid));
            steps.extend(self.until.map(|until| step(until + noticed, false, &avoid)));
        }
        steps
    }

    fn is_during(&self, other: &Self) -> bool {
        let ends_before = |one: &Self, other: &Self| one.until.is_some_and(|until| until <= other.at);
        !ends_before(self, other) && !ends_before(other, self)
    }
}

impl TryFrom<Written> for Event {
    type Error = EventError;

    fn try_from(mut written: Written) -> Result<Self, EventError> {
        let fault = written.fault()?;
        let trace = written.trace.take().map(|file| Trace { file, steps: Vec::new() });
        if trace.is_some() && written.until.is_some() {
            return Err(EventError::NotFor(fault.to_string(), "until beside trace"));
        }
        let (at, until) = (written.at.0, written.until.map(|time| time.0));
        if let Some(until) = until.filter(|until| *until <= at) {
            return Err(EventError::EndsBefore { fault: fault.to_string(), until, at });
        }
        let noticed = match (&fault, written.noticed.take()) {
            (Fault::Down { .. } | Fault::Fail { .. }, noticed) => noticed.map(|time| time.0),
            (_, None) => None,
            (_, Some(_)) => return Err(EventError::NotNoticed(fault.to_string())),
        };
        if let Some(left) = written.left() {
            return Err(EventError::NotFor(fault.to_string(), left));
        }
        Ok(Self { at, until, fault, noticed, trace })
    }
}

impl Written {
    /// Reads the keys that the fault needs.
    fn fault(&mut self) -> Result<Fault, EventError> {
        let name = std::mem::take(&mut self.fault);
        let lacks = |what: &'static str| {
            let name = name.clone();
            move || EventError::Needs(name, what)
        };
        let link = self.link.take().ok_or_else(lacks("link"));
        let node = self.node.take().ok_or_else(lacks("node"));
        let fault = match name.as_str() {
            "down" => Fault::Down { link: link? },
            "fail" => Fault::Fail { link: link? },
            "avoid" => Fault::Avoid { link: link? },
            "unplug" => Fault::Unplug { node: node?, interface: self.interface.take() },
            "lose" => {
                let loss = match (self.loss.take(), &self.trace) {
                    (Some(loss), None) => {
                        Loss::parse(&loss).map_err(|expected| EventError::Loss(loss, expected))?
                    }
                    (None, Some(_)) => Loss::None,
                    (Some(_), Some(_)) => return Err(EventError::NotFor(name, "loss beside trace")),
                    (None, None) => return Err(lacks("loss or trace")()),
                };
                Fault::Lose { node: node?, interface: self.interface.take(), loss }
            }
            "firewall" => Fault::Firewall { node: node?, interface: self.interface.take() },
            "router-off" => Fault::RouterOff { node: node? },
            "router-kill" => Fault::RouterKilled { node: node? },
            "router-gone" => Fault::RouterGone { node: node? },
            "replay" => {
                let after = self.after.take().ok_or_else(lacks("after"))?.0;
                Fault::Replay { node: node?, interface: self.interface.take(), after }
            }
            "forge" => Fault::Forge(Forgery {
                node: node?,
                to: self.to.take().ok_or_else(lacks("to"))?,
                router: self.router.take().ok_or_else(lacks("router"))?,
                receivers: self.receivers.take().ok_or_else(lacks("receivers"))?,
                hops: self.hops.take().ok_or_else(lacks("hops"))?,
                every: self.every.take().map_or(Forgery::EVERY, |time| time.0),
            }),
            _ => return Err(EventError::Unknown(name)),
        };
        Ok(fault)
    }

    /// A key that does not belong to the fault, if there is one.
    fn left(&self) -> Option<&'static str> {
        let keys = [
            ("link", self.link.is_some()),
            ("node", self.node.is_some()),
            ("interface", self.interface.is_some()),
            ("loss", self.loss.is_some()),
            ("trace", self.trace.is_some()),
            ("to", self.to.is_some()),
            ("router", self.router.is_some()),
            ("receivers", self.receivers.is_some()),
            ("hops", self.hops.is_some()),
            ("every", self.every.is_some()),
            ("after", self.after.is_some()),
        ];
        keys.into_iter().find(|(_, is_left)| *is_left).map(|(key, _)| key)
    }
}

impl fmt::Display for Step {
    /// Writes the place and what happens: `r1-r3 up`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.begins, self.fault.place()) {
            (true, _) => write!(f, "{}", self.fault),
            (false, (place, None)) => write!(f, "{place} {}", self.fault.words()[1]),
            (false, (place, Some(interface))) => write!(f, "{place} ({interface}) {}", self.fault.words()[1]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Deserialize)]
    struct File {
        events: Vec<Event>,
    }

    fn read(events: &str) -> Result<Vec<Event>, String> {
        let file: Result<File, _> = toml::from_str(&format!("events = [{events}]"));
        file.map(|file| file.events).map_err(|error| error.message().to_owned())
    }

    fn steps(events: &str) -> Vec<String> {
        let told = |step: &Step| format!("{:?} {step}", step.at);
        agenda(&read(events).unwrap()).iter().map(told).collect()
    }

    #[test]
    fn an_agenda_is_by_time_and_routes_follow_what_has_been_noticed() {
        let events = r#"
            { at = "10s", until = "18s", node = "r3", interface = "r1", fault = "firewall" },
            { at = "2s", until = "30s", link = "r1-r3", fault = "fail", noticed = "20s" },
            { at = "12s", until = "13s", link = "r3-r4", fault = "down", noticed = "0s" },
            { at = "18s", node = "r41", fault = "router-off" }"#;
        let expected = [
            "2s r1-r3 fail",
            "10s r3 (r1) firewall",
            "12s r3-r4 down",
            "12s r3-r4 avoid",
            "13s r3-r4 up",
            "13s r3-r4 take",
            "18s r3 (r1) no-firewall",
            "18s r41 router-off",
            "22s r1-r3 avoid",
            "30s r1-r3 mend",
            "50s r1-r3 take",
        ];
        assert_eq!(steps(events), expected);
        let soon_over = r#"{ at = "1s", until = "2s", link = "l", fault = "fail", noticed = "1s" }"#;
        assert_eq!(steps(soon_over), ["1s l fail", "2s l mend"]);
    }

    #[test]
    fn a_wrong_event_is_refused_with_what_was_expected() {
        let refused = |event: &str| read(event).unwrap_err();
        assert_eq!(
            refused(r#"{ at = "1s", link = "l", fault = "breaks" }"#).split(',').next().unwrap(),
            "fault \"breaks\": expected down"
        );
        assert_eq!(refused(r#"{ at = "1s", fault = "down" }"#), "fault \"down\" needs link");
        assert_eq!(
            refused(r#"{ at = "1s", node = "r1", fault = "lose" }"#),
            "fault \"lose\" needs loss or trace"
        );
        assert_eq!(
            refused(r#"{ at = "1s", link = "l", hops = 3, fault = "down" }"#),
            "l down: hops is not for this fault"
        );
        assert_eq!(
            refused(r#"{ at = "3s", until = "3s", link = "l", fault = "down" }"#),
            "l down: until 3s is not after 3s"
        );
        assert_eq!(
            refused(r#"{ at = "3s", node = "n", noticed = "1s", fault = "router-off" }"#),
            "n router-off: noticed is for down and fail"
        );
        assert!(
            refused(r#"{ at = "3s", nodes = "n", fault = "down" }"#).starts_with("unknown field `nodes`")
        );
        assert_eq!(
            refused(r#"{ at = "soon", link = "n", fault = "down" }"#),
            "expected a time from 0s to 1d, like 500ms, 90s, 15m or 2h"
        );
    }

    #[test]
    fn a_list_is_checked_against_the_network() {
        let topology = Topology::parse("tree:levels=2,clients=1").unwrap();
        let refused = |events: &str| check(&read(events).unwrap(), &topology).unwrap_err().to_string();
        let wrong = [
            (
                r#"{ at = "1s", link = "r1-r2", fault = "down" }"#,
                "there is no link r1-r2: there are none; break",
            ),
            (
                r#"{ at = "1s", node = "router0", interface = "x", fault = "firewall" }"#,
                "has no interface x: it has ",
            ),
            (r#"{ at = "1s", node = "client0", fault = "router-off" }"#, "client0 is no router"),
            (
                r#"{ at = "1s", node = "client7", fault = "unplug" }"#,
                "there is no node client7: there are server0",
            ),
            (
                r#"{ at = "1s", node = "client0", to = "x", router = "fd00::1", receivers = [], hops = 1, fault = "forge" }"#,
                "there is no node x: there are",
            ),
        ];
        for (events, expected) in wrong {
            let said = refused(events);
            assert!(said.starts_with("event 1 (") && said.contains(expected), "{said}");
        }
        let twice = r#"{ at = "1s", until = "3s", node = "client0", fault = "unplug" },
            { at = "2s", node = "client0", fault = "unplug" }"#;
        assert!(refused(twice).starts_with("event 2 (client0 unplug at 2s): the same goes on already"));
        let again = twice.replace("\"2s\"", "\"3s\"");
        assert_eq!(check(&read(&again).unwrap(), &topology), Ok(()));
    }
}
