//! A run in which flows share a link: the first flow begins, its rivals follow, and all end when the time is
//! over.

use std::{
    io,
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, ScopedJoinHandle},
    time::{Duration, Instant},
};

use super::{connection::Connection, uftp::Uftp};
use crate::{
    client::{CUT_OFF, Fared},
    document::sharing::{Change, Sharing},
    plan::path::SharedPath,
    server::POLL,
    session::{Played, Session},
    site::Site,
};

/// The time that the flows may take to begin.
const BEGINNING: Duration = Duration::from_secs(60);

/// A flow on the shared link.
pub enum Flow<'a> {
    Session(Box<Session<'a>>),
    Tcp(Connection<'a>),
    Uftp(Uftp<'a>),
}

/// The flows, links and times of such a run.
pub struct Contest<'a> {
    pub site: &'a dyn Site,
    pub sharing: &'a Sharing,
    pub path: &'a SharedPath,
    pub changes: &'a [Change],
    pub origin: Instant,
    pub first: Flow<'a>,
    /// The rival flows, and how long after the one before it each begins.
    pub rivals: Vec<(Flow<'a>, Duration)>,
    /// The times at which the flows have begun, counted from the run's start.
    pub begun: &'a [OnceLock<Duration>],
}

/// The result of the run.
pub struct Outcome {
    /// The result of the first flow.
    pub played: Played,
    pub rival_failures: Vec<String>,
    /// The rates of the link, each with the time since the run's start from which on it held.
    pub rates: Vec<(Duration, u64)>,
    /// The begin and the end of the time when all flows ran together. `None` when they never did.
    pub together: Option<(Duration, Duration)>,
}

type Playing<'scope> = ScopedJoinHandle<'scope, io::Result<Played>>;

impl Contest<'_> {
    /// Makes the run; `stop` ends it early.
    pub fn play(&self, stop: &dyn Fn() -> bool) -> io::Result<Outcome> {
        let rate_bps = self.path.quality.rate_bps.unwrap_or_default();
        self.set_rate(rate_bps)?;
        let mut rates = vec![(Duration::ZERO, rate_bps)];
        let (is_over, mut together) = (AtomicBool::new(false), None);
        let (played, rivals) = thread::scope(|scope| {
            let first = scope.spawn(|| self.first.play(&is_over, self.origin));
            let mut rivals: Vec<Playing> = Vec::new();
            let ended = self.referee(stop, &first, &mut rivals, &mut rates, |flow| {
                scope.spawn(|| flow.play(&is_over, self.origin))
            });
            is_over.store(true, Ordering::Relaxed);
            // It was unlimited before and is again, should the next run want that.
            let restored = self.set_rate(rate_bps);
            let outcome = (join(first), rivals.into_iter().map(join).collect::<Vec<_>>());
            together = restored.and(ended)?;
            Ok::<_, io::Error>(outcome)
        })?;
        let rival_failures = rivals.into_iter().filter_map(failure_of_rival).collect();
        let mut played = played?;
        played.interrupted = stop() && together.is_none();
        played.clients.iter_mut().for_each(|fared| judge(fared, together.is_some()));
        Ok(Outcome { played, rival_failures, rates, together })
    }

    /// Lets the rivals follow, changes the link and waits until the time is over. Returns from when to when all flows
    /// ran; none when one ended, or did not begin.
    fn referee<'scope, 'flow>(
        &'flow self,
        stop: &dyn Fn() -> bool,
        first: &Playing<'scope>,
        rivals: &mut Vec<Playing<'scope>>,
        rates: &mut Vec<(Duration, u64)>,
        start: impl Fn(&'flow Flow<'flow>) -> Playing<'scope>,
    ) -> io::Result<Option<(Duration, Duration)>> {
        let until = |rivals: &[Playing], is_reached: &dyn Fn() -> bool, at_most: Duration| {
            let end = Instant::now() + at_most;
            loop {
                if is_reached() {
                    return true;
                }
                let lacks_one = first.is_finished() || rivals.iter().any(|rival| rival.is_finished());
                if stop() || lacks_one || Instant::now() >= end {
                    return false;
                }
                thread::sleep(POLL);
            }
        };
        if !until(rivals, &|| self.begun[0].get().is_some(), BEGINNING) {
            return Ok(None);
        }
        for ((flow, after), begun) in self.rivals.iter().zip(&self.begun[1..]) {
            let begins = Instant::now() + *after;
            if !until(rivals, &|| Instant::now() >= begins, *after + POLL) {
                return Ok(None);
            }
            rivals.push(start(flow));
            if !until(rivals, &|| begun.get().is_some(), BEGINNING) {
                return Ok(None);
            }
        }
        let from = self.begun.iter().filter_map(OnceLock::get).max().copied().unwrap_or_default();
        for change in self.changes {
            let at = from + change.after.0;
            if !until(rivals, &|| self.origin.elapsed() >= at, change.after.0 + BEGINNING) {
                return Ok(None);
            }
            self.set_rate(change.rate.0)?;
            rates.push((self.origin.elapsed(), change.rate.0));
        }
        let end = from + self.sharing.lasts.0;
        let is_whole = until(rivals, &|| self.origin.elapsed() >= end, self.sharing.lasts.0 + BEGINNING);
        Ok(is_whole.then_some((from, end)))
    }

    /// Gives the link another rate, both ways.
    fn set_rate(&self, rate_bps: u64) -> io::Result<()> {
        self.path.ends.iter().try_for_each(|(node, interface)| self.site.set_rate(*node, interface, rate_bps))
    }
}

impl Flow<'_> {
    fn play(&self, is_over: &AtomicBool, origin: Instant) -> io::Result<Played> {
        match self {
            Self::Session(session) => session.play(&mut |_, _| {}, &|| is_over.load(Ordering::Relaxed)),
            Self::Tcp(connection) => {
                Ok(played(origin, 1, || connection.run(is_over).map(|bytes| vec![bytes])))
            }
            Self::Uftp(uftp) => Ok(played(origin, uftp.to.len(), || uftp.run(is_over))),
        }
    }
}

