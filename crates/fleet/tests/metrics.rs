//! The manager's figures, as Prometheus reads them.

use std::collections::{BTreeMap, BTreeSet};

use http_body_util::{BodyExt, Full};
use hyper::{Request, StatusCode, body::Bytes, client::conn::http1};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use treecast_fleet::client::Client;

use crate::support::{Fleet, until};

/// Reads `/metrics`. Returns the status, the kind and the text.
async fn read(fleet: &Fleet, token: Option<&str>) -> (StatusCode, String, String) {
    let stream = TcpStream::connect(fleet.manager.console).await.unwrap();
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let mut request = Request::get("/metrics").header("host", "localhost");
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    let response = sender.send_request(request.body(Full::new(Bytes::new())).unwrap()).await.unwrap();
    let status = response.status();
    let kind = response.headers()["content-type"].to_str().unwrap().to_owned();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (status, kind, String::from_utf8(bytes.to_vec()).unwrap())
}

/// Reads the text format 0.0.4. Returns the values by name and labels, and the names.
fn parse(text: &str) -> (BTreeMap<String, f64>, BTreeSet<String>) {
    assert!(text.ends_with('\n'));
    let (mut kinds, mut helps) = (BTreeMap::new(), BTreeSet::new());
    let (mut values, mut names) = (BTreeMap::new(), BTreeSet::new());
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, words) = help.split_once(' ').unwrap();
            assert!(!words.is_empty() && helps.insert(name.to_owned()), "{line}");
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').unwrap();
            assert!(["counter", "gauge", "summary"].contains(&kind), "{line}");
            assert_eq!(kinds.insert(name.to_owned(), kind.to_owned()), None, "{name} comes twice");
        } else {
            let (series, value) = line.rsplit_once(' ').unwrap();
            let name = series.split('{').next().unwrap();
            assert!(name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_'), "{line}");
            let family = name.strip_suffix("_sum").or(name.strip_suffix("_count")).unwrap_or(name);
            assert!(kinds.contains_key(family) && helps.contains(family), "{line}: no family");
            if let Some(labels) = series.strip_prefix(name).filter(|labels| !labels.is_empty()) {
                assert!(labels.starts_with('{') && labels.ends_with("\"}"), "{line}");
            }
            let value: f64 = value.parse().unwrap();
            assert_eq!(values.insert(series.to_owned(), value), None, "{series} comes twice");
            names.insert(name.to_owned());
        }
    }
    (values, names)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_viewer_reads_figures_that_prometheus_understands() {
    let fleet = Fleet::new().await;
    let _agent = fleet.agent("a").await;
    let gone = fleet.agent("b").await;
    gone.kill().await;
    let own = Client::of_state(&fleet.state()).unwrap();
    let made: Value = own.post("/api/tokens/prometheus", &json!({ "role": "viewer" })).await.unwrap();
    let token = made["token"].as_str().unwrap();
    until("the host has gone", || async {
        own.get::<Value>("/api/count").await.unwrap() == json!({ "hosts": 2, "here": 1 })
    })
    .await;
    let asked: Value = own.post("/api/asks", &json!({ "select": "a" })).await.unwrap();
    let answers = format!("/api/asks/{}", asked["id"]);
    until("the host answers", || async { own.get::<Value>(&answers).await.unwrap()[0]["is_over"] == true })
        .await;
    let (status, kind, text) = read(&fleet, Some(token)).await;
    assert_eq!((status, kind.as_str()), (StatusCode::OK, "text/plain; version=0.0.4"));
    let (values, names) = parse(&text);
    for (series, value) in [
        ("treecast_fleet_info{version=\"1.2.3\"}", 1.0),
        ("treecast_fleet_hosts{state=\"here\"}", 1.0),
        ("treecast_fleet_hosts{state=\"away\"}", 1.0),
        ("treecast_fleet_orders_open", 0.0),
        ("treecast_fleet_orders_total", 1.0),
        ("treecast_fleet_reports_total", 1.0),
        ("treecast_fleet_runs{state=\"failed\"}", 0.0),
        ("treecast_fleet_rollouts{state=\"stopped\"}", 0.0),
    ] {
        assert_eq!(values.get(series), Some(&value), "{series}:\n{text}");
    }
    assert!(values["treecast_fleet_database_bytes"] > 0.0);
    assert!(values["treecast_fleet_report_lag_seconds_sum"] < 60.0);
    // The dashboard shows nothing that is not there.
    let dashboard = include_str!("../../../contrib/grafana/treecast-fleet.json");
    let _: Value = serde_json::from_str(dashboard).unwrap();
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    for word in dashboard.split(|letter| !is_name(letter)).filter(|word| word.starts_with("treecast_fleet_"))
    {
        let is_told = names.contains(word) || text.contains(&format!("# TYPE {word} "));
        assert!(is_told, "the dashboard shows {word}, which is not told");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn figures_are_for_viewers_and_for_the_addresses_of_the_configuration() {
    let fleet = Fleet::with("[metrics]\nfrom = [\"192.0.2.0/24\"]\n").await;
    assert_eq!(read(&fleet, None).await.0, StatusCode::UNAUTHORIZED);
    assert_eq!(read(&fleet, Some("guessed")).await.0, StatusCode::UNAUTHORIZED);
    let fleet = Fleet::with("[metrics]\nfrom = [\"127.0.0.0/8\"]\n").await;
    assert_eq!(read(&fleet, None).await.0, StatusCode::OK);
}
