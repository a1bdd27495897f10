//! Sending a carousel: reads each object again in every loop.

use std::{collections::BTreeSet, io, net::SocketAddr, ops::Range, time::Duration};

use treecast_proto::{
    Instant, Step,
    carousel::{Sender, SenderConfig, block_hash, copies},
    fec::Layout,
    object::{Lane, SenderEvent, SenderInput, SenderTransmit, SenderWait},
};
use treecast_wire::{
    header::{self, FileId, HEADER_LEN, Header, PacketNumbers, PacketType, SessionId},
    iotup,
    message::{BlockHashes, Message},
    seal::SEAL_LEN,
};

use super::{
    CarouselError, Dialect, ListenerWatch, frame_hash::FrameHash, hashing::Hashing, iotup::FrameSender,
};
use crate::{
    clock::Clock,
    fec::{Encoders, read_source_block},
    files::{NamedSource, SourceError},
    pacer::{self, Pacer},
    poller::{Interest, Poller},
    seal::{Sealer, Secret},
    security::{Identity, manifest::Signer, random},
    status::{Meter, bits},
    stop::Stop,
    udp::{GroupAddress, Offload, Outage, Transmitter, frames_in_super_packet, open_group_sender},
};

/// How often listeners are looked for while packets go out.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// How often progress is told.
const TELL_INTERVAL: Duration = Duration::from_millis(100);

/// How much of a file is hashed at once where the hash is needed before the first packet.
const HASH_RUN_LEN: usize = 1 << 20;

/// Blocks that are signed together are out within this time, unless they are fewer than [`FEWEST_SIGNED`].
const SIGNED_MILLIS: u64 = 500;
const FEWEST_SIGNED: usize = 16;

/// What to send where.
#[derive(Debug)]
pub struct SendOptions {
    pub group: GroupAddress,
    pub hops: u32,
    pub session: SessionId,
    /// Bytes of an object in each packet but the last; the IoT updater's frames have their own.
    pub block_len: u16,
    /// Whether repair symbols go out in place of blocks from the second loop on.
    pub fec: bool,
    pub dialect: Dialect,
    /// What the IoT updater's frames call their file by.
    pub frame_hash: FrameHash,
    /// What packets are sealed with; none sends them plain.
    pub secret: Option<Secret>,
    /// Who signs the objects' manifests; none leaves them unsigned.
    pub identity: Option<Identity>,
    /// Whether others are the same carousel already, or have been: repair symbols go out from the start, and not those of
    /// the others.
    pub has_twins: bool,
    /// Bits of IP packets a second, headers included; none sends as fast as the link takes it.
    pub rate_bps: Option<u64>,
    /// Ends when nobody has listened for this long.
    pub idle: Duration,
    /// Fails when nobody has listened for this long before the first listener; none waits for ever.
    pub wait_timeout: Option<Duration>,
    pub offload: Offload,
}

/// Something to tell whoever watches.
#[derive(Debug, Clone, PartialEq)]
pub enum SendEvent {
    /// Somebody listens.
    Started,
    /// Nobody listens any more.
    Paused,
    /// Every object has been out so many times.
    Looped {
        loops: u64,
    },
    /// An object cannot be sent as it was announced.
    Withdrawn {
        name: String,
        reason: String,
    },
    /// Something is not as good as it could be.
    Warning(String),
    Progress(SendSummary),
}

/// How far a carousel is, or was at its end.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct SendSummary {
    /// Loops that are complete.
    pub loops: u64,
    /// Bytes of objects sent in all loops together.
    pub sent_bytes: u64,
    /// Size of all objects: what one loop sends.
    pub loop_bytes: u64,
    /// From the first packet to the last.
    pub seconds: f64,
    /// Bits of objects a second over the last seconds; none before that is known.
    pub now_bps: Option<u64>,
    /// Ended by a signal.
    pub interrupted: bool,
}

/// Runs a carousel until nobody listens any more, or `stop` is requested. Without `listeners` somebody is
/// taken to listen all the time.
///
/// # Errors
/// When the options do not fit, nobody comes in time, or the network fails.
pub fn send(
    options: SendOptions,
    sources: Vec<NamedSource>,
    listeners: Option<ListenerWatch>,
    stop: &Stop,
    mut tell: impl FnMut(SendEvent),
) -> Result<SendSummary, CarouselError> {
    let mut carousel = Carousel::new(options, sources, listeners, stop)?;
    if carousel.hash_first(&mut tell)? {
        carousel.run(&mut tell)?;
    }
    if let Some(listeners) = &mut carousel.listeners {
        listeners.leave();
    }
    Ok(carousel.summary)
}

