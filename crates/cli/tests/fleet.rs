//! `treecast manager`, `agent` and `fleet`: real programs, on loopback and in a lab. The crate's own tests have more of both sides.

use std::{fs, path::Path, process::Command};

use serde_json::Value;

use crate::{
    child::{Guarded, SpawnGuarded},
    session::{Scratch, assert_says, finish_well, start, wait_until},
    site::Site,
};

/// The words by which all commands of a test find its manager.
pub const MANAGER: &str = "--manager-state m";

/// A manager, and what it has printed.
pub fn manager(scratch: &Scratch, mut command: Command) -> (Guarded, String) {
    let output = fs::File::create(scratch.path("manager")).unwrap();
    let manager = command.stdout(output).spawn_guarded();
    wait_until("the manager is ready", || scratch.has_told("manager", "ready"));
    let ready: Value = serde_json::from_str(scratch.told("manager").lines().next().unwrap()).unwrap();
    let code = ready["code"].as_str().unwrap().to_owned();
    (manager, code)
}

fn local_manager(scratch: &Scratch) -> (Guarded, String) {
    let words = "manager --json --state m --listen 127.0.0.1:7443 --console 127.0.0.1:7444";
    manager(scratch, scratch.command(words))
}

/// Starts an agent, and waits until it is connected.
pub fn agent(scratch: &Scratch, mut command: Command, name: &str) -> Guarded {
    let output = fs::File::create(scratch.path(&format!("{name}.out"))).unwrap();
    let agent = command.stdout(output).spawn_guarded();
    wait_until("the agent is connected", || scratch.has_told(&format!("{name}.out"), "connected"));
    agent
}

fn local_agent(scratch: &Scratch, name: &str, more: &str) -> Guarded {
    agent(scratch, scratch.command(format!("agent --json --name {name} --state {name} {more}")), name)
}

#[test]
fn the_api_is_described_without_a_manager() {
    let scratch = Scratch::new();
    let document: Value = serde_json::from_str(&scratch.run("fleet api")).unwrap();
    assert_eq!(document["openapi"], "3.1.0");
    assert_eq!(document["paths"]["/api/asks"]["post"]["x-role"], "operator");
}

#[test]
fn hosts_answer_side_by_side_and_refuse_what_they_do_not_permit() {
    let scratch = Scratch::new();
    let (_manager, code) = local_manager(&scratch);
    fs::write(scratch.path("open.toml"), "[may]\nrun_commands = true\n[tags]\nsite = \"kiel\"\n").unwrap();
    let _agents = [
        local_agent(&scratch, "open", &format!("--join {code} --config open.toml")),
        local_agent(&scratch, "closed", &format!("--join {code}")),
    ];
    let hosts = scratch.run(format!("fleet {MANAGER} hosts"));
    assert_says(&hosts, &["open", "site=kiel", "2 hosts, 2 here"]);
    let said = scratch.run([
        "fleet",
        "--manager-state",
        "m",
        "ask",
        "site=kiel",
        "--",
        "sh",
        "-c",
        "echo one; echo two >&2",
    ]);
    assert_says(&said, &["open: one", "open: two", "1 host asked, 0 without success"]);
    let mut refused = scratch.command(["fleet", "--manager-state", "m", "ask", "all", "--", "id"]);
    let output = refused.output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    let said = String::from_utf8(output.stdout).unwrap();
    assert_says(
        &said,
        &["open: uid=", "closed: not done: this host does not permit it: set `run_commands = true`"],
    );
    // Treecast's own commands are measurements, but not with every option.
    let exec =
        ["fleet", "--manager-state", "m", "ask", "closed", "--", "treecast", "receive", "--exec", "id"];
    let output = scratch.command(exec).output().unwrap();
    assert_says(&String::from_utf8(output.stdout).unwrap(), &["--exec` is not permitted"]);
    let batch = "# two steps\nopen -- echo first\n\nopen -- sh -c 'exit 4'\nopen -- echo never\n";
    fs::write(scratch.path("steps"), batch).unwrap();
    let output = scratch.command(format!("fleet {MANAGER} batch steps")).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert_says(&said, &["open: first", "open: exit code 4"]);
    assert!(output.status.code() == Some(3) && !said.contains("never"), "{said}");
    fs::write(scratch.path("steps"), "open -- echo first\nopen -- echo 'open\n").unwrap();
    scratch.refuses(format!("fleet {MANAGER} batch steps"), &["steps:2: a quote is not closed"]);
    scratch.refuses(format!("fleet {MANAGER} ask nobody"), &["no host is selected by `nobody`"]);
    scratch
        .refuses(format!("fleet {MANAGER} hosts site="), &["the selection ends where a value is expected"]);
    scratch.refuses("fleet --manager-state elsewhere hosts", &["no manager is known here"]);
    scratch.refuses("agent --state new", &["this host has joined no fleet"]);
    scratch.refuses("agent --state new --join fleet1.abc", &["the code is cut short or mistyped"]);
}

