//! The proof that a sender of the router's domain wrote a packet's address list. It is an option of the
//! Destination Options header behind MEADcast's or Xcast's routing header.
//!
//! ```text
//!  +------+-----+---+-----------+---------------+
//!  | 0x1e | 11  | 5 | epoch(16) | code (64)     |
//!  +------+-----+---+-----------+---------------+
//! ```
//!
//! Type 0x1e is for experiments, and hosts and routers that do not know it skip it (RFC 4727, section 4). The
//! epoch is the lower half of a number that counts up slowly. The code covers the whole number
//! (`proto::explicit::list_proof`).

/// The type of our options in Destination Options headers.
pub const OPTION_TYPE: u8 = 0x1e;

/// The first octet of the option's body, which says that it is a proof.
pub const KIND: u8 = 5;

/// The length of the whole option, in bytes.
pub const OPTION_LEN: usize = 3 + BODY_LEN;

/// The number of bytes behind the kind.
const BODY_LEN: usize = 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListProof {
    /// The last 16 bits of the epoch in which the proof was made.
    pub epoch: u16,
    pub code: [u8; 8],
}

impl ListProof {
    /// Parses the bytes behind the kind. `None` if their number is wrong.
    pub fn parse(body: &[u8]) -> Option<Self> {
        let (epoch, code) = body.split_first_chunk()?;
        Some(Self { epoch: u16::from_be_bytes(*epoch), code: code.try_into().ok()? })
    }

    /// The option's bytes, from its type on.
    pub fn to_option(&self) -> [u8; OPTION_LEN] {
        let mut bytes = [0; OPTION_LEN];
        bytes[..3].copy_from_slice(&[OPTION_TYPE, OPTION_LEN as u8 - 2, KIND]);
        bytes[3..5].copy_from_slice(&self.epoch.to_be_bytes());
        bytes[5..].copy_from_slice(&self.code);
        bytes
    }
}
