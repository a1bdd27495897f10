//! How flows share a link: the rate of each, how much of the link they use, and what its queue drops.
//!
//! A flow's rate is that of the Ethernet frames that leave the link for its receivers, retransmissions included: it is what
//! the flow takes of the link, and what it takes from others. What is dropped is dropped in front of the link, so that
//! loss is the share of the packets that came there.

use std::time::Duration;

use super::{Counted, Rate, RateList, Results, RunData};
use crate::{
    db::{InterfaceInfo, NodeId, Result, SharingInfo},
    series::{self, Counter, Queue},
    statistics::percentile,
};

/// Loss from which on a link that has become slower is not yet shared well.
const TOO_MUCH_LOSS: f64 = 0.05;
/// Over which loss is measured.
const WINDOW: Duration = Duration::from_secs(1);
/// For how long loss must stay below [`TOO_MUCH_LOSS`] to have come down.
const CALM: Duration = Duration::from_secs(5);
/// How long after a change of the link's rate loss may be what it likes.
const GRACE: Duration = Duration::from_secs(3);

/// A run in which flows share a link.
pub struct SharingRun {
    pub data: RunData,
    pub info: SharingInfo,
    /// None of a run that was not over.
    pub measured: Option<SharedLink>,
    /// What each flow took of the link over time, in bytes, and what happened in front of it.
    pub flows: Vec<Vec<Rate>>,
    pub passed: Vec<Rate>,
    pub dropped: Vec<Rate>,
    /// Bytes that waited, at times.
    pub waiting: Vec<(Duration, i64)>,
}

/// What was measured over the time in which all flows ran.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct SharedLink {
    /// Of each flow, in bits a second.
    pub flows_bps: Vec<f64>,
    /// What the median receiver of each flow got in all, in bits a second.
    pub receivers_bps: Vec<f64>,
    /// The first flow's rate divided by the second's.
    pub share: Option<f64>,
    /// What all flows took of the link, from 0 to 1.
    pub used: f64,
    /// Packets that were dropped, from 0 to 1.
    pub loss: f64,
    /// What waited on average.
    pub waiting_bytes: f64,
    /// How long after the last change of the link's rate no second of the next five began in which 5 % were lost.
    pub recovery: Option<Duration>,
    /// The loss from 3 s after that change on.
    pub loss_after: Option<f64>,
}

impl SharedLink {
    /// Who got what, for a person.
    pub fn sentence(&self) -> String {
        let rates: Vec<String> = self.flows_bps.iter().map(|bps| format!("{:.2}", bps / 1e6)).collect();
        let ratio = self.share.map(|ratio| format!(", ratio {ratio:.3}")).unwrap_or_default();
        let calm = match (self.recovery, self.loss_after) {
            (Some(after), _) => format!(", calm {:.2} s after the change", after.as_secs_f64()),
            (None, Some(_)) => ", never calm after the change".into(),
            (None, None) => String::new(),
        };
        format!(
            "{} Mbit/s{ratio}; {:.1} % of the link, {:.2} % loss{calm}",
            rates.join(" and "),
            self.used * 100.0,
            self.loss * 100.0
        )
    }
}

impl SharingRun {
    pub(super) fn load(results: &Results<'_>, data: RunData, info: SharingInfo) -> Result<Self> {
        let series = |node: &str, name: &str| match node_of(&data, node) {
            Some(node) => results.series(node, name),
            None => Ok(Counted::default()),
        };
        let queue = |of: Queue| series(&info.queue.node, &series::queue(&info.queue.label, of));
        let counter = |at: &InterfaceInfo| series(&at.node, &series::interface(&at.label, Counter::TxBytes));
        let flows = info.flows.iter().map(|flow| Ok(counter(&flow.counted_at)?.rates()));
        let mut run = Self {
            flows: flows.collect::<Result<_>>()?,
            passed: queue(Queue::PassedPackets)?.rates(),
            dropped: queue(Queue::DroppedPackets)?.rates(),
            waiting: queue(Queue::WaitingBytes)?.values(),
            measured: None,
            data,
            info,
        };
        if let Some((from, to)) = run.together() {
            run.measured = Some(run.measure(run.receivers_bps(results, from, to)?, from, to));
        }
        Ok(run)
    }

