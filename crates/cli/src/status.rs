//! `treecast status`: shows which senders and receivers run on this host, and their progress.

use std::{process::ExitCode, thread, time::Duration};

use serde_json::{Value, json};
use treecast_driver::{
    send::{GroupProgress, ReceiverProgress},
    status::{Found, Phase, Role, Snapshot, find},
};

use crate::{
    Outcome,
    arguments::counted,
    figures::{bytes, held_by, left, part, percent, rate, slowest, standings, time},
    output,
};

/// The largest number of receivers that a line names.
const NAMED: usize = 3;

/// Show the senders and receivers that run on this host.
///
/// Shows the sessions of this user; as root, those of all users. Rates are those of the last seconds. The exit
/// code is 0, also if none runs.
#[derive(clap::Args)]
pub struct Args {
    /// Repeat every second, until Ctrl-C
    #[arg(long)]
    watch: bool,
    /// One JSON object a line on standard output
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> Outcome {
    loop {
        let found = find();
        match args.json {
            true => say!("{}", as_json(&found)),
            false => output::to_stdout(format_args!("{}", as_text(&found, args.watch))),
        }
        if !args.watch || output::is_unread() {
            return Ok(ExitCode::SUCCESS);
        }
        thread::sleep(Duration::from_secs(1));
    }
}

fn as_json(found: &[Found]) -> Value {
    let sessions = found.iter().map(|found| match &found.snapshot {
        Some(snapshot) => session_as_json(snapshot),
        None => json!({"pid": found.pid, "answers": false}),
    });
    json!({"event": "status", "sessions": sessions.collect::<Vec<_>>()})
}

pub(crate) fn session_as_json(snapshot: &Snapshot) -> Value {
    let mut session = json!(snapshot);
    session["answers"] = true.into();
    session
}

fn as_text(found: &[Found], is_screen: bool) -> String {
    /// Moves the cursor home, and clears the screen.
    const FRESH_SCREEN: &str = "\u{1b}[H\u{1b}[J";
    let mut text = if is_screen { FRESH_SCREEN.to_owned() } else { String::new() };
    if found.is_empty() {
        text += "no sender or receiver runs here\n";
    }
    for found in found {
        match &found.snapshot {
            Some(snapshot) => text += &session_as_text(snapshot),
            None => text += &format!("pid {}: does not answer: is it stopped?\n", found.pid),
        }
    }
    text
}

fn session_as_text(snapshot: &Snapshot) -> String {
    let role = if snapshot.role == Role::Send { "send" } else { "receive" };
    let mut first = format!(
        "{role} {}  pid {}  {} ({})",
        snapshot.session, snapshot.pid, snapshot.group, snapshot.repair
    );
    // A sender's time begins when it first sends.
    if (snapshot.phase, snapshot.role) != (Phase::Waiting, Role::Send) {
        first += &format!("  {}", time(snapshot.seconds));
    }
    let mut lines = vec![first];
    match (snapshot.phase, snapshot.role) {
        (Phase::Waiting, Role::Send) if snapshot.repair != "carousel" => {
            lines.push(format!("waits for receivers: {} of {} there", snapshot.joined, snapshot.wanted));
        }
        (Phase::Waiting, Role::Send) => lines.push("waits for a listener".to_owned()),
        (Phase::Waiting, Role::Receive) => lines.push("waits for the first file".to_owned()),
        (Phase::Running, _) => lines.extend(progress(snapshot)),
    }
    lines.extend(snapshot.held_by.as_ref().map(held_by));
    let lines = lines.iter().map(|line| output::in_one_line(line));
    format!("{}\n", lines.collect::<Vec<_>>().join("\n  "))
}

fn progress(snapshot: &Snapshot) -> Vec<String> {
    if let Some(loops) = snapshot.loops {
        return vec![format!(
            "{} of {}, {} complete; {}",
            counted(snapshot.objects as usize, "file"),
            bytes(snapshot.total_bytes),
            counted(loops as usize, "loop"),
            rate(snapshot.now_bps)
        )];
    }
    let failed = match snapshot.objects_failed {
        0 => String::new(),
        failed => format!(" ({failed} failed)"),
    };
    let mut lines = vec![
        format!(
            "{} of {}{failed}, {} % of {}; {}; {}",
            snapshot.objects_done,
            counted(snapshot.objects as usize, "file"),
            done_percent(snapshot),
            bytes(snapshot.total_bytes),
            rate(snapshot.now_bps),
            left(snapshot.seconds_left)
        ),
        format!(
            "{} sent again ({}), {} twice, {} dropped",
            bytes(snapshot.retransmitted_bytes),
            counted(snapshot.requests as usize, "request"),
            percent(snapshot.duplicate_share),
            counted(snapshot.dropped_packets as usize, "packet")
        ),
    ];
    if snapshot.role == Role::Send {
        lines.extend(groups(snapshot));
        lines.push(receivers(snapshot));
        lines.extend(gone(snapshot));
        lines.extend(late(snapshot));
    } else if snapshot.group_number > 0 {
        lines.push(format!("in group {}, which is slower than the first", snapshot.group_number));
    }
    lines
}

/// The progress in percent. For a sender, it is the share of what its receivers want. 100 only if it is
/// everything.
fn done_percent(snapshot: &Snapshot) -> u64 {
    let whole = || part(snapshot.done_bytes, snapshot.total_bytes);
    snapshot.done_share.map_or_else(whole, |share| (share * 100.0) as u64)
}

/// Says how many receivers are in each group, if there are several.
fn groups(snapshot: &Snapshot) -> Option<String> {
    let group = |group: &GroupProgress| {
        format!("{} at {}", counted(group.receivers as usize, "receiver"), rate(Some(group.rate_bps)))
    };
    let groups: Vec<_> = snapshot.groups.iter().map(group).collect();
    let moves = match (snapshot.moves, snapshot.refused_moves) {
        (0, 0) => String::new(),
        (moves, 0) => format!("; {}", counted(moves as usize, "move")),
        (moves, refused) => format!("; {}, {refused} refused", counted(moves as usize, "move")),
    };
    (!groups.is_empty()).then(|| groups.join(", ") + &moves)
}

fn receivers(snapshot: &Snapshot) -> String {
    let there = snapshot.receivers.iter().filter(|receiver| receiver.is_connected);
    let percent = |receiver: &ReceiverProgress| part(receiver.received_bytes, receiver.wanted_bytes);
    let slowest = slowest(there.map(|receiver| (receiver.name.as_str(), percent(receiver))));
    let done = format!("{} done", snapshot.receivers_done);
    let standings = standings(done, snapshot.receivers_failed, snapshot.receivers_gone);
    format!("{} there, {standings}{slowest}", counted(snapshot.joined as usize, "receiver"))
}

/// Names the receivers whose connections broke, with the reasons.
fn gone(snapshot: &Snapshot) -> Option<String> {
    let gone = snapshot.receivers.iter().filter_map(|receiver| Some((receiver, receiver.left.as_ref()?)));
    let named = gone.take(NAMED).map(|(receiver, why)| format!("{} ({why})", receiver.name));
    let named: Vec<_> = named.collect();
    (!named.is_empty()).then(|| format!("gone: {}", named.join(", ")))
}

/// Names the receivers that came late to a feed, and says how many files were over by then.
fn late(snapshot: &Snapshot) -> Option<String> {
    let late = snapshot.receivers.iter().filter(|receiver| receiver.objects_missed > 0);
    let named = late.take(NAMED).map(|receiver| {
        format!("{} (not told of {})", receiver.name, counted(receiver.objects_missed as usize, "file"))
    });
    let named: Vec<_> = named.collect();
    (!named.is_empty()).then(|| format!("came late: {}", named.join(", ")))
}

#[cfg(test)]
mod tests {
    use treecast_driver::hindrance::{Hindrance, Holder};

