//! The commands of rules, which run when a session is complete: one at a time in each folder.
//!
//! Each command has a thread that waits for it. The folder is locked while it runs, and the command has the lock, too. So a service
//! that was killed and started again waits for a command that the one before it has left running.

use std::{
    collections::{BTreeSet, VecDeque},
    fs::{self, File},
    io::{self, BufRead, BufReader, Read},
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    sync::mpsc::{self, Sender},
    thread,
    time::{Duration, Instant},
};

use treecast_host::{
    clock::since_1970,
    folder::{self, Lock},
    poller::is_readable_within,
    process,
    wake::Waker,
};
use treecast_wire::message::MAX_REASON_LEN;

use super::{
    Rule,
    command_end::CommandEnd,
    history::{Entry, Happened},
    report::{CommandEnded, Report},
};
use crate::{clock::duration_in_words, words};

/// The time for which a line that a command has printed is waited for when the command has ended. Its children may
/// keep its output open.
const LAST_LINE_TIME: Duration = Duration::from_secs(1);

/// Time between two looks at a folder in which a command of an earlier service, or of another one, still runs.
const LOOK_AT_LOCK: Duration = Duration::from_millis(200);

/// A command that is to run.
#[derive(Debug)]
struct Job {
    rule: Rule,
    /// The session that it runs for.
    entry: Entry,
    /// The folder under the one name that all of its names have in common.
    folder: PathBuf,
}

/// The commands that wait, and the folders in which one runs.
#[derive(Debug)]
pub(super) struct Commands {
    waiting: VecDeque<Job>,
    busy: BTreeSet<PathBuf>,
    reports: Sender<Report>,
    waker: Waker,
}

impl Commands {
    /// Creates an empty queue. Ends of commands go to `reports`.
    pub fn new(reports: Sender<Report>, waker: Waker) -> Self {
        Self { waiting: VecDeque::new(), busy: BTreeSet::new(), reports, waker }
    }

    /// Runs a rule's command for the session of an entry, as soon as no other one runs in the rule's folder.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn add(&mut self, rule: &Rule, entry: Entry) -> io::Result<()> {
        let folder = fs::canonicalize(&rule.into).unwrap_or_else(|_| rule.into.clone());
        self.waiting.push_back(Job { rule: rule.clone(), entry, folder });
        self.start_due()
    }

    /// A command in this folder has ended.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn ended(&mut self, folder: &Path) -> io::Result<()> {
        self.busy.remove(folder);
        self.start_due()
    }

    /// The number of commands that run, and of those that wait.
    pub fn counts(&self) -> (usize, usize) {
        (self.busy.len(), self.waiting.len())
    }

    fn start_due(&mut self) -> io::Result<()> {
        while let Some(at) = self.waiting.iter().position(|job| !self.busy.contains(&job.folder)) {
            let Some(job) = self.waiting.remove(at) else { break };
            self.busy.insert(job.folder.clone());
            let (reports, waker) = (self.reports.clone(), self.waker.clone());
            let run = move || {
                // A service that has ended runs the command again when it starts.
                _ = reports.send(Report::Command(Box::new(job.run())));
                waker.wake();
            };
            treecast_host::thread::spawn("command", run)?;
        }
        Ok(())
    }
}

impl Job {
    fn run(self) -> CommandEnded {
        let name = self.entry.name.as_deref().unwrap_or_default();
        let end = run_command(&self.rule, name);
        let entry = Entry {
            event: if end.is_good() { Happened::CommandRun } else { Happened::CommandFailed },
            at: since_1970().as_secs(),
            into: Some(self.rule.into.clone()),
            rule: Some(self.rule.mark()),
            code: end.code,
            seconds: Some(end.time.as_secs_f64()),
            line: Some(end.line.clone()).filter(|line| !line.is_empty()),
            owes_command: false,
            text: None,
            ..self.entry
        };
        let text = end.text();
        let entry = if text.is_empty() { entry } else { entry.because(text) };
        CommandEnded { entry, end, folder: self.folder }
    }
}

