//! Reads the senders and receivers of an experiment from its file.

use std::path::{Path, PathBuf};

use crate::mead_plan::{Group, Participants, UseCase};
use serde::Deserialize;

/// The `[cast]` of a file, as it is written: the senders and receivers out of a list of use cases.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CastKeys {
    participants: PathBuf,
    use_case: String,
    receivers: Vec<usize>,
}

/// The senders and receivers of an experiment.
#[derive(Debug, Clone, PartialEq)]
pub struct Cast {
    pub use_case: UseCase,
    /// The numbers of hosts of each network that receive. Runs are made with each number.
    pub receivers: Vec<usize>,
}

impl CastKeys {
    /// Checks the values and returns the cast. Its file starts at `folder`.
    pub fn complete(self, folder: &Path) -> Result<Cast, String> {
        let Self { participants, use_case: wanted, receivers } = self;
        if receivers.is_empty() || receivers.contains(&0) {
            return Err(
                "cast: receivers: expected how many hosts of each network receive, such as [1, 3, 5]".into(),
            );
        }
        let known = Participants::read(&folder.join(participants))?.use_cases;
        let names: Vec<String> = known.iter().map(|found| found.name.clone()).collect();
        let use_case = known.into_iter().find(|found| found.name == wanted).ok_or_else(|| {
            format!("cast: use_case `{wanted}` is not among the participants': {}", names.join(", "))
        })?;
        Ok(Cast { use_case, receivers })
    }
}

impl Cast {
    /// Returns the groups, each with its sender and receivers, when this number of hosts of each network
    /// receive.
    pub fn groups(&self, receivers_per_network: usize) -> Vec<Group> {
        self.use_case.groups(receivers_per_network)
    }
}
