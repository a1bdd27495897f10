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

    /// A folder with a file of this name and length.
    pub fn with_file(name: &str, len: usize) -> Self {
        Self::with_files(&[(name, len)])
    }

    pub fn with_files<S: AsRef<str>>(files: &[(S, usize)]) -> Self {
        let scratch = Self::new();
        scratch.files(files);
        scratch
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
    pub fn send(&self, args: impl Arguments) -> Guarded {
        self.send_by(self.command("send --interface lo --ticket-file ticket").args(args.words()))
    }

    /// A sender whose command is made elsewhere, and has the option for the ticket.
    pub fn send_by(&self, command: &mut Command) -> Guarded {
        self.with_ticket(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()))
    }

    /// Starts a sender as it is, and waits for its ticket.
    pub fn with_ticket(&self, command: &mut Command) -> Guarded {
        let sender = command.spawn_guarded();
        self.wait_for_ticket();
        sender
    }

    pub fn wait_for_ticket(&self) {
        wait_until("the ticket is written", || self.path("ticket").exists());
    }

    /// The program in this folder, with the states of its sessions in `state`.
    pub fn command(&self, args: impl Arguments) -> Command {
        let mut command = treecast();
        command.args(args.words()).current_dir(&self.0).env("XDG_STATE_HOME", self.path("state"));
        command
    }

    /// What a command says that ends well.
    #[track_caller]
    pub fn run(&self, args: impl Arguments) -> String {
        finish_well(start(&mut self.command(args)))
    }

    /// Runs a command that must be [`refused`].
    #[track_caller]
    pub fn refuses(&self, args: impl Arguments, words: &[&str]) {
        refused(&mut self.command(args), words);
    }

    /// The ticket of the sender.
    pub fn ticket(&self) -> Ticket {
        fs::read_to_string(self.path("ticket")).unwrap().trim().parse().unwrap()
    }

    /// Another sender, with another ticket.
    pub fn send_anew(&self, args: impl Arguments) -> Guarded {
        fs::remove_file(self.path("ticket")).unwrap();
        self.send(args)
    }

    /// A receiver on loopback that is not started yet.
    pub fn receive_command(&self, into: &str, args: impl Arguments) -> Command {
        let mut command = self.command(["receive", "--interface", "lo", "--into", into]);
        command.args(args.words());
        command
    }

    pub fn receive(&self, into: &str, args: impl Arguments) -> Guarded {
        start(self.receive_command(into, args).arg("@ticket"))
    }

    /// A receiver whose events go to a file of this name.
    pub fn receive_into_file(&self, into: &str, args: impl Arguments, told: &str) -> Guarded {
        let mut command = self.receive_command(into, args);
        command.args(["--json", "@ticket"]).stdout(fs::File::create(self.path(told)).unwrap()).spawn_guarded()
    }

    /// What a program has written to a file so far.
    pub fn told(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// Whether a program has written an event of this kind to a file.
    pub fn has_told(&self, name: &str, kind: &str) -> bool {
        self.told(name).contains(&format!(r#""event":"{kind}""#))
    }

    /// Files of these names and lengths.
    pub fn files<S: AsRef<str>>(&self, files: &[(S, usize)]) {
        files.iter().for_each(|(name, len)| _ = self.file(name.as_ref(), *len));
    }

    /// Checks that a folder has copies of what [`Scratch::files`] has made.
    #[track_caller]
    pub fn assert_files<S: AsRef<str>>(&self, folder: &str, files: &[(S, usize)]) {
        for (name, len) in files {
            self.assert_file(&format!("{folder}/{}", name.as_ref()), *len);
        }
    }

    /// Checks that a file has what [`Scratch::file`] writes.
    #[track_caller]
    pub fn assert_file(&self, name: &str, len: usize) {
        let copy = fs::read(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(copy == contents(len), "{name} is not as it was sent");
    }

    /// Waits until a receiver has some of a file, and not all.
    pub fn wait_for_part(&self, folder: &str) {
        wait_until("some of it has come", || self.parts(folder) > 0);
    }

    /// How many files in a folder are not whole.
    pub fn parts(&self, folder: &str) -> usize {
        self.names(folder).iter().filter(|name| name.ends_with(".part")).count()
    }

    /// The file in a folder that is not whole.
    #[track_caller]
    pub fn part(&self, folder: &str) -> PathBuf {
        let part = self.names(folder).into_iter().find(|name| name.ends_with(".part"));
        self.path(folder).join(part.expect("some has come"))
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

/// Arguments of a command: a line of words, of which those between apostrophes are one, or a list.
pub trait Arguments {
    fn words(&self) -> Vec<String>;
}

impl Arguments for str {
    fn words(&self) -> Vec<String> {
        let split = |(number, part): (usize, &str)| match number % 2 {
            0 => part.split_whitespace().map(str::to_owned).collect(),
            _ => vec![part.to_owned()],
        };
        self.split('\'').enumerate().flat_map(split).collect()
    }
}

impl Arguments for String {
    fn words(&self) -> Vec<String> {
        self.as_str().words()
    }
}

impl<S: AsRef<str>> Arguments for [S] {
    fn words(&self) -> Vec<String> {
        self.iter().map(|word| word.as_ref().to_owned()).collect()
    }
}

impl<S: AsRef<str>> Arguments for Vec<S> {
    fn words(&self) -> Vec<String> {
        self.as_slice().words()
    }
}

impl<S: AsRef<str>, const N: usize> Arguments for [S; N] {
    fn words(&self) -> Vec<String> {
        self.as_slice().words()
    }
}

impl<A: Arguments + ?Sized> Arguments for &A {
    fn words(&self) -> Vec<String> {
        (*self).words()
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

pub const TREECAST: &str = env!("CARGO_BIN_EXE_treecast");

pub fn treecast() -> Command {
    Command::new(TREECAST)
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

/// Asks a program to end, which it must do well.
#[track_caller]
pub fn stop(child: Guarded) -> String {
    child.signal(libc::SIGTERM);
    finish_well(child)
}

#[track_caller]
pub fn finish_well(child: Guarded) -> String {
    finish_with(0, child)
}

/// Waits for programs that must all end well.
#[track_caller]
pub fn all_well(children: impl IntoIterator<Item = Guarded>) {
    for child in children {
        finish_well(child);
    }
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
    let lines: Vec<_> = text.lines().filter(|line| line.starts_with("treecast: ")).collect();
    assert_eq!((code, lines.len()), (Some(1), 1), "{command:?}: {text}");
    assert_says(lines[0], words);
}

/// Runs a command that must fail with exit code 1 and say nothing but one line, which holds all of `words`.
#[track_caller]
pub fn only_refused(command: &mut Command, words: &[&str]) {
    let (code, text) = finish(start(command));
    assert_eq!((code, text.lines().count()), (Some(1), 1), "{command:?}: {text}");
    assert_says(&text, words);
}

/// Checks that a text holds all of `words`.
#[track_caller]
pub fn assert_says(text: &str, words: &[&str]) {
    let missing: Vec<_> = words.iter().filter(|word| !text.contains(**word)).collect();
    assert!(missing.is_empty(), "{missing:?} is not in {text:?}");
}
