//! Estimates how long runs take.

use std::time::Duration;

use treecast_lab::Role;

use super::{Plan, Planned, Understood};
use crate::document::{
    delivery::{Delivery, Fanout, Program},
    network::Facts,
};

/// The time for which the quiet machine is measured before the first run.
const BASELINE: Duration = Duration::from_secs(1);
/// The time that the machine usually takes to calm down.
const SETTLES: Duration = Duration::from_secs(1);
/// The time that a run takes beside the transfer itself, and the time for each client: starting programs, checking
/// copies.
const START_AND_STOP: Duration = Duration::from_millis(400);
const CLIENT_START_AND_STOP: Duration = Duration::from_millis(20);
/// The time that building a network takes, for each node, and for the programs of each router.
const BUILDING: Duration = Duration::from_millis(200);
const NODE_BUILDING: Duration = Duration::from_millis(5);
const ROUTER_STARTING: Duration = Duration::from_millis(100);
/// Packet headers, on top of the object's bytes.
const OVERHEAD: f64 = 1.06;
/// The factor of what is sent beyond the least that mends losses, by forward error correction.
const CODED_OVERHEAD: f64 = 1.1;
/// The processors' time for a byte that one client gets, in seconds (15 us for 10 KB), of two processors.
const MACHINE_SECONDS: f64 = 0.75e-9;
/// The most loss that is assumed, as a share, so that estimates are finite.
const MOST_LOST: f64 = 0.95;
/// The data in most packets, in bytes.
const BLOCK_BYTES: f64 = 1432.0;
/// Receivers that a packet with a list of addresses serves.
const LIST: f64 = 8.0;

impl Understood {
    fn building(&self) -> Duration {
        let routers = self.topology.count(Role::Router) as u32;
        BUILDING + NODE_BUILDING * self.topology.nodes.len() as u32 + ROUTER_STARTING * routers
    }
}

/// The number of times that a delivery sends an object of `bytes` through the slowest link, for so many of the
/// network's clients.
fn passes(facts: &Facts, clients: f64, delivery: &Delivery, bytes: u64) -> f64 {
    let again = |loss: &f64| 1.0 / (1.0 - loss.min(MOST_LOST)) - 1.0;
    let share = clients / facts.clients.max(1) as f64;
    let each_mended = facts.losses.iter().map(again).sum::<f64>() * share;
    let most_lost = facts.most_lost().min(MOST_LOST);
    let copies = match delivery.fanout {
        _ if !delivery.is_ours() => return clients + each_mended,
        Fanout::Multicast => 1.0,
        Fanout::Unicast => clients,
        Fanout::Auto | Fanout::Mead | Fanout::Xcast | Fanout::XcastPlus => (clients / LIST).max(1.0),
    };
    let coded = CODED_OVERHEAD / (1.0 - most_lost);
    copies
        * match (delivery.is_carousel(), delivery.fec.as_deref()) {
            _ if most_lost <= 0.0 || delivery.may_lack() => 1.0,
            (_, Some(fec)) if fec != "none" => coded,
            // After so many passes, the last of all blocks has come.
            (true, _) => 1.0 + (bytes as f64 / BLOCK_BYTES).max(1.0).ln() / (1.0 / most_lost).ln(),
            (false, None) if delivery.repair.is_none() => (1.0 + each_mended).min(coded),
            (false, _) => 1.0 + each_mended / copies,
        }
}

impl Plan<'_> {
    /// Returns about how long all runs take, the building of their networks included.
    pub fn estimate(&self, settle: Duration) -> Duration {
        let is_used = |(index, _): &(usize, &Understood)| self.runs.iter().any(|run| run.network == *index);
        let networks = self.networks.iter().enumerate().filter(is_used).map(|(_, at)| at.building());
        let runs = self.runs.iter().map(|run| run.estimate(&self.networks[run.network].facts, settle));
        BASELINE + networks.sum::<Duration>() + runs.sum::<Duration>()
    }
}

