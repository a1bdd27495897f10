//! The thread that discovers routers, and the checks before anything is set up.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    net::{IpAddr, Ipv6Addr, SocketAddrV6},
    os::unix::fs::MetadataExt,
    path::Path,
    time::{Duration, SystemTime},
};

use treecast_host::{
    interface::{Interface, is_on_link, source_towards},
    option,
    poller::{Interest, Poller},
    stop::Stop,
    text,
    tun::{MIN_MTU, Tun},
};
use treecast_proto::{
    Instant,
    explicit::{
        finder::Finder,
        lists::{self, Form, TransmissionGroup},
        mead::{
            grouping::Parameters,
            sender::{Config, Event, Sender},
            tree::Tree,
        },
        xcast::sender as xcast,
    },
    membership::is_routable_group,
};
use treecast_wire::ipv6::is_forwardable;

use super::{
    Error, Settings,
    discovery::{Hearing, News, carry_out},
    event::{Branch, Counted, Group, MeadEvent, Registrations},
    raw::PacketSocket,
    registrations::RegistrationSocket,
    sharing::{KeyWatch, no_router_has_key},
    super_socket::SuperSocket,
    transmitter::{self, Shared},
};
use crate::{
    clock::Clock,
    remedies::{Advised, Remedy},
    security::random,
};

/// Bytes of both headers.
const IP_AND_UDP_LEN: usize = 48;

/// Time between two looks at the file with members.
const LOOK: Duration = Duration::from_secs(1);

const HEARING: u64 = 0;
const STOP: u64 = 1;
const NEWS: u64 = 2;

/// Takes what the sender tells.
type Notify<'a> = &'a mut dyn FnMut(MeadEvent);

/// Sends the datagrams that programs send to the TUN device to all receivers, until `stop` is requested.
/// Returns the counts.
///
/// # Errors
/// If it cannot begin, with advice, or if the system fails later.
pub fn run(settings: &Settings, stop: &Stop, notify: Notify<'_>) -> Result<Counted, Error> {
    let (mut members, source, interface) = endpoints(settings)?;
    let form = form(settings, source, &interface);
    let parameters = settings.sharing.limits(&form, &interface)?;
    let mtu = tun_mtu(&form, parameters.max, form.mtu);
    let packets = PacketSocket::open(settings.interface.as_deref()).map_err(Error::Socket)?;
    let hearing = Hearing::open(source, form.dialect, settings.xcast.is_none());
    let hearing = hearing.map_err(|error| Error::Source(source, error))?;
    let channel = settings.group.filter(|_| settings.xcast.is_some()).map(|group| (source, group));
    let registrations = channel.map(|_| RegistrationSocket::open(source)).transpose()?;
    let tun = Tun::open(settings.tun.as_deref(), settings.tun_address, mtu)?;
    notify(MeadEvent::Ready { tun: tun.name().to_owned(), mtu_bytes: mtu, source });
    warn_of_long_packets(&form, parameters.max, mtu, notify);

    let clock = Clock::start();
    let shared = Shared::new()?;
    let mut session = Session {
        sender: machine(settings, parameters, &form, channel, clock)?,
        clock,
        shared: &shared,
        packets: &packets,
        hearing: hearing.with_registrations(registrations),
        tun: &tun,
        tun_mtu: mtu,
        form: &form,
        max: parameters.max,
        scope: if settings.interface.is_some() { interface.index } else { 0 },
        counted: Counted::default(),
        key_watch: settings.sharing.key.as_ref().map(|_| KeyWatch::default()),
        next_statistics: clock.now() + settings.statistics.unwrap_or_default(),
        unreachable: BTreeSet::new(),
    };
    session.join(&members.known);
    // Without one, super-packets are divided here.
    let leaves_by = settings.interface.is_some().then_some(interface.index);
    let super_socket = if settings.divides { None } else { SuperSocket::open(leaves_by).ok() };
    std::thread::scope(|scope| {
        // The first group is there before the first packet.
        let begun = session.carry_out(notify);
        let sockets = (&packets, super_socket);
        let transmitter = transmitter::start(scope, &shared, (&tun, settings.tun_address), sockets, &form);
        let result = begun.and_then(|_| {
            session.run(stop, &mut members, settings.statistics, notify, || transmitter.is_finished())
        });
        shared.end();
        let transmitted = transmitter.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        result.and(transmitted.map_err(Error::System))
    })?;
    Ok(session.counted())
}

