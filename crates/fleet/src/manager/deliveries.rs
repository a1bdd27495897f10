//! Files to many hosts: one session delivers them, and each host compares what came and moves it to where its own `agent.toml` says.
//!
//! ```text
//! begin        files of this host, or an upload
//!   MakeReady  hosts make a folder, unless they have everything
//!   session    one sender, all of these hosts
//!   TakeIn     hosts compare, and tell what they lack
//! ```

use std::{
    collections::{BTreeMap, HashMap},
    fs::File,
    io::{self, Read},
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use rusqlite::{OptionalExtension, Row, params};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;
use tokio::sync::watch;
use utoipa::ToSchema;

use super::{
    hosts::Host,
    hub::{Change, Hub, HubError, now_ms, too_long},
    session::{SessionError, Transmission},
    store::StoreError,
    uploads::{self, UploadError, Uploads},
};
use crate::{
    agent::deliveries::{MAX_FILES, check_path},
    message::{Delivered, Delivery, Lack, Work, of_word, read, text_of},
};

/// The longest time until a host has made ready, or has compared what came, beside what the size takes.
const ANSWER_TIME: Duration = Duration::from_secs(60);
/// The slowest disk that is waited for, in bytes a second.
const SLOWEST_DISK: u64 = 10_000_000;
/// The shortest time between two changes that are told of one delivery.
const TELL_EVERY: Duration = Duration::from_millis(500);
/// The longest reason of a host, in letters.
const MAX_REASON: usize = 500;

/// A delivery that is wanted.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct NewDelivery {
    pub select: String,
    /// Files of the manager's host.
    #[serde(default)]
    #[schema(value_type = Vec<String>)]
    pub paths: Vec<PathBuf>,
    /// An upload, by its name.
    #[serde(default)]
    pub upload: Option<String>,
    /// A folder below the one that each host names. Empty: that one.
    #[serde(default)]
    pub into: String,
}

/// A delivery, as its users see it.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = Delivery)]
pub struct DeliveryView {
    pub id: i64,
    pub select: String,
    pub who: String,
    pub into: String,
    pub files: Vec<FileView>,
    pub state: DeliveryState,
    #[schema(required)]
    pub reason: Option<String>,
    pub ordered_ms: u64,
    #[schema(required)]
    pub ended_ms: Option<u64>,
    /// What the session has sent once, and what one connection a host would have.
    pub sent_bytes: u64,
    pub unicast_bytes: u64,
    pub hosts: Vec<ReceiverView>,
}

/// A file of a delivery.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = DeliveredFile)]
pub struct FileView {
    pub name: String,
    pub size_bytes: u64,
}

/// A host of a delivery.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = DeliveryHost)]
pub struct ReceiverView {
    pub host: String,
    pub state: ReceiverState,
    #[schema(required)]
    pub reason: Option<String>,
    /// The bytes that have come there so far.
    #[serde(default)]
    #[schema(required)]
    pub bytes: u64,
}

/// The state of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum DeliveryState {
    Running,
    Done,
    Aborted,
    Failed,
}

/// The state of a host in a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ReceiverState {
    Working,
    Done,
    Failed,
    Away,
    /// The host does not permit it.
    Refused,
    Aborted,
}

