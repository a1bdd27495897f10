//! `treecast rib`.

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Subcommand;
use serde::Serialize;
use treecast_rib::{
    Family,
    analysis::growth,
    delegations::Delegations,
    input::{Input, InputError, read_file},
    page::{Findings, render, tables},
    report::{self, Analysed, FileReport},
    store::{self, StoreError, tables::Content},
    synth::{self, Answers, Format, Known, KnownChanges, Model, Spec, differences},
};

use crate::{Outcome, arguments::counted};

/// Analyse routing tables of the Internet: stubs, providers, and what would shrink the tables
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Read(ReadArgs),
    Report(ReportArgs),
    Compare(CompareArgs),
    Growth(GrowthArgs),
    Ownership(OwnershipArgs),
    Synth(SynthArgs),
}

/// Read routing tables, updates, relations between ASes and delegations into a database, or into Parquet files
#[derive(clap::Args)]
struct ReadArgs {
    /// MRT files, files of relations between ASes, or delegations of registries; packed by gzip, bzip2 or xz, or not
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// The SQLite file to write. A folder, or a name with a slash at its end, gets Parquet files instead. What was
    /// there of other days is kept
    #[arg(long, default_value = "rib.db")]
    out: PathBuf,
    /// Replace a table of the same time that the database holds
    #[arg(long)]
    replace: bool,
    #[command(flatten)]
    common: Common,
}

/// Report on routing tables: stubs and providers, PI and PA, table 6.1, equation 6.1
#[derive(clap::Args)]
struct ReportArgs {
    /// What `rib read` wrote, or files that it reads. `rib.db@2015-09-22` is one day of a database or folder
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Write a page with all tables and figures. They are those of the paper, also those over several tables
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Check every figure against this known.json. It is of `rib synth`; name its tables and delegations as files
    #[arg(long, value_name = "FILE")]
    known: Option<PathBuf>,
    #[command(flatten)]
    common: Common,
}

/// Compare two tables a month apart: which stubs changed providers (table 5.2, figure 5.4)
#[derive(clap::Args)]
struct CompareArgs {
    /// The earlier table
    earlier: PathBuf,
    /// The later table
    later: PathBuf,
    #[command(flatten)]
    common: Common,
}

/// Show how the number of ASes, stubs and providers grew (figure 5.3)
#[derive(clap::Args)]
struct GrowthArgs {
    /// Routing tables and files of relations, in any order
    #[arg(required = true)]
    files: Vec<PathBuf>,
    #[command(flatten)]
    common: Common,
}

/// Show who holds the prefixes that ASes announce
#[derive(clap::Args)]
struct OwnershipArgs {
    /// Routing tables, and at least one file of delegations
    #[arg(required = true)]
    files: Vec<PathBuf>,
    #[command(flatten)]
    common: Common,
}

