//! Tells the user of receivers that hear nothing, and get everything over their own connections.

use std::net::SocketAddr;

use treecast_wire::ticket::Fanout;

use super::{
    super::{
        super::{Plan, ReceiverProgress},
        core::Core,
    },
    Peers,
};
use crate::{remedies::OTHER_FAMILY, udp::GroupAddress};

/// The number of receivers that a line names. The others are counted.
const MOST_NAMED: usize = 5;

impl Peers {
    /// Names the receivers that have newly turned out to hear nothing, in one line. `receivers` has a row for each receiver.
    pub fn warn_of_deaf(&mut self, receivers: &[ReceiverProgress], plan: &Plan, core: &mut Core<'_>) {
        let deaf = receivers.iter().zip(self.values_mut()).filter(|(seen, _)| seen.hears_nothing);
        let newly = deaf.filter_map(|(_, peer)| {
            let is_known = std::mem::replace(&mut peer.tally.is_told_deaf, true);
            (!is_known).then(|| (peer.name.clone(), peer.address))
        });
        let newly: Vec<_> = newly.collect();
        if !newly.is_empty() {
            core.warn(told_deaf(plan, &newly));
        }
    }
}

fn told_deaf(plan: &Plan, deaf: &[(String, SocketAddr)]) -> String {
    let GroupAddress { group, interface, .. } = &plan.group;
    let lacks_family = |(_, address): &&(String, SocketAddr)| address.is_ipv4() && group.is_ipv6();
    let has_group = plan.options.fanout.has_group();
    let remedy = match deaf.iter().find(lacks_family).filter(|_| has_group) {
        Some((name, _)) => {
            format!(
                ". {name} has come over IPv4: give it an IPv6 address if it has none, {OTHER_FAMILY} IPv4"
            )
        }
        None => String::new(),
    };
    let names: Vec<_> = deaf.iter().take(MOST_NAMED).map(|(name, _)| name.as_str()).collect();
    let more = match deaf.len() - names.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let (names, verb) = (names.join(", "), if deaf.len() == 1 { "hears" } else { "hear" });
    let what = match plan.options.fanout {
        Fanout::Multicast => format!("nothing of the group {group}, sent on {}", interface.name),
        _ => "no UDP packet of this session".to_owned(),
    };
    format!(
        "{names}{more} {verb} {what}: a firewall, a router or a switch drops them on the way. Everything goes there over TCP{remedy}"
    )
}
