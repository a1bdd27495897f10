//! Processor time and memory of a process and its descendants.

use std::{
    collections::{HashMap, hash_map::Entry},
    time::Duration,
};

use treecast_host::{
    clock::{self, ns_per_tick},
    process::page_bytes,
};

use super::procfile::ProcFile;

/// Follows a process and its descendants. A descendant is found while it lives, if the main thread of its
/// parent started it. When its parent has waited for it, it is part of its parent's own counts.
pub struct ProcessTree {
    root: u32,
    files: HashMap<u32, Files>,
    /// The largest sum so far. When a process ends, its time is not visible anywhere for a moment.
    cpu_ns: i64,
    ns_per_tick: i64,
    page_bytes: i64,
}

struct Files {
    stat: ProcFile,
    children: ProcFile,
}

impl Files {
    fn open(pid: u32) -> Option<Self> {
        let stat = ProcFile::open(format!("/proc/{pid}/stat")).ok()?;
        let children = ProcFile::open(format!("/proc/{pid}/task/{pid}/children")).ok()?;
        Some(Self { stat, children })
    }
}

/// The resources that a tree of processes uses now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    pub cpu_ns: i64,
    pub resident_bytes: i64,
}

impl ProcessTree {
    pub fn new(root: u32) -> Self {
        Self {
            root,
            files: HashMap::new(),
            cpu_ns: 0,
            ns_per_tick: ns_per_tick(),
            page_bytes: page_bytes() as i64,
        }
    }

    /// The resources that the tree has used until now. If it has ended, the total.
    pub fn sample(&mut self) -> Usage {
        let mut sum = Usage::default();
        let mut seen = Vec::new();
        let mut to_visit = vec![self.root];
        while let Some(pid) = to_visit.pop() {
            // Each process is visited once, whatever the kernel reports about its parents.
            if seen.contains(&pid) {
                continue;
            }
            seen.push(pid);
            if let Some(usage) = self.visit(pid, &mut to_visit) {
                sum.cpu_ns += usage.cpu_ns;
                sum.resident_bytes += usage.resident_bytes;
            }
        }
        self.files.retain(|pid, _| seen.contains(pid));
        self.cpu_ns = self.cpu_ns.max(sum.cpu_ns);
        Usage { cpu_ns: self.cpu_ns, ..sum }
    }

    fn visit(&mut self, pid: u32, to_visit: &mut Vec<u32>) -> Option<Usage> {
        let files = match self.files.entry(pid) {
            Entry::Occupied(open) => open.into_mut(),
            Entry::Vacant(new) => new.insert(Files::open(pid)?),
        };
        let stat = Stat::parse(files.stat.read().ok()?)?;
        let children = files.children.read().unwrap_or_default();
        to_visit.extend(children.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
        let own = clock::process_time(pid).map_or(stat.own_ticks * self.ns_per_tick, ns);
        Some(Usage {
            cpu_ns: own + stat.waited_for_ticks * self.ns_per_tick,
            resident_bytes: stat.resident_pages * self.page_bytes,
        })
    }
}

/// Processor time of this process, of all its threads together.
pub fn own_cpu_ns() -> i64 {
    ns(clock::own_process_time())
}

/// Fields 14 to 17 and 24 of /proc/PID/stat.
struct Stat {
    own_ticks: i64,
    waited_for_ticks: i64,
    resident_pages: i64,
}

impl Stat {
    fn parse(stat: &str) -> Option<Self> {
        // The name in parentheses may contain anything, also spaces and parentheses. Field 3 follows it.
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let field = |number: usize| fields.get(number - 3)?.parse::<i64>().ok();
        Some(Self {
            own_ticks: field(14)? + field(15)?,
            waited_for_ticks: field(16)? + field(17)?,
            resident_pages: field(24)?,
        })
    }
}

fn ns(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use std::{
        process::{Child, Command, Stdio},
        time::{Duration, Instant},
    };

    use super::*;

    #[test]
    fn a_name_with_parentheses_and_spaces_does_no_harm() {
        let stat =
            "7 (a) b (c) S 1 7 7 0 -1 4194560 1 2 3 4 11 12 13 14 20 0 1 0 99 1000 50 18446744073709551615 1";
        let stat = Stat::parse(stat).unwrap();
        assert_eq!((stat.own_ticks, stat.waited_for_ticks, stat.resident_pages), (23, 27, 50));
        assert!(Stat::parse("7 (a) S 1").is_none());
    }

    #[test]
    fn the_cpu_of_a_shell_and_of_its_child_is_found_while_both_live() {
        // The colon after the loop keeps the shell from becoming its last command.
        let mut shell = shell("(while :; do :; done); :");
        let mut tree = ProcessTree::new(shell.id());
        let busy = wait_for(|| tree.sample().cpu_ns > 100_000_000);
        let resident = tree.sample().resident_bytes;
        let children = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", shell.id())).unwrap();
        for pid in children.split_whitespace() {
            treecast_host::process::kill(pid.parse().unwrap(), libc::SIGKILL).unwrap();
        }
        shell.wait().unwrap();
        assert!(busy, "100 ms of CPU were never seen");
        assert!(resident > 0);
        let end = tree.sample();
        assert!(end.cpu_ns >= 100_000_000 && end.resident_bytes == 0, "{end:?}");
    }

    fn shell(script: &str) -> Child {
        Command::new("sh").args(["-c", script]).stdin(Stdio::null()).spawn().unwrap()
    }

    fn wait_for(mut met: impl FnMut() -> bool) -> bool {
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(60) {
            if met() {
                return true;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        false
    }
}
