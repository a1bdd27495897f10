//! The report: one HTML file that opens without a network, and its short form for a terminal.
//!
//! All that it says comes from the results database, but for what [`ReportInput`] adds.

mod events;
mod feeds;
mod generic;
mod headline;
mod html;
mod paper;
mod sections;
mod sharing;
mod summary;
mod transport;
mod use_case;

use crate::{
    Db,
    analysis::{self, Results},
    db::{Result, RunId},
    frame::Frame,
    paper::Papers,
    plot::{Plot, Styles, generic::PlotSpec},
    tables,
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
    let results = Results::load(db, &input.runs)?;
    let frame = generic_runs(db, &results)?;
    let mut styles = generic::names(&frame, input);
    styles.extend(results.use_cases.iter().map(|run| run.info.delivery.clone()));
    let mut page = html::Page::new(Styles::new(styles));
    summary::write(&mut page, &results, &frame, input)?;
    generic::write(&mut page, &frame, input, db);
    feeds::write(&mut page, &results);
    sharing::write(&mut page, &results, input);
    use_case::write(&mut page, &results);
    transport::write(&mut page, &results)?;
    sections::write(&mut page, &results, input)?;
    Ok(page.finish(&input.title))
}

/// The runs that are parameters and rows.
fn generic_runs(db: &Db, results: &Results<'_>) -> Result<Frame> {
    let runs: Vec<RunId> = results.generic.iter().map(|data| data.run.id).collect();
    if runs.is_empty() { Ok(Frame::default()) } else { Frame::load(db, &runs) }
}

/// The tables of run times and of what the servers sent, for a terminal.
pub fn to_text(db: &Db, input: &ReportInput) -> Result<String> {
    let results = Results::load(db, &input.runs)?;
    let mut text = generic::to_text(&generic_runs(db, &results)?);
    let feeds = results.feed_rows();
    if !feeds.is_empty() {
        text += &feeds::table(&feeds).to_text();
        text += "\n";
    }
    if !results.sharings.is_empty() {
        text += &sharing::table(&results.sharings).to_text();
        text += "\n";
    }
    let of_use_cases = use_case::tables(&analysis::use_case_rows(&results.use_cases));
    for table in of_use_cases.iter().filter_map(|table| table.tidied()) {
        text += &table.to_text();
        text += "\n";
    }
    if results.runs.is_empty() && !text.is_empty() {
        return Ok(text);
    }
    if let Some(table) = transport::to_text(&results) {
        text += &table;
        text += "\n";
    }
    for table in tables::run_time_tables(&results) {
        text += &table.to_text();
        text += "\n";
    }
    text += &tables::server_bytes_table(&results)?.to_text();
    text += "\n";
    for sentence in summary::sentences(&results)? {
        text += &sentence;
        text += "\n";
    }
    Ok(text)
}
