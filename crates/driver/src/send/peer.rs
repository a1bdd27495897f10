//! A receiver, as its sender knows it.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    net::SocketAddr,
    time::Duration,
};

use treecast_host::tcp_info;
use treecast_proto::{Instant, fanout::Way, object::ReceiverId};
use treecast_wire::{
    header::{FileId, SessionId},
    message::{GroupKey, Hello, Message, Progress},
};

use super::{CommandOutcome, ReceiverProgress, Standing, listed::Listed, roll::Absent, who::Who};
use crate::{
    connection::{Connection, canonical},
    hindrance::{Hindrance, Meter, Symptoms, bits, judge, time_for},
    security::PublicKey,
    words,
};

/// The most packets that a count may say: more than any session has. The counts of as many receivers as there may be
/// can be added up.
const MAX_COUNT: u64 = 1 << 48;

/// The most failures of a receiver that are told one by one ...
const MAX_FAILURES: usize = 1000;

/// ... and of all receivers together, but for the first of each.
const MAX_ALL_FAILURES: usize = 10_000;

#[derive(Debug)]
pub(super) struct Peer {
    pub who: Who,
    /// The receiver's name: the one on the allow list, or its own name if no other receiver has that.
    pub name: String,
    pub address: SocketAddr,
    /// The address for unicast blocks, if the receiver listens for them.
    pub udp: Option<SocketAddr>,
    pub link: Link,
    pub progress: Progress,
    pub fresh: Fresh,
    /// The bytes of objects that had been sent to the group when the receiver came. It gets them over its
    /// connection, and they do not count as loss.
    pub sent_before: u64,
    pub tally: Tally,
    /// The group that the receiver listens to.
    pub group: u8,
    /// The fanout that serves it, or served it when it left. `None` if all are served by multicast.
    pub way: Option<Way>,
    /// Bytes received, and those of them that were lost and sent again, packets dropped, and milliseconds of waiting for its disk.
    meter: Meter<4>,
    /// Whether the session waited for this receiver before it started.
    pub was_there_at_start: bool,
    /// Whether this receiver has sent more than its Hello.
    pub has_spoken: bool,
    /// Whether it runs a command when it has everything, and tells how that went.
    pub reports: bool,
    /// The result of the command. `None` as long as it is not known.
    pub result: Option<CommandOutcome>,
    pub absence: Absence,
}

/// A receiver's connection.
#[derive(Debug, Default)]
pub(super) struct Link {
    /// The connection. `None` once it is closed; the other data of the receiver stays for the summary.
    pub connection: Option<Connection>,
    /// Whether output waits until the connection takes more.
    pub waits_for_room: bool,
    /// Whether to close the connection when all output is written.
    pub closes: bool,
    /// The time until which the receiver's end is awaited, after everything was written and the connection was
    /// half closed.
    pub lingers_until: Option<Instant>,
}

/// The bytes that are sent again to a receiver that has not heard one packet before it counts as one that hears none. A smaller
/// session is judged by all of it.
const UNHEARD_BYTES: u64 = 64 * 1024;

/// The objects that a receiver has ended with, and what it was sent again.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub objects_complete: u64,
    pub objects_not_wanted: u64,
    /// The number of objects of a feed that had ended before the receiver came.
    pub missed: u64,
    /// The bytes of the objects that the receiver has completely.
    pub complete_bytes: u64,
    /// The first objects that it failed to get, with the reasons.
    pub failures: Vec<(String, String)>,
    /// The number of objects that the receiver failed to get.
    pub failed: u64,
    /// The bytes of the objects that the receiver failed to get, did not want, or missed.
    pub forgone_bytes: u64,
    /// The number of requests for retransmissions.
    pub requests: u64,
    pub retransmitted_bytes: u64,
    /// The time at which the receiver ended with its last object so far. `None` before the first.
    pub ended_at: Option<Instant>,
    /// Whether it has ever reported a packet of its group, or a copy of one.
    pub has_heard: bool,
    /// Whether the user knows that it hears nothing.
    pub is_told_deaf: bool,
}

