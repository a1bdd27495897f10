//! `treecast feed`: sends feeds of data products, and analyses them.

mod live;
mod rules;
mod store;

use std::{
    fs::{self, File},
    io::{self, BufReader, BufWriter, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Subcommand;
use treecast_feed::{
    analysis::{Analysis, Report},
    line::{Product, Scale},
    plots, synth, tables,
};
use treecast_measure::date;
use treecast_proto::random::SplitMix64;

use crate::{Outcome, arguments::counted, figures};

/// Send the files that come into a folder, or analyse feeds of data products.
///
/// `treecast feed DIR` sends each file that is there, and each that comes, once, until it is stopped. It goes on where it was when
/// it is started again. All options of `treecast send` for a session are here, too.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    live: live::LiveArgs,
}

#[derive(Subcommand)]
enum Command {
    Analyze(AnalyzeArgs),
    Store(store::StoreArgs),
    Synth(SynthArgs),
}

/// The first day of synthetic logs, which is the first one of the paper's logs of CONDUIT.
const FIRST_DAY: &str = "2010-10-13";

/// The longest synthetic log, in days.
const MAX_DAYS: i64 = 31;

/// Characterise feeds by LDM logs: volume by day and minute, peaks, silences, sizes, feed tree, load of access links
#[derive(clap::Args)]
struct AnalyzeArgs {
    /// Logs of ldmd, notifyme or pqact, in the order of their times; or - for standard input
    #[arg(required = true)]
    logs: Vec<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Write plots (SVG) into this folder
    #[arg(long, value_name = "DIR")]
    plots: Option<PathBuf>,
    /// Pass over up to this many wrong lines
    #[arg(long, value_name = "N", default_value_t = 1000)]
    wrong_lines: u64,
}

/// Make an LDM log, and objects, whose analysis gives the paper's figures of a feed
#[derive(clap::Args)]
struct SynthArgs {
    /// The feed. A day of CONDUIT has 1.6 million products of 38 kB; one of NEXRAD2 has 81,240 of 700 kB
    feed: Kind,
    /// The folder for the log and the objects
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// The length of the log, in days
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=MAX_DAYS))]
    days: u32,
    /// The seed of everything that is drawn. The same seed makes the same files
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Compress times by this factor: with 24, a day takes an hour
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    time_scale: u32,
    /// Divide sizes by this number
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    size_scale: u32,
    /// Write the first N products as files, too
    #[arg(long, value_name = "N", default_value_t = 0)]
    objects: u64,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Kind {
    Conduit,
    Nexrad2,
}

pub fn run(args: Args) -> Outcome {
    match args.command {
        None => return live::run(args.live),
        Some(Command::Store(args)) => return store::run(&args),
        Some(Command::Analyze(args)) => analyze(&args),
        Some(Command::Synth(args)) => synthesize(&args),
    }
    .map(|()| ExitCode::SUCCESS)
}

type Done<T = ()> = Result<T, Box<dyn std::error::Error>>;

fn analyze(args: &AnalyzeArgs) -> Done {
    let mut analysis = Analysis::new(args.wrong_lines);
    for log in &args.logs {
        read(&mut analysis, log)?;
    }
    let report = analysis.finish();
    if report.feeds.is_empty() {
        let logs = args.logs.iter().map(|log| log.display().to_string()).collect::<Vec<_>>().join(", ");
        return Err(format!("{logs}: no line names a product: run ldmd or notifyme with -v").into());
    }
    let written = args.plots.as_deref().map_or(Ok(Vec::new()), |folder| write_plots(&report, folder))?;
    if args.json {
        say!("{}", serde_json::to_string(&report)?);
        return Ok(());
    }
    for feed in &report.feeds {
        tables::feed(feed).iter().for_each(|table| say!("{}", table.to_text()));
    }
    tables::wrong_lines(&report).iter().for_each(|table| say!("{}", table.to_text()));
    written.iter().for_each(|path| say!("plot: {}", path.display()));
    Ok(())
}

fn read(analysis: &mut Analysis, log: &Path) -> Done {
    let read = if log.as_os_str() == "-" {
        analysis.read(io::stdin().lock())
    } else {
        let file = File::open(log).map_err(|error| format!("{}: {error}: check the name", log.display()))?;
        analysis.read(BufReader::with_capacity(1 << 20, file))
    };
    read.map_err(|error| format!("{}: {error}", log.display()).into())
}

fn write_plots(report: &Report, folder: &Path) -> Done<Vec<PathBuf>> {
    let failed = |path: &Path, error: io::Error| format!("cannot write {}: {error}", path.display());
    fs::create_dir_all(folder).map_err(|error| failed(folder, error))?;
    let mut written = Vec::new();
    for plot in report.feeds.iter().flat_map(plots::plots) {
        for (ending, text) in [("svg", plot.svg), ("csv", plot.csv)] {
            if text.is_empty() {
                continue;
            }
            let path = folder.join(format!("{}.{ending}", plot.name));
            fs::write(&path, text).map_err(|error| failed(&path, error))?;
            written.push(path);
        }
    }
    Ok(written)
}

fn synthesize(args: &SynthArgs) -> Done {
    let kind = match args.feed {
        Kind::Conduit => synth::Kind::Conduit,
        Kind::Nexrad2 => synth::Kind::Nexrad2,
    };
    let objects = args.out.join("objects");
    let folder = if args.objects > 0 { &objects } else { &args.out };
    fs::create_dir_all(folder)
        .map_err(|error| format!("cannot make {}: {error}: check --out", folder.display()))?;
    let path = args.out.join(format!("{}.log", kind.feed()));
    let failed = |error: io::Error| format!("cannot write {}: {error}: check --out", path.display());
    let mut log = BufWriter::with_capacity(1 << 20, File::create(&path).map_err(failed)?);
    let written = write_log(args, kind, &mut log, &objects).and_then(|written| {
        log.flush()?;
        Ok(written)
    });
    let (products, bytes) = written.map_err(failed)?;
    let size = figures::bytes(bytes);
    say!("log: {}: {}, {size}", path.display(), counted(products as usize, "product"));
    if args.objects > 0 {
        let files = counted(args.objects.min(products) as usize, "file");
        say!("objects: {}: {files}", objects.display());
    }
    Ok(())
}

/// Writes the lines of a log, and the files of its first products. Returns the number of products and their bytes.
fn write_log(
    args: &SynthArgs,
    kind: synth::Kind,
    log: &mut impl Write,
    objects: &Path,
) -> io::Result<(u64, u64)> {
    let scale = Scale { time: args.time_scale, size: args.size_scale };
    if scale != Scale::default() {
        writeln!(log, "{scale}")?;
    }
    let start = date::parse(FIRST_DAY).expect("it is a day");
    let start_us = start * 1_000_000;
    synth::links(kind, |link| writeln!(log, "{}", link.line(start_us)))?;
    let (mut products, mut bytes) = (0, 0);
    synth::products(kind, start, args.days, args.seed, |product| {
        let size_bytes = product.size_bytes / u64::from(scale.size);
        let at_us = start_us + (product.at_us - start_us) / i64::from(scale.time);
        let product = Product { at_us, size_bytes, ..product };
        writeln!(log, "{product}")?;
        if products < args.objects {
            let name = objects.join(product.identifier.replace('/', "-"));
            fs::write(name, SplitMix64(args.seed ^ products).bytes(size_bytes as usize))?;
        }
        (products, bytes) = (products + 1, bytes + size_bytes);
        io::Result::Ok(())
    })?;
    Ok((products, bytes))
}
