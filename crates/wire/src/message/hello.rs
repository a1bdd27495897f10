//! Hello: a receiver's first message on a control connection.
//!
//! ```text
//!  0         1          3                     7        23      24
//!  +---------+----------+---------------------+--------+-------+------------------------+
//!  | version | UDP port | receive buffer size | member | flags | name, to the end (UTF-8)|
//!  +---------+----------+---------------------+--------+-------+------------------------+
//! ```

use std::fmt;

use crate::{ParseError, field::Reader};

/// The longest name of a receiver, in bytes.
pub const MAX_RECEIVER_NAME_LEN: usize = 64;

/// Length of [`Hello::member`] in bytes.
pub const MEMBER_LEN: usize = 16;

/// The flag of a standing receiver.
const STANDING: u8 = 1 << 0;

/// The flag of a receiver that reports the result of a command.
const REPORTS: u8 = 1 << 1;

/// The kind of receiver that asks to be admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Role {
    /// Whether it is a standing receiver, which has heard an announcement. Otherwise somebody has given it a ticket.
    pub is_standing: bool,
    /// Whether it runs a command when it has everything, and tells the sender how that went ([`super::CommandResult`]).
    pub reports: bool,
}

/// The data with which a receiver asks to be admitted to a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    pub version: u8,
    /// The UDP port at which the receiver hears packets to its own address. 0 if it hears none.
    pub udp_port: u16,
    /// The size of the receive buffer of its UDP socket in bytes: how far a sender may run ahead of it.
    pub receive_buffer_bytes: u32,
    /// A random number by which the sender of a plain session recognises a receiver that comes back. In a
    /// secure session it is all zeros, because the receiver's key serves that purpose.
    pub member: [u8; MEMBER_LEN],
    pub role: Role,
    name: String,
}

impl Hello {
    /// Creates a receiver's first message.
    ///
    /// # Errors
    /// If the name is empty, longer than [`MAX_RECEIVER_NAME_LEN`] bytes, or contains control characters.
    pub fn new(
        version: u8,
        udp_port: u16,
        receive_buffer_bytes: u32,
        name: &str,
    ) -> Result<Self, ParseError> {
        if name.is_empty() || name.len() > MAX_RECEIVER_NAME_LEN {
            return Err(ParseError::invalid(
                "receiver name",
                format!("{} bytes", name.len()),
                "1 to 64 bytes",
            ));
        }
        if name.chars().any(char::is_control) {
            return Err(ParseError::invalid("receiver name", format!("{name:?}"), "no control characters"));
        }
        let (member, role) = ([0; MEMBER_LEN], Role::default());
        Ok(Self { version, udp_port, receive_buffer_bytes, member, role, name: name.to_owned() })
    }

    /// The receiver's name, for people to read.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn parse(payload: &[u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(payload);
        let version = reader.u8("version")?;
        let udp_port = reader.u16("UDP port")?;
        let receive_buffer_bytes = reader.u32("receive buffer size")?;
        let member = reader.array("member")?;
        let flags = reader.u8("flags of the receiver")?;
        if flags & !(STANDING | REPORTS) != 0 {
            return Err(ParseError::invalid("flags of the receiver", flags, "0 to 3"));
        }
        let role = Role { is_standing: flags & STANDING != 0, reports: flags & REPORTS != 0 };
        let name = reader.rest();
        let name = std::str::from_utf8(name)
            .map_err(|_| ParseError::invalid("receiver name", name.escape_ascii(), "UTF-8"))?;
        let hello = Self::new(version, udp_port, receive_buffer_bytes, name)?;
        Ok(Self { member, role, ..hello })
    }

    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        out.push(self.version);
        out.extend_from_slice(&self.udp_port.to_be_bytes());
        out.extend_from_slice(&self.receive_buffer_bytes.to_be_bytes());
        out.extend_from_slice(&self.member);
        let standing = if self.role.is_standing { STANDING } else { 0 };
        out.push(standing | if self.role.reports { REPORTS } else { 0 });
        out.extend_from_slice(self.name.as_bytes());
    }
}

impl fmt::Display for Hello {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { version, udp_port, receive_buffer_bytes, member, role, name } = self;
        let member = u128::from_be_bytes(*member);
        write!(
            f,
            "version={version} port={udp_port} buffer={receive_buffer_bytes} member={member:x} standing={} reports={} \
             name={name:?}",
            role.is_standing, role.reports
        )
    }
}
