//! Reads the workload of an experiment from its file: what is delivered.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use treecast_lab::{
    mead_plan::{Group, Participants, UseCase},
    quantity::{QuantityError, Rate, Size},
};

use super::{
    feed::Feed,
    load::{LoadKeys, Loading},
    multihoming::{Multihoming, MultihomingKeys},
    sharing::{Sharing, SharingKeys},
};

/// The `[workload]` of a file, as it is written.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum WorkloadKeys {
    Files(ObjectKeys),
    Feed(Feed),
    Stream(StreamKeys),
    Conference(StreamKeys),
    Shared(SharingKeys),
    Load(LoadKeys),
    Multihoming(MultihomingKeys),
}

/// The workload: what a run delivers.
#[derive(Debug, Clone, PartialEq)]
pub enum Workload {
    /// One file, which everybody gets.
    Files(Objects),
    /// Many files, which come one by one while the session runs.
    Feed(Feed),
    /// A stream: datagrams at an even pace, to the receivers of one sender or among all members.
    Stream(Stream),
    /// A file that takes longer than the time in which flows share a link.
    Shared(Sharing, Objects),
    /// Numbered packets from many hosts to a group, to see what the network bears.
    Load(Loading),
    /// A TCP transfer while a stub's access link is cut, and the tables of routers.
    Multihoming(Multihoming),
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ObjectKeys {
    sizes: Option<Vec<Size>>,
    file: Option<String>,
}

/// The file that is delivered.
#[derive(Debug, Clone, PartialEq)]
pub enum Objects {
    /// Random bytes of these sizes.
    Random(Vec<Size>),
    /// One real file.
    File(PathBuf),
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamKeys {
    rates: Option<Vec<Rate>>,
    seconds: Option<u32>,
    sizes: Option<Vec<Size>>,
    payload: Option<usize>,
}

/// A stream of datagrams of which each is known.
#[derive(Debug, Clone, PartialEq)]
pub struct Stream {
    pub loads: Vec<Load>,
    /// The number of bytes of data in a datagram. `None` for what lists of addresses leave room for, as in the
    /// MEADcast thesis.
    pub payload_bytes: Option<usize>,
    /// Whether all members send to each other.
    pub all_send: bool,
}

/// How much is sent to each receiver of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Load {
    /// Data at this rate, for this time.
    Rate { rate_bps: u64, seconds: u32 },
    /// This many bytes, as fast as the links can carry them.
    Bytes(u64),
}

/// How fast files are sent.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum SendRate {
    /// The rate that the paths to the receivers can carry (congestion control).
    Auto,
    /// The rate of TFMCC, which is what a TCP connection with the worst receiver's losses would get.
    Tfmcc,
    /// The rate at which the slowest attentive receiver takes data.
    Max,
    /// A fixed rate, counted in IP packets with their headers.
    Bps(Rate),
    /// Several groups, each at a lower rate than the one before.
    Several(Vec<Rate>),
}

/// The `[cast]` of a file, as it is written: the senders and receivers out of a list of use cases.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CastKeys {
    participants: PathBuf,
    use_case: String,
    receivers: Vec<usize>,
}

/// The senders and receivers of an experiment.
#[derive(Debug, Clone, PartialEq)]
pub struct Cast {
    pub use_case: UseCase,
    /// The numbers of hosts of each network that receive. Runs are made with each number.
    pub receivers: Vec<usize>,
}

/// The length of what every datagram of a stream begins with, in bytes.
pub const STAMP_LEN: usize = 24;

/// The value of `file` that stands for the treecast program itself.
pub const THIS_PROGRAM: &str = "treecast";

/// Data in the shortest and the longest datagram of a stream.
const PAYLOAD: std::ops::RangeInclusive<usize> = STAMP_LEN..=1400;

impl WorkloadKeys {
    /// Checks the values and returns the workload. Its paths start at `folder`.
    pub fn complete(self, folder: &Path) -> Result<Workload, String> {
        let all_send = matches!(self, Self::Conference(_));
        Ok(match self {
            Self::Files(keys) => Workload::Files(keys.complete(folder)?),
            Self::Feed(feed) => {
                feed.check()?;
                Workload::Feed(feed)
            }
            Self::Stream(keys) | Self::Conference(keys) => Workload::Stream(keys.complete(all_send)?),
            Self::Load(keys) => Workload::Load(keys.complete()?),
            Self::Multihoming(keys) => Workload::Multihoming(keys.complete()?),
            Self::Shared(mut keys) => {
                let objects = ObjectKeys { sizes: keys.sizes.take(), file: keys.file.take() };
                Workload::Shared(keys.complete()?, objects.complete(folder)?)
            }
        })
    }
}

impl Workload {
    pub fn objects(&self) -> Option<&Objects> {
        match self {
            Self::Files(objects) | Self::Shared(_, objects) => Some(objects),
            Self::Feed(_) | Self::Stream(_) | Self::Load(_) | Self::Multihoming(_) => None,
        }
    }

    pub fn sharing(&self) -> Option<&Sharing> {
        match self {
            Self::Shared(sharing, _) => Some(sharing),
            _ => None,
        }
    }

    pub fn loading(&self) -> Option<&Loading> {
        match self {
            Self::Load(loading) => Some(loading),
            _ => None,
        }
    }

