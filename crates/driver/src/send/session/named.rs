//! What a carousel knows of the receivers that are named to it.
//!
//! None of them answers. But a host says when no program has the port that a packet is for (ICMP port unreachable): its
//! receiver has not begun, or has ended. Routers say when there is no host. Linux says so at most once a second for each
//! sender. So a receiver is known to have listened only if a packet that left later than that was not answered so.

use std::{net::IpAddr, time::Duration};

use serde::{Deserialize, Serialize};
use treecast_proto::Instant;

/// A receiver that was named to a carousel, as it is known at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedReceiver {
    #[serde(rename = "receiver")]
    pub address: IpAddr,
    pub presence: Presence,
}

/// What is known of a receiver that answers nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Presence {
    /// Nobody has said anything. It may listen, or packets and errors are filtered.
    Silent,
    /// Its program has listened, and has ended.
    Ended,
    /// Its program is not there at the end. It may have listened for a moment.
    Closed,
    /// Its program was never there for as long as a loop takes.
    Absent,
    /// Its host cannot be reached.
    Unreachable,
}

/// The time after an error in which the host may keep the next one to itself.
const LIMITED: Duration = Duration::from_millis(1_100);

/// The longest time from a packet to its error.
const ANSWERED: Duration = Duration::from_secs(1);

/// The time for which a host is unreachable after an error. The kernel looks for an absent neighbour for three seconds
/// before each error.
const HOLDS: Duration = Duration::from_secs(5);

/// A loop that takes so long cannot be received unnoticed: it is longer than the two times above together.
const LONG_LOOP: Duration = Duration::from_secs(3);

/// The receivers that were named to a carousel.
#[derive(Debug, Default)]
pub(super) struct Named {
    receivers: Vec<(IpAddr, Signs)>,
    /// When the first packet left.
    began: Option<Instant>,
    /// The bytes that have left, and when the last of them did.
    left: (u64, Instant),
    /// Since when nobody has listened, if somebody has before.
    all_gone: Option<Instant>,
}

#[derive(Debug, Default, Clone, Copy)]
struct Signs {
    /// When the last error came.
    last: Option<Instant>,
    /// When a packet left that an absent program would be told of.
    asked: Option<Instant>,
    is_unreachable: bool,
    has_listened: bool,
}

impl Named {
    pub fn new(addresses: &[IpAddr]) -> Self {
        let receivers = addresses.iter().map(|address| (*address, Signs::default())).collect();
        Self { receivers, ..Self::default() }
    }

    /// Notes the errors of packets that did not arrive, each with the number of the kernel's error. `left_bytes` is the
    /// number of bytes that have left so far. To be called often from the first packet on.
    pub fn note(&mut self, now: Instant, left_bytes: u64, errors: &[(IpAddr, i32)]) {
        let began = *self.began.get_or_insert(now);
        if left_bytes > self.left.0 {
            self.left = (left_bytes, now);
        }
        let sent_at = self.left.1;
        for (address, error) in errors {
            let is_unreachable = match *error {
                libc::ECONNREFUSED => false,
                libc::EHOSTUNREACH | libc::ENETUNREACH | libc::EACCES => true,
                _ => continue,
            };
            for (_, signs) in self.receivers.iter_mut().filter(|(known, _)| known == address) {
                // The kernel has looked for the host until now.
                signs.has_listened &= !is_unreachable || signs.last.is_some();
                (signs.last, signs.asked, signs.is_unreachable) = (Some(now), None, is_unreachable);
            }
        }
        for (_, signs) in &mut self.receivers {
            let since = signs.last.map_or(began, |last| last + LIMITED);
            if signs.asked.is_none() && sent_at >= since {
                signs.asked = Some(sent_at);
            }
            signs.has_listened |= signs.is_quiet(now) && !signs.is_unreachable;
        }
        let is_gone = |(_, signs): &(IpAddr, Signs)| signs.is_gone(now);
        let has_listened = self.receivers.iter().any(|(_, signs)| signs.has_listened);
        let are_gone = has_listened && self.receivers.iter().all(is_gone);
        self.all_gone = are_gone.then(|| self.all_gone.unwrap_or(now));
    }

    /// Since when nobody has listened. `None` while somebody may, and before anybody has.
    pub fn all_gone(&self) -> Option<Instant> {
        self.all_gone
    }

