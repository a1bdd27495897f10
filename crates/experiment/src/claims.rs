//! Whether an experiment has shown what it set out to show.

use treecast_measure::{analysis::SharedLink, statistics::percentile};

use super::file::{Claim, Measure, Which};
use treecast_lab::quantity::Size;

/// How one run ended, as far as claims are about it.
#[derive(Debug, Clone)]
pub struct RunTime {
    pub of: Which,
    pub size: Size,
    pub link_rate_bps: u64,
    /// The run time of the slowest client; none when a client failed.
    pub slowest_seconds: Option<f64>,
    /// That of the median one; none as before.
    pub median_seconds: Option<f64>,
    /// Of a feed's slow receivers.
    pub robustness: Option<f64>,
    /// Of a feed's fast receivers.
    pub throughput_mbps: Option<f64>,
    /// Bytes that left the server, by its interfaces' counters; none when they were not sampled.
    pub sent_bytes: Option<u64>,
    /// Processor time of a client's program on average; none when there are no clients.
    pub processor_ms: Option<f64>,
    /// How flows shared a link; none when they did not, or not to the end.
    pub link: Option<SharedLink>,
}

/// What became of a claim, for one size.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Finding {
    pub says: String,
    pub size_bytes: u64,
    /// None when there is nothing to compare: a client failed, or the run was cut short.
    pub ratio: Option<f64>,
    /// Why there is nothing to compare, where that is known.
    #[serde(default)]
    pub missing: Option<String>,
    pub at_most: Option<f64>,
    pub at_least: Option<f64>,
    pub holds: bool,
    /// Whether it is a value by itself, and no ratio of two.
    #[serde(default)]
    pub is_value: bool,
    #[serde(default)]
    pub measure: Measure,
}

impl Finding {
    fn unit(&self) -> &'static str {
        match self.measure {
            Measure::Robustness if self.is_value => " of the objects",
            Measure::Throughput if self.is_value => " Mbit/s",
            Measure::Share if self.is_value => " times the rival's",
            Measure::Used if self.is_value => " of the link",
            Measure::Calm if self.is_value => " s",
            Measure::Loss if self.is_value => " of the packets",
            Measure::Processor if self.is_value => " ms",
            _ => " times",
        }
    }

    /// The ratio, for a person.
    pub fn measured(&self) -> String {
        match (self.ratio, &self.missing) {
            (Some(ratio), _) => format!("{ratio:.3}{}", self.unit()),
            (None, Some(why)) => format!("nothing: {why}"),
            (None, None) if self.measure == Measure::Calm => "never".into(),
            (None, None) => "nothing: a client failed".into(),
        }
    }

    /// The bounds, for a person.
    pub fn limit(&self) -> String {
        let bound =
            |word: &str, bound: Option<f64>| bound.map(|bound| format!("at {word} {bound}{}", self.unit()));
        let bounds = [bound("most", self.at_most), bound("least", self.at_least)];
        bounds.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }
}

/// Compares what each claim compares, size by size.
pub fn findings(claims: &[Claim], runs: &[RunTime]) -> Vec<Finding> {
    let mut sizes: Vec<Size> = runs.iter().map(|run| run.size).collect();
    sizes.sort();
    sizes.dedup();
    // A feed's claim is one for all sizes that were drawn.
    let sizes_of = |claim: &Claim| match claim.of.configuration() {
        Some(_) => &sizes[..sizes.len().min(1)],
        None => &sizes[..],
    };
    claims.iter().flat_map(|claim| sizes_of(claim).iter().map(|&size| finding(claim, size, runs))).collect()
}

