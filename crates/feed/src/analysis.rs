//! The characterisation of a feed, as in chapter 2 of the paper interdomain-2013: volume by day and minute, silences, sizes,
//! and the tree of hosts.
//!
//! A caller opens an [`Analysis`], hands it the lines of one log after the other ([`Analysis::read`]) or products
//! ([`Analysis::add`]), and takes the [`Report`] at the end.

mod days;
mod silences;
mod sizes;
mod tree;

use std::{
    collections::BTreeMap,
    io::{self, BufRead, Read},
};

use serde::Serialize;

pub use days::{Day, Days, Minute, clock_time};
pub use silences::Silences;
pub use sizes::Sizes;
pub use tree::{AccessLink, Tree};

use crate::line::{self, Line, LineError, Link, Product, Scale};

/// A line longer than this, in bytes, is wrong.
const MAX_LINE_BYTES: u64 = 8192;

/// The largest number of feeds in one analysis. LDM knows about 30.
const MAX_FEEDS: usize = 64;

/// The number of wrong lines that a report shows.
const SHOWN_WRONG: usize = 10;

/// What keeps a log from being analysed.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    #[error("cannot read it: {0}")]
    Read(#[from] io::Error),
    #[error("more than {limit} lines are wrong; the last one is line {line}: {error}")]
    TooManyWrong { limit: u64, line: u64, error: LineError },
}

/// What a set of logs says.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    pub lines: Lines,
    /// The first wrong lines.
    pub wrong: Vec<WrongLine>,
    /// The feeds, sorted by name.
    pub feeds: Vec<FeedReport>,
}

/// Lines by what they say.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Lines {
    pub products: u64,
    pub links: u64,
    /// Messages about something else, remarks and empty lines.
    pub other: u64,
    pub wrong: u64,
}

/// A line that was passed over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WrongLine {
    /// The number of the line within its log, from 1.
    pub line: u64,
    #[serde(flatten)]
    pub error: LineError,
}

/// The characterisation of one feed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FeedReport {
    pub feed: String,
    pub products: u64,
    pub bytes: u64,
    pub days: Days,
    pub silences: Silences,
    pub sizes: Sizes,
    pub tree: Tree,
    /// The links to the sites that feed others, the busiest first, if each downstream host has a connection of its own.
    pub access_links: Vec<AccessLink>,
    /// Each minute with products, for plots.
    #[serde(skip)]
    pub minutes: BTreeMap<i64, Minute>,
    /// Pairs of upstream and downstream hosts, for plots.
    #[serde(skip)]
    pub links: Vec<(String, String)>,
}

#[derive(Debug, Default)]
struct Feed {
    products: u64,
    bytes: u64,
    days: days::Counter,
    silences: silences::Counter,
    sizes: sizes::Counter,
    tree: tree::Links,
}

/// An analysis that is under way.
#[derive(Debug)]
pub struct Analysis {
    lines: Lines,
    wrong: Vec<WrongLine>,
    /// The largest number of wrong lines that are passed over.
    wrong_limit: u64,
    scale: Scale,
    /// The time of the first product, from which compressed times are stretched.
    start_us: Option<i64>,
    feeds: BTreeMap<String, Feed>,
}

impl Analysis {
    /// An analysis that passes over up to `wrong_limit` wrong lines.
    pub fn new(wrong_limit: u64) -> Self {
        Self {
            lines: Lines::default(),
            wrong: Vec::new(),
            wrong_limit,
            scale: Scale::default(),
            start_us: None,
            feeds: BTreeMap::new(),
        }
    }

