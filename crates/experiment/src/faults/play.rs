//! One session with its faults: which program is started and killed when, and the outcome.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    process::Command,
    sync::mpsc::{self, Receiver, RecvTimeoutError, Sender},
    time::{Duration, Instant},
};

use treecast_host::process::die_with_parent;

use super::{
    fetched::Fetched,
    files::{Files, SmallDisk, redate},
    network::{change_addresses, cut_connections, mend_connections},
    program::{Exit, Program, Told, Who},
    schedule::{Fault, RECEIVERS, SMALL_DISK, Schedule},
};
use treecast_lab::{Daemon, Error, Lab, Result, events};

/// The time by which everything must have ended. Otherwise the session has failed.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// The time within which the sender must end after all receivers have.
const SENDER_TIME: Duration = Duration::from_secs(20);

/// The longest delay until a receiver is killed. It is killed just when it has reported how much it has
/// fetched, so that this is known.
const KILL_DELAY: Duration = Duration::from_millis(400);

/// The words of a sender to which no receiver has come.
const NOBODY: &str = "receivers came within";

/// The node with both routers.
const ROUTER: &str = "router0";

/// The time by which a router must be ready.
const ROUTER_TIME: Duration = Duration::from_secs(30);

/// The sender's rate in bits a second.
const RATE: &str = "30M";

/// The largest percentage of the bytes that a receiver may fetch twice.
const TWICE_PERCENT: u64 = 2;

/// An action at a certain time.
#[derive(Debug)]
enum Action {
    Fault(Fault),
    StartReceiver(usize),
    StartSender,
    Plug(Who),
    FreeDisk,
    EnableRouter,
    StartMulticastRouter,
}

/// A receiver, over all its starts.
#[derive(Default)]
struct Member {
    program: Option<Program>,
    /// The time by which the receiver is killed, how long it stays away, and by how many seconds its files'
    /// dates are changed meanwhile.
    condemned: Option<(Instant, Duration, i64)>,
    exit: Option<Exit>,
    fetched: Fetched,
}

pub struct DisturbedSession<'a> {
    lab: &'a Lab,
    treecast: &'a Path,
    schedule: &'a Schedule,
    folder: PathBuf,
    files: Files,
    disk: Option<SmallDisk>,
    agenda: BTreeMap<Instant, Vec<Action>>,
    /// The multicast router. `None` while it is away.
    multicast_router: Option<Daemon>,
    members: Vec<Member>,
    sender: Option<Program>,
    sender_exit: Option<Exit>,
    /// The number of times that a sender was started.
    senders: usize,
    has_begun: bool,
    runs: usize,
    told: (Sender<Told>, Receiver<Told>),
}

/// The outcome of a session.
#[derive(Debug)]
pub struct Outcome {
    /// The largest share of all bytes that a receiver which runs at the end has fetched twice.
    pub twice: f64,
    pub failures: Vec<String>,
}

/// Plays a schedule in `folder`, which must be empty.
pub fn play(lab: &Lab, treecast: &Path, schedule: &Schedule, folder: &Path) -> Result<Outcome> {
    let made = || Error::system(format!("make files in {}", folder.display()));
    let files = Files::make(folder, schedule.seed).map_err(made())?;
    let disk = SmallDisk::mount(folder.join("small"), 2 * files.bytes()).map_err(made())?;
    let mut session = DisturbedSession {
        lab,
        treecast,
        schedule,
        folder: folder.to_owned(),
        files,
        disk: Some(disk),
        agenda: BTreeMap::new(),
        multicast_router: None,
        members: (0..RECEIVERS).map(|_| Member::default()).collect(),
        sender: None,
        sender_exit: None,
        senders: 0,
        has_begun: false,
        runs: 0,
        told: mpsc::channel(),
    };
    let result = session.run();
    session.end()?;
    result?;
    Ok(session.judge())
}

