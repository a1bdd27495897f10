//! `treecast fleet doctor` and `treecast fleet beacon`, in a lab.

use std::{fs, process::Command};

use serde_json::Value;

use crate::{
    child::Guarded,
    fleet::{MANAGER, agent, manager},
    session::assert_says,
    site::Site,
};

struct Hosts {
    site: Site,
    _programs: Vec<Guarded>,
}

impl Hosts {
    /// A manager at the sender's node, and agents at the receivers'. `client2` permits no measurements.
    fn new() -> Self {
        let site = Site::up("lan:clients=3");
        let scratch = &site.scratch;
        fs::write(scratch.path("open.toml"), "").unwrap();
        fs::write(scratch.path("closed.toml"), "[may]\nmeasure = false\n").unwrap();
        let words = format!("manager --json --state m --listen [{}]:7443", site.address("server0"));
        let (manager, code) = manager(scratch, site.command("server0", words));
        let mut programs = vec![manager];
        for (node, config) in
            [("server0", "open"), ("client0", "open"), ("client1", "open"), ("client2", "closed")]
        {
            let words =
                format!("agent --json --name {node} --state {node} --config {config}.toml --join {code}");
            programs.push(agent(scratch, site.command(node, words), node));
        }
        Self { site, _programs: programs }
    }

    fn fleet(&self, words: &str) -> (String, Option<i32>) {
        let mut command: Command = self.site.command("server0", format!("fleet {MANAGER} {words}"));
        let output = command.output().unwrap();
        let said = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap()).concat();
        (said, output.status.code())
    }
}

#[test]
fn hosts_tell_what_hinders_multicast_and_whom_they_hear() {
    let hosts = Hosts::new();
    // This host sends, and drops the groups that come to it.
    let rules = "add table inet t; add chain inet t in { type filter hook input priority 0; }; \
                 add rule inet t in meta pkttype multicast meta l4proto udp drop";
    hosts.site.filter(&["client1"], rules);
    let (said, code) = hosts.fleet("--json beacon server0,client0,client1 --seconds 3");
    let check: Value = serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {said}"));
    let pair = |from: &str, to: &str| {
        let pairs = check["pairs"].as_array().unwrap().iter();
        pairs
            .clone()
            .find(|pair| pair["from"] == from && pair["to"] == to)
            .unwrap_or_else(|| panic!("{said}"))
    };
    for (from, to) in [("server0", "client0"), ("client0", "server0"), ("client1", "server0")] {
        let pair = pair(from, to);
        assert_eq!((&pair["state"], &pair["loss"]), (&"well".into(), &0.0.into()), "{said}");
        // All nodes have the clock of this machine.
        let delay = pair["delay_ms"].as_f64().unwrap();
        let error = pair["uncertainty_ms"].as_f64().unwrap();
        assert!(delay.abs() < 50.0 + error, "{from} to {to}: {delay} ms ± {error}");
    }
    assert_eq!(pair("server0", "client1")["state"], "silent", "{said}");
    assert_eq!(code, Some(3));
    let (said, code) = hosts.fleet("beacon all --seconds 3");
    assert_says(
        &said,
        &["HEARS", "client2: told nothing: this host does not permit it: set `measure = true`"],
    );
    assert_eq!(code, Some(3), "{said}");
    let (said, _) = hosts.fleet("doctor all");
    assert_says(&said, &["client1: problem: host-firewall: ", "client2: told nothing: ", "4 hosts, "]);
    for (words, says) in [
        ("beacon client0", "a matrix has 2 to 200 hosts, and 1 are selected"),
        ("beacon all --seconds 2", "seconds: from 3 to 60"),
        ("beacon all --group 192.0.2.1:5", "group: a multicast group"),
        ("doctor nobody", "no host is selected by `nobody`"),
    ] {
        let (said, code) = hosts.fleet(words);
        assert_says(&said, &[says]);
        assert_eq!(code, Some(1), "{words}");
    }
}
