//! Plots of series over time, from the first complete run of each line.
//!
//! A plot of one run alone marks what happened in it, and draws the levels that a paper read before, between and after
//! these moments.

use plotters::style::text_anchor::HPos;

use super::{Drawing, PlotSpec};
use crate::{
    Db,
    db::RunId,
    expression::Condition,
    frame::FrameRun,
    plot::{
        Ink, Mark, Plot, Style,
        axis::{Axis, plain},
        canvas::{SMALL, Sheet},
    },
    statistics::percentile,
    tables::Scale,
    words::named_value,
};

/// The largest number of points of a line. A page cannot show more.
const MOST_POINTS: usize = 800;

/// The points of a series: seconds, and the value.
pub type Points = Vec<(f64, f64)>;

/// How a paper's levels are drawn.
const PAPER: Style = Style { ink: Ink::Grid, mark: Mark::Square };

/// Moments closer together than this count as one, in seconds.
const ONE_MOMENT_S: f64 = 0.5;

/// A source of the points of series.
pub trait SeriesSource {
    /// What happened to the network of a run: seconds since the run began, and words.
    fn events(&self, run: &FrameRun) -> Vec<(f64, String)>;

    /// The points of `measure` at each node of a run that has it, and its unit.
    fn series(&self, run: &FrameRun, measure: &str) -> Vec<(String, String, Points)>;
}

impl SeriesSource for Db {
    fn events(&self, run: &FrameRun) -> Vec<(f64, String)> {
        let events = self.events(RunId(run.id)).unwrap_or_default().into_iter();
        events.filter(|e| e.kind == "event").map(|event| (event.at.as_secs_f64(), event.detail)).collect()
    }

    fn series(&self, run: &FrameRun, measure: &str) -> Vec<(String, String, Points)> {
        let nodes = self.nodes(RunId(run.id)).unwrap_or_default();
        let of_node = |(id, node): (crate::db::NodeId, crate::db::NodeInfo)| {
            let points = self.points(id, measure).ok().filter(|points| !points.is_empty())?;
            Some((node.name, self.unit(id, measure).ok().flatten().unwrap_or_default(), points))
        };
        nodes.into_iter().filter_map(of_node).collect()
    }
}

/// All lines of a plot.
struct Lines<'r> {
    lines: Vec<(String, Style, Points)>,
    unit: String,
    /// The runs that the lines are from.
    runs: Vec<&'r FrameRun>,
}

/// Draws a line for each value of the series' parameter, or for each node. `None` if there are no points.
pub fn plot(
    spec: &PlotSpec,
    drawing: &Drawing<'_>,
    cell: &[Condition],
    made_for: &[Condition],
) -> Option<Plot> {
    let conditions: Vec<&Condition> = cell.iter().chain(made_for).collect();
    let Lines { mut lines, unit, runs } = lines(spec, drawing, &conditions);
    let events = match runs[..] {
        [run] => drawing.series.events(run),
        _ => Vec::new(),
    };
    let levels = runs.first().filter(|_| runs.len() == 1 && lines.len() == 1);
    let levels = levels.and_then(|run| levels_of_paper(spec, drawing, run, &lines[0].2, &events));
    let (source, levels) = levels.unzip();
    let levels = levels.unwrap_or_default();
    let extent = |of: fn(&(f64, f64)) -> f64| {
        lines.iter().flat_map(|(.., points)| points).chain(&levels).map(of).reduce(f64::max)
    };
    let (longest, highest) = (extent(|point| point.0)?, extent(|point| point.1)?);
    let scale = Scale::of(&unit, highest);
    let factor = scale.map_or(1.0, |scale| scale.factor);
    lines.iter_mut().flat_map(|(.., points)| points).for_each(|(_, value)| *value /= factor);
    let levels: Points = levels.into_iter().map(|(at, value)| (at, value / factor)).collect();
    let what = spec.label.clone().unwrap_or_else(|| spec.y.clone());
    let unit = scale.map_or(unit, |scale| scale.unit.to_owned());
    let label = if unit.is_empty() { what } else { format!("{what} ({unit})") };
    let in_legend = lines.iter().map(|(name, style, _)| (name.clone(), *style));
    let sheet = Sheet {
        name: spec.name(cell),
        title: spec.title(cell),
        subtitle: spec.note.clone(),
        x_label: "seconds since the run's start",
        y_label: &label,
        legend: in_legend.chain(source.map(|source| (source, PAPER))).collect(),
        ..Sheet::default()
    };
    let highest = highest / factor;
    let axes = (Axis::from_zero(longest), Axis::from_zero(highest));
    Some(sheet.plot((axes.0, &plain), (axes.1, &plain), |canvas| {
        canvas.line(&levels, PAPER.ink, 5.0);
        for (index, (at, what)) in events.iter().enumerate() {
            canvas.line(&[(*at, 0.0), (*at, highest)], Ink::Muted, 0.75);
            let offset = (4.0, 12.0 * index as f64);
            canvas.text((*at, highest), offset, what, Ink::Muted, SMALL, HPos::Left);
        }
        for (_, style, points) in &lines {
            let step = points.len().div_ceil(MOST_POINTS).max(1);
            canvas.line(&points.iter().copied().step_by(step).collect::<Vec<_>>(), style.ink, 1.75);
        }
    }))
}

