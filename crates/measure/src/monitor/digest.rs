//! Summarises a recording in one table.

use std::time::Duration;

use super::{
    MonitorError,
    program::ProgramEnd,
    recording::{Ending, Recording, Start},
};
use crate::{series, statistics::Running, tables::Table};

/// The summary of a recording.
#[derive(Debug, Clone)]
pub struct Digest {
    pub start: Start,
    pub arguments: Vec<String>,
    pub program: Option<ProgramEnd>,
    pub samples: u64,
    pub elapsed: Duration,
    pub ending: Ending,
    /// Each series' name and statistics. The statistics of a counter are about its growth a second between
    /// samples, those of a gauge about its values.
    pub series: Vec<(String, Running)>,
}

impl Digest {
    /// Reads a recording to its end.
    pub fn of(recording: &Recording) -> Result<Self, MonitorError> {
        let mut watched: Vec<Watched> = recording.series.iter().map(|name| Watched::new(name)).collect();
        let (mut samples, mut elapsed) = (0, Duration::ZERO);
        let mut values: Vec<Option<i64>> = vec![None; watched.len()];
        recording.samples(|at, changes| {
            (samples, elapsed) = (samples + 1, at);
            changes.iter().for_each(|&(series, value)| values[series] = Some(value));
            for (of_series, value) in watched.iter_mut().zip(&values) {
                value.iter().for_each(|value| of_series.see(at, *value));
            }
            Ok::<(), MonitorError>(())
        })?;
        Ok(Self {
            start: recording.start.clone(),
            arguments: recording.program.clone().unwrap_or_default().1,
            program: recording.program_end,
            samples,
            elapsed,
            ending: recording.ending,
            series: recording
                .series
                .iter()
                .cloned()
                .zip(watched.iter().map(|of_series| of_series.values))
                .collect(),
        })
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
        if self.ending == Ending::CutShort {
            table.notes.push("This recording was cut short; every sample before that is whole.".into());
        }
        table
    }

    fn title(&self) -> String {
        let of = format!("{}, every {} s: ", self.start.machine.hostname, self.start.every.as_secs_f64());
        format!("{of}{} samples in {:.3} s", self.samples, self.elapsed.as_secs_f64())
    }
}

/// A series while a recording is read.
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

/// The unit in which a series is shown, and the factor for its values.
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
