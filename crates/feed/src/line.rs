//! One line of an LDM log.
//!
//! A line that names a product, as `notifyme -v`, `pqact -v` and a verbose `ldmd` write it:
//!
//! ```text
//! Oct 13 00:00:01 HOST UPSTREAM[PID] INFO:  [SIGNATURE] SIZE CREATED FEED SEQUENCE IDENTIFIER
//! 20101013T000001.123456Z UPSTREAM[PID] INFO  [SIGNATURE] SIZE CREATED FEED SEQUENCE IDENTIFIER
//! [SIGNATURE] SIZE CREATED FEED SEQUENCE IDENTIFIER
//! ```
//!
//! The log's level of such a line is INFO. A line of another level that begins with a number is a product only if it is one
//! throughout, because programs such as `pqmon` write figures of their own into the same log.
//!
//! A line that names who feeds whom, as an upstream `ldmd` writes it:
//!
//! ```text
//! Oct 13 00:00:00 HOST DOWNSTREAM(feed)[PID] NOTE: topo: DOWNSTREAM {{FEED, (PATTERN)}}
//! ```
//!
//! All times are in UTC.

use std::fmt;

use treecast_measure::date;

/// The largest number of characters of a wrong value that an error repeats.
const SHOWN_CHARACTERS: usize = 40;

/// The longest name of a host or feed, in bytes.
const MAX_NAME_BYTES: usize = 255;

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// The beginning of the remark by which a synthetic log names its scales.
const SCALE_REMARK: &str = "# scales:";

/// What a line of a log says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Line<'a> {
    Product(Product<'a>),
    Link(Link<'a>),
    /// The log is synthetic, and its times and sizes are compressed.
    Scale(Scale),
    /// A message about something else, a remark or an empty line.
    Other,
}

/// One data product that a host received.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Product<'a> {
    /// The time at which the host received the product, in microseconds since 1970. It is the time of its creation where
    /// the line has no time with fractions of a second.
    pub at_us: i64,
    pub size_bytes: u64,
    pub feed: &'a str,
    pub sequence: u32,
    pub identifier: &'a str,
    /// The host that received the product. `None` if the line does not say.
    pub host: Option<&'a str>,
    /// The host from which it came. `None` if the line names a program there.
    pub upstream: Option<&'a str>,
}

/// An upstream host and one of its downstream hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link<'a> {
    pub upstream: &'a str,
    pub downstream: &'a str,
    pub feed: &'a str,
}

/// The factors by which a synthetic log is compressed. 1 leaves times or sizes as they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scale {
    pub time: u32,
    pub size: u32,
}

impl Default for Scale {
    fn default() -> Self {
        Self { time: 1, size: 1 }
    }
}

/// A field of a line that holds something else than expected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, serde::Serialize)]
#[error("{field} is {value:?}: expected {expected}")]
pub struct LineError {
    pub field: &'static str,
    /// The beginning of what is there.
    pub value: String,
    pub expected: &'static str,
}

fn wrong(field: &'static str, value: &str, expected: &'static str) -> LineError {
    LineError { field, value: value.chars().take(SHOWN_CHARACTERS).collect(), expected }
}

/// The part of a line before its message.
#[derive(Debug, Default)]
struct Prefix<'a> {
    /// The time of the message, where it has fractions of a second, in microseconds since 1970.
    at_us: Option<i64>,
    host: Option<&'a str>,
    /// The program, which an `ldmd` calls by the host at the other end.
    program: Option<&'a str>,
    /// Whether the level is another one than INFO.
    is_notice: bool,
}

/// The words of a line that are still to read.
#[derive(Debug, Clone, Copy)]
struct Words<'a>(&'a str);

impl<'a> Words<'a> {
    /// Takes the next word. Returns an empty one at the end.
    fn take(&mut self) -> &'a str {
        let text = self.0.trim_start();
        let (word, rest) = text.split_at(text.find(char::is_whitespace).unwrap_or(text.len()));
        self.0 = rest;
        word
    }

    fn peek(mut self) -> &'a str {
        self.take()
    }
}

/// Parses a line without its newline.
///
/// # Errors
/// When a field of a product, a link or the line's beginning is wrong. The error names the field, its value and what was
/// expected.
pub fn parse(line: &str) -> Result<Line<'_>, LineError> {
    if let Some(scales) = line.strip_prefix(SCALE_REMARK) {
        return scale(scales).map(Line::Scale);
    }
    if line.trim().is_empty() || line.starts_with('#') {
        return Ok(Line::Other);
    }
    let mut words = Words(line);
    let prefix = prefix(&mut words)?;
    let first = words.peek();
    if first.starts_with(|letter: char| letter.is_ascii_digit() || letter == '-') || is_signature(first) {
        return match product(&prefix, words) {
            Err(_) if prefix.is_notice => Ok(Line::Other),
            product => product.map(Line::Product),
        };
    }
    if first == "topo:" {
        words.take();
        return link(&prefix, words).map(Line::Link);
    }
    match prefix.program {
        Some(_) => Ok(Line::Other),
        None => Err(wrong("the first word", first, "a month like Oct, a time, or the size of a product")),
    }
}

