//! The words of the sources: options are named by the command line alone, and doc comments begin with their subject.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::sources::{before_tests, rust_files, workspace};

/// Libraries, whose errors say what happened. The command line adds which option helps (`cli/src/advice.rs`).
const LIBRARIES: [&str; 6] = ["wire", "proto", "driver", "treecast", "lab", "measure"];

/// Crates and folders whose doc comments have been read through.
const READ_THROUGH: &[&str] = &[
    "wire",
    "host",
    "measure",
    "bench",
    "cli/src",
    "sim",
    "proto",
    "driver",
    "treecast",
    "dataplane",
    "experiment",
    "lab",
    "doctor",
    "load",
    "beacon",
    "mast",
    "rib",
    "feed",
    "c",
    "python",
];

/// Openings of doc comments that leave out the subject.
const OPENINGS: [&str; 7] = ["Of ", "Those ", "That of ", "So much", "So many", "Whom", "By "];

#[test]
fn libraries_name_no_options() {
    let mut found = Vec::new();
    for name in LIBRARIES {
        for file in rust_files(&crates().join(name).join("src")) {
            let text = fs::read_to_string(&file).expect("a source file is readable");
            let sentences = strings(before_tests(&text)).into_iter().filter(|text| names_option(text));
            found.extend(sentences.map(|text| format!("{}: {text}", relative(&file))));
        }
    }
    assert!(found.is_empty(), "give the advice in cli/src/advice.rs:\n{}", found.join("\n"));
}

#[test]
fn doc_comments_name_their_subject() {
    let mut wrong = Vec::new();
    for part in READ_THROUGH {
        let path = crates().join(part);
        for file in rust_files(&path) {
            let text = fs::read_to_string(&file).expect("a source file is readable");
            for (line, opening) in openings(&text) {
                if OPENINGS.iter().any(|words| opening.starts_with(words)) {
                    wrong.push(format!("{}:{line}: {opening}", relative(&file)));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "doc comments without a subject:\n{}", wrong.join("\n"));
}

#[test]
fn strings_and_openings_are_found() {
    let code = "/// Of it, \"--no\".\n/// By it.\nfn f() { let a = '\"'; let b = r#\"say --yes \"x\"\"#; // \"--no x\"\n g(\"a\\\" --b c\") }";
    assert_eq!(strings(code), ["say --yes \"x\"", "a\\\" --b c"]);
    assert!(strings(code).iter().all(|text| names_option(text)) && !names_option("--interface"));
    assert_eq!(openings(code), [(1, "Of it, \"--no\".")]);
}

/// Whether a text is a sentence that names an option. An option alone is an argument for another program, and one behind a
/// quotation mark is a variable of a style sheet.
fn names_option(text: &str) -> bool {
    let is_option = |(at, _): (usize, &str)| {
        let is_word = !text[..at].ends_with('"');
        is_word && text[at + 2..].starts_with(|c: char| c.is_ascii_lowercase())
    };
    text.trim().contains(' ') && text.match_indices("--").any(is_option)
}

/// The contents of the string literals in a source file, as they are written.
fn strings(code: &str) -> Vec<&str> {
    let (mut found, mut rest) = (Vec::new(), code);
    while let Some(at) = rest.find(['"', '/', '\'', 'r']) {
        let here = &rest[at..];
        if here.starts_with("//") {
            rest = here.split_once('\n').map_or("", |(_, next)| next);
        } else if let Some(raw) = here.strip_prefix("r#\"") {
            let (text, next) = raw.split_once("\"#").unwrap_or((raw, ""));
            found.push(text);
            rest = next;
        } else if let Some(next) = here.strip_prefix("'\"'") {
            rest = next;
        } else if let Some(text) = here.strip_prefix('"') {
            let mut escaped = false;
            let end = text.find(|c| {
                let ends = c == '"' && !escaped;
                escaped = c == '\\' && !escaped;
                ends
            });
            let end = end.unwrap_or(text.len());
            found.push(&text[..end]);
            rest = text.get(end + 1..).unwrap_or_default();
        } else {
            rest = &here[1..];
        }
    }
    found
}

/// The first line of each doc comment, with its number.
fn openings(code: &str) -> Vec<(usize, &str)> {
    let comment = |line: &str| line.starts_with("///") || line.starts_with("//!");
    let lines: Vec<&str> = code.lines().map(str::trim_start).collect();
    let begins =
        |at: &usize| comment(lines[*at]) && !at.checked_sub(1).is_some_and(|before| comment(lines[before]));
    (0..lines.len()).filter(begins).map(|at| (at + 1, lines[at][3..].trim_start())).collect()
}

fn relative(file: &Path) -> String {
    file.strip_prefix(crates()).unwrap_or(file).display().to_string()
}

fn crates() -> PathBuf {
    workspace().join("crates")
}
