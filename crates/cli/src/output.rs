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

/// Why the first line that did not reach standard output did not.
static FAILED: OnceLock<io::Error> = OnceLock::new();

/// Prints a line on standard output, as `println!` does.
macro_rules! say {
    ($($text:tt)*) => { $crate::output::to_stdout(format_args!("{}\n", format_args!($($text)*))) };
}

/// Prints a line on standard error, as `eprintln!` does.
macro_rules! remark {
    ($($text:tt)*) => { $crate::output::to_stderr(format_args!("{}\n", format_args!($($text)*))) };
}

/// Writes text as it is, and at once: who reads a pipe waits for it.
pub fn to_stdout(text: fmt::Arguments<'_>) {
    let mut stdout = io::stdout().lock();
    if let Err(error) = stdout.write_fmt(text).and_then(|()| stdout.flush()) {
        // An earlier one is told.
        _ = FAILED.set(error);
    }
}

pub fn to_stderr(text: fmt::Arguments<'_>) {
    // There is nowhere left to tell it.
    _ = io::stderr().lock().write_fmt(text);
}

/// Whether nobody reads standard output any more.
pub fn is_unread() -> bool {
    FAILED.get().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// What kept lines from standard output, other than a reader that has seen enough.
pub fn failure() -> Option<String> {
    let error = FAILED.get().filter(|_| !is_unread())?;
    Some(format!("cannot write to standard output: {error}; what it should have said is lost"))
}
