//! The parts of a report for runs of any kind: the plots from the experiment's file, a table for each measure,
//! and the refused runs.

use super::{ReportInput, html::Page};
use crate::{
    Db,
    claim::conditions,
    db::Run,
    expression::Condition,
    frame::{Frame, FrameRun, REFUSED},
    plot::{
        NARROW, Plot, WIDTH,
        generic::{Drawing, PlotSpec, draw},
    },
    statistics::Summary,
    tables::{Cell, Mark, Scale, Table, quantity, three_digits},
    words::{parameter_in_words, value_in_words},
};

/// The number of plots of one kind that are shown. Further plots are folded.
const MOST_SHOWN: usize = 4;
/// The number of columns of the short table for a terminal.
const MOST_MEASURES: usize = 6;

/// The measures that most readers look for. They come first in the short table.
const FIRST: [&str; 10] = [
    "time",
    "robustness",
    "throughput",
    "share",
    "used",
    "lost",
    "missing",
    "silence",
    "sender_bytes",
    "network_bytes",
];

/// The names of all series that have a colour in the plots.
pub fn names(frame: &Frame, input: &ReportInput) -> Vec<String> {
    let mut parameters = vec!["delivery"];
    parameters.extend(input.plots.iter().filter_map(|spec| spec.series.as_deref()));
    let value = |name: &str, run: &FrameRun| run.parameters.get(name).cloned();
    let values = |name| frame.runs.iter().filter_map(move |run| value(name, run));
    let of_plots = input.plots.iter().flat_map(PlotSpec::coloured_series).map(str::to_owned);
    parameters.into_iter().flat_map(values).chain(of_plots).collect()
}

/// Writes the plots.
pub fn write_plots(page: &mut Page, frame: &Frame, input: &ReportInput, db: &Db) {
    let styles = page.styles().clone();
    // A run that was cut short, such as one that is made again at a lower rate, is in no plot.
    let complete = Frame { runs: frame.runs.iter().filter(|run| run.is_complete).cloned().collect() };
    let drawing =
        Drawing { frame: &complete, papers: &input.papers, styles: &styles, series: db, width: WIDTH };
    page.section("What was measured", "");
    let has_several_sites = complete.has_several_sites();
    for spec in &input.plots {
        let mut spec = spec.clone();
        let names = [&spec.x, &spec.series, &spec.rows].map(Option::as_ref);
        if has_several_sites && !names.into_iter().flatten().chain(&spec.each).any(|name| name == "site") {
            spec.each.push("site".into());
        }
        let spec = &spec;
        let drawn = draw(spec, drawing);
        if drawn.is_empty() {
            let cells: Vec<String> = conditions(&spec.cells).iter().map(ToString::to_string).collect();
            let of = if cells.is_empty() { String::new() } else { format!(" with {}", cells.join(", ")) };
            page.paragraph(&format!("{}: not drawn: no run{of} has values for it.", spec.title));
        }
        let mut plots: Vec<(Plot, Option<Plot>)> = Vec::new();
        for (plot, narrow) in drawn.into_iter().zip(draw(spec, Drawing { width: NARROW, ..drawing })) {
            match plot {
                Ok(plot) => plots.push((plot, narrow.ok())),
                Err(why) => page.paragraph(&why),
            }
        }
        let others = plots.split_off(plots.len().min(MOST_SHOWN));
        plots.into_iter().for_each(|(plot, narrow)| page.plot(plot, narrow));
        page.folded(&format!("Plots: {}, for other values", spec.title), |page| {
            others.into_iter().for_each(|(plot, narrow)| page.plot(plot, narrow));
        });
    }
    page.end_section();
}

