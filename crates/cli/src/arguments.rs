//! Parsers of argument values that several subcommands share, and the one line that refuses wrong arguments.

mod foreign;

use std::{
    net::{IpAddr, SocketAddr, SocketAddrV6},
    ops::RangeInclusive,
    process::ExitCode,
    time::Duration,
};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use treecast::limits::LEAST_STALL_LIMIT;
use treecast::unstable::watch::nearest;
use treecast_host::{
    interface::index_of,
    quantity::{self, QuantityError},
};

use crate::{config::Origins, output};

/// The longest time that an option takes, in seconds: a year. Added to any clock, it cannot overflow.
pub const LONGEST_SECONDS: u64 = 366 * 24 * 3600;

/// [`LONGEST_SECONDS`] as a time.
pub const LONGEST_TIME: Duration = Duration::from_secs(LONGEST_SECONDS);

/// Parses a number of whole seconds, with or without a unit: 90, 90s, 15m.
pub fn seconds(text: &str) -> Result<u64, String> {
    whole_seconds(text, 0..=LONGEST_SECONDS)
}

/// Parses whole seconds within these limits.
pub fn whole_seconds(text: &str, range: RangeInclusive<u64>) -> Result<u64, String> {
    let [least, most] = [*range.start(), *range.end()].map(Duration::from_secs);
    let time = quantity::time(text, least..=most).map_err(|error| error.to_string())?;
    let is_whole = time.subsec_nanos() == 0;
    if is_whole { Ok(time.as_secs()) } else { Err("expected whole seconds, like 90s, 15m or 2h".to_owned()) }
}

/// Parses how long somebody's silence is borne.
pub fn stall_limit(text: &str) -> Result<u64, String> {
    whole_seconds(text, LEAST_STALL_LIMIT.as_secs()..=24 * 3600)
}

/// Parses a time as [`seconds`] does, or `never`, which is the longest one.
pub fn seconds_or_never(text: &str) -> Result<u64, String> {
    match text {
        "never" => Ok(LONGEST_SECONDS),
        text => seconds(text).map_err(|expected| format!("{expected}, or never")),
    }
}

/// Parses a number of bytes from 1 on: 500000, 500k, 20M, 4G.
pub fn bytes(text: &str) -> Result<u64, QuantityError> {
    quantity::size_bytes(text, 1..=u64::MAX)
}

/// Parses a time up to a year, which may be 0: 0, 250ms, 2m.
pub fn time(text: &str) -> Result<Duration, QuantityError> {
    quantity::time(text, Duration::ZERO..=LONGEST_TIME)
}

/// Parses a time from a millisecond to a year.
pub fn some_time(text: &str) -> Result<Duration, QuantityError> {
    quantity::time(text, Duration::from_millis(1)..=LONGEST_TIME)
}

/// Parses a time from a second to a year: 30s, 30m, 12h, 7d.
pub fn duration(text: &str) -> Result<Duration, QuantityError> {
    quantity::time(text, Duration::from_secs(1)..=LONGEST_TIME)
}

/// Parses the address of a host.
pub fn address(text: &str) -> Result<IpAddr, &'static str> {
    text.parse().map_err(|_| "expected an address like fd00::1 or 192.0.2.1")
}

/// Parses the address of a host with a port. A link-local address may name its interface, as in `[fe80::1%eth0]:5000`.
pub fn address_and_port(text: &str) -> Result<SocketAddr, String> {
    const EXPECTED: &str = "expected an address and a port (0: a free one), like [fd00::1]:5000, [fe80::1%eth0]:5000 or 192.0.2.1:5000";
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let with_zone = || {
        let (host, port) = text.strip_prefix('[')?.split_once("]:")?;
        let (address, zone) = host.split_once('%')?;
        Some((address.parse().ok()?, zone, port.parse().ok()?))
    };
    let (address, zone, port) = with_zone().ok_or(EXPECTED)?;
    let scope = index_of(zone)
        .map_err(|_| format!("{address} is on interface {zone}, which this host does not have"))?;
    Ok(SocketAddrV6::new(address, port, 0, scope).into())
}

pub use treecast::unstable::watch::counted;

/// Sets options of a builder that were given.
pub trait With: Sized {
    /// Calls a method of the builder with the value, if there is one.
    fn with<T: Clone>(self, given: &Option<T>, set: impl FnOnce(Self, T) -> Self) -> Self {
        match given {
            Some(value) => set(self, value.clone()),
            None => self,
        }
    }

    /// Calls a method of the builder if a flag was given.
    fn when(self, is_given: bool, set: impl FnOnce(Self) -> Self) -> Self {
        if is_given { set(self) } else { self }
    }
}

impl<B> With for B {}

