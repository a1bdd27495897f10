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
    sync::{mpsc, watch},
    time::timeout,
};

use super::{
    hosts::{Host, HostId},
    hub::{Change, Hub, HubError, now_ms, too_long},
    store::StoreError,
};
use crate::{
    message::{Program, Report, Start, What, Work, read, text_of},
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
/// The reason why the rollouts of a withdrawn release stop.
const WITHDRAWN: &str = "the release was withdrawn";
/// The time that a receiver waits for room on its disk, in seconds. The host has been asked for its room before.
const ROOM_SECONDS: &str = "5";
/// The tag of hosts that keep their version.
const PINNED: &str = "pinned";

/// A rollout that is wanted.
#[derive(Debug, Clone, Serialize, Deserialize)]
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
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Ring {
    pub select: String,
    /// The most hosts, in the order of their names. `None`: all that are selected and were in no ring before.
    #[serde(default)]
    pub most: Option<u32>,
}

/// A release of the manager.
#[derive(Debug, Clone, Serialize, Deserialize)]
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
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RolloutView {
    pub id: i64,
    pub release: i64,
    pub name: String,
    pub version: String,
    pub who: String,
    pub rings: Vec<Ring>,
    pub errors: u32,
    /// approval, running, paused, stopped, done or aborted
    pub state: String,
    pub reason: Option<String>,
    /// What each ring's session has sent, beside what one connection a host would have.
    pub sent: Vec<Sent>,
    pub hosts: Vec<HostView>,
}

/// What the session of a ring has sent.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Sent {
    pub ring: u32,
    pub hosts: usize,
    /// What has left the sender by its own count: IP packets of all fanouts, and retransmissions.
    pub sent_bytes: u64,
    pub unicast_bytes: u64,
}

/// A host in a rollout.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct HostView {
    pub host: String,
    pub ring: u32,
    /// waiting, away, pinned, working, done or failed
    pub state: String,
    pub reason: Option<String>,
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

/// The receiver of a host, by the order that has started it.
struct Receiver {
    host: HostId,
    order: u64,
    reports: mpsc::UnboundedReceiver<Report>,
}

