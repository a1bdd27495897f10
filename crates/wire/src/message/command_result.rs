//! CommandResult: the first message on a connection of a standing receiver that has everything, and has run its rule's command.
//!
//! ```text
//!  0         1      5              13       29         30     n
//!  +---------+------+--------------+--------+----------+------+---------------------------+
//!  | version | code | milliseconds | member | name len | name | line, to the end (UTF-8) |
//!  +---------+------+--------------+--------+----------+------+---------------------------+
//! ```

use std::{fmt, time::Duration};

use super::{MEMBER_LEN, Reason, hello::Hello};
use crate::{ParseError, field::Reader};

/// The result of the command that a standing receiver has run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandResult {
    pub version: u8,
    /// The command's exit code. -1: it was killed, or could not be run.
    pub code: i32,
    /// How long it ran, to the millisecond.
    pub time: Duration,
    /// As in [`Hello::member`].
    pub member: [u8; MEMBER_LEN],
    /// The first line that the command printed, or why it has no exit code.
    pub line: Reason,
    name: String,
}

impl CommandResult {
    /// Creates the result of a command that has been successful at once.
    ///
    /// # Errors
    /// If the receiver's name cannot be that of a [`Hello`].
    pub fn new(version: u8, name: &str) -> Result<Self, ParseError> {
        let hello = Hello::new(version, 0, 0, name)?;
        Ok(Self {
            version,
            code: 0,
            time: Duration::ZERO,
            member: hello.member,
            line: Reason::new(""),
            name: hello.name().to_owned(),
        })
    }

    /// The receiver's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn parse(payload: &[u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(payload);
        let version = reader.u8("version")?;
        let code = reader.u32("exit code")?.cast_signed();
        let time = Duration::from_millis(reader.u64("milliseconds")?);
        let member = reader.array("member")?;
        let name_len = usize::from(reader.u8("name length")?);
        let name = reader.take("receiver name", name_len)?;
        let name = str::from_utf8(name)
            .map_err(|_| ParseError::invalid("receiver name", name.escape_ascii(), "UTF-8"))?;
        let line = Reason::parse(reader.rest())?;
        Ok(Self { code, time, member, line, ..Self::new(version, name)? })
    }

    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        out.push(self.version);
        out.extend_from_slice(&self.code.to_be_bytes());
        let millis = u64::try_from(self.time.as_millis()).unwrap_or(u64::MAX);
        out.extend_from_slice(&millis.to_be_bytes());
        out.extend_from_slice(&self.member);
        out.push(self.name.len() as u8);
        out.extend_from_slice(self.name.as_bytes());
        self.line.emit(out);
    }
}

impl fmt::Display for CommandResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { version, code, time, name, line, .. } = self;
        write!(f, "version={version} code={code} ms={} name={name:?} {line}", time.as_millis())
    }
}
