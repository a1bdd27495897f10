//! The registration of Xcast+: a designated router tells a sender that there are listeners of its channel on
//! the router's links. RFC 5058 names Xcast+ without a format. This format is ours; it is the payload of a UDP
//! datagram.
//!
//! ```text
//!  0         2         3      4                 6          8          16       32      48       64     80
//!  +---------+---------+------+-----------------+----------+----------+--------+-------+--------+------+
//!  | 'X' '+' | version | kind | holding seconds | reserved | sequence | source | group | router | code |
//!  +---------+---------+------+-----------------+----------+----------+--------+-------+--------+------+
//! ```
//!
//! The code authenticates everything before it with a key that the routers and senders of a domain share
//! (`proto::explicit::xcast`). Without a key it is 0.

use std::{fmt, net::Ipv6Addr};

use crate::{ParseError, field::Reader, ipv6::is_forwardable};

/// The UDP port of senders. It is the RFC's number, and belongs to no service that IANA knows.
pub const REGISTRATION_PORT: u16 = 5058;

/// Length of a registration in bytes.
pub const REGISTRATION_LEN: usize = 80;

pub const REGISTRATION_CODE_LEN: usize = 16;

/// The number of bytes that the code covers.
const AUTHENTICATED_LEN: usize = REGISTRATION_LEN - REGISTRATION_CODE_LEN;

const MAGIC: [u8; 2] = *b"X+";
const VERSION: u8 = 1;
const KIND: u8 = 1;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Registration {
    /// Number of seconds for which the registration holds if no other follows. 0 means that nobody listens any more.
    pub holding_seconds: u16,
    /// Sequence number. Of two registrations from one router, the one with the higher number is newer.
    pub sequence: u64,
    /// Address of the sender whose packets are listened to.
    pub source: Ipv6Addr,
    pub group: Ipv6Addr,
    /// Address of the router to which Xcast packets are to go.
    pub router: Ipv6Addr,
    pub code: [u8; REGISTRATION_CODE_LEN],
}

impl Registration {
    /// Parses a datagram.
    ///
    /// # Errors
    /// If it has another length, version or kind, or names impossible addresses.
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(bytes);
        if reader.array::<2>("magic")? != MAGIC {
            return Err(ParseError::invalid("magic", format!("{:02x?}", &bytes[..2]), "X+"));
        }
        match reader.u8("version")? {
            VERSION => {}
            other => return Err(ParseError::invalid("version", other, "1")),
        }
        match reader.u8("kind")? {
            KIND => {}
            other => return Err(ParseError::invalid("kind", other, "1")),
        }
        let holding_seconds = reader.u16("holding time")?;
        reader.u16("reserved")?;
        let sequence = reader.u64("sequence")?;
        let mut address = |field| reader.array::<16>(field).map(Ipv6Addr::from);
        let (source, group, router) = (address("source")?, address("group")?, address("router")?);
        let code = reader.array("code")?;
        reader.end("registration")?;
        for (field, address) in [("source", source), ("router", router)] {
            if !is_forwardable(address) {
                return Err(ParseError::invalid(
                    field,
                    address,
                    "a unicast address that can be forwarded to",
                ));
            }
        }
        if !group.is_multicast() {
            return Err(ParseError::invalid("group", group, "a multicast address"));
        }
        Ok(Self { holding_seconds, sequence, source, group, router, code })
    }

    pub fn to_bytes(&self) -> [u8; REGISTRATION_LEN] {
        let mut bytes = [0; REGISTRATION_LEN];
        bytes[..AUTHENTICATED_LEN].copy_from_slice(&self.authenticated());
        bytes[AUTHENTICATED_LEN..].copy_from_slice(&self.code);
        bytes
    }

    /// The bytes that the code covers.
    pub fn authenticated(&self) -> [u8; AUTHENTICATED_LEN] {
        let mut bytes = [0; AUTHENTICATED_LEN];
        bytes[..2].copy_from_slice(&MAGIC);
        (bytes[2], bytes[3]) = (VERSION, KIND);
        bytes[4..6].copy_from_slice(&self.holding_seconds.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.sequence.to_be_bytes());
        bytes[16..32].copy_from_slice(&self.source.octets());
        bytes[32..48].copy_from_slice(&self.group.octets());
        bytes[48..64].copy_from_slice(&self.router.octets());
        bytes
    }
}

impl fmt::Display for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { holding_seconds, sequence, source, group, router, .. } = self;
        write!(f, "Xcast+ registration {router} for ({source}, {group})")?;
        write!(f, " holding={holding_seconds}s sequence={sequence}")
    }
}
