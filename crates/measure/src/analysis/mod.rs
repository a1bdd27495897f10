//! From the database to the numbers that tables and plots show (librecast-updates-2022, 5 and A.5).
//!
//! Order of calls: [`Results::load`] once, then any of its methods.

mod events;
mod feed;
mod model;
mod rates;
mod routers;
mod run_time;
mod saturation;
mod server;
mod sharing;
mod use_case;

use std::time::Duration;

use crate::{
    db::{Db, FeedInfo, NodeId, NodeInfo, ObjectTime, Result, Role, Run, RunId, Status, Transfer},
    series::{self, Counter},
    tables,
};

pub use events::{EventLine, Levels, event_lines};
pub use feed::{FeedKey, FeedRow, FeedRun, of_receivers};
pub use model::{ModelRow, model_seconds};
pub use rates::{Counted, Rate, RateList};
pub use routers::{RouterColumn, RouterTraffic};
pub use run_time::{RunTime, RunTimeKey};
pub use server::{ActiveClients, ServerBytes};
pub use sharing::{SharedLink, SharingRun};
pub use use_case::{Cell as UseCaseCell, Saved, UseCaseRow, UseCaseRun, cells, use_case_rows};

/// The runs of a report, with all but their samples, which stay in the database until they are asked for.
pub struct Results<'a> {
    db: &'a Db,
    pub runs: Vec<RunData>,
    /// Those of feeds, which no other table or plot is about.
    pub feeds: Vec<FeedRun>,
    /// Those in which flows share a link, likewise.
    pub sharings: Vec<SharingRun>,
    /// Those that repeat a use case of the MEADcast thesis, likewise.
    pub use_cases: Vec<UseCaseRun>,
    /// Runs that are parameters and rows, which the generic part of the report is about.
    pub generic: Vec<RunData>,
}

/// A run with its nodes and how its clients fared.
pub struct RunData {
    pub run: Run,
    pub nodes: Vec<(NodeId, NodeInfo)>,
    pub transfers: Vec<(NodeId, Transfer)>,
}

/// A network with an object of one size: what is compared with each other.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Setting {
    pub topology: String,
    pub size_bytes: u64,
}

impl std::fmt::Display for Setting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}, {}", self.topology, tables::bytes(self.size_bytes))
    }
}

impl<'a> Results<'a> {
    /// Loads `runs`, or all when the list is empty, in the order in which they began.
    pub fn load(db: &'a Db, runs: &[RunId]) -> Result<Self> {
        let wanted = |run: &Run| runs.is_empty() || runs.contains(&run.id);
        let all: Vec<RunData> = db
            .runs()?
            .into_iter()
            .filter(wanted)
            .map(|run| {
                let (nodes, transfers) = (db.nodes(run.id)?, db.transfers(run.id)?);
                Ok(RunData { run, nodes, transfers })
            })
            .collect::<Result<_>>()?;
        let mut results = Self {
            db,
            runs: Vec::new(),
            feeds: Vec::new(),
            sharings: Vec::new(),
            use_cases: Vec::new(),
            generic: Vec::new(),
        };
        for data in all {
            if !db.parameters(data.run.id)?.is_empty() {
                results.generic.push(data);
                continue;
            }
            if let Some(info) = db.sharing(data.run.id)? {
                let run = SharingRun::load(&results, data, info)?;
                results.sharings.push(run);
                continue;
            }
            if let Some(info) = db.use_case(data.run.id)? {
                results.use_cases.push(UseCaseRun { data, info });
                continue;
            }
            match db.feed(data.run.id)? {
                None => results.runs.push(data),
                Some(feed) => {
                    let objects = objects(db, &data, &feed)?;
                    results.feeds.push(FeedRun::new(data, feed, &objects));
                }
            }
        }
        Ok(results)
    }

    /// The complete runs. Those cut short would make every average too small: their slow clients are missing.
    pub fn complete(&self) -> impl Iterator<Item = &RunData> {
        self.runs.iter().filter(|data| data.run.status == Status::Complete)
    }

    /// All runs, those of feeds, shared links and use cases behind the others.
    pub fn all(&self) -> impl Iterator<Item = &RunData> {
        let of_feeds = self.feeds.iter().map(|run| &run.data);
        let of_links = self.sharings.iter().map(|run| &run.data);
        let of_use_cases = self.use_cases.iter().map(|run| &run.data);
        self.runs.iter().chain(of_feeds).chain(of_links).chain(of_use_cases).chain(&self.generic)
    }

    /// Networks and sizes, in the order in which their first complete runs began.
    pub fn settings(&self) -> Vec<Setting> {
        distinct(self.complete().map(|data| data.setting()))
    }

    /// The names of the networks, in the order in which their first complete runs began.
    pub fn topologies(&self) -> Vec<String> {
        distinct(self.complete().map(|data| data.run.info.topology.clone()))
    }

