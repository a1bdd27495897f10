//! The head of an IGMPv3 query (RFC 9776, 4.1); the rest is [`crate::membership::Query`]'s.
//!
//! ```text
//!  0      1              2          4       8
//!  +------+--------------+----------+-------+-------------------------+
//!  | 0x11 | max response | checksum | group | S, QRV, QQIC, sources.. |
//!  |      | code (0.1 s) |          |       |                         |
//!  +------+--------------+----------+-------+-------------------------+
//! ```

use std::time::Duration;

use super::{Query, TYPE_QUERY};
use crate::{
    ParseError,
    field::Reader,
    membership::{SHORT_MANTISSA_BITS, decode, encode},
};

/// Length in bytes of what precedes the group.
pub(super) const HEAD_LEN: usize = 4;

pub(super) fn parse(bytes: &[u8]) -> Result<Query, ParseError> {
    let mut reader = Reader::new(bytes);
    reader.u8("type")?;
    let code = u16::from(reader.u8("max resp code")?);
    reader.u16("checksum")?;
    let max_response = Duration::from_millis(100 * u64::from(decode(code, SHORT_MANTISSA_BITS)));
    Query::parse_tail(max_response, reader.rest())
}

pub(super) fn emit(query: &Query, out: &mut Vec<u8>) {
    let tenths = u32::try_from(query.max_response.as_millis() / 100).unwrap_or(u32::MAX);
    out.extend_from_slice(&[TYPE_QUERY, encode(tenths, SHORT_MANTISSA_BITS) as u8, 0, 0]);
    query.emit_tail(out);
}
