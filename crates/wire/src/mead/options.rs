//! The Destination Options header (RFC 8200, section 4.6) behind MEADcast's routing header. It carries our
//! revision of meadcast-thesis-2024, 5.2.4 and 6.2, and the port list that the papers name without a format.
//!
//! ```text
//!  0             1                2      3      4      5                    rounded up to 8
//!  +-------------+----------------+------+------+------+------+---------+-----+
//!  | next header | ext length     | 0x1e | len  | kind | body           | Pad |
//!  +-------------+----------------+------+------+------+----------------+-----+
//! ```
//!
//! All our options have type 0x1e, which is for experiments; hosts and routers that do not know it skip it (RFC
//! 4727, section 4). The kinds are: 1, a list of UDP ports, one for each address; 2, a nonce; 3, a nonce and a
//! code that authenticates a response; 4, a group; 5, a proof of the address list ([`ListProof`]).

use std::net::Ipv6Addr;

use super::{MAX_ADDRESSES, Malformed};
use crate::{
    destination_options,
    list_proof::{self, ListProof, OPTION_TYPE},
};

const KIND_PORTS: u8 = 1;
const KIND_NONCE: u8 = 2;
const KIND_PROOF: u8 = 3;
const KIND_GROUP: u8 = 4;

/// The longest header that a router reads, in bytes. All our options together take 152.
pub const MAX_OPTIONS_LEN: usize = destination_options::MAX_LEN;

pub const NONCE_LEN: usize = 16;
pub const CODE_LEN: usize = 16;

/// A response's nonce, and a code that can only be computed with the domain's key (`proto::explicit::mead`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Proof {
    pub nonce: [u8; NONCE_LEN],
    pub code: [u8; CODE_LEN],
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Options {
    /// The UDP port of each address; 0 for routers. A receiver's unicast packet gets its port.
    pub ports: Option<Vec<u16>>,
    /// Random number of a discovery request, which responses repeat to prove that they answer it.
    pub nonce: Option<[u8; NONCE_LEN]>,
    /// Proof that a discovery response comes from a router with the domain's key.
    pub proof: Option<Proof>,
    /// The group to which a designated router sends the data on its own links. Such a router has no receivers
    /// in the list.
    pub group: Option<Ipv6Addr>,
    /// Proof that a sender of the domain wrote the address list. Data and discovery requests carry it.
    pub list_proof: Option<ListProof>,
}

impl Options {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Parses the header at the beginning of `bytes`, and skips unknown options. Returns it with the number of
    /// the next header, and its own length.
    pub fn parse(bytes: &[u8]) -> Result<(Self, u8, usize), Malformed> {
        let mut options = Self::default();
        let (next_header, len) = destination_options::walk(bytes, |kind, body| options.read(kind, body))?;
        Ok((options, next_header, len))
    }

    /// Reads an option's body. Returns whether the option is one of ours.
    fn read(&mut self, kind: u8, body: &[u8]) -> Result<bool, Malformed> {
        let (OPTION_TYPE, Some((kind, body))) = (kind, body.split_first()) else { return Ok(false) };
        let wrong = |_| Malformed::Options("one of a wrong length found");
        match *kind {
            KIND_PORTS if body.len() % 2 == 0 && body.len() <= MAX_ADDRESSES * 2 => {
                let port = |pair: &[u8]| u16::from_be_bytes([pair[0], pair[1]]);
                self.ports = Some(body.chunks_exact(2).map(port).collect());
            }
            KIND_PORTS => return Err(Malformed::Options("a list of ports of a wrong length found")),
            KIND_NONCE => self.nonce = Some(body.try_into().map_err(wrong)?),
            KIND_PROOF => {
                let (nonce, code) = body.split_at_checked(NONCE_LEN).unwrap_or_default();
                let (nonce, code) = (nonce.try_into().map_err(wrong)?, code.try_into().map_err(wrong)?);
                self.proof = Some(Proof { nonce, code });
            }
            KIND_GROUP => {
                let octets: [u8; 16] = body.try_into().map_err(wrong)?;
                let group = Ipv6Addr::from(octets);
                if !group.is_multicast() {
                    return Err(Malformed::Options("a group that is none found"));
                }
                self.group = Some(group);
            }
            list_proof::KIND => {
                let wrong = Malformed::Options("one of a wrong length found");
                self.list_proof = Some(ListProof::parse(body).ok_or(wrong)?);
            }
            _ => {}
        }
        Ok(true)
    }

    /// The header's bytes, with `next_header` as the next header. Empty if there are no options.
    pub fn to_bytes(&self, next_header: u8) -> Vec<u8> {
        if self.is_empty() {
            return Vec::new();
        }
        let mut bytes = vec![next_header, 0];
        let mut push = |kind, body: &[u8]| {
            bytes.extend_from_slice(&[OPTION_TYPE, 1 + body.len() as u8, kind]);
            bytes.extend_from_slice(body);
        };
        if let Some(ports) = &self.ports {
            push(KIND_PORTS, &ports.iter().flat_map(|port| port.to_be_bytes()).collect::<Vec<_>>());
        }
        if let Some(nonce) = &self.nonce {
            push(KIND_NONCE, nonce);
        }
        if let Some(Proof { nonce, code }) = &self.proof {
            push(KIND_PROOF, &[&nonce[..], code].concat());
        }
        if let Some(group) = self.group {
            push(KIND_GROUP, &group.octets());
        }
        if let Some(proof) = &self.list_proof {
            bytes.extend_from_slice(&proof.to_option());
        }
        destination_options::close(&mut bytes);
        bytes
    }
}
