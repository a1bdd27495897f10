//! The messages between unicast servers and clients (librecast-updates-2022, 2.2 and A.4). The paper names the
//! fields without a layout; this layout is treecast's.
//!
//! ```text
//! TCP reply     file size 8 | BLAKE3 hash 32 | the whole file
//! UDP request   start 8 | end 8                            (end 0: the end of the file)
//! UDP reply     file size 8 | BLAKE3 hash 32 | data length 2 | offset 8 | data
//! ```

use std::{fmt, ops::Range};

use crate::{ParseError, field::Reader, message::Digest};

/// The default TCP and UDP port of a server.
pub const PORT: u16 = 4243;

/// The first fields of every reply, which identify the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileHeader {
    /// Size of the whole file in bytes.
    pub file_size: u64,
    /// BLAKE3-256 of the whole file.
    pub hash: [u8; 32],
}

impl FileHeader {
    /// Length in bytes. In a TCP reply, the file follows.
    pub const LEN: usize = 40;

    /// Reads the header at the beginning of `bytes`. Further bytes are ignored.
    ///
    /// # Errors
    /// If there are fewer bytes than [`FileHeader::LEN`].
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        Self::read(&mut Reader::new(bytes))
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, ParseError> {
        Ok(Self { file_size: reader.u64("file size")?, hash: reader.array("hash")? })
    }

    /// The header's bytes on the wire.
    pub fn to_bytes(&self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[..8].copy_from_slice(&self.file_size.to_be_bytes());
        bytes[8..].copy_from_slice(&self.hash);
        bytes
    }
}

impl fmt::Display for FileHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UnicastFile size={} {}", self.file_size, Digest::unsigned(self.hash))
    }
}

/// A request for a part of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    start: u64,
    /// The end of the part. 0 means the end of the file.
    end: u64,
}

impl Request {
    /// Length in bytes.
    pub const LEN: usize = 16;

    /// The request for the whole file: both positions are 0.
    pub const WHOLE_FILE: Self = Self { start: 0, end: 0 };

    /// Creates a request for the bytes from `start` to `end`. If `end` is 0, the request is for everything from
    /// `start` on.
    ///
    /// # Errors
    /// If `end` is neither 0 nor above `start`.
    pub fn new(start: u64, end: u64) -> Result<Self, ParseError> {
        if end != 0 && end <= start {
            return Err(ParseError::invalid("end offset", end, "0 or a value above the start offset"));
        }
        Ok(Self { start, end })
    }

    /// The requested bytes of a file of `file_size` bytes. Empty if the file has none of them.
    pub fn range(&self, file_size: u64) -> Range<u64> {
        let end = if self.end == 0 { file_size } else { self.end.min(file_size) };
        self.start.min(end)..end
    }

    /// Reads a request from a whole datagram.
    ///
    /// # Errors
    /// If the datagram is not exactly as long as a request, or the range is empty.
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(bytes);
        let start = reader.u64("start offset")?;
        let end = reader.u64("end offset")?;
        reader.end("request")?;
        Self::new(start, end)
    }

    /// The request's bytes on the wire.
    pub fn to_bytes(&self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[..8].copy_from_slice(&self.start.to_be_bytes());
        bytes[8..].copy_from_slice(&self.end.to_be_bytes());
        bytes
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UnicastRequest start={} end={}", self.start, self.end)
    }
}

/// The header of a UDP reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reply {
    pub file: FileHeader,
    len: u16,
    offset: u64,
}

impl Reply {
    /// The number of bytes before the data.
    pub const HEADER_LEN: usize = FileHeader::LEN + 2 + 8;

    /// Creates a reply with `len` bytes of the file from `offset` on.
    ///
    /// # Errors
    /// If the data would reach beyond the file's end.
    pub fn new(file: FileHeader, offset: u64, len: u16) -> Result<Self, ParseError> {
        match offset.checked_add(u64::from(len)) {
            Some(end) if end <= file.file_size => Ok(Self { file, len, offset }),
            _ => Err(ParseError::invalid("offset", offset, "an end within the file")),
        }
    }

    /// Parses a reply. Returns its header and its data.
    ///
    /// # Errors
    /// If bytes are missing or too many, or the data reaches beyond the file's end.
    pub fn parse(bytes: &[u8]) -> Result<(Self, &[u8]), ParseError> {
        let mut reader = Reader::new(bytes);
        let file = FileHeader::read(&mut reader)?;
        let len = reader.u16("data length")?;
        let offset = reader.u64("offset")?;
        let reply = Self::new(file, offset, len)?;
        let data = reader.take("data", usize::from(len))?;
        reader.end("reply")?;
        Ok((reply, data))
    }

    /// The range of the file that the reply carries.
    pub fn range(&self) -> Range<u64> {
        self.offset..self.offset + u64::from(self.len)
    }

    /// The header's bytes on the wire, which precede the data.
    pub fn to_bytes(&self) -> [u8; Self::HEADER_LEN] {
        let mut bytes = [0; Self::HEADER_LEN];
        bytes[..FileHeader::LEN].copy_from_slice(&self.file.to_bytes());
        bytes[FileHeader::LEN..][..2].copy_from_slice(&self.len.to_be_bytes());
        bytes[FileHeader::LEN + 2..].copy_from_slice(&self.offset.to_be_bytes());
        bytes
    }
}

impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UnicastReply size={} len={} offset={}", self.file.file_size, self.len, self.offset)?;
        write!(f, " {}", Digest::unsigned(self.file.hash))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_zeros_ask_for_the_whole_file() {
        assert_eq!(Request::WHOLE_FILE.range(5000), 0..5000);
        assert_eq!(Request::parse(&[0; 16]), Ok(Request::WHOLE_FILE));
    }

    #[test]
    fn a_range_is_cut_to_the_file() {
        let request = Request::new(100, 200).expect("not empty");
        assert_eq!(request.range(150), 100..150);
        assert!(request.range(50).is_empty());
        assert_eq!(Request::new(100, 0).expect("to the end").range(150), 100..150);
    }

    #[test]
    fn an_empty_range_is_refused() {
        let error = Request::new(7, 7).expect_err("empty");
        assert_eq!(error.to_string(), "end offset: 7 found, expected 0 or a value above the start offset");
    }

    #[test]
    fn a_request_of_another_length_is_refused() {
        let error = Request::parse(&[0; 17]).expect_err("too long");
        assert_eq!(error.to_string(), "request: 1 bytes more found, expected the end of the message");
        let error = Request::parse(&[0; 15]).expect_err("too short");
        assert_eq!(error.to_string(), "end offset: 7 bytes are there, 8 are needed");
    }

    #[test]
    fn a_reply_beyond_the_end_of_its_file_is_refused() {
        let file = FileHeader { file_size: 10, hash: [0; 32] };
        let error = Reply::new(file, 8, 3).expect_err("11 bytes of 10");
        assert_eq!(error.to_string(), "offset: 8 found, expected an end within the file");
    }
}
