//! `treecast lab run`, from the file to the report. Needs root, sshd and scp.

mod child;

use std::{
    fs,
    io::{BufRead, BufReader, Lines},
    path::{Path, PathBuf},
    process::{ChildStdout, Command, ExitStatus, Stdio},
};

use child::{Guarded, SpawnGuarded};
use serde_json::Value;
use treecast_measure::{Db, db::Status};

const TREECAST: &str = env!("CARGO_BIN_EXE_treecast");

/// A folder with an experiment in it, removed at the end of the test.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str, experiment: &str) -> Self {
        let path = std::env::temp_dir().join(format!("treecast-{test}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        fs::write(path.join("test.toml"), experiment).unwrap();
        Self(path)
    }

    fn command(&self, settings: &[&str]) -> Command {
        let mut command = Command::new(TREECAST);
        command.args(["lab", "run", "--json", "--out"]).arg(self.out()).arg(self.0.join("test.toml"));
        for setting in settings {
            command.args(["--set", setting]);
        }
        command
    }

    fn out(&self) -> PathBuf {
        self.0.join("out")
    }

    fn statuses(&self) -> Vec<Status> {
        let db = Db::open(&self.out().join("results.sqlite")).unwrap();
        db.runs().unwrap().into_iter().map(|run| run.status).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.0);
    }
}

/// A `lab run` that goes on while the test looks at its events.
struct Running {
    child: Guarded,
    events: Lines<BufReader<ChildStdout>>,
}

impl Running {
    fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn_guarded();
        let events = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, events }
    }

    /// Reads on to the next event of this kind.
    fn next(&mut self, kind: &str) -> Value {
        for line in &mut self.events {
            let event: Value = serde_json::from_str(&line.unwrap()).unwrap();
            if event["event"] == kind {
                return event;
            }
        }
        panic!("it ended before `{kind}`: {:?}", self.child.wait());
    }

    fn signal(&self, signal: i32) {
        // SAFETY: only integers are passed; the child has not been waited for.
        unsafe { libc::kill(self.child.id() as i32, signal) };
    }

    fn wait(mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }

    /// The namespaces of its labs that are there.
    fn namespaces(pid: u32) -> Vec<String> {
        let names = fs::read_dir("/run/netns").into_iter().flatten().flatten();
        let names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.filter(|name| name.starts_with(&format!("x{pid}-"))).collect()
    }
}

const EVERY_WAY: &str = r#"
title = "every way, small"
deliveries = ["tcp", "udp", "scp", "carousel", "after", "nack"]
schedules = ["immediate", "random"]
settle = "0ms"
timeout = "60s"
sample = "100ms"

[workload]
kind = "files"
sizes = ["3M"]

[[network]]
name = "L3"
topology = "lan:clients=3,rate=100M"

[[plot]]
title = "How long a client waits"
kind = "boxes"
x = "schedule"
y = "time"
"#;

#[test]
fn every_delivery_brings_verified_copies_and_a_report() {
    let folder = Folder::new("every", EVERY_WAY);
    let mut running = Running::start(folder.command(&[]));
    let pid = running.child.id();
    assert_eq!(running.next("planned")["runs"], 12);
    let done = running.next("done");
    assert_eq!(done["failures"], Value::Array(vec![]));
    assert_eq!((&done["runs"], &done["whole_runs"]), (&12.into(), &12.into()));
    assert_eq!(running.wait().code(), Some(0));
    assert_eq!(Running::namespaces(pid), [""; 0]);
    assert_eq!(folder.statuses(), [Status::Complete; 12]);
    check_transfers(&folder);
    let report = fs::read_to_string(folder.out().join("report.html")).unwrap();
    assert!(report.contains("<svg") && report.contains("carousel"));
    assert!(!report.contains("src=\"http"), "the report must open offline");
}

