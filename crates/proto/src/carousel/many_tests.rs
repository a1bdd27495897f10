//! The number of reports that reach a carousel's sender from very many receivers.

use std::{collections::BTreeMap, time::Duration};

use treecast_wire::{
    header::{FileId, SessionId},
    message::{BeginOfFile, Member, Message, RetransmissionRequest, TransferType},
};

use super::{Receiver, ReceiverConfig, Sender, ring::SenderConfig};
use crate::{
    Instant, Step,
    object::{Channel, Destination, Lane, ReceiverInput, ReceiverTransmit, SenderInput, SenderTransmit},
    random::SplitMix64,
};

const SESSION: SessionId = SessionId(9);
const BLOCK: u64 = 1_000;
const BLOCKS: u64 = 2_000;
const ONE_WAY_MILLIS: u64 = 25;

/// The reports that came to the sender.
#[derive(Debug)]
struct Counted {
    /// Datagrams in the second with most of them.
    most_a_second: u64,
    all: u64,
    /// The time when the last receiver had all.
    done_millis: u64,
}

/// A sender, and receivers 25 ms away that lack some blocks each, and lose some of what comes. Somebody may say, every 0.1 s, that
/// everything has been reported.
fn reports_of(
    receivers: usize,
    lacked: impl Fn(usize, &mut SplitMix64) -> Vec<u64>,
    loss: f64,
    is_forged: bool,
) -> Counted {
    let mut random = SplitMix64(3);
    let begin = BeginOfFile::new(TransferType::DiskToDisk, BLOCK * BLOCKS, "a").unwrap();
    let config = SenderConfig {
        session: SESSION,
        max_run_lens: vec![10 * BLOCK as u32],
        block_len: BLOCK as u16,
        fec: false,
        announce: true,
        start: 0,
        first_row: 0,
        has_reports: true,
        idle: Duration::from_secs(60),
        loops: None,
    };
    let mut sender = Sender::new(config, &[begin.with_index()]).unwrap();
    sender.handle(Instant::ZERO, SenderInput::Listeners { group: 0, present: true });
    let machine = |number| {
        let config = ReceiverConfig {
            session: SESSION,
            block_len: BLOCK as u16,
            hash_attempts: 1,
            reports: Some(number as u64),
            ..ReceiverConfig::default()
        };
        let lacks = lacked(number, &mut SplitMix64(number as u64));
        (Receiver::new(config), Some(lacks), Some(Instant::ZERO))
    };
    let mut receivers: Vec<_> = (0..receivers).map(machine).collect();
    let mut down: BTreeMap<u64, Vec<SenderTransmit>> = BTreeMap::new();
    let mut up: BTreeMap<u64, Vec<(FileId, Message)>> = BTreeMap::new();
    let mut counted = Counted { most_a_second: 0, all: 0, done_millis: 0 };
    let mut seconds = vec![0; 200];
    for millis in 0..200_000 {
        let now = Instant::ZERO + Duration::from_millis(millis);
        for (file, message) in up.remove(&millis).unwrap_or_default() {
            counted.all += 1;
            seconds[millis as usize / 1000] += 1;
            let from = Member("[::1]:9".parse().unwrap());
            sender.handle(now, SenderInput::Local { from, file, message });
        }
        // 80 Mbit/s.
        if let Step::Transmit(transmit) = sender.poll(now, Lane::Group) {
            down.entry(millis + ONE_WAY_MILLIS).or_default().push(transmit);
        }
        let mut arrived = down.remove(&millis).unwrap_or_default();
        if is_forged && millis % 100 == 0 {
            let all = RetransmissionRequest::new(0..BLOCK * BLOCKS).unwrap();
            let (to, file) = (Destination::Group, FileId::new(SESSION, 0));
            arrived.push(SenderTransmit::Message { to, file, message: Message::Lacking(all.into()) });
        }
        let is_due = |at: &Option<Instant>| at.is_some_and(|at| at <= now || !arrived.is_empty());
        for (receiver, lacks, at) in receivers.iter_mut().filter(|(.., at)| is_due(at)) {
            let mut inputs = Vec::new();
            for transmit in &arrived {
                if random.unit() < loss {
                    continue;
                }
                match transmit {
                    SenderTransmit::Message { file, message, .. } => inputs.push(ReceiverInput::Message {
                        from: Channel::Group,
                        file: *file,
                        message: message.clone(),
                    }),
                    SenderTransmit::Blocks { file, range, .. } => inputs.push(ReceiverInput::Blocks {
                        from: Channel::Group,
                        file: *file,
                        range: range.clone(),
                    }),
                    _ => {}
                }
            }
            inputs.into_iter().for_each(|input| receiver.handle(now, input));
            loop {
                match receiver.poll(now) {
                    Step::Transmit(ReceiverTransmit::Announce { file, .. }) => {
                        let mut have = Vec::new();
                        let mut at = 0;
                        for block in lacks.take().unwrap_or_default().into_iter().chain([BLOCKS]) {
                            have.extend((at < block).then_some(at * BLOCK..block * BLOCK));
                            at = block + 1;
                        }
                        receiver.handle(now, ReceiverInput::Have { file, ranges: have });
                    }
                    Step::Transmit(ReceiverTransmit::Message { file, message }) => {
                        up.entry(millis + ONE_WAY_MILLIS).or_default().push((file, message));
                    }
                    Step::Transmit(ReceiverTransmit::Hash { .. }) => {
                        counted.done_millis = millis;
                        *at = None;
                        break;
                    }
                    Step::Wait(deadline, _) => {
                        *at = Some(deadline.unwrap_or(Instant::ZERO + Duration::from_secs(1_000)));
                        break;
                    }
                    _ => {}
                }
            }
        }
        if receivers.iter().all(|(.., at)| at.is_none()) {
            break;
        }
    }
    counted.most_a_second = seconds.into_iter().max().unwrap_or_default();
    counted
}

/// 40 changed places, which all receivers lack.
fn alike(_: usize, _: &mut SplitMix64) -> Vec<u64> {
    (0..40).map(|change| change * 50).collect()
}

/// Each receiver lacks other blocks, a twentieth of all.
fn unlike(_: usize, random: &mut SplitMix64) -> Vec<u64> {
    (0..BLOCKS).filter(|_| random.unit() < 0.05).collect()
}

#[test]
fn the_datagrams_that_reach_the_sender_do_not_grow_with_the_number_of_receivers() {
    for count in [10, 1_000, 10_000] {
        let (without, with) = (reports_of(count, alike, 0.0, false), reports_of(count, alike, 0.02, false));
        assert!(without.most_a_second <= 30 && with.most_a_second <= 400, "{without:?} {with:?}");
        assert!(without.done_millis < 4_000 && with.done_millis < 30_000, "{without:?} {with:?}");
    }
}

#[test]
#[ignore = "it takes long: `make test-all` runs it"]
fn receivers_that_lack_different_blocks_hear_of_the_union_of_them() {
    for count in [10, 1_000, 10_000] {
        let unlike = reports_of(count, unlike, 0.0, false);
        assert!(unlike.most_a_second <= 1_000, "{unlike:?}");
    }
}

/// No receiver reports then. The sender takes that for receivers that cannot.
#[test]
fn all_get_everything_although_somebody_says_over_and_over_that_it_has_been_reported() {
    let forged = reports_of(10, alike, 0.0, true);
    assert!(forged.all == 0 && (10_000..13_000).contains(&forged.done_millis), "{forged:?}");
}
