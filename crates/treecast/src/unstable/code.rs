//! Short codes, by which a receiver on the same network gets the ticket: three words, which a person can read out.
//!
//! The exchange is a password-authenticated one (SPAKE2). A guess costs an attempt, and attempts are few.

use std::{fmt, net::IpAddr, time::Duration};

use treecast_driver::code::{self, Counter};
pub use treecast_driver::code::{Code, CodeError, News, looks_like_code};
use treecast_host::interface::Interface;

use crate::{
    Error, ErrorKind, Ticket,
    limits::bounded,
    place::OfProcess,
    unstable::{
        Stop,
        discovery::Interfaces,
        reason::{Advised, Remedy},
    },
};

/// Gets the ticket of the sender that offers it for this code, within this time or until `stop` is requested.
///
/// # Errors
/// [`ErrorKind::Ticket`] if no sender has the code, and [`ErrorKind::Stopped`] if `stop` was requested.
pub fn ask(code: &Code, interfaces: &Interfaces, time: Duration, stop: &Stop) -> Result<Ticket, Error> {
    code::ask(code, &interfaces.0, bounded(time), stop).map(Ticket).map_err(|error| {
        match stop.is_requested() {
            true => Error::new(ErrorKind::Stopped, "interrupted: nothing was received"),
            false => Error::of(ErrorKind::Ticket, error),
        }
    })
}

/// A ticket that is given to whoever has the code, until this is dropped.
pub struct Offer {
    code: Code,
    _counter: OfProcess<Counter>,
}

impl Offer {
    /// Draws a code, and opens a port where it gets the ticket. The port is on the interface of this name, or else on that of the
    /// route to the group. `on_news` runs in a thread of its own.
    ///
    /// # Errors
    /// [`ErrorKind::Network`] if there is no interface, or the port cannot be opened.
    pub fn open(
        ticket: &Ticket,
        interface: Option<&str>,
        group: Option<IpAddr>,
        on_news: impl Fn(News) + Send + Sync + 'static,
    ) -> Result<Self, Error> {
        let interface = interface.map_or_else(|| Interface::by_route(group), Interface::named);
        let interface = interface.map_err(|error| Error::of(ErrorKind::Network, error))?;
        let failed = |error| {
            let line = format!("cannot offer the ticket for a code: {error}");
            Error::new(ErrorKind::Network, Advised::by(Remedy::NoCode, line))
        };
        let code = code::draw().map_err(failed)?;
        let counter = Counter::open(code, ticket.to_string(), &interface, on_news);
        Ok(Self { code, _counter: OfProcess::new(counter.map_err(failed)?) })
    }

    /// The code.
    pub fn code(&self) -> Code {
        self.code
    }
}

impl fmt::Debug for Offer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Offer").finish_non_exhaustive()
    }
}
