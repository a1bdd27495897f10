//! The ticket: one line of text that tells a receiver all it needs to join a session.
//!
//! Text form: `treecast2.` and the URL-safe base64 of the fields below, followed by a CRC-32 of
//! them, so that a ticket cut short or mistyped is told apart from a wrong one. The digit is the
//! version; version 1 had no keys. White space in it, as mail programs put it there, means nothing.
//!
//! ```text
//! session 4 | fanout 1 | repair 1 | block length 2 | group | source | n 1 | n control addresses | security | expires 8 | local
//! fanout: its upper half is how many slower groups there are; their addresses follow the group's one by one. With copies, these are lanes
//! repair: its top bit says whether there is forward error correction, the next one whether objects are added while the session runs
//! group, control address: family 1 (4 or 6) | address 4 or 16 | port 2;  source: family 1 (0 = any) | address
//! security: 0, a plain session; 1 | sender's key 32; 3 | sender's key 32 | secret 32
//!     (2 was a carousel whose sender does not sign what its blocks are)
//! expires: seconds since 1970, 0 for never
//! local: with repair local alone: mode 1 (its top bit says that groups are fixed) | deadline in ms 4 | repair rate in bits/s 8
//! ```

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    num::NonZeroU64,
    str::FromStr,
};

use data_encoding::{BASE64URL_NOPAD, HEXLOWER};
use thiserror::Error;

use crate::{
    ParseError,
    field::Reader,
    header::{MAX_LANES, SessionId},
    listed,
};

const NAME: &str = "treecast";
const VERSION: u32 = 2;

/// The bit of the repair octet that says that there is forward error correction.
const FEC: u8 = 0x80;

/// The bit of the repair octet that says that objects are added while the session runs.
const FEED: u8 = 0x40;

/// The bit of a local mode that says that groups are fixed by hand.
const STATIC: u8 = 0x80;

/// The value of the security field in a carousel. Its blocks count only if the sender has signed them
/// ([`crate::message::BlockHashes`]).
const SIGNED_BLOCKS: u8 = 3;

/// The largest number of groups of a session.
pub const MAX_GROUPS: u8 = 8;

/// Length of an Ed25519 public key and of a session's secret, in bytes.
pub const KEY_LEN: usize = 32;

/// The largest number of control addresses in a ticket.
pub const MAX_CONTROL_ADDRESSES: usize = 16;

/// The longest text that is parsed. It is longer than any ticket.
const MAX_TEXT_LEN: usize = 4096;

listed! {
    /// How one packet reaches many hosts.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    #[repr(u8)]
    pub enum Fanout {
        Multicast = 0 => "multicast",
        Unicast = 1 => "unicast",
        /// MEADcast if routers are found, unicast elsewhere.
        Mead = 2 => "mead",
        /// The cheapest fanout that works, for each receiver by itself.
        Auto = 3 => "auto",
        /// Xcast for receivers that report that its packets arrive, unicast for the others.
        Xcast = 4 => "xcast",
    }
}

impl Fanout {
    /// Whether some packets go to a multicast group.
    pub fn has_group(self) -> bool {
        matches!(self, Self::Multicast | Self::Auto)
    }

    /// Whether so many groups are not told apart by address: receivers hear all of them at their own addresses, and tell them apart by
    /// packet numbers.
    pub fn has_lanes(self, groups: u8) -> bool {
        groups > 1 && self != Self::Multicast
    }

    /// Whether the sender chooses a fanout for each receiver, by what the receiver has heard
    /// ([`crate::message::Heard`]).
    pub fn chooses(self) -> bool {
        matches!(self, Self::Mead | Self::Auto | Self::Xcast)
    }
}

impl fmt::Display for Fanout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

listed! {
    /// How loss is mended.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    #[repr(u8)]
    pub enum Repair {
        None = 0 => "none",
        Carousel = 1 => "carousel",
        After = 2 => "after",
        Nack = 3 => "nack",
        /// Receivers mend losses among themselves, in local groups (LGMP).
        Local = 4 => "local",
    }
}

