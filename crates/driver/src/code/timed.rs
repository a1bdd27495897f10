//! A connection on which a whole exchange has a deadline, however slowly single bytes come.

use std::{
    io::{self, ErrorKind, Read, Write},
    net::TcpStream,
    time::{Duration, Instant},
};

use treecast_host::stream::Quiet;

/// A connection whose reads and writes fail once the deadline is over.
pub(super) struct Timed {
    stream: TcpStream,
    end: Instant,
}

impl Timed {
    pub fn new(stream: TcpStream, end: Instant) -> Self {
        Self { stream, end }
    }
}

/// The time that is left.
///
/// # Errors
/// If there is none.
pub(super) fn left(end: Instant) -> io::Result<Duration> {
    let left = end.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::Error::new(ErrorKind::TimedOut, "it takes too long")) } else { Ok(left) }
}

impl Read for Timed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(left(self.end)?))?;
        self.stream.read(buffer)
    }
}

impl Write for Timed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(Some(left(self.end)?))?;
        Quiet(&self.stream).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::{net::TcpListener, thread};

    use super::*;

    #[test]
    fn single_bytes_do_not_prolong_an_exchange() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut slow, _) = listener.accept().unwrap();
        // It writes until the other side is gone.
        let drip = thread::spawn(move || {
            while slow.write_all(b"x").is_ok() {
                thread::sleep(Duration::from_millis(20));
            }
        });
        let mut timed = Timed::new(stream, Instant::now() + Duration::from_millis(300));
        // All of it would take 20 s.
        let error = timed.read_exact(&mut [0; 1000]).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock), "{error}");
        assert!(timed.write_all(b"x").is_err(), "nor is there time for anything else");
        drop(timed);
        drip.join().unwrap();
    }
}
