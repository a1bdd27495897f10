//! The program that the monitor starts, and the resources that it used.

use std::{
    ffi::OsString,
    io,
    os::fd::{AsFd, BorrowedFd},
    process::Command,
    time::{Duration, Instant},
};

use treecast_host::process::{self, Watched};

use super::MonitorError;

/// The resources that a program used, from its start to its end (librecast-updates-2022, 2.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProgramEnd {
    pub elapsed: Duration,
    /// Processor time of the program itself, and of the processes that it started and waited for.
    pub cpu_user: Duration,
    /// Processor time of the kernel on its behalf.
    pub cpu_system: Duration,
    /// Peak memory, in bytes, of the largest of the program's processes.
    pub peak_memory_bytes: u64,
    pub exit: Exit,
}

/// The end of a program: its exit code, or the signal that ended it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    Code(i32),
    Signal(i32),
}

impl Exit {
    /// The exit code and the signal's number. One of them is `None`.
    pub fn code_and_signal(self) -> (Option<i32>, Option<i32>) {
        match self {
            Exit::Code(code) => (Some(code), None),
            Exit::Signal(signal) => (None, Some(signal)),
        }
    }
}

impl std::fmt::Display for Exit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Exit::Code(code) => write!(f, "exit code {code}"),
            Exit::Signal(signal) => write!(f, "killed by signal {signal}"),
        }
    }
}

/// A running program. If this is dropped before [`Program::end`], the program is killed and waited for.
pub struct Program {
    process: Watched,
    started: Instant,
}

impl Program {
    /// Starts a program. The first of `arguments` is its name.
    pub fn start(arguments: &[OsString]) -> Result<Self, MonitorError> {
        let Some((program, arguments)) = arguments.split_first() else {
            let source = io::Error::other("it has no name");
            return Err(MonitorError::Program { program: String::new(), source });
        };
        let failed =
            |source| MonitorError::Program { program: program.to_string_lossy().into_owned(), source };
        let mut command = Command::new(program);
        // The monitor blocks signals and reads them from a descriptor. Its program must not inherit that.
        process::with_all_signals(command.args(arguments));
        Ok(Self { process: Watched::start(&mut command).map_err(failed)?, started: Instant::now() })
    }

    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// A descriptor that is readable when the program has ended.
    pub fn ended(&self) -> BorrowedFd<'_> {
        self.process.as_fd()
    }

    /// Passes a signal on to the program.
    pub fn signal(&self, signal: i32) {
        self.process.signal(signal);
    }

    /// Waits until the program has ended. Returns the resources that it used.
    pub fn end(self) -> Result<ProgramEnd, MonitorError> {
        let ended = self.process.end().map_err(MonitorError::Wait)?;
        Ok(ProgramEnd {
            elapsed: self.started.elapsed(),
            cpu_user: ended.cpu_user,
            cpu_system: ended.cpu_system,
            peak_memory_bytes: ended.peak_memory_bytes,
            exit: ended.signal.map_or_else(|| Exit::Code(ended.code.unwrap_or(0)), Exit::Signal),
        })
    }
}
