//! The layout of netlink messages: a header, a fixed part, and attributes, each padded to four bytes
//! (`linux/netlink.h`). Numbers are in the machine's byte order.

use std::{io, ops::Range};

/// The size of `struct nlmsghdr` in bytes.
pub const HEADER_LEN: usize = 16;
const NLA_F_NESTED: u16 = libc::NLA_F_NESTED as u16;
/// The mask of an attribute's type without its flags.
const NLA_TYPE_MASK: u16 = 0x3fff;

/// The largest number of bytes that is handed to the kernel in one call. It is well below a socket's default
/// send buffer, and small enough that a refusal of each request fits the receive buffer.
const MAX_PART_BYTES: usize = 32 * 1024;
const MAX_PART_REQUESTS: usize = 64;

/// Requests that the kernel carries out in order.
#[derive(Default)]
pub struct Batch {
    bytes: Vec<u8>,
    /// The position of each request, and its description. A request's sequence number is its index here.
    requests: Vec<(usize, String)>,
}

/// A part of a batch, which is handed to the kernel at once.
pub(super) struct Part {
    pub bytes: Range<usize>,
    pub last_sequence: u32,
}

impl Batch {
    /// Adds a request of type `kind`. `what` describes it in an error, if the kernel refuses it.
    pub fn request(
        &mut self,
        what: String,
        kind: u16,
        flags: i32,
        fixed_part: &[u8],
        attributes: impl FnOnce(&mut Attributes),
    ) {
        let start = self.bytes.len();
        let sequence = self.requests.len() as u32;
        self.requests.push((start, what));
        write(&mut self.bytes, kind, flags, sequence, fixed_part);
        pad(&mut self.bytes);
        attributes(&mut Attributes(&mut self.bytes));
        set_len(&mut self.bytes, start);
    }

    pub(super) fn description(&self, sequence: u32) -> &str {
        self.requests.get(sequence as usize).map_or("unknown request", |(_, what)| what)
    }

    pub(super) fn bytes(&self, part: &Part) -> &[u8] {
        &self.bytes[part.bytes.clone()]
    }

    /// Divides the batch between requests. The kernel acknowledges the last request of each part. It answers
    /// the others only if it refuses them.
    pub(super) fn cut(&mut self) -> Vec<Part> {
        let mut parts = Vec::new();
        let mut first = 0;
        while first < self.requests.len() {
            let start = self.requests[first].0;
            let fits = |&n: &usize| self.end(n) - start <= MAX_PART_BYTES;
            let most = self.requests.len().min(first + MAX_PART_REQUESTS);
            let last = (first..most).take_while(fits).last().unwrap_or(first);
            let flags_at = self.requests[last].0 + 6;
            self.bytes[flags_at] |= libc::NLM_F_ACK as u8;
            parts.push(Part { bytes: start..self.end(last), last_sequence: last as u32 });
            first = last + 1;
        }
        parts
    }

    fn end(&self, request: usize) -> usize {
        self.requests.get(request + 1).map_or(self.bytes.len(), |(start, _)| *start)
    }
}

/// Appends a request without attributes. If its body is continued, the length must be set again.
pub fn write(bytes: &mut Vec<u8>, kind: u16, flags: i32, sequence: u32, body: &[u8]) {
    let start = bytes.len();
    bytes.extend(0u32.to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(((libc::NLM_F_REQUEST | flags) as u16).to_ne_bytes());
    bytes.extend(sequence.to_ne_bytes());
    bytes.extend(0u32.to_ne_bytes());
    bytes.extend(body);
    set_len(bytes, start);
}

/// Sets the length of the message that begins at `start`, so that it reaches to the end.
fn set_len(bytes: &mut [u8], start: usize) {
    let len = (bytes.len() - start) as u32;
    bytes[start..start + 4].copy_from_slice(&len.to_ne_bytes());
}

/// The attributes of a request, or of an attribute that contains others.
pub struct Attributes<'a>(&'a mut Vec<u8>);

impl<'a> Attributes<'a> {
    /// Creates a writer that appends attributes to `bytes`.
    pub fn of(bytes: &'a mut Vec<u8>) -> Self {
        Self(bytes)
    }

