//! Lists of a session's receivers: their order, and their rows for people (a table) and for programs (CSV and JSON).

use std::cmp::Ordering;

use clap::ValueEnum;
use serde_json::{Value, json};
use treecast::unstable::watch::{CommandOutcome, Hindrance, ReceiverProgress, ReceiverState, Standing, Sums};
use treecast_measure::csv::Csv;

use crate::{
    arguments::counted,
    figures::{percent, rate, time},
    output,
};

/// The columns of a list for programs. Those that are not fields of a receiver are added by [`record`].
const COLUMNS: [&str; 30] = [
    "session",
    "receiver",
    "state",
    "progress",
    "bytes",
    "wanted_bytes",
    "now_bps",
    "loss",
    "retransmitted_bytes",
    "requests",
    "dropped_packets",
    "duplicate_blocks",
    "objects",
    "not_wanted",
    "missed",
    "failed",
    "failure",
    "hears_nothing",
    "connected",
    "group_number",
    "way",
    "silent_seconds",
    "seconds_left",
    "ended_seconds",
    "why",
    "left",
    "command_code",
    "command_line",
    "address",
    "key",
];

/// The longest name and the longest reason in a table, in characters.
const NAME_WIDTH: usize = 24;
const REASON_WIDTH: usize = 48;

/// What decides the order of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Key {
    Worst,
    Name,
    State,
    Progress,
    Rate,
    Loss,
    Left,
    Silent,
}

/// The order of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Order {
    key: Key,
    is_reversed: bool,
}

impl Default for Order {
    fn default() -> Self {
        Self { key: Key::Worst, is_reversed: false }
    }
}

impl Order {
    /// Parses a key, which has `-` before it for the other direction.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (name, is_reversed) = text.strip_prefix('-').map_or((text, false), |name| (name, true));
        let key = Key::from_str(name, true).map_err(|_| {
            let keys = Key::value_variants().iter().filter_map(Key::to_possible_value);
            let names: Vec<_> = keys.map(|key| key.get_name().to_owned()).collect();
            format!("expected one of {}, or one with - before it", names.join(", "))
        })?;
        Ok(Self { key, is_reversed })
    }

    /// The same order, or the other direction of it.
    pub fn turned(self, turns: bool) -> Self {
        Self { is_reversed: self.is_reversed != turns, ..self }
    }

    pub fn sort(self, receivers: &mut [&ReceiverProgress]) {
        // Rates and times are of those that go on. So these are the first, whatever the direction.
        let is_of_those = matches!(self.key, Key::Rate | Key::Left | Key::Silent);
        let is_last = |receiver: &ReceiverProgress| is_of_those && receiver.standing != Standing::Busy;
        receivers.sort_by(|one, other| {
            let order = self.compare(one, other);
            is_last(one).cmp(&is_last(other)).then(if self.is_reversed { order.reverse() } else { order })
        });
    }

    fn compare(self, one: &ReceiverProgress, other: &ReceiverProgress) -> Ordering {
        let left = |receiver: &ReceiverProgress| receiver.seconds_left.unwrap_or(f64::INFINITY);
        let by_key = match self.key {
            Key::Worst => Ordering::Equal,
            Key::Name => in_parts(&one.name).cmp(&in_parts(&other.name)),
            Key::State => one.state().cmp(&other.state()),
            Key::Progress => one.share().total_cmp(&other.share()),
            Key::Rate => one.now_bps.cmp(&other.now_bps),
            Key::Loss => loss(other).total_cmp(&loss(one)),
            Key::Left => left(other).total_cmp(&left(one)),
            Key::Silent => other.silent_seconds.total_cmp(&one.silent_seconds),
        };
        by_key.then_with(|| one.worst_first(other))
    }
}

/// The parts of a name: text, and numbers by their value, so that lab2 stands before lab10.
fn in_parts(name: &str) -> Vec<(&str, u64)> {
    let mut parts = Vec::new();
    let mut rest = name;
    while !rest.is_empty() {
        let text = &rest[..rest.find(|letter: char| letter.is_ascii_digit()).unwrap_or(rest.len())];
        rest = &rest[text.len()..];
        let digits = &rest[..rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len())];
        rest = &rest[digits.len()..];
        parts.push((text, digits.parse().unwrap_or(u64::MAX)));
    }
    parts
}

/// What was sent to a receiver again, as a share of what it has.
fn loss(receiver: &ReceiverProgress) -> f64 {
    match receiver.retransmitted_bytes {
        0 => 0.0,
        again => again as f64 / receiver.received_bytes.max(1) as f64,
    }
}

/// The word for a state.
pub(crate) fn word(state: ReceiverState) -> &'static str {
    match state {
        ReceiverState::Failed => "failed",
        ReceiverState::Gone => "gone",
        ReceiverState::Waiting => "waiting",
        ReceiverState::Receiving => "receiving",
        _ => "done",
    }
}

