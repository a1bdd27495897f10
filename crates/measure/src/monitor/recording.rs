//! The file of a recording: an SQLite database. It has a row for each sample, and a row for each series whose
//! value changed in it.
//!
//! Each sample is a transaction of its own, in SQLite's write-ahead log. So a monitor that is killed loses no
//! sample, and a recording can be read while it is written. After a kill, the log is a separate file beside the
//! recording (`FILE-wal`), until the next reader merges it.

use std::{
    fs::OpenOptions,
    io::{self, Read},
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use rusqlite::{Connection, OpenFlags, named_params};

use super::{
    MonitorError,
    program::{Exit, ProgramEnd},
};
use crate::{db::Machine, sample::Reading, series::Name};

/// The application id `TCMR`, which distinguishes recordings from other SQLite databases.
const APPLICATION: i32 = 0x5443_4D52;
/// The version of [`TABLES`]. Version 1 was a format of treecast's own.
const VERSION: u32 = 2;

/// The memory for SQLite's cache, in KiB. It is small, because a monitor should not use up what it measures.
const CACHE_KIB: u32 = 256;

const TABLES: &str = "
CREATE TABLE recording (
    started_unix_ns INTEGER NOT NULL, every_ns INTEGER NOT NULL, hostname TEXT NOT NULL, kernel TEXT NOT NULL,
    cpu_model TEXT NOT NULL, cpus INTEGER NOT NULL, memory_bytes INTEGER NOT NULL, treecast_version TEXT NOT NULL,
    complete INTEGER NOT NULL DEFAULT 0, pid INTEGER, arguments TEXT, elapsed_ns INTEGER, cpu_user_ns INTEGER,
    cpu_system_ns INTEGER, peak_memory_bytes INTEGER, exit_code INTEGER, exit_signal INTEGER
) STRICT;
CREATE TABLE series (number INTEGER PRIMARY KEY, name TEXT NOT NULL) STRICT;
CREATE TABLE samples (number INTEGER PRIMARY KEY, at_ns INTEGER NOT NULL) STRICT;
CREATE TABLE readings (
    sample INTEGER NOT NULL, series INTEGER NOT NULL, value INTEGER NOT NULL, PRIMARY KEY (sample, series)
) STRICT, WITHOUT ROWID;
";

/// The circumstances of a recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Start {
    pub at: SystemTime,
    pub every: Duration,
    pub machine: Machine,
}

/// Writes a recording.
pub struct Writer {
    connection: Connection,
    path: PathBuf,
    /// Each series, with the last value that was written.
    series: Vec<(Name, i64)>,
    samples: i64,
}

impl Writer {
    /// Creates a recording. A file that exists is not overwritten.
    pub fn create(path: &Path, start: &Start) -> Result<Self, MonitorError> {
        let failed = |source: io::Error| match source.kind() {
            io::ErrorKind::AlreadyExists => MonitorError::Exists { path: path.to_owned() },
            _ => MonitorError::Create { path: path.to_owned(), source },
        };
        OpenOptions::new().write(true).create_new(true).open(path).map_err(failed)?;
        let begin = || -> rusqlite::Result<Connection> {
            let connection = Connection::open(path)?;
            // A recording need not survive a power failure, and a sample must not wait for a disk.
            connection.execute_batch(&format!(
                "PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF; PRAGMA cache_size = -{CACHE_KIB};
                 PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {VERSION}; BEGIN; {TABLES}"
            ))?;
            insert_start(&connection, start)?;
            connection.execute_batch("COMMIT")?;
            Ok(connection)
        };
        match begin() {
            Ok(connection) => Ok(Self { connection, path: path.to_owned(), series: Vec::new(), samples: 0 }),
            Err(source) => {
                discard(path);
                Err(MonitorError::Write { path: path.to_owned(), source })
            }
        }
    }

    /// Writes the program that was started.
    pub fn program(&mut self, pid: u32, arguments: &[String]) -> Result<(), MonitorError> {
        let arguments = serde_json::Value::from(arguments.to_vec()).to_string();
        self.written(|writer| {
            writer
                .connection
                .execute("UPDATE recording SET pid = ?1, arguments = ?2", (pid, arguments))
                .map(drop)
        })
    }

    /// Writes the values that changed in a sample. `at` is the time since the start.
    pub fn sample(&mut self, at: Duration, readings: &[Reading]) -> Result<(), MonitorError> {
        self.written(|writer| writer.insert_sample(at, readings))
    }

