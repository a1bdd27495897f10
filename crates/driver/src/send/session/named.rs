//! The state of the receivers that are named to a carousel.
//!
//! None of them answers. But a host says when no program has the port that a packet is for (ICMP port unreachable): its
//! receiver has not begun, or has ended. Routers say when there is no host. Linux says so at most once a second for each
//! sender, and errors may be lost. So a receiver is known to have listened only if several packets that left later than
//! that, one after the other, were not answered so.
//!
//! Errors are not signed, and the address that a report comes from is not proved. Whoever forges them can change what is told here.

use std::{collections::BTreeMap, net::IpAddr, time::Duration};

use serde::{Deserialize, Serialize};
use treecast_proto::Instant;

/// A receiver that was named to a carousel, as it is known at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedReceiver {
    #[serde(rename = "receiver")]
    pub address: IpAddr,
    pub presence: Presence,
}

/// The presence of a receiver that answers nothing, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Presence {
    /// Nobody has said anything. It may listen, or packets and errors are filtered.
    Silent,
    /// Its program has listened, and has ended, or its host has gone.
    Ended,
    /// Its program is not there at the end. It may have listened for a moment.
    Closed,
    /// Its program was never there: errors came from the first second to the end without a pause.
    Absent,
    /// Its host cannot be reached, and its program was never heard to listen.
    Unreachable,
}

/// The time after an error in which the host may keep the next one to itself.
const LIMITED: Duration = Duration::from_millis(1_100);

/// The longest time from a packet to its error.
const ANSWERED: Duration = Duration::from_secs(1);

/// The time for which a host is unreachable after an error. The kernel looks for an absent neighbour for three seconds
/// before each error.
const HOLDS: Duration = Duration::from_secs(5);

/// The number of unanswered packets, one after the other, that show that a receiver listens. They take at least
/// 5.1 s ([`LIMITED`] and four times [`ANSWERED`]), which is longer than the kernel's search for an absent neighbour. One
/// or two may be unanswered because an error was lost.
const LISTENED: u32 = 4;

/// The shortest loop, as a time, that nobody can receive unnoticed: longer than [`LIMITED`] and [`ANSWERED`] together.
const LONG_LOOP: Duration = Duration::from_secs(3);

/// The receivers that were named to a carousel.
#[derive(Debug, Default)]
pub(super) struct Named {
    receivers: BTreeMap<IpAddr, Signs>,
    /// The time at which the first packet left.
    began: Option<Instant>,
    /// The bytes that have left, and when the last of them did.
    left: (u64, Instant),
    /// The time since which nobody has listened, if somebody has before.
    all_gone: Option<Instant>,
}

#[derive(Debug, Default, Clone, Copy)]
struct Signs {
    /// The time at which the last error came.
    last: Option<Instant>,
    /// The time from which a packet shows whether the program is there. `None` until the first packet has left.
    asks_from: Option<Instant>,
    /// The time at which a packet left that an absent program would be told of.
    asked: Option<Instant>,
    /// The number of such packets that have stayed unanswered since the last error.
    unanswered: u32,
    /// Whether any such packet ever stayed unanswered.
    was_quiet: bool,
    /// The time at which routers, or the kernel, first said that there is no such host. `None` if the host has
    /// answered since.
    no_host: Option<Instant>,
    /// Whether they have said so twice. One error alone may be forged, or of a route that changes.
    is_unreachable: bool,
    /// The time at which the receiver was first known to have listened.
    listened_at: Option<Instant>,
    /// Whether it has said itself that it listens.
    has_reported: bool,
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
        for (address, error) in errors {
            let Some(signs) = self.receivers.get_mut(address) else { continue };
            match *error {
                libc::ECONNREFUSED => signs.refuse(now),
                libc::EHOSTUNREACH | libc::ENETUNREACH | libc::EACCES => signs.miss(now),
                _ => {}
            }
        }
        let sent_at = self.left.1;
        self.receivers.values_mut().for_each(|signs| signs.listen(now, began, sent_at));
        let has_listened = self.receivers.values().any(|signs| signs.listened_at.is_some());
        let are_gone = has_listened && self.receivers.values().all(|signs| signs.is_gone(now));
        self.all_gone = are_gone.then(|| self.all_gone.unwrap_or(now));
    }

    /// A receiver has reported what it lacks, where receivers do that.
    pub fn reported(&mut self, now: Instant, address: IpAddr) {
        if let Some(signs) = self.receivers.get_mut(&address) {
            signs.listened_at.get_or_insert(now);
            (signs.has_reported, signs.was_quiet) = (true, true);
        }
    }

    /// The time since which nobody has listened. `None` while somebody may, and before anybody has.
    pub fn all_gone(&self) -> Option<Instant> {
        self.all_gone
    }

    /// The state of each receiver, by address. `loop_time` is the time that one loop took, if one is complete.
    pub fn told(&self, now: Instant, loop_time: Option<Duration>) -> Vec<NamedReceiver> {
        let is_long = loop_time.is_some_and(|time| time >= LONG_LOOP);
        let presence = |signs: &Signs| match signs {
            signs if !signs.is_gone(now) => Presence::Silent,
            Signs { listened_at: Some(_), .. } => Presence::Ended,
            Signs { is_unreachable: true, .. } => Presence::Unreachable,
            Signs { was_quiet: false, no_host: None, .. } if is_long => Presence::Absent,
            _ => Presence::Closed,
        };
        let told = |(address, signs): (&IpAddr, &Signs)| NamedReceiver {
            address: *address,
            presence: presence(signs),
        };
        self.receivers.iter().map(told).collect()
    }
}

