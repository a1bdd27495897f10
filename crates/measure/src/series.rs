//! Names of series.
//!
//! A name is a path whose last part ends in its unit: `interface/eth0/rx_bytes`, `cpu/user_ns`,
//! `load/one_minute_milli`. Every value is an integer. Series that only grow (bytes, packets, drops,
//! nanoseconds of processor time) are *counters*; the others (load, memory) are *gauges*.

use std::sync::Arc;

/// The name of a series. It is made once and shared by all readings, so it is cheap to copy.
pub type Name = Arc<str>;

/// 1-minute load average, in thousandths (librecast-updates-2022, 2.1).
pub const LOAD_ONE_MINUTE_MILLI: &str = "load/one_minute_milli";
/// Time that all processors spent in programs, added up.
pub const CPU_USER_NS: &str = "cpu/user_ns";
/// The part of [`CPU_USER_NS`] spent in programs with a lowered priority.
pub const CPU_NICE_NS: &str = "cpu/nice_ns";
/// Time that the processors spent in the kernel, interrupts included.
pub const CPU_SYSTEM_NS: &str = "cpu/system_ns";
/// The part of [`CPU_SYSTEM_NS`] spent in soft interrupts, where packets are forwarded.
pub const CPU_SOFTIRQ_NS: &str = "cpu/softirq_ns";
/// Time in which the processors had nothing to do, or waited for a disk.
pub const CPU_IDLE_NS: &str = "cpu/idle_ns";
/// Memory that is not available to programs.
pub const MEMORY_USED_BYTES: &str = "memory/used_bytes";
pub const SWAP_USED_BYTES: &str = "swap/used_bytes";
/// Packets that the kernel dropped because its backlog was full.
pub const SOFTNET_DROPPED_PACKETS: &str = "softnet/dropped_packets";
/// The number of times that the kernel stopped handling packets because its time slice was over.
pub(crate) const SOFTNET_SQUEEZED_TIMES: &str = "softnet/squeezed_times";
/// CPU of the processes watched on a node, their children included.
pub const PROCESS_CPU_NS: &str = "process/cpu_ns";
/// Memory that the processes watched on a node hold now.
pub(crate) const PROCESS_RESIDENT_BYTES: &str = "process/resident_bytes";
/// Processor time of the monitor itself.
pub const SELF_CPU_NS: &str = "self/cpu_ns";
pub(crate) const SELF_RESIDENT_BYTES: &str = "self/resident_bytes";

/// A counter of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Counter {
    RxBytes,
    RxPackets,
    RxDrops,
    TxBytes,
    TxPackets,
    TxDrops,
}

impl Counter {
    pub const ALL: [Counter; 6] = [
        Counter::RxBytes,
        Counter::RxPackets,
        Counter::RxDrops,
        Counter::TxBytes,
        Counter::TxPackets,
        Counter::TxDrops,
    ];

    /// The last part of the series' name.
    pub fn name(self) -> &'static str {
        match self {
            Counter::RxBytes => "rx_bytes",
            Counter::RxPackets => "rx_packets",
            Counter::RxDrops => "rx_drops",
            Counter::TxBytes => "tx_bytes",
            Counter::TxPackets => "tx_packets",
            Counter::TxDrops => "tx_drops",
        }
    }
}

/// The name of the series with `counter` of the interface that is labelled `label`.
pub fn interface(label: &str, counter: Counter) -> Name {
    format!("interface/{label}/{}", counter.name()).into()
}

/// The label and counter of an interface's series; `None` for any other series.
pub fn parse_interface(name: &str) -> Option<(&str, Counter)> {
    let (label, counter) = name.strip_prefix("interface/")?.rsplit_once('/')?;
    Counter::ALL.into_iter().find(|c| c.name() == counter).map(|c| (label, c))
}

/// A value of the queue in front of an interface's rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Queue {
    PassedPackets,
    DroppedPackets,
    /// Bytes that wait in the queue now.
    WaitingBytes,
}

impl Queue {
    pub const ALL: [Queue; 3] = [Queue::PassedPackets, Queue::DroppedPackets, Queue::WaitingBytes];

    /// The last part of the series' name.
    pub fn name(self) -> &'static str {
        match self {
            Queue::PassedPackets => "passed_packets",
            Queue::DroppedPackets => "dropped_packets",
            Queue::WaitingBytes => "waiting_bytes",
        }
    }
}

/// The name of the series with value `of` of the queue of the interface that is labelled `label`.
pub fn queue(label: &str, of: Queue) -> Name {
    format!("queue/{label}/{}", of.name()).into()
}

/// Whether a recorder samples series of this name.
pub(crate) fn is_sampled(name: &str) -> bool {
    const OTHERS: [&str; 14] = [
        LOAD_ONE_MINUTE_MILLI,
        CPU_USER_NS,
        CPU_NICE_NS,
        CPU_SYSTEM_NS,
        CPU_SOFTIRQ_NS,
        CPU_IDLE_NS,
        MEMORY_USED_BYTES,
        SWAP_USED_BYTES,
        SOFTNET_DROPPED_PACKETS,
        SOFTNET_SQUEEZED_TIMES,
        PROCESS_CPU_NS,
        PROCESS_RESIDENT_BYTES,
        SELF_CPU_NS,
        SELF_RESIDENT_BYTES,
    ];
    let is_of_queue =
        |path: &str| path.rsplit_once('/').is_some_and(|(_, of)| Queue::ALL.iter().any(|q| q.name() == of));
    parse_interface(name).is_some()
        || name.strip_prefix("queue/").is_some_and(is_of_queue)
        || OTHERS.contains(&name)
}

/// Whether the series only grows, so that differences of its values have a meaning.
pub(crate) fn is_counter(name: &str) -> bool {
    parse_interface(name).is_some()
        || name.starts_with("softnet/")
        || (name.starts_with("queue/") && name.ends_with("_packets"))
        || (name.ends_with("_ns") && !name.starts_with("memory/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_name_parses_back_whatever_its_label() {
        for label in ["eth0", "a/b", "x_bytes", ""] {
            for counter in Counter::ALL {
                assert_eq!(parse_interface(&interface(label, counter)), Some((label, counter)));
            }
        }
        assert_eq!(parse_interface("interface/eth0"), None);
        assert_eq!(parse_interface("cpu/user_ns"), None);
        assert_eq!(parse_interface("interface/eth0/speed"), None);
        for (name, is) in [(&*queue("a", Queue::WaitingBytes), true), (CPU_IDLE_NS, true), ("queue/a", false)]
        {
            assert_eq!(is_sampled(name), is, "{name}");
        }
    }

    #[test]
    fn counters_are_told_from_gauges() {
        assert!(
            is_counter(&queue("a", Queue::DroppedPackets)) && !is_counter(&queue("a", Queue::WaitingBytes))
        );
        for counter in ["interface/a/tx_bytes", CPU_USER_NS, SOFTNET_DROPPED_PACKETS, PROCESS_CPU_NS] {
            assert!(is_counter(counter), "{counter}");
        }
        for gauge in [LOAD_ONE_MINUTE_MILLI, MEMORY_USED_BYTES, PROCESS_RESIDENT_BYTES] {
            assert!(!is_counter(gauge), "{gauge}");
        }
    }
}
