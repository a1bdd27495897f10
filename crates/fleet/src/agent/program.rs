//! The program of the agent itself: the installed one, or one that a release has brought.
//!
//! The installed program is always started first, and no release changes it. It looks up which program is chosen, and keeps that one as
//! its child. A new program is on trial until it has reported to the manager. If it ends before, or does not report in time, the one
//! before is started again. What is chosen is on the disk before anything starts, so a host that loses its power in the middle starts
//! the program before.

use std::{
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
    process::{Child, Command},
    thread,
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};
use treecast_host::process;

use super::joined::write_private;
use crate::{
    message::{read, text_of},
    release::PROGRAM,
};

/// The exit code by which a program asks its keeper to look again which program is chosen.
pub const LOOK_AGAIN: u8 = 86;
/// The time between two looks whether a program has ended or reported.
const LOOK: Duration = Duration::from_millis(100);

/// A program that a release has brought.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Own {
    /// The name of the release.
    pub name: String,
    pub version: String,
}

/// The programs of an agent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Choice {
    /// The program that has reported. `None`: the installed one.
    pub active: Option<Own>,
    pub trial: Option<Trial>,
    /// The last program that went back, and why.
    pub failed: Option<(Own, String)>,
}

/// A program that has not reported yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trial {
    pub own: Own,
    /// Whether it was started. It is started once.
    pub has_begun: bool,
}

/// The program that is to be started next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    Installed,
    Own { own: Own, is_on_trial: bool },
}

/// What became of a program that was kept.
#[derive(Debug, PartialEq, Eq)]
pub enum Kept {
    /// Another program may be chosen now.
    LookAgain,
    /// It has ended with this exit code, or was stopped.
    Ended(u8),
}

impl Choice {
    /// Reads what is chosen. A file that is damaged or missing chooses the installed program.
    pub fn load(state: &Path) -> Self {
        read(&fs::read_to_string(file(state)).unwrap_or_default()).unwrap_or_default()
    }

    fn save(&self, state: &Path) -> io::Result<()> {
        write_private(&file(state), &text_of(self))
    }

    fn is_on_trial(&self, own: &Own) -> bool {
        self.trial.as_ref().is_some_and(|trial| trial.own == *own)
    }

    /// Goes back from the program on trial.
    fn give_up(&mut self, why: &str) {
        self.failed = self.trial.take().map(|trial| (trial.own, why.to_owned()));
    }
}

/// Puts a program on trial. It is started when the running one has ended.
///
/// # Errors
/// If that cannot be written down.
pub fn try_out(state: &Path, own: Own) -> io::Result<()> {
    let choice = Choice::load(state);
    let trial = Some(Trial { own, has_begun: false });
    Choice { trial, failed: None, ..choice }.save(state)
}

/// Chooses the installed program.
///
/// # Errors
/// If that cannot be written down.
pub fn choose_installed(state: &Path) -> io::Result<()> {
    Choice::default().save(state)
}

/// Makes the program on trial the one that is started from now on. Does nothing for any other program.
///
/// # Errors
/// If that cannot be written down.
pub fn confirm(state: &Path, own: &Own) -> io::Result<()> {
    match Choice::load(state).is_on_trial(own) {
        true => Choice { active: Some(own.clone()), ..Choice::default() }.save(state),
        false => Ok(()),
    }
}

/// Returns the program that is to be started, and notes that a trial has begun.
///
/// # Errors
/// If that cannot be written down.
pub fn next(state: &Path) -> io::Result<Next> {
    let mut choice = Choice::load(state);
    match &mut choice.trial {
        Some(trial) if !trial.has_begun => {
            trial.has_begun = true;
            let own = trial.own.clone();
            choice.save(state)?;
            return Ok(Next::Own { own, is_on_trial: true });
        }
        Some(_) => {
            choice.give_up("the host or its agent ended before the new program had reported");
            choice.save(state)?;
        }
        None => {}
    }
    match choice.active {
        Some(own) if path(state, &own).is_file() => Ok(Next::Own { own, is_on_trial: false }),
        _ => Ok(Next::Installed),
    }
}

