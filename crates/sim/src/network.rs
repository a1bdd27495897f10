//! Simulates what packets go through: links, connections and receive buffers.

use std::{collections::VecDeque, time::Duration};

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use treecast_proto::Instant;

/// Creates a generator of random numbers for a run. Each user has a `stream` of its own. So a user that draws
/// more numbers does not change those of the others.
pub fn generator(seed: u64, stream: u64) -> ChaCha8Rng {
    let mut generator = ChaCha8Rng::seed_from_u64(seed);
    generator.set_stream(stream);
    generator
}

/// How packets get lost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Loss {
    /// Each packet is lost with the same probability.
    Uniform(f64),
    /// Packets are lost in bursts (Gilbert-Elliott). With probability `enter` a packet begins a burst, in which
    /// packets are lost with probability `lost`. With probability `leave` the burst ends. Outside of bursts,
    /// packets are lost with probability `outside`.
    Bursts { enter: f64, leave: f64, lost: f64, outside: f64 },
    /// One packet of each period is lost.
    Periodic(Period),
}

/// A loss that comes again after the same number of packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Period {
    /// The number of packets of which one is lost, at least 1.
    pub every: u64,
    /// The number of packets before the first that is lost.
    pub phase: u64,
    /// Whether a super-packet counts as one packet, and is lost as a whole.
    pub is_of_super_packets: bool,
}

impl Period {
    /// Whether the packet with this number, counted from 0, is lost.
    pub fn loses(self, number: u64) -> bool {
        number % self.every.max(1) == self.phase % self.every.max(1)
    }
}

/// What a link does to packets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Path {
    pub loss: Loss,
    /// The time that every packet takes.
    pub delay: Duration,
    /// The variation of the delay in a network of cables: each packet's delay lies between `delay` - `jitter`
    /// and `delay` + `jitter`, evenly spread. Packets stay in order.
    pub jitter: Duration,
    /// The probability that a packet is held up by a random time of at most `hold`, so that others
    /// overtake it.
    pub reordered: f64,
    pub hold: Duration,
    /// The probability that a packet arrives twice.
    pub duplicated: f64,
    /// The time of the run from which on nothing arrives.
    pub cut_at: Option<Duration>,
    /// The probability that TCP has to send a control message to this receiver again, after its timeout.
    pub control_loss: f64,
    /// The length of the longest packet that gets through, in bytes of IP. Longer ones vanish, and nobody is told.
    /// `None`: no limit.
    pub longest: Option<usize>,
}

impl Path {
    /// Returns a path that only delays packets, and loses none.
    pub const fn clean(delay: Duration) -> Self {
        Self {
            loss: Loss::Uniform(0.0),
            delay,
            jitter: Duration::ZERO,
            reordered: 0.0,
            hold: Duration::ZERO,
            duplicated: 0.0,
            cut_at: None,
            control_loss: 0.0,
            longest: None,
        }
    }
}

/// An unreliable path from one node to another: a receiver's branch of the multicast tree, or UDP.
#[derive(Debug)]
pub struct Link {
    path: Path,
    in_burst: bool,
    /// The number of packets, and of super-packets and single packets, that have come to where they get lost.
    counts: (u64, u64),
    random: ChaCha8Rng,
    narrow: Option<Narrow>,
    /// The time at which everything has passed the narrow part that waits in front of it now.
    free_at: Instant,
    /// The time at which the last carried packet arrives.
    arrived_at: Instant,
    /// The average length of the queue, in seconds (RED).
    average: f64,
    /// The time at which the next packet of other senders comes to the queue.
    others_at: Instant,
    /// A loss in place of the path's own.
    other_loss: Option<Loss>,
}

/// The narrowest part of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Narrow {
    pub rate_bps: u64,
    /// The longest queue in front of the narrow part, as the time that its packets take to leave.
    pub queue: Duration,
    pub discipline: Discipline,
    /// The rate at which other senders' packets come to the same queue. 0 means that there are none.
    pub background_bps: u64,
}

