//! `treecast send --repair carousel`, and `--dialect iotup`, which is one.

use std::{process::ExitCode, time::Duration};

use indicatif::ProgressBar;
use serde_json::{Value, json};
use treecast_driver::{
    carousel::{self, Dialect, FrameHash, ListenerWatch, SendEvent, SendOptions, SendSummary},
    send::Plan,
    status::Role,
    stop::Stop,
};
use treecast_proto::Instant;
use treecast_wire::{iotup, ticket};

use super::{Args, HashArg, TicketFile};
use crate::{Outcome, arguments::counted, figures::bytes, observers::Observers, output};

const DEFAULT_IDLE_SECONDS: u64 = 10;

pub(super) fn run(args: &Args, mut options: treecast_driver::send::SendOptions) -> Outcome {
    options.repair = ticket::Repair::Carousel;
    if args.dialect == super::Dialect::Iotup {
        options.port.get_or_insert(iotup::PORT);
    }
    let stop = Stop::on_signals()?;
    let plan = Plan::new(&options, &stop)?;
    plan.keep_session(&[])?;
    let dialect = dialect(args, &plan)?;
    let listeners = listeners(&plan);
    let mut display = Display::new(args.json, listeners.is_some());
    let announcement = match &dialect {
        Dialect::Session => plan.ticket(Vec::new()).to_string(),
        Dialect::Iotup { .. } => plan.group.group.to_string(),
    };
    let mut observers = Observers::start(Role::Send, args.metrics)?;
    match &dialect {
        Dialect::Session => observers.note_ticket(&plan.ticket(Vec::new())),
        Dialect::Iotup { .. } => observers.note_iotup(plan.group.group),
    }
    TicketFile { path: args.ticket_file.clone(), is_secret: !args.plain }.write(&announcement)?;
    display.ready(&announcement, &dialect);
    plan.warnings.iter().for_each(|warning| display.warn(warning));
    let options = SendOptions {
        group: plan.group,
        hops: plan.options.hops,
        session: plan.session,
        block_len: plan.block_len,
        fec: plan.options.fec.is_some(),
        secret: plan.secret,
        identity: plan.identity,
        dialect,
        frame_hash: match args.hash {
            Some(HashArg::Blake3) => FrameHash::Blake3,
            Some(HashArg::Blake2b) | None => FrameHash::Blake2b,
        },
        has_twins: plan.goes_on,
        rate_bps: plan.options.rate.fixed_bps(),
        idle: Duration::from_secs(args.idle.unwrap_or(DEFAULT_IDLE_SECONDS)),
        wait_timeout: args.wait_timeout.map(Duration::from_secs),
        offload: plan.options.offload,
    };
    observers.note_objects(plan.sources.len() as u64, options.rate_bps);
    let tell = |event| {
        observers.note_carousel(&event);
        display.show(&event);
    };
    let summary = carousel::send(options, plan.sources, listeners, &stop, tell)?;
    display.finish(&summary)
}

fn dialect(args: &Args, plan: &Plan) -> Result<Dialect, String> {
    match (args.dialect, plan.sources.as_slice()) {
        (super::Dialect::Session, _) => Ok(Dialect::Session),
        (super::Dialect::Iotup, [source]) => Ok(Dialect::Iotup { name: source.name.clone() }),
        (super::Dialect::Iotup, sources) => {
            Err(format!("the IoT updater's frames carry one file, and there are {}: name one", sources.len()))
        }
    }
}

/// Where nobody can be heard, somebody is taken to listen.
fn listeners(plan: &Plan) -> Option<ListenerWatch> {
    match ListenerWatch::open(&plan.group, Instant::ZERO) {
        Ok(listeners) => Some(listeners),
        Err(error) => {
            remark!("treecast: {error}: sending until Ctrl-C, whether anybody listens or not");
            None
        }
    }
}

struct Display {
    json: bool,
    /// Whether it is known who listens; else nothing is said of it.
    hears: bool,
    bar: ProgressBar,
    /// Whether an object could not be sent to its end, of which no receiver can have all.
    has_withdrawn: bool,
}

