//! `treecast send`: parses the arguments, and prints progress and a summary.

mod carousel;
mod code;
pub(crate) mod display;
mod local;
mod rate;
mod receivers;
mod refused;
mod standing;
mod start;
mod start_at;
mod ticket_file;

use std::{
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
    process::ExitCode,
    time::{Duration, UNIX_EPOCH},
};

use clap::ValueEnum;
use treecast::{
    Group as Session, GroupBuilder, Rate as SessionRate, Stop,
    limits::{
        BLOCK_LENS, COMPRESSION_LEVELS, DEFAULT_MULTICAST_HOPS, LEAST_STALL_LIMIT, MAX_FEC_PERCENT, RATES_BPS,
    },
    options::{FeedSource, Listed, Priority, Rule, Share},
    watch::{SendEvent, SendSummary},
};

use self::ticket_file::TicketFile;
use crate::{
    Outcome,
    arguments::{self, With, counted},
    figures::bytes,
    group::Group,
    mead::sharing::{Grouping, SharingArgs, WireDialect},
};

/// The level of zstd where none is asked for: its own default.
const DEFAULT_LEVEL: i32 = 3;

/// Send files to everyone who has the ticket.
///
/// Prints the ticket as its first line; receivers need it to start. Starts when enough receivers are there, and
/// ends when every receiver has every file. Exit code: 0 when every receiver has every file; 3 when some
/// receivers failed (a table names them and the reasons), or were never there for a carousel; 1 for anything else.
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
    /// Files, and folders of files; or - for the bytes of standard input, which `treecast receive --stdout` hands on
    #[arg(required_unless_present = "feed")]
    paths: Vec<PathBuf>,
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

