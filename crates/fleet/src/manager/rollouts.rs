//! Rollouts: a release goes to a fleet ring by ring, each ring by one session.
//!
//! In each ring: hosts make ready (`stage`), one sender delivers to all of them, each compares what came with what was signed, its own
//! command activates it, and the host reports its version. A ring begins when the one before has ended. When more hosts fail than the
//! limit says, the rollout stops by itself. Hosts that are away get the release when they come.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use rusqlite::{OptionalExtension, Row, params};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;
use utoipa::ToSchema;

mod delivery;
mod plan;
mod ways;

pub use self::plan::{NewPlan, PlanView};
use super::{
    hosts::{Host, HostId},
    hub::{Change, Hub, HubError, now_ms, too_long},
    store::StoreError,
};
use crate::{
    agent::releases::Activated,
    message::{Work, of_word, read, text_of, word},
    release::{Release, ReleaseError, Signed},
};

/// The longest time until a host has made ready, or has compared a release, beside what its size takes.
const ANSWER_TIME: Duration = Duration::from_secs(60);
/// The longest time of an activation. The agent ends it before.
const ACTIVATION_TIME: Duration = Duration::from_secs(700);
/// The time between two looks for hosts that were away, and for what the user wants.
const LOOK: Duration = Duration::from_millis(500);
/// The tag of hosts that keep their version.
const PINNED: &str = "pinned";
/// The reason why the rollouts of a withdrawn release stop.
const WITHDRAWN: &str = "the release was withdrawn";
/// The longest time until a window of a host opens.
const LONGEST_WINDOW: Duration = Duration::from_secs(15 * 24 * 3600);

/// A rollout that is wanted.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct NewRollout {
    /// The number of the release.
    pub release: i64,
    /// The rings, in order.
    pub rings: Vec<Ring>,
    /// How many hosts may fail before the rollout stops by itself.
    #[serde(default)]
    pub errors: u32,
    /// Whether a second person has to approve before it begins.
    #[serde(default)]
    pub approval: bool,
}

/// A ring: hosts that get a release together.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Ring {
    pub select: String,
    /// The most hosts, in the order of their names. `None`: all that are selected and were in no ring before.
    #[serde(default)]
    pub most: Option<u32>,
}

/// A release of the manager.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = Release)]
pub struct ReleaseView {
    pub id: i64,
    pub name: String,
    pub version: String,
    pub key: String,
    pub size_bytes: u64,
    pub files: usize,
    pub is_withdrawn: bool,
}

/// A rollout, as its users see it.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = Rollout)]
pub struct RolloutView {
    pub id: i64,
    pub release: i64,
    pub name: String,
    pub version: String,
    pub who: String,
    pub rings: Vec<Ring>,
    pub errors: u32,
    pub state: RolloutState,
    #[schema(required)]
    pub reason: Option<String>,
    /// What each ring's session has sent, beside what one connection a host would have.
    pub sent: Vec<Sent>,
    pub hosts: Vec<HostView>,
}

/// What the session of a ring has sent.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = RingSent)]
pub struct Sent {
    pub ring: u32,
    pub hosts: usize,
    /// What has left the sender by its own count: IP packets of all fanouts, and retransmissions.
    pub sent_bytes: u64,
    pub unicast_bytes: u64,
    /// `whole`, or `delta` where only what differs from the hosts' versions was sent.
    pub way: String,
    /// What a session sends of the release by each way, before losses. `delta_bytes` is `None` where a host had no earlier version.
    pub whole_bytes: u64,
    pub delta_bytes: Option<u64>,
}

/// A host in a rollout.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = RolloutHost)]
pub struct HostView {
    pub host: String,
    pub ring: u32,
    pub state: HostState,
    #[schema(required)]
    pub reason: Option<String>,
    /// When the host's own window opens, in milliseconds since 1970. `None` if it waits for no window.
    #[serde(default)]
    pub until_ms: Option<u64>,
}

/// The state of a rollout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum RolloutState {
    /// A second person has to approve first.
    Approval,
    Running,
    Paused,
    /// It has stopped by itself.
    Stopped,
    Done,
    Aborted,
}

impl RolloutState {
    pub const ALL: [RolloutState; 6] =
        [Self::Approval, Self::Running, Self::Paused, Self::Stopped, Self::Done, Self::Aborted];
}

