//! Posts what a standing receiver does, for `treecast status` and Prometheus.

use std::{collections::BTreeMap, sync::PoisonError};

use treecast_host::clock::since_1970;
use treecast_proto::{announced::SessionKey, standing::Demand};

use super::{
    Options,
    history::{Entry, Happened},
    taken::Taken,
};
use crate::status::{Board, LastSession, Phase, RuleStatus, StandingStatus, TakenStatus};

/// The state of a standing receiver, and where others read it.
#[derive(Debug)]
pub(super) struct Posting<'a> {
    options: &'a Options,
    board: &'a Board,
    status: StandingStatus,
}

impl<'a> Posting<'a> {
    /// The state of a receiver that has just started.
    pub fn new(options: &'a Options, board: &'a Board) -> Self {
        let rule = |rule: &super::Rule| RuleStatus {
            senders: rule.senders.len() as u64,
            into: rule.into.display().to_string(),
            audience: word(rule.audience).to_owned(),
            has_command: rule.command.is_some(),
        };
        let status = StandingStatus {
            name: options.name.clone(),
            key: options.identity.public_key().to_string(),
            state: std::path::absolute(&options.state)
                .unwrap_or_else(|_| options.state.clone())
                .display()
                .to_string(),
            started_at: since_1970().as_secs(),
            rules: options.rules.iter().map(rule).collect(),
            ..StandingStatus::default()
        };
        Self { options, board, status }
    }

    /// Takes note of what the receiver waits for, other than sessions.
    pub fn waits_for(&mut self, what: Option<&str>) {
        self.status.waits_for = what.map(str::to_owned);
    }

    /// Counts an entry of the history.
    pub fn note(&mut self, entry: &Entry) {
        let counts = &mut self.status.counts;
        let (files, bytes) = (entry.files.unwrap_or(0), entry.bytes.unwrap_or(0));
        match entry.event {
            Happened::Received => {
                counts.received += 1;
                counts.files += files;
                counts.bytes += bytes;
            }
            Happened::Interrupted => counts.interrupted += 1,
            Happened::GivenUp => counts.given_up += 1,
            Happened::Ignored => counts.ignored += 1,
            Happened::NotMeant => counts.not_meant += 1,
            Happened::CommandRun => counts.commands_run += 1,
            Happened::CommandFailed => counts.commands_failed += 1,
            Happened::Warning => counts.warnings += 1,
            Happened::Started | Happened::Stopped | Happened::Began | Happened::Finished => {}
        }
        if matches!(entry.event, Happened::Received | Happened::Interrupted | Happened::GivenUp) {
            self.status.last = Some(LastSession {
                at: entry.at,
                event: entry.event.words().to_owned(),
                session: entry.session.clone().unwrap_or_default(),
                name: entry.name.clone().unwrap_or_default(),
                files,
                bytes,
                text: entry.text.clone(),
            });
        }
    }

    /// Posts the state, with the sessions that are being received, and the numbers of commands that run and wait.
    pub fn post(
        &mut self,
        interfaces: Vec<String>,
        taken: &BTreeMap<SessionKey, Taken>,
        commands: (usize, usize),
    ) {
        let receiving = taken.values().map(|taken| {
            let progress = *taken.progress.lock().unwrap_or_else(PoisonError::into_inner);
            TakenStatus {
                session: format!("{:08x}", taken.announcement.ticket().session.0),
                name: taken.announcement.name().to_owned(),
                rule: taken.rule as u64 + 1,
                into: self.options.rules[taken.rule].into.display().to_string(),
                seconds: taken.began.elapsed().as_secs_f64(),
                received_bytes: progress.received_bytes,
                announced_bytes: progress.announced_bytes,
            }
        });
        (self.status.receiving, self.status.interfaces) = (receiving.collect(), interfaces);
        (self.status.commands_running, self.status.commands_waiting) = (commands.0 as u64, commands.1 as u64);
        let phase = if taken.is_empty() { Phase::Waiting } else { Phase::Running };
        self.board.update(|snapshot| {
            snapshot.phase = phase;
            snapshot.standing().into_iter().for_each(|standing| *standing = self.status.clone());
        });
    }
}

fn word(audience: Demand) -> &'static str {
    match audience {
        Demand::Anybody => "anybody",
        Demand::Standing => "standing",
        Demand::Named => "named",
    }
}
