//! Programs in a node that go on after the command that started them.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use treecast_host::{
    namespace::{self, Namespace},
    process,
};

use crate::error::{Error, Result};

/// A program in a node of a lab. `down` ends it. Dropping this does not.
pub struct Daemon {
    node: String,
    child: Child,
    log: PathBuf,
}

impl Daemon {
    pub(crate) fn start(folder: PathBuf, node: &str, namespace: &str, mut command: Command) -> Result<Self> {
        let program = command.get_program().to_string_lossy().into_owned();
        let name = Path::new(&program).file_name().unwrap_or_default().to_string_lossy().into_owned();
        // A node may run several kinds of router.
        let kind = command.get_args().next().unwrap_or_default().to_string_lossy();
        let kind = Some(kind).filter(|kind| !kind.is_empty() && !kind.starts_with('-'));
        let kind = kind.map(|kind| format!("-{kind}")).unwrap_or_default();
        let log = folder.join(format!("{node}-{name}{kind}.log"));
        let open = || {
            let file = File::create(&log)?;
            Ok((file.try_clone()?, file))
        };
        let (output, errors) = open().map_err(Error::system(format!("write {}", log.display())))?;
        command.stdin(Stdio::null()).stdout(output).stderr(errors).process_group(0);
        let mut start = || {
            namespace::place(Namespace::open(namespace)?, &mut command);
            command.spawn()
        };
        let child = start().map_err(Error::system(format!("start {program} in {node}")))?;
        Ok(Self { node: node.to_owned(), child, log })
    }

    /// Waits until the program has printed `line`.
    ///
    /// # Errors
    /// The program's last line if it ends first, or if `timeout` is over.
    pub fn wait_for_line(&mut self, line: &str, timeout: Duration) -> Result<()> {
        let deadline = Instant::now() + timeout;
        loop {
            let ended = self.has_ended();
            let printed = fs::read_to_string(&self.log).unwrap_or_default();
            if printed.lines().any(|printed| printed == line) {
                return Ok(());
            }
            if ended || Instant::now() > deadline {
                let last = self.last_line();
                return Err(Error::Daemon { node: self.node.clone(), line: line.to_owned(), last });
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Ends the program with SIGTERM, and waits until it has ended.
    pub fn end(self) -> Result<()> {
        self.end_by(libc::SIGTERM)
    }

    /// Ends the program with a signal, and waits until it has ended.
    pub fn end_by(mut self, signal: i32) -> Result<()> {
        if !self.has_ended() {
            _ = process::signal(&self.child, signal);
        }
        let ended = self.child.wait().map(drop);
        ended.map_err(Error::system(format!("wait for a program in {}", self.node)))
    }

    /// Whether the program has ended by itself.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().ok().flatten().is_some()
    }

    /// The last line that the program printed.
    pub(crate) fn last_line(&self) -> String {
        let printed = fs::read_to_string(&self.log).unwrap_or_default();
        printed.lines().last().unwrap_or("it printed nothing").to_owned()
    }
}
