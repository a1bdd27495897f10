//! Requests that change links, addresses, routes, neighbours and queueing disciplines. The constants come from
//! `linux/if_link.h`, `linux/if_bridge.h` and `linux/pkt_sched.h`, because the crate `libc` lacks them.

use std::{net::IpAddr, os::fd::RawFd, time::Duration};

use super::{
    message::{Attributes, Batch},
    queries::family_and_octets,
};

const CREATE: i32 = libc::NLM_F_CREATE | libc::NLM_F_EXCL;

const CREATE_OR_REPLACE: i32 = libc::NLM_F_CREATE | libc::NLM_F_REPLACE;

const VETH_INFO_PEER: u16 = 1;
const IFLA_GROUP: u16 = 27;
const IFLA_NET_NS_FD: u16 = 28;
const IFLA_NUM_TX_QUEUES: u16 = 31;
const IFLA_NUM_RX_QUEUES: u16 = 32;
const IFLA_GSO_MAX_SEGS: u16 = 40;
/// The kernel's default (`GSO_MAX_SEGS`).
const GSO_MAX_SEGS: u32 = 65_535;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_DATA: u16 = 2;
const IFLA_INFO_SLAVE_KIND: u16 = 4;
const IFLA_INFO_SLAVE_DATA: u16 = 5;
const IFLA_BR_MCAST_SNOOPING: u16 = 23;
const IFLA_BR_MCAST_QUERIER: u16 = 25;
const IFLA_BR_MCAST_HASH_MAX: u16 = 27;
const IFLA_BR_MCAST_STARTUP_QUERY_CNT: u16 = 29;
const IFLA_BR_MCAST_QUERY_RESPONSE_INTVL: u16 = 34;
const IFLA_BR_MCAST_STARTUP_QUERY_INTVL: u16 = 35;
/// The time in which listeners answer a bridge (`clock_t`). The bridge floods every group until it has asked
/// and waited for this time.
const RESPONSE_CENTISECONDS: u64 = 100;
/// The number of a bridge's first queries. The first one comes before the bridge has an address to ask from, so
/// others follow soon.
const STARTUP_QUERIES: u32 = 10;
const STARTUP_CENTISECONDS: u64 = 100;
/// The number of groups that a bridge remembers. One that hears of more stops snooping; the kernel's default is 4096.
const MAX_GROUPS: u32 = 1 << 16;
const IFLA_BR_MCAST_IGMP_VERSION: u16 = 43;
const IFLA_BR_MCAST_MLD_VERSION: u16 = 44;
const IFLA_BRPORT_MULTICAST_ROUTER: u16 = 25;
/// `MDB_RTR_TYPE_PERM`: the port is always treated as leading to a multicast router.
const ROUTER_PERMANENT: u8 = 2;

const TCA_TBF_PARMS: u16 = 1;
const TCA_TBF_RATE64: u16 = 4;
const TCA_TBF_BURST: u16 = 6;
const TC_H_ROOT: u32 = 0xffff_ffff;
const TC_H_CLSACT: u32 = 0xffff_fff1;
const TC_LINKLAYER_ETHERNET: u8 = 1;

/// A LAN's bridge.
pub struct Bridge<'a> {
    pub name: &'a str,
    pub index: u32,
    pub mac: [u8; 6],
    pub group: u32,
}

/// One end of a veth pair. It is created in its namespace at once, and not moved there.
pub struct End<'a> {
    pub name: &'a str,
    pub index: u32,
    pub mac: [u8; 6],
    pub namespace: RawFd,
    /// The bridge that this end is a port of, in the same namespace.
    pub master: Option<u32>,
    /// Number of the group of links. The lab deletes all links of a group in one request.
    pub group: u32,
    /// Whether super-packets are divided into datagrams before they leave through this end.
    pub splits_super_packets: bool,
    pub up: bool,
}

/// Whether the port's bridge always sends every group through it.
pub struct Port {
    pub index: u32,
}

