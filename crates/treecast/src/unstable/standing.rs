//! A receiver that stays: it takes announced sessions of senders that it trusts, again and again, and keeps a history.

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use glob::Pattern;

pub use treecast_driver::standing::{Demand, Entry, Happened, Owner};
use treecast_driver::{
    files,
    receive::{Chooser, NameFilter},
    standing::{self, History, Options},
    status::Progress,
};
use treecast_host::service_manager::ServiceManager;

use crate::{
    Answer, Error, ErrorKind, Finish, NextEvent, Offer,
    limits::bounded,
    observers::{Observed, Observers},
    session::Session,
    unstable::{
        Stop,
        keys::{Identity, PublicKey},
    },
};

/// The number of sessions at the same time, unless an option says otherwise.
const AT_ONCE: usize = 4;

/// The longest time that a command may take, unless an option says otherwise.
const COMMAND_TIME: Duration = Duration::from_secs(600);

/// The options of a standing receiver.
///
/// ```no_run
/// # fn main() -> Result<(), treecast::Error> {
/// use treecast::unstable::{Stop, standing::{Rule, Standing}};
///
/// let sender = "tck1.ANago1m8WJu2mDfQHMV28WV25Tqgw6sGiSw81_Da2wBAx2xv".parse().unwrap();
/// let rule = Rule::new([sender], "/srv/images").session(|name| name.starts_with("image"));
/// let standing = Standing::new("/var/lib/images", None)?.rule(rule);
/// standing.run(&Stop::on_signals()?, &mut |entry| println!("{}", entry.event.words()))
/// # }
/// ```
#[must_use = "a standing receiver does nothing until it runs"]
#[derive(Debug, Clone)]
pub struct Standing(Options, Observed);

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
        let options = Options { name, identity, interfaces, state, at_once: AT_ONCE, rules: Vec::new() };
        Ok(Self(options, Observed::default()))
    }

    /// Answers Prometheus at `http://ADDRESS/metrics`. Default: no answer.
    pub fn metrics(mut self, address: SocketAddr) -> Self {
        self.1.metrics = Some(address);
        self
    }

    /// Answers `treecast status` of the same user. Default: no answer.
    pub fn answer_status(mut self) -> Self {
        self.1.status = true;
        self
    }

    /// Starts to answer observers.
    fn observers(&self) -> Result<Observers, Error> {
        Observers::start(Progress::Standing(Box::default()), self.1, None)
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

    /// The public key of the receiver, which senders name to send to it.
    pub fn public_key(&self) -> PublicKey {
        self.0.identity.public_key()
    }

    /// Takes sessions in a thread of its own, until it is [stopped](Running::stop) or dropped. It does not speak to systemd, which the
    /// program may do itself.
    ///
    /// # Errors
    /// [`ErrorKind::Options`] without a rule, and [`ErrorKind::System`] if no thread can be started. Other errors are told by
    /// [`Running::finish`].
    pub fn start(self) -> Result<Running, Error> {
        if self.0.rules.is_empty() {
            let line =
                "a standing receiver without rules takes nothing: add a rule with senders and a folder";
            return Err(Error::new(ErrorKind::Options, line));
        }
        let key = self.public_key();
        let session = Arc::new(Session::new(None, missed)?);
        let observers = self.observers()?;
        let run = move |session: &Session<Entry, ()>| {
            let mut tell = |entry: &Entry| session.events.tell(entry.clone());
            let manager = ServiceManager::default();
            standing::run(&self.0, &session.stop, &manager, observers.board(), &mut tell).map_err(of_standing)
        };
        session.run("treecast-standing", run)?;
        Ok(Running { session, key })
    }

    /// Takes sessions in this thread until `stop` is requested, and tells each entry of the history. Speaks to systemd, where that
    /// has started the process.
    ///
    /// # Errors
    /// [`ErrorKind::File`] if the history cannot be kept, and [`ErrorKind::Network`] if nothing can be heard.
    pub fn run(&self, stop: &Stop, on_entry: &mut dyn FnMut(&Entry)) -> Result<(), Error> {
        let manager = ServiceManager::from_environment();
        let observers = self.observers()?;
        standing::run(&self.0, stop, &manager, observers.board(), on_entry).map_err(of_standing)
    }
}

fn of_standing(error: standing::StandingError) -> Error {
    match error {
        standing::StandingError::History(error) => Error::of(ErrorKind::File, error),
        error => Error::of(ErrorKind::Network, error),
    }
}

/// The entry that tells how many others nobody has read.
fn missed(entries: u64) -> Entry {
    let line = format!("{entries} entries were not read in time: the history in the folder `state` has them");
    Entry::new(Happened::Warning).because(line)
}

/// A standing receiver that runs in a thread of its own. Dropping it asks it to end.
#[derive(Debug)]
pub struct Running {
    session: Arc<Session<Entry, ()>>,
    key: PublicKey,
}

impl Running {
    /// The public key of the receiver.
    pub fn public_key(&self) -> PublicKey {
        self.key
    }

