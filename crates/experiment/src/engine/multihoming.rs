//! Runs of the workload `multihoming`.

use super::{Begun, Engine, book::Outcome, run_failed};
use crate::{
    Error,
    multihoming::{self, Played, Scene},
    plan::{Planned, multihoming::PlannedMultihoming},
    record::Record,
    site::Site,
};

/// Events of the stub's systems that the report shows: what has changed, and when.
const SHOWN: [&str; 7] =
    ["link", "preference", "tunnel", "tunnel_removed", "tunnel_refused", "failed", "no_answer"];

impl Engine<'_> {
    /// Makes a run: counts tables, and cuts an access link during a transfer.
    pub fn play_multihoming(
        &mut self,
        site: &dyn Site,
        planned: &Planned,
        of_run: &PlannedMultihoming,
    ) -> Result<(), Error> {
        let failed = run_failed(planned);
        let order = self.book.order;
        let Some(unsettled) = self.settle(planned)? else { return Ok(()) };
        let Begun { record, recorder, .. } = self.begin(site, planned, unsettled)?;
        self.tell_started(planned);
        let scene = Scene { site, planned: of_run, treecast: &order.treecast };
        let played = scene.play(self.stop);
        recorder.stop()?;
        let Some(played) = played.map_err(&failed)? else {
            record.close(&mut self.book.db, true)?;
            self.book.results.interrupted = true;
            return Ok(());
        };
        self.note(&record, &played)?;
        let mut filing = multihoming::rows(of_run, &played);
        filing.run("duration", played.lasted.as_secs_f64(), "s");
        let broken = played.crossing.as_ref().and_then(|crossing| crossing.transferred.broken.clone());
        let outcome = Outcome {
            sentence: multihoming::sentence(&filing),
            carried: Some(self.carried(planned, &record, &planned.groups)?),
            record,
            filing,
            duration: played.lasted,
            failures: broken.map(|why| (of_run.inside.clone(), why)).into_iter().collect(),
            refused: None,
            interrupted: false,
        };
        self.book.conclude(planned, outcome)
    }

    /// Notes what happened to the network, and what the stub's systems told.
    fn note(&mut self, record: &Record, played: &Played) -> Result<(), Error> {
        let Some(crossing) = &played.crossing else { return Ok(()) };
        let began = crossing.began.saturating_duration_since(record.origin);
        for happening in &crossing.happened {
            record.event(&mut self.book.db, began + happening.at, None, "event", &happening.what)?;
        }
        for told in crossing.told.iter().filter(|told| SHOWN.contains(&told.event.as_str())) {
            let at = told.at.saturating_duration_since(record.origin);
            record.event(&mut self.book.db, at, Some(&told.node), &told.event, &told.words())?;
        }
        Ok(())
    }
}
