//! Rollouts to many real agents in a lab: rings, limits, hosts that are away, full disks, and releases that are withdrawn.

use std::{fs, path::Path, process::Stdio};

use serde_json::Value;
use treecast_host::clock::{self, WallTime};

use crate::{
    child::{Guarded, SpawnGuarded},
    fleet::{MANAGER, Ring, manager},
    full_disk::Disk,
    session::{assert_says, finish_well, start, wait_until},
    site::Site,
};

const HOSTS: usize = 60;
/// Hosts that are away when the rollout comes to their ring.
const AWAY: [usize; 3] = [5, 25, 45];
/// A host whose disk has too few bytes for the release, and one whose disk has too few inodes. That shows only while files come.
const NO_BYTES: usize = 8;
const NO_INODES: usize = 20;
/// A host whose activation fails until it is repaired.
const BROKEN: usize = 3;
/// The size of the release's large file, in bytes. It has [`SMALL`] small ones, too.
/// It is so large that the start of a session hardly counts: until multicast has proved to reach a host, `--fanout auto` serves it by
/// unicast.
const LARGE: usize = 24_000_000;
const SMALL: usize = 60;

/// 60 agents in a lab, and their manager at the sender's node.
struct Rings {
    programs: Vec<Guarded>,
    manager: Guarded,
    disks: Vec<Disk>,
    site: Site,
}

impl Rings {
    fn new() -> Self {
        let site = Site::up(&format!("lan:clients={HOSTS},rate=30M"));
        let scratch = &site.scratch;
        let mut make = scratch.command("keys new release");
        let key = finish_well(start(make.env("XDG_CONFIG_HOME", scratch.path("config"))));
        let key = key.split_whitespace().find(|word| word.starts_with("tck1.")).expect("a key").to_owned();
        for host in 0..HOSTS {
            let ring = match host {
                0 => 1,
                1..=10 => 2,
                11..=30 => 3,
                _ => 4,
            };
            let repaired = scratch.arg("repaired");
            let activate = match host {
                BROKEN => format!("[\"sh\", \"-c\", \"test {{version}} = 1.0 || test -e {repaired}\"]"),
                _ => "[\"true\"]".to_owned(),
            };
            let text =
                format!("[roll_out]\nkeys = [\"{key}\"]\nactivate = {activate}\n[tags]\nring = \"{ring}\"\n");
            fs::write(scratch.path(&format!("client{host}.toml")), text).unwrap();
        }
        let disks = vec![
            Disk::new(scratch, &format!("client{NO_BYTES}"), "4M"),
            Disk::new(scratch, &format!("client{NO_INODES}"), "64M,nr_inodes=50"),
        ];
        let listen = format!("[{}]:7443", site.address("server0"));
        let words = format!("manager --json --state m --listen {listen}");
        let (manager, _) = manager(scratch, site.command("server0", words));
        let mut rings = Self { programs: Vec::new(), manager, disks, site };
        let code: Value = serde_json::from_str(&rings.fleet("--json code --uses 60")).unwrap();
        for host in 0..HOSTS {
            rings.start(host, &format!("--join {}", code["code"].as_str().unwrap()));
        }
        wait_until("all hosts are here", || rings.fleet("hosts").contains("60 hosts, 60 here"));
        rings
    }

    fn start(&mut self, host: usize, more: &str) {
        let name = format!("client{host}");
        let words = format!("agent --json --name {name} --state {name} --config {name}.toml {more}");
        let mut command = self.site.command(&name, words);
        self.programs.push(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn_guarded());
    }

    fn fleet(&self, words: &str) -> String {
        let mut command = self.site.command("server0", format!("fleet {MANAGER} {words}"));
        finish_well(start(command.env("XDG_CONFIG_HOME", self.site.scratch.path("config"))))
    }

    fn rollout(&self, id: u32) -> Value {
        serde_json::from_str(&self.fleet(&format!("--json rollout show {id}"))).unwrap()
    }

