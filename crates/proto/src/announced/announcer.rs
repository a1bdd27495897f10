//! The times at which a sender announces its session: on its link by mDNS, and beyond it by SAP.

use std::{collections::BTreeMap, net::IpAddr, time::Duration};

use crate::{Instant, random::SplitMix64};

/// The times of the first announcements on the link, since the beginning. Later ones follow every [`LINK_INTERVAL`].
const FIRST_ON_LINK: [Duration; 3] = [Duration::ZERO, Duration::from_secs(1), Duration::from_secs(3)];

/// The time between announcements on the link that nobody has asked for.
const LINK_INTERVAL: Duration = Duration::from_secs(60);

/// The shortest time between two answers on the link (RFC 6762, section 6: a record is sent once a second at most).
const ANSWER_INTERVAL: Duration = Duration::from_secs(1);

/// The time between the first two announcements by SAP. A router may lose the first packet to a group, and RFC 2974 would have listeners
/// wait for five minutes then.
const SAP_AGAIN: Duration = Duration::from_secs(2);

/// The shortest time between announcements by SAP (RFC 2974, section 3.1).
const SAP_INTERVAL: Duration = Duration::from_secs(300);

/// The longest time between them. With a third more, it is a third of [`SAP_VALID_SECONDS`], so a listener keeps the session however
/// many other announcers somebody makes up.
const MAX_SAP_INTERVAL: Duration = Duration::from_secs(SAP_VALID_SECONDS as u64 / 4);

/// The time for which an announcement by SAP is valid, in seconds. Three of them may be lost at the shortest
/// interval (RFC 2974, section 4).
pub const SAP_VALID_SECONDS: u32 = 1600;

/// The bandwidth of all SAP announcements in a scope together, in bits a second (RFC 2974, section 3.1).
const SAP_BPS: u64 = 4000;

/// The number of other announcers that are counted. More make the interval no longer.
const MAX_OTHERS: usize = 4096;

/// The time after which an announcer that is not heard any more does not count.
const OTHERS_FOR: Duration = Duration::from_secs(3600);

/// The way an announcement goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carrier {
    /// mDNS, to the interface's link.
    Link,
    /// SAP, as far as the scope of its group goes.
    Sap,
}

/// The times at which one session is announced.
#[derive(Debug)]
pub struct Announcer {
    next_on_link: Instant,
    announced_on_link: usize,
    answered: Option<Instant>,
    next_by_sap: Instant,
    announced_by_sap: u64,
    /// Other announcers by SAP, and when they were heard last. The hash and the origin tell one from another.
    others: BTreeMap<(u16, IpAddr), Instant>,
    random: SplitMix64,
}

impl Announcer {
    /// Creates the times of a session that is announced from `now` on.
    pub fn new(now: Instant, seed: u64) -> Self {
        Self {
            next_on_link: now,
            announced_on_link: 0,
            answered: None,
            next_by_sap: now,
            announced_by_sap: 0,
            others: BTreeMap::new(),
            random: SplitMix64(seed),
        }
    }

    /// Somebody on the link has asked for sessions. The answer comes after up to 120 ms (RFC 6762, section 6).
    pub fn asked(&mut self, now: Instant) {
        let soon = now + Duration::from_millis(20 + self.random.below(100));
        let allowed = self.answered.map_or(soon, |answered| soon.max(answered + ANSWER_INTERVAL));
        self.next_on_link = self.next_on_link.min(allowed);
    }

    /// Another announcer was heard by SAP.
    pub fn heard_other(&mut self, now: Instant, hash: u16, origin: IpAddr) {
        if self.others.len() >= MAX_OTHERS {
            self.others.retain(|_, heard| now - *heard < OTHERS_FOR);
        }
        if self.others.len() < MAX_OTHERS {
            self.others.insert((hash, origin), now);
        }
    }

