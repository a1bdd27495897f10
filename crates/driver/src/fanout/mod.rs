//! MEADcast and Xcast for the packets of a session: whether this host can make them, which routers there are,
//! and the packets themselves.
//!
//! `treecast_proto::fanout` decides which receivers they serve. A session's sender carries that out
//! (`send/session/fanout`).

mod discovery;
mod lists;

use std::{
    collections::BTreeSet,
    io,
    net::{IpAddr, Ipv6Addr},
    sync::{Arc, Mutex},
};

use treecast_host::interface::Interface;
use treecast_proto::{
    explicit::{
        lists::{Form, Xcast},
        mead::grouping::Parameters,
    },
    fanout::Way,
};
use treecast_wire::ipv6::is_forwardable;

pub(crate) use self::{discovery::Discovery, lists::SharedList};
use crate::{
    explicit::{Hearing, PacketSocket, Sharing, SuperSocket, check_receivers},
    remedies::{Advised, Remedy, other_interface},
    udp::Offload,
    words::some_of,
};

/// Size of the socket's send buffer, in bytes, as of a sender's other sockets. One that fills holds the sender back
/// before a link's queue overflows.
const SEND_BUFFER_BYTES: usize = 128 * 1024;

/// Explicit congestion notification's ECT(0) in the traffic class (RFC 3168, 5).
const CAPABLE_TRANSPORT: u32 = 2 << 20;

/// Receivers that a line names.
const NAMED: usize = 3;

/// A warning for the user where full packets do not fit, whichever way they take: the kernel sends fragments of them.
pub(crate) fn too_narrow(receivers: &[IpAddr], mtu: usize, longest: usize, block_len: u16) -> Advised {
    let line = format!(
        "only packets of up to {mtu} bytes fit on the way to {}, and the session's have up to {longest}: they go there in \
         fragments, which is slower and loses more; start a session with blocks of {} bytes",
        some_of(receivers, NAMED),
        usize::from(block_len).saturating_sub(longest - mtu)
    );
    Advised::by(Remedy::ShorterBlocks, line)
}

/// The sockets by which such packets leave.
#[derive(Debug)]
struct Out {
    packets: PacketSocket,
    /// The socket for super-packets. `None` if they are divided.
    supers: Mutex<Option<SuperSocket>>,
}

/// The things that a host needs to send packets with address lists.
#[derive(Debug)]
pub(crate) struct Lists {
    pub form: Form,
    kind: Kind,
    sharing: Sharing,
    limits: Parameters,
    /// The receivers that are to be served, before anybody has come.
    expected: BTreeSet<Ipv6Addr>,
    out: Arc<Out>,
    hearing: Hearing,
}

/// The protocol whose headers packets have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Mead,
    Xcast,
}

impl Kind {
    pub fn way(self) -> Way {
        match self {
            Self::Mead => Way::Mead,
            Self::Xcast => Way::Xcast,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Mead => "MEADcast",
            Self::Xcast => "Xcast",
        }
    }
}

impl Lists {
    /// Opens the sockets. `receivers` are those that are known before they come.
    ///
    /// # Errors
    /// One line that says what the host lacks, or which receiver cannot be reached.
    pub fn open(
        kind: Kind,
        interface: &Interface,
        sharing: &Sharing,
        receivers: &[IpAddr],
        offload: Offload,
    ) -> Result<Self, Advised> {
        let source = source(interface).ok_or_else(|| {
            other_interface(format!(
                "interface {} has no global or unique local IPv6 address to send {} from: give it one",
                interface.name,
                kind.name()
            ))
        })?;
        let xcast = (kind == Kind::Xcast).then_some(Xcast { is_anonymous: false, group: None });
        let form = Form { has_ports: true, xcast, ..sharing.form(source, interface) };
        let limits = sharing.limits(&form, interface).map_err(|error| error.to_string())?;
        let refused = |error: io::Error| {
            format!("cannot make {} packets: {error}; be root, or have the right CAP_NET_RAW", kind.name())
        };
        let packets = PacketSocket::open(None).map_err(refused)?;
        packets.hold_at_most(SEND_BUFFER_BYTES).map_err(refused)?;
        let hearing = Hearing::open(source, form.dialect, kind == Kind::Mead).map_err(refused)?;
        let supers = match offload {
            // Without, packets leave one by one.
            Offload::SuperPackets => SuperSocket::open(None).ok(),
            Offload::Batches | Offload::Single => None,
        };
        if let Some(supers) = &supers {
            supers.hold_at_most(SEND_BUFFER_BYTES).map_err(refused)?;
        }
        let expected = check_receivers(receivers, source).map_err(|error| error.to_string())?;
        Ok(Self {
            form,
            kind,
            sharing: sharing.clone(),
            limits,
            expected,
            out: Arc::new(Out { packets, supers: Mutex::new(supers) }),
            hearing,
        })
    }

    /// The length of the longest header that packets get, in bytes.
    pub fn header_len(&self) -> usize {
        self.form.header_len(self.limits.max)
    }
}

/// The sender's address for receivers. It is in the ticket, too.
fn source(interface: &Interface) -> Option<Ipv6Addr> {
    interface.reachable_addresses().into_iter().find_map(|address| match address {
        IpAddr::V6(address) if is_forwardable(address) => Some(address),
        _ => None,
    })
}