/// The state of a host in a rollout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum HostState {
    Waiting,
    /// It gets the release when it comes.
    Away,
    /// It keeps its version.
    Pinned,
    Working,
    Done,
    Failed,
    /// It has gone back to the version before.
    Back,
}

/// The reason why a rollout is not made.
#[derive(Debug, Error)]
pub enum RolloutError {
    #[error(transparent)]
    Hub(#[from] HubError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Release(#[from] ReleaseError),
    #[error("{0}")]
    Wrong(String),
    #[error("{0}")]
    Missing(String),
    #[error("the release cannot be kept: {0}")]
    File(#[from] io::Error),
}

/// The releases and rollouts of a manager.
pub struct Rollouts {
    hub: Arc<Hub>,
    state: PathBuf,
    treecast: PathBuf,
    /// The rollouts that are worked at.
    active: Mutex<BTreeSet<i64>>,
}

/// What a rollout needs to know all the time.
struct Task {
    id: i64,
    release: Release,
    signed: Signed,
    folder: PathBuf,
    rings: Vec<Ring>,
    errors: u32,
}

/// A host that takes part in a ring.
type Member = (Host, u32);

/// What is written down of a host in a rollout.
struct Known {
    ring: u32,
    state: String,
    /// When its window opens, in milliseconds since 1970. `None` if it waits for none.
    until: Option<u64>,
}

impl Rollouts {
    /// Takes up the rollouts of an earlier start.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn start(hub: Arc<Hub>, state: PathBuf, treecast: PathBuf) -> Result<Arc<Self>, StoreError> {
        let query = "SELECT id FROM rollouts WHERE state = 'running'";
        let open: Vec<i64> =
            hub.store.with(move |of| of.prepare(query)?.query_map([], |row| row.get(0))?.collect()).await?;
        // Hosts that have the release and wait for their windows are to go back.
        let query =
            "SELECT rollout, hosts.name, releases.name FROM rollout_hosts JOIN hosts ON hosts.id = host
                     JOIN rollouts ON rollouts.id = rollout JOIN releases ON releases.id = release
                     WHERE rollout_hosts.state = 'done' AND until IS NOT NULL";
        let going_back: Vec<(i64, String, String)> = hub
            .store
            .with(move |of| {
                of.prepare(query)?.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?.collect()
            })
            .await?;
        let rollouts = Arc::new(Self { hub, state, treecast, active: Mutex::default() });
        open.into_iter().for_each(|id| rollouts.work_at(id));
        for (id, host, name) in going_back {
            rollouts.send_back(id, vec![host], name);
        }
        Ok(rollouts)
    }

    /// Keeps a release whose files are in a folder of this host. Returns its number.
    ///
    /// # Errors
    /// If the files are not those that were signed.
    pub async fn add(&self, who: &str, signed: Signed, folder: PathBuf) -> Result<i64, RolloutError> {
        let release = signed.check(None)?;
        let kept = self.folder(&release);
        let copy = (release.clone(), kept.clone());
        let copied = tokio::task::spawn_blocking(move || -> Result<(), RolloutError> {
            let (release, kept) = copy;
            release.verify(&folder)?;
            for path in release.files.keys() {
                let to = kept.join(path);
                std::fs::create_dir_all(to.parent().unwrap_or(&kept))?;
                std::fs::copy(folder.join(path), to)?;
            }
            Ok(release.verify(&kept)?)
        });
        copied.await.map_err(|error| RolloutError::Wrong(error.to_string()))??;
        let (who, text, now) = (who.to_owned(), text_of(&signed), now_ms());
        let insert = "INSERT INTO releases (name, version, signed, who, added) VALUES (?1, ?2, ?3, ?4, ?5)
                      ON CONFLICT (name, version) DO UPDATE SET signed = ?3, withdrawn = 0 RETURNING id";
        let row = (release.name, release.version, text, who, now);
        Ok(self.hub.store.with(move |of| of.query_row(insert, row, |row| row.get(0))).await?)
    }

    /// Returns where the files of a release are.
    fn folder(&self, release: &Release) -> PathBuf {
        self.state.join("releases").join(&release.name).join(&release.version)
    }

    /// Returns all releases, the latest first.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn releases(&self) -> Result<Vec<ReleaseView>, StoreError> {
        let query = "SELECT id, signed, withdrawn FROM releases ORDER BY id DESC";
        let rows: Vec<(i64, String, bool)> = self
            .hub
            .store
            .with(move |of| {
                of.prepare(query)?.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?.collect()
            })
            .await?;
        let view = |(id, text, is_withdrawn): (i64, String, bool)| {
            let signed: Signed = read(&text).ok()?;
            let release = signed.check(None).ok()?;
            Some(ReleaseView {
                id,
                size_bytes: release.size_bytes(),
                files: release.files.len(),
                name: release.name,
                version: release.version,
                key: signed.key,
                is_withdrawn,
            })
        };
        Ok(rows.into_iter().filter_map(view).collect())
    }