fn scale(text: &str) -> Result<Scale, LineError> {
    let mut words = Words(text);
    let mut factor = |field, name: &str| {
        let word = words.take();
        let value = word.strip_prefix(name).and_then(|value| value.strip_prefix('='));
        let value =
            value.and_then(|value| value.parse().ok()).filter(|value| (1..=1_000_000).contains(value));
        value.ok_or_else(|| wrong(field, word, "time=N and size=N, with numbers from 1 to 1000000"))
    };
    Ok(Scale { time: factor("the scale of times", "time")?, size: factor("the scale of sizes", "size")? })
}

/// Takes the words before the message, if there are any.
fn prefix<'a>(words: &mut Words<'a>) -> Result<Prefix<'a>, LineError> {
    let first = words.peek();
    let mut prefix = Prefix::default();
    if MONTHS.contains(&first) {
        words.take();
        let (day, time) = (words.take(), words.take());
        if !day.parse::<u8>().is_ok_and(|day| (1..=31).contains(&day)) {
            return Err(wrong("the day", day, "a number from 1 to 31"));
        }
        clock(time.split(':'))
            .ok_or_else(|| wrong("the time", time, "hours, minutes and seconds, like 23:59:01"))?;
        if !words.peek().contains('[') {
            prefix.host = Some(name("the host", words.take())?);
        }
    } else if first.len() > 8 && first.as_bytes()[8] == b'T' {
        words.take();
        let at = iso(first);
        prefix.at_us =
            Some(at.ok_or_else(|| wrong("the time", first, "a time like 20101013T000001.123456Z"))?);
    } else {
        return Ok(prefix);
    }
    let program = words.take();
    let end = program.find(['[', '(']);
    let end = end.ok_or_else(|| wrong("the program", program, "a name and a process, like pqact[123]"))?;
    prefix.program = Some(name("the program", &program[..end])?);
    while let Some(level) = level(words.peek()) {
        prefix.is_notice |= !level.is_empty() && level != "INFO";
        words.take();
    }
    Ok(prefix)
}

/// The level of the log that a word is. It is empty if the word is the place in LDM's source that newer versions write before the level.
fn level(word: &str) -> Option<&str> {
    let word = word.trim_end_matches(':');
    match word {
        "INFO" | "NOTE" | "WARN" | "ERROR" | "DEBUG" | "FATAL" => Some(word),
        place if place.contains(".c:") => Some(""),
        _ => None,
    }
}

fn is_signature(word: &str) -> bool {
    word.len() == 32 && word.bytes().all(|letter| letter.is_ascii_hexdigit())
}

fn name<'a>(field: &'static str, word: &'a str) -> Result<&'a str, LineError> {
    let is_right = (1..=MAX_NAME_BYTES).contains(&word.len()) && !word.contains(char::is_control);
    is_right.then_some(word).ok_or_else(|| wrong(field, word, "a name of 1 to 255 characters"))
}

fn product<'a>(prefix: &Prefix<'a>, mut words: Words<'a>) -> Result<Product<'a>, LineError> {
    // A size of 32 digits is none, so such a word is a signature even if it has no letter.
    if is_signature(words.peek()) {
        words.take();
    }
    let (size, created, feed, sequence) = (words.take(), words.take(), words.take(), words.take());
    let size_bytes = size.parse::<u32>().map(u64::from);
    let size_bytes = size_bytes.map_err(|_| wrong("the size", size, "bytes from 0 to 4294967295"))?;
    let created_us = stamp(created);
    let created_us =
        created_us.ok_or_else(|| wrong("the time of creation", created, "a time like 20101013000001.123"))?;
    let feed = name("the feed", feed)?;
    let sequence_number = sequence.parse();
    let sequence =
        sequence_number.map_err(|_| wrong("the sequence number", sequence, "a number like 017"))?;
    let identifier = words.0.trim();
    if identifier.is_empty() {
        return Err(wrong("the identifier", identifier, "the name of a product"));
    }
    Ok(Product {
        at_us: prefix.at_us.unwrap_or(created_us),
        size_bytes,
        feed,
        sequence,
        identifier,
        host: prefix.host,
        upstream: prefix.program.filter(|program| program.contains('.')),
    })
}

