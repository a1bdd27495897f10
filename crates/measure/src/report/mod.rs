//! The report: one HTML file that opens without a network, and its short form for a terminal.
//!
//! All that it says comes from the results database, but for what [`ReportInput`] adds.

mod events;
mod feeds;
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
    plot::Plot,
    tables,
};

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
}

/// An SVG drawing of a network.
#[derive(Debug, Clone)]
pub struct Picture {
    /// The network's name as the runs have it: the picture stands in its section.
    pub topology: String,
    pub svg: String,
}

/// Something that an experiment set out to show.
#[derive(Debug, Clone)]
pub struct Finding {
    pub says: String,
    /// What was measured, with its unit, e.g. `1.04 times`.
    pub measured: String,
    /// What it had to be, e.g. `at most 1.15 times`.
    pub limit: String,
    pub holds: bool,
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
    let mut page = html::Page::default();
    summary::write(&mut page, &results, input)?;
    feeds::write(&mut page, &results);
    sharing::write(&mut page, &results, input);
    use_case::write(&mut page, &results);
    transport::write(&mut page, &results)?;
    sections::write(&mut page, &results, input)?;
    Ok(page.finish(&input.title))
}

/// The tables of run times and of what the servers sent, for a terminal.
pub fn to_text(db: &Db, input: &ReportInput) -> Result<String> {
    let results = Results::load(db, &input.runs)?;
    let mut text = String::new();
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
    for table in of_use_cases.iter().filter(|table| !table.rows.is_empty()) {
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
