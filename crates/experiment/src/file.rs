//! The experiment file (TOML); `labs/README.md` describes every key for people.

use std::{
    num::NonZeroU32,
    path::{Path, PathBuf},
};

use serde::Deserialize;

use super::{
    Error,
    delivery::Delivery,
    feed::{Configuration, Feed, FeedKeys, Priority},
    network,
    schedule::Schedule,
    sharing::{self, Change, Rival, Sharing, SharingKeys},
};
use treecast_lab::quantity::{Rate, Size, Time};
use treecast_lab::{Loss, Topology, read_text};

/// What an experiment file may say at its top level. The same keys may be set on the command line.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    title: Option<String>,
    deliveries: Option<Vec<Delivery>>,
    schedules: Option<Vec<Schedule>>,
    sizes: Option<Vec<Size>>,
    file: Option<String>,
    feed: Option<FeedKeys>,
    sharing: Option<SharingKeys>,
    repeats: Option<u32>,
    rate: Option<SendRate>,
    plain: Option<bool>,
    settle: Option<Time>,
    timeout: Option<Time>,
    seed: Option<u64>,
    sample: Option<Time>,
    store: Option<String>,
    oversize: Option<Oversize>,
    network: Option<Vec<Network>>,
    claim: Option<Vec<Claim>>,
}

/// An experiment, complete and consistent.
#[derive(Debug, Clone)]
pub struct Experiment {
    pub title: String,
    pub networks: Vec<Network>,
    pub deliveries: Vec<Delivery>,
    pub schedules: Vec<Schedule>,
    pub objects: Objects,
    /// Flows share a link, and runs end when its time is over instead of when all have everything.
    pub sharing: Option<Sharing>,
    pub repeats: u32,
    /// The rate of after, nack and carousel; none takes what the slowest link carries.
    pub rate: Option<SendRate>,
    /// Whether after, nack and carousel do without security.
    pub plain: bool,
    /// The longest wait between two runs.
    pub settle: Time,
    /// The longest time of one run.
    pub timeout: Time,
    pub seed: u64,
    /// The time between two samples of all nodes.
    pub sample: Time,
    /// The folder for source and copies; none is memory.
    pub store: Option<PathBuf>,
    pub oversize: Oversize,
    pub claims: Vec<Claim>,
}

/// What is delivered.
#[derive(Debug, Clone, PartialEq)]
pub enum Objects {
    /// Random bytes of these sizes.
    Random(Vec<Size>),
    /// One real file.
    File(PathBuf),
    /// Many, one by one.
    Feed(Feed),
}

/// One network of the experiment.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Network {
    pub name: String,
    /// What `treecast lab up` takes.
    pub topology: String,
    /// The rate of after, nack and carousel here, in place of the experiment's.
    pub rate: Option<SendRate>,
    /// Packets that never reach some of the clients; for a client that several entries name, the last counts.
    #[serde(default)]
    pub loss: Vec<ClientLoss>,
    /// Clients whose links are slower than the topology's; for a client that several entries name, the last counts.
    #[serde(default)]
    pub links: Vec<ClientLink>,
    /// A client that is stopped for a while, and whose time does not count for claims.
    pub stopped: Option<Stopped>,
    /// Which of the experiment's deliveries are run here; none is all.
    pub deliveries: Option<Vec<Delivery>>,
    /// Another flow on the shared link.
    pub rival: Option<Rival>,
    /// Other rates of the shared link while a run goes on.
    #[serde(default)]
    pub changes: Vec<Change>,
}

/// A client's program stands still (SIGSTOP), and goes on later.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stopped {
    /// By its number, from 0.
    pub client: usize,
    /// How long after the clients' start.
    pub after: Time,
    pub lasts: Time,
}

/// The rate of every `every`-th client's link, or of a `share` of them.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientLink {
    pub rate: Rate,
    #[serde(default = "one")]
    pub every: NonZeroU32,
    /// A percentage of the clients, evenly among them.
    pub share: Option<Share>,
}

/// Loss of what every `every`-th client is sent, or a `share` of them.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientLoss {
    pub rate: LossRate,
    #[serde(default = "one")]
    pub every: NonZeroU32,
    /// A percentage of the clients, evenly among them.
    pub share: Option<Share>,
}

/// A share of something, as `40%`, from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(try_from = "String")]
pub struct Share(pub f64);

