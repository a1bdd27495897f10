//! What others on the host see of running senders and receivers: `treecast status`, and `--metrics`.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    os::unix::net::UnixStream,
    process::{Command, Output},
};

use crate::session::{Guarded, Scratch, assert_says, start, treecast, wait_until};
use serde_json::Value;

/// A runtime folder of a test's own.
struct Host(Scratch);

impl Host {
    fn new() -> Self {
        let scratch = Scratch::new();
        fs::create_dir_all(scratch.path("run")).unwrap();
        scratch.file("file", 2_500_000);
        Self(scratch)
    }

    fn path(&self, name: &str) -> String {
        self.0.arg(name)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = treecast();
        command.args(arguments).env("XDG_RUNTIME_DIR", self.0.path("run"));
        command
    }

    fn start(&self, arguments: &[&str]) -> Guarded {
        start(&mut self.command(arguments))
    }

    /// A slow sender, and its ticket.
    fn send(&self, arguments: &[&str]) -> (Guarded, String) {
        let file = self.path("file");
        let always = ["send", "--interface", "lo", "--rate", "4M", "--block", "1420"];
        let mut sender = self.start(&[&always, arguments, &[&file]].concat());
        let mut ticket = String::new();
        BufReader::new(sender.stdout.as_mut().unwrap()).read_line(&mut ticket).unwrap();
        (sender, ticket.trim().to_owned())
    }

    fn receive(&self, name: &str, ticket: &str) -> Guarded {
        let into = self.path(name);
        self.start(&["receive", "--interface", "lo", "--name", name, "--into", &into, ticket])
    }

    /// The sessions of this test alone: as root, `status` sees all.
    fn status(&self, of: &[&Guarded]) -> Vec<Value> {
        let output = self.command(&["status", "--json"]).output().unwrap();
        assert!(output.status.success());
        let told: Value = serde_json::from_slice(&output.stdout).unwrap();
        let is_ours = |session: &&Value| of.iter().any(|child| session["pid"] == child.id());
        told["sessions"].as_array().unwrap().iter().filter(is_ours).cloned().collect()
    }

    fn wait_for(&self, of: &[&Guarded], what: &str, is_so: impl Fn(&[Value]) -> bool) -> Vec<Value> {
        let mut sessions = Vec::new();
        wait_until(what, || {
            sessions = self.status(of);
            is_so(&sessions)
        });
        sessions
    }
}

fn end(mut child: Guarded) -> Output {
    // It may have ended by itself.
    _ = child.kill();
    child.wait_with_output().unwrap()
}

/// Whether a session runs at about its rate: 4 Mbit/s are sent, headers included.
fn is_running(session: &Value) -> bool {
    let rate = session["now_bps"].as_u64();
    session["phase"] == "running" && rate.is_some_and(|rate| (1_000_000..8_000_000).contains(&rate))
}

#[test]
fn status_tells_what_runs_and_how_it_gets_on() {
    let host = Host::new();
    let (sender, ticket) = host.send(&["--wait", "2"]);
    let waiting = host.wait_for(&[&sender], "waiting sender", |found| found.len() == 1);
    assert_eq!((&waiting[0]["role"], &waiting[0]["phase"]), (&"send".into(), &"waiting".into()));
    assert_eq!((&waiting[0]["joined"], &waiting[0]["wanted"]), (&0.into(), &2.into()));
    let (one, two) = (host.receive("one", &ticket), host.receive("two", &ticket));
    let all = [&sender, &one, &two];
    let found = host.wait_for(&all, "progress", |found| found.len() == 3 && found.iter().all(is_running));
    for session in &found {
        assert_eq!(session["session"], found[0]["session"]);
        let objects = if session["role"] == "send" { "objects" } else { "objects_begun" };
        assert_eq!((&session[objects], &session["objects_done"]), (&1.into(), &0.into()), "{session}");
        assert!(session["seconds_left"].as_f64().is_some_and(|left| left < 60.0), "{session}");
    }
    let sending = found.iter().find(|session| session["role"] == "send").unwrap();
    assert_eq!((&sending["joined"], &sending["rate_bps"]), (&2.into(), &4_000_000.into()));
    assert_eq!(sending["receivers"].as_array().unwrap().len(), 2);
    let text = host.command(&["status"]).output().unwrap();
    let text = String::from_utf8(text.stdout).unwrap();
    assert_says(&text, &["Mbit/s", "2 receivers there, 0 done"]);

    let folder = host.0.path("run/treecast");
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 3);
    [sender, one, two].into_iter().for_each(|child| drop(end(child)));
    assert_eq!(host.command(&["status"]).output().unwrap().status.code(), Some(0));
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0, "sockets of killed processes are removed");
}

