//! The kernel's clocks.

use std::time::Duration;

use rustix::{
    param::clock_ticks_per_second,
    thread::clock_nanosleep_absolute,
    time::{ClockId, Timespec, clock_getres, clock_gettime},
};

/// The time of CLOCK_MONOTONIC_COARSE, in nanoseconds: the clock that treecast's eBPF programs read. It stands
/// still between two ticks of the kernel. So it may be some milliseconds behind CLOCK_MONOTONIC, and more while
/// the host of a virtual machine is busy.
pub fn coarse_ns() -> u64 {
    let now = clock_gettime(ClockId::MonotonicCoarse);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The time of CLOCK_MONOTONIC, which never jumps.
pub fn monotonic() -> Duration {
    duration(clock_gettime(ClockId::Monotonic))
}

/// The time since 1970 by this host's clock.
pub fn since_1970() -> Duration {
    duration(clock_gettime(ClockId::Realtime))
}

/// Sleeps until [`monotonic`] reaches `deadline`, or a signal comes.
pub fn sleep_until(deadline: Duration) {
    let deadline = Timespec { tv_sec: deadline.as_secs() as i64, tv_nsec: deadline.subsec_nanos().into() };
    // A signal ends the sleep. The caller reads the clock anyway.
    _ = clock_nanosleep_absolute(ClockId::Monotonic, &deadline);
}

/// Processor time that the calling thread has used.
pub fn thread_time() -> Duration {
    duration(clock_gettime(ClockId::ThreadCPUTime))
}

/// Processor time that this process has used, all its threads together.
pub fn own_process_time() -> Duration {
    duration(clock_gettime(ClockId::ProcessCPUTime))
}

/// Processor time that another process has used, all its threads together. `None` if there is no such process.
pub fn process_time(process: u32) -> Option<Duration> {
    // See clock_getcpuclockid(3): the complemented number, with the scheduler's clock in the low bits.
    const SCHEDULER_CLOCK: libc::clockid_t = 2;
    let clock = (!(process as libc::clockid_t) << 3) | SCHEDULER_CLOCK;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one timespec, which is live.
    let done = unsafe { libc::clock_gettime(clock, &mut time) };
    (done == 0).then(|| Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
}

/// The number of nanoseconds in one tick of the times in /proc.
pub fn ns_per_tick() -> i64 {
    1_000_000_000 / clock_ticks_per_second().max(1) as i64
}

/// The time between two of the kernel's timer ticks: 1 to 10 ms.
pub fn tick() -> Duration {
    duration(clock_getres(ClockId::MonotonicCoarse))
}

fn duration(time: Timespec) -> Duration {
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleep_ends_at_its_deadline() {
        let deadline = monotonic() + Duration::from_millis(5);
        sleep_until(deadline);
        assert!(monotonic() >= deadline);
        sleep_until(Duration::ZERO);
    }

    #[test]
    fn a_tick_is_one_to_ten_milliseconds() {
        assert!((1..=10).contains(&tick().as_millis()), "{:?}", tick());
    }
}
