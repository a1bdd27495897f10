//! How requests are laid out: a header, a fixed part, and attributes, each padded to four bytes
//! (`linux/netlink.h`). Numbers are in the machine's own order.

use std::io;
use std::ops::Range;

const HEADER_BYTES: usize = 16;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
const NLMSG_ERROR: u16 = 2;
const NLA_F_NESTED: u16 = 1 << 15;

/// The most that is handed to the kernel in one call: well under a socket's default send buffer, and
/// few enough that a refusal of each fits its receive buffer.
const MAX_PART_BYTES: usize = 32 * 1024;
const MAX_PART_REQUESTS: usize = 64;

/// Requests to be carried out in order.
#[derive(Default)]
pub struct Batch {
    bytes: Vec<u8>,
    /// Where each request starts, and what it is for. Sequence numbers are positions in here.
    requests: Vec<(usize, String)>,
}

/// What is handed to the kernel at once.
pub(super) struct Part {
    pub bytes: Range<usize>,
    pub last_sequence: u32,
}

impl Batch {
    /// Adds a request of type `kind`; `what` is said should the kernel refuse it.
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
        self.bytes.extend(0u32.to_ne_bytes());
        self.bytes.extend(kind.to_ne_bytes());
        self.bytes.extend((NLM_F_REQUEST | flags as u16).to_ne_bytes());
        self.bytes.extend(sequence.to_ne_bytes());
        self.bytes.extend(0u32.to_ne_bytes());
        self.bytes.extend(fixed_part);
        pad(&mut self.bytes);
        attributes(&mut Attributes(&mut self.bytes));
        let length = (self.bytes.len() - start) as u32;
        self.bytes[start..start + 4].copy_from_slice(&length.to_ne_bytes());
    }

    pub(super) fn description(&self, sequence: u32) -> &str {
        self.requests.get(sequence as usize).map_or("unknown request", |(_, what)| what)
    }

    pub(super) fn bytes(&self, part: &Part) -> &[u8] {
        &self.bytes[part.bytes.clone()]
    }

    /// Cuts the batch between requests, and has the last request of each part acknowledged: the
    /// kernel answers the others only when it refuses them.
    pub(super) fn cut(&mut self) -> Vec<Part> {
        let mut parts = Vec::new();
        let mut first = 0;
        while first < self.requests.len() {
            let start = self.requests[first].0;
            let fits = |&n: &usize| self.end(n) - start <= MAX_PART_BYTES;
            let most = self.requests.len().min(first + MAX_PART_REQUESTS);
            let last = (first..most).take_while(fits).last().unwrap_or(first);
            let flags_at = self.requests[last].0 + 6;
            self.bytes[flags_at] |= NLM_F_ACK as u8;
            parts.push(Part { bytes: start..self.end(last), last_sequence: last as u32 });
            first = last + 1;
        }
        parts
    }

    fn end(&self, request: usize) -> usize {
        self.requests.get(request + 1).map_or(self.bytes.len(), |(start, _)| *start)
    }
}

/// The attributes of a request, or of an attribute that nests others.
pub struct Attributes<'a>(&'a mut Vec<u8>);

impl Attributes<'_> {
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

    /// Puts bytes that are no attribute in front of the nested ones, as `VETH_INFO_PEER` has them.
    pub fn raw(&mut self, value: &[u8]) {
        self.0.extend(value);
        pad(self.0);
    }
}

fn pad(bytes: &mut Vec<u8>) {
    bytes.resize(bytes.len().next_multiple_of(4), 0);
}

/// One message from the kernel.
pub(super) struct Answer<'a> {
    pub sequence: u32,
    kind: u16,
    body: &'a [u8],
}

impl Answer<'_> {
    /// The refusal in this answer; an acknowledgement is none.
    pub fn error(&self) -> Option<io::Error> {
        let code = i32::from_ne_bytes(self.body.get(..4)?.try_into().ok()?);
        (self.kind == NLMSG_ERROR && code != 0).then(|| io::Error::from_raw_os_error(-code))
    }
}

/// Splits what was received; stops at a length that cannot be.
pub(super) fn answers(mut bytes: &[u8]) -> impl Iterator<Item = Answer<'_>> {
    std::iter::from_fn(move || {
        let length = u32::from_ne_bytes(bytes.get(..4)?.try_into().ok()?) as usize;
        let message = bytes.get(..length).filter(|message| message.len() >= HEADER_BYTES)?;
        let kind = u16::from_ne_bytes([message[4], message[5]]);
        let sequence = u32::from_ne_bytes(message[8..12].try_into().ok()?);
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some(Answer { sequence, kind, body: &message[HEADER_BYTES..] })
    })
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
        expected.extend([16u16.to_ne_bytes(), NLM_F_REQUEST.to_ne_bytes()].concat());
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
    fn a_message_cut_short_ends_the_answers() {
        assert_eq!(answers(&[]).count(), 0);
        assert_eq!(answers(&[255; 20]).count(), 0);
        assert_eq!(answers(&[4, 0, 0, 0, 0, 0, 0, 0]).count(), 0);
    }
}
