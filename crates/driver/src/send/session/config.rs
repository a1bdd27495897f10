//! The configuration of the session's machine.

use std::time::Duration;

use treecast_proto::{
    carousel,
    local::{self, CopiesSent, Tuning},
    policy,
    repair::Sender,
    vcmtp::{self, SenderConfig},
};
use treecast_wire::{
    message::{BlockHashes, Contents, Member},
    ticket::Fanout,
};

use super::super::{
    CarouselOptions, Connected, Dialect, FeedSource, LocalOptions, Mend, Plan, Rate, SendError, SessionKind,
};
use crate::{files::NamedSource, security::random, udp::frames_in_super_packet};

/// Blocks that are signed together are out within this time, unless they are fewer than [`FEWEST_SIGNED`].
const SIGNED_MILLIS: u64 = 500;
const FEWEST_SIGNED: usize = 16;

/// The machine of the session's repair.
pub(super) fn machine(plan: &Plan, me: Option<Member>) -> Result<Sender, SendError> {
    match &plan.options.kind {
        SessionKind::Connected(connected) => {
            Ok(Sender::Vcmtp(Box::new(vcmtp::Sender::new(vcmtp_config(plan, connected)))))
        }
        SessionKind::Carousel(carousel) => ring(plan, &carousel.options),
        SessionKind::Local(of_groups) => local(plan, &of_groups.options, me),
    }
}

fn ring(plan: &Plan, options: &CarouselOptions) -> Result<Sender, SendError> {
    let is_ours = options.dialect == Dialect::Session;
    let config = carousel::SenderConfig {
        session: plan.session,
        max_run_lens: plan
            .rates()
            .map(|rate| (signed_blocks(plan, rate).unwrap_or_else(|| packets_per_run(plan, rate))) as u32)
            .map(|blocks| blocks * u32::from(plan.block_len))
            .collect(),
        block_len: plan.block_len,
        fec: plan.options.fec().is_some(),
        announce: is_ours,
        // An index goes before its object, where receivers then say what they lack.
        start: if is_ours && !plan.hears_reports() { u64::from_be_bytes(random()?) } else { 0 },
        first_row: if plan.goes_on { 1 + u64::from(u32::from_be_bytes(random()?)) } else { 0 },
        has_reports: plan.hears_reports(),
        idle: options.idle,
        loops: options.loops,
    };
    let objects = plan.sources.iter().map(NamedSource::begin).collect::<Result<Vec<_>, _>>()?;
    let machine = carousel::Sender::new(config, &objects);
    machine.map(|machine| Sender::Carousel(Box::new(machine))).map_err(|_| SendError::Contents(objects.len()))
}

/// How long a session with local groups waits for more receivers when the first is there, so that groups can form.
const SETTLING: Duration = Duration::from_secs(1);

fn local(plan: &Plan, options: &LocalOptions, me: Option<Member>) -> Result<Sender, SendError> {
    let me = me.unwrap_or(Member(plan.group.group));
    let (rate, wanted) = (plan.local_rate_bps(), plan.options.start.wait_for);
    let ticket = plan.local_ticket(options);
    let run = packets_per_run(plan, plan.options.rate().fixed_bps()) as u32 * u32::from(plan.block_len);
    let config = local::SenderConfig {
        session: plan.session,
        block_len: plan.block_len,
        me,
        mode: ticket.mode,
        max_run_len: run,
        rate_bps: rate,
        shares_link: options.shares_link,
        minimum_rate_bps: options.floor_bps.map_or(0, |bps| plan.of_objects(bps)),
        window_bytes: policy::local_window_bytes(rate),
        // The driver gives up before that.
        settling: if wanted > 1 { plan.options.start.wait_timeout + SETTLING } else { SETTLING },
        wait_for: (wanted > 1).then_some(wanted),
        named: options.groups.as_ref().map(|groups| groups.receivers(plan.group.group.is_ipv4())),
        copies: copies_sent(plan)?,
        tuning: Tuning {
            deadline: options.deadline,
            is_feed: plan.options.content.feed.is_some(),
            repair_rate_bps: ticket.repair_rate_bps,
            ..Tuning::default()
        },
    };
    let objects = plan.sources.iter().map(NamedSource::begin).collect::<Result<Vec<_>, _>>()?;
    let begins_empty = objects.is_empty() && plan.options.content.feed.is_some();
    if !begins_empty && Contents::new(objects.len() as u32).is_err() {
        return Err(SendError::Contents(objects.len()));
    }
    Ok(Sender::Local(Box::new(local::Sender::new(config, objects))))
}

