//! Move: the number of the group that a receiver listens to, in one octet. 0 is the fastest group.

use std::fmt;

use crate::{ParseError, field::Reader, ticket::MAX_GROUPS};

/// The group from now on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Move {
    group: u8,
}

impl Move {
    /// Length of the payload in bytes.
    pub const LEN: usize = 1;

    /// # Errors
    /// If no session has that many groups.
    pub fn new(group: u8) -> Result<Self, ParseError> {
        if group >= MAX_GROUPS {
            return Err(ParseError::invalid("group", group, "0 to 7"));
        }
        Ok(Self { group })
    }

    pub fn group(self) -> u8 {
        self.group
    }

    pub(super) fn parse(payload: &[u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(payload);
        let group = reader.u8("group")?;
        reader.end("move")?;
        Self::new(group)
    }

    pub(super) fn emit(self, out: &mut Vec<u8>) {
        out.push(self.group);
    }
}

impl fmt::Display for Move {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "group={}", self.group)
    }
}
