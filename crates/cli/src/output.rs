//! Lines on standard output and standard error.
//!
//! The reader of these lines may go away (`| head`). `println!` panics then. The functions here ignore it: a
//! session, a lab or a router goes on and ends as it would have. Every other reason that keeps lines from
//! standard output, such as a full disk, is reported at the end by [`failure`].

use std::{
    collections::VecDeque,
    fmt,
    io::{self, Write},
    sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError},
    thread::{self, JoinHandle},
    time::Duration,
};

use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use treecast_host::poller::is_writable;

/// The error of the first line that did not reach standard output.
static FAILED: OnceLock<io::Error> = OnceLock::new();

/// Makes a value of a structure that may grow, and that only its own crate can write out.
#[cfg(test)]
macro_rules! filled {
    (@set $filled:ident $field:ident $value:expr) => { $filled.$field = $value };
    (@set $filled:ident $field:ident) => { $filled.$field = $field };
    ($type:ty { $($field:ident $(: $value:expr)?),* $(,)? }) => {{
        let mut filled = <$type>::default();
        $(filled!(@set filled $field $($value)?);)*
        filled
    }};
}

/// Prints a line on standard output, as `println!` does.
macro_rules! say {
    ($($text:tt)*) => { $crate::output::to_stdout(format_args!("{}\n", format_args!($($text)*))) };
}

/// Prints a single line on standard error, as `eprintln!` does; see [`in_one_line`].
macro_rules! remark {
    ($($text:tt)*) => { $crate::output::to_stderr(format_args!("{}\n", $crate::output::in_one_line(&format!($($text)*)))) };
}

/// Writes text to standard output unchanged and at once, because the reader of a pipe waits for it.
pub fn to_stdout(text: fmt::Arguments<'_>) {
    let mut stdout = io::stdout().lock();
    if let Err(error) = stdout.write_fmt(text).and_then(|()| stdout.flush()) {
        // An earlier error is already known.
        _ = FAILED.set(error);
    }
}

/// JSON lines for standard output that are written together, so that ten thousand files do not cost ten
/// thousand writes. Lines that wait for others are written when this is dropped.
///
/// A thread writes the lines, so a session and its receivers do not wait for the reader of the pipe. Lines wait
/// in memory, up to [`Lines::MOST_BYTES`]. Further lines are left out, and an event says how many. At its end,
/// the program waits for its reader, but not for ever: see [`Stream::patience`].
#[derive(Debug, Default)]
pub struct Lines {
    text: String,
    writer: Option<Writer>,
}

impl Lines {
    /// The number of bytes from which on waiting lines are written.
    const ENOUGH_BYTES: usize = 64 * 1024;

    /// The largest number of bytes that wait for a reader: the events of about 50,000 files, or of an hour.
    const MOST_BYTES: usize = 16 << 20;

    /// Adds a line. Writes it at once, with all lines before it, unless `waits` is set.
    pub fn add(&mut self, line: &impl Serialize, waits: bool) {
        // Serialising fails only for maps whose keys are not strings, and no event has one.
        self.text += &serde_json::to_string(line).unwrap_or_default();
        self.text.push('\n');
        if !waits || self.text.len() >= Self::ENOUGH_BYTES {
            self.show();
        }
    }

    /// Writes the waiting lines.
    pub fn show(&mut self) {
        if self.text.is_empty() {
            return;
        }
        let text = std::mem::take(&mut self.text);
        self.writer.get_or_insert_with(|| Writer::start(Stream::Output)).write(text, Self::MOST_BYTES);
    }

    /// Adds the last line, and waits until all lines are written. The session is over, so this delays no
    /// receiver.
    pub fn end(&mut self, line: &impl Serialize) {
        self.show();
        drop(self.writer.take());
        self.add(line, false);
        drop(self.writer.take());
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        self.show();
    }
}

/// Where a [`Writer`] writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stream {
    /// Standard output, with JSON lines.
    Output,
    /// Standard error, with lines for people and logs.
    Error,
}

impl Stream {
    fn write(self, text: &str) {
        match self {
            Self::Output => to_stdout(format_args!("{text}")),
            // There is nowhere left to tell what goes wrong here.
            Self::Error => _ = io::stderr().lock().write_all(text.as_bytes()),
        }
    }

    /// The time for which a reader may read nothing at the session's end. After it, the program stops waiting, and the
    /// lines that it has not written are lost. A program that reads events may be busy for a while. Lines on
    /// standard error are for people, and a pipe that nobody reads must not keep a finished program: it waits for a
    /// moment only. That lines are lost there is told nowhere, because only standard error could tell it.
    fn patience(self) -> Duration {
        match self {
            Self::Output => Duration::from_secs(30),
            Self::Error => Duration::from_secs(1),
        }
    }

    /// The line that stands for lines that have been left out.
    fn left_out(self, lines: u64) -> String {
        match self {
            Self::Output => format!("{{\"event\":\"left_out\",\"lines\":{lines}}}\n"),
            Self::Error => format!("treecast: {lines} lines are left out here, as nobody read them\n"),
        }
    }
}

