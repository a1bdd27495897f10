//! The error that all parsers of topologies share.

/// The reason why a topology was refused, in one line: where the error is, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{message}", place(.file, .line))]
pub struct SpecError {
    /// The name of the file, or the text of a generator.
    pub file: String,
    /// The number of the line, from 1. `None` if the error is about the whole.
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
