//! Tunnels over IPv6, as interfaces: GRE, IPv6 in IPv6, and VXLAN with one peer. The constants come from
//! `linux/if_tunnel.h` and `linux/if_link.h`.

use std::{io, net::Ipv6Addr};

use super::{Batch, Netlink, is_refused_with, requests::link_header};

const CREATE: i32 = libc::NLM_F_CREATE | libc::NLM_F_EXCL;

const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_DATA: u16 = 2;

const IFLA_GRE_IFLAGS: u16 = 2;
const IFLA_GRE_OFLAGS: u16 = 3;
const IFLA_GRE_IKEY: u16 = 4;
const IFLA_GRE_OKEY: u16 = 5;
const IFLA_GRE_LOCAL: u16 = 6;
const IFLA_GRE_REMOTE: u16 = 7;
const IFLA_GRE_TTL: u16 = 8;
const IFLA_GRE_FLAGS: u16 = 13;
/// The flag by which a packet has a key.
const GRE_KEY: u16 = 0x2000;

const IFLA_IPTUN_LOCAL: u16 = 2;
const IFLA_IPTUN_REMOTE: u16 = 3;
const IFLA_IPTUN_TTL: u16 = 4;
const IFLA_IPTUN_FLAGS: u16 = 8;
const IFLA_IPTUN_PROTO: u16 = 9;
/// The flag by which packets have no option that limits nesting (RFC 2473, 4.1.1). Routers look at such options slowly.
const IP6_TNL_F_IGN_ENCAP_LIMIT: u32 = 1;
const IPPROTO_IPV6: u8 = 41;

const IFLA_VXLAN_ID: u16 = 1;
const IFLA_VXLAN_LEARNING: u16 = 7;
const IFLA_VXLAN_PORT: u16 = 15;
const IFLA_VXLAN_GROUP6: u16 = 16;
const IFLA_VXLAN_LOCAL6: u16 = 17;
/// The UDP port of VXLAN (RFC 7348, 8).
const VXLAN_PORT: u16 = 4789;

/// The hop limit of packets that carry others.
const HOP_LIMIT: u8 = 64;

/// The bytes that VXLAN adds to a packet: IPv6, UDP, VXLAN and Ethernet headers. The others add less.
pub const LARGEST_OVERHEAD: u32 = 40 + 8 + 8 + 14;

/// How a tunnel carries packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carrier {
    Gre,
    Ip6tnl,
    Vxlan,
}

/// A tunnel between two addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tunnel<'a> {
    /// The name of the interface.
    pub name: &'a str,
    pub carrier: Carrier,
    /// The number that tells the tunnel from others of the same ends, at most 2^24 - 1. IPv6 in IPv6 has none.
    pub id: u32,
    pub local: Ipv6Addr,
    pub remote: Ipv6Addr,
    /// The longest packet that the tunnel takes, in bytes.
    pub mtu: u32,
    /// The number of the interface's group. 0: the default one.
    pub group: u32,
}

/// Adds a tunnel, and sets it up.
pub fn add_tunnel(batch: &mut Batch, tunnel: &Tunnel) {
    let what = format!("add tunnel {} to {}", tunnel.name, tunnel.remote);
    batch.request(what, libc::RTM_NEWLINK, CREATE, &link_header(0, true), |attributes| {
        attributes.text(libc::IFLA_IFNAME, tunnel.name);
        attributes.u32(libc::IFLA_MTU, tunnel.mtu);
        attributes.u32(libc::IFLA_GROUP, tunnel.group);
        let (local, remote) = (tunnel.local.octets(), tunnel.remote.octets());
        attributes.nest(libc::IFLA_LINKINFO, |info| match tunnel.carrier {
            Carrier::Gre => {
                info.text(IFLA_INFO_KIND, "ip6gre");
                info.nest(IFLA_INFO_DATA, |data| {
                    for (flags, key) in [(IFLA_GRE_IFLAGS, IFLA_GRE_IKEY), (IFLA_GRE_OFLAGS, IFLA_GRE_OKEY)] {
                        data.bytes(flags, &GRE_KEY.to_be_bytes());
                        data.bytes(key, &tunnel.id.to_be_bytes());
                    }
                    data.bytes(IFLA_GRE_LOCAL, &local);
                    data.bytes(IFLA_GRE_REMOTE, &remote);
                    data.u8(IFLA_GRE_TTL, HOP_LIMIT);
                    data.u32(IFLA_GRE_FLAGS, IP6_TNL_F_IGN_ENCAP_LIMIT);
                });
            }
            Carrier::Ip6tnl => {
                info.text(IFLA_INFO_KIND, "ip6tnl");
                info.nest(IFLA_INFO_DATA, |data| {
                    data.bytes(IFLA_IPTUN_LOCAL, &local);
                    data.bytes(IFLA_IPTUN_REMOTE, &remote);
                    data.u8(IFLA_IPTUN_TTL, HOP_LIMIT);
                    data.u32(IFLA_IPTUN_FLAGS, IP6_TNL_F_IGN_ENCAP_LIMIT);
                    data.u8(IFLA_IPTUN_PROTO, IPPROTO_IPV6);
                });
            }
            Carrier::Vxlan => {
                info.text(IFLA_INFO_KIND, "vxlan");
                info.nest(IFLA_INFO_DATA, |data| {
                    data.u32(IFLA_VXLAN_ID, tunnel.id);
                    data.bytes(IFLA_VXLAN_LOCAL6, &local);
                    data.bytes(IFLA_VXLAN_GROUP6, &remote);
                    data.u8(IFLA_VXLAN_LEARNING, 0);
                    data.bytes(IFLA_VXLAN_PORT, &VXLAN_PORT.to_be_bytes());
                });
            }
        });
    });
}

impl Netlink {
    /// Removes an interface by its name. Nothing happens if there is none.
    pub fn delete_link(&self, name: &str) -> io::Result<()> {
        let mut batch = Batch::default();
        let what = format!("remove interface {name}");
        batch.request(what, libc::RTM_DELLINK, 0, &link_header(0, false), |attributes| {
            attributes.text(libc::IFLA_IFNAME, name);
        });
        match self.run(batch) {
            Err(error) if is_refused_with(&error, libc::ENODEV) => Ok(()),
            result => result,
        }
    }

    /// Whether the kernel has tunnels of this kind. One is made and removed to know, under a name that must be free.
    pub fn has_carrier(&self, carrier: Carrier, name: &str) -> io::Result<bool> {
        let (local, remote) = (
            Ipv6Addr::LOCALHOST,
            Ipv6Addr::new(0x2001, 0xdb8, 0xffff, 0xffff, 0xffff, 0xffff, 0xffff, 0xfffe),
        );
        let mut batch = Batch::default();
        add_tunnel(
            &mut batch,
            &Tunnel { name, carrier, id: (1 << 24) - 1, local, remote, mtu: 1280, group: 0 },
        );
        match self.run(batch) {
            Ok(()) => self.delete_link(name).map(|()| true),
            Err(error) if is_refused_with(&error, libc::EOPNOTSUPP) => Ok(false),
            // Another tunnel has the same ends or number, so the kernel knows the kind.
            Err(error) if is_refused_with(&error, libc::EEXIST) => Ok(true),
            Err(error) => Err(error),
        }
    }
}
