//! How many files this process may have open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the limit as far as this user may: a lab takes two files a node, a monitor one, a sender one a
/// receiver and a router one for every few groups, where 1,024 is the usual limit. To be called once, by the
/// program; where the limit is met all the same, opening a file fails and says so.
pub fn raise() {
    /// More than the largest lab takes (4,000 nodes).
    const ENOUGH: u64 = 1 << 16;
    let hard = getrlimit(Resource::Nofile).maximum;
    let most = hard.map(|hard| hard.max(ENOUGH));
    // Only root may go beyond the hard limit. Without success the old limit stays.
    if setrlimit(Resource::Nofile, Rlimit { current: most, maximum: most }).is_err() {
        _ = setrlimit(Resource::Nofile, Rlimit { current: hard, maximum: hard });
    }
}

/// How many files of objects a session has open at a time, as the limit stands now: half of what is left besides its
/// sockets and its own files, as each object may need another one for a moment. Others are closed, and opened again when
/// they are needed.
pub fn for_objects() -> usize {
    /// Sockets, pollers, journals, logs and the target folder of a session.
    const OWN: u64 = 32;
    let current = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(current.saturating_sub(OWN) / 2).unwrap_or(usize::MAX).clamp(4, 512)
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
