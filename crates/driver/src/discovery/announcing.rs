//! The thread that announces a session while it lasts.

use std::{
    io,
    sync::{Arc, Mutex, PoisonError},
    thread::JoinHandle,
};

use treecast_host::{
    clock::since_1970,
    interface::Interface,
    poller::{Interest, Poller},
    wake::Waker,
};
use treecast_proto::announced::{Announcer, Carrier, SAP_VALID_SECONDS};
use treecast_wire::{announcement::Announcement, sap};

use super::{
    mdns::{self, Instance, Service},
    sockets::{self, Ear, Protocol},
};
use crate::{
    clock::{self, Clock},
    security::{self, Identity},
};

/// The time for which an announcement on the link is valid, in seconds. Three of them may be lost.
const LINK_SECONDS: u32 = 200;

/// The most addresses of an interface that are told, so that all fits into one packet.
const MAX_ADDRESSES: usize = 4;

/// The most datagrams that are read before the time is looked at.
const READS_A_TURN: usize = 64;

/// The poller's token of the waker. Smaller ones are sockets.
const STOP: u64 = u64::MAX;

/// A session or an offer that is announced.
#[derive(Debug, Clone)]
pub enum Notice {
    /// A session that anybody may join who trusts its sender, signed with the sender's key.
    Session { announcement: Box<Announcement>, identity: Box<Identity> },
    /// A port at which a code gets the ticket, and the code's tag.
    Offer { tag: u8, port: u16 },
}

/// Keeps announcing until it is dropped. Then it takes the announcement back.
#[derive(Debug)]
pub struct Announcing {
    waker: Waker,
    thread: Option<JoinHandle<()>>,
    troubles: Troubles,
}

/// Lines about packets that cannot leave, until somebody reads them.
type Troubles = Arc<Mutex<Vec<String>>>;

/// The number of packets in a row that a socket must fail to send before this is told. A link that is down for a
/// moment loses one.
const FAILURES: u32 = 3;

impl Announcing {
    /// Starts to announce on an interface.
    ///
    /// # Errors
    /// If no socket can be opened, or no thread started.
    pub fn start(interface: &Interface, notice: Notice) -> io::Result<Self> {
        let protocols: &[Protocol] = match notice {
            Notice::Session { .. } => &[Protocol::Mdns, Protocol::Sap],
            Notice::Offer { .. } => &[Protocol::Mdns],
        };
        let (ears, deaf) = sockets::open(std::slice::from_ref(interface), protocols)?;
        let troubles: Vec<String> =
            sockets::problem(&deaf).map(|why| format!("{NOT_EVERYWHERE}: {why}")).into_iter().collect();
        let troubles = Arc::new(Mutex::new(troubles));
        let (poller, waker) = (Poller::new()?, Waker::new()?);
        poller.add(&waker, STOP, Interest::Read)?;
        for (ear, token) in ears.iter().zip(0..) {
            poller.add(&ear.socket, token, Interest::Read)?;
        }
        let clock = Clock::start();
        let random: [u8; 8] = security::random()?;
        let label = format!("treecast-{}", random.map(|byte| format!("{byte:02x}")).concat());
        let machine = Announcer::new(clock.now(), clock::seed());
        let failures = ears.iter().map(|_| 0).collect();
        let told = troubles.clone();
        let voice = Voice { ears, failures, troubles: told, notice, machine, clock, label, number: 0 };
        let thread = treecast_host::thread::spawn("announces", move || voice.run(poller))?;
        Ok(Self { waker, thread: Some(thread), troubles })
    }

