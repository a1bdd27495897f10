//! Checks of the network between hosts: the doctor's findings of each, and a matrix of which host hears which
//! (lgmp-mbone-1999, 4.1 and 4.4).
//!
//! A check is a question to many hosts whose answers are read here. Delays are measured by the clocks of two hosts. Both are known to be
//! so far from the manager's, and delays are corrected by that.

use std::{
    collections::{BTreeMap, HashMap},
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    time::Duration,
};

use rusqlite::{OptionalExtension, Row, params};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;
use utoipa::ToSchema;

use super::{
    asks::{self, Answer},
    hosts::{ClockError, Host},
    hub::{Hub, HubError},
    store::StoreError,
};
use crate::message::{Program, Start, Work, read, text_of};

/// The most hosts of one matrix: a beacon's line about more would be cut.
const MAX_BEACONS: usize = 200;
/// The shortest and the longest time of a matrix, in seconds.
const SECONDS: std::ops::RangeInclusive<u32> = 3..=60;
/// The UDP port of the beacons.
const PORT: u16 = 4247;
/// The share of lost packets from which on a host is said to hear another one badly.
const LOSSY: f64 = 0.05;
/// The longest time of a host's doctor.
const DOCTOR_TIME: Duration = Duration::from_secs(60);
/// The time that beacons have to start and to tell, beside that for which they run.
const BEACON_SPARE: Duration = Duration::from_secs(10);

/// What is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
#[schema(as = CheckKind)]
pub enum Kind {
    /// What hinders multicast at each host.
    Doctor,
    /// Which host hears which.
    Beacon,
}

/// A check that is wanted.
#[derive(Debug, Clone, Deserialize, ToSchema)]
pub struct NewCheck {
    pub kind: Kind,
    pub select: String,
    /// How long beacons run.
    #[serde(default = "ten")]
    pub seconds: u32,
    /// The group of the beacons. `None`: a random one of the family that all hosts have.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    pub group: Option<SocketAddr>,
}

fn ten() -> u32 {
    10
}

/// What is kept of a check beside the answers.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct About {
    kind: Kind,
    seconds: u32,
    group: Option<SocketAddr>,
    /// The hosts by the names of their beacons.
    names: BTreeMap<String, String>,
    /// The hosts' clocks, as they were when the check began.
    clocks: BTreeMap<String, ClockError>,
}

/// A check, as its users see it.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = Check)]
pub struct CheckView {
    pub id: i64,
    pub kind: Kind,
    pub select: String,
    pub who: String,
    pub asked_ms: u64,
    pub seconds: u32,
    #[schema(value_type = Option<String>, required)]
    pub group: Option<SocketAddr>,
    pub is_over: bool,
    pub hosts: Vec<CheckedHost>,
    /// What each host hears of each other one. Empty for a doctor's check, and while one of beacons goes on.
    pub pairs: Vec<Pair>,
}

/// A host of a check.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct CheckedHost {
    pub host: String,
    pub is_over: bool,
    /// The reason why it has told nothing.
    #[schema(required)]
    pub failure: Option<String>,
    pub findings: Vec<Finding>,
}

/// What a doctor has found at its host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = DoctorFinding)]
pub struct Finding {
    pub kind: String,
    /// problem or remark
    pub level: String,
    pub seen: String,
    /// What to do about it.
    pub todo: String,
}

/// How well one host hears another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum PairState {
    Well,
    Lossy,
    Silent,
    /// The host that listens has told nothing.
    Unknown,
}

/// What one host hears of another.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct Pair {
    pub from: String,
    pub to: String,
    pub state: PairState,
    /// The share of packets that were lost, from 0 to 1.
    #[schema(required)]
    pub loss: Option<f64>,
    /// The time from sending to arrival in milliseconds, corrected by the clocks of both, and the largest error of that.
    #[schema(required)]
    pub delay_ms: Option<f64>,
    #[schema(required)]
    pub uncertainty_ms: Option<f64>,
    /// The number of routers on the way.
    #[schema(required)]
    pub hops: Option<u64>,
    /// The number of packets that came a second time.
    pub duplicates: u64,
}

