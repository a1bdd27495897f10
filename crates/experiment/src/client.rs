//! One client of a run: it waits for its moment, gets the object, and its time is taken.

use std::{
    fs::{self, File},
    io::{self, BufRead, BufReader},
    path::{Path, PathBuf},
    process::Stdio,
    thread,
    time::{Duration, Instant},
};

use treecast_measure::db::ObjectTime;

use super::{
    server::{POLL, Server, last_line},
    told::Told,
    verify::{self, Digest},
};
use treecast_lab::process::{Ended, Make, Process, Spawn};

/// A client of one run.
pub struct Client<'a> {
    pub process: Process,
    /// Where its copy goes.
    pub folder: PathBuf,
    pub copy: PathBuf,
    /// Makes its program for a ticket's path.
    pub command: Make<'a>,
    pub spawn: Spawn<'a>,
    /// What the client compares its copy with, when its program does not (scp).
    pub digest: Option<(u64, Digest)>,
    /// Whether a client that lacks objects of a feed has done what it could.
    pub may_lack: bool,
    /// Whether a session that is over before the client had a part in it is followed by another.
    pub sessions_follow: bool,
    /// How long after the run's clients start.
    pub wait: Duration,
}

/// How a client fared, times since the run's start.
#[derive(Debug, Clone, Default)]
pub struct Fared {
    pub started: Option<Duration>,
    pub finished: Option<Duration>,
    pub failure: Option<String>,
    /// How often its program was started.
    pub attempts: u32,
    /// When and why all attempts but the last failed.
    pub earlier: Vec<(Duration, String)>,
    pub ended: Ended,
    pub told: Told,
    /// Whether its run ended by time, before it could have everything.
    pub is_cut_short: bool,
    /// The objects of a feed that it has, checked.
    pub objects: Vec<ObjectTime>,
}

