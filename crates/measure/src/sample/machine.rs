//! Samples the machine as a whole, and the cost of sampling.

use treecast_host::{clock::ns_per_tick, process::page_bytes};

use super::{Reading, SampleError, procfile::ProcFile};
use crate::series::{self, Name};

/// Samples load, processors, memory, swap and the kernel's packet backlog.
pub struct MachineSampler {
    loadavg: ProcFile,
    stat: ProcFile,
    meminfo: ProcFile,
    softnet: ProcFile,
    ns_per_tick: i64,
    names: Names,
}

struct Names {
    load: Name,
    user: Name,
    nice: Name,
    system: Name,
    softirq: Name,
    idle: Name,
    memory: Name,
    swap: Name,
    dropped: Name,
    squeezed: Name,
}

impl MachineSampler {
    pub fn open() -> Result<Self, SampleError> {
        Ok(Self {
            loadavg: ProcFile::open("/proc/loadavg")?,
            stat: ProcFile::open("/proc/stat")?,
            meminfo: ProcFile::open("/proc/meminfo")?,
            softnet: ProcFile::open("/proc/net/softnet_stat")?,
            ns_per_tick: ns_per_tick(),
            names: Names {
                load: series::LOAD_ONE_MINUTE_MILLI.into(),
                user: series::CPU_USER_NS.into(),
                nice: series::CPU_NICE_NS.into(),
                system: series::CPU_SYSTEM_NS.into(),
                softirq: series::CPU_SOFTIRQ_NS.into(),
                idle: series::CPU_IDLE_NS.into(),
                memory: series::MEMORY_USED_BYTES.into(),
                swap: series::SWAP_USED_BYTES.into(),
                dropped: series::SOFTNET_DROPPED_PACKETS.into(),
                squeezed: series::SOFTNET_SQUEEZED_TIMES.into(),
            },
        })
    }

    /// Adds the present values to `readings`.
    pub fn sample(&mut self, readings: &mut Vec<Reading>) {
        let mut add = |name: &Name, value| readings.push(Reading { name: name.clone(), value });
        if let Some(load) = self.loadavg.read().ok().and_then(load_milli) {
            add(&self.names.load, load);
        }
        if let Some(cpu) = self.stat.read().ok().and_then(Cpu::parse) {
            add(&self.names.user, cpu.user * self.ns_per_tick);
            add(&self.names.nice, cpu.nice * self.ns_per_tick);
            add(&self.names.system, cpu.system * self.ns_per_tick);
            add(&self.names.softirq, cpu.softirq * self.ns_per_tick);
            add(&self.names.idle, cpu.idle * self.ns_per_tick);
        }
        if let Some((memory, swap)) = self.meminfo.read().ok().and_then(memory_and_swap) {
            add(&self.names.memory, memory);
            add(&self.names.swap, swap);
        }
        if let Some((dropped, squeezed)) = self.softnet.read().ok().and_then(softnet) {
            add(&self.names.dropped, dropped);
            add(&self.names.squeezed, squeezed);
        }
    }
}

fn load_milli(loadavg: &str) -> Option<i64> {
    let load: f64 = loadavg.split(' ').next()?.parse().ok()?;
    Some((load * 1000.0).round() as i64)
}

/// The first line of /proc/stat, in ticks. Stolen time counts as kernel time, because the processor is not idle
/// then.
struct Cpu {
    user: i64,
    /// The part of `user` spent in programs with a lowered priority.
    nice: i64,
    system: i64,
    softirq: i64,
    idle: i64,
}

impl Cpu {
    fn parse(stat: &str) -> Option<Self> {
        let line = stat.lines().next()?.strip_prefix("cpu ")?;
        let ticks: Vec<i64> = line.split_whitespace().filter_map(|n| n.parse().ok()).collect();
        let &[user, nice, system, idle, iowait, irq, softirq, steal, ..] = &ticks[..] else { return None };
        let (system, idle) = (system + irq + softirq + steal, idle + iowait);
        Some(Self { user: user + nice, nice, system, softirq, idle })
    }
}

fn memory_and_swap(meminfo: &str) -> Option<(i64, i64)> {
    let bytes = |name: &str| -> Option<i64> {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
        Some(line.strip_prefix(':')?.trim().trim_end_matches(" kB").parse::<i64>().ok()? * 1024)
    };
    let memory = bytes("MemTotal")? - bytes("MemAvailable")?;
    Some((memory, bytes("SwapTotal")? - bytes("SwapFree")?))
}

/// The packets dropped and the budgets used up, summed over all processors. They are the second and third
/// hexadecimal columns.
fn softnet(text: &str) -> Option<(i64, i64)> {
    let mut sum = (0, 0);
    for line in text.lines() {
        let mut columns = line.split_whitespace().skip(1).map(|hex| i64::from_str_radix(hex, 16).ok());
        sum.0 += columns.next()??;
        sum.1 += columns.next()??;
    }
    Some(sum)
}

/// The resources that this process uses.
pub struct OwnCost {
    statm: ProcFile,
    page_bytes: i64,
    cpu: Name,
    resident: Name,
}

impl OwnCost {
    pub fn open() -> Result<Self, SampleError> {
        Ok(Self {
            statm: ProcFile::open("/proc/self/statm")?,
            page_bytes: page_bytes() as i64,
            cpu: series::SELF_CPU_NS.into(),
            resident: series::SELF_RESIDENT_BYTES.into(),
        })
    }

    /// Adds the processor time and the memory of this process to `readings`.
    pub fn sample(&mut self, readings: &mut Vec<Reading>) {
        readings.push(Reading { name: self.cpu.clone(), value: super::process::own_cpu_ns() });
        let pages = self.statm.read().ok().and_then(|text| text.split(' ').nth(1)?.parse::<i64>().ok());
        if let Some(pages) = pages {
            readings.push(Reading { name: self.resident.clone(), value: pages * self.page_bytes });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_proc_are_understood() {
        assert_eq!(load_milli("0.45 0.30 0.10 1/200 4711\n"), Some(450));
        let cpu = Cpu::parse("cpu  10 1 20 300 5 2 3 4 0 0\ncpu0 1 1 1 1 1 1 1 1\n").unwrap();
        assert_eq!((cpu.user, cpu.nice, cpu.system, cpu.softirq, cpu.idle), (11, 1, 29, 3, 305));
        let meminfo = "MemTotal: 100 kB\nMemAvailable: 60 kB\nSwapTotal: 8 kB\nSwapFree: 6 kB\n";
        assert_eq!(memory_and_swap(meminfo), Some((40 * 1024, 2 * 1024)));
        assert_eq!(softnet("0000ff 00000001 0000000a 0\n0 0000000f 00000001 0\n"), Some((16, 11)));
        assert_eq!(softnet("0000ff nonsense"), None);
        assert!(Cpu::parse("cpu 1 2 3").is_none());
    }

    #[test]
    fn this_machine_gives_all_series_and_its_cpu_time_grows() {
        let mut machine = MachineSampler::open().unwrap();
        let mut own = OwnCost::open().unwrap();
        let mut readings = Vec::new();
        machine.sample(&mut readings);
        own.sample(&mut readings);
        assert_eq!(readings.len(), 12);
        let idle_and_busy = |readings: &[Reading]| -> i64 {
            readings.iter().filter(|r| r.name.starts_with("cpu/")).map(|r| r.value).sum()
        };
        let before = idle_and_busy(&readings);
        std::thread::sleep(std::time::Duration::from_millis(100));
        readings.clear();
        machine.sample(&mut readings);
        assert!(idle_and_busy(&readings) > before);
    }
}
