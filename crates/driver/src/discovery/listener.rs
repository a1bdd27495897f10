//! Hears announcements, and asks for them on the link.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    net::{IpAddr, SocketAddr},
    os::fd::{AsFd, BorrowedFd},
    time::Duration,
};

use treecast_host::{
    clock::since_1970,
    interface::Interface,
    poller::{Interest, Poller},
    stop::Stop,
};
use treecast_proto::{
    Instant,
    announced::{Change, Directory, Refusal, Worth},
};
use treecast_wire::{announcement::Announcement, sap, ticket::KEY_LEN};

use super::{
    is_signed, mdns,
    mdns::Service,
    sockets::{self, Deaf, Ear, Protocol},
};
use crate::clock::Clock;

/// The time between the first two questions on the link. It doubles from question to question (RFC 6762, section 5.2).
const FIRST_INTERVAL: Duration = Duration::from_secs(1);
const LAST_INTERVAL: Duration = Duration::from_secs(60);

/// The most datagrams that are read from a socket before the others get their turn.
const READS_A_TURN: usize = 64;

/// The most senders with one code's tag that are found.
const MAX_OFFERS: usize = 64;

/// The most of them at one address, so that one host does not take the places of all others.
const MAX_OFFERS_OF_ONE: usize = 2;

/// The most addresses of one of them.
const MAX_ADDRESSES: usize = 4;

/// A change of a session that was announced.
#[derive(Debug, Clone)]
pub enum News {
    /// The session is announced for the first time, or again.
    Announced(Box<Announcement>),
    /// The session is still announced.
    Renewed(Box<Announcement>),
    /// Its sender has taken the announcement back.
    Withdrawn(Box<Announcement>),
    /// Announcements are not heard everywhere. The line says where, and why.
    Problem(String),
}

/// Hears announcements on some interfaces.
#[derive(Debug)]
pub struct Listener {
    ears: Vec<Ear>,
    /// Sockets that could not be opened.
    deaf: Vec<Deaf>,
    /// The interfaces that it listens on.
    interfaces: Vec<Interface>,
    directory: Directory,
    clock: Clock,
    poller: Poller,
    questions: Questions,
    /// The number of announcements that were refused, by reason.
    refused: BTreeMap<Refusal, u64>,
    /// The first refused announcement of each kind: by the reason, and by whether its key is trusted. `None` once it was told of.
    first_refused: BTreeMap<(Refusal, bool), Option<Announcement>>,
}

impl Listener {
    /// Begins to listen on these interfaces. Sessions of the keys in `trusted` are noticed whatever others announce.
    ///
    /// # Errors
    /// If no socket can be opened.
    pub fn open(interfaces: &[Interface], trusted: BTreeSet<[u8; KEY_LEN]>) -> io::Result<Self> {
        let (ears, deaf) = sockets::open(interfaces, &[Protocol::Mdns, Protocol::Sap])?;
        let clock = Clock::start();
        Ok(Self {
            poller: watch(&ears)?,
            ears,
            deaf,
            interfaces: interfaces.to_owned(),
            directory: Directory::new(trusted),
            questions: Questions::new(clock.now()),
            clock,
            refused: BTreeMap::new(),
            first_refused: BTreeMap::new(),
        })
    }

    /// Listens on the interfaces of these names (without names: on all but the loopback) that are up now, if they are not those that
    /// it listens on. Returns what it has to wait for, in words.
    ///
    /// # Errors
    /// If no socket can be opened. Then nothing changes.
    pub fn follow(&mut self, names: &[String]) -> io::Result<Option<String>> {
        let present = sockets::present(names)?;
        let missing: Vec<&str> = names
            .iter()
            .filter(|name| present.iter().all(|interface| interface.name != **name))
            .map(String::as_str)
            .collect();
        let waits_for = match names {
            [] if present.is_empty() => Some("an interface that is up and has an address".to_owned()),
            _ if !missing.is_empty() => Some(format!("{} to be up and have an address", missing.join(", "))),
            _ => None,
        };
        let place = |interface: &Interface| (interface.index, interface.addresses.clone());
        if !present.iter().map(place).eq(self.interfaces.iter().map(place)) {
            let (ears, deaf) = sockets::open(&present, &[Protocol::Mdns, Protocol::Sap])?;
            self.ears.iter().for_each(|ear| _ = self.poller.remove(&ear.socket));
            (self.ears, self.deaf, self.interfaces) = (Vec::new(), deaf, present);
            self.add(ears)?;
        } else if !self.deaf.is_empty() {
            let (ears, deaf) = sockets::open_again(std::mem::take(&mut self.deaf));
            self.deaf = deaf;
            self.add(ears)?;
        }
        Ok(waits_for)
    }

    /// Listens by these sockets, too.
    fn add(&mut self, ears: Vec<Ear>) -> io::Result<()> {
        if !ears.is_empty() {
            self.questions = Questions::new(self.clock.now());
        }
        for (ear, token) in ears.into_iter().zip(self.ears.len() as u64..) {
            self.poller.add(&ear.socket, token, Interest::Read)?;
            self.ears.push(ear);
        }
        Ok(())
    }

