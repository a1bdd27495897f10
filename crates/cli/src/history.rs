//! The history of a standing receiver, as `treecast status --history` and the receiver itself show it.

use std::{
    env,
    path::{Path, PathBuf},
    process::ExitCode,
};

use serde_json::{Value, json};
use treecast::standing::{self, Entry};
use treecast_host::{clock::WallTime, user};

use crate::{Outcome, arguments::counted, figures::bytes, output};

pub(crate) fn show(state: Option<&Path>, json: bool) -> Outcome {
    let state = state.map_or_else(default_state, Path::to_owned);
    let entries = standing::history(&state)?;
    if json {
        say!("{}", as_json(&entries));
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

/// The folder of a standing receiver's history: the one that systemd gives, else the system's or the user's.
pub(crate) fn default_state() -> PathBuf {
    let given = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    if let Some(folder) = given("STATE_DIRECTORY") {
        return folder;
    }
    if user::is_root() {
        return PathBuf::from("/var/lib/treecast");
    }
    let home = || given("HOME").unwrap_or_else(|| PathBuf::from("/")).join(".local/state");
    given("XDG_STATE_HOME").unwrap_or_else(home).join("treecast")
}

pub(crate) fn as_json(entries: &[Entry]) -> Value {
    json!({"event": "history", "entries": entries})
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
