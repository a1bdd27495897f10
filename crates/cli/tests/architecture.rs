//! The rules of ARCHITECTURE.md that a program can check: which crate may use which, and that the
//! protocol crates stay free of the operating system.

use std::{collections::BTreeMap, path::PathBuf, process::Command};

use crate::{
    circles::{circles, hidden},
    session::Scratch,
    sources::{rust_files, workspace},
};

/// Which crates of ours each crate may depend on (DESIGN: dependencies point one way only).
const MAY_USE: &[(&str, &str)] = &[
    ("wire", ""),
    ("host", ""),
    ("measure", "host"),
    ("proto", "wire"),
    ("sim", "wire proto"),
    ("driver", "wire host proto"),
    ("dataplane", "wire host proto"),
    ("treecast", "wire host proto driver"),
    ("c", "treecast"),
    // Its tests have programs of C and Python exchange objects.
    ("python", "treecast c"),
    ("load", "wire host proto measure"),
    ("doctor", "wire host proto"),
    ("beacon", "wire host proto"),
    ("rib", "host measure"),
    ("mast", "wire host"),
    ("feed", "proto measure"),
    ("lab", "wire host proto dataplane"),
    ("experiment", "wire host proto sim driver dataplane lab load mast measure"),
    ("fleet", "host driver lab experiment measure"),
    ("bench", "wire host proto driver dataplane lab measure"),
    (
        "cli",
        "wire host proto driver treecast dataplane sim lab \
         experiment fleet bench load feed doctor beacon rib mast measure",
    ),
];

/// The crates that must build where there is no operating system.
const WITHOUT_AN_OS: [&str; 2] = ["wire", "proto"];

/// What of the standard library those crates may name: no clock, socket, file, thread, process or environment.
const ALLOWED_THERE: &str = "cmp collections convert error f64::consts fmt iter mem net::Ip \
    net::SocketAddr num ops str sync::Arc time::Duration";

#[test]
fn dependencies_point_one_way() {
    let allowed: BTreeMap<_, _> = MAY_USE.iter().copied().collect();
    for (name, dependencies) in our_dependencies() {
        let may_use = allowed
            .get(name.as_str())
            .unwrap_or_else(|| panic!("crate {name} is new: add it to MAY_USE and to ARCHITECTURE.md"));
        for dependency in dependencies {
            assert!(
                may_use.split(' ').any(|one| one == dependency),
                "{name} uses {dependency}, which it may not: it may use {may_use:?}"
            );
        }
    }
}

#[test]
fn protocol_crates_build_without_an_operating_system() {
    if !wasm_target_is_there() {
        let is_of_rustup = sysroot().to_string_lossy().contains("toolchains");
        assert!(!is_of_rustup, "the target wasm32-unknown-unknown is missing: run scripts/setup.sh test");
        eprintln!("no wasm32 target in this packaged Rust: the source rule alone guards wire and proto");
        return;
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
        for file in rust_files(&workspace().join("crates").join(name).join("src")) {
            let text = std::fs::read_to_string(&file).expect("a source file is readable");
            for path in standard_paths(&text) {
                let is_allowed = ALLOWED_THERE.split(' ').any(|allowed| path.starts_with(allowed));
                assert!(is_allowed, "{}: std::{path}", file.display());
            }
        }
    }
}

#[test]
fn nested_uses_are_seen_through() {
    let code = "use std::{fs, time::{Duration, Instant}}; // std::env\n fn f() -> std::net::TcpListener";
    let expected = ["fs", "time::Duration", "time::Instant", "net::TcpListener"];
    assert_eq!(standard_paths(code), expected);
}

/// All that a source file names of the standard library, `std::` left away.
fn standard_paths(text: &str) -> Vec<String> {
    let lines = text.lines().map(|line| line.split("//").next().unwrap_or_default());
    let code: String = lines.flat_map(str::split_whitespace).collect();
    let mut paths = Vec::new();
    for (at, found) in code.match_indices("std::") {
        expand("", &code[at + found.len()..], &mut paths);
    }
    paths
}

