//! The repair of a session: how losses are mended.

use std::time::Duration;

use treecast_wire::ticket;

use crate::carousel::FrameHash;

/// The way losses are mended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Repair {
    /// Losses are not mended: an object with a gap at its end has failed.
    None,
    /// Lost blocks are retransmitted when the object has been sent to its end (VCMTP 1).
    After,
    /// Lost blocks are retransmitted while the object is being sent (VCMTP 2).
    Nack,
    /// All objects are sent again and again. Receivers report nothing.
    Carousel(CarouselOptions),
}

/// The options that only a carousel has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CarouselOptions {
    /// The time without a listener after which the carousel ends.
    pub idle: Duration,
    /// The number of loops after which the carousel ends. `None`: it goes on while somebody listens.
    pub loops: Option<u64>,
    /// The time without a first listener after which the carousel fails. `None`: it waits for ever.
    pub wait_timeout: Option<Duration>,
    pub dialect: Dialect,
}

impl Default for CarouselOptions {
    fn default() -> Self {
        Self { idle: Duration::from_secs(10), loops: None, wait_timeout: None, dialect: Dialect::Session }
    }
}

/// The kind of packets of a carousel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// The packets of a treecast session.
    Session,
    /// The frames of the IoT updater, which carry one file and this kind of hash of it.
    Iotup(FrameHash),
}

impl Repair {
    /// The repair in the form for tickets.
    pub fn in_ticket(&self) -> ticket::Repair {
        match self {
            Self::None => ticket::Repair::None,
            Self::After => ticket::Repair::After,
            Self::Nack => ticket::Repair::Nack,
            Self::Carousel(_) => ticket::Repair::Carousel,
        }
    }

    pub fn carousel(&self) -> Option<&CarouselOptions> {
        match self {
            Self::Carousel(options) => Some(options),
            Self::None | Self::After | Self::Nack => None,
        }
    }

    /// Whether packets are the IoT updater's.
    pub fn is_iotup(&self) -> bool {
        self.carousel().is_some_and(|options| options.dialect != Dialect::Session)
    }
}
