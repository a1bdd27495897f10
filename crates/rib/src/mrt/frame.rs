//! Finds the records of an MRT file, in batches that threads can read at the same time.
//!
//! A record's length leads to the next record. Where that leads to no header, the file is damaged: the next place that
//! looks like a header is taken for the next record. What lies between belongs to the damaged record, so that a record
//! with only its length wrong is still read.

use std::{
    io::{self, Read},
    ops::Range,
    sync::Arc,
};

use super::{HEADER_LENGTH, Header, MAX_LENGTH, types};
use crate::fault::{Fault, Faults, is_damage};

/// The number of bytes that are read at once. A batch is about as long.
const BATCH_BYTES: usize = 1 << 20;

/// The greatest difference in time to the record before for which a place looks like a header, in seconds.
const MAX_TIME_STEP: u32 = 7 * 86_400;

/// Some whole records of a file.
#[derive(Debug, Default)]
pub struct Batch {
    pub bytes: Arc<Vec<u8>>,
    /// The header of each record, and the place of what follows it in `bytes`.
    pub records: Vec<(Header, Range<usize>)>,
}

/// Cuts a file into records. Call [`Framer::next_batch`] until it returns `None`.
pub struct Framer<R> {
    file: R,
    /// The bytes behind the last batch.
    rest: Vec<u8>,
    is_at_end: bool,
    /// The last header that another one followed.
    last: Option<Header>,
    pub faults: Faults,
    /// The number of bytes that have been read.
    pub bytes: u64,
    /// The number of bytes of a batch.
    batch_bytes: usize,
}

/// The content at a place of the file.
enum Place {
    Record(Header, Range<usize>),
    /// Octets that belong to no record, up to this place.
    Gap(usize),
    /// The content is not known until more bytes are there.
    Unknown,
}

impl<R: Read> Framer<R> {
    pub fn new(file: R) -> Self {
        Self::with_batch(file, BATCH_BYTES)
    }

    fn with_batch(file: R, batch_bytes: usize) -> Self {
        let faults = Faults::default();
        Self { file, rest: Vec::new(), is_at_end: false, last: None, faults, bytes: 0, batch_bytes }
    }

    /// The next records, or `None` at the file's end. Fails only if the file cannot be read.
    pub fn next_batch(&mut self) -> io::Result<Option<Batch>> {
        let (mut bytes, mut records) = (std::mem::take(&mut self.rest), Vec::new());
        let mut at = 0;
        loop {
            self.fill(&mut bytes)?;
            loop {
                match self.place(&bytes, at) {
                    Place::Record(header, body) => {
                        at = body.end;
                        records.push((header, body));
                    }
                    Place::Gap(end) => at = end,
                    Place::Unknown => break,
                }
            }
            // A record that is longer than a batch needs further reading.
            if self.is_at_end || !records.is_empty() {
                break;
            }
            bytes.drain(..at);
            at = 0;
        }
        self.rest = bytes.split_off(at);
        let is_over = records.is_empty() && self.is_at_end;
        Ok((!is_over).then(|| Batch { bytes: Arc::new(bytes), records }))
    }

    fn fill(&mut self, bytes: &mut Vec<u8>) -> io::Result<()> {
        let before = bytes.len();
        bytes.reserve(self.batch_bytes);
        let result = (&mut self.file).take(self.batch_bytes as u64).read_to_end(bytes);
        let read = bytes.len() - before;
        self.bytes += read as u64;
        self.is_at_end |= read < self.batch_bytes || result.is_err();
        match result {
            // A compressed file that is damaged ends there. What it held before is read.
            Err(error) if is_damage(&error) => self.faults.add(Fault::FileEnds),
            result => _ = result?,
        }
        Ok(())
    }

    fn place(&mut self, bytes: &[u8], at: usize) -> Place {
        let left = &bytes[at..];
        let Some(header) = Header::parse(left) else {
            return self.end(left.len(), bytes.len());
        };
        let body = at + HEADER_LENGTH;
        for length in lengths(header) {
            match self.follows(bytes, body + length, header) {
                Some(true) => {
                    self.last = Some(header);
                    return Place::Record(header, body..body + length);
                }
                None => return Place::Unknown,
                Some(false) => {}
            }
        }
        self.damaged(bytes, at, header)
    }

