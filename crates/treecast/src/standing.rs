//! A receiver that stays: it takes announced sessions of senders that it trusts, again and again, and keeps a history.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

pub use treecast_driver::standing::{Entry, Happened, Owner};
use treecast_driver::{
    files,
    receive::{Chooser, NameFilter},
    standing::{self, History, Options},
};
use treecast_host::service_manager::ServiceManager;

use crate::{
    Answer, Error, ErrorKind, Offer, Stop,
    keys::{Identity, PublicKey},
};

/// The number of sessions at the same time, unless an option says otherwise.
const AT_ONCE: usize = 4;

/// The longest time that a command may take, unless an option says otherwise.
const COMMAND_TIME: Duration = Duration::from_secs(600);

/// The options of a standing receiver.
///
/// ```no_run
/// # fn main() -> Result<(), treecast::Error> {
/// use treecast::{Stop, standing::{Rule, Standing}};
///
/// let sender = "tck1.SyJ3d9TdH8YcZj4hPSGQdArTRIdP9MoyzQi1Uz_KbQAAAAAA".parse().unwrap();
/// let rule = Rule::new([sender], "/srv/images").session(|name| name.starts_with("image"));
/// let standing = Standing::new("/var/lib/images", None)?.rule(rule);
/// standing.run(&Stop::on_signals()?, &mut |entry| println!("{}", entry.event.words()))
/// # }
/// ```
#[must_use = "a standing receiver does nothing until it runs"]
#[derive(Debug, Clone)]
pub struct Standing(Options);

impl Standing {
    /// A standing receiver without rules that keeps its history in the folder `state`. Its key is a named one or a file, or else
    /// `key.pem` in the folder, which is made at the first start.
    ///
    /// # Errors
    /// [`ErrorKind::File`] if the folder cannot be made, and [`ErrorKind::Key`] if the key cannot be used.
    pub fn new(state: impl Into<PathBuf>, key: Option<&str>) -> Result<Self, Error> {
        let state = state.into();
        let identity = match key {
            Some(key) => Identity::named(key),
            None => {
                fs::create_dir_all(&state).map_err(|error| {
                    let line = format!("cannot make {}: {error}; name another folder", state.display());
                    Error::new(ErrorKind::File, line)
                })?;
                let path = state.join("key.pem");
                if path.exists() { Identity::load(&path) } else { Identity::create(&path) }
            }
        };
        let identity = identity.map_err(|error| Error::of(ErrorKind::Key, error))?;
        let (name, interfaces) = (host_name(), Vec::new());
        Ok(Self(Options { name, identity, interfaces, state, at_once: AT_ONCE, rules: Vec::new() }))
    }

    /// The receiver's name at senders. It stays the same over restarts. Default: the host's name.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.0.name = name.into();
        self
    }

    /// The names of the interfaces to listen on. Default: all that are up.
    pub fn interfaces(mut self, names: Vec<String>) -> Self {
        self.0.interfaces = names;
        self
    }

    /// The largest number of sessions at the same time, 1 to 64. Default: 4.
    pub fn at_once(mut self, sessions: usize) -> Self {
        self.0.at_once = sessions.clamp(1, 64);
        self
    }

    /// Adds a rule. The first rule that takes a session counts.
    pub fn rule(mut self, rule: Rule) -> Self {
        self.0.rules.push(rule.0);
        self
    }

    /// Takes sessions in this thread until `stop` is requested, and tells each entry of the history. Speaks to systemd, where that
    /// has started the process.
    ///
    /// # Errors
    /// [`ErrorKind::File`] if the history cannot be kept, and [`ErrorKind::Network`] if nothing can be heard.
    pub fn run(&self, stop: &Stop, on_entry: &mut dyn FnMut(&Entry)) -> Result<(), Error> {
        let manager = ServiceManager::from_environment();
        standing::run(&self.0, stop, &manager, on_entry).map_err(|error| match error {
            standing::StandingError::History(error) => Error::of(ErrorKind::File, error),
            error => Error::of(ErrorKind::Network, error),
        })
    }
}

/// A rule of a standing receiver: whose sessions it takes, and what becomes of them.
#[derive(Debug, Clone)]
pub struct Rule(standing::Rule);

impl Rule {
    /// Takes all sessions of these senders into this folder.
    pub fn new(senders: impl IntoIterator<Item = PublicKey>, into: impl Into<PathBuf>) -> Self {
        Self(standing::Rule {
            senders: senders.into_iter().collect(),
            session: NameFilter::new(|_| true),
            chooser: None,
            into: into.into(),
            owner: None,
            files: files::Rules { wait_for_space: Duration::from_secs(60), ..files::Rules::default() },
            max_time: None,
            command: None,
            command_time: COMMAND_TIME,
        })
    }

    /// Takes only sessions whose names this function accepts.
    pub fn session(mut self, accepts: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        self.0.session = NameFilter::new(accepts);
        self
    }

    /// Decides about each object, as [`ReceiverBuilder::accept`](crate::ReceiverBuilder::accept) does.
    pub fn accept<A: Into<Answer>>(
        mut self,
        function: impl Fn(&Offer<'_>) -> A + Send + Sync + 'static,
    ) -> Self {
        self.0.chooser = Some(Chooser::new(move |offer| function(&Offer(offer)).into().choice()));
        self
    }

    /// The owner of what is received. Default: the user of this process.
    pub fn owner(mut self, owner: Owner) -> Self {
        self.0.owner = Some(owner);
        self
    }

    /// Keeps existing files, and does not fetch objects of their names. Default: they are replaced.
    pub fn keep_existing(mut self, keeps: bool) -> Self {
        self.0.files.keep_existing = keeps;
        self
    }

    /// Accepts names that begin with a dot at the top of the folder. Default: they are refused.
    pub fn hidden(mut self, accepts: bool) -> Self {
        self.0.files.hidden = accepts;
        self
    }

    /// Ends a session when more objects are announced than this.
    pub fn most_objects(mut self, objects: u64) -> Self {
        self.0.files.max_files = Some(objects);
        self
    }

    /// Ends a session when its objects are larger together than this, in bytes.
    pub fn most_bytes(mut self, bytes: u64) -> Self {
        self.0.files.max_bytes = Some(bytes);
        self
    }

    /// The longest time that a session may take, all tries together. Default: no limit.
    pub fn most_time(mut self, time: Duration) -> Self {
        self.0.max_time = Some(time);
        self
    }

    /// The words of a program that runs after a session that is complete. `{}` in a word stands for the folder.
    pub fn command(mut self, words: Vec<String>) -> Self {
        self.0.command = Some(words);
        self
    }

    /// The longest time that the program may take. After it, the program and its process group are killed. Default: 600 s.
    pub fn command_time(mut self, time: Duration) -> Self {
        self.0.command_time = time;
        self
    }
}

/// The history of a standing receiver that keeps it in this folder, the oldest entry first.
///
/// # Errors
/// [`ErrorKind::File`] if it cannot be read. Without a history, there are no entries.
pub fn history(state: &Path) -> Result<Vec<Entry>, Error> {
    History::read(state).map_err(|error| Error::of(ErrorKind::File, error))
}

fn host_name() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    if name.trim().is_empty() { "standing".to_owned() } else { name.trim().to_owned() }
}