#[test]
fn a_program_outlives_its_agent_and_its_manager_and_is_reported_whole() {
    let scratch = Scratch::new();
    let (manager, code) = local_manager(&scratch);
    fs::write(scratch.path("open.toml"), "[may]\nrun_commands = true\n").unwrap();
    let agent = local_agent(&scratch, "a", &format!("--join {code} --config open.toml"));
    // It waits for files that the test makes, so that each step happens while it runs.
    let script = format!(
        "echo one; touch began; while [ ! -e {0} ]; do sleep 0.05; done; echo two; exit 7",
        scratch.arg("go")
    );
    let ask = ["fleet", "--json", "--manager-state", "m", "ask", "a", "--", "sh", "-c", &script];
    let mut asking = scratch.command(ask);
    let asking = asking.stdout(fs::File::create(scratch.path("answer")).unwrap()).spawn_guarded();
    wait_until("the program runs", || scratch.path("a/work/began").exists());
    // Both ends are killed, and so is the command that asks.
    drop((asking, agent, manager));
    fs::write(scratch.path("go"), "").unwrap();
    let (_manager, _) = local_manager(&scratch);
    let _agent = local_agent(&scratch, "a", "--config open.toml");
    let access: Value = serde_json::from_str(&scratch.told("m/access.json")).unwrap();
    let url = format!("http://{}/api/asks/1", access["api"].as_str().unwrap());
    let answer = || -> Value {
        let mut curl = Command::new("curl");
        let token = format!("Authorization: Bearer {}", access["token"].as_str().unwrap());
        let output = curl.args(["-s", "-H", &token, &url]).output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap_or_default()
    };
    wait_until("the answer is whole", || answer()[0]["is_over"] == true);
    let whole = answer()[0].clone();
    assert_eq!(
        (&whole["lines"], &whole["end"]["code"]),
        (&serde_json::json!(["one", "two"]), &serde_json::json!(7))
    );
}

#[test]
fn an_agent_leaves_one_fleet_before_it_joins_another() {
    let scratch = Scratch::new();
    let (_manager, code) = local_manager(&scratch);
    drop(local_agent(&scratch, "a", &format!("--join {code}")));
    let other = Scratch::new();
    let words = "manager --json --state m --listen 127.0.0.1:7445 --console 127.0.0.1:7446";
    let (_other, foreign) = manager(&other, other.command(words));
    let join = format!("agent --state a --join {foreign}");
    scratch.refuses(&join, &["this host has joined the fleet of another manager", "treecast agent --leave"]);
    scratch.run("agent --state a --leave");
    let _agent = local_agent(&scratch, "a", &format!("--join {foreign}"));
    scratch.refuses("manager --state m --listen 127.0.0.1:7447", &["another manager runs in m"]);
}

const EXPERIMENT: &str = r#"
title = "over a fleet"
rate = "20M"
settle = "0ms"
timeout = "60s"
sample = "100ms"
workload = { kind = "files", sizes = ["1M"] }
network = [{ name = "N", topology = "lan:clients=3" }]
delivery = [{ repair = "nack" }, { fanout = "unicast" }, { repair = "carousel" }, { program = "tcp" }]
"#;

/// A lab with a manager at the sender's node, and an agent at every node.
struct Fleet {
    site: Site,
    programs: Vec<Guarded>,
}

