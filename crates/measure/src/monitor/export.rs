//! Recordings for other programs: CSV, SQL, and JSON a line.

use std::{
    io::{self, Read, Write},
    time::{Duration, UNIX_EPOCH},
};

use serde_json::json;

use super::{
    MonitorError,
    file::{Ending, Reader},
    program::Exit,
    record::{Record, Start},
};

/// A heading and then a line a sample: seconds since the start and the value of every series. `names`
/// is read first, to know all series; both readers are of the same recording.
pub fn csv(
    names: &mut Reader<impl Read>,
    values: &mut Reader<impl Read>,
    to: &mut impl Write,
) -> Result<Ending, MonitorError> {
    while names.next_record().is_some() {}
    let mut heading = vec!["seconds".to_owned()];
    heading.extend(names.series().iter().map(|(name, _)| csv_field(name)));
    let columns = names.series().len();
    export(to, |to| {
        writeln!(to, "{}", heading.join(","))?;
        while let Some(record) = values.next_record() {
            if matches!(record, Record::Sample(_)) {
                write!(to, "{}", decimal_seconds(values.at()))?;
                for index in 0..columns {
                    match values.series().get(index) {
                        Some((_, value)) => write!(to, ",{value}")?,
                        None => write!(to, ",")?,
                    }
                }
                writeln!(to)?;
            }
        }
        Ok(())
    })?;
    Ok(ending(values))
}

/// Statements that add the recording to a database. Tables are made when they are not there, so that
/// several recordings can go into one.
pub fn sql(recording: &mut Reader<impl Read>, to: &mut impl Write) -> Result<Ending, MonitorError> {
    export(to, |to| {
        writeln!(to, "BEGIN;\n{SQL_TABLES}")?;
        while let Some(record) = recording.next_record() {
            sql_of(&record, recording, to)?;
        }
        if ending(recording) == Ending::Complete {
            writeln!(to, "UPDATE monitor_recordings SET complete = 1 WHERE id = {SQL_RECORDING};")?;
        }
        writeln!(to, "COMMIT;")
    })?;
    Ok(ending(recording))
}

/// An object a line: the start, each sample with the series that changed, the program's end, the end.
pub fn json(recording: &mut Reader<impl Read>, to: &mut impl Write) -> Result<Ending, MonitorError> {
    export(to, |to| {
        while let Some(record) = recording.next_record() {
            if let Some(object) = json_of(&record, recording) {
                writeln!(to, "{object}")?;
            }
        }
        writeln!(to, "{}", json!({"event": "end", "complete": ending(recording) == Ending::Complete}))
    })?;
    Ok(ending(recording))
}

const SQL_TABLES: &str = "\
CREATE TABLE IF NOT EXISTS monitor_recordings (id INTEGER PRIMARY KEY, hostname TEXT, kernel TEXT, cpu_model TEXT, \
cpus INTEGER, memory_bytes INTEGER, started_unix_ns INTEGER, every_ns INTEGER, complete INTEGER DEFAULT 0, \
program TEXT, elapsed_ns INTEGER, cpu_user_ns INTEGER, cpu_system_ns INTEGER, peak_memory_bytes INTEGER, \
exit_code INTEGER, exit_signal INTEGER);
CREATE TABLE IF NOT EXISTS monitor_series (recording_id INTEGER, number INTEGER, name TEXT, \
PRIMARY KEY (recording_id, number));
CREATE TABLE IF NOT EXISTS monitor_samples (recording_id INTEGER, series_number INTEGER, at_ns INTEGER, value INTEGER);";

/// The recording that these statements have begun.
const SQL_RECORDING: &str = "(SELECT max(id) FROM monitor_recordings)";

