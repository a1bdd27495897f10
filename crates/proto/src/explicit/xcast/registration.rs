//! Xcast+ (RFC 5058): the routers that have registered for a channel, at its sender or at the router on the
//! sender's link, and what a designated router says to register.
//!
//! A designated router registers for each channel (S, G) that hosts on its links have joined by MLDv2, at S:
//! three times in the first seconds, because a datagram may be lost, and then again and again; and says twice
//! when nobody is left. A sender or router that hears it sends it Xcast packets with the group as channel
//! identifier until [`HOLDING`] has passed without another.
//!
//! With a key of the domain, only registrations that were made with it count, and of a router's only newer ones than the last, so
//! that nothing that was recorded counts again as long as the router is remembered.
//!
//! No flood pushes out a router that is registered: what is forged or played again uses up nothing, and a
//! router that renews needs no place. Looking at a code costs less than taking the datagram from the kernel,
//! so all codes are looked at.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::Ipv6Addr,
    time::Duration,
};

use treecast_wire::xcast::Registration;

use crate::{Instant, explicit::authentication::DomainKey};

/// A multicast channel: its source and its group.
pub type Channel = (Ipv6Addr, Ipv6Addr);

/// The time for which a router's registration with a sender's router holds, unless the router repeats it.
pub const HOLDING: Duration = Duration::from_secs(35);

/// A registration is said again so often: two in a row may be lost.
const REFRESH: Duration = Duration::from_secs(10);

/// Between the first ones, and between the last ones.
const REPEAT: Duration = Duration::from_secs(1);

/// The number of times that each change is said.
const TIMES: u8 = 3;

/// Between two registrations of a router, whatever they are about: a hundred in a second.
const SPACING: Duration = Duration::from_millis(10);

/// The most channels that one router registers for.
pub const MAX_CHANNELS: usize = 1024;

/// Registrations that are remembered, and in a second those that are not renewals.
const MAX_REGISTERED: usize = 4096;
const MAX_A_SECOND: u32 = 2000;

/// The time for which a registration is remembered after its end, so that one that is played again does not
/// count.
const MEMORY: Duration = Duration::from_secs(600);

/// The reason why a registration does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// The registration is not made with the domain's key.
    Forged,
    /// The router has already sent a newer registration, so this one may be a recording.
    Replayed,
    /// There are too many registrations already.
    TooMany,
}

/// The routers that have registered for channels.
#[derive(Debug)]
pub struct Registered {
    key: Option<DomainKey>,
    routers: BTreeMap<(Channel, Ipv6Addr), Entry>,
    /// The time when the second began in which so many routers have been new.
    second: Instant,
    new: u32,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    /// The time until which the registration holds. It is remembered for longer.
    until: Instant,
    sequence: u64,
}

impl Registered {
    /// Creates an empty table. With a key, only registrations that were made with it count.
    pub fn new(key: Option<DomainKey>) -> Self {
        Self { key, routers: BTreeMap::new(), second: Instant::ZERO, new: 0 }
    }

    /// Takes in a registration. Returns whether this changes the set of routers for its channel.
    ///
    /// # Errors
    /// When the registration does not count.
    pub fn hear(&mut self, now: Instant, registration: &Registration) -> Result<bool, Refused> {
        if self.key.as_ref().is_some_and(|key| !key.opens(registration)) {
            return Err(Refused::Forged);
        }
        let Registration { holding_seconds, sequence, source, group, router, .. } = *registration;
        let place = ((source, group), router);
        let known = self.routers.get(&place);
        if self.key.is_some() && known.is_some_and(|known| sequence <= known.sequence) {
            return Err(Refused::Replayed);
        }
        let was_there = known.is_some_and(|known| now < known.until);
        let is_known = known.is_some();
        if !was_there && !(self.is_in_budget(now) && (is_known || self.has_place(now))) {
            return Err(Refused::TooMany);
        }
        let holding = Duration::from_secs(holding_seconds.into()).min(HOLDING);
        self.routers.insert(place, Entry { until: now + holding, sequence });
        Ok(was_there == holding.is_zero())
    }

