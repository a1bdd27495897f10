//! `--to-standing`: what cannot go with it.

use super::{Repair, SessionArgs, is_carousel};

pub(super) fn check(args: &SessionArgs) -> Result<(), String> {
    let refused = [
        (
            args.key.is_none() || args.plain,
            "standing receivers take files of senders that they trust: add --key, which they know (`treecast keys new` makes one)",
        ),
        (
            is_carousel(args) || matches!(args.repair, Repair::Local | Repair::None),
            "--to-standing needs to hear of each receiver what it has: leave it out, or take --repair nack or after",
        ),
        (
            args.feed.is_some() || super::is_stream(args),
            "what comes by a feed is not sent again to those who come later: leave out --to-standing, or name files",
        ),
        (args.start.wait.is_some(), "--to-standing says for how many the start waits: leave out --wait"),
    ];
    let refused = refused.iter().find(|(is_refused, _)| *is_refused && args.to_standing.is_some());
    refused.map_or(Ok(()), |(_, why)| Err((*why).to_owned()))
}
