//! The faults of a session and their times, drawn from a seed.

use std::{fmt, time::Duration};

use treecast_proto::random::SplitMix64;

/// The number of receivers. The last one has a small disk that can be filled; the others have a large one.
pub const RECEIVERS: usize = 5;
pub const SMALL_DISK: usize = RECEIVERS - 1;

/// The time from the start within which faults begin, while the files are under way.
const FAULTY_TIME: Duration = Duration::from_millis(2200);

/// The arguments of sessions in which the router's MEADcast serves receivers.
const MEAD: &[&str] = &["--repair", "nack", "--fanout", "mead"];
const AUTO: &[&str] = &["--repair", "nack", "--fanout", "auto"];

/// A random time from one up to the other, which is left out. Both are in ms.
fn time(random: &mut SplitMix64, from_ms: u64, to_ms: u64) -> Duration {
    Duration::from_millis(from_ms + random.below(to_ms - from_ms))
}

/// A fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// A receiver is killed with SIGKILL, and started again with the same folder after `away`. Meanwhile, the
    /// dates of its hidden files are changed by `dated_seconds`, as if the clock had been changed.
    KillReceiver { receiver: usize, away: Duration, dated_seconds: i64 },
    /// The sender is killed with SIGKILL, and started again with the same session file after `away`.
    KillSender { away: Duration },
    /// The cable of a receiver, or of the sender (`None`), is unplugged for this time.
    Unplug { receiver: Option<usize>, time: Duration },
    /// The small disk is full for this time; then its receiver is killed and started again. `None`: it stays
    /// full.
    FillDisk { time: Option<Duration> },
    /// A receiver gets other addresses and loses its old ones.
    ChangeAddress { receiver: usize },
    /// All packets of a receiver's connections are dropped from now on, silently. With `resets`, the receiver
    /// is told that the connections are over, and the sender is not, as behind a NAT that has forgotten them.
    CutConnection { receiver: usize, resets: bool },
    /// The router does not act on MEADcast packets for this time.
    DisableRouter { time: Duration },
    /// The multicast router's daemon is ended, by SIGKILL (`kills`) or SIGTERM, and started again after `away`.
    RestartMulticastRouter { kills: bool, away: Duration },
}

/// The faults of one session.
#[derive(Debug, Clone)]
pub struct Schedule {
    pub seed: u64,
    /// The sender's arguments that choose repair and fanout.
    pub repair: &'static [&'static str],
    /// The faults, each with the time since the start when it begins.
    pub faults: Vec<(Duration, Fault)>,
}

impl Schedule {
    pub fn draw(seed: u64) -> Self {
        let mut random = SplitMix64(seed);
        let repair: &[&str] = match random.below(12) {
            0..6 => &["--repair", "nack"],
            6..8 => &["--repair", "after"],
            8 => &["--repair", "nack", "--fec", "10%"],
            9 => &["--repair", "nack", "--plain"],
            10 => MEAD,
            _ => AUTO,
        };
        let has_mead = repair == MEAD || repair == AUTO;
        let count = 2 + random.below(4);
        let mut faults: Vec<_> = (0..count).map(|_| draw_fault(&mut random, has_mead)).collect();
        // A disk is filled at most once, and at most one connection is lost, because noticing that takes long.
        let (mut is_filled, mut is_cut) = (false, false);
        faults.retain(|(_, fault)| match fault {
            Fault::FillDisk { .. } => !std::mem::replace(&mut is_filled, true),
            Fault::ChangeAddress { .. } | Fault::CutConnection { .. } => {
                !std::mem::replace(&mut is_cut, true)
            }
            _ => true,
        });
        faults.sort_by_key(|(at, _)| *at);
        Self { seed, repair, faults }
    }

    /// Whether the small disk stays full.
    pub fn leaves_full(&self) -> bool {
        self.faults.iter().any(|(_, fault)| matches!(fault, Fault::FillDisk { time: None }))
    }
}