/// The reason why nothing is checked.
#[derive(Debug, Error)]
pub enum CheckError {
    #[error(transparent)]
    Hub(#[from] HubError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("{0}")]
    Wrong(String),
    #[error("there is no check {0}")]
    Missing(i64),
}

/// Begins a check. Returns its number.
///
/// # Errors
/// What is wrong with it.
pub async fn begin(hub: &Hub, who: &str, new: NewCheck) -> Result<i64, CheckError> {
    let hosts = hub.select_some(&new.select).await?;
    if new.kind == Kind::Beacon {
        check_beacons(&new, hosts.len())?;
    }
    let group = match (new.kind, new.group) {
        (Kind::Doctor, _) => None,
        (Kind::Beacon, Some(group)) => Some(group),
        (Kind::Beacon, None) => Some(any_group(&hosts)?),
    };
    let about = About {
        kind: new.kind,
        seconds: new.seconds,
        group,
        names: hosts.iter().map(|host| (beacon_name(host), host.name.clone())).collect(),
        clocks: hosts.iter().filter_map(|host| Some((host.name.clone(), host.clock?))).collect(),
    };
    let many = hosts.len();
    let work_of = |host: &Host| match group {
        None => work(["doctor", "--json"].map(str::to_owned).into(), DOCTOR_TIME),
        Some(group) => {
            let limit = Duration::from_secs(u64::from(new.seconds)) + BEACON_SPARE;
            work(beacon(host, group, new.seconds, many), limit)
        }
    };
    let text = text_of(&about);
    let id = asks::ask_each(hub, who, (&new.select, text.clone()), &hosts, work_of).await?;
    let insert = "INSERT INTO checks (ask, about) VALUES (?1, ?2)";
    hub.store.with(move |of| of.execute(insert, params![id, text])).await?;
    Ok(id)
}

fn check_beacons(new: &NewCheck, hosts: usize) -> Result<(), CheckError> {
    if !(2..=MAX_BEACONS).contains(&hosts) {
        return Err(CheckError::Wrong(format!(
            "a matrix has 2 to {MAX_BEACONS} hosts, and {hosts} are selected"
        )));
    }
    if !SECONDS.contains(&new.seconds) {
        return Err(CheckError::Wrong(format!("seconds: from {} to {}", SECONDS.start(), SECONDS.end())));
    }
    match new.group.is_none_or(|group| group.ip().is_multicast() && group.port() > 0) {
        true => Ok(()),
        false => {
            Err(CheckError::Wrong("group: a multicast group with its port, like [ff15::42]:5000".into()))
        }
    }
}

/// Returns the name of a host's beacon. Names of hosts may be longer than those of beacons.
fn beacon_name(host: &Host) -> String {
    format!("host-{}", host.id)
}

/// Draws a group of the family that all hosts have, so that beacons of two checks do not hear each other.
fn any_group(hosts: &[Host]) -> Result<SocketAddr, CheckError> {
    let [a, b, c, d] = treecast_driver::security::random()
        .map_err(|error| CheckError::Wrong(format!("no random group: {error}")))?;
    let has_ipv6 = |host: &Host| {
        let own = host.facts.interfaces.iter().find(|of| of.name == host.facts.interface);
        own.is_some_and(|own| own.addresses.iter().any(std::net::IpAddr::is_ipv6))
    };
    Ok(match hosts.iter().all(has_ipv6) {
        true => {
            let [high, low] = [u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])];
            SocketAddr::new(Ipv6Addr::new(0xff15, 0, 0, 0, 0, 0x7465, high, low).into(), PORT)
        }
        // The range of one organization (RFC 2365).
        false => SocketAddr::new(Ipv4Addr::new(239, 192 | (a & 3), b, c).into(), PORT),
    })
}

fn beacon(host: &Host, group: SocketAddr, seconds: u32, many: usize) -> Vec<String> {
    let rate = if many <= 100 { "10" } else { "5" };
    let words = ["doctor", "beacon", "--json", "--own", "--rate", rate, "--group"].map(str::to_owned);
    let mut words: Vec<String> = words.into();
    words.extend([
        group.to_string(),
        "--seconds".into(),
        seconds.to_string(),
        "--name".into(),
        beacon_name(host),
    ]);
    if !host.facts.interface.is_empty() {
        words.extend(["--interface".to_owned(), host.facts.interface.clone()]);
    }
    words
}

fn work(arguments: Vec<String>, limit: Duration) -> Work {
    Work::Start(Start {
        program: Program::Treecast,
        arguments,
        folder: None,
        at_ns: None,
        limit_ms: limit.as_millis() as u64,
        has_input: false,
    })
}

const SELECT: &str =
    "SELECT checks.ask, selection, who, asked, about FROM checks JOIN asks ON asks.id = checks.ask";

fn row(row: &Row) -> rusqlite::Result<(CheckView, Option<About>)> {
    let about: Option<About> = read(&row.get::<_, String>(4)?).ok();
    let view = CheckView {
        id: row.get(0)?,
        select: row.get(1)?,
        who: row.get(2)?,
        asked_ms: row.get(3)?,
        kind: about.as_ref().map_or(Kind::Doctor, |about| about.kind),
        seconds: about.as_ref().map_or(0, |about| about.seconds),
        group: about.as_ref().and_then(|about| about.group),
        is_over: false,
        hosts: Vec::new(),
        pairs: Vec::new(),
    };
    Ok((view, about))
}

