//! The file of a recording.
//!
//! ```text
//! file   = "TCMONITR" version record*
//! record = length body crc32
//! ```
//!
//! The version is one byte; the length of the body is a [`super::varint`]; the checksum is CRC-32
//! (IEEE), 4 bytes, little-endian. A record is written by one call of the kernel. So a recording that
//! ends in the middle, because the monitor was killed or the disk was full, is whole up to its last
//! whole record. The bodies are in [`super::record`].

use std::{
    fs::{File, OpenOptions},
    io::{self, BufReader, Read, Write},
    path::{Path, PathBuf},
    time::Duration,
};

use super::{
    MonitorError,
    record::{Record, Sample},
    varint,
};
use crate::{sample::Reading, series::Name};

const MAGIC: &[u8; 8] = b"TCMONITR";
const VERSION: u8 = 1;
/// Larger records are damage: a sample of 10,000 series is a tenth of this.
const MAX_BODY_LEN: usize = 1 << 20;
/// More series than that are damage, too.
const MAX_SERIES: usize = 1 << 17;

/// Writes a recording.
pub struct Writer<W: Write> {
    to: W,
    series: Vec<(Name, i64)>,
    last: Duration,
    written_bytes: u64,
}

impl Writer<File> {
    /// Creates a recording. A file that exists is not overwritten.
    pub fn create(path: &Path) -> Result<Self, MonitorError> {
        let failed = |source: io::Error| match source.kind() {
            io::ErrorKind::AlreadyExists => MonitorError::Exists { path: path.to_owned() },
            _ => MonitorError::Create { path: path.to_owned(), source },
        };
        Self::new(OpenOptions::new().write(true).create_new(true).open(path).map_err(failed)?)
    }
}

impl<W: Write> Writer<W> {
    /// Starts a recording on `to`, which should not keep bytes back.
    pub fn new(mut to: W) -> Result<Self, MonitorError> {
        let header = [&MAGIC[..], &[VERSION]].concat();
        to.write_all(&header).map_err(MonitorError::Write)?;
        Ok(Self { to, series: Vec::new(), last: Duration::ZERO, written_bytes: header.len() as u64 })
    }

    /// Writes a record that is no sample.
    pub fn write(&mut self, record: &Record) -> Result<(), MonitorError> {
        let body = record.emit();
        let mut bytes = Vec::with_capacity(body.len() + 8);
        varint::put(&mut bytes, body.len() as u64);
        bytes.extend_from_slice(&body);
        bytes.extend_from_slice(&crc32fast::hash(&body).to_le_bytes());
        self.to.write_all(&bytes).map_err(MonitorError::Write)?;
        self.written_bytes += bytes.len() as u64;
        Ok(())
    }

    /// Writes a sample taken at a time since the start.
    pub fn sample(&mut self, at: Duration, readings: &[Reading]) -> Result<(), MonitorError> {
        let mut changes = Vec::with_capacity(readings.len());
        for reading in readings {
            let number = self.number_of(&reading.name)?;
            let last = &mut self.series[number].1;
            if reading.value != *last {
                changes.push((number, reading.value.wrapping_sub(*last)));
                *last = reading.value;
            }
        }
        changes.sort_unstable_by_key(|(number, _)| *number);
        // The clock advances by what is written, so that what is cut off the microseconds does not add up.
        let after = Duration::from_micros(at.saturating_sub(self.last).as_micros() as u64);
        self.last += after;
        self.write(&Record::Sample(Sample { after, changes }))
    }

    /// Marks the recording as complete.
    pub fn finish(mut self) -> Result<(), MonitorError> {
        self.write(&Record::End)?;
        self.to.flush().map_err(MonitorError::Write)
    }

    pub fn written_bytes(&self) -> u64 {
        self.written_bytes
    }

    fn number_of(&mut self, name: &Name) -> Result<usize, MonitorError> {
        if let Some(number) = self.series.iter().position(|(known, _)| known == name) {
            return Ok(number);
        }
        self.write(&Record::Series(name.to_string()))?;
        self.series.push((name.clone(), 0));
        Ok(self.series.len() - 1)
    }
}

/// Whether a recording is whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    Complete,
    /// The recording ends, or is damaged, at this byte.
    CutShort {
        at_byte: u64,
    },
}

