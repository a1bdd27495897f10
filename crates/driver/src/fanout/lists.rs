//! Packets that several receivers share.

use std::{
    collections::BTreeMap,
    fmt, io,
    net::Ipv6Addr,
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use treecast_proto::{
    explicit::{
        lists::{Form, List, TransmissionGroup},
        transmission::{Packets, SuperPacket},
    },
    fanout::Way,
};
use treecast_wire::ipv6::{self, next_header};

use super::{CAPABLE_TRANSPORT, Out};
use crate::explicit::epoch;
use treecast_host::offload::UDP_HEADER_LEN;

/// One address list, and how its packets leave.
pub(crate) struct SharedList {
    out: Arc<Out>,
    maker: Mutex<Maker>,
    /// Length of the routing header and its options, in bytes.
    header_len: usize,
    way: Way,
}

struct Maker {
    packets: Packets,
    /// The header fields besides addresses, lengths and kinds.
    ip: ipv6::Header,
    source_port: u16,
    /// Packets that leave one by one.
    divided: Vec<(Ipv6Addr, Vec<u8>)>,
}

/// The properties that packets of all lists share.
pub(super) struct Common {
    pub way: Way,
    pub out: Arc<Out>,
    pub form: Form,
    /// The UDP port of each receiver.
    pub ports: BTreeMap<Ipv6Addr, u16>,
    pub source_port: u16,
    /// Whether routers may mark packets instead of dropping them.
    pub heeds_marks: bool,
}

impl SharedList {
    pub(super) fn new(common: &Common, list: List) -> Self {
        let Common { out, form, ports, .. } = common;
        let with_routers = list.entries.iter().map(|(_, receivers)| 1 + receivers.len());
        let addresses = with_routers.sum::<usize>() + list.designated.len();
        let group = TransmissionGroup {
            number: 1,
            lists: vec![list],
            ports: ports.clone(),
            ..TransmissionGroup::default()
        };
        let class_and_label = if common.heeds_marks { CAPABLE_TRANSPORT } else { 0 };
        let ip = ipv6::Header::new(form.source, form.source, next_header::UDP);
        let ip = ipv6::Header { class_and_label, ..ip };
        let packets = Packets::new(form.clone(), group);
        let maker = Maker { packets, ip, source_port: common.source_port, divided: Vec::new() };
        Self {
            out: Arc::clone(out),
            maker: Mutex::new(maker),
            header_len: form.header_len(addresses),
            way: common.way,
        }
    }

    /// The fanout of the list's packets.
    pub fn way(&self) -> Way {
        self.way
    }

    /// The length in bytes of an IP packet that carries a datagram of this length.
    pub fn packet_bytes(&self, datagram_len: usize) -> u64 {
        (ipv6::HEADER_LEN + self.header_len + UDP_HEADER_LEN + datagram_len) as u64
    }

    /// Sends datagrams of `segment_bytes` (the last one may be shorter) that are stored one after the other.
    /// They leave as super-packets if the next hop is known, and otherwise one by one. Those that the kernel
    /// refuses count as lost.
    ///
    /// # Errors
    /// The last reason for which the kernel refused one.
    pub fn send(&self, segment_bytes: usize, datagrams: &[u8]) -> io::Result<()> {
        if datagrams.is_empty() || segment_bytes == 0 {
            return Ok(());
        }
        let mut maker = self.maker.lock().unwrap_or_else(PoisonError::into_inner);
        let Maker { packets, ip, source_port, divided } = &mut *maker;
        packets.set_epoch(epoch());
        let mut supers = self.out.supers.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let packet = SuperPacket::new(*ip, *source_port, datagrams, segment_bytes);
        divided.clear();
        packets.make_super(&packet, |part| {
            if !supers.as_mut().is_some_and(|socket| socket.send(now, &part)) {
                divided.extend(part.packets().map(|packet| (part.destination, packet)));
            }
        });
        match self.out.packets.send(divided) {
            (0, _) | (_, None) => Ok(()),
            (_, Some(error)) => Err(error),
        }
    }
}

impl fmt::Debug for SharedList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedList").field("header_len", &self.header_len).finish_non_exhaustive()
    }
}