    /// Writes what the program used.
    pub fn program_end(&mut self, end: &ProgramEnd) -> Result<(), MonitorError> {
        let (code, signal) = end.exit.code_and_signal();
        self.written(|writer| {
            let sql = "UPDATE recording SET elapsed_ns = ?1, cpu_user_ns = ?2, cpu_system_ns = ?3, peak_memory_bytes = ?4,
                exit_code = ?5, exit_signal = ?6";
            let values =
                (ns(end.elapsed), ns(end.cpu_user), ns(end.cpu_system), end.peak_memory_bytes as i64, code, signal);
            writer.connection.execute(sql, values).map(drop)
        })
    }

    /// Marks the recording as complete. Returns its size in bytes.
    pub fn finish(mut self) -> Result<u64, MonitorError> {
        self.written(|writer| writer.connection.execute("UPDATE recording SET complete = 1", ()).map(drop))?;
        let Self { connection, path, .. } = self;
        // Closing moves the log into the recording.
        connection.close().map_err(|(_, source)| MonitorError::Write { path: path.clone(), source })?;
        Ok(std::fs::metadata(&path).map_or(0, |file| file.len()))
    }

    fn insert_sample(&mut self, at: Duration, readings: &[Reading]) -> rusqlite::Result<()> {
        let transaction = self.connection.unchecked_transaction()?;
        {
            let mut insert = transaction.prepare_cached("INSERT INTO readings VALUES (?1, ?2, ?3)")?;
            transaction
                .prepare_cached("INSERT INTO samples VALUES (?1, ?2)")?
                .execute((self.samples, ns(at)))?;
            for reading in readings {
                let number = match self.series.iter().position(|(known, _)| *known == reading.name) {
                    Some(number) if self.series[number].1 == reading.value => continue,
                    Some(number) => number,
                    None => {
                        let number = self.series.len();
                        let sql = "INSERT INTO series VALUES (?1, ?2)";
                        transaction.execute(sql, (number as i64, &*reading.name))?;
                        self.series.push((reading.name.clone(), 0));
                        number
                    }
                };
                self.series[number].1 = reading.value;
                insert.execute((self.samples, number as i64, reading.value))?;
            }
        }
        self.samples += 1;
        transaction.commit()
    }

    fn written<T>(
        &mut self,
        write: impl FnOnce(&mut Self) -> rusqlite::Result<T>,
    ) -> Result<T, MonitorError> {
        write(self).map_err(|source| MonitorError::Write { path: self.path.clone(), source })
    }
}

/// Removes a recording with its log.
pub fn discard(path: &Path) {
    for end in ["", "-wal", "-shm"] {
        let mut name = path.as_os_str().to_owned();
        name.push(end);
        // A file that does not exist need not be removed.
        _ = std::fs::remove_file(name);
    }
}

/// Whether a recording is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    Complete,
    /// The monitor was killed, or still runs. All samples that it took are there.
    CutShort,
}

/// A recording that is read.
pub struct Recording {
    connection: Connection,
    path: PathBuf,
    pub start: Start,
    pub ending: Ending,
    /// The program that was started, as its process id and its arguments.
    pub program: Option<(u32, Vec<String>)>,
    /// The resources that the program used. `None` if there was no program, or the recording was cut short.
    pub program_end: Option<ProgramEnd>,
    /// The names of the series. A reading refers to its series by the index in this list.
    pub series: Vec<String>,
}

impl Recording {
    pub fn open(path: &Path) -> Result<Self, MonitorError> {
        check_kind(path)?;
        let failed = |source| MonitorError::Damaged { path: path.to_owned(), source };
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags).map_err(failed)?;
        let number = |pragma: &str| connection.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0));
        if number("application_id").map_err(failed)? != i64::from(APPLICATION) {
            return Err(MonitorError::NoRecording { path: path.to_owned() });
        }
        let found = number("user_version").map_err(failed)?;
        if found > i64::from(VERSION) {
            return Err(MonitorError::Newer { path: path.to_owned(), found, known: VERSION });
        }
        Self::read(connection, path).map_err(failed)
    }

    fn read(connection: Connection, path: &Path) -> rusqlite::Result<Self> {
        let series: Vec<String> = connection
            .prepare("SELECT name FROM series ORDER BY number")?
            .query_map((), |row| row.get(0))?
            .collect::<rusqlite::Result<_>>()?;
        let (start, ending, program, program_end) =
            connection.query_row("SELECT * FROM recording", (), |row| {
                let ending = if row.get("complete")? { Ending::Complete } else { Ending::CutShort };
                Ok((start_of(row)?, ending, program_of(row)?, program_end_of(row)?))
            })?;
        Ok(Self { connection, path: path.to_owned(), start, ending, program, program_end, series })
    }

    /// Calls `see` for every sample in order, with its time since the start, and the series whose values
    /// changed, by ascending index.
    pub fn samples<E: From<MonitorError>>(
        &self,
        mut see: impl FnMut(Duration, &[(usize, i64)]) -> Result<(), E>,
    ) -> Result<(), E> {
        let failed = |source| E::from(MonitorError::Damaged { path: self.path.clone(), source });
        let sql = "SELECT number, at_ns, series, value FROM samples LEFT JOIN readings ON sample = number ORDER BY number, series";
        let mut statement = self.connection.prepare(sql).map_err(failed)?;
        let mut rows = statement.query(()).map_err(failed)?;
        let mut current: Option<(i64, Duration)> = None;
        let mut changes: Vec<(usize, i64)> = Vec::new();
        while let Some(row) = rows.next().map_err(failed)? {
            let read = || -> rusqlite::Result<_> {
                Ok((
                    row.get::<_, i64>(0)?,
                    nanoseconds(row.get(1)?),
                    row.get::<_, Option<i64>>(2)?,
                    row.get(3)?,
                ))
            };
            let (number, at, series, value): (_, _, _, Option<i64>) = read().map_err(failed)?;
            if let Some((before, at)) = current.filter(|(before, _)| *before != number) {
                debug_assert!(before < number);
                see(at, &changes)?;
                changes.clear();
            }
            current = Some((number, at));
            let index = series.and_then(|series| usize::try_from(series).ok());
            changes.extend(index.filter(|index| *index < self.series.len()).zip(value));
        }
        match current {
            Some((_, at)) => see(at, &changes),
            None => Ok(()),
        }
    }
}

