//! `treecast send`: parses the arguments, and prints progress and a summary.

mod carousel;
mod code;
pub(crate) mod display;
mod kept;
mod local;
mod orders;
mod rate;
mod receivers;
mod refused;
mod report;
mod standing;
mod start;
mod start_at;
mod ticket_file;

use std::{
    ffi::OsString,
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
    process::ExitCode,
    time::{Duration, UNIX_EPOCH},
};

use clap::ValueEnum;
use treecast::{
    Group as Session, GroupBuilder, Rate as SessionRate,
    limits::{BLOCK_LENS, COMPRESSION_LEVELS, DEFAULT_MULTICAST_HOPS, MAX_FEC_PERCENT, RATES_BPS},
    unstable::{
        Stop,
        options::{FeedSource, GiveUp, Priority, Rule, Share},
        watch::{SendEvent, SendSummary},
    },
};
use treecast_host::quantity::{self, QuantityError};

use self::{kept::Kept, orders::Orders, report::Report, ticket_file::TicketFile};
use crate::{
    Outcome,
    arguments::{self, With, counted},
    config::Origins,
    figures::bytes,
    group::Group,
    mead::sharing::{Grouping, SharingArgs, WireDialect},
};

/// The level of zstd where none is asked for: its own default.
const DEFAULT_LEVEL: i32 = 3;

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
    #[arg(long, value_name = "FILE")]
    domain_key: Option<PathBuf>,
    /// The order of bits in MEADcast's headers [default: rfc]
    #[arg(long, value_enum, value_name = "DIALECT")]
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
    /// The rate in bits a second, like 100M. It counts IP packets, headers included (500k, 100M, 2.5G), and is for a path where that
    /// much is reserved. auto: what the path to the worst receiver delivers, shared with other traffic; tfmcc: as much
    /// as a TCP connection to the worst receiver would get; max: as fast as the slowest attentive receiver takes
    /// it [default: auto; a carousel: 50M; local groups: 100M]
    #[arg(long, value_parser = rate::parse_asked, allow_hyphen_values = true)]
    rate: Option<SessionRate>,
    /// The lowest rate that receivers may force, in bits a second. The sender does not slow down further for
    /// receivers that can take less. They get lost packets as retransmissions
    #[arg(long, value_name = "RATE", value_parser = rate::parse_floor, allow_hyphen_values = true)]
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
    #[arg(long, value_name = "SECONDS", value_parser = arguments::seconds, allow_hyphen_values = true)]
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
    #[arg(long, value_name = "X", value_parser = parse_factor, allow_hyphen_values = true)]
    retx_factor: Option<f64>,
    /// The shortest time for --retx-factor, in seconds [default: 2]
    #[arg(long, value_name = "SECONDS", value_parser = parse_minimum, allow_hyphen_values = true)]
    retx_minimum: Option<Duration>,
    /// Give up on receivers that do not have everything after this time, counted from the first packet: a time such as
    /// 2m, or x3 for three times as long as it took to send everything once (5 s at least). The session then ends
    /// with exit code 3 [default: never]
    #[arg(long, value_name = "TIME|xFACTOR", value_parser = parse_give_up, allow_hyphen_values = true)]
    give_up_after: Option<GiveUp>,
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
    #[arg(long, value_name = "SECONDS", value_parser = arguments::stall_limit, allow_hyphen_values = true)]
    stall_limit: Option<u64>,
    /// When all other receivers are done, wait this many seconds for a receiver whose connection broke to come
    /// back [default: 10; a carousel waits for nobody]
    #[arg(long, value_name = "SECONDS", value_parser = arguments::seconds, allow_hyphen_values = true)]
    linger: Option<u64>,
    /// The bytes of a file in each packet [default: as many as the interface's MTU allows]
    #[arg(long, value_name = "BYTES", value_parser = parse_block, allow_hyphen_values = true)]
    block: Option<u16>,
    /// Send without security: nothing is encrypted, and nobody proves their identity
    #[arg(long)]
    plain: bool,
    /// The key that identifies the sender. Its name (see `treecast keys`) or file [default: a key made for the
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
    /// Keep the session's state in this file. So the sender can be started again: with the same ticket and
    /// the same files, receivers fetch only what they lack. The file is made if it is missing. It contains a
    /// key, so keep it safe. none keeps no state [default: a file for --resume, which goes when everybody has everything, or after
    /// 7 days; for feeds, local groups and --dialect iotup none]
    #[arg(long, value_name = "FILE|none")]
    session: Option<PathBuf>,
    /// Compress files by zstd, at level 1 to 19 [default level: 3]. A file is sent as it is where a sample of it does not
    /// become smaller. Receivers need no option
    #[arg(long, value_name = "zstd[:LEVEL]", value_parser = parse_compression)]
    compress: Option<i32>,
    /// Compress files by zstd. As --compress zstd
    #[arg(short = 'z', overrides_with = "compress")]
    zstd: bool,
    /// Update by difference: receivers that have an older version of a file fetch only what differs, and all say what they lack
    /// before anything goes out, once for all. An older version is what has the file's name in a receiver's folder
    /// (`treecast receive --old`). Files under 256 KiB go out whole. A carousel's loops bring what
    /// its receivers lack; with --fec, --rates or --session they bring everything
    #[arg(long)]
    delta: bool,
    /// Write the ticket to this file, too
    #[arg(long, value_name = "PATH")]
    ticket_file: Option<PathBuf>,
    /// Announce the session on the network. That lasts as long as the session (--announce=NAME: under this name), is signed with the
    /// sender's key, and is for anybody who asks (`treecast discover`): whoever hears it gets the ticket, so add --allow where not everybody may have the
    /// files. Standing receivers take it only with --to-standing [default name: that of the first file]
    #[arg(long, value_name = "NAME", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    announce: Option<String>,
    /// Send to these standing receivers and nobody else. These are hosts that run `treecast receive --standing`: names or keys with
    /// commas between them, or a file with one a line, a key with a name behind it; or any, for all that trust the key. The session is
    /// announced to them. It starts with all of them, or after --wait-timeout with those that are there, and ends when each
    /// has every file and its rule's command has ended, or after --linger. A name that nobody has is told with the nearest
    /// one, and a table says who lacks what. With --announce, people may have it, too
    #[arg(long, value_name = "NAME,...")]
    to_standing: Option<String>,
    /// Print a code for receivers on this network, too. It has three words, and brings them the ticket (`treecast receive CODE`).
    /// After five wrong codes it is of no use any more
    #[arg(long)]
    code: bool,
    /// Answer Prometheus at http://ADDR:PORT/metrics
    #[arg(long, value_name = "ADDR:PORT", value_parser = arguments::address_and_port)]
    metrics: Option<SocketAddr>,
    /// Write a row for each receiver to this file at the end, as comma-separated values. A row has its state, what it has and
    /// lacks, and its times
    #[arg(long, value_name = "FILE.csv")]
    report: Option<PathBuf>,
    /// One JSON event a line on standard output
    #[arg(long)]
    json: bool,
    /// What is read while the session runs.
    #[arg(skip)]
    feed: Option<Feed>,
    /// What is sent from the beginning.
    #[arg(skip)]
    paths: Vec<PathBuf>,
    /// What of the folders among them is sent.
    #[arg(skip)]
    selection: SelectionArgs,
    /// The command line, with what the configuration adds. `--resume` starts with it.
    #[arg(skip)]
    arguments: Vec<OsString>,
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

