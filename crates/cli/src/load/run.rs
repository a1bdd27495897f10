//! `treecast load run`: one host's part in a run.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use treecast::limits::RATES_BPS;
use treecast_host::{
    interface::Interface,
    quantity::{self, QuantityError},
    stop::Stop,
};
use treecast_load::{
    config::{DEFAULT_STREAMS, PAPER_WINDOW, Receiving, RunConfig, Sending},
    packet::{Format, PAPER_GROUP_V4, PAPER_PORT},
    report::HostReport,
    run,
    schedule::Schedule,
    tables,
};

use super::show;
use crate::{Outcome, arguments, group::Group};

/// The time for which is sent and received without --seconds.
const DEFAULT_TIME: Duration = Duration::from_secs(10);

/// The rate without --pps and --rate.
const DEFAULT_PPS: &str = "1";

/// Send and receive packets of a group on this host, and tell what became of them
///
/// Run it on each host at about the same time, with --json or --out, and join the results with `treecast load combine`.
/// Exit code 0: this host sent what was asked; 3: it could not; 1: an error.
#[derive(clap::Args)]
pub struct Args {
    /// The group and port, like 239.255.1.1:4321. Or [ff15::1]:4321 [default with --packet paper: 224.3.2.2:4321]
    #[arg(long, value_name = "ADDR:PORT", value_parser = parse_group)]
    group: Option<SocketAddr>,
    /// The interface to send and receive by [default: the one of the default route]
    #[arg(long, value_name = "IF")]
    interface: Option<String>,
    /// Packets per second of each sender, like 450. Also 0.5 or 1/h; several in turn as 100,200,400, a ramp as 100..1000 or
    /// 100..1000/20 (in 20 steps) [default: 1]
    #[arg(long, value_name = "PPS")]
    pps: Option<String>,
    /// Bits per second of each sender, like 100M. It takes the place of --pps, and counts IP packets with their headers. Several in
    /// turn as 1M,10M,100M
    #[arg(long, value_name = "RATE", conflicts_with = "pps")]
    rate: Option<String>,
    /// How long is sent, in all steps together [default: 10; with --only receive: until Ctrl-C]
    #[arg(long, value_name = "SECONDS", value_parser = arguments::time, allow_hyphen_values = true)]
    seconds: Option<Duration>,
    /// The packet: own (with session and sending time), or the paper's (number and IPv4 address)
    #[arg(long, value_name = "FORMAT", default_value = "own")]
    packet: Packet,
    /// UDP payload of each packet in bytes. From 32, or from 8 with --packet paper [default: the smallest]
    #[arg(long, value_name = "BYTES", value_parser = arguments::bytes, allow_hyphen_values = true)]
    size: Option<u64>,
    /// Only do this
    #[arg(long, value_name = "WHAT")]
    only: Option<Only>,
    /// The number of senders on this host. Each has the whole rate and an identity of its own
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=run::MAX_SENDERS as i64))]
    senders: u32,
    /// Identity of the first sender; each further one has the next [default: the interface's IPv4 address]
    #[arg(long, value_name = "IPV4")]
    identity: Option<Ipv4Addr>,
    /// Receive only from this source. That is source-specific multicast; may be repeated
    #[arg(long, value_name = "ADDR", value_parser = arguments::address)]
    source: Vec<IpAddr>,
    /// TTL or hop limit of the packets
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u8).range(1..))]
    hops: u8,
    /// A packet that is overtaken by more than so many others is late: 0 to 16384
    #[arg(long, value_name = "PACKETS", default_value_t = PAPER_WINDOW)]
    window: u64,
    /// The time before the first packet, in which other hosts join the group
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = arguments::time, allow_hyphen_values = true)]
    lead: Duration,
    /// The time after the last packet, in which is still received
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = arguments::time, allow_hyphen_values = true)]
    linger: Duration,
    /// Do not receive the packets of this host's own senders
    #[arg(long)]
    no_loop: bool,
    /// Threads that the senders are spread over [default: one for each processor]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    threads: usize,
    /// Wait for the last microseconds before each deadline by spinning, which takes a processor and is more exact
    #[arg(long, value_name = "MICROSECONDS", default_value = "0us", value_parser = parse_spin, allow_hyphen_values = true)]
    spin: Duration,
    /// Hand packets that are due together to the kernel as one (UDP_SEGMENT): more packets per second, in bursts
    #[arg(long)]
    super_packets: bool,
    /// Senders whose packets are counted; more are not, which bounds the memory
    #[arg(long, value_name = "N", default_value_t = DEFAULT_STREAMS)]
    max_senders: usize,
    /// This host's name in the results [default: its host name]
    #[arg(long, value_name = "NAME")]
    host: Option<String>,
    /// Print one JSON object. "ready" is on standard error once the group is joined
    #[arg(long)]
    json: bool,
    /// Write the JSON object to this file, too
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, clap::ValueEnum)]
enum Packet {
    Own,
    Paper,
}

