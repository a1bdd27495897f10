//! Whether an experiment has shown what it set out to show.

use serde::Deserialize;
use treecast_measure::{db::UseCaseInfo, statistics::percentile};

use super::{
    super::claims::{Finding, is_within},
    figures::{Cell, Figures},
};
use treecast_lab::quantity::Size;

/// What the experiment is to show of a delivery, in some or all cells (a number of receivers and a load).
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    pub says: String,
    pub measure: Measure,
    pub of: String,
    /// What it is compared with.
    #[serde(default = "unicast")]
    pub to: String,
    /// Only with so many receivers in a network.
    pub receivers: Option<usize>,
    /// Only of this load.
    pub load: Option<String>,
    pub at_most: Option<f64>,
    pub at_least: Option<f64>,
    /// At most what the thesis measured of this way; cells of which it says nothing do not count.
    pub thesis: Option<String>,
}

fn unicast() -> String {
    "unicast".into()
}

impl Claim {
    pub fn check(&self) -> Result<(), String> {
        match (self.at_most, self.at_least, &self.thesis) {
            (None, None, None) => {
                Err(format!("claim `{}` needs `at_most`, `at_least` or `thesis`", self.says))
            }
            _ => Ok(()),
        }
    }
}

/// What a claim is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// Bytes on all links, as a part of the other delivery's.
    Network,
    /// Bytes that leave the senders, likewise.
    Sender,
    /// The time until all has come, likewise.
    Time,
    /// The part of the packets that did not come.
    Loss,
    /// The part of the packets sent behind the first discovery that did not come.
    LaterLoss,
    /// Bytes of all discoveries but the first, as a part of all that left the sender.
    Discovery,
    /// The longest time in which one of the receivers heard nothing, in seconds. It is of deliveries in which all has come: after
    /// the last packet there is no silence, and a sender that dies would leave none.
    Silence,
    /// How many groups the senders had, as a part of the other delivery's.
    Groups,
    /// The mean latency of the worst second, as a part of the mean of the whole run.
    Peak,
}

impl Measure {
    pub fn name(self) -> &'static str {
        match self {
            Self::Network => "network",
            Self::Sender => "sender",
            Self::Time => "time",
            Self::Loss => "loss",
            Self::LaterLoss => "later-loss",
            Self::Discovery => "discovery",
            Self::Silence => "silence",
            Self::Groups => "groups",
            Self::Peak => "peak",
        }
    }

    /// Whether it is by itself, and not a part of another delivery's.
    fn is_value(self) -> bool {
        matches!(self, Self::Loss | Self::LaterLoss | Self::Peak | Self::Discovery | Self::Silence)
    }

    fn of(self, info: &UseCaseInfo) -> Option<f64> {
        let measured = info.measured.as_ref()?;
        Some(match self {
            Self::Network => measured.bytes.network as f64,
            Self::Sender => measured.bytes.sender as f64,
            Self::Time => measured.seconds,
            Self::Loss => measured.loss(),
            Self::LaterLoss => measured.later_loss()?,
            Self::Discovery => measured.later_discovery_bytes()? / measured.bytes.sender as f64,
            Self::Silence => (measured.came == measured.expected).then_some(measured.longest_gap_ms / 1e3)?,
            Self::Groups => measured.discovery?.groups as f64,
            Self::Peak => measured.latency_peak()?,
        })
    }

    /// Why it has no value.
    fn missing(self, info: &UseCaseInfo) -> Option<String> {
        let measured = info.measured.as_ref()?;
        let (missing, expected) = (measured.expected.saturating_sub(measured.came), measured.expected);
        (self == Self::Silence && missing > 0)
            .then(|| format!("{missing} of {expected} packets did not come"))
    }
}

