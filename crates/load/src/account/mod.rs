//! Counts what a receiver hears: loss, reordering, copies and late packets of each sender.
//!
//! This module has no socket and no clock. [`Account::take`] is handed each datagram with the times of its arrival, and
//! [`Account::report`] returns the counts. Memory is bounded, whatever arrives: at most so many streams are kept as the
//! account was made for, and each has a fixed size.
//!
//! A *stream* is one session of one sender. Our packet names its session. The paper's does not: there a stream is what comes from
//! one address and port with one identity, and it ends when its number falls back to 1.

mod delay;
mod history;
mod order;
mod paper_log;
mod runs;
mod spread;
mod stream;

use std::{
    collections::{HashMap, VecDeque, hash_map::Entry},
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

pub(crate) use spread::SpreadCounter;
pub use stream::MAX_NUMBER;
use stream::{Stream, Verdict};

use crate::{
    packet::{Format, Packet},
    report::{Ending, PairReport, ReceiverReport},
    schedule::Schedule,
};

/// The time by which two streams with one identity must overlap until they count as two senders. Packets of an ended session may
/// still arrive after the first ones of the next.
const OVERLAP: Duration = Duration::from_millis(100);

/// The times of an arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// A clock that never jumps, from any beginning.
    pub steady: Duration,
    /// The receiver's clock: the time since 1970.
    pub clock: Duration,
}

/// The rules by which an [`Account`] counts.
#[derive(Debug, Clone)]
pub struct Rules {
    pub format: Format,
    /// The number of packets that may overtake a packet before it is late.
    pub window: u64,
    /// Largest number of streams, at least 1.
    pub max_streams: usize,
    /// The rates by the packets' numbers, for packets that do not say their rate.
    pub schedule: Option<Schedule>,
    /// The time at which the receiver began to listen, by the steady clock. `None`: before the first packet of every
    /// sender.
    pub listens_since: Option<Duration>,
    /// Whether lines like those of the paper's figures 14 and 15 are made ([`Account::next_line`]).
    pub tells_invalid: bool,
}

impl Rules {
    /// Whether the schedule is known and has this rate only. What was sent before a receiver listened cannot be told by the rate
    /// otherwise: a whole step of another rate may have been lost.
    fn is_only_rate(&self, rate_pps: f64) -> bool {
        // Packets tell the rate with fewer digits.
        let is_near = |asked: f64| (asked / rate_pps - 1.0).abs() < 1e-6;
        let steps = self.schedule.as_ref().map(|schedule| &schedule.steps[..]).unwrap_or_default();
        rate_pps > 0.0 && !steps.is_empty() && steps.iter().all(|step| is_near(step.rate_pps))
    }
}

/// The name of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Key {
    sender: Ipv4Addr,
    session: Option<u32>,
    source: SocketAddr,
}

/// The counts of one receiver.
#[derive(Debug)]
pub struct Account {
    rules: Rules,
    streams: HashMap<Key, Stream>,
    /// Streams that ended because their sender started again under the same name. They count as streams.
    ended: Vec<(Key, Stream)>,
    /// Streams of which only one packet was heard, in the order of their packets. Names that do not apply any more are skipped.
    single: VecDeque<Key>,
    counts: ReceiverReport,
    lines: VecDeque<String>,
}

/// The largest number of lines that wait for [`Account::next_line`].
const MAX_LINES: usize = 1000;

impl Account {
    pub fn new(rules: Rules) -> Self {
        let counts = ReceiverReport { window: rules.window, ..ReceiverReport::default() };
        Self {
            rules,
            streams: HashMap::new(),
            ended: Vec::new(),
            single: VecDeque::new(),
            counts,
            lines: VecDeque::new(),
        }
    }

