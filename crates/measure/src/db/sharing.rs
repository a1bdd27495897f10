//! What the results database keeps of runs in which flows share a link.

use rusqlite::OptionalExtension;

use super::{Db, Result, RunId};

/// A run that ends by time, and is about one link that all its flows cross.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct SharingInfo {
    /// The one that the run is about, then its rival, where it has one.
    pub flows: Vec<FlowInfo>,
    /// The interface in front of which all wait.
    pub queue: InterfaceInfo,
    pub queue_bytes: u64,
    /// Of a packet that waits nowhere.
    pub round_trip_ms: f64,
    /// The link's rate in bits a second, each from so many seconds after the run's start.
    pub rates: Vec<(f64, u64)>,
    /// From when to when all flows ran, in seconds after the run's start; none while it is not over.
    pub together: Option<(f64, f64)>,
}

/// A flow, and where it is counted.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct FlowInfo {
    pub name: String,
    /// The interface behind the link through which all that the flow brings goes on, and nothing else.
    pub counted_at: InterfaceInfo,
    /// The nodes that it goes to.
    pub receivers: Vec<String>,
}

/// An interface, by the label of its series.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct InterfaceInfo {
    pub node: String,
    pub label: String,
}

/// The table that version 3 of the schema adds.
pub(super) const SCHEMA_3: &str = "
CREATE TABLE sharings (
    run_id INTEGER PRIMARY KEY REFERENCES runs (id) ON DELETE CASCADE,
    info TEXT NOT NULL
) STRICT;
";

impl Db {
    /// Says that flows share a link in a run, in place of what was said of it before.
    pub fn set_sharing(&mut self, run: RunId, sharing: &SharingInfo) -> Result<()> {
        self.set_info_of_run("INSERT OR REPLACE INTO sharings (run_id, info) VALUES (?1, ?2)", run, sharing)
    }

    /// How flows share a link in a run; `None` for other runs.
    pub fn sharing(&self, run: RunId) -> Result<Option<SharingInfo>> {
        self.info_of_run("SELECT info FROM sharings WHERE run_id = ?1", run, "a run with a shared link")
    }

    /// Has a table keep this of a run, as JSON.
    pub(super) fn set_info_of_run(
        &mut self,
        sql: &str,
        run: RunId,
        info: &impl serde::Serialize,
    ) -> Result<()> {
        let info = serde_json::to_string(info).map_err(|error| self.damaged(error.to_string()))?;
        self.connection.execute(sql, (run.0, info)).map(drop).map_err(|e| self.failed(e))
    }

    /// The JSON that a table has of a run, parsed; `what` is what a person calls it.
    pub(super) fn info_of_run<T: serde::de::DeserializeOwned>(
        &self,
        sql: &str,
        run: RunId,
        what: &str,
    ) -> Result<Option<T>> {
        let info: Option<String> = self
            .connection
            .query_row(sql, [run.0], |row| row.get(0))
            .optional()
            .map_err(|e| self.failed(e))?;
        let parse = |info: String| {
            serde_json::from_str(&info).map_err(|error| self.damaged(format!("{what}: {error}")))
        };
        info.map(parse).transpose()
    }
}