impl Signs {
    /// Notes that the host has said that no program has the port.
    fn refuse(&mut self, now: Instant) {
        self.hear(now, LIMITED);
        (self.no_host, self.is_unreachable) = (None, false);
    }

    /// Notes that a router, or the kernel, has said that there is no such host.
    fn miss(&mut self, now: Instant) {
        let first = self.no_host.filter(|_| self.is_gone(now)).unwrap_or(now);
        self.hear(now, HOLDS);
        self.no_host = Some(first);
        self.is_unreachable |= now >= first + LIMITED;
    }

    /// Notes an error. The next one may stay out for the time `silence` although nothing has changed.
    fn hear(&mut self, now: Instant, silence: Duration) {
        // An error so soon means that others were lost, and not that the program listened.
        self.listened_at = self.listened_at.filter(|at| self.has_reported || now >= *at + LIMITED);
        (self.last, self.asks_from) = (Some(now), Some(now + silence));
        (self.asked, self.unanswered) = (None, 0);
    }

    /// Notes that no further error has come until now. The last packet left at `sent_at`.
    fn listen(&mut self, now: Instant, began: Instant, sent_at: Instant) {
        if self.has_waited(now) {
            self.unanswered = self.unanswered.saturating_add(1);
            (self.asked, self.asks_from, self.was_quiet) = (None, Some(now), true);
        }
        let asks_from = *self.asks_from.get_or_insert(began);
        if self.asked.is_none() && sent_at >= asks_from {
            self.asked = Some(sent_at);
        }
        if self.unanswered >= LISTENED && !self.is_unreachable {
            self.listened_at.get_or_insert(now);
        }
    }

    /// Whether a packet left that an absent program would have been told of by now.
    fn has_waited(&self, now: Instant) -> bool {
        self.asked.is_some_and(|asked| now >= asked + ANSWERED)
    }

