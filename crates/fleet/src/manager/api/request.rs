//! What routes take out of a request. Whatever is wrong with it is told in one line, as JSON like all other answers.

use axum::{
    Json,
    extract::{FromRequest, FromRequestParts, Path, Query, Request},
    http::request::Parts,
};
use serde::de::DeserializeOwned;

use super::{Api, Denied};

/// The body of a request, in JSON.
pub struct Body<T>(pub T);

/// The variable parts of the path.
pub struct Part<T>(pub T);

/// The variables behind the path.
pub struct Wanted<T>(pub T);

impl<T: DeserializeOwned> FromRequest<Api> for Body<T> {
    type Rejection = Denied;

    async fn from_request(request: Request, api: &Api) -> Result<Self, Denied> {
        match Json::from_request(request, api).await {
            Ok(Json(value)) => Ok(Self(value)),
            Err(rejection) => Err(Denied::Bad(rejection.body_text())),
        }
    }
}

impl<T: DeserializeOwned + Send> FromRequestParts<Api> for Part<T> {
    type Rejection = Denied;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, Denied> {
        match Path::from_request_parts(parts, api).await {
            Ok(Path(value)) => Ok(Self(value)),
            Err(rejection) => Err(Denied::Bad(rejection.body_text())),
        }
    }
}

impl<T: DeserializeOwned> FromRequestParts<Api> for Wanted<T> {
    type Rejection = Denied;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, Denied> {
        match Query::from_request_parts(parts, api).await {
            Ok(Query(value)) => Ok(Self(value)),
            Err(rejection) => Err(Denied::Bad(rejection.body_text())),
        }
    }
}
