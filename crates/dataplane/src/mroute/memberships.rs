//! What this router listens to itself: the kernel is asked to, and sends the reports (RFC 4605, 4.1).
//!
//! The sockets receive nothing; they only hold memberships, of which IPv4 allows 20 each by default.

use std::{
    collections::{BTreeMap, btree_map},
    io,
    net::IpAddr,
};

use socket2::{Domain, Socket, Type};
use treecast_proto::membership::{Filter, Mode};

use super::sys;

const MCAST_JOIN_GROUP: i32 = 42;
const MCAST_LEAVE_GROUP: i32 = 45;
const MCAST_JOIN_SOURCE_GROUP: i32 = 46;
const MCAST_MSFILTER: i32 = 48;

/// Memberships of one address family.
#[derive(Debug)]
pub struct Memberships {
    level: i32,
    domain: Domain,
    sockets: Vec<Holder>,
    /// The socket that holds the membership of an interface in a group.
    held: BTreeMap<(u32, IpAddr), usize>,
}

#[derive(Debug)]
struct Holder {
    socket: Socket,
    count: usize,
    /// Found out when the kernel refuses one more.
    capacity: usize,
}

/// How a change of a filter went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    AsWanted,
    /// The kernel takes no filter of that many sources, and now listens to all.
    AllSources,
}

impl Memberships {
    pub fn ipv4() -> Self {
        Self::new(libc::IPPROTO_IP, Domain::IPV4)
    }

    pub fn ipv6() -> Self {
        Self::new(libc::IPPROTO_IPV6, Domain::IPV6)
    }

    fn new(level: i32, domain: Domain) -> Self {
        Self { level, domain, sockets: Vec::new(), held: BTreeMap::new() }
    }

    /// Listens on `interface` to what `filter` passes of `group`, and to nothing else of it.
    ///
    /// # Errors
    /// When the kernel takes no further memberships; the interface then is no member.
    pub fn set(&mut self, interface: u32, group: IpAddr, filter: &Filter) -> io::Result<Outcome> {
        if filter.is_nothing() {
            self.leave(interface, group);
            return Ok(Outcome::AsWanted);
        }
        let holder = match self.held.get(&(interface, group)) {
            Some(holder) => *holder,
            None => {
                let holder = self.join(interface, group, filter)?;
                let is_complete = filter.sources.len() == usize::from(filter.mode == Mode::Include);
                if is_complete {
                    return Ok(Outcome::AsWanted);
                }
                holder
            }
        };
        let socket = &self.sockets[holder].socket;
        let request = filter_request(interface, group, filter);
        match sys::set_option_bytes(socket, self.level, MCAST_MSFILTER, &request) {
            Ok(()) => Ok(Outcome::AsWanted),
            Err(error) if is_no_room(&error) => {
                let request = filter_request(interface, group, &Filter::EVERYTHING);
                sys::set_option_bytes(socket, self.level, MCAST_MSFILTER, &request)?;
                Ok(Outcome::AllSources)
            }
            Err(error) => {
                self.leave(interface, group);
                Err(error)
            }
        }
    }

    /// Gives up all that is held on an interface that is down or gone.
    pub fn forget_interface(&mut self, interface: u32) {
        let groups = self.held.range((interface, lowest(self.domain))..);
        let groups: Vec<_> =
            groups.map_while(|((of, group), _)| (*of == interface).then_some(*group)).collect();
        groups.into_iter().for_each(|group| self.leave(interface, group));
    }

    fn leave(&mut self, interface: u32, group: IpAddr) {
        let btree_map::Entry::Occupied(held) = self.held.entry((interface, group)) else { return };
        let holder = &mut self.sockets[held.remove()];
        holder.count -= 1;
        // Fails when the interface is gone, and the membership with it.
        let request = group_request(interface, group);
        let _ = sys::set_option_bytes(&holder.socket, self.level, MCAST_LEAVE_GROUP, &request);
    }

    /// Joins with the first socket that has room, in the mode of `filter`, but with one source at most.
    fn join(&mut self, interface: u32, group: IpAddr, filter: &Filter) -> io::Result<usize> {
        let (name, request) = match (filter.mode, filter.sources.first()) {
            (Mode::Include, Some(source)) => {
                let request = [group_request(interface, group), sys::storage(*source).to_vec()].concat();
                (MCAST_JOIN_SOURCE_GROUP, request)
            }
            _ => (MCAST_JOIN_GROUP, group_request(interface, group)),
        };
        for (index, holder) in self.sockets.iter_mut().enumerate() {
            if holder.count >= holder.capacity {
                continue;
            }
            match sys::set_option_bytes(&holder.socket, self.level, name, &request) {
                Ok(()) => return Ok(self.joined(index, interface, group)),
                Err(error) if is_no_room(&error) => holder.capacity = holder.count,
                Err(error) => return Err(error),
            }
        }
        let socket = Socket::new(self.domain, Type::DGRAM, None)?;
        sys::set_option_bytes(&socket, self.level, name, &request)?;
        self.sockets.push(Holder { socket, count: 0, capacity: usize::MAX });
        Ok(self.joined(self.sockets.len() - 1, interface, group))
    }

    fn joined(&mut self, index: usize, interface: u32, group: IpAddr) -> usize {
        self.sockets[index].count += 1;
        self.held.insert((interface, group), index);
        index
    }
}

fn is_no_room(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOBUFS | libc::ENOMEM))
}

fn lowest(domain: Domain) -> IpAddr {
    if domain == Domain::IPV4 { IpAddr::from([0; 4]) } else { IpAddr::from([0; 16]) }
}

/// struct group_req: interface, 4 bytes of padding, group.
fn group_request(interface: u32, group: IpAddr) -> Vec<u8> {
    [&interface.to_ne_bytes()[..], &[0; 4], &sys::storage(group)].concat()
}

/// struct group_filter: as group_req, then mode, number of sources, sources.
fn filter_request(interface: u32, group: IpAddr, filter: &Filter) -> Vec<u8> {
    let mode = match filter.mode {
        Mode::Exclude => 0u32,
        Mode::Include => 1,
    };
    let mut request = group_request(interface, group);
    request.extend_from_slice(&mode.to_ne_bytes());
    request.extend_from_slice(&(filter.sources.len() as u32).to_ne_bytes());
    filter.sources.iter().for_each(|source| request.extend_from_slice(&sys::storage(*source)));
    request
}
