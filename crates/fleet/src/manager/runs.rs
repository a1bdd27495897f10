//! Experiments over the fleet: a queue, from which one thread takes them in turn.

use std::{
    collections::HashMap,
    fs, io,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use rusqlite::{OptionalExtension, Row, params};
use serde::{Deserialize, Serialize};
use thiserror::Error;
use tokio::{runtime::Handle, sync::Notify};
use treecast_experiment::{self as experiment, Experiment, Order, Preview, Results};
use treecast_host::quantity;
use utoipa::ToSchema;

use super::{
    Options,
    hub::{Change, Hub, HubError, now_ms},
    site::Fleet,
    store::{Store, StoreError},
};
use crate::message::{Work, of_word, word};

/// The name of the results database of a run.
const DATABASE: &str = "results.sqlite";
/// The name of the file with what a run has told, one JSON event a line, as `treecast lab run --json` prints it.
pub const EVENTS: &str = "events";
/// The name of the file with what a run came to, in JSON.
const RESULTS: &str = "results.json";
/// The most runs that wait.
const MAX_WAITING: u32 = 1_000;

/// A run that is wanted.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct NewRun {
    /// The name of the results.
    pub name: String,
    /// The text of the experiment's file.
    pub file: String,
    /// The folder at the manager where paths in the file begin.
    #[serde(default)]
    pub base: String,
    /// Settings that take the place of those in the file, each `KEY=VALUE`.
    #[serde(default)]
    pub settings: Vec<String>,
    /// The hosts that take part.
    pub select: String,
    /// When to begin, in milliseconds since 1970. `None`: as soon as nothing else runs.
    #[serde(default)]
    pub at_ms: Option<u64>,
    /// How often to run it, and how far apart.
    #[serde(default)]
    pub repeat: Option<Repeat>,
}

/// How a run is repeated.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Repeat {
    /// The time between two beginnings, such as `1h`.
    pub every: String,
    /// The number of runs in all.
    pub times: u32,
}

impl Repeat {
    /// Returns the time between two beginnings in milliseconds, and the number of runs.
    fn read(&self) -> Result<(u64, u32), RunsError> {
        let range = Duration::from_secs(1)..=Duration::from_secs(366 * 24 * 3600);
        let every = quantity::time(&self.every, range);
        let every = every.map_err(|error| RunsError::Experiment(format!("every: {error}")))?;
        Ok((every.as_millis() as u64, self.times.max(1)))
    }
}

/// The state of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = RunState)]
pub enum State {
    Waiting,
    Running,
    /// It was made to its end. Its results say how it went.
    Done,
    /// Somebody ended it.
    Aborted,
    /// It could not be made, or not to its end.
    Failed,
}

impl State {
    pub const ALL: [State; 5] = [State::Waiting, State::Running, State::Done, State::Aborted, State::Failed];

    /// Whether nothing more comes of the run.
    pub fn is_over(self) -> bool {
        !matches!(self, Self::Waiting | Self::Running)
    }
}

/// A run, as its users see it.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = Run)]
pub struct RunView {
    pub id: i64,
    pub name: String,
    /// Who has ordered it.
    pub who: String,
    pub select: String,
    pub settings: Vec<String>,
    /// The text of the experiment's file, and the folder where its paths begin. Empty in lists.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub file: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub base: String,
    pub ordered_ms: u64,
    /// When it begins at the earliest.
    pub due_ms: u64,
    #[schema(required)]
    pub begun_ms: Option<u64>,
    #[schema(required)]
    pub ended_ms: Option<u64>,
    pub state: State,
    /// Why it is in this state, or how it went.
    #[schema(required)]
    pub reason: Option<String>,
    /// The events that it has told so far, as `treecast lab run --json` prints them. Empty in lists.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<experiment::Event<'static>>)]
    pub events: Vec<serde_json::Value>,
    /// What it came to, when it is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Results>)]
    pub results: Option<serde_json::Value>,
}

