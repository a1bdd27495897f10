//! Hosts, their tags, and groups of them.

use std::{collections::BTreeMap, convert::Infallible};

use axum::{
    Json,
    extract::State,
    response::{
        NoContent,
        sse::{self, Sse},
    },
};
use futures_util::Stream;
use serde::{Deserialize, Serialize};
use tokio::sync::broadcast::error::RecvError;
use utoipa::ToSchema;

use super::{
    Api, By, Denied,
    described::List,
    request::{Body, Part, Wanted},
};
use crate::{
    agent::config::{check_name, check_tag},
    manager::{hosts::Host, hub::Change},
    selection::Selection,
};

/// Which hosts are meant.
#[derive(Deserialize, ToSchema)]
pub struct Which {
    /// A selection, such as `site=kiel and not role=router`.
    #[serde(default = "everything")]
    pub select: String,
}

fn everything() -> String {
    "all".into()
}

pub async fn hosts(
    State(api): State<Api>,
    _: By,
    Wanted(which): Wanted<Which>,
) -> Result<List<Host>, Denied> {
    Ok(List(api.hub().select(&which.select).await?))
}

/// How many hosts there are.
#[derive(Serialize, ToSchema)]
pub struct Count {
    hosts: usize,
    /// The number of hosts whose agent is connected.
    here: usize,
}

pub async fn count(State(api): State<Api>, _: By) -> Result<Json<Count>, Denied> {
    let (hosts, here) = api.hub().count().await?;
    Ok(Json(Count { hosts, here }))
}

pub async fn host(State(api): State<Api>, _: By, Part(name): Part<String>) -> Result<Json<Host>, Denied> {
    Ok(Json(api.hub().host(&name).await?))
}

/// Removes a host: its key is not known any more.
pub async fn forget(State(api): State<Api>, by: By, Part(name): Part<String>) -> Result<NoContent, Denied> {
    by.note(&api, &name).await?;
    let host = api.hub().host(&name).await?;
    api.hub().forget(host.id).await?;
    Ok(NoContent)
}

/// Tags, by name. One with an empty value is removed.
#[derive(Deserialize, ToSchema)]
pub struct Tags(BTreeMap<String, String>);

/// Sets the manager's tags of a host.
pub async fn set_tags(
    State(api): State<Api>,
    by: By,
    Part(name): Part<String>,
    Body(Tags(tags)): Body<Tags>,
) -> Result<Json<Host>, Denied> {
    by.note(&api, &name).await?;
    tags.iter().try_for_each(|(name, value)| check_tag(name, value)).map_err(Denied::Bad)?;
    let host = api.hub().host(&name).await?;
    api.hub().set_tags(host.id, tags).await?;
    Ok(Json(api.hub().host(&name).await?))
}

/// A selection that was saved.
#[derive(Serialize, ToSchema)]
#[schema(as = Group)]
pub struct SavedSelection {
    name: String,
    selection: String,
    /// The number of hosts that it selects now.
    hosts: usize,
}

/// A selection that is to be saved.
#[derive(Deserialize, ToSchema)]
pub struct NewGroup {
    selection: String,
}

pub async fn groups(State(api): State<Api>, _: By) -> Result<List<SavedSelection>, Denied> {
    let mut groups = Vec::new();
    for (name, selection) in api.hub().groups().await? {
        let selection = selection.to_string();
        // A group that names one that was removed selects nobody.
        let hosts = api.hub().select(&selection).await.map_or(0, |hosts| hosts.len());
        groups.push(SavedSelection { name, selection, hosts });
    }
    Ok(List(groups))
}

pub async fn save_group(
    State(api): State<Api>,
    by: By,
    Part(name): Part<String>,
    Body(group): Body<NewGroup>,
) -> Result<Json<SavedSelection>, Denied> {
    by.note(&api, &format!("{name}: {}", group.selection)).await?;
    check_name(&name).map_err(Denied::Bad)?;
    let selection: Selection = group.selection.parse()?;
    let hosts = api.hub().save_group(&name, &selection).await?;
    Ok(Json(SavedSelection { name, selection: selection.to_string(), hosts }))
}

pub async fn remove_group(
    State(api): State<Api>,
    by: By,
    Part(name): Part<String>,
) -> Result<NoContent, Denied> {
    by.note(&api, &name).await?;
    match api.hub().remove_group(&name).await? {
        true => Ok(NoContent),
        false => Err(Denied::Missing(format!("there is no group {name}"))),
    }
}

/// Tells what changes, while the page is open.
pub async fn changes(
    State(api): State<Api>,
    _: By,
) -> Result<Sse<impl Stream<Item = Result<sse::Event, Infallible>>>, Denied> {
    let changes = futures_util::stream::unfold(api.hub().changes(), |mut changes| async {
        let change = match changes.recv().await {
            Ok(change) => change,
            Err(RecvError::Lagged(_)) => Change::All,
            Err(RecvError::Closed) => return None,
        };
        Some((Ok(sse::Event::default().data(crate::message::text_of(&change))), changes))
    });
    Ok(Sse::new(changes).keep_alive(sse::KeepAlive::default()))
}
