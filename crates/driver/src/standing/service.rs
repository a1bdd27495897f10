//! The service: listens, decides, and keeps the history.

use std::{
    collections::BTreeMap,
    io,
    sync::mpsc::{Receiver, Sender, channel},
    time::{Duration, Instant},
};

use thiserror::Error;
use treecast_host::{
    clock::since_1970,
    poller::{Interest, Poller},
    service_manager::ServiceManager,
    stop::Stop,
    wake::Waker,
};
use treecast_proto::{
    announced::{Refusal, SessionKey},
    standing::{self, Decision, Ending, Standing},
};
use treecast_wire::announcement::Announcement;

use super::{
    Options, Rule,
    history::{self, Entry, Happened, History, HistoryError},
    interruptions::Interruptions,
    report::{Ended, Report},
    taken::{Taken, run_command},
};
use crate::{
    clock::Clock,
    discovery::{Listener, News},
};

const NEWS: u64 = 0;
const STOP: u64 = 1;
const ENDED: u64 = 2;

/// Why a standing receiver cannot run.
#[derive(Debug, Error)]
pub enum StandingError {
    #[error(transparent)]
    History(#[from] HistoryError),
    #[error("cannot run the standing receiver: {0}")]
    Io(#[from] io::Error),
}

/// Runs until `stop` is requested. Each entry of the history is handed to `on_entry`, too.
///
/// # Errors
/// If it cannot listen, or the history cannot be kept.
pub fn run(
    options: &Options,
    stop: &Stop,
    manager: &ServiceManager,
    on_entry: &mut dyn FnMut(&Entry),
) -> Result<(), StandingError> {
    let (history, entries) = History::open(&options.state)?;
    let rules = options.rules.iter().map(|rule| standing::Rule {
        senders: rule.senders.iter().map(|key| key.to_bytes()).collect(),
        max_bytes: rule.files.max_bytes,
    });
    let mut machine = Standing::new(rules.collect(), options.at_once);
    history::finished(&entries).for_each(|session| machine.finish(session));
    // Interfaces come and go while it runs.
    let listener = Listener::open(&[], machine.trusted())?;
    let (poller, waker) = (Poller::new()?, Waker::new()?);
    poller.add(&listener, NEWS, Interest::Read)?;
    poller.add(stop, STOP, Interest::Read)?;
    poller.add(&waker, ENDED, Interest::Read)?;
    let mut service = Service {
        options,
        machine,
        listener,
        history,
        taken: BTreeMap::new(),
        reports: channel(),
        waker,
        clock: Clock::start(),
        interruptions: Interruptions::default(),
        is_written: true,
        next_look: Instant::now(),
        waits_for: None,
        on_entry,
    };
    service.note(Entry::new(Happened::Started).because(format!(
        "{} with key {} and {} rules",
        options.name,
        options.identity.public_key(),
        options.rules.len()
    )));
    service.run_owed_commands(&history::owing_command(&entries))?;
    service.look_at_interfaces();
    manager.ready("waiting for sessions");
    let result = service.serve(poller, stop, manager);
    manager.stopping();
    service.taken.into_values().for_each(Taken::end);
    result
}

struct Service<'a> {
    options: &'a Options,
    machine: Standing,
    listener: Listener,
    history: History,
    taken: BTreeMap<SessionKey, Taken>,
    /// What threads report, and where.
    reports: (Sender<Report>, Receiver<Report>),
    waker: Waker,
    clock: Clock,
    interruptions: Interruptions,
    /// Whether all of the history is on the disk.
    is_written: bool,
    /// When the interfaces are looked at next.
    next_look: Instant,
    /// What was told last of why it does not listen on all interfaces.
    waits_for: Option<String>,
    on_entry: &'a mut dyn FnMut(&Entry),
}

impl Service<'_> {
    fn serve(
        &mut self,
        mut poller: Poller,
        stop: &Stop,
        manager: &ServiceManager,
    ) -> Result<(), StandingError> {
        loop {
            self.look_at_interfaces();
            let mut news = Vec::new();
            let next_question = self.listener.turn(&mut |one| news.push(one))?;
            for one in news {
                match one {
                    News::Announced(announcement) | News::Renewed(announcement) => {
                        self.decide(&announcement)?
                    }
                    News::Withdrawn(announcement) => self.machine.withdrawn(key(&announcement)),
                }
            }
            for (refusal, announcement) in self.listener.new_refusals() {
                self.note(Entry::of(Happened::Warning, &announcement).because(refused(refusal)));
            }
            while let Ok(report) = self.reports.1.try_recv() {
                match report {
                    Report::Ended(ended) => self.note_ended(&ended)?,
                    Report::Command(entry) => self.note(entry),
                }
            }
            self.try_again()?;
            self.end_overdue();
            manager.alive();
            if stop.is_requested() {
                self.note(Entry::new(Happened::Stopped));
                return Ok(());
            }
            let written = self.history.flush();
            self.note_written(written);
            poller.tokens(Some(self.timeout(next_question, manager)))?;
            self.waker.take();
        }
    }

