//! The limit on the number of open files of this process.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the limit as far as this user may. A lab needs two files for each node, a monitor one, a sender one
/// for each receiver, and a router one for every few groups. The usual limit is 1,024. The program calls this
/// once. If the limit is reached nevertheless, opening a file fails with an error.
pub fn raise() {
    /// The wanted limit. It is more than the largest lab needs (4,000 nodes).
    const ENOUGH: u64 = 1 << 16;
    let hard = getrlimit(Resource::Nofile).maximum;
    let most = hard.map(|hard| hard.max(ENOUGH));
    // Only root may exceed the hard limit. If this fails, the old limit stays.
    if setrlimit(Resource::Nofile, Rlimit { current: most, maximum: most }).is_err() {
        _ = setrlimit(Resource::Nofile, Rlimit { current: hard, maximum: hard });
    }
}

/// The number of files of objects that a session keeps open at a time: half of the limit, after its sockets and
/// its own files. The other half is left because an object may need another file for a moment. Further files
/// are closed, and opened again when they are needed.
pub fn for_objects() -> usize {
    /// The number of other files of a session: sockets, pollers, journals, logs and the target folder.
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