/// Make a synthetic internet with known answers: two tables a month apart, delegations, and known.json
#[derive(clap::Args)]
struct SynthArgs {
    /// The folder to write
    #[arg(long, default_value = "synthetic")]
    out: PathBuf,
    /// The number of ASes. The default sizes are those of table 6.1
    #[arg(long, default_value_t = Spec::default().ases)]
    ases: usize,
    /// The number of stubs among them
    #[arg(long, default_value_t = Spec::default().stubs)]
    stubs: usize,
    /// The number of prefixes
    #[arg(long, default_value_t = Spec::default().prefixes)]
    prefixes: usize,
    /// Routers that feed the collector
    #[arg(long, default_value_t = Spec::default().peers)]
    peers: usize,
    /// The same seed makes the same internet
    #[arg(long, default_value_t = Spec::default().seed)]
    seed: u64,
    /// Make IPv6 prefixes, and not IPv4 ones
    #[arg(long)]
    ipv6: bool,
    /// The format of the tables
    #[arg(long, value_enum, default_value_t = TableFormat::TableDumpV2)]
    format: TableFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum TableFormat {
    /// One record for a prefix
    TableDumpV2,
    /// One record for a route, with ASNs of 2 octets
    TableDump,
    /// An update for each route
    Bgp4mp,
}

#[derive(clap::Args)]
struct Common {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// The number of threads that read a file. 0: as many as there are cores
    #[arg(long, default_value_t = 0, value_name = "N")]
    threads: usize,
}

pub fn run(args: Args) -> Outcome {
    match args.command {
        Command::Read(args) => read(&args),
        Command::Report(args) => report(&args),
        Command::Compare(args) => compare(&args).map(|()| ExitCode::SUCCESS),
        Command::Growth(args) => growth(&args),
        Command::Ownership(args) => ownership(&args),
        Command::Synth(args) => synth(&args).map(|()| ExitCode::SUCCESS),
    }
}

type Done<T = ()> = Result<T, Box<dyn std::error::Error>>;

/// What a file held that was read, for JSON and for a line.
#[derive(Serialize)]
struct ReadLine {
    file: String,
    kind: &'static str,
    time: String,
    /// Routes, pairs of ASes, or delegations.
    items: u64,
    faults: u64,
}

/// Reads each file. One that cannot be used does not keep the others from being read: it is named, and the exit code is 3.
fn read(args: &ReadArgs) -> Outcome {
    let mut left_out = 0;
    for path in &args.files {
        match read_one(path, args) {
            Ok(()) => {}
            Err(error) if args.files.len() == 1 => return Err(error),
            Err(error) => {
                left_out += 1;
                remark!("treecast: {error}");
            }
        }
    }
    let (all, out) = (args.files.len(), args.out.display());
    match left_out {
        0 => Ok(ExitCode::SUCCESS),
        left_out if left_out == all => Err(format!("{out}: nothing was added, for the reasons above").into()),
        left_out => {
            let were = if left_out == 1 { "was" } else { "were" };
            let of = counted(all, "file");
            remark!("treecast: {out}: {left_out} of {of} {were} not added, for the reasons above");
            Ok(ExitCode::from(3))
        }
    }
}

fn read_one(path: &Path, args: &ReadArgs) -> Done {
    let content = read_file(path, args.common.threads)?;
    // Opened for each file, so that a wrong file among many leaves those before it.
    let mut store = store::create(&args.out)?;
    store.add(&content, args.replace).map_err(|error| match error {
        error @ StoreError::AlreadyThere { .. } if args.files.len() > 1 => {
            format!("{}: not added: {error}", path.display()).into()
        }
        error => Box::<dyn std::error::Error>::from(error),
    })?;
    let items = match &content {
        Content::Dump(dump) => dump.entries(),
        Content::Relations(relations) => relations.pairs.len() as u64,
        Content::Delegations(delegations) => delegations.all.len() as u64,
    };
    let line = ReadLine {
        file: content.file().into(),
        kind: content.kind(),
        time: treecast_rib::date::time(content.time()),
        items,
        faults: content.faults().errors(),
    };
    if args.common.json {
        say!("{}", serde_json::to_string(&line)?);
        return Ok(());
    }
    let what = match line.kind {
        "table" | "updates" => "routes",
        "relations" => "pairs of ASes",
        _ => "delegations",
    };
    say!("{}: {} of {}, {} {what}", line.file, line.kind, line.time, tables::number(items));
    if let Some(table) = tables::faults(content.faults()) {
        say!("{}", table.to_text().trim_end());
    }
    Ok(())
}

/// The files that a person named, opened, and the delegations among them, which the analysis of a table needs.
struct Opened {
    inputs: Vec<Input>,
    delegations: Vec<Delegations>,
    threads: usize,
    named: usize,
    /// The number of files that could not be used.
    left_out: usize,
}

impl Opened {
    fn new(files: &[PathBuf], common: &Common) -> Done<Self> {
        let (threads, named) = (common.threads, files.len());
        let mut opened = Self { inputs: Vec::new(), delegations: Vec::new(), threads, named, left_out: 0 };
        for file in files {
            match Input::open(file) {
                Ok(input) => opened.inputs.push(input),
                Err(error) => opened.leave_out(error)?,
            }
        }
        let mut delegations = Vec::new();
        opened.each("delegations", |content| {
            if let Content::Delegations(found) = content {
                delegations.push(found);
            }
        })?;
        Ok(Self { delegations, ..opened })
    }

    /// Hands each content of a kind to `take`, one after the other, so that only one is in memory at a time. `table` stands for
    /// updates, too. A file among several that cannot be read is named, and the others are read.
    fn each(&mut self, kind: &str, mut take: impl FnMut(Content)) -> Done {
        let wants = |found: &str| found == kind || (kind, found) == ("table", "updates");
        let inputs = std::mem::take(&mut self.inputs);
        for input in &inputs {
            let read = input.each::<InputError>(self.threads, wants, |content| {
                take(content);
                Ok(())
            });
            read.or_else(|error| self.leave_out(error))?;
        }
        self.inputs = inputs;
        Ok(())
    }

