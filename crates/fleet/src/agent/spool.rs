//! What an agent must not forget: which orders it has taken, and what it has to report.
//!
//! A database on the agent's disk. An order is noted before it is carried out, so that it is never carried out twice. A report stays
//! until the manager has said that it keeps it. When reports take more room than they may, lines that programs print are dropped and
//! counted; ends and results never are.

use std::{
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};
use thiserror::Error;

use crate::message::{Order, Report, Welcome, What, Work, read, text_of};

/// The version of the tables.
const VERSION: i64 = 1;

/// The memory of an agent.
#[derive(Debug)]
pub struct Spool {
    path: PathBuf,
    /// The most bytes of reports that wait.
    limit_bytes: u64,
    state: Mutex<Connection>,
}

/// The error of an agent's memory.
#[derive(Debug, Error)]
pub enum SpoolError {
    #[error("{}: {source}; see that the disk has room and the folder may be written to", path.display())]
    Database { path: PathBuf, source: rusqlite::Error },
    #[error("{} is of a newer treecast: install that, or name another folder with --state", path.display())]
    Newer { path: PathBuf },
    #[error("{} is damaged: {what}; move it away, and the agent begins anew", path.display())]
    Damaged { path: PathBuf, what: String },
}

/// An order that was taken and has not ended.
#[derive(Debug)]
pub struct Unfinished {
    pub order: Order,
    /// How many bytes of what its keeper wrote have been reported. `None`: it was not begun.
    pub read_bytes: Option<u64>,
}

type Result<T> = std::result::Result<T, SpoolError>;

impl Spool {
    /// Opens the memory, or makes it.
    ///
    /// # Errors
    /// If the file cannot be used.
    pub fn open(path: &Path, limit_bytes: u64) -> Result<Self> {
        let failed = |source| SpoolError::Database { path: path.to_owned(), source };
        let connection = Connection::open(path).map_err(failed)?;
        // A copy of the database may be under way, or an earlier start may not have ended yet.
        connection.busy_timeout(Duration::from_secs(30)).map_err(failed)?;
        connection.pragma_update(None, "journal_mode", "WAL").map_err(failed)?;
        connection.pragma_update(None, "synchronous", "FULL").map_err(failed)?;
        let version: i64 =
            connection.pragma_query_value(None, "user_version", |row| row.get(0)).map_err(failed)?;
        if version > VERSION {
            return Err(SpoolError::Newer { path: path.to_owned() });
        }
        connection.execute_batch(SCHEMA).map_err(failed)?;
        connection.pragma_update(None, "user_version", VERSION).map_err(failed)?;
        Ok(Self { path: path.to_owned(), limit_bytes, state: Mutex::new(connection) })
    }

    /// Returns the highest number of an order that was taken.
    ///
    /// # Errors
    /// As for all methods: if the database fails.
    pub fn last_order(&self) -> Result<u64> {
        self.meta("last_order")
    }

    /// Returns the highest number of a report.
    ///
    /// # Errors
    /// If the database fails.
    pub fn last_report(&self) -> Result<u64> {
        self.meta("last_report")
    }

    /// Notes an order. Returns whether it is new: its number is above all that were taken.
    ///
    /// # Errors
    /// If the database fails.
    pub fn take(&self, order: &Order) -> Result<bool> {
        let mut state = self.lock();
        let mut take = || -> rusqlite::Result<bool> {
            let transaction = state.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let last = meta(&transaction, "last_order")?;
            if order.number <= last {
                return Ok(false);
            }
            set_meta(&transaction, "last_order", order.number)?;
            transaction.execute(
                "INSERT INTO orders (number, work) VALUES (?1, ?2)",
                params![order.number, text_of(&order.work)],
            )?;
            transaction.commit()?;
            Ok(true)
        };
        take().map_err(|source| self.failed(source))
    }

    /// Notes that the keeper of an order is about to start.
    ///
    /// # Errors
    /// If the database fails.
    pub fn begin(&self, order: u64) -> Result<()> {
        let set = "UPDATE orders SET read_bytes = 0 WHERE number = ?1";
        self.lock().execute(set, [order]).map_err(|source| self.failed(source)).map(drop)
    }