impl TryFrom<String> for Share {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let percent = text.strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
        percent
            .filter(|percent| (0.0..=100.0).contains(percent))
            .map(|percent| Self(percent / 100.0))
            .ok_or_else(|| format!("share `{text}`: expected a percentage like 40%"))
    }
}

fn one() -> NonZeroU32 {
    NonZeroU32::MIN
}

/// Loss as a topology writes it: `5%`, or `gilbert:1%:25%`.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(try_from = "String")]
pub struct LossRate(pub Loss);

impl TryFrom<String> for LossRate {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Loss::parse(&text).map(Self).map_err(|expected| format!("loss `{text}`: expected {expected}"))
    }
}

/// How fast after, nack and carousel send.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum SendRate {
    /// As the paths to the receivers bear.
    Auto,
    /// As fast as the slowest attentive receiver takes it.
    Max,
    /// IP packets with their headers.
    Bps(Rate),
    /// Several groups, each slower than the one before.
    Several(Vec<Rate>),
}

impl SendRate {
    /// The rate, where it is one that is named, of IP packets with their headers.
    pub fn named_bps(&self) -> Option<u64> {
        match self {
            Self::Bps(rate) => Some(rate.0),
            Self::Auto | Self::Max | Self::Several(_) => None,
        }
    }

    /// Whether only a session can be sent at it, whose receivers answer.
    fn needs_session(&self) -> bool {
        matches!(self, Self::Auto | Self::Several(_))
    }
}

impl TryFrom<String> for SendRate {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match text.as_str() {
            "auto" => Ok(Self::Auto),
            "max" => Ok(Self::Max),
            several if several.contains(',') => several
                .split(',')
                .map(|rate| rate.trim().parse())
                .collect::<Result<_, _>>()
                .map(Self::Several),
            other => other.parse().map(Self::Bps).map_err(|error| format!("{error}, `auto` or `max`")),
        }
    }
}

/// What becomes of runs whose files do not fit the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Oversize {
    /// The experiment does not start.
    Refuse,
    /// They are left out, and the user is told.
    Skip,
}

/// What the experiment is to show: a ratio of two durations, robustnesses or throughputs, or one of them. The duration
/// of a run is the run time of its slowest client; of several runs that match it is the median.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    pub says: String,
    #[serde(default)]
    pub measure: Measure,
    pub of: Which,
    /// None compares a time with the size divided by the rate of the slowest link, what was sent with the size, and nothing
    /// else with anything.
    pub to: Option<Which>,
    pub at_most: Option<f64>,
    pub at_least: Option<f64>,
}

/// What a claim is about.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Measure {
    #[default]
    Time,
    /// The run time of the median client instead of the slowest.
    Median,
    /// Of a feed's slow receivers, from 0 to 1.
    Robustness,
    /// Of a feed's fast receivers, in Mbit/s.
    Throughput,
    /// All bytes that have left the server by its interfaces, Ethernet headers included.
    Sent,
    /// What a flow takes of a shared link divided by what its rival takes.
    Share,
    /// What all flows take of a shared link, from 0 to 1.
    Used,
    /// Seconds until little is lost again after the shared link has changed.
    Calm,
    /// What is lost from 3 s after the shared link has changed on, from 0 to 1.
    Loss,
    /// Processor time of a client's program, user and system, on average, in milliseconds.
    Processor,
}

/// The runs that a claim is about.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Which {
    pub network: String,
    pub delivery: Delivery,
    #[serde(default = "immediate")]
    pub schedule: Schedule,
    /// Of feeds.
    pub load: Option<f64>,
    pub factor: Option<f64>,
    pub priority: Option<Priority>,
}

impl Which {
    /// The configuration of a feed that it names.
    pub fn configuration(&self) -> Option<Configuration> {
        let (load, factor) = self.load.zip(self.factor)?;
        Some(Configuration { load, factor, priority: self.priority? })
    }
}

fn immediate() -> Schedule {
    Schedule::Immediate
}

impl Experiment {
    /// Reads an experiment file; each of `settings` is a `key=value` that takes the place of the
    /// file's key.
    pub fn load(path: &Path, settings: &[String]) -> Result<Self, Error> {
        /// More than any experiment needs.
        const MAX_BYTES: u64 = 1 << 20;
        let text = read_text(path, MAX_BYTES)
            .map_err(|error| Error::Unreadable { path: path.to_path_buf(), error })?;
        let folder = path.parent().unwrap_or(Path::new("."));
        Self::parse(&text, &path.display().to_string(), folder, settings)
    }

