//! Runs in which streams are sent.

use std::path::Path;

use super::{Begun, Engine, book::Outcome, run_failed};
use crate::{
    Error, Event,
    document::workload::Load,
    plan::{Planned, stream::PlannedStream},
    site::Site,
    stream::{self, MAX_LOSS, MAX_SLOWER, Scene},
};

impl Engine<'_> {
    /// Makes a run of a stream. When a file is sent as a stream and too much of it is lost, the run sends it
    /// again more slowly; the thesis raised the rate until that much was lost. `key` is the file with the
    /// domain's key, where routers prove their responses.
    pub fn play_stream(
        &mut self,
        site: &dyn Site,
        planned: &Planned,
        stream: &PlannedStream,
        key: Option<&Path>,
    ) -> Result<(), Error> {
        let mut stream = stream.clone();
        for slower in 0..=MAX_SLOWER {
            let most_lost = if slower == MAX_SLOWER { 1.0 } else { MAX_LOSS };
            if !self.attempt(site, planned, &stream, key, most_lost)? {
                break;
            }
            stream = stream.slower();
        }
        Ok(())
    }

    /// Makes a stream's run. Returns whether it was a file of which more than `most_lost` was lost: then nothing of it counts.
    fn attempt(
        &mut self,
        site: &dyn Site,
        planned: &Planned,
        stream: &PlannedStream,
        key: Option<&Path>,
        most_lost: f64,
    ) -> Result<bool, Error> {
        if self.settle(planned)?.is_none() {
            return Ok(false);
        }
        self.tell_started(planned);
        let failed = run_failed(planned);
        let number = self.book.number as u32;
        let scene =
            Scene::set(site, planned, stream, &self.book.order.treecast, key, number).map_err(&failed)?;
        // Senders that look for routers are not what is measured.
        let Some(unsettled) = self.settle(planned)? else { return Ok(false) };
        let receivers = scene.receivers.clone();
        let Begun { record, recorder, .. } = self.begin(site, planned, unsettled)?;
        // The first interval is without traffic, and the second begins with it.
        std::thread::sleep(self.experiment().habits.sample);
        let began = record.origin.elapsed();
        let played = scene.play(self.stop);
        recorder.stop()?;
        let played = played.map_err(&failed)?;
        let carried = self.carried(planned, &record, &planned.groups)?;
        let mut filing = stream::rows(planned, stream, &receivers, &played, &carried, began);
        filing.run("duration", played.sent.lasted.as_secs_f64(), "s");
        for happening in &played.happened {
            record.event(&mut self.book.db, began + happening.at, None, "event", &happening.what)?;
        }
        let interrupted = (self.stop)() && played.sent.packets < stream.packets;
        let lost = stream::lost(&filing);
        if !interrupted && matches!(stream.load, Load::Bytes(_)) && lost > most_lost {
            record.close(&mut self.book.db, true)?;
            let why = format!("{:.2} % lost: once more, slower", lost * 100.0);
            (self.book.observe)(&Event::Again { run: &planned.name, why: &why });
            return Ok(true);
        }
        let outcome = Outcome {
            sentence: stream::sentence(&filing, &carried, &played),
            record,
            carried: Some(carried),
            filing,
            duration: played.sent.lasted,
            failures: Vec::new(),
            refused: None,
            interrupted,
        };
        self.book.conclude(planned, outcome)?;
        Ok(false)
    }
}
