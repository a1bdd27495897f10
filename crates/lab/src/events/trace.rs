//! Loss that changes over time, from a trace file.
//!
//! Each line has a time in seconds since the event began, and the loss from then on, as topologies write it. The times ascend.
//! The last line has the word `end` in place of a loss: from then on, the link loses what it usually does. So a file that was cut
//! short is noticed. Lines that begin with `#` are comments.

use std::time::Duration;

use super::error::EventError;
use crate::topology::Loss;

/// The longest trace: a day, as for the other times of an experiment.
const MAX_SECONDS: f64 = 86_400.0;

/// Loss over time.
#[derive(Debug, Clone, PartialEq)]
pub struct Trace {
    /// The name of the file, as the experiment has it.
    pub(super) file: String,
    /// The loss from each time on. `None`: the usual loss, at the trace's end. Empty before the file was read.
    pub(super) steps: Vec<(Duration, Option<Loss>)>,
}

impl Trace {
    /// Reads the text of the file.
    pub(super) fn read(&mut self, text: &str) -> Result<(), EventError> {
        let refused = |what: String| EventError::Trace(self.file.clone(), what);
        let mut steps: Vec<(Duration, Option<Loss>)> = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let (at, loss) = step(line).map_err(|what| refused(format!("line {number}: {what}")))?;
            let last = steps.last();
            if last.is_some_and(|(_, loss)| loss.is_none()) {
                return Err(refused(format!("line {number} is behind the end: remove it")));
            }
            if last.is_some_and(|(before, _)| at <= *before) {
                return Err(refused(format!("line {number}: {at:?} is not after the time before it")));
            }
            steps.push((at, loss));
        }
        if steps.last().is_none_or(|(_, loss)| loss.is_some()) || !text.ends_with('\n') {
            return Err(refused("it is cut short: the last line must be `SECONDS end`".into()));
        }
        self.steps = steps;
        Ok(())
    }
}

fn step(line: &str) -> Result<(Duration, Option<Loss>), String> {
    let (seconds, loss) = line
        .split_once(char::is_whitespace)
        .ok_or_else(|| format!("`{line}`: expected seconds and a loss, like `2.5 5%`"))?;
    let at: Option<f64> = seconds.parse().ok().filter(|at| (0.0..=MAX_SECONDS).contains(at));
    let at = at.ok_or_else(|| format!("time `{seconds}`: expected seconds, up to a day"))?;
    let loss = match loss.trim() {
        "end" => None,
        loss => Some(Loss::parse(loss).map_err(|expected| format!("loss `{loss}`: expected {expected}"))?),
    };
    Ok((Duration::from_secs_f64(at), loss))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<(Duration, Option<Loss>)>, String> {
        let mut trace = Trace { file: "t.tsv".into(), steps: Vec::new() };
        trace.read(text).map(|()| trace.steps).map_err(|error| error.to_string())
    }

    #[test]
    fn loss_changes_at_the_times_of_a_trace_until_its_end() {
        let steps = read("# measured\n0 5%\n\n2.5\tgilbert:1%:25%\n4 0%\n9 end\n").unwrap();
        let times: Vec<f64> = steps.iter().map(|(at, _)| at.as_secs_f64()).collect();
        assert_eq!(times, [0.0, 2.5, 4.0, 9.0]);
        assert_eq!((steps[0].1, steps[2].1, steps[3].1), (Some(Loss::Uniform(0.05)), Some(Loss::None), None));
    }

    #[test]
    fn a_wrong_trace_is_refused_with_its_line() {
        let cases = [
            ("0 5%\n2 10%\n", "it is cut short: the last line must be `SECONDS end`"),
            ("0 5%\n2 end", "it is cut short"),
            ("", "it is cut short"),
            ("0 5%\n2 105%\n3 end\n", "line 2: loss `105%`: expected a percentage like 5%"),
            ("0 5%\n0 6%\n3 end\n", "line 2: 0ns is not after the time before it"),
            ("0 5%\n3 end\n4 5%\n", "line 3 is behind the end"),
            ("0\n", "line 1: `0`: expected seconds and a loss"),
            ("-1 5%\n2 end\n", "line 1: time `-1`: expected seconds, up to a day"),
            ("NaN 5%\n2 end\n", "line 1: time `NaN`"),
        ];
        for (text, expected) in cases {
            let said = read(text).unwrap_err();
            assert!(said.starts_with("trace t.tsv: ") && said.contains(expected), "{said}");
        }
    }
}