impl Planned<'_> {
    /// Returns about how long the run takes. This includes the wait until the machine is quiet, the start of
    /// the programs, and the check of the copies.
    pub fn estimate(&self, facts: &Facts, settle: Duration) -> Duration {
        self.work.around(self, settle.min(SETTLES)) + self.with_waits(self.transfer(facts))
    }

    /// Returns the time of the transfer when either the network or the machine is the limit, and all clients
    /// start at once.
    pub fn transfer(&self, facts: &Facts) -> Duration {
        self.work.transfer(self, facts)
    }

    /// The time with clients that wait before they start. Those of unicast share the link with fewer others
    /// meanwhile. A client that comes late to multicast is sent everything again.
    fn with_waits(&self, immediate: Duration) -> Duration {
        match self.schedule.longest_wait_factor() {
            0 => immediate,
            factor if self.delivery.is_ours() => immediate * (factor + 1),
            factor => immediate.mul_f64(f64::from(factor) + 0.2),
        }
    }
}

/// Returns the time that a run of a session takes beside its transfer.
pub fn around_session(planned: &Planned, settling: Duration) -> Duration {
    settling + START_AND_STOP + CLIENT_START_AND_STOP * planned.clients() as u32
}

/// Returns the time in which an object of `size_bytes` reaches all clients.
pub fn transfer_of(planned: &Planned, facts: &Facts, size_bytes: u64) -> Duration {
    let told = planned.parameters.get("rate").and_then(|rate| rate.parse::<u64>().ok());
    let told = told.filter(|_| !matches!(planned.delivery.program, Program::Tcp | Program::Scp));
    let rate_bps = told.map_or(facts.link_rate_bps, |rate| rate.min(facts.link_rate_bps));
    let (bytes, clients) = (size_bytes as f64, planned.clients() as f64);
    let passes = passes(facts, clients, planned.delivery, size_bytes);
    let by_network = bytes * 8.0 * OVERHEAD * passes / rate_bps as f64;
    let by_machine = bytes * clients * MACHINE_SECONDS;
    Duration::from_secs_f64(by_network.max(by_machine))
}

#[cfg(test)]
mod tests {
    use treecast_lab::quantity::Size;

    use super::{super::tests::experiment, *};

    #[test]
    fn unicast_takes_a_copy_a_client_and_multicast_one() {
        let experiment = experiment(&["network=[{name=\"B\",topology=\"lan:clients=20,rate=10M\"}]"]);
        let plan = Plan::new(&experiment, "lab", 1 << 40).unwrap();
        let of = |delivery: &str| {
            let is_it =
                |run: &&Planned| run.delivery.name == delivery && run.work.size() == Some(Size(33_554_432));
            plan.runs.iter().find(is_it).unwrap().transfer(&plan.networks[0].facts)
        };
        assert!(of("tcp") > 19 * of("nack") && of("tcp") < 21 * of("nack"));
    }

    /// A cast takes the time of its receivers alone, and not of every client of the testbed.
    #[test]
    fn a_cast_takes_the_time_of_its_own_receivers() {
        let file =
            std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../labs/meadcast/firewall.toml"));
        let experiment = crate::Experiment::load(file, &[]).unwrap();
        let plan = Plan::new(&experiment, "lab", 1 << 40).unwrap();
        let seconds = plan.runs[0].transfer(&plan.networks[0].facts).as_secs_f64();
        assert!((20.0..40.0).contains(&seconds), "{seconds}");
    }

    /// Runs of labs/ and how long each took from its start on, with a release build on 2 processors.
    #[test]
    fn estimates_are_what_runs_have_taken() {
        let cases = [
            ("rate=40M", "loss=[{rate=\"30%\"}]", "nack", "20M", 44.8),
            ("rate=40M", "loss=[{rate=\"30%\"}]", "nack-fec", "20M", 9.0),
            ("repeats=1", "loss=[]", "nack", "64M", 6.5),
            ("repeats=1", "loss=[{rate=\"5%\"}]", "nack", "64M", 13.7),
            ("repeats=1", "loss=[{rate=\"5%\"},{rate=\"20%\",every=3}]", "after", "64M", 21.5),
        ];
        for (setting, loss, delivery, size, measured) in cases {
            let network = format!("network=[{{name=\"B\",topology=\"lan:clients=20,rate=100M\",{loss}}}]");
            let settings = [
                setting,
                &network,
                &format!("deliveries={delivery}"),
                &format!("sizes={size}"),
                "schedules=immediate",
            ];
            let experiment = experiment(&settings);
            let plan = Plan::new(&experiment, "lab", 1 << 40).unwrap();
            let estimate = plan.runs[0].estimate(&plan.networks[0].facts, Duration::ZERO).as_secs_f64();
            let ratio = estimate / measured;
            assert!((1.0 / 1.5..1.5).contains(&ratio), "{loss}, {delivery}: {estimate} s for {measured} s");
        }
    }
}
