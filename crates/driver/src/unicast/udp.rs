//! The unicast server and client over UDP: clients request ranges, and replies are super-packets.

use std::{io, net::SocketAddr, ops::Range, path::Path, time::Duration};

use treecast_host::{
    interface,
    poller::{Interest, Poller},
    stop::Stop,
};
use treecast_proto::{
    Instant, Step,
    policy::{self, Pacer},
    unicast::{
        ClientEvent,
        udp::{
            Client, ClientConfig, ClientInput, ClientTransmit, Server, ServerConfig, ServerEvent as Told,
            ServerInput, ServerTransmit,
        },
    },
};
use treecast_wire::{
    message::Digest,
    unicast::{FileHeader, Reply, Request},
};

use super::{
    ATTEMPTS, ClientProgress, Next, ServerEvent, ServerSummary, UnicastError, bind_error,
    copy::{Copy, object},
    hash, outcome, udp_overhead,
};
use crate::{
    clock::Clock,
    files::Source,
    udp::{
        AtHand, Batch, DatagramReceiver, Item, Offload, Transmitter, frames_in_super_packet,
        open_unicast_client, open_unicast_server,
    },
};

/// The most clients that are served in turn.
const MAX_CLIENTS: usize = 256;

/// The time without anything new after which a client asks again. With many clients on a slow link the server's turns
/// take long.
const TIMEOUT: Duration = Duration::from_secs(2);

/// The number of times in a row that it does so.
const MAX_TIMEOUTS: u32 = 30;

/// The default time for a server's first reply.
pub const FIRST_REPLY_TIMEOUT: Duration = Duration::from_secs(10);

/// The longest packet that passes most networks whole.
const MAX_PACKET_LEN: u64 = 1500;

const SERVER_BUFFER_BYTES: usize = 1 << 20;
const CLIENT_BUFFER_BYTES: usize = 8 << 20;

/// A batch takes a super-packet whole.
const SUPER_PACKET_LEN: usize = 65_536;

/// The number of calls' worth of requests that are read between two runs of blocks.
const MAX_REQUEST_READS: usize = 64;

/// Serves the file at `path` to every client that asks, with at most `rate_bps` bits of IP packets a second,
/// until `stop` is requested.
///
/// # Errors
/// If the file cannot be read, has changed, or the address cannot be used.
pub fn serve(
    path: &Path,
    address: SocketAddr,
    rate_bps: Option<u64>,
    offload: Offload,
    stop: &Stop,
    mut tell: impl FnMut(ServerEvent),
) -> Result<ServerSummary, UnicastError> {
    let mut source = Source::new(path)?;
    let Some(file) = hash(&mut source, stop)? else { return Ok(ServerSummary::default()) };
    let socket =
        open_unicast_server(address, SERVER_BUFFER_BYTES).map_err(|error| bind_error(address, error))?;
    let overhead = udp_overhead(address.ip()) + Reply::HEADER_LEN as u64;
    let block_len = (packet_len(address) - overhead) as usize;
    let limit = frames_in_super_packet(Reply::HEADER_LEN + block_len);
    let blocks = policy::packets_per_run(rate_bps, overhead + block_len as u64, limit);
    let clock = Clock::start();
    let server = UdpServer {
        source,
        file,
        machine: Server::new(ServerConfig {
            file_size: file.file_size,
            max_run_len: (blocks * block_len) as u32,
            max_clients: MAX_CLIENTS,
        }),
        requests: DatagramReceiver::new(socket.try_clone()?, Offload::Single),
        transmitter: Transmitter::new(socket, offload),
        pacer: Pacer::new(rate_bps, clock.now()),
        clock,
        overhead,
        block_len,
        buffer: vec![0; blocks * block_len],
        summary: ServerSummary::default(),
    };
    tell(ServerEvent::Ready { size: file.file_size, hash: Digest::unsigned(file.hash).to_string() });
    server.run(stop, &mut tell)
}

struct UdpServer {
    source: Source,
    file: FileHeader,
    machine: Server,
    requests: DatagramReceiver,
    transmitter: Transmitter,
    pacer: Pacer,
    clock: Clock,
    /// Bytes of headers before each block.
    overhead: u64,
    block_len: usize,
    buffer: Vec<u8>,
    summary: ServerSummary,
}