/// Adds the paths that `code` begins with, one or several in braces; returns what follows them.
fn expand<'a>(prefix: &str, code: &'a str, paths: &mut Vec<String>) -> &'a str {
    if let Some(mut rest) = code.strip_prefix('{') {
        while !rest.is_empty() && !rest.starts_with('}') {
            rest = expand(prefix, rest, paths);
            rest = rest.strip_prefix(',').unwrap_or(rest);
        }
        return rest.strip_prefix('}').unwrap_or(rest);
    }
    let end = code.find(|letter: char| !letter.is_alphanumeric() && letter != '_').unwrap_or(code.len());
    let (name, rest) = code.split_at(end);
    let path = format!("{prefix}{name}");
    if let Some(rest) = rest.strip_prefix("::") {
        return expand(&format!("{path}::"), rest, paths);
    }
    paths.push(path);
    // Anything that is no name ends the group.
    if name.is_empty() { rest.get(1..).unwrap_or_default() } else { rest }
}

/// Circles of modules that are still to be broken: the parent, and the children that take part. This list only gets shorter.
const KNOWN_CIRCLES: &[(&str, &[&str])] = &[];

/// DESIGN: among the modules of a crate dependencies point one way, too. The rule is that of [`circles`].
#[test]
fn modules_of_a_crate_have_no_circles() {
    let mut left = KNOWN_CIRCLES.to_vec();
    for (name, _) in MAY_USE {
        for circle in circles(name, &workspace().join("crates").join(name).join("src")) {
            let is_known = |known: &(&str, &[&str])| {
                known.0 == circle.parent
                    && circle.members.iter().all(|member| known.1.contains(&member.as_str()))
            };
            assert!(KNOWN_CIRCLES.iter().any(is_known), "these use each other in a circle: {circle:?}");
            left.retain(|known| !is_known(known));
        }
    }
    assert!(left.is_empty(), "these circles are broken: take them off the list of known ones: {left:?}");
}

#[test]
fn a_circle_is_found_through_imports_nested_uses_and_paths_and_tests_make_none() {
    let scratch = Scratch::new();
    let (folder, write) = (scratch.path(""), |name: &str, code: &str| write(&scratch, name, code));
    write("lib.rs", "mod a;\nmod b;\npub mod c;\nmod d;\npub use c::Thing as Renamed;\npub struct Own;\n");
    write("a.rs", "use std::fmt;\nuse crate::{Renamed, b::{self, Other}};\n");
    write(
        "b.rs",
        "// use crate::a;\npub fn f() { super::c::g() }\n#[cfg(test)]\nmod tests {\n    use crate::a;\n}\n",
    );
    write("c/mod.rs", "mod inner;\npub(crate) use inner::Deep;\nuse crate::Own;\n");
    write("c/inner.rs", "use super::super::d;\nuse super::Deep;\n");
    write("d.rs", "use crate::Own;\n");
    assert_eq!(circles("x", &folder), []);
    write("d.rs", "use crate::Own;\nfn g() -> crate::a::Thing {}\n");
    let found = circles("x", &folder);
    let found: Vec<_> = found.iter().map(|circle| (circle.parent.as_str(), circle.members.len())).collect();
    assert_eq!(found, [("x", 4)], "a uses c by another name and through b, c uses d below, and d uses a");
}

/// Writes a made-up source file.
fn write(scratch: &Scratch, name: &str, code: &str) {
    std::fs::write(scratch.file(name, 0), code).expect("a file is written");
}

/// The most files of one type whose methods may call each other in a circle.
const MOST_IN_A_HIDDEN_CIRCLE: usize = 4;

/// DESIGN: dependencies point one way between files whose methods call each other on `self`, too. See [`hidden`].
#[test]
fn methods_of_a_type_make_no_circles_of_many_files() {
    for (name, _) in MAY_USE {
        for spread in hidden::spread(name, &workspace().join("crates").join(name)) {
            let is_small = spread.circle <= MOST_IN_A_HIDDEN_CIRCLE;
            assert!(is_small, "give the state of this type to parts that act: {spread:?}");
        }
    }
}

