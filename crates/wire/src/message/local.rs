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
//! | 8 | Listen | asks the sender for copies of what it sends, on a fanout without multicast; the sender's answer |

use std::fmt;

use super::{GroupId, LocalJoin, LocalReport, LocalRequest, LocalSplit, LocalState};
use crate::{ParseError, field::Reader};

/// What a member of a session's local groups says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Local {
    State(Box<LocalState>),
    /// The time of the one who asks, in microseconds, which the answer repeats. Not 0.
    Probe(u64),
    Join(LocalJoin),
    Leave(GroupId),
    Report(LocalReport),
    Request(LocalRequest),
    Split(LocalSplit),
    Empty,
    /// A receiver asks the sender for copies, which are to come to this UDP port of its address; port 0 wants none any more.
    /// `token` is what the sender has answered before, and 0 at first. So nobody can ask for another host.
    Listen {
        token: u64,
        port: u16,
    },
}

impl Local {
    pub(super) fn parse(payload: &[u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(payload);
        let local = match reader.u8("kind")? {
            0 => Self::State(Box::new(LocalState::parse(&mut reader)?)),
            1 => Self::Probe(reader.u64("timestamp")?),
            2 => Self::Join(LocalJoin::parse(&mut reader)?),
            3 => Self::Leave(GroupId(reader.u32("group")?)),
            4 => Self::Report(LocalReport::parse(&mut reader)?),
            5 => Self::Request(LocalRequest::parse(&mut reader)?),
            6 => Self::Split(LocalSplit::parse(&mut reader)?),
            7 => Self::Empty,
            8 => Self::Listen { token: reader.u64("token")?, port: reader.u16("port")? },
            kind => return Err(ParseError::invalid("kind", kind, "0 to 8")),
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
            Self::Listen { token, port } => {
                out.push(8);
                out.extend_from_slice(&token.to_be_bytes());
                out.extend_from_slice(&port.to_be_bytes());
            }
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
            Self::Listen { token, port } => write!(f, "listen token={token:016x} port={port}"),
        }
    }
}
