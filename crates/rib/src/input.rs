//! Opens whatever a person names: files as they are published, or what `rib read` wrote.

use std::{
    io,
    path::{Path, PathBuf},
};

use super::{
    date,
    delegations::Delegations,
    fault::Faults,
    read,
    relations::Relations,
    source::{self, Format, Stranger},
    store::{
        self, Store, StoreError,
        parquet::Parquet,
        sqlite::Sqlite,
        tables::{Content, Heading},
    },
};

/// The reason why a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("{}: {what}", path.display())]
    Unknown { path: PathBuf, what: Stranger },
    #[error("{}: nothing in it could be read: {}", path.display(), reasons(faults))]
    Nothing { path: PathBuf, faults: Faults },
    #[error("{}: it holds nothing of {day}; it holds {}", path.display(), held.join(", "))]
    NoSuchDay { path: PathBuf, day: String, held: Vec<String> },
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn reasons(faults: &Faults) -> String {
    match faults {
        faults if faults.0.is_empty() => "it has no records".into(),
        faults if faults.errors() == 0 => format!("{faults}; name a file with routes"),
        faults => format!("{faults}; fetch it again"),
    }
}

/// A file that a person named, opened as far as is needed to know what it holds.
pub enum Input {
    /// A file as it is published.
    File(PathBuf),
    /// A store that `rib read` wrote, and the contents of it that are wanted.
    Store(Box<dyn Store>, Vec<Heading>),
}

impl Input {
    /// Opens a file, or a folder of Parquet files. `name@2015-09-22` is what a store holds of that day.
    pub fn open(name: &Path) -> Result<Self, InputError> {
        let (path, day) = split(name);
        if path.is_dir() {
            return Self::wanted(Box::new(Parquet::open(&path)?), path, day);
        }
        let failed = |source| InputError::Io { path: path.clone(), source };
        match source::open(&path).map_err(failed)?.format {
            Format::Unknown(what) => Err(InputError::Unknown { path, what }),
            Format::Sqlite => Self::wanted(Box::new(Sqlite::open(&path)?), path, day),
            _ => Ok(Self::File(path)),
        }
    }

    /// The content of a store for a day, given as its first second since 1970. `None`: for all days.
    fn wanted(store: Box<dyn Store>, path: PathBuf, day: Option<i64>) -> Result<Self, InputError> {
        let all = store.headings()?;
        let is_wanted =
            |heading: &&Heading| day.is_none_or(|day| heading.time.div_euclid(86_400) == day / 86_400);
        let wanted: Vec<Heading> = all.iter().filter(is_wanted).cloned().collect();
        if wanted.is_empty() {
            let held = all.iter().map(store::words).collect();
            return Err(InputError::NoSuchDay { path, day: day.map_or("any day".into(), date::day), held });
        }
        Ok(Self::Store(store, wanted))
    }

    /// Reads one content after the other, and hands each to `take`. Only one is in memory at a time. `wants` says by its
    /// kind whether a content is needed.
    pub fn each<E: From<InputError>>(
        &self,
        threads: usize,
        wants: impl Fn(&str) -> bool,
        mut take: impl FnMut(Content) -> Result<(), E>,
    ) -> Result<(), E> {
        match self {
            Self::File(path) => {
                let format = source::open(path)
                    .map_err(|source| InputError::Io { path: path.clone(), source })?
                    .format;
                let kind = match format {
                    Format::Relations => "relations",
                    Format::Delegations => "delegations",
                    _ => "table",
                };
                if wants(kind) { take(read_file(path, threads)?) } else { Ok(()) }
            }
            Self::Store(store, headings) => {
                let wanted = headings.iter().filter(|heading| wants(&heading.kind));
                wanted
                    .map(|heading| store.content(heading).map_err(InputError::from))
                    .try_for_each(|content| take(content?))
            }
        }
    }
}

/// A day at the end of a name that is no file's: `rib.db@2015-09-22`.
fn split(name: &Path) -> (PathBuf, Option<i64>) {
    let parts = name.to_str().filter(|_| !name.exists()).and_then(|name| name.rsplit_once('@'));
    match parts.and_then(|(path, day)| Some((path, date::parse(day)?))) {
        Some((path, day)) => (path.into(), Some(day)),
        None => (name.to_owned(), None),
    }
}

/// Reads a file as it is published.
pub fn read_file(path: &Path, threads: usize) -> Result<Content, InputError> {
    let failed = |source| InputError::Io { path: path.to_owned(), source };
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let found = source::open(path).map_err(failed)?;
    let (content, is_empty) = match found.format {
        Format::Mrt => {
            let dump = read::read(found.reader, &name, threads).map_err(failed)?;
            let is_empty = dump.paths.is_empty() && dump.withdrawals == 0;
            (Content::Dump(Box::new(dump)), is_empty)
        }
        Format::Relations => {
            let relations = Relations::read(found.reader, &name).map_err(failed)?;
            let is_empty = relations.pairs.is_empty();
            (Content::Relations(relations), is_empty)
        }
        Format::Delegations => {
            let delegations = Delegations::read(found.reader, &name).map_err(failed)?;
            let is_empty = delegations.all.is_empty();
            (Content::Delegations(delegations), is_empty)
        }
        Format::Unknown(what) => return Err(InputError::Unknown { path: path.to_owned(), what }),
        Format::Sqlite => {
            return Err(InputError::Unknown { path: path.to_owned(), what: Stranger::Store });
        }
    };
    match is_empty {
        true => Err(InputError::Nothing { path: path.to_owned(), faults: content.faults().clone() }),
        false => Ok(content),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mrt::Header;

    #[test]
    fn a_file_that_is_none_of_ours_is_refused_with_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, bytes: &[u8]| {
            let path = folder.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            path
        };
        let refused = |path: &Path| {
            Input::open(path)
                .and_then(|input| input.each(1, |_| true, |_| Ok::<_, InputError>(())))
                .unwrap_err()
                .to_string()
        };
        assert!(refused(&write("page.html", b"<html>")).contains("page.html: this is a web page"));
        assert!(refused(&write("empty", b"")).contains("empty: the file is empty: fetch it again"));
        assert!(refused(&write("text", b"hello")).contains("text: this is no routing table"));
        let header = Header { time: 1, kind: 13, subtype: 2, length: 3 }.to_wire();
        let said = refused(&write("short.mrt", &[&header[..], &[0; 3]].concat()));
        assert!(said.contains("nothing in it could be read: a record ends inside a field (once)"), "{said}");
        assert!(refused(&folder.path().join("none")).contains("none: No such file"));
        assert!(refused(folder.path()).contains("this folder holds nothing that `treecast rib read` wrote"));
    }
}
