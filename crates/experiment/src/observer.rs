//! Events that an experiment tells its observer. Written as JSON, they are what `treecast lab run --json`
//! prints, with times in seconds.

use std::{collections::BTreeMap, time::Duration};

use serde::{Serialize, Serializer, ser::SerializeStruct};
use treecast_driver::events::as_seconds;

use crate::client::Fared;

/// Something that has happened in an experiment.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub enum Event<'a> {
    /// The experiment is about to begin.
    Planned {
        runs: usize,
        #[serde(rename = "estimate_seconds", with = "as_seconds")]
        estimate: Duration,
        left_out: &'a [String],
    },
    /// A network is being built.
    Building { network: &'a str, nodes: usize },
    /// The experiment waits until the machine is quiet, before a run.
    Settling { run: &'a str },
    /// A run has begun.
    Started {
        number: usize,
        of: usize,
        run: &'a str,
        clients: usize,
        /// About how long it takes, its part of the plan's estimate.
        #[serde(rename = "expected_seconds", with = "as_seconds")]
        expected: Duration,
    },
    /// A client has ended.
    Client {
        run: &'a str,
        node: &'a str,
        #[serde(flatten)]
        fared: &'a Fared,
    },
    /// A run is made another time.
    Again {
        run: &'a str,
        #[serde(rename = "reason")]
        why: &'a str,
    },
    /// A run has ended.
    Finished(&'a Finished<'a>),
}

/// The result of a run.
#[derive(Debug, Serialize)]
pub struct Finished<'a> {
    pub number: usize,
    pub run: &'a str,
    #[serde(rename = "seconds", with = "as_seconds")]
    pub duration: Duration,
    /// The number of clients that got all that they were to get.
    pub whole: usize,
    pub clients: usize,
    /// The result of the run in one sentence.
    #[serde(rename = "says")]
    pub sentence: &'a str,
    /// The values of the whole run, by measure.
    pub measures: &'a BTreeMap<String, Option<f64>>,
    /// The reason why this machine limited the run, and not the network.
    pub saturated: Option<&'a str>,
    pub cut_short: bool,
    /// The reason why the program refused to do what the run asks of it.
    pub refused: Option<&'a str>,
}

impl Serialize for Fared {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("Fared", 6)?;
        fields.serialize_field("seconds", &self.run_seconds())?;
        fields.serialize_field("failure", &self.failure)?;
        fields.serialize_field("attempts", &self.attempts)?;
        fields.serialize_field("retransmitted_bytes", &self.told.retransmitted_bytes)?;
        fields.serialize_field("duplicate_bytes", &self.told.duplicate_bytes)?;
        fields.serialize_field("dropped_packets", &self.told.dropped_packets)?;
        fields.end()
    }
}
