//! What the results database keeps of a run.

use std::time::{Duration, Instant};

use treecast_lab::{Role, Topology};
use treecast_measure::{
    Db, DbError, analysis,
    db::{self, Event, Machine, NewRun, NodeId, NodeInfo, Row, RunEnd, RunId, Status},
    sample::{NodeSource, Recorder, SampleError},
};

use crate::{
    carried::{self, Carried},
    client::Fared,
    filing::Filing,
    session::Played,
};

/// The measures of every run, with their units.
pub const MEASURES: &[(&str, &str)] = &[
    ("duration", "s"),
    ("network_bytes", "B"),
    ("sender_bytes", "B"),
    ("machine_busy", ""),
    ("machine_forwarding", ""),
    ("refused", ""),
];

/// The measures of each client that gets files, with their units.
pub const MEASURES_OF_FILES: &[(&str, &str)] = &[
    ("time", "s"),
    ("stopped_time", "s"),
    ("received", "B"),
    ("retransmitted", "B"),
    ("duplicate", "B"),
    ("dropped", "packets"),
    ("missing", ""),
    ("attempts", ""),
    ("silence", "s"),
    ("processor", "s"),
    ("memory", "B"),
];

/// A run's place in the database.
pub struct Record {
    run: RunId,
    pub origin: Instant,
    /// In the topology's order.
    nodes: Vec<(String, NodeId)>,
    machine: NodeId,
    /// How long was waited in vain for the machine to calm down.
    unsettled: Option<Duration>,
}

impl Record {
    /// Enters a run and its nodes. The run's clock starts here. With `unsettled`, the machine was still busy
    /// after that time, and the run is marked as saturated.
    pub fn begin(
        db: &mut Db,
        run: &NewRun,
        topology: &Topology,
        unsettled: Option<Duration>,
    ) -> Result<Self, DbError> {
        let origin = Instant::now();
        let run = db.begin(run)?;
        let machine = db.add_node(run, &NodeInfo { name: "machine".into(), role: db::Role::Machine })?;
        let mut nodes = Vec::new();
        for node in &topology.nodes {
            let role = match node.role {
                Role::Server => db::Role::Server,
                Role::Client => db::Role::Client,
                Role::Router => db::Role::Router,
            };
            let id = db.add_node(run, &NodeInfo { name: node.name.clone(), role })?;
            nodes.push((node.name.clone(), id));
        }
        Ok(Self { run, origin, nodes, machine, unsettled })
    }

    pub fn run(&self) -> RunId {
        self.run
    }

    /// The node of this name; the machine where there is none.
    pub fn node(&self, name: &str) -> NodeId {
        self.nodes.iter().find(|(known, _)| known == name).map_or(self.machine, |(_, id)| *id)
    }

    /// The node at this index of the topology.
    pub fn node_at(&self, index: usize) -> NodeId {
        self.nodes.get(index).map_or(self.machine, |(_, id)| *id)
    }

    /// Starts sampling all nodes, `every` so often. `sources` are in the topology's order.
    pub fn recorder(
        &self,
        db: &Db,
        every: Duration,
        sources: Vec<NodeSource>,
    ) -> Result<Recorder, SampleError> {
        let sources = self.nodes.iter().map(|(_, id)| *id).zip(sources).collect();
        Recorder::start(db.path(), self.origin, every, sources, Some(self.machine))
    }

    /// Notes that something happened, at a node or to the whole run.
    pub fn event(
        &self,
        db: &mut Db,
        at: Duration,
        node: Option<&str>,
        kind: &str,
        detail: &str,
    ) -> Result<(), DbError> {
        let node = node.map(|name| self.node(name));
        db.add_event(self.run, &Event { at, node, kind: kind.into(), detail: detail.into() })
    }

    /// Files how a client fared as soon as it is known, so that a killed experiment keeps it. The copy is
    /// not checked yet.
    pub fn client_done(&self, db: &mut Db, client: &str, fared: &Fared) -> Result<(), DbError> {
        if let Some(at) = fared.started {
            self.event(db, at, Some(client), "started", "")?;
        }
        for (at, reason) in &fared.earlier {
            self.event(db, *at, Some(client), "again", reason)?;
        }
        match (&fared.failure, fared.finished) {
            (Some(reason), _) => self.event(db, self.origin.elapsed(), Some(client), "failed", reason),
            (None, Some(at)) => self.event(db, at, Some(client), "finished", ""),
            (None, None) => Ok(()),
        }
    }

    /// Files rows and series.
    pub fn file(&self, db: &mut Db, filing: Filing) -> Result<(), DbError> {
        let rows: Vec<Row> = filing
            .rows
            .into_iter()
            .map(|(node, row)| Row { node: node.map(|name| self.node(&name)), ..row })
            .collect();
        db.add_rows(self.run, &rows)?;
        for series in filing.series {
            db.add_series(self.machine, &series.measure, series.unit, &series.points)?;
        }
        Ok(())
    }

