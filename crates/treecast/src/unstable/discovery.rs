//! Sessions that others announce on the network ([`GroupBuilder::announce`](crate::GroupBuilder::announce)).

use std::{
    collections::BTreeMap,
    os::fd::AsFd,
    time::{Duration, Instant},
};

pub use treecast_driver::discovery::News;
use treecast_driver::discovery::{self, Listener};
use treecast_host::{interface::Interface, poller};
/// The reason why an announcement is refused.
pub use treecast_proto::announced::Refusal;
/// What a sender announces of its session, signed by it.
pub use treecast_wire::announcement::{Announcement, Audience, ForStanding};

use crate::{
    Error, ErrorKind,
    limits::bounded,
    unstable::{
        Stop,
        keys::PublicKey,
        reason::{Advised, Remedy},
    },
};

/// Network interfaces of this host.
#[derive(Debug, Clone)]
pub struct Interfaces(pub(crate) Vec<Interface>);

impl Interfaces {
    /// The interfaces of these names. Without names, all that are up and have an address.
    ///
    /// # Errors
    /// [`ErrorKind::Network`] if an interface does not exist or is down, or there is none.
    pub fn named(names: &[String]) -> Result<Self, Error> {
        discovery::interfaces(names).map(Self).map_err(|error| Error::of(ErrorKind::Network, error))
    }

    /// The names of the interfaces.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|interface| interface.name.as_str())
    }
}

/// Asks for announced sessions by mDNS, and listens for them by mDNS and SAP, for this time or until `stop` is requested. Returns
/// how many announcements were refused, by the reason.
///
/// # Errors
/// [`ErrorKind::Network`] if nothing can be heard.
pub fn listen(
    interfaces: &Interfaces,
    time: Duration,
    stop: &Stop,
    on_news: &mut dyn FnMut(News),
) -> Result<BTreeMap<Refusal, u64>, Error> {
    let mut listener = Listener::open(&interfaces.0, Default::default()).map_err(|error| {
        let line = format!("cannot listen for announcements: {error}");
        Error::new(ErrorKind::Network, Advised::by(Remedy::AddressedInterface, line))
    })?;
    listener.problem().into_iter().for_each(|line| on_news(News::Problem(line)));
    let end = Instant::now() + bounded(time);
    loop {
        let next = listener.turn(on_news)?;
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() || stop.is_requested() {
            return Ok(listener.refused().clone());
        }
        poller::wait_readable([Some(listener.as_fd()), Some(stop.as_fd())], left.min(next))?;
    }
}

/// The key of the sender that has signed an announcement. `None` if it is none.
pub fn sender(announcement: &Announcement) -> Option<PublicKey> {
    PublicKey::from_bytes(announcement.key()).ok()
}
