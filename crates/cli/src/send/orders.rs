//! Orders while a session waits for receivers: lines at the terminal, and SIGUSR1.

use std::{
    io::{self, BufRead, IsTerminal},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use treecast::unstable::Starter;
use treecast_host::{signals, terminal};

use super::{SessionArgs, is_carousel, is_stream};

/// The time between two looks at the terminal and the signals.
const INTERVAL: Duration = Duration::from_millis(200);

/// What a person at the terminal can do meanwhile.
pub(super) const HELP: &str = "while it waits: Enter starts now, a number waits for as many, Ctrl-C ends";

/// Whether a person waits at the terminal, who reads what is printed and can type.
pub(super) fn is_at_terminal(args: &SessionArgs) -> bool {
    !args.show.json
        && !is_stream(args)
        && args.sent.feed.is_none()
        && io::stdin().is_terminal()
        && io::stderr().is_terminal()
}

/// Hands orders to a session as long as this lives.
pub(super) struct Orders {
    pub starter: Starter,
    is_over: Arc<AtomicBool>,
}

impl Orders {
    /// Begins to take orders. `None` for a carousel, which starts at its first listener, and where the system has no descriptor left.
    pub fn take(args: &SessionArgs) -> Option<Self> {
        if is_carousel(args) {
            return None;
        }
        let starter = Starter::new().ok()?;
        signals::take_user_signals().ok()?;
        let is_over = Arc::<AtomicBool>::default();
        let listener =
            Listener { starter: starter.clone(), is_over: is_over.clone(), reads: is_at_terminal(args) };
        thread::Builder::new().name("orders".into()).spawn(move || listener.run()).ok()?;
        Some(Self { starter, is_over })
    }

    /// The session has started: lines at the terminal are somebody else's now.
    pub fn end(&self) {
        self.is_over.store(true, Ordering::SeqCst);
    }
}

impl Drop for Orders {
    fn drop(&mut self) {
        self.end();
    }
}

struct Listener {
    starter: Starter,
    is_over: Arc<AtomicBool>,
    /// Whether lines are read at the terminal.
    reads: bool,
}

impl Listener {
    fn run(mut self) {
        while !self.is_over.load(Ordering::SeqCst) {
            if signals::has_user_signal() {
                self.starter.start_now();
            }
            match self.reads {
                true if terminal::has_line(&io::stdin(), INTERVAL) => self.read(),
                true => {}
                false => thread::sleep(INTERVAL),
            }
        }
    }

    fn read(&mut self) {
        let mut line = String::new();
        // Ctrl-D ends the orders, and nothing else.
        self.reads = io::stdin().lock().read_line(&mut line).is_ok_and(|len| len > 0);
        match (line.trim(), line.trim().parse::<u32>()) {
            _ if !self.reads => {}
            ("", _) => self.starter.start_now(),
            (_, Ok(receivers @ 1..)) => self.starter.wait_for(receivers),
            _ => remark!("treecast: {HELP}"),
        }
    }
}
