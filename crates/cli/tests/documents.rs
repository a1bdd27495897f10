//! The documents for people: every link leads somewhere, every command and option that they show exists, every source that is
//! cited is explained, and every page is in an index.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Component, Path, PathBuf},
    process::Command,
};

use crate::sources::{rust_files, workspace};

/// The width of all documents, in characters.
const WIDTH: usize = 110;

/// Keys of sources that only tests have.
const MADE_UP: [&str; 2] = ["made-up-1999", "nobody-2031"];

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
    let crates = workspace().join("crates");
    let sources: String =
        rust_files(&crates).iter().map(|path| fs::read_to_string(path).expect("UTF-8")).collect();
    let text = fs::read_to_string(workspace().join("docs/security.md")).expect("docs/security.md is there");
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

#[test]
fn every_key_that_is_cited_is_explained() {
    let papers = fs::read_to_string(workspace().join("docs/papers.md")).expect("docs/papers.md is there");
    let explained: BTreeSet<String> =
        papers.lines().filter_map(|line| line.strip_prefix("## ")).flat_map(keys).collect();
    let mut cited = BTreeMap::new();
    for path in texts().into_iter().filter(|path| !path.ends_with("docs/papers.md")) {
        let text = fs::read_to_string(&path).expect("UTF-8");
        cited.extend(keys(&text).map(|key| (key, path.clone())));
    }
    let unknown: Vec<_> = cited
        .iter()
        .filter(|(key, _)| !explained.contains(*key) && !MADE_UP.contains(&key.as_str()))
        .collect();
    assert!(unknown.is_empty(), "keys that docs/papers.md does not explain: {unknown:#?}");
    assert!(explained.len() >= 5, "{} keys found: are they still headings?", explained.len());
    let unused: Vec<_> = explained.iter().filter(|key| !cited.contains_key(*key)).collect();
    assert!(unused.is_empty(), "keys of docs/papers.md that nothing cites: {unused:?}");
}

#[test]
fn every_document_is_in_the_index_of_its_folder() {
    let mut missing = Vec::new();
    let mut folders = vec![workspace().join("docs")];
    while let Some(folder) = folders.pop() {
        let index = folder.join("README.md");
        let text = fs::read_to_string(&index).unwrap_or_else(|error| panic!("{}: {error}", index.display()));
        let listed: BTreeSet<PathBuf> =
            links(&text).map(|target| without_dots(&folder.join(target))).collect();
        for path in fs::read_dir(&folder).expect("it was listed").map(|entry| entry.expect("readable").path())
        {
            // A folder stands for its own index, which lists the rest.
            let page = if path.is_dir() { path.join("README.md") } else { path.clone() };
            if page != index && !listed.contains(&page) {
                missing.push(format!("{} lacks {}", index.display(), page.display()));
            }
            folders.extend(Some(path).filter(|path| path.is_dir()));
        }
    }
    assert!(missing.is_empty(), "documents that no index lists:\n{}", missing.join("\n"));
}

#[test]
fn documents_wrap_at_one_width() {
    let mut wrong = Vec::new();
    for (path, text) in documents() {
        let lines = wide_lines(&text).into_iter();
        wrong.extend(lines.map(|line| format!("{}:{line}", path.display())));
    }
    assert!(wrong.is_empty(), "lines of more than {WIDTH} characters:\n{}", wrong.join("\n"));
}

/// Readers of the repository do not have the issues.
#[test]
fn texts_name_no_issues_by_number() {
    let mut found = Vec::new();
    for path in texts() {
        let text = fs::read_to_string(&path).expect("UTF-8");
        let lines = (1..).zip(text.lines()).filter(|(_, line)| names_an_issue(line));
        found.extend(lines.map(|(number, line)| format!("{}:{number}: {line}", path.display())));
    }
    assert!(found.is_empty(), "say what was asked for:\n{}", found.join("\n"));
}

fn names_an_issue(line: &str) -> bool {
    let line = line.to_ascii_lowercase();
    let mut after = line.split("issue ").skip(1);
    after.any(|rest| rest.trim_start_matches('#').starts_with(|c: char| c.is_ascii_digit()))
}