    /// What is known of each receiver. `loop_time` is the time that one loop took, if one is complete.
    pub fn told(&self, now: Instant, loop_time: Option<Duration>) -> Vec<NamedReceiver> {
        let is_long = loop_time.is_some_and(|time| time >= LONG_LOOP);
        let presence = |signs: &Signs| match signs {
            signs if !signs.is_gone(now) => Presence::Silent,
            Signs { is_unreachable: true, .. } => Presence::Unreachable,
            Signs { has_listened: true, .. } => Presence::Ended,
            _ if is_long => Presence::Absent,
            _ => Presence::Closed,
        };
        let told = |(address, signs): &(IpAddr, Signs)| NamedReceiver {
            address: *address,
            presence: presence(signs),
        };
        self.receivers.iter().map(told).collect()
    }
}

impl Signs {
    /// Whether a packet left that an absent program would have been told of by now.
    fn is_quiet(&self, now: Instant) -> bool {
        self.asked.is_some_and(|asked| now >= asked + ANSWERED)
    }

    /// Whether the last error still holds.
    fn is_gone(&self, now: Instant) -> bool {
        match self.last {
            Some(last) if self.is_unreachable => now <= last + HOLDS,
            Some(_) => !self.is_quiet(now),
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REFUSED: i32 = libc::ECONNREFUSED;
    const NO_HOST: i32 = libc::EHOSTUNREACH;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    fn host(number: u8) -> IpAddr {
        [10, 0, 0, number].into()
    }

    fn presences(named: &Named, millis: u64, loop_millis: u64) -> Vec<Presence> {
        let told = named.told(at(millis), Some(Duration::from_millis(loop_millis)));
        told.into_iter().map(|receiver| receiver.presence).collect()
    }

    #[test]
    fn errors_say_who_is_gone_and_silence_says_who_has_listened() {
        let mut named = Named::new(&[host(1), host(2), host(3), host(4)]);
        for millis in (0..10_000).step_by(500) {
            let mut errors = Vec::new();
            if millis % 1_000 == 0 {
                errors.push((host(2), REFUSED));
                // It listens from second 2 to 6.
                errors.extend(Some((host(1), REFUSED)).filter(|_| !(2_000..6_000).contains(&millis)));
            }
            errors.extend(Some((host(3), NO_HOST)).filter(|_| millis % 3_000 == 2_500));
            named.note(at(millis), 1 + millis, &errors);
        }
        use Presence::{Absent, Closed, Ended, Silent, Unreachable};
        assert_eq!(presences(&named, 9_600, 3_000), [Ended, Absent, Unreachable, Silent]);
        let short = presences(&named, 9_600, 500);
        assert_eq!(short[1], Closed, "a loop is shorter than what can be noticed");
        assert_eq!(named.all_gone(), None, "the fourth may listen");
    }

    #[test]
    fn all_are_gone_when_somebody_has_listened_and_nobody_does() {
        let mut named = Named::new(&[host(1), host(2)]);
        for millis in [0, 1_000, 2_000] {
            named.note(at(millis), 1 + millis, &[(host(1), REFUSED), (host(2), REFUSED)]);
        }
        assert_eq!(named.all_gone(), None, "they may still begin");
        for millis in [3_500, 4_500] {
            named.note(at(millis), 1 + millis, &[(host(1), REFUSED)]);
        }
        assert_eq!(named.all_gone(), None, "the second listens");
        for millis in [5_000, 6_000] {
            named.note(at(millis), 1 + millis, &[(host(1), REFUSED), (host(2), REFUSED)]);
        }
        assert_eq!(named.all_gone(), Some(at(5_000)));
        for millis in [7_200, 8_300] {
            named.note(at(millis), 1 + millis, &[(host(1), REFUSED)]);
        }
        assert_eq!(named.all_gone(), None, "it has come back");
    }

    #[test]
    fn who_is_sent_nothing_cannot_be_heard_to_listen() {
        let mut named = Named::new(&[host(1)]);
        named.note(at(0), 1, &[(host(1), REFUSED)]);
        named.note(at(3_000), 1, &[]);
        named.note(at(3_100), 2, &[(host(1), REFUSED)]);
        assert_eq!(presences(&named, 3_200, 3_000), [Presence::Absent]);
    }

    #[test]
    fn a_host_that_is_not_there_has_never_listened() {
        let mut named = Named::new(&[host(1)]);
        for millis in [0, 1_500, 2_900] {
            named.note(at(millis), 1 + millis, &[]);
        }
        for millis in [3_000, 6_000] {
            named.note(at(millis), 1 + millis, &[(host(1), NO_HOST)]);
        }
        named.note(at(7_000), 7_000, &[(host(1), REFUSED)]);
        assert_eq!(presences(&named, 9_000, 4_000), [Presence::Absent]);
    }
}
