//! A store in a folder of Parquet files, partitioned by date, which Spark and other programs read as they are.
//!
//! A file is `TABLE/date=2015-09-22/DUMP.parquet`. A content's number is a hash of what it is and where it comes from. So several
//! machines can fill one folder, and a content that is read again replaces its own files.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use parquet::{
    basic::{Compression, Type},
    column::{reader::ColumnReader, writer::ColumnWriter},
    data_type::ByteArray,
    errors::{ParquetError, Result},
    file::{
        properties::WriterProperties,
        reader::{FileReader, RowGroupReader, SerializedFileReader},
        writer::SerializedFileWriter,
    },
    schema::parser::parse_message_type,
};

use super::{
    Column, Store, StoreError, Table, Texts, Values,
    tables::{Content, Heading, Rows, from_tables},
};
use crate::date;

/// The number of rows of a row group, which a reader may take as a unit of work. A part of this size is in memory at once.
const GROUP_ROWS: usize = 1 << 20;

/// The table whose files say what a folder holds.
const DUMPS: &str = "dumps";

/// A folder of Parquet files.
pub struct Parquet {
    folder: PathBuf,
}

impl Parquet {
    /// Opens a folder for writing. Creates it if it does not exist.
    pub fn create(folder: &Path) -> std::result::Result<Self, StoreError> {
        fs::create_dir_all(folder).map_err(|source| StoreError::Io { path: folder.to_owned(), source })?;
        Ok(Self { folder: folder.to_owned() })
    }

    /// Opens a folder that [`Parquet::create`] made and that holds something.
    pub fn open(folder: &Path) -> std::result::Result<Self, StoreError> {
        if !folder.join(DUMPS).is_dir() {
            return Err(StoreError::NoStore { path: folder.to_owned() });
        }
        Ok(Self { folder: folder.to_owned() })
    }

    fn file(&self, table: &str, heading: &Heading) -> PathBuf {
        let day = format!("date={}", date::day(heading.time));
        self.folder.join(table).join(day).join(format!("{}.parquet", heading.dump))
    }
}

impl Store for Parquet {
    fn headings(&self) -> std::result::Result<Vec<Heading>, StoreError> {
        let mut headings = Vec::new();
        let is_day = |path: &&PathBuf| {
            path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"date="))
        };
        for day in entries(&self.folder.join(DUMPS))?.iter().filter(is_day) {
            let files = entries(day)?;
            for file in files.iter().filter(|file| file.extension().is_some_and(|end| end == "parquet")) {
                let damaged = |what| StoreError::Damaged { path: file.clone(), what };
                headings.extend(Rows::new(read(file, DUMPS)?).headings().map_err(damaged)?);
            }
        }
        headings.sort_by_key(|heading| (heading.time, heading.dump));
        Ok(headings)
    }

    fn content(&self, heading: &Heading) -> std::result::Result<Content, StoreError> {
        let damaged = |what| StoreError::Damaged { path: self.folder.clone(), what };
        from_tables(heading, |name| read(&self.file(name, heading), name), damaged)
    }

    fn add(&mut self, content: &Content, replace: bool) -> std::result::Result<(), StoreError> {
        let mut heading = content.heading(0);
        heading.dump = super::number(&heading);
        if self.file(DUMPS, &heading).exists() && !replace {
            return Err(StoreError::AlreadyThere { path: self.folder.clone(), what: super::words(&heading) });
        }
        let mut writers: Vec<Writer> = Vec::new();
        content.each_part(heading.dump, GROUP_ROWS, |part| {
            let path = self.file(part.name, &heading);
            let failed = |source| StoreError::Parquet { path: path.clone(), source };
            if writers.last().is_none_or(|writer| writer.path != path) {
                writers.push(Writer::new(&part, path.clone()).map_err(failed)?);
            }
            writers.last_mut().map_or(Ok(()), |writer| writer.add(&part)).map_err(failed)
        })?;
        // The row of `dumps` says that a content is there. So the old one goes before other files are replaced, and the new one,
        // which was written first, gets its name last.
        match fs::remove_file(self.file(DUMPS, &heading)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            result => result.map_err(|source| StoreError::Io { path: self.folder.clone(), source })?,
        }
        writers.into_iter().rev().try_for_each(Writer::finish)
    }
}

/// The name of a file that is not whole. It begins with a dot, so Spark leaves it out. The file is removed when this is dropped.
struct Unfinished(PathBuf);

impl Drop for Unfinished {
    fn drop(&mut self) {
        // A file that is whole has another name by now.
        _ = fs::remove_file(&self.0);
    }
}

/// A file that gets its name when it is whole.
struct Writer {
    path: PathBuf,
    unfinished: Unfinished,
    file: SerializedFileWriter<File>,
}

