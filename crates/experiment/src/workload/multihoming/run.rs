//! Runs of the workload `multihoming` in a lab.

use super::{
    measures::{rows, sentence},
    plan::PlannedMultihoming,
    play::{Played, Scene},
};
use crate::{
    Error,
    engine::{
        book::Outcome,
        runner::{Begun, Runner, Stage, run_failed},
    },
    record::Record,
};

/// Events of the stub's systems that the report shows: what has changed, and when.
const SHOWN: [&str; 7] =
    ["link", "preference", "tunnel", "tunnel_removed", "tunnel_refused", "failed", "no_answer"];

/// Makes a run: counts tables, and cuts an access link during a transfer.
pub fn play(runner: &mut Runner, stage: &Stage, of_run: &PlannedMultihoming) -> Result<(), Error> {
    let Stage { site, planned, .. } = *stage;
    let Some(Begun { record, recorder }) = runner.begin_quietly(stage)? else { return Ok(()) };
    let scene = Scene { site, planned: of_run, treecast: &runner.book.order.treecast };
    let played = scene.play(runner.stop);
    recorder.stop()?;
    let Some(played) = played.map_err(run_failed(planned))? else { return runner.interrupted(&record) };
    note(runner, &record, &played)?;
    let filing = rows(of_run, &played);
    let broken = played.crossing.as_ref().and_then(|crossing| crossing.transferred.broken.clone());
    let outcome = Outcome {
        sentence: sentence(&filing),
        carried: Some(runner.carried(planned, &record, &planned.groups)?),
        filing,
        duration: played.lasted,
        failures: broken.map(|why| (of_run.inside.clone(), why)).into_iter().collect(),
        ..Outcome::default()
    };
    runner.book.conclude(planned, &record, outcome)
}

/// Notes what happened to the network, and what the stub's systems told.
fn note(runner: &mut Runner, record: &Record, played: &Played) -> Result<(), Error> {
    let Some(crossing) = &played.crossing else { return Ok(()) };
    let began = crossing.began.saturating_duration_since(record.origin);
    for happening in &crossing.happened {
        record.event(&mut runner.book.db, began + happening.at, None, "event", &happening.what)?;
    }
    for told in crossing.told.iter().filter(|told| SHOWN.contains(&told.event.as_str())) {
        let at = told.at.saturating_duration_since(record.origin);
        record.event(&mut runner.book.db, at, Some(&told.node), &told.event, &told.words())?;
    }
    Ok(())
}