/// The thread that writes lines. Dropping this waits for the thread while somebody reads.
#[derive(Debug)]
struct Writer {
    stream: Stream,
    shared: Arc<(Mutex<Unwritten>, Condvar)>,
    /// `None` if no thread could be started.
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Unwritten {
    texts: VecDeque<String>,
    bytes: usize,
    /// The number of texts that have been written.
    written: u64,
    /// The number of lines that were left out since memory was full.
    left_out: u64,
    is_over: bool,
    is_done: bool,
}

impl Writer {
    fn start(stream: Stream) -> Self {
        let shared = Arc::<(Mutex<Unwritten>, Condvar)>::default();
        let theirs = Arc::clone(&shared);
        let thread = thread::Builder::new().name("lines".into()).spawn(move || write_lines(stream, &theirs));
        Self { stream, shared, thread: thread.ok() }
    }

    fn write(&self, text: String, most_bytes: usize) {
        if self.thread.is_none() {
            return self.stream.write(&text);
        }
        let mut unwritten = lock(&self.shared.0);
        if unwritten.left_out == 0 && unwritten.bytes + text.len() <= most_bytes {
            unwritten.bytes += text.len();
            unwritten.texts.push_back(text);
        } else {
            unwritten.left_out += text.lines().count() as u64;
        }
        self.shared.1.notify_all();
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let (mut unwritten, changed) = (lock(&self.shared.0), &self.shared.1);
        unwritten.is_over = true;
        changed.notify_all();
        while !unwritten.is_done && self.thread.is_some() {
            let written = unwritten.written;
            unwritten = changed
                .wait_timeout(unwritten, self.stream.patience())
                .unwrap_or_else(PoisonError::into_inner)
                .0;
            if !unwritten.is_done && unwritten.written == written {
                if self.stream == Stream::Output {
                    let seconds = self.stream.patience().as_secs();
                    remark!(
                        "standard output was not read for {seconds} s after the session: its last events are lost"
                    );
                }
                return;
            }
        }
    }
}

fn write_lines(stream: Stream, (unwritten, changed): &(Mutex<Unwritten>, Condvar)) {
    let mut waiting = lock(unwritten);
    loop {
        if let Some(text) = waiting.texts.pop_front() {
            drop(waiting);
            stream.write(&text);
            waiting = lock(unwritten);
            waiting.bytes -= text.len();
            waiting.written += 1;
        } else if waiting.left_out > 0 {
            let lines = std::mem::take(&mut waiting.left_out);
            waiting.texts.push_back(stream.left_out(lines));
            waiting.bytes += waiting.texts[0].len();
        } else if waiting.is_over {
            waiting.is_done = true;
            return changed.notify_all();
        } else {
            waiting = changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// The counts are right even if another thread has panicked.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The thread that writes to standard error. `None` until a line finds the pipe full.
static REMARKS: Mutex<Option<Writer>> = Mutex::new(None);

/// Writes text to standard error unchanged. The caller never waits for the reader: text that finds no room is kept as
/// [`Lines`] are.
pub fn to_stderr(text: fmt::Arguments<'_>) {
    /// A pipe that has any room takes so many bytes (`PIPE_BUF`).
    const ROOM_BYTES: usize = 4096;
    let text = text.to_string();
    let mut writer = lock(&REMARKS);
    if writer.is_none() && text.len() <= ROOM_BYTES && is_writable(&io::stderr()) {
        Stream::Error.write(&text);
    } else {
        writer.get_or_insert_with(|| Writer::start(Stream::Error)).write(text, Lines::MOST_BYTES);
    }
}

/// Waits at the program's end until standard error has been read, but no longer than [`Stream::patience`] for a reader
/// that reads nothing.
pub fn finish() {
    let writer = lock(&REMARKS).take();
    drop(writer);
}

/// Standard error for logs, written as by [`to_stderr`]: each write is one event.
pub struct ErrorLog;

impl Write for ErrorLog {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        to_stderr(format_args!("{}", String::from_utf8_lossy(bytes)));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Creates a bar on standard error, if that is a terminal. It shows a text until it gets another style, because
/// a bar of length 0 would look full.
pub fn waiting_bar(is_hidden: bool, text: &str) -> ProgressBar {
    let bar = if is_hidden { ProgressBar::hidden() } else { ProgressBar::new(0) };
    set_template(&bar, "{msg}");
    bar.set_message(text.to_owned());
    bar
}

/// Changes the style of a bar to `template`.
pub fn set_template(bar: &ProgressBar, template: &str) {
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
}

/// Prints a line above a bar, or to standard error if there is no bar.
pub fn above(bar: &ProgressBar, line: &str) {
    if bar.is_hidden() { self::line(line) } else { bar.println(in_one_line(line)) }
}

/// Prints a line on standard error.
pub fn line(line: &str) {
    remark!("{line}");
}

/// A table: a heading, and rows whose cells are as wide as their column.
pub fn table<const N: usize>(header: &[&str; N], rows: &[[&str; N]]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column]).chain([header[column]]);
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..N).map(width).collect();
    std::iter::once(header)
        .chain(rows)
        .map(|row| {
            let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
            format!("{}\n", cells.collect::<Vec<_>>().join("  ").trim_end())
        })
        .collect()
}

pub use treecast::unstable::watch::in_one_line;

/// Whether nobody reads standard output any more.
pub fn is_unread() -> bool {
    FAILED.get().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// The error that kept lines from standard output. A reader that has gone away is none.
pub fn failure() -> Option<String> {
    let error = FAILED.get().filter(|_| !is_unread())?;
    Some(format!("cannot write to standard output: {error}; what it should have said is lost"))
}
