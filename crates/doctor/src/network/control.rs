//! The control channel: TCP, one JSON object a line in each direction.
//!
//! A TCP connection proves that the asker has its address, so probes go there and to groups, and nowhere else. One run is
//! carried out at a time. Lines, connections, packets and time are bounded.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, BufRead, BufReader, Read, Write},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream},
    sync::{Mutex, MutexGuard, PoisonError, TryLockError},
    thread,
    time::{Duration, Instant},
};

use serde::{Serialize, de::DeserializeOwned};
use socket2::{Domain, Protocol, Socket, Type};
use treecast_host::option;

use super::{
    agent::Agent,
    message::{Answer, Host, MAX_ANSWER_BYTES, MAX_REQUEST_BYTES, Request, VERSION},
};

/// The time in which a connection must be made.
const CONNECT_TIME: Duration = Duration::from_secs(5);
/// The longest time that either side waits for a line.
const LINE_TIME: Duration = Duration::from_secs(60);
/// The time in which the first line of a connection must come.
const FIRST_LINE_TIME: Duration = Duration::from_secs(5);
/// The longest run.
const RUN_TIME: Duration = Duration::from_secs(600);
/// The largest number of connections at a time, and of those from one address: a run, and the answer that a run goes on.
const MAX_CONNECTIONS: usize = 8;
const MAX_PER_ADDRESS: usize = 2;

/// The reason why a host takes no part in a run.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    #[error("cannot reach {address}: {source}")]
    Connect { address: SocketAddr, source: io::Error },
    #[error("{address} went silent or away: {source}")]
    Lost { address: SocketAddr, source: io::Error },
    #[error("{address} refuses: {why}")]
    Refused { address: SocketAddr, why: String },
    #[error("{address} gives no answer of the doctor's: is another program at this port?")]
    Nonsense { address: SocketAddr },
    #[error("this host cannot take part: {why}; if `treecast doctor listen` runs here, end it first")]
    Own { why: String },
    #[error("cannot listen at port {port}: {source}")]
    Listen { port: u16, source: io::Error },
}

impl ControlError {
    /// The remedy for a host that could not be connected to, where the kernel's answer tells.
    pub(super) fn what_to_do(&self) -> Option<&'static str> {
        let Self::Connect { source, .. } = self else { return None };
        match source.kind() {
            io::ErrorKind::ConnectionRefused => Some(
                "start `treecast doctor listen` there: the host answers, but nobody listens at this port",
            ),
            io::ErrorKind::NetworkUnreachable => {
                Some("check the address, and this host's routes (`ip route get ADDRESS`): none leads there")
            }
            io::ErrorKind::HostUnreachable => Some(
                "check the address, and that the host is on: no host or router on the way answers for it",
            ),
            _ => None,
        }
    }
}

/// A run that a listener takes part in.
#[derive(Default)]
struct Run {
    token: u64,
    asker: Option<IpAddr>,
    /// Addresses that second connections have proved, and that the agent does not know yet.
    proved: Vec<IpAddr>,
}

/// Takes part in the runs of whoever connects, for ever. Calls `tell` with each asker's address.
///
/// # Errors
/// If the port cannot be listened at.
pub fn serve(agent: Agent, port: u16, tell: impl Fn(IpAddr) + Sync) -> Result<(), ControlError> {
    serve_on(&listen(port).map_err(|source| ControlError::Listen { port, source })?, agent, tell)
}

fn serve_on(listener: &TcpListener, agent: Agent, tell: impl Fn(IpAddr) + Sync) -> ! {
    let (agent, run, taken) = (Mutex::new(agent), Mutex::new(Run::default()), Mutex::new(BTreeMap::new()));
    thread::scope(|scope| {
        loop {
            let Ok((stream, peer)) = listener.accept() else {
                // Too many descriptors, or a connection that is gone again.
                thread::sleep(Duration::from_millis(50));
                continue;
            };
            let peer = peer.ip().to_canonical();
            if !take_place(&mut locked(&taken), peer) {
                // Nobody waits for this line, which fits into the socket's buffer.
                let line = Line::new(stream, FIRST_LINE_TIME, MAX_REQUEST_BYTES);
                _ = line.and_then(|mut line| line.write(&refused("it has too many connections")));
                continue;
            }
            let (agent, run, tell, taken) = (&agent, &run, &tell, &taken);
            let place = Place { taken, peer };
            // Whoever goes away has its run ended.
            scope.spawn(move || _ = attend(stream, place, agent, run, tell));
        }
    })
}

