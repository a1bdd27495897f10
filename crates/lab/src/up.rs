//! Building a lab. Three steps, each over all nodes at once: namespaces with their settings; bridges
//! and cables, which the kernel makes one after the other whoever asks; addresses and routes.

use std::os::fd::{AsFd, AsRawFd};

use crate::error::{Error, Result};
use crate::loss::{LossObjects, Losses};
use crate::namespace::{self, Namespace};
use crate::neighbours::Neighbours;
use crate::netlink::{self, Batch, Bridge, End, Netlink, Port};
use crate::parallel;
use crate::plan::{Cable, CableEnd, LabNode, Plan, PlannedPort, mac};
use crate::routes::{self, Route};
use crate::topology::{Quality, Role, Topology};

/// All links of a lab are in this group, to be deleted at once.
pub(crate) const LINK_GROUP: u32 = 0x7ca5;

/// Settings of a router's namespace. Hosts get none: the kernel's defaults suit them, and it takes
/// longer to find a setting's file in a new namespace than to make the namespace.
const ROUTER_SETTINGS: [(&str, &str); 6] = [
    ("ipv6/conf/all/forwarding", "1"),
    ("ipv4/ip_forward", "1"),
    ("ipv4/conf/all/rp_filter", "0"),
    ("ipv4/conf/default/rp_filter", "0"),
    ("ipv4/igmp_max_memberships", "4096"),
    ("ipv4/igmp_max_msf", "512"),
];

/// What a node is configured through.
struct Handle {
    namespace: Namespace,
    netlink: Netlink,
}

/// Makes everything in `plan`, which is that of `topology`. Returns what loses packets, if anything does.
pub(crate) fn build(topology: &Topology, plan: &Plan) -> Result<Option<LossObjects>> {
    let files = 2 * plan.nodes.len() as u64 + 256;
    namespace::raise_file_limit(files)
        .map_err(Error::system(format!("open {files} files: raise `ulimit -Hn`")))?;
    namespace::prepare_directory().map_err(Error::system("prepare /run/netns"))?;
    let names: Vec<&str> = plan.namespaces().collect();
    namespace::reserve(&names).map_err(Error::system("name the namespaces in /run/netns"))?;
    let handles = parallel::map(plan.nodes.len(), |node| make_namespace(&plan.nodes[node]))?;
    parallel::aside(|| make_links(plan, &handles))?;
    let losses = load_losses(plan)?;
    let routes = routes::compute(topology);
    let neighbours = Neighbours::of(plan);
    parallel::map(plan.nodes.len(), |node| {
        let mut batch = Batch::default();
        for interface in &plan.nodes[node].interfaces {
            if let Some(losses) = losses.as_ref().filter(|_| !interface.quality.loss.is_none()) {
                lose(&mut batch, interface.index, losses);
            }
        }
        configure(&mut batch, &plan.nodes[node], &routes[node]);
        neighbours.add(&mut batch, &plan.nodes[node]);
        handles[node]
            .netlink
            .run(batch)
            .map_err(Error::system(format!("configure {}", plan.nodes[node].namespace)))
    })?;
    Ok(losses.map(|losses| losses.objects()))
}

/// Loads the program that loses packets where an interface needs it, and tells it of those.
fn load_losses(plan: &Plan) -> Result<Option<Losses>> {
    let interfaces = plan.nodes.iter().flat_map(|node| &node.interfaces);
    let losing: Vec<_> = interfaces.filter(|interface| !interface.quality.loss.is_none()).collect();
    if losing.is_empty() {
        return Ok(None);
    }
    let mut losses = Losses::load(plan.interfaces_end())?;
    for interface in losing {
        losses.set(interface.index, interface.quality.loss)?;
    }
    Ok(Some(losses))
}

/// Has what arrives at interface `index` go through the loss program.
pub(crate) fn lose(batch: &mut Batch, index: u32, losses: &Losses) {
    netlink::add_clsact(batch, index);
    netlink::add_ingress_filter(batch, index, losses.program());
}

fn make_namespace(node: &LabNode) -> Result<Handle> {
    let make = || {
        let namespace = Namespace::create(&node.namespace)?;
        for (name, value) in ROUTER_SETTINGS.iter().filter(|_| node.role == Role::Router) {
            namespace::write_setting(name, value)?;
        }
        Ok(Handle { namespace, netlink: Netlink::open()? })
    };
    make().map_err(Error::system(format!("make namespace {}", node.namespace)))
}

