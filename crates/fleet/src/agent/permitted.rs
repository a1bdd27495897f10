//! Refuses what an agent's host does not permit.
//!
//! Who may only measure starts no other program than treecast's own, with options that neither run commands nor lead out of the
//! agent's folder. What is not in a list here is refused, so that a new option of treecast is no new right.

use std::path::{Component, Path};

use crate::{
    message::{MAX_INPUT_LEN, Program, Start, Work},
    permits::Permits,
};

/// Refuses work that is not permitted. `folder` is the agent's own.
///
/// # Errors
/// The reason, and what to change at the host.
pub fn check(permits: Permits, work: &Work, folder: &Path) -> Result<(), String> {
    Check { permits, folder }.work(work)
}

/// Refuses text for the standard input of a program that is not permitted. A feed reads paths there, one a line.
///
/// # Errors
/// The reason.
pub fn check_input(permits: Permits, words: &[String], text: &str, folder: &Path) -> Result<(), String> {
    if text.len() > MAX_INPUT_LEN || text.contains('\0') || !text.ends_with('\n') {
        return Err(format!("an input is whole lines of text, at most {MAX_INPUT_LEN} bytes of them"));
    }
    match permits.run_commands || words.get(1).is_none_or(|verb| verb != "send") {
        true => Ok(()),
        false => text.lines().try_for_each(|path| check_path(path, folder)),
    }
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
            // What is written is looked at when it is known which program reads it ([`check_input`]).
            Work::Facts
            | Work::Listening { .. }
            | Work::Signal { .. }
            | Work::Input { .. }
            | Work::StopSampling { .. } => Ok(()),
            Work::Start(start) => self.start(start),
            Work::Stage { .. } | Work::Verify { .. } | Work::Activate { .. } | Work::GoBack { .. } => {
                self.needs(self.permits.roll_out, "roll_out")
            }
            Work::MakeReady { .. } | Work::TakeIn { .. } | Work::Forget { .. } => {
                self.needs(self.permits.receive, "receive")
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
        let grammar = GRAMMARS.iter().find(|grammar| start.arguments.starts_with(&grammar.words()));
        let grammar = grammar.ok_or_else(|| {
            let verb = start.arguments.first().map_or("", String::as_str);
            format!("`treecast {verb}` is no measurement: set `run_commands = true` below [may] in agent.toml to permit it")
        })?;
        match grammar.verb {
            "receive" => self.needs(self.permits.measure || self.permits.receive, "receive")?,
            _ => self.needs(self.permits.measure, "measure")?,
        }
        grammar.check(&start.arguments[grammar.words().len()..], self.folder)
    }
}

/// The options that a measurement may give to a command of treecast.
struct Grammar {
    /// The command, and the one below it if it has such.
    verb: &'static str,
    /// Options without a value.
    flags: &'static [&'static str],
    /// Options with a value that is no path.
    values: &'static [&'static str],
    /// Options with the path of a file or folder.
    paths: &'static [&'static str],
    /// Options with the path of a release that the host has, which is only read.
    releases: &'static [&'static str],
    /// What a word is that is no option.
    words: Words,
}

/// The meaning of words that are no options.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Words {
    /// There are none.
    None,
    /// A ticket or addresses, which lead to no file.
    Names,
    Paths,
}

const GRAMMARS: &[Grammar] = &[
    Grammar {
        verb: "send",
        flags: &["--json", "--plain"],
        values: &[
            "--at-once",
            "--congestion-loss",
            "--control",
            "--deadline",
            "--fanout",
            "--fec",
            "--idle",
            "--interface",
            "--local-mode",
            "--priority",
            "--rate",
            "--rate-floor",
            "--rates",
            "--receivers",
            "--repair",
            "--repair-rate",
            "--retx-factor",
            "--retx-minimum",
            "--wait",
            "--wait-timeout",
        ],
        paths: &["--feed", "--local-groups"],
        releases: &[],
        words: Words::Paths,
    },
    Grammar {
        verb: "load run",
        flags: &["--json", "--no-loop"],
        values: &[
            "--group",
            "--host",
            "--interface",
            "--lead",
            "--linger",
            "--only",
            "--packet",
            "--pps",
            "--seconds",
            "--size",
        ],
        paths: &[],
        releases: &[],
        words: Words::None,
    },
    Grammar { verb: "lab traffic", flags: &[], values: &[], paths: &[], releases: &[], words: Words::None },
    Grammar {
        verb: "mead",
        flags: &[
            "--anonymous",
            "--dont-replicate",
            "--json",
            "--print-tree",
            "--split",
            "--to-router",
            "--wait",
            "--xcast",
        ],
        values: &[
            "--address",
            "--designated",
            "--group",
            "--grouping",
            "--interval",
            "--max",
            "--merge",
            "--min-leaves",
            "--min-routers",
            "--ok",
            "--payload",
        ],
        paths: &[],
        releases: &[],
        words: Words::Names,
    },
    Grammar {
        verb: "receive",
        flags: &["--json"],
        values: &["--name", "--interface", "--timeout", "--wait-for-space"],
        paths: &["--into", "--local-groups"],
        releases: &["--old"],
        words: Words::Names,
    },
    Grammar {
        verb: "unicast",
        flags: &["--json"],
        values: &["--rate", "--congestion"],
        paths: &[],
        releases: &[],
        words: Words::Paths,
    },
    // Before the doctor's own command, whose first word is the same.
    Grammar {
        verb: "doctor beacon",
        flags: &["--json", "--own"],
        values: &["--group", "--interface", "--name", "--rate", "--seconds"],
        paths: &[],
        releases: &[],
        words: Words::None,
    },
    // Without hosts, it looks at this one alone, and listens to nobody.
    Grammar {
        verb: "doctor",
        flags: &["--json"],
        values: &[],
        paths: &[],
        releases: &[],
        words: Words::None,
    },
];