pub fn add_bridge(batch: &mut Batch, bridge: &Bridge) {
    let what = format!("add bridge {}", bridge.name);
    batch.request(what, libc::RTM_NEWLINK, CREATE, &link_header(bridge.index, false), |attributes| {
        attributes.text(libc::IFLA_IFNAME, bridge.name);
        attributes.bytes(libc::IFLA_ADDRESS, &bridge.mac);
        attributes.u32(IFLA_GROUP, bridge.group);
        attributes.nest(libc::IFLA_LINKINFO, |info| {
            info.text(IFLA_INFO_KIND, "bridge");
            info.nest(IFLA_INFO_DATA, |data| {
                data.u8(IFLA_BR_MCAST_SNOOPING, 1);
                data.u32(IFLA_BR_MCAST_HASH_MAX, MAX_GROUPS);
                data.bytes(IFLA_BR_MCAST_QUERY_RESPONSE_INTVL, &RESPONSE_CENTISECONDS.to_ne_bytes());
                data.u32(IFLA_BR_MCAST_STARTUP_QUERY_CNT, STARTUP_QUERIES);
                data.bytes(IFLA_BR_MCAST_STARTUP_QUERY_INTVL, &STARTUP_CENTISECONDS.to_ne_bytes());
                data.u8(IFLA_BR_MCAST_IGMP_VERSION, 3);
                data.u8(IFLA_BR_MCAST_MLD_VERSION, 2);
            });
        });
    });
}

/// Makes a bridge ask for listeners. Snooping is useless if nobody asks.
pub fn set_querier(batch: &mut Batch, index: u32) {
    set_of_bridge(batch, format!("have bridge {index} ask for listeners"), index, IFLA_BR_MCAST_QUERIER, 1);
}

/// Makes a bridge send a group only to the ports with listeners, or to all ports.
pub fn set_snooping(batch: &mut Batch, index: u32, is_on: bool) {
    let what = format!("have bridge {index} snoop");
    set_of_bridge(batch, what, index, IFLA_BR_MCAST_SNOOPING, is_on.into());
}

/// Sets an attribute of one byte of a bridge.
fn set_of_bridge(batch: &mut Batch, what: String, index: u32, attribute: u16, value: u8) {
    batch.request(what, libc::RTM_NEWLINK, 0, &link_header(index, false), |attributes| {
        attributes.nest(libc::IFLA_LINKINFO, |info| {
            info.text(IFLA_INFO_KIND, "bridge");
            info.nest(IFLA_INFO_DATA, |data| data.u8(attribute, value));
        });
    });
}

/// Makes an interface a port of the bridge with index `master`.
pub fn set_master(batch: &mut Batch, index: u32, master: u32) {
    let what = format!("make interface {index} a port of bridge {master}");
    batch.request(what, libc::RTM_NEWLINK, 0, &link_header(index, false), |attributes| {
        attributes.u32(libc::IFLA_MASTER, master);
    });
}

pub fn add_veth(batch: &mut Batch, near: &End, far: &End) {
    let what = format!("join {} to {}", near.name, far.name);
    batch.request(what, libc::RTM_NEWLINK, CREATE, &link_header(near.index, near.up), |attributes| {
        end_attributes(attributes, near);
        if let Some(master) = near.master {
            attributes.u32(libc::IFLA_MASTER, master);
        }
        attributes.nest(libc::IFLA_LINKINFO, |info| {
            info.text(IFLA_INFO_KIND, "veth");
            info.nest(IFLA_INFO_DATA, |data| {
                data.nest(VETH_INFO_PEER, |peer| {
                    peer.raw(&link_header(far.index, far.up));
                    end_attributes(peer, far);
                });
            });
        });
    });
}

fn end_attributes(attributes: &mut Attributes, end: &End) {
    attributes.text(libc::IFLA_IFNAME, end.name);
    attributes.bytes(libc::IFLA_ADDRESS, &end.mac);
    attributes.u32(IFLA_NET_NS_FD, end.namespace as u32);
    attributes.u32(IFLA_GROUP, end.group);
    attributes.u32(IFLA_NUM_TX_QUEUES, 1);
    attributes.u32(IFLA_NUM_RX_QUEUES, 1);
    if end.splits_super_packets {
        attributes.u32(IFLA_GSO_MAX_SEGS, 1);
    }
}

