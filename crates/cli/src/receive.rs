//! `treecast receive`: parses the arguments, and prints progress and a summary.

mod args;
mod choice;
mod display;
mod exec;
mod place;
mod standing;
mod stdout;
mod unfinished;

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use treecast::{
    Receiver, ReceiverBuilder, Ticket,
    limits::IOTUP_PORT,
    unstable::{
        Stop, code,
        discovery::Interfaces,
        reason::Advised,
        watch::{Limit, ObjectKind, ReceiveEvent, ReceiveSummary},
    },
};

pub use self::args::Args;
use self::unfinished::Unfinished;
use crate::{
    Outcome, advice,
    arguments::{With, counted},
    send::Dialect,
};

/// Joins the pieces of a ticket that contains spaces, so that no piece that begins with `-` is taken for an
/// option.
pub fn join_ticket(mut arguments: Vec<OsString>) -> Vec<OsString> {
    for start in 1..arguments.len() {
        let pieces = arguments[start..].iter().map_while(|argument| argument.to_str());
        if let Ok((ticket, count)) = Ticket::from_pieces(pieces) {
            arguments.splice(start..start + count, [ticket.to_string().into()]);
            break;
        }
    }
    arguments
}

pub fn run(args: Args) -> Outcome {
    if let Some(path) = &args.standing {
        return standing::run(path, args.json);
    }
    check(&args)?;
    let stop = stop(&args)?;
    let builder = builder(&args, &stop)?;
    let is_feed = builder.is_feed();
    let unfinished = Unfinished::new(&args, &builder);
    let (mut follow_up, builder) = FollowUp::start(&args, builder, &stop)?;
    let mut display = display::Display::new(args.json, args.place.stdout, is_feed);
    let mut broken = None;
    let mut on_event = |event: &ReceiveEvent| {
        display.show(event);
        if broken.is_none()
            && let Err(line) = follow_up.note(event)
        {
            broken = Some(line);
            stop.request();
        }
    };
    let result = builder.run(&stop, &mut on_event);
    // Programs run for what has come, whatever became of the rest.
    let finished = match broken {
        Some(line) => Err(line),
        None => follow_up.finish(&stop, result.as_ref().is_ok_and(ReceiveSummary::is_complete)),
    };
    let summary = result.map_err(|error| -> Box<dyn std::error::Error> {
        match time_limit(&stop) {
            Some(limit) => format!("{limit}: nothing was received").into(),
            None => error.into(),
        }
    })?;
    display.finish(&summary);
    match finished {
        // The reason why files could not be handed on has ended the session.
        Err(line) => Err(line.into()),
        Ok(_) if was_stopped(&summary, time_limit(&stop)) => Err(unfinished.ended(&stop, &summary).into()),
        Ok(all_succeeded) => {
            let code = exit_code(&summary, time_limit(&stop))?;
            Ok(if all_succeeded { code } else { ExitCode::from(3) })
        }
    }
}

/// Whether a signal has ended the session, and no limit.
fn was_stopped(summary: &ReceiveSummary, time_limit: Option<Limit>) -> bool {
    summary.interrupted && summary.limit.is_none() && time_limit.is_none()
}

/// Sees that what the session needs at its end is there at its beginning.
fn check(args: &Args) -> Result<(), String> {
    args.run.exec.as_ref().map_or(Ok(()), exec::Template::check)?;
    let old = args.place.old.as_ref().and_then(|old| Some((old, old.metadata().err()?)));
    old.map_or(Ok(()), |(old, error)| {
        Err(format!(
            "cannot read {}: {error}: name an older version with --old, or leave it out",
            old.display()
        ))
    })
}

/// What is done with files that have come.
enum FollowUp {
    Nothing,
    Output(stdout::Outlet),
    Run {
        runner: exec::Runner,
        folder: PathBuf,
    },
    /// The one file goes to a place of its own, and a program may run for it then.
    Place {
        place: place::Place,
        runner: Option<exec::Runner>,
    },
}

