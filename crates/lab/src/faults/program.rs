//! A sender or a receiver in the lab: started, listened to, killed.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, Command, Stdio},
    sync::mpsc::Sender,
    thread,
};

use serde_json::Value;

use crate::{Error, Lab, Result, experiment::die_with_parent};

/// Whose words those are: a receiver's by its number, or the sender's.
pub type Who = Option<usize>;

/// What a program has said. `run` counts the programs of one role.
#[derive(Debug)]
pub enum Told {
    /// A sender has begun to send.
    Started { run: usize },
    /// Bytes that a receiver has fetched, over the network, since it was started.
    Fetched { who: Who, run: usize, bytes: u64 },
    /// It has ended.
    Gone { who: Who, run: usize },
}

/// A program that runs.
#[derive(Debug)]
pub struct Program {
    child: Child,
    pub run: usize,
}

impl Program {
    /// Starts a program in a node; what it says goes to `told` and to a file called `log`.
    pub fn start(
        lab: &Lab,
        node: &str,
        mut command: Command,
        (who, run): (Who, usize),
        log: &Path,
        told: &Sender<Told>,
    ) -> Result<Self> {
        let mut log = fs::File::create(log).map_err(Error::system(format!("write {}", log.display())))?;
        let errors = log.try_clone().map_err(Error::system("write a log"))?;
        die_with_parent(&mut command);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(errors);
        let mut child = lab.spawn(node, command)?;
        let (output, told) = (child.stdout.take(), told.clone());
        thread::spawn(move || {
            for line in output.into_iter().flat_map(|output| BufReader::new(output).lines()) {
                let Ok(line) = line else { break };
                // A log that cannot be written is missed only when something has failed.
                _ = writeln!(log, "{line}");
                let news = serde_json::from_str(&line).ok().and_then(|event| news(&event, who, run));
                if news.is_some_and(|news| told.send(news).is_err()) {
                    break;
                }
            }
            // Whoever does not listen any more needs no end.
            _ = told.send(Told::Gone { who, run });
        });
        Ok(Self { child, run })
    }

    /// SIGKILL.
    pub fn kill(mut self) {
        // It may have ended by itself.
        _ = self.child.kill();
        _ = self.child.wait();
    }

    /// The exit code of a program that has ended or is ending.
    pub fn wait(mut self) -> Option<i32> {
        self.child.wait().ok().and_then(|status| status.code())
    }
}

fn news(event: &Value, who: Who, run: usize) -> Option<Told> {
    let count = |key: &str| event[key].as_u64().unwrap_or(0);
    match (event["event"].as_str()?, who) {
        ("started", None) => Some(Told::Started { run }),
        ("progress" | "done", Some(_)) => {
            let bytes = (count("bytes") + count("duplicate_bytes")).saturating_sub(count("kept_bytes"));
            Some(Told::Fetched { who, run, bytes })
        }
        _ => None,
    }
}
