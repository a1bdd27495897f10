//! The language that selects hosts by their names, tags and facts: `site=kiel and not role=router`.
//!
//! ```text
//! selection = part { ("or" | ",") part }
//! part      = term { ["and"] term }
//! term      = "not" term | "(" selection ")" | "all" | "group:" NAME | NAME | KEY OPERATOR VALUE
//! OPERATOR  = "=" | "!=" | "<" | "<=" | ">" | ">="
//! ```
//!
//! A name and a value of `=` and `!=` may have the wildcards `*` and `?`. `<` and its like compare numbers, which may have a suffix
//! (`memory>4G`), and versions. A key is a tag or a fact; where both have it, the tag counts.

use std::{collections::BTreeMap, fmt, str::FromStr};

use glob::Pattern;
use thiserror::Error;
use treecast_host::quantity;

/// A selection of hosts.
#[derive(Debug, Clone, PartialEq)]
pub struct Selection {
    text: String,
    root: Term,
}

#[derive(Debug, Clone, PartialEq)]
enum Term {
    All,
    Name(Pattern),
    Group(String),
    Is(String, Pattern),
    Compares(String, Order, String),
    Not(Box<Term>),
    And(Vec<Term>),
    Or(Vec<Term>),
}

/// A comparison of two values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// The reason why a text is no selection.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SelectionError {
    #[error("the selection ends where {expected} is expected: {text}")]
    Ends { text: String, expected: &'static str },
    #[error("the selection has {found:?} where {expected} is expected: {text}")]
    Unexpected { text: String, found: String, expected: &'static str },
    #[error("{pattern:?} is no pattern: {why}")]
    Pattern { pattern: String, why: &'static str },
    #[error("the selection is nested more than {MAX_DEPTH} times")]
    TooDeep,
    #[error(
        "the selection has {0} letters, and may have {MAX_LEN}: save parts of it as groups (`treecast fleet groups add`)"
    )]
    TooLong(usize),
    #[error("there is no group {0}: `treecast fleet groups` lists them")]
    NoGroup(String),
    #[error("the group {0} contains itself")]
    Circle(String),
}

/// The most letters of a selection.
const MAX_LEN: usize = 4096;
/// The most parentheses and negations around a term, and the most groups inside each other.
const MAX_DEPTH: usize = 32;

/// A host, as a selection sees it.
pub trait Subject {
    fn name(&self) -> &str;

    /// Returns the value of a tag or a fact; `None` where the host has none of that name.
    fn value(&self, key: &str) -> Option<String>;
}

/// The groups that are known, by name.
pub type Groups = BTreeMap<String, Selection>;

impl Selection {
    /// Whether a host is selected.
    ///
    /// # Errors
    /// If the selection names a group that is not there, or that contains itself.
    pub fn selects(&self, subject: &dyn Subject, groups: &Groups) -> Result<bool, SelectionError> {
        self.root.selects(subject, groups, 0)
    }
}

impl Term {
    fn selects(&self, subject: &dyn Subject, groups: &Groups, depth: usize) -> Result<bool, SelectionError> {
        Ok(match self {
            Self::All => true,
            Self::Name(pattern) => pattern.matches(subject.name()),
            Self::Group(name) => {
                let group = groups.get(name).ok_or_else(|| SelectionError::NoGroup(name.clone()))?;
                if depth >= MAX_DEPTH {
                    return Err(SelectionError::Circle(name.clone()));
                }
                group.root.selects(subject, groups, depth + 1)?
            }
            Self::Is(key, pattern) => subject.value(key).is_some_and(|value| pattern.matches(&value)),
            Self::Compares(key, order, than) => {
                subject.value(key).is_some_and(|value| order.holds(&value, than))
            }
            Self::Not(node) => !node.selects(subject, groups, depth)?,
            Self::And(nodes) => {
                let mut all = true;
                for node in nodes {
                    // Each part is looked at, so that a group that is not there is always told.
                    all &= node.selects(subject, groups, depth)?;
                }
                all
            }
            Self::Or(nodes) => {
                let mut any = false;
                for node in nodes {
                    any |= node.selects(subject, groups, depth)?;
                }
                any
            }
        })
    }
}

impl Order {
    fn holds(self, value: &str, than: &str) -> bool {
        let Some(found) = compare(value, than) else { return false };
        match self {
            Self::Less => found.is_lt(),
            Self::LessOrEqual => found.is_le(),
            Self::Greater => found.is_gt(),
            Self::GreaterOrEqual => found.is_ge(),
        }
    }
}

