//! The file of a standing receiver.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use treecast::{
    ErrorKind,
    unstable::{
        keys::PublicKey,
        standing::{Demand, Owner, Rule, Standing},
    },
};
use treecast_host::text;

use super::super::{
    check_name,
    choice::{Choices, Rename},
    exec, parse_pattern,
};
use crate::{
    advice,
    arguments::{self, With},
    history, toml_lines,
};

/// The longest file, in bytes.
const MAX_FILE: u64 = 1 << 20;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: Option<String>,
    key: Option<String>,
    #[serde(default)]
    interfaces: Vec<String>,
    state: Option<PathBuf>,
    /// Where Prometheus gets figures.
    metrics: Option<String>,
    at_once: Option<usize>,
    #[serde(default, rename = "rule")]
    rules: Vec<RuleTable>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleTable {
    /// The keys of senders that it trusts.
    senders: Vec<String>,
    /// A pattern of sessions' names.
    session: Option<String>,
    /// Patterns of files' names: those that are wanted, and those that are not.
    #[serde(default)]
    only: Patterns,
    #[serde(default)]
    not: Patterns,
    /// The size of the largest file.
    max_size: Option<String>,
    /// Patterns of files' names, each with a new name.
    #[serde(default)]
    rename: Vec<String>,
    into: PathBuf,
    owner: Option<String>,
    #[serde(default)]
    keep_existing: bool,
    #[serde(default)]
    hidden: bool,
    max_files: Option<u64>,
    max_bytes: Option<String>,
    max_time: Option<String>,
    command: Option<String>,
    command_time: Option<String>,
    /// The receivers that a session must be for.
    #[serde(default)]
    audience: Audience,
    #[serde(default)]
    in_order: bool,
}

/// The receivers that a session must be for, as the file says it.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Audience {
    Anybody,
    #[default]
    Standing,
    Named,
}

impl From<Audience> for Demand {
    fn from(audience: Audience) -> Self {
        match audience {
            Audience::Anybody => Self::Anybody,
            Audience::Standing => Self::Standing,
            Audience::Named => Self::Named,
        }
    }
}

/// One pattern, or several.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Patterns {
    One(String),
    Several(Vec<String>),
}

impl Default for Patterns {
    fn default() -> Self {
        Self::Several(Vec::new())
    }
}

impl Patterns {
    fn parse(&self, field: &str) -> Result<Vec<glob::Pattern>, String> {
        let patterns = match self {
            Self::One(pattern) => std::slice::from_ref(pattern),
            Self::Several(patterns) => patterns,
        };
        let parse = |text: &String| parse_pattern(text).map_err(|error| format!("{field}: {error}"));
        patterns.iter().map(parse).collect()
    }
}

/// Reads the file.
///
/// # Errors
/// One line for whatever is wrong first.
pub(super) fn read(path: &Path) -> Result<Standing, String> {
    let shown = path.display();
    let content = text::read_written(path, MAX_FILE).map_err(|error| {
        format!("cannot read {shown}: {error}; name the file of a standing receiver with --standing")
    })?;
    let mut warnings = Vec::new();
    let standing = parse(&content, path.parent().unwrap_or(Path::new("")), &mut warnings);
    warnings.iter().for_each(|line| remark!("treecast: {shown}:{line}"));
    standing.map_err(|error| format!("{shown}:{error}"))
}

/// Parses the content of a file in `folder`. Adds what can be used, and is probably wrong, to `warnings`.
fn parse(content: &str, folder: &Path, warnings: &mut Vec<String>) -> Result<Standing, String> {
    let file: File = toml::from_str(content).map_err(|error| toml_lines::describe(content, &error))?;
    if file.rules.is_empty() {
        return Err(" there is no rule: add a table [[rule]] with `senders` and `into`".to_owned());
    }
    file.name.as_deref().map_or(Ok(()), check_name).map_err(|why| format!(" name: {why}"))?;
    let missing = |(number, table): (u32, &RuleTable)| {
        let words = shlex::split(table.command.as_deref()?)?;
        let program = words.first().filter(|program| is_missing(program))?;
        Some(format!(
            " rule {number}: command: there is no program {program} yet, and the command fails without it"
        ))
    };
    warnings.extend((1..).zip(&file.rules).filter_map(missing));
    let state = file.state.map_or_else(history::default_state, |state| folder.join(state));
    let rules = (1..)
        .zip(file.rules)
        .map(|(number, table)| rule(table, folder).map_err(|why| format!(" rule {number}: {why}")));
    let rules = rules.collect::<Result<Vec<_>, _>>()?;
    if file.at_once.is_some_and(|at_once| !(1..=64).contains(&at_once)) {
        return Err(" at_once: expected a number from 1 to 64".to_owned());
    }
    let metrics = file.metrics.as_deref().map(arguments::address_and_port).transpose();
    let metrics = metrics.map_err(|error| format!(" metrics: {error}"))?;
    let standing = Standing::new(state, file.key.as_deref()).map_err(|error| {
        let field = if error.kind() == ErrorKind::File { "state" } else { "key" };
        format!(" {field}: {}", advice::line(&error))
    })?;
    let standing = standing
        .with(&file.name, Standing::name)
        .with(&file.at_once, Standing::at_once)
        .with(&metrics, Standing::metrics)
        .answer_status()
        .interfaces(file.interfaces);
    Ok(rules.into_iter().fold(standing, Standing::rule))
}

