//! The moving line of a session: a bar on a terminal, and where there is none a line every few seconds.

use std::time::{Duration, Instant};

use indicatif::ProgressBar;

use crate::{figures::part, log, output};

/// How often a line goes where there is no terminal.
const LINE_INTERVAL: Duration = Duration::from_secs(5);

/// Two lines that fit 80 columns: how far and how fast, then who and why.
const STYLE: &str = "{bar:16} {percent:>3} %  {wide_msg}\n{prefix}";

/// Of the second line, which is cut where the first one is cut by itself.
const WIDTH: usize = 79;

pub(crate) struct MovingLine {
    bar: ProgressBar,
    is_moving: bool,
    /// When the last line went, or the session began.
    told: Instant,
}

/// What it says now.
pub(crate) struct Moment {
    pub done_bytes: u64,
    pub total_bytes: u64,
    /// How much and how fast: "58.3 MiB of 1.2 GiB, 94.1 Mbit/s, 0:12 left".
    pub figures: String,
    /// Who is waited for, or what else is worth a line; may be empty.
    pub remark: String,
}

impl MovingLine {
    /// Says `text` until the session moves.
    pub fn new(is_hidden: bool, text: &str) -> Self {
        let bar = output::waiting_bar(is_hidden || log::is_on(), text);
        Self { bar, is_moving: false, told: Instant::now() }
    }

    /// What is waited for, as long as nothing moves.
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
            output::set_template(&self.bar, STYLE);
        }
        self.bar.set_length(moment.total_bytes);
        self.bar.set_prefix(output::in_one_line(&moment.remark).chars().take(WIDTH).collect::<String>());
        self.bar.set_message(output::in_one_line(&moment.figures));
        self.bar.set_position(moment.done_bytes);
    }

    fn tell(&mut self, moment: &Moment) {
        if self.told.elapsed() >= LINE_INTERVAL {
            self.told = Instant::now();
            let separator = if moment.remark.is_empty() { "" } else { "; " };
            let percent = part(moment.done_bytes, moment.total_bytes);
            let line = format!("{percent} %: {}{separator}{}", moment.figures, moment.remark);
            match log::is_on() {
                true => tracing::info!(target: treecast_driver::SESSION_LOG, "{line}"),
                false => output::line(&line),
            }
        }
    }

    /// A line that stays above it.
    pub fn line(&self, line: &str) {
        // What is logged has said it.
        if log::is_on() {
            return;
        }
        output::above(&self.bar, line);
    }

    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
