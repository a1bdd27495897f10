//! Writes a run into the results database.

use std::time::{Duration, Instant};

use treecast_lab::{Role, Topology};
use treecast_measure::{
    Db, DbError,
    db::{self, Event, Machine, NewRun, NodeId, NodeInfo, Row, RunEnd, RunId, Status},
    sample::{NodeSource, Recorder, SampleError},
    saturation, series,
};

use crate::filing::Filing;

/// The measures of every run, with their units.
pub const MEASURES: &[(&str, &str)] = &[
    ("duration", "s"),
    ("network_bytes", "B"),
    ("sender_bytes", "B"),
    ("link_bytes", "B"),
    ("machine_busy", ""),
    ("machine_forwarding", ""),
    ("refused", ""),
];

/// The name of a link among the nodes of a run. No node has a space in its name.
pub fn name_of_link(link: &str) -> String {
    format!("link {link}")
}

/// A run's entry in the database.
pub struct Record {
    run: RunId,
    pub origin: Instant,
    /// The nodes in the topology's order. Behind them are the links whose load is recorded.
    nodes: Vec<(String, NodeId)>,
    machine: NodeId,
    /// The time that was waited in vain for the machine to calm down.
    unsettled: Option<Duration>,
}

impl Record {
    /// Enters a run with its nodes and its watched links; the run's clock starts now. With `unsettled`, the machine was still busy
    /// after waiting that long, and the run is marked as saturated.
    pub fn begin(
        db: &mut Db,
        run: &NewRun,
        topology: &Topology,
        watched: &[String],
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
        for name in watched.iter().map(|link| name_of_link(link)) {
            let id = db.add_node(run, &NodeInfo { name: name.clone(), role: db::Role::Link })?;
            nodes.push((name, id));
        }
        Ok(Self { run, origin, nodes, machine, unsettled })
    }

    pub fn run(&self) -> RunId {
        self.run
    }

    /// Returns the node of this name, or the machine when there is no such node.
    pub fn node(&self, name: &str) -> NodeId {
        self.nodes.iter().find(|(known, _)| known == name).map_or(self.machine, |(_, id)| *id)
    }

    /// Returns the node at this index of the topology.
    pub fn node_at(&self, index: usize) -> NodeId {
        self.nodes.get(index).map_or(self.machine, |(_, id)| *id)
    }

    /// Starts a recorder that samples all nodes at the interval `every`. `sources` are in the topology's order.
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

    /// Files the rows and series of the run.
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

    /// Returns how busy the machine was: the share of all processors' time that was not idle, and the share
    /// that went into soft interrupts.
    pub fn machine(&self, db: &Db) -> Result<Filing, DbError> {
        let mut filing = Filing::default();
        let idle = db.counted(self.machine, series::CPU_IDLE_NS)?;
        let rates = idle.rates();
        let (mut busy, mut forwarding) = (0.0, 0.0);
        if let (Some(first), Some(last)) = (rates.first(), rates.last()) {
            let cpus = f64::from(Machine::here("").cpus.max(1));
            let all = (last.to - first.from).as_nanos() as f64 * cpus;
            busy = 1.0 - idle.growth() as f64 / all;
            forwarding = db.counted(self.machine, series::CPU_SOFTIRQ_NS)?.growth() as f64 / all;
        }
        filing.run("machine_busy", busy, "");
        filing.run("machine_forwarding", forwarding, "");
        Ok(filing)
    }

    /// Ends the entry of the run. Returns why this machine limited the run and not the network, if it did.
    pub fn close(&self, db: &mut Db, interrupted: bool) -> Result<Option<String>, DbError> {
        let duration = self.origin.elapsed();
        let saturated = self.saturation(db)?;
        let status = if interrupted { Status::CutShort } else { Status::Complete };
        db.finish_run(self.run, &RunEnd { status, duration, saturated: saturated.clone() })?;
        Ok(saturated)
    }

    /// Ends the entry of a run that was simulated, and that took `duration` of virtual time.
    pub fn close_simulated(&self, db: &mut Db, duration: Duration) -> Result<(), DbError> {
        db.finish_run(self.run, &RunEnd { status: Status::Complete, duration, saturated: None })
    }

    fn saturation(&self, db: &Db) -> Result<Option<String>, DbError> {
        let found = saturation(db, self.run)?;
        let unsettled = self.unsettled.map(still_busy);
        Ok(unsettled.into_iter().chain(found).reduce(|one, other| format!("{one}; {other}")))
    }
}

fn still_busy(waited: Duration) -> String {
    format!("it was still busy with something else after {waited:.0?} of waiting before the run")
}
