//! Sees which files of a folder, and of those below it, are complete: by inotify where that is to be had, and by looking again and
//! again where it is not.

use std::{
    collections::{BTreeMap, HashSet},
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use treecast_host::{
    folder::{FileTime, Inode, Status, has_writer},
    poller::Poller,
    root::{Kind, Root},
    wake::Waker,
    watch::{Happened, Watch},
};

use super::taken::Mark;
use crate::files::Exclude;

/// The time for which a file that nobody has told of must not have changed.
const SETTLED: Duration = Duration::from_secs(2);

/// The time for which a created file that was not closed must not have changed, where the kernel does not tell whether it is being
/// written. A hard link is never closed, so this has an end.
const UNCLOSED: Duration = Duration::from_secs(600);

/// The time between two looks at the files that were created and not closed.
const SOON: Duration = Duration::from_millis(200);

/// The time between two looks at the whole folder where nothing tells of what happens in it.
const LOOK: Duration = Duration::from_secs(2);

/// The time between two looks where inotify tells what happens. A look finds what was missed, and what is gone.
const SELDOM: Duration = Duration::from_secs(60);

/// Looking takes at most this share of the time, as a divisor.
const SHARE: u32 = 20;

/// The most folders that are watched.
const MOST_FOLDERS: usize = 10_000;

#[derive(Debug)]
pub(super) struct Folder {
    root: Arc<Root>,
    /// The path of the folder, for messages.
    path: PathBuf,
    /// The files and folders in it that are not sent.
    exclude: Exclude,
    poller: Poller,
    /// The kernel's watch over the folder. `None` where the folder is looked at again and again.
    watch: Option<Watch>,
    /// The watched folders, below the root, by their numbers.
    watched: BTreeMap<i32, PathBuf>,
    /// Files below the root that were created, and not closed since.
    unclosed: HashSet<PathBuf>,
    /// The time before which the unclosed files are not looked at again.
    unclosed_at: Instant,
    /// Files that had changed shortly before the last look.
    fresh: HashSet<Mark>,
    look_at: Instant,
    /// The time before which the folder is not looked at again, whatever happens in it.
    not_before: Instant,
}

/// A file that is complete.
#[derive(Debug)]
pub(super) struct Complete {
    /// Its path below the folder.
    pub name: PathBuf,
    pub mark: Mark,
    pub inode: Inode,
    /// Its size.
    pub bytes: u64,
}

impl Complete {
    fn new(name: PathBuf, status: &Status) -> Self {
        Self { mark: Mark::of(&name, status), inode: status.inode, bytes: status.size, name }
    }
}

/// The result of a look at the whole folder.
#[derive(Debug, Default)]
pub(super) struct Look {
    pub complete: Vec<Complete>,
    /// All files that are there. `None` if not all could be seen.
    pub seen: Option<HashSet<Mark>>,
    /// The reason why not all could be seen.
    pub error: Option<String>,
}

impl Folder {
    /// Does not look yet. With `polls`, inotify is not used. Returns why inotify cannot be used, too, where it cannot.
    pub fn open(
        root: Arc<Root>,
        path: PathBuf,
        exclude: Exclude,
        polls: bool,
        waker: &Waker,
    ) -> io::Result<(Self, Option<String>)> {
        let poller = Poller::new()?;
        poller.watch(waker, 0)?;
        let mut watched = BTreeMap::new();
        let watch = if polls { Ok(None) } else { watch(&root, &poller).map(Some) };
        let (watch, problem) = match watch {
            Ok(watch) => (watch, None),
            Err(error) => (None, Some(error.to_string())),
        };
        let watch = watch.map(|(watch, number)| {
            watched.insert(number, PathBuf::new());
            watch
        });
        let now = Instant::now();
        Ok((
            Self {
                root,
                path,
                exclude,
                poller,
                watch,
                watched,
                unclosed: HashSet::new(),
                unclosed_at: now,
                fresh: HashSet::new(),
                look_at: now,
                not_before: now,
            },
            problem,
        ))
    }

    /// Waits for something to happen, until it is time to look at the whole folder, or for `most`. Returns files that are
    /// complete.
    pub fn wait(&mut self, most: Duration) -> io::Result<Vec<Complete>> {
        let due = if self.unclosed.is_empty() { self.look_at } else { self.look_at.min(self.unclosed_at) };
        let timeout = most.min(due.saturating_duration_since(Instant::now()));
        self.poller.tokens(Some(timeout))?;
        let happened = match &self.watch {
            Some(watch) => watch.take()?,
            None => Vec::new(),
        };
        let mut complete = Vec::new();
        for event in happened {
            match event {
                Happened::Created { folder, name } => {
                    let name = self.watched.get(&folder).map(|folder| folder.join(name));
                    self.unclosed.extend(name.filter(|name| !self.leaves_out(name)));
                }
                Happened::Complete { folder, name } => {
                    let name = self.watched.get(&folder).map(|folder| folder.join(name));
                    name.iter().for_each(|name| _ = self.unclosed.remove(name));
                    complete.extend(name.and_then(|name| self.complete(name)));
                }
                // What is in it may have come before it was watched.
                Happened::Folder { .. } => self.look_soon(),
                // Files may have been closed.
                Happened::Lost => {
                    self.look_soon();
                    self.unclosed.clear();
                }
                Happened::Gone { folder } => _ = self.watched.remove(&folder),
            }
        }
        complete.extend(self.linked());
        Ok(complete)
    }

    /// The created files that nobody has open for writing. They were complete when they got their names: hard links, and files
    /// that were written without a name, whose closing is told of under another one.
    fn linked(&mut self) -> Vec<Complete> {
        let start = Instant::now();
        if self.unclosed.is_empty() || start < self.unclosed_at {
            return Vec::new();
        }
        let mut linked = Vec::new();
        self.unclosed.retain(|name| match is_written(&self.root, name) {
            Some(true) => true,
            Some(false) => {
                linked.push(name.clone());
                false
            }
            None => self.root.status(name).is_ok_and(|status| status.is_file()),
        });
        self.unclosed_at = Instant::now() + SOON.max(start.elapsed() * SHARE);
        linked.sort();
        linked.into_iter().filter_map(|name| self.complete(name)).collect()
    }

    /// The file that has been told of, if it is one that is sent.
    fn complete(&self, name: PathBuf) -> Option<Complete> {
        if self.leaves_out(&name) {
            return None;
        }
        // It may be gone.
        let status = self.root.status(&name).ok().filter(Status::is_file)?;
        Some(Complete::new(name, &status))
    }

    /// Whether a file in a watched folder is not sent, by its name. Folders that are left out are not watched.
    fn leaves_out(&self, name: &Path) -> bool {
        is_hidden(name) || self.exclude.matches(name, false)
    }

    /// Whether it is time to look at the whole folder.
    pub fn is_due(&self) -> bool {
        self.look_at <= Instant::now()
    }

    /// Schedules a look at the whole folder for the time when it is no burden.
    pub fn look_soon(&mut self) {
        self.look_at = self.not_before;
    }

    /// Looks at the whole folder, unless `is_stopped`. A file that nobody has told of counts as complete when it has not changed
    /// for two seconds and nobody writes to it. `is_known` are files that are not asked for.
    pub fn look(&mut self, is_known: impl Fn(Mark) -> bool, is_stopped: impl Fn() -> bool) -> Look {
        let start = Instant::now();
        let (mut look, mut seen, mut fresh) = (Look::default(), HashSet::new(), HashSet::new());
        let (mut complete, mut unclosed) = (Vec::new(), HashSet::new());
        let mut folders = vec![PathBuf::new()];
        while let Some(folder) = folders.pop() {
            let Some(opened) = self.open_below(&folder, &mut look.error) else { continue };
            let mut visit = |name: PathBuf, status: &Status| {
                let mark = Mark::of(&name, status);
                seen.insert(mark);
                let is_unclosed = self.unclosed.contains(&name);
                if is_unclosed {
                    unclosed.insert(name.clone());
                }
                if is_known(mark) {
                } else if !self.fresh.contains(&mark) && !is_older(status, SETTLED) {
                    fresh.insert(mark);
                } else if match is_written(&self.root, &name) {
                    // Its closing is told of.
                    Some(is_written) => !is_written,
                    None => !is_unclosed || is_older(status, UNCLOSED),
                } {
                    complete.push((status.modified, Complete::new(name, status)));
                }
            };
            // A file that comes while the folder is read is told of.
            let watch = self.watch.as_ref().filter(|_| self.watched.len() < MOST_FOLDERS);
            let watched = watch.map(|watch| watch.add(&opened));
            if let Some(Ok(number)) = watched {
                self.watched.insert(number, folder.clone());
            }
            if let Err(error) = read(&opened, &folder, &self.exclude, &mut folders, &mut visit) {
                look.error.get_or_insert_with(|| format!("{}: {error}", self.path.join(&folder).display()));
            }
            if is_stopped() {
                return Look::default();
            }
            if let Some(Err(error)) = watched {
                // Folders may go at any time.
                if error.kind() != io::ErrorKind::NotFound {
                    self.watch = None;
                }
            }
        }
        self.look_again_after(start, !fresh.is_empty());
        (self.fresh, self.unclosed) = (fresh, unclosed);
        // The oldest is sent first, and dropped first.
        let order = |(time, file): &(FileTime, Complete)| (time.seconds, time.nanoseconds, file.name.clone());
        complete.sort_by_cached_key(order);
        look.complete = complete.into_iter().map(|(_, file)| file).collect();
        look.seen = look.error.is_none().then_some(seen);
        look
    }

    /// Opens a folder below the root. `None` if it is gone, or cannot be read, which is then the `error` unless there is one.
    fn open_below(&self, folder: &Path, error: &mut Option<String>) -> Option<Root> {
        match self.root.below(folder) {
            Ok(opened) => Some(opened),
            // Folders may go, and be replaced, at any time.
            Err(gone) if is_gone(&gone) && !folder.as_os_str().is_empty() => None,
            Err(other) => {
                error.get_or_insert_with(|| format!("{}: {other}", self.path.join(folder).display()));
                None
            }
        }
    }

    /// Sets the time of the next look, after one that began at `start`.
    fn look_again_after(&mut self, start: Instant, has_fresh: bool) {
        let next = match &self.watch {
            _ if has_fresh => SETTLED,
            Some(_) if self.watched.len() < MOST_FOLDERS => SELDOM,
            _ => LOOK,
        };
        self.not_before = Instant::now() + start.elapsed() * SHARE;
        self.look_at = self.not_before.max(Instant::now() + next);
    }
}

/// Watches the root. Returns its number, too.
fn watch(root: &Root, poller: &Poller) -> io::Result<(Watch, i32)> {
    let watch = Watch::new()?;
    let number = watch.add(root)?;
    poller.watch(&watch, 1)?;
    Ok((watch, number))
}

/// Reads an open folder, which is called `below`. Adds those in it to `folders`.
fn read(
    folder: &Root,
    below: &Path,
    exclude: &Exclude,
    folders: &mut Vec<PathBuf>,
    visit: &mut dyn FnMut(PathBuf, &Status),
) -> io::Result<()> {
    folder.list(Path::new(""), |name, kind| {
        if name.as_encoded_bytes().starts_with(b".") {
            return true;
        }
        let path = below.join(name);
        match kind {
            _ if exclude.matches(&path, kind == Kind::Folder) => {}
            Kind::Folder => folders.push(path),
            // It may be gone, or something else by now.
            Kind::File => {
                let status = folder.status(Path::new(name)).ok().filter(Status::is_file);
                status.iter().for_each(|status| visit(path.clone(), status));
            }
            Kind::Link | Kind::Special => {}
        }
        true
    })
}

/// Whether a program has a file open for writing. `None` if that cannot be known.
fn is_written(root: &Root, name: &Path) -> Option<bool> {
    has_writer(&root.file(name).ok()??)
}

/// Whether a folder could not be opened because it is none any more.
fn is_gone(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENOTDIR | libc::ELOOP))
}

