//! The router's daemon. It watches interfaces and their addresses, answers discovery, takes part in Xcast+, and
//! answers questions about its state.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{self, Read},
    net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket},
    os::unix::net::UnixStream,
    path::Path,
    time::Duration,
};

use serde::{Deserialize, Serialize};
use socket2::Socket;
use treecast_host::{
    interface::Interface,
    netlink::{Monitor, Netlink},
    poller::Poller,
    raw,
    signals::Signals,
    unix, user,
};
use treecast_proto::{
    Instant,
    explicit::mead::router::{Act, LIMITS, Request, Router},
    limiter::Limiter,
};
use treecast_wire::{ipv6::is_forwardable, mead::Dialect, xcast::ALL_XCAST_ROUTERS};

use super::{
    Config, DesignatedGroup, Discovery, Error, Neighbour, Notice, Registered, Setting, Status, Xcast,
    claims::{self, Claims},
    course::Course,
    left::{Left, why_nobody},
    listeners::Registrations,
    plane::Plane,
    shared::{Counter, MAX_GROUPS, MAX_LANS},
    status::{self, Counted},
    xcast_plus::XcastPlus,
};
use crate::{
    clock::{Clock, until},
    control::{CONTROL, FIRST_CLIENT, MONITOR, Place, SIGNALS, Server, WAIT},
    notices::Notices,
};

/// Changes of interfaces and addresses come in bursts; they are looked at once this long after the first.
const SETTLE: Duration = Duration::from_millis(50);

/// The time to wait when they cannot be looked at.
const RETRY: Duration = Duration::from_secs(1);

/// Time between two looks at an interface of another router, which may have ended.
const LEFT: Duration = Duration::from_secs(10);

/// Time between two looks at the clock for the epoch of proofs. Somebody may set the clock.
const EPOCH_LOOK: Duration = Duration::from_secs(30);

/// The time in which a client that may change settings has to say what it wants.
const CLIENT_PATIENCE: Duration = Duration::from_secs(1);

const MAX_REQUEST_LEN: u64 = 4096;

const LISTEN: &str = "cannot hear which groups hosts have joined (without --designated it need not)";
const XCAST_PLUS: &str = "cannot serve Xcast+ (without --xcast-plus it need not)";
const WATCH: &str = "cannot watch the network's interfaces";

const REQUESTS: u64 = 3;
const LISTENERS: u64 = 4;
const XCAST: u64 = 5;

/// A client's request. A client that may not change anything is told the state whatever it says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Asked {
    Status,
    Set(Setting),
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    Status(Box<Status>),
    Done,
    Refused(String),
}

/// Asks the router of this network namespace, or the one that listens at `control`, what it has seen and done.
///
/// # Errors
/// If none runs there, or does not answer within five seconds.
pub fn show(control: Option<&Path>) -> Result<Status, Error> {
    match ask(control, &Asked::Status)? {
        Answer::Status(status) => Ok(*status),
        Answer::Done => Err(Error::Refused("it has set something".into())),
        Answer::Refused(reason) => Err(Error::Refused(reason)),
    }
}

/// Changes a setting of a running router. No packet is lost, unless the router is disabled at once: the program
/// reads its settings once for each packet.
///
/// # Errors
/// If no router runs, or this user may not change it.
pub fn set(control: Option<&Path>, setting: Setting) -> Result<(), Error> {
    match ask(control, &Asked::Set(setting))? {
        Answer::Done => Ok(()),
        Answer::Status(_) => Err(Error::NotAllowed),
        Answer::Refused(reason) => Err(Error::Refused(reason)),
    }
}

/// Returns the process of the router that runs in this network namespace, or that listens at `control`.
///
/// # Errors
/// If no router runs.
pub fn process(control: Option<&Path>) -> Result<i32, Error> {
    Ok(place(control).server()?.process)
}

fn ask(control: Option<&Path>, asked: &Asked) -> Result<Answer, Error> {
    let request = serde_json::to_string(asked).map_err(Error::Answer)?;
    let answer = place(control).ask(Some(&request)).map_err(|failure| match failure.is_nobody() {
        true => why_nobody(),
        false => failure.into(),
    })?;
    serde_json::from_slice(&answer).map_err(Error::Answer)
}

fn place(control: Option<&Path>) -> Place<'_> {
    Place { name: "treecast-router", path: control }
}

