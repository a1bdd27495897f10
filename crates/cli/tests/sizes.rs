//! How large functions and types may be, and how many types may have a name that DESIGN.md keeps for one thing. What is too large today
//! is listed here. The lists only become shorter.

use std::{collections::BTreeMap, fs, path::Path};

use crate::sources::{before_tests, rust_files, workspace};

const MOST_LINES: usize = 60;
const MOST_FIELDS: usize = 20;

/// Functions with more lines, and how many.
const LONG_FUNCTIONS: &[(&str, usize)] = &[
    ("cli/src/send/display.rs: show", 67),
    ("doctor/src/finding.rs: todo", 68),
    ("doctor/src/network/judge.rs: explains", 63),
    ("driver/src/send/peer.rs: report", 64),
    ("driver/src/send/session.rs: serve", 62),
];

/// Structs with more fields, and how many.
const LARGE_STRUCTS: &[(&str, usize)] = &[
    ("cli/src/load/run.rs: Args", 23),
    ("cli/src/mead/mod.rs: Args", 27),
    ("driver/src/explicit/event.rs: Counted", 22),
    ("driver/src/receive/mod.rs: ReceiveOptions", 21),
    ("driver/src/receive/mod.rs: ReceiveProgress", 26),
    ("driver/src/send/mod.rs: ReceiverProgress", 27),
    ("driver/src/send/mod.rs: SendProgress", 23),
    ("proto/src/vcmtp/receiver/object.rs: Object", 25),
    ("proto/src/vcmtp/sender/retransmitter.rs: Retransmitter", 22),
];

/// How many types of all crates have each of these names.
const RESERVED: &[(&str, usize)] = &[
    ("Group", 8),
    ("Session", 7),
    ("Object", 8),
    ("Block", 2),
    ("Fanout", 5),
    ("Repair", 4),
    ("Router", 4),
    ("Node", 6),
    ("Link", 7),
    ("Run", 11),
];

#[test]
fn functions_are_short() {
    assert_listed("LONG_FUNCTIONS", LONG_FUNCTIONS, |code| {
        items(code, "fn ")
            .filter(|(_, lines)| lines.len() > MOST_LINES)
            .map(|(name, lines)| (name, lines.len()))
            .collect()
    });
}

#[test]
fn structs_are_small() {
    assert_listed("LARGE_STRUCTS", LARGE_STRUCTS, |code| {
        let fields = items(code, "struct ")
            .map(|(name, lines)| (name, lines.iter().filter(|line| is_field(line)).count()));
        fields.filter(|(_, fields)| *fields > MOST_FIELDS).collect()
    });
}

#[test]
fn reserved_words_name_few_types() {
    let sources = sources();
    let counts = RESERVED.iter().map(|(word, _)| {
        let is_named = |(name, _): &(String, Vec<&str>)| name == word;
        let of = |code: &str| {
            ["struct ", "enum ", "trait "].map(|kind| items(code, kind).filter(is_named).count())
        };
        (*word, sources.values().map(|code| of(code).iter().sum::<usize>()).sum::<usize>())
    });
    let counts: Vec<_> = counts.collect();
    assert_eq!(counts, RESERVED, "RESERVED says how many there are; let the numbers only become smaller");
}

/// What is found in the sources is what the list says.
#[track_caller]
fn assert_listed(list: &str, listed: &[(&str, usize)], find: impl Fn(&str) -> Vec<(String, usize)>) {
    let found = sources().into_iter().flat_map(|(file, code)| {
        find(&code).into_iter().map(move |(name, size)| (format!("{file}: {name}"), size)).collect::<Vec<_>>()
    });
    let mut found: Vec<_> = found.collect();
    found.sort();
    let listed: Vec<_> = listed.iter().map(|(name, size)| ((*name).to_owned(), *size)).collect();
    assert_eq!(found, listed, "make what is new smaller, and take from {list} what is small now");
}

/// The sources of all crates without their tests, by path below the folder of crates.
fn sources() -> BTreeMap<String, String> {
    let crates = workspace().join("crates");
    let is_source =
        |path: &str| path.contains("/src/") && !path.contains("/tests/") && !path.ends_with("tests.rs");
    let below = |file: &Path| file.strip_prefix(&crates).expect("it is below").to_string_lossy().into_owned();
    let files = rust_files(&crates).into_iter().filter(|file| is_source(&below(file)));
    let code = |file: &Path| fs::read_to_string(file).expect("a source file is readable");
    files.map(|file| (below(&file), before_tests(&code(&file)).to_owned())).collect()
}

/// The items of a kind: the name, and the lines from its first one to its closing brace, or one line if there is no brace. rustfmt puts
/// the brace below the beginning of the item.
fn items<'a>(code: &'a str, kind: &'a str) -> impl Iterator<Item = (String, Vec<&'a str>)> {
    let lines: Vec<&str> = code.lines().collect();
    (0..lines.len()).filter_map(move |at| {
        let indent = lines[at].len() - lines[at].trim_start().len();
        let (before, after) = lines[at].split_once(kind)?;
        let is_item = before.split_whitespace().all(|word| {
            word.starts_with("pub")
                || matches!(word, "const" | "async" | "unsafe" | "extern" | "\"C\"")
                || word.ends_with(')')
        });
        if !is_item {
            return None;
        }
        let name: String =
            after.chars().take_while(|letter| letter.is_alphanumeric() || *letter == '_').collect();
        let is_end = |line: &&&str| {
            line.starts_with(&format!("{:indent$}}}", "")) || line.ends_with(';') && indent_of(line) == indent
        };
        let len = lines[at..].iter().take_while(|line| !is_end(line)).count() + 1;
        Some((name, lines[at..lines.len().min(at + len)].to_vec()))
    })
}

fn indent_of(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// Whether a line of a struct is a field.
fn is_field(line: &str) -> bool {
    let line = line.trim_start();
    let line = line
        .strip_prefix("pub")
        .map_or(line, |rest| rest.trim_start_matches(|letter| letter != ' ').trim_start());
    let name_len = line.chars().take_while(|letter| letter.is_alphanumeric() || *letter == '_').count();
    name_len > 0 && line[name_len..].starts_with(": ")
}
