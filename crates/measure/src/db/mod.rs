//! The results database: one SQLite file for all runs of all experiments.
//!
//! A run of any kind of experiment is its parameters, rows and series. Order of calls: [`Db::open`], then for each run
//! [`Db::begin`], [`Db::add_node`] for every node, [`Db::add_samples`], [`Db::add_series`], [`Db::add_event`] and
//! [`Db::add_rows`] while it goes on, and [`Db::finish_run`]. What was added survives when the process is killed: the next [`Db::open`] marks
//! its run as cut short and keeps its samples. Several processes may have the file open at once, and
//! a thread that samples has its own `Db` on the same file.
//!
//! All times of a run are since its start, which is the moment of `begin`.

mod machine;
mod query;
mod rows;
mod schema;
mod types;
mod write;

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    time::Duration,
};

use rusqlite::Connection;

pub use rows::{NewRun, Row};
pub use types::{
    Event, Machine, NodeId, NodeInfo, Parameters, Role, Run, RunEnd, RunId, Sample, SeriesId, Status,
};

/// An open results database.
pub struct Db {
    connection: Connection,
    path: PathBuf,
    /// The series of each node and name, so that adding a sample needs only one insertion.
    series: HashMap<(NodeId, crate::series::Name), SeriesId>,
}

/// The errors of a results database. Each names the file.
#[derive(Debug, thiserror::Error)]
pub enum DbError {
    #[error("results database {}: {source}; {}", path.display(), advice(source))]
    Sqlite { path: PathBuf, source: rusqlite::Error },
    #[error(
        "results database {}: written by a newer treecast (schema {found}, this one knows {known}); update treecast or choose another file",
        path.display()
    )]
    Newer { path: PathBuf, found: u32, known: u32 },
    #[error(
        "results database {}: written by an older treecast (schema {found}, this one knows {known}); choose another folder, or read it with that treecast",
        path.display()
    )]
    Older { path: PathBuf, found: u32, known: u32 },
    #[error("results database {}: {what}; it is damaged, or no results database", path.display())]
    Damaged { path: PathBuf, what: String },
}

/// Advice for an error of SQLite.
fn advice(error: &rusqlite::Error) -> &'static str {
    use rusqlite::ErrorCode::{CannotOpen, DatabaseBusy, DiskFull, NotADatabase, PermissionDenied, ReadOnly};
    match error.sqlite_error_code() {
        Some(NotADatabase) => "name a folder that `treecast lab run` wrote to",
        Some(CannotOpen | PermissionDenied | ReadOnly) => "name a folder that you may write to",
        Some(DiskFull) => "make room on the disk",
        Some(DatabaseBusy) => "another program holds it: wait for that to end",
        _ => "remove the file, or choose another folder",
    }
}

pub type Result<T> = std::result::Result<T, DbError>;

impl Db {
    /// Opens the database at `path`, and creates it if it does not exist. Runs whose process is gone are marked
    /// as cut short.
    pub fn open(path: &Path) -> Result<Self> {
        let failed = |source| DbError::Sqlite { path: path.to_owned(), source };
        let connection = Connection::open(path).map_err(failed)?;
        connection.busy_timeout(Duration::from_secs(30)).map_err(failed)?;
        let mut db = Self { connection, path: path.to_owned(), series: HashMap::new() };
        db.prepare_schema()?;
        db.mark_runs_cut_short()?;
        Ok(db)
    }

    /// The path of the database.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn failed(&self, source: rusqlite::Error) -> DbError {
        DbError::Sqlite { path: self.path.clone(), source }
    }

    fn damaged(&self, what: impl Into<String>) -> DbError {
        DbError::Damaged { path: self.path.clone(), what: what.into() }
    }
}
