//! `treecast status`: shows which senders and receivers run on this host, and their progress.

mod orders;
mod receivers;

use std::{path::PathBuf, process::ExitCode, thread, time::Duration};

use serde_json::{Value, json};
use treecast::unstable::{
    status::{Found, Phase, Progress, Sending, Snapshot, StandingStatus, find},
    watch::{
        GroupProgress, LocalProgress, LocalSending, ReceiveProgress, ReceiverProgress, ReceiverState,
        SendProgress,
    },
};
use treecast_host::clock::WallTime;

use crate::{
    Outcome,
    arguments::counted,
    figures::{bytes, held_by, left, part, percent, rate, slowest, standings, time},
    history, output,
};

/// The largest number of receivers that a line names.
const NAMED: usize = 3;

/// Moves the cursor home, and clears the screen.
const FRESH_SCREEN: &str = "\u{1b}[H\u{1b}[J";

/// The largest number of rules of a standing receiver that are shown.
const MOST_RULES: usize = 20;

/// Show the senders and receivers that run on this host.
///
/// Shows the sessions of this user, and its standing receivers with their rules and their last session; as root, those of all users. Rates are those of the last seconds. The exit
/// code is 0, also if none runs.
#[derive(clap::Args)]
pub struct Args {
    /// Repeat every second, until Ctrl-C
    #[arg(long)]
    watch: bool,
    /// Show what the standing receiver did. That is what it received, ignored and tried (`treecast receive --standing`)
    #[arg(long, conflicts_with = "watch")]
    history: bool,
    /// The folder with the standing receiver's history [default: /var/lib/treecast for root; for others
    /// ~/.local/state/treecast]
    #[arg(long, value_name = "DIR", requires = "history")]
    state: Option<PathBuf>,
    /// Start a sender that waits for receivers. It starts with those that are there, or with the first one that comes
    #[arg(long, group = "order", conflicts_with_all = ["watch", "history", "json"])]
    start: bool,
    /// Have a waiting sender wait for N receivers from now on
    #[arg(long, value_name = "N", group = "order", conflicts_with_all = ["watch", "history", "json"],
          value_parser = clap::value_parser!(u32).range(1..), allow_negative_numbers = true)]
    wait: Option<u32>,
    /// Show the receivers of each sender, or of SESSION: how many are in each state, and a table
    #[arg(long, group = "order", conflicts_with = "history")]
    receivers: bool,
    #[command(flatten)]
    list: receivers::ListArgs,
    /// With --start, --wait and --receivers: the sender, by its session's number or its process id [default: the one that waits; with
    /// --receivers all]
    #[arg(value_name = "SESSION", requires = "order")]
    session: Option<String>,
    /// One JSON object a line on standard output
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> Outcome {
    if args.history {
        return history::show(args.state.as_deref(), args.json);
    }
    if args.start || args.wait.is_some() {
        return orders::give(args.wait, args.session.as_deref());
    }
    loop {
        let found = find();
        match args.json {
            _ if args.receivers => {
                let list = receivers::list(&found, args.session.as_deref(), &args.list, args.json)?;
                let fresh = if args.watch && !args.json { FRESH_SCREEN } else { "" };
                output::to_stdout(format_args!("{fresh}{list}"));
            }
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
    let (role, seconds, holder) = match &snapshot.progress {
        Progress::Standing(standing) => return standing_as_text(snapshot.pid, standing),
        Progress::Send(sending) => ("send", sending.progress.seconds, &sending.progress.held_by),
        Progress::Receive(receiving) => ("receive", receiving.progress.seconds, &receiving.held_by),
    };
    let Snapshot { pid, session, group, repair, .. } = snapshot;
    let mut first = format!("{role} {session}  pid {pid}  {group} ({repair})");
    let waits = snapshot.phase == Phase::Waiting;
    // A sender's time begins when it first sends.
    if !waits || role == "receive" {
        first += &format!("  {}", time(seconds));
    }
    let mut lines = vec![first];
    match &snapshot.progress {
        Progress::Send(sending) if waits && repair != "carousel" => {
            lines.push(format!("waits for receivers: {} of {} there", sending.joined, sending.wanted));
        }
        Progress::Send(_) if waits => lines.push("waits for a listener".to_owned()),
        Progress::Receive(_) if waits => lines.push("waits for the first file".to_owned()),
        Progress::Send(sending) => lines.extend(sender(sending)),
        Progress::Receive(receiving) => lines.extend(receiver(&receiving.progress)),
        Progress::Standing(_) => {}
    }
    lines.extend(holder.as_ref().map(held_by));
    let lines = lines.iter().map(|line| output::in_one_line(line));
    format!("{}\n", lines.collect::<Vec<_>>().join("\n  "))
}

/// A standing receiver in a few lines: what it listens on, its rules, what it receives, and what was last.
fn standing_as_text(pid: u32, standing: &StandingStatus) -> String {
    let StandingStatus { name, rules, receiving, counts, .. } = standing;
    let mut lines =
        vec![format!("standing receiver {name}  pid {pid}  on {}", standing.interfaces.join(", "))];
    if standing.interfaces.is_empty() {
        lines[0] = format!("standing receiver {name}  pid {pid}  on no interface");
    }
    lines.extend(standing.waits_for.clone());
    lines.extend((1..).zip(rules).take(MOST_RULES).map(|(number, rule)| {
        let command = if rule.has_command { ", then a command" } else { "" };
        let senders = counted(rule.senders as usize, "sender");
        let audience = match rule.audience.as_str() {
            "anybody" => "for anybody",
            "named" => "that name this receiver",
            _ => "for standing receivers",
        };
        format!("rule {number}: sessions {audience} of {senders} into {}{command}", rule.into)
    }));
    if rules.len() > MOST_RULES {
        lines.push(format!("{} more", counted(rules.len() - MOST_RULES, "rule")));
    }
    lines.extend(receiving.iter().map(|taken| {
        let percent = part(taken.received_bytes, taken.announced_bytes);
        let size = bytes(taken.announced_bytes);
        format!(
            "receives {} ({}) by rule {}: {percent} % of {size}  {}",
            taken.name,
            taken.session,
            taken.rule,
            time(taken.seconds)
        )
    }));
    match &standing.last {
        Some(last) => {
            let at = WallTime::local(last.at).map_or_else(|| last.at.to_string(), |time| time.to_string());
            let (files, size) = (counted(last.files as usize, "file"), bytes(last.bytes));
            let text = last.text.as_ref().map_or_else(String::new, |text| format!("; {text}"));
            lines.push(format!(
                "last: {at} {} {} ({}): {files}, {size}{text}",
                last.event, last.name, last.session
            ));
        }
        None if receiving.is_empty() => lines.push("waits for its first session".to_owned()),
        None => {}
    }
    let failed = format!(
        "{} given up, {} failed",
        counts.given_up,
        counted(counts.commands_failed as usize, "command")
    );
    let received = counted(counts.received as usize, "session");
    lines.push(format!(
        "since its start: {received} received, {failed} ({} tells more)",
        history::command(&standing.state)
    ));
    let lines = lines.iter().map(|line| output::in_one_line(line));
    format!("{}\n", lines.collect::<Vec<_>>().join("\n  "))
}

fn sender(sending: &Sending) -> Vec<String> {
    let Sending { progress, sums, .. } = sending;
    let (files, total) = (counted(progress.objects as usize, "file"), bytes(progress.total_bytes));
    let rate = rate(progress.leaving_bps());
    if let Some(loops) = progress.loops {
        return vec![format!("{files} of {total}, {} complete; {rate}", counted(loops as usize, "loop"))];
    }
    // By what its receivers want; 100 only when it is all.
    let percent = (sums.done_share * 100.0) as u64;
    let left = left(progress.seconds_left);
    let mut lines = vec![
        format!("{} of {files}, {percent} % of {total}; {rate}; {left}", progress.objects_done),
        again(sums.retransmitted_bytes, sums.requests, progress.duplicate_share, sums.dropped_packets),
    ];
    lines.extend(groups(progress));
    lines.push(progress.local.as_ref().map_or_else(|| receivers(sending), in_groups));
    lines.extend(gone(progress));
    lines.extend(late(progress));
    lines
}

fn receiver(progress: &ReceiveProgress) -> Vec<String> {
    let failed = match progress.objects_failed {
        0 => String::new(),
        failed => format!(" ({failed} failed)"),
    };
    let mut lines = vec![
        format!(
            "{} of {}{failed}, {} % of {}; {}; {}",
            progress.objects_done,
            counted(progress.objects as usize, "file"),
            part(progress.received_bytes, progress.announced_bytes),
            bytes(progress.announced_bytes),
            rate(progress.now_bps),
            left(progress.seconds_left)
        ),
        again(
            progress.retransmitted_bytes,
            progress.requests,
            progress.duplicate_share,
            progress.dropped_packets,
        ),
    ];
    lines.extend(progress.local.as_ref().map(in_group));
    if progress.group > 0 {
        lines.push(format!("in group {}, which is slower than the first", progress.group));
    }
    lines
}

fn again(again_bytes: u64, requests: u64, duplicate_share: f64, dropped_packets: u64) -> String {
    format!(
        "{} sent again ({}), {} twice, {} dropped",
        bytes(again_bytes),
        counted(requests as usize, "request"),
        percent(duplicate_share),
        counted(dropped_packets as usize, "packet")
    )
}

/// Says who is in a session with local groups, and what the sender has sent again.
fn in_groups(local: &LocalSending) -> String {
    let late = match local.late_objects {
        0 => String::new(),
        late => format!("; {} given up as late", counted(late as usize, "file")),
    };
    format!(
        "{} in local groups, {} to the sender; {} sent again to all, {} to groups{late}",
        counted(local.receivers as usize, "receiver"),
        match local.clients {
            1 => "1 of them reports".to_owned(),
            clients => format!("{clients} of them report"),
        },
        bytes(local.session_repair_bytes),
        bytes(local.group_repair_bytes),
    )
}

/// Says what a receiver does in its local group.
fn in_group(local: &LocalProgress) -> String {
    let place = match (local.group, local.controller) {
        (None, _) => "in no local group".to_owned(),
        (Some(group), _) if local.is_controller => {
            format!("controller of local group {group:08x}, to which {} report", local.clients)
        }
        (Some(group), Some(controller)) => format!("in local group {group:08x} of {controller}"),
        (Some(group), None) => format!("in local group {group:08x}"),
    };
    format!(
        "{place}; {} lost, {} repaired by others, {} sent for others",
        counted(local.lost_blocks as usize, "block"),
        local.repair_blocks,
        local.sent_blocks
    )
}

/// Says how many receivers are in each group, if there are several.
fn groups(progress: &SendProgress) -> Option<String> {
    let group = |group: &GroupProgress| {
        format!("{} at {}", counted(group.receivers as usize, "receiver"), rate(Some(group.rate_bps)))
    };
    let groups: Vec<_> = progress.groups.iter().map(group).collect();
    let moves = match (progress.moves, progress.refused_moves) {
        (0, 0) => String::new(),
        (moves, 0) => format!("; {}", counted(moves as usize, "move")),
        (moves, refused) => format!("; {}, {refused} refused", counted(moves as usize, "move")),
    };
    (!groups.is_empty()).then(|| groups.join(", ") + &moves)
}

fn receivers(sending: &Sending) -> String {
    /// The number of receivers that are named.
    const NAMED: usize = 3;
    // Who has failed comes first in the list, and is not slow.
    let is_there =
        |receiver: &&ReceiverProgress| receiver.is_connected && receiver.state() != ReceiverState::Failed;
    let there = sending.progress.receivers.iter().filter(is_there);
    let percent = |receiver: &ReceiverProgress| part(receiver.received_bytes, receiver.wanted_bytes);
    let slowest = slowest(there.map(|receiver| (receiver.name.as_str(), percent(receiver))), NAMED);
    let done = format!("{} done", sending.sums.receivers_done);
    let standings = standings(done, sending.sums.receivers_failed, sending.sums.receivers_gone);
    format!("{} there, {standings}{slowest}", counted(sending.joined as usize, "receiver"))
}

/// Names the receivers whose connections broke, with the reasons.
fn gone(progress: &SendProgress) -> Option<String> {
    let gone = progress.receivers.iter().filter_map(|receiver| Some((receiver, receiver.left.as_ref()?)));
    let named = gone.take(NAMED).map(|(receiver, why)| format!("{} ({why})", receiver.name));
    let named: Vec<_> = named.collect();
    (!named.is_empty()).then(|| format!("gone: {}", named.join(", ")))
}

/// Names the receivers that came late to a feed, and says how many files were over by then.
fn late(progress: &SendProgress) -> Option<String> {
    let late = progress.receivers.iter().filter(|receiver| receiver.objects_missed > 0);
    let named = late.take(NAMED).map(|receiver| {
        format!("{} (not told of {})", receiver.name, counted(receiver.objects_missed as usize, "file"))
    });
    let named: Vec<_> = named.collect();
    (!named.is_empty()).then(|| format!("came late: {}", named.join(", ")))
}

#[cfg(test)]
mod tests {
    use treecast::unstable::watch::{Hindrance, Holder, Sums};

    use super::*;

    fn sending() -> Sending {
        let receiver = |name: &str, received_bytes, why| {
            filled!(ReceiverProgress {
                name: name.into(),
                is_connected: true,
                received_bytes,
                wanted_bytes: 1 << 30,
                why
            })
        };
        let progress = filled!(SendProgress {
            seconds: 42.0,
            objects: 3,
            objects_done: 1,
            total_bytes: 1 << 30,
            now_bps: Some(94_100_000),
            receivers: vec![
                receiver("client7", 1 << 28, Some(Hindrance::Silent(12.0))),
                receiver("client2", 1 << 29, None),
            ],
            held_by: Some(Holder::new("client7".into(), Hindrance::Silent(12.0)))
        });
        let sums = filled!(Sums { done_share: 0.5 });
        Sending { progress, sums, joined: 2, ..Sending::default() }
    }

    fn snapshot(sending: Sending) -> Snapshot {
        Snapshot {
            pid: 7,
            phase: Phase::Running,
            session: "0000feed".into(),
            group: "[ff15::1]:5000".into(),
            repair: "nack".into(),
            progress: Progress::Send(Box::new(sending)),
        }
    }

    #[test]
    fn a_session_takes_a_few_lines_of_a_terminal() {
        let text = session_as_text(&snapshot(sending()));
        let expected = "send 0000feed  pid 7  [ff15::1]:5000 (nack)  0:42\n  \
                        1 of 3 files, 50 % of 1.0 GiB; 94.1 Mbit/s; time left unknown\n  \
                        0 B sent again (0 requests), 0.0 % twice, 0 packets dropped\n  \
                        2 receivers there, 0 done; slowest: client7 25 %, client2 50 %\n  \
                        waits for client7: silent for 12 s\n";
        assert_eq!(text, expected);
        assert!(text.lines().all(|line| line.len() <= 80));
    }

    #[test]
    fn a_session_with_local_groups_says_who_mends() {
        let mut local = sending();
        local.progress.receivers.clear();
        local.progress.local = Some(filled!(LocalSending {
            receivers: 60,
            clients: 3,
            session_repair_bytes: 1 << 20,
            group_repair_bytes: 2 << 20,
            late_objects: 2
        }));
        let expected = "\n  60 receivers in local groups, 3 of them report to the sender; \
                        1.0 MiB sent again to all, 2.0 MiB to groups; 2 files given up as late\n";
        let text = session_as_text(&snapshot(local));
        assert!(text.contains(expected), "{text}");
        let member = filled!(LocalProgress {
            group: Some(0xfeed),
            is_controller: true,
            clients: 5,
            lost_blocks: 20,
            repair_blocks: 19,
            sent_blocks: 30
        });
        let expected = "controller of local group 0000feed, to which 5 report; \
                        20 blocks lost, 19 repaired by others, 30 sent for others";
        assert_eq!(in_group(&member), expected);
    }

    #[test]
    fn nobody_is_slowest_of_none() {
        let mut nobody = Sending { joined: 0, ..sending() };
        nobody.progress.receivers.clear();
        let text = session_as_text(&snapshot(nobody));
        assert!(text.contains("\n  0 receivers there, 0 done\n"), "{text}");
    }

    #[test]
    fn a_sender_that_waits_says_for_how_many_and_has_no_time_yet() {
        let mut waiting = Sending { wanted: 3, ..sending() };
        waiting.progress.held_by = None;
        let waits = Snapshot { phase: Phase::Waiting, ..snapshot(waiting) };
        let expected = "send 0000feed  pid 7  [ff15::1]:5000 (nack)\n  waits for receivers: 2 of 3 there\n";
        assert_eq!(session_as_text(&waits), expected);
    }

    #[test]
    fn who_came_late_to_a_feed_is_told() {
        let mut late = sending();
        late.progress.receivers[0].objects_missed = 17;
        let text = session_as_text(&snapshot(late));
        assert!(text.contains("came late: client7 (not told of 17 files)"), "{text}");
    }

    #[test]
    fn moves_from_group_to_group_are_told() {
        let group = GroupProgress { rate_bps: 4_000_000, sent_bytes: 0, receivers: 2 };
        let mut moved = sending();
        (moved.progress.groups, moved.progress.moves) = (vec![group], 1);
        assert!(session_as_text(&snapshot(moved.clone())).contains("Mbit/s; 1 move\n"));
        moved.progress.refused_moves = 7;
        assert!(session_as_text(&snapshot(moved)).contains("; 1 move, 7 refused\n"));
    }

    #[test]
    fn reasons_are_words_in_json() {
        let session = session_as_json(&snapshot(sending()));
        let why = json!({"receiver": "client7", "why": "silent", "text": "silent for 12 s"});
        assert_eq!((&session["held_by"], &session["receivers"][0]["why"]), (&why, &json!("silent")));
    }
}
