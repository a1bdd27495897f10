//! A program of the administrator's that is started when a tunnel has changed, such as one that tells the router's BGP.
//!
//! The programs run one after the other in a thread of their own, so a slow one delays nothing else.

use std::{
    os::fd::{AsFd, BorrowedFd},
    process::{Command, Stdio},
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    thread,
    time::Duration,
};

use treecast_host::{
    poller::wait_readable,
    process::{Watched, with_all_signals},
    wake::Waker,
};

use super::{Error, Event, Tell, doing, event::TunnelEnd};

/// The most changes that wait for the program.
const MAX_WAITING: usize = 64;

/// The time that the program has.
const PATIENCE: Duration = Duration::from_secs(10);

/// The change for which the program is started.
struct Change {
    what: &'static str,
    variables: Vec<(&'static str, String)>,
}

/// Starts the program for each change.
pub struct Hook {
    changes: Option<SyncSender<Change>>,
    thread: Option<thread::JoinHandle<()>>,
    failures: Receiver<String>,
    waker: Waker,
}

impl Hook {
    /// A hook that starts `command`, with one more argument: `made` or `removed`. Without a command, nothing is started.
    pub fn new(command: &[String]) -> Result<Self, Error> {
        let waker = Waker::new().map_err(doing("cannot wait for programs"))?;
        let (tell_failure, failures) = sync_channel(MAX_WAITING);
        let mut hook = Self { changes: None, thread: None, failures, waker: waker.clone() };
        if let [program, arguments @ ..] = command {
            let (changes, waiting) = sync_channel(MAX_WAITING);
            let (program, arguments) = (program.clone(), arguments.to_vec());
            let work = move || {
                for change in waiting {
                    if let Err(error) = start(&program, &arguments, &change) {
                        // Nobody reads any more only when the program ends.
                        _ = tell_failure.try_send(format!("{program} {}: {error}", change.what));
                        waker.wake();
                    }
                }
            };
            let named = thread::Builder::new().name("hook".into());
            hook.thread = Some(named.spawn(work).map_err(doing("cannot start a thread"))?);
            hook.changes = Some(changes);
        }
        Ok(hook)
    }

    /// Starts the program for a tunnel. Returns why it cannot be started, if it cannot.
    pub fn tunnel(
        &self,
        what: &'static str,
        end: &TunnelEnd,
        own_as: u32,
        peer_as: u32,
    ) -> Result<(), String> {
        let Some(changes) = &self.changes else { return Ok(()) };
        let variables = vec![
            ("MAST_PEER", end.peer.clone()),
            ("MAST_PREFIX", end.prefix.to_string()),
            ("MAST_INTERFACE", end.interface.clone()),
            ("MAST_INNER_OWN", end.inner_own.to_string()),
            ("MAST_INNER_PEER", end.inner_peer.to_string()),
            ("MAST_OWN_AS", own_as.to_string()),
            ("MAST_PEER_AS", peer_as.to_string()),
        ];
        changes.try_send(Change { what, variables }).map_err(|_| "too many changes wait for it".to_owned())
    }

    /// Waits until the program has run for all changes.
    pub fn end(&mut self, tell: Tell<'_>) {
        self.changes = None;
        // A panic of the thread was told where it happened.
        _ = self.thread.take().map(thread::JoinHandle::join);
        self.read(tell);
    }

    /// Tells about programs that have failed.
    pub fn read(&mut self, tell: Tell<'_>) {
        self.waker.take();
        for error in self.failures.try_iter() {
            tell(Event::Failed { what: "on_tunnel".into(), error });
        }
    }
}

impl AsFd for Hook {
    /// A descriptor that is readable when a program has failed.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.waker.as_fd()
    }
}

fn start(program: &str, arguments: &[String], change: &Change) -> Result<(), String> {
    let mut command = Command::new(program);
    command.args(arguments).arg(change.what).stdin(Stdio::null());
    // What it prints must not come between this program's lines.
    command.stdout(Stdio::null());
    command.envs(change.variables.iter().map(|(name, value)| (name, value)));
    with_all_signals(&mut command);
    let child = Watched::start(&mut command).map_err(|error| error.to_string())?;
    match wait_readable([Some(child.as_fd())], PATIENCE) {
        Ok([true]) => {}
        // It is killed when it is dropped.
        _ => return Err(format!("it has not ended within {} s", PATIENCE.as_secs())),
    }
    let ended = child.end().map_err(|error| error.to_string())?;
    if ended.code == Some(0) { Ok(()) } else { Err(ended.describe()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::TunnelKind;

    fn end() -> TunnelEnd {
        TunnelEnd {
            peer: "A".into(),
            prefix: "2001:db8:a::/48".parse().unwrap(),
            interface: "mast1".into(),
            kind: TunnelKind::Vxlan,
            id: 1,
            inner_own: "2001:db8:f::1".parse().unwrap(),
            inner_peer: "2001:db8:f::".parse().unwrap(),
        }
    }

    #[test]
    fn a_program_gets_the_tunnel_and_its_failure_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("out");
        let script = format!("echo $1 $MAST_PEER $MAST_PREFIX $MAST_PEER_AS > {}; exit 3", file.display());
        let mut hook = Hook::new(&["sh", "-c", &script, "sh"].map(String::from)).unwrap();
        hook.tunnel("made", &end(), 1, 2).unwrap();
        let woken = wait_readable([Some(hook.as_fd())], Duration::from_secs(60)).unwrap();
        assert_eq!(woken, [true]);
        let mut told = Vec::new();
        hook.read(&mut |event| told.push(event));
        let error = "sh made: its program ended with exit code 3".to_owned();
        assert_eq!(told, [Event::Failed { what: "on_tunnel".into(), error }]);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "made A 2001:db8:a::/48 2\n");
        // The last changes are not lost at the end.
        hook.tunnel("removed", &end(), 1, 3).unwrap();
        hook.end(&mut |event| told.push(event));
        assert_eq!(told.len(), 2);
        assert_eq!(std::fs::read_to_string(file).unwrap(), "removed A 2001:db8:a::/48 3\n");
    }

    #[test]
    fn without_a_program_nothing_happens() {
        let hook = Hook::new(&[]).unwrap();
        assert_eq!(hook.tunnel("made", &end(), 1, 2), Ok(()));
    }
}
