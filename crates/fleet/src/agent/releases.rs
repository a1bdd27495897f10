//! The releases of a host: staged, verified, activated by the host's own command, and gone back from.
//!
//! A release is staged below the agent's work folder, where its files are received. For activation it is moved to a folder that no
//! ordered program may write to, and compared there with what was signed. Only then does the host's command run.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};
use treecast_driver::security::PublicKey;
use treecast_host::{
    clock::{self, WallTime},
    quantity::Time,
};

use super::{
    joined::write_private,
    program::{self, Choice, Own},
    window::Windows,
};
use crate::{
    message::{read, text_of},
    release::{Release, Signed},
};

/// How a host takes releases: `[roll_out]` of its configuration.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Habits {
    /// The public keys of those whose releases are taken.
    pub keys: Vec<String>,
    /// The command that activates a release. `{folder}` stands for its folder, `{version}` for its version.
    pub activate: Vec<String>,
    /// The times at which releases are activated. Without any: always.
    pub window: Windows,
    /// Whether releases may replace the program of the agent itself.
    pub agent: bool,
    /// The time that a new program of the agent has to report. `None`: two minutes.
    pub trial: Option<Time>,
}

/// The time that a new program of the agent has to report, if the host does not say.
const TRIAL: Duration = Duration::from_secs(120);

impl Habits {
    /// Returns the time that a new program of the agent has to report.
    pub fn trial(&self) -> Duration {
        self.trial.map_or(TRIAL, |time| time.0)
    }
}

/// The place for the files of a release.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Staged {
    pub into: PathBuf,
    /// The active version of the same release. `None` if the host has none.
    pub old: Option<Old>,
}

/// A version of a release that a host has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Old {
    pub version: String,
    pub folder: PathBuf,
}

/// What came of an order to activate something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Activated {
    /// This version is active.
    Version(String),
    /// Nothing was activated: the host's window is closed.
    Later(Later),
    /// Another program of the agent is chosen. It starts when this one has ended, and reports what came of it.
    Replaced,
}

/// The reason why a host does not activate anything yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Later {
    /// When the host's next window opens, in milliseconds since 1970, by the host's clock.
    pub opens_ms: u64,
    /// The window and its opening, in the words and by the local time of the host.
    pub says: String,
}

/// The longest time that an activation may take.
const ACTIVATION_TIME: Duration = Duration::from_secs(600);

/// The versions of one release at a host.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Versions {
    active: Option<String>,
    /// The version before, to go back to.
    before: Option<String>,
}

/// The releases of a host.
pub struct Releases<'a> {
    /// The agent's folder.
    pub state: &'a Path,
    pub habits: &'a Habits,
}

