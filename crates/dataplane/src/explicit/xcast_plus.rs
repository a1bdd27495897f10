//! Xcast+ (RFC 5058) at a designated router: it registers at the senders of the channels that hosts on its links have
//! joined, and takes the registrations of others for senders on its links. It turns what those send to the group into
//! Xcast for the routers that have registered (M2X). What it gets for its own listeners the data plane turns into
//! multicast (X2M).
//!
//! All of this is in user space: packets come from packet sockets and leave by a raw one, whatever the data plane is.

use std::{
    io,
    net::{Ipv6Addr, UdpSocket},
    os::fd::{AsFd, BorrowedFd},
    time::{Duration, SystemTime},
};

use socket2::{SockFilter, Socket};
use treecast_host::{
    classic_bpf::{AND, JUMP_EQUAL, JUMP_GREATER, LOAD_BYTE, LOAD_HALF, RETURN},
    interface::Interface,
    packet::{self, Addressee},
};
use treecast_proto::{
    Instant,
    explicit::{
        authentication::DomainKey,
        mead::router::Router,
        xcast::{
            registration::{Channel, MAX_CHANNELS, Registered, Registrar},
            router::{Arrival, Outcome, encapsulate, forward},
        },
    },
};
use treecast_wire::{
    ipv6::{self, next_header, upper_layer_checksum},
    xcast::{REGISTRATION_LEN, REGISTRATION_PORT, Registration},
};

use super::{listeners::Registrations, routes::Routes, taps::Taps, user_space::packets};
use crate::raw_output::RawOutput;

/// Frames taken off an interface before anything else is looked at.
const BATCH: usize = 64;

/// Time between two looks for listeners.
const LOOK: Duration = Duration::from_millis(200);

const UDP_HEADER_LEN: usize = 8;

/// A router's part in Xcast+.
pub struct XcastPlus {
    key: Option<DomainKey>,
    registrar: Registrar,
    registered: Registered,
    next_look: Instant,
    links: Taps,
    /// The least one of the links: lists are so short that packets fit there, where they can.
    mtu: usize,
    out: RawOutput,
    routes: Routes,
    counts: Counts,
}

/// Counts of a router's part in Xcast+.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counts {
    /// The number of multicast packets that have become Xcast.
    pub encapsulated: u64,
    /// The number of registrations that did not count.
    pub refused: u64,
    /// The number of registrations that could not be sent.
    pub unsent: u64,
}

impl XcastPlus {
    pub fn open(key: Option<DomainKey>) -> io::Result<Self> {
        Ok(Self {
            registrar: Registrar::default(),
            registered: Registered::new(key.clone()),
            key,
            next_look: Instant::ZERO,
            links: Taps::new()?,
            mtu: 0,
            out: RawOutput::open()?,
            routes: Routes::open()?,
            counts: Counts::default(),
        })
    }

