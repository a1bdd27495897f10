//! One record of a recording.
//!
//! | type | record | fields |
//! |---|---|---|
//! | 1 | start | when, ns since 1970; interval ns; hostname; kernel; processor; processors; memory bytes; treecast's version |
//! | 2 | series | name; the first is number 0, the next number 1, ... |
//! | 3 | sample | µs since the sample before (the first: since the start); then for each series that changed: how many series were skipped, and the signed difference to its last value (at first 0) |
//! | 4 | program | process id; its arguments, the first being its name |
//! | 5 | program's end | ns elapsed, ns user CPU, ns system CPU, peak memory in bytes, 0 and exit code or 1 and signal |
//! | 6 | end | none; a recording without it was cut short |
//!
//! Numbers and strings as in [`super::varint`].

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::{
    program::{Exit, ProgramEnd},
    varint,
};
use crate::db::Machine;

/// What was recorded where, first in a recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Start {
    pub at: SystemTime,
    pub every: Duration,
    pub machine: Machine,
}

/// A record, with differences resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record {
    Start(Start),
    /// A new series; its number is how many there were before.
    Series(String),
    Sample(Sample),
    Program {
        pid: u32,
        arguments: Vec<String>,
    },
    ProgramEnd(ProgramEnd),
    End,
}

/// What changed since the sample before.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sample {
    /// Time since the sample before, in whole microseconds.
    pub after: Duration,
    /// Number of a series and the difference to its last value, by ascending number.
    pub changes: Vec<(usize, i64)>,
}

impl Record {
    /// The record's bytes, without length and checksum.
    pub fn emit(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(64);
        match self {
            Record::Start(start) => emit_start(&mut bytes, start),
            Record::Series(name) => {
                bytes.push(2);
                varint::put_text(&mut bytes, name);
            }
            Record::Sample(sample) => emit_sample(&mut bytes, sample),
            Record::Program { pid, arguments } => {
                bytes.push(4);
                varint::put(&mut bytes, u64::from(*pid));
                arguments.iter().for_each(|argument| varint::put_text(&mut bytes, argument));
            }
            Record::ProgramEnd(end) => emit_program_end(&mut bytes, end),
            Record::End => bytes.push(6),
        }
        bytes
    }

    /// The record in `bytes`; `None` when they are none that this version knows.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let (&kind, mut rest) = bytes.split_first()?;
        let bytes = &mut rest;
        let record = match kind {
            1 => Record::Start(parse_start(bytes)?),
            2 => Record::Series(varint::take_text(bytes)?),
            3 => Record::Sample(parse_sample(bytes)?),
            4 => Record::Program { pid: take_u32(bytes)?, arguments: take_all_texts(bytes)? },
            5 => Record::ProgramEnd(parse_program_end(bytes)?),
            6 => Record::End,
            _ => return None,
        };
        rest.is_empty().then_some(record)
    }
}

fn emit_start(bytes: &mut Vec<u8>, start: &Start) {
    let machine = &start.machine;
    bytes.push(1);
    put_ns(bytes, start.at.duration_since(UNIX_EPOCH).unwrap_or_default());
    put_ns(bytes, start.every);
    varint::put_text(bytes, &machine.hostname);
    varint::put_text(bytes, &machine.kernel);
    varint::put_text(bytes, &machine.cpu_model);
    varint::put(bytes, u64::from(machine.cpus));
    varint::put(bytes, machine.memory_bytes);
    varint::put_text(bytes, &machine.treecast_version);
}

fn parse_start(bytes: &mut &[u8]) -> Option<Start> {
    Some(Start {
        at: UNIX_EPOCH.checked_add(take_ns(bytes)?)?,
        every: take_ns(bytes)?,
        machine: Machine {
            hostname: varint::take_text(bytes)?,
            kernel: varint::take_text(bytes)?,
            cpu_model: varint::take_text(bytes)?,
            cpus: take_u32(bytes)?,
            memory_bytes: varint::take(bytes)?,
            treecast_version: varint::take_text(bytes)?,
        },
    })
}

fn emit_sample(bytes: &mut Vec<u8>, sample: &Sample) {
    bytes.push(3);
    varint::put(bytes, sample.after.as_micros() as u64);
    let mut next = 0;
    for &(series, difference) in &sample.changes {
        varint::put(bytes, (series - next) as u64);
        varint::put_signed(bytes, difference);
        next = series + 1;
    }
}

fn parse_sample(bytes: &mut &[u8]) -> Option<Sample> {
    let after = Duration::from_micros(varint::take(bytes)?);
    let mut changes = Vec::new();
    let mut next = 0usize;
    while !bytes.is_empty() {
        let series = next.checked_add(usize::try_from(varint::take(bytes)?).ok()?)?;
        changes.push((series, varint::take_signed(bytes)?));
        next = series.checked_add(1)?;
    }
    Some(Sample { after, changes })
}

fn emit_program_end(bytes: &mut Vec<u8>, end: &ProgramEnd) {
    bytes.push(5);
    put_ns(bytes, end.elapsed);
    put_ns(bytes, end.cpu_user);
    put_ns(bytes, end.cpu_system);
    varint::put(bytes, end.peak_memory_bytes);
    let (kind, number) = match end.exit {
        Exit::Code(code) => (0, code),
        Exit::Signal(signal) => (1, signal),
    };
    varint::put(bytes, kind);
    varint::put_signed(bytes, i64::from(number));
}

fn parse_program_end(bytes: &mut &[u8]) -> Option<ProgramEnd> {
    let (elapsed, cpu_user, cpu_system) = (take_ns(bytes)?, take_ns(bytes)?, take_ns(bytes)?);
    let peak_memory_bytes = varint::take(bytes)?;
    let (kind, number) = (varint::take(bytes)?, i32::try_from(varint::take_signed(bytes)?).ok()?);
    let exit = match kind {
        0 => Exit::Code(number),
        1 => Exit::Signal(number),
        _ => return None,
    };
    Some(ProgramEnd { elapsed, cpu_user, cpu_system, peak_memory_bytes, exit })
}

fn put_ns(bytes: &mut Vec<u8>, duration: Duration) {
    varint::put(bytes, u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX));
}

fn take_ns(bytes: &mut &[u8]) -> Option<Duration> {
    varint::take(bytes).map(Duration::from_nanos)
}

fn take_u32(bytes: &mut &[u8]) -> Option<u32> {
    u32::try_from(varint::take(bytes)?).ok()
}

fn take_all_texts(bytes: &mut &[u8]) -> Option<Vec<String>> {
    let mut texts = Vec::new();
    while !bytes.is_empty() {
        texts.push(varint::take_text(bytes)?);
    }
    Some(texts)
}
