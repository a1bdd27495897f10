//! Checks what a run needs of the place where it is made, and of the routers there.

use std::collections::BTreeSet;

use treecast_lab::{Topology, Trees};

use crate::{
    Error,
    document::{
        Experiment,
        delivery::{Delivery, Fanout},
        network::Network,
    },
    plan::Planned,
    site::{Need, Routers, Site},
};

/// Returns what the routers of a network run during a run, and which of them speak MEADcast and Xcast.
pub fn routers(
    experiment: &Experiment,
    planned: &Planned,
    topology: &Topology,
) -> Result<(Routers, Option<BTreeSet<String>>), String> {
    let network = &experiment.networks[planned.network];
    let any = |wanted: fn(&Delivery) -> bool| {
        experiment.deliveries.iter().filter(|delivery| network.runs(&delivery.name)).any(wanted)
    };
    let delivery = planned.delivery;
    let xcast_plus = any(|delivery| delivery.fanout == Fanout::XcastPlus);
    let routers = Routers {
        // Each passes the other's joins on, as if its own routers were listeners.
        multicast: if xcast_plus { delivery.is_multicast() } else { any(Delivery::is_multicast) },
        trees: match experiment.workload.trees() {
            Some(trees) => trees,
            // Members send to their local groups. A shared tree would lead that past the sender.
            None if any(Delivery::is_local) => Trees::OfEachSource,
            None => Trees::Shared,
        },
        explicit: any(Delivery::is_explicit),
        designated: any(|delivery| delivery.options.designated),
        xcast_plus,
        key: delivery.options.key,
    };
    // Routers of Xcast+ would make Xcast of what a source multicasts.
    let support = match delivery.fanout == Fanout::Multicast && xcast_plus {
        true => Some(BTreeSet::new()),
        false => delivery.support.routers(topology)?,
    };
    Ok((routers, support))
}

/// Refuses a run that needs what the place lacks.
pub fn check(site: &dyn Site, network: &Network, planned: &Planned) -> Result<(), Error> {
    match needs(network, planned).into_iter().find(|need| !site.can(*need)) {
        None => Ok(()),
        Some(need) => {
            Err(Error::Lacking { run: planned.name.clone(), place: "here".into(), needs: need.to_string() })
        }
    }
}

fn needs(network: &Network, planned: &Planned) -> Vec<Need> {
    let delivery = planned.delivery;
    let events = !delivery.events.is_empty();
    let of_delivery = [
        (Need::Routers, delivery.is_explicit() || delivery.is_multicast()),
        (Need::Sockets, events),
        (Need::Events, events),
        (Need::Files, !delivery.local.groups.is_empty()),
    ];
    let of_delivery = of_delivery.into_iter().filter(|(_, is_needed)| *is_needed).map(|(need, _)| need);
    of_delivery.chain(planned.work.needs(network)).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::{plan::Plan, site::tests::Bare};

    #[test]
    fn a_run_is_refused_where_its_site_lacks_what_it_needs() {
        let refused = |fanout: &str| {
            let text = format!(
                "title = \"x\"\nnetwork = [{{ name = \"A\", topology = \"lan:clients=3\" }}]\n\
                 workload = {{ kind = \"stream\", rates = [\"1M\"], seconds = 1, payload = 1000 }}\n\
                 delivery = [{{ fanout = \"{fanout}\" }}]"
            );
            let experiment = Experiment::parse(&text, "x", Path::new("."), &[]).unwrap();
            let plan = Plan::new(&experiment, "lab", 1 << 30).unwrap();
            let site = Bare(plan.networks[0].topology.clone());
            check(&site, &experiment.networks[0], &plan.runs[0]).err().map(|error| error.to_string())
        };
        assert_eq!(refused("unicast"), None);
        let expected = "A 1M, multicast #1 cannot be made here: it needs routers that run treecast, which are not there: leave its \
                        delivery out (--set deliveries=...)";
        assert_eq!(refused("multicast").as_deref(), Some(expected));
    }
}