/// Reports wrong arguments in one line, as all errors are reported, and prints help in full. Returns the exit
/// code. `origins`: where arguments come from that nobody typed.
pub fn refuse(mut error: clap::Error, origins: &Origins) -> ExitCode {
    if !error.use_stderr() {
        output::to_stdout(format_args!("{error}"));
        return ExitCode::SUCCESS;
    }
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        output::to_stderr(format_args!("{error}"));
        return ExitCode::FAILURE;
    }
    suggest(&mut error);
    let option = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(option)) if error.kind() == ErrorKind::UnknownArgument => option.as_str(),
        _ => "",
    };
    match foreign::meaning(option).filter(|_| origins.place(option).is_none()) {
        Some(meaning) => remark!("treecast: {meaning}"),
        None => remark!("treecast: {}; --help says what is possible", refusal(&error, origins)),
    }
    ExitCode::FAILURE
}

/// Has an error suggest the word that is most like the mistyped one, and none that is not like it.
fn suggest(error: &mut clap::Error) {
    let text = |error: &clap::Error, kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        _ => None,
    };
    // Of several words that are like a mistyped one, clap names the nearest last.
    if let Some(ContextValue::Strings(near)) = error.get(ContextKind::SuggestedSubcommand)
        && let Some(nearest) = near.last().cloned()
    {
        error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(vec![nearest]));
    }
    if let Some((option, near)) =
        text(error, ContextKind::InvalidArg).zip(text(error, ContextKind::SuggestedArg))
        && !is_like(&option, &near)
    {
        error.remove(ContextKind::SuggestedArg);
    }
    // Behind `help`, clap suggests nothing.
    if let Some(typed) = text(error, ContextKind::InvalidSubcommand)
        && error.get(ContextKind::SuggestedSubcommand).is_none()
        && let Some(nearest) = nearest_command(&typed)
    {
        error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(vec![nearest]));
    }
}

/// Whether an option may be meant by another one: it differs little from it, or one is the beginning of the other.
fn is_like(typed: &str, option: &str) -> bool {
    let name =
        |text: &str| text.trim_start_matches('-').split(['=', ' ']).next().unwrap_or_default().to_owned();
    let (typed, option) = (name(typed), name(option));
    let is_beginning = typed.len() >= 3 && (option.starts_with(&typed) || typed.starts_with(&option));
    is_beginning || nearest(&typed, &[&option]).is_some()
}

/// The command that is most like a mistyped one: one of the program's, or of those below.
fn nearest_command(typed: &str) -> Option<String> {
    let program = crate::command();
    let first = || program.get_subcommands();
    let names = first().chain(first().flat_map(clap::Command::get_subcommands));
    let names: Vec<&str> =
        names.filter(|command| !command.is_hide_set()).map(clap::Command::get_name).collect();
    nearest(typed, &names).map(str::to_owned)
}

/// What is wrong, and in which file if nobody typed it.
fn refusal(error: &clap::Error, origins: &Origins) -> String {
    let named = |kind| match error.get(kind) {
        Some(ContextValue::String(name)) => Some(&**name),
        _ => None,
    };
    let line = in_one_line(&error.to_string());
    let option = named(ContextKind::InvalidArg).unwrap_or_default();
    match (origins.place(option), error.kind()) {
        (None, _) | (_, ErrorKind::ArgumentConflict) => origins.explain(line),
        (Some(place), ErrorKind::UnknownArgument) => {
            let nearest = named(ContextKind::SuggestedArg).map(|arg| arg.trim_start_matches('-'));
            let nearest = nearest.map_or_else(String::new, |key| format!("; the nearest is `{key}`"));
            format!("{place}: no option is called `{}`{nearest}", option.trim_start_matches('-'))
        }
        (Some(place), _) => format!("{place}: {line}"),
    }
}

/// Joins the lines of a message of clap into one, without the word "error" and without the usage.
fn in_one_line(text: &str) -> String {
    let lines = text.lines().map(str::trim).take_while(|line| !line.starts_with("Usage:"));
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with("For more information"));
    let mut said = String::new();
    for line in lines {
        let line = line.trim_start_matches("error: ");
        match line.strip_prefix("tip: ") {
            Some(tip) => said += &format!("; {tip}"),
            None if said.is_empty() => said += line,
            None => said += &format!(" {line}"),
        }
    }
    plainly(said.trim_end_matches('.'))
}