/// Counts a connection of this address, if there is room for it.
fn take_place(taken: &mut BTreeMap<IpAddr, usize>, peer: IpAddr) -> bool {
    taken.retain(|_, count| *count > 0);
    let is_free = taken.values().sum::<usize>() < MAX_CONNECTIONS
        && taken.get(&peer).is_none_or(|count| *count < MAX_PER_ADDRESS);
    if is_free {
        *taken.entry(peer).or_default() += 1;
    }
    is_free
}

/// The place of a connection, which is free again when this is dropped.
struct Place<'a> {
    taken: &'a Mutex<BTreeMap<IpAddr, usize>>,
    peer: IpAddr,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        locked(self.taken).entry(self.peer).and_modify(|count| *count -= 1);
    }
}

fn listen(port: u16) -> io::Result<TcpListener> {
    let open = |domain, address: SocketAddr| -> io::Result<TcpListener> {
        let socket = Socket::new(domain, Type::STREAM, Some(Protocol::TCP))?;
        if domain == Domain::IPV6 {
            socket.set_only_v6(false)?;
        }
        socket.set_reuse_address(true)?;
        socket.bind(&address.into())?;
        socket.listen(MAX_CONNECTIONS as i32)?;
        Ok(socket.into())
    };
    let v6 = open(Domain::IPV6, (Ipv6Addr::UNSPECIFIED, port).into());
    // A host without IPv6.
    v6.or_else(|error| match error.kind() {
        io::ErrorKind::AddrInUse => Err(error),
        _ => open(Domain::IPV4, (Ipv4Addr::UNSPECIFIED, port).into()),
    })
}

/// Serves one connection. Its place is free before the peer sees its end, so that the peer may connect again at once.
fn attend(
    stream: TcpStream,
    place: Place<'_>,
    agent: &Mutex<Agent>,
    run: &Mutex<Run>,
    tell: &impl Fn(IpAddr),
) -> io::Result<()> {
    let mut line = Line::new(stream, FIRST_LINE_TIME, MAX_REQUEST_BYTES)?;
    // Locals are dropped in reverse: the place first, and then the line.
    let place = place;
    let peer = place.peer;
    let last = match line.read()? {
        Request::Also { token } => {
            let mut run = locked(run);
            let is_it = run.asker.is_some() && run.token == token;
            if is_it && run.proved.len() < MAX_CONNECTIONS {
                run.proved.push(peer);
            }
            if is_it { Answer::Done } else { refused("it is in no run with this token") }
        }
        hello @ Request::Hello { .. } => 'busy: {
            let mut agent = match agent.try_lock() {
                Ok(agent) => agent,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => {
                    let asker = locked(run).asker.map(|asker| format!(" of {asker}")).unwrap_or_default();
                    let why = format!("it takes part in another run{asker}: try again when that is over");
                    break 'busy refused(&why);
                }
            };
            let token = random()?;
            *locked(run) = Run { token, asker: Some(peer), proved: Vec::new() };
            tell(peer);
            agent.serve_only(vec![peer]);
            let result = converse(&mut line, &mut agent, run, &hello, token);
            agent.serve_only(Vec::new());
            *locked(run) = Run::default();
            return result;
        }
        _ => refused("the first line must be a hello"),
    };
    drop(place);
    line.write(&last)
}

fn converse(
    line: &mut Line,
    agent: &mut Agent,
    run: &Mutex<Run>,
    hello: &Request,
    token: u64,
) -> io::Result<()> {
    let start = Instant::now();
    line.write(&agent.answer(hello, token))?;
    while let Some(left) = RUN_TIME.checked_sub(start.elapsed()) {
        line.timeout = LINE_TIME.min(left);
        let request: Request = line.read()?;
        locked(run).proved.drain(..).for_each(|address| agent.add_proved(address));
        line.write(&agent.answer(&request, token))?;
    }
    Ok(())
}

