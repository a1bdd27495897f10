//! What people and programs may do, by role, and what nobody may.

use http_body_util::{BodyExt, Full};
use hyper::{Request, StatusCode, body::Bytes, client::conn::http1};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use treecast_driver::security::Identity;
use treecast_fleet::{
    client::Client,
    release::{Release, Signed},
};

use crate::support::{Fleet, LONGEST, until, was_refused};

/// Sends a request as a browser does. Returns the status and the cookie that is set.
async fn browse(
    fleet: &Fleet,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
) -> (StatusCode, Option<String>) {
    let stream = TcpStream::connect(fleet.manager.console).await.unwrap();
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let mut request = Request::builder().method(method).uri(path).header("host", "localhost");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = sender.send_request(request.body(Full::new(Bytes::new())).unwrap()).await.unwrap();
    let status = response.status();
    let cookie = response.headers().get("set-cookie").map(|value| value.to_str().unwrap().to_owned());
    response.into_body().collect().await.unwrap();
    (status, cookie)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_logs_in_once_and_a_cookie_is_worth_nothing_after_logout() {
    let fleet = Fleet::new().await;
    let link = fleet.manager.login.split_once("/login").map(|(_, query)| format!("/login{query}")).unwrap();
    let (status, cookie) = browse(&fleet, "GET", &link, &[]).await;
    assert_eq!(status, StatusCode::SEE_OTHER);
    let cookie = cookie.unwrap();
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
    let cookie = cookie.split(';').next().unwrap();
    assert_eq!(browse(&fleet, "GET", &link, &[]).await.0, StatusCode::BAD_REQUEST);
    let me = [("cookie", cookie)];
    assert_eq!(browse(&fleet, "GET", "/api/me", &me).await.0, StatusCode::OK);
    // A page of another site can send the cookie along, but not the header.
    assert_eq!(browse(&fleet, "POST", "/api/logout", &me).await.0, StatusCode::FORBIDDEN);
    let own = [("cookie", cookie), ("x-treecast", "1")];
    assert_eq!(browse(&fleet, "POST", "/api/logout", &own).await.0, StatusCode::NO_CONTENT);
    assert_eq!(browse(&fleet, "GET", "/api/me", &me).await.0, StatusCode::UNAUTHORIZED);
    assert!(was_refused(&fleet.state(), "a page of another site").await);
    assert!(was_refused(&fleet.state(), "log in").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_role_is_refused_what_is_above_it_and_the_log_has_it() {
    let fleet = Fleet::new().await;
    let _agent = fleet.agent("a").await;
    let own = Client::of_state(&fleet.state()).unwrap();
    let (viewer, operator) =
        (fleet.client("viewer", "viewer").await, fleet.client("operator", "operator").await);
    assert_eq!(viewer.get::<Vec<Value>>("/api/hosts").await.unwrap().len(), 1);
    for (path, body) in [
        ("/api/asks", json!({ "select": "all" })),
        ("/api/runs/1/abort", json!({})),
        ("/api/codes", json!({})),
        ("/api/tokens/x", json!({ "role": "administrator" })),
    ] {
        let refused = viewer.post::<Value>(path, &body).await.unwrap_err().to_string();
        assert!(refused.starts_with("this needs the role"), "{path}: {refused}");
    }
    assert!(operator.post::<Value>("/api/asks", &json!({ "select": "all" })).await.is_ok());
    let refused = operator.delete("/api/hosts/a").await.unwrap_err().to_string();
    assert_eq!(refused, "this needs the role administrator or a higher one");
    for what in ["ask hosts", "abort a run", "make a code", "make a token", "forget a host"] {
        assert!(was_refused(&fleet.state(), what).await, "{what}");
    }
    own.delete("/api/tokens/operator").await.unwrap();
    assert!(operator.get::<Value>("/api/me").await.unwrap_err().to_string().contains("log in first"));
    let stranger = Client::new(fleet.manager.console.to_string(), "guessed".into());
    assert!(stranger.get::<Value>("/api/hosts").await.unwrap_err().to_string().contains("log in first"));
}

#[tokio::test(flavor = "multi_thread")]
async fn strangers_hold_no_connection_and_keep_nobody_out() {
    let fleet = Fleet::new().await;
    let mut silent = Vec::new();
    for _ in 0..200 {
        silent.push(TcpStream::connect(fleet.manager.agents).await.unwrap());
    }
    // Among many who say nothing, a host joins.
    let _agent = fleet.agent("a").await;
    for stream in &mut silent {
        let ended = tokio::time::timeout(LONGEST, tokio::io::AsyncReadExt::read(stream, &mut [0; 1])).await;
        assert!(matches!(ended, Ok(Ok(0) | Err(_))), "{ended:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_is_taken_as_it_was_signed_and_by_those_who_may() {
    let fleet = Fleet::new().await;
    let _agent = fleet.agent("a").await;
    let own = Client::of_state(&fleet.state()).unwrap();
    let folder = fleet.folder.0.join("source");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("file"), "bytes").unwrap();
    let key = Identity::generate().unwrap();
    let signed = Release::of_folder(&folder, "app", "1.0", None, None).unwrap().sign(&key);
    let add = |signed: &Signed| json!({ "signed": signed, "folder": folder });
    let altered = Signed { release: signed.release.replace("1.0", "1.1"), ..signed.clone() };
    let refused = own.post::<Value>("/api/releases", &add(&altered)).await.unwrap_err().to_string();
    assert!(refused.contains("altered after that"), "{refused}");
    let operator = fleet.client("op", "operator").await;
    for (path, body) in
        [("/api/releases", add(&signed)), ("/api/rollouts", json!({ "release": 1, "rings": [] }))]
    {
        let refused = operator.post::<Value>(path, &body).await.unwrap_err().to_string();
        assert!(refused.contains("release-manager"), "{path}: {refused}");
    }
    std::fs::write(folder.join("file"), "other").unwrap();
    let refused = own.post::<Value>("/api/releases", &add(&signed)).await.unwrap_err().to_string();
    assert_eq!(refused, "file: it has other bytes");
    std::fs::write(folder.join("file"), "bytes").unwrap();
    let added: Value = own.post("/api/releases", &add(&signed)).await.unwrap();
    for (body, says) in [
        (json!({ "release": 7, "rings": [{ "select": "all" }] }), "there is no release 7"),
        (json!({ "release": added["id"], "rings": [] }), "at least one ring"),
        (json!({ "release": added["id"], "rings": [{ "select": "b" }] }), "no host is selected by `b`"),
    ] {
        let refused = own.post::<Value>("/api/rollouts", &body).await.unwrap_err().to_string();
        assert!(refused.contains(says), "{body}: {refused}");
    }
    // A rollout that waits for a second person is not approved by the first.
    let body = json!({ "release": added["id"], "rings": [{ "select": "a" }], "approval": true });
    let waiting: Value = own.post("/api/rollouts", &body).await.unwrap();
    let path = format!("/api/rollouts/{}", waiting["id"]);
    let refused = own.post::<Value>(&format!("{path}/approve"), &json!({})).await.unwrap_err().to_string();
    assert!(refused.contains("a second person approves"), "{refused}");
    // This host trusts nobody's releases.
    let second = fleet.client("second", "release-manager").await;
    let _: Value = second.post(&format!("{path}/approve"), &json!({})).await.unwrap();
    until("the rollout stops", || async { own.get::<Value>(&path).await.unwrap()["state"] == "stopped" })
        .await;
    let stopped: Value = own.get(&path).await.unwrap();
    assert!(
        stopped["hosts"][0]["reason"].as_str().unwrap().contains("which this host does not trust"),
        "{stopped}"
    );
    own.delete("/api/releases/1").await.unwrap();
    let refused = own.post::<Value>("/api/rollouts", &body).await.unwrap_err().to_string();
    assert_eq!(refused, "app 1.0 is withdrawn");
    assert!(
        was_refused(&fleet.state(), "add a release").await && was_refused(&fleet.state(), "roll out").await
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_requests_are_one_line() {
    let fleet = Fleet::new().await;
    let _agent = fleet.agent("a").await;
    let own = Client::of_state(&fleet.state()).unwrap();
    for (path, body, says) in [
        ("/api/codes", json!({ "uses": 0 }), "uses: from 1"),
        ("/api/codes", json!({ "lasts": "never" }), "lasts: "),
        ("/api/asks", json!({ "select": "(" }), "the selection ends"),
        ("/api/asks", json!({ "select": "all", "limit": "0" }), "limit: "),
        ("/api/tokens/a%20b", json!({ "role": "viewer" }), "no name for a host"),
        ("/api/tokens/x", json!({ "role": "root" }), "is no role: take viewer"),
        ("/api/runs", json!({ "name": "x", "file": "title = 1", "select": "all" }), "x:1: "),
        ("/api/runs", json!({ "name": "x", "file": "", "select": "none" }), "no host is selected by `none`"),
        ("/api/nothing", json!({}), "404"),
    ] {
        let refused = own.post::<Value>(path, &body).await.unwrap_err().to_string();
        assert!(refused.contains(says) && !refused.contains('\n'), "{path} {body}: {refused}");
    }
    assert!(own.get::<Value>("/api/runs/77").await.unwrap_err().to_string().contains("there is no run 77"));
    assert!(own.get::<Value>("/api/hosts/b").await.unwrap_err().to_string().contains("there is no host b"));
}
