//! The file of `--session`: the state that a restarted sender needs to continue the session.
//!
//! It is text that only its owner may read, because it contains the sender's key:
//!
//! ```text
//! treecast session 1
//! ticket treecast2....                            the ticket, which is printed again
//! rates BITS_A_SECOND,...                         of a session with several: those that it began with
//! compressed LEVEL                                of a session that compresses its objects
//! since MILLISECONDS                              when the session began, since 1970
//! object KIND MODE SIZE SECONDS.NANOSECONDS NAME  what is sent, in the order of its numbers
//! begun                                           the lines before are all there
//! -----BEGIN PRIVATE KEY----- ...                 unless the session has a key of its own (--key)
//! sent INDEX END                                  the object has been multicast up to this byte
//! hash INDEX HASH                                 it has been read to its end, and this is its hash
//! came ADDRESS KEY NAME                           a receiver is there
//! has KEY NAME                                    it has everything
//! ended KEY NAME                                  it has everything, or has said that it ends
//! ```
//!
//! The last five kinds of lines are added while the session goes on, after the event that they describe. So a
//! killed sender repeats at most one step of the multicast. A reader skips a last line that was cut.
//!
//! A feed has no objects that are known before. Of its objects, `sent INDEX 0` says that numbers up to this one may have been used, so that
//! a restarted sender gives others.
//!
//! Names have no control characters, so an object is one line.

use std::{
    collections::BTreeMap,
    fs::{File, OpenOptions},
    io::{self, Write},
    net::SocketAddr,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use thiserror::Error;
use treecast_host::folder::status_at;
use treecast_proto::fec::Share;
use treecast_wire::{
    message::{BeginOfFile, FEED_STEP, ObjectKind},
    ticket::Ticket,
};
use zeroize::Zeroizing;

use super::{SendOptions, roll::Roll, who::Who};
use crate::{
    clock,
    files::NamedSource,
    security::{
        Identity,
        owner_file::{self, Unusable},
    },
};

const TITLE: &str = "treecast session 1";

/// A line behind the ticket of a session that admits only the receivers of a list.
const ALLOW_LINE: &str = "admits listed";

/// The beginning of a line of rates.
const RATES: &str = "rates ";

/// The beginning of a line of compression.
const COMPRESSED: &str = "compressed ";

/// The beginning of the line with the time at which the session began.
const SINCE: &str = "since ";

/// The line behind which the key comes.
const BEGUN: &str = "\nbegun\n";

const KEY_END: &str = "-----END PRIVATE KEY-----\n";

/// Size, in bytes, below which objects are small. Their marks are written together, because thousands may leave in a second.
const SMALL: u64 = 64 * 1024;

/// Upper bound, in bytes, of marks of objects that are not yet written to the file.
const MOST_UNWRITTEN: usize = 16 * 1024;

/// A step is an object's size divided by this, or one run of blocks.
const STEPS: u64 = 1024;

/// A million objects with long names.
const MAX_LEN: u64 = 256 << 20;

/// The errors of a session file.
#[derive(Debug, Error)]
pub enum SessionFileError {
    #[error("cannot read the session file {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot write the session file {}: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("another sender has just begun a session with {}", path.display())]
    Taken { path: PathBuf },
    #[error("the session file {} holds a key, and {why}: remove it and begin anew, or make it yours with `chown` and `chmod 600` if nobody has read it", path.display())]
    Exposed { path: PathBuf, why: String },
    #[error("{} is no session file, or is cut short ({why})", path.display())]
    Foreign { path: PathBuf, why: &'static str },
    #[error("the session in {} began {how}", path.display())]
    Options { path: PathBuf, how: String },
    #[error(
        "the ticket of the session in {} expired {ago} ago by this host's clock, so that nobody can join", path.display()
    )]
    Expired { path: PathBuf, ago: String },
    #[error("the session in {} is of other files ({which})", path.display())]
    Objects { path: PathBuf, which: String },
    #[error("{name} has changed since the session in {} began", path.display())]
    Changed { path: PathBuf, name: String },
    #[error("the session was begun at {0}, where its receivers look for it")]
    Control(SocketAddr),
}

