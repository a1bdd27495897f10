//! The client's side of Mtrace2 (RFC 8487, section 5) without I/O: which queries to send, and what the replies say.
//!
//! One query for the whole way comes first. If nobody replies, the way is searched hop by hop: a query for one hop,
//! for two, and so on, until [`GIVE_UP`] hops in a row stay silent. Once the way is known, a second query a second
//! later shows how many packets passed each router in between.

use std::{collections::BTreeMap, net::IpAddr, time::Duration};

use treecast_proto::{Instant, Step};
use treecast_wire::mtrace2::{ForwardingCode, Header, Kind, Message, StandardBlock};

/// The number of silent hops in a row after which the search ends.
pub const GIVE_UP: u8 = 3;

/// The number of times that a query is sent.
const TRIES: u8 = 2;

/// The time between the first path and the query for rates.
const BETWEEN: Duration = Duration::from_secs(1);

/// The question of a trace.
#[derive(Debug, Clone, Copy)]
pub struct Question {
    pub group: IpAddr,
    /// The source. `None`: the way of the group's packets from any source.
    pub source: Option<IpAddr>,
    /// This host's address, and the UDP port where it waits for replies.
    pub client: IpAddr,
    pub client_port: u16,
    /// The largest number of routers that the trace may pass.
    pub most_hops: u8,
    /// The time to wait for a reply.
    pub patience: Duration,
    /// The number of the first query. Those that follow count up.
    pub first_id: u16,
}

/// The answer to a trace: what the routers on the way said.
#[derive(Debug, Clone, PartialEq)]
pub struct Traced {
    /// The routers, the one next to this host first.
    pub hops: Vec<Hop>,
    pub end: End,
}

impl Traced {
    /// Whether the trace has reached the source's network, and all routers forward.
    pub fn is_whole(&self) -> bool {
        matches!(self.end, End::Source | End::Neighbour)
            && self.hops.iter().all(|hop| hop.block.code == ForwardingCode::NoError)
    }
}

/// A router on the way.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hop {
    /// The first answer of the router.
    pub block: StandardBlock,
    /// The number of packets from the source to the group that the router forwards in a second. `None`: not known.
    pub packets_per_second: Option<f64>,
    /// The share of the packets of the router before it, towards the source, that did not pass this one. `None`: not
    /// known.
    pub loss: Option<f64>,
}

/// The end of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The source is on this host's own network, so no router was asked.
    Neighbour,
    /// The last router is a neighbour of the source.
    Source,
    /// The last router says why it does not know more.
    Code(ForwardingCode),
    /// The trace may not pass more routers.
    MostHops,
    /// The routers behind the last one do not reply. `next` is the one that the last one named.
    Silent { next: Option<IpAddr> },
    /// No router has replied at all.
    Nobody,
}

/// The event that the search waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    Reply,
    /// Time for packets to pass.
    Packets,
    Nothing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// A query for all hops.
    Whole,
    /// A query for so many hops; and how many hops before this one were silent.
    Hops {
        hops: u8,
        silent: u8,
    },
    /// The way is known. The query for rates follows at this time.
    Between(Instant),
    /// The query for rates.
    Again,
    Over,
}

/// The search for the way. Call order: see [`treecast_proto`].
#[derive(Debug)]
pub struct Search {
    question: Question,
    stage: Stage,
    /// The number of the last query, and the times that a query was sent in this stage.
    id: u16,
    tries: u8,
    deadline: Option<Instant>,
    /// The parts of the replies to the last query, by the number of hops before them.
    parts: BTreeMap<usize, Vec<StandardBlock>>,
    /// The longest path that was found so far, and the hops that its query asked for.
    found: Vec<StandardBlock>,
    asked: u8,
}

impl Search {
    pub fn new(question: Question) -> Self {
        Self {
            question,
            stage: Stage::Whole,
            id: question.first_id.wrapping_sub(1),
            tries: 0,
            deadline: None,
            parts: BTreeMap::new(),
            found: Vec::new(),
            asked: question.most_hops,
        }
    }

    /// Takes a datagram. Anything but a reply to the last query is ignored.
    pub fn handle(&mut self, now: Instant, bytes: &[u8]) {
        let Ok(message) = Message::parse(bytes) else { return };
        let is_asked =
            self.deadline.is_some() && self.header().is_some_and(|header| header == message.header);
        let blocks: Vec<_> = message.standard().copied().collect();
        if message.kind != Kind::Reply || !is_asked || blocks.is_empty() {
            return;
        }
        // No way has more parts than hops, so there is no room for more.
        if self.parts.len() < usize::from(self.asked) {
            self.parts.entry(message.returned()).or_insert(blocks);
        }
        if let Some(path) = self.whole() {
            self.take(now, path);
        }
    }

