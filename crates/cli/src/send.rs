//! `treecast send`: parses the arguments, and prints progress and a summary.

mod args;
mod carousel;
mod code;
pub(crate) mod display;
#[cfg(feature = "suite")]
mod forecast;
mod given;
mod kept;
mod local;
mod orders;
mod receivers;
pub(crate) mod refused;
mod report;
mod standing;
mod start;
mod start_at;
mod ticket_file;

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    process::ExitCode,
    time::{Duration, UNIX_EPOCH},
};

use clap::ValueEnum;
use treecast::{
    Group as Session, GroupBuilder, GroupOption,
    limits::RATES_BPS,
    unstable::{
        Stop,
        options::{self, FeedSource, Rule},
        watch::{SendEvent, SendSummary},
    },
};
use treecast_host::quantity::{self, QuantityError};

pub(crate) use self::args::SessionArgs;
use self::{kept::Kept, orders::Orders, report::Report, ticket_file::TicketFile};
use crate::{
    Outcome,
    arguments::{self, With, counted},
    config::Origins,
    figures::bytes,
    group::Group,
    sharing::Grouping,
};

/// Send files to everyone who has the ticket.
///
/// Prints the ticket as its first line; receivers need it to start. On standard error is the line for another
/// host. Starts when enough receivers are there, and
/// ends when every receiver has every file. Exit code: 0 when every receiver has every file; 3 when some
/// receivers failed (a table names them and the reasons), were never there for a carousel, or files could not be
/// sent; 1 for anything else.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    session: SessionArgs,
    /// Also send files that are named while the session runs: a path a line, from this file or pipe, or - for
    /// standard input; its end ends the session
    #[arg(long, value_name = "FILE|-")]
    feed: Option<PathBuf>,
    /// With -, keep all of standard input in this folder until the end, so that receivers which come late get its beginning,
    /// too. Default: the last 64 MiB are kept, in memory
    #[arg(long, value_name = "DIR")]
    spool: Option<PathBuf>,
    #[command(flatten)]
    selection: SelectionArgs,
    /// Go on with a session that ended too early. It keeps its ticket, its files and its options. Those that are
    /// given here count more. Its name is its number (`treecast status`), its ticket or a file; it may be left out if there is one
    #[arg(long, value_name = "NAME", num_args = 0..=1, default_missing_value = "", conflicts_with_all = ["feed", "spool", "paths"])]
    resume: Option<String>,
    /// Take options from this profile. It is the table [profile.NAME] of ~/.config/treecast/config.toml or /etc/treecast/config.toml,
    /// whose keys are names of options. Those that are given here count more
    #[arg(long, value_name = "NAME", conflicts_with = "resume")]
    profile: Option<String>,
    /// Take no options from these files
    #[arg(long, conflicts_with = "profile")]
    no_config: bool,
    /// Tell how long it takes until so many receivers have the files, and what leaves this host, by each fanout; send nothing. RATE is
    /// that of this host's link (100M), and LOSS the share of packets that each receiver loses (0.1%)
    #[cfg(feature = "suite")]
    #[arg(long, value_name = "RECEIVERS[,RATE[,LOSS]]", help_heading = "What is sent", value_parser = forecast::parse,
          conflicts_with_all = ["feed", "resume"])]
    forecast: Option<forecast::Asked>,
    /// Files and folders, or - for standard input. DIR/ stands for what is in DIR. `treecast receive --stdout` hands on the bytes of
    /// standard input
    #[arg(required_unless_present_any = ["feed", "resume"])]
    paths: Vec<PathBuf>,
}

/// What of folders is sent.
#[derive(clap::Args, Default)]
struct SelectionArgs {
    /// Leave out what matches in folders, as rsync does. May be repeated. *.o: at any depth; /dir/*.o: from the first
    /// folder on; cache/: folders only; ** crosses folders
    #[arg(long, value_name = "PATTERN", allow_hyphen_values = true)]
    exclude: Vec<String>,
    /// Send nothing if anything in a folder cannot be sent [default: leave it out, name it, and exit with code 3]
    #[arg(long)]
    strict: bool,
}

