//! Runs in a lab in which streams are sent.

use super::{
    MAX_SLOWER,
    measures::{rows, sentence},
    plan::PlannedStream,
    play::Scene,
    too_much_lost,
};
use crate::{
    Error, Event,
    engine::{
        book::Outcome,
        runner::{Begun, Runner, Stage, run_failed},
    },
};

/// Makes a run of a stream. When a file is sent as a stream and too much of it is lost, the run sends it
/// again more slowly; the thesis raised the rate until that much was lost.
pub fn play(runner: &mut Runner, stage: &Stage, stream: &PlannedStream) -> Result<(), Error> {
    let mut stream = stream.clone();
    for slower in 0..=MAX_SLOWER {
        if !attempt(runner, stage, &stream, slower)? {
            break;
        }
        stream = stream.slower();
    }
    Ok(())
}

/// Makes a stream's run, after `slower` faster attempts. Returns whether too much of it was lost: then nothing of it counts.
fn attempt(runner: &mut Runner, stage: &Stage, stream: &PlannedStream, slower: u32) -> Result<bool, Error> {
    let planned = stage.planned;
    if runner.settle(planned)?.is_none() {
        return Ok(false);
    }
    runner.tell_started(planned);
    let failed = run_failed(planned);
    let number = runner.book.number as u32;
    let scene = Scene::set(stage, stream, &runner.book.order.treecast, number).map_err(&failed)?;
    // Senders that look for routers are not what is measured.
    let Some(unsettled) = runner.settle(planned)? else { return Ok(false) };
    let receivers = scene.receivers.clone();
    let Begun { record, recorder } = runner.begin(stage, unsettled)?;
    // The first interval is without traffic, and the second begins with it.
    std::thread::sleep(runner.experiment().habits.sample);
    let began = record.origin.elapsed();
    let played = scene.play(runner.stop);
    recorder.stop()?;
    let played = played.map_err(&failed)?;
    let carried = runner.carried(planned, &record, &planned.groups)?;
    let filing = rows(planned, stream, &receivers, &played, &carried, began);
    for happening in &played.happened {
        record.event(&mut runner.book.db, began + happening.at, None, "event", &happening.what)?;
    }
    let interrupted = (runner.stop)() && played.sent.packets < stream.packets;
    if let Some(why) = too_much_lost(stream, &filing, slower).filter(|_| !interrupted) {
        record.close(&mut runner.book.db, true)?;
        (runner.book.observe)(&Event::Again { run: &planned.name, why: &why });
        return Ok(true);
    }
    let outcome = Outcome {
        sentence: sentence(&filing, &carried, &played),
        carried: Some(carried),
        filing,
        duration: played.sent.lasted,
        interrupted,
        ..Outcome::default()
    };
    runner.book.conclude(planned, &record, outcome)?;
    Ok(false)
}
