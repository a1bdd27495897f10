//! `treecast send --repair carousel`, and `--dialect iotup`, which is a carousel, too.

use std::{process::ExitCode, time::Duration};

use indicatif::ProgressBar;
use serde_json::json;
use treecast_driver::{
    carousel::FrameHash,
    send::{CarouselOptions, Dialect, SendEvent, SendOptions, SendProgress, SendSummary},
};

use super::{Args, HashArg, announcement, hold};
use crate::{Outcome, advice::with_option, arguments::counted, figures::bytes, output};

const DEFAULT_IDLE_SECONDS: u64 = 10;

pub(super) fn run(args: &Args, options: &SendOptions) -> Outcome {
    let mut display = Display::new(args.json);
    let summary = hold(args, options, &mut |event| display.show(options, event))?;
    display.finish(&summary)
}

/// The options that only a carousel has.
pub(super) fn options(args: &Args) -> CarouselOptions {
    CarouselOptions {
        idle: Duration::from_secs(args.idle.unwrap_or(DEFAULT_IDLE_SECONDS)),
        loops: args.loops,
        wait_timeout: args.wait_timeout.map(Duration::from_secs),
        dialect: match (args.dialect, args.hash) {
            (super::Dialect::Session, _) => Dialect::Session,
            (super::Dialect::Iotup, Some(HashArg::Blake3)) => Dialect::Iotup(FrameHash::Blake3),
            (super::Dialect::Iotup, Some(HashArg::Blake2b) | None) => Dialect::Iotup(FrameHash::Blake2b),
        },
    }
}

struct Display {
    json: bool,
    bar: ProgressBar,
    /// Whether the sender could not send an object to its end. No receiver can have all of that object.
    has_withdrawn: bool,
}

impl Display {
    fn new(json: bool) -> Self {
        let bar = output::waiting_bar(json, "waiting for a listener");
        Self { json, bar, has_withdrawn: false }
    }

    fn ready(&self, announcement: &str, is_iotup: bool) {
        match (self.json, is_iotup) {
            (true, false) => say!("{}", json!({"event": "ticket", "ticket": announcement})),
            (true, true) => say!("{}", json!({"event": "ready", "group": announcement})),
            (false, _) => say!("{announcement}"),
        }
    }

    fn show(&mut self, options: &SendOptions, event: &SendEvent) {
        self.has_withdrawn |= matches!(event, SendEvent::Withdrawn { .. });
        if let SendEvent::Ready { ticket } = event {
            return self.ready(&announcement(options, ticket), options.repair.is_iotup());
        }
        match event {
            SendEvent::Idle => {}
            _ if self.json => say!("{}", json!(event)),
            SendEvent::Started { is_presumed: false, .. } => self.line("somebody listens: sending"),
            SendEvent::Paused => self.line("nobody listens any more: waiting"),
            SendEvent::Warning(line) | SendEvent::Withdrawn { reason: line, .. } => {
                self.line(&with_option(line));
            }
            SendEvent::Progress(progress) => self.move_bar(progress),
            _ => {}
        }
    }

    fn move_bar(&self, progress: &SendProgress) {
        if progress.sent_bytes == 0 {
            return;
        }
        let loops = progress.loops.unwrap_or_default();
        self.bar.set_message(format!("{} complete", counted(loops as usize, "loop")));
        if self.bar.length() == Some(0) {
            output::set_template(&self.bar, "{bar:30} {percent:>3} % of a loop, {msg}");
        }
        self.bar.set_length(progress.total_bytes);
        self.bar.set_position(progress.sent_bytes % progress.total_bytes.max(1));
    }

    fn finish(&self, summary: &SendSummary) -> Outcome {
        self.bar.finish_and_clear();
        match self.json {
            true => say!("{}", json!(SendEvent::Done(summary.into()))),
            false => say!("{}", in_one_line(&summary.progress)),
        }
        Ok(if self.has_withdrawn { ExitCode::from(3) } else { ExitCode::SUCCESS })
    }

    fn line(&self, line: &str) {
        output::above(&self.bar, line);
    }
}

fn in_one_line(progress: &SendProgress) -> String {
    format!(
        "{} in {:.2} s: {} of {}",
        bytes(progress.sent_bytes),
        progress.seconds,
        counted(progress.loops.unwrap_or_default() as usize, "whole loop"),
        bytes(progress.total_bytes),
    )
}
