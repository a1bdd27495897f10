//! One run: a server, its clients, their times, and the check of what they got.

use std::{
    sync::{
        OnceLock,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc::{self, Receiver, RecvTimeoutError},
    },
    thread,
    time::{Duration, Instant},
};

use treecast_measure::{db::NodeId, sample::Recorder};

use super::{
    cargo::Cargo,
    client::{CUT_OFF, Client, Fared},
    delivery::Delivery,
    file::Stopped,
    plan::Planned,
    programs::Ready,
    schedule::Schedule,
    server::{MakeServer, POLL, Server},
    source::Source,
    stage::{Party, Stage},
    store::Store,
    verify,
};
use treecast_lab::process::{Process, Spawn};

/// What a run has to work with.
pub struct Cast<'a> {
    pub stage: &'a Stage,
    pub party: &'a Party,
    pub planned: &'a Planned,
    pub cargo: &'a Cargo,
    pub store: &'a Store,
    /// When each client starts, from the first possible moment.
    pub waits: Vec<Duration>,
    /// The run's start.
    pub origin: Instant,
    pub timeout: Duration,
    pub recorder: &'a Recorder,
    pub server_node: NodeId,
    pub client_nodes: Vec<NodeId>,
    /// A client to stop for a while.
    pub stopped: Option<&'a Stopped>,
    /// Is told when the session has begun, after the run's start.
    pub begun: Option<&'a OnceLock<Duration>>,
}

/// How a run went.
#[derive(Debug)]
pub struct Played {
    /// By client, in the network's order. Copies are checked.
    pub clients: Vec<Fared>,
    /// When the clients could start, since the run's start.
    pub clients_start: Duration,
    /// From there until the last client was done.
    pub duration: Duration,
    /// The user stopped it.
    pub interrupted: bool,
    /// What the server said last.
    pub server_output: Option<String>,
    pub server_failure: Option<String>,
}

/// How long a session waits for clients that are there; those who did come take part in another then.
const CONNECTING: Duration = Duration::from_secs(20);