    /// The next step; see [`treecast_proto`]. The event is the last one.
    pub fn poll(&mut self, now: Instant) -> Step<Message, Traced, Wait> {
        match self.stage {
            Stage::Between(at) if at > now => return Step::Wait(Some(at), Wait::Packets),
            Stage::Between(_) => (self.stage, self.tries, self.deadline) = (Stage::Again, 0, None),
            Stage::Over => return Step::Wait(None, Wait::Nothing),
            Stage::Whole | Stage::Hops { .. } | Stage::Again => {}
        }
        match self.deadline {
            Some(deadline) if deadline > now => Step::Wait(Some(deadline), Wait::Reply),
            Some(_) if self.tries >= TRIES => self.give_up(now),
            _ => self.ask(now),
        }
    }

    /// Ends the search early. Returns what is known so far.
    pub fn stop(&mut self) -> Traced {
        let reason = self.reason();
        self.end(reason)
    }

    fn ask(&mut self, now: Instant) -> Step<Message, Traced, Wait> {
        self.id = self.id.wrapping_add(1);
        self.tries += 1;
        self.parts.clear();
        self.deadline = Some(now + self.question.patience);
        if let Stage::Hops { hops, .. } = self.stage {
            self.asked = hops;
        }
        match self.header() {
            Some(header) => Step::Transmit(Message { kind: Kind::Query, header, blocks: Vec::new() }),
            // Whoever asks has checked the addresses.
            None => Step::Event(self.end(End::Nobody)),
        }
    }

    /// The header of the last query.
    fn header(&self) -> Option<Header> {
        let Question { group, source, client, client_port, .. } = self.question;
        Header::new(self.asked, Some(group), source, client, self.id, client_port).ok()
    }

    /// The blocks of all parts, once none is missing.
    fn whole(&self) -> Option<Vec<StandardBlock>> {
        let mut path: Vec<StandardBlock> = Vec::new();
        while let Some(part) = self.parts.get(&path.len()) {
            // That there was no more room says nothing of the router. The next part has those behind it.
            if let Some(full) = path.last_mut() {
                full.code = ForwardingCode::NoError;
            }
            path.extend(part);
        }
        let last = path.last()?;
        (last.code != ForwardingCode::NoSpace).then_some(path)
    }

    fn take(&mut self, now: Instant, path: Vec<StandardBlock>) {
        if self.stage == Stage::Again {
            // The rates are computed by `end`, from these parts.
            self.deadline = Some(now);
            self.tries = TRIES;
            return;
        }
        self.found = path;
        match self.stage {
            Stage::Hops { hops, .. } if self.is_to_go_on() && hops < self.question.most_hops => {
                self.stage = Stage::Hops { hops: hops + 1, silent: 0 };
                (self.tries, self.deadline) = (0, None);
            }
            _ => self.stage = Stage::Between(now + BETWEEN),
        }
    }

    /// Whether the last router has named another one before it.
    fn is_to_go_on(&self) -> bool {
        let goes_on = |code| matches!(code, ForwardingCode::NoError | ForwardingCode::NotForwarding);
        self.found.last().is_some_and(|last| goes_on(last.code) && last.interfaces.upstream().is_some())
    }

    /// Gives up the current query: no reply came to it, however often it was sent; or the one for rates is over.
    fn give_up(&mut self, now: Instant) -> Step<Message, Traced, Wait> {
        let next = match self.stage {
            Stage::Whole => Stage::Hops { hops: 1, silent: 0 },
            Stage::Hops { hops, silent } if silent + 1 < GIVE_UP && hops < self.question.most_hops => {
                Stage::Hops { hops: hops + 1, silent: silent + 1 }
            }
            Stage::Hops { .. } if self.found.is_empty() => return Step::Event(self.end(End::Nobody)),
            Stage::Hops { .. } => {
                // The last hops that replied tell the rates.
                self.asked = u8::try_from(self.found.len()).unwrap_or(u8::MAX);
                Stage::Between(now)
            }
            _ => {
                let end = self.reason();
                return Step::Event(self.end(end));
            }
        };
        self.stage = next;
        (self.tries, self.deadline) = (0, None);
        self.poll(now)
    }