impl Releases<'_> {
    /// Returns the active version of each release.
    pub fn active(&self) -> BTreeMap<String, String> {
        let all = self.versions().into_iter();
        all.filter_map(|(name, versions)| Some((name, versions.active?))).collect()
    }

    /// Makes ready for the files of a release. Returns the folder for them; `None` where the host has all of them already.
    pub fn stage(&self, signed: &Signed) -> Result<Option<Staged>, String> {
        let release = self.check(signed)?;
        if let Some(from) = &release.from
            && self.active().get(&release.name) != Some(from)
        {
            let name = &release.name;
            let has = self.active().remove(name).unwrap_or_else(|| "none".to_owned());
            return Err(format!("the release is for hosts with {name} {from}, and this one has {has}"));
        }
        if release.verify(&self.kept(&release)).is_ok() {
            return Ok(None);
        }
        let folder = self.staged(&release);
        let failed = |error: io::Error| format!("{}: {error}", folder.display());
        remove(&folder).map_err(failed)?;
        fs::create_dir_all(&folder).map_err(failed)?;
        let free = fs::File::open(&folder).ok().and_then(treecast_host::folder::free_bytes);
        match free.is_none_or(|free| free >= release.size_bytes()) {
            true => Ok(Some(self.staged_beside(&release.name, folder))),
            false => Err(format!(
                "the disk has {} bytes of room, and the release needs {}",
                free.unwrap_or(0),
                release.size_bytes()
            )),
        }
    }

    /// Names the active version beside the folder for a new one.
    fn staged_beside(&self, name: &str, into: PathBuf) -> Staged {
        let old = self.active().remove(name).map(|version| {
            let folder = self.versions_of(name).join(&version);
            Old { version, folder }
        });
        Staged { into, old: old.filter(|old| old.folder.exists()) }
    }

    /// Compares what the host has of a release with it. Returns the first difference, in words.
    pub fn verify(&self, signed: &Signed) -> Result<Option<String>, String> {
        let release = self.check(signed)?;
        let kept = self.kept(&release);
        let folder = if kept.exists() { kept } else { self.staged(&release) };
        Ok(release.verify(&folder).err().map(|error| error.to_string()))
    }

    /// Activates a release by the host's command, if its window is open. One that is active is left alone. `is_used` tells whether a
    /// program that the manager has started still runs with a folder.
    pub fn activate(&self, signed: &Signed, is_used: &dyn Fn(&Path) -> bool) -> Result<Activated, String> {
        let release = self.check(signed)?;
        let is_active = || Ok(Activated::Version(release.version.clone()));
        if self.active().get(&release.name) == Some(&release.version) {
            return is_active();
        }
        let (staged, kept) = (self.staged(&release), self.kept(&release));
        if !kept.exists() {
            if is_used(&staged) {
                return Err("a program still writes to the release's folder".into());
            }
            let failed = |error: io::Error| format!("{}: {error}", kept.display());
            fs::create_dir_all(kept.parent().unwrap_or(self.state)).map_err(failed)?;
            fs::rename(&staged, &kept).map_err(failed)?;
        }
        if let Err(error) = release.verify(&kept) {
            // It is received anew next time.
            _ = remove(&kept);
            return Err(error.to_string());
        }
        if let Some(later) = self.later() {
            return Ok(Activated::Later(later));
        }
        if release.kind.is_agent() {
            return self.replace(Own { name: release.name, version: release.version });
        }
        self.run(&release.name, &release.version, &kept)?;
        self.note(&release.name, &release.version)?;
        is_active()
    }

    /// Activates the version before, if the host's window is open.
    pub fn go_back(&self, name: &str) -> Result<Activated, String> {
        let is_agent = Choice::load(self.state).active.is_some_and(|own| own.name == name);
        let versions = self.versions().remove(name).unwrap_or_default();
        if is_agent && versions.before.is_none() && self.later().is_none() {
            return self.replace_by_installed(name);
        }
        let before =
            versions.before.ok_or_else(|| format!("there is no version of {name} before the active one"))?;
        let kept = self.versions_of(name).join(&before);
        if !kept.exists() {
            return Err(format!("{name} {before} is not on this host any more"));
        }
        if let Some(later) = self.later() {
            return Ok(Activated::Later(later));
        }
        if is_agent {
            return self.replace(Own { name: name.to_owned(), version: before });
        }
        self.run(name, &before, &kept)?;
        self.note(name, &before)?;
        Ok(Activated::Version(before))
    }

    /// Puts another program of the agent on trial.
    fn replace(&self, own: Own) -> Result<Activated, String> {
        use std::os::unix::fs::PermissionsExt;
        let path = program::path(self.state, &own);
        let failed = |error: io::Error| format!("{}: {error}", path.display());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).map_err(failed)?;
        program::try_out(self.state, own).map_err(failed)?;
        Ok(Activated::Replaced)
    }

    /// Has the agent go back to the program that is installed.
    fn replace_by_installed(&self, name: &str) -> Result<Activated, String> {
        program::choose_installed(self.state).map_err(|error| error.to_string())?;
        let mut all = self.versions();
        all.remove(name);
        self.save(&all)?;
        Ok(Activated::Replaced)
    }

    /// Notes the program that runs as the active version of its release.
    pub fn note_own(&self, own: &Own) -> Result<(), String> {
        match self.active().get(&own.name) == Some(&own.version) {
            true => Ok(()),
            false => self.note(&own.name, &own.version),
        }
    }

    /// Returns when the host's next window opens; `None` while one is open.
    fn later(&self) -> Option<Later> {
        let opens = self.habits.window.opens(clock::since_1970().as_secs())?;
        let at = WallTime::local(opens).map_or_else(|| opens.to_string(), |time| time.to_string());
        let says = format!("its window is {}, so it activates at {at} of its clock", self.habits.window);
        Some(Later { opens_ms: opens * 1000, says })
    }

    fn check(&self, signed: &Signed) -> Result<Release, String> {
        let keys: Result<Vec<PublicKey>, _> = self.habits.keys.iter().map(|key| key.parse()).collect();
        let keys = keys.map_err(|error| format!("`keys` below [roll_out] in agent.toml: {error}"))?;
        let release = signed.check(Some(&keys)).map_err(|error| error.to_string())?;
        if release.kind.is_agent() && !self.habits.agent {
            return Err(
                "this host does not permit that its agent is replaced: set `agent = true` below [roll_out] in agent.toml"
                    .into(),
            );
        }
        match &release.architecture {
            Some(other) if other != std::env::consts::ARCH => {
                Err(format!("the release is for {other}, and this host is {}", std::env::consts::ARCH))
            }
            _ => Ok(release),
        }
    }

    fn run(&self, name: &str, version: &str, folder: &Path) -> Result<(), String> {
        let Some((program, words)) = self.habits.activate.split_first() else {
            return Err("this host has no command to activate releases: set `activate` below [roll_out] in agent.toml".into());
        };
        let fill = |word: &String| {
            word.replace("{folder}", &folder.to_string_lossy())
                .replace("{version}", version)
                .replace("{name}", name)
        };
        let mut command = Command::new(program);
        command.args(words.iter().map(fill)).current_dir(folder).stdin(Stdio::null()).stdout(Stdio::null());
        let errors = self.state.join("activation-errors");
        let file = fs::File::create(&errors).map_err(|error| error.to_string())?;
        let failed = |error: io::Error| format!("{program} cannot be started: {error}");
        let mut child = command.stderr(file).spawn().map_err(failed)?;
        let began = Instant::now();
        let status = loop {
            match child.try_wait().map_err(failed)? {
                Some(status) => break status,
                None if began.elapsed() > ACTIVATION_TIME => {
                    // It is waited for below.
                    _ = child.kill();
                    _ = child.wait();
                    return Err(format!(
                        "{program} was not done after {} s, and was killed",
                        ACTIVATION_TIME.as_secs()
                    ));
                }
                None => std::thread::sleep(Duration::from_millis(50)),
            }
        };
        if status.success() {
            return Ok(());
        }
        let said = fs::read_to_string(&errors).unwrap_or_default();
        let last = said.lines().last().unwrap_or("it said nothing");
        Err(format!("{program} failed ({status}): {last:.300}"))
    }

    fn note(&self, name: &str, version: &str) -> Result<(), String> {
        let mut all = self.versions();
        let versions = all.entry(name.to_owned()).or_default();
        versions.before = versions.active.replace(version.to_owned()).filter(|before| before != version);
        self.save(&all)?;
        self.forget_old(name, &all[name]);
        Ok(())
    }

    fn save(&self, all: &BTreeMap<String, Versions>) -> Result<(), String> {
        let path = self.state.join("releases.json");
        write_private(&path, &text_of(all)).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Removes what is neither active nor the version before.
    fn forget_old(&self, name: &str, versions: &Versions) {
        for entry in fs::read_dir(self.versions_of(name)).into_iter().flatten().flatten() {
            let version = entry.file_name().to_string_lossy().into_owned();
            if ![&versions.active, &versions.before].contains(&&Some(version)) {
                // It is tried again after the next activation.
                _ = fs::remove_dir_all(entry.path());
            }
        }
    }

    fn versions(&self) -> BTreeMap<String, Versions> {
        let text = fs::read_to_string(self.state.join("releases.json")).unwrap_or_default();
        read(&text).unwrap_or_default()
    }

    /// Returns the folder of all versions of a release that are kept.
    fn versions_of(&self, name: &str) -> PathBuf {
        self.state.join("releases").join(name)
    }

    fn staged(&self, release: &Release) -> PathBuf {
        self.state.join("work").join(format!("release-{}-{}", release.name, release.version))
    }

    fn kept(&self, release: &Release) -> PathBuf {
        self.versions_of(&release.name).join(&release.version)
    }
}