/// A key, alone or with a name behind it, as `treecast keys show` prints it.
fn sender(line: &str) -> Result<PublicKey, String> {
    let key = line.split_whitespace().next().unwrap_or_default();
    key.parse().map_err(|error| format!("{error}"))
}

fn rule(table: RuleTable, folder: &Path) -> Result<Rule, String> {
    let text = format!("{table:?}");
    let senders: Result<Vec<PublicKey>, String> =
        table.senders.iter().map(|line| sender(line).map_err(|error| format!("senders: {error}"))).collect();
    let senders = senders?;
    if senders.is_empty() {
        return Err("senders: name the public key of at least one sender".to_owned());
    }
    let session = parse_pattern(table.session.as_deref().unwrap_or("*"))
        .map_err(|error| format!("session: {error}"))?;
    let time = |field: &str, text: &Option<String>| {
        let time = text.as_deref().map(arguments::duration).transpose();
        time.map_err(|error| format!("{field}: {error}"))
    };
    let bytes = |field: &str, text: &Option<String>| {
        let bytes = text.as_deref().map(arguments::bytes).transpose();
        bytes.map_err(|error| format!("{field}: {error}"))
    };
    let renames =
        table.rename.iter().map(|text| Rename::parse(text).map_err(|error| format!("rename: {error}")));
    let choices = Choices {
        only: table.only.parse("only")?,
        not: table.not.parse("not")?,
        max_size: bytes("max_size", &table.max_size)?,
        renames: renames.collect::<Result<_, _>>()?,
    };
    let owner = table.owner.map(|owner| owner.parse::<Owner>().map_err(|error| format!("owner: {error}")));
    let rule = Rule::new(senders, folder.join(table.into))
        .session(move |name| session.matches(name))
        .keep_existing(table.keep_existing)
        .hidden(table.hidden)
        .audience(table.audience.into())
        .in_order(table.in_order)
        .described(text)
        .with(&owner.transpose()?, Rule::owner)
        .with(&table.max_files, Rule::max_files)
        .with(&bytes("max_bytes", &table.max_bytes)?, Rule::max_bytes)
        .with(&time("max_time", &table.max_time)?, Rule::max_time)
        .with(&table.command.as_deref().map(command).transpose()?, Rule::command)
        .with(&time("command_time", &table.command_time)?, Rule::command_time);
    Ok(match choices.into_function() {
        Some(choose) => rule.accept(choose),
        None => rule,
    })
}

/// Whether a command has no program. One at a relative path is looked for in the folder of what has come.
fn is_missing(program: &str) -> bool {
    let is_relative = program.contains('/') && !program.starts_with('/');
    !is_relative && !exec::is_there(program)
}

/// Divides a command into words.
fn command(text: &str) -> Result<Vec<String>, String> {
    let words = shlex::split(text).ok_or("command: a quote is not closed")?;
    if words.is_empty() {
        return Err(
            "command: expected a command, like 'install-update {}'; {} stands for the folder".to_owned()
        );
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "senders = [\"tck1.SyJ3d9TdH8YcZj4hPSGQdArTRIdP9MoyzQi1Uz_KbQAAAAAA a name\"]";

    fn refusal(content: &str) -> String {
        let folder = std::env::temp_dir().join(format!("treecast-standing-{}", std::process::id()));
        let line = parse(content, &folder, &mut Vec::new()).unwrap_err();
        _ = std::fs::remove_dir_all(folder);
        assert!(!line.contains('\n'), "{line}");
        line
    }

    #[test]
    fn what_is_wrong_is_told_in_one_line() {
        let unknown = refusal("name = \"a\"\n\n[[rule]]\nsender = [\"x\"]\ninto = \"b\"\n");
        assert!(unknown.starts_with("4: unknown field `sender`, expected one of `senders`"), "{unknown}");
        assert!(refusal("colour = 1\n").starts_with("1: unknown field `colour`"));
        assert!(refusal("name = \n").starts_with("1: "));
        assert!(refusal("").contains("no rule"));
        assert!(
            refusal("[[rule]]\nsenders = [\"x\"]\ninto = \"b\"")
                .contains(" rule 1: senders: a public key begins with")
        );
        assert!(refusal("[[rule]]\nsenders = []\ninto = \"b\"").contains("at least one sender"));
        assert!(refusal(&format!("[[rule]]\n{KEY}\ninto = \"b\"")).contains("cut short or mistyped"));
    }

    #[test]
    fn a_name_that_nobody_can_list_and_a_command_that_is_not_there_are_told() {
        let rule = "[[rule]]\nsenders = [\"x\"]\ninto = \"b\"\n";
        assert!(refusal(&format!("name = \"a b,c\"\n{rule}")).contains(" name: it has a comma"));
        let warned = |command: &str| {
            let mut warnings = Vec::new();
            _ = parse(&format!("{rule}command = \"{command}\""), Path::new("/"), &mut warnings);
            warnings
        };
        assert_eq!(
            warned("nosuchcmd {}"),
            [" rule 1: command: there is no program nosuchcmd yet, and the command fails without it"]
        );
        assert_eq!((warned("sh -c true"), warned("./update")), (Vec::<String>::new(), Vec::new()));
    }

    #[test]
    fn a_command_is_divided_into_words_as_a_shell_does() {
        assert_eq!(command("tool 'two words' {}").unwrap(), ["tool", "two words", "{}"]);
        assert!(command("").is_err() && command("tool '").is_err());
    }
}
