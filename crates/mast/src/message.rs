//! The messages of SRMP and ITMP. Both travel in UDP datagrams over IPv6, in the same authenticated envelope.
//!
//! ```text
//!  0        4      5            6       8            16       16+n
//!  +--------+------+------------+-------+------------+--------+-----------+-----------+
//!  | "tms1" | type | sender len | 0 (2) | stamp (64) | sender | fields    | code (32) |
//!  +--------+------+------------+-------+------------+--------+-----------+-----------+
//!  field: | type | length | value |
//! ```
//!
//! All integers are in network order. The last octet of the first four is the version. The *stamp* is the time of sending in
//! microseconds since 1970. It grows with each message of a sender, so it also counts them: [`ReplayGuard`] refuses what is
//! old or has come before. An answer names the stamp of its request.
//!
//! The code is a keyed BLAKE3 hash over all bytes before it. Sender and receiver share the key, and each protocol derives its own
//! from their secret. So a message that is forged, changed, or of the other protocol does not verify. Nothing is encrypted.
//!
//! Fields of unknown type are skipped. Parsing never panics, whatever the bytes.

use std::{collections::BTreeMap, fmt, net::Ipv6Addr};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::Prefix;

const MAGIC: [u8; 4] = *b"tms1";
const FIXED_LEN: usize = 16;
const CODE_LEN: usize = 32;

/// The UDP port at which receivers of SRMP listen, unless they are configured otherwise.
pub const SRMP_PORT: u16 = 4547;

/// The UDP port at which a TMS listens for ITMP, unless it is configured otherwise.
pub const ITMP_PORT: u16 = 4548;

/// The longest name of a sender in bytes.
pub(crate) const MAX_SENDER_LEN: usize = 40;

/// The largest number of prefixes in a message of SRMP. So every message fits into the smallest MTU of IPv6.
pub const MAX_PREFIXES: usize = 32;

/// The longest message in bytes.
pub const MAX_LEN: usize = FIXED_LEN + MAX_SENDER_LEN + MAX_PREFIXES * (2 + STATE_LEN) + CODE_LEN;

const _: () = assert!(MAX_LEN <= 1280 - 48);

/// The farthest that a stamp may be from the receiver's clock, in microseconds. TSIG, which the SRMS needs anyway, allows
/// clocks to differ by 300 s (RFC 8945, 10).
const MAX_SKEW_US: u64 = 60_000_000;

/// The two protocols. Each has keys of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// The Stub Reachability Management Protocol (6.3.2), from the SRMS to DHCP servers.
    Srmp,
    /// The Inter-domain Tunnel Management Protocol (6.3.3), between an SRMS and a provider's TMS.
    Itmp,
}

/// A message with its sender and stamp.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Envelope {
    /// The name by which the receiver knows the sender, 1 to 40 bytes.
    pub sender: String,
    /// The time of sending, in microseconds since 1970 by the sender's clock. See [`Stamps`].
    pub stamp: u64,
    pub message: Message,
}

/// The content of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// SRMP: the state of all prefixes of the stub, at most [`MAX_PREFIXES`]. It is sent at each change, and again and again
    /// until it is answered.
    Prefixes(Vec<PrefixState>),
    /// SRMP: the receiver has taken note of the message with this stamp.
    PrefixesTaken { answers: u64 },
    /// ITMP: the stub asks for a tunnel, or for more time for the one that it has.
    Open(Open),
    /// ITMP: the tunnel is there.
    Opened(Opened),
    /// ITMP: the stub no longer needs the tunnel of this prefix.
    Close { prefix: Prefix },
    /// ITMP: the tunnel is gone.
    Closed { answers: u64 },
    /// ITMP: the provider does not do what the message with this stamp asked for.
    Refused { answers: u64, reason: Refusal },
}

/// The state of one prefix of a stub.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrefixState {
    pub prefix: Prefix,
    pub preference: Preference,
    /// Grows with each change of the prefix's state. Whoever knows a higher one for this prefix ignores the state.
    pub epoch: u64,
}

/// Whether new connections use a prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Preference {
    /// New connections use the prefix.
    Encouraged,
    /// New connections avoid the prefix. It can be reached through a tunnel (6.3.2).
    Discouraged,
}