impl Fleet {
    fn new() -> Self {
        let site = Site::up("lan:clients=3");
        fs::write(site.scratch.path("test.toml"), EXPERIMENT).unwrap();
        let listen = format!("[{}]:7443", site.address("server0"));
        let words = format!("manager --json --state m --listen {listen}");
        let (manager, code) = manager(&site.scratch, site.command("server0", words));
        let mut programs = vec![manager];
        for node in ["server0", "client0", "client1", "client2"] {
            let words = format!("agent --json --name {node} --state {node} --join {code}");
            programs.push(agent(&site.scratch, site.command(node, words), node));
        }
        Self { site, programs }
    }

    fn run(&self, more: &str) -> Command {
        let words = format!("lab run --json --out out test.toml --site fleet:all {MANAGER} {more}");
        self.site.command("server0", words)
    }
}

#[test]
fn an_experiment_runs_over_a_fleet_as_it_does_in_a_lab() {
    let fleet = Fleet::new();
    let said = finish_well(start(&mut fleet.run("")));
    let done: Value = serde_json::from_str(said.lines().last().unwrap()).unwrap();
    assert_eq!(
        (&done["runs"], &done["whole_runs"]),
        (&serde_json::json!(4), &serde_json::json!(4)),
        "{said}"
    );
    let db = treecast_measure::Db::open(&fleet.site.scratch.path("out/results.sqlite")).unwrap();
    for run in db.runs().unwrap() {
        assert_eq!(run.parameters["site"], "fleet");
        let rows = db.rows(run.id).unwrap();
        let of_run = |measure: &str| {
            rows.iter().find(|row| row.node.is_none() && row.measure == measure).unwrap().value
        };
        // Each copy is a megabyte. By unicast it leaves the sender three times.
        let least =
            if run.parameters.values().any(|value| value == "unicast" || value == "tcp") { 3e6 } else { 1e6 };
        assert!(
            of_run("sender_bytes").unwrap() > least,
            "{:?}: {:?}",
            run.parameters,
            of_run("sender_bytes")
        );
    }
    let runs = finish_well(start(&mut fleet.site.command("server0", format!("fleet {MANAGER} runs"))));
    assert_says(&runs, &["test", "done", "4 of 4 runs are whole"]);
    let planned = finish_well(start(&mut fleet.run("--plan")));
    assert_says(&planned, &["\"runs\""]);
}

/// Experiments of the other workloads. What they have in common is in [`EXPERIMENT`].
const OTHERS: [(&str, &str, &[&str], &str); 4] = [
    (
        "rates = [\"1M\"], seconds = 1, payload = 1000",
        "stream",
        &["fanout = \"unicast\"", "fanout = \"multicast\"", "fanout = \"mead\""],
        "lost",
    ),
    ("rates = [\"500k\"], seconds = 1, payload = 1000", "conference", &["fanout = \"unicast\""], "lost"),
    (
        "objects = 9, loads = [0.05], factors = [10], priorities = [\"fair\"]",
        "feed",
        &["repair = \"nack\""],
        "missing",
    ),
    ("group = \"ff15::4242\", rates = [100], lasts = \"1s\"", "load", &["fanout = \"multicast\""], "lost"),
];

#[test]
fn each_workload_of_programs_runs_over_a_fleet() {
    let fleet = Fleet::new();
    for (keys, kind, deliveries, lost) in OTHERS {
        let deliveries: String = deliveries.iter().map(|delivery| format!("{{ {delivery} }},")).collect();
        let text =
            EXPERIMENT.lines().filter(|line| !line.starts_with("workload") && !line.starts_with("delivery"));
        let text: String = text.map(|line| format!("{line}\n")).collect();
        let own = format!("workload = {{ kind = \"{kind}\", {keys} }}\ndelivery = [{deliveries}]\n");
        let text = text.replace("rate = \"20M\"\n", "").replace("clients=3", "clients=3,rate=20M") + &own;
        fs::write(fleet.site.scratch.path("test.toml"), text).unwrap();
        let said = finish_well(start(&mut fleet.run("")));
        let db = treecast_measure::Db::open(&fleet.site.scratch.path("out/results.sqlite")).unwrap();
        for run in db.runs().unwrap() {
            let rows = db.rows(run.id).unwrap();
            let of = |measure: &str| rows.iter().filter(|row| row.measure == measure).collect::<Vec<_>>();
            assert!(!of(lost).is_empty(), "{kind}: {said}");
            assert!(of(lost).iter().all(|row| row.value == Some(0.0)), "{kind}: {said}");
            assert!(of("sender_bytes").iter().all(|row| row.value > Some(10_000.0)), "{kind}: {said}");
        }
        fs::remove_dir_all(fleet.site.scratch.path("out")).unwrap();
    }
}

