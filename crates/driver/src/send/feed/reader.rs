//! Reads a feed line by line, or cuts it into pieces, in a thread of its own: there is no other way to wait for a file of unknown
//! kind. It runs ahead by at most [`AHEAD`] objects. So the session slows down the program that writes the lines, and its memory
//! does not fill.

use std::{
    ffi::OsStr,
    fs::File,
    io::{self, BufRead, BufReader, Read},
    os::{fd::AsFd, unix::ffi::OsStrExt},
    path::PathBuf,
};

use super::{Arrival, ObjectQueue, QueueClosed, Queued, Rule, terms_of};
use crate::{
    files::{NamedSource, Selection, find_sources_until},
    pipe::{Cutter, Spool},
};

/// The most objects that wait between the reader and the session.
const AHEAD: usize = 64;

/// A line longer than this is no path (Linux' PATH_MAX).
const MAX_LINE_BYTES: usize = 4096;

pub(super) struct Reader {
    pub queue: ObjectQueue,
    /// The level by which objects are compressed. `None`: not at all.
    pub compression: Option<i32>,
    pub rules: Vec<Rule>,
    /// The rules for which entries are sent of the folders that lines name.
    pub selection: Selection,
}

/// The input that is read.
pub(super) enum Input {
    /// Paths on standard input, one a line.
    Lines,
    /// Paths in a file or pipe, one a line.
    File(PathBuf),
    /// The bytes of standard input, and the folder where they are kept, if they are.
    Stream(Option<Spool>),
}

impl Drop for Reader {
    /// Tells the session that the reader has ended, however it has.
    fn drop(&mut self) {
        self.queue.close();
    }
}

impl Reader {
    pub fn run(self, input: &Input) {
        let standard_input = "standard input".to_owned();
        let (name, read) = match input {
            Input::Lines => (standard_input, self.read(io::stdin().lock())),
            Input::Stream(spool) => (standard_input, self.cut(spool.clone())),
            Input::File(path) => {
                let read = match File::open(path) {
                    Ok(file) => self.read(BufReader::new(file)),
                    Err(error) => Ok(Err(error)),
                };
                (path.display().to_string(), read)
            }
        };
        if let Ok(Err(error)) = read {
            let reason = format!("the feed cannot be read to its end: {error}");
            _ = self.give(Arrival::Refused { path: name, reason, number: None });
        }
    }

    /// Reads to the end of the input, or until the session is over.
    fn read(&self, mut input: impl BufRead) -> Result<io::Result<()>, QueueClosed> {
        let mut line = Vec::new();
        loop {
            line.clear();
            // One byte more than a path may have, and its newline.
            match input.by_ref().take(MAX_LINE_BYTES as u64 + 2).read_until(b'\n', &mut line) {
                Ok(0) => return Ok(Ok(())),
                Ok(_) => {}
                Err(error) => return Ok(Err(error)),
            }
            let is_whole = line.last() == Some(&b'\n');
            line.pop_if(|last| *last == b'\n');
            if line.len() > MAX_LINE_BYTES {
                let start = String::from_utf8_lossy(&line[..32]).into_owned();
                let reason = format!("a line of more than {MAX_LINE_BYTES} bytes is no path");
                self.give(Arrival::Refused { path: format!("{start}..."), reason, number: None })?;
                if !is_whole && let Err(error) = input.skip_until(b'\n') {
                    return Ok(Err(error));
                }
            } else if !line.is_empty() {
                self.find(PathBuf::from(OsStr::from_bytes(&line)))?;
            }
        }
    }

    /// Cuts standard input into pieces up to its end, or until the session is over.
    fn cut(&self, spool: Option<Spool>) -> Result<io::Result<()>, QueueClosed> {
        // Not through the standard library's buffer, which would hide what has come.
        let mut cutter = match io::stdin().as_fd().try_clone_to_owned() {
            Ok(input) => Cutter::new(File::from(input), spool),
            Err(error) => return Ok(Err(error)),
        };
        loop {
            match cutter.next() {
                Ok(Some(piece)) => self.send(piece)?,
                Ok(None) => return Ok(Ok(())),
                Err(error) => return Ok(Err(error)),
            }
        }
    }

    /// Hands over the file, or the files of the folder, that a line names.
    fn find(&self, path: PathBuf) -> Result<(), QueueClosed> {
        let shown = path.display().to_string();
        match find_sources_until(&[path], &self.selection, &|| self.queue.is_closed()) {
            Ok(found) => {
                found.warnings().for_each(|line| self.queue.tell(line));
                for (path, reason) in found.unsendable.named() {
                    self.give(Arrival::Refused { path, reason, number: None })?;
                }
                found.sources.into_iter().try_for_each(|source| self.send(source))
            }
            Err(error) => {
                self.give(Arrival::Refused { path: shown, reason: error.to_string(), number: None })
            }
        }
    }

    fn send(&self, named: NamedSource) -> Result<(), QueueClosed> {
        let terms = terms_of(&self.rules, &named.name);
        self.give(Arrival::of(Queued::new(named, None, terms), self.compression))
    }

    fn give(&self, arrival: Arrival) -> Result<(), QueueClosed> {
        self.queue.give(arrival, AHEAD)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::TryRecvError;

    use super::*;

    fn reader() -> Reader {
        let selection = Selection::default();
        Reader { queue: ObjectQueue::default(), compression: None, rules: Vec::new(), selection }
    }

    /// The content of a queue: names of objects, and reasons why something was not sent.
    fn taken(queue: &ObjectQueue) -> Vec<String> {
        let mut taken = Vec::new();
        loop {
            match queue.take() {
                Ok(Arrival::Object(queued)) => taken.push(queued.object.name),
                Ok(Arrival::Refused { path, reason, .. }) => taken.push(format!("{path}: {reason}")),
                Err(TryRecvError::Empty) => std::thread::yield_now(),
                Err(TryRecvError::Disconnected) => return taken,
            }
        }
    }

    #[test]
    fn a_line_is_a_path_and_a_bad_one_is_told_of_and_passed_over() {
        let long = "x".repeat(3 * MAX_LINE_BYTES);
        let lines = format!("/proc/self/exe\n\n/no/such/file\n{long}\n/proc/self/exe");
        let reader = reader();
        let queue = reader.queue.clone();
        assert!(matches!(reader.read(lines.as_bytes()), Ok(Ok(()))));
        drop(reader);
        let mut found = taken(&queue);
        found.sort_by_key(|found| found != "exe");
        assert_eq!((found.len(), found[0].as_str(), found[1].as_str()), (4, "exe", "exe"));
        assert!(found[2].starts_with("/no/such/file: cannot read"), "{}", found[2]);
        assert!(found[3].contains("no path") && found[3].len() < 100, "{}", found[3]);
    }

    #[test]
    fn a_reader_whose_session_is_over_ends() {
        let reader = reader();
        reader.queue.clear();
        assert!(matches!(reader.read(&b"/proc/self/exe\n"[..]), Err(QueueClosed)));
    }

    #[test]
    fn the_end_is_told_and_so_is_a_feed_that_is_not_there() {
        let reader = reader();
        let queue = reader.queue.clone();
        reader.run(&Input::File("/no/such/feed".into()));
        let told = taken(&queue);
        assert!(told.len() == 1 && told[0].starts_with("/no/such/feed: the feed cannot"), "{told:?}");
    }
}