/// The reason why there is no delivery.
#[derive(Debug, Error)]
pub enum DeliveryError {
    #[error(transparent)]
    Hub(#[from] HubError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Upload(#[from] UploadError),
    #[error(transparent)]
    Session(#[from] SessionError),
    #[error("{0}")]
    Wrong(String),
    #[error("there is no delivery {0}")]
    Missing(i64),
}

/// The deliveries of a manager.
pub struct Deliveries {
    hub: Arc<Hub>,
    treecast: PathBuf,
    pub uploads: Uploads,
    /// Those that are under way.
    active: Mutex<HashMap<i64, Active>>,
}

/// What is known of a delivery only while it is under way.
struct Active {
    stop: watch::Sender<bool>,
    /// The bytes that each host has.
    bytes: BTreeMap<String, u64>,
    sent_bytes: u64,
    told: Instant,
}

/// A delivery under way.
struct Task {
    id: i64,
    into: String,
    /// The files, with their names at the hosts.
    sources: Vec<(String, PathBuf)>,
    size_bytes: u64,
    /// The folder of an upload, which is deleted at the end.
    upload: Option<PathBuf>,
    hosts: Vec<Host>,
    stop: watch::Receiver<bool>,
}

impl Deliveries {
    /// Makes ready for deliveries. Those of an earlier start are marked: their files may be gone.
    ///
    /// # Errors
    /// If the database or the folder for uploads fails.
    pub async fn start(hub: Arc<Hub>, state: PathBuf, treecast: PathBuf) -> Result<Arc<Self>, DeliveryError> {
        let now = now_ms();
        hub.store
            .with(move |of| {
                of.execute(
                    "UPDATE delivery_hosts SET state = 'failed', reason = 'the manager ended meanwhile'
                     WHERE state = 'working'",
                    [],
                )?;
                let ended = "UPDATE deliveries SET state = 'failed', reason = 'the manager ended meanwhile', ended = ?1
                             WHERE state = 'running'";
                of.execute(ended, [now])
            })
            .await?;
        let uploads = Uploads::new(state.join("uploads")).await.map_err(UploadError::from)?;
        Ok(Arc::new(Self { hub, treecast, uploads, active: Mutex::default() }))
    }

    /// Begins a delivery. Returns its number.
    ///
    /// # Errors
    /// What is wrong with it.
    pub async fn begin(self: &Arc<Self>, who: &str, new: NewDelivery) -> Result<i64, DeliveryError> {
        if !new.into.is_empty() {
            check_path(&new.into).map_err(DeliveryError::Wrong)?;
        }
        let hosts = self.hub.select_some(&new.select).await?;
        let upload = match &new.upload {
            Some(id) => Some(self.uploads.hand_over(id, who)?),
            None => None,
        };
        let begun = self.enter(who, &new, upload.clone(), hosts).await;
        match (begun, upload) {
            (Ok(task), _) => {
                let (deliveries, id) = (Arc::clone(self), task.id);
                tokio::spawn(async move { deliveries.work_at(task).await });
                Ok(id)
            }
            (Err(error), Some(folder)) => {
                uploads::remove(&folder).await.map_err(UploadError::from)?;
                Err(error)
            }
            (Err(error), None) => Err(error),
        }
    }

    /// Writes a delivery into the database, with its hosts.
    async fn enter(
        &self,
        who: &str,
        new: &NewDelivery,
        upload: Option<PathBuf>,
        hosts: Vec<Host>,
    ) -> Result<Task, DeliveryError> {
        let mut paths = new.paths.clone();
        for entry in upload.iter().map(std::fs::read_dir) {
            let entries = entry.map_err(UploadError::from)?;
            paths.extend(entries.flatten().map(|entry| entry.path()));
        }
        let (sources, files) = named(paths)?;
        let size_bytes = files.iter().map(|file| file.size_bytes).sum();
        let row = (new.select.clone(), who.to_owned(), new.into.clone(), text_of(&files), now_ms());
        let states: Vec<_> = hosts.iter().map(|host| (host.id, first_state(host))).collect();
        let id = self
            .hub
            .store
            .with(move |of| {
                let insert = "INSERT INTO deliveries (selection, who, into_folder, files, ordered, state, sent_bytes, unicast_bytes)
                              VALUES (?1, ?2, ?3, ?4, ?5, 'running', 0, 0)";
                of.execute(insert, row)?;
                let id = of.last_insert_rowid();
                let insert = "INSERT INTO delivery_hosts (delivery, host, state, reason) VALUES (?1, ?2, ?3, ?4)";
                let mut insert = of.prepare(insert)?;
                for (host, (state, reason)) in states {
                    insert.execute(params![id, host, state, reason])?;
                }
                Ok(id)
            })
            .await?;
        let (say, stop) = watch::channel(false);
        let active = Active { stop: say, bytes: BTreeMap::new(), sent_bytes: 0, told: Instant::now() };
        self.lock().insert(id, active);
        self.hub.tell(Change::Delivery { id });
        let hosts = hosts.into_iter().filter(|host| first_state(host).0 == "working").collect();
        Ok(Task { id, into: new.into.clone(), sources, size_bytes, upload, hosts, stop })
    }

    async fn work_at(&self, task: Task) {
        let outcome = self.deliver(&task).await;
        let is_aborted = *task.stop.borrow();
        let (state, reason) = match outcome {
            _ if is_aborted => ("aborted", None),
            Ok(()) => ("done", None),
            Err(error) => ("failed", Some(error.to_string())),
        };
        if let Some(Err(error)) = async { Some(uploads::remove(task.upload.as_deref()?).await) }.await {
            tracing::error!("delivery {}: what was uploaded is not deleted: {error}", task.id);
        }
        if let Err(error) = self.end(&task, state, reason).await {
            tracing::error!("delivery {}: {error}", task.id);
        }
    }

    async fn deliver(&self, task: &Task) -> Result<(), DeliveryError> {
        let sources = task.sources.clone();
        let stop = task.stop.clone();
        let hashed = tokio::task::spawn_blocking(move || hashed(&sources, &stop)).await;
        let files = hashed.map_err(|error| DeliveryError::Wrong(error.to_string()))??;
        let delivery = Delivery { id: task.id as u64, into: task.into.clone(), files };
        let ready = self.make_ready(task, &delivery).await?;
        if !*task.stop.borrow() && !ready.is_empty() {
            self.send(task, &ready).await?;
        }
        if *task.stop.borrow() {
            let forget = ready.iter().map(|(host, _)| self.forget(host, &delivery));
            futures_util::future::join_all(forget).await;
            return Ok(());
        }
        let take_in = ready.iter().map(|(host, _)| self.take_in(task, host, &delivery));
        futures_util::future::join_all(take_in).await.into_iter().collect::<Result<(), _>>()?;
        Ok(())
    }

    /// Has hosts make ready. Returns those that lack something, each with the folder for it.
    async fn make_ready<'t>(
        &self,
        task: &'t Task,
        delivery: &Delivery,
    ) -> Result<Vec<(&'t Host, PathBuf)>, DeliveryError> {
        let asked = task.hosts.iter().map(|host| {
            let work = Work::MakeReady { delivery: delivery.clone() };
            self.hub.ask(host.id, work, too_long(patience(task.size_bytes)))
        });
        let answers = futures_util::future::join_all(asked).await;
        let mut ready = Vec::new();
        for (host, answer) in task.hosts.iter().zip(answers) {
            match answer {
                Ok(Value::String(folder)) => ready.push((host, PathBuf::from(folder))),
                Ok(_) => self.set_host(task.id, host, "done", Some("it had everything")).await?,
                Err(reason) => self.set_host(task.id, host, "failed", Some(&reason)).await?,
            }
        }
        Ok(ready)
    }

    /// Sends to all hosts by one session.
    async fn send(&self, task: &Task, ready: &[(&Host, PathBuf)]) -> Result<(), DeliveryError> {
        let session = Transmission {
            hub: &self.hub,
            treecast: &self.treecast,
            paths: task.sources.iter().map(|(_, path)| path.clone()).collect(),
            size_bytes: task.size_bytes,
            receivers: ready.iter().map(|(host, folder)| (*host, folder.as_path())).collect(),
        };
        let mut stop = task.stop.clone();
        let stopped = async move {
            // The sending end stays as long as the delivery does.
            _ = stop.wait_for(|is_stopped| *is_stopped).await;
        };
        let sent = session.run(stopped, &mut |event| self.note(task.id, event)).await?;
        if let Some(complaint) = sent.complaint {
            return Err(DeliveryError::Wrong(format!("nothing was sent: {complaint}")));
        }
        let row = (task.id, sent.sent_bytes, task.size_bytes * ready.len() as u64);
        let update = "UPDATE deliveries SET sent_bytes = ?2, unicast_bytes = ?3 WHERE id = ?1";
        self.hub.store.with(move |of| of.execute(update, row)).await?;
        Ok(())
    }

    /// Notes what the sender tells of its receivers.
    fn note(&self, id: i64, event: &Value) {
        let mut active = self.lock();
        let Some(active) = active.get_mut(&id) else { return };
        active.sent_bytes = event["sent_bytes"].as_u64().unwrap_or(active.sent_bytes);
        for receiver in event["receivers"].as_array().into_iter().flatten() {
            if let (Some(name), Some(bytes)) = (receiver["receiver"].as_str(), receiver["bytes"].as_u64()) {
                active.bytes.insert(name.to_owned(), bytes);
            }
        }
        if active.told.elapsed() >= TELL_EVERY {
            active.told = Instant::now();
            self.hub.tell(Change::Delivery { id });
        }
    }

    /// Has a host compare what came and move it to its place.
    async fn take_in(&self, task: &Task, host: &Host, delivery: &Delivery) -> Result<(), StoreError> {
        let work = Work::TakeIn { delivery: delivery.clone() };
        let answer = self.hub.ask(host.id, work, too_long(patience(task.size_bytes))).await;
        let lacks = answer
            .and_then(|value| serde_json::from_value::<Vec<Lack>>(value).map_err(|error| error.to_string()));
        match lacks.map(|lacks| lacking(&lacks)) {
            Ok(None) => self.set_host(task.id, host, "done", None).await,
            Ok(Some(reason)) | Err(reason) => self.set_host(task.id, host, "failed", Some(&reason)).await,
        }
    }

    /// Has a host delete what came of a delivery that was ended. One that does not answer deletes it with a later delivery.
    async fn forget(&self, host: &Host, delivery: &Delivery) {
        let work = Work::Forget { delivery: delivery.clone() };
        if let Err(reason) = self.hub.ask(host.id, work, too_long(ANSWER_TIME)).await {
            tracing::warn!("{}: what came of delivery {} is still there: {reason}", host.name, delivery.id);
        }
    }

    /// Ends a delivery that is under way. Those that are over stay as they are.
    ///
    /// # Errors
    /// If there is none of this number.
    pub async fn abort(&self, id: i64) -> Result<(), DeliveryError> {
        if let Some(active) = self.lock().get(&id) {
            active.stop.send_replace(true);
        }
        self.one(id).await.map(drop)
    }

    async fn end(&self, task: &Task, state: &'static str, reason: Option<String>) -> Result<(), StoreError> {
        let (id, now) = (task.id, now_ms());
        let open = if state == "aborted" { "aborted" } else { "failed" };
        let why = reason.clone().unwrap_or_else(|| "it was not asked any more".to_owned());
        let ended = self.hub.store.with(move |of| {
            let hosts =
                "UPDATE delivery_hosts SET state = ?2, reason = ?3 WHERE delivery = ?1 AND state = 'working'";
            of.execute(hosts, params![id, open, (open == "failed").then_some(why)])?;
            let update = "UPDATE deliveries SET state = ?2, reason = ?3, ended = ?4 WHERE id = ?1";
            of.execute(update, params![id, state, reason, now])
        });
        let ended = ended.await;
        self.lock().remove(&id);
        self.hub.tell(Change::Delivery { id });
        ended.map(drop)
    }

    async fn set_host(
        &self,
        id: i64,
        host: &Host,
        state: &'static str,
        reason: Option<&str>,
    ) -> Result<(), StoreError> {
        let (host, reason) = (host.id, reason.map(str::to_owned));
        let set = "UPDATE delivery_hosts SET state = ?3, reason = ?4 WHERE delivery = ?1 AND host = ?2";
        self.hub.store.with(move |of| of.execute(set, params![id, host, state, reason])).await?;
        self.hub.tell(Change::Delivery { id });
        Ok(())
    }

    /// Returns all deliveries without their hosts, the latest first.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn all(&self) -> Result<Vec<DeliveryView>, StoreError> {
        let query = format!("{SELECT} ORDER BY id DESC LIMIT 1000");
        self.hub.store.with(move |of| of.prepare(&query)?.query_map([], view)?.collect()).await
    }

