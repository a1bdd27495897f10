//! Which announced files a receiver takes, and under which names: `--only`, `--not`, `--max-size` and `--rename`, and the same of
//! the rules of a standing receiver.

use glob::Pattern;
use treecast::{Answer, Offer, unstable::check_name};

/// The placeholder for a file's whole name in a new name.
const WHOLE: &str = "{}";

/// The placeholder for the last part of a file's name.
const LAST: &str = "{name}";

#[derive(Debug, Default)]
pub(super) struct Choices {
    /// Patterns of names, of which one must match. Empty: any name does.
    pub only: Vec<Pattern>,
    /// Patterns of names, of which none may match.
    pub not: Vec<Pattern>,
    /// The size of the largest file, in bytes. `None`: no limit.
    pub max_size: Option<u64>,
    /// New names. The first pattern that matches counts.
    pub renames: Vec<Rename>,
}

impl Choices {
    /// What decides. `None` if everything is taken as it is.
    pub fn into_function(self) -> Option<impl Fn(&Offer<'_>) -> Answer + Send + Sync + 'static> {
        let has_limits = !self.only.is_empty() || !self.not.is_empty() || self.max_size.is_some();
        let decides = has_limits || !self.renames.is_empty();
        decides.then_some(move |offer: &Offer<'_>| self.choose(offer.name(), offer.len()))
    }

    fn choose(&self, name: &str, bytes: u64) -> Answer {
        let is_wanted = self.only.is_empty() || self.only.iter().any(|pattern| pattern.matches(name));
        let is_unwanted = self.not.iter().any(|pattern| pattern.matches(name));
        if !is_wanted || is_unwanted || self.max_size.is_some_and(|most| bytes > most) {
            return Answer::Refuse;
        }
        let rename = self.renames.iter().find(|rename| rename.pattern.matches(name));
        rename.map_or(Answer::Take, |rename| Answer::TakeAs(rename.new_name(name)))
    }
}

/// A new name for files whose names match.
#[derive(Debug, Clone)]
pub(super) struct Rename {
    pattern: Pattern,
    new: String,
}

impl Rename {
    /// Parses `GLOB=NEW`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let expected = || "expected a pattern and a new name, like 'radar/*=archive/{name}'".to_owned();
        let (pattern, new) = text.split_once('=').ok_or_else(expected)?;
        if new.is_empty() {
            return Err(expected());
        }
        if !new.contains(WHOLE) && !new.contains(LAST) && pattern.contains(['*', '?', '[']) {
            return Err(format!(
                "several files would be called {new:?}: put {WHOLE} or {LAST} into the new name"
            ));
        }
        let rename = Self { pattern: super::parse_pattern(pattern)?, new: new.to_owned() };
        // No name makes it better.
        check_name(&rename.new_name("x")).map_err(|why| format!("no file can be called {new:?}: {why}"))?;
        Ok(rename)
    }

    fn new_name(&self, name: &str) -> String {
        let last = name.rsplit('/').next().unwrap_or(name);
        // A name may hold a placeholder itself, which stays as it is.
        let parts = self.new.split(LAST).map(|part| part.replace(WHOLE, name));
        parts.collect::<Vec<_>>().join(last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_taken_by_name_and_size_and_get_other_names() {
        let patterns = |patterns: &[&str]| patterns.iter().map(|text| Pattern::new(text).unwrap()).collect();
        let renames = ["radar/*=old/{name}.{}", "a=b"].map(|text| Rename::parse(text).unwrap()).to_vec();
        let choices = Choices {
            only: patterns(&["radar/*", "a", "c"]),
            not: patterns(&["*.tmp"]),
            max_size: Some(10),
            renames,
        };
        let choose = |name, bytes| choices.choose(name, bytes);
        assert_eq!(choose("radar/{name}", 10), Answer::TakeAs("old/{name}.radar/{name}".to_owned()));
        assert_eq!((choose("a", 1), choose("c", 1)), (Answer::TakeAs("b".to_owned()), Answer::Take));
        for (name, bytes) in [("radar/x", 11), ("radar/x.tmp", 1), ("model", 1)] {
            assert_eq!(choose(name, bytes), Answer::Refuse, "{name}");
        }
        assert!(Choices::default().into_function().is_none());
    }

    #[test]
    fn a_new_name_without_a_place_for_the_old_one_is_refused() {
        for (text, why) in [
            ("a", "like 'radar"),
            ("a=", "like 'radar"),
            ("*=b", "{name}"),
            ("[=b{}", "pattern"),
            ("*=../{}", "\"..\""),
            ("a=/b", "root"),
            ("*={}/", "empty"),
        ] {
            let line = Rename::parse(text).unwrap_err();
            assert!(line.contains(why), "{text}: {line}");
        }
    }
}