    /// Keeps reports about an order, and how many bytes of its keeper's file they were read from.
    ///
    /// # Errors
    /// If the database fails.
    pub fn report(&self, order: u64, reports: Vec<(u64, What)>, read_bytes: Option<u64>) -> Result<()> {
        let mut state = self.lock();
        let keep = || -> rusqlite::Result<()> {
            let transaction = state.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let waiting: i64 =
                transaction
                    .query_row("SELECT coalesce(sum(length(what)), 0) FROM reports", [], |row| row.get(0))?;
            let mut room = i64::try_from(self.limit_bytes).unwrap_or(i64::MAX) - waiting;
            let mut number = meta(&transaction, "last_report")?;
            let is_over = reports.iter().any(|(_, what)| what.is_last());
            for (at_ns, what) in within(&mut room, reports) {
                number += 1;
                transaction.execute(
                    "INSERT INTO reports (number, order_number, at_ns, what) VALUES (?1, ?2, ?3, ?4)",
                    params![number, order, at_ns as i64, text_of(&what)],
                )?;
            }
            set_meta(&transaction, "last_report", number)?;
            if let Some(read_bytes) = read_bytes {
                transaction
                    .execute("UPDATE orders SET read_bytes = ?2 WHERE number = ?1", [order, read_bytes])?;
            }
            if is_over {
                transaction.execute("DELETE FROM orders WHERE number = ?1", [order])?;
            }
            transaction.commit()
        };
        keep().map_err(|source| self.failed(source))
    }

    /// Returns up to `count` reports after a number.
    ///
    /// # Errors
    /// If the database fails.
    pub fn after(&self, number: u64, count: usize) -> Result<Vec<Report>> {
        let state = self.lock();
        let rows = || -> rusqlite::Result<Vec<(u64, u64, i64, String)>> {
            let mut query = state.prepare_cached(
                "SELECT number, order_number, at_ns, what FROM reports WHERE number > ?1 ORDER BY number LIMIT ?2",
            )?;
            let rows = query.query_map(params![number, count as i64], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
            })?;
            rows.collect()
        };
        let rows = rows().map_err(|source| self.failed(source))?;
        let report = |(number, order, at_ns, what): (u64, u64, i64, String)| {
            let what = read(&what).map_err(|what| self.damaged(what))?;
            Ok(Report { number, order, at_ns: at_ns as u64, what })
        };
        rows.into_iter().map(report).collect()
    }

    /// Forgets the reports that the manager keeps.
    ///
    /// # Errors
    /// If the database fails.
    pub fn committed(&self, through: u64) -> Result<()> {
        let delete = "DELETE FROM reports WHERE number <= ?1";
        self.lock().execute(delete, [through]).map_err(|source| self.failed(source)).map(drop)
    }

    /// Takes in what the manager knows of this agent. Where the agent's disk was lost, numbers go on from the manager's.
    ///
    /// # Errors
    /// If the database fails.
    pub fn go_on_from(&self, welcome: &Welcome) -> Result<()> {
        let mut state = self.lock();
        let mut go_on = || -> rusqlite::Result<()> {
            let transaction = state.transaction_with_behavior(TransactionBehavior::Immediate)?;
            for (key, least) in [("last_order", welcome.orders), ("last_report", welcome.committed)] {
                let last = meta(&transaction, key)?;
                set_meta(&transaction, key, last.max(least))?;
            }
            transaction.commit()
        };
        go_on().map_err(|source| self.failed(source))?;
        drop(state);
        self.committed(welcome.committed)
    }

    /// Returns the orders that were taken and have not ended.
    ///
    /// # Errors
    /// If the database fails.
    pub fn unfinished(&self) -> Result<Vec<Unfinished>> {
        let state = self.lock();
        let rows = || -> rusqlite::Result<Vec<(u64, String, Option<u64>)>> {
            let mut query = state.prepare("SELECT number, work, read_bytes FROM orders ORDER BY number")?;
            let rows = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
            rows.collect()
        };
        let rows = rows().map_err(|source| self.failed(source))?;
        let unfinished = |(number, work, read_bytes): (u64, String, Option<u64>)| {
            let work: Work = read(&work).map_err(|what| self.damaged(what))?;
            Ok(Unfinished { order: Order { number, work }, read_bytes })
        };
        rows.into_iter().map(unfinished).collect()
    }

    fn meta(&self, key: &str) -> Result<u64> {
        meta(&self.lock(), key).map_err(|source| self.failed(source))
    }

    fn lock(&self) -> MutexGuard<'_, Connection> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failed(&self, source: rusqlite::Error) -> SpoolError {
        SpoolError::Database { path: self.path.clone(), source }
    }

    fn damaged(&self, what: String) -> SpoolError {
        SpoolError::Damaged { path: self.path.clone(), what }
    }
}

const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value INTEGER NOT NULL);
    CREATE TABLE IF NOT EXISTS orders (number INTEGER PRIMARY KEY, work TEXT NOT NULL, read_bytes INTEGER);
    CREATE TABLE IF NOT EXISTS reports (
        number INTEGER PRIMARY KEY, order_number INTEGER NOT NULL, at_ns INTEGER NOT NULL, what TEXT NOT NULL);
