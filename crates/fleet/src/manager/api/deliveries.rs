//! Files to many hosts, and uploads.

use axum::{Json, extract::State, response::NoContent};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{
    Api, By, Denied,
    described::List,
    request::{Body, Part, Raw},
};
use crate::manager::{
    access::Role,
    deliveries::{DeliveryError, DeliveryView, NewDelivery},
    uploads::UploadError,
};

/// An upload that was begun.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct Begun {
    upload: String,
}

pub async fn begin_upload(State(api): State<Api>, by: By) -> Result<Json<Begun>, Denied> {
    by.note(&api, "").await?;
    Ok(Json(Begun { upload: api.0.deliveries.uploads.begin(&by.caller.name).await? }))
}

pub async fn forget_upload(
    State(api): State<Api>,
    by: By,
    Part(upload): Part<String>,
) -> Result<NoContent, Denied> {
    by.note(&api, "").await?;
    api.0.deliveries.uploads.drop_own(&upload, &by.caller.name).await?;
    Ok(NoContent)
}

/// A file that was uploaded.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct Uploaded {
    size_bytes: u64,
}

/// Takes the bytes of a file as they are, and streams them to the disk.
pub async fn upload(
    State(api): State<Api>,
    by: By,
    Part((upload, name)): Part<(String, String)>,
    Raw { says_bytes, bytes }: Raw,
) -> Result<Json<Uploaded>, Denied> {
    by.note(&api, &name).await?;
    let of = (upload.as_str(), by.caller.name.as_str());
    match api.0.deliveries.uploads.take(of, &name, says_bytes, bytes.into_data_stream()).await {
        Ok(size_bytes) => Ok(Json(Uploaded { size_bytes })),
        Err(error) => {
            by.note_refused(&api, &format!("{name}: {error}")).await?;
            Err(error.into())
        }
    }
}

pub async fn deliveries(State(api): State<Api>, _: By) -> Result<List<DeliveryView>, Denied> {
    Ok(List(api.0.deliveries.all().await?))
}

pub async fn delivery(
    State(api): State<Api>,
    _: By,
    Part(id): Part<i64>,
) -> Result<Json<DeliveryView>, Denied> {
    Ok(Json(api.0.deliveries.one(id).await?))
}

/// Begins a delivery. Any file of the manager's host may be one that only its administrator should read.
pub async fn begin(
    State(api): State<Api>,
    by: By,
    Body(new): Body<NewDelivery>,
) -> Result<Json<DeliveryView>, Denied> {
    let paths: Vec<String> = new.paths.iter().map(|path| path.display().to_string()).collect();
    let about = format!("{}: {}", new.select, paths.join(" "));
    if !paths.is_empty() && by.caller.role < Role::Administrator {
        by.note_refused(&api, &about).await?;
        return Err(Denied::Role(Role::Administrator));
    }
    by.note(&api, &about).await?;
    match api.0.deliveries.begin(&by.caller.name, new).await {
        Ok(id) => Ok(Json(api.0.deliveries.one(id).await?)),
        Err(error) => {
            by.note_refused(&api, &error.to_string()).await?;
            Err(error.into())
        }
    }
}

pub async fn abort(
    State(api): State<Api>,
    by: By,
    Part(id): Part<i64>,
) -> Result<Json<DeliveryView>, Denied> {
    by.note(&api, &id.to_string()).await?;
    api.0.deliveries.abort(id).await?;
    Ok(Json(api.0.deliveries.one(id).await?))
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