    /// Lines about packets that cannot leave, each once.
    pub fn take_troubles(&self) -> Vec<String> {
        std::mem::take(&mut *self.troubles.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Announcing {
    fn drop(&mut self) {
        self.waker.wake();
        // A panic there has been reported.
        self.thread.take().into_iter().for_each(|thread| _ = thread.join());
    }
}

/// The beginning of a line about one socket of several.
const NOT_EVERYWHERE: &str = "the session is not announced everywhere";

struct Voice {
    ears: Vec<Ear>,
    /// The number of packets in a row that each of them has failed to send.
    failures: Vec<u32>,
    troubles: Troubles,
    notice: Notice,
    machine: Announcer,
    clock: Clock,
    /// The instance's name, which no other has.
    label: String,
    /// The number of the last announcement.
    number: u64,
}

impl Voice {
    fn run(mut self, mut poller: Poller) {
        loop {
            let now = self.clock.now();
            while let Some(carrier) = self.machine.due(now, treecast_wire::announcement::MAX_LEN) {
                self.announce(carrier, false);
            }
            let timeout = self.machine.deadline().saturating_duration_since(now);
            // Without the kernel's poller nothing can be awaited.
            let Ok(tokens) = poller.tokens(Some(timeout)) else { return };
            if tokens.contains(&STOP) {
                [Carrier::Link, Carrier::Sap].into_iter().for_each(|carrier| self.announce(carrier, true));
                return;
            }
            for token in tokens {
                self.hear(token as usize);
            }
        }
    }

    /// Announces the session, or takes its announcement back.
    fn announce(&mut self, carrier: Carrier, is_over: bool) {
        // It grows over restarts of the sender, and if the clock is set back while it runs.
        self.number = (self.number + 1).max(since_1970().as_millis() as u64);
        match carrier {
            Carrier::Link => {
                let seconds = if is_over { 0 } else { LINK_SECONDS };
                let (service, port, value) = match &self.notice {
                    Notice::Session { announcement, .. } => {
                        (Service::Sessions, port(announcement), self.signed(seconds))
                    }
                    Notice::Offer { tag, port } => (Service::Codes, *port, vec![*tag]),
                };
                let mut said = Vec::new();
                for (index, ear) in
                    self.ears.iter().enumerate().filter(|(_, ear)| ear.protocol == Protocol::Mdns)
                {
                    let addresses = &ear.interface.addresses;
                    let addresses = &addresses[..addresses.len().min(MAX_ADDRESSES)];
                    let instance = Instance {
                        service,
                        label: &self.label,
                        port,
                        addresses,
                        value: &value,
                        ttl: seconds,
                    };
                    said.push((index, ear.say(&mdns::answer(&[instance]), None)));
                }
                self.note_said(said);
            }
            Carrier::Sap => {
                let value = self.signed(if is_over { 0 } else { SAP_VALID_SECONDS });
                let Notice::Session { announcement, .. } = &self.notice else { return };
                let mut said = Vec::new();
                for (index, ear) in
                    self.ears.iter().enumerate().filter(|(_, ear)| ear.protocol == Protocol::Sap)
                {
                    let Some(origin) = ear.origin() else { continue };
                    let packet = sap::Packet {
                        is_deletion: is_over,
                        hash: hash(announcement),
                        origin,
                        payload_type: sap::PAYLOAD_TYPE,
                        payload: &value,
                    };
                    said.push((index, ear.say(&packet.to_bytes(), Some(announcement.ticket()))));
                }
                self.note_said(said);
            }
        }
    }

    /// Tells of a socket that cannot send, once until it can again.
    fn note_said(&mut self, said: Vec<(usize, io::Result<()>)>) {
        for (index, result) in said {
            let (Some(failures), Some(ear)) = (self.failures.get_mut(index), self.ears.get(index)) else {
                continue;
            };
            let Err(error) = result else {
                *failures = 0;
                continue;
            };
            *failures += 1;
            if *failures == FAILURES {
                let line = format!("{NOT_EVERYWHERE}: {ear} cannot send: {error}");
                self.troubles.lock().unwrap_or_else(PoisonError::into_inner).push(line);
            }
        }
    }

    /// The signed announcement with the next number. Empty for an offer.
    fn signed(&self, valid_seconds: u32) -> Vec<u8> {
        let Notice::Session { announcement, identity } = &self.notice else { return Vec::new() };
        let mut announcement = announcement.clone();
        (announcement.number, announcement.valid_seconds) = (self.number, valid_seconds);
        announcement.to_bytes(&identity.sign(&announcement.signed_bytes()))
    }

    /// Looks for those who ask, and for other announcers.
    fn hear(&mut self, index: usize) {
        let Some(ear) = self.ears.get(index) else { return };
        let now = self.clock.now();
        let mut bytes = [0; mdns::MAX_LEN];
        for _ in 0..READS_A_TURN {
            let Ok((len, _)) = ear.receive(&mut bytes) else { return };
            match ear.protocol {
                Protocol::Mdns => {
                    let service = match self.notice {
                        Notice::Session { .. } => Service::Sessions,
                        Notice::Offer { .. } => Service::Codes,
                    };
                    if mdns::read(&bytes[..len]).asked.contains(&service) {
                        self.machine.asked(now);
                    }
                }
                Protocol::Sap => {
                    let Notice::Session { announcement, .. } = &self.notice else { return };
                    let Ok(packet) = sap::Packet::parse(&bytes[..len]) else { continue };
                    if packet.hash != hash(announcement) {
                        self.machine.heard_other(now, packet.hash, packet.origin);
                    }
                }
            }
        }
    }
}

/// The port that stands for the session in DNS-SD: where receivers connect, or that of the group.
fn port(announcement: &Announcement) -> u16 {
    let ticket = announcement.ticket();
    ticket.control.first().unwrap_or(&ticket.group).port()
}

/// The hash that tells a session from others in SAP. It stays the same, because the payload has a number of its own.
fn hash(announcement: &Announcement) -> u16 {
    let session = announcement.ticket().session.0.to_be_bytes();
    let hash = blake3::hash(&[&announcement.key()[..], &session].concat());
    u16::from_be_bytes([hash.as_bytes()[0], hash.as_bytes()[1]])
}
