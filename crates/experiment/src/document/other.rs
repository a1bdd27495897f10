//! Reads a delivery by a program of somebody else, which speaks a few lines ([`crate::told::Line`]).

use std::path::{Path, PathBuf};

/// The programs of a delivery, as command lines. Words in braces stand for what a run has ([`Values`]).
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Other {
    pub send: Vec<String>,
    pub receive: Vec<String>,
    /// Files that are made available at each node. A word that is the name of one stands for its path there.
    pub files: Vec<PathBuf>,
}

/// What a word in braces stands for, such as `{file}`.
pub type Values<'v> = [(&'v str, String)];

/// The words that the sender's command line may have in braces.
const OF_SENDER: &[&str] = &["file", "address", "interface", "receivers", "rate_bps"];

/// The words that a receiver's command line may have in braces.
const OF_RECEIVER: &[&str] = &["copy", "folder", "name", "ticket", "sender", "address", "interface"];

impl Other {
    /// Refuses command lines without a program, and words in braces that stand for nothing.
    pub fn check(&self) -> Result<(), String> {
        for (key, words, known) in [("send", &self.send, OF_SENDER), ("receive", &self.receive, OF_RECEIVER)]
        {
            if words.is_empty() {
                return Err(format!(
                    "the program other needs `{key}`, a list of words: [\"program\", \"word\"]"
                ));
            }
            let stands_for = |word: &str| known.iter().any(|known| word == format!("{{{known}}}"));
            let is_in_braces = |word: &&String| word.starts_with('{') && word.ends_with('}');
            if let Some(word) = words.iter().filter(is_in_braces).find(|word| !stands_for(word)) {
                return Err(format!(
                    "`{key}` has {word}, which stands for nothing: it may have {{{}}}",
                    known.join("}, {")
                ));
            }
        }
        Ok(())
    }

    /// Finds the files from the folder of the experiment's file on.
    pub fn located(mut self, folder: &Path) -> Self {
        self.files.iter_mut().for_each(|file| *file = folder.join(&*file));
        self
    }

    /// Returns a command line of which each word stands for what it means in a run.
    pub fn words(words: &[String], values: &Values) -> Vec<String> {
        let meant = |word: &String| {
            let value = values.iter().find(|(name, _)| *word == format!("{{{name}}}"));
            value.map_or_else(|| word.clone(), |(_, value)| value.clone())
        };
        words.iter().map(meant).collect()
    }
}
