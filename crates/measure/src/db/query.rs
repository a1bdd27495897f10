//! Queries of the database.

use std::time::{Duration, UNIX_EPOCH};

use rusqlite::{OptionalExtension, Params, Row};

use crate::rates::Counted;

use super::{Db, Event, Machine, NodeId, NodeInfo, Parameters, Result, Role, Run, RunId, SeriesId, Status};

impl Db {
    /// All runs, in the order in which they began.
    pub fn runs(&self) -> Result<Vec<Run>> {
        let mut runs = Vec::new();
        for run in self.collect("SELECT * FROM runs ORDER BY id", [], run_of)? {
            let run = run.ok_or_else(|| self.damaged("a run has an unknown status"))?;
            runs.push(Run { parameters: self.parameters(run.id)?, ..run });
        }
        Ok(runs)
    }

    /// One run. `None` if no run has this id.
    pub fn run(&self, run: RunId) -> Result<Option<Run>> {
        Ok(self.runs()?.into_iter().find(|r| r.id == run))
    }

    /// The nodes of a run, in the order in which they were added.
    pub fn nodes(&self, run: RunId) -> Result<Vec<(NodeId, NodeInfo)>> {
        let sql = "SELECT id, name, role FROM nodes WHERE run_id = ?1 ORDER BY id";
        let rows = self.collect(sql, [run.0], |row| {
            Ok((NodeId(row.get("id")?), row.get::<_, String>("name")?, row.get::<_, String>("role")?))
        })?;
        let mut nodes = Vec::with_capacity(rows.len());
        for (id, name, role) in rows {
            let role =
                Role::parse(&role).ok_or_else(|| self.damaged(format!("{name} has the role {role:?}")))?;
            nodes.push((id, NodeInfo { name, role }));
        }
        Ok(nodes)
    }

    /// The samples of one series of a node, in order of time. Empty if the series was not sampled.
    pub fn samples(&self, node: NodeId, name: &str) -> Result<Vec<(Duration, i64)>> {
        let id: Option<SeriesId> = self
            .connection
            .query_row("SELECT id FROM series WHERE node_id = ?1 AND name = ?2", (node.0, name), |row| {
                row.get(0).map(SeriesId)
            })
            .optional()
            .map_err(|e| self.failed(e))?;
        let Some(id) = id else { return Ok(Vec::new()) };
        self.collect("SELECT at_ns, value FROM samples WHERE series_id = ?1 ORDER BY at_ns", [id.0], |row| {
            Ok((duration(row, "at_ns")?, row.get("value")?))
        })
    }

    /// A series of a node as a counter; empty when it was not sampled.
    pub fn counted(&self, node: NodeId, name: &str) -> Result<Counted> {
        let mut counted = Counted::default();
        counted.add(&self.samples(node, name)?);
        Ok(counted)
    }

    /// The events of a run, in order of time.
    pub fn events(&self, run: RunId) -> Result<Vec<Event>> {
        self.collect("SELECT * FROM events WHERE run_id = ?1 ORDER BY at_ns, id", [run.0], |row| {
            Ok(Event {
                at: duration(row, "at_ns")?,
                node: row.get::<_, Option<i64>>("node_id")?.map(NodeId),
                kind: row.get("kind")?,
                detail: row.get("detail")?,
            })
        })
    }

    pub(super) fn collect<T, P: Params>(
        &self,
        sql: &str,
        params: P,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>> {
        let query = || -> rusqlite::Result<Vec<T>> {
            self.connection.prepare_cached(sql)?.query_map(params, read)?.collect()
        };
        query().map_err(|e| self.failed(e))
    }
}

/// Reads a run from a row. `None` if this version does not know its status.
fn run_of(row: &Row<'_>) -> rusqlite::Result<Option<Run>> {
    let Some(status) = Status::parse(&row.get::<_, String>("status")?) else { return Ok(None) };
    Ok(Some(Run {
        id: RunId(row.get("id")?),
        experiment: row.get("experiment")?,
        parameters: Parameters::new(),
        repeat: row.get("repeat")?,
        seed: unsigned(row, "seed")?,
        command: row.get("command")?,
        machine: Machine {
            hostname: row.get("hostname")?,
            kernel: row.get("kernel")?,
            cpu_model: row.get("cpu_model")?,
            cpus: row.get("cpus")?,
            memory_bytes: unsigned(row, "memory_bytes")?,
            treecast_version: row.get("treecast_version")?,
        },
        started: UNIX_EPOCH + duration(row, "started_unix_ns")?,
        status,
        duration: duration(row, "duration_ns")?,
        saturated: row.get("saturated")?,
    }))
}

fn unsigned(row: &Row<'_>, column: &str) -> rusqlite::Result<u64> {
    row.get::<_, i64>(column).map(|bits| bits as u64)
}

fn duration(row: &Row<'_>, column: &str) -> rusqlite::Result<Duration> {
    row.get::<_, i64>(column).map(|ns| Duration::from_nanos(ns.max(0) as u64))
}