    /// Analyses one table after the other.
    fn each_analysed(&mut self, mut take: impl FnMut(Analysed)) -> Done {
        let delegations = std::mem::take(&mut self.delegations);
        self.each("table", |content| {
            if let Content::Dump(dump) = content {
                take(report::analyse(&dump, &delegations));
            }
        })?;
        self.delegations = delegations;
        Ok(())
    }

    /// The points of the files of relations.
    fn relation_points(&mut self) -> Done<Vec<growth::Point>> {
        let mut points = Vec::new();
        self.each("relations", |content| {
            let Content::Relations(relations) = content else { return };
            if relations.faults.errors() > 0 {
                remark!("treecast: {}: some lines are left out: {}", relations.file, relations.faults);
            }
            points.push(growth::of_relations(&relations));
        })?;
        Ok(points)
    }

    fn leave_out(&mut self, error: InputError) -> Done {
        if self.named == 1 {
            return Err(error.into());
        }
        self.left_out += 1;
        remark!("treecast: {error}");
        if self.left_out == self.named {
            return Err("none of these files can be used, for the reasons above".into());
        }
        Ok(())
    }

    /// The exit code at the end: 3 if a file was left out.
    fn outcome(&self) -> Outcome {
        if self.left_out == 0 {
            return Ok(ExitCode::SUCCESS);
        }
        let were = if self.left_out == 1 { "was" } else { "were" };
        let of = counted(self.named, "file");
        remark!("treecast: {} of {of} {were} left out, for the reasons above", self.left_out);
        Ok(ExitCode::from(3))
    }
}

fn report(args: &ReportArgs) -> Outcome {
    let mut opened = Opened::new(&args.files, &args.common)?;
    let mut findings = Findings { points: opened.relation_points()?, ..Findings::default() };
    let mut before: Option<Analysed> = None;
    opened.each_analysed(|analysed| {
        let neighbour = before.as_ref().filter(|before| before.report.synthetic == analysed.report.synthetic);
        let mut file = analysed.report.clone();
        match neighbour.map(|before| report::comparisons(before, &analysed)) {
            Some(Ok(comparisons)) => findings.comparisons.extend(comparisons),
            Some(Err(why)) => file.warnings.push(format!("Not compared with the table before: {why}.")),
            None => {}
        }
        findings.files.push(file);
        findings.points.extend(analysed.points.iter().cloned());
        before = Some(analysed);
    })?;
    growth::sort(&mut findings.points);
    if let Some(path) = &args.html {
        fs::write(path, render(&findings).html).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    tell(args, &findings)?;
    opened.outcome()
}

/// Prints what was found, or checks it.
fn tell(args: &ReportArgs, findings: &Findings) -> Done {
    if let Some(path) = &args.known {
        return check(path, findings);
    }
    if args.common.json {
        return print_json(&findings.files);
    }
    if findings.files.is_empty() && args.html.is_none() {
        return Err("no routing table is among these files: `treecast rib growth` shows relations, and \
             `treecast rib ownership` delegations beside a table"
            .into());
    }
    findings.files.iter().for_each(print_file);
    if let Some(path) = &args.html {
        say!("page: {}", path.display());
    }
    Ok(())
}

/// Prints all tables on a file.
fn print_file(file: &FileReport) {
    say!("{}", tables::overview(file).to_text());
    for family in &file.families {
        for table in [
            tables::table_6_1(family, file.synthetic),
            tables::homing(family),
            tables::sizes(family),
            tables::global_table(family, file.synthetic),
            tables::equation(family, file.synthetic),
        ] {
            say!("{}", table.to_text());
        }
    }
    if let Some(table) = tables::faults(&file.faults) {
        say!("{}", table.to_text());
    }
}

/// Compares what was found in the tables of `rib synth` with what is known. Fails if anything differs.
fn check(path: &Path, findings: &Findings) -> Done {
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let text = fs::read_to_string(path).map_err(|error| failed(&error))?;
    let answers: Answers = serde_json::from_str(&text).map_err(|error| failed(&error))?;
    let (mut equal, mut different) = (0, Vec::new());
    let mut add = |name: &str, (same, others): (usize, Vec<String>)| {
        equal += same;
        different.extend(others.into_iter().map(|line| format!("{name}: {line}")));
    };
    for (known, file) in answers.tables.iter().zip(&findings.files) {
        let found = Known::found(file).ok_or_else(|| format!("{}: it is not of one family", file.file))?;
        add(&file.file, differences(known, &found));
    }
    for comparison in &findings.comparisons {
        add("changes", differences(&answers.changes, &KnownChanges::found(&comparison.changes)));
    }
    if findings.files.len() != 2 || findings.comparisons.len() != 1 {
        return Err(
            "--known needs both tables of `treecast rib synth`, the earlier first, and its delegations"
                .into(),
        );
    }
    different.iter().for_each(|line| say!("{line}"));
    say!(
        "{} figures are as known, {} differ",
        tables::number(equal as u64),
        tables::number(different.len() as u64)
    );
    match different.len() {
        0 => Ok(()),
        count => Err(format!("{count} figures differ from {}", path.display()).into()),
    }
}

fn synth(args: &SynthArgs) -> Done {
    let family = if args.ipv6 { Family::V6 } else { Family::V4 };
    let &SynthArgs { ases, stubs, prefixes, peers, seed, .. } = args;
    let model = Model::new(Spec { family, ases, stubs, prefixes, peers, seed })?;
    let format = match args.format {
        TableFormat::TableDumpV2 => Format::TableDumpV2,
        TableFormat::TableDump => Format::TableDump,
        TableFormat::Bgp4mp => Format::Bgp4mp,
    };
    let folder = &args.out;
    let (answers, names) =
        synth::make(&model, format, folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    for (name, known) in names.iter().zip(&answers.tables) {
        let [entries, ases] = [known.entries, known.ases].map(tables::number);
        say!("{}: {entries} entries of {ases} ASes", folder.join(name).display());
    }
    say!("{}: who holds the providers' prefixes", folder.join(synth::DELEGATIONS).display());
    say!("{}: what the analysis must find", folder.join(synth::KNOWN).display());
    Ok(())
}

fn compare(args: &CompareArgs) -> Done {
    let one = |path: &Path| -> Done<Analysed> {
        let mut found = Vec::new();
        Opened::new(&[path.to_owned()], &args.common)?.each_analysed(|analysed| found.push(analysed))?;
        let days: Vec<String> = found.iter().map(|one| one.report.time.clone()).collect();
        match (found.len(), found.pop()) {
            (1, Some(analysed)) => Ok(analysed),
            (0, _) => Err(format!("{}: it holds no routing table", path.display()).into()),
            _ => Err(format!(
                "{}: it holds several tables ({}): name one of them by its day, as in {}@2015-09-22",
                path.display(),
                days.join(", "),
                path.display()
            )
            .into()),
        }
    };
    let comparisons = report::comparisons(&one(&args.earlier)?, &one(&args.later)?)?;
    if args.common.json {
        return print_json(&comparisons);
    }
    say!("{}", tables::table_5_2(&comparisons).to_text());
    say!("{}", tables::figure_5_4(&comparisons).to_text().trim_end());
    Ok(())
}

fn growth(args: &GrowthArgs) -> Outcome {
    let mut opened = Opened::new(&args.files, &args.common)?;
    let mut points = opened.relation_points()?;
    opened.each_analysed(|analysed| points.extend(analysed.points))?;
    growth::sort(&mut points);
    match args.common.json {
        true => print_json(&points)?,
        false => say!("{}", tables::figure_5_3(&points).to_text().trim_end()),
    }
    opened.outcome()
}

fn ownership(args: &OwnershipArgs) -> Outcome {
    let mut opened = Opened::new(&args.files, &args.common)?;
    if opened.delegations.is_empty() {
        return Err(
            "no delegations are among these files: name a registry's file, such as delegated-apnic-latest"
                .into(),
        );
    }
    let mut files = Vec::new();
    opened.each_analysed(|analysed| files.push(analysed.report))?;
    if files.is_empty() {
        return Err("no routing table is among these files: name one beside the delegations".into());
    }
    if args.common.json {
        print_json(&files)?;
        return opened.outcome();
    }
    for file in &files {
        say!("{}", tables::overview(file).to_text());
        for (family, found) in
            file.families.iter().filter_map(|family| Some((family, family.ownership.as_ref()?)))
        {
            say!("{}", tables::ownership(found, file.synthetic).to_text());
            say!("{}", tables::global_table(family, file.synthetic).to_text().trim_end());
        }
    }
    opened.outcome()
}

/// Prints an object if there is one, and otherwise a list of them.
fn print_json<T: Serialize>(all: &[T]) -> Done {
    match all {
        [one] => say!("{}", serde_json::to_string(one)?),
        all => say!("{}", serde_json::to_string(all)?),
    }
    Ok(())
}
