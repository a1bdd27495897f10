//! The thread that reads the TUN device and sends to the group.

use std::{
    io,
    net::Ipv6Addr,
    os::fd::AsFd,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{Scope, ScopedJoinHandle},
    time::Instant,
};

use treecast_host::{
    offload::OFFLOAD_LEN,
    poller::{Interest, Poller},
    tun::Tun,
    wake::Waker,
};
use treecast_proto::explicit::{
    lists::{Form, TransmissionGroup},
    transmission::{Packets, Sent, SuperPacket, complete_checksum},
};
use treecast_wire::ipv6;

use super::{
    raw::{PacketSocket, epoch},
    super_socket::SuperSocket,
};

/// Packets that are read before any is sent.
const READ_AHEAD: usize = 32;

/// The most bytes of a packet that a device hands over, and what stands in front.
const MAX_PACKET_LEN: usize = 65_575 + OFFLOAD_LEN;

const TUN: u64 = 0;
const END: u64 = 1;

/// The state that both threads see.
#[derive(Debug)]
pub(super) struct Shared {
    group: Mutex<Arc<TransmissionGroup>>,
    sent: Mutex<Data>,
    /// Ends the transmitter.
    end: Waker,
    /// Wakes the other thread: there is traffic, or the transmitter has failed.
    news: Waker,
    has_traffic: AtomicBool,
    /// The kernel has found packets too long for where they were to leave.
    is_too_long: AtomicBool,
}

/// The transmitter's counters.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Data {
    pub sent: Sent,
    pub packets: u64,
    pub in_super_packets: u64,
    pub refused: u64,
}

impl Shared {
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            group: Mutex::default(),
            sent: Mutex::default(),
            end: Waker::new()?,
            news: Waker::new()?,
            has_traffic: AtomicBool::new(false),
            is_too_long: AtomicBool::new(false),
        })
    }

    /// Replaces the transmission group, from the next packet on.
    pub fn replace(&self, group: TransmissionGroup) {
        *self.group.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(group);
    }

    pub fn counted(&self) -> Data {
        *self.sent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn news(&self) -> &Waker {
        &self.news
    }

    pub fn has_traffic(&self) -> bool {
        self.has_traffic.load(Ordering::Relaxed)
    }

    /// Whether packets were too long since the last call.
    pub fn take_too_long(&self) -> bool {
        self.is_too_long.swap(false, Ordering::Relaxed)
    }

    pub fn end(&self) {
        self.end.wake();
    }

    fn group(&self) -> Arc<TransmissionGroup> {
        self.group.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn count(&self, more: Data) {
        let mut data = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
        data.sent = data.sent.plus(more.sent);
        data.packets += more.packets;
        data.in_super_packets += more.in_super_packets;
        data.refused += more.refused;
        if more.packets > 0 && !self.has_traffic.swap(true, Ordering::Relaxed) {
            self.news.wake();
        }
    }
}

/// Sends what programs send to `address`, until it is ended.
pub(super) fn start<'scope, 'env>(
    scope: &'scope Scope<'scope, 'env>,
    shared: &'env Shared,
    (tun, address): (&'env Tun, Ipv6Addr),
    (socket, super_socket): (&'env PacketSocket, Option<SuperSocket>),
    form: &'env Form,
) -> ScopedJoinHandle<'scope, io::Result<()>> {
    scope.spawn(move || {
        let maker = Packets::new(form.clone(), TransmissionGroup::default());
        let out =
            Out { socket, super_socket, packets: Vec::new(), counted: Data::default(), is_too_long: false };
        let result = transmit(shared, (tun, address), maker, out, form);
        shared.news.wake();
        result
    })
}

fn transmit(
    shared: &Shared,
    (tun, address): (&Tun, Ipv6Addr),
    mut maker: Packets,
    mut out: Out<'_>,
    form: &Form,
) -> io::Result<()> {
    let mut poller = Poller::new()?;
    poller.add(tun, TUN, Interest::Read)?;
    poller.add(&shared.end.as_fd(), END, Interest::Read)?;
    let (mut ready, mut buffer) = (Vec::new(), vec![0; MAX_PACKET_LEN]);
    loop {
        ready.clear();
        poller.wait(None, &mut ready)?;
        if ready.iter().any(|ready| ready.token == END) {
            return Ok(());
        }
        let group = shared.group();
        if maker.group().number != group.number {
            maker = Packets::new(form.clone(), (*group).clone());
        }
        maker.set_epoch(epoch());
        for _ in 0..READ_AHEAD {
            let Some((offload, packet)) = tun.read(&mut buffer)? else { break };
            // The kernel says other things there, too: it looks for routers and reports its groups.
            if !ipv6::Header::parse(packet).is_ok_and(|(ip, _)| ip.destination == address) {
                continue;
            }
            match offload.segment_bytes() {
                Some(segment_bytes) => out.send_super(&mut maker, packet, segment_bytes),
                None => out.add(&mut maker, packet, offload.needs_checksum()),
            }
        }
        out.flush();
        if std::mem::take(&mut out.is_too_long) && !shared.is_too_long.swap(true, Ordering::Relaxed) {
            shared.news.wake();
        }
        shared.count(std::mem::take(&mut out.counted));
    }
}

/// The sockets by which packets leave.
struct Out<'a> {
    socket: &'a PacketSocket,
    /// The socket for super-packets. `None` if they are divided.
    super_socket: Option<SuperSocket>,
    /// Packets that wait to be sent together.
    packets: Vec<(Ipv6Addr, Vec<u8>)>,
    counted: Data,
    /// Whether the kernel has refused some for that.
    is_too_long: bool,
}

impl Out<'_> {
    fn add(&mut self, maker: &mut Packets, packet: &mut [u8], needs_checksum: bool) {
        if needs_checksum {
            complete_checksum(packet);
        }
        if let Some(sent) = maker.make(packet, |to, packet| self.packets.push((to, packet))) {
            self.counted.sent = self.counted.sent.plus(sent);
            self.counted.packets += 1;
        }
    }

    fn send_super(&mut self, maker: &mut Packets, packet: &[u8], segment_bytes: usize) {
        // What came before leaves before.
        self.flush();
        let Some(packet) = SuperPacket::parse(packet, segment_bytes) else {
            // UDP behind other headers, which programs hardly have.
            self.counted.refused += 1;
            return;
        };
        let now = Instant::now();
        let sent = maker.make_super(&packet, |part| {
            if self.super_socket.as_mut().is_some_and(|socket| socket.send(now, &part)) {
                self.counted.in_super_packets += part.count() as u64;
            } else {
                self.packets.extend(part.packets().map(|packet| (part.destination, packet)));
            }
        });
        self.counted.sent = self.counted.sent.plus(sent);
        self.counted.packets += packet.count() as u64;
        self.flush();
    }

    fn flush(&mut self) {
        let (refused, why) = self.socket.send(&self.packets);
        self.is_too_long |= why.is_some_and(|why| why.raw_os_error() == Some(libc::EMSGSIZE));
        self.counted.refused += refused;
        self.packets.clear();
    }
}
