//! Carries out orders, and reports what comes of them.

use std::{
    collections::HashMap,
    fs::{self, File},
    io::{self, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use serde_json::json;
use tokio::sync::Notify;
use treecast_host::{clock, netlink::Netlink, process};
use treecast_measure::sample::{NodeSampler, NodeSource};

use super::{
    Options,
    fetch::Fetcher,
    keeper::{self, Kept, Told},
    permitted,
    program::{self, Choice, Own},
    releases::Activated,
    spool::{Spool, SpoolError, Unfinished},
};
use crate::{
    facts::{Facts, interfaces, towards},
    message::{Carried, Order, Program, Sample, Start, What, Work, nanoseconds, read, text_of},
};

/// The time between two looks into the file of a keeper.
const LOOK: Duration = Duration::from_millis(20);
/// The time that a keeper may take until its program runs, beyond the time that it waits for its moment.
const START_TIME: Duration = Duration::from_secs(30);
/// The reason why an order is given up that was under way when the agent ended.
const STARTED_AGAIN: &str = "the agent was started again meanwhile, and it is not known what came of it";
/// The file with the standard error of a keeper.
const COMPLAINTS: &str = "complaints";
/// The pipe with the standard input of a program.
const INPUT: &str = "input";
/// The most values that one sampling keeps: an hour of 20 interfaces at 5 a second.
const MAX_VALUES: usize = 2_000_000;
/// The most points of a report with samples.
const POINTS_A_REPORT: usize = 4_000;

/// Carries out an agent's orders.
pub struct Worker {
    pub options: Arc<Options>,
    pub spool: Spool,
    /// Wakes who sends reports.
    pub reported: Notify,
    pub fetcher: Fetcher,
    /// The samplings that go on, each with the switch that ends it.
    samplings: Mutex<HashMap<u64, Arc<AtomicBool>>>,
    /// Held while the active version of a release changes.
    releasing: Mutex<()>,
    /// Tells that another program is to take the place of this one.
    pub replaced: Notify,
    /// The order that has put this program on trial.
    trial: Mutex<Option<u64>>,
    /// The processes of programs that run, by order.
    running: Mutex<HashMap<u64, u32>>,
}

impl Worker {
    pub fn new(options: Arc<Options>, spool: Spool, fetcher: Fetcher) -> Self {
        Self {
            options,
            spool,
            reported: Notify::new(),
            fetcher,
            samplings: Mutex::default(),
            releasing: Mutex::default(),
            replaced: Notify::new(),
            trial: Mutex::default(),
            running: Mutex::default(),
        }
    }

    /// Takes up what an earlier start of the agent has left.
    pub fn resume(self: &Arc<Self>) -> Result<(), SpoolError> {
        for Unfinished { order, read_bytes } in self.spool.unfinished()? {
            match (&order.work, read_bytes) {
                (Work::Start(start), Some(read_bytes)) => {
                    self.follow(order.number, start.clone(), read_bytes)
                }
                (_, None) => self.carry_out(order),
                (Work::Activate { .. } | Work::GoBack { .. }, Some(_)) => {
                    self.take_up_release(order.number, &order.work);
                }
                (_, Some(_)) => {
                    self.fail(order.number, STARTED_AGAIN);
                }
            }
        }
        Ok(())
    }

    /// Takes up a change of a release that was under way. If the program of the agent was replaced by it, this program knows how that
    /// went, or is the one that is to report it.
    fn take_up_release(&self, number: u64, work: &Work) {
        let choice = Choice::load(&self.options.state);
        let (name, version) = match work {
            Work::Activate { signed } => match signed.check(None) {
                Ok(release) if release.kind.is_agent() => (release.name, Some(release.version)),
                _ => return self.fail(number, STARTED_AGAIN),
            },
            Work::GoBack { name } => (name.clone(), None),
            _ => return,
        };
        let is_meant = |own: &Own| own.name == name && version.as_ref().is_none_or(|of| *of == own.version);
        let is_active = choice.active.as_ref().is_some_and(is_meant);
        match (choice.trial, choice.failed) {
            (Some(trial), _) if is_meant(&trial.own) => {
                *self.trial.lock().unwrap_or_else(PoisonError::into_inner) = Some(number);
            }
            (_, Some((own, why))) if is_meant(&own) => self.fail(number, &why),
            (None, _) if version.is_some() && is_active => self.done(number, json!(version)),
            // The installed program has no version of its own.
            (None, None) if version.is_none() && choice.active.is_none() => {
                match self.options.releases().active().get(&name) {
                    None => self.done(number, json!("the installed program")),
                    Some(_) => self.fail(number, STARTED_AGAIN),
                }
            }
            _ => self.fail(number, STARTED_AGAIN),
        }
    }

    /// Notes that this program has reached the manager. If it was on trial, it stays.
    pub fn has_reported(&self) {
        let Some(own) = &self.options.own else { return };
        let confirmed = program::confirm(&self.options.state, own).map_err(|error| error.to_string());
        let noted = confirmed.and_then(|()| self.options.releases().note_own(own));
        let trial = self.trial.lock().unwrap_or_else(PoisonError::into_inner).take();
        match (noted, trial) {
            (Ok(()), Some(order)) => self.done(order, json!(own.version)),
            (Ok(()), None) => {}
            (Err(error), Some(order)) => self.fail(order, &error),
            (Err(error), None) => tracing::error!("the agent's program is not noted: {error}"),
        }
    }

    /// Takes an order, unless it was taken before, and carries it out.
    pub fn take(self: &Arc<Self>, order: Order) -> Result<(), SpoolError> {
        if self.spool.take(&order)? {
            self.carry_out(order);
        }
        Ok(())
    }

    fn carry_out(self: &Arc<Self>, order: Order) {
        let number = order.number;
        if let Err(reason) =
            permitted::check(self.options.config.may, &order.work, &self.options.work_folder())
        {
            return self.fail(number, &reason);
        }
        match order.work {
            Work::Facts => {
                let facts = self.facts();
                self.done(number, json!(facts));
            }
            Work::Start(start) => match self.begin(number, &start) {
                Ok(()) => self.follow(number, start, 0),
                Err(error) => self.fail(number, &format!("the program cannot be kept: {error}")),
            },
            Work::Signal { order, signal } => self.signal(number, order, signal),
            Work::Input { order, text } => {
                self.answer(number, self.input(order, text.as_deref()).map(|()| json!(true)))
            }
            Work::Folder { name } => self.answer(number, self.folder(&name).map(|path| json!(path))),
            Work::Fetch { blob, size_bytes, folder, name } => {
                let worker = Arc::clone(self);
                let into = self.options.work_folder().join(folder).join(name);
                tokio::spawn(async move {
                    let fetched = worker.fetcher.fetch(&blob, size_bytes, &into).await;
                    worker.answer(number, fetched.map(|()| json!(into)));
                });
            }
            Work::Check { path, size_bytes, blake3 } => {
                let worker = Arc::clone(self);
                tokio::task::spawn_blocking(move || {
                    let found = difference(Path::new(&path), size_bytes, &blake3);
                    worker.done(number, json!(found));
                });
            }
            Work::Stage { .. } | Work::Verify { .. } | Work::Activate { .. } | Work::GoBack { .. } => {
                self.roll_out(number, order.work);
            }
            Work::MakeReady { .. } | Work::TakeIn { .. } | Work::Forget { .. } => {
                self.deliver(number, order.work);
            }
            Work::Listening { transport, port } => {
                let is_bound = treecast_experiment::site::is_bound(&transport, port);
                self.done(number, json!(is_bound));
            }
            Work::Sample { every_ms } => {
                self.sample(number, Duration::from_millis(every_ms.clamp(10, 60_000)))
            }
            Work::StopSampling { order } => self.stop_sampling(number, order),
        }
    }

    /// Carries out work on releases.
    fn roll_out(self: &Arc<Self>, number: u64, work: Work) {
        match work {
            Work::Stage { signed } => {
                let staged = self.options.releases().stage(&signed);
                self.answer(number, staged.map(|staged| json!(staged)).map_err(io::Error::other));
            }
            Work::Verify { signed } => {
                let worker = Arc::clone(self);
                tokio::task::spawn_blocking(move || {
                    let verified = worker.options.releases().verify(&signed);
                    worker.answer(number, verified.map(|found| json!(found)).map_err(io::Error::other));
                });
            }
            Work::Activate { signed } => self.change_release(number, move |worker| {
                let is_used = |folder: &Path| worker.uses(folder);
                worker.options.releases().activate(&signed, &is_used)
            }),
            Work::GoBack { name } => {
                self.change_release(number, move |worker| worker.options.releases().go_back(&name))
            }
            _ => {}
        }
    }

    /// Carries out work on files that somebody delivers.
    fn deliver(self: &Arc<Self>, number: u64, work: Work) {
        let worker = Arc::clone(self);
        tokio::task::spawn_blocking(move || {
            let deliveries = worker.options.deliveries();
            let is_used = |folder: &Path| worker.uses(folder);
            let done = match work {
                Work::MakeReady { delivery } => {
                    deliveries.make_ready(&delivery, &is_used).map(|folder| json!(folder))
                }
                Work::TakeIn { delivery } => {
                    deliveries.take_in(&delivery, &is_used).map(|lacks| json!(lacks))
                }
                Work::Forget { delivery } => deliveries.forget(&delivery, &is_used).map(|()| json!(true)),
                _ => return,
            };
            worker.answer(number, done.map_err(io::Error::other));
        });
    }

    /// Changes the active version of a release. When the agent ends meanwhile, it is not done again: the host's facts say which version
    /// it has then.
    fn change_release(
        self: &Arc<Self>,
        number: u64,
        change: impl FnOnce(&Self) -> Result<Activated, String> + Send + 'static,
    ) {
        if let Err(error) = self.spool.begin(number) {
            return self.fail(number, &error.to_string());
        }
        let worker = Arc::clone(self);
        tokio::task::spawn_blocking(move || {
            // One after the other: two activations would not know what the other has done.
            let _turn = worker.releasing.lock().unwrap_or_else(PoisonError::into_inner);
            match change(&worker) {
                // The next program answers.
                Ok(Activated::Replaced) => worker.replaced.notify_one(),
                Ok(Activated::Version(version)) => worker.done(number, json!(version)),
                Ok(Activated::Later(later)) => worker.done(number, json!(later)),
                Err(reason) => worker.fail(number, &reason),
            }
        });
    }

    /// Whether a program that runs was started with a folder.
    fn uses(&self, folder: &Path) -> bool {
        let folder = folder.to_string_lossy();
        self.lock_running().keys().any(|order| {
            let kept = fs::read_to_string(self.kept_folder(*order).join("kept"));
            kept.is_ok_and(|kept| kept.contains(&*folder))
        })
    }

    /// Returns the facts of this host as they are now.
    pub fn facts(&self) -> Facts {
        let manager = self.fetcher.manager();
        let facts = Facts::gather(&self.options.state, &self.options.version, manager);
        Facts { releases: self.options.releases().active(), ..facts }
    }

    /// Returns what the interface towards the manager has carried.
    pub fn carried(&self) -> Carried {
        let read = || {
            let name = towards(self.fetcher.manager(), &interfaces());
            let index = treecast_host::interface::index_of(&name)?;
            let mut counters = Vec::new();
            Netlink::open()?.counters(&mut counters)?;
            let own = counters.into_iter().find(|of| of.index == index);
            Ok::<_, io::Error>(
                own.map(|of| Carried { received_bytes: of.values[0], sent_bytes: of.values[3] }),
            )
        };
        read().ok().flatten().unwrap_or_default()
    }

    fn folder(&self, name: &str) -> io::Result<PathBuf> {
        let path = self.options.work_folder().join(name);
        match fs::remove_dir_all(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => fs::create_dir_all(&path)?,
        }
        Ok(path)
    }

    /// Returns the folder with what is known of a program.
    fn kept_folder(&self, order: u64) -> PathBuf {
        self.options.state.join("programs").join(order.to_string())
    }

    /// Starts the keeper of a program.
    fn begin(&self, number: u64, start: &Start) -> io::Result<()> {
        let folder = self.kept_folder(number);
        fs::create_dir_all(&folder)?;
        let words = match start.program {
            Program::System => start.arguments.clone(),
            Program::Treecast => {
                let program = self.options.treecast.to_string_lossy().into_owned();
                [vec![program], start.arguments.clone()].concat()
            }
        };
        let works_in = match &start.folder {
            Some(name) => self.options.work_folder().join(name),
            None => self.options.work_folder(),
        };
        fs::create_dir_all(&works_in)?;
        let Start { at_ns, limit_ms, has_input, .. } = *start;
        let kept = Kept { words, at_ns, limit_ms, has_input };
        fs::write(folder.join("kept"), text_of(&kept))?;
        let output = keeper::create(&folder.join("told"))?;
        self.spool.begin(number).map_err(io::Error::other)?;
        let mut command = Command::new(&self.options.treecast);
        command.args(["agent", "--keep"]).arg(&folder);
        let complaints = File::create(folder.join(COMPLAINTS))?;
        let input = if has_input { self.make_input(number)?.into() } else { Stdio::null() };
        command.current_dir(works_in).stdin(input).stdout(output).stderr(complaints);
        process::with_all_signals(&mut command);
        let mut keeper = command.spawn()?;
        // It tells its end by its file. Somebody has to wait for it all the same.
        thread::spawn(move || keeper.wait());
        Ok(())
    }

    /// Makes the pipe through which a program gets its standard input. It is open for both at either end, so that neither waits for
    /// the other, and an agent that comes back can write on.
    fn make_input(&self, order: u64) -> io::Result<File> {
        let path = self.kept_folder(order).join(INPUT);
        treecast_host::folder::make_pipe(&path)?;
        File::options().read(true).write(true).open(path)
    }

    /// Writes to the standard input of a program, or ends it.
    fn input(&self, order: u64, text: Option<&str>) -> io::Result<()> {
        let folder = self.kept_folder(order);
        let kept = fs::read_to_string(folder.join("kept"));
        let kept: Kept = read(&kept.map_err(|_| io::Error::other("the program does not run"))?)
            .map_err(io::Error::other)?;
        if !kept.has_input {
            return Err(io::Error::other("the program has no input"));
        }
        let text = text.map(|text| {
            permitted::check_input(self.options.config.may, &kept.words, text, &self.options.work_folder())?;
            Ok::<_, String>(text.as_bytes())
        });
        let bytes = text.transpose().map_err(io::Error::other)?.unwrap_or(&[keeper::END_OF_INPUT]);
        let mut pipe = File::options().read(true).write(true).open(folder.join(INPUT))?;
        treecast_host::folder::never_wait(&pipe)?;
        match io::Write::write(&mut pipe, bytes)? {
            written if written == bytes.len() => Ok(()),
            _ => Err(io::Error::other("the program does not read its input")),
        }
    }

    /// Reports what the keeper of a program writes, from so many bytes on, until the program has ended.
    fn follow(self: &Arc<Self>, number: u64, start: Start, read_bytes: u64) {
        let worker = Arc::clone(self);
        tokio::spawn(async move {
            match worker.follow_file(number, &start, read_bytes).await {
                Ok(()) => {}
                Err(error) => worker.fail(number, &format!("what the program tells cannot be read: {error}")),
            }
            worker.lock_running().remove(&number);
            _ = fs::remove_dir_all(worker.kept_folder(number));
        });
    }

    async fn follow_file(&self, number: u64, start: &Start, mut read_bytes: u64) -> io::Result<()> {
        let mut file = File::open(self.kept_folder(number).join("told"))?;
        file.seek(SeekFrom::Start(read_bytes))?;
        let moment = start.at_ns.map_or(Duration::ZERO, Duration::from_nanos);
        let latest = clock::monotonic().max(moment) + START_TIME;
        loop {
            // The keeper's life is asked for before the file is read, so that its last words are not missed.
            let is_alive = keeper::is_alive(&file);
            let mut text = Vec::new();
            file.by_ref().take(1 << 20).read_to_end(&mut text)?;
            let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            if whole < text.len() {
                file.seek(SeekFrom::Current(whole as i64 - text.len() as i64))?;
            }
            let mut reports = Vec::new();
            let mut is_over = false;
            for line in text[..whole].split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                let told: Told = read(&String::from_utf8_lossy(line)).map_err(io::Error::other)?;
                if let Some(pid) = told.pid {
                    self.lock_running().insert(number, pid);
                }
                is_over |= told.what.is_last();
                reports.push((told.at_ns, told.what));
            }
            read_bytes += whole as u64;
            if !reports.is_empty() {
                self.report(number, reports, Some(read_bytes));
            }
            if is_over {
                return Ok(());
            }
            if whole == 0 && !is_alive {
                let complaints = fs::read_to_string(self.kept_folder(number).join(COMPLAINTS));
                let last =
                    complaints.unwrap_or_default().lines().last().unwrap_or("it said nothing").to_owned();
                return Err(io::Error::other(format!("its keeper has ended before it: {last}")));
            }
            if read_bytes == 0 && clock::monotonic() > latest {
                return Err(io::Error::other("it did not start in time"));
            }
            if whole == 0 {
                tokio::time::sleep(LOOK).await;
            }
        }
    }

    fn signal(&self, number: u64, order: u64, signal: i32) {
        let pid = self.lock_running().get(&order).copied();
        // The keeper gives its program a process group of its own.
        let sent = pid.map_or_else(
            || Err(io::Error::other("the program does not run")),
            |pid| process::signal_group(pid, signal),
        );
        self.answer(number, sent.map(|()| json!(true)));
    }

    fn sample(self: &Arc<Self>, number: u64, every: Duration) {
        let source = NodeSource { name: "this host".into(), ..NodeSource::default() };
        let sampler = match NodeSampler::open(vec![source]) {
            Ok(sampler) => sampler,
            Err(error) => return self.fail(number, &error.to_string()),
        };
        let is_over = Arc::new(AtomicBool::new(false));
        self.samplings.lock().unwrap_or_else(PoisonError::into_inner).insert(number, Arc::clone(&is_over));
        // What was sampled is in memory, and a restart loses it: so the order counts as begun.
        if let Err(error) = self.spool.begin(number) {
            return self.fail(number, &error.to_string());
        }
        let worker = Arc::clone(self);
        thread::spawn(move || {
            let samples = sample_until(sampler, every, &is_over);
            worker.report_samples(number, samples);
        });
    }

    fn report_samples(&self, number: u64, samples: Vec<Sample>) {
        for Sample { series, points } in samples {
            for points in points.chunks(POINTS_A_REPORT) {
                let samples = vec![Sample { series: series.clone(), points: points.to_vec() }];
                self.report(number, vec![(now_ns(), What::Samples { samples })], None);
            }
        }
        self.done(number, json!(true));
    }

    fn stop_sampling(&self, number: u64, order: u64) {
        let sampling = self.samplings.lock().unwrap_or_else(PoisonError::into_inner).remove(&order);
        match sampling {
            Some(is_over) => {
                is_over.store(true, Ordering::Relaxed);
                self.done(number, json!(true));
            }
            None => self.fail(number, "nothing is sampled by that order"),
        }
    }

    fn answer(&self, number: u64, result: io::Result<serde_json::Value>) {
        match result {
            Ok(value) => self.done(number, value),
            Err(error) => self.fail(number, &error.to_string()),
        }
    }

    fn done(&self, number: u64, value: serde_json::Value) {
        self.report(number, vec![(now_ns(), What::Done { value })], None);
    }

    fn fail(&self, number: u64, reason: &str) {
        self.report(number, vec![(now_ns(), What::Failed { reason: reason.to_owned() })], None);
    }

    fn report(&self, number: u64, reports: Vec<(u64, What)>, read_bytes: Option<u64>) {
        if let Err(error) = self.spool.report(number, reports, read_bytes) {
            // A full disk: the order stays unfinished, and is reported after the next start.
            tracing::error!("a report is not kept: {error}");
        }
        self.reported.notify_one();
    }

    fn lock_running(&self) -> std::sync::MutexGuard<'_, HashMap<u64, u32>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn now_ns() -> u64 {
    nanoseconds(clock::monotonic())
}

/// Samples all counters until the switch is on, or there are as many values as are kept.
fn sample_until(mut sampler: NodeSampler, every: Duration, is_over: &AtomicBool) -> Vec<Sample> {
    let mut series: HashMap<treecast_measure::series::Name, Vec<(u64, i64)>> = HashMap::new();
    let mut values = 0;
    loop {
        // The last values are taken after the end was asked for.
        let is_last = is_over.load(Ordering::Relaxed) || values > MAX_VALUES;
        let at_ns = now_ns();
        sampler.sample(|_, reading| {
            values += 1;
            series.entry(reading.name).or_default().push((at_ns, reading.value));
        });
        if is_last {
            let sample = |(name, points): (treecast_measure::series::Name, _)| Sample {
                series: name.to_string(),
                points,
            };
            return series.into_iter().map(sample).collect();
        }
        let next = clock::monotonic() + every;
        while clock::monotonic() < next && !is_over.load(Ordering::Relaxed) {
            thread::sleep(every.min(LOOK));
        }
    }
}

/// Returns how a file differs from what it should be, in a few words; `None` where it is alike.
fn difference(path: &Path, size_bytes: u64, blake3: &str) -> Option<String> {
    let Ok(digest) = blake3::Hash::from_hex(blake3) else { return Some("the hash is none".into()) };
    let checked = treecast_experiment::site::check_copy(path, size_bytes, digest.as_bytes());
    checked.err().map(|error| error.to_string())
}
