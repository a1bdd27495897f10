//! The report of an experiment, written after its runs or again later.
//!
//! The results database does not contain everything that a report needs. The title, the claims and the shapes
//! of the networks are kept in a file beside it.

use std::{
    error::Error,
    fs,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use treecast_experiment::{Experiment, Network, Results};
use treecast_lab::svg;
use treecast_measure::{
    Db,
    claim::Finding,
    paper::Papers,
    plot::{Plot, generic::PlotSpec},
    report::{self, Picture, ReportInput},
};

pub const DATABASE: &str = "results.sqlite";
const KEPT: &str = "experiment.json";
const REPORT: &str = "report.html";

/// The parts of a report that are kept in a file beside the database.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Kept {
    title: String,
    command: String,
    findings: Vec<Finding>,
    notes: Vec<String>,
    pictures: Vec<KeptPicture>,
    /// Each network with loss or delay, in words. Empty for results of versions that did not keep this.
    #[serde(default)]
    impairments: Vec<String>,
    #[serde(default)]
    plots: Vec<PlotSpec>,
    #[serde(default)]
    papers: Papers,
}

#[derive(Debug, Serialize, Deserialize)]
struct KeptPicture {
    network: String,
    svg: String,
}

impl Kept {
    pub fn of(experiment: &Experiment, command: &str, results: &Results) -> Self {
        Self {
            title: experiment.title.clone(),
            command: command.into(),
            findings: results.findings.clone(),
            notes: results.left_out.iter().map(|line| format!("Left out: {line}.")).collect(),
            pictures: pictures(experiment),
            impairments: impairments(experiment),
            plots: experiment.shows.plots.clone(),
            papers: experiment.shows.papers.clone(),
        }
    }

    /// Writes this to a file in `folder`, beside the database.
    pub fn save(&self, folder: &Path) -> Result<(), Box<dyn Error>> {
        let path = folder.join(KEPT);
        let text = serde_json::to_string_pretty(self)?;
        fs::write(&path, text).map_err(|error| format!("cannot write {}: {error}", path.display()).into())
    }

    /// Reads the file in `folder`. If there is none, the result contains only the folder's name.
    pub fn load(folder: &Path) -> Result<Self, Box<dyn Error>> {
        let path = folder.join(KEPT);
        if !path.exists() {
            let title = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
            return Ok(Self { title, ..Self::default() });
        }
        let text = fs::read_to_string(&path)?;
        serde_json::from_str(&text).map_err(|error| format!("{} is damaged: {error}", path.display()).into())
    }

    fn input(&self) -> ReportInput {
        ReportInput {
            title: self.title.clone(),
            command: self.command.clone(),
            findings: self.findings.clone(),
            notes: self.notes.clone(),
            impairments: self.impairments.clone(),
            pictures: self.pictures.iter().map(KeptPicture::to_picture).collect(),
            plots: self.plots.clone(),
            papers: self.papers.clone(),
            ..ReportInput::default()
        }
    }
}

impl KeptPicture {
    fn to_picture(&self) -> Picture {
        Picture { topology: self.network.clone(), svg: self.svg.clone() }
    }
}

fn pictures(experiment: &Experiment) -> Vec<KeptPicture> {
    let networks = experiment.networks.iter();
    // A network that could be built can be drawn.
    let drawn = networks.filter_map(|network| Some((&network.name, network.build().ok()?)));
    drawn.map(|(name, topology)| KeptPicture { network: name.clone(), svg: svg(&topology, name) }).collect()
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
pub fn write(folder: &Path, kept: &Kept) -> Result<(PathBuf, String), Box<dyn Error>> {
    let path = folder.join(REPORT);
    let db = Db::open(&folder.join(DATABASE))?;
    let input = kept.input();
    let report = report::render(&db, &input)?;
    fs::write(&path, report.html).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    write_plots(&folder.join("plots"), &report.plots)?;
    Ok((path, report::to_text(&db, &input)?))
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
