//! The configuration: options of `send` and `receive` that a user or an administrator writes down once, for all sessions or as
//! profiles. docs/sending.md describes the file.
//!
//! Its options are put into the command line, in front of those that were typed. So a key has the name, the values and the checks of
//! its option. A key whose option was typed is left out.

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    ffi::OsString,
    io::ErrorKind,
    path::{Path, PathBuf},
};

use clap::{Arg, ArgAction, Command, parser::ValueSource};
use serde::Deserialize;
use toml::{Spanned, Value};
use treecast_host::text::{self, line_of};

use crate::toml_lines;

/// The administrator's configuration. The user's counts more.
const SYSTEM: &str = "/etc/treecast/config.toml";

/// The longest file, in bytes.
const MAX_FILE: u64 = 1 << 20;

/// The variable that programs of a lab find. They take no configuration, so that results do not depend on who measures.
const NODE_VARIABLE: &str = "TREECAST_NODE";

/// Options that cannot stand in a configuration.
const NOT_HERE: [&str; 6] = ["forecast", "help", "no-config", "profile", "resume", "standing"];

/// The ids of options with which nothing is added: they say where everything about the session is, or that nothing is wanted.
const COMPLETE: [&str; 3] = ["resume", "standing", "no_config"];

/// Options that leave files out. What is typed does not replace them, because files that nobody should get would go out.
const ADDED: [&str; 2] = ["exclude", "not"];

/// The options that the configuration has added to the command line, by their long names.
#[derive(Debug, Default)]
pub struct Origins(BTreeMap<String, Origin>);

#[derive(Debug)]
struct Origin {
    /// FILE:LINE.
    place: String,
    /// The value, if it is one of a few words, such as `carousel`. Lines name it without its option.
    word: Option<String>,
}

impl Origins {
    /// The place, as FILE:LINE, of an option that clap names, such as `--rate <RATE>`.
    pub fn place(&self, option: &str) -> Option<&str> {
        let name = option.strip_prefix("--")?.split([' ', '=', '[']).next()?;
        self.0.get(name).map(|origin| &*origin.place)
    }

    /// Adds to a line where those of its options are that were not typed.
    pub fn explain(&self, line: String) -> String {
        let is_named = |name: &str| {
            let mut found = line.match_indices("--");
            found.any(|(at, _)| {
                let rest = &line[at + 2..];
                let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '-'));
                &rest[..end.unwrap_or(rest.len())] == name
            })
        };
        let has_word = |word: &str| {
            let mut words = line.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'));
            words.any(|other| other == word)
        };
        let told = |(name, origin): (&String, &Origin)| match &origin.word {
            _ if is_named(name) => Some(format!("; --{name} is in {}", origin.place)),
            Some(word) if has_word(word) => Some(format!("; --{name} {word} is in {}", origin.place)),
            _ => None,
        };
        let places: String = self.0.iter().filter_map(told).collect();
        line + &places
    }
}

/// Adds the options of the configuration to a command line of `send` or `receive`. `command` is the whole program's.
///
/// # Errors
/// One line that names the file.
pub fn extend(arguments: Vec<OsString>, command: Command) -> Result<(Vec<OsString>, Origins), String> {
    let is_in_lab = env::var_os(NODE_VARIABLE).is_some();
    let typed = if is_in_lab { None } else { Typed::read(&arguments, command) };
    let Some(typed) = typed else { return Ok((arguments, Origins::default())) };
    let files = paths().iter().map(|path| File::read(path)).collect::<Result<Vec<_>, _>>()?;
    typed.with(arguments, files.into_iter().flatten().collect())
}