/// The receivers, each of which packets can go to, the sender's address, and the interface that packets leave by.
fn endpoints(settings: &Settings) -> Result<(Members, Ipv6Addr, Interface), Error> {
    if let Some(group) = settings.group.filter(|group| !is_routable_group((*group).into())) {
        return Err(Error::NoGroup(group));
    }
    let members = Members::new(settings)?;
    let first = members.known.keys().next().copied();
    // In Xcast+ all may be served by their routers, which come by themselves.
    let may_be_none = settings.xcast.is_some() && settings.group.is_some();
    if first.is_none() && !may_be_none {
        return Err(Error::Nobody);
    }
    let (source, interface) = source(settings, first)?;
    for receiver in members.known.keys() {
        check_route(source, *receiver, settings.interface.as_deref(), &interface)?;
    }
    Ok((members, source, interface))
}

/// The form of packets.
fn form(settings: &Settings, source: Ipv6Addr, interface: &Interface) -> Form {
    Form {
        source_port: settings.source_port,
        has_ports: settings.has_ports,
        group: settings.group.filter(|_| settings.xcast.is_none()),
        xcast: settings.xcast.map(|super::Xcast { is_anonymous }| lists::Xcast {
            is_anonymous,
            group: settings.group.map(|group| (group, settings.port)),
        }),
        ..settings.sharing.form(source, interface)
    }
}

/// The sender's protocol: MEADcast or Xcast.
fn machine(
    settings: &Settings,
    parameters: Parameters,
    form: &Form,
    channel: Option<(Ipv6Addr, Ipv6Addr)>,
    clock: Clock,
) -> Result<Finder, Error> {
    Ok(match settings.xcast {
        Some(_) => {
            let config = xcast::Config { max: parameters.max, channel, key: settings.sharing.key.clone() };
            Finder::Xcast(Box::new(xcast::Sender::new(config)))
        }
        None => Finder::Mead(Box::new(Sender::new(clock.now(), config(settings, parameters, form)?))),
    })
}

struct Session<'a> {
    sender: Finder,
    clock: Clock,
    shared: &'a Shared,
    packets: &'a PacketSocket,
    hearing: Hearing,
    tun: &'a Tun,
    /// The MTU that the device has now, in bytes.
    tun_mtu: u32,
    form: &'a Form,
    /// The most addresses in a packet.
    max: usize,
    /// The interface that packets leave by; 0: where routes lead.
    scope: u32,
    /// The counters of this thread.
    counted: Counted,
    /// The watch over the domain's key. `None` without such a key, and once the user has been warned.
    key_watch: Option<KeyWatch>,
    next_statistics: Instant,
    /// Receivers that there was a warning about.
    unreachable: BTreeSet<Ipv6Addr>,
}

