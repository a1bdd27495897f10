//! A TCP transfer at an even pace, and the gaps in what arrives.

use std::{
    io::{self, ErrorKind, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    thread,
    time::{Duration, Instant},
};

use crate::site::{Site, enter};

/// The time between two pieces of data.
const PACE: Duration = Duration::from_millis(10);

/// The time that a read or write waits until it is asked whether all is over.
const PATIENCE: Duration = Duration::from_millis(100);

/// The time for which data may come after the last was sent. TCP waits that long until it tries again after a long
/// outage.
const GRACE: Duration = Duration::from_secs(30);

/// The result of a transfer.
#[derive(Debug, Clone, Default)]
pub struct Transferred {
    pub sent_bytes: u64,
    pub received_bytes: u64,
    /// The times at which data has arrived, counted from the begin, in order.
    pub arrivals: Vec<Duration>,
    /// The reason why the connection has ended too early.
    pub broken: Option<String>,
}

/// A connection that the host inside has opened to the host outside.
pub struct Open {
    inside: TcpStream,
    outside: TcpStream,
}

impl Open {
    /// Opens a connection from one node to an address of another.
    ///
    /// # Errors
    /// `TimedOut`, if the other node does not answer for 2 s.
    pub fn between(site: &dyn Site, inside: &str, outside: &str, to: SocketAddr) -> io::Result<Self> {
        const CONNECTING: Duration = Duration::from_secs(2);
        let listener = enter(site, outside, || TcpListener::bind(to))??;
        let to = listener.local_addr()?;
        let inside = enter(site, inside, || TcpStream::connect_timeout(&to, CONNECTING))??;
        let (outside, _) = listener.accept()?;
        inside.set_read_timeout(Some(PATIENCE))?;
        outside.set_write_timeout(Some(PATIENCE))?;
        Ok(Self { inside, outside })
    }

    /// The address of the host inside, as the connection uses it.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.inside.local_addr()
    }

    /// Sends data from outside at a rate for a time, and receives it.
    pub fn run(
        self,
        rate_bps: u64,
        lasts: Duration,
        origin: Instant,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Transferred {
        let Self { inside, outside } = self;
        let end = origin + lasts;
        let (sent, mut transferred) = thread::scope(|scope| {
            let sending = scope.spawn(|| send(&outside, rate_bps, origin, end, stop));
            let transferred = receive(&inside, origin, end + GRACE, stop);
            (sending.join().unwrap_or_default(), transferred)
        });
        transferred.sent_bytes = sent.bytes;
        transferred.broken = sent.broken.or(transferred.broken);
        transferred
    }
}

#[derive(Default)]
struct Sent {
    bytes: u64,
    broken: Option<String>,
}

fn send(
    mut stream: &TcpStream,
    rate_bps: u64,
    origin: Instant,
    end: Instant,
    stop: &(dyn Fn() -> bool + Sync),
) -> Sent {
    let piece = vec![0x5a; (rate_bps as f64 / 8.0 * PACE.as_secs_f64()) as usize];
    let mut sent = Sent::default();
    let mut due = origin;
    while due < end && !stop() {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        let mut left = &piece[..];
        while !left.is_empty() && Instant::now() < end {
            match stream.write(left).or_else(waited) {
                Ok(count) => (left, sent.bytes) = (&left[count..], sent.bytes + count as u64),
                Err(error) => {
                    sent.broken = Some(format!("the sender's connection ended: {error}"));
                    return sent;
                }
            }
        }
        // What could not be sent in time is not made up for: the pace is that of a live source.
        due = (due + PACE).max(Instant::now());
    }
    // The other end reads until here. If it is gone, it says so itself.
    _ = stream.shutdown(Shutdown::Write);
    sent
}

fn receive(
    mut stream: &TcpStream,
    origin: Instant,
    end: Instant,
    stop: &(dyn Fn() -> bool + Sync),
) -> Transferred {
    let mut buffer = vec![0; 256 << 10];
    let mut transferred = Transferred::default();
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return transferred,
            Ok(read) => {
                transferred.received_bytes += read as u64;
                transferred.arrivals.push(origin.elapsed());
            }
            Err(error) => {
                if let Err(error) = waited(error) {
                    transferred.broken = Some(format!("the receiver's connection ended: {error}"));
                    return transferred;
                }
                if stop() || Instant::now() > end {
                    transferred.broken = Some("the end of the data never came".into());
                    return transferred;
                }
            }
        }
    }
}

/// Takes an error that only says that there was nothing to do for a while for no error.
fn waited(error: io::Error) -> io::Result<usize> {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => Ok(0),
        _ => Err(error),
    }
}

impl Transferred {
    /// Whether all that was sent has arrived.
    pub fn is_whole(&self) -> bool {
        self.broken.is_none() && self.received_bytes == self.sent_bytes && self.sent_bytes > 0
    }

    /// Returns the longest time without data that touches the time from `from` to `to`.
    pub fn longest_gap(&self, from: Duration, to: Duration) -> Duration {
        let starts = [Duration::ZERO].into_iter().chain(self.arrivals.iter().copied());
        let gaps = starts.zip(&self.arrivals).filter(|(start, end)| **end > from && *start < to);
        gaps.map(|(start, end)| *end - start).max().unwrap_or(to - from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_gap_around_a_cut_counts() {
        let arrivals: Vec<Duration> = [10, 20, 30, 700, 710, 2000].map(Duration::from_millis).into();
        let transferred = Transferred { arrivals, ..Transferred::default() };
        let gap = |from, to| transferred.longest_gap(Duration::from_millis(from), Duration::from_millis(to));
        assert_eq!(gap(35, 705), Duration::from_millis(670));
        assert_eq!(gap(0, 25), Duration::from_millis(10));
        assert_eq!(gap(705, 1000), Duration::from_millis(1290));
        // Nothing has come since.
        assert_eq!(gap(2100, 3100), Duration::from_secs(1));
    }

    #[test]
    fn data_is_whole_when_all_that_was_sent_has_come() {
        let listener = TcpListener::bind("[::1]:0").unwrap();
        let inside = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (outside, _) = listener.accept().unwrap();
        inside.set_read_timeout(Some(PATIENCE)).unwrap();
        outside.set_write_timeout(Some(PATIENCE)).unwrap();
        let lasts = Duration::from_millis(200);
        let transferred = Open { inside, outside }.run(8_000_000, lasts, Instant::now(), &|| false);
        assert!(transferred.is_whole(), "{transferred:?}");
        assert!((10_000..=200_000).contains(&transferred.sent_bytes), "{}", transferred.sent_bytes);
    }
}