/// Returns all checks without what they have found, the latest first.
///
/// # Errors
/// If the database fails.
pub async fn all(hub: &Hub) -> Result<Vec<CheckView>, StoreError> {
    let query = format!("{SELECT} ORDER BY checks.ask DESC LIMIT 100");
    let rows =
        hub.store.with(move |of| of.prepare(&query)?.query_map([], row)?.collect::<Result<Vec<_>, _>>());
    Ok(rows.await?.into_iter().map(|(view, _)| view).collect())
}

/// Returns what a check has found so far.
///
/// # Errors
/// If there is none of this number.
pub async fn one(hub: &Hub, id: i64) -> Result<CheckView, CheckError> {
    let query = format!("{SELECT} WHERE checks.ask = ?1");
    let found = hub.store.with(move |of| of.query_row(&query, [id], row).optional()).await?;
    let (view, about) = found.ok_or(CheckError::Missing(id))?;
    let answers = asks::answers(hub, id).await?.unwrap_or_default();
    let is_over = answers.iter().all(|answer| answer.is_over);
    let hosts = answers.iter().map(|answer| checked(view.kind, answer)).collect();
    let pairs = match (view.kind, about) {
        (Kind::Beacon, Some(about)) if is_over => pairs(&about, &answers),
        _ => Vec::new(),
    };
    Ok(CheckView { is_over, hosts, pairs, ..view })
}

/// Reads what a host has told.
fn checked(kind: Kind, answer: &Answer) -> CheckedHost {
    let event = if kind == Kind::Doctor { "doctor" } else { "matrix" };
    let told = last(answer, event);
    let findings = told.as_ref().and_then(|told| serde_json::from_value(told["findings"].clone()).ok());
    let failure = answer.failure.clone().or_else(|| {
        let ended = answer.end.as_ref().filter(|_| told.is_none())?;
        Some(ended.last.clone().unwrap_or_else(|| "its program has told nothing".to_owned()))
    });
    CheckedHost {
        host: answer.host.clone(),
        is_over: answer.is_over,
        failure,
        findings: findings.unwrap_or_default(),
    }
}

/// Returns the last event of a kind that a host's program has told.
fn last(answer: &Answer, event: &str) -> Option<Value> {
    let events = answer.lines.iter().rev().filter_map(|line| read::<Value>(line).ok());
    events.into_iter().find(|told| told["event"] == event)
}

/// Makes the matrix of what each host has heard.
fn pairs(about: &About, answers: &[Answer]) -> Vec<Pair> {
    let heard: HashMap<&str, Option<Value>> =
        answers.iter().map(|answer| (answer.host.as_str(), last(answer, "matrix"))).collect();
    let mut pairs = Vec::new();
    for (to_beacon, to) in &about.names {
        let told = heard.get(to.as_str()).and_then(Option::as_ref);
        let heard = told.map(|told| {
            let seen = items(told, "seen").filter(|seen| seen["to"] == **to_beacon);
            (by_name(items(told, "beacons"), "name"), by_name(seen, "from"))
        });
        for (from_beacon, from) in about.names.iter().filter(|(_, from)| *from != to) {
            let clocks = [from, to].map(|host| about.clocks.get(host).copied());
            let pair = heard.as_ref().map(|(beacons, seen)| {
                let of = |map: &HashMap<&str, &Value>| {
                    map.get(from_beacon.as_str()).map_or(Value::Null, |entry| (*entry).clone())
                };
                Pair::read(&of(beacons), &of(seen), clocks)
            });
            pairs.push(Pair { from: from.clone(), to: to.clone(), ..pair.unwrap_or(Pair::UNKNOWN) });
        }
    }
    pairs.sort_by(|one, other| (&one.to, &one.from).cmp(&(&other.to, &other.from)));
    pairs
}

/// Returns the entries of a list in what a beacon tells.
fn items<'v>(told: &'v Value, list: &str) -> impl Iterator<Item = &'v Value> {
    told[list].as_array().into_iter().flatten()
}

/// Returns entries by a name that each of them has.
fn by_name<'v>(entries: impl Iterator<Item = &'v Value>, key: &str) -> HashMap<&'v str, &'v Value> {
    entries.filter_map(|entry| Some((entry[key].as_str()?, entry))).collect()
}

impl Pair {
    const UNKNOWN: Pair = Pair {
        from: String::new(),
        to: String::new(),
        state: PairState::Unknown,
        loss: None,
        delay_ms: None,
        uncertainty_ms: None,
        hops: None,
        duplicates: 0,
    };