/// Tells a delivery that it is to end, and why.
struct Interruption(watch::Receiver<Option<&'static str>>);

impl Interruption {
    /// Returns why the delivery is to end; `None` while it may go on.
    fn reason(&self) -> Option<&'static str> {
        *self.0.borrow()
    }

    /// Waits until the delivery is to end. Returns why.
    async fn comes(&self) -> &'static str {
        let mut heard = self.0.clone();
        let reason = heard.wait_for(Option::is_some).await.map(|reason| *reason);
        match reason {
            Ok(reason) => reason.unwrap_or_default(),
            // Nobody looks any more, so nothing interrupts it.
            Err(_) => std::future::pending().await,
        }
    }
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
        let releases = self.releases().await?;
        let release = releases.iter().find(|release| release.id == new.release);
        match release {
            None => return Err(RolloutError::Missing(format!("there is no release {}", new.release))),
            Some(release) if release.is_withdrawn => {
                return Err(RolloutError::Wrong(format!(
                    "{} {} is withdrawn",
                    release.name, release.version
                )));
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
        let can = match (to, view.state.as_str()) {
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
            RolloutError::Wrong(format!("rollout {id} is {}: it cannot {to} now", view.state))
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
        if view.state == "running" {
            self.set_state(id, "aborted", Some("it goes back")).await?;
        }
        let done: Vec<String> =
            view.hosts.into_iter().filter(|of| of.state == "done").map(|of| of.host).collect();
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
                Ok(HostView { host: row.get(0)?, ring: row.get(1)?, state: row.get(2)?, reason: row.get(3)? })
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

    /// Delivers to hosts by one session, has them activate it, and writes down how each fared. When the release is withdrawn or the
    /// rollout is aborted meanwhile, the session ends, and hosts that have not begun to activate do not.
    async fn deliver(&self, task: &Task, members: Vec<Member>) -> Result<(), RolloutError> {
        let (say, heard) = watch::channel(None);
        let interruption = Interruption(heard);
        tokio::select! {
            delivered = self.deliver_until(task, members, &interruption) => delivered,
            error = self.watch(task.id, say) => Err(error),
        }
    }

    /// Looks whether a rollout is ended from outside, again and again. Returns only if the database fails.
    async fn watch(&self, id: i64, say: watch::Sender<Option<&'static str>>) -> RolloutError {
        let query = "SELECT rollouts.state, withdrawn FROM rollouts JOIN releases ON releases.id = release WHERE rollouts.id = ?1";
        loop {
            let found = self
                .hub
                .store
                .with(move |of| of.query_row(query, [id], |row| Ok((row.get(0)?, row.get(1)?))));
            let (state, is_withdrawn): (String, bool) = match found.await {
                Ok(found) => found,
                Err(error) => return error.into(),
            };
            let reason = match (is_withdrawn, state.as_str()) {
                (true, _) => Some(WITHDRAWN),
                (false, "aborted") => Some("the rollout was aborted"),
                _ => None,
            };
            if reason.is_some() {
                // It counts until the delivery has ended, even if the rollout is taken up again at once.
                say.send_replace(reason);
                std::future::pending::<()>().await;
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    async fn deliver_until(
        &self,
        task: &Task,
        members: Vec<Member>,
        interruption: &Interruption,
    ) -> Result<(), RolloutError> {
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
        let complaints = match lacking.is_empty() {
            true => BTreeMap::new(),
            false => self.send(task, &lacking, interruption).await?,
        };
        let finish = staged.iter().map(|((host, _), _)| {
            self.finish(task, host, complaints.get(&host.id).map(String::as_str), interruption)
        });
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

    /// Sends the release to all of these hosts by one session. Who did not get it is found by comparing. Returns what receivers that
    /// failed have said.
    async fn send(
        &self,
        task: &Task,
        hosts: &[&(Member, Option<PathBuf>)],
        interruption: &Interruption,
    ) -> Result<BTreeMap<HostId, String>, RolloutError> {
        let (mut sender, mut lines) = self.start_sender(task, hosts.len())?;
        let mut ticket = None;
        let mut sent_bytes = 0;
        let mut receivers = Vec::new();
        let longest = GATHER_TIME * 2 + Duration::from_secs(task.release.size_bytes() / SLOWEST_BYTES);
        let hear = async {
            loop {
                let line = tokio::select! {
                    line = lines.next_line() => line,
                    _ = interruption.comes() => break,
                };
                let Ok(Some(line)) = line else { break };
                let event: Value = serde_json::from_str(&line).unwrap_or_default();
                sent_bytes = left_bytes(&event).max(sent_bytes);
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
        let ended = receivers.into_iter().map(|receiver| self.await_receiver(receiver, interruption));
        let mut complaints = BTreeMap::new();
        for ended in futures_util::future::join_all(ended).await {
            complaints.extend(ended?);
        }
        let unicast_bytes = task.release.size_bytes() * hosts.len() as u64;
        let row = (task.id, hosts.first().map_or(1, |of| of.0.1), hosts.len(), sent_bytes, unicast_bytes);
        let insert = "INSERT INTO rollout_sent (rollout, ring, hosts, sent_bytes, unicast_bytes) VALUES (?1, ?2, ?3, ?4, ?5)";
        self.hub.store.with(move |of| of.execute(insert, row)).await?;
        Ok(complaints)
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
    ) -> Result<Vec<Receiver>, RolloutError> {
        let mut receivers = Vec::new();
        for ((host, _), folder) in hosts {
            let Some(folder) = folder else { continue };
            let mut arguments: Vec<String> =
                ["receive", "--json", "--name", &host.name].map(str::to_owned).into();
            let words = ["--interface", &host.facts.interface, "--wait-for-space", ROOM_SECONDS, "--into"];
            arguments.extend(words.map(str::to_owned));
            arguments.extend([folder.to_string_lossy().into_owned(), ticket.to_owned()]);
            let limit = GATHER_TIME * 3 + Duration::from_secs(3600);
            let start = Start {
                program: Program::Treecast,
                arguments,
                folder: None,
                at_ns: None,
                limit_ms: limit.as_millis() as u64,
            };
            let (order, reports) = self.hub.order_and_hear(host.id, Work::Start(start)).await?;
            receivers.push(Receiver { host: host.id, order, reports });
        }
        Ok(receivers)
    }

    /// Waits for the end of a receiver whose sender has ended. One that goes on without it is ended. Returns what one that has failed
    /// has said.
    async fn await_receiver(
        &self,
        mut receiver: Receiver,
        interruption: &Interruption,
    ) -> Result<Option<(HostId, String)>, RolloutError> {
        let Receiver { host, order, .. } = receiver;
        tokio::select! {
            said = complaint(&mut receiver.reports) => return Ok(said.map(|said| (host, said))),
            _ = too_long(ANSWER_TIME) => {}
            _ = interruption.comes() => {}
        }
        self.hub.order(host, Work::Signal { order, signal: libc::SIGTERM }).await?;
        match timeout(ANSWER_TIME, complaint(&mut receiver.reports)).await {
            Ok(said) => Ok(said.map(|said| (host, said))),
            Err(_) => {
                let reason = "the session has ended without this host";
                self.hub.give_up(host, order, reason).await?;
                Ok(Some((host, reason.to_owned())))
            }
        }
    }

    /// Has a host compare what came and activate it, and waits until the host itself reports the version.
    /// `complaint` is what its receiver has said, if that has failed.
    async fn finish(
        &self,
        task: &Task,
        host: &Host,
        complaint: Option<&str>,
        interruption: &Interruption,
    ) -> Result<(), RolloutError> {
        let (state, reason) = match self.activate(task, host, interruption).await {
            Ok(()) => ("done", None),
            // A host that has it in spite of that reports it with its facts.
            Err(_) if interruption.reason().is_some() => {
                ("waiting", interruption.reason().map(str::to_owned))
            }
            Err(reason) => {
                let said = complaint.map(|said| format!(" ({said})")).unwrap_or_default();
                ("failed", Some(format!("{reason}{said}")))
            }
        };
        Ok(self.set_host(task.id, host, None, state, reason.as_deref()).await?)
    }

    async fn activate(&self, task: &Task, host: &Host, interruption: &Interruption) -> Result<(), String> {
        let signed = || task.signed.clone();
        let patience = ANSWER_TIME + Duration::from_secs(task.release.size_bytes() / 10_000_000);
        let patience = async {
            tokio::select! {
                reason = too_long(patience) => reason,
                reason = interruption.comes() => reason,
            }
        };
        let found = self.hub.ask(host.id, Work::Verify { signed: signed() }, patience).await?;
        if let Some(reason) = interruption.reason() {
            return Err(reason.to_owned());
        }
        if let Some(how) = found.as_str() {
            return Err(format!("not all of it came: {how}"));
        }
        let patience = async {
            tokio::select! {
                reason = too_long(ACTIVATION_TIME) => reason,
                // A host that is here has begun, and tells how it went. One that is away has not, and is not to begin on coming.
                reason = self.leaves(host.id, interruption) => reason,
            }
        };
        self.hub.ask(host.id, Work::Activate { signed: signed() }, patience).await?;
        match self.refresh(host).await?.get(&task.release.name) {
            Some(version) if *version == task.release.version => Ok(()),
            other => {
                Err(format!("after the activation it reports {}", other.map_or("no version", String::as_str)))
            }
        }
    }

    /// Waits until a delivery is interrupted and a host is away. Returns why it was interrupted.
    async fn leaves(&self, host: HostId, interruption: &Interruption) -> &'static str {
        let reason = interruption.comes().await;
        while self.hub.is_here(host).await {
            tokio::time::sleep(LOOK).await;
        }
        reason
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

/// Returns what has left a sender by an event of it: IP packets by each fanout, and what receivers were sent again over their own
/// connections.
fn left_bytes(event: &Value) -> u64 {
    let of = |value: &Value, key: &str| value[key].as_u64().unwrap_or(0);
    let fanouts = event["fanout"].as_object().into_iter().flatten();
    let receivers = event["receivers"].as_array().into_iter().flatten();
    let first: u64 = fanouts.map(|(_, fanout)| of(fanout, "left_bytes")).sum();
    first + receivers.map(|receiver| of(receiver, "retransmitted_bytes")).sum::<u64>()
}

/// Waits until a program has ended. Returns the last line of its errors if it has failed.
async fn complaint(reports: &mut mpsc::UnboundedReceiver<Report>) -> Option<String> {
    while let Some(report) = reports.recv().await {
        match report.what {
            What::Ended(end) if end.code == Some(0) => return None,
            What::Ended(end) => return end.errors.lines().last().map(|line| format!("{line:.300}")),
            What::Failed { reason } => return Some(reason),
            What::Done { .. } => return None,
            _ => {}
        }
    }
    None
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
        state: row.get(7)?,
        reason: row.get(8)?,
        sent: Vec::new(),
        hosts: Vec::new(),
    })
}
