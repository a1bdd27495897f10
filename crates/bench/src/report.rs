//! The results, as a table and as JSON.

use serde_json::{Value, json};

use super::{
    attack::Attack,
    floor::Floor,
    ours::Ours,
    small::{FILE_BYTES, FILES, Small},
    uftp::Uftp,
};
use treecast_driver::words::counted;
use treecast_measure::statistics::percentile;

/// The goodput that a plain session must reach, as a share of what the machine can do.
const WANTED_SHARE: f64 = 0.6;
const WANTED_MULTIPLE: f64 = 7.0;
const WANTED_BYTES: u64 = 64 << 20;

/// The goodput that a secure session must reach, as a share of a plain one's.
const WANTED_SECURE_SHARE: f64 = 0.6;

/// The goodput that many small files must reach, as a share of one large file's.
const WANTED_SMALL_SHARE: f64 = 0.5;

/// The goodput that a session under attack must reach, as a share of the goodput without attack.
const WANTED_ATTACKED_SHARE: f64 = 0.5;

/// All results.
pub struct Report {
    receivers: u32,
    bytes: u64,
    pub runs: Vec<Run>,
    pub small: Vec<Small>,
    pub attacks: Vec<Attack>,
    pub uftp: Option<Uftp>,
    pub large: Option<Ours>,
}

/// One run: the floor and treecast, measured directly after each other.
pub struct Run {
    pub floor: Floor,
    /// The plain session.
    pub ours: Ours,
    /// The encrypted and authenticated session, which is treecast's default.
    pub secure: Ours,
}

impl Report {
    pub fn new(receivers: u32, bytes: u64) -> Self {
        let (runs, small, attacks) = (Vec::new(), Vec::new(), Vec::new());
        Self { receivers, bytes, runs, small, attacks, uftp: None, large: None }
    }

    fn median(&self, value: impl Fn(&Run) -> f64) -> f64 {
        median(self.runs.iter().map(value))
    }

    fn gbps(&self, seconds: f64) -> f64 {
        self.bytes as f64 * 8e-9 / seconds.max(1e-9)
    }

    fn floor_gbps(&self) -> f64 {
        self.gbps(self.median(|run| run.floor.seconds()))
    }

    fn ours_gbps(&self) -> f64 {
        self.gbps(self.median(|run| run.ours.slowest_seconds()))
    }

    /// The median of the shares of all runs. A disturbance of the machine affects both parts of a run, so each
    /// run has its own share.
    fn share(&self) -> f64 {
        self.median(|run| run.floor.seconds() / run.ours.slowest_seconds())
    }

    fn secure_share(&self) -> f64 {
        self.median(|run| run.ours.slowest_seconds() / run.secure.slowest_seconds())
    }

    fn small_share(&self) -> Option<f64> {
        (!self.small.is_empty()).then(|| median(self.small.iter().map(Small::share)))
    }

    fn small_possible_share(&self) -> Option<f64> {
        (!self.small.is_empty()).then(|| median(self.small.iter().map(Small::possible_share)))
    }

    fn attacked_share(&self) -> Option<f64> {
        (!self.attacks.is_empty()).then(|| median(self.attacks.iter().map(Attack::share)))
    }

    fn uftp_gbps(&self) -> Option<f64> {
        Some(self.uftp.as_ref()?.best()?.goodput_bps * 1e-9)
    }

    fn multiple(&self) -> Option<f64> {
        Some(self.ours_gbps() / self.uftp_gbps().filter(|gbps| *gbps > 0.0)?)
    }

    fn peak(&self, of: impl Fn(&Ours) -> u64) -> u64 {
        self.runs
            .iter()
            .flat_map(|run| [&run.ours, &run.secure])
            .chain(self.small.iter().flat_map(|small| [&small.one, &small.many]))
            .chain(&self.large)
            .map(of)
            .max()
            .unwrap_or(0)
    }

    pub fn as_table(&self) -> String {
        let mut rows = self.whole_rows();
        rows.extend(self.small_row());
        rows.extend(self.attack_row());
        rows.extend(self.uftp_row().map(|row| ("uftp, at its best rate".into(), row)));
        rows.push(("most memory, file pages apart".into(), self.memory_row()));
        rows.extend(self.large.as_ref().map(|large| self.large_row(large)));
        rows.iter().map(|(name, text)| format!("{}\n", format!("{name:<32} {text}").trim_end())).collect()
    }

