//! The distance by which the sender runs ahead of what the slowest has ("the transfer rate and the sending
//! window are adapted according to the slowest receiver", lgmp-mbone-1999, 2), and the time for which one of
//! them may hold it up.

use std::{collections::BTreeMap, time::Duration};

use treecast_wire::message::{GroupId, Member};

use crate::Instant;

/// The time for which one client may hold up the sender. A client that needs longer is congested, and has the rate
/// cut.
const GRACE: Duration = Duration::from_secs(4);

/// The divisor of the speed at which spent time comes back. A client that claims for ever that it lacks everything
/// takes this fraction of the time.
const PARTS: u32 = 20;

/// A holder of objects: a group, whichever member its controller is, or a receiver without a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Holder {
    Group(GroupId),
    Receiver(Member),
}

impl Holder {
    pub fn new(group: GroupId, member: Member) -> Self {
        if group == GroupId::SESSION { Self::Receiver(member) } else { Self::Group(group) }
    }
}

/// The most holders that are remembered, which is more than a session has receivers where the sender alone mends.
/// Anybody can join with the numbers of ever new groups.
const MAX_HOLDERS: usize = 1 << 17;

/// The bytes that a holder has, and the time for which it has held up the sender.
#[derive(Debug, Clone, Copy)]
struct Held {
    /// The bytes of all objects, without a gap, that the holder has or can obtain. The number never falls.
    bytes: u64,
    spent: Duration,
    /// The time at which `spent` was last counted.
    since: Instant,
}

#[derive(Debug)]
pub(super) struct Window {
    bytes: u64,
    held: BTreeMap<Holder, Held>,
    /// The bytes that the slowest holder had when that was last counted. It may have more by now.
    slowest: u64,
    /// The time at which the window was last found full. `None` if it was found open since.
    full: Option<Instant>,
}

impl Window {
    pub fn new(bytes: u64) -> Self {
        Self { bytes, held: BTreeMap::new(), slowest: 0, full: None }
    }

    /// Adds a holder that has everything up to `sent`. So one that comes late holds up nobody.
    pub fn admit(&mut self, now: Instant, holder: Holder, sent: u64) {
        self.entry(now, holder, sent);
    }

    /// Notes the bytes that a holder has reported.
    pub fn holds(&mut self, now: Instant, holder: Holder, bytes: u64) {
        if let Some(held) = self.entry(now, holder, bytes) {
            held.bytes = held.bytes.max(bytes);
        }
    }

    /// The entry of a holder, which has `bytes` if it is new. `None` where there is no room: nobody waits for it then.
    fn entry(&mut self, now: Instant, holder: Holder, bytes: u64) -> Option<&mut Held> {
        let has_room = self.held.len() < MAX_HOLDERS || self.held.contains_key(&holder);
        has_room.then(|| self.held.entry(holder).or_insert(Held { bytes, spent: Duration::ZERO, since: now }))
    }

    /// Whether the sender, which is at `sent`, may go as far as `end`, as far as `holders` are concerned.
    pub fn allows(
        &mut self,
        now: Instant,
        (sent, end): (u64, u64),
        holders: impl Iterator<Item = Holder>,
    ) -> bool {
        let fits = |bytes: u64| end <= bytes.saturating_add(self.bytes);
        if !fits(self.slowest) {
            let waited = self.full.map_or(Duration::ZERO, |since| now - since);
            self.slowest = sent;
            for holder in holders {
                let Some(held) = self.held.get_mut(&holder) else { continue };
                if !fits(held.bytes) {
                    held.spent = held.spent.saturating_sub((now - held.since) / PARTS) + waited;
                    held.since = now;
                }
                if held.spent < GRACE {
                    self.slowest = self.slowest.min(held.bytes);
                }
            }
        }
        let is_open = end <= self.slowest.saturating_add(self.bytes);
        self.full = (!is_open).then_some(now);
        is_open
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Holder; 2] = [Holder::Group(GroupId(1)), Holder::Group(GroupId(2))];

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    #[test]
    fn ever_new_groups_take_no_more_memory() {
        let mut window = Window::new(100);
        (0..MAX_HOLDERS as u32 + 5).for_each(|group| window.admit(at(0), Holder::Group(GroupId(group)), 0));
        window.holds(at(1), Holder::Group(GroupId(u32::MAX)), 7);
        assert_eq!(window.held.len(), MAX_HOLDERS);
    }

    #[test]
    fn the_slowest_holds_up_the_sender() {
        let mut window = Window::new(100);
        ALL.into_iter().for_each(|holder| window.admit(at(0), holder, 0));
        assert!(window.allows(at(0), (0, 100), ALL.into_iter()));
        window.holds(at(1), ALL[0], 90);
        assert!(!window.allows(at(1), (100, 101), ALL.into_iter()));
        window.holds(at(2), ALL[1], 50);
        assert!(window.allows(at(2), (100, 150), ALL.into_iter()));
        window.holds(at(3), ALL[1], 20);
        assert!(!window.allows(at(3), (150, 151), ALL.into_iter()), "nothing goes back");
        assert!(window.allows(at(3), (150, 190), ALL[..1].iter().copied()), "nobody waits for the other one");
    }

    #[test]
    fn who_never_has_anything_holds_up_the_sender_for_a_twentieth_of_the_time() {
        let mut window = Window::new(100);
        ALL.into_iter().for_each(|holder| window.admit(at(0), holder, 0));
        let (mut position, mut open) = (100, 0);
        for tick in 0..10_000 {
            window.holds(at(tick * 10), ALL[0], position);
            if window.allows(at(tick * 10), (position, position + 1), ALL.into_iter()) {
                (position, open) = (position + 1, open + 1);
            }
        }
        assert!((9_000..=9_200).contains(&open), "{open}");
    }
}