/// The content of the file.
#[derive(Debug)]
pub(super) struct Kept {
    path: PathBuf,
    pub ticket: Ticket,
    /// Whether it admits only the receivers of a list.
    has_allow_list: bool,
    /// Rates of its groups in bits a second, as `5000000,1000000`. `None` for one group.
    rates: Option<String>,
    /// The level of compression. `None` if objects are sent as they are.
    compression: Option<i32>,
    /// The time at which the session began, in milliseconds since 1970. 0 in a file of an older version, which does
    /// not say so.
    pub begun_ms: u64,
    /// The key in the file. `None` in a plain session, or one with a key of its own.
    pub identity: Option<Identity>,
    /// The lines of the objects, as of [`object_line`].
    objects: Vec<String>,
    /// The progress of the sender with each object, by the object's number.
    pub marks: BTreeMap<u32, Mark>,
    pub roll: Roll,
}

/// The progress of a sender with an object.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Mark {
    /// The number of bytes that were multicast.
    pub sent: u64,
    pub hash: Option<[u8; 32]>,
}

/// The session of a session file.
#[derive(Debug)]
pub struct KeptSession {
    pub ticket: Ticket,
    /// The names of its objects, without indexes.
    pub names: Vec<String>,
}

/// Reads which session a file is of. `None` if it is not there.
///
/// # Errors
/// If others may read it, or it is no such file.
pub fn kept_session(path: &Path) -> Result<Option<KeptSession>, SessionFileError> {
    let index = (ObjectKind::Index as u8).to_string();
    let name =
        |line: &String| (line.split(' ').next() != Some(index.as_str())).then(|| name_of(line).to_owned());
    let kept = read(path)?;
    Ok(kept.map(|kept| KeptSession {
        ticket: kept.ticket,
        names: kept.objects.iter().filter_map(name).collect(),
    }))
}

/// The name in a line of an object.
fn name_of(line: &str) -> &str {
    line.splitn(5, ' ').nth(4).unwrap_or_default()
}

/// Reads the file; none when it is not there.
///
/// # Errors
/// If others may read it, or it is no such file.
pub(super) fn read(path: &Path) -> Result<Option<Kept>, SessionFileError> {
    let foreign = |why| SessionFileError::Foreign { path: path.to_owned(), why };
    match owner_file::read(path, MAX_LEN) {
        Err(Unusable::System(error)) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(Unusable::System(source)) => Err(SessionFileError::Read { path: path.to_owned(), source }),
        Err(Unusable::Exposed(why)) => Err(SessionFileError::Exposed { path: path.to_owned(), why }),
        Err(Unusable::Foreign(why)) => Err(foreign(why)),
        Ok(text) => parse(path, &text).map(Some).map_err(foreign),
    }
}

