//! Opens the parts of a session from its plan.

use std::{collections::BTreeSet, io, net::SocketAddr};

use treecast_host::{
    poller::{Interest, Poller},
    wake::Waker,
};
use treecast_proto::Instant;
use treecast_wire::ticket::Fanout;

use super::{
    super::{
        FeedSource, Plan, SendError, feed::Feed, gather::Gather, lane::GroupLane, lobby::Lobby,
        numbered::Numbered, repair_share::RepairShare, source_table::SourceTable,
    },
    Congestion, Door, FEED, FIRST_CONNECTION, GroupKeys, LISTENER, Lanes, Objects, Placing, Refusals,
    SlowerLane, Unsigned, config, listen,
};
use crate::{
    fec::Encoders,
    pacer::Pacer,
    pipe,
    security::{manifest::Signer, tls::SenderTls},
};

impl Door {
    /// Opens the control port. Also returns the addresses at which receivers reach it. Repairs
    /// without connections have no control port.
    pub fn open(plan: &Plan, poller: &Poller) -> Result<(Option<Self>, Vec<SocketAddr>), SendError> {
        if !plan.options.repair.has_connections() {
            return Ok((None, Vec::new()));
        }
        let tls = plan.identity.as_ref().map(SenderTls::new).transpose()?;
        let (listener, control) = listen::listen(plan)?;
        poller.add(&listener, LISTENER, Interest::Read)?;
        let door = Self {
            listener,
            lobby: Lobby::new(plan.session, tls)?,
            admissions: 0,
            refusals: Refusals::default(),
            next_token: FIRST_CONNECTION,
        };
        Ok((Some(door), control))
    }
}

impl Lanes {
    /// Opens the sockets of a session.
    pub fn open(plan: &Plan, keys: Option<GroupKeys>, now: Instant) -> Result<Self, SendError> {
        let rate = plan.options.rate;
        let packets = config::packets_per_run(plan, rate.fixed_bps());
        Ok(Self {
            group: GroupLane::open(plan, keys.as_ref().map(GroupKeys::used))?,
            keys,
            gather: Gather::new(plan.block_len),
            runs: 0,
            numbers: plan.numbers(0),
            pacer: Pacer::new(lane_rate(plan), now),
            slower: SlowerLane::all(plan, now),
            congestion: Congestion::new(plan),
            placing: Placing::new(plan),
            repairs: RepairShare::new(plan.options.priority, rate.is_auto()),
            run_bytes: packets as u64 * plan.packet_bytes(),
            ways: None,
            told_narrow: BTreeSet::new(),
            announcing: None,
        })
    }
}

/// The rate of the group's lane, in bits a second. The machine of local groups keeps to the rate by itself; there, the lane's rate only
/// spreads the copies of a run.
fn lane_rate(plan: &Plan) -> Option<u64> {
    let rate = plan.options.rate.fixed_bps();
    match (plan.options.repair.local(), plan.options.fanout) {
        (None, _) => rate,
        (Some(_), Fanout::Multicast) => None,
        (Some(_), _) => rate.map(spread),
    }
}

/// The rate at which the copies of a run leave, where a machine keeps the session to `rate_bps`: a quarter more.
pub(super) fn spread(rate_bps: u64) -> u64 {
    rate_bps.saturating_add(rate_bps / 4)
}

impl Objects {
    /// Starts the feed, if there is one.
    pub fn open(plan: &Plan, poller: &Poller) -> io::Result<Self> {
        let feed_waker = Waker::new()?;
        poller.add(&feed_waker, FEED, Interest::Read)?;
        let mut feed = plan.options.feed.clone();
        let mut pieces = None;
        if let Some(FeedSource::Stream { spool: Some(parent) }) = &mut feed {
            *parent = pieces.insert(pipe::spool(parent)?).path().to_owned();
        }
        Ok(Self {
            sources: SourceTable::default(),
            encoders: Encoders::default(),
            signer: plan.identity.clone().map(Signer::new),
            unsigned: Unsigned::default(),
            feed: feed
                .map(|source| {
                    let rules = plan.options.feed_rules.clone();
                    Feed::start(source, plan.options.compression, rules, feed_waker.clone())
                })
                .transpose()?,
            _spool: pieces,
            feed_waker,
            numbered: Numbered::default(),
            marks: None,
            hashing: None,
        })
    }
}
