//! The reasons why a receiver is behind, as far as its reports and its connection show them.

mod meter;

use std::{fmt, mem, time::Duration};

use serde::{Deserialize, Serialize};

pub(crate) use self::meter::{Meter, bits, time_for};
use crate::connection::KEEPALIVE;

/// The silence after which a peer counts as silent. One that lives and owes something has spoken by then.
const SILENT_AFTER: Duration = KEEPALIVE.saturating_add(Duration::from_secs(1));

/// The share of the time from which a disk counts as slow.
const DISK_SHARE: f64 = 0.2;

/// The share of the time from which a disk counts as one that takes nothing.
const FULL_SHARE: f64 = 0.9;

/// The share of what came again from which loss is named.
const LOSS_SHARE: f64 = 0.01;

/// The reason why a receiver (or, at a receiver, the session) does not go faster. Only its word is serialized;
/// its figure is 0 when it is read again.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(into = "&'static str", try_from = "String")]
#[non_exhaustive]
pub enum Hindrance {
    /// Nothing was heard for this many seconds.
    Silent(f64),
    /// Packets have waited for the disk for this share of the time.
    Disk(f64),
    /// The kernel drops this many packets a second, because the receive buffer is full.
    Buffer(f64),
    /// No UDP packet of the session has come, so everything comes over the receiver's connection.
    Unheard,
    /// Retransmissions wait until the receiver's connection takes more.
    Connection,
    /// The share of the recent bytes that had to be sent again.
    Loss(f64),
    /// The receiver came late or came back, and still gets what was sent before.
    CatchingUp,
    /// The receiver's disk is full, and it waits for space.
    Full,
    /// The receiver has all bytes, and verifies them.
    Checking,
    /// None of these. The sender's rate is the limit.
    Behind,
    /// The receiver's connection has broken.
    Gone,
    /// The sender has been away from this receiver, which looks for it, for this many seconds.
    Away(f64),
}

/// The receiver that a session waits for, and the reason.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Holder {
    pub receiver: String,
    pub why: Hindrance,
    /// The reason in words, with its figure.
    pub text: String,
}

impl Holder {
    pub fn new(receiver: String, why: Hindrance) -> Self {
        Self { receiver, why, text: why.to_string() }
    }
}

/// The observable state of a receiver that is behind. Rates are those of the last seconds.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Symptoms {
    pub silent: Duration,
    /// Whether only its report that it is done is missing.
    pub has_all: bool,
    /// Whether it gets everything over its connection, because no UDP packet reaches it.
    pub hears_nothing: bool,
    /// Whether a retransmission that it asked for waits for its connection.
    pub waits_for_connection: bool,
    /// Whether it gets what was sent before it came, which is no loss.
    pub catches_up: bool,
    pub received_bytes_a_second: f64,
    pub retransmitted_bytes_a_second: f64,
    pub dropped_packets_a_second: f64,
    pub disk_wait_ms_a_second: f64,
}

/// The likeliest reason, the most telling first.
pub(crate) fn judge(symptoms: &Symptoms) -> Hindrance {
    let loss = symptoms.retransmitted_bytes_a_second
        / symptoms.received_bytes_a_second.max(symptoms.retransmitted_bytes_a_second).max(1.0);
    let disk = symptoms.disk_wait_ms_a_second / 1000.0;
    match symptoms {
        _ if symptoms.silent >= SILENT_AFTER => Hindrance::Silent(symptoms.silent.as_secs_f64()),
        _ if disk >= DISK_SHARE => Hindrance::Disk(disk.min(1.0)),
        _ if symptoms.has_all => Hindrance::Checking,
        _ if symptoms.dropped_packets_a_second >= 1.0 => Hindrance::Buffer(symptoms.dropped_packets_a_second),
        _ if symptoms.hears_nothing => Hindrance::Unheard,
        _ if symptoms.waits_for_connection => Hindrance::Connection,
        // What is sent to it again was not lost.
        _ if symptoms.catches_up => Hindrance::CatchingUp,
        _ if loss >= LOSS_SHARE => Hindrance::Loss(loss),
        _ => Hindrance::Behind,
    }
}

