//! A stream of unknown length, such as a program's output, as objects of a feed.
//!
//! The sender cuts the stream into pieces, whose names are their numbers. It keeps a piece in memory until every receiver has
//! ended with it, and reads on only when there is room. Or it keeps all pieces in a folder, and receivers that come late get them,
//! too. Behind the last piece goes an object that tells how many there are, so no beginning of a stream passes for all of it. A
//! receiver puts the pieces together by their numbers. Each piece is an object, so a receiver hands on only verified bytes.

use std::{
    collections::BTreeSet,
    ffi::OsStr,
    fs,
    io::{self, Read},
    os::fd::AsFd,
    path::Path,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use treecast_host::{poller::is_readable_within, root::write_new, temporary::TemporaryFolder};

use crate::files::{self, NamedSource, Source};

/// The length of a piece in bytes. The last piece is shorter, and so are pieces whose bytes come slowly.
const PIECE_LEN: usize = 1 << 20;

/// The largest number of pieces from the oldest one that some receiver still lacks to the newest one.
pub const MOST_PIECES: u64 = 64;

/// The time after its first byte at which a piece is sent, however short it is.
const PATIENCE: Duration = Duration::from_millis(200);

/// The longest time for which a descriptor that does not block is asked at once.
const PATIENCE_WITHOUT_BYTES: Duration = Duration::from_secs(60);

/// The folder in the names of pieces.
const FOLDER: &str = "standard-input";

/// The beginning of the numbers of pieces that come again for receivers which are late.
const SPOOLED: &str = "spooled-";

/// The name of the object behind the last piece. Its content is the number of pieces, in decimal digits.
pub const END_NAME: &str = "standard-input/end";

/// The name of a piece. The first one has number 0.
fn piece_name(number: u64) -> String {
    format!("{FOLDER}/{number:010}")
}

/// The name of a piece that comes again for receivers which are late.
fn spooled_name(number: u64) -> String {
    format!("{FOLDER}/{SPOOLED}{number:010}")
}

/// The number of a piece. `None` if this is the name of another object.
pub fn piece_number(name: &str) -> Option<u64> {
    let digits = name.strip_prefix(FOLDER)?.strip_prefix('/')?;
    let digits = digits.strip_prefix(SPOOLED).unwrap_or(digits);
    let number = digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok()).flatten()?;
    [piece_name(number), spooled_name(number)].iter().any(|its| its == name).then_some(number)
}

/// Whether a name is that of a piece which comes again for receivers that are late. Newer pieces may come long before it.
pub fn is_spooled(name: &str) -> bool {
    piece_number(name).is_some_and(|number| spooled_name(number) == name)
}

/// A folder where all pieces of a stream are kept. Clones are the same folder. It is removed with the last of them.
#[derive(Debug, Clone)]
pub(crate) struct Spool(Arc<TemporaryFolder>);

impl Spool {
    /// Makes a folder in `parent`.
    ///
    /// # Errors
    /// If that is impossible, in words.
    pub fn new(parent: &Path) -> io::Result<Self> {
        let made = fs::create_dir_all(parent).and_then(|()| TemporaryFolder::new(parent, "treecast-stream-"));
        made.map(|made| Self(Arc::new(made))).map_err(|error| {
            let line = format!("cannot make a folder for standard input in {}: {error}", parent.display());
            io::Error::new(error.kind(), line)
        })
    }

    /// Writes the piece with this number into a file.
    fn keep(&self, number: u64, bytes: &[u8]) -> io::Result<Source> {
        let name = number.to_string();
        let place = files::Place::below(self.0.root(), self.0.path(), Path::new(&name));
        let path = place.path().to_owned();
        let kept = write_new(self.0.root().descriptor(), OsStr::new(&name), bytes, 0o600);
        let kept = kept.and_then(|file| Source::of_file(place, &file).map_err(io::Error::other));
        kept.map_err(|error| {
            io::Error::new(error.kind(), format!("cannot keep it in {}: {error}", path.display()))
        })
    }
}

/// Cuts a stream into pieces.
#[derive(Debug)]
pub(crate) struct Cutter<R> {
    input: R,
    room: Room,
    /// The folder for all pieces. `None`: they are in memory, and only while somebody lacks them.
    spool: Option<Spool>,
    /// The number of the next piece.
    number: u64,
    has_ended: bool,
}

impl<R: Read + AsFd> Cutter<R> {
    /// Reads `input` as pieces. All pieces are kept as files of the folder `spool`, if there is one.
    pub fn new(input: R, spool: Option<Spool>) -> Self {
        Self { input, room: Room::default(), spool, number: 0, has_ended: false }
    }

    /// Waits for room and for bytes, and returns the next piece; behind the last one, the object that tells their number. `None` after
    /// that.
    ///
    /// # Errors
    /// If the stream cannot be read, or a piece cannot be kept. Receivers then never hear of an end.
    pub fn next(&mut self) -> io::Result<Option<NamedSource>> {
        if self.has_ended {
            return Ok(None);
        }
        let place = self.spool.is_none().then(|| self.room.take(self.number));
        let bytes = self.read()?;
        self.has_ended = bytes.is_empty();
        let number = self.number;
        self.number += 1;
        let (name, bytes) = match (self.has_ended, &self.spool) {
            (true, _) => (END_NAME.to_owned(), number.to_string().into_bytes()),
            (false, None) => (piece_name(number), bytes),
            (false, Some(spool)) => {
                let source = spool.keep(number, &bytes)?;
                return Ok(Some(NamedSource { name: spooled_name(number), source }));
            }
        };
        let source = Source::memory(&name, Arc::new(Piece { bytes, _place: place }));
        Ok(Some(NamedSource { name, source }))
    }

