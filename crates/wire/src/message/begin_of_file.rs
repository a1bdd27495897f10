//! Begin-of-File (interdomain-2013, table 4.1), with the attributes of an object that comes from a file system. The paper's
//! name field has a fixed width; here the name is last and takes the rest, so that a packet is no longer than it must be.
//!
//! ```text
//!  0             1           9      10     12        20            24
//!  +-------------+-----------+------+------+---------+-------------+------------------+
//!  |transfer type| file size | kind | mode | seconds | nanoseconds | file name (rest) |
//!  +-------------+-----------+------+------+---------+-------------+------------------+
//! ```
//!
//! The top bit of the transfer type says that the object is compressed segment by segment. The next bit says that the
//! object before this one is its index, by which receivers find what they have of it in an older version.
//!
//! Kind 0 means that there are no attributes; the three fields behind it are then 0. Kind 1 is a file, 2 a
//! folder (without bytes), 3 a symbolic link (its bytes are the target), 4 the index of the object behind it, which is
//! no file. The mode is the nine permission bits.
//! The time is that of the last change, in seconds since 1970 (signed) and nanoseconds.

use std::{fmt, sync::Arc};

use crate::{ParseError, field::Reader, listed};

/// Length of the longest name in bytes: Linux' PATH_MAX. A name is UTF-8 (the paper says ASCII).
pub const MAX_FILE_NAME_LEN: usize = 4096;

listed! {
    /// The source and destination of an object. The paper gives no numbers; these follow its order.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    #[repr(u8)]
    pub enum TransferType {
        MemoryToMemory = 0,
        MemoryToDisk = 1,
        DiskToMemory = 2,
        DiskToDisk = 3,
    }
}

/// The permission bits that are sent.
pub const MODE_BITS: u16 = 0o777;

listed! {
    /// The kind of an object in a file system.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    #[repr(u8)]
    pub enum ObjectKind {
        #[default]
        File = 1,
        Folder = 2,
        Link = 3,
        /// The hashes of the chunks of the object behind this one. Receivers make no file of it.
        Index = 4,
    }
}

/// The time of a file's last change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModificationTime {
    /// Seconds since 1970.
    pub seconds: i64,
    /// Nanoseconds, below 10^9.
    pub nanoseconds: u32,
}

/// The attributes of an object in a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attributes {
    pub kind: ObjectKind,
    /// Permission bits, a subset of [`MODE_BITS`]. They have no meaning for a link.
    pub mode: u16,
    pub modified: ModificationTime,
}

/// The announcement of an object, with its size in bytes and its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BeginOfFile {
    pub transfer_type: TransferType,
    pub file_size: u64,
    /// The name. It is shared, because receivers keep several copies of an announcement.
    file_name: Arc<str>,
    attributes: Option<Attributes>,
    is_compressed: bool,
    has_index: bool,
}

impl BeginOfFile {
    /// Length of the body without the name, in bytes, whether or not there are attributes.
    pub const LEN_BEFORE_NAME: usize = 1 + 8 + ATTRIBUTES_LEN;

    /// Length of the longest body, in bytes.
    pub const MAX_LEN: usize = Self::LEN_BEFORE_NAME + MAX_FILE_NAME_LEN;

    /// Creates the announcement of an object.
    ///
    /// # Errors
    /// If the name is empty, longer than [`MAX_FILE_NAME_LEN`] bytes, or contains a zero byte.
    pub fn new(transfer_type: TransferType, file_size: u64, file_name: &str) -> Result<Self, ParseError> {
        if file_name.is_empty() || file_name.len() > MAX_FILE_NAME_LEN {
            return Err(ParseError::invalid(
                "file name",
                format!("{} bytes", file_name.len()),
                "1 to 4096 bytes",
            ));
        }
        if file_name.contains('\0') {
            return Err(ParseError::invalid("file name", format!("{file_name:?}"), "no zero byte"));
        }
        let file_name = file_name.into();
        Ok(Self {
            transfer_type,
            file_size,
            file_name,
            attributes: None,
            is_compressed: false,
            has_index: false,
        })
    }

    /// Adds attributes to the announcement.
    ///
    /// # Errors
    /// If the mode has bits outside [`MODE_BITS`], a time has 10^9 or more nanoseconds, or a folder has bytes.
    pub fn with_attributes(self, attributes: Attributes) -> Result<Self, ParseError> {
        if attributes.mode & !MODE_BITS != 0 {
            return Err(ParseError::invalid("mode", format!("{:#o}", attributes.mode), "bits of 0o777"));
        }
        if attributes.modified.nanoseconds >= 1_000_000_000 {
            return Err(ParseError::invalid("nanoseconds", attributes.modified.nanoseconds, "below 10^9"));
        }
        if attributes.kind == ObjectKind::Folder && self.file_size != 0 {
            return Err(ParseError::invalid("file size", self.file_size, "0 for a folder"));
        }
        Ok(Self { attributes: Some(attributes), ..self })
    }

    /// The same announcement with another name.
    ///
    /// # Errors
    /// If the name is empty, longer than [`MAX_FILE_NAME_LEN`] bytes, or contains a zero byte.
    pub fn renamed(&self, file_name: &str) -> Result<Self, ParseError> {
        let Self { file_name, .. } = Self::new(self.transfer_type, self.file_size, file_name)?;
        Ok(Self { file_name, ..self.clone() })
    }

