//! The workload `feed`: many files, which come one by one while the session runs (interdomain-2013, 4.7.2).

mod keys;
mod measures;

use std::{sync::Arc, time::Duration};

use treecast_lab::quantity::Size;
use treecast_proto::policy;
use treecast_sim::session::ObjectPlan;

use self::keys::{Configuration, Feed, Priority};
use super::files::{self, check_session};
use crate::{
    Error, Kind, Network, Units, Work, Workload,
    cargo::{
        Cargo,
        products::{Arrival, Products},
    },
    document::{
        delivery::{Delivery, Repair},
        network::Facts,
        rate::SendRate,
    },
    engine::runner::{Runner, Stage, store_failed},
    plan::{Planned, Scope, Wanted, estimate::around_session},
    read,
    schedule::{Schedule, seed_for},
    session,
    simulate::{self, Goods, Lacking, Made, Simulation},
};

pub const KIND: Kind = Kind {
    word: "feed",
    read: |keys| {
        read(keys, |feed: Feed, _| {
            feed.check()?;
            Ok(Feeds(Arc::new(feed)))
        })
    },
};

#[derive(Debug)]
struct Feeds(Arc<Feed>);

/// One configuration of the feed.
#[derive(Debug)]
struct Fed {
    feed: Arc<Feed>,
    configuration: Configuration,
    /// The seed that objects and arrivals come from. It is the same for all configurations of one load.
    seed: u64,
    link_rate_bps: u64,
    /// The size of all objects together.
    size: Size,
    /// The time at which the last object comes.
    lasts: Duration,
}

impl Workload for Feeds {
    fn word(&self) -> &'static str {
        KIND.word
    }

    fn measures(&self) -> Units {
        measures::MEASURES
    }

    fn series(&self) -> Units {
        session::SERIES
    }

    /// Returns the configurations of the feed. Those of one load and repeat have the same objects, at the same times.
    fn works<'w>(&'w self, at: &'w Scope) -> Result<Vec<Wanted<'w>>, Error> {
        let habits = &at.experiment.habits;
        let link_rate_bps = at.at.facts.link_rate_bps;
        let work = |configuration: Configuration, repeat: u32| {
            let seed = seed_for(habits.seed, &format!("feed {} #{repeat}", configuration.load));
            let arrivals = self.0.arrivals(configuration.load, link_rate_bps, seed);
            let size = Size(arrivals.iter().map(|arrival| arrival.size_bytes).sum());
            let lasts = arrivals.last().map_or(Duration::ZERO, |last| last.at);
            let feed = Arc::clone(&self.0);
            let work = Arc::new(Fed { feed, configuration, seed, link_rate_bps, size, lasts });
            Wanted::of_all(work, repeat)
        };
        let of_repeat =
            |repeat| self.0.configurations().into_iter().map(move |configuration| (configuration, repeat));
        let all = (1..=habits.repeats).flat_map(of_repeat);
        Ok(all.map(|(configuration, repeat)| work(configuration, repeat)).collect())
    }

    fn check(&self, delivery: &Delivery, rate: Option<&SendRate>) -> Result<(), String> {
        check_session(delivery, rate)?;
        match !delivery.has_sessions() || delivery.may_lack() {
            true => Err("a feed needs a session of treecast with repair nack or after".into()),
            false => Ok(()),
        }
    }
}

impl Fed {
    fn arrivals(&self) -> Vec<Arrival> {
        self.feed.arrivals(self.configuration.load, self.link_rate_bps, self.seed)
    }

    /// Returns the options of a feed as in the paper's prototype: one object behind the other, and no more time than the factor
    /// gives.
    fn options(&self) -> [String; 9] {
        let (factor, priority) = (self.configuration.factor.to_string(), self.configuration.priority.name());
        ["--at-once", "1", "--retx-factor", &factor, "--retx-minimum", "0", "--priority", priority, "--feed"]
            .map(str::to_owned)
    }
}

impl Work for Fed {
    fn size(&self) -> Option<Size> {
        Some(self.size)
    }