/// Whether a name is one whose file is not sent.
fn is_hidden(name: &Path) -> bool {
    name.file_name().is_none_or(|name| name.as_encoded_bytes().starts_with(b"."))
}

/// Whether a file has not been changed for this time, by the host's clock.
fn is_older(status: &Status, time: Duration) -> bool {
    let FileTime { seconds, nanoseconds } = status.modified;
    // A time before 1970 is old.
    let modified = Duration::new(seconds.try_into().unwrap_or_default(), nanoseconds);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    now.checked_sub(modified).is_some_and(|age| age >= time)
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        os::fd::{AsFd, AsRawFd},
    };

    use super::*;
    use crate::scratch::scratch;

    fn opened(root: &Path) -> Folder {
        let opened = Arc::new(Root::open(root).unwrap());
        Folder::open(opened, root.to_owned(), Exclude::default(), false, &Waker::new().unwrap()).unwrap().0
    }

    fn looked(folder: &mut Folder) -> Vec<PathBuf> {
        folder.look(|_| false, || false).complete.into_iter().map(|file| file.name).collect()
    }

    #[test]
    fn a_file_that_is_being_written_is_not_complete_however_old_it_is() {
        let root = scratch("folder-written");
        let write = |name: &str| {
            let file = fs::File::create(root.join(name)).unwrap();
            file.set_modified(SystemTime::now() - 2 * SETTLED).unwrap();
            file
        };
        let before = write("before");
        let mut folder = opened(&root);
        let after = write("after");
        assert!(folder.wait(Duration::ZERO).unwrap().is_empty());
        assert_eq!(folder.unclosed, HashSet::from(["after".into()]));
        assert!(looked(&mut folder).is_empty());
        drop((before, after));
        let closed = folder.wait(SETTLED).unwrap();
        assert_eq!((closed.len(), folder.unclosed.len()), (2, 0));
        assert_eq!(looked(&mut folder).len(), 2);
    }

    /// Small files of `treecast receive` are written without a name, too.
    #[test]
    fn a_file_that_was_written_without_a_name_is_complete_when_it_is_closed() {
        let root = scratch("folder-linked");
        let mut folder = opened(&root);
        let hidden = fs::File::create(root.join(".hidden")).unwrap();
        fs::hard_link(root.join(".hidden"), root.join("name")).unwrap();
        assert!(folder.wait(Duration::ZERO).unwrap().is_empty(), "somebody writes to it");
        assert_eq!(folder.unclosed, HashSet::from(["name".into()]));
        drop(hidden);
        let start = Instant::now();
        let mut complete = Vec::new();
        while complete.is_empty() && start.elapsed() < SETTLED {
            complete = folder.wait(SETTLED).unwrap();
        }
        assert_eq!((complete.len(), folder.unclosed.len()), (1, 0));
        assert_eq!(complete[0].name, Path::new("name"));
    }

    #[test]
    fn no_more_folders_are_watched_than_are_known() {
        let root = scratch("folder-many");
        (0..MOST_FOLDERS + 5).for_each(|number| fs::create_dir(root.join(number.to_string())).unwrap());
        let mut folder = opened(&root);
        looked(&mut folder);
        // The user may have fewer watches.
        let Some(watch) = &folder.watch else { return };
        let info = format!("/proc/self/fdinfo/{}", watch.as_fd().as_raw_fd());
        let watches = fs::read_to_string(info).unwrap().matches("inotify wd").count();
        assert_eq!((watches, folder.watched.len()), (MOST_FOLDERS, MOST_FOLDERS));
    }
}
