//! The options of a session, in groups of what belongs together. `--help` tells them in this order.

use std::{ffi::OsString, net::SocketAddr, path::PathBuf, time::Duration};

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use treecast::{GroupOption, limits::DEFAULT_MULTICAST_HOPS};

use super::{Dialect, Feed, HashArg, Repair, SelectionArgs, given::Given, local, start, start_at};
use crate::{
    arguments,
    group::Group,
    sharing::{SharingArgs, WireDialect},
};

/// Parses an option that the library knows by this name.
fn passed(name: &'static str) -> impl Fn(&str) -> Result<GroupOption, String> + Clone {
    move |value| GroupOption::read(name, value)
}

/// A parser of an option that the library knows by this name, and that has one of these words.
fn one_of(
    name: &'static str,
    words: impl Into<PossibleValuesParser>,
) -> impl TypedValueParser<Value = GroupOption> {
    words.into().try_map(move |word| passed(name)(&word))
}

fn fanouts() -> impl TypedValueParser<Value = GroupOption> {
    let words = [
        ("multicast", "One packet for all receivers, by IP multicast"),
        ("unicast", "A copy for each receiver"),
        ("mead", "MEADcast if routers speak it, unicast elsewhere"),
        ("xcast", "Xcast (RFC 5058) if it proves to work, unicast elsewhere"),
        ("auto", "Begin with unicast, and move each receiver to multicast or MEADcast if that reaches it"),
    ];
    one_of("fanout", words.map(|(word, help)| PossibleValue::new(word).help(help)))
}

/// The options of a session, whatever it sends.
#[derive(clap::Args)]
pub(crate) struct SessionArgs {
    // This is read first, because what is read behind it leaves what clap has found.
    #[command(flatten)]
    pub(super) given: Given,
    #[command(flatten)]
    pub(super) ways: WayArgs,
    /// The way lost packets are mended: send them again while the file goes out (nack), or afterwards (after);
    /// receivers mend them among themselves, in groups that they form (local); send the whole file again and
    /// again until nobody listens (carousel); or not at all (none)
    #[arg(long, value_enum, default_value = "nack")]
    pub(super) repair: Repair,
    /// Forward error correction: mend losses with repair symbols (RaptorQ). One symbol can replace a different
    /// lost packet at each receiver. N%, a whole number from 1% to 300%: so many symbols for 100 packets follow each
    /// part of a file, so that 200% puts three times its size on the link; auto: as many as receivers have lately lacked;
    /// none: no symbols. With --repair carousel (auto), all loops after the first
    /// consist of symbols [default: none; but with --repair nack to a multicast group, at rates up to 400M,
    /// auto as soon as several receivers have lost different packets]
    #[arg(long, value_name = "N%|auto|none", value_parser = passed("fec"), allow_hyphen_values = true)]
    pub(super) fec: Option<GroupOption>,
    #[command(flatten)]
    pub(super) network: NetworkArgs,
    #[command(flatten)]
    pub(super) pace: PaceArgs,
    #[command(flatten)]
    pub(super) start: start::StartArgs,
    #[command(flatten)]
    pub(super) ring: CarouselArgs,
    #[command(flatten)]
    pub(super) local: local::LocalArgs,
    #[command(flatten)]
    pub(super) connected: ConnectedArgs,
    #[command(flatten)]
    pub(super) mending: MendingArgs,
    #[command(flatten)]
    pub(super) security: SecurityArgs,
    /// Keep the session's state in this file. So the sender can be started again: with the same ticket and
    /// the same files, receivers fetch only what they lack. The file is made if it is missing. It contains a
    /// key, so keep it safe. none keeps no state [default: a file for --resume, which goes when everybody has everything, or after
    /// 7 days; for feeds, local groups and --dialect iotup none]
    #[arg(long, value_name = "FILE|none")]
    pub(super) session: Option<PathBuf>,
    #[command(flatten)]
    pub(super) form: FormArgs,
    #[command(flatten)]
    pub(super) invite: InviteArgs,
    #[command(flatten)]
    pub(super) show: ShowArgs,
    /// What is sent, and by which command.
    #[arg(skip)]
    pub(super) sent: Sent,
}

