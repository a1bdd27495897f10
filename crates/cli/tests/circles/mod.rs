//! Finds circles of modules within a crate, by reading its sources.
//!
//! The rule: among the children of one module, "uses" has no circle. A child uses its sibling when anything in or below
//! the child names anything in or below the sibling, in a `use` or in a path that begins with `crate`, `super` or `self`.
//! A name that a module re-exports counts as the place that it comes from. A module may use its descendants and what its
//! ancestors define themselves: that is what they are nested for. Tests may use everything.

pub mod hidden;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use crate::sources::rust_files;

/// A path from the crate's root, its name first.
type Names = Vec<String>;

/// A module's `use` statements as (path, name in this module), and its other paths.
type Statements = (Vec<(Names, String)>, Vec<Names>);

/// Modules of one parent that use each other in a circle.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Circle {
    /// The parent's path, as `driver::files`.
    pub parent: String,
    pub members: BTreeSet<String>,
}

/// The circles in the sources below `folder`, which are those of the crate `name`.
pub fn circles(name: &str, folder: &Path) -> Vec<Circle> {
    let sources = Sources::read(name, folder);
    let mut uses: BTreeMap<Names, BTreeMap<String, BTreeSet<String>>> = BTreeMap::new();
    for (module, path) in sources.paths() {
        let target = sources.resolve(path, 0);
        let common = module.iter().zip(&target).take_while(|(one, other)| one == other).count();
        // Nothing is said of a module and those that it is nested in.
        if let (Some(child), Some(sibling)) = (module.get(common), target.get(common)) {
            let siblings = uses.entry(module[..common].to_vec()).or_default();
            siblings.entry(child.clone()).or_default().insert(sibling.clone());
        }
    }
    uses.iter().flat_map(|(parent, uses)| circles_among(&parent.join("::"), uses)).collect()
}

fn circles_among(parent: &str, uses: &BTreeMap<String, BTreeSet<String>>) -> Vec<Circle> {
    let reached: BTreeMap<_, _> = uses.keys().map(|child| (child, reached_from(child, uses))).collect();
    let reaches = |from: &String, to: &String| reached.get(from).is_some_and(|all| all.contains(to));
    let mut circles = BTreeSet::new();
    for child in uses.keys().filter(|child| reaches(child, child)) {
        let members = reached[child].iter().filter(|other| reaches(other, child)).cloned().collect();
        circles.insert(Circle { parent: parent.to_owned(), members });
    }
    circles.into_iter().collect()
}

/// All that a module uses, and what that uses, and so on.
fn reached_from(start: &String, uses: &BTreeMap<String, BTreeSet<String>>) -> BTreeSet<String> {
    let mut reached = BTreeSet::new();
    let mut left = vec![start];
    while let Some(next) = left.pop() {
        left.extend(uses.get(next).into_iter().flatten().filter(|used| reached.insert((*used).clone())));
    }
    reached
}

/// What the files of a crate say.
struct Sources {
    crate_name: String,
    /// What each module says, tests left out.
    modules: BTreeMap<Names, Statements>,
    /// Where names come from that modules have by `use`.
    imported: BTreeMap<Names, Names>,
}

impl Sources {
    fn read(name: &str, folder: &Path) -> Self {
        let mut texts = BTreeMap::new();
        for file in rust_files(folder) {
            let text = std::fs::read_to_string(&file).expect("a source file is readable");
            let below = file.strip_prefix(folder).expect("it is below").with_extension("");
            let mut module = vec![name.to_owned()];
            module.extend(below.iter().map(|part| part.to_string_lossy().into_owned()));
            if module.last().is_some_and(|last| ["mod", "lib", "main"].contains(&last.as_str())) {
                module.pop();
            }
            texts.insert(module, text);
        }
        let mut tests = BTreeSet::new();
        let mut statements_of = BTreeMap::new();
        for (module, text) in texts {
            let blank = hidden::blank(&text);
            let (code, names) = hidden::without_tests(&tokens(&blank));
            tests.extend(names.into_iter().map(|name| [&module[..], &[name.to_owned()]].concat()));
            statements_of.insert(module, statements(&code));
        }
        statements_of.retain(|module, _| !tests.iter().any(|test: &Names| module.starts_with(test)));
        let modules = statements_of;
        let mut sources = Self { crate_name: name.to_owned(), modules, imported: BTreeMap::new() };
        for (module, (uses, _)) in &sources.modules {
            for (path, name) in uses {
                if let Some(path) = sources.absolute(module, path) {
                    sources.imported.insert([&module[..], std::slice::from_ref(name)].concat(), path);
                }
            }
        }
        sources
    }