";

fn meta(connection: &Connection, key: &str) -> rusqlite::Result<u64> {
    let value = connection.query_row("SELECT value FROM meta WHERE key = ?1", [key], |row| row.get(0));
    Ok(value.optional()?.unwrap_or(0))
}

fn set_meta(connection: &Connection, key: &str, value: u64) -> rusqlite::Result<()> {
    let set = "INSERT INTO meta (key, value) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = ?2";
    connection.execute(set, params![key, value]).map(drop)
}

/// Drops the lines for which there is no room, and counts them.
fn within(room: &mut i64, reports: Vec<(u64, What)>) -> Vec<(u64, What)> {
    let mut kept: Vec<(u64, What)> = Vec::with_capacity(reports.len());
    for (at_ns, what) in reports {
        let What::Line { text } = &what else {
            kept.push((at_ns, what));
            continue;
        };
        *room -= text.len() as i64;
        if *room >= 0 {
            kept.push((at_ns, what));
        } else if let Some((_, What::Dropped { lines })) = kept.last_mut() {
            *lines += 1;
        } else {
            kept.push((at_ns, What::Dropped { lines: 1 }));
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::End;

    struct Folder(PathBuf);

    impl Drop for Folder {
        fn drop(&mut self) {
            _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn spool(name: &str, limit_bytes: u64) -> (Folder, Spool) {
        let folder = std::env::temp_dir().join(format!("treecast-spool-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let spool = Spool::open(&folder.join("spool.sqlite"), limit_bytes).unwrap();
        (Folder(folder), spool)
    }

    fn order(number: u64) -> Order {
        Order { number, work: Work::Facts }
    }

    fn line(text: &str) -> What {
        What::Line { text: text.into() }
    }

    #[test]
    fn an_order_is_taken_once_and_in_turn_also_after_a_restart() {
        let (folder, first) = spool("orders", 1 << 20);
        assert!(first.take(&order(1)).unwrap());
        assert!(!first.take(&order(1)).unwrap(), "it was taken");
        assert!(first.take(&order(3)).unwrap());
        assert!(!first.take(&order(2)).unwrap(), "it is older than one that was taken");
        first.begin(3).unwrap();
        drop(first);
        let again = Spool::open(&folder.0.join("spool.sqlite"), 1 << 20).unwrap();
        assert_eq!(again.last_order().unwrap(), 3);
        assert!(!again.take(&order(3)).unwrap());
        let unfinished = again.unfinished().unwrap();
        let of: Vec<_> = unfinished.iter().map(|one| (one.order.number, one.read_bytes)).collect();
        assert_eq!(of, [(1, None), (3, Some(0))]);
        again.report(1, vec![(5, What::Ended(End::default()))], None).unwrap();
        assert_eq!(again.unfinished().unwrap().len(), 1);
    }

    #[test]
    fn reports_stay_until_the_manager_has_them() {
        let (_folder, spool) = spool("reports", 1 << 20);
        spool.report(7, vec![(1, line("a")), (2, line("b"))], Some(9)).unwrap();
        spool.report(8, vec![(3, line("c"))], None).unwrap();
        let numbers =
            |after| -> Vec<u64> { spool.after(after, 2).unwrap().iter().map(|one| one.number).collect() };
        assert_eq!(numbers(0), [1, 2]);
        spool.committed(2).unwrap();
        assert_eq!((numbers(0), spool.last_report().unwrap()), (vec![3], 3));
        spool.committed(3).unwrap();
        spool.report(8, vec![(4, line("d"))], None).unwrap();
        assert_eq!(numbers(0), [4], "a number is never used again");
    }

    #[test]
    fn lines_without_room_are_dropped_and_counted_and_ends_are_not() {
        let (_folder, spool) = spool("room", 100);
        let lines = (0..50).map(|number| (number, line("0123456789")));
        spool.report(1, lines.chain([(50, What::Ended(End::default()))]).collect(), None).unwrap();
        let kept: Vec<What> = spool.after(0, 1_000).unwrap().into_iter().map(|report| report.what).collect();
        assert_eq!(kept.len(), 12);
        assert_eq!(kept[10..], [What::Dropped { lines: 40 }, What::Ended(End::default())]);
    }

    #[test]
    fn a_newer_database_is_left_alone() {
        let (folder, spool) = spool("newer", 100);
        spool.lock().pragma_update(None, "user_version", VERSION + 1).unwrap();
        drop(spool);
        let refused = Spool::open(&folder.0.join("spool.sqlite"), 100).unwrap_err().to_string();
        assert!(refused.contains("of a newer treecast"), "{refused}");
    }
}