fn parse(path: &Path, text: &str) -> Result<Kept, &'static str> {
    let (facts, rest) = text.split_once(BEGUN).ok_or("it has no end")?;
    let (key, marks) = match rest.find(KEY_END) {
        Some(at) => rest.split_at(at + KEY_END.len()),
        None if rest.starts_with("-----") => return Err("its key cannot be read"),
        None => ("", rest),
    };
    let mut lines = facts.lines();
    if lines.next() != Some(TITLE) {
        return Err("it begins otherwise");
    }
    let ticket = lines.next().and_then(|line| line.strip_prefix("ticket ")).ok_or("it has no ticket")?;
    let mut lines = lines.peekable();
    let has_allow_list = lines.next_if_eq(&ALLOW_LINE).is_some();
    let rates = lines.next_if(|line| line.starts_with(RATES)).map(|line| line[RATES.len()..].to_owned());
    let compression = lines.next_if(|line| line.starts_with(COMPRESSED));
    let compression = compression.and_then(|line| line[COMPRESSED.len()..].parse().ok());
    let since = lines.next_if(|line| line.starts_with(SINCE));
    let begun_ms = since.and_then(|line| line[SINCE.len()..].parse().ok()).unwrap_or(0);
    let objects = lines.map(|line| line.strip_prefix("object ").map(str::to_owned)).collect::<Option<_>>();
    let identity = (!key.is_empty()).then(|| Identity::from_pem(key)).transpose();
    Ok(Kept {
        path: path.to_owned(),
        ticket: ticket.parse().map_err(|_| "its ticket cannot be read")?,
        has_allow_list,
        rates,
        compression,
        begun_ms,
        identity: identity.map_err(|_| "its key cannot be read")?,
        objects: objects.ok_or("a line is no object")?,
        marks: parse_marks(marks),
        roll: Roll::parse(marks),
    })
}

fn parse_marks(text: &str) -> BTreeMap<u32, Mark> {
    let mut marks = BTreeMap::<u32, Mark>::new();
    for line in text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')) {
        let mut words = line.split(' ');
        let (verb, index) = (words.next(), words.next().and_then(|index| index.parse().ok()));
        let (Some(index), Some(value)) = (index, words.next()) else { continue };
        let mark = marks.entry(index).or_default();
        match verb {
            Some("sent") => mark.sent = value.parse().unwrap_or(mark.sent).max(mark.sent),
            Some("hash") => {
                mark.hash = blake3::Hash::from_hex(value).ok().map(|hash| *hash.as_bytes());
            }
            _ => {}
        }
    }
    marks
}

/// Adds the sender's progress, and the receivers that are there, to a session's file.
#[derive(Debug)]
pub(super) struct Marks {
    file: File,
    /// Marks of objects that are not written yet. What they tell is sent again should the sender be killed.
    unwritten: String,
    left: u64,
    /// The progress that was noted last of each object that is under way.
    noted: BTreeMap<u32, u64>,
    /// The first number of a feed's objects that is not noted yet. `None` where all objects are in the file.
    free: Option<u32>,
    roll: Roll,
}

