//! Refuses by name what the simulator does not have.

use treecast_lab::{Routing, events::Fault};

use crate::{
    Error,
    document::{
        Experiment,
        delivery::{Delivery, Fanout, Program, Repair},
        network::{Multicast, Network},
        workload::{SendRate, Workload},
    },
    plan::{self, Plan, Planned, Work},
};

fn refused(what: String) -> Error {
    Error::NotSimulated { what }
}

/// Refuses an experiment whose workload or networks the simulator does not have.
pub fn check(experiment: &Experiment) -> Result<(), Error> {
    if matches!(experiment.workload, Workload::Load(_) | Workload::Multihoming(_)) {
        let kind = experiment.workload.word();
        return Err(refused(format!(
            "the simulator delivers files, feeds, streams and flows on a shared link, and not the workload `{kind}`: \
             take `treecast lab run`"
        )));
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
    for run in &plan.runs {
        let network = &experiment.networks[run.network];
        let topology = &plan.networks[run.network].topology;
        let rate = plan::rate(experiment, network, run.delivery, topology);
        let name = &run.delivery.name;
        if !topology.bgp.is_empty() {
            return Err(refused(format!(
                "network {}: the simulator has no BGP: take `treecast lab run`",
                network.name
            )));
        }
        let of_rate = match run.work {
            // A stream has the rate of its workload. On a shared link, congestion control finds it.
            Work::Stream(_) | Work::Shared(..) => Ok(()),
            _ => of_rate(run.delivery, &rate),
        };
        of_rate.map_err(|what| {
            let advice = "name one rate, such as 5M, or take `treecast lab run`";
            refused(format!("delivery `{name}`: the simulator has {what}: {advice}"))
        })?;
        let in_workload = match run.work {
            Work::Shared(..) => super::shared::scenario(experiment, plan, run).map(drop),
            _ => of_delivery(run.delivery).and_then(|()| of_work(run)),
        };
        in_workload.map_err(|what| {
            let advice = "leave the delivery out (--set deliveries=...), or take `treecast lab run`";
            refused(format!("delivery `{name}`: the simulator has {what}: {advice}"))
        })?;
        if network.crowd.is_some() {
            super::crowd::check(network, run.delivery, &plan.networks[run.network])
                .map_err(|what| refused(format!("network {}: {what}", network.name)))?;
        }
    }
    Ok(())
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

/// Refuses what the simulator cannot deliver in this way. As `treecast send --retx-factor` does, it refuses a feed with a
/// repair that bounds no retransmissions.
fn of_work(run: &Planned) -> Result<(), String> {
    match (&run.work, run.delivery.repair) {
        (Work::Feed(_), None | Some(Repair::Nack | Repair::After)) => Ok(()),
        (Work::Feed(_), Some(_)) => Err("only feeds with repair nack or after".into()),
        (Work::Stream(stream), _) => super::stream::check(run, stream),
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
