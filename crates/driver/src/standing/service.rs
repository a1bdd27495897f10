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
    standing::{self, Decision, Ending, Ignored, Standing},
};
use treecast_wire::{
    announcement::{Announcement, ForStanding},
    message::{CommandResult, PROTOCOL_VERSION, Reason},
};

use super::{
    Options,
    command_end::CommandEnd,
    commands::Commands,
    history::{self, Entry, Happened, History, HistoryError},
    interruptions::Interruptions,
    posting::Posting,
    report::{CommandEnded, Ended, Report},
    taken::Taken,
    telling::Telling,
};
use crate::{
    clock::Clock,
    discovery::{Listener, News},
    receive::{self, ReceiveOptions},
    status::Board,
    words::counted,
};

const NEWS: u64 = 0;
const STOP: u64 = 1;
const ENDED: u64 = 2;

/// The time for which a sender is looked for that is to be told the result of a command.
const TELL_TIME: Duration = Duration::from_secs(20);

/// The reason why a standing receiver cannot run.
#[derive(Debug, Error)]
pub enum StandingError {
    #[error(transparent)]
    History(#[from] HistoryError),
    #[error("cannot run the standing receiver: {0}")]
    Io(#[from] io::Error),
}

/// Runs until `stop` is requested. Each entry of the history is handed to `on_entry`, too. What the service does is on the board.
///
/// # Errors
/// If it cannot listen, or the history cannot be kept.
pub fn run(
    options: &Options,
    stop: &Stop,
    manager: &ServiceManager,
    board: &Board,
    on_entry: &mut dyn FnMut(&Entry),
) -> Result<(), StandingError> {
    let (history, entries) = History::open(&options.state)?;
    let rules = options.rules.iter().map(|rule| standing::Rule {
        senders: rule.senders.iter().map(|key| key.to_bytes()).collect(),
        max_bytes: rule.files.max_bytes,
        audience: rule.audience,
        in_order: rule.in_order,
    });
    let mut machine = Standing::new(rules.collect(), options.at_once);
    for (session, entry) in history::received(&entries) {
        let name = entry.name.as_deref().unwrap_or_default();
        machine.received(session, name, entry.begun.unwrap_or(0), options.rules_into(entry.into.as_deref()));
    }
    // Interfaces come and go while it runs.
    let listener = Listener::open(&[], machine.trusted())?;
    let (poller, waker) = (Poller::new()?, Waker::new()?);
    poller.add(&listener, NEWS, Interest::Read)?;
    poller.add(stop, STOP, Interest::Read)?;
    poller.add(&waker, ENDED, Interest::Read)?;
    let reports = channel();
    let mut service = Service {
        commands: Commands::new(reports.0.clone(), waker.clone()),
        telling: Telling::from_history(&entries),
        ends: Stop::new()?,
        options,
        machine,
        listener,
        history,
        taken: BTreeMap::new(),
        reports,
        waker,
        clock: Clock::start(),
        interruptions: Interruptions::default(),
        is_written: true,
        next_look: Instant::now(),
        waits_for: None,
        status: Posting::new(options, board),
        on_entry,
    };
    service.note(Entry::new(Happened::Started).because(format!(
        "{} with key {} and {}",
        options.name,
        options.identity.public_key(),
        counted(options.rules.len(), "rule")
    )));
    service.run_owed_commands(&history::owing_command(&entries))?;
    service.look_at_interfaces();
    manager.ready("waiting for sessions");
    let result = service.serve(poller, stop, manager);
    manager.stopping();
    service.ends.request();
    service.taken.into_values().for_each(Taken::end);
    result
}

struct Service<'a> {
    options: &'a Options,
    machine: Standing,
    listener: Listener,
    history: History,
    taken: BTreeMap<SessionKey, Taken>,
    commands: Commands,
    telling: Telling,
    /// Requested when the service ends, for threads that tell senders something.
    ends: Stop,
    /// The channel of the threads' reports.
    reports: (Sender<Report>, Receiver<Report>),
    waker: Waker,
    clock: Clock,
    interruptions: Interruptions,
    /// Whether all of the history is on the disk.
    is_written: bool,
    /// The time at which the interfaces are looked at next.
    next_look: Instant,
    /// The reason that was told last for not listening on all interfaces.
    waits_for: Option<String>,
    /// The state that others on this host see of the service.
    status: Posting<'a>,
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
                        self.decide(&announcement)?;
                        self.tell_if_due(&announcement)?;
                    }
                    News::Withdrawn(announcement) => self.machine.withdrawn(key(&announcement)),
                    News::Problem(_) => {}
                }
            }
            for (refusal, announcement) in self.listener.new_refusals() {
                self.note(Entry::of(Happened::Warning, &announcement).because(refused(refusal)));
            }
            while let Ok(report) = self.reports.1.try_recv() {
                match report {
                    Report::Admitted(session) => self.note_began(session),
                    Report::Ended(ended) => self.note_ended(&ended)?,
                    Report::Command(ended) => self.note_command(*ended)?,
                    Report::Told { session, audience, is_told } => {
                        self.telling.ended(&session, audience, is_told);
                    }
                }
            }
            self.try_again()?;
            self.end_overdue();
            manager.alive();
            if stop.is_requested() {
                self.note(Entry::new(Happened::Stopped));
                return Ok(());
            }
            self.post_status();
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
            Ok(waits_for) => {
                let waits_for = waits_for.map(|what| format!("waiting for {what}"));
                let problem = self.listener.problem();
                let problem =
                    problem.map(|why| format!("does not hear all announcements, and tries again: {why}"));
                waits_for.into_iter().chain(problem).reduce(|one, other| format!("{one}; {other}"))
            }
            Err(error) => Some(format!("cannot listen for announcements, and tries again: {error}")),
        };
        self.next_look = now + if waits_for.is_some() { SOON } else { LATER };
        self.status.waits_for(waits_for.as_deref());
        if let Some(text) = waits_for
            && self.waits_for.as_ref() != Some(&text)
        {
            self.note(Entry::new(Happened::Warning).because(&text));
            self.waits_for = Some(text);
        }
    }

    /// Shows others on this host what the service does.
    fn post_status(&mut self) {
        let interfaces = self.listener.interface_names().map(str::to_owned).collect();
        self.status.post(interfaces, &self.taken, self.commands.counts());
    }

    fn note(&mut self, entry: Entry) {
        self.status.note(&entry);
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
                let event = if why == Ignored::Audience { Happened::NotMeant } else { Happened::Ignored };
                self.note(Entry::of(event, announcement).because(why.words()));
                Ok(())
            }
            Decision::Take { rule } => {
                let (sender, waker) = (self.reports.0.clone(), self.waker.clone());
                let spent = self.interruptions.spent(&key(announcement));
                let taken = Taken::begin(self.options, rule, announcement.clone(), spent, sender, waker)?;
                self.taken.insert(key(announcement), taken);
                Ok(())
            }
        }
    }

    /// Takes note that a session has begun, once for each try that does not end as the one before it.
    fn note_began(&mut self, session: SessionKey) {
        let Some(taken) = self.taken.get_mut(&session).filter(|taken| !taken.is_noted) else { return };
        taken.is_noted = true;
        let into = Some(self.options.rules[taken.rule].into.clone());
        let entry = Entry { into, ..Entry::of(Happened::Began, &taken.announcement) };
        if !self.interruptions.is_repeating(&session) {
            self.note(entry);
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
        if matches!(ended.ending, Ending::NotMeant(_)) {
            return self.note_not_meant(ended);
        }
        if self.is_over_unasked(ended) {
            self.machine.ended(self.clock.now(), ended.session, ended.ending);
            self.taken.remove(&ended.session);
            return self.decide_again();
        }
        self.note_began(ended.session);
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
        let entry = Entry { into, files, bytes, owes_command, text, rule: Some(rule.mark()), ..entry };
        if !self.interruptions.is_repeated(ended.session, &entry, taken.began.elapsed()) {
            self.note(entry);
        }
        if is_complete {
            self.note_complete(&taken)?;
        }
        self.decide_again()
    }

    /// Whether a session for certain receivers was over before its sender could say whether this is one of them.
    fn is_over_unasked(&self, ended: &Ended) -> bool {
        let is_unasked = |taken: &Taken| {
            let audience = taken.announcement.audience.standing;
            !taken.is_noted && matches!(audience, ForStanding::Named { .. })
        };
        ended.ending == Ending::Away
            && self.taken.get(&ended.session).is_some_and(is_unasked)
            && self.listener.open_sessions().all(|announcement| key(announcement) != ended.session)
    }

    /// A session is on the disk.
    fn note_complete(&mut self, taken: &Taken) -> Result<(), StandingError> {
        let (rule, announcement) = (&self.options.rules[taken.rule], &taken.announcement);
        let rules = self.options.rules_into(Some(&rule.into));
        self.machine.received(key(announcement), announcement.name(), announcement.begun, rules);
        if rule.command.is_some() {
            self.commands.add(rule, Entry::of(Happened::CommandRun, announcement))?;
        } else {
            // Its sender knows that.
            self.telling.note_none(key(announcement));
            self.telling.ended(&key(announcement), announcement.audience.standing, true);
        }
        Ok(())
    }

    /// A session is for other receivers than this one.
    fn note_not_meant(&mut self, ended: &Ended) -> Result<(), StandingError> {
        self.machine.ended(self.clock.now(), ended.session, ended.ending);
        if let Some(taken) = self.taken.remove(&ended.session) {
            let text = ended.text.as_deref().unwrap_or_default();
            self.note(Entry::of(Happened::NotMeant, &taken.announcement).because(text));
        }
        self.decide_again()
    }

    /// Decides anew about all announced sessions: one may have waited for another one's place.
    fn decide_again(&mut self) -> Result<(), StandingError> {
        let announced: Vec<Announcement> = self.listener.open_sessions().cloned().collect();
        announced.iter().try_for_each(|announcement| self.decide(announcement))
    }

    /// A command has ended: the next one may run in its folder, and the sender of its session may wait for the result.
    fn note_command(&mut self, ended: CommandEnded) -> Result<(), StandingError> {
        self.commands.ended(&ended.folder)?;
        let session = ended.entry.key();
        self.note(ended.entry);
        let Some(session) = session else { return Ok(()) };
        self.telling.note(session, ended.end);
        let announced = self.listener.open_sessions().find(|announcement| key(announcement) == session);
        let announced = announced.cloned();
        announced.map_or(Ok(()), |announcement| self.tell_if_due(&announcement))
    }

    /// Tells the sender of a session that is complete how its command went, if it waits for that and does not know it yet.
    fn tell_if_due(&mut self, announcement: &Announcement) -> Result<(), StandingError> {
        let Some(end) = self.telling.due(announcement) else { return Ok(()) };
        let (session, audience) = (key(announcement), announcement.audience.standing);
        let options = ReceiveOptions {
            identity: Some(self.options.identity.clone()),
            secure_only: true,
            connect_timeout: TELL_TIME,
            ..ReceiveOptions::new(announcement.ticket().clone(), self.options.state.clone())
        };
        let result = self.result(&end)?;
        let (reports, waker, ends) = (self.reports.0.clone(), self.waker.clone(), self.ends.clone());
        let tell = move || {
            let is_told = receive::tell_result(&options, &result, &ends).is_ok();
            _ = reports.send(Report::Told { session, audience, is_told });
            waker.wake();
        };
        treecast_host::thread::spawn("tells", tell)?;
        Ok(())
    }

    /// The message about a command that has ended.
    fn result(&self, end: &CommandEnd) -> Result<CommandResult, StandingError> {
        let mut result =
            CommandResult::new(PROTOCOL_VERSION, &self.options.name).map_err(io::Error::other)?;
        let line = if end.line.is_empty() { end.why.as_deref().unwrap_or_default() } else { &end.line };
        let line = match (end.code, &end.why) {
            (None, Some(why)) => why,
            _ => line,
        };
        (result.code, result.time) = (end.code.unwrap_or(-1), end.time);
        result.line = Reason::new(line);
        Ok(result)
    }

    /// Runs what an earlier run has not come to, by the rule that took the session. Trust is decided anew: the rule may be another one now.
    fn run_owed_commands(&mut self, owing: &[Entry]) -> Result<(), StandingError> {
        for entry in owing {
            let owed = Entry { owes_command: false, text: None, files: None, bytes: None, ..entry.clone() };
            match self.options.rule_of(entry) {
                Some(rule) => self.commands.add(rule, owed)?,
                None => {
                    let event = Happened::CommandFailed;
                    let text = "it was not run: no rule is now as the one was that took the session, or trusts its sender";
                    let session = owed.key();
                    self.note(Entry { event, at: since_1970().as_secs(), ..owed }.because(text));
                    let end = CommandEnd { line: text.to_owned(), ..CommandEnd::default() };
                    session.into_iter().for_each(|session| self.telling.note(session, end.clone()));
                }
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
        // What is shown of a session that is being received is a second old at most.
        let shown = (!self.taken.is_empty()).then_some(Duration::from_secs(1));
        let look = self.next_look.saturating_duration_since(system_now);
        let times = [
            Some(next_question),
            Some(look),
            again,
            overdue,
            shown,
            manager.watchdog_interval(),
            Some(LONGEST),
        ];
        times.into_iter().flatten().min().unwrap_or(LONGEST)
    }
}

/// The reason why an announcement is not believed, in words.
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