/// The options of a session, whatever it sends.
#[derive(clap::Args)]
pub(crate) struct SessionArgs {
    /// The way a packet reaches many hosts
    #[arg(long, value_enum, default_value = "multicast")]
    fanout: Fanout,
    /// The expected receivers: addresses with commas between them, or a file with an address a line. With
    /// --fanout mead or auto, the sender looks for MEADcast routers on the paths to them before they come.
    /// Without --wait, the start waits for as many receivers. A carousel sends its copies to these addresses
    #[arg(long, value_name = "FILE|ADDR,...")]
    receivers: Option<String>,
    #[command(flatten)]
    sharing: SharingArgs,
    /// Believe only MEADcast routers that have the domain's key, a file with 64 hexadecimal digits. The sender
    /// proves to them and to Xcast routers that it has the key, too, because routers with a key make copies for
    /// no other senders
    #[arg(long, value_name = "FILE", help_heading = "Protocol")]
    domain_key: Option<PathBuf>,
    /// The order of bits in MEADcast's headers [default: rfc]
    #[arg(long, value_enum, value_name = "DIALECT", help_heading = "Protocol")]
    mead_dialect: Option<WireDialect>,
    /// The way lost packets are mended: send them again while the file goes out (nack), or afterwards (after);
    /// receivers mend them among themselves, in groups that they form (local); send the whole file again and
    /// again until nobody listens (carousel); or not at all (none)
    #[arg(long, value_enum, default_value = "nack")]
    repair: Repair,
    /// Forward error correction: mend losses with repair symbols (RaptorQ). One symbol can replace a different
    /// lost packet at each receiver. N%, a whole number from 1% to 300%: so many symbols for 100 packets follow each
    /// part of a file, so that 200% puts three times its size on the link; auto: as many as receivers have lately lacked;
    /// none: no symbols. With --repair carousel (auto), all loops after the first
    /// consist of symbols [default: none; but with --repair nack to a multicast group, at rates up to 400M,
    /// auto as soon as several receivers have lost different packets]
    #[arg(long, value_name = "N%|auto|none", value_parser = parse_fec, allow_hyphen_values = true)]
    fec: Option<Fec>,
    /// Multicast group, with or without a port [default: a random one of site scope]
    #[arg(long, value_name = "ADDR[:PORT]", value_parser = Group::parse)]
    group: Option<Group>,
    /// Network interface to send on [default: the one of the route]
    #[arg(long, value_name = "IF")]
    interface: Option<String>,
    /// Source-specific multicast: receivers listen only to this address of the interface
    #[arg(long, value_name = "ADDR", value_parser = arguments::address)]
    source: Option<IpAddr>,
    /// The address for control connections [default: any address, a free port]
    #[arg(long, value_name = "ADDR:PORT", value_parser = arguments::address_and_port)]
    control: Option<SocketAddr>,
    /// The rate in bits of IP packets a second, headers included (500k, 100M, 2.5G), for a path where that much
    /// is reserved. auto: what the path to the worst receiver delivers, shared with other traffic; tfmcc: as much
    /// as a TCP connection to the worst receiver would get; max: as fast as the slowest attentive receiver takes
    /// it [default: auto; a carousel: max; local groups: 100M]
    #[arg(long, value_parser = rate::parse_asked, allow_negative_numbers = true)]
    rate: Option<SessionRate>,
    /// The lowest rate that receivers may force, in bits a second. The sender does not slow down further for
    /// receivers that can take less. They get lost packets as retransmissions
    #[arg(long, value_name = "RATE", value_parser = rate::parse_floor, allow_negative_numbers = true)]
    rate_floor: Option<u64>,
    /// Several rates at once, from fast to slow (500M,100M,20M), in the form of --rate. As many groups carry
    /// the same files. A receiver that loses more than a tenth of its packets moves to the next slower group,
    /// which carries what its members lack. Slow receivers do not slow down fast ones. A carousel's receivers
    /// listen to all groups at first, and leave the fastest ones when they lose packets
    #[arg(long, value_name = "RATE,RATE...", value_parser = rate::parse_rates, allow_hyphen_values = true)]
    rates: Option<rate::Rates>,
    /// Hop limit of multicast packets: the number of routers that they may cross
    #[arg(long, default_value_t = DEFAULT_MULTICAST_HOPS, value_parser = clap::value_parser!(u32).range(1..=255),
          allow_negative_numbers = true)]
    ttl: u32,
    #[command(flatten)]
    start: start::StartArgs,
    /// Carousel: end when nobody has listened for this many seconds. With --receivers, ICMP errors must say so
    /// [default: 10]
    #[arg(long, value_name = "SECONDS", value_parser = arguments::seconds, allow_negative_numbers = true)]
    idle: Option<u64>,
    /// Carousel: end after this many loops [default: go on while somebody listens, or until Ctrl-C]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), allow_negative_numbers = true)]
    loops: Option<u64>,
    /// The packets: those of a treecast session, or those of librecast's IoT updater, which sends one file in
    /// loops
    #[arg(long, value_enum, default_value = "session")]
    dialect: Dialect,
    #[command(flatten)]
    local: local::LocalArgs,
    /// Dialect iotup: the hash of the file in each frame; receivers' programs must be built with the same one
    /// [default: blake2b]
    #[arg(long, value_enum)]
    hash: Option<HashArg>,
    /// Give up on retransmissions of a file after X times as long as its multicast took [default: never]
    #[arg(long, value_name = "X", value_parser = parse_factor, allow_negative_numbers = true)]
    retx_factor: Option<f64>,
    /// The shortest time for --retx-factor, in seconds [default: 2]
    #[arg(long, value_name = "SECONDS", value_parser = parse_factor, allow_negative_numbers = true)]
    retx_minimum: Option<f64>,
    /// The order if the rate is not enough for both multicast and retransmissions. multicast: it goes first, so
    /// that slow receivers do not slow down fast ones; fair: retransmissions get up to half of the rate
    /// [default: multicast]
    #[arg(long, value_enum)]
    priority: Option<PriorityArg>,
    /// The number of files that are multicast at the same time, in turns; 1 sends one after the other [default:
    /// 64; `treecast feed`: 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024), allow_negative_numbers = true)]
    at_once: Option<u32>,
    /// Give up on a receiver that is silent for this many seconds while it owes an answer, because it was
    /// stopped or its host hangs. A receiver that is only slow reports every few seconds [default: 120]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(LEAST_STALL_LIMIT.as_secs()..=86_400),
          allow_negative_numbers = true)]
    stall_limit: Option<u64>,
    /// When all other receivers are done, wait this many seconds for a receiver whose connection broke to come
    /// back [default: 10; a carousel waits for nobody]
    #[arg(long, value_name = "SECONDS", value_parser = arguments::seconds, allow_negative_numbers = true)]
    linger: Option<u64>,
    /// The bytes of a file in each packet [default: as many as the interface's MTU allows]
    #[arg(long, value_name = "BYTES", value_parser = parse_block, allow_negative_numbers = true)]
    block: Option<u16>,
    /// Send without security: nothing is encrypted, and nobody proves their identity
    #[arg(long)]
    plain: bool,
    /// The key that identifies the sender: its name (see `treecast keys`) or file [default: a key made for the
    /// session]
    #[arg(long, value_name = "NAME|PATH")]
    key: Option<String>,
    /// Admit only the receivers whose public keys are in this file, one a line [default: everybody who has the
    /// ticket]
    #[arg(long, value_name = "FILE")]
    allow: Option<PathBuf>,
    /// Admit no receiver after this time, like 30m, 12h or 7d [default: never]
    #[arg(long, value_name = "DURATION", value_parser = arguments::duration, allow_hyphen_values = true)]
    expires: Option<Duration>,
    /// Keep the session's state in this file, so that the sender can be started again: with the same ticket and
    /// the same files, receivers fetch only what they lack. The file is made if it is missing. It contains a
    /// key, so keep it safe
    #[arg(long, value_name = "FILE")]
    session: Option<PathBuf>,
    /// Compress files by zstd, at level 1 to 19 [default level: 3]. A file is sent as it is where a sample of it does not
    /// become smaller. Receivers need no option
    #[arg(long, value_name = "zstd[:LEVEL]", value_parser = parse_compression)]
    compress: Option<i32>,
    /// Update by difference: receivers that have an older version of a file fetch only what differs, and all say what they lack
    /// before anything goes out, once for all. An older version is what has the file's name in a receiver's folder
    /// (`treecast receive --old`). Files under 256 KiB go out whole. A carousel's loops bring what
    /// its receivers lack; with --fec, --rates or --session they bring everything
    #[arg(long)]
    delta: bool,
    /// Write the ticket to this file, too
    #[arg(long, value_name = "PATH")]
    ticket_file: Option<PathBuf>,
    /// Announce the session on the network while it lasts (--announce=NAME: under this name), signed with the sender's key.
    /// Whoever hears it gets the ticket (`treecast discover`), so add --allow where not everybody may have the files
    /// [default name: that of the first file]
    #[arg(long, value_name = "NAME", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    announce: Option<String>,
    /// Send to these standing receivers (`treecast receive --standing`): names or keys with commas between them, or a file with
    /// one a line, a key with a name behind it. The session is announced; it starts with all of them, or after --wait-timeout
    /// with those that are there, and ends when each of them has every file, or after --linger. A table says who lacks what
    #[arg(long, value_name = "FILE|NAME,...")]
    to_standing: Option<String>,
    /// Print a code of three words, too, by which a receiver on the same network gets the ticket (`treecast receive CODE`).
    /// After five wrong codes it is of no use any more
    #[arg(long)]
    code: bool,
    /// Answer Prometheus at http://ADDR:PORT/metrics
    #[arg(long, value_name = "ADDR:PORT", value_parser = arguments::address_and_port)]
    metrics: Option<SocketAddr>,
    /// One JSON event a line on standard output
    #[arg(long)]
    json: bool,
    /// What is read while the session runs.
    #[arg(skip)]
    feed: Option<Feed>,
    /// What is sent from the beginning.
    #[arg(skip)]
    paths: Vec<PathBuf>,
    /// The folder where standard input is kept.
    #[arg(skip)]
    spool: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Fanout {
    /// One packet for all receivers, by IP multicast
    Multicast,
    /// A copy for each receiver
    Unicast,
    /// MEADcast if routers speak it, unicast elsewhere
    Mead,
    /// Xcast (RFC 5058) if it proves to work, unicast elsewhere
    Xcast,
    /// Begin with unicast, and move each receiver to multicast or MEADcast if that reaches it
    Auto,
}

