//! Describes a simulated run: objects, receivers, the network between them, and what goes wrong.

use std::{rc::Rc, time::Duration};

use rand::{Rng, RngExt};
use rand_chacha::ChaCha8Rng;
use treecast_proto::object::chunks::CHUNK_LEN;
use treecast_wire::{header::SessionId, message::BlockHashes};

use crate::{
    network::{Path, generator, transmission_time},
    session::{
        Fault,
        scenario::{draw_fault, draw_path, millis, pick},
    },
};

/// How many loops a receiver may take: with half of all packets lost, a thousand blocks take twenty.
const MAX_LOOPS: usize = 80;

/// A run to simulate. Times are since its beginning.
#[derive(Debug, Clone)]
pub struct Scenario {
    pub seed: u64,
    pub block_len: u16,
    pub max_run_len: u32,
    pub rate_bps: u64,
    /// Whether the sender sends repair symbols in the later loops.
    pub fec: bool,
    /// Where the first loop begins, and with which symbols.
    pub start: u64,
    pub first_row: u64,
    /// Whether the sender signs the hashes of its blocks.
    pub signs: bool,
    pub forger: Option<Forger>,
    /// The sizes of the objects in bytes.
    pub sizes: Vec<usize>,
    /// When which object can no longer be sent.
    pub withdraw: Option<(Duration, u32)>,
    pub receivers: Vec<ReceiverPlan>,
}

/// A member of the group that sends blocks or repair symbols that it has made up.
#[derive(Debug, Clone, Copy)]
pub struct Forger {
    /// The time between two forged packets.
    pub interval: Duration,
    /// Whether the forged packets claim to be those that the sender is about to send, and not any others.
    pub is_ahead: bool,
}

impl Forger {
    /// Creates a forger that sends 50 packets a second.
    pub fn new(is_ahead: bool) -> Self {
        Self { interval: millis(20), is_ahead }
    }
}

#[derive(Debug, Clone)]
pub struct ReceiverPlan {
    pub join_at: Duration,
    /// When the host of the receiver fails.
    pub die_at: Option<Duration>,
    pub path: Path,
    /// What goes wrong with the receiver's storage, for each object.
    pub faults: Vec<Option<Fault>>,
}

impl Scenario {
    /// Makes the scenario that belongs to a seed.
    pub fn from_seed(seed: u64) -> Self {
        let mut random = generator(seed, 0);
        let block_len: u16 = *pick(&mut random, &[200, 512, 1000, 1420]);
        let mut sizes: Vec<usize> =
            (0..random.random_range(1..=4)).map(|_| draw_size(&mut random, block_len)).collect();
        // Several chunks, now and then.
        let mut large = generator(seed, 4);
        if large.random_bool(0.1) {
            sizes[0] += large.random_range(CHUNK_LEN as usize..3 * CHUNK_LEN as usize);
        }
        let withdrawn = random.random_bool(0.1);
        let withdraw = (millis(random.random_range(0..300)), random.random_range(0..sizes.len()) as u32);
        let receivers =
            (0..random.random_range(1..=6)).map(|_| ReceiverPlan::draw(&mut random, &sizes)).collect();
        let mut signing = generator(seed, 5);
        let signs = BlockHashes::per_page(block_len).is_some() && signing.random_bool(0.5);
        let forges = signs && signing.random_bool(0.5);
        Self {
            seed,
            block_len,
            max_run_len: u32::from(block_len) * random.random_range(1..=45),
            rate_bps: *pick(&mut random, &[2_000_000, 20_000_000, 200_000_000]),
            fec: generator(seed, 3).random_bool(0.5),
            start: large.random(),
            first_row: if large.random_bool(0.3) { large.random_range(1..1_000_000) } else { 0 },
            signs,
            forger: forges.then(|| Forger::new(signing.random())),
            sizes,
            withdraw: withdrawn.then_some(withdraw),
            receivers,
        }
    }

    pub(super) fn session(&self) -> SessionId {
        super::SESSION
    }

    /// The objects' bytes.
    pub(super) fn contents(&self) -> Vec<Rc<[u8]>> {
        let mut random = generator(self.seed, 1);
        let content = |size: &usize| {
            let mut bytes = vec![0; *size];
            random.fill_bytes(&mut bytes);
            bytes.into()
        };
        self.sizes.iter().map(content).collect()
    }

    /// The time by which everything must have ended.
    pub(super) fn deadline(&self) -> Duration {
        let last = self.receivers.iter().map(|receiver| receiver.join_at).max().unwrap_or_default();
        let blocks = |size: &usize| size.div_ceil(usize::from(self.block_len)) + 8;
        let loop_bytes: usize =
            self.sizes.iter().map(|size| size + blocks(size) * (super::OVERHEAD + 900)).sum();
        let loops = transmission_time(loop_bytes * MAX_LOOPS, self.rate_bps);
        last + loops + Duration::from_secs(60)
    }
}

impl ReceiverPlan {
    fn draw(random: &mut ChaCha8Rng, sizes: &[usize]) -> Self {
        let late = random.random_bool(0.6);
        let join_at = millis(if late { random.random_range(0..500) } else { 0 });
        let dies = random.random_bool(0.1);
        let die_at = join_at + millis(random.random_range(0..400));
        Self {
            join_at,
            die_at: dies.then_some(die_at),
            path: draw_path(random),
            faults: sizes.iter().map(|size| draw_fault(random, *size)).collect(),
        }
    }
}

fn draw_size(random: &mut ChaCha8Rng, block_len: u16) -> usize {
    let block_len = usize::from(block_len);
    match random.random_range(0..8) {
        0 => 0,
        1 => block_len,
        2 => random.random_range(1..3 * block_len),
        _ => random.random_range(1..15_000),
    }
}
