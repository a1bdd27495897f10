//! The measures of a shared link: the rate of each flow, how much of the link they used, and what its queue dropped.
//!
//! A flow's rate is that of the Ethernet frames that leave the link for its receivers, retransmissions included: it is what
//! the flow takes of the link, and what it takes from others. What is dropped is dropped in front of the link, so loss
//! is the share of the packets that came there.

use std::time::Duration;

use treecast_measure::{
    Db, DbError,
    rates::{Rate, growth_within},
    series::{self, Counter, Queue},
    statistics::percentile,
};

use super::contest::Outcome;
use crate::{
    filing::{Filing, Series},
    plan::path::SharedPath,
    record::Record,
};

/// The measures of flows that share a link, with their units.
pub const MEASURES: &[(&str, &str)] = &[
    ("share", ""),
    ("part", ""),
    ("used", ""),
    ("goodput", "bit/s"),
    ("lost", ""),
    ("calm", "s"),
    ("lost_after", ""),
    ("waiting", "B"),
    ("flow_rate", "bit/s"),
    ("rival_rate", "bit/s"),
    ("receiver_rate", "bit/s"),
    ("rival_receiver_rate", "bit/s"),
    ("queue", "B"),
];

/// The series of flows that share a link, with their units: what each flow takes of the link, what the link could carry,
/// the packets that are lost in front of it over [`WINDOW`], and the bytes that wait there.
pub const SERIES: &[(&str, &str)] = &[
    ("flow", "bit/s"),
    ("rival", "bit/s"),
    ("second_rival", "bit/s"),
    ("capacity", "bit/s"),
    ("lost", "%"),
    ("waiting", "B"),
];

/// Loss from which on a link that has become slower is not yet shared well.
const TOO_MUCH_LOSS: f64 = 0.05;
/// The time over which loss is measured.
const WINDOW: Duration = Duration::from_secs(1);
/// The time for which loss must stay below [`TOO_MUCH_LOSS`] to have come down.
const CALM: Duration = Duration::from_secs(5);
/// The time after a change of the link's rate for which loss may be what it likes.
const GRACE: Duration = Duration::from_secs(3);

/// The samples of a run in which flows share a link.
pub struct Shared {
    /// The bytes that each flow took of the link over time. `passed`, `dropped` and `waiting` are those in front of
    /// the link.
    pub flows: Vec<Vec<Rate>>,
    pub passed: Vec<Rate>,
    pub dropped: Vec<Rate>,
    /// Bytes that waited, at times.
    pub waiting: Vec<(Duration, i64)>,
    /// The link's rates, each with the time after the run's start from which on it held.
    pub rates: Vec<(Duration, u64)>,
    /// The rate that the median receiver of each flow got over the time, in bits a second.
    pub receivers_bps: Vec<f64>,
}

impl Shared {
    /// Loads the samples from the database. `receivers` are the receivers of each flow.
    pub fn load(
        db: &Db,
        record: &Record,
        path: &SharedPath,
        outcome: &Outcome,
        receivers: &[Vec<(String, String)>],
    ) -> Result<Self, DbError> {
        let node = |index: usize| record.node_at(index);
        let queue = |of: Queue| db.counted(node(path.ends[0].0), &series::queue(&path.ends[0].1, of));
        let flow = |(at, interface): &(usize, String)| {
            Ok(db.counted(node(*at), &series::interface(interface, Counter::TxBytes))?.rates())
        };
        let mut shared = Self {
            flows: path.flows.iter().map(flow).collect::<Result<_, DbError>>()?,
            passed: queue(Queue::PassedPackets)?.rates(),
            dropped: queue(Queue::DroppedPackets)?.rates(),
            waiting: queue(Queue::WaitingBytes)?.values(),
            rates: outcome.rates.clone(),
            receivers_bps: Vec::new(),
        };
        if let Some((from, to)) = outcome.together {
            let seconds = (to - from).as_secs_f64();
            for of_flow in receivers {
                let mut each = Vec::new();
                for (name, interface) in of_flow {
                    let received =
                        db.counted(record.node(name), &series::interface(interface, Counter::RxBytes))?;
                    each.push(growth_within(&received.rates(), from, to) * 8.0 / seconds);
                }
                shared.receivers_bps.push(percentile(&each, 50.0).unwrap_or(0.0));
            }
        }
        Ok(shared)
    }

    /// The share of packets that were dropped between two times, from 0 to 1.
    fn loss(&self, from: Duration, to: Duration) -> f64 {
        let (passed, dropped) =
            (growth_within(&self.passed, from, to), growth_within(&self.dropped, from, to));
        dropped / (passed + dropped).max(1.0)
    }

