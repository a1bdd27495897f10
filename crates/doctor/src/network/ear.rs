//! Notes what arrives at a host: at its sockets, and, as root, at its interface. Makes the host's visit meanwhile.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use socket2::Socket;
use treecast_host::{interface::Interface, messages, option, packet, poller::Poller};

use super::{
    groups::Groups,
    message::{Ear, Heard, Join, Visit},
    probe::Probe,
    sockets::{BUFFER_BYTES, Sockets},
    visit::Visiting,
};
use crate::packet::Packet;

/// The largest number of different packets that are noted in one run. More than all senders may send.
const MAX_NOTED: usize = 400_000;
/// The largest number of link-layer addresses that are noted for a test.
const MAX_FROM: usize = 4;
/// The time between two looks at whether to end.
const TICK: Duration = Duration::from_millis(50);

/// The probes that are noted.
#[derive(Debug, Clone, Copy)]
pub struct Wanted {
    pub run: u64,
    /// The number of senders, and of tests.
    pub senders: u16,
    pub tests: u16,
}

impl Wanted {
    fn has(&self, probe: &Probe) -> bool {
        probe.run == self.run && probe.sender < self.senders && probe.test < self.tests
    }
}

/// A thread that notes what arrives. Dropping it ends the thread.
pub struct Listening {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Ear>>,
    sockets: Sockets,
    groups: Groups,
}

impl Listening {
    /// Joins the groups, begins to note packets of this run, and makes a visit. The sockets also send.
    ///
    /// # Errors
    /// The errors of [`Sockets::open`], and one if a thread cannot be started.
    pub fn start(
        interface: &Interface,
        port: u16,
        wanted: Wanted,
        (groups, joins): (Groups, &[Join]),
        visit: Option<Visit>,
    ) -> io::Result<Self> {
        let sockets = Sockets::open(interface, port)?;
        let refused = join(&sockets, interface.index, &groups, joins);
        // Without privileges there is no capture, and the ear says so.
        let capture = packet::open(interface.index, packet::ALL_TYPES).ok();
        if let Some(capture) = &capture {
            _ = option::set_buffer(capture, libc::SO_RCVBUFFORCE, libc::SO_RCVBUF, BUFFER_BYTES);
            _ = packet::take_all_groups(capture, interface.index);
        }
        let visiting = visit.map(|visit| Visiting::new(visit, wanted.run, port, interface, &sockets));
        let (delivered, captured) = (Notes::default(), Notes::default());
        let is_ethernet = interface.is_ethernet;
        let ears = Ears {
            wanted,
            port,
            is_ethernet,
            sockets: sockets.try_clone()?,
            capture,
            visiting,
            delivered,
            captured,
        };
        let stop = Arc::<AtomicBool>::default();
        let stopped = Arc::clone(&stop);
        let thread =
            thread::Builder::new().name("ear".into()).spawn(move || ears.listen(&stopped, refused))?;
        Ok(Self { stop, thread: Some(thread), sockets, groups })
    }

    /// The sockets, to send with.
    pub fn sockets(&self) -> &Sockets {
        &self.sockets
    }

    /// The groups of the run.
    pub fn groups(&self) -> &Groups {
        &self.groups
    }

    /// Ends listening, and says what has arrived.
    pub fn end(mut self) -> Ear {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_default()
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            _ = thread.join();
        }
    }
}

fn join(sockets: &Sockets, interface: u32, groups: &Groups, joins: &[Join]) -> Vec<String> {
    let mut refused = Vec::new();
    for Join { group, sources } in joins {
        let Some(group) = groups.get(*group) else { continue };
        let Some(socket) = sockets.of(group.address) else { continue };
        let of_family = sources.iter().filter(|source| source.is_ipv4() == group.address.is_ipv4());
        let joined = match group.is_source_specific {
            true => of_family
                .copied()
                .try_for_each(|source| option::join(socket, group.address, Some(source), interface)),
            false => option::join(socket, group.address, None, interface),
        };
        refused.extend(joined.err().map(|error| format!("{}: {error}", group.address)));
    }
    refused
}

struct Ears {
    wanted: Wanted,
    port: u16,
    is_ethernet: bool,
    sockets: Sockets,
    capture: Option<Socket>,
    visiting: Option<Visiting>,
    delivered: Notes,
    captured: Notes,
}

