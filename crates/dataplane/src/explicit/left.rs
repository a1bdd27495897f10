//! Finds, describes and removes what killed routers have left at interfaces: programs and filters.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    net::Ipv6Addr,
    os::fd::AsFd,
};

use aya::{
    maps::{Array, HashMap, Map, MapData, MapInfo},
    programs::{ProgramInfo, SchedClassifier, TcAttachType, loaded_programs, tc},
};

use super::{
    Error, PRIORITY, Remains,
    blocking::remove_filter,
    claims::{self, Claims},
    shared::GroupEntry,
};
use treecast_host::{
    interface::Interface,
    netlink::{BpfFilter, Netlink},
    tcx, user,
};

/// The name of the router's eBPF program.
pub const NAME: &str = "mead_router";

/// The parts of a router at one interface that a killed router has left, or a running one has there.
pub struct Left {
    /// The program, where it is attached before all filters.
    pub before: Option<ProgramInfo>,
    /// The program, where it is attached as a filter of `tc`.
    pub filter: Option<BpfFilter>,
    /// Whether there is the filter that stands behind a router in user space.
    blocks: bool,
}

impl Left {
    pub fn at(interface: &Interface) -> Self {
        // Without the right to look, or before Linux 6.6, there is nothing to be seen.
        let before = SchedClassifier::query_tcx(&interface.name, TcAttachType::Ingress);
        let before = before.map(|(_, programs)| programs).unwrap_or_default();
        let filters = Netlink::open().and_then(|mut netlink| netlink.ingress_filters(interface.index));
        let filters = filters.unwrap_or_default();
        Self {
            before: before.into_iter().find(|program| program.name_as_str() == Some(NAME)),
            blocks: filters.iter().any(|filter| filter.program.is_none() && filter.priority == PRIORITY),
            filter: filters.into_iter().find(|filter| filter.name == NAME),
        }
    }

    fn is_empty(&self) -> bool {
        self.before.is_none() && self.filter.is_none() && !self.blocks
    }

    /// Removes the program that is attached before all filters.
    pub fn leave_first_place(&mut self, interface: &Interface) -> io::Result<()> {
        let Some(program) = self.before.take().and_then(|program| program.fd().ok()) else { return Ok(()) };
        tcx::detach(program.as_fd(), interface.index)
    }

    /// Removes the program where it is attached as a filter.
    pub fn leave_filters(&mut self, interface: &Interface) -> io::Result<()> {
        match self.filter.take() {
            Some(_) => tc::qdisc_detach_program(&interface.name, TcAttachType::Ingress, NAME)
                .map_err(io::Error::other),
            None => Ok(()),
        }
    }

    /// Removes the filter that a router in user space uses to keep the kernel from forwarding.
    pub fn unblock(&mut self, interface: &Interface) {
        if std::mem::take(&mut self.blocks) {
            remove_filter(&interface.name);
        }
    }

    /// The time at which each program's lease ends. `None`: the program is of a version that has none.
    fn leases(&self) -> Vec<Option<u64>> {
        self.tables("acts_until").map(|table| lease_in(table?)).collect()
    }

    /// Returns the groups that hosts on the router's links had joined, with the numbers of the links.
    pub fn groups(&self) -> BTreeMap<Ipv6Addr, BTreeSet<u32>> {
        let mut groups = BTreeMap::<_, BTreeSet<u32>>::new();
        for (group, links) in self.tables("groups").flatten().filter_map(groups_in).flatten() {
            groups.entry(group).or_default().extend(links);
        }
        groups
    }

    /// The table of this name of each program that is there.
    fn tables(&self, name: &str) -> impl Iterator<Item = Option<MapData>> {
        let of_filter = self.filter.as_ref().and_then(|filter| filter.program).and_then(|number| {
            loaded_programs().filter_map(Result::ok).find(|program| program.id() == number)
        });
        self.before
            .iter()
            .map(move |program| table_of(program, name))
            .chain(of_filter.map(move |program| table_of(&program, name)))
    }
}

