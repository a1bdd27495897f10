//! The results database: what goes in comes out, also after the process was killed.

use std::{path::Path, process::Command, time::Duration};

use treecast_measure::{
    Db, DbError,
    db::{
        Event, FeedInfo, Machine, NewRun, NodeId, NodeInfo, ObjectTime, Parameters, Role, Row, RunEnd, RunId,
        RunInfo, Sample, Status, Transfer,
    },
};

fn info() -> RunInfo {
    RunInfo {
        experiment: "demo".into(),
        topology: "S1R3L5".into(),
        clients: 20,
        router_levels: 3,
        link_bps: Some(1_000_000_000),
        server_bps: Some(600_000_000),
        delivery: "nack".into(),
        schedule: "immediate".into(),
        size_bytes: 32 << 20,
        repeat: 1,
        seed: u64::MAX - 6,
        command: "treecast lab run labs/librecast/demo.toml".into(),
        machine: Machine::here("0.1.0"),
    }
}

fn sample(node: treecast_measure::db::NodeId, second: u64, value: i64) -> Sample {
    Sample { node, series: "interface/eth0/tx_bytes".into(), at: Duration::from_secs(second), value }
}

#[test]
fn a_complete_run_comes_back_as_it_went_in() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("results.sqlite");
    let transfer = Transfer {
        started: Duration::from_millis(10),
        finished: Some(Duration::from_millis(2510)),
        received_bytes: 32 << 20,
        verified: true,
        retransmitted_bytes: 1420,
        duplicate_bytes: 7,
        dropped_packets: 3,
        cpu_user: Duration::from_millis(40),
        cpu_system: Duration::from_millis(60),
        peak_memory_bytes: 9 << 20,
        failure: None,
    };
    let (run, server, client) = write_run(&path, &transfer);

    let db = Db::open(&path).unwrap();
    let read = db.run(run).unwrap().unwrap();
    assert_eq!(read.info, info());
    assert_eq!((read.status, read.duration), (Status::Complete, Duration::from_secs(3)));
    assert_eq!(read.saturated.as_deref(), Some("processors busy"));
    let names: Vec<String> = db.nodes(run).unwrap().into_iter().map(|(_, node)| node.name).collect();
    assert_eq!(names, ["server0", "client0"]);
    let samples = db.samples(server, "interface/eth0/tx_bytes").unwrap();
    assert_eq!(samples, [(Duration::from_secs(1), 5), (Duration::from_secs(2), 600)]);
    assert_eq!(db.series_names(server).unwrap(), ["interface/eth0/tx_bytes"]);
    assert!(db.samples(client, "interface/eth0/tx_bytes").unwrap().is_empty());
    assert_eq!(db.events(run).unwrap(), [event(1, None), event(2, Some(client))]);
    assert_eq!(transfer.run_time(), Some(Duration::from_millis(2500)));
    assert_eq!(db.transfers(run).unwrap(), [(client, transfer)]);
}

/// Writes a complete run with one client. Returns the run, its server and the client.
fn write_run(path: &Path, transfer: &Transfer) -> (RunId, NodeId, NodeId) {
    let mut db = Db::open(path).unwrap();
    let run = db.begin_run(&info()).unwrap();
    let server = db.add_node(run, &NodeInfo { name: "server0".into(), role: Role::Server }).unwrap();
    let client = db.add_node(run, &NodeInfo { name: "client0".into(), role: Role::Client }).unwrap();
    db.add_samples(&[sample(server, 2, 500), sample(server, 1, 5)]).unwrap();
    db.add_samples(&[sample(server, 2, 600)]).unwrap();
    db.add_event(run, &event(2, Some(client))).unwrap();
    db.add_event(run, &event(1, None)).unwrap();
    db.add_transfer(client, transfer).unwrap();
    let end = RunEnd {
        status: Status::Complete,
        duration: Duration::from_secs(3),
        saturated: Some("processors busy".into()),
    };
    db.finish_run(run, &end).unwrap();
    (run, server, client)
}

fn event(second: u64, node: Option<NodeId>) -> Event {
    Event { at: Duration::from_secs(second), node, kind: "joined".into(), detail: "it's 'quoted'".into() }
}

/// The test starts itself as the process that is killed in the middle of a run.
#[test]
fn a_killed_run_is_marked_and_keeps_its_samples() {
    const CHILD: &str = "TREECAST_TEST_DATABASE_OF_THE_KILLED_RUN";
    if let Some(path) = std::env::var_os(CHILD) {
        be_killed_in_a_run(Path::new(&path));
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("results.sqlite");
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_killed_run_is_marked_and_keeps_its_samples"])
        .env(CHILD, &path)
        .output()
        .unwrap()
        .status;
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(libc::SIGKILL));

    let db = Db::open(&path).unwrap();
    let [run] = &db.runs().unwrap()[..] else { panic!("one run expected") };
    assert_eq!((run.status, run.duration), (Status::CutShort, Duration::from_secs(7)));
    let (server, _) = db.nodes(run.id).unwrap().remove(0);
    assert_eq!(db.samples(server, "interface/eth0/tx_bytes").unwrap().len(), 2);
}

fn be_killed_in_a_run(path: &Path) -> ! {
    let mut db = Db::open(path).unwrap();
    let run = db.begin_run(&info()).unwrap();
    let server = db.add_node(run, &NodeInfo { name: "server0".into(), role: Role::Server }).unwrap();
    db.add_samples(&[sample(server, 4, 5), sample(server, 7, 500)]).unwrap();
    // SAFETY: kill has no memory effects, and the target is this very process.
    unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
    unreachable!("SIGKILL cannot be caught")
}

