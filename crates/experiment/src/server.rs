//! The server's side of a run.
//!
//! tcp, udp, scp and carousel servers stay until the run is over. A sender of after or nack ends with its
//! session, and another follows for those who came meanwhile (`sessions.rs`), with a new ticket.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use super::{programs::Ready, sessions::Sessions};
use treecast_lab::process::{Ended, Process, Spawn};

/// How often the sign of readiness is looked for.
pub const POLL: Duration = Duration::from_millis(5);
/// How long a server may take to leave after it was asked to.
const GRACE: Duration = Duration::from_secs(5);
/// A server that ends so soon after its start, and with an error, is not started again.
const TOO_SOON: Duration = Duration::from_secs(1);

/// What a session starts with.
#[derive(Debug, Clone)]
pub struct Opening {
    pub ticket: PathBuf,
    /// How many receivers are to come.
    pub receivers: usize,
    /// Whether they are there and only have to connect; otherwise they come when their schedule says so.
    pub are_waiting: bool,
}

/// Makes the command line of a session's server.
pub type MakeServer<'a> = Box<dyn Fn(&Opening) -> Command + Sync + 'a>;

/// A server that clients can find.
pub struct Server<'a> {
    process: Process,
    folder: PathBuf,
    sessions: Sessions,
    pid: AtomicU32,
    failure: Mutex<Option<String>>,
    sign: Ready,
    command: MakeServer<'a>,
    spawn: Spawn<'a>,
}

impl<'a> Server<'a> {
    /// A server whose output and tickets go to `folder`, that shows by `sign` that it is ready, and is
    /// made and started by `command` and `spawn`. Its first session takes `first_places` clients.
    pub fn new(
        folder: PathBuf,
        sign: Ready,
        first_places: usize,
        command: MakeServer<'a>,
        spawn: Spawn<'a>,
    ) -> Self {
        Self {
            process: Process::default(),
            folder,
            sessions: Sessions::new(first_places),
            pid: AtomicU32::new(0),
            failure: Mutex::new(None),
            sign,
            command,
            spawn,
        }
    }

    /// Runs session after session until [`Server::stop`]; to be called on a thread of its own.
    pub fn run(&self) {
        while !self.process.is_barred() && self.failure().is_none() {
            match self.sessions.next() {
                Some((session, receivers)) => self.run_session(session, receivers),
                None => thread::sleep(POLL),
            }
        }
    }

    fn run_session(&self, session: u32, receivers: usize) {
        let start = Instant::now();
        let ended = self.start_and_wait(session, receivers);
        self.sessions.end();
        match ended {
            Ok(Some(ended)) if ended.code != Some(0) && start.elapsed() < TOO_SOON => {
                if !self.process.is_barred() {
                    self.fail(self.last_words());
                }
            }
            Ok(_) => {}
            Err(error) => self.fail(error.to_string()),
        }
    }

    fn start_and_wait(&self, session: u32, receivers: usize) -> io::Result<Option<Ended>> {
        let opening = Opening { ticket: self.ticket(session), receivers, are_waiting: session > 1 };
        let mut command = (self.command)(&opening);
        command.stdin(Stdio::null());
        command.stdout(File::create(self.log("stdout"))?).stderr(File::create(self.log("stderr"))?);
        let Some(child) = self.process.start(|| (self.spawn)(command))? else { return Ok(None) };
        self.pid.store(child.id(), Ordering::SeqCst);
        self.process.wait(child).map(Some)
    }

    /// The sessions, in which clients ask for a place.
    pub fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    /// The current session and its ticket's path, when clients can find it. Servers without tickets have the path
    /// of nothing.
    pub fn ready(&self) -> Option<(u32, PathBuf)> {
        let session = self.sessions.current();
        let ticket = self.ticket(session);
        let is_ready = match self.sign {
            Ready::Ticket => fs::metadata(&ticket).is_ok_and(|file| file.len() > 0),
            Ready::Port(transport, port) => is_bound(self.pid.load(Ordering::SeqCst), transport, port),
        };
        (is_ready && self.process.is_running()).then_some((session, ticket))
    }

    /// Waits for the first readiness. An error says in a few words why there is none.
    pub fn wait_ready(&self, until: Instant, stop: &dyn Fn() -> bool) -> Result<(), String> {
        while self.ready().is_none() {
            if let Some(failure) = self.failure() {
                return Err(failure);
            }
            if stop() || Instant::now() > until {
                return Err("it did not become ready".into());
            }
            thread::sleep(POLL);
        }
        Ok(())
    }

