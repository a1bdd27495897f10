//! Runs in which flows share a link.

use std::{
    io,
    sync::OnceLock,
    time::{Duration, Instant},
};

use treecast_measure::{statistics::percentile, tables::rate};

use super::{
    connection::Connection,
    contest::{Contest, Flow, Outcome as Contested},
    measures::{self, Shared},
    uftp::Uftp,
};
use crate::{
    Error,
    cargo::Cargo,
    document::{
        delivery::Program,
        sharing::{RivalKind, Sharing},
    },
    engine::{
        book::{Outcome, failures},
        runner::{Begun, Runner, Stage, run_failed},
    },
    plan::{Group, path::SharedPath},
    record::Record,
    session::{self, Session},
    workload::files::run::session,
};

/// Makes a run on a link that other flows use, too.
pub fn play(runner: &mut Runner, stage: &Stage, sharing: &Sharing, cargo: &Cargo) -> Result<(), Error> {
    let (order, plan) = (runner.book.order, runner.book.plan);
    let Stage { site, planned, .. } = *stage;
    let Some(Begun { record, recorder }) = runner.begin_quietly(stage)? else { return Ok(()) };
    let description = &order.experiment.networks[planned.network];
    let Some(path) = &plan.networks[planned.network].path else {
        return Err(run_failed(planned)(io::Error::other("nothing is shared")));
    };
    let begun: Vec<OnceLock<Duration>> = planned.groups.iter().map(|_| OnceLock::new()).collect();
    let watch = |node: &str, pid| recorder.watch_process(record.node(node), pid);
    let is_tcp = planned.delivery.program == Program::Tcp;
    let first = order.experiment.congestion_of(planned.delivery).filter(|_| is_tcp);
    let rivals = description
        .rivals
        .iter()
        .map(|rival| (rival.kind == RivalKind::Tcp).then(|| rival.congestion_in(sharing)));
    // The congestion control of each flow that is a TCP connection.
    let tcp: Vec<Option<&str>> = std::iter::once(first).chain(rivals).collect();
    let flow = |index: usize| -> Result<Flow<'_>, Error> {
        let (group, begun) = (&planned.groups[index], &begun[index]);
        Ok(match tcp[index] {
            Some(congestion) => Flow::Tcp(connection(stage, record.origin, group, congestion, begun)?),
            None if index == 0 && planned.delivery.program == Program::Uftp => {
                Flow::Uftp(uftp(stage, record.origin, group, cargo, begun)?)
            }
            None => Flow::Session(Box::new(Session {
                begun: Some(begun),
                ..session(order, stage, &record, (group, cargo), None, &watch)?
            })),
        })
    };
    let first = flow(0)?;
    let rivals = (1..).zip(&description.rivals).map(|(index, rival)| {
        let after = rival.after.map_or(Duration::ZERO, |after| after.0);
        Ok::<_, Error>((flow(index)?, after))
    });
    let contest = Contest {
        site,
        sharing,
        path,
        changes: &description.changes,
        origin: record.origin,
        first,
        rivals: rivals.collect::<Result<_, _>>()?,
        begun: &begun,
    };
    let stop = runner.stop;
    let outcome = contest.play(&|| stop()).map_err(run_failed(planned))?;
    drop(contest);
    let goodput_bps = goodput_bps(&outcome, begun[0].get().copied());
    recorder.stop()?;
    let outcome = concluded(runner, stage, path, &record, outcome, goodput_bps)?;
    runner.book.conclude(planned, &record, outcome)
}

