//! Lines on standard output and standard error.
//!
//! Whoever reads them may go away (`| head`), which `println!` takes for a reason to panic. Here it is none:
//! a session, a lab or a router goes on and ends as it would have. Anything else that keeps lines from
//! standard output, such as a full disk, is told at the end by [`failure`].

use std::{
    fmt,
    io::{self, Write},
    sync::OnceLock,
};

use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

/// Why the first line that did not reach standard output did not.
static FAILED: OnceLock<io::Error> = OnceLock::new();

/// Prints a line on standard output, as `println!` does.
macro_rules! say {
    ($($text:tt)*) => { $crate::output::to_stdout(format_args!("{}\n", format_args!($($text)*))) };
}

/// Prints a line on standard error, as `eprintln!` does, and one only: see [`in_one_line`].
macro_rules! remark {
    ($($text:tt)*) => { $crate::output::to_stderr(format_args!("{}\n", $crate::output::in_one_line(&format!($($text)*)))) };
}

/// Writes text as it is, and at once: who reads a pipe waits for it.
pub fn to_stdout(text: fmt::Arguments<'_>) {
    let mut stdout = io::stdout().lock();
    if let Err(error) = stdout.write_fmt(text).and_then(|()| stdout.flush()) {
        // An earlier one is told.
        _ = FAILED.set(error);
    }
}

/// JSON lines for standard output that are written together, so that ten thousand files do not cost as many writes.
/// Those that nobody has asked for are written when it is dropped.
#[derive(Debug, Default)]
pub struct Lines {
    text: String,
}

impl Lines {
    /// So much does not wait.
    const ENOUGH_BYTES: usize = 64 * 1024;

    /// Adds a line, and writes it at once, with those before it, unless it waits for others.
    pub fn add(&mut self, line: &impl Serialize, waits: bool) {
        // Nothing that is shown has keys other than strings, which is all that could fail.
        self.text += &serde_json::to_string(line).unwrap_or_default();
        self.text.push('\n');
        if !waits || self.text.len() >= Self::ENOUGH_BYTES {
            self.show();
        }
    }

    /// Writes the lines that wait.
    pub fn show(&mut self) {
        if !self.text.is_empty() {
            to_stdout(format_args!("{}", self.text));
            self.text.clear();
        }
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        self.show();
    }
}

pub fn to_stderr(text: fmt::Arguments<'_>) {
    // There is nowhere left to tell it.
    _ = io::stderr().lock().write_fmt(text);
}

/// A bar on standard error, where that is a terminal, which is a text until it is given another style: a bar
/// of length 0 would be full.
pub fn waiting_bar(is_hidden: bool, text: &str) -> ProgressBar {
    let bar = if is_hidden { ProgressBar::hidden() } else { ProgressBar::new(0) };
    set_template(&bar, "{msg}");
    bar.set_message(text.to_owned());
    bar
}

/// Makes a bar look like `template` from now on.
pub fn set_template(bar: &ProgressBar, template: &str) {
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
}

/// A line that stays above a bar, or goes to standard error where there is none: lines are for logs, too.
pub fn above(bar: &ProgressBar, line: &str) {
    if bar.is_hidden() { self::line(line) } else { bar.println(in_one_line(line)) }
}

/// A line on standard error.
pub fn line(line: &str) {
    remark!("{line}");
}

pub use treecast_driver::words::in_one_line;

/// Whether nobody reads standard output any more.
pub fn is_unread() -> bool {
    FAILED.get().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// What kept lines from standard output, other than a reader that has seen enough.
pub fn failure() -> Option<String> {
    let error = FAILED.get().filter(|_| !is_unread())?;
    Some(format!("cannot write to standard output: {error}; what it should have said is lost"))
}
