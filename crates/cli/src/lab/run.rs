//! `treecast lab run` and `treecast lab report`.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    process::ExitCode,
};

use serde_json::json;
use treecast_experiment::{self as experiment, Experiment, Lab, Order, Place, Preview, Results, Simulator};
use treecast_host::{folder, stop::Stop};
use treecast_measure::{Db, claim::Verdict, report::ReportInput};

use super::{
    progress::Progress,
    report::{self, DATABASE},
    summary,
};
use crate::{
    Outcome,
    fleet::{self, AtFleet},
};

/// Run an experiment: every delivery, over every network, with every schedule, measured
///
/// Exit code 0: every client has what it was to get, treecast refused no run, and no claim of the file fails;
/// 3: one of these is not so; 1: the experiment could not be run.
#[derive(clap::Args)]
pub struct RunArgs {
    #[command(flatten)]
    common: Common,
    /// lab, or fleet:SELECTION
    #[arg(long, value_name = "SITE", default_value = "lab")]
    site: String,
    #[command(flatten)]
    way: fleet::Way,
}

// What `lab run` and `sim run` have in common. (A doc comment here would be the help text of both.)
#[derive(clap::Args)]
pub struct Common {
    /// The experiment (TOML; labs/README.md describes it)
    file: PathBuf,
    /// Folder for results.sqlite and report.html [default: out/NAME-OF-FILE]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Replace a setting of the file, such as repeats=2. Others are file=PATH and sizes=32M,128M
    #[arg(long = "set", value_name = "KEY=VALUE")]
    settings: Vec<String>,
    /// Add to the results in DIR, instead of renaming them
    #[arg(long)]
    append: bool,
    /// List the runs and estimate how long they take; run nothing
    #[arg(long)]
    plan: bool,
    /// Print one JSON event a line
    #[arg(long)]
    json: bool,
}