/// Runs a flow that is no session to its end. It tells how many bytes each of its receivers has got.
fn played(origin: Instant, receivers: usize, run: impl FnOnce() -> io::Result<Vec<u64>>) -> Played {
    let start = origin.elapsed();
    let ended = run();
    // As a client of a session has, that is ended in the same way.
    let failure = ended.as_ref().map_or_else(ToString::to_string, |_| CUT_OFF.into());
    let bytes = ended.unwrap_or_else(|_| vec![0; receivers]);
    let client = |received_bytes: u64| {
        let mut fared = Fared { started: Some(start), failure: Some(failure.clone()), ..Fared::default() };
        fared.told.received_bytes = received_bytes;
        fared
    };
    let clients = bytes.into_iter().map(client).collect();
    Played { clients, clients_start: start, duration: origin.elapsed() - start, ..Played::default() }
}

fn join(playing: Playing) -> io::Result<Played> {
    playing.join().unwrap_or_else(|_| Err(io::Error::other("a flow panicked")))
}

/// The reason why a rival was none.
fn failure_of_rival(played: io::Result<Played>) -> Option<String> {
    match played {
        Err(error) => Some(error.to_string()),
        Ok(played) => {
            let of_clients = played.clients.into_iter().filter_map(|fared| fared.failure);
            played.server_failure.into_iter().chain(of_clients).find(|failure| failure != CUT_OFF)
        }
    }
}

/// A client that was cut off when the time was over has done what it had to.
fn judge(fared: &mut Fared, is_over: bool) {
    fared.is_cut_short = true;
    fared.failure = match fared.failure.take() {
        Some(failure) if is_over && failure == CUT_OFF => None,
        None => Some("it had everything before the time was over: send more (--set sizes=...)".into()),
        failure => failure,
    };
}
