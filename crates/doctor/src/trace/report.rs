//! The result of a trace, for people and programs.

use std::net::IpAddr;

use serde::Serialize;
use treecast_host::interface::Interface;
use treecast_wire::mtrace2::{ForwardingCode, Interfaces};

use super::search::{End, Hop, Question, Traced};

/// A trace from this host towards a source.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    pub group: IpAddr,
    /// The source. `None`: any.
    pub source: Option<IpAddr>,
    /// This host's interface and its address there.
    pub interface: String,
    pub client: IpAddr,
    /// The routers, the one next to this host first.
    pub hops: Vec<HopReport>,
    /// Whether the trace has reached the router next to the source, and all routers forward.
    pub is_whole: bool,
    /// The end of the trace, and its reason: one sentence.
    pub end: String,
}

/// A router on the way.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HopReport {
    /// The number of the router, from 1 on.
    pub hop: usize,
    /// An address of the router. `None`: it gave none.
    pub router: Option<IpAddr>,
    /// The router that the source's packets come from. `None`: the source is a neighbour, or it is not known.
    pub upstream: Option<IpAddr>,
    /// The interface by which packets come in: its address (IPv4) or number (IPv6).
    pub incoming: Option<String>,
    /// The interface by which packets leave towards this host.
    pub outgoing: Option<String>,
    /// The multicast routing protocol.
    pub protocol: String,
    /// The hop limit that packets must exceed to leave. `None`: not known.
    pub hop_limit: Option<u8>,
    /// Multicast packets that came in by the incoming interface, and that left by the outgoing one, since the router
    /// started.
    pub interface_packets_in: Option<u64>,
    pub interface_packets_out: Option<u64>,
    /// Packets of the source to the group that the router has forwarded.
    pub packets: Option<u64>,
    /// The rate of these packets, over the last second.
    pub packets_per_second: Option<f64>,
    /// The share of packets that were lost between the next router towards the source and this one, 0 to 1.
    pub loss: Option<f64>,
    /// The name of the forwarding code (RFC 8487).
    pub code: String,
    /// The meaning of the forwarding code.
    pub meaning: &'static str,
}

impl Report {
    pub(super) fn new(question: &Question, interface: &Interface, way: Traced) -> Self {
        let hops: Vec<_> =
            way.hops.iter().enumerate().map(|(index, hop)| HopReport::new(index + 1, hop)).collect();
        Self {
            group: question.group,
            source: question.source,
            interface: interface.name.clone(),
            client: question.client,
            is_whole: way.is_whole(),
            end: end(&way, question, interface),
            hops,
        }
    }
}

impl HopReport {
    fn new(hop: usize, of: &Hop) -> Self {
        let block = &of.block;
        let is_known = |address: &IpAddr| !address.is_unspecified();
        let (incoming, outgoing, hop_limit) = match block.interfaces {
            Interfaces::V4 { incoming, outgoing, hop_limit, .. } => {
                let shown = |address: IpAddr| Some(address).filter(is_known).map(|it| it.to_string());
                (shown(incoming.into()), shown(outgoing.into()), Some(hop_limit))
            }
            Interfaces::V6 { incoming, outgoing, .. } => {
                let shown = |number: u32| (number > 0).then(|| format!("#{number}"));
                (shown(incoming), shown(outgoing), None)
            }
        };
        Self {
            hop,
            router: block.interfaces.router(),
            upstream: block.interfaces.upstream(),
            incoming,
            outgoing,
            protocol: protocol(block.multicast_protocol),
            hop_limit,
            interface_packets_in: block.packets_in,
            interface_packets_out: block.packets_out,
            packets: block.packets,
            packets_per_second: of.packets_per_second,
            loss: of.loss,
            code: block.code.to_string(),
            meaning: block.code.words(),
        }
    }
}

fn end(way: &Traced, question: &Question, interface: &Interface) -> String {
    let shown = |address: Option<IpAddr>| address.map_or("it".to_owned(), |address| address.to_string());
    let last = way.hops.last().and_then(|hop| hop.block.interfaces.router());
    let router = format!("router {} ({})", way.hops.len(), shown(last));
    match way.end {
        End::Source => {
            let source = question.source.map_or("the source".to_owned(), |source| source.to_string());
            let silent = way.hops.iter().any(|hop| hop.block.code == ForwardingCode::NotForwarding);
            let remark =
                if silent { ". Some routers do not forward: nobody behind them listens" } else { "" };
            format!("{router} is on the network of {source}{remark}")
        }
        End::Code(code) => format!("{router} {}", code.words()),
        End::MostHops => format!("{router} is the last one that the trace may pass (raise --max-hops)"),
        End::Silent { next } => format!(
            "{router} is the last one that answers. It takes packets from {}, which does not answer Mtrace2, or not \
             this trace",
            next.map_or("a router that it does not name".to_owned(), |next| next.to_string())
        ),
        End::Neighbour => format!(
            "no router lies between: {} would be on the network of {} itself. Whether it sends was not looked for",
            shown(question.source),
            interface.name
        ),
        End::Nobody => format!(
            "no router on the network of {} answers Mtrace2: is one there, and does it run `treecast mroute`?",
            interface.name
        ),
    }
}

/// The names of IANAipMRouteProtocol.
fn protocol(number: u16) -> String {
    let name = match number {
        0 => "unknown",
        1 => "other",
        2 => "local",
        3 => "static",
        4 => "DVMRP",
        5 => "MOSPF",
        6 => "PIM sparse-dense",
        7 => "CBT",
        8 => "PIM sparse",
        9 => "PIM dense",
        10 => "IGMP/MLD",
        11 => "BGMP",
        12 => "MSDP",
        other => return format!("#{other}"),
    };
    name.to_owned()
}
