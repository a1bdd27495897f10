//! The ways of delivery that an experiment compares.

use std::str::FromStr;

use serde::Deserialize;

/// A way of delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(try_from = "String")]
pub enum Delivery {
    /// Unicast, one TCP stream a client.
    Tcp,
    /// Unicast, UDP with ranges asked for again.
    Udp,
    /// OpenSSH's scp.
    Scp,
    /// Multicast in a loop while somebody listens (the paper's "multicast").
    Carousel,
    /// Multicast once, mended afterwards (VCMTP 1).
    After,
    /// Multicast once, mended meanwhile (VCMTP 2).
    Nack,
    /// What `treecast send` does when it is told nothing: as `Nack`, with repair symbols where they cost less.
    Default,
    /// As `Nack`, with forward error correction that follows the loss.
    NackFec,
    /// As `Carousel`, a fountain of repair symbols.
    CarouselFec,
}

impl Delivery {
    pub const ALL: [Delivery; 9] = [
        Self::Tcp,
        Self::Udp,
        Self::Scp,
        Self::Carousel,
        Self::After,
        Self::Nack,
        Self::Default,
        Self::NackFec,
        Self::CarouselFec,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Scp => "scp",
            Self::Carousel => "carousel",
            Self::After => "after",
            Self::Nack => "nack",
            Self::Default => "default",
            Self::NackFec => "nack-fec",
            Self::CarouselFec => "carousel-fec",
        }
    }

    /// Whether a session begins with its receivers and ends when all of them have everything.
    pub fn has_sessions(self) -> bool {
        matches!(self, Self::After | Self::Nack | Self::Default | Self::NackFec)
    }

    /// Whether one packet reaches many clients.
    pub fn is_multicast(self) -> bool {
        !matches!(self, Self::Tcp | Self::Udp | Self::Scp)
    }

    /// Whether it is a carousel, which nobody waits for.
    pub fn is_carousel(self) -> bool {
        matches!(self, Self::Carousel | Self::CarouselFec)
    }

    /// What `treecast send` is told of it.
    pub fn repair(self) -> &'static [&'static str] {
        match self {
            Self::Tcp | Self::Udp | Self::Scp => &[],
            Self::Carousel => &["--repair", "carousel"],
            Self::After => &["--repair", "after"],
            Self::Nack => &["--repair", "nack", "--fec", "none"],
            Self::Default => &[],
            Self::NackFec => &["--repair", "nack", "--fec", "auto"],
            Self::CarouselFec => &["--repair", "carousel", "--fec", "auto"],
        }
    }
}

impl FromStr for Delivery {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|delivery| delivery.name() == text);
        known.ok_or_else(|| {
            format!(
                "unknown delivery `{text}`: expected tcp, udp, scp, carousel, after, nack, default, nack-fec or carousel-fec"
            )
        })
    }
}

impl TryFrom<String> for Delivery {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}
