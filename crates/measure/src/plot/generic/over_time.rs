//! Plots of series over time, from the first complete run of each line.

use super::{Drawing, PlotSpec};
use crate::{
    Db,
    db::RunId,
    expression::Condition,
    frame::FrameRun,
    plot::{
        Plot, Style,
        axis::{Axis, plain},
        canvas::Sheet,
    },
    tables::Scale,
};

/// The largest number of points of a line. A page cannot show more.
const MOST_POINTS: usize = 800;

/// The points of a series: seconds, and the value.
pub type Points = Vec<(f64, f64)>;

/// A source of the points of series.
pub trait SeriesSource {
    /// The points of `measure` at each node of a run that has it, and its unit.
    fn series(&self, run: &FrameRun, measure: &str) -> Vec<(String, String, Points)>;
}

impl SeriesSource for Db {
    fn series(&self, run: &FrameRun, measure: &str) -> Vec<(String, String, Points)> {
        let nodes = self.nodes(RunId(run.id)).unwrap_or_default();
        let of_node = |(id, node): (crate::db::NodeId, crate::db::NodeInfo)| {
            let points = self.points(id, measure).ok().filter(|points| !points.is_empty())?;
            Some((node.name, self.unit(id, measure).ok().flatten().unwrap_or_default(), points))
        };
        nodes.into_iter().filter_map(of_node).collect()
    }
}

/// Draws a line for each value of the series' parameter, or for each node. `None` if there are no points.
pub fn plot(
    spec: &PlotSpec,
    drawing: &Drawing<'_>,
    cell: &[Condition],
    made_for: &[Condition],
) -> Option<Plot> {
    let conditions: Vec<&Condition> = cell.iter().chain(made_for).collect();
    let by_node = spec.series() == "node";
    let mut lines: Vec<(String, Style, Points)> = Vec::new();
    let mut unit = String::new();
    for (_, run) in drawing.frame.runs_that(&conditions).filter(|(_, run)| run.is_complete) {
        let series = run.parameters.get(spec.series()).cloned().unwrap_or_default();
        if lines.iter().any(|(name, ..)| *name == series) || (by_node && !lines.is_empty()) {
            continue;
        }
        let of_run = drawing.series.series(run, &spec.y);
        let wanted = |node: &str| conditions.iter().all(|c| c.key != "node" || c.holds(node));
        let of_run: Vec<_> = of_run.into_iter().filter(|(node, ..)| wanted(node)).collect();
        unit = of_run.first().map_or(unit, |(_, unit, _)| unit.clone());
        if by_node {
            lines.extend(
                of_run.into_iter().map(|(node, _, points)| (node.clone(), drawing.styles.of(&node), points)),
            );
        } else if let Some((.., points)) = of_run.into_iter().next() {
            lines.push((series.clone(), drawing.styles.of(&series), points));
        }
    }
    let extent = |of: fn(&(f64, f64)) -> f64| {
        lines.iter().flat_map(|(.., points)| points.iter().map(of)).reduce(f64::max)
    };
    let (longest, highest) = (extent(|point| point.0)?, extent(|point| point.1)?);
    let scale = Scale::of(&unit, highest);
    let factor = scale.map_or(1.0, |scale| scale.factor);
    let what = spec.label.clone().unwrap_or_else(|| spec.y.clone());
    let unit = scale.map_or(unit, |scale| scale.unit.to_owned());
    let label = if unit.is_empty() { what } else { format!("{what} ({unit})") };
    let sheet = Sheet {
        name: spec.name(cell),
        title: spec.title(cell),
        subtitle: spec.note.clone(),
        x_label: "seconds since the run's start",
        y_label: &label,
        legend: lines.iter().map(|(name, style, _)| (name.clone(), *style)).collect(),
        ..Sheet::default()
    };
    let axes = (Axis::from_zero(longest), Axis::from_zero(highest / factor));
    Some(sheet.plot((axes.0, &plain), (axes.1, &plain), |canvas| {
        for (_, style, points) in &lines {
            let step = points.len().div_ceil(MOST_POINTS).max(1);
            let points = points.iter().step_by(step).map(|(at, value)| (*at, value / factor));
            canvas.line(&points.collect::<Vec<_>>(), style.ink, 1.75);
        }
    }))
}
