//! Refuses what an agent's host does not permit.
//!
//! Who may only measure starts no other program than treecast's own, with options that neither run commands nor lead out of the
//! agent's folder. What is not in a list here is refused, so that a new option of treecast is no new right.

use std::path::{Component, Path};

use crate::{
    message::{Program, Start, Work},
    permits::Permits,
};

/// Refuses work that is not permitted. `folder` is the agent's own.
///
/// # Errors
/// The reason, and what to change at the host.
pub fn check(permits: Permits, work: &Work, folder: &Path) -> Result<(), String> {
    Check { permits, folder }.work(work)
}

/// What is permitted, and the agent's folder.
struct Check<'f> {
    permits: Permits,
    folder: &'f Path,
}

impl Check<'_> {
    fn work(&self, work: &Work) -> Result<(), String> {
        let folder = self.folder;
        match work {
            Work::Facts | Work::Listening { .. } | Work::Signal { .. } | Work::StopSampling { .. } => Ok(()),
            Work::Start(start) => self.start(start),
            Work::Stage { .. } | Work::Verify { .. } | Work::Activate { .. } | Work::GoBack { .. } => {
                self.needs(self.permits.roll_out, "roll_out")
            }
            Work::Sample { .. } => self.needs(self.permits.measure, "measure"),
            Work::Folder { name } => self.may_use_files().and_then(|()| check_name(name)),
            Work::Fetch { folder, name, .. } => {
                self.may_use_files()?;
                check_name(folder)?;
                check_name(name)
            }
            Work::Check { path, .. } => self.may_use_files().and_then(|()| check_path(path, folder)),
        }
    }

    fn may_use_files(&self) -> Result<(), String> {
        self.needs(self.permits.measure || self.permits.receive, "measure")
    }

    fn needs(&self, is_permitted: bool, key: &str) -> Result<(), String> {
        match is_permitted {
            true => Ok(()),
            false => {
                Err(format!("this host does not permit it: set `{key} = true` below [may] in its agent.toml"))
            }
        }
    }

    fn start(&self, start: &Start) -> Result<(), String> {
        if self.permits.run_commands {
            return Ok(());
        }
        if start.program == Program::System {
            return self.needs(false, "run_commands");
        }
        if let Some(folder) = &start.folder {
            check_name(folder)?;
        }
        let verb = start.arguments.first().map_or("", String::as_str);
        let grammar = GRAMMARS.iter().find(|grammar| grammar.verb == verb);
        let grammar = grammar.ok_or_else(|| {
            format!("`treecast {verb}` is no measurement: set `run_commands = true` below [may] in agent.toml to permit it")
        })?;
        match verb {
            "receive" => self.needs(self.permits.measure || self.permits.receive, "receive")?,
            _ => self.needs(self.permits.measure, "measure")?,
        }
        grammar.check(&start.arguments[1..], self.folder)
    }
}

/// The options that a measurement may give to a command of treecast.
struct Grammar {
    verb: &'static str,
    /// Options without a value.
    flags: &'static [&'static str],
    /// Options with a value that is no path.
    values: &'static [&'static str],
    /// Options with the path of a file or folder.
    paths: &'static [&'static str],
    /// Options with the path of a release that the host has, which is only read.
    releases: &'static [&'static str],
    /// Whether a word that is no option is a path. A ticket is none.
    are_words_paths: bool,
}

const GRAMMARS: &[Grammar] = &[
    Grammar {
        verb: "send",
        flags: &["--json", "--plain"],
        values: &[
            "--congestion-loss",
            "--control",
            "--deadline",
            "--fanout",
            "--fec",
            "--idle",
            "--interface",
            "--local-mode",
            "--rate",
            "--rate-floor",
            "--rates",
            "--receivers",
            "--repair",
            "--repair-rate",
            "--wait",
            "--wait-timeout",
        ],
        paths: &["--local-groups"],
        releases: &[],
        are_words_paths: true,
    },
    Grammar {
        verb: "receive",
        flags: &["--json"],
        values: &["--name", "--interface", "--timeout", "--wait-for-space"],
        paths: &["--into", "--local-groups"],
        releases: &["--old"],
        are_words_paths: false,
    },
    Grammar {
        verb: "unicast",
        flags: &["--json"],
        values: &["--rate", "--congestion"],
        paths: &[],
        releases: &[],
        are_words_paths: true,
    },
];