impl From<Fanout> for treecast::Fanout {
    fn from(fanout: Fanout) -> Self {
        match fanout {
            Fanout::Multicast => Self::Multicast,
            Fanout::Unicast => Self::Unicast,
            Fanout::Mead => Self::Mead,
            Fanout::Xcast => Self::Xcast,
            Fanout::Auto => Self::Auto,
        }
    }
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
enum PriorityArg {
    Multicast,
    Fair,
}

impl From<PriorityArg> for Priority {
    fn from(priority: PriorityArg) -> Self {
        match priority {
            PriorityArg::Multicast => Self::Multicast,
            PriorityArg::Fair => Self::Fair,
        }
    }
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

pub fn run(args: Args) -> Outcome {
    let Args { mut session, feed, spool, paths } = args;
    session.feed = feed.map(|feed| Feed { source: source(feed), rules: Vec::new(), kept: 0 });
    session.paths = paths;
    session.spool = spool;
    hold_session(session)
}

/// Sends the files of a feed: so many at once, and waiting so long for receivers, unless options say otherwise.
pub(crate) fn run_feed(
    mut session: SessionArgs,
    feed: Feed,
    at_once: u32,
    wait_timeout: Duration,
) -> Outcome {
    if is_carousel(&session) {
        return Err("a carousel sends what it began with, and a feed goes on: take another --repair, or --dialect session".into());
    }
    session.feed = Some(feed);
    if session.repair != Repair::Local {
        session.at_once.get_or_insert(at_once);
    }
    session.start.wait_timeout.get_or_insert(wait_timeout.as_secs());
    hold_session(session)
}

fn hold_session(args: SessionArgs) -> Outcome {
    refused::check(&args)?;
    let (builder, wanted) = builder(&args)?;
    if let Some(hint) = args.group.as_ref().and_then(Group::hint) {
        remark!("treecast: {hint}");
    }
    let standing = args.to_standing.as_deref().and_then(Listed::hint);
    standing.into_iter().for_each(|hint| remark!("treecast: {hint} (--to-standing)"));
    args.start.start_at.map(start_at::remark).into_iter().for_each(|line| remark!("treecast: {line}"));
    if is_carousel(&args) {
        return carousel::run(&args, builder);
    }
    let mut display =
        display::Display::new(args.json, wanted, if is_stream(&args) { "piece" } else { "file" });
    let summary = hold(&args, builder, &mut |event| display.show(event))?;
    display.finish(&summary);
    if args.delta && !args.json {
        let (sent, all) = (summary.progress.sent_bytes, summary.progress.total_bytes);
        let saved = all.saturating_sub(sent);
        say!(
            "--delta saved {} of {}, which are in older versions at all receivers",
            bytes(saved),
            bytes(all)
        );
    }
    let feed = args.feed.as_ref().map(|feed| &feed.source);
    if let Some(FeedSource::Folder(folder)) = feed.filter(|_| summary.interrupted) {
        // A folder has no end.
        remark!("treecast: {}", stopped(&folder.path, &summary, args.session.is_some()));
        return Ok(ExitCode::SUCCESS);
    }
    let code = exit_code(&summary, args.session.as_deref())?;
    match is_stream(&args) && summary.not_sent > 0 {
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
    // Anybody who reads a carousel's ticket can take part.
    let is_secret = (is_carousel(args) || args.repair == Repair::Local) && !args.plain && !is_iotup(args);
    let ticket_file = TicketFile { path: args.ticket_file.clone(), is_secret };
    let mut failed_ticket = None;
    let mut offer = None;
    let mut on_event = |event: &SendEvent| {
        let SendEvent::Ready { ticket } = event else { return show(event) };
        // A ticket is useless if it is not where other programs look for it.
        let written = ticket_file.write(&announcement(args, event));
        let offered = written.and_then(|()| match args.code {
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
    args.dialect == Dialect::Iotup
}

fn is_carousel(args: &SessionArgs) -> bool {
    args.repair == Repair::Carousel || args.dialect == Dialect::Iotup
}

/// Whether standard input is sent.
fn is_stream(args: &SessionArgs) -> bool {
    args.paths.iter().any(|path| path.as_os_str() == "-")
}

/// The value of `--fec`. `Fec(None)` is `--fec none`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Fec(Option<Share>);

fn asks_for_fec(args: &SessionArgs) -> bool {
    args.fec.is_some_and(|Fec(share)| share.is_some())
}

/// What the crate is told, and the number of receivers with which the session starts.
fn builder(args: &SessionArgs) -> Result<(GroupBuilder, u32), String> {
    let named = args.receivers.as_deref().map(receivers::parse).transpose()?.unwrap_or_default();
    let wanted = args.start.wanted(named.len());
    let listed = args.to_standing.as_deref().map(Listed::parse).transpose();
    let listed = listed.map_err(|error| format!("{error} (--to-standing)"))?;
    let sharing = args.sharing.sharing(Grouping::Cost, args.mead_dialect, args.domain_key.as_deref())?;
    let seconds = |seconds: Option<u64>| seconds.map(Duration::from_secs);
    let builder = Session::builder()
        .fanout(args.fanout.into())
        .receivers(named)
        .sharing(sharing)
        .hops(args.ttl as u8)
        .wait_for(wanted)
        .answer_status()
        .when(args.plain, GroupBuilder::plain)
        .when(args.delta, GroupBuilder::delta)
        .with(&args.priority.map(Priority::from), GroupBuilder::priority)
        .with(&args.group, |builder, group| {
            builder.group(group.address).with(&group.port, GroupBuilder::port)
        })
        .with(&args.interface, GroupBuilder::interface)
        .with(&args.source, GroupBuilder::source)
        .with(&args.control, GroupBuilder::control)
        .with(&args.rate, GroupBuilder::rate)
        .with(&args.rate_floor, GroupBuilder::rate_floor)
        .with(&args.rates, |builder, rates| builder.several_rates(rates.0))
        .with(&args.fec, |builder, Fec(share)| builder.fec(share))
        .with(&args.start.start_at.map(|at| UNIX_EPOCH + at), GroupBuilder::start_at)
        .with(&seconds(args.start.wait_timeout), GroupBuilder::wait_timeout)
        .with(&args.start.wait_at_least, GroupBuilder::wait_at_least)
        .with(&args.start.per_address, GroupBuilder::per_address)
        .with(&args.retx_factor, GroupBuilder::retransmission_factor)
        .with(&args.retx_minimum.map(time), GroupBuilder::minimum_retransmission_time)
        .with(&args.at_once.map(|at_once| at_once as usize), GroupBuilder::at_once)
        .with(&seconds(args.stall_limit), GroupBuilder::stall_limit)
        .with(&seconds(args.linger), GroupBuilder::linger)
        .with(&seconds(args.linger), GroupBuilder::listed_wait)
        .with(&args.block, GroupBuilder::block_len)
        .with(&args.key, GroupBuilder::key)
        .with(&args.allow, GroupBuilder::admit)
        .with(&args.expires, GroupBuilder::expires_in)
        .with(&args.session, GroupBuilder::session_file)
        .with(&args.to_standing.as_ref().map(|_| ""), GroupBuilder::announce)
        .with(&args.announce, GroupBuilder::announce)
        .with(&listed, GroupBuilder::listed)
        .with(&args.compress, GroupBuilder::compression)
        .with(&args.metrics, GroupBuilder::metrics)
        .with(&args.feed, |builder, feed| {
            builder.feed(feed.source).feed_rules(feed.rules).kept_objects(feed.kept)
        });
    let builder = match args.repair {
        _ if is_carousel(args) => builder.carousel(carousel::options(args)),
        Repair::Local => builder.local_groups(local::options(&args.local)?),
        Repair::Nack | Repair::Carousel => builder,
        Repair::After => builder.repair(treecast::Repair::After),
        Repair::None => builder.repair(treecast::Repair::None),
    };
    let builder = match is_stream(args) {
        true => builder.feed(FeedSource::Stream { spool: args.spool.clone() }),
        false => args.paths.iter().fold(builder, GroupBuilder::path),
    };
    Ok((builder, wanted))
}

/// A time in seconds, as long as can be told.
fn time(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}

/// Where lines come from.
fn source(feed: PathBuf) -> FeedSource {
    if feed.as_os_str() == "-" { FeedSource::StandardInput } else { FeedSource::File(feed) }
}

/// Says what becomes of a folder's files that not all receivers have, when its sender is stopped.
fn stopped(folder: &Path, summary: &SendSummary, keeps_session: bool) -> String {
    let folder = folder.display();
    let receivers = &summary.progress.receivers;
    let lacking = receivers.iter().filter(|receiver| receiver.failed + receiver.objects_missed > 0).count();
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

/// The exit code. A receiver that lacks an object which the sender could not send to its end has failed, too.
fn exit_code(summary: &SendSummary, session: Option<&Path>) -> Outcome {
    if summary.interrupted {
        return Err(match session {
            None => "interrupted: receivers keep only the files that were complete".into(),
            Some(session) => format!(
                "interrupted: receivers keep what came, and wait for the next start with --session {} (--reconnect)",
                session.display()
            )
            .into(),
        });
    }
    Ok(if summary.is_complete() { ExitCode::SUCCESS } else { ExitCode::from(3) })
}

pub(crate) fn parse_rate(text: &str) -> Result<Rate, String> {
    if text == "max" {
        return Ok(Rate(None));
    }
    let (number, unit) = match text.char_indices().next_back() {
        Some((at, 'k' | 'K')) => (&text[..at], 1e3),
        Some((at, 'M' | 'm')) => (&text[..at], 1e6),
        Some((at, 'G' | 'g')) => (&text[..at], 1e9),
        _ => (text, 1.0),
    };
    let rate = number.parse::<f64>().map(|number| number * unit).unwrap_or(f64::NAN);
    if !(rate >= *RATES_BPS.start() as f64 && rate <= *RATES_BPS.end() as f64) {
        return Err("expected bits a second from 1k to 400G, like 500M, or max".into());
    }
    Ok(Rate(Some(rate as u64)))
}

/// Parses `zstd` or `zstd:LEVEL`. Returns the level.
fn parse_compression(text: &str) -> Result<i32, String> {
    let level = match text.split_once(':') {
        None if text == "zstd" => Some(DEFAULT_LEVEL),
        Some(("zstd", level)) => level.parse().ok().filter(|level| COMPRESSION_LEVELS.contains(level)),
        _ => None,
    };
    level.ok_or_else(|| {
        format!("expected zstd, or zstd:{} to zstd:{}", COMPRESSION_LEVELS.start(), COMPRESSION_LEVELS.end())
    })
}

fn parse_fec(text: &str) -> Result<Fec, String> {
    match text {
        "auto" => return Ok(Fec(Some(Share::Auto))),
        "none" => return Ok(Fec(None)),
        _ => {}
    }
    let percent = text.strip_suffix('%').and_then(|number| number.parse().ok());
    let percent = percent.filter(|percent| (1..=MAX_FEC_PERCENT).contains(percent));
    percent.map(|percent| Fec(Some(Share::Percent(percent)))).ok_or_else(|| {
        format!(
            "expected a whole number from 1% to {MAX_FEC_PERCENT}% (so many repair symbols for 100 packets of a file), auto or none"
        )
    })
}

fn parse_factor(text: &str) -> Result<f64, String> {
    let factor = text.parse::<f64>().unwrap_or(f64::NAN);
    if (0.0..=1e6).contains(&factor) { Ok(factor) } else { Err("expected a number of 0 or more".into()) }
}

/// Parses the length of a block, in bytes. This is the limit of the header; the interface's MTU allows less.
fn parse_block(text: &str) -> Result<u16, String> {
    let bytes = text.parse().ok().filter(|bytes: &u16| BLOCK_LENS.contains(&usize::from(*bytes)));
    bytes.ok_or_else(|| {
        let (least, most) = BLOCK_LENS.into_inner();
        format!("expected bytes from {least} to {most}, and no more than fit a packet")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_bits_a_second() {
        assert_eq!(parse_rate("max"), Ok(Rate(None)));
        assert_eq!(parse_rate("2.5G"), Ok(Rate(Some(2_500_000_000))));
        assert_eq!(parse_rate("64000"), Ok(Rate(Some(64_000))));
        for bad in ["", "M", "-1M", "1T", "nan", "0", "12", "401G", "1000G"] {
            assert!(parse_rate(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn compression_is_zstd_at_one_of_its_levels() {
        let levels = ["zstd", "zstd:1", "zstd:19"].map(|text| parse_compression(text).unwrap());
        assert_eq!(levels, [3, 1, 19]);
        for bad in ["", "gzip", "zstd:", "zstd:0", "zstd:20", "zstd:-5", "3"] {
            assert!(parse_compression(bad).unwrap_err().contains("zstd:1 to zstd:19"), "{bad}");
        }
    }

    #[test]
    fn a_share_is_a_percentage_or_follows_the_loss() {
        let shares = ["auto", "20%", "none"].map(|text| parse_fec(text).unwrap().0);
        assert_eq!(shares, [Some(Share::Auto), Some(Share::Percent(20)), None]);
        for bad in ["", "0%", "301%", "20", "-5%", "99999999999%", "on", "1.5%"] {
            assert!(parse_fec(bad).unwrap_err().contains("a whole number from 1% to 300%"), "{bad}");
        }
    }
}
