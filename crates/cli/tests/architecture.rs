//! The rules of ARCHITECTURE.md that a program can check: which crate may use which, and that the
//! protocol crates stay free of the operating system.

use std::{collections::BTreeMap, path::PathBuf, process::Command};

/// Which crates of ours each crate may depend on (DESIGN: dependencies point one way only).
const MAY_USE: &[(&str, &[&str])] = &[
    ("wire", &[]),
    ("measure", &[]),
    ("proto", &["wire"]),
    ("sim", &["wire", "proto", "measure"]),
    ("driver", &["wire", "proto"]),
    ("dataplane", &["wire", "proto"]),
    ("lab", &["wire", "proto", "sim", "driver", "dataplane", "measure"]),
    ("cli", &["wire", "proto", "driver", "dataplane", "sim", "lab", "measure"]),
];

/// The crates that must build where there is no operating system.
const WITHOUT_AN_OS: [&str; 2] = ["wire", "proto"];

/// What those crates may not name: clocks, sockets, files, threads, processes, environment.
const FORBIDDEN_THERE: [&str; 10] = [
    "std::time::Instant",
    "std::time::SystemTime",
    "Instant::now",
    "SystemTime",
    "std::fs",
    "std::thread",
    "std::process",
    "std::env",
    "UdpSocket",
    "TcpStream",
];

#[test]
fn dependencies_point_one_way() {
    let allowed: BTreeMap<_, _> = MAY_USE.iter().copied().collect();
    for (name, dependencies) in our_dependencies() {
        let may_use = allowed
            .get(name.as_str())
            .unwrap_or_else(|| panic!("crate {name} is new: add it to MAY_USE and to ARCHITECTURE.md"));
        for dependency in dependencies {
            assert!(
                may_use.contains(&dependency.as_str()),
                "{name} uses {dependency}, which it may not: it may use {may_use:?}"
            );
        }
    }
}

#[test]
fn protocol_crates_build_without_an_operating_system() {
    if !wasm_target_is_there() {
        eprintln!("no wasm32 target on this machine: the source rule alone guards wire and proto");
        return protocol_crates_name_nothing_of_the_operating_system();
    }
    let mut command = Command::new(env!("CARGO"));
    command.args(["check", "--quiet", "--target", "wasm32-unknown-unknown"]);
    for name in WITHOUT_AN_OS {
        command.args(["-p", &format!("treecast-{name}")]);
    }
    let output = command.current_dir(workspace()).output().expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn protocol_crates_name_nothing_of_the_operating_system() {
    for name in WITHOUT_AN_OS {
        for file in rust_files(workspace().join("crates").join(name).join("src")) {
            let text = std::fs::read_to_string(&file).expect("a source file is readable");
            for (number, line) in text.lines().enumerate() {
                let code = line.split("//").next().unwrap_or_default();
                for word in FORBIDDEN_THERE {
                    assert!(!code.contains(word), "{}:{}: {word}", file.display(), number + 1);
                }
            }
        }
    }
}

/// STYLE: files stay under 1,000 lines.
#[test]
fn files_stay_readable() {
    for file in rust_files(workspace().join("crates")) {
        let lines = std::fs::read_to_string(&file).expect("a source file is readable").lines().count();
        assert!(lines < 1000, "{} has {lines} lines: split it", file.display());
    }
}

/// Our crates and those of ours that each depends on, in any way, without the name's prefix.
fn our_dependencies() -> Vec<(String, Vec<String>)> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .current_dir(workspace())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("cargo metadata is JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    assert!(packages.len() >= MAY_USE.len(), "cargo metadata lists {} packages", packages.len());
    packages.iter().map(|package| (short(&package["name"]), dependencies_of(package))).collect()
}

fn dependencies_of(package: &serde_json::Value) -> Vec<String> {
    let all = package["dependencies"].as_array().expect("dependencies");
    let ours = |dependency: &&serde_json::Value| {
        dependency["name"].as_str().is_some_and(|name| name.starts_with("treecast-"))
    };
    all.iter().filter(ours).map(|dependency| short(&dependency["name"])).collect()
}

fn short(name: &serde_json::Value) -> String {
    name.as_str().expect("a name").trim_start_matches("treecast-").to_owned()
}

fn wasm_target_is_there() -> bool {
    let sysroot = Command::new("rustc").args(["--print", "sysroot"]).current_dir(workspace()).output();
    let Ok(sysroot) = sysroot else { return false };
    let sysroot = PathBuf::from(String::from_utf8_lossy(&sysroot.stdout).trim());
    sysroot.join("lib/rustlib/wasm32-unknown-unknown/lib").is_dir()
}

fn rust_files(folder: PathBuf) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![folder];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a source folder is readable").flatten() {
            let path = entry.path();
            match path.is_dir() {
                true => folders.push(path),
                false if path.extension().is_some_and(|extension| extension == "rs") => files.push(path),
                false => {}
            }
        }
    }
    files
}

fn workspace() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the workspace is there")
}