    /// The number of bits that the link could have carried.
    fn capacity_bits(&self, from: Duration, to: Duration) -> f64 {
        let ends = self.rates.iter().skip(1).map(|(at, _)| *at).chain([Duration::MAX]);
        let part = |(&(begin, bps), end): (&(Duration, u64), Duration)| {
            bps as f64 * end.min(to).saturating_sub(begin.max(from)).as_secs_f64()
        };
        self.rates.iter().zip(ends).map(part).sum()
    }

    /// The time after `change` from which on loss was, and stayed, below [`TOO_MUCH_LOSS`]. `None` when it did not
    /// before `end`.
    fn recovery(&self, change: Duration, end: Duration) -> Option<Duration> {
        let begins = || {
            std::iter::once(change).chain(self.passed.iter().map(|rate| rate.from).filter(|at| *at > change))
        };
        let is_calm = |at: Duration| self.loss(at, at + WINDOW) < TOO_MUCH_LOSS;
        let stays_calm =
            |at: &Duration| begins().filter(|begin| (*at..*at + CALM).contains(begin)).all(is_calm);
        begins().take_while(|at| *at + WINDOW <= end).find(stays_calm).map(|at| at - change)
    }
}

/// Returns the rows and series of a run: what each flow got while all flows ran. `senders` are the nodes that the flows come
/// from.
pub fn filing(
    shared: &Shared,
    path: &SharedPath,
    senders: &[&str],
    together: Option<(Duration, Duration)>,
) -> Filing {
    let mut filing = Filing::default();
    filing.run("queue", path.quality.queue_bytes() as f64, "B");
    let Some((from, to)) = together.filter(|(from, to)| from < to) else {
        for (measure, unit) in [("share", ""), ("used", ""), ("calm", "s"), ("lost_after", "")] {
            filing.lacking(None, measure, unit, "the flows did not run together to the end");
        }
        return filing;
    };
    let seconds = (to - from).as_secs_f64();
    let bytes: Vec<f64> = shared.flows.iter().map(|rates| growth_within(rates, from, to)).collect();
    let capacity_bits = shared.capacity_bits(from, to);
    filing.run("used", bytes.iter().sum::<f64>() * 8.0 / capacity_bits, "");
    for (sender, of) in senders.iter().zip(&bytes) {
        filing.node(sender, "part", of * 8.0 * bytes.len() as f64 / capacity_bits, "");
    }
    filing.run("lost", shared.loss(from, to), "");
    let rivals = |measure| std::iter::repeat(measure);
    for (measure, of) in std::iter::once("flow_rate").chain(rivals("rival_rate")).zip(&bytes) {
        filing.run(measure, of * 8.0 / seconds, "bit/s");
    }
    let of_receivers = std::iter::once("receiver_rate").chain(rivals("rival_receiver_rate"));
    for (measure, of) in of_receivers.zip(&shared.receivers_bps) {
        filing.run(measure, *of, "bit/s");
    }
    if let Some((one, rival)) = bytes.first().zip(bytes.get(1)).filter(|(_, rival)| **rival > 0.0) {
        filing.run("share", one / rival, "");
    }
    let waiting = shared.waiting.iter().filter(|(at, _)| (from..to).contains(at));
    let waiting: Vec<f64> = waiting.map(|(_, bytes)| *bytes as f64).collect();
    filing.run("waiting", waiting.iter().sum::<f64>() / waiting.len().max(1) as f64, "B");
    let change = shared.rates.get(1..).and_then(<[_]>::last).map(|(at, _)| *at);
    if let Some(change) = change.filter(|at| *at + GRACE < to) {
        filing.run("lost_after", shared.loss(change + GRACE, to), "");
        match shared.recovery(change, to) {
            Some(after) => filing.run("calm", after.as_secs_f64(), "s"),
            None => filing.lacking(None, "calm", "s", "loss never came down"),
        }
    }
    filing.series = series_of(shared);
    filing
}

/// The points that a run files for [`SERIES`]. A run without a rival has no points for it.
fn series_of(shared: &Shared) -> Vec<Series> {
    let points = |rates: &[Rate], value: &dyn Fn(&Rate) -> f64| -> Vec<(f64, f64)> {
        rates.iter().map(|rate| (rate.middle().as_secs_f64(), value(rate))).collect()
    };
    let flow = |index: usize| shared.flows.get(index).map_or(&[][..], Vec::as_slice);
    let bits = |rate: &Rate| rate.per_second * 8.0;
    let capacity =
        |rate: &Rate| shared.capacity_bits(rate.from, rate.to) / (rate.to - rate.from).as_secs_f64();
    let lost = |at: Duration| ((at + WINDOW / 2).as_secs_f64(), 100.0 * shared.loss(at, at + WINDOW));
    let points = [
        points(flow(0), &bits),
        points(flow(1), &bits),
        points(flow(2), &bits),
        points(flow(0), &capacity),
        shared.passed.iter().map(|rate| lost(rate.from)).collect(),
        shared.waiting.iter().map(|(at, bytes)| (at.as_secs_f64(), *bytes as f64)).collect(),
    ];
    Series::of(SERIES, points)
}

