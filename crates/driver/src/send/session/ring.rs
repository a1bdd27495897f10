//! The parts of a session that only a carousel has: it watches for listeners, signs its blocks, and sends
//! copies to named receivers.
//!
//! A run of blocks is read once. If blocks are signed, a run is as long as a page of their hashes. The run then
//! leaves in several bursts after that page.

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    ops::Range,
    time::Duration,
};

use treecast_host::{poller::Interest, stop::Stop};
use treecast_proto::{
    Instant,
    carousel::{block_hash, copies},
    object::{Destination, SenderEvent, SenderInput},
};
use treecast_wire::{
    header::{self, FileId, Header, PacketType},
    message::{BlockHashes, ChunkHashes, Message},
};

use super::{
    super::{
        Repair, SendError, SendEvent,
        hashing::Hashing,
        lane::Target,
        repair::{CarouselOptions, Dialect},
    },
    AUDIENCE, HASHES, Session, config,
    named::{Named, NamedReceiver},
    reports::Reports,
};
use crate::{
    carousel::{FrameSender, ListenerWatch, OwnListeners},
    udp::GroupAddress,
    zeros::{Stretch, first_stretch},
};

/// How often listeners are looked for while packets go out.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub(super) struct Ring {
    options: CarouselOptions,
    /// What is known of the receivers that are named.
    named: Named,
    /// Hears what receivers lack. `None` where they do not tell.
    pub reports: Option<Reports>,
    /// Hears who listens, for each group. Empty where nobody can be heard.
    watches: Vec<ListenerWatch>,
    /// Who listens on the loopback interface, in place of `watches`.
    own_listeners: Option<OwnListeners>,
    next_look: Instant,
    /// Numbers the IoT updater's frames, for each group. Empty in treecast's own dialect.
    frames: Vec<FrameSender>,
    /// The runs that are on their way, by group.
    pending: BTreeMap<u8, Pending>,
    /// Bytes of blocks that leave at once.
    burst_len: usize,
    /// Bytes of objects that have left, in all loops together.
    sent_bytes: u64,
    /// When the last of them left.
    sent_at: Instant,
    loops: u64,
    /// When the last of them was complete.
    looped_at: Instant,
}

/// A run that has been read and has not left whole.
#[derive(Debug)]
struct Pending {
    first: Header,
    run: Vec<u8>,
    /// How much of the run has left, in bytes.
    left: usize,
    /// Packets that say what the blocks are. They leave first.
    pages: Vec<Vec<u8>>,
}

impl Ring {
    /// Takes note of who has reported what it lacks.
    pub fn reported(&mut self, now: Instant, address: IpAddr) {
        self.named.reported(now, address);
    }

    /// Looks for listeners in the next turn.
    pub fn look_now(&mut self) {
        self.next_look = Instant::ZERO;
    }

    /// The time when there is something to do even if nothing comes. `is_first`: nobody has listened yet.
    pub fn deadline(&self, is_first: bool) -> Option<Instant> {
        let give_up = self.options.wait_timeout.filter(|_| is_first && !self.watches.is_empty());
        let give_up = give_up.map(|patience| Instant::ZERO + patience);
        let own = self.own_listeners.as_ref().map(|_| self.next_look);
        self.watches.iter().map(ListenerWatch::deadline).chain(give_up).chain(own).min()
    }

    /// The bytes of objects that have left, and the number of complete loops.
    pub fn figures(&self) -> (u64, u64) {
        (self.sent_bytes, self.loops)
    }

    /// What is known of the named receivers, in a carousel whose first packet left at `started`.
    pub fn named(&self, now: Instant, started: Option<Instant>) -> Vec<NamedReceiver> {
        let sending = started.map(|started| self.looped_at.saturating_duration_since(started));
        let loops = u32::try_from(self.loops).unwrap_or(u32::MAX);
        self.named.told(now, sending.and_then(|time| time.checked_div(loops)))
    }

    /// The time when the last bytes of an object left.
    pub fn sent_at(&self) -> Instant {
        self.sent_at
    }

    /// Announces that this router has left the link.
    pub fn leave(&mut self) {
        self.watches.iter_mut().for_each(ListenerWatch::leave);
    }
}

