//! What routes take out of a request. Whatever is wrong with it is told in one line, as JSON like all other answers.

use axum::{
    Json, body,
    extract::{FromRequest, FromRequestParts, Path, Query, Request},
    http::{header, request::Parts},
};
use serde::de::DeserializeOwned;

use super::{Api, Denied};

/// The body of a request, in JSON.
pub struct Body<T>(pub T);

/// The variable parts of the path.
pub struct Part<T>(pub T);

/// The variables behind the path.
pub struct Wanted<T>(pub T);

/// The body of a request as it is, of any length.
pub struct Raw {
    /// The number of bytes that the request says it has.
    pub says_bytes: Option<u64>,
    pub bytes: body::Body,
}

impl FromRequest<Api> for Raw {
    type Rejection = Denied;

    async fn from_request(request: Request, _: &Api) -> Result<Self, Denied> {
        let length = request.headers().get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok());
        Ok(Self { says_bytes: length.and_then(|text| text.parse().ok()), bytes: request.into_body() })
    }
}

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
