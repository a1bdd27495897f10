//! Processes that start together. Each reports that it is ready; then all are told to go.

use std::{
    io::{BufRead, BufReader, Read, Write},
    path::Path,
    process::Child,
    time::{Duration, Instant},
};

use treecast_host::{process, stop::Stop};

use super::stage::{Result, Stage};

/// The longest time of a measurement.
const TIME_LIMIT: Duration = Duration::from_secs(180);

/// Started processes. Dropping this ends those that still run.
#[derive(Default)]
pub struct Crew {
    members: Vec<Member>,
}

struct Member {
    name: String,
    child: Child,
}

impl Crew {
    /// Starts one worker of this program in a node and waits until it is ready. Returns what it says behind that.
    pub fn hire(&mut self, stage: &Stage, node: &str, worker: &[&str]) -> Result<String> {
        let mut command = stage.treecast()?;
        command.args(["bench", "--worker"]).args(worker);
        self.add(node, stage.spawn(node, command)?);
        self.wait_ready()
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

    /// Takes over a process.
    pub fn add(&mut self, name: &str, child: Child) {
        self.members.push(Member { name: name.to_owned(), child });
    }

    /// Waits until the process that was added last reports that it is ready. Returns the rest of its line.
    pub fn wait_ready(&mut self) -> Result<String> {
        let member = self.members.last_mut().ok_or("nobody was started")?;
        let Some(output) = &mut member.child.stdout else { return Err("it has no output".into()) };
        let mut line = String::new();
        // Bytes are read one at a time, because the following ones are for the next reader.
        let mut reader = BufReader::with_capacity(1, output);
        reader.read_line(&mut line)?;
        match line.trim().strip_prefix("ready") {
            Some(rest) => Ok(rest.trim().to_owned()),
            None => Err(failure(member)),
        }
    }

    /// Tells all processes to go. Returns the time until all are done.
    pub fn go(mut self, stop: &Stop) -> Result<Duration> {
        let start = Instant::now();
        for member in &mut self.members {
            if let Some(mut input) = member.child.stdin.take() {
                input.write_all(b"go\n")?;
            }
        }
        self.wait(stop)?;
        Ok(start.elapsed())
    }

    /// Waits until all processes have ended without error.
    pub fn wait(&mut self, stop: &Stop) -> Result<()> {
        let deadline = Instant::now() + TIME_LIMIT;
        for member in &mut self.members {
            loop {
                match member.child.try_wait()? {
                    Some(status) if status.success() => break,
                    Some(_) => return Err(failure(member)),
                    None if stop.is_requested() => return Err("interrupted".into()),
                    None => {}
                }
                if Instant::now() > deadline {
                    return Err(format!("{} was not done after {TIME_LIMIT:?}", member.name).into());
                }
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        Ok(())
    }

    /// Ends all processes with SIGTERM. They must end without error.
    pub fn end(mut self, stop: &Stop) -> Result<()> {
        for member in &self.members {
            // A process that has ended by itself is waited for below.
            _ = process::signal(&member.child, libc::SIGTERM);
        }
        self.wait(stop)
    }

    /// The ids of the processes.
    pub fn ids(&self) -> impl Iterator<Item = u32> {
        self.members.iter().map(|member| member.child.id())
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        for member in &mut self.members {
            // A process that has ended cannot be killed, and need not be.
            let _ = member.child.kill();
            let _ = member.child.wait();
        }
    }
}

/// The last line that a process has left on its standard error.
fn failure(member: &mut Member) -> Box<dyn std::error::Error> {
    let mut text = String::new();
    let _ = member.child.kill();
    if let Some(output) = &mut member.child.stderr {
        let _ = output.take(64 * 1024).read_to_string(&mut text);
    }
    let line = text.lines().last().unwrap_or("it ended without a word").to_owned();
    format!("{}: {line}", member.name).into()
}
