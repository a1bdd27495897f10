//! What the results database keeps of a run.

use std::time::{Duration, Instant};

use treecast_measure::{
    Db, DbError, analysis,
    analysis::SharedLink,
    db::{self, Event, FeedInfo, NodeId, NodeInfo, RunEnd, RunId, RunInfo, SharingInfo, Status, Transfer},
    sample::{NodeSource, Recorder, SampleError},
    series::{self, Counter},
};

use super::{client::Fared, run::Played};
use treecast_lab::{Role, Topology};

/// A run's place in the database.
pub struct Record {
    run: RunId,
    pub origin: Instant,
    pub server: NodeId,
    pub clients: Vec<NodeId>,
    nodes: Vec<NodeId>,
    machine: NodeId,
    /// How long was waited in vain for the machine to calm down.
    unsettled: Option<Duration>,
}

impl Record {
    /// Enters a run and its nodes. The run's clock starts here. With `unsettled`, the machine was still busy
    /// after that time, and the run is marked as saturated.
    pub fn begin(
        db: &mut Db,
        info: &RunInfo,
        topology: &Topology,
        unsettled: Option<Duration>,
        is_client: impl Fn(&str) -> bool,
    ) -> Result<Self, DbError> {
        let origin = Instant::now();
        let run = db.begin_run(info)?;
        let machine = NodeInfo { name: "machine".into(), role: db::Role::Machine };
        let machine = db.add_node(run, &machine)?;
        let mut record =
            Self { run, origin, server: machine, clients: Vec::new(), nodes: Vec::new(), machine, unsettled };
        for node in &topology.nodes {
            record.add_node(db, &node.name, node.role, is_client(&node.name))?;
        }
        Ok(record)
    }

    /// Says that the run is a feed's.
    pub fn feed(&self, db: &mut Db, feed: &FeedInfo) -> Result<(), DbError> {
        db.add_feed(self.run, feed)
    }

    /// Says how flows share a link in the run.
    pub fn sharing(&self, db: &mut Db, sharing: &SharingInfo) -> Result<(), DbError> {
        db.set_sharing(self.run, sharing)
    }

    /// How they shared it; none when it is not known yet.
    pub fn shared_link(&self, db: &Db) -> Result<Option<SharedLink>, DbError> {
        let mut results = analysis::Results::load(db, &[self.run])?;
        Ok(results.sharings.pop().and_then(|run| run.measured))
    }

    /// The node of this name.
    pub fn node(&self, topology: &Topology, name: &str) -> NodeId {
        let index = topology.nodes.iter().position(|node| node.name == name);
        index.map_or(self.machine, |index| self.nodes[index])
    }

    fn add_node(&mut self, db: &mut Db, name: &str, role: Role, is_client: bool) -> Result<(), DbError> {
        let role = match role {
            Role::Server => db::Role::Server,
            Role::Client => db::Role::Client,
            Role::Router => db::Role::Router,
        };
        let id = db.add_node(self.run, &NodeInfo { name: name.into(), role })?;
        self.nodes.push(id);
        match role {
            db::Role::Server if self.server == self.machine => self.server = id,
            db::Role::Client if is_client => self.clients.push(id),
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
            db.add_objects(node, &fared.objects)?;
            db.add_transfer(node, &transfer(fared, size_bytes, duration))?;
        }
        for (at, kind, detail) in server_events(played) {
            let event = Event { at, node: Some(self.server), kind: kind.into(), detail };
            db.add_event(self.run, &event)?;
        }
        self.close(db, played.interrupted)
    }

    /// The run itself, and the machine that it is on.
    pub fn run(&self) -> (RunId, NodeId) {
        (self.run, self.machine)
    }

    /// Ends a run whose transfers have been filed. Returns why this machine, and not the network, was its limit.
    pub fn close(&self, db: &mut Db, interrupted: bool) -> Result<Option<String>, DbError> {
        let duration = self.origin.elapsed();
        let saturated = self.saturation(db)?;
        let status = if interrupted { Status::CutShort } else { Status::Complete };
        db.finish_run(self.run, &RunEnd { status, duration, saturated: saturated.clone() })?;
        Ok(saturated)
    }

    /// Bytes that have left the server by all of its interfaces, between its first sample and its last.
    pub fn server_sent_bytes(&self, db: &Db) -> Result<Option<u64>, DbError> {
        let mut sent = None;
        for name in db.series_names(self.server)? {
            if !matches!(series::parse_interface(&name), Some((_, Counter::TxBytes))) {
                continue;
            }
            let samples = db.samples(self.server, &name)?;
            if let Some(((_, first), (_, last))) = samples.first().zip(samples.last()) {
                *sent.get_or_insert(0) += last.saturating_sub(*first).max(0) as u64;
            }
        }
        Ok(sent)
    }

    fn saturation(&self, db: &Db) -> Result<Option<String>, DbError> {
        let results = analysis::Results::load(db, &[self.run])?;
        let found = results
            .runs
            .first()
            .or(results.feeds.first().map(|run| &run.data))
            .or(results.sharings.first().map(|run| &run.data))
            .or(results.use_cases.first().map(|run| &run.data))
            .map_or(Ok(None), |data| results.saturation(data))?;
        let unsettled = self.unsettled.map(still_busy);
        Ok(unsettled.into_iter().chain(found).reduce(|one, other| format!("{one}; {other}")))
    }
}

fn still_busy(waited: Duration) -> String {
    format!("it was still busy with something else after {waited:.0?} of waiting before the run")
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
    let verified = fared.failure.is_none() && !fared.is_cut_short;
    Transfer {
        started: fared.started.unwrap_or(end),
        finished: fared.finished,
        received_bytes: if !fared.objects.is_empty() {
            fared.objects.iter().map(|object| object.size_bytes).sum()
        } else if verified {
            size_bytes
        } else {
            fared.told.received_bytes
        },
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

#[cfg(test)]
mod tests {
    use treecast_measure::db::Machine;

    use super::*;

    #[test]
    fn a_run_on_a_machine_that_never_calmed_down_is_marked() {
        let path = std::env::temp_dir().join(format!("treecast-record-{}.sqlite", std::process::id()));
        let mut db = Db::open(&path).unwrap();
        let topology = Topology::parse("lan:clients=1").unwrap();
        let info = RunInfo {
            experiment: "test".into(),
            topology: "lan".into(),
            clients: 1,
            router_levels: 0,
            link_bps: None,
            server_bps: None,
            delivery: "nack".into(),
            schedule: "immediate".into(),
            size_bytes: 1,
            repeat: 0,
            seed: 1,
            command: "treecast lab run".into(),
            machine: Machine::here("0"),
        };
        for (unsettled, why) in [(None, None), (Some(Duration::from_secs(3)), Some("after 3s of waiting"))] {
            let record = Record::begin(&mut db, &info, &topology, unsettled, |_| true).unwrap();
            let played = Played {
                clients: Vec::new(),
                clients_start: Duration::ZERO,
                duration: Duration::ZERO,
                interrupted: false,
                server_output: None,
                server_failure: None,
            };
            let saturated = record.finish(&mut db, &played, 1).unwrap();
            assert_eq!(saturated.is_some(), why.is_some());
            assert!(
                why.is_none_or(|why| saturated.as_ref().is_some_and(|said| said.contains(why))),
                "{saturated:?}"
            );
            assert_eq!(db.runs().unwrap().last().unwrap().saturated, saturated);
        }
        drop(db);
        std::fs::remove_file(&path).unwrap();
    }
}
