//! What the MEADcast sender tells a person or a program.

use std::{net::Ipv6Addr, time::Instant};

use serde_json::{Value, json};
use treecast_driver::{
    explicit::{Notice, Totals},
    words::some_of,
};
use treecast_proto::explicit::{
    lists::{List, TransmissionGroup},
    mead::tree::Tree,
};

use crate::arguments::counted;

/// Bytes of both headers.
const IP_AND_UDP_LEN: usize = 48;

/// Receivers that a line names.
const NAMED: usize = 3;

pub struct Display {
    prints_groups: bool,
    prints_tree: bool,
    is_xcast: bool,
    as_json: bool,
    /// When the sender became ready.
    began: Instant,
}

impl Display {
    pub fn new(prints_groups: bool, prints_tree: bool, is_xcast: bool, as_json: bool) -> Self {
        Self { prints_groups, prints_tree, is_xcast, as_json, began: Instant::now() }
    }

    pub fn show(&mut self, notice: &Notice<'_>) {
        match notice {
            Notice::Warning(text) if self.as_json => say!("{}", json!({"event": "warning", "text": text})),
            Notice::Warning(text) => remark!("treecast mead: {text}"),
            Notice::Statistics(totals) if self.as_json => {
                say!("{}", self.totals_as_json("statistics", totals))
            }
            Notice::Statistics(totals) => self.print_data(totals),
            Notice::Narrow { receivers, mtu, tun_mtu, longest_by_mead } => match self.as_json {
                true => say!(
                    "{}",
                    json!({
                        "event": "narrow", "receivers": receivers, "mtu_bytes": mtu, "tun_mtu_bytes": tun_mtu,
                        "longest_by_mead_bytes": longest_by_mead,
                    })
                ),
                false => {
                    let by_unicast = match longest_by_mead + IP_AND_UDP_LEN < *tun_mtu as usize {
                        true => format!(
                            ", and datagrams of more than {longest_by_mead} bytes go there by unicast"
                        ),
                        false => String::new(),
                    };
                    let whom = some_of(receivers, NAMED);
                    remark!(
                        "treecast mead: only packets of up to {mtu} bytes fit on the way to {whom}: the device takes \
                         {tun_mtu} now{by_unicast}"
                    );
                }
            },
            Notice::Unreachable { receivers, why } => match self.as_json {
                true => say!(
                    "{}",
                    json!({"event": "unreachable", "receivers": receivers, "why": why.to_string()})
                ),
                false => remark!(
                    "treecast mead: {} cannot be reached: {why}; it is still sent to",
                    some_of(receivers, NAMED)
                ),
            },
            Notice::Ready { tun, mtu, source } => {
                self.began = Instant::now();
                match self.as_json {
                    true => {
                        say!("{}", json!({"event": "ready", "tun": tun, "mtu_bytes": mtu, "source": source}));
                    }
                    false => {
                        say!("ready: {tun} takes packets of up to {mtu} bytes, which leave from {source}")
                    }
                }
            }
            Notice::Group(group) => self.group(group),
            Notice::Tree(tree) if self.prints_tree => match self.as_json {
                true => say!("{}", json!({"event": "tree", "sender": node_as_json(tree, Tree::ROOT)})),
                false => print_tree(tree, Tree::ROOT, 0),
            },
            Notice::Tree(_) => {}
        }
    }

    fn group(&self, group: &TransmissionGroup) {
        if self.as_json {
            let list_as_json = if self.is_xcast { destinations_as_json } else { list_as_json };
            let lists: Vec<_> = group.lists.iter().map(list_as_json).collect();
            let (number, unicast) = (group.number, &group.unicast);
            let seconds = self.seconds();
            let mut event = json!({
                "event": "group", "number": number, "seconds": seconds, "lists": lists, "unicast": unicast,
            });
            if self.is_xcast {
                event["registered"] = json!(group.routers);
            }
            say!("{event}");
            return;
        }
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
            return say!("{}", self.totals_as_json("done", totals));
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

    fn totals_as_json(&self, event: &str, totals: &Totals) -> Value {
        let Totals {
            sent,
            packets,
            in_super_packets,
            overrun,
            refused,
            discovery_bytes,
            malformed,
            discovery,
            registrations,
        } = totals;
        let mut counts = json!({
            "event": event, "seconds": self.seconds(), "packets": packets,
            "in_super_packets": in_super_packets,
            "mead_packets": sent.mead_packets, "mead_bytes": sent.mead_bytes,
            "unicast_packets": sent.unicast_packets, "unicast_bytes": sent.unicast_bytes,
            "discoveries": discovery.discoveries, "discovery_packets": discovery.requests,
            "discovery_bytes": discovery_bytes, "responses": discovery.responses,
            "farewells": discovery.farewells,
            "late": discovery.late, "anomalous": discovery.anomalous, "malformed": malformed,
            "unproved": discovery.unproved, "replayed": discovery.replayed, "forged": discovery.forged,
            "stray": discovery.stray, "overrun_packets": overrun, "refused_packets": refused,
        });
        if self.is_xcast {
            counts["registrations"] = json!({
                "counted": registrations.registrations, "unwanted": registrations.unwanted,
                "forged": registrations.forged, "replayed": registrations.replayed,
            });
        }
        counts
    }

    /// What left, in a line.
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

    /// What packets to several are.
    fn protocol(&self) -> &'static str {
        if self.is_xcast { "Xcast" } else { "MEADcast" }
    }
}

fn list_as_text(list: &List) -> String {
    let entries = list.entries.iter().map(|(router, receivers)| format!("{router}: {}", joined(receivers)));
    let by_group = |(router, receivers): &(Ipv6Addr, Vec<Ipv6Addr>)| {
        format!("{router} by multicast: {}", joined(receivers))
    };
    entries.chain(list.designated.iter().map(by_group)).collect::<Vec<_>>().join("; ")
}

fn list_as_json(list: &List) -> Value {
    let entry =
        |(router, receivers): &(Ipv6Addr, Vec<Ipv6Addr>)| json!({"router": router, "receivers": receivers});
    let [entries, designated] =
        [&list.entries, &list.designated].map(|entries| entries.iter().map(entry).collect::<Vec<_>>());
    json!({"routers": entries, "designated": designated, "dont_replicate": list.dont_replicate})
}

fn destinations_as_text(list: &List) -> String {
    joined(&list.receivers().collect::<Vec<_>>())
}

fn destinations_as_json(list: &List) -> Value {
    json!({"destinations": list.receivers().collect::<Vec<_>>()})
}

fn joined(addresses: &[Ipv6Addr]) -> String {
    addresses.iter().map(Ipv6Addr::to_string).collect::<Vec<_>>().join(" ")
}

/// At most as deep as hops are counted.
fn print_tree(tree: &Tree, index: usize, depth: usize) {
    let node = tree.node(index);
    let what = if index == Tree::ROOT { "sender".to_owned() } else { format!("router, hop {}", node.hops) };
    say!("{}{} ({what})", "  ".repeat(depth), node.address);
    for leaf in &node.leaves {
        say!("{}{leaf}", "  ".repeat(depth + 1));
    }
    node.children.iter().for_each(|child| print_tree(tree, *child, depth + 1));
}

fn node_as_json(tree: &Tree, index: usize) -> Value {
    let node = tree.node(index);
    let routers: Vec<_> = node.children.iter().map(|child| node_as_json(tree, *child)).collect();
    json!({"address": node.address, "hops": node.hops, "receivers": node.leaves, "routers": routers})
}