impl UdpServer {
    fn run(mut self, stop: &Stop, tell: &mut impl FnMut(ServerEvent)) -> Result<ServerSummary, UnicastError> {
        let mut poller = Poller::new()?;
        poller.add(self.requests.socket(), 0, Interest::Read)?;
        poller.add(stop, 1, Interest::Read)?;
        while !stop.is_requested() {
            self.take_requests()?;
            match self.machine.poll(self.clock.now()) {
                Step::Transmit(transmit) => self.reply(transmit, tell)?,
                Step::Event(Told::Active { client }) => {
                    self.source.check_unchanged()?;
                    tell(ServerEvent::Active { client });
                }
                Step::Event(Told::Idle { client }) => {
                    self.summary.served += 1;
                    tell(ServerEvent::Served { client });
                }
                Step::Event(Told::Refused { client }) => {
                    self.fail(client, "too many clients are being served".into(), tell);
                }
                Step::Wait(..) => poller.wait(None, &mut Vec::new())?,
            }
        }
        Ok(self.summary)
    }

    fn take_requests(&mut self) -> io::Result<()> {
        let (machine, now) = (&mut self.machine, self.clock.now());
        for _ in 0..MAX_REQUEST_READS {
            let came = self.requests.receive(|client, datagram| {
                if let Ok(request) = Request::parse(datagram) {
                    machine.handle(now, ServerInput::Request { client, request });
                }
            })?;
            if !came {
                break;
            }
        }
        Ok(())
    }

    fn reply(
        &mut self,
        transmit: ServerTransmit,
        tell: &mut impl FnMut(ServerEvent),
    ) -> Result<(), UnicastError> {
        let ServerTransmit { to, range } = transmit;
        let len = (range.end - range.start) as usize;
        let packets = len.div_ceil(self.block_len).max(1) as u64;
        self.pace(packets * self.overhead + len as u64);
        self.source.read(range.start, &mut self.buffer[..len])?;
        if let Err(error) = self.send(to, range.start, len) {
            self.machine.handle(self.clock.now(), ServerInput::Unreachable { client: to });
            self.fail(to, error.to_string(), tell);
        }
        Ok(())
    }

    fn send(&mut self, to: SocketAddr, mut offset: u64, len: usize) -> io::Result<()> {
        let file = self.file;
        let mut header_of = |block: &[u8]| {
            let reply = Reply::new(file, offset, block.len() as u16);
            offset += block.len() as u64;
            // The machine hands out runs within the file.
            reply.map_or([0; Reply::HEADER_LEN], |reply| reply.to_bytes())
        };
        if len == 0 {
            return self.transmitter.send_datagram(to, &header_of(&[]));
        }
        self.transmitter.send_frames(to, self.block_len, &self.buffer[..len], header_of)
    }

    fn fail(&mut self, client: SocketAddr, reason: String, tell: &mut impl FnMut(ServerEvent)) {
        self.summary.failed += 1;
        tell(ServerEvent::Failed { client, reason });
    }

    fn pace(&mut self, bytes: u64) {
        loop {
            let now = self.clock.now();
            let delay = self.pacer.delay(now, bytes);
            if delay.is_zero() {
                return self.pacer.sent(now, bytes);
            }
            std::thread::sleep(delay);
        }
    }
}

/// The longest IP packet that the interface with this address takes, within what most networks pass.
fn packet_len(address: SocketAddr) -> u64 {
    let all = interface::list().unwrap_or_default();
    let of = all.iter().find(|interface| interface.addresses.contains(&address.ip()));
    of.map_or(MAX_PACKET_LEN, |interface| u64::from(interface.mtu).clamp(1280, MAX_PACKET_LEN))
}

/// Fetches the file from `server`, and stores it at `path`. Gives up if nothing comes within
/// `first_reply_timeout`.
///
/// # Errors
/// If it cannot be fetched or stored. Nothing new is at `path` then.
pub fn fetch(
    path: &Path,
    server: SocketAddr,
    first_reply_timeout: Duration,
    offload: Offload,
    stop: &Stop,
    mut tell: impl FnMut(ClientProgress),
) -> Result<ClientProgress, UnicastError> {
    let copy = Copy::new(path, stop)?;
    let failed = |error: io::Error| UnicastError::Failed { address: server, reason: error.to_string() };
    let (socket, _) = open_unicast_client(server, CLIENT_BUFFER_BYTES).map_err(failed)?;
    copy.poller.add(&socket, 2, Interest::Read)?;
    let config = ClientConfig {
        timeout: TIMEOUT,
        first_reply_timeout,
        max_timeouts: MAX_TIMEOUTS,
        hash_attempts: ATTEMPTS,
    };
    let mut client = UdpClient {
        machine: Client::new(config),
        replies: ReplyCollector::new(DatagramReceiver::new(socket, offload)),
        copy,
    };
    outcome(client.run(&mut tell), server)?;
    Ok(client.copy.progress)
}