/// Whether this user can see that a file is there. It may be unreadable nevertheless.
fn is_seen(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

/// The files, of which later ones count more.
fn paths() -> Vec<PathBuf> {
    let folder = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let user = folder("XDG_CONFIG_HOME").or_else(|| Some(folder("HOME")?.join(".config")));
    let user = user.map(|folder| folder.join("treecast/config.toml"));
    [PathBuf::from(SYSTEM)].into_iter().chain(user).collect()
}

/// What was typed, as far as it decides what is added.
struct Typed {
    /// The definition of `send` or `receive`.
    command: Command,
    /// Where options of the command begin in the command line.
    at: usize,
    /// The ids of the options that were typed.
    options: BTreeSet<String>,
    profile: Option<String>,
}

impl Typed {
    /// `None` for another command, for help, and if nothing is to be added.
    fn read(arguments: &[OsString], command: Command) -> Option<Self> {
        let mut command = command.ignore_errors(true);
        let matches = command.try_get_matches_from_mut(arguments).ok()?;
        let (name, given) = matches.subcommand().filter(|(name, _)| ["send", "receive"].contains(name))?;
        let is_typed = |id: &&str| given.value_source(id) == Some(ValueSource::CommandLine);
        let options: BTreeSet<String> =
            given.ids().map(clap::Id::as_str).filter(is_typed).map(str::to_owned).collect();
        let profile = given.try_get_one::<String>("profile").ok().flatten().cloned();
        if COMPLETE.iter().any(|id| options.contains(*id)) {
            return None;
        }
        let at = arguments.iter().skip(1).position(|argument| argument == name)? + 2;
        let command = command.find_subcommand(name)?.clone();
        Some(Self { command, at, options, profile })
    }

    fn with(
        self,
        mut arguments: Vec<OsString>,
        files: Vec<File>,
    ) -> Result<(Vec<OsString>, Origins), String> {
        let (mut added, mut origins) = (Vec::new(), Origins::default());
        for (key, setting) in self.settings(files)? {
            let arg = self.command.get_arguments().find(|arg| arg.get_long() == Some(&key));
            if NOT_HERE.contains(&&*key) || key.is_empty() || key.contains('=') {
                return Err(format!(
                    "{}: `{key}` cannot stand in a configuration: leave it out",
                    setting.place
                ));
            }
            let is_typed =
                |arg: &Arg| self.options.contains(arg.get_id().as_str()) && !ADDED.contains(&&*key);
            match arg {
                Some(arg) if is_typed(arg) => continue,
                Some(arg) => {
                    let words = words(arg, &key, &setting.value);
                    added.extend(words.map_err(|expected| format!("{}: {key}: {expected}", setting.place))?);
                }
                // The parser refuses it, and knows the nearest option.
                None => added.push(format!("--{key}").into()),
            }
            let is_word = arg.is_some_and(|arg| !arg.get_possible_values().is_empty());
            let word = setting.value.as_str().filter(|_| is_word).map(str::to_owned);
            origins.0.insert(key, Origin { place: setting.place, word });
        }
        arguments.splice(self.at..self.at, added);
        Ok((arguments, origins))
    }

    /// The settings that hold: those of the command's table, and over them those of the profile.
    fn settings(&self, mut files: Vec<File>) -> Result<Table, String> {
        let is_send = self.command.get_name() == "send";
        let tables = files
            .iter_mut()
            .map(|file| std::mem::take(if is_send { &mut file.send } else { &mut file.receive }));
        let mut settings: Table = tables.flatten().collect();
        let Some(profile) = &self.profile else { return Ok(settings) };
        let named: Vec<Table> = files.iter_mut().filter_map(|file| file.profiles.remove(profile)).collect();
        if named.is_empty() {
            return Err(missing(profile, &files));
        }
        settings.extend(named.into_iter().flatten());
        Ok(settings)
    }
}

/// Says that a profile is nowhere, and which there are.
fn missing(profile: &str, files: &[File]) -> String {
    let there = files.iter().filter(|file| !file.profiles.is_empty());
    let there = there.map(|file| {
        let names = file.profiles.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
        format!("{names} in {}", file.path.display())
    });
    let there = there.collect::<Vec<_>>().join("; ");
    let place = paths().pop().unwrap_or_default();
    match there.is_empty() {
        true => format!(
            "no profile is called {profile:?}: write it as a table [profile.{profile}] into {}",
            place.display()
        ),
        false => format!("no profile is called {profile:?}: there are {there}"),
    }
}

/// The options that a setting stands for.
///
/// # Errors
/// What was expected in place of the value.
fn words(arg: &Arg, key: &str, value: &Value) -> Result<Vec<OsString>, &'static str> {
    let takes_values = arg.get_action().takes_values();
    let is_flag = !takes_values || arg.get_num_args().is_some_and(|number| number.min_values() == 0);
    let text = |value: &Value| match value {
        Value::String(text) if takes_values => Ok(text.clone()),
        Value::Integer(number) if takes_values => Ok(number.to_string()),
        Value::Float(number) if takes_values => Ok(number.to_string()),
        Value::Datetime(time) if takes_values => Ok(time.to_string()),
        _ if !takes_values => Err("expected true or false"),
        _ if is_flag => Err("expected true, false or a text"),
        _ => Err("expected a text or a number"),
    };
    let option = |text: String| OsString::from(format!("--{key}={text}"));
    // Options whose value is a list say so in the value's name.
    let is_list = arg.get_value_names().into_iter().flatten().any(|name| name.contains(','));
    match value {
        Value::Boolean(true) if is_flag => Ok(vec![format!("--{key}").into()]),
        Value::Boolean(false) if is_flag => Ok(Vec::new()),
        Value::Array(items) if matches!(arg.get_action(), ArgAction::Append) => {
            items.iter().map(|item| text(item).map(option)).collect()
        }
        Value::Array(items) if is_list => {
            let items = items.iter().map(text).collect::<Result<Vec<_>, _>>()?;
            Ok(vec![option(items.join(","))])
        }
        value => Ok(vec![option(text(value)?)]),
    }
}