#[derive(Clone, Copy, PartialEq, clap::ValueEnum)]
enum Only {
    Send,
    Receive,
}

pub fn run(args: Args) -> Outcome {
    let config = args.config()?;
    // A run may take hours: its results must find their place.
    let out = args.out.as_deref().map(Out::open).transpose()?;
    let stop = Stop::on_signals()?;
    let mut tell = |line: &str| match line {
        "ready" if args.json => remark!("ready"),
        "ready" => {}
        line => remark!("[{}] {line}", config.host),
    };
    let report = run::run(&config, &stop, &mut tell)?;
    let json = serde_json::to_string(&report)?;
    out.map_or(Ok(()), |out| out.write(&json))?;
    match args.json {
        true => say!("{json}"),
        false => show(&tables::host_tables(&report)),
    }
    report.warnings.iter().for_each(|warning| remark!("treecast: {warning}"));
    Ok(code(&report))
}

/// The file for a run's results. It is open from the start, because a pipe's reader would take a close for the end. If the run
/// fails, a file that this run has made is removed.
struct Out<'a> {
    path: &'a Path,
    file: File,
    is_new: bool,
}

impl<'a> Out<'a> {
    fn open(path: &'a Path) -> Result<Self, String> {
        let is_new = !path.exists();
        let file = OpenOptions::new().create(true).append(true).open(path);
        file.map(|file| Self { path, file, is_new }).map_err(|error| unwritable(path, &error))
    }

    fn write(mut self, json: &str) -> Result<(), String> {
        self.is_new = false;
        // Pipes and devices have no length.
        _ = self.file.set_len(0);
        writeln!(self.file, "{json}").map_err(|error| unwritable(self.path, &error))
    }
}

impl Drop for Out<'_> {
    fn drop(&mut self) {
        if self.is_new {
            _ = std::fs::remove_file(self.path);
        }
    }
}

fn unwritable(path: &Path, error: &io::Error) -> String {
    format!("cannot write {}: {error}; name another file with --out", path.display())
}

fn code(report: &HostReport) -> ExitCode {
    if report.is_met() { ExitCode::SUCCESS } else { ExitCode::from(3) }
}

