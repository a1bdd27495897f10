//! The kernel's clocks.

use std::{fmt, time::Duration};

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

/// A day and a time of day, as a calendar and a clock on the wall show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WallTime {
    pub year: i32,
    /// The month, 1 to 12.
    pub month: u8,
    /// The day of the month, 1 to 31.
    pub day: u8,
    pub hour: u8,
    pub minute: u8,
    pub second: u8,
}

impl WallTime {
    /// What calendar and clock show in this host's time zone, so many seconds after 1970 began in UTC. `None` beyond the years
    /// that the system knows.
    pub fn local(unix_seconds: u64) -> Option<Self> {
        let seconds = i64::try_from(unix_seconds).ok()?;
        // SAFETY: both structures are live; `tm` is plain data, which the call fills in.
        let tm = unsafe {
            let mut tm: libc::tm = std::mem::zeroed();
            (!libc::localtime_r(&raw const seconds, &raw mut tm).is_null()).then_some(tm)
        }?;
        Some(Self {
            year: tm.tm_year + 1900,
            month: tm.tm_mon as u8 + 1,
            day: tm.tm_mday as u8,
            hour: tm.tm_hour as u8,
            minute: tm.tm_min as u8,
            second: tm.tm_sec as u8,
        })
    }

    /// The seconds since 1970 at this time in UTC, or in this host's time zone. `None` if no calendar has such a day, the clock skips
    /// the time, or it is before 1970.
    pub fn unix_seconds(self, is_utc: bool) -> Option<u64> {
        // SAFETY: the structure is plain data, live during the call.
        let (seconds, tm) = unsafe {
            let mut tm: libc::tm = std::mem::zeroed();
            tm.tm_year = self.year - 1900;
            tm.tm_mon = i32::from(self.month) - 1;
            tm.tm_mday = self.day.into();
            tm.tm_hour = self.hour.into();
            tm.tm_min = self.minute.into();
            tm.tm_sec = self.second.into();
            tm.tm_isdst = -1;
            let seconds = if is_utc { libc::timegm(&raw mut tm) } else { libc::mktime(&raw mut tm) };
            (seconds, tm)
        };
        // The system moves 31 April to 1 May.
        let shown = (tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec);
        let Self { year, month, day, hour, minute, second } = self;
        let asked = (year, month.into(), day.into(), hour.into(), minute.into(), second.into());
        u64::try_from(seconds).ok().filter(|_| shown == asked)
    }
}

/// As 2026-11-30 22:00:00.
impl fmt::Display for WallTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { year, month, day, hour, minute, second } = self;
        write!(f, "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
    }
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
    fn a_time_on_the_wall_is_a_moment_and_back() {
        let time = WallTime { year: 2024, month: 2, day: 29, hour: 22, minute: 30, second: 1 };
        assert_eq!(time.unix_seconds(true), Some(1_709_245_801));
        assert_eq!(time.unix_seconds(false).and_then(WallTime::local), Some(time));
        for wrong in
            [WallTime { year: 2025, ..time }, WallTime { hour: 24, ..time }, WallTime { year: 1969, ..time }]
        {
            assert_eq!(wrong.unix_seconds(true), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_tick_is_one_to_ten_milliseconds() {
        assert!((1..=10).contains(&tick().as_millis()), "{:?}", tick());
    }
}