pub fn set_up(batch: &mut Batch, index: u32, up: bool) {
    let what = format!("set interface {index} {}", if up { "up" } else { "down" });
    let mut header = link_header(index, up);
    header[12..16].copy_from_slice(&(libc::IFF_UP as u32).to_ne_bytes());
    batch.request(what, libc::RTM_NEWLINK, 0, &header, |_| ());
}

/// Prevents the kernel from giving the interface a link-local address. The kernel would not use that address
/// before it had asked whether another host has it.
pub fn disable_automatic_address(batch: &mut Batch, index: u32) {
    const IFLA_INET6_ADDR_GEN_MODE: u16 = 8;
    const IN6_ADDR_GEN_MODE_NONE: u8 = 1;
    let what = format!("disable automatic addresses of interface {index}");
    batch.request(what, libc::RTM_NEWLINK, 0, &link_header(index, false), |attributes| {
        attributes.nest(libc::IFLA_AF_SPEC, |families| {
            families.nest(libc::AF_INET6 as u16, |inet6| {
                inet6.u8(IFLA_INET6_ADDR_GEN_MODE, IN6_ADDR_GEN_MODE_NONE);
            });
        });
    });
}

pub fn set_port_router(batch: &mut Batch, port: &Port) {
    let what = format!("send every group to port {}", port.index);
    batch.request(what, libc::RTM_NEWLINK, 0, &link_header(port.index, false), |attributes| {
        attributes.nest(libc::IFLA_LINKINFO, |info| {
            info.text(IFLA_INFO_SLAVE_KIND, "bridge");
            info.nest(IFLA_INFO_SLAVE_DATA, |data| data.u8(IFLA_BRPORT_MULTICAST_ROUTER, ROUTER_PERMANENT));
        });
    });
}

/// Deletes every link of `group` in the socket's namespace, together with the other end of its cable.
pub fn delete_group(batch: &mut Batch, group: u32) {
    let what = format!("delete link group {group}");
    batch.request(what, libc::RTM_DELLINK, 0, &link_header(0, false), |attributes| {
        attributes.u32(IFLA_GROUP, group)
    });
}

/// `struct ifinfomsg`.
pub(super) fn link_header(index: u32, up: bool) -> [u8; 16] {
    let mut header = [0; 16];
    header[4..8].copy_from_slice(&index.to_ne_bytes());
    if up {
        header[8..12].copy_from_slice(&(libc::IFF_UP as u32).to_ne_bytes());
        header[12..16].copy_from_slice(&(libc::IFF_UP as u32).to_ne_bytes());
    }
    header
}

pub fn add_address(batch: &mut Batch, index: u32, address: IpAddr, prefix_length: u8) {
    const IFA_F_NODAD: u8 = 0x02;
    let what = format!("add {address}/{prefix_length} to interface {index}");
    let (family, bytes) = family_and_octets(address);
    let flags = if address.is_ipv6() { IFA_F_NODAD } else { 0 };
    let mut header = vec![family, prefix_length, flags, 0];
    header.extend(index.to_ne_bytes());
    batch.request(what, libc::RTM_NEWADDR, CREATE_OR_REPLACE, &header, |attributes| {
        attributes.bytes(libc::IFA_LOCAL, &bytes);
        attributes.bytes(libc::IFA_ADDRESS, &bytes);
    });
}

/// The times for which an address is used, in seconds. `u32::MAX`: for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lifetimes {
    /// New connections use the address for so long. 0: they avoid it.
    pub preferred_s: u32,
    pub valid_s: u32,
}

