//! Packets that several receivers share.

use std::{
    collections::BTreeMap,
    fmt, io,
    net::Ipv6Addr,
    sync::{Arc, Mutex, PoisonError},
};

use treecast_proto::mead::transmission::{Form, List, Packets, TransmissionGroup};
use treecast_wire::ipv6::{self, next_header, upper_layer_checksum};

use super::CAPABLE_TRANSPORT;
use crate::mead::PacketSocket;

const UDP_HEADER_LEN: usize = 8;

const HOP_LIMIT: u8 = 64;

/// One address list, and how its packets leave.
pub(crate) struct MeadList {
    socket: Arc<PacketSocket>,
    maker: Mutex<Maker>,
    /// Of the routing header and its options, in bytes.
    header_len: usize,
}

struct Maker {
    packets: Packets,
    source: Ipv6Addr,
    source_port: u16,
    class_and_label: u32,
    /// Those that leave together.
    made: Vec<(Ipv6Addr, Vec<u8>)>,
}

/// What packets of all lists have in common.
pub(super) struct Common {
    pub socket: Arc<PacketSocket>,
    pub form: Form,
    /// Each receiver's UDP port.
    pub ports: BTreeMap<Ipv6Addr, u16>,
    pub source_port: u16,
    /// Whether routers may mark packets instead of losing them.
    pub heeds_marks: bool,
}

impl MeadList {
    pub(super) fn new(common: &Common, list: List) -> Self {
        let Common { socket, form, ports, .. } = common;
        let addresses =
            list.entries.len() + list.entries.iter().map(|(_, receivers)| receivers.len()).sum::<usize>();
        let group = TransmissionGroup {
            number: 1,
            lists: vec![list],
            ports: ports.clone(),
            ..TransmissionGroup::default()
        };
        let maker = Maker {
            packets: Packets::new(form.clone(), group),
            source: form.source,
            source_port: common.source_port,
            class_and_label: if common.heeds_marks { CAPABLE_TRANSPORT } else { 0 },
            made: Vec::new(),
        };
        Self { socket: Arc::clone(socket), maker: Mutex::new(maker), header_len: form.header_len(addresses) }
    }

    /// Bytes of an IP packet that carries a datagram of so many.
    pub fn packet_bytes(&self, datagram_len: usize) -> u64 {
        (ipv6::HEADER_LEN + self.header_len + UDP_HEADER_LEN + datagram_len) as u64
    }

    /// Sends datagrams, a packet each; those that the kernel refuses count as lost.
    ///
    /// # Errors
    /// The last reason for which the kernel has refused one.
    pub fn send<'a>(&self, datagrams: impl Iterator<Item = &'a [u8]>) -> io::Result<()> {
        let mut maker = self.maker.lock().unwrap_or_else(PoisonError::into_inner);
        maker.made.clear();
        datagrams.for_each(|datagram| maker.make(datagram));
        match self.socket.send(&maker.made) {
            (0, _) | (_, None) => Ok(()),
            (_, Some(error)) => Err(error),
        }
    }
}

impl Maker {
    fn make(&mut self, datagram: &[u8]) {
        let Self { packets, source, source_port, class_and_label, made } = self;
        let len = UDP_HEADER_LEN + datagram.len();
        // To anybody: each list's packet gets its own address and port, and a checksum that is right for them.
        let ip = ipv6::Header {
            class_and_label: *class_and_label,
            payload_len: len as u16,
            next_header: next_header::UDP,
            hop_limit: HOP_LIMIT,
            source: *source,
            destination: *source,
        };
        let mut packet = Vec::with_capacity(ipv6::HEADER_LEN + len);
        packet.extend_from_slice(&ip.to_bytes());
        packet.extend_from_slice(&source_port.to_be_bytes());
        packet.extend_from_slice(&[0, 0]);
        packet.extend_from_slice(&(len as u16).to_be_bytes());
        packet.extend_from_slice(&[0, 0]);
        packet.extend_from_slice(datagram);
        let checksum = upper_layer_checksum(*source, *source, next_header::UDP, &packet[ipv6::HEADER_LEN..]);
        // Zero would say that there is none (RFC 8200, 8.1).
        let checksum = if checksum == 0 { u16::MAX } else { checksum };
        packet[ipv6::HEADER_LEN + 6..ipv6::HEADER_LEN + 8].copy_from_slice(&checksum.to_be_bytes());
        packets.make(&packet, |to, packet| made.push((to, packet)));
    }
}

impl fmt::Debug for MeadList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MeadList").field("header_len", &self.header_len).finish_non_exhaustive()
    }
}
