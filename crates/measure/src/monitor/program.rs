//! The program that the monitor starts, and what it used.

use std::{
    ffi::OsString,
    io,
    os::{
        fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
        unix::process::CommandExt,
    },
    process::{Child, Command},
    time::{Duration, Instant},
};

use super::MonitorError;

/// What a program used, from its start to its end (librecast-updates-2022, 2.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProgramEnd {
    pub elapsed: Duration,
    /// CPU of the program itself, and of what it started and waited for.
    pub cpu_user: Duration,
    /// CPU of the kernel on its behalf.
    pub cpu_system: Duration,
    /// Of the largest of its processes.
    pub peak_memory_bytes: u64,
    pub exit: Exit,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    Code(i32),
    Signal(i32),
}

impl Exit {
    /// The exit code or the number of the signal; the other is `None`.
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

/// A running program. When it is dropped before [`Program::end`], it is killed and waited for.
pub struct Program {
    child: Option<Child>,
    /// Readable when the program has ended.
    ended: OwnedFd,
    started: Instant,
}

impl Program {
    /// Starts `arguments`, the first of which is the program.
    pub fn start(arguments: &[OsString]) -> Result<Self, MonitorError> {
        let Some((program, arguments)) = arguments.split_first() else {
            let source = io::Error::other("it has no name");
            return Err(MonitorError::Program { program: String::new(), source });
        };
        let failed =
            |source| MonitorError::Program { program: program.to_string_lossy().into_owned(), source };
        let mut command = Command::new(program);
        command.args(arguments);
        // SAFETY: between fork and exec, only a call that is safe there (sigprocmask).
        unsafe { command.pre_exec(unblock_all_signals) };
        let mut child = command.spawn().map_err(failed)?;
        let ended = match open_pidfd(child.id()) {
            Ok(fd) => fd,
            Err(e) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(failed(e));
            }
        };
        Ok(Self { child: Some(child), ended, started: Instant::now() })
    }

    pub fn pid(&self) -> u32 {
        self.child.as_ref().map_or(0, Child::id)
    }

    /// Readable when the program has ended.
    pub fn ended(&self) -> BorrowedFd<'_> {
        std::os::fd::AsFd::as_fd(&self.ended)
    }

    /// Passes a signal on to the program.
    pub fn signal(&self, signal: i32) {
        if let Some(child) = &self.child {
            // SAFETY: kill has no memory effects; the child has not been waited for, so the id is its own.
            unsafe { libc::kill(child.id() as libc::pid_t, signal) };
        }
    }

    /// Waits until the program has ended, and says what it used.
    pub fn end(mut self) -> Result<ProgramEnd, MonitorError> {
        let pid = self.pid();
        // Not waited for by `Child`, as it has no usage to tell.
        self.child = None;
        wait4(pid, self.started).map_err(MonitorError::Wait)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn wait4(pid: u32, started: Instant) -> io::Result<ProgramEnd> {
    let mut status = 0;
    // SAFETY: rusage is plain numbers, of which all bits zero are valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    loop {
        // SAFETY: both pointers are to live variables of the right types.
        let waited = unsafe { libc::wait4(pid as libc::pid_t, &mut status, 0, &mut usage) };
        if waited >= 0 {
            break;
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    let exit = if libc::WIFSIGNALED(status) {
        Exit::Signal(libc::WTERMSIG(status))
    } else {
        Exit::Code(libc::WEXITSTATUS(status))
    };
    Ok(ProgramEnd {
        elapsed: started.elapsed(),
        cpu_user: duration(usage.ru_utime),
        cpu_system: duration(usage.ru_stime),
        // Linux gives kilobytes.
        peak_memory_bytes: u64::try_from(usage.ru_maxrss).unwrap_or(0) * 1024,
        exit,
    })
}

fn duration(time: libc::timeval) -> Duration {
    Duration::new(time.tv_sec.max(0) as u64, time.tv_usec.max(0) as u32 * 1000)
}

fn open_pidfd(pid: u32) -> io::Result<OwnedFd> {
    // SAFETY: pidfd_open has no memory effects; the descriptor is owned from here on.
    unsafe {
        let fd = libc::syscall(libc::SYS_pidfd_open, pid as libc::pid_t, 0);
        if fd < 0 { Err(io::Error::last_os_error()) } else { Ok(OwnedFd::from_raw_fd(fd as i32)) }
    }
}

/// The monitor keeps signals back to read them from a descriptor; its program must not inherit that.
fn unblock_all_signals() -> io::Result<()> {
    // SAFETY: the set is initialised by sigemptyset before it is used.
    unsafe {
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &none, std::ptr::null_mut());
    }
    Ok(())
}

/// Waits until one of `fds` is readable or `timeout` has passed, and says which are readable.
pub fn wait_readable<const N: usize>(
    fds: [Option<BorrowedFd<'_>>; N],
    timeout: Duration,
) -> io::Result<[bool; N]> {
    let mut polled = fds.map(|fd| libc::pollfd {
        // poll leaves negative descriptors alone.
        fd: fd.map_or(-1, |fd| fd.as_raw_fd()),
        events: libc::POLLIN,
        revents: 0,
    });
    let timeout =
        libc::timespec { tv_sec: timeout.as_secs() as libc::time_t, tv_nsec: timeout.subsec_nanos().into() };
    // SAFETY: the pointers are to live variables, and the count is that of `polled`.
    let ready = unsafe { libc::ppoll(polled.as_mut_ptr(), N as libc::nfds_t, &timeout, std::ptr::null()) };
    if ready < 0 {
        let error = io::Error::last_os_error();
        return if error.kind() == io::ErrorKind::Interrupted { Ok([false; N]) } else { Err(error) };
    }
    Ok(polled.map(|fd| fd.revents != 0))
}
