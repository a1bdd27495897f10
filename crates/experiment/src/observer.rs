//! What whoever watches an experiment is told. As JSON it is what `treecast lab run --json` prints, times in seconds.

use std::{collections::BTreeMap, time::Duration};

use serde::{Serialize, Serializer, ser::SerializeStruct};
use treecast_driver::events::as_seconds;

use crate::client::Fared;

/// Something that has happened.
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
    /// The machine is to calm down before a run.
    Settling { run: &'a str },
    /// A run begins.
    Started {
        number: usize,
        of: usize,
        run: &'a str,
        clients: usize,
        /// About how long it takes, its part of the plan's estimate.
        #[serde(rename = "expected_seconds", with = "as_seconds")]
        expected: Duration,
    },
    /// A client is done.
    Client {
        run: &'a str,
        node: &'a str,
        #[serde(flatten)]
        fared: &'a Fared,
    },
    /// A run is made once more.
    Again {
        run: &'a str,
        #[serde(rename = "reason")]
        why: &'a str,
    },
    /// A run is over.
    Finished(&'a Finished<'a>),
}

/// How a run went.
#[derive(Debug, Serialize)]
pub struct Finished<'a> {
    pub number: usize,
    pub run: &'a str,
    #[serde(rename = "seconds", with = "as_seconds")]
    pub duration: Duration,
    /// Clients that have all that they were to get.
    pub whole: usize,
    pub clients: usize,
    /// What the run has shown, in a line.
    #[serde(rename = "says")]
    pub sentence: &'a str,
    /// The values of the whole run, by measure.
    pub measures: &'a BTreeMap<String, Option<f64>>,
    /// Why this machine, and not the network, was its limit.
    pub saturated: Option<&'a str>,
    pub cut_short: bool,
    /// Why the program refused to do what the run asks of it.
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
