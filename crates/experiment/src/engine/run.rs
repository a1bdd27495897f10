//! The part that runs of all workloads share: each begins on a quiet machine, is recorded, and counts what links
//! carry.

use std::{io, time::Duration};

use treecast_measure::sample::Recorder;

use super::Engine;
use crate::{
    Error, Event,
    carried::Carried,
    document::Experiment,
    plan::{Group, Planned},
    record::Record,
    site::Site,
};

/// A run that has begun.
pub(super) struct Begun<'b> {
    pub site: &'b dyn Site,
    pub planned: &'b Planned<'b>,
    pub record: Record,
    pub recorder: Recorder,
}

impl Engine<'_> {
    pub(super) fn experiment(&self) -> &Experiment {
        &self.book.order.experiment
    }

    /// Waits until the machine is quiet. Returns how long was waited in vain; `None` in the place of all when the user wants to
    /// stop.
    pub(super) fn settle(&mut self, planned: &Planned) -> Result<Option<Option<Duration>>, Error> {
        (self.book.observe)(&Event::Settling { run: &planned.name });
        let longest = self.experiment().habits.settle;
        let stop = self.stop;
        let is_quiet = self.baseline.settle(longest, &|| stop()).map_err(Error::Machine)?;
        if (self.stop)() {
            self.book.results.interrupted = true;
            return Ok(None);
        }
        // A run that waits for nothing does not ask.
        Ok(Some((!is_quiet && !longest.is_zero()).then_some(longest)))
    }

    pub(super) fn begin<'b>(
        &mut self,
        site: &'b dyn Site,
        planned: &'b Planned<'b>,
        unsettled: Option<Duration>,
    ) -> Result<Begun<'b>, Error> {
        let record = self.book.begin(planned, unsettled)?;
        let recorder = site.watch(&self.book.db, &record, self.experiment().habits.sample)?;
        Ok(Begun { site, planned, record, recorder })
    }

    pub(super) fn tell_started(&self, planned: &Planned) {
        let facts = &self.book.plan.networks[planned.network].facts;
        self.book.tell_started(planned, planned.estimate(facts, self.experiment().habits.settle));
    }

    /// The bytes that links carried in a run in which these groups took part.
    pub(super) fn carried(
        &self,
        planned: &Planned,
        record: &Record,
        groups: &[Group],
    ) -> Result<Carried, Error> {
        let senders: Vec<&str> = groups.iter().map(|group| group.sender.as_str()).collect();
        Ok(Carried::of(&self.book.db, record, self.book.topology(planned), &senders)?)
    }
}

pub(super) fn run_failed(planned: &Planned) -> impl Fn(io::Error) -> Error {
    let run = planned.name.clone();
    move |error| Error::Run { run: run.clone(), error }
}