    pub fn bytes(&mut self, kind: u16, value: &[u8]) {
        self.0.extend((4 + value.len() as u16).to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(value);
        pad(self.0);
    }

    pub fn u8(&mut self, kind: u16, value: u8) {
        self.bytes(kind, &[value]);
    }

    pub fn u32(&mut self, kind: u16, value: u32) {
        self.bytes(kind, &value.to_ne_bytes());
    }

    pub fn text(&mut self, kind: u16, value: &str) {
        self.bytes(kind, &[value.as_bytes(), b"\0"].concat());
    }

    pub fn nest(&mut self, kind: u16, fill: impl FnOnce(&mut Attributes)) {
        let start = self.0.len();
        self.0.extend(0u16.to_ne_bytes());
        self.0.extend((kind | NLA_F_NESTED).to_ne_bytes());
        fill(&mut Attributes(self.0));
        let length = (self.0.len() - start) as u16;
        self.0[start..start + 2].copy_from_slice(&length.to_ne_bytes());
    }

    /// Writes bytes that are no attribute in front of the nested ones, as in `VETH_INFO_PEER`.
    pub fn raw(&mut self, value: &[u8]) {
        self.0.extend(value);
        pad(self.0);
    }
}

fn pad(bytes: &mut Vec<u8>) {
    bytes.resize(bytes.len().next_multiple_of(4), 0);
}

/// One message from the kernel.
pub struct Message<'a> {
    pub kind: u16,
    pub sequence: u32,
    pub body: &'a [u8],
}

impl Message<'_> {
    /// Whether the message is a refusal or an acknowledgement.
    pub fn is_error(&self) -> bool {
        i32::from(self.kind) == libc::NLMSG_ERROR
    }
}

/// The complete messages of one datagram.
pub fn messages(mut bytes: &[u8]) -> impl Iterator<Item = Message<'_>> {
    std::iter::from_fn(move || {
        let len = u32_at(bytes, 0)? as usize;
        let body = bytes.get(HEADER_LEN..len)?;
        let (kind, sequence) = (u16_at(bytes, 4)?, u32_at(bytes, 8)?);
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some(Message { kind, sequence, body })
    })
}

/// The refusal in the body of an error message (`struct nlmsgerr`). An acknowledgement is no refusal.
pub fn error_of(body: &[u8]) -> io::Result<()> {
    match u32_at(body, 0).map(|code| code as i32) {
        Some(0) => Ok(()),
        Some(code) => Err(io::Error::from_raw_os_error(code.saturating_neg())),
        None => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// The complete attributes in `bytes`: their types without flags, and their values.
pub fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let (len, kind) = (usize::from(u16_at(bytes, 0)?), u16_at(bytes, 2)?);
        let value = bytes.get(4..len)?;
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some((kind & NLA_TYPE_MASK, value))
    })
}

/// The value of the first attribute of this type.
pub fn attribute(bytes: &[u8], wanted: u16) -> Option<&[u8]> {
    attributes(bytes).find(|(kind, _)| *kind == wanted).map(|(_, value)| value)
}

pub fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

pub fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Reads a text up to its zero byte.
pub fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_laid_out_as_the_kernel_reads_it() {
        let mut batch = Batch::default();
        batch.request("test".into(), 16, 0, &[1, 2, 3, 4], |attributes| {
            attributes.text(3, "ab");
            attributes.nest(18, |inner| inner.u32(1, 7));
        });
        let mut expected = Vec::new();
        expected.extend(40u32.to_ne_bytes());
        expected.extend([16u16.to_ne_bytes(), (libc::NLM_F_REQUEST as u16).to_ne_bytes()].concat());
        expected.extend([0; 8]);
        expected.extend([1, 2, 3, 4]);
        expected.extend([7u16.to_ne_bytes(), 3u16.to_ne_bytes()].concat());
        expected.extend(*b"ab\0\0");
        expected.extend([12u16.to_ne_bytes(), (18 | NLA_F_NESTED).to_ne_bytes()].concat());
        expected.extend([8u16.to_ne_bytes(), 1u16.to_ne_bytes()].concat());
        expected.extend(7u32.to_ne_bytes());
        assert_eq!(batch.bytes, expected);
    }

    #[test]
    fn a_long_batch_is_cut_between_requests() {
        let mut batch = Batch::default();
        for _ in 0..3000 {
            batch.request(String::new(), 16, 0, &[0; 40], |_| ());
        }
        let parts = batch.cut();
        assert!(
            parts.iter().all(|part| part.bytes.len() <= MAX_PART_REQUESTS * 56 && part.bytes.len() % 56 == 0)
        );
        assert_eq!(parts.iter().map(|part| part.bytes.len()).sum::<usize>(), 3000 * 56);
        assert_eq!(parts.last().unwrap().last_sequence, 2999);
    }

    #[test]
    fn cut_messages_and_attributes_end_the_walk() {
        let mut bytes = vec![0; 24];
        bytes[0] = 24;
        bytes[16] = 8;
        bytes[18] = 5;
        assert_eq!(messages(&bytes).count(), 1);
        assert_eq!(attributes(&bytes[16..]).collect::<Vec<_>>(), [(5, &[0u8; 4][..])]);
        for len in 0..bytes.len() {
            assert_eq!(messages(&bytes[..len]).count(), 0);
        }
        bytes[16] = 3;
        assert_eq!(attributes(&bytes[16..]).count(), 0, "shorter than its own header");
        bytes[0] = 15;
        assert_eq!(messages(&bytes).count(), 0, "shorter than its own header");
        assert_eq!(messages(&[255; 20]).count(), 0);
    }
}
