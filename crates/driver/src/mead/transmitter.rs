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
};

use treecast_proto::mead::transmission::{Form, Packets, Sent, TransmissionGroup};
use treecast_wire::ipv6;

use super::{raw::PacketSocket, tun::Tun};
use crate::{
    poller::{Interest, Poller},
    wake::Waker,
};

/// Packets that are read before any is sent.
const READ_AHEAD: usize = 32;

/// Longer than any packet that a device hands over.
const MAX_PACKET_LEN: usize = 65_575;

const TUN: u64 = 0;
const END: u64 = 1;

/// What both threads see.
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

/// What the transmitter has counted.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Data {
    pub sent: Sent,
    pub packets: u64,
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

    /// Makes the next packet go by this group.
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

    /// Whether there were packets too long since the last time.
    pub fn take_too_long(&self) -> bool {
        self.is_too_long.swap(false, Ordering::Relaxed)
    }

    pub fn end(&self) {
        self.end.wake();
    }

    fn group(&self) -> Arc<TransmissionGroup> {
        self.group.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn count(&self, sent: Sent, packets: u64, refused: u64) {
        let mut data = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
        data.sent = data.sent.plus(sent);
        (data.packets, data.refused) = (data.packets + packets, data.refused + refused);
        if packets > 0 && !self.has_traffic.swap(true, Ordering::Relaxed) {
            self.news.wake();
        }
    }
}

/// Sends what programs send to `address`, until it is ended.
pub(super) fn start<'scope, 'env>(
    scope: &'scope Scope<'scope, 'env>,
    shared: &'env Shared,
    (tun, address): (&'env Tun, Ipv6Addr),
    socket: &'env PacketSocket,
    form: &'env Form,
) -> ScopedJoinHandle<'scope, io::Result<()>> {
    scope.spawn(move || {
        let result = transmit(shared, (tun, address), socket, form);
        shared.news.wake();
        result
    })
}

fn transmit(
    shared: &Shared,
    (tun, address): (&Tun, Ipv6Addr),
    socket: &PacketSocket,
    form: &Form,
) -> io::Result<()> {
    let mut poller = Poller::new()?;
    poller.add(tun, TUN, Interest::Read)?;
    poller.add(&shared.end.as_fd(), END, Interest::Read)?;
    let (mut ready, mut buffer, mut packets) = (Vec::new(), vec![0; MAX_PACKET_LEN], Vec::new());
    let mut maker = Packets::new(form.clone(), TransmissionGroup::default());
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
        let (mut sent, mut count) = (Sent::default(), 0);
        for _ in 0..READ_AHEAD {
            let Some(len) = tun.read(&mut buffer)? else { break };
            let packet = &buffer[..len];
            // The kernel says other things there, too: it looks for routers and reports its groups.
            if !ipv6::Header::parse(packet).is_ok_and(|(ip, _)| ip.destination == address) {
                continue;
            }
            if let Some(made) = maker.make(packet, |to, packet| packets.push((to, packet))) {
                (sent, count) = (sent.plus(made), count + 1);
            }
        }
        let (refused, why) = socket.send(&packets);
        if why.is_some_and(|why| why.raw_os_error() == Some(libc::EMSGSIZE))
            && !shared.is_too_long.swap(true, Ordering::Relaxed)
        {
            shared.news.wake();
        }
        packets.clear();
        shared.count(sent, count, refused);
    }
}