    /// Whether one more may be new in this second.
    fn is_in_budget(&mut self, now: Instant) -> bool {
        if now - self.second >= Duration::from_secs(1) {
            (self.second, self.new) = (now, 0);
        }
        self.new += 1;
        self.new <= MAX_A_SECOND
    }

    /// Whether one more can be remembered, if need be in place of those that have ended.
    fn has_place(&mut self, now: Instant) -> bool {
        if self.routers.len() >= MAX_REGISTERED {
            self.routers.retain(|_, entry| now < entry.until);
        }
        self.routers.len() < MAX_REGISTERED
    }

    /// The routers that have registered for a channel.
    pub fn routers(&self, now: Instant, channel: Channel) -> Vec<Ipv6Addr> {
        let of_channel = (channel, Ipv6Addr::UNSPECIFIED)..=(channel, Ipv6Addr::from(u128::MAX));
        let there = self.routers.range(of_channel).filter(|(_, entry)| now < entry.until);
        there.map(|((_, router), _)| *router).collect()
    }

    /// The channels for which routers have registered.
    pub fn channels(&self, now: Instant) -> BTreeSet<Channel> {
        let there = self.routers.iter().filter(|(_, entry)| now < entry.until);
        there.map(|((channel, _), _)| *channel).collect()
    }

    /// Returns when the next registration ends.
    pub fn deadline(&self, now: Instant) -> Option<Instant> {
        self.routers.values().map(|entry| entry.until).filter(|until| now < *until).min()
    }

    /// Forgets registrations that ended long ago.
    pub fn expire(&mut self, now: Instant) {
        self.routers.retain(|_, entry| now < entry.until + MEMORY);
    }
}

/// The registrations that a designated router sends. Call [`Self::attend`] when the set of channels with
/// listeners changes, then [`Self::poll`] until it returns none, and again when [`Self::deadline`] has come.
#[derive(Debug, Default)]
pub struct Registrar {
    channels: BTreeMap<Channel, Saying>,
    /// The time before which no other registration is sent.
    next: Instant,
}

#[derive(Debug, Clone, Copy)]
struct Saying {
    is_listened_to: bool,
    /// The number of times that the change is still to be said soon.
    left: u8,
    due: Instant,
}

impl Registrar {
    /// Tells which channels have listeners on the router's links now. At most 1,024 of them are registered for.
    pub fn attend(&mut self, now: Instant, channels: &BTreeSet<Channel>) {
        let changed = |is_listened_to| Saying { is_listened_to, left: TIMES, due: now };
        for (channel, saying) in &mut self.channels {
            if saying.is_listened_to != channels.contains(channel) {
                *saying = changed(!saying.is_listened_to);
            }
        }
        for channel in channels {
            if self.channels.len() < MAX_CHANNELS {
                self.channels.entry(*channel).or_insert(changed(true));
            }
        }
    }

    /// Returns the next channel to register for at its source, and for how long.
    pub fn poll(&mut self, now: Instant) -> Option<(Channel, Duration)> {
        if now < self.next {
            return None;
        }
        let is_due = |(_, saying): &(&Channel, &mut Saying)| saying.due <= now;
        let (channel, saying) =
            self.channels.iter_mut().filter(is_due).min_by_key(|(_, saying)| saying.due)?;
        let channel = *channel;
        saying.left = saying.left.saturating_sub(1);
        saying.due = now + if saying.left > 0 { REPEAT } else { REFRESH };
        let (is_listened_to, is_said) = (saying.is_listened_to, saying.left == 0);
        if !is_listened_to && is_said {
            self.channels.remove(&channel);
        }
        self.next = now + SPACING;
        Some((channel, if is_listened_to { HOLDING } else { Duration::ZERO }))
    }

