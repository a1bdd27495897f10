//! Local groups: the sender's socket as a member, proofs of what blocks are, and figures. The machine keeps to the rate by itself, so what it hands out leaves at once.

use std::{collections::BTreeMap, net::SocketAddr, ops::Range};

use treecast_host::poller::{Interest, Poller};
use treecast_proto::{
    Instant,
    local::Sender,
    object::{Address, ReceiverId, SenderEvent, SenderInput},
};
use treecast_wire::{
    header::{FileId, Header, PacketType},
    message::{Member, Message},
};

use super::{
    super::{LocalSending, Plan, SendError, lane::Target},
    MEMBERS, config,
    core::Core,
    lanes::Lanes,
    objects::Objects,
};
use crate::{
    local::{Post, member, own_address},
    seal::Opener,
    udp::{Batch, Collector, Item},
    words::counted,
};

/// The most calls to the kernel that read what members say before packets leave again.
const READS_A_TURN: usize = 64;

/// The state that only a session with local groups has.
#[derive(Debug)]
pub(super) struct Local {
    pub post: Post,
    collector: Collector,
    batch: Batch,
    /// The blocks whose proof has left for the session's group last.
    proved: Option<(FileId, Range<u64>)>,
    /// Bytes of blocks that are signed together. `None` in a plain session.
    signed_bytes: Option<u64>,
    /// Whether any receiver has come.
    has_members: bool,
    /// The largest number of receivers so far.
    most_receivers: u32,
    /// The number of objects that receivers have given up, as they said before the sender's Goodbye.
    given_up: u32,
    /// The addresses at which receivers want copies, on a fanout without multicast.
    pub listeners: BTreeMap<ReceiverId, SocketAddr>,
}

impl Local {
    /// Opens the sender's socket as a member.
    pub fn open(plan: &Plan, poller: &Poller) -> Result<Self, SendError> {
        let (block_len, offload) = (plan.block_len, plan.options.network.offload);
        let own = (block_len, plan.secret.as_ref());
        let at = SocketAddr::new(own_address(&plan.group.interface, plan.group.group.ip()), 0);
        let post = Post::open(&plan.group, at, plan.options.network.hops, offload, own)?;
        let opener = plan.secret.clone().map(Opener::with_secret);
        let collector = Collector::new(post.ear()?, offload, block_len, opener)?;
        poller.add(collector.socket(), MEMBERS, Interest::Read)?;
        let signed = config::signed_blocks(plan, plan.options.rate().fixed_bps());
        Ok(Self {
            post,
            collector,
            batch: Batch::default(),
            proved: None,
            has_members: false,
            most_receivers: 0,
            given_up: 0,
            listeners: BTreeMap::new(),
            signed_bytes: signed.map(|blocks| blocks as u64 * u64::from(block_len)),
        })
    }

    /// The address at which a receiver wants copies, with the scope that a link-local one needs.
    fn scoped(&self, at: SocketAddr) -> SocketAddr {
        self.post.address(Address::Member(Member(at)))
    }

    /// The address at which a receiver wants copies, as its name.
    pub fn listener(&self, receiver: ReceiverId) -> Option<String> {
        self.listeners.get(&receiver).map(SocketAddr::to_string)
    }

    pub fn me(&self) -> Member {
        self.post.me()
    }

    /// Hands the machine what members have said.
    pub fn hear(&mut self, now: Instant, lanes: &mut Lanes, core: &mut Core<'_>) -> Result<(), SendError> {
        for _ in 0..READS_A_TURN {
            let Some(from) = self.collector.receive_from(&mut self.batch)? else { break };
            let items = self.batch.take_items();
            self.batch.clear();
            let from = member(from);
            for item in items {
                match item {
                    Item::Message { message: Message::Heard(heard), .. } => {
                        let listener = core.machine.local().and_then(|machine| machine.listener(from));
                        if let Some(listener) = listener {
                            lanes.heard(now, listener, 0, heard, core);
                        }
                    }
                    Item::Message { file, message } => {
                        core.handle(now, SenderInput::Local { from, file, message });
                    }
                    _ => {}
                }
            }
        }
        if let Some(machine) = core.machine.local() {
            self.most_receivers = self.most_receivers.max(machine.receivers());
            if !machine.is_leaving() {
                self.given_up = machine.given_up();
            }
        }
        Ok(())
    }

    /// Notes what the machine has told: a first receiver has come.
    pub fn note(&mut self, event: &SenderEvent) {
        self.has_members |= *event == SenderEvent::Started;
    }

    /// Begins a feed when enough receivers are there: its first object may come much later. Begins with those who are there, or fails
    /// when too few have come, after the time for which the user waits.
    pub fn look(
        &mut self,
        now: Instant,
        plan: &mut Plan,
        has_feed: bool,
        core: &mut Core<'_>,
    ) -> Result<(), SendError> {
        let (wanted, waited) = (plan.options.start.wait_for, plan.options.start.wait_timeout);
        let has_enough = self.has_members && (wanted <= 1 || core.figures.started.is_some());
        if !has_enough && now >= Instant::ZERO + waited {
            let joined = core.machine.local().map_or(0, |machine| machine.receivers());
            let (seconds, at_least) = (waited.as_secs(), plan.options.start.wait_at_least);
            if at_least.is_none_or(|at_least| joined < at_least) {
                return Err(SendError::NoReceivers {
                    joined,
                    wanted,
                    at_least,
                    seconds,
                    missing: Vec::new(),
                });
            }
            // From now on that many are enough.
            plan.options.start.wait_for = 1;
            if let Some(machine) = core.machine.local_mut() {
                machine.begin_with(at_least.unwrap_or(joined));
            }
            let of = counted(wanted as usize, "receiver");
            core.warn(format!("{joined} of {of} came within {seconds} s: it starts with them"));
            core.wake();
        }
        let wanted = plan.options.start.wait_for;
        let are_there = |machine: &Sender| wanted <= 1 || machine.receivers() >= wanted;
        if self.has_members && has_feed && core.machine.local().is_some_and(are_there) {
            core.start(now, false);
        }
        Ok(())
    }

