//! The parameters and rows of runs, which are the same for every kind of experiment. Parameters are what a run
//! is, rows are its results.

use serde::{Deserialize, Serialize};

use super::{Db, Machine, NodeId, Parameters, Result, RunId};

/// A run that is about to begin.
#[derive(Debug, Clone, PartialEq)]
pub struct NewRun {
    /// The experiment that it belongs to, e.g. `demo`.
    pub experiment: String,
    pub parameters: Parameters,
    /// The seed of all random numbers of the run.
    pub seed: u64,
    /// The number of the repetition, from 0.
    pub repeat: u32,
    /// The command that repeats the run.
    pub command: String,
    pub machine: Machine,
}

/// One measured value of a run or of one of its nodes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The node that the value belongs to. `None` for a value of the whole run.
    pub node: Option<NodeId>,
    pub measure: String,
    /// The value. `None` if it should exist but could not be measured.
    pub value: Option<f64>,
    /// A base unit: `s`, `B`, `bit/s`, `packets`, or empty for a share or a count.
    pub unit: String,
    /// The reason why there is no value. Empty if there is one.
    pub note: String,
}

impl Row {
    /// Creates a row with a value of the whole run.
    pub fn of_run(measure: &str, value: f64, unit: &str) -> Self {
        let (measure, unit) = (measure.to_owned(), unit.to_owned());
        Self { node: None, measure, value: Some(value), unit, note: String::new() }
    }

    /// Creates a row with a value of a node.
    pub fn of_node(node: NodeId, measure: &str, value: f64, unit: &str) -> Self {
        Self { node: Some(node), ..Self::of_run(measure, value, unit) }
    }

    /// Removes the value, and notes why there is none.
    pub fn lacking(self, why: impl Into<String>) -> Self {
        Self { value: None, note: why.into(), ..self }
    }
}

impl Db {
    /// Adds or replaces parameters of a run.
    pub fn add_parameters(&mut self, run: RunId, parameters: &Parameters) -> Result<()> {
        let insert = || -> rusqlite::Result<()> {
            let sql = "INSERT OR REPLACE INTO parameters (run_id, name, value) VALUES (?1, ?2, ?3)";
            let mut insert = self.connection.prepare_cached(sql)?;
            parameters.iter().try_for_each(|(name, value)| insert.execute((run.0, name, value)).map(drop))
        };
        insert().map_err(|e| self.failed(e))
    }

    /// The parameters of a run.
    pub fn parameters(&self, run: RunId) -> Result<Parameters> {
        let sql = "SELECT name, value FROM parameters WHERE run_id = ?1";
        let pairs: Vec<(String, String)> =
            self.collect(sql, [run.0], |row| Ok((row.get("name")?, row.get("value")?)))?;
        Ok(pairs.into_iter().collect())
    }

    /// Adds rows to a run, all or none.
    pub fn add_rows(&mut self, run: RunId, rows: &[Row]) -> Result<()> {
        self.insert_rows(run, rows).map_err(|e| self.failed(e))
    }

    fn insert_rows(&mut self, run: RunId, rows: &[Row]) -> rusqlite::Result<()> {
        let transaction = self.connection.transaction()?;
        {
            let mut insert = transaction.prepare_cached(
                "INSERT INTO rows (run_id, node_id, measure, value, unit, note) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            )?;
            for row in rows {
                // SQLite has no NaN. It would store NULL.
                let value = row.value.filter(|value| value.is_finite());
                insert.execute((run.0, row.node.map(|n| n.0), &row.measure, value, &row.unit, &row.note))?;
            }
        }
        transaction.commit()
    }

    /// The rows of a run, in the order in which they were added.
    pub fn rows(&self, run: RunId) -> Result<Vec<Row>> {
        let sql = "SELECT node_id, measure, value, unit, note FROM rows WHERE run_id = ?1 ORDER BY id";
        self.collect(sql, [run.0], |row| {
            Ok(Row {
                node: row.get::<_, Option<i64>>(0)?.map(NodeId),
                measure: row.get(1)?,
                value: row.get(2)?,
                unit: row.get(3)?,
                note: row.get(4)?,
            })
        })
    }

    /// Adds the points of a series at a node: seconds since the run began, and the value. Adds all points or
    /// none. If two points have the same time, the later one stays.
    pub fn add_series(
        &mut self,
        node: NodeId,
        measure: &str,
        unit: &str,
        points: &[(f64, f64)],
    ) -> Result<()> {
        let series = self.series_of(node, &measure.into())?;
        let insert = || -> rusqlite::Result<()> {
            let transaction = self.connection.unchecked_transaction()?;
            transaction.execute("UPDATE series SET unit = ?1 WHERE id = ?2", (unit, series.0))?;
            let sql = "INSERT OR REPLACE INTO samples (series_id, at_ns, value) VALUES (?1, ?2, ?3)";
            let mut insert = transaction.prepare_cached(sql)?;
            for (at, value) in points.iter().filter(|(at, value)| at.is_finite() && value.is_finite()) {
                insert.execute((series.0, (at * 1e9) as i64, value))?;
            }
            drop(insert);
            transaction.commit()
        };
        insert().map_err(|e| self.failed(e))
    }

    /// The unit of a series. `None` if the series was not sampled.
    pub fn unit(&self, node: NodeId, measure: &str) -> Result<Option<String>> {
        let sql = "SELECT unit FROM series WHERE node_id = ?1 AND name = ?2";
        Ok(self.collect(sql, (node.0, measure), |row| row.get(0))?.pop())
    }

    /// The points of a series: seconds since the run began, and the value. Empty if the series was not sampled.
    pub fn points(&self, node: NodeId, measure: &str) -> Result<Vec<(f64, f64)>> {
        let sql = "SELECT at_ns, value FROM samples JOIN series ON series.id = series_id
            WHERE node_id = ?1 AND name = ?2 ORDER BY at_ns";
        self.collect(sql, (node.0, measure), |row| Ok((row.get::<_, i64>(0)? as f64 / 1e9, row.get(1)?)))
    }
}
