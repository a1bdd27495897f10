//! What the results database keeps of runs that repeat a use case of meadcast-thesis-2024.

use super::{Db, Result, RunId};

/// Traffic to a group, delivered in one way.
#[derive(Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize)]
pub struct UseCaseInfo {
    /// As the participants' file calls it, e.g. `uc2`.
    pub use_case: String,
    pub receivers_per_network: usize,
    pub receivers: usize,
    pub senders: usize,
    /// What is sent, e.g. `1M` for a stream of 1 Mbit/s or `25M` for a file.
    pub load: String,
    pub is_file: bool,
    /// Data in a datagram.
    pub payload_bytes: usize,
    /// Data that each sender sends, each receiver's copy for itself not counted, in bits a second.
    pub sent_bps: u64,
    pub delivery: String,
    /// The delivery without discoveries that this one is compared with.
    pub base: Option<String>,
    /// What the tree says that this delivery takes.
    pub computed: Bytes,
    /// What the tree says that one copy on each link takes.
    pub floor: Bytes,
    /// Beside which figures it stands.
    pub thesis: Vec<ThesisFigure>,
    /// What it read of the same events.
    #[serde(default)]
    pub thesis_levels: Option<ThesisLevels>,
    /// None until it has been measured.
    pub measured: Option<Measured>,
}

/// Bytes of a whole run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct Bytes {
    /// On all links.
    pub network: u64,
    /// Of them those that left the senders.
    pub sender: u64,
}

/// What the thesis measured.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct ThesisFigure {
    /// e.g. `5.1`.
    pub table: String,
    /// `network`, `sender` or `time`.
    pub measure: String,
    /// Saved against unicast, in per cent.
    pub saved: f64,
}

/// What the thesis read before, while and after something went wrong (figure 5.9).
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ThesisLevels {
    /// `network`, or a link.
    pub of: String,
    pub mb_per_second: [f64; 3],
}

/// What a run has shown.
#[derive(Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize)]
pub struct Measured {
    /// Ethernet frames, by the counters of all interfaces.
    pub bytes: Bytes,
    /// From the first datagram until the last one came.
    pub seconds: f64,
    /// Datagrams, each for all receivers.
    pub sent: u64,
    /// Copies that were to come, that came, and that came more than once.
    pub expected: u64,
    pub came: u64,
    pub duplicates: u64,
    pub latency: Latency,
    /// The longest time between two datagrams of a flow at a receiver.
    pub longest_gap_ms: f64,
    pub per_second: Vec<SecondOfRun>,
    pub links: Vec<LinkBytes>,
    /// Processor time of the programs that send.
    pub sender_cpu_ms: f64,
    /// The share of all processors' time that was not idle, and that went into forwarding (soft interrupts).
    pub machine_busy: f64,
    pub machine_forwarding: f64,
    pub discovery: Option<DiscoveryCost>,
    /// Links whose traffic is shown over time.
    #[serde(default)]
    pub watched: Vec<LinkSeconds>,
    /// What went wrong on purpose, in order.
    #[serde(default)]
    pub events: Vec<EventOfRun>,
    #[serde(default)]
    pub receivers: Vec<ReceiverOfRun>,
}

/// Frames on a link, both ways together, in each second from the first datagram on.
#[derive(Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize)]
pub struct LinkSeconds {
    pub name: String,
    pub bytes: Vec<f64>,
}

/// Something that went wrong on purpose, or was mended.
#[derive(Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize)]
pub struct EventOfRun {
    /// After the first datagram.
    pub at_s: f64,
    /// In words, such as `r1-r3 down`.
    pub what: String,
}

/// How one receiver fared.
#[derive(Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize)]
pub struct ReceiverOfRun {
    pub name: String,
    /// Datagrams that never came.
    pub lost: u64,
    /// The longest time between two datagrams of a flow, and when that began, after the first datagram.
    pub silent_s: f64,
    pub silent_from_s: f64,
}

/// Of all datagrams at all receivers, from when the program had them to send until the kernel had them there.
#[derive(Debug, Clone, Copy, PartialEq, Default, serde::Serialize, serde::Deserialize)]
pub struct Latency {
    pub mean_ms: f64,
    pub min_ms: f64,
    pub median_ms: f64,
    pub p99_ms: f64,
    pub max_ms: f64,
    /// The mean difference between the latencies of two datagrams that came one after the other.
    pub jitter_ms: f64,
}