    /// Returns a release as it was signed.
    ///
    /// # Errors
    /// If there is none of this number.
    pub async fn signed(&self, id: i64) -> Result<Signed, RolloutError> {
        let query = "SELECT signed FROM releases WHERE id = ?1";
        let text: Option<String> =
            self.hub.store.with(move |of| of.query_row(query, [id], |row| row.get(0)).optional()).await?;
        let missing = || RolloutError::Missing(format!("there is no release {id}"));
        read(&text.ok_or_else(missing)?).map_err(RolloutError::Wrong)
    }

    /// Withdraws a release: its rollouts stop, and it is in no new one.
    ///
    /// # Errors
    /// If there is none.
    pub async fn withdraw(&self, id: i64) -> Result<(), RolloutError> {
        let update = "UPDATE releases SET withdrawn = 1 WHERE id = ?1";
        match self.hub.store.with(move |of| of.execute(update, [id])).await? {
            0 => Err(RolloutError::Missing(format!("there is no release {id}"))),
            _ => Ok(()),
        }
    }

    /// Begins a rollout, or lets it wait for an approval. Returns its number.
    ///
    /// # Errors
    /// What is wrong with it.
    pub async fn begin(self: &Arc<Self>, who: &str, new: NewRollout) -> Result<i64, RolloutError> {
        if new.rings.is_empty() {
            return Err(RolloutError::Wrong("a rollout has at least one ring".into()));
        }
        for ring in &new.rings {
            self.hub.select_some(&ring.select).await?;
        }
        let query = "SELECT name, version, withdrawn FROM releases WHERE id = ?1";
        let columns = |row: &Row| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
        let release: Option<(String, String, bool)> =
            self.hub.store.with(move |of| of.query_row(query, [new.release], columns).optional()).await?;
        match release {
            None => return Err(RolloutError::Missing(format!("there is no release {}", new.release))),
            Some((name, version, true)) => {
                return Err(RolloutError::Wrong(format!("{name} {version} is withdrawn")));
            }
            Some(_) => {}
        }
        let release = self.signed(new.release).await?.check(None)?;
        let new = if release.kind.is_agent() { one_first(new) } else { new };
        let (who, rings, now) = (who.to_owned(), text_of(&new.rings), now_ms());
        let state = if new.approval { "approval" } else { "running" };
        let insert = "INSERT INTO rollouts (release, rings, errors, who, state, ordered) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
        let id = self
            .hub
            .store
            .with(move |of| {
                of.execute(insert, params![new.release, rings, new.errors, who, state, now])?;
                Ok(of.last_insert_rowid())
            })
            .await?;
        if state == "running" {
            self.work_at(id);
        }
        self.hub.tell(Change::Rollout { id });
        Ok(id)
    }