    /// Reads an experiment from `text`. `name` is what errors call it; its paths start at `folder`.
    pub fn parse(text: &str, name: &str, folder: &Path, settings: &[String]) -> Result<Self, Error> {
        let mut document = Document::parse(text, name)?;
        document.resolve_paths(folder);
        for setting in settings {
            document.set(setting)?;
        }
        let experiment = document.complete(name)?;
        experiment.check().map_err(|what| Error::Invalid { name: name.into(), what })?;
        Ok(experiment)
    }

    /// What no single key can show to be wrong.
    fn check(&self) -> Result<(), String> {
        check_distinct("network", self.networks.iter().map(|network| network.name.as_str()))?;
        check_distinct("delivery", self.deliveries.iter().map(|delivery| delivery.name()))?;
        check_distinct("schedule", self.schedules.iter().map(|schedule| schedule.name()))?;
        self.networks.iter().try_for_each(|network| network.check(&self.deliveries))?;
        self.claims.iter().try_for_each(|claim| self.check_claim(claim))?;
        self.check_feed()?;
        self.check_rates()?;
        sharing::check(self)?;
        if !self.schedules.contains(&Schedule::Immediate) {
            return Err("schedules need `immediate`: the waits of the others are measured by it".into());
        }
        match self.repeats {
            0 | 1001.. => Err(format!("repeats is {}: expected 1 to 1000", self.repeats)),
            _ => Ok(()),
        }
    }

    /// What depends on answers needs somebody who answers.
    fn check_rates(&self) -> Result<(), String> {
        let rates = self.networks.iter().filter_map(|network| network.rate.as_ref()).chain(&self.rate);
        let needs_session = rates.into_iter().any(SendRate::needs_session);
        let is_deaf = |delivery: &&Delivery| delivery.is_carousel() || **delivery == Delivery::Udp;
        match self.deliveries.iter().find(is_deaf).filter(|_| needs_session) {
            Some(deaf) => Err(format!("{} has no rate `auto`, and no several rates: name one", deaf.name())),
            None => Ok(()),
        }
    }

    /// A feed is multicast, and its receivers are there from the beginning.
    fn check_feed(&self) -> Result<(), String> {
        let Objects::Feed(_) = &self.objects else { return Ok(()) };
        if let Some(other) = self.deliveries.iter().find(|delivery| !delivery.has_sessions()) {
            return Err(format!("a feed cannot be delivered by {}: expected nack or after", other.name()));
        }
        match self.schedules[..] {
            [Schedule::Immediate] => Ok(()),
            _ => {
                Err("the receivers of a feed are there from the beginning: schedules must be `immediate`"
                    .into())
            }
        }
    }

    /// Whether a claim about `which` names a configuration that the experiment runs, or rightly none.
    fn has_configuration(&self, which: &Which, measure: Measure) -> bool {
        match &self.objects {
            Objects::Feed(feed) => {
                which.configuration().is_some_and(|wanted| feed.configurations().contains(&wanted))
            }
            _ => {
                !matches!(measure, Measure::Robustness | Measure::Throughput)
                    && which.configuration().is_none()
            }
        }
    }

    /// Whether a delivery is run in a network.
    fn runs(&self, network: &str, delivery: Delivery) -> bool {
        let networks = self.networks.iter().filter(|of| of.name == network);
        self.deliveries.contains(&delivery) && networks.into_iter().any(|of| of.runs(delivery))
    }

    fn check_claim(&self, claim: &Claim) -> Result<(), String> {
        let says = &claim.says;
        for which in std::iter::once(&claim.of).chain(&claim.to) {
            let delivery = which.delivery.name();
            let schedule = which.schedule.name();
            let known = self.networks.iter().any(|network| network.name == which.network);
            let missing = match () {
                () if !known => format!("network `{}`", which.network),
                () if !self.runs(&which.network, which.delivery) => format!("delivery `{delivery}`"),
                () if !self.schedules.contains(&which.schedule) => format!("schedule `{schedule}`"),
                () if !self.has_configuration(which, claim.measure) => "a configuration".into(),
                () => continue,
            };
            return Err(format!("claim `{says}` is about {missing}, which the experiment does not run"));
        }
        match (claim.at_most, claim.at_least) {
            (None, None) => Err(format!("claim `{says}` needs `at_most` or `at_least`")),
            _ => Ok(()),
        }
    }
}

