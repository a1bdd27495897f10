//! An experiment as a list of runs in a fixed order, and how long they will take.

use std::time::Duration;

use super::{
    Error,
    cargo::PlannedFeed,
    delivery::Delivery,
    file::{Experiment, Objects, Oversize},
    schedule::{Schedule, seed_for},
};
use treecast_lab::quantity::Size;

/// What the plan needs to know of a network.
#[derive(Debug, Clone)]
pub struct Facts {
    pub clients: usize,
    /// The rate of the slowest link.
    pub link_rate_bps: u64,
    /// The rate that the experiment names for what is multicast, and for udp.
    pub sending_rate_bps: Option<u64>,
    /// The share of packets that each client loses, from 0 to 1.
    pub losses: Vec<f64>,
}

/// One run to be made.
#[derive(Debug, Clone, PartialEq)]
pub struct Planned {
    /// Index into the experiment's networks.
    pub network: usize,
    pub delivery: Delivery,
    pub schedule: Schedule,
    pub size: Size,
    /// From 1.
    pub repeat: u32,
    /// Of a feed, how it is sent.
    pub feed: Option<PlannedFeed>,
    /// How long flows share a link; otherwise the run ends when all have everything.
    pub lasts: Option<Duration>,
}

/// The runs, in order, and a line for each kind of run that was left out.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    pub runs: Vec<Planned>,
    pub left_out: Vec<String>,
}

impl Plan {
    /// Expands an experiment: network by network, size by size, repeat by repeat; each delivery's immediate run
    /// comes before its random ones, whose waits are measured by it. `facts` has an entry for each network,
    /// and `capacity_bytes` is what the store holds.
    pub fn new(
        experiment: &Experiment,
        sizes: &[Size],
        facts: &[Facts],
        capacity_bytes: u64,
    ) -> Result<Self, Error> {
        let mut plan = Self { runs: Vec::new(), left_out: Vec::new() };
        for (network, facts) in facts.iter().enumerate() {
            if let Objects::Feed(_) = &experiment.objects {
                plan.push_feed(experiment, network, facts, capacity_bytes)?;
            }
            for &size in sizes {
                match oversize(&experiment.networks[network].name, facts, size, capacity_bytes) {
                    None => plan.push_all(experiment, network, size),
                    Some(what) if experiment.oversize == Oversize::Skip => plan.left_out.push(what),
                    Some(what) => return Err(Error::Oversize { what }),
                }
            }
        }
        Ok(plan)
    }

    fn push_all(&mut self, experiment: &Experiment, network: usize, size: Size) {
        let mut schedules = experiment.schedules.clone();
        schedules.sort();
        for repeat in 1..=experiment.repeats {
            let network_of = &experiment.networks[network];
            for &delivery in experiment.deliveries.iter().filter(|delivery| network_of.runs(**delivery)) {
                let runs = schedules.iter().map(|&schedule| Planned {
                    network,
                    delivery,
                    schedule,
                    size,
                    repeat,
                    feed: None,
                    lasts: experiment.sharing.as_ref().map(|sharing| sharing.lasts.0),
                });
                self.runs.extend(runs);
            }
        }
    }

