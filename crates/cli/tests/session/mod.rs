//! Senders and receivers for tests, run as a user runs them, over the loopback interface.

use std::{
    cell::Cell,
    fs,
    io::{BufRead as _, BufReader, Read, Write as _},
    path::{Path, PathBuf},
    process::{ChildStdout, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};

use serde_json::Value;
use treecast_host::namespace::Namespace;
use treecast_wire::ticket::Ticket;

use crate::child::Teller;
pub use crate::child::{Guarded, SpawnGuarded};

/// What has not happened after so long will not happen, on a busy machine either.
const PATIENCE: Duration = Duration::from_secs(120);

/// A folder for one test, and a loopback interface of its own for the test's thread. The folder is removed when this is dropped.
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new() -> Self {
        own_loopback();
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("treecast-cli-{}-{number}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// The path of something in the folder, as an argument.
    pub fn arg(&self, name: &str) -> String {
        path(&self.path(name)).to_owned()
    }

    /// A file of `len` bytes that differ along its length.
    pub fn file(&self, name: &str, len: usize) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, contents(len)).unwrap();
        path
    }

    /// A sender on loopback that writes its ticket to `ticket`; waits until it has.
    pub fn send(&self, args: &[&str]) -> Guarded {
        let ticket = self.path("ticket");
        let mut command = self.treecast();
        command.args(["send", "--interface", "lo", "--ticket-file"]).arg(&ticket).args(args);
        let sender = start(&mut command);
        wait_until("the ticket is written", || ticket.exists());
        sender
    }

    /// The program, with the states of its sessions in `state`.
    pub fn treecast(&self) -> Command {
        let mut command = treecast();
        command.env("XDG_STATE_HOME", self.path("state"));
        command
    }

    /// The ticket of the sender.
    pub fn ticket(&self) -> Ticket {
        fs::read_to_string(self.path("ticket")).unwrap().trim().parse().unwrap()
    }

    /// Another sender, with another ticket.
    pub fn send_anew(&self, args: &[&str]) -> Guarded {
        fs::remove_file(self.path("ticket")).unwrap();
        self.send(args)
    }

    pub fn receive_command(&self, into: &str) -> Command {
        let mut command = treecast();
        command.args(["receive", "--interface", "lo", "--into"]).arg(self.path(into));
        command
    }

    pub fn receive(&self, into: &str, args: &[&str]) -> Guarded {
        start(self.receive_command(into).args(args).arg(format!("@{}", self.path("ticket").display())))
    }

    /// How many files in a folder are not whole.
    pub fn parts(&self, folder: &str) -> usize {
        self.names(folder).iter().filter(|name| name.ends_with(".part")).count()
    }

    /// Everything in a folder, hidden files as well.
    pub fn names(&self, folder: &str) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.path(folder)) else { return Vec::new() };
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Gives the calling thread, and the programs that it starts, a loopback interface of its own. So tests that run beside each other
/// hear no group of another test, and do not take each other's ports.
fn own_loopback() {
    thread_local! {
        static IS_OWN: Cell<bool> = const { Cell::new(false) };
    }
    if IS_OWN.replace(true) {
        return;
    }
    Namespace::enter_new().expect("tests run as root");
    let script = "ip link set lo up && ip route add 224.0.0.0/4 dev lo && ip -6 route add multicast ff00::/8 dev lo table local";
    assert!(Command::new("sh").args(["-c", script]).status().expect("sh starts").success());
}

pub fn contents(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at % 251 + at / 65_536) as u8).collect()
}

pub fn treecast() -> Command {
    Command::new(env!("CARGO_BIN_EXE_treecast"))
}

pub fn start(command: &mut Command) -> Guarded {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn_guarded()
}

pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "it took too long until {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A network of `treecast lab up`. It goes when this is dropped.
pub struct Lab(String);

impl Lab {
    /// `name` tells the labs of different tests apart.
    pub fn up(name: &str, topology: &str) -> Self {
        let lab = Self(format!("{name}{}", std::process::id()));
        let up = ["lab", "up", topology, "--name", &lab.0];
        assert!(treecast().args(up).stdout(Stdio::null()).status().unwrap().success());
        lab
    }

    pub fn namespace(&self, node: &str) -> String {
        format!("{}-{node}", self.0)
    }

