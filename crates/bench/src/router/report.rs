//! The results of the router's bench, as a table and as JSON.

use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};
use treecast_measure::statistics::percentile;

use super::Slice;
use crate::report::median;
use treecast_driver::words::counted;

/// The speed that the MEADcast router must reach with super-packets as a share of the
/// kernel's own forwarding.
const WANTED_SUPER: f64 = 0.7;
const WANTED_SINGLE: f64 = 0.8;
const WANTED_PLAIN: f64 = 0.97;

/// The speed that packets with a proof must reach, as a share of those without.
const WANTED_PROVED: f64 = 0.9;

/// One run of all measurements beside the kernel's own forwarding.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Run {
    pub multicast_super: Slice,
    pub mead_super: Slice,
    pub xcast_super: Slice,
    pub unicast_single: Slice,
    pub mead_single: Slice,
    /// Super-packets by MEADcast with a proof of the list, by a router with a key.
    pub proved_super: Slice,
    pub proved_single: Slice,
    /// Packets that the router ignores.
    pub stray_super: Slice,
    pub stray_single: Slice,
}

impl Run {
    fn super_share(&self) -> f64 {
        self.mead_super.bytes_per_second() / self.multicast_super.bytes_per_second()
    }

    fn single_share(&self) -> f64 {
        self.mead_single.packets_per_second() / self.unicast_single.packets_per_second()
    }

    fn proved_super_share(&self) -> f64 {
        self.proved_super.bytes_per_second() / self.mead_super.bytes_per_second()
    }

    fn proved_single_share(&self) -> f64 {
        self.proved_single.packets_per_second() / self.mead_single.packets_per_second()
    }

    /// The kernel's processor time for each packet out, divided by ours. This would be the share of speed if
    /// sending were free.
    fn super_cpu_share(&self) -> f64 {
        let cost = |slice: &Slice| slice.cpu_per_packet_out(&self.stray_super);
        cost(&self.multicast_super) / cost(&self.mead_super)
    }

    fn single_cpu_share(&self) -> f64 {
        let cost = |slice: &Slice| slice.cpu_per_packet_out(&self.stray_single);
        cost(&self.unicast_single) / cost(&self.mead_single)
    }
}

/// Plain datagrams and a TCP connection, without the MEADcast program and with it.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Plain {
    pub without: [Slice; 2],
    pub with: [Slice; 2],
}

impl Plain {
    fn udp_share(&self) -> f64 {
        self.with[0].packets_per_second() / self.without[0].packets_per_second()
    }

    fn udp_cpu_share(&self) -> f64 {
        self.without[0].cpu_per_packet_in() / self.with[0].cpu_per_packet_in()
    }

    fn tcp_share(&self) -> f64 {
        self.with[1].bytes_per_second() / self.without[1].bytes_per_second()
    }

    fn tcp_cpu_share(&self) -> f64 {
        self.without[1].cpu_per_byte_out() / self.with[1].cpu_per_byte_out()
    }
}

pub struct Report {
    receivers: u32,
    seconds: Duration,
    pub runs: Vec<Run>,
    pub plain: Vec<Plain>,
    /// Single packets through the router in user space. Empty if that was not measured.
    pub user_space: Vec<Slice>,
}

impl Report {
    pub fn new(receivers: u32, seconds: Duration) -> Self {
        Self { receivers, seconds, runs: Vec::new(), plain: Vec::new(), user_space: Vec::new() }
    }

    fn of_runs(&self, value: impl Fn(&Run) -> f64) -> Spread {
        Spread::of(self.runs.iter().map(value))
    }

    fn of_plain(&self, value: impl Fn(&Plain) -> f64) -> Spread {
        Spread::of(self.plain.iter().map(value))
    }

    /// The speed of the router in user space with single packets, as a share of the eBPF program's. `None` if
    /// that was not measured.
    fn user_space_share(&self) -> Option<f64> {
        let of = |slice: &Slice| slice.packets_per_second();
        let program = self.of_runs(|run| of(&run.mead_single)).median;
        (!self.user_space.is_empty()).then(|| median(self.user_space.iter().map(of)) / program)
    }

    pub fn as_table(&self) -> String {
        let head = format!(
            "{} on links of their own, one router; medians of {} of {} s",
            counted(self.receivers as usize, "receiver"),
            counted(self.runs.len(), "run"),
            self.seconds.as_secs_f64(),
        );
        let rows = self.forwarding_rows().into_iter().chain(self.plain_rows()).chain(self.user_space_row());
        let rows: String = rows.map(|(name, text)| format!("{name:<40} {text}\n")).collect();
        format!("{head}\n{rows}")
    }

