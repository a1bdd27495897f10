use thiserror::Error;

/// The reason why bytes are not a valid packet: the field, its value, and what was expected.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ParseError {
    /// The bytes end before the field does.
    #[error("{field}: {have} bytes are there, {need} are needed")]
    Truncated { field: &'static str, have: usize, need: usize },
    /// The field holds a value that is not allowed there.
    #[error("{field}: {value} found, expected {expected}")]
    Invalid { field: &'static str, value: String, expected: &'static str },
}

impl ParseError {
    /// Creates the error for a field whose value is not one of those expected.
    pub fn invalid(field: &'static str, value: impl ToString, expected: &'static str) -> Self {
        Self::Invalid { field, value: value.to_string(), expected }
    }
}
