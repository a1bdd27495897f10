//! How much memory this process may still take, and files in memory.

use std::{
    fs::{self, File},
    io,
};

use rustix::fs::MemfdFlags;

/// Memory, in bytes, that this process may take without pushing anything else out: what the machine has available, within
/// the limit of the process's control group (version 2) and its limit of address space (`ulimit -v`).
///
/// # Errors
/// When `/proc/meminfo` cannot be read or does not tell.
pub fn available_bytes() -> io::Result<u64> {
    let of_machine = of_meminfo(&fs::read_to_string("/proc/meminfo")?)
        .ok_or_else(|| io::Error::other("/proc/meminfo has no MemAvailable"))?;
    let address_space = rustix::process::getrlimit(rustix::process::Resource::As).current;
    Ok([of_group(), address_space].into_iter().flatten().fold(of_machine, u64::min))
}

/// Makes an empty file in memory, which has no path. It is gone when nobody has it open any more.
///
/// # Errors
/// The error of the kernel.
pub fn unnamed_file() -> io::Result<File> {
    Ok(rustix::fs::memfd_create("treecast", MemfdFlags::CLOEXEC)?.into())
}

fn of_meminfo(meminfo: &str) -> Option<u64> {
    let rest = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    Some(rest.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
}

/// What the process's control group has left. `None`: it has no limit.
fn of_group() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    let number = |name: &str| -> Option<u64> {
        fs::read_to_string(format!("/sys/fs/cgroup{path}/{name}")).ok()?.trim().parse().ok()
    };
    Some(number("memory.max")?.saturating_sub(number("memory.current")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_available_is_read_in_bytes() {
        let meminfo = "MemTotal:  100 kB\nMemFree: 7 kB\nMemAvailable:    60 kB\n";
        assert_eq!(of_meminfo(meminfo), Some(61_440));
        assert_eq!(of_meminfo("MemTotal: 100 kB\n"), None);
        assert!(available_bytes().unwrap() > 1 << 20);
    }
}