impl Marks {
    /// Opens the session file, to add marks that tell how far its objects have been sent. `free`: the first number that no object
    /// of a feed has had. `None` if this is no feed.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn open(path: &Path, roll: Roll, free: Option<u32>) -> Result<Self, SessionFileError> {
        let failed = |source| SessionFileError::Write { path: path.to_owned(), source };
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
        let mut file = OpenOptions::new().append(true).custom_flags(flags).open(path).map_err(failed)?;
        // It has been read, and others may have put something else in its place since.
        if !status_at(&file, c"").map_err(failed)?.is_own_file(0o077) {
            return Err(failed(io::Error::other("it is another user's, or has another name too")));
        }
        // Ends a line that was cut short.
        file.write_all(b"\n").map_err(failed)?;
        let len = file.metadata().map_err(failed)?.len();
        let left = MAX_LEN.saturating_sub(len);
        Ok(Self { file, unwritten: String::new(), left, noted: BTreeMap::new(), free, roll })
    }

    /// Notes that a feed's object has this number, before anything of it is sent. If a restarted sender used the number again, also after
    /// its host has crashed, receivers would take the new object for one that they have.
    pub fn numbered(&mut self, index: u32) {
        if self.free.is_some_and(|free| index >= free) {
            let free = index.saturating_add(FEED_STEP);
            let last = free - 1;
            if self.add(&format!("sent {last} 0\n")) && self.file.sync_data().is_ok() {
                self.free = Some(free);
            }
        }
    }

    /// Notes that an object of `size` bytes has been multicast up to `end`.
    pub fn sent(&mut self, index: u32, end: u64, size: u64) {
        if self.free.is_some() {
            return;
        }
        let noted = self.noted.entry(index).or_default();
        if end < size && end < *noted + size / STEPS {
            return;
        }
        *noted = end;
        if end == size {
            self.noted.remove(&index);
        }
        let line = format!("sent {index} {end}\n");
        match size < SMALL {
            true => self.add_soon(&line),
            // A killed sender sends again what it has not noted.
            false => _ = self.add(&line),
        }
    }

    pub fn hashed(&mut self, index: u32, hash: &[u8; 32]) {
        if self.free.is_none() {
            self.add_soon(&format!("hash {index} {}\n", blake3::Hash::from_bytes(*hash).to_hex()));
        }
    }

    /// Writes the marks that wait.
    pub fn write(&mut self) {
        self.add("");
    }

    /// Adds a line with others, or at the next [`Marks::write`]: thousands of small objects in a second would cost as many writes.
    fn add_soon(&mut self, line: &str) {
        self.unwritten.push_str(line);
        if self.unwritten.len() >= MOST_UNWRITTEN {
            self.write();
        }
    }

    pub fn came(&mut self, who: &Who, address: SocketAddr) {
        self.roll.came(who, address).into_iter().for_each(|line| _ = self.add(&line));
    }

    pub fn has(&mut self, who: &Who, is_listed: bool) {
        self.roll.has(who, is_listed).into_iter().for_each(|line| _ = self.add(&line));
    }

    pub fn ended(&mut self, who: &Who) {
        self.roll.ended(who).into_iter().for_each(|line| _ = self.add(&line));
    }

    /// Adds a line behind those that wait. Returns whether that was possible. What cannot be noted of an object's progress is sent
    /// again should the sender be killed, and that is all.
    fn add(&mut self, line: &str) -> bool {
        let text = std::mem::take(&mut self.unwritten) + line;
        let left = self.left.checked_sub(text.len() as u64);
        let left = left.filter(|_| self.file.write_all(text.as_bytes()).is_ok());
        self.left = left.unwrap_or(self.left);
        left.is_some()
    }
}

impl Drop for Marks {
    fn drop(&mut self) {
        self.write();
    }
}

impl Kept {
    /// Refuses a sender whose options differ from those that the session began with. This comes before the
    /// options are used, because the length of blocks and the addresses that fit follow from them. The list of
    /// admitted receivers may have changed.
    pub fn check_options(&self, options: &SendOptions) -> Result<(), SessionFileError> {
        let kept = &self.ticket;
        let admits_listed = options.security.as_ref().is_some_and(|security| security.allow.is_some());
        let group = options.network.group.is_some_and(|group| group != kept.group.ip());
        let port = options.network.port.is_some_and(|port| port != kept.group.port());
        let block = options.network.block_len.is_some_and(|len| len != kept.block_len);
        // Groups that the sender opens by itself are as many as the ticket says.
        let has_rates = self.rates.is_some() || !options.slower_rates().is_empty();
        let rates = has_rates && usize::from(kept.groups) != options.slower_rates().len() + 1;
        let may_lack_fec = options.fec().is_none_or(|share| share == Share::Needed);
        let has_other_fec = if kept.fec { options.fec().is_none() } else { !may_lack_fec };
        let with = |has: bool, what: &str| format!("{} {what}", if has { "with" } else { "without" });
        let source = kept.source.map_or("a source".to_owned(), |source| format!("source {source}"));
        self.refuse([
            (kept.fanout != options.fanout, format!("with fanout {}", kept.fanout)),
            (kept.repair != options.kind.in_ticket(), format!("with repair {}", kept.repair)),
            (has_other_fec, with(kept.fec, "repair symbols")),
            (group || port, format!("with group {}", kept.group)),
            (
                rates,
                match (&self.rates, kept.groups) {
                    (Some(rates), _) => format!("with rates {rates}"),
                    (None, 1) => "with one rate".to_owned(),
                    // Of a version that kept only how many.
                    (None, groups) => format!("with {groups} rates"),
                },
            ),
            (kept.source != options.network.source, with(kept.source.is_some(), &source)),
            (
                kept.security.is_some() != options.security.is_some(),
                with(kept.security.is_some(), "security"),
            ),
            (self.has_allow_list != admits_listed, with(self.has_allow_list, "an allow list")),
            (
                kept.expires.is_some() != options.expires_in.is_some(),
                with(kept.expires.is_some(), "a time when the ticket expires"),
            ),
            (
                self.compression != options.compression(),
                match self.compression {
                    Some(level) => format!("with compression at level {level}"),
                    None => "without compression".to_owned(),
                },
            ),
            (block, format!("with blocks of {} bytes", kept.block_len)),
        ])
    }

