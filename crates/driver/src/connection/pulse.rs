//! Restarts congestion control that has come to a halt.
//!
//! BBR, which many hosts use by default, sends as fast as it has seen packets arrive. If most of a small window
//! is lost in several timeouts in a row (with 30 % loss and a busy host), it has seen one packet a second. It
//! then sends one packet a second, and never sees more. Measured: 2 kbit/s for minutes on a path of 100 Mbit/s.
//! Congestion control with a window does not get into this state, and restarting it keeps its window.

use std::{net::TcpStream, time::Duration};

use treecast_proto::Instant;

use treecast_host::tcp_info::{self, Delivery};

/// Time between two looks.
const INTERVAL: Duration = Duration::from_secs(1);

/// A connection of which a packet takes longer than this share of a second stands still.
const PACKETS_A_SECOND: u64 = 4;

/// The number of looks in a row that must find a connection standing still. A connection that has just begun to send
/// is left alone.
const LOOKS: u32 = 2;

/// The progress of a connection between looks.
#[derive(Debug, Default)]
pub(super) struct Pulse {
    next: Instant,
    acknowledged: u64,
    still: u32,
}

impl Pulse {
    /// Checks a connection, if it is time.
    pub fn look(&mut self, now: Instant, stream: &TcpStream) {
        if now < self.next {
            return;
        }
        self.next = now + INTERVAL;
        if tcp_info::delivery(stream).is_some_and(|delivery| self.is_halted(&delivery)) {
            match tcp_info::restart_congestion_control(stream) {
                Ok(()) => {
                    tracing::debug!(peer = ?stream.peer_addr().ok(), "TCP had come to a halt: started anew")
                }
                Err(error) => tracing::debug!(%error, "TCP has come to a halt and cannot be started anew"),
            }
        }
    }

    /// Whether there is much to send, and next to nothing has arrived, because so little is allowed to leave.
    fn is_halted(&mut self, delivery: &Delivery) -> bool {
        let moved = delivery.acknowledged_bytes.saturating_sub(self.acknowledged);
        self.acknowledged = delivery.acknowledged_bytes;
        let little = PACKETS_A_SECOND * delivery.segment_bytes;
        let is_still =
            delivery.unsent_bytes > 0 && moved <= little && delivery.pacing_bytes_a_second <= little;
        self.still = if is_still { self.still + 1 } else { 0 };
        let is_halted = self.still >= LOOKS;
        if is_halted {
            self.still = 0;
        }
        is_halted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEGMENT: u64 = 1428;

    fn delivery(acknowledged_bytes: u64, pacing_bytes_a_second: u64) -> Delivery {
        Delivery { acknowledged_bytes, unsent_bytes: 500_000, segment_bytes: SEGMENT, pacing_bytes_a_second }
    }

    fn halts(deliveries: &[Delivery]) -> Vec<bool> {
        let mut pulse = Pulse::default();
        deliveries.iter().map(|delivery| pulse.is_halted(delivery)).collect()
    }

    #[test]
    fn one_that_may_send_a_packet_in_five_seconds_has_halted_and_is_looked_at_anew() {
        // As it was seen: 252 bytes a second.
        let seen: Vec<_> = (0..6).map(|second| delivery(9_000 + second * SEGMENT, 252)).collect();
        assert_eq!(halts(&seen), [false, false, true, false, true, false]);
    }

    #[test]
    fn one_that_gets_on_or_has_nothing_to_send_or_may_send_is_left_alone() {
        let gets_on: Vec<_> = (0..6).map(|second| delivery(second * 8_000, 252)).collect();
        let waits_for_the_other_side: Vec<_> = (0..6).map(|_| delivery(9_000, 90_000_000)).collect();
        let idle: Vec<_> = (0..6).map(|_| Delivery { unsent_bytes: 0, ..delivery(9_000, 252) }).collect();
        for deliveries in [gets_on, waits_for_the_other_side, idle] {
            assert_eq!(halts(&deliveries), [false; 6], "{deliveries:?}");
        }
    }
}
