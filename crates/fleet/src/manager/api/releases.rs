//! Releases, and their rollouts.

use std::path::PathBuf;

use axum::{Json, extract::State, response::NoContent};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{
    Api, By, Denied,
    asks::{Asked, ask_all},
    described::List,
    hosts::Which,
    request::{Body, Part},
};
use crate::{
    manager::rollouts::{NewPlan, NewRollout, PlanView, ReleaseView, RolloutView},
    message::{Work, word},
    release::Signed,
};

/// A release whose files are in a folder of the manager's host.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct NewRelease {
    pub signed: Signed,
    /// The folder at the manager's host that has the files.
    #[schema(value_type = String)]
    pub folder: PathBuf,
}

pub async fn releases(State(api): State<Api>, _: By) -> Result<List<ReleaseView>, Denied> {
    Ok(List(api.0.rollouts.releases().await?))
}

/// A release that was added.
#[derive(Serialize, ToSchema)]
pub struct Added {
    id: i64,
}

pub async fn add(State(api): State<Api>, by: By, Body(new): Body<NewRelease>) -> Result<Json<Added>, Denied> {
    by.note(&api, &new.folder.display().to_string()).await?;
    match api.0.rollouts.add(&by.caller.name, new.signed, new.folder).await {
        Ok(id) => Ok(Json(Added { id })),
        Err(error) => {
            by.note_refused(&api, &error.to_string()).await?;
            Err(error.into())
        }
    }
}

pub async fn withdraw(State(api): State<Api>, by: By, Part(id): Part<i64>) -> Result<NoContent, Denied> {
    by.note(&api, &id.to_string()).await?;
    api.0.rollouts.withdraw(id).await?;
    Ok(NoContent)
}

/// Asks hosts whether they have a release, by its hashes.
pub async fn verify(
    State(api): State<Api>,
    by: By,
    Part(id): Part<i64>,
    Body(which): Body<Which>,
) -> Result<Json<Asked>, Denied> {
    by.note(&api, &format!("{id} at {}", which.select)).await?;
    let signed = api.0.rollouts.signed(id).await?;
    ask_all(&api, &by, &which.select, &Work::Verify { signed }).await
}

pub async fn rollouts(State(api): State<Api>, _: By) -> Result<List<RolloutView>, Denied> {
    Ok(List(api.0.rollouts.all().await?))
}

pub async fn rollout(
    State(api): State<Api>,
    _: By,
    Part(id): Part<i64>,
) -> Result<Json<RolloutView>, Denied> {
    Ok(Json(api.0.rollouts.one(id).await?))
}

pub async fn begin(
    State(api): State<Api>,
    by: By,
    Body(new): Body<NewRollout>,
) -> Result<Json<RolloutView>, Denied> {
    by.note(&api, &new.release.to_string()).await?;
    let id = api.0.rollouts.begin(&by.caller.name, new).await?;
    Ok(Json(api.0.rollouts.one(id).await?))
}

pub async fn plan(State(api): State<Api>, _: By, Body(new): Body<NewPlan>) -> Result<Json<PlanView>, Denied> {
    Ok(Json(api.0.rollouts.plan(new).await?))
}

/// What becomes of a rollout.
#[derive(Clone, Copy, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum RolloutChange {
    /// Somebody else than who has ordered it lets it begin.
    Approve,
    Pause,
    Go,
    Abort,
    /// Hosts that have failed are tried again.
    Retry,
    /// Hosts go back to the version before.
    Back,
}

pub async fn change(
    State(api): State<Api>,
    by: By,
    Part((id, change)): Part<(i64, RolloutChange)>,
) -> Result<Json<RolloutView>, Denied> {
    by.note(&api, &format!("{id}: {}", word(&change))).await?;
    match change {
        RolloutChange::Back => api.0.rollouts.go_back(id).await?,
        change => api.0.rollouts.change(id, &by.caller.name, &word(&change)).await?,
    }
    Ok(Json(api.0.rollouts.one(id).await?))
}
