//! `treecast fleet files`: files to many hosts by one session, in a lab.

use std::{fs, os::unix::fs::symlink, process::Output};

use serde_json::Value;

use crate::{
    child::Guarded,
    fleet::{MANAGER, agent, manager},
    session::{assert_says, finish_well, start, wait_until},
    site::Site,
};

/// A manager at the sender's node, and agents at the receivers'. `client1` names a folder for files, and `client2` takes none.
struct Hosts {
    site: Site,
    _programs: Vec<Guarded>,
}

impl Hosts {
    fn new() -> Self {
        let site = Site::up("lan:clients=3,rate=40M");
        let scratch = &site.scratch;
        let inbox = scratch.arg("inbox");
        fs::write(scratch.path("client0.toml"), "").unwrap();
        fs::write(scratch.path("client1.toml"), format!("[receive]\nfolder = \"{inbox}\"\n")).unwrap();
        fs::write(scratch.path("client2.toml"), "[may]\nreceive = false\n").unwrap();
        let words = format!("manager --json --state m --listen [{}]:7443", site.address("server0"));
        let (manager, code) = manager(scratch, site.command("server0", words));
        let mut programs = vec![manager];
        for node in ["client0", "client1", "client2"] {
            let words =
                format!("agent --json --name {node} --state {node} --config {node}.toml --join {code}");
            programs.push(agent(scratch, site.command(node, words), node));
        }
        Self { site, _programs: programs }
    }

    fn fleet(&self, words: &str) -> String {
        finish_well(start(&mut self.site.command("server0", format!("fleet {MANAGER} {words}"))))
    }

    /// Runs a command that may fail.
    fn output(&self, words: &str) -> Output {
        self.site.command("server0", format!("fleet {MANAGER} {words}")).output().unwrap()
    }

    fn delivery(&self, id: u32) -> Value {
        serde_json::from_str(&self.fleet(&format!("--json deliveries {id}"))).unwrap()
    }
}

#[test]
fn files_go_once_to_hosts_that_permit_it_and_each_says_what_it_lacks() {
    let hosts = Hosts::new();
    let scratch = &hosts.site.scratch;
    fs::write(scratch.path("map"), vec![7; 2_000_000]).unwrap();
    fs::write(scratch.path("legend"), "blue: water").unwrap();
    // A link in the host's folder, as somebody there may have made.
    fs::create_dir_all(scratch.path("inbox")).unwrap();
    symlink(scratch.path("elsewhere"), scratch.path("inbox/linked")).unwrap();
    let output = hosts.output("files client* map legend --into maps/north");
    let said = String::from_utf8(output.stdout).unwrap();
    assert_says(
        &said,
        &["delivery 1 of 2 files is done", "client2  refused  it does not permit it: set `receive = true`"],
    );
    assert_eq!(output.status.code(), Some(3), "{said}");
    for folder in ["client0/received", "inbox"] {
        assert_eq!(fs::read(scratch.path(folder).join("maps/north/map")).unwrap(), vec![7; 2_000_000]);
        assert_eq!(
            fs::read_to_string(scratch.path(folder).join("maps/north/legend")).unwrap(),
            "blue: water"
        );
    }
    let delivery = hosts.delivery(1);
    let sent = delivery["sent_bytes"].as_u64().unwrap();
    assert!(sent >= 2_000_011 && (sent as f64) < 1.3 * 2_000_011.0, "once for two hosts: {delivery}");
    assert_eq!(delivery["unicast_bytes"], 4_000_022, "{delivery}");
    // Whoever has everything is sent nothing. The upload is deleted all the same.
    let again = hosts.fleet("files client0,client1 map legend --into maps/north --upload");
    assert_eq!(fs::read_dir(scratch.path("m/uploads")).unwrap().count(), 0);
    assert_says(&again, &["delivery 2 of 2 files is done", "client0  done   it had everything"]);
    assert!(!again.contains("bytes sent once"), "{again}");
    let linked = hosts.output("files client1 legend --into linked");
    assert_says(&String::from_utf8(linked.stdout).unwrap(), &["client1  failed", "is no folder there"]);
    assert!(!scratch.path("elsewhere").exists());
    for (words, says) in [
        ("files all map --into ../../etc", "is no path of a file or folder"),
        ("files all map --upload --into ../../etc", "is no path of a file or folder"),
        ("files nobody map", "no host is selected by `nobody`"),
        ("files all nothing", "No such file"),
        ("files all m", "is no file"),
    ] {
        let refused = String::from_utf8(hosts.output(words).stderr).unwrap();
        assert_says(&refused, &[says]);
    }
    assert_eq!(
        fs::read_dir(scratch.path("m/uploads")).unwrap().count(),
        0,
        "what was refused is deleted, too"
    );
    assert_says(&hosts.fleet("deliveries"), &["client*", "this host", "done"]);
}

#[test]
fn a_delivery_is_ended_and_leaves_nothing_at_hosts() {
    let hosts = Hosts::new();
    let scratch = &hosts.site.scratch;
    // At 40 Mbit/s, this takes some ten seconds.
    let large: Vec<u8> = (0..50_000_000u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    fs::write(scratch.path("large"), &large).unwrap();
    let mut sending =
        start(&mut hosts.site.command("server0", format!("fleet {MANAGER} files client0,client1 large")));
    let has_come = || {
        let output = hosts.output("--json deliveries 1");
        let delivery: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let came = |host: &Value| host["bytes"].as_u64() > Some(100_000);
        delivery["hosts"].as_array().is_some_and(|hosts| hosts.len() == 2 && hosts.iter().all(came))
    };
    wait_until("bytes come to both hosts", has_come);
    hosts.fleet("deliveries 1 --abort");
    wait_until("the delivery has ended", || hosts.delivery(1)["state"] == "aborted");
    assert_eq!(sending.wait().unwrap().code(), Some(3));
    for host in ["client0", "client1"] {
        assert!(!scratch.path(host).join("work/delivery-1").exists(), "{host} has forgotten it");
        assert!(!scratch.path(host).join("received/large").exists() && !scratch.path("inbox/large").exists());
    }
}
