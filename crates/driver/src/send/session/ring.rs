//! A carousel: it watches for listeners, signs its blocks, and sends copies to named receivers.
//!
//! A run of blocks is read once. If blocks are signed, a run is as long as a page of their hashes. The run then
//! leaves in several bursts after that page.

use std::{collections::BTreeMap, net::SocketAddr, time::Duration};

use treecast_host::{
    poller::{Interest, Poller},
    stop::Stop,
};
use treecast_proto::{
    Instant,
    carousel::End,
    object::{SenderEvent, SenderInput},
};
use treecast_wire::header::{FileId, Header, PacketType};

use super::{
    super::{
        CarouselEnd, Plan, SendError, SendEvent,
        repair::{CarouselOptions, Dialect},
    },
    AUDIENCE, config,
    core::Core,
    lanes::Lanes,
    named::{Named, NamedReceiver},
    objects::Objects,
    reports::Reports,
};
use crate::{
    carousel::{FrameSender, ListenerWatch, OwnListeners},
    remedies::{Advised, Remedy},
    udp::GroupAddress,
    zeros::{Stretch, first_stretch},
};

/// Time between two looks for listeners while packets go out.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// The state that only a carousel has.
#[derive(Debug)]
pub(super) struct Ring {
    options: CarouselOptions,
    /// The state of the receivers that are named.
    named: Named,
    /// Hears what receivers lack. `None` where they do not tell.
    reports: Option<Reports>,
    /// Hears who listens, for each group. Empty where nobody can be heard.
    watches: Vec<ListenerWatch>,
    /// The listeners on the loopback interface, in place of `watches`.
    own_listeners: Option<OwnListeners>,
    next_look: Instant,
    /// Numbers the IoT updater's frames, for each group. Empty in treecast's own dialect.
    frames: Vec<FrameSender>,
    /// The runs that are on their way, by group.
    pending: BTreeMap<u8, Pending>,
    block_len: u16,
    /// Bytes of blocks that leave at once.
    burst_len: usize,
    /// Bytes of objects that have left, in all loops together.
    sent_bytes: u64,
    /// The time at which the last of these bytes left.
    sent_at: Instant,
    loops: u64,
    /// The time at which the last of the loops was complete.
    looped_at: Instant,
}

/// A run that has been read and has not left whole.
#[derive(Debug)]
struct Pending {
    first: Header,
    run: Vec<u8>,
    /// The number of bytes of the run that have left.
    left: usize,
    /// Packets that say what the blocks are. They leave first.
    pages: Vec<Vec<u8>>,
}

impl Ring {
    /// Creates a carousel that has nothing to send yet.
    pub fn new(plan: &Plan, options: CarouselOptions, reports: Option<Reports>) -> Self {
        Self {
            named: Named::new(&plan.options.receivers),
            reports,
            watches: Vec::new(),
            own_listeners: None,
            next_look: Instant::ZERO,
            frames: Vec::new(),
            pending: BTreeMap::new(),
            block_len: plan.block_len,
            burst_len: config::packets_per_run(plan, plan.options.rate().fixed_bps())
                * usize::from(plan.block_len),
            sent_bytes: 0,
            sent_at: Instant::ZERO,
            loops: 0,
            looped_at: Instant::ZERO,
            options,
        }
    }

    /// Takes up all objects, begins to hear who listens, and has the receivers that are named get copies.
    pub fn begin(
        &mut self,
        now: Instant,
        plan: &mut Plan,
        objects: &mut Objects,
        lanes: &mut Lanes,
        poller: &Poller,
    ) -> Result<(), SendError> {
        if plan.options.fanout.has_group() {
            self.open_watches(plan, poller);
        }
        let session = plan.session;
        let sources = std::mem::take(&mut plan.sources);
        let sources: Vec<_> =
            (0..).zip(sources).map(|(index, named)| (FileId::new(session, index), named)).collect();
        if self.options.dialect == Dialect::Session {
            let twins = sources.iter().map(|(file, named)| (*file, named.source.twin())).collect();
            objects.hash_apart(twins, poller)?;
        }
        sources.into_iter().for_each(|(file, named)| objects.sources.add(file, named));
        let port = plan.ticket(Vec::new()).own_port();
        let named = plan.options.receivers.iter().map(|ip| SocketAddr::new(*ip, port)).collect();
        Ok(lanes.address_named(now, named)?)
    }