    /// Refuses a sender that would have another ticket than the session, even when its options are the same.
    pub fn check_ticket(&self, ticket: &Ticket) -> Result<(), SessionFileError> {
        let key = |ticket: &Ticket| ticket.security.as_ref().map(|security| security.sender_key);
        let has_other_key = key(&self.ticket) != key(ticket);
        let is_other = self.ticket != *ticket;
        self.refuse([(has_other_key, "with another key".to_owned()), (is_other, "otherwise".to_owned())])
    }

    fn refuse<const N: usize>(&self, differs: [(bool, String); N]) -> Result<(), SessionFileError> {
        match differs.into_iter().find(|(differs, _)| *differs) {
            Some((_, how)) => Err(SessionFileError::Options { path: self.path.clone(), how }),
            None => Ok(()),
        }
    }

    /// Refuses to wait for receivers that will all be refused.
    ///
    /// # Errors
    /// If the ticket has expired.
    pub fn check_expiry(&self) -> Result<(), SessionFileError> {
        let ago = self.ticket.expires.and_then(|expires| clock::unix_seconds().checked_sub(expires.get()));
        ago.map_or(Ok(()), |ago| {
            Err(SessionFileError::Expired { path: self.path.clone(), ago: clock::duration_in_words(ago) })
        })
    }

    /// A line for the user when the session began with other rates, which nobody but its sender need know.
    pub fn other_rates(&self, rates: &[u64]) -> Option<String> {
        let (began, now) = (self.rates.as_ref()?, listed(rates));
        let path = self.path.display();
        (*began != now)
            .then(|| format!("the session in {path} began with rates {began}: it goes on with {now}"))
    }

    /// Refuses to send other objects under the numbers of those that the session began with.
    ///
    /// # Errors
    /// Which one is another, or has changed.
    pub fn check_sources(&self, sources: &[NamedSource]) -> Result<(), crate::send::SendError> {
        let other = |which: String| SessionFileError::Objects { path: self.path.clone(), which };
        for (at, named) in sources.iter().enumerate() {
            let line = object_line(&named.begin()?);
            match self.objects.get(at) {
                Some(kept) if *kept == line => {}
                Some(kept) if name_of(kept) == named.name => {
                    let name = named.source.path().display().to_string();
                    return Err(SessionFileError::Changed { path: self.path.clone(), name }.into());
                }
                _ => return Err(other(format!("{} was not there", named.name)).into()),
            }
        }
        match self.objects.get(sources.len()) {
            Some(line) => Err(other(format!("{} is missing", name_of(line))).into()),
            None => Ok(()),
        }
    }
}

/// Rates as the file has them, in bits a second.
fn listed(rates: &[u64]) -> String {
    rates.iter().map(u64::to_string).collect::<Vec<_>>().join(",")
}