/// Routes MEADcast until SIGINT or SIGTERM, and then until senders have found other ways; the signals are taken from the calling thread.
///
/// # Errors
/// If it cannot begin: without the rights, kernel support or the interfaces named, or because another runs.
pub fn run(config: &Config, notify: &mut dyn FnMut(Notice)) -> Result<(), Error> {
    let mut notices = Notices::new(notify);
    let signals = Signals::catch(&[libc::SIGINT, libc::SIGTERM])
        .map_err(Error::system("cannot take the signals to end"))?;
    let mut daemon = Daemon::start(config, &signals)?;
    daemon.beat(&mut notices)?;
    daemon.look_again(&mut notices)?;
    if fs::read_to_string("/proc/sys/net/ipv6/conf/all/forwarding").is_ok_and(|value| value.trim() == "0") {
        let warning =
            "this host does not forward IPv6, so it is no router: `sysctl -w net.ipv6.conf.all.forwarding=1`";
        notices.warn(daemon.clock.now(), warning.into());
    }
    notices.ready();
    daemon.run(&signals, &mut notices)
}

struct Daemon<'a> {
    config: &'a Config,
    clock: Clock,
    poll: Poller,
    netlink: Netlink,
    monitor: Monitor,
    control: Server,
    plane: Plane,
    /// Claims to the interfaces that the program is attached to. A claim is given up when the program is there no longer.
    claims: Claims,
    /// Interfaces that another router serves, and of which that has been said.
    left_alone: BTreeSet<u32>,
    router: Router,
    /// An address on the loopback.
    of_no_link: Option<Ipv6Addr>,
    /// Interfaces with the program, by number.
    served: BTreeMap<u32, Interface>,
    look_again: Option<Instant>,
    course: Course,
    limiter: Limiter,
    answers: Socket,
    discovery: Discovery,
    /// Registrations that a designated router of Xcast+ sends. `None` for other routers.
    registrations: Option<Registrations>,
    xcast_plus: Option<XcastPlus>,
}

impl<'a> Daemon<'a> {
    fn start(config: &'a Config, signals: &Signals) -> Result<Self, Error> {
        // Listens to changes before it looks, so that none falls between.
        let monitor = Monitor::open().map_err(Error::system(WATCH))?;
        let mut netlink =
            Netlink::open().map_err(Error::system("cannot ask for the network's interfaces"))?;
        let interfaces = list(&mut netlink)?;
        check_names(config, &interfaces)?;
        let control = Server::listen(place(config.control.as_deref()), FIRST_CLIENT)?;
        // All of them before anything is changed at one.
        let claims = claim(chosen(config, &interfaces))?;
        let clock = Clock::start();
        let poll = Poller::new().map_err(Error::system(WAIT))?;
        let is_designated = config.is_designated || config.is_xcast_plus;
        let left =
            chosen(config, &interfaces).filter(|_| is_designated).flat_map(|one| Left::at(one).groups());
        let router = router(config, left.collect());
        let open = || Registrations::open().map_err(Error::system(LISTEN));
        let registrations = is_designated.then(open).transpose()?;
        let open = || XcastPlus::open(config.key.clone()).map_err(Error::system(XCAST_PLUS));
        let xcast_plus = config.is_xcast_plus.then(open).transpose()?;
        let plane = Plane::start(config, &router)?;
        let answers = raw::open_ipv6_packets()
            .map_err(Error::system("cannot open a socket for discovery responses"))?;
        let watch = || {
            poll.watch(&monitor, MONITOR)?;
            poll.watch(&control, CONTROL)?;
            poll.watch(signals, SIGNALS)?;
            if let Some(registrations) = &registrations {
                poll.watch(registrations, LISTENERS)?;
            }
            if let Some(xcast_plus) = &xcast_plus {
                poll.watch(xcast_plus, XCAST)?;
            }
            poll.watch(&plane, REQUESTS)
        };
        watch().map_err(Error::system(WAIT))?;
        Ok(Self {
            config,
            look_again: Some(clock.now()),
            course: Course::new(clock.now(), router.groups.clone()),
            clock,
            poll,
            netlink,
            monitor,
            control,
            plane,
            claims,
            left_alone: BTreeSet::new(),
            router,
            of_no_link: None,
            served: BTreeMap::new(),
            limiter: Limiter::new(LIMITS),
            answers,
            discovery: Discovery::default(),
            registrations,
            xcast_plus,
        })
    }