#[test]
fn a_circle_of_methods_is_found_and_comments_strings_and_tests_make_none() {
    let scratch = Scratch::new();
    let (folder, write) =
        (scratch.path(""), |name: &str, code: &str| write(&scratch, &format!("src/{name}"), code));
    write("a.rs", "struct A<'a>(&'a str);\nimpl A<'_> {\n    fn a(&self) { self.b(); '}' }\n}\n");
    write("a/b.rs", "impl<'a> A<'a> {\n    fn b(&self) { self . c() }\n}\nimpl Clone for A<'_> {}\n");
    let c = "impl A<'_> {\n    // self.a()\n    fn c(&self) { r#\"self.a()}\"#; \"\\\"}\"; CALL }\n}\n\
             #[cfg(test)]\nmod tests {\n    impl A<'_> { fn d(&self) { self.a() } }\n}\n";
    let found = |call: &str| {
        write("a/c.rs", &c.replace("CALL", call));
        let spread = hidden::spread("x", &folder);
        spread.into_iter().map(|spread| (spread.name, spread.calls, spread.circle)).collect::<Vec<_>>()
    };
    let (open, closed) = (found("other.a()"), found("self.a()"));
    assert_eq!(open, [("x/src/a.rs: A".to_owned(), 2, 1)]);
    assert_eq!(closed, [("x/src/a.rs: A".to_owned(), 3, 3)]);
}

/// The parts of the command that deliver. They use the library as any other program could.
const ON_THE_LIBRARY: &str = "send.rs send receive.rs receive feed/live.rs feed/rules.rs discover.rs keys.rs history.rs \
    status.rs group.rs arguments.rs domain_key.rs sharing.rs figures.rs log.rs moving_line.rs output.rs";

/// The crates below the library.
const BELOW_THE_LIBRARY: [&str; 3] = ["treecast_driver", "treecast_proto", "treecast_wire"];

#[test]
fn the_command_delivers_by_the_library_alone() {
    let source = workspace().join("crates/cli/src");
    for part in ON_THE_LIBRARY.split(' ').map(|part| source.join(part)) {
        for file in rust_files(&part) {
            let text = std::fs::read_to_string(&file).expect("a source file is readable");
            let below = BELOW_THE_LIBRARY.iter().find(|name| text.contains(**name));
            assert_eq!(below, None, "{} goes past the library", file.display());
        }
    }
}

/// ARCHITECTURE's invariant of the library: names of other crates stand in `treecast::unstable` alone.
#[test]
fn public_names_of_the_library_are_its_own_or_called_unstable() {
    let source = workspace().join("crates/treecast/src");
    let foreign = |file: &PathBuf| {
        let text = std::fs::read_to_string(file).expect("a source file is readable");
        text.lines().any(|line| line.trim_start().starts_with("pub use treecast_"))
    };
    let (unstable, others): (Vec<_>, Vec<_>) =
        rust_files(&source).into_iter().partition(|file| file.starts_with(source.join("unstable")));
    assert!(unstable.iter().any(foreign), "the module of foreign names is there");
    let foreign: Vec<_> = others.iter().filter(|file| foreign(file)).collect();
    assert!(foreign.is_empty(), "{foreign:?} give names of other crates as the library's own");
}

/// A file is read as a whole: it stays under 1,000 lines.
#[test]
fn files_stay_readable() {
    for file in rust_files(&workspace().join("crates")) {
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
        dependency["name"].as_str().is_some_and(|name| name == "treecast" || name.starts_with("treecast-"))
    };
    all.iter().filter(ours).map(|dependency| short(&dependency["name"])).collect()
}

fn short(name: &serde_json::Value) -> String {
    name.as_str().expect("a name").trim_start_matches("treecast-").to_owned()
}

fn wasm_target_is_there() -> bool {
    sysroot().join("lib/rustlib/wasm32-unknown-unknown/lib").is_dir()
}

/// The folder of the Rust that builds this workspace.
fn sysroot() -> PathBuf {
    let printed = Command::new("rustc").args(["--print", "sysroot"]).current_dir(workspace()).output();
    PathBuf::from(String::from_utf8_lossy(&printed.expect("rustc runs").stdout).trim())
}