    /// Changes what becomes of a rollout.
    ///
    /// # Errors
    /// If there is no such rollout, or that cannot be done with it now.
    pub async fn change(self: &Arc<Self>, id: i64, who: &str, to: &str) -> Result<(), RolloutError> {
        let view = self.one(id).await?;
        let can = match (to, word(&view.state).as_str()) {
            ("approve", "approval") if view.who == who => {
                return Err(RolloutError::Wrong(format!("{who} has ordered it: a second person approves")));
            }
            ("approve", "approval") | ("go", "paused") => Some("running"),
            ("go", "stopped") => {
                // Whoever lets it go on accepts what has failed so far. One more failure stops it again.
                let accept = "UPDATE rollouts SET errors = max(errors, (SELECT count(*) FROM rollout_hosts
                              WHERE rollout = ?1 AND state = 'failed')) WHERE id = ?1";
                self.hub.store.with(move |of| of.execute(accept, [id])).await?;
                Some("running")
            }
            ("pause", "running") => Some("paused"),
            ("abort", "approval" | "running" | "paused" | "stopped") => Some("aborted"),
            ("retry", "stopped" | "done" | "paused") => {
                let again = "UPDATE rollout_hosts SET state = 'waiting', reason = NULL WHERE rollout = ?1 AND state = 'failed'";
                self.hub.store.with(move |of| of.execute(again, [id])).await?;
                Some("running")
            }
            _ => None,
        };
        let state = can.ok_or_else(|| {
            RolloutError::Wrong(format!("rollout {id} is {}: it cannot {to} now", word(&view.state)))
        })?;
        self.set_state(id, state, None).await?;
        if state == "running" {
            self.work_at(id);
        }
        Ok(())
    }

    /// Has all hosts that a rollout has updated go back to the version before.
    ///
    /// # Errors
    /// If there is no such rollout.
    pub async fn go_back(self: &Arc<Self>, id: i64) -> Result<(), RolloutError> {
        let view = self.one(id).await?;
        if view.state == RolloutState::Running {
            self.set_state(id, "aborted", Some("it goes back")).await?;
        }
        let done: Vec<String> =
            view.hosts.into_iter().filter(|of| of.state == HostState::Done).map(|of| of.host).collect();
        self.send_back(id, done, view.name);
        Ok(())
    }

    /// Has hosts go back to the version of a release before, each in its own window.
    fn send_back(self: &Arc<Self>, id: i64, hosts: Vec<String>, release: String) {
        let rollouts = Arc::clone(self);
        tokio::spawn(async move {
            let back = hosts.iter().map(|host| rollouts.one_back(id, host, &release));
            futures_util::future::join_all(back).await;
        });
    }

    async fn one_back(&self, id: i64, name: &str, release: &str) {
        // A host that was removed meanwhile has no state any more.
        let Ok(host) = self.hub.host(name).await else { return };
        let went = async {
            loop {
                let work = Work::GoBack { name: release.to_owned() };
                match activated(self.ask(&host, work, ACTIVATION_TIME).await?)? {
                    Activated::Version(version) => {
                        self.refresh(&host).await?;
                        return Ok::<_, String>(version);
                    }
                    Activated::Replaced => return Err("it does not say which version it has".into()),
                    Activated::Later(later) => {
                        let says = format!("it is to go back: {}", later.says);
                        let wait = self.set_later(id, &host, "done", &says, later.opens_ms).await;
                        wait.map_err(|error| error.to_string())?;
                        self.reopens(&host, later.opens_ms).await;
                    }
                }
            }
        };
        let (state, reason) = match went.await {
            Ok(version) => ("back", format!("it went back to {version}")),
            Err(reason) => ("failed", format!("it did not go back: {reason}")),
        };
        if let Err(error) = self.set_host(id, &host, None, state, Some(&reason)).await {
            tracing::error!("rollout {id}: {name}: {reason}; {error}");
        }
    }

    /// Waits until a host is here and its window is open, or it has come again: it may have other windows then.
    async fn reopens(&self, host: &Host, opens_ms: u64) {
        let before = self.hub.connection(host.id).await;
        loop {
            tokio::time::sleep(LOOK).await;
            match self.hub.connection(host.id).await {
                None => {}
                now if now != before || opens_ms <= now_ms() => return,
                Some(_) => {}
            }
        }
    }

    /// Returns all rollouts without their hosts, the latest first.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn all(&self) -> Result<Vec<RolloutView>, StoreError> {
        let query = format!("{SELECT} ORDER BY rollouts.id DESC LIMIT 1000");
        self.hub.store.with(move |of| of.prepare(&query)?.query_map([], view)?.collect()).await
    }

    /// Returns a rollout with its hosts.
    ///
    /// # Errors
    /// If there is none of this number.
    pub async fn one(&self, id: i64) -> Result<RolloutView, RolloutError> {
        let query = format!("{SELECT} WHERE rollouts.id = ?1");
        let found = self.hub.store.with(move |of| {
            let Some(found) = of.query_row(&query, [id], view).optional()? else { return Ok(None) };
            let hosts = "SELECT hosts.name, ring, rollout_hosts.state, reason, until FROM rollout_hosts
                         JOIN hosts ON hosts.id = host WHERE rollout = ?1 ORDER BY ring, hosts.name";
            let host = |row: &Row| {
                let state = of_word(&row.get::<_, String>(2)?).unwrap_or(HostState::Failed);
                let (host, ring, reason, until_ms) = (row.get(0)?, row.get(1)?, row.get(3)?, row.get(4)?);
                Ok(HostView { host, ring, state, reason, until_ms })
            };
            let hosts = of.prepare(hosts)?.query_map([id], host)?.collect::<Result<_, _>>()?;
            let sent = "SELECT ring, hosts, sent_bytes, unicast_bytes, way, whole_bytes, delta_bytes
                        FROM rollout_sent WHERE rollout = ?1 ORDER BY id";
            let one = |row: &Row| {
                Ok(Sent {
                    ring: row.get(0)?,
                    hosts: row.get(1)?,
                    sent_bytes: row.get(2)?,
                    unicast_bytes: row.get(3)?,
                    way: row.get(4)?,
                    whole_bytes: row.get(5)?,
                    delta_bytes: row.get(6)?,
                })
            };
            let sent = of.prepare(sent)?.query_map([id], one)?.collect::<Result<_, _>>()?;
            Ok(Some(RolloutView { hosts, sent, ..found }))
        });
        found.await?.ok_or_else(|| RolloutError::Missing(format!("there is no rollout {id}")))
    }

    /// Works at a rollout until it ends, unless somebody does already.
    fn work_at(self: &Arc<Self>, id: i64) {
        if !self.active.lock().unwrap_or_else(PoisonError::into_inner).insert(id) {
            return;
        }
        let rollouts = Arc::clone(self);
        tokio::spawn(async move {
            let ended = rollouts.roll(id).await;
            rollouts.active.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
            if let Err(error) = ended {
                let reason = error.to_string();
                if let Err(error) = rollouts.set_state(id, "stopped", Some(&reason)).await {
                    tracing::error!("rollout {id}: {reason}; {error}");
                }
            }
        });
    }

    async fn roll(&self, id: i64) -> Result<(), RolloutError> {
        let task = self.task(id).await?;
        for (number, ring) in (1..).zip(&task.rings) {
            if !self.goes_on(&task).await? {
                return Ok(());
            }
            let members = self.members(&task, number, ring).await?;
            self.deliver(&task, members).await?;
            // A ring is over when the windows of its hosts have come, too.
            let is_of_ring = |of: u32, state: &str| of == number && state == "waiting";
            if !self.finish_late(&task, &is_of_ring).await? {
                return Ok(());
            }
            if number == 1 && task.release.kind.is_agent() && !self.has_reported(id).await? {
                let reason = "the first host has not reported with the new program, so no other host gets it";
                return Ok(self.set_state(id, "stopped", Some(reason)).await?);
            }
        }
        // Whoever was away gets it on coming.
        if self.finish_late(&task, &|_, state| state == "away" || state == "waiting").await? {
            self.set_state(id, "done", None).await?;
        }
        Ok(())
    }

    /// Whether a host has reported the version of a rollout.
    async fn has_reported(&self, id: i64) -> Result<bool, StoreError> {
        let query = "SELECT count(*) FROM rollout_hosts WHERE rollout = ?1 AND state = 'done'";
        let done: u32 = self.hub.store.with(move |of| of.query_row(query, [id], |row| row.get(0))).await?;
        Ok(done > 0)
    }

    /// Delivers to hosts as they come, and as their windows open, until none of these rings and states is left. Returns whether the
    /// rollout goes on.
    async fn finish_late(
        &self,
        task: &Task,
        is_meant: &(dyn Fn(u32, &str) -> bool + Sync),
    ) -> Result<bool, RolloutError> {
        let mut connections = BTreeMap::new();
        while self.goes_on(task).await? {
            let (late, is_waiting) = self.late(task, is_meant, &mut connections).await?;
            match (late.is_empty(), is_waiting) {
                (true, false) => return Ok(true),
                (true, true) => tokio::time::sleep(LOOK).await,
                (false, _) => self.deliver(task, late).await?,
            }
        }
        Ok(false)
    }

    async fn task(&self, id: i64) -> Result<Task, RolloutError> {
        let query = "SELECT signed, rings, errors FROM rollouts JOIN releases ON releases.id = release WHERE rollouts.id = ?1";
        let (signed, rings, errors): (String, String, u32) = self
            .hub
            .store
            .with(move |of| of.query_row(query, [id], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))))
            .await?;
        let signed: Signed = read(&signed).map_err(RolloutError::Wrong)?;
        let release = signed.check(None)?;
        let folder = self.folder(&release);
        Ok(Task { id, release, signed, folder, rings: read(&rings).map_err(RolloutError::Wrong)?, errors })
    }

    /// Whether a rollout still runs. One with too many failures stops here, and one whose release was withdrawn.
    async fn goes_on(&self, task: &Task) -> Result<bool, RolloutError> {
        let id = task.id;
        let query = "SELECT rollouts.state, withdrawn,
                     (SELECT count(*) FROM rollout_hosts WHERE rollout = rollouts.id AND state = 'failed')
                     FROM rollouts JOIN releases ON releases.id = release WHERE rollouts.id = ?1";
        let (state, is_withdrawn, failed): (String, bool, u32) = self
            .hub
            .store
            .with(move |of| of.query_row(query, [id], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))))
            .await?;
        let reason = match (is_withdrawn, failed > task.errors) {
            (true, _) => WITHDRAWN.to_owned(),
            (_, true) => format!("{failed} failed, and at most {} may", task.errors),
            _ => return Ok(state == "running"),
        };
        if state == "running" {
            self.set_state(id, "stopped", Some(&reason)).await?;
        }
        Ok(false)
    }

    /// Returns the hosts of a ring that are to be worked at now, and enters those that are new.
    async fn members(&self, task: &Task, number: u32, ring: &Ring) -> Result<Vec<Member>, RolloutError> {
        let known = self.known(task.id).await?;
        let mut selected = self.hub.select(&ring.select).await?;
        if number == 1 && task.release.kind.is_agent() {
            // The first host is one that can report.
            selected.sort_by_key(|host| !host.is_here);
        }
        let has_begun = known.values().any(|of| of.ring == number);
        let mut members = Vec::new();
        let mut entered = 0;
        for host in selected {
            match known.get(&host.id) {
                Some(Known { ring, state, .. })
                    if *ring == number && state != "done" && state != "failed" && state != "pinned" =>
                {
                    members.push((host, number));
                }
                Some(_) => {}
                // A ring that has begun takes nobody more.
                None if has_begun || ring.most.is_some_and(|most| entered >= most) => {}
                None => {
                    entered += 1;
                    members.push((host, number));
                }
            }
        }
        Ok(members)
    }

    /// Returns the hosts that were away, waited for their windows or are to be tried again, and can be worked at now; and whether there
    /// are others that cannot yet. `is_meant` chooses them by ring and state. `connections` has the connection of each host that waits
    /// for its window: one that has come again may have other windows, and is asked at once.
    async fn late(
        &self,
        task: &Task,
        is_meant: &(dyn Fn(u32, &str) -> bool + Sync),
        connections: &mut BTreeMap<HostId, u64>,
    ) -> Result<(Vec<Member>, bool), RolloutError> {
        let known = self.known(task.id).await?;
        let now_ms = now_ms();
        let (mut late, mut is_waiting) = (Vec::new(), false);
        for host in self.hub.hosts().await? {
            let Some(Known { ring, state, until }) = known.get(&host.id) else { continue };
            if !is_meant(*ring, state) {
                continue;
            }
            let connection = self.hub.connection(host.id).await;
            let has_come_again = connection.is_some_and(|now| {
                let before = connections.entry(host.id).or_insert(now);
                std::mem::replace(before, now) != now
            });
            let is_due = until.is_none_or(|until| until <= now_ms) || has_come_again;
            match host.is_here && is_due {
                true => late.push((host, *ring)),
                false => is_waiting = true,
            }
        }
        Ok((late, is_waiting))
    }

    async fn known(&self, id: i64) -> Result<BTreeMap<HostId, Known>, StoreError> {
        let query = "SELECT host, ring, state, until FROM rollout_hosts WHERE rollout = ?1";
        let rows: Vec<(HostId, Known)> = self
            .hub
            .store
            .with(move |of| {
                let known = |row: &Row| {
                    let known = Known { ring: row.get(1)?, state: row.get(2)?, until: row.get(3)? };
                    Ok((row.get(0)?, known))
                };
                of.prepare(query)?.query_map([id], known)?.collect()
            })
            .await?;
        Ok(rows.into_iter().collect())
    }

    /// Asks a host for its facts. Returns the versions of its releases.
    async fn refresh(&self, host: &Host) -> Result<BTreeMap<String, String>, String> {
        let facts = self.ask(host, Work::Facts, ANSWER_TIME).await?;
        let facts: crate::facts::Facts = serde_json::from_value(facts).map_err(|error| error.to_string())?;
        self.hub.note_facts(host.id, facts.clone()).await.map_err(|error| error.to_string())?;
        self.hub.tell(Change::Host { id: host.id, is_here: true });
        Ok(facts.releases)
    }

    /// Orders something of a host, and waits for the answer.
    async fn ask(&self, host: &Host, work: Work, patience: Duration) -> Result<Value, String> {
        self.hub.ask(host.id, work, too_long(patience)).await
    }

    async fn set_state(&self, id: i64, state: &'static str, reason: Option<&str>) -> Result<(), StoreError> {
        let reason = reason.map(str::to_owned);
        let update = "UPDATE rollouts SET state = ?2, reason = ?3 WHERE id = ?1";
        self.hub.store.with(move |of| of.execute(update, params![id, state, reason])).await?;
        self.hub.tell(Change::Rollout { id });
        Ok(())
    }

    /// Writes down how a host fares. `ring` is given when it is new in the rollout.
    async fn set_host(
        &self,
        id: i64,
        host: &Host,
        ring: Option<u32>,
        state: &'static str,
        reason: Option<&str>,
    ) -> Result<(), StoreError> {
        let (host, reason) = (host.id, reason.map(str::to_owned));
        let set = "INSERT INTO rollout_hosts (rollout, host, ring, state, reason) VALUES (?1, ?2, coalesce(?3, 1), ?4, ?5)
                   ON CONFLICT (rollout, host) DO UPDATE SET state = ?4, reason = ?5, until = NULL";
        self.hub.store.with(move |of| of.execute(set, params![id, host, ring, state, reason])).await?;
        self.hub.tell(Change::Rollout { id });
        Ok(())
    }

    /// Writes down that a host waits for its own window, which opens at a time by its clock.
    async fn set_later(
        &self,
        id: i64,
        host: &Host,
        state: &'static str,
        says: &str,
        opens_ms: u64,
    ) -> Result<(), StoreError> {
        // A host whose clock is far off is asked again within two weeks all the same.
        let opens_ms = opens_ms.min(now_ms() + LONGEST_WINDOW.as_millis() as u64);
        let (host, says) = (host.id, format!("{says:.300}"));
        let set =
            "UPDATE rollout_hosts SET state = ?3, reason = ?4, until = ?5 WHERE rollout = ?1 AND host = ?2";
        self.hub.store.with(move |of| of.execute(set, params![id, host, state, says, opens_ms])).await?;
        self.hub.tell(Change::Rollout { id });
        Ok(())
    }
}

