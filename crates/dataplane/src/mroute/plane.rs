//! One address family: its machine, and the kernel that does what the machine wants.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    net::IpAddr,
    os::fd::{AsFd, BorrowedFd},
};

use socket2::Socket;
use treecast_host::{interface::Interface, netlink::Netlink, option};
use treecast_proto::{
    Instant, Step,
    membership::{Event, Forwarding, Input, LinkId, Route, Router, RouterConfig, Transmit},
};

use super::{
    Family, MAX_INTERFACES, Slot,
    counts::Counters,
    inherited::{Inherited, InheritedEntry},
    kernel::{Incoming, Kernel, Refusal},
    notices::Notices,
    trace::{Around, Place, Traces},
};

/// Packets taken from the socket before the machine's wishes are carried out.
const BATCH: usize = 64;

/// An IPv6 packet's longest payload; no message is longer.
const BUFFER_LEN: usize = 65_536;

/// The whole multicast router for one address family, IPv4 or IPv6: its machine, its sockets, and its entries in the kernel.
pub struct Plane {
    kernel: Box<dyn Kernel>,
    router: Router,
    served: BTreeMap<u32, Served>,
    /// The state that an earlier daemon has left behind, until it has been taken over.
    inherited: Inherited,
    /// Interfaces that the kernel does not take, which has been said.
    refused: BTreeSet<u32>,
    dropped: BTreeMap<Refusal, u64>,
    suspicion: Suspicion,
    buffer: Vec<u8>,
    /// The port at which traces are answered, if it could be opened.
    traces: Option<Traces>,
}

/// Whether the network may have a loop in which no router has been told where senders are.
///
/// Each source's packets are taken from the interface that the route to it uses, and dropped by the kernel
/// where they come by another (RFC 4605 does without only because it knows one upstream). So a packet crosses
/// each link of a loop at most once for each router on it, but joins of any-source groups go around it and
/// keep each other alive.
///
/// The kernel says so only of an interface that it forwards the group to; of others it counts the packets.
#[derive(Debug, PartialEq, Eq)]
enum Suspicion {
    None,
    /// Packets from `source` to `group` came by another interface: by `slot`, if the kernel has said which.
    New {
        slot: Option<Slot>,
        source: IpAddr,
        group: IpAddr,
    },
    Told,
}

/// An interface that the kernel routes to and from.
struct Served {
    slot: Slot,
    interface: Interface,
    address: IpAddr,
    /// Receives nothing, and has the kernel take what is for routers on this link as long as it is open.
    _member: Socket,
}

impl Plane {
    /// Creates the routing of one address family. With `inherits`, the kernel already routes as an earlier
    /// daemon has told it.
    pub fn new(kernel: Box<dyn Kernel>, config: RouterConfig, inherits: bool) -> io::Result<Self> {
        let inherited = if inherits { kernel.inherited()? } else { Inherited::default() };
        Ok(Self {
            kernel,
            inherited,
            router: Router::new(config),
            served: BTreeMap::new(),
            refused: BTreeSet::new(),
            dropped: BTreeMap::new(),
            suspicion: match config.upstream.is_some() || config.source_trees {
                true => Suspicion::Told,
                false => Suspicion::None,
            },
            buffer: vec![0; BUFFER_LEN],
            traces: None,
        })
    }

    pub fn set_traces(&mut self, traces: Traces) {
        self.traces = Some(traces);
    }

    /// Answers traces that have come.
    pub fn answer_traces(&mut self, now: Instant, netlink: &mut Netlink) {
        let Some(traces) = &mut self.traces else { return };
        let links = self.served.iter().map(|(index, served)| {
            let Served { slot, interface, address, .. } = served;
            (LinkId(*index), Place { slot: *slot, interface, address: *address })
        });
        let links = links.collect();
        traces.answer(now, &mut Around { links, router: &self.router, kernel: &*self.kernel, netlink });
    }

