//! Additions to the database.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rusqlite::named_params;

use super::{
    Db, Event, NewRun, NodeId, NodeInfo, Result, RunEnd, RunId, Sample, SeriesId, Status,
    schema::this_process,
};
use crate::series::Name;

impl Db {
    /// Starts a run of this process with its parameters. The run's clock starts here.
    pub fn begin(&mut self, run: &NewRun) -> Result<RunId> {
        let machine = &run.machine;
        self.connection
            .execute(
                "INSERT INTO runs (experiment, repeat, seed, command, hostname, kernel, cpu_model, cpus, memory_bytes,
                    treecast_version, started_unix_ns, status, owner)
                VALUES (:experiment, :repeat, :seed, :command, :hostname, :kernel, :cpu_model, :cpus, :memory_bytes,
                    :treecast_version, :started_unix_ns, :status, :owner)",
                named_params! {
                    ":experiment": run.experiment,
                    ":repeat": run.repeat,
                    // SQLite's integers are signed. The bits stay the same.
                    ":seed": run.seed as i64,
                    ":command": run.command,
                    ":hostname": machine.hostname,
                    ":kernel": machine.kernel,
                    ":cpu_model": machine.cpu_model,
                    ":cpus": machine.cpus,
                    ":memory_bytes": machine.memory_bytes as i64,
                    ":treecast_version": machine.treecast_version,
                    ":started_unix_ns": ns(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()),
                    ":status": Status::Running.as_str(),
                    ":owner": this_process(),
                },
            )
            .map_err(|e| self.failed(e))?;
        let id = RunId(self.connection.last_insert_rowid());
        self.add_parameters(id, &run.parameters)?;
        Ok(id)
    }

    /// Adds a node to a run. Names are unique within a run.
    pub fn add_node(&mut self, run: RunId, node: &NodeInfo) -> Result<NodeId> {
        self.connection
            .execute(
                "INSERT INTO nodes (run_id, name, role) VALUES (?1, ?2, ?3)",
                (run.0, &node.name, node.role.as_str()),
            )
            .map_err(|e| self.failed(e))?;
        Ok(NodeId(self.connection.last_insert_rowid()))
    }

    /// Adds all samples or none. If two samples of a series have the same time, the later one stays.
    pub fn add_samples(&mut self, samples: &[Sample]) -> Result<()> {
        for sample in samples {
            self.series_of(sample.node, &sample.series)?;
        }
        self.insert_samples(samples).map_err(|e| self.failed(e))
    }

    /// Adds an event.
    pub fn add_event(&mut self, run: RunId, event: &Event) -> Result<()> {
        self.connection
            .execute(
                "INSERT INTO events (run_id, node_id, at_ns, kind, detail) VALUES (?1, ?2, ?3, ?4, ?5)",
                (run.0, event.node.map(|node| node.0), ns(event.at), &event.kind, &event.detail),
            )
            .map(drop)
            .map_err(|e| self.failed(e))
    }

    /// Ends a run.
    pub fn finish_run(&mut self, run: RunId, end: &RunEnd) -> Result<()> {
        self.connection
            .execute(
                "UPDATE runs SET status = ?1, duration_ns = ?2, saturated = ?3 WHERE id = ?4",
                (end.status.as_str(), ns(end.duration), &end.saturated, run.0),
            )
            .map(drop)
            .map_err(|e| self.failed(e))
    }

    pub(super) fn series_of(&mut self, node: NodeId, name: &Name) -> Result<SeriesId> {
        let key = (node, name.clone());
        if let Some(&id) = self.series.get(&key) {
            return Ok(id);
        }
        let id = self
            .connection
            .query_row(
                "INSERT INTO series (node_id, name) VALUES (?1, ?2)
                ON CONFLICT (node_id, name) DO UPDATE SET name = name RETURNING id",
                (node.0, &**name),
                |row| row.get(0).map(SeriesId),
            )
            .map_err(|e| self.failed(e))?;
        self.series.insert(key, id);
        Ok(id)
    }

    fn insert_samples(&mut self, samples: &[Sample]) -> rusqlite::Result<()> {
        let transaction = self.connection.transaction()?;
        {
            let mut insert = transaction.prepare_cached(
                "INSERT OR REPLACE INTO samples (series_id, at_ns, value) VALUES (?1, ?2, ?3)",
            )?;
            for sample in samples {
                let Some(series) = self.series.get(&(sample.node, sample.series.clone())) else { continue };
                insert.execute((series.0, ns(sample.at), sample.value))?;
            }
        }
        transaction.commit()
    }
}

/// Converts a duration to SQLite's nanoseconds, which are enough for 292 years.
fn ns(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}
