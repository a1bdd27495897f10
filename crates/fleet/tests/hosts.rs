//! Hosts join, are selected, are asked, and come back.

use serde_json::{Value, json};
use treecast_fleet::{
    client::Client,
    message::{What, Work},
};

use crate::support::{Agent, Fleet, Folder, any_port, audit, code, manager, until, was_refused};

async fn names(client: &Client, select: &str) -> Result<Vec<String>, String> {
    let path = format!("/api/hosts?select={}", treecast_fleet::client::escaped(select));
    let hosts: Vec<Value> = client.get(&path).await.map_err(|error| error.to_string())?;
    Ok(hosts.iter().map(|host| host["name"].as_str().unwrap().to_owned()).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn hosts_are_selected_by_their_tags_and_facts_and_by_saved_groups() {
    let fleet = Fleet::new().await;
    let _agents = [fleet.agent("kiel-1").await, fleet.agent("kiel-2").await, fleet.agent("bonn-1").await];
    let client = Client::of_state(&fleet.state()).unwrap();
    for (name, site) in [("kiel-1", "kiel"), ("kiel-2", "kiel"), ("bonn-1", "bonn")] {
        let _: Value =
            client.put(&format!("/api/hosts/{name}/tags"), &json!({ "site": site })).await.unwrap();
    }
    let _: Value = client.put("/api/groups/north", &json!({ "selection": "site=kiel" })).await.unwrap();
    for (select, expected) in [
        ("all", &["bonn-1", "kiel-1", "kiel-2"][..]),
        ("group:north and not kiel-2", &["kiel-1"]),
        ("state=here version=1.2.3 site=bonn", &["bonn-1"]),
        ("site=rome", &[]),
    ] {
        assert_eq!(names(&client, select).await.unwrap(), expected, "{select}");
    }
    assert!(names(&client, "group:south").await.unwrap_err().contains("there is no group south"));
    let circle = client.put::<Value>("/api/groups/north", &json!({ "selection": "group:north" })).await;
    assert!(circle.unwrap_err().to_string().contains("contains itself"));
    let nobody = client.post::<Value>("/api/asks", &json!({ "select": "site=rome" })).await;
    assert_eq!(nobody.unwrap_err().to_string(), "no host is selected by `site=rome`");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_code_is_used_up_and_a_name_belongs_to_one_key() {
    let folder = Folder::new();
    let state = folder.0.join("manager");
    let _manager = manager(&state, any_port()).await;
    let once = code(&state, 1).await;
    let mut first = Agent::start(&folder.0.join("a"), "a", Some(&once));
    first.connected().await;
    let second = Agent::start(&folder.0.join("b"), "b", Some(&once));
    assert!(second.refused().await.contains("its code was used up"));
    let twice = code(&state, 2).await;
    let other = Agent::start(&folder.0.join("c"), "a", Some(&twice));
    let refused = other.refused().await;
    assert!(refused.contains("a host of the name a is here with another key"), "{refused}");
    // A host that was not taken has not used the code up: two others may come.
    for name in ["d", "e"] {
        Agent::start(&folder.0.join(name), name, Some(&twice)).connected().await;
    }
    assert!(was_refused(&state, "join").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_was_removed_is_a_stranger() {
    let fleet = Fleet::new().await;
    let agent = fleet.agent("a").await;
    let client = Client::of_state(&fleet.state()).unwrap();
    client.delete("/api/hosts/a").await.unwrap();
    assert!(agent.refused().await.contains("it was removed from the fleet"));
    let again = Agent::start(&fleet.folder.0.join("a"), "a", None);
    assert!(again.refused().await.contains("its key is not known here"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_goes_to_no_other_manager() {
    let fleet = Fleet::new().await;
    fleet.agent("a").await.kill().await;
    // Another manager at the same address: another key.
    let address = fleet.manager.agents;
    let Fleet { folder, manager: own, .. } = fleet;
    drop(own);
    let foreign = Folder::new();
    let _other = manager_at(&foreign, address).await;
    let agent = Agent::start(&folder.0.join("a"), "a", None);
    // It tries again and again; the foreign manager never hears its name.
    until("the foreign manager has heard nothing", || async { audit(&foreign.0).await.is_empty() }).await;
    agent.kill().await;
    // The same key with another database is another fleet.
    let copied = Folder::new();
    std::fs::copy(folder.0.join("manager/key.pem"), copied.0.join("key.pem")).unwrap();
    drop(_other);
    let _same_key = manager_at(&copied, address).await;
    let agent = Agent::start(&folder.0.join("a"), "a", None);
    let refused = agent.refused().await;
    assert!(refused.contains("its key is not known here"), "{refused}");
}

async fn manager_at(folder: &Folder, address: std::net::SocketAddr) -> treecast_fleet::manager::Manager {
    until("the port is free", || async { std::net::TcpListener::bind(address).is_ok() }).await;
    manager(&folder.0, address).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_for_a_host_that_is_away_is_done_when_it_comes() {
    let fleet = Fleet::new().await;
    fleet.agent("a").await.kill().await;
    let hub = &fleet.manager.hub;
    let host = hub.host("a").await.unwrap().id;
    until("the host is away", || async { !hub.is_here(host).await }).await;
    let (_, mut said) = hub.order_and_hear(host, Work::Folder { name: "run1".into() }).await.unwrap();
    let _again = Agent::start(&fleet.folder.0.join("a"), "a", None);
    let report = tokio::time::timeout(crate::support::LONGEST, said.recv()).await.unwrap().unwrap();
    assert!(matches!(report.what, What::Done { .. }), "{report:?}");
    assert!(fleet.folder.0.join("a/work/run1").is_dir());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_fetched_whole_or_not_at_all() {
    let fleet = Fleet::new().await;
    let _agent = fleet.agent("a").await;
    let hub = &fleet.manager.hub;
    let host = hub.host("a").await.unwrap().id;
    let file = fleet.folder.0.join("source");
    let bytes: Vec<u8> = (0..3_000_000u32).map(|at| at as u8 ^ (at >> 8) as u8).collect();
    std::fs::write(&file, &bytes).unwrap();
    let blob = blake3::hash(&bytes).to_hex().to_string();
    hub.offer(blob.clone(), file.clone());
    let fetch = |size_bytes| Work::Fetch {
        blob: blob.clone(),
        size_bytes,
        folder: "run1".into(),
        name: "copy".into(),
    };
    let come = async |work: Work| {
        let (_, mut said) = hub.order_and_hear(host, work).await.unwrap();
        tokio::time::timeout(crate::support::LONGEST, said.recv()).await.unwrap().unwrap().what
    };
    assert!(matches!(come(fetch(3_000_000)).await, What::Done { .. }));
    let copy = fleet.folder.0.join("a/work/run1/copy");
    assert_eq!(std::fs::read(&copy).unwrap(), bytes);
    let check =
        |size_bytes| Work::Check { path: copy.display().to_string(), size_bytes, blake3: blob.clone() };
    assert_eq!(come(check(3_000_000)).await, What::Done { value: Value::Null });
    assert_eq!(come(check(1)).await, What::Done { value: json!("copy has 3000000 bytes, not 1") });
    assert!(
        matches!(come(fetch(2_999_999)).await, What::Failed { reason } if reason.contains("longer than was said"))
    );
    std::fs::write(&file, "something else").unwrap();
    assert!(
        matches!(come(fetch(3_000_000)).await, What::Failed { reason } if reason.contains("not the one"))
    );
    hub.withdraw(&blob);
    assert!(matches!(come(fetch(3_000_000)).await, What::Failed { reason } if reason.contains("404")));
}