impl Display {
    fn new(json: bool, hears: bool) -> Self {
        let bar = output::waiting_bar(json, "waiting for a listener");
        Self { json, hears, bar, has_withdrawn: false }
    }

    fn ready(&self, announcement: &str, dialect: &Dialect) {
        match (self.json, dialect) {
            (true, Dialect::Session) => say!("{}", json!({"event": "ticket", "ticket": announcement})),
            (true, Dialect::Iotup { .. }) => say!("{}", json!({"event": "ready", "group": announcement})),
            (false, _) => say!("{announcement}"),
        }
    }

    fn warn(&self, line: &str) {
        match self.json {
            true => say!("{}", json!({"event": "warning", "text": line})),
            false => self.line(line),
        }
    }

    fn show(&mut self, event: &SendEvent) {
        self.has_withdrawn |= matches!(event, SendEvent::Withdrawn { .. });
        if self.json {
            say!("{}", as_json(event));
            return;
        }
        match event {
            SendEvent::Started | SendEvent::Paused => {
                if let Some(line) = listening(event, self.hears) {
                    self.line(line);
                }
            }
            SendEvent::Looped { .. } => {}
            SendEvent::Warning(line) => self.line(line),
            SendEvent::Withdrawn { reason, .. } => self.line(reason),
            SendEvent::Progress(summary) if summary.sent_bytes == 0 => {}
            SendEvent::Progress(summary) => {
                self.bar.set_message(format!("{} complete", counted(summary.loops as usize, "loop")));
                if self.bar.length() == Some(0) {
                    output::set_template(&self.bar, "{bar:30} {percent:>3} % of a loop, {msg}");
                }
                self.bar.set_length(summary.loop_bytes);
                self.bar.set_position(summary.sent_bytes % summary.loop_bytes.max(1));
            }
        }
    }

    fn finish(&self, summary: &SendSummary) -> Outcome {
        self.bar.finish_and_clear();
        match self.json {
            true => say!("{}", summary_as_json("done", summary)),
            false => say!("{}", in_one_line(summary)),
        }
        Ok(if self.has_withdrawn { ExitCode::from(3) } else { ExitCode::SUCCESS })
    }

    fn line(&self, line: &str) {
        output::above(&self.bar, line);
    }
}

/// What is said of listeners; nothing where nobody can be heard, for then somebody is only taken to listen.
fn listening(event: &SendEvent, hears: bool) -> Option<&'static str> {
    match event {
        SendEvent::Started => hears.then_some("somebody listens: sending"),
        SendEvent::Paused => Some("nobody listens any more: waiting"),
        _ => None,
    }
}

fn in_one_line(summary: &SendSummary) -> String {
    format!(
        "{} in {:.2} s: {} of {}",
        bytes(summary.sent_bytes),
        summary.seconds,
        counted(summary.loops as usize, "whole loop"),
        bytes(summary.loop_bytes),
    )
}

fn as_json(event: &SendEvent) -> Value {
    match event {
        SendEvent::Started => json!({"event": "started"}),
        SendEvent::Paused => json!({"event": "paused"}),
        SendEvent::Warning(line) => json!({"event": "warning", "text": line}),
        SendEvent::Looped { loops } => json!({"event": "loop", "loops": loops}),
        SendEvent::Withdrawn { name, reason } => {
            json!({"event": "withdrawn", "name": name, "reason": reason})
        }
        SendEvent::Progress(summary) => summary_as_json("progress", summary),
    }
}

fn summary_as_json(event: &str, summary: &SendSummary) -> Value {
    json!({
        "event": event,
        "seconds": summary.seconds,
        "sent_bytes": summary.sent_bytes,
        "bytes": summary.loop_bytes,
        "loops": summary.loops,
        "interrupted": summary.interrupted,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_cannot_hear_does_not_say_that_somebody_listens() {
        assert_eq!(listening(&SendEvent::Started, true), Some("somebody listens: sending"));
        assert_eq!(listening(&SendEvent::Started, false), None);
    }
}