    /// From when to when all flows ran.
    pub fn together(&self) -> Option<(Duration, Duration)> {
        let (from, to) = self.info.together.filter(|(from, to)| from < to)?;
        Some((Duration::try_from_secs_f64(from).ok()?, Duration::try_from_secs_f64(to).ok()?))
    }

    fn measure(&self, receivers_bps: Vec<f64>, from: Duration, to: Duration) -> SharedLink {
        let seconds = (to - from).as_secs_f64();
        let bytes: Vec<f64> = self.flows.iter().map(|rates| rates.growth_within(from, to)).collect();
        let change = self.info.rates.get(1..).and_then(<[_]>::last);
        let change = change.map(|(at, _)| Duration::from_secs_f64(*at)).filter(|at| *at + GRACE < to);
        let waiting =
            self.waiting.iter().filter(|(at, _)| (from..to).contains(at)).map(|(_, bytes)| *bytes as f64);
        let waiting: Vec<f64> = waiting.collect();
        SharedLink {
            share: bytes
                .first()
                .zip(bytes.get(1))
                .filter(|(_, rival)| **rival > 0.0)
                .map(|(one, rival)| one / rival),
            used: bytes.iter().sum::<f64>() * 8.0 / self.capacity_bits(from, to),
            loss: self.loss(from, to),
            waiting_bytes: waiting.iter().sum::<f64>() / waiting.len().max(1) as f64,
            recovery: change.and_then(|at| self.recovery(at, to)),
            loss_after: change.map(|at| self.loss(at + GRACE, to)),
            flows_bps: bytes.into_iter().map(|bytes| bytes * 8.0 / seconds).collect(),
            receivers_bps,
        }
    }

    /// What the link could have carried.
    fn capacity_bits(&self, from: Duration, to: Duration) -> f64 {
        let rates = &self.info.rates;
        let ends = rates.iter().skip(1).map(|(at, _)| *at).chain([f64::MAX]);
        let part = |(&(begin, bps), end): (&(f64, u64), f64)| {
            bps as f64 * (end.min(to.as_secs_f64()) - begin.max(from.as_secs_f64())).max(0.0)
        };
        rates.iter().zip(ends).map(part).sum()
    }

    /// The share of packets that were dropped between two times, from 0 to 1.
    pub fn loss(&self, from: Duration, to: Duration) -> f64 {
        let (passed, dropped) = (self.passed.growth_within(from, to), self.dropped.growth_within(from, to));
        dropped / (passed + dropped).max(1.0)
    }

    /// How long after `change` loss was, and stayed, below [`TOO_MUCH_LOSS`]; `None` when it did not before `end`.
    fn recovery(&self, change: Duration, end: Duration) -> Option<Duration> {
        let begins = || {
            std::iter::once(change).chain(self.passed.iter().map(|rate| rate.from).filter(|at| *at > change))
        };
        let is_calm = |at: Duration| self.loss(at, at + WINDOW) < TOO_MUCH_LOSS;
        let stays_calm =
            |at: &Duration| begins().filter(|begin| (*at..*at + CALM).contains(begin)).all(is_calm);
        begins().take_while(|at| *at + WINDOW <= end).find(stays_calm).map(|at| at - change)
    }

    fn receivers_bps(&self, results: &Results<'_>, from: Duration, to: Duration) -> Result<Vec<f64>> {
        let seconds = (to - from).as_secs_f64();
        let received = |name: &String| -> Result<f64> {
            let Some(node) = node_of(&self.data, name) else { return Ok(0.0) };
            let rates = results.node_counter(node, Counter::RxBytes)?.rates();
            Ok(rates.growth_within(from, to) * 8.0 / seconds)
        };
        let of_flow = |receivers: &Vec<String>| -> Result<f64> {
            let each: Vec<f64> = receivers.iter().map(received).collect::<Result<_>>()?;
            Ok(percentile(&each, 50.0).unwrap_or(0.0))
        };
        self.info.flows.iter().map(|flow| of_flow(&flow.receivers)).collect()
    }
}

