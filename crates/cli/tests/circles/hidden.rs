//! Finds circles that no import shows: files whose `impl` blocks of one type call each other's methods. A call on `self` needs no
//! import, so a type whose methods are spread over many files can be one circle, and reach all of its state from each of them.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use super::{reached_from, tokens};
use crate::sources::rust_files;

/// A type with `impl` blocks in three files or more.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Spread {
    /// The file that defines it and its name, as `driver/src/send/session.rs: Session`.
    pub name: String,
    /// The number of calls from one file to another.
    pub calls: usize,
    /// The number of files in the largest circle. 1: there is none.
    pub circle: usize,
}

/// The text between the braces of a type's `impl` blocks, as tokens, by file.
type Bodies = BTreeMap<String, Vec<String>>;

/// The types of a crate that are spread over three files or more. `folder` is the crate's.
pub fn spread(crate_name: &str, folder: &Path) -> Vec<Spread> {
    let mut codes = BTreeMap::new();
    for file in rust_files(&folder.join("src")) {
        let below = file.strip_prefix(folder).expect("it is below").to_string_lossy().into_owned();
        if !below.contains("/tests/") && !below.ends_with("/tests.rs") {
            let text = std::fs::read_to_string(&file).expect("a source file is readable");
            let blank = blank(&text);
            let (code, _) = without_tests(&tokens(&blank));
            let code: Vec<String> = code.into_iter().map(str::to_owned).collect();
            codes.insert(format!("{crate_name}/{below}"), code);
        }
    }
    let mut types: BTreeMap<String, Bodies> = BTreeMap::new();
    for (path, code) in &codes {
        for (name, body) in impls(code) {
            if let Some(home) = home(&name, path, &codes) {
                let bodies = types.entry(format!("{home}: {name}")).or_default();
                bodies.entry(path.clone()).or_default().extend_from_slice(body);
            }
        }
    }
    let spread = types.into_iter().filter(|(_, bodies)| bodies.len() >= 3);
    spread.map(|(name, bodies)| judge(name, &bodies)).collect()
}

fn judge(name: String, bodies: &Bodies) -> Spread {
    let methods: BTreeMap<&String, &String> = bodies
        .iter()
        .flat_map(|(file, body)| body.windows(2).map(move |pair| (pair, file)))
        .filter(|(pair, _)| pair[0] == "fn")
        .map(|(pair, file)| (&pair[1], file))
        .collect();
    let (mut uses, mut calls) = (BTreeMap::<String, BTreeSet<String>>::new(), 0);
    for (file, body) in bodies {
        for call in body.windows(4).filter(|four| four[0] == "self" && four[1] == "." && four[3] == "(") {
            if let Some(other) = methods.get(&call[2]).filter(|other| **other != file) {
                uses.entry(file.clone()).or_default().insert((*other).clone());
                calls += 1;
            }
        }
    }
    let reached: BTreeMap<_, _> = bodies.keys().map(|file| (file, reached_from(file, &uses))).collect();
    let circle = |file: &String| reached[file].iter().filter(|other| reached[other].contains(file)).count();
    let circle = bodies.keys().map(circle).max().unwrap_or_default().max(1);
    Spread { name, calls, circle }
}

/// The `impl` blocks of types, without those of traits: the type's name, and what is between the braces.
fn impls(code: &[String]) -> Vec<(String, &[String])> {
    let mut impls = Vec::new();
    for (at, _) in code.iter().enumerate().filter(|(_, token)| *token == "impl") {
        let after_generics = |at: usize| match code.get(at).map(String::as_str) {
            Some("<") => at + code[at..].iter().take_while(|token| *token != ">").count() + 1,
            _ => at,
        };
        let name = after_generics(at + 1);
        let open = after_generics(name + 1);
        let is_type = code.get(name).is_some_and(|name| name.starts_with(|first: char| first.is_uppercase()));
        if is_type && code.get(open).is_some_and(|token| token == "{") {
            let end = end_of(code, open);
            impls.push((code[name].clone(), &code[open + 1..end]));
        }
    }
    impls
}

