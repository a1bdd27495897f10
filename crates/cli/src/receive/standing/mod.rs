//! `receive --standing`: a service that takes announced sessions by the rules of a file.

mod config;

use std::{path::Path, process::ExitCode};

use treecast::unstable::{
    Stop,
    standing::{Entry, Happened},
};
use treecast_host::service_manager::stderr_is_journal;

use crate::{Outcome, history, output};

pub(super) fn run(path: &Path, json: bool) -> Outcome {
    let standing = config::read(path)?;
    let stop = Stop::on_signals()?;
    let has_priorities = stderr_is_journal();
    let mut on_entry = |entry: &Entry| match json {
        true => say!("{}", history::as_json(std::slice::from_ref(entry))),
        false => tell(entry, has_priorities),
    };
    standing.run(&stop, &mut on_entry)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints what has happened. In the journal, lines begin with their priorities (sd-daemon(3)).
fn tell(entry: &Entry, has_priorities: bool) {
    let priority = match entry.event {
        _ if !has_priorities => "",
        Happened::CommandFailed | Happened::GivenUp => "<3>",
        event if event.is_bad() => "<4>",
        _ => "<6>",
    };
    output::to_stderr(format_args!("{priority}{}\n", output::in_one_line(&history::line(entry))));
}