/// Run an experiment in virtual time: the same file, results and report as `lab run`, without root and from a seed
///
/// The protocol machines of real sessions run in a simulated network. The same file and seed give the same results. docs/simulator.md
/// says what the simulator has, and how its runs compare with those of a lab. Exit codes are those of `lab run`.
#[derive(clap::Args)]
pub struct SimulateArgs {
    #[command(flatten)]
    common: Common,
    /// Draw all randomness from this number. It takes the place of the file's `seed`
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

/// Write report.html again, from the results of an experiment
#[derive(clap::Args)]
pub struct ReportArgs {
    /// The folder that `lab run` or `sim run` wrote to
    dir: PathBuf,
}

/// Find the highest rate, or number of hosts, at which a network loses nothing
///
/// FILE is an experiment with a workload of kind "load" and a search (labs/README.md). Every trial is told with what gave in: a cable,
/// a host or this machine. Beside each threshold stands what the links allow. Exit codes are those of `lab run`.
#[derive(clap::Args)]
pub struct ThresholdArgs {
    #[command(flatten)]
    common: Common,
}

/// The exit code of an experiment that ran, if a copy is missing, a run was refused, or a claim failed.
const NOT_ALL_WELL: u8 = 3;

pub fn run(RunArgs { common, site, way }: RunArgs) -> Outcome {
    match (site.as_str(), site.strip_prefix("fleet:")) {
        ("lab", _) => run_in_lab(&common),
        (_, Some(select)) => over_fleet(&common, select, &way),
        _ => Err(format!("--site {site}: take lab, or fleet:SELECTION such as fleet:all").into()),
    }
}

fn run_in_lab(common: &Common) -> Outcome {
    let experiment = Experiment::load(&common.file, &common.settings)?;
    let command = command("lab", common, None);
    run_at(&Lab, common, experiment, command)
}

pub fn threshold(ThresholdArgs { common }: ThresholdArgs) -> Outcome {
    let experiment = Experiment::load(&common.file, &common.settings)?;
    if !experiment.searches() {
        let file = common.file.display();
        return Err(format!(
            "{file} searches no threshold: give it a workload of kind \"load\" with `search`, or take `treecast lab run`"
        )
        .into());
    }
    run_in_lab(&common)
}

pub fn simulate(SimulateArgs { common, seed }: SimulateArgs) -> Outcome {
    let mut experiment = Experiment::load(&common.file, &common.settings)?;
    experiment.habits.seed = seed.unwrap_or(experiment.habits.seed);
    let command = command("sim", &common, seed);
    run_at(&Simulator, &common, experiment, command)
}

fn run_at(place: &dyn Place, args: &Common, experiment: Experiment, command: String) -> Outcome {
    if args.plan {
        return show_plan(&experiment::preview(place, &experiment)?, args.json);
    }
    let (name, out) = names(args);
    // This is checked before anything is written.
    experiment::check(place, &experiment)?;
    let _claim = claim(&out)?;
    let database = prepare(&out, args.append)?;
    let order = Order {
        experiment,
        name,
        database,
        treecast: std::env::current_exe()?,
        version: env!("CARGO_PKG_VERSION").into(),
        command,
    };
    let stop = Stop::on_signals()?;
    let progress = Progress::new(args.json);
    let results = experiment::run(place, &order, &|event| progress.show(event), &|| stop.is_requested())?;
    progress.finish();
    conclude(&report::input(&order.experiment, &order.command, &results), &out, &results, args.json)
}

/// Runs an experiment on hosts of a fleet. Its manager makes the runs, and goes on when this command is killed.
fn over_fleet(args: &Common, select: &str, way: &fleet::Way) -> Outcome {
    let (name, out) = names(args);
    let experiment = Experiment::load(&args.file, &args.settings)?;
    let fleet = AtFleet { file: &args.file, settings: &args.settings, name: &name, select, way };
    if args.plan {
        return show_plan(&fleet.plan()?, args.json);
    }
    if args.append {
        return Err(
            "--append: results of a fleet are not added to others; name another folder with --out".into()
        );
    }
    let _claim = claim(&out)?;
    let database = prepare(&out, false)?;
    let results = fleet.run(&database, args.json)?;
    let command = format!("{} --site {}", command("lab", args, None), quoted(&format!("fleet:{select}")));
    conclude(&report::input(&experiment, &command, &results), &out, &results, args.json)
}

/// The name of the results, and their folder.
fn names(args: &Common) -> (String, PathBuf) {
    let name = args.file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let out = args.out.clone().unwrap_or_else(|| Path::new("out").join(&name));
    (name, out)
}

fn show_plan(preview: &Preview, json: bool) -> Outcome {
    match json {
        true => say!("{}", json!(preview)),
        false => summary::print_preview(preview),
    }
    Ok(ExitCode::SUCCESS)
}

pub fn report(args: ReportArgs) -> Outcome {
    let database = args.dir.join(DATABASE);
    if !database.is_file() {
        return Err(format!(
            "{} is not there: name the folder that `treecast lab run` wrote to",
            database.display()
        )
        .into());
    }
    let (report, text) = report::write(&args.dir, &report::load(&args.dir)?)?;
    say!("{text}\n{}", report.display());
    Ok(ExitCode::SUCCESS)
}

fn conclude(input: &ReportInput, out: &Path, results: &Results, json: bool) -> Outcome {
    report::save(input, out)?;
    let (report, text) = report::write(out, input)?;
    if json {
        say!("{}", json!(summary::Done { results, report: &report }));
    } else {
        say!("{text}");
        summary::print(results, &report);
    }
    let fails = results.findings.iter().any(|finding| finding.verdict == Verdict::Fails);
    let well = results.failures.is_empty() && results.refused.is_empty() && !fails;
    Ok(if well && !results.interrupted { ExitCode::SUCCESS } else { ExitCode::from(NOT_ALL_WELL) })
}

/// Makes the folder for the results. Other experiments cannot use it while the returned file is open.
fn claim(out: &Path) -> Result<File, Box<dyn std::error::Error>> {
    fs::create_dir_all(out).map_err(cannot_keep(out))?;
    folder::claim(out).map_err(cannot_keep(out))?.ok_or_else(|| {
        let advice = "wait until it has ended, or name another folder with --out";
        format!("another `treecast lab run` keeps its results in {}: {advice}", out.display()).into()
    })
}

/// Prepares the path of the results database. Earlier results are renamed, unless the new ones are added to
/// them.
fn prepare(out: &Path, append: bool) -> Result<PathBuf, Box<dyn std::error::Error>> {
    let database = out.join(DATABASE);
    if database.exists() && !append {
        // The database is opened and closed, so that its journal is merged into it before the file is renamed.
        drop(Db::open(&database)?);
        let aside = (1..).map(|n| out.join(format!("results-{n}.sqlite"))).find(|path| !path.exists());
        fs::rename(&database, aside.unwrap_or_else(|| out.join("results-0.sqlite")))
            .map_err(cannot_keep(out))?;
    }
    Ok(database)
}

fn cannot_keep(out: &Path) -> impl Fn(io::Error) -> String {
    let advice = "name a folder that you may write to with --out";
    move |error| format!("cannot keep results in {}: {error}; {advice}", out.display())
}

/// The command that repeats the experiment.
fn command(verb: &str, args: &Common, seed: Option<u64>) -> String {
    let mut words = vec![format!("treecast {verb} run"), quoted(&args.file.display().to_string())];
    words.extend(args.settings.iter().map(|setting| format!("--set {}", quoted(setting))));
    words.extend(seed.map(|seed| format!("--seed {seed}")));
    words.extend(args.out.iter().map(|out| format!("--out {}", quoted(&out.display().to_string()))));
    words.join(" ")
}

/// Quotes a word for a shell, if that is needed.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@%+".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_experiments_do_not_share_a_folder() {
        let out = std::env::temp_dir().join(format!("treecast-claim-{}", std::process::id()));
        let first = claim(&out).unwrap();
        let said = claim(&out).unwrap_err().to_string();
        assert!(said.starts_with("another `treecast lab run` keeps its results in"), "{said}");
        drop(first);
        drop(claim(&out).unwrap());
        fs::remove_dir(&out).unwrap();
    }

    #[test]
    fn the_command_that_repeats_an_experiment_has_all_its_options() {
        let args = Common {
            file: "labs/demo.toml".into(),
            out: Some("out/two words".into()),
            settings: vec!["repeats=2".into(), "file=it's".into()],
            append: false,
            plan: false,
            json: true,
        };
        let options = r"labs/demo.toml --set repeats=2 --set 'file=it'\''s'";
        let expected = format!("treecast lab run {options} --out 'out/two words'");
        assert_eq!(command("lab", &args, None), expected);
        let expected = format!("treecast sim run {options} --seed 7 --out 'out/two words'");
        assert_eq!(command("sim", &args, Some(7)), expected);
    }
}