    /// Listens on interfaces that have come. Until then, it waits, and says so once.
    fn look_at_interfaces(&mut self) {
        /// The times between two looks, while an interface is missing and otherwise.
        const SOON: Duration = Duration::from_secs(2);
        const LATER: Duration = Duration::from_secs(30);
        let now = Instant::now();
        if now < self.next_look {
            return;
        }
        let waits_for = match self.listener.follow(&self.options.interfaces) {
            Ok(waits_for) => waits_for.map(|what| format!("waiting for {what}")),
            Err(error) => Some(format!("cannot listen for announcements, and tries again: {error}")),
        };
        self.next_look = now + if waits_for.is_some() { SOON } else { LATER };
        if let Some(text) = waits_for
            && self.waits_for.as_ref() != Some(&text)
        {
            self.note(Entry::new(Happened::Warning).because(&text));
            self.waits_for = Some(text);
        }
    }

    fn note(&mut self, entry: Entry) {
        (self.on_entry)(&entry);
        let written = self.history.add(&entry);
        self.note_written(written);
    }

    /// Warns once when the history cannot be written. It is tried again.
    fn note_written(&mut self, written: Result<(), HistoryError>) {
        let was_written = std::mem::replace(&mut self.is_written, written.is_ok());
        if let Err(error) = written
            && was_written
        {
            self.note(Entry::new(Happened::Warning).because(error));
        }
    }

    fn decide(&mut self, announcement: &Announcement) -> Result<(), StandingError> {
        let rules = &self.options.rules;
        let has_name = |index: usize| rules[index].session.accepts(announcement.name());
        match self.machine.announced(self.clock.now(), announcement, has_name) {
            Decision::Nothing | Decision::Ignore { is_first: false, .. } => Ok(()),
            Decision::Ignore { why, is_first: true } => {
                self.note(Entry::of(Happened::Ignored, announcement).because(why.words()));
                Ok(())
            }
            Decision::Take { rule } => {
                let (sender, waker) = (self.reports.0.clone(), self.waker.clone());
                let spent = self.interruptions.spent(&key(announcement));
                let taken = Taken::begin(self.options, rule, announcement.clone(), spent, sender, waker)?;
                self.taken.insert(key(announcement), taken);
                let into = Some(rules[rule].into.clone());
                if !self.interruptions.is_repeating(&key(announcement)) {
                    self.note(Entry { into, ..Entry::of(Happened::Began, announcement) });
                }
                Ok(())
            }
        }
    }

    /// Decides anew about sessions whose pause is over, and that are announced still.
    fn try_again(&mut self) -> Result<(), StandingError> {
        let now = self.clock.now();
        if self.machine.deadline().is_none_or(|deadline| deadline > now) {
            return Ok(());
        }
        let announced: Vec<Announcement> = self.listener.open_sessions().cloned().collect();
        // What is not announced any more comes back with its next announcement.
        self.machine.forget_paused(now, &announced.iter().map(key).collect());
        announced.iter().try_for_each(|announcement| self.decide(announcement))
    }