/// Judges each claim in each cell that it is about.
pub fn findings(
    claims: &[Claim],
    figures: &Figures,
    runs: &[UseCaseInfo],
    size: impl Fn(&UseCaseInfo) -> Size,
) -> Vec<Finding> {
    let mut cells: Vec<&UseCaseInfo> = Vec::new();
    for run in runs {
        if !cells.iter().any(|cell| is_same_cell(cell, run)) {
            cells.push(run);
        }
    }
    let judged = |claim| {
        let mine = cells.iter().filter(move |cell| is_about(claim, cell));
        mine.filter_map(|cell| judge(claim, cell, figures, runs, size(cell))).collect::<Vec<_>>()
    };
    claims.iter().flat_map(judged).collect()
}

fn is_same_cell(one: &UseCaseInfo, other: &UseCaseInfo) -> bool {
    (one.receivers_per_network, &one.load) == (other.receivers_per_network, &other.load)
}

fn is_about(claim: &Claim, cell: &UseCaseInfo) -> bool {
    claim.receivers.is_none_or(|receivers| receivers == cell.receivers_per_network)
        && claim.load.as_ref().is_none_or(|load| *load == cell.load)
}

fn judge(
    claim: &Claim,
    cell: &UseCaseInfo,
    figures: &Figures,
    runs: &[UseCaseInfo],
    size: Size,
) -> Option<Finding> {
    let at_most = match &claim.thesis {
        None => claim.at_most,
        Some(way) => {
            let at = Cell {
                use_case: &cell.use_case,
                load: &cell.load,
                receivers_per_network: cell.receivers_per_network,
            };
            let found = figures.of(at, std::slice::from_ref(way));
            let mine = found.iter().find(|found| found.figure.measure == claim.measure)?;
            // The thesis gives hundredths of a percent.
            Some(((100.0 - mine.saved) * 100.0).round() / 10_000.0)
        }
    };
    let is_of = |delivery: &str, run: &&UseCaseInfo| run.delivery == delivery && is_same_cell(run, cell);
    // A delivery that was left out has nothing to show.
    runs.iter().find(|run| is_of(&claim.of, run))?;
    let median = |delivery: &str| {
        let matching = runs.iter().filter(|run| is_of(delivery, run));
        let values: Option<Vec<f64>> = matching.map(|run| claim.measure.of(run)).collect();
        percentile(&values?, 50.0)
    };
    let to = if claim.measure.is_value() { Some(1.0) } else { median(&claim.to) };
    let ratio = median(&claim.of).zip(to).map(|(of, to)| of / to);
    let missing = runs.iter().filter(|run| is_of(&claim.of, run)).find_map(|run| claim.measure.missing(run));
    Some(Finding {
        says: format!("{}: {}, {} a network", claim.says, cell.load, cell.receivers_per_network),
        size_bytes: size.0,
        ratio,
        missing,
        at_most,
        at_least: claim.at_least,
        holds: is_within(ratio, at_most, claim.at_least),
        is_value: matches!(claim.measure, Measure::Loss | Measure::LaterLoss | Measure::Silence),
        measure: match claim.measure {
            Measure::Loss | Measure::LaterLoss => super::super::file::Measure::Loss,
            // In seconds, too.
            Measure::Silence => super::super::file::Measure::Calm,
            _ => super::super::file::Measure::Time,
        },
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use treecast_measure::db::{Bytes, DiscoveryCost, Measured};

    use super::*;

    fn run(delivery: &str, receivers: usize, network: u64) -> UseCaseInfo {
        let measured =
            Measured { bytes: Bytes { network, sender: 1 }, came: 99, expected: 100, ..Measured::default() };
        UseCaseInfo {
            use_case: "uc2".into(),
            receivers_per_network: receivers,
            load: "25M".into(),
            delivery: delivery.into(),
            measured: Some(measured),
            ..UseCaseInfo::default()
        }
    }

    fn claim(text: &str) -> Claim {
        toml::from_str(&format!("says = \"so\"\nof = \"mead\"\n{text}")).unwrap()
    }

    fn judged(claims: &[Claim], runs: &[UseCaseInfo]) -> Vec<(Option<f64>, bool)> {
        let figures = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../labs/meadcast/thesis.toml"));
        let found = findings(claims, &Figures::read(figures).unwrap(), runs, |_| Size(1));
        found.into_iter().map(|finding| (finding.ratio, finding.holds)).collect()
    }

    #[test]
    fn a_claim_is_judged_in_each_cell_that_it_is_about() {
        let runs = [run("unicast", 1, 100), run("mead", 1, 60), run("unicast", 5, 100), run("mead", 5, 28)];
        let all = claim("measure = \"network\"\nat_most = 0.5");
        assert_eq!(judged(&[all], &runs), [(Some(0.6), false), (Some(0.28), true)]);
        let five = claim("measure = \"network\"\nreceivers = 5\nat_most = 0.5");
        assert_eq!(judged(&[five], &runs), [(Some(0.28), true)]);
        // Table 5.1: 42.11 and 71.38 % saved.
        let thesis = claim("measure = \"network\"\nthesis = \"mead\"");
        assert_eq!(judged(&[thesis], &runs), [(Some(0.6), false), (Some(0.28), true)]);
        let loss = claim("measure = \"loss\"\nreceivers = 1\nat_most = 0.015");
        let lost = judged(&[loss], &runs);
        assert!(lost[0].1 && (lost[0].0.unwrap() - 0.01).abs() < 1e-9);
    }

    #[test]
    fn groups_are_compared_and_silence_is_in_seconds() {
        let with = |delivery: &str, groups: u64, longest_gap_ms: f64| {
            let mut run = run(delivery, 1, 100);
            let measured = run.measured.as_mut().unwrap();
            measured.longest_gap_ms = longest_gap_ms;
            measured.came = measured.expected;
            measured.discovery = Some(DiscoveryCost { groups, ..DiscoveryCost::default() });
            run
        };
        let runs = [with("quiet", 2, 30.0), with("mead", 3, 480.0)];
        let groups = |bounds: &str| claim(&format!("measure = \"groups\"\nto = \"quiet\"\n{bounds}"));
        assert_eq!(judged(&[groups("at_most = 1")], &runs), [(Some(1.5), false)]);
        assert_eq!(judged(&[groups("at_least = 1.6")], &runs), [(Some(1.5), false)]);
        assert_eq!(judged(&[groups("at_least = 0.5\nat_most = 1.5")], &runs), [(Some(1.5), true)]);
        let silence = claim("measure = \"silence\"\nat_most = 0.5");
        assert_eq!(judged(&[silence], &runs), [(Some(0.48), true)]);
    }

    /// A sender that dies leaves all receivers at the same time, and none of them in silence.
    #[test]
    fn silence_has_no_value_where_not_all_has_come() {
        let mut died = run("mead", 1, 100);
        died.measured.as_mut().unwrap().longest_gap_ms = 5.0;
        let silence = claim("measure = \"silence\"\nat_most = 0.5");
        let found = findings(&[silence], &Figures::default(), &[died], |_| Size(1));
        assert!(!found[0].holds);
        assert_eq!(found[0].measured(), "nothing: 1 of 100 packets did not come");
    }

    #[test]
    fn a_claim_has_a_bound() {
        assert!(claim("measure = \"loss\"").check().unwrap_err().contains("at_most"));
        for bound in ["at_most = 1", "at_least = 1", "thesis = \"mead\""] {
            claim(&format!("measure = \"loss\"\n{bound}")).check().unwrap();
        }
    }

    #[test]
    fn without_what_it_compares_with_a_claim_does_not_hold() {
        let all = claim("measure = \"network\"\nat_most = 0.5");
        assert_eq!(judged(std::slice::from_ref(&all), &[run("mead", 1, 60)]), [(None, false)]);
        assert_eq!(judged(&[all], &[run("unicast", 1, 60)]), [], "a delivery that was left out");
    }
}
