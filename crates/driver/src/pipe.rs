//! A stream of unknown length, such as a program's output, as objects of a feed.
//!
//! The sender cuts the stream into pieces, whose names are their numbers. It keeps a piece in memory until every receiver has
//! ended with it, and reads on only when there is room. A receiver puts the pieces together by their numbers. Each piece
//! is an object, so a receiver hands on only verified bytes.

use std::{
    io::{self, Read},
    os::fd::AsFd,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use treecast_host::poller::is_readable_within;

use crate::files::{NamedSource, Source};

/// The length of a piece in bytes. The last piece is shorter, and so are pieces whose bytes come slowly.
pub const PIECE_LEN: usize = 1 << 20;

/// The largest number of pieces that a sender keeps: those that wait, and those that some receiver still lacks.
pub const MOST_PIECES: usize = 64;

/// The time after its first byte at which a piece is sent, however short it is.
const PATIENCE: Duration = Duration::from_millis(200);

/// The folder in the names of pieces.
const FOLDER: &str = "standard-input";

/// The name of a piece. The first one has number 0.
pub fn piece_name(number: u64) -> String {
    format!("{FOLDER}/{number:010}")
}

/// The number of a piece. `None` if this is the name of another object.
pub fn piece_number(name: &str) -> Option<u64> {
    let digits = name.strip_prefix(FOLDER)?.strip_prefix('/')?;
    let number = digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok()).flatten()?;
    (piece_name(number) == name).then_some(number)
}

/// Cuts a stream into pieces.
#[derive(Debug)]
pub(crate) struct Cutter<R> {
    input: R,
    room: Room,
    /// The number of the next piece.
    number: u64,
}

impl<R: Read + AsFd> Cutter<R> {
    pub fn new(input: R) -> Self {
        Self { input, room: Room::default(), number: 0 }
    }

    /// Waits for room and for bytes, and returns the next piece. `None` at the end of the stream.
    ///
    /// # Errors
    /// If the stream cannot be read.
    pub fn next(&mut self) -> io::Result<Option<NamedSource>> {
        let place = self.room.take();
        let bytes = self.read()?;
        if bytes.is_empty() {
            return Ok(None);
        }
        let name = piece_name(self.number);
        self.number += 1;
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
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
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
    _place: Place,
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Room for [`MOST_PIECES`] pieces, shared by all places in it.
#[derive(Debug, Clone, Default)]
struct Room(Arc<(Mutex<usize>, Condvar)>);

/// The place of one piece.
struct Place(Room);

impl Room {
    /// Waits until there is a place.
    fn take(&self) -> Place {
        let free = |taken: &mut usize| *taken >= MOST_PIECES;
        let mut taken = self.0.1.wait_while(self.taken(), free).unwrap_or_else(PoisonError::into_inner);
        *taken += 1;
        Place(self.clone())
    }

    fn taken(&self) -> MutexGuard<'_, usize> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        *self.0.taken() -= 1;
        self.0.0.1.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::{io::Write, thread};

    use super::*;

    #[test]
    fn a_name_tells_its_number_and_other_names_have_none() {
        for number in [0, 7, 9_999_999_999, 10_000_000_000, u64::MAX] {
            assert_eq!(piece_number(&piece_name(number)), Some(number));
        }
        for other in [
            "standard-input",
            "standard-input/",
            "standard-input/7",
            "standard-input/+000000007",
            "x/0000000007",
        ] {
            assert_eq!(piece_number(other), None, "{other}");
        }
    }

    #[test]
    fn pieces_hold_the_stream_and_wait_for_room() {
        let (input, mut output) = io::pipe().unwrap();
        let stream: Vec<u8> = (0..70 * PIECE_LEN + 5).map(|at| (at % 251) as u8).collect();
        let expected = stream.clone();
        let writer = thread::spawn(move || output.write_all(&stream));
        let mut cutter = Cutter::new(input);
        let mut pieces: Vec<_> = (0..MOST_PIECES).map(|_| cutter.next().unwrap().unwrap()).collect();
        assert_eq!(*cutter.room.taken(), MOST_PIECES);
        // The next piece needs the place of one that is gone.
        let mut came = bytes_of(pieces.remove(0));
        let next = cutter.next().unwrap().unwrap();
        pieces.into_iter().chain([next]).for_each(|piece| came.extend(bytes_of(piece)));
        while let Some(piece) = cutter.next().unwrap() {
            came.extend(bytes_of(piece));
        }
        writer.join().unwrap().unwrap();
        assert!(came == expected);
        assert_eq!(*cutter.room.taken(), 0);
    }

    #[test]
    fn a_slow_stream_comes_in_short_pieces() {
        let (input, mut output) = io::pipe().unwrap();
        let mut cutter = Cutter::new(input);
        output.write_all(b"first").unwrap();
        assert_eq!(bytes_of(cutter.next().unwrap().unwrap()), b"first");
        output.write_all(b"second").unwrap();
        drop(output);
        assert_eq!(bytes_of(cutter.next().unwrap().unwrap()), b"second");
        assert!(cutter.next().unwrap().is_none());
    }

    fn bytes_of(mut piece: NamedSource) -> Vec<u8> {
        let mut bytes = vec![0; piece.source.size() as usize];
        piece.source.read(0, &mut bytes).unwrap();
        bytes
    }
}