impl FollowUp {
    /// Prepares for the first file. With --stdout and --to, files go to a temporary folder in place of `into`.
    fn start(
        args: &Args,
        builder: ReceiverBuilder,
        stop: &Stop,
    ) -> Result<(Self, ReceiverBuilder), Box<dyn std::error::Error>> {
        if args.place.stdout {
            let outlet = stdout::Outlet::new(args.place.into.as_deref())?;
            let builder = builder.folder(outlet.folder()).hand_on(outlet.taker(stop));
            return Ok((Self::Output(outlet), builder));
        }
        let runner = args.run.exec.as_ref().map(|template| {
            exec::Runner::start(template.clone(), args.json, Duration::from_secs(args.run.batch.unwrap_or(0)))
        });
        let runner = runner.transpose()?;
        if let Some(to) = &args.place.to {
            let place = place::Place::new(to, args.place.into.as_deref())?;
            let mut builder = builder.folder(place.folder());
            if place.is_device() {
                builder = builder.device(to, args.place.read_back);
            } else if args.place.old.is_none() && to.exists() {
                builder = builder.old(to);
            }
            return Ok((Self::Place { place, runner }, builder));
        }
        let folder = args.place.into.as_deref().unwrap_or(Path::new("."));
        let builder = builder.folder(folder);
        let Some(runner) = runner else { return Ok((Self::Nothing, builder)) };
        Ok((Self::Run { runner, folder: std::path::absolute(folder)? }, builder))
    }