fn draw_fault(random: &mut SplitMix64, has_mead: bool) -> (Duration, Fault) {
    let at = time(random, 50, FAULTY_TIME.as_millis() as u64);
    let receiver = random.below(RECEIVERS as u64) as usize;
    let fault = match random.below(15) {
        0..5 => {
            let dated_seconds = [0, 0, 3600, -3600, 2 * 86_400, -2 * 86_400][random.below(6) as usize];
            Fault::KillReceiver { receiver, away: time(random, 50, 1500), dated_seconds }
        }
        5..8 => Fault::KillSender { away: time(random, 50, 1200) },
        8..10 => Fault::Unplug { receiver: Some(receiver), time: time(random, 100, 2000) },
        10 => Fault::Unplug { receiver: None, time: time(random, 100, 2000) },
        11 => match random.below(3) {
            0 => Fault::ChangeAddress { receiver },
            way => Fault::CutConnection { receiver, resets: way == 1 },
        },
        12 if has_mead => Fault::DisableRouter { time: time(random, 100, 2000) },
        12 => Fault::RestartMulticastRouter { kills: random.below(2) == 0, away: time(random, 1, 1500) },
        _ => {
            let time = (random.below(3) > 0).then(|| time(random, 100, 1000));
            Fault::FillDisk { time }
        }
    };
    (at, fault)
}

impl fmt::Display for Schedule {
    /// Writes the schedule in one line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.repair.join(" "))?;
        for (at, fault) in &self.faults {
            write!(f, "; {} ms: {fault}", at.as_millis())?;
        }
        Ok(())
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::KillReceiver { receiver, away, dated_seconds: 0 } => {
                write!(f, "receiver {receiver} killed for {} ms", away.as_millis())
            }
            Self::KillReceiver { receiver, away, dated_seconds } => {
                let ms = away.as_millis();
                write!(
                    f,
                    "receiver {receiver} killed for {ms} ms, its hidden files dated {dated_seconds} s off"
                )
            }
            Self::KillSender { away } => write!(f, "sender killed for {} ms", away.as_millis()),
            Self::Unplug { receiver: Some(receiver), time } => {
                write!(f, "receiver {receiver} unplugged for {} ms", time.as_millis())
            }
            Self::Unplug { receiver: None, time } => {
                write!(f, "sender unplugged for {} ms", time.as_millis())
            }
            Self::FillDisk { time: Some(time) } => {
                write!(f, "disk of receiver {SMALL_DISK} full for {} ms", time.as_millis())
            }
            Self::ChangeAddress { receiver } => write!(f, "receiver {receiver} changes its addresses"),
            Self::CutConnection { receiver, resets: false } => {
                write!(f, "connection of receiver {receiver} dies silently")
            }
            Self::CutConnection { receiver, resets: true } => {
                write!(f, "NAT forgets the connection of receiver {receiver}")
            }
            Self::DisableRouter { time } => {
                write!(f, "MEADcast router disabled for {} ms", time.as_millis())
            }
            Self::RestartMulticastRouter { kills, away } => {
                let how = if *kills { "killed" } else { "ended" };
                write!(f, "multicast router {how} for {} ms", away.as_millis())
            }
            Self::FillDisk { time: None } => write!(f, "disk of receiver {SMALL_DISK} full for good"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_a_schedule_and_all_kinds_of_faults_occur() {
        assert_eq!(Schedule::draw(7).to_string(), Schedule::draw(7).to_string());
        let all: Vec<Schedule> = (1..=200).map(Schedule::draw).collect();
        let count = |which: fn(&Fault) -> bool| {
            all.iter().filter(|schedule| schedule.faults.iter().any(|(_, fault)| which(fault))).count()
        };
        assert!(count(|fault| matches!(fault, Fault::KillReceiver { .. })) > 100);
        assert!(count(|fault| matches!(fault, Fault::KillSender { .. })) > 60);
        assert!(count(|fault| matches!(fault, Fault::Unplug { .. })) > 60);
        assert!(all.iter().filter(|schedule| schedule.leaves_full()).count() > 5);
        assert!(count(|fault| matches!(fault, Fault::FillDisk { time: Some(_) })) > 20);
        assert!(count(|fault| matches!(fault, Fault::ChangeAddress { .. })) > 5);
        assert!(count(|fault| matches!(fault, Fault::CutConnection { resets: false, .. })) > 5);
        assert!(count(|fault| matches!(fault, Fault::CutConnection { resets: true, .. })) > 5);
        assert!(count(|fault| matches!(fault, Fault::DisableRouter { .. })) > 3);
        assert!(count(|fault| matches!(fault, Fault::RestartMulticastRouter { .. })) > 20);
    }
}
