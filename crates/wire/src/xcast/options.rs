//! The Destination Options header behind Xcast's routing header: the list of ports (RFC 5058, section 9.3.2.2),
//! and our proof of the address list ([`ListProof`]).
//!
//! ```text
//!  0             1                2      3      4                           rounded up to 8
//!  +-------------+----------------+------+------+---------------------+-----+
//!  | next header | ext length     | 0x5e | len  | ports, 2 bytes each | Pad |
//!  +-------------+----------------+------+------+---------------------+-----+
//! ```
//!
//! The type of the port option is for experiments (RFC 4727). Its first three bits are those that the RFC
//! demands: a host that does not know the option discards the packet, and the option does not change on its
//! way.

use super::Malformed;
use crate::{
    destination_options,
    list_proof::{self, ListProof, OPTION_TYPE},
};

pub const PORTS_OPTION: u8 = 0x5e;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Options {
    /// The UDP port of each destination.
    pub ports: Option<Vec<u16>>,
    /// The proof of the address list.
    pub list_proof: Option<ListProof>,
}

impl Options {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Parses a Destination Options header at the beginning of `bytes`, behind the routing header of a packet
    /// to `destinations` destinations. Returns the options, the number of the next header, and its own length.
    ///
    /// # Errors
    /// If it is cut or too long, has an unknown option that may not be skipped, or does not have a port for
    /// each destination.
    pub fn parse(bytes: &[u8], destinations: usize) -> Result<(Self, u8, usize), Malformed> {
        let mut options = Self::default();
        let (next_header, len) = destination_options::walk(bytes, |kind, body| match (kind, body) {
            (PORTS_OPTION, ports) if ports.len() == destinations * 2 => {
                let port = |pair: &[u8]| u16::from_be_bytes([pair[0], pair[1]]);
                options.ports = Some(ports.chunks_exact(2).map(port).collect());
                Ok(true)
            }
            (PORTS_OPTION, _) => Err(Malformed::Ports("one that has not a port for each destination found")),
            (OPTION_TYPE, [list_proof::KIND, body @ ..]) => {
                let wrong = Malformed::Ports("a proof of a wrong length found");
                options.list_proof = Some(ListProof::parse(body).ok_or(wrong)?);
                Ok(true)
            }
            _ => Ok(false),
        })?;
        Ok((options, next_header, len))
    }

    /// The header's bytes with at most 32 ports, and `next_header` as the next header. Empty if there are no
    /// options.
    pub fn to_bytes(&self, next_header: u8) -> Vec<u8> {
        if self.is_empty() {
            return Vec::new();
        }
        let mut bytes = vec![next_header, 0];
        if let Some(ports) = &self.ports {
            bytes.extend_from_slice(&[PORTS_OPTION, ports.len() as u8 * 2]);
            bytes.extend(ports.iter().flat_map(|port| port.to_be_bytes()));
        }
        if let Some(proof) = &self.list_proof {
            bytes.extend_from_slice(&proof.to_option());
        }
        destination_options::close(&mut bytes);
        bytes
    }
}