/// Starts a program and waits for its end, or until `is_stopped`. One on trial has `patience` to report.
///
/// # Errors
/// If what comes of it cannot be written down.
pub fn keep(
    state: &Path,
    own: &Own,
    arguments: &[OsString],
    patience: Duration,
    is_stopped: &dyn Fn() -> bool,
) -> io::Result<Kept> {
    let mut command = Command::new(path(state, own));
    command.args(arguments).arg("--as-release").arg(format!("{}/{}", own.name, own.version));
    process::die_with_parent(&mut command);
    process::with_all_signals(&mut command);
    let is_on_trial = || Choice::load(state).is_on_trial(own);
    let give_up = |why: &str| {
        let mut choice = Choice::load(state);
        match choice.is_on_trial(own) {
            true => choice.give_up(why),
            // One that has reported before and cannot be started any more: the installed one can.
            false => choice.active = None,
        }
        choice.save(state).map(|()| Kept::LookAgain)
    };
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => return give_up(&format!("the new program cannot be started: {error}")),
    };
    let began = Instant::now();
    let mut is_tried = is_on_trial();
    loop {
        if is_stopped() {
            return stop(child);
        }
        is_tried = is_tried && is_on_trial();
        if let Some(status) = child.try_wait()? {
            return match status.code() {
                _ if is_tried => give_up(&format!("the new program ended before it had reported ({status})")),
                Some(code) if code == i32::from(LOOK_AGAIN) => Ok(Kept::LookAgain),
                code => Ok(Kept::Ended(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))),
            };
        }
        if is_tried && began.elapsed() > patience {
            child.kill()?;
            child.wait()?;
            // It may have reported in its last moment.
            return match is_on_trial() {
                true => give_up(&format!("the new program did not report in {} s", patience.as_secs_f64())),
                false => Ok(Kept::LookAgain),
            };
        }
        thread::sleep(LOOK);
    }
}

/// Asks a program to end, and waits until it has.
fn stop(mut child: Child) -> io::Result<Kept> {
    // It may have ended already.
    _ = process::signal(&child, libc::SIGTERM);
    child.wait()?;
    Ok(Kept::Ended(0))
}

/// Returns where the program of a release is.
pub fn path(state: &Path, own: &Own) -> PathBuf {
    state.join("releases").join(&own.name).join(&own.version).join(PROGRAM)
}

fn file(state: &Path) -> PathBuf {
    state.join("program.json")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    struct State(PathBuf);

    impl State {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("treecast-program-{name}-{}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        fn add(&self, version: &str, script: &str) -> Own {
            let own = Own { name: "agent".into(), version: version.into() };
            let path = path(&self.0, &own);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            // A child that is started meanwhile must not have it open for writing.
            let line = format!("printf '#!/bin/sh\\n%s\\n' '{script}' > {0}; chmod 755 {0}", path.display());
            assert!(Command::new("sh").args(["-c", &line]).status().unwrap().success());
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o755);
            own
        }

        fn keep(&self, own: &Own) -> Kept {
            keep(&self.0, own, &[], Duration::from_millis(300), &|| false).unwrap()
        }
    }

    impl Drop for State {
        fn drop(&mut self) {
            _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_new_program_is_started_once_and_stays_when_it_has_reported() {
        let state = State::new("confirmed");
        assert_eq!(next(&state.0).unwrap(), Next::Installed);
        let one = state.add("1", "exit 7");
        try_out(&state.0, one.clone()).unwrap();
        assert_eq!(next(&state.0).unwrap(), Next::Own { own: one.clone(), is_on_trial: true });
        confirm(&state.0, &one).unwrap();
        let chosen = Next::Own { own: one.clone(), is_on_trial: false };
        assert_eq!(next(&state.0).unwrap(), chosen);
        assert_eq!(state.keep(&one), Kept::Ended(7));
        // The power is cut while another one is tried.
        let two = state.add("2", "exit 0");
        try_out(&state.0, two.clone()).unwrap();
        assert_eq!(next(&state.0).unwrap(), Next::Own { own: two.clone(), is_on_trial: true });
        assert_eq!(next(&state.0).unwrap(), chosen);
        let (failed, why) = Choice::load(&state.0).failed.unwrap();
        assert!(failed == two && why.contains("ended before the new program had reported"), "{why}");
        // A program that is gone, and a file that is damaged.
        fs::remove_dir_all(state.0.join("releases")).unwrap();
        assert_eq!(next(&state.0).unwrap(), Next::Installed);
        fs::write(file(&state.0), "{").unwrap();
        assert_eq!(next(&state.0).unwrap(), Next::Installed);
    }

    #[test]
    fn a_program_that_ends_or_is_silent_goes_back() {
        let state = State::new("failed");
        for (version, script, says) in [
            ("1", "exit 3", "ended before it had reported (exit status: 3)"),
            ("2", "exec sleep 1000", "did not report in 0.3 s"),
            ("3", "exit 86", "ended before it had reported"),
        ] {
            let own = state.add(version, script);
            try_out(&state.0, own.clone()).unwrap();
            assert!(matches!(next(&state.0).unwrap(), Next::Own { is_on_trial: true, .. }));
            assert_eq!(state.keep(&own), Kept::LookAgain);
            let (failed, why) = Choice::load(&state.0).failed.unwrap();
            assert!(failed == own && why.contains(says), "{why}");
            assert_eq!(next(&state.0).unwrap(), Next::Installed);
        }
        let own = Own { name: "agent".into(), version: "none".into() };
        try_out(&state.0, own.clone()).unwrap();
        next(&state.0).unwrap();
        assert_eq!(state.keep(&own), Kept::LookAgain);
        assert!(Choice::load(&state.0).failed.unwrap().1.contains("cannot be started"));
    }
}