    /// Files what links carried, and how busy the machine was. `watched` are links whose load is kept over time.
    pub fn file_carried(&self, db: &mut Db, carried: &Carried, watched: &[String]) -> Result<(), DbError> {
        let cpus = Machine::here("").cpus;
        let (busy, forwarding) = carried::machine(db, self.machine, cpus)?;
        let mut rows = carried.rows();
        rows.push(Row::of_run("machine_busy", busy, ""));
        rows.push(Row::of_run("machine_forwarding", forwarding, ""));
        db.add_rows(self.run, &rows)?;
        db.add_series(self.machine, "network_rate", "B/s", &carried.network_over_time())?;
        db.add_series(self.machine, "sender_rate", "B/s", &carried.sender_over_time())?;
        for link in watched {
            db.add_series(self.machine, &format!("link_rate {link}"), "B/s", &carried.link(link))?;
        }
        Ok(())
    }

    /// Ends the run. Returns why this machine, and not the network, was its limit.
    pub fn close(&self, db: &mut Db, interrupted: bool) -> Result<Option<String>, DbError> {
        let duration = self.origin.elapsed();
        let saturated = self.saturation(db)?;
        let status = if interrupted { Status::CutShort } else { Status::Complete };
        db.finish_run(self.run, &RunEnd { status, duration, saturated: saturated.clone() })?;
        Ok(saturated)
    }

    fn saturation(&self, db: &Db) -> Result<Option<String>, DbError> {
        let found = analysis::saturation(db, self.run)?;
        let unsettled = self.unsettled.map(still_busy);
        Ok(unsettled.into_iter().chain(found).reduce(|one, other| format!("{one}; {other}")))
    }
}

fn still_busy(waited: Duration) -> String {
    format!("it was still busy with something else after {waited:.0?} of waiting before the run")
}

/// What is filed of clients that get files of so many bytes. `stopped` is the number of a client that stood still.
pub fn of_clients(receivers: &[String], played: &Played, size_bytes: u64, stopped: Option<usize>) -> Filing {
    let mut filing = Filing::default();
    for (index, (name, fared)) in receivers.iter().zip(&played.clients).enumerate() {
        let time = if stopped == Some(index) { "stopped_time" } else { "time" };
        match (fared.run_seconds(), &fared.failure) {
            (Some(seconds), _) => filing.node(name, time, seconds, "s"),
            (None, why) => {
                let why = why.as_deref().unwrap_or("it never finished");
                filing.lacking(Some(name), time, "s", &format!("{name}: {why}"));
            }
        }
        let is_whole = fared.failure.is_none() && !fared.is_cut_short;
        let received = match is_whole {
            true if fared.objects.is_empty() => size_bytes,
            true => fared.objects.iter().map(|object| object.size_bytes).sum(),
            false => fared.told.received_bytes,
        };
        let told = &fared.told;
        let missing = 1.0 - (received as f64 / size_bytes.max(1) as f64).min(1.0);
        filing.node(name, "missing", if is_whole { 0.0 } else { missing }, "");
        filing.node(name, "received", received as f64, "B");
        filing.node(name, "retransmitted", told.retransmitted_bytes as f64, "B");
        filing.node(name, "duplicate", told.duplicate_bytes as f64, "B");
        filing.node(name, "dropped", told.dropped_packets as f64, "packets");
        filing.node(name, "attempts", f64::from(fared.attempts), "");
        let processor = fared.ended.cpu_user + fared.ended.cpu_system;
        filing.node(name, "processor", processor.as_secs_f64(), "s");
        filing.node(name, "memory", fared.ended.peak_memory_bytes as f64, "B");
    }
    for (name, silence) in receivers.iter().zip(&played.silences) {
        filing.node(name, "silence", silence.as_secs_f64(), "s");
    }
    filing
}

/// What is filed of a run that the program refused to make, in its own words.
pub fn of_refused(receivers: &[String], reason: &str) -> Filing {
    let mut filing = Filing::default();
    receivers.iter().for_each(|name| filing.lacking(Some(name), "time", "s", reason));
    let refused = Row { note: reason.to_owned(), ..Row::of_run("refused", 1.0, "") };
    filing.rows.push((None, refused));
    filing
}

/// What is filed of the server of a session.
pub fn of_server(name: &str, played: &Played) -> Filing {
    let used = &played.server_used;
    let mut filing = Filing::default();
    filing.node(name, "processor", (used.cpu_user + used.cpu_system).as_secs_f64(), "s");
    filing.node(name, "memory", used.peak_memory_bytes as f64, "B");
    filing
}
