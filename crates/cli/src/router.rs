//! `treecast router`: the MEADcast and Xcast router, and commands for the running one.

use std::{collections::BTreeMap, path::PathBuf, process::ExitCode, time::Duration};

use treecast_dataplane::explicit::{
    self, Config, Leaving, MAX_ALLOWED, Notice, Registered, Setting, Status, Xcast, check,
};
use treecast_proto::explicit::mead::router::{Prefix, ReversePath};
use treecast_wire::mead::{Dialect, MAX_ADDRESSES};

use crate::{
    Outcome,
    arguments::seconds,
    domain_key,
    mroute::{Control, table},
};

/// The largest value of --min-dsts. It is more than a packet has receivers, so no packet is replicated then.
const MAX_MIN_DSTS: i64 = MAX_ADDRESSES as i64;

/// The default of --copies-per-second. A sender with a link of 10 Gbit/s, each of whose full packets becomes
/// five, needs fewer.
const COPIES_PER_SECOND: u32 = 5_000_000;

/// Forward MEADcast and Xcast packets between this host's networks
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Run(Run),
    /// Show what the running router has seen and done
    Status {
        /// One JSON object instead of tables
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        control: Control,
    },
    /// Change the settings of the running router; this loses no MEADcast packet
    Set {
        #[command(subcommand)]
        change: Change,
        #[command(flatten)]
        control: Control,
    },
    /// Remove what a killed router has left at this host's interfaces
    Clean,
    /// Compare this build's eBPF program, in this kernel, with the reference model, on random packets
    Check {
        /// The number of packets
        #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
        packets: u64,
        /// The seed of the random packets
        #[arg(long, value_name = "N", default_value_t = 1)]
        seed: u64,
    },
}

/// Forward MEADcast and Xcast until SIGINT or SIGTERM, and then until senders have found other ways; a second
/// signal ends it at once
///
/// An eBPF program handles MEADcast packets at the named interfaces. It replicates them for other routers, and
/// turns them into unicast for the receivers behind this router. An Xcast packet (RFC 5058; not with --dialect
/// linux-6.5) goes once to each next hop of its destinations, and as unicast to the last one. All other packets
/// pass after one look. Prints "ready" when it serves.
#[derive(clap::Args)]
#[command(group(clap::ArgGroup::new("where").args(["interfaces", "all"]).required(true)))]
struct Run {
    /// Ethernet interface where packets come in (may be repeated)
    #[arg(long = "interface", value_name = "IF")]
    interfaces: Vec<String>,
    /// Serve all Ethernet interfaces that are up (also those that appear later)
    #[arg(long)]
    all: bool,
    /// Use unicast for fewer receivers. A packet becomes unicast early if a router, or with Xcast a next hop, has fewer
    /// receivers (0: never)
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u8).range(..=MAX_MIN_DSTS))]
    min_dsts: u8,
    /// The form of headers: rfc, or linux-6.5 for senders and routers of the thesis
    #[arg(long, value_name = "DIALECT", default_value = "rfc", value_parser = dialect)]
    dialect: Dialect,
    /// Be the designated router of the hosts. Serve those that join groups: ask on all links who listens (MLD). If a sender uses
    /// such a group (`treecast mead --designated GROUP`), serve its listeners by one multicast packet a link
    #[arg(long)]
    designated: bool,
    /// Be the Xcast+ router of the hosts (RFC 5058). It is the designated router for the hosts on all links. For receivers: register at the
    /// senders whose channels (source and group) they join by MLDv2, and multicast to them what comes by Xcast.
    /// For senders: take the registrations of other routers, and turn the senders' multicast packets into Xcast
    /// for these routers. Do not use this where `treecast mroute` forwards the same groups
    #[arg(long)]
    xcast_plus: bool,
    /// A file with the domain's key. It has 64 hexadecimal digits. Discovery responses and registrations prove that
    /// they come from the domain. The router answers discovery, and makes copies, only for senders that prove
    /// the same (`treecast mead --key`, `treecast send --domain-key`); packets of others pass as if there were
    /// no router. The clocks of all hosts may differ by ten minutes
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// The check of a packet's source, by the interface where the packet came in. strict: the route to the
    /// source must lead to that interface; loose: there must be a route to the source (for asymmetric routes;
    /// packets become multicast only as with strict); off: no check. Other packets are dropped
    #[arg(long, value_name = "MODE", value_enum, default_value_t = Rpf::Strict)]
    rpf: Rpf,
    /// Make copies only for sources in this network. May be repeated; packets of others pass as if there were no router
    #[arg(long = "allow-source", value_name = "PREFIX")]
    allowed: Vec<Prefix>,
    /// Most copies a second. This limit is for the sources of one /64 network, and each datagram of a
    /// super-packet counts. Packets above this limit pass as if there were no router (0: no limit)
    #[arg(long, value_name = "N", default_value_t = COPIES_PER_SECOND)]
    copies_per_second: u32,
    /// Let the kernel forward all copies, with its firewall and policy routing; this is slower. Without this
    /// option, copies skip the firewall's rules for forwarding
    #[arg(long)]
    through_kernel: bool,
    /// Run as a filter of `tc`, after the other filters of an interface, and not before them. All traffic then
    /// pays about twice as much
    #[arg(long, conflicts_with = "user_space")]
    as_filter: bool,
    /// Forward in user space, for hosts where no eBPF program may be loaded. Slow; super-packets are divided
    #[arg(long, conflicts_with = "through_kernel")]
    user_space: bool,
    /// The longest time in seconds to go on acting on data after a signal or `set disable`, until senders have
    /// found other ways (0: do not wait)
    #[arg(long, value_name = "SECONDS", default_value = "75", value_parser = seconds, allow_hyphen_values = true)]
    leave_within: u64,
    #[command(flatten)]
    control: Control,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Rpf {
    Strict,
    Loose,
    Off,
}