/// A request for a tunnel that carries a prefix when its access link is down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Open {
    /// The block that the provider has given to the stub.
    pub prefix: Prefix,
    pub kind: TunnelKind,
    /// The stub's end of the tunnel: an address out of another provider's block.
    pub stub_end: Ipv6Addr,
    /// The stub's AS number, for BGP over the tunnel.
    pub stub_as: u32,
    /// The time in seconds after which the provider removes the tunnel, if it is not asked for again.
    pub lifetime_s: u32,
}

/// A tunnel as the provider has made it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opened {
    /// The stamp of the request.
    pub answers: u64,
    pub prefix: Prefix,
    pub kind: TunnelKind,
    /// The number that tells the tunnel from others with the same ends, from 1 to 2^24 - 1.
    pub id: u32,
    /// The provider's end of the tunnel.
    pub provider_end: Ipv6Addr,
    /// The addresses inside the tunnel, which BGP uses. Both are in one block of 127 bits.
    pub inner_stub: Ipv6Addr,
    pub inner_provider: Ipv6Addr,
    pub provider_as: u32,
    pub lifetime_s: u32,
}

/// The way in which a tunnel carries packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TunnelKind {
    /// GRE over IPv6 (RFC 2784, RFC 7676).
    Gre,
    /// IPv6 in IPv6 (RFC 2473).
    Ip6tnl,
    /// VXLAN over IPv6 (RFC 7348).
    Vxlan,
}

/// The reason why a provider makes no tunnel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Refusal {
    /// The prefix is none of those that the provider has given to this stub.
    Prefix,
    /// The stub's end is inside the prefix that the tunnel is to protect.
    End,
    /// The provider's routers have no tunnels of this kind.
    Kind,
    /// The provider has no room for another tunnel, or could not make it.
    Busy,
}

/// The key that two ends share for one protocol.
#[derive(Clone)]
pub struct Key {
    protocol: Protocol,
    bytes: [u8; 32],
}

/// The error that a text is not a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "a secret is 64 hexadecimal digits, as `openssl rand -hex 32` prints; {0} characters found, or others"
)]
pub struct NoSecret(usize);

/// The reason why a datagram is dropped.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Dropped {
    #[error("{field}: {have} bytes are there, {need} are needed")]
    Truncated { field: &'static str, have: usize, need: usize },
    #[error("{field}: {value} found, expected {expected}")]
    Invalid { field: &'static str, value: String, expected: &'static str },
    #[error("{field} is missing")]
    Missing { field: &'static str },
    #[error("no key is known for a sender called {0:?}")]
    UnknownSender(String),
    #[error("the code of a message from {0:?} is wrong: it is forged, or the keys differ")]
    WrongCode(String),
    #[error("the stamp of a message from {sender:?} is {ahead_s} s ahead of this clock: set the clocks")]
    Skewed { sender: String, ahead_s: i64 },
    #[error("a message from {0:?} has come before, or a later one has")]
    Replayed(String),
}

impl Dropped {
    /// The name under which the drop is counted.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Truncated { .. } | Self::Invalid { .. } | Self::Missing { .. } => "malformed",
            Self::UnknownSender(_) => "unknown-sender",
            Self::WrongCode(_) => "wrong-code",
            Self::Skewed { .. } => "skewed",
            Self::Replayed(_) => "replayed",
        }
    }

    fn invalid(field: &'static str, value: impl ToString, expected: &'static str) -> Self {
        Self::Invalid { field, value: value.to_string(), expected }
    }
}

impl Key {
    /// Derives the key of a protocol from a secret of 32 bytes.
    pub fn new(protocol: Protocol, secret: &[u8; 32]) -> Self {
        let context = match protocol {
            Protocol::Srmp => "treecast 2026-11 MAST SRMP",
            Protocol::Itmp => "treecast 2026-11 MAST ITMP",
        };
        Self { protocol, bytes: blake3::derive_key(context, secret) }
    }

    /// Makes the key of a protocol from the text of a secret: 64 hexadecimal digits, white space around them.
    ///
    /// # Errors
    /// If it is anything else.
    pub fn from_hex(protocol: Protocol, text: &str) -> Result<Self, NoSecret> {
        Ok(Self::new(protocol, &Self::secret(text)?))
    }

    /// A message up to its code, with the code behind it.
    pub fn with_code(&self, message: &[u8]) -> Vec<u8> {
        [message, blake3::keyed_hash(&self.bytes, message).as_bytes()].concat()
    }

