//! Carousels in a star: their scenarios, who forges their packets, and how their receivers must end. Nothing goes
//! back to the sender except group membership.

use std::{rc::Rc, time::Duration};

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use treecast_proto::{
    Instant,
    fec::{Layout, Share},
    object::chunks::CHUNK_LEN,
};
use treecast_wire::{header::FileId, message::BlockHashes};

use super::{
    Fault, Leaving, ObjectPlan, ReceiverPlan, Scenario,
    carousel_plan::{Carousel, Forger},
    receiver_node::{Fate, ReceiverNode},
    scenario::{draw_fault, draw_path, millis, pick},
    sender_node::{LOWER_HEADERS, Packet, session},
};
use crate::{
    judge::Judge,
    network::{generator, transmission_time},
};

/// The most loops that a receiver may take. With half of all packets lost, a thousand blocks take twenty.
const MAX_LOOPS: usize = 80;

/// The time until the sender learns that a listener has come or gone.
pub(super) const REPORT: Duration = Duration::from_millis(50);

/// The time for which a dead listener still counts as one.
pub(super) const LISTENING_INTERVAL: Duration = Duration::from_secs(5);

impl Scenario {
    /// Makes the carousel that belongs to a seed.
    pub fn carousel_from_seed(seed: u64) -> Self {
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
        let withdraw = (random.random_range(0..sizes.len()), millis(random.random_range(0..300)));
        let receivers = (0..random.random_range(1..=6)).map(|_| draw_receiver(&mut random, &sizes)).collect();
        let mut signing = generator(seed, 5);
        let signs = BlockHashes::per_page(block_len).is_some() && signing.random_bool(0.5);
        let forges = signs && signing.random_bool(0.5);
        let object = |(index, size): (usize, usize)| ObjectPlan {
            withdraw_at: Some(withdraw.1).filter(|_| withdrawn && index == withdraw.0),
            ..ObjectPlan::of(size)
        };
        Self {
            seed,
            block_len,
            max_run_len: u32::from(block_len) * random.random_range(1..=45),
            rate_bps: *pick(&mut random, &[2_000_000, 20_000_000, 200_000_000]),
            fec: generator(seed, 3).random_bool(0.5).then_some(Share::Auto),
            carousel: Some(Carousel {
                idle: Duration::from_secs(2),
                start: large.random(),
                first_row: if large.random_bool(0.3) { large.random_range(1..1_000_000) } else { 0 },
                signs,
                forger: forges.then(|| Forger::new(signing.random())),
                is_iotup: false,
            }),
            ..Self::of(sizes.into_iter().enumerate().map(object).collect(), receivers)
        }
    }

    /// The time by which a carousel must have ended.
    pub(super) fn carousel_deadline(&self) -> Duration {
        let last = self.receivers.iter().map(|receiver| receiver.join_at).max().unwrap_or_default();
        let blocks = |size: usize| size.div_ceil(usize::from(self.block_len)) + 8;
        let bytes =
            self.objects.iter().map(|object| object.size + blocks(object.size) * (LOWER_HEADERS + 900));
        last + transmission_time(bytes.sum::<usize>() * MAX_LOOPS, self.rate_bps) + Duration::from_secs(60)
    }
}