/// The reason why a receiver is not there, and whether it is waited for.
#[derive(Debug, Default)]
pub(super) struct Absence {
    /// The reason why it left before the session was over.
    pub left: Option<String>,
    /// The time at which its connection broke, or this sender was started without it.
    pub left_at: Option<Instant>,
    /// Whether the receiver has said that it ends.
    pub has_quit: bool,
    /// Whether the receiver has not been here since this sender was started.
    pub has_not_come: bool,
    /// Whether the session waits for this receiver to come again.
    pub awaited: Awaited,
    /// A receiver that came later and is taken for the same machine, as long as this one has not spoken since.
    pub came_again: Option<ReceiverId>,
}

/// Whether a session waits for a receiver that is not there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Awaited {
    #[default]
    No,
    /// Its connection has broken: for a moment (`--linger`).
    Gone,
    /// The session is for it, and no receiver of its name has ever been there: as for one whose connection has broken, and not before the
    /// time is over in which the session waits for its start.
    Unseen,
    /// An earlier sender of the session had it: as for one that is silent (`--stall-limit`), for it may notice late that
    /// that one is not there any more.
    Missing,
    /// The session is for it: until it has everything.
    Listed,
}

/// The bytes that have come to a receiver since it came. It does not say what it had before, from an earlier sender
/// or before its connection broke; but more than was sent cannot have come.
#[derive(Debug, Default)]
pub(super) struct Fresh {
    received: u64,
    sent: u64,
    /// Sent since it came, and not received yet.
    on_its_way: u64,
    bytes: u64,
}

impl Fresh {
    /// Creates the counts of a receiver that comes when `sent` bytes have been sent.
    pub fn since(sent: u64) -> Self {
        Self { sent, ..Self::default() }
    }

    /// Takes note of how many bytes it has, and how many have been sent to it and its groups. Returns how many have come.
    fn note(&mut self, received: u64, sent: u64) -> u64 {
        self.on_its_way = self.on_its_way.saturating_add(sent.saturating_sub(self.sent));
        let come = received.saturating_sub(self.received).min(self.on_its_way);
        self.on_its_way -= come;
        self.bytes = self.bytes.saturating_add(come);
        (self.received, self.sent) = (received.max(self.received), sent);
        self.bytes
    }
}

/// The session's knowledge when a receiver is reported on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen {
    /// The time since its last message.
    pub silent: Duration,
    /// Whether everything that it asked for was sent.
    pub is_answered: bool,
    /// The time at which the session started.
    pub started: Instant,
    /// The number of objects of the whole session.
    pub objects: u64,
    pub total_bytes: u64,
    pub sent_bytes: u64,
    /// The bytes that this sender has sent to the groups.
    pub run_bytes: u64,
    /// Whether an earlier sender of the session had sent something before.
    pub goes_on: bool,
}

impl Peer {
    /// Creates a receiver. `listed` is its name on the allow list. `is_taken` returns whether another receiver
    /// has a name.
    pub fn new(
        connection: Connection,
        hello: &Hello,
        listed: Option<&str>,
        is_taken: impl FnOnce(&str) -> bool,
    ) -> Self {
        let address = connection.peer();
        let mut name = shown(listed.unwrap_or(hello.name()));
        if is_taken(&name) {
            name = format!("{name} ({address})");
        }
        let udp = (hello.udp_port != 0).then(|| at_port(address, hello.udp_port));
        let who = Who::new(connection.peer_key(), hello);
        let way = udp.map(|_| Way::Unicast);
        let link = Link { connection: Some(connection), ..Link::default() };
        let reports = hello.role.reports;
        Self { udp, link, way, reports, ..Self::without_connection(who, name, address) }
    }

    /// Tells the receiver a key of the group, if it is there.
    pub fn tell_key(&mut self, session: SessionId, key: GroupKey) {
        if let Some(connection) = &mut self.link.connection {
            connection.queue(&Message::GroupKey(key).to_packet(FileId::new(session, 0)));
        }
    }

    /// The shortest round trip that the kernel has measured on the receiver's connection.
    pub fn round_trip(&self) -> Option<Duration> {
        self.link.connection.as_ref().and_then(tcp_info::shortest_round_trip)
    }

    /// The address for unicast blocks, if the receiver is there and listens for them.
    pub fn listens_at(&self) -> Option<SocketAddr> {
        self.link.connection.as_ref().and(self.udp)
    }

    /// Returns what the receiver is known again by in the rate's control: its key and its address.
    pub fn identity(&self) -> u64 {
        let mut identity = DefaultHasher::new();
        (self.who.key.map(PublicKey::to_bytes), self.address.ip()).hash(&mut identity);
        identity.finish()
    }

