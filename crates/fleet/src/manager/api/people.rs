//! Logins of people, codes for hosts, tokens for programs, and the log of who did what.

use std::time::Duration;

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, NoContent, Response},
};
use serde::{Deserialize, Serialize};
use treecast_host::quantity;
use utoipa::ToSchema;

use super::{
    Api, By, COOKIE, Denied, cookie,
    described::{Given, List, Operation, other},
    request::{Body, Part, Wanted},
};
use crate::{
    agent::config::check_name,
    code::{Code, SECRET_LEN},
    manager::{
        access::{self, Caller, LOGIN_TIME, Role},
        hub::{Entry, now_ms},
    },
};

/// An answer that sets the cookie of a login, or removes it.
pub struct WithCookie<T> {
    answer: T,
    /// The secret of the login. `None`: nobody is logged in any more.
    login: Option<String>,
}

impl<T: IntoResponse> IntoResponse for WithCookie<T> {
    fn into_response(self) -> Response {
        let (secret, seconds) =
            self.login.map_or((String::new(), 0), |secret| (secret, LOGIN_TIME.as_secs()));
        let cookie = format!("{COOKIE}={secret}; HttpOnly; SameSite=Strict; Path=/; Max-Age={seconds}");
        ([(header::SET_COOKIE, cookie)], self.answer).into_response()
    }
}

impl<T: Given> Given for WithCookie<T> {
    fn describe(operation: &mut Operation) {
        T::describe(operation);
    }
}

/// The way to the console.
pub struct ToConsole;

impl IntoResponse for ToConsole {
    fn into_response(self) -> Response {
        (StatusCode::SEE_OTHER, [(header::LOCATION, "/")]).into_response()
    }
}

impl Given for ToConsole {
    fn describe(operation: &mut Operation) {
        other(operation, 303, "Logged in: the console is at /", None);
    }
}

/// Logs somebody in.
pub async fn log_in<T>(api: &Api, caller: &Caller, how: &str, answer: T) -> Result<WithCookie<T>, Denied> {
    let login = access::log_in(&api.hub().store, caller).await?;
    api.hub().audit(&caller.name, "log in", how, false).await?;
    Ok(WithCookie { answer, login: Some(login) })
}

/// The secret of a link.
#[derive(Deserialize, ToSchema)]
pub struct Once {
    /// The secret, which works once.
    once: String,
}

/// Logs in whoever brings the secret first, and leads to the console.
pub async fn by_link(
    State(api): State<Api>,
    Wanted(Once { once }): Wanted<Once>,
) -> Result<WithCookie<ToConsole>, Denied> {
    let taken = api.links().remove(&once);
    let Some(caller) = taken else {
        api.hub().audit("somebody", "log in", "a link that was used up", true).await?;
        return Err(Denied::Bad("this link was used up: print another with `treecast fleet login`".into()));
    };
    log_in(&api, &caller, "by the link", ToConsole).await
}

/// A token to log in with.
#[derive(Deserialize, ToSchema)]
pub struct Token {
    token: String,
}

/// Logs in by a token, for the page that asks for one.
pub async fn by_token(
    State(api): State<Api>,
    Body(Token { token }): Body<Token>,
) -> Result<WithCookie<Json<Caller>>, Denied> {
    let Some(caller) = access::caller_of_token(&api.hub().store, &token).await? else {
        api.hub().audit("somebody", "log in", "with a token that is none", true).await?;
        return Err(Denied::Unknown);
    };
    log_in(&api, &caller, "with a token", Json(caller.clone())).await
}

/// The headers of a request.
impl super::described::Taken for HeaderMap {
    fn describe(_: &mut Operation) {}
}

pub async fn log_out(
    State(api): State<Api>,
    by: By,
    headers: HeaderMap,
) -> Result<WithCookie<NoContent>, Denied> {
    if let Some(cookie) = cookie(&headers) {
        access::log_out(&api.hub().store, cookie).await?;
    }
    by.note(&api, "").await?;
    Ok(WithCookie { answer: NoContent, login: None })
}

