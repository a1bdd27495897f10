//! Reads the workload `load`: hosts that send numbered packets to a group at a rate, or at rates among which a threshold is
//! searched (congested-multicast-2019).

use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use serde::{Deserialize, Deserializer, de::Error as _};
use treecast_host::quantity;
use treecast_lab::quantity::Time;
use treecast_load::{
    packet::Format,
    snmp::Oid,
    threshold::{Pattern, Range},
};

use crate::document::several::Several;

/// The keys of a workload `load`, as they are written.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadKeys {
    #[serde(rename = "group", deserialize_with = "Several::read")]
    groups: Vec<IpAddr>,
    #[serde(default)]
    hosts: Vec<usize>,
    #[serde(default)]
    rates: Vec<f64>,
    #[serde(default, deserialize_with = "Several::read")]
    shares: Vec<OfPrediction>,
    search: Option<SearchKeys>,
    lasts: Time,
    pattern: Option<String>,
    #[serde(default)]
    packet: Format,
    payload: Option<usize>,
    #[serde(default = "one_group")]
    memberships: Vec<usize>,
    #[serde(default, deserialize_with = "Several::read")]
    snmp: Vec<Agent>,
}

/// The keys of a search, as they are written.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct SearchKeys {
    over: Option<Over>,
    lowest: Option<f64>,
    highest: Option<f64>,
    precision: Option<OfPrediction>,
    lost: Option<OfPrediction>,
}

/// What a search looks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Over {
    /// The highest rate, for each number of hosts.
    #[default]
    Rate,
    /// The highest number of hosts, for each rate.
    Hosts,
}

/// A percentage, as a share from 0. It may be above 100 %.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(try_from = "String")]
pub struct OfPrediction(pub f64);

/// A switch outside of the lab that tells by SNMP how busy its processor is.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Agent {
    /// The switch's name in tables.
    pub name: String,
    /// The address and port of its agent, such as `192.0.2.1:161`.
    pub agent: SocketAddr,
    /// The community of SNMP version 2c. Anyone on the path can read it.
    #[serde(default = "public")]
    pub community: String,
    /// The object to read. `None`: the mean of hrProcessorLoad (HOST-RESOURCES-MIB).
    #[serde(default, deserialize_with = "object")]
    pub oid: Option<Oid>,
}

fn object<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Oid>, D::Error> {
    String::deserialize(deserializer)?.parse().map(Some).map_err(D::Error::custom)
}

/// The workload `load`.
#[derive(Debug, Clone, PartialEq)]
pub struct Loading {
    pub groups: Vec<IpAddr>,
    /// The numbers of hosts that take part. Empty: all hosts of the network.
    pub hosts: Vec<usize>,
    pub asks: Vec<Ask>,
    /// How long the hosts send in each trial.
    pub lasts: Duration,
    pub pattern: Pattern,
    pub packet: Format,
    /// The UDP payload of a packet, in bytes.
    pub payload_bytes: usize,
    /// The numbers of groups that each receiver joins, the group of the packets among them.
    pub memberships: Vec<usize>,
    pub agents: Vec<Agent>,
}

/// How fast the hosts of a run send.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Ask {
    /// Packets a second of each sender.
    Rate(f64),
    /// A share of the rate at which the first link would be full.
    Share(f64),
    /// The highest rate that the network bears.
    SearchRate(Bounds),
    /// The highest number of hosts that the network bears, at this rate in packets a second of each sender.
    SearchHosts(Bounds, f64),
}

/// The bounds of a search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bounds {
    /// The lowest value. `None`: the lowest one that makes sense.
    pub lowest: Option<f64>,
    pub highest: Option<f64>,
    /// How close the bounds of the threshold are in the end, as a share.
    pub precision: f64,
    /// The share of the packets that may be lost.
    pub lost: f64,
}

/// The lowest and the highest rate that are tried, in packets a second of each sender, unless the file names others.
const RATES: [f64; 2] = [0.1, 1_000_000.0];

/// The fewest hosts between which something is sent.
const LEAST_HOSTS: f64 = 2.0;

const DEFAULT_PRECISION: f64 = 0.02;

/// The most groups that a receiver can be asked to join.
const MAX_MEMBERSHIPS: usize = 10_000;

/// The largest payload that no link of a lab divides.
const MAX_PAYLOAD: usize = 1400;

fn one_group() -> Vec<usize> {
    vec![1]
}

fn public() -> String {
    "public".into()
}

impl TryFrom<String> for OfPrediction {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        quantity::share(&text, 0.0..=100.0).map(Self).map_err(|error| format!("`{text}`: {error}"))
    }
}

