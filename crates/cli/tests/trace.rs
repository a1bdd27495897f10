//! `treecast doctor trace` across three `treecast mroute` routers: real routes, the kernel's own counts.

use std::process::Output;

use crate::{child::PrivateFile, mroute_network::Network, session::assert_says};
use serde_json::Value;

/// s - r0 - r1 - r2 - c.
fn chain() -> Network {
    let network = Network::of_cables(&[("s", "r0"), ("r0", "r1"), ("r1", "r2"), ("r2", "c")]);
    network.route("r0", &[2, 3], 1, 2);
    network.route("r1", &[0], 1, 1);
    network.route("r1", &[3], 2, 2);
    network.route("r2", &[0, 1], 2, 1);
    network.route("c", &[0, 1, 2], 3, 1);
    network.route("s", &[1, 2, 3], 0, 2);
    network
}

/// Group and sender of each family, and the addresses of the routers as a trace from c sees them.
const FAMILIES: [(&str, &str, [&str; 3]); 2] = [
    ("ff15::42", "fd00::1", ["fd00:3::1", "fd00:2::1", "fd00:1::1"]),
    ("239.1.2.3", "10.0.0.1", ["10.0.3.1", "10.0.2.1", "10.0.1.1"]),
];

fn trace(network: &Network, node: &str, arguments: &[&str]) -> Output {
    network.treecast(node, &[&["doctor", "trace"], arguments].concat())
}

#[track_caller]
fn json(output: &Output) -> Value {
    let error = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("no JSON: {error}"))
}

fn routers(report: &Value) -> Vec<&str> {
    let hops = report["hops"].as_array().expect("hops");
    hops.iter().map(|hop| hop["router"].as_str().expect("an address")).collect()
}

#[test]
fn a_trace_names_all_routers_with_their_counts_and_rates() {
    let network = chain();
    let _routers = ["r0", "r1", "r2"].map(|node| network.router(node, &[]));
    let _streams = FAMILIES.map(|(group, ..)| network.stream("s", "r0", group));
    for (group, source, expected) in FAMILIES {
        // The sender is found by listening.
        let output = trace(&network, "c", &[group, "--interface", "r2", "--json"]);
        let report = json(&output);
        assert_eq!(output.status.code(), Some(0), "{report:#}");
        assert_eq!((report["source"].as_str(), routers(&report)), (Some(source), expected.to_vec()));
        for hop in report["hops"].as_array().expect("hops") {
            assert_eq!((&hop["code"], &hop["protocol"]), (&"NO_ERROR".into(), &"IGMP/MLD".into()));
            assert!(hop["packets"].as_u64() > Some(0), "{hop:#}");
            assert!(hop["interface_packets_in"].as_u64() >= hop["packets"].as_u64(), "{hop:#}");
            // One packet every 5 ms, or fewer on a busy machine, which may hold the router up between the time and the count.
            let rate = hop["packets_per_second"].as_f64().expect("a rate");
            assert!((10.0..=300.0).contains(&rate), "{hop:#}");
        }
        let upstream: Vec<_> =
            report["hops"].as_array().expect("hops").iter().map(|hop| &hop["upstream"]).collect();
        assert!(upstream[0].is_string() && upstream[1].is_string() && upstream[2].is_null(), "{report:#}");
        assert_says(report["end"].as_str().unwrap_or_default(), &["is on the network of"]);
    }
    let output = trace(&network, "c", &["239.1.2.3", "10.0.0.1"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.starts_with("239.1.2.3 from 10.0.0.1, seen from 10.0.3.2 (r2)\nHOP  ROUTER"), "{text}");
    assert!(text.ends_with("router 3 (10.0.1.1) is on the network of 10.0.0.1\n"), "{text}");
}

#[test]
fn a_trace_says_why_and_where_it_ends() {
    let network = chain();
    let _others = ["r0", "r2"].map(|node| network.router(node, &[]));
    let (quick, patient) = (["--timeout", "1s", "--json"], ["--timeout", "20s", "--json"]);
    let (group, source, expected) = FAMILIES[0];
    let output = trace(&network, "c", &[&[group, source][..], &quick].concat());
    let report = json(&output);
    assert_eq!(output.status.code(), Some(3), "r1 does not run: {report:#}");
    assert_eq!(routers(&report), expected[..1]);
    assert_says(report["end"].as_str().unwrap_or_default(), &["which does not answer Mtrace2"]);
    let prohibiting = network.router("r1", &["--no-trace"]);
    let report = json(&trace(&network, "c", &[&["ff15::42", "fd00::1"][..], &patient].concat()));
    let codes: Vec<_> =
        report["hops"].as_array().expect("hops").iter().map(|hop| hop["code"].clone()).collect();
    assert_eq!(codes, ["NO_ERROR", "ADMIN_PROHIB"]);
    drop(prohibiting);

    // A host of the sender's own network, and one that asks the wrong router.
    let output =
        trace(&network, "r0", &[&["239.1.2.3", "10.0.0.1", "--interface", "s"][..], &patient].concat());
    let report = json(&output);
    assert_says(report["end"].as_str().unwrap_or_default(), &["no router lies between"]);
    assert_eq!((output.status.code(), &report["is_whole"]), (Some(0), &Value::Bool(true)));
    let wrong = ["239.1.2.3", "10.0.3.9", "--router", "10.0.3.1"];
    let report = json(&trace(&network, "c", &[&wrong[..], &patient].concat()));
    assert_eq!(report["hops"][0]["code"], "WRONG_LAST_HOP", "{report:#}");
}

/// A router whose port another program has routes all the same, and says so.
#[test]
fn a_router_whose_port_is_taken_says_so() {
    let network = Network::new(&["r0"]);
    let port = treecast_wire::mtrace2::PORT;
    let _taken = network.within("r0", || std::net::UdpSocket::bind(("0.0.0.0", port)).expect("it is free"));
    let warnings = PrivateFile::new("");
    let router = network.router_that_warns("r0", &[], &warnings);
    assert_eq!(router.terminate(), Some(0));
    let said = warnings.text();
    assert!(said.contains("traces over IPv4 are not answered: UDP port 33435"), "{said}");
}
