//! Describes a simulated run: objects, receivers, the network between them, and what goes wrong.

use std::time::Duration;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use treecast_proto::{
    fec::Share,
    policy::Priority,
    vcmtp::{Notification, Repair},
};

use super::{carousel_plan::Carousel, placed::Placed};
use crate::network::{Loss, Narrow, Path, generator};

/// The time at which the first object is sent. Receivers that join at once are there by then.
const FIRST_SEND: Duration = Duration::from_millis(50);

/// The time for which a session stays open that is not closed with its last object. Everything has been said by then.
const LINGERING: Duration = Duration::from_secs(600);

/// One session to simulate: its options, network, objects and receivers. Each time in it counts from the session's
/// beginning.
#[derive(Debug, Clone)]
pub struct Scenario {
    pub seed: u64,
    pub repair: Repair,
    pub fec: Option<Share>,
    pub block_len: u16,
    pub max_run_len: u32,
    pub retransmission_timeout_factor: Option<f64>,
    /// The settings of a feed: objects that come while the session runs. `None`: all objects are known when it begins.
    pub feed: Option<Feed>,
    pub follow_progress: bool,
    /// The rate of the group's lane.
    pub rate_bps: u64,
    /// The rates of slower groups, from fast to slow.
    pub slower_rates_bps: Vec<u64>,
    /// Whether packets to single receivers take their share of `rate_bps`, as on a host.
    pub shares_rate: bool,
    /// The objects, in the order in which the application hands them to the sender (API_Send). The index of an
    /// object is its position here.
    pub objects: Vec<ObjectPlan>,
    pub receivers: Vec<ReceiverPlan>,
    /// The time at which the application closes the sender (API_Close_Sender).
    pub close_at: Duration,
    /// The time that the sender takes to compute a hash after an object's last byte.
    pub hashing: Duration,
    /// Whether a forger writes to the group, too.
    pub is_forged: bool,
    /// Whether objects are sent by difference. Each receiver then has an older version of each, which holds some of it.
    pub by_difference: bool,
    /// The settings of a carousel, which takes the place of `repair`.
    pub carousel: Option<Carousel>,
    /// The network of nodes and cables that the session is in. `None`: a star, in which each receiver has a
    /// path of its own.
    pub network: Option<Box<Placed>>,
}

/// The settings of a feed, as `treecast send --feed` has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Feed {
    /// The number of objects that are multicast at the same time (`--at-once`).
    pub at_once: usize,
    /// The shortest time for which lost packets may be asked for (`--retx-minimum`).
    pub minimum_retransmission_time: Duration,
    /// What goes first if the rate is not enough for multicast and repairs (`--priority`).
    pub priority: Priority,
}

#[derive(Debug, Clone)]
pub struct ObjectPlan {
    pub size: usize,
    /// The time at which the application hands the object to the sender (API_Send). In a network it counts from when all
    /// receivers are there.
    pub send_at: Duration,
    pub withdraw_at: Option<Duration>,
}

#[derive(Debug, Clone)]
pub struct ReceiverPlan {
    pub join_at: Duration,
    pub leave: Option<(Duration, Leaving)>,
    pub notification: Notification,
    /// The path from the sender to the receiver, for packets of the group.
    pub path: Path,
    /// The narrow part of that path. It drops the packets that are too much for it, of all groups.
    pub narrow: Option<Narrow>,
    /// The times at which the receiver moves, and the groups. `None`: it moves by the loss that it measures.
    pub moves: Option<Vec<(Duration, u8)>>,
    /// The delay of the control connection, each way.
    pub control_delay: Duration,
    pub control_rate_bps: u64,
    pub receive_buffer_bytes: u32,
    /// The rate at which the receiver reads its receive buffer, in bits a second.
    pub read_rate_bps: u64,
    /// Whether the application ignores each object (per-file notification).
    pub ignores: Vec<bool>,
    /// What goes wrong with the receiver's storage, for each object.
    pub faults: Vec<Option<Fault>>,
}

