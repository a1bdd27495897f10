//! Runs in which many objects come one by one (interdomain-2013, 4.7.2), and how each went.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Db, NodeId, Result, RunId};

/// What a feed's run was like.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FeedInfo {
    /// How many objects came.
    pub objects: u32,
    /// The mean rate at which bytes came, as a share of the slowest link's rate.
    pub load: f64,
    /// The retransmission timeout factor.
    pub factor: f64,
    /// Who goes first at the sender: `multicast` or `fair`.
    pub priority: String,
    /// What the slow receivers lose, from 0 to 1.
    pub loss: f64,
    /// The nodes of the slow receivers.
    pub slow: Vec<String>,
}

/// An object that a client has whole and right.
#[derive(Debug, Clone, PartialEq)]
pub struct ObjectTime {
    pub name: String,
    pub size_bytes: u64,
    /// From its announcement to the checked copy.
    pub taken: Duration,
}

/// The tables that version 2 of the schema adds.
pub(super) const SCHEMA_2: &str = "
CREATE TABLE feeds (
    run_id INTEGER PRIMARY KEY REFERENCES runs (id) ON DELETE CASCADE,
    info TEXT NOT NULL
) STRICT;
CREATE TABLE objects (
    node_id INTEGER NOT NULL REFERENCES nodes (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    size_bytes INTEGER NOT NULL,
    taken_ns INTEGER NOT NULL,
    PRIMARY KEY (node_id, name)
) STRICT, WITHOUT ROWID;
ALTER TABLE runs ADD COLUMN server_bps INTEGER;
";

impl Db {
    /// Says that a run is a feed's.
    pub fn add_feed(&mut self, run: RunId, feed: &FeedInfo) -> Result<()> {
        self.set_info_of_run("INSERT OR REPLACE INTO feeds (run_id, info) VALUES (?1, ?2)", run, feed)
    }

    /// What a feed's run was like; `None` for other runs.
    pub fn feed(&self, run: RunId) -> Result<Option<FeedInfo>> {
        self.info_of_run("SELECT info FROM feeds WHERE run_id = ?1", run, "a feed's run")
    }

    /// Adds the objects that a client has, all or none.
    pub fn add_objects(&mut self, client: NodeId, objects: &[ObjectTime]) -> Result<()> {
        self.insert_objects(client, objects).map_err(|e| self.failed(e))
    }

    fn insert_objects(&mut self, client: NodeId, objects: &[ObjectTime]) -> rusqlite::Result<()> {
        let transaction = self.connection.transaction()?;
        {
            let sql = "INSERT OR REPLACE INTO objects (node_id, name, size_bytes, taken_ns) VALUES (?1, ?2, ?3, ?4)";
            let mut insert = transaction.prepare_cached(sql)?;
            for object in objects {
                let taken_ns = i64::try_from(object.taken.as_nanos()).unwrap_or(i64::MAX);
                insert.execute((client.0, &object.name, object.size_bytes as i64, taken_ns))?;
            }
        }
        transaction.commit()
    }

    /// The objects that a client has.
    pub fn objects(&self, client: NodeId) -> Result<Vec<ObjectTime>> {
        let sql = "SELECT name, size_bytes, taken_ns FROM objects WHERE node_id = ?1 ORDER BY name";
        self.collect(sql, [client.0], |row| {
            Ok(ObjectTime {
                name: row.get(0)?,
                size_bytes: row.get::<_, i64>(1)?.max(0) as u64,
                taken: Duration::from_nanos(row.get::<_, i64>(2)?.max(0) as u64),
            })
        })
    }
}
