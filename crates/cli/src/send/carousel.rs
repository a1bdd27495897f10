//! `treecast send --repair carousel`, and `--dialect iotup`, which is a carousel, too.

use std::{process::ExitCode, time::Duration};

use indicatif::ProgressBar;
use serde_json::json;
use treecast::{
    GroupBuilder,
    limits::CAROUSEL_RATE_BPS,
    unstable::{
        options::{CarouselOptions, Dialect, FrameHash},
        watch::{CarouselEnd, NamedReceiver, Presence, SendEvent, SendProgress, SendSummary},
    },
};

use super::{HashArg, SessionArgs, announcement, hold, is_iotup};
use crate::{
    Outcome,
    advice::advised,
    arguments::counted,
    figures::{bytes, rate},
    output,
};

pub(super) fn run(args: &SessionArgs, builder: GroupBuilder) -> Outcome {
    let sends_all = super::asks_for_fec(args) || args.pace.rates.is_some() || args.session.is_some();
    if args.form.delta && sends_all {
        remark!(
            "treecast: in a carousel with --fec, --rates or --session, --delta saves nothing: receivers with older versions only end earlier"
        );
    }
    let mut display = Display::new(args.show.json, options(args).idle, args.form.delta && !sends_all);
    let summary = hold(args, builder, &mut |event| display.show(args, event))?;
    display.finish(&summary)
}

/// Says which rate a carousel keeps that has not been given one.
fn tell_default_rate(args: &SessionArgs) {
    if args.pace.rate.is_none() && args.pace.rates.is_none() {
        remark!(
            "treecast: no --rate: sending at {}, which ports of 100 Mbit/s bear; no receiver can slow a carousel down, so choose a --rate that all of them take",
            rate(Some(CAROUSEL_RATE_BPS))
        );
    }
}

/// The options that only a carousel has.
pub(super) fn options(args: &SessionArgs) -> CarouselOptions {
    let mut options = CarouselOptions::default();
    options.idle = args.ring.idle.map_or(options.idle, Duration::from_secs);
    options.loops = args.ring.loops;
    options.wait_timeout = args.start.wait_timeout.map(Duration::from_secs);
    options.dialect = match (args.ring.dialect, args.ring.hash) {
        (super::Dialect::Session, _) => Dialect::Session,
        (super::Dialect::Iotup, Some(HashArg::Blake3)) => Dialect::Iotup(FrameHash::Blake3),
        (super::Dialect::Iotup, Some(HashArg::Blake2b) | None) => Dialect::Iotup(FrameHash::Blake2b),
    };
    options
}

struct Display {
    json: bool,
    bar: ProgressBar,
    /// The time without a listener after which the carousel ends.
    idle: Duration,
    /// Whether loops bring what receivers lack, and not everything.
    is_partial: bool,
    /// Whether the sender could not send something, or not to its end. No receiver can have all of that.
    has_withdrawn: bool,
}

impl Display {
    fn new(json: bool, idle: Duration, is_partial: bool) -> Self {
        let bar = output::waiting_bar(json, "waiting for a listener");
        Self { json, bar, idle, is_partial, has_withdrawn: false }
    }

    fn ready(&self, announcement: &str, is_iotup: bool) {
        match (self.json, is_iotup) {
            (true, false) => say!("{}", json!({"event": "ticket", "ticket": announcement})),
            (true, true) => say!("{}", json!({"event": "ready", "group": announcement})),
            (false, true) => say!("{announcement}"),
            (false, false) => {
                say!("{announcement}");
                remark!("on another host: treecast receive {announcement}");
            }
        }
    }

    fn show(&mut self, args: &SessionArgs, event: &SendEvent) {
        self.has_withdrawn |= matches!(event, SendEvent::Withdrawn { .. } | SendEvent::NotSent { .. });
        if let SendEvent::Ready { .. } = event {
            // Options that do not go together are refused before, in one line.
            tell_default_rate(args);
            return self.ready(&announcement(args, event), is_iotup(args));
        }
        match event {
            SendEvent::Idle => {}
            _ if self.json => say!("{}", json!(event)),
            SendEvent::Started { is_presumed: false, .. } => self.line("somebody listens: sending"),
            SendEvent::Paused => self.line("nobody listens any more: waiting"),
            SendEvent::Warning(line) => self.line(&advised(line)),
            SendEvent::Withdrawn { reason, .. } => self.line(reason),
            SendEvent::NotSent { path, reason, .. } => self.line(&format!("{path}: {reason}")),
            SendEvent::Progress(progress) => self.move_bar(progress),
            _ => {}
        }
    }