#[test]
fn a_run_of_a_living_process_stays_running_when_another_opens_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("results.sqlite");
    let mut db = Db::open(&path).unwrap();
    let run = db.begin_run(&info()).unwrap();
    let other = Db::open(&path).unwrap();
    assert_eq!(other.run(run).unwrap().unwrap().status, Status::Running);
}

#[test]
fn a_newer_or_foreign_file_is_refused_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let newer = folder.path().join("newer.sqlite");
    Db::open(&newer).unwrap();
    let connection = rusqlite::Connection::open(&newer).unwrap();
    connection.pragma_update(None, "user_version", 99).unwrap();
    assert!(matches!(Db::open(&newer), Err(DbError::Newer { found: 99, .. })));

    let foreign = folder.path().join("notes.txt");
    std::fs::write(&foreign, "no database, but long enough to be taken for one".repeat(40)).unwrap();
    let Err(error) = Db::open(&foreign) else { panic!("opened a text file") };
    let line = error.to_string();
    assert!(line.contains("notes.txt") && !line.contains('\n'), "{line}");
}

#[test]
fn results_from_before_there_were_feeds_take_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("old.sqlite");
    drop(Db::open(&path).unwrap());
    let old = "DROP TABLE parameters; DROP TABLE rows; ALTER TABLE series DROP COLUMN unit; \
        DROP TABLE use_cases; DROP TABLE sharings; DROP TABLE feeds; DROP TABLE objects; ALTER TABLE runs DROP COLUMN server_bps; PRAGMA user_version = 1";
    rusqlite::Connection::open(&path).unwrap().execute_batch(old).unwrap();

    let mut db = Db::open(&path).unwrap();
    let run = db.begin_run(&info()).unwrap();
    assert_eq!(db.feed(run).unwrap(), None);
    let feed = FeedInfo {
        objects: 2,
        load: 0.4,
        factor: 10.0,
        priority: "fair".into(),
        loss: 0.05,
        slow: vec!["client0".into()],
    };
    db.add_feed(run, &feed).unwrap();
    assert_eq!(db.feed(run).unwrap(), Some(feed));
    let client = db.add_node(run, &NodeInfo { name: "client0".into(), role: Role::Client }).unwrap();
    let object = ObjectTime { name: "a".into(), size_bytes: 7, taken: Duration::from_millis(3) };
    db.add_objects(client, std::slice::from_ref(&object)).unwrap();
    assert_eq!(db.objects(client).unwrap(), [object]);
    assert_eq!(db.run(run).unwrap().unwrap().info.server_bps, Some(600_000_000));
}

/// What an experiment of any kind leaves: parameters, rows and series come back as they went in.
#[test]
fn a_run_of_any_kind_is_parameters_rows_and_series() {
    let folder = tempfile::tempdir().unwrap();
    let mut db = Db::open(&folder.path().join("results.db")).unwrap();
    let parameters: Parameters = [("delivery", "nack"), ("size", "1000"), ("loss", "0.02")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
    let new = NewRun {
        experiment: "any".into(),
        parameters: parameters.clone(),
        seed: u64::MAX,
        repeat: 3,
        command: String::new(),
        machine: Machine::default(),
    };
    let run = db.begin(&new).unwrap();
    let node = db.add_node(run, &NodeInfo { name: "client0".into(), role: Role::Client }).unwrap();
    let rows = [
        Row::of_node(node, "time", 1.25, "s"),
        Row::of_run("sent", 5e9, "B"),
        Row::of_node(node, "silence", f64::NAN, "s").lacking("1 of 100 packets did not come"),
    ];
    db.add_rows(run, &rows).unwrap();
    let points = [(0.0, 0.5), (0.25, 1.5), (2.0, -3.0)];
    db.add_series(node, "rate", "bit/s", &points).unwrap();
    let end = RunEnd { status: Status::Complete, duration: Duration::from_secs(3), saturated: None };
    db.finish_run(run, &end).unwrap();

    assert_eq!(db.parameters(run).unwrap(), parameters);
    assert_eq!(db.points(node, "rate").unwrap(), points);
    assert_eq!(db.points(node, "other").unwrap(), []);
    let back = db.rows(run).unwrap();
    assert_eq!(back[..2], rows[..2]);
    assert_eq!((back[2].value, back[2].note.as_str()), (None, "1 of 100 packets did not come"));
    let info = db.run(run).unwrap().unwrap().info;
    assert_eq!((info.delivery.as_str(), info.size_bytes, info.seed), ("nack", 1000, u64::MAX));
}

/// A database of the version before keeps its samples when it gets the tables of this one.
#[test]
fn an_older_database_keeps_its_samples() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("results.db");
    let old = rusqlite::Connection::open(&path).unwrap();
    old.execute_batch(include_str!("schema-4.sql")).unwrap();
    drop(old);
    let mut db = Db::open(&path).unwrap();
    let node = db.nodes(db.runs().unwrap()[0].id).unwrap()[0].0;
    assert_eq!(
        db.points(node, "interface/eth0/tx_bytes").unwrap(),
        [(1.0, 9_007_199_254_740_993_i64 as f64)]
    );
    assert_eq!(db.samples(node, "interface/eth0/tx_bytes").unwrap()[0].1, 9_007_199_254_740_993);
    db.add_series(node, "share", "", &[(1.0, 0.5)]).unwrap();
    assert_eq!(db.points(node, "share").unwrap(), [(1.0, 0.5)]);
}