impl Session<'_> {
    fn run(
        &mut self,
        stop: &Stop,
        members: &mut Members,
        statistics: Option<Duration>,
        notify: Notify<'_>,
        has_ended: impl Fn() -> bool,
    ) -> Result<(), Error> {
        let mut poller = Poller::new()?;
        self.hearing.sockets().try_for_each(|socket| poller.watch(&socket, HEARING))?;
        poller.add(stop, STOP, Interest::Read)?;
        poller.add(self.shared.news(), NEWS, Interest::Read)?;
        let mut ready = Vec::new();
        while !stop.is_requested() && !has_ended() {
            let wait = self.carry_out(notify)?;
            let wait =
                if members.path.is_some() { Some(wait.map_or(LOOK, |wait| wait.min(LOOK))) } else { wait };
            let now = self.clock.now();
            let until_statistics = statistics.map(|_| self.next_statistics.max(now) - now);
            let wait = wait.into_iter().chain(until_statistics).min();
            ready.clear();
            poller.wait(wait, &mut ready)?;
            if self.shared.news().take() && self.shared.has_traffic() {
                self.sender.note_traffic(self.clock.now());
            }
            if self.shared.take_too_long() {
                members.known.keys().for_each(|receiver| self.measure(*receiver));
            }
            self.counted.malformed += self.hearing.hear(self.clock.now(), Some(&mut self.sender))?;
            self.tell_statistics(statistics, notify);
            match members.look() {
                Ok(changed) => self.change(&changed),
                Err(error) => notify(MeadEvent::Warning(error.to_string().into())),
            }
        }
        Ok(())
    }

    /// Carries out all that the machine wants. Returns for how long it can be left alone.
    fn carry_out(&mut self, notify: Notify<'_>) -> Result<Option<Duration>, Error> {
        let now = self.clock.now();
        let (news, deadline) = carry_out(&mut self.sender, now, self.form, self.packets);
        // Told when the device is as they need it.
        let mut narrow = Vec::new();
        for news in news {
            match news {
                News::Asked { receiver, bytes, failure } => {
                    self.counted.discovery_bytes += bytes as u64;
                    self.note_request(receiver, failure, notify);
                }
                News::Event(Event::Group(group)) => {
                    // What is told is so.
                    self.fit(&group)?;
                    self.shared.replace(group.clone());
                    notify(MeadEvent::Group(Group::new(&group, self.is_xcast(), self.seconds())));
                }
                News::Event(Event::Discovered) => {
                    if let Some(tree) = self.sender.tree() {
                        notify(MeadEvent::Tree { sender: Branch::new(tree, Tree::ROOT) });
                    }
                    let counters = self.sender.counters();
                    if self.key_watch.take_if(|watch| watch.misses_key(counters)).is_some() {
                        notify(MeadEvent::Warning(no_router_has_key()));
                    }
                }
                News::Event(Event::Narrow(receivers, mtu)) => narrow.push((receivers, mtu)),
                News::Event(Event::Unreachable(receivers, why)) => {
                    notify(MeadEvent::Unreachable { receivers, why: why.to_string() });
                }
            }
        }
        self.tell_narrow(narrow, notify);
        Ok(deadline.map(|deadline| deadline - now))
    }

    /// Warns of a receiver to which no request leaves, until one does.
    fn note_request(&mut self, receiver: Ipv6Addr, failure: Option<io::Error>, notify: Notify<'_>) {
        let Some(failure) = failure else {
            self.unreachable.remove(&receiver);
            return;
        };
        self.counted.refused_packets += 1;
        if self.unreachable.insert(receiver) {
            let line = format!("{receiver} cannot be reached: {}", reason(&failure));
            notify(MeadEvent::Warning(line.into()));
        }
    }

    /// Tells what has been counted, when it is time.
    fn tell_statistics(&mut self, every: Option<Duration>, notify: Notify<'_>) {
        let now = self.clock.now();
        if every.is_some() && now >= self.next_statistics {
            notify(MeadEvent::Statistics(self.counted()));
        }
        while every.is_some_and(|every| !every.is_zero()) && now >= self.next_statistics {
            self.next_statistics += every.unwrap_or_default();
        }
    }

    /// Gives the device the MTU that the narrowest way needs.
    fn fit(&mut self, group: &TransmissionGroup) -> Result<(), Error> {
        let narrowest = group.path_mtus.values().copied().min().unwrap_or(self.form.mtu);
        let mtu = tun_mtu(self.form, self.max, narrowest);
        if mtu != self.tun_mtu {
            self.tun.set_mtu(mtu)?;
            self.tun_mtu = mtu;
        }
        Ok(())
    }

    fn tell_narrow(&self, narrow: Vec<(Vec<Ipv6Addr>, usize)>, notify: Notify<'_>) {
        for (receivers, mtu_bytes) in narrow {
            let longest_by_mead_bytes = mtu_bytes.saturating_sub(self.form.header_len(2) + IP_AND_UDP_LEN);
            let tun_mtu_bytes = self.tun_mtu;
            notify(MeadEvent::Narrow { receivers, mtu_bytes, tun_mtu_bytes, longest_by_mead_bytes });
        }
    }

    fn join(&mut self, receivers: &BTreeMap<Ipv6Addr, u16>) {
        for (receiver, port) in receivers {
            self.sender.join(self.clock.now(), *receiver, *port, is_on_link);
            self.measure(*receiver);
        }
    }

    /// Takes note of what the kernel knows of the way to a receiver, whose first link may be narrower than another's.
    fn measure(&mut self, receiver: Ipv6Addr) {
        // Without a route there is nothing to know: requests to it tell of that.
        let Ok(mtu) = path_mtu(self.form.source, self.scope, receiver) else { return };
        if (mtu as usize) < self.form.mtu {
            self.sender.narrow(self.clock.now(), receiver, self.form.mtu, mtu);
        }
    }

    fn change(&mut self, change: &Change) {
        self.join(&change.joined);
        for receiver in &change.left {
            self.sender.leave(self.clock.now(), *receiver);
        }
    }

    fn is_xcast(&self) -> bool {
        self.form.xcast.is_some()
    }

    /// Seconds since the sender became ready.
    fn seconds(&self) -> f64 {
        (self.clock.now() - Instant::ZERO).as_secs_f64()
    }

    fn counted(&self) -> Counted {
        let transmitter::Data { sent, packets, in_super_packets, refused } = self.shared.counted();
        let (discovery, registrations) = (self.sender.counters(), self.sender.registrations());
        Counted {
            seconds: self.seconds(),
            packets,
            in_super_packets,
            mead_packets: sent.mead_packets,
            mead_bytes: sent.mead_bytes,
            unicast_packets: sent.unicast_packets,
            unicast_bytes: sent.unicast_bytes,
            discoveries: discovery.discoveries,
            discovery_packets: discovery.requests,
            responses: discovery.responses,
            farewells: discovery.farewells,
            late: discovery.late,
            anomalous: discovery.anomalous,
            unproved: discovery.unproved,
            replayed: discovery.replayed,
            forged: discovery.forged,
            stray: discovery.stray,
            overrun_packets: self.tun.dropped(),
            refused_packets: self.counted.refused_packets + refused,
            registrations: self.is_xcast().then_some(Registrations {
                counted: registrations.registrations,
                unwanted: registrations.unwanted,
                forged: registrations.forged,
                replayed: registrations.replayed,
            }),
            ..self.counted
        }
    }
}

