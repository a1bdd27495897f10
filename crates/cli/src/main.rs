//! The `treecast` command. Thin: each subcommand turns its arguments into a call of the crate that
//! does the work, and what comes back into lines for a person or JSON for a program.

mod bench;
mod lab;
mod monitor;
mod mroute;
mod receive;
mod send;
mod unicast;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// One sender, many receivers, the same bytes.
#[derive(Parser)]
#[command(name = "treecast", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Send(send::Args),
    Receive(receive::Args),
    Unicast(unicast::Args),
    Lab(lab::Args),
    Mroute(mroute::Args),
    Monitor(monitor::Args),
    Bench(bench::Args),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Send(args) => send::run(args),
        Command::Receive(args) => receive::run(args),
        Command::Unicast(args) => unicast::run(args),
        Command::Lab(args) => lab::run(args),
        Command::Mroute(args) => mroute::run(args),
        Command::Monitor(args) => monitor::run(args),
        Command::Bench(args) => bench::run(args),
    };
    result.unwrap_or_else(|error| {
        eprintln!("treecast: {error}");
        ExitCode::FAILURE
    })
}

/// What a subcommand returns: its exit code, or one line that says what happened, to what, and what
/// to do about it.
type Outcome = Result<ExitCode, Box<dyn std::error::Error>>;
