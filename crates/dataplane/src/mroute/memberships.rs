//! What this router listens to itself: the kernel is asked to, and sends the reports (RFC 4605, 4.1).
//!
//! The sockets receive nothing; they only hold memberships. A kernel limits the memberships of a socket
//! (IPv4: 20) and the sources of a membership (IPv4: 10, IPv6: 64), but merges those of all sockets. So
//! there are as many sockets as it takes.

use std::{
    collections::{BTreeMap, BTreeSet},
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
    domain: Domain,
    sockets: Vec<Holder>,
    /// By interface and group: the parts that together make the filter, each in a socket of its own.
    held: BTreeMap<(u32, IpAddr), Vec<Part>>,
}

#[derive(Debug)]
struct Holder {
    socket: Socket,
    count: usize,
    /// Found out when the kernel refuses one more.
    capacity: usize,
}

#[derive(Debug)]
struct Part {
    /// Index of the socket.
    holder: usize,
    filter: Filter,
}

impl Memberships {
    pub fn ipv4() -> Self {
        Self::new(Domain::IPV4)
    }

    pub fn ipv6() -> Self {
        Self::new(Domain::IPV6)
    }

    fn new(domain: Domain) -> Self {
        Self { domain, sockets: Vec::new(), held: BTreeMap::new() }
    }

    /// Listens on `interface` to what `filter` passes of `group`, and to nothing else of it; where more
    /// sources are to be excluded than the kernel takes, to some of them, too.
    ///
    /// # Errors
    /// When the kernel takes no further memberships; the interface then listens to a part, or to nothing.
    pub fn set(&mut self, interface: u32, group: IpAddr, filter: &Filter) -> io::Result<()> {
        let mut parts = self.held.remove(&(interface, group)).unwrap_or_default();
        let wanted = partition(&parts, filter, self.max_sources());
        let count = wanted.len();
        let changed = self.change(interface, group, &mut parts, wanted);
        // Last, so that what another part has taken over is listened to all the time.
        for part in parts.drain(count.min(parts.len())..) {
            self.leave(interface, group, part.holder);
        }
        if !parts.is_empty() {
            self.held.insert((interface, group), parts);
        }
        changed
    }

    /// Gives up all that is held on an interface that is down or gone.
    pub fn forget_interface(&mut self, interface: u32) {
        let groups: Vec<_> = self.held.keys().filter(|(of, _)| *of == interface).copied().collect();
        for (interface, group) in groups {
            for part in self.held.remove(&(interface, group)).unwrap_or_default() {
                self.leave(interface, group, part.holder);
            }
        }
    }

    /// The system's setting that limits memberships or their sources.
    pub fn limiting_sysctls(&self) -> &'static str {
        match self.domain {
            Domain::IPV4 => "net.ipv4.igmp_max_memberships and net.ipv4.igmp_max_msf",
            _ => "net.core.optmem_max and net.ipv6.mld_max_msf",
        }
    }

    fn change(
        &mut self,
        interface: u32,
        group: IpAddr,
        parts: &mut Vec<Part>,
        wanted: Vec<Filter>,
    ) -> io::Result<()> {
        for (index, filter) in wanted.into_iter().enumerate() {
            if index == parts.len() {
                let used: BTreeSet<usize> = parts.iter().map(|part| part.holder).collect();
                let (holder, joined) = self.join(interface, group, &filter, &used)?;
                parts.push(Part { holder, filter: joined });
            }
            let part = &mut parts[index];
            if part.filter != filter {
                let request = filter_request(interface, group, &filter);
                let socket = &self.sockets[part.holder].socket;
                sys::set_option_bytes(socket, self.level(), MCAST_MSFILTER, &request)?;
                part.filter = filter;
            }
        }
        Ok(())
    }

    fn leave(&mut self, interface: u32, group: IpAddr, holder: usize) {
        let level = self.level();
        let holder = &mut self.sockets[holder];
        holder.count -= 1;
        // Fails when the interface is gone, and the membership with it.
        let request = group_request(interface, group);
        let _ = sys::set_option_bytes(&holder.socket, level, MCAST_LEAVE_GROUP, &request);
    }

    /// Joins with the first socket that has room and is not `used`, in the mode of `filter`, but with at most
    /// one source. Returns the socket and the filter that it has now.
    fn join(
        &mut self,
        interface: u32,
        group: IpAddr,
        filter: &Filter,
        used: &BTreeSet<usize>,
    ) -> io::Result<(usize, Filter)> {
        let level = self.level();
        let (name, request, joined) = match (filter.mode, filter.sources.first()) {
            (Mode::Include, Some(source)) => {
                let request = [group_request(interface, group), sys::storage(*source).to_vec()].concat();
                (MCAST_JOIN_SOURCE_GROUP, request, Filter::include([*source]))
            }
            _ => (MCAST_JOIN_GROUP, group_request(interface, group), Filter::EVERYTHING),
        };
        for (index, holder) in self.sockets.iter_mut().enumerate() {
            if holder.count >= holder.capacity || used.contains(&index) {
                continue;
            }
            match sys::set_option_bytes(&holder.socket, level, name, &request) {
                Ok(()) => {
                    holder.count += 1;
                    return Ok((index, joined));
                }
                Err(error) if is_no_room(&error) => holder.capacity = holder.count,
                Err(error) => return Err(error),
            }
        }
        let socket = Socket::new(self.domain, Type::DGRAM, None)?;
        sys::set_option_bytes(&socket, level, name, &request)?;
        self.sockets.push(Holder { socket, count: 1, capacity: usize::MAX });
        Ok((self.sockets.len() - 1, joined))
    }

    fn level(&self) -> i32 {
        if self.domain == Domain::IPV4 { libc::IPPROTO_IP } else { libc::IPPROTO_IPV6 }
    }

    /// The sources that a kernel lets a membership have, unless it is told otherwise.
    fn max_sources(&self) -> usize {
        if self.domain == Domain::IPV4 { 10 } else { 64 }
    }
}

