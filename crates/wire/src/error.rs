use thiserror::Error;

/// Why bytes are not the packet they should be: which field, what it held, what it should hold.
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
    /// A field whose value is not one of those expected.
    pub fn invalid(field: &'static str, value: impl ToString, expected: &'static str) -> Self {
        Self::Invalid { field, value: value.to_string(), expected }
    }
}