type Table = BTreeMap<String, Setting>;

#[derive(Debug)]
struct Setting {
    value: Value,
    /// FILE:LINE.
    place: String,
}

/// A configuration.
#[derive(Debug)]
struct File {
    path: PathBuf,
    send: Table,
    receive: Table,
    /// Options of `send`, by the names of the profiles.
    profiles: BTreeMap<String, Table>,
}

type WrittenTable = BTreeMap<String, Spanned<Value>>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenFile {
    #[serde(default)]
    send: WrittenTable,
    #[serde(default)]
    receive: WrittenTable,
    #[serde(default)]
    profile: BTreeMap<String, WrittenTable>,
}

impl File {
    /// Reads a file, if it is there. Whoever may write to it chooses keys, who may receive, and commands that run. So nobody else may.
    fn read(path: &Path) -> Result<Option<Self>, String> {
        match text::read_own(path, MAX_FILE) {
            Ok(content) => Self::parse(path, &content).map(Some),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
            // `sudo -u USER` keeps the home of who calls it, into which USER may not look.
            Err(error) if error.raw_os_error() == Some(libc::EACCES) && !is_seen(path) => Ok(None),
            Err(error) => {
                let path = path.display();
                let advice = match error.raw_os_error() {
                    None if error.kind() == ErrorKind::PermissionDenied => {
                        "its options name keys and run commands"
                    }
                    _ => "mend it, or move it away",
                };
                Err(format!("cannot use the configuration {path}: {error}; {advice}"))
            }
        }
    }

