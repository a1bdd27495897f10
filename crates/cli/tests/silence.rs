//! Senders and receivers that are stopped: nobody waits for them for ever, and who is given up learns why.

mod child;

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::PathBuf,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use child::{Guarded, SpawnGuarded};

/// The shortest that can be asked for.
const STALL_LIMIT: [&str; 2] = ["--stall-limit", "10"];

/// A folder for one test; removed when dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new(test: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("treecast-silence-{test}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("file"), vec![7; 3_000_000]).unwrap();
        Self(folder)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    fn send(&self, arguments: &[&str]) -> Guarded {
        let (ticket, file) = (self.path("ticket"), self.path("file"));
        let always = ["send", "--interface", "lo", "--ticket-file", &ticket];
        let sender = start(&[&always, arguments, &[&file]].concat());
        wait_until("the ticket is written", || fs::exists(&ticket).unwrap());
        sender
    }

    fn receive(&self, name: &str, arguments: &[&str]) -> Guarded {
        let (into, ticket) = (self.path(name), format!("@{}", self.path("ticket")));
        let always = ["receive", "--interface", "lo", "--name", name, "--into", &into];
        start(&[&always, arguments, &[&ticket]].concat())
    }

    /// Until something has come to a receiver, and not all.
    fn wait_for_part(&self, name: &str) {
        let is_part = |entry: std::io::Result<fs::DirEntry>| {
            entry.is_ok_and(|entry| entry.file_name().to_string_lossy().ends_with(".part"))
        };
        let into = self.0.join(name);
        wait_until("it has begun", || fs::read_dir(&into).is_ok_and(|mut entries| entries.any(is_part)));
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.0);
    }
}

fn start(arguments: &[&str]) -> Guarded {
    let mut command = Command::new(env!("CARGO_BIN_EXE_treecast"));
    let command = command.args(arguments).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn_guarded()
}

fn signal(child: &Guarded, signal: &str) {
    assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(60), "it took too long until {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The exit code, and all that was said.
fn finish(mut child: Guarded) -> (Option<i32>, String) {
    wait_until("the program ends", || child.try_wait().unwrap().is_some());
    let output = child.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(said).unwrap())
}

#[test]
fn a_stopped_sender_is_given_up_and_a_waiting_one_is_not() {
    let (stopped, waiting) = (Scratch::new("stopped"), Scratch::new("waiting"));
    let (mut sender, patient) = (stopped.send(&["--wait", "2"]), waiting.send(&["--wait", "2"]));
    let receiver = stopped.receive("one", &[&STALL_LIMIT[..], &["--reconnect", "0"]].concat());
    let first = waiting.receive("one", &STALL_LIMIT);
    std::thread::sleep(Duration::from_millis(500));
    signal(&sender, "-STOP");
    let (code, said) = finish(receiver);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("it said nothing for 10 s: is it stopped?"), "{said}");
    sender.kill().unwrap();
    sender.wait().unwrap();

    std::thread::sleep(Duration::from_secs(1));
    let second = waiting.receive("two", &STALL_LIMIT);
    for child in [first, second, patient] {
        let (code, said) = finish(child);
        assert_eq!(code, Some(0), "it has waited for longer than that: {said}");
    }
}

#[test]
fn a_sender_that_cannot_be_reached_is_told_of_before_it_is_given_up() {
    let scratch = Scratch::new("unreachable");
    let mut sender = scratch.send(&[]);
    signal(&sender, "-STOP");
    let more = "it takes the connection, but does not answer";
    for reason in [more, "refused"] {
        let into = format!("into-{}", reason.len());
        let (code, said) = finish(scratch.receive(&into, &["--connect-timeout", "5"]));
        assert_eq!(code, Some(1), "{said}");
        let lines: Vec<&str> = said.lines().filter(|line| line.contains("cannot reach the sender")).collect();
        let [first, last] = lines[..] else {
            panic!("one while it tries, and one when it has given up: {said}")
        };
        assert!(first.contains(" yet (") && first.contains(" s more; "), "{first}");
        assert!(first.contains(reason) && last.contains(reason), "{said}");
        sender.kill().unwrap();
        sender.wait().unwrap();
    }
    let (_, said) = finish(scratch.receive("json", &["--connect-timeout", "4", "--json"]));
    let told = said.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let told: Vec<_> = told.filter(|event| event["event"] == "unreachable").collect();
    let [event] = &told[..] else { panic!("{said}") };
    assert!(event["reason"].as_str().unwrap().contains("refused"), "{event}");
    assert!(event["addresses"][0].is_string() && event["seconds_left"].as_f64().unwrap() < 4.0, "{event}");
}

