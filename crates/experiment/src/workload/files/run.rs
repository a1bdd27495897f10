//! Runs in a lab in which one server delivers files, or a feed, to its clients.

use std::{fs, io, path::PathBuf};

use crate::{
    Error, Event,
    cargo::Cargo,
    client::Fared,
    document::{delivery::Program, local::LocalGroups},
    engine::{
        Order,
        book::{Outcome, failures, whole},
        runner::{Begun, Runner, Stage, run_failed},
    },
    plan::{self, Group},
    programs::Programs,
    record::Record,
    schedule::seed_for,
    session::{self, Played, Session},
    site::Site,
    ssh::Ssh,
};

/// Tells the database of each process that starts, and at which node it runs.
pub type Watch<'a> = dyn Fn(&str, u32) + Sync + 'a;

/// Makes a run that has the network for itself. `arguments` are further words for the sender's command line.
pub fn play(
    runner: &mut Runner,
    stage: &Stage,
    cargo: &Cargo,
    arguments: &[String],
    further: &session::Further,
) -> Result<(), Error> {
    let planned = stage.planned;
    let ssh = match planned.delivery.program {
        Program::Scp => Some(runner.ssh()?),
        _ => None,
    };
    let Some(Begun { record, recorder }) = runner.begin_quietly(stage)? else { return Ok(()) };
    let group = &planned.groups[0];
    let order = runner.book.order;
    let stopped = order.experiment.networks[planned.network].stopped.as_ref();
    let watch = |node: &str, pid| recorder.watch_process(record.node(node), pid);
    let session = Session {
        waits: runner.book.waits(planned),
        stopped,
        arguments,
        ..session(order, stage, &record, (group, cargo), ssh.as_deref(), &watch)?
    };
    let mut filed = Ok(());
    let (observe, db) = (runner.book.observe, &mut runner.book.db);
    let mut each = |index: usize, fared: &Fared| {
        let node = &group.receivers[index];
        observe(&Event::Client { run: &planned.name, node, fared });
        if filed.is_ok() {
            filed = session::client_done(db, &record, node, fared);
        }
    };
    let stop = runner.stop;
    let played = session.play(&mut each, &|| stop()).map_err(run_failed(planned))?;
    drop(session);
    filed?;
    recorder.stop()?;
    note_server(runner, &record, group, &played)?;
    let size_bytes = cargo.size().0;
    let mut filing = session::of_run(group, &played, size_bytes, stopped.map(|stopped| stopped.client));
    filing.series.extend(session::over_time(&runner.book.db, &record, &group.sender, &played.clients)?);
    let clients: Vec<_> = group.receivers.iter().zip(&played.clients).collect();
    filing.extend(further(runner.book.topology(planned), &clients));
    let failures = if played.refused.is_some() { Vec::new() } else { failures(group, &played.clients) };
    let (whole, of) = whole(&played.clients, &failures);
    let verified = if planned.delivery.may_lack() { "receivers at the end" } else { "copies verified" };
    let outcome = Outcome {
        carried: Some(runner.carried(planned, &record, &planned.groups[..1])?),
        filing,
        sentence: format!("{whole} of {of} {verified}, last after {:.3} s", played.duration.as_secs_f64()),
        duration: played.duration,
        failures,
        refused: played.refused,
        interrupted: played.interrupted,
    };
    runner.book.conclude(planned, &record, outcome)
}

/// Files when the server was ready, what it said last, and what happened to the network.
fn note_server(runner: &mut Runner, record: &Record, group: &Group, played: &Played) -> Result<(), Error> {
    let db = &mut runner.book.db;
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

/// Writes the file that fixes the local groups by hand. `None` where groups form by themselves.
fn groups_file(site: &dyn Site, group: &Group, local: &LocalGroups) -> io::Result<Option<PathBuf>> {
    if local.groups.is_empty() {
        return Ok(None);
    }
    let path = site.folder(&group.sender, "groups")?.join("groups");
    fs::write(&path, local.file(|node| Ok::<_, io::Error>(site.attachment(node)?.address))?)?;
    Ok(Some(path))
}

/// Prepares a session of a run whose clients all start at once.
pub fn session<'s>(
    order: &'s Order,
    stage: &Stage<'s>,
    record: &Record,
    (group, cargo): (&'s Group, &'s Cargo),
    ssh: Option<&'s Ssh>,
    watch: &'s Watch<'_>,
) -> Result<Session<'s>, Error> {
    let Stage { site, planned, .. } = *stage;
    let at = |node: &str| site.attachment(node).map_err(run_failed(planned));
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
        groups: groups_file(site, group, &planned.delivery.local).map_err(run_failed(planned))?,
    };
    Ok(Session {
        site,
        planned,
        group,
        programs,
        cargo,
        waits: Vec::new(),
        origin: record.origin,
        timeout: habits.timeout,
        seed: seed_for(habits.seed, &planned.name),
        watch,
        arguments: &[],
        stopped: None,
        begun: None,
    })
}