/// Reads a recording, record by record, and knows the value of each series at the last sample read.
pub struct Reader<R: Read> {
    from: R,
    position: u64,
    series: Vec<(String, i64)>,
    at: Duration,
    ending: Option<Ending>,
}

impl Reader<BufReader<File>> {
    pub fn open(path: &Path) -> Result<Self, MonitorError> {
        let failed = |source| MonitorError::Read { path: path.to_owned(), source };
        Self::new(BufReader::new(File::open(path).map_err(failed)?), path)
    }
}

impl<R: Read> Reader<R> {
    /// Reads a recording from `from`; errors call it `path`.
    pub fn new(mut from: R, path: &Path) -> Result<Self, MonitorError> {
        let path = || -> PathBuf { path.to_owned() };
        let mut header = [0; MAGIC.len() + 1];
        let read = read_up_to(&mut from, &mut header);
        let read = read.map_err(|source| MonitorError::Read { path: path(), source })?;
        if read < header.len() || &header[..MAGIC.len()] != MAGIC {
            return Err(MonitorError::NoRecording { path: path() });
        }
        match header[MAGIC.len()] {
            VERSION => {}
            found => return Err(MonitorError::Newer { path: path(), found, known: VERSION }),
        }
        Ok(Self { from, position: read as u64, series: Vec::new(), at: Duration::ZERO, ending: None })
    }

    /// The next record; `None` at the end, which [`Reader::ending`] then tells.
    pub fn next_record(&mut self) -> Option<Record> {
        if self.ending.is_some() {
            return None;
        }
        let record = self.read_record().filter(|record| self.apply(record));
        match &record {
            None => self.ending = Some(Ending::CutShort { at_byte: self.position }),
            Some(Record::End) => self.ending = Some(Ending::Complete),
            Some(_) => {}
        }
        record.filter(|record| *record != Record::End)
    }

    /// How the recording ended; `None` until all records are read.
    pub fn ending(&self) -> Option<Ending> {
        self.ending
    }

    /// Time of the last sample read, since the start.
    pub fn at(&self) -> Duration {
        self.at
    }

    /// Names of the series read so far, each with its value at the last sample.
    pub fn series(&self) -> &[(String, i64)] {
        &self.series
    }

    fn read_record(&mut self) -> Option<Record> {
        let start = self.position;
        let record = self.read_checked_body().and_then(|body| Record::parse(&body));
        if record.is_none() {
            self.position = start;
        }
        record
    }

    /// An error while reading counts as the end: what was read until then is still good.
    fn read_checked_body(&mut self) -> Option<Vec<u8>> {
        let len = self.read_len()?;
        let mut body = vec![0; len + 4];
        if read_up_to(&mut self.from, &mut body).ok()? < body.len() {
            return None;
        }
        self.position += body.len() as u64;
        let checksum = body.split_off(len);
        (crc32fast::hash(&body).to_le_bytes() == checksum[..]).then_some(body)
    }

    fn read_len(&mut self) -> Option<usize> {
        let mut bytes = Vec::with_capacity(4);
        loop {
            let mut byte = [0];
            if read_up_to(&mut self.from, &mut byte).ok()? == 0 {
                return None;
            }
            self.position += 1;
            bytes.push(byte[0]);
            if byte[0] & 0x80 == 0 || bytes.len() > 10 {
                break;
            }
        }
        let len = usize::try_from(varint::take(&mut &bytes[..])?).ok()?;
        (len <= MAX_BODY_LEN).then_some(len)
    }

    /// False for a record that makes no sense here.
    fn apply(&mut self, record: &Record) -> bool {
        match record {
            Record::Series(name) if self.series.len() < MAX_SERIES => self.series.push((name.clone(), 0)),
            Record::Series(_) => return false,
            Record::Sample(sample) => {
                let Some(at) = self.at.checked_add(sample.after) else { return false };
                if sample.changes.iter().any(|(number, _)| *number >= self.series.len()) {
                    return false;
                }
                self.at = at;
                for &(number, difference) in &sample.changes {
                    let value = &mut self.series[number].1;
                    *value = value.wrapping_add(difference);
                }
            }
            Record::Start(_) | Record::Program { .. } | Record::ProgramEnd(_) | Record::End => {}
        }
        true
    }
}

/// Fills `buffer` as far as there are bytes, and says how far.
fn read_up_to(from: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match from.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(filled)
}
