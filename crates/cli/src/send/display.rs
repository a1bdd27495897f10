//! The display of `treecast send`: the ticket, a bar, and at the end a table of receivers.

use treecast::watch::{
    FanoutProgress, LocalSending, ReceiverProgress, SendEvent, SendProgress, SendSummary, Standing, Way,
};

use crate::{
    advice::with_option,
    arguments::counted,
    figures::{bytes, held_by, left, part, percent, rate, slowest, standings},
    moving_line::{Moment, MovingLine},
    output::{self, Lines},
};

/// A reason that names the object.
fn of(name: &str, reason: &str) -> String {
    if reason.contains(name) { reason.to_owned() } else { format!("{name}: {reason}") }
}

pub(super) struct Display {
    json: bool,
    /// What is counted: files, or the pieces of a stream.
    unit: &'static str,
    line: MovingLine,
    lines: Lines,
    /// The receivers that have joined while the session waits. `None` when it has started.
    waiting: Option<Waiting>,
}

struct Waiting {
    joined: u32,
    wanted: u32,
}

impl Display {
    /// A display for a session that starts when `wanted` receivers are there.
    pub fn new(json: bool, wanted: u32, unit: &'static str) -> Self {
        let waiting = Some(Waiting { joined: 0, wanted });
        Self { json, unit, line: MovingLine::new(json, ""), lines: Lines::default(), waiting }
    }

    pub fn show(&mut self, event: &SendEvent) {
        if self.json {
            return match event {
                SendEvent::Idle => self.lines.show(),
                _ => self.lines.add(event, matches!(event, SendEvent::ObjectDone { .. })),
            };
        }
        match event {
            SendEvent::Ready { ticket } => {
                say!("{ticket}");
                self.wait_for(0);
            }
            SendEvent::Warning(line) => self.line(&with_option(line)),
            SendEvent::Joined { receiver, address, joined, wanted, .. } => {
                let there = match &self.waiting {
                    Some(_) => format!("{joined} of {wanted}"),
                    None => format!("{joined} are there"),
                };
                self.line(&format!("{receiver} joined from {address} ({there})"));
                self.wait_for(*joined);
            }
            SendEvent::Left { receiver, reason } => {
                self.line(&format!("{receiver} left: {reason}"));
                let joined = self.waiting.as_ref().map_or(0, |waiting| waiting.joined.saturating_sub(1));
                self.wait_for(joined);
            }
            SendEvent::Refused { address, reason } => {
                self.line(&format!("a connection from {address} came to nothing: {reason}"));
            }
            SendEvent::Started { .. } => self.waiting = None,
            SendEvent::Progress(progress) => self.move_bar(progress),
            SendEvent::Moved { receiver, group, rate_bps } => {
                self.line(&format!("{receiver} moved to group {group} at {}", rate(Some(*rate_bps))));
            }
            SendEvent::Way { receiver, way, why } => {
                self.line(&format!("{receiver} is served by {}: {why}", way.title()));
            }
            SendEvent::Withdrawn { name, reason, .. } | SendEvent::NotSent { path: name, reason, .. } => {
                self.line(&of(name, reason));
            }
            _ => {}
        }
    }

    pub fn finish(&mut self, summary: &SendSummary) {
        self.line.finish();
        if self.json {
            return self.lines.end(&SendEvent::Done(summary.into()));
        }
        say!("{}", in_one_line(summary, self.unit));
        given_up(summary).into_iter().for_each(|line| say!("{line}"));
        let lacks_some = |receiver: &ReceiverProgress| receiver.failed + receiver.objects_missed > 0;
        if summary.progress.receivers.iter().any(lacks_some) {
            output::to_stdout(format_args!("{}", failures(summary)));
        }
        if summary.others_failed > 0 {
            say!(
                "{} more left before it had everything",
                counted(summary.others_failed as usize, "receiver")
            );
        }
    }

    fn line(&self, line: &str) {
        self.line.line(line);
    }

    /// Says who is there, while the session waits for others.
    fn wait_for(&mut self, now_joined: u32) {
        let Some(Waiting { joined, wanted }) = &mut self.waiting else { return };
        *joined = now_joined;
        self.line.wait(format!("waiting: {joined} of {}", counted(*wanted as usize, "receiver")));
    }

