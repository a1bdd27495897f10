//! The options that only carousels and only local groups have.

use std::time::Duration;

use treecast_host::quantity;
use treecast_proto::{fec::Share, local::Tuning};
use treecast_wire::ticket::{LocalMode, LocalTicket};

use super::MAX_FEC_PERCENT;
use crate::{carousel::FrameHash, local::GroupsFile};

/// The options that only a session with local groups has.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct LocalOptions {
    /// The members that mend losses. `None`: any member.
    pub mode: Option<LocalMode>,
    /// Groups made by hand. `None`: receivers form groups.
    pub groups: Option<GroupsFile>,
    /// The time after which an object that is not whole is given up. `None`: never.
    pub deadline: Option<Duration>,
    /// The highest rate at which one member sends again, in bits of IP packets a second. `None`: the session's rate.
    pub repair_bps: Option<u64>,
    /// A receiver that loses a larger share of packets is congested, and slows the sender. `None`: 50 %, or 2 % if the
    /// sender shares links.
    pub congestion_loss: Option<f64>,
    /// Whether the sender begins low and takes about as much of a link as a TCP connection would. Otherwise it begins at its rate.
    pub shares_link: bool,
    /// The lowest rate, in bits a second. Receivers for which it is too fast leave. `None`: nobody has to leave.
    pub floor_bps: Option<u64>,
}

impl LocalOptions {
    fn congestion_loss(&self) -> f64 {
        let usual = if self.shares_link { Tuning::SHARED_LOSS } else { Tuning::default().congestion_loss };
        self.congestion_loss.unwrap_or(usual)
    }

    /// These options in the form for tickets. `repair_rate_bps` is in bits of objects a second.
    pub fn in_ticket(&self, repair_rate_bps: u64) -> LocalTicket {
        LocalTicket {
            mode: self.mode.unwrap_or(LocalMode::Local),
            is_static: self.groups.is_some(),
            deadline_ms: self
                .deadline
                .map_or(0, |deadline| u32::try_from(deadline.as_millis()).unwrap_or(u32::MAX)),
            repair_rate_bps,
            congestion_loss: (self.congestion_loss() * f64::from(u16::MAX)) as u16,
        }
    }
}

/// The options that only a carousel has.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CarouselOptions {
    /// The time without a listener after which the carousel ends.
    pub idle: Duration,
    /// The number of loops after which the carousel ends. `None`: it goes on while somebody listens.
    pub loops: Option<u64>,
    /// The time without a first listener after which the carousel fails. `None`: it waits for ever.
    pub wait_timeout: Option<Duration>,
    /// The kind of packets.
    pub dialect: Dialect,
}

impl Default for CarouselOptions {
    fn default() -> Self {
        Self { idle: Duration::from_secs(10), loops: None, wait_timeout: None, dialect: Dialect::Session }
    }
}

/// The kind of packets of a carousel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// The packets of a treecast session.
    Session,
    /// The frames of the IoT updater, which carry one file and this kind of hash of it.
    Iotup(FrameHash),
}

/// Reads how many repair symbols are sent without requests: `auto`, `none`, or a whole percentage such as `20%`.
///
/// # Errors
/// What was expected.
pub fn parse_fec(text: &str) -> Result<Option<Share>, String> {
    match text {
        "auto" => return Ok(Some(Share::Auto)),
        "none" => return Ok(None),
        _ => {}
    }
    let share = quantity::share(text, 0.01..=f64::from(MAX_FEC_PERCENT) / 100.0);
    let percent = share.map_err(|error| error.or("auto, or none").to_string())? * 100.0;
    if (percent - percent.round()).abs() > 1e-6 {
        return Err(format!("expected a whole number from 1% to {MAX_FEC_PERCENT}%, auto, or none"));
    }
    Ok(Some(Share::Percent(percent.round() as u32)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_a_percentage_or_follows_the_loss() {
        let shares = ["auto", "20%", "none"].map(|text| parse_fec(text).unwrap());
        assert_eq!(shares, [Some(Share::Auto), Some(Share::Percent(20)), None]);
        for bad in ["", "0%", "301%", "20", "-5%", "99999999999%", "on"] {
            let line = parse_fec(bad).unwrap_err();
            assert!(line.contains("a share from 1% to 300%, like 10%, or auto, or none"), "{line}");
        }
        assert!(parse_fec("1.5%").unwrap_err().contains("a whole number from 1% to 300%"));
    }
}
