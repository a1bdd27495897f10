//! Plots that are described in the file of an experiment: which parameter is along x, which expression along y,
//! which parameter has colours, and which figure of a paper is drawn beside them.
//!
//! [`PlotSpec::check`] finds mistakes before anything runs. [`draw`] makes a plot for each combination of the
//! parameters in `each`. A combination without values makes no plot.

mod bars;
mod curves;
mod gather;
mod heat;
mod over_time;
mod samples;
mod values;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use self::gather::Gathered;
use super::{Plot, Styles};
use crate::{
    claim::{Text, conditions},
    expression::{Condition, Expression, shortened},
    frame::{Frame, Vocabulary},
    paper::Papers,
    series,
    words::named_value,
};

pub use over_time::SeriesSource;

/// A plot, as written in the file of an experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlotSpec {
    pub title: String,
    pub kind: Kind,
    /// The parameter along x; for samples, the name of a series. A distribution and a plot over time have none.
    pub x: Option<String>,
    /// The expression along y, or for the squares of a heat map. It contains no aggregate, because the kind of
    /// plot says what a mark shows. In a plot over time, the names of one or more series, with commas between them.
    pub y: String,
    /// The label of the axis: the name of the values, with their unit in brackets. `None`: the expression.
    pub label: Option<String>,
    /// The parameter that has a colour for each value. `None`: `delivery`.
    pub series: Option<String>,
    /// The parameter of a heat map's rows.
    pub rows: Option<String>,
    /// Parameters: there is a plot for each combination of their values.
    #[serde(default)]
    pub each: Vec<String>,
    /// The runs that are shown: parameters and their values.
    #[serde(default, rename = "where")]
    pub cells: BTreeMap<String, Text>,
    /// The logarithmic axes: `x`, `y` or `xy`.
    #[serde(default)]
    pub log: String,
    /// A paper's figure that is drawn beside the runs.
    pub paper: Option<PaperOf>,
    /// A note for the reader.
    #[serde(default)]
    pub note: String,
}

/// A figure of a paper: hollow marks, which a thin line joins where `kind` is `lines`; levels where it is `time`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PaperOf {
    /// The data file, as named in the experiment's `papers`.
    pub file: String,
    pub figure: String,
    /// The expression for the paper's values, if it differs from that of the runs. `None`: the plot's `y`.
    pub y: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Means with their 95 % confidence intervals, one line for each series.
    Lines,
    /// Means, a bar for each x and series.
    Bars,
    /// Median, quartiles and extremes for each x and series.
    Boxes,
    /// The share of values up to each value, one line for each series.
    Distribution,
    /// The median for each x and row, as a colour and a number.
    Heat,
    /// A series over time: a line for each value of `series`, from the first complete run with that value.
    Time,
    /// The mean of the samples of series `y` for each value that series `x` had at the time, as lines.
    Samples,
}

impl PlotSpec {
    /// Checks the names against the planned runs.
    pub fn check(&self, vocabulary: &Vocabulary, papers: &Papers) -> Result<(), String> {
        self.checked(vocabulary, papers).map_err(|what| format!("plot `{}`: {what}", shortened(&self.title)))
    }

    fn checked(&self, vocabulary: &Vocabulary, papers: &Papers) -> Result<(), String> {
        let cells = conditions(&self.cells);
        cells.iter().try_for_each(|condition| vocabulary.check(condition))?;
        let (x, has_measure) = match self.kind {
            Kind::Samples => (&None, false),
            kind => (&self.x, kind != Kind::Time),
        };
        if !has_measure {
            check_series(vocabulary, self.drawn_series())?;
            check_series(vocabulary, self.sampled_over().into_iter())?;
        }
        let optional = [x, &self.series, &self.rows].into_iter().flatten();
        let is_of_row = |name: &&String| *name == "node" || *name == "role";
        vocabulary.check_parameters(optional.chain(&self.each).filter(|name| !is_of_row(name)))?;
        match (self.kind, &self.x, &self.rows) {
            (Kind::Lines, None, _) => return Err("lines need `x`, a parameter that is a number".into()),
            (Kind::Samples, None, _) => {
                return Err("samples need `x`, a series such as active_clients".into());
            }
            (Kind::Heat, None, _) | (Kind::Heat, _, None) => {
                return Err("a heat map needs `x` and `rows`, two parameters".into());
            }
            _ => {}
        }
        if has_measure {
            let y = Expression::parse(&self.y).map_err(|what| format!("`{}`: {what}", shortened(&self.y)))?;
            y.check(vocabulary, &cells)?;
        }
        if let Some(paper) = &self.paper {
            papers.figure(&paper.file, &paper.figure)?;
            let y = paper.y.as_ref().unwrap_or(&self.y);
            if self.kind != Kind::Time {
                Expression::parse(y).map_err(|what| format!("`{y}`: {what}"))?;
            }
        }
        Ok(())
    }

    /// The measures that the plot takes from a paper. A plot over time draws a figure as it is.
    pub fn of_papers(&self, papers: &Papers) -> Vec<String> {
        let Some(paper) = &self.paper else { return Vec::new() };
        let y = Expression::parse(paper.y.as_ref().unwrap_or(&self.y));
        match (self.kind, y, papers.figure(&paper.file, &paper.figure)) {
            (Kind::Time, _, Ok((_, points))) => {
                points.iter().map(|point| point.run.rows[0].measure.clone()).collect()
            }
            (_, Ok(y), _) => y.selections().iter().map(|of| of.name.clone()).collect(),
            _ => Vec::new(),
        }
    }

    /// The series along x, which the data file of a paper may have as a column.
    pub fn sampled_over(&self) -> Option<&str> {
        self.x.as_deref().filter(|_| self.kind == Kind::Samples)
    }