impl Grammar {
    fn check(&self, arguments: &[String], folder: &Path) -> Result<(), String> {
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            let (option, attached) = match word.split_once('=').filter(|_| word.starts_with("--")) {
                Some((option, value)) => (option, Some(value)),
                None => (word.as_str(), None),
            };
            if !option.starts_with('-') {
                if self.are_words_paths {
                    self.check_word(word, folder)?;
                }
                continue;
            }
            if self.flags.contains(&option) && attached.is_none() {
                continue;
            }
            let mut value = || attached.or_else(|| words.next().map(String::as_str)).unwrap_or_default();
            if self.values.contains(&option) {
                value();
            } else if self.paths.contains(&option) {
                check_path(value(), folder)?;
            } else if self.releases.contains(&option) {
                // They stand beside the folder of programs.
                check_path(value(), &folder.with_file_name("releases"))?;
            } else {
                return Err(format!(
                    "`treecast {} {option}` is not permitted in a measurement: set `run_commands = true` below [may] in \
                     agent.toml to permit it",
                    self.verb
                ));
            }
        }
        Ok(())
    }

    /// `treecast unicast` has words and an address beside its path.
    fn check_word(&self, word: &str, folder: &Path) -> Result<(), String> {
        let is_plain = matches!(word, "server" | "client" | "tcp" | "udp");
        let is_address = word.parse::<std::net::SocketAddr>().is_ok();
        match self.verb == "unicast" && (is_plain || is_address) {
            true => Ok(()),
            false => check_path(word, folder),
        }
    }
}

/// Refuses a name that is more than one component of a path.
fn check_name(name: &str) -> Result<(), String> {
    let mut components = Path::new(name).components();
    let is_name = matches!((components.next(), components.next()), (Some(Component::Normal(_)), None));
    match is_name && name.len() <= 200 && !name.contains(['/', '\0']) {
        true => Ok(()),
        false => Err(format!("{name:?} is no name of a file or folder here")),
    }
}

/// Refuses a path that leads out of the agent's folder.
fn check_path(path: &str, folder: &Path) -> Result<(), String> {
    let inside = Path::new(path).strip_prefix(folder);
    let leads_down = |path: &Path| path.components().all(|part| matches!(part, Component::Normal(_)));
    match inside.is_ok_and(leads_down) {
        true => Ok(()),
        false => Err(format!("{path} is outside of the agent's folder {}", folder.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FOLDER: &str = "/var/lib/treecast/agent/work";

    fn start(program: Program, words: &str) -> Work {
        let arguments = words.split_whitespace().map(str::to_owned).collect();
        Work::Start(Start { program, arguments, folder: None, at_ns: None, limit_ms: 1 })
    }

    fn check(permits: Permits, work: &Work) -> Result<(), String> {
        super::check(permits, work, Path::new(FOLDER))
    }

    #[test]
    fn a_measurement_neither_runs_commands_nor_leaves_its_folder() {
        let usual = Permits::default();
        let treecast = |words: &str| check(usual, &start(Program::Treecast, words));
        let inside = format!("{FOLDER}/copy");
        assert_eq!(treecast(&format!("receive --json --name c1 --into {inside} treecast2.abc")), Ok(()));
        let old = "/var/lib/treecast/agent/releases/app/1.0";
        assert_eq!(treecast(&format!("receive --json --old {old} --into {inside} t")), Ok(()));
        assert_eq!(treecast(&format!("send --json --rate 3M --fec=auto {inside}/file")), Ok(()));
        assert_eq!(treecast(&format!("unicast --json server tcp {inside} [::1]:4242")), Ok(()));
        for (words, says) in [
            (format!("receive --exec id --into {inside} t"), "--exec` is not permitted"),
            ("receive --into /etc t".into(), "/etc is outside"),
            (format!("receive --into {FOLDER}/../.. t"), "is outside"),
            (format!("receive --old /etc --into {inside} t"), "/etc is outside"),
            ("receive --into /var/lib/treecast/agent/releases/app t".into(), "is outside"),
            ("send /etc/shadow".into(), "/etc/shadow is outside"),
            ("send --exec=id".into(), "--exec` is not permitted"),
            ("unicast client tcp /etc/passwd [::1]:1".into(), "/etc/passwd is outside"),
            ("lab run x".into(), "`treecast lab` is no measurement"),
            ("".into(), "is no measurement"),
        ] {
            let refused = treecast(&words).unwrap_err();
            assert!(refused.contains(says), "{words}: {refused}");
        }
        assert!(check(usual, &start(Program::System, "id")).unwrap_err().contains("run_commands = true"));
        let all = Permits { run_commands: true, ..usual };
        assert_eq!(check(all, &start(Program::System, "id")), Ok(()));
    }

    #[test]
    fn what_is_off_is_refused_with_the_key_to_change() {
        let none = Permits { measure: false, receive: false, roll_out: false, run_commands: false };
        for work in [
            Work::Sample { every_ms: 100 },
            Work::Folder { name: "copy".into() },
            start(Program::Treecast, "send x"),
        ] {
            assert!(check(none, &work).unwrap_err().contains("measure = true"), "{work:?}");
        }
        assert_eq!(check(none, &Work::Facts), Ok(()));
    }

    #[test]
    fn names_are_one_component() {
        for name in ["..", ".", "", "/", "a/b", "/a", "a/"] {
            assert!(check(Permits::default(), &Work::Folder { name: name.into() }).is_err(), "{name:?}");
        }
        assert_eq!(check(Permits::default(), &Work::Folder { name: "c1-copy".into() }), Ok(()));
    }
}
