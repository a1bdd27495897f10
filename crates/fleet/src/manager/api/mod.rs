//! The API of a manager: HTTP and JSON. The console and `treecast fleet` do nothing that is not here.
//!
//! A program proves itself with a token (`Authorization: Bearer ...`). A person opens an address with a secret that works once, and
//! gets a cookie. A request with a cookie that changes something must also have the header `x-treecast`, which no other site's page
//! can add without asking.
//!
//! ```text
//! described   routes, and the description that is read off their types (OpenAPI)
//!   request   what routes take
//!   denied    why they refuse
//! asks, checks, deliveries, hosts, login, metrics, people, releases, runs: the routes, by subject
//! ```

mod asks;
mod checks;
mod deliveries;
mod denied;
mod described;
mod hosts;
mod login;
mod metrics;
mod people;
mod releases;
mod request;
mod runs;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

use axum::{
    Router,
    extract::{DefaultBodyLimit, FromRequestParts},
    http::{HeaderMap, Method, header, request::Parts},
    response::{IntoResponse, Response},
};
use treecast_driver::security::PublicKey;

use self::{
    denied::Denied,
    described::{
        Given, Operation, Routes, Rule, Taken,
        Verb::{Delete, Get, Post, Put},
        other,
    },
};
use super::{
    Options,
    access::{
        self, Caller,
        Role::{Administrator, Operator, ReleaseManager, Viewer},
    },
    deliveries::Deliveries,
    hub::Hub,
    oidc::Provider,
    rollouts::Rollouts,
    runs::Runs,
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
    deliveries: Arc<Deliveries>,
    /// The manager's key and addresses, for codes.
    key: PublicKey,
    addresses: Vec<String>,
    options: Options,
    /// The identity provider by which people log in.
    provider: Option<Arc<Provider>>,
    /// Secrets, each of which logs in whoever brings it first.
    links: Mutex<HashMap<String, Caller>>,
}

/// The works that a manager does over time.
pub struct Works {
    pub runs: Arc<Runs>,
    pub rollouts: Arc<Rollouts>,
    pub deliveries: Arc<Deliveries>,
}

/// Returns the routes of the API.
fn routes() -> Routes {
    Routes::default()
        .open(Get, "/login", "log in by a link", people::by_link)
        .open(Get, "/login/start", "begin a login by the identity provider", login::begin)
        .open(Get, "/login/back", "end a login by the identity provider", login::end)
        .open(Post, "/api/login", "log in by a token", people::by_token)
        .open(Get, "/api/openapi.json", "describe the API", describe)
        .on(Post, "/api/logout", Viewer, "log out", people::log_out)
        .on(Post, "/api/links", Viewer, "make a link", people::make_link)
        .on(Get, "/api/me", Viewer, "say who asks", people::me)
        .on(Get, "/api/count", Viewer, "count hosts", hosts::count)
        .on(Get, "/api/hosts", Viewer, "list hosts", hosts::hosts)
        .on(Get, "/api/hosts/{name}", Viewer, "show a host", hosts::host)
        .on(Delete, "/api/hosts/{name}", Administrator, "forget a host", hosts::forget)
        .on(Put, "/api/hosts/{name}/tags", Operator, "tag a host", hosts::set_tags)
        .on(Get, "/api/groups", Viewer, "list groups", hosts::groups)
        .on(Put, "/api/groups/{name}", Operator, "save a group", hosts::save_group)
        .on(Delete, "/api/groups/{name}", Operator, "remove a group", hosts::remove_group)
        .on(Post, "/api/codes", Administrator, "make a code", people::make_code)
        .on(Post, "/api/tokens/{name}", Administrator, "make a token", people::make_token)
        .on(Delete, "/api/tokens/{name}", Administrator, "end a token", people::end_token)
        .on(Post, "/api/asks", Operator, "ask hosts", asks::ask)
        .on(Get, "/api/asks/{id}", Viewer, "show answers", asks::answers)
        .on(Get, "/api/asks/{id}/times", Viewer, "show times of answers", asks::times)
        .on(Get, "/api/runs", Viewer, "list runs", runs::runs)
        .on(Post, "/api/runs", Operator, "run an experiment", runs::start)
        .on(Post, "/api/runs/plan", Viewer, "plan an experiment", runs::plan)
        .on(Get, "/api/runs/{id}", Viewer, "show a run", runs::run)
        .on(Post, "/api/runs/{id}/abort", Operator, "abort a run", runs::abort)
        .on(Get, "/api/runs/{id}/results", Viewer, "get the results of a run", runs::results)
        .on(Get, "/api/releases", Viewer, "list releases", releases::releases)
        .on(Post, "/api/releases", ReleaseManager, "add a release", releases::add)
        .on(Delete, "/api/releases/{id}", ReleaseManager, "withdraw a release", releases::withdraw)
        .on(Post, "/api/releases/{id}/verify", Operator, "verify a release", releases::verify)
        .on(Get, "/api/rollouts", Viewer, "list rollouts", releases::rollouts)
        .on(Post, "/api/rollouts", ReleaseManager, "roll out", releases::begin)
        .on(Post, "/api/rollouts/plan", Viewer, "plan a rollout", releases::plan)
        .on(Get, "/api/rollouts/{id}", Viewer, "show a rollout", releases::rollout)
        .on(Post, "/api/rollouts/{id}/{change}", ReleaseManager, "change a rollout", releases::change)
        .on(Post, "/api/uploads", Operator, "begin an upload", deliveries::begin_upload)
        .on(Delete, "/api/uploads/{upload}", Operator, "delete an upload", deliveries::forget_upload)
        .on(Put, "/api/uploads/{upload}/{name}", Operator, "upload a file", deliveries::upload)
        .on(Get, "/api/deliveries", Viewer, "list deliveries", deliveries::deliveries)
        .on(Post, "/api/deliveries", Operator, "deliver files", deliveries::begin)
        .on(Get, "/api/deliveries/{id}", Viewer, "show a delivery", deliveries::delivery)
        .on(Post, "/api/deliveries/{id}/abort", Operator, "abort a delivery", deliveries::abort)
        .on(Get, "/api/checks", Viewer, "list checks", checks::checks)
        .on(Post, "/api/checks", Operator, "check hosts", checks::begin)
        .on(Get, "/api/checks/{id}", Viewer, "show a check", checks::check)
        .on(Get, "/api/audit", Viewer, "show the log", people::audit)
        .on(Get, "/api/changes", Viewer, "follow changes", hosts::changes)
        .on(Get, "/metrics", Viewer, "read figures", metrics::metrics)
}

