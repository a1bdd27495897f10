//! The list of receivers that a sender admits: a file with a public key on each line.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
};

use thiserror::Error;
use treecast_host::text;

use super::{PublicKey, PublicKeyError};

/// The largest file that is read, in bytes: some 50,000 keys with their names.
const MAX_FILE_LEN: u64 = 4 * 1024 * 1024;

/// The receivers that a sender admits, and what it calls them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AllowList(BTreeMap<PublicKey, Option<String>>);

/// The reason why a list cannot be used.
#[derive(Debug, Error)]
pub enum AllowListError {
    #[error("cannot read the allow list {}: {source}; name a file with one public key a line", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{}:{line}: {why}", path.display())]
    Line { path: PathBuf, line: usize, why: PublicKeyError },
    #[error("{}:{line}: the same key stands in line {first} already: remove one", path.display())]
    Duplicate { path: PathBuf, line: usize, first: usize },
    #[error("the allow list {} names nobody: put a public key on each line (`treecast keys show` prints one)", path.display())]
    Empty { path: PathBuf },
}

impl AllowList {
    /// Reads a list: a public key a line, behind it a name if wanted; what follows a `#` is a comment.
    ///
    /// # Errors
    /// One line for whatever is wrong first.
    pub fn load(path: &Path) -> Result<Self, AllowListError> {
        let failed = |source| AllowListError::Read { path: path.to_owned(), source };
        Self::parse(path, &text::read_written(path, MAX_FILE_LEN).map_err(failed)?)
    }

    fn parse(path: &Path, text: &str) -> Result<Self, AllowListError> {
        let mut list = Self::default();
        let mut lines = BTreeMap::new();
        for (line, content) in (1..).zip(text.lines()) {
            let content = content.split('#').next().unwrap_or_default().trim();
            if content.is_empty() {
                continue;
            }
            let (key, name) = content.split_once(char::is_whitespace).unwrap_or((content, ""));
            let path = || path.to_owned();
            let key = key.parse().map_err(|why| AllowListError::Line { path: path(), line, why })?;
            if let Some(first) = lines.insert(key, line) {
                return Err(AllowListError::Duplicate { path: path(), line, first });
            }
            let name = name.trim();
            list.0.insert(key, (!name.is_empty()).then(|| name.to_owned()));
        }
        if list.0.is_empty() {
            return Err(AllowListError::Empty { path: path.to_owned() });
        }
        Ok(list)
    }

    pub fn admits(&self, key: &PublicKey) -> bool {
        self.0.contains_key(key)
    }

    /// The name that the list gives to the holder of this key.
    pub fn name_of(&self, key: &PublicKey) -> Option<&str> {
        self.0.get(key)?.as_deref()
    }
}

impl FromIterator<(PublicKey, Option<String>)> for AllowList {
    fn from_iter<T: IntoIterator<Item = (PublicKey, Option<String>)>>(keys: T) -> Self {
        Self(keys.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::{super::Identity, *};

    fn parse(text: &str) -> Result<AllowList, String> {
        AllowList::parse(Path::new("list"), text).map_err(|error| error.to_string())
    }

    #[test]
    fn names_and_comments_may_stand_behind_a_key() {
        let keys = [(); 3].map(|()| Identity::generate().unwrap().public_key());
        let [anna, bert, other] = keys;
        let list = parse(&format!("# who\n\n{anna}  Anna of the desk # since May\n\t{bert}\r\n")).unwrap();
        assert_eq!((list.name_of(&anna), list.name_of(&bert)), (Some("Anna of the desk"), None));
        assert!(list.admits(&bert) && !list.admits(&other));
    }

    #[test]
    fn a_list_that_is_too_long_is_refused() {
        let folder = crate::scratch::scratch("allow-list");
        let path = folder.join("list");
        std::fs::File::create(&path).unwrap().set_len(MAX_FILE_LEN + 1).unwrap();
        assert!(AllowList::load(&path).unwrap_err().to_string().contains("list: it is longer than 4 MiB;"));
    }

    #[test]
    fn a_wrong_line_is_named() {
        let key = Identity::generate().unwrap().public_key();
        let line = |text: &str| parse(text).unwrap_err();
        assert!(line("# nobody\n\n").starts_with("the allow list list names nobody"));
        assert!(line(&format!("{key}\nanna")).starts_with("list:2: a public key begins with"));
        assert!(line(&format!("\n{}", &key.to_string()[..40])).starts_with("list:2: the public key is cut"));
        assert!(line(&format!("{key}\n#\n{key} again")).starts_with("list:3: the same key stands in line 1"));
    }
}