    /// The way by which an announcement of `len` bytes is to leave now, if one is due.
    pub fn due(&mut self, now: Instant, len: usize) -> Option<Carrier> {
        if self.next_on_link <= now {
            self.announced_on_link += 1;
            self.answered = Some(now);
            let until_next = match FIRST_ON_LINK.get(self.announced_on_link) {
                Some(next) => *next - FIRST_ON_LINK[self.announced_on_link - 1],
                None => LINK_INTERVAL,
            };
            self.next_on_link = now + until_next;
            return Some(Carrier::Link);
        }
        if self.next_by_sap <= now {
            self.announced_by_sap += 1;
            self.next_by_sap = now
                + match self.announced_by_sap {
                    1 => SAP_AGAIN,
                    _ => self.sap_interval(now, len),
                };
            return Some(Carrier::Sap);
        }
        None
    }

    /// The time when the next announcement is due, if nobody asks before.
    pub fn deadline(&self) -> Instant {
        self.next_on_link.min(self.next_by_sap)
    }

    /// RFC 2974, section 3.1: the announcements of all share a bandwidth, and each comes up to a third earlier or later.
    fn sap_interval(&mut self, now: Instant, len: usize) -> Duration {
        self.others.retain(|_, heard| now - *heard < OTHERS_FOR);
        let ads = 1 + self.others.len() as u64;
        let share = Duration::from_secs(8 * ads * len as u64 / SAP_BPS);
        share.clamp(SAP_INTERVAL, MAX_SAP_INTERVAL).mul_f64(2.0 / 3.0 + self.random.unit() * 2.0 / 3.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::at;

    /// The times, in milliseconds, at which announcements leave by a carrier.
    fn times(announcer: &mut Announcer, from: u64, until: u64, carrier: Carrier) -> Vec<u64> {
        let mut times = Vec::new();
        for millis in from..until {
            while let Some(due) = announcer.due(at(millis), 500) {
                times.extend((due == carrier).then_some(millis));
            }
            assert!(announcer.deadline() > at(millis));
        }
        times
    }

    #[test]
    fn a_session_is_announced_at_once_and_then_now_and_then() {
        let mut announcer = Announcer::new(at(0), 1);
        assert_eq!(times(&mut announcer, 0, 130_000, Carrier::Link), [0, 1000, 3000, 63_000, 123_000]);
        let by_sap = times(&mut Announcer::new(at(0), 1), 0, 500_000, Carrier::Sap);
        assert!(by_sap.len() == 3 && by_sap[..2] == [0, 2000], "{by_sap:?}");
        assert!((202_000..402_000).contains(&by_sap[2]), "{by_sap:?}");
    }

    #[test]
    fn who_asks_is_answered_soon_and_nobody_more_than_once_a_second() {
        let mut announcer = Announcer::new(at(0), 1);
        times(&mut announcer, 0, 10_000, Carrier::Link);
        let mut answers = Vec::new();
        for millis in 10_000..20_000 {
            // As fast as somebody can ask.
            announcer.asked(at(millis));
            answers.extend(announcer.due(at(millis), 500).map(|_| millis));
        }
        assert!(answers[0] < 10_120 && (9..=10).contains(&answers.len()), "{answers:?}");
    }

    #[test]
    fn announcements_by_sap_share_a_bandwidth_and_a_flood_of_them_makes_nothing_grow() {
        let mut announcer = Announcer::new(at(0), 1);
        for number in 0..100_000_u32 {
            announcer.heard_other(at(1), number as u16, IpAddr::from((u128::from(number)).to_be_bytes()));
        }
        assert_eq!(announcer.others.len(), MAX_OTHERS);
        // 4,097 announcements of 500 bytes at 4,000 bits a second would leave more than an hour apart.
        for _ in 0..1000 {
            let interval = announcer.sap_interval(at(2), 500).as_secs();
            assert!((266..=u64::from(SAP_VALID_SECONDS) / 3).contains(&interval), "{interval}");
        }
        assert!(announcer.sap_interval(at(4_000_000), 500) <= Duration::from_secs(400), "they are silent");
    }
}
