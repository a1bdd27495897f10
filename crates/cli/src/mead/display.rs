//! The output of the MEADcast sender, for a person or a program.

use std::{net::Ipv6Addr, time::Instant};

use treecast_driver::{
    explicit::{
        Notice, Totals,
        event::{Counted, MeadEvent},
    },
    words::some_of,
};
use treecast_proto::explicit::{
    lists::{List, TransmissionGroup},
    mead::tree::Tree,
};

use crate::{arguments::counted, output::Lines};

/// The bytes of an IPv6 header and a UDP header.
const IP_AND_UDP_LEN: usize = 48;

/// The largest number of receivers that a line names.
const NAMED: usize = 3;

pub struct Display {
    prints_groups: bool,
    prints_tree: bool,
    is_xcast: bool,
    as_json: bool,
    /// The time when the sender became ready.
    began: Instant,
}

impl Display {
    pub fn new(prints_groups: bool, prints_tree: bool, is_xcast: bool, as_json: bool) -> Self {
        Self { prints_groups, prints_tree, is_xcast, as_json, began: Instant::now() }
    }

    pub fn show(&mut self, notice: &Notice<'_>) {
        if matches!(notice, Notice::Ready { .. }) {
            self.began = Instant::now();
        }
        let is_hidden = matches!(notice, Notice::Tree(_)) && !self.prints_tree;
        match self.as_json {
            _ if is_hidden => {}
            true => print(&MeadEvent::new(notice, self.is_xcast, self.seconds())),
            false => self.show_as_text(notice),
        }
    }

    fn show_as_text(&self, notice: &Notice<'_>) {
        match notice {
            Notice::Warning(text) => remark!("treecast mead: {text}"),
            Notice::Statistics(totals) => self.print_data(totals),
            Notice::Narrow { receivers, mtu, tun_mtu, longest_by_mead } => {
                let by_unicast = match longest_by_mead + IP_AND_UDP_LEN < *tun_mtu as usize {
                    true => {
                        format!(", and datagrams of more than {longest_by_mead} bytes go there by unicast")
                    }
                    false => String::new(),
                };
                let whom = some_of(receivers, NAMED);
                remark!(
                    "treecast mead: only packets of up to {mtu} bytes fit on the way to {whom}: the device takes \
                     {tun_mtu} now{by_unicast}"
                );
            }
            Notice::Unreachable { receivers, why } => {
                let whom = some_of(receivers, NAMED);
                remark!("treecast mead: {whom} cannot be reached: {why}; it is still sent to");
            }
            Notice::Ready { tun, mtu, source } => {
                say!("ready: {tun} takes packets of up to {mtu} bytes, which leave from {source}");
            }
            Notice::Group(group) => self.group(group),
            Notice::Tree(tree) => print_tree(tree, Tree::ROOT, 0),
        }
    }

    fn group(&self, group: &TransmissionGroup) {
        let in_lists = counted(group.in_lists(), "receiver");
        let packets = counted(group.lists.len(), "packet");
        let unicast = group.unicast.len();
        let registered = match group.routers.len() {
            0 => String::new(),
            count => format!(", {} registered", counted(count, "router")),
        };
        let protocol = self.protocol();
        say!(
            "group {}: {in_lists} by {protocol} in {packets}, {unicast} by unicast{registered}",
            group.number
        );
        if self.prints_groups {
            for list in &group.lists {
                say!("  {}", if self.is_xcast { destinations_as_text(list) } else { list_as_text(list) });
            }
            if !group.routers.is_empty() {
                say!("  registered: {}", joined(&group.routers));
            }
            if unicast > 0 {
                say!("  unicast: {}", joined(&group.unicast));
            }
        }
    }

    pub fn end(&self, totals: &Totals) {
        if self.as_json {
            return print(&MeadEvent::Done(Counted::new(totals, self.is_xcast, self.seconds())));
        }
        self.print_data(totals);
        let Totals { overrun, refused, malformed, discovery, registrations, .. } = totals;
        let dropped = [
            ("late", discovery.late),
            ("anomalous", discovery.anomalous),
            ("malformed", *malformed),
            ("unproved", discovery.unproved),
            ("replayed", discovery.replayed),
            ("forged", discovery.forged),
        ];
        for (what, count) in dropped.into_iter().filter(|(_, count)| *count > 0) {
            say!("Responses dropped, {what}: {count}.");
        }
        let dropped = [
            ("for another channel, or too many", registrations.unwanted),
            ("forged", registrations.forged),
            ("replayed", registrations.replayed),
        ];
        for (what, count) in dropped.into_iter().filter(|(_, count)| *count > 0) {
            say!("Registrations dropped, {what}: {count}.");
        }
        if *overrun > 0 {
            say!("Packets lost because programs sent faster than they could leave: {overrun}.");
        }
        if *refused > 0 {
            say!("Packets that the kernel refused: {refused}.");
        }
    }

    fn seconds(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    /// Prints how much data has left, in a line.
    fn print_data(&self, totals: &Totals) {
        let Totals { sent, packets, discovery_bytes, discovery, .. } = totals;
        let data = |packets, bytes| format!("{packets} packets ({bytes} bytes)");
        let of_discovery = match self.is_xcast {
            true => String::new(),
            false => format!("; {} of discovery", data(discovery.requests, *discovery_bytes)),
        };
        say!(
            "{packets} packets of programs: {} by {}, {} by unicast{of_discovery}",
            data(sent.mead_packets, sent.mead_bytes),
            self.protocol(),
            data(sent.unicast_packets, sent.unicast_bytes),
        );
    }

    /// The name of the protocol of packets to several receivers.
    fn protocol(&self) -> &'static str {
        if self.is_xcast { "Xcast" } else { "MEADcast" }
    }
}

fn print(event: &MeadEvent) {
    Lines::default().add(event, false);
}

fn list_as_text(list: &List) -> String {
    let entries = list.entries.iter().map(|(router, receivers)| format!("{router}: {}", joined(receivers)));
    let by_group = |(router, receivers): &(Ipv6Addr, Vec<Ipv6Addr>)| {
        format!("{router} by multicast: {}", joined(receivers))
    };
    entries.chain(list.designated.iter().map(by_group)).collect::<Vec<_>>().join("; ")
}

fn destinations_as_text(list: &List) -> String {
    joined(&list.receivers().collect::<Vec<_>>())
}

fn joined(addresses: &[Ipv6Addr]) -> String {
    addresses.iter().map(Ipv6Addr::to_string).collect::<Vec<_>>().join(" ")
}

/// Prints a part of the tree. The recursion is at most as deep as the largest number of hops.
fn print_tree(tree: &Tree, index: usize, depth: usize) {
    let node = tree.node(index);
    let what = if index == Tree::ROOT { "sender".to_owned() } else { format!("router, hop {}", node.hops) };
    say!("{}{} ({what})", "  ".repeat(depth), node.address);
    for leaf in &node.leaves {
        say!("{}{leaf}", "  ".repeat(depth + 1));
    }
    node.children.iter().for_each(|child| print_tree(tree, *child, depth + 1));
}