    fn run(mut self, signals: &Signals, notices: &mut Notices<'_>) -> Result<(), Error> {
        loop {
            let queries = self.registrations.as_ref().and_then(Registrations::deadline);
            let now = self.clock.now();
            let xcast_plus = self.xcast_plus.as_ref().and_then(|xcast_plus| xcast_plus.deadline(now));
            let epoch = self.config.key.is_some().then(|| now + EPOCH_LOOK);
            let deadline = self
                .look_again
                .into_iter()
                .chain([self.course.deadline()])
                .chain(queries)
                .chain(xcast_plus)
                .chain(epoch)
                .min();
            let timeout = until(now, deadline);
            let ready = self.poll.tokens(timeout).map_err(Error::system(WAIT))?;
            for token in &ready {
                match *token {
                    MONITOR => {
                        let changes = self.monitor.changes().map_err(Error::system(WATCH))?;
                        self.plane.forget_routes();
                        self.xcast_plus.iter_mut().for_each(XcastPlus::forget_routes);
                        if changes.interfaces {
                            let soon = self.clock.now() + SETTLE;
                            self.look_again = Some(self.look_again.map_or(soon, |at| at.min(soon)));
                        }
                    }
                    CONTROL => self.serve_client(),
                    REQUESTS => self.answer_requests()?,
                    // Below, with what is due.
                    LISTENERS | XCAST | SIGNALS => {}
                    client => self.control.write(client),
                }
            }
            self.beat(notices)?;
            if self.leave(ready.contains(&SIGNALS).then_some(signals), notices)? {
                return Ok(());
            }
            self.keep_epoch()?;
            self.hear_listeners()?;
            self.serve_channels()?;
            if self.look_again.is_some_and(|at| at <= self.clock.now())
                && let Err(error) = self.look_again(notices)
            {
                notices.warn(self.clock.now(), error.to_string());
                self.look_again = Some(self.clock.now() + RETRY);
            }
        }
    }

    /// Says to the program that the daemon lives, and looks at what that has counted, when that is due.
    fn beat(&mut self, notices: &mut Notices<'_>) -> Result<(), Error> {
        let now = self.clock.now();
        if !self.course.beats(now) {
            return Ok(());
        }
        let mut live_on = || {
            self.plane.live_on()?;
            self.plane.counters()
        };
        let counters = live_on().map_err(|failure| Error::of_program(&*failure))?;
        self.course.departure.served(now, Counted(&counters).served());
        if let Some(other) = Counted(&counters).other_dialect(self.router.dialect)
            && !std::mem::replace(&mut self.course.has_told_dialect, true)
        {
            notices.warn(now, other.to_string());
        }
        Ok(())
    }

    /// Begins to leave when there is a signal, or goes on to, if it does. Returns whether the daemon ends.
    fn leave(&mut self, signal: Option<&Signals>, notices: &mut Notices<'_>) -> Result<bool, Error> {
        let now = self.clock.now();
        if let Some(signals) = signal {
            signals.next();
            // The second one, or there is nothing to leave.
            if std::mem::replace(&mut self.course.ends, true) || !self.router.is_enabled {
                return Ok(true);
            }
            self.count_served(now)?;
            self.course.leave(now, &mut self.router, self.config.leave_within);
            self.configure()?;
        }
        match self.course.departure.poll(now) {
            None => return Ok(false),
            Some(Act::Tell(requests)) => requests.iter().for_each(|request| self.say_farewell(request)),
            Some(Act::Go { is_late }) => {
                if is_late {
                    let seconds = self.config.leave_within.as_secs();
                    let warning = format!(
                        "senders still used this router after {seconds} s: their receivers lose packets until they look for routers again \
                         (--leave-within)"
                    );
                    notices.warn(now, warning);
                }
                (self.router.is_enabled, self.router.is_leaving) = (false, false);
                self.configure()?;
                return Ok(self.course.ends);
            }
        }
        if signal.is_some() {
            let seconds = self.config.leave_within.as_secs();
            let what = "leaving: acts on data until senders have found other ways";
            notices.warn(now, format!("{what}, for {seconds} s at most (a second signal: ends at once)"));
        }
        Ok(false)
    }

    fn count_served(&mut self, now: Instant) -> Result<(), Error> {
        let counters = self.plane.counters().map_err(|failure| Error::of_program(&*failure))?;
        self.course.departure.served(now, Counted(&counters).served());
        Ok(())
    }

    /// Tells a sender that this router leaves. The thesis' programs do not know the message.
    fn say_farewell(&mut self, request: &Request) {
        let own = self.address_towards(request.sender).filter(|_| self.router.dialect == Dialect::Rfc);
        let packet = own.map(|own| request.farewell(own, self.config.key.as_ref()));
        // It is said again.
        let _ = packet.map(|packet| self.send_to(request.sender, &packet));
    }

