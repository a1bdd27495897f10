//! The receivers that a session is for, by key or by name.

use std::{collections::BTreeMap, io, path::Path};

use thiserror::Error;
use treecast_host::text;

use super::who::Who;
use crate::security::{AllowList, PublicKey, PublicKeyError};

/// The longest list in bytes.
const MAX_LEN: u64 = 1 << 20;

/// A receiver that is waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// The key that the receiver has to prove. `None`: any receiver that gives itself the name is taken for it.
    pub key: Option<PublicKey>,
    /// The name of the receiver in reports. With a key, it is the one that the list gives.
    pub name: String,
}

/// The reason why a list cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ListedError {
    #[error(
        "cannot read the receivers from {path}: {source}; name keys or names with commas between them, or a file with one a line"
    )]
    Read { path: String, source: io::Error },
    #[error(
        "there is no receiver in {0}: name one a line, by its key (`treecast keys show` prints it) or its name"
    )]
    Empty(String),
    #[error("{entry}: {why}")]
    Key { entry: String, why: PublicKeyError },
    #[error("the line {0:?} has a comma: write one name a line")]
    Comma(String),
    #[error("{0} stands there twice: remove one")]
    Twice(String),
}

impl Listed {
    /// The word for all standing receivers that trust the sender's key.
    pub const ANY: &str = "any";

    /// Reads a list: entries with commas between them, or if the text has none and is a file's path, the file's lines. An entry is a
    /// key, with a name behind it if wanted, or a name. What follows a `#` in a file is a comment. The word [`Self::ANY`] alone names
    /// nobody in particular: the list is empty.
    ///
    /// # Errors
    /// One line for whatever is wrong first.
    pub fn parse(list: &str) -> Result<Vec<Self>, ListedError> {
        if list == Self::ANY {
            return Ok(Vec::new());
        }
        let is_file = !list.contains(',') && Path::new(list).is_file();
        let text = match is_file {
            true => text::read_written(Path::new(list), MAX_LEN)
                .map_err(|source| ListedError::Read { path: list.to_owned(), source })?,
            false => list.replace(',', "\n"),
        };
        let entries = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
        let mut listed = Vec::new();
        let mut known = BTreeMap::new();
        for entry in entries.filter(|entry| !entry.is_empty()) {
            // No receiver has such a name.
            if entry.contains(',') && !entry.starts_with("tck") {
                return Err(ListedError::Comma(entry.chars().take(80).collect()));
            }
            let one = Self::entry(entry)?;
            let mark = one.key.map_or_else(|| one.name.clone(), |key| key.to_string());
            if known.insert(mark.clone(), ()).is_some() {
                return Err(ListedError::Twice(mark));
            }
            listed.push(one);
        }
        if listed.is_empty() { Err(ListedError::Empty(list.to_owned())) } else { Ok(listed) }
    }

    /// A line for the user if a list is a single name, which may be meant for a file that is not there.
    pub fn hint(list: &str) -> Option<String> {
        let is_name = list != Self::ANY
            && !list.contains(',')
            && !list.trim().starts_with("tck")
            && !Path::new(list).is_file();
        is_name.then(|| format!("there is no file {list:?}: waits for a receiver of this name"))
    }

    fn entry(entry: &str) -> Result<Self, ListedError> {
        let (first, name) = entry.split_once(char::is_whitespace).unwrap_or((entry, ""));
        if !first.starts_with("tck") {
            return Ok(Self { key: None, name: entry.to_owned() });
        }
        let key: PublicKey =
            first.parse().map_err(|why| ListedError::Key { entry: entry.chars().take(80).collect(), why })?;
        let name = if name.trim().is_empty() { key.to_string() } else { name.trim().to_owned() };
        Ok(Self { key: Some(key), name })
    }

    /// The list of admitted receivers, if all are listed by their keys.
    pub fn allow_list(listed: &[Self]) -> Option<AllowList> {
        let keys: Option<Vec<_>> =
            listed.iter().map(|one| Some((one.key?, Some(one.name.clone())))).collect();
        keys.map(|keys| keys.into_iter().collect())
    }

    /// Whether a receiver is the listed one.
    pub(super) fn is(&self, who: &Who) -> bool {
        match self.key {
            Some(_) => self.key == who.key,
            None => self.name == who.name,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::security::Identity;

    #[test]
    fn receivers_are_listed_by_key_or_name_in_a_file_or_not() {
        let key = Identity::generate().unwrap().public_key();
        let listed = Listed::parse(&format!("{key} lab 7, client8")).unwrap();
        let expected =
            [Listed { key: Some(key), name: "lab 7".into() }, Listed { key: None, name: "client8".into() }];
        assert_eq!(listed, expected);
        assert!(Listed::allow_list(&listed).is_none() && Listed::allow_list(&listed[..1]).is_some());
        let folder = crate::scratch::scratch("listed");
        let path = folder.join("group");
        std::fs::write(&path, format!("# all\n{key} lab 7\nclient8 # there\n")).unwrap();
        assert_eq!(Listed::parse(path.to_str().unwrap()).unwrap(), expected);
        assert!(
            Listed::hint("devcies")
                .unwrap()
                .contains("no file \"devcies\": waits for a receiver of this name")
        );
        let plain = [path.to_str().unwrap(), "lab1,lab2", &key.to_string()].map(str::to_owned);
        assert!(plain.iter().all(|list| Listed::hint(list).is_none()));
        assert!(Listed::parse("any").unwrap().is_empty() && Listed::hint("any").is_none());
        std::fs::write(&path, "lab1\nbad name ,with\n").unwrap();
        let comma = Listed::parse(path.to_str().unwrap()).unwrap_err().to_string();
        assert_eq!(comma, "the line \"bad name ,with\" has a comma: write one name a line");
        let line = |text: &str| Listed::parse(text).unwrap_err().to_string();
        assert!(line(&format!("a,{key},{key} b")).contains("twice"));
        assert!(line("tck1.x,a").contains("tck1.x: the public key is cut short"));
        assert!(line(" , ").contains("no receiver"));
    }
}