listed! {
    /// Which members of a session with local groups mend losses.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    #[repr(u8)]
    pub enum LocalMode {
        /// The sender alone: one group, with the sender as its controller (lgmp-mbone-1999, 4.1).
        Sender = 0 => "sender",
        /// Controllers alone (strict hierarchical error recovery).
        Hierarchical = 1 => "hierarchical",
        /// Any member (local error recovery).
        #[default]
        Local = 2 => "local",
    }
}

impl fmt::Display for LocalMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What the members of a session with local groups must know before they hear anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LocalTicket {
    pub mode: LocalMode,
    /// Whether the groups are fixed in a file that every member has.
    pub is_static: bool,
    /// The time in milliseconds after which an object that is not whole is given up. 0 means never.
    pub deadline_ms: u32,
    /// The highest rate at which a member may repair, in bits of objects a second.
    pub repair_rate_bps: u64,
    /// The share of packets, in 65,535ths, above which a receiver counts as congested.
    pub congestion_loss: u16,
}

impl fmt::Display for Repair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The keys of a secure session. Anybody who has a ticket with a secret can read the session.
#[derive(Clone, PartialEq, Eq)]
pub struct Security {
    /// The sender's Ed25519 public key. Receivers accept no other sender.
    pub sender_key: [u8; KEY_LEN],
    /// The secret for packets to the group, if the session is a carousel. Other sessions send their key over
    /// control connections.
    pub secret: Option<[u8; KEY_LEN]>,
}

impl fmt::Debug for Security {
    /// Leaves the secret out, because this text may end up in a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let secret = self.secret.map_or("none", |_| "hidden");
        write!(f, "Security {{ sender_key: {}, secret: {secret} }}", HEXLOWER.encode(&self.sender_key))
    }
}

/// The addresses of a session, and how it is delivered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ticket {
    pub session: SessionId,
    pub fanout: Fanout,
    pub repair: Repair,
    /// Whether repair symbols mend losses (forward error correction; `treecast_proto::fec`).
    pub fec: bool,
    /// Whether objects are added while the session runs, so that nobody knows how many there will be.
    pub is_feed: bool,
    /// The number of bytes of an object in each packet but the last.
    pub block_len: u16,
    /// The multicast group and UDP port. If the fanout has no group ([`Fanout::has_group`]), the address is
    /// unused.
    pub group: SocketAddr,
    /// The number of groups that get the same objects, each at a lower rate than the one before: 1 to
    /// [`MAX_GROUPS`]. [`Ticket::group`] is the first of them. Without multicast alone, at most [`MAX_LANES`] lanes
    /// ([`Ticket::has_lanes`]).
    pub groups: u8,
    /// The only source to listen to (source-specific multicast). `None` means any source.
    pub source: Option<IpAddr>,
    /// The sender's addresses for control connections, the best one first. Empty for a carousel. In a session with local
    /// groups, the one UDP address of the sender as a member.
    pub control: Vec<SocketAddr>,
    /// The keys of a secure session. `None` for a plain session, which is neither encrypted nor authenticated.
    pub security: Option<Security>,
    /// The time in seconds since 1970 from which the sender admits nobody with this ticket, by its own clock.
    /// `None` means never.
    pub expires: Option<NonZeroU64>,
    /// What only a session with local groups has. `None` for every other repair.
    pub local: Option<LocalTicket>,
}

/// The reason why a text is not a ticket.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TicketError {
    #[error("a ticket begins with \"treecast2.\": copy the whole first line that `treecast send` prints")]
    Prefix,
    #[error(
        "the ticket is of {age} version, {0}, and this treecast reads version {VERSION}: use the same version of \
         treecast on both sides",
        age = if *.0 > VERSION { "a newer" } else { "an older" }
    )]
    Version(u32),
    #[error("the ticket is cut short or mistyped: copy the whole first line that `treecast send` prints")]
    Damaged,
    #[error("the ticket is whole, but this version cannot use it: {0}")]
    Field(#[from] ParseError),
}

