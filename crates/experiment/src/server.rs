//! Runs the server of a run.
//!
//! Servers of tcp, udp, scp and carousels stay until the run is over. A sender that waits for its receivers
//! ends with its session. Another one follows for the clients that came meanwhile (`sessions.rs`), with a new
//! ticket.

use std::{
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc::RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use treecast_driver::send::SendEvent;
use treecast_lab::process::Ended;

use crate::{
    sessions::Sessions,
    site::{Input, Program, Said, Slot},
    told::{Figures, Line, ToldSender},
};

/// The time between two looks whether the server is ready.
pub const POLL: Duration = Duration::from_millis(5);
/// The time that a server may take to leave after it was asked to.
const GRACE: Duration = Duration::from_secs(5);
/// A server that ends so soon after its start, and with an error, is not started again.
const TOO_SOON: Duration = Duration::from_secs(1);

/// The receivers that a session starts with.
#[derive(Debug, Clone, Copy)]
pub struct Opening {
    /// The number of receivers that are to come.
    pub receivers: usize,
    /// Whether the receivers have been started and only have to connect. Otherwise they start when their
    /// schedule says so.
    pub are_waiting: bool,
}

/// Starts the server of a session.
pub type Start<'a> = Box<dyn Fn(Opening) -> io::Result<Program> + Sync + 'a>;

/// Whether a server without a ticket can be reached.
pub type IsListening<'a> = Box<dyn Fn() -> io::Result<bool> + Sync + 'a>;

/// A server that clients can find.
pub struct Server<'a> {
    slot: Slot,
    sessions: Sessions,
    state: Mutex<State>,
    start: Start<'a>,
    /// The function that tells whether the server listens. `None` for a server that prints its ticket.
    is_listening: Option<IsListening<'a>>,
}

#[derive(Default)]
struct State {
    /// The ticket of the current session, when clients may come; empty for a server without tickets.
    ticket: Option<Arc<str>>,
    /// Whether the receivers that the current session waits for are there.
    has_begun: bool,
    /// Returns why the server could not go on.
    failure: Option<String>,
    /// The server's program refused to start a session at all.
    is_refused: bool,
    /// The last event that it printed.
    last: Option<String>,
    told: ToldSender,
    figures: Figures,
    used: Ended,
    /// The standard input of the program that runs, until somebody takes it.
    input: Option<Input>,
}

impl<'a> Server<'a> {
    /// Creates a server whose first session takes `first_places` clients.
    pub fn new(first_places: usize, start: Start<'a>, is_listening: Option<IsListening<'a>>) -> Self {
        Self {
            slot: Slot::default(),
            sessions: Sessions::new(first_places),
            state: Mutex::default(),
            start,
            is_listening,
        }
    }

    /// Runs session after session until [`Server::stop`]. To be called on a thread of its own.
    pub fn run(&self) {
        while !self.slot.is_closed() && self.failure().is_none() {
            match self.sessions.next() {
                Some((session, receivers)) => self.run_session(session, receivers),
                None => thread::sleep(POLL),
            }
        }
    }

    fn run_session(&self, session: u32, receivers: usize) {
        let start = Instant::now();
        let opening = Opening { receivers, are_waiting: session > 1 };
        let ended = self
            .slot
            .start(|| (self.start)(opening))
            .map(|program| program.map(|program| self.hear(program)));
        self.slot.ended();
        let was_ready = {
            let mut state = self.lock();
            state.has_begun = false;
            state.ticket.take().is_some()
        };
        self.sessions.end();
        match ended {
            Ok(Some((ended, last))) => {
                let failed = ended.code != Some(0) && start.elapsed() < TOO_SOON && !self.slot.is_closed();
                self.lock().used.add(&ended);
                if failed {
                    let mut state = self.lock();
                    state.is_refused = !was_ready;
                    state.failure = Some(last.unwrap_or_else(|| ended.describe()));
                }
            }
            Ok(None) => {}
            Err(error) => self.lock().failure = Some(error.to_string()),
        }
    }