fn remove(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use treecast_driver::security::Identity;

    use super::*;

    #[test]
    fn a_release_is_taken_activated_once_and_gone_back_from() {
        let state = std::env::temp_dir().join(format!("treecast-releases-{}", std::process::id()));
        let source = state.join("source");
        fs::create_dir_all(&source).unwrap();
        let key = Identity::generate().unwrap();
        let script = format!("echo {{version}} >> {0}; test {{version}} != 3", state.join("log").display());
        let habits = Habits {
            keys: vec![key.public_key().to_string()],
            activate: ["sh", "-c", &script].map(str::to_owned).into(),
            ..Habits::default()
        };
        let releases = Releases { state: &state, habits: &habits };
        let make = |version: &str| {
            fs::write(source.join("file"), version).unwrap();
            Release::of_folder(&source, "app", version, None, None).unwrap().sign(&key)
        };
        let take = |version: &str| {
            let signed = make(version);
            let folder = releases.stage(&signed).unwrap().expect("it is not here yet");
            assert!(releases.verify(&signed).unwrap().unwrap().contains("it is missing"));
            fs::copy(source.join("file"), folder.into.join("file")).unwrap();
            assert_eq!(releases.verify(&signed).unwrap(), None);
            assert!(releases.activate(&signed, &|_| true).unwrap_err().contains("still writes"));
            (releases.activate(&signed, &|_| false), signed)
        };
        let (first, signed) = take("1");
        first.unwrap();
        releases.activate(&signed, &|_| false).unwrap();
        assert_eq!(releases.stage(&signed).unwrap(), None);
        take("2").0.unwrap();
        assert!(take("3").0.unwrap_err().contains("sh failed"));
        assert_eq!(releases.active()["app"], "2");
        assert_eq!(releases.stage(&make("4")).unwrap().unwrap().old.unwrap().version, "2");
        assert_eq!(releases.go_back("app").unwrap(), Activated::Version("1".into()));
        assert_eq!(releases.active()["app"], "1");
        assert_eq!(fs::read_to_string(state.join("log")).unwrap(), "1\n2\n3\n1\n");
        let foreign = Release::of_folder(&source, "app", "9", Some("vax".into()), None).unwrap().sign(&key);
        assert!(releases.stage(&foreign).unwrap_err().contains("the release is for vax"));
        let later = Release::of_folder(&source, "app", "9", None, Some("7".into())).unwrap().sign(&key);
        assert!(releases.stage(&later).unwrap_err().contains("for hosts with app 7, and this one has 1"));
        fs::remove_dir_all(&state).unwrap();
    }

    #[test]
    fn a_host_activates_in_its_window_alone() {
        let state = std::env::temp_dir().join(format!("treecast-window-{}", std::process::id()));
        let source = state.join("source");
        fs::create_dir_all(&source).unwrap();
        fs::write(source.join("file"), "1").unwrap();
        let key = Identity::generate().unwrap();
        let mark = state.join("activated");
        let windows = |text: &str| {
            let text = format!("activate = [\"touch\", \"{}\"]\nwindow = {text}\n", mark.display());
            let habits: Habits = toml::from_str(&text).unwrap();
            Habits { keys: vec![key.public_key().to_string()], ..habits }
        };
        // An hour that begins in about six hours.
        let now = WallTime::local(clock::since_1970().as_secs()).unwrap();
        let (begin, end) = ((now.hour + 6) % 24, (now.hour + 7) % 24);
        let closed = windows(&format!("\"{begin:02}:00-{end:02}:00\""));
        let signed = Release::of_folder(&source, "app", "1", None, None).unwrap().sign(&key);
        let releases = Releases { state: &state, habits: &closed };
        let staged = releases.stage(&signed).unwrap().unwrap();
        assert_eq!(staged.old, None);
        fs::copy(source.join("file"), staged.into.join("file")).unwrap();
        let Activated::Later(later) = releases.activate(&signed, &|_| false).unwrap() else {
            panic!("it is activated out of its window")
        };
        let seconds = later.opens_ms / 1000 - clock::since_1970().as_secs();
        assert!((5 * 3600 - 60..=6 * 3600).contains(&seconds), "{later:?}");
        assert!(later.says.contains(&format!("{begin:02}:00:00 of its clock")), "{later:?}");
        assert!(releases.active().is_empty() && !mark.exists());
        // What has come is kept, and is not received again.
        assert_eq!(releases.stage(&signed).unwrap(), None);
        let open = windows("[\"mon 00:00-24:00\", \"tue-sun 00:00-24:00\"]");
        let releases = Releases { state: &state, habits: &open };
        assert_eq!(releases.activate(&signed, &|_| false).unwrap(), Activated::Version("1".into()));
        assert!(mark.exists());
        fs::remove_dir_all(&state).unwrap();
    }
}