    /// Returns when [`Self::poll`] has something to do even if nothing changes.
    pub fn deadline(&self) -> Option<Instant> {
        self.channels.values().map(|saying| saying.due).min().map(|due| due.max(self.next))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::at;

    const fn address(number: u16) -> Ipv6Addr {
        Ipv6Addr::new(0xfd14, 0, 0, 0, 0, 0, 0, number)
    }

    const GROUP: Ipv6Addr = Ipv6Addr::new(0xff35, 0, 0, 0, 0, 0, 0, 1);
    const CHANNEL: Channel = (address(1), GROUP);

    fn registration(router: u16, sequence: u64, holding: Duration) -> Registration {
        let holding_seconds = holding.as_secs() as u16;
        let (source, group) = CHANNEL;
        Registration { holding_seconds, sequence, source, group, router: address(router), code: [0; 16] }
    }

    #[test]
    fn routers_are_there_while_they_say_so() {
        let mut registered = Registered::new(None);
        let mut hear =
            |millis, router, holding| registered.hear(at(millis), &registration(router, 1, holding));
        assert_eq!(hear(0, 2, HOLDING), Ok(true));
        assert_eq!(hear(5_000, 3, HOLDING), Ok(true));
        assert_eq!(hear(10_000, 2, Duration::from_secs(60_000)), Ok(false), "nothing is new");
        assert_eq!(hear(11_000, 9, Duration::ZERO), Ok(false), "it was not there");
        assert_eq!(registered.routers(at(39_999), CHANNEL), [address(2), address(3)]);
        assert_eq!(registered.deadline(at(20_000)), Some(at(40_000)));
        assert_eq!(registered.routers(at(40_000), CHANNEL), [address(2)]);
        assert!(registered.routers(at(45_000), CHANNEL).is_empty(), "nobody is held for longer than that");
        assert_eq!(registered.hear(at(50_000), &registration(2, 1, HOLDING)), Ok(true));
        assert_eq!(registered.channels(at(50_000)), [CHANNEL].into());
        assert_eq!(registered.hear(at(51_000), &registration(2, 1, Duration::ZERO)), Ok(true));
        assert!(registered.routers(at(51_000), CHANNEL).is_empty());
        registered.expire(at(1_000_000));
        assert!(registered.routers.is_empty());
    }

    #[test]
    fn with_a_key_what_is_forged_or_played_again_counts_for_nothing() {
        let key = DomainKey::new(&[7; 32]);
        let mut registered = Registered::new(Some(key.clone()));
        let joined = key.seal(registration(2, 5, HOLDING));
        let left = key.seal(registration(2, 6, Duration::ZERO));
        assert_eq!(registered.hear(at(0), &registration(2, 5, HOLDING)), Err(Refused::Forged));
        let other = DomainKey::new(&[8; 32]).seal(registration(2, 5, HOLDING));
        assert_eq!(registered.hear(at(0), &other), Err(Refused::Forged));
        let changed = Registration { router: address(3), ..joined };
        assert_eq!(registered.hear(at(0), &changed), Err(Refused::Forged));
        assert_eq!(registered.hear(at(0), &joined), Ok(true));
        assert_eq!(registered.hear(at(1), &joined), Err(Refused::Replayed));
        assert_eq!(registered.hear(at(2), &left), Ok(true));
        assert_eq!(registered.hear(at(3), &joined), Err(Refused::Replayed));
        registered.expire(at(60_000));
        assert_eq!(registered.hear(at(60_000), &joined), Err(Refused::Replayed), "it is remembered");
        assert!(registered.routers(at(60_000), CHANNEL).is_empty());
    }

    #[test]
    fn a_flood_is_bounded() {
        let mut registered = Registered::new(None);
        let mut refused = 0;
        for number in 0..10_000_u64 {
            let now = at(number / 5);
            let registration = registration(number as u16, number, HOLDING);
            refused += usize::from(registered.hear(now, &registration) == Err(Refused::TooMany));
        }
        assert!(registered.routers.len() <= MAX_REGISTERED && refused >= 5904, "{refused}");
    }

    /// An honest router registers each 10 s for a minute, each time behind 3000 others of the same second, which are all of
    /// `flood`. Returns whether it was there all the time, once it was registered.
    fn stays_through(
        registered: &mut Registered,
        honest: impl Fn(u64) -> Registration,
        flood: impl Fn(u64) -> Registration,
    ) -> bool {
        let mut stays = true;
        for second in 0..60 {
            // Before any flood the first one is heard.
            let others = if second == 0 { 0 } else { 3000 };
            for number in 0..others {
                let _ = registered.hear(at(second * 1000), &flood(second * 3000 + number));
            }
            if second % 10 == 0 {
                let _ = registered.hear(at(second * 1000 + 500), &honest(second + 1));
            }
            stays &= registered.routers(at(second * 1000 + 999), CHANNEL).contains(&address(2));
        }
        stays
    }

    #[test]
    fn a_flood_of_forged_ones_pushes_no_router_out() {
        let key = DomainKey::new(&[7; 32]);
        let honest = |sequence| key.seal(registration(2, sequence, HOLDING));
        let mut registered = Registered::new(Some(key.clone()));
        let forged = |number| registration(3 + number as u16 % 1000, number, HOLDING);
        assert!(stays_through(&mut registered, honest, forged), "forged in the name of others");
        let mut registered = Registered::new(Some(key.clone()));
        let forged = |number| registration(2, u64::MAX - number, Duration::ZERO);
        assert!(stays_through(&mut registered, honest, forged), "forged in its own name");
        let mut registered = Registered::new(Some(key.clone()));
        assert!(stays_through(&mut registered, honest, |_| honest(1)), "played again");
        assert_eq!(registered.routers(at(60_000), CHANNEL), [address(2)]);

        let mut registered = Registered::new(Some(key.clone()));
        for number in 0..10_000 {
            let heard = registered.hear(at(0), &forged(number));
            assert_eq!(heard, Err(Refused::Forged), "and counted as that, however many");
        }
        assert_eq!(registered.hear(at(0), &honest(1)), Ok(true), "a new one is heard behind them");
    }

    #[test]
    fn without_a_key_a_flood_of_new_ones_pushes_out_nobody_who_renews() {
        let mut registered = Registered::new(None);
        let honest = |sequence| registration(2, sequence, HOLDING);
        let new = |number| registration(3 + (number % 60_000) as u16, number, HOLDING);
        assert!(stays_through(&mut registered, honest, new));
        assert_eq!(registered.routers.len(), MAX_REGISTERED, "it was a flood");
    }

    /// All that a registrar says, and when, in milliseconds.
    fn said(registrar: &mut Registrar, from: u64, until: u64) -> Vec<(u64, Ipv6Addr, bool)> {
        let mut all = Vec::new();
        let mut now = from;
        while now <= until {
            while let Some(((source, _), holding)) = registrar.poll(at(now)) {
                all.push((now, source, !holding.is_zero()));
            }
            let Some(deadline) = registrar.deadline() else { break };
            now = ((deadline - Instant::ZERO).as_millis() as u64).max(now + 1);
        }
        all
    }

    #[test]
    fn a_change_is_said_three_times_and_a_channel_again_and_again() {
        let mut registrar = Registrar::default();
        registrar.attend(at(0), &[CHANNEL].into());
        let times = |said: &[(u64, Ipv6Addr, bool)]| said.iter().map(|(at, ..)| *at).collect::<Vec<_>>();
        let joined = said(&mut registrar, 0, 25_000);
        assert_eq!(times(&joined), [0, 1_000, 2_000, 12_000, 22_000]);
        assert!(joined.iter().all(|(.., is_there)| *is_there));
        registrar.attend(at(25_000), &[CHANNEL].into());
        assert!(said(&mut registrar, 25_000, 26_000).is_empty(), "nothing has changed");
        registrar.attend(at(26_000), &BTreeSet::new());
        let left = said(&mut registrar, 26_000, 90_000);
        assert_eq!((times(&left), left[0].2), (vec![26_000, 27_000, 28_000], false));
        assert_eq!(registrar.deadline(), None);
    }

    #[test]
    fn many_channels_are_registered_for_one_after_another() {
        let mut registrar = Registrar::default();
        let channels = (0..2000).map(|number| (address(number), GROUP)).collect();
        registrar.attend(at(0), &channels);
        assert_eq!(registrar.channels.len(), MAX_CHANNELS);
        let all = said(&mut registrar, 0, 2_000);
        assert!(all.len() <= 201, "{}", all.len());
        let everybody = said(&mut registrar, 2_000, 40_000);
        let sources: BTreeSet<_> = all.iter().chain(&everybody).map(|(_, source, _)| *source).collect();
        assert_eq!(sources.len(), MAX_CHANNELS, "nobody is forgotten");
    }
}
