//! `treecast doctor trace`: the routers between this host and a sender, by Mtrace2 (RFC 8487).

mod report;
mod search;
mod source;

use std::{
    io,
    net::{IpAddr, SocketAddr},
    time::{Duration, Instant as SystemInstant, SystemTime},
};

use socket2::{Domain, Protocol, Socket, Type};
use thiserror::Error;
use treecast_host::{
    interface::{Interface, InterfaceError},
    option::{self, ToGroups},
};
use treecast_proto::{Instant, Step};
use treecast_wire::{igmp, mld, mtrace2::PORT};

pub use report::{HopReport, Report};
use search::{Question, Search};

/// The hop limit of queries, which shows routers that no other router has forwarded them.
const HOP_LIMIT: u32 = 255;

/// The time that routers have to forward the group to this host after it has joined.
const JOIN_SETTLES: Duration = Duration::from_secs(1);

/// The longest wait in one step, so that a signal is noticed.
const LONGEST_WAIT: Duration = Duration::from_millis(200);

/// The group and source to trace, and the limits of the trace.
#[derive(Debug, Clone)]
pub struct Options {
    pub group: IpAddr,
    /// The sender. `None`: one that is heard, if this user may listen to packets; otherwise any.
    pub source: Option<IpAddr>,
    /// The interface where the group is heard. `None`: the one of the route to the source, or the default route.
    pub interface: Option<String>,
    /// The router to ask. `None`: all routers of the link.
    pub router: Option<IpAddr>,
    /// Whether this host joins the group meanwhile.
    pub joins: bool,
    /// The largest number of routers that the trace may pass, at least 1.
    pub most_hops: u8,
    /// The time to wait for each reply.
    pub patience: Duration,
}

/// The reason why a trace cannot begin, or go on.
#[derive(Debug, Error)]
pub enum Error {
    #[error("{0} is no multicast group: name one like ff15::42 or 239.1.2.3")]
    NoGroup(IpAddr),
    #[error("{source_address} and {group} are addresses of different families: name two of one family")]
    Families { source_address: IpAddr, group: IpAddr },
    #[error(
        "interface {0} has only a link-local address of the group's family, to which routers beyond its network cannot \
         reply: give it another one, or choose another interface"
    )]
    OnlyLinkLocal(String),
    #[error(transparent)]
    Interface(#[from] InterfaceError),
    #[error("{what}: {source}")]
    System { what: &'static str, source: io::Error },
}

impl Error {
    fn system(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { what, source }
    }
}

/// Traces the way of a group's packets. `is_stopped` ends it early.
///
/// # Errors
/// If the group or the interface cannot be used, or this host cannot send.
pub fn run(options: &Options, is_stopped: &dyn Fn() -> bool) -> Result<Report, Error> {
    let group = options.group;
    if !group.is_multicast() {
        return Err(Error::NoGroup(group));
    }
    for address in options.source.iter().chain(&options.router) {
        if address.is_ipv4() != group.is_ipv4() {
            return Err(Error::Families { source_address: *address, group });
        }
    }
    let interface = match &options.interface {
        Some(name) => Interface::named(name)?,
        None => Interface::by_route(options.source)?,
    };
    interface.check_family(group)?;
    // The membership ends when this is dropped.
    let _member = options.joins.then(|| join(&interface, group, options.source)).transpose()?;
    let source = options.source.or_else(|| source::listen(&interface, group, is_stopped));
    let client = client_address(&interface, group)?;
    let socket = open(client, &interface)?;
    let port = socket.local_addr().ok().and_then(|address| address.as_socket()).map_or(0, |it| it.port());
    let question = Question {
        group,
        source,
        client,
        client_port: port,
        most_hops: options.most_hops.max(1),
        patience: options.patience,
        first_id: random_id(),
    };
    // No router would answer: none is on the way.
    if options.router.is_none() && source.is_some_and(|source| interface.is_on_link(source)) {
        let way = search::Traced { hops: Vec::new(), end: search::End::Neighbour };
        return Ok(Report::new(&question, &interface, way));
    }
    if options.joins {
        wait(JOIN_SETTLES, is_stopped);
    }
    let to = destination(options.router, client, &interface);
    let way = search(&socket, to, question, is_stopped)?;
    Ok(Report::new(&question, &interface, way))
}

fn search(
    socket: &Socket,
    to: SocketAddr,
    question: Question,
    is_stopped: &dyn Fn() -> bool,
) -> Result<search::Traced, Error> {
    let failed = || Error::system("cannot wait for replies");
    let start = SystemInstant::now();
    let now = || Instant::ZERO + start.elapsed();
    let mut search = Search::new(question);
    loop {
        let deadline = match search.poll(now()) {
            Step::Transmit(query) => {
                let sent = socket.send_to(&query.to_bytes(), &to.into());
                sent.map_err(Error::system("cannot send a query to the routers"))?;
                continue;
            }
            Step::Event(way) => return Ok(way),
            Step::Wait(_, _) if is_stopped() => return Ok(search.stop()),
            Step::Wait(deadline, _) => deadline.unwrap_or_else(now),
        };
        let wait = (deadline - now()).clamp(Duration::from_millis(1), LONGEST_WAIT);
        socket.set_read_timeout(Some(wait)).map_err(failed())?;
        let mut buffer = [0; 2048];
        match io::Read::read(&mut &*socket, &mut buffer) {
            Ok(len) => search.handle(now(), &buffer[..len]),
            Err(error) if is_passing(&error) => {}
            Err(error) => return Err(failed()(error)),
        }
    }
}

/// Whether an error of a receive call is no reason to stop: nothing has come yet, or a router refused a query.
fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), ConnectionRefused | Interrupted | TimedOut | WouldBlock)
}