    /// Every configuration of a feed. Those of one load and repeat have the same objects, at the same times.
    fn push_feed(
        &mut self,
        experiment: &Experiment,
        network: usize,
        facts: &Facts,
        capacity_bytes: u64,
    ) -> Result<(), Error> {
        let Objects::Feed(feed) = &experiment.objects else { return Ok(()) };
        for (repeat, configuration) in (1..=experiment.repeats)
            .flat_map(|repeat| feed.configurations().into_iter().map(move |one| (repeat, one)))
        {
            let seed = seed_for(experiment.seed, &format!("feed {} #{repeat}", configuration.load));
            let arrivals = feed.arrivals(configuration.load, facts.link_rate_bps, seed);
            let size = Size(arrivals.iter().map(|arrival| arrival.size_bytes).sum());
            let lasts = arrivals.last().map_or(Duration::ZERO, |last| last.at);
            match oversize(&experiment.networks[network].name, facts, size, capacity_bytes) {
                Some(what) if experiment.oversize == Oversize::Skip => self.left_out.push(what),
                Some(what) => return Err(Error::Oversize { what }),
                None => self.runs.extend(
                    experiment
                        .deliveries
                        .iter()
                        .filter(|delivery| experiment.networks[network].runs(**delivery))
                        .map(|&delivery| Planned {
                            network,
                            delivery,
                            schedule: Schedule::Immediate,
                            size,
                            repeat,
                            feed: Some(PlannedFeed { configuration, seed, lasts }),
                            lasts: None,
                        }),
                ),
            }
        }
        Ok(())
    }

    /// About how long all runs will take, with the networks in which they are made.
    pub fn estimate(&self, facts: &[Facts], settle: Duration) -> Duration {
        let is_used = |network: &usize| self.runs.iter().any(|run| run.network == *network);
        let networks = (0..facts.len()).filter(is_used).map(|network| facts[network].building());
        let runs = self.runs.iter().map(|run| run.estimate(&facts[run.network], settle));
        BASELINE + networks.sum::<Duration>() + runs.sum::<Duration>()
    }
}

/// How long the quiet machine is measured before the first run.
const BASELINE: Duration = Duration::from_secs(1);
/// How long the machine usually takes to calm down.
const SETTLES: Duration = Duration::from_secs(1);
/// What a run takes beside the transfer itself, and for each client: starting programs, checking copies.
const START_AND_STOP: Duration = Duration::from_millis(400);
const CLIENT_START_AND_STOP: Duration = Duration::from_millis(20);
/// What building a network takes, and for each client.
const BUILDING: Duration = Duration::from_millis(200);
const CLIENT_BUILDING: Duration = Duration::from_millis(5);
/// Packet headers, on top of the object's bytes.
const OVERHEAD: f64 = 1.06;
/// What is sent beyond the least that mends losses, by forward error correction.
const CODED_OVERHEAD: f64 = 1.1;
/// The processors' time for a byte that one client gets, in seconds (ARCHITECTURE.md: 15 us for 10 KB), of two processors.
const MACHINE_SECONDS: f64 = 0.75e-9;

impl Facts {
    fn building(&self) -> Duration {
        BUILDING + CLIENT_BUILDING * self.clients as u32
    }

    /// The largest share of packets that a client loses.
    fn most_lost(&self) -> f64 {
        self.losses.iter().copied().fold(0.0, f64::max).min(MOST_LOST)
    }

    /// How many times a delivery sends an object of `bytes` through the slowest link.
    fn passes(&self, delivery: Delivery, bytes: u64) -> f64 {
        let again = |loss: &f64| 1.0 / (1.0 - loss.min(MOST_LOST)) - 1.0;
        let each_mended = self.losses.iter().map(again).sum::<f64>();
        let most_lost = self.most_lost();
        match delivery {
            Delivery::Tcp | Delivery::Udp | Delivery::Scp => self.clients as f64 + each_mended,
            Delivery::After | Delivery::Nack => 1.0 + each_mended,
            Delivery::Default if most_lost > 0.0 => {
                (1.0 + each_mended).min(CODED_OVERHEAD / (1.0 - most_lost))
            }
            Delivery::NackFec | Delivery::CarouselFec if most_lost > 0.0 => {
                CODED_OVERHEAD / (1.0 - most_lost)
            }
            // After so many passes, the last of all blocks has come.
            Delivery::Carousel if most_lost > 0.0 => {
                1.0 + (bytes as f64 / BLOCK_BYTES).max(1.0).ln() / (1.0 / most_lost).ln()
            }
            Delivery::Default | Delivery::NackFec | Delivery::CarouselFec | Delivery::Carousel => 1.0,
        }
    }

