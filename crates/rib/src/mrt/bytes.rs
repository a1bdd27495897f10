//! A reader of big-endian fields that knows where its bytes end.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::Family;

/// The bytes that are still to be read. Every method returns `None` at their end.
#[derive(Debug, Clone, Copy)]
pub struct Bytes<'b>(pub &'b [u8]);

impl<'b> Bytes<'b> {
    pub fn take(&mut self, count: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    pub fn u8(&mut self) -> Option<u8> {
        self.array().map(|[octet]| octet)
    }

    pub fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    /// An ASN of 4 octets, or of 2.
    pub fn asn(&mut self, is_wide: bool) -> Option<u32> {
        if is_wide { self.u32() } else { self.u16().map(u32::from) }
    }

    pub fn address(&mut self, family: Family) -> Option<IpAddr> {
        Some(match family {
            Family::V4 => IpAddr::V4(Ipv4Addr::from(self.array::<4>()?)),
            Family::V6 => IpAddr::V6(Ipv6Addr::from(self.array::<16>()?)),
        })
    }
}
