//! Orders to many hosts at once, and their answers side by side (interdomain-2013, 3.4: one window for each host; 4.6.3: batch mode).

use std::collections::BTreeMap;

use rusqlite::params;
use serde::Serialize;
use utoipa::ToSchema;

use super::{
    hosts::{Host, HostId},
    hub::{Hub, HubError, now_ms},
};
use crate::message::{End, What, Work, read, text_of};

/// The most lines that an answer shows. The reports have all.
const MAX_LINES: usize = 1_000;

/// What one host has answered so far.
#[derive(Debug, Clone, Default, Serialize, ToSchema)]
pub struct Answer {
    pub host: String,
    /// What the program has printed.
    pub lines: Vec<String>,
    /// What a question came to that starts no program.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    pub value: Option<serde_json::Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<End>,
    /// The reason why there is no answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    pub is_over: bool,
}

/// Asks hosts something. Those that are away are not waited for. Returns the number of the question.
///
/// # Errors
/// If the database fails.
pub async fn ask(
    hub: &Hub,
    who: &str,
    selection: &str,
    hosts: &[Host],
    work: &Work,
) -> Result<i64, HubError> {
    ask_each(hub, who, (selection, text_of(work)), hosts, |_| work.clone()).await
}

/// Asks each host something of its own. `text` says what, for those who look at the question later.
///
/// # Errors
/// If the database fails.
pub async fn ask_each(
    hub: &Hub,
    who: &str,
    (selection, text): (&str, String),
    hosts: &[Host],
    work_of: impl Fn(&Host) -> Work,
) -> Result<i64, HubError> {
    let (who, selection, now_ms) = (who.to_owned(), selection.to_owned(), now_ms());
    let ask = hub
        .store
        .with(move |of| {
            let insert = "INSERT INTO asks (asked, who, selection, work) VALUES (?1, ?2, ?3, ?4)";
            of.execute(insert, params![now_ms, who, selection, text])?;
            Ok(of.last_insert_rowid())
        })
        .await?;
    let order = |host: &Host| {
        let (id, is_here) = (host.id, host.is_here);
        let work = work_of(host);
        async move {
            let number = match is_here {
                true => Some(hub.order(id, work).await?),
                false => None,
            };
            let insert = "INSERT INTO asked (ask, host, order_number) VALUES (?1, ?2, ?3)";
            hub.store.with(move |of| of.execute(insert, params![ask, id, number])).await?;
            Ok::<_, HubError>(())
        }
    };
    for outcome in futures_util::future::join_all(hosts.iter().map(order)).await {
        outcome?;
    }
    Ok(ask)
}

/// Returns what all hosts of a question have answered so far, by host. `None` where there is no such question.
///
/// # Errors
/// If the database fails.
pub async fn answers(hub: &Hub, ask: i64) -> Result<Option<Vec<Answer>>, HubError> {
    type Row = (HostId, String, Option<u64>, Option<String>);
    let rows: Vec<Row> = hub
        .store
        .with(move |of| {
            let mut query = of.prepare_cached(
                "SELECT hosts.id, hosts.name, asked.order_number, reports.what FROM asked
                 JOIN hosts ON hosts.id = asked.host
                 LEFT JOIN reports ON reports.host = asked.host AND reports.order_number = asked.order_number
                 WHERE asked.ask = ?1 ORDER BY hosts.name, reports.number",
            )?;
            query.query_map([ask], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))?.collect()
        })
        .await?;
    if rows.is_empty() {
        return Ok(None);
    }
    let mut answers: BTreeMap<String, Answer> = BTreeMap::new();
    for (_, name, order, what) in rows {
        let answer =
            answers.entry(name.clone()).or_insert_with(|| Answer { host: name, ..Answer::default() });
        if order.is_none() {
            answer.failure = Some("the host is away".into());
            answer.is_over = true;
        }
        if let Some(Ok(what)) = what.map(|what| read(&what)) {
            answer.note(what);
        }
    }
    Ok(Some(answers.into_values().collect()))
}

/// Returns how long each host took to answer a question, in milliseconds, and how many have not.
///
/// # Errors
/// If the database fails.
pub async fn times(hub: &Hub, ask: i64) -> Result<(Vec<u64>, usize), HubError> {
    let rows: Vec<Option<u64>> = hub
        .store
        .with(move |of| {
            let mut query = of.prepare_cached(
                "SELECT orders.ended - asks.asked FROM asked JOIN asks ON asks.id = asked.ask
                 JOIN orders ON orders.host = asked.host AND orders.number = asked.order_number WHERE asked.ask = ?1",
            )?;
            query.query_map([ask], |row| row.get(0))?.collect()
        })
        .await?;
    let open = rows.iter().filter(|time| time.is_none()).count();
    Ok((rows.into_iter().flatten().collect(), open))
}

impl Answer {
    fn note(&mut self, what: What) {
        self.is_over |= what.is_last();
        match what {
            What::Line { text } if self.lines.len() < MAX_LINES => self.lines.push(text),
            What::Dropped { lines } => {
                self.lines.push(format!("({lines} lines were dropped: the agent's disk is full)"))
            }
            What::Ended(end) => self.end = Some(end),
            What::Done { value } => self.value = Some(value),
            What::Failed { reason } => self.failure = Some(reason),
            What::Line { .. } | What::Began | What::Samples { .. } => {}
        }
    }
}
