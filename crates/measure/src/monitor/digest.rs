//! A recording in one table.

use std::{io::Read, time::Duration};

use super::{
    file::{Ending, Reader},
    program::ProgramEnd,
    record::{Record, Start},
};
use crate::{series, statistics::Running, tables::Table};

/// What a recording says in short.
#[derive(Debug, Clone)]
pub struct Digest {
    pub start: Option<Start>,
    pub arguments: Vec<String>,
    pub program: Option<ProgramEnd>,
    pub samples: u64,
    pub elapsed: Duration,
    pub ending: Ending,
    /// Name, and for a counter its growth a second between samples, for a gauge its values.
    pub series: Vec<(String, Running)>,
}

impl Digest {
    /// Reads a recording to its end.
    pub fn of(reader: &mut Reader<impl Read>) -> Self {
        let (mut start, mut arguments, mut program, mut samples) = (None, Vec::new(), None, 0);
        let mut watched: Vec<Watched> = Vec::new();
        while let Some(record) = reader.next_record() {
            match record {
                Record::Start(of_recording) => start = Some(of_recording),
                Record::Series(name) => watched.push(Watched::new(&name)),
                Record::Program { arguments: of_program, .. } => arguments = of_program,
                Record::ProgramEnd(end) => program = Some(end),
                Record::Sample(_) => {
                    samples += 1;
                    let values = reader.series().iter().map(|(_, value)| *value);
                    watched
                        .iter_mut()
                        .zip(values)
                        .for_each(|(of_series, value)| of_series.see(reader.at(), value));
                }
                Record::End => {}
            }
        }
        let names = reader.series().iter().map(|(name, _)| name.clone());
        Self {
            start,
            arguments,
            program,
            samples,
            elapsed: reader.at(),
            ending: reader.ending().unwrap_or(Ending::CutShort { at_byte: 0 }),
            series: names.zip(watched.iter().map(|of_series| of_series.values)).collect(),
        }
    }

    /// The table of all series, in units for people.
    pub fn table(&self) -> Table {
        let mut table = Table::new(self.title(), &["<SERIES", "<UNIT", "MEAN", "MIN", "MAX", "STD"]);
        for (name, summary) in &self.series {
            if summary.count == 0 {
                continue;
            }
            let (unit, scale) = unit_of(name);
            let number = |value: f64| format!("{:.3}", value * scale).into();
            table.rows.push(vec![
                name.as_str().into(),
                unit.into(),
                number(summary.mean),
                number(summary.min),
                number(summary.max),
                number(summary.standard_deviation()),
            ]);
        }
        if let Some(end) = &self.program {
            table.notes.push(format!(
                "{}: {:.3} s, CPU {:.3} s user and {:.3} s system, peak memory {:.1} MiB, {}",
                self.arguments.join(" "),
                end.elapsed.as_secs_f64(),
                end.cpu_user.as_secs_f64(),
                end.cpu_system.as_secs_f64(),
                end.peak_memory_bytes as f64 / (1 << 20) as f64,
                end.exit
            ));
        }
        if let Ending::CutShort { at_byte } = self.ending {
            table
                .notes
                .push(format!("This recording was cut short at byte {at_byte}; all before that is whole."));
        }
        table
    }

    fn title(&self) -> String {
        let of = self.start.as_ref().map_or(String::new(), |start| {
            format!("{}, every {} s: ", start.machine.hostname, start.every.as_secs_f64())
        });
        format!("{of}{} samples in {:.3} s", self.samples, self.elapsed.as_secs_f64())
    }
}

/// A series while the recording is read.
struct Watched {
    is_counter: bool,
    last: Option<(Duration, i64)>,
    values: Running,
}

impl Watched {
    fn new(name: &str) -> Self {
        Self { is_counter: series::is_counter(name), last: None, values: Running::default() }
    }

    fn see(&mut self, at: Duration, value: i64) {
        if !self.is_counter {
            self.values.add(value as f64);
            return;
        }
        if let Some((before, last)) = self.last.replace((at, value))
            && at > before
        {
            self.values.add(value.wrapping_sub(last).max(0) as f64 / (at - before).as_secs_f64());
        }
    }
}

/// The unit that a series is shown in, and what its numbers are multiplied by.
fn unit_of(name: &str) -> (&'static str, f64) {
    if series::is_counter(name) {
        return match name {
            _ if name.ends_with("_ns") => ("processors", 1e-9),
            _ if name.ends_with("_bytes") => ("MB/s", 1e-6),
            _ => ("1/s", 1.0),
        };
    }
    match name {
        _ if name.ends_with("_milli") => ("", 1e-3),
        _ if name.ends_with("_bytes") => ("MiB", 1.0 / (1 << 20) as f64),
        _ => ("", 1.0),
    }
}
