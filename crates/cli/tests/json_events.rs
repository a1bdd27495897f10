//! docs/json.md and what `--json` prints say the same.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    net::Ipv6Addr,
    path::{Path, PathBuf},
    time::Duration,
};

use crate::session::{Scratch, events, finish_well, start, treecast, wait_until};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use treecast_driver::{
    events::Timed,
    explicit::event::{Branch, Counted, Group, Listed, MeadEvent, Registrations, Served},
    files::{Lack, Shortage},
    hindrance::{Hindrance, Holder},
    receive::{self, ReceiveEvent, ReceiveProgress},
    send::{
        self, GroupProgress, NamedReceiver, Presence, RateProgress, ReceiverProgress, SendEvent,
        SendProgress, WayProgress,
    },
    status::Snapshot,
    unicast::{ClientProgress, FetchEvent, ServerEvent},
};
use treecast_proto::fanout::Way;
use treecast_wire::message::ObjectKind;

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
    let others = ["send/carousel.rs", "send/code.rs", "send/forecast.rs"].into_iter().flat_map(events_in);
    let status = ["status.rs", "status/receivers.rs", "history.rs"].into_iter().flat_map(events_in);
    let sessions = ["announced", "renewed", "withdrawn"].map(str::to_owned);
    for (section, told) in [
        ("send", kinds::<SendEvent>().into_iter().chain(others).collect()),
        ("receive", kinds::<ReceiveEvent>()),
        ("mead", kinds::<MeadEvent>()),
        ("unicast", kinds::<ServerEvent>().into_iter().chain(kinds::<FetchEvent>()).collect()),
        ("discover", events_in("discover.rs").into_iter().chain(sessions).collect()),
        ("status", status.collect()),
    ] {
        assert_eq!(document[section].events, told, "{section}");
    }
}

/// What a session tells only now and then, such as its groups and its rate, is documented as well.
#[test]
fn every_field_of_an_event_is_documented() {
    let document = document();
    let progress = filled(|it: &mut SendProgress| {
        it.rate = Some(RateProgress::default());
        it.fanout = Some([(Way::Mead.to_string(), WayProgress::default())].into());
        it.groups = vec![GroupProgress::default()];
        it.held_by = Some(Holder::new("client".to_owned(), Hindrance::Gone));
        it.receivers = vec![filled(|it: &mut ReceiverProgress| {
            it.failures = vec![("file".to_owned(), "why".to_owned())]
        })];
    });
    let mut snapshot = Snapshot::default();
    snapshot.note_send(&progress);
    let named = vec![NamedReceiver { address: [10, 0, 0, 1].into(), presence: Presence::Absent }];
    let done = filled(|it: &mut send::Done| {
        it.progress = progress;
        it.named = named;
    });
    let shortage = Shortage {
        name: String::new(),
        folder: PathBuf::new(),
        part: None,
        part_bytes: 0,
        needed: 0,
        free: 0,
        lacks: Lack::Quota,
        left: Duration::ZERO,
    };
    let served = || vec![Served { router: Ipv6Addr::LOCALHOST, receivers: Vec::new() }];
    let group = Group {
        lists: vec![
            Listed::Mead { routers: served(), designated: served(), dont_replicate: 0 },
            Listed::Xcast { destinations: Vec::new() },
        ],
        registered: Some(Vec::new()),
        ..Group::default()
    };
    let branch = Branch { address: Ipv6Addr::LOCALHOST, hops: 0, receivers: Vec::new(), routers: Vec::new() };
    let counted = Counted { registrations: Some(Registrations::default()), ..Counted::default() };
    for (section, event) in [
        ("send", json!(SendEvent::Done(done))),
        ("receive", json!(ReceiveEvent::Done(receive::Done::default()))),
        ("receive", json!(ReceiveEvent::Full(Box::new(shortage)))),
        ("mead", json!(MeadEvent::Group(group))),
        ("mead", json!(MeadEvent::Tree { sender: branch })),
        ("mead", json!(MeadEvent::Done(counted))),
        ("unicast", json!(FetchEvent::Done(ClientProgress::default()))),
    ] {
        check(&document[section], &event);
    }
    check_status(&document, json!({"event": "status", "sessions": [snapshot]}));
}

