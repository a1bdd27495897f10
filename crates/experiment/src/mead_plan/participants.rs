//! Files that name the participants of use cases.

use std::path::Path;

use serde::Deserialize;

use super::{Group, group_of};

/// The largest file that is read, in bytes.
const MAX_BYTES: u64 = 1 << 20;

/// The use cases that one file names.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Participants {
    #[serde(rename = "use_case")]
    pub use_cases: Vec<UseCase>,
}

/// A use case of the MEADcast thesis: which networks of a testbed have hosts that send, and which have hosts that receive.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UseCase {
    pub name: String,
    pub title: String,
    /// The network whose first host sends.
    pub sender: u16,
    /// The networks that receive.
    pub networks: Vec<u16>,
    /// The largest number of addresses in a packet.
    pub max: usize,
    /// Whether all hosts send to each other. The network `sender` is then one of them.
    #[serde(default)]
    pub all_send: bool,
    /// The thesis' measurement, if there is one.
    pub reduction: Option<Reduction>,
}

impl UseCase {
    /// The groups, each with its sender and receivers, with this many hosts of each network.
    pub fn groups(&self, hosts_per_network: usize) -> Vec<Group> {
        let group = group_of(self, hosts_per_network);
        if !self.all_send {
            return vec![group];
        }
        let members = &group.receivers;
        let of = |sender: &String| Group {
            sender: sender.clone(),
            receivers: members.iter().filter(|member| *member != sender).cloned().collect(),
        };
        members.iter().map(of).collect()
    }
}

/// Bytes saved against unicast, in per cent.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reduction {
    pub network: f64,
    pub sender: f64,
}

impl Participants {
    /// Reads a file.
    ///
    /// # Errors
    /// One line if the file cannot be read or has other content.
    pub fn read(path: &Path) -> Result<Self, String> {
        let name = path.display();
        let text = treecast_host::text::read(path, MAX_BYTES)
            .map_err(|error| format!("cannot read {name}: {error}"))?;
        Self::parse(&text).map_err(|what| format!("{name}: {what}"))
    }

    /// Returns the use cases of the thesis, in its testbed.
    ///
    /// # Errors
    /// None but a mistake in the file that this program was built with.
    pub fn of_thesis() -> Result<Self, String> {
        Self::parse(include_str!("../../../../labs/meadcast/participants.toml"))
    }

    fn parse(text: &str) -> Result<Self, String> {
        toml::from_str(text).map_err(|error| error.to_string().replace('\n', " "))
    }
}
