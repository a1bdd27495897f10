//! Builds a lab in three steps, each over all nodes at once: namespaces with their settings; bridges and
//! cables, which the kernel creates one after the other anyway; addresses and routes.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::AsRawFd;

use treecast_host::{
    namespace::{self, Namespace},
    netlink::{Batch, Netlink, requests},
    tcx,
};

use crate::error::{Error, Result};
use crate::links::{self, Handle};
use crate::loss::{LossObjects, Losses};
use crate::neighbours::Neighbours;
use crate::parallel;
use crate::plan::{LabNode, Plan};
use crate::routes::{self, Route, Routing};
use crate::topology::{Role, Topology};

/// The settings of a router's namespace. Hosts keep the kernel's defaults: finding a setting's file in a new
/// namespace takes longer than creating the namespace.
const ROUTER_SETTINGS: [(&str, &str); 6] = [
    ("ipv6/conf/all/forwarding", "1"),
    ("ipv4/ip_forward", "1"),
    ("ipv4/conf/all/rp_filter", "0"),
    ("ipv4/conf/default/rp_filter", "0"),
    ("ipv4/igmp_max_memberships", "4096"),
    ("ipv4/igmp_max_msf", "512"),
];

/// Reserves the names of all namespaces. If that fails, nothing is left to remove.
pub(crate) fn reserve(plan: &Plan) -> Result<()> {
    let names: Vec<&str> = plan.namespaces().collect();
    let reserved = namespace::prepare_directory().and_then(|()| namespace::reserve(&names));
    reserved.map_err(Error::system("name the namespaces in /run/netns"))
}

/// Builds everything in `plan`, which belongs to `topology`. Returns the loss program, if an interface loses
/// packets.
pub(crate) fn build(topology: &Topology, plan: &Plan, routing: Routing) -> Result<Option<LossObjects>> {
    let handles = parallel::map(plan.nodes.len(), |node| make_namespace(&plan.nodes[node]))?;
    parallel::aside(|| links::make(plan, &handles))?;
    let losses = load_losses(plan)?;
    let routes = routes::given(topology, routing, &BTreeSet::new());
    let neighbours = Neighbours::of(plan);
    parallel::map(plan.nodes.len(), |node| {
        for interface in &plan.nodes[node].interfaces {
            if let Some(losses) = losses.as_ref().filter(|_| !interface.quality.loss.is_none()) {
                let failed = Error::system(format!("lose packets in {}", plan.nodes[node].namespace));
                lose(&handles[node].namespace, interface.index, losses).map_err(failed)?;
            }
        }
        let mut batch = Batch::default();
        configure(&mut batch, plan, &plan.nodes[node], &routes[node]);
        neighbours.add(&mut batch, &plan.nodes[node]);
        handles[node]
            .netlink
            .run(batch)
            .map_err(Error::system(format!("configure {}", plan.nodes[node].namespace)))
    })?;
    Ok(losses.map(|losses| losses.objects()))
}

/// Loads the loss program if an interface needs it, and sets each interface's loss.
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

/// Attaches the loss program to interface `index` of a namespace. It sees packets before everything else, such
/// as a MEADcast router's program; in an old kernel it is the first filter.
pub(crate) fn lose(namespace: &Namespace, index: u32, losses: &Losses) -> io::Result<()> {
    parallel::aside(|| {
        namespace.enter()?;
        if tcx::attach(losses.program(), index, tcx::Place::First)? {
            return Ok(());
        }
        let mut batch = Batch::default();
        requests::add_clsact(&mut batch, index);
        requests::add_ingress_filter(&mut batch, index, losses.program().as_raw_fd());
        Netlink::open()?.run(batch)
    })
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

/// Configures a node once its interfaces exist. May be repeated.
pub(crate) fn configure(batch: &mut Batch, plan: &Plan, node: &LabNode, routes: &[Route]) {
    const LOOPBACK: u32 = 1;
    requests::set_up(batch, LOOPBACK, true);
    for address in &node.loopback_v6 {
        requests::add_address(batch, LOOPBACK, (*address).into(), 128);
    }
    for interface in &node.interfaces {
        links::hold_back(batch, interface.index, plan.sends_with(interface));
        // The lab gives no address twice. Without this setting, the kernel looks for a second owner of each
        // address for a second.
        requests::disable_automatic_address(batch, interface.index);
        requests::set_up(batch, interface.index, true);
        requests::add_address(batch, interface.index, interface.link_local().into(), 64);
        for (address, length) in interface.addresses() {
            requests::add_address(batch, interface.index, address, length);
        }
    }
    for route in routes {
        let index = node.interfaces[route.interface].index;
        requests::add_route(batch, route.prefix, route.length, route.gateway, index);
    }
    let has_default = routes.iter().any(|route| route.prefix.is_ipv4() && route.length == 0);
    if let Some(first) = node.interfaces.first().filter(|_| !has_default) {
        requests::add_multicast_route(batch, first.index);
    }
}
