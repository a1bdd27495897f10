//! The eBPF program that loses packets. It is loaded once for a lab, and attached to every interface that
//! loses.
//!
//! It needs no process: each interface holds the program, and the program its table. Both are found again by
//! the numbers that the kernel gave them.

use std::io;
use std::mem::{offset_of, size_of};
use std::os::fd::{AsFd, BorrowedFd};

use aya::maps::{Array, Map, MapData};
use aya::programs::{ProgramFd, SchedClassifier, loaded_programs};
use aya::{EbpfLoader, include_bytes_aligned};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::topology::Loss;

/// `bpf/loss.bpf.c`, compiled by the build script.
static PROGRAM: &[u8] = include_bytes_aligned!(concat!(env!("OUT_DIR"), "/loss.bpf.o"));

/// `LOSS_ALWAYS` of `bpf/loss.h`.
const ALWAYS: f64 = 2_147_483_648.0;

/// `struct loss_entry` of `bpf/loss.h`.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
#[repr(C)]
struct Entry {
    in_good: u32,
    in_bad: u32,
    to_bad: u32,
    to_good: u32,
    is_bad: u32,
    firewall: u32,
    passed: u64,
    dropped: u64,
}

const _: () = assert!(size_of::<Entry>() == 40);
const _: () = assert!(offset_of!(Entry, is_bad) == 16);
const _: () = assert!(offset_of!(Entry, passed) == 24);
const _: () = assert!(offset_of!(Entry, dropped) == 32);

// SAFETY: a C structure of integers without padding: every pattern of bits is a value.
unsafe impl aya::Pod for Entry {}

/// The packets that an interface has received and lost since the lab is up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct LossCounters {
    /// The number of packets that were not lost.
    pub passed: u64,
    /// The number of packets that were lost on purpose.
    pub dropped: u64,
}

/// The numbers by which the kernel knows the program that loses packets, and its table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LossObjects {
    program: u32,
    table: u32,
}

/// The loaded program that loses packets, and its table of interfaces.
pub struct Losses {
    program: ProgramFd,
    table: Array<MapData, Entry>,
    objects: LossObjects,
}

impl Losses {
    /// Loads the program, with room for interfaces with numbers below `interfaces`. When this is dropped, the
    /// program goes away, unless an interface holds it.
    pub fn load(interfaces: u32) -> Result<Self> {
        try_load(interfaces).map_err(failed("load the loss program"))
    }

    /// Finds the program of a lab that is up.
    pub fn open(objects: LossObjects) -> Result<Self> {
        let found = || {
            let mut programs = loaded_programs().filter_map(std::result::Result::ok);
            let program = programs.find(|program| program.id() == objects.program).ok_or("it is gone")?;
            let table = Array::try_from(Map::Array(MapData::from_id(objects.table)?))?;
            Ok(Self { program: program.fd()?, table, objects })
        };
        found().map_err(failed("find the lab's loss program"))
    }

    pub fn objects(&self) -> LossObjects {
        self.objects
    }

    /// Returns the program, to attach it to an interface.
    pub fn program(&self) -> BorrowedFd<'_> {
        self.program.as_fd()
    }

    /// Makes interface `index` lose packets from now on. Its counters continue; packets that arrive at this
    /// very moment may be missing from them.
    pub fn set(&mut self, index: u32, loss: Loss) -> Result<()> {
        let outcome = self.table.get(&index, 0).and_then(|entry| {
            let Entry { firewall, passed, dropped, .. } = entry;
            self.table.set(index, Entry { firewall, passed, dropped, ..Entry::of(loss) }, 0)
        });
        outcome.map_err(|error| failed("set the loss of an interface")(error.into()))
    }

    /// Makes interface `index` drop IPv6 packets with a routing header, or stop doing so.
    pub fn set_firewall(&mut self, index: u32, is_on: bool) -> Result<()> {
        let outcome = self
            .table
            .get(&index, 0)
            .and_then(|entry| self.table.set(index, Entry { firewall: is_on.into(), ..entry }, 0));
        outcome.map_err(|error| failed("set the firewall of an interface")(error.into()))
    }

    pub fn counters(&self, index: u32) -> Result<LossCounters> {
        let entry =
            self.table.get(&index, 0).map_err(|error| failed("read how much was lost")(error.into()))?;
        Ok(LossCounters { passed: entry.passed, dropped: entry.dropped })
    }
}

type Failure = Box<dyn std::error::Error>;

fn failed(action: &str) -> impl FnOnce(Failure) -> Error {
    move |failure| Error::system(action)(io::Error::other(failure.to_string()))
}

fn try_load(interfaces: u32) -> std::result::Result<Losses, Failure> {
    let mut objects = EbpfLoader::new().map_max_entries("losses", interfaces).load(PROGRAM)?;
    let program = objects.program_mut("lose").ok_or("it has no function lose")?;
    let program: &mut SchedClassifier = program.try_into()?;
    program.load()?;
    let (number, program) = (program.info()?.id(), program.fd()?.try_clone()?);
    let table = objects.take_map("losses").ok_or("it has no table losses")?;
    let Map::Array(data) = table else { return Err("its table is no array".into()) };
    let objects = LossObjects { program: number, table: data.info()?.id() };
    Ok(Losses { program, table: Array::try_from(Map::Array(data))?, objects })
}

impl Entry {
    fn of(loss: Loss) -> Self {
        let scaled = |probability: f64| (probability * ALWAYS) as u32;
        match loss {
            Loss::None => Self::default(),
            Loss::Uniform(loss) => Self { in_good: scaled(loss), ..Self::default() },
            Loss::Gilbert { to_bad, to_good, in_bad, in_good } => Self {
                in_good: scaled(in_good),
                in_bad: scaled(in_bad),
                to_bad: scaled(to_bad),
                to_good: scaled(to_good),
                ..Self::default()
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certainty_has_a_number() {
        assert_eq!(Entry::of(Loss::Uniform(1.0)).in_good, 1 << 31);
        assert_eq!(Entry::of(Loss::Uniform(0.5)).in_good, 1 << 30);
        assert_eq!(Entry::of(Loss::None), Entry::default());
    }
}
