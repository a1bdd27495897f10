//! Objects: what the machine wants done with them, and what the storage reports. This is the one place where both meet,
//! whatever the repair.

use std::ops::Range;

use treecast_proto::{
    Instant, Step,
    fec::symbol_number,
    object::{CutShort, ReceiverEvent, ReceiverInput, ReceiverTransmit, Response},
};
use treecast_wire::{
    header::FileId,
    message::{BeginOfFile, FEED_STEP, Message, ObjectKind},
};

use super::{
    super::{
        super::{Choice, Offer, ReceiveEvent},
        source::Source,
    },
    Delivery, Effect,
};
use crate::{
    files::{Report, SourceBlock, Task},
    remedies::{Advised, Remedy},
    udp::{AtHand, are_zeros},
};

impl Delivery<'_> {
    /// Takes what the storage reports. `source` is what packets come in by.
    pub fn take_reports(&mut self, source: &mut Source) {
        self.store.store_waker.take();
        while let Some(report) = self.store.intake.report() {
            let input = match report {
                Report::Input(ReceiverInput::Hashed { file, hash })
                    if self.hashes_otherwise(file, hash, source) =>
                {
                    self.add(Task::HashAsBlake2b { file });
                    continue;
                }
                Report::Input(ReceiverInput::Committed { file }) if self.store.handing.add(file) => continue,
                Report::Input(input) => {
                    if let ReceiverInput::Lost { file, .. } = &input {
                        self.store.small.leave_to_store(*file);
                    }
                    input
                }
                Report::Refused { file, begin, reason, is_full } => {
                    if is_full {
                        self.store.cramped.insert(file);
                    }
                    self.now = self.clock.now();
                    self.refuse(file, begin, reason);
                    self.settle(None);
                    continue;
                }
                Report::Seeded { file, ranges, why_not } => {
                    self.seeded(file, ranges, why_not);
                    continue;
                }
                Report::Helps { file, remedy } => {
                    self.store.remedies.insert(file, remedy);
                    continue;
                }
                Report::Full { shortage } => {
                    self.store.full_since.get_or_insert(self.clock.now());
                    (self.on_event)(ReceiveEvent::Full(shortage));
                    continue;
                }
                Report::Read { file, position, bytes, to } => {
                    self.send_again(to, file, position, &bytes);
                    continue;
                }
                Report::Room => {
                    let now = self.clock.now();
                    let since = self.store.full_since.take().unwrap_or(now);
                    self.store.full_time += now.saturating_duration_since(since);
                    (self.on_event)(ReceiveEvent::Room);
                    continue;
                }
            };
            self.handle(input, None);
        }
    }

    /// Whether a file that does not have the hash that its frames say is to be hashed in the other way.
    fn hashes_otherwise(&self, file: FileId, hash: [u8; 32], source: &mut Source) -> bool {
        let digest = self.machine.carousel().and_then(|machine| machine.digest(file));
        digest.is_some_and(|digest| digest != hash) && source.hashes_otherwise()
    }

    /// Carries out all that the machine wants. Returns when it wants to be asked again.
    pub fn settle(&mut self, at_hand: Option<AtHand>) -> Option<Instant> {
        loop {
            match self.machine.poll(self.now) {
                Step::Transmit(transmit) => self.carry_out(transmit, at_hand),
                Step::Event(event) => self.note(event),
                Step::Wait(deadline, _) => return deadline,
            }
        }
    }

    fn carry_out(&mut self, transmit: ReceiverTransmit, at_hand: Option<AtHand>) {
        match transmit {
            ReceiverTransmit::Message { .. } if self.line.is_over => {}
            ReceiverTransmit::Message { file, message } => {
                self.figures.requests += u64::from(matches!(message, Message::RetransmissionRequest(_)));
                self.line.outbox.push(file, message);
            }
            ReceiverTransmit::DrainGroup => self.backlog.ask(),
            ReceiverTransmit::Listen => self.line.listens = true,
            ReceiverTransmit::CloseConnection => self.line.closes = true,
            ReceiverTransmit::Announce { file, begin } => self.announced(file, begin),
            ReceiverTransmit::Store { file, range } => {
                at_hand
                    .and_then(|bytes| bytes.place(&range))
                    .into_iter()
                    .for_each(|at| self.keep(file, range.clone(), at));
            }
            ReceiverTransmit::Hash { file } => match self.store.small.hash(file) {
                Some(hash) => self.machine.handle(self.now, ReceiverInput::Hashed { file, hash }),
                None => self.add(Task::Hash { file }),
            },
            ReceiverTransmit::Commit { file } => {
                let whole = self.store.small.take(file).map(Box::new);
                self.add(whole.map_or(Task::Commit { file }, |whole| Task::Make { file, whole }));
                // Small objects are written several at a time. A product of a feed, which comes alone, waits for no other.
                if self.store.small.is_empty() {
                    self.store.intake.hurry();
                }
            }
            // It may be gone on with later.
            ReceiverTransmit::Discard { .. } if self.line.leaves_rest || self.machine.is_cut_short() => {}
            ReceiverTransmit::Discard { file } => self.discard(file),
            ReceiverTransmit::Overwrite { .. }
            | ReceiverTransmit::KeepSymbols { .. }
            | ReceiverTransmit::Decode { .. }
            | ReceiverTransmit::ForgetSymbols { .. }
            | ReceiverTransmit::CheckChunks { .. } => {
                self.task(transmit, at_hand).into_iter().for_each(|task| self.add(task));
            }
            ReceiverTransmit::Tell { .. }
            | ReceiverTransmit::Send { .. }
            | ReceiverTransmit::JoinGroup { .. }
            | ReceiverTransmit::LeaveGroup { .. }
            | ReceiverTransmit::Release { .. } => self.serve_members(transmit),
        }
    }

    /// The task for the disk, if that is all that a transmit asks for.
    fn task(&mut self, transmit: ReceiverTransmit, at_hand: Option<AtHand>) -> Option<Task> {
        let symbol_len = self.block_len;
        Some(match transmit {
            // Where chunks are known to be wrong, all of it differs, and the file would be read in vain.
            ReceiverTransmit::Overwrite { file, range } => {
                let at = at_hand?.place(&range)?;
                if !self.store.compares {
                    self.keep(file, range, at);
                    return None;
                }
                Task::Overwrite { file, range, at }
            }
            ReceiverTransmit::KeepSymbols { file, source_block, positions } => {
                let (at, len) = (at_hand?.place(&positions)?, (positions.end - positions.start) as usize);
                let first = symbol_number(positions.start, symbol_len);
                self.store.small.hand_over(file).into_iter().for_each(|task| self.add(task));
                Task::KeepSymbols { file, source_block, first, symbol_len, at, len }
            }
            ReceiverTransmit::Decode { file, source_block: number, blocks, missing } => {
                Task::Decode { file, source_block: SourceBlock { number, blocks, symbol_len, missing } }
            }
            ReceiverTransmit::ForgetSymbols { file } => Task::ForgetSymbols { file },
            ReceiverTransmit::CheckChunks { file, hash, page } => Task::CheckChunks { file, hash, page },
            _ => return None,
        })
    }

    fn discard(&mut self, file: FileId) {
        // Of one that is not announced, nothing has been taken from there.
        if self.store.begins.contains_key(&file) && !self.store.cramped.contains(&file) {
            self.store.leftovers.forget(file);
        }
        self.carried.admission.give_back(file.index());
        if !self.store.small.discard(file) {
            self.add(Task::Discard { file });
        }
    }

    /// The machine has taken up an object, or has learned that it is another one.
    fn announced(&mut self, file: FileId, begin: BeginOfFile) {
        // A carousel asks nobody whether an object is wanted.
        if self.machine.carousel().is_some() && self.response(file, &begin) == Response::Ignore {
            let input = ReceiverInput::Respond { file, response: Response::Ignore };
            return self.machine.handle(self.now, input);
        }
        let is_index = begin.kind() == ObjectKind::Index;
        let before = self.store.begins.insert(file, begin.clone()).map_or(0, |before| before.file_size);
        self.figures.announced_bytes =
            self.figures.announced_bytes.saturating_sub(before).saturating_add(begin.file_size);
        let stored = self.stored(&begin).map_err(Advised::from).and_then(|stored| {
            self.carried.admission.admit(file.index(), &stored)?;
            Ok(stored)
        });
        let stored = match stored {
            Ok(stored) => stored,
            Err(Advised { line, remedy }) => {
                self.store.remedies.extend(remedy.map(|remedy| (file, remedy)));
                return self.refuse(file, begin, line);
            }
        };
        if !is_index && self.carried.announced.insert(file.index()) {
            let (name, bytes) = (stored.file_name().to_owned(), stored.file_size);
            (self.on_event)(ReceiveEvent::Announced { name, bytes });
        }
        self.announce(file, stored);
        self.trust.announced(file);
    }

    /// An object cannot be stored as it was announced, or as it is to be called here.
    fn refuse(&mut self, file: FileId, begin: BeginOfFile, reason: String) {
        let announced = self.store.begins.get(&file);
        let is_it = |announced: &&BeginOfFile| self.stored(announced).is_ok_and(|stored| stored == begin);
        let begin = announced.filter(is_it).cloned().unwrap_or(begin);
        let knows_hash = self.machine.carousel().is_none_or(|machine| machine.digest(file).is_some());
        match self.trust.group().filter(|_| !knows_hash) {
            // Somebody else may have announced it: it fails when the sender has signed this announcement.
            Some(group) => group.doom(file, begin, reason),
            None => {
                self.machine.handle(self.now, ReceiverInput::AnnouncementRefused { file, begin, reason });
            }
        }
    }

    /// Stores an object, on top of what is there of it from before.
    fn announce(&mut self, file: FileId, begin: BeginOfFile) {
        let kept = self.store.leftovers.kept(&self.store.folder, file, &begin);
        let mut ranges = kept.ranges(begin.file_size);
        let has_index = begin.has_index();
        for task in self.store.small.announce(file, begin, kept) {
            self.add(task);
        }
        ranges.extend(self.store.small.restore(file));
        if has_index && !self.store.small.has(file) {
            self.carried.older.entry(file.index()).or_default();
            self.add(Task::Seed { file, block_len: self.block_len });
            self.store.seeded_next.insert(file, ranges);
            // Most carousels are not told what is lacking, and are not waited for.
            if self.machine.carousel().is_none() || self.line.reports {
                return;
            }
            ranges = self.store.seeded_next.get(&file).cloned().unwrap_or_default();
        }
        self.have(file, ranges);
    }

    fn have(&mut self, file: FileId, ranges: Vec<Range<u64>>) {
        let before = self.machine.received_bytes();
        self.machine.handle(self.now, ReceiverInput::Have { file, ranges });
        self.figures.kept_bytes += self.machine.received_bytes().saturating_sub(before);
    }

    /// Takes note that an older version's part of an object is stored.
    fn seeded(&mut self, file: FileId, copied: Vec<Range<u64>>, why_not: Option<Advised>) {
        let Some(mut ranges) = self.store.seeded_next.remove(&file) else { return };
        let Some(begin) = self.store.begins.get(&file) else { return };
        let bytes = copied.iter().map(|range| range.end - range.start).sum();
        self.carried.older.insert(file.index(), bytes);
        // Whoever has named an older version wants to know that it was of no use.
        if bytes > 0 || why_not.is_some() || self.store.folder.old().is_some() {
            let name = begin.file_name().to_owned();
            (self.on_event)(ReceiveEvent::OlderVersion { name, bytes, why_not });
        }
        ranges.extend(copied);
        self.now = self.clock.now();
        self.have(file, ranges);
        self.settle(None);
    }

    /// The index of another object will not come: nothing waits for it.
    fn give_up_index(&mut self, index: FileId) {
        let file = FileId::new(index.session(), index.index().wrapping_add(1));
        self.add(Task::NoIndex { file });
    }

    /// An object is not wanted, or has ended: its index takes no memory, whenever it comes.
    fn forget_index(&mut self, file: FileId, begin: &BeginOfFile) {
        if begin.has_index() {
            self.add(Task::NoIndex { file });
        }
    }

    /// Keeps bytes that lie at `at` in the batch.
    fn keep(&mut self, file: FileId, range: Range<u64>, at: usize) {
        let bytes = &self.store.intake.batch().bytes()[at..at + (range.end - range.start) as usize];
        if !self.store.small.keep(file, range.start, bytes) {
            self.add(match are_zeros(at) {
                true => Task::KeepZeros { file, range },
                false => Task::Keep { file, range, at },
            });
        }
    }

    /// Adds a task for the storage.
    pub fn add(&mut self, task: Task) {
        self.store.intake.add(self.now, task);
    }

    fn note(&mut self, event: ReceiverEvent) {
        match event {
            ReceiverEvent::Announced { file, begin } => {
                let response = self.response(file, &begin);
                self.machine.handle(self.now, ReceiverInput::Respond { file, response });
            }
            // Its name is not known yet; once it is, the machine asks again.
            ReceiverEvent::EndOfFileOnly { file } => {
                let input = ReceiverInput::Respond { file, response: Response::Accept };
                self.machine.handle(self.now, input);
            }
            ReceiverEvent::Received { file, begin } => {
                self.forget(file);
                // Under a name that cannot be, nothing has been received.
                let name = self.stored(&begin).as_ref().unwrap_or(&begin).file_name().to_owned();
                let (kind, bytes) = (begin.kind(), begin.file_size);
                self.note_received(file, name, kind, bytes);
            }
            ReceiverEvent::Failed { file, reason, discarded_bytes } => {
                self.note_failed(file, reason, discarded_bytes)
            }
            ReceiverEvent::Called { group } => self.effects.push(Effect::Move(group)),
            ReceiverEvent::Closed { reason } => {
                let remedy = match &reason {
                    Some(CutShort::Silent(_)) => Some(Remedy::Patience),
                    _ => self.line.remedy,
                };
                self.figures.summary.cut_short =
                    reason.map(|reason| Advised { line: reason.to_string(), remedy });
                self.line.closed = true;
            }
        }
    }

    /// The decision whether an object is taken, and under which name.
    fn choice(&self, begin: &BeginOfFile) -> Choice {
        let offer = Offer { name: begin.file_name(), bytes: begin.file_size };
        self.store.chooser.as_ref().map_or(Choice::Take, |chooser| chooser.choose(offer))
    }

    /// An object as it is to be stored: under its own name or another one.
    ///
    /// # Errors
    /// If it cannot have that name.
    pub(super) fn stored(&self, begin: &BeginOfFile) -> Result<BeginOfFile, String> {
        match self.choice(begin) {
            // An index has no name here.
            Choice::TakeAs(name) if begin.kind() != ObjectKind::Index => {
                begin.renamed(&name).map_err(|error| format!("it cannot be called {name:?} here: {error}"))
            }
            _ => Ok(begin.clone()),
        }
    }

    /// Whether an object is wanted. One that is not is counted and told once.
    pub fn wants(&mut self, file: FileId, begin: &BeginOfFile) -> bool {
        let wanted = self.choice(begin) != Choice::Refuse;
        if !wanted && self.figures.not_wanted.insert(file) {
            (self.on_event)(ReceiveEvent::Ignored { name: begin.file_name().to_owned(), exists: false });
        }
        wanted
    }

    /// Whether an object is wanted.
    fn response(&mut self, file: FileId, begin: &BeginOfFile) -> Response {
        let is_index = begin.kind() == ObjectKind::Index;
        let wanted = if is_index { self.choice(begin) != Choice::Refuse } else { self.wants(file, begin) };
        // Under a name that cannot be, it is refused when it is to be stored.
        let stored = self.stored(begin).unwrap_or_else(|_| begin.clone());
        let kept = self.store.leftovers.kept(&self.store.folder, file, &stored);
        let exists =
            wanted && self.carried.admission.is_kept_out(&self.store.folder, file.index(), &stored, &kept);
        if wanted && !exists {
            return Response::Accept;
        }
        if is_index {
            self.give_up_index(file);
            return Response::Ignore;
        }
        self.forget_index(file, begin);
        self.store.small.forget_left(file);
        if exists {
            (self.on_event)(ReceiveEvent::Ignored { name: stored.file_name().to_owned(), exists });
        }
        Response::Ignore
    }

    /// The number of objects of a feed that were over when this receiver came, and did not come later. An earlier sender of the session
    /// used numbers of an earlier step.
    pub fn missed(&self) -> u64 {
        // A receiver that has come again, and chooses, does not know any more which of them were not wanted.
        if !self.store.is_feed || self.carried.has_come_back && self.store.chooser.is_some() {
            return 0;
        }
        let first = self.line.first;
        let is_known = |index: &u32| {
            let file = FileId::new(self.session, *index);
            self.carried.ended.contains_key(index)
                || self.figures.not_wanted.contains(&file)
                || self.store.begins.contains_key(&file)
        };
        let unknown = (first - first % FEED_STEP..first).filter(|index| !is_known(index)).count() as u64;
        unknown.saturating_sub(self.carried.admission.existing())
    }

    fn note_failed(&mut self, file: FileId, reason: String, discarded_bytes: u64) {
        self.figures.summary.limit =
            self.figures.summary.limit.or(self.carried.admission.limit(file.index()));
        if self.line.leaves_rest {
            // It has not failed: a later receiver goes on with it.
            return;
        }
        let reason = Advised { line: reason, remedy: self.store.remedies.remove(&file) };
        let begin = self.forget(file);
        if begin.as_ref().is_some_and(|begin| begin.kind() == ObjectKind::Index) {
            return self.give_up_index(file);
        }
        if begin.is_none()
            && let Some((name, kind, bytes)) = self.store.leftovers.whole(&self.store.folder, file)
        {
            // It was done before this receiver came again, which has it.
            return self.note_received(file, name, kind, bytes);
        }
        if self.carried.ended.get(&file.index()) == Some(&true) {
            return;
        }
        self.figures.failed_bytes += begin.as_ref().map_or(0, |begin| begin.file_size);
        let name = begin.map(|begin| begin.file_name().to_owned());
        let name = name
            .unwrap_or_else(|| format!("file {} of the session, whose name has not come", file.index() + 1));
        if self.machine.is_cut_short() && self.line.comes_back {
            return self.figures.failing.push((file, name, reason));
        }
        if self.carried.ended.insert(file.index(), false).is_none() {
            self.figures.summary.failed += 1;
        }
        (self.on_event)(ReceiveEvent::Failed { name, reason, discarded_bytes });
    }

    /// The object is there: it is told and counted once, over however many connections.
    fn note_received(&mut self, file: FileId, name: String, kind: ObjectKind, bytes: u64) {
        if kind == ObjectKind::Index {
            return;
        }
        let before = self.carried.ended.insert(file.index(), true);
        if before == Some(false) {
            self.figures.summary.failed -= 1;
        }
        if before != Some(true) {
            let event = self.figures.summary.note_received(name, kind, bytes);
            (self.on_event)(event);
        }
    }

    /// The object has ended here. Returns what it was announced as.
    fn forget(&mut self, file: FileId) -> Option<BeginOfFile> {
        self.figures.ended_at = Some(self.now);
        self.trust.forget(file);
        self.store.small.discard(file);
        self.store.seeded_next.remove(&file);
        let begin = self.store.begins.remove(&file)?;
        self.forget_index(file, &begin);
        Some(begin)
    }
}
