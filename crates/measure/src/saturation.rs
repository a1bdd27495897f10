//! Whether the machine, and not the network that it emulates, was the limit of a run.

use std::time::Duration;

use crate::{
    db::{Db, Result, Role, RunId},
    series,
};

/// The share of processor time, 0 to 1, above which processors count as busy.
const BUSY: f64 = 0.95;
/// The share of a run, 0 to 1, for which a machine must be busy to count as the run's limit.
const SHARE_OF_RUN: f64 = 0.2;

/// The reason why the machine limited a run, in words for a person. `None` if it did not, or was not sampled.
/// Only the time in which a client waited counts, by the events `started`, `finished` and `failed`. In a run
/// without these events, all of its time counts.
pub fn saturation(db: &Db, run: RunId) -> Result<Option<String>> {
    let cpus = db.run(run)?.map_or(1, |run| run.machine.cpus.max(1));
    let waited = waited(db, run)?;
    for (machine, _) in db.nodes(run)?.into_iter().filter(|(_, node)| node.role == Role::Machine) {
        let dropped = db.counted(machine, series::SOFTNET_DROPPED_PACKETS)?.growth();
        if dropped > 0 {
            return Ok(Some(format!("the kernel's backlog was full: {dropped} packets dropped")));
        }
        let idle = db.counted(machine, series::CPU_IDLE_NS)?.rates();
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

/// The time span in which clients waited. `None` if the run has no events about it.
fn waited(db: &Db, run: RunId) -> Result<Option<(Duration, Duration)>> {
    let events = db.events(run)?;
    let of = |kinds: &'static [&'static str]| {
        events.iter().filter(move |event| kinds.contains(&event.kind.as_str())).map(|event| event.at)
    };
    Ok(of(&["started"]).min().zip(of(&["finished", "failed"]).max()))
}
