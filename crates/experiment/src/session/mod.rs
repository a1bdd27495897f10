//! Runs a session that delivers files: a server, its clients, their times, and the check of their copies.

mod activity;
mod measures;

use std::{
    convert::Infallible,
    ffi::OsStr,
    io,
    path::PathBuf,
    process::Command,
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, Receiver, RecvTimeoutError},
    },
    thread,
    time::{Duration, Instant},
};

use treecast_lab::{Topology, parallel};
use treecast_sim::session::Deaths;

use crate::{
    cargo::{Cargo, products::Products, source::Source},
    client::{CUT_OFF, Client, Fared, Fate},
    document::{delivery, network::Stopped},
    ears::{Ears, Heard},
    filing::Filing,
    plan::{Group, Planned},
    programs::Programs,
    schedule::Schedule,
    server::{self, POLL, Server},
    site::{Happening, Program, Site, Slot, while_they_happen},
    told::{Figures, SentPackets},
};

pub use activity::{SERIES, over_time};
pub use measures::{Local, MEASURES, client_done, of_run};

/// A session that is about to begin.
pub struct Session<'a> {
    pub site: &'a dyn Site,
    pub planned: &'a Planned<'a>,
    pub group: &'a Group,
    pub programs: Programs<'a>,
    pub cargo: &'a Cargo,
    /// Further words for the sender's command line, by the workload.
    pub arguments: &'a [String],
    /// The time that each client waits, from the first moment at which clients can start. Empty: all start at once.
    pub waits: Vec<Duration>,
    /// The time at which the run started.
    pub origin: Instant,
    pub timeout: Duration,
    /// The seed of the run, from which the deaths of controllers are drawn.
    pub seed: u64,
    /// A function that is told of each process that starts, and at which node.
    pub watch: &'a (dyn Fn(&str, u32) + Sync),
    /// A client that is to be stopped for a while.
    pub stopped: Option<&'a Stopped>,
    /// The place to note when the session began, counted from the run's start.
    pub begun: Option<&'a OnceLock<Duration>>,
}

/// Returns what a workload measures of its clients beside what each session does. Clients are in the order of their group.
pub type Further<'a> = dyn Fn(&Topology, &[(&String, &Fared)]) -> Filing + 'a;

/// The result of a session.
#[derive(Debug, Default)]
pub struct Played {
    /// The result of each client, in the group's order. The copies have been checked.
    pub clients: Vec<Fared>,
    /// The time for which each client heard nothing, where that was measured.
    pub silences: Vec<Duration>,
    /// The time at which the clients could start, counted from the run's start.
    pub clients_start: Duration,
    /// The time from then until the last client had ended.
    pub duration: Duration,
    /// Whether the user stopped the session.
    pub interrupted: bool,
    /// The reason why the server's program did not do what it was asked to do: it cannot be done.
    pub refused: Option<String>,
    pub server_failure: Option<String>,
    /// The last thing that the server said.
    pub server_said: Option<String>,
    /// The counts of what the sender has sent and heard.
    pub sent: SentPackets,
    /// The numbers that a sender of somebody else tells.
    pub figures: Figures,
    /// The part of each client in local groups; `None` for one that has none. Empty for a crowd.
    pub locals: Vec<Option<Local>>,
    /// The resources that the server's programs used. `None` in a simulated run, in which clients use none, either.
    pub server_used: Option<treecast_lab::process::Ended>,
    pub happened: Vec<Happening>,
    /// The number of controllers of local groups that were to die.
    pub wanted_deaths: usize,
    /// The most clients that have reported to one controller of a crowd.
    pub most_served: Option<usize>,
}

/// The server and the clients of a session, and what they deliver.
struct Cast<'a> {
    server: Server<'a>,
    clients: Vec<Client<'a>>,
    /// Who hears what reaches the clients, where something happens to the network.
    ears: Option<Ears>,
    /// The paths of a feed's objects at the sender's node.
    products: Vec<PathBuf>,
}

/// The time that a session waits for clients that are there. Those that did come take part in another then.
const CONNECTING: Duration = Duration::from_secs(20);