/// Replaces what the standard parsers of numbers and addresses say by the words of [`seconds`] and the other
/// parsers here.
fn plainly(said: &str) -> String {
    if let Some((of, range)) = said.rsplit_once(" is not in ")
        && let (Some((low, high)), Some((of, _))) = (range.split_once(".."), of.rsplit_once(' '))
    {
        return format!("{of} expected a number from {low} to {}", high.trim_start_matches('='));
    }
    let words = [
        ("invalid digit found in string", "expected a whole number"),
        ("cannot parse integer from empty string", "expected a whole number"),
        ("number too large to fit in target type", "expected a smaller number"),
        ("invalid IPv6 address syntax", "expected an IPv6 address, like fd00::1"),
    ];
    words.iter().fold(said.to_owned(), |said, (theirs, ours)| said.replace(theirs, ours))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_clap_says_becomes_one_line() {
        let said = "error: unrecognized subcommand 'sent'\n\n  tip: a similar subcommand exists: 'send'\n\n\
                    Usage: treecast <COMMAND>\n\nFor more information, try '--help'.\n";
        assert_eq!(in_one_line(said), "unrecognized subcommand 'sent'; a similar subcommand exists: 'send'");
        let said = "error: the following required arguments were not provided:\n  <PATHS>...\n\nUsage: x\n";
        assert_eq!(in_one_line(said), "the following required arguments were not provided: <PATHS>");
        let said = "error: invalid value '0' for '--ttl <TTL>': 0 is not in 1..=255\n";
        let expected = "invalid value '0' for '--ttl <TTL>': expected a number from 1 to 255";
        assert_eq!(in_one_line(said), expected);
        let said = "error: invalid value '0' for '--packets <N>': 0 is not in 1..99\n";
        assert_eq!(
            in_one_line(said),
            "invalid value '0' for '--packets <N>': expected a number from 1 to 99"
        );
        let said = "error: invalid value 'x' for '--ttl <TTL>': invalid digit found in string\n";
        assert_eq!(in_one_line(said), "invalid value 'x' for '--ttl <TTL>': expected a whole number");
    }

    /// What is said of a command line that is wrong.
    fn refused(line: &str) -> String {
        let mut error = crate::command().try_get_matches_from(line.split(' ')).unwrap_err();
        suggest(&mut error);
        in_one_line(&error.to_string())
    }

    #[test]
    fn what_is_like_a_mistyped_word_is_suggested_and_nothing_else() {
        for (line, suggested) in [
            ("treecast send --exlude x f", "'--exclude'"),
            ("treecast receive --int x t", "'--into'"),
            ("treecast help sned", "'send'"),
            ("treecast sned", "'send'"),
        ] {
            let told = refused(line);
            assert!(told.contains("similar") && told.contains(suggested), "{line}: {told}");
        }
        for line in ["treecast receive --yesterday t", "treecast send --verbatim f", "treecast help xyzzy"] {
            let told = refused(line);
            assert!(!told.contains("similar"), "{line}: {told}");
        }
    }

    #[test]
    fn values_say_what_was_expected() {
        assert_eq!((seconds("60"), seconds("90s"), seconds("1m30s")), (Ok(60), Ok(90), Ok(90)));
        for wrong in ["-1", "x", "", "99999999999"] {
            assert!(seconds(wrong).unwrap_err().contains("a time from 0s to 366d"), "{wrong}");
        }
        assert!(seconds("1.5").unwrap_err().contains("whole seconds"));
        assert_eq!((stall_limit("2m"), stall_limit("1d")), (Ok(120), Ok(86_400)));
        assert!(stall_limit("25h").unwrap_err().contains("to 1d"));
        assert_eq!((seconds_or_never("never"), seconds_or_never("2m")), (Ok(LONGEST_SECONDS), Ok(120)));
        assert!(seconds_or_never("ever").unwrap_err().ends_with(", or never"));
        assert_eq!(
            (time("2m"), time("0.25")),
            (Ok(Duration::from_secs(120)), Ok(Duration::from_millis(250)))
        );
        assert!(["", "-1", "NaN", "inf", "1e99", "5x"].iter().all(|wrong| time(wrong).is_err()));
        assert!(some_time("0.25").is_ok() && ["0", "0.0"].iter().all(|wrong| some_time(wrong).is_err()));
        assert_eq!(duration("12h"), Ok(Duration::from_secs(43_200)));
        assert!(duration("0s").unwrap_err().to_string().contains("a time from 1s to 366d"));
        assert_eq!((bytes("7"), bytes("2k"), bytes("3G")), (Ok(7), Ok(2048), Ok(3 << 30)));
        assert!(address_and_port("127.0.0.1:22x").unwrap_err().contains("192.0.2.1:5000"));
        let zone =
            SocketAddr::from(SocketAddrV6::new("fe80::1".parse().unwrap(), 80, 0, index_of("lo").unwrap()));
        assert_eq!(address_and_port("[fe80::1%lo]:80"), Ok(zone));
        assert!(address_and_port("[fe80::1%none9]:80").unwrap_err().contains("interface none9"));
        assert!(address("host").unwrap_err().contains("fd00::1"));
    }
}
