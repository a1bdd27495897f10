//! The part of the API for checks of the network between hosts.

use std::sync::Arc;

use axum::{
    Extension, Json, Router,
    extract::{Path, State},
    routing::get,
};

use super::{
    access::{Caller, Role},
    api::{Answered, Api, Denied},
    checks::{self, CheckError, CheckView, NewCheck},
    hub::Hub,
};

/// Returns what serves requests about checks.
pub fn router(hub: Arc<Hub>) -> Router<Api> {
    Router::new()
        .route("/api/checks", get(all).post(begin))
        .route("/api/checks/{id}", get(one))
        .layer(Extension(hub))
}

type Own = Extension<Arc<Hub>>;

async fn all(_: Caller, hub: Own) -> Answered<Vec<CheckView>> {
    Ok(Json(checks::all(&hub).await?))
}

async fn one(_: Caller, hub: Own, Path(id): Path<i64>) -> Answered<CheckView> {
    Ok(Json(checks::one(&hub, id).await?))
}

async fn begin(
    State(api): State<Api>,
    caller: Caller,
    hub: Own,
    Json(new): Json<NewCheck>,
) -> Answered<CheckView> {
    api.permit(&caller, Role::Operator, "check hosts", &format!("{:?} at {}", new.kind, new.select)).await?;
    let id = checks::begin(&hub, &caller.name, new).await?;
    Ok(Json(checks::one(&hub, id).await?))
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
