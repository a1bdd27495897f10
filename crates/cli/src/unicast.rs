//! `treecast unicast`: one server that sends one file to each client separately, to compare with.

use std::{
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    process::ExitCode,
    time::Duration,
};

use clap::ValueEnum;
use indicatif::ProgressBar;
use treecast_driver::{
    udp::Offload,
    unicast::{ClientProgress, FetchEvent, ServerEvent, tcp, udp},
};
use treecast_host::stop::Stop;
use treecast_wire::unicast::PORT;

use crate::{
    Outcome,
    arguments::{self, counted},
    figures::{bytes, rate},
    output::{self, Lines},
    send::{Rate, parse_rate},
};

/// Serve one file to each client separately, or fetch it.
///
/// The server runs until it is stopped. UDP answers every request without a handshake, so serve where strangers
/// cannot reach it, and limit it with --rate.
#[derive(clap::Args)]
pub struct Args {
    /// The side: server or client
    side: Side,
    /// The transport
    transport: Transport,
    /// The file to serve; for a client, the path of its copy
    file: PathBuf,
    /// The server's address
    #[arg(value_name = "ADDR[:PORT]", value_parser = parse_address)]
    address: SocketAddr,
    /// The rate of a UDP server, in bits a second. It counts IP packets, headers included, for all clients together (500k, 100M, 2.5G)
    /// [default: max]
    #[arg(long, value_parser = parse_rate, allow_hyphen_values = true)]
    rate: Option<Rate>,
    /// The congestion control of a TCP server. As the kernel calls it (cubic, bbr) [default: the kernel's]
    #[arg(long, value_name = "NAME")]
    congestion: Option<String>,
    /// Give up after this many silent seconds. UDP client: nothing has come from the server for so long [default: 10]
    #[arg(long, value_name = "SECONDS", value_parser = arguments::seconds, allow_hyphen_values = true)]
    timeout: Option<u64>,
    /// One JSON event a line on standard output
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Side {
    Server,
    Client,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Transport {
    Tcp,
    Udp,
}

pub fn run(args: Args) -> Outcome {
    let paces = matches!((args.side, args.transport), (Side::Server, Transport::Udp));
    if args.rate.is_some() && !paces {
        return Err("--rate is for the UDP server: leave it out".into());
    }
    if args.timeout.is_some() && !matches!((args.side, args.transport), (Side::Client, Transport::Udp)) {
        return Err("--timeout is for the UDP client: leave it out".into());
    }
    if args.congestion.is_some() && !matches!((args.side, args.transport), (Side::Server, Transport::Tcp)) {
        return Err("--congestion is for the TCP server: leave it out".into());
    }
    let stop = Stop::on_signals()?;
    match args.side {
        Side::Server => serve(&args, &stop),
        Side::Client => fetch(&args, &stop),
    }
}

fn serve(args: &Args, stop: &Stop) -> Outcome {
    if args.file.is_dir() {
        let folder = args.file.display();
        return Err(format!(
            "{folder} is a folder, and this serves one file: name a file, or see `treecast send`"
        )
        .into());
    }
    let tell = |event: ServerEvent| match args.json {
        true => Lines::default().add(&event, false),
        false => say!("{}", output::in_one_line(&server_event(args, &event))),
    };
    let summary = match args.transport {
        Transport::Tcp => tcp::serve(&args.file, args.address, args.congestion.as_deref(), stop, tell)?,
        Transport::Udp => {
            let offload = Offload::from_environment()?;
            udp::serve(&args.file, args.address, args.rate.and_then(|rate| rate.0), offload, stop, tell)?
        }
    };
    match args.json {
        true => Lines::default().add(&ServerEvent::Done(summary), false),
        false => say!("{}", server_event(args, &ServerEvent::Done(summary))),
    }
    Ok(ExitCode::SUCCESS)
}

fn server_event(args: &Args, event: &ServerEvent) -> String {
    let over = if args.transport == Transport::Tcp { "TCP" } else { "UDP" };
    match event {
        ServerEvent::Ready { size, hash } => {
            let file = args.file.display();
            format!("serving {file} ({}, {hash}) at {} over {over}", bytes(*size), args.address)
        }
        ServerEvent::Active { client } => format!("{client} asks"),
        ServerEvent::Served { client } => format!("{client} is served"),
        ServerEvent::Failed { client, reason } => format!("{client} failed: {reason}"),
        ServerEvent::Done(summary) => {
            format!("{} served, {} failed", counted(summary.served as usize, "request"), summary.failed)
        }
    }
}

fn fetch(args: &Args, stop: &Stop) -> Outcome {
    let bar = output::waiting_bar(args.json, "waiting for the server");
    let tell = |progress: ClientProgress| match args.json {
        true => Lines::default().add(&FetchEvent::Progress(progress), false),
        false => move_bar(&bar, &progress),
    };
    let progress = match args.transport {
        Transport::Tcp => tcp::fetch(&args.file, args.address, stop, tell)?,
        Transport::Udp => {
            let first_reply = args.timeout.map_or(udp::FIRST_REPLY_TIMEOUT, Duration::from_secs);
            udp::fetch(&args.file, args.address, first_reply, Offload::from_environment()?, stop, tell)?
        }
    };
    bar.finish_and_clear();
    if args.json {
        let mut lines = Lines::default();
        lines.add(&FetchEvent::Object { name: args.file.clone(), bytes: progress.received_bytes }, true);
        lines.add(&FetchEvent::Done(progress), false);
    } else {
        say!(
            "{}: {} in {:.2} s ({}), verified",
            args.file.display(),
            bytes(progress.received_bytes),
            progress.seconds,
            counted(progress.requests as usize, "request")
        );
    }
    Ok(ExitCode::SUCCESS)
}

fn move_bar(bar: &ProgressBar, progress: &ClientProgress) {
    let Some(total_bytes) = progress.total_bytes else { return };
    if bar.length() == Some(0) {
        output::set_template(bar, "{bar:30} {percent:>3} % {msg}");
    }
    bar.set_length(total_bytes);
    let mean_bps = progress.received_bytes as f64 * 8.0 / progress.seconds.max(1e-9);
    let mean = rate(Some(mean_bps as u64));
    bar.set_message(format!("{} of {}, {mean}", bytes(progress.received_bytes), bytes(total_bytes)));
    bar.set_position(progress.received_bytes);
}

fn parse_address(text: &str) -> Result<SocketAddr, String> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Ok(SocketAddr::new(address, PORT));
    }
    text.parse().map_err(|_| {
        "expected an address like fd00::1 or 192.0.2.1, or one with a port like [fd00::1]:4243".into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_port_by_default() {
        assert_eq!(parse_address("fd00::1"), Ok("[fd00::1]:4243".parse().unwrap()));
        assert_eq!(parse_address("192.0.2.1:99"), Ok("192.0.2.1:99".parse().unwrap()));
        assert!(parse_address("host").is_err());
    }
}