/// Files the clients and the changes of the link. Returns the outcome of the run.
fn concluded(
    runner: &mut Runner,
    stage: &Stage,
    path: &SharedPath,
    record: &Record,
    outcome: Contested,
    goodput_bps: Option<f64>,
) -> Result<Outcome, Error> {
    let (site, planned) = (stage.site, stage.planned);
    let group = &planned.groups[0];
    let is_tcp = planned.delivery.program == Program::Tcp;
    let senders: Vec<&str> = planned.groups.iter().map(|group| group.sender.as_str()).collect();
    let receivers = planned.groups.iter().map(|group| {
        // A connection goes to one of them.
        let count = if is_tcp { 1 } else { group.receivers.len() };
        let at = |node: &String| Ok((node.clone(), site.attachment(node)?.interface));
        group.receivers.iter().take(count).map(at).collect::<io::Result<Vec<_>>>()
    });
    let receivers: Vec<_> = receivers.collect::<io::Result<_>>().map_err(run_failed(planned))?;
    let shared = Shared::load(&runner.book.db, record, path, &outcome, &receivers)?;
    let mut filing = measures::filing(&shared, path, &senders, outcome.together);
    let sentence = measures::sentence(&filing);
    let played = outcome.played;
    match goodput_bps {
        Some(goodput_bps) => filing.run("goodput", goodput_bps, "bit/s"),
        None => filing.lacking(None, "goodput", "bit/s", "the flows did not run together to the end"),
    }
    for (node, fared) in group.receivers.iter().zip(&played.clients) {
        session::client_done(&mut runner.book.db, record, node, fared)?;
    }
    for (at, bps) in outcome.rates.iter().skip(1) {
        record.event(&mut runner.book.db, *at, None, "event", &format!("the link has {}", rate(*bps)))?;
    }
    let mut failures = failures(group, &played.clients);
    failures.extend(outcome.rival_failures.into_iter().map(|reason| ("rival".to_owned(), reason)));
    Ok(Outcome {
        carried: Some(runner.carried(planned, record, &planned.groups)?),
        filing,
        sentence,
        duration: played.duration,
        failures,
        refused: played.refused,
        interrupted: played.interrupted,
    })
}

/// Bytes of the file that the first flow's median receiver has, from the flow's beginning to the end, as bits a second. `None` if the
/// flows did not run to the end. A session's receivers tell what they have five times a second.
fn goodput_bps(outcome: &Contested, begun: Option<Duration>) -> Option<f64> {
    let (_, end) = outcome.together?;
    let bytes: Vec<f64> =
        outcome.played.clients.iter().map(|fared| fared.told.received_bytes as f64).collect();
    let seconds = end.saturating_sub(begun?).as_secs_f64();
    Some(percentile(&bytes, 50.0)? * 8.0 / seconds).filter(|_| seconds > 0.0)
}

/// A transfer by uftp to all receivers of a group.
fn uftp<'c>(
    stage: &Stage<'c>,
    origin: Instant,
    group: &Group,
    cargo: &Cargo,
    begun: &'c OnceLock<Duration>,
) -> Result<Uftp<'c>, Error> {
    let at = |node: &String| Ok((node.clone(), stage.site.attachment(node)?.interface));
    let (from, to) = (at(&group.sender), group.receivers.iter().map(at).collect::<io::Result<_>>());
    let failed = run_failed(stage.planned);
    Ok(Uftp {
        site: stage.site,
        from: from.map_err(&failed)?,
        to: to.map_err(&failed)?,
        file: cargo.path().to_owned(),
        origin,
        begun,
    })
}

/// A TCP connection to the first receiver of a group.
fn connection<'c>(
    stage: &Stage<'c>,
    origin: Instant,
    group: &Group,
    congestion: &'c str,
    begun: &'c OnceLock<Duration>,
) -> Result<Connection<'c>, Error> {
    let failed = run_failed(stage.planned);
    let to = group.receivers.first();
    let to = to.ok_or_else(|| failed(io::Error::other("nobody is there to send to")))?;
    Ok(Connection {
        site: stage.site,
        from: group.sender.clone(),
        to: to.clone(),
        address: stage.site.attachment(to).map_err(failed)?.address,
        congestion,
        origin,
        begun,
    })
}
