//! Simulates sessions with local groups (LGMP) of up to a million receivers.
//!
//! The network is simple, and so needs no node or cable for each receiver: the receivers of a local group are at one
//! *site*. A site has one delay from the sender and from every other site, and a short one between its own hosts. Each
//! receiver loses each packet that is sent to it with the same probability, by random numbers of its own.
//!
//! Every receiver is a whole machine ([`treecast_proto::local::Receiver`]). What makes a million of them fast is that
//! nothing that leaves a site arrives elsewhere before the delay between sites has passed. So time goes on in windows
//! of that length. In a window, the sites are computed one after the other, each with its own queue of events, and on
//! several threads. The result does not depend on the number of threads.

mod head;
mod site;

use std::{num::NonZeroUsize, ops::Range, sync::Arc, thread, time::Duration};

use treecast_proto::{
    Instant,
    local::{self, MAX_CHILDREN, MAX_MEMBERS, Mode, Seat, Tuning},
};
use treecast_wire::{
    header::{FileId, HEADER_LEN, SessionId},
    message::{GroupId, Member, Message},
};

use self::{head::Head, site::Site};
use crate::session::{member, node};

/// The number of receivers at a site: a controller and its members.
const SITE: usize = MAX_MEMBERS + 1;

// A place at a site takes eight bits.
const _: () = assert!(SITE <= 1 << u8::BITS);

/// The number of groups directly below the sender.
const TOP: usize = 2 * MAX_CHILDREN;

/// The delay between two hosts of one site.
const SITE_DELAY: Duration = Duration::from_millis(1);

/// The bytes of Ethernet, IPv6 and UDP around a packet.
const LOWER_HEADERS: u64 = 14 + 40 + 8;

const SESSION: SessionId = SessionId(7);

/// A session to simulate.
#[derive(Debug, Clone)]
pub struct Crowd {
    pub seed: u64,
    pub receivers: usize,
    pub mode: Mode,
    pub tuning: Tuning,
    /// The share of packets that each receiver loses, from 0 to 1.
    pub loss: f64,
    /// The delay between the sender and a site, and between two sites. It is longer than 1 ms.
    pub delay: Duration,
    pub size_bytes: u64,
    pub block_len: u16,
    pub max_run_len: u32,
    /// The highest rate of the sender, in bits of the object a second.
    pub rate_bps: u64,
    /// The number of threads. It does not change the result.
    pub threads: NonZeroUsize,
    /// The time at which the run ends in any case.
    pub timeout: Duration,
}

/// The result of a run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CrowdFigures {
    /// The number of receivers that have the whole object.
    pub whole: usize,
    /// The times at which half of the receivers and the last one had the object.
    pub median_time: Duration,
    pub last_time: Duration,
    pub sender: local::SenderFigures,
    /// The packets of repair that the sender sent, and those that members sent.
    pub sender_repairs: u64,
    pub member_repairs: u64,
    /// The requests of all receivers, to their groups and to controllers above.
    pub requests: u64,
    /// The blocks that receivers lacked when they noticed it.
    pub lost_blocks: u64,
    pub duplicate_blocks: u64,
    /// The bytes on all links, and those that left the sender.
    pub network_bytes: u64,
    pub sender_bytes: u64,
    /// The most receivers and groups that have reported to one controller.
    pub most_clients: usize,
    pub groups: usize,
}

/// A packet, or several that leave together. All who are sent it share it.
#[derive(Debug)]
struct Packet {
    from: Member,
    file: FileId,
    content: Content,
    /// The bytes of all frames, and how many frames they are.
    bytes: u64,
    count: u64,
}

#[derive(Debug)]
enum Content {
    Message(Message),
    Blocks(Range<u64>),
}

impl Packet {
    fn message(from: Member, file: FileId, message: Message) -> Arc<Self> {
        let bytes = message.to_packet(file).len() as u64 + LOWER_HEADERS;
        Self { from, file, content: Content::Message(message), bytes, count: 1 }.into()
    }

    fn blocks(from: Member, file: FileId, range: Range<u64>, block_len: u16) -> Arc<Self> {
        let count = (range.end - range.start).div_ceil(block_len.into());
        let bytes = range.end - range.start + count * (LOWER_HEADERS + HEADER_LEN as u64);
        Self { from, file, content: Content::Blocks(range), bytes, count }.into()
    }
}

/// The destination of a packet that leaves its site.
#[derive(Debug, Clone, Copy)]
enum To {
    Sender,
    /// The group of a site.
    Group(usize),
    /// One receiver of a site.
    Receiver(usize, usize),
}

/// A packet between two sites.
#[derive(Debug)]
struct Post {
    at: Instant,
    to: To,
    packet: Arc<Packet>,
}