    /// Whether the last error still holds.
    fn is_gone(&self, now: Instant) -> bool {
        match self.last {
            Some(last) if self.no_host.is_some() => now <= last + HOLDS,
            Some(_) => self.unanswered == 0 && !self.has_waited(now),
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::{
        Presence::{Absent, Closed, Ended, Silent, Unreachable},
        *,
    };
    use crate::clock::at;

    const REFUSED: i32 = libc::ECONNREFUSED;
    const NO_HOST: i32 = libc::EHOSTUNREACH;

    fn host(number: u8) -> IpAddr {
        [10, 0, 0, number].into()
    }

    fn presences(named: &Named, millis: u64, loop_millis: u64) -> Vec<Presence> {
        let told = named.told(at(millis), Some(Duration::from_millis(loop_millis)));
        told.into_iter().map(|receiver| receiver.presence).collect()
    }

    /// Looks twice a second from `range.start` on. Packets leave all the time, and each look finds `errors`.
    fn look(named: &mut Named, range: Range<u64>, errors: &[(IpAddr, i32)]) {
        range.step_by(500).for_each(|millis| named.note(at(millis), 1 + millis, errors));
    }

    #[test]
    fn errors_say_who_is_gone_and_silence_says_who_has_listened() {
        let mut named = Named::new(&[host(1), host(2), host(3), host(4)]);
        for millis in (0..12_000).step_by(500) {
            let mut errors = Vec::new();
            if millis % 1_000 == 0 {
                errors.push((host(2), REFUSED));
                // It listens from second 2 to 9.
                errors.extend(Some((host(1), REFUSED)).filter(|_| !(2_000..9_000).contains(&millis)));
            }
            errors.extend(Some((host(3), NO_HOST)).filter(|_| millis % 3_000 == 2_500));
            named.note(at(millis), 1 + millis, &errors);
        }
        assert_eq!(presences(&named, 11_600, 3_000), [Ended, Absent, Unreachable, Silent]);
        let short = presences(&named, 11_600, 500);
        assert_eq!(short[1], Closed, "a loop is shorter than what can be noticed");
        assert_eq!(named.all_gone(), None, "the fourth may listen");
    }

    #[test]
    fn all_are_gone_when_somebody_has_listened_and_nobody_does() {
        let mut named = Named::new(&[host(1), host(2)]);
        look(&mut named, 0..2_000, &[(host(1), REFUSED), (host(2), REFUSED)]);
        assert_eq!(named.all_gone(), None, "they may still begin");
        look(&mut named, 2_000..9_000, &[(host(1), REFUSED)]);
        assert_eq!(named.all_gone(), None, "the second listens");
        look(&mut named, 9_000..10_000, &[(host(1), REFUSED), (host(2), REFUSED)]);
        assert_eq!(named.all_gone(), Some(at(9_000)));
        look(&mut named, 10_000..13_000, &[(host(1), REFUSED)]);
        assert_eq!(named.all_gone(), None, "it has come back");
    }

    #[test]
    fn whoever_reports_has_listened_however_soon_it_ends() {
        let mut named = Named::new(&[host(1)]);
        look(&mut named, 0..1_000, &[]);
        named.reported(at(500), host(1));
        named.reported(at(500), host(9));
        look(&mut named, 1_000..3_000, &[(host(1), REFUSED)]);
        assert_eq!(named.all_gone(), Some(at(1_000)));
        assert_eq!(presences(&named, 2_600, 500), [Ended]);
    }

    #[test]
    fn a_gap_of_lost_errors_is_no_listening() {
        // The errors that come at 0.5 s are followed by the next after the gap. The last gap is long enough, but ends at
        // once.
        for gap_end in [3_500, 5_000, 6_500] {
            let mut named = Named::new(&[host(1)]);
            look(&mut named, 0..1_000, &[(host(1), REFUSED)]);
            look(&mut named, 1_000..gap_end, &[]);
            look(&mut named, gap_end..20_000, &[(host(1), REFUSED)]);
            assert_eq!(named.all_gone(), None, "{gap_end}");
            assert_eq!(presences(&named, 19_600, 4_000), [Closed], "{gap_end}");
        }
    }

    #[test]
    fn what_was_listened_long_ago_is_not_taken_back() {
        let mut named = Named::new(&[host(1)]);
        look(&mut named, 0..20_000, &[]);
        for start in [20_000, 23_000, 26_000] {
            look(&mut named, start..start + 500, &[(host(1), REFUSED)]);
            look(&mut named, start + 500..start + 3_000, &[]);
        }
        look(&mut named, 29_000..30_000, &[(host(1), REFUSED)]);
        assert_eq!(presences(&named, 29_600, 4_000), [Ended]);
    }

    #[test]
    fn a_host_that_goes_after_its_receiver_listened_is_gone_and_not_unreachable() {
        let mut named = Named::new(&[host(1)]);
        look(&mut named, 0..1_000, &[(host(1), REFUSED)]);
        look(&mut named, 1_000..60_000, &[]);
        for start in [60_000, 63_000, 66_000] {
            look(&mut named, start..start + 500, &[(host(1), NO_HOST)]);
            look(&mut named, start + 500..start + 3_000, &[]);
        }
        assert_eq!(named.all_gone(), Some(at(60_000)));
        assert_eq!(presences(&named, 68_600, 4_000), [Ended]);
    }

    #[test]
    fn a_host_that_goes_without_a_word_before_is_gone() {
        let mut named = Named::new(&[host(1)]);
        look(&mut named, 0..60_000, &[]);
        look(&mut named, 60_000..62_000, &[(host(1), NO_HOST)]);
        assert_eq!(named.all_gone(), Some(at(60_000)));
        assert_eq!(presences(&named, 62_000, 4_000), [Ended]);
    }

    #[test]
    fn who_was_quiet_at_any_time_is_not_called_absent() {
        let refused = [(host(1), REFUSED)];
        let mut late = Named::new(&[host(1)]);
        look(&mut late, 0..1_500, &[]);
        look(&mut late, 1_500..20_000, &refused);
        assert_eq!(presences(&late, 19_600, 4_000), [Closed], "the first second was quiet");
        let mut resumed = Named::new(&[host(1)]);
        look(&mut resumed, 0..5_000, &refused);
        look(&mut resumed, 5_000..7_500, &[]);
        look(&mut resumed, 7_500..20_000, &refused);
        assert_eq!(presences(&resumed, 19_600, 4_000), [Closed], "it may have taken what it lacked");
    }

    #[test]
    fn one_error_makes_no_host_unreachable() {
        let no_host = [(host(1), NO_HOST); 3];
        let mut named = Named::new(&[host(1)]);
        named.note(at(3_000), 1, &no_host);
        named.note(at(4_000), 2, &no_host);
        assert_eq!(presences(&named, 4_100, 4_000), [Closed], "they are of one moment");
        named.note(at(4_100), 3, &no_host);
        assert_eq!(presences(&named, 4_200, 4_000), [Unreachable]);
        let mut named = Named::new(&[host(1)]);
        for millis in [3_000, 9_000, 15_000] {
            named.note(at(millis), millis, &no_host);
        }
        assert_eq!(presences(&named, 15_100, 4_000), [Closed], "none held until the next");
        assert_eq!(presences(&named, 21_000, 4_000), [Silent]);
    }

    #[test]
    fn one_forged_error_hides_no_listening() {
        let mut named = Named::new(&[host(1)]);
        named.note(at(0), 1, &[(host(1), NO_HOST)]);
        look(&mut named, 500..20_000, &[]);
        look(&mut named, 20_000..21_000, &[(host(1), REFUSED)]);
        assert_eq!(named.all_gone(), Some(at(20_000)));
    }

    #[test]
    fn errors_of_others_and_other_errors_say_nothing() {
        let mut named = Named::new(&[host(1), host(1)]);
        look(&mut named, 0..2_000, &[(host(2), REFUSED), (host(1), libc::EMSGSIZE)]);
        assert_eq!(presences(&named, 2_000, 4_000), [Silent], "an address counts once");
    }

    #[test]
    fn who_is_sent_nothing_cannot_be_heard_to_listen() {
        let mut named = Named::new(&[host(1)]);
        named.note(at(0), 1, &[(host(1), REFUSED)]);
        (1..90).for_each(|tenth| named.note(at(tenth * 100), 1, &[]));
        named.note(at(9_100), 2, &[(host(1), REFUSED)]);
        assert_eq!(presences(&named, 9_200, 3_000), [Absent]);
    }

    #[test]
    fn a_host_that_is_not_there_has_never_listened() {
        let mut named = Named::new(&[host(1)]);
        for start in [0, 3_000, 6_000] {
            look(&mut named, start..start + 3_000, &[]);
            named.note(at(start + 3_000), start + 3_000, &[(host(1), NO_HOST)]);
        }
        named.note(at(10_000), 10_000, &[(host(1), REFUSED)]);
        assert_eq!(named.all_gone(), None);
        assert_eq!(presences(&named, 11_000, 4_000), [Closed]);
    }
}
