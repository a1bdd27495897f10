//! `treecast monitor`.

use std::{
    ffi::OsString,
    io::{self, BufWriter, Write},
    ops::ControlFlow,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use treecast_host::quantity::times;
use treecast_measure::{
    monitor::{self, Digest, Ending, Exit, MonitorError, Observed, Options, Recording, Report},
    sample::Reading,
    series::{self, Counter},
};

use crate::{Outcome, figures::bytes, output};

/// Record what this machine, its interfaces and a program use
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    record: RecordArgs,
}

#[derive(clap::Subcommand)]
enum Command {
    Show(ShowArgs),
}

#[derive(clap::Args)]
struct RecordArgs {
    /// The time between two samples. From 10ms to 60m
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = times(Duration::from_millis(10)..=Duration::from_secs(3600)), allow_hyphen_values = true)]
    every: Duration,
    /// Record into this file, which must not exist; without it, samples go to the terminal
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Sample this interface (may be repeated) [default: all except the loopback]
    #[arg(long, value_name = "IF")]
    interface: Vec<String>,
    /// Print each sample as a line of JSON
    #[arg(long, conflicts_with = "out")]
    json: bool,
    /// A program to start and sample until it ends; its exit code becomes the monitor's
    #[arg(last = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

/// Show a recording
#[derive(clap::Args)]
struct ShowArgs {
    /// The file that `treecast monitor --out` recorded
    file: PathBuf,
    /// Print a line for each sample, with the value of every series
    #[arg(long, group = "format")]
    csv: bool,
    /// Print SQL statements that add the recording to a database, e.g. for sqlite3
    #[arg(long, group = "format")]
    sql: bool,
    /// Print one JSON object a line
    #[arg(long, group = "format")]
    json: bool,
}

pub fn run(args: Args) -> Outcome {
    if let Some(Command::Show(args)) = args.command { show(&args) } else { record(args.record) }
}

