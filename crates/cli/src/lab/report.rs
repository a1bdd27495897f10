//! The report of an experiment, now or again later.
//!
//! What the results database does not have (the title, the claims, the networks' shapes) is kept beside it.

use std::{
    error::Error,
    fs,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use treecast_lab::{
    Topology,
    experiment::{Experiment, Finding, Results},
    svg,
};
use treecast_measure::{
    Db,
    plot::Plot,
    report::{self, Picture, ReportInput},
};

pub const DATABASE: &str = "results.sqlite";
const KEPT: &str = "experiment.json";
const REPORT: &str = "report.html";

/// What is kept beside the database.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Kept {
    title: String,
    command: String,
    findings: Vec<Finding>,
    notes: Vec<String>,
    networks: Vec<KeptNetwork>,
}

#[derive(Debug, Serialize, Deserialize)]
struct KeptNetwork {
    name: String,
    topology: String,
}

impl Kept {
    pub fn of(experiment: &Experiment, command: &str, results: &Results) -> Self {
        let networks = experiment
            .networks
            .iter()
            .map(|network| KeptNetwork { name: network.name.clone(), topology: network.topology.clone() });
        Self {
            title: experiment.title.clone(),
            command: command.into(),
            findings: results.findings.clone(),
            notes: results.left_out.iter().map(|line| format!("Left out: {line}.")).collect(),
            networks: networks.collect(),
        }
    }

    /// Keeps this in `folder`, beside the database.
    pub fn save(&self, folder: &Path) -> Result<(), Box<dyn Error>> {
        let path = folder.join(KEPT);
        let text = serde_json::to_string_pretty(self)?;
        fs::write(&path, text).map_err(|error| format!("cannot write {}: {error}", path.display()).into())
    }

    /// What was kept in `folder`; of results that came about otherwise there is only their name.
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
        let finding = |finding: &Finding| report::Finding {
            says: finding.says.clone(),
            measured: finding.measured(),
            limit: finding.limit(),
            holds: finding.holds,
        };
        ReportInput {
            title: self.title.clone(),
            command: self.command.clone(),
            findings: self.findings.iter().map(finding).collect(),
            notes: self.notes.clone(),
            pictures: self.networks.iter().filter_map(KeptNetwork::picture).collect(),
            ..ReportInput::default()
        }
    }
}

impl KeptNetwork {
    /// None when the topology was in a file that is gone.
    fn picture(&self) -> Option<Picture> {
        let topology = Topology::parse(&self.topology).ok()?;
        Some(Picture { topology: self.name.clone(), svg: svg(&topology, &self.name) })
    }
}

/// Writes the report of the results in `folder`. Returns where it is, and its short form for a terminal.
pub fn write(folder: &Path, kept: &Kept) -> Result<(PathBuf, String), Box<dyn Error>> {
    let path = folder.join(REPORT);
    let db = Db::open(&folder.join(DATABASE))?;
    let input = kept.input();
    let report = report::render(&db, &input)?;
    fs::write(&path, report.html).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    write_plots(&folder.join("plots"), &report.plots)?;
    Ok((path, report::to_text(&db, &input)?))
}

/// Writes each plot as a file of its own, for a talk or a paper.
fn write_plots(folder: &Path, plots: &[Plot]) -> Result<(), Box<dyn Error>> {
    let failed = |error| format!("cannot write the plots into {}: {error}", folder.display());
    fs::create_dir_all(folder).map_err(failed)?;
    for plot in plots {
        fs::write(folder.join(format!("{}.svg", plot.name)), &plot.svg).map_err(failed)?;
    }
    Ok(())
}