    /// Opens what hears listeners. Where nobody can be heard, somebody is taken to listen.
    fn open_watches(&mut self, plan: &mut Plan, poller: &Poller) {
        let interface = &plan.group.interface;
        if interface.is_loopback {
            let groups = plan.group_addresses().into_iter().map(|group| group.ip()).collect();
            self.own_listeners = Some(OwnListeners::new(&interface.name, groups));
            return;
        }
        for group in plan.group_addresses() {
            let group = GroupAddress { group, ..plan.group.clone() };
            let opened = ListenerWatch::open(&group, Instant::ZERO).map_err(|error| error.to_string());
            let opened = opened.and_then(|watch| {
                let added = watch
                    .sockets()
                    .iter()
                    .try_for_each(|socket| poller.add(socket, AUDIENCE, Interest::Read));
                added.map(|()| watch).map_err(|error| error.to_string())
            });
            match opened {
                Ok(watch) => self.watches.push(watch),
                Err(error) => {
                    self.watches.clear();
                    let line = format!("{error}: sending on, whether anybody listens or not");
                    return plan.warnings.push(Advised::by(Remedy::EndCarousel, line));
                }
            }
        }
    }

    /// Hashes the file of the IoT updater's frames. They carry the hash, so it comes before the first of them.
    pub fn hash_frames(&mut self, stop: &Stop, plan: &Plan, objects: &mut Objects) -> Result<(), SendError> {
        let Dialect::Iotup(kind) = self.options.dialect else { return Ok(()) };
        let file = FileId::new(plan.session, 0);
        let Some(source) = objects.sources.source(file) else { return Ok(()) };
        let mut hasher = kind.hasher();
        source.read_all(|| !stop.is_requested(), |run| hasher.update(run))?;
        let frames = FrameSender { file_size: source.size(), hash: hasher.finish(), sequence: 0 };
        self.frames = vec![frames; plan.groups.into()];
        Ok(())
    }

    /// Tells the machine who listens, when it is time to look. Fails when nobody has listened for as long as the user waits.
    pub fn look(
        &mut self,
        now: Instant,
        plan: &Plan,
        lanes: &mut Lanes,
        core: &mut Core<'_>,
    ) -> Result<(), SendError> {
        if now < self.next_look {
            return Ok(());
        }
        self.next_look = now + LOOK_INTERVAL;
        let mut present = Vec::new();
        for watch in &mut self.watches {
            present.push(watch.look(now)?);
        }
        if let Some(own) = &mut self.own_listeners {
            present = own.look();
        } else if self.watches.is_empty() {
            present = vec![plan.options.fanout.has_group(); plan.groups.into()];
        }
        let awaits_routers = lanes.awaits_routers();
        if let Some(ways) = &mut lanes.ways {
            ways.note_listeners(now, present[0]);
        }
        present[0] |= !plan.options.receivers.is_empty() && !awaits_routers;
        for (group, present) in (0..).zip(present) {
            core.handle(now, SenderInput::Listeners { group, present });
        }
        self.note_named(now, plan, lanes, core);
        match self.options.wait_timeout.filter(|_| core.figures.started.is_none()) {
            Some(patience) if now >= Instant::ZERO + patience => {
                let group = plan.group.group.ip();
                Err(SendError::NoListener { group, seconds: patience.as_secs() })
            }
            _ => Ok(()),
        }
    }

    /// Notes which named receivers are gone. Ends the carousel when all of them have been gone for the idle time: where
    /// there is a group, others may listen to it.
    fn note_named(&mut self, now: Instant, plan: &Plan, lanes: &Lanes, core: &mut Core<'_>) {
        if core.figures.started.is_none() {
            return;
        }
        let Some(copies) = lanes.group.way.copies().first() else { return };
        let left_bytes = copies.left_bytes().iter().sum();
        self.named.note(now, left_bytes, &copies.take_errors());
        let gone = self.named.all_gone().filter(|_| !plan.options.fanout.has_group());
        if gone.is_some_and(|since| now >= since + self.options.idle) {
            core.handle(now, SenderInput::Close);
        }
    }

    /// Hands the machine what receivers have reported.
    pub fn hear(&mut self, now: Instant, plan: &Plan, core: &mut Core<'_>) -> Result<(), SendError> {
        let Some(reports) = &mut self.reports else { return Ok(()) };
        reports.hear(plan.session, |from, file, message| {
            self.named.reported(now, from.0.ip());
            core.handle(now, SenderInput::Local { from, file, message });
        })
    }

    /// Tells what the machine has told of its loops.
    pub fn note(&mut self, now: Instant, event: &SenderEvent, core: &mut Core<'_>) {
        let told = match event {
            SenderEvent::Looped { loops } => {
                (self.loops, self.looped_at) = (*loops, now);
                SendEvent::Looped { loops: *loops }
            }
            SenderEvent::Paused => SendEvent::Paused,
            _ => {
                core.figures.started.get_or_insert(now);
                let (objects, bytes) = (core.figures.summary.objects, core.figures.total_bytes);
                let own = self.own_listeners.as_ref();
                let is_presumed = own.map_or(self.watches.is_empty(), OwnListeners::is_presumed);
                SendEvent::Started { objects, bytes, is_presumed }
            }
        };
        core.tell(told);
    }

