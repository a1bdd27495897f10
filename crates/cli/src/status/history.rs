//! `treecast status --history`: what a standing receiver has done.

use std::{path::Path, process::ExitCode};

use serde_json::json;
use treecast_driver::standing::{Entry, History};
use treecast_host::clock::WallTime;

use crate::{Outcome, arguments::counted, figures::bytes, output, receive::standing::default_state};

pub(super) fn show(state: Option<&Path>, json: bool) -> Outcome {
    let state = state.map_or_else(default_state, Path::to_owned);
    let entries = History::read(&state)?;
    if json {
        say!("{}", json!({"event": "history", "entries": entries}));
        return Ok(ExitCode::SUCCESS);
    }
    if entries.is_empty() {
        remark!(
            "no standing receiver has kept a history in {}: name its folder with --state",
            state.display()
        );
    }
    for entry in &entries {
        say!("{} {}", when(entry), output::in_one_line(&line(entry)));
    }
    Ok(ExitCode::SUCCESS)
}

fn when(entry: &Entry) -> String {
    WallTime::local(entry.at).map_or_else(|| entry.at.to_string(), |time| time.to_string())
}

/// What has happened, in one line without the time.
pub(crate) fn line(entry: &Entry) -> String {
    let mut line = entry.event.words().to_owned();
    if let (Some(name), Some(session)) = (&entry.name, &entry.session) {
        line += &format!(" {name} ({session})");
    }
    if let (Some(files), Some(size)) = (entry.files, entry.bytes) {
        line += &format!(": {}, {}", counted(files as usize, "file"), bytes(size));
    }
    line += &entry.into.as_ref().map_or_else(String::new, |into| format!(" in {}", into.display()));
    line += &entry.sender.as_ref().map_or_else(String::new, |sender| format!(" from {sender}"));
    line + &entry.text.as_ref().map_or_else(String::new, |text| format!("; {text}"))
}