    /// Sends proofs of what blocks are to the session's group, before the blocks. Also sends blocks that have been sent before. Returns
    /// whether the blocks are still to be sent.
    pub fn prove(
        &mut self,
        now: Instant,
        first: Header,
        len: usize,
        objects: &mut Objects,
        lanes: &mut Lanes,
        core: &mut Core<'_>,
    ) -> Result<bool, SendError> {
        if first.kind == PacketType::Data {
            let proof = self.proof_ahead(first, len, objects.sources.size(first.file_id));
            if let Some(bytes) = proof.and_then(|len| objects.read_for_repair(now, &first, len, core)) {
                send_pages(now, first, &bytes, objects, lanes, core)?;
            }
            return Ok(true);
        }
        if let Some(run) = objects.read_for_repair(now, &first, len, core) {
            send_pages(now, first, &run, objects, lanes, core)?;
            lanes.send_blocks(now, 0, first, &run, core)?;
        }
        Ok(false)
    }

    /// The number of bytes from the beginning of a run on that are to be proved now: the run, and as many more blocks
    /// as are signed together. `None` if the run is proved already. The object has `size` bytes.
    fn proof_ahead(&mut self, first: Header, len: usize, size: u64) -> Option<usize> {
        let run = first.sequence..first.sequence + len as u64;
        let is_proved = |(file, proved): &(FileId, Range<u64>)| {
            *file == first.file_id && proved.start <= run.start && run.end <= proved.end
        };
        let signed_bytes = self.signed_bytes?;
        if self.proved.as_ref().is_some_and(is_proved) {
            return None;
        }
        let end = size.min((run.start + signed_bytes).max(run.end));
        self.proved = Some((first.file_id, run.start..end));
        Some((end - run.start) as usize)
    }

    /// Sends blocks again to a local group, or to one member.
    pub fn mend(
        &mut self,
        now: Instant,
        to: Address,
        (first, len): (Header, usize),
        objects: &mut Objects,
        core: &mut Core<'_>,
    ) {
        let Some(run) = objects.read_for_repair(now, &first, len, core) else { return };
        let page = objects.manifests.pages(&first, &run).into_iter().next();
        page.into_iter().for_each(|page| self.post.tell_all(to, &[page]));
        self.post.send_blocks(to, first, &run);
    }

    /// Sends copies to a member at an address, or none any more.
    pub fn send_copies(
        &mut self,
        now: Instant,
        receiver: ReceiverId,
        at: Option<SocketAddr>,
        lanes: &mut Lanes,
        core: &mut Core<'_>,
    ) {
        let at = at.map(|at| self.scoped(at));
        let before = match at {
            Some(at) => self.listeners.insert(receiver, at),
            None => self.listeners.remove(&receiver),
        };
        match (&mut lanes.ways, at) {
            (None, _) => {
                let listeners = self.listeners.values().copied();
                lanes.aim(0, listeners.map(Target::Receiver).collect());
            }
            (Some(ways), None) => ways.leave_named(now, receiver.0),
            (Some(ways), Some(at)) => {
                if before.is_some() {
                    ways.leave_named(now, receiver.0);
                }
                if !ways.join_named(now, receiver.0, at).unwrap_or(false) && before.is_none() {
                    lanes.warn_of_unreachable(&at.to_string(), at.ip(), core);
                }
            }
        }
    }

    /// Counts the receivers that have gone before the session was done with all objects.
    pub fn count_deserters(&self, core: &mut Core<'_>) {
        if core.figures.objects_done < core.figures.summary.objects {
            core.figures.summary.others_failed = u64::from(self.most_receivers.max(1));
        }
    }

    /// The progress of the local groups so far.
    pub fn progress(&self, core: &Core<'_>) -> Option<LocalSending> {
        let machine = core.machine.local()?;
        let figures = machine.figures();
        Some(LocalSending {
            receivers: self.most_receivers,
            clients: machine.clients() as u64,
            session_repair_bytes: figures.session_repair_bytes,
            group_repair_bytes: figures.group_repair_bytes,
            reports: figures.reports,
            requests: figures.requests,
            others: figures.others,
            late_objects: self.given_up,
        })
    }
}

/// Sends the proofs of these blocks to the session's group.
fn send_pages(
    now: Instant,
    first: Header,
    blocks: &[u8],
    objects: &Objects,
    lanes: &mut Lanes,
    core: &mut Core<'_>,
) -> Result<(), SendError> {
    let mut pages = objects.manifests.pages(&first, blocks).into_iter();
    pages.try_for_each(|page| lanes.send_packet(now, 0, page, core))
}
