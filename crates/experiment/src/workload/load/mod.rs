//! The workload `load`: hosts send numbered packets to a group, at a given rate or at rates among which a threshold is
//! searched (congested-multicast-2019, 5).
//!
//! Each host is a process, `treecast load run`, so that its processor time is its own. One try of a rate is a [`play::Trial`]. A run
//! that searches makes several and keeps the one at the threshold.

mod joins;
mod keys;
mod measures;
mod plan;
mod play;
mod run;
mod search;

use std::{sync::Arc, time::Duration};

use treecast_lab::Topology;

use self::{
    keys::{LoadKeys, Loading},
    plan::PlannedLoad,
};
use super::stream::check_stream;
use crate::{
    Error, Kind, Network, Units, Work, Workload,
    document::{
        delivery::{Delivery, Fanout, Repair},
        network::Facts,
        rate::SendRate,
    },
    engine::runner::{Runner, Stage},
    plan::{Group, Planned, Scope, Wanted, path::SharedPath},
    read,
    schedule::Schedule,
    site::Need,
};

pub const KIND: Kind =
    Kind { word: "load", read: |keys| read(keys, |keys: LoadKeys, _| Ok(Load(Arc::new(keys.complete()?)))) };

#[derive(Debug)]
struct Load(Arc<Loading>);

impl Workload for Load {
    fn word(&self) -> &'static str {
        KIND.word
    }

    fn measures(&self) -> Units {
        measures::MEASURES
    }

    fn works<'w>(&'w self, at: &'w Scope) -> Result<Vec<Wanted<'w>>, Error> {
        let all = PlannedLoad::all(&self.0, &at.at.topology).map_err(|what| at.refused(what))?;
        let works = all.into_iter().map(|load| Arc::new(load) as Arc<dyn Work>);
        Ok(Wanted::repeated(works, at.experiment))
    }

    fn check(&self, delivery: &Delivery, _: Option<&SendRate>) -> Result<(), String> {
        check_stream(delivery)?;
        match delivery.fanout {
            Fanout::Multicast => Ok(()),
            fanout => Err(format!("a load is sent by multicast alone, and not by {fanout}")),
        }
    }

    fn usual_delivery(&self) -> Option<Delivery> {
        Some(Delivery { name: "multicast".into(), repair: Some(Repair::None), ..Delivery::default() })
    }

    /// Makes queues drop single packets, as the queues of a switch do.
    fn prepare(&self, _: &Network, topology: &mut Topology) -> Result<Option<SharedPath>, String> {
        topology.members_mut().for_each(|member| member.quality.single_packets = true);
        Ok(None)
    }

    fn searches(&self) -> bool {
        self.0.asks.iter().any(|ask| ask.is_search())
    }

    fn is_simulated(&self) -> bool {
        false
    }
}

impl Work for PlannedLoad {
    fn words(&self, delivery: &str, _: Schedule) -> String {
        format!("{}, {delivery}", self.words())
    }

    fn parameters(&self, network: &Network, set: &mut dyn FnMut(&str, String)) {
        self.parameters(set);
        set("snooping", if network.snooping == Some(false) { "off" } else { "on" }.into());
        set("mld", network.mld.map_or_else(|| "2".into(), |version| version.to_string()));
    }

    fn groups(&self) -> Option<Vec<Group>> {
        Some(vec![self.group_of_hosts()])
    }

    fn needs(&self, network: &Network) -> Vec<Need> {
        let needed = [
            // Further groups are joined by sockets of this process.
            (Need::Sockets, self.memberships > 1),
            (Need::Settings, network.mld.is_some() || network.snooping.is_some()),
        ];
        needed.into_iter().filter(|(_, is_needed)| *is_needed).map(|(need, _)| need).collect()
    }

    fn transfer(&self, _: &Planned, _: &Facts) -> Duration {
        self.duration()
    }

    fn play(&self, runner: &mut Runner, stage: &Stage) -> Result<(), Error> {
        run::play(runner, stage, self)
    }
}
