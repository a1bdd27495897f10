//! The tables' text, and the text of a whole report, against golden files.
//!
//! A test that finds a difference writes what it got into the target folder's `tmp`, next to where
//! reports of made-up runs are, and names both files.

mod common;

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use treecast_measure::{
    Db,
    analysis::Results,
    db::{NodeInfo, Role, RunEnd, Sample, Status, Transfer},
    report::{self, ReportInput},
    series, tables,
};

fn golden(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    let found = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&found, text).unwrap();
    let expected = fs::read_to_string(&path).unwrap_or_default();
    assert!(expected == text, "{} differs from {}:\n{text}", found.display(), path.display());
}

/// One run by hand, so that every number can be checked with a pencil: two clients, active from 0 to 2 s
/// and from 1 to 4 s; the server sends 1 MB in the first second, then 3, then 2, then 1, then none; it
/// uses half a processor. One router passes all on, half a megabyte behind.
fn by_hand(db: &mut Db) {
    let info = common::info("S1R1L2", 2, 1);
    let run = db.begin_run(&info).unwrap();
    let mut add = |name: &str, role| db.add_node(run, &NodeInfo { name: name.into(), role }).unwrap();
    let (server, router) = (add("server0", Role::Server), add("router0", Role::Router));
    let clients = [add("client0", Role::Client), add("client1", Role::Client)];
    for (client, (from, to)) in clients.into_iter().zip([(0, 2), (1, 4)]) {
        let transfer = Transfer {
            started: Duration::from_secs(from),
            finished: Some(Duration::from_secs(to)),
            verified: true,
            ..Transfer::default()
        };
        db.add_transfer(client, &transfer).unwrap();
    }
    let mut samples = Vec::new();
    for (second, sent_mb) in [0, 1, 4, 6, 7, 7].into_iter().enumerate() {
        let at = Duration::from_secs(second as u64);
        let sent = sent_mb * 1_000_000;
        let mut add = |node, name: &str, value| samples.push(Sample { node, series: name.into(), at, value });
        add(server, "interface/if0/tx_bytes", sent);
        add(server, "interface/if0/rx_bytes", 1);
        add(server, series::PROCESS_CPU_NS, second as i64 * 500_000_000);
        add(router, "interface/server/rx_bytes", sent);
        add(router, "interface/client/tx_bytes", (sent - 500_000).max(0));
    }
    db.add_samples(&samples).unwrap();
    let end = RunEnd { status: Status::Complete, duration: Duration::from_secs(5), saturated: None };
    db.finish_run(run, &end).unwrap();
}

#[test]
fn the_papers_tables_of_a_run_made_by_hand() {
    let folder = tempfile::tempdir().unwrap();
    let mut db = Db::open(&folder.path().join("results.sqlite")).unwrap();
    by_hand(&mut db);
    let results = Results::load(&db, &[]).unwrap();
    let setting = results.settings().remove(0);
    let mut text = String::new();
    let mut all = tables::run_time_tables(&results);
    all.extend(tables::server_tables(&results, &setting, "immediate").unwrap());
    all.push(tables::router_table(&results.runs[0], &results.router_traffic(&results.runs[0]).unwrap()));
    all.push(tables::server_bytes_table(&results).unwrap());
    all.push(tables::runs_table(&results));
    for table in all {
        text += &table.to_text();
        text += "\n";
    }
    golden("by-hand.txt", &text);
}

#[test]
fn the_terminal_report_of_made_up_runs() {
    let folder = tempfile::tempdir().unwrap();
    let networks = [("S1L20", 20, 0), ("S1R3L5", 20, 3)];
    let db = common::made_up(&folder.path().join("results.sqlite"), &networks, &[16], 1);
    golden("made-up.txt", &report::to_text(&db, &ReportInput::default()).unwrap());
}

