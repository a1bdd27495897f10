//! A program in a node that says what happens as JSON, a line each: started, listened to, and ended.

use std::{
    io::{self, BufRead, BufReader},
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        mpsc::{self, Receiver, RecvTimeoutError},
    },
    thread,
    time::Instant,
};

use serde_json::Value;

use treecast_lab::process::{Ended, Process};

/// A program that runs. Dropped, it is ended.
pub struct Program {
    name: String,
    process: Arc<Process>,
    said: Receiver<(Instant, Said)>,
}

/// What it says.
pub enum Said {
    Event(Value),
    /// It has ended, with its last words.
    Ended(Option<Ended>, Option<String>),
}

impl Program {
    /// Starts one with `spawn`, which knows its node.
    pub fn start(command: Command, spawn: impl FnOnce(Command) -> io::Result<Child>) -> io::Result<Self> {
        let mut command = command;
        let verb = command.get_args().next().unwrap_or_default().to_string_lossy().into_owned();
        let name = format!("treecast {verb}");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let process = Arc::new(Process::default());
        let started = process.start(|| spawn(command))?;
        let mut child = started.ok_or_else(|| io::Error::other(format!("{name} was not to start")))?;
        let (tell, said) = mpsc::channel();
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
        Ok(Self { name, process, said })
    }

    /// What it has said and nobody has heard yet.
    pub fn said(&self) -> Option<(Instant, Said)> {
        self.said.try_recv().ok()
    }

    /// Waits until `end` for the next event, and fails when it ends instead.
    pub fn event(&self, end: Instant) -> io::Result<(Instant, Value)> {
        match self.next(end)? {
            (at, Said::Event(event)) => Ok((at, event)),
            (_, Said::Ended(_, last)) => {
                let last = last.unwrap_or_else(|| "it said nothing".into());
                Err(io::Error::other(format!("{} has ended: {last}", self.name)))
            }
        }
    }

    /// Waits until `end` for its end, whatever it says before: how it has ended, and its last words.
    pub fn ended(&self, end: Instant) -> io::Result<(Option<Ended>, Option<String>)> {
        loop {
            if let (_, Said::Ended(ended, last)) = self.next(end)? {
                return Ok((ended, last));
            }
        }
    }

    fn next(&self, end: Instant) -> io::Result<(Instant, Said)> {
        let left = end.saturating_duration_since(Instant::now());
        self.said.recv_timeout(left).map_err(|error| match error {
            RecvTimeoutError::Timeout => io::Error::other(format!("{} does not answer", self.name)),
            RecvTimeoutError::Disconnected => io::Error::other(format!("{} has ended", self.name)),
        })
    }

    pub fn signal(&self, signal: i32) {
        self.process.signal(signal);
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.process.bar(libc::SIGTERM);
    }
}
