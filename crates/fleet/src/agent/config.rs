//! The configuration of an agent: `/etc/treecast/agent.toml`. Its host decides what the agent may do.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, de::DeserializeOwned};
use thiserror::Error;
use treecast_host::{quantity::Size, text};

use super::{deliveries::Reception, releases::Habits};
use crate::permits::Permits;

/// Where the configuration is looked for when no file is named.
pub const DEFAULT_FILE: &str = "/etc/treecast/agent.toml";

const MAX_FILE_LEN: u64 = 64 << 10;

/// What an agent's host says about it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The name that the host is to have in the fleet; the host's own name without one.
    pub name: Option<String>,
    /// An HTTP proxy on the way to the manager, such as `http://proxy.example:3128`.
    pub proxy: Option<String>,
    /// The most bytes of reports that wait on the disk for the manager.
    pub spool: Size,
    pub may: Permits,
    pub receive: Reception,
    pub roll_out: Habits,
    pub tags: BTreeMap<String, String>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            name: None,
            proxy: None,
            spool: Size(64 << 20),
            may: Permits::default(),
            receive: Reception::default(),
            roll_out: Habits::default(),
            tags: BTreeMap::new(),
        }
    }
}

/// The reason why a configuration is not used.
#[derive(Debug, Error)]
pub enum ConfigError {
    #[error("cannot read {}: {source}; name another file with --config", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{}: {what}", path.display())]
    Invalid { path: PathBuf, what: String },
}

impl Config {
    /// Reads a configuration. Without a file, the default one counts if it is there.
    ///
    /// # Errors
    /// If the file cannot be read, or has a fault.
    pub fn load(file: Option<&Path>) -> Result<Self, ConfigError> {
        load(file, DEFAULT_FILE, Self::parse)
    }

    fn parse(text: &str) -> Result<Self, String> {
        let config: Self = from_toml(text)?;
        if let Some(name) = &config.name {
            check_name(name)?;
        }
        for (name, value) in &config.tags {
            check_tag(name, value)?;
        }
        if config.spool.0 < 1 << 20 {
            return Err("spool: at least 1M, so that results have room".into());
        }
        if config.receive.folder.as_ref().is_some_and(|folder| !folder.is_absolute()) {
            return Err("folder below [receive]: write a path that begins with /".into());
        }
        if config.proxy.as_ref().is_some_and(|proxy| !proxy.starts_with("http://")) {
            return Err(
                "proxy: write http://HOST:PORT; the connection is encrypted to the manager all the same"
                    .into(),
            );
        }
        Ok(config)
    }
}

/// Reads a configuration. Without a file, the one at `default` counts if it is there.
///
/// # Errors
/// If the file cannot be read, or has a fault.
pub fn load<T: Default>(
    file: Option<&Path>,
    default: &str,
    parse: impl Fn(&str) -> Result<T, String>,
) -> Result<T, ConfigError> {
    let path = file.unwrap_or(Path::new(default));
    match text::read(path, MAX_FILE_LEN) {
        Ok(text) => parse(&text).map_err(|what| ConfigError::Invalid { path: path.to_owned(), what }),
        Err(error) if file.is_none() && error.kind() == io::ErrorKind::NotFound => Ok(T::default()),
        Err(source) => Err(ConfigError::Read { path: path.to_owned(), source }),
    }
}

/// Reads TOML.
///
/// # Errors
/// What is wrong, and in which line.
pub fn from_toml<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    toml::from_str(text).map_err(|error| {
        let line = error.span().map_or(1, |span| text::line_of(text, span.start));
        format!("line {line}: {}", error.message())
    })
}

/// The most letters of a host's name, of a tag and of its value.
const MAX_NAME_LEN: usize = 128;

/// Refuses what cannot be the name of a host.
///
/// # Errors
/// The reason.
pub fn check_name(name: &str) -> Result<(), String> {
    let is_plain = |letter: char| letter.is_alphanumeric() || matches!(letter, '-' | '_' | '.');
    match !name.is_empty() && name.len() <= MAX_NAME_LEN && name.chars().all(is_plain) {
        true => Ok(()),
        false => Err(format!(
            "{name:?} is no name for a host: take up to {MAX_NAME_LEN} letters, digits, dots, - and _"
        )),
    }
}

/// Refuses a tag that no selection could name.
///
/// # Errors
/// The reason.
pub fn check_tag(name: &str, value: &str) -> Result<(), String> {
    check_name(name)
        .map_err(|_| format!("{name:?} is no name for a tag: take letters, digits, dots, - and _"))?;
    let is_value = value.len() <= MAX_NAME_LEN && !value.contains(['"', '\n', '\r']);
    match is_value {
        true => Ok(()),
        false => Err(format!(
            "the tag {name} has a value that is longer than {MAX_NAME_LEN} letters, or has quotes or lines"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_says_what_the_agent_may_do() {
        let text = "name = \"kiel-1\"\nspool = \"8M\"\n[may]\nrun_commands = true\n[tags]\nsite = \"kiel\"\n";
        let config = Config::parse(text).unwrap();
        assert!(config.may.run_commands && config.may.measure);
        assert_eq!((config.tags["site"].as_str(), config.spool.0), ("kiel", 8 << 20));
        assert!(!Config::parse("").unwrap().may.run_commands);
    }

    #[test]
    fn faults_are_told_with_their_line() {
        for (text, says) in [
            ("[may]\n\nrun = true", "line 3: unknown field"),
            ("spool = \"1K\"", "at least 1M"),
            ("name = \"a b\"", "no name for a host"),
            ("proxy = \"socks5://x\"", "http://HOST:PORT"),
            ("[tags]\n\"a=b\" = \"c\"", "no name for a tag"),
            ("[receive]\nfolder = \"in\"", "begins with /"),
            ("[roll_out]\nwindow = \"25:00-26:00\"", "write HH:MM-HH:MM"),
            ("[roll_out]\nwindow = [\"mon 02:00-03:00\", \"02:00\"]", "write HH:MM-HH:MM"),
            ("[roll_out]\nwindow = 2", "write a text such as"),
            ("[roll_out]\nwindow = []", "leave it out to activate at any time"),
        ] {
            let refused = Config::parse(text).unwrap_err();
            assert!(refused.contains(says), "{text}: {refused}");
        }
    }
}
