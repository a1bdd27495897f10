//! Rollouts: a release goes to a fleet ring by ring, each ring by one session.
//!
//! In each ring: hosts make ready (`stage`), one sender delivers to all of them, each compares what came with what was signed, its own
//! command activates it, and the host reports its version. A ring begins when the one before has ended. When more hosts fail than the
//! limit says, the rollout stops by itself. Hosts that are away get the release when they come.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::PathBuf,
    process::Stdio,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use rusqlite::{OptionalExtension, Row, params};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
    sync::mpsc,
    time::timeout,
};
use utoipa::ToSchema;

use super::{
    hosts::{Host, HostId},
    hub::{Change, Hub, HubError, now_ms, too_long},
    store::StoreError,
};
use crate::{
    message::{Program, Report, Start, Work, of_word, read, text_of, word},
    release::{Release, ReleaseError, Signed},
};

/// The longest time until a host has made ready, or has compared a release, beside what its size takes.
const ANSWER_TIME: Duration = Duration::from_secs(60);
/// The longest time of an activation. The agent ends it before.
const ACTIVATION_TIME: Duration = Duration::from_secs(700);
/// The longest time that a sender waits for the receivers of a ring.
const GATHER_TIME: Duration = Duration::from_secs(60);
/// The slowest delivery that is waited for, in bytes a second.
const SLOWEST_BYTES: u64 = 10_000;
/// The time between two looks for hosts that were away, and for what the user wants.
const LOOK: Duration = Duration::from_millis(500);
/// The tag of hosts that keep their version.
const PINNED: &str = "pinned";

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
    pub sent_bytes: u64,
    pub unicast_bytes: u64,
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

