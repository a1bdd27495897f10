//! What the machine is told about the session.

use std::time::Duration;

use treecast_proto::vcmtp::{Repair, SenderConfig};
use treecast_wire::ticket;

use super::super::{KEEPALIVE, Plan, Rate};
use crate::{pacer, udp::frames_in_super_packet};

/// A receiver that reports nothing for this long while it holds the rest up, or less than it could have taken at the floor,
/// is not waited for.
const PATIENCE: Duration = Duration::from_millis(500);

pub(super) fn machine_config(plan: &Plan) -> SenderConfig {
    let run_len = |rate_bps| packets_per_run(plan, rate_bps) as u32 * u32::from(plan.block_len);
    SenderConfig {
        session: plan.session,
        repair: match plan.options.repair {
            ticket::Repair::None | ticket::Repair::Carousel => Repair::None,
            ticket::Repair::After => Repair::After,
            ticket::Repair::Nack => Repair::Nack,
        },
        fec: plan.options.fec,
        digest_to_group: plan.identity.is_some(),
        block_len: plan.block_len,
        max_run_len: run_len(plan.options.rate.fixed_bps()),
        slower_run_lens: plan.options.slower_rates.iter().map(|rate| run_len(Some(*rate))).collect(),
        retransmission_timeout_factor: plan.options.retransmission_timeout_factor,
        minimum_retransmission_time: plan.options.minimum_retransmission_time,
        follow_progress: plan.options.rate.fixed_bps().is_none(),
        patience: PATIENCE,
        floor_bytes_a_second: floor(plan),
        stall_limit: plan.options.stall_limit,
        at_once: plan.options.at_once,
        is_feed: plan.options.feed.is_some(),
        keepalive: KEEPALIVE,
    }
}

/// What a receiver at `--rate-floor`, which counts IP packets, takes of objects: bytes a second.
fn floor(plan: &Plan) -> Option<u64> {
    let Rate::Auto { floor_bps } = plan.options.rate else { return None };
    let of_objects =
        |bps: u64| u128::from(bps / 8) * u128::from(plan.block_len) / u128::from(plan.packet_bytes());
    floor_bps.map(|bps| u64::try_from(of_objects(bps)).unwrap_or(u64::MAX))
}

/// How many packets leave at once at this rate.
pub(super) fn packets_per_run(plan: &Plan, rate_bps: Option<u64>) -> usize {
    pacer::packets_per_run(rate_bps, plan.packet_bytes(), frames_in_super_packet(plan.datagram_len()))
}
