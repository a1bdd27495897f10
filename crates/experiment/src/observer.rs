//! Events that an experiment tells its observer. Written as JSON, they are what `treecast lab run --json`
//! prints, with times in seconds.

use std::{collections::BTreeMap, time::Duration};

use serde::{Serialize, Serializer};
use treecast_driver::events::as_seconds;
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{RefOr, Schema},
};

use crate::client::Fared;

/// Something that has happened in an experiment.
#[derive(Debug, Serialize, ToSchema)]
#[serde(tag = "event", rename_all = "lowercase")]
#[schema(as = RunEvent)]
pub enum Event<'a> {
    /// The experiment is about to begin.
    Planned {
        runs: usize,
        #[serde(rename = "estimate_seconds", with = "as_seconds")]
        #[schema(value_type = f64)]
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
        #[schema(value_type = f64)]
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
#[derive(Debug, Serialize, ToSchema)]
pub struct Finished<'a> {
    pub number: usize,
    pub run: &'a str,
    #[serde(rename = "seconds", with = "as_seconds")]
    #[schema(value_type = f64)]
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
    #[schema(required)]
    pub saturated: Option<&'a str>,
    pub cut_short: bool,
    /// The reason why the program refused to do what the run asks of it.
    #[schema(required)]
    pub refused: Option<&'a str>,
}

/// The result of a client, as events tell it.
#[derive(Serialize, ToSchema)]
struct ToldResult<'a> {
    /// The time that the delivery took. `None`: the client has no copy.
    #[schema(required)]
    seconds: Option<f64>,
    /// The reason why it has none.
    #[schema(required)]
    failure: Option<&'a str>,
    attempts: u32,
    retransmitted_bytes: u64,
    duplicate_bytes: u64,
    dropped_packets: u64,
}

impl Serialize for Fared {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let told = ToldResult {
            seconds: self.run_seconds(),
            failure: self.failure.as_deref(),
            attempts: self.attempts,
            retransmitted_bytes: self.told.retransmitted_bytes,
            duplicate_bytes: self.told.duplicate_bytes,
            dropped_packets: self.told.dropped_packets,
        };
        told.serialize(serializer)
    }
}

impl PartialSchema for Fared {
    fn schema() -> RefOr<Schema> {
        ToldResult::schema()
    }
}

impl ToSchema for Fared {
    fn name() -> std::borrow::Cow<'static, str> {
        "Fared".into()
    }
}