    /// Reads a log to its end.
    ///
    /// # Errors
    /// When the log cannot be read, or when too many lines are wrong.
    pub fn read(&mut self, mut log: impl BufRead) -> Result<(), LogError> {
        (self.scale, self.start_us) = (Scale::default(), None);
        let mut bytes = Vec::new();
        for number in 1.. {
            bytes.clear();
            if log.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut bytes)? == 0 {
                break;
            }
            let is_whole = bytes.pop_if(|last| *last == b'\n').is_some();
            let text = String::from_utf8_lossy(&bytes);
            if !is_whole && bytes.len() as u64 == MAX_LINE_BYTES {
                log.skip_until(b'\n')?;
                let expected = "at most 8191 bytes";
                let value = text.chars().take(40).collect();
                self.note_wrong(number, LineError { field: "the line", value, expected })?;
                continue;
            }
            let added = line::parse(text.trim_end_matches('\r')).and_then(|line| self.add(line));
            added.or_else(|error| self.note_wrong(number, error))?;
        }
        Ok(())
    }

    fn note_wrong(&mut self, line: u64, error: LineError) -> Result<(), LogError> {
        self.lines.wrong += 1;
        if self.lines.wrong > self.wrong_limit {
            return Err(LogError::TooManyWrong { limit: self.wrong_limit, line, error });
        }
        if self.wrong.len() < SHOWN_WRONG {
            self.wrong.push(WrongLine { line, error });
        }
        Ok(())
    }

    /// Adds what one line says.
    ///
    /// # Errors
    /// When there are more feeds, minutes or hosts than an analysis keeps.
    pub fn add(&mut self, line: Line<'_>) -> Result<(), LineError> {
        match line {
            Line::Product(product) => {
                self.add_product(&product)?;
                self.lines.products += 1;
            }
            Line::Link(Link { upstream, downstream, feed }) => {
                self.feed(feed)?.tree.add(upstream, downstream)?;
                self.lines.links += 1;
            }
            Line::Scale(scale) => {
                self.scale = scale;
                self.lines.other += 1;
            }
            Line::Other => self.lines.other += 1,
        }
        Ok(())
    }

    fn add_product(&mut self, product: &Product<'_>) -> Result<(), LineError> {
        let start = *self.start_us.get_or_insert(product.at_us);
        let since = product.at_us.saturating_sub(start).saturating_mul(i64::from(self.scale.time));
        let at_us = start.saturating_add(since);
        let bytes = product.size_bytes * u64::from(self.scale.size);
        let feed = self.feed(product.feed)?;
        feed.days.add(at_us, bytes)?;
        if let (Some(upstream), Some(host)) = (product.upstream, product.host) {
            feed.tree.add(upstream, host)?;
        }
        if let Some((from_us, to_us)) = feed.silences.add(at_us) {
            feed.days.interrupt(from_us, to_us);
        }
        feed.sizes.add(bytes);
        feed.products += 1;
        feed.bytes = feed.bytes.saturating_add(bytes);
        Ok(())
    }

    fn feed(&mut self, name: &str) -> Result<&mut Feed, LineError> {
        if !self.feeds.contains_key(name) {
            if self.feeds.len() == MAX_FEEDS {
                return Err(too_many("the feed", name, "no more than 64 feeds"));
            }
            self.feeds.insert(name.to_owned(), Feed::default());
        }
        Ok(self.feeds.entry(name.to_owned()).or_default())
    }

    /// The report on all that was added.
    pub fn finish(self) -> Report {
        let feeds = self.feeds.into_iter().map(|(name, feed)| feed.finish(name)).collect();
        Report { lines: self.lines, wrong: self.wrong, feeds }
    }
}

fn too_many(field: &'static str, value: &str, expected: &'static str) -> LineError {
    LineError { field, value: value.chars().take(40).collect(), expected }
}

