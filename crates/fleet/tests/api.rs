//! The description of the API, against what the manager does.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use http_body_util::{BodyExt, Full};
use hyper::{Request, StatusCode, body::Bytes, client::conn::http1};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use treecast_driver::security::Identity;
use treecast_experiment::{Event, Failure, Finished, Results};
use treecast_fleet::{manager::description, release::Release};

use crate::support::{Fleet, until, was_refused};

const ROLES: [&str; 4] = ["viewer", "operator", "release-manager", "administrator"];

/// Sends a request. Returns the status, and the answer where it is JSON.
async fn send(
    fleet: &Fleet,
    method: &str,
    path: &str,
    token: Option<&str>,
    body: &Value,
) -> (StatusCode, Option<Value>) {
    let stream = TcpStream::connect(fleet.manager.console).await.unwrap();
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let mut request = Request::builder().method(method.to_uppercase().as_str()).uri(path);
    request = request.header("host", "localhost").header("content-type", "application/json");
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    let request = request.body(Full::new(Bytes::from(body.to_string()))).unwrap();
    let response = sender.send_request(request).await.unwrap();
    let status = response.status();
    let is_json = response.headers().get("content-type").is_some_and(|kind| kind == "application/json");
    if !is_json {
        return (status, None);
    }
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (status, Some(serde_json::from_slice(&bytes).unwrap()))
}

fn document() -> Value {
    serde_json::from_str(description()).unwrap()
}

/// Each operation: its method, its path, and what is said of it.
fn operations(document: &Value) -> Vec<(String, String, Value)> {
    let paths = document["paths"].as_object().unwrap();
    paths
        .iter()
        .flat_map(|(path, methods)| {
            methods
                .as_object()
                .unwrap()
                .iter()
                .map(|(method, operation)| (method.clone(), path.clone(), operation.clone()))
        })
        .collect()
}

/// A path with something in the place of its variables.
fn filled(path: &str) -> String {
    path.replace("{name}", "x").replace("{id}", "1").replace("{change}", "pause")
}

/// Returns the properties of all parts of a schema together.
fn merged(document: &Value, parts: &[Value]) -> Value {
    let (mut properties, mut required) = (serde_json::Map::new(), Vec::new());
    for part in parts {
        let part = part["$ref"].as_str().map_or(part, |reference| document.pointer(&reference[1..]).unwrap());
        properties.extend(part["properties"].as_object().unwrap().clone());
        required.extend(part["required"].as_array().into_iter().flatten().cloned());
    }
    json!({ "type": "object", "properties": properties, "required": required })
}

/// Says how a value differs from a schema. A property that is not described is a difference, too.
fn differs(document: &Value, schema: &Value, value: &Value) -> Option<String> {
    if let Some(reference) = schema["$ref"].as_str() {
        let target = document.pointer(&reference[1..]).unwrap_or_else(|| panic!("{reference} is nowhere"));
        return differs(document, target, value);
    }
    if let Some(parts) = schema["allOf"].as_array() {
        return differs(document, &merged(document, parts), value);
    }
    if let Some(one_of) = schema["oneOf"].as_array() {
        let differences: Vec<String> =
            one_of.iter().filter_map(|schema| differs(document, schema, value)).collect();
        let is_one = differences.len() < one_of.len();
        return (!is_one).then(|| format!("it is none of these: {}", differences.join("; ")));
    }
    if let Some(values) = schema["enum"].as_array()
        && !values.contains(value)
    {
        return Some(format!("{value} is none of {values:?}"));
    }
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let is_kind = |name: &Value| name == kind || (name == "number" && kind == "integer");
    let matches = match &schema["type"] {
        Value::Null => true,
        Value::Array(kinds) => kinds.iter().any(is_kind),
        name => is_kind(name),
    };
    if !matches {
        return Some(format!("{value} is no {}", schema["type"]));
    }
    match value {
        Value::Array(items) => items.iter().find_map(|item| differs(document, &schema["items"], item)),
        Value::Object(object) => {
            let missing = schema["required"].as_array().into_iter().flatten();
            let mut missing = missing.filter(|name| !object.contains_key(name.as_str().unwrap()));
            if let Some(name) = missing.next() {
                return Some(format!("{name} is missing in {value}"));
            }
            object.iter().find_map(|(name, value)| {
                match (&schema["properties"][name], &schema["additionalProperties"]) {
                    (Value::Null, Value::Null) if schema["properties"].is_null() => None,
                    (Value::Null, Value::Null) => Some(format!("{name} is not described")),
                    (Value::Null, rest) => differs(document, rest, value),
                    (property, _) => differs(document, property, value),
                }
                .map(|how| format!("{name}: {how}"))
            })
        }
        _ => None,
    }
}

