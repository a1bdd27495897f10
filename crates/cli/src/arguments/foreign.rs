//! Options of other programs: what does the same here.

/// Options of one meaning, the programs that call them so, and what does the same here.
type Meaning = (&'static [&'static str], &'static str, &'static str);

const MEANINGS: &[Meaning] = &[
    (
        &[
            "--bwlimit",
            "--throttleUpload",
            "--throttle-upload",
            "--limit-rate",
            "--max-bitrate",
            "--bandwidth",
            "--bitrate",
            "--bw",
        ],
        "rsync, croc, curl, udpcast and iperf3",
        "`send --rate 50M` and `load run --rate 50M` limit the rate, in bits a second",
    ),
    (&["--min-receivers", "--autostart"], "udpcast", "`send --wait N` waits for N receivers"),
    (&["--min-wait", "--max-wait"], "udpcast", "`send --wait-timeout TIME` limits the wait for receivers"),
    (
        &[
            "--mcast-data-address",
            "--mcast-data-addr",
            "--mcast-rdv-address",
            "--mcast-rdv-addr",
            "--mcast-addr",
            "--multicast",
            "--portbase",
        ],
        "udpcast",
        "`send --group ADDR:PORT` names the multicast group and port",
    ),
    (&["--blocksize"], "udpcast", "`send --block BYTES` sets the bytes of a file in each packet"),
    (&["--async"], "udpcast", "`send --repair carousel` needs nothing from receivers"),
    (&["--retries-until-drop"], "udpcast", "`send --give-up-after TIME` gives up on receivers"),
    (
        &["--start-timeout", "--connecttimeout", "--contimeout"],
        "udpcast, rsync",
        "`receive --connect-timeout TIME` limits the wait for the sender",
    ),
    (
        &["--receive-timeout", "--timeout", "--speed-time"],
        "udpcast, rsync and curl",
        "--stall-limit TIME of `send` and `receive` bounds silence, and `receive --max-time TIME` the whole",
    ),
    (&["--pipe"], "udpcast", "`send -` reads standard input, and `receive --stdout` writes standard output"),
    (
        &["--file"],
        "udpcast",
        "`send PATH` takes paths as they are, and `receive --to PATH` writes the one file of a session",
    ),
    (
        &["--output", "--outfile"],
        "curl",
        "`receive --to PATH` writes the one file of a session, and --into DIR names the folder",
    ),
    (
        &["-O", "--remote-name"],
        "curl",
        "leave it out: files keep their names, and `receive --to PATH` names the one file of a session",
    ),
    (&["--yes", "--no-prompt"], "croc", "leave it out: `receive` asks nothing, and begins at once"),
    (
        &["-p"],
        "uftp, udpcast and scp",
        "`send --group ADDR:PORT` and `receive --port N` name ports, `receive --stdout` hands on a stream, and permissions and times \
         are sent without being asked for",
    ),
    (
        &["--output-dir", "--out", "--destdir", "--directory", "--dir", "--dest"],
        "curl and croc",
        "`receive --into DIR` names the folder",
    ),
    (&["--retry", "--retries"], "curl", "`receive --reconnect TIME` looks for the sender again by itself"),
    (
        &["--delete", "--delete-after", "--del"],
        "rsync",
        "leave it out: receivers keep files that the folder no longer has",
    ),
    (
        &["--archive", "--perms", "--times", "--recursive", "--links", "-a", "-r"],
        "rsync",
        "leave it out: `send` takes folders whole, with permissions, times and links",
    ),
    (
        &["--partial", "--continue-at", "--append", "--inplace"],
        "rsync and curl",
        "leave it out: `receive` keeps incomplete files and goes on with them",
    ),
    (&["--checksum"], "rsync", "leave it out: each file's hash is verified"),
    (
        &["--dry-run", "-n"],
        "rsync",
        "there is no trial: `send` names what it leaves out, and sends nothing before a receiver has joined",
    ),
    (
        &["--progress", "--info", "--verbose", "-v"],
        "rsync",
        "leave it out: progress is shown at a terminal, and --json tells it to programs",
    ),
    (
        &["--include", "--filter", "--files-from"],
        "rsync",
        "`receive --only GLOB` and `send --exclude PATTERN` choose files, and `send --feed FILE` reads paths",
    ),
    (
        &["--link-dest", "--copy-dest", "--compare-dest", "--fuzzy"],
        "rsync",
        "`receive --old PATH` names older versions for `send --delta`",
    ),
    (
        &["--compress-level", "--zl", "--compress-choice", "--zc", "--zip"],
        "rsync",
        "`send --compress zstd:LEVEL` compresses",
    ),
    (
        &["--relay", "--relay6", "--pass"],
        "croc",
        "leave it out: there is no relay; `send --code` prints three words for receivers on the same network",
    ),
    (&["--text"], "croc", "`send -` reads standard input"),
    (
        &["--client", "--server", "--udp"],
        "iperf3",
        "`load run` sends and receives, and --only send or --only receive do one of both",
    ),
    (&["--time"], "iperf3", "`load run --seconds TIME` limits the run"),
    (&["--length", "--len"], "iperf3", "`load run --size BYTES` sets the payload of each packet"),
    (&["--parallel"], "iperf3", "`load run --senders N` starts several senders"),
    (&["--bind", "--bind-dev"], "iperf3", "--interface IF names the interface"),
    (&["-R"], "uftp", "`send --rate 50M` limits the rate, in bits a second"),
    (&["-M", "-P"], "uftp", "`send --group ADDR:PORT` names the multicast group and port"),
    (&["-H"], "uftp", "`send --to-standing NAME,...` or `send --receivers ADDR,...` name the receivers"),
    (&["-D"], "uftp", "`receive --into DIR` names the folder"),
    (&["-C"], "uftp", "`send --rate auto` shares the path with other traffic, and is the default"),
];

