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