/// Begins a session: writes its file, which must not be there. It is there whole or not at all.
///
/// # Errors
/// If it cannot be written, or somebody else has written it meanwhile.
pub(super) fn create(
    path: &Path,
    ticket: &Ticket,
    (has_allow_list, rates, compression, begun_ms): (bool, &[u64], Option<i32>, u64),
    identity: Option<&Identity>,
    sources: &[NamedSource],
) -> Result<(), crate::send::SendError> {
    let mut text = Zeroizing::new(format!("{TITLE}\nticket {ticket}"));
    if has_allow_list {
        text.push_str(&format!("\n{ALLOW_LINE}"));
    }
    if !rates.is_empty() {
        text.push_str(&format!("\n{RATES}{}", listed(rates)));
    }
    if let Some(level) = compression {
        text.push_str(&format!("\n{COMPRESSED}{level}"));
    }
    text.push_str(&format!("\n{SINCE}{begun_ms}"));
    for named in sources {
        text.push_str(&format!("\nobject {}", object_line(&named.begin()?)));
    }
    text.push_str(BEGUN);
    if let Some(identity) = identity {
        text.push_str(&identity.to_pem()?);
    }
    Ok(owner_file::create(path, text.as_bytes()).map_err(|source| match source.kind() {
        io::ErrorKind::AlreadyExists => SessionFileError::Taken { path: path.to_owned() },
        _ => SessionFileError::Write { path: path.to_owned(), source },
    })?)
}

