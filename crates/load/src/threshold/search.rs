//! A bisection between a value that the network bears and one that it does not.

use super::blame::Limit;

/// The range of a search for the highest value, a rate or a number of hosts, at which at most `allowed` is lost.
#[derive(Debug, Clone, PartialEq)]
pub struct Range {
    pub lowest: f64,
    pub highest: f64,
    /// The search ends when the lowest value that was not borne is at most this share above the highest one that was.
    pub precision: f64,
    /// The share of the packets that may be lost, from 0 to 1.
    pub allowed: f64,
    /// Whether only whole values have a meaning, as for a number of hosts.
    pub is_whole: bool,
}

/// The result of trying a value.
#[derive(Debug, Clone, PartialEq)]
pub struct Trial {
    pub value: f64,
    /// The share of the packets that did not arrive, from 0 to 1.
    pub lost: f64,
    /// The limits that gave in. Empty when none did.
    pub limits: Vec<Limit>,
}

/// The next step of a search.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Try this value, and tell the result to [`Search::told`].
    Try(f64),
    /// The search is over.
    Over(Threshold),
}

/// The end of a search.
#[derive(Debug, Clone, PartialEq)]
pub struct Threshold {
    /// The highest value that was borne. `None`: not even the lowest value of the range was.
    pub borne: Option<f64>,
    /// The lowest value that was not borne. `None`: even the highest value of the range was.
    pub broke: Option<f64>,
    /// The limits that gave in at the value `broke`.
    pub limits: Vec<Limit>,
    /// The number of trials.
    pub trials: u32,
}

impl Threshold {
    /// Whether the machine, and not the network, decided the threshold.
    pub fn is_of_machine(&self) -> bool {
        self.limits.iter().any(Limit::is_machine)
    }

    /// Whether the drops of the cables account for every loss at the value `broke`, with nothing else that gave in but perhaps the
    /// machine's processors.
    pub fn do_cables_explain(&self) -> bool {
        let is_explained = |limit: &Limit| {
            matches!(limit, Limit::Cables { .. } | Limit::Machine { cables_explain: true, .. })
        };
        !self.limits.is_empty() && self.limits.iter().all(is_explained)
    }
}

/// Looks for a threshold. Call [`Search::step`], try the value, call [`Search::told`], and so on until it is over.
///
/// The search gallops away from its first value until it has a value that is borne and one that is not. Then it bisects by
/// the geometric mean, because rates differ by factors. A small loss is tried once more before it counts, because a single
/// packet may be lost to something else.
#[derive(Debug, Clone)]
pub struct Search {
    range: Range,
    first: f64,
    stride: f64,
    borne: Option<f64>,
    broke: Option<Trial>,
    /// The value whose small loss is to be confirmed.
    doubtful: Option<f64>,
    trials: u32,
}

/// The first step away from a predicted threshold, as a factor. Each further step is the square of the one before.
const STRIDE_FROM_GUESS: f64 = 1.12;

/// The first step when there is no prediction.
const STRIDE: f64 = 4.0;

/// A loss of more than this share needs no second trial.
const CERTAIN: f64 = 0.01;

impl Search {
    /// Starts a search at `guess`, or in the middle of the range.
    pub fn new(range: Range, guess: Option<f64>) -> Self {
        let first = guess.unwrap_or((range.lowest * range.highest).sqrt());
        let stride = if guess.is_some() { STRIDE_FROM_GUESS } else { STRIDE };
        Self { range, first, stride, borne: None, broke: None, doubtful: None, trials: 0 }
    }

    /// Says what to do next.
    pub fn step(&self) -> Step {
        let Range { lowest, highest, is_whole, .. } = self.range;
        let least = if is_whole { 1.0 } else { 0.0 };
        let next = match (self.doubtful, self.borne, self.broke.as_ref().map(|trial| trial.value)) {
            (Some(value), ..) => Some(value),
            (None, None, None) => Some(self.first),
            (None, Some(borne), None) => {
                (borne < highest).then_some((borne * self.stride).max(borne + least))
            }
            (None, None, Some(broke)) => (broke > lowest).then_some((broke / self.stride).min(broke - least)),
            (None, Some(borne), Some(broke)) => self.between(borne, broke),
        };
        next.map_or_else(|| Step::Over(self.threshold()), |value| Step::Try(self.rounded(value)))
    }

    /// Returns the highest value that was borne so far.
    pub fn borne(&self) -> Option<f64> {
        self.borne
    }

