//! A visit: the host sends to a group all the time, joins it after a while, and leaves it again. All hosts of a run do so at
//! the same time. So each sees how soon others' packets come after a join, and for how long they still come after a leave.
//!
//! Times of packets are computed from their numbers, and from the earliest packets of their sender. A host that is busy, and
//! reads packets late, thus measures no longer times than one that is idle.

use std::{
    collections::BTreeMap,
    io,
    net::{IpAddr, UdpSocket},
    time::{Duration, Instant},
};

use socket2::{InterfaceIndexOrAddress, SockRef};
use treecast_host::{interface::Interface, option};

use super::{
    groups,
    message::{Visit, Visited},
    plan::HOP_LIMIT,
    probe::{self, Probe},
    sending::set_hop_limit,
    sockets::Sockets,
};

/// The time before the join: all hosts must have begun to send.
const BEFORE: Duration = Duration::from_millis(400);
/// The time between the join and the leave.
pub const STAY: Duration = Duration::from_millis(1500);

/// The time from the beginning of a visit to the leave.
pub const LEAVES_AFTER: Duration = BEFORE.saturating_add(STAY);

/// The time that a visit takes.
pub fn duration(visit: &Visit) -> Duration {
    LEAVES_AFTER + Duration::from_millis(visit.after_ms.into())
}

/// The number of packets that a host sends to one group during a visit.
pub fn packets(visit: &Visit) -> u32 {
    let gaps = duration(visit).as_micros() / u128::from(visit.gap_us.max(1));
    u32::try_from(gaps).unwrap_or(u32::MAX).saturating_add(1)
}

/// A visit that goes on.
pub struct Visiting {
    visit: Visit,
    run: u64,
    port: u16,
    interface: u32,
    start: Instant,
    /// The number of packets that this host has sent to each group.
    sent: u32,
    /// The time after the start at which the groups were joined. `left` is the time at which they were left.
    joined: Option<Duration>,
    left: Option<Duration>,
    streams: BTreeMap<(u16, u16), Stream>,
}

/// One sender's packets to one group. Packets have the numbers by which their sender counts them.
#[derive(Debug, Clone, Copy)]
struct Stream {
    /// The time at which packet 0 would have come, in microseconds after the start. Negative before it.
    began_us: i64,
    first_captured: Option<u32>,
    last_captured: Option<u32>,
    first_delivered: Option<u32>,
}

impl Visiting {
    /// Begins a visit.
    pub fn new(visit: Visit, run: u64, port: u16, interface: &Interface, sockets: &Sockets) -> Self {
        for (_, group) in &visit.groups {
            let Some(group) = groups::fixed(*group) else { continue };
            // A family that the host lacks is not visited.
            _ = sockets.towards(group.address).and_then(|it| set_hop_limit(it, group.address, HOP_LIMIT));
        }
        Self {
            visit,
            run,
            port,
            interface: interface.index,
            start: Instant::now(),
            sent: 0,
            joined: None,
            left: None,
            streams: BTreeMap::new(),
        }
    }

    /// Does what is due, and returns the time until the next packet. `None`: the visit is over.
    pub fn act(&mut self, sockets: &Sockets) -> Option<Duration> {
        let now = self.start.elapsed();
        if self.joined.is_none() && now >= BEFORE {
            self.joined = Some(self.start.elapsed());
            self.each_group(sockets, |socket, group, interface| option::join(socket, group, None, interface));
        }
        if self.left.is_none() && self.joined.is_some_and(|joined| now >= joined + STAY) {
            self.left = Some(self.start.elapsed());
            self.each_group(sockets, leave);
        }
        if self.sent >= packets(&self.visit) {
            return None;
        }
        let due = Duration::from_micros(u64::from(self.sent) * u64::from(self.visit.gap_us));
        if now >= due {
            self.send(sockets);
        }
        Some(due.saturating_sub(now))
    }

    fn each_group(&self, sockets: &Sockets, act: impl Fn(&UdpSocket, IpAddr, u32) -> io::Result<()>) {
        for group in self.visit.groups.iter().filter_map(|(_, group)| groups::fixed(*group)) {
            // Whoever cannot join hears nothing, which is what others are told.
            _ = sockets.towards(group.address).and_then(|socket| act(socket, group.address, self.interface));
        }
    }

    /// Sends one packet to each group. One that cannot be sent is lost for all who listen.
    fn send(&mut self, sockets: &Sockets) {
        for (test, group) in &self.visit.groups {
            let Some(group) = groups::fixed(*group) else { continue };
            let number = self.sent;
            let probe = Probe { run: self.run, sender: self.visit.sender, test: *test, number };
            let to = option::scoped((group.address, self.port).into(), self.interface);
            _ = sockets
                .towards(group.address)
                .and_then(|socket| socket.send_to(&probe.to_bytes(probe::LEN), to));
        }
        self.sent += 1;
    }

    /// Whether a packet belongs to the visit.
    pub fn is_about(&self, probe: &Probe) -> bool {
        self.visit.groups.iter().any(|(test, _)| *test == probe.test)
    }

    /// Notes another host's packet of the visit: at the interface, or else at the program.
    pub fn note(&mut self, probe: &Probe, is_captured: bool) {
        // Nobody sends more. A forged number would move all times of its sender.
        if probe.number >= packets(&self.visit) {
            return;
        }
        let now_us = self.start.elapsed().as_micros() as i64;
        let began_us = now_us - i64::from(probe.number) * i64::from(self.visit.gap_us);
        let stream = self.streams.entry((probe.sender, probe.test)).or_insert(Stream::new(began_us));
        stream.note(began_us, probe.number, is_captured);
    }