    /// The rate at which a delivery fills the slowest link, or less where it is told to.
    fn rate_bps(&self, delivery: Delivery) -> u64 {
        let told = self.sending_rate_bps.filter(|_| !matches!(delivery, Delivery::Tcp | Delivery::Scp));
        told.map_or(self.link_rate_bps, |rate| rate.min(self.link_rate_bps))
    }
}

/// More than this is never taken to be lost, so that estimates are finite.
const MOST_LOST: f64 = 0.95;
/// The data in most packets.
const BLOCK_BYTES: f64 = 1432.0;

impl Planned {
    /// About how long the run takes: until the machine is quiet, and for the programs' start and the check of the copies, too.
    pub fn estimate(&self, facts: &Facts, settle: Duration) -> Duration {
        let around = START_AND_STOP + CLIENT_START_AND_STOP * facts.clients as u32;
        settle.min(SETTLES) + around + self.with_waits(self.transfer(facts))
    }

    /// The time of the transfer when the network is the limit, or the machine, and all clients start at once.
    pub fn transfer(&self, facts: &Facts) -> Duration {
        if let Some(lasts) = self.feed.as_ref().map(|feed| feed.lasts).or(self.lasts) {
            return lasts;
        }
        let bytes = self.size.0 as f64;
        let bits = bytes * 8.0 * OVERHEAD * facts.passes(self.delivery, self.size.0);
        let by_network = bits / facts.rate_bps(self.delivery) as f64;
        let by_machine = bytes * facts.clients as f64 * MACHINE_SECONDS;
        Duration::from_secs_f64(by_network.max(by_machine))
    }

    /// With clients that wait before they start. Those of unicast share the link with fewer others meanwhile; who comes late
    /// to multicast is sent everything again.
    fn with_waits(&self, immediate: Duration) -> Duration {
        match self.schedule.longest_wait_factor() {
            0 => immediate,
            factor if self.delivery.is_multicast() => immediate * (factor + 1),
            factor => immediate.mul_f64(f64::from(factor) + 0.2),
        }
    }

    /// What tells this run from all others; `network` is its network's name.
    pub fn name(&self, network: &str) -> String {
        let Self { delivery, schedule, size, repeat, .. } = self;
        if let Some(feed) = &self.feed {
            return format!("{network} {} {} #{repeat}", delivery.name(), feed.configuration);
        }
        format!("{network} {} {} {size} #{repeat}", delivery.name(), schedule.name())
    }
}

