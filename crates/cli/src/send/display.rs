//! What `treecast send` shows: the ticket, a bar, and at the end who has what.

use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use treecast_driver::send::{ReceiverProgress, SendEvent, SendProgress, SendSummary};

use crate::{arguments::counted, output};

/// How many of the slowest receivers are named beside the bar.
const NAMED: usize = 3;

pub(super) struct Display {
    json: bool,
    bar: ProgressBar,
}

impl Display {
    pub fn new(json: bool) -> Self {
        // indicatif draws on standard error, and only where that is a terminal.
        let bar = if json { ProgressBar::hidden() } else { ProgressBar::new(0) };
        let style =
            "{bar:30} {percent:>3} % {bytes} of {total_bytes}, {binary_bytes_per_sec}, {eta} left {msg}";
        if let Ok(style) = ProgressStyle::with_template(style) {
            bar.set_style(style);
        }
        Self { json, bar }
    }

    pub fn show(&mut self, event: &SendEvent) {
        if self.json {
            say!("{}", as_json(event));
            return;
        }
        match event {
            SendEvent::Ready { ticket } => say!("{ticket}"),
            SendEvent::Joined { receiver, address, joined, wanted } => {
                self.line(&format!("{receiver} joined from {address} ({joined} of {wanted})"));
            }
            SendEvent::Left { receiver, reason } => self.line(&format!("{receiver} left: {reason}")),
            SendEvent::Refused { address, reason } => {
                self.line(&format!("a connection from {address} was refused: {reason}"));
            }
            SendEvent::Started { bytes, .. } => self.bar.set_length(*bytes),
            SendEvent::Progress(progress) => self.move_bar(progress),
            SendEvent::ObjectDone { .. } => {}
            SendEvent::Withdrawn { reason, .. } => self.line(reason),
        }
    }

    pub fn finish(&self, summary: &SendSummary) {
        self.bar.finish_and_clear();
        if self.json {
            say!("{}", done_as_json(summary));
            return;
        }
        say!("{}", in_one_line(summary));
        if summary.progress.receivers.iter().any(|receiver| !receiver.failures.is_empty()) {
            output::to_stdout(format_args!("{}", failures(summary)));
        }
        if summary.others_failed > 0 {
            say!("{} more receivers left before they had everything", summary.others_failed);
        }
    }

    fn line(&self, line: &str) {
        // A hidden bar swallows lines; those are for logs, too.
        if self.bar.is_hidden() { remark!("{line}") } else { self.bar.println(line) }
    }

    /// The bar stands where the receivers are on average.
    fn move_bar(&self, progress: &SendProgress) {
        let receivers = &progress.receivers;
        let received: u64 = receivers.iter().map(|receiver| receiver.received_bytes).sum();
        self.bar.set_position(received / receivers.len().max(1) as u64);
        let mut slowest: Vec<&ReceiverProgress> = receivers.iter().collect();
        slowest.sort_by_key(|receiver| receiver.received_bytes);
        let percent =
            |receiver: &ReceiverProgress| 100 * receiver.received_bytes / progress.total_bytes.max(1);
        let named =
            slowest.iter().take(NAMED).map(|receiver| format!("{} {} %", receiver.name, percent(receiver)));
        self.bar.set_message(format!("slowest: {}", named.collect::<Vec<_>>().join(", ")));
    }
}

fn in_one_line(summary: &SendSummary) -> String {
    let progress = &summary.progress;
    let sum = |count: fn(&ReceiverProgress) -> u64| progress.receivers.iter().map(count).sum::<u64>();
    let have_all = progress.receivers.iter().filter(|receiver| receiver.failures.is_empty()).count();
    let received = sum(|receiver| receiver.received_bytes) / progress.receivers.len().max(1) as u64;
    format!(
        "{have_all} of {} {} all of {} bytes in {}, after {:.2} s ({:.0} Mbit/s at each on average); {} bytes \
         retransmitted, {} packets dropped",
        counted(progress.receivers.len(), "receiver"),
        if have_all == 1 { "has" } else { "have" },
        progress.total_bytes,
        counted(summary.objects as usize, "object"),
        progress.seconds,
        received as f64 * 8.0 / 1e6 / progress.seconds.max(1e-9),
        sum(|receiver| receiver.retransmitted_bytes),
        sum(|receiver| receiver.dropped_packets),
    )
}