/// Adds an address with lifetimes, or changes the lifetimes of one that is there. The kernel asks whether another host has a new
/// address before it is used.
pub fn set_address(batch: &mut Batch, index: u32, address: IpAddr, prefix_length: u8, times: Lifetimes) {
    const IFA_CACHEINFO: u16 = 6;
    let what = format!("set {address}/{prefix_length} of interface {index}");
    let (family, bytes) = family_and_octets(address);
    let mut header = vec![family, prefix_length, 0, 0];
    header.extend(index.to_ne_bytes());
    // struct ifa_cacheinfo: preferred, valid, and two times that the kernel keeps.
    let times = [times.preferred_s, times.valid_s, 0, 0].map(u32::to_ne_bytes);
    batch.request(what, libc::RTM_NEWADDR, CREATE_OR_REPLACE, &header, |attributes| {
        attributes.bytes(libc::IFA_LOCAL, &bytes);
        attributes.bytes(libc::IFA_ADDRESS, &bytes);
        attributes.bytes(IFA_CACHEINFO, times.as_flattened());
    });
}

/// Removes an address.
pub fn delete_address(batch: &mut Batch, index: u32, address: IpAddr, prefix_length: u8) {
    let what = format!("remove {address}/{prefix_length} from interface {index}");
    let (family, bytes) = family_and_octets(address);
    let mut header = vec![family, prefix_length, 0, 0];
    header.extend(index.to_ne_bytes());
    batch.request(what, libc::RTM_DELADDR, 0, &header, |attributes| {
        attributes.bytes(libc::IFA_LOCAL, &bytes);
    });
}

/// Adds a route for `prefix/length` to `gateway`, which is on the network of interface `index`.
pub fn add_route(batch: &mut Batch, prefix: IpAddr, length: u8, gateway: IpAddr, index: u32) {
    let what = format!("route {prefix}/{length} via {gateway}");
    let (family, bytes) = family_and_octets(prefix);
    let header = route_header(family, length, libc::RT_SCOPE_UNIVERSE);
    batch.request(what, libc::RTM_NEWROUTE, CREATE_OR_REPLACE, &header, |attributes| {
        if length > 0 {
            attributes.bytes(libc::RTA_DST, &bytes);
        }
        attributes.bytes(libc::RTA_GATEWAY, &family_and_octets(gateway).1);
        attributes.u32(libc::RTA_OIF, index);
    });
}

/// Removes the route that [`add_route`] made for `prefix/length`.
pub fn delete_route(batch: &mut Batch, prefix: IpAddr, length: u8) {
    let what = format!("forget the route to {prefix}/{length}");
    let (family, bytes) = family_and_octets(prefix);
    batch.request(
        what,
        libc::RTM_DELROUTE,
        0,
        &route_header(family, length, libc::RT_SCOPE_UNIVERSE),
        |it| {
            if length > 0 {
                it.bytes(libc::RTA_DST, &bytes);
            }
        },
    );
}

/// Adds a route by which IPv4 groups leave through interface `index` if the program names no interface. IPv6
/// has such a route by itself.
pub fn add_multicast_route(batch: &mut Batch, index: u32) {
    let header = route_header(libc::AF_INET as u8, 4, libc::RT_SCOPE_LINK);
    batch.request("route 224.0.0.0/4".into(), libc::RTM_NEWROUTE, CREATE_OR_REPLACE, &header, |attributes| {
        attributes.bytes(libc::RTA_DST, &[224, 0, 0, 0]);
        attributes.u32(libc::RTA_OIF, index);
    });
}

/// `struct rtmsg`.
fn route_header(family: u8, length: u8, scope: u8) -> [u8; 12] {
    let mut header = [0; 12];
    header[0] = family;
    header[1] = length;
    header[4] = libc::RT_TABLE_MAIN;
    header[5] = libc::RTPROT_STATIC;
    header[6] = scope;
    header[7] = libc::RTN_UNICAST;
    header
}

/// Sets the link address of a neighbour permanently. Such entries do not count against the kernel's limit of
/// neighbours, which all namespaces share.
pub fn set_address_permanent(batch: &mut Batch, index: u32, address: IpAddr, mac: [u8; 6]) {
    const NDA_DST: u16 = 1;
    const NDA_LLADDR: u16 = 2;
    const NUD_PERMANENT: u16 = 0x80;
    let (family, bytes) = family_and_octets(address);
    let mut header = vec![family, 0, 0, 0];
    header.extend(index.to_ne_bytes());
    header.extend(NUD_PERMANENT.to_ne_bytes());
    header.extend([0, 0]);
    let what = format!("tell interface {index} of neighbour {address}");
    batch.request(
        what,
        libc::RTM_NEWNEIGH,
        libc::NLM_F_CREATE | libc::NLM_F_REPLACE,
        &header,
        |attributes| {
            attributes.bytes(NDA_DST, &bytes);
            attributes.bytes(NDA_LLADDR, &mac);
        },
    );
}