    /// Creates a receiver that an earlier sender of the session had, and that has not come yet.
    pub fn missing(absent: Absent, listed: Option<&str>) -> Self {
        let name = shown(listed.unwrap_or(&absent.who.name));
        let left = Some("it has not come back to the sender that was started again".to_owned());
        let left_at = Some(Instant::ZERO);
        let awaited = Awaited::Missing;
        let absence = Absence { left, left_at, awaited, has_not_come: true, ..Absence::default() };
        Self { absence, ..Self::without_connection(absent.who, name, absent.address) }
    }

    /// Creates a receiver that the session is for, and that has not come yet.
    pub fn listed(listed: &Listed, address: SocketAddr, was_seen: bool) -> Self {
        let who = Who::expected(listed.key, &listed.name);
        let left = Some("it has not come".to_owned());
        let awaited = if was_seen { Awaited::Listed } else { Awaited::Unseen };
        let absence = Absence { left, awaited, has_not_come: true, ..Absence::default() };
        Self { absence, ..Self::without_connection(who, shown(&listed.name), address) }
    }

    fn without_connection(who: Who, name: String, address: SocketAddr) -> Self {
        Self {
            who,
            name,
            address: canonical(address),
            udp: None,
            link: Link::default(),
            progress: Progress::default(),
            fresh: Fresh::default(),
            sent_before: 0,
            tally: Tally::default(),
            group: 0,
            way: None,
            meter: Meter::default(),
            was_there_at_start: false,
            has_spoken: false,
            reports: false,
            result: None,
            absence: Absence::default(),
        }
    }

    /// Bytes of objects that it has said to have, or does not want.
    pub fn had_bytes(&self) -> u64 {
        let received = self.progress.received_bytes.max(self.tally.complete_bytes);
        received.saturating_add(self.tally.forgone_bytes)
    }

    /// Notes a report, in a session of this many bytes. Impossible values are limited to possible ones, because
    /// the receiver may lie.
    pub fn note_progress(&mut self, progress: Progress, total_bytes: u64) {
        self.tally.has_heard |= progress.position > 0;
        self.progress = Progress {
            position: progress.position,
            received_bytes: progress.received_bytes.min(total_bytes),
            duplicate_blocks: progress.duplicate_blocks.min(MAX_COUNT),
            dropped_packets: progress.dropped_packets.min(MAX_COUNT),
            disk_wait_ms: progress.disk_wait_ms.min(MAX_COUNT),
            // Only the machine uses it.
            at_us: 0,
        };
    }

    /// Notes that it has ended with an object without having it. `told` counts the failures of all receivers
    /// that are listed one by one.
    pub fn fail(&mut self, told: &mut usize, name: String, bytes: u64, reason: String) {
        self.tally.forgone_bytes = self.tally.forgone_bytes.saturating_add(bytes);
        self.tally.failed += 1;
        let has_room = self.tally.failures.len() < MAX_FAILURES && *told < MAX_ALL_FAILURES;
        if self.tally.failures.is_empty() || has_room {
            *told += 1;
            self.tally.failures.push((name, reason));
        }
    }

    /// Completes the counts at the end. A receiver that left early failed for everything that it does not have.
    pub fn settle(&mut self, objects: u64, interrupted: bool) {
        let untold = self.tally.failed - self.tally.failures.len() as u64;
        if untold > 0 {
            self.tally.failures.push((format!("{} more", counted(untold)), "as those before".to_owned()));
        }
        let ended = self.tally.missed
            + self.tally.objects_complete
            + self.tally.objects_not_wanted
            + self.tally.failed;
        let lacking = objects.saturating_sub(ended);
        if lacking == 0 {
            return;
        }
        let what = match (self.tally.failures.is_empty(), lacking) {
            (true, _) => format!("{lacking} of {}", counted(objects)),
            (false, _) => format!("{} more", counted(lacking)),
        };
        let why = match &self.absence.left {
            Some(reason) if self.absence.has_not_come => reason.clone(),
            Some(reason) => format!("the receiver left: {reason}"),
            None if interrupted => "interrupted".to_owned(),
            None => "the receiver joined after that was sent".to_owned(),
        };
        self.tally.failed += lacking;
        self.tally.failures.push((what, why));
    }

