//! The error that all parsers of topologies share.

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