    fn note_ended(&mut self, ended: &Ended) -> Result<(), StandingError> {
        let Some(taken) = self.taken.remove(&ended.session) else { return Ok(()) };
        let ending = match ended.ending {
            Ending::Away if taken.stop.is_time_up() => Ending::Limit,
            ending => ending,
        };
        let goes_on = self.machine.ended(self.clock.now(), ended.session, ending);
        let rule = &self.options.rules[taken.rule];
        let is_complete = ending == Ending::Complete;
        let event = match (is_complete, goes_on) {
            (true, _) => Happened::Received,
            (false, true) => Happened::Interrupted,
            (false, false) => Happened::GivenUp,
        };
        let owes_command = is_complete && rule.command.is_some();
        let text = match &ended.text {
            None if ending == Ending::Limit => Some("its time is over".to_owned()),
            text => text.clone(),
        };
        let entry = Entry::of(event, &taken.announcement);
        let (into, files, bytes) = (Some(rule.into.clone()), Some(ended.files), Some(ended.bytes));
        let entry = Entry { into, files, bytes, owes_command, text, ..entry };
        if !self.interruptions.is_repeated(ended.session, &entry, taken.began.elapsed()) {
            self.note(entry);
        }
        if owes_command {
            self.run_command(rule, Entry::of(Happened::CommandRun, &taken.announcement))?;
        }
        // Another session may have waited for this one's place.
        let announced: Vec<Announcement> = self.listener.open_sessions().cloned().collect();
        announced.iter().try_for_each(|announcement| self.decide(announcement))
    }

    /// Runs a rule's program on a thread of its own. `entry` is noted at its end.
    fn run_command(&mut self, rule: &Rule, entry: Entry) -> Result<(), StandingError> {
        let rule = rule.clone();
        let (reports, waker) = (self.reports.0.clone(), self.waker.clone());
        let run = move || {
            let result = run_command(&rule, entry.name.as_deref().unwrap_or_default());
            let entry = Entry { into: Some(rule.into), at: since_1970().as_secs(), ..entry };
            let entry = match result {
                Ok(()) => entry,
                Err(why) => Entry { event: Happened::CommandFailed, ..entry }.because(why),
            };
            // A service that has ended runs the program again when it starts.
            _ = reports.send(Report::Command(entry));
            waker.wake();
        };
        std::thread::Builder::new().name("command".into()).spawn(run)?;
        Ok(())
    }

    /// Runs what an earlier run has not come to.
    fn run_owed_commands(&mut self, owing: &[Entry]) -> Result<(), StandingError> {
        for entry in owing {
            let rules = self.options.rules.iter();
            let rule =
                rules.clone().find(|rule| rule.command.is_some() && Some(&rule.into) == entry.into.as_ref());
            if let Some(rule) = rule {
                let event = Happened::CommandRun;
                self.run_command(rule, Entry { event, owes_command: false, text: None, ..entry.clone() })?;
            }
        }
        Ok(())
    }

    /// Ends sessions whose time is over.
    fn end_overdue(&mut self) {
        let now = Instant::now();
        for taken in self.taken.values().filter(|taken| taken.until.is_some_and(|until| until <= now)) {
            taken.stop.end_time(Duration::ZERO);
        }
    }

    fn timeout(&self, next_question: Duration, manager: &ServiceManager) -> Duration {
        /// The longest wait, after which the clock is looked at.
        const LONGEST: Duration = Duration::from_secs(60);
        let (now, system_now) = (self.clock.now(), Instant::now());
        let again = self.machine.deadline().map(|deadline| deadline.saturating_duration_since(now));
        let overdue = self.taken.values().filter_map(|taken| taken.until).min();
        // One whose time is over ends soon, and wakes this thread.
        let overdue =
            overdue.map(|until| until.saturating_duration_since(system_now).max(Duration::from_millis(100)));
        let look = self.next_look.saturating_duration_since(system_now);
        let times =
            [Some(next_question), Some(look), again, overdue, manager.watchdog_interval(), Some(LONGEST)];
        times.into_iter().flatten().min().unwrap_or(LONGEST)
    }
}

/// Why an announcement is not believed, in words.
fn refused(refusal: Refusal) -> String {
    let why = format!("announcements are refused: {}", refusal.words());
    match refusal {
        Refusal::Early | Refusal::Expired => {
            why + "; the clock of this host or of the sender is wrong by more than 5 minutes"
        }
        Refusal::Forged | Refusal::Replayed | Refusal::TooMany => why,
    }
}

fn key(announcement: &Announcement) -> SessionKey {
    (announcement.key(), announcement.ticket().session)
}
