//! Simulates what is behind a link: a reliable connection, and a socket's receive buffer.

use std::{collections::VecDeque, time::Duration};

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use treecast_proto::Instant;

use super::transmission_time;

/// TCP's first retransmission timeout on a short way: Linux's minimum.
const RETRANSMISSION_TIMEOUT: Duration = Duration::from_millis(200);

/// One direction of a reliable connection: in order, with a delay and a rate.
#[derive(Debug)]
pub struct Connection {
    delay: Duration,
    rate_bps: u64,
    /// The time at which everything written so far has left.
    free_at: Instant,
    /// The time at which everything written so far has arrived.
    arrived_at: Instant,
    /// The probability that a message is lost, and what decides it.
    loss: Option<(f64, ChaCha8Rng)>,
    /// The number of segments that wait for the network of cables ([`crate::tcp`]). `None` for a connection of its
    /// own.
    backlog: Option<usize>,
}

/// Whether a connection takes more data from a machine at this moment, or else when it will.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Room {
    Now,
    /// The socket's buffer has room again at this time.
    At(Instant),
    /// The connection takes more when the network has carried some of the waiting data.
    Later,
}

/// The most segments that wait in a socket's send buffer: 64 KiB.
const MOST_WAITING: usize = 46;

impl Connection {
    pub fn new(delay: Duration, rate_bps: u64) -> Self {
        let rate_bps = rate_bps.max(1);
        Self { delay, rate_bps, free_at: Instant::ZERO, arrived_at: Instant::ZERO, loss: None, backlog: None }
    }

    /// Creates a connection whose segments are carried by a network of cables.
    pub fn through_network() -> Self {
        Self { backlog: Some(0), ..Self::new(Duration::ZERO, u64::MAX) }
    }

    /// Sets the number of segments that wait for the network.
    pub fn set_backlog(&mut self, segments: usize) {
        self.backlog = Some(segments);
    }

    /// Makes the connection lose messages with probability `loss`. A lost message comes again after TCP's
    /// timeout, and what follows waits for it.
    pub fn with_loss(self, loss: f64, random: ChaCha8Rng) -> Self {
        Self { loss: (loss > 0.0).then_some((loss, random)), ..self }
    }

    /// Writes a packet of `len` bytes. Returns when the packet arrives.
    pub fn send(&mut self, now: Instant, len: usize) -> Instant {
        if self.backlog.is_some() {
            return now;
        }
        self.free_at = self.free_at.max(now) + transmission_time(len, self.rate_bps);
        self.arrived_at = self.arrived_at.max(self.free_at + self.delay);
        self.arrived_at
    }

    /// Sends a message, like [`Self::send`]. Nothing follows it by which TCP would learn that it was lost.
    pub fn send_message(&mut self, now: Instant, len: usize) -> Instant {
        let mut late = Duration::ZERO;
        if let Some((loss, random)) = &mut self.loss {
            let mut timeout = RETRANSMISSION_TIMEOUT;
            while random.random_bool(*loss) {
                late += timeout;
                timeout *= 2;
            }
        }
        let arrival = self.send(now, len) + late;
        self.arrived_at = arrival;
        arrival
    }

    /// Returns when the connection takes more: as soon as all that was written before has left, apart from what
    /// fits into the time `ahead`.
    pub fn room(&self, now: Instant, ahead: Duration) -> Room {
        match self.backlog {
            None if self.free_at > now + ahead => Room::At(self.free_at),
            Some(MOST_WAITING..) => Room::Later,
            _ => Room::Now,
        }
    }
}

/// The number of bytes that a kernel counts against a socket's buffer for a packet, besides the packet: its own
/// record, and the rest of the memory that the packet lies in.
pub const BOOKKEEPING_BYTES: usize = 800;

/// A socket's receive buffer, emptied at a rate; what does not fit is dropped.
#[derive(Debug)]
pub struct ReceiveBuffer {
    capacity_bytes: usize,
    rate_bps: u64,
    held_bytes: usize,
    /// The time at which each packet in the buffer is read, and the room that it takes.
    held: VecDeque<(Instant, usize)>,
    dropped: u64,
}

impl ReceiveBuffer {
    pub fn new(capacity_bytes: usize, rate_bps: u64) -> Self {
        Self { capacity_bytes, rate_bps: rate_bps.max(1), held_bytes: 0, held: VecDeque::new(), dropped: 0 }
    }

    /// Takes in `packets` packets of `len` bytes together, which arrive as one. Returns when they are read, or
    /// none when they are dropped.
    pub fn accept(&mut self, now: Instant, len: usize, packets: usize) -> Option<Instant> {
        let held_len = len + packets * BOOKKEEPING_BYTES;
        while let Some((_, read)) = self.held.front().filter(|(read_at, _)| *read_at <= now) {
            self.held_bytes -= read;
            self.held.pop_front();
        }
        if self.held_bytes + held_len > self.capacity_bytes {
            self.dropped += packets as u64;
            return None;
        }
        let begin = self.held.back().map_or(now, |(read_at, _)| *read_at);
        let read_at = begin.max(now) + transmission_time(len, self.rate_bps);
        self.held.push_back((read_at, held_len));
        self.held_bytes += held_len;
        Some(read_at)
    }

    /// Returns how many packets were dropped so far.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    #[test]
    fn a_connection_keeps_order_and_rate() {
        let mut connection = Connection::new(Duration::from_millis(10), 8_000);
        assert_eq!(connection.send(at(0), 5), at(15));
        assert_eq!(connection.send(at(1), 1), at(16));
        assert_eq!(connection.room(at(0), Duration::from_millis(5)), Room::At(at(6)));
        assert_eq!(connection.room(at(1), Duration::from_millis(5)), Room::Now);
        assert_eq!(connection.send(at(100), 1), at(111));
    }

    #[test]
    fn a_full_receive_buffer_drops() {
        let mut buffer = ReceiveBuffer::new(10 + 2 * BOOKKEEPING_BYTES, 8_000);
        assert_eq!(buffer.accept(at(0), 6, 1), Some(at(6)));
        assert_eq!(buffer.accept(at(0), 4, 1), Some(at(10)));
        assert_eq!((buffer.accept(at(5), 1, 1), buffer.dropped()), (None, 1));
        assert_eq!(buffer.accept(at(6), 1, 1), Some(at(11)));
    }
}