/// Runs the command of a rule. No shell takes part. A command that takes too long is killed with its process group.
fn run_command(rule: &Rule, announced_name: &str) -> CommandEnd {
    let words = rule.command.as_deref().unwrap_or_default();
    let Some((program, arguments)) = words.split_first() else { return CommandEnd::default() };
    let begun = Instant::now();
    let cannot =
        |error: io::Error| CommandEnd::failed(format!("{program} cannot be run: {error}"), begun.elapsed());
    let lock = match locked(&rule.into, rule.command_time) {
        Ok(Some(lock)) => lock,
        Ok(None) => {
            let why = format!(
                "{program} was not run: another command was still running in {} after {} (command_time)",
                rule.into.display(),
                duration_in_words(rule.command_time.as_secs())
            );
            return CommandEnd::failed(why, begun.elapsed());
        }
        Err(error) => return cannot(error),
    };
    let folder = rule.into.to_string_lossy();
    let mut command = Command::new(program);
    command
        .args(arguments.iter().map(|word| word.replace("{}", &folder)))
        .env("TREECAST_SESSION", announced_name)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    // This thread blocks signals that the program needs.
    process::with_all_signals(&mut command);
    let begun = Instant::now();
    let ended = status_within(&mut command, rule.command_time);
    // Whatever it has left running does not keep the next one from running.
    folder::unlock(&lock);
    match ended {
        Ok((Some(status), line)) => CommandEnd {
            code: status.code(),
            time: begun.elapsed(),
            line,
            why: (!status.success()).then(|| format!("{program}: {status}")),
        },
        Ok((None, line)) => {
            let limit = duration_in_words(rule.command_time.as_secs());
            let why =
                format!("{program}: it was killed, because it had not ended after {limit} (command_time)");
            CommandEnd { line, ..CommandEnd::failed(why, begun.elapsed()) }
        }
        Err(error) => cannot(error),
    }
}

/// Locks a folder against other commands. The programs that this process starts have the lock, too. Returns `None` if another command
/// has it for longer than `time`.
fn locked(path: &Path, time: Duration) -> io::Result<Option<File>> {
    let (folder, begun) = (File::open(path)?, Instant::now());
    while folder::lock(&folder) == Lock::Taken {
        if begun.elapsed() >= time {
            return Ok(None);
        }
        thread::sleep(LOOK_AT_LOCK);
    }
    folder::let_inherit(&folder)?;
    Ok(Some(folder))
}

/// Runs a program that leads a process group. Returns its end, `None` if the group was killed after this time, and its first line.
fn status_within(command: &mut Command, time: Duration) -> io::Result<(Option<ExitStatus>, String)> {
    let mut child = command.spawn()?;
    let output = child.stdout.take().map(|output| first_line(output, false)).transpose()?;
    let errors = child.stderr.take().map(|errors| first_line(errors, true)).transpose()?;
    let has_ended = ends_within(child.id(), time);
    if !matches!(has_ended, Ok(true)) {
        _ = process::kill_group(child.id());
    }
    let status = child.wait()?;
    let until = Instant::now() + LAST_LINE_TIME;
    let line = |from: Option<mpsc::Receiver<String>>| {
        let left = until.saturating_duration_since(Instant::now());
        from.and_then(|from| from.recv_timeout(left).ok()).unwrap_or_default()
    };
    let (output, errors) = (line(output), line(errors));
    let (first, second) = if status.success() { (output, errors) } else { (errors, output) };
    let line = if first.is_empty() { second } else { first };
    has_ended.map(|has_ended| (has_ended.then_some(status), line))
}

/// Reads what a command prints, on a thread of its own, to its end. The first line that is not empty goes to the returned channel. What
/// comes on standard error is handed on to this process' own.
fn first_line(from: impl Read + Send + 'static, is_error: bool) -> io::Result<mpsc::Receiver<String>> {
    let (lines, first) = mpsc::channel();
    let read = move || {
        let (mut from, mut has_told) = (BufReader::new(from), false);
        let mut line = Vec::new();
        // Lines without an end come in pieces.
        while matches!(from.by_ref().take(MAX_REASON_LEN as u64).read_until(b'\n', &mut line), Ok(1..)) {
            if is_error {
                _ = io::Write::write_all(&mut io::stderr(), &line);
            }
            let text = words::in_one_line(String::from_utf8_lossy(&line).trim());
            if !has_told && !text.is_empty() {
                has_told = true;
                _ = lines.send(text);
            }
            line.clear();
        }
    };
    treecast_host::thread::spawn("command-output", read)?;
    Ok(first)
}