    /// Moves the bar to the receivers' average progress.
    fn move_bar(&mut self, progress: &SendProgress) {
        if let Some(waiting) = progress.waiting {
            let (figures, remark) = of_feed(progress, waiting, self.unit);
            return self.line.show(&Moment {
                done_bytes: progress.sent_bytes,
                total_bytes: None,
                figures,
                remark,
            });
        }
        let (done_bytes, wanted_bytes) = match &progress.local {
            Some(_) => (progress.sent_bytes, progress.total_bytes),
            None => (progress.done_bytes(), progress.wanted_bytes()),
        };
        let figures = format!(
            "{} of {}, {}, {}",
            bytes(done_bytes),
            bytes(wanted_bytes),
            rate(progress.now_bps),
            left(progress.seconds_left)
        );
        let total_bytes = Some(wanted_bytes);
        let moment = Moment { done_bytes, total_bytes, figures, remark: remark(progress) };
        self.line.show(&moment);
    }
}

/// Says how many receivers are done, what was sent again, and which receiver the session waits for or is
/// slowest.
fn remark(progress: &SendProgress) -> String {
    if let Some(local) = &progress.local {
        let again = local.session_repair_bytes + local.group_repair_bytes;
        let share = again as f64 / (progress.sent_bytes + again).max(1) as f64;
        let receivers = counted(local.receivers as usize, "receiver");
        return format!("{receivers} in local groups, {} sent again", percent(share));
    }
    let receivers = &progress.receivers;
    let stand = |standing| receivers.iter().filter(|receiver| receiver.standing == standing).count() as u32;
    let done = format!("{} of {} done", stand(Standing::Done), counted(receivers.len(), "receiver"));
    let standings = standings(done, stand(Standing::Failed), stand(Standing::Gone));
    let again: u64 = receivers.iter().map(|receiver| receiver.retransmitted_bytes).sum();
    let share = again as f64 / (progress.sent_bytes + again).max(1) as f64;
    let who = match &progress.held_by {
        Some(holder) => format!("; {}", held_by(holder)),
        None => {
            let mut there: Vec<&ReceiverProgress> =
                receivers.iter().filter(|receiver| receiver.is_connected).collect();
            there.sort_by_key(|receiver| receiver.received_bytes);
            let percent = |receiver: &&ReceiverProgress| part(receiver.received_bytes, progress.total_bytes);
            slowest(there.iter().map(|receiver| (receiver.name.as_str(), percent(receiver))), NAMED)
        }
    };
    format!("{standings}, {} sent again{who}", percent(share))
}

/// The number of receivers that the moving line names. More would not fit 80 columns.
const NAMED: usize = 2;

/// How far a feed is, which has no end: files, and who is there.
fn of_feed(progress: &SendProgress, waiting: u64, unit: &str) -> (String, String) {
    let figures = format!(
        "{} done, {} under way, {waiting} waiting; {} sent, {}",
        counted(progress.objects_done as usize, unit),
        progress.objects.saturating_sub(progress.objects_done),
        bytes(progress.sent_bytes),
        rate(progress.now_bps)
    );
    if progress.local.is_some() {
        return (figures, remark(progress));
    }
    let there = progress.receivers.iter().filter(|receiver| receiver.is_connected).count();
    let again = progress.sums().retransmitted_bytes;
    let share = again as f64 / (progress.sent_bytes + again).max(1) as f64;
    let who = progress.held_by.as_ref().map(|holder| format!("; {}", held_by(holder))).unwrap_or_default();
    (figures, format!("{}, {} sent again{who}", counted(there, "receiver"), percent(share)))
}

fn in_one_line(summary: &SendSummary, unit: &str) -> String {
    let progress = &summary.progress;
    if let Some(local) = &progress.local {
        return in_local_groups(summary, local, unit);
    }
    let sum = |count: fn(&ReceiverProgress) -> u64| progress.receivers.iter().map(count).sum::<u64>();
    format!(
        "{}, {}: {} after {:.2} s{}; {} sent again, {} dropped",
        counted(summary.objects as usize, unit),
        bytes(progress.total_bytes),
        who_has_it(&progress.receivers, if is_partial(summary) { "all that went out" } else { "all of it" }),
        progress.seconds,
        average(progress),
        bytes(sum(|receiver| receiver.retransmitted_bytes)),
        counted(sum(|receiver| receiver.dropped_packets) as usize, "packet"),
    ) + &match progress.repair_symbols {
        0 => String::new(),
        symbols => format!(", {} sent", counted(symbols as usize, "repair symbol")),
    } + &progress.fanout.as_ref().map(left_bytes).unwrap_or_default()
}

