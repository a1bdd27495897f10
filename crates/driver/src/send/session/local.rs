//! The parts of a session that only one with local groups has: the sender's socket as a member, proofs of what blocks are,
//! and figures. The machine keeps to the rate by itself, so what it hands out leaves at once.

use std::{collections::BTreeMap, net::SocketAddr, ops::Range, time::Duration};

use treecast_host::poller::{Interest, Poller};
use treecast_proto::{
    Instant,
    object::{Address, Destination, ReceiverId, SenderInput},
};
use treecast_wire::{
    header::{FileId, Header, PacketType},
    message::{Member, Message},
};

use super::{
    super::{LocalSending, Plan, SendError, SendEvent},
    MEMBERS, Session, config,
};
use crate::{
    local::{Post, member, own_address},
    seal::Opener,
    udp::{Batch, Collector, Item},
};

/// How many calls to the kernel read what members say before packets leave again.
const READS_A_TURN: usize = 64;

/// How many times an interrupted sender says Goodbye.
const GOODBYES: usize = 3;

#[derive(Debug)]
pub(super) struct Local {
    pub post: Post,
    collector: Collector,
    batch: Batch,
    /// The blocks whose proof has left for the session's group last.
    proved: Option<(FileId, Range<u64>)>,
    /// Whether any receiver has come.
    has_members: bool,
    /// The largest number of receivers so far.
    most_receivers: u32,
    /// The number of objects that receivers have given up, as they said before the sender's Goodbye.
    given_up: u32,
    /// Where receivers want copies, on a fanout without multicast.
    pub listeners: BTreeMap<ReceiverId, SocketAddr>,
}

impl Local {
    /// Opens the sender's socket as a member. `None` for every other repair.
    pub fn open(plan: &Plan, poller: &Poller) -> Result<Option<Self>, SendError> {
        if plan.options.repair.local().is_none() {
            return Ok(None);
        }
        let (block_len, offload) = (plan.block_len, plan.options.offload);
        let own = (block_len, plan.secret.as_ref());
        let at = SocketAddr::new(own_address(&plan.group.interface, plan.group.group.ip()), 0);
        let post = Post::open(&plan.group, at, plan.options.hops, offload, own)?;
        let opener = plan.secret.clone().map(Opener::with_secret);
        let collector = Collector::new(post.ear()?, offload, block_len, opener)?;
        poller.add(collector.socket(), MEMBERS, Interest::Read)?;
        Ok(Some(Self {
            post,
            collector,
            batch: Batch::default(),
            proved: None,
            has_members: false,
            most_receivers: 0,
            given_up: 0,
            listeners: BTreeMap::new(),
        }))
    }

    /// The address at which a receiver wants copies, with the scope that a link-local one needs.
    pub fn scoped(&self, at: SocketAddr) -> SocketAddr {
        self.post.address(Address::Member(Member(at)))
    }

    pub fn me(&self) -> Member {
        self.post.me()
    }
}