#[test]
fn a_host_that_vanishes_fails_and_the_others_count() {
    let mut fleet = Fleet::new();
    // The slowest that the link bears is fast; this takes some seconds.
    let mut command = fleet.run("--set deliveries=nack --set rate=1M --set timeout=40s");
    let output = fs::File::create(fleet.site.scratch.path("run")).unwrap();
    let mut run = command.stdout(output).spawn_guarded();
    wait_until("the run has begun", || fleet.site.scratch.has_told("run", "started"));
    let copy = fleet.site.scratch.path("client2/work/run1-copy");
    let has_bytes = |file: fs::DirEntry| file.metadata().is_ok_and(|of| of.is_file() && of.len() > 100_000);
    wait_until("bytes have come", || fs::read_dir(&copy).into_iter().flatten().flatten().any(has_bytes));
    // The agent and its keepers: all of its host.
    kill_all(&mut fleet);
    wait_until("the run has ended", || run.try_wait().unwrap().is_some());
    let told = fleet.site.scratch.told("run");
    let done: Value = serde_json::from_str(told.lines().last().unwrap()).unwrap();
    let failures: Vec<&str> =
        done["failures"].as_array().unwrap().iter().filter_map(|one| one["node"].as_str()).collect();
    assert_eq!(failures, ["client2"], "{told}");
}

/// Kills all programs at the node `client2`, as a power cut would.
fn kill_all(fleet: &mut Fleet) {
    let name = fleet.site.lab().node("client2").unwrap().namespace.clone();
    drop(fleet.programs.pop());
    let pids = Command::new("ip").args(["netns", "pids", &name]).output().unwrap();
    for pid in String::from_utf8(pids.stdout).unwrap().split_whitespace() {
        // One that has ended meanwhile is dead, too.
        _ = treecast_host::process::kill(pid.parse().unwrap(), 9);
    }
    assert!(Path::new("/run/netns").join(name).exists());
}

/// A lab with a manager at the sender's node and agents that take releases of one key at the receivers'.
pub struct Ring {
    pub site: Site,
    _programs: Vec<Guarded>,
}

impl Ring {
    /// `client1` has a command that fails. Of the agents, that of `client2` is not started.
    fn new() -> (Self, String) {
        Self::on("lan:clients=3")
    }

    /// Such a lab on a network with three receivers.
    pub fn on(topology: &str) -> (Self, String) {
        let site = Site::up(topology);
        let scratch = &site.scratch;
        let key = finish_well(start(
            scratch.command("keys new release").env("XDG_CONFIG_HOME", scratch.path("config")),
        ));
        let key = key.split_whitespace().find(|word| word.starts_with("tck1.")).expect("a key").to_owned();
        let listen = format!("[{}]:7443", site.address("server0"));
        let (manager, code) =
            manager(scratch, site.command("server0", format!("manager --json --state m --listen {listen}")));
        for node in ["client0", "client1", "client2"] {
            // The activation leaves a mark, so that one that was made twice would show.
            let mark = scratch.arg(&format!("{node}.log"));
            let fails = if node == "client1" { "; test -e repaired" } else { "" };
            let fails = fails.replace("repaired", &scratch.arg("repaired"));
            let activate = format!("[\"sh\", \"-c\", \"echo {{version}} >> {mark}{fails}\"]");
            let text = format!("[roll_out]\nkeys = [\"{key}\"]\nactivate = {activate}\n");
            fs::write(scratch.path(&format!("{node}.toml")), text).unwrap();
        }
        let mut ring = Self { site, _programs: vec![manager] };
        for node in ["client0", "client1"] {
            ring.start(node, &format!("--join {code}"));
        }
        // It joins, and is away.
        ring.start("client2", &format!("--join {code}"));
        ring.end_last("client2");
        (ring, code)
    }

