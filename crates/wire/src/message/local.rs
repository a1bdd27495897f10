//! Local: what members of a session's local groups say to each other and to the sender (LGMP and LGCP;
//! lgmp-mbone-1999, section 2; the layout is treecast's). The first octet is the kind:
//!
//! | kind | message | section |
//! |---|---|---|
//! | 0 | [`LocalState`] | how a group is, from its controller |
//! | 1 | Probe | asks a controller for its state, to measure the distance |
//! | 2 | [`LocalJoin`] | asks a controller to admit a member, or a group below its own |
//! | 3 | Leave | a member leaves its group, or a group its parent |
//! | 4 | [`LocalReport`] | what a member, or all below a controller, has received |
//! | 5 | [`LocalRequest`] | what a member lacks of an object |
//! | 6 | [`LocalSplit`] | some members of a group become a group of their own |
//! | 7 | Empty | nothing: for networks in which a member must be a sender (4.4) |

use std::{fmt, net::SocketAddr};

use super::{LocalJoin, LocalReport, LocalRequest, LocalSplit, LocalState};
use crate::{ParseError, field::Reader};

/// A member's own UDP address, which it is known by. The sender has one, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Member(pub SocketAddr);

/// The number of a local group, drawn by whoever founds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(pub u32);

impl GroupId {
    /// The group of the whole session, whose controller is the sender.
    pub const SESSION: Self = Self(0);
}

/// What a member of a session's local groups says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Local {
    State(LocalState),
    /// The time of the one who asks, in microseconds, which the answer repeats. Not 0.
    Probe(u64),
    Join(LocalJoin),
    Leave(GroupId),
    Report(LocalReport),
    Request(LocalRequest),
    Split(LocalSplit),
    Empty,
}

impl Local {
    pub(super) fn parse(payload: &[u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(payload);
        let local = match reader.u8("kind")? {
            0 => Self::State(LocalState::parse(&mut reader)?),
            1 => Self::Probe(reader.u64("timestamp")?),
            2 => Self::Join(LocalJoin::parse(&mut reader)?),
            3 => Self::Leave(GroupId(reader.u32("group")?)),
            4 => Self::Report(LocalReport::parse(&mut reader)?),
            5 => Self::Request(LocalRequest::parse(&mut reader)?),
            6 => Self::Split(LocalSplit::parse(&mut reader)?),
            7 => Self::Empty,
            kind => return Err(ParseError::invalid("kind", kind, "0 to 7")),
        };
        reader.end("local message")?;
        Ok(local)
    }

    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        match self {
            Self::State(state) => {
                out.push(0);
                state.emit(out);
            }
            Self::Probe(stamp_us) => {
                out.push(1);
                out.extend_from_slice(&stamp_us.to_be_bytes());
            }
            Self::Join(join) => {
                out.push(2);
                join.emit(out);
            }
            Self::Leave(group) => {
                out.push(3);
                out.extend_from_slice(&group.0.to_be_bytes());
            }
            Self::Report(report) => {
                out.push(4);
                report.emit(out);
            }
            Self::Request(request) => {
                out.push(5);
                request.emit(out);
            }
            Self::Split(split) => {
                out.push(6);
                split.emit(out);
            }
            Self::Empty => out.push(7),
        }
    }
}

impl fmt::Display for Local {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::State(state) => write!(f, "state {state}"),
            Self::Probe(stamp_us) => write!(f, "probe stamp={stamp_us}us"),
            Self::Join(join) => write!(f, "join {join}"),
            Self::Leave(group) => write!(f, "leave group={group}"),
            Self::Report(report) => write!(f, "report {report}"),
            Self::Request(request) => write!(f, "request {request}"),
            Self::Split(split) => write!(f, "split {split}"),
            Self::Empty => f.write_str("empty"),
        }
    }
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::Display for GroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}

/// Reads a member. Port 0 stands for nobody.
pub(super) fn parse_member(reader: &mut Reader<'_>) -> Result<Option<Member>, ParseError> {
    let address = std::net::Ipv6Addr::from(reader.array::<16>("member's address")?);
    let port = reader.u16("member's port")?;
    if port == 0 {
        return match address.is_unspecified() {
            true => Ok(None),
            false => Err(ParseError::invalid("member's address", address, ":: beside port 0")),
        };
    }
    Ok(Some(Member(SocketAddr::new(address.to_canonical(), port))))
}

/// Reads a member that must be there.
pub(super) fn parse_somebody(reader: &mut Reader<'_>) -> Result<Member, ParseError> {
    parse_member(reader)?.ok_or_else(|| ParseError::invalid("member's port", 0, "1 to 65535"))
}

pub(super) fn emit_member(member: Option<Member>, out: &mut Vec<u8>) {
    let (octets, port) = match member.map(|member| member.0) {
        None => ([0; 16], 0),
        Some(SocketAddr::V4(address)) => (address.ip().to_ipv6_mapped().octets(), address.port()),
        Some(SocketAddr::V6(address)) => (address.ip().octets(), address.port()),
    };
    out.extend_from_slice(&octets);
    out.extend_from_slice(&port.to_be_bytes());
}

/// Reads a list of members behind its length in one octet.
pub(super) fn parse_members(reader: &mut Reader<'_>, most: usize) -> Result<Vec<Member>, ParseError> {
    let count = usize::from(reader.u8("number of members")?);
    if count > most {
        return Err(ParseError::invalid("number of members", count, "at most 32"));
    }
    (0..count).map(|_| parse_somebody(reader)).collect()
}

pub(super) fn emit_members(members: &[Member], out: &mut Vec<u8>) {
    out.push(members.len() as u8);
    members.iter().for_each(|member| emit_member(Some(*member), out));
}

/// A share of 1, as a number of 65,535ths.
pub(super) fn share_text(share: u16) -> String {
    format!("{:.4}", f64::from(share) / f64::from(u16::MAX))
}
