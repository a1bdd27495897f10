//! Parsers of argument values that several subcommands share, and the one line that refuses wrong arguments.

use std::{
    net::{IpAddr, SocketAddr},
    process::ExitCode,
    time::Duration,
};

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::output;

/// The longest time that an option takes, in seconds: a year. Added to any clock, it cannot overflow.
pub const LONGEST_SECONDS: u64 = 366 * 24 * 3600;

/// Parses a whole number of seconds, with or without a unit: 90, 90s, 15m.
pub fn seconds(text: &str) -> Result<u64, String> {
    let with_unit = || duration(text).ok().map(|time| time.as_secs());
    let seconds = text.parse().ok().or_else(with_unit).filter(|seconds| *seconds <= LONGEST_SECONDS);
    seconds.ok_or_else(|| {
        format!("expected whole seconds from 0 to {LONGEST_SECONDS}, or a time like 90s, 15m or 2h")
    })
}

/// Parses a number of bytes, with or without a unit: 500000, 500k, 20M, 4G.
pub fn bytes(text: &str) -> Result<u64, &'static str> {
    const EXPECTED: &str = "expected a number of bytes from 1 on, like 500k, 20M or 4G";
    let (at, shift) = match text.char_indices().next_back().ok_or(EXPECTED)? {
        (at, 'k' | 'K') => (at, 10),
        (at, 'm' | 'M') => (at, 20),
        (at, 'g' | 'G') => (at, 30),
        (at, 't' | 'T') => (at, 40),
        _ => (text.len(), 0),
    };
    let count = text[..at].parse::<u64>().ok().filter(|_| text.as_bytes()[0].is_ascii_digit());
    count.and_then(|count| count.checked_mul(1 << shift)).filter(|bytes| *bytes > 0).ok_or(EXPECTED)
}

/// Parses a time with its unit: 30s, 30m, 12h, 7d.
pub fn duration(text: &str) -> Result<Duration, &'static str> {
    const EXPECTED: &str = "expected a time like 30m, 12h or 7d, of at most 366d";
    let (at, unit) = text.char_indices().next_back().ok_or(EXPECTED)?;
    let unit = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => 24 * 3600,
        _ => return Err(EXPECTED),
    };
    let count = text[..at].parse::<u32>().ok().filter(|_| text.as_bytes()[0].is_ascii_digit());
    let seconds = count.map(|count| u64::from(count) * unit);
    seconds.filter(|seconds| (1..=LONGEST_SECONDS).contains(seconds)).map(Duration::from_secs).ok_or(EXPECTED)
}

/// Parses the address of a host.
pub fn address(text: &str) -> Result<IpAddr, &'static str> {
    text.parse().map_err(|_| "expected an address like fd00::1 or 192.0.2.1")
}

/// Parses the address of a host with a port.
pub fn address_and_port(text: &str) -> Result<SocketAddr, &'static str> {
    text.parse()
        .map_err(|_| "expected an address and a port (0: a free one), like [fd00::1]:5000 or 192.0.2.1:5000")
}

pub use treecast::watch::counted;

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
/// code.
pub fn refuse(mut error: clap::Error) -> ExitCode {
    if !error.use_stderr() {
        output::to_stdout(format_args!("{error}"));
        return ExitCode::SUCCESS;
    }
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        output::to_stderr(format_args!("{error}"));
        return ExitCode::FAILURE;
    }
    // Of several words that are like a mistyped one, clap names the nearest last.
    if let Some(ContextValue::Strings(near)) = error.get(ContextKind::SuggestedSubcommand)
        && let Some(nearest) = near.last().cloned()
    {
        error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(vec![nearest]));
    }
    remark!("treecast: {}; --help says what is possible", in_one_line(&error.to_string()));
    ExitCode::FAILURE
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

    #[test]
    fn values_say_what_was_expected() {
        assert_eq!((seconds("60"), seconds("90s"), seconds("15m")), (Ok(60), Ok(90), Ok(900)));
        for wrong in ["-1", "x", "", "1.5", "99999999999"] {
            assert!(seconds(wrong).unwrap_err().contains("whole seconds"), "{wrong}");
        }
        let times = ["40s", "30m", "12h", "7d"].map(|text| duration(text).unwrap().as_secs());
        assert_eq!(times, [40, 1800, 43_200, 604_800]);
        for wrong in ["", "m", "5", "-1h", "+1h", "0s", "367d", "99999999999d", "1.5h", "5ü"] {
            assert!(duration(wrong).unwrap_err().contains("like 30m"), "{wrong}");
        }
        assert_eq!((bytes("7"), bytes("2k"), bytes("3G")), (Ok(7), Ok(2048), Ok(3 << 30)));
        for wrong in ["", "k", "0", "-1", "+1k", "1.5M", "99999999999T", "5ü"] {
            assert!(bytes(wrong).unwrap_err().contains("like 500k"), "{wrong}");
        }
        assert!(address_and_port("127.0.0.1:22x").unwrap_err().contains("192.0.2.1:5000"));
        assert!(address("host").unwrap_err().contains("fd00::1"));
    }
}
