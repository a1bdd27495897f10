//! What becomes of incomplete files when a receiver is stopped.

use std::{
    io::{self, IsTerminal},
    path::{Path, PathBuf},
    time::Duration,
};

use treecast::{
    ReceiverBuilder, Ticket,
    unstable::{Stop, watch::ReceiveSummary},
};

use super::Args;
use crate::{arguments::counted, figures::bytes};

/// The time in which Ctrl-C, pressed once more at a terminal, removes what is incomplete.
const AGAIN_TIME: Duration = Duration::from_secs(3);

/// Where incomplete files are, and who can go on with them.
pub(super) struct Unfinished {
    ticket: Ticket,
    folder: PathBuf,
    stays: bool,
}

impl Unfinished {
    pub fn new(args: &Args, builder: &ReceiverBuilder) -> Self {
        let folder = args.place.into.clone().unwrap_or_else(|| PathBuf::from("."));
        // With --stdout and --to, what comes waits in a temporary folder.
        let stays = !args.limits.discard && !args.place.stdout && args.place.to.is_none();
        Self { ticket: builder.ticket(), folder: std::path::absolute(&folder).unwrap_or(folder), stays }
    }

    /// Says what is kept of a session that a signal has ended. At a terminal, Ctrl-C once more removes it.
    pub fn ended(&self, stop: &Stop, summary: &ReceiveSummary) -> String {
        let kept = summary.unfinished_bytes;
        let is_asked = self.stays && kept > 0 && io::stdin().is_terminal() && io::stderr().is_terminal();
        let ask = || {
            let seconds = AGAIN_TIME.as_secs();
            remark!("{} of incomplete files are kept; Ctrl-C within {seconds} s removes them", bytes(kept));
        };
        if is_asked && stop.comes_again(AGAIN_TIME, ask) {
            return match self.ticket.discard_unfinished(&self.folder) {
                Ok(()) => told(summary, None),
                Err(error) => format!("interrupted, and incomplete files are still there: {error}"),
            };
        }
        told(summary, self.stays.then_some(&self.folder))
    }
}

/// `kept_in` is the folder where incomplete files stay. `None`: they are removed.
fn told(summary: &ReceiveSummary, kept_in: Option<&Path>) -> String {
    let whole = match summary.received as usize {
        0 => String::new(),
        1 => "1 file had come whole, and is kept; ".to_owned(),
        files => format!("{} had come whole, and are kept; ", counted(files, "file")),
    };
    let rest = match (kept_in, summary.unfinished_bytes) {
        (None, _) => "what was not complete is removed".to_owned(),
        (Some(_), 0) => "start again with the same ticket and folder to go on".to_owned(),
        (Some(folder), kept) => format!(
            "{} of incomplete files are kept in {}: start again with the same ticket and folder within 7 days to go on \
             (--discard removes them)",
            bytes(kept),
            folder.display()
        ),
    };
    format!("interrupted: {whole}{rest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_stops_a_receiver_reads_what_is_kept_and_how_to_go_on() {
        let summary = filled!(ReceiveSummary { received: 1, unfinished_bytes: 3 << 30 });
        assert_eq!(
            told(&summary, Some(Path::new("/srv/images"))),
            "interrupted: 1 file had come whole, and is kept; 3.0 GiB of incomplete files are kept in /srv/images: start again \
             with the same ticket and folder within 7 days to go on (--discard removes them)"
        );
        let nothing = ReceiveSummary::default();
        assert_eq!(told(&nothing, None), "interrupted: what was not complete is removed");
        assert!(
            told(&nothing, Some(Path::new("x")))
                .ends_with("start again with the same ticket and folder to go on")
        );
    }
}