impl Network {
    /// The topology, its loss applied.
    pub fn build(&self) -> Result<Topology, Error> {
        network::topology(self)
    }

    /// Whether one of the experiment's deliveries is run here.
    pub fn runs(&self, delivery: Delivery) -> bool {
        self.deliveries.as_ref().is_none_or(|only| only.contains(&delivery))
    }

    /// Its loss and delay in words, and at how many nodes; none when it has neither.
    pub fn impairments(&self) -> Result<Vec<String>, Error> {
        Ok(network::impairments(&self.build()?))
    }

    fn check(&self, deliveries: &[Delivery]) -> Result<(), String> {
        let name = &self.name;
        if let Some(other) = self.deliveries.iter().flatten().find(|of| !deliveries.contains(of)) {
            let other = other.name();
            return Err(format!(
                "network `{name}` is to run {other}, which is none of the experiment's deliveries"
            ));
        }
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        if name.is_empty() || name.len() > 32 || !name.bytes().all(plain) {
            return Err(format!("network name `{name}`: expected 1 to 32 letters, digits and `-`"));
        }
        Ok(())
    }
}

impl Document {
    fn parse(text: &str, name: &str) -> Result<Self, Error> {
        toml::from_str(text).map_err(|error| Error::Syntax {
            name: name.into(),
            line: error.span().map_or(1, |span| 1 + text[..span.start].matches('\n').count()),
            what: one_line(error.message()),
        })
    }

    /// Paths in a file start at its folder.
    fn resolve_paths(&mut self, folder: &Path) {
        for path in [&mut self.file, &mut self.store].into_iter().flatten() {
            if path != THIS_PROGRAM && path != MEMORY {
                *path = folder.join(&*path).display().to_string();
            }
        }
        for network in self.network.iter_mut().flatten() {
            if network.topology.ends_with(".toml") && !network.topology.contains(':') {
                network.topology = folder.join(&network.topology).display().to_string();
            }
        }
    }

    /// Lets one `key=value` take the place of the document's key.
    fn set(&mut self, setting: &str) -> Result<(), Error> {
        let refused = |what: String| Error::Setting { setting: setting.into(), what };
        let (key, value) =
            setting.split_once('=').ok_or_else(|| refused("expected key=value, such as repeats=2".into()))?;
        let key = key.trim();
        let over: Document = candidates(key, value.trim())
            .map(|line| toml::from_str(&line).map_err(|error| refused(one_line(error.message()))))
            .reduce(|first, second| first.or(second))
            .unwrap_or_else(|| Err(refused("expected a value".into())))?;
        self.take(over);
        Ok(())
    }

    fn take(&mut self, over: Document) {
        fn set<T>(key: &mut Option<T>, over: Option<T>) -> bool {
            let given = over.is_some();
            if given {
                *key = over;
            }
            given
        }
        set(&mut self.title, over.title);
        set(&mut self.deliveries, over.deliveries);
        set(&mut self.schedules, over.schedules);
        set(&mut self.repeats, over.repeats);
        set(&mut self.rate, over.rate);
        set(&mut self.plain, over.plain);
        set(&mut self.settle, over.settle);
        set(&mut self.timeout, over.timeout);
        set(&mut self.seed, over.seed);
        set(&mut self.sample, over.sample);
        set(&mut self.store, over.store);
        set(&mut self.oversize, over.oversize);
        set(&mut self.network, over.network);
        set(&mut self.claim, over.claim);
        if let Some(feed) = over.feed {
            self.feed.get_or_insert_default().take(feed);
        }
        if let Some(sharing) = over.sharing {
            self.sharing.get_or_insert_default().take(sharing);
        }
        if set(&mut self.sizes, over.sizes) {
            self.file = None;
        }
        if set(&mut self.file, over.file) {
            self.sizes = None;
        }
    }