#[test]
fn a_receiver_that_is_put_out_learns_why() {
    let scratch = Scratch::new("putout");
    let sender = scratch.send(&[&STALL_LIMIT[..], &["--rate", "20M"]].concat());
    let receiver = scratch.receive("sleeper", &["--reconnect", "0"]);
    scratch.wait_for_part("sleeper");
    signal(&receiver, "-STOP");
    let (code, said) = finish(sender);
    assert_eq!(code, Some(3), "{said}");
    signal(&receiver, "-CONT");
    let (code, said) = finish(receiver);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("it put this receiver out: it said nothing for 10 s"), "{said}");
}

#[test]
fn a_receiver_that_is_put_out_is_waited_for_as_one_that_has_left() {
    let scratch = Scratch::new("awaited");
    let mut sender =
        scratch.send(&[&STALL_LIMIT[..], &["--rate", "20M", "--linger", "60", "--json"]].concat());
    let receiver = scratch.receive("sleeper", &[]);
    scratch.wait_for_part("sleeper");
    signal(&receiver, "-STOP");
    let mut told = BufReader::new(sender.stdout.take().unwrap()).lines().map(Result::unwrap);
    let left = told.find(|line| line.contains(r#""event":"left""#)).unwrap();
    assert!(left.contains("it said nothing for 10 s"), "{left}");
    signal(&receiver, "-CONT");
    let rest: Vec<String> = told.collect();
    assert!(rest.iter().any(|line| line.contains(r#""event":"joined""#)), "{rest:?}");
    for child in [sender, receiver] {
        let (code, said) = finish(child);
        assert_eq!(code, Some(0), "{said}");
    }
}

#[test]
fn a_receiver_that_is_told_to_stop_is_not_waited_for() {
    for stopped_by in ["-INT", "-TERM"] {
        let scratch = Scratch::new("farewell");
        let sender = scratch.send(&["--rate", "8M", "--linger", "600"]);
        let receiver = scratch.receive("leaver", &[]);
        scratch.wait_for_part("leaver");
        signal(&receiver, stopped_by);
        let (code, said) = finish(receiver);
        assert_eq!(code, Some(1), "{said}");
        let (code, said) = finish(sender);
        assert_eq!(code, Some(3), "it lacks the file: {said}");
        assert!(said.contains("leaver") && said.contains("it was told to stop"), "{said}");
    }
}

#[test]
fn a_sender_says_which_of_the_receivers_named_have_not_come() {
    let scratch = Scratch::new("named");
    let named =
        ["--fanout", "auto", "--receivers", "127.0.0.1,::1,127.0.0.7,fd00::9", "--wait-timeout", "10"];
    let sender = scratch.send(&named);
    let receiver = scratch.receive("one", &[]);
    let (code, said) = finish(sender);
    assert_eq!(code, Some(1), "{said}");
    let line =
        said.lines().find(|line| line.contains("1 of 4 receivers came")).unwrap_or_else(|| panic!("{said}"));
    // It has come from one address of the host.
    let one_of_two =
        line.contains("none from 127.0.0.1, 127.0.0.7") || line.contains("none from ::1, 127.0.0.7");
    assert!(one_of_two && line.contains("127.0.0.7, fd00::9; start"), "{line}");
    finish(receiver);
}

#[test]
fn a_sender_that_may_starts_with_whoever_is_there_when_the_time_is_over() {
    let scratch = Scratch::new("enough");
    let at_least = |count: &'static str| ["--wait", "3", "--wait-at-least", count, "--wait-timeout", "2"];
    let sender = scratch.send(&at_least("1"));
    let (code, said) = finish(scratch.receive("one", &[]));
    assert_eq!(code, Some(0), "{said}");
    let (code, said) = finish(sender);
    assert!(code == Some(0) && said.contains("1 of 3 receivers came within 2 s: it starts"), "{said}");

    fs::remove_file(scratch.path("ticket")).unwrap();
    let sender = scratch.send(&at_least("2"));
    let (code, said) = finish(scratch.receive("two", &[]));
    assert_eq!(code, Some(1), "{said}");
    let (code, said) = finish(sender);
    assert!(
        code == Some(1) && said.contains("1 of 3 receivers came") && said.contains("--wait-at-least"),
        "{said}"
    );
}

#[test]
fn a_receiver_learns_that_the_others_have_not_come() {
    let scratch = Scratch::new("alone");
    let sender = scratch.send(&["--wait", "2", "--wait-timeout", "10"]);
    let (code, said) = finish(scratch.receive("one", &[]));
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("it waited for 2 receivers, and 1 came within 10 s"), "{said}");
    assert!(said.contains("start anew") && !said.contains("is kept"), "nobody can go on with it: {said}");
    let (code, said) = finish(sender);
    assert!(code == Some(1) && said.contains("--wait-timeout"), "{said}");
}
