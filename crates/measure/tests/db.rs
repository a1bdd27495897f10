//! The results database: what goes in comes out, also after the process was killed.

use std::{path::Path, process::Command, time::Duration};

use treecast_measure::{
    Db, DbError,
    db::{Event, Machine, NewRun, NodeId, NodeInfo, Role, Row, RunEnd, RunId, Sample, Status},
    saturation,
    series::{CPU_IDLE_NS, SOFTNET_DROPPED_PACKETS},
};

fn info() -> NewRun {
    let parameters = [("network", "S1R3L5"), ("delivery", "nack"), ("size", "33554432"), ("loss", "0.02")];
    NewRun {
        experiment: "demo".into(),
        parameters: parameters.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
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
    let (run, server, client) = write_run(&path);

    let db = Db::open(&path).unwrap();
    let read = db.run(run).unwrap().unwrap();
    let found = (&read.experiment, &read.parameters, read.repeat, read.seed, &read.command, &read.machine);
    let new = info();
    assert_eq!(found, (&new.experiment, &new.parameters, new.repeat, new.seed, &new.command, &new.machine));
    assert_eq!((read.status, read.duration), (Status::Complete, Duration::from_secs(3)));
    assert_eq!(read.saturated.as_deref(), Some("processors busy"));
    let names: Vec<String> = db.nodes(run).unwrap().into_iter().map(|(_, node)| node.name).collect();
    assert_eq!(names, ["server0", "client0"]);
    let samples = db.samples(server, "interface/eth0/tx_bytes").unwrap();
    assert_eq!(samples, [(Duration::from_secs(1), 5), (Duration::from_secs(2), 600)]);
    assert!(db.samples(client, "interface/eth0/tx_bytes").unwrap().is_empty());
    assert_eq!(db.events(run).unwrap(), [event(1, None), event(2, Some(client))]);
}

/// Writes a complete run with one client. Returns the run, its server and the client.
fn write_run(path: &Path) -> (RunId, NodeId, NodeId) {
    let mut db = Db::open(path).unwrap();
    let run = db.begin(&info()).unwrap();
    let server = db.add_node(run, &NodeInfo { name: "server0".into(), role: Role::Server }).unwrap();
    let client = db.add_node(run, &NodeInfo { name: "client0".into(), role: Role::Client }).unwrap();
    db.add_samples(&[sample(server, 2, 500), sample(server, 1, 5)]).unwrap();
    db.add_samples(&[sample(server, 2, 600)]).unwrap();
    db.add_event(run, &event(2, Some(client))).unwrap();
    db.add_event(run, &event(1, None)).unwrap();
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
        .args(["--exact", "db::a_killed_run_is_marked_and_keeps_its_samples"])
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
    let run = db.begin(&info()).unwrap();
    let server = db.add_node(run, &NodeInfo { name: "server0".into(), role: Role::Server }).unwrap();
    db.add_samples(&[sample(server, 4, 5), sample(server, 7, 500)]).unwrap();
    treecast_host::process::kill(std::process::id() as i32, libc::SIGKILL).unwrap();
    unreachable!("SIGKILL cannot be caught")
}

#[test]
fn a_run_of_a_living_process_stays_running_when_another_opens_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("results.sqlite");
    let mut db = Db::open(&path).unwrap();
    let run = db.begin(&info()).unwrap();
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

    connection.pragma_update(None, "user_version", 4).unwrap();
    assert!(matches!(Db::open(&newer), Err(DbError::Older { found: 4, .. })));

    let foreign = folder.path().join("notes.txt");
    std::fs::write(&foreign, "no database, but long enough to be taken for one".repeat(40)).unwrap();
    let Err(error) = Db::open(&foreign) else { panic!("opened a text file") };
    let line = error.to_string();
    assert!(line.contains("notes.txt") && !line.contains('\n'), "{line}");
}

/// Rows and series of an experiment of any kind come back as they went in.
#[test]
fn a_run_of_any_kind_is_parameters_rows_and_series() {
    let folder = tempfile::tempdir().unwrap();
    let mut db = Db::open(&folder.path().join("results.db")).unwrap();
    let run = db.begin(&info()).unwrap();
    let node = db.add_node(run, &NodeInfo { name: "client0".into(), role: Role::Client }).unwrap();
    let rows = [
        Row::of_node(node, "time", 1.25, "s"),
        Row::of_run("sent", 5e9, "B"),
        Row::of_node(node, "silence", f64::NAN, "s").lacking("1 of 100 packets did not come"),
    ];
    db.add_rows(run, &rows).unwrap();
    let points = [(0.0, 0.5), (0.25, 1.5), (2.0, -3.0)];
    db.add_series(node, "rate", "bit/s", &points).unwrap();
    assert_eq!(db.parameters(run).unwrap(), info().parameters);
    assert_eq!(db.points(node, "rate").unwrap(), points);
    assert_eq!(db.unit(node, "rate").unwrap().as_deref(), Some("bit/s"));
    assert_eq!(db.points(node, "other").unwrap(), []);
    let back = db.rows(run).unwrap();
    assert_eq!(back[..2], rows[..2]);
    assert_eq!((back[2].value, back[2].note.as_str()), (None, "1 of 100 packets did not come"));
}

/// A machine is the limit when its processors have nothing left while clients wait; before and after they may be busy.
#[test]
fn a_machine_is_saturated_only_while_clients_wait() {
    let folder = tempfile::tempdir().unwrap();
    let mut db = Db::open(&folder.path().join("results.db")).unwrap();
    let mut run = |busy_from: u64, busy_to: u64, dropped: i64| {
        let machine = Machine { cpus: 2, ..Machine::default() };
        let run = db.begin(&NewRun { machine, ..info() }).unwrap();
        let node = db.add_node(run, &NodeInfo { name: "machine".into(), role: Role::Machine }).unwrap();
        let idle = |second: u64| {
            (0..second).filter(|s| !(busy_from..busy_to).contains(s)).count() as i64 * 2_000_000_000
        };
        let add = |series: &str, second: u64, value| Sample {
            node,
            series: series.into(),
            at: Duration::from_secs(second),
            value,
        };
        let mut samples: Vec<Sample> = (0..20).map(|second| add(CPU_IDLE_NS, second, idle(second))).collect();
        samples.push(add(SOFTNET_DROPPED_PACKETS, 0, 0));
        samples.push(add(SOFTNET_DROPPED_PACKETS, 19, dropped));
        db.add_samples(&samples).unwrap();
        for (second, kind) in [(5, "started"), (6, "started"), (9, "finished"), (15, "finished")] {
            db.add_event(
                run,
                &Event {
                    at: Duration::from_secs(second),
                    node: None,
                    kind: kind.into(),
                    detail: String::new(),
                },
            )
            .unwrap();
        }
        saturation(&db, run).unwrap()
    };
    assert_eq!(run(0, 5, 0), None, "busy before anybody waited");
    assert_eq!(run(7, 8, 0), None, "for a tenth of the time");
    assert_eq!(run(7, 11, 0).unwrap(), "processors over 95 % busy in 4 of 10 samples");
    assert_eq!(run(0, 0, 3).unwrap(), "the kernel's backlog was full: 3 packets dropped");
}
