//! The scheduler's treatment of a thread beside others, as far as that needs no privilege.

use std::{io, mem};

/// The time slice of a thread whose packets must leave in time, in nanoseconds. It is the shortest that the
/// kernel accepts.
const SHORT_SLICE_NS: u64 = 100_000;

/// How much nicer than the rest of the process a thread is whose work may wait for others.
const NICE_OF_WORK_THAT_WAITS: i32 = 10;

/// The highest nice value that there is.
const NICEST: i32 = 19;

/// Makes the scheduler run the calling thread soon after it wakes, also while other threads compute. The thread
/// gets no more processor time than before, but in shorter turns (Linux 6.12, `sched_setattr(2)`). Older
/// kernels ignore it, and without permission nothing changes. A thread with a special scheduling policy keeps
/// it.
pub fn take_short() {
    if let Ok(mut now) = attributes()
        && now.sched_policy == libc::SCHED_OTHER as u32
    {
        now.sched_runtime = SHORT_SLICE_NS;
        // Without it, the thread only runs less punctually.
        _ = set_attributes(&now);
    }
}

/// Makes the scheduler prefer other threads of this machine to the calling one. Without privileges, this cannot
/// be undone. Nothing changes for a thread with a special scheduling policy, or without permission.
pub fn let_others_go_first() {
    if let Ok(mut now) = attributes()
        && now.sched_policy == libc::SCHED_OTHER as u32
    {
        now.sched_runtime = 0;
        now.sched_nice = (now.sched_nice + NICE_OF_WORK_THAT_WAITS).min(NICEST);
        _ = set_attributes(&now);
    }
}

/// Whether the calling thread has real-time priority. Programs without it then have no share in the processors that it wants.
pub fn is_real_time() -> bool {
    let is = |policy: i32| attributes().is_ok_and(|now| now.sched_policy == policy as u32);
    is(libc::SCHED_RR) || is(libc::SCHED_FIFO)
}

const SIZE: u32 = mem::size_of::<libc::sched_attr>() as u32;

fn attributes() -> io::Result<libc::sched_attr> {
    // SAFETY: plain numbers, for which zero is valid.
    let mut attributes: libc::sched_attr = unsafe { mem::zeroed() };
    // SAFETY: `attributes` is a valid place for so many bytes and outlives the call; 0 is the calling thread.
    let result = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, SIZE, 0) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(attributes) }
}

fn set_attributes(attributes: &libc::sched_attr) -> io::Result<()> {
    let attributes = libc::sched_attr { size: SIZE, ..*attributes };
    // SAFETY: `attributes` is valid and outlives the call; 0 is the calling thread.
    let result = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classic_bpf::{JUMP_EQUAL, LOAD_WORD, RETURN};

    #[test]
    fn a_thread_takes_short_turns_and_work_that_waits_goes_behind_others() {
        let in_thread = |change: fn()| {
            let thread = std::thread::spawn(move || {
                change();
                attributes().unwrap()
            });
            thread.join().unwrap()
        };
        let before = attributes().unwrap();
        let short = in_thread(take_short);
        assert_eq!(short.sched_nice, before.sched_nice);
        // Before Linux 6.12, a thread has no slice of its own.
        assert!(
            [SHORT_SLICE_NS, before.sched_runtime].contains(&short.sched_runtime),
            "{}",
            short.sched_runtime
        );
        let behind = in_thread(|| {
            take_short();
            let_others_go_first();
        });
        assert_eq!(behind.sched_nice, (before.sched_nice + NICE_OF_WORK_THAT_WAITS).min(NICEST));
        assert_eq!(behind.sched_runtime, before.sched_runtime);
        assert_eq!(attributes().unwrap().sched_nice, before.sched_nice, "other threads are as they were");
    }

    /// Has a system call of the calling thread fail with an error number.
    fn forbid(call: libc::c_long, error: i32) {
        let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
        // The call's number comes first in `struct seccomp_data`.
        let mut steps = [
            step(LOAD_WORD, 0, 0, 0),
            step(JUMP_EQUAL, 0, 1, call as u32),
            step(RETURN, 0, 0, libc::SECCOMP_RET_ERRNO | error as u32),
            step(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
        ];
        let filter = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
        // SAFETY: the filter is valid and outlives the calls; it holds for this thread only.
        let is_set = unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
                && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter) == 0
        };
        assert!(is_set, "{}", io::Error::last_os_error());
    }

    #[test]
    fn a_thread_goes_on_as_it_was_where_the_kernel_has_no_such_call_or_forbids_it() {
        for (call, error) in [
            (libc::SYS_sched_getattr, libc::ENOSYS),
            (libc::SYS_sched_setattr, libc::EPERM),
            (libc::SYS_sched_setattr, libc::E2BIG),
        ] {
            let thread = std::thread::spawn(move || {
                // SAFETY: it takes numbers only; 0 is the calling thread.
                let nice = || unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
                let before = nice();
                forbid(call, error);
                take_short();
                let_others_go_first();
                assert_eq!(nice(), before);
                assert!(attributes().map_or(call == libc::SYS_sched_getattr, |now| now.sched_nice == before));
            });
            thread.join().unwrap();
        }
    }
}
