//! The packet of a beacon (`treecast doctor beacon`), which each beacon of a group sends at a steady rate.
//!
//! ```text
//!  0         4       5       6             8    16         20     28     29         30
//!  +---------+-------+-------+-------------+----+----------+------+------+----------+------+--------+-------+
//!  | "tbn1"  | flags | hops  | interval ms | id | sequence | sent | rows | name len | name | rows   | code  |
//!  +---------+-------+-------+-------------+----+----------+------+------+----------+------+--------+-------+
//!  row: | id (8) | loss (2) | one way (4, signed) | hops (1) | duplicates (2) |
//! ```
//!
//! Rows say what the beacon hears of others. A group with more beacons than [`MAX_ROWS`] gets them in turns. The
//! code is there if the lowest flag is set: the first half of a keyed hash over all bytes before it.

use std::fmt;

use crate::{
    ParseError,
    field::{Field, Reader},
};

/// The first bytes of every beacon's packet. The last one is the version.
const MAGIC: [u8; 4] = *b"tbn1";

const FIXED_LEN: usize = 30;
const ROW_LEN: usize = 17;

/// The largest number of rows in a packet.
pub const MAX_ROWS: usize = 60;

/// The longest name in bytes.
pub const MAX_NAME_LEN: usize = 40;

/// The length of the code in bytes.
pub const CODE_LEN: usize = 16;

/// The length of the longest packet in bytes. It fits into the smallest MTU of IPv6.
pub const MAX_LEN: usize = FIXED_LEN + MAX_NAME_LEN + MAX_ROWS * ROW_LEN + CODE_LEN;

const _: () = assert!(MAX_LEN <= 1280 - 48);

/// The largest share in a row: everything.
pub const ALL_PERMILLE: u16 = 1000;

const IS_KEYED: u8 = 1;

/// What stands for a latency and for a number of hops that is not known.
const NO_TIME: i32 = i32::MIN;
const NO_HOPS: u8 = u8::MAX;

/// One packet of a beacon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Beacon {
    /// A random number, new for each start of the beacon.
    pub id: u64,
    /// The number of packets that the beacon has sent before this one, modulo 2^32.
    pub sequence: u32,
    /// The sending time in microseconds since 1970, by the beacon's clock.
    pub sent_us: u64,
    /// The hop limit that the packet left with.
    pub hop_limit: u8,
    /// The time between two packets in milliseconds, at least 1.
    pub interval_ms: u16,
    rows: Vec<Row>,
    name: String,
}

/// What a beacon hears of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// The beacon that is heard, or not heard any more.
    pub id: u64,
    /// The share of packets that got lost lately, in thousandths, at most 1,000.
    pub loss_permille: u16,
    /// Time from sending to arrival in microseconds, by both clocks. It is negative where clocks differ.
    pub one_way_us: Option<i32>,
    /// The number of routers on the way. `None`: not known.
    pub hops: Option<u8>,
    /// The number of second copies for each thousand packets that came lately, at most 1,000.
    pub duplicates_permille: u16,
}

impl Beacon {
    /// Creates a packet without rows.
    ///
    /// # Errors
    /// If the name is empty, longer than [`MAX_NAME_LEN`] bytes, or has control characters.
    pub fn new(id: u64, name: &str) -> Result<Self, ParseError> {
        if name.is_empty() || name.len() > MAX_NAME_LEN || name.chars().any(char::is_control) {
            return Err(ParseError::invalid(
                "name",
                name.escape_debug(),
                "1 to 40 bytes without control characters",
            ));
        }
        let name = name.to_owned();
        Ok(Self { id, sequence: 0, sent_us: 0, hop_limit: 0, interval_ms: 1, rows: Vec::new(), name })
    }

    /// The beacon's name, which its user has given it. Other beacons may have the same.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Sets the rows. Those beyond [`MAX_ROWS`] are left out.
    pub fn set_rows(&mut self, rows: impl IntoIterator<Item = Row>) {
        self.rows = rows.into_iter().take(MAX_ROWS).collect();
    }

