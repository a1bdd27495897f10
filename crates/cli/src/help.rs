//! The layout of the help. `-h` is one screen, with the options that most people need, each in a line. `--help` has all
//! others, too, under headings. The tables here say which are which, so that fields of arguments need not stand in this order. A rare
//! option may name its heading itself (`help_heading`).

use clap::{Arg, Command};

use crate::send::refused;

/// The help of a command that has more options than fit a screen.
struct Layout {
    /// The command, by the name of its man page.
    page: &'static str,
    /// The options that most people need, in this order, without a heading.
    first: &'static [&'static str],
    /// All other options, which `-h` leaves out.
    others: &'static [&'static [Section]],
}

/// A heading with its options.
type Section = (&'static str, &'static [&'static str]);

/// The letters of options, which are the same in all commands (docs/decisions/command-line.md).
const LETTERS: [(char, &[&str]); 4] =
    [('i', &["interface"]), ('m', &["max-time"]), ('n', &["plan"]), ('o', &["out", "to"])];

/// The number of characters of an option's text that fit a line of 80 beside the option.
const BESIDE: usize = 48;

/// The number of characters from which on the beginning of a sentence says something: less is a mark such as "Repair local:".
const ENOUGH: usize = 16;

const LAYOUTS: &[Layout] = &[
    Layout { page: "treecast", first: &[], others: &[&[("Logs", &["log", "log-format"])]] },
    Layout {
        page: "treecast-send",
        first: &[
            "wait",
            "code",
            "to-standing",
            "announce",
            "rate",
            "z",
            "exclude",
            "interface",
            "key",
            "resume",
            "profile",
            "json",
        ],
        others: &[
            &[("What is sent", &["strict", "feed", "spool"])],
            SESSION,
            &[("Configuration", &["no-config"])],
        ],
    },
    Layout {
        page: "treecast-feed",
        first: &[
            "remove",
            "rule",
            "state",
            "keep",
            "to-standing",
            "wait",
            "rate",
            "z",
            "interface",
            "key",
            "session",
            "json",
        ],
        others: &[&[("The folder", &["exclude", "rules", "spool-files", "spool-bytes", "poll"])], SESSION],
    },
    Layout {
        page: "treecast-receive",
        first: &[
            "into",
            "to",
            "stdout",
            "only",
            "exec",
            "keep-existing",
            "name",
            "key",
            "interface",
            "standing",
            "json",
        ],
        others: &[&[
            (
                "Which files, and how they are stored",
                &["not", "max-size", "rename", "old", "read-back", "batch", "discard"],
            ),
            ("What the sender may do", &["hidden", "max-files", "max-bytes", "max-time", "secure"]),
            ("Waiting", &["connect-timeout", "wait-for-space"]),
            ("Connection to the sender, which a carousel has not", &["port", "reconnect", "stall-limit"]),
            ("Local groups (send --repair local)", &["local-groups", "must-send"]),
            ("Packets of librecast's IoT updater", &["dialect", "group", "groups"]),
            ("Figures and configuration", &["metrics", "no-config"]),
        ]],
    },
    Layout {
        page: "treecast-mead",
        first: &[
            "members",
            "interface",
            "address",
            "port",
            "tun-address",
            "key",
            "xcast",
            "print-groups",
            "statistics",
            "json",
        ],
        others: &[&[
            ("Network", &["tun", "through-kernel"]),
            ("Discovery of routers", &["delay", "interval", "timeout", "wait", "requests"]),
            ("Grouping of receivers", GROUPING),
            ("Grouping of receivers", &["payload"]),
            ("Packets of MEADcast", &["dialect", "designated", "ports", "dont-replicate", "to-router"]),
            ("Xcast", &["group", "anonymous"]),
            ("Output", &["print-tree"]),
        ]],
    },
    Layout {
        page: "treecast-router-run",
        first: &[
            "interface",
            "all",
            "key",
            "min-dsts",
            "designated",
            "xcast-plus",
            "allow-source",
            "copies-per-second",
        ],
        others: &[&[
            ("Checks and headers", &["rpf", "dialect"]),
            ("How packets are forwarded", &["through-kernel", "as-filter", "user-space"]),
            ("The running router", &["leave-within", "control"]),
        ]],
    },
    Layout {
        page: "treecast-status",
        first: &["receivers", "watch", "start", "wait", "history", "state", "json"],
        others: &[&[(
            "The table of receivers (--receivers)",
            &["sort", "reverse", "only", "name", "rows", "csv"],
        )]],
    },
    Layout {
        page: "treecast-load-run",
        first: &[
            "group",
            "interface",
            "pps",
            "rate",
            "seconds",
            "size",
            "only",
            "source",
            "senders",
            "host",
            "json",
            "out",
        ],
        others: &[&[
            ("Packets", &["packet", "identity", "hops", "super-packets", "no-loop"]),
            ("Times", &["lead", "linger", "spin", "threads"]),
            ("Counting", &["window", "max-senders"]),
        ]],
    },
    Layout {
        page: "treecast-rib-synth",
        first: &["out", "ases", "stubs", "prefixes", "peers", "seed", "ipv6"],
        others: &[&[("Tables", &["format"])]],
    },
    Layout {
        page: "treecast-bench",
        first: &["receivers", "size", "runs", "only-small", "folder", "json", "out"],
        others: &[&[("Parts to leave out", &["no-uftp", "no-memory", "no-small", "no-attack"])]],
    },
];

/// The rare options of a session. Those that a command has in its first ones are passed over.
const SESSION: &[Section] = &[
    ("What is sent", &["compress", "delta", "at-once"]),
    ("Who may receive", &["allow", "expires", "per-address", "plain"]),
    (
        "Start and end",
        &["wait", "start-at", "wait-timeout", "wait-at-least", "linger", "give-up-after", "session"],
    ),
    ("Ticket, announcements and figures", &["ticket-file", "code", "announce", "metrics", "report"]),
    ("Network", &["fanout", "receivers", "group", "source", "control", "ttl", "block"]),
    ("Rates", &["rates", "rate-floor", "priority"]),
    ("Losses", &["repair", "fec", "retx-factor", "retx-minimum", "stall-limit"]),
    ("Carousels (--repair carousel)", &["loops", "idle", "dialect", "hash"]),
    (
        "Local groups (--repair local)",
        &["local-mode", "local-groups", "repair-rate", "congestion-loss", "deadline"],
    ),
    ("MEADcast and Xcast: grouping of receivers", GROUPING),
    ("MEADcast and Xcast: packets", &["domain-key", "mead-dialect", "dont-replicate", "to-router"]),
];

/// How receivers share packets with lists.
const GROUPING: &[&str] = &["grouping", "max", "ok", "min-leaves", "min-routers", "merge", "split"];

/// Lays out the help of the whole program, and gives options their letters.
pub fn arrange(command: Command) -> Command {
    let page = command.get_name().to_owned();
    arrange_page(page, command)
}

fn arrange_page(page: String, command: Command) -> Command {
    let command = command.mut_args(|arg| in_one_line(with_letter(arg)));
    let sends = ["treecast-send", "treecast-feed"].contains(&&*page);
    let command = if sends { refused::explain(command) } else { command };
    let command = match LAYOUTS.iter().find(|layout| layout.page == page) {
        Some(layout) => layout.apply(command),
        None => command,
    };
    let more = format!("--help shows everything, and so does the man page: man {page}");
    let command = command.mut_subcommands(|below| {
        let page = format!("{page}-{}", below.get_name());
        arrange_page(page, below)
    });
    command.after_help(more).after_long_help(format!("The same is in the man page: man {page}"))
}

impl Layout {
    /// Puts options under their headings, in the order of the tables. Options that name a heading themselves stand behind others there.
    ///
    /// # Panics
    /// If the command lacks an option of `first`, or has an option twice.
    fn apply(&self, mut command: Command) -> Command {
        for (order, name) in self.first.iter().enumerate() {
            let id = id_of(&command, name).unwrap_or_else(|| panic!("{} has no option {name}", self.page));
            command = command.mut_arg(id, |arg| arg.display_order(order));
        }
        let id = |name: &&str| {
            id_of(&command, name).unwrap_or_else(|| panic!("{} has no option {name}", self.page))
        };
        let with_heading = |heading: &'static str| {
            let args = command.get_arguments().filter(move |arg| arg.get_help_heading() == Some(heading));
            args.map(|arg| arg.get_id().to_string())
        };
        let sections = self.others.iter().copied().flatten();
        let others: Vec<(&str, String)> = sections
            .flat_map(|(heading, names)| {
                let named = names.iter().filter(|name| !self.first.contains(name)).map(id);
                named.chain(with_heading(heading)).map(move |id| (*heading, id))
            })
            .collect();
        for (order, (heading, id)) in others.into_iter().enumerate() {
            let order = self.first.len() + order;
            command = command
                .mut_arg(id, |arg| arg.help_heading(heading).hide_short_help(true).display_order(order));
        }
        command
    }
}

/// The id of the option with this long name, or with this letter if it has no long name.
fn id_of(command: &Command, name: &str) -> Option<String> {
    let is_it = |arg: &&Arg| match arg.get_long() {
        Some(long) => long == name,
        None => arg.get_short().is_some_and(|short| name.chars().eq([short])),
    };
    command.get_arguments().find(is_it).map(|arg| arg.get_id().to_string())
}

fn with_letter(arg: Arg) -> Arg {
    let letter = LETTERS.iter().find(|(_, names)| arg.get_long().is_some_and(|long| names.contains(&long)));
    match letter {
        Some((letter, _)) => arg.short(*letter),
        None => arg,
    }
}

/// Has `-h` show the beginning of a text, and `--help` the whole.
fn in_one_line(arg: Arg) -> Arg {
    let Some(text) = arg.get_help().map(ToString::to_string) else { return arg };
    let short = beginning(&text).to_owned();
    let whole = arg.get_long_help().map_or(text, ToString::to_string);
    arg.help(short).long_help(whole)
}

/// The first sentence of a text. Where that is long, what explains its beginning is left out, if what is left says enough.
fn beginning(text: &str) -> &str {
    let fits = |text: &str| text.chars().count() <= BESIDE;
    let sentence = text.split_once(". ").map_or(text, |(sentence, _)| sentence);
    if fits(sentence) {
        return sentence;
    }
    let sentence = sentence.split_once(" [default").map_or(sentence, |(before, _)| before);
    if fits(sentence) {
        return sentence;
    }
    let cuts = [" (", "; ", ": "].iter().flat_map(|mark| sentence.match_indices(mark));
    let cut = cuts.map(|(at, _)| at).filter(|at| (ENOUGH..=BESIDE).contains(at)).max();
    cut.map_or(sentence, |at| &sentence[..at])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The size of a screen.
    const COLUMNS: usize = 80;
    const ROWS: usize = 40;

    /// The most options, `-h` among them, of a command without a layout.
    const MOST: usize = 13;

    /// Every command that the help lists, with its name.
    fn commands() -> Vec<(String, Command)> {
        fn collect(command: &Command, found: &mut Vec<(String, Command)>) {
            found.push((command.get_bin_name().unwrap_or(command.get_name()).to_owned(), command.clone()));
            let below =
                command.get_subcommands().filter(|below| !below.is_hide_set() && below.get_name() != "help");
            below.for_each(|below| collect(below, found));
        }
        let mut command = crate::command();
        command.build();
        let mut found = Vec::new();
        collect(&command, &mut found);
        found
    }

    /// The lines of -h about options.
    fn option_lines(help: &str) -> Vec<&str> {
        let lines = help.lines().skip_while(|line| *line != "Options:").skip(1);
        lines.take_while(|line| !line.is_empty()).collect()
    }

    #[test]
    fn short_help_is_one_screen_with_a_line_for_each_option() {
        let mut wrong = Vec::new();
        for (name, command) in commands() {
            let help = command.term_width(COLUMNS).render_help().to_string();
            let rows = help.lines().count();
            let end =
                format!("--help shows everything, and so does the man page: man {}", name.replace(' ', "-"));
            let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
            if rows > ROWS || !words(&help).ends_with(&end) {
                wrong.push(format!("{name}: {rows} rows, or not {end:?} at the end"));
            }
            let options = option_lines(&help);
            let is_wrong =
                |line: &&&str| line.chars().count() > COLUMNS || !line.trim_start().starts_with('-');
            wrong.extend(options.iter().filter(is_wrong).map(|line| format!("{name}: {line}")));
            if options.len() > MOST {
                wrong.push(format!("{name}: {} options, and no layout", options.len()));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    #[test]
    fn every_option_is_among_the_first_or_under_a_heading() {
        let commands = commands();
        for layout in LAYOUTS {
            let name = layout.page.replacen('-', " ", 2);
            let (_, command) =
                commands.iter().find(|(found, _)| *found == name).expect("there is such a command");
            for arg in command.get_opts().filter(|arg| !arg.is_hide_set() && arg.get_id() != "help") {
                let is_it = |name: &&str| id_of(command, name).is_some_and(|id| arg.get_id() == id.as_str());
                let is_first = layout.first.iter().any(is_it);
                assert!(is_first || arg.get_help_heading().is_some(), "{name}: {arg}: name it in a layout");
            }
        }
    }

    #[test]
    fn the_first_options_of_a_sender_are_what_people_need() {
        let (_, mut send) = commands().into_iter().find(|(name, _)| name == "treecast send").unwrap();
        let help = send.render_help().to_string();
        let first: Vec<_> = option_lines(&help).iter().filter_map(|line| line.split("--").nth(1)).collect();
        let first: Vec<_> = first.iter().filter_map(|rest| rest.split([' ', '[']).next()).collect();
        for name in [
            "wait",
            "code",
            "to-standing",
            "announce",
            "rate",
            "exclude",
            "interface",
            "key",
            "resume",
            "profile",
            "json",
        ] {
            assert!(first.contains(&name), "{name}: {first:?}");
        }
        assert!(help.lines().count() <= 26, "{help}");
        let long = send.render_long_help().to_string();
        let (first, mead) =
            (long.find("--wait <N>").unwrap(), long.find("MEADcast and Xcast: grouping").unwrap());
        assert!(first < mead && !help.contains("--merge") && long.contains("--merge"), "{long}");
        assert!(!long.contains("\nGrouping:") && !long.contains("\nProtocol:"), "{long}");
    }

    #[test]
    fn a_letter_means_the_same_option_everywhere() {
        let mut letters = std::collections::BTreeMap::new();
        for (name, command) in commands() {
            for arg in command.get_arguments() {
                let (Some(short), Some(long)) = (arg.get_short(), arg.get_long()) else { continue };
                // The result of a command, whatever it is called.
                let meaning = if long == "to" { "out" } else { long };
                assert_eq!(
                    *letters.entry(short).or_insert(meaning.to_owned()),
                    meaning,
                    "-{short} of {name}"
                );
            }
        }
        assert!(letters.len() > LETTERS.len(), "{letters:?}");
    }

    #[test]
    fn a_text_is_cut_where_its_first_sentence_ends() {
        let short = |text: &'static str| {
            let arg = in_one_line(Arg::new("x").long("x").help(text));
            assert_eq!(arg.get_long_help().unwrap().to_string(), text);
            arg.get_help().unwrap().to_string()
        };
        assert_eq!(short("Start at N [default: 1]. It waits"), "Start at N [default: 1]");
        assert_eq!(
            short("A network interface to send packets on [default: the one of the route]"),
            "A network interface to send packets on"
        );
    }
}
