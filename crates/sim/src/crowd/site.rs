//! One site of a crowd: a controller and its members.

use std::{ops::Range, sync::Arc, time::Duration};

use treecast_proto::{
    Instant, Step,
    local::{Receiver, ReceiverConfig},
    object::{Address, Channel, ReceiverEvent, ReceiverInput, ReceiverTransmit},
    random::SplitMix64,
};
use treecast_wire::header::FileId;

use super::{
    Broadcast, Content, Crowd, CrowdFigures, Packet, Post, SESSION, SITE_DELAY, To, head::HASH, place,
    receiver, seat,
};
use crate::schedule::Schedule;

#[derive(Debug)]
pub(super) struct Site {
    number: usize,
    hosts: Vec<Host>,
    schedule: Schedule<Due>,
    /// The number of the sender's packets to the session's group that have arrived.
    heard: usize,
    posts: Vec<Post>,
    /// Bytes of packets to and from the hosts.
    bytes: u64,
}

#[derive(Debug)]
struct Host {
    machine: Receiver,
    loss: Losses,
    wake: Option<Instant>,
    is_listening: bool,
    whole_at: Option<Instant>,
    most_clients: u32,
}

#[derive(Debug)]
enum Due {
    Wake(u8),
    Packet(Target, Arc<Packet>),
}

/// The hosts of a site that a packet is for. They have few bits: very many packets wait in a large crowd.
#[derive(Debug, Clone, Copy)]
enum Target {
    /// All but this one, which has sent it. `None`: it came from another site.
    Group(Option<u8>),
    One(u8),
}

impl Site {
    pub fn new(plan: &Crowd, number: usize, count: usize) -> Self {
        let mut schedule = Schedule::default();
        (0..count).for_each(|place| schedule.at(Instant::ZERO, Due::Wake(place as u8)));
        let hosts = (0..count).map(|place| Host::new(plan, number, place)).collect();
        Self { number, hosts, schedule, heard: 0, posts: Vec::new(), bytes: 0 }
    }

    /// Plans the arrival of a packet from another site.
    pub fn post(&mut self, at: Instant, to: To, packet: Arc<Packet>) {
        let target = match to {
            To::Receiver(_, place) => Target::One(place as u8),
            _ => Target::Group(None),
        };
        self.schedule.at(at, Due::Packet(target, packet));
    }

    pub fn next(&self, broadcasts: &[Broadcast]) -> Option<Instant> {
        let broadcast = broadcasts.get(self.heard).map(|broadcast| broadcast.at);
        broadcast.into_iter().chain(self.schedule.next()).min()
    }

    /// Handles all events before `end`. Returns the packets that leave the site.
    pub fn run_until(&mut self, plan: &Crowd, end: Instant, broadcasts: &[Broadcast], posts: &mut Vec<Post>) {
        while let Some(next) = self.next(broadcasts).filter(|next| *next < end) {
            match broadcasts.get(self.heard).filter(|broadcast| broadcast.at == next) {
                Some(Broadcast { at, packet }) => {
                    self.heard += 1;
                    (0..self.hosts.len())
                        .for_each(|place| self.arrive(plan, *at, place, Channel::Group, packet));
                }
                None => self.event(plan),
            }
        }
        posts.append(&mut self.posts);
    }

    fn event(&mut self, plan: &Crowd) {
        let Some(due) = self.schedule.take() else { return };
        let now = self.schedule.now();
        match due {
            Due::Wake(place) => {
                let place = usize::from(place);
                if self.hosts[place].wake == Some(now) {
                    self.hosts[place].wake = None;
                    self.poll(plan, now, place);
                }
            }
            Due::Packet(Target::One(place), packet) => {
                let place = usize::from(place);
                if place < self.hosts.len() {
                    self.arrive(plan, now, place, Channel::Member(packet.from), &packet);
                }
            }
            Due::Packet(Target::Group(source), packet) => {
                for place in (0..self.hosts.len()).filter(|place| Some(*place as u8) != source) {
                    if self.hosts[place].is_listening {
                        self.arrive(plan, now, place, Channel::Member(packet.from), &packet);
                    }
                }
            }
        }
    }

    /// Delivers a packet to a host. The blocks of it that are not lost are handed to the machine.
    fn arrive(&mut self, plan: &Crowd, now: Instant, place: usize, from: Channel, packet: &Packet) {
        self.bytes += packet.bytes;
        let file = packet.file;
        match &packet.content {
            Content::Message(message) => {
                if !self.hosts[place].loss.next(plan.loss) {
                    let message = message.clone();
                    self.hosts[place].machine.handle(now, ReceiverInput::Message { from, file, message });
                    self.poll(plan, now, place);
                }
            }
            Content::Blocks(range) => {
                let block_len = u64::from(plan.block_len);
                let mut open: Option<Range<u64>> = None;
                for number in 0..packet.count {
                    let start = range.start + number * block_len;
                    let block = start..range.end.min(start + block_len);
                    if self.hosts[place].loss.next(plan.loss) {
                        open.take()
                            .into_iter()
                            .for_each(|range| self.take(plan, now, place, (from, file, range)));
                        continue;
                    }
                    open = Some(open.map_or(block.start, |open| open.start)..block.end);
                }
                open.into_iter().for_each(|range| self.take(plan, now, place, (from, file, range)));
            }
        }
    }

    fn take(
        &mut self,
        plan: &Crowd,
        now: Instant,
        place: usize,
        (from, file, range): (Channel, FileId, Range<u64>),
    ) {
        self.hosts[place].machine.handle(now, ReceiverInput::Blocks { from, file, range });
        self.poll(plan, now, place);
    }