impl Client<'_> {
    /// Waits, gets the object from `server`, and says how that went. `origin` is the run's start and
    /// `clients_start` the moment that the wait counts from.
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
            let again = self.sessions_follow && !self.process.is_barred() && fared.attempts < MAX_ATTEMPTS;
            match &fared.failure {
                Some(reason) if again => fared.earlier.push((origin.elapsed(), reason.clone())),
                _ => return fared,
            }
        }
    }

    /// Runs the program once. An error says in a few words why there is no copy.
    fn attempt(&self, ticket: &Path, origin: Instant, fared: &mut Fared) -> Result<(), String> {
        let errors = self.folder.with_extension("stderr");
        let failed = |error: io::Error| format!("its program could not be started: {error}");
        if fared.attempts > 1 {
            // What an attempt left must not take the next one's room.
            fs::remove_dir_all(&self.folder).and_then(|()| fs::create_dir(&self.folder)).map_err(failed)?;
        }
        fared.told = Told::default();
        let mut command = (self.command)(ticket).map_err(failed)?;
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        command.stderr(File::create(&errors).map_err(failed)?);
        let spawned = self.process.start(|| (self.spawn)(command)).map_err(failed)?;
        let mut child = spawned.ok_or_else(|| CUT_OFF.to_string())?;
        let mut complete = None;
        if let Some(output) = child.stdout.take() {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if fared.told.listen(&line) {
                    complete = Some(origin.elapsed());
                }
            }
        }
        let ended = self.process.wait(child).map_err(failed)?;
        let exited = origin.elapsed();
        fared.ended.add(&ended);
        match ended.code {
            Some(0) => self.check_digest()?,
            Some(SOME_FAILED) if self.may_lack => {}
            _ if self.process.is_barred() => return Err(CUT_OFF.into()),
            _ => {
                let told = fared.told.failure.clone().or_else(|| last_line(&errors));
                return Err(told.unwrap_or_else(|| ended.describe()));
            }
        }
        let checked = if self.digest.is_some() { origin.elapsed() } else { exited };
        fared.finished = Some(complete.unwrap_or(checked));
        Ok(())
    }

    fn check_digest(&self) -> Result<(), String> {
        match &self.digest {
            Some((size_bytes, digest)) => verify::check_copy(&self.copy, *size_bytes, digest),
            None => Ok(()),
        }
    }

    /// Waits for a session that this client has a place in. Returns its ticket's path; none when the client is
    /// cut off before, or the server fails.
    fn place(&self, server: &Server) -> Option<PathBuf> {
        let mut session = server.sessions().ask();
        while !self.process.is_barred() && server.failure().is_none() {
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
            if self.process.is_barred() {
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
    /// The run time of the paper's tables 1 to 5; none for a client without a verified copy.
    pub fn run_seconds(&self) -> Option<f64> {
        let (started, finished) = self.started.zip(self.finished.filter(|_| self.failure.is_none()))?;
        Some(finished.saturating_sub(started).as_secs_f64())
    }
}

/// The exit code of `treecast receive` when some files did not come.
const SOME_FAILED: i32 = 3;

/// How often a client tries, each time in another session.
const MAX_ATTEMPTS: u32 = 5;

/// Why a client has no copy when the run ended before it did.
pub const CUT_OFF: &str = "the run ended before it had everything";
const NOT_STARTED: &str = "the run ended before it started";

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::{programs::Ready, server::Opening};

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("treecast-client-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn shell(script: String) -> Command {
        let mut command = Command::new("sh");
        command.arg("-c").arg(script);
        command
    }

    fn client<'a>(folder: &Path, script: impl Fn(&Path) -> String + Sync + 'a) -> Client<'a> {
        Client {
            process: Process::default(),
            folder: {
                fs::create_dir_all(folder.join("client0")).unwrap();
                folder.join("client0")
            },
            copy: folder.join("client0/copy"),
            command: Box::new(move |ticket| Ok(shell(script(ticket)))),
            spawn: Box::new(|mut command| command.spawn()),
            digest: None,
            may_lack: false,
            sessions_follow: true,
            wait: Duration::ZERO,
        }
    }

    /// Runs `client` against a server whose sessions last a moment each.
    fn run(folder: &Path, client: &Client) -> Fared {
        let session = |ticket: &Path| shell(format!("echo ticket > {}; sleep 0.05", ticket.display()));
        let spawn: Spawn = Box::new(|mut command| command.spawn());
        let command = Box::new(move |opening: &Opening| session(&opening.ticket));
        let server = Server::new(folder.into(), Ready::Ticket, 1, command, spawn);
        let now = Instant::now();
        let fared = thread::scope(|scope| {
            scope.spawn(|| server.run());
            let fared = client.run(&server, now, now);
            server.stop(true);
            fared
        });
        std::fs::remove_dir_all(folder).unwrap();
        fared
    }

    #[test]
    fn a_client_that_came_too_late_for_a_session_takes_part_in_the_next() {
        let folder = folder("late");
        let late = client(&folder, |ticket| {
            format!(
                "case {} in *-1) echo too late >&2; exit 1;; esac; echo '{{\"event\":\"object\",\"bytes\":7}}'",
                ticket.display()
            )
        });
        let fared = run(&folder, &late);
        assert_eq!((fared.failure.clone(), fared.attempts, fared.told.received_bytes), (None, 2, 7));
        assert!(fared.run_seconds().unwrap() >= 0.05);
        assert_eq!(fared.earlier.len(), 1);
        assert_eq!(fared.earlier[0].1, "too late");
    }

    #[test]
    fn a_client_whose_delivery_has_no_sessions_fails_with_its_last_words() {
        let folder = folder("fails");
        let mut broken = client(&folder, |_| "echo disk full >&2; exit 1".into());
        broken.sessions_follow = false;
        let fared = run(&folder, &broken);
        assert_eq!((fared.failure.as_deref(), fared.attempts), (Some("disk full"), 1));
        assert_eq!(fared.run_seconds(), None);
    }

    #[test]
    fn a_client_that_is_cut_off_says_so() {
        let folder = folder("cut");
        let mut endless = client(&folder, |_| "sleep 60".into());
        endless.wait = Duration::from_secs(60);
        endless.process.bar(libc::SIGKILL);
        assert_eq!(run(&folder, &endless).failure.as_deref(), Some(NOT_STARTED));
    }
}
