//! Routes that describe themselves (OpenAPI 3.1). What a route takes and answers is read off the types of its handler, and the role that
//! is written down is the one that [`By`](super::By) asks for. So the description and the code cannot differ.

use std::{collections::BTreeMap, future::Future};

use axum::{
    Extension, Json, Router,
    extract::State,
    handler::Handler,
    response::{NoContent, Sse},
    routing::{MethodFilter, on},
};
use serde_json::{Map, Value, json};
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{RefOr, Schema},
};

use super::{
    Api,
    request::{Body, Part, Raw, Wanted},
};
use crate::manager::{access::Role, hub::Change};

/// The version of OpenAPI that the description follows.
const OPENAPI: &str = "3.1.0";

/// A method of HTTP that routes have.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    Get,
    Post,
    Put,
    Delete,
}

impl Verb {
    fn word(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Post => "post",
            Self::Put => "put",
            Self::Delete => "delete",
        }
    }

    fn filter(self) -> MethodFilter {
        match self {
            Self::Get => MethodFilter::GET,
            Self::Post => MethodFilter::POST,
            Self::Put => MethodFilter::PUT,
            Self::Delete => MethodFilter::DELETE,
        }
    }
}

/// What a route asks of its caller.
#[derive(Clone, Copy)]
pub struct Rule {
    /// The lowest role that suffices.
    pub least: Role,
    /// What the route does, as the log of who did what says it.
    pub what: &'static str,
}

/// Routes with their description.
#[derive(Default)]
pub struct Routes {
    router: Router<Api>,
    paths: BTreeMap<String, Map<String, Value>>,
    schemas: BTreeMap<String, RefOr<Schema>>,
}

