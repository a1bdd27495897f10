//! The hosts of a fleet, as the database has them, and how agents are admitted.

use std::{collections::BTreeMap, time::Duration};

use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::{Deserialize, Serialize};
use treecast_driver::security::PublicKey;
use utoipa::ToSchema;

use crate::{
    agent::config::check_name,
    clock::Offset,
    code::{self, Code},
    facts::Facts,
    message::{Hello, Order, What, read, text_of},
    permits::Permits,
    selection::Subject,
};

/// The number of a host in the database.
pub type HostId = i64;

/// A host of the fleet.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Host {
    #[schema(value_type = i64)]
    pub id: HostId,
    pub name: String,
    /// The public key of its agent.
    pub key: String,
    /// When it has joined, in milliseconds since 1970.
    #[serde(rename = "joined_ms")]
    pub joined: u64,
    /// When the agent was heard last, in milliseconds since 1970.
    #[serde(rename = "seen_ms")]
    pub seen: u64,
    /// Whether the agent is connected.
    pub is_here: bool,
    pub facts: Facts,
    pub may: Permits,
    /// All tags: those of the agent's configuration, and those of the manager, which count more.
    pub tags: BTreeMap<String, String>,
    /// The tags that the agent's configuration sets, which the manager cannot remove.
    pub own_tags: BTreeMap<String, String>,
    /// The agent's monotonic clock, seen from the manager.
    #[serde(skip)]
    pub offset: Option<Offset>,
    /// How far the time of day at the host is from the manager's, in milliseconds, with the uncertainty.
    #[schema(required)]
    pub clock: Option<ClockError>,
    /// What the interface towards the manager carries now.
    #[schema(required)]
    pub rates: Option<Rates>,
}

/// What an interface carries now, in bits a second.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, ToSchema)]
pub struct Rates {
    pub receives_bps: f64,
    pub sends_bps: f64,
}

/// The error of a host's time of day.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ClockError {
    pub ahead_ms: f64,
    pub uncertainty_ms: f64,
}

impl Subject for Host {
    fn name(&self) -> &str {
        &self.name
    }

    fn value(&self, key: &str) -> Option<String> {
        match key {
            "name" => Some(self.name.clone()),
            "state" => Some(if self.is_here { "here" } else { "away" }.to_owned()),
            _ => self.tags.get(key).cloned().or_else(|| self.facts.value(key)),
        }
    }
}

const COLUMNS: &str = "id, name, key, joined, seen, facts, permits, own_tags, tags";

/// Returns all hosts, by name.
pub fn all(of: &Connection) -> rusqlite::Result<Vec<Host>> {
    let mut query = of.prepare_cached(&format!("SELECT {COLUMNS} FROM hosts ORDER BY name"))?;
    query.query_map([], host)?.collect()
}

/// Returns the host of a name; `None` where there is none.
pub fn named(of: &Connection, name: &str) -> rusqlite::Result<Option<Host>> {
    let mut query = of.prepare_cached(&format!("SELECT {COLUMNS} FROM hosts WHERE name = ?1"))?;
    query.query_row([name], host).optional()
}

fn host(row: &Row) -> rusqlite::Result<Host> {
    // What an older version wrote may lack something; then it is as if the agent had not said it.
    let text = |index| row.get::<_, String>(index);
    let own_tags: BTreeMap<String, String> = read(&text(7)?).unwrap_or_default();
    let mut tags = own_tags.clone();
    tags.extend(read::<BTreeMap<String, String>>(&text(8)?).unwrap_or_default());
    Ok(Host {
        id: row.get(0)?,
        name: row.get(1)?,
        key: row.get(2)?,
        joined: row.get(3)?,
        seen: row.get(4)?,
        is_here: false,
        facts: read(&text(5)?).unwrap_or_default(),
        may: read(&text(6)?).unwrap_or_default(),
        tags,
        own_tags,
        offset: None,
        clock: None,
        rates: None,
    })
}

/// An agent that was admitted.
#[derive(Debug)]
pub struct Admitted {
    pub host: HostId,
    pub name: String,
    /// All its reports up to this number are kept.
    pub committed: u64,
    /// The highest number of an order that it was given.
    pub orders: u64,
    /// Whether it has joined just now.
    pub is_new: bool,
}

