//! The options of `treecast send --repair local`.

use std::{path::PathBuf, time::Duration};

use clap::ValueEnum;
use treecast::unstable::options::{GroupsFile, LocalMode, LocalOptions};
use treecast_host::quantity::{self, QuantityError};

use super::{Repair, SessionArgs, rate};
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
    #[arg(long, value_name = "RATE", value_parser = rate::parse_floor, allow_hyphen_values = true)]
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

/// Refuses options that need another repair.
pub(super) fn check(args: &SessionArgs) -> Result<(), String> {
    let (is_local, local) = (args.repair == Repair::Local, &args.local);
    let of_local = [
        (local.local_mode.is_some(), "--local-mode"),
        (local.local_groups.is_some(), "--local-groups"),
        (local.deadline.is_some(), "--deadline"),
        (local.repair_rate.is_some(), "--repair-rate"),
        (local.congestion_loss.is_some(), "--congestion-loss"),
    ];
    if let Some((_, option)) = of_local.iter().find(|(is_there, _)| *is_there && !is_local) {
        return Err(format!("{option} is for local groups: leave it out, or add --repair local"));
    }
    // Nobody connects to the sender.
    let of_connections = [
        (args.control.is_some(), "--control"),
        (args.start.per_address.is_some(), "--per-address"),
        (args.linger.is_some(), "--linger"),
        (args.stall_limit.is_some(), "--stall-limit"),
        (args.at_once.is_some(), "--at-once"),
        (args.start.start_at.is_some(), "--start-at"),
    ];
    if let Some((_, option)) = of_connections.iter().find(|(is_there, _)| *is_there && is_local) {
        return Err(format!(
            "in a session with local groups, nobody connects to the sender: leave out {option}, or take --repair nack"
        ));
    }
    let of_secrets = [(args.allow.is_some(), "--allow"), (args.expires.is_some(), "--expires")];
    if let Some((_, option)) = of_secrets.iter().find(|(is_there, _)| *is_there && is_local) {
        return Err(format!(
            "the ticket of a session with local groups holds its secret, so the sender cannot keep anybody out who has it: leave out \
             {option}, or take --repair nack"
        ));
    }
    let is_alone = local.local_mode == Some(Mode::Sender) && local.local_groups.is_some();
    if is_alone {
        return Err(
            "in the mode sender there is one group: leave out --local-groups, or take another --local-mode"
                .into(),
        );
    }
    Ok(())
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