struct Carousel<'a> {
    options: SendOptions,
    sources: Vec<NamedSource>,
    machine: Sender,
    listeners: Option<ListenerWatch>,
    next_look: Instant,
    stop: &'a Stop,
    poller: Poller,
    clock: Clock,
    pacer: Pacer,
    transmitter: Transmitter,
    sealer: Option<Sealer>,
    sealed: Vec<u8>,
    /// None in a plain session.
    signer: Option<Signer>,
    numbers: PacketNumbers,
    to: SocketAddr,
    outage: Outage,
    /// Bytes of IP, UDP and the dialect's header before each block.
    overhead: u64,
    /// How many bytes of blocks go out at once: a part of what the machine hands out where blocks are signed.
    burst_len: usize,
    frames: Option<FrameSender>,
    /// None with the IoT updater's frames, which have the hash from the start.
    hashing: Option<Hashing>,
    /// Objects that cannot be read any more.
    withdrawn: BTreeSet<FileId>,
    buffer: Vec<u8>,
    encoders: Encoders,
    started: Option<Instant>,
    next_tell: Instant,
    meter: Meter<1>,
    summary: SendSummary,
}

impl<'a> Carousel<'a> {
    fn new(
        options: SendOptions,
        sources: Vec<NamedSource>,
        listeners: Option<ListenerWatch>,
        stop: &'a Stop,
    ) -> Result<Self, CarouselError> {
        let mut options = options;
        let header_len = match options.dialect {
            Dialect::Session if options.secret.is_some() => HEADER_LEN + SEAL_LEN,
            Dialect::Session => HEADER_LEN,
            Dialect::Iotup { .. } => iotup::HEADER_LEN,
        };
        if options.dialect != Dialect::Session {
            options.block_len = iotup::MAX_DATA_LEN as u16;
        }
        let block_len = usize::from(options.block_len);
        let overhead = pacer::ip_overhead(options.group.group.is_ipv4()) + header_len as u64;
        let limit = frames_in_super_packet(header_len + block_len);
        let blocks = pacer::packets_per_run(options.rate_bps, overhead + block_len as u64, limit);
        let signed = signed_blocks(&options, overhead);
        let (blocks, run) = signed.map_or((blocks, blocks), |signed| (blocks.min(signed), signed));
        let run_len = run * block_len;
        let socket = open_group_sender(&options.group, options.hops)?;
        let clock = Clock::start();
        let poller = Poller::new()?;
        poller.add(stop, 0, Interest::Read)?;
        for socket in listeners.iter().flat_map(ListenerWatch::sockets) {
            poller.add(&socket, 1, Interest::Read)?;
        }
        let has_messages = options.dialect == Dialect::Session;
        let hashing = has_messages.then(|| Hashing::start(options.session, &sources)).transpose()?;
        Ok(Self {
            machine: machine(&options, &sources, run_len)?,
            transmitter: Transmitter::new(socket, options.offload),
            sealer: options.secret.clone().map(Sealer::from_secret).transpose()?,
            sealed: Vec::new(),
            signer: options.identity.clone().map(Signer::new),
            numbers: PacketNumbers::default(),
            to: options.group.scoped(),
            outage: Outage::default(),
            pacer: Pacer::new(options.rate_bps, clock.now()),
            buffer: vec![0; run_len],
            encoders: Encoders::default(),
            summary: SendSummary {
                loop_bytes: sources.iter().map(|source| source.source.size()).sum(),
                ..SendSummary::default()
            },
            options,
            sources,
            listeners,
            next_look: Instant::ZERO,
            stop,
            poller,
            clock,
            overhead,
            burst_len: blocks * block_len,
            frames: None,
            hashing,
            withdrawn: BTreeSet::new(),
            started: None,
            next_tell: Instant::ZERO,
            meter: Meter::default(),
        })
    }

    /// The IoT updater's frames carry the hash, so it comes before the first of them. False when that was
    /// interrupted.
    fn hash_first(&mut self, tell: &mut impl FnMut(SendEvent)) -> Result<bool, CarouselError> {
        let Some(source) = self.sources.first_mut().filter(|_| self.options.dialect != Dialect::Session)
        else {
            return Ok(true);
        };
        let (size, mut position) = (source.source.size(), 0);
        let mut hasher = self.options.frame_hash.hasher();
        let mut buffer = vec![0; HASH_RUN_LEN];
        while position < size {
            if self.stop.is_requested() {
                self.summary.interrupted = true;
                return Ok(false);
            }
            let run = &mut buffer[..(size - position).min(HASH_RUN_LEN as u64) as usize];
            source.source.read(position, run)?;
            hasher.update(run);
            position += run.len() as u64;
        }
        self.frames = Some(FrameSender { file_size: size, hash: hasher.finish(), sequence: 0 });
        tell(SendEvent::Progress(self.summary));
        Ok(true)
    }

