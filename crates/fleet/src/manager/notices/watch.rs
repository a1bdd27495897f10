//! Sees what has happened, and posts what matters.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use rusqlite::OptionalExtension;
use tokio::{
    sync::broadcast::{self, error::RecvError},
    time::Instant,
};

use super::{Kind, Notices};
use crate::{
    manager::{hosts::HostId, hub::Change, rollouts::RolloutState, runs::State, store::StoreError},
    message::of_word,
};

/// The time until another notice about a host that comes with another key.
const SAME_AGAIN: Duration = Duration::from_secs(60 * 60);

/// What is known of the fleet, to see what has changed.
pub struct Watch {
    notices: Arc<Notices>,
    changes: broadcast::Receiver<Change>,
    away_after: Duration,
    /// The runs that have not ended, and the highest number of a run so far.
    open_runs: BTreeSet<i64>,
    last_run: i64,
    rollouts: HashMap<i64, RolloutState>,
    /// Hosts that have gone, each with the time when that matters.
    leaving: HashMap<HostId, Instant>,
    /// Names of hosts for which somebody came with another key, and when that was told.
    refused: HashMap<String, Instant>,
}

impl Watch {
    /// Begins to watch. What changes from now on is seen.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn new(notices: Arc<Notices>, away_after: Duration) -> Result<Self, StoreError> {
        let changes = notices.hub.changes();
        let open = notices
            .hub
            .store
            .with(|of| {
                let open = "SELECT id FROM runs WHERE state IN ('waiting', 'running')";
                let open = of.prepare(open)?.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
                let last = of.query_row("SELECT coalesce(max(id), 0) FROM runs", [], |row| row.get(0))?;
                Ok((open, last))
            })
            .await?;
        let (open_runs, last_run): (BTreeSet<i64>, i64) = open;
        let mut watch = Self {
            notices,
            changes,
            away_after,
            open_runs,
            last_run,
            rollouts: HashMap::new(),
            leaving: HashMap::new(),
            refused: HashMap::new(),
        };
        watch.rollouts = watch.states().await?;
        Ok(watch)
    }

    /// Watches until the manager ends.
    pub async fn work(mut self) {
        loop {
            let next = self.leaving.values().min().copied();
            let due = next.unwrap_or_else(|| Instant::now() + SAME_AGAIN);
            let seen = tokio::select! {
                change = self.changes.recv() => match change {
                    Ok(change) => self.see(change).await,
                    Err(RecvError::Lagged(_)) => self.look_again().await,
                    Err(RecvError::Closed) => return,
                },
                () = tokio::time::sleep_until(due) => self.see_away().await,
            };
            if let Err(error) = seen {
                tracing::error!("nobody is told what has changed: {error}");
            }
        }
    }

    async fn see(&mut self, change: Change) -> Result<(), StoreError> {
        match change {
            Change::Run { id } => self.see_run(id).await,
            Change::Rollout { id } => self.see_rollout(id).await,
            Change::Host { id, is_here } => {
                match is_here {
                    true => self.leaving.remove(&id),
                    false => self.leaving.insert(id, Instant::now() + self.away_after),
                };
                Ok(())
            }
            Change::Stranger { name, reason } => self.see_stranger(name, &reason).await,
            Change::Delivery { .. } | Change::Groups | Change::All => Ok(()),
        }
    }

    /// Looks at everything, because not every change was heard.
    async fn look_again(&mut self) -> Result<(), StoreError> {
        let last = self.last_run;
        let new = "SELECT id FROM runs WHERE id > ?1 ORDER BY id";
        let new: Vec<i64> = self
            .notices
            .hub
            .store
            .with(move |of| of.prepare(new)?.query_map([last], |row| row.get(0))?.collect())
            .await?;
        let open: Vec<i64> = self.open_runs.iter().copied().chain(new).collect();
        for run in open {
            self.see_run(run).await?;
        }
        for rollout in self.states().await?.into_keys() {
            self.see_rollout(rollout).await?;
        }
        Ok(())
    }

    async fn see_run(&mut self, id: i64) -> Result<(), StoreError> {
        if id <= self.last_run && !self.open_runs.contains(&id) {
            return Ok(());
        }
        self.last_run = self.last_run.max(id);
        let query = "SELECT name, state, reason FROM runs WHERE id = ?1";
        let columns = |row: &rusqlite::Row| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
        let found: Option<(String, String, Option<String>)> =
            self.notices.hub.store.with(move |of| of.query_row(query, [id], columns).optional()).await?;
        let Some((name, state, reason)) = found else { return Ok(()) };
        let state = of_word(&state).unwrap_or(State::Failed);
        if !state.is_over() {
            self.open_runs.insert(id);
            return Ok(());
        }
        self.open_runs.remove(&id);
        let kind = if state == State::Done { Kind::RunEnded } else { Kind::RunFailed };
        let how = match state {
            State::Done => "it was made to its end",
            State::Aborted => "it was aborted",
            _ => "it could not be made",
        };
        let reason = reason.map_or_else(String::new, |reason| format!(": {reason}"));
        self.notices.post(kind, &format!("run {id} ({name})"), &format!("{how}{reason}")).await
    }

    async fn see_rollout(&mut self, id: i64) -> Result<(), StoreError> {
        let query = "SELECT releases.name, releases.version, rollouts.who, state, reason FROM rollouts
                     JOIN releases ON releases.id = release WHERE rollouts.id = ?1";
        let columns = |row: &rusqlite::Row| {
            let state: String = row.get(3)?;
            Ok((
                row.get(0)?,
                row.get(1)?,
                row.get(2)?,
                of_word(&state).unwrap_or(RolloutState::Stopped),
                row.get(4)?,
            ))
        };
        let found: Option<(String, String, String, RolloutState, Option<String>)> =
            self.notices.hub.store.with(move |of| of.query_row(query, [id], columns).optional()).await?;
        let Some((name, version, who, state, reason)) = found else { return Ok(()) };
        if self.rollouts.insert(id, state) == Some(state) {
            return Ok(());
        }
        let about = format!("rollout {id} ({name} {version})");
        match state {
            RolloutState::Stopped => {
                let reason = reason.unwrap_or_else(|| "it has stopped".into());
                self.notices
                    .post(Kind::RolloutStopped, &about, &format!("it has stopped by itself: {reason}"))
                    .await
            }
            RolloutState::Approval => {
                let says = format!("{who} has ordered it, and somebody else approves it");
                self.notices.post(Kind::RolloutWaits, &about, &says).await
            }
            _ => Ok(()),
        }
    }

    async fn states(&self) -> Result<HashMap<i64, RolloutState>, StoreError> {
        let query = "SELECT id, state FROM rollouts";
        let state = |row: &rusqlite::Row| {
            let state: String = row.get(1)?;
            Ok((row.get(0)?, of_word(&state).unwrap_or(RolloutState::Stopped)))
        };
        self.notices.hub.store.with(move |of| of.prepare(query)?.query_map([], state)?.collect()).await
    }

    /// Posts the hosts that have been away for long enough.
    async fn see_away(&mut self) -> Result<(), StoreError> {
        let now = Instant::now();
        let due: Vec<HostId> =
            self.leaving.iter().filter(|(_, due)| **due <= now).map(|(host, _)| *host).collect();
        for host in due {
            self.leaving.remove(&host);
            let query = "SELECT name FROM hosts WHERE id = ?1";
            let name: Option<String> = self
                .notices
                .hub
                .store
                .with(move |of| of.query_row(query, [host], |row| row.get(0)).optional())
                .await?;
            // A host that was removed is not missed.
            if let Some(name) = name {
                let says = format!("it has been away for {} s", self.away_after.as_secs());
                self.notices.post(Kind::HostAway, &format!("host {name}"), &says).await?;
            }
        }
        Ok(())
    }

    async fn see_stranger(&mut self, name: String, reason: &str) -> Result<(), StoreError> {
        // Names are those of hosts, so that strangers cannot fill this.
        let now = Instant::now();
        self.refused.retain(|_, told| now.duration_since(*told) < SAME_AGAIN);
        if self.refused.contains_key(&name) {
            return Ok(());
        }
        let about = format!("host {name}");
        self.refused.insert(name, now);
        let says = format!("somebody with another key wanted to be this host, and was refused: {reason}");
        self.notices.post(Kind::HostRefused, &about, &says).await
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::params;
    use tokio::sync::Notify;

    use super::*;
    use crate::manager::{
        hub::Hub,
        notices::{Mail, Way},
        store::Store,
    };

    #[tokio::test]
    async fn a_run_is_told_once_when_it_has_ended() {
        let path = std::env::temp_dir().join(format!("treecast-watch-{}.sqlite", std::process::id()));
        let hub = Arc::new(Hub::new(Store::open(&path).unwrap()).await.unwrap());
        let run = |id: i64, state: &'static str| {
            hub.store.with(move |of| {
                of.execute(
                    "INSERT INTO runs (id, name, who, selection, file, settings, base, ordered, due, every_ms, times, state)
                     VALUES (?1, 'n', 'w', 'all', '', '[]', '', 1, 1, 0, 1, ?2) ON CONFLICT (id) DO UPDATE SET state = ?2",
                    params![id, state],
                )
            })
        };
        run(1, "running").await.unwrap();
        run(2, "done").await.unwrap();
        let mail: Mail = toml::from_str("from = \"a@b\"\nto = [\"c@d\"]").unwrap();
        let ways = vec![Way::Mail(Box::new(mail.ready().unwrap()))];
        let notices = Arc::new(Notices { hub: Arc::clone(&hub), ways, posted: Notify::new() });
        let mut watch = Watch::new(notices, Duration::ZERO).await.unwrap();
        run(1, "failed").await.unwrap();
        run(3, "done").await.unwrap();
        for id in [1, 2, 3, 1, 3] {
            watch.see(Change::Run { id }).await.unwrap();
        }
        let told = "SELECT kind || ': ' || about FROM notices ORDER BY id";
        let told: Vec<String> = hub
            .store
            .with(move |of| of.prepare(told)?.query_map([], |row| row.get(0))?.collect())
            .await
            .unwrap();
        assert_eq!(told, ["run-failed: run 1 (n)", "run-ended: run 3 (n)"]);
        drop((watch, hub));
        std::fs::remove_file(&path).unwrap();
    }
}