    /// Whether the receiver has everything, and has not told how its command went.
    pub fn owes_result(&self, objects: u64) -> bool {
        self.reports && self.result.is_none() && self.standing(objects) == Standing::Done
    }

    /// The receiver has everything from an earlier sender of the session.
    pub fn has_all(&mut self, objects: u64, total_bytes: u64) {
        (self.tally.objects_complete, self.tally.complete_bytes) = (objects, total_bytes);
        self.absence = Absence::default();
    }

    /// Whether the receiver has ended with as many objects as have been sent, one way or another.
    pub fn has_ended(&self, objects: u64) -> bool {
        self.tally.missed + self.tally.objects_complete + self.tally.objects_not_wanted + self.tally.failed
            >= objects
    }

    /// The state of the receiver. For one that has left, it depends on what it has.
    pub fn standing(&self, objects: u64) -> Standing {
        let wanted = self.tally.missed + self.tally.objects_complete + self.tally.objects_not_wanted;
        match (&self.absence.left, wanted >= objects) {
            (_, true) => Standing::Done,
            (Some(_), false) => Standing::Gone,
            (None, false) if self.has_ended(objects) => Standing::Failed,
            (None, false) => Standing::Busy,
        }
    }

    /// Whether the receiver came after the start and left without having had a part in the session.
    pub fn has_only_passed_by(&self) -> bool {
        let has_nothing =
            self.tally.failed + self.tally.objects_complete + self.tally.objects_not_wanted == 0;
        self.link.connection.is_none() && has_nothing && !self.has_spoken && !self.was_there_at_start
    }

    /// The receiver's progress, without its failures. These are only reported at the end, because there may be
    /// many, and reports are frequent.
    pub fn report(&mut self, now: Instant, seen: Seen) -> ReceiverProgress {
        // Its last report may be older than its last object.
        let received_bytes = self.progress.received_bytes.max(self.tally.complete_bytes);
        let fresh_bytes =
            self.fresh.note(received_bytes, seen.run_bytes.saturating_add(self.tally.retransmitted_bytes));
        let run_bytes = if seen.goes_on { fresh_bytes } else { received_bytes };
        // As far as can be known: it does not say how much it had.
        let had = received_bytes.saturating_sub(fresh_bytes).saturating_add(self.tally.forgone_bytes);
        let missed = self.sent_before.saturating_sub(had);
        let counters = [
            fresh_bytes,
            self.tally.retransmitted_bytes.saturating_sub(missed),
            self.progress.dropped_packets,
            self.progress.disk_wait_ms,
        ];
        self.meter.note(now, counters);
        let rates = self.meter.rates(now, counters);
        let standing = self.standing(seen.objects);
        let has_ended = matches!(standing, Standing::Done | Standing::Failed);
        let ended_at = self.tally.ended_at.filter(|_| has_ended);
        let ended_bytes = received_bytes + self.tally.forgone_bytes;
        let wanted_bytes = seen.total_bytes.saturating_sub(self.tally.forgone_bytes);
        let lacking = if has_ended { 0 } else { wanted_bytes.saturating_sub(received_bytes) };
        // What was sent again before it came was not lost.
        let again = self.tally.retransmitted_bytes.saturating_sub(missed);
        let hears_nothing = !self.tally.has_heard && again >= wanted_bytes.clamp(1, UNHEARD_BYTES);
        let is_behind = !has_ended && (lacking == 0 || ended_bytes < seen.sent_bytes);
        ReceiverProgress {
            name: self.name.clone(),
            key: self.who.key,
            address: self.address_in_words(),
            received_bytes,
            wanted_bytes,
            run_bytes,
            retransmitted_bytes: self.tally.retransmitted_bytes,
            duplicate_blocks: self.progress.duplicate_blocks,
            dropped_packets: self.progress.dropped_packets,
            objects_complete: self.tally.objects_complete,
            objects_not_wanted: self.tally.objects_not_wanted,
            objects_missed: self.tally.missed,
            failures: Vec::new(),
            failed: self.tally.failed,
            requests: self.tally.requests,
            hears_nothing,
            is_connected: self.link.connection.is_some(),
            group: self.group,
            way: self.way,
            standing,
            left: self.absence.left.clone().filter(|_| standing == Standing::Gone),
            now_bps: rates.map(|[received, ..]| bits(received)),
            silent_seconds: seen.silent.as_secs_f64(),
            why: match standing {
                Standing::Gone if !self.absence.has_quit => Some(Hindrance::Gone),
                _ if is_behind && self.link.connection.is_some() => {
                    let catches_up = self.tally.retransmitted_bytes < missed;
                    Some(self.judge(seen, lacking, (catches_up, hears_nothing), rates))
                }
                _ => None,
            },
            seconds_left: time_for(lacking, rates.map(|[received, ..]| received)),
            ended_seconds: ended_at.map(|at| at.saturating_duration_since(seen.started).as_secs_f64()),
            command: self.result.clone(),
        }
    }

