//! `treecast mead`: sends the datagrams of any program by MEADcast or Xcast.

mod display;
mod plan;

use std::{
    net::{IpAddr, Ipv6Addr},
    path::PathBuf,
    process::ExitCode,
    time::Duration,
};

use treecast_driver::explicit::{self, Settings, Xcast, event::MeadEvent};
use treecast_host::stop::Stop;

use self::display::Display;
use crate::{
    Outcome, arguments,
    sharing::{Grouping, SharingArgs, WireDialect},
};

/// Send any program's datagrams to a group of receivers, by MEADcast if routers speak it, or by Xcast.
///
/// Makes a TUN device and a route to it, prints "ready", and sends each UDP datagram that programs send to that
/// address to all receivers, at their PORT. Receivers behind MEADcast routers get it by MEADcast, the others by
/// unicast. Receivers do not need treecast. Stops at SIGINT or SIGTERM. Needs root.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// The receivers' addresses, and then their UDP port. With --members there may be none, and the file adds
    /// more
    #[arg(required = true, value_name = "ADDR... PORT", allow_negative_numbers = true)]
    receivers: Vec<String>,
    /// A file with receivers, an address a line. With a port if it differs. When the file changes, receivers
    /// join and leave. Replace it with `mv`, because a half-written file is read as it is
    #[arg(long, value_name = "FILE")]
    members: Option<PathBuf>,

    /// The address to send from [default: that of the route to the first receiver]
    #[arg(short, long, value_name = "ADDR")]
    address: Option<Ipv6Addr>,
    /// The interface to use [default: the one that the routes name]
    #[arg(long, value_name = "IF")]
    interface: Option<String>,
    /// The UDP port that packets come from [default: the program's own]
    #[arg(short, long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// Address that programs send to [default: fd15::1]
    #[arg(long, value_name = "ADDR", default_value = "fd15::1", hide_default_value = true)]
    tun_address: Ipv6Addr,
    /// The TUN device's name [default: mead and a free number]
    #[arg(short, long, value_name = "IF")]
    tun: Option<String>,

    /// Seconds before the first discovery
    #[arg(short, long, value_name = "SECONDS", default_value = "0", value_parser = arguments::time, allow_hyphen_values = true)]
    delay: Duration,
    /// Seconds from the begin of one discovery to the next
    #[arg(short = 'I', long, value_name = "SECONDS", default_value = "5", value_parser = arguments::some_time, allow_hyphen_values = true)]
    interval: Duration,
    /// Seconds for which a discovery waits for responses
    #[arg(short = 'T', long, value_name = "SECONDS", default_value = "2", value_parser = arguments::some_time, allow_hyphen_values = true)]
    timeout: Duration,
    /// Wait for traffic before the first discovery
    #[arg(short, long)]
    wait: bool,
    /// The largest number of discovery requests in a second. A discovery takes longer if its requests do not
    /// fit into the first quarter of the timeout
    #[arg(long, value_name = "N", default_value = "1000", value_parser = clap::value_parser!(u32).range(1..))]
    requests: u32,
    /// Believe only routers that have this domain's key. It is a file with 64 hexadecimal digits. The sender proves to
    /// them that it has the key, too, because routers with a key make copies for no other senders. The clocks
    /// of all hosts may differ by ten minutes
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,

    #[command(flatten)]
    sharing: SharingArgs,
    /// The length of the programs' datagrams in bytes, for --grouping cost
    #[arg(long, value_name = "BYTES", default_value = "1000")]
    payload: u16,

    /// Let the kernel send all packets, with its firewall and policy routing; this is slower. Without this
    /// option, super-packets (UDP_SEGMENT) of programs stay whole, and skip the firewall's output rules
    #[arg(long)]
    through_kernel: bool,

    /// The order of bits in headers
    #[arg(long, value_enum, default_value_t = WireDialect::Rfc)]
    dialect: WireDialect,
    /// A group that receivers join. Designated routers (`treecast router run --designated`) serve these
    /// receivers on their own links, by one multicast packet to the group, and packets list the router without
    /// them. Receivers that do not join are served as without this option
    #[arg(long, value_name = "GROUP")]
    designated: Option<Ipv6Addr>,
    /// Put each receiver's port into packets; needed if the ports in --members differ
    #[arg(long)]
    ports: bool,

    /// Send by Xcast (RFC 5058) and not by MEADcast. All receivers are in address lists, up to --max in each,
    /// from the first packet on, and the sender does not look for routers. Routers where paths diverge must
    /// speak Xcast (`treecast router run`); otherwise only the first receiver of each list gets anything
    #[arg(long, conflicts_with_all = NOT_WITH_XCAST)]
    xcast: bool,
    /// Xcast+: a group. A router (`treecast router run --xcast-plus`) whose hosts join this group with this
    /// sender's address as source registers here. It serves its hosts by multicast on its own links, at PORT.
    /// No other receivers may be given (with --address or --interface). With --key, only routers of the domain
    /// are believed
    #[arg(long, value_name = "GROUP", requires = "xcast")]
    group: Option<Ipv6Addr>,
    /// Have routers overwrite, in each copy, the addresses that the copy is not for (the A bit)
    #[arg(long, requires = "xcast")]
    anonymous: bool,

    /// Print each new grouping
    #[arg(long)]
    print_groups: bool,
    /// Print the tree of routers and receivers after each discovery
    #[arg(long)]
    print_tree: bool,
    /// Print statistics at this interval. In seconds [default: only at the end]
    #[arg(long, value_name = "SECONDS", value_parser = arguments::some_time, allow_hyphen_values = true)]
    statistics: Option<Duration>,
    /// One JSON event a line on standard output
    #[arg(long)]
    json: bool,
}