impl fmt::Display for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut bytes = Vec::new();
        bytes.extend_from_slice(&self.session.0.to_be_bytes());
        bytes.extend_from_slice(&[
            self.fanout as u8 | (self.groups.clamp(1, MAX_GROUPS) - 1) << 4,
            self.repair as u8 | if self.fec { FEC } else { 0 } | if self.is_feed { FEED } else { 0 },
        ]);
        bytes.extend_from_slice(&self.block_len.to_be_bytes());
        emit_socket(&mut bytes, self.group);
        if let Some(source) = self.source {
            emit_address(&mut bytes, source)
        } else {
            bytes.push(0)
        }
        let control = &self.control[..self.control.len().min(MAX_CONTROL_ADDRESSES)];
        bytes.push(control.len() as u8);
        for address in control {
            emit_socket(&mut bytes, *address);
        }
        emit_security(&mut bytes, self.security.as_ref());
        bytes.extend_from_slice(&self.expires.map_or(0, NonZeroU64::get).to_be_bytes());
        if let Some(local) = &self.local {
            bytes.push(local.mode as u8 | if local.is_static { STATIC } else { 0 });
            bytes.extend_from_slice(&local.deadline_ms.to_be_bytes());
            bytes.extend_from_slice(&local.repair_rate_bps.to_be_bytes());
            bytes.extend_from_slice(&local.congestion_loss.to_be_bytes());
        }
        f.write_str(&Self::seal(&bytes))
    }
}

/// The address of the session's group with this number. Group 0 has the address `first`. `None` if there is no
/// such address.
pub fn group_address(first: SocketAddr, number: u8) -> Option<SocketAddr> {
    let ip: IpAddr = match first.ip() {
        IpAddr::V4(ip) => Ipv4Addr::from_bits(ip.to_bits().checked_add(number.into())?).into(),
        IpAddr::V6(ip) => Ipv6Addr::from_bits(ip.to_bits().checked_add(number.into())?).into(),
    };
    (number == 0 || ip.is_multicast()).then(|| SocketAddr::new(ip, first.port()))
}

/// The address of a local group of the session whose group has the address `session`: it is in the same scope and at the same
/// port. IPv6: the group's number changes the low 32 bits. IPv4: it changes the low 16 bits, so two groups may share an
/// address, which costs their members packets that they do not need.
pub fn local_group(session: SocketAddr, number: u32) -> SocketAddr {
    let ip: IpAddr = match session.ip() {
        IpAddr::V4(ip) => Ipv4Addr::from_bits(ip.to_bits() ^ (1 + number % 0xffff)).into(),
        IpAddr::V6(ip) => Ipv6Addr::from_bits(ip.to_bits() ^ u128::from(number)).into(),
    };
    SocketAddr::new(ip, session.port())
}

impl Ticket {
    /// Creates the ticket of a plain session by multicast to one group, which takes no control connections.
    pub fn new(session: SessionId, repair: Repair, block_len: u16, group: SocketAddr) -> Self {
        Self {
            session,
            fanout: Fanout::Multicast,
            repair,
            fec: false,
            is_feed: false,
            block_len,
            group,
            groups: 1,
            source: None,
            control: Vec::new(),
            security: None,
            expires: None,
            local: None,
        }
    }

    /// The UDP port that receivers should use for packets to their own addresses, if they can. MEADcast's
    /// packets are shorter if all receivers have the same port, and a carousel's sender does not learn of
    /// another port. 0 if the port does not matter.
    pub fn own_port(&self) -> u16 {
        let is_told_nothing = self.repair == Repair::Carousel && self.fanout != Fanout::Multicast;
        // Where groups are fixed by hand, each member knows the others' addresses.
        let is_listed = self.local.is_some_and(|local| local.is_static);
        match self.fanout.chooses() || is_told_nothing || is_listed {
            true => self.group.port().checked_add(1).unwrap_or(1024),
            false => 0,
        }
    }

    /// Whether the session's groups are lanes ([`Fanout::has_lanes`]).
    pub fn has_lanes(&self) -> bool {
        self.fanout.has_lanes(self.groups)
    }

    /// Whether local groups have multicast addresses. Elsewhere members are spoken to one by one: on fanouts without multicast, and where
    /// receivers hear a single source.
    pub fn has_local_addresses(&self) -> bool {
        self.fanout == Fanout::Multicast && self.source.is_none()
    }