impl Session<'_> {
    /// Runs the session. `each` is told of every client that has ended; `stop` ends the session early.
    pub fn play(&self, each: &mut dyn FnMut(usize, &Fared), stop: &dyn Fn() -> bool) -> io::Result<Played> {
        let cast = self.cast()?;
        let Cast { server, clients, .. } = &cast;
        let mut played = thread::scope(|scope| {
            scope.spawn(|| server.run());
            let played = self.perform(&cast, each, stop);
            let leaves = self.planned.delivery.has_sessions();
            server.stop(leaves && !played.as_ref().is_ok_and(|played| played.interrupted));
            played
        })?;
        played.server_said = server.last_event();
        played.sent = server.told().all();
        played.figures = server.figures();
        played.locals =
            played.clients.iter().map(|fared| Local::told(&fared.told, played.sent.to_all)).collect();
        played.server_used = Some(server.used());
        played.refused = server.is_refused().then(|| server.failure()).flatten();
        match self.cargo {
            Cargo::One(source) => self.check_copies(source, clients, &mut played.clients),
            Cargo::Feed(products) => self.check_products(products, clients, &mut played.clients),
        }
        Ok(played)
    }

    fn cast(&self) -> io::Result<Cast<'_>> {
        let ears = match self.planned.delivery.events.is_empty() {
            true => None,
            false => Some(Ears::open(self.site, &self.group.receivers)?),
        };
        let products = match self.cargo {
            Cargo::One(_) => Vec::new(),
            Cargo::Feed(products) => products.offer(|file| self.site.offer(&self.group.sender, file))?,
        };
        Ok(Cast { server: self.server()?, clients: self.clients()?, ears, products })
    }

    fn perform(
        &self,
        cast: &Cast,
        each: &mut dyn FnMut(usize, &Fared),
        stop: &dyn Fn() -> bool,
    ) -> io::Result<Played> {
        let server = &cast.server;
        if let Err(reason) = server.wait_ready(self.origin + self.timeout, stop) {
            return Ok(self.without_server(reason, stop()));
        }
        let clients_start = Instant::now();
        let end = clients_start + self.timeout;
        let play = || self.run_clients(cast, (clients_start, end), each, stop);
        let events = &self.planned.delivery.events;
        let (((fares, interrupted, wanted_deaths), heard), happened) =
            while_they_happen(self.site, events, clients_start, play);
        let duration = clients_start.elapsed();
        let began = clients_start - self.origin;
        let silences = heard?.map_or_else(Vec::new, |heard| {
            let had = |fared: &Fared| fared.finished.filter(|_| fared.failure.is_none());
            let whole: Vec<_> = fares.iter().map(|fared| Some(had(fared)?.saturating_sub(began))).collect();
            heard.silences(&whole)
        });
        Ok(Played {
            clients: fares,
            silences,
            clients_start: began,
            duration,
            interrupted,
            server_failure: server.failure(),
            happened: happened?,
            wanted_deaths,
            ..Played::default()
        })
    }

    /// Lets all clients fetch what they are to, and listens to what reaches them meanwhile. Returns how they fared,
    /// whether the user wants to stop, how many controllers were to die, and what was heard.
    fn run_clients(
        &self,
        cast: &Cast,
        (start, end): (Instant, Instant),
        each: &mut dyn FnMut(usize, &Fared),
        stop: &dyn Fn() -> bool,
    ) -> ((Vec<Fared>, bool, usize), io::Result<Option<Heard>>) {
        let Cast { server, clients, ears, products } = cast;
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| self.feed(server, products, &is_over));
            scope.spawn(|| self.stop_client(clients, &is_over));
            let killing = scope.spawn(|| self.kill_controllers(server, clients, &is_over));
            let listening = ears.as_ref().map(|ears| scope.spawn(|| ears.listen(start, &is_over)));
            let (done, outcomes) = mpsc::channel();
            for (index, client) in clients.iter().enumerate() {
                let done = done.clone();
                // The other end is there until all have ended.
                scope.spawn(move || _ = done.send((index, client.run(server, self.origin, start))));
            }
            drop(done);
            let (fares, interrupted) = collect(clients.len(), &outcomes, each, &mut || {
                if stop() || Instant::now() > end {
                    clients.iter().for_each(|client| client.slot.close(libc::SIGKILL));
                }
                stop()
            });
            is_over.store(true, Ordering::Relaxed);
            let panicked = || Err(io::Error::other("listening to receivers panicked"));
            let heard = listening.map(|ears| ears.join().unwrap_or_else(|_| panicked()));
            ((fares, interrupted, killing.join().unwrap_or_default()), heard.transpose())
        })
    }

    fn without_server(&self, reason: String, interrupted: bool) -> Played {
        let failure = format!("the server could not start: {reason}");
        let fared = Fared { failure: Some(failure.clone()), ..Fared::default() };
        Played {
            clients: vec![fared; self.group.receivers.len()],
            clients_start: self.origin.elapsed(),
            interrupted,
            server_failure: Some(failure),
            ..Played::default()
        }
    }

    /// Tells when all receivers are there, and lets the objects of a feed come from then on. `paths` are those at the sender's node.
    fn feed(&self, server: &Server, paths: &[PathBuf], is_over: &AtomicBool) {
        if matches!(self.cargo, Cargo::One(_)) && self.begun.is_none() {
            return;
        }
        let is_over = || is_over.load(Ordering::Relaxed);
        while !server.has_begun() && !is_over() {
            thread::sleep(POLL);
        }
        if let Some(begun) = self.begun
            && !is_over()
        {
            _ = begun.set(self.origin.elapsed());
        }
        let Cargo::Feed(products) = self.cargo else { return };
        // Its end is told to the sender when it is dropped.
        let Some(mut input) = server.input() else { return };
        // Without its paths, the sender has sent nothing: every receiver's robustness tells.
        _ = products.feed(paths, &mut *input, &is_over);
    }

    /// Makes one client stand still for a while.
    fn stop_client(&self, clients: &[Client], is_over: &AtomicBool) {
        let Some(stopped) = self.stopped else { return };
        let Some(client) = clients.get(stopped.client) else { return };
        wait_until(Instant::now() + stopped.after.0, is_over);
        client.slot.signal(libc::SIGSTOP);
        wait_until(Instant::now() + stopped.lasts.0, is_over);
        client.slot.signal(libc::SIGCONT);
    }

    /// Kills controllers of local groups, each at its time since the session began. A death waits while nobody reports
    /// to any controller. Returns the number of controllers that were to die.
    fn kill_controllers(&self, server: &Server, clients: &[Client], is_over: &AtomicBool) -> usize {
        let mut deaths = self.planned.delivery.local.deaths(self.seed);
        let is_over = || is_over.load(Ordering::Relaxed);
        while !deaths.are_over(Duration::ZERO) && !is_over() && !server.has_begun() {
            thread::sleep(POLL);
        }
        let began = Instant::now();
        while !deaths.are_over(began.elapsed()) && !is_over() {
            let serving = clients.iter().enumerate();
            let serving = serving.filter_map(|(number, client)| Some((number, client.serves()?)));
            for number in deaths.due(began.elapsed(), serving.collect()) {
                clients[number].die();
            }
            thread::sleep(Deaths::INTERVAL);
        }
        deaths.wanted()
    }

    fn server(&self) -> io::Result<Server<'_>> {
        let delivery = self.planned.delivery;
        let node = &self.group.sender;
        let (source, is_fed) = match self.cargo {
            Cargo::One(source) => (self.site.offer(node, &source.path)?, false),
            Cargo::Feed(_) => (self.cargo.path().to_owned(), true),
        };
        let first_places = match (delivery.has_sessions(), self.planned.schedule) {
            (false, _) => usize::MAX,
            (true, Schedule::Immediate) => self.group.receivers.len(),
            // The others come when they come: the first need not wait for them.
            (true, Schedule::Random | Schedule::Random2) => 1,
        };
        let start: server::Start = Box::new(move |opening| {
            let patience = if opening.are_waiting { CONNECTING.min(self.timeout) } else { self.timeout };
            let command = self.programs.server(&source, self.arguments, opening, patience);
            match is_fed {
                true => self.watched(node, self.site.start_with_input(node, command)?),
                false => self.start(node, command),
            }
        });
        let listens = self.programs.listens().map(|(transport, port)| -> server::IsListening<'_> {
            Box::new(move || self.site.is_listening(node, transport, port))
        });
        Ok(Server::new(first_places, start, listens))
    }

    fn start(&self, node: &str, command: Command) -> io::Result<Program> {
        let command = match self.planned.delivery.program {
            delivery::Program::Other => self.with_files(node, &command)?,
            _ => command,
        };
        self.watched(node, self.site.start(node, command)?)
    }

    /// Names the files of another program by their paths at a node.
    fn with_files(&self, node: &str, command: &Command) -> io::Result<Command> {
        let named = |word: &OsStr| {
            let file = self.planned.delivery.other.files.iter().find(|file| file.file_name() == Some(word));
            file.map_or_else(
                || Ok(word.to_owned()),
                |file| self.site.offer(node, file).map(PathBuf::into_os_string),
            )
        };
        let mut there = Command::new(named(command.get_program())?);
        for word in command.get_args() {
            there.arg(named(word)?);
        }
        Ok(there)
    }

    fn watched(&self, node: &str, program: Program) -> io::Result<Program> {
        if let Some(pid) = program.pid {
            (self.watch)(node, pid);
        }
        Ok(program)
    }

    fn clients(&self) -> io::Result<Vec<Client<'_>>> {
        (0..self.group.receivers.len()).map(|index| self.client(index)).collect()
    }

    fn client(&self, index: usize) -> io::Result<Client<'_>> {
        let node = &self.group.receivers[index];
        let delivery = self.planned.delivery;
        let at = self.site.attachment(node)?;
        let folder = self.site.folder(node, "copy")?;
        let (into, copy) = (folder.clone(), self.cargo.copy_in(&folder));
        let is_feed = matches!(self.cargo, Cargo::Feed(_));
        Ok(Client {
            slot: Slot::default(),
            start: Box::new(move |ticket, attempt| {
                // What an attempt left must not take the next one's room.
                let into = if attempt > 1 { self.site.folder(node, "copy")? } else { into.clone() };
                self.start(node, self.programs.client(node, &at, self.cargo.path(), ticket, &into))
            }),
            check: match self.cargo {
                Cargo::One(source) if delivery.program == delivery::Program::Scp => {
                    Some(Box::new(move || self.site.check(node, &copy, source.size.0, &source.digest)))
                }
                _ => None,
            },
            may_lack: is_feed || delivery.may_lack(),
            sessions_follow: delivery.has_sessions() && !is_feed && !delivery.may_lack(),
            wait: self.waits.get(index).copied().unwrap_or_default(),
            fate: Fate::default(),
            folder,
        })
    }

    /// Checks the objects that clients say they have, and removes them.
    fn check_products(&self, products: &Products, clients: &[Client], fares: &mut [Fared]) {
        let checked = parallel::map(clients.len(), |index| {
            let (node, client) = (&self.group.receivers[index], &clients[index]);
            let have = products.check(&fares[index].told.objects, |name, size_bytes, digest| {
                self.site.check(node, &client.folder.join(name), size_bytes, digest).is_ok()
            });
            // What cannot be removed now is overwritten by the next run, or goes with the site.
            _ = self.site.folder(node, "copy");
            Ok::<_, Infallible>(have)
        });
        let Ok(checked) = checked;
        for (fared, have) in fares.iter_mut().zip(checked) {
            fared.objects = Some(have);
        }
    }

    /// Checks every copy against the source, and removes it.
    fn check_copies(&self, source: &Source, clients: &[Client], fares: &mut [Fared]) {
        let verdicts = parallel::map(clients.len(), |index| {
            let (node, client) = (&self.group.receivers[index], &clients[index]);
            let copy = self.cargo.copy_in(&client.folder);
            let is_there = fares[index].failure.is_none() && !fares[index].has_died;
            let verdict = is_there.then(|| self.site.check(node, &copy, source.size.0, &source.digest));
            // What cannot be removed now is overwritten by the next run, or goes with the site.
            _ = self.site.folder(node, "copy");
            Ok::<_, Infallible>(verdict)
        });
        let Ok(verdicts) = verdicts;
        for (fared, verdict) in fares.iter_mut().zip(verdicts) {
            match verdict {
                None | Some(Ok(())) => {}
                // Nothing mends what it has lost: that is what is measured.
                Some(Err(_)) if self.planned.delivery.may_lack() => fared.is_cut_short = true,
                Some(Err(reason)) => _ = fared.failure.get_or_insert_with(|| reason.to_string()),
            }
        }
    }
}

/// Waits for a moment, or until the run is over.
fn wait_until(moment: Instant, is_over: &AtomicBool) {
    while Instant::now() < moment && !is_over.load(Ordering::Relaxed) {
        thread::sleep(POLL);
    }
}

/// Collects how each of `count` clients fared until all have ended; `watch` is called all the while and
/// says whether the user wants to stop.
fn collect(
    count: usize,
    outcomes: &Receiver<(usize, Fared)>,
    each: &mut dyn FnMut(usize, &Fared),
    watch: &mut dyn FnMut() -> bool,
) -> (Vec<Fared>, bool) {
    const LOOK_EVERY: Duration = Duration::from_millis(50);
    let lost = Fared { failure: Some(CUT_OFF.into()), ..Fared::default() };
    let mut fares = vec![lost; count];
    let mut interrupted = false;
    loop {
        interrupted |= watch();
        match outcomes.recv_timeout(LOOK_EVERY) {
            Ok((index, fared)) => {
                each(index, &fared);
                fares[index] = fared;
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return (fares, interrupted),
        }
    }
}