/// `arguments`: the command line with what the configuration adds.
pub fn run(args: Args, arguments: Vec<OsString>) -> Outcome {
    let Args { mut session, feed, spool, selection, resume, paths, profile: _, no_config: _ } = args;
    if let Some(which) = resume {
        return go_on(&which);
    }
    session.feed = feed.map(|feed| Feed { source: source(feed), rules: Vec::new(), kept: 0 });
    (session.paths, session.selection) = (paths, selection);
    session.spool = spool;
    session.arguments = arguments;
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
    (session.paths, session.selection) = (paths, selection);
    if !kept::is_present("--start-at") {
        // A time of day, or one from now, was meant when the session began.
        session.start.start_at = command.start_at.map(Duration::from_secs);
    }
    hold_session(session, Some(kept))
}

/// Sends the files of a feed: so many at once, and waiting so long for receivers, unless options say otherwise.
pub(crate) fn run_feed(
    mut session: SessionArgs,
    feed: Feed,
    exclude: Vec<String>,
    at_once: u32,
    wait_timeout: Duration,
) -> Outcome {
    if is_carousel(&session) {
        return Err("a carousel sends what it began with, and a feed goes on: take another --repair, or --dialect session".into());
    }
    session.feed = Some(feed);
    session.selection.exclude = exclude;
    if session.repair != Repair::Local {
        session.at_once.get_or_insert(at_once);
    }
    session.start.wait_timeout.get_or_insert(wait_timeout.as_secs());
    hold_session(session, None)
}