    /// The deliveries, in the order in which their first complete runs began.
    pub fn deliveries(&self) -> Vec<String> {
        distinct(self.complete().map(|data| data.run.info.delivery.clone()))
    }

    /// The schedules, in the order in which their first complete runs began.
    pub fn schedules(&self) -> Vec<String> {
        distinct(self.complete().map(|data| data.run.info.schedule.clone()))
    }

    /// The first complete run of a delivery in a setting and schedule.
    pub fn example(&self, setting: &Setting, delivery: &str, schedule: &str) -> Option<&RunData> {
        self.complete().find(|data| {
            data.setting() == *setting
                && data.run.info.delivery == delivery
                && data.run.info.schedule == schedule
        })
    }

    /// What `counter` of all sampled interfaces of a node came to, over time.
    pub fn node_counter(&self, node: NodeId, counter: Counter) -> Result<Counted> {
        let mut sum = Counted::default();
        for name in self.db.series_names(node)? {
            if series::parse_interface(&name).is_some_and(|(_, c)| c == counter) {
                sum.add(&self.db.samples(node, &name)?);
            }
        }
        Ok(sum)
    }

    /// The samples of one series.
    pub fn series(&self, node: NodeId, name: &str) -> Result<Counted> {
        let mut counted = Counted::default();
        counted.add(&self.db.samples(node, name)?);
        Ok(counted)
    }
}

impl RunData {
    pub fn setting(&self) -> Setting {
        Setting { topology: self.run.info.topology.clone(), size_bytes: self.run.info.size_bytes }
    }

    pub fn nodes_with(&self, role: Role) -> impl Iterator<Item = (NodeId, &NodeInfo)> {
        self.nodes.iter().filter(move |(_, node)| node.role == role).map(|(id, node)| (*id, node))
    }

    /// How many clients were getting the object at a time between two samples: their average over the part of
    /// it in which anybody was, so that a run shorter than the interval still counts for its clients.
    pub fn active_clients(&self, from: Duration, to: Duration) -> u32 {
        average_active(self.transfers.iter().map(|(_, transfer)| transfer), from, to)
    }
}

/// How many transfers went on, on average over the part of an interval in which any did.
fn average_active<'a>(transfers: impl Iterator<Item = &'a Transfer>, from: Duration, to: Duration) -> u32 {
    let within = |transfer: &Transfer| {
        let end = transfer.finished.map_or(to, |finished| finished.min(to));
        let start = transfer.started.max(from);
        (start < end).then_some((start, end))
    };
    let mut active: Vec<_> = transfers.filter_map(within).collect();
    active.sort_unstable();
    let (mut sum, mut any, mut covered) = (Duration::ZERO, Duration::ZERO, from);
    for (start, end) in active {
        sum += end - start;
        any += end.saturating_sub(start.max(covered));
        covered = covered.max(end);
    }
    if any.is_zero() { 0 } else { (sum.as_secs_f64() / any.as_secs_f64()).round() as u32 }
}

/// What each receiver of a feed has, and whether it is a slow one.
fn objects(db: &Db, data: &RunData, feed: &FeedInfo) -> Result<Vec<(bool, Vec<ObjectTime>)>> {
    let clients = data.nodes_with(Role::Client);
    clients.map(|(id, node)| Ok((feed.slow.contains(&node.name), db.objects(id)?))).collect()
}

/// Each item once, in the order of first appearance.
fn distinct<T: PartialEq>(items: impl Iterator<Item = T>) -> Vec<T> {
    let mut seen = Vec::new();
    for item in items {
        if !seen.contains(&item) {
            seen.push(item);
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_count_that_were_active_in_part_of_an_interval() {
        let active = |transfers: &[(u64, Option<u64>)], from, to| {
            let transfer = |&(started, finished): &(u64, Option<u64>)| Transfer {
                started: Duration::from_millis(started),
                finished: finished.map(Duration::from_millis),
                ..Transfer::default()
            };
            let transfers: Vec<Transfer> = transfers.iter().map(transfer).collect();
            average_active(transfers.iter(), Duration::from_millis(from), Duration::from_millis(to))
        };
        let short = [(100, Some(130)), (100, Some(130)), (100, Some(130))];
        assert_eq!(active(&short, 0, 1000), 3);
        assert_eq!(active(&short, 200, 1000), 0);
        let one_after_the_other = [(0, Some(400)), (400, Some(800)), (900, None)];
        assert_eq!(active(&one_after_the_other, 0, 1000), 1);
        let overlapping = [(0, None), (0, Some(500)), (0, Some(500))];
        assert_eq!(active(&overlapping, 0, 1000), 2);
        assert_eq!(active(&overlapping, 0, 400), 3);
        assert_eq!(active(&[], 0, 1000), 0);
    }
}