    /// The UDP port of members of local groups that are fixed by hand, each at its own address. 0 where members choose a port. Without
    /// multicast, the sender's copies come to the port before it.
    pub fn member_port(&self) -> u16 {
        let is_listed = self.local.is_some_and(|local| local.is_static);
        let own = self.own_port();
        match self.fanout {
            _ if !is_listed => 0,
            Fanout::Multicast => own,
            _ => own.checked_add(1).unwrap_or(1024),
        }
    }

    /// Parses the ticket in the first of `pieces`, such as the lines of a file. Returns it with the number of
    /// pieces that it takes.
    ///
    /// # Errors
    /// If the first pieces are not a ticket, however many are joined: the error for the first piece.
    pub fn from_pieces<'a>(pieces: impl IntoIterator<Item = &'a str>) -> Result<(Self, usize), TicketError> {
        let mut text = String::new();
        let mut refused = None;
        for (piece, count) in pieces.into_iter().zip(1..) {
            text.extend(piece.split_whitespace());
            match text.parse() {
                Ok(ticket) => return Ok((ticket, count)),
                Err(error @ TicketError::Field(_)) => return Err(error),
                Err(error) => _ = refused.get_or_insert(error),
            }
            if text.len() > MAX_TEXT_LEN {
                break;
            }
        }
        Err(refused.unwrap_or(TicketError::Prefix))
    }

    /// The text of a ticket with these bytes as fields, whether they are valid or not: prefix, base64,
    /// checksum.
    pub fn seal(fields: &[u8]) -> String {
        let checksum = crc32fast::hash(fields).to_be_bytes();
        format!("{NAME}{VERSION}.{}", BASE64URL_NOPAD.encode(&[fields, &checksum].concat()))
    }
}

impl FromStr for Ticket {
    type Err = TicketError;

    fn from_str(text: &str) -> Result<Self, TicketError> {
        let text: String = text.split_whitespace().collect();
        let (version, text) = split_prefix(&text).ok_or(TicketError::Prefix)?;
        if version != VERSION {
            return Err(TicketError::Version(version));
        }
        let bytes = BASE64URL_NOPAD.decode(text.as_bytes()).map_err(|_| TicketError::Damaged)?;
        let (fields, checksum) = bytes.split_last_chunk::<4>().ok_or(TicketError::Damaged)?;
        if crc32fast::hash(fields) != u32::from_be_bytes(*checksum) {
            return Err(TicketError::Damaged);
        }
        Ok(parse_fields(fields)?)
    }
}

/// Splits a text into the version and the rest.
fn split_prefix(text: &str) -> Option<(u32, &str)> {
    let (version, fields) = text.strip_prefix(NAME)?.split_once('.')?;
    let is_number = version.bytes().all(|byte| byte.is_ascii_digit());
    Some((version.parse().ok().filter(|_| is_number)?, fields))
}

