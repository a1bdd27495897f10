//! Keeps a program that an agent has started: a process of its own, which hears the program and writes down what it tells.
//!
//! The agent may end and come back meanwhile. Its next start reads on in the file where the last one was. The file is the keeper's
//! standard output, which the agent has locked before: while the lock is held, the keeper lives.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read, Write},
    os::fd::{AsFd, OwnedFd},
    path::Path,
    process::{ChildStdin, Command, Stdio},
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::Duration,
};

use serde::{Deserialize, Serialize};
use treecast_host::{clock, folder, process};
use treecast_lab::program::{self, Said};

use crate::message::{End, MAX_TEXT_LEN, What, nanoseconds, text_of};

/// A line of a keeper's file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Told {
    pub at_ns: u64,
    /// The process of the program, in the first line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    pub what: What,
}

/// The program to keep.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Kept {
    /// The program and its arguments.
    pub words: Vec<String>,
    /// When to start, by the monotonic clock. `None`: at once.
    pub at_ns: Option<u64>,
    /// The longest time that the program may run.
    pub limit_ms: u64,
    /// Whether the keeper's standard input is for the program.
    #[serde(default)]
    pub has_input: bool,
}

/// The byte by which an agent tells the end of a program's input. The pipe itself does not end: the agent may come back.
pub const END_OF_INPUT: u8 = 0;

/// The time that a program has between the signal that asks it to end and the one that makes it.
const GRACE: Duration = Duration::from_secs(2);

/// Runs a program until it has ended, and writes what it tells to the standard output. Its standard error goes to the file `errors`.
///
/// # Errors
/// If nothing can be written.
pub fn run(kept: &Kept, errors: &Path) -> io::Result<()> {
    // The terminal or the agent may go; the program stays.
    process::leave_terminal();
    let mut output = io::stdout();
    let mut tell = |at: Duration, pid, what: What| -> io::Result<()> {
        let told = Told { at_ns: nanoseconds(at), pid, what };
        output.write_all(format!("{}\n", text_of(&told)).as_bytes())?;
        output.flush()
    };
    if let Some(at_ns) = kept.at_ns {
        let moment = Duration::from_nanos(at_ns);
        // A signal may end a sleep early.
        while clock::monotonic() < moment {
            clock::sleep_until(moment);
        }
    }
    let mut command = Command::new(kept.words.first().map_or("", String::as_str));
    command.args(kept.words.iter().skip(1));
    command.stdin(if kept.has_input { Stdio::piped() } else { Stdio::null() });
    process::die_with_parent(&mut command);
    let (say, said) = mpsc::channel();
    // The program's end closes the channel; nobody listens after that.
    let hear = move |what| _ = say.send((clock::monotonic(), what));
    let errors = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(errors)?;
    let started = errors.try_clone().and_then(|errors| program::start(command, errors, hear));
    let (handle, input, pid) = match started {
        Ok(started) => started,
        Err(error) => {
            let reason =
                format!("{} cannot be started: {error}", kept.words.first().map_or("", String::as_str));
            return tell(clock::monotonic(), None, What::Failed { reason });
        }
    };
    if let Some(input) = input {
        thread::spawn(|| pass_on(input));
    }
    tell(clock::monotonic(), Some(pid), What::Began)?;
    let end = clock::monotonic() + Duration::from_millis(kept.limit_ms);
    let mut signals = [libc::SIGTERM, libc::SIGKILL].into_iter();
    let mut deadline = end;
    loop {
        match said.recv_timeout(deadline.saturating_sub(clock::monotonic())) {
            Ok((_, Said::Began)) => {}
            Ok((at, Said::Line(line))) => tell(at, None, What::Line { text: shortened(line) })?,
            Ok((at, Said::Ended(ended, last))) => {
                let end =
                    End { errors: program::tail(&errors).unwrap_or_default(), ..End::from((&ended, last)) };
                return tell(at, None, What::Ended(end));
            }
            Err(RecvTimeoutError::Timeout) => {
                signals.next().into_iter().for_each(|signal| handle.signal(signal));
                deadline = clock::monotonic() + GRACE;
            }
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
    }
}

/// Passes the keeper's standard input on to the program, until its end is told.
fn pass_on(mut input: ChildStdin) {
    let mut bytes = [0; 4096];
    while let Ok(count @ 1..) = io::stdin().read(&mut bytes) {
        let end = bytes[..count].iter().position(|byte| *byte == END_OF_INPUT);
        // A program that has closed its input needs none.
        if input.write_all(&bytes[..end.unwrap_or(count)]).is_err() || end.is_some() {
            return;
        }
    }
}

fn shortened(mut line: String) -> String {
    if line.len() > MAX_TEXT_LEN {
        let end = (0..=MAX_TEXT_LEN).rev().find(|at| line.is_char_boundary(*at)).unwrap_or(0);
        line.truncate(end);
    }
    line
}

/// Makes the file of a keeper, locked, to be its standard output.
///
/// # Errors
/// If it cannot be made.
pub fn create(path: &Path) -> io::Result<OwnedFd> {
    let file = File::create(path)?;
    match folder::lock(&file) {
        folder::Lock::Ours => Ok(file.into()),
        _ => Err(io::Error::other(format!("{} cannot be locked", path.display()))),
    }
}

/// Whether the keeper of a file still lives.
pub fn is_alive(file: &impl AsFd) -> bool {
    match folder::lock(file) {
        folder::Lock::Taken => true,
        folder::Lock::Ours => {
            folder::unlock(file);
            false
        }
        folder::Lock::Unknown => false,
    }
}