/// Counts the receivers by their state: "1000 receivers: 3 failed, 997 receiving; 2 on TCP".
pub(crate) fn counts(all: usize, sums: &Sums) -> String {
    let states = [
        (sums.receivers_failed, "failed"),
        (sums.receivers_gone, "gone"),
        (sums.receivers_waiting, "waiting"),
        (sums.receivers_receiving, "receiving"),
        (sums.receivers_done, "done"),
    ];
    let told = states.iter().filter(|(count, _)| *count > 0);
    let told: Vec<_> = told.map(|(count, word)| format!("{count} {word}")).collect();
    let on_tcp = match sums.receivers_on_tcp {
        0 => String::new(),
        count => format!("; {count} on TCP"),
    };
    let colon = if told.is_empty() { "" } else { ": " };
    format!("{}{colon}{}{on_tcp}", counted(all, "receiver"), told.join(", "))
}

/// A table of receivers for people.
pub(crate) fn as_table(receivers: &[&ReceiverProgress]) -> String {
    let rows: Vec<[String; 7]> = receivers
        .iter()
        .map(|receiver| {
            let goes_on = receiver.standing == Standing::Busy;
            let now = receiver.now_bps.filter(|_| goes_on);
            [
                cut(&receiver.name, NAME_WIDTH),
                word(receiver.state()).to_owned(),
                format!("{} %", (receiver.share() * 100.0) as u64),
                now.map_or_else(|| "-".to_owned(), |now| rate(Some(now))),
                percent(loss(receiver)),
                receiver.seconds_left.filter(|_| goes_on).map_or_else(|| "-".to_owned(), time),
                cut(&reason(receiver), REASON_WIDTH),
            ]
        })
        .collect();
    let rows: Vec<[&str; 7]> = rows.iter().map(|row| row.each_ref().map(String::as_str)).collect();
    output::table(&["receiver", "state", "has", "rate", "again", "left", "why"], &rows)
}

/// A text for one cell of a table.
fn cut(text: &str, width: usize) -> String {
    let text = output::in_one_line(text);
    match text.chars().count() > width {
        true => text.chars().take(width - 3).chain("...".chars()).collect(),
        false => text,
    }
}

/// Why a receiver is where it is. Empty if there is nothing to say.
fn reason(receiver: &ReceiverProgress) -> String {
    let files = |count: u64| counted(count as usize, "file");
    if receiver.failed > 0 {
        let why = receiver.failures.first().map_or_else(String::new, |(_, why)| format!(": {why}"));
        return format!("lacks {}{why}", files(receiver.failed));
    }
    if let Some(left) = &receiver.left {
        return left.clone();
    }
    if receiver.command.as_ref().is_some_and(|command| !command.is_good()) {
        return "its command failed".to_owned();
    }
    // The figures of a reason do not come over the status socket.
    match receiver.why {
        Some(Hindrance::Silent(_)) => format!("silent for {:.0} s", receiver.silent_seconds),
        Some(Hindrance::Disk(_)) => "slow disk".to_owned(),
        Some(Hindrance::Buffer(_)) => "too slow: its kernel drops packets".to_owned(),
        Some(Hindrance::Loss(_)) => "loses packets".to_owned(),
        Some(why) => why.to_string(),
        None if receiver.objects_missed > 0 => format!("not told of {}", files(receiver.objects_missed)),
        None if receiver.hears_nothing => "hears no UDP packets: all came over TCP".to_owned(),
        None => String::new(),
    }
}

/// A receiver for programs: its fields, and what lists add to them.
pub(crate) fn record(session: &str, receiver: &ReceiverProgress) -> Value {
    let mut record = json!(receiver);
    record["session"] = session.into();
    record["state"] = word(receiver.state()).into();
    record["progress"] = rounded(receiver.share());
    record["loss"] = rounded(loss(receiver));
    record
}

/// A share with four places.
fn rounded(share: f64) -> Value {
    ((share * 10_000.0).floor() / 10_000.0).into()
}

/// A list as comma-separated values, to which receivers are added.
pub(crate) struct CsvList(Csv);

impl CsvList {
    pub fn new() -> Self {
        Self(Csv::new(&COLUMNS))
    }

    pub fn add(&mut self, session: &str, receiver: &ReceiverProgress) {
        let mut record = record(session, receiver);
        let failure = receiver.failures.first().map(|(name, why)| format!("{name}: {why}"));
        record["failure"] = failure.into();
        record["command_code"] = receiver.command.as_ref().and_then(|command| command.code).into();
        record["command_line"] =
            receiver.command.as_ref().map(|CommandOutcome { line, .. }| line.as_str()).into();
        self.0.row(COLUMNS.map(|column| match &record[column] {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        }));
    }

