//! The end of a rule's command.

use std::time::Duration;

/// The way in which a command has ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct CommandEnd {
    /// Its exit code. `None` if it was killed or could not be run.
    pub code: Option<i32>,
    pub time: Duration,
    /// The first line that it printed; of one that has failed, the first on standard error if there is one.
    pub line: String,
    /// The error, in words. `None` if nothing went wrong.
    pub why: Option<String>,
}

impl CommandEnd {
    pub fn is_good(&self) -> bool {
        self.code == Some(0)
    }

    /// The text that the history has of it.
    pub fn text(&self) -> String {
        let parts = [self.why.as_deref().unwrap_or_default(), self.line.as_str()];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ")
    }

    /// The end of a command that has no exit code.
    pub fn failed(why: String, time: Duration) -> Self {
        Self { code: None, time, line: String::new(), why: Some(why) }
    }
}
