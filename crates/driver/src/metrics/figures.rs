//! Formats a snapshot as metrics, in the text format of OpenMetrics. Names and units follow Prometheus: base
//! units, and `_total` for values that only grow.

use std::collections::BTreeMap;

use super::page::{END, family, label};
use crate::{
    receive::LocalProgress,
    send::{LocalSending, ReceiverProgress, SendProgress},
    status::{Phase, Progress, Sending, Snapshot, StandingCounts, StandingStatus},
};

/// The most receivers that have series of their own: those that came first, so that there are never more. The others
/// are summed up.
const MAX_NAMED: usize = 100;

/// The help of the number of those who report.
const CLIENTS: &str = "Members and groups that report here";

/// The name of the series of all others.
const OTHERS: &str = "(others)";

/// Writes snapshots of one session.
#[derive(Debug, Default)]
pub(super) struct Figures {
    /// Receivers with series of their own, as they were last seen.
    named: BTreeMap<String, ReceiverProgress>,
}

/// Name, unit, help and value of a metric. The unit is empty for plain numbers.
type Row = (&'static str, &'static str, &'static str, f64);

impl Figures {
    pub fn render(&mut self, snapshot: &Snapshot) -> String {
        let mut page = String::new();
        if let Progress::Standing(standing) = &snapshot.progress {
            standing_rows(standing).into_iter().for_each(|row| single(&mut page, "gauge", row));
            standing_counters(&standing.counts).into_iter().for_each(|row| single(&mut page, "counter", row));
            return page + END;
        }
        let role = match snapshot.progress {
            Progress::Send(_) => "send",
            Progress::Receive(_) => "receive",
            Progress::Standing(_) => "standing",
        };
        let labels = [
            ("session", &*snapshot.session),
            ("role", role),
            ("group", &snapshot.group),
            ("repair", &snapshot.repair),
        ];
        let labels = labels.map(|(name, value)| label(name, value)).join(",");
        family(&mut page, "gauge", ("session", "", "What the session is"), [(labels, 1.0)]);
        gauges(snapshot).for_each(|row| single(&mut page, "gauge", row));
        counters(&snapshot.progress).into_iter().for_each(|row| single(&mut page, "counter", row));
        if let Progress::Send(sending) = &snapshot.progress {
            receivers(sending).into_iter().for_each(|row| single(&mut page, "gauge", row));
            moves(&sending.progress).into_iter().for_each(|row| single(&mut page, "counter", row));
            if let Some(local) = &sending.progress.local {
                single(&mut page, "gauge", ("local_clients", "", CLIENTS, local.clients as f64));
                repaired(local).into_iter().for_each(|row| single(&mut page, "counter", row));
            }
            for receiver in &sending.progress.receivers {
                if self.named.len() < MAX_NAMED || self.named.contains_key(&receiver.name) {
                    self.named.insert(receiver.name.clone(), receiver.clone());
                }
            }
            // A family without a series is none, to a parser.
            if !self.named.is_empty() {
                self.by_receiver(&mut page, sending);
            }
        }
        if let Progress::Receive(receiving) = &snapshot.progress
            && let Some(local) = &receiving.progress.local
        {
            single(&mut page, "gauge", ("local_clients", "", CLIENTS, local.clients as f64));
            single(
                &mut page,
                "gauge",
                ("local_loss_ratio", "", "The share of packets lost here", local.loss),
            );
            mended(local).into_iter().for_each(|row| single(&mut page, "counter", row));
        }
        page + END
    }

    fn by_receiver(&self, page: &mut String, sending: &Sending) {
        let all = sending.receivers_not_shown + sending.progress.receivers.len() as u64;
        let has_others = all > self.named.len() as u64;
        // Each named receiver's value, and what is left of the sum for the others, if there are any.
        let series = |sum: u64, value: fn(&ReceiverProgress) -> u64| {
            let named: u64 = self.named.values().map(value).fold(0, u64::saturating_add);
            let others = has_others.then(|| (OTHERS, sum.saturating_sub(named)));
            let each = self.named.iter().map(move |(name, receiver)| (name.as_str(), value(receiver)));
            each.chain(others).map(|(name, value)| (label("receiver", name), value as f64))
        };
        let received =
            series(sending.sums.done_bytes.saturating_mul(all), |receiver| receiver.received_bytes);
        let help = "Distinct bytes of files that a receiver has";
        family(page, "gauge", ("receiver_received", "bytes", help), received);
        let again = series(sending.sums.retransmitted_bytes, |receiver| receiver.retransmitted_bytes);
        let help = "Bytes of files sent again to a receiver";
        family(page, "counter", ("receiver_retransmitted", "bytes", help), again);
        let there = self.named.values().filter(|receiver| receiver.is_connected);
        let silent = there.map(|receiver| (label("receiver", &receiver.name), receiver.silent_seconds));
        family(page, "gauge", ("receiver_silent", "seconds", "Since a receiver's last word"), silent);
    }
}

fn gauges(snapshot: &Snapshot) -> impl Iterator<Item = Row> {
    let (seconds, objects, total_bytes, done_bytes, duplicate_share, seconds_left) = match &snapshot.progress
    {
        Progress::Send(sending) => {
            let (told, done_bytes) = (&sending.progress, sending.sums.done_bytes);
            (
                told.seconds,
                told.objects,
                told.total_bytes,
                done_bytes,
                told.duplicate_share,
                told.seconds_left,
            )
        }
        Progress::Receive(receiving) => {
            let told = &receiving.progress;
            let (bytes, share) = (told.received_bytes, told.duplicate_share);
            (told.seconds, told.objects, told.announced_bytes, bytes, share, told.seconds_left)
        }
        // It has a page of its own.
        Progress::Standing(_) => Default::default(),
    };
    let is_running = f64::from(snapshot.phase == Phase::Running);
    let left = "Time left, by the slowest receiver that is waited for; absent while unknown";
    let received = "Distinct bytes of files received, by receivers on average";
    let rows = [
        ("running", "", "Whether it has begun: 0 while it waits", is_running),
        ("elapsed", "seconds", "Since the start", seconds),
        ("objects", "", "Files known so far", objects as f64),
        ("size", "bytes", "Size of all files known so far", total_bytes as f64),
        ("received", "bytes", received, done_bytes as f64),
        ("duplicate_ratio", "", "The share of blocks that came twice", duplicate_share),
    ];
    rows.into_iter().chain(seconds_left.map(|seconds| ("left", "seconds", left, seconds)))
}

fn counters(progress: &Progress) -> [Row; 6] {
    let (done, failed, sent, again, requests, dropped) = match progress {
        Progress::Send(sending) => {
            let (told, sums) = (&sending.progress, &sending.sums);
            let (again, dropped) = (sums.retransmitted_bytes, sums.dropped_packets);
            (told.objects_done, 0, told.sent_bytes, again, sums.requests, dropped)
        }
        Progress::Receive(receiving) => {
            let told = &receiving.progress;
            let (again, dropped) = (told.retransmitted_bytes, told.dropped_packets);
            (told.objects_done, told.objects_failed, 0, again, told.requests, dropped)
        }
        Progress::Standing(_) => Default::default(),
    };
    [
        ("objects_done", "", "Files that are done", done as f64),
        ("objects_failed", "", "Files that failed here", failed as f64),
        ("sent", "bytes", "Bytes of files sent to the group", sent as f64),
        ("retransmitted", "bytes", "Bytes of files sent again over connections", again as f64),
        ("retransmission_requests", "", "Requests for them", requests as f64),
        ("dropped_packets", "", "Packets dropped because a receive buffer was full", dropped as f64),
    ]
}

/// The rows on the work of a standing receiver.
fn standing_rows(standing: &StandingStatus) -> [Row; 6] {
    let waits = f64::from(standing.waits_for.is_some());
    let last = standing.last.as_ref().map_or(0.0, |last| last.at as f64);
    let help = "When the last session ended, since 1970; 0 before the first one";
    [
        ("standing_sessions", "", "Sessions that are being received", standing.receiving.len() as f64),
        ("standing_rules", "", "Rules", standing.rules.len() as f64),
        ("standing_waits", "", "Whether it waits for an interface or a port", waits),
        ("standing_commands_running", "", "Commands that run", standing.commands_running as f64),
        (
            "standing_commands_waiting",
            "",
            "Commands that wait for another one",
            standing.commands_waiting as f64,
        ),
        ("standing_last_session", "seconds", help, last),
    ]
}

/// The counters of a standing receiver.
fn standing_counters(counts: &StandingCounts) -> [Row; 10] {
    [
        ("standing_received", "", "Sessions received to their end", counts.received as f64),
        ("standing_files", "", "Files of these sessions", counts.files as f64),
        ("standing_received", "bytes", "Bytes of these files", counts.bytes as f64),
        (
            "standing_interrupted",
            "",
            "Sessions that broke off and are tried again",
            counts.interrupted as f64,
        ),
        ("standing_given_up", "", "Sessions that are not tried again", counts.given_up as f64),
        ("standing_ignored", "", "Sessions that no rule takes", counts.ignored as f64),
        ("standing_not_meant", "", "Sessions for other receivers", counts.not_meant as f64),
        ("standing_commands_run", "", "Commands that were successful", counts.commands_run as f64),
        ("standing_commands_failed", "", "Commands that have failed", counts.commands_failed as f64),
        ("standing_warnings", "", "Warnings in the history", counts.warnings as f64),
    ]
}

fn receivers(sending: &Sending) -> [Row; 8] {
    let done = "Receivers that have every file that they want";
    let failed = "Receivers that have ended without some file";
    let gone = "Receivers that have broken off before they had every file, and have not come again";
    [
        ("receivers", "", "Receivers that are there", sending.joined.into()),
        ("receivers_wanted", "", "What the start waits for", sending.wanted.into()),
        ("receivers_done", "", done, sending.sums.receivers_done.into()),
        ("receivers_failed", "", failed, sending.sums.receivers_failed.into()),
        ("receivers_gone", "", gone, sending.sums.receivers_gone.into()),
        ("receivers_waiting", "", "Receivers that have nothing yet", sending.sums.receivers_waiting.into()),
        ("receivers_receiving", "", "Receivers that have a part", sending.sums.receivers_receiving.into()),
        (
            "receivers_on_tcp",
            "",
            "Receivers that get everything over TCP",
            sending.sums.receivers_on_tcp.into(),
        ),
    ]
}

fn moves(progress: &SendProgress) -> [Row; 2] {
    let moves = "Moves of receivers from one group to another, where there are several";
    let refused = "Moves that were refused or not even answered";
    [
        ("moves", "", moves, progress.moves as f64),
        ("refused_moves", "", refused, progress.refused_moves as f64),
    ]
}

/// The rows on what a sender has sent again in a session with local groups.
fn repaired(local: &LocalSending) -> [Row; 3] {
    let late = "Files that receivers gave up because they were late, summed over receivers";
    [
        (
            "local_session_repair",
            "bytes",
            "Bytes sent again to all receivers",
            local.session_repair_bytes as f64,
        ),
        ("local_group_repair", "bytes", "Bytes sent again to local groups", local.group_repair_bytes as f64),
        ("local_late_objects", "", late, local.late_objects.into()),
    ]
}

/// The rows on what a member of local groups has lost, got from others, and sent for others.
fn mended(local: &LocalProgress) -> [Row; 4] {
    [
        (
            "local_lost_blocks",
            "",
            "Blocks that were missing when they were noticed",
            local.lost_blocks as f64,
        ),
        ("local_repair_blocks", "", "Blocks that others sent again", local.repair_blocks as f64),
        ("local_sent_blocks", "", "Blocks sent again for others", local.sent_blocks as f64),
        ("local_late_objects", "", "Files given up because they were late", local.late_objects as f64),
    ]
}

fn single(page: &mut String, kind: &str, (name, unit, help, value): Row) {
    family(page, kind, (name, unit, help), [(String::new(), value)]);
}

#[cfg(test)]
mod tests {
    use openmetrics_parser::openmetrics;

    use super::*;
    use crate::{receive::ReceiveProgress, status::Receiving};

    fn snapshot(receivers: usize) -> Snapshot {
        let receiver = |number: usize| ReceiverProgress {
            name: format!("client \"{number}\"\\\n"),
            is_connected: true,
            received_bytes: 10,
            retransmitted_bytes: 2,
            ..ReceiverProgress::default()
        };
        let progress = SendProgress {
            objects: 3,
            objects_done: 1,
            sent_bytes: 1 << 40,
            duplicate_share: 0.25,
            receivers: (0..receivers).map(receiver).collect(),
            ..SendProgress::default()
        };
        let mut snapshot = Snapshot { session: "0000feed".into(), ..Snapshot::default() };
        snapshot.note_send(&progress);
        snapshot
    }

    #[test]
    fn a_standing_receiver_has_figures_of_its_own() {
        let counts = StandingCounts { received: 3, bytes: 1 << 40, ..StandingCounts::default() };
        let standing = StandingStatus { counts, ..StandingStatus::default() };
        let snapshot = Snapshot { progress: Progress::Standing(Box::new(standing)), ..Snapshot::default() };
        let text = Figures::default().render(&snapshot);
        openmetrics::parse_openmetrics(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        for line in
            ["treecast_standing_received_total 3", "treecast_standing_received_bytes_total 1099511627776"]
        {
            assert!(text.lines().any(|other| other == line), "{line}\n{text}");
        }
    }

    #[test]
    fn a_parser_reads_what_is_there() {
        let text = Figures::default().render(&snapshot(2));
        let parsed = openmetrics::parse_openmetrics(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        for (name, samples, unit) in [
            ("treecast_sent_bytes", 1, Some("bytes")),
            ("treecast_objects", 1, None),
            ("treecast_receiver_retransmitted_bytes", 2, Some("bytes")),
            ("treecast_duplicate_ratio", 1, None),
            ("treecast_refused_moves", 1, None),
        ] {
            let family = parsed.families.get(name).unwrap_or_else(|| panic!("{name}\n{text}"));
            assert_eq!(family.iter_samples().count(), samples, "{name}");
            assert_eq!(Some(family.unit.as_str()).filter(|unit| !unit.is_empty()), unit, "{name}");
            assert!(!family.help.is_empty(), "{name}");
        }
    }

    #[test]
    fn every_metric_is_documented() {
        let document = include_str!("../../../../docs/operations.md");
        let mut local = snapshot(1);
        let progress = SendProgress { local: Some(LocalSending::default()), ..SendProgress::default() };
        local.note_send(&progress);
        let receiving = Receiving {
            progress: ReceiveProgress { local: Some(LocalProgress::default()), ..ReceiveProgress::default() },
            ..Receiving::default()
        };
        let roles = [Progress::Receive(Box::new(receiving)), Progress::Standing(Box::default())];
        let others = roles.map(|progress| Snapshot { progress, ..Snapshot::default() });
        for snapshot in [snapshot(1), local].iter().chain(&others) {
            let text = Figures::default().render(snapshot);
            let names =
                text.lines().filter_map(|line| line.strip_prefix("# TYPE treecast_")?.split(' ').next());
            let untold: Vec<_> = names.filter(|name| !document.contains(&format!("`{name}`"))).collect();
            assert!(untold.is_empty(), "{untold:?} are not in docs/operations.md");
        }
    }

    #[test]
    fn local_groups_have_metrics_of_their_own() {
        let mut snapshot = snapshot(0);
        let local = LocalSending { receivers: 9, group_repair_bytes: 77, ..LocalSending::default() };
        snapshot.note_send(&SendProgress { local: Some(local), ..SendProgress::default() });
        let text = Figures::default().render(&snapshot);
        openmetrics::parse_openmetrics(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        for line in ["treecast_local_group_repair_bytes_total 77", "treecast_retransmitted_bytes_total 77"] {
            assert!(text.contains(line), "{line}: {text}");
        }
        assert!(text.contains("treecast_receivers 9\n"), "{text}");
    }

    #[test]
    fn however_many_receivers_there_are_few_have_series_of_their_own() {
        let mut figures = Figures::default();
        figures.render(&snapshot(3));
        let text = figures.render(&snapshot(1000));
        let parsed = openmetrics::parse_openmetrics(&text).unwrap();
        let family = &parsed.families["treecast_receiver_retransmitted_bytes"];
        assert_eq!(family.iter_samples().count(), MAX_NAMED + 1);
        assert!(text.len() < 64 * 1024, "{} bytes", text.len());
        let line = text.lines().find(|line| line.contains(OTHERS) && line.contains("retransmitted")).unwrap();
        assert!(line.ends_with(&format!(" {}", 2 * (1000 - MAX_NAMED))), "{line}");
    }
}