fn finding(claim: &Claim, size: Size, runs: &[RunTime]) -> Finding {
    let of = median(claim.measure, &claim.of, size, runs);
    let to = match &claim.to {
        Some(which) => median(claim.measure, which, size, runs),
        None if matches!(claim.measure, Measure::Time | Measure::Median) => {
            seconds_on_the_link(&claim.of, size, runs)
        }
        None if claim.measure == Measure::Sent => Some(size.0 as f64),
        None => Some(1.0),
    };
    let ratio = of.zip(to).map(|(of, to)| of / to);
    Finding {
        says: claim.says.clone(),
        size_bytes: size.0,
        ratio,
        missing: None,
        at_most: claim.at_most,
        at_least: claim.at_least,
        holds: is_within(ratio, claim.at_most, claim.at_least),
        is_value: claim.to.is_none()
            && !matches!(claim.measure, Measure::Time | Measure::Median | Measure::Sent),
        measure: claim.measure,
    }
}

/// Whether there is a ratio, and it is within its bounds.
pub fn is_within(ratio: Option<f64>, at_most: Option<f64>, at_least: Option<f64>) -> bool {
    ratio.is_some_and(|ratio| {
        at_most.is_none_or(|most| ratio <= most) && at_least.is_none_or(|least| ratio >= least)
    })
}

/// The median of the runs' slowest clients; none when there is no run, or one failed.
fn median(measure: Measure, which: &Which, size: Size, runs: &[RunTime]) -> Option<f64> {
    // The runs of a feed differ in their size by what was drawn.
    let is_size = |run: &RunTime| run.size == size || which.configuration().is_some();
    let matching = runs.iter().filter(|run| is_size(run) && run.of == *which);
    let of = |run: &RunTime| match measure {
        Measure::Time => run.slowest_seconds,
        Measure::Median => run.median_seconds,
        Measure::Robustness => run.robustness,
        Measure::Throughput => run.throughput_mbps,
        Measure::Sent => run.slowest_seconds.and(run.sent_bytes).map(|bytes| bytes as f64),
        Measure::Share => run.link.as_ref()?.share,
        Measure::Used => run.link.as_ref().map(|link| link.used),
        Measure::Calm => run.link.as_ref()?.recovery.map(|after| after.as_secs_f64()),
        Measure::Loss => run.link.as_ref()?.loss_after,
        Measure::Processor => run.slowest_seconds.and(run.processor_ms),
    };
    let values: Option<Vec<f64>> = matching.map(of).collect();
    percentile(&values?, 50.0)
}

