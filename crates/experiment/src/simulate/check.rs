//! Refuses by name what the simulator does not have.

use treecast_lab::{Routing, events::Fault};

use crate::{
    Error,
    document::{
        Experiment,
        delivery::{Delivery, Fanout, Program},
        network::{Multicast, Network},
        workload::{SendRate, Workload},
    },
    plan::{self, Plan},
};

fn refused(what: String) -> Error {
    Error::NotSimulated { what }
}

/// Refuses an experiment whose workload or networks the simulator does not have.
pub fn check(experiment: &Experiment) -> Result<(), Error> {
    if !matches!(experiment.workload, Workload::Files(_)) {
        let kind = experiment.workload.word();
        return Err(refused(format!(
            "the simulator delivers files, and not the workload `{kind}`: take `treecast lab run`"
        )));
    }
    for network in &experiment.networks {
        of_network(network).map_err(|what| refused(format!("network {}: {what}", network.name)))?;
    }
    Ok(())
}

/// Refuses runs that the simulator cannot make.
pub fn check_runs(experiment: &Experiment, plan: &Plan) -> Result<(), Error> {
    for run in &plan.runs {
        let network = &experiment.networks[run.network];
        let topology = &plan.networks[run.network].topology;
        let rate = plan::rate(experiment, network, run.delivery, topology);
        let name = &run.delivery.name;
        of_rate(run.delivery, &rate).map_err(|what| {
            let advice = "name one rate, such as 5M, or take `treecast lab run`";
            refused(format!("delivery `{name}`: the simulator has {what}: {advice}"))
        })?;
        of_delivery(run.delivery).map_err(|what| {
            let advice = "leave the delivery out (--set deliveries=...), or take `treecast lab run`";
            refused(format!("delivery `{name}`: the simulator has {what}: {advice}"))
        })?;
        if network.crowd.is_some() {
            super::crowd::check(network, run.delivery, &plan.networks[run.network])
                .map_err(|what| refused(format!("network {}: {what}", network.name)))?;
        }
        super::network::check_connected(topology, &run.groups[0])
            .map_err(|what| refused(format!("network {}: {what}", network.name)))?;
    }
    Ok(())
}

fn of_network(network: &Network) -> Result<(), String> {
    let is_mld = network.multicast == Multicast::Mld;
    let lacking = [
        ("routing = \"ospf\"", network.routing == Some(Routing::Ospf)),
        ("stopped", network.stopped.is_some()),
        ("rival", !network.rivals.is_empty()),
        ("changes", !network.changes.is_empty()),
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
