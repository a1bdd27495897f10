//! Questions to many hosts.

use std::time::Duration;

use axum::{Json, extract::State};
use serde::{Deserialize, Serialize};
use treecast_host::quantity;
use utoipa::ToSchema;

use super::{
    Api, By, Denied,
    described::List,
    request::{Body, Part},
};
use crate::{
    manager::asks::{self, Answer},
    message::{Program, Start, Work},
};

/// A question to many hosts.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct Question {
    /// The hosts.
    pub select: String,
    /// The program and its arguments. Empty: the hosts' facts.
    #[serde(default)]
    pub command: Vec<String>,
    /// The longest time that the program may run, such as `1m`.
    #[serde(default = "a_minute")]
    pub limit: String,
}

fn a_minute() -> String {
    "1m".into()
}

/// A question that was asked.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct Asked {
    /// The number of the question.
    pub id: i64,
    /// The names of the hosts that were asked.
    pub hosts: Vec<String>,
}

pub async fn ask(
    State(api): State<Api>,
    by: By,
    Body(question): Body<Question>,
) -> Result<Json<Asked>, Denied> {
    by.note(&api, &format!("{}: {}", question.select, question.command.join(" "))).await?;
    let range = Duration::from_millis(1)..=Duration::from_secs(7 * 24 * 3600);
    let limit =
        quantity::time(&question.limit, range).map_err(|error| Denied::Bad(format!("limit: {error}")))?;
    let work = match question.command.first().map(String::as_str) {
        None => Work::Facts,
        Some(first) => Work::Start(Start {
            program: if first == "treecast" { Program::Treecast } else { Program::System },
            arguments: question.command[usize::from(first == "treecast")..].to_vec(),
            folder: None,
            at_ns: None,
            limit_ms: limit.as_millis() as u64,
            has_input: false,
        }),
    };
    ask_all(&api, &by, &question.select, &work).await
}

/// Asks all hosts of a selection.
pub async fn ask_all(api: &Api, by: &By, select: &str, work: &Work) -> Result<Json<Asked>, Denied> {
    let hosts = api.hub().select_some(select).await?;
    let id = asks::ask(api.hub(), &by.caller.name, select, &hosts, work).await?;
    Ok(Json(Asked { id, hosts: hosts.into_iter().map(|host| host.name).collect() }))
}

pub async fn answers(State(api): State<Api>, _: By, Part(id): Part<i64>) -> Result<List<Answer>, Denied> {
    let answers = asks::answers(api.hub(), id).await?;
    answers.map(List).ok_or_else(|| Denied::Missing(format!("there is no question {id}")))
}

/// How long hosts took to answer a question, without the answers.
#[derive(Serialize, ToSchema)]
pub struct Times {
    /// The time of each host that has answered, in milliseconds.
    answered_ms: Vec<u64>,
    /// The number of hosts that have not answered.
    open: usize,
}

pub async fn times(State(api): State<Api>, _: By, Part(id): Part<i64>) -> Result<Json<Times>, Denied> {
    let (answered_ms, open) = asks::times(api.hub(), id).await?;
    Ok(Json(Times { answered_ms, open }))
}
