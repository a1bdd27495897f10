//! Programs that are started, heard and ended: those of experiments, of sessions with faults, and of benches.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Write},
    os::unix::{fs::FileExt, process::CommandExt},
    process::{ChildStdin, Command, Stdio},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        mpsc::{self, Receiver, RecvTimeoutError},
    },
    thread,
    time::Instant,
};

use serde::de::DeserializeOwned;
use treecast_host::{
    folder, memory,
    process::{Ended, Process},
};

/// A program that runs at a node.
pub struct Program {
    /// The name by which messages call the program.
    pub name: String,
    pub said: Receiver<(Instant, Said)>,
    pub handle: Handle,
    /// The standard input of the program, where it was given one. The program reads its end when this is dropped.
    pub input: Option<Input>,
    /// The process of the program, when it runs on this machine.
    pub pid: Option<u32>,
}

/// The standard input of a program, wherever that runs.
pub type Input = Box<dyn Write + Send>;

/// Something that a program has told.
#[derive(Debug)]
pub enum Said {
    /// The program runs. Only hosts far away tell this: there, an order and its start are two moments.
    Began,
    /// The program has printed this line on its standard output.
    Line(String),
    /// The program has ended. The second field is the last line of its standard error.
    Ended(Ended, Option<String>),
}

/// A handle by which a program can be sent signals.
#[derive(Clone)]
pub struct Handle(Arc<dyn Signal + Send + Sync>);

/// A way to send signals to a program, wherever it runs.
pub trait Signal {
    /// Sends a signal, if the program still runs.
    fn send(&self, signal: i32);
}

impl Handle {
    pub fn new(signal: impl Signal + Send + Sync + 'static) -> Self {
        Self(Arc::new(signal))
    }

    pub fn signal(&self, signal: i32) {
        self.0.send(signal);
    }
}

impl Program {
    /// Starts `command` as it is on this machine. Its standard input is empty.
    ///
    /// # Errors
    /// If there is no such program.
    pub fn start(name: String, mut command: Command) -> io::Result<Self> {
        command.stdin(Stdio::null());
        Self::start_with_input(name, command)
    }

    /// Starts `command` with the standard input that it says. Writes to a piped one fail where they would wait.
    ///
    /// # Errors
    /// If there is no such program.
    pub fn start_with_input(name: String, command: Command) -> io::Result<Self> {
        let (tell, said) = mpsc::channel();
        let hear = move |what| {
            // Nobody may listen any more; the program is waited for all the same.
            _ = tell.send((Instant::now(), what));
        };
        let (handle, input, pid) = start(command, memory::unnamed_file()?, hear)?;
        input.iter().try_for_each(folder::never_wait)?;
        Ok(Self { name, said, handle, input: input.map(|input| Box::new(input) as Input), pid: Some(pid) })
    }

    /// Waits until `end` for the next thing that the program tells.
    pub fn next(&self, end: Instant) -> io::Result<(Instant, Said)> {
        let left = end.saturating_duration_since(Instant::now());
        self.said.recv_timeout(left).map_err(|error| match error {
            RecvTimeoutError::Timeout => io::Error::other(format!("{} does not answer", self.name)),
            RecvTimeoutError::Disconnected => io::Error::other(format!("{} has ended", self.name)),
        })
    }

    /// Waits until `end` for an event of type `E`, and fails when the program ends instead. Lines that are no such event are
    /// passed over: later versions may tell more than is known here.
    pub fn event<E: DeserializeOwned>(&self, end: Instant) -> io::Result<(Instant, E)> {
        loop {
            match self.next(end)? {
                (at, Said::Line(line)) => {
                    if let Ok(event) = serde_json::from_str(&line) {
                        return Ok((at, event));
                    }
                }
                (_, Said::Began) => {}
                (_, Said::Ended(_, last)) => {
                    let last = last.unwrap_or_else(|| "it said nothing".into());
                    return Err(io::Error::other(format!("{} has ended: {last}", self.name)));
                }
            }
        }
    }
}

/// A place that holds one program after the other, and that another thread may close.
#[derive(Default)]
pub struct Slot {
    state: Mutex<SlotState>,
}

#[derive(Default)]
struct SlotState {
    running: Option<Handle>,
    /// Nothing may start any more.
    closed: bool,
}

impl Slot {
    /// Starts a program by `start`, unless the slot was closed; then `None`.
    pub fn start(&self, start: impl FnOnce() -> io::Result<Program>) -> io::Result<Option<Program>> {
        let mut state = self.lock();
        if state.closed {
            return Ok(None);
        }
        let program = start()?;
        state.running = Some(program.handle.clone());
        Ok(Some(program))
    }

