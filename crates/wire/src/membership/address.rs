//! The address types that groups and sources come in, each with the protocol that speaks of them.

use std::{fmt, net::IpAddr, time::Duration};

use crate::{
    ParseError,
    field::{Field, Reader},
};

/// An IP address of one family, which has a fixed length on the wire.
pub trait Address: Field + Copy + Ord + fmt::Debug + fmt::Display + Into<IpAddr> {
    /// 0.0.0.0 or ::, which stands for "every group" in a general query.
    const UNSPECIFIED: Self;
    /// Length in bytes of what precedes the group in this family's queries.
    const HEAD_LEN: usize;
    /// Unit of this family's response times.
    const RESPONSE_UNIT: Duration;
    /// The largest code that a response time's field holds.
    const LARGEST_CODE: u16;
    /// Mantissa bits of the code of a response time in queries of the newer version.
    const RESPONSE_MANTISSA_BITS: u32;

    /// The protocol that speaks of these addresses.
    const PROTOCOL: Protocol;
    /// Where general queries go.
    const ALL_NODES: Self;
    /// Where leaves of the older version and router solicitations go.
    const ALL_ROUTERS: Self;
    /// Where router advertisements and terminations go.
    const ALL_SNOOPERS: Self;
    /// Where reports of the newer version go.
    const REPORT_DESTINATION: Self;

    /// The address, if it is of this family.
    fn from_ip(address: IpAddr) -> Option<Self>;
}

/// The numbers of a protocol's message types, and its words.
#[derive(Debug, Clone, Copy)]
pub struct Protocol {
    pub name: &'static str,
    /// The newest version.
    pub version: u8,
    /// What a message of the older version that says goodbye is called.
    pub leave: &'static str,
    pub query: u8,
    pub report: u8,
    pub old_report: u8,
    pub old_leave: u8,
    /// IGMPv1's report. `None` in MLD.
    pub v1_report: Option<u8>,
    pub router_advertisement: u8,
    pub router_solicitation: u8,
    pub router_termination: u8,
}

/// Reads `count` addresses. It checks that their bytes exist before it allocates memory.
pub(crate) fn read_many<A: Address>(
    reader: &mut Reader<'_>,
    field: &'static str,
    count: u16,
) -> Result<Vec<A>, ParseError> {
    let mut addresses = Reader::new(reader.take(field, usize::from(count) * A::LEN)?);
    (0..count).map(|_| A::read(&mut addresses, field)).collect()
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
