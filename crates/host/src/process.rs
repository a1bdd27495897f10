//! Processes: how they end and what they use, signals to them, and settings for those that are started.

use std::{
    io, mem,
    num::NonZero,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::process::CommandExt,
    },
    process::{Child, Command},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, pidfd_open,
    set_parent_process_death_signal, setpriority_process, setsid, test_kill_process, waitid,
};
use rustix::thread::set_current_timer_slack;

use crate::signals;

/// The end of a process, and the resources that it and the processes that it waited for have used
/// (getrusage(2)).
#[derive(Debug, Clone, Default)]
pub struct Ended {
    /// The exit code. `None` if a signal ended it.
    pub code: Option<i32>,
    /// The signal that ended it. `None` if it exited.
    pub signal: Option<i32>,
    /// Processor time of the program itself.
    pub cpu_user: Duration,
    /// Processor time of the kernel on its behalf.
    pub cpu_system: Duration,
    /// The peak memory of the largest of its processes, in bytes.
    pub peak_memory_bytes: u64,
}

impl Ended {
    /// Adds the resources that a later start of the same program has used.
    pub fn add(&mut self, later: &Ended) {
        (self.code, self.signal) = (later.code, later.signal);
        self.cpu_user += later.cpu_user;
        self.cpu_system += later.cpu_system;
        self.peak_memory_bytes = self.peak_memory_bytes.max(later.peak_memory_bytes);
    }

    /// Describes the end in a few words.
    pub fn describe(&self) -> String {
        match (self.code, self.signal) {
            (Some(code), _) => format!("its program ended with exit code {code}"),
            (_, Some(signal)) => format!("its program was killed by signal {signal}"),
            _ => "its program ended".into(),
        }
    }
}

/// Sends a signal to a process, by number.
///
/// # Errors
/// If there is no such process, or it belongs to another user.
pub fn kill(process: i32, signal: i32) -> io::Result<()> {
    let process = Pid::from_raw(process).ok_or(io::ErrorKind::InvalidInput)?;
    let signal = Signal::from_named_raw(signal).ok_or(io::ErrorKind::InvalidInput)?;
    Ok(kill_process(process, signal)?)
}

/// Kills all processes of a group. Its leader is a child that has not been waited for, so that its number is still its own.
///
/// # Errors
/// The error of the kernel.
pub fn kill_group(leader: u32) -> io::Result<()> {
    Ok(kill_process_group(pid(leader)?, Signal::KILL)?)
}

/// Sends a signal to all processes of a group, by the number of its leader.
///
/// # Errors
/// If there is no such group, or it belongs to another user.
pub fn signal_group(leader: u32, signal: i32) -> io::Result<()> {
    let signal = Signal::from_named_raw(signal).ok_or(io::ErrorKind::InvalidInput)?;
    Ok(kill_process_group(pid(leader)?, signal)?)
}

/// Whether a process exists, by number.
pub fn is_there(process: i32) -> bool {
    let tested = Pid::from_raw(process).map(test_kill_process);
    // A process of another user cannot be signalled, but exists.
    tested.is_some_and(|tested| matches!(tested, Ok(()) | Err(rustix::io::Errno::PERM)))
}

/// Sends a signal to a child that has not been waited for, so that its number is still its own.
///
/// # Errors
/// The error of the kernel.
pub fn signal(child: &Child, signal: i32) -> io::Result<()> {
    kill(child.id() as i32, signal)
}

/// Opens a descriptor that is readable when the process has ended.
///
/// # Errors
/// If there is no such process.
pub fn open_end(process: u32) -> io::Result<OwnedFd> {
    Ok(pidfd_open(pid(process)?, PidfdFlags::empty())?)
}

/// Waits until a child has ended. Its number stays reserved until [`reap`].
///
/// # Errors
/// If it is no child of this process.
fn wait_without_reaping(process: u32) -> io::Result<()> {
    loop {
        match waitid(WaitId::Pid(pid(process)?), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT) {
            Err(rustix::io::Errno::INTR) => {}
            waited => return Ok(waited.map(drop)?),
        }
    }
}

/// Waits until a child has ended, and returns how. From then on, another process may get its number.
///
/// # Errors
/// If it is no child of this process.
fn reap(process: u32) -> io::Result<Ended> {
    let mut status = 0;
    // SAFETY: status and usage are plain numbers, for which zeroes are values, and outlive the calls.
    let usage = unsafe {
        let mut usage: libc::rusage = mem::zeroed();
        while libc::wait4(process as libc::pid_t, &mut status, 0, &mut usage) < 0 {
            match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => {}
                error => return Err(error),
            }
        }
        usage
    };
    Ok(Ended {
        code: libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status)),
        signal: libc::WIFSIGNALED(status).then(|| libc::WTERMSIG(status)),
        cpu_user: duration(usage.ru_utime),
        cpu_system: duration(usage.ru_stime),
        // Linux gives kilobytes.
        peak_memory_bytes: u64::try_from(usage.ru_maxrss).unwrap_or(0) * 1024,
    })
}

/// A child process whose end can be awaited together with other descriptors. If this is dropped before
/// [`Watched::end`], the child is killed and waited for.
#[derive(Debug)]
pub struct Watched {
    child: Option<Child>,
    ended: OwnedFd,
}

impl Watched {
    /// Starts a program.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(command: &mut Command) -> io::Result<Self> {
        let mut child = command.spawn()?;
        match open_end(child.id()) {
            Ok(ended) => Ok(Self { child: Some(child), ended }),
            Err(error) => {
                _ = child.kill();
                _ = child.wait();
                Err(error)
            }
        }
    }

    /// The process' number.
    pub fn id(&self) -> u32 {
        self.child.as_ref().map_or(0, Child::id)
    }

    /// Sends a signal. Does nothing if the process has ended.
    pub fn signal(&self, number: i32) {
        self.child.iter().for_each(|child| _ = signal(child, number));
    }

    /// Waits until the process has ended, and returns how.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn end(mut self) -> io::Result<Ended> {
        // `Child` does not wait here, because it does not return the used resources.
        let id = self.id();
        self.child = None;
        reap(id)
    }
}