    /// Parses a datagram. Returns the packet, and its code with the bytes that the code covers if there is one.
    ///
    /// # Errors
    /// If a field is not valid, or the length is wrong.
    pub fn parse(bytes: &[u8]) -> Result<(Self, Option<Sealed<'_>>), ParseError> {
        let mut reader = Reader::new(bytes);
        let magic: [u8; 4] = reader.array("magic")?;
        if magic != MAGIC {
            return Err(ParseError::invalid("magic", format!("{magic:02x?}"), "tbn1"));
        }
        let flags = reader.u8("flags")?;
        if flags & !IS_KEYED != 0 {
            return Err(ParseError::invalid("flags", flags, "0 or 1"));
        }
        let hop_limit = reader.u8("hop limit")?;
        let interval_ms = reader.u16("interval")?;
        if interval_ms == 0 {
            return Err(ParseError::invalid("interval", 0, "at least 1 ms"));
        }
        let id = reader.u64("id")?;
        let sequence = reader.u32("sequence")?;
        let sent_us = reader.u64("sending time")?;
        let [count, name_len] = reader.array::<2>("rows and name length")?.map(usize::from);
        if count > MAX_ROWS {
            return Err(ParseError::invalid("rows", count, "at most 60"));
        }
        let name = std::str::from_utf8(reader.take("name", name_len)?);
        let name = name.map_err(|_| ParseError::invalid("name", "other bytes", "UTF-8"))?;
        let mut beacon = Self { sequence, sent_us, hop_limit, interval_ms, ..Self::new(id, name)? };
        let mut rows = Reader::new(reader.take("rows", count * ROW_LEN)?);
        beacon.rows = (0..count).map(|_| Row::parse(&mut rows)).collect::<Result<_, _>>()?;
        if flags & IS_KEYED == 0 {
            return reader.end("packet").map(|()| (beacon, None));
        }
        let code = reader.array("code")?;
        reader.end("packet")?;
        let (message, _) = bytes.split_at(bytes.len() - CODE_LEN);
        Ok((beacon, Some(Sealed { message, code })))
    }

    /// The packet's bytes without a code.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.emit(0)
    }

    /// The packet's bytes with the code that `code` makes of all bytes before it.
    pub fn to_sealed_bytes(&self, code: impl FnOnce(&[u8]) -> [u8; CODE_LEN]) -> Vec<u8> {
        let mut bytes = self.emit(IS_KEYED);
        let code = code(&bytes);
        bytes.extend_from_slice(&code);
        bytes
    }

    fn emit(&self, flags: u8) -> Vec<u8> {
        let mut out = Vec::with_capacity(MAX_LEN);
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&[flags, self.hop_limit]);
        self.interval_ms.max(1).emit(&mut out);
        self.id.emit(&mut out);
        self.sequence.emit(&mut out);
        self.sent_us.emit(&mut out);
        out.extend_from_slice(&[self.rows.len() as u8, self.name.len() as u8]);
        out.extend_from_slice(self.name.as_bytes());
        self.rows.iter().for_each(|row| row.emit(&mut out));
        out
    }
}

/// The code of a packet, and the bytes that it covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sealed<'a> {
    pub message: &'a [u8],
    pub code: [u8; CODE_LEN],
}

impl Row {
    fn parse(reader: &mut Reader<'_>) -> Result<Self, ParseError> {
        let id = reader.u64("id of a row")?;
        let loss_permille = permille(reader, "loss")?;
        let one_way = i32::from_be_bytes(reader.array("one way")?);
        let hops = reader.u8("hops")?;
        let duplicates_permille = permille(reader, "duplicates")?;
        let one_way_us = Some(one_way).filter(|time| *time != NO_TIME);
        let hops = Some(hops).filter(|hops| *hops != NO_HOPS);
        Ok(Self { id, loss_permille, one_way_us, hops, duplicates_permille })
    }

    fn emit(&self, out: &mut Vec<u8>) {
        self.id.emit(out);
        self.loss_permille.min(ALL_PERMILLE).emit(out);
        out.extend_from_slice(&self.one_way_us.unwrap_or(NO_TIME).to_be_bytes());
        self.hops.unwrap_or(NO_HOPS).emit(out);
        self.duplicates_permille.min(ALL_PERMILLE).emit(out);
    }
}

fn permille(reader: &mut Reader<'_>, field: &'static str) -> Result<u16, ParseError> {
    let share = reader.u16(field)?;
    if share > ALL_PERMILLE {
        return Err(ParseError::invalid(field, share, "at most 1000 thousandths"));
    }
    Ok(share)
}

impl fmt::Display for Beacon {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, sequence, sent_us, hop_limit, interval_ms, rows, name } = self;
        write!(f, "beacon {name:?} id={id:#018x} sequence={sequence} sent={sent_us} us")?;
        write!(f, " hop-limit={hop_limit} interval={interval_ms} ms")?;
        rows.iter().try_for_each(|row| {
            write!(f, "\n  hears {:#018x} loss={} permille", row.id, row.loss_permille)?;
            write!(f, " one-way={:?} us hops={:?}", row.one_way_us, row.hops)?;
            write!(f, " duplicates={} permille", row.duplicates_permille)
        })
    }
}