/// Whether the session was to send more than went out: files of a feed that could not be sent, were given up, or wait for the next start.
fn is_partial(summary: &SendSummary) -> bool {
    let is_stopped_feed = summary.interrupted && summary.progress.waiting.is_some();
    is_stopped_feed || summary.not_sent + summary.dropped + summary.expired > 0
}

/// Says how many files of a feed nobody gets, or not everybody. `None` if there are none.
fn given_up(summary: &SendSummary) -> Option<String> {
    let told =
        |count: u64, verb: &str| (count > 0).then(|| format!("{} {verb}", counted(count as usize, "file")));
    let dropped = told(summary.dropped, "dropped because too many waited (--spool-files, --spool-bytes)");
    let expired = told(summary.expired, "expired before all had it");
    let refused = told(summary.not_sent, "not sent, for the reasons above");
    let parts: Vec<_> = [refused, dropped, expired].into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// Says how a session with local groups has ended. Its sender does not know receivers one by one: it knows the most that
/// have been reported at a time, and that each of those who still report has everything.
fn in_local_groups(summary: &SendSummary, local: &LocalSending, unit: &str) -> String {
    let progress = &summary.progress;
    let receivers = counted(local.receivers as usize, "receiver");
    let there = if summary.is_complete() {
        format!("all of it is at those of {receivers} that stayed to the end")
    } else {
        format!("it went to {receivers}")
    };
    format!(
        "{}, {}: {there} after {:.2} s; {} sent again to all, {} to local groups, {} heard",
        counted(summary.objects as usize, unit),
        bytes(progress.total_bytes),
        progress.seconds,
        bytes(local.session_repair_bytes),
        bytes(local.group_repair_bytes),
        counted((local.reports + local.requests + local.others) as usize, "message"),
    ) + &match local.late_objects {
        0 => String::new(),
        late => format!("; {} given up as late", counted(late as usize, "file")),
    }
}

/// Says how many receivers have everything (`what`), and how many have everything that they wanted.
fn who_has_it(receivers: &[ReceiverProgress], what: &str) -> String {
    let lacks_nothing = |receiver: &&ReceiverProgress| receiver.failed + receiver.objects_missed == 0;
    let (all, chosen): (Vec<_>, Vec<_>) =
        receivers.iter().filter(lacks_nothing).partition(|receiver| receiver.objects_not_wanted == 0);
    let (all, chosen, of) = (all.len(), chosen.len(), counted(receivers.len(), "receiver"));
    let have = if all == 1 { "has" } else { "have" };
    let have_chosen = if chosen == 1 { "has what it" } else { "have what they" };
    match (all, chosen) {
        (_, 0) => format!("{what} is at {all} of {of}"),
        (0, _) => format!("{chosen} of {of} {have_chosen} wanted (--only),"),
        _ => format!("{all} of {of} {have} everything, {chosen} {have_chosen} wanted (--only),"),
    }
}

/// Says how fast receivers got their files. Receivers that failed are left out, and the text says so.
fn average(progress: &SendProgress) -> String {
    let rates = || {
        progress.receivers.iter().filter(|receiver| receiver.failed == 0).map(|receiver| receiver.run_bytes)
    };
    let count = rates().count();
    if count == 0 {
        return String::new();
    }
    let whom = if count == progress.receivers.len() { "each" } else { "each that has not failed" };
    let mean = rates().sum::<u64>() as f64 / count as f64;
    format!(" ({} at {whom} on average)", rate(Some((mean * 8.0 / progress.seconds.max(1e-9)) as u64)))
}

/// Says how many bytes have left the sender by each fanout.
fn left_bytes(fanout: &FanoutProgress) -> String {
    let ways = [Way::Unicast, Way::Mead, Way::Xcast, Way::Multicast];
    let carried = ways.into_iter().filter_map(|way| Some((way, fanout.get(&way.to_string())?)));
    let used = carried.filter(|(_, carried)| carried.receivers > 0 || carried.left_bytes > 0);
    let told = used.map(|(way, carried)| {
        let receivers = counted(carried.receivers as usize, "receiver");
        format!("{} by {} (at the end {receivers})", bytes(carried.left_bytes), way.title())
    });
    format!("; what left: {}", told.collect::<Vec<_>>().join(", "))
}

/// Lists the receivers that lack something, with the reasons.
fn failures(summary: &SendSummary) -> String {
    let mut rows: Vec<[String; 4]> = Vec::new();
    for receiver in &summary.progress.receivers {
        let lacking = receiver.failures.iter().cloned().chain(missed(receiver, summary.objects));
        let row = |(object, reason): (String, String)| {
            [&receiver.name, &receiver.address, &object, &reason].map(|cell| output::in_one_line(cell))
        };
        rows.extend(lacking.map(row));
    }
    let rows: Vec<[&str; 4]> = rows.iter().map(|row| row.each_ref().map(String::as_str)).collect();
    table(&["receiver", "address", "file", "why not"], &rows)
}

/// A row for the objects that a receiver was never told of. Their names are not known any more.
fn missed(receiver: &ReceiverProgress, objects: u64) -> Option<(String, String)> {
    let missed = Some(receiver.objects_missed).filter(|missed| *missed > 0)?;
    let what = format!("{missed} of {}", counted(objects as usize, "file"));
    Some((what, "over when it came: a feed goes on, and does not go back".to_owned()))
}

fn table<const N: usize>(header: &[&str; N], rows: &[[&str; N]]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column]).chain([header[column]]);
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..N).map(width).collect();
    std::iter::once(header)
        .chain(rows)
        .map(|row| {
            let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
            format!("{}\n", cells.collect::<Vec<_>>().join("  ").trim_end())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use treecast::watch::{Hindrance, Holder};

    use super::*;

    #[test]
    fn who_is_waited_for_is_told_in_80_columns() {
        let mut progress = filled!(SendProgress { total_bytes: 1000, sent_bytes: 900 });
        progress.receivers = (0..4)
            .map(|number| {
                filled!(ReceiverProgress {
                    name: format!("client{number}"),
                    received_bytes: 500 - number * 10,
                    retransmitted_bytes: 25,
                    is_connected: true
                })
            })
            .collect();
        let slowest = "0 of 4 receivers done, 10 % sent again; slowest: client3 47 %, client2 48 %";
        assert_eq!(remark(&progress), slowest);
        progress.held_by = Some(Holder::new("client3".into(), Hindrance::Silent(12.0)));
        assert_eq!(
            remark(&progress),
            "0 of 4 receivers done, 10 % sent again; waits for client3: silent for 12 s"
        );
        (progress.receivers[0].standing, progress.receivers[1].standing) = (Standing::Done, Standing::Gone);
        let one_is_gone =
            "1 of 4 receivers done, 1 gone, 10 % sent again; waits for client3: silent for 12 s";
        assert_eq!(remark(&progress), one_is_gone);
        let nobody = SendProgress::default();
        assert_eq!(remark(&nobody), "0 of 0 receivers done, 0.0 % sent again");
    }

    #[test]
    fn a_feed_has_no_percentage() {
        let receivers = [true, true, false];
        let receivers = receivers.map(|is_connected| filled!(ReceiverProgress { is_connected }));
        let progress = filled!(SendProgress {
            objects: 12,
            objects_done: 10,
            sent_bytes: 3_000_000,
            receivers: receivers.to_vec()
        });
        let (figures, remark) = of_feed(&progress, 7, "file");
        assert_eq!(figures, "10 files done, 2 under way, 7 waiting; 2.9 MiB sent, rate unknown");
        assert_eq!(remark, "2 receivers, 0.0 % sent again");
    }

    /// What a person reads at a session's end: one word for one thing, one unit, and one as one.
    #[test]
    fn the_last_line_counts_one_as_one() {
        let receiver = |failed| filled!(ReceiverProgress { failed, retransmitted_bytes: 3 << 19 });
        let cases = [
            (
                1,
                5,
                vec![receiver(0)],
                "1 file, 5 B: all of it is at 1 of 1 receiver after 0.00 s (0 bit/s at each on average); \
              1.5 MiB sent again, 0 packets dropped",
            ),
            (
                9,
                7 << 20,
                vec![receiver(0), receiver(1)],
                "9 files, 7.0 MiB: all of it is at 1 of 2 receivers after 0.00 s (0 bit/s at \
              each that has not failed on average); 3.0 MiB sent again, 0 packets dropped",
            ),
            (
                2,
                0,
                vec![receiver(1)],
                "2 files, 0 B: all of it is at 0 of 1 receiver after 0.00 s; 1.5 MiB sent again, 0 packets dropped",
            ),
        ];
        for (objects, total_bytes, receivers, expected) in cases {
            let progress = filled!(SendProgress { total_bytes, receivers });
            assert_eq!(in_one_line(&filled!(SendSummary { objects, progress }), "file"), expected);
        }
    }

    #[test]
    fn all_of_it_is_not_said_where_files_did_not_go_out() {
        let receivers = vec![ReceiverProgress::default(); 2];
        let mut summary = filled!(SendSummary { objects: 3, not_sent: 1 });
        summary.progress.receivers = receivers;
        let line = in_one_line(&summary, "file");
        assert!(line.starts_with("3 files, 0 B: all that went out is at 2 of 2 receivers after "), "{line}");
        assert_eq!(given_up(&summary).as_deref(), Some("1 file not sent, for the reasons above"));
        (summary.not_sent, summary.interrupted) = (0, true);
        assert!(!is_partial(&summary));
        summary.progress.waiting = Some(7);
        assert!(is_partial(&summary));
    }

    #[test]
    fn who_wanted_a_part_and_has_it_is_not_told_as_a_failure() {
        let receiver = |objects_not_wanted, failed| filled!(ReceiverProgress { objects_not_wanted, failed });
        let (all, part) = (receiver(0, 0), receiver(3, 0));
        for (receivers, expected) in [
            (
                vec![all.clone(), all.clone(), all.clone(), part.clone()],
                "3 of 4 receivers have everything, 1 has what it wanted (--only),",
            ),
            (
                vec![all.clone(), part.clone(), part.clone()],
                "1 of 3 receivers has everything, 2 have what they wanted (--only),",
            ),
            (vec![part.clone()], "1 of 1 receiver has what it wanted (--only),"),
            (vec![part, receiver(3, 1)], "1 of 2 receivers has what it wanted (--only),"),
            (vec![all, receiver(3, 1)], "all of it is at 1 of 2 receivers"),
        ] {
            assert_eq!(who_has_it(&receivers, "all of it"), expected);
        }
    }

    #[test]
    fn the_average_is_of_those_that_have_not_failed() {
        let mut summary = SendSummary::default();
        summary.progress.seconds = 2.0;
        let got = |run_bytes, failed| filled!(ReceiverProgress { run_bytes, failed });
        summary.progress.receivers = vec![got(10_000_000, 0), got(20_000_000, 0)];
        assert!(in_one_line(&summary, "file").contains(" s (60.0 Mbit/s at each on average); "));
        summary.progress.receivers.push(got(0, 1));
        assert!(
            in_one_line(&summary, "file")
                .contains(" s (60.0 Mbit/s at each that has not failed on average); ")
        );
        summary.progress.receivers.drain(..2);
        assert!(in_one_line(&summary, "file").contains(" s; 0 B sent again"));
    }

    #[test]
    fn the_table_says_who_and_why() {
        let failures_of_one = vec![("file".to_owned(), "the folder is full".to_owned())];
        let failed = filled!(ReceiverProgress {
            name: "client7".into(),
            address: "[::1]:9".into(),
            failures: failures_of_one,
            failed: 1
        });
        let mut summary = SendSummary::default();
        summary.progress.receivers = vec![ReceiverProgress::default(), failed];
        let text = failures(&summary);
        assert_eq!(text, "receiver  address  file  why not\nclient7   [::1]:9  file  the folder is full\n");
    }

    #[test]
    fn who_came_late_to_a_feed_does_not_have_all() {
        let late = filled!(ReceiverProgress { name: "late".into(), objects_missed: 17 });
        let mut summary = filled!(SendSummary { objects: 20 });
        summary.progress.receivers = vec![ReceiverProgress::default(), late];
        let line = in_one_line(&summary, "file");
        assert!(line.contains("all of it is at 1 of 2 receivers"), "{line}");
        let text = failures(&summary);
        assert!(text.contains("late") && text.contains("17 of 20 files  over when it came"), "{text}");
    }
}
