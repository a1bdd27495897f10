//! The sessions that were announced, as far as announcements are believed.
//!
//! For each announcement, the caller asks [`Directory::examine`], checks the signature if that says so, and then calls
//! [`Directory::take`]. What is forged, replayed or too old never gets further, and whatever comes, the directory has room for
//! [`MAX_SESSIONS`] sessions and no more.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    time::Duration,
};

use treecast_wire::{
    announcement::{Announcement, MAX_VALID_SECONDS},
    header::SessionId,
    ticket::KEY_LEN,
};

use crate::{
    Instant,
    limiter::{Limiter, Limits, Rate},
};

/// The largest number of sessions that are remembered, those that are over included.
pub const MAX_SESSIONS: usize = 1024;

/// The largest number of sessions of one sender's key.
const MAX_OF_KEY: usize = 64;

/// The largest difference between the clocks of sender and listener, in milliseconds.
const MAX_SKEW_MS: u64 = 300_000;

/// The limits on announcements whose signatures are checked. A check takes about 50 us.
const CHECKS: Limits = Limits {
    in_all: Rate { per_second: 500, at_once: 1000 },
    of_network: Rate { per_second: 400, at_once: 800 },
    of_sender: Rate { per_second: 50, at_once: 200 },
    remembered: 256,
};

/// The identity of a session: the sender's key and the session's number.
pub type SessionKey = ([u8; KEY_LEN], SessionId);

/// Whether the signature of an announcement is worth a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Worth {
    /// The announcement is new. Its signature decides.
    Check,
    /// The same announcement was taken before.
    Known,
}

/// The reason why an announcement is not believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Refusal {
    /// The announcement is not signed by the key that its ticket names.
    Forged,
    /// A later announcement of the session was taken before.
    Replayed,
    /// Its time is over, by the listener's clock.
    Expired,
    /// The announcement was signed in the future, by the listener's clock.
    Early,
    /// Its sender, or all senders together, announce too much.
    TooMany,
}

impl Refusal {
    /// The reason in words, behind "refused".
    pub fn words(self) -> &'static str {
        match self {
            Self::Forged => "not signed by its sender",
            Self::Replayed => "replayed",
            Self::Expired => "expired by this host's clock",
            Self::Early => "from the future by this host's clock",
            Self::TooMany => "too many",
        }
    }
}

/// The change that an announcement makes to the directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// A session is announced for the first time, or again after a withdrawal.
    New,
    /// The session is announced still.
    Renewed,
    /// The session is not announced any more.
    Withdrawn,
    /// There is no room for another session.
    NoRoom,
}

#[derive(Debug)]
struct Known {
    announcement: Announcement,
    from: IpAddr,
}

impl Known {
    fn is_open(&self, unix_ms: u64) -> bool {
        self.announcement.valid_seconds > 0 && unix_ms <= end_ms(&self.announcement)
    }

    /// Whether no earlier announcement of the session can be valid any more, so that it may be forgotten.
    fn is_past(&self, unix_ms: u64) -> bool {
        unix_ms > self.announcement.number.saturating_add(u64::from(MAX_VALID_SECONDS) * 1000 + MAX_SKEW_MS)
    }
}

/// The sessions that were announced to a listener.
#[derive(Debug)]
pub struct Directory {
    trusted: BTreeSet<[u8; KEY_LEN]>,
    sessions: BTreeMap<SessionKey, Known>,
    checks: Limiter,
}

impl Directory {
    /// Creates an empty directory. Sessions of the keys in `trusted` have room whatever others announce.
    pub fn new(trusted: BTreeSet<[u8; KEY_LEN]>) -> Self {
        Self { trusted, sessions: BTreeMap::new(), checks: Limiter::new(CHECKS) }
    }

    /// Whether a key is one of those in `trusted`.
    pub fn trusts(&self, key: &[u8; KEY_LEN]) -> bool {
        self.trusted.contains(key)
    }

    /// Looks at an announcement before its signature is checked. `unix_ms` is the time in milliseconds since 1970.
    ///
    /// # Errors
    /// Why it is not believed, whatever its signature is.
    pub fn examine(
        &mut self,
        now: Instant,
        unix_ms: u64,
        from: IpAddr,
        announcement: &Announcement,
    ) -> Result<Worth, Refusal> {
        if announcement.number > unix_ms.saturating_add(MAX_SKEW_MS) {
            return Err(Refusal::Early);
        }
        if unix_ms > end_ms(announcement).saturating_add(MAX_SKEW_MS) {
            return Err(Refusal::Expired);
        }
        match self.sessions.get(&key(announcement)) {
            Some(known) if announcement.number < known.announcement.number => return Err(Refusal::Replayed),
            Some(known) if *announcement == known.announcement => return Ok(Worth::Known),
            _ => {}
        }
        if self.checks.admits(now, from) { Ok(Worth::Check) } else { Err(Refusal::TooMany) }
    }