impl LoadKeys {
    /// Checks the values and returns the workload.
    pub fn complete(self) -> Result<Loading, String> {
        let asks = self.asks()?;
        let word = self.pattern.as_deref().unwrap_or(Pattern::ManyToMany.word());
        let pattern = word.parse().map_err(|error| format!("workload: {error}"))?;
        if let Some(address) = self.groups.iter().find(|address| !address.is_multicast()) {
            return Err(format!("workload: group {address} is no multicast address"));
        }
        let least = self.packet.min_bytes();
        let payload_bytes = self.payload.unwrap_or(least);
        let within = [
            ("hosts", self.hosts.iter().all(|hosts| (2..=4000).contains(hosts)), "2 to 4000".to_owned()),
            ("group", !self.groups.is_empty(), "at least one group".to_owned()),
            ("lasts", (100..=86_400_000).contains(&self.lasts.0.as_millis()), "100ms to 24h".to_owned()),
            (
                "payload",
                (least..=MAX_PAYLOAD).contains(&payload_bytes),
                format!("{least} to {MAX_PAYLOAD} bytes"),
            ),
            (
                "memberships",
                !self.memberships.is_empty()
                    && self.memberships.iter().all(|count| (1..=MAX_MEMBERSHIPS).contains(count)),
                format!("1 to {MAX_MEMBERSHIPS} groups"),
            ),
        ];
        if let Some((key, _, expected)) = within.iter().find(|(_, is_within, _)| !is_within) {
            return Err(format!("workload: {key}: expected {expected}"));
        }
        Ok(Loading {
            groups: self.groups,
            hosts: self.hosts,
            asks,
            lasts: self.lasts.0,
            pattern,
            packet: self.packet,
            payload_bytes,
            memberships: self.memberships,
            agents: self.snmp,
        })
    }

    fn asks(&self) -> Result<Vec<Ask>, String> {
        if let Some(rate) = self.rates.iter().find(|rate| !(0.0..=1e9).contains(*rate)) {
            return Err(format!("workload: rate {rate}: expected 0 to 1000000000 packets a second"));
        }
        let asks: Vec<Ask> = match (&self.search, &self.rates[..], &self.shares[..]) {
            (None, rates, []) => rates.iter().copied().map(Ask::Rate).collect(),
            (None, [], shares) => shares.iter().map(|share| Ask::Share(share.0)).collect(),
            (Some(search), rates, []) => search.asks(rates, !self.hosts.is_empty())?,
            _ => Vec::new(),
        };
        if asks.is_empty() {
            return Err("workload: expected one of `rates` (packets a second), `shares` (of the rate that the links allow) \
                        and `search`"
                .into());
        }
        Ok(asks)
    }
}

impl SearchKeys {
    fn asks(&self, rates: &[f64], has_hosts: bool) -> Result<Vec<Ask>, String> {
        let share = |value: Option<OfPrediction>, default: f64| value.map_or(default, |share| share.0);
        let bounds = Bounds {
            lowest: self.lowest,
            highest: self.highest,
            precision: share(self.precision, DEFAULT_PRECISION),
            lost: share(self.lost, 0.0),
        };
        let are_numbers =
            [self.lowest, self.highest].into_iter().flatten().all(|bound| bound.is_finite() && bound > 0.0);
        if !are_numbers || !(0.001..=1.0).contains(&bounds.precision) {
            return Err(
                "workload: search: expected lowest and highest above 0, and precision of 0.1% to 100%".into(),
            );
        }
        let over = self.over.unwrap_or_default();
        let [lowest, highest] = if over == Over::Rate { RATES } else { [LEAST_HOSTS, f64::INFINITY] };
        let (lowest, highest) = (self.lowest.unwrap_or(lowest), self.highest.unwrap_or(highest));
        if lowest > highest {
            return Err(format!("workload: search: lowest is {lowest}, and highest is {highest}"));
        }
        match (over, rates) {
            (Over::Rate, []) => Ok(vec![Ask::SearchRate(bounds)]),
            (Over::Rate, _) => Err("workload: a search for the rate needs no `rates`".into()),
            (Over::Hosts, rates) if !rates.is_empty() && !has_hosts => {
                Ok(rates.iter().map(|rate| Ask::SearchHosts(bounds, *rate)).collect())
            }
            (Over::Hosts, _) => Err("workload: a search over hosts needs `rates`, and no `hosts`".into()),
        }
    }
}

impl Bounds {
    /// Returns the range of rates, in packets a second of each sender.
    pub fn rates(&self) -> Range {
        let [lowest, highest] = RATES;
        self.range(lowest, highest, false)
    }

