//! Runs in which one server delivers files, or a feed, to its clients.

use std::{fs, io, path::PathBuf};

use super::{
    Begun, Engine, Order,
    book::{Outcome, failures, whole},
    run_failed,
};
use crate::{
    Error, Event,
    cargo::Cargo,
    client::Fared,
    document::{local::LocalGroups, workload::Workload},
    feed,
    plan::{self, Group, Planned, Work},
    programs::Programs,
    record::Record,
    schedule::seed_for,
    session::{self, Played, Session},
    site::{Site, attachment},
    ssh::Ssh,
};

/// Tells the database of each process that starts, and at which node it runs.
pub type Watch<'a> = dyn Fn(&str, u32) + Sync + 'a;

impl Engine<'_> {
    /// Makes a run that has the network for itself.
    pub fn play_alone(&mut self, run: Begun<'_>, cargo: &Cargo, ssh: Option<&Ssh>) -> Result<Outcome, Error> {
        let Begun { planned, record, recorder, .. } = &run;
        let group = &planned.groups[0];
        let stopped = self.book.order.experiment.networks[planned.network].stopped.as_ref();
        let watch = |node: &str, pid| recorder.watch_process(record.node(node), pid);
        let session = Session {
            waits: self.book.waits(planned),
            stopped,
            ..session(self.book.order, &run, group, cargo, ssh, &watch)?
        };
        let mut filed = Ok(());
        let (observe, db) = (self.book.observe, &mut self.book.db);
        let mut each = |index: usize, fared: &Fared| {
            let node = &group.receivers[index];
            observe(&Event::Client { run: &planned.name, node, fared });
            if filed.is_ok() {
                filed = session::client_done(db, record, node, fared);
            }
        };
        let stop = self.stop;
        let played = session.play(&mut each, &|| stop()).map_err(run_failed(planned))?;
        drop(session);
        filed?;
        let Begun { planned, record, recorder, .. } = run;
        recorder.stop()?;
        self.note_server(&record, group, &played)?;
        self.outcome(planned, record, cargo.size().0, played, stopped.map(|stopped| stopped.client))
    }

    /// Files when the server was ready, what it said last, and what happened to the network.
    fn note_server(&mut self, record: &Record, group: &Group, played: &Played) -> Result<(), Error> {
        let db = &mut self.book.db;
        let server = Some(group.sender.as_str());
        let end = played.clients_start + played.duration;
        record.event(db, played.clients_start, server, "ready", "")?;
        if let Some(reason) = &played.server_failure {
            record.event(db, end, server, "failed", reason)?;
        }
        if let Some(said) = &played.server_said {
            record.event(db, end, server, "done", said)?;
        }
        for happening in &played.happened {
            record.event(db, played.clients_start + happening.at, None, "event", &happening.what)?;
        }
        Ok(())
    }

    /// The outcome of a run in which every client was to get so many bytes. `stopped` is a client that stood still.
    fn outcome(
        &mut self,
        planned: &Planned,
        record: Record,
        size_bytes: u64,
        played: Played,
        stopped: Option<usize>,
    ) -> Result<Outcome, Error> {
        let group = &planned.groups[0];
        let mut filing = session::of_run(group, &played, size_bytes, stopped);
        filing.series.extend(session::over_time(&self.book.db, &record, &group.sender, &played.clients)?);
        if let (Work::Feed(_), Workload::Feed(feed)) = (&planned.work, &self.experiment().workload) {
            let topology = self.book.topology(planned);
            let have =
                group.receivers.iter().cloned().zip(played.clients.iter().map(|fared| &*fared.objects));
            filing.extend(feed::of_run(feed, topology, &have.collect::<Vec<_>>()));
        }
        let failures = match played.refused {
            Some(_) => Vec::new(),
            None => failures(group, &played.clients),
        };
        let (whole, of) = whole(&played.clients, &failures);
        let verified = if planned.delivery.may_lack() { "receivers at the end" } else { "copies verified" };
        let seconds = played.duration.as_secs_f64();
        Ok(Outcome {
            carried: Some(self.carried(planned, &record, &planned.groups[..1])?),
            record,
            filing,
            sentence: format!("{whole} of {of} {verified}, last after {seconds:.3} s"),
            duration: played.duration,
            failures,
            refused: played.refused,
            interrupted: played.interrupted,
        })
    }
}

/// Writes the file that fixes the local groups by hand. `None` where groups form by themselves.
fn groups_file(site: &dyn Site, group: &Group, local: &LocalGroups) -> io::Result<Option<PathBuf>> {
    if local.groups.is_empty() {
        return Ok(None);
    }
    let path = site.folder(&group.sender, "groups")?.join("groups");
    fs::write(&path, local.file(|node| Ok::<_, io::Error>(attachment(site, node)?.address))?)?;
    Ok(Some(path))
}

/// Prepares a session of a run whose clients all start at once.
pub fn session<'s>(
    order: &'s Order,
    run: &'s Begun<'_>,
    group: &'s Group,
    cargo: &'s Cargo,
    ssh: Option<&'s Ssh>,
    watch: &'s Watch<'_>,
) -> Result<Session<'s>, Error> {
    let Begun { site, planned, record, .. } = run;
    let at = |node: &str| attachment(*site, node).map_err(run_failed(planned));
    let receivers = group.receivers.iter().map(|node| at(node).map(|at| at.address));
    let habits = &order.experiment.habits;
    let network = &order.experiment.networks[planned.network];
    let programs = Programs {
        treecast: &order.treecast,
        ssh,
        delivery: planned.delivery,
        server: at(&group.sender)?,
        receivers: receivers.collect::<Result<_, _>>()?,
        rate: plan::rate(&order.experiment, network, planned.delivery, site.topology()),
        plain: planned.delivery.plain.unwrap_or(habits.plain),
        groups: groups_file(*site, group, &planned.delivery.local).map_err(run_failed(planned))?,
    };
    Ok(Session {
        site: *site,
        planned,
        group,
        programs,
        cargo,
        waits: Vec::new(),
        origin: record.origin,
        timeout: habits.timeout,
        seed: seed_for(habits.seed, &planned.name),
        watch,
        stopped: None,
        begun: None,
    })
}
