//! The families of addresses.

use serde::Serialize;

/// An address family. The analysis treats each one on its own, because an AS may be a stub in one and a provider in
/// the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum Family {
    #[serde(rename = "IPv4")]
    V4,
    #[serde(rename = "IPv6")]
    V6,
}

impl Family {
    pub const ALL: [Self; 2] = [Self::V4, Self::V6];

    /// The length of an address, in bits.
    pub fn address_bits(self) -> u8 {
        match self {
            Self::V4 => 32,
            Self::V6 => 128,
        }
    }

    /// The version of the protocol: 4 or 6.
    pub fn version(self) -> u8 {
        match self {
            Self::V4 => 4,
            Self::V6 => 6,
        }
    }

    /// The family of a version of the protocol.
    pub fn of_version(version: i64) -> Option<Self> {
        Self::ALL.into_iter().find(|family| i64::from(family.version()) == version)
    }

    /// `IPv4` or `IPv6`.
    pub fn name(self) -> &'static str {
        match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        }
    }
}
