//! What `make lint` checks by cargo-deny, as far as it needs no network and no other program: each crate that our programs are
//! built from has a licence that deny.toml allows, and comes from the registry.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    process::Command,
};

use crate::sources::workspace;
use serde_json::Value;

const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

#[test]
fn every_dependency_has_an_allowed_licence_and_comes_from_the_registry() {
    let root = workspace();
    let rules: toml::Table =
        std::fs::read_to_string(root.join("deny.toml")).unwrap().parse().expect("deny.toml is TOML");
    let allowed: BTreeSet<&str> =
        rules["licenses"]["allow"].as_array().unwrap().iter().filter_map(toml::Value::as_str).collect();
    let metadata = metadata(&root);
    let used = used(&metadata);
    assert!(used.len() > 100, "only {} packages are used: is the graph read right?", used.len());
    let mut wrong = Vec::new();
    for package in metadata["packages"].as_array().unwrap() {
        let id = package["id"].as_str().unwrap();
        if !used.contains(id) {
            continue;
        }
        let licence = package["license"].as_str().unwrap_or_default();
        if !is_allowed(licence, &allowed) {
            wrong.push(format!("{id}: the licence {licence:?} is not in deny.toml"));
        }
        if package["source"].as_str().is_some_and(|source| source != REGISTRY) {
            wrong.push(format!("{id}: it comes from {}", package["source"]));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn metadata(root: &Path) -> Value {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--locked", "--offline", "--format-version", "1"])
        .args(["--filter-platform", "x86_64-unknown-linux-gnu"])
        .current_dir(root)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Our packages, and all that they are built from. What only tests use is in no program.
fn used(metadata: &Value) -> BTreeSet<&str> {
    let nodes: BTreeMap<&str, &Value> = metadata["resolve"]["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|node| (node["id"].as_str().unwrap(), node))
        .collect();
    let mut found = BTreeSet::new();
    let mut next: Vec<&str> =
        metadata["workspace_members"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    while let Some(id) = next.pop() {
        if !found.insert(id) {
            continue;
        }
        let is_built = |dependency: &&Value| {
            dependency["dep_kinds"].as_array().unwrap().iter().any(|kind| kind["kind"] != "dev")
        };
        let dependencies = nodes[id]["deps"].as_array().unwrap().iter().filter(is_built);
        next.extend(dependencies.filter_map(|dependency| dependency["pkg"].as_str()));
    }
    found
}

/// Whether an SPDX expression can be met with the allowed licences. A slash is an old way to write OR.
fn is_allowed(expression: &str, allowed: &BTreeSet<&str>) -> bool {
    let text = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let mut words = text.split_whitespace().peekable();
    any(&mut words, allowed) && words.next().is_none()
}

type Words<'w> = std::iter::Peekable<std::str::SplitWhitespace<'w>>;

fn any(words: &mut Words<'_>, allowed: &BTreeSet<&str>) -> bool {
    let mut is_met = all(words, allowed);
    while words.next_if_eq(&"OR").is_some() {
        is_met |= all(words, allowed);
    }
    is_met
}

fn all(words: &mut Words<'_>, allowed: &BTreeSet<&str>) -> bool {
    let mut is_met = one(words, allowed);
    while words.next_if_eq(&"AND").is_some() {
        is_met &= one(words, allowed);
    }
    is_met
}

fn one(words: &mut Words<'_>, allowed: &BTreeSet<&str>) -> bool {
    match words.next() {
        Some("(") => {
            let is_met = any(words, allowed);
            words.next_if_eq(&")").is_some() && is_met
        }
        Some(licence) => match words.next_if_eq(&"WITH").and_then(|_| words.next()) {
            Some(exception) => allowed.contains(format!("{licence} WITH {exception}").as_str()),
            None => allowed.contains(licence),
        },
        None => false,
    }
}

#[test]
fn expressions_of_licences_are_read() {
    let allowed = BTreeSet::from(["MIT", "ISC", "Apache-2.0 WITH LLVM-exception"]);
    for (expression, expected) in [
        ("MIT", true),
        ("GPL-3.0 OR MIT", true),
        ("GPL-3.0/MIT", true),
        ("GPL-3.0 AND MIT", false),
        ("(GPL-3.0 OR MIT) AND ISC", true),
        ("(GPL-3.0 OR MIT) AND Zlib", false),
        ("Apache-2.0 WITH LLVM-exception", true),
        ("Apache-2.0", false),
        ("(MIT", false),
        ("", false),
    ] {
        assert_eq!(is_allowed(expression, &allowed), expected, "{expression}");
    }
}

#[test]
fn what_delivers_takes_no_asynchronous_runtime_and_no_console() {
    for package in
        [&["-p", "treecast"][..], &["-p", "treecast-c"], &["-p", "treecast-cli", "--no-default-features"]]
    {
        let mut command = Command::new(env!("CARGO"));
        command.args(["tree", "--locked", "--offline", "-e", "normal", "--prefix", "none"]).args(package);
        let output = command.current_dir(workspace()).output().expect("cargo runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let tree = String::from_utf8(output.stdout).unwrap();
        assert!(tree.contains("treecast-driver"), "{tree}");
        let is_of_fleets = |line: &&str| {
            ["tokio", "axum", "hyper", "tungstenite", "treecast-fleet"]
                .iter()
                .any(|name| line.starts_with(name))
        };
        assert_eq!(tree.lines().find(is_of_fleets), None, "{package:?}");
    }
}