/// Takes replies about one file, that of the first reply.
struct ReplyCollector {
    receiver: DatagramReceiver,
    file: Option<FileHeader>,
    /// Length of the longest data so far.
    block_len: u16,
}

impl ReplyCollector {
    fn new(receiver: DatagramReceiver) -> Self {
        Self { receiver, file: None, block_len: 0 }
    }

    /// Takes what is there, as far as it fits; returns the parts of the file that it holds, each with its place
    /// in the batch.
    fn receive(&mut self, batch: &mut Batch) -> io::Result<Vec<(Range<u64>, usize)>> {
        let Self { receiver, file, block_len } = self;
        let mut is_empty = false;
        while batch.room() >= SUPER_PACKET_LEN
            && receiver.receive(|_, datagram| {
                let Ok((reply, data)) = Reply::parse(datagram) else { return };
                if *file.get_or_insert(reply.file) != reply.file || data.len() > batch.room() {
                    return;
                }
                *block_len = (*block_len).max(data.len() as u16);
                is_empty |= reply.file.file_size == 0;
                batch.push_block(object(), reply.range().start, data);
            })?
        {}
        let mut parts: Vec<_> = batch.take_items().into_iter().filter_map(blocks).collect();
        if is_empty {
            parts.push((0..0, 0));
        }
        Ok(parts)
    }

    /// The input that a part means for the machine.
    fn input(&self, range: Range<u64>) -> Option<ClientInput> {
        self.file.map(|file| ClientInput::Replies { file, range, block_len: self.block_len })
    }
}

fn blocks(item: Item) -> Option<(Range<u64>, usize)> {
    if let Item::Blocks { range, at, .. } = item { Some((range, at)) } else { None }
}

struct UdpClient<'a> {
    machine: Client,
    replies: ReplyCollector,
    copy: Copy<'a>,
}

impl UdpClient<'_> {
    fn run(&mut self, tell: &mut impl FnMut(ClientProgress)) -> Result<ClientEvent, UnicastError> {
        loop {
            let now = self.copy.now()?;
            for report in self.copy.reports() {
                self.machine.handle(now, ClientInput::Storage(report));
            }
            let (is_quiet, next) = self.take_replies(now)?;
            let ends = matches!(next, Next::End(_));
            self.copy.progress.dropped_packets = self.replies.receiver.dropped();
            self.copy.settle(now, SUPER_PACKET_LEN, ends, self.machine.progress(), tell);
            match next {
                Next::End(event) => return Ok(event),
                Next::Wait(deadline) if is_quiet => self.copy.wait(now, deadline)?,
                Next::Wait(_) => {}
            }
        }
    }

    /// Hands what has come to the machine; returns whether that was nothing, and what is next.
    fn take_replies(&mut self, now: Instant) -> Result<(bool, Next), UnicastError> {
        let inputs = self.replies.receive(self.copy.batch())?;
        let is_quiet = inputs.is_empty();
        let mut next = self.carry_out(now, None)?;
        for (range, at) in inputs {
            let at_hand = AtHand { start: range.start, at };
            self.replies.input(range).into_iter().for_each(|input| self.machine.handle(now, input));
            if matches!(next, Next::Wait(_)) {
                next = self.carry_out(now, Some(at_hand))?;
            }
        }
        Ok((is_quiet, next))
    }

    /// Does all that the machine wants.
    fn carry_out(&mut self, now: Instant, at_hand: Option<AtHand>) -> Result<Next, UnicastError> {
        loop {
            match self.machine.poll(now) {
                Step::Transmit(ClientTransmit::Request(request)) => self.request(request)?,
                Step::Transmit(ClientTransmit::Storage(task)) => {
                    self.copy.carry_out(now, task, at_hand)?;
                }
                Step::Event(event) => return Ok(Next::End(event)),
                Step::Wait(deadline, _) => return Ok(Next::Wait(deadline)),
            }
        }
    }

    fn request(&mut self, request: Request) -> Result<(), UnicastError> {
        self.copy.progress.requests += 1;
        match self.replies.receiver.socket().send(&request.to_bytes()) {
            // Nobody listens there yet: the machine asks again after its timeout.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(()),
            Err(error) => Err(error.into()),
            Ok(_) => Ok(()),
        }
    }
}