/// The rule by which a queue drops packets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Discipline {
    /// The queue drops packets that come when it is full.
    #[default]
    DropTail,
    /// The queue drops some packets before it is full, and more of them the longer it is on average (Floyd and
    /// Jacobson, "Random Early Detection Gateways for Congestion Avoidance", 1993).
    Red,
}

impl Narrow {
    /// Creates a narrow part whose queue drops what comes when it is full, and which has no packets of other
    /// senders.
    pub const fn new(rate_bps: u64, queue: Duration) -> Self {
        Self { rate_bps, queue, discipline: Discipline::DropTail, background_bps: 0 }
    }
}

/// The length of other senders' packets, in bytes with their headers: the middle of the sizes that networks carry
/// most.
const OTHERS_BYTES: usize = 576;

/// RED's weight of each packet in the average, its thresholds as shares of the queue, and the share that is dropped at the
/// upper one: what the paper takes in its section 4.
const RED_WEIGHT: f64 = 0.002;
const RED_THRESHOLDS: (f64, f64) = (0.25, 0.75);
const RED_DROPPED: f64 = 0.1;

impl Link {
    pub fn new(path: Path, random: ChaCha8Rng) -> Self {
        let free_at = Instant::ZERO;
        let (arrived_at, others_at) = (free_at, free_at);
        Self {
            path,
            in_burst: false,
            counts: (0, 0),
            random,
            narrow: None,
            free_at,
            arrived_at,
            average: 0.0,
            others_at,
            other_loss: None,
        }
    }

    /// Gives the link a narrow part.
    pub fn with_narrow(self, narrow: Option<Narrow>) -> Self {
        Self { narrow, ..self }
    }

    /// Returns the time that a packet takes when it waits in no queue.
    pub fn delay(&self) -> Duration {
        self.path.delay
    }

    /// Returns when half of the queue in front of the narrow part is free, as far as is known now.
    pub fn has_room_at(&self) -> Instant {
        let half = self.narrow.map_or(Duration::ZERO, |narrow| narrow.queue / 2);
        Instant::ZERO + (self.free_at - Instant::ZERO).saturating_sub(half)
    }

    /// Sets the loss from now on. `None`: the loss of the link's path.
    pub fn lose(&mut self, loss: Option<Loss>) {
        self.other_loss = loss;
    }

    /// Takes note that a super-packet comes, or a packet by itself. Its packets follow.
    pub fn begin_super_packet(&mut self) {
        self.counts.1 += 1;
    }

    /// Whether a packet of `len` bytes of IP is short enough for the link.
    pub fn fits(&self, len: usize) -> bool {
        self.path.longest.is_none_or(|longest| len <= longest)
    }

    /// Returns when a packet of `len` bytes that is sent now has passed the narrow part. None: too much waits
    /// there, and the packet is lost.
    pub fn squeeze(&mut self, now: Instant, len: usize) -> Option<Instant> {
        let Some(narrow) = self.narrow else { return Some(now) };
        if narrow.background_bps > 0 {
            self.let_others_in(now, narrow);
        }
        self.enqueue(now, len, narrow)
    }

    /// Adds other senders' packets to the queue that have come since the last time, at random times.
    fn let_others_in(&mut self, now: Instant, narrow: Narrow) {
        let mean = transmission_time(OTHERS_BYTES, narrow.background_bps).as_secs_f64();
        while self.others_at <= now {
            _ = self.enqueue(self.others_at, OTHERS_BYTES, narrow);
            let share: f64 = self.random.random_range(f64::MIN_POSITIVE..1.0);
            self.others_at += Duration::from_secs_f64(-share.ln() * mean).max(Duration::from_nanos(1));
        }
    }

    fn enqueue(&mut self, now: Instant, len: usize, narrow: Narrow) -> Option<Instant> {
        let begin = self.free_at.max(now);
        let waits = begin - now;
        if waits > narrow.queue
            || narrow.discipline == Discipline::Red && self.is_dropped_early(waits, narrow)
        {
            return None;
        }
        self.free_at = begin + transmission_time(len, narrow.rate_bps);
        Some(self.free_at)
    }