    /// The next entry of the history. `None` when the receiver has ended.
    pub fn next_event(&self) -> NextEvent<'_, Entry> {
        NextEvent(&self.session.events)
    }

    /// The entries, for a loop that blocks. It ends when the receiver has.
    pub fn events(&self) -> impl Iterator<Item = Entry> + '_ {
        std::iter::from_fn(|| self.next_event().wait())
    }

    /// Asks the receiver to end. What is under way is taken up again by the next start with the same folder `state`.
    pub fn stop(&self) -> Finish<()> {
        self.session.request_stop();
        self.finish()
    }

    /// The end of the receiver.
    pub fn finish(&self) -> Finish<()> {
        self.session.finish()
    }

    /// Refuses a child that was forked, where no thread runs the receiver.
    ///
    /// # Errors
    /// [`ErrorKind::Closed`] if another process has started the receiver.
    pub fn check_process(&self) -> Result<(), Error> {
        self.session.place.check_process()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.session.request_stop();
    }
}

/// A rule of a standing receiver: whose sessions it takes, and what becomes of them.
#[derive(Debug, Clone)]
pub struct Rule(standing::Rule);

impl Rule {
    /// Takes all sessions of these senders into this folder that are for standing receivers.
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
            audience: Demand::default(),
            in_order: false,
            text: String::new(),
        })
    }

    /// Takes only sessions whose names this function accepts.
    pub fn session(mut self, accepts: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        self.0.session = NameFilter::new(accepts);
        self
    }

    /// Takes only sessions whose names match a pattern, in which `*` stands for any letters and `?` for one, as in a shell.
    ///
    /// # Errors
    /// [`ErrorKind::Options`] if it is no pattern.
    pub fn session_like(self, pattern: &str) -> Result<Self, Error> {
        let pattern = Pattern::new(pattern).map_err(|error| {
            Error::new(
                ErrorKind::Options,
                format!("{pattern:?} is no pattern for names of sessions: {error}"),
            )
        })?;
        let text = pattern.as_str().to_owned();
        Ok(self.session(move |name| pattern.matches(name)).described(text))
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
    pub fn max_files(mut self, objects: u64) -> Self {
        self.0.files.max_files = Some(objects);
        self
    }

    /// Ends a session when its objects are larger together than this, in bytes.
    pub fn max_bytes(mut self, bytes: u64) -> Self {
        self.0.files.max_bytes = Some(bytes);
        self
    }

    /// The longest time that a session may take, all tries together. Default: no limit.
    pub fn max_time(mut self, time: Duration) -> Self {
        self.0.max_time = Some(bounded(time));
        self
    }

    /// See [`Rule::max_files`].
    #[deprecated(note = "it is called `max_files`, as the configuration's field is")]
    pub fn most_objects(self, objects: u64) -> Self {
        self.max_files(objects)
    }

    /// See [`Rule::max_bytes`].
    #[deprecated(note = "it is called `max_bytes`, as the configuration's field is")]
    pub fn most_bytes(self, bytes: u64) -> Self {
        self.max_bytes(bytes)
    }

    /// See [`Rule::max_time`].
    #[deprecated(note = "it is called `max_time`, as the configuration's field is")]
    pub fn most_time(self, time: Duration) -> Self {
        self.max_time(time)
    }

    /// The words of a program that runs after a session that is complete. `{}` in a word stands for the folder.
    pub fn command(mut self, words: Vec<String>) -> Self {
        self.0.command = Some(words);
        self
    }

    /// Sets whom a session must be for. Default: standing receivers.
    pub fn audience(mut self, audience: Demand) -> Self {
        self.0.audience = audience;
        self
    }

    /// Sets whom a session must be for, by the word that the configuration file has for it: standing, named or anybody.
    ///
    /// # Errors
    /// [`ErrorKind::Options`] for another word.
    pub fn audience_called(self, word: &str) -> Result<Self, Error> {
        let audience = match word {
            "standing" => Demand::Standing,
            "named" => Demand::Named,
            "anybody" => Demand::Anybody,
            _ => {
                let line = format!("{word:?} is no audience: expected standing, named or anybody");
                return Err(Error::new(ErrorKind::Options, line));
            }
        };
        Ok(self.audience(audience))
    }

    /// Takes sessions of a sender only in the order in which they began, whatever their names are. Default: this holds for sessions of
    /// one name.
    pub fn in_order(mut self, is_in_order: bool) -> Self {
        self.0.in_order = is_in_order;
        self
    }

    /// A text from which the functions of this rule were made, such as patterns. After a restart, a command that is still to run is run
    /// only if the rule is the same as before, and functions cannot be compared.
    pub fn described(mut self, text: impl Into<String>) -> Self {
        self.0.text = text.into();
        self
    }

    /// The longest time that the program may take. After it, the program and its process group are killed. Default: 600 s.
    pub fn command_time(mut self, time: Duration) -> Self {
        self.0.command_time = bounded(time);
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
