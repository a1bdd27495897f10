//! The report: one HTML file that opens without a network, and its short form for a terminal.
//!
//! All that it says comes from the results database, but for what [`ReportInput`] adds.

mod generic;
mod headline;
mod html;
mod summary;

use crate::{
    Db,
    db::{Result, Run, RunId},
    frame::Frame,
    paper::Papers,
    plot::{Plot, Styles, generic::PlotSpec},
};

pub use crate::claim::{Finding, Verdict};

/// What a report says that the results database does not.
#[derive(Debug, Clone, Default)]
pub struct ReportInput {
    /// What was done, e.g. `One sender, twenty receivers, every way`.
    pub title: String,
    /// The command that repeats it; when empty, that of the last run.
    pub command: String,
    /// The runs to report on; when empty, all.
    pub runs: Vec<RunId>,
    /// Drawings of the networks.
    pub pictures: Vec<Picture>,
    /// What the experiment set out to show, and what came of it.
    pub findings: Vec<Finding>,
    /// Sentences for the reader.
    pub notes: Vec<String>,
    /// The loss and delay of each network that has any, such as `L20: 5% loss at 20 nodes`.
    pub impairments: Vec<String>,
    /// The plots that the experiment's file asks for.
    pub plots: Vec<PlotSpec>,
    /// The papers whose figures are drawn in them.
    pub papers: Papers,
}

/// An SVG drawing of a network.
#[derive(Debug, Clone)]
pub struct Picture {
    /// The network's name as the runs have it: the picture stands in its section.
    pub topology: String,
    pub svg: String,
}

/// A rendered report.
#[derive(Debug, Clone)]
pub struct Report {
    /// The file `report.html`.
    pub html: String,
    /// The plots in it, each for a file of its own.
    pub plots: Vec<Plot>,
}

/// The report on `input.runs`.
pub fn render(db: &Db, input: &ReportInput) -> Result<Report> {
    let (runs, frame) = load(db, input)?;
    let mut page = html::Page::new(Styles::new(generic::names(&frame, input)));
    summary::write(&mut page, &runs, &frame, input);
    generic::write(&mut page, &frame, input, db);
    Ok(page.finish(&input.title))
}

/// The report in short, for a terminal: the means of each cell, and the result in sentences.
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
