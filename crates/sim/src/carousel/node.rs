//! A receiver in the simulation: its machine, its storage, and how both should end.

use std::{collections::BTreeMap, ops::Range, rc::Rc, time::Duration};

use treecast_proto::{
    Instant, Step,
    carousel::{Proofs, Receiver, ReceiverConfig},
    object::{Channel, ReceiverEvent, ReceiverInput, ReceiverTransmit},
};
use treecast_wire::{
    header::{FileId, HEADER_LEN, Header},
    message::{BlockHash, BlockHashes, ChunkHashes, Message},
};

use super::Scenario;
use crate::session::{Fault, storage::Storage};

/// As it goes through the network: messages as bytes, blocks by what they carry.
#[derive(Debug, Clone)]
pub(super) enum Packet {
    Message(Vec<u8>),
    Block(FileId, Range<u64>),
    Symbol(FileId, Range<u64>),
    /// What the sender has signed of the next blocks or symbols.
    Page(FileId, BlockHashes),
    /// A block or symbol with other bytes than it should have.
    Forged(Box<Packet>),
}

/// What stands for the hash of a block or symbol of the sender's.
pub(super) fn hash_at(sequence: u64) -> BlockHash {
    sequence.to_be_bytes()
}

/// What stands for the hash of any that is forged: nothing is sent from there.
const FORGED: BlockHash = [0xff; 8];

#[derive(Debug)]
pub(super) struct ReceiverNode {
    machine: Receiver,
    /// None where the sender signs no blocks.
    proofs: Option<Proofs>,
    /// Whether what is being taken is forged.
    takes_forged: bool,
    storage: Storage,
    failed: BTreeMap<u32, String>,
    pub closed: bool,
    /// Why it did not get all objects.
    reason: Option<String>,
    pub dead_since: Option<Instant>,
    block_len: u16,
    complaints: Vec<String>,
}

/// What a receiver wants of its world.
#[derive(Debug, Default)]
pub(super) struct Effects {
    pub notes: Vec<(&'static str, FileId, Range<u64>)>,
    pub hashes: Vec<FileId>,
    pub checks: Vec<(FileId, ChunkHashes)>,
    pub decoded: Vec<(FileId, u32, bool)>,
    pub wake: Option<Instant>,
}

impl ReceiverNode {
    pub fn new(scenario: &Scenario, number: usize) -> Self {
        let config = ReceiverConfig {
            session: scenario.session(),
            block_len: scenario.block_len,
            fec: scenario.fec,
            has_chunk_hashes: true,
            hash_attempts: 3,
            patience: Some(Duration::from_secs(20)),
        };
        Self {
            machine: Receiver::new(config),
            proofs: Proofs::new(scenario.block_len).filter(|_| scenario.signs),
            takes_forged: false,
            storage: Storage::new(scenario.receivers[number].faults.clone()),
            failed: BTreeMap::new(),
            closed: false,
            reason: None,
            dead_since: None,
            block_len: scenario.block_len,
            complaints: Vec::new(),
        }
    }

    pub fn is_alive(&self) -> bool {
        self.dead_since.is_none()
    }

    /// Whether routers believe that the receiver listens.
    pub fn is_reported(&self, now: Instant, listening_interval: Duration) -> bool {
        match self.dead_since {
            Some(since) => now < since + listening_interval,
            None => !self.closed,
        }
    }

    pub fn packet(&mut self, now: Instant, packet: &Packet) {
        self.takes_forged = matches!(packet, Packet::Forged(_));
        let packet = if let Packet::Forged(forged) = packet { forged } else { packet };
        let input = match packet {
            Packet::Block(file, run) if self.is_right(*file, false, run) => {
                ReceiverInput::Blocks { from: Channel::Group, file: *file, range: run.clone() }
            }
            Packet::Symbol(file, run) if self.is_right(*file, true, run) => {
                ReceiverInput::Symbols { from: Channel::Group, file: *file, positions: run.clone() }
            }
            Packet::Page(file, page) => {
                return self.proofs.iter_mut().for_each(|proofs| proofs.take(*file, page.clone()));
            }
            Packet::Block(..) | Packet::Symbol(..) | Packet::Forged(_) => return,
            Packet::Message(bytes) => {
                let header = Header::parse(bytes).expect("a header of ours");
                let message = Message::parse(&header, &bytes[HEADER_LEN..]).expect("a message of ours");
                ReceiverInput::Message { from: Channel::Group, file: header.file_id, message }
            }
        };
        self.machine.handle(now, input);
    }