    /// Takes note that the program in the slot has ended.
    pub fn ended(&self) {
        self.lock().running = None;
    }

    /// Sends a signal to the program, when one runs.
    pub fn signal(&self, signal: i32) {
        if let Some(running) = &self.lock().running {
            running.signal(signal);
        }
    }

    /// Closes the slot: no program starts in it any more, and the running one gets the signal.
    pub fn close(&self, signal: i32) {
        self.lock().closed = true;
        self.signal(signal);
    }

    pub fn is_closed(&self) -> bool {
        self.lock().closed
    }

    pub fn is_running(&self) -> bool {
        self.lock().running.is_some()
    }

    fn lock(&self) -> MutexGuard<'_, SlotState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Starts `command` as it is, away from this terminal, on a thread of its own: a program that is to die with the thread that starts
/// it ends with this one. `hear` is told there of what the program prints and of its end. The standard error goes to `errors`. Returns
/// the program's handle, its standard input and its process.
///
/// # Errors
/// If there is no such program.
pub fn start(
    mut command: Command,
    errors: File,
    mut hear: impl FnMut(Said) + Send + 'static,
) -> io::Result<(Handle, Option<ChildStdin>, u32)> {
    command.process_group(0);
    command.stdout(Stdio::piped()).stderr(errors.try_clone()?);
    let process = Arc::new(Process::default());
    let (started, has_started) = mpsc::channel();
    let reaper = Arc::clone(&process);
    thread::Builder::new().spawn(move || {
        let spawned = reaper.start(|| command.spawn());
        drop(command);
        match spawned {
            Err(error) => _ = started.send(Err(error)),
            Ok(None) => {}
            Ok(Some(mut child)) => {
                let output = child.stdout.take().map(BufReader::new);
                _ = started.send(Ok((child.stdin.take(), child.id())));
                let lines = output.into_iter().flat_map(BufRead::lines).map_while(Result::ok);
                lines.for_each(|line| hear(Said::Line(line)));
                let ended = reaper.wait(child).unwrap_or_default();
                hear(Said::Ended(ended, last_line(&errors)));
            }
        }
    })?;
    let (input, pid) = has_started.recv().unwrap_or_else(|_| Err(io::Error::other("it was not to start")))?;
    Ok((Handle::new(Ours(process)), input, pid))
}

/// The end of a file, at most 4 KiB of it. `None` where it cannot be read.
pub fn tail(file: &File) -> Option<String> {
    let mut tail = [0; 4096];
    let from = file.metadata().ok()?.len().saturating_sub(tail.len() as u64);
    let read = file.read_at(&mut tail, from).ok()?;
    Some(String::from_utf8_lossy(&tail[..read]).into_owned())
}

/// The last line of a file that says something, at most 500 characters of it.
fn last_line(file: &File) -> Option<String> {
    let tail = tail(file)?;
    let line = tail.lines().rev().find(|line| !line.trim().is_empty())?;
    Some(line.trim().chars().take(500).collect())
}

/// A process of this machine.
struct Ours(Arc<Process>);

impl Signal for Ours {
    fn send(&self, signal: i32) {
        self.0.signal(signal);
    }
}

impl Drop for Ours {
    fn drop(&mut self) {
        self.0.bar(libc::SIGTERM);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Starts a shell with a script.
    fn shell(script: &str) -> io::Result<Program> {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Program::start("sh".into(), command)
    }

    /// Waits until `end` for the program's end, whatever it says before.
    fn ended(program: &Program, end: Instant) -> (Ended, Option<String>) {
        loop {
            if let (_, Said::Ended(ended, last)) = program.next(end).unwrap() {
                return (ended, last);
            }
        }
    }

    #[test]
    fn a_program_tells_its_lines_and_how_it_ended() {
        let program = shell("echo one; echo last words >&2; exit 3").unwrap();
        let end = Instant::now() + Duration::from_secs(30);
        assert!(matches!(program.next(end).unwrap().1, Said::Line(line) if line == "one"));
        let (ended, last) = ended(&program, end);
        assert_eq!((ended.code, last.as_deref()), (Some(3), Some("last words")));
        assert!(program.event::<serde_json::Value>(end).is_err());
    }

    #[test]
    fn a_closed_slot_starts_nothing() {
        let slot = Slot::default();
        let program = slot.start(|| shell("exec sleep 60")).unwrap().unwrap();
        slot.close(libc::SIGKILL);
        let (ended, _) = ended(&program, Instant::now() + Duration::from_secs(30));
        assert_eq!(ended.signal, Some(libc::SIGKILL));
        assert!(slot.start(|| shell("exec sleep 60")).unwrap().is_none());
    }
}