    fn send_to(&self, sender: Ipv6Addr, packet: &[u8]) -> io::Result<usize> {
        self.answers.send_to(packet, &SocketAddr::V6(SocketAddrV6::new(sender, 0, 0, 0)).into())
    }

    /// Tells the program all addresses, and attaches it to all interfaces.
    fn look_again(&mut self, notices: &mut Notices<'_>) -> Result<(), Error> {
        self.look_again = None;
        let interfaces = list(&mut self.netlink)?;
        self.router.own = interfaces.values().flat_map(global).collect();
        self.of_no_link = interfaces.get("lo").into_iter().flat_map(global).next();
        self.configure()?;
        let is_there = |index| interfaces.values().any(|one| one.index == index);
        self.claims.retain(is_there);
        self.left_alone.retain(|index| is_there(*index));
        let chosen = chosen(self.config, &interfaces).filter(|interface| interface.is_up);
        let chosen: BTreeMap<u32, Interface> = chosen.map(|one| (one.index, one.clone())).collect();
        // The filters of interfaces that are gone have gone with them.
        for index in self.served.keys().filter(|index| !chosen.contains_key(index)) {
            self.plane.detach(*index);
        }
        self.served.retain(|index, _| chosen.contains_key(index));
        for (index, interface) in chosen {
            if !self.served.contains_key(&index) && !self.attach(&interface, notices)? {
                continue;
            }
            if self.router.dialect == Dialect::Rfc {
                // It may have joined before, when the interface was up the last time.
                let _ = self.answers.join_multicast_v6(&ALL_XCAST_ROUTERS, index);
            }
            self.served.insert(index, interface);
        }
        if !self.router.groups.is_empty() {
            // The program knows interfaces' Ethernet addresses, by which it sends to groups, only now.
            self.configure()?;
        }
        if let Some(registrations) = &mut self.registrations {
            registrations.attend(self.clock.now(), self.served.values()).map_err(Error::system(LISTEN))?;
        }
        if let Some(xcast_plus) = &mut self.xcast_plus {
            xcast_plus.attend(self.served.values()).map_err(Error::system(XCAST_PLUS))?;
        }
        Ok(())
    }

    /// Attaches the program to an interface, unless another router serves that. Returns whether it is there.
    fn attach(&mut self, interface: &Interface, notices: &mut Notices<'_>) -> Result<bool, Error> {
        let Interface { index, ref name, .. } = *interface;
        if !self.claims.take(index)? {
            if self.left_alone.insert(index) {
                notices.warn(self.clock.now(), claims::refusal(interface).to_string());
            }
            self.look_again = Some(self.clock.now() + LEFT);
            return Ok(false);
        }
        self.left_alone.remove(&index);
        let Err(failure) = self.plane.attach(interface) else { return Ok(true) };
        self.claims.retain(|claimed| claimed != index);
        let error = Error::Attach { name: name.clone(), reason: failure.to_string() };
        if self.config.interfaces.is_empty() {
            notices.warn(self.clock.now(), error.to_string());
            return Ok(false);
        }
        Err(error)
    }

    /// Tells the program which proofs of address lists are of this time.
    fn keep_epoch(&mut self) -> Result<(), Error> {
        let guard = self.config.guard();
        if guard == self.router.guard {
            return Ok(());
        }
        self.router.guard = guard;
        self.configure()
    }

    /// Tells the program all groups that are listened to.
    fn hear_listeners(&mut self) -> Result<(), Error> {
        let Some(registrations) = &mut self.registrations else { return Ok(()) };
        registrations.work(self.clock.now()).map_err(Error::system(LISTEN))?;
        let mut groups = self.course.with_inherited(self.clock.now(), registrations.groups());
        groups = groups.into_iter().take(MAX_GROUPS).collect();
        groups.values_mut().for_each(|links| *links = links.iter().copied().take(MAX_LANS).collect());
        if groups != self.router.groups {
            self.router.groups = groups;
            self.configure()?;
        }
        Ok(())
    }

    /// Xcast+: registers for channels, and serves those of senders on its links.
    fn serve_channels(&mut self) -> Result<(), Error> {
        let Some(mut xcast_plus) = self.xcast_plus.take() else { return Ok(()) };
        let mut worked = Ok(());
        if let Some(listeners) = &self.registrations {
            let own_towards = |source| self.address_towards(source);
            worked = xcast_plus.work(self.clock.now(), &self.router, listeners, own_towards);
        }
        self.xcast_plus = Some(xcast_plus);
        worked.map_err(Error::system(XCAST_PLUS))
    }

