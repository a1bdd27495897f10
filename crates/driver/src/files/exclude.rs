//! Patterns of files and folders that are not sent, with the meaning that rsync gives them.

use std::{
    os::unix::ffi::OsStrExt,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use thiserror::Error;

use super::wildcards::Wildcards;

/// Patterns of entries of folders that are not sent. What is in a folder that matches is not sent either.
///
/// A pattern that begins with `/` matches the whole name of an object, from its first component on. Any other pattern matches
/// its last components. `*` and `?` stand for anything but `/`, `**` between slashes for any number of components. A pattern
/// that ends in `/` matches folders only.
#[derive(Debug, Clone, Default)]
pub struct Exclude(Arc<[Pattern]>);

#[derive(Debug)]
struct Pattern {
    text: String,
    wildcards: Wildcards,
    only_folders: bool,
    has_matched: AtomicBool,
}

/// The pattern that cannot be used, and why.
#[derive(Debug, Error)]
#[error("the pattern {pattern:?} cannot be used: {why}")]
pub struct ExcludeError {
    pattern: String,
    why: String,
}

impl Exclude {
    /// Reads patterns.
    ///
    /// # Errors
    /// If one is empty, or no pattern.
    pub fn new<T: AsRef<str>>(patterns: &[T]) -> Result<Self, ExcludeError> {
        patterns.iter().map(|pattern| Pattern::new(pattern.as_ref())).collect::<Result<_, _>>().map(Self)
    }

    /// Whether the entry of this name is left out. `name` is that of the object.
    pub fn matches(&self, name: &Path, is_folder: bool) -> bool {
        // All are asked, so that it is known which of them ever match.
        self.0.iter().filter(|pattern| pattern.matches(name, is_folder)).count() > 0
    }

    /// The patterns that have matched nothing.
    pub fn unused(&self) -> impl Iterator<Item = &str> {
        let unused = self.0.iter().filter(|pattern| !pattern.has_matched.load(Ordering::Relaxed));
        unused.map(|pattern| &*pattern.text)
    }
}

impl Pattern {
    fn new(text: &str) -> Result<Self, ExcludeError> {
        let failed = |why: String| ExcludeError { pattern: text.to_owned(), why };
        let body = text.strip_suffix("/***").unwrap_or(text);
        let only_folders = body.len() < text.len() || body.ends_with('/');
        let body = body.trim_end_matches('/');
        let glob = match body.strip_prefix('/') {
            Some(anchored) => anchored.to_owned(),
            None => format!("**/{body}"),
        };
        if body.trim_start_matches('/').is_empty() {
            return Err(failed("it names nothing".to_owned()));
        }
        let wildcards = Wildcards::new(&glob).map_err(failed)?;
        Ok(Self { text: text.to_owned(), wildcards, only_folders, has_matched: AtomicBool::new(false) })
    }

    fn matches(&self, name: &Path, is_folder: bool) -> bool {
        let is_match = (is_folder || !self.only_folders)
            && !name.as_os_str().as_bytes().is_empty()
            && self.wildcards.matches(name.as_os_str().as_bytes());
        if is_match {
            self.has_matched.store(true, Ordering::Relaxed);
        }
        is_match
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    #[test]
    fn patterns_mean_what_they_mean_to_rsync() {
        let cases: [(&str, &[&str], &[&str]); 12] = [
            ("*.o", &["a.o", "tree/a.o", "tree/sub/.o"], &["a.c", "tree/a.o.c"]),
            ("/tree/*.o", &["tree/a.o"], &["a.o", "tree/sub/a.o", "other/tree/a.o"]),
            ("sub/a.o", &["sub/a.o", "tree/sub/a.o"], &["a.o", "tree/xsub/a.o", "sub/a.o/b"]),
            ("cache/", &["tree/cache/"], &["tree/cache", "tree/cache/x"]),
            ("cache/***", &["tree/cache/"], &["tree/cache"]),
            ("cache/**", &["tree/cache/x", "cache/x/y/"], &["tree/cache/"]),
            ("a?c", &["abc", "t/a.c"], &["ac", "a/c"]),
            ("[a-c]x", &["bx"], &["dx"]),
            ("/a/**/z", &["a/z", "a/b/c/z"], &["b/a/z"]),
            ("{a,b}", &["{a,b}"], &["a", "b"]),
            (r"\*", &["t/*"], &["t/a"]),
            ("*", &["a", "t/.hidden", "t/"], &[]),
        ];
        for (pattern, matching, others) in cases {
            let exclude = Exclude::new(&[pattern]).unwrap();
            let matches =
                |name: &str| exclude.matches(Path::new(name.trim_end_matches('/')), name.ends_with('/'));
            assert_eq!(exclude.unused().collect::<Vec<_>>(), [pattern]);
            assert!(others.iter().all(|name| !matches(name)), "{pattern}");
            assert!(matching.iter().all(|name| matches(name)), "{pattern}");
            assert_eq!(exclude.unused().count(), 0);
        }
        let latin = Path::new(OsStr::from_bytes(b"tree/caf\xe9.o"));
        assert!(Exclude::new(&["*.o"]).unwrap().matches(latin, false));
    }

    #[test]
    fn a_pattern_that_names_nothing_is_refused() {
        for bad in ["", "/", "//", "[a", "/***"] {
            let line = Exclude::new(&["good", bad]).unwrap_err().to_string();
            assert!(line.contains(&format!("the pattern {bad:?} cannot be used")), "{line}");
        }
    }
}