/// Options that do not work with Xcast: they are about discovery, grouping, or MEADcast's header.
const NOT_WITH_XCAST: [&str; 17] = [
    "delay",
    "interval",
    "timeout",
    "wait",
    "requests",
    "min_leaves",
    "min_routers",
    "merge",
    "ok",
    "split",
    "grouping",
    "payload",
    "dialect",
    "dont_replicate",
    "to_router",
    "designated",
    "print_tree",
];

#[derive(clap::Subcommand)]
enum Command {
    Plan(plan::Args),
}

/// The bytes of a UDP header.
const UDP_HEADER_LEN: usize = 8;

pub fn run(args: &Args) -> Outcome {
    if let Some(Command::Plan(args)) = &args.command {
        return plan::run(args);
    }
    let settings = settings(args)?;
    let stop = Stop::on_signals()?;
    let display = Display::new(args.print_groups, args.print_tree, args.xcast, args.json);
    let counted = explicit::run(&settings, &stop, &mut |event| display.show(&event))?;
    display.show(&MeadEvent::Done(counted));
    Ok(ExitCode::SUCCESS)
}

fn settings(args: &Args) -> Result<Settings, String> {
    if args.anonymous && args.key.is_some() {
        return Err(
            "--anonymous has routers overwrite addresses that --key has packets prove: leave one of them out"
                .into(),
        );
    }
    let (port, addresses) = args.receivers.split_last().ok_or("name receivers and their port")?;
    let port = parse_port(port)?;
    let receiver = |text: &String| Ok((parse_receiver(text)?, port));
    Ok(Settings {
        receivers: addresses.iter().map(receiver).collect::<Result<_, String>>()?,
        members: args.members.clone(),
        port,
        address: args.address,
        interface: args.interface.clone(),
        source_port: args.port,
        tun_address: args.tun_address,
        tun: args.tun.clone(),
        delay: args.delay,
        interval: args.interval,
        timeout: args.timeout,
        requests_per_second: args.requests,
        wait: args.wait,
        sharing: args.sharing.sharing(Grouping::Thesis, Some(args.dialect), args.key.as_deref())?,
        payload_bytes: usize::from(args.payload) + UDP_HEADER_LEN,
        has_ports: args.ports,
        group: if args.xcast { args.group } else { args.designated },
        xcast: args.xcast.then_some(Xcast { is_anonymous: args.anonymous }),
        divides: args.through_kernel,
        statistics: args.statistics,
    })
}

fn parse_port(text: &str) -> Result<u16, String> {
    let expected =
        || format!("{text} is no UDP port: name the receivers' addresses and then their port, 1 to 65535");
    text.parse().ok().filter(|port| *port > 0).ok_or_else(expected)
}

fn parse_receiver(text: &str) -> Result<IpAddr, String> {
    arguments::address(text).map_err(|_| format!("{text} is no receiver: expected an address like fd00::1"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_word_is_the_port() {
        assert_eq!(parse_port("5000"), Ok(5000));
        assert!(["0", "65536", "fd00::1", ""].iter().all(|wrong| parse_port(wrong).is_err()));
        assert!(parse_receiver("fd00::1").is_ok() && parse_receiver("host").is_err());
    }
}
