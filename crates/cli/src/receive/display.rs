//! What `treecast receive` shows: a bar, each file as it is complete, and the sums.

use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};
use treecast_driver::receive::{ReceiveEvent, ReceiveProgress, ReceiveSummary};

use crate::arguments::counted;

pub(super) struct Display {
    json: bool,
    block_len: u64,
    bar: ProgressBar,
}

impl Display {
    pub fn new(json: bool, block_len: u16) -> Self {
        // indicatif draws on standard error, and only where that is a terminal.
        let bar = if json { ProgressBar::hidden() } else { ProgressBar::new(0) };
        let style = "{bar:30} {percent:>3} % {bytes} of {total_bytes}, {binary_bytes_per_sec} {msg}";
        if let Ok(style) = ProgressStyle::with_template(style) {
            bar.set_style(style);
        }
        Self { json, block_len: block_len.into(), bar }
    }

    pub fn show(&mut self, event: &ReceiveEvent) {
        if self.json {
            say!("{}", self.as_json(event));
            return;
        }
        match event {
            ReceiveEvent::Warning(line) => self.line(line),
            ReceiveEvent::Joined { sender, interface } => {
                self.line(&format!("joined the session of {sender} on {interface}"));
            }
            ReceiveEvent::Announced { name, bytes } => {
                self.bar.set_length(self.bar.length().unwrap_or(0) + bytes);
                self.bar.set_message(name.clone());
            }
            ReceiveEvent::Ignored { name } => self.line(&format!("{name}: not wanted")),
            ReceiveEvent::Progress(progress) => self.bar.set_position(progress.received_bytes),
            ReceiveEvent::Received { name, bytes } => self.line(&format!("{name}: {bytes} bytes, verified")),
            ReceiveEvent::Failed { name, reason } => self.line(&format!("{name}: failed: {reason}")),
        }
    }

    pub fn finish(&self, summary: &ReceiveSummary) {
        self.bar.finish_and_clear();
        let progress = &summary.progress;
        if self.json {
            let mut done = self.progress_as_json("done", progress);
            done["objects"] = summary.received.len().into();
            done["failed"] = summary.failed.len().into();
            done["complete"] = summary.is_complete().into();
            say!("{done}");
            return;
        }
        say!(
            "{}, {} bytes in {:.2} s; {} bytes retransmitted, {} duplicate blocks, {} packets dropped; {} failed",
            counted(summary.received.len(), "file"),
            progress.received_bytes,
            progress.seconds,
            progress.retransmitted_bytes,
            progress.duplicate_blocks,
            progress.dropped_packets,
            summary.failed.len(),
        );
    }

    fn line(&self, line: &str) {
        // A hidden bar swallows lines; those are for logs, too.
        if self.bar.is_hidden() { remark!("{line}") } else { self.bar.println(line) }
    }

    fn as_json(&self, event: &ReceiveEvent) -> Value {
        match event {
            ReceiveEvent::Warning(line) => json!({"event": "warning", "text": line}),
            ReceiveEvent::Joined { sender, interface } => {
                json!({"event": "joined", "sender": sender, "interface": interface})
            }
            ReceiveEvent::Announced { name, bytes } => {
                json!({"event": "announced", "name": name, "size": bytes})
            }
            ReceiveEvent::Ignored { name } => json!({"event": "ignored", "name": name}),
            ReceiveEvent::Progress(progress) => self.progress_as_json("progress", progress),
            ReceiveEvent::Received { name, bytes } => {
                json!({"event": "object", "name": name, "bytes": bytes})
            }
            ReceiveEvent::Failed { name, reason } => {
                json!({"event": "failed", "name": name, "reason": reason})
            }
        }
    }

    fn progress_as_json(&self, event: &str, progress: &ReceiveProgress) -> Value {
        json!({
            "event": event,
            "seconds": progress.seconds,
            "bytes": progress.received_bytes,
            "announced_bytes": progress.announced_bytes,
            "retransmitted_bytes": progress.retransmitted_bytes,
            "duplicate_bytes": progress.duplicate_blocks * self.block_len,
            "dropped_packets": progress.dropped_packets,
            "ignored_packets": progress.ignored_packets,
        })
    }
}