/// Returns the description of the API: an OpenAPI document in JSON.
pub fn description() -> &'static str {
    static TEXT: OnceLock<String> = OnceLock::new();
    // Values of JSON have a text.
    TEXT.get_or_init(|| serde_json::to_string_pretty(&routes().description()).unwrap_or_default())
}

/// The description, in an answer.
struct Description;

impl IntoResponse for Description {
    fn into_response(self) -> Response {
        ([(header::CONTENT_TYPE, "application/json")], description()).into_response()
    }
}

impl Given for Description {
    fn describe(operation: &mut Operation) {
        other(operation, 200, "This document", Some("application/json"));
    }
}

async fn describe() -> Result<Description, Denied> {
    Ok(Description)
}

impl Api {
    pub fn new(
        hub: Arc<Hub>,
        Works { runs, rollouts, deliveries }: Works,
        key: PublicKey,
        addresses: Vec<String>,
        options: Options,
        provider: Option<Provider>,
    ) -> Self {
        let (links, provider) = (Mutex::default(), provider.map(Arc::new));
        Self(Arc::new(Inner { hub, runs, rollouts, deliveries, key, addresses, options, provider, links }))
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

    fn hub(&self) -> &Arc<Hub> {
        &self.0.hub
    }

    /// Returns what serves requests.
    pub fn router(self) -> Router {
        routes()
            .router()
            .merge(super::console::router())
            .layer(DefaultBodyLimit::max(MAX_REQUEST_LEN))
            .with_state(self)
    }
}

/// Somebody who has proved who it is, and whose role suffices for the route.
struct By {
    caller: Caller,
    /// What the route does.
    what: &'static str,
}

impl By {
    /// Writes down what the caller does.
    async fn note(&self, api: &Api, about: &str) -> Result<(), Denied> {
        Ok(api.hub().audit(&self.caller.name, self.what, about, false).await?)
    }

    /// Writes down what the caller was refused.
    async fn note_refused(&self, api: &Api, about: &str) -> Result<(), Denied> {
        Ok(api.hub().audit(&self.caller.name, self.what, about, true).await?)
    }
}

impl Taken for By {
    fn describe(operation: &mut Operation) {
        operation.asks_who();
    }
}

impl FromRequestParts<Api> for By {
    type Rejection = Denied;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, Denied> {
        let caller = caller(parts, api).await?;
        // Every route has a rule. Without one, nearly nobody may do it.
        let none = Rule { least: Administrator, what: "do something" };
        let Rule { least, what } = parts.extensions.get().copied().unwrap_or(none);
        let by = Self { caller, what };
        if by.caller.role < least {
            by.note_refused(api, &format!("{} {}", parts.method, parts.uri.path())).await?;
            return Err(Denied::Role(least));
        }
        Ok(by)
    }
}

/// Returns who sends a request.
async fn caller(parts: &Parts, api: &Api) -> Result<Caller, Denied> {
    let store = &api.hub().store;
    if let Some(token) = bearer(&parts.headers) {
        return access::caller_of_token(store, token).await?.ok_or(Denied::Unknown);
    }
    let cookie = cookie(&parts.headers).ok_or(Denied::Unknown)?;
    let caller = access::caller_of_login(store, cookie).await?.ok_or(Denied::Unknown)?;
    let is_safe = matches!(parts.method, Method::GET | Method::HEAD);
    if !is_safe && !parts.headers.contains_key("x-treecast") {
        let about = format!("{} {}", parts.method, parts.uri.path());
        api.hub().audit(&caller.name, "a page of another site", &about, true).await?;
        return Err(Denied::Foreign);
    }
    Ok(caller)
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    headers.get(header::AUTHORIZATION)?.to_str().ok()?.strip_prefix("Bearer ")
}

fn cookie(headers: &HeaderMap) -> Option<&str> {
    cookie_named(headers, COOKIE)
}

fn cookie_named<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    let all = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    all.flat_map(|value| value.split(';')).find_map(|one| one.trim().strip_prefix(name)?.strip_prefix('='))
}
