//! How many files this process may have open.

/// Raises the limit as far as this user may: a lab takes two files a node, a monitor one, a sender one a
/// receiver and a router one for every few groups, where 1,024 is the usual limit. To be called once, by the
/// program; where the limit is met all the same, opening a file fails and says so.
pub fn raise() {
    /// More than the largest lab takes (4,000 nodes).
    const ENOUGH: libc::rlim_t = 1 << 16;
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a valid rlimit that outlives the calls. Without success the old one stays.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) != 0 {
            return;
        }
        let most =
            libc::rlimit { rlim_cur: limit.rlim_max.max(ENOUGH), rlim_max: limit.rlim_max.max(ENOUGH) };
        // Only root may go beyond the hard limit.
        if libc::setrlimit(libc::RLIMIT_NOFILE, &most) != 0 {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
        }
    }
}

/// How many files of objects a session has open at a time, as the limit stands now: half of what is left besides its
/// sockets and its own files, as each object may need another one for a moment. Others are closed, and opened again when
/// they are needed.
pub(crate) fn for_objects() -> usize {
    /// Sockets, pollers, journals, logs and the target folder of a session.
    const OWN: libc::rlim_t = 32;
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a valid rlimit that outlives the call; without success it says none.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) };
    usize::try_from(limit.rlim_cur.saturating_sub(OWN) / 2).unwrap_or(usize::MAX).clamp(4, 512)
}

#[cfg(test)]
mod tests {
    #[test]
    fn more_files_than_usual_can_be_open() {
        super::raise();
        let (mut soft, mut hard) = (String::new(), String::new());
        let limits = std::fs::read_to_string("/proc/self/limits").unwrap();
        for line in limits.lines().filter_map(|line| line.strip_prefix("Max open files")) {
            let mut words = line.split_whitespace().map(str::to_owned);
            (soft, hard) = (words.next().unwrap(), words.next().unwrap());
        }
        assert!(!soft.is_empty() && soft == hard, "{limits}");
    }
}