/// How a receiver leaves early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leaving {
    /// The application closes the receiver (API_Close_Receiver).
    Closes,
    /// The host of the receiver fails.
    Dies,
    /// Only the connection of the receiver breaks.
    Disconnects,
    /// The receiver is stopped, and its connection stays.
    Freezes,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Storing the byte at this position fails, and does so again at each attempt.
    StoreFails(usize),
    CommitFails,
    /// The first block that is stored is damaged on its way to the disk.
    DamagedOnce,
    /// Every first block that is stored is damaged.
    DamagedAlways,
}

impl Scenario {
    /// Makes a session in a star: blocks of 1,420 bytes, sent at 100 Mbit/s, `nack`, and nothing that goes wrong but what
    /// the receivers' plans say. The session is closed with its first object.
    pub fn of(objects: Vec<ObjectPlan>, receivers: Vec<ReceiverPlan>) -> Self {
        Self {
            seed: 1,
            repair: Repair::Nack,
            fec: None,
            block_len: 1420,
            max_run_len: 45 * 1420,
            retransmission_timeout_factor: None,
            feed: None,
            follow_progress: false,
            rate_bps: 100_000_000,
            slower_rates_bps: Vec::new(),
            shares_rate: false,
            objects,
            receivers,
            close_at: FIRST_SEND,
            hashing: millis(2),
            is_forged: false,
            by_difference: false,
            carousel: None,
            network: None,
        }
    }

    /// Makes the scenario that belongs to a seed.
    pub fn from_seed(seed: u64) -> Self {
        let mut random = generator(seed, 0);
        let repair =
            *pick(&mut random, &[Repair::Nack, Repair::Nack, Repair::After, Repair::After, Repair::None]);
        let block_len = *pick(&mut random, &[100, 512, 1000, 1420]);
        let factors = [None, None, None, Some(0.0), Some(0.5), Some(20.0)];
        let mut objects: Vec<ObjectPlan> =
            (0..random.random_range(1..=5)).map(|_| ObjectPlan::draw(&mut random, block_len)).collect();
        objects.sort_by_key(|object| object.send_at);
        let mut receivers: Vec<ReceiverPlan> = (0..random.random_range(1..=8))
            .map(|_| ReceiverPlan::draw(&mut random, objects.iter().map(|object| object.size).collect()))
            .collect();
        let last_send = objects.iter().map(|object| object.send_at).max().unwrap_or_default();
        let lingers = random.random_bool(0.5);
        let fec = draw_fec(seed);
        if fec.is_some() && block_len == 100 {
            // More than one source block.
            objects[0].size += 300_000;
        }
        let rate_bps = *pick(&mut random, &[2_000_000, 20_000_000, 200_000_000]);
        let retransmission_timeout_factor = *pick(&mut random, &factors);
        let has_slower = repair != Repair::None;
        let slower_rates_bps =
            if has_slower { draw_slower(seed, rate_bps, &mut receivers) } else { Vec::new() };
        Self {
            seed,
            fec,
            slower_rates_bps,
            close_at: last_send + if lingers { LINGERING } else { Duration::ZERO },
            hashing: millis(*pick(&mut random, &[0, 2, 100])),
            repair,
            block_len,
            max_run_len: u32::from(block_len) * random.random_range(1..=45),
            retransmission_timeout_factor,
            follow_progress: random.random_bool(0.5),
            rate_bps,
            is_forged: random.random_bool(0.2),
            ..Self::of(objects, receivers)
        }
    }

    /// Makes the session of a seed, with objects that are sent by difference.
    pub fn difference_from_seed(seed: u64) -> Self {
        let mut scenario = Self::from_seed(seed);
        for receiver in &mut scenario.receivers {
            receiver.moves = Some(Vec::new());
        }
        let repair = if scenario.repair == Repair::None { Repair::Nack } else { scenario.repair };
        Self { by_difference: true, repair, fec: None, slower_rates_bps: Vec::new(), ..scenario }
    }

