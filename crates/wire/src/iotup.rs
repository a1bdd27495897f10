//! The frame of librecast's IoT updater (iotupd and iotupc; librecast-updates-2022, A.3).
//!
//! ```text
//!  0     2           10       18       20             52
//!  +-----+-----------+--------+--------+--------------+------+
//!  | seq | file size | offset | length | hash         | data |   packed, network order
//!  +-----+-----------+--------+--------+--------------+------+
//! ```
//!
//! Every frame names the file's size and hash, so a receiver may begin with any of them. The hash is BLAKE2b-256 (libsodium's
//! `crypto_generichash`), or BLAKE3-256 where librecast was built with that; the frame does not say which. iotupd pads
//! its last frame of a file to full length; what follows the data is not looked at.

use std::{fmt, ops::Range};

use crate::{ParseError, field::Reader};

/// The UDP port of the IoT updater (IPv6).
pub const PORT: u16 = 4242;

/// Bytes before the data.
pub const HEADER_LEN: usize = 52;

/// The largest number of data bytes in a frame. All frames of a file but the last carry that many.
pub const MAX_DATA_LEN: usize = 1194;

/// The header of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame {
    /// The sequence number, which counts frames and wraps. A gap shows loss.
    pub sequence: u16,
    /// Size of the whole file in bytes.
    pub file_size: u64,
    /// BLAKE2b-256 or BLAKE3-256 of the whole file.
    pub hash: [u8; 32],
    offset: u64,
    len: u16,
}

impl Frame {
    /// Creates the header of a frame with `len` bytes of the file from `offset` on.
    ///
    /// # Errors
    /// If it would carry more than [`MAX_DATA_LEN`] bytes, or reach beyond the file's end.
    pub fn new(
        sequence: u16,
        file_size: u64,
        offset: u64,
        len: u16,
        hash: [u8; 32],
    ) -> Result<Self, ParseError> {
        if usize::from(len) > MAX_DATA_LEN {
            return Err(ParseError::invalid("length", len, "at most 1194"));
        }
        match offset.checked_add(u64::from(len)) {
            Some(end) if end <= file_size => Ok(Self { sequence, file_size, hash, offset, len }),
            _ => Err(ParseError::invalid("offset", offset, "an end within the file")),
        }
    }

    /// Parses a frame. Returns its header and its data.
    ///
    /// # Errors
    /// If bytes are missing, or the fields are not those of a frame (see [`Frame::new`]).
    pub fn parse(bytes: &[u8]) -> Result<(Self, &[u8]), ParseError> {
        let mut reader = Reader::new(bytes);
        let sequence = reader.u16("seq")?;
        let file_size = reader.u64("file size")?;
        let offset = reader.u64("offset")?;
        let len = reader.u16("length")?;
        let hash = reader.array("hash")?;
        let frame = Self::new(sequence, file_size, offset, len, hash)?;
        let data = reader.take("data", usize::from(len))?;
        Ok((frame, data))
    }

    /// The bytes of the file that the frame carries.
    pub fn range(&self) -> Range<u64> {
        self.offset..self.offset + u64::from(self.len)
    }

    /// The header's bytes on the wire, which precede the data.
    pub fn to_bytes(&self) -> [u8; HEADER_LEN] {
        let mut bytes = [0; HEADER_LEN];
        bytes[0..2].copy_from_slice(&self.sequence.to_be_bytes());
        bytes[2..10].copy_from_slice(&self.file_size.to_be_bytes());
        bytes[10..18].copy_from_slice(&self.offset.to_be_bytes());
        bytes[18..20].copy_from_slice(&self.len.to_be_bytes());
        bytes[20..52].copy_from_slice(&self.hash);
        bytes
    }
}

impl fmt::Display for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IotFrame seq={} size={} offset={}", self.sequence, self.file_size, self.offset)?;
        write!(f, " len={} {}", self.len, crate::message::Digest::unsigned(self.hash))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padding_behind_the_data_is_ignored() {
        let frame = Frame::new(7, 1197, 1194, 3, [9; 32]).expect("within the file");
        let mut bytes = frame.to_bytes().to_vec();
        bytes.extend_from_slice(b"abc");
        bytes.resize(HEADER_LEN + MAX_DATA_LEN, 0);
        assert_eq!(Frame::parse(&bytes), Ok((frame, &b"abc"[..])));
    }

    #[test]
    fn a_frame_beyond_the_end_of_its_file_is_refused() {
        let error = Frame::new(0, 10, 8, 3, [0; 32]).expect_err("11 bytes of 10");
        assert_eq!(error.to_string(), "offset: 8 found, expected an end within the file");
        let error = Frame::new(0, u64::MAX, u64::MAX, 3, [0; 32]).expect_err("2^64 and more");
        assert_eq!(error.to_string(), "offset: 18446744073709551615 found, expected an end within the file");
    }

    #[test]
    fn an_oversized_length_is_refused() {
        let error = Frame::new(0, 4096, 0, 1195, [0; 32]).expect_err("one too many");
        assert_eq!(error.to_string(), "length: 1195 found, expected at most 1194");
    }

    #[test]
    fn missing_data_is_told() {
        let frame = Frame::new(0, 10, 0, 10, [0; 32]).expect("within the file");
        let error = Frame::parse(&frame.to_bytes()).expect_err("no data");
        assert_eq!(error.to_string(), "data: 0 bytes are there, 10 are needed");
    }
}
