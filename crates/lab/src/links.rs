//! The links of a lab: bridges and relays' interfaces in the switch's namespace, and the cables.

use std::os::fd::{AsFd, AsRawFd};

use treecast_host::{
    namespace::{self, Namespace},
    netlink::{
        Batch, Netlink,
        requests::{self, Bridge, Delay, End, Port},
    },
};

use crate::error::{Error, Result};
use crate::plan::{Cable, CableEnd, Delaying, Plan, mac};
use crate::topology::{Quality, Topology};

/// The means to configure a node.
pub(crate) struct Handle {
    pub namespace: Namespace,
    pub netlink: Netlink,
}

/// The group of all links of a lab, so that they can be deleted at once.
pub(crate) const GROUP: u32 = 0x7ca5;

/// The means that delays the packets of `topology` on this machine.
pub(crate) fn delaying(topology: &Topology) -> Delaying {
    let mut members = topology.members();
    let is_delayed = members.any(|member| member.quality.is_delayed());
    if !is_delayed || has_netem().unwrap_or(false) { Delaying::Netem } else { Delaying::Relay }
}

/// Tries netem in a private namespace. That also loads the kernel's module.
fn has_netem() -> std::io::Result<bool> {
    const LOOPBACK: u32 = 1;
    crate::parallel::aside(|| {
        Namespace::enter_new()?;
        let mut batch = Batch::default();
        requests::add_netem(&mut batch, LOOPBACK, Delay::default());
        Ok(Netlink::open()?.run(batch).is_ok())
    })
}

/// Creates the switch, which contains all bridges, and from there all cables. Must run on a thread of its own.
pub(crate) fn make(plan: &Plan, nodes: &[Handle]) -> Result<()> {
    let action = || format!("make namespace {}", plan.switch);
    let switch = Namespace::create(&plan.switch).map_err(Error::system(action()))?;
    // Ports carry the packets of other hosts, and need no addresses of their own.
    namespace::write_setting("ipv6/conf/default/disable_ipv6", "1").map_err(Error::system(action()))?;
    spare_packets_the_firewall();
    let netlink = Netlink::open().map_err(Error::system(action()))?;
    make_bridges(plan, &netlink)?;
    let mut batch = Batch::default();
    for bridge in &plan.bridges {
        if bridge.querier {
            requests::set_querier(&mut batch, bridge.index);
        }
        requests::set_up(&mut batch, bridge.index, true);
    }
    for cable in &plan.cables {
        add_cable(&mut batch, plan, cable, &switch, nodes);
    }
    netlink.run(batch).map_err(Error::system("make the cables"))
}

/// Keeps bridged packets away from the kernel's IP firewall (br_netfilter). A real switch has none, and the
/// firewall would make each packet of a LAN cost a twentieth more.
fn spare_packets_the_firewall() {
    for name in ["bridge/bridge-nf-call-iptables", "bridge/bridge-nf-call-ip6tables"] {
        // Most kernels do not have this setting.
        _ = namespace::write_setting(name, "0");
    }
}

fn make_bridges(plan: &Plan, netlink: &Netlink) -> Result<()> {
    let mut batch = Batch::default();
    for bridge in &plan.bridges {
        let (name, index, mac) = (&bridge.name, bridge.index, mac(2, bridge.index));
        requests::add_bridge(&mut batch, &Bridge { name, index, mac, group: GROUP });
    }
    netlink.run(batch).map_err(Error::system("make the bridges"))?;
    for bridge in plan.bridges.iter().filter(|bridge| bridge.querier) {
        // An MLD query needs a link-local address to come from.
        let setting = format!("ipv6/conf/{}/disable_ipv6", bridge.name);
        let set = namespace::write_setting(&setting, "0");
        set.map_err(Error::system(format!("prepare bridge {}", bridge.name)))?;
    }
    Ok(())
}