fn refused(why: &str) -> Answer {
    Answer::Refused { why: why.to_owned() }
}

/// Plain data, which is right even if another thread has panicked.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A number that nobody can guess.
pub(super) fn random() -> io::Result<u64> {
    let mut bytes = [0; 8];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(u64::from_ne_bytes(bytes))
}

/// A connection on which objects travel, a line each.
struct Line {
    reader: BufReader<TcpStream>,
    /// The longest time for a whole line, however slowly it comes.
    timeout: Duration,
    max_bytes: usize,
}

impl Line {
    fn new(stream: TcpStream, timeout: Duration, max_bytes: usize) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(LINE_TIME))?;
        Ok(Self { reader: BufReader::new(stream), timeout, max_bytes })
    }

    fn write(&mut self, object: &impl Serialize) -> io::Result<()> {
        let text = serde_json::to_string(object).map_err(io::Error::other)? + "\n";
        self.reader.get_mut().write_all(text.as_bytes())
    }

    fn read<T: DeserializeOwned>(&mut self) -> io::Result<T> {
        let start = Instant::now();
        let mut text = Vec::new();
        while text.last() != Some(&b'\n') {
            let left = self.timeout.checked_sub(start.elapsed()).filter(|left| !left.is_zero());
            self.reader.get_ref().set_read_timeout(Some(left.ok_or(io::ErrorKind::TimedOut)?))?;
            let come = self.reader.fill_buf()?;
            let len = come.iter().position(|byte| *byte == b'\n').map_or(come.len(), |at| at + 1);
            text.extend_from_slice(&come[..len]);
            self.reader.consume(len);
            if len == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if text.len() > self.max_bytes {
                return Err(io::ErrorKind::InvalidData.into());
            }
        }
        serde_json::from_slice(&text).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    }
}

/// A host of the run that listens elsewhere.
pub(super) struct Remote {
    address: SocketAddr,
    line: Line,
}

impl Remote {
    /// Connects, and opens the run.
    pub(super) fn open(address: SocketAddr) -> Result<(Self, Host), ControlError> {
        let failed = |source| ControlError::Connect { address, source };
        let stream = TcpStream::connect_timeout(&address, CONNECT_TIME).map_err(failed)?;
        let line = Line::new(stream, LINE_TIME, MAX_ANSWER_BYTES).map_err(failed)?;
        let mut remote = Self { address, line };
        match remote.ask(&Request::Hello { version: VERSION })? {
            Answer::Host(host) => Ok((remote, host)),
            Answer::Refused { why } => Err(ControlError::Refused { address, why }),
            _ => Err(ControlError::Nonsense { address }),
        }
    }

    /// The address that the host was reached at.
    pub(super) fn address(&self) -> IpAddr {
        self.address.ip().to_canonical()
    }

    /// Proves another address of ours, by a connection to another address of the host.
    pub(super) fn prove(&self, to: IpAddr, token: u64) -> Result<(), ControlError> {
        let scope = match self.address {
            SocketAddr::V6(address) => address.scope_id(),
            SocketAddr::V4(_) => 0,
        };
        let address = option::scoped((to, self.address.port()).into(), scope);
        let failed = |source| ControlError::Connect { address, source };
        let stream = TcpStream::connect_timeout(&address, CONNECT_TIME).map_err(failed)?;
        let mut line = Line::new(stream, FIRST_LINE_TIME, MAX_ANSWER_BYTES).map_err(failed)?;
        line.write(&Request::Also { token }).map_err(failed)?;
        match line.read().map_err(failed)? {
            Answer::Done => Ok(()),
            Answer::Refused { why } => Err(ControlError::Refused { address, why }),
            _ => Err(ControlError::Nonsense { address }),
        }
    }

    pub(super) fn ask(&mut self, request: &Request) -> Result<Answer, ControlError> {
        let address = self.address;
        let answered = self.line.write(request).and_then(|()| self.line.read());
        answered.map_err(|source| match source.kind() {
            io::ErrorKind::InvalidData => ControlError::Nonsense { address },
            _ => ControlError::Lost { address, source },
        })
    }
}