#[test]
fn the_console_is_made_from_this_description() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../ui/openapi.json");
    let committed = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        committed.trim_end() == description(),
        "ui/openapi.json is old: run `treecast fleet api > ui/openapi.json`, then `npm run types` in ui/"
    );
}

#[test]
fn every_operation_has_a_name_and_all_references_lead_somewhere() {
    let document = document();
    let operations = operations(&document);
    let names: BTreeSet<&str> =
        operations.iter().map(|(_, _, of)| of["operationId"].as_str().unwrap()).collect();
    assert_eq!(names.len(), operations.len());
    for reference in description().lines().filter_map(|line| line.trim().strip_prefix("\"$ref\": \"#")) {
        let pointer = reference.trim_end_matches([',', '"']);
        assert!(document.pointer(pointer).is_some(), "{pointer} is nowhere");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_route_asks_for_the_role_that_is_described() {
    let fleet = Fleet::new().await;
    let mut tokens = Vec::new();
    for role in ROLES {
        tokens.push(fleet.token(role, role).await);
    }
    let document = document();
    let mut open = Vec::new();
    for (method, path, operation) in operations(&document) {
        let at = filled(&path);
        let (status, told) = send(&fleet, &method, &at, None, &json!({})).await;
        let Some(role) = operation["x-role"].as_str() else {
            assert!(operation["responses"][status.as_str()].is_object(), "{method} {path}: {status}");
            open.push(path);
            continue;
        };
        assert_eq!(status, StatusCode::UNAUTHORIZED, "{method} {path}: {told:?}");
        let least = ROLES.iter().position(|of| *of == role).unwrap();
        if least > 0 {
            let (status, told) = send(&fleet, &method, &at, Some(&tokens[least - 1]), &json!({})).await;
            assert_eq!(status, StatusCode::FORBIDDEN, "{method} {path}: {told:?}");
            let what = operation["operationId"].as_str().unwrap().replace('_', " ");
            assert!(was_refused(&fleet.state(), &what).await, "{what} is not in the log");
        }
        let (status, told) = send(&fleet, &method, &at, Some(&tokens[least]), &json!({})).await;
        assert!(status != StatusCode::FORBIDDEN && status != StatusCode::UNAUTHORIZED, "{method} {path}");
        let described = &operation["responses"][status.as_str()];
        assert!(described.is_object(), "{method} {path} answers {status}, which is not described: {told:?}");
        if !status.is_success() {
            let error = differs(&document, &json!({ "$ref": "#/components/schemas/Error" }), &told.unwrap());
            assert_eq!(error, None, "{method} {path}");
        }
    }
    assert_eq!(open, ["/api/login", "/api/openapi.json", "/login", "/login/back", "/login/start"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_are_as_they_are_described() {
    let fleet = Fleet::new().await;
    let _agent = fleet.agent("a").await;
    let token = fleet.token("administrator", "administrator").await;
    let document = document();
    let ask = async |method: &str, path: &str, at: &str, body: Value| {
        let (status, told) = send(&fleet, method, at, Some(&token), &body).await;
        assert!(status.is_success(), "{method} {at}: {told:?}");
        let answer = &document["paths"][path][method]["responses"][status.as_str()];
        let schema = &answer["content"]["application/json"]["schema"];
        assert!(schema.is_object(), "{method} {path} has no described answer of status {status}");
        let told = told.unwrap();
        assert_eq!(differs(&document, schema, &told), None, "{method} {path}: {told}");
        told
    };
    ask("put", "/api/groups/{name}", "/api/groups/g", json!({ "selection": "a" })).await;
    ask("put", "/api/hosts/{name}/tags", "/api/hosts/a/tags", json!({ "site": "kiel" })).await;
    ask("post", "/api/codes", "/api/codes", json!({})).await;
    ask("post", "/api/tokens/{name}", "/api/tokens/t", json!({ "role": "viewer" })).await;
    ask("post", "/api/links", "/api/links", json!({})).await;
    let asked = ask("post", "/api/asks", "/api/asks", json!({ "select": "all" })).await;
    let answers = format!("/api/asks/{}", asked["id"]);
    until("the host answers", || async {
        send(&fleet, "get", &answers, Some(&token), &json!({})).await.1.unwrap()[0]["is_over"] == true
    })
    .await;
    let answered = ask("get", "/api/asks/{id}", &answers, json!({})).await;
    assert!(answered[0]["value"].is_object(), "{answered}");
    ask("get", "/api/asks/{id}/times", &format!("{answers}/times"), json!({})).await;
    ask("get", "/api/hosts/{name}", "/api/hosts/a", json!({})).await;
    for path in ["me", "count", "hosts", "groups", "runs", "releases", "rollouts", "audit"] {
        let path = format!("/api/{path}");
        ask("get", &path, &path, json!({})).await;
    }
    let folder = fleet.folder.0.join("source");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("file"), "bytes").unwrap();
    let release = Release::of_folder(&folder, "app", "1.0", None, None).unwrap();
    let signed = release.sign(&Identity::generate().unwrap());
    let new = json!({ "signed": signed, "folder": folder });
    let release = ask("post", "/api/releases", "/api/releases", new).await;
    let new = json!({ "release": release["id"], "rings": [{ "select": "a" }], "approval": true });
    let rollout = ask("post", "/api/rollouts", "/api/rollouts", new).await;
    ask("get", "/api/rollouts/{id}", &format!("/api/rollouts/{}", rollout["id"]), json!({})).await;
    ask("get", "/api/releases", "/api/releases", json!({})).await;
    let (_, served) = send(&fleet, "get", "/api/openapi.json", None, &json!({})).await;
    assert_eq!(served, Some(document.clone()));
}

#[test]
fn what_runs_tell_is_as_it_is_described() {
    let document = document();
    let describes = |name: &str, value: Value| {
        let schema = json!({ "$ref": format!("#/components/schemas/{name}") });
        assert_eq!(differs(&document, &schema, &value), None, "{value}");
    };
    let measures = BTreeMap::from([("rate".to_owned(), Some(1.5)), ("delay".to_owned(), None)]);
    let finished = Finished {
        number: 1,
        run: "a",
        duration: Duration::from_millis(1500),
        whole: 1,
        clients: 2,
        sentence: "one of two",
        measures: &measures,
        saturated: None,
        cut_short: false,
        refused: Some("too many"),
    };
    for event in [
        Event::Planned { runs: 1, estimate: Duration::from_secs(1), left_out: &["b".to_owned()] },
        Event::Building { network: "tree", nodes: 3 },
        Event::Settling { run: "a" },
        Event::Started { number: 1, of: 2, run: "a", clients: 2, expected: Duration::from_secs(1) },
        Event::Again { run: "a", why: "it was loud" },
        Event::Finished(&finished),
    ] {
        describes("RunEvent", json!(event));
    }
    let failure = Failure { run: "a".into(), node: "b".into(), reason: "c".into() };
    describes("Results", json!(Results { runs: 1, failures: vec![failure], ..Results::default() }));
}
