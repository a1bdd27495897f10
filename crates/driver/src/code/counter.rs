//! The sender's side: a port where whoever has the code gets the ticket.

use std::{
    io::{self, Read, Write},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex, PoisonError},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use socket2::{Domain, Socket, Type};
use treecast_host::{
    interface::Interface,
    poller::{Interest, Poller},
    stream::Quiet,
    wake::Waker,
};
use treecast_proto::code::{Code, Desk, Judgement};
use treecast_wire::code::{self, Answer, PROOF_LEN, REQUEST_LEN, Status};

use super::{exchange::Exchange, timed::Timed};
use crate::discovery::{Announcing, Notice};

/// The longest time that an exchange takes.
const PATIENCE: Duration = Duration::from_secs(5);

/// The time between two strangers, so that a flood of them costs little.
const ACCEPT_INTERVAL: Duration = Duration::from_micros(200);

const LISTENER: u64 = 0;
const STOP: u64 = 1;

/// An event at the counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum News {
    /// Somebody has got the ticket.
    Given { to: SocketAddr },
    /// Somebody has tried a wrong code. With `left` 0, the code is dead.
    Wrong { from: SocketAddr, left: u8 },
}

type OnNews = Arc<dyn Fn(News) + Send + Sync>;

/// Gives out a ticket until it is dropped.
pub struct Counter {
    waker: Waker,
    thread: Option<JoinHandle<()>>,
    _announcing: Announcing,
}

/// The state that all exchanges share.
struct Shared {
    code: Code,
    ticket: String,
    /// The interface on whose link the port is announced.
    interface: Interface,
    desk: Mutex<Desk>,
    on_news: OnNews,
}

impl Counter {
    /// Opens a port, and announces it on the link of an interface.
    ///
    /// # Errors
    /// If no port can be opened or announced.
    pub fn open(
        code: Code,
        ticket: String,
        interface: &Interface,
        on_news: impl Fn(News) + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let (port, waker, thread) = start(code, ticket, interface, Arc::new(on_news))?;
        let announcing = Announcing::start(interface, Notice::Offer { tag: code.tag(), port });
        let announcing = announcing.inspect_err(|_| waker.wake())?;
        announcing.take_troubles().iter().for_each(|line| tracing::warn!("{line}"));
        Ok(Self { waker, thread: Some(thread), _announcing: announcing })
    }
}

/// Opens the port, and starts the thread that serves it until it is woken.
fn start(
    code: Code,
    ticket: String,
    interface: &Interface,
    on_news: OnNews,
) -> io::Result<(u16, Waker, JoinHandle<()>)> {
    let listener = listen()?;
    let port = listener.local_addr()?.port();
    let (poller, waker) = (Poller::new()?, Waker::new()?);
    poller.add(&listener, LISTENER, Interest::Read)?;
    poller.add(&waker, STOP, Interest::Read)?;
    let interface = interface.clone();
    let shared = Shared { code, ticket, interface, desk: Mutex::default(), on_news };
    let serve = move || serve(&listener, poller, &Arc::new(shared));
    let thread = treecast_host::thread::spawn("codes", serve)?;
    Ok((port, waker, thread))
}

impl Drop for Counter {
    fn drop(&mut self) {
        self.waker.wake();
        // A panic there has been reported.
        self.thread.take().into_iter().for_each(|thread| _ = thread.join());
    }
}

/// Listens at any address, of both families if this host has both.
fn listen() -> io::Result<TcpListener> {
    let bind = |any: IpAddr| -> io::Result<TcpListener> {
        let address = SocketAddr::new(any, 0);
        let socket = Socket::new(Domain::for_address(address), Type::STREAM.nonblocking().cloexec(), None)?;
        if address.is_ipv6() {
            socket.set_only_v6(false)?;
        }
        socket.bind(&address.into())?;
        socket.listen(64)?;
        Ok(socket.into())
    };
    bind(Ipv6Addr::UNSPECIFIED.into()).or_else(|_| bind(Ipv4Addr::UNSPECIFIED.into()))
}

fn serve(listener: &TcpListener, mut poller: Poller, shared: &Arc<Shared>) {
    loop {
        let Ok(tokens) = poller.tokens(None) else { return };
        if tokens.contains(&STOP) {
            return;
        }
        let Ok((stream, address)) = listener.accept() else {
            // The host may have no descriptors for a moment.
            thread::sleep(ACCEPT_INTERVAL * 500);
            continue;
        };
        if !is_of_this_host(&stream, address) && !is_near(&shared.interface, address) {
            thread::sleep(ACCEPT_INTERVAL);
            continue;
        }
        let (may_enter, is_dead) = {
            let mut desk = shared.desk.lock().unwrap_or_else(PoisonError::into_inner);
            (desk.enter(), desk.is_dead())
        };
        if !may_enter {
            // It fits the socket's buffer. Whoever does not read it is a stranger.
            let status = if is_dead { Status::Dead } else { Status::Busy };
            _ = Quiet(&stream).write(&code::reply(status, None));
            thread::sleep(ACCEPT_INTERVAL);
            continue;
        }
        let own = Arc::clone(shared);
        let attend = move || {
            // Whatever goes wrong there concerns only the other side.
            _ = own.attend(stream, address);
            own.desk.lock().unwrap_or_else(PoisonError::into_inner).leave();
        };
        if treecast_host::thread::spawn("code", attend).is_err() {
            shared.desk.lock().unwrap_or_else(PoisonError::into_inner).leave();
        }
    }
}

