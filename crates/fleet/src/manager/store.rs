//! The database of a manager. One thread writes it; what comes while it writes is written together next time, so that 2,000 agents
//! that report at once cost a few writes to the disk, and not 2,000.

use std::{
    io,
    path::{Path, PathBuf},
    sync::mpsc::{self, Receiver, Sender},
    thread,
    time::Duration,
};

use rusqlite::{Connection, Transaction, TransactionBehavior};
use thiserror::Error;
use tokio::sync::oneshot;

/// The version of the tables.
const VERSION: i64 = 1;
/// The most pieces of work that are written together.
const TOGETHER: usize = 500;

/// The error of a manager's database.
#[derive(Debug, Error)]
pub enum StoreError {
    #[error("{}: {source}; see that the disk has room and the folder may be written to", path.display())]
    Database { path: PathBuf, source: rusqlite::Error },
    #[error(
        "{} is of a newer treecast (its tables have version {found}, this program knows {VERSION}): install that, or name \
         another folder with --state",
        path.display()
    )]
    Newer { path: PathBuf, found: i64 },
    #[error("the manager's database cannot be written: {0}")]
    Failed(String),
    #[error("the thread of the database cannot be started: {0}")]
    Thread(io::Error),
}

type Work = Box<dyn FnOnce(&Transaction) -> Box<dyn FnOnce(Result<(), StoreError>) + Send> + Send>;

/// A manager's database.
#[derive(Clone)]
pub struct Store {
    works: Sender<Work>,
}

impl Store {
    /// Opens the database, or makes it.
    ///
    /// # Errors
    /// If the file cannot be used.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let failed = |source| StoreError::Database { path: path.to_owned(), source };
        let connection = Connection::open(path).map_err(failed)?;
        // A copy of the database may be under way, or an earlier start may not have ended yet.
        connection.busy_timeout(Duration::from_secs(30)).map_err(failed)?;
        connection.pragma_update(None, "journal_mode", "WAL").map_err(failed)?;
        connection.pragma_update(None, "synchronous", "FULL").map_err(failed)?;
        connection.pragma_update(None, "foreign_keys", true).map_err(failed)?;
        let found: i64 =
            connection.pragma_query_value(None, "user_version", |row| row.get(0)).map_err(failed)?;
        if found > VERSION {
            return Err(StoreError::Newer { path: path.to_owned(), found });
        }
        connection.execute_batch(SCHEMA).map_err(failed)?;
        connection.pragma_update(None, "user_version", VERSION).map_err(failed)?;
        let (works, inbox) = mpsc::channel();
        let writer = thread::Builder::new().name("database".into());
        writer.spawn(move || write(connection, &inbox)).map_err(StoreError::Thread)?;
        Ok(Self { works })
    }

    /// Does something with the database. What was written is on the disk when this returns. What fails is undone, and what others do at
    /// the same time is not.
    ///
    /// # Errors
    /// If it cannot be done.
    pub async fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Transaction) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (say, said) = oneshot::channel();
        let work = move |transaction: &Transaction| -> Box<dyn FnOnce(Result<(), StoreError>) + Send> {
            let value = alone(transaction, work);
            Box::new(move |committed| {
                let value = value.map_err(|error| StoreError::Failed(error.to_string()));
                // Whoever asked may have gone.
                _ = say.send(committed.and(value));
            })
        };
        let gone = || StoreError::Failed("its thread has ended".into());
        self.works.send(Box::new(work)).map_err(|_| gone())?;
        said.await.unwrap_or_else(|_| Err(gone()))
    }
}

/// Does a piece of work, and undoes it alone if it fails.
fn alone<T>(
    transaction: &Transaction,
    work: impl FnOnce(&Transaction) -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    transaction.execute_batch("SAVEPOINT work")?;
    let value = work(transaction);
    let end = if value.is_ok() { "RELEASE work" } else { "ROLLBACK TO work; RELEASE work" };
    transaction.execute_batch(end)?;
    value
}

/// Writes what comes until nobody is left to ask for it.
fn write(mut connection: Connection, inbox: &Receiver<Work>) {
    while let Ok(first) = inbox.recv() {
        let works = std::iter::once(first).chain(inbox.try_iter().take(TOGETHER - 1));
        let mut waiting = Vec::new();
        let begun = connection.transaction_with_behavior(TransactionBehavior::Immediate);
        let committed = begun.and_then(|transaction| {
            works.for_each(|work| waiting.push(work(&transaction)));
            transaction.commit()
        });
        let failure = committed.err().map(|error| error.to_string());
        for tell in waiting {
            tell(failure.clone().map_or(Ok(()), |error| Err(StoreError::Failed(error))));
        }
    }
}