    /// The place where it cannot listen, and the reason. `None` if it listens everywhere.
    pub fn problem(&self) -> Option<String> {
        sockets::problem(&self.deaf)
    }

    /// The names of the interfaces that it listens on.
    pub fn interface_names(&self) -> impl Iterator<Item = &str> {
        self.interfaces.iter().map(|interface| interface.name.as_str())
    }

    /// The sessions that receivers can join now.
    pub fn open_sessions(&self) -> impl Iterator<Item = &Announcement> {
        self.directory.open(unix_ms())
    }

    /// The number of announcements that were refused, by reason. Announcements that cannot be read do not count.
    pub fn refused(&self) -> &BTreeMap<Refusal, u64> {
        &self.refused
    }

    /// The first refused announcement of each kind that was not told of yet. Late ones are left out, because those look like replayed
    /// ones.
    pub fn new_refusals(&mut self) -> Vec<(Refusal, Announcement)> {
        let new = self.first_refused.iter_mut().filter(|((refusal, _), _)| *refusal != Refusal::Replayed);
        new.filter_map(|((refusal, _), first)| Some((*refusal, first.take()?))).collect()
    }

    fn note_refusal(&mut self, refusal: Refusal, announcement: &Announcement) {
        *self.refused.entry(refusal).or_default() += 1;
        let kind = (refusal, self.directory.trusts(&announcement.key()));
        self.first_refused.entry(kind).or_insert_with(|| Some(announcement.clone()));
    }

    /// Asks if it is time to, and takes what has come. Returns when it is to be called again at the latest.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn turn(&mut self, on_news: &mut dyn FnMut(News)) -> io::Result<Duration> {
        let now = self.clock.now();
        if self.questions.is_due(now) {
            ask(&self.ears, Service::Sessions);
        }
        for token in self.poller.tokens(Some(Duration::ZERO))? {
            self.hear(token as usize, on_news);
        }
        Ok(self.questions.next.saturating_duration_since(now))
    }

    fn hear(&mut self, index: usize, on_news: &mut dyn FnMut(News)) {
        let mut bytes = [0; mdns::MAX_LEN];
        for _ in 0..READS_A_TURN {
            let Some(ear) = self.ears.get(index) else { return };
            let Ok((len, from)) = ear.receive(&mut bytes) else { return };
            match ear.protocol {
                Protocol::Mdns => {
                    let found = mdns::read(&bytes[..len]).found.into_iter();
                    for found in found.filter(|found| found.service == Service::Sessions) {
                        self.take(from.ip(), &found.value, on_news);
                    }
                }
                Protocol::Sap => match sap::Packet::parse(&bytes[..len]) {
                    Ok(packet) if packet.payload_type == sap::PAYLOAD_TYPE => {
                        self.take(from.ip(), packet.payload, on_news);
                    }
                    _ => {}
                },
            }
        }
    }

    fn take(&mut self, from: IpAddr, bytes: &[u8], on_news: &mut dyn FnMut(News)) {
        let Ok((announcement, signature)) = Announcement::parse(bytes) else { return };
        let (now, unix_ms) = (self.clock.now(), unix_ms());
        let worth = self.directory.examine(now, unix_ms, from, &announcement);
        let refusal = match worth {
            Ok(Worth::Known) => return,
            Ok(Worth::Check) if is_signed(&announcement, &signature) => None,
            Ok(Worth::Check) => Some(Refusal::Forged),
            Err(refusal) => Some(refusal),
        };
        if let Some(refusal) = refusal {
            self.note_refusal(refusal, &announcement);
            return;
        }
        let told = Box::new(announcement.clone());
        match self.directory.take(unix_ms, from, announcement) {
            Change::New => on_news(News::Announced(told)),
            Change::Renewed => on_news(News::Renewed(told)),
            Change::Withdrawn => on_news(News::Withdrawn(told)),
            Change::NoRoom => self.note_refusal(Refusal::TooMany, &told),
        }
    }
}

impl AsFd for Listener {
    /// A descriptor that is readable when something has come.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.poller.as_fd()
    }
}

/// The times at which questions are asked on the link.
#[derive(Debug)]
struct Questions {
    next: Instant,
    interval: Duration,
}

impl Questions {
    fn new(now: Instant) -> Self {
        Self { next: now, interval: FIRST_INTERVAL }
    }

    fn is_due(&mut self, now: Instant) -> bool {
        let is_due = self.next <= now;
        if is_due {
            self.next = now + self.interval;
            self.interval = (self.interval * 2).min(LAST_INTERVAL);
        }
        is_due
    }
}

fn ask(ears: &[Ear], service: Service) {
    let query = mdns::query(service);
    // A link that is down for a moment loses a question, which is asked again.
    ears.iter().filter(|ear| ear.protocol == Protocol::Mdns).for_each(|ear| _ = ear.say(&query, None));
}

fn watch(ears: &[Ear]) -> io::Result<Poller> {
    let poller = Poller::new()?;
    for (ear, token) in ears.iter().zip(0..) {
        poller.add(&ear.socket, token, Interest::Read)?;
    }
    Ok(poller)
}