    fn run(&mut self, tell: &mut impl FnMut(SendEvent)) -> Result<(), CarouselError> {
        if self.listeners.is_none() {
            self.machine.handle(self.clock.now(), SenderInput::Listeners { group: 0, present: true });
        }
        loop {
            let now = self.clock.now();
            self.look(now)?;
            self.take_hashes(now, tell);
            if self.stop.is_requested() && !self.summary.interrupted {
                self.summary.interrupted = true;
                self.machine.handle(now, SenderInput::Close);
            }
            match self.machine.poll(now, Lane::Group) {
                Step::Transmit(SenderTransmit::Message { file, message, .. }) => {
                    self.message(file, &message)?
                }
                Step::Transmit(SenderTransmit::Blocks { file, range, .. }) => {
                    self.blocks(file, range, tell)?
                }
                Step::Transmit(SenderTransmit::ChunkHashes { file, pages, .. }) => {
                    self.chunk_hashes(file, pages.start)?
                }
                Step::Transmit(SenderTransmit::Symbols { file, source_block, symbols, .. }) => {
                    self.symbols(file, source_block, symbols, tell)?;
                }
                Step::Event(SenderEvent::Closed) | Step::Wait(_, SenderWait::Closed) => return Ok(()),
                Step::Event(event) => self.event(now, &event, tell),
                Step::Wait(deadline, SenderWait::Listener) => self.wait_for_listener(now, deadline)?,
                Step::Transmit(SenderTransmit::CloseConnection(_)) => {}
                Step::Wait(deadline, _) => self.wait(deadline.map(|until| until - now))?,
            }
            self.progress(now, tell);
        }
    }

    fn look(&mut self, now: Instant) -> Result<(), CarouselError> {
        if let Some(listeners) = self.listeners.as_mut().filter(|_| now >= self.next_look) {
            self.next_look = now + LOOK_INTERVAL;
            let present = listeners.look(now)?;
            self.machine.handle(now, SenderInput::Listeners { group: 0, present });
        }
        Ok(())
    }

    /// Tells the machine of hashes that have become known.
    fn take_hashes(&mut self, now: Instant, tell: &mut impl FnMut(SendEvent)) {
        while let Some((file, hash)) = self.hashing.as_mut().and_then(Hashing::next) {
            match hash {
                Ok(hash) => self.machine.handle(now, SenderInput::Hashed { file, hash }),
                Err(error) => self.withdraw(file, &error, tell),
            }
        }
    }

    fn wait_for_listener(&mut self, now: Instant, deadline: Option<Instant>) -> Result<(), CarouselError> {
        let patience = self.options.wait_timeout.filter(|_| self.started.is_none());
        if let Some(patience) = patience.filter(|patience| now >= Instant::ZERO + *patience) {
            let group = self.options.group.group.ip();
            return Err(CarouselError::NoListener { group, seconds: patience.as_secs() });
        }
        let look = self.listeners.as_ref().map(ListenerWatch::deadline);
        let give_up = patience.map(|patience| Instant::ZERO + patience);
        let until = [deadline, look, give_up].into_iter().flatten().min();
        self.wait(until.map(|until| until - now))?;
        // Whatever woke it is looked at now.
        self.next_look = now;
        Ok(())
    }

    fn event(&mut self, now: Instant, event: &SenderEvent, tell: &mut impl FnMut(SendEvent)) {
        match event {
            SenderEvent::Started => {
                self.started.get_or_insert(now);
                tell(SendEvent::Started);
            }
            SenderEvent::Paused => tell(SendEvent::Paused),
            SenderEvent::Looped { loops } => {
                self.summary.loops = *loops;
                tell(SendEvent::Looped { loops: *loops });
            }
            _ => {}
        }
    }

    fn progress(&mut self, now: Instant, tell: &mut impl FnMut(SendEvent)) {
        if let Some(reason) = self.outage.take_untold() {
            let to = self.to;
            tell(SendEvent::Warning(format!(
                "cannot send to {to} for now: {reason}; what is lost comes with the next loop"
            )));
        }
        if now >= self.next_tell {
            self.next_tell = now + TELL_INTERVAL;
            let sent = [self.summary.sent_bytes];
            self.meter.note(now, sent);
            self.summary.now_bps = self.meter.rates(now, sent).map(|[sent]| bits(sent));
            tell(SendEvent::Progress(self.summary));
        }
    }

