//! The matrix of all beacons: what each hears of each other one.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
    net::IpAddr,
};

use serde::Serialize;
use treecast_wire::beacon::{ALL_PERMILLE, Row};

/// The share of lost packets, in thousandths, from which on a beacon is said to hear another one badly.
const LOSSY_PERMILLE: u16 = 50;

/// How a beacon hears another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    Well,
    /// 5 % of the packets or more get lost.
    Lossy,
    /// No packet comes any more.
    Silent,
    /// There is no report.
    Unknown,
}

impl State {
    /// The state that a report says.
    pub(super) fn of(row: Option<&Row>) -> Self {
        match row.map(|row| row.loss_permille) {
            None => Self::Unknown,
            Some(ALL_PERMILLE) => Self::Silent,
            Some(loss) if loss >= LOSSY_PERMILLE => Self::Lossy,
            Some(_) => Self::Well,
        }
    }
}

/// What all beacons hear, as one of them knows it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Matrix {
    /// The beacons, this one first, then by name.
    pub beacons: Vec<Known>,
    /// One entry for each pair.
    pub seen: Vec<Seen>,
    /// The number of packets that did not count, by reason.
    pub refused: BTreeMap<&'static str, u64>,
}

/// A beacon.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Known {
    /// The name. If several beacons have the same one, each has a part of its number behind it.
    pub name: String,
    /// The address that its packets come from. `None`: it is this beacon.
    pub address: Option<IpAddr>,
    /// Packets of it that this beacon has received, lost, and received twice since the first one.
    pub received: u64,
    pub lost: u64,
    pub duplicates: u64,
    #[serde(skip)]
    id: u64,
}

/// What one beacon hears of another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Seen {
    /// The beacon that sends.
    pub from: String,
    /// The beacon that hears it, or not.
    pub to: String,
    pub state: State,
    /// The share of packets that got lost in the last two seconds, in thousandths.
    pub loss_permille: Option<u16>,
    /// Half of the time there and back in microseconds, which needs no equal clocks.
    pub latency_us: Option<i64>,
    /// Time from sending to arrival in microseconds, by both clocks.
    pub one_way_us: Option<i32>,
    /// The number of routers on the way.
    pub hops: Option<u8>,
    /// The number of second copies for each thousand packets.
    pub duplicates_permille: Option<u16>,
}

/// A beacon that is heard: number, name, address, and totals.
type Other = (u64, String, IpAddr, [u64; 3]);

impl Matrix {
    /// Makes the matrix of what each beacon reports, by the beacon that hears and the one that is heard.
    pub(super) fn new(
        own: (u64, &str),
        mut others: Vec<Other>,
        rows: &BTreeMap<u64, BTreeMap<u64, Row>>,
        refused: BTreeMap<&'static str, u64>,
    ) -> Self {
        others.sort_by(|one, other| (&one.1, one.0).cmp(&(&other.1, other.0)));
        let own =
            Known { name: own.1.to_owned(), address: None, received: 0, lost: 0, duplicates: 0, id: own.0 };
        let others = others.into_iter().map(|(id, name, address, [received, lost, duplicates])| Known {
            name,
            address: Some(address),
            received,
            lost,
            duplicates,
            id,
        });
        let mut beacons: Vec<_> = [own].into_iter().chain(others).collect();
        tell_apart(&mut beacons);
        let row = |to: u64, from: u64| rows.get(&to).and_then(|rows| rows.get(&from));
        let pairs = beacons.iter().flat_map(|to| beacons.iter().map(move |from| (from, to)));
        let seen = pairs
            .filter(|(from, to)| from.id != to.id)
            .map(|(from, to)| Seen::new(from, to, row(to.id, from.id), row(from.id, to.id)));
        Self { seen: seen.collect(), beacons, refused }
    }

    /// The entry of a pair, by the places of both in the list of beacons.
    pub fn of(&self, from: usize, to: usize) -> Option<&Seen> {
        let column = if from < to { from } else { from.checked_sub(1)? };
        let columns = self.beacons.len().checked_sub(1)?;
        self.seen.get(to * columns + column).filter(|_| from != to && from < self.beacons.len())
    }
}

impl Seen {
    /// Whether a beacon does not hear another one as it should.
    pub fn is_bad(&self) -> bool {
        matches!(self.state, State::Lossy | State::Silent)
    }

    fn new(from: &Known, to: &Known, row: Option<&Row>, back: Option<&Row>) -> Self {
        let one_way_us = row.and_then(|row| row.one_way_us);
        let there_and_back = one_way_us.zip(back.and_then(|back| back.one_way_us));
        Self {
            from: from.name.clone(),
            to: to.name.clone(),
            state: State::of(row),
            loss_permille: row.map(|row| row.loss_permille),
            latency_us: there_and_back.map(|(there, back)| (i64::from(there) + i64::from(back)) / 2),
            one_way_us,
            hops: row.and_then(|row| row.hops),
            duplicates_permille: row.map(|row| row.duplicates_permille),
        }
    }
}

/// Adds a part of the number to names that several beacons have.
fn tell_apart(beacons: &mut [Known]) {
    let mut names = BTreeSet::new();
    let twice: BTreeSet<String> =
        beacons.iter().filter(|known| !names.insert(known.name.clone())).map(|it| it.name.clone()).collect();
    for known in beacons.iter_mut().filter(|known| twice.contains(&known.name)) {
        let _ = write!(known.name, "~{:08x}", known.id >> 32);
    }
}
