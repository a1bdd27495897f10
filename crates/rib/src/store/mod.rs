//! Files that hold what was read.
//!
//! [`tables`] turns dumps into tables and back. [`sqlite`] keeps these in one file, and [`parquet`] in a folder.

pub(crate) mod parquet;
pub(crate) mod sqlite;
pub mod tables;

use std::{
    fmt,
    fmt::Write as _,
    path::{Path, PathBuf},
};

use tables::{Content, Heading};

/// A place that keeps contents.
pub trait Store {
    /// The headings of all contents, sorted by time.
    fn headings(&self) -> Result<Vec<Heading>, StoreError>;

    /// Reads a content.
    fn content(&self, heading: &Heading) -> Result<Content, StoreError>;

    /// Adds a content. A store holds the same content only once (see [`identity`]): it is replaced if `replace` says so, and
    /// otherwise refused.
    fn add(&mut self, content: &Content, replace: bool) -> Result<(), StoreError>;
}

/// Opens a store for writing, and creates it if it does not exist. A folder, and a name with a slash at its end, is for
/// Parquet files. Any other name is an SQLite file.
pub fn create(path: &Path) -> Result<Box<dyn Store>, StoreError> {
    match path.is_dir() || path.as_os_str().as_encoded_bytes().ends_with(b"/") {
        true => Ok(Box::new(parquet::Parquet::create(path)?)),
        false => Ok(Box::new(sqlite::Sqlite::create(path)?)),
    }
}

/// The values of a column.
#[derive(Debug, Clone, PartialEq)]
pub enum Values {
    Numbers(Vec<i64>),
    Texts(Texts),
}

/// A list of texts that share one allocation, because a table has hundreds of thousands of short ones.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Texts {
    all: String,
    /// The end of each text in `all`, in bytes.
    ends: Vec<usize>,
}

impl Texts {
    /// Adds a text.
    pub fn push(&mut self, text: impl fmt::Display) {
        // A `String` takes whatever is written to it.
        _ = write!(self.all, "{text}");
        self.ends.push(self.all.len());
    }

    pub fn len(&self) -> usize {
        self.ends.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }
}

impl std::ops::Index<usize> for Texts {
    type Output = str;

    fn index(&self, at: usize) -> &str {
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.all[start..self.ends[at]]
    }
}

impl<T: fmt::Display> FromIterator<T> for Texts {
    fn from_iter<I: IntoIterator<Item = T>>(texts: I) -> Self {
        let mut all = Self::default();
        texts.into_iter().for_each(|text| all.push(text));
        all
    }
}

impl Values {
    pub fn len(&self) -> usize {
        match self {
            Self::Numbers(values) => values.len(),
            Self::Texts(values) => values.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A column of a table.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    pub name: String,
    pub values: Values,
}

/// A table, or some rows of one: columns of the same length.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    pub name: &'static str,
    pub columns: Vec<Column>,
}

impl Table {
    pub fn rows(&self) -> usize {
        self.columns.first().map_or(0, |column| column.values.len())
    }
}

/// The reason why a store cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("{}: {source}; name another file, or make room for this one", path.display())]
    Sqlite { path: PathBuf, source: rusqlite::Error },
    #[error("{}: {source}", path.display())]
    Parquet { path: PathBuf, source: ::parquet::errors::ParquetError },
    #[error("{}: this folder holds nothing that `treecast rib read` wrote", path.display())]
    NoStore { path: PathBuf },
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: std::io::Error },
    #[error("{}: {what}; it is damaged, or not what `treecast rib read` writes", path.display())]
    Damaged { path: PathBuf, what: String },
    #[error("{}: it already holds {what}; give --replace to replace it, or name another file", path.display())]
    AlreadyThere { path: PathBuf, what: String },
}

/// The identity of a content. A store may hold only one content of each: tables and updates of one collector and
/// time, or other files of one name and time.
pub fn identity(heading: &Heading) -> (&str, i64, &str, i64, &str) {
    let file = if heading.collector == 0 { heading.file.as_str() } else { "" };
    (&heading.kind, heading.time, &heading.view, heading.collector, file)
}

/// The number that a content has in every store that numbers by content: a hash of its identity.
fn number(heading: &Heading) -> i64 {
    let (kind, time, view, collector, file) = identity(heading);
    hash(&[kind, &time.to_string(), view, &collector.to_string(), file].join("\n"))
}

/// FNV-1a without its highest bit. It is never 0.
fn hash(text: &str) -> i64 {
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, octet| {
        (hash ^ u64::from(octet)).wrapping_mul(0x100_0000_01b3)
    });
    ((hash >> 1) as i64).max(1)
}

