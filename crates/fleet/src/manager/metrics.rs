//! What a manager tells Prometheus (text format 0.0.4).

use std::{
    collections::BTreeMap,
    fmt::{Display, Write},
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
};

use super::{hub::Hub, rollouts::RolloutState, runs, store::StoreError};
use crate::message::word;

/// The number of the latest rollouts whose rings are told.
const ROLLOUTS: u32 = 10;

/// What the database tells.
struct Counted {
    open_orders: u64,
    runs: BTreeMap<String, u64>,
    rollouts: BTreeMap<String, u64>,
    rings: Vec<RingBytes>,
}

/// A rollout, the number of a ring, bytes that were sent, and bytes that one connection a host would have sent.
type RingBytes = (i64, u32, u64, u64);

/// Returns the figures of a manager. `database` is its file.
///
/// # Errors
/// If the database fails.
pub async fn text(hub: &Hub, database: &Path, version: &str) -> Result<String, StoreError> {
    let (hosts, here) = hub.count().await?;
    let counted = counted(hub).await?;
    let mut page = Page::default();
    page.family("treecast_fleet_info", "gauge", "The version of the manager.");
    page.sample("treecast_fleet_info", &[("version", version)], 1);
    page.family("treecast_fleet_hosts", "gauge", "Hosts, by whether their agent is connected.");
    page.sample("treecast_fleet_hosts", &[("state", "here")], here);
    page.sample("treecast_fleet_hosts", &[("state", "away")], hosts.saturating_sub(here));
    page.family("treecast_fleet_orders_open", "gauge", "Orders that have not ended.");
    page.sample("treecast_fleet_orders_open", &[], counted.open_orders);
    let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let counters = &hub.counters;
    page.family("treecast_fleet_orders_total", "counter", "Orders given since the manager started.");
    page.sample("treecast_fleet_orders_total", &[], of(&counters.orders));
    page.family("treecast_fleet_reports_total", "counter", "Reports kept since the manager started.");
    page.sample("treecast_fleet_reports_total", &[], of(&counters.reports));
    page.family(
        "treecast_fleet_report_lag_seconds",
        "summary",
        "The time from what a report tells until the manager has kept it.",
    );
    page.sample("treecast_fleet_report_lag_seconds_sum", &[], of(&counters.lag_us) as f64 / 1e6);
    page.sample("treecast_fleet_report_lag_seconds_count", &[], of(&counters.lags));
    page.family("treecast_fleet_runs", "gauge", "Runs, by state.");
    for state in runs::State::ALL.map(|state| word(&state)) {
        page.sample("treecast_fleet_runs", &[("state", &state)], counted.runs.get(&state).unwrap_or(&0));
    }
    page.family("treecast_fleet_rollouts", "gauge", "Rollouts, by state.");
    for state in RolloutState::ALL.map(|state| word(&state)) {
        let number = counted.rollouts.get(&state).unwrap_or(&0);
        page.sample("treecast_fleet_rollouts", &[("state", &state)], number);
    }
    page.rings(&counted.rings);
    page.family("treecast_fleet_database_bytes", "gauge", "The size of the manager's database on its disk.");
    page.sample("treecast_fleet_database_bytes", &[], size_bytes(database));
    Ok(page.0)
}

async fn counted(hub: &Hub) -> Result<Counted, StoreError> {
    hub.store
        .with(move |of| {
            let open = "SELECT count(*) FROM orders WHERE ended IS NULL";
            let rings = "SELECT rollout, ring, sum(sent_bytes), sum(unicast_bytes) FROM rollout_sent
                         WHERE rollout IN (SELECT id FROM rollouts ORDER BY id DESC LIMIT ?1)
                         GROUP BY rollout, ring ORDER BY rollout, ring";
            let ring = |row: &rusqlite::Row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?));
            Ok(Counted {
                open_orders: of.query_row(open, [], |row| row.get(0))?,
                runs: by_state(of, "SELECT state, count(*) FROM runs GROUP BY state")?,
                rollouts: by_state(of, "SELECT state, count(*) FROM rollouts GROUP BY state")?,
                rings: of
                    .prepare_cached(rings)?
                    .query_map([ROLLOUTS], ring)?
                    .collect::<rusqlite::Result<_>>()?,
            })
        })
        .await
}

fn by_state(of: &rusqlite::Connection, query: &str) -> rusqlite::Result<BTreeMap<String, u64>> {
    of.prepare_cached(query)?.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
}

/// Returns the size of a database with what is not yet in its main file.
fn size_bytes(database: &Path) -> u64 {
    let beside = |end: &str| {
        let mut name = database.as_os_str().to_owned();
        name.push(end);
        std::fs::metadata(name).map_or(0, |of| of.len())
    };
    ["", "-wal", "-shm"].map(beside).into_iter().sum()
}

/// A page of figures.
#[derive(Default)]
struct Page(String);

impl Page {
    /// Begins a family of samples. `help` is one line without backslashes.
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        // A text takes whatever is written.
        _ = write!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    /// Adds a sample of the family that has begun.
    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        let escaped = |value: &str| value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let labels: Vec<String> =
            labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        _ = writeln!(self.0, "{name}{labels} {value}");
    }

    fn rings(&mut self, rings: &[RingBytes]) {
        let mut family = |name: &str, help: &str, bytes: fn(&RingBytes) -> u64| {
            self.family(name, "gauge", help);
            for ring in rings {
                let (rollout, number) = (ring.0.to_string(), ring.1.to_string());
                self.sample(name, &[("rollout", &rollout), ("ring", &number)], bytes(ring));
            }
        };
        family(
            "treecast_fleet_ring_sent_bytes",
            "Bytes that the sessions of a ring have sent, for the latest ten rollouts.",
            |ring| ring.2,
        );
        family(
            "treecast_fleet_ring_unicast_bytes",
            "Bytes that one connection a host would have sent instead.",
            |ring| ring.3,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_labels_are_escaped() {
        let mut page = Page::default();
        page.sample("a", &[("b", "x\"\\\ny")], 1.5);
        assert_eq!(page.0, "a{b=\"x\\\"\\\\\\ny\"} 1.5\n");
    }
}
