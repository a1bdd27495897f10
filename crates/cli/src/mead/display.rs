//! The output of the MEADcast sender, for a person or a program.

use std::net::Ipv6Addr;

use treecast_driver::{
    explicit::event::{Branch, Counted, Group, Listed, MeadEvent, Served},
    words::some_of,
};

use crate::{advice::advised, arguments::counted, output::Lines};

/// The bytes of an IPv6 header and a UDP header.
const IP_AND_UDP_LEN: usize = 48;

/// The largest number of receivers that a line names.
const NAMED: usize = 3;

pub struct Display {
    prints_groups: bool,
    prints_tree: bool,
    is_xcast: bool,
    as_json: bool,
}

impl Display {
    pub fn new(prints_groups: bool, prints_tree: bool, is_xcast: bool, as_json: bool) -> Self {
        Self { prints_groups, prints_tree, is_xcast, as_json }
    }

    pub fn show(&self, event: &MeadEvent) {
        let is_hidden = matches!(event, MeadEvent::Tree { .. }) && !self.prints_tree;
        match self.as_json {
            _ if is_hidden => {}
            true => Lines::default().add(event, false),
            false => self.show_as_text(event),
        }
    }

    fn show_as_text(&self, event: &MeadEvent) {
        match event {
            MeadEvent::Warning(text) => remark!("treecast mead: {}", advised(text)),
            MeadEvent::Statistics(counted) => self.print_data(counted),
            MeadEvent::Narrow { receivers, mtu_bytes, tun_mtu_bytes, longest_by_mead_bytes } => {
                let by_unicast = match longest_by_mead_bytes + IP_AND_UDP_LEN < *tun_mtu_bytes as usize {
                    true => {
                        format!(
                            ", and datagrams of more than {longest_by_mead_bytes} bytes go there by unicast"
                        )
                    }
                    false => String::new(),
                };
                let whom = some_of(receivers, NAMED);
                remark!(
                    "treecast mead: only packets of up to {mtu_bytes} bytes fit on the way to {whom}: the device takes \
                     {tun_mtu_bytes} now{by_unicast}"
                );
            }
            MeadEvent::Unreachable { receivers, why } => {
                let whom = some_of(receivers, NAMED);
                remark!("treecast mead: {whom} cannot be reached: {why}; it is still sent to");
            }
            MeadEvent::Ready { tun, mtu_bytes, source } => {
                say!("ready: {tun} takes packets of up to {mtu_bytes} bytes, which leave from {source}");
            }
            MeadEvent::Group(group) => self.group(group),
            MeadEvent::Tree { sender } => print_tree(sender, 0),
            MeadEvent::Done(counted) => self.print_end(counted),
        }
    }

    fn group(&self, group: &Group) {
        let in_lists = counted(group.lists.iter().map(|list| receivers(list).count()).sum(), "receiver");
        let packets = counted(group.lists.len(), "packet");
        let unicast = group.unicast.len();
        let routers = group.registered.as_deref().unwrap_or_default();
        let registered = match routers.len() {
            0 => String::new(),
            count => format!(", {} registered", counted(count, "router")),
        };
        let protocol = self.protocol();
        say!(
            "group {}: {in_lists} by {protocol} in {packets}, {unicast} by unicast{registered}",
            group.number
        );
        if self.prints_groups {
            group.lists.iter().for_each(|list| say!("  {}", list_as_text(list)));
            if !routers.is_empty() {
                say!("  registered: {}", joined(routers));
            }
            if unicast > 0 {
                say!("  unicast: {}", joined(&group.unicast));
            }
        }
    }

    fn print_end(&self, counted: &Counted) {
        self.print_data(counted);
        let dropped = [
            ("late", counted.late),
            ("anomalous", counted.anomalous),
            ("malformed", counted.malformed),
            ("unproved", counted.unproved),
            ("replayed", counted.replayed),
            ("forged", counted.forged),
        ];
        for (what, count) in dropped.into_iter().filter(|(_, count)| *count > 0) {
            say!("Responses dropped, {what}: {count}.");
        }
        let registrations = counted.registrations.unwrap_or_default();
        let dropped = [
            ("for another channel, or too many", registrations.unwanted),
            ("forged", registrations.forged),
            ("replayed", registrations.replayed),
        ];
        for (what, count) in dropped.into_iter().filter(|(_, count)| *count > 0) {
            say!("Registrations dropped, {what}: {count}.");
        }
        if counted.overrun_packets > 0 {
            say!(
                "Packets lost because programs sent faster than they could leave: {}.",
                counted.overrun_packets
            );
        }
        if counted.refused_packets > 0 {
            say!("Packets that the kernel refused: {}.", counted.refused_packets);
        }
    }

    /// Prints how much data has left, in a line.
    fn print_data(&self, counted: &Counted) {
        let data = |packets, bytes| format!("{packets} packets ({bytes} bytes)");
        let of_discovery = match self.is_xcast {
            true => String::new(),
            false => format!("; {} of discovery", data(counted.discovery_packets, counted.discovery_bytes)),
        };
        say!(
            "{} packets of programs: {} by {}, {} by unicast{of_discovery}",
            counted.packets,
            data(counted.mead_packets, counted.mead_bytes),
            self.protocol(),
            data(counted.unicast_packets, counted.unicast_bytes),
        );
    }

    /// The name of the protocol of packets to several receivers.
    fn protocol(&self) -> &'static str {
        if self.is_xcast { "Xcast" } else { "MEADcast" }
    }
}

/// All receivers in a list.
fn receivers(list: &Listed) -> Box<dyn Iterator<Item = &Ipv6Addr> + '_> {
    match list {
        Listed::Mead { routers, designated, .. } => {
            Box::new(routers.iter().chain(designated).flat_map(|served| &served.receivers))
        }
        Listed::Xcast { destinations } => Box::new(destinations.iter()),
    }
}

fn list_as_text(list: &Listed) -> String {
    let Listed::Mead { routers, designated, .. } = list else {
        return joined(receivers(list));
    };
    let entries =
        routers.iter().map(|Served { router, receivers }| format!("{router}: {}", joined(receivers)));
    let by_group =
        |Served { router, receivers }: &Served| format!("{router} by multicast: {}", joined(receivers));
    entries.chain(designated.iter().map(by_group)).collect::<Vec<_>>().join("; ")
}

fn joined<'a>(addresses: impl IntoIterator<Item = &'a Ipv6Addr>) -> String {
    addresses.into_iter().map(Ipv6Addr::to_string).collect::<Vec<_>>().join(" ")
}

/// Prints a part of the tree. The recursion is at most as deep as the largest number of hops.
fn print_tree(branch: &Branch, depth: usize) {
    let what = if depth == 0 { "sender".to_owned() } else { format!("router, hop {}", branch.hops) };
    say!("{}{} ({what})", "  ".repeat(depth), branch.address);
    for receiver in &branch.receivers {
        say!("{}{receiver}", "  ".repeat(depth + 1));
    }
    branch.routers.iter().for_each(|router| print_tree(router, depth + 1));
}