/// An event that is printed is the same when it is read.
#[test]
fn events_are_read_as_they_are_printed() {
    let receiver = filled(|it: &mut ReceiverProgress| {
        it.name = "client".to_owned();
        it.way = Some(Way::Xcast);
        it.why = Some(Hindrance::Full);
        it.failures = vec![("file".to_owned(), "no room".to_owned())];
    });
    let rate = filled(|it: &mut RateProgress| it.round_trip = Duration::from_millis(250));
    let progress = filled(|it: &mut SendProgress| {
        it.total_bytes = 7;
        it.rate = Some(rate);
        it.receivers = vec![receiver];
    });
    let sent = [
        SendEvent::Warning("a line".into()),
        SendEvent::Way { receiver: "client".to_owned(), way: Way::Mead, why: "it works".to_owned() },
        SendEvent::Progress(progress.clone()),
        SendEvent::Done(filled(|it: &mut send::Done| {
            it.progress = progress;
            it.not_sent = 3;
            it.dropped = 2;
            it.expired = 1;
            it.complete = true;
            it.interrupted = false;
            it.named = vec![NamedReceiver { address: [10, 0, 0, 1].into(), presence: Presence::Absent }];
        })),
    ];
    for event in sent {
        let line = json!(event);
        let read: SendEvent =
            serde_json::from_value(line.clone()).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert_eq!(json!(read), line);
    }
    let received = ReceiveEvent::Received { name: "file".to_owned(), kind: ObjectKind::Link, bytes: 0 };
    let line = json!(Timed { event: received, seconds: Some(0.5) });
    assert_eq!(line, json!({"event": "object", "name": "file", "kind": "link", "bytes": 0, "seconds": 0.5}));
    let read = Timed::<ReceiveEvent>::read(&line.to_string()).unwrap();
    assert_eq!(json!(read), line);
    let progress = filled(|it: &mut ReceiveProgress| {
        it.seconds = 2.5;
        it.received_bytes = 9;
    });
    let line = json!(Timed { event: ReceiveEvent::Progress(progress), seconds: None });
    assert_eq!(
        (&line["event"], &line["seconds"], &line["bytes"]),
        (&json!("progress"), &json!(2.5), &json!(9))
    );
}

#[test]
fn every_event_and_field_of_a_session_is_documented() {
    let scratch = Scratch::with_files(&[("one", 700_000), ("two", 100_000)]);
    let sender = scratch.send("--json --rate 4M one two");
    let receiver = scratch.receive("copies", "--json --only one");
    let mut status = Value::Null;
    wait_until("it is seen", || {
        let output = start(treecast().args(["status", "--json"])).wait_with_output().unwrap();
        status = serde_json::from_slice(&output.stdout).unwrap();
        let is_ours = |session: &Value| session["pid"] == sender.id() && session["phase"] == "running";
        status["sessions"].as_array().unwrap().iter().any(is_ours)
    });
    let document = document();
    check_status(&document, status);
    for (section, child) in [("send", sender), ("receive", receiver)] {
        let printed = events(&finish_well(child));
        assert!(printed.len() > 3, "{printed:?}");
        printed.iter().for_each(|event| check(&document[section], event));
    }
}

/// The document refers to the `progress` of senders and receivers.
fn check_status(document: &BTreeMap<String, Section>, status: Value) {
    let words = |section: &str| document[section].words.clone();
    let words = ["status", "send", "receive"].into_iter().flat_map(words).collect();
    check(&Section { events: document["status"].events.clone(), words }, &status);
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

/// The kinds of event that a type knows, which it says when it is to read another.
fn kinds<E: DeserializeOwned + std::fmt::Debug>() -> BTreeSet<String> {
    let error = serde_json::from_str::<E>(r#"{"event": "no such kind"}"#).expect_err("it is no kind");
    let kinds: BTreeSet<String> = quoted(&error.to_string()).into_iter().skip(1).collect();
    assert!(!kinds.is_empty(), "{error}");
    kinds
}

/// The events that a source file prints.
fn events_in(source: &str) -> Vec<String> {
    let text = fs::read_to_string(folder("src").join(source)).unwrap();
    let behind = |marker: &str| {
        let found = text.match_indices(marker).map(|(at, _)| &text[at + marker.len()..]);
        found.map(|rest| rest.split('"').next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    // In a JSON value, and in a line written from a struct.
    [behind("\"event\": \""), behind("as_json(\"")].concat()
}

fn folder(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Makes a value of a structure that may grow, and that only its own crate can write out.
fn filled<T: Default>(fill: impl FnOnce(&mut T)) -> T {
    let mut value = T::default();
    fill(&mut value);
    value
}
