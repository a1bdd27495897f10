//! Logins of people by an identity provider.

use std::{sync::Arc, time::Duration};

use axum::{
    extract::{FromRequestParts, State},
    http::{HeaderMap, StatusCode, header, request::Parts},
    response::{IntoResponse, Response},
};
use serde::Deserialize;
use utoipa::ToSchema;

use super::{
    Api, Denied, cookie_named,
    described::{Given, Operation, Taken, other},
    people::{ToConsole, WithCookie, log_in},
    request::Wanted,
};
use crate::manager::oidc::{BACK, Beginning, LONGEST, LoginError, Provider};

/// The name of the cookie of a login that has begun.
const BEGUN: &str = "treecast-login";

/// The way to the identity provider.
pub struct ToProvider(Beginning);

impl IntoResponse for ToProvider {
    fn into_response(self) -> Response {
        let Beginning { url, state } = self.0;
        let seconds = Duration::as_secs(&LONGEST);
        // The provider's page leads back, so the cookie comes from another site's page.
        let cookie = format!("{BEGUN}={state}; HttpOnly; SameSite=Lax; Path={BACK}; Max-Age={seconds}");
        (StatusCode::SEE_OTHER, [(header::LOCATION, url), (header::SET_COOKIE, cookie)]).into_response()
    }
}

impl Given for ToProvider {
    fn describe(operation: &mut Operation) {
        other(operation, 303, "The page of the identity provider", None);
    }
}

/// The identity provider, if the configuration has one.
pub struct Known(Arc<Provider>);

impl Taken for Known {
    fn describe(operation: &mut Operation) {
        operation.may_lack();
    }
}

impl FromRequestParts<Api> for Known {
    type Rejection = Denied;

    async fn from_request_parts(_: &mut Parts, api: &Api) -> Result<Self, Denied> {
        let none = "no identity provider is known: write [login] into the manager's configuration";
        api.0.provider.clone().map(Self).ok_or_else(|| Denied::Missing(none.into()))
    }
}

pub async fn begin(Known(provider): Known) -> Result<ToProvider, Denied> {
    Ok(ToProvider(provider.begin().await?))
}

/// What the identity provider sends back by the browser.
#[derive(Deserialize, ToSchema)]
pub struct Back {
    /// The login that was begun.
    #[serde(default)]
    state: String,
    /// The code that the manager shows the provider.
    #[serde(default)]
    code: String,
    /// The reason why there is no code.
    #[serde(default)]
    error: String,
}

pub async fn end(
    State(api): State<Api>,
    Known(provider): Known,
    headers: HeaderMap,
    Wanted(back): Wanted<Back>,
) -> Result<WithCookie<ToConsole>, Denied> {
    let is_own = cookie_named(&headers, BEGUN) == Some(back.state.as_str());
    let ended = match back.error.is_empty() {
        _ if !is_own => Err(LoginError::Unknown),
        true => provider.end(&back.state, back.code).await,
        false => Err(LoginError::Refused(back.error.chars().take(100).collect())),
    };
    match ended {
        Ok(caller) => log_in(&api, &caller, "by the identity provider", ToConsole).await,
        Err(error) => {
            api.hub().audit("somebody", "log in", &error.to_string(), true).await?;
            Err(error.into())
        }
    }
}

impl From<LoginError> for Denied {
    fn from(error: LoginError) -> Self {
        match error {
            LoginError::Unknown | LoginError::Nobody { .. } | LoginError::Refused(_) => {
                Self::Bad(error.to_string())
            }
            LoginError::Secret { .. } | LoginError::Provider { .. } => Self::Failed(error.to_string()),
        }
    }
}