/// The size divided by the rate of the slowest link.
fn seconds_on_the_link(which: &Which, size: Size, runs: &[RunTime]) -> Option<f64> {
    let run = runs.iter().find(|run| run.of == *which)?;
    Some(size.0 as f64 * 8.0 / run.link_rate_bps as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{delivery::Delivery, feed::Priority, schedule::Schedule};

    fn which(network: &str) -> Which {
        Which {
            network: network.into(),
            delivery: Delivery::Nack,
            schedule: Schedule::Immediate,
            load: None,
            factor: None,
            priority: None,
        }
    }

    fn run(network: &str, seconds: Option<f64>) -> RunTime {
        let size = Size(100_000_000);
        RunTime {
            of: which(network),
            size,
            link_rate_bps: 100_000_000,
            slowest_seconds: seconds,
            median_seconds: seconds,
            robustness: None,
            throughput_mbps: None,
            sent_bytes: None,
            processor_ms: None,
            link: None,
        }
    }

    fn claim(to: Option<&str>, at_most: Option<f64>, at_least: Option<f64>) -> Claim {
        Claim {
            says: "flat".into(),
            measure: Measure::Time,
            of: which("L40"),
            to: to.map(which),
            at_most,
            at_least,
        }
    }

    #[test]
    fn medians_are_compared() {
        let seconds = [("L40", 11.0), ("L40", 12.0), ("L40", 90.0), ("L5", 10.0)];
        let runs = seconds.map(|(network, seconds)| run(network, Some(seconds)));
        let found =
            findings(&[claim(Some("L5"), Some(1.2), None), claim(Some("L5"), Some(1.1), None)], &runs);
        assert_eq!(found[0].ratio, Some(1.2));
        assert_eq!([found[0].holds, found[1].holds], [true, false]);
    }

    #[test]
    fn without_to_the_link_is_the_measure() {
        let found = findings(&[claim(None, None, Some(1.4))], &[run("L40", Some(12.0))]);
        assert_eq!((found[0].ratio, found[0].holds), (Some(1.5), true));
    }

    #[test]
    fn robustness_is_a_value_by_itself_and_the_throughput_of_two_runs_a_ratio() {
        let of = |factor| Which {
            load: Some(0.4),
            factor: Some(factor),
            priority: Some(Priority::Fair),
            ..which("n30")
        };
        let run = |factor, size: u64, robustness, throughput| RunTime {
            of: of(factor),
            size: Size(size),
            robustness: Some(robustness),
            throughput_mbps: Some(throughput),
            ..run("n30", None)
        };
        let runs = [run(50.0, 7, 0.98, 90.0), run(50.0, 8, 0.99, 90.0), run(10.0, 7, 0.8, 92.0)];
        let claim =
            |measure, to, at_least| Claim { measure, of: of(50.0), to, ..claim(None, None, Some(at_least)) };
        let robust = claim(Measure::Robustness, None, 0.975);
        let cheap = claim(Measure::Throughput, Some(of(10.0)), 0.987);
        let found = findings(&[robust, cheap], &runs);
        assert_eq!(found.len(), 2, "one for each claim, whatever was drawn");
        assert_eq!((found[0].holds, found[0].measured().as_str()), (true, "0.985 of the objects"));
        assert_eq!((found[1].holds, found[1].measured().as_str()), (false, "0.978 times"));
    }

    #[test]
    fn what_was_sent_is_compared_with_the_size() {
        let mut runs = [run("L40", Some(1.0)), run("L5", Some(1.0))];
        runs[0].processor_ms = Some(7.5);
        let processor = Claim { measure: Measure::Processor, ..claim(None, Some(8.0), None) };
        let found = findings(&[processor], &runs);
        assert_eq!((found[0].holds, found[0].measured().as_str()), (true, "7.500 ms"));
        runs[0].sent_bytes = Some(155_000_000);
        let sent = |to| Claim { measure: Measure::Sent, ..claim(to, Some(1.6), None) };
        let found = findings(&[sent(None), sent(Some("L5"))], &runs);
        assert_eq!((found[0].ratio, found[0].holds), (Some(1.55), true));
        assert_eq!((found[1].ratio, found[1].holds), (None, false), "it was not sampled there");
    }

    #[test]
    fn a_share_is_a_value_and_a_link_that_never_calms_holds_nothing() {
        let link = SharedLink {
            flows_bps: vec![15e6, 30e6],
            receivers_bps: vec![15e6, 30e6],
            share: Some(0.5),
            used: 0.9,
            loss: 0.01,
            waiting_bytes: 1e5,
            recovery: None,
            loss_after: Some(0.04),
        };
        let runs = [RunTime { link: Some(link), ..run("L40", None) }];
        let claim = |measure, most, least| Claim { measure, ..claim(None, most, least) };
        let claims = [
            claim(Measure::Share, Some(2.0), Some(0.5)),
            claim(Measure::Calm, Some(3.0), None),
            claim(Measure::Loss, Some(0.05), None),
        ];
        let found = findings(&claims, &runs);
        let said: Vec<(String, bool)> = found.iter().map(|found| (found.measured(), found.holds)).collect();
        assert_eq!(said[0], ("0.500 times the rival's".into(), true));
        assert_eq!(said[1], ("never".into(), false));
        assert_eq!(said[2], ("0.040 of the packets".into(), true));
    }

    #[test]
    fn a_failed_client_leaves_nothing_to_compare() {
        let runs = [run("L40", Some(1.0)), run("L40", None), run("L5", Some(1.0))];
        let found = findings(&[claim(Some("L5"), Some(9.0), None)], &runs);
        assert_eq!((found[0].ratio, found[0].holds), (None, false));
    }
}