    fn wait_for(&self, id: u32, state: &str) {
        wait_until(&format!("rollout {id} is {state}"), || self.rollout(id)["state"] == state);
    }

    /// The number of hosts of a rollout that are in a state.
    fn count(&self, id: u32, state: &str) -> usize {
        self.rollout(id)["hosts"].as_array().unwrap().iter().filter(|host| host["state"] == state).count()
    }

    /// The bytes that have left the interface of the sender's host, whatever they were for.
    fn left_bytes(&self) -> u64 {
        let read = || fs::read_to_string("/proc/thread-self/net/dev").unwrap();
        let table = self.site.lab().enter("server0", read).unwrap();
        let links =
            table.lines().filter_map(|line| line.split_once(':')).filter(|(name, _)| name.trim() != "lo");
        links.map(|(_, counts)| counts.split_whitespace().nth(8).unwrap().parse::<u64>().unwrap()).sum()
    }

    fn add(&self, version: &str, large: usize, small: usize) -> u64 {
        let folder = self.site.scratch.path("source");
        _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("etc")).unwrap();
        fs::write(folder.join("program"), vec![version.as_bytes()[0]; large]).unwrap();
        (0..small).for_each(|number| fs::write(folder.join(format!("etc/{number}")), version).unwrap());
        self.fleet(&format!("release add app {version} source --key release"));
        (large + small * version.len()) as u64
    }
}

/// Show 4 of the issue on the fleet.
#[test]
#[ignore = "60 agents take minutes: `make test-all` runs them"]
fn a_release_goes_to_sixty_hosts_in_four_rings_whatever_some_of_them_lack() {
    let mut rings = Rings::new();
    rings.add("1.0", 1000, 0);
    rings.fleet("rollout start 1 --ring all");
    rings.wait_for(1, "done");
    assert_eq!(rings.count(1, "done"), HOSTS);
    AWAY.iter().for_each(|host| rings.programs[*host].end());
    wait_until("three are away", || rings.fleet("hosts state=away").contains("3 hosts, 0 here"));
    let release_bytes = rings.add("2.0", LARGE, SMALL);
    let before = rings.left_bytes();
    rings.fleet("rollout start 2 --ring ring=1 --ring ring=2 --ring ring=3 --ring ring=4 --errors 1");
    // Ring 2: a full disk and a failed activation are one failure too many.
    rings.wait_for(2, "stopped");
    let shown = rings.fleet("rollout show 2");
    assert_says(&shown, &["2 failed, and at most 1 may", "client8", "the disk has", "client3", "sh failed"]);
    assert_eq!(
        (rings.count(2, "done"), rings.count(2, "away"), rings.count(2, "failed")),
        (8, 1, 2),
        "{shown}"
    );
    // One is repaired. Ring 3 has the other full disk.
    fs::write(rings.site.scratch.path("repaired"), "").unwrap();
    rings.fleet("rollout change 2 retry");
    wait_until("ring 3 has failures", || rings.fleet("rollout show 2").contains("client20  3     failed"));
    rings.wait_for(2, "stopped");
    let shown = rings.fleet("rollout show 2");
    assert_says(&shown, &["2 failed, and at most 1 may", "not all of it came: etc/"]);
    assert_eq!((rings.count(2, "done"), rings.count(2, "away")), (27, 2), "{shown}");
    // Somebody lets it go on in spite of them.
    rings.fleet("rollout change 2 go");
    let done = HOSTS - AWAY.len() - 2;
    wait_until("all have it that can", || rings.count(2, "done") == done);
    assert_eq!(rings.rollout(2)["state"], "running", "it waits for those that are away");
    AWAY.iter().for_each(|host| rings.start(*host, ""));
    rings.wait_for(2, "done");
    rings.disks[0].grow("64M");
    rings.disks[1].grow("64M,nr_inodes=1000");
    rings.fleet("rollout change 2 retry");
    rings.wait_for(2, "done");
    let shown = rings.fleet("rollout show 2");
    assert_eq!(rings.count(2, "done"), HOSTS, "{shown}");
    assert_bytes(&rings, release_bytes, rings.left_bytes() - before);
    rings.fleet("rollout change 2 back");
    wait_until("all have gone back", || rings.fleet("hosts release.app=1.0").contains("60 hosts"));
    let program = rings.site.scratch.path("client59/releases/app/1.0/program");
    assert_eq!(fs::metadata(program).unwrap().len(), 1000);
    drop(rings.manager);
}