/// Returns a sentence for people that tells what each flow got.
pub fn sentence(filing: &Filing) -> String {
    let value = |measure: &str| filing.value(measure);
    let is_rate = |measure: &str| ["flow_rate", "rival_rate"].contains(&measure);
    let rates = filing.rows.iter().filter(|(_, row)| is_rate(&row.measure)).filter_map(|(_, row)| row.value);
    let rates: Vec<String> = rates.map(|bps| format!("{:.2}", bps / 1e6)).collect();
    let Some((used, lost)) = value("used").zip(value("lost")) else {
        return "the flows did not run together to the end".into();
    };
    let ratio = value("share").map(|ratio| format!(", ratio {ratio:.3}")).unwrap_or_default();
    let calm = match (value("calm"), value("lost_after")) {
        (Some(after), _) => format!(", calm {after:.2} s after the change"),
        (None, Some(_)) => ", never calm after the change".into(),
        (None, None) => String::new(),
    };
    let rates = rates.join(" and ");
    format!("{rates} Mbit/s{ratio}; {:.1} % of the link, {:.2} % loss{calm}", used * 100.0, lost * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates(per_second: impl Fn(u64) -> f64) -> Vec<Rate> {
        let second = |at| Rate {
            from: Duration::from_secs(at),
            to: Duration::from_secs(at + 1),
            per_second: per_second(at),
        };
        (0..20).map(second).collect()
    }

    fn shared(dropped: impl Fn(u64) -> f64) -> Shared {
        Shared {
            flows: vec![rates(|_| 500.0), rates(|_| 250.0)],
            passed: rates(|_| 100.0),
            dropped: rates(dropped),
            waiting: vec![(Duration::ZERO, 100), (Duration::from_secs(5), 300)],
            rates: vec![(Duration::ZERO, 8000), (Duration::from_secs(10), 1600)],
            receivers_bps: vec![1.0, 1.0],
        }
    }

    fn measured(dropped: impl Fn(u64) -> f64, measure: &str) -> Option<f64> {
        let path = SharedPath {
            ends: [(0, "if0".into()), (1, "if0".into())],
            flows: Vec::new(),
            quality: treecast_lab::Quality::default(),
            loss: treecast_lab::Loss::None,
            round_trip: Duration::from_millis(40),
        };
        let filing = filing(
            &shared(dropped),
            &path,
            &["server0", "server1"],
            Some((Duration::ZERO, Duration::from_secs(20))),
        );
        let row = filing.rows.iter().find(|(_, row)| row.measure == measure).expect("it was measured");
        row.1.value
    }

    #[test]
    fn the_link_is_used_by_all_flows_at_whatever_rate_it_has() {
        let of = |measure| measured(|_| 0.0, measure);
        assert_eq!((of("flow_rate"), of("rival_rate"), of("share")), (Some(4000.0), Some(2000.0), Some(2.0)));
        // 750 bytes a second over 20 s, of 8,000 bit/s for 10 s and 1,600 bit/s for 10 s.
        assert!((of("used").unwrap() - 6000.0 * 20.0 / 96_000.0).abs() < 1e-9);
        assert_eq!((of("lost"), of("waiting")), (Some(0.0), Some(200.0)));
        assert_eq!((of("calm"), of("lost_after")), (Some(0.0), Some(0.0)));
    }

    #[test]
    fn a_plot_can_show_the_flows_the_link_and_its_loss_over_time() {
        let series = series_of(&shared(|at| if at == 12 { 100.0 } else { 0.0 }));
        let at = |name: &str, second: usize| {
            series.iter().find(|series| series.measure == name).expect("it is there").points[second]
        };
        assert_eq!([at("flow", 0).1, at("rival", 0).1], [4000.0, 2000.0]);
        assert_eq!([at("capacity", 9), at("capacity", 10)], [(9.5, 8000.0), (10.5, 1600.0)]);
        assert_eq!([at("lost", 11), at("lost", 12)], [(11.5, 0.0), (12.5, 50.0)]);
    }

    #[test]
    fn loss_has_come_down_when_it_stays_down() {
        let twice = |at| if at == 10 || at == 11 { 100.0 } else { 1.0 };
        assert_eq!(measured(twice, "calm"), Some(2.0));
        assert!((measured(twice, "lost_after").unwrap() - 1.0 / 101.0).abs() < 1e-9);
        let again = |at| if [10, 13].contains(&at) { 100.0 } else { 0.0 };
        assert_eq!(measured(again, "calm"), Some(4.0), "it came back within five seconds");
        assert_eq!(measured(|at| if at >= 10 { 10.0 } else { 0.0 }, "calm"), None);
    }
}
