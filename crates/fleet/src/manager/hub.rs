//! The manager's view of its agents: who is here, what they are ordered, and what they report.

use std::{
    collections::{BTreeMap, HashMap},
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use rusqlite::{OptionalExtension, params};
use tokio::sync::{Mutex as AsyncMutex, broadcast, mpsc, watch};
use treecast_driver::security::PublicKey;
use treecast_host::clock;
use utoipa::ToSchema;

use super::{
    counters::Counters,
    hosts::{self, ClockError, Host, HostId, Rates},
    store::{Store, StoreError},
};
use crate::{
    clock::{Clock, Exchange, Offset},
    facts::Facts,
    message::{Carried, Hello, Order, PROTOCOL, Report, ToAgent, Welcome, What, Work, text_of},
    selection::{Groups, Selection, SelectionError, Subject},
};

/// The most orders that wait for one host.
const MAX_WAITING: u64 = 1_000;

/// The manager's view of its agents.
pub struct Hub {
    pub store: Store,
    /// A random number that was drawn when the database was made.
    pub fleet: String,
    lanes: Mutex<HashMap<HostId, Arc<Lane>>>,
    listeners: Mutex<HashMap<(HostId, u64), mpsc::UnboundedSender<Report>>>,
    /// Files that agents may fetch, by their BLAKE3 hash.
    blobs: Mutex<HashMap<String, PathBuf>>,
    /// Whether the manager has ended.
    has_ended: watch::Sender<bool>,
    /// The number of connections so far.
    connections: AtomicU64,
    /// Tells those who look on that something has changed.
    changes: broadcast::Sender<Change>,
    pub counters: Counters,
}

/// The way to one host.
#[derive(Default)]
struct Lane {
    /// The connection, while there is one. Whoever orders holds the lock until the order is on its way, so that orders stay in turn.
    link: AsyncMutex<Option<Outlet>>,
    pulse: Mutex<Pulse>,
}

/// What answers to questions for the time have told of one host.
#[derive(Default)]
struct Pulse {
    clock: Clock,
    error: Option<ClockError>,
    /// What its interface had carried at the last answer, and when that was.
    carried: Option<(Duration, Carried)>,
    rates: Option<Rates>,
}

impl Pulse {
    fn note(&mut self, exchange: &Exchange, wall: Duration, carried: Carried) {
        self.clock.note(exchange);
        if let Some(offset) = self.clock.offset() {
            // The time of day at the manager when the agent answered.
            let since = exchange.came.saturating_sub(offset.at_manager(exchange.answered));
            let here = clock::since_1970().saturating_sub(since);
            self.error = Some(ClockError::of(wall, here, offset.uncertainty_ns));
        }
        let Some((before, last)) = self.carried else {
            self.carried = Some((exchange.answered, carried));
            return;
        };
        let seconds = exchange.answered.saturating_sub(before).as_secs_f64();
        // The first questions follow each other too soon to tell a rate.
        if seconds >= 1.0 {
            let rate = |now: u64, then: u64| now.saturating_sub(then) as f64 * 8.0 / seconds;
            self.rates = Some(Rates {
                receives_bps: rate(carried.received_bytes, last.received_bytes),
                sends_bps: rate(carried.sent_bytes, last.sent_bytes),
            });
            self.carried = Some((exchange.answered, carried));
        }
    }
}

struct Outlet {
    number: u64,
    to: mpsc::UnboundedSender<ToAgent>,
}

/// Something that has changed, for those who look on.
#[derive(Debug, Clone, serde::Serialize, ToSchema)]
#[serde(tag = "changed", rename_all = "snake_case")]
pub enum Change {
    Host {
        #[schema(value_type = i64)]
        id: HostId,
        is_here: bool,
    },
    Run {
        id: i64,
    },
    Rollout {
        id: i64,
    },
    Delivery {
        id: i64,
    },
    /// Groups, or tags, by which selections may select others now.
    Groups,
    /// Somebody with another key wanted to be the host of this name, and was refused.
    Stranger {
        name: String,
        reason: String,
    },
    /// More than could be told: whoever looks on asks for everything again.
    All,
}

/// A line of the log of who did what.
#[derive(Debug, serde::Serialize, ToSchema)]
#[schema(as = AuditEntry)]
pub struct Entry {
    at_ms: u64,
    who: String,
    what: String,
    about: String,
    is_refused: bool,
}

/// The reason why hosts are not ordered anything.
#[derive(Debug, thiserror::Error)]
pub enum HubError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Selection(#[from] SelectionError),
    #[error("there is no host {0}: `treecast fleet hosts` lists them")]
    NoHost(String),
    #[error("no host is selected by `{0}`")]
    Nobody(String),
    #[error("{host} is away, and {MAX_WAITING} orders wait for it")]
    Full { host: HostId },
}

/// A connection of an agent that was admitted.
pub struct Connected {
    pub host: HostId,
    /// Tells connections of one host apart.
    pub number: u64,
    pub from_hub: mpsc::UnboundedReceiver<ToAgent>,
}

impl Hub {
    /// Makes the view for a database.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn new(store: Store) -> Result<Self, StoreError> {
        let drawn = treecast_driver::security::random::<8>().unwrap_or_default();
        let drawn = data_encoding::HEXLOWER.encode(&drawn);
        let fleet = store
            .with(move |of| {
                of.execute("INSERT OR IGNORE INTO meta (key, value) VALUES ('fleet', ?1)", [drawn])?;
                of.query_row("SELECT value FROM meta WHERE key = 'fleet'", [], |row| row.get(0))
            })
            .await?;
        Ok(Self {
            store,
            fleet,
            lanes: Mutex::default(),
            listeners: Mutex::default(),
            blobs: Mutex::default(),
            has_ended: watch::channel(false).0,
            connections: AtomicU64::new(0),
            changes: broadcast::channel(1_000).0,
            counters: Counters::default(),
        })
    }

    /// Ends all connections, because the manager ends.
    pub fn end(&self) {
        self.has_ended.send_replace(true);
    }

    /// Waits until the manager ends.
    pub async fn ended(&self) {
        // The sending end is in here, so it cannot go before.
        _ = self.has_ended.subscribe().wait_for(|has_ended| *has_ended).await;
    }

    /// Returns what changes from now on.
    pub fn changes(&self) -> broadcast::Receiver<Change> {
        self.changes.subscribe()
    }

    /// Tells those who look on that something has changed.
    pub fn tell(&self, change: Change) {
        // Perhaps nobody looks on.
        _ = self.changes.send(change);
    }

    /// Admits an agent. The inner error is the reason why it is not taken.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn admit(&self, key: PublicKey, hello: Hello) -> Result<Result<Connected, String>, StoreError> {
        let (now_ms, wanted, last_order) = (now_ms(), hello.name.clone(), hello.last_order);
        let protocol = PROTOCOL.min(hello.protocol);
        let text_of_key = key.to_string();
        let admitted = match self.store.with(move |of| hosts::admit(of, key, &hello, now_ms)).await? {
            Ok(admitted) => admitted,
            Err(reason) => {
                self.audit(&wanted, "join", &reason, true).await?;
                let name = wanted.clone();
                let host = self.store.with(move |of| hosts::named(of, &name)).await?;
                if host.is_some_and(|host| host.key != text_of_key) {
                    self.tell(Change::Stranger { name: wanted, reason: reason.clone() });
                }
                return Ok(Err(reason));
            }
        };
        let host = admitted.host;
        // Orders that are given meanwhile wait for the lock, and those from before are read under it.
        let lane = self.lane(host);
        let mut link = lane.link.lock().await;
        let orders = self.store.with(move |of| hosts::open_orders(of, host, last_order)).await?;
        let (to, from_hub) = mpsc::unbounded_channel();
        let number = self.connections.fetch_add(1, Ordering::Relaxed);
        let welcome = Welcome {
            protocol,
            name: admitted.name.clone(),
            fleet: self.fleet.clone(),
            committed: admitted.committed,
            orders: orders.first().map_or(admitted.orders, |order| order.number - 1),
        };
        let first = std::iter::once(ToAgent::Welcome(welcome)).chain(orders.into_iter().map(ToAgent::Order));
        // The receiving end is here.
        first.for_each(|message| _ = to.send(message));
        *link = Some(Outlet { number, to });
        drop(link);
        *lock(&lane.pulse) = Pulse::default();
        if admitted.is_new {
            self.audit(&admitted.name, "join", "a new host", false).await?;
        }
        self.tell(Change::Host { id: host, is_here: true });
        Ok(Ok(Connected { host, number, from_hub }))
    }

    /// Takes note that a connection has ended.
    pub async fn left(&self, host: HostId, number: u64) {
        let lane = self.lane(host);
        let mut link = lane.link.lock().await;
        // The agent may have come back before its old connection was seen to be dead.
        if link.as_ref().is_some_and(|link| link.number == number) {
            *link = None;
            drop(link);
            self.tell(Change::Host { id: host, is_here: false });
        }
    }

    /// Orders something of a host. An agent that is away gets it when it comes. Returns the order's number.
    ///
    /// # Errors
    /// If too much waits for the host, or the database fails.
    pub async fn order(&self, host: HostId, work: Work) -> Result<u64, HubError> {
        self.order_for(host, work, None).await
    }

    /// Orders something of a host, and hears all that it reports about it.
    ///
    /// # Errors
    /// As for [`Hub::order`].
    pub async fn order_and_hear(
        &self,
        host: HostId,
        work: Work,
    ) -> Result<(u64, mpsc::UnboundedReceiver<Report>), HubError> {
        let (say, said) = mpsc::unbounded_channel();
        let number = self.order_for(host, work, Some(say)).await?;
        Ok((number, said))
    }

    async fn order_for(
        &self,
        host: HostId,
        work: Work,
        listener: Option<mpsc::UnboundedSender<Report>>,
    ) -> Result<u64, HubError> {
        let lane = self.lane(host);
        let link = lane.link.lock().await;
        let (text, now_ms) = (text_of(&work), now_ms());
        let number = self
            .store
            .with(move |of| {
                let open = "SELECT count(*) FROM orders WHERE host = ?1 AND ended IS NULL";
                if of.query_row(open, [host], |row| row.get::<_, u64>(0))? >= MAX_WAITING {
                    return Ok(None);
                }
                let next = "UPDATE hosts SET orders = orders + 1 WHERE id = ?1 RETURNING orders";
                let number: Option<u64> = of.query_row(next, [host], |row| row.get(0)).optional()?;
                let insert = "INSERT INTO orders (host, number, given, work) VALUES (?1, ?2, ?3, ?4)";
                if let Some(number) = number {
                    of.execute(insert, params![host, number, now_ms, text])?;
                }
                Ok(number)
            })
            .await?
            .ok_or(HubError::Full { host })?;
        self.counters.note_order();
        if let Some(listener) = listener {
            lock(&self.listeners).insert((host, number), listener);
        }
        if let Some(link) = &*link {
            // A connection that has just ended is made again, and the order is given then.
            _ = link.to.send(ToAgent::Order(Order { number, work }));
        }
        Ok(number)
    }

    /// Orders something of a host, and waits until it is done, but not for longer than `patience`, which says why. The error is the
    /// reason why it was not done.
    ///
    /// # Errors
    /// If the host did not do it, or was given up.
    pub async fn ask(
        &self,
        host: HostId,
        work: Work,
        patience: impl Future<Output = &'static str>,
    ) -> Result<serde_json::Value, String> {
        let ordered = self.order_and_hear(host, work).await;
        let (number, mut said) = ordered.map_err(|error| error.to_string())?;
        let reason = tokio::select! {
            answer = answer(&mut said) => return answer,
            reason = patience => reason,
        };
        self.give_up(host, number, reason).await.map_err(|error| error.to_string())?;
        Err(reason.to_owned())
    }

    /// Keeps reports of a host. Returns the number up to which all are kept.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn keep(&self, host: HostId, reports: Vec<Report>) -> Result<u64, StoreError> {
        let now_ms = now_ms();
        let rows = reports.clone();
        let through = self
            .store
            .with(move |of| {
                let mut insert = of.prepare_cached(
                    "INSERT OR IGNORE INTO reports (host, number, order_number, came, at_ns, what) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                )?;
                let mut end = of.prepare_cached(
                    "UPDATE orders SET ended = ?3 WHERE host = ?1 AND number = ?2 AND ended IS NULL",
                )?;
                for Report { number, order, at_ns, what } in &rows {
                    insert.execute(params![host, number, order, now_ms, *at_ns as i64, text_of(what)])?;
                    if what.is_last() {
                        end.execute(params![host, order, now_ms])?;
                    }
                }
                let last = rows.iter().map(|report| report.number).max().unwrap_or(0);
                let through = "UPDATE hosts SET committed = max(committed, ?2), seen = ?3 WHERE id = ?1 RETURNING committed";
                of.query_row(through, params![host, last, now_ms], |row| row.get(0))
            })
            .await?;
        self.counters.note_reports(&reports, self.offset(host));
        for report in reports {
            self.pass_on(host, report);
        }
        Ok(through)
    }

    fn pass_on(&self, host: HostId, report: Report) {
        let mut listeners = lock(&self.listeners);
        let key = (host, report.order);
        let is_last = report.what.is_last();
        if let Some(listener) = listeners.get(&key)
            && (listener.send(report).is_err() || is_last)
        {
            listeners.remove(&key);
        }
    }

    /// Ends an order in the place of an agent that will not report about it any more.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn give_up(&self, host: HostId, number: u64, reason: &str) -> Result<(), StoreError> {
        let (text, now_ms) = (reason.to_owned(), now_ms());
        self.store.with(move |of| hosts::end(of, host, number, &text, now_ms)).await?;
        self.pass_on(
            host,
            Report { number: 0, order: number, at_ns: 0, what: What::Failed { reason: reason.to_owned() } },
        );
        Ok(())
    }

    /// Takes in the answer to a question for the time.
    pub fn note_pong(&self, host: HostId, exchange: &Exchange, wall: Duration, carried: Carried) {
        lock(&self.lane(host).pulse).note(exchange, wall, carried);
    }

    /// Takes in the facts of a host, which have changed.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn note_facts(&self, host: HostId, facts: Facts) -> Result<(), StoreError> {
        let (facts, now_ms) = (text_of(&facts), now_ms());
        let update = "UPDATE hosts SET facts = ?2, seen = ?3 WHERE id = ?1";
        self.store.with(move |of| of.execute(update, params![host, facts, now_ms])).await.map(drop)
    }

    /// Whether the agent of a host is connected.
    pub async fn is_here(&self, host: HostId) -> bool {
        self.lane(host).link.lock().await.is_some()
    }

    /// Returns the number of the connection of a host's agent; `None` while it is away. Each connection has another one.
    pub async fn connection(&self, host: HostId) -> Option<u64> {
        self.lane(host).link.lock().await.as_ref().map(|link| link.number)
    }

    /// Returns the clock of a host; `None` while it is away.
    pub fn offset(&self, host: HostId) -> Option<Offset> {
        lock(&self.lane(host).pulse).clock.offset()
    }

    /// Returns how wrong the time of day at a host is; `None` while that is not known.
    pub fn clock_error(&self, host: HostId) -> Option<ClockError> {
        lock(&self.lane(host).pulse).error
    }

    /// Returns all hosts, by name.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn hosts(&self) -> Result<Vec<Host>, StoreError> {
        let mut hosts = self.store.with(|of| hosts::all(of)).await?;
        for host in &mut hosts {
            self.complete(host).await;
        }
        Ok(hosts)
    }

    /// Adds what is known of a host only while its agent is connected.
    async fn complete(&self, host: &mut Host) {
        let lane = self.lane(host.id);
        host.is_here = lane.link.lock().await.is_some();
        if host.is_here {
            let pulse = lock(&lane.pulse);
            (host.offset, host.clock, host.rates) = (pulse.clock.offset(), pulse.error, pulse.rates);
        }
    }

    /// Returns the hosts that a selection selects, by name.
    ///
    /// # Errors
    /// If the text is no selection, or names a group that is not there.
    pub async fn select(&self, text: &str) -> Result<Vec<Host>, HubError> {
        let selection: Selection = text.parse()?;
        let groups = self.groups().await?;
        let mut selected = Vec::new();
        for host in self.hosts().await? {
            if selection.selects(&host, &groups)? {
                selected.push(host);
            }
        }
        Ok(selected)
    }

    /// Returns the hosts that a selection selects, by name, of which there is at least one.
    ///
    /// # Errors
    /// As for [`Hub::select`], and if the selection selects nobody.
    pub async fn select_some(&self, text: &str) -> Result<Vec<Host>, HubError> {
        match self.select(text).await? {
            none if none.is_empty() => Err(HubError::Nobody(text.to_owned())),
            hosts => Ok(hosts),
        }
    }

    /// Returns how many hosts there are, and how many are here.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn count(&self) -> Result<(usize, usize), StoreError> {
        let count = "SELECT count(*) FROM hosts";
        let hosts = self.store.with(move |of| of.query_row(count, [], |row| row.get(0))).await?;
        let lanes: Vec<Arc<Lane>> = lock(&self.lanes).values().cloned().collect();
        let mut here = 0;
        for lane in lanes {
            here += usize::from(lane.link.lock().await.is_some());
        }
        Ok((hosts, here))
    }

    /// Whether an agent with this key belongs to the fleet.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn knows(&self, key: &PublicKey) -> Result<bool, StoreError> {
        let key = key.to_string();
        let known = "SELECT count(*) FROM hosts WHERE key = ?1";
        self.store.with(move |of| of.query_row(known, [key], |row| Ok(row.get::<_, u32>(0)? > 0))).await
    }

    /// Returns the host of a name.
    ///
    /// # Errors
    /// If there is none.
    pub async fn host(&self, name: &str) -> Result<Host, HubError> {
        let wanted = name.to_owned();
        let found = self.store.with(move |of| hosts::named(of, &wanted)).await?;
        let mut host = found.ok_or_else(|| HubError::NoHost(name.to_owned()))?;
        self.complete(&mut host).await;
        Ok(host)
    }

    /// Returns the groups that are saved.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn groups(&self) -> Result<Groups, StoreError> {
        let rows: Vec<(String, String)> = self
            .store
            .with(|of| {
                let mut query = of.prepare_cached("SELECT name, selection FROM groups ORDER BY name")?;
                query.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
            })
            .await?;
        Ok(rows.into_iter().filter_map(|(name, text)| Some((name, text.parse().ok()?))).collect())
    }

    /// Saves a selection under a name. Returns the number of hosts that it selects now.
    ///
    /// # Errors
    /// If the group would contain itself, or names one that is not there.
    pub async fn save_group(&self, name: &str, selection: &Selection) -> Result<usize, HubError> {
        let mut groups = self.groups().await?;
        groups.insert(name.to_owned(), selection.clone());
        let mut selected = 0;
        for host in self.hosts().await? {
            selected += usize::from(selection.selects(&host, &groups)?);
        }
        // Without a host, nothing has looked for circles.
        selection.selects(&Nobody, &groups)?;
        let (name, selection) = (name.to_owned(), selection.to_string());
        let insert = "INSERT INTO groups (name, selection) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET selection = ?2";
        self.store.with(move |of| of.execute(insert, params![name, selection])).await?;
        self.tell(Change::Groups);
        Ok(selected)
    }

    /// Removes a group. Returns whether there was one.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn remove_group(&self, name: &str) -> Result<bool, StoreError> {
        let name = name.to_owned();
        let removed = "DELETE FROM groups WHERE name = ?1";
        let removed = self.store.with(move |of| Ok(of.execute(removed, [name])? > 0)).await;
        self.tell(Change::Groups);
        removed
    }

    /// Sets tags of a host. One with an empty value is removed.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn set_tags(&self, host: HostId, set: BTreeMap<String, String>) -> Result<(), StoreError> {
        self.store
            .with(move |of| {
                let text: String =
                    of.query_row("SELECT tags FROM hosts WHERE id = ?1", [host], |row| row.get(0))?;
                let mut tags: BTreeMap<String, String> = crate::message::read(&text).unwrap_or_default();
                for (name, value) in set {
                    match value.is_empty() {
                        true => _ = tags.remove(&name),
                        false => _ = tags.insert(name, value),
                    }
                }
                of.execute("UPDATE hosts SET tags = ?2 WHERE id = ?1", params![host, text_of(&tags)])
            })
            .await?;
        self.tell(Change::Groups);
        Ok(())
    }

    /// Removes a host and all that is known of it. Its agent is sent away, and is a stranger from then on.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn forget(&self, host: HostId) -> Result<(), StoreError> {
        self.store.with(move |of| of.execute("DELETE FROM hosts WHERE id = ?1", [host])).await?;
        let lane = lock(&self.lanes).remove(&host);
        if let Some(lane) = lane
            && let Some(link) = lane.link.lock().await.take()
        {
            let reason = "it was removed from the fleet".to_owned();
            // It may have gone already.
            _ = link.to.send(ToAgent::Refused { reason });
        }
        self.tell(Change::Host { id: host, is_here: false });
        Ok(())
    }

    /// Writes a line into the log of who did what.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn audit(
        &self,
        who: &str,
        what: &str,
        about: &str,
        is_refused: bool,
    ) -> Result<(), StoreError> {
        let (who, what, about, now_ms) = (who.to_owned(), what.to_owned(), about.to_owned(), now_ms());
        let insert = "INSERT INTO audit (at, who, what, about, is_refused) VALUES (?1, ?2, ?3, ?4, ?5)";
        self.store
            .with(move |of| of.execute(insert, params![now_ms, who, what, about, is_refused]))
            .await
            .map(drop)
    }

    /// Returns the latest lines of the log of who did what, the latest first.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn audit_log(&self, latest: u32) -> Result<Vec<Entry>, StoreError> {
        let query = "SELECT at, who, what, about, is_refused FROM audit ORDER BY id DESC LIMIT ?1";
        let entry = |row: &rusqlite::Row| {
            Ok(Entry {
                at_ms: row.get(0)?,
                who: row.get(1)?,
                what: row.get(2)?,
                about: row.get(3)?,
                is_refused: row.get(4)?,
            })
        };
        self.store
            .with(move |of| of.prepare_cached(query)?.query_map(params![latest], entry)?.collect())
            .await
    }

    /// Lets agents fetch a file by its hash.
    pub fn offer(&self, blob: String, path: PathBuf) {
        lock(&self.blobs).insert(blob, path);
    }

    /// Lets agents fetch a file no more.
    pub fn withdraw(&self, blob: &str) {
        lock(&self.blobs).remove(blob);
    }

    /// Returns the file with a hash, if agents may fetch it.
    pub fn blob(&self, blob: &str) -> Option<PathBuf> {
        lock(&self.blobs).get(blob).cloned()
    }

    fn lane(&self, host: HostId) -> Arc<Lane> {
        Arc::clone(lock(&self.lanes).entry(host).or_default())
    }
}

/// Waits until an order is carried out.
async fn answer(said: &mut mpsc::UnboundedReceiver<Report>) -> Result<serde_json::Value, String> {
    while let Some(report) = said.recv().await {
        match report.what {
            What::Done { value } => return Ok(value),
            What::Failed { reason } => return Err(reason),
            _ => {}
        }
    }
    Err("the host is not in the fleet any more".to_owned())
}

/// Waits for as long as a host may take to answer. Returns why it is not waited for any longer.
pub async fn too_long(patience: Duration) -> &'static str {
    tokio::time::sleep(patience).await;
    "the host did not answer in time"
}

/// A host that has no name, tag or fact.
struct Nobody;

impl Subject for Nobody {
    fn name(&self) -> &str {
        ""
    }

    fn value(&self, _: &str) -> Option<String> {
        None
    }
}

/// The time of day, in milliseconds since 1970.
pub fn now_ms() -> u64 {
    u64::try_from(clock::since_1970().as_millis()).unwrap_or(u64::MAX)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