/// Who does not have what, and why.
fn failures(summary: &SendSummary) -> String {
    let rows: Vec<[&str; 4]> = summary
        .progress
        .receivers
        .iter()
        .flat_map(|receiver| {
            let row = |(object, reason)| [&*receiver.name, &*receiver.address, object, reason];
            receiver.failures.iter().map(|(object, reason)| (&**object, &**reason)).map(row)
        })
        .collect();
    table(&["receiver", "address", "object", "why not"], &rows)
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

fn as_json(event: &SendEvent) -> serde_json::Value {
    match event {
        SendEvent::Ready { ticket } => json!({"event": "ticket", "ticket": ticket.to_string()}),
        SendEvent::Joined { receiver, address, joined, wanted } => {
            json!({"event": "joined", "receiver": receiver, "address": address, "joined": joined, "wanted": wanted})
        }
        SendEvent::Left { receiver, reason } => {
            json!({"event": "left", "receiver": receiver, "reason": reason})
        }
        SendEvent::Refused { address, reason } => {
            json!({"event": "refused", "address": address, "reason": reason})
        }
        SendEvent::Started { objects, bytes } => {
            json!({"event": "started", "objects": objects, "bytes": bytes})
        }
        SendEvent::Progress(progress) => progress_as_json("progress", progress),
        SendEvent::ObjectDone { name, bytes, complete, failed } => {
            json!({"event": "object", "name": name, "bytes": bytes, "complete": complete, "failed": failed})
        }
        SendEvent::Withdrawn { name, reason } => {
            json!({"event": "withdrawn", "name": name, "reason": reason})
        }
    }
}

fn done_as_json(summary: &SendSummary) -> serde_json::Value {
    let mut done = progress_as_json("done", &summary.progress);
    done["objects"] = summary.objects.into();
    done["complete"] = summary.is_complete().into();
    done["interrupted"] = summary.interrupted.into();
    done
}

fn progress_as_json(event: &str, progress: &SendProgress) -> serde_json::Value {
    let receivers: Vec<_> = progress
        .receivers
        .iter()
        .map(|receiver| {
            let failures = receiver.failures.iter();
            json!({
                "receiver": receiver.name,
                "address": receiver.address,
                "bytes": receiver.received_bytes,
                "retransmitted_bytes": receiver.retransmitted_bytes,
                "duplicate_blocks": receiver.duplicate_blocks,
                "dropped_packets": receiver.dropped_packets,
                "objects": receiver.objects_complete,
                "failures": failures.map(|(name, reason)| json!({"name": name, "reason": reason})).collect::<Vec<_>>(),
            })
        })
        .collect();
    json!({
        "event": event,
        "seconds": progress.seconds,
        "sent_bytes": progress.sent_bytes,
        "bytes": progress.total_bytes,
        "receivers": receivers,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_receiver_is_told_of_as_one() {
        let mut summary = SendSummary { objects: 1, ..SendSummary::default() };
        summary.progress.receivers = vec![ReceiverProgress::default()];
        assert!(in_one_line(&summary).starts_with("1 of 1 receiver has all of 0 bytes in 1 object, "));
        summary.progress.receivers.push(ReceiverProgress::default());
        assert!(in_one_line(&summary).starts_with("2 of 2 receivers have all of 0 bytes in 1 object, "));
    }

    #[test]
    fn the_table_says_who_and_why() {
        let failures_of_one = vec![("file".to_owned(), "the folder is full".to_owned())];
        let failed = ReceiverProgress {
            name: "client7".into(),
            address: "[::1]:9".into(),
            failures: failures_of_one,
            ..ReceiverProgress::default()
        };
        let mut summary = SendSummary::default();
        summary.progress.receivers = vec![ReceiverProgress::default(), failed];
        let text = failures(&summary);
        assert_eq!(
            text,
            "receiver  address  object  why not\nclient7   [::1]:9  file    the folder is full\n"
        );
    }
}