/// The reason why a run is not ordered.
#[derive(Debug, Error)]
pub enum RunsError {
    #[error(transparent)]
    Hub(#[from] HubError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("{0}")]
    Experiment(String),
    #[error("the results cannot be kept: {0}")]
    File(io::Error),
}

/// The runs of a manager.
pub struct Runs {
    hub: Arc<Hub>,
    runtime: Handle,
    options: Options,
    /// The runs that are under way, each with the switch that ends it.
    under_way: Mutex<HashMap<i64, Arc<AtomicBool>>>,
    ordered: Notify,
}

impl Runs {
    /// Takes up the queue of an earlier start. A run that was under way then has ended with its manager.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn start(hub: Arc<Hub>, options: &Options) -> Result<Arc<Self>, StoreError> {
        end_earlier(&hub).await?;
        let runs = Arc::new(Self {
            hub,
            runtime: Handle::current(),
            options: options.clone(),
            under_way: Mutex::default(),
            ordered: Notify::new(),
        });
        tokio::spawn(work(Arc::downgrade(&runs)));
        Ok(runs)
    }

    /// Returns what a run would do.
    ///
    /// # Errors
    /// What is wrong with it.
    pub async fn plan(&self, run: NewRun) -> Result<Preview, RunsError> {
        let place = self.place(&run, 0).await?;
        let experiment = read(&run)?;
        let preview = tokio::task::spawn_blocking(move || experiment::preview(&place, &experiment));
        let preview = preview.await.map_err(|error| RunsError::Experiment(error.to_string()))?;
        preview.map_err(|error| RunsError::Experiment(error.to_string()))
    }

    /// Orders a run.
    ///
    /// # Errors
    /// What is wrong with it.
    pub async fn order(&self, who: &str, run: NewRun) -> Result<RunView, RunsError> {
        self.plan(run.clone()).await?;
        let ordered = now_ms();
        let (who, due) = (who.to_owned(), run.at_ms.unwrap_or(ordered));
        let settings = crate::message::text_of(&run.settings);
        let (every_ms, times) = run.repeat.as_ref().map_or(Ok((0, 1)), Repeat::read)?;
        let id = self
            .hub
            .store
            .with(move |of| {
                let waiting = "SELECT count(*) FROM runs WHERE state = 'waiting'";
                if of.query_row(waiting, [], |row| row.get::<_, u32>(0))? >= MAX_WAITING {
                    return Ok(None);
                }
                of.execute(
                    "INSERT INTO runs (name, who, selection, file, settings, base, ordered, due, every_ms, times, state)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, 'waiting')",
                    params![run.name, who, run.select, run.file, settings, run.base, ordered, due, every_ms, times],
                )?;
                Ok(Some(of.last_insert_rowid()))
            })
            .await?;
        let id = id.ok_or_else(|| {
            RunsError::Experiment(format!("{MAX_WAITING} runs wait already: abort some first"))
        })?;
        self.ordered.notify_one();
        self.hub.tell(Change::Run { id });
        self.one(id).await?.ok_or_else(|| RunsError::Experiment("the run is gone".into()))
    }