/// Puts a ring of one host before the others, unless there is one.
fn one_first(mut new: NewRollout) -> NewRollout {
    if let Some(first) = new.rings.first().filter(|ring| ring.most != Some(1)) {
        let one = Ring { select: first.select.clone(), most: Some(1) };
        new.rings.insert(0, one);
    }
    new
}

/// Reads what a host says of an activation.
fn activated(value: Value) -> Result<Activated, String> {
    match value {
        Value::String(version) => Ok(Activated::Version(version)),
        other => serde_json::from_value(other).map(Activated::Later).map_err(|error| not_understood(&error)),
    }
}

fn not_understood(error: &serde_json::Error) -> String {
    format!("its agent is of another version, and its answer is not understood: {error}")
}

const SELECT: &str =
    "SELECT rollouts.id, release, releases.name, releases.version, rollouts.who, rings, errors, state, reason
                      FROM rollouts JOIN releases ON releases.id = release";

fn view(row: &Row) -> rusqlite::Result<RolloutView> {
    Ok(RolloutView {
        id: row.get(0)?,
        release: row.get(1)?,
        name: row.get(2)?,
        version: row.get(3)?,
        who: row.get(4)?,
        rings: read(&row.get::<_, String>(5)?).unwrap_or_default(),
        errors: row.get(6)?,
        state: of_word(&row.get::<_, String>(7)?).unwrap_or(RolloutState::Stopped),
        reason: row.get(8)?,
        sent: Vec::new(),
        hosts: Vec::new(),
    })
}
