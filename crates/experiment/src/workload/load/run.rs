//! Runs of the workload `load` in a lab.

use std::io;

use treecast_host::namespace::write_setting;

use super::{
    measures::{rows, sentence},
    plan::PlannedLoad,
    play::{Played, Trial},
    search::{Found, trials},
};
use crate::{
    Bound, Error, Event,
    document::network::Network,
    engine::{
        book::Outcome,
        runner::{Begun, Runner, Stage, run_failed},
    },
    site::{Site, enter},
};

/// The settings by which a host takes a version of MLD instead of the one that the querier speaks.
const MLD_VERSION: &str = "ipv6/conf/all/force_mld_version";

/// Makes a run: one trial, or all trials of a search.
pub fn play(runner: &mut Runner, stage: &Stage, load: &PlannedLoad) -> Result<(), Error> {
    let Stage { site, planned, .. } = *stage;
    let failed = run_failed(planned);
    let order = runner.book.order;
    prepare(site, &order.experiment.networks[planned.network]).map_err(&failed)?;
    let Some(Begun { record, recorder }) = runner.begin_quietly(stage)? else { return Ok(()) };
    let (stop, observe, origin) = (runner.stop, runner.book.observe, record.origin);
    let (mut tried, mut number) = (Vec::new(), 0);
    let found = trials(load, |hosts, rate| {
        number += 1;
        let trial = Trial { site, planned, load, treecast: &order.treecast, hosts, rate };
        let played = trial.play(stop)?;
        if let Some(played) = played.as_ref().filter(|_| load.ask.is_search()) {
            let says = told(number, hosts, played);
            observe(&Event::Again { run: &planned.name, why: &says });
            tried.push((origin.elapsed(), says));
        }
        Ok(played)
    });
    recorder.stop()?;
    let found = found.map_err(&failed)?;
    for (at, says) in tried {
        record.event(&mut runner.book.db, at, None, "trial", &says)?;
    }
    let Some(found) = found else { return runner.interrupted(&record) };
    for happening in &found.played.happened {
        record.event(&mut runner.book.db, happening.at, None, "event", &happening.what)?;
    }
    runner.book.results.thresholds.extend(bound(&planned.name, &found));
    let filing = rows(&found);
    let outcome = Outcome {
        sentence: sentence(&found),
        carried: Some(runner.carried(planned, &record, &planned.groups)?),
        filing,
        duration: found.played.lasted,
        ..Outcome::default()
    };
    runner.book.conclude(planned, &record, outcome)
}

/// Returns what a search has found. `None`: nothing was searched.
fn bound(run: &str, found: &Found) -> Option<Bound> {
    let threshold = found.threshold.as_ref()?;
    Some(Bound {
        run: run.to_owned(),
        threshold: threshold.borne,
        broke: threshold.broke,
        predicted: found.predicted,
        limits: threshold.limits.iter().map(ToString::to_string).collect(),
        machine_limited: threshold.is_of_machine(),
    })
}

/// Says what came of a trial.
fn told(number: u32, hosts: usize, played: &Played) -> String {
    let limits: Vec<String> = played.limits.iter().map(ToString::to_string).collect();
    let limits = if limits.is_empty() { String::new() } else { format!(": {}", limits.join("; ")) };
    format!(
        "trial {number}: {hosts} hosts at {:.4} packets/s: {:.4} % lost{limits}",
        played.rate,
        played.lost() * 100.0
    )
}

/// Makes switches and hosts behave as the network says.
fn prepare(site: &dyn Site, network: &Network) -> io::Result<()> {
    if let Some(is_on) = network.snooping {
        site.set_snooping(is_on)?;
    }
    let Some(version) = network.mld.map(|version| version.to_string()) else { return Ok(()) };
    let nodes = &site.topology().nodes;
    nodes.iter().try_for_each(|node| enter(site, &node.name, || write_setting(MLD_VERSION, &version))?)
}
