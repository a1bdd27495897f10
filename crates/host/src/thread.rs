//! Threads that get none of the process's signals.

use std::{
    io,
    thread::{Builder, JoinHandle},
};

use crate::signals;

/// Starts a thread that blocks all signals.
///
/// A signal to the process goes to any thread that does not block it. The program that uses the library may wait for its signals in
/// threads of its own, or expect its handlers to run there. A thread that it does not know must take none of them.
///
/// # Errors
/// If no thread can be started.
pub fn spawn<T: Send + 'static>(
    name: &str,
    body: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    spawn_with(Builder::new(), name, body)
}

/// Starts a thread that blocks all signals, with the stack of this builder.
///
/// # Errors
/// If no thread can be started.
pub fn spawn_with<T: Send + 'static>(
    builder: Builder,
    name: &str,
    body: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    // The thread inherits the mask of the one that starts it.
    let _blocked = signals::Blocked::all();
    builder.name(name.to_owned()).spawn(body)
}

#[cfg(test)]
mod tests {
    use std::{fs, process};

    use super::*;

    fn blocked() -> u64 {
        let status = fs::read_to_string("/proc/thread-self/status").unwrap();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap().trim().to_owned();
        u64::from_str_radix(&mask, 16).unwrap()
    }

    #[test]
    fn a_thread_blocks_what_its_starter_does_not() {
        let before = blocked();
        let inside = spawn("test", blocked).unwrap().join().unwrap();
        let bit = |signal: i32| 1_u64 << (signal - 1);
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGPIPE, libc::SIGUSR1, libc::SIGCHLD] {
            assert!(inside & bit(signal) != 0 && before & bit(signal) == 0, "{signal}");
        }
        for fault in [libc::SIGSEGV, libc::SIGBUS, libc::SIGABRT] {
            assert!(inside & bit(fault) == 0, "{fault}");
        }
        assert_eq!(blocked(), before, "the starter's mask is as it was");
    }

    #[test]
    fn a_program_that_such_a_thread_starts_blocks_nothing() {
        let run = || {
            let mut command = process::Command::new("cat");
            crate::process::with_all_signals(command.arg("/proc/self/status"));
            String::from_utf8(command.output().unwrap().stdout).unwrap()
        };
        let status = spawn("test", run).unwrap().join().unwrap();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap();
        assert_eq!(u64::from_str_radix(mask.trim(), 16), Ok(0));
    }
}