    /// Ends the agent that was started last, and waits until it is away.
    pub fn end_last(&mut self, node: &str) {
        drop(self._programs.pop());
        let name = format!("hosts {node}");
        wait_until("it is away", || self.fleet(&name).contains("away"));
    }

    pub fn start(&mut self, node: &str, more: &str) {
        let words = format!("agent --json --name {node} --state {node} --config {node}.toml {more}");
        self._programs.push(agent(&self.site.scratch, self.site.command(node, words), node));
    }

    pub fn fleet(&self, words: &str) -> String {
        let mut command = self.site.command("server0", format!("fleet {MANAGER} {words}"));
        finish_well(start(command.env("XDG_CONFIG_HOME", self.site.scratch.path("config"))))
    }

    pub fn rollout(&self, id: u32) -> Value {
        serde_json::from_str(&self.fleet(&format!("--json rollout show {id}"))).unwrap()
    }

    pub fn states(&self, id: u32) -> Vec<(String, String)> {
        let rollout = self.rollout(id);
        let hosts = rollout["hosts"].as_array().unwrap().iter();
        hosts
            .map(|of| (of["host"].as_str().unwrap().to_owned(), of["state"].as_str().unwrap().to_owned()))
            .collect()
    }

    pub fn wait_for(&self, id: u32, state: &str) {
        wait_until(&format!("the rollout is {state}"), || self.rollout(id)["state"] == state);
    }

    pub fn add(&self, version: &str) -> String {
        let folder = self.site.scratch.path("source");
        fs::create_dir_all(folder.join("etc")).unwrap();
        fs::write(folder.join("program"), vec![version.as_bytes()[0]; 2_000_000]).unwrap();
        fs::write(folder.join("etc/version"), version).unwrap();
        self.fleet(&format!("release add app {version} source --key release"))
    }
}

#[test]
fn a_release_goes_to_rings_stops_at_failures_goes_on_and_goes_back() {
    let (mut ring, _) = Ring::new();
    assert_says(&ring.add("1.0"), &["release 1: app 1.0, signed by tck1."]);
    ring.fleet("rollout start 1 --ring client0 --ring client*");
    ring.wait_for(1, "stopped");
    let states = |of: [&str; 3]| -> Vec<(String, String)> {
        ["client0", "client1", "client2"]
            .iter()
            .zip(of)
            .map(|(host, state)| ((*host).into(), state.into()))
            .collect()
    };
    assert_eq!(ring.states(1), states(["done", "failed", "away"]));
    let shown = ring.fleet("rollout show 1");
    assert_says(&shown, &["1 failed, and at most 0 may", "client1", "sh failed"]);
    // The host is repaired, and tried again; the third comes.
    fs::write(ring.site.scratch.path("repaired"), "").unwrap();
    ring.start("client2", "");
    ring.fleet("rollout change 1 retry");
    ring.wait_for(1, "done");
    assert_eq!(ring.states(1), states(["done", "done", "done"]));
    let sent = ring.rollout(1)["sent"].as_array().unwrap().clone();
    // rollouts.rs tells how many bytes a ring may cost.
    assert!(sent.iter().all(|one| one["sent_bytes"].as_u64() > Some(2_000_000)), "{sent:?}");
    assert_says(
        &ring.fleet("verify 1"),
        &["client0: has all of it", "client1: has all of it", "client2: has all of it"],
    );
    ring.add("2.0");
    ring.fleet("rollout start 2 --ring client*");
    ring.wait_for(2, "done");
    assert_says(&ring.fleet("hosts release.app=2.0"), &["3 hosts"]);
    ring.fleet("rollout change 2 back");
    wait_until("all have gone back", || ring.fleet("hosts release.app=1.0").contains("3 hosts"));
    // Each activation happened once, but for the one that failed.
    for (node, log) in
        [("client0", "1.0\n2.0\n1.0\n"), ("client1", "1.0\n1.0\n2.0\n1.0\n"), ("client2", "1.0\n2.0\n1.0\n")]
    {
        assert_eq!(ring.site.scratch.told(&format!("{node}.log")), log, "{node}");
    }
    let version = ring.site.scratch.path("client0/releases/app/1.0/etc/version");
    assert_eq!(fs::read_to_string(version).unwrap(), "1.0");
}