fn add_cable(batch: &mut Batch, plan: &Plan, cable: &Cable, switch: &Namespace, nodes: &[Handle]) {
    let [far, near] = [0, 1].map(|end| describe(plan, cable, end, switch, nodes));
    requests::add_veth(batch, &near, &far);
    // The kernel takes no master for the second interface of a pair that it makes.
    if let Some(master) = far.master {
        requests::set_master(batch, far.index, master);
    }
    for ((end, quality), made) in cable.ends.iter().zip(&cable.quality).zip([&far, &near]) {
        // A node sets its end up itself.
        let CableEnd::Switch(port) = end else { continue };
        if !made.up {
            hold_back(batch, port.index, quality);
            requests::set_up(batch, port.index, true);
        }
        if port.hears_all {
            requests::set_port_router(batch, &Port { index: port.index });
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
    let (kind, name, index, namespace, bridge) = match &cable.ends[end] {
        CableEnd::Node(node, interface) => {
            let interface = &plan.nodes[*node].interfaces[*interface];
            (0, &interface.name, interface.index, &nodes[*node].namespace, None)
        }
        CableEnd::Switch(port) => (1, &port.name, port.index, switch, port.bridge),
    };
    let sends_freely = cable.quality[end].rate_bps.is_none() && !cable.quality[end].is_delayed();
    End {
        name,
        index,
        mac: mac(kind, index),
        namespace: namespace.as_fd().as_raw_fd(),
        master: bridge.map(|bridge| plan.bridges[bridge].index),
        group: GROUP,
        splits_super_packets: cable.quality[end].single_packets || !cable.quality[1 - end].loss.is_none(),
        // A queueing discipline can be changed at no cost only while the link is down.
        up: end == 1 && kind == 1 && sends_freely,
    }
}

/// Limits and delays packets that leave through interface `index`.
pub(crate) fn hold_back(batch: &mut Batch, index: u32, quality: &Quality) {
    /// The smallest burst: two super-packets with the headers of their datagrams, so that none is divided.
    const MIN_BURST_BYTES: u64 = 128 * 1024;
    const FRAME_BYTES: u64 = 1514;
    /// Two frames, so that a timer that is slightly late does not reduce the rate.
    const TWO_FRAMES_BYTES: u64 = 2 * FRAME_BYTES;
    /// The rate below which super-packets are divided: two of them take more than a second there, and would pass a
    /// queue that drops single packets.
    const SLOW_BPS: u64 = 1_000_000;
    let parent = quality.is_delayed().then(|| requests::add_netem(batch, index, delay(quality)));
    let Some(rate_bps) = quality.rate_bps else { return };
    let one_millisecond = rate_bps / 8 / 1000;
    // Others' packets are single ones, and shorter than most. A queue of bytes would have room for them alone.
    let has_others = quality.background_bps.is_some();
    let is_divided = quality.single_packets || has_others || rate_bps < SLOW_BPS;
    let least = if is_divided { TWO_FRAMES_BYTES } else { MIN_BURST_BYTES };
    let burst_bytes = one_millisecond.max(least) as u32;
    requests::add_tbf(batch, index, parent, rate_bps, burst_bytes, quality.queue_bytes() as u32);
    if has_others {
        requests::add_packet_queue(batch, index, (quality.queue_bytes() / FRAME_BYTES).max(1) as u32);
    }
}

/// The delay that netem makes for a cable of this quality.
fn delay(quality: &Quality) -> Delay {
    Delay { delay: quality.delay, jitter: quality.jitter, held_packets: held_packets(quality) }
}

/// The largest number of packets under way: full packets at the cable's rate, and as many small ones, within
/// bounds.
fn held_packets(quality: &Quality) -> u32 {
    const FULL_PACKET_BITS: f64 = 1500.0 * 8.0;
    let seconds = (quality.delay + quality.jitter).as_secs_f64();
    let packets = 2.0 * quality.rate_bps.unwrap_or(10_000_000_000) as f64 * seconds / FULL_PACKET_BITS;
    (packets as u32).clamp(1_000, 200_000)
}
