//! Programs that tests start. One that still runs when its test ends, or panics, is killed.

use std::{
    fs,
    io::{self, BufRead, BufReader},
    ops::{Deref, DerefMut},
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::Path,
    process::{Child, Command, Output, Stdio},
    sync::{
        atomic::{AtomicBool, AtomicU32, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;

/// What has not happened after so long will not happen.
const PATIENCE: Duration = Duration::from_secs(180);

const NOBODY: u32 = 65_534;

/// What `treecast` does for a user without any rights: a copy of it that anybody may start, wherever the build is.
pub fn treecast_as_nobody(arguments: &[&str]) -> Output {
    static COPIES: AtomicU32 = AtomicU32::new(0);
    let number = COPIES.fetch_add(1, Ordering::Relaxed);
    let copy = std::env::temp_dir().join(format!("treecast-nobody-{}-{number}", std::process::id()));
    copy_treecast(&copy);
    let output = Command::new(&copy).args(arguments).stdin(Stdio::null()).uid(NOBODY).gid(NOBODY).output();
    let _ = fs::remove_file(&copy);
    output.expect("anybody may run it")
}

/// Makes a copy of the program that anybody may start.
///
/// `cp` writes it. A thread of this process that starts a child while the copy is open for writing would pass the open file on, and
/// the kernel refuses to start a file that somebody may write (ETXTBSY).
pub fn copy_treecast(to: &Path) {
    let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_treecast")).arg(to).status().expect("cp starts");
    assert!(copied.success(), "{}", to.display());
}

/// A file that only its owner may read; removed when this is dropped.
pub struct PrivateFile(String);

impl PrivateFile {
    pub fn new(text: &str) -> Self {
        static FILES: AtomicU32 = AtomicU32::new(0);
        let number = FILES.fetch_add(1, Ordering::Relaxed);
        let file = std::env::temp_dir().join(format!("treecast-file-{}-{number}", std::process::id()));
        fs::write(&file, text).expect("a temporary file");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("it is ours");
        Self(file.into_os_string().into_string().expect("a plain name"))
    }

    /// A domain's key.
    pub fn key() -> Self {
        Self::new(&"07".repeat(32))
    }

    pub fn text(&self) -> String {
        fs::read_to_string(&self.0).expect("it is there")
    }

    /// Puts another file in its place at once, so that nobody reads half of it.
    pub fn replace(&self, text: &str) {
        fs::rename(&*Self::new(text), &**self).expect("it is ours");
    }
}

impl Deref for PrivateFile {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl Drop for PrivateFile {
    fn drop(&mut self) {
        // Some tests remove it themselves.
        _ = fs::remove_file(&self.0);
    }
}

/// A child process that is killed when this is dropped.
pub struct Guarded(Option<Child>);

/// Starts processes so.
pub trait SpawnGuarded {
    /// As `spawn`, which must succeed.
    fn spawn_guarded(&mut self) -> Guarded;
}

impl SpawnGuarded for Command {
    #[track_caller]
    fn spawn_guarded(&mut self) -> Guarded {
        Guarded(Some(self.spawn().unwrap_or_else(|error| panic!("{self:?}: {error}"))))
    }
}

impl Guarded {
    /// Signals the program.
    #[track_caller]
    pub fn signal(&self, signal: i32) {
        treecast_host::process::signal(self, signal).expect("it has not been waited for");
    }

    /// Kills the program, and waits until it has ended. It may have ended by itself.
    pub fn end(&mut self) {
        _ = self.kill();
        _ = self.wait();
    }

    /// As that of [`Child`].
    pub fn wait_with_output(mut self) -> io::Result<Output> {
        self.0.take().expect("it is taken once").wait_with_output()
    }
}

impl Deref for Guarded {
    type Target = Child;

    fn deref(&self) -> &Child {
        self.0.as_ref().expect("it is taken when this is dropped")
    }
}

impl DerefMut for Guarded {
    fn deref_mut(&mut self) -> &mut Child {
        self.0.as_mut().expect("it is taken when this is dropped")
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            // It may have ended.
            _ = child.kill();
            _ = child.wait();
        }
    }
}

/// A program that prints what happens as JSON, an event a line. Dropped, it is killed.
pub struct Teller {
    pub child: Guarded,
    /// Read from the start: a program whose pipe is full waits, and its session gives it up.
    lines: mpsc::Receiver<String>,
    /// All that was waited for so far, and all before it, but for progress.
    events: Vec<Value>,
}

impl Teller {
    /// Starts a program and listens to it. Its standard input is piped.
    #[track_caller]
    pub fn start(command: &mut Command) -> Self {
        Self::of(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn_guarded())
    }

    /// Listens to a program whose standard output is piped.
    pub fn of(mut child: Guarded) -> Self {
        let lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        let (said, heard) = mpsc::channel();
        thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| said.send(line)));
        Self { child, lines: heard, events: Vec::new() }
    }

    /// Waits for the next event.
    #[track_caller]
    pub fn any(&mut self) -> Value {
        let line = self.lines.recv_timeout(PATIENCE);
        let line = line.unwrap_or_else(|error| panic!("{error} after {:?}", self.events));
        self.keep(&line)
    }

    fn keep(&mut self, line: &str) -> Value {
        let event: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        if event["event"] != "progress" {
            self.events.push(event.clone());
        }
        event
    }

    /// The events that have come already.
    pub fn pending(&mut self) -> Vec<Value> {
        let lines: Vec<_> = self.lines.try_iter().collect();
        lines.iter().map(|line| self.keep(line)).collect()
    }

    /// Waits for the next event that is so.
    #[track_caller]
    pub fn wait_for(&mut self, is_so: impl Fn(&Value) -> bool) -> Value {
        loop {
            let event = self.any();
            if is_so(&event) {
                return event;
            }
        }
    }

    /// Waits for the next event of a kind.
    #[track_caller]
    pub fn next(&mut self, kind: &str) -> Value {
        self.wait_for(|event| event["event"] == kind)
    }

    /// Waits for the program's end, and returns its exit code, if it has one.
    pub fn wait(mut self) -> Option<i32> {
        self.child.wait().expect("it is our child").code()
    }

    /// Waits until the program is done, which must be well, and returns its last event and all events.
    #[track_caller]
    pub fn end(mut self) -> (Value, Vec<Value>) {
        let done = self.next("done");
        assert!(self.child.wait().expect("it is our child").success(), "{done}");
        (done, self.events)
    }
}

/// How long no UDP datagram came to this thread's network at most, between the first one and the stop.
pub fn longest_silence(stop: &AtomicBool) -> Duration {
    let datagrams = || -> u64 {
        let text = fs::read_to_string("/proc/thread-self/net/snmp6").expect("the kernel tells");
        let line = text.lines().find(|line| line.starts_with("Udp6InDatagrams")).expect("a line");
        line.split_whitespace().last().and_then(|count| count.parse().ok()).expect("a number")
    };
    let (mut seen, mut since, mut longest) = (datagrams(), None::<Instant>, Duration::ZERO);
    while !stop.load(Ordering::Relaxed) {
        let (count, now) = (datagrams(), Instant::now());
        if count > seen {
            longest = longest.max(since.map_or(Duration::ZERO, |since| now - since));
            (seen, since) = (count, Some(now));
        }
        thread::sleep(Duration::from_millis(2));
    }
    longest
}
