//! The tables of the database, and the check whether the process of a run still exists.

use std::fs;

use super::{Db, DbError, Result, Status};

/// The version of [`SCHEMA`], kept in SQLite's `user_version`.
const VERSION: u32 = 6;

/// The tables. A run of any kind consists of its parameters, rows and series, so a new kind of experiment needs
/// no new table. Samples are clustered by series, so a series is one read. A sample may be an integer, such as
/// a counter, or a fraction.
const SCHEMA: &str = "
CREATE TABLE runs (
    id INTEGER PRIMARY KEY,
    experiment TEXT NOT NULL,
    repeat INTEGER NOT NULL,
    seed INTEGER NOT NULL,
    command TEXT NOT NULL,
    hostname TEXT NOT NULL,
    kernel TEXT NOT NULL,
    cpu_model TEXT NOT NULL,
    cpus INTEGER NOT NULL,
    memory_bytes INTEGER NOT NULL,
    treecast_version TEXT NOT NULL,
    started_unix_ns INTEGER NOT NULL,
    status TEXT NOT NULL,
    duration_ns INTEGER NOT NULL DEFAULT 0,
    saturated TEXT,
    owner TEXT NOT NULL
) STRICT;
CREATE TABLE parameters (
    run_id INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (run_id, name)
) STRICT, WITHOUT ROWID;
CREATE TABLE nodes (
    id INTEGER PRIMARY KEY,
    run_id INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    role TEXT NOT NULL,
    UNIQUE (run_id, name)
) STRICT;
CREATE TABLE rows (
    id INTEGER PRIMARY KEY,
    run_id INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    node_id INTEGER REFERENCES nodes (id) ON DELETE CASCADE,
    measure TEXT NOT NULL,
    value REAL,
    unit TEXT NOT NULL,
    note TEXT NOT NULL
) STRICT;
CREATE INDEX rows_of_run ON rows (run_id, measure);
CREATE TABLE series (
    id INTEGER PRIMARY KEY,
    node_id INTEGER NOT NULL REFERENCES nodes (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    unit TEXT NOT NULL DEFAULT '',
    UNIQUE (node_id, name)
) STRICT;
CREATE TABLE samples (
    series_id INTEGER NOT NULL REFERENCES series (id) ON DELETE CASCADE,
    at_ns INTEGER NOT NULL,
    value ANY NOT NULL,
    PRIMARY KEY (series_id, at_ns)
) STRICT, WITHOUT ROWID;
CREATE TABLE events (
    id INTEGER PRIMARY KEY,
    run_id INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    node_id INTEGER REFERENCES nodes (id) ON DELETE CASCADE,
    at_ns INTEGER NOT NULL,
    kind TEXT NOT NULL,
    detail TEXT NOT NULL
) STRICT;
CREATE INDEX events_of_run ON events (run_id, at_ns);
";

impl Db {
    /// Creates the tables in an empty file. Refuses a file of a newer or an older version of treecast.
    pub(super) fn prepare_schema(&mut self) -> Result<()> {
        let failed = |source| DbError::Sqlite { path: self.path.clone(), source };
        self.connection
            .execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA foreign_keys = ON")
            .map_err(failed)?;
        // The transaction is immediate, so that only one of two processes that open a new file at once creates
        // the tables.
        let transaction = self
            .connection
            .transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)
            .map_err(failed)?;
        let found: u32 =
            transaction.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(failed)?;
        if found > VERSION {
            return Err(DbError::Newer { path: self.path.clone(), found, known: VERSION });
        }
        if found == 0 {
            transaction.execute_batch(SCHEMA).map_err(failed)?;
            transaction.pragma_update(None, "user_version", VERSION).map_err(failed)?;
        } else if found < VERSION {
            return Err(DbError::Older { path: self.path.clone(), found, known: VERSION });
        }
        transaction.commit().map_err(failed)
    }

    /// Marks runs as cut short whose status is `running` and whose process is gone. Their duration ends with
    /// the last thing known of them.
    pub(super) fn mark_runs_cut_short(&mut self) -> Result<()> {
        for (run, owner) in self.runs_said_to_be_running()? {
            if is_alive(&owner) {
                continue;
            }
            self.connection
                .execute(
                    "UPDATE runs SET status = ?1, duration_ns = max(
                        coalesce((SELECT max(at_ns) FROM samples
                            JOIN series ON series.id = series_id
                            JOIN nodes ON nodes.id = node_id WHERE run_id = runs.id), 0),
                        coalesce((SELECT max(at_ns) FROM events WHERE run_id = runs.id), 0))
                    WHERE id = ?2",
                    (Status::CutShort.as_str(), run),
                )
                .map_err(|e| self.failed(e))?;
        }
        Ok(())
    }

    fn runs_said_to_be_running(&self) -> Result<Vec<(i64, String)>> {
        let query = || -> rusqlite::Result<Vec<(i64, String)>> {
            self.connection
                .prepare("SELECT id, owner FROM runs WHERE status = ?1")?
                .query_map([Status::Running.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))?
                .collect()
        };
        query().map_err(|e| self.failed(e))
    }
}

/// A text that identifies this process among all past and future ones of this machine. It contains the boot,
/// the process id, and the start of the process, because ids are reused.
pub(super) fn this_process() -> String {
    owner(std::process::id()).unwrap_or_default()
}

fn is_alive(owner_then: &str) -> bool {
    let pid = owner_then.split(' ').nth(1).and_then(|pid| pid.parse().ok());
    pid.and_then(owner).is_some_and(|owner_now| owner_now == owner_then)
}

fn owner(pid: u32) -> Option<String> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The command's name, in parentheses, may contain anything. The start time is field 22.
    let start = stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.to_owned();
    Some(format!("{} {pid} {start}", boot.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_alive_and_an_ended_or_other_one_is_not() {
        let me = this_process();
        assert!(is_alive(&me));
        let mut words: Vec<&str> = me.split(' ').collect();
        words[2] = "1";
        assert!(!is_alive(&words.join(" ")), "same id, started at another time");

        let mut child = std::process::Command::new("true").spawn().unwrap();
        let owner = owner(child.id()).unwrap();
        child.wait().unwrap();
        assert!(!is_alive(&owner));
        assert!(!is_alive("nonsense"));
    }
}
