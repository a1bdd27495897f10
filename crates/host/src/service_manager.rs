//! What a service tells systemd: sd_notify(3), sd_watchdog_enabled(3), and whether standard error is the journal's.

use std::{
    env,
    os::{
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixDatagram},
    },
    time::Duration,
};

use rustix::fs::fstat;

/// The service manager of this process. Everything is ignored if there is none, as by default.
#[derive(Debug, Default)]
pub struct ServiceManager {
    socket: Option<(UnixDatagram, SocketAddr)>,
    watchdog: Option<Duration>,
}

impl ServiceManager {
    /// The manager that the environment names.
    pub fn from_environment() -> Self {
        let address = env::var("NOTIFY_SOCKET").ok().and_then(|path| match path.strip_prefix('@') {
            Some(name) => SocketAddr::from_abstract_name(name).ok(),
            None => SocketAddr::from_pathname(path).ok(),
        });
        let socket = address.and_then(|address| Some((UnixDatagram::unbound().ok()?, address)));
        let number = |name| env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
        let is_ours = number("WATCHDOG_PID").is_none_or(|pid| pid == std::process::id().into());
        let watchdog = number("WATCHDOG_USEC").filter(|micros| *micros > 0 && is_ours && socket.is_some());
        Self { socket, watchdog: watchdog.map(Duration::from_micros) }
    }

    /// The time between two signs of life that the manager expects: half of its limit. `None`: it expects none.
    pub fn watchdog_interval(&self) -> Option<Duration> {
        self.watchdog.map(|limit| limit / 2)
    }

    /// Says that the service is ready, and what it is doing.
    pub fn ready(&self, status: &str) {
        self.tell(&format!("READY=1\nSTATUS={status}"));
    }

    /// Gives a sign of life.
    pub fn alive(&self) {
        self.tell("WATCHDOG=1");
    }

    /// Says that the service ends.
    pub fn stopping(&self) {
        self.tell("STOPPING=1");
    }

    fn tell(&self, state: &str) {
        if let Some((socket, address)) = &self.socket {
            // A manager that is gone needs no word.
            _ = socket.send_to_addr(state.as_bytes(), address);
        }
    }
}

/// Whether lines on standard error go to the journal, which reads priorities at their beginnings (sd-daemon(3)).
pub fn stderr_is_journal() -> bool {
    let named = env::var("JOURNAL_STREAM").unwrap_or_default();
    fstat(std::io::stderr()).is_ok_and(|status| named == format!("{}:{}", status.st_dev, status.st_ino))
}