/// How the machine of local groups sends to single members. `None` where the groups have addresses.
fn copies_sent(plan: &Plan) -> Result<Option<CopiesSent>, SendError> {
    let have_addresses = plan.ticket(Vec::new()).has_local_addresses();
    let share_rate = plan.options.fanout == Fanout::Unicast;
    Ok(if have_addresses { None } else { Some(CopiesSent { key: random()?, share_rate }) })
}

/// How many blocks are signed together at this rate. `None` where none are: in a plain session.
pub(super) fn signed_blocks(plan: &Plan, rate_bps: Option<u64>) -> Option<usize> {
    plan.identity.as_ref()?;
    let most = BlockHashes::per_page(plan.block_len)?;
    let Some(rate) = rate_bps else { return Some(most) };
    let in_time = rate / 8 * SIGNED_MILLIS / 1000 / plan.packet_bytes();
    Some(usize::try_from(in_time).unwrap_or(most).clamp(FEWEST_SIGNED, most))
}

fn vcmtp_config(plan: &Plan, connected: &Connected) -> SenderConfig {
    let run_len = |rate_bps| packets_per_run(plan, rate_bps) as u32 * u32::from(plan.block_len);
    SenderConfig {
        session: plan.session,
        repair: match connected.mend {
            Mend::None => vcmtp::Repair::None,
            Mend::After => vcmtp::Repair::After,
            Mend::Nack => vcmtp::Repair::Nack,
        },
        fec: connected.fec,
        digest_to_group: plan.identity.is_some(),
        block_len: plan.block_len,
        max_run_len: run_len(plan.options.rate().fixed_bps()),
        slower_run_lens: plan.rates().skip(1).map(run_len).collect(),
        slower_groups_mend: plan.options.slower_rates().is_empty(),
        retransmission_timeout_factor: connected.retransmission_timeout_factor,
        minimum_retransmission_time: connected.minimum_retransmission_time,
        follow_progress: plan.options.rate().fixed_bps().is_none(),
        patience: policy::PATIENCE,
        floor_bytes_a_second: floor(plan),
        stall_limit: connected.stall_limit,
        at_once: connected.at_once,
        is_feed: plan.options.content.feed.is_some(),
        kept_objects: match plan.options.content.feed {
            Some(FeedSource::Stream { spool: Some(_) }) => u32::MAX,
            _ => plan.options.content.kept_objects,
        },
        keepalive: policy::KEEPALIVE,
    }
}

/// What a receiver at `--rate-floor`, which counts IP packets, takes of objects: bytes a second.
fn floor(plan: &Plan) -> Option<u64> {
    let Rate::Auto { floor_bps, .. } = plan.options.rate() else { return None };
    let of_objects =
        |bps: u64| u128::from(bps / 8) * u128::from(plan.block_len) / u128::from(plan.packet_bytes());
    floor_bps.map(|bps| u64::try_from(of_objects(bps)).unwrap_or(u64::MAX))
}

/// How many packets leave at once at this rate: where blocks are signed, no more than a page stands for.
pub(super) fn packets_per_run(plan: &Plan, rate_bps: Option<u64>) -> usize {
    let limit = frames_in_super_packet(plan.datagram_len());
    let packets = policy::packets_per_run(rate_bps, plan.packet_bytes(), limit);
    let signed = plan.options.kind.carousel().and_then(|_| signed_blocks(plan, rate_bps));
    packets.min(signed.unwrap_or(packets))
}
