//! The workload `multihoming`: a stub with two providers, whose access link is cut during a TCP transfer
//! (interdomain-2013, chapter 6).
//!
//! With MAST, the stub's systems run as they would anywhere: `treecast mast srms` and `router` at its border router, `dhcp` and
//! `dns` at a server, `host` at its hosts, and `tms` at its providers. Without, the stub has a prefix of its own, and BGP alone
//! finds another way. Meanwhile, new connections are opened in both directions all the time: they show which addresses are used.

mod forge;
mod keys;
mod measures;
mod plan;
mod play;
mod probes;
mod run;
mod systems;
mod tables;
mod transfer;

use std::{sync::Arc, time::Duration};

use self::{
    keys::{Multihoming, MultihomingKeys},
    plan::PlannedMultihoming,
};
use crate::{
    Error, Kind, Network, Units, Work, Workload,
    document::{
        delivery::{Delivery, Program},
        network::Facts,
        rate::SendRate,
    },
    engine::runner::{Runner, Stage},
    plan::{Group, Planned, Scope, Wanted},
    read,
    schedule::Schedule,
    site::Need,
};

pub const KIND: Kind =
    Kind { word: "multihoming", read: |keys| read(keys, |keys: MultihomingKeys, _| keys.complete()) };

impl Workload for Multihoming {
    fn word(&self) -> &'static str {
        KIND.word
    }

    fn measures(&self) -> Units {
        measures::MEASURES
    }

    fn works<'w>(&'w self, at: &'w Scope) -> Result<Vec<Wanted<'w>>, Error> {
        let planned = PlannedMultihoming::of(self, &at.at.topology).map_err(|what| at.refused(what))?;
        Ok(Wanted::repeated([Arc::new(planned) as Arc<dyn Work>], at.experiment))
    }

    fn check(&self, delivery: &Delivery, _: Option<&SendRate>) -> Result<(), String> {
        match (delivery.program, delivery.events.is_empty()) {
            (Program::Tcp, true) => Ok(()),
            (Program::Tcp, false) => Err("the workload says when a link is cut: leave out events".into()),
            _ => Err("a stub's hosts have a connection of tcp".into()),
        }
    }

    fn usual_delivery(&self) -> Option<Delivery> {
        Delivery::known(Program::Tcp.word())
    }

    fn is_simulated(&self) -> bool {
        false
    }
}

impl Work for PlannedMultihoming {
    fn words(&self, delivery: &str, _: Schedule) -> String {
        format!("{}, {delivery}", self.words())
    }

    fn parameters(&self, _: &Network, set: &mut dyn FnMut(&str, String)) {
        self.parameters(set);
    }

    fn groups(&self) -> Option<Vec<Group>> {
        Some(vec![Group { sender: self.outside.clone(), receivers: vec![self.inside.clone()] }])
    }

    fn needs(&self, _: &Network) -> Vec<Need> {
        vec![Need::Sockets, Need::Events, Need::Bgp, Need::Files]
    }

    fn transfer(&self, _: &Planned, _: &Facts) -> Duration {
        self.duration()
    }

    fn play(&self, runner: &mut Runner, stage: &Stage) -> Result<(), Error> {
        run::play(runner, stage, self)
    }
}
