//! The `treecast` command. Each subcommand turns its arguments into a call of the crate that does the work. It
//! turns the results into lines for a person, or JSON for a program.

#![deny(clippy::print_stdout, clippy::print_stderr)] // They panic when nobody reads: see `output`.

// This module comes first, because all others use its macros.
#[macro_use]
mod output;

mod advice;
mod arguments;
mod bench;
mod config;
mod discover;
mod doctor;
mod domain_key;
mod feed;
mod figures;
mod group;
mod help;
mod history;
mod keys;
mod lab;
mod load;
mod log;
mod mast;
mod mead;
mod monitor;
mod moving_line;
mod mroute;
mod new_file;
mod package_files;
mod receive;
mod rib;
mod roster;
mod router;
mod send;
mod sim;
mod status;
mod toml_lines;
mod unicast;

use std::{ffi::OsString, process::ExitCode};

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand, error::ErrorKind};

/// One sender, many receivers, the same bytes.
#[derive(Parser)]
#[command(name = "treecast", version, max_term_width = 100)]
struct Cli {
    #[command(flatten)]
    log: log::Args,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Send(Box<send::Args>),
    Receive(receive::Args),
    Discover(discover::Args),
    Keys(keys::Args),
    Status(status::Args),
    Unicast(unicast::Args),
    Lab(lab::Args),
    Sim(sim::Args),
    Mroute(mroute::Args),
    Mead(mead::Args),
    Router(router::Args),
    Monitor(monitor::Args),
    Load(load::Args),
    Doctor(doctor::Args),
    Bench(bench::Args),
    Feed(Box<feed::Args>),
    Rib(rib::Args),
    Mast(mast::Args),
    #[command(hide = true)]
    PackageFiles(package_files::Args),
}

fn main() -> ExitCode {
    let code = run();
    output::finish();
    code
}

fn run() -> ExitCode {
    let typed = receive::join_ticket(std::env::args_os().collect());
    let (arguments, origins) = match config::extend(typed, command()) {
        Ok(extended) => extended,
        Err(line) => {
            remark!("treecast: {line}");
            return ExitCode::FAILURE;
        }
    };
    let cli = match parse(command(), arguments.clone()) {
        Ok(cli) => cli,
        Err(error) => return arguments::refuse(error, &origins),
    };
    if let Err(line) = log::start(&cli.log) {
        remark!("treecast: {line}");
        return ExitCode::FAILURE;
    }
    treecast_host::file_limit::raise();
    let result = match cli.command {
        Command::Send(args) => send::run(*args, arguments),
        Command::Receive(args) => receive::run(args),
        Command::Discover(args) => discover::run(&args),
        Command::Keys(args) => keys::run(args),
        Command::Status(args) => status::run(&args),
        Command::Unicast(args) => unicast::run(args),
        Command::Lab(args) => lab::run(args),
        Command::Sim(args) => sim::run(args),
        Command::Mroute(args) => mroute::run(args),
        Command::Mead(args) => mead::run(&args),
        Command::Router(args) => router::run(args),
        Command::Monitor(args) => monitor::run(args),
        Command::Load(args) => load::run(args),
        Command::Doctor(args) => doctor::run(args),
        Command::Bench(args) => bench::run(args),
        Command::Feed(args) => feed::run(*args),
        Command::Rib(args) => rib::run(args),
        Command::Mast(args) => mast::run(args),
        Command::PackageFiles(args) => package_files::run(&args, command()),
    };
    let result = result.and_then(|code| match output::failure() {
        Some(line) if code == ExitCode::SUCCESS => Err(line.into()),
        _ => Ok(code),
    });
    result.unwrap_or_else(|error| {
        let line = origins.explain(advice::line(&*error));
        match log::is_on() {
            true => tracing::error!("{line}"),
            false => remark!("treecast: {line}"),
        }
        ExitCode::FAILURE
    })
}

/// The definition of the whole command line.
fn command() -> clap::Command {
    help::arrange(Cli::command())
}

fn parse(mut command: clap::Command, arguments: Vec<OsString>) -> Result<Cli, clap::Error> {
    let matches = command.try_get_matches_from_mut(arguments)?;
    Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
}

/// Parses the command line of a sender. An option that is given again counts as it is given last.
fn send_arguments(arguments: Vec<OsString>) -> Result<send::Args, clap::Error> {
    let sender = command().mut_subcommand("send", |send| send.args_override_self(true));
    match parse(sender, receive::join_ticket(arguments))?.command {
        Command::Send(args) => Ok(*args),
        _ => Err(command().error(ErrorKind::InvalidSubcommand, "the kept command line is no sender's")),
    }
}

/// The result of a subcommand: its exit code, or an error whose one line says what happened, to what, and what
/// to do about it.
type Outcome = Result<ExitCode, Box<dyn std::error::Error>>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_argument_has_a_help_text() {
        let mut commands = vec![command()];
        let mut arguments = 0;
        while let Some(command) = commands.pop() {
            for argument in command.get_arguments().filter(|argument| !argument.is_hide_set()) {
                assert!(argument.get_help().is_some(), "{} of {}", argument.get_id(), command.get_name());
                arguments += 1;
            }
            commands.extend(command.get_subcommands().filter(|command| !command.is_hide_set()).cloned());
        }
        assert!(arguments > 50, "{arguments}");
    }
}
