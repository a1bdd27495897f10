//! The beacons of a group without I/O: what to send, what is heard, and what the others report.
//!
//! Nothing that comes in makes a beacon send more. Strangers cannot make its memory grow: it remembers
//! [`MAX_OTHERS`] others, and [`MAX_PER_ADDRESS`] of one address.

use std::{
    collections::{BTreeMap, VecDeque},
    net::IpAddr,
    time::Duration,
};

use blake3::Hash;
use treecast_proto::{Instant, Step};
use treecast_wire::beacon::{Beacon, CODE_LEN, MAX_ROWS, Row, Sealed};

use super::{
    heard::Heard,
    matrix::{Matrix, State},
};

/// The largest number of other beacons that one remembers.
pub const MAX_OTHERS: usize = 256;

/// The largest number of these that have one address. Several programs of a host are several beacons.
pub const MAX_PER_ADDRESS: usize = 8;

/// A beacon that was silent for this long is forgotten; for the second time, if others need its place.
const FORGOTTEN: Duration = Duration::from_secs(60);
const REPLACEABLE: Duration = Duration::from_secs(10);

/// A report that is older than this tells nothing.
const REPORT_HOLDS: Duration = Duration::from_secs(5);

/// The time between two looks for changes.
const LOOK: Duration = Duration::from_millis(250);

/// The difference of clocks that a packet with a key may have. An older packet may be one that was recorded.
const MOST_CLOCK_DIFFERENCE_US: u64 = 600_000_000;

const KEY_CONTEXT: &str = "treecast 2026-11 beacon";

/// The secret key that all beacons of a group share. Packets without its code do not count.
#[derive(Clone)]
pub struct Key([u8; 32]);

impl Key {
    /// Reads 64 hexadecimal digits, with white space around them.
    ///
    /// # Errors
    /// If the text is anything else.
    pub fn from_hex(text: &str) -> Result<Self, String> {
        let wrong = |_| "a key is 64 hexadecimal digits, as `openssl rand -hex 32` prints".to_owned();
        let secret = Hash::from_hex(text.trim()).map_err(wrong)?;
        Ok(Self(blake3::derive_key(KEY_CONTEXT, secret.as_bytes())))
    }

    fn code(&self, message: &[u8]) -> [u8; CODE_LEN] {
        *blake3::keyed_hash(&self.0, message).as_bytes().first_chunk().expect("a hash has 32 bytes")
    }

    /// Whether a code is right. Takes as long for each wrong one.
    fn verifies(&self, sealed: &Sealed<'_>) -> bool {
        let expected = blake3::keyed_hash(&self.0, sealed.message);
        let mut claimed = *expected.as_bytes();
        claimed[..CODE_LEN].copy_from_slice(&sealed.code);
        Hash::from_bytes(claimed) == expected
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key")
    }
}

/// Why a packet does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Refusal {
    /// The packet is not a beacon's.
    Malformed,
    /// The packet has no code or a wrong one, or was sent too long ago.
    NotOurs,
    /// Another address has a live beacon with the same number.
    SameNumber,
    /// There are too many beacons, or too many of one address.
    TooMany,
}

impl Refusal {
    /// The name in tables, JSON and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::NotOurs => "not-ours",
            Self::SameNumber => "same-number",
            Self::TooMany => "too-many",
        }
    }
}

/// A beacon hears another one better or worse than before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The names of the beacon that sends, and of the one that hears it.
    pub from: String,
    pub to: String,
    pub state: State,
    /// The share of packets that got lost lately, in thousandths.
    pub loss_permille: u16,
}

/// What a beacon waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// The time for its next packet, or others' packets.
    Packets,
}

/// A beacon that was heard.
#[derive(Debug)]
struct Other {
    name: String,
    address: IpAddr,
    heard: Heard,
    packets: u64,
    rows: BTreeMap<u64, (Instant, Row)>,
}

/// One beacon, and what it knows of the others. Call order: see [`treecast_proto`].
#[derive(Debug)]
pub struct Circle {
    packet: Beacon,
    interval: Duration,
    key: Option<Key>,
    next_packet: Instant,
    next_look: Instant,
    others: BTreeMap<u64, Other>,
    /// The beacon after which the rows of the next packet begin.
    turn: u64,
    told: BTreeMap<(u64, u64), State>,
    changes: VecDeque<Change>,
    refused: BTreeMap<Refusal, u64>,
}

