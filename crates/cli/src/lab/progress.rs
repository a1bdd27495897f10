//! The display of an experiment while it runs, for a person or a program.

use std::{
    fmt,
    io::IsTerminal,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use indicatif::{MultiProgress, ProgressBar, ProgressState, ProgressStyle};
use serde_json::json;
use treecast_experiment::{Event, Finished};

use super::pace::Pace;
use crate::arguments::counted;

/// Shows an experiment's events as bars on a terminal, as lines elsewhere, or as JSON.
pub struct Progress {
    json: bool,
    bars: MultiProgress,
    /// The bar of all runs.
    all: ProgressBar,
    /// The bar of the current run's clients.
    run: ProgressBar,
    pace: Arc<Mutex<Pace>>,
}

/// The width of a bar, in characters.
const WIDTH: usize = 40;

impl Progress {
    pub fn new(json: bool) -> Self {
        let bars = MultiProgress::new();
        let pace = Arc::new(Mutex::new(Pace::default()));
        let style = |template: &str, share: fn(&Pace, Instant) -> f64| {
            let pace = Arc::clone(&pace);
            let left = Arc::clone(&pace);
            ProgressStyle::with_template(template)
                .unwrap_or_else(|_| ProgressStyle::default_bar())
                .with_key("share", move |_: &ProgressState, into: &mut dyn fmt::Write| {
                    // If the terminal is gone, there is nothing to do.
                    _ = into.write_str(&bar(share(&locked(&pace), Instant::now())));
                })
                .with_key("left", move |_: &ProgressState, into: &mut dyn fmt::Write| {
                    _ = into.write_str(&span(locked(&left).left(Instant::now())));
                })
        };
        let all = bars.add(ProgressBar::no_length());
        all.set_style(style("{prefix:>9} [{share}] {pos}/{len} runs  {left} left", Pace::all_share));
        let run = bars.add(ProgressBar::no_length());
        run.set_style(style("{prefix:>9} [{share}] {pos}/{len} clients  {elapsed}  {msg}", Pace::run_share));
        if json {
            bars.set_draw_target(indicatif::ProgressDrawTarget::hidden());
        }
        Self { json, bars, all, run, pace }
    }

    pub fn show(&self, event: &Event) {
        if self.json { say!("{}", json!(event)) } else { self.show_person(event) }
    }

    pub fn finish(&self) {
        self.run.finish_and_clear();
        self.all.finish_and_clear();
    }

    fn show_person(&self, event: &Event) {
        match event {
            Event::Planned { runs, estimate, left_out } => self.plan(*runs, *estimate, left_out),
            Event::Building { network, nodes } => {
                self.run.set_message(format!("building {network}: {nodes} nodes"));
            }
            Event::Settling { run } => {
                self.run.set_message(format!("{run}: waiting until the machine is quiet"))
            }
            Event::Started { number, run, clients, expected, .. } => {
                self.all.set_position(*number as u64 - 1);
                self.run.set_length(*clients as u64);
                self.run.set_position(0);
                self.run.reset_elapsed();
                self.run.set_message(format!("{run}: about {}", span(*expected)));
                locked(&self.pace).begin_run(Instant::now(), *expected, *clients);
            }
            Event::Client { .. } => {
                self.run.inc(1);
                locked(&self.pace).client_done();
            }
            Event::Again { run, why } => self.line(&format!("{run}: {why}")),
            Event::Finished(finished) => self.finished(finished),
        }
    }

    fn plan(&self, runs: usize, estimate: Duration, left_out: &[String]) {
        for line in left_out {
            self.line(&format!("left out: {line}"));
        }
        // Runs in virtual time have no estimate.
        match estimate.is_zero() {
            true => self.line(&counted(runs, "run")),
            false => self.line(&format!("{}, about {}", counted(runs, "run"), span(estimate))),
        }
        *locked(&self.pace) = Pace::new(Instant::now(), estimate);
        self.all.set_length(runs as u64);
        self.all.set_prefix("all");
        self.run.set_prefix("this run");
        for bar in [&self.all, &self.run] {
            bar.enable_steady_tick(Duration::from_millis(200));
        }
    }

    fn finished(&self, finished: &Finished) {
        let Finished { number, run, sentence, saturated, cut_short, refused, .. } = finished;
        let mut line = match refused {
            Some(reason) => format!("{run}: refused: {reason}"),
            None => format!("{run}: {sentence}"),
        };
        if *cut_short {
            line += " (cut short)";
        }
        if let Some(reason) = saturated {
            line += &format!(" (saturated: {reason})");
        }
        self.line(&line);
        self.end_run(*number);
    }

    fn end_run(&self, number: usize) {
        self.all.set_position(number as u64);
        locked(&self.pace).end_run();
    }

    /// Prints a line that stays above the bars.
    fn line(&self, text: &str) {
        if std::io::stderr().is_terminal() {
            // If the terminal is gone, the results are still in the database.
            _ = self.bars.println(text);
        } else {
            remark!("{text}");
        }
    }
}

fn locked(pace: &Mutex<Pace>) -> MutexGuard<'_, Pace> {
    pace.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Draws a bar that is filled to a share between 0 and 1.
fn bar(share: f64) -> String {
    let full = (share * WIDTH as f64) as usize;
    format!("{:WIDTH$.WIDTH$}", "=".repeat(full) + ">")
}

/// Formats a duration for a person.
pub fn span(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..90 => format!("{seconds} s"),
        seconds @ 90..7200 => format!("{} min", (seconds + 30) / 60),
        seconds => format!("{:.1} h", seconds as f64 / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_said_as_people_say_them() {
        assert_eq!(
            [45, 100, 3600, 9000].map(|s| span(Duration::from_secs(s))),
            ["45 s", "2 min", "60 min", "2.5 h"]
        );
    }

    #[test]
    fn a_bar_is_as_full_as_its_share() {
        assert_eq!(bar(0.0), format!(">{}", " ".repeat(39)));
        assert_eq!(bar(0.5), format!("{}>{}", "=".repeat(20), " ".repeat(19)));
        assert_eq!(bar(1.0), "=".repeat(40));
    }
}
