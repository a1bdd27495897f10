//! Compressed objects. An object is compressed segment by segment, each where it lies: what is left over behind a
//! compressed segment is zeros, which are not sent. So the object keeps its size, any of its blocks can be sent, mended and
//! hashed alone, and a receiver needs no room but the object's own.
//!
//! ```text
//!  0       8      9   12     16             16+len      the segment's end
//!  +-------+------+---+------+--------------+-----------+
//!  | magic | kind | 0 | len  | content      | zeros     |
//!  +-------+------+---+------+--------------+-----------+
//! ```
//!
//! A segment whose head is another is not compressed. One that is not, but has such a head, is sent as one of kind 2,
//! whose content is its bytes up to the zeros at its end. If these zeros are fewer than 48 bytes, it cannot be sent.
//! Such a segment exists only where somebody has made it for this purpose. So the head alone tells, and receivers do
//! not read the zeros.

use std::{io, ops::Range};

use zstd::{
    bulk::{Compressor, Decompressor},
    zstd_safe::CParameter,
};

use crate::zeros::is_zero;

/// The length of each segment but the last one, in bytes.
pub(crate) const SEGMENT_LEN: u64 = 256 * 1024;

/// The levels of zstd that may be asked for.
pub const LEVELS: std::ops::RangeInclusive<i32> = 1..=19;

const MAGIC: [u8; 8] = *b"\x89tczstd\n";

/// Bytes before the content.
pub(crate) const HEAD_LEN: usize = 16;

/// The fewest zeros behind the content.
const LEAST_ZEROS: usize = 32;

/// The share of a segment, as a divisor, that compression must save.
const LEAST_SAVED: usize = 16;

/// The kinds of content.
const ZSTD: u8 = 1;
const PLAIN: u8 = 2;

/// Compresses segments.
pub(crate) struct Encoder(Compressor<'static>);

impl std::fmt::Debug for Encoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Encoder")
    }
}

impl Encoder {
    /// # Errors
    /// If zstd does not know the level, or gets no memory.
    pub fn new(level: i32) -> io::Result<Self> {
        let mut compressor = Compressor::new(level)?;
        compressor.set_parameter(CParameter::ChecksumFlag(true))?;
        Ok(Self(compressor))
    }

    /// Returns a segment as it is sent, in as many bytes. Returns `None` if it is sent as it is.
    ///
    /// # Errors
    /// If it looks like a compressed one and has no room for more.
    pub fn encode(&mut self, segment: &[u8]) -> io::Result<Option<Vec<u8>>> {
        let least_saved = (segment.len() / LEAST_SAVED).max(LEAST_ZEROS);
        if segment.len() < HEAD_LEN + least_saved || is_zero(segment) {
            return Ok(None);
        }
        let most = segment.len() - least_saved;
        let mut coded = vec![0; segment.len()];
        // It fails when the content has too little room.
        let (kind, len) = match self.0.compress_to_buffer(segment, &mut coded[HEAD_LEN..most]) {
            Ok(len) => (ZSTD, len),
            Err(_) if Head::of(segment, segment.len()).is_none() => return Ok(None),
            Err(_) => {
                let plain = without_zeros(segment);
                if HEAD_LEN + plain.len() + LEAST_ZEROS > segment.len() {
                    let line = "a part of it looks compressed and cannot be told from one that is";
                    return Err(io::Error::new(io::ErrorKind::InvalidData, line));
                }
                coded[HEAD_LEN..HEAD_LEN + plain.len()].copy_from_slice(plain);
                (PLAIN, plain.len())
            }
        };
        // What a longer attempt has left.
        coded[HEAD_LEN + len..].fill(0);
        coded[..8].copy_from_slice(&MAGIC);
        coded[8] = kind;
        coded[12..HEAD_LEN].copy_from_slice(&(len as u32).to_be_bytes());
        Ok(Some(coded))
    }
}

/// Takes segments back to what they were.
pub(crate) struct Decoder(Decompressor<'static>);

impl Decoder {
    /// # Errors
    /// If zstd gets no memory.
    pub fn new() -> io::Result<Self> {
        Decompressor::new().map(Self)
    }

    /// Writes what a segment with this head and content was to `into`, which is as long as the segment.
    ///
    /// # Errors
    /// If the content is not what its head says. `into` then holds anything.
    pub fn decode(&mut self, head: Head, content: &[u8], into: &mut [u8]) -> io::Result<()> {
        if head.kind == PLAIN {
            into[..content.len()].copy_from_slice(content);
            into[content.len()..].fill(0);
            return Ok(());
        }
        let len = self.0.decompress_to_buffer(content, into)?;
        if len != into.len() {
            let line = format!("it holds {len} bytes in place of {}", into.len());
            return Err(io::Error::new(io::ErrorKind::InvalidData, line));
        }
        Ok(())
    }
}

/// The figures in the head of a compressed segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    kind: u8,
    content_len: usize,
}