/// Times are in milliseconds since 1970.
const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
    CREATE TABLE IF NOT EXISTS hosts (
        id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, key TEXT NOT NULL UNIQUE, joined INTEGER NOT NULL,
        seen INTEGER NOT NULL, facts TEXT NOT NULL, permits TEXT NOT NULL, own_tags TEXT NOT NULL,
        tags TEXT NOT NULL DEFAULT '{}', orders INTEGER NOT NULL DEFAULT 0, committed INTEGER NOT NULL DEFAULT 0);
    CREATE TABLE IF NOT EXISTS groups (name TEXT PRIMARY KEY, selection TEXT NOT NULL);
    CREATE TABLE IF NOT EXISTS codes (
        fingerprint TEXT PRIMARY KEY, uses INTEGER NOT NULL, ends INTEGER NOT NULL, made INTEGER NOT NULL);
    CREATE TABLE IF NOT EXISTS orders (
        host INTEGER NOT NULL REFERENCES hosts (id) ON DELETE CASCADE, number INTEGER NOT NULL,
        given INTEGER NOT NULL, work TEXT NOT NULL, ended INTEGER, PRIMARY KEY (host, number));
    CREATE INDEX IF NOT EXISTS open_orders ON orders (host, number) WHERE ended IS NULL;
    CREATE TABLE IF NOT EXISTS reports (
        host INTEGER NOT NULL REFERENCES hosts (id) ON DELETE CASCADE, number INTEGER NOT NULL,
        order_number INTEGER NOT NULL, came INTEGER NOT NULL, at_ns INTEGER NOT NULL, what TEXT NOT NULL,
        PRIMARY KEY (host, number));
    CREATE INDEX IF NOT EXISTS reports_of_order ON reports (host, order_number, number);
    CREATE INDEX IF NOT EXISTS reports_by_time ON reports (came);
    CREATE INDEX IF NOT EXISTS orders_by_time ON orders (ended) WHERE ended IS NOT NULL;
    CREATE TABLE IF NOT EXISTS asks (
        id INTEGER PRIMARY KEY, asked INTEGER NOT NULL, who TEXT NOT NULL, selection TEXT NOT NULL, work TEXT NOT NULL);
    CREATE TABLE IF NOT EXISTS asked (
        ask INTEGER NOT NULL REFERENCES asks (id) ON DELETE CASCADE,
        host INTEGER NOT NULL REFERENCES hosts (id) ON DELETE CASCADE, order_number INTEGER, PRIMARY KEY (ask, host));
    CREATE TABLE IF NOT EXISTS checks (
        ask INTEGER PRIMARY KEY REFERENCES asks (id) ON DELETE CASCADE, about TEXT NOT NULL);
    CREATE TABLE IF NOT EXISTS runs (
        id INTEGER PRIMARY KEY, name TEXT NOT NULL, who TEXT NOT NULL, selection TEXT NOT NULL, file TEXT NOT NULL,
        settings TEXT NOT NULL, base TEXT NOT NULL, ordered INTEGER NOT NULL, due INTEGER NOT NULL,
        every_ms INTEGER NOT NULL, times INTEGER NOT NULL, begun INTEGER, ended INTEGER, state TEXT NOT NULL, reason TEXT);
    CREATE TABLE IF NOT EXISTS releases (
        id INTEGER PRIMARY KEY, name TEXT NOT NULL, version TEXT NOT NULL, signed TEXT NOT NULL, who TEXT NOT NULL,
        added INTEGER NOT NULL, withdrawn INTEGER NOT NULL DEFAULT 0, UNIQUE (name, version));
    CREATE TABLE IF NOT EXISTS rollouts (
        id INTEGER PRIMARY KEY, release INTEGER NOT NULL REFERENCES releases (id), rings TEXT NOT NULL,
        errors INTEGER NOT NULL, who TEXT NOT NULL, state TEXT NOT NULL, reason TEXT, ordered INTEGER NOT NULL);
    CREATE TABLE IF NOT EXISTS rollout_hosts (
        rollout INTEGER NOT NULL REFERENCES rollouts (id), host INTEGER NOT NULL REFERENCES hosts (id) ON DELETE CASCADE,
        ring INTEGER NOT NULL, state TEXT NOT NULL, reason TEXT, until INTEGER, PRIMARY KEY (rollout, host));
    CREATE TABLE IF NOT EXISTS rollout_sent (
        id INTEGER PRIMARY KEY, rollout INTEGER NOT NULL REFERENCES rollouts (id), ring INTEGER NOT NULL,
        hosts INTEGER NOT NULL, sent_bytes INTEGER NOT NULL, unicast_bytes INTEGER NOT NULL,
        way TEXT NOT NULL, whole_bytes INTEGER NOT NULL, delta_bytes INTEGER);
    CREATE TABLE IF NOT EXISTS deliveries (
        id INTEGER PRIMARY KEY, selection TEXT NOT NULL, who TEXT NOT NULL, into_folder TEXT NOT NULL, files TEXT NOT NULL,
        ordered INTEGER NOT NULL, ended INTEGER, state TEXT NOT NULL, reason TEXT, sent_bytes INTEGER NOT NULL,
        unicast_bytes INTEGER NOT NULL);
    CREATE TABLE IF NOT EXISTS delivery_hosts (
        delivery INTEGER NOT NULL REFERENCES deliveries (id) ON DELETE CASCADE,
        host INTEGER NOT NULL REFERENCES hosts (id) ON DELETE CASCADE, state TEXT NOT NULL, reason TEXT,
        PRIMARY KEY (delivery, host));
    CREATE TABLE IF NOT EXISTS tokens (
        fingerprint TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE, role TEXT NOT NULL, made INTEGER NOT NULL);
    CREATE TABLE IF NOT EXISTS logins (
        fingerprint TEXT PRIMARY KEY, name TEXT NOT NULL, role TEXT NOT NULL, ends INTEGER NOT NULL);
    CREATE TABLE IF NOT EXISTS audit (
        id INTEGER PRIMARY KEY AUTOINCREMENT, at INTEGER NOT NULL, who TEXT NOT NULL, what TEXT NOT NULL,
        about TEXT NOT NULL, is_refused INTEGER NOT NULL);
    CREATE TABLE IF NOT EXISTS notices (
        id INTEGER PRIMARY KEY AUTOINCREMENT, at INTEGER NOT NULL, kind TEXT NOT NULL, about TEXT NOT NULL, says TEXT NOT NULL);
    CREATE TABLE IF NOT EXISTS notices_due (
        id INTEGER PRIMARY KEY, notice INTEGER NOT NULL REFERENCES notices (id) ON DELETE CASCADE, way TEXT NOT NULL,
        attempts INTEGER NOT NULL, due INTEGER NOT NULL);
    CREATE TRIGGER IF NOT EXISTS audit_stays BEFORE DELETE ON audit
        BEGIN SELECT RAISE(ABORT, 'the audit log only grows'); END;
    CREATE TRIGGER IF NOT EXISTS audit_stands BEFORE UPDATE ON audit
        BEGIN SELECT RAISE(ABORT, 'the audit log only grows'); END;