impl From<Rpf> for ReversePath {
    fn from(rpf: Rpf) -> Self {
        match rpf {
            Rpf::Strict => Self::Strict,
            Rpf::Loose => Self::Loose,
            Rpf::Off => Self::Off,
        }
    }
}

#[derive(clap::Subcommand)]
enum Change {
    /// Act on MEADcast packets
    Enable,
    /// Pass MEADcast packets on like all others, once senders have found other ways: stop answering discovery,
    /// and act on data as long as some comes for this router's receivers (see `run --leave-within`). Senders of
    /// Xcast do not look for other ways
    Disable {
        /// Do not wait. Until senders look for routers again, only the first receiver of each packet gets it
        #[arg(long)]
        now: bool,
    },
    /// Turn packets for a router with fewer receivers than N into unicast
    MinDsts {
        /// The number of receivers that a router must have to get a copy of its own (0: any)
        #[arg(value_parser = clap::value_parser!(u8).range(..=MAX_MIN_DSTS))]
        n: u8,
    },
}

pub fn run(args: Args) -> Outcome {
    match args.command {
        Command::Run(args) => serve(args)?,
        Command::Status { json, control } => {
            let status = explicit::show(control.path.as_deref())?;
            match json {
                true => say!("{}", serde_json::to_string(&status)?),
                false => print_status(&status),
            }
        }
        Command::Set { change, control } => {
            let setting = match change {
                Change::Enable => Setting::Enabled(true),
                Change::Disable { now: true } => Setting::Enabled(false),
                Change::Disable { now: false } => Setting::Leave,
                Change::MinDsts { n } => Setting::MinDsts(n),
            };
            explicit::set(control.path.as_deref(), setting)?;
        }
        Command::Clean => print_clean(&explicit::clean()?),
        Command::Check { packets, seed } => print_check(packets, seed)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn serve(args: Run) -> Result<(), Box<dyn std::error::Error>> {
    if args.xcast_plus && args.dialect != Dialect::Rfc {
        return Err(
            "--xcast-plus needs --dialect rfc: in the other one MEADcast has Xcast's routing type, too"
                .into(),
        );
    }
    if args.allowed.len() > MAX_ALLOWED {
        return Err(format!(
            "--allow-source: {} prefixes named, at most {MAX_ALLOWED} may be",
            args.allowed.len()
        )
        .into());
    }
    let key = args.key.as_deref().map(domain_key::read).transpose()?;
    let config = Config {
        interfaces: args.interfaces,
        min_dsts: args.min_dsts,
        dialect: args.dialect,
        is_designated: args.designated,
        is_xcast_plus: args.xcast_plus,
        key,
        reverse_path: args.rpf.into(),
        allowed: args.allowed,
        copies_per_second: args.copies_per_second,
        through_kernel: args.through_kernel,
        as_filter: args.as_filter,
        user_space: args.user_space,
        leave_within: Duration::from_secs(args.leave_within),
        control: args.control.path,
    };
    explicit::run(&config, &mut |notice| match notice {
        Notice::Ready => say!("ready"),
        Notice::Warning(warning) => remark!("treecast router: {warning}"),
    })?;
    Ok(())
}

fn dialect(text: &str) -> Result<Dialect, &'static str> {
    match text {
        "rfc" => Ok(Dialect::Rfc),
        "linux-6.5" => Ok(Dialect::Linux65),
        _ => Err("rfc or linux-6.5"),
    }
}

fn print_clean(interfaces: &[String]) {
    match interfaces {
        [] => say!("no router that was killed has left anything here"),
        interfaces => say!("taken away from {}", interfaces.join(", ")),
    }
}

fn print_check(packets: u64, seed: u64) -> Result<(), Box<dyn std::error::Error>> {
    let report = check::run(packets, seed, &mut |done| {
        if done > 0 && done.is_multiple_of(1_000_000) {
            remark!("{done} packets are alike");
        }
    });
    let report = report.map_err(|error| error.to_string())?;
    let outcomes = report.outcomes.iter().map(|(outcome, count)| [outcome.clone(), count.to_string()]);
    table(["OUTCOME", "PACKETS"], outcomes);
    say!("{} packets in, {} out: program and model are alike.", report.packets, report.out);
    Ok(())
}

fn print_status(status: &Status) {
    let state = match &status.leaving {
        Some(leaving) => state_of(leaving),
        None if status.is_enabled => "enabled".to_owned(),
        None => "disabled".to_owned(),
    };
    say!("{state}, min-dsts {}, dialect {}", status.min_dsts, status.dialect);
    say!("");
    let interfaces = status.interfaces.iter().map(|interface| {
        let addresses: Vec<_> = interface.addresses.iter().map(ToString::to_string).collect();
        [interface.name.clone(), addresses.join(" ")]
    });
    table(["INTERFACE", "ADDRESSES"], interfaces);
    let (copies, discovery) = (status.copies, status.discovery);
    let counts = [
        ("data packets", status.packets),
        ("replicas", copies.replicas),
        ("passed on whole", copies.whole),
        ("turned into unicast", copies.unicast),
        ("turned into unicast early", copies.premature),
        ("to the listeners on a link", copies.multicast),
        ("  of these copies, sent by the kernel", copies.by_kernel),
        ("  of these copies, not sent", copies.not_sent),
        ("discovery requests", discovery.requests),
        ("  answered", discovery.answered),
        ("  not answered: too many at once", discovery.limited),
        ("  not answered: missed", discovery.unanswered),
        ("discovery responses", discovery.responses),
    ];
    print_counts("MEADCAST", &counts, [&status.malformed, &status.dropped, &status.passed_on]);
    if let Some(other) = &status.other_dialect {
        say!("{other}");
        say!("");
    }
    print_xcast(&status.xcast);
    if !status.groups.is_empty() {
        let groups = status.groups.iter().map(|one| [one.group.to_string(), one.interfaces.join(" ")]);
        table(["GROUP", "INTERFACES WITH LISTENERS"], groups);
    }
    let neighbours = status.neighbours.iter().map(|neighbour| {
        let (packets, bytes) = (neighbour.packets.to_string(), neighbour.bytes.to_string());
        [neighbour.interface.clone(), neighbour.address.to_string(), packets, bytes]
    });
    table(["INTERFACE", "NEIGHBOUR", "DATAGRAMS SENT", "BYTES SENT"], neighbours);
}

fn state_of(leaving: &Leaving) -> String {
    let Leaving { seconds, at_most_seconds, ends } = leaving;
    let then = if *ends { "ends" } else { "is disabled" };
    format!(
        "leaving for {seconds:.0} s: answers no discovery, {then} when senders have found other ways, in {at_most_seconds:.0} s at most"
    )
}

fn print_xcast(xcast: &Xcast) {
    if *xcast == Xcast::default() {
        return;
    }
    let counts = [
        ("data packets", xcast.packets),
        ("copies", xcast.copies),
        ("turned into unicast", xcast.unicast),
        ("turned into unicast early", xcast.premature),
        ("addressed to this router", xcast.local),
        ("without a route", xcast.unrouted),
        ("to the listeners on a link", xcast.multicast),
        ("made from multicast of senders on a link", xcast.encapsulated),
        ("registrations refused", xcast.registrations_refused),
        ("registrations not sent", xcast.registrations_unsent),
    ];
    print_counts("XCAST", &counts, [&xcast.malformed, &xcast.dropped, &xcast.passed_on]);
    if !xcast.registered.is_empty() {
        let routers =
            |one: &Registered| one.routers.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        let channels =
            xcast.registered.iter().map(|one| [one.source.to_string(), one.group.to_string(), routers(one)]);
        table(["SENDER", "GROUP", "REGISTERED ROUTERS"], channels);
    }
}

/// Prints a protocol's packets: counts with their names, and then those that were malformed, dropped and passed on without
/// copies, by reason.
fn print_counts(protocol: &str, counts: &[(&str, u64)], ended: [&BTreeMap<String, u64>; 3]) {
    let counts = counts.iter().map(|(name, count)| [(*name).to_owned(), count.to_string()]);
    let ended = ["malformed", "dropped", "passed on"].into_iter().zip(ended).flat_map(|(what, counts)| {
        counts.iter().map(move |(reason, count)| [format!("{what}: {reason}"), count.to_string()])
    });
    table([&format!("{protocol} PACKETS (A SUPER-PACKET IS ONE)"), "COUNT"], counts.chain(ended));
}