    fn poll(&mut self, plan: &Crowd, now: Instant, place: usize) {
        loop {
            let host = &mut self.hosts[place];
            match host.machine.poll(now) {
                Step::Transmit(ReceiverTransmit::Tell { to, file, message }) => {
                    host.most_clients = host.most_clients.max(host.machine.clients() as u32);
                    let packet = Packet::message(receiver(self.number, place), file, message);
                    self.send(plan, now, place, (to, packet));
                }
                Step::Transmit(ReceiverTransmit::Send { to, file, range }) => {
                    let packet = Packet::blocks(receiver(self.number, place), file, range, plan.block_len);
                    self.send(plan, now, place, (to, packet));
                }
                Step::Transmit(other) => host.carry_out(now, other),
                Step::Event(ReceiverEvent::Received { .. }) => host.whole_at = Some(now),
                Step::Event(_) => {}
                Step::Wait(deadline, _) => {
                    let deadline = deadline.map(|at| at.max(now + Duration::from_nanos(1)));
                    if let Some(at) = deadline.filter(|at| host.wake.is_none_or(|wake| *at < wake)) {
                        host.wake = Some(at);
                        self.schedule.at(at, Due::Wake(place as u8));
                    }
                    return;
                }
            }
        }
    }

    /// Sends a host's packet: to its own group, to another host of the site, or to another site.
    fn send(&mut self, plan: &Crowd, now: Instant, source: usize, (to, packet): (Address, Arc<Packet>)) {
        self.bytes += packet.bytes;
        let to = match to {
            Address::Session => return,
            Address::Group(group) if group.0 as usize == self.number + 1 => {
                let due = Due::Packet(Target::Group(Some(source as u8)), packet);
                return self.schedule.at(now + SITE_DELAY, due);
            }
            Address::Group(group) => To::Group(group.0 as usize - 1),
            Address::Member(member) => match place(member) {
                None => To::Sender,
                Some((site, place)) if site == self.number => {
                    return self.schedule.at(now + SITE_DELAY, Due::Packet(Target::One(place as u8), packet));
                }
                Some((site, place)) => To::Receiver(site, place),
            },
        };
        self.posts.push(Post { at: now + plan.delay, to, packet });
    }

    pub fn is_whole(&self) -> bool {
        self.hosts.iter().all(|host| host.whole_at.is_some())
    }

    /// The times at which hosts had the object.
    pub fn times(&self) -> impl Iterator<Item = Duration> + '_ {
        self.hosts.iter().filter_map(|host| Some(host.whole_at? - Instant::ZERO))
    }

    pub fn add_to(&self, figures: &mut CrowdFigures) {
        figures.network_bytes += self.bytes;
        for host in &self.hosts {
            let of = host.machine.figures();
            figures.member_repairs += of.sent_blocks;
            figures.requests += of.requests_sent + of.requests_above;
            figures.lost_blocks += of.lost_blocks;
            figures.duplicate_blocks += of.duplicate_blocks;
            figures.most_clients = figures.most_clients.max(host.most_clients as usize);
        }
    }
}

impl Host {
    fn new(plan: &Crowd, site: usize, place: usize) -> Self {
        let me = receiver(site, place);
        let number = (site * super::SITE + place) as u64;
        let machine = Receiver::new(ReceiverConfig {
            session: SESSION,
            block_len: plan.block_len,
            me,
            mode: plan.mode,
            seat: Some(seat(site, plan.receivers)),
            seed: plan.seed.wrapping_mul(1_000_003).wrapping_add(number),
            tuning: plan.tuning.clone(),
            patience: None,
            stall_limit: None,
            hash_attempts: 3,
            copies: None,
        });
        let random = SplitMix64(plan.seed ^ number.wrapping_mul(0xd134_2543_de82_ef95));
        let loss = Losses { random, until: 0, is_drawn: false };
        Self {
            machine,
            loss,
            wake: Some(Instant::ZERO),
            is_listening: false,
            whole_at: None,
            most_clients: 0,
        }
    }

    /// Carries out effects that need no network. Nothing is stored, and every hash is right.
    fn carry_out(&mut self, now: Instant, transmit: ReceiverTransmit) {
        let input = match transmit {
            ReceiverTransmit::JoinGroup { .. } => return self.is_listening = true,
            ReceiverTransmit::LeaveGroup { .. } => return self.is_listening = false,
            ReceiverTransmit::Announce { file, .. } => ReceiverInput::Have { file, ranges: Vec::new() },
            ReceiverTransmit::Hash { file } => ReceiverInput::Hashed { file, hash: HASH },
            ReceiverTransmit::Commit { file } => ReceiverInput::Committed { file },
            _ => return,
        };
        self.machine.handle(now, input);
    }
}

/// Decides which packets a host loses. A number is drawn for each loss, and not for each packet.
#[derive(Debug)]
struct Losses {
    random: SplitMix64,
    /// The number of packets that arrive before the next one is lost.
    until: u32,
    is_drawn: bool,
}

impl Losses {
    fn next(&mut self, loss: f64) -> bool {
        if loss <= 0.0 {
            return false;
        }
        if !std::mem::replace(&mut self.is_drawn, true) {
            let drawn = (1.0 - self.random.unit()).ln() / (1.0 - loss).ln();
            self.until = drawn.min(f64::from(u32::MAX)) as u32;
        }
        match self.until.checked_sub(1) {
            Some(left) => self.until = left,
            None => self.is_drawn = false,
        }
        !self.is_drawn
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_packets_are_lost_as_were_asked_for() {
        let mut losses = Losses { random: SplitMix64(1), until: 0, is_drawn: false };
        let lost = (0..100_000).filter(|_| losses.next(0.05)).count();
        assert!((4_700..5_300).contains(&lost), "{lost}");
        assert!((0..1_000).all(|_| !losses.next(0.0)));
    }
}
