//! How long a manager keeps what agents report and what is asked of them. Results of runs, rollouts and the log of who did what are
//! kept for ever.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Weak,
    time::Duration,
};

use rusqlite::params;
use serde::Deserialize;

use super::{
    hub::{Hub, now_ms},
    store::StoreError,
};

/// The time between two looks for what is too old.
const LOOK: Duration = Duration::from_secs(60 * 60);
/// The most rows that are deleted at once, so that agents do not wait for the database.
const AT_ONCE: usize = 5_000;
const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// How long things are kept, in days.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Keep {
    /// What agents have reported about orders that have ended, and these orders and questions.
    pub reports_days: u32,
    /// The events of runs, as they were told while the run was under way.
    pub events_days: u32,
}

impl Default for Keep {
    fn default() -> Self {
        Self { reports_days: 90, events_days: 365 }
    }
}

impl Keep {
    /// Refuses a time of no length.
    ///
    /// # Errors
    /// The key that is wrong.
    pub fn check(&self) -> Result<(), String> {
        for (key, days) in [("reports_days", self.reports_days), ("events_days", self.events_days)] {
            if days == 0 {
                return Err(format!("{key}: at least 1 day, so that what is under way is kept"));
            }
        }
        Ok(())
    }
}

/// Deletes what is too old, from time to time, until the manager ends.
pub async fn work(hub: Weak<Hub>, runs: PathBuf, keep: Keep) {
    loop {
        let Some(hub) = hub.upgrade() else { return };
        if let Err(error) = delete_old(&hub, &keep, now_ms()).await {
            tracing::error!("old reports are not deleted: {error}");
        }
        let before = now_ms().saturating_sub(u64::from(keep.events_days) * DAY_MS);
        delete_events(&runs, Duration::from_millis(before));
        drop(hub);
        tokio::time::sleep(LOOK).await;
    }
}

/// Deletes old questions, reports and orders. Orders that are still open stay, with their reports.
async fn delete_old(hub: &Hub, keep: &Keep, now_ms: u64) -> Result<(), StoreError> {
    let before = now_ms.saturating_sub(u64::from(keep.reports_days) * DAY_MS);
    let asks = "DELETE FROM asks WHERE id IN (SELECT id FROM asks WHERE asked < ?1 LIMIT ?2)";
    let reports = "DELETE FROM reports WHERE (host, number) IN (
                   SELECT reports.host, reports.number FROM reports LEFT JOIN orders
                   ON orders.host = reports.host AND orders.number = reports.order_number
                   WHERE reports.came < ?1 AND (orders.number IS NULL OR orders.ended < ?1) LIMIT ?2)";
    let orders = "DELETE FROM orders WHERE (host, number) IN (
                  SELECT host, number FROM orders WHERE ended < ?1 LIMIT ?2)";
    for delete in [asks, reports, orders] {
        loop {
            let deleted = hub.store.with(move |of| of.execute(delete, params![before, AT_ONCE])).await?;
            if deleted < AT_ONCE {
                break;
            }
        }
    }
    Ok(())
}

/// Deletes the events of runs that were last told before a time since 1970.
fn delete_events(runs: &Path, before: Duration) {
    // Without a run there is no folder.
    for run in fs::read_dir(runs).into_iter().flatten().flatten() {
        let events = run.path().join(super::runs::EVENTS);
        let is_old = events.metadata().and_then(|of| of.modified()).is_ok_and(|modified| {
            modified.duration_since(std::time::UNIX_EPOCH).is_ok_and(|modified| modified < before)
        });
        if is_old
            && let Err(error) = fs::remove_file(&events)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!("{} is not deleted: {error}", events.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manager::store::Store;

    #[tokio::test]
    async fn what_is_old_goes_and_what_is_open_stays() {
        let path = std::env::temp_dir().join(format!("treecast-keep-{}.sqlite", std::process::id()));
        let hub = Hub::new(Store::open(&path).unwrap()).await.unwrap();
        let day = DAY_MS;
        hub.store
            .with(move |of| {
                of.execute_batch(
                    "INSERT INTO hosts (id, name, key, joined, seen, facts, permits, own_tags)
                     VALUES (1, 'a', 'k', 1, 1, '{}', '{}', '{}')",
                )?;
                // Order 1 has ended long ago, order 2 lately, and order 3 has not.
                for (number, given, ended) in [(1, day, Some(day)), (2, day, Some(99 * day)), (3, day, None)] {
                    of.execute(
                        "INSERT INTO orders (host, number, given, work, ended) VALUES (1, ?1, ?2, '', ?3)",
                        params![number, given, ended],
                    )?;
                    of.execute(
                        "INSERT INTO reports (host, number, order_number, came, at_ns, what) VALUES (1, ?1, ?1, ?2, 0, '')",
                        params![number, given],
                    )?;
                    of.execute(
                        "INSERT INTO asks (id, asked, who, selection, work) VALUES (?1, ?2, '', '', '')",
                        params![number, u64::try_from(number).unwrap_or(0) * 33 * day],
                    )?;
                }
                Ok(())
            })
            .await
            .unwrap();
        delete_old(&hub, &Keep { reports_days: 50, ..Keep::default() }, 100 * day).await.unwrap();
        let numbers = async |of: &'static str| -> Vec<i64> {
            hub.store
                .with(move |db| db.prepare(of)?.query_map([], |row| row.get(0))?.collect())
                .await
                .unwrap()
        };
        assert_eq!(numbers("SELECT number FROM orders ORDER BY number").await, [2, 3]);
        assert_eq!(numbers("SELECT number FROM reports ORDER BY number").await, [2, 3]);
        assert_eq!(numbers("SELECT id FROM asks ORDER BY id").await, [2, 3]);
        drop(hub);
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn events_of_old_runs_go_and_their_results_stay() {
        let runs = std::env::temp_dir().join(format!("treecast-keep-{}", std::process::id()));
        let run = runs.join("1");
        fs::create_dir_all(&run).unwrap();
        fs::write(run.join(super::super::runs::EVENTS), "{}").unwrap();
        fs::write(run.join("results.json"), "{}").unwrap();
        delete_events(&runs, Duration::from_secs(1));
        assert!(run.join(super::super::runs::EVENTS).exists(), "it is not that old");
        delete_events(&runs, Duration::from_secs(1 << 40));
        assert!(!run.join(super::super::runs::EVENTS).exists() && run.join("results.json").exists());
        fs::remove_dir_all(&runs).unwrap();
    }
}