impl Writer {
    /// Begins a file for a table with these columns.
    fn new(table: &Table, path: PathBuf) -> Result<Self> {
        let folder = path.parent().unwrap_or(&path);
        fs::create_dir_all(folder)?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let unfinished = Unfinished(folder.join(format!(".{name}")));
        let columns = table.columns.iter().map(|column| match column.values {
            Values::Numbers(_) => format!("required int64 {};", column.name),
            Values::Texts(_) => format!("required binary {} (utf8);", column.name),
        });
        let schema = format!("message {} {{ {} }}", table.name, columns.collect::<String>());
        let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
        let schema = Arc::new(parse_message_type(&schema)?);
        let file = SerializedFileWriter::new(File::create(&unfinished.0)?, schema, Arc::new(properties))?;
        Ok(Self { path, unfinished, file })
    }

    /// Adds rows as a row group.
    fn add(&mut self, part: &Table) -> Result<()> {
        let mut group = self.file.next_row_group()?;
        for column in &part.columns {
            let Some(mut writer) = group.next_column()? else { break };
            match (writer.untyped(), &column.values) {
                (ColumnWriter::Int64ColumnWriter(writer), Values::Numbers(values)) => {
                    writer.write_batch(values, None, None)?;
                }
                (ColumnWriter::ByteArrayColumnWriter(writer), Values::Texts(values)) => {
                    let values: Vec<_> = (0..values.len()).map(|at| ByteArray::from(&values[at])).collect();
                    writer.write_batch(&values, None, None)?;
                }
                _ => return Err(wrong_type(&column.name)),
            }
            writer.close()?;
        }
        group.close().map(|_| ())
    }

    fn finish(self) -> std::result::Result<(), StoreError> {
        let Self { path, unfinished, file } = self;
        let named = file.close().and_then(|_| Ok(fs::rename(&unfinished.0, &path)?));
        named.map_err(|source| StoreError::Parquet { path, source })
    }
}

fn wrong_type(column: &str) -> ParquetError {
    ParquetError::General(format!("the column {column} holds neither numbers nor texts"))
}

fn entries(folder: &Path) -> std::result::Result<Vec<PathBuf>, StoreError> {
    let failed = |source| StoreError::Io { path: folder.to_owned(), source };
    let entries = fs::read_dir(folder).map_err(failed)?;
    entries.map(|entry| entry.map(|entry| entry.path()).map_err(failed)).collect()
}

fn read(path: &Path, name: &'static str) -> std::result::Result<Table, StoreError> {
    read_table(path, name).map_err(|source| StoreError::Parquet { path: path.to_owned(), source })
}

fn read_table(path: &Path, name: &'static str) -> Result<Table> {
    let file = SerializedFileReader::new(File::open(path)?)?;
    let schema = file.metadata().file_metadata().schema_descr();
    let columns = schema.columns().iter().map(|column| match column.physical_type() {
        Type::INT64 => Ok((column.name().to_owned(), Values::Numbers(Vec::new()))),
        Type::BYTE_ARRAY => Ok((column.name().to_owned(), Values::Texts(Texts::default()))),
        _ => Err(wrong_type(column.name())),
    });
    let columns = columns.map(|column| column.map(|(name, values)| Column { name, values }));
    let mut columns: Vec<Column> = columns.collect::<Result<_>>()?;
    for at in 0..file.num_row_groups() {
        let group = file.get_row_group(at)?;
        for (at, column) in columns.iter_mut().enumerate() {
            read_column(&*group, at, column)?;
        }
    }
    let table = Table { name, columns };
    match table.columns.iter().all(|column| column.values.len() == table.rows()) {
        true => Ok(table),
        false => Err(ParquetError::General("its columns are not of the same length".into())),
    }
}

/// Adds the values that a row group has for a column.
fn read_column(group: &dyn RowGroupReader, at: usize, column: &mut Column) -> Result<()> {
    let rows = group.metadata().num_rows() as usize;
    match (group.get_column_reader(at)?, &mut column.values) {
        (ColumnReader::Int64ColumnReader(mut reader), Values::Numbers(values)) => {
            let wanted = values.len() + rows;
            while values.len() < wanted
                && reader.read_records(wanted - values.len(), None, None, values)?.0 > 0
            {}
        }
        (ColumnReader::ByteArrayColumnReader(mut reader), Values::Texts(texts)) => {
            let mut values: Vec<ByteArray> = Vec::new();
            while values.len() < rows
                && reader.read_records(rows - values.len(), None, None, &mut values)?.0 > 0
            {}
            values.iter().try_for_each(|value| value.as_utf8().map(|text| texts.push(text)))?;
        }
        _ => return Err(wrong_type(&column.name)),
    }
    Ok(())
}
