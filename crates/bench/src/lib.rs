//! The cost of delivering a byte, beside what this machine could do and beside uftp. Also the cost of the
//! MEADcast router ([`router`]), and the load generator's speed ([`load`]).
//!
//! This crate prints nothing and reads no arguments: [`measure`] returns a [`Report`], which the command shows.
//!
//! Everything is measured in one network of namespaces (a sender and receivers on a bridge, veth at full speed)
//! and in memory-backed files:
//!
//! - The *floor*: the three things that no delivery can avoid, each alone. A byte goes through super-packet
//!   sockets to all receivers, each receiver writes it to a file, and each hashes it. The sum of their times is
//!   what the machine can do.
//! - *treecast*: the two commands as a user starts them, directly after the floor, plain and secure.
//! - Many small files beside one large file of the same size.
//! - A session under attack beside one without.
//! - *uftp* (Debian's), at the best of several rates at which it serves everyone.
//! - Memory: a file of eight times the size to one receiver, sampled.

mod attack;
mod crew;
mod floor;
pub mod load;
mod memory;
mod ours;
mod report;
pub mod router;
mod small;
mod stage;
mod uftp;
mod worker;

use std::{
    fs::File,
    io::{self, Write},
    path::PathBuf,
};

pub use report::Report;
pub use stage::Result;
pub use worker::run as work;

use ours::{Delivery, Ours};
use report::Run;
use stage::Stage;

use treecast_host::stop::Stop;

/// Shows a line to the user while the bench runs.
pub type Tell = fn(&str);

/// The measurements that are made.
#[derive(Debug, Clone)]
pub struct Scope {
    /// Number of receivers on the bridge.
    pub receivers: u32,
    /// Size of the file, in bytes.
    pub bytes: u64,
    /// The number of times that each measurement is made. Medians count.
    pub runs: u32,
    /// A memory-backed folder for the files.
    pub folder: PathBuf,
    /// Whether the floor and sessions with one large file are measured.
    pub whole: bool,
    /// Whether sessions with many small files are measured.
    pub small: bool,
    /// Whether sessions that are attacked are measured.
    pub attack: bool,
    /// Whether uftp is measured.
    pub uftp: bool,
    /// Whether the session with a file of eight times the size is measured.
    pub memory: bool,
}

/// Makes the measurements of `scope`. Everything that was set up for them is removed when this returns.
///
/// # Errors
/// One line if something that a measurement needs is missing, or if `stop` is requested.
pub fn measure(scope: &Scope, stop: Stop, tell: Tell) -> Result<Report> {
    if scope.uftp {
        uftp::check()?;
    }
    let stage = Stage::set(scope.receivers, scope.bytes, &scope.folder, stop, tell)?;
    let mut report = Report::new(scope.receivers, scope.bytes);
    measure_whole_runs(scope, &stage, &mut report)?;
    let number = |number: u32, what: &str| tell(&format!("run {number} of {}: {what}", scope.runs));
    if scope.small {
        let sources = small::Sources::fill(&stage)?;
        for run in 1..=scope.runs {
            number(run, "small files");
            report.small.push(small::measure(&stage, &sources)?);
        }
    }
    if scope.attack && attack::is_possible(&stage) {
        for run in 1..=scope.runs {
            number(run, "under attack");
            report.attacks.push(attack::measure(&stage)?);
        }
    }
    if scope.uftp {
        tell("uftp");
        report.uftp = Some(uftp::measure(&stage)?);
    }
    if scope.memory {
        tell("memory");
        report.large = Some(measure_large(&stage)?);
    }
    Ok(report)
}

/// Measures one large file: the floor, a plain session and a secure one.
fn measure_whole_runs(scope: &Scope, stage: &Stage, report: &mut Report) -> Result<()> {
    (stage.lab.tell)("warming up");
    let plain = Delivery { source: &stage.source, receivers: scope.receivers, plain: true };
    let secure = Delivery { plain: false, ..plain };
    ours::measure(stage, plain)?;
    let runs = if scope.whole { scope.runs } else { 0 };
    for number in 1..=runs {
        (stage.lab.tell)(&format!("run {number} of {runs}: floor"));
        let floor = floor::measure(stage)?;
        (stage.lab.tell)(&format!("run {number} of {runs}: treecast"));
        let ours = ours::measure(stage, plain)?;
        let secure = ours::measure(stage, secure)?;
        report.runs.push(Run { floor, ours, secure });
    }
    Ok(())
}

/// Measures a session with a file of eight times the size, to one receiver. The file has no blocks on the disk, and reads
/// as zeros. The copy has blocks.
fn measure_large(stage: &Stage) -> Result<Ours> {
    let source = stage.path("large");
    File::create(&source)?.set_len(stage.bytes * 8)?;
    ours::measure(stage, Delivery { source: &source, receivers: 1, plain: false })
}

/// Writes a line to the bench, which reads this worker's output.
fn answer(line: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{line}")?;
    stdout.flush()
}