    pub fn word(&self) -> &'static str {
        match self {
            Self::Files(_) => "files",
            Self::Feed(_) => "feed",
            Self::Stream(Stream { all_send: false, .. }) => "stream",
            Self::Stream(_) => "conference",
            Self::Shared(..) => "shared",
            Self::Load(_) => "load",
            Self::Multihoming(_) => "multihoming",
        }
    }
}

impl ObjectKeys {
    fn complete(self, folder: &Path) -> Result<Objects, String> {
        match (self.sizes, self.file) {
            (Some(sizes), None) if !sizes.is_empty() => Ok(Objects::Random(sizes)),
            (None, Some(file)) if file == THIS_PROGRAM => {
                std::env::current_exe().map(Objects::File).map_err(|error| error.to_string())
            }
            (None, Some(file)) => Ok(Objects::File(folder.join(file))),
            _ => Err("workload: expected either `sizes` or `file`, with something to send".into()),
        }
    }
}

impl StreamKeys {
    fn complete(self, all_send: bool) -> Result<Stream, String> {
        let loads: Vec<Load> = match (self.sizes, self.rates, self.seconds) {
            (Some(sizes), None, None) => sizes.into_iter().map(|size| Load::Bytes(size.0)).collect(),
            (None, Some(rates), Some(seconds @ 1..=3600)) => {
                rates.into_iter().map(|rate| Load::Rate { rate_bps: rate.0, seconds }).collect()
            }
            _ => Vec::new(),
        };
        if loads.is_empty() {
            return Err(
                "workload: expected `sizes`, or `rates` and `seconds` (1 to 3600), of what is sent".into()
            );
        }
        if let Some(bytes) = self.payload.filter(|bytes| !PAYLOAD.contains(bytes)) {
            let (least, most) = PAYLOAD.into_inner();
            return Err(format!("workload: payload is {bytes}: expected {least} to {most} bytes"));
        }
        Ok(Stream { loads, payload_bytes: self.payload, all_send })
    }
}

impl Load {
    /// Returns how many datagrams with `payload_bytes` bytes of data it takes to carry the load.
    pub fn packets(&self, payload_bytes: usize) -> u32 {
        let bytes = match *self {
            Self::Rate { rate_bps, seconds } => rate_bps * u64::from(seconds) / 8,
            Self::Bytes(bytes) => bytes,
        };
        bytes.div_ceil(payload_bytes as u64) as u32
    }
}

impl std::fmt::Display for Load {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {
            Self::Rate { rate_bps, .. } if rate_bps % 1_000_000 == 0 => {
                write!(f, "{}M", rate_bps / 1_000_000)
            }
            Self::Rate { rate_bps, .. } => write!(f, "{}k", rate_bps / 1_000),
            Self::Bytes(bytes) => write!(f, "{}", Size(bytes)),
        }
    }
}

impl CastKeys {
    /// Checks the values and returns the cast. Its file starts at `folder`.
    pub fn complete(self, folder: &Path) -> Result<Cast, String> {
        let Self { participants, use_case: wanted, receivers } = self;
        if receivers.is_empty() || receivers.contains(&0) {
            return Err(
                "cast: receivers: expected how many hosts of each network receive, such as [1, 3, 5]".into(),
            );
        }
        let known = Participants::read(&folder.join(participants))?.use_cases;
        let names: Vec<String> = known.iter().map(|found| found.name.clone()).collect();
        let use_case = known.into_iter().find(|found| found.name == wanted).ok_or_else(|| {
            format!("cast: use_case `{wanted}` is not among the participants': {}", names.join(", "))
        })?;
        Ok(Cast { use_case, receivers })
    }
}

impl Cast {
    /// Returns the groups, each with its sender and receivers, when this number of hosts of each network
    /// receive.
    pub fn groups(&self, receivers_per_network: usize) -> Vec<Group> {
        self.use_case.groups(receivers_per_network)
    }
}

impl SendRate {
    /// Returns the option of `treecast send` for this rate, and its value.
    pub fn words(&self) -> [String; 2] {
        let (option, value) = match self {
            Self::Auto => ("--rate", "auto".to_owned()),
            Self::Tfmcc => ("--rate", "tfmcc".to_owned()),
            Self::Max => ("--rate", "max".to_owned()),
            Self::Bps(rate) => ("--rate", rate.0.to_string()),
            Self::Several(rates) => {
                ("--rates", rates.iter().map(|rate| rate.0.to_string()).collect::<Vec<_>>().join(","))
            }
        };
        [option.to_owned(), value]
    }
}

impl TryFrom<String> for SendRate {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match text.as_str() {
            "auto" => Ok(Self::Auto),
            "tfmcc" => Ok(Self::Tfmcc),
            "max" => Ok(Self::Max),
            several if several.contains(',') => several
                .split(',')
                .map(|rate| rate.trim().parse())
                .collect::<Result<_, QuantityError>>()
                .map(Self::Several)
                .map_err(|error: QuantityError| error.to_string()),
            other => {
                let rate = other.parse().map(Self::Bps);
                rate.map_err(|error: QuantityError| error.or("`auto`, `tfmcc` or `max`").to_string())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_is_as_many_datagrams_as_it_needs() {
        assert_eq!(Load::Bytes(2001).packets(1000), 3);
        let stream = Load::Rate { rate_bps: 1_000_000, seconds: 8 };
        assert_eq!((stream.packets(1000), stream.to_string()), (1000, "1M".to_owned()));
        assert_eq!(Load::Rate { rate_bps: 2_500_000, seconds: 1 }.to_string(), "2500k");
    }
}