    /// Reads the text of a secret: 64 hexadecimal digits, white space around them.
    ///
    /// # Errors
    /// If it is anything else.
    pub fn secret(text: &str) -> Result<[u8; 32], NoSecret> {
        let text = text.trim();
        let secret = blake3::Hash::from_hex(text).map_err(|_| NoSecret(text.chars().count()))?;
        Ok(*secret.as_bytes())
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({:?})", self.protocol)
    }
}

/// Numbers that only grow, whatever the clock does: the epochs of prefixes, and the counters of signed DHCPv6 messages.
#[derive(Debug, Clone, Copy, Default)]
pub struct Epochs(u64);

impl Epochs {
    /// Numbers that are higher than `newest`, the last one of an earlier run. Zero: there was none.
    pub fn after(newest: u64) -> Self {
        Self(newest)
    }

    /// The next number. `now_us` is the time in microseconds since 1970.
    pub fn next(&mut self, now_us: u64) -> u64 {
        self.0 = now_us.max(self.0.saturating_add(1));
        self.0
    }

    /// The last number. Zero: there was none.
    pub fn newest(&self) -> u64 {
        self.0
    }
}

/// The stamps of a sender's messages. Each is higher than all before, also if the clock is set back.
///
/// One exception: a last stamp that is so far ahead of the clock that no receiver with a right clock has taken it is
/// forgotten. Otherwise nobody would believe a sender whose clock was wrong, until the time that it showed has come.
#[derive(Debug, Clone, Copy, Default)]
pub struct Stamps(Epochs);

impl Stamps {
    /// Stamps that are higher than `newest`, the last one of an earlier run. Zero: there was none.
    pub fn after(newest: u64) -> Self {
        Self(Epochs::after(newest))
    }

    /// The next stamp. `now_us` is the time in microseconds since 1970.
    pub fn next(&mut self, now_us: u64) -> u64 {
        if self.newest() > now_us.saturating_add(MAX_SKEW_US) {
            self.0 = Epochs::default();
        }
        self.0.next(now_us)
    }

    /// The last stamp. Zero: there was none.
    pub fn newest(&self) -> u64 {
        self.0.newest()
    }
}

/// Refuses messages that have come before, or that are too old to tell. It is asked about verified messages only, so it
/// remembers one stamp for each sender that has a key.
#[derive(Debug, Clone, Default)]
pub struct ReplayGuard {
    /// The stamp of the last message of each sender.
    last: BTreeMap<String, u64>,
    /// Older messages may have been taken before the receiver was started again.
    start_us: u64,
}

impl ReplayGuard {
    /// A guard that knows the senders' newest stamps from an earlier run. It refuses all messages from before `now_us`, the time
    /// in microseconds since 1970.
    pub fn resume(now_us: u64, newest: BTreeMap<String, u64>) -> Self {
        Self { last: newest, start_us: now_us }
    }

    /// The stamp of each sender's last message.
    pub fn newest(&self) -> &BTreeMap<String, u64> {
        &self.last
    }

    /// Takes note of a message whose code is right. `now_us` is the time in microseconds since 1970.
    ///
    /// # Errors
    /// [`Dropped::Skewed`], [`Dropped::Replayed`].
    pub fn take(&mut self, now_us: u64, envelope: &Envelope) -> Result<(), Dropped> {
        let Envelope { sender, stamp, .. } = envelope;
        if stamp.abs_diff(now_us) > MAX_SKEW_US {
            let ahead_s = (i128::from(*stamp) - i128::from(now_us)) / 1_000_000;
            return Err(Dropped::Skewed { sender: sender.clone(), ahead_s: ahead_s as i64 });
        }
        // A stamp that could not be taken by now was taken before this clock was set back. It must not silence its sender.
        let last = self.last.get(sender).filter(|last| **last <= now_us.saturating_add(MAX_SKEW_US));
        if *stamp < self.start_us || last.is_some_and(|last| stamp <= last) {
            return Err(Dropped::Replayed(sender.clone()));
        }
        self.last.insert(sender.clone(), *stamp);
        Ok(())
    }
}