    /// Returns the time by which everything must have ended: all that is planned, and after that long enough to
    /// send every byte to every receiver again eight times over the slowest connection.
    pub fn deadline(&self) -> Duration {
        if let Some(placed) = &self.network {
            return placed.timeout;
        }
        if self.carousel.is_some() {
            return self.carousel_deadline();
        }
        let bytes: usize = self.objects.iter().map(|object| object.size + 1000).sum();
        let slowest =
            self.receivers.iter().map(|receiver| receiver.control_rate_bps.min(receiver.read_rate_bps));
        let slowest =
            slowest.chain([self.rate_bps]).chain(self.slower_rates_bps.iter().copied()).min().unwrap_or(1);
        let again = crate::network::transmission_time(bytes * 8, slowest);
        let factor = 1.0 + self.retransmission_timeout_factor.unwrap_or(0.0);
        // Receivers that report nothing are waited for.
        let waiting = Duration::from_secs(if self.by_difference { 60 } else { 20 });
        self.last_planned() + waiting + again.mul_f64(factor)
    }

    /// Whether each receiver has a connection to the sender.
    pub(super) fn has_connections(&self) -> bool {
        let local = self.network.as_ref().and_then(|placed| placed.local.as_ref());
        self.carousel.is_none() && local.is_none()
    }

    /// Whether the session stays open long after its last object.
    pub(super) fn lingers(&self) -> bool {
        let last_send = self.objects.iter().map(|object| object.send_at).max().unwrap_or_default();
        self.close_at >= last_send + LINGERING
    }

    fn last_planned(&self) -> Duration {
        let objects = self.objects.iter().flat_map(|object| [Some(object.send_at), object.withdraw_at]);
        let receivers = self.receivers.iter();
        let receivers =
            receivers.flat_map(|receiver| [Some(receiver.join_at), receiver.leave.map(|leave| leave.0)]);
        objects.chain(receivers).flatten().max().unwrap_or_default().max(self.close_at)
    }
}

impl ObjectPlan {
    /// Makes an object of `size` bytes that is sent when all receivers are there that join at once.
    pub fn of(size: usize) -> Self {
        Self { size, send_at: FIRST_SEND, withdraw_at: None }
    }

    fn draw(random: &mut ChaCha8Rng, block_len: u16) -> Self {
        let block_len = usize::from(block_len);
        let size = match random.random_range(0..10) {
            0 => 0,
            1 => block_len,
            2 => random.random_range(1..3 * block_len),
            3..8 => random.random_range(1..30_000),
            _ => random.random_range(1..200_000),
        };
        let late = random.random_bool(0.3);
        let send_at = FIRST_SEND + millis(if late { random.random_range(0..300) } else { 0 });
        let withdrawn = random.random_bool(0.05);
        let withdraw_at = withdrawn.then(|| send_at + millis(random.random_range(0..100)));
        Self { size, send_at, withdraw_at }
    }
}

impl ReceiverPlan {
    /// Makes a receiver that joins at once, stays, wants each of `objects` objects, and moves by the loss that it measures.
    pub fn of(path: Path, objects: usize) -> Self {
        Self {
            join_at: Duration::ZERO,
            leave: None,
            notification: Notification::Batched,
            path,
            narrow: None,
            moves: None,
            control_delay: path.delay,
            control_rate_bps: 1_000_000_000,
            receive_buffer_bytes: 8_000_000,
            read_rate_bps: 10_000_000_000,
            ignores: vec![false; objects],
            faults: vec![None; objects],
        }
    }

