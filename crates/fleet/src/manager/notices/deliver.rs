//! Delivers notices, and tries again what has failed.

use std::{sync::Arc, time::Duration};

use super::{Notices, Way, queue::Delivery};
use crate::manager::{hub::now_ms, store::StoreError};

/// The most deliveries at one time.
const AT_ONCE: u32 = 16;
/// The longest time of a delivery.
const LONGEST: Duration = Duration::from_secs(10);
/// The time until a delivery is tried again the first time. It doubles each time.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60 * 60);
/// A delivery is given up after so many attempts, which take about a day.
const MOST_ATTEMPTS: u32 = 35;

/// Delivers until the task is ended.
pub async fn work(notices: Arc<Notices>) {
    loop {
        if let Err(error) = deliver(&notices).await {
            tracing::error!("notices are not delivered: {error}");
            tokio::time::sleep(LONGEST).await;
        }
    }
}

/// Delivers what is due, or waits until something is.
async fn deliver(notices: &Notices) -> Result<(), StoreError> {
    let due = notices.due(AT_ONCE).await?;
    if due.is_empty() {
        let next = notices.next_due_ms().await?;
        let pause = next.map(|due| due.saturating_sub(now_ms())).map_or(LONGEST_PAUSE, Duration::from_millis);
        // Either something new has come, or it is time.
        _ = tokio::time::timeout(pause, notices.posted.notified()).await;
        return Ok(());
    }
    for outcome in futures_util::future::join_all(due.iter().map(|one| attempt(notices, one))).await {
        outcome?;
    }
    Ok(())
}

async fn attempt(notices: &Notices, delivery: &Delivery) -> Result<(), StoreError> {
    let Some(way) = notices.ways.iter().find(|way| way.name() == delivery.way) else {
        // It was taken out of the configuration.
        return notices.end(delivery.id).await;
    };
    let told = async {
        match way {
            Way::Hook(hook) => hook.tell(&delivery.notice).await,
            Way::Mail(mail) => mail.tell(&delivery.notice).await,
        }
    };
    let told = tokio::time::timeout(LONGEST, told).await.unwrap_or_else(|_| Err("no answer in time".into()));
    let Err(why) = told else { return notices.end(delivery.id).await };
    let attempts = delivery.attempts + 1;
    if attempts >= MOST_ATTEMPTS {
        tracing::warn!("notice {} is given up: {}: {why}", delivery.notice.id, delivery.way);
        return notices.end(delivery.id).await;
    }
    tracing::info!("notice {} is tried again: {}: {why}", delivery.notice.id, delivery.way);
    notices.put_off(delivery.id, now_ms() + pause(attempts).as_millis() as u64).await
}

/// Returns the time until the next attempt.
fn pause(attempts: u32) -> Duration {
    let doubled = 2_u32.saturating_pow(attempts.saturating_sub(1));
    FIRST_PAUSE.saturating_mul(doubled).min(LONGEST_PAUSE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_an_hour() {
        assert_eq!([1, 2, 3].map(|attempts| pause(attempts).as_secs()), [1, 2, 4]);
        assert_eq!([13, 40].map(pause), [LONGEST_PAUSE; 2]);
    }
}