impl Envelope {
    /// The datagram, with the code that `key` makes.
    ///
    /// # Panics
    /// If the key is of the other protocol, the sender's name is empty or too long, or there are too many prefixes.
    pub fn seal(&self, key: &Key) -> Vec<u8> {
        assert_eq!(key.protocol, self.message.protocol(), "the key is of the other protocol");
        assert!((1..=MAX_SENDER_LEN).contains(&self.sender.len()), "the sender's name is 1 to 40 bytes long");
        let mut out = Vec::with_capacity(MAX_LEN);
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&[self.message.kind(), self.sender.len() as u8, 0, 0]);
        out.extend_from_slice(&self.stamp.to_be_bytes());
        out.extend_from_slice(self.sender.as_bytes());
        self.message.emit(&mut out);
        key.with_code(&out)
    }

    /// Reads a datagram. `key_of` returns the key that is shared with a sender. The stamp is not judged: see [`ReplayGuard`].
    ///
    /// # Errors
    /// If the sender has no key, the code is wrong, or a field is not valid.
    pub fn open<'k>(bytes: &[u8], key_of: impl FnOnce(&str) -> Option<&'k Key>) -> Result<Self, Dropped> {
        if bytes.len() > MAX_LEN {
            return Err(Dropped::invalid("message", bytes.len(), "at most 984 bytes"));
        }
        let mut reader = Reader(bytes);
        let magic = reader.array::<4>("magic")?;
        if magic != MAGIC {
            return Err(Dropped::invalid("magic", format!("{magic:02x?}"), "tms1"));
        }
        let [kind, sender_len, ..] = reader.array::<4>("type")?;
        let stamp = u64::from_be_bytes(reader.array("stamp")?);
        if !(1..=MAX_SENDER_LEN).contains(&sender_len.into()) {
            return Err(Dropped::invalid("sender length", sender_len, "1 to 40"));
        }
        let sender = std::str::from_utf8(reader.take("sender", sender_len.into())?);
        let sender = sender.map_err(|_| Dropped::invalid("sender", "other bytes", "UTF-8"))?.to_owned();
        let fields_len = reader.0.len().checked_sub(CODE_LEN);
        let (have, need) = (reader.0.len(), CODE_LEN);
        let fields_len = fields_len.ok_or(Dropped::Truncated { field: "code", have, need })?;
        let fields = reader.take("fields", fields_len)?;
        let key = key_of(&sender).ok_or_else(|| Dropped::UnknownSender(sender.clone()))?;
        let code = blake3::Hash::from_bytes(reader.array("code")?);
        // The comparison takes the same time wherever the codes differ.
        if blake3::keyed_hash(&key.bytes, &bytes[..bytes.len() - CODE_LEN]) != code {
            return Err(Dropped::WrongCode(sender));
        }
        let message = Message::parse(kind, &Fields::parse(fields)?)?;
        if message.protocol() != key.protocol {
            return Err(Dropped::WrongCode(sender));
        }
        Ok(Self { sender, stamp, message })
    }
}

// The types of messages.
const PREFIXES: u8 = 1;
const PREFIXES_TAKEN: u8 = 2;
const OPEN: u8 = 16;
const OPENED: u8 = 17;
const CLOSE: u8 = 18;
const CLOSED: u8 = 19;
const REFUSED: u8 = 20;

// The types of fields.
const STATE: u8 = 1;
const ANSWERS: u8 = 2;
const PREFIX: u8 = 3;
const KIND: u8 = 4;
const STUB_END: u8 = 5;
const PROVIDER_END: u8 = 6;
const STUB_AS: u8 = 7;
const PROVIDER_AS: u8 = 8;
const LIFETIME: u8 = 9;
const ID: u8 = 10;
const INNER_STUB: u8 = 11;
const INNER_PROVIDER: u8 = 12;
const REASON: u8 = 13;

const PREFIX_LEN: usize = 17;
const STATE_LEN: usize = PREFIX_LEN + 1 + 8;

impl Message {
    /// The protocol whose message it is.
    pub fn protocol(&self) -> Protocol {
        match self {
            Self::Prefixes(_) | Self::PrefixesTaken { .. } => Protocol::Srmp,
            _ => Protocol::Itmp,
        }
    }

    fn kind(&self) -> u8 {
        match self {
            Self::Prefixes(_) => PREFIXES,
            Self::PrefixesTaken { .. } => PREFIXES_TAKEN,
            Self::Open(_) => OPEN,
            Self::Opened(_) => OPENED,
            Self::Close { .. } => CLOSE,
            Self::Closed { .. } => CLOSED,
            Self::Refused { .. } => REFUSED,
        }
    }

