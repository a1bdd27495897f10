//! Structured logs on standard error: `--log LEVEL` or `TREECAST_LOG`, as text or as JSON lines.
//!
//! Without them, the messages of a session go to its display, and only other warnings are logged. With them,
//! the display uses standard output only, and the lines that it would have printed to standard error become log
//! events.
//!
//! Other crates log what they find wrong with packets, and anybody can send packets. So their events are left out, except at the level
//! `trace`.

use std::{
    io::{self, Write},
    sync::OnceLock,
};

use clap::ValueEnum;
use tracing_subscriber::{
    filter::{LevelFilter, Targets},
    fmt,
    layer::SubscriberExt,
    util::SubscriberInitExt,
};

use crate::output;

/// Set if logs were asked for. They then replace the lines on standard error.
static IS_ON: OnceLock<()> = OnceLock::new();

const VARIABLE: &str = "TREECAST_LOG";

#[derive(clap::Args)]
pub struct Args {
    /// Log what happens to standard error, in place of other lines there [default: TREECAST_LOG, else none]. Only trace also shows what
    /// the libraries log that treecast is built with
    #[arg(long, global = true, value_parser = LEVELS, value_name = "LEVEL")]
    log: Option<String>,
    /// The format of logs
    #[arg(long, global = true, value_enum, value_name = "FORMAT", default_value = "text")]
    log_format: Format,
}

/// The levels, as [`LevelFilter`] reads them.
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Format {
    Text,
    Json,
}

/// Starts to log.
///
/// # Errors
/// One line, if the value of `TREECAST_LOG` is wrong.
pub(crate) fn start(args: &Args) -> Result<(), String> {
    let named = args.log.as_ref().and_then(|level| level.parse().ok());
    let asked = if named.is_some() { named } else { from_environment()? };
    let filter = match asked {
        Some(level) => {
            // A second call changes nothing.
            _ = IS_ON.set(());
            // A stranger's packet may make another crate log a line. Whoever asks for a trace wants that, too.
            let others = if level == LevelFilter::TRACE { level } else { LevelFilter::OFF };
            own(level).with_default(others)
        }
        None => own(LevelFilter::WARN).with_target(treecast::unstable::watch::LOG_TARGET, LevelFilter::OFF),
    };
    let layer = fmt::layer().log_internal_errors(false);
    let registry = tracing_subscriber::registry().with(filter);
    let result = match args.log_format {
        Format::Text => {
            registry.with(layer.with_writer(|| Escaping(output::ErrorLog)).with_ansi(false)).try_init()
        }
        Format::Json => {
            registry.with(layer.with_writer(|| output::ErrorLog).json().flatten_event(true)).try_init()
        }
    };
    result.map_err(|error| format!("cannot log: {error}"))
}

/// Lets events of treecast's crates pass, whose names begin alike, and no others.
fn own(level: LevelFilter) -> Targets {
    Targets::new().with_target("treecast", level)
}

/// A writer that escapes control characters in log lines, because names in them may contain anything. Each call
/// brings whole events.
struct Escaping<W>(W);

impl<W: Write> Write for Escaping<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for line in String::from_utf8_lossy(bytes).split_inclusive('\n') {
            let (text, end) = line.strip_suffix('\n').map_or((line, ""), |text| (text, "\n"));
            self.0.write_all(format!("{}{end}", output::in_one_line(text)).as_bytes())?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Whether lines for people are logged instead of printed.
pub(crate) fn is_on() -> bool {
    IS_ON.get().is_some()
}

fn from_environment() -> Result<Option<LevelFilter>, String> {
    let Some(text) = std::env::var_os(VARIABLE).filter(|text| !text.is_empty()) else { return Ok(None) };
    let named = text.to_str().map(str::to_lowercase).filter(|level| LEVELS.contains(&&**level));
    let level = named.and_then(|level| level.parse().ok());
    let expected = "set it to off, error, warn, info, debug or trace";
    level.map(Some).ok_or_else(|| format!("{VARIABLE} is {text:?}, which is no level: {expected}"))
}
