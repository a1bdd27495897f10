//! The moving line of a session: a bar on a terminal. Elsewhere, a line is printed every few seconds.

use std::time::{Duration, Instant};

use indicatif::ProgressBar;

use crate::{figures::part, log, output};

/// The time between two lines where there is no terminal.
const LINE_INTERVAL: Duration = Duration::from_secs(5);

/// Two lines that fit 80 columns. The first has progress and rate; the second has a remark.
const STYLE: &str = "{bar:16} {percent:>3} %  {wide_msg}\n{prefix}";

/// The same without an end that is known.
const ENDLESS_STYLE: &str = "{wide_msg}\n{prefix}";

/// The width of the second line in columns. (The first line is cut by the bar itself.)
const WIDTH: usize = 79;

pub(crate) struct MovingLine {
    bar: ProgressBar,
    is_moving: bool,
    /// The time of the last line, or of the session's begin.
    told: Instant,
}

/// The content of the moving line at one moment.
pub(crate) struct Moment {
    pub done_bytes: u64,
    /// `None` where nobody knows the end. Then there is no bar and no percentage.
    pub total_bytes: Option<u64>,
    /// Progress and rate: "58.3 MiB of 1.2 GiB, 94.1 Mbit/s, 0:12 left".
    pub figures: String,
    /// The receiver that the session waits for, or another remark. It may be empty.
    pub remark: String,
}

impl MovingLine {
    /// Shows `text` until the session begins to move.
    pub fn new(is_hidden: bool, text: &str) -> Self {
        let bar = output::waiting_bar(is_hidden || log::is_on(), text);
        Self { bar, is_moving: false, told: Instant::now() }
    }

    /// Shows what the session waits for, while nothing moves.
    pub fn wait(&self, text: String) {
        if !self.is_moving {
            self.bar.set_message(output::in_one_line(&text));
        }
    }

    pub fn show(&mut self, moment: &Moment) {
        if self.bar.is_hidden() {
            return self.tell(moment);
        }
        if !std::mem::replace(&mut self.is_moving, true) {
            output::set_template(&self.bar, if moment.total_bytes.is_some() { STYLE } else { ENDLESS_STYLE });
        }
        self.bar.set_length(moment.total_bytes.unwrap_or(moment.done_bytes));
        self.bar.set_prefix(output::in_one_line(&moment.remark).chars().take(WIDTH).collect::<String>());
        self.bar.set_message(output::in_one_line(&moment.figures));
        self.bar.set_position(moment.done_bytes);
    }

    fn tell(&mut self, moment: &Moment) {
        if self.told.elapsed() >= LINE_INTERVAL {
            self.told = Instant::now();
            let separator = if moment.remark.is_empty() { "" } else { "; " };
            let percent = moment.total_bytes.map(|total_bytes| part(moment.done_bytes, total_bytes));
            let percent = percent.map_or_else(String::new, |percent| format!("{percent} %: "));
            let line = format!("{percent}{}{separator}{}", moment.figures, moment.remark);
            match log::is_on() {
                true => tracing::info!(target: treecast::unstable::watch::LOG_TARGET, "{line}"),
                false => output::line(&line),
            }
        }
    }

    /// Prints a line that stays above the moving line.
    pub fn line(&self, line: &str) {
        // The log has said it already.
        if log::is_on() {
            return;
        }
        output::above(&self.bar, line);
    }

    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
