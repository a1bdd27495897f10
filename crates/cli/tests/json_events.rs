//! docs/json.md and what `--json` prints say the same.

mod child;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    time::{Duration, Instant},
};

use child::{Guarded, SpawnGuarded};
use serde_json::Value;

/// Which files print the events of which section.
const SOURCES: [(&str, &[&str]); 3] = [
    ("send", &["send/display.rs", "send/carousel.rs"]),
    ("receive", &["receive/display.rs"]),
    ("status", &["status.rs"]),
];

/// One section of the document.
#[derive(Debug, Default)]
struct Section {
    /// What stands in the first column of its tables of events.
    events: BTreeSet<String>,
    /// All that stands in backticks.
    words: BTreeSet<String>,
}

#[test]
fn every_event_that_is_documented_is_in_the_code_and_the_other_way_round() {
    let document = document();
    for (section, sources) in SOURCES {
        let printed: BTreeSet<String> = sources.iter().flat_map(|source| events_in(source)).collect();
        assert_eq!(document[section].events, printed, "{section}");
    }
}

#[test]
fn every_event_and_field_of_a_session_is_documented() {
    let folder = std::env::temp_dir().join(format!("treecast-json-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    fs::write(path("one"), vec![1; 700_000]).unwrap();
    fs::write(path("two"), vec![2; 100_000]).unwrap();
    let ticket = path("ticket");
    let sender = ["send", "--json", "--interface", "lo", "--rate", "4M", "--ticket-file", &ticket];
    let sender = start(&[&sender[..], &[&path("one"), &path("two")]].concat());
    wait_until("the ticket is written", || Path::new(&ticket).exists());
    let at = format!("@{ticket}");
    let into = path("copies");
    let receiver = ["receive", "--json", "--interface", "lo", "--only", "one", "--into", &into, &at];
    let receiver = start(&receiver);
    let mut status = Value::Null;
    wait_until("it is seen", || {
        let output = start(&["status", "--json"]).wait_with_output().unwrap();
        status = serde_json::from_slice(&output.stdout).unwrap();
        let is_ours = |session: &Value| session["pid"] == sender.id() && session["phase"] == "running";
        status["sessions"].as_array().unwrap().iter().any(is_ours)
    });
    let document = document();
    check(&document["status"], &status);
    for (section, child) in [("send", sender), ("receive", receiver)] {
        let printed = lines(child);
        assert!(printed.len() > 3, "{printed:?}");
        printed.iter().for_each(|event| check(&document[section], event));
    }
    fs::remove_dir_all(&folder).unwrap();
}

fn check(section: &Section, event: &Value) {
    let kind = event["event"].as_str().unwrap();
    assert!(section.events.contains(kind), "{kind} is not in docs/json.md");
    let mut fields = BTreeSet::new();
    collect(event, &mut fields);
    let untold: Vec<_> = fields.difference(&section.words).filter(|field| *field != "event").collect();
    assert!(untold.is_empty(), "fields of {kind} that are not in docs/json.md: {untold:?}");
}

/// The names of all fields, also of what is inside of others.
fn collect(value: &Value, fields: &mut BTreeSet<String>) {
    match value {
        Value::Object(object) => {
            fields.extend(object.keys().cloned());
            object.values().for_each(|value| collect(value, fields));
        }
        Value::Array(values) => values.iter().for_each(|value| collect(value, fields)),
        _ => {}
    }
}

fn lines(child: Guarded) -> Vec<Value> {
    let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
    assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
    String::from_utf8(stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn start(arguments: &[&str]) -> Guarded {
    let mut command = Command::new(env!("CARGO_BIN_EXE_treecast"));
    let command = command.args(arguments).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn_guarded()
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(60), "it took too long until {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The document's sections by the subcommand in their title.
fn document() -> BTreeMap<String, Section> {
    let text = fs::read_to_string(folder("../../docs/json.md")).unwrap();
    let sections = text.split("\n## ").skip(1).map(|section| {
        let title = quoted(section.lines().next().unwrap()).remove(0);
        (title.trim_start_matches("treecast ").to_owned(), read_section(section))
    });
    sections.collect()
}

fn read_section(text: &str) -> Section {
    let mut section = Section::default();
    let mut is_table_of_events = false;
    for line in text.lines() {
        match line.strip_prefix('|') {
            None => is_table_of_events = false,
            Some(row) if row.starts_with(" event ") => is_table_of_events = true,
            Some(row) if is_table_of_events => {
                section.events.extend(quoted(row.split('|').next().unwrap()));
            }
            Some(_) => {}
        }
        section.words.extend(quoted(line));
    }
    section
}

fn quoted(line: &str) -> Vec<String> {
    line.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// The events that a source file prints.
fn events_in(source: &str) -> Vec<String> {
    let text = fs::read_to_string(folder("src").join(source)).unwrap();
    let behind = |marker: &str| {
        let found = text.match_indices(marker).map(|(at, _)| &text[at + marker.len()..]);
        found.map(|rest| rest.split('"').next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    // In a JSON value, in a line written from a struct, and of an object.
    [behind("\"event\": \""), behind(" event: \""), behind("as_json(\"")].concat()
}

fn folder(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}