    /// The rows about runs with one file.
    fn whole_rows(&self) -> Vec<(String, String)> {
        let receivers = counted(self.receivers as usize, "receiver");
        if self.runs.is_empty() {
            return vec![(receivers, String::new())];
        }
        let runs = counted(self.runs.len(), "run");
        let mut rows =
            vec![(format!("{receivers}, {} MiB each; medians of {runs}", self.bytes >> 20), String::new())];
        rows.extend(self.machine_rows());
        rows.push(("treecast --plain, every receiver".into(), self.our_row()));
        rows.push(("treecast, at every receiver".into(), self.secure_row()));
        rows
    }

    fn machine_rows(&self) -> impl Iterator<Item = (String, String)> {
        type Part = (&'static str, fn(&Floor) -> f64);
        let parts: [Part; 4] = [
            ("super-packets to all, alone", |floor| floor.network_seconds),
            ("written by all, alone", |floor| floor.write_seconds),
            ("hashed by all, alone", |floor| floor.hash_seconds),
            ("what the machine can do", Floor::seconds),
        ];
        parts.into_iter().map(|(name, seconds)| {
            let seconds = self.median(|run| seconds(&run.floor));
            (name.to_owned(), format!("{seconds:8.3} s  {:7.2} Gbit/s", self.gbps(seconds)))
        })
    }

    fn our_row(&self) -> String {
        format!(
            "{:8.3} s  {:7.2} Gbit/s  {:.2} of what the machine can do (wanted: {WANTED_SHARE})",
            self.median(|run| run.ours.slowest_seconds()),
            self.ours_gbps(),
            self.share(),
        )
    }

    fn secure_row(&self) -> String {
        let seconds = self.median(|run| run.secure.slowest_seconds());
        let (gbps, share) = (self.gbps(seconds), self.secure_share());
        format!("{seconds:8.3} s  {gbps:7.2} Gbit/s  {share:.2} of --plain (wanted: {WANTED_SECURE_SHARE})")
    }

    fn small_row(&self) -> Option<(String, String)> {
        let share = self.small_share()?;
        let possible = self.small_possible_share()?;
        let of_possible = median(self.small.iter().map(|small| small.share() / small.possible_share()));
        let seconds = median(self.small.iter().map(|small| small.many.slowest_seconds()));
        let gbps = f64::from(FILES) * FILE_BYTES as f64 * 8e-9 / seconds.max(1e-9);
        let text = format!(
            "{seconds:8.3} s  {gbps:7.2} Gbit/s  {share:.2} of one large file (wanted: {WANTED_SMALL_SHARE}); {of_possible:.2} of the \
             {possible:.2} that were possible if many cost more by nothing but what making files costs more than writing one"
        );
        Some((format!("{FILES} files of {FILE_BYTES} bytes"), text))
    }

    fn attack_row(&self) -> Option<(String, String)> {
        let share = self.attacked_share()?;
        let seconds = median(self.attacks.iter().map(|attack| attack.attacked.slowest_seconds()));
        let text = format!(
            "{seconds:8.3} s  {:7.2} Gbit/s  {share:.2} of without (wanted: {WANTED_ATTACKED_SHARE}); junk to the group, half-open connections",
            self.gbps(seconds),
        );
        Some(("attacked, at three receivers".into(), text))
    }

    fn uftp_row(&self) -> Option<String> {
        let (gbps, best) = (self.uftp_gbps()?, self.uftp.as_ref()?.best()?);
        let multiple = self.multiple().map_or_else(|| "-".into(), |multiple| format!("{multiple:.1}"));
        Some(format!(
            "{:10}  {gbps:7.2} Gbit/s  at -R {} Mbit/s; treecast is {multiple} times as fast (wanted: {WANTED_MULTIPLE})",
            "", best.rate_mbps,
        ))
    }

    fn memory_row(&self) -> String {
        format!(
            "sender {:.1} MiB, receiver {:.1} MiB (wanted: below {})",
            mib(self.peak(|ours| ours.sender_peak_bytes)),
            mib(self.peak(|ours| ours.receiver_peak_bytes)),
            WANTED_BYTES >> 20,
        )
    }

    fn large_row(&self, large: &Ours) -> (String, String) {
        let peaks = (mib(large.sender_peak_bytes), mib(large.receiver_peak_bytes));
        let text = format!(
            "{:8.3} s  sender {:.1} MiB, receiver {:.1} MiB",
            large.slowest_seconds(),
            peaks.0,
            peaks.1
        );
        (format!("{} MiB to one receiver", self.bytes >> 17), text)
    }

    pub fn as_json(&self) -> Value {
        let runs: Vec<Value> = self
            .runs
            .iter()
            .map(|run| json!({"floor": run.floor, "treecast": run.ours, "secure": run.secure}))
            .collect();
        json!({
            "receivers": self.receivers,
            "bytes": self.bytes,
            "runs": runs,
            "floor_gbps": self.floor_gbps(),
            "treecast_gbps": self.ours_gbps(),
            "share_of_floor": self.share(),
            "secure_share": self.secure_share(),
            "small": self.small,
            "small_possible_share": self.small_possible_share(),
            "small_share": self.small_share(),
            "attacks": self.attacks,
            "attacked_share": self.attacked_share(),
            "uftp": self.uftp,
            "uftp_gbps": self.uftp_gbps(),
            "multiple_of_uftp": self.multiple(),
            "sender_peak_bytes": self.peak(|ours| ours.sender_peak_bytes),
            "receiver_peak_bytes": self.peak(|ours| ours.receiver_peak_bytes),
            "large": self.large,
            "met": self.is_met(),
        })
    }

    /// Whether every figure reaches its limit.
    pub fn is_met(&self) -> bool {
        let are_fast = self.share() >= WANTED_SHARE && self.secure_share() >= WANTED_SECURE_SHARE;
        (are_fast || self.runs.is_empty())
            && self.small_share().is_none_or(|share| share >= WANTED_SMALL_SHARE)
            && self.attacked_share().is_none_or(|share| share >= WANTED_ATTACKED_SHARE)
            && self.multiple().is_none_or(|multiple| multiple >= WANTED_MULTIPLE)
            && self.peak(|ours| ours.sender_peak_bytes.max(ours.receiver_peak_bytes)) < WANTED_BYTES
    }
}

pub(super) fn median(values: impl Iterator<Item = f64>) -> f64 {
    percentile(&values.collect::<Vec<_>>(), 50.0).unwrap_or(0.0)
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(floor: f64, ours: f64) -> Run {
        let floor = Floor { network_seconds: floor, write_seconds: 0.0, hash_seconds: 0.0 };
        let ours = Ours {
            seconds: vec![ours / 2.0, ours],
            sender_seconds: ours,
            retransmitted_bytes: 0,
            dropped_packets: 0,
            sender_peak_bytes: 1 << 20,
            receiver_peak_bytes: 2 << 20,
        };
        let secure = Ours { seconds: vec![ours.slowest_seconds() * 2.0], ..ours.clone() };
        Run { floor, ours, secure }
    }

    #[test]
    fn without_runs_of_one_file_the_small_ones_decide() {
        let Run { ours, secure, .. } = run(4.0, 8.0);
        let mut report = Report::new(2, 1_000_000_000);
        let small = Small { one: ours, many: secure, create_seconds: 3.0, write_seconds: 1.0 };
        report.small = vec![small];
        assert!(report.is_met() && !report.as_table().contains("--plain"), "{}", report.as_table());
        report.small[0].many.seconds = vec![40.0];
        assert!(!report.is_met());
    }

    #[test]
    fn the_slowest_receivers_median_counts() {
        let mut report = Report::new(2, 1_000_000_000);
        report.runs = vec![run(4.0, 8.0), run(6.0, 8.0), run(4.0, 100.0)];
        assert!((report.ours_gbps() - 1.0).abs() < 1e-9);
        assert!((report.share() - 0.5).abs() < 1e-9);
        assert!((report.secure_share() - 0.5).abs() < 1e-9);
        assert_eq!(report.as_json()["met"], false);
        assert!(report.as_table().contains("0.50 of what the machine can do"));
    }
}