fn link<'a>(prefix: &Prefix<'a>, mut words: Words<'a>) -> Result<Link<'a>, LineError> {
    let expected = "DOWNSTREAM {{FEED, (PATTERN)}}";
    let upstream =
        prefix.host.ok_or_else(|| wrong("the host", "", "the upstream host, before the program"))?;
    let downstream = name("the downstream host", words.take())?;
    let class = words.0.trim();
    let feed = class.strip_prefix("{{").and_then(|class| class.split(',').next());
    let feed = feed.ok_or_else(|| wrong("the subscription", class, expected))?;
    Ok(Link { upstream, downstream, feed: name("the subscription", feed.trim())? })
}

/// Parses hours, minutes and seconds. Returns seconds. A leap second counts as the second before it.
fn clock<'a>(mut parts: impl Iterator<Item = &'a str>) -> Option<i64> {
    let mut part = |limit: i64| {
        let digits =
            parts.next().filter(|part| part.len() == 2 && part.bytes().all(|c| c.is_ascii_digit()))?;
        digits.parse::<i64>().ok().filter(|value| *value < limit)
    };
    Some(part(24)? * 3600 + part(60)? * 60 + part(61)?.min(59))
}

/// Parses a time such as `20101013000001.123`. Returns microseconds since 1970.
fn stamp(text: &str) -> Option<i64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    if whole.len() != 14 || !whole.bytes().chain(fraction.bytes()).all(|letter| letter.is_ascii_digit()) {
        return None;
    }
    let day = date::parse(&whole[..8])?;
    let seconds = clock([&whole[8..10], &whole[10..12], &whole[12..]].into_iter())?;
    let micros: i64 = format!("{:0<6}", fraction.get(..6).unwrap_or(fraction)).parse().ok()?;
    Some((day + seconds) * 1_000_000 + micros)
}

/// Parses a time such as `20101013T000001.123456Z`. Returns microseconds since 1970.
fn iso(text: &str) -> Option<i64> {
    let (day, time) = text.strip_suffix('Z')?.split_once('T')?;
    stamp(&format!("{day}{time}"))
}

impl fmt::Display for Scale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCALE_REMARK} time={} size={}", self.time, self.size)
    }
}

/// The beginning of a line, up to the host.
struct Stamp(i64);

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (_, month, day) = date::civil(self.0);
        let of_day = self.0.rem_euclid(86_400);
        let (hours, minutes, seconds) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
        let month = MONTHS[usize::from(month) - 1];
        write!(f, "{month} {day:02} {hours:02}:{minutes:02}:{seconds:02}")
    }
}

/// The line as an `ldmd` writes it. Its time is exact to the millisecond.
impl fmt::Display for Product<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.at_us.div_euclid(1_000_000);
        write!(f, "{} ", Stamp(seconds))?;
        self.host.map_or(Ok(()), |host| write!(f, "{host} "))?;
        write!(f, "{}[100] INFO: ", self.upstream.unwrap_or("notifyme"))?;
        let (year, month, day) = date::civil(seconds);
        let of_day = seconds.rem_euclid(86_400);
        let (hours, minutes, seconds) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
        let millis = self.at_us.rem_euclid(1_000_000) / 1000;
        write!(
            f,
            "{:8} {year:04}{month:02}{day:02}{hours:02}{minutes:02}{seconds:02}.{millis:03} {} {:03}  {}",
            self.size_bytes, self.feed, self.sequence, self.identifier
        )
    }
}

