//! A table of nftables that drops packets with certain routing headers while its owner lives, and whether there are tables.
//!
//! The table is of the netdev family, and belongs to the socket that made it (`NFT_TABLE_F_OWNER`, Linux 5.12).
//! The kernel removes the table when the socket is closed, however the process ends. The program `nft` cannot
//! be used, because its own process would be the owner. So the messages are written here
//! (linux/netfilter/nf_tables.h).

use std::{
    io::{self, Read},
    ops::RangeInclusive,
};

use socket2::Socket;

use crate::netlink::{self, Attributes, error_of, messages};

const NFPROTO_NETDEV: u8 = 5;
const SUBSYSTEM: u16 = 10;

const BATCH_BEGIN: u16 = 16;
const BATCH_END: u16 = 17;
const NEW_TABLE: u16 = SUBSYSTEM << 8;
const GET_TABLE: u16 = SUBSYSTEM << 8 | 1;
const NEW_CHAIN: u16 = SUBSYSTEM << 8 | 3;
const DELETE_CHAIN: u16 = SUBSYSTEM << 8 | 5;
const NEW_RULE: u16 = SUBSYSTEM << 8 | 6;

const OWNER: u32 = 2;
const HOOK_INGRESS: u32 = 0;
const REGISTER: u32 = 1;
const REGISTER_VERDICT: u32 = 0;
const META_PROTOCOL: u32 = 1;
const BASE_NETWORK_HEADER: u32 = 1;
const NF_DROP: u32 = 0;

/// Comparisons of `cmp`.
const EQUAL: u32 = 0;
const AT_MOST: u32 = 3;
const AT_LEAST: u32 = 5;

/// The positions in an IPv6 packet of the next header, and of the routing type in a routing header behind it.
const AT_NEXT_HEADER: u32 = 6;
const AT_ROUTING_TYPE: u32 = 42;
const ETHERTYPE_IPV6: [u8; 2] = [0x86, 0xdd];
const NEXT_HEADER_ROUTING: u8 = 43;

/// A table that is removed when this is dropped, or when the process ends.
pub struct Table {
    socket: Socket,
    name: String,
    /// The sequence number of the last changes. Answers to earlier changes, some of which may have been
    /// refused, are ignored.
    sequence: u32,
}

impl Table {
    /// Creates an empty table with this name.
    pub fn open(name: String) -> io::Result<Self> {
        let socket = netlink::open(libc::NETLINK_NETFILTER)?;
        let mut table = Self { socket, name, sequence: 0 };
        let attributes = attributes(|it| {
            it.text(1, &table.name);
            number(it, 2, OWNER);
        });
        table.commit(&[(NEW_TABLE, libc::NLM_F_CREATE, attributes)])?;
        Ok(table)
    }

    /// Drops packets that come in by this interface with a routing header of one of these types.
    pub fn block(&mut self, interface: &str, routing_types: RangeInclusive<u8>) -> io::Result<()> {
        let chain = attributes(|it| {
            it.text(1, &self.name);
            it.text(3, interface);
            it.nest(4, |hook| {
                number(hook, 1, HOOK_INGRESS);
                number(hook, 2, 0);
                hook.text(3, interface);
            });
            it.text(7, "filter");
        });
        let rule = attributes(|it| {
            it.text(1, &self.name);
            it.text(2, interface);
            it.nest(4, |rule| expressions(rule, &routing_types));
        });
        let append = libc::NLM_F_CREATE | libc::NLM_F_APPEND;
        self.commit(&[(NEW_CHAIN, libc::NLM_F_CREATE, chain), (NEW_RULE, append, rule)])
    }

    /// Stops dropping packets at this interface.
    pub fn unblock(&mut self, interface: &str) -> io::Result<()> {
        let chain = attributes(|it| {
            it.text(1, &self.name);
            it.text(3, interface);
        });
        self.commit(&[(DELETE_CHAIN, 0, chain)])
    }