    /// The receiver's address. Empty where nobody knows it yet.
    fn address_in_words(&self) -> String {
        if self.address.ip().is_unspecified() { String::new() } else { self.address.to_string() }
    }

    fn judge(
        &self,
        seen: Seen,
        lacking: u64,
        (catches_up, hears_nothing): (bool, bool),
        rates: Option<[f64; 4]>,
    ) -> Hindrance {
        let [received, again, dropped, disk_wait_ms] = rates.unwrap_or_default();
        judge(&Symptoms {
            silent: seen.silent,
            has_all: lacking == 0,
            hears_nothing,
            waits_for_connection: self.link.waits_for_room && !seen.is_answered,
            catches_up,
            received_bytes_a_second: received,
            retransmitted_bytes_a_second: again,
            dropped_packets_a_second: dropped,
            disk_wait_ms_a_second: disk_wait_ms,
        })
    }
}

/// Text of somebody else's for a terminal: without what would move or turn what stands around it.
pub(super) fn shown(text: &str) -> String {
    let is_harmless = |letter: char| {
        let turns = matches!(letter, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}');
        !letter.is_control() && !turns && !matches!(letter, '\u{2060}'..='\u{206f}' | '\u{feff}')
    };
    text.chars().map(|letter| if is_harmless(letter) { letter } else { '\u{fffd}' }).collect()
}

fn counted(objects: u64) -> String {
    words::counted(objects as usize, "file")
}