/// Why source and copies do not fit.
fn oversize(network: &str, facts: &Facts, size: Size, capacity_bytes: u64) -> Option<String> {
    let needed = size.0.checked_mul(facts.clients as u64 + 1);
    if needed.is_some_and(|needed| needed <= capacity_bytes) {
        return None;
    }
    let share_bytes = capacity_bytes / (facts.clients as u64 + 1);
    let fits = Size(share_bytes - share_bytes % (1 << 20));
    let clients = facts.clients;
    Some(format!(
        "{network}: {clients} copies of {size} do not fit; at most {fits} each: send less (--set sizes=..., file=...) \
         or keep them on disk (--set store=FOLDER)"
    ))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn experiment(settings: &[&str]) -> Experiment {
        let text = r#"
            title = "two networks"
            deliveries = ["tcp", "nack"]
            schedules = ["random", "immediate"]
            sizes = ["1M", "32M"]
            repeats = 2
            network = [{ name = "A", topology = "lan:clients=3" }, { name = "B", topology = "lan:clients=20" }]
        "#;
        let settings: Vec<String> = settings.iter().map(|setting| setting.to_string()).collect();
        Experiment::parse(text, "x", Path::new("."), &settings).unwrap()
    }

    fn facts() -> Vec<Facts> {
        let facts = |clients| Facts {
            clients,
            link_rate_bps: 1_000_000_000,
            sending_rate_bps: None,
            losses: vec![0.0; clients],
        };
        [3, 20].map(facts).into()
    }

    const SIZES: [Size; 2] = [Size(1 << 20), Size(32 << 20)];

    #[test]
    fn every_combination_is_there_once_and_immediate_comes_first() {
        let plan = Plan::new(&experiment(&[]), &SIZES, &facts(), 1 << 40).unwrap();
        let names: Vec<String> = plan.runs.iter().map(|run| run.name(["A", "B"][run.network])).collect();
        assert_eq!(names.len(), 2 * 2 * 2 * 2 * 2);
        let expected = [
            "A tcp immediate 1M #1",
            "A tcp random 1M #1",
            "A nack immediate 1M #1",
            "A nack random 1M #1",
            "A tcp immediate 1M #2",
        ];
        assert_eq!(names[..5], expected);
        let mut distinct = names.clone();
        distinct.sort();
        distinct.dedup();
        assert_eq!(distinct.len(), names.len());
    }

    #[test]
    fn what_does_not_fit_is_refused_or_left_out() {
        let refused = Plan::new(&experiment(&[]), &SIZES, &facts(), 500 << 20).unwrap_err().to_string();
        let line = "B: 20 copies of 32M do not fit; at most 23M each: send less (--set sizes=..., file=...) or keep \
                    them on disk (--set store=FOLDER)";
        assert_eq!(refused, line);
        let skipped = Plan::new(&experiment(&["oversize=skip"]), &SIZES, &facts(), 500 << 20).unwrap();
        assert_eq!(skipped.left_out, [line]);
        assert_eq!(skipped.runs.len(), 3 * 8);
    }

    fn run(delivery: Delivery, size: u64) -> Planned {
        Planned {
            network: 1,
            delivery,
            schedule: Schedule::Immediate,
            size: Size(size),
            repeat: 1,
            feed: None,
            lasts: None,
        }
    }

    #[test]
    fn unicast_takes_a_copy_a_client_and_multicast_one() {
        let slow = Facts { link_rate_bps: 10_000_000, ..facts()[1].clone() };
        let tcp = run(Delivery::Tcp, 32 << 20).transfer(&slow);
        let nack = run(Delivery::Nack, 32 << 20).transfer(&slow);
        assert!(tcp > 19 * nack && tcp < 21 * nack);
    }

    /// Runs of labs/ and how long each took from its start on, with a release build on 2 processors.
    #[test]
    fn estimates_are_what_runs_have_taken() {
        let network = |losses: [f64; 20], link_rate_bps, sending_rate_bps| Facts {
            clients: 20,
            link_rate_bps,
            sending_rate_bps,
            losses: losses.into(),
        };
        let third = std::array::from_fn(|client| if client % 3 == 0 { 0.2 } else { 0.05 });
        let (clean, lossy, bad) = ([0.0; 20], [0.05; 20], [0.3; 20]);
        let cases = [
            ("fec/loss.toml", network(bad, 100_000_000, Some(40_000_000)), Delivery::Nack, 20, 44.8),
            ("fec/loss.toml", network(bad, 100_000_000, Some(40_000_000)), Delivery::NackFec, 20, 9.0),
            ("librecast/loss.toml", network(clean, 100_000_000, None), Delivery::Nack, 64, 6.5),
            ("librecast/loss.toml", network(lossy, 100_000_000, None), Delivery::Nack, 64, 13.7),
            ("librecast/loss.toml", network(third, 100_000_000, None), Delivery::After, 64, 21.5),
        ];
        for (name, facts, delivery, mebibytes, measured) in cases {
            let estimate = run(delivery, mebibytes << 20).estimate(&facts, Duration::ZERO).as_secs_f64();
            let ratio = estimate / measured;
            assert!((1.0 / 1.5..1.5).contains(&ratio), "{name}, {delivery:?}: {estimate} s for {measured} s");
        }
    }
}
