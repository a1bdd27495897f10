//! `--to-standing`: what it says, and what cannot go with it.

use treecast::unstable::options::Listed;

use super::{Repair, SessionArgs, is_carousel, refuse_first};

/// The receivers that are named: an empty list for any. `None` if the session is for no standing receivers.
pub(super) fn listed(args: &SessionArgs) -> Result<Option<Vec<Listed>>, String> {
    let listed = args.invite.to_standing.as_deref().map(Listed::parse).transpose();
    listed.map_err(|error| format!("{error} (--to-standing)"))
}

/// A line for the user if the list is a single name, which may be meant for a file that is not there.
pub(super) fn hint(args: &SessionArgs) -> Option<String> {
    let hint = args.invite.to_standing.as_deref().and_then(Listed::hint);
    hint.map(|hint| format!("{hint} (--to-standing)"))
}

pub(super) fn check(args: &SessionArgs) -> Result<(), String> {
    let Some(list) = args.invite.to_standing.as_deref() else { return Ok(()) };
    let names_some = list != Listed::ANY;
    refuse_first(&[
        (
            args.security.key.is_none() || args.security.plain,
            "standing receivers take files of senders that they trust: add --key, which they know (`treecast keys new` makes one, and --key default takes it)",
        ),
        (
            names_some && (is_carousel(args) || matches!(args.repair, Repair::Local | Repair::None)),
            "--to-standing with names needs to hear of each receiver what it has: take --repair nack or after, or --to-standing any",
        ),
        (
            names_some && (args.sent.feed.is_some() || super::is_stream(args)),
            "what comes by a feed is not sent again to those who come later: name files, or take --to-standing any",
        ),
        (
            names_some && args.start.wait.is_some(),
            "--to-standing says for how many the start waits: leave out --wait",
        ),
    ])
}