/// Writes refusals, tables and the pictures of the networks.
pub fn write_tables(page: &mut Page, runs: &[Run], frame: &Frame, input: &ReportInput) {
    if frame.runs.is_empty() {
        return;
    }
    page.section("All values", "");
    refused(frame).iter().for_each(|table| page.table(table));
    let tables: Vec<Table> =
        frame.measures().iter().filter_map(|(name, unit)| table(frame, name, unit)).collect();
    page.folded_tables(&format!("Tables: all {} measures, by cell", tables.len()), &tables);
    page.folded_tables(&format!("Table: all {} runs", frame.runs.len()), &[all_runs(runs, frame)]);
    page.end_section();
    page.section("Networks", "");
    for picture in &input.pictures {
        page.picture(&picture.svg, &format!("The network {}", picture.network));
    }
    page.end_section();
}

/// A sentence that says how many copies came, and whether all did. `None` if the runs had no copies.
pub fn copies(frame: &Frame) -> Option<(bool, String)> {
    let is_copy = |run: &&FrameRun| run.is_complete && run.refused().is_none() && !is_stream(run);
    let rows =
        || frame.runs.iter().filter(is_copy).flat_map(|run| &run.rows).filter(|row| row.node.is_some());
    let times: Vec<_> = rows().filter(|row| row.measure == "time").collect();
    let (expected, came) = (times.len(), times.iter().filter(|row| row.value.is_some()).count());
    // A receiver without repair ends in time, whatever it lacks.
    let lacking = rows().filter(|row| row.measure == "missing" && row.value > Some(0.0)).count();
    match expected {
        0 => None,
        _ if came == expected && lacking == 0 => Some((true, format!("All {expected} copies came whole."))),
        _ if came == expected => Some((
            true,
            format!(
                "{} of {expected} copies came whole; {lacking} without repair lack something.",
                expected - lacking
            ),
        )),
        _ => Some((false, format!("{} of {expected} copies are missing or not whole.", expected - came))),
    }
}

/// The reasons why copies are missing, one line each. If there are more than a page can show, the rest is
/// counted.
pub fn failures(frame: &Frame) -> Vec<String> {
    const MOST: usize = 20;
    let mut lines: Vec<String> = Vec::new();
    for run in frame.runs.iter().filter(|run| run.is_complete && run.refused().is_none()) {
        let lacking = run.rows.iter().filter(|row| row.measure == "time" && row.value.is_none());
        lines.extend(lacking.map(|row| format!("Run {}: {}", run.id, row.note)));
    }
    let others = lines.len().saturating_sub(MOST);
    lines.truncate(MOST);
    lines.extend((others > 0).then(|| format!("... and {others} more.")));
    lines
}

/// The cells and their most important measures, as text for a terminal.
pub fn to_text(frame: &Frame) -> String {
    if frame.runs.is_empty() {
        return String::new();
    }
    let varying = varying(frame);
    let mut measures = frame.measures();
    // A mean over links says nothing.
    measures.retain(|(name, _)| name != REFUSED && name != "link_bytes");
    let rank =
        |(name, _): &(String, String)| FIRST.iter().position(|first| first == name).unwrap_or(FIRST.len());
    measures.sort_by_key(rank);
    measures.truncate(MOST_MEASURES);
    let scales: Vec<Option<Scale>> =
        measures.iter().map(|(name, unit)| Scale::of(unit, highest(frame, name))).collect();
    let heads = measures.iter().zip(&scales).map(|((name, unit), scale)| heading(name, unit, *scale));
    let names: Vec<String> = heads_of(&varying).chain(heads).collect();
    let is_simulated = frame.runs.iter().all(FrameRun::is_simulated);
    let of = if is_simulated { "simulated runs" } else { "runs" };
    let mut table = Table::new(format!("Means over all {of} of a cell"), &names);
    for cell in frame.cells(&varying, &[]) {
        let of_cell: Vec<&Condition> = cell.iter().collect();
        let numbers = measures.iter().zip(&scales).map(|((name, _), scale)| {
            let summary = Summary::of(&values(frame, &of_cell, name));
            Cell::from(summary.map_or("-".into(), |summary| scaled(summary.mean, *scale)))
        });
        table.rows.push(words(&cell).into_iter().map(Cell::from).chain(numbers).collect());
    }
    let refused: String = refused(frame).iter().map(|table| format!("\n{}", table.to_text())).collect();
    let copies = copies(frame).map(|(_, sentence)| format!("\n{sentence}\n")).unwrap_or_default();
    // A column of dashes is a measure that only refused runs have.
    format!("{}{refused}{copies}", table.tidied().unwrap_or(table).to_text())
}

