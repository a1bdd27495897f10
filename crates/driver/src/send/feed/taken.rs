//! The files of a folder that have been taken, and those of them that are done with. The latter are in a file, from
//! which a sender that is started again knows them. It keeps 16 bytes of each file.

use std::{
    collections::{HashMap, HashSet},
    ffi::{OsStr, OsString},
    fs::File,
    io::{self, Read, Write},
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    path::Path,
};

use treecast_host::{
    folder::{Status, status_at},
    root::{Root, write_whole},
};

use crate::remedies::{Advised, Remedy};

/// The beginning of the file.
const HEADER: &[u8; MARK_LEN] = b"treecast feed 1\n";

const MARK_LEN: usize = 16;

/// The most files that are remembered. They need about 40 MB of memory.
pub(super) const MOST_TAKEN: usize = 1_000_000;

/// The number of marks in the file that are of no use and do not matter yet.
const MOST_USELESS: usize = 4096;

/// The mark that tells a file from all others, and from what it was before: a hash of its name, size and time of
/// modification.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Mark([u8; MARK_LEN]);

impl Mark {
    pub fn of(name: &Path, status: &Status) -> Self {
        let mut hasher = blake3::Hasher::new();
        let modified = status.modified;
        for number in [status.size.cast_signed(), modified.seconds, modified.nanoseconds.into()] {
            hasher.update(&number.to_le_bytes());
        }
        hasher.update(name.as_os_str().as_bytes());
        let mut mark = [0; MARK_LEN];
        mark.copy_from_slice(&hasher.finalize().as_bytes()[..MARK_LEN]);
        Self(mark)
    }
}

/// The progress of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    OnTheWay,
    /// The file could not be sent. A sender that is started again tries it once more.
    Refused,
    Done,
}

/// The files that have been taken.
#[derive(Debug, Default)]
pub(super) struct Taken {
    all: HashMap<Mark, Progress>,
    /// The log of files that are done with. `None` where files are removed when they are done with.
    file: Option<Log>,
}

#[derive(Debug)]
struct Log {
    /// The folder around the file, and the file's name there.
    folder: OwnedFd,
    name: OsString,
    file: File,
    /// The number of marks in the file.
    marks: usize,
}

impl Taken {
    /// Reads what an earlier sender has kept at a path that the user has named.
    ///
    /// # Errors
    /// Those of [`Taken::open`].
    pub fn open_named(path: &Path) -> io::Result<Self> {
        let around = path.parent().filter(|around| !around.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let folder = Root::open(around).map_err(|error| unkept(path, error))?;
        let no_name = || unkept(path, io::Error::other("this is no name of a file"));
        Self::open(&folder, path.file_name().ok_or_else(no_name)?, path)
    }

    /// Reads what an earlier sender has kept in the file `name` of a folder, which is made if it is missing. What the sender
    /// did not write to its end is left out. `path` is what errors call the file.
    ///
    /// # Errors
    /// If the file cannot be read or written, is something else, or is not this user's.
    pub fn open(folder: &Root, name: &OsStr, path: &Path) -> io::Result<Self> {
        let failed = |error| unkept(path, error);
        let mut bytes = Vec::new();
        match folder.file(Path::new(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) if error.raw_os_error() == Some(libc::ELOOP) => return Err(failed(foreign())),
            Err(error) => return Err(failed(error)),
            Ok(None) => return Err(failed(foreign())),
            Ok(Some(file)) => {
                // Whoever may write to the folder may have put there a file of somebody else.
                if !status_at(&file, c"").map_err(failed)?.is_own_file(0) {
                    return Err(failed(io::Error::other(
                        "it is another user's, or has another name too: remove it, or name another file",
                    )));
                }
                // The header, and as many marks as `keep` writes before it tidies.
                let most = (1 + 2 * MOST_TAKEN + MOST_USELESS + 1) * MARK_LEN;
                file.take(most as u64).read_to_end(&mut bytes).map_err(failed)?;
            }
        }
        if bytes.len() < MARK_LEN && HEADER.starts_with(&bytes) {
            bytes = HEADER.to_vec();
        }
        if !bytes.starts_with(HEADER) {
            return Err(failed(foreign()));
        }
        let marks = bytes.chunks_exact(MARK_LEN).skip(1).filter_map(|mark| Some(Mark(mark.try_into().ok()?)));
        let all: HashMap<_, _> = marks.map(|mark| (mark, Progress::Done)).collect();
        // What was cut short goes.
        let log = Log::write(folder.descriptor().try_clone().map_err(failed)?, name.to_owned(), &all);
        Ok(Self { file: Some(log.map_err(failed)?), all })
    }

    pub fn contains(&self, mark: Mark) -> bool {
        self.all.contains_key(&mark)
    }

    /// Whether no more files can be taken.
    pub fn is_full(&self) -> bool {
        self.all.len() >= MOST_TAKEN
    }

    /// A file is on its way.
    pub fn take(&mut self, mark: Mark) {
        self.all.insert(mark, Progress::OnTheWay);
    }

    /// A file could not be sent. It is not tried again in this run.
    pub fn refuse(&mut self, mark: Mark) {
        self.all.insert(mark, Progress::Refused);
    }

    /// A file is as if it had never been taken: it was removed.
    pub fn forget(&mut self, mark: Mark) {
        self.all.remove(&mark);
    }

    /// A file is done with.
    ///
    /// # Errors
    /// If that could not be kept.
    pub fn keep(&mut self, mark: Mark) -> io::Result<()> {
        self.all.insert(mark, Progress::Done);
        let Some(log) = &mut self.file else { return Ok(()) };
        log.file.write_all(&mark.0)?;
        log.marks += 1;
        self.tidy()
    }

    /// Forgets files that are not in the folder any more. `seen` are those that are.
    ///
    /// # Errors
    /// If the file could not be written anew.
    pub fn retain(&mut self, seen: &HashSet<Mark>) -> io::Result<()> {
        self.all.retain(|mark, progress| seen.contains(mark) || *progress == Progress::OnTheWay);
        self.tidy()
    }

    /// Writes the file anew if most of it is useless.
    fn tidy(&mut self) -> io::Result<()> {
        if let Some(log) = &mut self.file
            && log.marks > 2 * self.all.len() + MOST_USELESS
        {
            *log = Log::write(log.folder.try_clone()?, log.name.clone(), &self.all)?;
        }
        Ok(())
    }
}

impl Log {
    /// Writes the file with nothing useless in it. It is there complete or as it was.
    fn write(folder: OwnedFd, name: OsString, all: &HashMap<Mark, Progress>) -> io::Result<Self> {
        let mut bytes = HEADER.to_vec();
        let done = all.iter().filter(|(_, progress)| **progress == Progress::Done);
        done.for_each(|(mark, _)| bytes.extend_from_slice(&mark.0));
        let file = write_whole(&folder, &name, &bytes, 0o600)?;
        Ok(Self { folder, name, file, marks: bytes.len() / MARK_LEN - 1 })
    }
}

/// The error for a file that cannot be used.
fn unkept(path: &Path, error: io::Error) -> io::Error {
    let line = format!("cannot keep what has been sent in {}: {error}", path.display());
    io::Error::new(error.kind(), Advised::by(Remedy::OtherRecord, line))
}

fn foreign() -> io::Error {
    io::Error::other("this file is something else")
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{self, OpenOptions},
        os::unix::fs::symlink,
    };

