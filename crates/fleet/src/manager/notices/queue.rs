//! Notices and their deliveries, on the manager's disk.

use rusqlite::{OptionalExtension, params};
use serde::Serialize;

use super::{Kind, Notices};
use crate::{
    manager::{hub::now_ms, store::StoreError},
    message::{of_word, word},
};

/// The most notices that are kept. When more come, the oldest go, with their deliveries.
const MOST: i64 = 1_000;

/// A notice of what matters, as hooks get it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Notice {
    /// Its number. A delivery that comes twice has the same.
    pub id: i64,
    pub at_ms: u64,
    pub kind: Kind,
    /// What it is about, such as `run 7`.
    pub about: String,
    /// What has happened, in one sentence.
    pub says: String,
}

/// A delivery that is due.
pub struct Delivery {
    pub id: i64,
    /// The name of the way.
    pub way: String,
    /// How often it was tried in vain.
    pub attempts: u32,
    pub notice: Notice,
}

impl Notices {
    /// Keeps a notice, and a delivery for each way that wants it.
    ///
    /// # Errors
    /// If the database fails.
    pub(super) async fn post(&self, kind: Kind, about: &str, says: &str) -> Result<(), StoreError> {
        let ways: Vec<String> =
            self.ways.iter().filter(|way| way.wants(kind)).map(|way| way.name()).collect();
        if ways.is_empty() {
            return Ok(());
        }
        let (about, says, now_ms) = (about.to_owned(), says.to_owned(), now_ms());
        self.hub
            .store
            .with(move |of| {
                let insert =
                    "INSERT INTO notices (at, kind, about, says) VALUES (?1, ?2, ?3, ?4) RETURNING id";
                let id: i64 =
                    of.query_row(insert, params![now_ms, word(&kind), about, says], |row| row.get(0))?;
                for way in ways {
                    let insert =
                        "INSERT INTO notices_due (notice, way, attempts, due) VALUES (?1, ?2, 0, ?3)";
                    of.execute(insert, params![id, way, now_ms])?;
                }
                of.execute("DELETE FROM notices WHERE id <= ?1", [id - MOST])
            })
            .await?;
        self.posted.notify_one();
        Ok(())
    }

    /// Returns some deliveries that are due, the longest due first.
    ///
    /// # Errors
    /// If the database fails.
    pub(super) async fn due(&self, most: u32) -> Result<Vec<Delivery>, StoreError> {
        let now_ms = now_ms();
        let query = "SELECT notices_due.id, way, attempts, notices.id, at, kind, about, says FROM notices_due
                     JOIN notices ON notices.id = notice WHERE due <= ?1 ORDER BY due, notices_due.id LIMIT ?2";
        let delivery = |row: &rusqlite::Row| {
            let kind: String = row.get(5)?;
            Ok(Delivery {
                id: row.get(0)?,
                way: row.get(1)?,
                attempts: row.get(2)?,
                notice: Notice {
                    id: row.get(3)?,
                    at_ms: row.get(4)?,
                    // Only our own words are written there.
                    kind: of_word(&kind).unwrap_or(Kind::RunFailed),
                    about: row.get(6)?,
                    says: row.get(7)?,
                },
            })
        };
        self.hub
            .store
            .with(move |of| of.prepare_cached(query)?.query_map(params![now_ms, most], delivery)?.collect())
            .await
    }

    /// Returns when the next delivery is due; `None` without one.
    ///
    /// # Errors
    /// If the database fails.
    pub(super) async fn next_due_ms(&self) -> Result<Option<u64>, StoreError> {
        let query = "SELECT due FROM notices_due ORDER BY due LIMIT 1";
        self.hub.store.with(move |of| of.query_row(query, [], |row| row.get(0)).optional()).await
    }

    /// Puts a delivery off that was tried in vain.
    ///
    /// # Errors
    /// If the database fails.
    pub(super) async fn put_off(&self, id: i64, due_ms: u64) -> Result<(), StoreError> {
        let update = "UPDATE notices_due SET attempts = attempts + 1, due = ?2 WHERE id = ?1";
        self.hub.store.with(move |of| of.execute(update, params![id, due_ms])).await.map(drop)
    }

    /// Ends a delivery.
    ///
    /// # Errors
    /// If the database fails.
    pub(super) async fn end(&self, id: i64) -> Result<(), StoreError> {
        self.hub
            .store
            .with(move |of| of.execute("DELETE FROM notices_due WHERE id = ?1", [id]))
            .await
            .map(drop)
    }
}