impl Circle {
    /// Creates a beacon that sends `packet`, with new times, numbers and rows, from `now` on.
    pub fn new(now: Instant, packet: Beacon, key: Option<Key>) -> Self {
        Self {
            interval: Duration::from_millis(u64::from(packet.interval_ms.max(1))),
            packet,
            key,
            next_packet: now,
            next_look: now + LOOK,
            others: BTreeMap::new(),
            turn: 0,
            told: BTreeMap::new(),
            changes: VecDeque::new(),
            refused: BTreeMap::new(),
        }
    }

    /// Takes a datagram from `from`, which came with this hop limit at `wall_us` microseconds since 1970.
    pub fn handle(&mut self, now: Instant, wall_us: u64, from: IpAddr, hop_limit: Option<u8>, bytes: &[u8]) {
        if let Err(refusal) = self.take(now, wall_us, from, hop_limit, bytes) {
            *self.refused.entry(refusal).or_default() += 1;
        }
    }

    fn take(
        &mut self,
        now: Instant,
        wall_us: u64,
        from: IpAddr,
        hop_limit: Option<u8>,
        bytes: &[u8],
    ) -> Result<(), Refusal> {
        let (packet, sealed) = Beacon::parse(bytes).map_err(|_| Refusal::Malformed)?;
        if let Some(key) = &self.key {
            let is_sealed = sealed.is_some_and(|sealed| key.verifies(&sealed));
            if !is_sealed || packet.sent_us.abs_diff(wall_us) > MOST_CLOCK_DIFFERENCE_US {
                return Err(Refusal::NotOurs);
            }
        }
        if packet.id == self.packet.id {
            return Ok(());
        }
        match self.others.get_mut(&packet.id) {
            Some(other) if other.address == from => {
                other.heard.take(now, wall_us, &packet, hop_limit);
                other.packets += 1;
            }
            Some(other) if !other.heard.is_silent(now) => return Err(Refusal::SameNumber),
            _ => {
                self.make_room(now, from, packet.id)?;
                let heard = Heard::new(now, wall_us, &packet, hop_limit);
                let name = packet.name().to_owned();
                let other = Other { name, address: from, heard, packets: 1, rows: BTreeMap::new() };
                self.others.insert(packet.id, other);
            }
        }
        self.note_rows(now, &packet);
        Ok(())
    }

    /// Makes room for another beacon. Beacons that are heard keep their places.
    fn make_room(&mut self, now: Instant, address: IpAddr, id: u64) -> Result<(), Refusal> {
        self.others.remove(&id);
        let of_address = self.others.values().filter(|other| other.address == address).count();
        if of_address < MAX_PER_ADDRESS && self.others.len() < MAX_OTHERS {
            return Ok(());
        }
        let is_near = |other: &&Other| of_address < MAX_PER_ADDRESS || other.address == address;
        let silent = self.others.iter().filter(|(_, other)| is_near(other));
        let longest = silent.map(|(id, other)| (other.heard.silence(now), *id)).max();
        match longest.filter(|(silence, _)| *silence > REPLACEABLE) {
            Some((_, longest)) => {
                self.others.remove(&longest);
                Ok(())
            }
            None => Err(Refusal::TooMany),
        }
    }

    fn note_rows(&mut self, now: Instant, packet: &Beacon) {
        let known: Vec<Row> = packet.rows().iter().filter(|row| self.knows(row.id)).copied().collect();
        if let Some(other) = self.others.get_mut(&packet.id) {
            other.rows.retain(|_, (at, _)| now - *at < REPORT_HOLDS);
            other.rows.extend(known.into_iter().map(|row| (row.id, (now, row))));
        }
    }

    fn knows(&self, id: u64) -> bool {
        id == self.packet.id || self.others.contains_key(&id)
    }

    /// The next step; see [`treecast_proto`]. `wall_us`: the time in microseconds since 1970.
    pub fn poll(&mut self, now: Instant, wall_us: u64) -> Step<Vec<u8>, Change, Wait> {
        if self.next_packet <= now {
            self.next_packet += self.interval;
            if self.next_packet <= now {
                // This host was held up. Packets that should have left are not sent all at once.
                self.next_packet = now + self.interval;
            }
            return Step::Transmit(self.emit(now, wall_us));
        }
        if self.next_look <= now {
            self.next_look = now + LOOK;
            self.others.retain(|_, other| other.heard.silence(now) < FORGOTTEN);
            self.look(now);
        }
        match self.changes.pop_front() {
            Some(change) => Step::Event(change),
            None => Step::Wait(Some(self.next_packet.min(self.next_look)), Wait::Packets),
        }
    }