    fn forwarding_rows(&self) -> [(&'static str, String); 7] {
        let gbps = |of: fn(&Run) -> Slice, cost: fn(&Run) -> Slice| {
            let rate = self.of_runs(|run| of(run).bytes_per_second() * 8e-9).median;
            let cost = self.of_runs(|run| of(run).cpu_per_packet_out(&cost(run)) * 1e9).median;
            format!("{rate:9.2} Gbit/s   {cost:7.0} ns a packet out")
        };
        let packets = |of: fn(&Run) -> Slice, cost: fn(&Run) -> Slice| {
            let rate = self.of_runs(|run| of(run).packets_per_second() * 1e-6).median;
            let cost = self.of_runs(|run| of(run).cpu_per_packet_out(&cost(run)) * 1e9).median;
            format!("{rate:9.3} M a second{cost:7.0} ns a packet out")
        };
        let share = |speed: Spread, cpu: Spread, wanted: f64| {
            format!("  {speed} of the kernel's (wanted: {wanted}), {:.2} if sending were free", cpu.median)
        };
        let proved = |share: fn(&Run) -> f64| {
            format!("  {} of without a proof (wanted: {WANTED_PROVED})", self.of_runs(share))
        };
        let of_super =
            share(self.of_runs(Run::super_share), self.of_runs(Run::super_cpu_share), WANTED_SUPER);
        let of_single =
            share(self.of_runs(Run::single_share), self.of_runs(Run::single_cpu_share), WANTED_SINGLE);
        [
            (
                "super-packets, multicast by the kernel",
                gbps(|run| run.multicast_super, |run| run.stray_super),
            ),
            (
                "super-packets, MEADcast to unicast",
                gbps(|run| run.mead_super, |run| run.stray_super) + &of_super,
            ),
            ("super-packets, Xcast to unicast", gbps(|run| run.xcast_super, |run| run.stray_super)),
            ("packets of 1000 bytes, unicast", packets(|run| run.unicast_single, |run| run.stray_single)),
            (
                "packets of 1000 bytes, MEADcast",
                packets(|run| run.mead_single, |run| run.stray_single) + &of_single,
            ),
            (
                "super-packets, MEADcast with a proof",
                gbps(|run| run.proved_super, |run| run.stray_super) + &proved(Run::proved_super_share),
            ),
            (
                "packets of 1000 bytes, with a proof",
                packets(|run| run.proved_single, |run| run.stray_single) + &proved(Run::proved_single_share),
            ),
        ]
    }

    fn plain_rows(&self) -> [(&'static str, String); 4] {
        let packets = |of: fn(&Plain) -> Slice| {
            let rate = self.of_plain(|plain| of(plain).packets_per_second() * 1e-6).median;
            let cost = self.of_plain(|plain| of(plain).cpu_per_packet_in() * 1e9).median;
            format!("{rate:9.3} M a second{cost:7.0} ns a packet, sent and forwarded")
        };
        let gbps = |of: fn(&Plain) -> Slice| {
            let rate = self.of_plain(|plain| of(plain).bytes_per_second() * 8e-9).median;
            format!("{rate:9.2} Gbit/s")
        };
        let pairs = counted(self.plain.len(), "pair");
        let share = |speed: fn(&Plain) -> f64, cpu: fn(&Plain) -> f64| {
            let (speed, cpu) = (self.of_plain(speed), self.of_plain(cpu).median);
            format!("  {speed} of without (wanted: {WANTED_PLAIN}; {pairs}), {cpu:.3} by processor time")
        };
        let udp = packets(|plain| plain.with[0]) + &share(Plain::udp_share, Plain::udp_cpu_share);
        let tcp = gbps(|plain| plain.with[1]) + &share(Plain::tcp_share, Plain::tcp_cpu_share);
        [
            ("plain UDP without the program", packets(|plain| plain.without[0])),
            ("plain UDP with it", udp),
            ("plain TCP without the program", gbps(|plain| plain.without[1])),
            ("plain TCP with it", tcp),
        ]
    }

    fn user_space_row(&self) -> Option<(&'static str, String)> {
        let rate = median(self.user_space.iter().map(Slice::packets_per_second)) * 1e-6;
        let text = format!("{rate:9.3} M a second  {:.3} of the program's", self.user_space_share()?);
        Some(("packets of 1000 bytes, in user space", text))
    }

    pub fn as_json(&self) -> Value {
        json!({
            "receivers": self.receivers,
            "seconds": self.seconds.as_secs_f64(),
            "runs": self.runs,
            "plain": self.plain,
            "user_space": self.user_space,
            "super_share": self.of_runs(Run::super_share),
            "super_cpu_share": self.of_runs(Run::super_cpu_share),
            "single_share": self.of_runs(Run::single_share),
            "single_cpu_share": self.of_runs(Run::single_cpu_share),
            "proved_super_share": self.of_runs(Run::proved_super_share),
            "proved_single_share": self.of_runs(Run::proved_single_share),
            "plain_udp_share": self.of_plain(Plain::udp_share),
            "plain_udp_cpu_share": self.of_plain(Plain::udp_cpu_share),
            "plain_tcp_share": self.of_plain(Plain::tcp_share),
            "plain_tcp_cpu_share": self.of_plain(Plain::tcp_cpu_share),
            "user_space_share": self.user_space_share(),
            "met": self.is_met(),
        })
    }

    /// Whether every figure reaches its limit.
    pub fn is_met(&self) -> bool {
        self.of_runs(Run::super_share).median >= WANTED_SUPER
            && self.of_runs(Run::single_share).median >= WANTED_SINGLE
            && self.of_runs(Run::proved_super_share).median >= WANTED_PROVED
            && self.of_runs(Run::proved_single_share).median >= WANTED_PROVED
            && self.of_plain(Plain::udp_share).median >= WANTED_PLAIN
            && self.of_plain(Plain::tcp_share).median >= WANTED_PLAIN
    }
}

/// The median of many measurements, and the range of the half of them that is closest to it.
#[derive(Debug, Clone, Copy, Serialize)]
struct Spread {
    median: f64,
    lower_quartile: f64,
    upper_quartile: f64,
}

impl Spread {
    fn of(values: impl Iterator<Item = f64>) -> Self {
        let values: Vec<f64> = values.collect();
        let at = |percent| percentile(&values, percent).unwrap_or(0.0);
        Self { median: at(50.0), lower_quartile: at(25.0), upper_quartile: at(75.0) }
    }
}

impl std::fmt::Display for Spread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.3} ({:.3} to {:.3})", self.median, self.lower_quartile, self.upper_quartile)
    }
}