    fn draw(random: &mut ChaCha8Rng, sizes: Vec<usize>) -> Self {
        let late = random.random_bool(0.2);
        let join_at = millis(if late { random.random_range(0..400) } else { 0 });
        let ways = [Leaving::Closes, Leaving::Dies, Leaving::Disconnects, Leaving::Freezes];
        let leaves = random.random_bool(0.1);
        let leave = leaves.then(|| (join_at + millis(random.random_range(0..400)), *pick(random, &ways)));
        let per_file = random.random_bool(0.4);
        let slow = random.random_bool(0.1);
        Self {
            join_at,
            leave,
            notification: if per_file { Notification::PerFile } else { Notification::Batched },
            path: draw_path(random),
            narrow: None,
            moves: Some(Vec::new()),
            control_delay: millis(random.random_range(0..40)),
            control_rate_bps: *pick(random, &[2_000_000, 50_000_000, 1_000_000_000]),
            receive_buffer_bytes: *pick(random, &[20_000, 400_000, 4_000_000]),
            read_rate_bps: if slow { 3_000_000 } else { 10_000_000_000 },
            ignores: sizes.iter().map(|_| per_file && random.random_bool(0.3)).collect(),
            faults: sizes.iter().map(|size| draw_fault(random, *size)).collect(),
        }
    }

    /// Whether every packet to the group arrives, in order and once.
    pub fn hears_everything(&self) -> bool {
        self.path == Path::clean(self.path.delay)
            && self.read_rate_bps >= 10_000_000_000
            && self.receive_buffer_bytes >= 4_000_000
    }
}

/// Every second session has forward error correction, half of them with a fixed share.
fn draw_fec(seed: u64) -> Option<Share> {
    let mut random = generator(seed, 3);
    let share = *pick(&mut random, &[Share::Needed, Share::Auto, Share::Percent(5), Share::Percent(60)]);
    random.random_bool(0.5).then_some(share)
}

/// Every third session has slower groups, between which receivers go here and there.
fn draw_slower(seed: u64, rate_bps: u64, receivers: &mut [ReceiverPlan]) -> Vec<u64> {
    let mut random = generator(seed, 4);
    if random.random_bool(0.4) {
        return Vec::new();
    }
    let count = random.random_range(1..=3_u8);
    for receiver in receivers.iter_mut() {
        let moves = (0..random.random_range(0..=3)).map(|_| {
            let time = receiver.join_at + millis(*pick(&mut random, &[5, 60, 200, 700, 2000]));
            (time, random.random_range(0..=count))
        });
        receiver.moves = Some(moves.collect());
    }
    (1..=count).map(|number| rate_bps >> number).collect()
}

/// A path: a third of them clean, the others with losses of up to half of the packets.
pub(crate) fn draw_path(random: &mut ChaCha8Rng) -> Path {
    let clean = Path::clean(millis(random.random_range(0..20)));
    if random.random_bool(0.3) {
        return clean;
    }
    let loss = match random.random_range(0..3) {
        0 => Loss::Uniform(random.random_range(0.0..0.5)),
        1 => Loss::Uniform(random.random_range(0.0..0.05)),
        _ => Loss::Bursts {
            enter: random.random_range(0.001..0.05),
            leave: random.random_range(0.05..0.5),
            lost: random.random_range(0.5..=1.0),
            outside: 0.0,
        },
    };
    let reorders = random.random_bool(0.4);
    let duplicates = random.random_bool(0.4);
    Path {
        loss,
        reordered: if reorders { random.random_range(0.0..0.5) } else { 0.0 },
        hold: millis(random.random_range(0..20)),
        duplicated: if duplicates { random.random_range(0.0..0.3) } else { 0.0 },
        ..clean
    }
}

pub(crate) fn draw_fault(random: &mut ChaCha8Rng, size: usize) -> Option<Fault> {
    let fault = random.random_range(0..100);
    match fault {
        0 if size > 0 => Some(Fault::StoreFails(random.random_range(0..size))),
        1 => Some(Fault::CommitFails),
        2 | 3 if size > 0 => Some(Fault::DamagedOnce),
        4 if size > 0 => Some(Fault::DamagedAlways),
        _ => None,
    }
}

pub(crate) fn pick<'a, T>(random: &mut ChaCha8Rng, choices: &'a [T]) -> &'a T {
    &choices[random.random_range(0..choices.len())]
}

pub(crate) fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}