    /// The series that a plot of series draws along y.
    fn drawn_series(&self) -> impl Iterator<Item = &str> {
        self.y.split(',').map(str::trim)
    }

    /// The names that have a colour of their own beside the values of the series' parameter: several series in one plot.
    pub fn coloured_series(&self) -> impl Iterator<Item = &str> {
        let has_several = self.kind == Kind::Time && self.y.contains(',');
        self.drawn_series().filter(move |_| has_several)
    }

    fn series(&self) -> &str {
        self.series.as_deref().unwrap_or("delivery")
    }

    /// The file name of the plot of one cell.
    fn name(&self, cell: &[Condition]) -> String {
        let values = cell.iter().flat_map(|condition| condition.values.iter());
        let words: Vec<&str> =
            std::iter::once(self.title.as_str()).chain(values.map(String::as_str)).collect();
        words.join("-").to_lowercase()
    }

    fn title(&self, cell: &[Condition]) -> String {
        let values = cell.iter().map(|condition| named_value(&condition.key, &condition.values[0]));
        match values.collect::<Vec<_>>() {
            none if none.is_empty() => self.title.clone(),
            some => format!("{}: {}", self.title, some.join(", ")),
        }
    }
}

/// Refuses names of which one is no series of any run, and series of several units.
fn check_series<'n>(vocabulary: &Vocabulary, names: impl Iterator<Item = &'n str>) -> Result<(), String> {
    let mut first: Option<(&str, &str)> = None;
    for name in names {
        let known = vocabulary.series.iter().find(|(series, _)| series == name);
        let Some((_, unit)) = known else {
            if series::is_sampled(name) {
                continue;
            }
            let there_are: Vec<&str> = vocabulary.series.iter().map(|(series, _)| series.as_str()).collect();
            let (name, there_are) = (shortened(name), there_are.join(", "));
            return Err(format!(
                "no run has a series `{name}`: there are {there_are}, and samples of nodes such as {}",
                series::PROCESS_CPU_NS
            ));
        };
        let (other, its) = *first.get_or_insert((name, unit));
        if its != unit {
            return Err(format!("{other} and {name} do not fit into one plot: they are in {its} and {unit}"));
        }
    }
    Ok(())
}

/// The data that plots are drawn from.
#[derive(Clone, Copy)]
pub struct Drawing<'d> {
    pub frame: &'d Frame,
    pub papers: &'d Papers,
    pub styles: &'d Styles,
    /// The source of the points of plots over time.
    pub series: &'d dyn SeriesSource,
    /// The width of the sheets, in points.
    pub width: f64,
}

/// The plots of one spec, one for each cell that has values. A plot that cannot be drawn is a sentence instead, which
/// says why.
pub fn draw(spec: &PlotSpec, drawing: Drawing<'_>) -> Vec<Result<Plot, String>> {
    let made_for = conditions(&spec.cells);
    let cells = drawing.frame.cells(&spec.each, &made_for.iter().collect::<Vec<_>>());
    cells.into_iter().filter_map(|cell| of_cell(spec, &drawing, &cell, &made_for)).collect()
}

/// The plot of a cell. `None` if there are no values.
fn of_cell(
    spec: &PlotSpec,
    drawing: &Drawing<'_>,
    cell: &[Condition],
    made_for: &[Condition],
) -> Option<Result<Plot, String>> {
    match spec.kind {
        Kind::Time => over_time::plot(spec, drawing, cell, made_for).map(Ok),
        Kind::Samples => {
            let plot = of_samples(spec, drawing, cell, made_for);
            plot.map_err(|why| format!("{}: not drawn: {why}.", spec.title(cell))).transpose()
        }
        kind => {
            let gathered = gather::gather(spec, drawing, cell, made_for)?;
            let is_beside_paper = gathered.paper_legend().is_some();
            let has_table = is_beside_paper && matches!(kind, Kind::Lines | Kind::Bars | Kind::Boxes);
            let table = has_table.then(|| values::table(&gathered));
            Some(Ok(Plot { table, csv: values::csv(&gathered), ..drawn(&gathered)? }))
        }
    }
}

/// The plot of a cell's samples. `None` if there are no values.
fn of_samples(
    spec: &PlotSpec,
    drawing: &Drawing<'_>,
    cell: &[Condition],
    made_for: &[Condition],
) -> Result<Option<Plot>, String> {
    let frame = samples::frame(spec, drawing, &[cell, made_for].concat())?;
    let gathered = gather::gather(spec, &Drawing { frame: &frame, ..*drawing }, cell, made_for);
    let plot = |gathered: Gathered<'_>| {
        let table = Some(values::table(&gathered));
        Some(Plot { table, csv: values::csv(&gathered), ..drawn(&gathered)? })
    };
    Ok(gathered.and_then(plot))
}

fn drawn(gathered: &Gathered<'_>) -> Option<Plot> {
    match gathered.spec.kind {
        // Lines through one point show nothing that bars do not show better.
        Kind::Lines | Kind::Samples if gathered.numbers().len() < 2 => bars::plot(gathered, false),
        Kind::Lines | Kind::Samples => curves::lines(gathered),
        Kind::Bars => bars::plot(gathered, false),
        Kind::Boxes => bars::plot(gathered, true),
        // A distribution of single values is no curve.
        Kind::Distribution if gathered.groups.iter().all(|group| group.values.len() < 2) => {
            bars::plot(gathered, false)
        }
        Kind::Distribution => curves::distribution(gathered),
        Kind::Heat => heat::plot(gathered),
        Kind::Time => None,
    }
}