impl Routes {
    /// Adds a route for callers who have logged in. Its handler takes [`By`](super::By), which refuses a lower role than `least`.
    /// `what` is unique.
    pub fn on<H, T, D>(self, verb: Verb, path: &str, least: Role, what: &'static str, handler: H) -> Self
    where
        H: Handler<T, Api> + Described<D>,
        T: 'static,
    {
        self.add(verb, path, Rule { least, what }, handler)
    }

    /// Adds a route for everybody.
    pub fn open<H, T, D>(self, verb: Verb, path: &str, what: &'static str, handler: H) -> Self
    where
        H: Handler<T, Api> + Described<D>,
        T: 'static,
    {
        self.add(verb, path, Rule { least: Role::Viewer, what }, handler)
    }

    fn add<H, T, D>(mut self, verb: Verb, path: &str, rule: Rule, handler: H) -> Self
    where
        H: Handler<T, Api> + Described<D>,
        T: 'static,
    {
        let mut operation = Operation::default();
        H::describe(&mut operation);
        let described = operation.describe(verb, path, rule);
        self.paths.entry(path.to_owned()).or_default().insert(verb.word().to_owned(), described);
        self.schemas.extend(operation.schemas);
        self.router = self.router.route(path, on(verb.filter(), handler).layer(Extension(rule)));
        self
    }

    /// Returns what serves the routes.
    pub fn router(self) -> Router<Api> {
        self.router
    }

    /// Returns the description.
    pub fn description(&self) -> Value {
        let failures = FAILURES.iter().map(|(name, description)| {
            let content = json!({ "application/json": { "schema": reference("Error") } });
            ((*name).to_owned(), json!({ "description": description, "content": content }))
        });
        let mut schemas = self.schemas.clone();
        schemas.insert("Error".into(), super::denied::Error::schema());
        json!({
            "openapi": OPENAPI,
            "info": {
                "title": "The API of a treecast manager",
                "description": "What the console and `treecast fleet` do, and nothing else. docs/fleet.md is the guide.",
                "version": env!("CARGO_PKG_VERSION"),
                "license": { "name": "MIT OR Apache-2.0" },
            },
            "paths": self.paths,
            "components": {
                "schemas": schemas,
                "responses": failures.collect::<Map<_, _>>(),
                "securitySchemes": {
                    "token": { "type": "http", "scheme": "bearer", "description": "A token of `treecast fleet token`" },
                    "login": {
                        "type": "apiKey", "in": "cookie", "name": super::COOKIE,
                        "description": "A login in a browser. Requests that change something need the header x-treecast as well",
                    },
                },
            },
        })
    }
}

/// The answers to requests that are not granted.
const FAILURES: &[(&str, &str)] = &[
    ("Bad", "What was asked is wrong"),
    ("Unknown", "Nobody is known by what was brought: log in first"),
    ("Refused", "The role does not suffice, or a page of another site may have sent this"),
    ("Missing", "There is nothing of this name or number"),
    ("Failed", "The manager could not do it"),
];

/// What is known of a route by the types of its handler.
#[derive(Default)]
pub struct Operation {
    parameters: Vec<Value>,
    /// The kinds of the variable parts of the path, in order.
    parts: Vec<Value>,
    body: Option<Value>,
    answer: Value,
    status: u16,
    asks_who: bool,
    may_lack: bool,
    schemas: BTreeMap<String, RefOr<Schema>>,
}

impl Operation {
    /// Notes that the caller has to prove who it is.
    pub fn asks_who(&mut self) {
        self.asks_who = true;
    }

    /// Notes that there may be nothing of what is asked for.
    pub fn may_lack(&mut self) {
        self.may_lack = true;
    }

    fn describe(&self, verb: Verb, path: &str, rule: Rule) -> Value {
        let names = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
        let in_path = names
            .zip(&self.parts)
            .map(|(name, schema)| json!({ "name": name, "in": "path", "required": true, "schema": schema }));
        let parameters: Vec<Value> = in_path.chain(self.parameters.iter().cloned()).collect();
        let is_refusable = self.asks_who && (rule.least > Role::Viewer || verb != Verb::Get);
        let failures = [
            (400, "Bad", self.body.is_some() || !parameters.is_empty()),
            (401, "Unknown", self.asks_who),
            (403, "Refused", is_refusable),
            (404, "Missing", self.may_lack || !self.parts.is_empty()),
            (500, "Failed", true),
        ];
        let failures = failures.iter().filter(|(_, _, is_possible)| *is_possible).map(|(status, name, _)| {
            (status.to_string(), json!({ "$ref": format!("#/components/responses/{name}") }))
        });
        let mut responses: Map<String, Value> = failures.collect();
        responses.insert(self.status.to_string(), self.answer.clone());
        let mut first = rule.what.chars();
        let summary: String = first.next().into_iter().flat_map(char::to_uppercase).chain(first).collect();
        let mut described = json!({
            "operationId": rule.what.replace(' ', "_"),
            "summary": summary,
            "tags": [path.trim_start_matches("/api").split('/').nth(1).unwrap_or_default()],
            "responses": responses,
            "security": [],
        });
        if !parameters.is_empty() {
            described["parameters"] = json!(parameters);
        }
        if let Some(body) = &self.body {
            described["requestBody"] = body.clone();
        }
        if self.asks_who {
            described["description"] = json!(format!("Needs the role {} or a higher one.", rule.least));
            described["x-role"] = json!(rule.least);
            described["security"] = json!([{ "token": [] }, { "login": [] }]);
        }
        described
    }

    /// Enters a type and all that it has. Returns the reference to it.
    fn enter<T: ToSchema>(&mut self) -> Value {
        let mut found = vec![(T::name().into_owned(), T::schema())];
        T::schemas(&mut found);
        self.schemas.extend(found);
        reference(&T::name())
    }

    fn answers(&mut self, status: u16, what: &str, content: Option<(&str, Value)>) {
        self.status = status;
        self.answer = match content {
            Some((kind, schema)) => json!({ "description": what, "content": { kind: { "schema": schema } } }),
            None => json!({ "description": what }),
        };
    }
}

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

/// A handler whose arguments and answer are known.
pub trait Described<D> {
    fn describe(operation: &mut Operation);
}

/// An argument of a handler.
pub trait Taken {
    fn describe(operation: &mut Operation);
}

/// The answer of a handler.
pub trait Given {
    fn describe(operation: &mut Operation);
}

macro_rules! described {
    ($($argument:ident)*) => {
        impl<F, Fut, R, $($argument),*> Described<($($argument,)*)> for F
        where
            F: Fn($($argument),*) -> Fut,
            Fut: Future<Output = R>,
            R: Given,
            $($argument: Taken,)*
        {
            fn describe(operation: &mut Operation) {
                $($argument::describe(operation);)*
                R::describe(operation);
            }
        }
    };
}

described!();
described!(A);
described!(A B);
described!(A B C);
described!(A B C D);

impl Taken for State<Api> {
    fn describe(_: &mut Operation) {}
}

impl<T: ToSchema> Taken for Body<T> {
    fn describe(operation: &mut Operation) {
        let schema = operation.enter::<T>();
        operation.body =
            Some(json!({ "required": true, "content": { "application/json": { "schema": schema } } }));
    }
}

impl Taken for Raw {
    fn describe(operation: &mut Operation) {
        operation.body = Some(json!({ "required": true, "content": { "application/octet-stream": {} } }));
    }
}

impl<T: ToSchema> Taken for Wanted<T> {
    fn describe(operation: &mut Operation) {
        let RefOr::T(Schema::Object(object)) = T::schema() else { return };
        for (name, schema) in &object.properties {
            let is_required = object.required.contains(name);
            operation
                .parameters
                .push(json!({ "name": name, "in": "query", "required": is_required, "schema": schema }));
        }
    }
}

impl Taken for Part<String> {
    fn describe(operation: &mut Operation) {
        operation.parts = vec![json!(String::schema())];
    }
}

impl Taken for Part<i64> {
    fn describe(operation: &mut Operation) {
        operation.parts = vec![json!(i64::schema())];
    }
}

impl Taken for Part<(String, String)> {
    fn describe(operation: &mut Operation) {
        operation.parts = vec![json!(String::schema()), json!(String::schema())];
    }
}

impl<T: ToSchema> Taken for Part<(i64, T)> {
    fn describe(operation: &mut Operation) {
        let second = operation.enter::<T>();
        operation.parts = vec![json!(i64::schema()), second];
    }
}

impl<T: Given, E> Given for Result<T, E> {
    fn describe(operation: &mut Operation) {
        T::describe(operation);
    }
}

impl<T: ToSchema> Given for Json<T> {
    fn describe(operation: &mut Operation) {
        let schema = operation.enter::<T>();
        operation.answers(200, "Done", Some(("application/json", schema)));
    }
}

impl<T: ToSchema> Given for List<T> {
    fn describe(operation: &mut Operation) {
        let items = operation.enter::<T>();
        let schema = json!({ "type": "array", "items": items });
        operation.answers(200, "Done", Some(("application/json", schema)));
    }
}

impl Given for NoContent {
    fn describe(operation: &mut Operation) {
        operation.answers(204, "Done", None);
    }
}

/// A stream of changes.
impl<S> Given for Sse<S> {
    fn describe(operation: &mut Operation) {
        let schema = operation.enter::<Change>();
        operation.answers(200, "Each event has one change", Some(("text/event-stream", schema)));
    }
}

/// An answer with many things of one kind.
pub struct List<T>(pub Vec<T>);

impl<T: serde::Serialize> axum::response::IntoResponse for List<T> {
    fn into_response(self) -> axum::response::Response {
        Json(self.0).into_response()
    }
}

/// Notes an answer that is neither JSON nor empty.
pub fn other(operation: &mut Operation, status: u16, what: &str, kind: Option<&str>) {
    let content = kind.map(|kind| (kind, json!({ "type": "string" })));
    operation.answers(status, what, content);
}