/// Limits the rate of packets that leave through interface `index`, and replaces an existing limit.
/// `burst_bytes` must be larger than a super-packet with its headers; otherwise super-packets are divided.
pub fn add_tbf(
    batch: &mut Batch,
    index: u32,
    parent: Option<Netem>,
    rate_bps: u64,
    burst_bytes: u32,
    queue_bytes: u32,
) {
    let bytes_per_second = rate_bps / 8;
    let mut parameters = Vec::with_capacity(36);
    parameters.extend([0, TC_LINKLAYER_ETHERNET]);
    parameters.extend([0; 6]);
    parameters.extend(u32::try_from(bytes_per_second).unwrap_or(u32::MAX).to_ne_bytes());
    parameters.extend([0; 12]);
    parameters.extend(queue_bytes.to_ne_bytes());
    parameters.extend([0; 8]);
    let what = format!("limit interface {index} to {rate_bps} bit/s");
    let header = queue_header(index, TBF_HANDLE, parent.map_or(TC_H_ROOT, |_| NETEM_HANDLE | 1));
    batch.request(what, libc::RTM_NEWQDISC, CREATE_OR_REPLACE, &header, |attributes| {
        attributes.text(libc::TCA_KIND, "tbf");
        attributes.nest(libc::TCA_OPTIONS, |options| {
            options.bytes(TCA_TBF_PARMS, &parameters);
            options.u32(TCA_TBF_BURST, burst_bytes);
            if u32::try_from(bytes_per_second).is_err() {
                options.bytes(TCA_TBF_RATE64, &bytes_per_second.to_ne_bytes());
            }
        });
    });
}

/// Counts what waits for the rate of [`add_tbf`] in packets, and not in bytes. So a small packet finds no room where a
/// large one finds none.
pub fn add_packet_queue(batch: &mut Batch, index: u32, packets: u32) {
    let header = queue_header(index, 0, TBF_HANDLE | 1);
    let what = format!("let {packets} packets wait for interface {index}");
    batch.request(what, libc::RTM_NEWQDISC, CREATE_OR_REPLACE, &header, |attributes| {
        attributes.text(libc::TCA_KIND, "pfifo");
        // `struct tc_fifo_qopt`.
        attributes.nest(libc::TCA_OPTIONS, |options| options.raw(&packets.to_ne_bytes()));
    });
}

/// Marks that a queueing discipline goes below netem.
pub struct Netem;

/// The handle of the lab's token bucket, `2:`.
const TBF_HANDLE: u32 = 2 << 16;

/// The handle of the lab's netem, `1:`.
const NETEM_HANDLE: u32 = 1 << 16;

/// A delay for netem.
#[derive(Debug, Clone, Copy, Default)]
pub struct Delay {
    pub delay: Duration,
    pub jitter: Duration,
    /// The largest number of packets that may be delayed at the same time.
    pub held_packets: u32,
}

/// Delays packets that leave through interface `index`, and replaces an existing delay.
pub fn add_netem(batch: &mut Batch, index: u32, delay: Delay) -> Netem {
    const TCA_NETEM_LATENCY64: u16 = 10;
    const TCA_NETEM_JITTER64: u16 = 11;
    let what = format!("delay interface {index} by {:?}", delay.delay);
    let header = queue_header(index, NETEM_HANDLE, TC_H_ROOT);
    batch.request(what, libc::RTM_NEWQDISC, CREATE_OR_REPLACE, &header, |attributes| {
        attributes.text(libc::TCA_KIND, "netem");
        attributes.nest(libc::TCA_OPTIONS, |options| {
            // `struct tc_netem_qopt`, of which only the number of packets that may wait is used.
            let parameters = [0, delay.held_packets, 0, 0, 0, 0].map(u32::to_ne_bytes);
            options.raw(parameters.as_flattened());
            options.bytes(TCA_NETEM_LATENCY64, &(delay.delay.as_nanos() as u64).to_ne_bytes());
            options.bytes(TCA_NETEM_JITTER64, &(delay.jitter.as_nanos() as u64).to_ne_bytes());
        });
    });
    Netem
}

