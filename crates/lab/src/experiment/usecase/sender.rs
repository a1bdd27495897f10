//! `treecast mead` in a node: started, listened to, and ended.

use std::{
    io::{self, BufRead, BufReader},
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        mpsc::{self, Receiver, RecvTimeoutError},
    },
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;

use super::super::process::{Ended, Process};

/// Where programs send to what goes to the group (listing A.8).
pub const TUN_ADDRESS: &str = "fd15::1";

/// A sender that runs. Dropped, it is ended.
pub struct MeadSender {
    process: Arc<Process>,
    events: Receiver<(Instant, Said)>,
    /// When its first discovery was over.
    discovered: Option<Instant>,
    /// How many routers have registered for the newest group (Xcast+).
    registered: usize,
    /// The longest packet that its device takes, in bytes.
    pub mtu_bytes: u64,
}

enum Said {
    Event(Value),
    /// It has ended, with its last words.
    Ended(Option<Ended>, Option<String>),
}

/// What a sender has counted and used.
pub struct Done {
    /// When its first discovery was over.
    pub discovered: Option<Instant>,
    /// Its last event.
    pub counted: Value,
    pub cpu: Duration,
}

/// How long a sender may take for anything.
const PATIENCE: Duration = Duration::from_secs(20);

impl MeadSender {
    /// Starts one with `spawn`, which knows its node, and waits until it takes packets.
    pub fn start(command: Command, spawn: impl FnOnce(Command) -> io::Result<Child>) -> io::Result<Self> {
        let mut command = command;
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let process = Arc::new(Process::default());
        let started = process.start(|| spawn(command))?;
        let mut child = started.ok_or_else(|| io::Error::other("the sender was not to start"))?;
        let (tell, events) = mpsc::channel();
        let output = child.stdout.take().map(BufReader::new);
        let errors = child.stderr.take().map(BufReader::new);
        let reaper = Arc::clone(&process);
        thread::spawn(move || {
            for line in output.into_iter().flat_map(BufRead::lines).map_while(Result::ok) {
                if let Ok(event) = serde_json::from_str(&line) {
                    // Nobody may listen any more; it is waited for all the same.
                    _ = tell.send((Instant::now(), Said::Event(event)));
                }
            }
            let last = errors.into_iter().flat_map(BufRead::lines).map_while(Result::ok).last();
            _ = tell.send((Instant::now(), Said::Ended(reaper.wait(child).ok(), last)));
        });
        let mut sender = Self { process, events, discovered: None, registered: 0, mtu_bytes: 0 };
        sender.mtu_bytes = sender.wait_for("ready")?["mtu_bytes"].as_u64().unwrap_or(0);
        Ok(sender)
    }

    /// Waits until the first discovery is over. The group that it makes is in place a moment later.
    pub fn wait_discovered(&mut self) -> io::Result<()> {
        self.wait_for("tree").map(drop)
    }

    /// Waits until it has a group in which so many routers have registered, and no others any more.
    pub fn wait_registered(&mut self, routers: usize) -> io::Result<()> {
        self.wait_for("group")?;
        while self.registered != routers {
            self.wait_for("group")?;
        }
        Ok(())
    }

    fn wait_for(&mut self, kind: &str) -> io::Result<Value> {
        let end = Instant::now() + PATIENCE;
        loop {
            match self.next(end)? {
                (at, Said::Event(event)) => {
                    if event["event"] == "tree" {
                        self.discovered.get_or_insert(at);
                    }
                    if let Some(routers) = event["registered"].as_array() {
                        self.registered = routers.len();
                    }
                    if event["event"] == kind {
                        return Ok(event);
                    }
                }
                (_, Said::Ended(_, last)) => {
                    let last = last.unwrap_or_else(|| "it said nothing".into());
                    return Err(io::Error::other(format!("treecast mead has ended: {last}")));
                }
            }
        }
    }

    fn next(&self, end: Instant) -> io::Result<(Instant, Said)> {
        let left = end.saturating_duration_since(Instant::now());
        self.events.recv_timeout(left).map_err(|error| match error {
            RecvTimeoutError::Timeout => io::Error::other("treecast mead does not answer"),
            RecvTimeoutError::Disconnected => io::Error::other("treecast mead has ended"),
        })
    }

    /// Ends it.
    pub fn end(mut self) -> io::Result<Done> {
        self.process.signal(libc::SIGTERM);
        let counted = self.wait_for("done")?;
        let end = Instant::now() + PATIENCE;
        let ended = loop {
            if let (_, Said::Ended(ended, _)) = self.next(end)? {
                break ended.unwrap_or_default();
            }
        };
        Ok(Done { discovered: self.discovered, counted, cpu: ended.cpu_user + ended.cpu_system })
    }
}

impl Drop for MeadSender {
    fn drop(&mut self) {
        self.process.bar(libc::SIGTERM);
    }
}
