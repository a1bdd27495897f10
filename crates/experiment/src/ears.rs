//! Measures how long receivers hear nothing, from the counters of their nodes' kernels.
//!
//! The packets of a session are sealed, so they are counted where the receivers' programs read them from the
//! kernel.

use std::{
    fs::File,
    io,
    os::unix::fs::FileExt,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use crate::site::{Site, enter};

/// Time between two looks whether something has come.
const LOOK: Duration = Duration::from_millis(5);

/// The kernel counters of all receivers of a run.
pub struct Ears(Vec<File>);

/// The times at which each receiver got packets since the beginning.
#[derive(Debug, Clone, PartialEq)]
pub struct Heard(Vec<Ear>);

#[derive(Debug, Clone, Default, PartialEq)]
struct Ear {
    datagrams: u64,
    /// The time at which the last ones came.
    last: Option<Duration>,
    /// The longest time between two, and when each such time began.
    gaps: Vec<(Duration, Duration)>,
}

impl Ears {
    /// Opens the counters of all nodes. A file that was opened at a node shows that node's counters wherever it
    /// is read.
    pub fn open(site: &dyn Site, nodes: &[String]) -> io::Result<Self> {
        let open = |node: &String| enter(site, node, || File::open("/proc/thread-self/net/snmp6"))?;
        nodes.iter().map(open).collect::<io::Result<_>>().map(Self)
    }

    /// Reads the counters again and again until `is_over`.
    pub fn listen(&self, origin: Instant, is_over: &AtomicBool) -> io::Result<Heard> {
        let first = |file| Ok(Ear { datagrams: count(file)?, ..Ear::default() });
        let mut ears: Vec<Ear> = self.0.iter().map(first).collect::<io::Result<_>>()?;
        while !is_over.load(Ordering::Relaxed) {
            for (file, ear) in self.0.iter().zip(&mut ears) {
                let datagrams = count(file)?;
                if datagrams != ear.datagrams {
                    ear.datagrams = datagrams;
                    ear.hear(origin.elapsed());
                }
            }
            thread::sleep(LOOK);
        }
        Ok(Heard(ears))
    }
}

impl Heard {
    /// Returns the longest silence of each receiver. `whole` is when each receiver had everything: silence
    /// after that does not count, nor does silence after the last packet that any receiver heard.
    pub fn silences(&self, whole: &[Option<Duration>]) -> Vec<Duration> {
        let last = self.0.iter().filter_map(|ear| ear.last).max().unwrap_or_default();
        let of = |(ear, whole): (&Ear, &Option<Duration>)| {
            ear.silence(whole.map_or(last, |at| at.min(last)), *whole)
        };
        self.0.iter().zip(whole).map(of).collect()
    }
}

impl Ear {
    fn hear(&mut self, now: Duration) {
        if let Some(last) = self.last {
            self.gaps.push((last, now));
        }
        self.last = Some(now);
        // Of silences that nobody asks about, the longest few are enough.
        if self.gaps.len() > 4096 {
            self.gaps.sort_by_key(|(from, to)| std::cmp::Reverse(*to - *from));
            self.gaps.truncate(64);
        }
    }

    /// The longest silence before `end`. A receiver that has heard nothing at all was silent until it had the file.
    fn silence(&self, end: Duration, whole: Option<Duration>) -> Duration {
        let Some(last) = self.last else { return whole.unwrap_or(end) };
        let gaps = self.gaps.iter().map(|(from, to)| (*to).min(end.max(*from)) - *from);
        gaps.chain([end.saturating_sub(last)]).max().unwrap_or_default()
    }
}

/// The datagrams that programs of a node have read.
fn count(file: &File) -> io::Result<u64> {
    let mut text = [0; 8192];
    let len = file.read_at(&mut text, 0)?;
    udp_datagrams(&String::from_utf8_lossy(&text[..len]))
        .ok_or_else(|| io::Error::other("/proc/net/snmp6 has no Udp6InDatagrams"))
}

fn udp_datagrams(text: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with("Udp6InDatagrams"))?;
    line.split_whitespace().last()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The longest silence, in milliseconds, of a receiver beside one that heard something last at `last`.
    fn silence(came: &[u64], last: u64, whole: Option<u64>) -> u128 {
        let of = |times: &[u64]| {
            let mut ear = Ear::default();
            times.iter().for_each(|at| ear.hear(Duration::from_millis(*at)));
            ear
        };
        let heard = Heard(vec![of(came), of(&[last])]);
        heard.silences(&[whole.map(Duration::from_millis), None])[0].as_millis()
    }

    #[test]
    fn silence_lasts_until_there_is_nothing_to_hear() {
        assert_eq!(silence(&[900, 910, 1_100, 1_150], 1_150, Some(3_000)), 190);
        assert_eq!(silence(&[10, 20], 5_000, None), 4_980, "others went on hearing");
        assert_eq!(silence(&[10, 20], 5_000, Some(60)), 40, "it had all that it wanted");
        assert_eq!(silence(&[], 5_000, Some(7_000)), 7_000, "it had it over its connection");
        assert_eq!(silence(&[], 5_000, None), 5_000, "it had nothing");
    }

    #[test]
    fn datagrams_are_counted_by_the_kernel() {
        assert_eq!(udp_datagrams("Ip6InReceives\t9\nUdp6InDatagrams                 \t17\n"), Some(17));
        assert_eq!(udp_datagrams("Ip6InReceives 9"), None);
        assert!(count(&File::open("/proc/self/net/snmp6").unwrap()).is_ok());
    }
}