/// Divides a filter among as few parts as hold it. Sources stay in the part where they are, so that no
/// report says that one is not wanted while it moves.
fn partition(parts: &[Part], filter: &Filter, max_sources: usize) -> Vec<Filter> {
    if filter.mode == Mode::Exclude {
        return vec![Filter::exclude(filter.sources.iter().copied().take(max_sources))];
    }
    let keep = |part: &Part| match part.filter.mode {
        Mode::Include => part.filter.sources.intersection(&filter.sources).copied().collect(),
        Mode::Exclude => BTreeSet::new(),
    };
    let mut divided: Vec<BTreeSet<IpAddr>> = parts.iter().map(keep).collect();
    let known: BTreeSet<IpAddr> = divided.iter().flatten().copied().collect();
    for source in filter.sources.difference(&known) {
        match divided.iter_mut().find(|part| part.len() < max_sources) {
            Some(part) => drop(part.insert(*source)),
            None => divided.push(BTreeSet::from([*source])),
        }
    }
    divided.retain(|part| !part.is_empty());
    divided.into_iter().map(Filter::include).collect()
}

fn is_no_room(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOBUFS | libc::ENOMEM))
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

#[cfg(test)]
mod tests {
    use super::*;

    fn sources(numbers: impl IntoIterator<Item = u8>) -> Vec<IpAddr> {
        numbers.into_iter().map(|last| IpAddr::from([192, 0, 2, last])).collect()
    }

    fn parts(filters: Vec<Filter>) -> Vec<Part> {
        filters.into_iter().enumerate().map(|(holder, filter)| Part { holder, filter }).collect()
    }

    #[test]
    fn a_long_list_is_divided_and_sources_stay_where_they_are() {
        let first = parts(partition(&[], &Filter::include(sources(10..35)), 10));
        let lens: Vec<_> = first.iter().map(|part| part.filter.sources.len()).collect();
        assert_eq!(lens, [10, 10, 5]);
        let second = partition(&first, &Filter::include(sources((1..3).chain(12..35))), 10);
        assert_eq!(second[0], Filter::include(sources((1..3).chain(12..20))));
        assert_eq!(second[1], first[1].filter);
        assert_eq!(second[2], first[2].filter);
    }

    #[test]
    fn modes_change_and_nothing_takes_no_part() {
        let all = parts(partition(&[], &Filter::exclude(sources(0..20)), 10));
        assert_eq!(all[0].filter, Filter::exclude(sources(0..10)), "a few more than wanted");
        let some = partition(&all, &Filter::include(sources([5])), 10);
        assert_eq!(some, [Filter::include(sources([5]))]);
        assert_eq!(partition(&parts(some), &Filter::NOTHING, 10), []);
        assert_eq!(partition(&[], &Filter::EVERYTHING, 10), [Filter::EVERYTHING]);
    }
}
