//! The paper's programs (interdomain-2013, sections 4.6.1 and 4.6.2) in Rust, C and Python exchange objects with each other: each of
//! six senders sends to six receivers.

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader, Read},
    path::{Path, PathBuf},
};

use crate::languages::{Program, built, compiled, here, package, python};

/// The program of this name in each language.
fn programs(name: &str, folder: &Path, package: &Path) -> [Program; 3] {
    let rust = built().join("examples").join(format!("rust_{name}"));
    let script = here().join("examples").join(name).with_extension("py");
    let program = |language: &str, command: Vec<PathBuf>, package| Program {
        label: format!("{language}-{name}"),
        command,
        package,
    };
    let source = here().join("../c/examples").join(name).with_extension("c");
    [
        program("rust", vec![rust], None),
        program("c", vec![compiled(&source, folder)], None),
        program("python", vec![python(), script], Some(package.to_owned())),
    ]
}

fn scratch() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("treecast-programs-").tempdir().unwrap()
}

type Objects = BTreeMap<String, Vec<u8>>;

/// All files of a folder, `/` in their names replaced by `_`.
fn files(folder: &Path) -> Objects {
    let mut found = Objects::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).unwrap().flatten() {
            let path = entry.path();
            match path.is_dir() {
                true => folders.push(path),
                false => {
                    let name = path.strip_prefix(folder).unwrap().to_str().unwrap().replace('/', "_");
                    found.insert(name, fs::read(&path).unwrap());
                }
            }
        }
    }
    found
}

/// Has `sender` send to all receivers, and checks what they have then. Those who are asked do not take `.tmp`.
fn exchange(sender: &Program, arguments: &[&str], receivers: &[Program], expected: &Objects) {
    let folder = scratch();
    let count = receivers.len().to_string();
    let arguments: Vec<&str> = ["lo", &count].iter().chain(arguments).copied().collect();
    let mut sending = sender.start(&arguments);
    let mut output = BufReader::new(sending.stdout.take().unwrap());
    let mut ticket = String::new();
    output.read_line(&mut ticket).unwrap();
    let receiving: Vec<_> = receivers
        .iter()
        .map(|receiver| {
            let into = folder.path().join(&receiver.label);
            fs::create_dir(&into).unwrap();
            (receiver, receiver.start(&["lo", into.to_str().unwrap(), ticket.trim()]), into)
        })
        .collect();
    let mut said = String::new();
    output.read_to_string(&mut said).unwrap();
    assert!(sending.wait().unwrap().success(), "{}: {said}", sender.label);
    for (receiver, mut receiving, into) in receiving {
        let mut said = String::new();
        receiving.stdout.take().unwrap().read_to_string(&mut said).unwrap();
        let what = format!("{} from {}", receiver.label, sender.label);
        assert!(receiving.wait().unwrap().success(), "{what}: {said}");
        let mut expected = expected.clone();
        expected.retain(|name, _| !(receiver.label.ends_with("each") && name.ends_with(".tmp")));
        assert!(files(&into) == expected, "{what}: {:?}", files(&into).keys());
    }
}

#[test]
fn programs_of_all_languages_exchange_files_and_memory() {
    let folder = scratch();
    let package = package(folder.path());
    let of = |name: &str| programs(name, folder.path(), &package);
    let receivers: Vec<Program> = of("receive_each").into_iter().chain(of("receive_batch")).collect();

    let mut expected = Objects::new();
    let mut paths = Vec::new();
    for (name, len) in [("image", 700_000_u32), ("empty", 0), ("draft.tmp", 10)] {
        let path = folder.path().join(name);
        let content: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
        fs::write(&path, &content).unwrap();
        expected.insert(name.to_owned(), content);
        paths.push(path.display().to_string());
    }
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    for sender in of("send_files") {
        exchange(&sender, &paths, &receivers, &expected);
    }
    let product = |number: u32| (format!("product_{number}"), format!("{number}\n").into_bytes());
    let expected: Objects = (0..50).map(product).collect();
    for sender in of("send_memory") {
        exchange(&sender, &["50"], &receivers, &expected);
    }
}

/// Each program has 30 lines, short as those of the paper. Its description and empty lines are not counted.
#[test]
fn programs_are_short() {
    let mut count = 0;
    for (folder, extension, comment) in
        [("../treecast", "rs", "//"), ("../c", "c", "/*"), (".", "py", "\"\"\"")]
    {
        for entry in fs::read_dir(here().join(folder).join("examples")).unwrap().flatten() {
            let path = entry.path();
            assert_eq!(path.extension().unwrap(), extension);
            let text = fs::read_to_string(&path).unwrap();
            let lines = text.lines().skip_while(|line| line.starts_with(comment) || line.starts_with(" *"));
            let lines = lines.filter(|line| !line.trim().is_empty()).count();
            assert!(lines <= 30, "{} has {lines} lines", path.display());
            count += 1;
        }
    }
    assert_eq!(count, 12);
}

/// Runs Python's own tests of the package.
#[test]
fn the_package_behaves_as_its_types_say() {
    let folder = scratch();
    let package = package(folder.path());
    let script = here().join("tests/package.py");
    let program =
        Program { label: "package.py".into(), command: vec![python(), script], package: Some(package) };
    let mut running = program.start(&[]);
    let mut said = String::new();
    running.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(running.wait().unwrap().success(), "{said}");
}