/// Each session of a ring has sent at most 1.3 times the release. What the rollout says is its senders' own count, with packets that the
/// link's queue drops. The interface's count is without those, and has the orders to agents and acknowledgements of their answers, too.
#[track_caller]
fn assert_bytes(rings: &Rings, release_bytes: u64, left_bytes: u64) {
    let rollout = rings.rollout(2);
    let sent = rollout["sent"].as_array().unwrap();
    let most = release_bytes as f64 * 1.3;
    let counts: Vec<f64> = sent.iter().map(|one| one["sent_bytes"].as_f64().unwrap()).collect();
    assert!(counts.iter().all(|count| *count <= most), "{left_bytes} left for {sent:?}");
    for ring in 1..=4 {
        assert!(sent.iter().any(|one| one["ring"] == ring), "ring {ring}: {sent:?}");
    }
    let (left, sessions) = (left_bytes as f64, counts.len() as f64);
    assert!(left >= release_bytes as f64 * sessions && left <= most * sessions, "{left} left for {sent:?}");
}

#[test]
fn a_release_that_is_withdrawn_while_a_ring_gets_it_is_activated_nowhere() {
    let (ring, _) = Ring::on("lan:clients=3,rate=4M");
    ring.add("1.0");
    ring.fleet("rollout start 1 --ring client0 --ring client*");
    let came = |file: &Path| fs::metadata(file).is_ok_and(|of| of.len() > 0);
    let staged = ring.site.scratch.path("client0/work/release-app-1.0");
    wait_until("some of it has come", || {
        fs::read_dir(&staged).into_iter().flatten().flatten().any(|entry| came(&entry.path()))
    });
    ring.fleet("release withdraw 1");
    ring.wait_for(1, "stopped");
    assert_says(
        &ring.fleet("rollout show 1"),
        &["is stopped: the release was withdrawn", "client0  1     waiting"],
    );
    assert!(!ring.site.scratch.path("client0.log").exists(), "nothing was activated");
    assert!(ring.fleet("hosts release.app=1.0").contains("0 hosts"));
    ring.fleet("rollout change 1 go");
    ring.wait_for(1, "stopped");
    // What it has left behind is in nobody's way.
    ring.add("1.1");
    ring.fleet("rollout start 2 --ring client0");
    ring.wait_for(2, "done");
    assert_eq!(ring.site.scratch.told("client0.log"), "1.1\n");
}

/// Starts `client2` with a window that is open now, or one that begins in about six hours.
fn start_with_window(ring: &mut Ring, is_open: bool) {
    let scratch = &ring.site.scratch;
    let now = WallTime::local(clock::since_1970().as_secs()).unwrap();
    let closed = format!("{:02}:00-{:02}:00", (now.hour + 6) % 24, (now.hour + 7) % 24);
    let window = if is_open { "mon-sun 00:00-24:00" } else { &closed };
    let text = scratch.told("client2.toml");
    let rest: String =
        text.lines().filter(|line| !line.starts_with("window")).map(|line| format!("{line}\n")).collect();
    fs::write(scratch.path("client2.toml"), format!("{rest}window = \"{window}\"\n")).unwrap();
    ring.start("client2", "");
}

