//! The repair of a session: how losses are mended.

use std::time::Duration;

use treecast_proto::local::Tuning;
use treecast_wire::ticket::{self, LocalMode, LocalTicket};

use crate::{carousel::FrameHash, local::GroupsFile};

/// The way losses are mended.
#[derive(Debug, Clone, PartialEq)]
pub enum Repair {
    /// Losses are not mended: an object with a gap at its end has failed.
    None,
    /// Lost blocks are retransmitted when the object has been sent to its end (VCMTP 1).
    After,
    /// Lost blocks are retransmitted while the object is being sent (VCMTP 2).
    Nack,
    /// All objects are sent again and again. Receivers report nothing.
    Carousel(CarouselOptions),
    /// Receivers mend losses among themselves, in local groups (LGMP).
    Local(LocalOptions),
}

/// The options that only a session with local groups has.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct LocalOptions {
    /// The members that mend losses. `None`: any member.
    pub mode: Option<LocalMode>,
    /// Groups made by hand. `None`: receivers form groups.
    pub groups: Option<GroupsFile>,
    /// The time after which an object that is not whole is given up. `None`: never.
    pub deadline: Option<Duration>,
    /// The highest rate at which one member sends again, in bits of IP packets a second. `None`: the session's rate.
    pub repair_bps: Option<u64>,
    /// A receiver that loses a larger share of packets is congested, and slows the sender. `None`: 50 %, or 2 % if the
    /// sender shares links.
    pub congestion_loss: Option<f64>,
    /// Whether the sender begins low and takes about as much of a link as a TCP connection would. Otherwise it begins at its rate.
    pub shares_link: bool,
    /// The lowest rate, in bits a second. Receivers for which it is too fast leave. `None`: nobody has to leave.
    pub floor_bps: Option<u64>,
}

impl LocalOptions {
    fn congestion_loss(&self) -> f64 {
        let usual = if self.shares_link { Tuning::SHARED_LOSS } else { Tuning::default().congestion_loss };
        self.congestion_loss.unwrap_or(usual)
    }

    /// These options in the form for tickets. `repair_rate_bps` is in bits of objects a second.
    pub fn in_ticket(&self, repair_rate_bps: u64) -> LocalTicket {
        LocalTicket {
            mode: self.mode.unwrap_or(LocalMode::Local),
            is_static: self.groups.is_some(),
            deadline_ms: self
                .deadline
                .map_or(0, |deadline| u32::try_from(deadline.as_millis()).unwrap_or(u32::MAX)),
            repair_rate_bps,
            congestion_loss: (self.congestion_loss() * f64::from(u16::MAX)) as u16,
        }
    }
}

/// The options that only a carousel has.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CarouselOptions {
    /// The time without a listener after which the carousel ends.
    pub idle: Duration,
    /// The number of loops after which the carousel ends. `None`: it goes on while somebody listens.
    pub loops: Option<u64>,
    /// The time without a first listener after which the carousel fails. `None`: it waits for ever.
    pub wait_timeout: Option<Duration>,
    /// The kind of packets.
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
            Self::Local(_) => ticket::Repair::Local,
        }
    }

    pub fn carousel(&self) -> Option<&CarouselOptions> {
        if let Self::Carousel(options) = self { Some(options) } else { None }
    }

    pub fn local(&self) -> Option<&LocalOptions> {
        if let Self::Local(options) = self { Some(options) } else { None }
    }

    /// Whether receivers connect to the sender. Otherwise the ticket has all that they need.
    pub fn has_connections(&self) -> bool {
        matches!(self, Self::None | Self::After | Self::Nack)
    }

    /// Whether packets are the IoT updater's.
    pub fn is_iotup(&self) -> bool {
        self.carousel().is_some_and(|options| options.dialect != Dialect::Session)
    }
}
