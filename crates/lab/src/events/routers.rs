//! Switches a lab's MEADcast routers off and on, ends them, and starts them again as before.

use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};
use std::{ffi::OsString, io};

use serde::{Deserialize, Serialize};
use treecast_dataplane::explicit::{self, Setting};
use treecast_host::process;

use crate::error::{Error, Result};
use crate::lab::Lab;
use crate::topology::Role;

/// The longest time until a router has ended or is ready.
const PATIENCE: Duration = Duration::from_secs(30);

/// The command and settings with which an ended router had been started.
#[derive(Serialize, Deserialize)]
struct Started {
    program: PathBuf,
    arguments: Vec<OsString>,
}

/// Makes the router of `node` act on MEADcast packets, or pass them on.
pub(super) fn enable(lab: &Lab, node: &str, is_enabled: bool) -> Result<()> {
    let set = lab.enter(node, || explicit::set(None, Setting::Enabled(is_enabled)))?;
    set.map_err(failed(node))
}

/// Ends the router of `node` with a signal, and remembers how it was started.
pub(super) fn end(lab: &Lab, node: &str, signal: i32) -> Result<()> {
    let process = lab.enter(node, || explicit::process(None))?.map_err(failed(node))?;
    let action = |what: &str| format!("{what} the MEADcast router of {node}");
    let started = Started::of(process).map_err(Error::system(action("look at")))?;
    let text = serde_json::to_vec(&started).map_err(io::Error::other);
    let kept = text.and_then(|text| fs::write(record(lab, node), text));
    kept.map_err(Error::system(action("keep the command of")))?;
    if signal == libc::SIGTERM {
        // A failing router does not wait until senders have found other ways.
        enable(lab, node, false)?;
    }
    kill(lab, node, process, signal)
}

/// Sends a signal to the router of `node`, which has answered a moment ago, and waits until it has ended.
fn kill(lab: &Lab, node: &str, process: i32, signal: i32) -> Result<()> {
    let action = || format!("end the MEADcast router of {node}");
    process::kill(process, signal).map_err(Error::system(action()))?;
    let deadline = Instant::now() + PATIENCE;
    // Its control socket goes before the sockets that keep other routers from its interfaces.
    while lab.enter(node, || explicit::process(None))?.is_ok() || has_files(process) {
        if Instant::now() > deadline {
            return Err(Error::system(action())(io::ErrorKind::TimedOut.into()));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Whether a process may still have files open: it exists, and has not ended.
fn has_files(process: i32) -> bool {
    let status = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    status.rsplit(") ").next().is_some_and(|state| !state.is_empty() && !state.starts_with(['Z', 'X']))
}

impl Lab {
    /// Kills every MEADcast router that still runs, such as one that was started again when a fault was over.
    pub fn kill_mead_routers(&self) -> Result<()> {
        for node in self.nodes().iter().filter(|node| node.role == Role::Router) {
            if let Ok(process) = self.enter(&node.name, || explicit::process(None))? {
                kill(self, &node.name, process, libc::SIGKILL)?;
            }
        }
        Ok(())
    }
}

/// Starts the router of `node` as before it was ended.
pub(super) fn start_again(lab: &Lab, node: &str) -> Result<()> {
    let path = record(lab, node);
    let nothing = |_| Error::Router {
        node: node.to_owned(),
        reason: "no fault has ended it, so nobody knows how it was started".to_owned(),
    };
    let text = fs::read(&path).map_err(nothing)?;
    let read = serde_json::from_slice::<Started>(&text).map_err(io::Error::other);
    let started = read.map_err(Error::system(format!("read {}", path.display())))?;
    let mut command = Command::new(started.program);
    command.args(started.arguments);
    lab.start_daemon(node, command)?.wait_for_line("ready", PATIENCE)?;
    fs::remove_file(&path).map_err(Error::system(format!("remove {}", path.display())))
}

impl Started {
    fn of(process: i32) -> io::Result<Self> {
        let program = fs::read_link(format!("/proc/{process}/exe"))?;
        let line = fs::read(format!("/proc/{process}/cmdline"))?;
        let words = line.strip_suffix(b"\0").unwrap_or(&line).split(|byte| *byte == 0);
        let arguments = words.skip(1).map(|word| OsString::from_vec(word.to_vec())).collect();
        Ok(Self { program, arguments })
    }
}

fn record(lab: &Lab, node: &str) -> PathBuf {
    lab.state_directory().join(lab.name()).join(format!("{node}-router.json"))
}

fn failed(node: &str) -> impl FnOnce(explicit::Error) -> Error {
    move |error| Error::Router { node: node.to_owned(), reason: error.to_string() }
}
