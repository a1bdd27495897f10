//! `treecast doctor` in networks of namespaces: it names each fault of labs/doctor/faults.toml, blames the right one, and finds
//! nothing wrong with sound networks.
//!
//! `TREECAST_TOPOLOGIES=5` tries each fault in 5 random networks, and four times as many sound ones. `TREECAST_FAULT` names a
//! single fault, or `sound`, and `TREECAST_SEED` the first seed.

use std::{
    collections::BTreeMap,
    env,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use crate::{
    broken_networks::{self, Broken, Fault},
    child::treecast_as_nobody,
};
use serde_json::Value;

/// Networks that are examined at a time. Each waits most of its time. The 25 networks take three turns.
const AT_ONCE: usize = 9;

/// What the doctor said of one network.
struct Said {
    fault: String,
    seed: u64,
    is_right: bool,
    /// Problems that blame something else.
    wrong: Vec<Value>,
    report: Value,
}

#[test]
#[ignore = "it takes long: `make test-all` runs it"]
fn each_broken_network_is_named_and_a_sound_one_has_no_finding() {
    let each = number("TREECAST_TOPOLOGIES").unwrap_or(1);
    let first = number("TREECAST_SEED").unwrap_or(1);
    let sound = if each == 1 { 1 } else { 4 * each };
    let wanted = env::var("TREECAST_FAULT").ok();
    let is_wanted = |name: &str| wanted.as_ref().is_none_or(|wanted| wanted == name);
    let mut networks: Vec<(Option<Fault>, u64)> = Vec::new();
    if is_wanted("sound") {
        networks.extend((first..first + sound).map(|seed| (None, seed)));
    }
    for fault in broken_networks::faults().into_iter().filter(|fault| is_wanted(&fault.name)) {
        networks.extend((first..first + each).map(|seed| (Some(fault.clone()), seed)));
    }
    let said = examine_all(&networks, each == 1);
    let mut by_fault = BTreeMap::<_, (usize, usize, usize)>::new();
    for said in &said {
        let (right, wrong, all) = by_fault.entry(said.fault.as_str()).or_default();
        (*right, *wrong, *all) = (*right + usize::from(said.is_right), *wrong + said.wrong.len(), *all + 1);
        if !said.is_right || !said.wrong.is_empty() {
            eprintln!("{} (seed {}): {:#}", said.fault, said.seed, said.report);
        }
    }
    for (fault, (right, wrong, all)) in &by_fault {
        eprintln!("{fault:28} {right} of {all} right, {wrong} findings blame somebody else");
    }
    assert!(said.iter().all(|said| said.wrong.is_empty()), "somebody else is blamed");
    let of_fault = || said.iter().filter(|said| said.fault != "sound");
    let right = of_fault().filter(|said| said.is_right).count();
    assert!(right * 100 >= of_fault().count() * 95, "{right} of {} faults are named", of_fault().count());
    assert_eq!(said.len(), networks.len());
}

/// Has the doctor examine all networks, several at a time.
fn examine_all(networks: &[(Option<Fault>, u64)], is_small: bool) -> Vec<Said> {
    let (next, said) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..AT_ONCE.min(networks.len()) {
            scope.spawn(|| {
                while let Some((fault, seed)) = networks.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let one = examine(fault.as_ref(), *seed, is_small);
                    said.lock().expect("no thread panics with it").push(one);
                }
            });
        }
    });
    said.into_inner().expect("no thread panics with it")
}

fn examine(fault: Option<&Fault>, seed: u64, is_small: bool) -> Said {
    let network = Broken::new(fault, seed, is_small);
    let (code, report) = network.examine();
    let findings = report["findings"].as_array().expect("a list").clone();
    let (all, is_problem) = (findings.len(), |finding: &Value| finding["level"] == "problem");
    assert_eq!(code, Some(if findings.iter().any(is_problem) { 3 } else { 0 }), "{report:#}");
    let is_blamed = |finding: &Value| network.is_to_blame(&finding["blame"]);
    let (right, mut wrong): (Vec<_>, Vec<_>) = findings.into_iter().partition(is_blamed);
    wrong.retain(is_problem);
    let is_named = |fault: &Fault| {
        right
            .iter()
            .any(|finding| finding["kind"] == fault.kind.as_str() && finding["level"] == fault.level.as_str())
    };
    Said {
        fault: fault.map_or_else(|| "sound".to_owned(), |fault| fault.name.clone()),
        seed,
        is_right: fault.map_or(all == 0, is_named),
        wrong,
        report,
    }
}

/// Programs run in a network of their own, whose one interface is down.
#[test]
fn a_host_without_a_usable_interface_is_told_so() {
    let output = std::process::Command::new("unshare")
        .args(["--net", "sh", "-c", "ip link add eth0 type veth peer name eth1 && exec \"$@\"", "sh"])
        .args([env!("CARGO_BIN_EXE_treecast"), "doctor", "--json", "--listen", "2.2"])
        .output()
        .expect("root may");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    assert_eq!((output.status.code(), &report["findings"][0]["kind"]), (Some(3), &"no-interface".into()));
}

#[test]
fn without_root_the_doctor_says_what_it_could_not_see() {
    let output = treecast_as_nobody(&["doctor", "--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).expect("a report");
    assert!([Some(0), Some(3)].contains(&output.status.code()), "{output:?}");
    assert_eq!(report["facts"]["is_root"], false);
    let said = report["findings"]
        .as_array()
        .expect("a list")
        .iter()
        .any(|finding| finding["kind"] == "unread" && finding["level"] == "remark");
    assert!(said, "{report:#}");
}

fn number(variable: &str) -> Option<u64> {
    env::var(variable)
        .ok()
        .map(|text| text.parse().unwrap_or_else(|_| panic!("{variable}={text} is no number")))
}