    /// Serves these interfaces, each by the address given, and no others from now on.
    pub fn serve(
        &mut self,
        now: Instant,
        wanted: &BTreeMap<u32, (&Interface, IpAddr)>,
        notices: &mut Notices<'_>,
    ) {
        let gone: Vec<_> = self.served.keys().filter(|index| !wanted.contains_key(index)).copied().collect();
        gone.into_iter().for_each(|index| self.remove(now, index));
        self.refused.retain(|index| wanted.contains_key(index));
        let is_wanted = |name: &String| wanted.values().any(|(interface, _)| interface.name == *name);
        self.inherited.interfaces.retain(|slot, name| {
            let stays = is_wanted(name);
            if !stays {
                // An interface that no longer exists is gone from the kernel's table, too: that is no failure.
                drop(self.kernel.remove_interface(*slot));
            }
            stays
        });
        for (index, (interface, address)) in wanted {
            if self.served.contains_key(index) {
                self.update(now, interface, *address);
            } else if let Err(error) = self.add(now, interface, *address)
                && self.refused.insert(*index)
            {
                let warning = format!("interface {} cannot be served: {error}", interface.name);
                notices.warn(now, warning);
            }
        }
        for entry in std::mem::take(&mut self.inherited.entries) {
            self.inherit(now, &entry);
        }
    }

    fn inherit(&mut self, now: Instant, entry: &InheritedEntry) {
        let InheritedEntry { source, group, from, ref to } = *entry;
        match self.link(from) {
            Some(from) => {
                let to = to.iter().filter_map(|slot| self.link(*slot)).collect();
                let forwarding = Forwarding { from, to };
                self.router.handle(now, Input::Inherited { source, group, forwarding });
            }
            // It went with its interface, or it is of no use.
            None => drop(self.kernel.remove(source, group)),
        }
    }