    /// Watches the packets that arrive at these interfaces, and at no others from now on.
    pub fn attend<'a>(&mut self, interfaces: impl Iterator<Item = &'a Interface>) -> io::Result<()> {
        let (interfaces, mtus): (Vec<_>, Vec<_>) = interfaces.map(|one| (one.index, one.mtu)).unzip();
        self.links.attend(&interfaces, listen)?;
        self.mtu = mtus.into_iter().min().unwrap_or_default() as usize;
        Ok(())
    }

    /// Forgets what it knows of routes, because some have changed.
    pub fn forget_routes(&mut self) {
        self.routes.forget();
    }

    /// Returns when there is something to do even if nothing arrives.
    pub fn deadline(&self, now: Instant) -> Option<Instant> {
        let ends = self.registered.deadline(now);
        self.registrar.deadline().into_iter().chain(ends).chain([self.next_look.max(now)]).min()
    }

    /// Takes in what has arrived, and registers for the channels that have listeners. `own_towards` returns the
    /// address that the router uses towards a destination.
    pub fn work(
        &mut self,
        now: Instant,
        router: &Router,
        listeners: &Registrations,
        own_towards: impl Fn(Ipv6Addr) -> Option<Ipv6Addr>,
    ) -> io::Result<()> {
        for interface in self.links.ready()? {
            self.take(now, router, interface);
        }
        if now >= self.next_look {
            self.next_look = now + LOOK;
            self.registrar.attend(now, &listeners.channels(now, MAX_CHANNELS));
            self.registered.expire(now);
        }
        while let Some(((source, group), holding)) = self.registrar.poll(now) {
            match own_towards(source) {
                Some(own) => self.register(now, (source, group), own, holding),
                None => self.counts.unsent += 1,
            }
        }
        Ok(())
    }

    /// Registers at a source, and here, if that is on a link of this router.
    fn register(&mut self, now: Instant, (source, group): Channel, router: Ipv6Addr, holding: Duration) {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let registration = Registration {
            holding_seconds: holding.as_secs() as u16,
            sequence: since.as_nanos() as u64,
            source,
            group,
            router,
            code: [0; 16],
        };
        let registration = self.key.as_ref().map_or(registration, |key| key.seal(registration));
        if self.is_on_link(source, None) {
            self.hear(now, &registration);
        }
        let send = || {
            let socket = UdpSocket::bind((router, 0))?;
            socket.send_to(&registration.to_bytes(), (source, REGISTRATION_PORT))
        };
        if send().is_err() {
            self.counts.unsent += 1;
        }
    }

    fn hear(&mut self, now: Instant, registration: &Registration) {
        if self.registered.hear(now, registration).is_err() {
            self.counts.refused += 1;
        }
    }

    /// Whether a host is a neighbour, at that interface if one is named.
    fn is_on_link(&mut self, host: Ipv6Addr, interface: Option<u32>) -> bool {
        self.routes.towards(host).is_some_and(|hop| {
            hop.gateway.is_none() && interface.is_none_or(|interface| interface == hop.interface)
        })
    }

    fn take(&mut self, now: Instant, router: &Router, interface: u32) {
        for _ in 0..BATCH {
            let Some((frame, to)) = self.links.next(interface) else { return };
            if to == Addressee::Leaving {
                continue;
            }
            let frame = frame.to_vec();
            for packet in packets(&frame) {
                let Ok((ip, payload)) = ipv6::Header::parse(&packet) else { continue };
                if ip.destination.is_multicast() {
                    self.encapsulate(now, router, &ip, &packet, interface);
                } else if let Some(registration) = registration(&ip, payload)
                    && self.is_on_link(registration.source, None)
                {
                    self.hear(now, &registration);
                }
            }
        }
    }

    /// M2X, and what this router itself does as the first on the packet's way.
    fn encapsulate(
        &mut self,
        now: Instant,
        router: &Router,
        ip: &ipv6::Header,
        packet: &[u8],
        interface: u32,
    ) {
        let routers = self.registered.routers(now, (ip.source, ip.destination));
        // What another router sends for its listeners comes from no neighbour.
        if routers.is_empty() || !self.is_on_link(ip.source, Some(interface)) {
            return;
        }
        let Self { routes, out, counts, mtu, .. } = self;
        counts.encapsulated += 1;
        for xcast in encapsulate(packet, &routers, *mtu, router.guard.lists) {
            let towards = &mut |destination| routes.towards(destination);
            let arrival = Arrival { interface, is_for_all: false };
            let Outcome::Forward(copies) = forward(router, &xcast, arrival, towards) else { continue };
            for copy in copies {
                // What the kernel does not take is lost, as it would be on a link.
                let _ = out.send(&copy.packet, copy.interface);
            }
        }
    }

    /// Returns the channels for which others have registered, with their routers, and the counts.
    pub fn report(&self, now: Instant) -> (Vec<(Channel, Vec<Ipv6Addr>)>, Counts) {
        let channels = self.registered.channels(now).into_iter();
        let routers = channels.map(|channel| (channel, self.registered.routers(now, channel)));
        (routers.collect(), self.counts)
    }
}

impl AsFd for XcastPlus {
    /// Readable when something has come.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.links.as_fd()
    }
}

/// A registration for the host that a packet goes to, from the router that it names, with a right checksum.
fn registration(ip: &ipv6::Header, segment: &[u8]) -> Option<Registration> {
    let is_whole = ip.next_header == next_header::UDP
        && segment.len() == UDP_HEADER_LEN + REGISTRATION_LEN
        && segment[2..4] == REGISTRATION_PORT.to_be_bytes()
        && upper_layer_checksum(ip.source, ip.destination, next_header::UDP, segment) == 0;
    let registration = is_whole.then(|| Registration::parse(&segment[UDP_HEADER_LEN..]).ok()).flatten()?;
    let is_from_router = registration.source == ip.destination && registration.router == ip.source;
    is_from_router.then_some(registration)
}

fn listen(interface: u32) -> io::Result<Socket> {
    let socket = packet::open_for_forwarding(interface)?;
    socket.attach_filter(&is_wanted())?;
    packet::take_all_groups(&socket, interface)?;
    Ok(socket)
}

/// IPv6 (ethertype at 12) to a group (destination at 38) of a scope beyond the link, or UDP (next header at 20) to the port of
/// registrations (at 56), in classic BPF.
fn is_wanted() -> [SockFilter; 13] {
    let step = SockFilter::new;
    [
        step(LOAD_HALF, 0, 0, 12),
        step(JUMP_EQUAL, 0, 10, 0x86dd),
        step(LOAD_BYTE, 0, 0, 38),
        step(JUMP_EQUAL, 0, 3, 0xff),
        step(LOAD_BYTE, 0, 0, 39),
        step(AND, 0, 0, 0x0f),
        step(JUMP_GREATER, 4, 5, 2),
        step(LOAD_BYTE, 0, 0, 20),
        step(JUMP_EQUAL, 0, 3, next_header::UDP as u32),
        step(LOAD_HALF, 0, 0, 56),
        step(JUMP_EQUAL, 0, 1, REGISTRATION_PORT as u32),
        step(RETURN, 0, 0, u32::MAX),
        step(RETURN, 0, 0, 0),
    ]
}