/// The reason why the kernel takes no packet, in words.
fn reason(error: &std::io::Error) -> String {
    match error.raw_os_error() {
        // So says a raw socket when there is no room for one more neighbour.
        Some(libc::EINVAL) => {
            "the kernel's table of neighbours may be full (all namespaces share it): raise \
                               net.ipv6.neigh.default.gc_thresh3"
                .to_owned()
        }
        _ => error.to_string(),
    }
}

/// Mark of a file that was read. It changes when another file takes its place, even one of the same length and time.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Stamp {
    modified: SystemTime,
    bytes: u64,
    inode: u64,
}

impl Stamp {
    fn of(path: &Path) -> io::Result<Self> {
        let data = std::fs::metadata(path)?;
        Ok(Self { modified: data.modified()?, bytes: data.len(), inode: data.ino() })
    }
}

/// The receivers: those named once and for all, and those in a file.
struct Members {
    named: BTreeMap<Ipv6Addr, u16>,
    /// The TUN device's own address: a packet to a receiver there would come back from the device for ever.
    device: Ipv6Addr,
    path: Option<std::path::PathBuf>,
    port: u16,
    /// Whether receivers may have other ports than that.
    has_ports: bool,
    /// The file as it was found last, or what was wrong with it. `None` if there was no file.
    found: Option<Result<Stamp, String>>,
    known: BTreeMap<Ipv6Addr, u16>,
}

#[derive(Default)]
struct Change {
    joined: BTreeMap<Ipv6Addr, u16>,
    left: Vec<Ipv6Addr>,
}

impl Members {
    fn new(settings: &Settings) -> Result<Self, Error> {
        let (mut named, device) = (BTreeMap::new(), settings.tun_address);
        for (address, port) in &settings.receivers {
            admit(&mut named, device, *address, *port)?;
        }
        let path = settings.members.clone();
        let mut members = Self {
            known: named.clone(),
            named,
            device,
            path,
            port: settings.port,
            has_ports: settings.has_ports,
            found: None,
        };
        members.look()?;
        Ok(members)
    }

