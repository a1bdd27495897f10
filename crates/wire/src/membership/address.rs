//! The types of addresses of groups and sources.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use crate::{ParseError, field::Reader};

/// An IP address of one family, which has a fixed length on the wire.
pub trait Address: Copy + Ord + fmt::Debug + fmt::Display + Into<IpAddr> {
    /// Length on the wire in bytes.
    const LEN: usize;
    /// 0.0.0.0 or ::, which stands for "every group" in a general query.
    const UNSPECIFIED: Self;

    /// Parses the address in the first [`Self::LEN`] bytes.
    ///
    /// # Errors
    /// If there are fewer bytes. The error names `field`.
    fn parse(field: &'static str, bytes: &[u8]) -> Result<Self, ParseError>;

    fn emit(&self, out: &mut Vec<u8>);
}

impl Address for Ipv4Addr {
    const LEN: usize = 4;
    const UNSPECIFIED: Self = Self::UNSPECIFIED;

    fn parse(field: &'static str, bytes: &[u8]) -> Result<Self, ParseError> {
        Ok(Self::from(Reader::new(bytes).array::<4>(field)?))
    }

    fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.octets());
    }
}

impl Address for Ipv6Addr {
    const LEN: usize = 16;
    const UNSPECIFIED: Self = Self::UNSPECIFIED;

    fn parse(field: &'static str, bytes: &[u8]) -> Result<Self, ParseError> {
        Ok(Self::from(Reader::new(bytes).array::<16>(field)?))
    }

    fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.octets());
    }
}

/// Reads one address.
pub(crate) fn read<A: Address>(reader: &mut Reader<'_>, field: &'static str) -> Result<A, ParseError> {
    A::parse(field, reader.take(field, A::LEN)?)
}

/// Reads `count` addresses. It checks that their bytes exist before it allocates memory.
pub(crate) fn read_many<A: Address>(
    reader: &mut Reader<'_>,
    field: &'static str,
    count: u16,
) -> Result<Vec<A>, ParseError> {
    let bytes = reader.take(field, usize::from(count) * A::LEN)?;
    bytes.chunks_exact(A::LEN).map(|chunk| A::parse(field, chunk)).collect()
}

/// Writes the number of `addresses` with 16 bits, and at most that many addresses.
pub(crate) fn emit_count(addresses: &[impl Address], out: &mut Vec<u8>) {
    let count = u16::try_from(addresses.len()).unwrap_or(u16::MAX);
    out.extend_from_slice(&count.to_be_bytes());
}

pub(crate) fn emit_many(addresses: &[impl Address], out: &mut Vec<u8>) {
    for address in addresses.iter().take(usize::from(u16::MAX)) {
        address.emit(out);
    }
}
