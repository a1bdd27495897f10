//! The options of a standing receiver: its name and key, and its rules.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    time::Duration,
};

use treecast_proto::standing::Demand;

use super::{Owner, history::Entry};
use crate::{
    files,
    receive::{Chooser, NameFilter},
    security::{Identity, PublicKey},
};

/// Length of a rule's mark, in hexadecimal digits.
const MARK_LEN: usize = 16;

/// A rule: the sessions that it takes, and what becomes of them.
#[derive(Debug, Clone)]
pub struct Rule {
    /// The senders that it trusts.
    pub senders: BTreeSet<PublicKey>,
    /// The names of sessions that it takes.
    pub session: NameFilter,
    /// The function that decides which objects are wanted. `None`: all are.
    pub chooser: Option<Chooser>,
    pub into: PathBuf,
    /// The owner of what is received. `None`: this process' user.
    pub owner: Option<Owner>,
    /// The rules for what the sender may do in the folder.
    pub files: files::Rules,
    /// The longest time that a session may take, all tries together. `None`: no limit.
    pub max_time: Option<Duration>,
    /// The words of a program that runs after a session that is complete. `{}` in a word stands for the folder.
    pub command: Option<Vec<String>>,
    /// The longest time that the program may take. After it, the program and its process group are killed.
    pub command_time: Duration,
    /// The receivers that a session must be for.
    pub audience: Demand,
    /// Whether sessions of a sender are taken only in the order in which they began, whatever their names are.
    pub in_order: bool,
    /// The text that the rule's functions were made from. Two rules with different patterns have different texts.
    pub text: String,
}

impl Rule {
    /// A mark that the rule has in the history. A rule that was changed in any way has another one, as far as its functions have a text.
    pub fn mark(&self) -> String {
        let Self { senders, into, owner, files, max_time, command, command_time, .. } = self;
        let Self { audience, in_order, text, .. } = self;
        let senders: Vec<String> = senders.iter().map(PublicKey::to_string).collect();
        let rule = format!(
            "{senders:?} {into:?} {owner:?} {files:?} {max_time:?} {command:?} {command_time:?} {audience:?} {in_order} {text:?}"
        );
        blake3::hash(rule.as_bytes()).to_hex()[..MARK_LEN].to_owned()
    }

    /// A rule that trusts nobody, for tests.
    #[cfg(test)]
    pub(super) fn of_folder(into: &Path) -> Self {
        Self {
            senders: BTreeSet::new(),
            session: NameFilter::new(|_| true),
            chooser: None,
            into: into.to_owned(),
            owner: None,
            files: files::Rules::default(),
            max_time: None,
            command: None,
            command_time: Duration::from_secs(60),
            audience: Demand::default(),
            in_order: false,
            text: String::new(),
        }
    }
}

/// The options of a standing receiver.
#[derive(Debug, Clone)]
pub struct Options {
    /// The receiver's name at senders. It stays the same over restarts.
    pub name: String,
    pub identity: Identity,
    /// The interfaces to listen on. Empty: all that are up.
    pub interfaces: Vec<String>,
    /// The folder for the history.
    pub state: PathBuf,
    /// The largest number of sessions at the same time.
    pub at_once: usize,
    pub rules: Vec<Rule>,
}

impl Options {
    /// The numbers of the rules that take sessions into a folder.
    pub(super) fn rules_into<'a>(&'a self, into: Option<&'a Path>) -> impl Iterator<Item = usize> + use<'a> {
        let rules = self.rules.iter().enumerate();
        rules.filter(move |(_, rule)| Some(rule.into.as_path()) == into).map(|(index, _)| index)
    }

    /// The rule that took the session of an entry, if it would take it today. An older version did not note which one it was; then it
    /// must be the only one that could be.
    pub(super) fn rule_of(&self, entry: &Entry) -> Option<&Rule> {
        let sender = entry.sender.as_ref()?.parse().ok()?;
        let name = entry.name.as_deref().unwrap_or_default();
        let mut possible =
            self.rules_into(entry.into.as_deref()).map(|index| &self.rules[index]).filter(|rule| {
                let is_same = entry.rule.as_ref().is_none_or(|mark| *mark == rule.mark());
                is_same
                    && rule.command.is_some()
                    && rule.senders.contains(&sender)
                    && rule.session.accepts(name)
            });
        let rule = possible.next()?;
        let is_only = entry.rule.is_some() || possible.next().is_none();
        is_only.then_some(rule)
    }
}

#[cfg(test)]
mod tests {
    use super::{super::Happened, *};

    #[test]
    fn an_owed_command_is_that_of_the_whole_rule_that_took_the_session_and_no_other() {
        let [sender, other] = [(); 2].map(|()| Identity::generate().unwrap().public_key());
        let rule = |sender, command: &str, text: &str| Rule {
            senders: BTreeSet::from([sender]),
            command: Some(vec![command.to_owned()]),
            text: text.to_owned(),
            ..Rule::of_folder(Path::new("/srv"))
        };
        let options = |rules| Options {
            name: "lab".into(),
            identity: Identity::generate().unwrap(),
            interfaces: Vec::new(),
            state: "/tmp".into(),
            at_once: 1,
            rules,
        };
        let taken_by = rule(sender, "install", "image-*");
        let mut entry = Entry::new(Happened::Received);
        entry.sender = Some(sender.to_string());
        (entry.into, entry.name, entry.rule) =
            (Some("/srv".into()), Some("image".into()), Some(taken_by.mark()));
        let command = |rules: Vec<Rule>, entry: &Entry| {
            options(rules).rule_of(entry).and_then(|rule| rule.command.clone()).map(|words| words.concat())
        };
        let others = || vec![rule(other, "erase", "image-*"), rule(sender, "show", "notes")];
        let with = |one: Rule| others().into_iter().chain([one]).collect::<Vec<_>>();
        assert_eq!(command(with(taken_by.clone()), &entry).as_deref(), Some("install"));
        // Another rule has the same folder, and trusts the same sender.
        assert_eq!(command(others(), &entry), None);
        // The rule was changed, and trusts somebody else now.
        assert_eq!(command(with(rule(other, "install", "image-*")), &entry), None);
        assert_eq!(command(with(rule(sender, "install", "*")), &entry), None);
        assert_eq!(command(with(rule(sender, "install --all", "image-*")), &entry), None);
        // Of the version before: only where no other rule can be meant.
        entry.rule = None;
        assert_eq!(command(with(taken_by.clone()), &entry), None, "two rules may have taken it");
        assert_eq!(command(vec![rule(other, "erase", "*"), taken_by], &entry).as_deref(), Some("install"));
    }
}
