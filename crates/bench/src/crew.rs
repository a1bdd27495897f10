//! Processes that start together. Each reports that it is ready; then all are told to go.

use std::{
    io::Write,
    path::Path,
    sync::mpsc::RecvTimeoutError,
    time::{Duration, Instant},
};

use treecast_host::stop::Stop;
use treecast_lab::program::{Program, Said};

use super::stage::{Result, Stage};

/// The longest time of a measurement.
const TIME_LIMIT: Duration = Duration::from_secs(180);

/// The time between two looks whether the user wants to stop.
const LOOK: Duration = Duration::from_millis(100);

/// The time within which a process that was killed has ended.
const KILLED: Duration = Duration::from_secs(10);

/// Started processes. Dropping this ends those that still run.
#[derive(Default)]
pub struct Crew {
    members: Vec<Member>,
}

struct Member {
    program: Program,
    /// The lines that it has printed, each with its time.
    lines: Vec<(Instant, String)>,
    has_ended: bool,
}

impl Crew {
    /// Starts one worker of this program in a node and waits until it is ready. Returns what it says behind that.
    pub fn hire(&mut self, stage: &Stage, node: &str, worker: &[&str]) -> Result<String> {
        let mut command = stage.treecast()?;
        command.args(["bench", "--worker"]).args(worker);
        self.add(stage.lab.start(node, node, command)?);
        self.wait_ready(&stage.lab.stop)
    }

    /// Makes every client of the stage do the same at the same time, and returns how long it takes until all are
    /// done. `worker` gives the arguments for a client with this empty folder, which is empty again afterwards.
    pub fn measure(stage: &Stage, worker: impl Fn(&Path) -> Vec<String>) -> Result<Duration> {
        let mut crew = Self::default();
        for client in stage.clients() {
            let worker = worker(&stage.folder(&client)?);
            crew.hire(stage, &client, &worker.iter().map(String::as_str).collect::<Vec<_>>())?;
        }
        let time = crew.go(&stage.lab.stop);
        for client in stage.clients() {
            stage.folder(&client)?;
        }
        time
    }

    /// Takes over a program.
    pub fn add(&mut self, program: Program) {
        self.members.push(Member { program, lines: Vec::new(), has_ended: false });
    }

    /// Waits until the process that was added last reports that it is ready. Returns the rest of its line.
    pub fn wait_ready(&mut self, stop: &Stop) -> Result<String> {
        let member = self.members.last_mut().ok_or("nobody was started")?;
        member.hear(Instant::now() + TIME_LIMIT, stop)?;
        match member.lines.pop() {
            Some((_, line)) => match line.trim().strip_prefix("ready") {
                Some(rest) => Ok(rest.trim().to_owned()),
                None => Err(format!("{}: {line}", member.program.name).into()),
            },
            None => Err(failure(&member.program.name, None)),
        }
    }

    /// Tells all processes to go. Returns the time until all are done.
    pub fn go(mut self, stop: &Stop) -> Result<Duration> {
        let start = Instant::now();
        for member in &mut self.members {
            if let Some(mut input) = member.program.input.take() {
                input.write_all(b"go\n")?;
            }
        }
        self.wait(stop)?;
        Ok(start.elapsed())
    }

    /// Waits until all processes have ended without error.
    pub fn wait(&mut self, stop: &Stop) -> Result<()> {
        let deadline = Instant::now() + TIME_LIMIT;
        self.members.iter_mut().try_for_each(|member| member.wait(deadline, stop))
    }

    /// Ends all processes with SIGTERM. They must end without error.
    pub fn end(mut self, stop: &Stop) -> Result<()> {
        self.members.iter().for_each(|member| member.program.handle.signal(libc::SIGTERM));
        self.wait(stop)
    }

    /// The ids of the processes.
    pub fn ids(&self) -> impl Iterator<Item = u32> {
        self.members.iter().filter_map(|member| member.program.pid)
    }

    /// The lines that each process has printed until it ended or could not be waited for, in the order of their start.
    pub fn told(&mut self) -> Vec<Vec<(Instant, String)>> {
        self.members.iter_mut().map(|member| std::mem::take(&mut member.lines)).collect()
    }
}

impl Member {
    /// Hears the process until it has ended without error.
    fn wait(&mut self, deadline: Instant, stop: &Stop) -> Result<()> {
        while !self.has_ended {
            self.hear(deadline, stop)?;
        }
        Ok(())
    }

    /// Hears the next line of the process, or its end, which must be without error.
    fn hear(&mut self, deadline: Instant, stop: &Stop) -> Result<()> {
        loop {
            if stop.is_requested() {
                return Err("interrupted".into());
            }
            if Instant::now() > deadline {
                return Err(format!("{} was not done after {TIME_LIMIT:?}", self.program.name).into());
            }
            match self.program.said.recv_timeout(LOOK) {
                Ok((at, Said::Line(line))) => {
                    self.lines.push((at, line));
                    return Ok(());
                }
                Ok((_, Said::Ended(ended, last))) => {
                    self.has_ended = true;
                    return if ended.code == Some(0) {
                        Ok(())
                    } else {
                        Err(failure(&self.program.name, last))
                    };
                }
                Ok((_, Said::Began)) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(failure(&self.program.name, None)),
            }
        }
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        self.members.iter().for_each(|member| member.program.handle.signal(libc::SIGKILL));
        for member in &mut self.members {
            // What is still running holds files and sockets that the next measurement needs.
            while !member.has_ended
                && let Ok((_, said)) = member.program.said.recv_timeout(KILLED)
            {
                member.has_ended = matches!(said, Said::Ended(..));
            }
        }
    }
}

/// The last line that a process has left on its standard error.
fn failure(name: &str, last: Option<String>) -> Box<dyn std::error::Error> {
    format!("{name}: {}", last.as_deref().unwrap_or("it ended without a word")).into()
}