impl SessionArgs {
    /// What the library is told as it is.
    pub fn passed(&self) -> impl Iterator<Item = &GroupOption> {
        let Self { network, pace, mending, connected, .. } = self;
        let options = [
            &self.fec,
            &network.source,
            &network.block,
            &pace.rate,
            &pace.rate_floor,
            &pace.rates,
            &mending.retx_factor,
            &mending.retx_minimum,
            &mending.priority,
            &self.security.expires,
            &self.form.compress,
            &connected.per_address,
            &connected.give_up_after,
            &connected.at_once,
            &connected.stall_limit,
        ];
        options.into_iter().flatten().chain([&self.ways.fanout])
    }
}

/// How packets reach receivers.
#[derive(clap::Args)]
pub(super) struct WayArgs {
    /// The way a packet reaches many hosts
    #[arg(long, default_value = "multicast", value_parser = fanouts())]
    pub(super) fanout: GroupOption,
    /// The expected receivers: addresses with commas between them, or a file with an address a line. With
    /// --fanout mead or auto, the sender looks for MEADcast routers on the paths to them before they come.
    /// Without --wait, the start waits for as many receivers. A carousel sends its copies to these addresses
    #[arg(long, value_name = "FILE|ADDR,...")]
    pub(super) receivers: Option<String>,
    #[command(flatten)]
    pub(super) sharing: SharingArgs,
    /// Believe only MEADcast routers that have the domain's key, a file with 64 hexadecimal digits. The sender
    /// proves to them and to Xcast routers that it has the key, too, because routers with a key make copies for
    /// no other senders
    #[arg(long, value_name = "FILE")]
    pub(super) domain_key: Option<PathBuf>,
    /// The order of bits in MEADcast's headers [default: rfc]
    #[arg(long, value_enum, value_name = "DIALECT")]
    pub(super) mead_dialect: Option<WireDialect>,
}

/// The addresses and packets of a session.
#[derive(clap::Args)]
pub(super) struct NetworkArgs {
    /// Multicast group, with or without a port [default: a random one of site scope]
    #[arg(long, value_name = "ADDR[:PORT]", value_parser = Group::parse)]
    pub(super) group: Option<Group>,
    /// Network interface to send on [default: the one of the route]
    #[arg(long, value_name = "IF")]
    pub(super) interface: Option<String>,
    /// Source-specific multicast: receivers listen only to this address of the interface
    #[arg(long, value_name = "ADDR", value_parser = passed("source"))]
    pub(super) source: Option<GroupOption>,
    /// Hop limit of multicast packets: the number of routers that they may cross
    #[arg(long, default_value_t = DEFAULT_MULTICAST_HOPS, value_parser = clap::value_parser!(u32).range(1..=255),
          allow_negative_numbers = true)]
    pub(super) ttl: u32,
    /// The bytes of a file in each packet [default: as many as the interface's MTU allows]
    #[arg(long, value_name = "BYTES", value_parser = passed("block"), allow_hyphen_values = true)]
    pub(super) block: Option<GroupOption>,
}

/// How fast a session sends.
#[derive(clap::Args)]
pub(super) struct PaceArgs {
    /// The rate in bits a second, like 100M. It counts IP packets, headers included (500k, 100M, 2.5G), and is for a path where that
    /// much is reserved. auto: what the path to the worst receiver delivers, shared with other traffic; tfmcc: as much
    /// as a TCP connection to the worst receiver would get; max: as fast as the slowest attentive receiver takes
    /// it [default: auto; a carousel: 50M; local groups: 100M]
    #[arg(long, value_parser = passed("rate"), allow_hyphen_values = true)]
    pub(super) rate: Option<GroupOption>,
    /// The lowest rate that receivers may force, in bits a second. The sender does not slow down further for
    /// receivers that can take less. They get lost packets as retransmissions
    #[arg(long, value_name = "RATE", value_parser = passed("rate-floor"), allow_hyphen_values = true)]
    pub(super) rate_floor: Option<GroupOption>,
    /// Several rates at once, from fast to slow (500M,100M,20M), in the form of --rate. As many groups carry
    /// the same files. A receiver that loses more than a tenth of its packets moves to the next slower group,
    /// which carries what its members lack. Slow receivers do not slow down fast ones. A carousel's receivers
    /// listen to all groups at first, and leave the fastest ones when they lose packets
    #[arg(long, value_name = "RATE,RATE...", value_parser = passed("rates"), allow_hyphen_values = true)]
    pub(super) rates: Option<GroupOption>,
}

