//! Runs one client: it waits for its moment, gets the object, and its time is measured.

use std::{
    io,
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use treecast_lab::process::Ended;

use crate::{
    cargo::products::ObjectTime,
    server::{POLL, Server},
    site::{Program, Said, Slot},
    told::Told,
    verify::CopyError,
};

/// Starts a client's program with a ticket; the number counts its attempts from 1.
pub type Start<'a> = Box<dyn Fn(&str, u32) -> io::Result<Program> + Sync + 'a>;

/// Compares a client's copy with the source.
pub type Check<'a> = Box<dyn Fn() -> Result<(), CopyError> + Sync + 'a>;

/// A client of one run.
pub struct Client<'a> {
    pub slot: Slot,
    /// The folder at the client's node where its copies go.
    pub folder: PathBuf,
    pub start: Start<'a>,
    /// The comparison of the copy with the source, as part of the measured time. It is given for programs that
    /// do not compare by themselves (scp).
    pub check: Option<Check<'a>>,
    /// Whether the client has done its work even when it lacks something.
    pub may_lack: bool,
    /// Whether another session follows when one is over before the client had a part in it.
    pub sessions_follow: bool,
    /// The time that the client waits before it starts, counted from when the clients can start.
    pub wait: Duration,
    pub fate: Fate,
}

/// A client's state as a controller of a local group, for deaths that an experiment asks for.
#[derive(Debug, Default)]
pub struct Fate {
    /// The group of which the client is the controller, as its program has told last. `None` unless others report to it.
    serves: Mutex<Option<u32>>,
    has_died: AtomicBool,
}

/// The result of one client. Times count from the run's start.
#[derive(Debug, Clone, Default)]
pub struct Fared {
    pub started: Option<Duration>,
    pub finished: Option<Duration>,
    pub failure: Option<String>,
    /// The number of times that the client's program was started.
    pub attempts: u32,
    /// The time and the reason of each failed attempt, except the last one.
    pub earlier: Vec<(Duration, String)>,
    pub ended: Ended,
    pub told: Told,
    /// Whether the run ended before the client could get everything.
    pub is_cut_short: bool,
    /// Whether its program was killed, as the experiment wanted.
    pub has_died: bool,
    /// The objects of a feed that the client got, and that were checked. `None` where one file was delivered.
    pub objects: Option<Vec<ObjectTime>>,
}

impl Client<'_> {
    /// Waits, gets the object from `server`, and returns the result. `origin` is the run's start, and
    /// `clients_start` the moment from which the client's wait counts.
    pub fn run(&self, server: &Server, origin: Instant, clients_start: Instant) -> Fared {
        let mut fared = Fared::default();
        if !self.sleep_until(clients_start + self.wait) {
            fared.failure = Some(NOT_STARTED.into());
            return fared;
        }
        fared.started = Some(origin.elapsed());
        loop {
            let Some(ticket) = self.place(server) else {
                let none = || if fared.attempts == 0 { NOT_STARTED } else { CUT_OFF }.to_string();
                fared.failure = fared.failure.or_else(|| server.failure()).or_else(|| Some(none()));
                return fared;
            };
            fared.attempts += 1;
            fared.failure = self.attempt(&ticket, origin, &mut fared).err();
            if fared.failure.is_some() && self.fate.has_died.load(Ordering::Relaxed) {
                (fared.failure, fared.has_died) = (None, true);
                return fared;
            }
            let again = self.sessions_follow && !self.slot.is_closed() && fared.attempts < MAX_ATTEMPTS;
            match &fared.failure {
                Some(reason) if again => fared.earlier.push((origin.elapsed(), reason.clone())),
                _ => return fared,
            }
        }
    }

    /// The group of which the client is the controller. `None` unless its program runs and others report to it.
    pub fn serves(&self) -> Option<u32> {
        let runs = self.slot.is_running() && !self.slot.is_closed();
        let serves = *self.fate.serves.lock().unwrap_or_else(PoisonError::into_inner);
        serves.filter(|_| runs)
    }

    /// Kills the client's program for good.
    pub fn die(&self) {
        self.fate.has_died.store(true, Ordering::Relaxed);
        self.slot.close(libc::SIGKILL);
    }

    /// Runs the program once. An error says in a few words why there is no copy.
    fn attempt(&self, ticket: &str, origin: Instant, fared: &mut Fared) -> Result<(), String> {
        let asked = origin.elapsed();
        let failed = |error: io::Error| format!("its program could not be started: {error}");
        fared.told = Told::default();
        let program = self.slot.start(|| (self.start)(ticket, fared.attempts)).map_err(failed)?;
        let program = program.ok_or_else(|| CUT_OFF.to_string())?;
        let mut complete = None;
        let (ended, last) = loop {
            match program.said.recv() {
                // The way to a host far away is no part of the time that the client takes.
                Ok((at, Said::Began)) => {
                    let way = at.saturating_duration_since(origin).saturating_sub(asked);
                    fared.started = fared.started.map(|started| started + way);
                }
                Ok((at, Said::Line(line))) => {
                    if fared.told.listen(&line) {
                        complete = Some(at.saturating_duration_since(origin));
                    }
                    *self.fate.serves.lock().unwrap_or_else(PoisonError::into_inner) = fared.told.serves();
                }
                Ok((_, Said::Ended(ended, last))) => break (ended, last),
                Err(_) => break (Ended::default(), None),
            }
        };
        self.slot.ended();
        let exited = origin.elapsed();
        fared.ended.add(&ended);
        match ended.code {
            Some(0) => {
                self.check.as_ref().map_or(Ok(()), |check| check()).map_err(|error| error.to_string())?
            }
            Some(SOME_FAILED) if self.may_lack => {}
            _ if self.slot.is_closed() => return Err(CUT_OFF.into()),
            _ => {
                let told = fared.told.failure.clone().or(last);
                return Err(told.unwrap_or_else(|| ended.describe()));
            }
        }
        let checked = if self.check.is_some() { origin.elapsed() } else { exited };
        fared.finished = Some(complete.unwrap_or(checked));
        Ok(())
    }

    /// Waits for a session that this client has a place in. Returns its ticket; `None` when the client is cut off before, or
    /// the server fails.
    fn place(&self, server: &Server) -> Option<Arc<str>> {
        let mut session = server.sessions().ask();
        while !self.slot.is_closed() && server.failure().is_none() {
            if server.sessions().has_ended(session) {
                session = server.sessions().ask();
            }
            match server.ready() {
                Some((current, ticket)) if current >= session => return Some(ticket),
                _ => thread::sleep(POLL),
            }
        }
        None
    }

    /// False when the client was cut off meanwhile.
    fn sleep_until(&self, moment: Instant) -> bool {
        const SLICE: Duration = Duration::from_millis(50);
        loop {
            let left = moment.saturating_duration_since(Instant::now());
            if self.slot.is_closed() {
                return false;
            }
            if left.is_zero() {
                return true;
            }
            thread::sleep(left.min(SLICE));
        }
    }
}