/// What is read while the session runs.
#[derive(Debug, Clone)]
pub(crate) struct Feed {
    pub source: FeedSource,
    /// The terms on which its objects are sent.
    pub rules: Vec<Rule>,
    /// The number of its newest objects that receivers which come late still get.
    pub kept: u32,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Repair {
    Nack,
    After,
    Local,
    Carousel,
    None,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
pub(crate) enum Dialect {
    Session,
    Iotup,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum HashArg {
    Blake2b,
    Blake3,
}

/// A rate in bits a second. `None` follows the receivers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Rate(pub Option<u64>);

/// `arguments`: the command line with what the configuration adds.
pub fn run(args: Args, arguments: Vec<OsString>) -> Outcome {
    #[cfg(feature = "suite")]
    if let Some(asked) = args.forecast {
        return forecast::run(&args.paths, asked, args.session.show.json);
    }
    let Args { mut session, feed, spool, selection, resume, paths, .. } = args;
    if let Some(which) = resume {
        return go_on(&which);
    }
    session.sent.feed = feed.map(|feed| Feed { source: source(feed), rules: Vec::new(), kept: 0 });
    (session.sent.paths, session.sent.selection) = (paths, selection);
    session.sent.spool = spool;
    session.sent.arguments = arguments;
    hold_session(session, None)
}

/// Goes on with a session whose state was kept.
fn go_on(which: &str) -> Outcome {
    let (kept, command) = kept::resume(which)?;
    let arguments = command.with_present(which);
    let Args { mut session, selection, paths, .. } = match crate::send_arguments(arguments) {
        Ok(args) => args,
        Err(error) => return Ok(arguments::refuse(error, &Origins::default())),
    };
    (session.sent.paths, session.sent.selection) = (paths, selection);
    if !kept::is_present("--start-at") {
        // A time of day, or one from now, was meant when the session began.
        session.connected.start_at = command.start_at.map(Duration::from_secs);
    }
    hold_session(session, Some(kept))
}

/// Sends the files of a feed: so many at once, and waiting so long for receivers, unless options say otherwise.
pub(crate) fn run_feed(
    mut session: SessionArgs,
    feed: Feed,
    exclude: Vec<String>,
    at_once: usize,
    wait_timeout: Duration,
) -> Outcome {
    session.sent.feed = Some(feed);
    session.sent.selection.exclude = exclude;
    session
        .connected
        .at_once
        .get_or_insert_with(|| GroupOption::new(move |builder| builder.at_once(at_once)));
    session.start.wait_timeout.get_or_insert(wait_timeout.as_secs());
    hold_session(session, None)
}

/// Holds a session. Its state is kept for `--resume`, unless it is kept elsewhere or not at all.
fn hold_session(mut args: SessionArgs, resumed: Option<Kept>) -> Outcome {
    let keeps_none = kept::is_refused(args.session.as_deref());
    args.session.take_if(|_| keeps_none);
    refused::check(&args)?;
    let mut kept = resumed.or_else(|| if keeps_none { None } else { Kept::begin(&args) });
    args.session = args.session.or_else(|| kept.as_ref().map(Kept::session_file));
    let outcome = hold_and_show(&args, kept.as_mut());
    match kept {
        Some(kept) => kept.end(outcome),
        None => outcome,
    }
}

/// `kept`: the state that `--resume` finds.
fn hold_and_show(args: &SessionArgs, mut kept: Option<&mut Kept>) -> Outcome {
    let (builder, wanted) = builder(args)?;
    if let Some(hint) = args.network.group.as_ref().and_then(Group::hint) {
        remark!("treecast: {hint}");
    }
    standing::hint(args).into_iter().for_each(|hint| remark!("treecast: {hint}"));
    args.connected.start_at.map(start_at::remark).into_iter().for_each(|line| remark!("treecast: {line}"));
    if is_carousel(args) {
        return carousel::run(args, builder);
    }
    let report = Report::open(args)?;
    let mut display = display::Display::new(
        args.show.json,
        wanted,
        orders::is_at_terminal(args),
        if is_stream(args) { display::PIECE } else { "file" },
    );
    // Standing receivers that are named get the ticket by its announcement, and nobody else may have it.
    display.is_for_anybody = args.invite.to_standing.is_none() || args.invite.announce.is_some();
    let summary = hold(args, builder, &mut |event| display.show(event))?;
    display.finish(&summary);
    report.map_or(Ok(()), |report| report.write(display.session(), &summary.progress))?;
    if args.form.delta && !args.show.json {
        let (sent, all) = (summary.progress.sent_bytes, summary.progress.total_bytes);
        let saved = all.saturating_sub(sent);
        say!(
            "--delta saved {} of {}, which are in older versions at all receivers",
            bytes(saved),
            bytes(all)
        );
    }
    let feed = args.sent.feed.as_ref().map(|feed| &feed.source);
    if let Some(FeedSource::Folder(folder)) = feed.filter(|_| summary.interrupted) {
        // A folder has no end. What receivers lack that were cut off is sent by the next sender of a session that is kept.
        remark!("treecast: {}", stopped(&folder.path, &summary, args.session.is_some()));
        let is_lost = args.session.is_none() && lacking(&summary) > 0;
        return Ok(if is_lost { ExitCode::from(3) } else { ExitCode::SUCCESS });
    }
    if !summary.interrupted && !may_bring_more(&summary) {
        kept.iter_mut().for_each(|kept| kept.note_in_vain());
    }
    let code = exit_code(&summary, args.session.as_deref(), kept.as_deref())?;
    match is_stream(args) && summary.not_sent > 0 {
        true => Err(
            "standard input could not be read to its end, and receivers have only its beginning: start anew"
                .into(),
        ),
        false => Ok(code),
    }
}

/// Runs a session, shows its events, and writes the ticket where the user wants it.
fn hold(
    args: &SessionArgs,
    builder: GroupBuilder,
    show: &mut dyn FnMut(&SendEvent),
) -> Result<SendSummary, Box<dyn std::error::Error>> {
    let stop = Stop::on_signals()?;
    let orders = Orders::take(args);
    let builder = builder.with(&orders.as_ref().map(|orders| &orders.starter), GroupBuilder::starter);
    let ticket_file = TicketFile { path: args.invite.ticket_file.clone() };
    let mut failed_ticket = None;
    let mut offer = None;
    let mut on_event = |event: &SendEvent| {
        if matches!(event, SendEvent::Started { .. }) {
            orders.iter().for_each(Orders::end);
        }
        let SendEvent::Ready { ticket } = event else { return show(event) };
        // A ticket is useless if it is not where other programs look for it.
        let written = ticket_file.write(&announcement(args, event));
        let offered = written.and_then(|()| match args.invite.code {
            true => code::Offer::open(args, ticket.clone().into()).map(Some),
            false => Ok(None),
        });
        match offered {
            Ok(offered) => offer = offered,
            Err(line) => {
                failed_ticket = Some(line);
                return stop.request();
            }
        }
        show(event);
        // The ticket is the first line.
        offer.iter().for_each(code::Offer::show);
    };
    let result = builder.run(&stop, &mut on_event);
    if let Some(line) = failed_ticket {
        return Err(line.into());
    }
    Ok(result?)
}

/// What receivers need to start: the ticket, or with the IoT updater's packets, which have no ticket, the
/// group's address.
fn announcement(args: &SessionArgs, ready: &SendEvent) -> String {
    match ready {
        SendEvent::Ready { ticket } if is_iotup(args) => ticket.group.to_string(),
        SendEvent::Ready { ticket } => ticket.to_string(),
        _ => String::new(),
    }
}

fn is_iotup(args: &SessionArgs) -> bool {
    args.ring.dialect == Dialect::Iotup
}

fn is_carousel(args: &SessionArgs) -> bool {
    args.repair == Repair::Carousel || args.ring.dialect == Dialect::Iotup
}

/// Whether standard input is sent.
fn is_stream(args: &SessionArgs) -> bool {
    args.sent.paths.iter().any(|path| path.as_os_str() == "-")
}

fn asks_for_fec(args: &SessionArgs) -> bool {
    args.given.word("fec").is_some_and(|share| share != "none")
}

/// What the crate is told, and the number of receivers with which the session starts.
fn builder(args: &SessionArgs) -> Result<(GroupBuilder, u32), String> {
    let named = args.ways.receivers.as_deref().map(receivers::parse).transpose()?.unwrap_or_default();
    let wanted = args.start.wanted(named.len());
    let ways = &args.ways;
    let sharing = ways.sharing.sharing(Grouping::Cost, ways.mead_dialect, ways.domain_key.as_deref())?;
    let builder = Session::builder()
        .receivers(named)
        .sharing(sharing)
        .ttl(args.network.ttl as u8)
        .wait(wanted)
        .answer_status()
        .when(args.security.plain, GroupBuilder::plain)
        .when(args.form.delta, GroupBuilder::delta)
        .with(&args.network.group, |builder, group| {
            builder.group(group.address).with(&group.port, GroupBuilder::port)
        })
        .with(&args.network.interface, GroupBuilder::interface)
        .with(&args.security.key, GroupBuilder::key)
        .with(&args.security.allow, GroupBuilder::allow)
        .with(&args.session, GroupBuilder::session)
        .with(&args.invite.announce, GroupBuilder::announce)
        .with(&args.show.metrics, GroupBuilder::metrics);
    let builder = match args.form.zstd {
        true => builder.option("compress", "zstd").map_err(|error| error.to_string())?,
        false => builder,
    };
    let builder = args.passed().fold(builder, |builder, option| option.set(builder));
    let builder = with_connections(builder, args, standing::listed(args)?);
    let builder = match args.repair {
        _ if is_carousel(args) => builder.carousel(carousel::options(args)),
        Repair::Local => builder.local_groups(local::options(&args.local)?),
        Repair::Nack | Repair::Carousel => builder,
        Repair::After => builder.repair(treecast::Repair::After),
        Repair::None => builder.repair(treecast::Repair::None),
    };
    Ok((with_content(builder, args), wanted))
}

/// Tells the crate when the session starts, and how it treats receivers that connect to it.
fn with_connections(
    builder: GroupBuilder,
    args: &SessionArgs,
    listed: Option<Vec<options::Listed>>,
) -> GroupBuilder {
    let SessionArgs { start, connected, .. } = args;
    // These start with fewer when the time is over.
    let has_end = listed.is_some() || start.wait_at_least.is_some();
    let patience = start.patience(orders::is_at_terminal(args) && !has_end);
    builder
        .with(&connected.control, GroupBuilder::control)
        .with(&connected.start_at.map(|at| UNIX_EPOCH + at), GroupBuilder::start_at)
        .with(&patience.map(Duration::from_secs), GroupBuilder::wait_timeout)
        .with(&start.wait_at_least, GroupBuilder::wait_at_least)
        .with(&connected.linger, |builder, time| builder.linger(time).listed_wait(time))
        .with(&listed, GroupBuilder::to_standing)
        .when(listed.is_some(), |builder| builder.with(&connected.linger, GroupBuilder::results_wait))
}

/// Tells the crate what is sent.
fn with_content(builder: GroupBuilder, args: &SessionArgs) -> GroupBuilder {
    let builder = builder
        .when(args.sent.selection.strict, GroupBuilder::strict)
        .with(&args.sent.feed, |builder, feed| {
            builder.feed(feed.source).feed_rules(feed.rules).kept_objects(feed.kept)
        });
    let builder = match is_stream(args) {
        true => builder.feed(FeedSource::Stream { spool: args.sent.spool.clone() }),
        false => args.sent.paths.iter().fold(builder, GroupBuilder::path),
    };
    args.sent.selection.exclude.iter().fold(builder, GroupBuilder::exclude)
}

/// Where lines come from.
fn source(feed: PathBuf) -> FeedSource {
    if feed.as_os_str() == "-" { FeedSource::StandardInput } else { FeedSource::File(feed) }
}

/// Says what becomes of a folder's files that not all receivers have, when its sender is stopped.
fn stopped(folder: &Path, summary: &SendSummary, keeps_session: bool) -> String {
    let folder = folder.display();
    let receivers = &summary.progress.receivers;
    let lacking = lacking(summary);
    let waiting = summary.progress.waiting.filter(|waiting| *waiting > 0);
    let waiting = waiting.map(|waiting| format!(" ({waiting} wait)")).unwrap_or_default();
    let what = match lacking {
        0 => format!("stopped: files of {folder} that are not done{waiting} go out after the next start"),
        _ if keeps_session => format!(
            "stopped: files of {folder} that are not done{waiting} go out after the next start, also those that receivers lack which were \
             cut off lately (--stall-limit)"
        ),
        _ => format!(
            "stopped: {lacking} of {} did not get what the table says, and nobody sends it again (--session would); files of \
             {folder} that are not done{waiting} go out after the next start",
            counted(receivers.len(), "receiver"),
        ),
    };
    if keeps_session { what + "; receivers wait for it (--reconnect)" } else { what }
}

/// The number of receivers that the table of failures names.
fn lacking(summary: &SendSummary) -> usize {
    let receivers = summary.progress.receivers.iter();
    receivers.filter(|receiver| receiver.failed + receiver.objects_missed > 0).count()
}

/// Whether a receiver lacks what the session can still bring it.
fn lacks_some(summary: &SendSummary) -> bool {
    lacking(summary) > 0 || summary.others_failed + summary.never_came + summary.turned_away > 0
}

/// Whether a later sender of the session could bring somebody more. What was withdrawn has changed, and cannot be sent by it.
fn may_bring_more(summary: &SendSummary) -> bool {
    let is_withdrawn = |object: &str| summary.withdrawn.iter().any(|(name, _)| name == object);
    let lacks_more = summary.progress.receivers.iter().any(|receiver| {
        receiver.objects_missed > 0 || receiver.failures.iter().any(|(object, _)| !is_withdrawn(object))
    });
    lacks_more || summary.withdrawn.is_empty() && lacks_some(summary)
}

/// The exit code. A receiver that lacks an object which the sender could not send to its end has failed, too.
fn exit_code(summary: &SendSummary, session: Option<&Path>, kept: Option<&Kept>) -> Outcome {
    if summary.interrupted {
        return Err(match (session, kept.map(Kept::goes_on)) {
            (None, _) | (_, Some(None)) => {
                "interrupted: receivers keep only the files that were complete".into()
            }
            (_, Some(Some(goes_on))) => format!(
                "interrupted: receivers keep what came, and wait for the sender (--reconnect): {goes_on}"
            )
            .into(),
            (Some(session), None) => format!(
                "interrupted: receivers keep what came, and wait for the next start with --session {} (--reconnect)",
                session.display()
            )
            .into(),
        });
    }
    Ok(if summary.is_everywhere() { ExitCode::SUCCESS } else { ExitCode::from(3) })
}

pub(crate) fn parse_rate(text: &str) -> Result<Rate, QuantityError> {
    if text == "max" {
        return Ok(Rate(None));
    }
    quantity::rate_bps(text, RATES_BPS).map(|bps| Rate(Some(bps))).map_err(|error| error.or("max"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_bits_a_second() {
        assert_eq!(parse_rate("max"), Ok(Rate(None)));
        assert_eq!(parse_rate("2.5Gbit"), Ok(Rate(Some(2_500_000_000))));
        assert_eq!(parse_rate("64000"), Ok(Rate(Some(64_000))));
        for bad in ["0", "401G"] {
            let line = parse_rate(bad).unwrap_err().to_string();
            assert!(line.contains("from 1k to 400G") && line.ends_with(", or max"), "{line}");
        }
    }
}