/// Says what does here what an option of another program does there. `option` is as it was typed.
pub(super) fn meaning(option: &str) -> Option<String> {
    let option = option.split('=').next().unwrap_or_default();
    let (_, programs, here) = MEANINGS.iter().find(|(options, ..)| options.contains(&option))?;
    Some(format!("{option} is an option of {programs}: here, {here}"))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    /// The long options of a command and of those below it.
    fn options(command: &clap::Command, found: &mut Vec<String>) {
        found.extend(command.get_arguments().filter_map(clap::Arg::get_long).map(|long| format!("--{long}")));
        command.get_subcommands().for_each(|command| options(command, found));
    }

    #[test]
    fn each_meaning_names_options_that_are_there_for_one_that_is_not() {
        let mut ours = Vec::new();
        options(&crate::Cli::command(), &mut ours);
        for (theirs, _, here) in MEANINGS {
            let named = here.split([' ', '`', ',']).filter(|word| word.starts_with("--"));
            named.for_each(|word| assert!(ours.iter().any(|option| option == word), "{word} in {here}"));
            assert!(!here.is_empty() && !theirs.is_empty());
        }
        let all: Vec<_> = MEANINGS.iter().flat_map(|(theirs, ..)| *theirs).collect();
        assert!(all.iter().all(|option| all.iter().filter(|other| *other == option).count() == 1));
    }

    #[test]
    fn an_option_is_known_with_its_value() {
        let line = meaning("--bwlimit=50").unwrap();
        assert!(line.starts_with("--bwlimit is an option of rsync") && line.contains("--rate 50M"), "{line}");
        assert_eq!(meaning("--rate"), None);
        for (theirs, here) in [
            ("-a", "takes folders whole"),
            ("-r", "takes folders whole"),
            ("-v", "progress is shown"),
            ("--verbose", "progress is shown"),
            ("-n", "no trial"),
            ("--dry-run", "no trial"),
            ("--mcast-rdv-addr", "--group ADDR:PORT"),
            ("--yes", "asks nothing"),
            ("--dir", "--into DIR"),
            ("-O", "--to PATH"),
            ("-p", "--port N"),
        ] {
            let line = meaning(theirs).unwrap();
            assert!(line.contains(here), "{line}");
        }
    }
}