/// 3 MB over 100 Mbit/s take at least 0.25 s; the server has sent them.
fn check_transfers(folder: &Folder) {
    let db = Db::open(&folder.out().join("results.sqlite")).unwrap();
    for run in db.runs().unwrap() {
        let rows = db.rows(run.id).unwrap();
        let of = |measure: &str| rows.iter().filter(|row| row.measure == measure).collect::<Vec<_>>();
        assert_eq!(of("time").len(), 3);
        for time in of("time") {
            let seconds = time.value.unwrap();
            assert!((0.2..60.0).contains(&seconds), "{}: {seconds}", run.parameters["delivery"]);
        }
        assert!(of("missing").iter().all(|row| row.value == Some(0.0)));
        assert!(of("sender_bytes")[0].value.unwrap() > 3e6, "{}", run.parameters["delivery"]);
        assert!(of("network_bytes")[0].value >= of("sender_bytes")[0].value);
        assert_eq!(db.parameters(run.id).unwrap()["size"], (3 << 20).to_string());
    }
}

#[test]
fn multicast_crosses_routers_and_loss() {
    let folder = Folder::new(
        "tree",
        r#"
        title = "routers and loss"
        deliveries = ["nack", "after", "carousel"]
        settle = "0ms"
        timeout = "100s"

        [workload]
        kind = "files"
        sizes = ["2M"]

        [[network]]
        name = "R2L2"
        topology = "tree:levels=2,clients=2,rate=100M"
        loss = [{ rate = "5%", every = 2 }]

        [[claim]]
        says = "as long as the link takes, and ten times that"
        holds = 'max(time{delivery = "nack"} * link_rate / (8 * size)) >= 1'
        "#,
    );
    let mut running = Running::start(folder.command(&[]));
    let done = running.next("done");
    assert_eq!(done["failures"], Value::Array(vec![]));
    assert_eq!(done["findings"][0]["verdict"], "holds", "{done}");
    assert_eq!(running.wait().code(), Some(0));
}

/// A minute's worth of bytes.
const LONG: [&str; 4] = [
    "sizes=8M",
    "deliveries=tcp",
    "network=[{name=\"slow\",topology=\"lan:clients=2,rate=1M\"}]",
    "timeout=5m",
];

#[test]
fn a_run_that_is_interrupted_is_marked_and_taken_down() {
    let folder = Folder::new("interrupted", EVERY_WAY);
    let mut running = Running::start(folder.command(&LONG));
    let pid = running.child.id();
    running.next("started");
    assert!(!Running::namespaces(pid).is_empty());
    running.signal(libc::SIGINT);
    assert_eq!(running.next("finished")["cut_short"], true);
    assert_eq!(running.next("done")["interrupted"], true);
    assert_eq!(running.wait().code(), Some(3));
    assert_eq!(Running::namespaces(pid), [""; 0]);
    assert_eq!(folder.statuses(), [Status::CutShort]);
}

#[test]
fn a_run_that_is_killed_is_marked_and_its_processes_are_gone() {
    let folder = Folder::new("killed", EVERY_WAY);
    let mut running = Running::start(folder.command(&LONG));
    let pid = running.child.id();
    running.next("started");
    running.signal(libc::SIGKILL);
    assert_eq!(running.wait().code(), None);
    assert_eq!(folder.statuses(), [Status::CutShort]);
    let down = Command::new(TREECAST).args(["lab", "down", &format!("x{pid}-slow")]).status().unwrap();
    assert!(down.success());
    assert_eq!(Running::namespaces(pid), [""; 0]);
}