    pub fn finish(self) -> String {
        self.0.finish()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A thousand receivers: ten have failed, ten are gone, and the others have more and more.
    pub fn thousand() -> Vec<ReceiverProgress> {
        let standing = |number| match number % 100 {
            7 => Standing::Failed,
            8 => Standing::Gone,
            0..50 => Standing::Busy,
            _ => Standing::Done,
        };
        let receiver = |number: u64| {
            filled!(ReceiverProgress {
                name: format!("lab{number}"),
                standing: standing(number),
                failed: u64::from(number % 100 == 7),
                is_connected: true,
                received_bytes: number,
                wanted_bytes: 1000,
                retransmitted_bytes: number % 13,
                now_bps: Some(1_000_000 - number),
                silent_seconds: (number % 17) as f64
            })
        };
        (0..1000).map(receiver).collect()
    }

    fn names(order: &str, receivers: &[ReceiverProgress]) -> Vec<String> {
        let mut receivers: Vec<_> = receivers.iter().collect();
        Order::parse(order).unwrap().sort(&mut receivers);
        receivers.iter().map(|receiver| receiver.name.clone()).collect()
    }

    #[test]
    fn a_thousand_receivers_are_listed_in_any_order() {
        let all = thousand();
        let first = |order| names(order, &all)[..2].join(" ");
        assert_eq!(first("worst"), "lab7 lab107", "failed, the slowest first");
        assert_eq!(names("worst", &all)[10..12].join(" "), "lab8 lab108", "then gone");
        assert_eq!(names("worst", &all)[20..22].join(" "), "lab0 lab1", "then those that go on");
        assert_eq!((first("name"), first("-name")), ("lab0 lab1".into(), "lab999 lab998".into()));
        assert_eq!(names("name", &all)[10], "lab10");
        assert_eq!((first("progress"), first("-progress")), ("lab0 lab1".into(), "lab999 lab998".into()));
        assert_eq!(first("rate"), "lab949 lab948", "the slowest that goes on");
        assert_eq!((first("state"), first("-state")), ("lab7 lab107".into(), "lab999 lab998".into()));
        assert_eq!(first("loss"), "lab7 lab8", "twelve got all of it again: the worst of them first");
        assert_eq!(first("silent"), "lab16 lab33");
        for (key, expected) in
            [("-rate", "lab0 lab1"), ("-left", "lab949 lab948"), ("-silent", "lab935 lab918")]
        {
            assert_eq!(first(key), expected, "{key}: of those that go on");
        }
        for wrong in ["", "-", "size", "--name"] {
            assert!(Order::parse(wrong).unwrap_err().contains("worst, name, state"), "{wrong}");
        }
        let turned = Order::parse("-name").unwrap().turned(true);
        assert_eq!(turned, Order::parse("name").unwrap());
    }

    #[test]
    fn a_table_of_a_thousand_fits_a_terminal() {
        let mut all = thousand();
        all[3].name = "a name\nthat is longer than a column of a table bears".to_owned();
        all[8].left = Some("why ".repeat(1000));
        let text = as_table(&all.iter().collect::<Vec<_>>());
        assert_eq!(text.lines().count(), 1001);
        assert!(text.lines().all(|line| line.chars().count() <= 130), "{text}");
        let lines: Vec<_> = text.lines().collect();
        let cells = |line: usize| lines[line].split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(cells(0), "receiver state has rate again left why");
        assert_eq!(cells(8), "lab7 failed 0 % - 100 % - lacks 1 file");
        assert_eq!(cells(1), "lab0 waiting 0 % 1.0 Mbit/s 0.0 % -");
    }

    #[test]
    fn rows_for_programs_are_quoted_and_have_a_heading() {
        let mut receiver = filled!(ReceiverProgress {
            name: "room 1, \"left\"".into(),
            received_bytes: 25,
            wanted_bytes: 100,
            failures: vec![("a".to_owned(), "line\nline".to_owned())],
            failed: 1,
            standing: Standing::Failed
        });
        let listed = |receiver: &ReceiverProgress| {
            let mut list = CsvList::new();
            list.add("0000feed", receiver);
            let text = list.finish();
            let (heading, row) = text.split_once("\r\n").unwrap();
            (heading.to_owned(), row.to_owned())
        };
        let (heading, row) = listed(&receiver);
        assert!(heading.starts_with("session,receiver,state,progress,bytes,wanted_bytes,"), "{heading}");
        assert!(row.starts_with("0000feed,\"room 1, \"\"left\"\"\",failed,0.25,25,100,,0.0,0,"), "{row}");
        assert!(row.contains(",\"a: line\nline\",false,") && row.ends_with("\r\n"), "{row}");
        receiver.name = "plain".into();
        receiver.failures.clear();
        assert_eq!(listed(&receiver).1.matches(',').count(), COLUMNS.len() - 1);
        receiver.name = "=1+1".into();
        assert!(listed(&receiver).1.starts_with("0000feed,'=1+1,"));
        let fields = json!(receiver);
        let added = ["session", "state", "progress", "loss", "failure", "command_code", "command_line"];
        assert!(COLUMNS.iter().all(|column| added.contains(column) || fields.get(column).is_some()));
    }
}