impl Feed {
    fn finish(self, feed: String) -> FeedReport {
        let days = self.days.finish();
        FeedReport {
            feed,
            products: self.products,
            bytes: self.bytes,
            silences: self.silences.finish(days.days.len()),
            sizes: self.sizes.finish(),
            tree: self.tree.tree(),
            access_links: self.tree.access_links(days.peak_minute_bytes()),
            links: self.tree.pairs(),
            minutes: self.days.minutes,
            days,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "\
Oct 13 00:00:00 a.up.example b.leaf.example(feed)[9] NOTE: topo: b.leaf.example {{X, (.*)}}
Oct 13 00:00:01 c.leaf.example a.up.example[1] INFO: 600 20101013000001.000 X 001  one
Oct 13 00:00:01 c.leaf.example a.up.example[1] INFO: 400 20101013000001.500 X 002  two
nonsense
Oct 13 00:10:00 c.leaf.example a.up.example[1] INFO: 7000 20101014001001.500 X 003  three
";

    fn report(log: &str) -> Report {
        let mut analysis = Analysis::new(5);
        analysis.read(log.as_bytes()).unwrap();
        analysis.finish()
    }

    #[test]
    fn a_small_log_has_these_figures() {
        let report = report(LOG);
        assert_eq!(report.lines, Lines { products: 3, links: 1, other: 0, wrong: 1 });
        assert_eq!((report.wrong[0].line, report.wrong[0].error.value.as_str()), (4, "nonsense"));
        let feed = &report.feeds[0];
        assert_eq!((feed.feed.as_str(), feed.products, feed.bytes), ("X", 3, 8000));
        let days: Vec<_> = feed.days.days.iter().map(|day| (day.day.as_str(), day.bytes)).collect();
        assert_eq!(days, [("2010-10-13", 1000), ("2010-10-14", 7000)]);
        assert_eq!((feed.silences.intervals, feed.silences.over_1_s, feed.silences.over_300_s), (2, 1, 1));
        assert_eq!(feed.silences.longest_seconds, 87_000.0);
        assert_eq!(
            (feed.tree.nodes, feed.tree.roots, feed.tree.leaves, feed.tree.maximum_fanout),
            (3, 1, 2, 2)
        );
        // Two receivers. The busiest minutes of the two days have 1000 and 7000 bytes.
        assert_eq!(feed.access_links[0].peak_bps, 2.0 * 4000.0 * 8.0 / 60.0);
    }

    #[test]
    fn a_compressed_log_has_the_figures_of_the_whole_one() {
        let small = LOG.replace("20101014001001.500", "20101013001431.000"); // 870 s = 87,000 s / 100 after the first.
        let sizes = small.replace(" 600 ", " 6 ").replace(" 400 ", " 4 ").replace(" 7000 ", " 70 ");
        let whole = &report(LOG).feeds[0];
        let compressed = &report(&format!("# scales: time=100 size=100\n{sizes}")).feeds[0];
        assert_eq!((compressed.bytes, compressed.days.days.len()), (whole.bytes, whole.days.days.len()));
    }

    #[test]
    fn wrong_lines_are_passed_over_up_to_a_limit() {
        let mut analysis = Analysis::new(2);
        let error = analysis.read("a\nb\nc\n".as_bytes()).unwrap_err().to_string();
        assert_eq!(
            error,
            "more than 2 lines are wrong; the last one is line 3: the first word is \"c\": expected a month like Oct, a \
             time, or the size of a product"
        );
    }

    #[test]
    fn a_line_without_end_takes_no_memory_and_is_passed_over() {
        let log = format!("{}\n{LOG}", "x".repeat(100_000));
        let report = report(&log);
        assert_eq!((report.lines.wrong, report.lines.products), (2, 3));
        assert_eq!(report.wrong[0].error.value.len(), 40);
    }

    #[test]
    fn an_analysis_keeps_so_many_feeds_and_no_more() {
        let log: String = (0..70).map(|feed| format!("1 20101013000001.5 F{feed} 1 a\n")).collect();
        let mut analysis = Analysis::new(100);
        analysis.read(log.as_bytes()).unwrap();
        let report = analysis.finish();
        assert_eq!((report.feeds.len(), report.lines.wrong), (MAX_FEEDS, 6));
    }

    #[test]
    fn nothing_gives_an_empty_report() {
        let report = report("");
        assert_eq!((report.feeds.len(), report.lines), (0, Lines::default()));
    }
}