impl Session<'_> {
    /// Takes up all objects, and begins to hear who listens.
    pub(super) fn open_ring(&mut self, reports: Option<Reports>) -> Result<(), SendError> {
        let Repair::Carousel(options) = self.plan.options.repair.clone() else { return Ok(()) };
        let mut ring = Ring {
            named: Named::new(&self.plan.options.receivers),
            reports,
            watches: Vec::new(),
            own_listeners: None,
            next_look: Instant::ZERO,
            frames: Vec::new(),
            pending: BTreeMap::new(),
            burst_len: config::packets_per_run(&self.plan, self.plan.options.rate.fixed_bps())
                * usize::from(self.plan.block_len),
            sent_bytes: 0,
            sent_at: Instant::ZERO,
            loops: 0,
            looped_at: Instant::ZERO,
            options,
        };
        if self.plan.options.fanout.has_group() {
            self.open_watches(&mut ring);
        }
        let session = self.plan.session;
        let sources = std::mem::take(&mut self.plan.sources);
        let sources: Vec<_> =
            (0..).zip(sources).map(|(index, named)| (FileId::new(session, index), named)).collect();
        if ring.options.dialect == Dialect::Session {
            let twins = sources.iter().map(|(file, named)| (*file, named.source.twin())).collect();
            let hashing = Hashing::start(twins)?;
            self.poller.add(hashing.waker(), HASHES, Interest::Read)?;
            self.objects.hashing = Some(hashing);
        }
        sources.into_iter().for_each(|(file, named)| self.objects.sources.add(file, named));
        self.ring = Some(ring);
        self.address_named()
    }

    /// Opens what hears listeners. Where nobody can be heard, somebody is taken to listen.
    fn open_watches(&mut self, ring: &mut Ring) {
        let interface = &self.plan.group.interface;
        if interface.is_loopback {
            let groups = self.plan.group_addresses().into_iter().map(|group| group.ip()).collect();
            ring.own_listeners = Some(OwnListeners::new(&interface.name, groups));
            return;
        }
        for group in self.plan.group_addresses() {
            let group = GroupAddress { group, ..self.plan.group.clone() };
            let opened = ListenerWatch::open(&group, Instant::ZERO).map_err(|error| error.to_string());
            let opened = opened.and_then(|watch| {
                let added = watch
                    .sockets()
                    .iter()
                    .try_for_each(|socket| self.poller.add(socket, AUDIENCE, Interest::Read));
                added.map(|()| watch).map_err(|error| error.to_string())
            });
            match opened {
                Ok(watch) => ring.watches.push(watch),
                Err(error) => {
                    ring.watches.clear();
                    let line = format!("{error}: sending on, whether anybody listens or not");
                    return self.plan.warnings.push(line);
                }
            }
        }
    }

    /// Has the receivers that are named get copies.
    fn address_named(&mut self) -> Result<(), SendError> {
        let now = self.clock.now();
        let port = self.plan.ticket(Vec::new()).own_port();
        if let Some(copies) = self.lanes.group.copies(0) {
            copies.hear_errors();
        }
        let named = self.plan.options.receivers.iter().map(|ip| SocketAddr::new(*ip, port));
        let named: Vec<SocketAddr> = named.collect();
        let Some(ways) = &mut self.lanes.ways else {
            self.lanes.group.set_targets(0, named.into_iter().map(Target::Receiver).collect());
            return Ok(());
        };
        for (number, address) in (0..).zip(named) {
            ways.join_named(now, number, address)?;
        }
        self.turn_ways(now);
        self.follow_plan(now);
        Ok(())
    }

    /// The IoT updater's frames carry the hash, so it comes before the first of them.
    pub(super) fn hash_for_frames(&mut self, stop: &Stop) -> Result<(), SendError> {
        let Some(ring) = &mut self.ring else { return Ok(()) };
        let Dialect::Iotup(kind) = ring.options.dialect else { return Ok(()) };
        let file = FileId::new(self.plan.session, 0);
        let Some(source) = self.objects.sources.source(file) else { return Ok(()) };
        let mut hasher = kind.hasher();
        source.read_all(|| !stop.is_requested(), |run| hasher.update(run))?;
        let frames = FrameSender { file_size: source.size(), hash: hasher.finish(), sequence: 0 };
        ring.frames = vec![frames; self.lanes.slower.len() + 1];
        Ok(())
    }

    /// Tells the machine who listens, when it is time to look.
    pub(super) fn look_for_listeners(&mut self, now: Instant) -> Result<(), SendError> {
        let awaits_routers = self.awaits_routers();
        let Some(ring) = self.ring.as_mut().filter(|ring| now >= ring.next_look) else { return Ok(()) };
        ring.next_look = now + LOOK_INTERVAL;
        let mut present = Vec::new();
        for watch in &mut ring.watches {
            present.push(watch.look(now)?);
        }
        if let Some(own) = &mut ring.own_listeners {
            present = own.look();
        } else if ring.watches.is_empty() {
            present = vec![self.plan.options.fanout.has_group(); self.lanes.slower.len() + 1];
        }
        if let Some(ways) = &mut self.lanes.ways {
            ways.note_listeners(now, present[0]);
        }
        present[0] |= !self.plan.options.receivers.is_empty() && !awaits_routers;
        for (group, present) in (0..).zip(present) {
            self.machine.handle(now, SenderInput::Listeners { group, present });
        }
        self.has_news = true;
        self.look_for_named(now);
        self.give_up_waiting(now)
    }

    /// Notes which named receivers are gone. Ends the carousel when all of them have been gone for the idle time: where
    /// there is a group, others may listen to it.
    pub(super) fn look_for_named(&mut self, now: Instant) {
        let (Some(ring), Some(_)) = (&mut self.ring, self.figures.started) else { return };
        let Some(copies) = self.lanes.group.as_copies() else { return };
        let left_bytes = copies.left_bytes().iter().sum();
        ring.named.note(now, left_bytes, &copies.take_errors());
        let gone = ring.named.all_gone().filter(|_| !self.plan.options.fanout.has_group());
        if gone.is_some_and(|since| now >= since + ring.options.idle) {
            self.handle(now, SenderInput::Close);
        }
    }

    /// Fails when nobody has listened for as long as the user waits.
    fn give_up_waiting(&self, now: Instant) -> Result<(), SendError> {
        let Some(ring) = self.ring.as_ref().filter(|_| self.figures.started.is_none()) else { return Ok(()) };
        match ring.options.wait_timeout {
            Some(patience) if now >= Instant::ZERO + patience => {
                let group = self.plan.group.group.ip();
                Err(SendError::NoListener { group, seconds: patience.as_secs() })
            }
            _ => Ok(()),
        }
    }

    pub(super) fn note_ring(&mut self, now: Instant, event: &SenderEvent) {
        let Some(ring) = &mut self.ring else { return };
        let told = match event {
            SenderEvent::Looped { loops } => {
                (ring.loops, ring.looped_at) = (*loops, now);
                SendEvent::Looped { loops: *loops }
            }
            SenderEvent::Paused => SendEvent::Paused,
            _ => {
                self.figures.started.get_or_insert(now);
                let (objects, bytes) = (self.figures.summary.objects, self.figures.total_bytes);
                let own = ring.own_listeners.as_ref();
                let is_presumed = own.map_or(ring.watches.is_empty(), OwnListeners::is_presumed);
                SendEvent::Started { objects, bytes, is_presumed }
            }
        };
        (self.on_event)(told);
    }

    /// Sends no more but the end.
    pub(super) fn stop_ring(&mut self, now: Instant) {
        if std::mem::replace(&mut self.figures.summary.interrupted, true) {
            return;
        }
        self.ring.iter_mut().for_each(|ring| ring.pending.clear());
        self.handle(now, SenderInput::Close);
    }

    /// A page of an object's chunk hashes for receivers without a connection, once they are known.
    pub(super) fn page_to_all(&self, file: FileId, page: u32) -> Option<ChunkHashes> {
        match &self.objects.hashing {
            Some(hashing) => hashing.page(file, page),
            None => self.objects.sources.chunk_hashes(file, page),
        }
    }

    /// Reads a run of blocks that is to leave for a group.
    pub(super) fn turn_over(&mut self, now: Instant, group: u8, first: Header, len: usize) {
        let mut run = self.spare_run(group);
        run.resize(len, 0);
        match self.objects.sources.read_again(first.file_id, first.sequence, &mut run) {
            Ok(()) => self.pend(group, first, run),
            Err(error) => self.withdraw(now, first.file_id, &error),
        }
    }

    /// The buffer of the group's last run.
    fn spare_run(&mut self, group: u8) -> Vec<u8> {
        let last = self.ring.as_mut().and_then(|ring| ring.pending.remove(&group));
        last.map(|last| last.run).unwrap_or_default()
    }

    /// Has a run leave for a group, behind a page that says what its blocks are: a secure carousel's receivers take no
    /// others.
    pub(super) fn pend(&mut self, group: u8, first: Header, run: Vec<u8>) {
        let pages = self.pages(&first, &run);
        if let Some(ring) = &mut self.ring {
            ring.pending.insert(group, Pending { first, run, left: 0, pages });
        }
    }

    pub(super) fn pages(&self, first: &Header, run: &[u8]) -> Vec<Vec<u8>> {
        let block_len = self.plan.block_len;
        let signer = self.objects.signer.as_ref().filter(|_| BlockHashes::per_page(block_len).is_some());
        let Some(signer) = signer else { return Vec::new() };
        let hashes = run.chunks(block_len.into()).map(block_hash).collect();
        let are_symbols = first.kind == PacketType::RepairSymbol;
        let Ok(page) = BlockHashes::new(are_symbols, first.sequence, hashes) else { return Vec::new() };
        let packet = Message::Signed(signer.sign_blocks(first.file_id, page)).to_packet(first.file_id);
        vec![packet; copies(self.plan.options.fec.is_some())]
    }

    /// Sends the next part of the run that is on its way to a group. False when there is none.
    pub(super) fn send_pending(&mut self, now: Instant, group: u8) -> Result<bool, SendError> {
        let Some(ring) = &mut self.ring else { return Ok(false) };
        let Some(pending) = ring.pending.get_mut(&group) else { return Ok(false) };
        if let Some(mut page) = pending.pages.pop() {
            header::set_number(&mut page, self.number_packets(now, group, 1)?);
            let sent = self.lanes.group.send_message(now, group, &page)?;
            self.note_left(now, group, sent);
            return Ok(true);
        }
        if pending.left >= pending.run.len() {
            return Ok(false);
        }
        self.send_burst(now, group)?;
        Ok(true)
    }

    fn send_burst(&mut self, now: Instant, group: u8) -> Result<(), SendError> {
        let block_len = self.plan.block_len;
        let Some(ring) = &self.ring else { return Ok(()) };
        let Some(Pending { first, run, left, .. }) = ring.pending.get(&group) else { return Ok(()) };
        let (first, start) = (*first, *left);
        let end = run.len().min(start + ring.burst_len);
        // A symbol's sequence number is no position in the object, and frames have no word for zeros.
        let are_told = first.kind != PacketType::RepairSymbol && ring.frames.is_empty();
        let all = || Stretch { bytes: start..end, is_zero: false };
        let stretch = are_told.then(|| first_stretch(&run[..end], start, block_len.into()));
        let Stretch { bytes, is_zero } = stretch.unwrap_or_else(all);
        if is_zero {
            return self.send_zero_burst(now, group, first, bytes);
        }
        let packets = bytes.len().div_ceil(block_len.into()) as u64;
        let number = self.number_packets(now, group, packets)?;
        let Some(ring) = &mut self.ring else { return Ok(()) };
        let Some(pending) = ring.pending.get_mut(&group) else { return Ok(()) };
        let burst = &pending.run[bytes];
        let sequence = first.sequence + start as u64;
        let sent = match (ring.frames.get_mut(usize::from(group)), self.lanes.group.multicast()) {
            (Some(frames), Some(lane)) => {
                lane.send_frames(now, group, frames, (sequence, block_len), burst)?;
                packets * (self.plan.packet_bytes() - u64::from(block_len)) + burst.len() as u64
            }
            _ => self.lanes.group.send_blocks(now, group, Header { sequence, number, ..first }, burst)?,
        };
        pending.left = start + burst.len();
        ring.sent_bytes += burst.len() as u64;
        ring.sent_at = now;
        self.lanes.runs += usize::from(group == 0);
        self.note_left(now, group, sent);
        Ok(())
    }

    /// Says that the next part of a run is all zero.
    fn send_zero_burst(
        &mut self,
        now: Instant,
        group: u8,
        first: Header,
        burst: Range<usize>,
    ) -> Result<(), SendError> {
        let to = if group == 0 { Destination::Group } else { Destination::Slower(group) };
        let sequence = first.sequence + burst.start as u64;
        self.send_zeros(now, to, first.file_id, sequence, burst.len())?;
        if let Some(ring) = &mut self.ring {
            if let Some(pending) = ring.pending.get_mut(&group) {
                pending.left = burst.end;
            }
            ring.sent_bytes += burst.len() as u64;
            ring.sent_at = now;
        }
        self.lanes.runs += usize::from(group == 0);
        Ok(())
    }

    /// Bytes of IP packets have left for a group.
    fn note_left(&mut self, now: Instant, group: u8, bytes: u64) {
        match group {
            0 => self.lanes.pacer.sent(now, bytes),
            slower => self.note_sent_slowly(now, slower, bytes),
        }
    }
}
