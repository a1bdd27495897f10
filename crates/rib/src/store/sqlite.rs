//! A store in one SQLite file.

use std::{
    ops::Range,
    path::{Path, PathBuf},
};

use rusqlite::{Connection, OpenFlags, Statement, types::ValueRef};

use super::{
    Column, Store, StoreError, Table, Texts, Values,
    tables::{Content, Heading, NAMES, Rows, from_tables},
};

/// The number of rows that are formatted while those before them are inserted.
const PART_ROWS: usize = 1 << 14;

/// The number of rows that one statement inserts. It takes 60 % of the time of as many statements for a row each.
const STATEMENT_ROWS: usize = 64;

/// An open SQLite file.
pub struct Sqlite {
    connection: Connection,
    path: PathBuf,
}

impl Sqlite {
    /// Opens a file for writing. Creates it if it does not exist.
    pub fn create(path: &Path) -> Result<Self, StoreError> {
        let failed = |source| StoreError::Sqlite { path: path.to_owned(), source };
        let connection = Connection::open(path).map_err(failed)?;
        // The journal stays on disk, so that a process that is killed leaves the months before whole. Only a crash of the
        // machine may lose them, and what they were read from is still there then.
        connection.pragma_update(None, "synchronous", "OFF").map_err(failed)?;
        // Negative values are KiB. What does not fit is written to the file before its time, which costs a journal.
        connection.pragma_update(None, "cache_size", -65_536).map_err(failed)?;
        Ok(Self { connection, path: path.to_owned() })
    }

    /// Opens a file that exists.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let opened = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY);
        let failed = |source| StoreError::Sqlite { path: path.to_owned(), source };
        Ok(Self { connection: opened.map_err(failed)?, path: path.to_owned() })
    }

    fn failed(&self) -> impl Fn(rusqlite::Error) -> StoreError + '_ {
        |source| StoreError::Sqlite { path: self.path.clone(), source }
    }

    fn damaged(&self) -> impl Fn(String) -> StoreError + '_ {
        |what| StoreError::Damaged { path: self.path.clone(), what }
    }

    fn has(&self, table: &str) -> Result<bool, StoreError> {
        let sql = "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = ?1";
        self.connection.query_row(sql, [table], |row| row.get(0)).map_err(self.failed())
    }

    /// The rows of a table, all of them or those of one dump.
    fn table(&self, name: &'static str, dump: Option<i64>) -> Result<Table, StoreError> {
        let of = dump.map_or(String::new(), |dump| format!(" WHERE dump = {dump}"));
        self.rows(name, &format!("SELECT * FROM {name}{of} ORDER BY rowid")).map_err(self.failed())
    }

    fn rows(&self, name: &'static str, sql: &str) -> rusqlite::Result<Table> {
        let mut statement = self.connection.prepare(sql)?;
        let names: Vec<String> = statement.column_names().iter().map(|name| (*name).to_owned()).collect();
        // Without a row there is no telling texts from numbers, and no need to.
        let mut columns = vec![Values::Numbers(Vec::new()); names.len()];
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            for (at, values) in columns.iter_mut().enumerate() {
                let value = row.get_ref(at)?;
                if values.is_empty() && matches!(value, ValueRef::Text(_)) {
                    *values = Values::Texts(Texts::default());
                }
                match (values, value) {
                    (Values::Numbers(values), ValueRef::Integer(number)) => values.push(number),
                    (Values::Texts(values), ValueRef::Text(text)) => {
                        values.push(String::from_utf8_lossy(text));
                    }
                    (_, value) => {
                        return Err(rusqlite::Error::InvalidColumnType(
                            at,
                            names[at].clone(),
                            value.data_type(),
                        ));
                    }
                }
            }
        }
        let columns = names.into_iter().zip(columns);
        Ok(Table { name, columns: columns.map(|(name, values)| Column { name, values }).collect() })
    }
}

impl Store for Sqlite {
    fn headings(&self) -> Result<Vec<Heading>, StoreError> {
        let table = self.table("dumps", None)?;
        let mut headings = Rows::new(table).headings().map_err(self.damaged())?;
        headings.sort_by_key(|heading| (heading.time, heading.dump));
        Ok(headings)
    }

    fn content(&self, heading: &Heading) -> Result<Content, StoreError> {
        from_tables(heading, |name| self.table(name, Some(heading.dump)), self.damaged())
    }