    fn move_bar(&self, progress: &SendProgress) {
        if progress.sent_bytes == 0 {
            return;
        }
        let loops = progress.loops.unwrap_or_default();
        if self.is_partial {
            return self.bar.set_message(in_one_line(progress, true));
        }
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
            false => {
                say!("{}", in_one_line(&summary.progress, self.is_partial));
                about_named(&summary.named).iter().for_each(|line| say!("{line}"));
                say!("{}", why_ended(summary, self.idle));
            }
        }
        let is_away =
            |receiver: &NamedReceiver| matches!(receiver.presence, Presence::Absent | Presence::Unreachable);
        let has_failed = self.has_withdrawn || summary.named.iter().any(is_away);
        Ok(if has_failed { ExitCode::from(3) } else { ExitCode::SUCCESS })
    }

    fn line(&self, line: &str) {
        output::above(&self.bar, line);
    }
}

/// A line that says why the carousel ended.
fn why_ended(summary: &SendSummary, idle: Duration) -> String {
    match summary.carousel_end {
        Some(CarouselEnd::NobodyListens) => {
            format!("ended: nobody has listened for {} s (--idle)", idle.as_secs())
        }
        Some(CarouselEnd::LoopsDone) => "ended: all loops are done (--loops)".into(),
        Some(CarouselEnd::NothingLeft) => "ended: none of the files can be read any more".into(),
        _ => "ended: it was stopped".into(),
    }
}

/// A line about the receivers that were named. `None` if none were.
fn about_named(named: &[NamedReceiver]) -> Option<String> {
    const MOST: usize = 5;
    let words = [
        (Presence::Ended, "no longer listening", false),
        (Presence::Closed, "not listening at the end", false),
        (Presence::Absent, "never listened", true),
        (Presence::Unreachable, "unreachable", true),
        (Presence::Silent, "gave no sign", false),
    ];
    let part = |(presence, words, are_listed): (Presence, &str, bool)| {
        let those: Vec<String> = named
            .iter()
            .filter(|receiver| receiver.presence == presence)
            .map(|receiver| receiver.address.to_string())
            .collect();
        let others = if those.len() > MOST { ", ..." } else { "" };
        let listed = match are_listed {
            true => format!(" ({}{others})", those[..those.len().min(MOST)].join(", ")),
            false => String::new(),
        };
        (!those.is_empty()).then(|| format!("{} {words}{listed}", those.len()))
    };
    let parts: Vec<String> = words.into_iter().filter_map(part).collect();
    let of = counted(named.len(), "named receiver");
    (!named.is_empty())
        .then(|| format!("{of}: {}. Receivers of a carousel confirm nothing.", parts.join(", ")))
}

fn in_one_line(progress: &SendProgress, is_partial: bool) -> String {
    let (loops, what) = if is_partial { ("loop", "what receivers lacked of ") } else { ("whole loop", "") };
    format!(
        "{} in {:.2} s: {} of {what}{}",
        bytes(progress.sent_bytes),
        progress.seconds,
        counted(progress.loops.unwrap_or_default() as usize, loops),
        bytes(progress.total_bytes),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_says_what_is_known_of_named_receivers() {
        use Presence::{Absent, Ended, Silent, Unreachable};
        let presences = [Ended, Absent, Unreachable, Ended, Silent];
        let named: Vec<_> = (1..)
            .zip(presences)
            .map(|(host, presence)| NamedReceiver { address: [10, 0, 0, host].into(), presence })
            .collect();
        let line = "5 named receivers: 2 no longer listening, 1 never listened (10.0.0.2), 1 unreachable (10.0.0.3), \
                    1 gave no sign. Receivers of a carousel confirm nothing.";
        assert_eq!(about_named(&named).as_deref(), Some(line));
        assert_eq!(about_named(&[]), None);
    }
}
