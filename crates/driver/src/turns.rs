//! How the scheduler treats a thread beside others, as far as that needs no privilege.

use std::{io, mem};

/// The slice, in nanoseconds, of a thread whose packets must leave in time. It is the shortest that the kernel takes.
const SHORT_SLICE_NS: u64 = 100_000;

/// The nice value of a thread whose work may wait for others, up to 19.
const NICE_OF_WORK_THAT_WAITS: i32 = 10;

/// Has the scheduler run the calling thread soon after it wakes, also while other threads compute. The thread gets no more
/// processor time than before, but in shorter turns (Linux 6.12, `sched_setattr(2)`). Older kernels ignore it. A thread that
/// somebody has given another policy or slice keeps it.
pub(crate) fn take_short() {
    if let Ok(mut now) = attributes()
        && now.sched_policy == libc::SCHED_OTHER as u32
    {
        now.sched_runtime = SHORT_SLICE_NS;
        // It works without, only less punctually.
        _ = set_attributes(&now);
    }
}

/// Has the scheduler prefer other threads of this machine to the calling one. There is no way back without privileges.
pub(crate) fn let_others_go_first() {
    if let Ok(mut now) = attributes()
        && now.sched_policy == libc::SCHED_OTHER as u32
    {
        now.sched_runtime = 0;
        now.sched_nice = now.sched_nice.max(NICE_OF_WORK_THAT_WAITS);
        _ = set_attributes(&now);
    }
}

const SIZE: u32 = mem::size_of::<libc::sched_attr>() as u32;

fn attributes() -> io::Result<libc::sched_attr> {
    // SAFETY: plain numbers, for which zero is valid.
    let mut attributes: libc::sched_attr = unsafe { mem::zeroed() };
    // SAFETY: `attributes` is a valid place for so many bytes and outlives the call; 0 is the calling thread.
    let result = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, SIZE, 0) };
    if result == 0 { Ok(attributes) } else { Err(io::Error::last_os_error()) }
}

fn set_attributes(attributes: &libc::sched_attr) -> io::Result<()> {
    let attributes = libc::sched_attr { size: SIZE, ..*attributes };
    // SAFETY: `attributes` is valid and outlives the call; 0 is the calling thread.
    let result = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(behind.sched_nice, before.sched_nice.max(NICE_OF_WORK_THAT_WAITS));
        assert_eq!(behind.sched_runtime, before.sched_runtime);
        assert_eq!(attributes().unwrap().sched_nice, before.sched_nice, "other threads are as they were");
    }
}
