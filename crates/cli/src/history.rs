//! The history of a standing receiver, as `treecast status --history` and the receiver itself show it.

use std::{
    env,
    path::{Path, PathBuf},
    process::ExitCode,
};

use serde_json::{Value, json};
use treecast::unstable::{
    standing::{self, Entry},
    status::{Found, Progress, find},
};
use treecast_host::{clock::WallTime, user};

use crate::{Outcome, arguments::counted, figures::bytes, output};

/// The folder of the service's history, and of root's.
const SERVICE: &str = "/var/lib/treecast";

pub(crate) fn show(state: Option<&Path>, json: bool) -> Outcome {
    let state = state.map_or_else(default_state, Path::to_owned);
    let entries = standing::history(&state).map_err(|error| match running().is_empty() {
        true => format!("{error}; name the folder of a standing receiver of this user with --state"),
        false => format!("{error}; {}", others(&running())),
    })?;
    if json {
        say!("{}", as_json(&entries));
        return Ok(ExitCode::SUCCESS);
    }
    if entries.is_empty() {
        remark!("{}", nothing_in(&state, &running()));
    }
    for entry in &entries {
        say!("{} {}", when(entry), output::in_one_line(&line(entry)));
    }
    Ok(ExitCode::SUCCESS)
}

/// The folders of the histories of standing receivers that run.
fn running() -> Vec<String> {
    let of_standing = |found: Found| match found.snapshot?.progress {
        Progress::Standing(standing) => Some(standing.state).filter(|state| !state.is_empty()),
        _ => None,
    };
    find().into_iter().filter_map(of_standing).collect()
}

/// Says that a folder has no history, and where one is. `running`: the folders of standing receivers that run.
fn nothing_in(state: &Path, running: &[String]) -> String {
    let other = match state == Path::new(SERVICE) {
        true => String::new(),
        false => format!("; {SERVICE} is the service's"),
    };
    let nothing = format!("no standing receiver has kept a history in {}", state.display());
    match running.is_empty() {
        true => format!("{nothing}: name its folder with --state (`state` in its configuration{other})"),
        false => format!("{nothing}: {}", others(running)),
    }
}

/// Says how to see the histories in these folders.
fn others(running: &[String]) -> String {
    let commands: Vec<_> = running.iter().map(|state| format!("`treecast {}`", command(state))).collect();
    format!("{} shows that of a standing receiver that runs here", commands.join(" or "))
}

/// The command that shows the history in a folder.
pub(crate) fn command(state: &str) -> String {
    match state.is_empty() || Path::new(state) == default_state() {
        true => "status --history".to_owned(),
        false => format!("status --history --state {state}"),
    }
}

/// The folder of a standing receiver's history: the one that systemd gives, else the system's or the user's.
pub(crate) fn default_state() -> PathBuf {
    let given = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    if let Some(folder) = given("STATE_DIRECTORY") {
        return folder;
    }
    if user::is_root() {
        return PathBuf::from(SERVICE);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_looks_in_the_wrong_folder_reads_which_one_is_right() {
        let line = nothing_in(Path::new("/a"), &["/srv/state".to_owned()]);
        assert_eq!(
            line,
            "no standing receiver has kept a history in /a: `treecast status --history --state /srv/state` shows that of a standing \
             receiver that runs here"
        );
        let line = nothing_in(Path::new("/a"), &[]);
        assert!(
            line.contains("/a: name its folder with --state") && line.contains("/var/lib/treecast"),
            "{line}"
        );
        assert_eq!(command(&default_state().display().to_string()), "status --history");
    }
}
