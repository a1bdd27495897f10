//! The carousel's sender: a loop for each group.

use std::collections::VecDeque;

use treecast_wire::{
    ParseError,
    header::FileId,
    message::{BeginOfFile, Message},
};

use super::ring::{Ring, SenderConfig, Turn};
use crate::{
    Instant, Step,
    object::{Destination, Lane, SenderEvent, SenderInput, SenderTransmit, SenderWait},
};

/// The reason why a carousel ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Nobody has listened for as long as the sender waits for another listener.
    Unheard,
    /// The carousel has sent as many loops as were wanted.
    Loops,
    /// No object is left that can be read.
    Withdrawn,
    /// The caller has closed it.
    Told,
}

/// The sender of one carousel. [`crate`] says in which order to call it; the caller polls each group's [`Lane`]
/// on its own.
///
/// With several groups, each group has a loop of its own, which begins at another place than the others. So a
/// receiver that listens to several groups gets the sum of their rates, and different blocks from each
/// (librecast-updates-2022, A.3).
#[derive(Debug)]
pub struct Sender {
    config: SenderConfig,
    rings: Vec<Ring>,
    /// Whether anybody listens to each group.
    listeners: Vec<bool>,
    /// Whether anybody listens, as far as the application has been told.
    is_heard: bool,
    /// The time when the sender ends unless somebody listens again. `None` while somebody does, and before
    /// the first listener.
    ends_at: Option<Instant>,
    loops: u64,
    /// The reason why the carousel is closing. `None` before it does.
    end: Option<End>,
    has_told_end: bool,
    events: VecDeque<SenderEvent>,
}

impl Sender {
    /// Creates the sender of a carousel with these objects.
    ///
    /// # Errors
    /// When there are no objects, or more than [`treecast_wire::message::MAX_OBJECTS`].
    pub fn new(config: SenderConfig, objects: &[BeginOfFile]) -> Result<Self, ParseError> {
        let total: u64 = objects.iter().map(|begin| begin.file_size).fold(0, u64::saturating_add);
        let groups = config.max_run_lens.len().max(1) as u64;
        let ring = |(number, max_run_len): (u8, &u32)| {
            let share = (u128::from(total) * u128::from(number) / u128::from(groups)) as u64;
            let config = SenderConfig {
                start: config.start.wrapping_add(share),
                first_row: match (number, config.fec) {
                    (0, _) | (_, false) => config.first_row,
                    // As far apart as no session has loops.
                    (_, true) => config.first_row.wrapping_add(u64::from(number) << 48),
                },
                ..config.clone()
            };
            let to = if number == 0 { Destination::Group } else { Destination::Slower(number) };
            Ring::new(config, (to, *max_run_len), objects.to_vec())
        };
        Ok(Self {
            rings: (0..).zip(&config.max_run_lens).map(ring).collect::<Result<_, _>>()?,
            listeners: vec![false; config.max_run_lens.len()],
            is_heard: false,
            ends_at: None,
            loops: 0,
            end: None,
            has_told_end: false,
            events: VecDeque::new(),
            config,
        })
    }

    /// Returns the announcement of an object.
    pub fn announced(&self, file: FileId) -> Option<&BeginOfFile> {
        self.rings.first()?.announced(file)
    }

    /// Returns why the carousel ends or has ended. `None` while it goes on.
    pub fn end(&self) -> Option<End> {
        self.end
    }

    pub fn handle(&mut self, now: Instant, input: SenderInput) {
        match input {
            SenderInput::Listeners { group, present } => {
                if let Some(listener) = self.listeners.get_mut(usize::from(group)) {
                    *listener = present;
                }
            }
            SenderInput::Hashed { file, hash } => {
                self.rings.iter_mut().for_each(|ring| ring.hashed(file, hash));
            }
            SenderInput::Withdraw { file, reason } => {
                self.rings.iter_mut().for_each(|ring| ring.withdraw(file, &reason));
            }
            SenderInput::Close => self.close(End::Told),
            SenderInput::Local { file, message: Message::Lacking(lacking), .. } => {
                for ring in &mut self.rings {
                    lacking.ranges().for_each(|bytes| ring.report(now, file, &bytes));
                }
            }
            // Nobody is connected to a carousel.
            SenderInput::Joined { .. }
            | SenderInput::Left { .. }
            | SenderInput::Unheard { .. }
            | SenderInput::Message { .. }
            | SenderInput::Local { .. } => {}
        }
    }

