//! The law that makes a rate of the reports: TFMCC, or a model of the path.

use std::time::Duration;

use treecast_wire::message::Phase;

use super::{
    Control, SenderConfig,
    rate::{Finding, Rate},
};
use crate::{Instant, group_rate::Steering};

#[derive(Debug)]
pub enum Law {
    Tfmcc(Box<Rate>),
    Model(Box<Steering>),
}

impl Law {
    pub fn new(config: &SenderConfig) -> Self {
        match config.control {
            Control::Tfmcc => Self::Tfmcc(Box::new(Rate::new(config.packet_bytes, config.floor_bps))),
            Control::Model => Self::Model(Box::new(Steering::new(config.packet_bytes, config.floor_bps))),
        }
    }

    pub fn bps(&self) -> f64 {
        match self {
            Self::Tfmcc(rate) => rate.bps(),
            Self::Model(steering) => steering.bps(),
        }
    }

    pub fn phase(&self) -> Phase {
        match self {
            Self::Tfmcc(_) => Phase::Tfmcc,
            Self::Model(steering) => steering.phase(),
        }
    }

    pub fn is_start(&self) -> bool {
        match self {
            Self::Tfmcc(rate) => rate.is_slow_start(),
            Self::Model(steering) => steering.phase() == Phase::Start,
        }
    }

    pub fn is_unused(&self) -> bool {
        match self {
            Self::Tfmcc(rate) => rate.is_unused(),
            Self::Model(steering) => steering.is_unused(),
        }
    }

    pub fn queue(&self) -> Duration {
        match self {
            Self::Tfmcc(_) => Duration::ZERO,
            Self::Model(steering) => steering.queue(),
        }
    }

    /// Sets the first rate, before anything was sent. `round_trip` is the longest one.
    pub fn start(&mut self, round_trip: Duration) {
        match self {
            Self::Tfmcc(rate) => rate.start(round_trip),
            Self::Model(steering) => steering.start(round_trip),
        }
    }

    pub fn sent(&mut self, now: Instant, group_bytes: u64, repair_bytes: u64) {
        match self {
            Self::Tfmcc(rate) => rate.sent(now, group_bytes, repair_bytes),
            Self::Model(steering) => steering.sent(now, group_bytes, repair_bytes),
        }
    }

    /// Takes in a report of the receiver that the sender follows.
    pub fn follow(&mut self, now: Instant, finding: Finding, is_another: bool) {
        match self {
            Self::Tfmcc(rate) => rate.follow(now, finding),
            Self::Model(steering) => {
                if is_another {
                    steering.follow_another(now, finding.calculated_bps);
                }
                steering.follow(now, finding.sample);
            }
        }
    }

    /// Lowers the rate because nobody has reported for long.
    pub fn halve(&mut self, now: Instant) {
        match self {
            Self::Tfmcc(rate) => rate.halve(),
            Self::Model(steering) => steering.halve(now),
        }
    }

    /// Sending goes on after a pause.
    pub fn pause(&mut self, now: Instant, paused: Duration, round_trip: Duration) {
        match self {
            Self::Tfmcc(rate) => rate.pause(paused, round_trip),
            Self::Model(steering) => steering.pause(now),
        }
    }

    /// Lowers the rate to the least one, because the sender knows no receiver to follow.
    pub fn fall_to_least(&mut self) {
        match self {
            Self::Tfmcc(rate) => rate.fall_to_least(),
            Self::Model(steering) => steering.fall_to_least(),
        }
    }

    /// The receiver that was followed is served elsewhere: the others may bear much more.
    pub fn start_anew(&mut self, now: Instant) {
        if let Self::Model(steering) = self {
            steering.start_anew(now);
        }
    }

    /// The receiver that was followed has left.
    pub fn forget_recovery(&mut self) {
        if let Self::Tfmcc(rate) = self {
            rate.forget_recovery();
        }
    }
}
