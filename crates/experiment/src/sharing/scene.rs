//! From an experiment's run to a contest, and from what became of it to what the results database keeps.

use std::{
    io,
    sync::OnceLock,
    time::{Duration, Instant},
};

use treecast_measure::{
    db::{FlowInfo, InterfaceInfo, SharingInfo},
    sample::Recorder,
};

use super::{Contest, Flow, Outcome, RivalKind, SharedPath, Sharing, connection::Connection};
use crate::{
    cargo::Cargo,
    delivery::Delivery,
    file::Network as Description,
    plan::Planned,
    record::Record,
    run::Cast,
    stage::{Party, Stage},
    store::Store,
};

/// A run in which flows share a link, before it begins.
pub struct Scene<'a> {
    pub stage: &'a Stage,
    pub planned: &'a Planned,
    pub sharing: &'a Sharing,
    pub path: &'a SharedPath,
    pub description: &'a Description,
    pub cargo: &'a Cargo,
    pub store: &'a Store,
    pub record: &'a Record,
    pub timeout: Duration,
}

impl Scene<'_> {
    /// Plays the run; `stop` ends it early.
    pub fn play(&self, recorder: &Recorder, stop: &dyn Fn() -> bool) -> io::Result<Outcome> {
        let begun = [OnceLock::new(), OnceLock::new()];
        let [first_begun, rival_begun] = &begun;
        let first = match self.planned.delivery {
            Delivery::Tcp => self.connection(&self.stage.main, first_begun)?,
            _ => self.session(&self.stage.main, recorder, first_begun),
        };
        let rival = self.description.rival.as_ref().zip(self.stage.rival.as_ref());
        let rival = rival.map(|(rival, party)| {
            let flow = match rival.kind {
                RivalKind::Tcp => self.connection(party, rival_begun)?,
                RivalKind::Session => self.session(party, recorder, rival_begun),
            };
            Ok::<_, io::Error>((flow, rival.after.map_or(Duration::ZERO, |after| after.0)))
        });
        let contest = Contest {
            stage: self.stage,
            sharing: self.sharing,
            path: self.path,
            changes: &self.description.changes,
            origin: self.origin(),
            first,
            rival: rival.transpose()?,
            begun: &begun,
        };
        contest.play(stop)
    }

    fn origin(&self) -> Instant {
        self.record.origin
    }

    fn connection<'s>(&'s self, party: &'s Party, begun: &'s OnceLock<Duration>) -> io::Result<Flow<'s>> {
        let to = party.clients.first().ok_or_else(|| io::Error::other("nobody is there to send to"))?;
        Ok(Flow::Tcp(Connection {
            stage: self.stage,
            from: &party.server,
            to: &to.name,
            address: to.attachment.address,
            congestion: &self.sharing.congestion,
            origin: self.origin(),
            begun,
        }))
    }

    fn session<'s>(
        &'s self,
        party: &'s Party,
        recorder: &'s Recorder,
        begun: &'s OnceLock<Duration>,
    ) -> Flow<'s> {
        let topology = &self.stage.topology;
        Flow::Session(Box::new(Cast {
            stage: self.stage,
            party,
            planned: self.planned,
            cargo: self.cargo,
            store: self.store,
            waits: Vec::new(),
            origin: self.origin(),
            timeout: self.timeout,
            recorder,
            server_node: self.record.node(topology, &party.server),
            client_nodes: party
                .clients
                .iter()
                .map(|client| self.record.node(topology, &client.name))
                .collect(),
            stopped: None,
            begun: Some(begun),
        }))
    }

    /// What the results database is told: where to look before the run, and when afterwards.
    pub fn info(&self, outcome: Option<&Outcome>) -> SharingInfo {
        let rates = match outcome {
            Some(outcome) => outcome.rates.iter().map(|(at, bps)| (at.as_secs_f64(), *bps)).collect(),
            None => vec![(0.0, self.path.quality.rate_bps.unwrap_or_default())],
        };
        let together = outcome.and_then(|outcome| outcome.together);
        let parties = [Some(&self.stage.main), self.stage.rival.as_ref()];
        let flows = parties.into_iter().flatten().zip(&self.path.flows).enumerate();
        SharingInfo {
            flows: flows.map(|(index, (party, counted_at))| self.flow(index, party, counted_at)).collect(),
            queue: self.interface(&self.path.ends[0]),
            queue_bytes: self.path.quality.queue_bytes(),
            round_trip_ms: self.path.round_trip.as_secs_f64() * 1e3,
            rates,
            together: together.map(|(from, to)| (from.as_secs_f64(), to.as_secs_f64())),
        }
    }

    fn flow(&self, index: usize, party: &Party, counted_at: &(usize, String)) -> FlowInfo {
        let kind = self.description.rival.as_ref().map(|rival| rival.kind).filter(|_| index > 0);
        let is_tcp = kind.map_or(self.planned.delivery == Delivery::Tcp, |kind| kind == RivalKind::Tcp);
        let name = match is_tcp {
            true => format!("tcp {}", self.sharing.congestion),
            false => format!("{} {}", self.planned.delivery.name(), party.programs.rate),
        };
        let count = if is_tcp { 1 } else { party.clients.len() };
        FlowInfo {
            name,
            counted_at: self.interface(counted_at),
            receivers: party.clients.iter().take(count).map(|client| client.name.clone()).collect(),
        }
    }

    fn interface(&self, (node, interface): &(usize, String)) -> InterfaceInfo {
        let label = self.stage.label(*node, interface);
        InterfaceInfo { node: self.stage.topology.nodes[*node].name.clone(), label }
    }
}
