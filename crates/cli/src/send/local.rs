//! The options of `treecast send --repair local`.

use std::{path::PathBuf, time::Duration};

use clap::ValueEnum;
use treecast::unstable::options::{GroupsFile, LocalMode, LocalOptions};
use treecast_host::quantity::{self, QuantityError};

use super::rate;
use crate::advice;

#[derive(Clone, Copy, PartialEq, ValueEnum)]
pub(super) enum Mode {
    Sender,
    Hierarchical,
    Local,
}

/// How receivers mend losses among themselves.
#[derive(clap::Args)]
pub(super) struct LocalArgs {
    /// Repair local: who mends losses: any member of the local group (local), its controller alone (hierarchical),
    /// or the sender alone (sender) [default: local]
    #[arg(long, value_enum, value_name = "MODE")]
    pub local_mode: Option<Mode>,
    /// Repair local: fix the groups by hand. A line a group, `NAME: ADDRESS...` or `NAME < NAME ABOVE: ADDRESS...`;
    /// the first address is the controller's. Receivers need the file, too [default: receivers form groups]
    #[arg(long, value_name = "FILE")]
    pub local_groups: Option<PathBuf>,
    /// Repair local: the highest rate at which one receiver sends again, counted as for --rate [default: --rate]
    #[arg(long, value_name = "RATE", value_parser = rate::parse_bps, allow_hyphen_values = true)]
    pub repair_rate: Option<u64>,
    /// Repair local: a receiver that loses a larger share of packets counts as congested and slows the sender
    /// [default: 50%, or 2% with --rate auto]
    #[arg(long, value_name = "SHARE", value_parser = parse_share, allow_hyphen_values = true)]
    pub congestion_loss: Option<f64>,
    /// Repair local: give up a file that is not whole this long after its beginning (500ms, 2s), for data that
    /// is of no use when it is late [default: never]
    #[arg(long, value_name = "TIME", value_parser = parse_deadline, allow_hyphen_values = true)]
    pub deadline: Option<Duration>,
}

pub(super) fn options(args: &LocalArgs) -> Result<LocalOptions, String> {
    let groups = args.local_groups.as_deref().map(GroupsFile::read).transpose();
    let mut options = LocalOptions::default();
    options.mode = args.local_mode.map(|mode| match mode {
        Mode::Sender => LocalMode::Sender,
        Mode::Hierarchical => LocalMode::Hierarchical,
        Mode::Local => LocalMode::Local,
    });
    options.groups = groups.map_err(|error| advice::line(&error))?;
    options.deadline = args.deadline;
    options.repair_bps = args.repair_rate;
    options.congestion_loss = args.congestion_loss;
    Ok(options)
}

/// Parses a time to the millisecond.
fn parse_deadline(text: &str) -> Result<Duration, QuantityError> {
    quantity::time(text, Duration::from_millis(1)..=Duration::from_millis(u32::MAX.into()))
}

/// Parses a share of packets: 10%, 2.5%.
fn parse_share(text: &str) -> Result<f64, QuantityError> {
    quantity::share(text, 0.0..=1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_a_percentage() {
        assert_eq!((parse_share("2.5%"), parse_share("100%")), (Ok(0.025), Ok(1.0)));
        for wrong in ["", "%", "10", "-1%", "101%", "NaN%"] {
            assert!(parse_share(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_deadline_is_a_time_of_milliseconds_or_more() {
        assert_eq!(parse_deadline("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_deadline("2s"), Ok(Duration::from_secs(2)));
        for wrong in ["", "0ms", "-1ms", "ms", "99999999999ms"] {
            assert!(parse_deadline(wrong).is_err(), "{wrong}");
        }
    }
}