    use super::*;

    fn snapshot() -> Snapshot {
        Snapshot {
            pid: 7,
            phase: Phase::Running,
            session: "0000feed".into(),
            group: "[ff15::1]:5000".into(),
            repair: "nack".into(),
            seconds: 42.0,
            objects: 3,
            objects_done: 1,
            total_bytes: 1 << 30,
            done_bytes: 1 << 29,
            now_bps: Some(94_100_000),
            joined: 2,
            receivers: vec![
                ReceiverProgress {
                    name: "client7".into(),
                    is_connected: true,
                    received_bytes: 1 << 28,
                    wanted_bytes: 1 << 30,
                    why: Some(Hindrance::Silent(12.0)),
                    ..ReceiverProgress::default()
                },
                ReceiverProgress {
                    name: "client2".into(),
                    is_connected: true,
                    received_bytes: 1 << 29,
                    wanted_bytes: 1 << 30,
                    ..ReceiverProgress::default()
                },
            ],
            held_by: Some(Holder::new("client7".into(), Hindrance::Silent(12.0))),
            ..Snapshot::default()
        }
    }

    #[test]
    fn a_session_takes_a_few_lines_of_a_terminal() {
        let text = session_as_text(&snapshot());
        let expected = "send 0000feed  pid 7  [ff15::1]:5000 (nack)  0:42\n  \
                        1 of 3 files, 50 % of 1.0 GiB; 94.1 Mbit/s; time left unknown\n  \
                        0 B sent again (0 requests), 0.0 % twice, 0 packets dropped\n  \
                        2 receivers there, 0 done; slowest: client7 25 %, client2 50 %\n  \
                        waits for client7: silent for 12 s\n";
        assert_eq!(text, expected);
        assert!(text.lines().all(|line| line.len() <= 80));
    }

    #[test]
    fn nobody_is_slowest_of_none() {
        let text = session_as_text(&Snapshot { receivers: Vec::new(), joined: 0, ..snapshot() });
        assert!(text.contains("\n  0 receivers there, 0 done\n"), "{text}");
    }

    #[test]
    fn a_sender_that_waits_says_for_how_many_and_has_no_time_yet() {
        let waits = Snapshot { phase: Phase::Waiting, wanted: 3, held_by: None, ..snapshot() };
        let expected = "send 0000feed  pid 7  [ff15::1]:5000 (nack)\n  waits for receivers: 2 of 3 there\n";
        assert_eq!(session_as_text(&waits), expected);
    }

    #[test]
    fn who_came_late_to_a_feed_is_told() {
        let mut late = snapshot();
        late.receivers[0].objects_missed = 17;
        let text = session_as_text(&late);
        assert!(text.contains("came late: client7 (not told of 17 files)"), "{text}");
    }

    #[test]
    fn moves_from_group_to_group_are_told() {
        let group = GroupProgress { rate_bps: 4_000_000, sent_bytes: 0, receivers: 2 };
        let mut moved = Snapshot { groups: vec![group], moves: 1, ..snapshot() };
        assert!(session_as_text(&moved).contains("Mbit/s; 1 move\n"));
        moved.refused_moves = 7;
        assert!(session_as_text(&moved).contains("; 1 move, 7 refused\n"));
    }

    #[test]
    fn reasons_are_words_in_json() {
        let session = session_as_json(&snapshot());
        let why = json!({"receiver": "client7", "why": "silent", "text": "silent for 12 s"});
        assert_eq!((&session["held_by"], &session["receivers"][0]["why"]), (&why, &json!("silent")));
    }
}