    /// Takes the result of a trial.
    pub fn told(&mut self, trial: Trial) {
        self.trials += 1;
        // A sender that was too slow, or a host that vanished, has not tried the value, whatever arrived.
        let is_borne = trial.lost <= self.range.allowed && !trial.limits.iter().any(Limit::is_machine);
        let has_vanished = trial.limits.iter().any(|limit| matches!(limit, Limit::Vanished { .. }));
        let was_doubtful = self.doubtful.take() == Some(trial.value);
        let is_first = self.borne.is_none() && self.broke.is_none();
        if is_borne {
            self.borne = Some(trial.value);
        } else if (trial.lost <= self.range.allowed + CERTAIN || has_vanished) && !was_doubtful {
            self.doubtful = Some(trial.value);
            return;
        } else {
            self.broke = Some(trial);
        }
        if !is_first && (self.borne.is_none() || self.broke.is_none()) {
            self.stride = self.stride.powi(2);
        }
    }

    /// Returns a value between the bounds, unless they are close enough.
    fn between(&self, borne: f64, broke: f64) -> Option<f64> {
        if self.range.is_whole {
            let middle = ((borne + broke) / 2.0).floor();
            return (middle > borne).then_some(middle);
        }
        (broke > borne * (1.0 + self.range.precision)).then(|| (borne * broke).sqrt())
    }

    fn rounded(&self, value: f64) -> f64 {
        let value = if self.range.is_whole { value.round() } else { value };
        value.clamp(self.range.lowest, self.range.highest)
    }

    fn threshold(&self) -> Threshold {
        Threshold {
            borne: self.borne,
            broke: self.broke.as_ref().map(|trial| trial.value),
            limits: self.broke.as_ref().map_or_else(Vec::new, |trial| trial.limits.clone()),
            trials: self.trials,
        }
    }
}

#[cfg(test)]
mod tests {
    use treecast_proto::random::SplitMix64;

    use super::*;
    use crate::threshold::{Evidence, Layout, Pattern, blame};

    /// A model of hosts behind a switch: cables with a rate and a queue, a sender that can send so much, and a machine that
    /// loses a packet now and then.
    struct Model {
        link_bps: u64,
        queue_bytes: f64,
        seconds: f64,
        most_sent: f64,
        /// The chance that a trial loses one packet for no reason.
        stray: f64,
        draws: SplitMix64,
    }

    impl Model {
        fn of(link_bps: u64, seed: u64) -> Self {
            let draws = SplitMix64(seed);
            Self { link_bps, queue_bytes: 7000.0, seconds: 10.0, most_sent: f64::INFINITY, stray: 0.0, draws }
        }

        fn layout(&self, hosts: usize) -> Layout {
            let switches = vec![hosts / 2, hosts - hosts / 2];
            let pattern = Pattern::ManyToMany;
            Layout { pattern, switches, frame_bytes: 50, link_bps: Some(self.link_bps), trunk_bps: None }
        }

        fn try_rate(&mut self, hosts: usize, rate: f64) -> Trial {
            let frames = (hosts - 1) as f64;
            // The rate of the link differs a little from trial to trial, as a shaper's timer does.
            let link = self.link_bps as f64 / 8.0 * (1.0 + 0.004 * (self.draws.unit() - 0.5));
            let offered = rate.min(self.most_sent) * frames * 50.0 * self.seconds;
            let carried = link * self.seconds + self.queue_bytes;
            let mut lost_packets = ((offered - carried).max(0.0) / 50.0) as u64;
            lost_packets += u64::from(self.draws.unit() < self.stray);
            let evidence = Evidence {
                lost_packets,
                cables: vec![("lan0".into(), "client0".into(), lost_packets)],
                senders: (rate > self.most_sent)
                    .then(|| ("client0".into(), rate, self.most_sent))
                    .into_iter()
                    .collect(),
                ..Evidence::default()
            };
            let lost = lost_packets as f64 / (offered / 50.0);
            Trial { value: rate, lost, limits: blame(&evidence) }
        }

        fn search(&mut self, hosts: usize, range: Range, guess: Option<f64>) -> Threshold {
            let mut search = Search::new(range, guess);
            loop {
                match search.step() {
                    Step::Over(threshold) => return threshold,
                    Step::Try(rate) => search.told(self.try_rate(hosts, rate)),
                }
                assert!(search.trials < 40, "{search:?}");
            }
        }
    }

    fn range() -> Range {
        Range { lowest: 0.1, highest: 100_000.0, precision: 0.02, allowed: 0.0, is_whole: false }
    }