    /// Counts a datagram. `payload` is its beginning, and `bytes` its whole length.
    pub fn take(&mut self, payload: &[u8], bytes: usize, source: SocketAddr, at: Times) {
        let Ok(packet) = Packet::parse(self.rules.format, payload) else {
            self.counts.foreign += 1;
            return;
        };
        let rate_pps = match packet.stamp {
            Some(stamp) => f64::from(stamp.rate_pps),
            None => {
                self.rules.schedule.as_ref().and_then(|rates| rates.rate_of(packet.number)).unwrap_or(0.0)
            }
        };
        let listens_since = self.rules.listens_since.filter(|_| self.rules.is_only_rate(rate_pps));
        let session = packet.stamp.map(|stamp| stamp.session);
        let key = Key { sender: packet.sender, session, source };
        if !self.streams.contains_key(&key) && !self.make_room() {
            self.counts.unaccounted += 1;
            return;
        }
        let stream = match self.streams.entry(key) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                self.single.push_back(key);
                entry.insert(Stream::new(self.rules.window, listens_since, at))
            }
        };
        match stream.take(&packet, rate_pps, bytes, at) {
            Verdict::Counted => {}
            Verdict::Implausible => self.counts.implausible += 1,
            Verdict::Restarted(next) => {
                let ended = std::mem::replace(stream, *next);
                self.end(key, ended);
            }
        }
        if self.rules.tells_invalid
            && let Some(line) = self.streams.get_mut(&key).and_then(|stream| stream.log(&packet))
            && self.lines.len() < MAX_LINES
        {
            self.lines.push_back(line);
        }
    }

    /// The next line about invalid packets, in the paper's words (figures 14 and 15).
    pub fn next_line(&mut self) -> Option<String> {
        self.lines.pop_front()
    }

    /// The counts of all streams until now, sorted by sender and beginning. `now` is the steady clock.
    pub fn report(&self, now: Duration, kernel_dropped: u64) -> ReceiverReport {
        let all = self.streams.iter().chain(self.ended.iter().map(|(key, stream)| (key, stream)));
        let mut all: Vec<(&Key, &Stream)> = all.filter(|(_, stream)| !stream.is_empty()).collect();
        all.sort_by_key(|(key, stream)| (key.sender, stream.first_at(), **key));
        let mut pairs = Vec::new();
        for sessions in all.chunk_by(|(a, _), (b, _)| a.sender == b.sender) {
            pairs.extend(pairs_of(sessions, now));
        }
        let implausible = self.counts.implausible + self.streams.values().map(Stream::held_back).sum::<u64>();
        ReceiverReport { pairs, kernel_dropped, implausible, ..self.counts.clone() }
    }

    /// Makes room for one more stream. A stream with a single packet may go: a flood of made-up senders consists of those. Returns
    /// false if there is none.
    fn make_room(&mut self) -> bool {
        if self.streams.len() + self.ended.len() < self.rules.max_streams {
            return true;
        }
        while let Some(key) = self.single.pop_front() {
            if self.streams.get(&key).is_some_and(Stream::is_single) {
                self.streams.remove(&key);
                self.counts.forgotten_streams += 1;
                return true;
            }
        }
        false
    }

    /// Keeps the counts of a stream whose sender has started again, as far as there is room.
    fn end(&mut self, key: Key, stream: Stream) {
        match self.streams.len() + self.ended.len() < self.rules.max_streams {
            true => self.ended.push((key, stream)),
            false => self.counts.forgotten_streams += 1,
        }
    }
}

/// The reports of all streams of one identity, in the order of their beginnings.
fn pairs_of<'a>(
    sessions: &'a [(&'a Key, &'a Stream)],
    now: Duration,
) -> impl Iterator<Item = PairReport> + 'a {
    let overlap =
        |a: &Stream, b: &Stream| a.last_at() > b.first_at() + OVERLAP && b.last_at() > a.first_at() + OVERLAP;
    sessions.iter().enumerate().map(move |(index, (key, stream))| {
        let is_other = |other: &usize| *other != index;
        let shares = (0..sessions.len()).filter(is_other).any(|other| overlap(stream, sessions[other].1));
        let follows = |next: &(&Key, &Stream)| !overlap(stream, next.1);
        let is_restarted = sessions[index + 1..].iter().any(follows);
        let before = sessions[..index].iter().filter(|earlier| !overlap(stream, earlier.1)).count();
        let mut pair = stream.report(key.source, now);
        if is_restarted && pair.ending != Ending::Announced {
            pair.ending = Ending::Restarted;
        }
        PairReport {
            sender: key.sender,
            session: key.session,
            restart: before as u32,
            shares_identity: shares,
            ..pair
        }
    })
}

#[cfg(test)]
mod tests;
