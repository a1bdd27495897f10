//! A session with local groups whose sender shares the link: its machines, and what they say to each other.

use std::{collections::BTreeSet, ops::Range, time::Duration};

use treecast_proto::{
    Instant, Step,
    local::{Mode, Receiver, ReceiverConfig, Sender, SenderConfig, Tuning},
    object::{
        Address, Channel, Destination, Lane, ReceiverInput, ReceiverTransmit, SenderInput, SenderTransmit,
    },
    policy::local_window_bytes,
};
use treecast_wire::{
    header::{FileId, SessionId},
    message::{BeginOfFile, GroupId, Member, Message, TransferType},
};

/// Bytes of an object in each packet.
pub const BLOCK_LEN: u16 = 1_400;

/// The highest rate of the sender, in bits a second: what `--rate auto` begins below.
const HIGHEST_BPS: u64 = 100_000_000;

/// The size of the object that is sent: more than any run takes.
const OBJECT_BYTES: u64 = 1 << 30;

/// A packet of the session.
#[derive(Debug, Clone)]
pub enum Body {
    Message(FileId, Message),
    Blocks(FileId, Range<u64>),
}

/// What one of the machines sends, and to whom.
pub type Sent = (Address, Body);

/// Host 0 is the sender, host `n` receiver `n - 1`.
#[derive(Debug)]
pub struct Local {
    sender: Sender,
    receivers: Vec<(Receiver, BTreeSet<GroupId>)>,
}

impl Local {
    pub fn new(flow: usize, receivers: usize, seed: u64) -> Self {
        let session = SessionId(flow as u32 + 1);
        let congestion_loss = Tuning::SHARED_LOSS;
        let tuning = Tuning { congestion_loss, repair_rate_bps: HIGHEST_BPS, ..Tuning::default() };
        let config = SenderConfig {
            session,
            block_len: BLOCK_LEN,
            me: member(0),
            mode: Mode::Local,
            max_run_len: 4 * u32::from(BLOCK_LEN),
            rate_bps: HIGHEST_BPS,
            shares_link: true,
            minimum_rate_bps: 0,
            window_bytes: local_window_bytes(HIGHEST_BPS),
            settling: Duration::from_secs(1),
            wait_for: Some(receivers as u32),
            named: None,
            copies: None,
            tuning: tuning.clone(),
        };
        let begin = BeginOfFile::new(TransferType::DiskToDisk, OBJECT_BYTES, "object").expect("a good name");
        let receiver = |host: usize| {
            let config = ReceiverConfig {
                session,
                block_len: BLOCK_LEN,
                me: member(host),
                mode: Mode::Local,
                seat: None,
                seed: seed.wrapping_mul(1_000).wrapping_add((flow * 100 + host) as u64),
                tuning: tuning.clone(),
                patience: None,
                stall_limit: None,
                hash_attempts: 1,
                copies: None,
            };
            (Receiver::new(config), BTreeSet::new())
        };
        let sender = Sender::new(config, vec![begin]);
        Self { sender, receivers: (1..=receivers).map(receiver).collect() }
    }

    /// The hosts that hear what one of them sends.
    pub fn hosts(&self, from: usize, to: Address) -> Vec<usize> {
        let hears = |host: usize| match to {
            Address::Session => host > 0,
            Address::Group(group) => host > 0 && self.receivers[host - 1].1.contains(&group),
            Address::Member(to) => to == member(host),
        };
        (0..=self.receivers.len()).filter(|host| *host != from && hears(*host)).collect()
    }

    pub fn hear(&mut self, now: Instant, at: usize, (from, to): (usize, Address), body: Body) {
        let channel = if to == Address::Session { Channel::Group } else { Channel::Member(member(from)) };
        match (at, body) {
            (0, Body::Message(file, message)) => {
                self.sender.handle(now, SenderInput::Local { from: member(from), file, message });
            }
            (0, Body::Blocks(..)) => {}
            (at, Body::Message(file, message)) => {
                let input = ReceiverInput::Message { from: channel, file, message };
                self.receivers[at - 1].0.handle(now, input);
            }
            (at, Body::Blocks(file, range)) => {
                self.receivers[at - 1].0.handle(now, ReceiverInput::Blocks { from: channel, file, range });
            }
        }
    }

    /// What a host sends now, and when it is to be polled again.
    pub fn poll(&mut self, now: Instant, host: usize) -> (Vec<Sent>, Option<Instant>) {
        if host == 0 { self.poll_sender(now) } else { self.poll_receiver(now, host) }
    }

    fn poll_sender(&mut self, now: Instant) -> (Vec<Sent>, Option<Instant>) {
        let mut sent = Vec::new();
        let address = |to: Destination| match to {
            Destination::Group => Address::Session,
            Destination::Local(address) => address,
            other => unreachable!("{other:?}"),
        };
        loop {
            match self.sender.poll(now, Lane::Group) {
                Step::Transmit(SenderTransmit::Message { to, file, message }) => {
                    sent.push((address(to), Body::Message(file, message)));
                }
                Step::Transmit(SenderTransmit::Blocks { to, file, range, .. }) => {
                    sent.push((address(to), Body::Blocks(file, range)));
                }
                Step::Transmit(other) => unreachable!("{other:?}"),
                Step::Event(_) => {}
                Step::Wait(deadline, _) => return (sent, deadline),
            }
        }
    }

    fn poll_receiver(&mut self, now: Instant, host: usize) -> (Vec<Sent>, Option<Instant>) {
        let (machine, groups) = &mut self.receivers[host - 1];
        let mut sent = Vec::new();
        loop {
            match machine.poll(now) {
                Step::Transmit(ReceiverTransmit::Tell { to, file, message }) => {
                    sent.push((to, Body::Message(file, message)));
                }
                Step::Transmit(ReceiverTransmit::Send { to, file, range }) => {
                    sent.push((to, Body::Blocks(file, range)));
                }
                Step::Transmit(ReceiverTransmit::JoinGroup { group }) => _ = groups.insert(group),
                Step::Transmit(ReceiverTransmit::LeaveGroup { group }) => _ = groups.remove(&group),
                Step::Transmit(ReceiverTransmit::Announce { file, .. }) => {
                    machine.handle(now, ReceiverInput::Have { file, ranges: Vec::new() });
                }
                Step::Transmit(_) | Step::Event(_) => {}
                Step::Wait(deadline, _) => return (sent, deadline),
            }
        }
    }

    /// Pieces of a block's length.
    pub fn blocks(range: Range<u64>) -> impl Iterator<Item = Range<u64>> {
        let block_len = u64::from(BLOCK_LEN);
        range.clone().step_by(block_len as usize).map(move |start| start..range.end.min(start + block_len))
    }
}

fn member(host: usize) -> Member {
    Member(([10, 0, 0, host as u8 + 1], 5_000).into())
}