    /// Reads the file of members, if it has changed since the last time.
    fn look(&mut self) -> Result<Change, Error> {
        let Some(path) = &self.path else { return Ok(Change::default()) };
        let wrong = |why: String| Error::Members { path: path.clone(), why };
        let advice = match &self.found {
            None => "",
            Some(_) => "; until it can be read, the receivers are those of before",
        };
        let unreadable = |why: String| wrong(format!("{why}{advice}"));
        let found = Stamp::of(path).map_err(|error| error.to_string());
        if self.found.as_ref() == Some(&found) {
            return Ok(Change::default());
        }
        // Also when it is wrong, or gone: that is told once.
        self.found = Some(found.clone());
        found.map_err(unreadable)?;
        let text = text::read(path, MAX_MEMBERS_BYTES).map_err(|error| unreadable(error.to_string()))?;
        let mut receivers = self.named.clone();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.split('#').next().unwrap_or_default().trim();
            if !line.is_empty() {
                let (address, port) = parse_member(line, self.port).ok_or_else(|| {
                    wrong(format!("line {number}: {line:?}, expected an address and perhaps a port"))
                })?;
                if port != self.port && !self.has_ports {
                    return Err(wrong(format!(
                        "line {number}: a port of its own, for which packets have no room unless they carry ports"
                    )));
                }
                admit(&mut receivers, self.device, address, port)
                    .map_err(|error| wrong(format!("line {number}: {error}")))?;
            }
        }
        let is_new = |(receiver, port): &(&Ipv6Addr, &u16)| self.known.get(*receiver) != Some(*port);
        let joined = receivers.iter().filter(is_new).map(|(receiver, port)| (*receiver, *port)).collect();
        let left = self.known.keys().filter(|receiver| !receivers.contains_key(receiver)).copied().collect();
        self.known = receivers;
        Ok(Change { joined, left })
    }
}

/// The most bytes that are read of a file with members: more than any group's file has.
const MAX_MEMBERS_BYTES: u64 = 16 << 20;

fn parse_member(line: &str, port: u16) -> Option<(IpAddr, u16)> {
    let mut words = line.split_whitespace();
    let address = words.next()?.parse().ok()?;
    let port = words.next().map_or(Some(port), |word| word.parse().ok().filter(|port| *port > 0))?;
    words.next().is_none().then_some((address, port))
}

/// Adds a receiver that is not the TUN device itself.
fn admit(
    receivers: &mut BTreeMap<Ipv6Addr, u16>,
    device: Ipv6Addr,
    address: IpAddr,
    port: u16,
) -> Result<(), Error> {
    if address == device { Err(Error::Device(device)) } else { add(receivers, address, port) }
}

fn add(receivers: &mut BTreeMap<Ipv6Addr, u16>, address: IpAddr, port: u16) -> Result<(), Error> {
    let IpAddr::V6(receiver) = address else { return Err(Error::Ipv4(address)) };
    if receiver.to_ipv4_mapped().is_some() {
        return Err(Error::Ipv4(address));
    }
    if !is_forwardable(receiver) {
        return Err(Error::NoReceiver(receiver));
    }
    match receivers.insert(receiver, port) {
        None => Ok(()),
        Some(_) => Err(Error::Twice(receiver)),
    }
}

/// Checks that packets from `source` can go to each of these receivers, and returns them.
pub(crate) fn check_receivers(receivers: &[IpAddr], source: Ipv6Addr) -> Result<BTreeSet<Ipv6Addr>, Error> {
    let mut known = BTreeMap::new();
    receivers.iter().try_for_each(|receiver| add(&mut known, *receiver, 0))?;
    for receiver in known.keys() {
        let failed = |error| Error::NoRoute { receiver: *receiver, error };
        route_source(*receiver, Some((source, 0))).map_err(failed)?;
    }
    Ok(known.into_keys().collect())
}