    fn emit(&self, out: &mut Vec<u8>) {
        let mut field = |kind: u8, value: &[u8]| {
            out.extend_from_slice(&[kind, value.len() as u8]);
            out.extend_from_slice(value);
        };
        match self {
            Self::Prefixes(states) => {
                assert!(states.len() <= MAX_PREFIXES, "at most 32 prefixes fit into a message");
                states.iter().for_each(|state| field(STATE, &state.to_bytes()));
            }
            Self::PrefixesTaken { answers } | Self::Closed { answers } => {
                field(ANSWERS, &answers.to_be_bytes())
            }
            Self::Open(open) => {
                field(PREFIX, &prefix_bytes(open.prefix));
                field(KIND, &[open.kind.number()]);
                field(STUB_END, &open.stub_end.octets());
                field(STUB_AS, &open.stub_as.to_be_bytes());
                field(LIFETIME, &open.lifetime_s.to_be_bytes());
            }
            Self::Opened(opened) => {
                field(ANSWERS, &opened.answers.to_be_bytes());
                field(PREFIX, &prefix_bytes(opened.prefix));
                field(KIND, &[opened.kind.number()]);
                field(ID, &opened.id.to_be_bytes());
                field(PROVIDER_END, &opened.provider_end.octets());
                field(INNER_STUB, &opened.inner_stub.octets());
                field(INNER_PROVIDER, &opened.inner_provider.octets());
                field(PROVIDER_AS, &opened.provider_as.to_be_bytes());
                field(LIFETIME, &opened.lifetime_s.to_be_bytes());
            }
            Self::Close { prefix } => field(PREFIX, &prefix_bytes(*prefix)),
            Self::Refused { answers, reason } => {
                field(ANSWERS, &answers.to_be_bytes());
                field(REASON, &[reason.number()]);
            }
        }
    }

    fn parse(kind: u8, fields: &Fields<'_>) -> Result<Self, Dropped> {
        let answers = || fields.u64(ANSWERS, "answered stamp");
        let prefix = || parse_prefix(&fields.array::<PREFIX_LEN>(PREFIX, "prefix")?);
        let tunnel_kind = || TunnelKind::from_number(fields.array::<1>(KIND, "kind of tunnel")?[0]);
        let address = |kind, name| fields.array::<16>(kind, name).map(Ipv6Addr::from);
        Ok(match kind {
            PREFIXES => Self::Prefixes(fields.states()?),
            PREFIXES_TAKEN => Self::PrefixesTaken { answers: answers()? },
            OPEN => Self::Open(Open {
                prefix: prefix()?,
                kind: tunnel_kind()?,
                stub_end: address(STUB_END, "stub's end")?,
                stub_as: fields.u32(STUB_AS, "stub's AS number")?,
                lifetime_s: fields.u32(LIFETIME, "lifetime")?,
            }),
            OPENED => Self::Opened(Opened {
                answers: answers()?,
                prefix: prefix()?,
                kind: tunnel_kind()?,
                id: fields.u32(ID, "tunnel's number")?,
                provider_end: address(PROVIDER_END, "provider's end")?,
                inner_stub: address(INNER_STUB, "stub's inner address")?,
                inner_provider: address(INNER_PROVIDER, "provider's inner address")?,
                provider_as: fields.u32(PROVIDER_AS, "provider's AS number")?,
                lifetime_s: fields.u32(LIFETIME, "lifetime")?,
            }),
            CLOSE => Self::Close { prefix: prefix()? },
            CLOSED => Self::Closed { answers: answers()? },
            REFUSED => {
                let reason = Refusal::from_number(fields.array::<1>(REASON, "reason")?[0])?;
                Self::Refused { answers: answers()?, reason }
            }
            _ => return Err(Dropped::invalid("type", kind, "1, 2, or 16 to 20")),
        })
    }
}

impl PrefixState {
    fn to_bytes(self) -> [u8; STATE_LEN] {
        let mut bytes = [0; STATE_LEN];
        bytes[..PREFIX_LEN].copy_from_slice(&prefix_bytes(self.prefix));
        bytes[PREFIX_LEN] = u8::from(self.preference == Preference::Discouraged);
        bytes[PREFIX_LEN + 1..].copy_from_slice(&self.epoch.to_be_bytes());
        bytes
    }

    fn parse(bytes: &[u8]) -> Result<Self, Dropped> {
        let mut reader = Reader(bytes);
        let prefix = parse_prefix(&reader.array("prefix")?)?;
        let preference = match reader.array("preference")? {
            [0] => Preference::Encouraged,
            [1] => Preference::Discouraged,
            [other] => return Err(Dropped::invalid("preference", other, "0 or 1")),
        };
        let epoch = u64::from_be_bytes(reader.array("epoch")?);
        match reader.0.len() {
            0 => Ok(Self { prefix, preference, epoch }),
            more => Err(Dropped::invalid("state", format!("{more} bytes more"), "26 bytes")),
        }
    }
}