#[test]
fn a_receiver_that_has_broken_off_is_gone_and_not_done() {
    let host = Host::new();
    let (sender, ticket) = host.send(&["--wait", "2", "--linger", "600"]);
    let (one, two) = (host.receive("one", &ticket), host.receive("two", &ticket));
    host.wait_for(&[&sender], "progress", |found| found.iter().any(is_running));
    end(two);
    let found = host.wait_for(&[&sender], "leaver", |found| found[0]["receivers_gone"] == 1);
    assert_eq!((&found[0]["receivers_done"], &found[0]["joined"]), (&0.into(), &1.into()), "{}", found[0]);
    assert_eq!(one.wait_with_output().unwrap().status.code(), Some(0));
    let has_ended = |found: &[Value]| found[0]["receivers_done"] == 1 && !found[0]["held_by"].is_null();
    let found = host.wait_for(&[&sender], "end of the other", has_ended);
    let receivers = found[0]["receivers"].as_array().unwrap();
    let gone = receivers.iter().find(|receiver| receiver["receiver"] == "two").unwrap();
    assert_eq!((&gone["standing"], &gone["connected"]), (&"gone".into(), &false.into()));
    assert!(gone["left"].as_str().is_some_and(|why| !why.is_empty()), "{gone}");
    let held_by = &found[0]["held_by"];
    assert_eq!((&held_by["receiver"], &held_by["why"]), (&"two".into(), &"gone".into()));
    let text = String::from_utf8(host.command(&["status"]).output().unwrap().stdout).unwrap();
    assert_says(&text, &["1 done, 1 gone", "gone: two (", "waits for two to come back: "]);
    end(sender);
}

#[test]
fn strangers_at_the_socket_and_a_full_queue_stop_nothing() {
    let host = Host::new();
    let (sender, ticket) = host.send(&[]);
    let socket = host.0.path(&format!("run/treecast/{}.sock", sender.id()));
    let strangers: Vec<_> = (0..200).filter_map(|_| UnixStream::connect(&socket).ok()).collect();
    let receiver = host.receive("one", &ticket);
    host.wait_for(&[&sender], "progress", |found| found.iter().any(is_running));
    drop(strangers);
    let output = receiver.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(sender.wait_with_output().unwrap().status.code(), Some(0));
}

#[test]
fn prometheus_is_answered_while_it_runs() {
    let host = Host::new();
    // A port that was free a moment ago.
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let (sender, ticket) = host.send(&["--metrics", &address]);
    let receiver = host.receive("one", &ticket);
    host.wait_for(&[&sender], "progress", |found| found.iter().any(is_running));
    let mut stream = TcpStream::connect(&address).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("treecast_sent_bytes_total "), "{answer}");
    assert!(answer.contains("treecast_receiver_received_bytes{receiver=\"one\"} "), "{answer}");

    let again = ["send", "--interface", "lo", "--metrics", &address, &host.path("file")];
    let taken = host.command(&again).output().unwrap();
    let said = String::from_utf8(taken.stderr).unwrap();
    assert!(said.contains(&address) && said.contains("--metrics") && said.lines().count() == 1, "{said}");
    [sender, receiver].into_iter().for_each(|child| drop(end(child)));
}