impl Rollouts {
    /// Takes up the rollouts of an earlier start.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn start(hub: Arc<Hub>, state: PathBuf, treecast: PathBuf) -> Result<Arc<Self>, StoreError> {
        let query = "SELECT id FROM rollouts WHERE state = 'running'";
        let open: Vec<i64> =
            hub.store.with(move |of| of.prepare(query)?.query_map([], |row| row.get(0))?.collect()).await?;
        let rollouts = Arc::new(Self { hub, state, treecast, active: Mutex::default() });
        open.into_iter().for_each(|id| rollouts.work_at(id));
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
            ("approve", "approval") | ("go", "paused" | "stopped") => Some("running"),
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
        let rollouts = Arc::clone(self);
        tokio::spawn(async move {
            let back = done.iter().map(|host| rollouts.one_back(id, host, &view.name));
            futures_util::future::join_all(back).await;
        });
        Ok(())
    }

    async fn one_back(&self, id: i64, name: &str, release: &str) {
        // A host that was removed meanwhile has no state any more.
        let Ok(host) = self.hub.host(name).await else { return };
        let went = async {
            let work = Work::GoBack { name: release.to_owned() };
            let version = self.ask(&host, work, ACTIVATION_TIME).await?;
            self.refresh(&host).await?;
            Ok::<_, String>(version.as_str().unwrap_or("the version before").to_owned())
        };
        let (state, reason) = match went.await {
            Ok(version) => ("back", format!("it went back to {version}")),
            Err(reason) => ("failed", format!("it did not go back: {reason}")),
        };
        if let Err(error) = self.set_host(id, &host, None, state, Some(&reason)).await {
            tracing::error!("rollout {id}: {name}: {reason}; {error}");
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
            let hosts = "SELECT hosts.name, ring, rollout_hosts.state, reason FROM rollout_hosts
                         JOIN hosts ON hosts.id = host WHERE rollout = ?1 ORDER BY ring, hosts.name";
            let host = |row: &Row| {
                let state = of_word(&row.get::<_, String>(2)?).unwrap_or(HostState::Failed);
                Ok(HostView { host: row.get(0)?, ring: row.get(1)?, state, reason: row.get(3)? })
            };
            let hosts = of.prepare(hosts)?.query_map([id], host)?.collect::<Result<_, _>>()?;
            let sent = "SELECT ring, hosts, sent_bytes, unicast_bytes FROM rollout_sent WHERE rollout = ?1 ORDER BY id";
            let one = |row: &Row| {
                Ok(Sent { ring: row.get(0)?, hosts: row.get(1)?, sent_bytes: row.get(2)?, unicast_bytes: row.get(3)? })
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
        }
        // Whoever was away gets it on coming, and whoever failed on being tried again.
        while self.goes_on(&task).await? {
            let (late, is_waiting) = self.late(&task).await?;
            match (late.is_empty(), is_waiting) {
                (true, false) => return Ok(self.set_state(id, "done", None).await?),
                (true, true) => tokio::time::sleep(LOOK).await,
                (false, _) => self.deliver(&task, late).await?,
            }
        }
        Ok(())
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
            (true, _) => "the release was withdrawn".to_owned(),
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
        let selected = self.hub.select(&ring.select).await?;
        let has_begun = known.values().any(|(of, _)| *of == number);
        let mut members = Vec::new();
        let mut entered = 0;
        for host in selected {
            match known.get(&host.id) {
                Some((of, state))
                    if *of == number && state != "done" && state != "failed" && state != "pinned" =>
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

    /// Returns the hosts that were away or are to be tried again and are here now, and whether others are still away.
    async fn late(&self, task: &Task) -> Result<(Vec<Member>, bool), RolloutError> {
        let known = self.known(task.id).await?;
        let (mut late, mut is_waiting) = (Vec::new(), false);
        for host in self.hub.hosts().await? {
            match known.get(&host.id) {
                Some((ring, state)) if state == "away" || state == "waiting" => match host.is_here {
                    true => late.push((host, *ring)),
                    false => is_waiting = true,
                },
                _ => {}
            }
        }
        Ok((late, is_waiting))
    }

    async fn known(&self, id: i64) -> Result<BTreeMap<HostId, (u32, String)>, StoreError> {
        let query = "SELECT host, ring, state FROM rollout_hosts WHERE rollout = ?1";
        let rows: Vec<(HostId, u32, String)> = self
            .hub
            .store
            .with(move |of| {
                of.prepare(query)?
                    .query_map([id], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
                    .collect()
            })
            .await?;
        Ok(rows.into_iter().map(|(host, ring, state)| (host, (ring, state))).collect())
    }

    /// Delivers to hosts by one session, has them activate it, and writes down how each fared.
    async fn deliver(&self, task: &Task, members: Vec<Member>) -> Result<(), RolloutError> {
        let mut working = Vec::new();
        for (host, ring) in members {
            let has_it = host.facts.releases.get(&task.release.name) == Some(&task.release.version);
            let (state, reason) = match () {
                () if host.tags.contains_key(PINNED) => ("pinned", Some("the host keeps its version")),
                () if has_it => ("done", None),
                () if !host.is_here => ("away", None),
                () => ("working", None),
            };
            self.set_host(task.id, &host, Some(ring), state, reason).await?;
            if state == "working" {
                working.push((host, ring));
            }
        }
        let staged = self.stage(task, working).await?;
        let lacking: Vec<&(Member, Option<PathBuf>)> =
            staged.iter().filter(|(_, folder)| folder.is_some()).collect();
        if !lacking.is_empty() {
            self.send(task, &lacking).await?;
        }
        let finish = staged.iter().map(|((host, _), _)| self.finish(task, host));
        for finished in futures_util::future::join_all(finish).await {
            finished?;
        }
        Ok(())
    }

    /// Has hosts make ready. Returns each that did with the folder for the files; `None` where it has them.
    async fn stage(
        &self,
        task: &Task,
        hosts: Vec<Member>,
    ) -> Result<Vec<(Member, Option<PathBuf>)>, RolloutError> {
        let stage = hosts
            .iter()
            .map(|(host, _)| self.ask(host, Work::Stage { signed: task.signed.clone() }, ANSWER_TIME));
        let answers = futures_util::future::join_all(stage).await;
        let mut staged = Vec::new();
        for (member, answer) in hosts.into_iter().zip(answers) {
            match answer {
                Ok(folder) => staged.push((member, folder.as_str().map(PathBuf::from))),
                Err(reason) => self.set_host(task.id, &member.0, None, "failed", Some(&reason)).await?,
            }
        }
        Ok(staged)
    }

    /// Sends the release to all of these hosts by one session. Who did not get it is found by comparing.
    async fn send(&self, task: &Task, hosts: &[&(Member, Option<PathBuf>)]) -> Result<(), RolloutError> {
        let (mut sender, mut lines) = self.start_sender(task, hosts.len())?;
        let mut ticket = None;
        let mut sent_bytes = 0;
        let mut receivers = Vec::new();
        let longest = GATHER_TIME * 2 + Duration::from_secs(task.release.size_bytes() / SLOWEST_BYTES);
        let hear = async {
            while let Ok(Some(line)) = lines.next_line().await {
                let event: Value = serde_json::from_str(&line).unwrap_or_default();
                sent_bytes = event["sent_bytes"].as_u64().map_or(sent_bytes, |sent| sent.max(sent_bytes));
                if ticket.is_none() && event["event"] == "ticket" {
                    let text = event["ticket"].as_str().unwrap_or_default().to_owned();
                    receivers = self.start_receivers(hosts, &text).await?;
                    ticket = Some(text);
                }
            }
            Ok::<_, RolloutError>(())
        };
        let heard = timeout(longest, hear).await;
        // One that is done has ended by itself.
        _ = sender.kill().await;
        heard.unwrap_or(Ok(()))?;
        let ended = receivers.into_iter().map(|reports| timeout(ANSWER_TIME, last(reports)));
        futures_util::future::join_all(ended).await;
        let unicast_bytes = task.release.size_bytes() * hosts.len() as u64;
        let row = (task.id, hosts.first().map_or(1, |of| of.0.1), hosts.len(), sent_bytes, unicast_bytes);
        let insert = "INSERT INTO rollout_sent (rollout, ring, hosts, sent_bytes, unicast_bytes) VALUES (?1, ?2, ?3, ?4, ?5)";
        self.hub.store.with(move |of| of.execute(insert, row)).await?;
        Ok(())
    }

    fn start_sender(
        &self,
        task: &Task,
        receivers: usize,
    ) -> io::Result<(Child, tokio::io::Lines<BufReader<tokio::process::ChildStdout>>)> {
        let mut command = Command::new(&self.treecast);
        command.args(["send", "--json", "--fanout", "auto", "--wait", &receivers.to_string()]);
        command.args(["--wait-timeout", &format!("{}s", GATHER_TIME.as_secs())]);
        // With a slash at the end, what is in the folder.
        command.arg(task.folder.join(""));
        let mut sender = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()?;
        let output = sender.stdout.take().ok_or_else(|| io::Error::other("the sender has no output"))?;
        Ok((sender, BufReader::new(output).lines()))
    }

    async fn start_receivers(
        &self,
        hosts: &[&(Member, Option<PathBuf>)],
        ticket: &str,
    ) -> Result<Vec<mpsc::UnboundedReceiver<Report>>, RolloutError> {
        let mut receivers = Vec::new();
        for ((host, _), folder) in hosts {
            let Some(folder) = folder else { continue };
            let words =
                ["receive", "--json", "--name", &host.name, "--interface", &host.facts.interface, "--into"];
            let mut arguments: Vec<String> = words.map(str::to_owned).into();
            arguments.extend([folder.to_string_lossy().into_owned(), ticket.to_owned()]);
            let limit = GATHER_TIME * 3 + Duration::from_secs(3600);
            let start = Start {
                program: Program::Treecast,
                arguments,
                folder: None,
                at_ns: None,
                limit_ms: limit.as_millis() as u64,
            };
            receivers.push(self.hub.order_and_hear(host.id, Work::Start(start)).await?.1);
        }
        Ok(receivers)
    }

    /// Has a host compare what came and activate it, and waits until the host itself reports the version.
    async fn finish(&self, task: &Task, host: &Host) -> Result<(), RolloutError> {
        let finished = async {
            let signed = || task.signed.clone();
            let patience = ANSWER_TIME + Duration::from_secs(task.release.size_bytes() / 10_000_000);
            if let Some(how) = self.ask(host, Work::Verify { signed: signed() }, patience).await?.as_str() {
                return Err(format!("not all of it came: {how}"));
            }
            self.ask(host, Work::Activate { signed: signed() }, ACTIVATION_TIME).await?;
            let versions = self.refresh(host).await?;
            match versions.get(&task.release.name) {
                Some(version) if *version == task.release.version => Ok(()),
                other => Err(format!(
                    "after the activation it reports {}",
                    other.map_or("no version", String::as_str)
                )),
            }
        };
        match finished.await {
            Ok(()) => self.set_host(task.id, host, None, "done", None).await?,
            Err(reason) => self.set_host(task.id, host, None, "failed", Some(&reason)).await?,
        }
        Ok(())
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
                   ON CONFLICT (rollout, host) DO UPDATE SET state = ?4, reason = ?5";
        self.hub.store.with(move |of| of.execute(set, params![id, host, ring, state, reason])).await?;
        self.hub.tell(Change::Rollout { id });
        Ok(())
    }
}

/// Waits for the last report about an order.
async fn last(mut reports: mpsc::UnboundedReceiver<Report>) {
    while let Some(report) = reports.recv().await {
        if report.what.is_last() {
            return;
        }
    }
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
