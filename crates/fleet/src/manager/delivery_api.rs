//! The part of the API for files to many hosts, and for uploads.

use std::sync::Arc;

use axum::{
    Extension, Json, Router,
    body::Body,
    extract::{Path, State},
    http::{HeaderMap, StatusCode, header},
    routing::{delete, get, post, put},
};
use serde::Serialize;

use super::{
    access::{Caller, Role},
    api::{Answered, Api, Denied},
    deliveries::{Deliveries, DeliveryError, DeliveryView, NewDelivery},
    uploads::UploadError,
};

/// Returns what serves requests about deliveries.
pub fn router(deliveries: Arc<Deliveries>) -> Router<Api> {
    Router::new()
        .route("/api/uploads", post(begin_upload))
        .route("/api/uploads/{upload}", delete(forget_upload))
        .route("/api/uploads/{upload}/{name}", put(upload))
        .route("/api/deliveries", get(all).post(begin))
        .route("/api/deliveries/{id}", get(one))
        .route("/api/deliveries/{id}/abort", post(abort))
        .layer(Extension(deliveries))
}

type Own = Extension<Arc<Deliveries>>;

/// An upload that was begun.
#[derive(Serialize)]
struct Begun {
    upload: String,
}

async fn begin_upload(State(api): State<Api>, caller: Caller, own: Own) -> Answered<Begun> {
    api.permit(&caller, Role::Operator, "upload files", "").await?;
    Ok(Json(Begun { upload: own.uploads.begin(&caller.name).await? }))
}

async fn forget_upload(
    State(api): State<Api>,
    caller: Caller,
    own: Own,
    Path(upload): Path<String>,
) -> Result<StatusCode, Denied> {
    api.permit(&caller, Role::Operator, "delete an upload", "").await?;
    own.uploads.drop_own(&upload, &caller.name).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// A file that was uploaded.
#[derive(Serialize)]
struct Uploaded {
    size_bytes: u64,
}

/// Takes the bytes of a file as they are, and streams them to the disk.
async fn upload(
    State(api): State<Api>,
    caller: Caller,
    own: Own,
    Path((upload, name)): Path<(String, String)>,
    headers: HeaderMap,
    body: Body,
) -> Answered<Uploaded> {
    api.permit(&caller, Role::Operator, "upload a file", &name).await?;
    let length = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    let says_bytes = length.and_then(|text| text.parse().ok());
    let of = (upload.as_str(), caller.name.as_str());
    match own.uploads.take(of, &name, says_bytes, body.into_data_stream()).await {
        Ok(size_bytes) => Ok(Json(Uploaded { size_bytes })),
        Err(error) => {
            api.note_refusal(&caller, "upload a file", &format!("{name}: {error}")).await?;
            Err(error.into())
        }
    }
}

async fn all(_: Caller, own: Own) -> Answered<Vec<DeliveryView>> {
    Ok(Json(own.all().await?))
}

async fn one(_: Caller, own: Own, Path(id): Path<i64>) -> Answered<DeliveryView> {
    Ok(Json(own.one(id).await?))
}

/// Begins a delivery. Any file of the manager's host may be one that only its administrator should read.
async fn begin(
    State(api): State<Api>,
    caller: Caller,
    own: Own,
    Json(new): Json<NewDelivery>,
) -> Answered<DeliveryView> {
    let least = if new.paths.is_empty() { Role::Operator } else { Role::Administrator };
    let paths: Vec<String> = new.paths.iter().map(|path| path.display().to_string()).collect();
    api.permit(&caller, least, "deliver files", &format!("{}: {}", new.select, paths.join(" "))).await?;
    match own.begin(&caller.name, new).await {
        Ok(id) => Ok(Json(own.one(id).await?)),
        Err(error) => {
            api.note_refusal(&caller, "deliver files", &error.to_string()).await?;
            Err(error.into())
        }
    }
}

async fn abort(
    State(api): State<Api>,
    caller: Caller,
    own: Own,
    Path(id): Path<i64>,
) -> Answered<DeliveryView> {
    api.permit(&caller, Role::Operator, "abort a delivery", &id.to_string()).await?;
    own.abort(id).await?;
    Ok(Json(own.one(id).await?))
}

impl From<UploadError> for Denied {
    fn from(error: UploadError) -> Self {
        match error {
            UploadError::Missing => Self::Missing(error.to_string()),
            UploadError::TooLarge => Self::TooLarge(error.to_string()),
            UploadError::NoRoom | UploadError::File(_) => Self::Failed(error.to_string()),
            UploadError::TooMany | UploadError::TooManyFiles | UploadError::Name(_) | UploadError::Cut(_) => {
                Self::Bad(error.to_string())
            }
        }
    }
}

impl From<DeliveryError> for Denied {
    fn from(error: DeliveryError) -> Self {
        match error {
            DeliveryError::Hub(error) => error.into(),
            DeliveryError::Store(error) => error.into(),
            DeliveryError::Upload(error) => error.into(),
            DeliveryError::Missing(_) => Self::Missing(error.to_string()),
            DeliveryError::Wrong(_) => Self::Bad(error.to_string()),
            DeliveryError::Session(_) => Self::Failed(error.to_string()),
        }
    }
}