    /// Takes note of a session's event.
    ///
    /// # Errors
    /// Why the session is of no use any more.
    fn note(&mut self, event: &ReceiveEvent) -> Result<(), String> {
        match (self, event) {
            (Self::Output(outlet), event) => outlet.note(event),
            (Self::Run { runner, folder }, ReceiveEvent::Received { name, kind: ObjectKind::File, .. }) => {
                runner.run(folder.join(name));
                Ok(())
            }
            (Self::Place { place, runner }, ReceiveEvent::Received { name, kind: ObjectKind::File, .. }) => {
                place.take(name)?;
                runner.iter_mut().for_each(|runner| runner.run(place.path().to_owned()));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Waits until everything is done. Returns whether all programs succeeded.
    ///
    /// # Errors
    /// Why not all of a session that `is_complete` could be handed on, in words.
    fn finish(self, stop: &Stop, is_complete: bool) -> Result<bool, String> {
        match self {
            // The sender may have gone while the last bytes were written.
            Self::Output(outlet) if is_complete || outlet.has_all() => outlet.finish(stop).map(|()| true),
            Self::Nothing | Self::Output(_) => Ok(true),
            Self::Place { place, .. } if is_complete && !place.is_taken() => {
                Err(format!("nothing has come for {}: the session has no file", place.path().display()))
            }
            Self::Place { runner: None, .. } => Ok(true),
            Self::Run { runner, .. } | Self::Place { runner: Some(runner), .. } => Ok(runner.finish() == 0),
        }
    }
}

/// The reasons that end the session from outside: signals, and --max-time.
fn stop(args: &Args) -> std::io::Result<Stop> {
    let stop = Stop::on_signals()?;
    args.limits.max_time.map_or(Ok(()), |seconds| stop.request_after(Duration::from_secs(seconds)))?;
    Ok(stop)
}

/// The limit of --max-time, if its time is over.
fn time_limit(stop: &Stop) -> Option<Limit> {
    stop.time_up().map(Limit::Time)
}

fn choices(args: &Args) -> choice::Choices {
    choice::Choices {
        only: args.choice.only.clone(),
        not: args.choice.not.clone(),
        max_size: args.choice.max_size,
        renames: args.choice.rename.clone(),
    }
}

/// What the crate is told, but where files go.
fn builder(args: &Args, stop: &Stop) -> Result<ReceiverBuilder, String> {
    let mut builder = match args.iotup.dialect {
        Dialect::Session if args.iotup.group.is_some() => {
            return Err("the ticket names the group: leave out --group, or add --dialect iotup".into());
        }
        Dialect::Session if args.iotup.groups.is_some() => {
            return Err("the ticket says how many groups there are: leave out --groups".into());
        }
        Dialect::Session if code::looks_like_code(&args.ticket()) => {
            Receiver::builder(ticket_of_code(args, stop)?)
        }
        Dialect::Session => Receiver::builder(read_ticket(&args.ticket())?),
        Dialect::Iotup => iotup(args)?,
    };
    if let Some(choose) = choices(args).into_function() {
        builder = builder.accept(choose);
    }
    Ok(builder
        .when(args.local.must_send, ReceiverBuilder::must_send)
        .when(args.choice.keep_existing, ReceiverBuilder::keep_existing)
        .when(args.choice.hidden, ReceiverBuilder::hidden)
        .when(args.identity.secure, ReceiverBuilder::secure)
        .when(args.limits.discard, ReceiverBuilder::discard)
        .when(args.place.read_back, ReceiverBuilder::read_back)
        .with(&args.local.local_groups, ReceiverBuilder::local_groups)
        .with(&args.identity.name, ReceiverBuilder::name)
        .with(&args.interface, ReceiverBuilder::interface)
        .with(&args.port, ReceiverBuilder::port)
        .with(&args.place.old, ReceiverBuilder::old)
        .with(&args.identity.key, ReceiverBuilder::key)
        .with(&args.limits.max_files, ReceiverBuilder::max_files)
        .with(&args.limits.max_bytes, ReceiverBuilder::max_bytes)
        .with(&args.metrics, ReceiverBuilder::metrics)
        .wait_for_space(Duration::from_secs(args.limits.wait_for_space))
        .connect_timeout(Duration::from_secs(args.patience.connect_timeout))
        .reconnect(Duration::from_secs(args.patience.reconnect))
        .stall_limit(Duration::from_secs(args.patience.stall_limit))
        .answer_status())
}

/// A receiver of the IoT updater's one file, whose name is in the ticket's place.
fn iotup(args: &Args) -> Result<ReceiverBuilder, String> {
    let group = args.iotup.group.ok_or("the IoT updater has no ticket: name its group with --group")?;
    if let Some(hint) = group.hint() {
        remark!("treecast: {hint}");
    }
    let first = group.with_default_port(IOTUP_PORT);
    ReceiverBuilder::of_iotup(first, args.iotup.groups.unwrap_or(1), &args.ticket())
        .map_err(|error| advice::line(&error))
}

/// Parses the name of a receiver.
fn parse_name(text: &str) -> Result<String, String> {
    check_name(text).map(|()| text.to_owned())
}

/// Refuses the name of a receiver that no sender can list.
fn check_name(name: &str) -> Result<(), String> {
    match name.contains(',') {
        true => Err("it has a comma, which stands between the names of `send --to-standing`".to_owned()),
        false => Ok(()),
    }
}

pub(crate) fn parse_pattern(text: &str) -> Result<glob::Pattern, String> {
    let expected = || "expected a pattern of whole names, like '*.iso' or 'docs/*'".to_owned();
    match glob::Pattern::new(text) {
        Ok(_) if text.is_empty() => Err(expected()),
        Ok(pattern) => Ok(pattern),
        Err(error) => Err(format!("{} at character {}; {}", error.msg, error.pos + 1, expected())),
    }
}

/// Gets the ticket of the sender that has printed this code.
fn ticket_of_code(args: &Args, stop: &Stop) -> Result<Ticket, String> {
    let code = args.ticket().parse().map_err(|error: code::CodeError| error.to_string())?;
    let interfaces = Interfaces::named(args.interface.as_slice()).map_err(|error| advice::line(&error))?;
    remark!(
        "looking for the sender of this code on {}, for at most {} s (--connect-timeout)",
        interfaces.names().collect::<Vec<_>>().join(", "),
        args.patience.connect_timeout
    );
    let time = Duration::from_secs(args.patience.connect_timeout);
    code::ask(&code, &interfaces, time, stop).map_err(|error| error.to_string())
}

/// Parses a ticket, or reads it from the first lines of the file after `@`.
fn read_ticket(text: &str) -> Result<Ticket, String> {
    let ticket = text.strip_prefix('@').map_or_else(|| text.parse(), Ticket::read);
    ticket.map_err(|error: treecast::Error| match Path::new(text).is_file() {
        true => format!("{text} is a file: `treecast receive @{text}` reads the ticket in it"),
        false => advice::line(&error),
    })
}

/// Describes in one line how a limit has ended the session.
fn at_limit(limit: Limit, summary: &ReceiveSummary) -> String {
    let whole = match summary.received {
        0 => "no file had come whole".to_owned(),
        1 => "1 file had come whole, and is kept".to_owned(),
        files => format!("{} had come whole, and are kept", counted(files as usize, "file")),
    };
    let goes_on = "what came of others is kept: start again with the same ticket and folder to go on";
    let (option, rest) = match limit {
        Limit::Time(_) => ("--max-time", goes_on),
        Limit::Files(_) => ("--max-files", "what was not complete is removed"),
        Limit::Bytes(_) => ("--max-bytes", "what was not complete is removed"),
    };
    format!("the session ended early: {limit} ({option}); {whole}; {rest}")
}

fn exit_code(summary: &ReceiveSummary, time_limit: Option<Limit>) -> Outcome {
    let time_limit = time_limit.filter(|_| !summary.is_complete());
    if let Some(limit) = summary.limit.or(time_limit) {
        return Err(at_limit(limit, summary).into());
    }
    if let Some(reason) = &summary.cut_short {
        let advice = match summary.has_ended {
            true => {
                "what was not complete is removed: ask whoever sends to start anew, and for the new ticket"
            }
            false => {
                "what came is kept: start again with the same ticket and folder to go on, or remove .treecast-*"
            }
        };
        let line = format!("the session ended early ({reason}); {advice}");
        return Err(advice::advised(&Advised { line, remedy: reason.remedy }).into());
    }
    if summary.wanted_nothing() {
        let line = format!(
            "nothing was received: --only, --not and --max-size leave none of the files in the session ({} went by); --only takes \
             patterns of whole names, as '*.iso' or 'folder/*'",
            summary.not_wanted
        );
        return Err(line.into());
    }
    Ok(if summary.failed == 0 { ExitCode::SUCCESS } else { ExitCode::from(3) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_that_ends_a_session_says_what_is_kept() {
        let told = |received| at_limit(Limit::Bytes(10), &filled!(ReceiveSummary { received }));
        let removed = "what was not complete is removed";
        for (received, whole) in [(0, "no file had come whole"), (2, "2 files had come whole, and are kept")]
        {
            let line = told(received);
            assert!(line.ends_with(&format!(" are allowed (--max-bytes); {whole}; {removed}")), "{line}");
        }
    }

    #[test]
    fn a_pattern_that_can_match_nothing_is_refused() {
        assert!(parse_pattern("*.iso").is_ok());
        for wrong in ["", "[", "a**"] {
            let line = parse_pattern(wrong).unwrap_err();
            assert!(line.contains("like '*.iso'"), "{line}");
        }
    }

    /// A ticket whose base64 has a `-` behind a break.
    const TICKET: &str = "treecast2.HzwCqgADBZgG_xUAAAAAAAAAAAAAAAAAQhtZAAEG_QAAAAAAAAAAAAAAAAAAARtYAUsid3fU3R_GHG\
                          -IT0hkHQK00SHT_TKMsItVMfys2r-KAAAAAAAAAAB4mr4b";

    #[test]
    fn a_ticket_in_several_arguments_is_joined_and_nothing_else() {
        let joined = |line: &str| {
            let arguments = line.split('|').map(OsString::from).collect();
            let joined = join_ticket(arguments);
            joined.iter().map(|argument| argument.to_str().unwrap()).collect::<Vec<_>>().join("|")
        };
        let (first, others) = TICKET.split_at(TICKET.find('-').unwrap());
        let (second, third) = others.split_at(9);
        let broken = format!("treecast|receive|--into|x|{first}|{second}|{third} |--secure");
        assert_eq!(joined(&broken), format!("treecast|receive|--into|x|{TICKET}|--secure"));
        for other in ["treecast|receive|--into|treecast2.x|-h", "treecast|receive|@file|x", "treecast"] {
            assert_eq!(joined(other), other);
        }
    }

    #[test]
    fn a_file_may_hold_a_ticket_in_several_lines_and_something_behind_it() {
        let path = std::env::temp_dir().join(format!("treecast-read-ticket-{}", std::process::id()));
        let (first, second) = TICKET.split_at(40);
        let read = |text: String| {
            std::fs::write(&path, text).unwrap();
            read_ticket(&format!("@{}", path.display())).map(|ticket| ticket.to_string())
        };
        assert!(read(format!("\n {first}\nRegards\n")).unwrap_err().contains("cut short"));
        for text in [
            format!("{TICKET}\nthe second line\n"),
            format!("\n{first}\r\n  {second}\n\nRegards\n"),
            format!("\u{feff}{TICKET}\r\n"),
        ] {
            assert_eq!(read(text), Ok(TICKET.to_owned()));
        }
        std::fs::remove_file(&path).unwrap();
        assert_eq!(read_ticket(&format!(" {first} \t{second}\n")).unwrap().to_string(), TICKET);
    }

    #[test]
    fn a_ticket_cut_short_is_explained_in_one_line() {
        let line = read_ticket("treecast2.AAAA").unwrap_err();
        assert!(line.contains("cut short") && !line.contains('\n'), "{line}");
        for path in ["/no/such/file", "/proc/self/exe", "/dev/zero", ""] {
            let line = read_ticket(&format!("@{path}")).unwrap_err();
            assert!(line.contains(path) && !line.contains('\n'), "{line}");
        }
    }
}