    /// Takes in what has arrived, at most a batch. When more is left, the socket stays readable.
    pub fn receive(&mut self, now: Instant) -> io::Result<()> {
        for _ in 0..BATCH {
            match self.kernel.receive(&mut self.buffer) {
                Ok(incoming) => self.take(now, incoming),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                // Trouble of an interface, reported on the next call, which it does not concern.
                Err(error) if matches!(error.raw_os_error(), Some(libc::ENETDOWN | libc::EINTR)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Carries out all that the machine asks for now. Returns when the machine wants to be polled again.
    pub fn carry_out(
        &mut self,
        now: Instant,
        netlink: &mut Netlink,
        notices: &mut Notices<'_>,
    ) -> Option<Instant> {
        loop {
            match self.router.poll(now) {
                Step::Transmit(transmit) => self.execute(now, transmit, netlink, notices),
                Step::Wait(deadline, _) => {
                    self.tell_suspicion(now, notices);
                    return deadline;
                }
                Step::Event(Event::Full { link }) => {
                    let warning = self.shortage(link);
                    notices.warn(now, warning);
                }
            }
        }
    }

    pub fn set_upstream(&mut self, now: Instant, upstream: Option<LinkId>) {
        self.router.handle(now, Input::Upstream(upstream));
    }

    pub fn routes_changed(&mut self, now: Instant) {
        self.router.handle(now, Input::RoutesChanged);
    }

    /// Lets the machine say goodbye on the links, and then makes the kernel stop routing.
    pub fn close(&mut self, now: Instant, netlink: &mut Netlink, notices: &mut Notices<'_>) {
        self.router.close(now);
        self.carry_out(now, netlink, notices);
        if let Err(error) = self.kernel.close() {
            notices.warn(now, format!("multicast routing is not ended properly: {error}"));
        }
    }

    pub fn status(&self, now: Instant) -> Family {
        let dropped = self.dropped.iter().map(|(reason, count)| (reason.to_string(), *count));
        let dropped = dropped.chain(self.traces.iter().flat_map(Traces::refused)).collect();
        let name = |link: LinkId| match self.served.get(&link.0) {
            Some(served) => served.interface.name.clone(),
            None => format!("#{}", link.0),
        };
        let count = |source, group| self.kernel.count(source, group).unwrap_or_default();
        Family::new(self.router.snapshot(now), dropped, name, count)
    }

    fn add(&mut self, now: Instant, interface: &Interface, address: IpAddr) -> io::Result<()> {
        let kept = self.inherited.interfaces.iter().find(|(_, name)| **name == interface.name);
        let slot = match kept.map(|(slot, _)| *slot) {
            Some(slot) => {
                self.inherited.interfaces.remove(&slot);
                slot
            }
            None => {
                let served = self.served.values().map(|served| served.slot);
                let taken: BTreeSet<_> = served.chain(self.inherited.interfaces.keys().copied()).collect();
                let free = (0..MAX_INTERFACES as Slot).find(|slot| !taken.contains(slot));
                let slot = free.ok_or_else(|| io::Error::other("the kernel routes between 32 at most"))?;
                self.kernel.add_interface(slot, interface.index)?;
                slot
            }
        };
        let member = match option::join_on_link(interface.index, &self.kernel.router_groups()) {
            Ok(member) => member,
            Err(error) => {
                self.kernel.remove_interface(slot)?;
                return Err(error);
            }
        };
        let served = Served { slot, interface: interface.clone(), address, _member: member };
        self.served.insert(interface.index, served);
        self.router.handle(now, Input::Up { link: LinkId(interface.index), address });
        Ok(())
    }

    fn update(&mut self, now: Instant, interface: &Interface, address: IpAddr) {
        let Some(served) = self.served.get_mut(&interface.index) else { return };
        if served.address != address {
            self.router.handle(now, Input::Up { link: LinkId(interface.index), address });
        }
        served.address = address;
        served.interface = interface.clone();
    }

    fn remove(&mut self, now: Instant, index: u32) {
        let Some(served) = self.served.remove(&index) else { return };
        self.router.handle(now, Input::Down { link: LinkId(index) });
        // Fails when the interface is gone, and the kernel has taken it out itself.
        let _ = self.kernel.remove_interface(served.slot);
    }

    fn take(&mut self, now: Instant, incoming: Incoming) {
        let input = match incoming {
            Incoming::NoEntry { slot, source, group } => {
                self.link(slot).map(|link| Input::NoEntry { link, source, group })
            }
            Incoming::WrongInterface { slot, source, group } => {
                self.suspect(Some(slot), source, group);
                self.link(slot).map(|link| Input::WrongLink { link, source, group })
            }
            Incoming::Message { interface, from, message } => {
                let Some(served) = self.served.get(&interface) else { return };
                if served.interface.addresses.contains(&from) {
                    return;
                }
                if !is_on_link(from, &served.interface) {
                    return self.refuse(Refusal::NotFromLink);
                }
                Some(Input::Message { link: LinkId(interface), from, message })
            }
            Incoming::Refused(refusal) => return self.refuse(refusal),
        };
        if let Some(input) = input {
            self.router.handle(now, input);
        }
    }

    /// The message about hosts of a link that want too much.
    fn shortage(&self, link: LinkId) -> String {
        let name = self.served.get(&link.0).map_or("an interface", |served| &served.interface.name);
        let room = self.router.room(link);
        let (max, largest) = room.map_or((0, None), |room| (room.max_groups, room.largest));
        let largest = largest.map(|(host, count)| format!("; {host} has asked for most, {count} groups"));
        format!(
            "hosts on {name} ask for more groups, or sources of groups, than --max-groups {max} has room for: each gets \
             its share{}",
            largest.unwrap_or_default()
        )
    }

    fn suspect(&mut self, slot: Option<Slot>, source: IpAddr, group: IpAddr) {
        if self.suspicion == Suspicion::None {
            self.suspicion = Suspicion::New { slot, source, group };
        }
    }

    fn tell_suspicion(&mut self, now: Instant, notices: &mut Notices<'_>) {
        let Suspicion::New { slot, source, group } = self.suspicion else { return };
        self.suspicion = Suspicion::Told;
        let has_slot = |served: &&Served| Some(served.slot) == slot;
        let interface = self.served.values().find(has_slot).map(|served| served.interface.name.as_str());
        let warning = format!(
            "packets of {source} to {group} come by {}, too, which the route to {source} does not use, and are \
             dropped there: where the network has loops, start every router with --upstream or --source-trees",
            interface.unwrap_or("another interface")
        );
        notices.warn(now, warning);
    }

    fn refuse(&mut self, refusal: Refusal) {
        *self.dropped.entry(refusal).or_default() += 1;
    }

    fn link(&self, slot: Slot) -> Option<LinkId> {
        self.served.iter().find(|(_, served)| served.slot == slot).map(|(index, _)| LinkId(*index))
    }

    fn slot(&self, link: LinkId) -> Option<Slot> {
        self.served.get(&link.0).map(|served| served.slot)
    }

    fn execute(
        &mut self,
        now: Instant,
        transmit: Transmit,
        netlink: &mut Netlink,
        notices: &mut Notices<'_>,
    ) {
        let done = match transmit {
            Transmit::Send { link, message } => {
                if let Some(served) = self.served.get(&link.0) {
                    // A query that does not go out is one that got lost: the next one follows.
                    let _ = self.kernel.send(link.0, served.address, &message);
                }
                Ok(())
            }
            Transmit::Install { source, group, forwarding } => {
                let to: Vec<_> = forwarding.to.iter().filter_map(|link| self.slot(*link)).collect();
                match self.slot(forwarding.from) {
                    Some(from) => self.kernel.install(source, group, from, &to),
                    None => Ok(()),
                }
                .map_err(|error| format!("packets of {source} to {group} are not forwarded: {error}"))
            }
            Transmit::Remove { source, group } => {
                // Fails when the kernel had only waited to be told.
                let _ = self.kernel.remove(source, group);
                Ok(())
            }
            Transmit::FindRoute { source } => self.find_route(now, source, netlink),
            Transmit::Count { source, group } => {
                let Counters { packets, wrong_interface, .. } =
                    self.kernel.count(source, group).unwrap_or_default();
                let packets = packets.saturating_sub(wrong_interface);
                if wrong_interface > packets / 2 {
                    self.suspect(None, source, group);
                }
                self.router.handle(now, Input::Counted { source, group, packets });
                Ok(())
            }
        };
        if let Err(warning) = done {
            notices.warn(now, warning);
        }
    }

    fn find_route(&mut self, now: Instant, source: IpAddr, netlink: &mut Netlink) -> Result<(), String> {
        let found = netlink.route(source, None).map(|route| route.map(|route| route.interface));
        let warning = found.as_ref().err().map(|error| format!("no route to {source} can be found: {error}"));
        let route = match found {
            Ok(Some(interface)) => Route::Via(LinkId(interface)),
            Ok(None) | Err(_) => Route::None,
        };
        self.router.handle(now, Input::Route { source, route });
        warning.map_or(Ok(()), Err)
    }
}

impl AsFd for Plane {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.kernel.as_fd()
    }
}

/// Whether a neighbour can have this address: for IPv6 the kernel's side has checked that it is
/// link-local; for IPv4 it is in one of the interface's networks, or is 0.0.0.0, as that of a host that
/// has none yet (RFC 9776, 4.2.13) or of a snooping bridge.
fn is_on_link(address: IpAddr, interface: &Interface) -> bool {
    let IpAddr::V4(address) = address else { return true };
    let in_network = |(network, prefix_len): &(IpAddr, u8)| match network {
        IpAddr::V4(network) => {
            let host_bits = 32 - u32::from(*prefix_len).min(32);
            let differing = u64::from(network.to_bits() ^ address.to_bits());
            differing >> host_bits == 0
        }
        IpAddr::V6(_) => false,
    };
    address.is_unspecified() || interface.networks.iter().any(in_network)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_in_the_interfaces_networks() {
        let network = |address: [u8; 4], prefix_len| (IpAddr::from(address), prefix_len);
        let networks = vec![network([192, 0, 2, 1], 24), network([10, 0, 0, 1], 32)];
        let interface = Interface { networks, ..Interface::named("lo").expect("a loopback") };
        assert!(is_on_link(IpAddr::from([192, 0, 2, 200]), &interface));
        assert!(is_on_link(IpAddr::from([10, 0, 0, 1]), &interface));
        assert!(is_on_link(IpAddr::from([0, 0, 0, 0]), &interface));
        assert!(!is_on_link(IpAddr::from([10, 0, 0, 2]), &interface));
        assert!(!is_on_link(IpAddr::from([192, 0, 3, 1]), &interface));
    }
}