/// Compares two numbers, or two versions. `None` where one of them is neither.
fn compare(one: &str, other: &str) -> Option<std::cmp::Ordering> {
    let number = |text: &str| quantity::size_bytes(text, 0..=u64::MAX).ok().map(|size| size as f64);
    let number = |text: &str| text.parse::<f64>().ok().or_else(|| number(text));
    if let (Some(one), Some(other)) = (number(one), number(other)) {
        return one.partial_cmp(&other);
    }
    let version =
        |text: &str| -> Option<Vec<u64>> { text.split(['.', '-']).map(|part| part.parse().ok()).collect() };
    Some(version(one)?.cmp(&version(other)?))
}

impl fmt::Display for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for Selection {
    type Err = SelectionError;

    fn from_str(text: &str) -> Result<Self, SelectionError> {
        if text.len() > MAX_LEN {
            return Err(SelectionError::TooLong(text.len()));
        }
        let mut parser = Parser { text, rest: text, depth: 0 };
        let root = parser.selection()?;
        match parser.word() {
            None => Ok(Self { text: text.trim().to_owned(), root }),
            Some(found) => Err(parser.unexpected(found, "the end, \"and\" or \"or\"")),
        }
    }
}

struct Parser<'t> {
    text: &'t str,
    rest: &'t str,
    depth: usize,
}

/// What a term may begin with, for messages.
const TERM: &str = "a name, KEY=VALUE, \"not\", \"all\" or \"(\"";

impl<'t> Parser<'t> {
    fn selection(&mut self) -> Result<Term, SelectionError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(SelectionError::TooDeep);
        }
        let mut parts = vec![self.part()?];
        while matches!(self.peek(), Some("or" | ",")) {
            self.word();
            parts.push(self.part()?);
        }
        self.depth -= 1;
        Ok(one_or(parts, Term::Or))
    }

    fn part(&mut self) -> Result<Term, SelectionError> {
        let mut terms = vec![self.term()?];
        loop {
            match self.peek() {
                Some("and") => _ = self.word(),
                None | Some("or" | "," | ")") => return Ok(one_or(terms, Term::And)),
                Some(_) => {}
            }
            terms.push(self.term()?);
        }
    }

    fn term(&mut self) -> Result<Term, SelectionError> {
        let ends = || SelectionError::Ends { text: self.text.to_owned(), expected: TERM };
        match self.word().ok_or_else(ends)? {
            "not" => {
                self.depth += 1;
                if self.depth > MAX_DEPTH {
                    return Err(SelectionError::TooDeep);
                }
                let node = Term::Not(Box::new(self.term()?));
                self.depth -= 1;
                Ok(node)
            }
            "(" => {
                let inner = self.selection()?;
                match self.word() {
                    Some(")") => Ok(inner),
                    Some(found) => Err(self.unexpected(found, "\")\"")),
                    None => Err(SelectionError::Ends { text: self.text.to_owned(), expected: "\")\"" }),
                }
            }
            "all" => Ok(Term::All),
            found @ (")" | "and" | "or" | "," | "=" | "!=" | "<" | "<=" | ">" | ">=") => {
                Err(self.unexpected(found, TERM))
            }
            name => self.named(name),
        }
    }

    /// Reads what follows a name or a key.
    fn named(&mut self, name: &'t str) -> Result<Term, SelectionError> {
        let operator = match self.peek() {
            Some(operator @ ("=" | "!=" | "<" | "<=" | ">" | ">=")) => operator,
            _ => {
                return match name.strip_prefix("group:") {
                    Some(group) => Ok(Term::Group(group.to_owned())),
                    None => pattern(name).map(Term::Name),
                };
            }
        };
        self.word();
        let ends = || SelectionError::Ends { text: self.text.to_owned(), expected: "a value" };
        let value = self.word().ok_or_else(ends)?;
        let key = name.to_owned();
        let compares = |order| Ok(Term::Compares(key.clone(), order, value.to_owned()));
        match operator {
            "=" => pattern(value).map(|value| Term::Is(key, value)),
            "!=" => pattern(value).map(|value| Term::Not(Box::new(Term::Is(key, value)))),
            "<" => compares(Order::Less),
            "<=" => compares(Order::LessOrEqual),
            ">" => compares(Order::Greater),
            _ => compares(Order::GreaterOrEqual),
        }
    }

    fn peek(&self) -> Option<&'t str> {
        Parser { text: self.text, rest: self.rest, depth: 0 }.word()
    }

    /// Takes the next word: an operator, a parenthesis, a text in quotes, or what stands before the next of these.
    fn word(&mut self) -> Option<&'t str> {
        let rest = self.rest.trim_start();
        let len = match rest.bytes().next()? {
            b'"' => {
                let len = rest[1..].find('"').unwrap_or(rest.len() - 1);
                self.rest = rest[1 + len..].strip_prefix('"').unwrap_or("");
                return Some(&rest[1..1 + len]);
            }
            b'(' | b')' | b',' | b'=' => 1,
            b'<' | b'>' => 1 + usize::from(rest[1..].starts_with('=')),
            b'!' if rest[1..].starts_with('=') => 2,
            _ => {
                let end = |letter: char| letter.is_whitespace() || "()=<>!,\"".contains(letter);
                // A lone "!" is a word, too, so that each call takes something.
                rest.find(end).unwrap_or(rest.len()).max(rest.chars().next()?.len_utf8())
            }
        };
        let (word, rest) = rest.split_at(len);
        self.rest = rest;
        Some(word)
    }

    fn unexpected(&self, found: &str, expected: &'static str) -> SelectionError {
        SelectionError::Unexpected { text: self.text.to_owned(), found: found.to_owned(), expected }
    }
}

