//! What the machine is told about the session.

use std::time::Duration;

use treecast_proto::vcmtp::{Repair, SenderConfig};
use treecast_wire::ticket;

use super::super::{KEEPALIVE, Plan};
use crate::{pacer, udp::frames_in_super_packet};

/// A receiver that reports nothing for this long while it holds the rest up is not waited for.
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
        block_len: plan.block_len,
        max_run_len: run_len(plan.options.rate.fixed_bps()),
        slower_run_lens: plan.options.slower_rates.iter().map(|rate| run_len(Some(*rate))).collect(),
        retransmission_timeout_factor: plan.options.retransmission_timeout_factor,
        minimum_retransmission_time: plan.options.minimum_retransmission_time,
        follow_progress: plan.options.rate.fixed_bps().is_none(),
        patience: PATIENCE,
        stall_limit: plan.options.stall_limit,
        at_once: plan.options.at_once,
        is_feed: plan.options.feed.is_some(),
        keepalive: KEEPALIVE,
    }
}

/// How many packets leave at once at this rate.
pub(super) fn packets_per_run(plan: &Plan, rate_bps: Option<u64>) -> usize {
    pacer::packets_per_run(rate_bps, plan.packet_bytes(), frames_in_super_packet(plan.datagram_len()))
}