impl Fared {
    /// Returns the run time as tables 1 to 5 of the paper have it; none for a client without a verified copy.
    pub fn run_seconds(&self) -> Option<f64> {
        let (started, finished) = self.started.zip(self.finished.filter(|_| self.failure.is_none()))?;
        Some(finished.saturating_sub(started).as_secs_f64())
    }
}

/// The exit code of `treecast receive` when some files did not come.
const SOME_FAILED: i32 = 3;

/// The most tries of a client, each in another session.
const MAX_ATTEMPTS: u32 = 5;

/// The reason that is given for a client that has no copy when the run ends.
pub const CUT_OFF: &str = "the run ended before it had everything";
const NOT_STARTED: &str = "the run ended before it started";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::site::tests::{TICKET_LINE, shell};

    /// A client whose program is a script, by the number of the attempt.
    fn client<'a>(script: impl Fn(u32) -> String + Sync + 'a) -> Client<'a> {
        Client {
            slot: Slot::default(),
            folder: PathBuf::new(),
            start: Box::new(move |_, attempt| shell(&script(attempt))),
            check: None,
            may_lack: false,
            sessions_follow: true,
            wait: Duration::ZERO,
            fate: Fate::default(),
        }
    }

    /// Runs `client` against a server whose sessions last a moment each.
    fn run(client: &Client) -> Fared {
        let start = |_| shell(&format!("echo '{TICKET_LINE}'; sleep 0.05"));
        let server = Server::new(1, Box::new(start), None);
        let now = Instant::now();
        thread::scope(|scope| {
            scope.spawn(|| server.run());
            let fared = client.run(&server, now, now);
            server.stop(true);
            fared
        })
    }

    #[test]
    fn a_client_that_came_too_late_for_a_session_takes_part_in_the_next() {
        let late = client(|attempt| {
            format!(
                "test {attempt} = 1 && {{ echo too late >&2; exit 1; }}; echo '{{\"event\":\"progress\",\"bytes\":7}}'"
            )
        });
        let fared = run(&late);
        assert_eq!((fared.failure.clone(), fared.attempts, fared.told.received_bytes), (None, 2, 7));
        assert!(fared.run_seconds().unwrap() >= 0.05);
        assert_eq!(fared.earlier.len(), 1);
        assert_eq!(fared.earlier[0].1, "too late");
    }

    #[test]
    fn a_client_whose_delivery_has_no_sessions_fails_with_its_last_words() {
        let mut broken = client(|_| "echo disk full >&2; exit 1".into());
        broken.sessions_follow = false;
        let fared = run(&broken);
        assert_eq!((fared.failure.as_deref(), fared.attempts), (Some("disk full"), 1));
        assert_eq!(fared.run_seconds(), None);
    }

    #[test]
    fn a_client_that_is_cut_off_says_so() {
        let mut endless = client(|_| "sleep 60".into());
        endless.wait = Duration::from_secs(60);
        endless.slot.close(libc::SIGKILL);
        assert_eq!(run(&endless).failure.as_deref(), Some(NOT_STARTED));
    }
}
