//! Plans what a stream sends in a run, and computes what that should cost on the network's tree
//! (meadcast-thesis-2024, 4.4).

use std::time::Duration;

use crate::mead_plan::{self, Cost, Group, Scheme, thesis_payload};

use super::keys::{Load, Stream};
use crate::{
    document::{delivery::Delivery, network},
    plan::Scope,
};

/// The plan of a stream, and its computed cost.
#[derive(Debug, Clone)]
pub struct PlannedStream {
    pub load: Load,
    /// The number of bytes of data in a datagram.
    pub payload_bytes: usize,
    /// The number of datagrams that each sender sends.
    pub packets: u32,
    /// The time from one datagram of a sender to its next one.
    pub interval: Duration,
    /// The most addresses in a packet.
    pub max: usize,
    /// The bytes that the delivery should take on all links and from the senders, and those of a multicast
    /// tree.
    pub computed: Bytes,
    pub floor: Bytes,
}

/// Numbers of bytes of all packets of one run of an experiment, headers included: on all links added up, and from the senders alone.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Bytes {
    pub network: u64,
    pub sender: u64,
}

/// The most addresses in a packet where neither the delivery nor a use case says it.
const MOST_ADDRESSES: usize = 20;

/// An Ethernet frame's header, which links count and the tree does not.
const ETHERNET_LEN: u64 = 14;

/// The length of an IPv6 and a UDP header in bytes.
pub const HEADERS_LEN: u64 = 48;

/// The factor by which a file takes longer when too much of it was lost.
const SLOWER: f64 = 1.4;

/// The share of the fullest link that is used.
const OF_LINK: f64 = 0.95;

impl PlannedStream {
    /// Returns the plan of the same traffic at a lower rate.
    pub fn slower(&self) -> Self {
        Self { interval: self.interval.mul_f64(SLOWER), ..self.clone() }
    }

    /// Returns how long the traffic takes.
    pub fn duration(&self) -> Duration {
        self.interval * self.packets
    }
}

/// Plans the stream of a run.
pub fn plan(
    stream: &Stream,
    at: &Scope,
    delivery: &Delivery,
    load: Load,
    groups: &[Group],
) -> Result<PlannedStream, String> {
    let (experiment, topology) = (at.experiment, &at.at.topology);
    let of_use_case = experiment.cast.as_ref().map_or(MOST_ADDRESSES, |cast| cast.use_case.max);
    // The same for all deliveries: what the longest list of addresses leaves.
    let largest = experiment.deliveries.iter().map(|delivery| delivery.max(of_use_case)).max();
    let payload_bytes =
        stream.payload_bytes.unwrap_or_else(|| thesis_payload(largest.unwrap_or(of_use_case)));
    let max = delivery.max(of_use_case);
    let support = delivery.support.routers(topology)?;
    let cost = |scheme: &Scheme| -> Result<Cost, String> {
        let mut sum = Cost::default();
        for group in groups {
            let one = mead_plan::cost(topology, group, support.as_ref(), (max, payload_bytes), scheme)?;
            sum.network_bytes += one.network_bytes;
            sum.sender_bytes += one.sender_bytes;
            // Too much where senders do not share their fullest links.
            sum.heaviest_bytes += one.heaviest_bytes;
        }
        Ok(sum)
    };
    let (computed, floor) = (cost(&delivery.scheme(max))?, cost(&Scheme::Multicast)?);
    let packets = load.packets(payload_bytes);
    let whole = |cost: Cost| Bytes {
        network: cost.network_bytes * u64::from(packets),
        sender: cost.sender_bytes * u64::from(packets),
    };
    let (computed_bytes, floor_bytes) = (whole(computed), whole(floor));
    let interval = match load {
        Load::Rate { seconds, .. } => Duration::from_secs(seconds.into()) / packets.max(1),
        Load::Bytes(_) => {
            let rate_bps = network::link_rate_bps(topology)
                .ok_or("a file goes as fast as its links bear it: name the network's `link_rate`")?;
            let copies = computed.heaviest_bytes.div_ceil(payload_bytes as u64 + HEADERS_LEN);
            let bits = (computed.heaviest_bytes + copies * ETHERNET_LEN) * 8;
            Duration::from_secs_f64(bits as f64 / (rate_bps as f64 * OF_LINK))
        }
    };
    Ok(PlannedStream {
        load,
        payload_bytes,
        packets,
        interval,
        max,
        computed: computed_bytes,
        floor: floor_bytes,
    })
}