    /// Returns what the lane of a group does next. Events come out of [`Lane::Group`] alone.
    pub fn poll(&mut self, now: Instant, lane: Lane) -> Step<SenderTransmit, SenderEvent, SenderWait> {
        let group = match lane {
            Lane::Group => 0,
            Lane::Slower(group) => usize::from(group),
            Lane::Receiver(_) => return Step::Wait(None, SenderWait::Closed),
        };
        loop {
            self.follow_listeners(now);
            if group == 0
                && let Some(event) = self.events.pop_front()
            {
                return Step::Event(event);
            }
            let Some(ring) = self.rings.get_mut(group) else { return Step::Wait(None, SenderWait::Closed) };
            match ring.poll(now) {
                Turn::Transmit(transmit) => return Step::Transmit(transmit),
                Turn::Looped => self.note_loop(group),
                Turn::Wait(_, SenderWait::Closed) if group == 0 && !self.has_told_end => {
                    if self.rings.iter().any(|ring| !ring.is_closed()) {
                        // The slower groups' lanes say Goodbye, too.
                        return Step::Wait(Some(now), SenderWait::Loop);
                    }
                    self.has_told_end = true;
                    self.events.push_back(SenderEvent::Closed);
                }
                Turn::Wait(deadline, why) => {
                    let end = self.ends_at.filter(|_| group == 0);
                    return Step::Wait(deadline.into_iter().chain(end).min(), why);
                }
            }
        }
    }

    /// Lets each group go on while somebody listens to it, and ends when nobody has listened to any for long enough.
    fn follow_listeners(&mut self, now: Instant) {
        if self.end.is_some() {
            return;
        }
        for (ring, is_heard) in self.rings.iter_mut().zip(&self.listeners) {
            ring.listen(now, *is_heard);
        }
        let is_heard = self.listeners.contains(&true);
        if is_heard != self.is_heard {
            self.is_heard = is_heard;
            self.ends_at = (!is_heard).then(|| now + self.config.idle);
            self.events.push_back(if is_heard { SenderEvent::Started } else { SenderEvent::Paused });
        }
        if self.ends_at.is_some_and(|end| now >= end) {
            self.close(End::Unheard);
        }
    }

    /// A group's loop has ended. The fastest group's counts.
    fn note_loop(&mut self, group: usize) {
        let loops = self.rings[group].loops();
        if loops > self.loops {
            self.loops = loops;
            self.events.push_back(SenderEvent::Looped { loops });
        }
        let counted = self.rings[0].counted_loops();
        if self.rings[group].has_nothing() {
            self.close(End::Withdrawn);
        } else if self.config.loops.is_some_and(|most| counted >= most) {
            self.close(End::Loops);
        }
    }