impl AsFd for Watched {
    /// A descriptor that is readable when the process has ended.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ended.as_fd()
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            _ = child.kill();
            _ = child.wait();
        }
    }
}

/// A process that another thread may kill. It can never kill another process that got the same number.
#[derive(Debug, Default)]
pub struct Process {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The process' number, from its start to its end.
    pid: Option<i32>,
    /// Whether no process may start any more.
    barred: bool,
}

impl Process {
    /// Starts a process with `spawn`. Returns `None` if [`Process::bar`] was called before.
    pub fn start(&self, spawn: impl FnOnce() -> io::Result<Child>) -> io::Result<Option<Child>> {
        let mut state = self.lock();
        if state.barred {
            return Ok(None);
        }
        let child = spawn()?;
        state.pid = Some(child.id() as i32);
        Ok(Some(child))
    }

    /// Waits for the process that [`Process::start`] returned.
    pub fn wait(&self, child: Child) -> io::Result<Ended> {
        let process = child.id();
        wait_without_reaping(process)?;
        // The process is reaped under the lock, so that nobody kills another process with its number.
        let mut state = self.lock();
        state.pid = None;
        reap(process)
    }

    /// Sends a signal, if the process exists.
    pub fn signal(&self, signal: i32) {
        let state = self.lock();
        if let Some(pid) = state.pid {
            // The lock prevents the process from being reaped. If it has ended meanwhile, that is no failure.
            _ = kill(pid, signal);
        }
    }

    /// Sends a signal if the process exists, and lets no process start from now on.
    pub fn bar(&self, signal: i32) {
        self.lock().barred = true;
        self.signal(signal);
    }

    pub fn is_running(&self) -> bool {
        self.lock().pid.is_some()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes the kernel kill a program when the thread that started it ends. So killing this process ends the
/// program, too.
pub fn die_with_parent(command: &mut Command) {
    // SAFETY: one system call that allocates nothing, as is needed after a fork.
    unsafe { command.pre_exec(|| Ok(set_parent_process_death_signal(Some(Signal::KILL))?)) };
}

/// Makes a program receive all signals, even if this process blocks some.
pub fn with_all_signals(command: &mut Command) {
    // SAFETY: system calls that allocate nothing, as is needed after a fork.
    unsafe {
        command.pre_exec(|| {
            signals::keep_none_back();
            Ok(())
        })
    };
}

/// Leaves the terminal and its process group, if this process is in one.
pub fn leave_terminal() {
    // This fails if the process has a session of its own, which is no problem.
    _ = setsid();
}

/// Sets the priority of the calling thread, from -20 (the highest) to 19. Nothing changes if this user may not.
pub fn set_priority(nice: i32) {
    _ = setpriority_process(None, nice);
}

/// The size of a memory page in bytes, which is the unit of memory in /proc.
pub fn page_bytes() -> usize {
    rustix::param::page_size()
}

/// Makes the kernel end the calling thread's waits exactly on time, instead of up to 50 us later.
pub fn set_exact_timers() {
    _ = set_current_timer_slack(NonZero::new(1));
}

fn pid(process: u32) -> io::Result<Pid> {
    let process = i32::try_from(process).ok().and_then(Pid::from_raw);
    process.ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

fn duration(time: libc::timeval) -> Duration {
    Duration::new(time.tv_sec.max(0) as u64, time.tv_usec.max(0) as u32 * 1000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::poller::wait_readable;

    #[test]
    fn exit_codes_and_signals_are_told_apart() {
        let process = Process::default();
        let child = process.start(|| Command::new("sh").args(["-c", "exit 3"]).spawn()).unwrap().unwrap();
        let ended = process.wait(child).unwrap();
        assert_eq!((ended.code, ended.signal), (Some(3), None));
        assert!(ended.peak_memory_bytes > 0);

        let child = process.start(|| Command::new("sleep").arg("60").spawn()).unwrap().unwrap();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| process.wait(child).unwrap());
            process.bar(libc::SIGKILL);
            assert_eq!(waiting.join().unwrap().signal, Some(libc::SIGKILL));
        });
        assert!(process.start(|| Command::new("sleep").arg("60").spawn()).unwrap().is_none());
        process.signal(libc::SIGKILL);
    }

    #[test]
    fn the_end_of_a_program_can_be_waited_for_with_other_things() {
        let child = Watched::start(Command::new("sh").args(["-c", "exit 3"])).unwrap();
        assert_eq!(wait_readable([Some(child.as_fd())], Duration::from_secs(60)).unwrap(), [true]);
        assert_eq!(child.end().unwrap().code, Some(3));
    }

    #[test]
    fn a_dropped_child_has_ended() {
        let child = Watched::start(Command::new("sleep").arg("60")).unwrap();
        let id = child.id();
        drop(child);
        assert!(reap(id).is_err(), "it has been waited for");
    }

    #[test]
    fn a_program_gets_the_signals_that_this_thread_keeps_back() {
        let _signals = signals::Signals::catch(&[libc::SIGTERM]).unwrap();
        let mut command = Command::new("sleep");
        with_all_signals(command.arg("60"));
        let child = Watched::start(&mut command).unwrap();
        child.signal(libc::SIGTERM);
        assert_eq!(child.end().unwrap().signal, Some(libc::SIGTERM));
    }
}