fn join(interface: &Interface, group: IpAddr, source: Option<IpAddr>) -> Result<Socket, Error> {
    let failed = || Error::system("cannot join the group");
    let domain = if group.is_ipv4() { Domain::IPV4 } else { Domain::IPV6 };
    let socket = Socket::new(domain, Type::DGRAM, None).map_err(failed())?;
    let source = source.filter(|_| treecast_proto::membership::is_source_specific(group));
    option::join(&socket, group, source, interface.index).map_err(failed())?;
    Ok(socket)
}

/// This host's address for routers: one that the last router on the way can reply to.
fn client_address(interface: &Interface, group: IpAddr) -> Result<IpAddr, Error> {
    let mut reachable = interface.reachable_addresses().into_iter();
    let found = reachable.find(|address| address.is_ipv4() == group.is_ipv4());
    found.ok_or_else(|| Error::OnlyLinkLocal(interface.name.clone()))
}

fn open(client: IpAddr, interface: &Interface) -> Result<Socket, Error> {
    let failed = || Error::system("cannot open a socket for queries");
    let open = || {
        let address = option::scoped((client, 0).into(), interface.index);
        let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
        let to_groups = ToGroups { interface: interface.index, hop_limit: HOP_LIMIT, loops_back: true };
        option::send_to_groups(&socket, to_groups)?;
        option::set_unicast_hop_limit(&socket, HOP_LIMIT)?;
        socket.bind(&address.into())?;
        Ok(socket)
    };
    open().map_err(failed())
}

fn destination(router: Option<IpAddr>, client: IpAddr, interface: &Interface) -> SocketAddr {
    let all: IpAddr = if client.is_ipv4() { igmp::ALL_ROUTERS.into() } else { mld::ALL_ROUTERS.into() };
    option::scoped((router.unwrap_or(all), PORT).into(), interface.index)
}

/// A number that others cannot guess easily. Replies must also come to the right port.
fn random_id() -> u16 {
    let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let seed = time.as_nanos() as u64 ^ u64::from(std::process::id()) << 32;
    treecast_proto::random::SplitMix64(seed).draw() as u16
}

fn wait(time: Duration, is_stopped: &dyn Fn() -> bool) {
    let until = SystemInstant::now() + time;
    while SystemInstant::now() < until && !is_stopped() {
        std::thread::sleep(LONGEST_WAIT.min(until.saturating_duration_since(SystemInstant::now())));
    }
}