";

#[cfg(test)]
mod tests {
    use super::*;

    fn path(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("treecast-store-{name}-{}.sqlite", std::process::id()))
    }

    #[tokio::test]
    async fn what_fails_is_undone_and_what_others_do_is_not() {
        let path = path("alone");
        let store = Store::open(&path).unwrap();
        let insert = |key: &'static str, then: &'static str| {
            store.with(move |of| {
                of.execute("INSERT INTO meta (key, value) VALUES (?1, 'x')", [key])?;
                of.execute_batch(then)
            })
        };
        let (one, bad, two) = tokio::join!(insert("a", ""), insert("b", "nonsense"), insert("c", ""));
        assert!(one.is_ok() && bad.is_err() && two.is_ok());
        let keys: Vec<String> = store
            .with(|of| {
                of.prepare("SELECT key FROM meta ORDER BY key")?.query_map([], |row| row.get(0))?.collect()
            })
            .await
            .unwrap();
        assert_eq!(keys, ["a", "c"]);
        drop(store);
        std::fs::remove_file(&path).unwrap();
    }

    #[tokio::test]
    async fn the_audit_log_only_grows() {
        let path = path("audit");
        let store = Store::open(&path).unwrap();
        let run = |sql: &'static str| store.with(move |of| of.execute_batch(sql));
        run("INSERT INTO audit (at, who, what, about, is_refused) VALUES (1, 'a', 'b', 'c', 0)")
            .await
            .unwrap();
        assert!(run("DELETE FROM audit").await.is_err());
        assert!(run("UPDATE audit SET who = 'x'").await.is_err());
        drop(store);
        std::fs::remove_file(&path).unwrap();
    }

    #[tokio::test]
    async fn a_newer_database_is_left_alone() {
        let path = path("newer");
        Connection::open(&path).unwrap().pragma_update(None, "user_version", VERSION + 1).unwrap();
        let refused = Store::open(&path).err().unwrap().to_string();
        assert!(refused.contains("of a newer treecast"), "{refused}");
        std::fs::remove_file(&path).unwrap();
    }
}