    fn is_right(&self, file: FileId, are_symbols: bool, block: &Range<u64>) -> bool {
        let hash = |block: Range<u64>| if self.takes_forged { FORGED } else { hash_at(block.start) };
        let right = |proofs: &Proofs| proofs.right(file, are_symbols, block, hash) == [block.clone()];
        self.proofs.as_ref().is_none_or(right)
    }

    /// Takes note that a source block is decoded, after the time that this takes.
    pub fn decoded(&mut self, now: Instant, file: FileId, source_block: u32, is_right: bool) {
        self.machine.handle(now, ReceiverInput::Decoded { file, source_block, is_right });
    }

    /// Takes note that an object is hashed, after the time that this takes.
    pub fn hashed(&mut self, now: Instant, file: FileId) {
        if let Some((hash, _)) = self.storage.hash(file.index()) {
            self.machine.handle(now, ReceiverInput::Hashed { file, hash });
        }
    }

    /// Takes note that a page of chunks is compared, after the time that this takes.
    pub fn checked(&mut self, now: Instant, file: FileId, page: &ChunkHashes) {
        let wrong = self.storage.wrong_chunks(file.index(), page);
        self.machine.handle(now, ReceiverInput::Checked { file, page: page.page(), wrong });
    }

    /// Carries out all that the machine asks for.
    pub fn pump(&mut self, now: Instant, contents: &[Rc<[u8]>]) -> Effects {
        let mut effects = Effects::default();
        loop {
            match self.machine.poll(now) {
                Step::Transmit(transmit) => self.carry_out(now, transmit, contents, &mut effects),
                Step::Event(ReceiverEvent::Received { file, .. }) => {
                    effects.notes.push(("received", file, 0..0));
                }
                Step::Event(ReceiverEvent::Failed { file, reason, .. }) => {
                    effects.notes.push(("failed", file, 0..0));
                    self.failed.insert(file.index(), reason);
                }
                Step::Event(
                    ReceiverEvent::Announced { .. }
                    | ReceiverEvent::EndOfFileOnly { .. }
                    | ReceiverEvent::CalledBack { .. },
                ) => self.complaints.push("a carousel asks its application nothing".into()),
                Step::Event(ReceiverEvent::Closed { reason }) => {
                    self.closed = true;
                    self.reason = reason.map(|reason| reason.to_string());
                }
                Step::Wait(wake, _) => {
                    self.takes_forged = false;
                    effects.wake = wake;
                    return effects;
                }
            }
        }
    }

