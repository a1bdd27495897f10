//! A table of nftables that drops what has a routing header of MEADcast or Xcast, as long as its owner lives.
//!
//! The table is of the netdev family and owned by the socket that made it (`NFT_TABLE_F_OWNER`, Linux 5.12): the kernel removes
//! it when that is closed, however the process ends. It is written in messages of its own (linux/netfilter/nf_tables.h) rather
//! than with `nft`, whose process would be the owner.

use std::{
    io::{self, Read},
    time::Duration,
};

use socket2::{Domain, Protocol, Socket, Type};
use treecast_wire::{ipv6::next_header, mead::ROUTING_TYPES};

use crate::netlink::{NLMSG_ERROR, NetlinkMessage, messages, parse_error};

const NETLINK_NETFILTER: i32 = 12;
const NFPROTO_NETDEV: u8 = 5;
const SUBSYSTEM: u16 = 10;

const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
const NLM_F_CREATE: u16 = 0x400;
const NLM_F_APPEND: u16 = 0x800;
const NLA_F_NESTED: u16 = 0x8000;

const BATCH_BEGIN: u16 = 16;
const BATCH_END: u16 = 17;
const NEW_TABLE: u16 = SUBSYSTEM << 8;
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

/// In an IPv6 packet: the next header, and the routing type of a routing header behind it.
const AT_NEXT_HEADER: u32 = 6;
const AT_ROUTING_TYPE: u32 = 42;
const ETHERTYPE_IPV6: [u8; 2] = [0x86, 0xdd];

/// The kernel answers at once.
const PATIENCE: Duration = Duration::from_secs(5);

pub struct Table {
    socket: Socket,
    name: String,
    /// Of the last changes. Answers to those before, some of which may have been refused, are passed over.
    sequence: u32,
}

impl Table {
    /// Makes an empty table of this name.
    pub fn open(name: String) -> io::Result<Self> {
        let protocol = Some(Protocol::from(NETLINK_NETFILTER));
        let socket = Socket::new(Domain::from(libc::AF_NETLINK), Type::RAW, protocol)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        let mut table = Self { socket, name, sequence: 0 };
        let attributes = [text(1, &table.name), number(2, OWNER)].concat();
        table.commit(&[(NEW_TABLE, NLM_F_CREATE, attributes)])?;
        Ok(table)
    }

    /// Drops what comes in by this interface.
    pub fn block(&mut self, interface: &str) -> io::Result<()> {
        let hook = [number(1, HOOK_INGRESS), number(2, 0), text(3, interface)].concat();
        let chain = [text(1, &self.name), text(3, interface), nested(4, &hook), text(7, "filter")].concat();
        let rule = [text(1, &self.name), text(2, interface), nested(4, &expressions())].concat();
        self.commit(&[(NEW_CHAIN, NLM_F_CREATE, chain), (NEW_RULE, NLM_F_CREATE | NLM_F_APPEND, rule)])
    }

    pub fn unblock(&mut self, interface: &str) -> io::Result<()> {
        self.commit(&[(DELETE_CHAIN, 0, [text(1, &self.name), text(3, interface)].concat())])
    }

    /// All of the changes or none of them.
    fn commit(&mut self, changes: &[(u16, u16, Vec<u8>)]) -> io::Result<()> {
        self.sequence += 1;
        let edge = |kind| message(kind, NLM_F_REQUEST, self.sequence, [0, 0, 0, SUBSYSTEM as u8], &[]);
        let mut bytes = edge(BATCH_BEGIN);
        for (kind, flags, attributes) in changes {
            let flags = NLM_F_REQUEST | NLM_F_ACK | flags;
            bytes.extend(message(*kind, flags, self.sequence, [NFPROTO_NETDEV, 0, 0, 0], attributes));
        }
        bytes.extend(edge(BATCH_END));
        self.socket.send(&bytes)?;
        let mut answers = 0;
        let mut buffer = [0; 8192];
        while answers < changes.len() {
            let len = (&self.socket).read(&mut buffer)?;
            let is_answer =
                |answer: &NetlinkMessage<'_>| answer.kind == NLMSG_ERROR && answer.sequence == self.sequence;
            for answer in messages(&buffer[..len]).filter(is_answer) {
                parse_error(answer.body)?;
                answers += 1;
            }
        }
        Ok(())
    }
}

/// IPv6, a routing header, one of the types: drop.
fn expressions() -> Vec<u8> {
    let octet = |at| {
        let data =
            [number(1, REGISTER), number(2, BASE_NETWORK_HEADER), number(3, at), number(4, 1)].concat();
        expression("payload", &data)
    };
    let meta = expression("meta", &[number(1, REGISTER), number(2, META_PROTOCOL)].concat());
    let verdict = nested(2, &nested(2, &number(1, NF_DROP)));
    [
        meta,
        compare(EQUAL, &ETHERTYPE_IPV6),
        octet(AT_NEXT_HEADER),
        compare(EQUAL, &[next_header::ROUTING]),
        octet(AT_ROUTING_TYPE),
        compare(AT_LEAST, &ROUTING_TYPES[..1]),
        compare(AT_MOST, &ROUTING_TYPES[1..]),
        expression("immediate", &[number(1, REGISTER_VERDICT), verdict].concat()),
    ]
    .concat()
}

fn compare(how: u32, with: &[u8]) -> Vec<u8> {
    let data = nested(3, &attribute(1, with));
    expression("cmp", &[number(1, REGISTER), number(2, how), data].concat())
}

fn expression(name: &str, data: &[u8]) -> Vec<u8> {
    nested(1, &[text(1, name), nested(2, data)].concat())
}

/// `family` is a struct nfgenmsg: a family, a version, and, at the edges of a batch, a subsystem.
fn message(kind: u16, flags: u16, sequence: u32, family: [u8; 4], attributes: &[u8]) -> Vec<u8> {
    let len = (16 + 4 + attributes.len()) as u32;
    let kind = [kind.to_ne_bytes(), flags.to_ne_bytes()].concat();
    let head = [&len.to_ne_bytes()[..], &kind, &sequence.to_ne_bytes(), &[0; 4]].concat();
    [&head[..], &family, attributes].concat()
}

fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let len = (4 + value.len()) as u16;
    let padding = value.len().next_multiple_of(4) - value.len();
    [&len.to_ne_bytes()[..], &kind.to_ne_bytes(), value, &[0; 3][..padding]].concat()
}

fn nested(kind: u16, attributes: &[u8]) -> Vec<u8> {
    attribute(NLA_F_NESTED | kind, attributes)
}

fn number(kind: u16, value: u32) -> Vec<u8> {
    attribute(kind, &value.to_be_bytes())
}

fn text(kind: u16, value: &str) -> Vec<u8> {
    attribute(kind, &[value.as_bytes(), &[0]].concat())
}