/// Values that are numbered from 1 on the wire, in the order of the list.
macro_rules! numbered {
    ($type:ident, $field:literal, $expected:literal: $($variant:ident),+) => {
        impl $type {
            const ALL: &[Self] = &[$(Self::$variant),+];

            fn number(self) -> u8 {
                1 + self as u8
            }

            fn from_number(number: u8) -> Result<Self, Dropped> {
                let found = Self::ALL.get(usize::from(number).wrapping_sub(1)).copied();
                found.ok_or_else(|| Dropped::invalid($field, number, $expected))
            }
        }
    };
}

numbered!(TunnelKind, "kind of tunnel", "1 to 3": Gre, Ip6tnl, Vxlan);
numbered!(Refusal, "reason", "1 to 4": Prefix, End, Kind, Busy);

impl fmt::Display for TunnelKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Gre => "gre",
            Self::Ip6tnl => "ip6tnl",
            Self::Vxlan => "vxlan",
        })
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Prefix => "the provider has not given this prefix to the stub",
            Self::End => "the stub's end of the tunnel is inside the prefix that the tunnel is to protect",
            Self::Kind => "the provider has no tunnels of this kind",
            Self::Busy => "the provider could not make the tunnel",
        })
    }
}

impl fmt::Display for Preference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Encouraged => "encouraged",
            Self::Discouraged => "discouraged",
        })
    }
}

fn prefix_bytes(prefix: Prefix) -> [u8; PREFIX_LEN] {
    let mut bytes = [prefix.length(); PREFIX_LEN];
    bytes[..16].copy_from_slice(&prefix.address().octets());
    bytes
}

fn parse_prefix(bytes: &[u8; PREFIX_LEN]) -> Result<Prefix, Dropped> {
    let [address @ .., length] = *bytes;
    let address = Ipv6Addr::from(<[u8; 16]>::try_from(address.as_slice()).expect("17 bytes less one"));
    Prefix::new(address, length).map_err(|error| Dropped::invalid("prefix", error, "a prefix"))
}

/// The fields of a message, in order.
struct Fields<'a>(Vec<(u8, &'a [u8])>);

impl<'a> Fields<'a> {
    fn parse(bytes: &'a [u8]) -> Result<Self, Dropped> {
        let mut reader = Reader(bytes);
        let mut fields = Vec::new();
        while !reader.0.is_empty() {
            let [kind, len] = reader.array("field")?;
            fields.push((kind, reader.take("value of a field", len.into())?));
        }
        Ok(Self(fields))
    }

    /// The value of the only field of a type.
    fn array<const N: usize>(&self, kind: u8, name: &'static str) -> Result<[u8; N], Dropped> {
        let mut found = self.0.iter().filter(|field| field.0 == kind);
        let (_, value) = found.next().ok_or(Dropped::Missing { field: name })?;
        if found.next().is_some() {
            return Err(Dropped::invalid(name, "several", "one"));
        }
        let wrong = || Dropped::invalid(name, format!("{} bytes", value.len()), "its fixed length");
        (*value).try_into().map_err(|_| wrong())
    }

    fn u32(&self, kind: u8, name: &'static str) -> Result<u32, Dropped> {
        self.array(kind, name).map(u32::from_be_bytes)
    }

    fn u64(&self, kind: u8, name: &'static str) -> Result<u64, Dropped> {
        self.array(kind, name).map(u64::from_be_bytes)
    }

    fn states(&self) -> Result<Vec<PrefixState>, Dropped> {
        let fields = self.0.iter().filter(|field| field.0 == STATE);
        let states: Vec<PrefixState> =
            fields.map(|(_, value)| PrefixState::parse(value)).collect::<Result<_, _>>()?;
        for (index, state) in states.iter().enumerate() {
            if states[..index].iter().any(|other| other.prefix == state.prefix) {
                return Err(Dropped::invalid(
                    "prefix",
                    format!("{} twice", state.prefix),
                    "each prefix once",
                ));
            }
        }
        Ok(states)
    }
}

