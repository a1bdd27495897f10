//! Exports recordings for other programs: as CSV, as SQL, and as JSON lines.

use std::{
    io::{self, Write},
    time::{Duration, UNIX_EPOCH},
};

use serde_json::json;

use super::{
    MonitorError,
    program::ProgramEnd,
    recording::{Recording, Start},
};
use crate::csv::field;

/// Writes CSV: a heading, and a line for each sample with the seconds since the start and the value of every
/// series.
pub fn csv(recording: &Recording, to: &mut impl Write) -> Result<(), MonitorError> {
    let mut heading = vec!["seconds".to_owned()];
    heading.extend(recording.series.iter().map(|name| field(name).into_owned()));
    let mut values: Vec<Option<i64>> = vec![None; recording.series.len()];
    writeln!(to, "{}", heading.join(",")).map_err(MonitorError::Export)?;
    recording.samples(|at, changes| {
        changes.iter().for_each(|&(series, value)| values[series] = Some(value));
        let value = |value: &Option<i64>| value.map_or(String::new(), |value| value.to_string());
        let values: Vec<String> = values.iter().map(value).collect();
        writeln!(to, "{},{}", decimal_seconds(at), values.join(",")).map_err(MonitorError::Export)
    })?;
    to.flush().map_err(MonitorError::Export)
}

/// Writes SQL statements that add the recording to a database. Tables are created if they do not exist, so
/// several recordings can go into one database.
pub fn sql(recording: &Recording, to: &mut impl Write) -> Result<(), MonitorError> {
    let write = |to: &mut dyn Write| -> io::Result<()> {
        writeln!(to, "BEGIN;\n{SQL_TABLES}")?;
        sql_start(recording, to)?;
        for (number, name) in recording.series.iter().enumerate() {
            let name = sql_text(name);
            writeln!(to, "INSERT INTO monitor_series VALUES ({SQL_RECORDING}, {number}, {name});")?;
        }
        Ok(())
    };
    write(to).map_err(MonitorError::Export)?;
    recording.samples(|at, changes| {
        let insert = |&(series, value): &(usize, i64)| {
            let at = at.as_nanos();
            writeln!(to, "INSERT INTO monitor_samples VALUES ({SQL_RECORDING}, {series}, {at}, {value});")
        };
        changes.iter().try_for_each(insert).map_err(MonitorError::Export)
    })?;
    writeln!(to, "COMMIT;").and_then(|()| to.flush()).map_err(MonitorError::Export)
}

/// Writes JSON lines: the start, each sample with the series that changed, the end of the program, and the end.
pub fn json(recording: &Recording, to: &mut impl Write) -> Result<(), MonitorError> {
    let mut line = |object: serde_json::Value| writeln!(to, "{object}").map_err(MonitorError::Export);
    line(json!({
        "event": "start",
        "started_unix_ns": unix_ns(&recording.start),
        "every_ns": recording.start.every.as_nanos() as u64,
        "machine": recording.start.machine,
    }))?;
    if let Some((pid, arguments)) = &recording.program {
        line(json!({"event": "program", "pid": pid, "arguments": arguments}))?;
    }
    recording.samples(|at, changes| {
        let value = |&(series, value): &(usize, i64)| (recording.series[series].clone(), value.into());
        let values: serde_json::Map<_, _> = changes.iter().map(value).collect();
        line(json!({"event": "sample", "seconds": at.as_secs_f64(), "changed": values}))
    })?;
    if let Some(end) = &recording.program_end {
        line(json_of_end(end))?;
    }
    line(json!({"event": "end", "complete": recording.ending == super::Ending::Complete}))?;
    to.flush().map_err(MonitorError::Export)
}

const SQL_TABLES: &str = "\
CREATE TABLE IF NOT EXISTS monitor_recordings (id INTEGER PRIMARY KEY, hostname TEXT, kernel TEXT, cpu_model TEXT, \
cpus INTEGER, memory_bytes INTEGER, started_unix_ns INTEGER, every_ns INTEGER, complete INTEGER DEFAULT 0, \
program TEXT, elapsed_ns INTEGER, cpu_user_ns INTEGER, cpu_system_ns INTEGER, peak_memory_bytes INTEGER, \
exit_code INTEGER, exit_signal INTEGER);
CREATE TABLE IF NOT EXISTS monitor_series (recording_id INTEGER, number INTEGER, name TEXT, \
PRIMARY KEY (recording_id, number));
CREATE TABLE IF NOT EXISTS monitor_samples (recording_id INTEGER, series_number INTEGER, at_ns INTEGER, value INTEGER);";

/// The SQL expression for the recording that these statements have begun.
const SQL_RECORDING: &str = "(SELECT max(id) FROM monitor_recordings)";

fn sql_start(recording: &Recording, to: &mut dyn Write) -> io::Result<()> {
    let (start, machine) = (&recording.start, &recording.start.machine);
    let or_null = |text: Option<String>| text.unwrap_or_else(|| "NULL".into());
    let program = recording.program.as_ref().map(|(_, arguments)| sql_text(&arguments.join(" ")));
    let end = recording.program_end.as_ref();
    let of_end = |value: fn(&ProgramEnd) -> Option<i128>| or_null(end.and_then(value).map(|n| n.to_string()));
    let values = [
        sql_text(&machine.hostname),
        sql_text(&machine.kernel),
        sql_text(&machine.cpu_model),
        machine.cpus.to_string(),
        machine.memory_bytes.to_string(),
        unix_ns(start).to_string(),
        start.every.as_nanos().to_string(),
        i32::from(recording.ending == super::Ending::Complete).to_string(),
        or_null(program),
        of_end(|end| i128::try_from(end.elapsed.as_nanos()).ok()),
        of_end(|end| i128::try_from(end.cpu_user.as_nanos()).ok()),
        of_end(|end| i128::try_from(end.cpu_system.as_nanos()).ok()),
        of_end(|end| Some(end.peak_memory_bytes.into())),
        of_end(|end| end.exit.code_and_signal().0.map(i128::from)),
        of_end(|end| end.exit.code_and_signal().1.map(i128::from)),
    ];
    writeln!(
        to,
        "INSERT INTO monitor_recordings (hostname, kernel, cpu_model, cpus, memory_bytes, started_unix_ns, every_ns, \
         complete, program, elapsed_ns, cpu_user_ns, cpu_system_ns, peak_memory_bytes, exit_code, exit_signal) \
         VALUES ({});",
        values.join(", ")
    )
}

fn json_of_end(end: &ProgramEnd) -> serde_json::Value {
    let (code, signal) = end.exit.code_and_signal();
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

fn unix_ns(start: &Start) -> u64 {
    start.at.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64
}

fn decimal_seconds(at: Duration) -> String {
    format!("{}.{:06}", at.as_secs(), at.subsec_micros())
}

/// Quotes a text for SQL. SQL has no escape for a zero byte, and SQLite's shell would end the statement there.
fn sql_text(text: &str) -> String {
    format!("'{}'", text.replace('\0', "\u{fffd}").replace('\'', "''"))
}