fn table_of(program: &ProgramInfo, name: &str) -> Option<MapData> {
    let numbers = program.map_ids().ok()??;
    let is_it = |number: &u32| MapInfo::from_id(*number).is_ok_and(|table| table.name_as_str() == Some(name));
    MapData::from_id(numbers.into_iter().find(is_it)?).ok()
}

fn lease_in(table: MapData) -> Option<u64> {
    let lease: Array<MapData, u64> = Map::Array(table).try_into().ok()?;
    lease.get(&0, 0).ok()
}

fn groups_in(table: MapData) -> Option<Vec<(Ipv6Addr, Vec<u32>)>> {
    let groups: HashMap<MapData, [u8; 16], GroupEntry> = Map::HashMap(table).try_into().ok()?;
    let links =
        |group: GroupEntry| group.lans.iter().take(group.count as usize).map(|lan| lan.interface).collect();
    Some(groups.iter().filter_map(Result::ok).map(|(group, entry)| (group.into(), links(entry))).collect())
}

/// Returns the error that tells why no router answers here: none runs, or one was killed, or one listens at
/// another control socket.
pub fn why_nobody() -> Error {
    let look = || {
        let interfaces = interfaces()?;
        if let Some(interface) = interfaces.iter().find(|interface| claims::is_taken(interface.index)) {
            return Ok(Error::Elsewhere(interface.name.clone(), claims::who(interface)));
        }
        let left = find(interfaces);
        io::Result::Ok(if left.is_empty() { Error::NotRunning } else { Error::Killed(remains(&left)) })
    };
    look().unwrap_or(Error::NotRunning)
}

/// Removes what killed routers have left in this network namespace. What belongs to running routers stays.
/// Returns the interfaces at which something was removed.
///
/// # Errors
/// If this user may not remove it.
pub fn clean() -> Result<Vec<String>, Error> {
    let refused = Error::system("cannot take away what a killed router has left");
    match user::may_administer_networks() {
        Ok(true) => {}
        Ok(false) => return Err(refused(io::Error::other("this needs root: run it as root"))),
        Err(error) => return Err(refused(error)),
    }
    let mut cleaned = Vec::new();
    let mut claims = Claims::default();
    let interfaces = interfaces().map_err(Error::system("cannot list the network's interfaces"))?;
    for (interface, mut left) in find(interfaces) {
        // A router that starts meanwhile keeps off as long.
        if !claims.take(interface.index)? {
            continue;
        }
        left.unblock(&interface);
        let mut leave = || {
            left.leave_filters(&interface)?;
            left.leave_first_place(&interface)
        };
        leave().map_err(Error::system("cannot take away what a killed router has left"))?;
        cleaned.push(interface.name);
    }
    // By name, as `status` names them.
    cleaned.sort();
    Ok(cleaned)
}

fn interfaces() -> io::Result<Vec<Interface>> {
    Ok(Netlink::open()?.interfaces()?.into_values().collect())
}

/// The remains at interfaces that no router serves.
fn find(interfaces: Vec<Interface>) -> Vec<(Interface, Left)> {
    let unserved = interfaces.into_iter().filter(|interface| !claims::is_taken(interface.index));
    let left = unserved.map(|interface| {
        let left = Left::at(&interface);
        (interface, left)
    });
    left.filter(|(_, left)| !left.is_empty()).collect()
}

/// The remains of killed routers in the form in which they are told.
fn remains(left: &[(Interface, Left)]) -> Remains {
    let leases: Option<Vec<u64>> = left.iter().flat_map(|(_, left)| left.leases()).collect();
    Remains {
        interfaces: left.iter().map(|(interface, _)| interface.name.clone()).collect(),
        lease_ends_ns: leases.map(|ends| ends.into_iter().max().unwrap_or_default()),
    }
}