    /// Why the server could not go on.
    pub fn failure(&self) -> Option<String> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Ends the server: a session that is over may leave by itself, everything else is asked to.
    pub fn stop(&self, leaves_by_itself: bool) {
        let first = if leaves_by_itself { 0 } else { libc::SIGINT };
        for signal in [first, libc::SIGINT, libc::SIGKILL] {
            self.process.bar(signal);
            let end = Instant::now() + GRACE;
            while self.process.is_running() && Instant::now() < end {
                thread::sleep(POLL);
            }
            if !self.process.is_running() {
                return;
            }
        }
    }

    /// Whether the current session has begun: the receivers that it waits for are there.
    pub fn has_begun(&self) -> bool {
        let said = fs::read_to_string(self.log("stdout")).unwrap_or_default();
        said.lines().any(|line| line.contains(r#""event":"started""#))
    }

    /// The last line that the server wrote to its standard output.
    pub fn last_output(&self) -> Option<String> {
        last_line(&self.log("stdout"))
    }

    fn last_words(&self) -> String {
        last_line(&self.log("stderr")).unwrap_or_else(|| "it ended without a word".into())
    }

    fn fail(&self, reason: String) {
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(reason);
    }

    fn ticket(&self, session: u32) -> PathBuf {
        self.folder.join(format!("ticket-{session}"))
    }

    fn log(&self, stream: &str) -> PathBuf {
        self.folder.join(format!("server-{stream}"))
    }
}

/// The last line of a program's output that says something, at most 500 characters of it.
pub fn last_line(path: &Path) -> Option<String> {
    let text = fs::read(path).ok()?;
    let tail = String::from_utf8_lossy(&text[text.len().saturating_sub(4096)..]).into_owned();
    let line = tail.lines().rev().find(|line| !line.trim().is_empty())?;
    Some(line.trim().chars().take(500).collect())
}

/// Whether a socket is bound to `port` in the network namespace of `pid` (proc_pid_net(5)).
fn is_bound(pid: u32, transport: &str, port: u16) -> bool {
    let local = format!(":{port:04X}");
    ["", "6"].iter().any(|version| {
        let table = fs::read_to_string(format!("/proc/{pid}/net/{transport}{version}")).unwrap_or_default();
        table.lines().skip(1).any(|line| is_open_socket(line, &local))
    })
}

/// TCP sockets must listen (0A); UDP sockets that are bound are in state 07.
fn is_open_socket(line: &str, local: &str) -> bool {
    let mut fields = line.split_whitespace().skip(1);
    let (address, _, state) = (fields.next(), fields.next(), fields.next());
    address.is_some_and(|address| address.ends_with(local)) && matches!(state, Some("0A" | "07"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("treecast-server-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    fn server<'a>(folder: &Path, command: impl Fn(&Path) -> Command + Sync + 'a) -> Server<'a> {
        let command = Box::new(move |opening: &Opening| command(&opening.ticket));
        Server::new(folder.into(), Ready::Ticket, 1, command, Box::new(|mut command| command.spawn()))
    }

    fn never() -> bool {
        false
    }

    #[test]
    fn a_session_that_ends_is_followed_by_another_with_a_new_ticket() {
        let folder = folder("again");
        let session = |ticket: &Path| shell(&format!("echo t > {}; sleep 0.05", ticket.display()));
        let server = server(&folder, session);
        thread::scope(|scope| {
            scope.spawn(|| server.run());
            let until = Instant::now() + Duration::from_secs(30);
            while server.sessions().current() < 3 {
                server.sessions().ask();
                assert!(Instant::now() < until);
                thread::sleep(POLL);
            }
            server.stop(true);
        });
        assert!(folder.join("ticket-1").exists() && folder.join("ticket-2").exists());
        assert_eq!(server.failure(), None);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_server_that_cannot_start_says_why_and_is_not_tried_again() {
        let folder = folder("broken");
        let server = server(&folder, |_| shell("echo port in use >&2; exit 1"));
        server.run();
        assert_eq!(server.sessions().current(), 1);
        let until = Instant::now() + Duration::from_secs(30);
        assert_eq!(server.wait_ready(until, &never), Err("port in use".into()));
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_bound_port_is_seen_from_outside() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = std::net::UdpSocket::bind("[::1]:0").unwrap();
        let pid = std::process::id();
        assert!(is_bound(pid, "tcp", listener.local_addr().unwrap().port()));
        assert!(is_bound(pid, "udp", socket.local_addr().unwrap().port()));
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        assert!(!is_bound(pid, "tcp", port));
    }
}