/// The first complete run of each line.
fn lines<'r>(spec: &PlotSpec, drawing: &Drawing<'r>, conditions: &'r [&Condition]) -> Lines<'r> {
    let by_node = spec.series() == "node";
    let mut found = Lines { lines: Vec::new(), unit: String::new(), runs: Vec::new() };
    for (_, run) in drawing.frame.runs_that(conditions).filter(|(_, run)| run.is_complete) {
        let value = run.parameters.get(spec.series()).cloned().unwrap_or_default();
        let series = named_value(spec.series(), &value);
        if found.lines.iter().any(|(name, ..)| *name == series) || (by_node && !found.lines.is_empty()) {
            continue;
        }
        let of_run = drawing.series.series(run, &spec.y);
        let wanted = |node: &str| conditions.iter().all(|c| c.key != "node" || c.holds(node));
        let of_run: Vec<_> = of_run.into_iter().filter(|(node, ..)| wanted(node)).collect();
        let Some((_, unit, _)) = of_run.first() else { continue };
        found.unit.clone_from(unit);
        found.runs.push(run);
        let lines = of_run.into_iter().map(|(node, _, points)| {
            let (name, value) = if by_node { (node.clone(), node) } else { (series.clone(), value.clone()) };
            (name, drawing.styles.of(&value), points)
        });
        found.lines.extend(lines.take(if by_node { usize::MAX } else { 1 }));
    }
    found
}

/// The levels of a paper's figure as steps, with their name for the legend. The first level ends where the first thing
/// happens, the next one at the next moment, and the last level stays. All are multiplied by one factor, so that the
/// first is the run's own median until then: a paper's traffic may be heavier than the run's.
fn levels_of_paper(
    spec: &PlotSpec,
    drawing: &Drawing<'_>,
    run: &FrameRun,
    points: &Points,
    events: &[(f64, String)],
) -> Option<(String, Points)> {
    let paper = spec.paper.as_ref()?;
    let (source, figure) = drawing.papers.figure(&paper.file, &paper.figure).ok()?;
    let about = figure.into_iter().filter(|point| point.is_of(&run.parameters, &[]));
    let levels: Vec<f64> = about.filter_map(|point| point.run.rows.first()?.value).collect();
    let mut moments: Vec<f64> = events.iter().map(|(at, _)| *at).collect();
    moments.sort_by(f64::total_cmp);
    moments.dedup_by(|later, earlier| *later - *earlier < ONE_MOMENT_S);
    let (first, end) = (*moments.first()?, points.last()?.0);
    let before: Vec<f64> = points.iter().filter(|(at, _)| *at < first).map(|(_, value)| *value).collect();
    let factor = percentile(&before, 50.0)? / levels.first()?;
    let begins = std::iter::once(points.first()?.0).chain(moments.iter().copied());
    let ends = moments.iter().copied().take(levels.len() - 1).chain([end]);
    let steps = levels.iter().zip(begins).zip(ends);
    let steps = steps.flat_map(|((level, from), to)| [(from, level * factor), (to, level * factor)]);
    Some((format!("{}, {}, scaled to the run's level before", source.name(), paper.figure), steps.collect()))
}
