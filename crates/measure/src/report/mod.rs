//! The report: one HTML file that opens offline, and its short form for a terminal.
//!
//! Its content comes from the results database. [`ReportInput`] adds what the database does not have.

mod generic;
mod headline;
mod html;
mod summary;

use serde::{Deserialize, Serialize};

use crate::{
    Db,
    db::{Result, Run, RunId},
    frame::Frame,
    paper::Papers,
    plot::{Plot, Styles, generic::PlotSpec},
};

pub use crate::claim::{Finding, Verdict};
pub use html::Page;

/// The parts of a report that the results database does not have.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ReportInput {
    /// The title, e.g. `One sender, twenty receivers, every way`.
    pub title: String,
    /// The command that repeats the experiment. If empty, the command of the last run.
    pub command: String,
    /// The runs to report on. If empty, all runs.
    #[serde(skip)]
    pub runs: Vec<RunId>,
    /// Drawings of the networks.
    pub pictures: Vec<Picture>,
    /// The claims of the experiment and their results.
    pub findings: Vec<Finding>,
    /// Sentences for the reader.
    pub notes: Vec<String>,
    /// The meanings of the names of networks, schedules and deliveries. Names that no shown run has are left out.
    pub names: Vec<Named>,
    /// The loss and delay of each network that has any, such as `L20: 5% loss at 20 nodes`.
    pub impairments: Vec<String>,
    /// The plots that the experiment's file asks for.
    pub plots: Vec<PlotSpec>,
    /// The papers whose figures are drawn in the plots.
    pub papers: Papers,
}

/// A name that runs have as the value of a parameter, and what it means.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Named {
    /// The parameter, such as `network`.
    pub parameter: String,
    /// Its value, or a word of it.
    pub name: String,
    pub meaning: String,
}

/// An SVG drawing of a network.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Picture {
    /// The network's name in the runs. The picture is in the section of this name.
    pub network: String,
    pub svg: String,
}

/// A rendered report.
#[derive(Debug, Clone)]
pub struct Report {
    /// The file `report.html`.
    pub html: String,
    /// The plots of the report, each for a file of its own.
    pub plots: Vec<Plot>,
}

/// Renders the report on `input.runs`.
pub fn render(db: &Db, input: &ReportInput) -> Result<Report> {
    let (runs, frame) = load(db, input)?;
    let mut page = html::Page::new(Styles::new(generic::names(&frame, input)));
    summary::write_head(&mut page, &runs, &frame, input);
    generic::write_plots(&mut page, &frame, input, db);
    summary::write_claims(&mut page, &runs, &frame, input);
    generic::write_tables(&mut page, &runs, &frame, input);
    Ok(page.finish(&input.title))
}

/// The report in short, for a terminal: the means of each cell, and the results in sentences.
pub fn to_text(db: &Db, input: &ReportInput) -> Result<String> {
    let (_, frame) = load(db, input)?;
    let sentences = headline::sentences(&frame).into_iter().map(|sentence| format!("{sentence}\n"));
    Ok(format!("{}{}", generic::to_text(&frame), sentences.collect::<String>()))
}

fn load(db: &Db, input: &ReportInput) -> Result<(Vec<Run>, Frame)> {
    let wanted = |run: &Run| input.runs.is_empty() || input.runs.contains(&run.id);
    let runs: Vec<Run> = db.runs()?.into_iter().filter(wanted).collect();
    Ok((runs, Frame::load(db, &input.runs)?))
}
