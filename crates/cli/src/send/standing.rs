//! `--to-standing`: the receivers that it names.

use treecast::unstable::options::Listed;

use super::SessionArgs;

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
