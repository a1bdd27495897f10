//! Many small files beside one large file of the same size, and the unavoidable cost of creating so many files.

use std::{fs, path::PathBuf};

use serde::Serialize;

use super::{
    crew::Crew,
    floor,
    ours::{self, Delivery, Ours},
    stage::{Result, Stage, fill},
};

pub(super) const FILES: u32 = 10_000;
pub(super) const FILE_BYTES: u64 = 10_000;

/// One comparison. All times are for the same number of bytes.
#[derive(Debug, Clone, Serialize)]
pub struct Small {
    pub one: Ours,
    pub many: Ours,
    /// The seconds in which every receiver creates the files at the same time, and does nothing else.
    pub create_seconds: f64,
    /// The seconds in which every receiver writes the large file at the same time. Creating small files
    /// replaces this cost.
    pub write_seconds: f64,
}

impl Small {
    /// The goodput of many files, as a share of the goodput of one.
    pub fn share(&self) -> f64 {
        self.one.slowest_seconds() / self.many.slowest_seconds()
    }

    /// The largest possible share: many files then cost as much as one, except that files are created and not
    /// only written.
    pub fn possible_share(&self) -> f64 {
        let one = self.one.slowest_seconds();
        one / (one - self.write_seconds + self.create_seconds)
    }
}

/// The files that are sent.
pub struct Sources {
    one: PathBuf,
    many: PathBuf,
}

impl Sources {
    /// Fills one large file, and as many small files as have its size.
    pub fn fill(stage: &Stage) -> Result<Self> {
        let (one, many) = (stage.path("one"), stage.path("many"));
        fill(&one, u64::from(FILES) * FILE_BYTES)?;
        fs::create_dir(&many)?;
        let content = fs::read(&one)?;
        for (number, piece) in content.chunks(FILE_BYTES as usize).enumerate() {
            fs::write(many.join(number.to_string()), piece)?;
        }
        Ok(Self { one, many })
    }
}

pub(super) fn measure(stage: &Stage, sources: &Sources) -> Result<Small> {
    let session = |source| Delivery { source, receivers: stage.receivers, plain: false };
    let one = ours::measure(stage, session(&sources.one))?;
    let many = ours::measure(stage, session(&sources.many))?;
    let write = floor::write(stage, u64::from(FILES) * FILE_BYTES)?;
    let create = Crew::measure(stage, |folder| {
        vec!["create".into(), folder.to_string_lossy().into(), FILES.to_string(), FILE_BYTES.to_string()]
    })?;
    Ok(Small { one, many, create_seconds: create.as_secs_f64(), write_seconds: write.as_secs_f64() })
}