/// What `status --receivers` prints of the sender, with these arguments.
fn receivers(host: &Host, sender: &Guarded, arguments: &str) -> String {
    let pid = sender.id().to_string();
    let all = ["status", "--receivers", &pid].into_iter().chain(arguments.split_whitespace());
    let output = host.command(&all.collect::<Vec<_>>()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The receivers of the sender when this is so of what is told of them.
fn receivers_when(host: &Host, sender: &Guarded, is_so: impl Fn(&Value) -> bool) -> Value {
    let mut session = Value::Null;
    wait_until("the receivers are so", || {
        let told: Value = serde_json::from_str(&receivers(host, sender, "--json")).unwrap();
        session = told["sessions"][0].clone();
        is_so(&session)
    });
    session
}

/// The first word of each row of a table, without its heading.
fn names(text: &str) -> Vec<&str> {
    let firsts = text.lines().filter_map(|line| line.split(' ').next());
    firsts.filter(|name| name.starts_with("lab")).collect()
}

#[test]
fn the_receivers_of_a_sender_are_listed_sorted_and_chosen() {
    const RECEIVERS: usize = 12;
    let host = Host::new();
    let report = host.path("report.csv");
    let (sender, ticket) =
        host.send(&["--wait", &RECEIVERS.to_string(), "--linger", "600", "--report", &report]);
    let start = |number: usize| host.receive(&format!("lab{number}"), &ticket);
    let mut children: Vec<_> = (1..RECEIVERS).map(start).collect();
    receivers_when(&host, &sender, |told| told["receivers_waiting"] == RECEIVERS - 1);
    let text = receivers(&host, &sender, "--sort name");
    assert!(text.contains(" 11 receivers: 11 waiting\n"), "{text}");
    assert_eq!(names(&text)[..2], ["lab1", "lab2"]);
    children.push(start(RECEIVERS));
    host.wait_for(&[&sender], "progress", |found| found.iter().any(is_running));
    end(children.remove(2));
    let told = receivers_when(&host, &sender, |told| told["receivers_gone"] == 1);
    assert_eq!(told["receivers"][0]["receiver"], "lab3", "the worst is the first: {told}");

    let text = receivers(&host, &sender, "");
    assert!(text.contains(" 12 receivers: 1 gone, ") && names(&text)[0] == "lab3", "{text}");
    let text = receivers(&host, &sender, "--sort -name --rows 4");
    assert_eq!(names(&text), ["lab12", "lab11", "lab10", "lab9"]);
    assert!(text.ends_with("not shown: 8 more (--rows all)\n"), "{text}");
    assert_eq!(
        names(&receivers(&host, &sender, "--name lab1 --sort name")),
        ["lab1", "lab10", "lab11", "lab12"]
    );
    assert_eq!(names(&receivers(&host, &sender, "--only gone,failed")), ["lab3"]);
    let csv = receivers(&host, &sender, "--csv --sort name --reverse");
    let rows: Vec<_> = csv.split_terminator("\r\n").map(|row| row.split(',').collect::<Vec<_>>()).collect();
    assert_eq!((rows.len(), rows[0][1], rows[1][1], rows[12][1]), (13, "receiver", "lab12", "lab1"));
    assert_eq!((rows[10][1], rows[10][2]), ("lab3", "gone"));
    let nobody = host.command(&["status", "--receivers", "no-such-session"]).output().unwrap();
    let said = String::from_utf8(nobody.stderr).unwrap();
    assert!(said.contains("no sender has the session") && said.lines().count() == 1, "{said}");

    receivers_when(&host, &sender, |told| told["receivers_done"] == RECEIVERS - 1);
    let stopped = Command::new("kill").args(["-INT", &sender.id().to_string()]).status().unwrap();
    assert!(stopped.success());
    let output = sender.wait_with_output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("11 receivers have everything: half of them after "), "{said}");
    let report = fs::read_to_string(report).unwrap();
    let rows: Vec<_> = report.split_terminator("\r\n").collect();
    assert_eq!(rows.len(), 1 + RECEIVERS, "{report}");
    assert!(rows[1].contains(",lab3,gone,0.0,") && rows[1].contains("the receiver left: "), "{report}");
    assert!(rows[2..].iter().all(|row| row.contains(",done,1.0,2500000,2500000,")), "{report}");
    children.into_iter().for_each(|child| drop(end(child)));
}
