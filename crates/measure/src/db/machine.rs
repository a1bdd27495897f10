//! The description of the machine that a run was made on.

use std::fs;

use super::Machine;

impl Machine {
    /// Describes this machine. A field is empty or 0 if the kernel does not provide it.
    pub fn here(treecast_version: &str) -> Self {
        let line = |path: &str| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
        let cpuinfo = line("/proc/cpuinfo");
        let release = line("/proc/sys/kernel/osrelease");
        Self {
            hostname: line("/proc/sys/kernel/hostname"),
            kernel: format!("{} {release}", line("/proc/sys/kernel/ostype")),
            cpu_model: field(&cpuinfo, "model name").unwrap_or_default(),
            cpus: std::thread::available_parallelism().map_or(0, |n| n.get() as u32),
            memory_bytes: memory_bytes(&line("/proc/meminfo")),
            treecast_version: treecast_version.to_owned(),
        }
    }
}

fn memory_bytes(meminfo: &str) -> u64 {
    let total = field(meminfo, "MemTotal").unwrap_or_default();
    total.trim_end_matches(" kB").trim().parse::<u64>().unwrap_or(0) * 1024
}

/// The value of the first `name : value` line.
fn field(text: &str, name: &str) -> Option<String> {
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(key, _)| key.trim() == name)
        .map(|(_, value)| value.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_processors_memory_and_a_kernel() {
        let machine = Machine::here("1.2.3");
        assert!(machine.cpus > 0 && machine.memory_bytes > 1 << 20, "{machine:?}");
        assert!(machine.kernel.starts_with("Linux "), "{machine:?}");
        assert_eq!(machine.treecast_version, "1.2.3");
    }

    #[test]
    fn fields_are_found_by_their_whole_name() {
        assert_eq!(memory_bytes("MemTotalX: 1 kB\nMemTotal:  2048 kB\n"), 2 << 20);
        assert_eq!(memory_bytes("nothing"), 0);
    }
}
