//! The words by which a person names a topology, and the error that all parsers share.

use std::path::Path;

use super::{Topology, file, generate, testbed};
use crate::text::read_text;

/// Why a topology was refused: where, and what to do about it, in one line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{message}", place(.file, .line))]
pub struct SpecError {
    /// The file, or the words of a generator.
    pub file: String,
    /// Counted from 1; `None` where the whole is meant.
    pub line: Option<usize>,
    pub message: String,
}

fn place(file: &str, line: &Option<usize>) -> String {
    line.map_or_else(|| format!("{file}: "), |line| format!("{file}:{line}: "))
}

impl SpecError {
    pub(super) fn new(file: &str, line: impl Into<Option<usize>>, message: impl Into<String>) -> Self {
        Self { file: file.to_owned(), line: line.into(), message: message.into() }
    }
}

/// See [`Topology::parse`].
pub(super) fn parse(spec: &str) -> Result<Topology, SpecError> {
    match spec.split_once(':') {
        Some(("lan", keys)) => generate::lan(&Keys::parse(spec, keys)?),
        Some(("tree", keys)) => generate::tree(&Keys::parse(spec, keys)?),
        Some(("shared", keys)) => generate::shared(&Keys::parse(spec, keys)?),
        Some(("testbed", path)) => testbed::parse(&read(path)?, path),
        _ => file::parse(&read(spec)?, spec),
    }
}

fn read(path: &str) -> Result<String, SpecError> {
    const MAX_BYTES: u64 = 4 << 20;
    let explain = |error: std::io::Error| {
        let hint =
            "give a TOML file, lan:clients=N, tree:levels=R,clients=L, shared:clients=N or testbed:FILE";
        SpecError::new(path, None, format!("cannot be read as a topology ({error}): {hint}"))
    };
    read_text(Path::new(path), MAX_BYTES).map_err(explain)
}

/// The `key=value` list of a generator.
pub(super) struct Keys<'a> {
    pub spec: &'a str,
    pairs: Vec<(&'a str, &'a str)>,
}

impl<'a> Keys<'a> {
    fn parse(spec: &'a str, keys: &'a str) -> Result<Self, SpecError> {
        let mut pairs: Vec<(&str, &str)> = Vec::new();
        for pair in keys.split(',').filter(|pair| !pair.is_empty()) {
            let Some((key, value)) = pair.split_once('=') else {
                let message = format!("{pair:?} is no key=value, such as clients=20");
                return Err(SpecError::new(spec, None, message));
            };
            if pairs.iter().any(|(known, _)| *known == key) {
                return Err(SpecError::new(spec, None, format!("{key} is given twice")));
            }
            pairs.push((key, value));
        }
        Ok(Self { spec, pairs })
    }

    /// Calls `accept` with every pair; `None` from it means that the key is unknown, an error what
    /// was expected of the value.
    pub fn each(
        &self,
        known: &str,
        mut accept: impl FnMut(&str, &str) -> Option<Result<(), String>>,
    ) -> Result<(), SpecError> {
        for (key, value) in &self.pairs {
            let outcome = accept(key, value).unwrap_or_else(|| Err(String::new()));
            outcome.map_err(|expected| {
                let message = if expected.is_empty() {
                    format!("unknown key {key:?}: use {known}")
                } else {
                    format!("{key}={value} is no good: {expected} was expected")
                };
                SpecError::new(self.spec, None, message)
            })?;
        }
        Ok(())
    }
}

/// A whole number within bounds, or what was expected.
pub(super) fn number(value: &str, range: std::ops::RangeInclusive<usize>) -> Result<usize, String> {
    let number = value.parse().ok().filter(|number| range.contains(number));
    number.ok_or_else(|| format!("a number from {} to {}", range.start(), range.end()))
}