    /// Listens to the program until it has ended.
    fn hear(&self, mut program: Program) -> (Ended, Option<String>) {
        self.lock().input = program.input.take();
        loop {
            match program.said.recv_timeout(POLL) {
                Ok((_, Said::Began)) => {}
                Ok((_, Said::Line(line))) => self.note(line),
                Ok((_, Said::Ended(ended, last))) => return (ended, last),
                Err(RecvTimeoutError::Timeout) => self.look(),
                Err(RecvTimeoutError::Disconnected) => return (Ended::default(), None),
            }
        }
    }

    fn note(&self, line: String) {
        let event = serde_json::from_str(&line);
        let mut state = self.lock();
        match serde_json::from_str(&line) {
            Ok(Line::Ready { ticket }) => state.ticket = Some(ticket.into()),
            Ok(Line::Figures { figures }) => state.figures.note(figures),
            Err(_) => {}
        }
        event.iter().for_each(|event| state.told.note(event));
        match event {
            Ok(SendEvent::Ready { ticket }) => state.ticket = Some(ticket.to_string().into()),
            Ok(SendEvent::Started { .. }) => state.has_begun = true,
            _ => {}
        }
        state.last = Some(line);
    }

    fn look(&self) {
        let Some(is_listening) = &self.is_listening else { return };
        if self.lock().ticket.is_none() && is_listening().unwrap_or(false) {
            self.lock().ticket = Some(Arc::from(""));
        }
    }

    /// Returns the sessions, in which clients ask for a place.
    pub fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    /// Returns the current session and its ticket, when clients can find it.
    pub fn ready(&self) -> Option<(u32, Arc<str>)> {
        let state = self.lock();
        state.ticket.clone().map(|ticket| (self.sessions.current(), ticket))
    }

    /// Waits until the server is ready for the first time. An error says in a few words why it is not.
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

    /// Returns why the server could not go on.
    pub fn failure(&self) -> Option<String> {
        self.lock().failure.clone()
    }

    /// Whether the program refused what it was asked to do before any client could come.
    pub fn is_refused(&self) -> bool {
        self.lock().is_refused
    }

    /// Whether the receivers that the current session waits for have connected.
    pub fn has_begun(&self) -> bool {
        self.lock().has_begun
    }

    /// Takes the standard input of the current program, where it has one.
    pub fn input(&self) -> Option<Input> {
        self.lock().input.take()
    }

    /// Returns the last event that the server printed.
    pub fn last_event(&self) -> Option<String> {
        self.lock().last.clone()
    }

    /// Returns what all programs of the server have sent and heard.
    pub fn told(&self) -> ToldSender {
        self.lock().told
    }

    /// Returns the numbers that a program of somebody else has told.
    pub fn figures(&self) -> Figures {
        self.lock().figures.clone()
    }

    /// Returns the resources that all programs of the server have used.
    pub fn used(&self) -> Ended {
        self.lock().used.clone()
    }

    /// Ends the server. `leaves_by_itself`: a program whose session is over may end by itself. All other
    /// programs are asked to end.
    pub fn stop(&self, leaves_by_itself: bool) {
        let first = if leaves_by_itself { 0 } else { libc::SIGINT };
        for signal in [first, libc::SIGINT, libc::SIGKILL] {
            self.slot.close(signal);
            let end = Instant::now() + GRACE;
            while self.slot.is_running() && Instant::now() < end {
                thread::sleep(POLL);
            }
            if !self.slot.is_running() {
                return;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::site::tests::{TICKET_LINE, shell};

    fn server<'a>(script: &'a str) -> Server<'a> {
        Server::new(1, Box::new(move |_| shell(script)), None)
    }

    #[test]
    fn a_session_that_ends_is_followed_by_another_with_a_new_ticket() {
        let script = format!("echo '{TICKET_LINE}'; sleep 0.05");
        let server = server(&script);
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
        assert_eq!((server.failure(), server.is_refused()), (None, false));
    }

    #[test]
    fn a_server_that_cannot_start_says_why_and_is_not_tried_again() {
        let server = server("echo port in use >&2; exit 1");
        server.run();
        assert_eq!((server.sessions().current(), server.is_refused()), (1, true));
        let until = Instant::now() + Duration::from_secs(30);
        assert_eq!(server.wait_ready(until, &|| false), Err("port in use".into()));
    }
}