    fn emit(&mut self, now: Instant, wall_us: u64) -> Vec<u8> {
        let rows: Vec<Row> = self.rows(now);
        self.packet.set_rows(rows);
        self.packet.sent_us = wall_us;
        let bytes = match &self.key {
            Some(key) => self.packet.to_sealed_bytes(|message| key.code(message)),
            None => self.packet.to_bytes(),
        };
        self.packet.sequence = self.packet.sequence.wrapping_add(1);
        bytes
    }

    /// What this beacon hears of those whose turn it is.
    fn rows(&mut self, now: Instant) -> Vec<Row> {
        let behind = self.others.range((std::ops::Bound::Excluded(self.turn), std::ops::Bound::Unbounded));
        let ordered = behind.chain(self.others.range(..=self.turn)).filter(|(_, other)| other.is_known());
        let rows: Vec<_> = ordered.take(MAX_ROWS).map(|(id, other)| other.row(now, *id)).collect();
        self.turn = rows.last().map_or(0, |row| row.id);
        rows
    }

    /// Notes each pair that is heard otherwise than it was told last.
    fn look(&mut self, now: Instant) {
        let reports = self.reports(now);
        let mut told = BTreeMap::new();
        for (to, from) in reports.keys().flat_map(|to| reports.keys().map(move |from| (*to, *from))) {
            if to == from {
                continue;
            }
            let row = reports[&to].get(&from);
            let (before, state) = (self.told.get(&(from, to)).copied(), State::of(row));
            // A pair without a report may still be as it was.
            if let (Some(row), true) = (row, before != Some(state)) {
                let loss_permille = row.loss_permille;
                let [from, to] = [from, to].map(|id| self.name(id).to_owned());
                self.changes.push_back(Change { from, to, state, loss_permille });
            }
            let state = if state == State::Unknown { before } else { Some(state) };
            told.extend(state.map(|state| ((from, to), state)));
        }
        self.told = told;
    }

    /// The latest reports: what each beacon hears of each other one, by the number of the one that hears.
    fn reports(&self, now: Instant) -> BTreeMap<u64, BTreeMap<u64, Row>> {
        let known = || self.others.iter().filter(|(_, other)| other.is_known());
        let own = known().map(|(id, other)| (*id, other.row(now, *id))).collect();
        let mut reports = BTreeMap::from([(self.packet.id, own)]);
        for (id, other) in known() {
            let is_fresh = |at: Instant| now - at < REPORT_HOLDS && !other.heard.is_silent(now);
            let rows = other.rows.iter().filter(|(_, (at, _))| is_fresh(*at));
            reports.insert(*id, rows.map(|(of, (_, row))| (*of, *row)).collect());
        }
        reports
    }

    fn name(&self, id: u64) -> &str {
        self.others.get(&id).map_or(self.packet.name(), |other| &other.name)
    }

    /// What every beacon hears of every other one, as far as it is known here.
    pub fn matrix(&self, now: Instant) -> Matrix {
        let known = self.others.iter().filter(|(_, other)| other.is_known());
        let totals = |other: &Other| {
            let Heard { received, lost, duplicates, .. } = other.heard;
            [received, lost, duplicates]
        };
        let others = known.map(|(id, other)| (*id, other.name.clone(), other.address, totals(other)));
        let refused = self.refused.iter().map(|(reason, count)| (reason.name(), *count)).collect();
        Matrix::new((self.packet.id, self.packet.name()), others.collect(), &self.reports(now), refused)
    }
}

impl Other {
    /// Whether more than one packet has come. A stranger's single packet is not worth a row.
    fn is_known(&self) -> bool {
        self.packets > 1
    }

    fn row(&self, now: Instant, id: u64) -> Row {
        Row {
            id,
            loss_permille: self.heard.loss_permille(now),
            one_way_us: self.heard.one_way_us(now),
            hops: self.heard.hops(),
            duplicates_permille: self.heard.duplicates_permille(now),
        }
    }
}