    fn complete(self, name: &str) -> Result<Experiment, Error> {
        let missing = |what: &str| Error::Invalid { name: name.into(), what: what.into() };
        let objects = match (self.sizes, self.file, self.feed) {
            (None, None, Some(feed)) => Objects::Feed(feed.complete().map_err(|what| missing(&what))?),
            (Some(sizes), None, None) if !sizes.is_empty() => Objects::Random(sizes),
            (None, Some(file), None) => {
                Objects::File(file_path(&file).map_err(|error| missing(&error.to_string()))?)
            }
            _ => return Err(missing("expected one of `sizes`, `file` and `feed`, with something to send")),
        };
        let sharing = self.sharing.map(SharingKeys::complete).transpose().map_err(|what| missing(&what))?;
        Ok(Experiment {
            sharing,
            title: self.title.ok_or_else(|| missing("`title` is missing"))?,
            networks: some(self.network).ok_or_else(|| missing("no [[network]] to run in"))?,
            deliveries: some(self.deliveries).ok_or_else(|| missing("`deliveries` is missing"))?,
            schedules: self.schedules.unwrap_or_else(|| vec![Schedule::Immediate]),
            objects,
            repeats: self.repeats.unwrap_or(1),
            rate: self.rate,
            plain: self.plain.unwrap_or(false),
            settle: self.settle.unwrap_or(DEFAULT_SETTLE),
            timeout: self.timeout.unwrap_or(DEFAULT_TIMEOUT),
            seed: self.seed.unwrap_or(1),
            sample: self.sample.unwrap_or(DEFAULT_SAMPLE),
            store: self.store.filter(|store| store != MEMORY).map(PathBuf::from),
            oversize: self.oversize.unwrap_or(Oversize::Refuse),
            claims: self.claim.unwrap_or_default(),
        })
    }
}

/// The value of `file` that means the treecast program itself.
const THIS_PROGRAM: &str = "treecast";
/// The value of `store` that means memory.
const MEMORY: &str = "memory";
/// The paper waits a minute for the load to settle (2.1).
const DEFAULT_SETTLE: Time = Time(std::time::Duration::from_secs(60));
/// The paper samples every second (A.2).
const DEFAULT_SAMPLE: Time = Time(std::time::Duration::from_secs(1));
const DEFAULT_TIMEOUT: Time = Time(std::time::Duration::from_secs(600));

fn some<T>(list: Option<Vec<T>>) -> Option<Vec<T>> {
    list.filter(|list| !list.is_empty())
}

fn file_path(file: &str) -> std::io::Result<PathBuf> {
    if file == THIS_PROGRAM { std::env::current_exe() } else { Ok(PathBuf::from(file)) }
}

/// The ways in which `value` may be meant: as TOML writes it, as a string, as a list of strings.
pub(super) fn candidates<'a>(key: &'a str, value: &'a str) -> impl Iterator<Item = String> + 'a {
    let quoted = |text: &str| toml::Value::String(text.into()).to_string();
    let list: Vec<String> = value.split(',').map(|item| quoted(item.trim())).collect();
    [value.to_string(), quoted(value), format!("[{value}]"), format!("[{}]", list.join(", "))]
        .into_iter()
        .map(move |value| format!("{key} = {value}"))
}

fn check_distinct<'a>(kind: &str, names: impl Iterator<Item = &'a str>) -> Result<(), String> {
    let mut seen = Vec::new();
    for name in names {
        if seen.contains(&name) {
            return Err(format!("{kind} `{name}` is there twice"));
        }
        seen.push(name);
    }
    Ok(())
}

