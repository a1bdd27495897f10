//! Runs in which flows share a link.

use std::{io, sync::OnceLock, time::Duration};

use treecast_measure::tables::rate;

use super::{
    Begun, Engine,
    book::{Outcome, failures},
    files::session,
    run_failed,
};
use crate::{
    Error,
    cargo::Cargo,
    document::{delivery::Program, sharing::RivalKind},
    plan::{Group, Planned, path::SharedPath},
    record::Record,
    session::{self, Session},
    sharing::{self, Connection, Contest, Flow, Shared},
    site::{Site, attachment},
};

impl Engine<'_> {
    /// Makes a run on a link that other flows use, too.
    pub fn play_shared(&mut self, run: Begun<'_>, cargo: &Cargo) -> Result<Outcome, Error> {
        let Begun { site, planned, record, recorder } = &run;
        let (site, planned) = (*site, *planned);
        let description = &self.book.order.experiment.networks[planned.network];
        let path = self.book.plan.networks[planned.network].path.as_ref();
        let shared = self.book.order.experiment.workload.sharing().zip(path);
        let Some((sharing, path)) = shared else {
            return Err(run_failed(planned)(io::Error::other("nothing is shared")));
        };
        let begun: Vec<OnceLock<Duration>> = planned.groups.iter().map(|_| OnceLock::new()).collect();
        let watch = |node: &str, pid| recorder.watch_process(record.node(node), pid);
        let flow = |is_tcp: bool, index: usize| -> Result<Flow<'_>, Error> {
            let (group, begun) = (&planned.groups[index], &begun[index]);
            Ok(match is_tcp {
                true => Flow::Tcp(connection(&run, group, &sharing.congestion, begun)?),
                false => Flow::Session(Box::new(Session {
                    begun: Some(begun),
                    ..session(self.book.order, &run, group, cargo, None, &watch)?
                })),
            })
        };
        let first = flow(planned.delivery.program == Program::Tcp, 0)?;
        let rivals = (1..).zip(&description.rivals).map(|(index, rival)| {
            let after = rival.after.map_or(Duration::ZERO, |after| after.0);
            Ok::<_, Error>((flow(rival.kind == RivalKind::Tcp, index)?, after))
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
        let stop = self.stop;
        let outcome = contest.play(&|| stop()).map_err(run_failed(planned))?;
        drop(contest);
        let Begun { record, recorder, .. } = run;
        recorder.stop()?;
        self.shared_outcome(planned, path, site, record, outcome)
    }

    fn shared_outcome(
        &mut self,
        planned: &Planned,
        path: &SharedPath,
        site: &dyn Site,
        record: Record,
        outcome: sharing::Outcome,
    ) -> Result<Outcome, Error> {
        let group = &planned.groups[0];
        let is_tcp = planned.delivery.program == Program::Tcp;
        let senders: Vec<&str> = planned.groups.iter().map(|group| group.sender.as_str()).collect();
        let receivers = planned.groups.iter().map(|group| {
            // A connection goes to one of them.
            let count = if is_tcp { 1 } else { group.receivers.len() };
            let at = |node: &String| Ok((node.clone(), attachment(site, node)?.interface));
            group.receivers.iter().take(count).map(at).collect::<io::Result<Vec<_>>>()
        });
        let receivers: Vec<_> = receivers.collect::<io::Result<_>>().map_err(run_failed(planned))?;
        let shared = Shared::load(&self.book.db, &record, path, &outcome, &receivers)?;
        let mut filing = sharing::filing(&shared, path, &senders, outcome.together);
        let sentence = sharing::sentence(&filing);
        let played = outcome.played;
        filing.run("duration", played.duration.as_secs_f64(), "s");
        for (node, fared) in group.receivers.iter().zip(&played.clients) {
            session::client_done(&mut self.book.db, &record, node, fared)?;
        }
        for (at, bps) in outcome.rates.iter().skip(1) {
            record.event(&mut self.book.db, *at, None, "event", &format!("the link has {}", rate(*bps)))?;
        }
        let mut failures = failures(group, &played.clients);
        failures.extend(outcome.rival_failures.into_iter().map(|reason| ("rival".to_owned(), reason)));
        Ok(Outcome {
            carried: Some(self.carried(planned, &record, &planned.groups)?),
            record,
            filing,
            sentence,
            duration: played.duration,
            failures,
            refused: played.refused,
            interrupted: played.interrupted,
        })
    }
}

/// A TCP connection to the first receiver of a group.
fn connection<'c>(
    run: &'c Begun<'_>,
    group: &Group,
    congestion: &'c str,
    begun: &'c OnceLock<Duration>,
) -> Result<Connection<'c>, Error> {
    let failed = run_failed(run.planned);
    let to = group.receivers.first();
    let to = to.ok_or_else(|| failed(io::Error::other("nobody is there to send to")))?;
    Ok(Connection {
        site: run.site,
        from: group.sender.clone(),
        to: to.clone(),
        address: attachment(run.site, to).map_err(failed)?.address,
        congestion,
        origin: run.record.origin,
        begun,
    })
}