/// The file that defines the type which a file calls by this name: the nearest one above it or beside it.
fn home(name: &str, path: &str, codes: &BTreeMap<String, Vec<String>>) -> Option<String> {
    let defines = |code: &[String]| {
        code.windows(2).any(|pair| (pair[0] == "struct" || pair[0] == "enum") && pair[1] == name)
    };
    let is_near = |home: &str| {
        let folder = &home[..home.rfind('/').map_or(0, |at| at + 1)];
        path == home || path.starts_with(folder)
    };
    let homes = codes.iter().filter(|(home, code)| is_near(home) && defines(code));
    homes.map(|(home, _)| home.clone()).max_by_key(String::len)
}

/// The place of the brace that closes the one at `open`.
fn end_of<T: AsRef<str>>(code: &[T], open: usize) -> usize {
    let mut depth = 0;
    for (at, token) in code.iter().enumerate().skip(open) {
        match token.as_ref() {
            "{" => depth += 1,
            "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at;
        }
    }
    code.len()
}

/// The code without items for tests alone, and the names of modules in files that are such.
pub(super) fn without_tests<'a>(code: &[&'a str]) -> (Vec<&'a str>, Vec<&'a str>) {
    let (mut kept, mut names, mut at) = (Vec::new(), Vec::new(), 0);
    while at < code.len() {
        let rest = &code[at..];
        let is_test = rest.starts_with(&["#", "[", "cfg", "(", "test", ")"])
            || rest.starts_with(&["#", "[", "cfg", "(", "all", "(", "test"]);
        if !is_test {
            kept.push(code[at]);
            at += 1;
            continue;
        }
        let end = at + rest.iter().take_while(|token| !["{", ";"].contains(*token)).count();
        if let [.., "mod", name] = code[at..end] {
            names.push(name);
        }
        at = if code.get(end) == Some(&"{") { end_of(code, end) + 1 } else { end + 1 };
    }
    (kept, names)
}

/// The code with spaces in place of comments, strings and characters.
pub(super) fn blank(text: &str) -> String {
    let mut code = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let len = match first {
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => rest.find("*/").map_or(rest.len(), |at| at + 2),
            '"' => quoted(rest),
            'r' if !code.ends_with(is_word) => raw_string(rest).unwrap_or(0),
            '\'' => character(rest).unwrap_or(0),
            _ => 0,
        };
        let (gone, left) = rest.split_at(len);
        code.extend(gone.chars().map(|letter| if letter == '\n' { '\n' } else { ' ' }));
        rest = left;
        if len == 0 {
            code.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    code
}

fn is_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// The length of the string that `rest` begins with.
fn quoted(rest: &str) -> usize {
    let mut is_escaped = true;
    for (at, letter) in rest.char_indices() {
        match letter {
            '"' if !is_escaped => return at + 1,
            '\\' if !is_escaped => is_escaped = true,
            _ => is_escaped = false,
        }
    }
    rest.len()
}

/// The length of the raw string that `rest` begins with.
fn raw_string(rest: &str) -> Option<usize> {
    let hashes = rest[1..].chars().take_while(|letter| *letter == '#').count();
    let inside = rest[1 + hashes..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    Some(2 + hashes + inside.find(&end)? + end.len())
}

/// The length of the character that `rest` begins with, which may be a lifetime.
fn character(rest: &str) -> Option<usize> {
    let mut letters = rest.char_indices().skip(1);
    match letters.next()?.1 {
        '\\' => Some(2 + rest[2..].char_indices().skip(1).find(|(_, letter)| *letter == '\'')?.0 + 1),
        _ => letters.next().filter(|(_, letter)| *letter == '\'').map(|(at, _)| at + 1),
    }
}
