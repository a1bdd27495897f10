//! Sessions whose state is kept without being asked for, so that `treecast send --resume` goes on with them.
//!
//! Each has a folder of its own, which only its user may enter. `command` is how the sender was started, and is locked while the
//! sender runs; `session` is the file of `--session`.

use std::{
    env,
    ffi::{OsStr, OsString},
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Read, Write},
    os::unix::{
        ffi::{OsStrExt, OsStringExt},
        fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    },
    path::{Path, PathBuf},
    process::ExitCode,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use treecast::{
    KeptState, Ticket,
    unstable::{Stop, reason::SendError},
};
use treecast_host::{
    clock::WallTime,
    folder::{Lock, lock},
    user,
};

use super::{Repair, SessionArgs, is_carousel, is_iotup, is_stream};
use crate::{Outcome, advice, arguments::counted, history, output};

/// The value of `--session` that keeps no state.
const NO_STATE: &str = "none";

/// The time for which the state of a session is kept. Receivers keep incomplete files for as long.
const MAX_AGE: Duration = Duration::from_secs(7 * 24 * 3600);

/// The most sessions of one user that are kept, and the most bytes of their files together.
const MOST: usize = 32;
const MOST_BYTES: u64 = 256 << 20;

/// The longest command line that is read, in bytes.
const MAX_COMMAND_LEN: u64 = 4 << 20;

const COMMAND: &str = "command";
const SESSION: &str = "session";

/// The kept state of a session. Other senders leave it alone while this lives.
#[derive(Debug)]
pub(super) struct Kept {
    folder: PathBuf,
    /// Whether going on would bring nobody more: what receivers lack cannot be sent, or nobody lacks anything.
    is_in_vain: bool,
    /// Holds the lock.
    _command: File,
}

/// How a sender was started.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Command {
    working_folder: PathBuf,
    /// The moment of `--start-at`, in seconds since 1970, as it was then.
    pub start_at: Option<u64>,
    /// The arguments behind the program's name.
    pub arguments: Vec<OsString>,
}

impl Kept {
    /// Makes a place for the state of a session that can go on after a restart. `None` where that makes no sense or is not
    /// possible: the session goes on without.
    pub fn begin(args: &SessionArgs) -> Option<Self> {
        let goes_on = !is_stream(args)
            && args.sent.feed.is_none()
            && !is_iotup(args)
            && args.repair != Repair::Local
            // The loops of such a carousel bring less as long as its state is not kept.
            && !(is_carousel(args) && args.form.delta);
        if !goes_on || args.session.is_some() {
            return None;
        }
        let parent = parent();
        prepare(&parent).ok()?;
        prune(&parent);
        let command = Command {
            working_folder: env::current_dir().ok()?,
            start_at: args.connected.start_at.map(|at| at.as_secs()),
            arguments: args.sent.arguments.iter().skip(1).cloned().collect(),
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
        let folder = parent.join(format!("{}-{}", now.as_millis(), std::process::id()));
        DirBuilder::new().mode(0o700).create(&folder).ok()?;
        match write_command(&folder, &command) {
            Ok(file) => Some(Self { folder, is_in_vain: false, _command: file }),
            Err(_) => {
                remove(&folder);
                None
            }
        }
    }

    /// The file for `--session`.
    pub fn session_file(&self) -> PathBuf {
        self.folder.join(SESSION)
    }

    /// Notes that going on would bring nobody more.
    pub fn note_in_vain(&mut self) {
        self.is_in_vain = true;
    }

    /// What goes on with this session. `None` if going on would bring nobody more.
    pub fn goes_on(&self) -> Option<String> {
        let state = KeptState::read(self.session_file()).ok().flatten();
        let number = state.map_or_else(String::new, |state| format!(" {}", state.number));
        (!self.is_in_vain).then(|| format!("`treecast send --resume{number}` goes on with the same ticket"))
    }

    /// Removes the state of a session that nobody will go on with, and says of another one how to go on.
    pub fn end(self, outcome: Outcome) -> Outcome {
        let has_begun = self.session_file().exists();
        match &outcome {
            _ if !has_begun => remove(&self.folder),
            Ok(code) if *code == ExitCode::SUCCESS && !Stop::was_signalled() => remove(&self.folder),
            Ok(code) => {
                let for_whom =
                    if *code == ExitCode::SUCCESS { "" } else { ", for those that lack something" };
                self.goes_on().into_iter().for_each(|goes_on| remark!("treecast: {goes_on}{for_whom}"));
            }
            Err(error) if may_go_on(&**error) => {
                let line = advice::line(&**error);
                return Err(self
                    .goes_on()
                    .map_or(line.clone(), |goes_on| format!("{line}; {goes_on}"))
                    .into());
            }
            Err(_) => {}
        }
        outcome
    }
}

/// Takes the session that `which` names: by its number, its ticket, or a file. An empty text is the only one that there is.
///
/// # Errors
/// One line: which sessions there are, or that there is none.
pub(super) fn resume(which: &str) -> Result<(Kept, Command), String> {
    let parent = parent();
    let found: Vec<Found> = all(&parent).into_iter().filter_map(Found::read).collect();
    let named: Vec<&Found> = found.iter().filter(|found| found.is(which)).collect();
    let one = match named[..] {
        [] if is_session_file(which) => {
            return Err(format!(
                "{which} is a file of --session: the same files and options go on with it, as in `treecast send --session {which} FILE`"
            ));
        }
        [] if found.is_empty() => {
            return Err(format!(
                "no session is kept in {}: those of the last 7 days are, until every receiver has everything",
                parent.display()
            ));
        }
        [] => return Err(format!("no kept session is called {which:?}: there are {}", in_a_row(&found))),
        [one] => one,
        _ => {
            let example = named[0].number();
            let named = in_a_row(named.iter().copied());
            return Err(format!("several sessions can go on: {named}; name one, as --resume {example}"));
        }
    };
    let file = File::open(one.folder.join(COMMAND)).map_err(|error| error.to_string())?;
    if lock(&file) == Lock::Taken {
        return Err(format!("the session {} has a sender that runs: end that one first", one.number()));
    }
    env::set_current_dir(&one.command.working_folder).map_err(|error| {
        let folder = one.command.working_folder.display();
        format!("the session {} began in {folder}, which cannot be entered: {error}", one.number())
    })?;
    let command = Command::parse(&one.command.to_bytes()).ok_or("the command line cannot be read")?;
    Ok((Kept { folder: one.folder.clone(), is_in_vain: false, _command: file }, command))
}

/// Whether a path leads to the state of a session that is kept where `--session` says.
fn is_session_file(which: &str) -> bool {
    !which.is_empty() && KeptState::read(which).is_ok_and(|state| state.is_some())
}

/// A session that is kept.
struct Found {
    folder: PathBuf,
    command: Command,
    state: KeptState,
    began: SystemTime,
}

impl Found {
    fn read(folder: PathBuf) -> Option<Self> {
        let command = read_command(&folder).ok()?;
        let state = KeptState::read(folder.join(SESSION)).ok()??;
        let began = fs::metadata(folder.join(COMMAND)).and_then(|found| found.modified()).ok()?;
        Some(Self { folder, command, state, began })
    }