#[cfg(test)]
mod tests {
    use treecast_host::interface::Interface;

    use super::*;

    /// A listener on loopback, on a thread that lives as long as the test's process.
    fn listener(port: u16) -> SocketAddr {
        let agent = Agent::new("there".into(), Interface::named("lo").unwrap(), port, Duration::ZERO);
        let listener = listen(port).unwrap();
        thread::spawn(move || serve_on(&listener, agent, |_| ()));
        SocketAddr::from((Ipv4Addr::LOCALHOST, port))
    }

    fn raw(address: SocketAddr, text: &[u8]) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        _ = stream.write_all(text);
        let mut answer = String::new();
        _ = BufReader::new(stream).read_line(&mut answer);
        answer
    }

    #[test]
    fn one_run_at_a_time_and_a_token_proves_another_address() {
        let address = listener(47_246);
        let (mut first, host) = Remote::open(address).unwrap();
        assert_eq!((host.name.as_str(), first.address()), ("there", IpAddr::from(Ipv4Addr::LOCALHOST)));
        let busy = Remote::open(address).err().unwrap().to_string();
        assert!(busy.contains("another run of 127.0.0.1"), "{busy}");
        let other = IpAddr::from(Ipv6Addr::LOCALHOST);
        let wrong = first.prove(other, host.token ^ 1).unwrap_err().to_string();
        assert!(wrong.contains("no run with this token"), "{wrong}");
        let trace = Request::Trace { to: other, header: super::super::message::Header::None, hops: 1 };
        let refused = first.ask(&trace).unwrap();
        assert!(matches!(refused, Answer::Refused { why } if why.contains("has not proved")));
        first.prove(other, host.token).unwrap();
        let asked = first.ask(&trace).unwrap();
        assert!(matches!(asked, Answer::Refused { why } if why.contains("does not listen")));
        drop(first);
        let start = Instant::now();
        while Remote::open(address).is_err() {
            assert!(start.elapsed() < Duration::from_secs(30), "the next run may begin");
        }
    }

    #[test]
    fn a_line_that_comes_drop_by_drop_is_not_waited_for() {
        let pair = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut slow = TcpStream::connect(pair.local_addr().unwrap()).unwrap();
        let mut line = Line::new(pair.accept().unwrap().0, Duration::from_millis(300), 100).unwrap();
        let dropping = thread::spawn(move || {
            while slow.write_all(b"x").is_ok() {
                thread::sleep(Duration::from_millis(20));
            }
        });
        let kind = line.read::<Answer>().unwrap_err().kind();
        assert!(matches!(kind, io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock), "{kind}");
        drop(line);
        dropping.join().unwrap();
    }

    #[test]
    fn one_address_does_not_take_all_connections() {
        let (one, mut taken) = (IpAddr::from([192, 0, 2, 1]), BTreeMap::new());
        let places = (0..MAX_CONNECTIONS).filter(|_| take_place(&mut taken, one)).count();
        assert_eq!(places, MAX_PER_ADDRESS);
        let others = (2..200).filter(|last| take_place(&mut taken, IpAddr::from([192, 0, 2, *last]))).count();
        assert_eq!(others, MAX_CONNECTIONS - MAX_PER_ADDRESS);
        taken.insert(one, 0);
        assert!(take_place(&mut taken, IpAddr::from([192, 0, 2, 201])), "who goes away makes room");
    }

    #[test]
    fn nonsense_is_answered_shortly_or_not_at_all() {
        let address = listener(47_247);
        let expect = |text: &[u8], is_right: fn(&str) -> bool| {
            let answer = raw(address, text);
            assert!(is_right(&answer), "{answer:?}");
        };
        expect(b"GET / HTTP/1.1\n", str::is_empty);
        expect(&[b'['; 2 * MAX_REQUEST_BYTES], str::is_empty);
        expect(b"{\"ask\":\"examine\"}\n", |answer| answer.contains("must be a hello"));
        expect(b"{\"ask\":\"hello\",\"version\":99}\n", |answer| answer.contains("speaks version"));
    }
}
