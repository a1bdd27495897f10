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
use crate::{
    remedies::{Advised, Remedy},
    udp::GroupAddress,
    words::some_of,
};

/// The number of receivers that a line names. The others are counted.
const MOST_NAMED: usize = 5;

impl Peers {
    /// Names the receivers that have newly turned out to hear nothing. `receivers` has a row for each receiver.
    pub fn warn_of_deaf(&mut self, receivers: &[ReceiverProgress], plan: &Plan, core: &mut Core<'_>) {
        let deaf = receivers.iter().zip(self.values_mut()).filter(|(seen, _)| seen.hears_nothing);
        let newly = deaf.filter_map(|(_, peer)| {
            let is_known = std::mem::replace(&mut peer.tally.is_told_deaf, true);
            (!is_known).then(|| (peer.name.clone(), peer.address))
        });
        let newly: Vec<_> = newly.collect();
        told_deaf(plan, &newly).into_iter().for_each(|line| core.warn(line));
    }
}

/// The reasons why receivers hear nothing, one line for each. Nobody else can be blamed where a receiver lacks the
/// group's family.
fn told_deaf(plan: &Plan, deaf: &[(String, SocketAddr)]) -> Vec<Advised> {
    let GroupAddress { group, interface, .. } = &plan.group;
    let takes_group = plan.options.fanout.has_group();
    let lacks_family = |address: &SocketAddr| takes_group && address.is_ipv4() && group.is_ipv6();
    let names = |of_other_family: bool| {
        let those = deaf.iter().filter(|(_, address)| lacks_family(address) == of_other_family);
        those.map(|(name, _)| name.as_str()).collect::<Vec<_>>()
    };
    let verb = |names: &[&str]| if names.len() == 1 { "hears" } else { "hear" };
    let (lacking, others) = (names(true), names(false));
    let mut lines = Vec::new();
    if !lacking.is_empty() {
        let (has, it, them) = match lacking.len() {
            1 => ("has", "it has", "it"),
            _ => ("have", "they have", "them"),
        };
        let line = format!(
            "{} {} nothing of the group {group}, which is IPv6, and {has} come over IPv4. Everything goes there over TCP: give {them} an \
             IPv6 address if {it} none, or have the session sent to a group of IPv4",
            some_of(&lacking, MOST_NAMED),
            verb(&lacking),
        );
        lines.push(Advised::by(Remedy::OtherFamily, line));
    }
    if !others.is_empty() {
        let what = match plan.options.fanout {
            Fanout::Multicast => format!("nothing of the group {group}, sent on {}", interface.name),
            _ => "no UDP packet of this session".to_owned(),
        };
        let line = format!(
            "{} {} {what}: a firewall, a router or a switch drops them on the way. Everything goes there over TCP",
            some_of(&others, MOST_NAMED),
            verb(&others),
        );
        lines.push(Advised::by(Remedy::FindLoss, line));
    }
    lines
}