/// What only a carousel has.
#[derive(clap::Args)]
pub(super) struct CarouselArgs {
    /// End when nobody has listened for this many seconds. With --receivers, ICMP errors must say so
    /// [default: 10]
    #[arg(long, value_name = "SECONDS", value_parser = arguments::seconds, allow_hyphen_values = true)]
    pub(super) idle: Option<u64>,
    /// End after this many loops [default: go on while somebody listens, or until Ctrl-C]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), allow_negative_numbers = true)]
    pub(super) loops: Option<u64>,
    /// The packets: those of a treecast session, or those of librecast's IoT updater, which sends one file in
    /// loops
    #[arg(long, value_enum, default_value = "session")]
    pub(super) dialect: Dialect,
    /// The hash of the file in each frame; receivers' programs must be built with the same one
    /// [default: blake2b]
    #[arg(long, value_enum)]
    pub(super) hash: Option<HashArg>,
}

/// What only a session has whose receivers connect to the sender.
#[derive(clap::Args)]
pub(super) struct ConnectedArgs {
    /// The address for control connections [default: any address, a free port]
    #[arg(long, value_name = "ADDR:PORT", value_parser = arguments::address_and_port)]
    pub(super) control: Option<SocketAddr>,
    /// Do not start before this time: 22:00 (the next one), "2026-11-30 22:00:00" (with a Z behind it: UTC) or +30m.
    /// Receivers can come before; --wait-timeout counts from then on
    #[arg(long, value_name = "TIME", value_parser = start_at::parse, allow_hyphen_values = true)]
    pub(super) start_at: Option<Duration>,
    /// Admit at most this many receivers from one address [default: 256]
    #[arg(long, value_name = "N", value_parser = passed("per-address"), allow_hyphen_values = true)]
    pub(super) per_address: Option<GroupOption>,
    /// Give up on receivers that do not have everything after this time, counted from the first packet: a time such as
    /// 2m, or x3 for three times as long as it took to send everything once (5 s at least). The session then ends
    /// with exit code 3 [default: never]
    #[arg(long, value_name = "TIME|xFACTOR", value_parser = passed("give-up-after"), allow_hyphen_values = true)]
    pub(super) give_up_after: Option<GroupOption>,
    /// The number of files that are multicast at the same time, in turns; 1 sends one after the other [default:
    /// 64; `treecast feed`: 4]
    #[arg(long, value_name = "N", value_parser = passed("at-once"), allow_hyphen_values = true)]
    pub(super) at_once: Option<GroupOption>,
    /// Give up on a receiver that is silent for this many seconds while it owes an answer, because it was
    /// stopped or its host hangs. A receiver that is only slow reports every few seconds [default: 120]
    #[arg(long, value_name = "SECONDS", value_parser = passed("stall-limit"), allow_hyphen_values = true)]
    pub(super) stall_limit: Option<GroupOption>,
    /// When all other receivers are done, wait this many seconds for a receiver whose connection broke to come
    /// back [default: 10; a carousel waits for nobody]
    #[arg(long, value_name = "SECONDS", value_parser = arguments::time, allow_hyphen_values = true)]
    pub(super) linger: Option<Duration>,
    /// Write a row for each receiver to this file at the end, as comma-separated values. A row has its state, what it has and
    /// lacks, and its times
    #[arg(long, value_name = "FILE.csv")]
    pub(super) report: Option<PathBuf>,
}

/// Retransmissions to single receivers.
#[derive(clap::Args)]
pub(super) struct MendingArgs {
    /// Give up on retransmissions of a file after X times as long as its multicast took [default: never]
    #[arg(long, value_name = "X", value_parser = passed("retx-factor"), allow_hyphen_values = true)]
    pub(super) retx_factor: Option<GroupOption>,
    /// The shortest time for --retx-factor, in seconds [default: 2]
    #[arg(long, value_name = "SECONDS", value_parser = passed("retx-minimum"), allow_hyphen_values = true)]
    pub(super) retx_minimum: Option<GroupOption>,
    /// The order if the rate is not enough for both multicast and retransmissions. multicast: it goes first, so
    /// that slow receivers do not slow down fast ones; fair: retransmissions get up to half of the rate
    /// [default: multicast]
    #[arg(long, value_parser = one_of("priority", ["multicast", "fair"]))]
    pub(super) priority: Option<GroupOption>,
}

