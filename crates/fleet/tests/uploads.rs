//! Uploads and deliveries of files: what is refused, and what is left behind.

use http_body_util::{BodyExt, Full};
use hyper::{Request, StatusCode, body::Bytes, client::conn::http1};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use treecast_fleet::client::Client;

use crate::support::{Fleet, until, was_refused};

/// Sends a file as a browser does. Returns the status and the answer.
async fn put(fleet: &Fleet, path: &str, headers: &[(&str, &str)], bytes: Vec<u8>) -> (StatusCode, Value) {
    let stream = TcpStream::connect(fleet.manager.console).await.unwrap();
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let mut request = Request::builder().method("PUT").uri(path).header("host", "localhost");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = sender.send_request(request.body(Full::new(Bytes::from(bytes))).unwrap()).await.unwrap();
    let status = response.status();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, serde_json::from_slice(&body).unwrap_or_default())
}

/// Logs in as a browser does. Returns the cookie.
async fn cookie(fleet: &Fleet) -> String {
    let (_, query) = fleet.manager.login.split_once("/login").unwrap();
    let stream = TcpStream::connect(fleet.manager.console).await.unwrap();
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let request = Request::get(format!("/login{query}")).header("host", "localhost");
    let response = sender.send_request(request.body(Full::new(Bytes::new())).unwrap()).await.unwrap();
    let cookie = response.headers()["set-cookie"].to_str().unwrap();
    cookie.split(';').next().unwrap().to_owned()
}

async fn begin(client: &Client) -> String {
    let begun: Value = client.post("/api/uploads", &json!({})).await.unwrap();
    begun["upload"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_is_bounded_keeps_to_its_folder_and_needs_more_than_a_cookie() {
    let fleet = Fleet::new().await;
    let own = Client::of_state(&fleet.state()).unwrap();
    let cookie = cookie(&fleet).await;
    let foreign = [("cookie", cookie.as_str())];
    let page = [("cookie", cookie.as_str()), ("x-treecast", "1")];
    let upload = begin(&own).await;
    let path = format!("/api/uploads/{upload}/a");
    // A page of another site can send the cookie along, but not the header.
    assert_eq!(put(&fleet, &path, &foreign, b"x".to_vec()).await.0, StatusCode::FORBIDDEN);
    assert_eq!(put(&fleet, &path, &[], b"x".to_vec()).await.0, StatusCode::UNAUTHORIZED);
    assert!(was_refused(&fleet.state(), "a page of another site").await);
    // The link logs in the same user, so the page goes on with the upload. A request may be longer than others may be.
    let (status, answer) = put(&fleet, &path, &page, vec![7; 5_000_000]).await;
    assert_eq!((status, &answer["size_bytes"]), (StatusCode::OK, &json!(5_000_000)));
    let kept = fleet.state().join("uploads").join(&upload).join("a");
    assert_eq!(std::fs::read(kept).unwrap().len(), 5_000_000);
    for name in ["..", "%2e%2e", "..%2Fb", "%2Fetc%2Fb", "a%0Ab"] {
        let path = format!("/api/uploads/{upload}/{name}");
        let (status, _) = put(&fleet, &path, &page, b"x".to_vec()).await;
        assert!(status.is_client_error(), "{name}: {status}");
    }
    assert_eq!(std::fs::read_dir(fleet.state().join("uploads").join(&upload)).unwrap().count(), 1);
    assert!(!fleet.state().join("uploads/b").exists() && !fleet.state().join("b").exists());
    // What is announced as too large is refused before it comes.
    let long = [page[0], page[1], ("content-length", "9999999999999")];
    let (status, answer) = put(&fleet, &path, &long, Vec::new()).await;
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE, "{answer}");
    let (status, _) = put(&fleet, "/api/uploads/guessed/a", &page, b"x".to_vec()).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    assert!(was_refused(&fleet.state(), "upload a file").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_names_only_what_its_user_may_and_leaves_no_upload_behind() {
    let fleet = Fleet::new().await;
    let _agent = fleet.agent("a").await;
    let own = Client::of_state(&fleet.state()).unwrap();
    let (viewer, operator) =
        (fleet.client("viewer", "viewer").await, fleet.client("operator", "operator").await);
    let file = fleet.folder.0.join("file");
    std::fs::write(&file, "bytes").unwrap();
    let refused = viewer.post::<Value>("/api/uploads", &json!({})).await.unwrap_err().to_string();
    assert!(refused.contains("the role operator"), "{refused}");
    // An operator delivers uploads. Files of the manager's host are its administrator's.
    let body = json!({ "select": "all", "paths": [&file] });
    let refused = operator.post::<Value>("/api/deliveries", &body).await.unwrap_err().to_string();
    assert!(refused.contains("the role administrator"), "{refused}");
    let upload = begin(&operator).await;
    let _: Value = operator.upload(&format!("/api/uploads/{upload}/file"), &file).await.unwrap();
    let folder = fleet.state().join("uploads").join(&upload);
    assert_eq!(std::fs::read_to_string(folder.join("file")).unwrap(), "bytes");
    for (body, says) in [
        (json!({ "select": "all", "upload": upload, "into": "../x" }), "is no path"),
        (json!({ "select": "all", "upload": upload, "into": "/etc" }), "is no path"),
        (json!({ "select": "none", "upload": upload }), "no host is selected by `none`"),
        (json!({ "select": "all" }), "name at least one file"),
    ] {
        let refused = operator.post::<Value>("/api/deliveries", &body).await.unwrap_err().to_string();
        assert!(refused.contains(says), "{body}: {refused}");
    }
    let body = json!({ "select": "all", "upload": upload });
    let refused = own.post::<Value>("/api/deliveries", &body).await.unwrap_err().to_string();
    assert!(refused.contains("no such upload"), "somebody else's: {refused}");
    // There is no sender here: the delivery fails, says so, and deletes what was uploaded.
    let begun: Value = operator.post("/api/deliveries", &body).await.unwrap();
    let path = format!("/api/deliveries/{}", begun["id"]);
    until("the delivery ends", || async { own.get::<Value>(&path).await.unwrap()["state"] == "failed" })
        .await;
    let ended: Value = own.get(&path).await.unwrap();
    let reason = ended["reason"].as_str().unwrap();
    assert!(reason.contains("the sender cannot be started"), "{ended}");
    assert_eq!(ended["hosts"][0]["reason"], ended["reason"]);
    assert!(!folder.exists());
    let refused = operator.post::<Value>("/api/deliveries", &body).await.unwrap_err().to_string();
    assert!(refused.contains("no such upload"), "{refused}");
    assert!(was_refused(&fleet.state(), "deliver files").await);
}