impl Ears {
    fn listen(mut self, stop: &AtomicBool, refused: Vec<String>) -> Ear {
        let Ok(mut poller) = Poller::new() else { return Ear::default() };
        for socket in self.sockets.both() {
            _ = poller.watch(socket, 0);
        }
        self.capture.iter().for_each(|socket| _ = poller.watch(socket, 1));
        let mut buffer = vec![0; 1 << 16];
        loop {
            let is_over = stop.load(Ordering::Relaxed);
            let due = self.visiting.as_mut().and_then(|visiting| visiting.act(&self.sockets));
            _ = poller.tokens(Some(due.unwrap_or(TICK).min(TICK)));
            self.note_delivered(&mut buffer);
            self.note_captured(&mut buffer);
            if is_over {
                break;
            }
        }
        let can_look = self.capture.is_some();
        Ear {
            delivered: self.delivered.summary(),
            captured: can_look.then(|| self.captured.summary()),
            filtered: Vec::new(),
            refused,
            visits: self.visiting.map(|visiting| visiting.end(can_look)).unwrap_or_default(),
        }
    }

    fn note_delivered(&mut self, buffer: &mut [u8]) {
        for socket in self.sockets.both() {
            while let Ok((_, received)) = messages::receive_from(socket, buffer) {
                let probe = Probe::parse(&buffer[..received.len.min(buffer.len())]);
                let Some(probe) = probe.filter(|probe| self.wanted.has(probe)) else { continue };
                match self.visiting.as_mut().filter(|visiting| visiting.is_about(&probe)) {
                    Some(visiting) => visiting.note(&probe, false),
                    None => {
                        let hop_limit = received.ancillary.hop_limit.unwrap_or(0);
                        self.delivered.note(probe, hop_limit, false, None);
                    }
                }
            }
        }
    }

    fn note_captured(&mut self, buffer: &mut [u8]) {
        while let Some(Ok((len, addressee))) =
            self.capture.as_ref().map(|socket| packet::receive(socket, buffer))
        {
            let frame = &buffer[..len.min(buffer.len())];
            let is_own = addressee == packet::Addressee::Leaving;
            let Some(packet) = Packet::in_frame(frame, self.is_ethernet) else { continue };
            let Some(probe) = probe_in(&packet, self.port).filter(|it| self.wanted.has(it)) else { continue };
            match self.visiting.as_mut().filter(|visiting| visiting.is_about(&probe)) {
                Some(_) if is_own => {}
                Some(visiting) => visiting.note(&probe, true),
                None => {
                    let from = frame.get(6..12).filter(|_| self.is_ethernet);
                    self.captured.note(probe, packet.hop_limit, is_own, from);
                }
            }
        }
    }
}

/// All packets of a run, by sender, test and direction.
#[derive(Default)]
struct Notes {
    by_test: BTreeMap<(u16, u16, bool), Note>,
    noted: usize,
}

#[derive(Default)]
struct Note {
    copies: HashMap<u32, u32>,
    hop_limits: Option<(u8, u8)>,
    from: BTreeSet<String>,
}

impl Notes {
    fn note(&mut self, probe: Probe, hop_limit: u8, is_own: bool, from: Option<&[u8]>) {
        if self.noted >= MAX_NOTED {
            return;
        }
        let note = self.by_test.entry((probe.sender, probe.test, is_own)).or_default();
        let copies = note.copies.entry(probe.number).or_insert_with(|| {
            self.noted += 1;
            0
        });
        *copies = copies.saturating_add(1);
        let (least, most) = note.hop_limits.unwrap_or((hop_limit, hop_limit));
        note.hop_limits = Some((least.min(hop_limit), most.max(hop_limit)));
        if let Some(from) = from.filter(|_| note.from.len() < MAX_FROM) {
            let hex: Vec<_> = from.iter().map(|byte| format!("{byte:02x}")).collect();
            note.from.insert(hex.join(":"));
        }
    }

    fn summary(self) -> Vec<Heard> {
        let heard = |((sender, test, is_own), note): ((u16, u16, bool), Note)| {
            let (least_hop_limit, hop_limit) = note.hop_limits.unwrap_or_default();
            Heard {
                sender,
                test,
                packets: note.copies.len() as u32,
                copies: note.copies.values().copied().max().unwrap_or(0),
                hop_limit,
                least_hop_limit,
                is_own,
                from: note.from.into_iter().collect(),
            }
        };
        self.by_test.into_iter().map(heard).collect()
    }
}

/// The probe in a packet to this port. Only the first fragment of a packet has one.
fn probe_in(packet: &Packet, port: u16) -> Option<Probe> {
    let (to, payload) = packet.udp()?;
    (to == port).then(|| Probe::parse(payload)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_and_hop_limits_are_noted_by_packet() {
        let mut notes = Notes::default();
        let probe = |number| Probe { run: 1, sender: 2, test: 3, number };
        for (number, hop_limit) in [(0, 32), (1, 32), (0, 31), (0, 30)] {
            notes.note(probe(number), hop_limit, false, Some(&[2, 0, 0, 0, 0, hop_limit]));
        }
        let heard = &notes.summary()[0];
        assert_eq!((heard.packets, heard.copies, heard.hop_limit, heard.least_hop_limit), (2, 3, 32, 30));
        assert_eq!(heard.from.len(), 3);
    }
}