    /// Reads what one beacon tells of another: packets since the first one, and the last two seconds. The clocks are those of the host
    /// that sends and of the one that hears.
    fn read(known: &Value, seen: &Value, clocks: [Option<ClockError>; 2]) -> Self {
        let count = |key: &str| known[key].as_u64().unwrap_or(0);
        let (received, lost) = (count("received"), count("lost"));
        if received == 0 {
            return Self { state: PairState::Silent, loss: Some(1.0), ..Self::UNKNOWN };
        }
        let loss = lost as f64 / (lost + received) as f64;
        let one_way_ms = seen["one_way_us"].as_f64().map(|time| time / 1e3);
        // The sender's clock says when a packet left, and the receiver's when it came.
        let corrected = one_way_ms.zip(clocks[0].zip(clocks[1])).map(|(time, (from, to))| {
            (time + from.ahead_ms - to.ahead_ms, from.uncertainty_ms + to.uncertainty_ms)
        });
        Self {
            state: if loss >= LOSSY { PairState::Lossy } else { PairState::Well },
            loss: Some(loss),
            delay_ms: corrected.map(|(delay, _)| delay),
            uncertainty_ms: corrected.map(|(_, uncertainty)| uncertainty),
            hops: seen["hops"].as_u64(),
            duplicates: count("duplicates"),
            ..Self::UNKNOWN
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn answer(host: &str, lines: &[Value]) -> Answer {
        let lines = lines.iter().map(Value::to_string).collect();
        Answer { host: host.into(), lines, is_over: true, ..Answer::default() }
    }

    fn matrix(to: &str, heard: &[(&str, u64, u64, i64)]) -> Value {
        let beacons = heard.iter().map(
            |(name, received, lost, _)| json!({ "name": name, "received": received, "lost": lost, "duplicates": 0 }),
        );
        let seen = heard
            .iter()
            .map(|(from, _, _, one_way)| json!({ "from": from, "to": to, "one_way_us": one_way, "hops": 2 }));
        json!({ "event": "matrix", "beacons": beacons.collect::<Vec<_>>(), "seen": seen.collect::<Vec<_>>() })
    }

    #[test]
    fn delays_are_corrected_by_both_clocks_and_what_is_not_told_is_unknown() {
        let clock = |ahead_ms| ClockError { ahead_ms, uncertainty_ms: 0.2 };
        let about = About {
            kind: Kind::Beacon,
            seconds: 10,
            group: None,
            names: [("host-1", "a"), ("host-2", "b"), ("host-3", "c")]
                .map(|(beacon, host)| (beacon.to_owned(), host.to_owned()))
                .into(),
            clocks: [("a".to_owned(), clock(100.0)), ("b".to_owned(), clock(-50.0))].into(),
        };
        // The clock of `a` is 150 ms ahead of that of `b`: a packet of 3 ms seems to arrive before it has left.
        let answers = [
            answer(
                "a",
                &[
                    json!({ "event": "ready" }),
                    matrix("host-1", &[("host-2", 95, 5, 153_000), ("host-3", 99, 1, 0)]),
                ],
            ),
            answer("b", &[matrix("host-2", &[("host-1", 100, 0, -147_000)])]),
            answer("c", &[]),
        ];
        let pairs = pairs(&about, &answers);
        let of = |from: &str, to: &str| pairs.iter().find(|pair| pair.from == from && pair.to == to).unwrap();
        let delay = |from, to| (of(from, to).delay_ms.unwrap() * 1e3).round() / 1e3;
        assert_eq!((delay("a", "b"), delay("b", "a")), (3.0, 3.0));
        assert_eq!(of("a", "b").uncertainty_ms, Some(0.4));
        assert_eq!((of("b", "a").state, of("b", "a").loss), (PairState::Lossy, Some(0.05)));
        assert_eq!(
            (of("c", "a").state, of("c", "a").delay_ms),
            (PairState::Well, None),
            "nobody knows the clock of c"
        );
        assert_eq!((of("c", "b").state, of("c", "b").loss), (PairState::Silent, Some(1.0)));
        assert_eq!((of("a", "c").state, of("a", "c").loss), (PairState::Unknown, None));
        assert_eq!(pairs.len(), 6);
    }

    #[test]
    fn a_doctor_tells_findings_or_why_not() {
        let finding = json!({ "kind": "no-querier", "level": "problem", "seen": "nobody asks", "todo": "turn one on",
                              "blame": { "who": "network" }, "advice": "one-lan" });
        let told = answer("a", &[json!({ "event": "doctor", "findings": [finding] })]);
        let checked_a = checked(Kind::Doctor, &told);
        assert_eq!((checked_a.findings[0].kind.as_str(), checked_a.failure), ("no-querier", None));
        let end = crate::message::End { last: Some("no interface".into()), ..Default::default() };
        let failed = Answer { end: Some(end), ..answer("b", &[]) };
        assert_eq!(checked(Kind::Doctor, &failed).failure.unwrap(), "no interface");
    }
}
