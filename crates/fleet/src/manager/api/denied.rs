//! Reasons why requests are not granted.

use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    manager::{access::Role, hub::HubError, rollouts::RolloutError, runs::RunsError, store::StoreError},
    selection::SelectionError,
};

/// The reason why a request is not granted.
pub enum Denied {
    /// Nobody is known by what was brought.
    Unknown,
    /// Somebody may not do this.
    Role(Role),
    /// A page of another site may have sent this.
    Foreign,
    /// What was asked is wrong, in one line.
    Bad(String),
    Missing(String),
    /// More was sent than is taken.
    TooLarge(String),
    Failed(String),
}

/// The answer to a request that is not granted.
#[derive(Serialize, ToSchema)]
pub struct Error {
    /// What is wrong and what to do, in one line.
    error: String,
}

impl IntoResponse for Denied {
    fn into_response(self) -> Response {
        let (status, error) = match self {
            Self::Unknown => {
                (StatusCode::UNAUTHORIZED, "log in first: the token or login is not known here".into())
            }
            Self::Role(least) => {
                (StatusCode::FORBIDDEN, format!("this needs the role {least} or a higher one"))
            }
            Self::Foreign => (StatusCode::FORBIDDEN, "the header x-treecast is missing".into()),
            Self::Bad(what) => (StatusCode::BAD_REQUEST, what),
            Self::Missing(what) => (StatusCode::NOT_FOUND, what),
            Self::TooLarge(what) => (StatusCode::PAYLOAD_TOO_LARGE, what),
            Self::Failed(what) => (StatusCode::INTERNAL_SERVER_ERROR, what),
        };
        (status, Json(Error { error })).into_response()
    }
}

impl From<StoreError> for Denied {
    fn from(error: StoreError) -> Self {
        Self::Failed(error.to_string())
    }
}

impl From<SelectionError> for Denied {
    fn from(error: SelectionError) -> Self {
        Self::Bad(error.to_string())
    }
}

impl From<HubError> for Denied {
    fn from(error: HubError) -> Self {
        match error {
            HubError::Store(error) => error.into(),
            HubError::NoHost(_) => Self::Missing(error.to_string()),
            HubError::Selection(_) | HubError::Nobody(_) | HubError::Full { .. } => {
                Self::Bad(error.to_string())
            }
        }
    }
}

impl From<RolloutError> for Denied {
    fn from(error: RolloutError) -> Self {
        match error {
            RolloutError::Hub(error) => error.into(),
            RolloutError::Store(error) => error.into(),
            RolloutError::Missing(what) => Self::Missing(what),
            RolloutError::Release(_) | RolloutError::Wrong(_) | RolloutError::File(_) => {
                Self::Bad(error.to_string())
            }
        }
    }
}

impl From<RunsError> for Denied {
    fn from(error: RunsError) -> Self {
        match error {
            RunsError::Hub(error) => error.into(),
            RunsError::Store(error) => error.into(),
            RunsError::Experiment(_) => Self::Bad(error.to_string()),
            RunsError::File(_) => Self::Failed(error.to_string()),
        }
    }
}