impl Head {
    /// The head of a segment of `segment_len` bytes that begins so. `None`: the segment stands for itself.
    pub fn of(begin: &[u8], segment_len: usize) -> Option<Self> {
        let head: &[u8; HEAD_LEN] = begin.first_chunk()?;
        let (kind, content_len) = (head[8], u32::from_be_bytes(*head.last_chunk()?) as usize);
        let looks_so = head[..8] == MAGIC && (ZSTD..=PLAIN).contains(&kind) && head[9..12] == [0; 3];
        let has_room = HEAD_LEN + content_len + LEAST_ZEROS <= segment_len;
        (looks_so && has_room).then_some(Self { kind, content_len })
    }

    /// The range of the segment that holds its content.
    pub fn content(self) -> Range<usize> {
        HEAD_LEN..HEAD_LEN + self.content_len
    }
}

/// The segment up to the zeros at its end.
fn without_zeros(segment: &[u8]) -> &[u8] {
    let zeros = segment.iter().rev().take_while(|byte| **byte == 0).count();
    &segment[..segment.len() - zeros]
}

/// The segment as it was before compression. `None` if it was sent as it is.
#[cfg(test)]
pub(crate) fn decoded(sent: &[u8]) -> io::Result<Option<Vec<u8>>> {
    let Some(head) = Head::of(sent, sent.len()) else { return Ok(None) };
    let mut into = vec![1; sent.len()];
    Decoder::new()?.decode(head, &sent[head.content()], &mut into).map(|()| Some(into))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEN: usize = SEGMENT_LEN as usize;

    fn noise(len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        blake3::Hasher::new().finalize_xof().fill(&mut bytes);
        bytes
    }

    /// The segment as it is sent, after a look at whether it comes back.
    fn sent(segment: &[u8]) -> Vec<u8> {
        let coded = Encoder::new(3).unwrap().encode(segment).unwrap();
        let sent = coded.clone().unwrap_or_else(|| segment.to_vec());
        let back = decoded(&sent).unwrap();
        assert_eq!(back.is_some(), coded.is_some());
        assert!(back.as_ref().unwrap_or(&sent) == segment);
        assert_eq!(sent.len(), segment.len());
        sent
    }

    #[test]
    fn what_compresses_leaves_zeros_behind_and_what_does_not_stays() {
        let text: Vec<u8> = (0..LEN).map(|at| b"compressible "[at % 13]).collect();
        assert!(is_zero(&sent(&text)[LEN / 8..]));
        assert!(sent(&text[..100_001])[..8] == MAGIC);
        for stays in [&noise(LEN)[..], &[0; LEN], &noise(10), &[7; 40], &[]] {
            assert!(sent(stays) == stays);
        }
    }

    #[test]
    fn what_only_looks_compressed_comes_back() {
        let mut looks = noise(LEN);
        looks[..8].copy_from_slice(&MAGIC);
        looks[8..HEAD_LEN].copy_from_slice(&[ZSTD, 0, 0, 0, 0, 3, 0xff, 0xd0]);
        looks[LEN - LEAST_ZEROS - HEAD_LEN..].fill(0);
        assert!(Head::of(&looks, LEN).is_some());
        let once = sent(&looks);
        assert_eq!((once[8], &once[..8]), (PLAIN, &MAGIC[..]));
        let line = Encoder::new(3).unwrap().encode(&once).unwrap_err().to_string();
        assert!(line.contains("looks compressed"), "{line}");
        // Whatever is behind the content, the head alone tells.
        looks[LEN - LEAST_ZEROS] = 1;
        assert!(Encoder::new(3).unwrap().encode(&looks).is_err());
        looks[HEAD_LEN - 1] += 1;
        assert!(sent(&looks) == looks, "its content would leave too little room");
        let compressed = Encoder::new(1).unwrap().encode(&vec![9; LEN]).unwrap().unwrap();
        sent(&compressed);
    }

    #[test]
    fn a_lie_is_an_error_and_takes_no_memory() {
        let of = |content: &[u8], kind: u8| {
            let mut segment = vec![0; LEN];
            segment[..8].copy_from_slice(&MAGIC);
            segment[8] = kind;
            segment[12..HEAD_LEN].copy_from_slice(&(content.len() as u32).to_be_bytes());
            segment[HEAD_LEN..HEAD_LEN + content.len()].copy_from_slice(content);
            segment
        };
        let bomb = zstd::bulk::compress(&vec![0; 64 << 20], 19).unwrap();
        assert!(bomb.len() < LEN / 2 && decoded(&of(&bomb, ZSTD)).is_err());
        let short = zstd::bulk::compress(&[5; 1000], 3).unwrap();
        assert!(
            decoded(&of(&short, ZSTD)).unwrap_err().to_string().contains("1000 bytes in place of 262144")
        );
        assert!(decoded(&of(&noise(500), ZSTD)).is_err());
        let mut changed = Encoder::new(3).unwrap().encode(&vec![9; LEN]).unwrap().unwrap();
        changed[HEAD_LEN + 9] ^= 1;
        assert!(decoded(&changed).is_err());
        assert!(decoded(&of(&short, 3)).unwrap().is_none(), "an unknown kind is not compressed");
    }
}