    /// Takes an announcement that was worth a check, and whose signature is right.
    pub fn take(&mut self, unix_ms: u64, from: IpAddr, announcement: Announcement) -> Change {
        let key = key(&announcement);
        let was_open = self.sessions.get(&key).map(|known| known.is_open(unix_ms));
        let is_withdrawn = announcement.valid_seconds == 0;
        if was_open.is_none() && !self.make_room(unix_ms, key.0) {
            return Change::NoRoom;
        }
        self.sessions.insert(key, Known { announcement, from });
        match was_open {
            _ if is_withdrawn => Change::Withdrawn,
            Some(true) => Change::Renewed,
            Some(false) | None => Change::New,
        }
    }

    /// The sessions that receivers can join now.
    pub fn open(&self, unix_ms: u64) -> impl Iterator<Item = &Announcement> {
        let open = self.sessions.values().filter(move |known| known.is_open(unix_ms));
        open.map(|known| &known.announcement)
    }

    /// Makes room for one more session of a key. Returns false if there is none.
    fn make_room(&mut self, unix_ms: u64, key: [u8; KEY_LEN]) -> bool {
        let of_key = self.sessions.range((key, SessionId(0))..=(key, SessionId(u32::MAX))).count();
        if self.sessions.len() < MAX_SESSIONS && of_key < MAX_OF_KEY {
            return true;
        }
        self.sessions.retain(|_, known| !known.is_past(unix_ms));
        let of_key = self.sessions.range((key, SessionId(0))..=(key, SessionId(u32::MAX))).count();
        if of_key >= MAX_OF_KEY && !self.evict_closed(unix_ms, key) {
            return false;
        }
        if self.sessions.len() >= MAX_SESSIONS && self.trusted.contains(&key) {
            self.evict();
        }
        self.sessions.len() < MAX_SESSIONS
    }

    /// Forgets the session of a key that was announced longest ago, of those that are not open any more. Returns false if there is none.
    fn evict_closed(&mut self, unix_ms: u64, key: [u8; KEY_LEN]) -> bool {
        let of_key = self.sessions.range((key, SessionId(0))..=(key, SessionId(u32::MAX)));
        let closed = of_key.filter(|(_, known)| !known.is_open(unix_ms));
        let oldest = closed.min_by_key(|(_, known)| known.announcement.number).map(|(session, _)| *session);
        oldest.is_some_and(|oldest| self.sessions.remove(&oldest).is_some())
    }

    /// Forgets a session of an untrusted key, from the address with the most of them.
    fn evict(&mut self) {
        let untrusted = || self.sessions.iter().filter(|((key, _), _)| !self.trusted.contains(key));
        let mut counts = BTreeMap::<IpAddr, usize>::new();
        untrusted().for_each(|(_, known)| *counts.entry(known.from).or_default() += 1);
        let busiest = counts.into_iter().max_by_key(|(_, count)| *count).map(|(from, _)| from);
        let evicted = untrusted().find(|(_, known)| Some(known.from) == busiest).map(|(key, _)| *key);
        evicted.into_iter().for_each(|key| _ = self.sessions.remove(&key));
    }
}

fn key(announcement: &Announcement) -> SessionKey {
    (announcement.key(), announcement.ticket().session)
}

