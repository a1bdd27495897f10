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

use clap::{Parser, Subcommand, error::ErrorKind};

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
    let command = match Cli::try_parse() {
        Ok(cli) => cli.command,
        Err(error) => return refuse(&error),
    };
    let result = match command {
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

/// Wrong arguments are told in one line, like everything else that is wrong; help is printed whole.
fn refuse(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        print!("{error}");
        return ExitCode::SUCCESS;
    }
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        eprint!("{error}");
        return ExitCode::FAILURE;
    }
    let text = error.to_string();
    let line = text.lines().map(str::trim).take_while(|line| !line.starts_with("Usage:"));
    let line = line.filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ");
    let line = line.trim_start_matches("error: ").replace("For more information, try '--help'.", "");
    eprintln!("treecast: {}; --help says what is possible", line.trim().trim_end_matches('.'));
    ExitCode::FAILURE
}

/// What a subcommand returns: its exit code, or one line that says what happened, to what, and what
/// to do about it.
type Outcome = Result<ExitCode, Box<dyn std::error::Error>>;