    pub fn on(&self, node: &str, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespace(node), program]);
        command
    }

    pub fn treecast(&self, node: &str) -> Command {
        self.on(node, env!("CARGO_BIN_EXE_treecast"))
    }

    /// Gives these nodes rules of nftables.
    pub fn filter(&self, nodes: &[&str], rules: &str) {
        for node in nodes {
            assert!(self.on(node, "nft").arg(rules).status().unwrap().success());
        }
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        _ = treecast().args(["lab", "down", &self.0]).stdout(Stdio::null()).status();
    }
}

/// Waits until a program tells that a receiver is in the group; what it says later is left to be read.
#[track_caller]
pub fn joined(program: &mut Guarded) -> BufReader<ChildStdout> {
    let mut told = BufReader::new(program.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains("\"joined\"") {
        line.clear();
        assert!(told.read_line(&mut line).unwrap() > 0, "it has ended");
    }
    told
}

/// Waits for a program, but not for ever: one that takes too long is ended, and the test fails by its code.
pub fn finish(mut child: Guarded) -> (Option<i32>, String) {
    let start = Instant::now();
    // A pipe holds 64 KiB: a program whose output nobody reads does not end well.
    let (stdout, stderr) = (read_all(child.stdout.take()), read_all(child.stderr.take()));
    while child.try_wait().unwrap().is_none() {
        if start.elapsed() > PATIENCE {
            child.kill().unwrap();
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let status = child.wait().unwrap();
    (status.code(), stdout.join().unwrap() + &stderr.join().unwrap())
}

/// Reads a pipe to its end, while the program goes on.
fn read_all(pipe: Option<impl Read + Send + 'static>) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // A program that was killed may have left nothing to read.
        pipe.into_iter().for_each(|mut pipe| _ = pipe.read_to_end(&mut bytes));
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

#[track_caller]
pub fn finish_well(child: Guarded) -> String {
    finish_with(0, child)
}

/// Waits for a program that must end with this code, and returns what it has printed.
#[track_caller]
pub fn finish_with(expected: i32, child: Guarded) -> String {
    let (code, text) = finish(child);
    assert_eq!(code, Some(expected), "{text}");
    text
}

/// The events among the lines that a program has printed.
pub fn events(text: &str) -> Vec<Value> {
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// The last event of a kind.
#[track_caller]
pub fn last_event(text: &str, kind: &str) -> Value {
    let found = events(text).into_iter().rfind(|event| event["event"] == kind);
    found.unwrap_or_else(|| panic!("no {kind} in {text}"))
}

/// The bytes that a receiver has fetched by its own word, those among them that it had already.
pub fn fetched(event: &Value) -> u64 {
    let count = |key: &str| event[key].as_u64().unwrap();
    count("bytes") - count("kept_bytes") + count("duplicate_bytes")
}

/// The length of each file of a feed that goes on, and how many are on their way at a time.
pub const FED_LEN: usize = 500_000;
const FED_AT_ONCE: usize = 12;

/// Gives a sender's feed (`--feed -`) one file after the other until it tells of what is waited for, and then ends the feed. Returns
/// the number of files, whose names are numbers.
///
/// A sender whose receivers are short of processor time takes long to find out which one is slow, or tries another one first. How soon it
/// does, and what the others gain, is shown where time is simulated (`crates/sim/tests/slower_groups.rs`).
#[track_caller]
pub fn feed_until(sender: &mut Teller, scratch: &Scratch, mut is_so: impl FnMut(&Value) -> bool) -> usize {
    let mut lines = sender.child.stdin.take().expect("it is piped");
    let mut given = 0;
    let mut give = |given: &mut usize| {
        writeln!(lines, "{}", path(&scratch.file(&format!("fed/{given}"), FED_LEN))).expect("it reads them");
        *given += 1;
    };
    (0..FED_AT_ONCE).for_each(|_| give(&mut given));
    loop {
        let event = sender.any();
        if is_so(&event) {
            return given;
        }
        if event["event"] == "object" {
            give(&mut given);
        }
    }
}

pub fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Runs a command that must fail with exit code 1 and one line that holds all of `words`.
#[track_caller]
pub fn refused(command: &mut Command, words: &[&str]) {
    let (code, text) = finish(start(command));
    assert_eq!(code, Some(1), "{text}");
    let line = text.lines().find(|line| line.starts_with("treecast: ")).unwrap_or_else(|| panic!("{text}"));
    for word in words {
        assert!(line.contains(word), "{word:?} is not in {line:?}");
    }
    assert_eq!(text.lines().filter(|line| line.starts_with("treecast: ")).count(), 1, "{text}");
}
