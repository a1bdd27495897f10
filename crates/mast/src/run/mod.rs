//! The programs of MAST: sockets, clocks and the kernel around the machines of this crate.
//!
//! Each program is a [`Daemon`] with one loop. [`config::Config`] is the file that all of them read.

mod addresses;
mod closing;
pub mod config;
mod dhcp;
mod dns;
mod event;
mod hook;
mod host;
mod kernel;
mod link_watch;
mod name_streams;
mod router;
mod sockets;
mod srms;
pub mod status;
mod store;
mod tms;

use std::{io, os::fd::BorrowedFd, time::Duration};

use treecast_host::{clock, netlink::Netlink, poller::Poller, stop::Stop};

use self::{
    config::Config,
    status::{Listener, Status},
    store::Store,
};
pub use self::{
    event::{Event, Role},
    host::{HostConfig, public_key},
    store::make_key,
};

/// The longest wait. So a clock that jumps, or a change that nobody told about, is noticed in the end.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// Something that keeps a program from starting, or ends it.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Error(String);

impl Error {
    fn new(what: String) -> Self {
        Self(what)
    }
}

/// Adds to an error of the system what was being done.
fn doing(what: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
    let what = what.into();
    move |error| Error(format!("{what}: {error}"))
}

/// Takes what a program tells.
pub type Tell<'a> = &'a mut dyn FnMut(Event);

/// The programs that a file describes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Program {
    Srms,
    Tms,
    /// The server of this name, or the only one.
    Dhcp(Option<String>),
    Dns,
    Router,
    Watch,
}

/// Runs a program until a stop is requested.
///
/// # Errors
/// If it cannot start, or the kernel does no longer what it needs.
pub fn run(program: &Program, config: &Config, stop: &Stop, tell: Tell<'_>) -> Result<(), Error> {
    let at = |name: &str| config.status_address(name);
    match program {
        Program::Srms => serve(srms::Daemon::new(config, tell)?, &at("srms"), stop, tell),
        Program::Tms => serve(tms::Daemon::new(config, tell)?, &at("tms"), stop, tell),
        Program::Dhcp(name) => {
            let at = at(&format!("dhcp-{}", config.dhcp(name.as_deref())?.name));
            serve(dhcp::Daemon::new(config, name.as_deref(), tell)?, &at, stop, tell)
        }
        Program::Dns => serve(dns::Daemon::new(config, tell)?, &at("dns"), stop, tell),
        Program::Router => serve(router::Daemon::new(config)?, &at("router"), stop, tell),
        Program::Watch => serve(link_watch::Daemon::new(config)?, &at("watch"), stop, tell),
    }
}

/// Runs the client of a host's interface until a stop is requested.
///
/// # Errors
/// The errors of [`run`].
pub fn run_host(host: &HostConfig, stop: &Stop, tell: Tell<'_>) -> Result<(), Error> {
    serve(host::Daemon::new(host)?, &status::address_of_host(&host.interface), stop, tell)
}

/// Asks all programs that a file describes what they know. Returns each with its name. `None`: it does not run here.
///
/// # Errors
/// If a program runs and does not answer.
pub fn ask_all(config: &Config) -> Result<Vec<(String, Option<Status>)>, Error> {
    let asked = |program: String| {
        let status = status::ask(&config.status_address(&program))?;
        Ok((program, status))
    };
    config.programs().into_iter().map(asked).collect()
}

/// Removes the rules, routes and tunnels that the SRMS or the TMS of this file has left in the kernel. Neither may be running.
///
/// # Errors
/// If the kernel refuses it, such as to a user who is not root.
pub fn clean(config: &Config, tell: Tell<'_>) -> Result<(), Error> {
    let mut netlink = Netlink::open().map_err(doing("cannot ask the kernel"))?;
    let store = Store::open(config.state())?;
    if config.file.stub.is_some() {
        srms::clean(&mut netlink, config, &store, tell)?;
    }
    if config.file.tms.is_some() {
        tms::clean(&mut netlink, &store)?;
    }
    Ok(())
}

/// A program with sockets. The order of calls: [`Daemon::work`], then [`Daemon::read`] for each descriptor that is readable, and so on.
trait Daemon {
    /// The descriptors to wait for. They stay the same.
    fn descriptors(&self) -> Vec<BorrowedFd<'_>>;

    /// Reads what has come on the descriptor with this index.
    fn read(&mut self, index: usize, tell: Tell<'_>) -> Result<(), Error>;

    /// Does what is due. Returns the time of the next work, by the monotonic clock. `None`: nothing is due before something comes.
    fn work(&mut self, tell: Tell<'_>) -> Result<Option<Duration>, Error>;

    /// The program's state now.
    fn status(&self) -> Status;

    /// Leaves things in order at the end.
    fn end(&mut self, _tell: Tell<'_>) {}
}

fn serve(mut daemon: impl Daemon, status_at: &str, stop: &Stop, tell: Tell<'_>) -> Result<(), Error> {
    let mut poller = Poller::new().map_err(doing("cannot wait for packets"))?;
    let descriptors = daemon.descriptors();
    let stop_token = descriptors.len() as u64;
    for (token, descriptor) in descriptors.iter().enumerate() {
        poller.watch(descriptor, token as u64).map_err(doing("cannot wait for packets"))?;
    }
    drop(descriptors);
    poller.watch(stop, stop_token).map_err(doing("cannot wait for signals"))?;
    let asked = Listener::open(status_at);
    match &asked {
        Ok(asked) => poller.watch(asked, stop_token + 1).map_err(doing("cannot wait for questions"))?,
        // The program does its work all the same.
        Err(error) => {
            let what = "cannot answer `treecast mast status` (is the program running already?)".into();
            tell(Event::Failed { what, error: error.to_string() });
        }
    }
    tell(Event::Ready);
    loop {
        let due = daemon.work(tell)?;
        let wait = due.map_or(LONGEST_WAIT, |due| due.saturating_sub(clock::monotonic()).min(LONGEST_WAIT));
        let tokens = poller.tokens(Some(wait)).map_err(doing("cannot wait for packets"))?;
        if stop.is_requested() {
            daemon.end(tell);
            return Ok(());
        }
        for token in tokens {
            match &asked {
                Ok(asked) if token == stop_token + 1 => asked.answer(|| daemon.status()),
                _ if token < stop_token => daemon.read(token as usize, tell)?,
                _ => {}
            }
        }
    }
}

/// Microseconds since 1970.
fn unix_us() -> u64 {
    u64::try_from(clock::since_1970().as_micros()).unwrap_or(u64::MAX)
}

/// The moment, for the SRMS and the TMS.
fn now() -> crate::srms::Now {
    crate::srms::Now { elapsed: clock::monotonic(), unix_us: unix_us() }
}