/// Holds a session. Its state is kept for `--resume`, unless it is kept elsewhere or not at all.
fn hold_session(mut args: SessionArgs, resumed: Option<Kept>) -> Outcome {
    args.compress = args.compress.or(args.zstd.then_some(DEFAULT_LEVEL));
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
    if let Some(hint) = args.group.as_ref().and_then(Group::hint) {
        remark!("treecast: {hint}");
    }
    standing::hint(args).into_iter().for_each(|hint| remark!("treecast: {hint}"));
    args.start.start_at.map(start_at::remark).into_iter().for_each(|line| remark!("treecast: {line}"));
    if is_carousel(args) {
        return carousel::run(args, builder);
    }
    let report = Report::open(args)?;
    let mut display = display::Display::new(
        args.json,
        wanted,
        orders::is_at_terminal(args),
        if is_stream(args) { display::PIECE } else { "file" },
    );
    // Standing receivers that are named get the ticket by its announcement, and nobody else may have it.
    display.is_for_anybody = args.to_standing.is_none() || args.announce.is_some();
    let summary = hold(args, builder, &mut |event| display.show(event))?;
    display.finish(&summary);
    report.map_or(Ok(()), |report| report.write(display.session(), &summary.progress))?;
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
    let ticket_file = TicketFile { path: args.ticket_file.clone() };
    let mut failed_ticket = None;
    let mut offer = None;
    let mut on_event = |event: &SendEvent| {
        if matches!(event, SendEvent::Started { .. }) {
            orders.iter().for_each(Orders::end);
        }
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
    let listed = standing::listed(args)?;
    let sharing = args.sharing.sharing(Grouping::Cost, args.mead_dialect, args.domain_key.as_deref())?;
    let seconds = |seconds: Option<u64>| seconds.map(Duration::from_secs);
    // These start with fewer when the time is over.
    let has_end = args.to_standing.is_some() || args.start.wait_at_least.is_some();
    let patience = args.start.patience(orders::is_at_terminal(args) && !has_end);
    let builder = Session::builder()
        .fanout(args.fanout.into())
        .receivers(named)
        .sharing(sharing)
        .ttl(args.ttl as u8)
        .wait(wanted)
        .answer_status()
        .when(args.plain, GroupBuilder::plain)
        .when(args.delta, GroupBuilder::delta)
        .when(args.selection.strict, GroupBuilder::strict)
        .with(&args.priority.map(Priority::from), GroupBuilder::priority)
        .with(&args.group, |builder, group| {
            builder.group(group.address).with(&group.port, GroupBuilder::port)
        })
        .with(&args.interface, GroupBuilder::interface)
        .with(&args.source, GroupBuilder::source)
        .with(&args.control, GroupBuilder::control)
        .with(&args.rate, GroupBuilder::rate)
        .with(&args.rate_floor, GroupBuilder::rate_floor)
        .with(&args.rates, |builder, rates| builder.rates(rates.0))
        .with(&args.fec, |builder, Fec(share)| builder.fec(share))
        .with(&args.start.start_at.map(|at| UNIX_EPOCH + at), GroupBuilder::start_at)
        .with(&seconds(patience), GroupBuilder::wait_timeout)
        .with(&args.start.wait_at_least, GroupBuilder::wait_at_least)
        .with(&args.start.per_address, GroupBuilder::per_address)
        .with(&args.retx_factor, GroupBuilder::retx_factor)
        .with(&args.retx_minimum, GroupBuilder::retx_minimum)
        .with(&args.give_up_after, GroupBuilder::give_up_after)
        .with(&args.at_once.map(|at_once| at_once as usize), GroupBuilder::at_once)
        .with(&seconds(args.stall_limit), GroupBuilder::stall_limit)
        .with(&seconds(args.linger), GroupBuilder::linger)
        .with(&seconds(args.linger), GroupBuilder::listed_wait)
        .with(&args.block, GroupBuilder::block)
        .with(&args.key, GroupBuilder::key)
        .with(&args.allow, GroupBuilder::allow)
        .with(&args.expires, GroupBuilder::expires)
        .with(&args.session, GroupBuilder::session)
        .with(&args.announce, GroupBuilder::announce)
        .with(&listed, GroupBuilder::to_standing)
        .when(listed.is_some(), |builder| builder.with(&seconds(args.linger), GroupBuilder::results_wait))
        .with(&args.compress, GroupBuilder::compress)
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
    let builder = args.selection.exclude.iter().fold(builder, GroupBuilder::exclude);
    Ok((builder, wanted))
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
    rate_bps(text).map(|bps| Rate(Some(bps))).map_err(|error| error.or("max"))
}

/// Parses a rate at which packets can be sent, in bits a second.
fn rate_bps(text: &str) -> Result<u64, QuantityError> {
    quantity::rate_bps(text, RATES_BPS)
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
    let share = quantity::share(text, 0.01..=f64::from(MAX_FEC_PERCENT) / 100.0);
    let percent = share.map_err(|error| error.or("auto, or none").to_string())? * 100.0;
    if (percent - percent.round()).abs() > 1e-6 {
        return Err(format!("expected a whole number from 1% to {MAX_FEC_PERCENT}%, auto, or none"));
    }
    Ok(Fec(Some(Share::Percent(percent.round() as u32))))
}

/// Parses a time that may be 0.
fn parse_minimum(text: &str) -> Result<Duration, QuantityError> {
    quantity::time(text, Duration::ZERO..=arguments::LONGEST_TIME)
}

fn parse_factor(text: &str) -> Result<f64, String> {
    let factor = text.parse::<f64>().unwrap_or(f64::NAN);
    if (0.0..=1e6).contains(&factor) { Ok(factor) } else { Err("expected a number of 0 or more".into()) }
}

/// Parses when receivers are given up: a time, or a multiple of the time that sending takes.
fn parse_give_up(text: &str) -> Result<GiveUp, String> {
    const FACTOR: &str = "x3 for three times as long as sending takes";
    match text.strip_prefix('x') {
        Some(factor) => {
            let factor = factor.parse::<f64>().ok().filter(|factor| (1.0..=1e6).contains(factor));
            factor.map(GiveUp::Times).ok_or_else(|| format!("expected x1 to x1000000, like {FACTOR}"))
        }
        None => arguments::duration(text).map(GiveUp::After).map_err(|error| error.or(FACTOR).to_string()),
    }
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
        assert_eq!(parse_rate("2.5Gbit"), Ok(Rate(Some(2_500_000_000))));
        assert_eq!(parse_rate("64000"), Ok(Rate(Some(64_000))));
        for bad in ["0", "401G"] {
            let line = parse_rate(bad).unwrap_err().to_string();
            assert!(line.contains("from 1k to 400G") && line.ends_with(", or max"), "{line}");
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
        for bad in ["", "0%", "301%", "20", "-5%", "99999999999%", "on"] {
            let line = parse_fec(bad).unwrap_err();
            assert!(line.contains("a share from 1% to 300%, like 10%, or auto, or none"), "{line}");
        }
        assert!(parse_fec("1.5%").unwrap_err().contains("a whole number from 1% to 300%"));
    }
}