    fn configure(&mut self) -> Result<(), Error> {
        self.plane.configure(&self.router).map_err(|failure| Error::of_program(&*failure))
    }

    fn answer_requests(&mut self) -> Result<(), Error> {
        for packet in self.plane.requests()? {
            // It was one to the program; addresses may have changed since.
            let Some(request) = self.router.request_in(&packet) else { continue };
            if !self.limiter.admits(self.clock.now(), request.sender.into()) {
                self.discovery.limited += 1;
                continue;
            }
            let offers = self.serves(&request);
            let answer = self.address_towards(request.sender).and_then(|own| {
                let packet = request.answer(own, self.config.key.as_ref(), offers);
                self.send_to(request.sender, &packet).ok()
            });
            match answer {
                Some(_) => {
                    self.discovery.answered += 1;
                    self.course.departure.answered(self.clock.now(), &request);
                }
                None => self.discovery.unanswered += 1,
            }
        }
        Ok(())
    }

    /// Whether the receiver is to be served by the group of the request.
    fn serves(&mut self, request: &Request) -> bool {
        let registrations = self.registrations.as_ref().filter(|_| self.config.is_designated);
        let Some((group, registrations)) = request.group.zip(registrations) else { return false };
        let way = (request.sender, request.receiver);
        // What the kernel does not say is not so.
        self.router.groups.contains_key(&group)
            && registrations.serves(self.clock.now(), &mut self.netlink, way, group).unwrap_or(false)
    }

    /// The host's own address that no link has, which stays when a link goes down. Without one, the address from
    /// which it sends to `destination`, or else some other global one.
    fn address_towards(&self, destination: Ipv6Addr) -> Option<Ipv6Addr> {
        if self.of_no_link.is_some() {
            return self.of_no_link;
        }
        let chosen = || {
            let socket = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)).ok()?;
            socket.connect((destination, 9)).ok()?;
            match socket.local_addr().ok()?.ip() {
                IpAddr::V6(address) => Some(address).filter(|address| self.router.own.contains(address)),
                IpAddr::V4(_) => None,
            }
        };
        chosen().or_else(|| self.router.own.first().copied())
    }

    fn serve_client(&mut self) {
        let now = self.clock.now();
        // What cannot be counted is told of by the next beat.
        let _ = self.count_served(now);
        let Self { control, poll, plane, router, discovery, served, xcast_plus, course, config, .. } = self;
        let mut new = router.clone();
        let answer = |stream: &mut UnixStream| {
            let answer = match read_request(stream) {
                Some(Asked::Set(setting)) => {
                    let set = course.set(now, setting, &mut new, config.leave_within);
                    match set.map_err(Into::into).and_then(|()| plane.configure(&new)) {
                        Ok(()) => Answer::Done,
                        Err(failure) => Answer::Refused(failure.to_string()),
                    }
                }
                Some(Asked::Status) | None => match report(plane, router, discovery, served) {
                    Ok(mut status) => {
                        status.leaving = course.leaving(now);
                        if let Some(xcast_plus) = xcast_plus.as_ref() {
                            tell_channels(&mut status.xcast, xcast_plus, now);
                        }
                        Answer::Status(Box::new(status))
                    }
                    Err(failure) => Answer::Refused(failure.to_string()),
                },
            };
            Ok(serde_json::to_vec(&answer)?)
        };
        // A client that is gone before it is served is no reason to stop.
        let _ = control.accept(poll, answer);
        self.router = new;
    }
}

/// Reads the request of a client that may change settings. `None` if it may not.
fn read_request(stream: &mut UnixStream) -> Option<Asked> {
    let user = unix::peer(stream).ok()?.user;
    if user != 0 && user != user::effective() {
        return None;
    }
    stream.set_read_timeout(Some(CLIENT_PATIENCE)).ok()?;
    let mut text = String::new();
    stream.take(MAX_REQUEST_LEN).read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}