/// The line that stands for an object's announcement. Equal lines mean equal announcements.
fn object_line(begin: &BeginOfFile) -> String {
    let (kind, size, name) = (begin.kind() as u8, begin.file_size, begin.file_name());
    match begin.attributes() {
        Some(attributes) => {
            let modified = attributes.modified;
            let (seconds, nanoseconds) = (modified.seconds, modified.nanoseconds);
            format!("{kind} {:03o} {size} {seconds}.{nanoseconds:09} {name}", attributes.mode)
        }
        None => format!("{kind} - {size} - {name}"),
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt};

    use treecast_host::stop::Stop;
    use treecast_wire::ticket::Fanout;

    use super::*;
    use crate::{
        files::find_sources,
        scratch::{Scratch, scratch},
        send::{Carousel, CarouselOptions, Form, Plan, SendError, SessionKind, SteadyPace},
    };

    /// A plan for these files with a session file, as a sender makes it.
    fn plan(folder: &Path, names: &[&str], change: impl FnOnce(&mut SendOptions)) -> Result<Plan, String> {
        let mut options = SendOptions::new(names.iter().map(|name| folder.join(name)).collect());
        options.network.interface = Some("lo".into());
        options.session_file = Some(folder.join("session"));
        change(&mut options);
        let stop = Stop::new().map_err(|error| error.to_string())?;
        let plan = Plan::new(&options, &stop).map_err(|error| error.to_string())?;
        plan.keep_session(&["127.0.0.1:7000".parse().unwrap()]).map_err(|error| error.to_string())?;
        Ok(plan)
    }

    fn filled(name: &str) -> Scratch {
        let folder = scratch(name);
        ["a", "b"].iter().for_each(|name| fs::write(folder.join(name), name).unwrap());
        folder
    }

    #[test]
    fn a_sender_that_is_started_again_is_the_same() {
        let folder = filled("session-file");
        let control: Vec<std::net::SocketAddr> = vec!["127.0.0.1:7000".parse().unwrap()];
        let first = plan(&folder, &["a", "b"], |_| {}).unwrap().ticket(control.clone());
        let again = plan(&folder, &["a", "b"], |_| {}).unwrap();
        assert_eq!(again.ticket(again.control.clone()).to_string(), first.to_string());
        assert_eq!(again.control, control);
        let mode = fs::metadata(folder.join("session")).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o600);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 3, "nothing else is left");
    }

    #[test]
    fn a_carousel_keeps_its_secret() {
        let folder = filled("session-carousel");
        let change = |options: &mut SendOptions| {
            options.kind = SessionKind::Carousel(Carousel {
                options: CarouselOptions::default(),
                pace: SteadyPace::Fixed(8_000_000),
                is_coded: false,
            });
        };
        let first = plan(&folder, &["a"], change).unwrap();
        let again = plan(&folder, &["a"], change).unwrap();
        assert!(first.secret.is_some() && first.secret == again.secret);
    }

    #[test]
    fn what_does_not_belong_to_the_session_is_refused_in_one_line() {
        let folder = filled("session-other");
        fs::write(folder.join("c"), "c").unwrap();
        plan(&folder, &["a", "b"], |_| {}).unwrap();
        let line = |names: &[&str], change: fn(&mut SendOptions)| {
            let line = plan(&folder, names, change).unwrap_err();
            assert!(line.contains("/session") && !line.contains('\n'), "{line}");
            line
        };
        assert!(line(&["a"], |_| {}).contains("b is missing"));
        assert!(line(&["a", "b", "c"], |_| {}).contains("c was not there"));
        assert!(line(&["b", "a"], |_| {}).contains("b was not there"));
        assert!(line(&["a", "b"], |options| options.security = None).contains("with security"));
        let another = |options: &mut SendOptions| {
            let identity = Some(Identity::generate().unwrap());
            options.security = Some(crate::send::SendSecurity { identity, allow: None });
        };
        assert!(line(&["a", "b"], another).contains("with another key"));
        let closed = |options: &mut SendOptions| {
            let allow = Some(crate::security::AllowList::default());
            options.security = Some(crate::send::SendSecurity { identity: None, allow });
        };
        assert!(line(&["a", "b"], closed).contains("without an allow list"));
        assert!(
            line(&["a", "b"], |options| options.network.block_len = Some(1000)).contains("with blocks of")
        );
        let compressed = |options: &mut SendOptions| options.content.form = Form::Compressed(3);
        assert!(line(&["a", "b"], compressed).contains("without compression"));
        fs::write(folder.join("b"), "changed").unwrap();
        assert!(line(&["a", "b"], |_| {}).contains("has changed"));
    }

    /// Its blocks would be too long, or its group of another family: what the user has changed is another thing.
    #[test]
    fn what_follows_from_another_option_is_not_blamed() {
        let folder = filled("session-follows");
        let ipv4 = |options: &mut SendOptions| options.network.group = Some("239.255.9.9".parse().unwrap());
        let plain_ipv4 = |options: &mut SendOptions| {
            ipv4(options);
            options.security = None;
        };
        let line = |change: fn(&mut SendOptions)| plan(&folder, &["a"], change).unwrap_err();
        plan(&folder, &["a"], ipv4).unwrap();
        assert!(line(|options| options.fanout = Fanout::Unicast).contains("began with fanout multicast"));
        assert!(line(|options| options.fanout = Fanout::Mead).contains("began with fanout multicast"));
        assert!(
            line(|options| options.network.source = Some("::1".parse().unwrap()))
                .contains("began without a source")
        );
        assert!(
            line(|options| options.network.group = Some("ff15::9".parse().unwrap()))
                .contains("began with group 239.255.9.9")
        );
        fs::remove_file(folder.join("session")).unwrap();
        plan(&folder, &["a"], plain_ipv4).unwrap();
        assert!(line(|_| {}).contains("began without security"));
    }

    #[test]
    fn a_file_that_is_none_of_ours_is_refused() {
        let folder = filled("session-bad");
        let session = folder.join("session");
        plan(&folder, &["a"], |_| {}).unwrap();
        fs::set_permissions(&session, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(plan(&folder, &["a"], |_| {}).unwrap_err().contains("0640"));
        fs::set_permissions(&session, fs::Permissions::from_mode(0o600)).unwrap();
        let text = fs::read_to_string(&session).unwrap();
        for end in [0, 10, 40, text.len() / 2, text.find("BEGIN").unwrap() + 40] {
            fs::write(&session, &text[..end]).unwrap();
            let line = plan(&folder, &["a"], |_| {}).unwrap_err();
            assert!(line.contains("no session file") && !line.contains('\n'), "{end}: {line}");
        }
        assert!(matches!(read(Path::new("/dev/null")), Err(SessionFileError::Foreign { .. })));
        let missing = create(
            Path::new("/no/such/folder/session"),
            &text_ticket(&text),
            (false, &[], None, 0),
            None,
            &[],
        );
        assert!(matches!(missing, Err(SendError::SessionFile(SessionFileError::Write { .. }))));
        let taken = find_sources(&[folder.join("a")]).unwrap().sources;
        let taken = create(&session, &text_ticket(&text), (false, &[], None, 0), None, &taken);
        assert!(matches!(taken, Err(SendError::SessionFile(SessionFileError::Taken { .. }))));
    }

    #[test]
    fn marks_are_kept_behind_the_rest() {
        let folder = filled("session-marks");
        plan(&folder, &["a", "b"], |_| {}).unwrap();
        let session = folder.join("session");
        for (end, size) in [(100, 100_000), (200, 100_000), (1000, 100_000)] {
            Marks::open(&session, Roll::default(), None).unwrap().sent(0, end, size);
        }
        let mut marks = Marks::open(&session, Roll::default(), None).unwrap();
        (1..=100).for_each(|step| marks.sent(1, step, 100));
        marks.hashed(1, &[7; 32]);
        marks.write();
        marks.file.write_all(b"sent 0 99").unwrap();
        let before = plan(&folder, &["a", "b"], |_| {}).unwrap().before;
        assert_eq!(before[&0], Mark { sent: 1000, hash: None });
        assert_eq!(before[&1], Mark { sent: 100, hash: Some([7; 32]) });
        Marks::open(&session, Roll::default(), None).unwrap().sent(0, 100_000, 100_000);
        assert_eq!(plan(&folder, &["a", "b"], |_| {}).unwrap().before[&0].sent, 100_000);
    }

    #[test]
    fn numbers_of_a_feeds_objects_are_kept_many_at_a_time() {
        let folder = filled("session-numbers");
        plan(&folder, &["a"], |_| {}).unwrap();
        let session = folder.join("session");
        let len = || fs::metadata(&session).unwrap().len();
        let mut marks = Marks::open(&session, Roll::default(), Some(0)).unwrap();
        marks.numbered(0);
        let noted = len();
        (1..FEED_STEP).for_each(|index| marks.numbered(index));
        marks.sent(5, 10, 10);
        marks.hashed(5, &[7; 32]);
        assert_eq!(len(), noted);
        let last = || plan(&folder, &["a"], |_| {}).unwrap().before.into_keys().max();
        assert_eq!(last(), Some(FEED_STEP - 1));
        marks.numbered(FEED_STEP);
        assert_eq!(last(), Some(2 * FEED_STEP - 1));
    }

    #[test]
    fn who_has_not_ended_is_kept_behind_the_rest() {
        let folder = filled("session-roll");
        plan(&folder, &["a"], |_| {}).unwrap();
        let (session, address) = (folder.join("session"), "127.0.0.1:7000".parse().unwrap());
        let key = Identity::generate().unwrap().public_key();
        let who = |name| Who::new(Some(key), &treecast_wire::message::Hello::new(1, 0, 0, name).unwrap());
        let mut marks = Marks::open(&session, Roll::default(), None).unwrap();
        ["one", "other"].iter().for_each(|name| marks.came(&who(name), address));
        marks.sent(0, 1, 1);
        marks.ended(&who("one"));
        let again = plan(&folder, &["a"], |_| {}).unwrap();
        let absent = again.roll.absent();
        assert!(absent.len() == 1 && absent[0].who.is(&who("other")) && absent[0].address == address);
        Marks::open(&session, again.roll, None).unwrap().ended(&who("other"));
        assert!(plan(&folder, &["a"], |_| {}).unwrap().roll.absent().is_empty());
    }

    fn text_ticket(text: &str) -> Ticket {
        text.lines().nth(1).unwrap().strip_prefix("ticket ").unwrap().parse().unwrap()
    }
}
