//! `treecast status --start` and `--wait`: orders to a sender that waits for receivers.

use std::process::ExitCode;

use treecast::unstable::status::{Found, Phase, Progress, find, order};

use crate::{Outcome, arguments::counted, output};

/// Starts the sender that `session` names, or has it wait for another number of receivers.
pub(super) fn give(wait: Option<u32>, session: Option<&str>) -> Outcome {
    let pid = chosen(&find(), session)?;
    let line = wait.map_or_else(|| "start".to_owned(), |receivers| format!("wait {receivers}"));
    order(pid, &line).map_err(|why| format!("the sender (pid {pid}) does not obey: {why}"))?;
    match wait {
        Some(receivers) => say!("the sender waits for {} now", counted(receivers as usize, "receiver")),
        None => say!("the sender starts"),
    }
    Ok(ExitCode::SUCCESS)
}

/// The process id of the sender that `session` names. `None` is the only one that waits.
///
/// # Errors
/// One line: which senders there are.
fn chosen(found: &[Found], session: Option<&str>) -> Result<u32, String> {
    if let Some(session) = session {
        return named(found, session).map(|found| found.pid);
    }
    let senders: Vec<_> = found.iter().filter_map(sender).collect();
    let chosen: Vec<_> = senders.iter().filter(|(.., waits)| *waits).collect();
    let told = in_a_row(&senders);
    match &chosen[..] {
        [(pid, ..)] => Ok(*pid),
        _ if senders.is_empty() => Err(NONE.to_owned()),
        [] => Err(format!("no sender waits for receivers: there are {told}")),
        _ => Err(format!(
            "several senders wait: name one of {told}, as in `treecast status --start {}`",
            chosen[0].1
        )),
    }
}

/// The error where no sender runs.
const NONE: &str = "no sender runs here";

/// The sender with this session's number or process id.
///
/// # Errors
/// One line: which senders there are.
pub(super) fn named<'a>(found: &'a [Found], session: &str) -> Result<&'a Found, String> {
    let is_it = |found: &&Found| {
        sender(found).is_some_and(|(pid, number, _)| number == session || pid.to_string() == session)
    };
    let senders: Vec<_> = found.iter().filter_map(sender).collect();
    found.iter().find(is_it).ok_or_else(|| match senders.is_empty() {
        true => NONE.to_owned(),
        false => format!("no sender has the session {session:?}: there are {}", in_a_row(&senders)),
    })
}

/// Names senders in a line.
fn in_a_row(senders: &[(u32, String, bool)]) -> String {
    let told = senders.iter().map(|(pid, number, waits)| {
        let state = if *waits { "waits" } else { "has started" };
        output::in_one_line(&format!("{number} (pid {pid}, {state})"))
    });
    told.collect::<Vec<_>>().join(", ")
}

/// The process id and session of a sender, and whether it waits for receivers.
fn sender(found: &Found) -> Option<(u32, String, bool)> {
    let snapshot = found.snapshot.as_ref()?;
    let waits = snapshot.phase == Phase::Waiting && snapshot.repair != "carousel";
    matches!(snapshot.progress, Progress::Send(_)).then(|| (found.pid, snapshot.session.clone(), waits))
}

#[cfg(test)]
mod tests {
    use treecast::unstable::status::Snapshot;

    use super::*;

    fn found(pid: u32, session: &str, phase: Phase, progress: Progress) -> Found {
        let snapshot = Snapshot { pid, phase, session: session.into(), progress, ..Snapshot::default() };
        Found { pid, snapshot: Some(snapshot) }
    }

    #[test]
    fn the_only_sender_that_waits_need_not_be_named() {
        let sending = || Progress::Send(Box::default());
        let mut all = vec![
            found(7, "0000feed", Phase::Waiting, sending()),
            found(8, "0000beef", Phase::Running, sending()),
            found(9, "0000cafe", Phase::Waiting, Progress::Receive(Box::default())),
        ];
        assert_eq!(chosen(&all, None), Ok(7));
        assert_eq!([chosen(&all, Some("0000beef")), chosen(&all, Some("8"))], [Ok(8), Ok(8)]);
        assert!(chosen(&all, Some("0000cafe")).unwrap_err().contains("0000feed (pid 7, waits)"));
        all.push(found(10, "0000d00d", Phase::Waiting, sending()));
        let several = chosen(&all, None).unwrap_err();
        assert!(
            several.contains("several senders wait") && several.contains("0000d00d (pid 10, waits)"),
            "{several}"
        );
        assert_eq!(chosen(&all[2..3], None), Err("no sender runs here".to_owned()));
        assert!(
            chosen(&all[1..2], None)
                .unwrap_err()
                .starts_with("no sender waits for receivers: there are 0000beef")
        );
    }
}