    fn message(&mut self, file: FileId, message: &Message) -> Result<(), CarouselError> {
        let signed = match (message, &mut self.signer, self.machine.announced(file)) {
            (Message::Digest(digest), Some(signer), Some(begin)) => {
                Some(Message::Digest(signer.sign(file, begin, digest.clone())))
            }
            (message, Some(signer), _) => signer.sign_word(file, message),
            _ => None,
        };
        self.packet(signed.as_ref().unwrap_or(message).to_packet(file))
    }

    fn packet(&mut self, mut packet: Vec<u8>) -> Result<(), CarouselError> {
        header::set_number(&mut packet, self.numbers.take(1));
        self.pace(self.overhead + (packet.len() - HEADER_LEN) as u64)?;
        if let Some(sealer) = &mut self.sealer {
            self.sealed.clear();
            sealer.seal_packet(&packet, &mut self.sealed)?;
            packet.clone_from(&self.sealed);
        }
        let attempt = self.transmitter.send_datagram(self.to, &packet);
        self.sent(attempt)
    }

    fn chunk_hashes(&mut self, file: FileId, page: u32) -> Result<(), CarouselError> {
        match self.hashing.as_ref().and_then(|hashing| hashing.page(file, page)) {
            Some(page) => self.message(file, &Message::ChunkHashes(page)),
            None => Ok(()),
        }
    }

    /// What could not be sent for a reason that may pass comes with the next loop.
    fn sent(&mut self, attempt: io::Result<()>) -> Result<(), CarouselError> {
        let now = self.clock.now();
        self.outage.note(now, attempt).map_err(|source| CarouselError::Send { group: self.to, source })?;
        if let Some(until) = self.outage.rests_until(now) {
            std::thread::sleep(until - now);
        }
        Ok(())
    }

    fn blocks(
        &mut self,
        file: FileId,
        range: Range<u64>,
        tell: &mut impl FnMut(SendEvent),
    ) -> Result<(), CarouselError> {
        let len = (range.end - range.start) as usize;
        let mut run = std::mem::take(&mut self.buffer);
        let result = match self.read(file, range.start, &mut run[..len]) {
            Ok(()) => self.send_run(file, PacketType::Data, range.start, &run[..len]),
            Err(error) => {
                self.withdraw(file, &error, tell);
                Ok(())
            }
        };
        self.buffer = run;
        result
    }

    /// Sends repair symbols, which are computed from blocks that are read again.
    fn symbols(
        &mut self,
        file: FileId,
        source_block: u32,
        symbols: Range<u32>,
        tell: &mut impl FnMut(SendEvent),
    ) -> Result<(), CarouselError> {
        let block_len = self.options.block_len;
        let Some(named) = self.sources.get_mut(file.index() as usize) else { return Ok(()) };
        let Some(layout) = Layout::new(named.source.size(), block_len) else { return Ok(()) };
        let size = named.source.size();
        let read = || -> Result<Vec<u8>, SourceError> {
            let bytes =
                read_source_block(&layout, source_block, size, |at, into| named.source.read(at, into))?;
            named.source.check_unchanged()?;
            Ok(bytes)
        };
        let run = self.encoders.get(file, source_block, block_len, read);
        let run = run.map(|encoder| encoder.and_then(|encoder| encoder.repair(symbols.clone())));
        match run {
            Ok(None) => Ok(()),
            Ok(Some(run)) => {
                let sequence = layout.positions(source_block, &symbols).start;
                self.send_run(file, PacketType::RepairSymbol, sequence, &run)
            }
            Err(error) => {
                self.withdraw(file, &error, tell);
                Ok(())
            }
        }
    }

    /// Reads a run, and sees at the end of the object that it is still the same.
    fn read(&mut self, file: FileId, position: u64, run: &mut [u8]) -> Result<(), SourceError> {
        let Some(source) = self.sources.get_mut(file.index() as usize) else { return Ok(()) };
        source.source.read(position, run)?;
        let end = position + run.len() as u64;
        let is_last = end == source.source.size();
        if is_last {
            source.source.check_unchanged()?;
            source.source.close();
        }
        Ok(())
    }

    /// Sends blocks or symbols, a part at a time; not to the end when that is interrupted.
    fn send_run(
        &mut self,
        file: FileId,
        kind: PacketType,
        mut position: u64,
        run: &[u8],
    ) -> Result<(), CarouselError> {
        self.sign(file, kind, position, run)?;
        for burst in run.chunks(self.burst_len) {
            if self.stop.is_requested() {
                return Ok(());
            }
            self.send_burst(file, kind, position, burst)?;
            position += burst.len() as u64;
        }
        Ok(())
    }