    /// Ends a run, or takes it out of the queue.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn abort(&self, id: i64) -> Result<(), StoreError> {
        if let Some(stop) = self.lock().get(&id) {
            stop.store(true, Ordering::Relaxed);
        }
        let ended = "UPDATE runs SET state = 'aborted', ended = ?2 WHERE id = ?1 AND state = 'waiting'";
        self.hub.store.with(move |of| of.execute(ended, params![id, now_ms()])).await?;
        self.hub.tell(Change::Run { id });
        Ok(())
    }

    /// Returns all runs, the latest first.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn all(&self) -> Result<Vec<RunView>, StoreError> {
        let query = format!("SELECT {COLUMNS} FROM runs ORDER BY id DESC LIMIT 1000");
        self.hub.store.with(move |of| of.prepare_cached(&query)?.query_map([], run)?.collect()).await
    }

    /// Returns a run with what it has told; `None` where there is none of this number.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn one(&self, id: i64) -> Result<Option<RunView>, StoreError> {
        let query = format!("SELECT {COLUMNS}, file, base FROM runs WHERE id = ?1");
        let whole = |row: &Row| Ok(RunView { file: row.get(11)?, base: row.get(12)?, ..run(row)? });
        let found = self.hub.store.with(move |of| of.query_row(&query, [id], whole).optional()).await?;
        Ok(found.map(|run| {
            // A run that has not begun has told nothing.
            let text = fs::read_to_string(self.folder(id).join(EVENTS)).unwrap_or_default();
            let events = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
            let results = fs::read_to_string(self.folder(id).join(RESULTS)).ok();
            RunView { events, results: results.and_then(|text| serde_json::from_str(&text).ok()), ..run }
        }))
    }

    /// Returns the path of a run's results database; `None` where there is none.
    pub fn results(&self, id: i64) -> Option<PathBuf> {
        Some(self.folder(id).join(DATABASE)).filter(|path| path.exists())
    }

    fn folder(&self, id: i64) -> PathBuf {
        self.options.state.join("runs").join(id.to_string())
    }

    async fn place(&self, run: &NewRun, id: i64) -> Result<Fleet, RunsError> {
        let hosts = self.hub.select_some(&run.select).await?;
        Ok(Fleet { hub: Arc::clone(&self.hub), runtime: self.runtime.clone(), hosts, run: id })
    }

    /// Makes a run, and writes down how it went.
    async fn make(self: Arc<Self>, id: i64, new: NewRun) -> Result<(), StoreError> {
        let stop = Arc::new(AtomicBool::new(false));
        self.lock().insert(id, Arc::clone(&stop));
        self.set(id, State::Running, None).await?;
        let outcome = self.perform(id, &new, Arc::clone(&stop)).await;
        self.lock().remove(&id);
        let (state, reason) = match outcome {
            Err(error) => (State::Failed, Some(error.to_string())),
            Ok(results) if results.interrupted => (State::Aborted, Some(sentence(&results))),
            Ok(results) => (State::Done, Some(sentence(&results))),
        };
        self.set(id, state, reason).await
    }

    async fn perform(&self, id: i64, new: &NewRun, stop: Arc<AtomicBool>) -> Result<Results, RunsError> {
        let place = self.place(new, id).await?;
        let folder = self.folder(id);
        fs::create_dir_all(&folder).map_err(RunsError::File)?;
        fs::write(folder.join("experiment.toml"), &new.file).map_err(RunsError::File)?;
        let order = Order {
            experiment: read(new)?,
            name: new.name.clone(),
            database: folder.join(DATABASE),
            treecast: self.options.treecast.clone(),
            version: self.options.version.clone(),
            command: format!("treecast lab run --site 'fleet:{}'", new.select),
        };
        let events = fs::File::create(folder.join(EVENTS)).map_err(RunsError::File)?;
        let hub = Arc::clone(&self.hub);
        let made = tokio::task::spawn_blocking(move || {
            let observe = |event: &experiment::Event| {
                use io::Write;
                // The results have what matters; a full disk is told by them.
                _ = writeln!(&events, "{}", crate::message::text_of(event));
                hub.tell(Change::Run { id });
            };
            experiment::run(&place, &order, &observe, &|| stop.load(Ordering::Relaxed))
        });
        let made = made.await.map_err(|error| RunsError::Experiment(error.to_string()))?;
        let results = made.map_err(|error| RunsError::Experiment(error.to_string()))?;
        fs::write(folder.join(RESULTS), crate::message::text_of(&results)).map_err(RunsError::File)?;
        Ok(results)
    }

    async fn set(&self, id: i64, state: State, reason: Option<String>) -> Result<(), StoreError> {
        let now_ms = now_ms();
        let column = if state == State::Running { "begun" } else { "ended" };
        let update = format!("UPDATE runs SET state = ?2, reason = ?3, {column} = ?4 WHERE id = ?1");
        self.hub.store.with(move |of| of.execute(&update, params![id, word(&state), reason, now_ms])).await?;
        self.hub.tell(Change::Run { id });
        Ok(())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<i64, Arc<AtomicBool>>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const COLUMNS: &str = "id, name, who, selection, settings, ordered, begun, ended, state, reason, due";

fn run(row: &Row) -> rusqlite::Result<RunView> {
    Ok(RunView {
        id: row.get(0)?,
        name: row.get(1)?,
        who: row.get(2)?,
        select: row.get(3)?,
        settings: crate::message::read(&row.get::<_, String>(4)?).unwrap_or_default(),
        ordered_ms: row.get(5)?,
        begun_ms: row.get(6)?,
        ended_ms: row.get(7)?,
        state: of_word(&row.get::<_, String>(8)?).unwrap_or(State::Failed),
        reason: row.get(9)?,
        due_ms: row.get(10)?,
        file: String::new(),
        base: String::new(),
        events: Vec::new(),
        results: None,
    })
}

/// Reads the file of a run.
fn read(run: &NewRun) -> Result<Experiment, RunsError> {
    let experiment = Experiment::parse(&run.file, &run.name, Path::new(&run.base), &run.settings);
    experiment.map_err(|error| RunsError::Experiment(error.to_string()))
}

/// Says how an experiment went.
fn sentence(results: &Results) -> String {
    let whole = format!("{} of {} runs are whole", results.whole_runs, results.runs);
    match results.failures.first() {
        None => whole,
        Some(failure) => format!("{whole}; {} at {}: {}", failure.run, failure.node, failure.reason),
    }
}

/// Marks the runs of an earlier start, and ends their programs.
async fn end_earlier(hub: &Hub) -> Result<(), StoreError> {
    let now_ms = now_ms();
    let (runs, programs): (Vec<i64>, Vec<(i64, u64)>) = hub
        .store
        .with(move |of| {
            let reason = "the manager was started again meanwhile";
            let ended = "UPDATE runs SET state = 'failed', reason = ?1, ended = ?2 WHERE state = 'running' RETURNING id";
            let runs: Vec<i64> = of
                .prepare(ended)?
                .query_map(params![reason, now_ms], |row| row.get(0))?
                .collect::<Result<_, _>>()?;
            if runs.is_empty() {
                return Ok((runs, Vec::new()));
            }
            let open = "SELECT host, number FROM orders WHERE ended IS NULL AND work LIKE '{\"do\":\"start\"%'
                        AND NOT EXISTS (SELECT 1 FROM asked WHERE asked.host = orders.host AND asked.order_number = orders.number)";
            let mut open = of.prepare(open)?;
            let programs = open.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
            Ok((runs, programs.collect::<Result<_, _>>()?))
        })
        .await?;
    runs.into_iter().for_each(|id| hub.tell(Change::Run { id }));
    for (host, order) in programs {
        // A host for which too much waits has more to do than to end a program, which ends by itself.
        if let Err(error) = hub.order(host, Work::Signal { order, signal: libc::SIGTERM }).await {
            tracing::warn!("a program of an earlier run is not ended: {error}");
        }
    }
    Ok(())
}

/// Takes one run after the other from the queue, until nobody needs them any more.
async fn work(runs: std::sync::Weak<Runs>) {
    /// The longest time between two looks whether a run is due.
    const LOOK: Duration = Duration::from_secs(1);
    loop {
        let Some(runs) = runs.upgrade() else { return };
        match next(&runs.hub.store).await {
            Ok(Some((id, run))) => {
                if let Err(error) = Arc::clone(&runs).make(id, run).await {
                    tracing::error!("run {id}: {error}");
                }
            }
            Ok(None) => _ = tokio::time::timeout(LOOK, runs.ordered.notified()).await,
            Err(error) => {
                tracing::error!("the queue of runs cannot be read: {error}");
                tokio::time::sleep(LOOK).await;
            }
        }
    }
}

/// Takes the next run that is due. One that is repeated is put into the queue again.
async fn next(store: &Store) -> Result<Option<(i64, NewRun)>, StoreError> {
    let now_ms = now_ms();
    store
        .with(move |of| {
            let due = "SELECT id, name, selection, file, settings, base, due, every_ms, times FROM runs
                       WHERE state = 'waiting' AND due <= ?1 ORDER BY due, id LIMIT 1";
            let found = of
                .query_row(due, [now_ms], |row| {
                    let new = NewRun {
                        name: row.get(1)?,
                        select: row.get(2)?,
                        file: row.get(3)?,
                        settings: crate::message::read(&row.get::<_, String>(4)?).unwrap_or_default(),
                        base: row.get(5)?,
                        at_ms: None,
                        repeat: None,
                    };
                    Ok((row.get::<_, i64>(0)?, new, row.get::<_, u64>(6)?, row.get::<_, u64>(7)?, row.get::<_, u32>(8)?))
                })
                .optional()?;
            let Some((id, new, due, every_ms, times)) = found else { return Ok(None) };
            if times > 1 {
                of.execute(
                    "INSERT INTO runs (name, who, selection, file, settings, base, ordered, due, every_ms, times, state)
                     SELECT name, who, selection, file, settings, base, ordered, ?2, every_ms, ?3, 'waiting'
                     FROM runs WHERE id = ?1",
                    params![id, due.saturating_add(every_ms), times - 1],
                )?;
            }
            Ok(Some((id, new)))
        })
        .await
}
