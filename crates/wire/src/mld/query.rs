//! The head of an MLDv2 query (RFC 9777, 5.1); the rest is [`crate::membership::Query`]'s.
//!
//! ```text
//!  0      1      2          4              6          8       24
//!  +------+------+----------+--------------+----------+-------+-------------------------+
//!  | 130  | code | checksum | max response | reserved | group | S, QRV, QQIC, sources.. |
//!  |      |      |          | code (ms)    |          |       |                         |
//!  +------+------+----------+--------------+----------+-------+-------------------------+
//! ```

use std::time::Duration;

use super::{Query, TYPE_QUERY};
use crate::{
    ParseError,
    field::Reader,
    membership::{LONG_MANTISSA_BITS, decode, encode},
};

/// Length in bytes of what precedes the group.
pub(super) const HEAD_LEN: usize = 8;

pub(super) fn parse(bytes: &[u8]) -> Result<Query, ParseError> {
    let mut reader = Reader::new(bytes);
    reader.take("type, code and checksum", 4)?;
    let code = reader.u16("maximum response code")?;
    reader.u16("reserved")?;
    let max_response = Duration::from_millis(u64::from(decode(code, LONG_MANTISSA_BITS)));
    Query::parse_tail(max_response, reader.rest())
}

pub(super) fn emit(query: &Query, out: &mut Vec<u8>) {
    let millis = u32::try_from(query.max_response.as_millis()).unwrap_or(u32::MAX);
    out.extend_from_slice(&[TYPE_QUERY, 0, 0, 0]);
    out.extend_from_slice(&encode(millis, LONG_MANTISSA_BITS).to_be_bytes());
    out.extend_from_slice(&[0, 0]);
    query.emit_tail(out);
}
