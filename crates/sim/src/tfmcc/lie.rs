//! Receivers that report something else than what they find.

use std::time::Duration;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use treecast_proto::{
    Instant,
    tfmcc::{Pace, PaceReport, ProbeProof},
};

/// What a receiver that lies shows of probes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Forgery {
    /// The receiver shows the probes that have come.
    #[default]
    None,
    /// All have come, with a sum that it guesses.
    Guess,
    /// None has come.
    Nothing,
    /// The first ones that have come, again and again.
    Old,
}

/// A receiver, which may lie.
#[derive(Debug, Clone, Copy, Default)]
pub struct Teller {
    pub lie: Lie,
    pub forgery: Forgery,
    /// The first proof of several probes.
    old: Option<ProbeProof>,
}

impl Teller {
    pub fn new(lie: Lie, forgery: Forgery) -> Self {
        Self { lie, forgery, old: None }
    }

    /// Returns what is reported in place of a true report. `rate_bps` is the sender's rate.
    pub fn told(
        &mut self,
        now: Instant,
        rate_bps: u64,
        report: PaceReport,
        random: &mut ChaCha8Rng,
    ) -> PaceReport {
        if self.lie == Lie::Truth {
            return report;
        }
        let told = self.lie.told(now, rate_bps, report, random);
        let proof = match self.forgery {
            Forgery::None => report.proof,
            Forgery::Guess => ProbeProof { came: u64::MAX, sum: random.random(), ..report.proof },
            Forgery::Nothing => ProbeProof::default(),
            Forgery::Old if report.proof.came.count_ones() < 8 => report.proof,
            Forgery::Old => *self.old.get_or_insert(report.proof),
        };
        PaceReport { proof, ..told }
    }
}

/// What a receiver says of its path.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Lie {
    #[default]
    Truth,
    /// It bears so many times what it gets.
    Factor(f64),
    /// It bears so much, in bits a second.
    Bears(u64),
    /// All that is sent arrives at once.
    HasAll,
    /// The same, and it bears next to nothing: the sender follows it before all others.
    HasAllAndBearsLittle,
    /// Nothing arrives.
    HasNothing,
    /// A hundred times what is sent arrives.
    HasMoreThanSent,
    /// All that is sent arrives. Its reports come so much later.
    HasAllLate(Duration),
    /// All that is sent arrives, and then nothing, in turns of so long.
    Alternates(Duration),
    /// All that is sent arrives. Its clock and its queue jump.
    Jumps,
    /// Nothing limits it, although hardly anything arrives. Others with as little need not say so, then.
    Silences,
    /// Anything at all.
    Wild,
    /// Anything that can be.
    Fickle,
}

impl Lie {
    /// Returns what is reported in place of a true report. `rate_bps` is the sender's rate.
    fn told(self, now: Instant, rate_bps: u64, report: PaceReport, random: &mut ChaCha8Rng) -> PaceReport {
        let has_all = |report: PaceReport| PaceReport {
            rate_bps: Pace::NO_RATE,
            received_bps: rate_bps,
            loss_ppb: 0,
            is_limited: false,
            queue_us: 0,
            lost_ppm: 0,
            marked_ppm: 0,
            ..report
        };
        let nothing =
            PaceReport { rate_bps: 0, received_bps: 0, is_limited: true, lost_ppm: 1_000_000, ..report };
        match self {
            Self::Truth => report,
            Self::Factor(factor) => exaggerate(report, factor),
            Self::Bears(bps) => {
                PaceReport { rate_bps: bps, received_bps: report.received_bps.min(bps), ..report }
            }
            Self::HasAll | Self::HasAllLate(_) => has_all(report),
            Self::HasAllAndBearsLittle => PaceReport { rate_bps: 1, ..has_all(report) },
            Self::HasNothing => nothing,
            Self::HasMoreThanSent => {
                PaceReport { received_bps: rate_bps.saturating_mul(100), ..has_all(report) }
            }
            Self::Alternates(turn) => {
                let turns = now.as_nanos() / (turn.as_nanos() as u64).max(1);
                if turns.is_multiple_of(2) { has_all(report) } else { nothing }
            }
            Self::Jumps => {
                let back = random.random_range(0..5_000_000);
                let queue_us = if random.random_bool(0.5) { 0 } else { back as u32 };
                PaceReport { echo_us: report.echo_us.saturating_sub(back), queue_us, ..has_all(report) }
            }
            Self::Silences => PaceReport { received_bps: 1, is_limited: true, ..has_all(report) },
            Self::Wild => wild(report, random),
            Self::Fickle => fickle(report, random),
        }
    }

    /// Returns the time by which its reports come later.
    pub fn delay(self) -> Duration {
        match self {
            Self::HasAllLate(delay) => delay,
            _ => Duration::ZERO,
        }
    }
}

/// Replaces a report by a false one. Some fields stay right, so that the sender believes it.
fn wild(report: PaceReport, random: &mut ChaCha8Rng) -> PaceReport {
    let extremes = [0, 1, report.received_bps, u64::MAX / 2, u64::MAX - 1, u64::MAX];
    let mut draw = || extremes[random.random_range(0..extremes.len())];
    let echo_us = [report.echo_us, draw()][usize::from(draw() == 0)];
    PaceReport {
        timestamp_us: draw(),
        echo_us,
        rate_bps: draw().max(1_000_000_000),
        received_bps: draw(),
        queue_us: draw() as u32,
        lost_ppm: draw() as u32,
        round_trip_us: draw() as u32,
        loss_ppb: draw() as u32,
        is_limited: draw() == 0,
        ..report
    }
}

/// Replaces a report by a false one whose shares are at most 1.
fn fickle(report: PaceReport, random: &mut ChaCha8Rng) -> PaceReport {
    let told = wild(report, random);
    PaceReport {
        lost_ppm: told.lost_ppm.min(1_000_000),
        marked_ppm: told.marked_ppm.min(1_000_000),
        loss_ppb: told.loss_ppb.min(1_000_000_000),
        ..told
    }
}

/// A report with other rates. One that lies low says that something limits it, one that lies high that nothing does.
fn exaggerate(report: PaceReport, factor: f64) -> PaceReport {
    let scaled = |bps: u64| (bps as f64 * factor) as u64;
    let received_bps = scaled(report.received_bps);
    let rate_bps = if factor < 1.0 { received_bps } else { Pace::NO_RATE };
    PaceReport { rate_bps, received_bps, queue_us: 0, lost_ppm: 0, ..report }
}
