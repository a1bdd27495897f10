//! A process of a run: watched by the thread that started it, killed by any other, and its cost known
//! when it ends.

use std::{
    io, mem,
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// Makes the command line of a program for a ticket's path.
pub type Make<'a> = Box<dyn Fn(&Path) -> io::Result<Command> + Sync + 'a>;

/// Starts a program where it belongs.
pub type Spawn<'a> = Box<dyn Fn(Command) -> io::Result<Child> + Sync + 'a>;

/// A process that may be killed from another thread; never one that has its number by chance.
#[derive(Debug, Default)]
pub struct Process {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Present from start to end.
    pid: Option<i32>,
    /// Nothing may start any more.
    barred: bool,
}

/// How a process ended, and what it used (getrusage(2)).
#[derive(Debug, Clone, Default)]
pub struct Ended {
    /// The exit code; none when a signal ended it.
    pub code: Option<i32>,
    pub signal: Option<i32>,
    pub cpu_user: Duration,
    pub cpu_system: Duration,
    pub peak_memory_bytes: u64,
}

impl Process {
    /// Starts a process by `spawn`, unless [`Process::bar`] came first; then `None`.
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
        let pid = child.id() as i32;
        wait_without_reaping(pid)?;
        // Reaped under the lock, so that nobody kills the number's next owner.
        let mut state = self.lock();
        state.pid = None;
        reap(pid)
    }

    /// Sends a signal, when the process is there.
    pub fn signal(&self, signal: i32) {
        let state = self.lock();
        if let Some(pid) = state.pid {
            // SAFETY: only integers are passed; the lock keeps the process from being reaped.
            unsafe { libc::kill(pid, signal) };
        }
    }

    /// Sends a signal, when the process is there, and lets none start from now on.
    pub fn bar(&self, signal: i32) {
        self.lock().barred = true;
        self.signal(signal);
    }

    pub fn is_barred(&self) -> bool {
        self.lock().barred
    }

    pub fn is_running(&self) -> bool {
        self.lock().pid.is_some()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ended {
    /// Adds what a later start of the same program used.
    pub fn add(&mut self, later: &Ended) {
        (self.code, self.signal) = (later.code, later.signal);
        self.cpu_user += later.cpu_user;
        self.cpu_system += later.cpu_system;
        self.peak_memory_bytes = self.peak_memory_bytes.max(later.peak_memory_bytes);
    }

    /// How it ended, in a few words.
    pub fn describe(&self) -> String {
        match (self.code, self.signal) {
            (Some(code), _) => format!("its program ended with exit code {code}"),
            (_, Some(signal)) => format!("its program was killed by signal {signal}"),
            _ => "its program ended".into(),
        }
    }
}

/// Has the process killed when the thread that starts it ends, so that SIGKILL of the runner ends it, too.
pub fn die_with_parent(command: &mut Command) {
    // SAFETY: prctl is async-signal-safe.
    unsafe {
        command.pre_exec(|| match libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        });
    }
}

fn wait_without_reaping(pid: i32) -> io::Result<()> {
    loop {
        // SAFETY: siginfo_t is plain data and outlives the call.
        let result = unsafe {
            let mut info: libc::siginfo_t = mem::zeroed();
            libc::waitid(libc::P_PID, pid as u32, &mut info, libc::WEXITED | libc::WNOWAIT)
        };
        match result {
            0 => return Ok(()),
            _ if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
            _ => return Err(io::Error::last_os_error()),
        }
    }
}

fn reap(pid: i32) -> io::Result<Ended> {
    let mut status = 0;
    // SAFETY: status and usage are plain data and outlive the call.
    let (result, usage) = unsafe {
        let mut usage: libc::rusage = mem::zeroed();
        (libc::wait4(pid, &mut status, 0, &mut usage), usage)
    };
    if result != pid {
        return Err(io::Error::last_os_error());
    }
    Ok(Ended {
        code: libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status)),
        signal: libc::WIFSIGNALED(status).then(|| libc::WTERMSIG(status)),
        cpu_user: duration(usage.ru_utime),
        cpu_system: duration(usage.ru_stime),
        peak_memory_bytes: usage.ru_maxrss as u64 * 1024,
    })
}

fn duration(time: libc::timeval) -> Duration {
    Duration::from_secs(time.tv_sec as u64) + Duration::from_micros(time.tv_usec as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