fn report(
    plane: &Plane,
    router: &Router,
    discovery: &Discovery,
    served: &BTreeMap<u32, Interface>,
) -> Result<Status, Box<dyn std::error::Error>> {
    let counters = plane.counters()?;
    let counted = Counted(&counters);
    let name = |index: u32| served.get(&index).map_or_else(|| index.to_string(), |one| one.name.clone());
    let mut neighbours: Vec<_> = plane
        .neighbours()
        .into_iter()
        .map(|(key, neighbour)| Neighbour {
            interface: name(key.interface),
            address: key.address.into(),
            packets: neighbour.packets,
            bytes: neighbour.bytes,
        })
        .collect();
    neighbours.sort_by(|one, other| (&one.interface, one.address).cmp(&(&other.interface, other.address)));
    let group = |(group, links): (&Ipv6Addr, &BTreeSet<u32>)| DesignatedGroup {
        group: *group,
        interfaces: links.iter().copied().map(name).collect(),
    };
    let interface =
        |one: &Interface| status::Interface { name: one.name.clone(), addresses: global(one).collect() };
    Ok(Status {
        is_enabled: router.is_enabled,
        leaving: None,
        min_dsts: router.min_dsts,
        dialect: router.dialect.name().into(),
        interfaces: served.values().map(interface).collect(),
        packets: counted.of(Counter::Data),
        copies: counted.copies(),
        discovery: Discovery {
            requests: counted.of(Counter::Requests),
            responses: counted.of(Counter::Responses),
            unanswered: discovery.unanswered + counted.of(Counter::RequestsUnheard),
            ..*discovery
        },
        malformed: counted.malformed(),
        other_dialect: counted.other_dialect(router.dialect),
        dropped: counted.dropped(),
        passed_on: counted.passed_on(),
        xcast: counted.xcast(),
        groups: router.groups.iter().map(group).collect(),
        neighbours,
    })
}

fn tell_channels(status: &mut Xcast, xcast_plus: &XcastPlus, now: Instant) {
    let (registered, counts) = xcast_plus.report(now);
    let channel = |((source, group), routers)| Registered { source, group, routers };
    status.registered = registered.into_iter().map(channel).collect();
    status.encapsulated = counts.encapsulated;
    status.registrations_refused = counts.refused;
    status.registrations_unsent = counts.unsent;
}

fn list(netlink: &mut Netlink) -> Result<BTreeMap<String, Interface>, Error> {
    let interfaces = netlink.interfaces().map_err(Error::system("cannot list the network's interfaces"))?;
    Ok(interfaces.into_values().map(|interface| (interface.name.clone(), interface)).collect())
}

/// An interface's addresses that can be in a packet from afar.
fn global(interface: &Interface) -> impl Iterator<Item = Ipv6Addr> {
    let of_family = |address: &IpAddr| match address {
        IpAddr::V6(address) => Some(*address),
        IpAddr::V4(_) => None,
    };
    interface.addresses.iter().filter_map(of_family).filter(|address| is_forwardable(*address))
}

/// Refuses names of interfaces that are not there, or cannot do what is wanted of them.
fn check_names(config: &Config, interfaces: &BTreeMap<String, Interface>) -> Result<(), Error> {
    for name in &config.interfaces {
        let interface = interfaces.get(name).ok_or_else(|| Error::NoInterface(name.clone()))?;
        if !interface.is_usable || !interface.is_ethernet {
            return Err(Error::NotEthernet(name.clone()));
        }
        if !interface.is_up {
            return Err(Error::InterfaceDown(name.clone()));
        }
        if global(interface).next().is_none() {
            return Err(Error::NoAddress(name.clone()));
        }
    }
    let can_serve = |interface: &Interface| interface.is_up && global(interface).next().is_some();
    if chosen(config, interfaces).any(can_serve) { Ok(()) } else { Err(Error::NothingToServe) }
}

/// The router of these settings, which serves `groups` of an earlier daemon and knows none of its own addresses yet.
fn router(config: &Config, groups: BTreeMap<Ipv6Addr, BTreeSet<u32>>) -> Router {
    let Config { min_dsts, dialect, .. } = *config;
    Router { is_enabled: true, min_dsts, dialect, groups, guard: config.guard(), ..Router::default() }
}

/// Claims those that are up: another router may serve none of them.
fn claim<'a>(interfaces: impl Iterator<Item = &'a Interface>) -> Result<Claims, Error> {
    let mut claims = Claims::default();
    for interface in interfaces.filter(|interface| interface.is_up) {
        if !claims.take(interface.index)? {
            return Err(claims::refusal(interface));
        }
    }
    Ok(claims)
}

fn chosen<'a>(
    config: &'a Config,
    interfaces: &'a BTreeMap<String, Interface>,
) -> impl Iterator<Item = &'a Interface> {
    let is_named = |name: &String| config.interfaces.is_empty() || config.interfaces.contains(name);
    interfaces.values().filter(move |one| one.is_usable && one.is_ethernet && is_named(&one.name))
}