/// Admits an agent, or says why not.
pub fn admit(
    of: &Connection,
    key: PublicKey,
    hello: &Hello,
    now_ms: u64,
) -> rusqlite::Result<Result<Admitted, String>> {
    if hello.protocol == 0 {
        return Ok(Err("it speaks no version of the protocol".into()));
    }
    let key = key.to_string();
    let find = "SELECT id, name, orders, committed FROM hosts WHERE key = ?1";
    let columns = |row: &Row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?));
    let known: Option<(HostId, String, u64, u64)> = of.query_row(find, [&key], columns).optional()?;
    let is_new = known.is_none();
    let (host, name, orders, committed) = match known {
        Some(known) => known,
        None => match join(of, &key, hello, now_ms)? {
            Ok(host) => (host, hello.name.clone(), hello.last_order, hello.last_report),
            Err(reason) => return Ok(Err(reason)),
        },
    };
    if hello.last_report < committed {
        let reason = "the agent's disk was lost, and it is not known what came of it".to_owned();
        end_all(of, host, &reason, now_ms)?;
    }
    let update = "UPDATE hosts SET seen = ?2, facts = ?3, permits = ?4, own_tags = ?5, orders = max(orders, ?6) WHERE id = ?1";
    let (facts, permits, tags) = (text_of(&hello.facts), text_of(&hello.permits), text_of(&hello.tags));
    of.execute(update, params![host, now_ms, facts, permits, tags, hello.last_order])?;
    Ok(Ok(Admitted { host, name, committed, orders: orders.max(hello.last_order), is_new }))
}

/// Returns the open orders of a host after a number.
pub fn open_orders(of: &Connection, host: HostId, after: u64) -> rusqlite::Result<Vec<Order>> {
    let open =
        "SELECT number, work FROM orders WHERE host = ?1 AND number > ?2 AND ended IS NULL ORDER BY number";
    let mut query = of.prepare_cached(open)?;
    let rows = query.query_map(params![host, after], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let mut orders = Vec::new();
    for row in rows {
        let (number, work): (u64, String) = row?;
        orders.extend(read(&work).ok().map(|work| Order { number, work }));
    }
    Ok(orders)
}

/// Enters a host that comes with a code.
fn join(of: &Connection, key: &str, hello: &Hello, now_ms: u64) -> rusqlite::Result<Result<HostId, String>> {
    let Some(secret) = hello.secret.as_deref().and_then(code::secret) else {
        return Ok(Err(
            "its key is not known here: join with a code that `treecast fleet code` prints".into()
        ));
    };
    if let Err(reason) = check_name(&hello.name) {
        return Ok(Err(reason));
    }
    let use_up = "UPDATE codes SET uses = uses - 1 WHERE fingerprint = ?1 AND uses > 0 AND ends > ?2";
    if of.execute(use_up, params![Code::fingerprint(&secret), now_ms])? == 0 {
        return Ok(Err("its code was used up, has ended, or was never given out: ask for a new one".into()));
    }
    let taken = of.query_row("SELECT 1 FROM hosts WHERE name = ?1", [&hello.name], |_| Ok(())).optional()?;
    if taken.is_some() {
        // The code is not used up by a host that is not taken.
        of.execute("UPDATE codes SET uses = uses + 1 WHERE fingerprint = ?1", [Code::fingerprint(&secret)])?;
        let name = &hello.name;
        return Ok(Err(format!(
            "a host of the name {name} is here with another key: start the agent with --name, or remove that host with \
             `treecast fleet forget {name}`"
        )));
    }
    of.execute(
        "INSERT INTO hosts (name, key, joined, seen, facts, permits, own_tags, orders, committed)
         VALUES (?1, ?2, ?3, ?3, '{}', '{}', '{}', ?4, ?5)",
        params![hello.name, key, now_ms, hello.last_order, hello.last_report],
    )?;
    Ok(Ok(of.last_insert_rowid()))
}

/// Ends all orders of a host that it will not report about.
pub fn end_all(of: &Connection, host: HostId, reason: &str, now_ms: u64) -> rusqlite::Result<()> {
    let open = "SELECT number FROM orders WHERE host = ?1 AND ended IS NULL";
    let numbers: Vec<u64> =
        of.prepare(open)?.query_map([host], |row| row.get(0))?.collect::<Result<_, _>>()?;
    numbers.into_iter().try_for_each(|number| end(of, host, number, reason, now_ms))
}

/// Ends an order in the agent's place. Its report has a negative number, which no agent gives.
pub fn end(of: &Connection, host: HostId, number: u64, reason: &str, now_ms: u64) -> rusqlite::Result<()> {
    let what = text_of(&What::Failed { reason: reason.to_owned() });
    of.execute(
        "INSERT OR IGNORE INTO reports (host, number, order_number, came, at_ns, what) VALUES (?1, -?2, ?2, ?3, 0, ?4)",
        params![host, number, now_ms, what],
    )?;
    let ended = "UPDATE orders SET ended = ?3 WHERE host = ?1 AND number = ?2 AND ended IS NULL";
    of.execute(ended, params![host, number, now_ms]).map(drop)
}

impl ClockError {
    /// Returns the error of a host's time of day, of which the manager was told a moment ago.
    pub fn of(wall_at_agent: Duration, wall_at_manager: Duration, uncertainty_ns: u64) -> Self {
        let ahead = wall_at_agent.as_secs_f64() - wall_at_manager.as_secs_f64();
        Self { ahead_ms: ahead * 1e3, uncertainty_ms: uncertainty_ns as f64 / 1e6 }
    }
}
