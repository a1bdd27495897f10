//! New connections, one after the other: do they come about, and do they use the prefix whose link is cut?

use std::{
    io,
    net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use socket2::{Domain, Protocol, Socket, Type};
use treecast_lab::Subnet;
use treecast_mast::dns::lookup::Lookup;

use crate::site::{Site, enter};

/// The time between the starts of two connections.
pub const EVERY: Duration = Duration::from_millis(100);

/// The longest time until a connection counts as failed.
const CONNECTING: Duration = Duration::from_secs(1);

/// The longest wait for a name server's answer.
const ANSWER: Duration = Duration::from_millis(500);

/// The port to which new connections go.
pub const PORT: u16 = 4600;

/// A new connection, or the attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Probe {
    /// The time at which it began, counted from the transfer's begin.
    pub at: Duration,
    /// Whether it used the prefix whose link is cut. `None`: nobody knows, because no name server has answered.
    pub uses: Option<bool>,
    pub works: bool,
}

/// The name of the host inside, and the server that knows its addresses.
pub struct Named {
    pub name: String,
    pub server: SocketAddr,
}

/// The other end of new connections, and the prefix that is watched.
pub struct Prober<'a> {
    pub site: &'a dyn Site,
    pub node: &'a str,
    /// The prefix whose link is cut.
    pub prefix: Option<Subnet<Ipv6Addr>>,
    pub origin: Instant,
    pub is_over: &'a AtomicBool,
}

impl Prober<'_> {
    /// Opens connections to `to` until all is over. The kernel chooses their source address.
    pub fn outgoing(&self, to: Ipv6Addr) -> io::Result<Vec<Probe>> {
        self.each(|| {
            let (source, works) = connect(to)?;
            Ok((source.map(|source| self.is_inside(source)), works))
        })
    }

    /// Opens connections to the first address that a name has, until all is over.
    pub fn incoming(&self, named: &Named) -> io::Result<Vec<Probe>> {
        let mut number = 0_u16;
        self.each(|| {
            number = number.wrapping_add(1);
            let Some(addresses) = look_up(named, number)? else { return Ok((None, false)) };
            let works = match addresses.first() {
                Some(first) => connect(*first)?.1,
                None => false,
            };
            Ok((Some(addresses.into_iter().any(|address| self.is_inside(address))), works))
        })
    }

    fn is_inside(&self, address: Ipv6Addr) -> bool {
        self.prefix.is_some_and(|prefix| prefix.contains(address))
    }

    fn each(
        &self,
        mut probe: impl FnMut() -> io::Result<(Option<bool>, bool)> + Send,
    ) -> io::Result<Vec<Probe>> {
        enter(self.site, self.node, || {
            let mut probes = Vec::new();
            while !self.is_over.load(Ordering::Relaxed) {
                let at = self.origin.elapsed();
                let (uses, works) = probe()?;
                probes.push(Probe { at, uses, works });
                thread::sleep((at + EVERY).saturating_sub(self.origin.elapsed()));
            }
            Ok(probes)
        })?
    }
}

/// Accepts connections at a node, and ends them, until all is over.
pub fn accept(site: &dyn Site, node: &str, is_over: &AtomicBool) -> io::Result<()> {
    const LOOK: Duration = Duration::from_millis(5);
    enter(site, node, || {
        let listener = TcpListener::bind((Ipv6Addr::UNSPECIFIED, PORT))?;
        listener.set_nonblocking(true)?;
        while !is_over.load(Ordering::Relaxed) {
            // A connection that is gone already is no error of the listener.
            if listener.accept().is_err() {
                thread::sleep(LOOK);
            }
        }
        Ok(())
    })?
}

/// Opens a connection and ends it. Returns its source address, as far as the kernel has chosen one, and whether it came about.
fn connect(to: Ipv6Addr) -> io::Result<(Option<Ipv6Addr>, bool)> {
    let socket = Socket::new(Domain::IPV6, Type::STREAM, Some(Protocol::TCP))?;
    // Thousands of ended connections would be remembered otherwise.
    socket.set_linger(Some(Duration::ZERO))?;
    let works = socket.connect_timeout(&SocketAddr::from((to, PORT)).into(), CONNECTING).is_ok();
    let source = socket.local_addr().ok().and_then(|address| address.as_socket());
    let source = source.map(|address| address.ip()).filter(|address| !address.is_unspecified());
    Ok((source.and_then(v6), works))
}

fn v6(address: IpAddr) -> Option<Ipv6Addr> {
    match address {
        IpAddr::V6(address) => Some(address),
        IpAddr::V4(_) => None,
    }
}

/// Asks a name server for a name's addresses. `None`: there was no answer.
pub fn look_up(named: &Named, id: u16) -> io::Result<Option<Vec<Ipv6Addr>>> {
    let lookup = Lookup::new(&named.name, id).map_err(io::Error::other)?;
    let socket = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0))?;
    socket.set_read_timeout(Some(ANSWER))?;
    let ask = || -> io::Result<Vec<u8>> {
        socket.connect(named.server)?;
        socket.send(&lookup.question().map_err(io::Error::other)?)?;
        let mut buffer = vec![0; 2048];
        let length = socket.recv(&mut buffer)?;
        buffer.truncate(length);
        Ok(buffer)
    };
    // Without a route or an answer, the server is out of reach, which may be what is measured.
    Ok(ask().ok().and_then(|answer| lookup.addresses(&answer)))
}
