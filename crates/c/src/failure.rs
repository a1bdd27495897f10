//! The reason why a function fails.

/// The reason of a failure, in one line.
#[derive(Debug)]
pub(crate) struct Failure(pub String);

impl From<treecast::Error> for Failure {
    fn from(error: treecast::Error) -> Self {
        Self(error.to_string())
    }
}

impl From<String> for Failure {
    fn from(line: String) -> Self {
        Self(line)
    }
}

impl From<&str> for Failure {
    fn from(line: &str) -> Self {
        Self(line.to_owned())
    }
}