/// One second of a run, from the first datagram on.
#[derive(Debug, Clone, Copy, PartialEq, Default, serde::Serialize, serde::Deserialize)]
pub struct SecondOfRun {
    pub network_bytes: f64,
    pub sender_bytes: f64,
    /// What the senders were sent: responses to discovery, mostly.
    #[serde(default)]
    pub to_sender_bytes: f64,
    /// Datagrams that came in it.
    pub came: u64,
    /// From 0 to 1, of the datagrams sent in it, those that never came.
    #[serde(default)]
    pub loss: f64,
    pub latency_mean_ms: f64,
    pub latency_max_ms: f64,
}

/// A link or LAN: what its members put on it, and what came off it.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct LinkBytes {
    pub name: String,
    pub sent: u64,
    pub received: u64,
}

/// What MEADcast's discoveries took.
#[derive(Debug, Clone, Copy, PartialEq, Default, serde::Serialize, serde::Deserialize)]
pub struct DiscoveryCost {
    pub discoveries: u64,
    /// IP packets with requests that left the sender, of all discoveries.
    pub bytes: u64,
    /// Responses that were not believed: they contradict others, or prove nothing where they should.
    #[serde(default)]
    pub refused: u64,
    /// How many groups the senders have had.
    #[serde(default)]
    pub groups: u64,
    /// When the first one was over, after the first datagram; 0 when it was before.
    pub first_over_s: f64,
}

impl Measured {
    /// From 0 to 1.
    pub fn loss(&self) -> f64 {
        1.0 - self.came as f64 / self.expected.max(1) as f64
    }

    /// Bytes that left the senders in a second, on average over the whole seconds behind the first discovery; none
    /// when there are none.
    pub fn later_sender_bytes(&self) -> Option<f64> {
        let later: Vec<f64> = self.later().map(|second| second.sender_bytes).collect();
        (!later.is_empty()).then(|| later.iter().sum::<f64>() / later.len() as f64)
    }

    /// Bytes of all discoveries but the first; none without any.
    pub fn later_discovery_bytes(&self) -> Option<f64> {
        let DiscoveryCost { discoveries, bytes, .. } = self.discovery?;
        (discoveries > 0).then(|| bytes as f64 * (discoveries - 1) as f64 / discoveries as f64)
    }

    /// The mean latency of the worst second of the first discovery, as a part of the mean of the seconds behind it; none
    /// without one.
    pub fn latency_peak(&self) -> Option<f64> {
        let first = &self.per_second[..self.first_later().min(self.per_second.len())];
        let peak = first.iter().map(|second| second.latency_mean_ms).reduce(f64::max)?;
        let came: u64 = self.later().map(|second| second.came).sum();
        let sum: f64 = self.later().map(|second| second.latency_mean_ms * second.came as f64).sum();
        (came > 0).then(|| peak / (sum / came as f64))
    }

    /// Mean latency in ms of the whole seconds behind the first discovery; none when there are none.
    pub fn later_latency_ms(&self) -> Option<f64> {
        let came: u64 = self.later().map(|second| second.came).sum();
        let sum: f64 = self.later().map(|second| second.latency_mean_ms * second.came as f64).sum();
        (came > 0).then(|| sum / came as f64)
    }

    /// From 0 to 1, of what was sent in the whole seconds behind the first discovery; none when there are none.
    pub fn later_loss(&self) -> Option<f64> {
        let later: Vec<f64> = self.later().map(|second| second.loss).collect();
        (!later.is_empty()).then(|| later.iter().sum::<f64>() / later.len() as f64)
    }

    /// The first second in which the first discovery is over, and the group that it made in place.
    fn first_later(&self) -> usize {
        self.discovery.map_or(0, |discovery| discovery.first_over_s.ceil() as usize)
    }

    fn later(&self) -> impl Iterator<Item = &SecondOfRun> {
        let whole = self.per_second.iter().take(self.seconds as usize);
        whole.skip(self.first_later())
    }
}

/// The table that version 4 of the schema adds.
pub(super) const SCHEMA_4: &str = "
CREATE TABLE use_cases (
    run_id INTEGER PRIMARY KEY REFERENCES runs (id) ON DELETE CASCADE,
    info TEXT NOT NULL
) STRICT;
";

impl Db {
    /// Says that a run repeats a use case, in place of what was said of it before.
    pub fn set_use_case(&mut self, run: RunId, info: &UseCaseInfo) -> Result<()> {
        self.set_info_of_run("INSERT OR REPLACE INTO use_cases (run_id, info) VALUES (?1, ?2)", run, info)
    }

    /// What use case a run repeats; `None` for other runs.
    pub fn use_case(&self, run: RunId) -> Result<Option<UseCaseInfo>> {
        self.info_of_run("SELECT info FROM use_cases WHERE run_id = ?1", run, "a run of a use case")
    }
}