#[test]
fn a_host_activates_in_its_own_window_and_the_next_ring_waits_for_it() {
    let (mut ring, _) = Ring::on("lan:clients=3");
    start_with_window(&mut ring, true);
    ring.add("1.0");
    ring.fleet("rollout start 1 --ring client2 --ring client0");
    ring.wait_for(1, "done");
    ring.end_last("client2");
    start_with_window(&mut ring, false);
    ring.add("2.0");
    ring.fleet("rollout start 2 --ring client2 --ring client0");
    let waits = |ring: &Ring, how: &str| {
        let says = format!("client2  1     {how}");
        wait_until("it waits for its window", || ring.fleet("rollout show 2").contains(&says));
        assert!(ring.rollout(2)["hosts"][0]["until_ms"].as_u64() > Some(1_700_000_000_000));
    };
    waits(&ring, "waiting  its window is ");
    // Nobody but the host lets it activate now.
    ring.fleet("rollout change 2 pause");
    ring.fleet("rollout change 2 go");
    waits(&ring, "waiting  its window is ");
    assert_eq!(ring.states(2).len(), 1, "the next ring has not begun");
    assert_eq!(ring.site.scratch.told("client2.log"), "1.0\n");
    ring.end_last("client2");
    start_with_window(&mut ring, true);
    ring.wait_for(2, "done");
    let sent = ring.rollout(2)["sent"].clone();
    assert_eq!(sent.as_array().unwrap().len(), 2, "each ring was sent it once: {sent}");
    ring.end_last("client2");
    start_with_window(&mut ring, false);
    ring.fleet("rollout change 2 back");
    waits(&ring, "done   it is to go back: its window is ");
    ring.end_last("client2");
    start_with_window(&mut ring, true);
    wait_until("both are back", || ring.fleet("hosts release.app=1.0").contains("2 hosts"));
    assert_eq!(ring.site.scratch.told("client2.log"), "1.0\n2.0\n1.0\n");
}

#[test]
fn a_ring_is_sent_what_differs_if_that_is_less() {
    let (mut ring, _) = Ring::on("lan:clients=3");
    let mut bytes = vec![0; 3_000_000];
    blake3::Hasher::new().finalize_xof().fill(&mut bytes);
    let roll_out = |ring: &Ring, number: u32, bytes: &[u8], hosts: &str| {
        let folder = ring.site.scratch.path("source");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("program"), bytes).unwrap();
        ring.fleet(&format!("release add app {number}.0 source --key release"));
        ring.fleet(&format!("rollout start {number} --ring {hosts}"));
        ring.wait_for(number, "done");
        (ring.rollout(number)["sent"][0].clone(), ring.fleet(&format!("rollout show {number}")))
    };
    // Before it begins, the simulator says what it will cost.
    fs::create_dir_all(ring.site.scratch.path("source")).unwrap();
    fs::write(ring.site.scratch.path("source/program"), &bytes).unwrap();
    ring.fleet("release add app 1.0 source --key release");
    let planned = ring.fleet("rollout plan 1 --ring client0 --ring client* --loss 0%");
    assert_says(
        &planned,
        &[
            "app 1.0, for hosts on one link of 100",
            "1     1      0     0     0       whole  3000000  multicast",
        ],
    );
    let planned = ring.fleet("--json rollout plan 1 --ring client0 --ring client* --rate 1G");
    let planned: Value = serde_json::from_str(&planned).unwrap();
    let second = &planned["rings"][1];
    assert_eq!((&second["hosts"], &second["away"]), (&2.into(), &1.into()), "{planned}");
    assert_eq!(second["forecasts"].as_array().unwrap().len(), 2);
    fs::write(ring.site.scratch.path("repaired"), "").unwrap();
    let (sent, shown) = roll_out(&ring, 1, &bytes, "client0,client1");
    assert_eq!((&sent["way"], &sent["delta_bytes"]), (&"whole".into(), &Value::Null));
    assert_says(&shown, &["bytes sent once for 2 hosts, whole; one by one they would be 6000000"]);
    bytes[1_000_000..1_050_000].fill(7);
    let (sent, shown) = roll_out(&ring, 2, &bytes, "client0,client1");
    assert_eq!((&sent["way"], &sent["whole_bytes"]), (&"delta".into(), &3_000_000.into()));
    let (sent, forecast) = (sent["sent_bytes"].as_f64().unwrap(), sent["delta_bytes"].as_f64().unwrap());
    // The start by unicast, and what is lost, come on top.
    assert!(forecast < 300_000.0 && sent < 1e6, "{sent} bytes, and {forecast} were forecast");
    assert_says(&shown, &["only what differs (whole, it has 3000000)"]);
    // Somebody without an earlier version gets all of it, and so do the others of the ring.
    ring.start("client2", "");
    bytes[0] ^= 1;
    let (sent, _) = roll_out(&ring, 3, &bytes, "client*");
    assert_eq!((&sent["way"], &sent["delta_bytes"]), (&"whole".into(), &Value::Null));
    // Another file altogether costs more by its difference.
    bytes.reverse();
    let (sent, shown) = roll_out(&ring, 4, &bytes, "client*");
    assert_eq!(sent["way"], "whole");
    assert_says(&shown, &["whole (what differs would have been 30"]);
    let verified = ring.fleet("verify 4");
    assert_says(&verified, &["client0: has all of it", "client1: has all of it", "client2: has all of it"]);
}

