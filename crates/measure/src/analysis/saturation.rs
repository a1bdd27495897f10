//! Whether the machine, and not the network that it emulates, was the limit of a run.

use std::time::Duration;

use super::Counted;
use crate::{
    db::{Db, NodeId, Result, Role, RunId},
    series,
};

/// Processors that are busier than this have nothing left to give.
const BUSY: f64 = 0.95;
/// A machine that was that busy for this share of a run was its limit.
const SHARE_OF_RUN: f64 = 0.2;

/// Why the machine was the limit of a run, in words for a person; `None` when it was not, or was not sampled. Only the time
/// counts in which a client waited, by the events `started`, `finished` and `failed`; all of it in a run without these.
pub fn saturation(db: &Db, run: RunId) -> Result<Option<String>> {
    let cpus = db.run(run)?.map_or(1, |run| run.machine.cpus.max(1));
    let waited = waited(db, run)?;
    for (machine, _) in db.nodes(run)?.into_iter().filter(|(_, node)| node.role == Role::Machine) {
        let dropped = counted(db, machine, series::SOFTNET_DROPPED_PACKETS)?.growth();
        if dropped > 0 {
            return Ok(Some(format!("the kernel's backlog was full: {dropped} packets dropped")));
        }
        let idle = counted(db, machine, series::CPU_IDLE_NS)?.rates();
        let meanwhile =
            idle.iter().filter(|rate| waited.is_none_or(|(from, to)| rate.to > from && rate.from < to));
        let shares: Vec<f64> = meanwhile.map(|rate| 1.0 - rate.per_second / 1e9 / f64::from(cpus)).collect();
        let busy = shares.iter().filter(|&&share| share > BUSY).count();
        if busy as f64 > SHARE_OF_RUN * shares.len() as f64 {
            let percent = BUSY * 100.0;
            let samples = shares.len();
            return Ok(Some(format!("processors over {percent:.0} % busy in {busy} of {samples} samples")));
        }
    }
    Ok(None)
}

/// From when to when clients waited; `None` when nothing says so.
fn waited(db: &Db, run: RunId) -> Result<Option<(Duration, Duration)>> {
    let events = db.events(run)?;
    let of = |kinds: &'static [&'static str]| {
        events.iter().filter(move |event| kinds.contains(&event.kind.as_str())).map(|event| event.at)
    };
    Ok(of(&["started"]).min().zip(of(&["finished", "failed"]).max()))
}

fn counted(db: &Db, node: NodeId, name: &str) -> Result<Counted> {
    let mut counted = Counted::default();
    counted.add(&db.samples(node, name)?);
    Ok(counted)
}