    /// Returns a delivery with its hosts.
    ///
    /// # Errors
    /// If there is none of this number.
    pub async fn one(&self, id: i64) -> Result<DeliveryView, DeliveryError> {
        let query = format!("{SELECT} WHERE id = ?1");
        let found = self.hub.store.with(move |of| {
            let Some(found) = of.query_row(&query, [id], view).optional()? else { return Ok(None) };
            let hosts = "SELECT hosts.name, state, reason FROM delivery_hosts JOIN hosts ON hosts.id = host
                         WHERE delivery = ?1 ORDER BY hosts.name";
            let host = |row: &Row| {
                let state = of_word(&row.get::<_, String>(1)?).unwrap_or(ReceiverState::Failed);
                Ok(ReceiverView { host: row.get(0)?, state, reason: row.get(2)?, bytes: 0 })
            };
            let hosts = of.prepare(hosts)?.query_map([id], host)?.collect::<Result<_, _>>()?;
            Ok(Some(DeliveryView { hosts, ..found }))
        });
        let mut found = found.await?.ok_or(DeliveryError::Missing(id))?;
        let size_bytes: u64 = found.files.iter().map(|file| file.size_bytes).sum();
        let active = self.lock();
        let active = active.get(&id);
        found.sent_bytes = active.map_or(found.sent_bytes, |of| of.sent_bytes.max(found.sent_bytes));
        for host in &mut found.hosts {
            let came = active.and_then(|of| of.bytes.get(&host.host).copied()).unwrap_or(0);
            host.bytes = if host.state == ReceiverState::Done { size_bytes } else { came };
        }
        Ok(found)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<i64, Active>> {
        self.active.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns how a host begins, and why.
fn first_state(host: &Host) -> (&'static str, Option<&'static str>) {
    match (host.may.receive, host.is_here) {
        (false, _) => {
            ("refused", Some("it does not permit it: set `receive = true` below [may] in its agent.toml"))
        }
        (_, false) => ("away", Some("it is away: deliver again when it is here")),
        _ => ("working", None),
    }
}

/// Returns how long a host may take to read or write so many bytes.
fn patience(size_bytes: u64) -> Duration {
    ANSWER_TIME + Duration::from_secs(size_bytes / SLOWEST_DISK)
}

/// Returns what a host lacks, in words; `None` where that is nothing.
fn lacking(lacks: &[Lack]) -> Option<String> {
    let first = lacks.first()?;
    let more = match lacks.len() - 1 {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    let text = format!("it lacks {}: {}", first.path, first.why);
    Some(text.chars().take(MAX_REASON).collect::<String>() + &more)
}

/// Files with their names at the hosts.
type Named = (Vec<(String, PathBuf)>, Vec<FileView>);

/// Gives each file its name at the hosts: the last part of its path.
fn named(paths: Vec<PathBuf>) -> Result<Named, DeliveryError> {
    let wrong = |what: String| DeliveryError::Wrong(what);
    if paths.is_empty() {
        return Err(wrong("name at least one file".into()));
    }
    if paths.len() > MAX_FILES {
        return Err(wrong(format!("{} files are too many: at most {MAX_FILES} are delivered", paths.len())));
    }
    let mut files: BTreeMap<String, (PathBuf, u64)> = BTreeMap::new();
    for path in paths {
        let shown = path.display().to_string();
        if !path.is_absolute() {
            return Err(wrong(format!("{shown}: write a path of the manager's host that begins with /")));
        }
        // A link would be sent as one.
        let path = path.canonicalize().map_err(|error| wrong(format!("{shown}: {error}")))?;
        let found = path.metadata().map_err(|error| wrong(format!("{shown}: {error}")))?;
        if !found.is_file() {
            return Err(wrong(format!(
                "{shown} is no file: deliver the files that are in it, or an archive of it"
            )));
        }
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        check_path(&name).map_err(wrong)?;
        if let Some((other, _)) = files.insert(name.clone(), (path, found.len())) {
            return Err(wrong(format!("{} and {shown} would both be {name} at the hosts", other.display())));
        }
    }
    let views = files.iter().map(|(name, (_, size))| FileView { name: name.clone(), size_bytes: *size });
    let views = views.collect();
    Ok((files.into_iter().map(|(name, (path, _))| (name, path)).collect(), views))
}

/// Hashes files. Ends early when the delivery is ended.
fn hashed(
    sources: &[(String, PathBuf)],
    stop: &watch::Receiver<bool>,
) -> Result<Vec<Delivered>, DeliveryError> {
    let mut files = Vec::new();
    let mut buffer = vec![0; 1 << 20];
    for (name, path) in sources {
        let failed = |error: io::Error| DeliveryError::Wrong(format!("{}: {error}", path.display()));
        let (mut file, mut hasher, mut size_bytes) =
            (File::open(path).map_err(failed)?, blake3::Hasher::new(), 0);
        loop {
            let read = file.read(&mut buffer).map_err(failed)?;
            if read == 0 || *stop.borrow() {
                break;
            }
            hasher.update(&buffer[..read]);
            size_bytes += read as u64;
        }
        files.push(Delivered {
            path: name.clone(),
            size_bytes,
            blake3: hasher.finalize().to_hex().to_string(),
        });
    }
    Ok(files)
}

const SELECT: &str =
    "SELECT id, selection, who, into_folder, files, state, reason, ordered, ended, sent_bytes, unicast_bytes
                      FROM deliveries";

fn view(row: &Row) -> rusqlite::Result<DeliveryView> {
    Ok(DeliveryView {
        id: row.get(0)?,
        select: row.get(1)?,
        who: row.get(2)?,
        into: row.get(3)?,
        files: read(&row.get::<_, String>(4)?).unwrap_or_default(),
        state: of_word(&row.get::<_, String>(5)?).unwrap_or(DeliveryState::Failed),
        reason: row.get(6)?,
        ordered_ms: row.get(7)?,
        ended_ms: row.get(8)?,
        sent_bytes: row.get(9)?,
        unicast_bytes: row.get(10)?,
        hosts: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_have_one_name_each_at_the_hosts() {
        let folder = std::env::temp_dir().join(format!("treecast-named-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("other")).unwrap();
        for name in ["a", "b", "other/a"] {
            std::fs::write(folder.join(name), name).unwrap();
        }
        let paths = |names: &[&str]| named(names.iter().map(|name| folder.join(name)).collect());
        let (sources, files) = paths(&["b", "a"]).unwrap();
        assert_eq!(sources[0], ("a".to_owned(), folder.join("a")));
        assert_eq!(files[1], FileView { name: "b".into(), size_bytes: 1 });
        for (names, says) in [
            (&["a", "other/a"][..], "would both be a at the hosts"),
            (&["other"], "is no file"),
            (&["c"], "No such file"),
            (&[], "at least one file"),
        ] {
            let refused = paths(names).unwrap_err().to_string();
            assert!(refused.contains(says), "{names:?}: {refused}");
        }
        std::os::unix::fs::symlink("a", folder.join("link")).unwrap();
        assert_eq!(paths(&["link"]).unwrap().0[0].0, "a", "the file that a link leads to");
        let relative = named(vec!["a".into()]).unwrap_err().to_string();
        assert!(relative.contains("begins with /"), "{relative}");
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn what_a_host_lacks_is_one_line() {
        let lack = |path: &str| Lack { path: path.into(), why: "it is missing".into() };
        assert_eq!(lacking(&[]), None);
        assert_eq!(lacking(&[lack("a")]).unwrap(), "it lacks a: it is missing");
        assert_eq!(lacking(&[lack("a"), lack("b")]).unwrap(), "it lacks a: it is missing; and 1 more");
    }
}