fn record(args: RecordArgs) -> Outcome {
    let json = args.json;
    let to_terminal = args.out.is_none();
    let options = Options {
        every: args.every,
        out: args.out,
        interfaces: args.interface,
        program: args.program,
        treecast_version: env!("CARGO_PKG_VERSION").into(),
    };
    let mut screen = Screen::default();
    let report = monitor::run(&options, &mut |observed| {
        match (to_terminal, json) {
            (true, true) => print_json(&observed),
            (true, false) => screen.print(&observed),
            (false, _) => {}
        }
        if output::is_unread() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    summarise(&report, options.out.as_deref());
    Ok(match report.program.map(|program| program.exit) {
        None => ExitCode::SUCCESS,
        Some(Exit::Code(code)) => ExitCode::from(code as u8),
        // The exit code is the one that a shell would report.
        Some(Exit::Signal(signal)) => ExitCode::from(128 + signal as u8),
    })
}

fn summarise(report: &Report, out: Option<&Path>) {
    if let Some(end) = report.program {
        remark!(
            "program: {:.3} s, CPU {:.3} s user and {:.3} s system, peak memory {:.1} MiB, {}",
            end.elapsed.as_secs_f64(),
            end.cpu_user.as_secs_f64(),
            end.cpu_system.as_secs_f64(),
            mib(end.peak_memory_bytes as i64),
            end.exit
        );
    }
    let recorded = match out {
        Some(path) => format!(", {} in {}", bytes(report.recorded_bytes), path.display()),
        None => String::new(),
    };
    remark!(
        "monitor: {} samples in {:.3} s{recorded}; own cost {:.3} % of a processor, {:.1} MiB",
        report.samples,
        report.elapsed.as_secs_f64(),
        report.own_load() * 100.0,
        mib(report.own_memory_bytes as i64),
    );
}

/// Prints a line for each sample, for a person.
#[derive(Default)]
struct Screen {
    lines: u64,
    last: Option<(Duration, Vec<Reading>)>,
}

impl Screen {
    fn print(&mut self, observed: &Observed<'_>) {
        const HEADING_EVERY: u64 = 20;
        if self.lines.is_multiple_of(HEADING_EVERY) {
            say!("    TIME   LOAD   USER %    SYS %   MEM MiB  SWAP MiB RX Mbit/s TX Mbit/s   DROPS");
        }
        self.lines += 1;
        let now = observed.readings;
        let (elapsed, before) = match &self.last {
            Some((at, before)) => (observed.at.saturating_sub(*at).as_secs_f64(), &before[..]),
            None => (0.0, now),
        };
        let growth = |counts: &dyn Fn(&str) -> bool| (sum(now, counts) - sum(before, counts)) as f64;
        let per_second =
            |counts: &dyn Fn(&str) -> bool| if elapsed > 0.0 { growth(counts) / elapsed } else { 0.0 };
        let interfaces = |wanted: Counter| {
            move |name: &str| series::parse_interface(name).is_some_and(|(_, counter)| counter == wanted)
        };
        let drops = growth(&interfaces(Counter::RxDrops)) + growth(&interfaces(Counter::TxDrops));
        say!(
            "{:8.1} {:6.2} {:8.1} {:8.1} {:9.0} {:9.0} {:9.3} {:9.3} {:7.0}",
            observed.at.as_secs_f64(),
            value(now, series::LOAD_ONE_MINUTE_MILLI) as f64 / 1000.0,
            per_second(&|name| name == series::CPU_USER_NS) / 1e7,
            per_second(&|name| name == series::CPU_SYSTEM_NS) / 1e7,
            mib(value(now, series::MEMORY_USED_BYTES)),
            mib(value(now, series::SWAP_USED_BYTES)),
            per_second(&interfaces(Counter::RxBytes)) * 8.0 / 1e6,
            per_second(&interfaces(Counter::TxBytes)) * 8.0 / 1e6,
            drops,
        );
        self.last = Some((observed.at, now.to_vec()));
    }
}

fn print_json(observed: &Observed<'_>) {
    let mut object = serde_json::Map::new();
    object.insert("seconds".into(), observed.at.as_secs_f64().into());
    object.extend(observed.readings.iter().map(|reading| (reading.name.to_string(), reading.value.into())));
    say!("{}", serde_json::Value::Object(object));
}

fn sum(readings: &[Reading], counts: &dyn Fn(&str) -> bool) -> i64 {
    readings.iter().filter(|reading| counts(&reading.name)).map(|reading| reading.value).sum()
}

fn value(readings: &[Reading], name: &str) -> i64 {
    sum(readings, &|other| other == name)
}

fn mib(bytes: i64) -> f64 {
    bytes as f64 / (1 << 20) as f64
}

fn show(args: &ShowArgs) -> Outcome {
    let recording = Recording::open(&args.file)?;
    let mut to = BufWriter::new(io::stdout().lock());
    let shown = match args {
        ShowArgs { csv: true, .. } => monitor::csv(&recording, &mut to),
        ShowArgs { sql: true, .. } => monitor::sql(&recording, &mut to),
        ShowArgs { json: true, .. } => monitor::json(&recording, &mut to),
        _ => show_table(&recording, &mut to),
    };
    match shown {
        // The table itself says this.
        Ok(()) if recording.ending == Ending::CutShort && (args.csv || args.sql || args.json) => {
            remark!("treecast: {} was cut short; every sample before that is whole", args.file.display());
        }
        Ok(()) => {}
        // The reader has gone, which is no error.
        Err(MonitorError::Export(e)) if e.kind() == io::ErrorKind::BrokenPipe => {}
        Err(e) => return Err(e.into()),
    }
    Ok(ExitCode::SUCCESS)
}

fn show_table(recording: &Recording, to: &mut impl Write) -> Result<(), MonitorError> {
    let table = Digest::of(recording)?.table();
    to.write_all(table.to_text().as_bytes()).and_then(|()| to.flush()).map_err(MonitorError::Export)
}