impl DisturbedSession<'_> {
    fn run(&mut self) -> Result<()> {
        self.start_multicast_router()?;
        let deadline = Instant::now() + TIME_LIMIT;
        self.start_sender()?;
        let ticket = self.folder.join("ticket");
        while !ticket.exists() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        for receiver in 0..RECEIVERS {
            self.start_receiver(receiver)?;
        }
        while !self.is_over() && Instant::now() < deadline {
            let condemned = self.members.iter().filter_map(|member| Some(member.condemned?.0));
            let next = self.agenda.keys().next().copied().into_iter().chain(condemned).min();
            let wait = next.unwrap_or(deadline).min(deadline).saturating_duration_since(Instant::now());
            match self.told.1.recv_timeout(wait) {
                Ok(told) => self.hear(told)?,
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
            }
            self.act(Instant::now())?;
        }
        Ok(())
    }

    /// Whether the session is over: all receivers have ended and are not started again, or they have everything
    /// and the sender has ended.
    fn is_over(&self) -> bool {
        let sender_is_done = self.sender.is_none() && self.sender_exit == Some(Exit::Code(0));
        let is_done = |receiver: usize| {
            self.members[receiver].program.is_none()
                || sender_is_done && self.files.check(&self.folder_of(receiver), true).is_ok()
        };
        self.senders > 0 && self.agenda.is_empty() && self.runs > 0 && (0..RECEIVERS).all(is_done)
    }

    fn hear(&mut self, told: Told) -> Result<()> {
        match told {
            Told::Started { run } => {
                self.has_begun |= self.sender.as_ref().is_some_and(|sender| sender.run == run);
                if self.senders == 1 && self.agenda.is_empty() {
                    self.set_agenda(Instant::now());
                }
            }
            Told::Full { who, run } => self.members[who].fetched.full(run),
            Told::Room { who, run } => self.members[who].fetched.room(run),
            Told::Fetched { who, run, report } => {
                let member = &mut self.members[who];
                member.fetched.report(run, report);
                if member.program.as_ref().is_some_and(|program| program.run == run)
                    && let Some((at, ..)) = &mut member.condemned
                {
                    *at = Instant::now();
                }
            }
            Told::Gone { who: Some(receiver), run, exit } => {
                let member = &mut self.members[receiver];
                if member.program.take_if(|program| program.run == run).is_some() {
                    member.exit = Some(exit);
                }
            }
            Told::Gone { who: None, run, exit } => {
                if self.sender.take_if(|program| program.run == run).is_some() {
                    self.sender_exit = Some(exit);
                }
            }
        }
        Ok(())
    }

    fn set_agenda(&mut self, now: Instant) {
        for (at, fault) in &self.schedule.faults {
            self.later(now + *at, Action::Fault(fault.clone()));
        }
    }

    fn act(&mut self, now: Instant) -> Result<()> {
        for receiver in 0..RECEIVERS {
            let due = self.members[receiver].condemned.take_if(|(at, ..)| *at <= now);
            if let Some((_, away, dated_seconds)) = due {
                self.kill_receiver(receiver, now + away, dated_seconds)?;
            }
        }
        while let Some(entry) = self.agenda.first_entry()
            && *entry.key() <= now
        {
            for action in entry.remove() {
                self.take(action, now)?;
            }
        }
        Ok(())
    }

    fn take(&mut self, action: Action, now: Instant) -> Result<()> {
        match action {
            Action::Fault(Fault::KillReceiver { receiver, away, dated_seconds }) => {
                let member = &mut self.members[receiver];
                if member.program.is_some() {
                    member.condemned.get_or_insert((now + KILL_DELAY, away, dated_seconds));
                }
            }
            Action::Fault(Fault::KillSender { away }) => {
                if let Some(sender) = self.sender.take() {
                    self.kill(&sender)?;
                    self.later(now + away, Action::StartSender);
                }
            }
            Action::Fault(Fault::Unplug { receiver, time }) => {
                self.plug(receiver, false)?;
                self.later(now + time, Action::Plug(receiver));
            }
            Action::Fault(Fault::FillDisk { time }) => {
                let filled = self.disk.as_ref().map_or(Ok(()), SmallDisk::fill);
                filled.map_err(Error::system("fill a small disk"))?;
                if let Some(time) = time {
                    self.later(now + time, Action::FreeDisk);
                }
            }
            Action::Fault(Fault::ChangeAddress { receiver }) => {
                change_addresses(self.lab, &node_of(Some(receiver)), true)?;
            }
            Action::Fault(Fault::CutConnection { receiver, resets }) => {
                cut_connections(self.lab, &node_of(Some(receiver)), resets)?;
            }
            Action::Fault(Fault::DisableRouter { time }) => {
                self.lab.begin(&router_off())?;
                self.later(now + time, Action::EnableRouter);
            }
            Action::EnableRouter => self.lab.end(&router_off())?,
            Action::Fault(Fault::RestartMulticastRouter { kills, away }) => {
                if let Some(router) = self.multicast_router.take() {
                    router.end_by(if kills { libc::SIGKILL } else { libc::SIGTERM })?;
                    self.later(now + away, Action::StartMulticastRouter);
                }
            }
            Action::StartMulticastRouter => self.start_multicast_router()?,
            Action::FreeDisk => self.free_disk(now)?,
            Action::Plug(who) => self.plug(who, true)?,
            Action::StartReceiver(receiver) => self.start_receiver(receiver)?,
            Action::StartSender => self.start_sender()?,
        }
        Ok(())
    }

    fn free_disk(&mut self, now: Instant) -> Result<()> {
        let freed = self.disk.as_ref().map_or(Ok(()), SmallDisk::free);
        freed.map_err(Error::system("make room on a small disk"))?;
        match self.members[SMALL_DISK].program {
            Some(_) => {
                let condemned = (now + KILL_DELAY, Duration::from_millis(100), 0);
                self.members[SMALL_DISK].condemned = Some(condemned);
            }
            // The receiver ended with an error, and there is room again.
            None if !self.is_to_start(SMALL_DISK) => self.start_receiver(SMALL_DISK)?,
            None => {}
        }
        Ok(())
    }

    /// Schedules an action for a time to come.
    fn later(&mut self, at: Instant, action: Action) {
        self.agenda.entry(at).or_default().push(action);
    }

    fn is_to_start(&self, receiver: usize) -> bool {
        let is_it = |action: &Action| matches!(action, Action::StartReceiver(other) if *other == receiver);
        self.agenda.values().flatten().any(is_it)
    }

    fn plug(&self, who: Who, is_up: bool) -> Result<()> {
        let node = node_of(who);
        let interface = self.lab.node(&node)?.interfaces[0].name.clone();
        self.lab.set_link_up(&node, &interface, is_up)
    }

    fn kill_receiver(&mut self, receiver: usize, back: Instant, dated_seconds: i64) -> Result<()> {
        let Some(program) = self.members[receiver].program.take() else { return Ok(()) };
        self.kill(&program)?;
        if dated_seconds != 0 {
            let redated = redate(&self.folder_of(receiver), dated_seconds);
            redated.map_err(Error::system("date files"))?;
        }
        self.later(back, Action::StartReceiver(receiver));
        Ok(())
    }

    fn start_multicast_router(&mut self) -> Result<()> {
        let mut command = Command::new(self.treecast);
        command.arg("mroute");
        die_with_parent(&mut command);
        let mut router = self.lab.start_daemon(ROUTER, command)?;
        router.wait_for_line("ready", ROUTER_TIME)?;
        self.multicast_router = Some(router);
        Ok(())
    }

    fn start_sender(&mut self) -> Result<()> {
        let mut command = Command::new(self.treecast);
        command.args(["send", "--json", "--rate", RATE, "--wait"]).arg(RECEIVERS.to_string());
        command.args(["--wait-timeout", "15", "--linger", "12", "--expires", "1h"]);
        command.args(self.schedule.repair);
        command.arg("--session").arg(self.folder.join("session"));
        command.arg("--ticket-file").arg(self.folder.join("ticket")).arg(&self.files.folder);
        self.senders += 1;
        self.has_begun = false;
        self.sender = Some(self.start(None, command)?);
        Ok(())
    }

    fn start_receiver(&mut self, receiver: usize) -> Result<()> {
        let mut command = Command::new(self.treecast);
        command
            .args(["receive", "--json", "--connect-timeout", "20", "--wait-for-space", "5", "--into"])
            .arg(self.folder_of(receiver));
        command.arg(format!("@{}", self.folder.join("ticket").display()));
        self.members[receiver].exit = None;
        self.members[receiver].program = Some(self.start(Some(receiver), command)?);
        Ok(())
    }

    fn start(&mut self, who: Who, command: Command) -> Result<Program> {
        self.runs += 1;
        let log = self.folder.join(format!("{}.{}.log", node_of(who), self.runs));
        Program::start(self.lab, &node_of(who), command, (who, self.runs), &log, &self.told.0)
    }

    fn folder_of(&self, receiver: usize) -> PathBuf {
        match receiver {
            SMALL_DISK => self.folder.join("small/into"),
            _ => self.folder.join(format!("into{receiver}")),
        }
    }

    /// Ends all programs that still run, and mends the network.
    fn end(&mut self) -> Result<()> {
        let deadline = Instant::now() + SENDER_TIME;
        // A sender that was started when all receivers had gone waits for them in vain.
        while self.sender.is_some() && self.has_begun && Instant::now() < deadline {
            if let Ok(told) = self.told.1.recv_timeout(Duration::from_millis(100)) {
                self.hear(told)?;
            }
        }
        if let Some(sender) = self.sender.take() {
            self.kill(&sender)?;
            self.sender_exit =
                Some(if self.has_begun || self.senders == 1 { Exit::Killed } else { Exit::Waiting });
        }
        for receiver in 0..RECEIVERS {
            if let Some(program) = self.members[receiver].program.take() {
                self.kill(&program)?;
                self.members[receiver].exit = Some(Exit::Killed);
            }
        }
        for action in std::mem::take(&mut self.agenda).into_values().flatten() {
            match action {
                Action::Plug(who) => self.plug(who, true)?,
                Action::EnableRouter => self.lab.end(&router_off())?,
                _ => {}
            }
        }
        for (_, fault) in &self.schedule.faults {
            // A receiver that had not come yet has left nothing to mend.
            match fault {
                Fault::ChangeAddress { receiver } => {
                    _ = change_addresses(self.lab, &node_of(Some(*receiver)), false);
                }
                Fault::CutConnection { receiver, .. } => {
                    _ = mend_connections(self.lab, &node_of(Some(*receiver)));
                }
                _ => {}
            }
        }
        self.multicast_router.take().map_or(Ok(()), |router| router.end_by(libc::SIGINT))
    }

    /// Kills a program, and hears what all programs tell until it is gone.
    fn kill(&mut self, program: &Program) -> Result<()> {
        program.kill();
        loop {
            match self.told.1.recv_timeout(SENDER_TIME) {
                Ok(Told::Gone { run, .. }) if run == program.run => return Ok(()),
                Ok(told) => self.hear(told)?,
                Err(_) => {
                    let gone = io::Error::other(format!("it was still there after {SENDER_TIME:?}"));
                    return Err(Error::system("kill a program")(gone));
                }
            }
        }
    }

    fn judge(&self) -> Outcome {
        let mut outcome = Outcome { twice: 0.0, failures: Vec::new() };
        for receiver in 0..RECEIVERS {
            let is_full = receiver == SMALL_DISK && self.schedule.leaves_full();
            let exit = self.members[receiver].exit;
            let verdict = match exit {
                // A receiver that was started when all was over may look for a sender, and have everything.
                Some(Exit::Killed) => self
                    .files
                    .check(&self.folder_of(receiver), true)
                    .map_err(|why| format!("it has not ended, and {why}")),
                _ if is_full && exit != Some(Exit::Code(0)) => self.judge_full(receiver),
                _ => self
                    .files
                    .check(&self.folder_of(receiver), true)
                    .and_then(|()| self.judge_exit(receiver))
                    .map_err(|why| match exit {
                        Some(exit) => format!("{why} ({exit})"),
                        None => why,
                    }),
            };
            outcome.failures.extend(verdict.err().map(|why| format!("receiver {receiver}: {why}")));
            let fetched = self.members[receiver].fetched.bytes();
            let all = self.files.bytes();
            let twice = fetched.saturating_sub(all);
            if !is_full {
                outcome.twice = outcome.twice.max(twice as f64 / all as f64);
            }
            if twice * 100 > all * TWICE_PERCENT && !is_full {
                let why = format!("receiver {receiver}: {fetched} bytes were fetched of {all}");
                outcome.failures.push(why);
            }
        }
        outcome.failures.extend(self.judge_sender().err().map(|why| format!("sender: {why}")));
        outcome.failures.extend(self.logs(None).filter(|log| log.contains("panicked")).map(panic_in));
        for receiver in 0..RECEIVERS {
            let panicked = self.logs(Some(receiver)).filter(|log| log.contains("panicked"));
            outcome.failures.extend(panicked.map(panic_in));
        }
        outcome
    }

    /// Judges the sender's end. It must end with 0. If a receiver failed as planned, the sender says so. A
    /// sender that is started again when all receivers have gone finds nobody.
    fn judge_sender(&self) -> std::result::Result<(), String> {
        // `None`: it was killed, and all was over before its next start.
        let Some(exit) = self.sender_exit else { return Ok(()) };
        let found_nobody = self.senders > 1 && self.logs(None).any(|log| log.contains(NOBODY));
        if exit.is_well(found_nobody) || exit == Exit::Code(3) && self.schedule.leaves_full() {
            Ok(())
        } else {
            Err(exit.to_string())
        }
    }

    /// Judges a receiver's exit code. A receiver that has everything ends with 0, but if it was started again
    /// when the sender had gone, it finds no sender.
    fn judge_exit(&self, receiver: usize) -> std::result::Result<(), String> {
        let was_started_again = self.logs(Some(receiver)).count() > 1;
        let is_well = self.members[receiver].exit.is_none_or(|exit| exit.is_well(was_started_again));
        if is_well { Ok(()) } else { Err("it has everything, and has not ended well".to_owned()) }
    }

    /// The logs of the programs of one role.
    fn logs(&self, who: Who) -> impl Iterator<Item = String> {
        let prefix = format!("{}.", node_of(who));
        let logs = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let own = logs.filter(move |entry| {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            name.starts_with(&prefix) && name.ends_with(".log")
        });
        own.filter_map(|entry| Some(String::from_utf8_lossy(&fs::read(entry.path()).ok()?).into_owned()))
    }

    /// Judges a receiver whose disk stayed full: it must have ended with a clear error, and have nothing wrong.
    fn judge_full(&self, receiver: usize) -> std::result::Result<(), String> {
        self.files.check(&self.folder_of(receiver), false)?;
        if let Some(exit @ Exit::Signal) = self.members[receiver].exit {
            return Err(exit.to_string());
        }
        if self.logs(Some(receiver)).any(|log| log.contains("full")) {
            Ok(())
        } else {
            Err("its disk was full, and it does not say so".to_owned())
        }
    }
}

fn panic_in(log: String) -> String {
    log.lines().find(|line| line.contains("panicked")).unwrap_or_default().to_owned()
}

fn router_off() -> events::Fault {
    events::Fault::RouterOff { node: ROUTER.to_owned() }
}

fn node_of(who: Who) -> String {
    who.map_or_else(|| "server0".to_owned(), |receiver| format!("client{receiver}"))
}