/// A link that logs a browser in, once.
#[derive(Serialize, ToSchema)]
pub struct LoginLink {
    /// The path and its variable. The console's address comes before it.
    path: String,
}

/// Makes a link by which a browser logs in as whoever asks.
pub async fn make_link(State(api): State<Api>, by: By) -> Result<Json<LoginLink>, Denied> {
    let path = api.link(by.caller).map_err(|error| Denied::Failed(error.to_string()))?;
    Ok(Json(LoginLink { path }))
}

pub async fn me(by: By) -> Result<Json<Caller>, Denied> {
    Ok(Json(by.caller))
}

/// A code that is wanted.
#[derive(Deserialize, ToSchema)]
pub struct NewCode {
    /// How many hosts may join with it.
    #[serde(default = "one")]
    uses: u32,
    /// How long it lasts, such as `1h`.
    #[serde(default = "an_hour")]
    lasts: String,
}

fn one() -> u32 {
    1
}

fn an_hour() -> String {
    "1h".into()
}

/// A code that was made.
#[derive(Serialize, ToSchema)]
#[schema(as = Code)]
pub struct MadeCode {
    code: String,
    uses: u32,
    ends_ms: u64,
}

pub async fn make_code(
    State(api): State<Api>,
    by: By,
    Body(wanted): Body<NewCode>,
) -> Result<Json<MadeCode>, Denied> {
    by.note(&api, &format!("{} uses", wanted.uses)).await?;
    let range = Duration::from_secs(1)..=Duration::from_secs(366 * 24 * 3600);
    let lasts =
        quantity::time(&wanted.lasts, range).map_err(|error| Denied::Bad(format!("lasts: {error}")))?;
    if !(1..=100_000).contains(&wanted.uses) {
        return Err(Denied::Bad("uses: from 1 to 100,000 hosts may join with one code".into()));
    }
    let secret: [u8; SECRET_LEN] =
        treecast_driver::security::random().map_err(|error| Denied::Failed(error.to_string()))?;
    let code = Code { manager: api.0.key, secret, addresses: api.0.addresses.clone() };
    let ends_ms = now_ms().saturating_add(u64::try_from(lasts.as_millis()).unwrap_or(u64::MAX));
    access::keep_code(&api.hub().store, &secret, wanted.uses, ends_ms).await?;
    Ok(Json(MadeCode { code: code.to_string(), uses: wanted.uses, ends_ms }))
}

/// A token that is wanted.
#[derive(Deserialize, ToSchema)]
pub struct NewToken {
    #[schema(value_type = Role)]
    role: String,
}

/// A token that was made.
#[derive(Serialize, ToSchema)]
pub struct MadeToken {
    name: String,
    role: Role,
    /// The secret. The manager cannot say it again.
    token: String,
}

pub async fn make_token(
    State(api): State<Api>,
    by: By,
    Part(name): Part<String>,
    Body(NewToken { role }): Body<NewToken>,
) -> Result<Json<MadeToken>, Denied> {
    by.note(&api, &format!("{name}: {role}")).await?;
    check_name(&name).map_err(Denied::Bad)?;
    let role: Role = role.parse().map_err(Denied::Bad)?;
    let token = access::make_token(&api.hub().store, &name, role).await?;
    Ok(Json(MadeToken { name, role, token }))
}

pub async fn end_token(
    State(api): State<Api>,
    by: By,
    Part(name): Part<String>,
) -> Result<NoContent, Denied> {
    by.note(&api, &name).await?;
    match access::end_token(&api.hub().store, &name).await? {
        true => Ok(NoContent),
        false => Err(Denied::Missing(format!("there is no token {name}"))),
    }
}

/// How much of the log is wanted.
#[derive(Deserialize, ToSchema)]
pub struct Latest {
    /// The number of lines.
    #[serde(default = "a_hundred")]
    latest: u32,
}

fn a_hundred() -> u32 {
    100
}

pub async fn audit(
    State(api): State<Api>,
    _: By,
    Wanted(Latest { latest }): Wanted<Latest>,
) -> Result<List<Entry>, Denied> {
    Ok(List(api.hub().audit_log(latest).await?))
}
