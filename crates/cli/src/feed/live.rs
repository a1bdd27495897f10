//! `treecast feed DIR|-`: sends what comes.

use std::{path::PathBuf, time::Duration};

use treecast::unstable::options::{FeedSource, FolderOptions};

use super::rules;
use crate::{
    Outcome, arguments,
    send::{self, Feed, SessionArgs},
};

/// The number of files that are multicast at the same time, where nothing else is asked for. What is urgent shares the rate with
/// few others.
const AT_ONCE: usize = 4;

/// The time for which a feed waits for its first receivers: until somebody stops it.
const WAIT_SECONDS: u64 = arguments::LONGEST_SECONDS;

#[derive(clap::Args)]
pub(super) struct LiveArgs {
    #[command(flatten)]
    session: SessionArgs,
    /// The folder whose files are sent, or - for paths on standard input. Each file is sent once, when it is complete: closed by the
    /// program that wrote it, or moved there.
    /// Files of folders in it are sent, too; names that begin with a dot are not. Standard input has a path a line
    #[arg(value_name = "DIR|-", required = true)]
    folder: Option<PathBuf>,
    /// Leave out what matches this pattern, as `treecast send --exclude` does. It may be repeated. Patterns that begin with / begin in the
    /// folder
    #[arg(long, value_name = "PATTERN", allow_hyphen_values = true)]
    exclude: Vec<String>,
    /// Send files whose names match on these terms. priority=N (higher ones leave first; 0 is usual), expires=TIME (not sent and not
    /// sent again after 30s, 10m or 2h) and retx-factor=X (as --retx-factor), with commas between them. The first rule that matches
    /// a name counts, those of --rules after these. 'radar/*:priority=10,expires=10m'
    #[arg(long, value_name = "GLOB:TERMS", value_parser = rules::parse)]
    rule: Vec<rules::WrittenRule>,
    /// A TOML file with more rules: tables [[rule]] with names, priority, expires and retx_factor
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,
    /// Remove each file when the sender is done with it. Every receiver has it or has failed to get it, or it was dropped, or has
    /// expired. So a file is removed that some receivers lack [default: files stay]
    #[arg(long)]
    remove: bool,
    /// The file that remembers what has been sent. A sender that is started again does not send it again [default:
    /// .treecast-feed in the folder]
    #[arg(long, value_name = "FILE", conflicts_with = "remove")]
    state: Option<PathBuf>,
    /// Let at most this many files wait to be sent. What is beyond that is dropped: the oldest of the lowest priority
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000),
          allow_negative_numbers = true)]
    spool_files: u32,
    /// Let files of at most this size together wait to be sent (500k, 20M, 4G: powers of 1024) [default: any]
    #[arg(long, value_name = "BYTES", value_parser = arguments::bytes, allow_hyphen_values = true)]
    spool_bytes: Option<u64>,
    /// Keep the newest N sent files. They are for receivers that come late or come back. With --remove, they stay in
    /// the folder meanwhile
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=1_000_000),
          allow_negative_numbers = true)]
    keep: u32,
    /// Look at the folder every 2 s, and do not wait to be told of changes: for network file systems. A file is complete when it has
    /// not changed for 2 s
    #[arg(long)]
    poll: bool,
}

pub(super) fn run(args: LiveArgs) -> Outcome {
    let path = args.folder.ok_or("name the folder whose files are to be sent")?;
    let mut rules = args.rule;
    if let Some(file) = &args.rules {
        rules.extend(rules::read(file)?);
    }
    let rules = rules::in_order(rules)?;
    let source = if path.as_os_str() == "-" {
        let is_of_folder = args.remove || args.poll || args.state.is_some() || args.spool_bytes.is_some();
        if is_of_folder {
            return Err(
                "--remove, --poll, --state and --spool-bytes are for a folder: leave them out, or name one"
                    .into(),
            );
        }
        FeedSource::StandardInput
    } else {
        let mut folder = FolderOptions::new(path);
        folder.state = args.state;
        folder.removes = args.remove;
        folder.bound.objects = args.spool_files as usize;
        folder.bound.bytes = args.spool_bytes.unwrap_or(u64::MAX);
        folder.polls = args.poll;
        FeedSource::Folder(folder)
    };
    let feed = Feed { source, rules, kept: args.keep };
    send::run_feed(args.session, feed, args.exclude, AT_ONCE, Duration::from_secs(WAIT_SECONDS))
}