/// Whether a connection comes from this host. Its packets to the loopback interface may have the address of another interface.
fn is_of_this_host(stream: &TcpStream, peer: SocketAddr) -> bool {
    stream.local_addr().is_ok_and(|own| own.ip().to_canonical() == peer.ip().to_canonical())
}

/// Whether a peer is on the link of the interface: the code is announced to nobody else.
fn is_near(interface: &Interface, peer: SocketAddr) -> bool {
    let is_on_other_link = match peer {
        SocketAddr::V6(peer) => peer.scope_id() != 0 && peer.scope_id() != interface.index,
        SocketAddr::V4(_) => false,
    };
    !is_on_other_link && interface.is_on_link(peer.ip().to_canonical())
}

impl Shared {
    /// Holds one exchange.
    fn attend(&self, stream: TcpStream, from: SocketAddr) -> io::Result<()> {
        stream.set_nonblocking(false)?;
        let mut stream = Timed::new(stream, Instant::now() + PATIENCE);
        let mut request = [0; REQUEST_LEN];
        stream.read_exact(&mut request)?;
        let theirs = code::parse_request(&request).map_err(io::Error::other)?;
        let Some(exchange) = Exchange::begin(&self.code, false) else { return Ok(()) };
        stream.write_all(&code::reply(Status::Good, Some(exchange.message())))?;
        let Some(keys) = exchange.finish(&theirs) else { return Ok(()) };
        let mut proof = [0; PROOF_LEN];
        stream.read_exact(&mut proof)?;
        let is_right = keys.is_proof(proof);
        let judgement = self.desk.lock().unwrap_or_else(PoisonError::into_inner).judge(is_right);
        let (status, attempts_left) = match judgement {
            Judgement::Right => (Status::Good, 0),
            Judgement::Wrong { left } => (Status::Wrong, left),
            Judgement::Dead => (Status::Dead, 0),
        };
        let sealed = match judgement {
            Judgement::Right => keys.seal(&self.ticket).unwrap_or_default(),
            Judgement::Wrong { .. } | Judgement::Dead => Vec::new(),
        };
        match judgement {
            Judgement::Right => (self.on_news)(News::Given { to: from }),
            _ if !is_right => (self.on_news)(News::Wrong { from, left: attempts_left }),
            _ => {}
        }
        let answer = Answer { status, attempts_left, sealed_len: sealed.len() as u16 };
        stream.write_all(&[&answer.to_bytes()[..], &sealed].concat())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A port that is not announced. Its thread ends when the second value is dropped.
    pub fn open(
        code: Code,
        ticket: &str,
        on_news: impl Fn(News) + Send + Sync + 'static,
    ) -> (u16, impl Drop) {
        struct Open(Waker, Option<JoinHandle<()>>);
        impl Drop for Open {
            fn drop(&mut self) {
                self.0.wake();
                self.1.take().into_iter().for_each(|thread| thread.join().unwrap());
            }
        }
        let lo = Interface::named("lo").unwrap();
        let (port, waker, thread) = start(code, ticket.to_owned(), &lo, Arc::new(on_news)).unwrap();
        (port, Open(waker, Some(thread)))
    }

    #[test]
    fn peers_elsewhere_are_turned_away() {
        let lo = Interface::named("lo").unwrap();
        let other = lo.index + 1;
        let near = ["127.0.0.1:5", "[::ffff:127.3.0.1]:5", "[::1]:5"].map(str::to_owned);
        let far = ["192.0.2.1:5", "[::ffff:192.0.2.1]:5", "[2001:db8::1]:5"].map(str::to_owned);
        assert!(near.iter().all(|peer| is_near(&lo, peer.parse().unwrap())));
        assert!(!far.iter().any(|peer| is_near(&lo, peer.parse().unwrap())));
        let link_local = Interface { networks: vec![("fe80::".parse().unwrap(), 64)], ..lo };
        assert!(is_near(&link_local, format!("[fe80::1%{}]:5", link_local.index).parse().unwrap()));
        assert!(!is_near(&link_local, format!("[fe80::1%{other}]:5").parse().unwrap()));
    }
}
