//! Rules of a feed: on which terms files are sent, by their names.

use std::{collections::BTreeSet, path::Path, time::Duration};

use serde::Deserialize;
use treecast::unstable::options::{NameFilter, Rule, Terms};
use treecast_host::text;

use crate::{arguments, receive::parse_pattern, toml_lines};

/// The longest file of rules, in bytes.
const MAX_FILE: u64 = 1 << 20;

/// The largest factor for the time of retransmissions.
const MOST_FACTOR: f64 = 1e6;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default, rename = "rule")]
    rules: Vec<Table>,
}

/// A rule as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    /// A pattern of names.
    names: String,
    #[serde(default)]
    priority: i32,
    expires: Option<Time>,
    #[serde(alias = "retx-factor")]
    retx_factor: Option<f64>,
}

/// A time as it is written: a text, or a number of seconds.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Time {
    Text(String),
    Number(i64),
}

impl Time {
    fn duration(&self) -> Result<Duration, String> {
        let text = match self {
            Self::Text(text) => text.clone(),
            Self::Number(number) => number.to_string(),
        };
        arguments::duration(&text).map_err(|error| error.to_string())
    }
}

/// A rule with its pattern as it is written.
#[derive(Debug, Clone)]
pub(super) struct WrittenRule {
    names: String,
    rule: Rule,
}

/// The rules in their order.
///
/// # Errors
/// If one of them can never count, because one before it has the same pattern.
pub(super) fn in_order(written: Vec<WrittenRule>) -> Result<Vec<Rule>, String> {
    let mut seen = BTreeSet::new();
    if let Some(second) = written.iter().find(|rule| !seen.insert(rule.names.as_str())) {
        let names = &second.names;
        return Err(format!(
            "two rules are for {names:?}, and only the first one would count: leave one out"
        ));
    }
    Ok(written.into_iter().map(|written| written.rule).collect())
}

impl Table {
    fn rule(self) -> Result<WrittenRule, String> {
        let pattern = parse_pattern(&self.names).map_err(|error| format!("names: {error}"))?;
        let expires_after = self.expires.as_ref().map(Time::duration).transpose();
        let factor = self.retx_factor;
        if factor.is_some_and(|factor| !(0.0..=MOST_FACTOR).contains(&factor)) {
            return Err(format!("retx_factor: expected a number from 0 to {MOST_FACTOR}"));
        }
        let mut terms = Terms::default();
        terms.priority = self.priority;
        terms.expires_after = expires_after.map_err(|error| format!("expires: {error}"))?;
        terms.retransmission_timeout_factor = factor;
        let rule = Rule::new(NameFilter::new(move |name| pattern.matches(name)), terms);
        Ok(WrittenRule { names: self.names, rule })
    }
}

/// Parses a rule of the command line: `GLOB:priority=10,expires=10m,retx-factor=5`.
pub(super) fn parse(text: &str) -> Result<WrittenRule, String> {
    const EXPECTED: &str =
        "expected a pattern and terms, like 'radar/*:priority=10,expires=10m,retx-factor=5'";
    let (names, terms) = text.rsplit_once(':').ok_or(EXPECTED)?;
    let mut table = Table { names: names.to_owned(), priority: 0, expires: None, retx_factor: None };
    let mut given = BTreeSet::new();
    for term in terms.split(',') {
        if let Some((name, _)) = term.split_once('=')
            && !given.insert(name)
        {
            return Err(format!("{name} is given twice: leave one out"));
        }
        match term.split_once('=').ok_or(EXPECTED)? {
            ("priority", number) => {
                let number =
                    number.parse().map_err(|_| "priority: expected a whole number, like 10 or -1")?;
                table.priority = number;
            }
            ("expires", time) => table.expires = Some(Time::Text(time.to_owned())),
            ("retx-factor" | "retx_factor", factor) => {
                table.retx_factor =
                    Some(factor.parse().map_err(|_| "retx-factor: expected a number, like 5")?);
            }
            (other, _) => {
                return Err(format!("{other:?} is no term: the terms are priority, expires and retx-factor"));
            }
        }
    }
    table.rule()
}

/// Reads a file of rules.
///
/// # Errors
/// One line for whatever is wrong first.
pub(super) fn read(path: &Path) -> Result<Vec<WrittenRule>, String> {
    let shown = path.display();
    let content = text::read_written(path, MAX_FILE)
        .map_err(|error| format!("cannot read {shown}: {error}; name a file of rules with --rules"))?;
    let file: File = toml::from_str(&content)
        .map_err(|error| format!("{shown}:{}", toml_lines::describe(&content, &error)))?;
    let rules = (1..).zip(file.rules);
    rules
        .map(|(number, table)| table.rule().map_err(|why| format!("{shown}: rule {number}: {why}")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_has_a_pattern_and_terms() {
        let rule = parse("a:b/*:priority=-3,expires=10m,retx-factor=2.5").unwrap().rule;
        assert!(rule.names.accepts("a:b/c") && !rule.names.accepts("c"));
        let terms = rule.terms;
        assert_eq!((terms.priority, terms.retransmission_timeout_factor), (-3, Some(2.5)));
        assert_eq!(terms.expires_after.unwrap().as_secs(), 600);
        for (wrong, why) in [
            ("*", "like 'radar/*:"),
            ("*:", "like 'radar/*:"),
            ("*:prio=1", "\"prio\" is no term: the terms are priority,"),
            ("*:priority=1,priority=2", "priority is given twice"),
            ("[:priority=1", "names: "),
            ("*:priority=x", "priority: "),
            ("*:expires=0", "expires: expected a time from 1s to 366d"),
            ("*:expires=x", "expires: "),
            ("*:retx-factor=x", "retx-factor: "),
            ("*:retx-factor=-1", "from 0 to"),
            ("*:retx-factor=NaN", "from 0 to"),
        ] {
            let line = parse(wrong).unwrap_err();
            assert!(line.contains(why), "{wrong}: {line}");
        }
    }

    #[test]
    fn a_file_of_rules_says_what_is_wrong_in_one_line() {
        let path = std::env::temp_dir().join(format!("treecast-rules-{}", std::process::id()));
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            read(&path)
        };
        let rules = read("[[rule]]\nnames = \"a\"\npriority = 2\n\n[[rule]]\nnames = \"*\"\n").unwrap();
        let rules = in_order(rules).unwrap();
        assert_eq!((rules.len(), rules[0].terms.priority, rules[1].terms), (2, 2, Terms::default()));
        let twice = in_order(
            ["a:priority=1", "b:priority=1", "a:priority=2"].map(|text| parse(text).unwrap()).to_vec(),
        );
        assert!(twice.unwrap_err().starts_with("two rules are for \"a\""));
        let unknown = read("[[rule]]\nnames = \"a\"\ncolour = 1\n").unwrap_err();
        assert!(unknown.contains(":3: unknown field `colour`"), "{unknown}");
        for time in ["\"x\"", "0", "-5"] {
            let wrong = read(&format!("[[rule]]\nnames = \"a\"\nexpires = {time}\n")).unwrap_err();
            assert!(wrong.contains("rule 1: expires: expected a time") && !wrong.contains('\n'), "{wrong}");
        }
        let factor = in_order(read("[[rule]]\nnames = \"a\"\nretx-factor = 2.5\n").unwrap()).unwrap();
        assert_eq!(factor[0].terms.retransmission_timeout_factor, Some(2.5));
        std::fs::remove_file(&path).unwrap();
    }
}
