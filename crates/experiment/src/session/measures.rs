//! Turns the results of a session into rows.

use treecast_driver::receive::LocalProgress;
use treecast_lab::process::Ended;
use treecast_measure::{Db, DbError, db::Row};

use super::Played;
use crate::{client::Fared, filing::Filing, plan::Group, record::Record, told::Told};

/// The measures of each client that gets files, with their units.
pub const MEASURES: &[(&str, &str)] = &[
    ("time", "s"),
    ("stopped_time", "s"),
    ("received", "B"),
    ("retransmitted", "B"),
    ("duplicate", "B"),
    ("dropped", "packets"),
    ("missing", ""),
    ("attempts", ""),
    ("feedback", "packets"),
    ("sender_repairs", "packets"),
    ("sender_packets", "packets"),
    ("load", "packets"),
    ("lost", ""),
    ("repairs", "packets"),
    ("requests", "packets"),
    ("served", ""),
    ("died", ""),
    ("wanted_deaths", ""),
    ("silence", "s"),
    ("processor", "s"),
    ("memory", "B"),
];

/// Files the result of a client as soon as it is known, so that an experiment that is killed keeps it. The
/// client's copy is not checked yet.
pub fn client_done(db: &mut Db, record: &Record, client: &str, fared: &Fared) -> Result<(), DbError> {
    if let Some(at) = fared.started {
        record.event(db, at, Some(client), "started", "")?;
    }
    for (at, reason) in &fared.earlier {
        record.event(db, *at, Some(client), "again", reason)?;
    }
    match (&fared.failure, fared.finished) {
        (Some(reason), _) => record.event(db, record.origin.elapsed(), Some(client), "failed", reason),
        (None, Some(at)) => record.event(db, at, Some(client), "finished", ""),
        (None, None) => Ok(()),
    }
}

/// Returns the rows and series of a session that delivers `size_bytes` bytes to a group. `stopped` is the
/// number of a client whose program was stopped for a while.
pub fn of_run(group: &Group, played: &Played, size_bytes: u64, stopped: Option<usize>) -> Filing {
    let mut filing = match &played.refused {
        Some(reason) => of_refused(&group.receivers, reason),
        None => of_clients(&group.receivers, played, size_bytes, stopped),
    };
    used(&mut filing, &group.sender, &played.server_used);
    filing.run("duration", played.duration.as_secs_f64(), "s");
    filing
}

/// Files the processor time and the memory that the programs of a node have used.
fn used(filing: &mut Filing, node: &str, ended: &Ended) {
    filing.node(node, "processor", (ended.cpu_user + ended.cpu_system).as_secs_f64(), "s");
    filing.node(node, "memory", ended.peak_memory_bytes as f64, "B");
}

/// The filing of each client.
fn of_clients(receivers: &[String], played: &Played, size_bytes: u64, stopped: Option<usize>) -> Filing {
    let mut filing = Filing::default();
    let sent = played.sent.all();
    for (index, (name, fared)) in receivers.iter().zip(&played.clients).enumerate() {
        let time = if stopped == Some(index) { "stopped_time" } else { "time" };
        if fared.has_died {
            filing.node(name, "died", 1.0, "");
            continue;
        }
        match (fared.run_seconds(), &fared.failure) {
            (Some(seconds), _) => filing.node(name, time, seconds, "s"),
            (None, why) => {
                let why = why.as_deref().unwrap_or("it never finished");
                filing.lacking(Some(name), time, "s", &format!("{name}: {why}"));
            }
        }
        let is_whole = fared.failure.is_none() && !fared.is_cut_short;
        let received = match is_whole {
            true if fared.objects.is_empty() => size_bytes,
            true => fared.objects.iter().map(|object| object.size_bytes).sum(),
            false => fared.told.received_bytes,
        };
        let told = &fared.told;
        let missing = 1.0 - (received as f64 / size_bytes.max(1) as f64).min(1.0);
        filing.node(name, "missing", if is_whole { 0.0 } else { missing }, "");
        filing.node(name, "received", received as f64, "B");
        filing.node(name, "retransmitted", told.retransmitted_bytes as f64, "B");
        filing.node(name, "duplicate", told.duplicate_bytes as f64, "B");
        filing.node(name, "dropped", told.dropped_packets as f64, "packets");
        filing.node(name, "attempts", f64::from(fared.attempts), "");
        used(&mut filing, name, &fared.ended);
        told.local.iter().for_each(|local| of_local(&mut filing, name, told, local, sent.to_all));
    }
    if played.wanted_deaths > 0 {
        filing.run("wanted_deaths", played.wanted_deaths as f64, "");
    }
    filing.run("sender_repairs", sent.repairs as f64, "packets");
    filing.run("sender_packets", (sent.to_all + sent.to_some) as f64, "packets");
    sent.feedback.iter().for_each(|heard| filing.run("feedback", *heard as f64, "packets"));
    for (name, silence) in receivers.iter().zip(&played.silences) {
        filing.node(name, "silence", silence.as_secs_f64(), "s");
    }
    filing
}

/// Files the measures of a receiver of a session with local groups, to which the sender has sent `to_all` packets.
fn of_local(filing: &mut Filing, name: &str, told: &Told, local: &LocalProgress, to_all: u64) {
    let lost = 1.0 - local.data_blocks as f64 / to_all.max(1) as f64;
    let load = to_all + local.repair_blocks + local.sent_blocks;
    filing.node(name, "load", load as f64, "packets");
    filing.node(name, "lost", lost.clamp(0.0, 1.0), "");
    filing.node(name, "repairs", local.sent_blocks as f64, "packets");
    filing.node(name, "requests", (local.requests + local.requests_above) as f64, "packets");
    filing.node(name, "served", told.most_served as f64, "");
}

/// The filing of a run that the program refused to make, in its own words.
fn of_refused(receivers: &[String], reason: &str) -> Filing {
    let mut filing = Filing::default();
    receivers.iter().for_each(|name| filing.lacking(Some(name), "time", "s", reason));
    let refused = Row { note: reason.to_owned(), ..Row::of_run("refused", 1.0, "") };
    filing.rows.push((None, refused));
    filing
}