/// Makes the switch, which holds all bridges, and all cables from there. Must run on a thread of its own.
fn make_links(plan: &Plan, nodes: &[Handle]) -> Result<()> {
    let action = || format!("make namespace {}", plan.switch);
    let switch = Namespace::create(&plan.switch).map_err(Error::system(action()))?;
    // Ports carry the packets of others and need no addresses of their own.
    namespace::write_setting("ipv6/conf/default/disable_ipv6", "1").map_err(Error::system(action()))?;
    let netlink = Netlink::open().map_err(Error::system(action()))?;
    let mut batch = Batch::default();
    for bridge in &plan.bridges {
        let (name, index, mac) = (&bridge.name, bridge.index, mac(2, bridge.index));
        netlink::add_bridge(
            &mut batch,
            &Bridge { name, index, mac, group: LINK_GROUP, querier: bridge.querier },
        );
    }
    netlink.run(batch).map_err(Error::system("make the bridges"))?;
    for bridge in plan.bridges.iter().filter(|bridge| bridge.querier) {
        // An MLD query needs a link-local address to come from.
        let setting = format!("ipv6/conf/{}/disable_ipv6", bridge.name);
        namespace::write_setting(&setting, "0")
            .map_err(Error::system(format!("prepare bridge {}", bridge.name)))?;
    }
    let mut batch = Batch::default();
    for bridge in &plan.bridges {
        netlink::set_up(&mut batch, bridge.index, true);
    }
    for cable in &plan.cables {
        add_cable(&mut batch, plan, cable, &switch, nodes);
    }
    netlink.run(batch).map_err(Error::system("make the cables"))
}

fn add_cable(batch: &mut Batch, plan: &Plan, cable: &Cable, switch: &Namespace, nodes: &[Handle]) {
    let [far, near] = [0, 1].map(|end| describe(plan, cable, end, switch, nodes));
    netlink::add_veth(batch, &near, &far);
    if let CableEnd::Port(port) = &cable.ends[1] {
        if !near.up {
            limit(batch, port.index, &cable.quality[1]);
            netlink::set_up(batch, port.index, true);
        }
        if port.hears_all {
            netlink::set_port_router(batch, &Port { index: port.index });
        }
    }
}

fn describe<'a>(
    plan: &'a Plan,
    cable: &'a Cable,
    end: usize,
    switch: &'a Namespace,
    nodes: &'a [Handle],
) -> End<'a> {
    let (name, index, namespace, master) = match &cable.ends[end] {
        CableEnd::Node(node, interface) => {
            let interface = &plan.nodes[*node].interfaces[*interface];
            (&interface.name, interface.index, &nodes[*node].namespace, None)
        }
        CableEnd::Port(PlannedPort { name, index, bridge, .. }) => {
            (name, *index, switch, Some(plan.bridges[*bridge].index))
        }
    };
    End {
        name,
        index,
        mac: mac(u8::from(master.is_some()), index),
        namespace: namespace.as_fd().as_raw_fd(),
        master,
        group: LINK_GROUP,
        splits_super_packets: !cable.quality[1 - end].loss.is_none(),
        // A node sets its end up itself. A queueing discipline is changed at no cost only before that.
        up: master.is_some() && cable.quality[end].rate_bps.is_none(),
    }
}

/// Limits what leaves through interface `index`.
pub(crate) fn limit(batch: &mut Batch, index: u32, quality: &Quality) {
    /// Two super-packets with the headers of their datagrams, so that none is cut to pieces.
    const MIN_BURST_BYTES: u64 = 128 * 1024;
    let Some(rate_bps) = quality.rate_bps else { return };
    let one_millisecond = rate_bps / 8 / 1000;
    let burst_bytes = one_millisecond.max(MIN_BURST_BYTES) as u32;
    netlink::add_tbf(batch, index, rate_bps, burst_bytes, quality.queue_bytes() as u32);
}

/// Everything inside a node once its interfaces are there. May be repeated.
pub(crate) fn configure(batch: &mut Batch, node: &LabNode, routes: &[Route]) {
    const LOOPBACK: u32 = 1;
    netlink::set_up(batch, LOOPBACK, true);
    for address in &node.loopback_v6 {
        netlink::add_address(batch, LOOPBACK, (*address).into(), 128);
    }
    for interface in &node.interfaces {
        limit(batch, interface.index, &interface.quality);
        // The lab gives no address twice: without this, the kernel looks for a second second.
        netlink::disable_automatic_address(batch, interface.index);
        netlink::set_up(batch, interface.index, true);
        netlink::add_address(batch, interface.index, interface.link_local().into(), 64);
        for (address, length) in interface.addresses() {
            netlink::add_address(batch, interface.index, address, length);
        }
    }
    for route in routes {
        let index = node.interfaces[route.interface].index;
        netlink::add_route(batch, route.prefix, route.length, route.gateway, index);
    }
    let has_default = routes.iter().any(|route| route.prefix.is_ipv4() && route.length == 0);
    if let Some(first) = node.interfaces.first().filter(|_| !has_default) {
        netlink::add_multicast_route(batch, first.index);
    }
}
