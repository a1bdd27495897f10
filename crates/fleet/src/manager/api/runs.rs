//! Experiments over the fleet.

use axum::{
    Json,
    extract::State,
    http::header,
    response::{IntoResponse, Response},
};
use treecast_experiment::Preview;

use super::{
    Api, By, Denied,
    described::{Given, List, Operation, other},
    request::{Body, Part},
};
use crate::manager::runs::{NewRun, RunView};

pub async fn runs(State(api): State<Api>, _: By) -> Result<List<RunView>, Denied> {
    Ok(List(api.0.runs.all().await?))
}

pub async fn run(State(api): State<Api>, _: By, Part(id): Part<i64>) -> Result<Json<RunView>, Denied> {
    let run = api.0.runs.one(id).await?;
    run.map(Json).ok_or_else(|| Denied::Missing(format!("there is no run {id}")))
}

pub async fn plan(State(api): State<Api>, _: By, Body(run): Body<NewRun>) -> Result<Json<Preview>, Denied> {
    Ok(Json(api.0.runs.plan(run).await?))
}

pub async fn start(State(api): State<Api>, by: By, Body(run): Body<NewRun>) -> Result<Json<RunView>, Denied> {
    by.note(&api, &format!("{} at {}", run.name, run.select)).await?;
    Ok(Json(api.0.runs.order(&by.caller.name, run).await?))
}

pub async fn abort(State(api): State<Api>, by: By, Part(id): Part<i64>) -> Result<Json<RunView>, Denied> {
    by.note(&api, &id.to_string()).await?;
    api.0.runs.abort(id).await?;
    let run = api.0.runs.one(id).await?;
    run.map(Json).ok_or_else(|| Denied::Missing(format!("there is no run {id}")))
}

/// The results database of a run.
pub struct Database(Vec<u8>);

/// The kind of a results database.
const DATABASE: &str = "application/vnd.sqlite3";

impl IntoResponse for Database {
    fn into_response(self) -> Response {
        ([(header::CONTENT_TYPE, DATABASE)], self.0).into_response()
    }
}

impl Given for Database {
    fn describe(operation: &mut Operation) {
        other(operation, 200, "The results database of the run", Some(DATABASE));
    }
}

pub async fn results(State(api): State<Api>, _: By, Part(id): Part<i64>) -> Result<Database, Denied> {
    let missing = || Denied::Missing(format!("there is no run {id}, or it has no results yet"));
    let path = api.0.runs.results(id).ok_or_else(missing)?;
    tokio::fs::read(&path).await.map(Database).map_err(|_| missing())
}
