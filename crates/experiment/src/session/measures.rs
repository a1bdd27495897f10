//! Turns the results of a session into rows.

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
    played.server_used.iter().for_each(|ended| used(&mut filing, &group.sender, ended));
    let of_sender = played.figures.measures().map(|(measure, value)| (&group.sender, measure, value));
    let of_receivers = group.receivers.iter().zip(&played.clients).flat_map(|(name, fared)| {
        fared.told.figures.measures().map(move |(measure, value)| (name, measure, value))
    });
    of_sender.chain(of_receivers).for_each(|(node, measure, value)| filing.node(node, &measure, value, ""));
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
    let sent = &played.sent;
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
        let received = match (is_whole, &fared.objects) {
            (true, None) => size_bytes,
            (true, Some(objects)) => objects.iter().map(|object| object.size_bytes).sum(),
            (false, _) => fared.told.received_bytes,
        };
        let told = &fared.told;
        let missing = 1.0 - (received as f64 / size_bytes.max(1) as f64).min(1.0);
        filing.node(name, "missing", if is_whole { 0.0 } else { missing }, "");
        filing.node(name, "received", received as f64, "B");
        filing.node(name, "retransmitted", told.retransmitted_bytes as f64, "B");
        filing.node(name, "duplicate", told.duplicate_bytes as f64, "B");
        filing.node(name, "dropped", told.dropped_packets as f64, "packets");
        filing.node(name, "attempts", f64::from(fared.attempts), "");
        if played.server_used.is_some() {
            used(&mut filing, name, &fared.ended);
        }
        if let Some(Some(local)) = played.locals.get(index) {
            local.file(&mut filing, name);
        }
    }
    if played.wanted_deaths > 0 {
        filing.run("wanted_deaths", played.wanted_deaths as f64, "");
    }
    played.most_served.iter().for_each(|served| filing.run("served", *served as f64, ""));
    filing.run("sender_repairs", sent.repairs as f64, "packets");
    filing.run("sender_packets", (sent.to_all + sent.to_some) as f64, "packets");
    sent.feedback.iter().for_each(|heard| filing.run("feedback", *heard as f64, "packets"));
    for (name, silence) in receivers.iter().zip(&played.silences) {
        filing.node(name, "silence", silence.as_secs_f64(), "s");
    }
    filing
}

/// The part of a receiver in local groups.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Local {
    /// The packets that came to the receiver or left it.
    pub load_packets: u64,
    /// The share of the sender's packets that did not come, from 0 to 1.
    pub lost: f64,
    pub repairs: u64,
    pub requests: u64,
    /// The most receivers and groups that have reported to it at one time.
    pub served: u64,
}

impl Local {
    /// Returns what a receiver has told of its part, where the sender has sent `to_all` packets to all.
    pub fn told(told: &Told, to_all: u64) -> Option<Self> {
        let local = told.local?;
        Some(Self {
            load_packets: to_all + local.repair_blocks + local.sent_blocks,
            lost: Self::lost(local.data_blocks, to_all),
            repairs: local.sent_blocks,
            requests: local.requests + local.requests_above,
            served: told.most_served,
        })
    }

    /// Returns the share of `sent` packets that did not come, when `came` did.
    pub fn lost(came: u64, sent: u64) -> f64 {
        (1.0 - came as f64 / sent.max(1) as f64).clamp(0.0, 1.0)
    }

    fn file(&self, filing: &mut Filing, name: &str) {
        filing.node(name, "load", self.load_packets as f64, "packets");
        filing.node(name, "lost", self.lost, "");
        filing.node(name, "repairs", self.repairs as f64, "packets");
        filing.node(name, "requests", self.requests as f64, "packets");
        filing.node(name, "served", self.served as f64, "");
    }
}

/// The filing of a run that the program refused to make, in its own words.
fn of_refused(receivers: &[String], reason: &str) -> Filing {
    let mut filing = Filing::default();
    receivers.iter().for_each(|name| filing.lacking(Some(name), "time", "s", reason));
    let refused = Row { note: reason.to_owned(), ..Row::of_run("refused", 1.0, "") };
    filing.rows.push((None, refused));
    filing
}