/// Adds the queueing discipline that holds filters for packets that arrive at interface `index`.
pub fn add_clsact(batch: &mut Batch, index: u32) {
    let header = queue_header(index, TC_H_CLSACT & 0xffff_0000, TC_H_CLSACT);
    let what = format!("prepare interface {index} for filters");
    // A MEADcast router may have added it before.
    batch.request(what, libc::RTM_NEWQDISC, libc::NLM_F_CREATE, &header, |attributes| {
        attributes.text(libc::TCA_KIND, "clsact")
    });
}

/// Attaches `program`, an eBPF classifier, which decides about every packet that arrives at interface `index`.
pub fn add_ingress_filter(batch: &mut Batch, index: u32, program: RawFd) {
    const TC_H_INGRESS_FILTERS: u32 = 0xffff_fff2;
    const TCA_BPF_FD: u16 = 6;
    const TCA_BPF_FLAGS: u16 = 8;
    const TCA_BPF_FLAG_ACT_DIRECT: u32 = 1;
    let mut header = queue_header(index, 0, TC_H_INGRESS_FILTERS);
    let priority_and_protocol = 1 << 16 | u32::from((libc::ETH_P_ALL as u16).to_be());
    header[16..20].copy_from_slice(&priority_and_protocol.to_ne_bytes());
    let what = format!("filter what arrives at interface {index}");
    batch.request(what, libc::RTM_NEWTFILTER, CREATE, &header, |attributes| {
        attributes.text(libc::TCA_KIND, "bpf");
        attributes.nest(libc::TCA_OPTIONS, |options| {
            options.u32(TCA_BPF_FD, program as u32);
            options.u32(TCA_BPF_FLAGS, TCA_BPF_FLAG_ACT_DIRECT);
        });
    });
}

/// Sets whether interface `index` divides super-packets into datagrams before they leave.
pub fn set_splitting(batch: &mut Batch, index: u32, splits: bool) {
    let what = format!("have interface {index} cut super-packets");
    batch.request(what, libc::RTM_NEWLINK, 0, &link_header(index, false), |attributes| {
        attributes.u32(IFLA_GSO_MAX_SEGS, if splits { 1 } else { GSO_MAX_SEGS });
    });
}

/// `struct tcmsg`.
fn queue_header(index: u32, handle: u32, parent: u32) -> [u8; 20] {
    let mut header = [0; 20];
    header[4..8].copy_from_slice(&index.to_ne_bytes());
    header[8..12].copy_from_slice(&handle.to_ne_bytes());
    header[12..16].copy_from_slice(&parent.to_ne_bytes());
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `tc qdisc add dev X root handle 1: netem limit 2000 delay 10ms 2ms` sends, but for the old
    /// 32-bit fields, which the 64-bit ones override.
    #[test]
    fn netem_is_asked_for_as_the_kernel_reads_it() {
        let (delay, jitter) = (Duration::from_millis(10), Duration::from_millis(2));
        let mut batch = Batch::default();
        add_netem(&mut batch, 7, Delay { delay, jitter, held_packets: 2000 });
        let mut expected = vec![0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 1, 0, 255, 255, 255, 255, 0, 0, 0, 0];
        expected.extend([10, 0, 1, 0]);
        expected.extend(*b"netem\0\0\0");
        expected.extend([52, 0, 2, 0x80]);
        expected.extend([0; 4]);
        expected.extend(2000u32.to_le_bytes());
        expected.extend([0; 16]);
        expected.extend([12, 0, 10, 0]);
        expected.extend(10_000_000u64.to_le_bytes());
        expected.extend([12, 0, 11, 0]);
        expected.extend(2_000_000u64.to_le_bytes());
        let part = &batch.cut()[0];
        assert_eq!(batch.bytes(part)[16..], expected);
    }
}