impl Cast<'_> {
    /// Plays the run. `each` hears of every client that is done, `stop` ends the run early.
    pub fn play(
        &self,
        each: &mut dyn FnMut(usize, &Fared),
        stop: &dyn Fn() -> bool,
    ) -> std::io::Result<Played> {
        let server = self.server()?;
        let clients = self.clients()?;
        let mut played = thread::scope(|scope| {
            scope.spawn(|| server.run());
            let played = self.perform(&server, &clients, each, stop);
            server.stop(self.leaves_by_itself() && !played.interrupted);
            played
        });
        played.server_output = server.last_output();
        match self.cargo {
            Cargo::One(source) => self.check_copies(source, &clients, &mut played.clients),
            Cargo::Feed(products) => {
                for (client, fared) in clients.iter().zip(&mut played.clients) {
                    fared.objects = products.check(&client.folder, &fared.told.objects);
                }
            }
        }
        Ok(played)
    }

    fn perform(
        &self,
        server: &Server,
        clients: &[Client],
        each: &mut dyn FnMut(usize, &Fared),
        stop: &dyn Fn() -> bool,
    ) -> Played {
        let until = self.origin + self.timeout;
        if let Err(reason) = server.wait_ready(until, stop) {
            return self.without_server(reason, stop());
        }
        let clients_start = Instant::now();
        let end = clients_start + self.timeout;
        let is_over = AtomicBool::new(false);
        let (fares, interrupted) = thread::scope(|scope| {
            scope.spawn(|| self.feed(server, &is_over));
            scope.spawn(|| self.stop_client(clients, &is_over));
            let (done, outcomes) = mpsc::channel();
            for (index, client) in clients.iter().enumerate() {
                let done = done.clone();
                scope.spawn(move || {
                    // The other end is there until all have ended.
                    _ = done.send((index, client.run(server, self.origin, clients_start)));
                });
            }
            drop(done);
            let collected = collect(clients.len(), &outcomes, each, &mut || {
                let reached = stop() || Instant::now() > end;
                if reached {
                    clients.iter().for_each(|client| client.process.bar(libc::SIGKILL));
                }
                stop()
            });
            is_over.store(true, Ordering::Relaxed);
            collected
        });
        Played {
            clients: fares,
            clients_start: clients_start - self.origin,
            duration: clients_start.elapsed(),
            interrupted,
            server_output: None,
            server_failure: server.failure(),
        }
    }

    fn without_server(&self, reason: String, interrupted: bool) -> Played {
        let failure = format!("the server could not start: {reason}");
        let fared = Fared { failure: Some(failure.clone()), ..Fared::default() };
        Played {
            clients: vec![fared; self.client_nodes.len()],
            clients_start: self.origin.elapsed(),
            duration: Duration::ZERO,
            interrupted,
            server_output: None,
            server_failure: Some(failure),
        }
    }

    /// Tells when all receivers are there, and lets the objects of a feed come from then on.
    fn feed(&self, server: &Server, is_over: &AtomicBool) {
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
        // Without its paths, the sender has sent nothing: every receiver's robustness tells.
        _ = products.feed(&is_over);
    }

    /// Has one client stand still for a while.
    fn stop_client(&self, clients: &[Client], is_over: &AtomicBool) {
        let Some(stopped) = self.stopped else { return };
        let Some(client) = clients.get(stopped.client) else { return };
        let wait = |span: Duration| {
            let start = Instant::now();
            while start.elapsed() < span && !is_over.load(Ordering::Relaxed) {
                thread::sleep(POLL);
            }
        };
        wait(stopped.after.0);
        client.process.signal(libc::SIGSTOP);
        wait(stopped.lasts.0);
        client.process.signal(libc::SIGCONT);
    }

    /// after and nack end when every receiver that came has everything.
    fn leaves_by_itself(&self) -> bool {
        self.planned.delivery.has_sessions()
    }

    fn server(&self) -> std::io::Result<Server<'_>> {
        let folder = self.store.fresh_folder(&self.party.server)?;
        let delivery = self.planned.delivery;
        let first_places = match (self.leaves_by_itself(), self.planned.schedule) {
            (false, _) => usize::MAX,
            (true, Schedule::Immediate) => self.client_nodes.len(),
            // The others come when they come: the first need not wait for them.
            (true, Schedule::Random | Schedule::Random2) => 1,
        };
        let command: MakeServer = Box::new(move |opening| {
            let patience = if opening.are_waiting { CONNECTING.min(self.timeout) } else { self.timeout };
            let feed = self.planned.feed.as_ref();
            self.party.programs.server(delivery, self.cargo.path(), feed, opening, patience)
        });
        let spawn: Spawn = Box::new(|command| {
            let child = self.stage.spawn(&self.party.server, command)?;
            self.recorder.watch_process(self.server_node, child.id());
            Ok(child)
        });
        Ok(Server::new(folder, Ready::of(delivery), first_places, command, spawn))
    }

    fn clients(&self) -> std::io::Result<Vec<Client<'_>>> {
        self.party.clients.iter().enumerate().map(|(index, _)| self.client(index)).collect()
    }

    fn client(&self, index: usize) -> std::io::Result<Client<'_>> {
        let at = &self.party.clients[index];
        let folder = self.store.fresh_folder(&at.name)?;
        let delivery = self.planned.delivery;
        let into = folder.clone();
        Ok(Client {
            process: Process::default(),
            copy: self.cargo.copy_in(&folder),
            folder,
            command: Box::new(move |ticket| {
                let command = self.party.programs.client(delivery, at, self.cargo.path(), ticket, &into);
                self.stage.inside(&at.name, &command)
            }),
            spawn: Box::new(move |mut command| {
                let child = command.spawn()?;
                self.recorder.watch_process(self.client_nodes[index], child.id());
                Ok(child)
            }),
            digest: match self.cargo {
                Cargo::One(source) if delivery == Delivery::Scp => Some((source.size.0, source.digest)),
                _ => None,
            },
            may_lack: self.planned.feed.is_some(),
            sessions_follow: self.leaves_by_itself() && self.planned.feed.is_none(),
            wait: self.waits.get(index).copied().unwrap_or_default(),
        })
    }

    /// Checks every copy against the source, and removes it.
    fn check_copies(&self, source: &Source, clients: &[Client], fares: &mut [Fared]) {
        let next = AtomicUsize::new(0);
        let workers = thread::available_parallelism().map_or(1, usize::from);
        let verdicts: Vec<(usize, Result<(), String>)> = thread::scope(|scope| {
            let workers: Vec<_> =
                (0..workers).map(|_| scope.spawn(|| check_some(source, clients, fares, &next))).collect();
            workers.into_iter().flat_map(|worker| worker.join().unwrap_or_default()).collect()
        });
        for (index, verdict) in verdicts {
            if let Err(reason) = verdict {
                fares[index].failure.get_or_insert(reason);
            }
        }
    }
}

/// Checks copies that nobody has checked yet, and removes them.
fn check_some(
    source: &Source,
    clients: &[Client],
    fares: &[Fared],
    next: &AtomicUsize,
) -> Vec<(usize, Result<(), String>)> {
    let mut verdicts = Vec::new();
    while let index = next.fetch_add(1, Ordering::Relaxed)
        && let Some(client) = clients.get(index)
    {
        if fares[index].failure.is_none() {
            verdicts.push((index, verify::check_copy(&client.copy, source.size.0, &source.digest)));
        }
        // What cannot be removed now is overwritten by the next run, or goes with the store.
        _ = std::fs::remove_dir_all(&client.folder);
    }
    verdicts
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
