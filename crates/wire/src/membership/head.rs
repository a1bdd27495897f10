//! What precedes the group in a query, and in every message of the older versions.
//!
//! ```text
//!  0      1              2          4
//!  +------+--------------+----------+                               IGMP: response in units of 0.1 s
//!  | type | max response | checksum |
//!  +------+------+-------+--+-------+------+----------+             MLD: response in units of 1 ms
//!  | type | code | checksum | max response | reserved |
//!  +------+------+----------+--------------+----------+
//!  0      1      2          4              6          8
//! ```

use std::time::Duration;

use super::Address;
use crate::{ParseError, field::Reader};

/// Reads the head; returns the response time as it is encoded there.
pub(super) fn read<A: Address>(reader: &mut Reader<'_>) -> Result<u16, ParseError> {
    Ok(match *reader.take("what precedes the group", A::HEAD_LEN)? {
        [_, _, _, _, high, low, ..] => u16::from_be_bytes([high, low]),
        [_, code, ..] => u16::from(code),
        _ => 0,
    })
}

/// Appends the head, its checksum 0. `code` is the encoded response time.
pub(super) fn emit<A: Address>(kind: u8, code: u16, out: &mut Vec<u8>) {
    match A::LARGEST_CODE {
        u16::MAX => {
            out.extend_from_slice(&[kind, 0, 0, 0]);
            out.extend_from_slice(&code.to_be_bytes());
            out.extend_from_slice(&[0, 0]);
        }
        _ => out.extend_from_slice(&[kind, code as u8, 0, 0]),
    }
}

/// A response time in the protocol's units, rounded down.
pub(super) fn units<A: Address>(max_response: Duration) -> u32 {
    u32::try_from(max_response.as_millis() / A::RESPONSE_UNIT.as_millis()).unwrap_or(u32::MAX)
}
