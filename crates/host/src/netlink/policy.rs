//! Policy routing (ip-rule(8)): rules that choose a routing table by a packet's addresses, and routes in such a table.
//! Both are of IPv6.

use std::{io, net::Ipv6Addr};

use super::{Batch, Netlink, is_refused_with};

const CREATE: i32 = libc::NLM_F_CREATE | libc::NLM_F_EXCL;
const CREATE_OR_REPLACE: i32 = libc::NLM_F_CREATE | libc::NLM_F_REPLACE;

/// The number of the main table.
pub const MAIN_TABLE: u32 = libc::RT_TABLE_MAIN as u32;

const FRA_DST: u16 = 1;
const FRA_SRC: u16 = 2;
const FRA_PRIORITY: u16 = 6;
const FRA_TABLE: u16 = 15;
const FR_ACT_TO_TBL: u8 = 1;

/// Which addresses a rule looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Source,
    Destination,
}

/// A rule: packets from or to a prefix are routed by a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    pub side: Side,
    pub prefix: Ipv6Addr,
    pub prefix_length: u8,
    pub table: u32,
    /// Rules with lower numbers come first.
    pub priority: u32,
}

/// A route in a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableRoute {
    pub prefix: Ipv6Addr,
    /// The bits of the prefix. 0: the default route.
    pub prefix_length: u8,
    pub table: u32,
    /// The next router. `None`: everything is on the link.
    pub gateway: Option<Ipv6Addr>,
    pub interface: u32,
    /// The lowest number wins. 0: the kernel's default, 1024.
    pub metric: u32,
}

pub fn add_rule(batch: &mut Batch, rule: &Rule) {
    let (length, side) = (rule.prefix_length, rule.side);
    // struct fib_rule_hdr: family, lengths of destination and source, TOS, table, two reserved, action, flags.
    let (to, from) = if side == Side::Source { (0, length) } else { (length, 0) };
    let header = [libc::AF_INET6 as u8, to, from, 0, 0, 0, 0, FR_ACT_TO_TBL, 0, 0, 0, 0];
    let what = format!("route packets of {}/{length} by table {}", rule.prefix, rule.table);
    batch.request(what, libc::RTM_NEWRULE, CREATE, &header, |attributes| {
        let kind = if side == Side::Source { FRA_SRC } else { FRA_DST };
        attributes.bytes(kind, &rule.prefix.octets());
        attributes.u32(FRA_PRIORITY, rule.priority);
        attributes.u32(FRA_TABLE, rule.table);
    });
}

/// Adds a route, and replaces another one for the same prefix with the same metric.
pub fn set_table_route(batch: &mut Batch, route: &TableRoute) {
    let what = format!("route {}/{} in table {}", route.prefix, route.prefix_length, route.table);
    let header = route_header(route);
    batch.request(what, libc::RTM_NEWROUTE, CREATE_OR_REPLACE, &header, |it| route_attributes(it, route));
}

impl Netlink {
    /// Removes all rules of IPv6 with this priority.
    pub fn delete_rules(&self, priority: u32) -> io::Result<()> {
        let header = [libc::AF_INET6 as u8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        self.repeat(|batch| {
            let what = format!("forget the rules of priority {priority}");
            batch.request(what, libc::RTM_DELRULE, 0, &header, |it| it.u32(FRA_PRIORITY, priority));
        })
    }

    /// Removes all default routes of IPv6 in a table.
    pub fn delete_default_routes(&self, table: u32) -> io::Result<()> {
        let mut header = [0; 12];
        header[0] = libc::AF_INET6 as u8;
        self.repeat(|batch| {
            let what = format!("forget the default routes of table {table}");
            batch.request(what, libc::RTM_DELROUTE, 0, &header, |it| it.u32(libc::RTA_TABLE, table));
        })
    }

    /// Makes a request until the kernel refuses it because nothing is left: no such rule, route or table.
    fn repeat(&self, request: impl Fn(&mut Batch)) -> io::Result<()> {
        let is_end =
            |error: &io::Error| [libc::ENOENT, libc::ESRCH].iter().any(|it| is_refused_with(error, *it));
        loop {
            let mut batch = Batch::default();
            request(&mut batch);
            match self.run(batch) {
                Err(error) if is_end(&error) => return Ok(()),
                result => result?,
            }
        }
    }
}

/// `struct rtmsg`. The table is an attribute, because it may have more than 8 bits.
fn route_header(route: &TableRoute) -> [u8; 12] {
    let mut header = [0; 12];
    header[0] = libc::AF_INET6 as u8;
    header[1] = route.prefix_length;
    header[5] = libc::RTPROT_STATIC;
    header[6] = libc::RT_SCOPE_UNIVERSE;
    header[7] = libc::RTN_UNICAST;
    header
}

fn route_attributes(attributes: &mut super::Attributes, route: &TableRoute) {
    if route.prefix_length > 0 {
        attributes.bytes(libc::RTA_DST, &route.prefix.octets());
    }
    if let Some(gateway) = route.gateway {
        attributes.bytes(libc::RTA_GATEWAY, &gateway.octets());
    }
    attributes.u32(libc::RTA_OIF, route.interface);
    attributes.u32(libc::RTA_TABLE, route.table);
    if route.metric != 0 {
        attributes.u32(libc::RTA_PRIORITY, route.metric);
    }
}
