//! The API of a manager: HTTP and JSON. The console and `treecast fleet` do nothing that is not here.
//!
//! A program proves itself with a token (`Authorization: Bearer ...`). A person opens an address with a secret that works once, and
//! gets a cookie. A request with a cookie that changes something must also have the header `x-treecast`, which no other site's page
//! can add without asking.

use std::{
    collections::HashMap,
    convert::Infallible,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use axum::{
    Json, Router,
    extract::{FromRequestParts, Path, Query, State},
    http::{HeaderMap, HeaderValue, Method, StatusCode, header, request::Parts},
    response::{
        IntoResponse, Response,
        sse::{self, Sse},
    },
    routing::{delete, get, post, put},
};
use futures_util::Stream;
use rusqlite::params;
use serde::{Deserialize, Serialize};
use tokio::sync::broadcast::error::RecvError;
use treecast_driver::security::PublicKey;
use treecast_host::quantity;

use super::{
    access::{self, Caller, Role},
    asks::{self, Answer},
    hosts::Host,
    hub::{Hub, HubError, now_ms},
    rollouts::{NewPlan, NewRollout, PlanView, ReleaseView, RolloutError, RolloutView, Rollouts},
    runs::{NewRun, RunView, Runs, RunsError},
    store::StoreError,
};
use crate::{
    agent::config::{check_name, check_tag},
    code::{Code, SECRET_LEN},
    message::{Program, Start, Work},
    release::Signed,
    selection::{Selection, SelectionError},
};

/// The most bytes of a request: an experiment's file is the longest.
const MAX_REQUEST_LEN: usize = 2 << 20;
/// The name of the cookie of a login.
const COOKIE: &str = "treecast-fleet";

/// The API of a manager.
#[derive(Clone)]
pub struct Api(Arc<Inner>);

struct Inner {
    hub: Arc<Hub>,
    runs: Arc<Runs>,
    rollouts: Arc<Rollouts>,
    /// The manager's key and addresses, for codes.
    key: PublicKey,
    addresses: Vec<String>,
    /// Secrets, each of which logs in whoever brings it first.
    links: Mutex<HashMap<String, Caller>>,
}

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

pub type Answered<T> = Result<Json<T>, Denied>;

impl Api {
    pub fn new(
        hub: Arc<Hub>,
        runs: Arc<Runs>,
        rollouts: Arc<Rollouts>,
        key: PublicKey,
        addresses: Vec<String>,
    ) -> Self {
        Self(Arc::new(Inner { hub, runs, rollouts, key, addresses, links: Mutex::default() }))
    }

    /// Makes a link for a browser, which logs in whoever opens it first.
    ///
    /// # Errors
    /// If there are no random numbers.
    pub fn link(&self, caller: Caller) -> std::io::Result<String> {
        /// More links than anybody opens.
        const MOST: usize = 100;
        let secret = access::draw()?;
        let mut links = self.links();
        if links.len() >= MOST {
            links.clear();
        }
        links.insert(secret.clone(), caller);
        Ok(format!("/login?once={secret}"))
    }

    fn links(&self) -> MutexGuard<'_, HashMap<String, Caller>> {
        self.0.links.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns what serves requests. `more` serves those that are not here.
    pub fn router(self, more: Router<Api>) -> Router {
        more.route("/login", get(log_in))
            .route("/api/login", post(log_in_with_token))
            .route("/api/logout", post(log_out))
            .route("/api/links", post(make_link))
            .route("/api/me", get(me))
            .route("/api/count", get(count))
            .route("/api/hosts", get(hosts))
            .route("/api/hosts/{name}", get(host).delete(forget))
            .route("/api/hosts/{name}/tags", put(set_tags))
            .route("/api/groups", get(groups))
            .route("/api/groups/{name}", put(save_group).delete(remove_group))
            .route("/api/codes", post(make_code))
            .route("/api/tokens/{name}", post(make_token).delete(end_token))
            .route("/api/asks", post(ask))
            .route("/api/asks/{id}", get(answers))
            .route("/api/asks/{id}/times", get(times))
            .route("/api/runs", get(runs).post(start_run))
            .route("/api/runs/plan", post(plan_run))
            .route("/api/runs/{id}", get(run))
            .route("/api/runs/{id}/abort", post(abort_run))
            .route("/api/runs/{id}/results", get(results))
            .route("/api/releases", get(releases).post(add_release))
            .route("/api/releases/{id}", delete(withdraw_release))
            .route("/api/releases/{id}/verify", post(verify_release))
            .route("/api/rollouts", get(rollouts).post(begin_rollout))
            .route("/api/rollouts/plan", post(plan_rollout))
            .route("/api/rollouts/{id}", get(rollout))
            .route("/api/rollouts/{id}/{change}", post(change_rollout))
            .route("/api/audit", get(audit))
            .route("/api/changes", get(changes))
            .merge(super::console::router())
            .layer(axum::extract::DefaultBodyLimit::max(MAX_REQUEST_LEN))
            .with_state(self)
    }
}

/// Somebody who has proved who it is, with a role that suffices for looking on.
impl FromRequestParts<Api> for Caller {
    type Rejection = Denied;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, Denied> {
        let store = &api.0.hub.store;
        if let Some(token) = bearer(&parts.headers) {
            return access::caller_of_token(store, token).await?.ok_or(Denied::Unknown);
        }
        let cookie = cookie(&parts.headers).ok_or(Denied::Unknown)?;
        let caller = access::caller_of_login(store, cookie).await?.ok_or(Denied::Unknown)?;
        let is_safe = matches!(parts.method, Method::GET | Method::HEAD);
        if !is_safe && !parts.headers.contains_key("x-treecast") {
            let about = format!("{} {}", parts.method, parts.uri.path());
            api.0.hub.audit(&caller.name, "a page of another site", &about, true).await?;
            return Err(Denied::Foreign);
        }
        Ok(caller)
    }
}

impl Api {
    /// Refuses what somebody may not do, and writes down who did or tried what.
    pub async fn permit(&self, caller: &Caller, least: Role, what: &str, about: &str) -> Result<(), Denied> {
        let is_refused = caller.role < least;
        self.0.hub.audit(&caller.name, what, about, is_refused).await?;
        if is_refused { Err(Denied::Role(least)) } else { Ok(()) }
    }

    /// Writes down that something was refused which somebody may do otherwise.
    pub async fn note_refusal(&self, caller: &Caller, what: &str, why: &str) -> Result<(), Denied> {
        Ok(self.0.hub.audit(&caller.name, what, why, true).await?)
    }
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    headers.get(header::AUTHORIZATION)?.to_str().ok()?.strip_prefix("Bearer ")
}

fn cookie(headers: &HeaderMap) -> Option<&str> {
    let all = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    all.flat_map(|value| value.split(';')).find_map(|one| one.trim().strip_prefix(COOKIE)?.strip_prefix('='))
}

#[derive(Deserialize)]
struct Once {
    once: String,
}

/// Logs in whoever brings the secret first, and leads to the console.
async fn log_in(State(api): State<Api>, Query(Once { once }): Query<Once>) -> Result<Response, Denied> {
    let taken = api.links().remove(&once);
    let Some(caller) = taken else {
        api.0.hub.audit("somebody", "log in", "a link that was used up", true).await?;
        return Err(Denied::Bad("this link was used up: print another with `treecast fleet login`".into()));
    };
    let login = access::log_in(&api.0.hub.store, &caller).await?;
    api.0.hub.audit(&caller.name, "log in", "by the link", false).await?;
    let mut response = (StatusCode::SEE_OTHER, [(header::LOCATION, "/")]).into_response();
    set_cookie(&mut response, &format!("{COOKIE}={login}; HttpOnly; SameSite=Strict; Path=/; Max-Age=43200"));
    Ok(response)
}

#[derive(Deserialize)]
struct Token {
    token: String,
}

/// Logs in by a token, for the page that asks for one.
async fn log_in_with_token(
    State(api): State<Api>,
    Json(Token { token }): Json<Token>,
) -> Result<Response, Denied> {
    let Some(caller) = access::caller_of_token(&api.0.hub.store, &token).await? else {
        api.0.hub.audit("somebody", "log in", "with a token that is none", true).await?;
        return Err(Denied::Unknown);
    };
    let login = access::log_in(&api.0.hub.store, &caller).await?;
    api.0.hub.audit(&caller.name, "log in", "with a token", false).await?;
    let mut response = Json(caller).into_response();
    set_cookie(&mut response, &format!("{COOKIE}={login}; HttpOnly; SameSite=Strict; Path=/; Max-Age=43200"));
    Ok(response)
}

async fn log_out(State(api): State<Api>, caller: Caller, headers: HeaderMap) -> Result<Response, Denied> {
    if let Some(cookie) = cookie(&headers) {
        access::log_out(&api.0.hub.store, cookie).await?;
    }
    api.0.hub.audit(&caller.name, "log out", "", false).await?;
    let mut response = StatusCode::NO_CONTENT.into_response();
    set_cookie(&mut response, &format!("{COOKIE}=; HttpOnly; SameSite=Strict; Path=/; Max-Age=0"));
    Ok(response)
}

fn set_cookie(response: &mut Response, cookie: &str) {
    if let Ok(value) = HeaderValue::from_str(cookie) {
        response.headers_mut().insert(header::SET_COOKIE, value);
    }
}

/// Makes a link by which a browser logs in as whoever asks.
async fn make_link(State(api): State<Api>, caller: Caller) -> Answered<serde_json::Value> {
    let link = api.link(caller).map_err(|error| Denied::Failed(error.to_string()))?;
    Ok(Json(serde_json::json!({ "path": link })))
}

async fn me(caller: Caller) -> Json<Caller> {
    Json(caller)
}

#[derive(Deserialize)]
struct Which {
    #[serde(default = "everything")]
    select: String,
}

fn everything() -> String {
    "all".into()
}

async fn hosts(State(api): State<Api>, _: Caller, Query(which): Query<Which>) -> Answered<Vec<Host>> {
    Ok(Json(api.0.hub.select(&which.select).await?))
}

/// How many hosts there are, and how many are here.
async fn count(State(api): State<Api>, _: Caller) -> Answered<serde_json::Value> {
    let (hosts, here) = api.0.hub.count().await?;
    Ok(Json(serde_json::json!({ "hosts": hosts, "here": here })))
}

async fn host(State(api): State<Api>, _: Caller, Path(name): Path<String>) -> Answered<Host> {
    Ok(Json(api.0.hub.host(&name).await?))
}

/// Removes a host: its key is not known any more.
async fn forget(
    State(api): State<Api>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<StatusCode, Denied> {
    api.permit(&caller, Role::Administrator, "forget a host", &name).await?;
    let host = api.0.hub.host(&name).await?;
    api.0.hub.forget(host.id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Sets the manager's tags of a host. One with an empty value is removed.
async fn set_tags(
    State(api): State<Api>,
    caller: Caller,
    Path(name): Path<String>,
    Json(tags): Json<std::collections::BTreeMap<String, String>>,
) -> Answered<Host> {
    api.permit(&caller, Role::Operator, "tag a host", &name).await?;
    tags.iter().try_for_each(|(name, value)| check_tag(name, value)).map_err(Denied::Bad)?;
    let host = api.0.hub.host(&name).await?;
    api.0.hub.set_tags(host.id, tags).await?;
    Ok(Json(api.0.hub.host(&name).await?))
}

/// A selection that was saved.
#[derive(Serialize, Deserialize)]
pub struct SavedSelection {
    #[serde(default)]
    pub name: String,
    pub selection: String,
    /// The number of hosts that it selects now, for answers.
    #[serde(default)]
    pub hosts: usize,
}

async fn groups(State(api): State<Api>, _: Caller) -> Answered<Vec<SavedSelection>> {
    let mut groups = Vec::new();
    for (name, selection) in api.0.hub.groups().await? {
        let selection = selection.to_string();
        // A group that names one that was removed selects nobody.
        let hosts = api.0.hub.select(&selection).await.map_or(0, |hosts| hosts.len());
        groups.push(SavedSelection { name, selection, hosts });
    }
    Ok(Json(groups))
}

async fn save_group(
    State(api): State<Api>,
    caller: Caller,
    Path(name): Path<String>,
    Json(group): Json<SavedSelection>,
) -> Answered<SavedSelection> {
    api.permit(&caller, Role::Operator, "save a group", &format!("{name}: {}", group.selection)).await?;
    check_name(&name).map_err(Denied::Bad)?;
    let selection: Selection = group.selection.parse()?;
    let saved = api.0.hub.save_group(&name, &selection).await?;
    Ok(Json(SavedSelection { name, selection: selection.to_string(), hosts: saved }))
}

async fn remove_group(
    State(api): State<Api>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<StatusCode, Denied> {
    api.permit(&caller, Role::Operator, "remove a group", &name).await?;
    match api.0.hub.remove_group(&name).await? {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(Denied::Missing(format!("there is no group {name}"))),
    }
}

/// A code that is wanted.
#[derive(Deserialize)]
struct NewCode {
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
#[derive(Serialize, Deserialize)]
pub struct MadeCode {
    pub code: String,
    pub uses: u32,
    pub ends_ms: u64,
}

async fn make_code(
    State(api): State<Api>,
    caller: Caller,
    Json(wanted): Json<NewCode>,
) -> Answered<MadeCode> {
    api.permit(&caller, Role::Administrator, "make a code", &format!("{} uses", wanted.uses)).await?;
    let range = Duration::from_secs(1)..=Duration::from_secs(366 * 24 * 3600);
    let lasts =
        quantity::time(&wanted.lasts, range).map_err(|error| Denied::Bad(format!("lasts: {error}")))?;
    if !(1..=100_000).contains(&wanted.uses) {
        return Err(Denied::Bad("uses: from 1 to 100,000 hosts may join with one code".into()));
    }
    let secret: [u8; SECRET_LEN] =
        treecast_driver::security::random().map_err(|error| Denied::Failed(error.to_string()))?;
    let code = Code { manager: api.0.key, secret, addresses: api.0.addresses.clone() };
    let (made, uses) = (now_ms(), wanted.uses);
    let ends_ms = made.saturating_add(u64::try_from(lasts.as_millis()).unwrap_or(u64::MAX));
    let insert = "INSERT INTO codes (fingerprint, uses, ends, made) VALUES (?1, ?2, ?3, ?4)";
    let row = (Code::fingerprint(&secret), uses, ends_ms, made);
    api.0.hub.store.with(move |of| of.execute(insert, row)).await?;
    Ok(Json(MadeCode { code: code.to_string(), uses, ends_ms }))
}

#[derive(Deserialize)]
struct NewToken {
    role: String,
}

async fn make_token(
    State(api): State<Api>,
    caller: Caller,
    Path(name): Path<String>,
    Json(NewToken { role }): Json<NewToken>,
) -> Answered<serde_json::Value> {
    api.permit(&caller, Role::Administrator, "make a token", &format!("{name}: {role}")).await?;
    check_name(&name).map_err(Denied::Bad)?;
    let role: Role = role.parse().map_err(Denied::Bad)?;
    let token = access::make_token(&api.0.hub.store, &name, role).await?;
    Ok(Json(serde_json::json!({ "name": name, "role": role, "token": token })))
}

async fn end_token(
    State(api): State<Api>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<StatusCode, Denied> {
    api.permit(&caller, Role::Administrator, "end a token", &name).await?;
    match access::end_token(&api.0.hub.store, &name).await? {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(Denied::Missing(format!("there is no token {name}"))),
    }
}

/// A question to many hosts.
#[derive(Serialize, Deserialize)]
pub struct Question {
    pub select: String,
    /// The program and its arguments. Empty: the hosts' facts.
    #[serde(default)]
    pub command: Vec<String>,
    /// The longest time that the program may run, such as `1m`.
    #[serde(default = "a_minute")]
    pub limit: String,
}

fn a_minute() -> String {
    "1m".into()
}

/// A question that was asked.
#[derive(Serialize, Deserialize)]
pub struct Asked {
    pub id: i64,
    pub hosts: Vec<String>,
}

async fn ask(State(api): State<Api>, caller: Caller, Json(question): Json<Question>) -> Answered<Asked> {
    let about = format!("{}: {}", question.select, question.command.join(" "));
    api.permit(&caller, Role::Operator, "ask hosts", &about).await?;
    let range = Duration::from_millis(1)..=Duration::from_secs(7 * 24 * 3600);
    let limit =
        quantity::time(&question.limit, range).map_err(|error| Denied::Bad(format!("limit: {error}")))?;
    let hosts = api.0.hub.select_some(&question.select).await?;
    let work = match question.command.first().map(String::as_str) {
        None => Work::Facts,
        Some(first) => Work::Start(Start {
            program: if first == "treecast" { Program::Treecast } else { Program::System },
            arguments: question.command[usize::from(first == "treecast")..].to_vec(),
            folder: None,
            at_ns: None,
            limit_ms: limit.as_millis() as u64,
            has_input: false,
        }),
    };
    let id = asks::ask(&api.0.hub, &caller.name, &question.select, &hosts, &work).await?;
    Ok(Json(Asked { id, hosts: hosts.into_iter().map(|host| host.name).collect() }))
}

async fn answers(State(api): State<Api>, _: Caller, Path(id): Path<i64>) -> Answered<Vec<Answer>> {
    let answers = asks::answers(&api.0.hub, id).await?;
    answers.map(Json).ok_or_else(|| Denied::Missing(format!("there is no question {id}")))
}

/// How long hosts took to answer a question, without the answers.
async fn times(State(api): State<Api>, _: Caller, Path(id): Path<i64>) -> Answered<serde_json::Value> {
    let (answered, open) = asks::times(&api.0.hub, id).await?;
    Ok(Json(serde_json::json!({ "answered_ms": answered, "open": open })))
}

async fn runs(State(api): State<Api>, _: Caller) -> Answered<Vec<RunView>> {
    Ok(Json(api.0.runs.all().await?))
}

async fn run(State(api): State<Api>, _: Caller, Path(id): Path<i64>) -> Answered<RunView> {
    let run = api.0.runs.one(id).await?;
    run.map(Json).ok_or_else(|| Denied::Missing(format!("there is no run {id}")))
}

async fn plan_run(State(api): State<Api>, _: Caller, Json(run): Json<NewRun>) -> Answered<serde_json::Value> {
    Ok(Json(api.0.runs.plan(run).await?))
}

async fn start_run(State(api): State<Api>, caller: Caller, Json(run): Json<NewRun>) -> Answered<RunView> {
    api.permit(&caller, Role::Operator, "run an experiment", &format!("{} at {}", run.name, run.select))
        .await?;
    Ok(Json(api.0.runs.order(&caller.name, run).await?))
}

async fn abort_run(State(api): State<Api>, caller: Caller, Path(id): Path<i64>) -> Answered<RunView> {
    api.permit(&caller, Role::Operator, "abort a run", &id.to_string()).await?;
    api.0.runs.abort(id);
    let run = api.0.runs.one(id).await?;
    run.map(Json).ok_or_else(|| Denied::Missing(format!("there is no run {id}")))
}

/// Returns the results database of a run.
async fn results(State(api): State<Api>, _: Caller, Path(id): Path<i64>) -> Result<Response, Denied> {
    let missing = || Denied::Missing(format!("there is no run {id}, or it has no results yet"));
    let path = api.0.runs.results(id).ok_or_else(missing)?;
    let bytes = tokio::fs::read(&path).await.map_err(|_| missing())?;
    Ok(([(header::CONTENT_TYPE, "application/vnd.sqlite3")], bytes).into_response())
}

/// A release whose files are in a folder of the manager's host.
#[derive(Serialize, Deserialize)]
pub struct NewRelease {
    pub signed: Signed,
    pub folder: PathBuf,
}

async fn releases(State(api): State<Api>, _: Caller) -> Answered<Vec<ReleaseView>> {
    Ok(Json(api.0.rollouts.releases().await?))
}

async fn add_release(
    State(api): State<Api>,
    caller: Caller,
    Json(new): Json<NewRelease>,
) -> Answered<serde_json::Value> {
    let about = new.folder.display().to_string();
    api.permit(&caller, Role::ReleaseManager, "add a release", &about).await?;
    match api.0.rollouts.add(&caller.name, new.signed, new.folder).await {
        Ok(id) => Ok(Json(serde_json::json!({ "id": id }))),
        Err(error) => {
            api.0.hub.audit(&caller.name, "add a release", &error.to_string(), true).await?;
            Err(error.into())
        }
    }
}

async fn withdraw_release(
    State(api): State<Api>,
    caller: Caller,
    Path(id): Path<i64>,
) -> Result<StatusCode, Denied> {
    api.permit(&caller, Role::ReleaseManager, "withdraw a release", &id.to_string()).await?;
    api.0.rollouts.withdraw(id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Asks hosts whether they have a release, by its hashes.
async fn verify_release(
    State(api): State<Api>,
    caller: Caller,
    Path(id): Path<i64>,
    Json(which): Json<Which>,
) -> Answered<Asked> {
    api.permit(&caller, Role::Operator, "verify a release", &format!("{id} at {}", which.select)).await?;
    let signed = api.0.rollouts.signed(id).await?;
    let hosts = api.0.hub.select_some(&which.select).await?;
    let work = Work::Verify { signed };
    let id = asks::ask(&api.0.hub, &caller.name, &which.select, &hosts, &work).await?;
    Ok(Json(Asked { id, hosts: hosts.into_iter().map(|host| host.name).collect() }))
}

async fn rollouts(State(api): State<Api>, _: Caller) -> Answered<Vec<RolloutView>> {
    Ok(Json(api.0.rollouts.all().await?))
}

async fn rollout(State(api): State<Api>, _: Caller, Path(id): Path<i64>) -> Answered<RolloutView> {
    Ok(Json(api.0.rollouts.one(id).await?))
}

async fn begin_rollout(
    State(api): State<Api>,
    caller: Caller,
    Json(new): Json<NewRollout>,
) -> Answered<RolloutView> {
    api.permit(&caller, Role::ReleaseManager, "roll out", &new.release.to_string()).await?;
    let id = api.0.rollouts.begin(&caller.name, new).await?;
    Ok(Json(api.0.rollouts.one(id).await?))
}

async fn plan_rollout(State(api): State<Api>, _: Caller, Json(new): Json<NewPlan>) -> Answered<PlanView> {
    Ok(Json(api.0.rollouts.plan(new).await?))
}

/// Changes what becomes of a rollout: approve, pause, go, abort, retry or back.
async fn change_rollout(
    State(api): State<Api>,
    caller: Caller,
    Path((id, change)): Path<(i64, String)>,
) -> Answered<RolloutView> {
    api.permit(&caller, Role::ReleaseManager, "change a rollout", &format!("{id}: {change}")).await?;
    match change.as_str() {
        "back" => api.0.rollouts.go_back(id).await?,
        change => api.0.rollouts.change(id, &caller.name, change).await?,
    }
    Ok(Json(api.0.rollouts.one(id).await?))
}

/// A line of the log of who did what.
#[derive(Serialize)]
struct Entry {
    at_ms: u64,
    who: String,
    what: String,
    about: String,
    is_refused: bool,
}

#[derive(Deserialize)]
struct Latest {
    #[serde(default = "a_hundred")]
    latest: u32,
}

fn a_hundred() -> u32 {
    100
}

async fn audit(
    State(api): State<Api>,
    _: Caller,
    Query(Latest { latest }): Query<Latest>,
) -> Answered<Vec<Entry>> {
    let query = "SELECT at, who, what, about, is_refused FROM audit ORDER BY id DESC LIMIT ?1";
    let entry = |row: &rusqlite::Row| {
        Ok(Entry {
            at_ms: row.get(0)?,
            who: row.get(1)?,
            what: row.get(2)?,
            about: row.get(3)?,
            is_refused: row.get(4)?,
        })
    };
    let entries = api
        .0
        .hub
        .store
        .with(move |of| of.prepare_cached(query)?.query_map(params![latest], entry)?.collect())
        .await?;
    Ok(Json(entries))
}

/// Tells what changes, while the page is open.
async fn changes(
    State(api): State<Api>,
    _: Caller,
) -> Sse<impl Stream<Item = Result<sse::Event, Infallible>>> {
    let changes = futures_util::stream::unfold(api.0.hub.changes(), |mut changes| async {
        let data = match changes.recv().await {
            Ok(change) => crate::message::text_of(&change),
            // The page asks for everything again.
            Err(RecvError::Lagged(_)) => "{\"changed\":\"all\"}".to_owned(),
            Err(RecvError::Closed) => return None,
        };
        Some((Ok(sse::Event::default().data(data)), changes))
    });
    Sse::new(changes).keep_alive(sse::KeepAlive::default())
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
        (status, Json(serde_json::json!({ "error": error }))).into_response()
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