    /// Reads a piece. It is empty only at the end of the stream.
    fn read(&mut self) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; PIECE_LEN];
        let (mut len, mut until) = (0, None::<Instant>);
        while len < PIECE_LEN {
            if let Some(until) = until
                && !is_readable_within(&self.input, until.saturating_duration_since(Instant::now()))?
            {
                break;
            }
            match self.input.read(&mut bytes[len..]) {
                Ok(0) => break,
                Ok(read) => len += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                // Another program has left the descriptor so that it does not block.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    is_readable_within(&self.input, PATIENCE_WITHOUT_BYTES)?;
                    continue;
                }
                Err(error) => return Err(error),
            }
            until.get_or_insert_with(|| Instant::now() + PATIENCE);
        }
        bytes.truncate(len);
        bytes.shrink_to_fit();
        Ok(bytes)
    }
}

/// The bytes of a piece. When the last copy is dropped, there is room for another piece.
struct Piece {
    bytes: Vec<u8>,
    _place: Option<Place>,
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// The numbers of the pieces that are in memory, shared by all their places.
#[derive(Debug, Clone, Default)]
struct Room(Arc<(Mutex<BTreeSet<u64>>, Condvar)>);

/// The place of the piece with this number.
struct Place(Room, u64);

impl Room {
    /// Waits until the oldest piece is near enough to the piece `number`.
    fn take(&self, number: u64) -> Place {
        let is_far =
            |taken: &mut BTreeSet<u64>| taken.first().is_some_and(|oldest| number - oldest >= MOST_PIECES);
        let mut taken = self.0.1.wait_while(self.taken(), is_far).unwrap_or_else(PoisonError::into_inner);
        taken.insert(number);
        Place(self.clone(), number)
    }

    fn taken(&self) -> MutexGuard<'_, BTreeSet<u64>> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.taken().remove(&self.1);
        self.0.0.1.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::{io::Write, os::unix::net::UnixStream, thread};

    use super::*;

    #[test]
    fn a_name_tells_its_number_and_other_names_have_none() {
        for number in [0, 7, 9_999_999_999, 10_000_000_000, u64::MAX] {
            let names = [piece_name(number), spooled_name(number)];
            assert_eq!(names.each_ref().map(|name| piece_number(name)), [Some(number); 2]);
            assert_eq!(names.map(|name| is_spooled(&name)), [false, true]);
        }
        for other in [
            "standard-input",
            "standard-input/",
            "standard-input/7",
            "standard-input/+000000007",
            "standard-input/spooled-7",
            "x/0000000007",
        ] {
            assert_eq!(piece_number(other), None, "{other}");
        }
    }

    #[test]
    fn pieces_hold_the_stream_and_the_oldest_one_keeps_the_newest_near() {
        let (input, mut output) = io::pipe().unwrap();
        let stream: Vec<u8> = (0..70 * PIECE_LEN + 5).map(|at| (at % 251) as u8).collect();
        let expected = stream.clone();
        let writer = thread::spawn(move || output.write_all(&stream));
        let mut cutter = Cutter::new(input, None);
        let mut pieces: Vec<_> = (0..MOST_PIECES).map(|_| cutter.next().unwrap().unwrap()).collect();
        // All but the oldest piece are done: there is no room yet.
        let others: Vec<u8> = pieces.drain(1..).flat_map(bytes_of).collect();
        assert_eq!(cutter.room.taken().iter().copied().collect::<Vec<_>>(), [0]);
        let next = thread::spawn(move || (cutter.next().unwrap().unwrap(), cutter));
        thread::sleep(Duration::from_millis(50));
        assert!(!next.is_finished());
        let mut came = bytes_of(pieces.remove(0));
        let (piece, mut cutter) = next.join().unwrap();
        came.extend(others);
        came.extend(bytes_of(piece));
        let last = loop {
            let piece = cutter.next().unwrap().unwrap();
            match piece_number(&piece.name) {
                Some(_) => came.extend(bytes_of(piece)),
                None => break piece,
            }
        };
        writer.join().unwrap().unwrap();
        assert!(came == expected);
        assert_eq!((last.name.clone(), bytes_of(last)), (END_NAME.to_owned(), b"71".to_vec()));
        assert!(cutter.next().unwrap().is_none() && cutter.room.taken().is_empty());
    }

    #[test]
    fn a_slow_stream_comes_in_short_pieces_also_where_reads_do_not_block() {
        let (input, mut output) = UnixStream::pair().unwrap();
        input.set_nonblocking(true).unwrap();
        let mut cutter = Cutter::new(input, None);
        let mut next = || bytes_of(cutter.next().unwrap().unwrap());
        output.write_all(b"first").unwrap();
        assert_eq!(next(), b"first");
        let writer = thread::spawn(move || {
            thread::sleep(Duration::from_millis(50));
            output.write_all(b"second").unwrap();
        });
        assert_eq!(next(), b"second");
        writer.join().unwrap();
        assert_eq!(next(), b"2");
    }

    #[test]
    fn a_stream_that_cannot_be_read_has_no_end() {
        let mut cutter = Cutter::new(std::fs::File::open("/tmp").unwrap(), None);
        assert!(cutter.next().is_err());
    }

    fn bytes_of(mut piece: NamedSource) -> Vec<u8> {
        let mut bytes = vec![0; piece.source.size() as usize];
        piece.source.read(0, &mut bytes).unwrap();
        bytes
    }
}