    /// Returns the range of numbers of hosts in a network that has `most`.
    pub fn hosts(&self, most: usize) -> Range {
        self.range(LEAST_HOSTS, most as f64, true)
    }

    fn range(&self, lowest: f64, highest: f64, is_whole: bool) -> Range {
        let lowest = self.lowest.unwrap_or(lowest);
        Range {
            lowest,
            highest: self.highest.unwrap_or(highest),
            precision: self.precision,
            allowed: self.lost,
            is_whole,
        }
    }
}

impl Ask {
    /// Whether the run searches a threshold.
    pub fn is_search(self) -> bool {
        matches!(self, Self::SearchRate(_) | Self::SearchHosts(..))
    }
}

impl std::fmt::Display for Ask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Rate(rate) => write!(f, "{rate} packets/s"),
            Self::Share(share) => write!(f, "{:.4}% of the links", share * 100.0),
            Self::SearchRate(_) => f.write_str("threshold"),
            Self::SearchHosts(_, rate) => write!(f, "hosts at {rate} packets/s"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Loading, String> {
        let keys: LoadKeys = toml::from_str(text).map_err(|error| error.message().to_owned())?;
        keys.complete()
    }

    #[test]
    fn a_file_says_who_sends_what_and_how_fast() {
        let loading =
            read("group = \"239.3.2.2\"\nrates = [1, 450]\nlasts = \"30s\"\npacket = \"paper\"").unwrap();
        assert_eq!(loading.asks, [Ask::Rate(1.0), Ask::Rate(450.0)]);
        assert_eq!((loading.payload_bytes, loading.pattern), (8, Pattern::ManyToMany));
        let shares = read("group = [\"ff15::8\"]\nshares = [\"50%\", \"222%\"]\nlasts = \"1s\"").unwrap();
        assert_eq!((shares.asks, shares.payload_bytes), (vec![Ask::Share(0.5), Ask::Share(2.22)], 32));
        let search = read("group = \"ff15::8\"\nlasts = \"1s\"\nsearch = { lost = \"1%\" }").unwrap();
        let Ask::SearchRate(bounds) = search.asks[0] else { panic!("{search:?}") };
        assert_eq!((bounds.lost, bounds.precision, bounds.rates().highest), (0.01, 0.02, 1_000_000.0));
        let hosts = "group = \"ff15::8\"\nlasts = \"1s\"\nrates = [5]\nsearch = { over = \"hosts\" }";
        let Ask::SearchHosts(bounds, rate) = read(hosts).unwrap().asks[0] else { panic!() };
        assert_eq!((bounds.hosts(95).highest, bounds.hosts(95).is_whole, rate), (95.0, true, 5.0));
    }

    #[test]
    fn what_cannot_be_is_refused_by_its_key() {
        let refused = |rest: &str| read(&format!("lasts = \"1s\"\n{rest}")).unwrap_err();
        assert!(refused("group = \"10.0.0.1\"\nrates = [1]").contains("10.0.0.1 is no multicast address"));
        assert!(refused("group = \"239.0.0.1\"").contains("expected one of `rates`"));
        assert!(refused("group = \"239.0.0.1\"\nrates = [1]\nshares = [\"5%\"]").contains("expected one of"));
        assert!(refused("group = \"239.0.0.1\"\nrates = [-1]").contains("rate -1"));
        assert!(refused("group = \"239.0.0.1\"\nrates = [1]\npayload = 8").contains("32 to 1400 bytes"));
        assert!(refused("group = \"239.0.0.1\"\nrates = [1]\nmemberships = [0]").contains("memberships"));
        assert!(
            refused("group = \"239.0.0.1\"\nrates = [1]\nhosts = [1]").contains("hosts: expected 2 to 4000")
        );
        assert!(refused("group = \"239.0.0.1\"\nrates = [1]\nsearch = {}").contains("needs no `rates`"));
        let bounds = "group = \"239.0.0.1\"\nsearch = { lowest = 9, highest = 3 }";
        assert!(refused(bounds).contains("lowest is 9"));
        let below = "group = \"239.0.0.1\"\nsearch = { highest = 0.05 }";
        assert!(refused(below).contains("lowest is 0.1, and highest is 0.05"));
        for wrong in ["nan", "-1", "inf"] {
            let text = format!("group = \"239.0.0.1\"\nsearch = {{ lowest = {wrong} }}");
            assert!(refused(&text).contains("expected lowest and highest above 0"), "{wrong}");
        }
    }
}