#[test]
fn mistakes_are_one_line_and_exit_code_1() {
    let folder = Folder::new("mistakes", EVERY_WAY);
    let cases: [(&[&str], &str); 5] = [
        (&["colour=red"], "treecast: --set colour=red: unknown field `colour`"),
        (&["sizes=4"], "treecast: --set sizes=4: size `4` has no unit: write 4M, 4K or 4B"),
        (&["file=/no/such/file"], "treecast: cannot send /no/such/file: No such file or directory"),
        (&["sizes=1024G"], "treecast: L3: 3 copies of 1024G do not fit"),
        (&["network=[{name=\"x\",topology=\"lan:clients=0\"}]"], "treecast: network x: "),
    ];
    for (settings, expected) in cases {
        let output = folder.command(settings).output().unwrap();
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(errors.starts_with(expected), "{errors}");
        assert_eq!((errors.lines().count(), output.status.code()), (1, Some(1)), "{errors}");
        assert!(!folder.out().exists());
    }
    let report = Command::new(TREECAST).args(["lab", "report"]).arg(Path::new("/no/such")).output().unwrap();
    assert_eq!(report.status.code(), Some(1));
}

const SHARED: &str = r#"
title = "a shared link, small"
deliveries = ["nack", "tcp"]
rate = "auto"
settle = "0ms"
timeout = "60s"
sample = "100ms"

[workload]
kind = "shared"
sizes = ["10M"]
lasts = "4s"
queue = "100000B"
congestion = "reno"

[[network]]
name = "rivals"
topology = "shared:clients=2,rivals=2,rate=20M,delay=5ms"
deliveries = ["nack"]
rival = { kind = "session" }

[[network]]
name = "slower"
topology = "shared:clients=1,rivals=1,rate=20M,delay=5ms"
deliveries = ["tcp"]
rival = { kind = "tcp", after = "100ms" }
changes = [{ after = "2s", rate = "2M" }]

[[claim]]
says = "nobody is left out"
holds = 'min(share{network = "rivals"}) >= 0.001'

[[claim]]
says = "the link is never more than full"
holds = '0.3 <= max(used{network = "slower"}) <= 1.05'

[[claim]]
says = "this does not hold"
holds = 'max(lost{network = "slower"}) >= 0.99'

[[plot]]
title = "What the first flow takes"
kind = "time"
y = "flow"
each = ["network"]
"#;

#[test]
fn flows_share_a_link_until_the_time_is_over() {
    let folder = Folder::new("shared", SHARED);
    let mut running = Running::start(folder.command(&[]));
    let pid = running.child.id();
    assert_eq!(running.next("planned")["runs"], 2);
    let sessions = running.next("finished")["measures"].clone();
    assert!(sessions["flow_rate"].is_f64() && sessions["rival_rate"].is_f64(), "{sessions}");
    assert!(sessions["calm"].is_null() && sessions["share"].is_f64(), "{sessions}");
    let slower = running.next("finished")["measures"].clone();
    // 20 Mbit/s for one half and 2 Mbit/s for the other.
    let sum = slower["flow_rate"].as_f64().unwrap() + slower["rival_rate"].as_f64().unwrap();
    assert!(sum > 3e6 && sum < 12e6 && slower["lost_after"].is_null(), "{slower}");
    let done = running.next("done");
    assert_eq!(done["failures"], Value::Array(vec![]));
    let holds: Vec<_> = done["findings"].as_array().unwrap().iter().map(|of| of["verdict"].clone()).collect();
    assert_eq!(holds, ["holds", "holds", "fails"]);
    assert_eq!(running.wait().code(), Some(3), "a claim does not hold");
    assert_eq!(Running::namespaces(pid), [""; 0]);
    assert_eq!(folder.statuses(), [Status::Complete; 2]);
    let report = fs::read_to_string(folder.out().join("report.html")).unwrap();
    assert!(report.contains("What the first flow takes"));
}

#[test]
fn a_congestion_control_that_the_kernel_lacks_is_refused() {
    let folder = Folder::new("lacking", SHARED);
    let output = folder.command(&["congestion=nobodys"]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("this kernel has no TCP congestion control `nobodys`"), "{said}");
    assert_eq!((output.status.code(), said.lines().count()), (Some(1), 1));
}