/// A content in words: `the table of 2015-09-22T12:00:00Z`.
pub fn words(heading: &Heading) -> String {
    let view = if heading.view.is_empty() { String::new() } else { format!(", view {}", heading.view) };
    format!("the {} of {}{view}", heading.kind, super::date::time(heading.time))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Dump, analysis::tests::small, delegations::Delegations, dump::Peer, input::Input,
        relations::Relations,
    };

    fn contents() -> [Content; 3] {
        let relations = Relations::read("1|2|-1\n2|3|0\nx\n".as_bytes(), "20150201.txt").unwrap();
        let text = "r|US|ipv6|2001:db8::|32|20150201|assigned|me\nr|US|asn|7|1|20150201|assigned\n";
        let delegations = Delegations::read(text.as_bytes(), "delegated-2015-03").unwrap();
        [Content::Dump(Box::new(small())), Content::Relations(relations), Content::Delegations(delegations)]
    }

    #[test]
    fn what_is_written_is_read_back_and_the_same_dump_is_refused_twice() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["rib.db", "archive/"] {
            let path = folder.path().join(name);
            let contents = contents();
            let mut store = create(&path).unwrap();
            contents.iter().for_each(|content| store.add(content, false).unwrap());
            let refused = store.add(&contents[0], false).unwrap_err().to_string();
            assert!(refused.contains("already holds the table of 2012-11-01T00:00:00Z"), "{refused}");
            store.add(&contents[0], true).unwrap();
            // Another collector's table of the same time is another table.
            let peer = Peer { address: "192.0.2.1".parse().unwrap(), asn: 1, entries: 0 };
            let other = Content::Dump(Box::new(Dump { peers: vec![peer], ..small() }));
            store.add(&other, false).unwrap();
            // Files without a date are told apart by their names.
            for name in ["one", "two"] {
                let undated = Relations { time: 0, file: name.into(), ..Relations::default() };
                store.add(&Content::Relations(undated), false).unwrap();
            }
            drop(store);

            let mut read = Vec::new();
            let input = Input::open(&path).unwrap();
            let take = |content| {
                read.push(content);
                Ok::<_, crate::input::InputError>(())
            };
            input.each(1, |_| true, take).unwrap();
            assert_eq!(read.len(), 6, "{name}");
            assert!(contents.iter().all(|content| read.contains(content)), "{name}: {read:#?}");
            let day = Input::open(&folder.path().join(format!("{name}@2012-11-01"))).unwrap();
            assert!(matches!(day, Input::Store(_, headings) if headings.len() == 2), "{name}");
        }
    }

    #[test]
    fn a_folder_of_parquet_files_is_partitioned_by_date_and_holds_no_unfinished_file() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = parquet::Parquet::create(folder.path()).unwrap();
        contents().iter().for_each(|content| store.add(content, false).unwrap());
        let headings = store.headings().unwrap();
        assert_eq!(headings.len(), 3);
        for (table, day, heading) in
            [("routes", "2012-11-01", 0), ("relations", "2015-02-01", 1), ("delegations", "2015-03-01", 2)]
        {
            let file = format!("{table}/date={day}/{}.parquet", headings[heading].dump);
            assert!(folder.path().join(&file).is_file(), "{file}");
            let files = std::fs::read_dir(folder.path().join(format!("{table}/date={day}"))).unwrap();
            assert_eq!(files.count(), 1, "{file}");
        }
    }

    /// A table of more rows than a part, and one that a whole number of statements inserts.
    #[test]
    fn no_row_is_lost_between_parts_and_statements() {
        let folder = tempfile::tempdir().unwrap();
        for (rows, name) in [(128, "a.db"), (40_000, "b.db"), (40_000, "c/")] {
            let text: String =
                (0..rows).map(|asn| format!("r|US|asn|{asn}|1|20150201|assigned|me\n")).collect();
            let content = Content::Delegations(Delegations::read(text.as_bytes(), "2015-03").unwrap());
            let mut store = create(&folder.path().join(name)).unwrap();
            store.add(&content, false).unwrap();
            let heading = &store.headings().unwrap()[0];
            assert!(store.content(heading).unwrap() == content, "{rows} rows in {name}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_told_with_the_name_of_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = parquet::Parquet::create(folder.path()).unwrap();
        store.add(&contents()[1], false).unwrap();
        let heading = store.headings().unwrap().remove(0);
        let file = folder.path().join(format!("relations/date=2015-02-01/{}.parquet", heading.dump));
        std::fs::write(&file, "no Parquet at all").unwrap();
        let said = store.content(&heading).unwrap_err().to_string();
        assert!(said.contains(&format!("{}: ", file.display())) && !said.contains('\n'), "{said}");
    }

    /// A content that cannot be replaced as a whole is gone, and never half old and half new.
    #[test]
    fn a_content_that_is_replaced_in_part_is_not_there() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = parquet::Parquet::create(folder.path()).unwrap();
        let content = &contents()[0];
        store.add(content, false).unwrap();
        std::fs::create_dir(folder.path().join("dumps/_temporary")).unwrap();
        let dump = store.headings().unwrap()[0].dump;
        // A folder in the place of a file lets its renaming fail.
        let place = folder.path().join(format!("paths/date=2012-11-01/{dump}.parquet"));
        std::fs::remove_file(&place).unwrap();
        std::fs::create_dir(&place).unwrap();
        assert!(store.add(content, true).is_err());
        assert_eq!(store.headings().unwrap(), []);
        let files = std::fs::read_dir(folder.path().join("routes/date=2012-11-01")).unwrap();
        assert_eq!(files.count(), 1, "no unfinished file is left");
        std::fs::remove_dir(&place).unwrap();
        store.add(content, false).unwrap();
        assert!(store.content(&store.headings().unwrap()[0]).unwrap() == *content);
    }
}
