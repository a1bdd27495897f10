//! One TCP connection that always has something to send: what everything else on a link is compared with.

use std::{
    io::{self, ErrorKind, Read, Write},
    net::{IpAddr, SocketAddr, TcpListener, TcpStream},
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use socket2::SockRef;
use treecast_host::congestion;

use crate::site::{Site, enter};

/// The time that connecting may take, and the time that a read or write waits until it is asked whether all is over.
const CONNECTING: Duration = Duration::from_secs(10);
const PATIENCE: Duration = Duration::from_millis(100);

/// A TCP connection from one node to another.
pub struct Connection<'a> {
    pub site: &'a dyn Site,
    pub from: String,
    pub to: String,
    /// The address of the node that it goes to.
    pub address: IpAddr,
    /// The congestion control, as the kernel calls it.
    pub congestion: &'a str,
    pub origin: Instant,
    /// The place to note when the connection was open, counted from `origin`.
    pub begun: &'a OnceLock<Duration>,
}

impl Connection<'_> {
    /// Sends until the time is over. Returns how many bytes have arrived.
    pub fn run(&self, is_over: &AtomicBool) -> io::Result<u64> {
        let (sender, receiver) = self.open()?;
        _ = self.begun.set(self.origin.elapsed());
        let (sent, received) = thread::scope(|scope| {
            let sending = scope.spawn(|| send(&sender, is_over));
            let received = receive(&receiver, is_over);
            (sending.join(), received)
        });
        sent.map_err(|_| io::Error::other("its sender panicked"))??;
        received
    }

    fn open(&self) -> io::Result<(TcpStream, TcpStream)> {
        let at = SocketAddr::new(self.address, 0);
        let listener = enter(self.site, &self.to, || TcpListener::bind(at))??;
        let at = listener.local_addr()?;
        let sender = enter(self.site, &self.from, || TcpStream::connect_timeout(&at, CONNECTING))??;
        let (receiver, _) = listener.accept()?;
        congestion::set(&sender, self.congestion)?;
        sender.set_write_timeout(Some(PATIENCE))?;
        receiver.set_read_timeout(Some(PATIENCE))?;
        for end in [&sender, &receiver] {
            // What is not sent when all is over must not disturb the next run.
            SockRef::from(end).set_linger(Some(Duration::ZERO))?;
        }
        Ok((sender, receiver))
    }
}

fn send(mut stream: &TcpStream, is_over: &AtomicBool) -> io::Result<()> {
    let zeros = vec![0; 64 << 10];
    while !is_over.load(Ordering::Relaxed) {
        stream.write(&zeros).map(drop).or_else(waited)?;
    }
    Ok(())
}

fn receive(mut stream: &TcpStream, is_over: &AtomicBool) -> io::Result<u64> {
    let mut buffer = vec![0; 256 << 10];
    let mut received = 0;
    while !is_over.load(Ordering::Relaxed) {
        match stream.read(&mut buffer) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(read) => received += read as u64,
            Err(error) => waited(error)?,
        }
    }
    Ok(received)
}

/// Takes an error that only says that there was nothing to do for a while for no error.
fn waited(error: io::Error) -> io::Result<()> {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => Ok(()),
        _ => Err(error),
    }
}
