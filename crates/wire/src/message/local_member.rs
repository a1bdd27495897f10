//! The members and groups that messages of local groups name.

use std::{fmt, net::SocketAddr};

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
        return Err(ParseError::invalid(
            "number of members",
            count,
            "at most 40 in a roster, 32 in a split, 16 groups",
        ));
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