/// Walks over bytes field by field.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, field: &'static str, need: usize) -> Result<&'a [u8], Dropped> {
        let have = self.0.len();
        let (head, tail) = self.0.split_at_checked(need).ok_or(Dropped::Truncated { field, have, need })?;
        self.0 = tail;
        Ok(head)
    }

    fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], Dropped> {
        Ok(self.take(field, N)?.try_into().expect("take returns N bytes"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECRET: [u8; 32] = [7; 32];

    fn prefix(text: &str) -> Prefix {
        text.parse().unwrap()
    }

    fn states() -> Message {
        Message::Prefixes(vec![
            PrefixState {
                prefix: prefix("2001:db8:a:1::/64"),
                preference: Preference::Discouraged,
                epoch: 5,
            },
            PrefixState { prefix: prefix("2001:db8:b:2::/64"), preference: Preference::Encouraged, epoch: 1 },
        ])
    }

    fn all() -> Vec<Message> {
        let (kind, lifetime_s) = (TunnelKind::Vxlan, 120);
        let stub_end = "2001:db8:b:2::1".parse().unwrap();
        let provider_end = "2001:db8:a::1".parse().unwrap();
        let [inner_stub, inner_provider] =
            ["2001:db8:a:ff::1", "2001:db8:a:ff::"].map(|text| text.parse().unwrap());
        let (prefix, answers) = (prefix("2001:db8:a:1::/64"), 99);
        let (id, provider_as) = (3, 64_601);
        vec![
            states(),
            Message::PrefixesTaken { answers },
            Message::Open(Open { prefix, kind, stub_end, stub_as: 64_512, lifetime_s }),
            Message::Opened(Opened {
                answers,
                prefix,
                kind,
                id,
                provider_end,
                inner_stub,
                inner_provider,
                provider_as,
                lifetime_s,
            }),
            Message::Close { prefix },
            Message::Closed { answers },
            Message::Refused { answers, reason: Refusal::Prefix },
        ]
    }

    fn sealed(message: Message) -> (Envelope, Key, Vec<u8>) {
        let key = Key::new(message.protocol(), &SECRET);
        let envelope = Envelope { sender: "stub-1".into(), stamp: 1_000_000, message };
        let bytes = envelope.seal(&key);
        (envelope, key, bytes)
    }

    #[test]
    fn every_message_comes_back_and_every_changed_octet_is_noticed() {
        for message in all() {
            let (envelope, key, bytes) = sealed(message);
            assert_eq!(Envelope::open(&bytes, |_| Some(&key)), Ok(envelope));
            for index in 0..bytes.len() {
                let mut changed = bytes.clone();
                changed[index] ^= 1;
                assert!(Envelope::open(&changed, |_| Some(&key)).is_err(), "octet {index}");
                assert!(Envelope::open(&bytes[..index], |_| Some(&key)).is_err(), "{index} octets");
            }
        }
    }

    #[test]
    fn the_layout_is_as_the_protocol_document_says() {
        let (_, _, bytes) = sealed(Message::PrefixesTaken { answers: 0x0102 });
        let mut expected = b"tms1\x02\x06\x00\x00".to_vec();
        expected.extend_from_slice(&1_000_000u64.to_be_bytes());
        expected.extend_from_slice(b"stub-1\x02\x08\x00\x00\x00\x00\x00\x00\x01\x02");
        assert_eq!(bytes[..bytes.len() - CODE_LEN], expected);
    }

    #[test]
    fn a_wrong_key_and_a_key_of_the_other_protocol_are_refused() {
        let (_, _, bytes) = sealed(states());
        let wrong = Dropped::WrongCode("stub-1".into());
        let other = Key::new(Protocol::Srmp, &[8; 32]);
        assert_eq!(Envelope::open(&bytes, |_| Some(&other)), Err(wrong.clone()));
        let of_itmp = Key::new(Protocol::Itmp, &SECRET);
        assert_eq!(Envelope::open(&bytes, |_| Some(&of_itmp)), Err(wrong));
        assert_eq!(Envelope::open(&bytes, |_| None), Err(Dropped::UnknownSender("stub-1".into())));
    }

    #[test]
    fn a_message_is_taken_once_and_only_near_its_time_also_after_a_restart() {
        let (envelope, ..) = sealed(states());
        let mut guard = ReplayGuard::default();
        let early = guard.take(envelope.stamp + MAX_SKEW_US + 1, &envelope).unwrap_err();
        assert_eq!(early.reason(), "skewed");
        assert_eq!(guard.take(envelope.stamp + MAX_SKEW_US, &envelope), Ok(()));
        assert_eq!(guard.take(envelope.stamp, &envelope), Err(Dropped::Replayed("stub-1".into())));
        let older = Envelope { stamp: envelope.stamp - 1, ..envelope.clone() };
        assert_eq!(guard.take(envelope.stamp, &older), Err(Dropped::Replayed("stub-1".into())));
        let other = Envelope { sender: "stub-2".into(), ..older };
        assert_eq!(guard.take(envelope.stamp, &other), Ok(()));
        let mut restarted = ReplayGuard::resume(envelope.stamp + 1, BTreeMap::new());
        assert_eq!(restarted.take(envelope.stamp + 2, &envelope), Err(Dropped::Replayed("stub-1".into())));
        // A sender whose clock is ahead: its messages are later than the restart, and have come all the same.
        let mut resumed = ReplayGuard::resume(envelope.stamp - 5, guard.newest().clone());
        assert_eq!(resumed.take(envelope.stamp - 5, &envelope), Err(Dropped::Replayed("stub-1".into())));
        let next = Envelope { stamp: envelope.stamp + 1, ..envelope };
        assert_eq!(resumed.take(envelope.stamp - 5, &next), Ok(()));
    }

    #[test]
    fn a_sender_is_believed_after_both_clocks_were_an_hour_ahead() {
        const HOUR_US: u64 = 3_600_000_000;
        let (envelope, ..) = sealed(states());
        let (mut guard, mut stamps) = (ReplayGuard::default(), Stamps::default());
        let mut send = |now: u64, clock: u64| {
            guard.take(clock, &Envelope { stamp: stamps.next(now), ..envelope.clone() })
        };
        assert_eq!(send(HOUR_US + 1_000_000, HOUR_US + 1_000_000), Ok(()));
        assert_eq!(send(2_000_000, 2_000_000), Ok(()), "both are set right");
        assert_eq!(send(1_000_000, 1_000_000), Ok(()), "both are set back by a second");
        assert_eq!(send(1_000_000, HOUR_US).unwrap_err().reason(), "skewed");
    }

    #[test]
    fn stamps_grow_although_the_clock_goes_back() {
        let mut stamps = Stamps::default();
        assert_eq!([10, 10, 4, 20].map(|now| stamps.next(now)), [10, 11, 12, 20]);
        let mut again = Stamps::after(stamps.newest());
        assert_eq!(again.next(5), 21, "after a restart, too");
        let mut far = Stamps::after(5 + MAX_SKEW_US + 1);
        assert_eq!(far.next(5), 5, "nobody has taken a stamp so far ahead");
        let mut epochs = Epochs::after(5 + MAX_SKEW_US + 1);
        assert_eq!(epochs.next(5), 5 + MAX_SKEW_US + 2, "nobody judges an epoch by a clock");
    }

    #[test]
    fn fields_that_lack_or_repeat_are_refused_and_unknown_ones_skipped() {
        let key = Key::new(Protocol::Itmp, &SECRET);
        let with_fields = |kind: u8, fields: &[u8]| {
            let mut bytes = MAGIC.to_vec();
            bytes.extend_from_slice(&[kind, 1, 0, 0]);
            bytes.extend_from_slice(&[0; 8]);
            bytes.push(b's');
            bytes.extend_from_slice(fields);
            Envelope::open(&key.with_code(&bytes), |_| Some(&key)).map(|envelope| envelope.message)
        };
        let answers = [ANSWERS, 8, 0, 0, 0, 0, 0, 0, 0, 9];
        let unknown = [200, 2, 1, 1];
        assert_eq!(
            with_fields(CLOSED, &[&unknown[..], &answers].concat()),
            Ok(Message::Closed { answers: 9 })
        );
        assert_eq!(with_fields(CLOSED, &unknown), Err(Dropped::Missing { field: "answered stamp" }));
        for (kind, fields) in [
            (CLOSED, [answers, answers].concat()),
            (CLOSED, vec![ANSWERS, 1, 0]),
            (CLOSED, vec![ANSWERS, 9, 0]),
            (REFUSED, [&answers[..], &[REASON, 1, 9]].concat()),
            (77, answers.to_vec()),
        ] {
            assert_eq!(with_fields(kind, &fields).unwrap_err().reason(), "malformed");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let key = Key::new(Protocol::Srmp, &SECRET);
            // The code is made right, so that the fields are parsed.
            let mut message = MAGIC.to_vec();
            message.extend_from_slice(&bytes);
            _ = Envelope::open(&key.with_code(&message), |_| Some(&key));
            _ = Envelope::open(&bytes, |_| Some(&key));
        }
    }
}