fn one_or(mut nodes: Vec<Term>, many: fn(Vec<Term>) -> Term) -> Term {
    match nodes.len() {
        1 => nodes.remove(0),
        _ => many(nodes),
    }
}

fn pattern(text: &str) -> Result<Pattern, SelectionError> {
    Pattern::new(text).map_err(|error| SelectionError::Pattern { pattern: text.to_owned(), why: error.msg })
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Host(&'static str, &'static [(&'static str, &'static str)]);

    impl Subject for Host {
        fn name(&self) -> &str {
            self.0
        }

        fn value(&self, key: &str) -> Option<String> {
            self.1.iter().find(|(name, _)| *name == key).map(|(_, value)| (*value).to_owned())
        }
    }

    const HOSTS: [Host; 4] = [
        Host("r1", &[("site", "kiel"), ("role", "router"), ("memory", "1000000000"), ("version", "0.9.12")]),
        Host("c1", &[("site", "kiel"), ("role", "client"), ("memory", "8000000000"), ("version", "0.10.0")]),
        Host("c2", &[("site", "bonn"), ("role", "client"), ("memory", "4294967296")]),
        Host("spare", &[]),
    ];

    fn selected(text: &str, groups: &Groups) -> Result<Vec<&'static str>, SelectionError> {
        let selection: Selection = text.parse()?;
        let mut names = Vec::new();
        for host in &HOSTS {
            if selection.selects(host, groups)? {
                names.push(host.0);
            }
        }
        Ok(names)
    }

    #[test]
    fn hosts_are_selected_by_names_tags_facts_and_groups() {
        let groups: Groups = [("clients", "role=client"), ("near", "group:clients and site=kiel")]
            .map(|(name, text)| (name.to_owned(), text.parse().unwrap()))
            .into();
        for (text, names) in [
            ("all", &["r1", "c1", "c2", "spare"][..]),
            ("c*", &["c1", "c2"]),
            ("site=kiel and not role=router", &["c1"]),
            ("site=kiel role=client", &["c1"]),
            ("site!=kiel", &["c2", "spare"]),
            ("r1, spare", &["r1", "spare"]),
            ("r1 or c? and site=bonn", &["r1", "c2"]),
            ("(r1 or c?) and site=\"bonn\"", &["c2"]),
            ("memory>=4G", &["c1", "c2"]),
            ("version<0.10", &["r1"]),
            ("group:near", &["c1"]),
            ("not group:clients", &["r1", "spare"]),
            ("not not c1", &["c1"]),
        ] {
            assert_eq!(selected(text, &groups).unwrap(), names, "{text}");
        }
    }

    #[test]
    fn what_is_no_selection_is_told_with_the_word_that_is_wrong() {
        let none = Groups::new();
        let refused = |text: &str| selected(text, &none).unwrap_err().to_string();
        for (text, says) in [
            ("", "ends where a name"),
            ("site=", "ends where a value is expected: site="),
            ("a and", "ends where a name"),
            ("(a or b", "\")\" is expected"),
            ("a) b", "has \")\""),
            ("= b", "has \"=\""),
            ("x[", "is no pattern"),
            ("group:none", "there is no group none: `treecast fleet groups` lists them"),
            (&"(".repeat(100_000), "may have 4096"),
            (&"(".repeat(4_000), "nested more than 32"),
            (&"not ".repeat(1_000), "nested more than 32"),
        ] {
            assert!(refused(text).contains(says), "{text:.40}: {}", refused(text));
        }
        let circle: Groups = [("a", "group:b"), ("b", "not group:a")]
            .map(|(name, text)| (name.to_owned(), text.parse().unwrap()))
            .into();
        assert!(selected("group:a", &circle).unwrap_err().to_string().contains("contains itself"));
    }

    #[test]
    fn any_text_is_read_to_its_end() {
        for text in ["!", "!!=", "a!b", "\"open", "ä=ö", "a=!", "<>", "=="] {
            _ = text.parse::<Selection>();
        }
    }
}
