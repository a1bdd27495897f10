//! Checks of the network between hosts.

use axum::{Json, extract::State};

use super::{
    Api, By, Denied,
    described::List,
    request::{Body, Part},
};
use crate::manager::checks::{self, CheckError, CheckView, NewCheck};

pub async fn checks(State(api): State<Api>, _: By) -> Result<List<CheckView>, Denied> {
    Ok(List(checks::all(api.hub()).await?))
}

pub async fn check(State(api): State<Api>, _: By, Part(id): Part<i64>) -> Result<Json<CheckView>, Denied> {
    Ok(Json(checks::one(api.hub(), id).await?))
}

pub async fn begin(
    State(api): State<Api>,
    by: By,
    Body(new): Body<NewCheck>,
) -> Result<Json<CheckView>, Denied> {
    by.note(&api, &format!("{:?} at {}", new.kind, new.select)).await?;
    let id = checks::begin(api.hub(), &by.caller.name, new).await?;
    Ok(Json(checks::one(api.hub(), id).await?))
}

impl From<CheckError> for Denied {
    fn from(error: CheckError) -> Self {
        match error {
            CheckError::Hub(error) => error.into(),
            CheckError::Store(error) => error.into(),
            CheckError::Missing(_) => Self::Missing(error.to_string()),
            CheckError::Wrong(_) => Self::Bad(error.to_string()),
        }
    }
}