/// Who is admitted.
#[derive(clap::Args)]
pub(super) struct SecurityArgs {
    /// Send without security: nothing is encrypted, and nobody proves their identity
    #[arg(long)]
    pub(super) plain: bool,
    /// The key that identifies the sender. Its name (see `treecast keys`) or file [default: a key made for the
    /// session]
    #[arg(long, value_name = "NAME|PATH")]
    pub(super) key: Option<String>,
    /// Admit only the receivers whose public keys are in this file, one a line [default: everybody who has the
    /// ticket]
    #[arg(long, value_name = "FILE")]
    pub(super) allow: Option<PathBuf>,
    /// Admit no receiver after this time, like 30m, 12h or 7d [default: never]
    #[arg(long, value_name = "DURATION", value_parser = passed("expires"), allow_hyphen_values = true)]
    pub(super) expires: Option<GroupOption>,
}

/// In which form files are sent.
#[derive(clap::Args)]
pub(super) struct FormArgs {
    /// Compress files by zstd, at level 1 to 19 [default level: 3]. A file is sent as it is where a sample of it does not
    /// become smaller. Receivers need no option
    #[arg(long, value_name = "zstd[:LEVEL]", value_parser = passed("compress"))]
    pub(super) compress: Option<GroupOption>,
    /// Compress files by zstd. As --compress zstd
    #[arg(short = 'z', overrides_with = "compress")]
    pub(super) zstd: bool,
    /// Update by difference: receivers that have an older version of a file fetch only what differs, and all say what they lack
    /// before anything goes out, once for all. An older version is what has the file's name in a receiver's folder
    /// (`treecast receive --old`). Files under 256 KiB go out whole. A carousel's loops bring what
    /// its receivers lack; with --fec, --rates or --session they bring everything
    #[arg(long)]
    pub(super) delta: bool,
}

/// How receivers get the ticket.
#[derive(clap::Args)]
pub(super) struct InviteArgs {
    /// Write the ticket to this file, too
    #[arg(long, value_name = "PATH")]
    pub(super) ticket_file: Option<PathBuf>,
    /// Announce the session on the network. That lasts as long as the session (--announce=NAME: under this name), is signed with the
    /// sender's key, and is for anybody who asks (`treecast discover`): whoever hears it gets the ticket, so add --allow where not everybody may have the
    /// files. Standing receivers take it only with --to-standing [default name: that of the first file]
    #[arg(long, value_name = "NAME", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    pub(super) announce: Option<String>,
    /// Send to these standing receivers and nobody else. These are hosts that run `treecast receive --standing`: names or keys with
    /// commas between them, or a file with one a line, a key with a name behind it; or any, for all that trust the key. The session is
    /// announced to them. It starts with all of them, or after --wait-timeout with those that are there, and ends when each
    /// has every file and its rule's command has ended, or after --linger. A name that nobody has is told with the nearest
    /// one, and a table says who lacks what. With --announce, people may have it, too
    #[arg(long, value_name = "NAME,...")]
    pub(super) to_standing: Option<String>,
    /// Print a code for receivers on this network, too. It has three words, and brings them the ticket (`treecast receive CODE`).
    /// After five wrong codes it is of no use any more
    #[arg(long)]
    pub(super) code: bool,
}

/// What the sender tells of the session.
#[derive(clap::Args)]
pub(super) struct ShowArgs {
    /// Answer Prometheus at http://ADDR:PORT/metrics
    #[arg(long, value_name = "ADDR:PORT", value_parser = arguments::address_and_port)]
    pub(super) metrics: Option<SocketAddr>,
    /// One JSON event a line on standard output
    #[arg(long)]
    pub(super) json: bool,
}

/// What a session sends. Each command has arguments of its own for it.
#[derive(Default)]
pub(super) struct Sent {
    /// What is read while the session runs.
    pub(super) feed: Option<Feed>,
    /// What is sent from the beginning.
    pub(super) paths: Vec<PathBuf>,
    /// What of the folders among them is sent.
    pub(super) selection: SelectionArgs,
    /// The command line, with what the configuration adds. `--resume` starts with it.
    pub(super) arguments: Vec<OsString>,
    /// The folder where standard input is kept.
    pub(super) spool: Option<PathBuf>,
}
