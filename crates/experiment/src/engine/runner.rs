//! The part that runs of all workloads share in a lab: each begins on a quiet machine, is recorded, and counts what links
//! carry.

use std::{
    io,
    path::{Path, PathBuf},
    rc::Rc,
    sync::Arc,
    time::Duration,
};

use super::{Stop, book::Book};
use crate::{
    Error, Event,
    cargo::Cargo,
    carried::Carried,
    document::Experiment,
    plan::{Group, Planned},
    record::Record,
    settle::Baseline,
    site::{Recording, Site},
    ssh::Ssh,
    store::Store,
};

/// Makes the runs of an experiment in a lab, one after the other.
pub struct Runner<'r, 'b> {
    pub book: &'r mut Book<'b>,
    pub stop: Stop<'r>,
    pub store: Arc<Store>,
    /// The quiet machine, and how long a run waits for it.
    quiet: (Baseline, Duration),
    /// The files of the run before, which the next run may have, too.
    cargo: Option<Rc<Cargo>>,
    ssh: Option<Rc<Ssh>>,
}

/// A run that is about to begin, and where.
pub struct Stage<'s> {
    pub site: &'s dyn Site,
    pub planned: &'s Planned<'s>,
    /// The file with the domain's key, where routers prove their responses.
    pub key: Option<PathBuf>,
}

/// A run that has begun.
pub struct Begun {
    pub record: Record,
    pub recorder: Box<dyn Recording>,
}

impl<'r, 'b> Runner<'r, 'b> {
    pub fn new(
        book: &'r mut Book<'b>,
        stop: Stop<'r>,
        store: Arc<Store>,
        quiet: (Baseline, Duration),
    ) -> Self {
        Self { book, stop, store, quiet, cargo: None, ssh: None }
    }

    pub fn experiment(&self) -> &'b Experiment {
        &self.book.order.experiment
    }

    /// Waits until the machine is quiet. Returns how long was waited in vain; `None` in the place of all when the user wants to
    /// stop.
    pub fn settle(&mut self, planned: &Planned) -> Result<Option<Option<Duration>>, Error> {
        (self.book.observe)(&Event::Settling { run: &planned.name });
        let (baseline, longest) = self.quiet;
        let stop = self.stop;
        let is_quiet = baseline.settle(longest, &|| stop()).map_err(Error::Machine)?;
        if (self.stop)() {
            self.book.results.interrupted = true;
            return Ok(None);
        }
        // A run that waits for nothing does not ask.
        Ok(Some((!is_quiet && !longest.is_zero()).then_some(longest)))
    }

    pub fn begin(&mut self, stage: &Stage, unsettled: Option<Duration>) -> Result<Begun, Error> {
        let record = self.book.begin(stage.planned, unsettled)?;
        let recorder = stage.site.watch(&self.book.db, &record, self.experiment().habits.sample)?;
        Ok(Begun { record, recorder })
    }

    pub fn tell_started(&self, planned: &Planned) {
        let facts = &self.book.plan.networks[planned.network].facts;
        self.book.tell_started(planned, planned.estimate(facts, self.quiet.1));
    }

    /// Waits for a quiet machine, and begins the run. `None` when the user wants to stop.
    pub fn begin_quietly(&mut self, stage: &Stage) -> Result<Option<Begun>, Error> {
        let Some(unsettled) = self.settle(stage.planned)? else { return Ok(None) };
        let begun = self.begin(stage, unsettled)?;
        // Told once the database has the run: whoever ends the program on hearing it finds a run that was cut short.
        self.tell_started(stage.planned);
        Ok(Some(begun))
    }

    /// Ends a run that the user has stopped.
    pub fn interrupted(&mut self, record: &Record) -> Result<(), Error> {
        record.close(&mut self.book.db, true)?;
        self.book.results.interrupted = true;
        Ok(())
    }

    /// Returns the bytes that links carried in a run in which these groups took part.
    pub fn carried(&self, planned: &Planned, record: &Record, groups: &[Group]) -> Result<Carried, Error> {
        let senders: Vec<&str> = groups.iter().map(|group| group.sender.as_str()).collect();
        Ok(Carried::of(&self.book.db, record, self.book.topology(planned), &senders)?)
    }

    /// Returns the files of the run before if they fit, and makes others if not.
    pub fn cargo(
        &mut self,
        fits: impl FnOnce(&Cargo) -> bool,
        make: impl FnOnce(&Store) -> Result<Cargo, Error>,
    ) -> Result<Rc<Cargo>, Error> {
        let cargo = match self.cargo.take().filter(|cargo| fits(cargo)) {
            Some(cargo) => cargo,
            None => Rc::new(make(&self.store)?),
        };
        self.cargo = Some(Rc::clone(&cargo));
        Ok(cargo)
    }

    /// Returns the keys and the configuration of OpenSSH's server.
    pub fn ssh(&mut self) -> Result<Rc<Ssh>, Error> {
        if let Some(ssh) = &self.ssh {
            return Ok(Rc::clone(ssh));
        }
        let folder = self.store.fresh_folder("ssh").map_err(store_failed(self.experiment()))?;
        let ssh = Rc::new(Ssh::prepare(&folder).map_err(|error| Error::Scp { error })?);
        Ok(Rc::clone(self.ssh.insert(ssh)))
    }
}

/// Returns the error of a run that failed.
pub fn run_failed(planned: &Planned) -> impl Fn(io::Error) -> Error {
    let run = planned.name.clone();
    move |error| Error::Run { run: run.clone(), error }
}

/// Returns the error of a store that could not be made or filled.
pub fn store_failed(experiment: &Experiment) -> impl FnOnce(io::Error) -> Error {
    let place = experiment.habits.store.as_deref().unwrap_or(Path::new("memory")).display();
    let what = format!("source and copies in {place}");
    move |error| Error::Store { what, error }
}