fn parse_fields(fields: &[u8]) -> Result<Ticket, ParseError> {
    let mut reader = Reader::new(fields);
    let session = SessionId(reader.u32("session")?);
    let fanout = reader.u8("fanout")?;
    let groups = (fanout >> 4) + 1;
    let fanout = Fanout::ALL
        .into_iter()
        .find(|known| *known as u8 == fanout & 0xf)
        .ok_or_else(|| ParseError::invalid("fanout", fanout & 0xf, "0 to 4"))?;
    let repair = reader.u8("repair")?;
    let (fec, is_feed) = (repair & FEC != 0, repair & FEED != 0);
    let repair = repair & !(FEC | FEED);
    let repair = Repair::ALL
        .into_iter()
        .find(|known| *known as u8 == repair)
        .ok_or_else(|| ParseError::invalid("repair", repair, "0 to 4"))?;
    let block_len = reader.u16("block length")?;
    if block_len == 0 {
        return Err(ParseError::invalid("block length", 0, "at least 1"));
    }
    let family = reader.u8("group")?;
    let group = parse_socket(&mut reader, "group", family)?;
    if fanout.has_group() && !group.ip().is_multicast() {
        return Err(ParseError::invalid("group", group, "a multicast address"));
    }
    let most = match fanout {
        Fanout::Multicast => MAX_GROUPS,
        _ if repair == Repair::Nack => MAX_LANES,
        _ => 1,
    };
    let has_addresses = fanout != Fanout::Multicast || group_address(group, groups - 1).is_some();
    if groups > 1 && !(groups <= most && has_addresses) {
        let expected = "0 to 7 where there is multicast, 0 to 3 with copies and the repair nack, and else 0";
        return Err(ParseError::invalid("slower groups", groups - 1, expected));
    }
    let source = match reader.u8("source")? {
        0 => None,
        family => Some(parse_address(&mut reader, "source", family)?),
    };
    let count = reader.u8("control addresses")?;
    if usize::from(count) > MAX_CONTROL_ADDRESSES {
        return Err(ParseError::invalid("control addresses", count, "at most 16"));
    }
    let mut control = Vec::new();
    for _ in 0..count {
        let family = reader.u8("control address")?;
        control.push(parse_socket(&mut reader, "control address", family)?);
    }
    let security = parse_security(&mut reader)?;
    let expires = NonZeroU64::new(reader.u64("expires")?);
    let local = (repair == Repair::Local).then(|| parse_local(&mut reader)).transpose()?;
    reader.end("ticket")?;
    let ticket = Ticket::new(session, repair, block_len, group);
    Ok(Ticket { fanout, fec, is_feed, groups, source, control, security, expires, local, ..ticket })
}

fn parse_local(reader: &mut Reader<'_>) -> Result<LocalTicket, ParseError> {
    let mode = reader.u8("mode of local groups")?;
    let is_static = mode & STATIC != 0;
    let mode = mode & !STATIC;
    let mode = LocalMode::ALL
        .into_iter()
        .find(|known| *known as u8 == mode)
        .ok_or_else(|| ParseError::invalid("mode of local groups", mode, "0 to 2"))?;
    let deadline_ms = reader.u32("deadline")?;
    let repair_rate_bps = reader.u64("repair rate")?;
    let congestion_loss = reader.u16("congestion loss")?;
    Ok(LocalTicket { mode, is_static, deadline_ms, repair_rate_bps, congestion_loss })
}

fn parse_security(reader: &mut Reader<'_>) -> Result<Option<Security>, ParseError> {
    let kind = reader.u8("security")?;
    if kind == 0 {
        return Ok(None);
    }
    let sender_key = reader.array("sender's key")?;
    let secret = match kind {
        1 => None,
        SIGNED_BLOCKS => Some(reader.array("secret")?),
        other => return Err(ParseError::invalid("security", other, "0, 1 or 3")),
    };
    Ok(Some(Security { sender_key, secret }))
}

fn emit_security(bytes: &mut Vec<u8>, security: Option<&Security>) {
    let Some(Security { sender_key, secret }) = security else { return bytes.push(0) };
    bytes.push(if secret.is_some() { SIGNED_BLOCKS } else { 1 });
    bytes.extend_from_slice(sender_key);
    bytes.extend(secret.iter().flatten());
}

fn parse_socket(reader: &mut Reader<'_>, field: &'static str, family: u8) -> Result<SocketAddr, ParseError> {
    let address = parse_address(reader, field, family)?;
    Ok(SocketAddr::new(address, reader.u16(field)?))
}

fn parse_address(reader: &mut Reader<'_>, field: &'static str, family: u8) -> Result<IpAddr, ParseError> {
    match family {
        4 => Ok(IpAddr::from(reader.array::<4>(field)?)),
        6 => Ok(IpAddr::from(reader.array::<16>(field)?)),
        other => Err(ParseError::invalid(field, other, "address family 4 or 6")),
    }
}

fn emit_socket(bytes: &mut Vec<u8>, address: SocketAddr) {
    emit_address(bytes, address.ip());
    bytes.extend_from_slice(&address.port().to_be_bytes());
}

fn emit_address(bytes: &mut Vec<u8>, address: IpAddr) {
    match address {
        IpAddr::V4(address) => {
            bytes.push(4);
            bytes.extend_from_slice(&address.octets());
        }
        IpAddr::V6(address) => {
            bytes.push(6);
            bytes.extend_from_slice(&address.octets());
        }
    }
}
