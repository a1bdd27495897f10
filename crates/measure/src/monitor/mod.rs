//! The monitor (the paper's lwmon; librecast-updates-2022, A.2): what a machine, its interfaces and a
//! program that it starts use, sampled at a fixed interval into an SQLite file.
//!
//! ```text
//! run (options) --> sample --> Writer --> file --> Recording --> Digest, CSV, SQL, JSON
//! ```

mod digest;
mod export;
mod program;
mod recording;
mod run;

use std::{io, path::PathBuf};

pub use digest::Digest;
pub use export::{csv, json, sql};
pub use program::{Exit, ProgramEnd};
pub use recording::{Ending, Recording, Start, Writer};
pub use run::{Observed, Options, Report, run};

/// The errors of the monitor and of recordings.
#[derive(Debug, thiserror::Error)]
pub enum MonitorError {
    #[error(transparent)]
    Sample(#[from] crate::sample::SampleError),
    #[error("cannot create {}: {source}; name a file in a folder that you may write to", path.display())]
    Create { path: PathBuf, source: io::Error },
    #[error("{} exists already; remove it, or choose another name for the recording", path.display())]
    Exists { path: PathBuf },
    #[error("cannot write the recording {}: {source}; is the disk full?", path.display())]
    Write { path: PathBuf, source: rusqlite::Error },
    #[error("{} is damaged: {source}", path.display())]
    Damaged { path: PathBuf, source: rusqlite::Error },
    #[error("{} was recorded by an older treecast, in a format that this one does not know: show it with that one", path.display())]
    Older { path: PathBuf },
    #[error("cannot read {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{} is no recording of treecast monitor", path.display())]
    NoRecording { path: PathBuf },
    #[error("{} was recorded by a newer treecast (format {found}, this one knows {known}); update treecast", path.display())]
    Newer { path: PathBuf, found: i64, known: u32 },
    #[error("cannot start {program}: {source}; name a program that is there and that you may run")]
    Program { program: String, source: io::Error },
    #[error("cannot wait for time to pass, a signal or the program: {0}")]
    Wait(io::Error),
    #[error("cannot write the export: {0}")]
    Export(io::Error),
}