#[test]
fn the_change_log_is_short() {
    let text = fs::read_to_string(workspace().join("CHANGELOG.md")).expect("CHANGELOG.md is there");
    let versions = text.split("\n## ").skip(1);
    let long: Vec<_> =
        versions.filter(|text| text.lines().count() > 60).filter_map(|text| text.lines().next()).collect();
    assert!(long.is_empty(), "versions with more than 60 lines, which git has: {long:?}");
}

#[test]
fn wide_lines_are_found_where_they_can_be_broken() {
    let (wide, link) = ("word ".repeat(30), format!("[a]({})", "b".repeat(120)));
    let text = format!("{wide}\n| {wide}|\n    {wide}\n```\n{wide}\n```\n- {link}\n{link}, b\n");
    assert_eq!(wide_lines(&text), [1, 8]);
}

/// The numbers of the lines that are too wide. Tables, code and pictures cannot be broken, nor can a single word such as
/// a link.
fn wide_lines(text: &str) -> Vec<usize> {
    let (mut found, mut is_code) = (Vec::new(), false);
    for (number, line) in (1..).zip(text.lines()) {
        let content = line.trim_start();
        is_code ^= content.starts_with("```");
        let stays =
            is_code || line.starts_with("    ") || content.starts_with('|') || content.starts_with("![");
        let is_word = !content.trim_start_matches("- ").contains(' ');
        if line.chars().count() > WIDTH && !stays && !is_word {
            found.push(number);
        }
    }
    found
}

#[test]
fn keys_are_words_and_a_year() {
    let text = "(made-up-1999, 4.1) Nobody-2031's, as-relationships-2011-01-16.txt, RFC-2013x, -2013";
    assert_eq!(keys(text).collect::<Vec<_>>(), MADE_UP.map(|key| key.to_owned()));
}

/// The keys in a text by which sources are cited: words and a year with hyphens between them. At the start of a sentence
/// a key may begin with a capital.
fn keys(text: &str) -> impl Iterator<Item = String> {
    let tokens = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'));
    let keys = tokens.filter(|token| {
        let Some((words, year)) = token.rsplit_once('-') else { return false };
        let is_year = year.len() == 4 && (year.starts_with("19") || year.starts_with("20"));
        is_year
            && year.chars().all(|c| c.is_ascii_digit())
            && words.starts_with(|c: char| c.is_ascii_alphabetic())
            && words.chars().all(|c| c.is_ascii_alphabetic() || c == '-')
    });
    keys.map(str::to_ascii_lowercase)
}

/// Every file that may cite a source.
fn texts() -> Vec<PathBuf> {
    const ENDINGS: [&str; 9] = ["rs", "c", "h", "md", "toml", "tsv", "json", "py", "sh"];
    let mut folders =
        ["bpf", "contrib", "crates", "docs", "fuzz", "labs"].map(|name| workspace().join(name)).to_vec();
    let mut texts: Vec<PathBuf> = documents().into_iter().map(|(path, _)| path).collect();
    while let Some(folder) = folders.pop() {
        let entries =
            fs::read_dir(folder).expect("a folder of the sources").map(|entry| entry.expect("readable"));
        for path in entries.map(|entry| entry.path()) {
            let is_made = path.ends_with("target") || path.ends_with("node_modules");
            match path.is_dir() {
                true => folders.extend(Some(path).filter(|_| !is_made)),
                false if path.extension().is_some_and(|end| ENDINGS.iter().any(|known| end == *known)) => {
                    texts.push(path);
                }
                false => {}
            }
        }
    }
    texts
}

/// A test's name says a sentence: several words of lower-case letters and digits.
fn is_test_name(text: &str) -> bool {
    text.matches('_').count() >= 3
        && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

/// The documents and their texts.
fn documents() -> Vec<(PathBuf, String)> {
    let folders =
        ["", "docs", "docs/decisions", "docs/results", "labs"].map(|folder| workspace().join(folder));
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
        let is_name = |word: &String| {
            !word.starts_with('-') && word.chars().all(|c| c.is_ascii_lowercase() || c == '-')
        };
        let is_name = path.iter().all(is_name);
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