/// Another port of the same host. The scope of a link-local address stays.
fn at_port(mut address: SocketAddr, port: u16) -> SocketAddr {
    address.set_port(port);
    address
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    fn peer() -> Peer {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let hello = Hello::new(1, 0, 0, "name").unwrap();
        Peer::new(Connection::to_receiver(stream, 1024, None).unwrap(), &hello, None, |_| false)
    }

    fn with(tally: Tally) -> Peer {
        Peer { tally, ..peer() }
    }

    fn settled(mut peer: Peer, interrupted: bool) -> Vec<(String, String)> {
        peer.settle(5, interrupted);
        peer.tally.failures
    }

    #[test]
    fn what_a_receiver_lacks_is_told_whole_and_why() {
        let row = |what: &str, why: &str| (what.to_owned(), why.to_owned());
        let late = "the receiver joined after that was sent";
        assert_eq!(settled(peer(), false), [row("5 of 5 files", late)]);
        assert_eq!(
            settled(with(Tally { objects_complete: 2, ..Tally::default() }), true),
            [row("3 of 5 files", "interrupted")]
        );
        let mut gone = with(Tally { objects_complete: 4, ..Tally::default() });
        gone.absence.left = Some("it closed".to_owned());
        assert_eq!(settled(gone, true), [row("1 of 5 files", "the receiver left: it closed")]);
        let listed = Listed { key: None, name: "lab3".into() };
        let nowhere = SocketAddr::from(([0, 0, 0, 0], 0));
        let mut expected = Peer::listed(&listed, nowhere, true);
        assert_eq!(expected.report(Instant::ZERO, seen(0, false)).address, "");
        assert_eq!(settled(expected, false), [row("5 of 5 files", "it has not come")]);
        let mut failed = with(Tally { objects_complete: 3, ..Tally::default() });
        failed.fail(&mut 0, "a".into(), 7, "it was lost".into());
        assert_eq!(settled(failed, false), [row("a", "it was lost"), row("1 file more", late)]);
        assert_eq!(settled(with(Tally { objects_complete: 5, ..Tally::default() }), true), []);
        assert_eq!(
            settled(with(Tally { objects_complete: 1, missed: 4, ..Tally::default() }), false),
            [],
            "a feed goes on"
        );
    }

    #[test]
    fn of_many_failures_the_first_of_each_receiver_and_so_many_of_all_are_kept() {
        let (mut peers, mut told) = ([peer(), peer(), peer()], 0);
        let fail = |peer: &mut Peer, told: &mut usize| peer.fail(told, "a".into(), 1, "it is full".into());
        (0..2 * MAX_FAILURES).for_each(|_| fail(&mut peers[0], &mut told));
        told = MAX_ALL_FAILURES - 2;
        (0..10).for_each(|_| fail(&mut peers[1], &mut told));
        (0..10).for_each(|_| fail(&mut peers[2], &mut told));
        assert_eq!(peers.each_ref().map(|peer| peer.tally.failures.len()), [MAX_FAILURES, 2, 1]);
        assert!(peers[2].report(Instant::ZERO, seen(0, false)).failures.is_empty(), "it is not the end");
        peers[2].settle(10, false);
        let more = ("9 files more".to_owned(), "as those before".to_owned());
        assert_eq!((peers[2].tally.failures.last(), peers[2].tally.failed), (Some(&more), 10));
        peers[0].settle(2 * MAX_FAILURES as u64, false);
        assert_eq!(peers[0].tally.failures[MAX_FAILURES].0, "1000 files more");
    }

    fn seen(run_bytes: u64, goes_on: bool) -> Seen {
        let silent = Duration::ZERO;
        Seen {
            silent,
            is_answered: true,
            started: Instant::ZERO,
            objects: 0,
            total_bytes: 1000,
            sent_bytes: 0,
            run_bytes,
            goes_on,
        }
    }

    #[test]
    fn what_it_had_from_an_earlier_sender_is_no_throughput() {
        let mut peer = peer();
        let at = |seconds| Instant::ZERO + Duration::from_secs(seconds);
        peer.report(at(0), seen(0, true));
        peer.note_progress(Progress { received_bytes: 900, ..Progress::default() }, 1000);
        peer.tally.retransmitted_bytes = 20;
        let told = peer.report(at(2), seen(80, true));
        assert_eq!((told.received_bytes, told.run_bytes, told.now_bps), (900, 100, Some(400)));
        assert_eq!(peer.report(at(2), seen(80, false)).run_bytes, 900, "there was no earlier sender");
    }

    #[test]
    fn what_it_had_when_it_came_again_is_no_rate() {
        let mut peer = Peer { fresh: Fresh::since(1000), ..peer() };
        let at = |seconds| Instant::ZERO + Duration::from_secs(seconds);
        peer.report(at(0), seen(1000, false));
        peer.note_progress(Progress { received_bytes: 900, ..Progress::default() }, 1000);
        let told = peer.report(at(2), seen(1080, false));
        assert_eq!((told.received_bytes, told.run_bytes, told.now_bps), (900, 900, Some(320)));
        // More goes out, and nothing comes to it.
        for second in 3..10 {
            peer.report(at(second), seen(1080 + 100 * second, false));
        }
        assert_eq!(peer.report(at(10), seen(2080, false)).now_bps, Some(0), "it stands still");
    }

    /// 600 of 1000 bytes had been sent when it came again with 100: it is sent 500 without having lost any.
    #[test]
    fn what_had_been_sent_before_it_came_is_caught_up_with_and_not_lost() {
        let mut peer = Peer { fresh: Fresh::since(600), sent_before: 600, ..peer() };
        let seen = |run_bytes| Seen { objects: 1, sent_bytes: run_bytes, ..seen(run_bytes, false) };
        let mut why = |second, received_bytes, retransmitted_bytes| {
            let sent_bytes = if second == 0 { 600 } else { 1000 };
            peer.note_progress(Progress { received_bytes, ..Progress::default() }, 1000);
            peer.tally.retransmitted_bytes = retransmitted_bytes;
            peer.report(Instant::ZERO + Duration::from_secs(second), seen(sent_bytes)).why
        };
        why(0, 100, 0);
        assert_eq!(why(1, 500, 300), Some(Hindrance::CatchingUp));
        assert_eq!(why(2, 700, 450), Some(Hindrance::CatchingUp));
        assert_eq!(why(3, 900, 500), Some(Hindrance::Behind), "all of it is on its way");
        assert!(matches!(why(4, 950, 600), Some(Hindrance::Loss(_))), "that was lost");
    }
}
