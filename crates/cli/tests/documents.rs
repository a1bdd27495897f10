//! The documents for people: every link leads somewhere, and every command and option that they show exists.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Component, Path, PathBuf},
    process::Command,
};

#[test]
fn every_link_in_a_document_leads_to_a_file_and_a_heading() {
    let mut wrong = Vec::new();
    for (path, text) in documents() {
        for target in links(&text) {
            let (file, heading) = target.split_once('#').unwrap_or((&target, ""));
            let folder = path.parent().expect("a document is in a folder");
            let file = if file.is_empty() { path.clone() } else { without_dots(&folder.join(file)) };
            let is_there = file.exists()
                && (heading.is_empty()
                    || headings(&fs::read_to_string(&file).unwrap_or_default()).contains(heading));
            if !is_there {
                wrong.push(format!("{}: ({target})", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "links that lead nowhere:\n{}", wrong.join("\n"));
}

#[test]
fn every_command_and_option_that_a_document_shows_exists() {
    let mut helps = BTreeMap::new();
    let (mut wrong, mut count) = (Vec::new(), 0);
    for (path, text) in documents() {
        for words in text.lines().filter_map(shown_command) {
            count += 1;
            let help = help_of(&mut helps, &words);
            let Some(help) = help else {
                wrong.push(format!("{}: no such command: treecast {}", path.display(), words.join(" ")));
                continue;
            };
            for option in words.iter().take_while(|word| *word != "--").filter(|word| word.starts_with("--"))
            {
                let option = option.split('=').next().unwrap_or(option);
                let is_known =
                    help.split(|c: char| !(c.is_alphanumeric() || c == '-')).any(|word| word == option);
                if !is_known {
                    wrong.push(format!("{}: {option} in: treecast {}", path.display(), words.join(" ")));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "commands that treecast does not know:\n{}", wrong.join("\n"));
    assert!(count >= 20, "{count} commands found: are they still written as indented lines?");
}

#[test]
fn every_test_that_the_threat_model_names_exists() {
    let crates = root().join("crates");
    let sources: String =
        rust_sources(&crates).iter().map(|path| fs::read_to_string(path).expect("UTF-8")).collect();
    let text = fs::read_to_string(root().join("docs/security.md")).expect("docs/security.md is there");
    let names: BTreeSet<&str> =
        text.split('`').skip(1).step_by(2).filter(|name| is_test_name(name)).collect();
    let missing: Vec<_> = names.iter().filter(|name| !sources.contains(&format!("fn {name}("))).collect();
    assert!(missing.is_empty(), "docs/security.md names tests that there are not: {missing:?}");
    assert!(names.len() >= 20, "{} tests found: are their names still in backquotes?", names.len());
    // Whoever says what somebody can do says which test shows it, or why none does.
    let rows = text.lines().filter(|line| line.starts_with('|'));
    let untested: Vec<_> =
        rows.filter(|row| row.trim_matches('|').split('|').any(|cell| cell.trim().is_empty())).collect();
    assert!(untested.is_empty(), "rows of docs/security.md with an empty cell: {untested:#?}");
}

/// A test's name says a sentence: several words of lower-case letters and digits.
fn is_test_name(text: &str) -> bool {
    text.matches('_').count() >= 3
        && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

fn rust_sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    entries
        .flat_map(|path| match path.is_dir() {
            true => rust_sources(&path),
            false => {
                Vec::from_iter(Some(path).filter(|path| path.extension().is_some_and(|end| end == "rs")))
            }
        })
        .collect()
}

fn root() -> PathBuf {
    without_dots(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
}

/// The documents and their texts.
fn documents() -> Vec<(PathBuf, String)> {
    let folders = ["", "docs", "docs/decisions", "labs"].map(|folder| root().join(folder));
    let paths = folders.iter().flat_map(|folder| fs::read_dir(folder).into_iter().flatten().flatten());
    let paths =
        paths.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|end| end == "md"));
    // The change log tells of commands as they were.
    let paths = paths.filter(|path| !path.ends_with("CHANGELOG.md"));
    paths.map(|path| (path.clone(), fs::read_to_string(&path).expect("it was listed"))).collect()
}

/// What stands in `](...)`, addresses of other hosts left out.
fn links(text: &str) -> impl Iterator<Item = String> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    targets.map(|(target, _)| target.to_owned()).filter(|target| !target.contains("://"))
}

/// The names by which headings are linked to: lower case, blanks as `-`, no other punctuation.
fn headings(text: &str) -> BTreeSet<String> {
    let titles =
        text.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    let name = |title: &str| {
        let kept = title.chars().filter(|c| c.is_alphanumeric() || "-_ ".contains(*c));
        kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    titles.map(name).collect()
}

/// The words behind `treecast` in an indented line of a document that shows a command.
fn shown_command(line: &str) -> Option<Vec<String>> {
    let line = line.strip_prefix("    ")?;
    let line = line.split(" #").next().unwrap_or(line);
    let words: Vec<&str> = line.split_whitespace().collect();
    let at = words.iter().position(|word| *word == "treecast")?;
    let is_prompt = |word: &&str| matches!(*word, "$" | "#" | "|" | "some-program");
    words[..at].iter().all(is_prompt).then(|| words[at + 1..].iter().map(|word| (*word).to_owned()).collect())
}

/// The help of the command that the first words name; none when there is no such command.
fn help_of(helps: &mut BTreeMap<Vec<String>, Option<String>>, words: &[String]) -> Option<String> {
    let mut found = None;
    for len in 1..=words.len().min(3) {
        let path = words[..len].to_vec();
        let is_name = path.iter().all(|word| word.chars().all(|c| c.is_ascii_lowercase()));
        let help = is_name.then(|| helps.entry(path).or_insert_with_key(|path| help(path)).clone()).flatten();
        found = Some(help.or_else(|| found.take())?);
    }
    found
}

fn help(path: &[String]) -> Option<String> {
    let output = Command::new(env!("CARGO_BIN_EXE_treecast")).arg("help").args(path).output();
    let output = output.expect("treecast can be run");
    output.status.success().then(|| String::from_utf8(output.stdout).expect("UTF-8"))
}

/// The path without `.` and `..`.
fn without_dots(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut path, component| {
        match component {
            Component::ParentDir => _ = path.pop(),
            Component::CurDir => {}
            other => path.push(other),
        }
        path
    })
}
