//! Refuses by name what the simulator does not have.

use treecast_lab::{Routing, events::Fault};

use super::Simulation;
use crate::{
    Error,
    document::{
        Experiment,
        delivery::{Delivery, Fanout, Program},
        network::{Multicast, Network},
        rate::SendRate,
    },
    plan::{self, Plan},
};

/// Something that the simulator does not have.
#[derive(Debug, PartialEq, Eq)]
pub enum Lacking {
    /// What the message says of the rate behind "the simulator has", such as "no rate auto".
    Rate(String),
    /// What the message says of the delivery there, such as "no program scp".
    Delivery(String),
}

fn refused(what: String) -> Error {
    Error::NotSimulated { what }
}

/// Refuses an experiment whose workload or networks the simulator does not have.
pub fn check(experiment: &Experiment) -> Result<(), Error> {
    if !experiment.workload.is_simulated() {
        let kind = experiment.workload.word();
        return Err(refused(format!("the simulator has no workload `{kind}`: take `treecast lab run`")));
    }
    let is_shared = experiment.workload.sharing().is_some();
    for network in &experiment.networks {
        of_network(network, is_shared)
            .map_err(|what| refused(format!("network {}: {what}", network.name)))?;
    }
    Ok(())
}

/// Refuses runs that the simulator cannot make.
pub fn check_runs(experiment: &Experiment, plan: &Plan) -> Result<(), Error> {
    for planned in &plan.runs {
        let network = &experiment.networks[planned.network];
        let simulation = Simulation { experiment, plan, planned, waits: &[] };
        if !simulation.topology().bgp.is_empty() {
            return Err(refused(format!(
                "network {}: the simulator has no BGP: take `treecast lab run`",
                network.name
            )));
        }
        planned.work.check_simulated(&simulation).map_err(|lacking| {
            let (what, advice) = match lacking {
                Lacking::Rate(what) => (what, "name one rate, such as 5M"),
                Lacking::Delivery(what) => (what, "leave the delivery out (--set deliveries=...)"),
            };
            let name = &planned.delivery.name;
            refused(format!(
                "delivery `{name}`: the simulator has {what}: {advice}, or take `treecast lab run`"
            ))
        })?;
        if network.crowd.is_some() {
            super::crowd::check(network, planned.delivery, &plan.networks[planned.network])
                .map_err(|what| refused(format!("network {}: {what}", network.name)))?;
        }
    }
    Ok(())
}

impl Simulation<'_> {
    /// Refuses a session that the simulator does not have.
    pub fn check_session(&self) -> Result<(), Lacking> {
        let Self { experiment, planned, .. } = self;
        let network = &experiment.networks[planned.network];
        let rate = plan::rate(experiment, network, planned.delivery, self.topology());
        of_rate(planned.delivery, &rate).map_err(Lacking::Rate)?;
        self.check_delivery()
    }

    /// Refuses a delivery that the simulator does not have, whatever is delivered.
    pub fn check_delivery(&self) -> Result<(), Lacking> {
        of_delivery(self.planned.delivery).map_err(Lacking::Delivery)
    }
}

fn of_network(network: &Network, is_shared: bool) -> Result<(), String> {
    let is_mld = network.multicast == Multicast::Mld;
    let lacking = [
        ("routing = \"ospf\"", network.routing == Some(Routing::Ospf)),
        ("stopped", network.stopped.is_some()),
        ("rival", !is_shared && !network.rivals.is_empty()),
        ("changes", !is_shared && !network.changes.is_empty()),
        ("watch", !network.watch.is_empty()),
        ("snooping = false", is_mld && network.snooping == Some(false)),
        ("mld = 1", is_mld && network.mld == Some(1)),
    ];
    match lacking.iter().find(|(_, is_set)| *is_set) {
        Some((key, _)) => {
            Err(format!("the simulator has no `{key}`: leave it out, or take `treecast lab run`"))
        }
        None => Ok(()),
    }
}

fn of_rate(delivery: &Delivery, rate: &SendRate) -> Result<(), String> {
    match rate {
        SendRate::Auto | SendRate::Tfmcc => Err("no rate auto".into()),
        SendRate::Several(_) => Err("no session with several rates".into()),
        SendRate::Max if delivery.is_carousel() => Err("no carousel without a rate".into()),
        _ => Ok(()),
    }
}

fn of_delivery(delivery: &Delivery) -> Result<(), String> {
    if delivery.program != Program::Treecast {
        return Err(format!("no program {}", delivery.program.word()));
    }
    if delivery.fanout == Fanout::XcastPlus {
        return Err(format!("no fanout {}", delivery.fanout));
    }
    if let [option, ..] = delivery.arguments.as_slice() {
        return Err(format!("no argument {option}"));
    }
    let fault = delivery.events.iter().map(|event| &event.fault).find(|fault| !is_known(fault));
    match fault {
        Some(fault) => Err(format!("no event `{fault}`")),
        None => Ok(()),
    }
}

fn is_known(fault: &Fault) -> bool {
    use Fault::{Avoid, Down, Fail, Lose, Unplug};
    matches!(fault, Down { .. } | Fail { .. } | Avoid { .. } | Unplug { .. } | Lose { .. })
}