    /// Says that the object's segments may be compressed, each where it lies. Its size stays.
    #[must_use]
    pub fn compressed(self) -> Self {
        Self { is_compressed: true, ..self }
    }

    /// Whether the object's segments may be compressed.
    pub fn is_compressed(&self) -> bool {
        self.is_compressed
    }

    /// Says that the object before this one is its index, and that the object is sent by difference: only what receivers
    /// lack.
    #[must_use]
    pub fn with_index(self) -> Self {
        Self { has_index: true, ..self }
    }

    /// Whether the object before this one is its index.
    pub fn has_index(&self) -> bool {
        self.has_index
    }

    /// The object's attributes at the sender. `None` if it does not come from a file system.
    pub fn attributes(&self) -> Option<Attributes> {
        self.attributes
    }

    /// The kind of the object. It is a file if there are no attributes.
    pub fn kind(&self) -> ObjectKind {
        self.attributes.map_or(ObjectKind::File, |attributes| attributes.kind)
    }

    /// The name, as the sender gave it. The receiver must check that it stays in the receiver's folder.
    pub fn file_name(&self) -> &str {
        &self.file_name
    }

    /// Length of the body in bytes.
    pub(super) fn len(&self) -> usize {
        Self::LEN_BEFORE_NAME + self.file_name.len()
    }

    /// Parses a body that has come in parts.
    ///
    /// # Errors
    /// If a field is wrong.
    pub fn from_body(body: &[u8]) -> Result<Self, ParseError> {
        Self::parse(body)
    }

    pub(super) fn parse(payload: &[u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::up_to(Self::MAX_LEN, payload, "begin of file")?;
        let number = reader.u8("transfer type")?;
        let transfer_type = TransferType::ALL.into_iter().find(|known| *known as u8 == number & !FLAGS);
        let transfer_type = transfer_type
            .ok_or_else(|| ParseError::invalid("transfer type", number, "0 to 3 in the lower six bits"))?;
        let file_size = reader.u64("file size")?;
        let attributes = parse_attributes(&mut reader)?;
        let name = reader.rest();
        let name = std::str::from_utf8(name)
            .map_err(|_| ParseError::invalid("file name", name.escape_ascii(), "UTF-8"))?;
        let begin = Self::new(transfer_type, file_size, name)?;
        let begin =
            Self { is_compressed: number & COMPRESSED != 0, has_index: number & HAS_INDEX != 0, ..begin };
        if let Some(attributes) = attributes { begin.with_attributes(attributes) } else { Ok(begin) }
    }

    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        let flag = |is_set, flag| if is_set { flag } else { 0 };
        let flags = flag(self.is_compressed, COMPRESSED) | flag(self.has_index, HAS_INDEX);
        out.push(self.transfer_type as u8 | flags);
        out.extend_from_slice(&self.file_size.to_be_bytes());
        match self.attributes {
            Some(Attributes { kind, mode, modified }) => {
                out.push(kind as u8);
                out.extend_from_slice(&mode.to_be_bytes());
                out.extend_from_slice(&modified.seconds.to_be_bytes());
                out.extend_from_slice(&modified.nanoseconds.to_be_bytes());
            }
            None => out.extend_from_slice(&[0; ATTRIBUTES_LEN]),
        }
        out.extend_from_slice(self.file_name.as_bytes());
    }
}

/// The bit beside the transfer type of a compressed object.
const COMPRESSED: u8 = 0x80;

/// The bit beside the transfer type of an object whose index is the object before it.
const HAS_INDEX: u8 = 0x40;

const FLAGS: u8 = COMPRESSED | HAS_INDEX;

const ATTRIBUTES_LEN: usize = 1 + 2 + 8 + 4;

fn parse_attributes(reader: &mut Reader<'_>) -> Result<Option<Attributes>, ParseError> {
    let number = reader.u8("kind")?;
    let kind = ObjectKind::ALL.into_iter().find(|known| *known as u8 == number);
    if number != 0 && kind.is_none() {
        return Err(ParseError::invalid("kind", number, "0 to 4"));
    }
    let mode = reader.u16("mode")?;
    let seconds = i64::from_be_bytes(reader.array("seconds")?);
    let nanoseconds = reader.u32("nanoseconds")?;
    match kind {
        Some(kind) => {
            Ok(Some(Attributes { kind, mode, modified: ModificationTime { seconds, nanoseconds } }))
        }
        None if (mode, seconds, nanoseconds) == (0, 0, 0) => Ok(None),
        None => Err(ParseError::invalid("kind", 0, "1 to 4 where attributes follow")),
    }
}

impl fmt::Display for BeginOfFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "type={:?} size={} name={:?}", self.transfer_type, self.file_size, self.file_name)?;
        if self.is_compressed {
            write!(f, " compressed")?;
        }
        if self.has_index {
            write!(f, " indexed")?;
        }
        match self.attributes {
            Some(Attributes { kind, mode, modified: ModificationTime { seconds, nanoseconds } }) => {
                write!(f, " kind={kind:?} mode={mode:04o} time={seconds}.{nanoseconds:09}")
            }
            None => Ok(()),
        }
    }
}
