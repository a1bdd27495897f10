//! `treecast load run`: one host's part in a run.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use treecast_host::{interface::Interface, stop::Stop};
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
const DEFAULT_SECONDS: f64 = 10.0;

/// The rate without --rate.
const DEFAULT_RATE: &str = "1";

/// Send and receive packets of a group on this host, and tell what became of them
///
/// Run it on each host at about the same time, with --json or --out, and join the results with `treecast load combine`.
/// Exit code 0: this host sent what was asked; 3: it could not; 1: an error.
#[derive(clap::Args)]
pub struct Args {
    /// The group and port, like 239.255.1.1:4321 or [ff15::1]:4321 [default with --packet paper: 224.3.2.2:4321]
    #[arg(long, value_name = "ADDR:PORT", value_parser = parse_group)]
    group: Option<SocketAddr>,
    /// The interface to send and receive by [default: the one of the default route]
    #[arg(long, value_name = "IF")]
    interface: Option<String>,
    /// Packets per second of each sender, like 450, 0.5 or 1/h; several in turn as 100,200,400, a ramp as 100..1000 or
    /// 100..1000/20 (in 20 steps) [default: 1]
    #[arg(long, value_name = "PPS")]
    rate: Option<String>,
    /// How long is sent, in all steps together [default: 10; with --only receive: until Ctrl-C]
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    seconds: Option<f64>,
    /// The packet: own (with session and sending time), or the paper's (number and IPv4 address)
    #[arg(long, value_name = "FORMAT", default_value = "own")]
    packet: Packet,
    /// UDP payload of each packet in bytes: from 32, or from 8 with --packet paper [default: the smallest]
    #[arg(long, value_name = "BYTES")]
    size: Option<usize>,
    /// Only send, or only receive
    #[arg(long, value_name = "WHAT")]
    only: Option<Only>,
    /// Senders on this host, each with the whole rate and an identity of its own
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=run::MAX_SENDERS as i64))]
    senders: u32,
    /// Identity of the first sender; each further one has the next [default: the interface's IPv4 address]
    #[arg(long, value_name = "IPV4")]
    identity: Option<Ipv4Addr>,
    /// Receive only from this source (source-specific multicast; may be repeated)
    #[arg(long, value_name = "ADDR", value_parser = arguments::address)]
    source: Vec<IpAddr>,
    /// TTL or hop limit of the packets
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u8).range(1..))]
    hops: u8,
    /// A packet that is overtaken by more than so many others is late: 0 to 16384
    #[arg(long, value_name = "PACKETS", default_value_t = PAPER_WINDOW)]
    window: u64,
    /// The time before the first packet, in which other hosts join the group
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = parse_seconds)]
    lead: f64,
    /// The time after the last packet, in which is still received
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = parse_seconds)]
    linger: f64,
    /// Do not receive the packets of this host's own senders
    #[arg(long)]
    no_loop: bool,
    /// Threads that the senders are spread over [default: one for each processor]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    threads: usize,
    /// Wait for the last microseconds before each deadline by spinning, which takes a processor and is more exact
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 0)]
    spin: u64,
    /// Hand packets that are due together to the kernel as one (UDP_SEGMENT): more packets per second, in bursts
    #[arg(long)]
    super_packets: bool,
    /// Senders whose packets are counted; more are not, which bounds the memory
    #[arg(long, value_name = "N", default_value_t = DEFAULT_STREAMS)]
    max_senders: usize,
    /// This host's name in the results [default: its host name]
    #[arg(long, value_name = "NAME")]
    host: Option<String>,
    /// Print one JSON object, and "ready" on standard error once the group is joined
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
        let seconds = self.seconds.unwrap_or(DEFAULT_SECONDS);
        let rate = self.rate.as_deref().unwrap_or(DEFAULT_RATE);
        let schedule = Schedule::parse(rate, seconds).map_err(|error| format!("--rate: {error}"))?;
        let sends = self.only != Some(Only::Receive);
        let receives = self.only != Some(Only::Send);
        Ok(RunConfig {
            host: self.host.clone().unwrap_or_else(host_name),
            group,
            interface,
            sources: self.source.clone(),
            packet,
            size_bytes: self.size.unwrap_or(packet.min_bytes()),
            hops: self.hops,
            loops_back: !self.no_loop,
            lead: Duration::from_secs_f64(self.lead),
            sending: sends.then(|| Sending {
                senders: self.senders,
                first_identity: self.identity,
                threads: self.threads,
                spin: Duration::from_micros(self.spin),
                super_packets: self.super_packets,
                ..Sending::new(schedule.clone())
            }),
            receiving: receives.then(|| Receiving {
                time: (sends || self.seconds.is_some()).then(|| Duration::from_secs_f64(seconds)),
                linger: Duration::from_secs_f64(self.linger),
                window: self.window,
                max_streams: self.max_senders,
                schedule: (sends || self.rate.is_some()).then_some(schedule),
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

/// Parses a number of seconds, with or without decimals or a unit.
fn parse_seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.0..=arguments::LONGEST_SECONDS as f64).contains(&seconds) => Ok(seconds),
        _ => arguments::seconds(text).map(|seconds| seconds as f64),
    }
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
        assert_eq!((parse_seconds("0.5"), parse_seconds("2m")), (Ok(0.5), Ok(120.0)));
        assert!(parse_seconds("-1").is_err() && parse_seconds("nan").is_err() && parse_seconds("x").is_err());
    }
}