    fn reason(&self) -> End {
        let Some(last) = self.found.last() else { return End::Nobody };
        match (last.code, last.interfaces.upstream()) {
            (ForwardingCode::NoError | ForwardingCode::NotForwarding, None) => End::Source,
            (ForwardingCode::NoError | ForwardingCode::NotForwarding, Some(_))
                if self.found.len() >= usize::from(self.question.most_hops) =>
            {
                End::MostHops
            }
            (ForwardingCode::NoError | ForwardingCode::NotForwarding, next) => End::Silent { next },
            (code, _) => End::Code(code),
        }
    }

    fn end(&mut self, end: End) -> Traced {
        self.stage = Stage::Over;
        let later = self.whole().unwrap_or_default();
        let found = std::mem::take(&mut self.found);
        let passed: Vec<_> = found.iter().zip(&later).map(|(first, second)| passed(first, second)).collect();
        let packets_of = |hop: usize| passed.get(hop).copied().flatten();
        let hops = found.iter().enumerate().map(|(index, block)| Hop {
            block: *block,
            packets_per_second: packets_of(index).map(|(packets, seconds)| packets as f64 / seconds),
            loss: packets_of(index).zip(packets_of(index + 1)).and_then(|(here, before)| loss(here, before)),
        });
        Traced { hops: hops.collect(), end }
    }
}

/// The number of packets that a router forwarded between two blocks, and the seconds between them.
fn passed(first: &StandardBlock, second: &StandardBlock) -> Option<(u64, f64)> {
    let is_same = first.interfaces.router() == second.interfaces.router();
    let packets = second.packets?.checked_sub(first.packets?).filter(|_| is_same)?;
    let seconds = f64::from(second.arrival.wrapping_sub(first.arrival)) / f64::from(1 << 16);
    // Times of more than an hour come from a clock that was set back.
    (seconds > 0.0 && seconds < 3600.0).then_some((packets, seconds))
}

/// The share of packets that passed the router before but not this one, by their rates.
fn loss(here: (u64, f64), before: (u64, f64)) -> Option<f64> {
    let [here, before] = [here, before].map(|(packets, seconds)| packets as f64 / seconds);
    (before > 0.0).then(|| (1.0 - here / before).max(0.0))
}

#[cfg(test)]
mod tests {
    use treecast_wire::mtrace2::{Block, Interfaces};

    use super::*;

    /// Routers that answer: how many there are, which ones are silent, and how many blocks a message holds.
    struct Routers {
        count: u8,
        silent: Vec<u8>,
        room: usize,
        last: ForwardingCode,
    }

    impl Routers {
        fn sound(count: u8) -> Self {
            Self { count, silent: Vec::new(), room: 255, last: ForwardingCode::NoError }
        }

        /// The replies to a query at this time. Router h forwards 100 - h packets a second.
        fn replies(&self, now: Instant, query: &Message) -> Vec<Message> {
            let hops = query.header.hops.min(self.count);
            if (1..=hops).any(|hop| self.silent.contains(&hop)) {
                return Vec::new();
            }
            let blocks: Vec<_> = (1..=hops).map(|hop| self.block(now, hop)).collect();
            let parts: Vec<_> = blocks.chunks(self.room).collect();
            let reply = |(index, part): (usize, &&[StandardBlock])| {
                let mut part = part.to_vec();
                if index + 1 < parts.len() {
                    part.last_mut().expect("a chunk").code = ForwardingCode::NoSpace;
                }
                let returned = Some(Block::Returned((index * self.room) as u16)).filter(|_| index > 0);
                let blocks = returned.into_iter().chain(part.into_iter().map(Block::Standard)).collect();
                Message { kind: Kind::Reply, header: query.header, blocks }
            };
            parts.iter().enumerate().map(reply).collect()
        }

        fn block(&self, now: Instant, hop: u8) -> StandardBlock {
            let upstream = if hop == self.count { [0; 4] } else { [10, 0, hop, 1] };
            let interfaces = Interfaces::V4 {
                incoming: [10, 0, hop, 2].into(),
                outgoing: [10, 0, hop - 1, 1].into(),
                upstream: upstream.into(),
                hop_limit: 1,
            };
            let micros = now.as_nanos() / 1000;
            StandardBlock {
                interfaces,
                arrival: ((micros << 16) / 1_000_000) as u32,
                packets: Some(micros * u64::from(hop + 90) / 1_000_000),
                ..StandardBlock::only(
                    if hop == self.count { self.last } else { ForwardingCode::NoError },
                    true,
                )
            }
        }
    }

    fn question() -> Question {
        Question {
            group: [239, 1, 2, 3].into(),
            source: Some([10, 9, 9, 9].into()),
            client: [10, 0, 0, 2].into(),
            client_port: 4000,
            most_hops: 32,
            patience: Duration::from_secs(2),
            first_id: u16::MAX,
        }
    }

