//! Local groups (LGMP) in a placed session: their settings, and the addresses of members.

use std::{
    net::{IpAddr, Ipv6Addr},
    time::Duration,
};

use treecast_proto::{
    local::{self, Mode, Tuning},
    object::Address,
};
use treecast_wire::message::{GroupId, Member};

use super::deaths::Deaths;

/// The settings of a session with local groups, which take the place of the scenario's repair.
#[derive(Debug, Clone, Default)]
pub struct Local {
    pub mode: Mode,
    /// The places of the receivers, in the order of the scenario, where groups were made by hand. Empty where groups
    /// form by themselves.
    pub seats: Vec<PlacedSeat>,
    pub tuning: Tuning,
    /// The lowest rate of the sender, in bits of IP packets a second. With 0 no receiver has to leave.
    pub minimum_rate_bps: u64,
    /// The time that the sender waits for more receivers after the first, unless `wait_for` of them are there before.
    pub settling: Duration,
    /// `None` where the sender always waits for that time.
    pub wait_for: Option<u32>,
    /// The controllers that die. Their times count from the first block.
    pub deaths: Deaths,
}

impl Local {
    /// The number of members, besides its controller, of a group that was made by hand.
    pub(super) fn members_beside(&self, group: u32) -> u16 {
        let count = self.seats.iter().filter(|seat| seat.group == group).count();
        count.saturating_sub(1) as u16
    }

    /// The number of receivers in groups that were made by hand. `None` where groups form by themselves.
    pub(super) fn named(&self) -> Option<u32> {
        (!self.seats.is_empty()).then_some(self.seats.len() as u32)
    }
}

/// The place of a receiver in a group that was made by hand. Receivers are given by their numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlacedSeat {
    /// The number of the group, from 1.
    pub group: u32,
    pub controller: usize,
    /// The controller above. `None` for the sender.
    pub parent: Option<usize>,
}

/// The counts of a receiver in a session with local groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LocalFigures {
    pub machine: local::Figures,
    /// The number of data packets that were sent to the session's group, and to local groups while the receiver was in them.
    pub session_packets: u64,
    pub group_packets: u64,
    pub is_controller: bool,
    /// The most receivers and groups that have reported to it at one time.
    pub most_clients: usize,
}

/// The port of all members.
pub(super) const PORT: u16 = 5_000;

/// The address of the node with this number.
pub(crate) fn member(node: usize) -> Member {
    let [.., high, low] = [node as u32 >> 16, node as u32 & 0xffff].map(|half| half as u16);
    Member((Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, high, low), PORT).into())
}

/// The number of the node with this address.
pub(crate) fn node(member: Member) -> Option<usize> {
    let IpAddr::V6(address) = member.0.ip() else { return None };
    let [0xfd00, .., high, low] = address.segments() else { return None };
    Some((usize::from(high) << 16) | usize::from(low))
}

/// The local group that an address stands for. `None` for a single member.
pub(super) fn group(to: Address) -> Option<GroupId> {
    match to {
        Address::Session => Some(GroupId::SESSION),
        Address::Group(group) => Some(group),
        Address::Member(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_members_address_is_its_node() {
        assert!(
            [0, 7, 65_535, 65_536, 2_000_000].into_iter().all(|number| node(member(number)) == Some(number))
        );
        assert_eq!(node(Member(([192, 0, 2, 1], PORT).into())), None);
    }
}