    fn words(&self, delivery: &str, _: Schedule) -> String {
        format!("{delivery} {}", self.configuration)
    }

    fn parameters(&self, _: &Network, set: &mut dyn FnMut(&str, String)) {
        set("load", self.configuration.load.to_string());
        set("factor", self.configuration.factor.to_string());
        set("priority", self.configuration.priority.name().into());
    }

    fn is_told_a_rate(&self) -> bool {
        true
    }

    fn transfer(&self, _: &Planned, _: &Facts) -> Duration {
        self.lasts
    }

    fn around(&self, planned: &Planned, settling: Duration) -> Duration {
        around_session(planned, settling)
    }

    fn play(&self, runner: &mut Runner, stage: &Stage) -> Result<(), Error> {
        let experiment = runner.experiment();
        let fits = |cargo: &Cargo| cargo.is_feed_of(self.seed, self.size);
        let cargo = runner.cargo(fits, |store| {
            let products = Products::make(store, &self.arrivals(), self.seed);
            products.map(Cargo::Feed).map_err(store_failed(experiment))
        })?;
        files::run::play(runner, stage, &cargo, &self.options(), &|topology, clients| {
            measures::of_run(&self.feed, topology, clients)
        })
    }

    /// Refuses a feed with a repair that bounds no retransmissions, as `treecast send --retx-factor` does.
    fn check_simulated(&self, simulation: &Simulation) -> Result<(), Lacking> {
        simulation.check_session()?;
        match simulation.planned.delivery.repair {
            None | Some(Repair::Nack | Repair::After) => Ok(()),
            Some(_) => Err(Lacking::Delivery("only feeds with repair nack or after".into())),
        }
    }

    fn simulate(&self, simulation: &Simulation) -> Result<Made, String> {
        let object = |arrival: &Arrival| ObjectPlan {
            size: arrival.size_bytes as usize,
            send_at: arrival.at,
            withdraw_at: None,
        };
        let goods = Goods {
            objects: self.arrivals().iter().map(object).collect(),
            retransmission_factor: Some(self.configuration.factor),
            // As the lab's command line has it.
            feed: Some(treecast_sim::session::Feed {
                at_once: 1,
                minimum_retransmission_time: Duration::ZERO,
                priority: match self.configuration.priority {
                    Priority::Fair => policy::Priority::Fair,
                    Priority::Multicast => policy::Priority::Multicast,
                },
            }),
        };
        simulate::deliver(simulation, &goods, &|topology, clients| {
            measures::of_run(&self.feed, topology, clients)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::{Experiment, plan::Plan, store::Store};

    /// The sizes of objects follow from the network's rate, and their seed does not.
    #[test]
    fn a_feed_of_one_network_is_not_sent_in_another() {
        let text = r#"
            title = "two rates"
            deliveries = ["nack"]
            network = [
                { name = "A", topology = "lan:clients=2,rate=100M" },
                { name = "B", topology = "lan:clients=2,rate=10M" },
            ]
            workload = { kind = "feed", objects = 4, loads = [0.01], factors = [10], priorities = ["fair"] }
        "#;
        let experiment = Experiment::parse(text, "x", Path::new("."), &[]).unwrap();
        let plan = Plan::new(&experiment, "lab", u64::MAX).unwrap();
        let sizes: Vec<Size> = plan.runs.iter().map(|run| run.work.size().unwrap()).collect();
        let store = Store::in_memory(1 << 20).expect("needs root");
        let seed = seed_for(experiment.habits.seed, "feed 0.01 #1");
        let Some(feed) = toml::from_str::<Feed>("objects = 4\nloads = [0.01]").ok() else { panic!() };
        let products = Products::make(&store, &feed.arrivals(0.01, 100_000_000, seed), seed).unwrap();
        let cargo = Cargo::Feed(products);
        assert_eq!(sizes.iter().map(|size| cargo.is_feed_of(seed, *size)).collect::<Vec<_>>(), [true, false]);
    }
}
