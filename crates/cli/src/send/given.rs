//! What a command line gives, by the ids of its options.

use clap::{ArgMatches, Command, Id, parser::ValueSource};

/// What was given on the command line, or added to it by the configuration.
pub(super) struct Given(ArgMatches);

impl clap::FromArgMatches for Given {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self(matches.clone()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.0 = matches.clone();
        Ok(())
    }
}

impl clap::Args for Given {
    fn augment_args(command: Command) -> Command {
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        command
    }
}

impl Given {
    /// The option of this id, or the first one of the group of this id, if it was given.
    pub fn option<'a>(&'a self, id: &'a str) -> Option<&'a str> {
        let is_given = |id: &&str| {
            self.0.ids().any(|known| known == id) && self.0.value_source(id) == Some(ValueSource::CommandLine)
        };
        match self.0.try_get_many::<Id>(id) {
            Ok(Some(members)) => members.map(Id::as_str).find(is_given),
            _ => Some(id).filter(is_given),
        }
    }

    /// The value of an option as it was written, or its default.
    pub fn word(&self, id: &str) -> Option<&str> {
        self.0.try_get_raw(id).ok()??.next()?.to_str()
    }
}

/// An option as people write it.
pub(super) fn written(id: &str) -> String {
    format!("--{}", id.replace('_', "-"))
}