fn ends_within(process: u32, time: Duration) -> io::Result<bool> {
    let (end, start) = (process::open_end(process)?, Instant::now());
    loop {
        let left = time.saturating_sub(start.elapsed());
        // A signal ends the wait early.
        if is_readable_within(&end, left)? || left.is_zero() {
            return is_readable_within(&end, Duration::ZERO);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    fn rule(into: &Path, script: &str) -> Rule {
        let command = ["sh", "-c", script].map(str::to_owned).to_vec();
        Rule { command: Some(command), ..Rule::of_folder(into) }
    }

    #[test]
    fn the_first_line_and_the_code_of_a_command_are_known() {
        let folder = crate::scratch::scratch("commands");
        let end = |script: &str| run_command(&rule(&folder, script), "image");
        let good = end("echo; echo \"one $TREECAST_SESSION\"; echo two; echo wrong >&2");
        assert_eq!((good.code, good.line.as_str(), good.why.clone()), (Some(0), "one image", None));
        let bad = end("echo one; echo 'it is\tfull' >&2; exit 7");
        assert_eq!((bad.code, bad.line.as_str()), (Some(7), "it is\\tfull"));
        assert_eq!(bad.text(), "sh: exit status: 7; it is\\tfull");
        let long = end("yes | tr -d '\\n' | head -c 3000000");
        assert_eq!((long.code, long.line.len()), (Some(0), MAX_REASON_LEN), "it is read to its end");
        // What it leaves running keeps its output open.
        let left = end("sleep 100 & echo started");
        assert_eq!((left.code, left.line.as_str()), (Some(0), "started"));
        let missing = Rule { command: Some(vec!["/no/such/program".into()]), ..Rule::of_folder(&folder) };
        let missing = run_command(&missing, "image");
        assert!(missing.code.is_none() && missing.text().contains("cannot be run"), "{missing:?}");
        let endless =
            Rule { command_time: Duration::from_secs(1), ..rule(&folder, "echo begun; sleep 1000") };
        let endless = run_command(&endless, "image");
        assert_eq!((endless.code, endless.line.as_str()), (None, "begun"));
        assert!(endless.text().contains("after 1 s (command_time)"), "{endless:?}");
    }

    #[test]
    fn two_commands_never_run_at_once_in_one_folder() {
        let folder = crate::scratch::scratch("commands-at-once");
        let link = folder.join("link");
        std::os::unix::fs::symlink(&*folder, &link).unwrap();
        // A second one that runs meanwhile cannot make the folder.
        let script = "mkdir {}/running && sleep 0.2 && rmdir {}/running";
        let (sender, reports) = channel();
        let mut commands = Commands::new(sender, Waker::new().unwrap());
        for into in [&*folder, &link, &*folder] {
            commands.add(&rule(into, script), Entry::new(Happened::CommandRun)).unwrap();
        }
        assert_eq!(commands.counts(), (1, 2));
        for _ in 0..3 {
            let Report::Command(ended) = reports.recv().unwrap() else { panic!("no session was taken") };
            assert_eq!((ended.end.code, ended.end.why), (Some(0), None));
            commands.ended(&ended.folder).unwrap();
        }
        assert_eq!(commands.counts(), (0, 0));
    }

    #[test]
    fn a_command_waits_for_one_that_an_earlier_service_has_left_running() {
        let folder = crate::scratch::scratch("commands-left");
        let lock = locked(&folder, Duration::ZERO).unwrap().unwrap();
        let mut left = Command::new("sleep").arg("1000").spawn().unwrap();
        // The service is killed.
        drop(lock);
        assert!(locked(&folder, Duration::ZERO).unwrap().is_none(), "the command has the lock");
        let ended = run_command(&Rule { command_time: Duration::ZERO, ..rule(&folder, "true") }, "image");
        assert!(ended.text().contains("was not run: another command was still running in"), "{ended:?}");
        left.kill().unwrap();
        left.wait().unwrap();
        assert!(run_command(&rule(&folder, "true"), "image").is_good());
    }
}
