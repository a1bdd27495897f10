//! Probes: what a sender holds the claims of its receivers against. [`super::Pace`] carries a probe, [`super::PaceReport`] the proof
//! of the probes that have come.
//!
//! ```text
//!  0        4       12             0      4              12    20
//!  +--------+-------+              +------+--------------+-----+
//!  | probe  | nonce |              | last | bitmap of 64 | sum |
//!  | number |       |              |      | probes       |     |
//!  +--------+-------+              +------+--------------+-----+
//! ```

use std::fmt;

use crate::{
    ParseError,
    field::{Field, Reader},
};

/// A probe. Who has not got it does not know its nonce.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Probe {
    /// Probes are counted from 1 on.
    pub number: u32,
    /// A number that nobody can guess.
    pub nonce: u64,
}

/// Where there is no probe, there are no bytes.
impl Field for Option<Probe> {
    const LEN: usize = u32::LEN + u64::LEN;

    fn read(reader: &mut Reader<'_>, name: &'static str) -> Result<Self, ParseError> {
        if reader.is_empty() {
            return Ok(None);
        }
        match (reader.u32(name)?, reader.u64("nonce")?) {
            (0, _) => Err(ParseError::invalid(name, 0, "at least 1")),
            (number, nonce) => Ok(Some(Probe { number, nonce })),
        }
    }

    fn emit(&self, out: &mut Vec<u8>) {
        if let Some(Probe { number, nonce }) = self {
            number.emit(out);
            nonce.emit(out);
        }
    }
}

/// The probes that have come to a receiver, and the proof of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ProbeProof {
    /// The number of the last probe that has come. 0 for none.
    pub last: u32,
    /// The probes that have come: the lowest bit is the last one, the next bit the one before it.
    pub came: u64,
    /// The sum of the nonces of the probes in `came`, modulo 2^64.
    pub sum: u64,
}

impl Field for ProbeProof {
    const LEN: usize = u32::LEN + u64::LEN + u64::LEN;

    fn read(reader: &mut Reader<'_>, name: &'static str) -> Result<Self, ParseError> {
        Ok(Self { last: reader.u32(name)?, came: reader.u64("probes")?, sum: reader.u64("sum of nonces")? })
    }

    fn emit(&self, out: &mut Vec<u8>) {
        self.last.emit(out);
        self.came.emit(out);
        self.sum.emit(out);
    }
}

impl fmt::Display for ProbeProof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "probe={} came={:#x}", self.last, self.came)
    }
}