    fn close(&mut self, end: End) {
        self.end.get_or_insert(end);
        self.ends_at = None;
        self.rings.iter_mut().for_each(Ring::close);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use treecast_wire::{
        header::{PacketType, SessionId},
        message::TransferType,
    };

    use super::{
        super::ring::{GOODBYES, SHORTEST_LOOP},
        *,
    };

    const NOW: Instant = Instant::ZERO;
    const HEARD: SenderInput = SenderInput::Listeners { group: 0, present: true };
    const UNHEARD: SenderInput = SenderInput::Listeners { group: 0, present: false };

    fn sender(sizes: &[u64], announce: bool) -> Sender {
        sender_from(0, 0, sizes, announce)
    }

    fn sender_from(start: u64, first_row: u64, sizes: &[u64], announce: bool) -> Sender {
        let change = |config: &mut SenderConfig| {
            (config.start, config.first_row, config.announce) = (start, first_row, announce);
            config.fec = first_row > 0;
        };
        sender_with(change, sizes)
    }

    /// A sender without announcements, but for what `change` changes.
    fn sender_with(change: impl FnOnce(&mut SenderConfig), sizes: &[u64]) -> Sender {
        let mut config = SenderConfig {
            session: SessionId(9),
            max_run_lens: vec![400_000],
            block_len: 1_000,
            fec: false,
            announce: false,
            start: 0,
            first_row: 0,
            has_reports: false,
            idle: Duration::from_secs(5),
            loops: None,
        };
        change(&mut config);
        let begin = |size: &u64| BeginOfFile::new(TransferType::DiskToDisk, *size, "a").expect("a good name");
        Sender::new(config, &sizes.iter().map(begin).collect::<Vec<_>>()).expect("few objects")
    }

    /// The next `count` things sent, as text.
    fn sent(sender: &mut Sender, count: usize) -> Vec<String> {
        let (mut texts, mut now) = (Vec::new(), NOW);
        while texts.len() < count {
            match sender.poll(now, Lane::Group) {
                Step::Transmit(SenderTransmit::Message { file, message, .. }) => {
                    texts.push(format!("{} {:?}", file.index(), message.packet_type()));
                }
                Step::Transmit(SenderTransmit::Blocks { file, range, .. }) => {
                    texts.push(format!("{} {range:?}", file.index()));
                }
                Step::Transmit(SenderTransmit::ChunkHashes { file, pages, .. }) => {
                    texts.push(format!("{} page {}", file.index(), pages.start));
                }
                Step::Transmit(SenderTransmit::Symbols { file, source_block, symbols, .. }) => {
                    texts.push(format!("{} symbols of {source_block} {symbols:?}", file.index()));
                }
                Step::Transmit(SenderTransmit::CloseConnection(_)) => panic!("there is no connection"),
                Step::Event(_) => {}
                Step::Wait(Some(deadline), SenderWait::Loop) => now = deadline,
                Step::Wait(_, wait) => panic!("waits for {wait:?} after {texts:?}"),
            }
        }
        texts
    }

    /// A sender that hears reports, of an index and the object that it is for.
    fn reported_sender() -> Sender {
        let config = SenderConfig { has_reports: true, ..sender(&[1], false).config };
        let begin = |size| BeginOfFile::new(TransferType::DiskToDisk, size, "a").expect("a good name");
        let mut sender =
            Sender::new(config, &[begin(5_000), begin(1_000_000).with_index()]).expect("few objects");
        sender.handle(NOW, HEARD);
        sender
    }

    fn report(sender: &mut Sender, now: Instant, bytes: std::ops::Range<u64>) {
        let from = treecast_wire::message::Member(([10, 0, 0, 1], 7).into());
        let lacking = treecast_wire::message::RetransmissionRequest::new(bytes).expect("some bytes");
        let (file, message) = (FileId::new(SessionId(9), 1), Message::Lacking(lacking.into()));
        sender.handle(now, SenderInput::Local { from, file, message });
    }

    /// The blocks that go out between these moments, in milliseconds.
    fn sent_within(sender: &mut Sender, millis: std::ops::Range<u64>) -> Vec<String> {
        let mut texts = Vec::new();
        for millis in millis.step_by(50) {
            let now = NOW + Duration::from_millis(millis);
            loop {
                match sender.poll(now, Lane::Group) {
                    Step::Transmit(SenderTransmit::Blocks { file, range, .. }) => {
                        texts.push(format!("{} {range:?}", file.index()));
                    }
                    Step::Wait(..) => break,
                    _ => {}
                }
            }
        }
        texts
    }

    #[test]
    fn brings_the_index_and_then_what_receivers_report() {
        let mut sender = reported_sender();
        assert_eq!(sent_within(&mut sender, 0..2_000), ["0 0..5000"]);
        let now = NOW + Duration::from_secs(2);
        report(&mut sender, now, 10_000..12_000);
        report(&mut sender, now, 999_500..1_000_000);
        report(&mut sender, now, 11_000..13_000);
        assert_eq!(sent_within(&mut sender, 2_000..2_600), Vec::<String>::new(), "others may report, too");
        assert_eq!(sent_within(&mut sender, 2_600..9_000), ["1 10000..13000", "1 999000..1000000"]);
        let counted = |sender: &Sender| (sender.loops, sender.rings[0].counted_loops());
        assert_eq!(counted(&sender), (1, 0), "not all have had the time to report");
        report(&mut sender, NOW + Duration::from_secs(11), 0..1_000);
        assert_eq!(sent_within(&mut sender, 11_000..14_000), ["1 0..1000"]);
        assert_eq!(counted(&sender), (2, 1));
    }

    #[test]
    fn brings_everything_when_somebody_listens_and_nobody_reports() {
        let mut sender = reported_sender();
        let whole = ["0 0..5000", "1 0..400000", "1 400000..800000", "1 800000..1000000"];
        assert_eq!(sent_within(&mut sender, 0..9_900), ["0 0..5000"]);
        assert_eq!(sent_within(&mut sender, 9_900..10_400)[..4], whole);
        report(&mut sender, NOW + Duration::from_millis(10_400), 0..1_000);
        let rest = sent_within(&mut sender, 10_400..19_000);
        assert_eq!(rest.last().map(String::as_str), Some("1 0..1000"), "a report stops that");
    }

    #[test]
    fn waits_for_the_first_listener_without_an_end() {
        let mut sender = sender(&[10], true);
        assert_eq!(sender.poll(NOW, Lane::Group), Step::Wait(None, SenderWait::Listener));
        sender.handle(NOW, HEARD);
        assert_eq!(sender.poll(NOW, Lane::Group), Step::Event(SenderEvent::Started));
        assert_eq!(sent(&mut sender, 3), ["0 Contents", "0 BeginOfFile", "0 0..10"]);
    }

    #[test]
    fn announces_an_object_again_and_again_and_loops() {
        let mut sender = sender(&[1_500_000, 0], true);
        sender.handle(NOW, HEARD);
        sender.handle(NOW, SenderInput::Hashed { file: FileId::new(SessionId(9), 1), hash: [1; 32] });
        let first = [
            "1 Digest",
            "0 Contents",
            "0 BeginOfFile",
            "0 0..400000",
            "0 400000..800000",
            "0 800000..1200000",
            "0 Contents",
            "0 BeginOfFile",
            "0 1200000..1500000",
            "0 EndOfFile",
            "1 Contents",
            "1 BeginOfFile",
            "1 Digest",
            "1 EndOfFile",
            "1 Digest",
            "0 Contents",
        ];
        assert_eq!(sent(&mut sender, first.len()), first);
    }

    #[test]
    fn senders_of_one_carousel_begin_at_different_places() {
        let mut sender = sender_from(1_000_000 + 700_500, 0, &[1_000_000, 1_500_000, 0], false);
        sender.handle(NOW, HEARD);
        let one_loop = [
            "1 700000..1100000",
            "1 1100000..1500000",
            "0 0..400000",
            "0 400000..800000",
            "0 800000..1000000",
            "1 0..400000",
            "1 400000..700000",
        ];
        assert_eq!(sent(&mut sender, 7), one_loop);
        let (file, bytes) = next_run(&mut sender);
        assert!(file == 1 && (622_000..700_000).contains(&bytes.start), "a 32nd earlier at most: {bytes:?}");
        assert_eq!(sender.rings[0].loops(), 1);
        sender
            .handle(NOW, SenderInput::Withdraw { file: FileId::new(SessionId(9), 1), reason: "gone".into() });
        let rest = sent(&mut sender, 6);
        assert!(rest.iter().all(|sent| sent.starts_with("0 ")), "it goes round without it: {rest:?}");
    }

    /// The object and the bytes of the next blocks that are sent.
    fn next_run(sender: &mut Sender) -> (u32, std::ops::Range<u64>) {
        let mut now = NOW;
        loop {
            match sender.poll(now, Lane::Group) {
                Step::Transmit(SenderTransmit::Blocks { file, range, .. }) => return (file.index(), range),
                Step::Wait(Some(deadline), SenderWait::Loop) => now = deadline,
                Step::Wait(_, wait) => panic!("waits for {wait:?}"),
                _ => {}
            }
        }
    }

    /// No block has the same place in a period for ever, whatever the period.
    #[test]
    fn each_loop_sends_every_block_and_no_two_keep_step() {
        let change = |config: &mut SenderConfig| config.max_run_lens = vec![45_000];
        let mut sender = sender_with(change, &[1_000_000, 500, 440_000]);
        sender.handle(NOW, HEARD);
        // The number of the packet, from the first one on, that carries each block, by loop.
        let (mut packet, mut places) = (0, vec![Vec::new(); 1_441]);
        while places.iter().any(|places| places.len() < 12) {
            let (file, bytes) = next_run(&mut sender);
            for block in bytes.start / 1_000..bytes.end.div_ceil(1_000) {
                places[[0, 1_000, 1_001][file as usize] + block as usize].push(packet);
                packet += 1;
            }
        }
        assert!(places.iter().all(|places| places.len() <= 13), "each loop has all of them");
        for period in 2..=1_000 {
            let keeps = |places: &Vec<u64>| places.iter().all(|at| at % period == places[0] % period);
            assert!(!places.iter().any(keeps), "one of {period} packets");
        }
    }

    #[test]
    fn one_that_has_a_twin_begins_with_symbols_of_its_own() {
        let mut sender = sender_from(0, 7, &[1_000_000], false);
        sender.handle(NOW, HEARD);
        let first = sent(&mut sender, 3);
        let mut other = sender_from(0, 8, &[1_000_000], false);
        other.handle(NOW, HEARD);
        let others = sent(&mut other, 3);
        assert!(first.iter().chain(&others).all(|sent| sent.starts_with("0 symbols of 0 ")), "{first:?}");
        assert!(first.iter().all(|sent| !others.contains(sent)), "{first:?} {others:?}");
    }

    #[test]
    fn chunk_hashes_go_out_before_their_blocks_once_they_are_known() {
        let mut sender = sender(&[2_000_000], true);
        sender.handle(NOW, HEARD);
        assert!(sent(&mut sender, 9).iter().all(|sent| !sent.contains("page")));
        sender.handle(NOW, SenderInput::Hashed { file: FileId::new(SessionId(9), 0), hash: [1; 32] });
        let rest = sent(&mut sender, 30);
        let begin = rest.iter().position(|sent| sent == "0 0..400000").expect("the second loop");
        assert_eq!(rest[begin - 4..begin], ["0 Contents", "0 BeginOfFile", "0 Digest", "0 page 0"]);
        let second = begin + rest[begin..].iter().position(|sent| sent == "0 page 1").expect("all of them");
        assert_eq!(rest[second + 1], "0 1200000..1600000");
    }

    #[test]
    fn stops_when_nobody_has_listened_for_the_idle_time() {
        let mut sender = sender(&[10], true);
        sender.handle(NOW, HEARD);
        sent(&mut sender, 3);
        sender.handle(NOW, UNHEARD);
        assert_eq!(sender.poll(NOW, Lane::Group), Step::Event(SenderEvent::Paused));
        let deadline = NOW + Duration::from_secs(5);
        assert_eq!(sender.poll(NOW, Lane::Group), Step::Wait(Some(deadline), SenderWait::Listener));
        for _ in 0..GOODBYES {
            let Step::Transmit(SenderTransmit::Message { message, .. }) = sender.poll(deadline, Lane::Group)
            else {
                panic!("it says goodbye");
            };
            assert_eq!(message.packet_type(), PacketType::Goodbye);
        }
        assert_eq!(sender.poll(deadline, Lane::Group), Step::Event(SenderEvent::Closed));
        assert_eq!(sender.poll(deadline, Lane::Group), Step::Wait(None, SenderWait::Closed));
        assert_eq!(sender.end(), Some(End::Unheard));
    }

    #[test]
    fn a_short_loop_is_followed_by_a_pause() {
        let mut sender = sender(&[10], true);
        sender.handle(NOW, HEARD);
        sent(&mut sender, 4);
        let mut last = sender.poll(NOW, Lane::Group);
        while !matches!(last, Step::Wait(..)) {
            last = sender.poll(NOW, Lane::Group);
        }
        let Step::Wait(Some(next), SenderWait::Loop) = last else { panic!("{last:?}") };
        assert!((NOW + SHORTEST_LOOP..=NOW + SHORTEST_LOOP * 3 / 2).contains(&next), "{next}");
        assert!(matches!(sender.poll(next, Lane::Group), Step::Transmit(_)));
    }

    #[test]
    fn a_listener_within_the_idle_time_lets_it_go_on_where_it_was() {
        let mut sender = sender(&[1_000_000], true);
        sender.handle(NOW, HEARD);
        sent(&mut sender, 3);
        sender.handle(NOW, UNHEARD);
        assert_eq!(sender.poll(NOW, Lane::Group), Step::Event(SenderEvent::Paused));
        sender.handle(NOW, HEARD);
        assert_eq!(sender.poll(NOW, Lane::Group), Step::Event(SenderEvent::Started));
        assert_eq!(sent(&mut sender, 1), ["0 400000..800000"]);
    }

    #[test]
    fn a_withdrawn_object_is_said_to_be_and_the_last_one_ends_the_carousel() {
        let mut sender = sender(&[10], true);
        sender.handle(NOW, HEARD);
        sent(&mut sender, 3);
        let file = FileId::new(SessionId(9), 0);
        sender.handle(NOW, SenderInput::Withdraw { file, reason: "it has shrunk".into() });
        let said = ["0 Contents", "0 BeginOfFile", "0 Withdraw", "0 Goodbye"];
        assert_eq!(sent(&mut sender, 6)[..4], said);
        assert_eq!(sender.poll(NOW, Lane::Group), Step::Event(SenderEvent::Closed));
    }

    #[test]
    fn with_forward_error_correction_later_loops_are_symbols_that_nobody_has_had() {
        // Two source blocks of 2,200 blocks.
        let mut sender = sender_with(|config| config.fec = true, &[4_399_999]);
        sender.handle(NOW, HEARD);
        let first = sent(&mut sender, 11);
        assert_eq!((&*first[0], &*first[10]), ("0 0..400000", "0 4000000..4399999"));
        // Numbers of the next symbols of each source block.
        let mut next = [2_200; 2];
        // A twelfth of each source block, and then one, two, four and four more; the next loop goes on behind that.
        for pass in [184, 183, 367, 733, 733, 184, 183] {
            let end = next.map(|next| next + pass);
            while next != end {
                let run = sent(&mut sender, 1).remove(0);
                let words: Vec<&str> = run.split([' ', '.']).collect();
                let [_, _, _, block, first, _, last] = words[..] else { panic!("{run}") };
                let block: usize = block.parse().expect("a source block");
                assert_eq!(first.parse(), Ok(next[block]), "nobody has had it: {run}");
                next[block] = last.parse().expect("a symbol");
                assert!(next[block] <= end[block], "in passes: {run}");
            }
        }
    }

    #[test]
    fn without_announcements_only_blocks_go_out() {
        let mut sender = sender(&[500_000], false);
        sender.handle(NOW, HEARD);
        assert_eq!(sent(&mut sender, 2), ["0 0..400000", "0 400000..500000"]);
        assert!(sent(&mut sender, 9).iter().all(|sent| sent.contains("..")), "and on");
        sender.handle(NOW, SenderInput::Close);
        let mut last = sender.poll(NOW, Lane::Group);
        while let Step::Event(SenderEvent::Looped { .. }) = last {
            last = sender.poll(NOW, Lane::Group);
        }
        assert_eq!(last, Step::Event(SenderEvent::Closed));
    }

    #[test]
    fn nothing_to_send_is_refused() {
        let config = SenderConfig { announce: true, ..sender(&[1], true).config };
        let error = Sender::new(config, &[]).expect_err("no objects");
        assert_eq!(error.to_string(), "objects: 0 found, expected 1 to 65536");
    }

    #[test]
    fn it_ends_after_so_many_loops() {
        let mut sender = sender_with(|config| config.loops = Some(2), &[500_000]);
        sender.handle(NOW, HEARD);
        let (mut bytes, mut told, mut now) = (0, Vec::new(), NOW);
        while told.last() != Some(&SenderEvent::Closed) {
            match sender.poll(now, Lane::Group) {
                Step::Transmit(SenderTransmit::Blocks { range, .. }) => bytes += range.end - range.start,
                Step::Wait(Some(next), SenderWait::Loop) => now = next,
                Step::Event(event) => told.push(event),
                step => panic!("{step:?}"),
            }
        }
        assert_eq!(bytes, 1_000_000);
        let looped = |loops| SenderEvent::Looped { loops };
        assert_eq!(told, [SenderEvent::Started, looped(1), looped(2), SenderEvent::Closed]);
        assert_eq!(sender.end(), Some(End::Loops));
    }

    #[test]
    fn each_group_has_a_loop_of_its_own_while_somebody_listens_to_it() {
        let mut sender = sender_with(|config| config.max_run_lens = vec![400_000, 100_000], &[1_000_000]);
        let slower = Lane::Slower(1);
        sender.handle(NOW, HEARD);
        assert_eq!(sent(&mut sender, 1), ["0 0..400000"]);
        assert_eq!(sender.poll(NOW, slower), Step::Wait(None, SenderWait::Listener));
        sender.handle(NOW, SenderInput::Listeners { group: 1, present: true });
        let Step::Transmit(SenderTransmit::Blocks { to, range, .. }) = sender.poll(NOW, slower) else {
            panic!("it goes on at the other half");
        };
        assert_eq!((to, range), (Destination::Slower(1), 500_000..600_000));
        sender.handle(NOW, UNHEARD);
        assert_eq!(
            sender.poll(NOW, Lane::Group),
            Step::Wait(None, SenderWait::Listener),
            "one group has some"
        );
        sender.handle(NOW, SenderInput::Close);
        assert!(!matches!(sender.poll(NOW, Lane::Group), Step::Event(SenderEvent::Closed)));
        assert_eq!(sender.poll(NOW, slower), Step::Wait(None, SenderWait::Closed));
        assert_eq!(sender.poll(NOW, Lane::Group), Step::Event(SenderEvent::Closed));
    }
}
