//! The times at which a group gets a new key: after a receiver that had the old one has left, and long before
//! the old one has sealed too much (DESIGN, "Security").
//!
//! The machine sees neither keys nor randomness: it says when a new key is to be drawn and told to all
//! receivers ([`KeyCommand::Offer`]), and when packets are to be sealed with it ([`KeyCommand::Use`]). It is
//! asked when a packet is about to be sealed, so a group to which nothing more is sent needs no new key,
//! whichever receivers leave.

use core::time::Duration;

use crate::Instant;

/// The time by which receivers are sent a new key before its first use. In this time a connection carries the
/// key past the messages that are queued on it.
pub const LEAD_TIME: Duration = Duration::from_millis(500);

/// The shortest time between two new keys, however many receivers leave. So a receiver that has left can read
/// for at most this time and [`LEAD_TIME`].
pub const RENEWAL_INTERVAL: Duration = Duration::from_secs(1);

/// Packets that one key seals, about 47 GB: so few that a receiver can remember each of them
/// ([`crate::taken_counters`]). AES-GCM keeps its margin up to 2^34.5 blocks of 16 bytes (RFC 8446, 5.5), which are 2^28
/// packets of 1,420 bytes; its counter would last for 2^64.
pub const MAX_PACKETS: u64 = 1 << 25;

/// Something that has happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyInput {
    /// A receiver that knows the key has left, or was put out.
    ReceiverLeft,
    /// This number of packets was sealed with the present key.
    Sealed { packets: u64 },
}

/// A command to the caller about the group's keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyCommand {
    /// Draw a new key, and tell it to every receiver in the session and to all that join from now on.
    Offer(Reason),
    /// Seal packets with the key that was offered last.
    Use,
}

/// The reason why the group gets a new key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    ReceiverLeft,
    WornOut,
}

/// Decides when a group's keys are replaced. The first key is in use from the start.
#[derive(Debug, Clone)]
pub struct GroupKeySchedule {
    max_packets: u64,
    packets: u64,
    due: Option<Reason>,
    renewed: Instant,
    offered: Option<Instant>,
}

impl GroupKeySchedule {
    /// Creates a schedule whose keys seal `max_packets` packets each. Outside of tests that is [`MAX_PACKETS`].
    pub fn new(now: Instant, max_packets: u64) -> Self {
        Self { max_packets, packets: 0, due: None, renewed: now, offered: None }
    }

    /// Takes in what has happened.
    pub fn handle(&mut self, input: KeyInput) {
        match input {
            KeyInput::ReceiverLeft => self.due = Some(Reason::ReceiverLeft),
            KeyInput::Sealed { packets } => {
                self.packets = self.packets.saturating_add(packets);
                if self.packets >= self.max_packets && self.offered.is_none() {
                    self.due.get_or_insert(Reason::WornOut);
                }
            }
        }
    }

    /// Returns what to do before the next packet is sealed. The caller asks again until nothing is left to do.
    pub fn poll(&mut self, now: Instant) -> Option<KeyCommand> {
        match self.offered {
            Some(offered) if now >= offered + LEAD_TIME => {
                self.offered = None;
                self.packets = 0;
                Some(KeyCommand::Use)
            }
            None if self.due.is_some() && now >= self.renewed + RENEWAL_INTERVAL => {
                self.renewed = now;
                self.offered = Some(now);
                self.due.take().map(KeyCommand::Offer)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Instant = Instant::ZERO;

    fn at(millis: u64) -> Instant {
        START + Duration::from_millis(millis)
    }

    #[test]
    fn a_leaver_reads_on_for_a_second_and_a_half_at_most() {
        let mut schedule = GroupKeySchedule::new(START, MAX_PACKETS);
        assert_eq!(schedule.poll(at(5000)), None);
        schedule.handle(KeyInput::ReceiverLeft);
        assert_eq!(schedule.poll(at(5000)), Some(KeyCommand::Offer(Reason::ReceiverLeft)));
        assert_eq!(schedule.poll(at(5499)), None);
        // A receiver that leaves now knows the key that is offered.
        schedule.handle(KeyInput::ReceiverLeft);
        assert_eq!(schedule.poll(at(5500)), Some(KeyCommand::Use));
        assert_eq!(schedule.poll(at(5999)), None);
        assert_eq!(schedule.poll(at(6000)), Some(KeyCommand::Offer(Reason::ReceiverLeft)));
        assert_eq!(schedule.poll(at(6500)), Some(KeyCommand::Use));
        assert_eq!(schedule.poll(at(9999)), None);
    }

    #[test]
    fn a_thousand_leavers_cost_one_key_a_second() {
        let mut schedule = GroupKeySchedule::new(START, MAX_PACKETS);
        let mut offers = 0;
        for millis in 0..10_000 {
            schedule.handle(KeyInput::ReceiverLeft);
            offers += u32::from(matches!(schedule.poll(at(millis)), Some(KeyCommand::Offer(_))));
        }
        assert_eq!(offers, 9);
    }

    #[test]
    fn a_worn_out_key_is_renewed_once() {
        let mut schedule = GroupKeySchedule::new(START, 1000);
        let mut commands = Vec::new();
        for millis in 0..4000 {
            schedule.handle(KeyInput::Sealed { packets: 1 });
            commands.extend(schedule.poll(at(millis)).map(|command| (millis, command)));
        }
        let offer = KeyCommand::Offer(Reason::WornOut);
        assert_eq!(
            commands,
            [(1000, offer), (1500, KeyCommand::Use), (2500, offer), (3000, KeyCommand::Use)]
        );
    }
}