pub(super) fn one_line(message: &str) -> String {
    message.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = r#"
title = "small"
deliveries = ["tcp", "nack"]
sizes = ["1M"]

[[network]]
name = "L3"
topology = "lan:clients=3"
"#;

    fn parse(text: &str, settings: &[&str]) -> Result<Experiment, String> {
        let settings: Vec<String> = settings.iter().map(|setting| setting.to_string()).collect();
        Experiment::parse(text, "x.toml", Path::new("labs"), &settings).map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_left_out_has_the_papers_value() {
        let small = parse(SMALL, &[]).unwrap();
        assert_eq!(small.settle.0.as_secs(), 60);
        assert_eq!(small.schedules, [Schedule::Immediate]);
        assert_eq!((small.repeats, small.store, small.rate), (1, None, None));
    }

    #[test]
    fn settings_take_the_place_of_keys() {
        let set =
            parse(SMALL, &["repeats=2", "sizes=2M,3M", "deliveries=scp", "settle=1s", "rate=max"]).unwrap();
        assert_eq!(set.repeats, 2);
        assert_eq!(set.objects, Objects::Random(vec![Size(2 << 20), Size(3 << 20)]));
        assert_eq!(set.deliveries, [Delivery::Scp]);
        assert_eq!(set.rate, Some(SendRate::Max));
        let file = parse(SMALL, &["file=some/file"]).unwrap();
        assert_eq!(file.objects, Objects::File("some/file".into()));
    }

    #[test]
    fn paths_in_the_file_start_at_its_folder() {
        let text = SMALL.replace("sizes = [\"1M\"]", "file = \"data/x\"").replace("lan:clients=3", "my.toml");
        let experiment = parse(&text, &[]).unwrap();
        assert_eq!(experiment.objects, Objects::File("labs/data/x".into()));
        assert_eq!(experiment.networks[0].topology, "labs/my.toml");
        let itself = parse(SMALL, &["file=treecast"]).unwrap();
        assert_eq!(itself.objects, Objects::File(std::env::current_exe().unwrap()));
    }

    /// Replaces `from` in the small file and returns the error.
    fn broken(from: &str, to: &str) -> String {
        assert!(SMALL.contains(from));
        parse(&SMALL.replace(from, to), &[]).unwrap_err()
    }

    #[test]
    fn each_mistake_is_one_line_that_says_where_and_what() {
        let cases = [
            (
                broken("sizes", "sises"),
                "x.toml:4: unknown field `sises`, expected one of `title`, `deliveries`, `schedules`, \
                 `sizes`, `file`, `feed`, `sharing`, `repeats`, `rate`, `plain`, `settle`, `timeout`, `seed`, `sample`, `store`, `oversize`, \
                 `network`, `claim`",
            ),
            (
                broken("\"tcp\"", "\"ftp\""),
                "x.toml:3: unknown delivery `ftp`: expected tcp, udp, scp, carousel, after, nack, default, nack-fec or \
             carousel-fec",
            ),
            (
                broken("\"1M\"", "\"0M\""),
                "x.toml:4: size `0M`: expected 1 byte to 1024G, such as `500K`, `64M` or `2G`",
            ),
            (
                broken("\"L3\"", "\"L 3\""),
                "x.toml: network name `L 3`: expected 1 to 32 letters, digits and `-`",
            ),
            (
                broken("title", "schedules = [\"random\"]\ntitle"),
                "x.toml: schedules need `immediate`: the waits of the others are measured by it",
            ),
            (
                broken("topology", "loss = [{ rate = \"101%\" }]\ntopology"),
                "x.toml:8: loss `101%`: expected a percentage like 5%, or \
                 gilbert:TO_BAD:TO_GOOD[:IN_BAD[:IN_GOOD]]",
            ),
            (broken("title = \"small\"", ""), "x.toml: `title` is missing"),
            (
                broken("title = \"small\"", "title = "),
                "x.toml:2: string values must be quoted, expected literal string",
            ),
            (broken("\"tcp\", ", "\"nack\", "), "x.toml: delivery `nack` is there twice"),
            (
                broken("name = \"L3\"", "deliveries = [\"after\"]\nname = \"L3\""),
                "x.toml: network `L3` is to run after, which is none of the experiment's deliveries",
            ),
            (
                broken("sizes = [\"1M\"]", "repeats = 0\nfile = \"x\""),
                "x.toml: repeats is 0: expected 1 to 1000",
            ),
        ];
        for (found, expected) in cases {
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn wrong_settings_name_themselves() {
        assert_eq!(
            parse(SMALL, &["repeats"]).unwrap_err(),
            "--set repeats: expected key=value, such as repeats=2"
        );
        assert_eq!(
            parse(SMALL, &["deliveries=ftp"]).unwrap_err(),
            "--set deliveries=ftp: unknown delivery `ftp`: expected tcp, udp, scp, carousel, after, nack, default, nack-fec or \
             carousel-fec"
        );
        assert!(
            parse(SMALL, &["repeat=1"]).unwrap_err().starts_with("--set repeat=1: unknown field `repeat`")
        );
    }

    #[test]
    fn a_claim_about_what_is_not_run_is_refused() {
        let claim =
            "\n[[claim]]\nsays = \"flat\"\nof = { network = \"L3\", delivery = \"scp\" }\nat_most = 1.1\n";
        assert_eq!(
            parse(&format!("{SMALL}{claim}"), &[]).unwrap_err(),
            "x.toml: claim `flat` is about delivery `scp`, which the experiment does not run"
        );
    }
}