    /// Every path that names something of this crate, with the module that it stands in.
    fn paths(&self) -> impl Iterator<Item = (&Names, Names)> {
        self.modules.iter().flat_map(move |(module, (uses, paths))| {
            let all = uses.iter().map(|(path, _)| path).chain(paths);
            all.filter_map(move |path| Some((module, self.absolute(module, path)?)))
        })
    }

    /// A path from the crate's root; none for one into another crate.
    fn absolute(&self, module: &Names, path: &[String]) -> Option<Names> {
        let ups = path.iter().take_while(|name| *name == "super").count();
        let (start, rest) = match path.first()?.as_str() {
            "crate" => (vec![self.crate_name.clone()], &path[1..]),
            "self" => (module.clone(), &path[1..]),
            "super" => (module.get(..module.len().checked_sub(ups)?)?.to_vec(), &path[ups..]),
            child if self.modules.contains_key(&[&module[..], &[child.to_owned()]].concat()) => {
                (module.clone(), path)
            }
            _ => return None,
        };
        Some([&start[..], rest].concat().into_iter().filter(|name| name != "self").collect())
    }

    /// The module that a path leads to, through names that others have by `use`.
    fn resolve(&self, path: Names, depth: usize) -> Names {
        let is_module = |len: &usize| self.modules.contains_key(&path[..*len]);
        let len = (1..=path.len()).rev().find(is_module).unwrap_or(0);
        match self.imported.get(path.get(..len + 1).unwrap_or_default()) {
            Some(from) if depth < 8 && !from.starts_with(&path[..len + 1]) => {
                self.resolve([&from[..], &path[len + 1..]].concat(), depth + 1)
            }
            _ => path[..len].to_vec(),
        }
    }
}

/// The `use` statements of a module, and other paths in it that begin with `crate`, `super` or `self`.
fn statements(code: &[&str]) -> Statements {
    let (mut uses, mut others) = (Vec::new(), Vec::new());
    let mut rest = code;
    while let Some((first, behind)) = rest.split_first() {
        // `use<'a>` says what a type holds.
        if *first != "use" || behind.first() == Some(&"<") {
            others.push(*first);
            rest = behind;
            continue;
        }
        let len = behind.iter().take_while(|token| **token != ";").count();
        expand(&[], &mut behind[..len].iter().copied().peekable(), &mut uses);
        rest = behind.get(len + 1..).unwrap_or_default();
    }
    (uses, inline_paths(&others))
}

/// Words, `::`, and single signs.
fn tokens(code: &str) -> Vec<&str> {
    let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
    let mut tokens = Vec::new();
    let mut rest = code.trim_start();
    while let Some(first) = rest.chars().next() {
        let len = match rest.find(|letter| !is_word(letter)).unwrap_or(rest.len()) {
            0 if rest.starts_with("::") => 2,
            0 => first.len_utf8(),
            len => len,
        };
        tokens.push(&rest[..len]);
        rest = rest[len..].trim_start();
    }
    tokens
}

/// Adds the paths of a tree of names, as a `use` statement has it.
fn expand<'a>(
    prefix: &[String],
    tokens: &mut std::iter::Peekable<impl Iterator<Item = &'a str>>,
    paths: &mut Vec<(Names, String)>,
) {
    let mut path = prefix.to_vec();
    while let Some(token) = tokens.next() {
        match token {
            "{" => {
                while tokens.peek().is_some_and(|next| *next != "}") {
                    expand(&path, tokens, paths);
                    tokens.next_if_eq(&",");
                }
                tokens.next();
                return;
            }
            "::" => {}
            name => path.push(name.to_owned()),
        }
        if tokens.next_if_eq(&"as").is_some() {
            paths.push((path, tokens.next().unwrap_or_default().to_owned()));
            return;
        }
        if token != "::" && tokens.peek() != Some(&"::") {
            let name = path.iter().rev().find(|name| *name != "self").cloned().unwrap_or_default();
            paths.push((path, name));
            return;
        }
    }
}

fn inline_paths(tokens: &[&str]) -> Vec<Names> {
    let mut paths = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        let begins = ["crate", "super", "self"].contains(token) && (at == 0 || tokens[at - 1] != "::");
        if begins && tokens.get(at + 1) == Some(&"::") {
            let pairs = tokens[at + 1..].chunks(2).take_while(|pair| pair.len() == 2 && pair[0] == "::");
            let names = pairs.map(|pair| pair[1].to_owned());
            paths.push(std::iter::once((*token).to_owned()).chain(names).collect());
        }
    }
    paths
}