/// The address that packets come from, and the interface that they leave by.
fn source(settings: &Settings, receiver: Option<Ipv6Addr>) -> Result<(Ipv6Addr, Interface), Error> {
    let interface = match &settings.interface {
        Some(name) => Interface::named(name)?,
        None => Interface::by_route(receiver.or(settings.address).map(IpAddr::from))?,
    };
    let source = match settings.address {
        Some(address) if is_forwardable(address) => address,
        Some(address) => return Err(Error::NoSource(address)),
        None => address_towards(&interface, receiver)?,
    };
    Ok((source, interface))
}

fn address_towards(interface: &Interface, receiver: Option<Ipv6Addr>) -> Result<Ipv6Addr, Error> {
    let own: Vec<_> = interface
        .reachable_addresses()
        .into_iter()
        .filter_map(|address| match address {
            IpAddr::V6(address) if is_forwardable(address) => Some(address),
            _ => None,
        })
        .collect();
    // What the kernel would take, if it is this interface's.
    let chosen = receiver.and_then(|receiver| route_source(receiver, None).ok());
    let chosen = chosen.filter(|chosen| own.contains(chosen));
    chosen.or(own.first().copied()).ok_or_else(|| Error::NoAddress(interface.name.clone()))
}

/// The source that the kernel takes for packets to `receiver`; sends nothing.
fn route_source(receiver: Ipv6Addr, bound: Option<(Ipv6Addr, u32)>) -> std::io::Result<Ipv6Addr> {
    let (address, scope) = bound.unwrap_or((Ipv6Addr::UNSPECIFIED, 0));
    let at = |address, port| SocketAddrV6::new(address, port, 0, scope).into();
    match source_towards(at(address, 0), at(receiver, 9))? {
        IpAddr::V6(address) => Ok(address),
        IpAddr::V4(_) => Err(std::io::ErrorKind::AddrNotAvailable.into()),
    }
}

/// The path MTU that the kernel knows to a receiver, in bytes. Sends nothing.
fn path_mtu(source: Ipv6Addr, scope: u32, receiver: Ipv6Addr) -> std::io::Result<u32> {
    let at = |address, port| SocketAddrV6::new(address, port, 0, scope).into();
    option::path_mtu(at(source, 0), at(receiver, 9))
}

fn check_route(
    source: Ipv6Addr,
    receiver: Ipv6Addr,
    named: Option<&str>,
    interface: &Interface,
) -> Result<(), Error> {
    let scope = if named.is_some() { interface.index } else { 0 };
    match route_source(receiver, Some((source, scope))) {
        Ok(_) => Ok(()),
        Err(error) if error.raw_os_error() == Some(libc::EADDRNOTAVAIL) => Err(Error::Source(source, error)),
        Err(error) => Err(Error::NoRoute { receiver, error }),
    }
}

/// The MTU of the device, in bytes: the narrowest way's MTU without the largest header (4.3.1), and never less than
/// IPv6 needs.
fn tun_mtu(form: &Form, max: usize, path_mtu: usize) -> u32 {
    (path_mtu.min(form.mtu).saturating_sub(form.header_len(max)) as u32).max(MIN_MTU)
}

fn warn_of_long_packets(form: &Form, max: usize, mtu: u32, notify: Notify<'_>) {
    let whole = form.mtu.saturating_sub(form.header_len(max));
    if whole < mtu as usize {
        let line = format!(
            "packets of more than {whole} bytes leave in several, for a header with {max} addresses does not fit beside them \
             into {} bytes: have programs send at most {} bytes in a datagram, or put fewer addresses into a packet",
            form.mtu,
            whole.saturating_sub(IP_AND_UDP_LEN)
        );
        notify(MeadEvent::Warning(Advised::by(Remedy::FewerAddresses, line)));
    }
}

fn config(settings: &Settings, parameters: Parameters, form: &Form) -> Result<Config, Error> {
    Ok(Config {
        source: form.source,
        algorithm: settings.sharing.algorithm(form, settings.payload_bytes),
        parameters,
        delay: settings.delay,
        interval: settings.interval,
        timeout: settings.timeout,
        waits_for_traffic: settings.wait,
        requests_per_second: settings.requests_per_second,
        designated: settings.group.map(|group| (group, settings.port)),
        key: settings.sharing.key.clone(),
        seed: random()?,
    })
}