    fn is_dropped_early(&mut self, waits: Duration, narrow: Narrow) -> bool {
        self.average += RED_WEIGHT * (waits.as_secs_f64() - self.average);
        let share = self.average / narrow.queue.as_secs_f64().max(f64::MIN_POSITIVE);
        let (least, most) = RED_THRESHOLDS;
        match share {
            share if share < least => false,
            share if share >= most => true,
            share => self.random.random_bool(RED_DROPPED * (share - least) / (most - least)),
        }
    }

    /// Returns when a packet that has passed the narrow part now arrives, in order and once. `None` when it is
    /// lost.
    pub fn pass(&mut self, now: Instant) -> Option<Instant> {
        let Path { delay, jitter, .. } = self.path;
        if self.other_loss.unwrap_or(self.path.loss) != Loss::Uniform(0.0) && self.loses() {
            return None;
        }
        let mut arrival = now + delay;
        if !jitter.is_zero() {
            let early = delay.saturating_sub(jitter);
            let drawn = self.random.random_range(0..=(delay + jitter - early).as_nanos() as u64);
            arrival = now + early + Duration::from_nanos(drawn);
        }
        self.arrived_at = self.arrived_at.max(arrival);
        Some(self.arrived_at)
    }

    /// Returns when a packet that is sent now arrives: never, once or twice.
    pub fn carry(&mut self, now: Instant) -> Vec<Instant> {
        if self.loses() || self.path.cut_at.is_some_and(|cut_at| now >= Instant::ZERO + cut_at) {
            return Vec::new();
        }
        let copies = 1 + usize::from(self.random.random_bool(self.path.duplicated));
        (0..copies).map(|_| self.arrival(now)).collect()
    }

    fn loses(&mut self) -> bool {
        let packet = self.counts.0;
        self.counts.0 += 1;
        match self.other_loss.unwrap_or(self.path.loss) {
            Loss::Uniform(lost) => self.random.random_bool(lost),
            Loss::Bursts { enter, leave, lost, outside } => {
                let changes = self.random.random_bool(if self.in_burst { leave } else { enter });
                self.in_burst ^= changes;
                match (self.in_burst, outside) {
                    (true, _) => self.random.random_bool(lost),
                    (false, 0.0) => false,
                    (false, outside) => self.random.random_bool(outside),
                }
            }
            Loss::Periodic(period) if period.is_of_super_packets => {
                period.loses(self.counts.1.saturating_sub(1))
            }
            Loss::Periodic(period) => period.loses(packet),
        }
    }

    fn arrival(&mut self, now: Instant) -> Instant {
        let held = self.random.random_bool(self.path.reordered);
        let hold = if held { self.random.random_range(0..=self.path.hold.as_nanos() as u64) } else { 0 };
        now + self.path.delay + Duration::from_nanos(hold)
    }
}

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