    fn add(&mut self, content: &Content, replace: bool) -> Result<(), StoreError> {
        let headings = if self.has("dumps")? { self.headings()? } else { Vec::new() };
        let new = content.heading(headings.iter().map(|heading| heading.dump).max().unwrap_or(0) + 1);
        let is_same = |heading: &&Heading| super::identity(heading) == super::identity(&new);
        let same: Vec<i64> = headings.iter().filter(is_same).map(|heading| heading.dump).collect();
        if !same.is_empty() && !replace {
            return Err(StoreError::AlreadyThere { path: self.path.clone(), what: super::words(&new) });
        }
        let path = self.path.clone();
        let failed = |source| StoreError::Sqlite { path: path.clone(), source };
        // A table that no content has needed yet does not exist.
        let mut names = Vec::new();
        for name in NAMES {
            if self.has(name)? {
                names.push(name);
            }
        }
        let transaction = self.connection.transaction().map_err(failed)?;
        for dump in same {
            for name in &names {
                transaction
                    .execute(&format!("DELETE FROM {name} WHERE dump = ?1"), [dump])
                    .map_err(failed)?;
            }
        }
        content.each_part(new.dump, PART_ROWS, |table| insert(&transaction, &table)).map_err(failed)?;
        transaction.commit().map_err(failed)
    }
}

fn insert(connection: &Connection, table: &Table) -> rusqlite::Result<()> {
    let columns = table.columns.iter().map(|column| match column.values {
        Values::Numbers(_) => format!("{} INTEGER NOT NULL", column.name),
        Values::Texts(_) => format!("{} TEXT NOT NULL", column.name),
    });
    let columns = columns.collect::<Vec<_>>().join(", ");
    connection.execute(&format!("CREATE TABLE IF NOT EXISTS {} ({columns}) STRICT", table.name), [])?;
    let row = format!("({})", vec!["?"; table.columns.len()].join(", "));
    let sql = |rows| format!("INSERT INTO {} VALUES {}", table.name, vec![row.as_str(); rows].join(", "));
    let mut many = connection.prepare_cached(&sql(STATEMENT_ROWS))?;
    let mut one = connection.prepare_cached(&sql(1))?;
    let whole = table.rows() - table.rows() % STATEMENT_ROWS;
    for first in (0..whole).step_by(STATEMENT_ROWS) {
        execute(&mut many, table, first..first + STATEMENT_ROWS)?;
    }
    (whole..table.rows()).try_for_each(|row| execute(&mut one, table, row..row + 1))
}

fn execute(statement: &mut Statement, table: &Table, rows: Range<usize>) -> rusqlite::Result<()> {
    let mut place = 0;
    for row in rows {
        for column in &table.columns {
            place += 1;
            match &column.values {
                Values::Numbers(values) => statement.raw_bind_parameter(place, values[row])?,
                Values::Texts(values) => statement.raw_bind_parameter(place, &values[row])?,
            }
        }
    }
    statement.raw_execute().map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_something_else_is_refused_in_a_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rib.db");
        std::fs::write(&path, "no database at all, but long enough to look like one").unwrap();
        assert!(Sqlite::open(&path).unwrap().headings().is_err());
        assert!(Sqlite::create(&path).is_err());
    }

    /// Copies the files of a store in the middle of a change, as a process that is killed leaves them.
    #[test]
    fn a_store_whose_writer_was_killed_keeps_what_it_held() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let content = Content::Dump(Box::new(crate::analysis::tests::small()));
        let mut store = Sqlite::create(&path("rib.db")).unwrap();
        store.add(&content, false).unwrap();
        // So small a cache makes SQLite write to the file before the end.
        store.connection.pragma_update(None, "cache_size", 1).unwrap();
        let transaction = store.connection.transaction().unwrap();
        transaction.execute("DELETE FROM routes", []).unwrap();
        content.each_part(2, 4, |part| (0..300).try_for_each(|_| insert(&transaction, &part))).unwrap();
        std::fs::copy(path("rib.db"), path("killed.db")).unwrap();
        std::fs::copy(path("rib.db-journal"), path("killed.db-journal")).unwrap();

        // Whoever writes next rolls the change back.
        let store = Sqlite::create(&path("killed.db")).unwrap();
        let headings = store.headings().unwrap();
        assert_eq!(headings.len(), 1);
        assert!(store.content(&headings[0]).unwrap() == content);
    }
}