    fn carry_out(
        &mut self,
        now: Instant,
        transmit: ReceiverTransmit,
        contents: &[Rc<[u8]>],
        effects: &mut Effects,
    ) {
        let (file, result) = match transmit {
            ReceiverTransmit::Announce { file, begin } => {
                self.storage.announce(file.index(), begin.file_size);
                (file, Ok(()))
            }
            ReceiverTransmit::Store { file, range } => {
                effects.notes.push(("stores", file, range.clone()));
                (file, self.store(file, range, contents))
            }
            ReceiverTransmit::Overwrite { file, range } => {
                effects.notes.push(("compares", file, range.clone()));
                (file, self.store(file, range, contents))
            }
            ReceiverTransmit::KeepSymbols { file, source_block, positions } => {
                let forged = self.takes_forged.then(|| Rc::from([]));
                let content = forged.as_ref().unwrap_or(&contents[file.index() as usize]);
                self.storage.keep_symbols(file.index(), source_block, positions, content);
                (file, Ok(()))
            }
            ReceiverTransmit::Decode { file, source_block, blocks, missing } => {
                effects.notes.push(("decodes", file, blocks.clone()));
                let index = file.index();
                let result = self.storage.decode(index, source_block, blocks, &missing, self.block_len);
                match &result {
                    Ok(Some(is_right)) => effects.decoded.push((file, source_block, *is_right)),
                    Ok(None) => self.complaints.push(format!("{file} lacks symbols and is to be decoded")),
                    Err(_) => {}
                }
                (file, result.map(drop))
            }
            ReceiverTransmit::ForgetSymbols { file } => {
                self.storage.forget_symbols(file.index());
                (file, Ok(()))
            }
            ReceiverTransmit::Hash { file } => {
                effects.hashes.push(file);
                (file, Ok(()))
            }
            ReceiverTransmit::CheckChunks { file, page, .. } => {
                effects.checks.push((file, page));
                (file, Ok(()))
            }
            ReceiverTransmit::Commit { file } => {
                let result = self.storage.commit(file.index());
                if result.is_ok() {
                    self.machine.handle(now, ReceiverInput::Committed { file });
                }
                (file, result)
            }
            ReceiverTransmit::Discard { file } => {
                self.storage.discard(file.index());
                (file, Ok(()))
            }
            ReceiverTransmit::Message { .. }
            | ReceiverTransmit::DrainGroup
            | ReceiverTransmit::Listen
            | ReceiverTransmit::CloseConnection => {
                return self.complaints.push("a carousel's receiver has no connection".into());
            }
        };
        if let Err(reason) = result {
            self.machine.handle(now, ReceiverInput::StoreFailed { file, reason });
        }
    }

    /// Stores bytes of the packet just handled.
    fn store(&mut self, file: FileId, range: Range<u64>, contents: &[Rc<[u8]>]) -> Result<(), String> {
        let content = &contents[file.index() as usize][range.start as usize..range.end as usize];
        let forged = if self.takes_forged { vec![0xee; content.len()] } else { Vec::new() };
        let content = if self.takes_forged { &forged } else { content };
        self.storage.store(file.index(), range, content)
    }

    /// Returns what is wrong with how the receiver ended.
    pub fn faults(&self, scenario: &Scenario, number: usize, contents: &[Rc<[u8]>]) -> Vec<String> {
        let mut faults = self.complaints.clone();
        for (index, bytes) in self.storage.committed() {
            if bytes.as_slice() != &*contents[*index as usize] {
                faults.push(format!("object {index} is wrong"));
            }
        }
        if !self.is_alive() {
            return faults;
        }
        if !self.closed {
            faults.push("it has not closed".into());
        }
        // A carousel whose only object is withdrawn ends, and few may have heard why.
        let may_end = scenario.withdraw.is_some() && scenario.sizes.len() == 1;
        if let Some(reason) = self.reason.as_ref().filter(|_| !may_end) {
            faults.push(format!("it was cut short: {reason}"));
        }
        // Whoever goes on later has what came before the session was cut short.
        if self.storage.leftovers() > 0 && self.reason.is_none() {
            faults.push("temporary files are left".into());
        }
        for index in 0..scenario.sizes.len() as u32 {
            faults.extend(self.fate(scenario, number, index));
        }
        faults
    }

    /// What is wrong with the end of one object: it must be there, or have failed for a reason that was
    /// planned.
    fn fate(&self, scenario: &Scenario, number: usize, index: u32) -> Option<String> {
        let withdrawn = scenario.withdraw.is_some_and(|(_, withdrawn)| withdrawn == index);
        let planned = scenario.receivers[number].faults[index as usize];
        let received = self.storage.committed().contains_key(&index);
        match (received, self.failed.get(&index)) {
            (true, Some(reason)) => Some(format!("object {index} is received and failed: {reason}")),
            (false, None) if !(withdrawn && self.reason.is_some()) => {
                Some(format!("object {index} has no end"))
            }
            (false, Some(reason)) if !withdrawn && matches!(planned, None | Some(Fault::DamagedOnce)) => {
                Some(format!("object {index} failed without a cause: {reason}"))
            }
            (true, None) if matches!(planned, Some(Fault::CommitFails | Fault::DamagedAlways)) => {
                Some(format!("object {index} was received though it cannot be"))
            }
            _ => None,
        }
    }
}