#[test]
fn a_new_agent_is_tried_by_one_host_and_goes_back_if_it_does_not_report() {
    let (mut ring, _) = Ring::on("lan:clients=3");
    for node in ["client1", "client0"] {
        ring.end_last(node);
    }
    for node in ["client0", "client1"] {
        let path = ring.site.scratch.path(&format!("{node}.toml"));
        let text = fs::read_to_string(&path).unwrap();
        fs::write(path, format!("{text}agent = true\ntrial = \"15s\"\n")).unwrap();
        ring.start(node, "");
    }
    let add = |ring: &Ring, version: &str, script: &str| {
        let folder = ring.site.scratch.path("agent");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("treecast"), format!("#!/bin/sh\n{script}\n")).unwrap();
        ring.fleet(&format!("release add agent {version} agent --key release --agent"));
    };
    let begin = |ring: &Ring, id: u32, state: &str| {
        ring.fleet(&format!("rollout start {id} --ring client0,client1"));
        ring.wait_for(id, state);
        ring.fleet(&format!("rollout show {id}"))
    };
    // The real program, by way of a file of the release.
    add(&ring, "1", &format!("exec {} \"$@\"", env!("CARGO_BIN_EXE_treecast")));
    let shown = begin(&ring, 1, "done");
    assert_says(&shown, &["client0  1     done", "client1  2     done"]);
    assert_says(&ring.fleet("hosts release.agent=1"), &["2 hosts, 2 here"]);
    // One that ends, and one that does nothing. The other host never gets them.
    add(&ring, "2", "exit 3");
    let shown = begin(&ring, 2, "stopped");
    assert_says(
        &shown,
        &["client0  1     failed  the new program ended before it had reported (exit status: 3)"],
    );
    assert!(!shown.contains("client1"), "{shown}");
    add(&ring, "3", "exec sleep 1000");
    let shown = begin(&ring, 3, "stopped");
    assert_says(&shown, &["client0  1     failed  the new program did not report in 15 s"]);
    wait_until("the program before is back", || {
        ring.fleet("hosts release.agent=1").contains("2 hosts, 2 here")
    });
    // Back to the program that is installed.
    ring.fleet("rollout change 1 back");
    wait_until("both are back", || ring.states(1).iter().all(|(_, state)| state == "back"));
    assert_says(&ring.fleet("rollout show 1"), &["it went back to the installed program"]);
    assert_says(&ring.fleet("hosts release.agent=1"), &["0 hosts"]);
    // A host that does not permit it refuses before anything is sent.
    ring.start("client2", "");
    ring.fleet("rollout start 1 --ring client2");
    ring.wait_for(4, "stopped");
    assert_says(&ring.fleet("rollout show 4"), &["set `agent = true` below [roll_out]"]);
}