/// A packet from the sender to the session's group, and when it arrives at all sites.
#[derive(Debug)]
struct Broadcast {
    at: Instant,
    packet: Arc<Packet>,
}

/// Returns a member's site and its place there. `None` for the sender.
fn place(of: Member) -> Option<(usize, usize)> {
    let number = node(of)?.checked_sub(1)?;
    Some((number / SITE, number % SITE))
}

/// The address of a receiver. The sender is node 0.
fn receiver(site: usize, place: usize) -> Member {
    member(site * SITE + place + 1)
}

fn sender() -> Member {
    member(0)
}

/// The place of a site's receivers in the tree of groups: the sender has 16 groups below it, and each controller 8.
fn seat(site: usize, receivers: usize) -> Seat {
    let parent = if site < TOP { sender() } else { receiver((site - TOP) / MAX_CHILDREN, 0) };
    let members = SITE.min(receivers - site * SITE) - 1;
    Seat { group: GroupId(site as u32 + 1), controller: receiver(site, 0), parent, members: members as u16 }
}

/// Runs a session to its end.
pub fn run(plan: &Crowd) -> CrowdFigures {
    World::new(plan).run()
}

struct World<'a> {
    plan: &'a Crowd,
    head: Head,
    sites: Vec<Site>,
    broadcasts: Vec<Broadcast>,
}

impl<'a> World<'a> {
    fn new(plan: &'a Crowd) -> Self {
        let sites = (0..plan.receivers.div_ceil(SITE))
            .map(|number| Site::new(plan, number, SITE.min(plan.receivers - number * SITE)));
        Self { plan, head: Head::new(plan), sites: sites.collect(), broadcasts: Vec::new() }
    }

    fn run(mut self) -> CrowdFigures {
        let deadline = Instant::ZERO + self.plan.timeout;
        let mut next = Instant::ZERO;
        while next <= deadline {
            let end = next + self.plan.delay;
            let Some(later) = self.window(end) else { break };
            next = later;
            if self.head.is_closed && self.sites.iter().all(Site::is_whole) {
                break;
            }
        }
        self.figures()
    }

    /// Handles all events before `end`. Returns the time of the next event.
    fn window(&mut self, end: Instant) -> Option<Instant> {
        let (plan, broadcasts) = (self.plan, &self.broadcasts);
        let chunk = self.sites.len().div_ceil(plan.threads.get()).max(1);
        let (mut posts, of_sites): (Vec<Vec<Post>>, Vec<Option<Instant>>) = thread::scope(|scope| {
            let work = |sites: &mut [Site]| -> (Vec<Post>, Option<Instant>) {
                let mut posts = Vec::new();
                sites.iter_mut().for_each(|site| site.run_until(plan, end, broadcasts, &mut posts));
                (posts, sites.iter().filter_map(|site| site.next(broadcasts)).min())
            };
            let mut chunks = self.sites.chunks_mut(chunk);
            let first = chunks.next();
            let others: Vec<_> = chunks.map(|sites| scope.spawn(move || work(sites))).collect();
            let first = first.map(work);
            let others = others.into_iter().map(|thread| thread.join().unwrap_or_default());
            first.into_iter().chain(others).unzip()
        });
        let heard = self.broadcasts.len();
        posts.push(self.head.run_until(plan, end, &mut self.broadcasts));
        let later = posts.iter().flatten().map(|post| post.at).chain(of_sites.into_iter().flatten());
        let broadcast = self.broadcasts.get(heard).map(|broadcast| broadcast.at);
        let next = later.chain(broadcast).chain(self.head.next()).min();
        for Post { at, to, packet } in posts.into_iter().flatten() {
            match to {
                To::Sender => self.head.post(at, packet),
                To::Group(site) | To::Receiver(site, _) => {
                    if let Some(there) = self.sites.get_mut(site) {
                        there.post(at, to, packet);
                    }
                }
            }
        }
        next
    }

    fn figures(self) -> CrowdFigures {
        let mut figures = CrowdFigures {
            sender: self.head.machine.figures(),
            sender_bytes: self.head.sent_bytes,
            network_bytes: self.head.sent_bytes,
            sender_repairs: self.head.repairs,
            groups: self.sites.len(),
            ..CrowdFigures::default()
        };
        self.sites.iter().for_each(|site| site.add_to(&mut figures));
        let mut times: Vec<Duration> = self.sites.iter().flat_map(Site::times).collect();
        times.sort_unstable();
        figures.whole = times.len();
        figures.median_time = times.get(times.len() / 2).copied().unwrap_or_default();
        figures.last_time = times.last().copied().unwrap_or_default();
        figures
    }
}