impl Session<'_> {
    /// Takes up all objects.
    pub(super) fn open_local(&mut self) -> Result<(), SendError> {
        let now = self.clock.now();
        for (index, named) in (0..).zip(std::mem::take(&mut self.plan.sources)) {
            let (file, size) = (FileId::new(self.plan.session, index), named.source.size());
            self.objects.sources.add(file, named);
            if size == 0 {
                self.hash_if_read(now, file);
            }
        }
        Ok(())
    }

    /// Hands the machine what members have said.
    pub(super) fn hear_members(&mut self) -> Result<(), SendError> {
        let now = self.clock.now();
        for _ in 0..READS_A_TURN {
            let Some(local) = &mut self.local else { return Ok(()) };
            let Some(from) = local.collector.receive_from(&mut local.batch)? else { break };
            let items = local.batch.take_items();
            local.batch.clear();
            for item in items {
                if let Item::Message { file, message } = item {
                    self.hear_member(now, member(from), file, message);
                }
            }
        }
        let Some(machine) = self.machine.local() else { return Ok(()) };
        if let Some(local) = &mut self.local {
            local.most_receivers = local.most_receivers.max(machine.receivers());
            if !machine.is_leaving() {
                local.given_up = machine.given_up();
            }
        }
        Ok(())
    }

    fn hear_member(&mut self, now: Instant, from: Member, file: FileId, message: Message) {
        match message {
            Message::Heard(heard) => {
                let listener = self.machine.local().and_then(|machine| machine.listener(from));
                listener.into_iter().for_each(|listener| self.heard(now, listener, heard));
            }
            message => self.handle(now, SenderInput::Local { from, file, message }),
        }
    }

    /// A first receiver has come.
    pub(super) fn note_members(&mut self) {
        self.local.iter_mut().for_each(|local| local.has_members = true);
    }

    /// A feed has begun when enough receivers are there: its first object may come much later.
    pub(super) fn begin_local_feed(&mut self, now: Instant) {
        let has_members = self.local.as_ref().is_some_and(|local| local.has_members);
        if has_members && self.objects.feed.is_some() && self.has_wanted_members() {
            self.note_started(now);
        }
    }

    fn has_wanted_members(&self) -> bool {
        let wanted = self.plan.options.wait_for;
        wanted <= 1 || self.machine.local().is_some_and(|machine| machine.receivers() >= wanted)
    }

    /// Tells that the session begins, the first time.
    fn note_started(&mut self, now: Instant) {
        if self.figures.started.is_none() {
            self.figures.started = Some(now);
            let (objects, bytes) = (self.figures.summary.objects, self.figures.total_bytes);
            (self.on_event)(SendEvent::Started { objects, bytes, is_presumed: false });
        }
    }

    /// Begins with those who are there, or fails when too few have come, after the time for which the user waits.
    pub(super) fn give_up_members(&mut self, now: Instant) -> Result<(), SendError> {
        let (wanted, waited) = (self.plan.options.wait_for, self.plan.options.wait_timeout);
        let has_enough = |local: &Local| local.has_members && (wanted <= 1 || self.figures.started.is_some());
        let lacks_some = self.local.as_ref().is_some_and(|local| !has_enough(local));
        if !lacks_some || now < Instant::ZERO + waited {
            return Ok(());
        }
        let joined = self.machine.local().map_or(0, |machine| machine.receivers());
        let (seconds, at_least) = (waited.as_secs(), self.plan.options.wait_at_least);
        if at_least.is_none_or(|at_least| joined < at_least) {
            return Err(SendError::NoReceivers { joined, wanted, at_least, seconds, missing: Vec::new() });
        }
        // From now on that many are enough.
        self.plan.options.wait_for = 1;
        self.machine
            .local_mut()
            .into_iter()
            .for_each(|machine| machine.begin_with(at_least.unwrap_or(joined)));
        let line = format!("{joined} of {wanted} receivers came within {seconds} s: it starts with them");
        (self.on_event)(SendEvent::Warning(line));
        self.has_news = true;
        Ok(())
    }

    /// Sends blocks to the session's group, for the first time or again, behind a proof of what they are.
    pub(super) fn send_proved(&mut self, now: Instant, first: Header, len: usize) -> Result<(), SendError> {
        self.note_started(now);
        let (file, range) = (first.file_id, first.sequence..first.sequence + len as u64);
        if first.kind == PacketType::Data {
            self.prove_ahead(now, first, &range)?;
            return self.multicast(now, first, len);
        }
        let Some(run) = self.read_for_repair(now, &first, len) else { return Ok(()) };
        self.send_pages(now, first, &run)?;
        let number = self.number_packets(now, 0, len.div_ceil(self.plan.block_len.into()) as u64)?;
        self.lanes.group.send_blocks(now, 0, Header { number, file_id: file, ..first }, &run)?;
        Ok(())
    }

    /// Has a page of proofs leave that covers a run, and as many more blocks as are signed together.
    fn prove_ahead(&mut self, now: Instant, first: Header, run: &Range<u64>) -> Result<(), SendError> {
        let Some(local) = &mut self.local else { return Ok(()) };
        let is_proved = |(file, proved): &(FileId, Range<u64>)| {
            *file == first.file_id && proved.start <= run.start && run.end <= proved.end
        };
        let Some(blocks) = config::signed_blocks(&self.plan, self.plan.options.rate.fixed_bps()) else {
            return Ok(());
        };
        if local.proved.as_ref().is_some_and(is_proved) {
            return Ok(());
        }
        let size = self.objects.sources.size(first.file_id);
        let signed = blocks as u64 * u64::from(self.plan.block_len);
        let range = run.start..size.min((run.start + signed).max(run.end));
        local.proved = Some((first.file_id, range.clone()));
        let Some(bytes) = self.read_for_repair(now, &first, (range.end - range.start) as usize) else {
            return Ok(());
        };
        self.send_pages(now, first, &bytes)
    }

    /// Sends the proofs of these blocks to the session's group.
    fn send_pages(&mut self, now: Instant, first: Header, blocks: &[u8]) -> Result<(), SendError> {
        for mut page in self.pages(&first, blocks) {
            treecast_wire::header::set_number(&mut page, self.number_packets(now, 0, 1)?);
            self.lanes.group.send_message(now, 0, &page)?;
        }
        Ok(())
    }

    /// Sends blocks again to a local group, or to one member.
    pub(super) fn mend_group(&mut self, now: Instant, to: Address, first: Header, len: usize) {
        let Some(run) = self.read_for_repair(now, &first, len) else { return };
        let page = self.pages(&first, &run).into_iter().next();
        let Some(local) = &mut self.local else { return };
        page.into_iter().for_each(|page| local.post.tell(to, &page));
        local.post.send_blocks(to, first, &run);
    }

    /// Reads blocks out of order. An object that cannot be read is withdrawn.
    fn read_for_repair(&mut self, now: Instant, first: &Header, len: usize) -> Option<Vec<u8>> {
        let mut run = vec![0; len];
        match self.objects.sources.read_any(first.file_id, first.sequence, &mut run) {
            Ok(()) => Some(run),
            Err(error) => {
                self.withdraw(now, first.file_id, &error);
                None
            }
        }
    }

    /// Says that the sender stops.
    pub(super) fn say_goodbye(&mut self, now: Instant) -> Result<(), SendError> {
        for _ in 0..GOODBYES {
            self.send_message(now, Destination::Group, FileId::new(self.plan.session, 0), &Message::Goodbye)?;
            self.flush_gathered(now)?;
            // Copies leave as the rate allows.
            let _ = self.group_waits(now);
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Counts the receivers that have gone before the session was done with all objects.
    pub(super) fn count_deserters(&mut self) {
        let Some(local) = &self.local else { return };
        if self.figures.objects_done < self.figures.summary.objects {
            self.figures.summary.others_failed = u64::from(local.most_receivers.max(1));
        }
    }

    pub(super) fn local_progress(&self) -> Option<LocalSending> {
        let machine = self.machine.local()?;
        let figures = machine.figures();
        Some(LocalSending {
            receivers: self.local.as_ref().map_or(0, |local| local.most_receivers),
            clients: machine.clients() as u64,
            session_repair_bytes: figures.session_repair_bytes,
            group_repair_bytes: figures.group_repair_bytes,
            reports: figures.reports,
            requests: figures.requests,
            others: figures.others,
            late_objects: self.local.as_ref().map_or(0, |local| local.given_up),
        })
    }
}
