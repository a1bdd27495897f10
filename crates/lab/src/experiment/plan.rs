//! An experiment as a list of runs in a fixed order, and how long they will take.

use std::time::Duration;

use super::{
    Error,
    cargo::PlannedFeed,
    delivery::Delivery,
    file::{Experiment, Objects, Oversize},
    quantity::Size,
    schedule::{Schedule, seed_for},
};

/// What the plan needs to know of a network.
#[derive(Debug, Clone)]
pub struct Facts {
    pub clients: usize,
    /// The rate of the slowest link.
    pub link_rate_bps: u64,
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

    /// About how long all runs will take.
    pub fn estimate(&self, facts: &[Facts], settle: Duration) -> Duration {
        self.runs
            .iter()
            .map(|run| run.estimate(&facts[run.network]) + START_AND_STOP + settle.min(SETTLES))
            .sum()
    }
}

/// What a run takes beside the transfer itself: starting processes, checking copies.
const START_AND_STOP: Duration = Duration::from_secs(2);
/// How long the machine usually takes to calm down.
const SETTLES: Duration = Duration::from_secs(2);
/// Packet headers, on top of the object's bytes.
const OVERHEAD: f64 = 1.06;

impl Planned {
    /// The time of the transfer when the network is the limit.
    pub fn estimate(&self, facts: &Facts) -> Duration {
        let copies = if self.delivery.is_multicast() { 1 } else { facts.clients };
        if let Some(feed) = &self.feed {
            return feed.lasts + START_AND_STOP;
        }
        if let Some(lasts) = self.lasts {
            return lasts;
        }
        let bits = self.size.0 as f64 * 8.0 * OVERHEAD * copies as f64;
        let immediate = Duration::from_secs_f64(bits / facts.link_rate_bps as f64);
        immediate + immediate * self.schedule.longest_wait_factor()
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
        [3, 20].map(|clients| Facts { clients, link_rate_bps: 1_000_000_000 }).into()
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

    #[test]
    fn unicast_takes_a_copy_a_client_and_multicast_one() {
        let run = |delivery| Planned {
            network: 1,
            delivery,
            schedule: Schedule::Immediate,
            size: SIZES[1],
            repeat: 1,
            feed: None,
            lasts: None,
        };
        let tcp = run(Delivery::Tcp).estimate(&facts()[1]);
        let nack = run(Delivery::Nack).estimate(&facts()[1]);
        assert!(tcp > 19 * nack && tcp < 21 * nack);
        let random2 = Planned { schedule: Schedule::Random2, ..run(Delivery::Nack) };
        assert_eq!(random2.estimate(&facts()[1]), 3 * nack);
    }
}