/// The parameters that differ between runs. The seed and the number of the repetition do not count: runs that
/// differ in them alone are repetitions.
fn varying(frame: &Frame) -> Vec<String> {
    let vocabulary = frame.vocabulary();
    let names = vocabulary.parameters().into_iter().filter(|name| !["repeat", "seed"].contains(name));
    let mut names: Vec<String> = names
        .filter(|name| {
            let everywhere = vocabulary.cells.iter().all(|cell| cell.contains_key(*name));
            everywhere && vocabulary.values_of(name).len() > 1
        })
        .map(str::to_owned)
        .collect();
    if names.is_empty() {
        names.extend(vocabulary.has_parameter("delivery").then(|| "delivery".to_owned()));
    }
    // Parameters that determine others come first: the network, then the delivery.
    let rank = |name: &String| ["network", "delivery"].iter().position(|first| first == name).unwrap_or(2);
    names.sort_by_key(rank);
    // A parameter that repeats an earlier one is left out, such as the fanout, which the delivery determines.
    let mut kept: Vec<String> = Vec::new();
    for name in names {
        let with = [kept.clone(), vec![name.clone()]].concat();
        if kept.is_empty() || frame.cells(&with, &[]).len() > frame.cells(&kept, &[]).len() {
            kept = with;
        }
    }
    kept
}

fn words(cell: &[Condition]) -> Vec<String> {
    cell.iter().map(|condition| value_in_words(&condition.key, &condition.values[0])).collect()
}

/// The values of a measure in the complete runs of a cell.
fn values(frame: &Frame, cell: &[&Condition], measure: &str) -> Vec<f64> {
    let runs = frame.runs_that(cell).filter(|(_, run)| run.is_complete && run.refused().is_none());
    let rows = runs.flat_map(|(_, run)| run.rows.iter().filter(|row| row.measure == measure));
    rows.filter_map(|row| row.value).collect()
}

fn highest(frame: &Frame, measure: &str) -> f64 {
    values(frame, &[], measure).into_iter().map(f64::abs).fold(0.0, f64::max)
}

fn scaled(value: f64, scale: Option<Scale>) -> String {
    three_digits(value / scale.map_or(1.0, |scale| scale.factor))
}

fn heading(name: &str, unit: &str, scale: Option<Scale>) -> String {
    let unit = scale.map_or(unit, |scale| scale.unit);
    let name = name.replace('_', " ").to_uppercase();
    if unit.is_empty() { name } else { format!("{name}, {unit}") }
}

/// The headings of columns of parameters.
fn heads_of(parameters: &[impl AsRef<str>]) -> impl Iterator<Item = String> {
    parameters.iter().map(|name| format!("<{}", parameter_in_words(name.as_ref()).to_uppercase()))
}

/// The table of a measure by cell. `None` if no cell has a value.
fn table(frame: &Frame, measure: &str, unit: &str) -> Option<Table> {
    let varying = varying(frame);
    let scale = Scale::of(unit, highest(frame, measure));
    let columns = ["N", "MEAN", "SD", "± 95 %", "MIN", "MEDIAN", "MAX"].map(String::from);
    let names: Vec<String> = heads_of(&varying).chain(columns).collect();
    let title = match scale.map_or(unit, |scale| scale.unit) {
        "" => measure.replace('_', " "),
        unit => format!("{}, in {unit}", measure.replace('_', " ")),
    };
    let mut table = Table::new(title, &names);
    for cell in frame.cells(&varying, &[]) {
        let of_cell: Vec<&Condition> = cell.iter().collect();
        let Some(summary) = Summary::of(&values(frame, &of_cell, measure)) else { continue };
        let star = if frame.runs_that(&of_cell).any(|(_, run)| run.is_saturated) { " *" } else { "" };
        let spread = |value: f64| if summary.count > 1 { scaled(value, scale) } else { String::new() };
        let mut cells: Vec<Cell> = words(&cell).into_iter().map(Cell::from).collect();
        cells.push(format!("{}{star}", summary.count).into());
        cells.push(scaled(summary.mean, scale).into());
        cells.push(spread(summary.standard_deviation).into());
        cells.push(spread(summary.confidence_95).into());
        cells
            .extend([summary.min, summary.median, summary.max].map(|value| Cell::from(scaled(value, scale))));
        table.rows.push(cells);
    }
    (!table.rows.is_empty() && measure != REFUSED).then_some(table)
}

