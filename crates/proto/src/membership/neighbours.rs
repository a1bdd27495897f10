//! The other hosts and routers on a router's link.
//!
//! A querier asks twice, a second apart, whether anybody wants what one listener no longer wants. On a link between two
//! routers there is nobody to ask.

use std::net::IpAddr;

use super::Message;

/// The hosts and routers that were heard on a link since it came up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Neighbours {
    #[default]
    Nobody,
    One {
        address: IpAddr,
        is_router: bool,
    },
    /// Several, or a bridge without an address, behind which there may be several.
    Several,
}

impl Neighbours {
    /// Takes note of the host that has sent a message.
    pub fn note(&mut self, from: IpAddr, message: &Message) {
        let advertises = matches!(message, Message::RouterAdvertisement(_));
        *self = match *self {
            Self::Nobody if !from.is_unspecified() => Self::One { address: from, is_router: advertises },
            Self::One { address, is_router } if address == from => {
                Self::One { address, is_router: is_router || advertises }
            }
            _ => Self::Several,
        };
    }

    /// Whether this neighbour is a router, and nobody else is on the link. Then nobody else can want what it no longer
    /// wants (RFC 9777, A.2: explicit tracking of listeners).
    pub fn is_a_router_alone(self, neighbour: IpAddr) -> bool {
        self == Self::One { address: neighbour, is_router: true }
    }
}