    fn parse(path: &Path, content: &str) -> Result<Self, String> {
        let shown = path.display();
        let written: WrittenFile = toml::from_str(content)
            .map_err(|error| format!("{shown}:{}", toml_lines::describe(content, &error)))?;
        let table = |table: WrittenTable| -> Table {
            let settings = table.into_iter().map(|(key, value)| {
                let place = format!("{shown}:{}", line_of(content, value.span().start));
                (key, Setting { value: value.into_inner(), place })
            });
            settings.collect()
        };
        let profiles = written.profile.into_iter().map(|(name, profile)| (name, table(profile)));
        let profiles = profiles.collect();
        Ok(Self {
            path: path.to_owned(),
            send: table(written.send),
            receive: table(written.receive),
            profiles,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A command line with what files add to it, or the line that refuses them.
    fn extended(line: &str, files: &[&str]) -> Result<String, String> {
        let arguments: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let names = ["/etc/c", "/home/c"].iter().map(Path::new);
        let files = names.zip(files).map(|(path, content)| File::parse(path, content));
        let files = files.collect::<Result<_, _>>()?;
        let Some(typed) = Typed::read(&arguments, crate::command()) else { return Ok(line.to_owned()) };
        let (arguments, _) = typed.with(arguments, files)?;
        let words: Vec<_> = arguments.iter().map(|word| word.to_str().unwrap()).collect();
        Ok(words.join(" "))
    }

    #[test]
    fn what_is_nearer_to_the_user_counts_more() {
        let system = "[send]\nrate = \"1M\"\nplain = true\nttl = 3\n[receive]\nmax-bytes = \"1G\"\n[profile.a]\nfec = \"auto\"\nblock = 900\n";
        let user = "[send]\nrate = \"2M\"\nplain = false\n[profile.a]\nfec = \"10%\"\nannounce = true\n";
        let case = |line: &str| extended(line, &[system, user]).unwrap();
        assert_eq!(case("treecast send f"), "treecast send --rate=2M --ttl=3 f");
        let of_profile = "treecast send --announce --block=900 --fec=10% --rate=2M --ttl=3 --profile a f";
        assert_eq!(case("treecast send --profile a f"), of_profile);
        let typed =
            "treecast --log debug send --announce --block=900 --ttl=3 --profile=a --rate 3M --fec none f";
        assert_eq!(case("treecast --log debug send --profile=a --rate 3M --fec none f"), typed);
        assert_eq!(case("treecast receive x"), "treecast receive --max-bytes=1G x");
        for unchanged in [
            "treecast send --no-config f",
            "treecast receive --no-config x",
            "treecast send --resume",
            "treecast receive --standing c",
            "treecast feed d",
            "treecast keys new send",
            "treecast send --help",
            "treecast send f --no-such-option",
        ] {
            let is_wrong = unchanged.ends_with("option");
            assert_eq!(case(unchanged) == unchanged, !is_wrong, "{unchanged}");
        }
    }

    #[test]
    fn lists_are_repeated_or_joined_and_files_that_are_left_out_stay_out() {
        let user = "[send]\nexclude = [\"*.o\", \"cache/\"]\nreceivers = [\"fd00::1\", \"fd00::2\"]\nstrict = true\n\
                    start-at = 2026-11-29T10:00:00Z\n\
                    [receive]\nonly = [\"*.a\"]\nnot = \"*.b\"\nname = \"-x\"\n";
        let case = |line: &str| extended(line, &["", user]).unwrap();
        let lists = "--exclude=*.o --exclude=cache/ --receivers=fd00::1,fd00::2 --start-at=2026-11-29T10:00:00Z --strict";
        assert_eq!(case("treecast send --exclude x f"), format!("treecast send {lists} --exclude x f"));
        let typed = "treecast receive --name=-x --not=*.b --only y --not z t";
        assert_eq!(case("treecast receive --only y --not z t"), typed);
    }

    #[test]
    fn the_sample_is_one_that_commands_take() {
        let sample = include_str!("../../../contrib/config/config.toml");
        for line in ["send f", "send --profile lab f", "send --profile night f", "receive x"] {
            let words = extended(&format!("treecast {line}"), &["", sample]).unwrap();
            let count = words.split(' ').count();
            crate::command()
                .try_get_matches_from(words.split(' '))
                .unwrap_or_else(|error| panic!("{line}: {error}"));
            assert!(count > 4, "{line}: {words}");
        }
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        for (user, expected) in [
            ("[send]\n\nrate = true\n", "/etc/c:3: rate: expected a text or a number"),
            ("[send]\nplain = \"yes\"\n", "/etc/c:2: plain: expected true or false"),
            ("[send]\nannounce = []\n", "/etc/c:2: announce: expected true, false or a text"),
            ("[send]\nrate = [\"1M\"]\n", "/etc/c:2: rate: expected a text or a number"),
            ("[send]\nprofile = \"a\"\n", "/etc/c:2: `profile` cannot stand"),
            ("[send]\n\"\" = \"a\"\n", "/etc/c:2: `` cannot stand"),
            ("[sned]\n", "/etc/c:1: unknown field `sned`, expected one of `send`, `receive`, `profile`"),
            ("[send]\nrate = \n", "/etc/c:2: "),
        ] {
            let line = extended("treecast send f", &[user]).unwrap_err();
            assert!(line.starts_with(expected), "{user}: {line}");
        }
        let line =
            extended("treecast send --profile lap f", &["[profile.lab]\n[profile.night]\n", "[profile.x]\n"]);
        assert_eq!(
            line.unwrap_err(),
            "no profile is called \"lap\": there are lab, night in /etc/c; x in /home/c"
        );
        let line = extended("treecast send --profile lap f", &[]).unwrap_err();
        assert!(
            line.starts_with("no profile is called \"lap\": write it as a table [profile.lap] into /"),
            "{line}"
        );
    }

    #[test]
    fn a_line_says_where_its_options_are() {
        let origin = |place: &str, word: Option<&str>| Origin {
            place: place.to_owned(),
            word: word.map(str::to_owned),
        };
        let given = [("rate", "c:3", None), ("rates", "c:4", None), ("repair", "c:5", Some("carousel"))];
        let origins = Origins(given.map(|(name, place, word)| (name.to_owned(), origin(place, word))).into());
        assert_eq!(
            origins.explain("a carousel counts nobody: leave out --wait".to_owned()),
            "a carousel counts nobody: leave out --wait; --repair carousel is in c:5"
        );
        assert_eq!(origins.explain("no --rates, or --x".to_owned()), "no --rates, or --x; --rates is in c:4");
        assert_eq!(origins.explain("rate".to_owned()), "rate");
        assert_eq!((origins.place("--rate <RATE>"), origins.place("--rat")), (Some("c:3"), None));
    }
}