    /// The fate of each sender's packets. `can_look`: whether the host sees what comes to its interface.
    pub fn end(self, can_look: bool) -> Vec<Visited> {
        let Some((joined, left)) = self.joined.zip(self.left) else { return Vec::new() };
        let gap_us = i64::from(self.visit.gap_us);
        let visited = |((sender, test), stream): (&(u16, u16), &Stream)| Visited {
            sender: *sender,
            test: *test,
            is_flooded: stream
                .first_captured
                .is_some_and(|first| stream.at_us(first, gap_us) < as_us(joined)),
            join_ms: stream.join_ms(joined, gap_us),
            leave_ms: can_look.then(|| stream.leave_ms(left, gap_us)),
        };
        self.streams.iter().map(visited).collect()
    }
}

fn as_us(time: Duration) -> i64 {
    time.as_micros() as i64
}

impl Stream {
    fn new(began_us: i64) -> Self {
        Self { began_us, first_captured: None, last_captured: None, first_delivered: None }
    }

    fn note(&mut self, began_us: i64, number: u32, is_captured: bool) {
        self.began_us = self.began_us.min(began_us);
        let least = |known: Option<u32>| Some(known.map_or(number, |known| known.min(number)));
        if is_captured {
            self.first_captured = least(self.first_captured);
            self.last_captured = self.last_captured.max(Some(number));
        } else {
            self.first_delivered = least(self.first_delivered);
        }
    }

    /// The time at which a packet came, in microseconds after the start of the visit.
    fn at_us(&self, number: u32, gap_us: i64) -> i64 {
        self.began_us + i64::from(number) * gap_us
    }

    fn join_ms(&self, joined: Duration, gap_us: i64) -> Option<u32> {
        // A sender that began after the join has kept nobody waiting.
        let wait = |first: u32| if first == 0 { 0 } else { self.at_us(first, gap_us) - as_us(joined) };
        self.first_delivered.map(|first| (wait(first).max(0) / 1000) as u32)
    }

    fn leave_ms(&self, left: Duration, gap_us: i64) -> u32 {
        let rest = |last: u32| self.at_us(last, gap_us) - as_us(left);
        (self.last_captured.map_or(0, rest).max(0) / 1000) as u32
    }
}

fn leave(socket: &UdpSocket, group: IpAddr, interface: u32) -> io::Result<()> {
    match group {
        IpAddr::V4(group) => {
            SockRef::from(socket).leave_multicast_v4_n(&group, &InterfaceIndexOrAddress::Index(interface))
        }
        IpAddr::V6(group) => socket.leave_multicast_v6(&group, interface),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GAP_US: i64 = 40_000;

    /// A stream whose packet 0 came at this time, with these packets at the interface and at the program. Each is read late by
    /// as many milliseconds as its number, but for the first.
    fn stream(began_ms: i64, captured: &[u32], delivered: &[u32]) -> Stream {
        let mut stream = Stream::new(i64::MAX);
        for (numbers, is_captured) in [(captured, true), (delivered, false)] {
            for (place, number) in numbers.iter().enumerate() {
                let late_ms = if place == 0 { 0 } else { i64::from(*number) };
                stream.note((began_ms + late_ms) * 1000, *number, is_captured);
            }
        }
        stream
    }

    #[test]
    fn a_packet_that_is_read_late_lengthens_no_time() {
        let (joined, left) = (Duration::from_millis(400), Duration::from_millis(1900));
        let stream = stream(-100, &[20, 40, 60], &[20, 30, 40]);
        assert_eq!(stream.join_ms(joined, GAP_US), Some(300));
        assert_eq!(stream.leave_ms(left, GAP_US), 400);
    }

    #[test]
    fn who_begins_late_or_is_never_heard_has_kept_nobody_waiting() {
        let joined = Duration::from_millis(400);
        assert_eq!(stream(2000, &[], &[0, 1]).join_ms(joined, GAP_US), Some(0));
        assert_eq!(stream(0, &[], &[]).join_ms(joined, GAP_US), None);
        assert_eq!(stream(0, &[], &[]).leave_ms(joined, GAP_US), 0);
    }

    #[test]
    fn a_visit_joins_leaves_and_ends() {
        let interface = Interface::named("lo").unwrap();
        let sockets = Sockets::open(&interface, 0).unwrap();
        let visit = Visit { sender: 0, groups: vec![(3, 13), (4, 14)], gap_us: 40_000, after_ms: 100 };
        assert_eq!(packets(&visit), 51);
        let mut visiting = Visiting::new(visit, 1, 9, &interface, &sockets);
        while let Some(wait) = visiting.act(&sockets) {
            let number = visiting.sent;
            let probe = |test| Probe { run: 1, sender: 1, test, number };
            assert!(visiting.is_about(&probe(3)) && !visiting.is_about(&probe(9)));
            [true, false].into_iter().for_each(|is_captured| visiting.note(&probe(3), is_captured));
            visiting.note(&Probe { number: u32::MAX, ..probe(3) }, true);
            std::thread::sleep(wait);
        }
        let visited = visiting.end(true);
        assert_eq!(visited.len(), 1);
        assert!(visited[0].is_flooded && visited[0].leave_ms.is_some());
        assert!(visited[0].join_ms.is_some_and(|join_ms| join_ms < 60_000), "{visited:?}");
    }
}