    /// The session's number, as `treecast status` shows it.
    fn number(&self) -> &str {
        &self.state.number
    }

    fn is(&self, which: &str) -> bool {
        let is_ticket = || which.parse::<Ticket>().is_ok_and(|ticket| ticket == self.state.ticket);
        let is_file = |name: &String| name == which || Path::new(name).file_name() == Some(OsStr::new(which));
        which.is_empty() || which == self.number() || self.state.names.iter().any(is_file) || is_ticket()
    }

    /// The session in a few words: "0000feed (image.raw, of 2026-11-28 21:45:00)".
    fn words(&self) -> String {
        let first = self.state.names.first().map_or("no file", String::as_str);
        let others = match self.state.names.len().saturating_sub(1) {
            0 => String::new(),
            others => format!(" and {}", counted(others, "other")),
        };
        let began = self.began.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let began = WallTime::local(began).map_or_else(String::new, |time| format!(", of {time}"));
        output::in_one_line(&format!("{} ({first}{others}{began})", self.number()))
    }
}

fn in_a_row<'a>(found: impl IntoIterator<Item = &'a Found>) -> String {
    found.into_iter().map(Found::words).collect::<Vec<_>>().join(", ")
}

/// Whether a session that has ended so may go on.
fn may_go_on(error: &(dyn std::error::Error + 'static)) -> bool {
    let cause = error.downcast_ref().and_then(treecast::Error::cause);
    let cause = cause.and_then(|cause| cause.downcast_ref::<SendError>());
    // With a name that nobody has, it would end so again.
    matches!(cause, Some(SendError::Interrupted | SendError::NoReceivers { .. }))
}

/// The folder of all sessions that are kept of this user.
fn parent() -> PathBuf {
    let given = env::var_os("XDG_STATE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    given.map_or_else(history::default_state, |folder| folder.join("treecast")).join("sessions")
}

/// Makes the folder if it is missing.
///
/// # Errors
/// When it cannot be made, or others than this user could have put something into it.
fn prepare(folder: &Path) -> io::Result<()> {
    folder.parent().map_or(Ok(()), fs::create_dir_all)?;
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let found = fs::symlink_metadata(folder)?;
    let is_own = found.is_dir() && found.uid() == user::effective() && found.mode() & 0o077 == 0;
    if is_own { Ok(()) } else { Err(io::Error::other("it is not this user's alone")) }
}

/// The folders of sessions, the oldest first.
fn all(parent: &Path) -> Vec<PathBuf> {
    if prepare(parent).is_err() {
        return Vec::new();
    }
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    let mut folders: Vec<_> = entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    folders.sort();
    folders
}

/// Removes what is too old, or too much. What a sender uses stays.
fn prune(parent: &Path) {
    let (mut count, mut bytes) = (0, 0);
    for folder in all(parent).into_iter().rev() {
        let length = |name: &str| fs::metadata(folder.join(name)).map_or(0, |found| found.len());
        let changed = [COMMAND, SESSION]
            .iter()
            .filter_map(|name| fs::metadata(folder.join(name)).and_then(|found| found.modified()).ok());
        let age = changed.max().and_then(|at| SystemTime::now().duration_since(at).ok());
        count += 1;
        bytes += length(SESSION) + length(COMMAND);
        let is_over = age.is_some_and(|age| age > MAX_AGE) || count >= MOST || bytes > MOST_BYTES;
        if is_over && File::open(folder.join(COMMAND)).is_ok_and(|file| lock(&file) != Lock::Taken) {
            remove(&folder);
        }
    }
}

/// Removes a session's state. A failure leaves it to the next sender.
fn remove(folder: &Path) {
    _ = fs::remove_dir_all(folder);
}

fn write_command(folder: &Path, command: &Command) -> io::Result<File> {
    let path = folder.join(COMMAND);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    match lock(&file) {
        Lock::Ours => file.write_all(&command.to_bytes()).map(|()| file),
        Lock::Taken | Lock::Unknown => Err(io::Error::other("the file system knows no locks")),
    }
}

fn read_command(folder: &Path) -> io::Result<Command> {
    let mut bytes = Vec::new();
    File::open(folder.join(COMMAND))?.take(MAX_COMMAND_LEN).read_to_end(&mut bytes)?;
    Command::parse(&bytes).ok_or_else(|| io::Error::other("it is cut short"))
}

impl Command {
    /// The working folder, the moment of the start and the arguments, each with a zero byte behind it.
    fn to_bytes(&self) -> Vec<u8> {
        let start_at = self.start_at.map_or_else(String::new, |at| at.to_string());
        let facts = [self.working_folder.as_os_str(), start_at.as_ref()];
        let parts = facts.into_iter().chain(self.arguments.iter().map(OsString::as_os_str));
        parts.flat_map(|part| [part.as_bytes(), &[0]].concat()).collect()
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let mut parts = bytes.strip_suffix(&[0])?.split(|byte| *byte == 0);
        let working_folder = PathBuf::from(OsString::from_vec(parts.next()?.to_vec()));
        let start_at = std::str::from_utf8(parts.next()?).ok()?.parse().ok();
        let arguments = parts.map(|part| OsString::from_vec(part.to_vec())).collect();
        Some(Self { working_folder, start_at, arguments })
    }

    /// The arguments with those of the present command line behind them, which count where both name an option.
    pub fn with_present(&self, which: &str) -> Vec<OsString> {
        let mut present: Vec<OsString> = env::args_os().skip(1).collect();
        if let Some(at) = present.iter().position(|argument| argument == "--resume") {
            let is_named = !which.is_empty() && present.get(at + 1).is_some_and(|next| next == which);
            present.drain(at..at + 1 + usize::from(is_named));
        }
        present.retain(|argument| !argument.as_bytes().starts_with(b"--resume="));
        let behind = present.iter().position(|argument| argument == "send").map_or(0, |at| at + 1);
        [OsString::from("treecast")]
            .into_iter()
            .chain(self.arguments.iter().cloned())
            .chain(present.drain(behind..))
            .collect()
    }
}

/// Whether the present command line gives an option.
pub(super) fn is_present(option: &str) -> bool {
    let given = |argument: OsString| {
        argument.as_bytes().split(|byte| *byte == b'=').next() == Some(option.as_bytes())
    };
    env::args_os().any(given)
}

/// Whether `--session` asks for no state at all.
pub(super) fn is_refused(session: Option<&Path>) -> bool {
    session.is_some_and(|path| path.as_os_str() == NO_STATE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_is_kept_as_it_was() {
        let arguments = ["send", "", "a b\nc", "\u{e9}"].map(OsString::from).to_vec();
        let mut command = Command { working_folder: "/srv".into(), start_at: Some(7), arguments };
        command.arguments.push(OsString::from_vec(vec![0xff]));
        assert_eq!(Command::parse(&command.to_bytes()), Some(command));
        assert_eq!(Command::parse(b"/srv"), None);
    }

    #[test]
    fn what_is_too_much_or_too_old_goes_and_what_runs_stays() {
        let parent = env::temp_dir().join(format!("treecast-kept-{}", std::process::id()));
        prepare(&parent).unwrap();
        let command = || Command { working_folder: "/".into(), start_at: None, arguments: Vec::new() };
        let make = |number: usize| {
            let folder = parent.join(format!("{number:04}"));
            fs::create_dir(&folder).unwrap();
            write_command(&folder, &command()).unwrap()
        };
        let running = make(0);
        (1..40).for_each(|number| drop(make(number)));
        let old = File::open(parent.join("0039").join(COMMAND)).unwrap();
        old.set_modified(SystemTime::now() - 2 * MAX_AGE).unwrap();
        drop(old);
        prune(&parent);
        let left: Vec<_> = all(&parent).iter().map(|path| path.file_name().unwrap().to_owned()).collect();
        drop(running);
        fs::remove_dir_all(&parent).unwrap();
        let expected: Vec<_> =
            [0].into_iter().chain(9..39).map(|number| OsString::from(format!("{number:04}"))).collect();
        assert_eq!(left, expected);
    }
}