fn unix_ms() -> u64 {
    since_1970().as_millis() as u64
}

/// A sender from whom a code may get a ticket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// The addresses that it has been heard from.
    pub addresses: Vec<SocketAddr>,
}

/// Looks on the link for senders whose code has this tag, for at most `time`. Ends half a second after the first was found. Also
/// returns where it could not listen, and why.
///
/// # Errors
/// If no socket can be opened, or the kernel fails.
pub fn find_offers(
    interfaces: &[Interface],
    tag: u8,
    time: Duration,
    stop: &Stop,
) -> io::Result<(Vec<Offer>, Option<String>)> {
    /// The time in which others answer, too.
    const MORE: Duration = Duration::from_millis(500);
    let (ears, deaf) = sockets::open(interfaces, &[Protocol::Mdns])?;
    let (mut poller, clock) = (watch(&ears)?, Clock::start());
    poller.add(stop, u64::MAX, Interest::Read)?;
    let mut questions = Questions::new(clock.now());
    let (mut found, mut end) = (Offers::default(), clock.now() + time);
    let mut bytes = [0; mdns::MAX_LEN];
    loop {
        let now = clock.now();
        if now >= end || stop.is_requested() {
            return Ok((found.into_offers(), sockets::problem(&deaf)));
        }
        if questions.is_due(now) {
            ask(&ears, Service::Codes);
        }
        for token in poller.tokens(Some(end.min(questions.next).saturating_duration_since(now)))? {
            let Some(ear) = ears.get(token as usize) else { continue };
            for _ in 0..READS_A_TURN {
                let Ok((len, from)) = ear.receive(&mut bytes) else { break };
                if found.take(&bytes[..len], from, tag) {
                    end = end.min(clock.now() + MORE);
                }
            }
        }
    }
}

/// Senders that were found: for each instance, where it has been heard from.
#[derive(Debug, Default)]
struct Offers(BTreeMap<String, BTreeMap<IpAddr, SocketAddr>>);

impl Offers {
    /// Takes what a message says of a code's tag. Returns whether it offers something.
    fn take(&mut self, message: &[u8], from: SocketAddr, tag: u8) -> bool {
        let mut has_offer = false;
        for found in mdns::read(message).found {
            let is_wanted = found.service == Service::Codes && found.value == [tag] && found.port > 0;
            let is_at = |addresses: &&BTreeMap<IpAddr, SocketAddr>| addresses.contains_key(&from.ip());
            let of_one = self.0.values().filter(is_at).count();
            let has_room = self.0.len() < MAX_OFFERS && of_one < MAX_OFFERS_OF_ONE;
            let has_room = has_room || self.0.contains_key(&found.label);
            if is_wanted && has_room {
                let mut address = from;
                address.set_port(found.port);
                let addresses = self.0.entry(found.label).or_default();
                // One port an address: a host that names several would be asked several times.
                if addresses.len() < MAX_ADDRESSES {
                    addresses.entry(address.ip()).or_insert(address);
                }
                has_offer = true;
            }
        }
        has_offer
    }

    fn into_offers(self) -> Vec<Offer> {
        let offer =
            |addresses: BTreeMap<IpAddr, SocketAddr>| Offer { addresses: addresses.into_values().collect() };
        self.0.into_values().map(offer).collect()
    }
}

#[cfg(test)]
mod tests {
    use treecast_wire::{
        header::SessionId,
        ticket::{Repair, Security, Ticket},
    };

    use super::*;

    #[test]
    fn the_first_refusal_of_each_kind_is_told_of_once_and_strangers_do_not_hide_trusted_senders() {
        let mut listener = Listener::open(&[], [[1; KEY_LEN]].into()).unwrap();
        let mut hear = |sender: u8, number: u64| {
            let group = "[ff15::1]:5000".parse().unwrap();
            let security = Some(Security { sender_key: [sender; KEY_LEN], secret: None });
            let ticket = Ticket { security, ..Ticket::new(SessionId(1), Repair::Nack, 1000, group) };
            let mut announcement = Announcement::new("image", ticket).unwrap();
            (announcement.number, announcement.valid_seconds) = (number, 100);
            let bytes = announcement.to_bytes(&[0; treecast_wire::message::SIGNATURE_LEN]);
            listener.take(IpAddr::from([10, 0, 0, 1]), &bytes, &mut |_| {});
            let new = listener.new_refusals();
            new.into_iter().map(|(refusal, of)| (refusal, of.key()[0])).collect::<Vec<_>>()
        };
        let hour = 3_600_000;
        assert_eq!(hear(2, unix_ms() + hour), [(Refusal::Early, 2)]);
        assert_eq!(hear(2, unix_ms() + hour), []);
        assert_eq!(hear(1, unix_ms() + hour), [(Refusal::Early, 1)]);
        assert_eq!(hear(1, unix_ms() - hour), [(Refusal::Expired, 1)]);
        assert_eq!(hear(1, unix_ms()), [(Refusal::Forged, 1)]);
        assert_eq!(hear(1, unix_ms()), []);
    }
}
