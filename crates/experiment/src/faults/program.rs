//! Starts, observes and kills a sender or a receiver in the lab.

use std::{
    fmt,
    fs::File,
    io::Write,
    path::Path,
    process::{Command, Stdio},
    sync::mpsc::Sender,
};

use treecast_driver::{receive::ReceiveEvent, send::SendEvent};
use treecast_host::process::{Ended, die_with_parent};
use treecast_lab::{
    Error, Lab, Result,
    program::{self, Handle, Said},
};

use super::fetched::Report;

/// The program that a message comes from: a receiver's number, or `None` for the sender.
pub type Who = Option<usize>;

/// A message of a program. `run` counts the programs of one role.
#[derive(Debug)]
pub enum Told {
    /// A sender has begun to send.
    Started {
        run: usize,
    },
    /// The progress of a receiver.
    Fetched {
        who: usize,
        run: usize,
        report: Report,
    },
    /// A receiver's disk is full, or has room again.
    Full {
        who: usize,
        run: usize,
    },
    Room {
        who: usize,
        run: usize,
    },
    /// The program has ended.
    Gone {
        who: Who,
        run: usize,
        exit: Exit,
    },
}

/// The way a program has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    Code(i32),
    Signal,
    /// The program still had work when its time was up.
    Killed,
    /// The program was started again when there was nothing left to do, and waited.
    Waiting,
}

impl Exit {
    /// Whether the program has done its work. Exit code 1 counts as well if it `found_nobody` because all
    /// others were done.
    pub fn is_well(self, found_nobody: bool) -> bool {
        matches!(self, Self::Code(0) | Self::Waiting) || found_nobody && self == Self::Code(1)
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "it has ended with exit code {code}"),
            Self::Signal => f.write_str("a signal has ended it"),
            Self::Killed => f.write_str("it had not ended when its time was up"),
            Self::Waiting => f.write_str("it was started when all was over"),
        }
    }
}

impl From<Ended> for Exit {
    fn from(ended: Ended) -> Self {
        ended.code.map_or(Self::Signal, Self::Code)
    }
}

/// A running program.
pub struct Program {
    handle: Handle,
    pub run: usize,
}

impl Program {
    /// Starts a program in a node. Its messages go to `told`, and its output to a file called `log`.
    pub fn start(
        lab: &Lab,
        node: &str,
        mut command: Command,
        (who, run): (Who, usize),
        log: &Path,
        told: &Sender<Told>,
    ) -> Result<Self> {
        let open = || {
            let log = File::options().create_new(true).append(true).read(true).open(log)?;
            Ok((log.try_clone()?, log))
        };
        let (mut printed, errors) = open().map_err(Error::system(format!("write {}", log.display())))?;
        die_with_parent(&mut command);
        command.stdin(Stdio::null());
        let told = told.clone();
        let hear = move |what| {
            // If nobody listens any more, nothing need be reported. A log that cannot be written is missed only if something fails.
            match what {
                Said::Began => {}
                Said::Line(line) => {
                    _ = writeln!(printed, "{line}");
                    news(&line, who, run).into_iter().for_each(|news| _ = told.send(news));
                }
                Said::Ended(ended, _) => {
                    _ = told.send(Told::Gone { who, run, exit: ended.into() });
                }
            }
        };
        let (handle, ..) = lab.start_by(node, command, |command| program::start(command, errors, hear))?;
        Ok(Self { handle, run })
    }

    /// Kills the program with SIGKILL. Its end is told as that of others.
    pub fn kill(&self) {
        self.handle.signal(libc::SIGKILL);
    }
}

/// Parses a line of a sender's or a receiver's output. `None` if it is not of interest.
fn news(line: &str, who: Who, run: usize) -> Option<Told> {
    let Some(who) = who else {
        let event = serde_json::from_str(line).ok()?;
        return matches!(event, SendEvent::Started { .. }).then_some(Told::Started { run });
    };
    let progress = match serde_json::from_str(line).ok()? {
        ReceiveEvent::Progress(progress) => progress,
        ReceiveEvent::Done(done) => done.progress,
        ReceiveEvent::Full(_) => return Some(Told::Full { who, run }),
        ReceiveEvent::Room => return Some(Told::Room { who, run }),
        _ => return None,
    };
    let (held, kept) = (progress.received_bytes, progress.kept_bytes);
    let fetched = (held + progress.duplicate_bytes).saturating_sub(kept);
    Some(Told::Fetched { who, run, report: Report { held, kept, fetched } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_panics_is_killed_or_fails_has_not_ended_well() {
        let ends = [0, 1, 2, 3, 101].map(Exit::Code).into_iter();
        let ends: Vec<_> = ends.chain([Exit::Signal, Exit::Killed, Exit::Waiting]).collect();
        let well = |found_nobody| ends.iter().copied().filter(move |exit| exit.is_well(found_nobody));
        assert_eq!(well(false).collect::<Vec<_>>(), [Exit::Code(0), Exit::Waiting]);
        assert_eq!(well(true).collect::<Vec<_>>(), [Exit::Code(0), Exit::Code(1), Exit::Waiting]);
    }
}