impl Link<'_> {
    /// The line as an upstream `ldmd` writes it at this time, in microseconds since 1970.
    pub fn line(&self, at_us: i64) -> String {
        let Self { upstream, downstream, feed } = self;
        let stamp = Stamp(at_us.div_euclid(1_000_000));
        format!("{stamp} {upstream} {downstream}(feed)[100] NOTE: topo: {downstream} {{{{{feed}, (.*)}}}}")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// 2010-10-13 00:00:01 UTC.
    const AT: i64 = 1_286_928_001_000_000;

    fn product_of(line: &str) -> Product<'_> {
        match parse(line) {
            Ok(Line::Product(product)) => product,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn each_form_of_a_product_is_read() {
        let tail = "38540 20101013000001.500 CONDUIT 017  data/nccf/gfs.t00z !grib2/ncep";
        let ldmd = format!("Oct 13 00:00:02 ldm.example.org idd.example.edu[77] INFO:    {tail}");
        let found = product_of(&ldmd);
        assert_eq!((found.at_us, found.size_bytes, found.sequence), (AT + 500_000, 38_540, 17));
        assert_eq!((found.host, found.upstream), (Some("ldm.example.org"), Some("idd.example.edu")));
        assert_eq!(found.identifier, "data/nccf/gfs.t00z !grib2/ncep");

        let signed = format!("2a4c0ac0f50a7dde2a1f0f0a1f0f0a1f {tail}");
        let notifyme = format!("Oct 13 00:00:02 notifyme[5] INFO: {signed}");
        assert_eq!(product_of(&notifyme), Product { host: None, upstream: None, ..found });
        assert_eq!(product_of(&signed), Product { host: None, upstream: None, ..found });
        let notice = ldmd.replace("INFO", "NOTE");
        assert_eq!(product_of(&notice), found, "a product is one at any level");
        let new = format!("20101013T000001.000250Z pqact[5] pqact.c:main:42 INFO  {tail}");
        assert_eq!(product_of(&new).at_us, AT + 250);
    }

    #[test]
    fn who_feeds_whom_is_read_and_other_messages_are_passed_over() {
        let line = "Oct 13 00:00:00 idd.example.edu leaf.example.org(feed)[9] NOTE: topo: leaf.example.org {{CONDUIT, (.*)}}";
        let link = Link { upstream: "idd.example.edu", downstream: "leaf.example.org", feed: "CONDUIT" };
        assert_eq!(parse(line), Ok(Line::Link(link)));
        for other in [
            "",
            "# a remark",
            "Oct 13 00:00:00 host ldmd[1] NOTE: Starting Up",
            "Oct 13 00:01:00 host pqmon[812] NOTE:   53218     1  70781   499999456    124000      2     5824    1032 41600",
            "Oct 13 00:01:00 host pqmon[812] NOTE: nprods nfree  nempty      nbytes  maxprods  maxfree  minempty    maxext  age",
            "20251013T000100.123456Z pqmon[812] pqmon.c:main:401 NOTE  53218 1 70781 499999456 124000 2 5824 1032 41600",
            "Oct 13 00:01:00 host pqact[5] ERROR: 12 pipes are broken",
        ] {
            assert_eq!(parse(other), Ok(Line::Other), "{other}");
        }
        assert_eq!(parse("# scales: time=60 size=1000"), Ok(Line::Scale(Scale { time: 60, size: 1000 })));
    }

    #[test]
    fn a_wrong_line_names_field_value_and_what_was_expected() {
        for (line, field, value) in [
            ("hello", "the first word", "hello"),
            ("Oct 32 00:00:02 notifyme[5] INFO: 1", "the day", "32"),
            ("Oct 13 24:00:02 notifyme[5] INFO: 1", "the time", "24:00:02"),
            ("Oct 13 00:00:02 host", "the program", ""),
            ("20101313T000001Z pqact[5] INFO 1", "the time", "20101313T000001Z"),
            ("4294967296 20101013000001.5 X 1 a", "the size", "4294967296"),
            ("-1 20101013000001.5 X 1 a", "the size", "-1"),
            ("1 20101013000061.5 X 1 a", "the time of creation", "20101013000061.5"),
            ("1 20101013000001.5 X y a", "the sequence number", "y"),
            ("1 20101013000001.5 X 1", "the identifier", ""),
            ("Oct 13 00:00:00 a.b c.d(feed)[9] NOTE: topo: c.d CONDUIT", "the subscription", "CONDUIT"),
            ("Oct 13 00:00:00 c.d(feed)[9] NOTE: topo: c.d {{CONDUIT, (.*)}}", "the host", ""),
            ("# scales: time=0 size=1", "the scale of times", "time=0"),
        ] {
            let error = parse(line).expect_err(line);
            assert_eq!((error.field, error.value.as_str()), (field, value), "{line}");
            assert!(!error.expected.is_empty());
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_a_panic(line in any::<String>()) {
            _ = parse(&line);
        }

        #[test]
        fn what_is_written_is_read_again(
            millis in 0_i64..4_000_000_000_000, size_bytes in 0..u64::from(u32::MAX), sequence in any::<u32>(),
            feed in "[A-Z0-9]{1,9}", identifier in "[a-z/!]{1,30}", host in proptest::option::of("[a-z]{1,9}"),
            upstream in proptest::option::of("[a-z]{1,9}\\.[a-z]{2}"),
        ) {
            let (host, upstream) = (host.as_deref(), upstream.as_deref());
            let product = Product {
                at_us: millis * 1000, size_bytes, feed: &feed, sequence, identifier: &identifier, host, upstream,
            };
            let line = product.to_string();
            prop_assert_eq!(parse(&line), Ok(Line::Product(product)));
        }
    }
}