fn draw_receiver(random: &mut ChaCha8Rng, sizes: &[usize]) -> ReceiverPlan {
    let late = random.random_bool(0.6);
    let join_at = millis(if late { random.random_range(0..500) } else { 0 });
    let dies = random.random_bool(0.1);
    let die_at = join_at + millis(random.random_range(0..400));
    ReceiverPlan {
        join_at,
        leave: dies.then_some((die_at, Leaving::Dies)),
        moves: Some(Vec::new()),
        faults: sizes.iter().map(|size| draw_fault(random, *size)).collect(),
        ..ReceiverPlan::of(draw_path(random), sizes.len())
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

/// Whether routers believe that a receiver listens.
pub(super) fn is_reported(receiver: &ReceiverNode, now: Instant) -> bool {
    if receiver.dead {
        now < receiver.outcome.closed_at + LISTENING_INTERVAL
    } else {
        !receiver.outcome.closed
    }
}

/// The state of a forger: its random numbers, and what it has heard and sent.
#[derive(Debug)]
pub(super) struct Forging {
    random: ChaCha8Rng,
    /// The run of blocks or symbols that the sender sent last.
    pub(super) last: Option<Packet>,
    content: Rc<[u8]>,
}

impl Forging {
    pub(super) fn new(scenario: &Scenario) -> Self {
        let len = scenario.objects.iter().map(|object| object.size).max().unwrap_or_default();
        let forges = scenario.carousel.is_some_and(|carousel| carousel.forger.is_some());
        let content = vec![0xee; if forges { len } else { 0 }].into();
        Self { random: generator(scenario.seed, 6), last: None, content }
    }

    /// Returns a forged packet.
    pub(super) fn packet(&mut self, scenario: &Scenario, forger: Forger) -> Packet {
        let mut packet = match self.last.clone().filter(|_| forger.is_ahead) {
            Some(run) => ahead_of(run, scenario.block_len),
            None => self.anything(scenario),
        };
        if let Packet::Blocks { content, .. } | Packet::Symbols { content, .. } = &mut packet {
            *content = Rc::clone(&self.content);
        }
        packet
    }

    /// Returns a block or symbol of any object.
    fn anything(&mut self, scenario: &Scenario) -> Packet {
        let index = self.random.random_range(0..scenario.objects.len());
        let file = FileId::new(session(scenario), index as u32);
        let (size, block_len) = (scenario.objects[index].size as u64, u64::from(scenario.block_len));
        let start = self.random.random_range(0..size.div_ceil(block_len).max(1)) * block_len;
        let content = Rc::clone(&self.content);
        if let Some(layout) = Layout::new(size, scenario.block_len).filter(|_| scenario.fec.is_some())
            && size > 0
            && self.random.random_bool(0.5)
        {
            let source_block = layout.source_block(start / block_len);
            let first = layout.source_symbols(source_block) + self.random.random_range(0..100);
            let positions = layout.positions(source_block, &(first..first + 1));
            return Packet::Symbols { file, positions, content };
        }
        Packet::Blocks { file, range: start..size.min(start + block_len), content }
    }
}

/// Returns the first packet of the run after this one.
fn ahead_of(mut packet: Packet, block_len: u16) -> Packet {
    if let Packet::Blocks { range, .. } | Packet::Symbols { positions: range, .. } = &mut packet {
        let first_len = (range.end - range.start).min(block_len.into());
        *range = range.end..range.end + first_len;
    }
    packet
}

/// Judges how a carousel ended at a receiver.
pub(super) fn judge(judge: &mut Judge, scenario: &Scenario, number: usize, receiver: &ReceiverNode) {
    if receiver.dead {
        return;
    }
    // A carousel whose only object is withdrawn ends, and few may have heard why.
    let may_end = scenario.objects.len() == 1 && scenario.objects[0].withdraw_at.is_some();
    if let Some(reason) = receiver.outcome.cut_short.as_ref().filter(|_| !may_end) {
        judge.require(false, || format!("receiver {number} was cut short: {reason}"));
    }
    let faults =
        (0..scenario.objects.len()).filter_map(|index| fate_fault(scenario, number, index, receiver));
    judge.hear(faults.map(|fault| format!("receiver {number}: {fault}")));
}

/// Returns what is wrong with the end of one object: it must be there, or have failed for a reason that was
/// planned.
fn fate_fault(scenario: &Scenario, number: usize, index: usize, receiver: &ReceiverNode) -> Option<String> {
    let withdrawn = scenario.objects[index].withdraw_at.is_some();
    let planned = scenario.receivers[number].faults[index];
    let received = receiver.storage.committed().contains_key(&(index as u32));
    match (received, receiver.outcome.fates.get(&(index as u32))) {
        (true, Some(Fate::Failed(reason))) => {
            Some(format!("object {index} is received and failed: {reason}"))
        }
        (true, _) if matches!(planned, Some(Fault::CommitFails | Fault::DamagedAlways)) => {
            Some(format!("object {index} was received though it cannot be"))
        }
        (true, fate) => fate.is_none().then(|| format!("object {index} is there, and was not told")),
        (false, Some(Fate::Failed(reason)))
            if !withdrawn && matches!(planned, None | Some(Fault::DamagedOnce)) =>
        {
            Some(format!("object {index} failed without a cause: {reason}"))
        }
        (false, Some(Fate::Failed(_))) => None,
        (false, Some(Fate::Received)) => Some(format!("object {index} is said to be there and is not")),
        (false, None) if withdrawn && receiver.outcome.cut_short.is_some() => None,
        (false, None) => Some(format!("object {index} has no end")),
    }
}