/// The time when an announcement ceases to be valid, in milliseconds since 1970.
fn end_ms(announcement: &Announcement) -> u64 {
    let seconds = match announcement.valid_seconds {
        // A withdrawal is told for as long as what it withdraws could be.
        0 => MAX_VALID_SECONDS,
        seconds => seconds,
    };
    announcement.number.saturating_add(Duration::from_secs(seconds.into()).as_millis() as u64)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use treecast_wire::ticket::{Repair, Security, Ticket};

    use super::*;

    const NOW: u64 = 1_795_000_000_000;

    fn address(host: u64) -> IpAddr {
        Ipv6Addr::from(0xfd00 << 112 | u128::from(host)).into()
    }

    fn announcement(key: u16, session: u32, number: u64) -> Announcement {
        let mut sender_key = [0; KEY_LEN];
        sender_key[..2].copy_from_slice(&key.to_be_bytes());
        let group = "[ff15::1]:5000".parse().unwrap();
        let ticket = Ticket {
            security: Some(Security { sender_key, secret: None }),
            ..Ticket::new(SessionId(session), Repair::Nack, 1000, group)
        };
        let mut announcement = Announcement::new("image", ticket).unwrap();
        (announcement.number, announcement.valid_seconds) = (number, 120);
        announcement
    }

    /// Takes in an announcement that is signed, and returns the change in the directory.
    fn hear(
        directory: &mut Directory,
        unix_ms: u64,
        announcement: Announcement,
    ) -> Result<Option<Change>, Refusal> {
        let (now, from) = (Instant::ZERO + Duration::from_millis(unix_ms), address(1));
        Ok(match directory.examine(now, unix_ms, from, &announcement)? {
            Worth::Known => None,
            Worth::Check => Some(directory.take(unix_ms, from, announcement)),
        })
    }

    #[test]
    fn what_is_replayed_is_refused_for_as_long_as_it_is_valid() {
        let mut directory = Directory::new(BTreeSet::new());
        let first = announcement(1, 7, NOW);
        assert_eq!(hear(&mut directory, NOW, first.clone()), Ok(Some(Change::New)));
        assert_eq!(hear(&mut directory, NOW + 1, first.clone()), Ok(None), "the same again");
        assert_eq!(
            hear(&mut directory, NOW + 60_000, announcement(1, 7, NOW + 60_000)),
            Ok(Some(Change::Renewed))
        );
        assert_eq!(hear(&mut directory, NOW + 60_001, first.clone()), Err(Refusal::Replayed));
        let mut withdrawal = announcement(1, 7, NOW + 70_000);
        withdrawal.valid_seconds = 0;
        assert_eq!(hear(&mut directory, NOW + 70_000, withdrawal), Ok(Some(Change::Withdrawn)));
        assert_eq!(directory.open(NOW + 70_000).count(), 0);
        for later in [71_000, 120_000, 400_000] {
            assert_eq!(hear(&mut directory, NOW + later, first.clone()), Err(Refusal::Replayed), "{later}");
        }
        // Nobody remembers it, and it has expired.
        directory.sessions.clear();
        assert_eq!(hear(&mut directory, NOW + 420_001, first), Err(Refusal::Expired));
        assert_eq!(hear(&mut directory, NOW, announcement(1, 7, NOW + 300_001)), Err(Refusal::Early));
        // A sender that comes again.
        assert_eq!(
            hear(&mut directory, NOW + 500_000, announcement(1, 7, NOW + 500_000)),
            Ok(Some(Change::New))
        );
    }

    #[test]
    fn a_session_that_is_not_announced_any_more_lapses() {
        let mut directory = Directory::new(BTreeSet::new());
        assert_eq!(hear(&mut directory, NOW, announcement(1, 7, NOW)), Ok(Some(Change::New)));
        assert_eq!((directory.open(NOW + 120_000).count(), directory.open(NOW + 120_001).count()), (1, 0));
        assert_eq!(
            hear(&mut directory, NOW + 130_000, announcement(1, 7, NOW + 130_000)),
            Ok(Some(Change::New))
        );
    }

    #[test]
    fn a_flood_makes_nothing_grow_and_leaves_room_for_trusted_senders() {
        let trusted = announcement(0xffff, 1, NOW);
        let mut directory = Directory::new([trusted.key()].into());
        let take = |directory: &mut Directory, announcement| directory.take(NOW, address(7), announcement);
        for number in 0..5_000_u32 {
            take(&mut directory, announcement((number / 32) as u16, number, NOW));
        }
        assert_eq!(directory.sessions.len(), MAX_SESSIONS);
        assert_eq!(take(&mut directory, announcement(0xfffe, 1, NOW)), Change::NoRoom);
        assert_eq!(take(&mut directory, trusted), Change::New);
        for session in 0..1000 {
            take(&mut directory, announcement(0xffff, session, NOW));
        }
        let of_trusted = directory.open(NOW).filter(|open| open.key()[0] == 0xff).count();
        assert_eq!((of_trusted, directory.sessions.len()), (MAX_OF_KEY, MAX_SESSIONS));
        // An hour later there is room again.
        let later = NOW + 2 * 3_600_000;
        assert_eq!(directory.take(later, address(7), announcement(0xfffe, 1, later)), Change::New);
    }

    #[test]
    fn a_key_has_room_for_a_new_session_when_others_of_it_are_over() {
        let mut directory = Directory::new(BTreeSet::new());
        for session in 0..200 {
            let now = NOW + 10_000 * u64::from(session);
            let change = directory.take(now, address(1), announcement(1, session, now));
            assert_eq!(change, Change::New, "{session}");
            if session % 2 == 0 {
                let mut withdrawal = announcement(1, session, now + 1);
                withdrawal.valid_seconds = 0;
                assert_eq!(directory.take(now + 1, address(1), withdrawal), Change::Withdrawn);
            }
        }
        assert_eq!(directory.sessions.len(), MAX_OF_KEY);
    }

    #[test]
    fn signatures_are_checked_only_so_often() {
        let mut directory = Directory::new(BTreeSet::new());
        let mut checked = [0; 2];
        for number in 0..100_000_u64 {
            let from = address(1 + number % 2);
            let worth = directory.examine(Instant::ZERO, NOW, from, &announcement(1, number as u32, NOW));
            checked[(number % 2) as usize] += u32::from(worth == Ok(Worth::Check));
        }
        assert_eq!(checked, [200, 200]);
    }
}