/// The table of the cells that treecast refused, with its reasons.
fn refused(frame: &Frame) -> Option<Table> {
    let varying = varying(frame);
    let names: Vec<String> = heads_of(&varying).chain(["<WHY".into()]).collect();
    let mut table = Table::new("Refused by the program", &names);
    for run in &frame.runs {
        let Some(words) = run.refused() else { continue };
        let value = |name: &String| value_in_words(name, run.parameters.get(name).map_or("", String::as_str));
        let cells: Vec<Cell> = varying.iter().map(value).chain([words.to_owned()]).map(Cell::from).collect();
        // Cells that differ only in the first parameter, such as the network, are one row.
        match table.rows.iter_mut().find(|row| row[1..] == cells[1..]) {
            Some(row) if varying.len() > 1 && !row[0].text.split(", ").any(|name| name == cells[0].text) => {
                row[0].text += &format!(", {}", cells[0].text);
            }
            Some(_) if varying.len() > 1 => {}
            _ => table.rows.push(cells),
        }
    }
    (!table.rows.is_empty()).then_some(table)
}

/// The number of copies of a run that came, of how many. Empty for a stream, which has no copies.
fn copies_of(run: &FrameRun) -> Cell {
    let times = || run.rows.iter().filter(|row| row.measure == "time" && row.node.is_some());
    match (times().filter(|row| row.value.is_some()).count(), times().count()) {
        _ if is_stream(run) => "".into(),
        (came, all) => {
            Cell::marked(format!("{came} of {all}"), if came == all { Mark::Plain } else { Mark::Warning })
        }
    }
}

fn is_stream(run: &FrameRun) -> bool {
    run.rows.iter().any(|row| row.measure == "latency_mean")
}

/// The table of every run: its parameters, its own seed, how long it took, how many copies came whole, and how it ended.
fn all_runs(runs: &[Run], frame: &Frame) -> Table {
    let vocabulary = frame.vocabulary();
    let parameters: Vec<&str> =
        vocabulary.parameters().into_iter().filter(|name| vocabulary.values_of(name).len() > 1).collect();
    let heads = heads_of(&parameters);
    let last = ["OWN SEED", "TOOK", "COPIES", "<STATUS"].map(String::from);
    let names: Vec<String> = ["RUN".into()].into_iter().chain(heads).chain(last).collect();
    let mut table = Table::new("All runs", &names);
    for (run, recorded) in frame.runs.iter().zip(runs) {
        let value = |name: &&str| {
            Cell::from(value_in_words(name, run.parameters.get(*name).map_or("", String::as_str)))
        };
        let status = match (run.is_complete, run.refused().is_some(), run.is_saturated) {
            (false, ..) => Cell::marked("cut short", Mark::Warning),
            (_, true, _) => Cell::marked("refused", Mark::Warning),
            (.., true) => {
                let why = recorded.saturated.as_deref().unwrap_or_default();
                Cell::marked(format!("complete, machine at its limit *: {why}"), Mark::Warning)
            }
            _ => "complete".into(),
        };
        let took = quantity(recorded.duration.as_secs_f64(), "s");
        let cells = std::iter::once(Cell::from(run.id.to_string()))
            .chain(parameters.iter().map(value))
            .chain([recorded.seed.to_string().into(), took.into(), copies_of(run), status]);
        table.rows.push(cells.collect());
    }
    table
}
