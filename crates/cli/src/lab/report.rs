//! The report of an experiment, written after its runs or again later.
//!
//! The results database does not contain everything that a report needs. The title, the claims and the shapes
//! of the networks are kept in a file beside it.

use std::{
    error::Error,
    fs,
    path::{Path, PathBuf},
};

use treecast_experiment::{Experiment, Network, Results};
use treecast_lab::svg;
use treecast_measure::{
    Db,
    plot::Plot,
    report::{self, Picture, ReportInput},
};

pub const DATABASE: &str = "results.sqlite";
const KEPT: &str = "experiment.json";
const REPORT: &str = "report.html";

/// The parts of a report that are kept in a file beside the database.
pub fn input(experiment: &Experiment, command: &str, results: &Results) -> ReportInput {
    ReportInput {
        title: experiment.title.clone(),
        command: command.into(),
        findings: results.findings.clone(),
        notes: results.left_out.iter().map(|line| format!("Left out: {line}.")).collect(),
        pictures: pictures(experiment),
        impairments: impairments(experiment),
        plots: experiment.shows.plots.clone(),
        papers: experiment.shows.papers.clone(),
        ..ReportInput::default()
    }
}

/// Writes it to a file in `folder`, beside the database.
pub fn save(input: &ReportInput, folder: &Path) -> Result<(), Box<dyn Error>> {
    let path = folder.join(KEPT);
    let text = serde_json::to_string_pretty(input)?;
    fs::write(&path, text).map_err(|error| format!("cannot write {}: {error}", path.display()).into())
}

/// Reads the file in `folder`. If there is none, the report only has the folder's name.
pub fn load(folder: &Path) -> Result<ReportInput, Box<dyn Error>> {
    let path = folder.join(KEPT);
    if !path.exists() {
        let title = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        return Ok(ReportInput { title, ..ReportInput::default() });
    }
    let text = fs::read_to_string(&path)?;
    serde_json::from_str(&text).map_err(|error| format!("{} is damaged: {error}", path.display()).into())
}

fn pictures(experiment: &Experiment) -> Vec<Picture> {
    let networks = experiment.networks.iter();
    // A network that could be built can be drawn.
    let drawn = networks.filter_map(|network| Some((&network.name, network.build().ok()?)));
    drawn.map(|(name, topology)| Picture { network: name.clone(), svg: svg(&topology, name) }).collect()
}

/// Describes each network that has loss or delay.
fn impairments(experiment: &Experiment) -> Vec<String> {
    let told = |network: &Network| {
        let impairments = network.impairments().ok().filter(|list| !list.is_empty())?;
        Some(format!("{}: {}", network.name, impairments.join(", ")))
    };
    experiment.networks.iter().filter_map(told).collect()
}

/// Writes the report of the results in `folder`. Returns the report's path, and a short form for a terminal.
pub fn write(folder: &Path, input: &ReportInput) -> Result<(PathBuf, String), Box<dyn Error>> {
    let path = folder.join(REPORT);
    let db = Db::open(&folder.join(DATABASE))?;
    let report = report::render(&db, input)?;
    fs::write(&path, report.html).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    write_plots(&folder.join("plots"), &report.plots)?;
    Ok((path, report::to_text(&db, input)?))
}

/// Writes each plot to a file of its own, for a talk or a paper.
fn write_plots(folder: &Path, plots: &[Plot]) -> Result<(), Box<dyn Error>> {
    let failed = |error| format!("cannot write the plots into {}: {error}", folder.display());
    fs::create_dir_all(folder).map_err(failed)?;
    for plot in plots {
        fs::write(folder.join(format!("{}.svg", plot.name)), &plot.svg).map_err(failed)?;
    }
    Ok(())
}