    /// Whether a record that ends at `end` is followed by another one, or by the file's end. `None`: not known yet.
    fn follows(&self, bytes: &[u8], end: usize, header: Header) -> Option<bool> {
        match bytes.get(end..).map(|behind| (behind, Header::parse(behind))) {
            Some((_, Some(next))) if is_likely(next, header) => Some(true),
            // A wrong time, or the table of another month, does not matter if the next record leads to a third.
            Some((_, Some(next))) => self.leads_on(bytes, end, next),
            // A file may be cut short inside a header.
            Some((behind, None)) if self.is_at_end => {
                let time = behind.first_chunk().map(|time| u32::from_be_bytes(*time));
                Some(time.is_none_or(|time| time.abs_diff(header.time) <= MAX_TIME_STEP))
            }
            None if self.is_at_end => Some(false),
            _ => None,
        }
    }

    /// Whether the record at a place has a known type, and a length that leads to another one or to the file's end.
    /// `None`: not known yet.
    fn leads_on(&self, bytes: &[u8], at: usize, header: Header) -> Option<bool> {
        let is_sound = |header: Header| types::has_routes(header.kind) && header.length <= MAX_LENGTH;
        if !is_sound(header) {
            return Some(false);
        }
        let end = at + HEADER_LENGTH + header.length;
        match bytes.get(end..) {
            Some([]) => self.is_at_end.then_some(true),
            Some(behind) => match Header::parse(behind) {
                Some(next) => Some(is_sound(next)),
                None => self.is_at_end.then_some(false),
            },
            None => self.is_at_end.then_some(false),
        }
    }

    /// The record or gap at a place whose length leads nowhere.
    fn damaged(&mut self, bytes: &[u8], at: usize, header: Header) -> Place {
        let is_header = types::is_known(header.kind)
            && self.last.is_none_or(|last| is_likely(header, last) || is_strong(header, last));
        let from = if is_header { at + HEADER_LENGTH } else { at + 1 };
        // The record before is sound, and the damaged one may be. The time of either may be what is wrong in it.
        let models = [self.last, Some(header).filter(|_| is_header)];
        let next = (from..bytes.len().saturating_sub(HEADER_LENGTH - 1)).find(|place| {
            let found = Header::parse(&bytes[*place..]);
            let fits = |found: Header| {
                models.iter().flatten().any(|model| {
                    let is_good = || self.leads_on(bytes, *place, found) == Some(true);
                    is_strong(found, *model) && (is_likely(found, *model) || is_good())
                })
            };
            found.is_some_and(fits)
        });
        let end = match next {
            Some(next) => next,
            None if self.is_at_end => bytes.len(),
            // A damaged record does not keep more than this in memory.
            None if bytes.len() - at > MAX_LENGTH => bytes.len() - HEADER_LENGTH,
            None => return Place::Unknown,
        };
        if !is_header {
            self.faults.add(Fault::NoRecord);
            return Place::Gap(end);
        }
        let is_cut = next.is_none() && self.is_at_end;
        self.faults.add(if is_cut { Fault::FileEnds } else { Fault::WrongLength });
        self.last.get_or_insert(header);
        Place::Record(header, at + HEADER_LENGTH..end)
    }

    /// The place where no whole header is left.
    fn end(&mut self, left: usize, end: usize) -> Place {
        if !self.is_at_end || left == 0 {
            return Place::Unknown;
        }
        self.faults.add(Fault::FileEnds);
        Place::Gap(end)
    }
}

/// The lengths that a record with this header may have, the likelier first. None: the length cannot be right.
///
/// RIPE RIS wrote records of TABLE_DUMP with several routes in 2000. Their lengths leave the first two fields out, which are
/// the view and the sequence number.
fn lengths(header: Header) -> impl Iterator<Item = usize> {
    const VIEW_AND_SEQUENCE: usize = 4;
    let without_fields = (header.kind == types::TABLE_DUMP).then_some(header.length + VIEW_AND_SEQUENCE);
    let all = [Some(header.length), without_fields].into_iter().flatten();
    all.filter(move |_| header.length <= MAX_LENGTH)
}

/// Whether `next` may follow a record with the header `before`: its time fits. Its length says nothing, because that
/// may be what is wrong in it, and its type may be unknown.
fn is_likely(next: Header, before: Header) -> bool {
    next.time.abs_diff(before.time) <= MAX_TIME_STEP && (types::is_known(next.kind) || next.kind < 256)
}