    /// Runs a search; returns the way, and the hops that were asked for.
    fn run(routers: &Routers, question: Question) -> (Traced, Vec<u8>) {
        let (mut search, mut now, mut asked) = (Search::new(question), Instant::ZERO, Vec::new());
        loop {
            match search.poll(now) {
                Step::Transmit(query) => {
                    asked.push(query.header.hops);
                    now += Duration::from_millis(5);
                    let mut replies = routers.replies(now, &query);
                    // Parts come from different routers, so in any order.
                    replies.reverse();
                    replies.iter().for_each(|reply| search.handle(now, &reply.to_bytes()));
                }
                Step::Event(way) => return (way, asked),
                Step::Wait(deadline, _) => now = deadline.expect("it goes on"),
            }
        }
    }

    #[test]
    fn a_sound_way_is_found_by_one_query_and_its_rates_by_a_second() {
        let (way, asked) = run(&Routers::sound(4), question());
        assert_eq!((way.end, way.hops.len(), asked), (End::Source, 4, vec![32, 32]));
        for (index, hop) in way.hops.iter().enumerate() {
            let rate = hop.packets_per_second.expect("two counts");
            assert!((rate - (91 + index) as f64).abs() < 2.0, "{rate}");
        }
        assert!(way.hops[0].loss.is_some_and(|loss| loss < 0.03));
        assert_eq!(way.hops[3].loss, None, "nobody counts before the last router");
    }

    #[test]
    fn parts_are_put_together_in_their_order() {
        let (way, _) = run(&Routers { room: 3, ..Routers::sound(11) }, question());
        let routers: Vec<_> = way.hops.iter().filter_map(|hop| hop.block.interfaces.router()).collect();
        let expected: Vec<IpAddr> = (0..11).map(|hop| [10, 0, hop, 1].into()).collect();
        assert!(way.is_whole(), "{way:?}");
        assert_eq!((way.end, routers), (End::Source, expected));
    }

    #[test]
    fn a_router_that_is_silent_is_named_as_the_next_of_the_last_that_replied() {
        let (way, asked) = run(&Routers { silent: vec![3], ..Routers::sound(6) }, question());
        assert_eq!(way.hops.len(), 2);
        assert_eq!(way.end, End::Silent { next: Some([10, 0, 2, 1].into()) });
        assert_eq!(asked, [32, 32, 1, 2, 3, 3, 4, 4, 5, 5, 2], "twice each, and three silent hops in a row");
        assert!(way.hops[1].packets_per_second.is_some());
    }

    #[test]
    fn where_nobody_replies_the_search_ends() {
        let (way, asked) = run(&Routers { silent: vec![1], ..Routers::sound(6) }, question());
        assert_eq!(way, Traced { hops: vec![], end: End::Nobody });
        assert_eq!(asked, [32, 32, 1, 1, 2, 2, 3, 3]);
    }

    #[test]
    fn a_code_and_the_limit_end_the_way() {
        let last = ForwardingCode::NoRoute;
        let (way, _) = run(&Routers { last, ..Routers::sound(3) }, question());
        assert_eq!(way.end, End::Code(last));
        let (way, _) = run(&Routers::sound(9), Question { most_hops: 5, ..question() });
        assert_eq!((way.hops.len(), way.end), (5, End::MostHops));
    }

    #[test]
    fn replies_that_nobody_asked_for_change_nothing() {
        let mut search = Search::new(question());
        let Step::Transmit(query) = search.poll(Instant::ZERO) else { panic!("it asks first") };
        let good = Routers::sound(2).replies(Instant::ZERO, &query).remove(0);
        let header = |id, client: [u8; 4]| {
            let (group, source) = (query.header.group(), query.header.source());
            Header::new(32, group, source, client.into(), id, 4000).expect("a good header")
        };
        let forged = [
            Message { header: header(7, [10, 0, 0, 2]), ..good.clone() },
            Message { header: header(u16::MAX, [10, 0, 0, 3]), ..good.clone() },
            Message { kind: Kind::Request, ..good.clone() },
            Message { blocks: vec![], ..good.clone() },
        ];
        forged.iter().for_each(|message| search.handle(Instant::ZERO, &message.to_bytes()));
        search.handle(Instant::ZERO, b"nonsense");
        assert!(matches!(search.poll(Instant::ZERO), Step::Wait(_, Wait::Reply)));
        search.handle(Instant::ZERO, &good.to_bytes());
        assert!(matches!(search.poll(Instant::ZERO), Step::Wait(_, Wait::Packets)));
    }
}