fn node_of(data: &RunData, name: &str) -> Option<NodeId> {
    data.nodes.iter().find(|(_, node)| node.name == name).map(|(id, _)| *id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::db::{Machine, Run, RunId, RunInfo, Status};

    fn rates(per_second: impl Fn(u64) -> f64) -> Vec<Rate> {
        let second = |at| Rate {
            from: Duration::from_secs(at),
            to: Duration::from_secs(at + 1),
            per_second: per_second(at),
        };
        (0..20).map(second).collect()
    }

    fn info() -> RunInfo {
        RunInfo {
            experiment: "x".into(),
            topology: "drop".into(),
            clients: 1,
            router_levels: 2,
            link_bps: Some(8000),
            server_bps: None,
            delivery: "nack".into(),
            schedule: "immediate".into(),
            size_bytes: 1,
            repeat: 0,
            seed: 1,
            command: String::new(),
            machine: Machine::here("0"),
        }
    }

    fn run(dropped: impl Fn(u64) -> f64) -> SharingRun {
        let interface = InterfaceInfo { node: "r".into(), label: "x".into() };
        let run = Run {
            id: RunId(1),
            info: info(),
            status: Status::Complete,
            started: std::time::SystemTime::UNIX_EPOCH,
            duration: Duration::from_secs(20),
            saturated: None,
        };
        SharingRun {
            data: RunData { run, nodes: Vec::new(), transfers: Vec::new() },
            info: SharingInfo {
                flows: Vec::new(),
                queue: interface,
                queue_bytes: 1000,
                round_trip_ms: 40.0,
                rates: vec![(0.0, 8000), (10.0, 1600)],
                together: Some((0.0, 20.0)),
            },
            measured: None,
            flows: vec![rates(|_| 500.0), rates(|_| 250.0)],
            passed: rates(|_| 100.0),
            dropped: rates(dropped),
            waiting: vec![(Duration::ZERO, 100), (Duration::from_secs(5), 300)],
        }
    }

    fn measured(dropped: impl Fn(u64) -> f64) -> SharedLink {
        run(dropped).measure(vec![1.0, 1.0], Duration::ZERO, Duration::from_secs(20))
    }

    #[test]
    fn the_link_is_used_by_all_flows_at_whatever_rate_it_has() {
        let link = measured(|_| 0.0);
        assert_eq!((link.flows_bps, link.share), (vec![4000.0, 2000.0], Some(2.0)));
        // 750 bytes a second over 20 s, of 8,000 bit/s for 10 s and 1,600 bit/s for 10 s.
        assert!((link.used - 6000.0 * 20.0 / 96_000.0).abs() < 1e-9, "{}", link.used);
        assert_eq!((link.loss, link.waiting_bytes), (0.0, 200.0));
        assert_eq!((link.recovery, link.loss_after), (Some(Duration::ZERO), Some(0.0)));
    }

    #[test]
    fn loss_has_come_down_when_it_stays_down() {
        let link = measured(|at| if at == 10 || at == 11 { 100.0 } else { 1.0 });
        assert_eq!(link.recovery, Some(Duration::from_secs(2)));
        assert!((link.loss_after.unwrap() - 1.0 / 101.0).abs() < 1e-9);
        let again = measured(|at| if [10, 13].contains(&at) { 100.0 } else { 0.0 });
        assert_eq!(again.recovery, Some(Duration::from_secs(4)), "it came back within five seconds");
        assert_eq!(measured(|at| if at >= 10 { 10.0 } else { 0.0 }).recovery, None);
    }
}