    /// Sends no more but the end.
    pub fn stop(&mut self, now: Instant, core: &mut Core<'_>) {
        if !std::mem::replace(&mut core.figures.summary.interrupted, true) {
            self.pending.clear();
            core.handle(now, SenderInput::Close);
        }
    }

    /// Completes the figures at the end, and announces that this router has left the link.
    pub fn finish(&mut self, now: Instant, plan: &Plan, lanes: &Lanes, core: &mut Core<'_>) {
        self.note_named(now, plan, lanes, core);
        core.figures.summary.carousel_end = end(core);
        core.figures.summary.named = self.named(now, core.figures.started);
        self.watches.iter_mut().for_each(ListenerWatch::leave);
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

    /// The state of the named receivers, in a carousel whose first packet left at `started`.
    fn named(&self, now: Instant, started: Option<Instant>) -> Vec<NamedReceiver> {
        let sending = started.map(|started| self.looped_at.saturating_duration_since(started));
        let loops = u32::try_from(self.loops).unwrap_or(u32::MAX);
        self.named.told(now, sending.and_then(|time| time.checked_div(loops)))
    }

    /// The time when the last bytes of an object left.
    pub fn sent_at(&self) -> Instant {
        self.sent_at
    }

    /// Reads a run of blocks that is to leave for a group.
    pub fn turn_over(
        &mut self,
        now: Instant,
        group: u8,
        (first, len): (Header, usize),
        objects: &mut Objects,
        core: &mut Core<'_>,
    ) {
        // The buffer is that of the group's last run.
        let mut run = self.pending.remove(&group).map(|last| last.run).unwrap_or_default();
        run.resize(len, 0);
        match objects.sources.read_again(first.file_id, first.sequence, &mut run) {
            Ok(()) => self.pend(group, first, run, objects),
            Err(error) => objects.withdraw(now, first.file_id, &error, core),
        }
    }

    /// Puts a run on its way to a group, behind a page that says what its blocks are: a secure carousel's receivers
    /// take no others.
    pub fn pend(&mut self, group: u8, first: Header, run: Vec<u8>, objects: &Objects) {
        let pages = objects.manifests.pages(&first, &run);
        self.pending.insert(group, Pending { first, run, left: 0, pages });
    }

    /// Sends the next part of the run that is on its way to a group. Returns false when there is none.
    pub fn send_pending(
        &mut self,
        now: Instant,
        group: u8,
        lanes: &mut Lanes,
        core: &mut Core<'_>,
    ) -> Result<bool, SendError> {
        let Some(pending) = self.pending.get_mut(&group) else { return Ok(false) };
        if let Some(page) = pending.pages.pop() {
            lanes.send_packet(now, group, page, core)?;
            return Ok(true);
        }
        let (start, whole) = (pending.left, pending.run.len());
        if start >= whole {
            return Ok(false);
        }
        let end = whole.min(start + self.burst_len);
        // A symbol's sequence number is no position in the object, and frames have no word for zeros.
        let are_told = pending.first.kind != PacketType::RepairSymbol && self.frames.is_empty();
        let all = || Stretch { bytes: start..end, is_zero: false };
        let stretch = are_told.then(|| first_stretch(&pending.run[..end], start, self.block_len.into()));
        let Stretch { bytes, is_zero } = stretch.unwrap_or_else(all);
        let first = Header { sequence: pending.first.sequence + start as u64, ..pending.first };
        let burst = &pending.run[bytes];
        match self.frames.get_mut(usize::from(group)).filter(|_| lanes.is_multicast()) {
            _ if is_zero => lanes.send_zeros(now, group, first, burst.len(), core)?,
            Some(frames) => lanes.send_frames(now, group, frames, (first.sequence, burst), core)?,
            None => lanes.send_blocks(now, group, first, burst, core)?,
        }
        pending.left += burst.len();
        self.sent_bytes += burst.len() as u64;
        self.sent_at = now;
        if group == 0 {
            lanes.note_run();
        }
        Ok(true)
    }
}

/// The reason why the carousel has ended.
fn end(core: &Core<'_>) -> Option<CarouselEnd> {
    Some(match core.machine.carousel()?.end() {
        Some(End::Unheard) => CarouselEnd::NobodyListens,
        Some(End::Loops) => CarouselEnd::LoopsDone,
        Some(End::Withdrawn) => CarouselEnd::NothingLeft,
        // The session closes it when all named receivers are gone.
        Some(End::Told) if !core.figures.summary.interrupted => CarouselEnd::NobodyListens,
        Some(End::Told) | None => CarouselEnd::Stopped,
    })
}