/// Refuses a file that is no SQLite database before SQLite opens it, and reports recordings of an older
/// treecast.
fn check_kind(path: &Path) -> Result<(), MonitorError> {
    let failed = |source| MonitorError::Read { path: path.to_owned(), source };
    let mut header = Vec::new();
    std::fs::File::open(path).map_err(failed)?.take(16).read_to_end(&mut header).map_err(failed)?;
    match &header[..] {
        b"SQLite format 3\0" => Ok(()),
        old if old.starts_with(b"TCMONITR") => Err(MonitorError::Older { path: path.to_owned() }),
        _ => Err(MonitorError::NoRecording { path: path.to_owned() }),
    }
}

fn insert_start(connection: &Connection, start: &Start) -> rusqlite::Result<()> {
    let machine = &start.machine;
    let sql =
        "INSERT INTO recording (started_unix_ns, every_ns, hostname, kernel, cpu_model, cpus, memory_bytes,
            treecast_version)
        VALUES (:started, :every, :hostname, :kernel, :cpu_model, :cpus, :memory, :version)";
    let values = named_params! {
        ":started": ns(start.at.duration_since(UNIX_EPOCH).unwrap_or_default()),
        ":every": ns(start.every),
        ":hostname": machine.hostname,
        ":kernel": machine.kernel,
        ":cpu_model": machine.cpu_model,
        ":cpus": machine.cpus,
        ":memory": machine.memory_bytes as i64,
        ":version": machine.treecast_version,
    };
    connection.execute(sql, values).map(drop)
}

fn start_of(row: &rusqlite::Row<'_>) -> rusqlite::Result<Start> {
    Ok(Start {
        at: UNIX_EPOCH + nanoseconds(row.get("started_unix_ns")?),
        every: nanoseconds(row.get("every_ns")?),
        machine: Machine {
            hostname: row.get("hostname")?,
            kernel: row.get("kernel")?,
            cpu_model: row.get("cpu_model")?,
            cpus: row.get("cpus")?,
            memory_bytes: row.get::<_, i64>("memory_bytes")?.max(0) as u64,
            treecast_version: row.get("treecast_version")?,
        },
    })
}

fn program_of(row: &rusqlite::Row<'_>) -> rusqlite::Result<Option<(u32, Vec<String>)>> {
    let arguments: Option<String> = row.get("arguments")?;
    let arguments = arguments.and_then(|text| serde_json::from_str(&text).ok());
    Ok(row.get::<_, Option<u32>>("pid")?.zip(arguments))
}

fn program_end_of(row: &rusqlite::Row<'_>) -> rusqlite::Result<Option<ProgramEnd>> {
    let exit = match (row.get("exit_code")?, row.get("exit_signal")?) {
        (Some(code), _) => Exit::Code(code),
        (None, Some(signal)) => Exit::Signal(signal),
        (None, None) => return Ok(None),
    };
    Ok(Some(ProgramEnd {
        elapsed: nanoseconds(row.get("elapsed_ns")?),
        cpu_user: nanoseconds(row.get("cpu_user_ns")?),
        cpu_system: nanoseconds(row.get("cpu_system_ns")?),
        peak_memory_bytes: row.get::<_, i64>("peak_memory_bytes")?.max(0) as u64,
        exit,
    }))
}

fn ns(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

fn nanoseconds(ns: i64) -> Duration {
    Duration::from_nanos(ns.max(0) as u64)
}