    /// Says what the packets of a run are, before them: a secure carousel's receivers take no others.
    fn sign(
        &mut self,
        file: FileId,
        kind: PacketType,
        position: u64,
        run: &[u8],
    ) -> Result<(), CarouselError> {
        let block_len = self.options.block_len;
        let signer = self.signer.as_ref().filter(|_| BlockHashes::per_page(block_len).is_some());
        let Some(signer) = signer else { return Ok(()) };
        let hashes = run.chunks(block_len.into()).map(block_hash).collect();
        let Ok(page) = BlockHashes::new(kind == PacketType::RepairSymbol, position, hashes) else {
            return Ok(());
        };
        let packet = Message::Signed(signer.sign_blocks(file, page)).to_packet(file);
        (0..copies(self.options.fec)).try_for_each(|_| self.packet(packet.clone()))
    }

    fn send_burst(
        &mut self,
        file: FileId,
        kind: PacketType,
        position: u64,
        run: &[u8],
    ) -> Result<(), CarouselError> {
        let block_len = self.options.block_len;
        let packets = run.len().div_ceil(usize::from(block_len)) as u64;
        self.pace(packets * self.overhead + run.len() as u64)?;
        let result = match &mut self.frames {
            Some(frames) => frames.send(&mut self.transmitter, self.to, position, block_len, run),
            None => {
                let number = self.numbers.take(packets as u32);
                let first = Header { file_id: file, sequence: position, payload_len: 0, kind, number };
                self.send_blocks(first, usize::from(block_len), run)?
            }
        };
        self.summary.sent_bytes += run.len() as u64;
        self.summary.seconds = self.started.map_or(0.0, |started| (self.clock.now() - started).as_secs_f64());
        self.sent(result)
    }

    fn send_blocks(&mut self, first: Header, block_len: usize, run: &[u8]) -> io::Result<io::Result<()>> {
        let Some(sealer) = &mut self.sealer else {
            return Ok(self.transmitter.send_blocks(self.to, first, block_len, run));
        };
        self.sealed.clear();
        sealer.seal_blocks(first, block_len, run, &mut self.sealed)?;
        Ok(self.transmitter.send_segments(self.to, Sealer::segment_len(block_len), &self.sealed))
    }

    fn withdraw(&mut self, file: FileId, error: &SourceError, tell: &mut impl FnMut(SendEvent)) {
        if !self.withdrawn.insert(file) {
            return;
        }
        let reason = error.to_string();
        let name = self.sources.get(file.index() as usize).map(|source| source.name.clone());
        tell(SendEvent::Withdrawn { name: name.unwrap_or_default(), reason: reason.clone() });
        self.machine.handle(self.clock.now(), SenderInput::Withdraw { file, reason });
    }

    /// Waits until the rate allows `bytes` more.
    fn pace(&mut self, bytes: u64) -> Result<(), CarouselError> {
        loop {
            let now = self.clock.now();
            let delay = self.pacer.delay(now, bytes);
            if delay.is_zero() {
                self.pacer.sent(now, bytes);
                return Ok(());
            }
            std::thread::sleep(delay);
        }
    }

    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.poller.wait(timeout, &mut Vec::new())
    }
}

/// How many blocks are signed together; none are in a plain carousel, and with the IoT updater's frames.
fn signed_blocks(options: &SendOptions, overhead: u64) -> Option<usize> {
    options.identity.as_ref()?;
    let most = BlockHashes::per_page(options.block_len)?;
    let Some(rate) = options.rate_bps else { return Some(most) };
    let packet_bytes = overhead + u64::from(options.block_len);
    let in_time = rate / 8 * SIGNED_MILLIS / 1000 / packet_bytes;
    Some(usize::try_from(in_time).unwrap_or(most).clamp(FEWEST_SIGNED, most))
}

fn machine(
    options: &SendOptions,
    sources: &[NamedSource],
    max_run_len: usize,
) -> Result<Sender, CarouselError> {
    let config = SenderConfig {
        session: options.session,
        max_run_lens: vec![max_run_len as u32],
        block_len: options.block_len,
        fec: options.fec,
        announce: options.dialect == Dialect::Session,
        start: if options.dialect == Dialect::Session { u64::from_be_bytes(random()?) } else { 0 },
        first_row: if options.has_twins { 1 + u64::from(u32::from_be_bytes(random()?)) } else { 0 },
        idle: options.idle,
        loops: None,
    };
    let objects = sources.iter().map(NamedSource::begin).collect::<Result<Vec<_>, _>>()?;
    Sender::new(config, &objects).map_err(|_| CarouselError::Contents(sources.len()))
}