#[test]
fn rows_are_sorted_by_average_within_a_network() {
    let folder = tempfile::tempdir().unwrap();
    let networks = [("S1R3L5", 20, 3), ("S1L20", 20, 0)];
    let db = common::made_up(&folder.path().join("results.sqlite"), &networks, &[16, 64], 2);
    let results = Results::load(&db, &[]).unwrap();
    let rows = results.run_times();
    assert_eq!(rows.len(), 2 * 2 * 6 * 3);
    assert!(rows.iter().all(|row| row.summary.count == 40 && row.failed == 0));
    let (first, second) = rows.split_at(rows.len() / 2);
    for (of_network, topology) in [(first, "S1R3L5"), (second, "S1L20")] {
        assert!(of_network.iter().all(|row| row.key.setting.topology == topology));
        assert!(of_network.is_sorted_by_key(|row| row.summary.mean));
    }
}

#[test]
fn a_machine_without_a_rest_is_found_to_be_the_limit() {
    let folder = tempfile::tempdir().unwrap();
    let mut db = Db::open(&folder.path().join("results.sqlite")).unwrap();
    for (idle_share, dropped) in [(0.5, 0), (0.01, 0), (0.5, 7)] {
        let run = db.begin_run(&common::info("S1L1", 1, 0)).unwrap();
        let machine = db.add_node(run, &NodeInfo { name: "machine".into(), role: Role::Machine }).unwrap();
        let client = db.add_node(run, &NodeInfo { name: "client0".into(), role: Role::Client }).unwrap();
        let whole =
            Transfer { finished: Some(Duration::from_secs(9)), verified: true, ..Transfer::default() };
        db.add_transfer(client, &whole).unwrap();
        let samples: Vec<Sample> = (0..10)
            .flat_map(|second| {
                let sample = |name: &str, value| Sample {
                    node: machine,
                    series: name.into(),
                    at: Duration::from_secs(second),
                    value,
                };
                // Two processors.
                let idle_ns = second as f64 * 2e9 * idle_share;
                let dropped = if second > 5 { dropped } else { 0 };
                [
                    sample(series::CPU_IDLE_NS, idle_ns as i64),
                    sample(series::SOFTNET_DROPPED_PACKETS, dropped),
                ]
            })
            .collect();
        db.add_samples(&samples).unwrap();
    }
    let results = Results::load(&db, &[]).unwrap();
    let why: Vec<Option<String>> = results.runs.iter().map(|run| results.saturation(run).unwrap()).collect();
    assert_eq!(why[0], None);
    assert_eq!(why[1].as_deref(), Some("processors over 95 % busy in 9 of 9 samples"));
    assert_eq!(why[2].as_deref(), Some("the kernel's backlog was full: 7 packets dropped"));
}

/// A sampler goes from node to node, so no two have their samples at the same time.
#[test]
fn routers_that_are_sampled_one_after_the_other_share_rows() {
    let folder = tempfile::tempdir().unwrap();
    let mut db = Db::open(&folder.path().join("results.sqlite")).unwrap();
    let run = db.begin_run(&common::info("S1R2L2", 4, 2)).unwrap();
    for number in 0..3u64 {
        let node = NodeInfo { name: format!("router{number}"), role: Role::Router };
        let router = db.add_node(run, &node).unwrap();
        let sample = |second: u64| Sample {
            node: router,
            series: "interface/server/rx_bytes".into(),
            at: Duration::from_millis(second * 1000 + number),
            value: second as i64 * 2_000_000,
        };
        db.add_samples(&(0..4).map(sample).collect::<Vec<_>>()).unwrap();
    }
    let end = RunEnd { status: Status::Complete, duration: Duration::from_secs(3), saturated: None };
    db.finish_run(run, &end).unwrap();
    let results = Results::load(&db, &[]).unwrap();
    let traffic = results.router_traffic(&results.runs[0]).unwrap();
    let rows: Vec<&[f64]> = traffic.rows.iter().map(|(_, rates)| &rates[..]).collect();
    assert_eq!(rows, [[2.0, 2.0]; 3], "router2 and router0, the way to the leftmost clients");
}
