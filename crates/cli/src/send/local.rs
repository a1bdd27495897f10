//! The options of `treecast send --repair local`.

use std::{ops::RangeInclusive, path::PathBuf, time::Duration};

use clap::ValueEnum;
use treecast::limits::RATES_BPS;
use treecast::unstable::options::{GroupsFile, LocalMode, LocalOptions};
use treecast_host::quantity;

use crate::advice;

/// The deadlines that a ticket can hold, in whole milliseconds.
const DEADLINES: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_millis(u32::MAX as u64);

#[derive(Clone, Copy, PartialEq, ValueEnum)]
pub(super) enum Mode {
    Sender,
    Hierarchical,
    Local,
}

/// How receivers mend losses among themselves.
#[derive(clap::Args)]
pub(super) struct LocalArgs {
    /// Who mends losses: any member of the local group (local), its controller alone (hierarchical),
    /// or the sender alone (sender)
    #[arg(long, value_enum, value_name = "MODE", default_value = "local")]
    pub local_mode: Mode,
    /// Fix the groups by hand. A line a group, `NAME: ADDRESS...` or `NAME < NAME ABOVE: ADDRESS...`;
    /// the first address is the controller's. Receivers need the file, too [default: receivers form groups]
    #[arg(long, value_name = "FILE")]
    pub local_groups: Option<PathBuf>,
    /// The highest rate at which one receiver sends again, counted as for --rate [default: --rate]
    #[arg(long, value_name = "RATE", value_parser = quantity::rates_bps(RATES_BPS), allow_hyphen_values = true)]
    pub repair_rate: Option<u64>,
    /// A receiver that loses a larger share of packets counts as congested and slows the sender
    /// [default: 50%, or 2% with --rate auto]
    #[arg(long, value_name = "SHARE", value_parser = quantity::shares(0.0..=1.0), allow_hyphen_values = true)]
    pub congestion_loss: Option<f64>,
    /// Give up a file that is not whole this long after its beginning (500ms, 2s), for data that
    /// is of no use when it is late [default: never]
    #[arg(long, value_name = "TIME", value_parser = quantity::times(DEADLINES), allow_hyphen_values = true)]
    pub deadline: Option<Duration>,
}

pub(super) fn options(args: &LocalArgs) -> Result<LocalOptions, String> {
    let groups = args.local_groups.as_deref().map(GroupsFile::read).transpose();
    let mut options = LocalOptions::default();
    options.mode = Some(match args.local_mode {
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