/// Returns the time that `len` bytes take at a rate.
pub fn transmission_time(len: usize, rate_bps: u64) -> Duration {
    Duration::from_nanos((len as u64).saturating_mul(8_000_000_000) / rate_bps.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    /// How many of 10,000 packets get lost, and how many losses follow another one.
    fn losses(loss: Loss) -> (usize, usize) {
        let mut link = Link::new(Path { loss, ..Path::clean(Duration::ZERO) }, generator(1, 0));
        let fates: Vec<bool> = (0..10_000).map(|_| link.carry(at(0)).is_empty()).collect();
        let lost = fates.iter().filter(|lost| **lost).count();
        (lost, fates.windows(2).filter(|pair| pair[0] && pair[1]).count())
    }

    #[test]
    fn losses_are_as_many_as_asked_for_and_come_in_bursts_when_asked_for() {
        let (uniform, together) = losses(Loss::Uniform(0.1));
        assert!((900..1_100).contains(&uniform) && together < 200, "{uniform} {together}");
        let (bursty, together) = losses(Loss::Bursts { enter: 0.01, leave: 0.09, lost: 1.0, outside: 0.0 });
        assert!((600..1_400).contains(&bursty) && together > bursty * 8 / 10, "{bursty} {together}");
    }

    #[test]
    fn a_periodic_loss_takes_one_of_each_period_of_packets_or_super_packets() {
        for (is_of_super_packets, expected) in [(false, [1, 4, 7, 10]), (true, [3, 4, 5, 12])] {
            let loss = Loss::Periodic(Period { every: 3, phase: 1, is_of_super_packets });
            let mut link = Link::new(Path { loss, ..Path::clean(Duration::ZERO) }, generator(1, 0));
            let fates = (0..13).filter(|packet| {
                if packet % 3 == 0 {
                    link.begin_super_packet();
                }
                link.carry(at(0)).is_empty()
            });
            assert_eq!(fates.collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn packets_that_are_too_long_do_not_fit() {
        let link = Link::new(Path { longest: Some(1_500), ..Path::clean(Duration::ZERO) }, generator(1, 0));
        assert!(link.fits(1_500) && !link.fits(1_501));
        assert!(Link::new(Path::clean(Duration::ZERO), generator(1, 0)).fits(usize::MAX));
    }

    #[test]
    fn packets_are_delayed_reordered_and_duplicated() {
        let (delay, hold) = (Duration::from_millis(5), Duration::from_millis(3));
        let path = Path { reordered: 0.5, hold, duplicated: 0.5, ..Path::clean(delay) };
        let mut link = Link::new(path, generator(1, 0));
        let arrivals: Vec<Vec<Instant>> = (0..1_000).map(|_| link.carry(at(0))).collect();
        assert!(arrivals.iter().flatten().all(|time| (at(5)..=at(8)).contains(time)));
        let twice = arrivals.iter().filter(|times| times.len() == 2).count();
        let held = arrivals.iter().filter(|times| times[0] > at(5)).count();
        assert!((400..600).contains(&twice) && (400..600).contains(&held), "{twice} {held}");
    }

    /// Packets that come every millisecond to a link that takes 0.8 ms for one: how many of 20,000 are lost, and the mean wait of the others.
    fn congested(narrow: Narrow) -> (usize, Duration) {
        let mut link = Link::new(Path::clean(Duration::ZERO), generator(1, 0)).with_narrow(Some(narrow));
        let waits: Vec<Option<Duration>> = (0..20_000)
            .map(|millis| link.squeeze(at(millis), 1000).map(|through| through - at(millis)))
            .collect();
        let carried: Vec<Duration> = waits.iter().flatten().copied().collect();
        (waits.len() - carried.len(), carried.iter().sum::<Duration>() / carried.len() as u32)
    }

    /// The others take 30 % of the link, and 20 % are free: one of ten must go.
    #[test]
    fn what_others_send_fills_the_queue_and_early_drops_keep_it_short() {
        let alone = Narrow::new(10_000_000, Duration::from_millis(50));
        assert_eq!(congested(alone), (0, Duration::from_micros(800)));
        let narrow = Narrow { background_bps: 3_000_000, ..alone };
        let (lost, long) = congested(narrow);
        assert!((500..3_500).contains(&lost) && long > Duration::from_millis(25), "{lost} {long:?}");
        let (lost, short) = congested(Narrow { discipline: Discipline::Red, ..narrow });
        assert!((500..3_500).contains(&lost) && short < long * 4 / 5, "{lost} {short:?} {long:?}");
    }

    #[test]
    fn jitter_keeps_packets_in_order() {
        let path = Path { jitter: Duration::from_millis(4), ..Path::clean(Duration::from_millis(5)) };
        let mut link = Link::new(path, generator(1, 0));
        let arrivals: Vec<Instant> = (0..1_000).filter_map(|millis| link.pass(at(millis))).collect();
        assert!(arrivals.is_sorted() && arrivals.len() == 1_000);
        let delays = (0..).zip(&arrivals).map(|(millis, arrival)| *arrival - at(millis));
        assert!(delays.clone().all(|delay| delay >= Duration::from_millis(1)));
        assert!(delays.max() <= Some(Duration::from_millis(9)));
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
