//! Options that have no effect beside others: those that other kinds of sessions have, and those that other options replace.
//! What contradicts each other is refused by the library.

use std::io::{self, IsTerminal};

use clap::Command;
use treecast::unstable::options::{FeedSource, Listed};

use super::{
    Repair, SessionArgs,
    given::{Given, written},
    is_carousel, is_iotup, is_stream,
};

/// What an option needs.
enum Needs {
    /// One of these words as the value of another option.
    Word(&'static str, &'static [&'static str]),
    /// Another option.
    Option(&'static str),
    /// That another option was not given, or not with this word.
    Not(&'static str, Option<&'static str>),
}

use Needs::{Not, Option as Beside, Word};

/// Options, by their ids or those of their groups, of which none has an effect unless one of the needs is met; and the reason,
/// where it is not plain.
type Row = (&'static [&'static str], &'static [Needs], &'static str);

const NEEDS: &[Row] = &[
    (
        &["allow", "expires", "ConnectedArgs"],
        &[Word("repair", &["nack", "after", "none"])],
        "nobody connects to the sender of a carousel, which starts at its first listener, or of local groups, so that the sender \
         cannot keep anybody out who has the ticket",
    ),
    (
        &["wait", "wait_at_least"],
        &[Word("repair", &["nack", "after", "none", "local"])],
        "a carousel starts at its first listener and cannot count them",
    ),
    (
        &["MendingArgs", "keep", "spool"],
        &[Word("repair", &["nack", "after"])],
        "this session has no retransmissions to single receivers",
    ),
    (&["retx_minimum"], &[Beside("retx_factor")], ""),
    (&["idle", "loops"], &[Word("repair", &["carousel"])], ""),
    (&["LocalArgs"], &[Word("repair", &["local"])], ""),
    (&["local_groups"], &[Word("local_mode", &["local", "hierarchical"])], ""),
    (&["hash"], &[Word("dialect", &["iotup"])], ""),
    (
        &["code", "announce", "to_standing"],
        &[Not("dialect", Some("iotup"))],
        "the IoT updater has no ticket that a code could get, and no key for an announcement",
    ),
    (
        &["announce", "to_standing"],
        &[Not("plain", None)],
        "an announcement is signed, and a plain session has no key",
    ),
    (&["to_standing"], &[Beside("key")], "standing receivers take files of senders that they trust"),
    (&["group", "source"], &[Word("fanout", &["auto", "multicast"])], ""),
    (&["receivers"], &[Word("fanout", &["mead", "auto"]), Word("repair", &["carousel"])], ""),
    (
        &["mead_dialect", "grouping", "dont_replicate", "to_router", "ThesisArgs"],
        &[Word("fanout", &["mead", "auto"])],
        "",
    ),
    (&["max", "domain_key"], &[Word("fanout", &["mead", "xcast", "auto"])], ""),
    (&["ThesisArgs"], &[Word("grouping", &["thesis"])], ""),
    (&["rate", "rate_floor"], &[Not("rates", None)], "--rates says all that --rate and --rate-floor could"),
];

impl Needs {
    fn are_met(&self, given: &Given) -> bool {
        // The IoT updater's packets are those of a carousel.
        let is_iotup = given.word("dialect") == Some("iotup");
        match self {
            Word("repair", words) if is_iotup => words.contains(&"carousel"),
            Word(option, words) => given.word(option).is_some_and(|word| words.contains(&word)),
            Beside(option) => given.option(option).is_some(),
            Not(option, None) => given.option(option).is_none(),
            Not(option, word) => given.word(option) != *word,
        }
    }

    /// What can be done other than to leave out the option that needs it.
    fn otherwise(&self) -> String {
        match self {
            Word(option, [one]) => format!("add {} {one}", written(option)),
            Word(option, words) => format!("take {} {}", written(option), one_of(words)),
            Beside(option) => format!("add {}", written(option)),
            Not(option, word) => format!("{} {}", written(option), word.unwrap_or_default()),
        }
    }
}

/// What the help says of these needs. Empty if they are no other options.
fn in_help(needs: &[Needs]) -> String {
    let needs = needs.iter().filter_map(|need| match need {
        Word(option, words) => Some(format!("{} {}", written(option), one_of(words))),
        Beside(option) => Some(written(option)),
        Not(..) => None,
    });
    needs.collect::<Vec<_>>().join(", or ")
}

/// The words as in "nack, after or none".
fn one_of(words: &[&str]) -> String {
    match words {
        [others @ .., one, last] => {
            others.iter().map(|word| format!("{word}, ")).collect::<String>() + one + " or " + last
        }
        words => words.concat(),
    }
}

/// Refuses options that would have no effect.
pub(super) fn check(args: &SessionArgs) -> Result<(), String> {
    let given = &args.given;
    if let Some((_, why)) = refusals(args).into_iter().find(|(is_refused, _)| *is_refused) {
        return Err(why.to_owned());
    }
    for (ids, needs, why) in NEEDS {
        let option = ids.iter().find_map(|id| given.option(id));
        if let Some(option) = option.filter(|_| !needs.iter().any(|need| need.are_met(given))) {
            let (option, otherwise) = (written(option), needs[0].otherwise());
            let why = match why.is_empty() {
                true => format!("{option} has no effect without {}", in_help(needs)),
                false => (*why).to_owned(),
            };
            return Err(format!("{why}: leave out {option}, or {}", otherwise.trim_end()));
        }
    }
    Ok(())
}

/// Adds to the help of options what they need.
pub(crate) fn explain(command: Command) -> Command {
    let members = |id: &str| -> Vec<String> {
        let group = command.get_groups().find(|group| group.get_id() == id);
        group.map_or_else(|| vec![id.to_owned()], |group| group.get_args().map(ToString::to_string).collect())
    };
    let rows: Vec<(Vec<String>, String)> = NEEDS
        .iter()
        .map(|(ids, needs, _)| (ids.iter().flat_map(|id| members(id)).collect(), in_help(needs)))
        .collect();
    command.mut_args(|arg| {
        let of_arg = rows
            .iter()
            .filter(|(ids, needs)| ids.iter().any(|id| arg.get_id() == id.as_str()) && !needs.is_empty());
        let needs: Vec<&str> = of_arg.map(|(_, needs)| &**needs).collect();
        let help = arg.get_long_help().map(ToString::to_string).unwrap_or_default();
        if needs.is_empty() {
            arg
        } else {
            arg.long_help(format!("{help} [only with {}]", needs.join(" and ")))
        }
    })
}

/// What else is refused, and what to do about it.
fn refusals(args: &SessionArgs) -> [(bool, &'static str); 8] {
    let feed = args.sent.feed.as_ref().map(|feed| &feed.source);
    let (is_stream, is_carousel) = (is_stream(args), is_carousel(args));
    // The receivers of such a session are waited for, and get again what they have missed.
    let names_some = args.invite.to_standing.as_deref().is_some_and(|list| list != Listed::ANY);
    let is_mended = !is_carousel && matches!(args.repair, Repair::Nack | Repair::After);
    [
        (
            !is_stream && args.sent.spool.is_some(),
            "--spool keeps standard input: name - in place of files, or leave it out",
        ),
        (
            is_stream && (args.sent.paths.len() > 1 || feed.is_some()),
            "standard input is sent alone: name no files beside -, and leave out --feed, or -",
        ),
        (
            args.session.is_some()
                && (is_stream || feed.is_some_and(|source| !matches!(source, FeedSource::Folder(_)))),
            "what came by standard input or --feed cannot be told again: leave out --session, or name files, or send a folder with `treecast feed DIR`",
        ),
        (
            is_carousel && (is_stream || feed.is_some()),
            "a carousel sends what it began with again and again, and standard input or a feed goes on: take another --repair, or name files",
        ),
        (
            is_stream && io::stdin().is_terminal(),
            "standard input is a terminal: let a program or a file write to it, as in `tar c DIR | treecast send -`",
        ),
        (
            is_iotup(args) && args.repair == Repair::Local,
            "the IoT updater has no local groups: leave out --repair local, or --dialect iotup",
        ),
        (
            names_some && (!is_mended || feed.is_some() || is_stream),
            "receivers that --to-standing names say what they have, and get it again when they come later: name files, with --repair nack \
             or after, or take --to-standing any",
        ),
        (
            names_some && args.start.wait.is_some(),
            "--to-standing says for how many the start waits: leave out --wait",
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_names_options_and_words_that_there_are() {
        let mut command = crate::command();
        command.build();
        let senders = ["send", "feed"].map(|name| command.find_subcommand(name).unwrap());
        let words = |id: &str| {
            let mut args = senders.iter().flat_map(|sender| sender.get_arguments());
            args.find(|arg| arg.get_id() == id).map(clap::Arg::get_possible_values)
        };
        let is_group = |id: &str| senders[0].get_groups().any(|group| group.get_id() == id);
        for (ids, needs, _) in NEEDS {
            assert!(ids.iter().all(|id| words(id).is_some() || is_group(id)), "{ids:?}");
            for need in *needs {
                let (Word(option, _) | Beside(option) | Not(option, _)) = need;
                let known = words(option).unwrap_or_else(|| panic!("{option}"));
                let named = match need {
                    Word(_, words) => words.to_vec(),
                    Not(_, word) => Vec::from_iter(*word),
                    Beside(_) => Vec::new(),
                };
                let is_known = |word: &&str| known.iter().any(|known| known.get_name() == *word);
                assert!(named.iter().all(is_known), "{option}: {named:?}");
            }
        }
    }
}
