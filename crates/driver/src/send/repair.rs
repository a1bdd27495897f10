//! How a session mends losses.

use std::time::Duration;

use treecast_wire::ticket;

use crate::carousel::FrameHash;

/// How losses are mended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Repair {
    /// Not at all: an object with a gap at its end has failed.
    None,
    /// Retransmissions, when an object has been sent to its end (VCMTP 1).
    After,
    /// Retransmissions, while an object is being sent (VCMTP 2).
    Nack,
    /// All objects are sent again and again. Nobody is asked what is missing.
    Carousel(CarouselOptions),
}

/// What only a carousel is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CarouselOptions {
    /// The carousel ends when nobody has listened for this long.
    pub idle: Duration,
    /// The carousel ends after so many loops. `None` sends for as long as somebody listens.
    pub loops: Option<u64>,
    /// The carousel fails when nobody has listened for this long before the first listener. `None` waits for ever.
    pub wait_timeout: Option<Duration>,
    pub dialect: Dialect,
}

impl Default for CarouselOptions {
    fn default() -> Self {
        Self { idle: Duration::from_secs(10), loops: None, wait_timeout: None, dialect: Dialect::Session }
    }
}

/// The packets that a carousel is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// A treecast session's.
    Session,
    /// The IoT updater's frames, which carry one file, and this hash of it.
    Iotup(FrameHash),
}

impl Repair {
    /// The repair as a ticket names it.
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
