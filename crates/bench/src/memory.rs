//! The memory of processes: the anonymous part of resident memory, without file pages.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

const SAMPLE_INTERVAL: Duration = Duration::from_millis(20);

/// Samples processes until `on` is false. Returns the peak of each in bytes.
pub(super) fn sample(ids: Vec<u32>, on: Arc<AtomicBool>) -> JoinHandle<Vec<u64>> {
    std::thread::spawn(move || {
        let mut peaks = vec![0; ids.len()];
        while on.load(Ordering::Relaxed) {
            for (id, peak) in ids.iter().zip(&mut peaks) {
                *peak = anonymous_bytes(*id).max(*peak);
            }
            std::thread::sleep(SAMPLE_INTERVAL);
        }
        peaks
    })
}

/// The value `RssAnon` of /proc/PID/status, in bytes. 0 for a process that has ended.
fn anonymous_bytes(id: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kib = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_very_process_takes_memory() {
        assert!(anonymous_bytes(std::process::id()) > 10_000);
        assert_eq!(anonymous_bytes(u32::MAX), 0);
    }
}