/// Whether a place that was searched for looks like a header, and not like any octets: its type is that of a record before.
fn is_strong(next: Header, before: Header) -> bool {
    next.kind == before.kind && next.subtype < 16
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(time: u32, kind: u16, body: &[u8]) -> Vec<u8> {
        let header = Header { time, kind, subtype: 2, length: body.len() };
        [&header.to_wire()[..], body].concat()
    }

    fn bodies(file: &[u8], batch: usize) -> (Vec<Vec<u8>>, Faults) {
        let mut framer = Framer::with_batch(file, batch);
        let mut bodies = Vec::new();
        while let Some(batch) = framer.next_batch().unwrap() {
            bodies.extend(batch.records.iter().map(|(_, body)| batch.bytes[body.clone()].to_vec()));
        }
        assert_eq!(framer.bytes, file.len() as u64);
        (bodies, framer.faults)
    }

    #[test]
    fn records_come_out_as_they_went_in_whatever_the_batch() {
        let file: Vec<u8> =
            (0..50).flat_map(|n| record(1000 + n, 13, &vec![n as u8; n as usize * 3])).collect();
        for batch in [13, 64, 1000, 1 << 20] {
            let (bodies, faults) = bodies(&file, batch);
            assert_eq!(bodies, (0..50).map(|n| vec![n as u8; n * 3]).collect::<Vec<_>>());
            assert_eq!(faults, Faults::default());
        }
        assert_eq!(bodies(&[], 64).0.len(), 0);
    }

    #[test]
    fn a_record_with_a_wrong_length_is_found_up_to_the_next() {
        for wrong in [0u32, 5, 21, 400, 70_000_000, u32::MAX] {
            let mut file: Vec<u8> = (0..20u8).flat_map(|n| record(1000, 13, &[n | 0x80; 20])).collect();
            file[32 * 7 + 8..32 * 7 + 12].copy_from_slice(&wrong.to_be_bytes());
            for batch in [64, 1 << 20] {
                let (bodies, faults) = bodies(&file, batch);
                assert_eq!(bodies.len(), 20, "{wrong} in batches of {batch}: {faults:?}");
                assert_eq!(bodies[7], [0x87; 20]);
                assert_eq!((faults.count(Fault::WrongLength), faults.errors()), (1, 1), "{wrong}");
            }
        }
    }

    #[test]
    fn a_file_that_is_cut_short_is_read_up_to_there() {
        let file: Vec<u8> = (0..20u8).flat_map(|n| record(1000, 13, &[n | 0x80; 20])).collect();
        for cut in [5, 12, 20, 31] {
            let (bodies, faults) = bodies(&file[..32 * 9 + cut], 64);
            assert_eq!(
                (bodies.len(), faults.count(Fault::FileEnds)),
                (9 + usize::from(cut >= 12), 1),
                "{cut}"
            );
        }
    }

    #[test]
    fn octets_that_are_no_record_are_one_gap() {
        let good = |time| record(time, 13, &[0x88; 20]);
        let file = [good(1000), vec![0xff; 77], good(1001), good(1002)].concat();
        let (bodies, faults) = bodies(&file, 64);
        assert_eq!(bodies.len(), 3);
        // The octets belong to the record before, whose length they make wrong.
        assert_eq!(faults.errors(), 1, "{faults:?}");
    }

    #[test]
    fn a_wrong_time_or_another_month_loses_nothing() {
        let month =
            |time: u32| -> Vec<u8> { (0..20u8).flat_map(|n| record(time, 13, &[n | 0x80; 20])).collect() };
        let two = [month(1_351_728_000), month(1_354_320_000)].concat();
        let wrong_time = |at: usize| {
            let mut file = month(1_351_728_000);
            file[32 * at..32 * at + 4].copy_from_slice(&[0; 4]);
            file
        };
        for (file, count) in
            [(two, 40), (wrong_time(0), 20), (wrong_time(1), 20), (wrong_time(9), 20), (wrong_time(19), 20)]
        {
            for batch in [64, 1 << 20] {
                let (bodies, faults) = bodies(&file, batch);
                assert_eq!((bodies.len(), faults.errors()), (count, 0), "in batches of {batch}: {faults:?}");
            }
        }
        // A wrong time, and a wrong length in the next record: that record is lost, and nothing else.
        let mut file = wrong_time(0);
        file[32 + 8..32 + 12].copy_from_slice(&[0xff; 4]);
        assert_eq!(bodies(&file, 1 << 20).0.len(), 19);
    }

    #[test]
    fn an_unknown_type_with_a_right_length_is_a_record() {
        let file =
            [record(1000, 13, &[1; 20]), record(1000, 200, &[2; 33]), record(1000, 13, &[3; 20])].concat();
        let (bodies, faults) = bodies(&file, 64);
        assert_eq!((bodies.len(), bodies[1].len(), faults.errors()), (3, 33, 0));
    }
}