impl Hindrance {
    /// All hindrances, with a word for programs each.
    const WORDS: [(Self, &str); 12] = [
        (Self::Silent(0.0), "silent"),
        (Self::Disk(0.0), "disk"),
        (Self::Buffer(0.0), "buffer"),
        (Self::Unheard, "unheard"),
        (Self::Connection, "connection"),
        (Self::Loss(0.0), "loss"),
        (Self::CatchingUp, "catching_up"),
        (Self::Full, "full"),
        (Self::Checking, "checking"),
        (Self::Behind, "behind"),
        (Self::Gone, "gone"),
        (Self::Away(0.0), "away"),
    ];

    /// The reason in one word, for programs.
    pub fn word(self) -> &'static str {
        let is_it = |(one, _): &(Self, &str)| mem::discriminant(one) == mem::discriminant(&self);
        Self::WORDS.into_iter().find(is_it).map_or("", |(_, word)| word)
    }
}

impl From<Hindrance> for &'static str {
    fn from(hindrance: Hindrance) -> Self {
        hindrance.word()
    }
}

impl TryFrom<String> for Hindrance {
    type Error = String;

    fn try_from(word: String) -> Result<Self, String> {
        let found = Self::WORDS.into_iter().find(|(_, one)| *one == word);
        found.map(|(one, _)| one).ok_or_else(|| format!("{word:?} hinders nobody"))
    }
}

impl fmt::Display for Hindrance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Silent(seconds) => write!(f, "silent for {seconds:.0} s"),
            // A receiver without room counts all of the time.
            Self::Disk(share) if *share > FULL_SHARE => {
                write!(f, "its disk takes nothing: full, or very slow")
            }
            Self::Disk(share) => write!(f, "slow disk ({:.0} % of the time)", share * 100.0),
            Self::Buffer(packets) => write!(f, "too slow: its kernel drops {packets:.0} packets/s"),
            Self::Unheard => write!(f, "hears no UDP packets: all comes over TCP"),
            Self::Connection => write!(f, "slow connection"),
            Self::Loss(share) => write!(f, "loses packets: {:.0} % is sent again", share * 100.0),
            Self::CatchingUp => write!(f, "it came late and catches up"),
            Self::Full => write!(f, "its disk is full: it waits for room"),
            Self::Checking => write!(f, "verifies what it has"),
            Self::Behind => write!(f, "behind"),
            Self::Gone => write!(f, "its connection broke, and it may come back"),
            Self::Away(seconds) => write!(f, "away for {seconds:.0} s"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_telling_reason_comes_first() {
        let mut symptoms = Symptoms { received_bytes_a_second: 1000.0, ..Symptoms::default() };
        assert_eq!(judge(&symptoms), Hindrance::Behind);
        symptoms.retransmitted_bytes_a_second = 250.0;
        assert_eq!(judge(&symptoms), Hindrance::Loss(0.25));
        symptoms.catches_up = true;
        assert_eq!(judge(&symptoms), Hindrance::CatchingUp, "what it missed is sent again, and was not lost");
        symptoms.waits_for_connection = true;
        assert_eq!(judge(&symptoms), Hindrance::Connection);
        symptoms.hears_nothing = true;
        assert_eq!(judge(&symptoms), Hindrance::Unheard, "a connection is always slower than the group");
        symptoms.dropped_packets_a_second = 30.0;
        assert_eq!(judge(&symptoms), Hindrance::Buffer(30.0));
        symptoms.disk_wait_ms_a_second = 600.0;
        assert_eq!(judge(&symptoms), Hindrance::Disk(0.6));
        symptoms.has_all = true;
        assert_eq!(judge(&symptoms), Hindrance::Disk(0.6), "its disk may be full: nothing is verified");
        symptoms.disk_wait_ms_a_second = 0.0;
        assert_eq!(judge(&symptoms), Hindrance::Checking);
        symptoms.silent = KEEPALIVE;
        assert_eq!(judge(&symptoms), Hindrance::Checking, "it may speak yet");
        symptoms.silent = Duration::from_secs(7);
        assert_eq!(judge(&symptoms), Hindrance::Silent(7.0));
    }
}
