//! The list of ports behind Xcast's routing header (RFC 5058, 9.3.2.2): an option of a Destination Options header.
//!
//! ```text
//!  0             1                2      3      4                           rounded up to 8
//!  +-------------+----------------+------+------+---------------------+-----+
//!  | next header | ext length     | 0x5e | len  | ports, 2 bytes each | Pad |
//!  +-------------+----------------+------+------+---------------------+-----+
//! ```
//!
//! The option's type is one for experiments (RFC 4727) with the three first bits that the RFC asks for: who does not know it discards
//! the packet, and it stays the same on its way.

use super::Malformed;
use crate::destination_options;

pub const PORTS_OPTION: u8 = 0x5e;

/// Reads a Destination Options header at the beginning of `bytes`, behind the routing header of a packet to so many
/// destinations: their ports, if it has them, the next header's number, and its own length.
///
/// # Errors
/// When it is cut or too long, has an option that may not be passed over, or not a port for each destination.
pub fn parse_ports(bytes: &[u8], destinations: usize) -> Result<(Option<Vec<u16>>, u8, usize), Malformed> {
    let mut ports = None;
    let (next_header, len) = destination_options::walk(bytes, |kind, body| match kind {
        PORTS_OPTION if body.len() == destinations * 2 => {
            let port = |pair: &[u8]| u16::from_be_bytes([pair[0], pair[1]]);
            ports = Some(body.chunks_exact(2).map(port).collect());
            Ok(true)
        }
        PORTS_OPTION => Err(Malformed::Ports("one that has not a port for each destination found")),
        _ => Ok(false),
    })?;
    Ok((ports, next_header, len))
}

/// The header with these ports, at most 32, in front of `next_header`.
pub fn ports_to_bytes(ports: &[u16], next_header: u8) -> Vec<u8> {
    let mut bytes = vec![next_header, 0, PORTS_OPTION, ports.len() as u8 * 2];
    bytes.extend(ports.iter().flat_map(|port| port.to_be_bytes()));
    destination_options::close(&mut bytes);
    bytes
}
