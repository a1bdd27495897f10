//! Which files of a folder have been taken, and which of them are done with. The latter are in a file, from which a sender that is
//! started again knows them. It keeps 16 bytes of each file.

use std::{
    collections::{HashMap, HashSet},
    fs::{self, File, Metadata, OpenOptions},
    io::{self, Read, Write},
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::{Path, PathBuf},
};

/// The beginning of the file.
const HEADER: &[u8; MARK_LEN] = b"treecast feed 1\n";

const MARK_LEN: usize = 16;

/// The most files that are remembered. They need about 40 MB of memory.
pub(super) const MOST_TAKEN: usize = 1_000_000;

/// The number of marks in the file that are of no use and do not matter yet.
const MOST_USELESS: usize = 4096;

/// What tells a file from all others, and from what it was before: a hash of its name, size and time of modification.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Mark([u8; MARK_LEN]);

impl Mark {
    pub fn of(name: &Path, metadata: &Metadata) -> Self {
        let mut hasher = blake3::Hasher::new();
        for number in [metadata.size().cast_signed(), metadata.mtime(), metadata.mtime_nsec()] {
            hasher.update(&number.to_le_bytes());
        }
        hasher.update(name.as_os_str().as_bytes());
        let mut mark = [0; MARK_LEN];
        mark.copy_from_slice(&hasher.finalize().as_bytes()[..MARK_LEN]);
        Self(mark)
    }
}

/// How far a file has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    OnTheWay,
    /// It could not be sent. A sender that is started again tries it once more.
    Refused,
    Done,
}

/// The files that have been taken.
#[derive(Debug)]
pub(super) struct Taken {
    all: HashMap<Mark, Progress>,
    /// The log of files that are done with. `None` where files are removed when they are done with.
    file: Option<Log>,
}

#[derive(Debug)]
struct Log {
    path: PathBuf,
    file: File,
    /// The number of marks in the file.
    marks: usize,
}

impl Taken {
    /// Reads what an earlier sender has kept at `path`. What it did not write to its end is left out.
    ///
    /// # Errors
    /// If the file cannot be read or written, or is something else.
    pub fn open(path: Option<PathBuf>) -> io::Result<Self> {
        let Some(path) = path else {
            return Ok(Self { all: HashMap::new(), file: None });
        };
        let failed = |error: io::Error| {
            let what = format!("cannot keep what has been sent in {}: {error}", path.display());
            io::Error::new(error.kind(), what)
        };
        let mut options = OpenOptions::new();
        let file = options.read(true).append(true).create(true).open(&path).map_err(failed)?;
        let mut bytes = Vec::new();
        // The header, and as many marks as `keep` writes before it tidies.
        let most = (1 + 2 * MOST_TAKEN + MOST_USELESS + 1) * MARK_LEN;
        (&file).take(most as u64).read_to_end(&mut bytes).map_err(failed)?;
        if bytes.len() < MARK_LEN && HEADER.starts_with(&bytes) {
            bytes = HEADER.to_vec();
        }
        if !bytes.starts_with(HEADER) {
            return Err(failed(io::Error::other("this file is something else")));
        }
        let marks = bytes.chunks_exact(MARK_LEN).skip(1).filter_map(|mark| Some(Mark(mark.try_into().ok()?)));
        let all = marks.map(|mark| (mark, Progress::Done)).collect();
        let mut taken = Self { all, file: Some(Log { path: path.clone(), file, marks: 0 }) };
        // What was cut short goes.
        taken.write_anew().map_err(failed)?;
        Ok(taken)
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
        match &self.file {
            Some(log) if log.marks > 2 * self.all.len() + MOST_USELESS => self.write_anew(),
            _ => Ok(()),
        }
    }

    /// Writes the file with nothing useless in it. It is there complete or as it was.
    fn write_anew(&mut self) -> io::Result<()> {
        let Some(log) = &mut self.file else { return Ok(()) };
        let mut bytes = HEADER.to_vec();
        let done = self.all.iter().filter(|(_, progress)| **progress == Progress::Done);
        done.for_each(|(mark, _)| bytes.extend_from_slice(&mark.0));
        let mut new = log.path.as_os_str().to_owned();
        new.push(".new");
        let new = PathBuf::from(new);
        fs::write(&new, &bytes)?;
        fs::rename(&new, &log.path)?;
        log.file = OpenOptions::new().append(true).open(&log.path)?;
        log.marks = bytes.len() / MARK_LEN - 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::scratch;

    fn mark(number: u8) -> Mark {
        Mark([number; MARK_LEN])
    }

    #[test]
    fn what_is_done_with_is_known_after_a_restart_and_what_was_on_its_way_is_not() {
        let folder = scratch("taken");
        let path = folder.join("state");
        let open = || Taken::open(Some(path.clone())).unwrap();
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
        let error = Taken::open(Some(path.clone())).unwrap_err().to_string();
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
        assert!(Taken::open(Some(path)).unwrap().contains(mark(2)));
    }

    #[test]
    fn the_file_does_not_grow_with_what_is_gone() {
        let folder = scratch("taken-gone");
        let path = folder.join("state");
        let mut taken = Taken::open(Some(path.clone())).unwrap();
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
}
