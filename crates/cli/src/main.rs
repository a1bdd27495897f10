//! The `treecast` command. Each subcommand turns its arguments into a call of the crate that does the work. It
//! turns the results into lines for a person, or JSON for a program.

#![cfg_attr(
    not(feature = "suite"),
    allow(dead_code, reason = "an endpoint needs a part of what commands share")
)]
#![deny(clippy::print_stdout, clippy::print_stderr)] // They panic when nobody reads: see `output`.

// This module comes first, because all others use its macros.
#[macro_use]
mod output;

mod advice;
mod arguments;
#[cfg(feature = "suite")]
mod bench;
mod config;
mod discover;
#[cfg(feature = "suite")]
mod doctor;
mod domain_key;
mod feed;
mod figures;
#[cfg(feature = "suite")]
mod fleet;
mod group;
mod help;
mod history;
mod keys;
#[cfg(feature = "suite")]
mod lab;
#[cfg(feature = "suite")]
mod load;
mod log;
#[cfg(feature = "suite")]
mod mast;
#[cfg(feature = "suite")]
mod mead;
#[cfg(feature = "suite")]
mod monitor;
mod moving_line;
#[cfg(feature = "suite")]
mod mroute;
mod new_file;
#[cfg(feature = "suite")]
mod package_files;
mod receive;
#[cfg(feature = "suite")]
mod rib;
mod roster;
#[cfg(feature = "suite")]
mod router;
mod send;
mod sharing;
#[cfg(feature = "suite")]
mod sim;
mod status;
#[cfg(feature = "suite")]
mod suite;
mod toml_lines;
#[cfg(feature = "suite")]
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
    Receive(Box<receive::Args>),
    Discover(discover::Args),
    Keys(keys::Args),
    Status(status::Args),
    Feed(Box<feed::Args>),
    #[cfg(feature = "suite")]
    #[command(flatten)]
    Suite(suite::Command),
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
        Command::Receive(args) => receive::run(*args),
        Command::Discover(args) => discover::run(&args),
        Command::Keys(args) => keys::run(args),
        Command::Status(args) => status::run(&args),
        Command::Feed(args) => feed::run(*args),
        #[cfg(feature = "suite")]
        Command::Suite(command) => suite::run(command),
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
