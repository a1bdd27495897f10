//! `treecast router`: the MEADcast and Xcast router, and a look at the one that runs.

use std::{collections::BTreeMap, path::PathBuf, process::ExitCode, time::Duration};

use treecast_dataplane::explicit::{
    self, Config, Leaving, MAX_ALLOWED, Notice, Registered, Setting, Status, Xcast, check,
};
use treecast_proto::explicit::mead::router::{Prefix, ReversePath};
use treecast_wire::mead::{Dialect, MAX_ADDRESSES};

use crate::{Outcome, arguments::seconds, domain_key, mroute::table};

/// No packet has so many receivers: then none is replicated.
const MAX_MIN_DSTS: i64 = MAX_ADDRESSES as i64;

/// More than a sender with a link of 10 Gbit/s has use for, where each of its full packets becomes five.
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
    /// Change the running router; no MEADcast packet is lost by it
    Set {
        #[command(subcommand)]
        change: Change,
        #[command(flatten)]
        control: Control,
    },
    /// Take away what a router that was killed has left at this host's interfaces
    Clean,
    /// Compare the eBPF program of this build, in this kernel, with the reference model, on random packets
    Check {
        /// How many packets
        #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
        packets: u64,
        /// Which ones
        #[arg(long, value_name = "N", default_value_t = 1)]
        seed: u64,
    },
}

/// Forward MEADcast and Xcast until SIGINT or SIGTERM, and then until senders have found other ways; a second signal ends it at once
///
/// An eBPF program takes MEADcast packets at the interfaces named, replicates them for other routers and turns them into
/// unicast for the receivers behind this one. Xcast packets (RFC 5058; not with --dialect linux-6.5) go once to each next hop of their
/// destinations, and as unicast to the last one. All other packets pass at the cost of one look. Prints "ready" when it serves.
#[derive(clap::Args)]
#[command(group(clap::ArgGroup::new("where").args(["interfaces", "all"]).required(true)))]
struct Run {
    /// An Ethernet interface at which to look for MEADcast packets (may be repeated)
    #[arg(long = "interface", value_name = "IF")]
    interfaces: Vec<String>,
    /// All Ethernet interfaces that are up, also those that come later
    #[arg(long)]
    all: bool,
    /// Turn into unicast what is for a router, or in Xcast for a next hop, with fewer receivers than this (0: never)
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u8).range(..=MAX_MIN_DSTS))]
    min_dsts: u8,
    /// How headers are written: rfc, or linux-6.5 for senders and routers of the thesis
    #[arg(long, value_name = "DIALECT", default_value = "rfc", value_parser = dialect)]
    dialect: Dialect,
    /// Be the designated router of hosts that join groups: ask on all links who listens (MLD), and serve them by one multicast
    /// packet a link where a sender of theirs has a group (`treecast mead --designated GROUP`)
    #[arg(long)]
    designated: bool,
    /// Be the designated router of Xcast+ (RFC 5058) for the hosts on all links: register at the senders whose channels (source
    /// and group) they join by MLDv2, and serve them by multicast what comes for it by Xcast; take the registrations of others for
    /// senders on these links, and turn what those send to the group into Xcast for who has registered. Not where `treecast mroute`
    /// forwards the same groups
    #[arg(long)]
    xcast_plus: bool,
    /// A file with the domain's key, 64 hexadecimal digits: discovery responses and registrations prove that they are of the domain.
    /// Copies are made, and discovery is answered, only for senders that prove the same (`treecast mead --key`, `treecast send
    /// --domain-key`); others' packets pass as if there were no router. Hosts' clocks must not be more than ten minutes apart
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Which sources to believe by the way that their packets came. strict: those to which the route leads by the same interface;
    /// loose: those to which there is a route (where routes are asymmetric; packets become multicast as with strict); off: all.
    /// Packets of others are dropped
    #[arg(long, value_name = "MODE", value_enum, default_value_t = Rpf::Strict)]
    rpf: Rpf,
    /// Make copies only for sources in this network (may be repeated); others' packets pass as if there were no router
    #[arg(long = "allow-source", value_name = "PREFIX")]
    allowed: Vec<Prefix>,
    /// The most copies that are made in a second for the sources of one network (/64), those of super-packets counted singly; what
    /// is above that passes as if there were no router (0: any number)
    #[arg(long, value_name = "N", default_value_t = COPIES_PER_SECOND)]
    copies_per_second: u32,
    /// Send all copies the kernel's own way, past its firewall and policy routing, which is slower. Without, the firewall's
    /// rules for forwarding do not see them
    #[arg(long)]
    through_kernel: bool,
    /// Look at packets behind the filters of `tc` that an interface has, as one of them, and not before all. All traffic
    /// then pays about twice as much for the look
    #[arg(long, conflicts_with = "user_space")]
    as_filter: bool,
    /// Forward in user space, where no eBPF may be loaded. Slow, and super-packets are divided
    #[arg(long, conflicts_with = "through_kernel")]
    user_space: bool,
    /// When told to end, or by `set disable`: act on data for at most so long, until senders have found other ways (0: do not wait)
    #[arg(long, value_name = "SECONDS", default_value = "75", value_parser = seconds)]
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
    /// Pass MEADcast packets on like all others, when senders have found other ways: answer discovery no more, and act on data
    /// as long as some comes for this router's receivers (see `run --leave-within`). Senders of Xcast look for no ways
    Disable {
        /// Do not wait: what senders send until they look for routers again reaches only the first receiver of each packet
        #[arg(long)]
        now: bool,
    },
    /// Turn into unicast what is for a router with fewer receivers than N
    MinDsts {
        /// How many receivers a router must have to get a replica (0: any)
        #[arg(value_parser = clap::value_parser!(u8).range(..=MAX_MIN_DSTS))]
        n: u8,
    },
}

#[derive(clap::Args)]
struct Control {
    /// The control socket [default: one for each network namespace]
    #[arg(long = "control", value_name = "PATH")]
    path: Option<PathBuf>,
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
    let counts = counts.into_iter().map(|(name, count)| [name.to_owned(), count.to_string()]);
    table(
        ["MEADCAST PACKETS (A SUPER-PACKET IS ONE)", "COUNT"],
        counts.chain(ended(&status.malformed, &status.dropped, &status.passed_on)),
    );
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
    let counts = counts.into_iter().map(|(name, count)| [name.to_owned(), count.to_string()]);
    table(
        ["XCAST PACKETS (A SUPER-PACKET IS ONE)", "COUNT"],
        counts.chain(ended(&xcast.malformed, &xcast.dropped, &xcast.passed_on)),
    );
    if !xcast.registered.is_empty() {
        let routers =
            |one: &Registered| one.routers.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        let channels =
            xcast.registered.iter().map(|one| [one.source.to_string(), one.group.to_string(), routers(one)]);
        table(["SENDER", "GROUP", "REGISTERED ROUTERS"], channels);
    }
}

/// Packets that ended here, or of which no copies were made, by why.
fn ended<'a>(
    malformed: &'a BTreeMap<String, u64>,
    dropped: &'a BTreeMap<String, u64>,
    passed_on: &'a BTreeMap<String, u64>,
) -> impl Iterator<Item = [String; 2]> + 'a {
    let of = |what: &'static str, counts: &'a BTreeMap<String, u64>| {
        counts.iter().map(move |(reason, count)| [format!("{what}: {reason}"), count.to_string()])
    };
    of("malformed", malformed).chain(of("dropped", dropped)).chain(of("passed on", passed_on))
}