fn sql_of(record: &Record, reader: &Reader<impl Read>, to: &mut impl Write) -> io::Result<()> {
    match record {
        Record::Start(start) => sql_start(start, to),
        Record::Series(name) => writeln!(
            to,
            "INSERT INTO monitor_series VALUES ({SQL_RECORDING}, {}, {});",
            reader.series().len() - 1,
            sql_text(name)
        ),
        Record::Sample(sample) => sample.changes.iter().try_for_each(|(number, _)| {
            writeln!(
                to,
                "INSERT INTO monitor_samples VALUES ({SQL_RECORDING}, {number}, {}, {});",
                reader.at().as_nanos(),
                reader.series()[*number].1
            )
        }),
        Record::Program { arguments, .. } => writeln!(
            to,
            "UPDATE monitor_recordings SET program = {} WHERE id = {SQL_RECORDING};",
            sql_text(&arguments.join(" "))
        ),
        Record::ProgramEnd(end) => {
            let (code, signal) = exit_code_and_signal(end.exit);
            let or_null = |n: Option<i32>| n.map_or("NULL".to_owned(), |n| n.to_string());
            writeln!(
                to,
                "UPDATE monitor_recordings SET elapsed_ns = {}, cpu_user_ns = {}, cpu_system_ns = {}, \
                 peak_memory_bytes = {}, exit_code = {}, exit_signal = {} WHERE id = {SQL_RECORDING};",
                end.elapsed.as_nanos(),
                end.cpu_user.as_nanos(),
                end.cpu_system.as_nanos(),
                end.peak_memory_bytes,
                or_null(code),
                or_null(signal),
            )
        }
        Record::End => Ok(()),
    }
}

fn sql_start(start: &Start, to: &mut impl Write) -> io::Result<()> {
    let machine = &start.machine;
    writeln!(
        to,
        "INSERT INTO monitor_recordings (hostname, kernel, cpu_model, cpus, memory_bytes, started_unix_ns, every_ns) \
         VALUES ({}, {}, {}, {}, {}, {}, {});",
        sql_text(&machine.hostname),
        sql_text(&machine.kernel),
        sql_text(&machine.cpu_model),
        machine.cpus,
        machine.memory_bytes,
        unix_ns(start),
        start.every.as_nanos(),
    )
}

fn json_of(record: &Record, reader: &Reader<impl Read>) -> Option<serde_json::Value> {
    Some(match record {
        Record::Start(start) => json!({
            "event": "start",
            "started_unix_ns": unix_ns(start),
            "every_ns": start.every.as_nanos() as u64,
            "machine": start.machine,
        }),
        Record::Program { pid, arguments } => json!({"event": "program", "pid": pid, "arguments": arguments}),
        Record::Sample(sample) => {
            let value = |number: usize| {
                let (name, value) = &reader.series()[number];
                (name.clone(), (*value).into())
            };
            let values: serde_json::Map<_, _> =
                sample.changes.iter().map(|(number, _)| value(*number)).collect();
            json!({"event": "sample", "seconds": reader.at().as_secs_f64(), "changed": values})
        }
        Record::ProgramEnd(end) => {
            let (code, signal) = exit_code_and_signal(end.exit);
            json!({
                "event": "program_end",
                "elapsed_seconds": end.elapsed.as_secs_f64(),
                "cpu_user_seconds": end.cpu_user.as_secs_f64(),
                "cpu_system_seconds": end.cpu_system.as_secs_f64(),
                "peak_memory_bytes": end.peak_memory_bytes,
                "exit_code": code,
                "exit_signal": signal,
            })
        }
        Record::Series(_) | Record::End => return None,
    })
}

fn exit_code_and_signal(exit: Exit) -> (Option<i32>, Option<i32>) {
    match exit {
        Exit::Code(code) => (Some(code), None),
        Exit::Signal(signal) => (None, Some(signal)),
    }
}

fn unix_ns(start: &Start) -> u64 {
    start.at.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64
}

fn decimal_seconds(at: Duration) -> String {
    format!("{}.{:06}", at.as_secs(), at.subsec_micros())
}

fn csv_field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

/// SQL has no escape for a zero byte, and SQLite's shell would end the statement there.
fn sql_text(text: &str) -> String {
    format!("'{}'", text.replace('\0', "\u{fffd}").replace('\'', "''"))
}

fn export<W: Write>(to: &mut W, write: impl FnOnce(&mut W) -> io::Result<()>) -> Result<(), MonitorError> {
    write(to).and_then(|()| to.flush()).map_err(MonitorError::Export)
}

/// Of a reader that has read all.
fn ending(reader: &Reader<impl Read>) -> Ending {
    reader.ending().unwrap_or(Ending::CutShort { at_byte: 0 })
}