impl Grammar {
    /// Returns the words that an order begins with.
    fn words(&self) -> Vec<String> {
        self.verb.split(' ').map(str::to_owned).collect()
    }

    fn check(&self, arguments: &[String], folder: &Path) -> Result<(), String> {
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            let (option, attached) = match word.split_once('=').filter(|_| word.starts_with("--")) {
                Some((option, value)) => (option, Some(value)),
                None => (word.as_str(), None),
            };
            if !option.starts_with('-') {
                match self.words {
                    Words::None => return Err(self.refusal(word)),
                    Words::Paths => self.check_word(word, folder)?,
                    Words::Names => {}
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
                // A feed of paths may come by standard input, which is checked line by line.
                match value() {
                    "-" if option == "--feed" => {}
                    path => check_path(path, folder)?,
                }
            } else if self.releases.contains(&option) {
                // They stand beside the folder of programs.
                check_path(value(), &folder.with_file_name("releases"))?;
            } else {
                return Err(self.refusal(option));
            }
        }
        Ok(())
    }

    fn refusal(&self, word: &str) -> String {
        format!(
            "`treecast {} {word}` is not permitted in a measurement: set `run_commands = true` below [may] in agent.toml to \
             permit it",
            self.verb
        )
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
        Work::Start(Start { program, arguments, folder: None, at_ns: None, limit_ms: 1, has_input: false })
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
        assert_eq!(treecast("doctor --json"), Ok(()));
        let beacon = "doctor beacon --json --own --group [ff15::1]:4247 --name a --rate 10 --seconds 5 --interface eth0";
        assert_eq!(treecast(beacon), Ok(()));
        for (words, says) in [
            ("doctor listen".into(), "`treecast doctor listen` is not permitted"),
            ("doctor 192.0.2.1".into(), "`treecast doctor 192.0.2.1` is not permitted"),
            ("doctor beacon --key /etc/shadow".into(), "--key` is not permitted"),
            ("doctor beacon --metrics [::]:80".into(), "--metrics` is not permitted"),
            ("doctor trace ff15::1".into(), "trace` is not permitted"),
            (format!("receive --exec id --into {inside} t"), "--exec` is not permitted"),
            ("receive --into /etc t".into(), "/etc is outside"),
            (format!("receive --into {FOLDER}/../.. t"), "is outside"),
            (format!("receive --old /etc --into {inside} t"), "/etc is outside"),
            ("receive --into /var/lib/treecast/agent/releases/app t".into(), "is outside"),
            ("send /etc/shadow".into(), "/etc/shadow is outside"),
            ("send --exec=id".into(), "--exec` is not permitted"),
            ("unicast client tcp /etc/passwd [::1]:1".into(), "/etc/passwd is outside"),
            ("lab run x".into(), "`treecast lab` is no measurement"),
            ("lab".into(), "`treecast lab` is no measurement"),
            ("lab traffic /etc".into(), "`treecast lab traffic /etc` is not permitted"),
            ("load run --save x".into(), "--save` is not permitted"),
            ("send --feed /etc/passwd".into(), "/etc/passwd is outside"),
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
    fn a_feed_reads_paths_of_the_folder_alone() {
        let words = |verb: &str| ["treecast", verb].map(str::to_owned);
        let check =
            |permits, verb: &str, text: &str| check_input(permits, &words(verb), text, Path::new(FOLDER));
        let usual = Permits::default();
        let inside = format!("{FOLDER}/run1-source/product-00001\n");
        assert_eq!(check(usual, "send", &inside), Ok(()));
        assert_eq!(check(usual, "lab", "{\"at_ns\":1}\n"), Ok(()));
        for text in
            ["/etc/shadow\n", &format!("{inside}/etc/shadow\n"), &format!("{FOLDER}/../../etc/shadow\n")]
        {
            assert!(check(usual, "send", text).unwrap_err().contains("is outside"), "{text}");
        }
        // Half a line may become another path.
        for text in [inside.trim_end(), "", "\0\n", &"x\n".repeat(MAX_INPUT_LEN)] {
            assert!(check(usual, "send", text).unwrap_err().contains("whole lines"), "{text:?}");
        }
        let all = Permits { run_commands: true, ..usual };
        assert_eq!(check(all, "send", "/etc/hostname\n"), Ok(()));
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