    use super::*;
    use crate::scratch::scratch;

    fn mark(number: u8) -> Mark {
        Mark([number; MARK_LEN])
    }

    #[test]
    fn what_is_done_with_is_known_after_a_restart_and_what_was_on_its_way_is_not() {
        let folder = scratch("taken");
        let path = folder.join("state");
        let open = || Taken::open_named(&path).unwrap();
        let mut taken = open();
        (1..4).for_each(|number| taken.take(mark(number)));
        taken.keep(mark(1)).unwrap();
        taken.keep(mark(2)).unwrap();
        taken.take(mark(5));
        taken.refuse(mark(5));
        assert!(taken.contains(mark(5)));
        drop(taken);
        // The sender was killed while it wrote.
        OpenOptions::new().append(true).open(&path).unwrap().write_all(b"torn").unwrap();
        let mut taken = open();
        assert_eq!([1, 2, 3, 5].map(|number| taken.contains(mark(number))), [true, true, false, false]);
        taken.take(mark(4));
        taken.refuse(mark(5));
        taken.retain(&HashSet::from([mark(2)])).unwrap();
        assert_eq!([1, 2, 4, 5].map(|number| taken.contains(mark(number))), [false, true, true, false]);
        taken.keep(mark(4)).unwrap();
        drop(taken);
        assert!(open().contains(mark(4)));
        fs::write(&path, "").unwrap();
        assert!(!open().contains(mark(4)));
        fs::write(&path, "somebody else's").unwrap();
        let error = Taken::open_named(&path).unwrap_err().to_string();
        assert!(error.contains("something else"), "{error}");
    }

    #[test]
    fn the_last_mark_of_the_longest_file_is_read() {
        let folder = scratch("taken-long");
        let path = folder.join("state");
        let mut bytes = HEADER.to_vec();
        bytes.resize((1 + 2 * MOST_TAKEN + MOST_USELESS) * MARK_LEN, 1);
        bytes.extend_from_slice(&[2; MARK_LEN]);
        fs::write(&path, bytes).unwrap();
        assert!(Taken::open_named(&path).unwrap().contains(mark(2)));
    }

    #[test]
    fn the_file_does_not_grow_with_what_is_gone() {
        let folder = scratch("taken-gone");
        let path = folder.join("state");
        let mut taken = Taken::open_named(&path).unwrap();
        for number in 0..20_000_u32 {
            let mut bytes = [0; MARK_LEN];
            bytes[..4].copy_from_slice(&number.to_le_bytes());
            taken.take(Mark(bytes));
            taken.keep(Mark(bytes)).unwrap();
            if number % 1000 == 999 {
                taken.retain(&HashSet::new()).unwrap();
            }
        }
        assert!(taken.all.is_empty());
        let len = fs::metadata(&path).unwrap().len();
        assert!(len < (2 * MOST_USELESS * MARK_LEN) as u64, "{len}");
    }

    #[test]
    fn no_link_leads_to_a_file_that_is_read_or_written() {
        let folder = scratch("taken-links");
        let (path, other) = (folder.join("state"), folder.join("other"));
        let keep = || -> io::Result<()> {
            let mut taken = Taken::open_named(&path)?;
            taken.take(mark(1));
            taken.keep(mark(1))
        };
        fs::write(&other, HEADER).unwrap();
        symlink("other", &path).unwrap();
        assert!(keep().unwrap_err().to_string().contains("something else"));
        fs::remove_file(&path).unwrap();
        fs::hard_link(&other, &path).unwrap();
        assert!(keep().unwrap_err().to_string().contains("has another name too"));
        fs::remove_file(&path).unwrap();
        symlink("other", folder.join("state.new")).unwrap();
        keep().unwrap();
        assert_eq!(fs::read(&other).unwrap(), HEADER);
        assert!(Taken::open_named(&path).unwrap().contains(mark(1)));
        fs::create_dir(folder.join("state.new")).unwrap();
        assert!(keep().is_err());
    }
}
