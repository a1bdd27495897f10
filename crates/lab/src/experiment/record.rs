//! What the results database keeps of a run.

use std::time::{Duration, Instant};

use treecast_measure::{
    Db, DbError, analysis,
    db::{self, Event, NodeId, NodeInfo, RunEnd, RunId, RunInfo, Status, Transfer},
    sample::{NodeSource, Recorder, SampleError},
};

use super::{client::Fared, run::Played};
use crate::topology::{Role, Topology};

/// A run's place in the database.
pub struct Record {
    run: RunId,
    pub origin: Instant,
    pub server: NodeId,
    pub clients: Vec<NodeId>,
    nodes: Vec<NodeId>,
    machine: NodeId,
}

impl Record {
    /// Enters a run and its nodes. The run's clock starts here.
    pub fn begin(db: &mut Db, info: &RunInfo, topology: &Topology) -> Result<Self, DbError> {
        let origin = Instant::now();
        let run = db.begin_run(info)?;
        let machine = NodeInfo { name: "machine".into(), role: db::Role::Machine };
        let machine = db.add_node(run, &machine)?;
        let mut record =
            Self { run, origin, server: machine, clients: Vec::new(), nodes: Vec::new(), machine };
        for node in &topology.nodes {
            record.add_node(db, &node.name, node.role)?;
        }
        Ok(record)
    }

    fn add_node(&mut self, db: &mut Db, name: &str, role: Role) -> Result<(), DbError> {
        let role = match role {
            Role::Server => db::Role::Server,
            Role::Client => db::Role::Client,
            Role::Router => db::Role::Router,
        };
        let id = db.add_node(self.run, &NodeInfo { name: name.into(), role })?;
        self.nodes.push(id);
        match role {
            db::Role::Server if self.server == self.machine => self.server = id,
            db::Role::Client => self.clients.push(id),
            _ => {}
        }
        Ok(())
    }

    /// Starts sampling all nodes, `every` so often.
    pub fn recorder(
        &self,
        db: &Db,
        every: Duration,
        sources: Vec<NodeSource>,
    ) -> Result<Recorder, SampleError> {
        let sources = self.nodes.iter().copied().zip(sources).collect();
        Recorder::start(db.path(), self.origin, every, sources, Some(self.machine))
    }

    /// Files how a client fared as soon as it is known, so that a killed experiment keeps it. The copy is
    /// not checked yet.
    pub fn client_done(&self, db: &mut Db, client: usize, fared: &Fared) -> Result<(), DbError> {
        let node = self.clients.get(client).copied();
        let mut add = |at: Option<Duration>, kind: &str, detail: &str| match at {
            Some(at) => {
                let event = Event { at, node, kind: kind.into(), detail: detail.into() };
                db.add_event(self.run, &event)
            }
            None => Ok(()),
        };
        add(fared.started, "started", "")?;
        for (at, reason) in &fared.earlier {
            add(Some(*at), "again", reason)?;
        }
        match &fared.failure {
            Some(reason) => add(Some(self.origin.elapsed()), "failed", reason),
            None => add(fared.finished, "finished", ""),
        }
    }

    /// Files how the run went. Returns why this machine, and not the network, was its limit.
    pub fn finish(&self, db: &mut Db, played: &Played, size_bytes: u64) -> Result<Option<String>, DbError> {
        let duration = self.origin.elapsed();
        for (&node, fared) in self.clients.iter().zip(&played.clients) {
            db.add_transfer(node, &transfer(fared, size_bytes, duration))?;
        }
        for (at, kind, detail) in server_events(played) {
            let event = Event { at, node: Some(self.server), kind: kind.into(), detail };
            db.add_event(self.run, &event)?;
        }
        let saturated = self.saturation(db)?;
        let status = if played.interrupted { Status::CutShort } else { Status::Complete };
        db.finish_run(self.run, &RunEnd { status, duration, saturated: saturated.clone() })?;
        Ok(saturated)
    }

    fn saturation(&self, db: &Db) -> Result<Option<String>, DbError> {
        let results = analysis::Results::load(db, &[self.run])?;
        match results.runs.first() {
            Some(data) => results.saturation(data),
            None => Ok(None),
        }
    }
}

fn server_events(played: &Played) -> Vec<(Duration, &'static str, String)> {
    let end = played.clients_start + played.duration;
    let mut events = vec![(played.clients_start, "ready", String::new())];
    events.extend(played.server_failure.clone().map(|reason| (end, "failed", reason)));
    events.extend(played.server_output.clone().map(|said| (end, "done", said)));
    events
}

/// `end` is the end of the run, from which on a client that never started is not active.
fn transfer(fared: &Fared, size_bytes: u64, end: Duration) -> Transfer {
    let verified = fared.failure.is_none();
    Transfer {
        started: fared.started.unwrap_or(end),
        finished: fared.finished,
        received_bytes: if verified { size_bytes } else { fared.told.received_bytes },
        verified,
        failure: fared.failure.clone(),
        retransmitted_bytes: fared.told.retransmitted_bytes,
        duplicate_bytes: fared.told.duplicate_bytes,
        dropped_packets: fared.told.dropped_packets,
        cpu_user: fared.ended.cpu_user,
        cpu_system: fared.ended.cpu_system,
        peak_memory_bytes: fared.ended.peak_memory_bytes,
    }
}