    /// Makes all changes or none.
    fn commit(&mut self, changes: &[(u16, i32, Vec<u8>)]) -> io::Result<()> {
        self.sequence += 1;
        let mut bytes = Vec::new();
        // `struct nfgenmsg`: a family, a version, and, at the begin and end of a batch, a subsystem.
        let edge = [0, 0, 0, SUBSYSTEM as u8];
        netlink::write(&mut bytes, BATCH_BEGIN, 0, self.sequence, &edge);
        for (kind, flags, attributes) in changes {
            let body = [&[NFPROTO_NETDEV, 0, 0, 0][..], attributes].concat();
            netlink::write(&mut bytes, *kind, libc::NLM_F_ACK | flags, self.sequence, &body);
        }
        netlink::write(&mut bytes, BATCH_END, 0, self.sequence, &edge);
        self.socket.send(&bytes)?;
        let mut answers = 0;
        let mut buffer = [0; 8192];
        while answers < changes.len() {
            let len = (&self.socket).read(&mut buffer)?;
            for answer in messages(&buffer[..len]) {
                if answer.is_error() && answer.sequence == self.sequence {
                    error_of(answer.body)?;
                    answers += 1;
                }
            }
        }
        Ok(())
    }
}

/// Whether this network namespace has any table of nftables, also one that `iptables` has made.
///
/// # Errors
/// What the kernel says. It says nothing to users without CAP_NET_ADMIN.
pub fn has_tables() -> io::Result<bool> {
    let socket = netlink::open(libc::NETLINK_NETFILTER)?;
    let mut bytes = Vec::new();
    netlink::write(&mut bytes, GET_TABLE, libc::NLM_F_DUMP, 1, &[0; 4]);
    socket.send(&bytes)?;
    let mut buffer = [0; 8192];
    let mut has_any = false;
    loop {
        let len = (&socket).read(&mut buffer)?;
        for answer in messages(&buffer[..len]) {
            match i32::from(answer.kind) {
                libc::NLMSG_DONE => return Ok(has_any),
                libc::NLMSG_ERROR => error_of(answer.body)?,
                _ => has_any = true,
            }
        }
    }
}

/// Writes the expressions of a rule: an IPv6 packet with a routing header of one of the types is dropped.
fn expressions(rule: &mut Attributes, routing_types: &RangeInclusive<u8>) {
    expression(rule, "meta", |data| {
        number(data, 1, REGISTER);
        number(data, 2, META_PROTOCOL);
    });
    compare(rule, EQUAL, &ETHERTYPE_IPV6);
    octet(rule, AT_NEXT_HEADER);
    compare(rule, EQUAL, &[NEXT_HEADER_ROUTING]);
    octet(rule, AT_ROUTING_TYPE);
    compare(rule, AT_LEAST, &[*routing_types.start()]);
    compare(rule, AT_MOST, &[*routing_types.end()]);
    expression(rule, "immediate", |data| {
        number(data, 1, REGISTER_VERDICT);
        data.nest(2, |value| value.nest(2, |verdict| number(verdict, 1, NF_DROP)));
    });
}

/// Writes an expression that loads an octet of the packet.
fn octet(rule: &mut Attributes, at: u32) {
    expression(rule, "payload", |data| {
        number(data, 1, REGISTER);
        number(data, 2, BASE_NETWORK_HEADER);
        number(data, 3, at);
        number(data, 4, 1);
    });
}

fn compare(rule: &mut Attributes, how: u32, with: &[u8]) {
    expression(rule, "cmp", |data| {
        number(data, 1, REGISTER);
        number(data, 2, how);
        data.nest(3, |value| value.bytes(1, with));
    });
}

fn expression(rule: &mut Attributes, name: &str, fill: impl FnOnce(&mut Attributes)) {
    rule.nest(1, |expression| {
        expression.text(1, name);
        expression.nest(2, fill);
    });
}

/// Adds a number. nftables uses network order.
fn number(attributes: &mut Attributes, kind: u16, value: u32) {
    attributes.bytes(kind, &value.to_be_bytes());
}

fn attributes(fill: impl FnOnce(&mut Attributes)) -> Vec<u8> {
    let mut bytes = Vec::new();
    fill(&mut Attributes::of(&mut bytes));
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_noticed_while_it_is_there() {
        std::thread::spawn(|| {
            crate::namespace::Namespace::enter_new().unwrap();
            assert!(!has_tables().unwrap());
            let table = Table::open("doctor".into()).unwrap();
            assert!(has_tables().unwrap());
            drop(table);
        })
        .join()
        .unwrap();
    }
}