    #[test]
    fn thresholds_of_two_to_95_hosts_are_what_the_links_allow() {
        for hosts in [2, 3, 10, 47, 95] {
            for link_bps in [100_000, 1_000_000, 10_000_000] {
                let mut model = Model::of(link_bps, hosts as u64);
                let predicted = model.layout(hosts).predicted_rate().unwrap();
                let found = model.search(hosts, range(), Some(predicted));
                let again = model.search(hosts, range(), None);
                let [one, other] = [&found, &again].map(|found| found.borne.unwrap());
                assert!((0.98..1.10).contains(&(one / predicted)), "{hosts} hosts: {one} of {predicted}");
                assert!((one / other - 1.0).abs() < 0.05, "{one} and {other}");
                assert!(found.trials <= 9, "{} trials", found.trials);
                let limit = found.limits[0].to_string();
                assert!(limit.starts_with("the cable from lan0 to client0 dropped"), "{limit}");
            }
        }
    }

    #[test]
    fn a_stray_loss_does_not_move_the_threshold() {
        for seed in 0..20 {
            let mut model = Model { stray: 0.1, ..Model::of(1_000_000, seed) };
            let predicted = model.layout(10).predicted_rate().unwrap();
            let found = model.search(10, range(), Some(predicted)).borne.unwrap();
            assert!((0.9..1.1).contains(&(found / predicted)), "seed {seed}: {found} of {predicted}");
        }
    }

    #[test]
    fn a_share_that_may_be_lost_moves_the_threshold() {
        let mut model = Model::of(1_000_000, 1);
        let predicted = model.layout(10).predicted_rate().unwrap();
        let found = model.search(10, Range { allowed: 0.2, ..range() }, Some(predicted)).borne.unwrap();
        assert!((1.2..1.3).contains(&(found / predicted)), "{found} of {predicted}");
    }

    #[test]
    fn a_threshold_that_no_rate_meets_is_said_so() {
        let mut model = Model::of(8_000, 1);
        let found = model.search(95, Range { lowest: 50.0, ..range() }, None);
        assert_eq!((found.borne, found.broke), (None, Some(50.0)));
        let found = Model::of(1_000_000_000, 1).search(2, Range { highest: 1000.0, ..range() }, None);
        assert_eq!((found.borne, found.broke, &found.limits[..]), (Some(1000.0), None, &[][..]));
    }

    #[test]
    fn a_sender_that_is_too_slow_marks_the_threshold() {
        let mut model = Model { most_sent: 500.0, ..Model::of(1_000_000_000, 1) };
        let found = model.search(2, range(), Some(10_000.0));
        assert!((480.0..=500.0).contains(&found.borne.unwrap()), "{found:?}");
        assert!(found.is_of_machine(), "{found:?}");
    }

    #[test]
    fn a_trial_in_which_a_host_vanished_is_made_again_and_never_borne() {
        let mut search = Search::new(range(), Some(100.0));
        let limits = vec![Limit::Vanished { host: "client3".into() }];
        let vanished = |value| Trial { value, lost: 0.0, limits: limits.clone() };
        search.told(vanished(100.0));
        assert_eq!((search.step(), search.borne()), (Step::Try(100.0), None));
        search.told(vanished(100.0));
        let Step::Try(lower) = search.step() else { panic!("{search:?}") };
        assert!(lower < 100.0 && search.borne().is_none(), "{search:?}");
    }

    #[test]
    fn no_number_of_hosts_is_tried_twice() {
        let range = Range { lowest: 2.0, highest: 95.0, precision: 0.0, allowed: 0.0, is_whole: true };
        for (guess, most) in [(2.0, 2.0), (2.0, 3.0), (3.0, 2.0), (95.0, 95.0), (50.0, 2.0)] {
            let mut search = Search::new(range.clone(), Some(guess));
            let mut tried = Vec::new();
            while let Step::Try(hosts) = search.step() {
                assert!(!tried.contains(&hosts), "{hosts} again: {tried:?}");
                tried.push(hosts);
                let lost = if hosts > most { 0.5 } else { 0.0 };
                search.told(Trial { value: hosts, lost, limits: Vec::new() });
            }
            let Step::Over(found) = search.step() else { panic!() };
            assert_eq!(found.borne, Some(most));
            assert_eq!(found.broke, (most < 95.0).then_some(most + 1.0));
        }
    }

    #[test]
    fn the_number_of_hosts_is_searched_in_whole_steps() {
        let range = Range { lowest: 2.0, highest: 95.0, precision: 0.0, allowed: 0.0, is_whole: true };
        let mut model = Model { queue_bytes: 0.0, ..Model::of(1_000_000, 1) };
        let mut search = Search::new(range, None);
        let found = loop {
            match search.step() {
                Step::Over(threshold) => break threshold,
                Step::Try(hosts) => {
                    let trial = model.try_rate(hosts as usize, 60.0);
                    search.told(Trial { value: hosts, ..trial });
                }
            }
        };
        // 1 Mbit/s is 2,500 frames of 50 bytes a second: 41.7 senders of 60 packets/s, and the host itself.
        assert_eq!((found.borne, found.broke), (Some(42.0), Some(43.0)));
    }
}