impl Args {
    fn config(&self) -> Result<RunConfig, Box<dyn std::error::Error>> {
        let packet = if self.packet == Packet::Paper { Format::Paper } else { Format::Own };
        let paper_group = (packet == Format::Paper).then_some((PAPER_GROUP_V4, PAPER_PORT).into());
        let group = self
            .group
            .or(paper_group)
            .ok_or("no group is given: name one with --group, like 239.255.1.1:4321")?;
        let interface = match &self.interface {
            Some(name) => name.clone(),
            None => Interface::by_route(None)?.name,
        };
        let size_bytes =
            self.size.map_or(packet.min_bytes(), |bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
        let time = self.seconds.unwrap_or(DEFAULT_TIME);
        let (option, pps) = match (&self.rate, &self.pps) {
            (Some(rate), _) => ("--rate", packet_rates(rate, size_bytes, group)),
            (None, Some(pps)) => ("--pps", Ok(pps.clone())),
            (None, None) => ("--pps", Ok(DEFAULT_PPS.to_owned())),
        };
        let schedule = pps.and_then(|pps| Schedule::parse(&pps, time.as_secs_f64()));
        let schedule = schedule.map_err(|error| format!("{option}: {error}"))?;
        let sends = self.only != Some(Only::Receive);
        let receives = self.only != Some(Only::Send);
        Ok(RunConfig {
            host: self.host.clone().unwrap_or_else(host_name),
            group,
            interface,
            sources: self.source.clone(),
            packet,
            size_bytes,
            hops: self.hops,
            loops_back: !self.no_loop,
            lead: self.lead,
            sending: sends.then(|| Sending {
                senders: self.senders,
                first_identity: self.identity,
                threads: self.threads,
                spin: self.spin,
                super_packets: self.super_packets,
                ..Sending::new(schedule.clone())
            }),
            receiving: receives.then(|| Receiving {
                time: (sends || self.seconds.is_some()).then_some(time),
                linger: self.linger,
                window: self.window,
                max_streams: self.max_senders,
                schedule: (sends || self.rate.is_some() || self.pps.is_some()).then_some(schedule),
            }),
        })
    }
}

/// Any group will do, also one that belongs to another protocol: it is the network that is measured.
fn parse_group(text: &str) -> Result<SocketAddr, String> {
    let address = text.parse::<IpAddr>().map(|address| SocketAddr::new(address, PAPER_PORT));
    match text.parse::<SocketAddr>().or(address) {
        Ok(group) if group.ip().is_multicast() && group.port() != 0 => Ok(group),
        Ok(group) if group.port() != 0 => {
            Err(format!("{} is no multicast group: take one like 239.255.1.1 or ff15::1", group.ip()))
        }
        _ => Group::parse(text).map(|group| group.with_default_port(PAPER_PORT)),
    }
}

/// Parses a time before deadlines, of which less than a second makes sense.
fn parse_spin(text: &str) -> Result<Duration, QuantityError> {
    let text = if text.ends_with(|last: char| last.is_ascii_digit()) {
        format!("{text}us")
    } else {
        text.to_owned()
    };
    quantity::time(&text, Duration::ZERO..=Duration::from_secs(1))
}

/// Converts rates of IP packets, in bits a second with a unit, to packets a second. A rate without a unit was once one of packets.
fn packet_rates(text: &str, size_bytes: usize, group: SocketAddr) -> Result<String, String> {
    let header_bytes = if group.is_ipv6() { 40 } else { 20 } + 8;
    let packet_bits = 8.0 * (size_bytes as f64 + f64::from(header_bytes));
    let in_packets = |rate: &str| {
        if rate.ends_with(|last: char| last.is_ascii_digit()) {
            return Err(format!(
                "{rate} has no unit: write --pps {text} for packets a second, or {rate}bit for bits a second"
            ));
        }
        let bps = quantity::rate_bps(rate, RATES_BPS).map_err(|error| format!("{rate}: {error}"))?;
        Ok((bps as f64 / packet_bits).to_string())
    };
    text.split(',').map(in_packets).collect::<Result<Vec<_>, _>>().map(|rates| rates.join(","))
}

fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_other_protocols_can_be_measured() {
        assert_eq!(parse_group("[ff02::8]:4321").unwrap(), "[ff02::8]:4321".parse().unwrap());
        assert_eq!(parse_group("ff02::8").unwrap(), "[ff02::8]:4321".parse().unwrap());
        assert_eq!(parse_group("224.0.0.251").unwrap().port(), 4321);
        assert!(parse_group("10.0.0.1:5000").unwrap_err().contains("no multicast group"));
        assert!(parse_group("ff15::1:50000").unwrap_err().contains("[ff15::1]:50000"));
    }

    #[test]
    fn seconds_may_have_decimals_or_a_unit() {
        assert_eq!(
            (parse_spin("50"), parse_spin("1ms")),
            (Ok(Duration::from_micros(50)), Ok(Duration::from_millis(1)))
        );
    }

    #[test]
    fn a_rate_in_bits_becomes_packets_of_this_size() {
        let group = "239.1.1.1:5000".parse().unwrap();
        assert_eq!(packet_rates("1M,8k", 97, group), Ok("1000,8".into()));
        assert!(packet_rates("450", 97, group).unwrap_err().contains("write --pps 450"));
    }
}
