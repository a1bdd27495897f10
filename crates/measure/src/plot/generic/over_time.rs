//! Plots of series over time, from the first complete run of each line.
//!
//! A plot of one run alone marks what happened in it, and draws the levels that a paper read before, between and after
//! these moments. A table has the run's own levels.

use super::{Drawing, PlotSpec};
use crate::{
    Db,
    db::RunId,
    expression::Condition,
    frame::FrameRun,
    plot::{
        Ink, Mark, Plot, Style,
        axis::{Axis, plain},
        canvas::Sheet,
    },
    statistics::percentile,
    tables::{Scale, Table, three_digits},
    words::named_value,
};

/// The largest number of points of a line. A page cannot show more.
const MOST_POINTS: usize = 800;

/// The points of a series: seconds, and the value.
pub type Points = Vec<(f64, f64)>;

/// The style of a paper's levels.
const PAPER: Style = Style { ink: Ink::Grid, mark: Mark::Square };

/// The sentence about the levels of a paper.
const SCALED: &str = "The paper's levels are scaled so that the first is the run's own.";

/// Moments closer together than this count as one, in seconds.
const ONE_MOMENT_S: f64 = 0.5;

/// A source of the points of series.
pub trait SeriesSource {
    /// The events of the network of a run: seconds since the run began, and words.
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

/// A line with its name in the legend.
struct Line {
    name: String,
    style: Style,
    points: Points,
}

/// The lines of a plot, and the runs that they are from.
#[derive(Default)]
struct Lines<'r> {
    lines: Vec<Line>,
    unit: String,
    runs: Vec<&'r FrameRun>,
}

/// The levels of a paper's figure as steps, with their name for the legend.
struct PaperLevels {
    name: String,
    steps: Points,
}

/// Draws a line for each value of the series' parameter, for each node, or for each of several series. `None` if there
/// are no points.
pub fn plot(
    spec: &PlotSpec,
    drawing: &Drawing<'_>,
    cell: &[Condition],
    made_for: &[Condition],
) -> Option<Plot> {
    let conditions: Vec<&Condition> = cell.iter().chain(made_for).collect();
    let Lines { mut lines, unit, runs } = lines(spec, drawing, &conditions);
    let only = runs.first().filter(|_| runs.len() == 1);
    let events = only.map(|run| drawing.series.events(run)).unwrap_or_default();
    let moments = moments(&events);
    let mut paper = match (&lines[..], only) {
        ([line], Some(run)) => levels_of_paper(spec, drawing, run, &line.points, &moments),
        _ => None,
    };
    let all = lines.iter_mut().map(|line| &mut line.points);
    let all = all.chain(paper.as_mut().map(|paper| &mut paper.steps)).collect();
    let (unit, longest, highest) = scaled(all, unit)?;
    let what = spec.label.clone().unwrap_or_else(|| spec.y.clone());
    let label = if unit.is_empty() { what } else { format!("{what} ({unit})") };
    let in_legend = lines.iter().map(|line| (line.name.clone(), line.style));
    let sheet = Sheet {
        name: spec.name(cell),
        title: spec.title(cell),
        subtitle: format!("{} {}", spec.note, if paper.is_some() { SCALED } else { "" }),
        width: drawing.width,
        x_label: "seconds since the run's start",
        y_label: &label,
        legend: in_legend.chain(paper.iter().map(|paper| (paper.name.clone(), PAPER))).collect(),
        ..Sheet::default()
    };
    let axes = (Axis::from_zero(longest), Axis::from_zero(highest));
    let plot = sheet.plot((axes.0, &plain), (axes.1, &plain), |canvas| {
        paper.iter().for_each(|paper| canvas.line(&paper.steps, PAPER.ink, 5.0));
        for (index, (at, what)) in events.iter().enumerate() {
            canvas.line(&[(*at, 0.0), (*at, highest)], Ink::Muted, 0.75);
            canvas.note((*at, highest), 12.0 * index as f64, what);
        }
        for line in &lines {
            let step = line.points.len().div_ceil(MOST_POINTS).max(1);
            let points: Points = line.points.iter().copied().step_by(step).collect();
            canvas.line(&points, line.style.ink, 1.75);
        }
    });
    let table = (!moments.is_empty()).then(|| levels(&lines, paper.as_ref(), &moments, &label));
    Some(Plot { table, ..plot })
}

/// Converts all values to the unit in which they read best. Returns that unit, the last second and the highest value.
/// `None` if there are no points.
fn scaled(mut all: Vec<&mut Points>, unit: String) -> Option<(String, f64, f64)> {
    let extent =
        |of: fn(&(f64, f64)) -> f64| all.iter().flat_map(|points| points.iter()).map(of).reduce(f64::max);
    let (longest, highest) = (extent(|point| point.0)?, extent(|point| point.1)?);
    let Some(Scale { unit, factor }) = Scale::of(&unit, highest) else {
        return Some((unit, longest, highest));
    };
    all.iter_mut().flat_map(|points| points.iter_mut()).for_each(|(_, value)| *value /= factor);
    Some((unit.to_owned(), longest, highest / factor))
}

/// The lines of the first complete run of each value of the series' parameter.
fn lines<'r>(spec: &PlotSpec, drawing: &Drawing<'r>, conditions: &'r [&Condition]) -> Lines<'r> {
    let by_node = spec.series() == "node";
    let has_several = spec.drawn_series().count() > 1;
    let is_of_one = conditions.iter().any(|condition| condition.key == spec.series());
    let mut found = Lines::default();
    let mut drawn: Vec<String> = Vec::new();
    for (_, run) in drawing.frame.runs_that(conditions).filter(|(_, run)| run.is_complete) {
        let value = run.parameters.get(spec.series()).cloned().unwrap_or_default();
        if drawn.contains(&value) {
            continue;
        }
        let before = found.lines.len();
        for measure in spec.drawn_series() {
            let of_run = drawing.series.series(run, measure);
            let wanted = |node: &str| conditions.iter().all(|c| c.key != "node" || c.holds(node));
            let of_run = of_run.into_iter().filter(|(node, ..)| wanted(node));
            for (node, unit, points) in of_run.take(if by_node { usize::MAX } else { 1 }) {
                let series = named_value(spec.series(), &value);
                let (name, key) = match (by_node, has_several) {
                    (true, _) => (node.clone(), node.as_str()),
                    (_, false) => (series, value.as_str()),
                    (_, true) if is_of_one => (measure.replace('_', " "), measure),
                    (_, true) => (format!("{series}: {}", measure.replace('_', " ")), measure),
                };
                found.unit = unit;
                found.lines.push(Line { name, style: drawing.styles.of(key), points });
            }
        }
        if found.lines.len() > before {
            drawn.push(value);
            found.runs.push(run);
        }
    }
    found
}

/// The moments at which something happened, ascending, each with everything that happened then.
fn moments(events: &[(f64, String)]) -> Vec<(f64, String)> {
    let mut events = events.to_vec();
    events.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut moments: Vec<(f64, String)> = Vec::new();
    for (at, what) in events {
        match moments.last_mut().filter(|(last, _)| at - last < ONE_MOMENT_S) {
            Some((_, all)) => *all += &format!("; {what}"),
            None => moments.push((at, what)),
        }
    }
    moments
}

/// The levels of a paper's figure. The first level ends at the first moment, the next one at the next moment, and the
/// last level stays. All are multiplied by one factor, so that the first is the run's own median until then: a paper's
/// traffic may be heavier than the run's.
fn levels_of_paper(
    spec: &PlotSpec,
    drawing: &Drawing<'_>,
    run: &FrameRun,
    points: &Points,
    moments: &[(f64, String)],
) -> Option<PaperLevels> {
    let paper = spec.paper.as_ref()?;
    let (source, figure) = drawing.papers.figure(&paper.file, &paper.figure).ok()?;
    let about = figure.into_iter().filter(|point| point.is_of(&run.parameters, &[]));
    let levels: Vec<f64> = about.filter_map(|point| point.run.rows.first()?.value).collect();
    let ((first, _), (begin, _), (end, _)) = (moments.first()?, points.first()?, points.last()?);
    let factor = median_within(points, f64::MIN, *first)? / levels.first()?;
    let begins = std::iter::once(*begin).chain(moments.iter().map(|(at, _)| *at));
    let ends = moments.iter().map(|(at, _)| *at).take(levels.len() - 1).chain([*end]);
    let steps = levels.iter().zip(begins).zip(ends);
    let steps = steps.flat_map(|((level, from), to)| [(from, level * factor), (to, level * factor)]);
    let name = format!("{}, {}", source.name(), paper.figure);
    Some(PaperLevels { name, steps: steps.collect() })
}

fn median_within(points: &Points, from: f64, to: f64) -> Option<f64> {
    let within = points.iter().filter(|(at, _)| (from..to).contains(at));
    percentile(&within.map(|(_, value)| *value).collect::<Vec<_>>(), 50.0)
}

/// The median of each line before the first moment and from each moment until the next.
fn levels(lines: &[Line], paper: Option<&PaperLevels>, moments: &[(f64, String)], label: &str) -> Table {
    let names = lines.iter().map(|line| line.name.to_uppercase());
    let names = names.chain(paper.map(|_| "PAPER, SCALED".to_owned()));
    let columns: Vec<String> = std::iter::once("<WHEN".to_owned()).chain(names).collect();
    let mut table = Table::new(format!("Level before and after each event: {label}, median"), &columns);
    let begins = std::iter::once((f64::MIN, "before".to_owned()));
    let moments_in_words = moments.iter().map(|(at, what)| (*at, format!("from {at:.1} s: {what}")));
    let ends = moments.iter().map(|(at, _)| *at).chain([f64::MAX]);
    for (index, ((from, when), to)) in begins.chain(moments_in_words).zip(ends).enumerate() {
        let in_words = |value: Option<f64>| value.map_or("-".into(), three_digits);
        let ours = lines.iter().map(|line| in_words(median_within(&line.points, from, to)));
        // Each of the paper's levels is two points.
        let theirs = paper.map(|paper| in_words(paper.steps.get(2 * index).map(|(_, value)| *value)));
        table.rows.push(std::iter::once(when).chain(ours).chain(theirs).map(Into::into).collect());
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        frame::Frame,
        paper::Papers,
        plot::{Styles, canvas::WIDTH, generic::draw},
    };

    /// Two flows and the rate of their link, which falls at 10 s.
    struct Link;

    impl SeriesSource for Link {
        fn events(&self, _: &FrameRun) -> Vec<(f64, String)> {
            vec![(10.2, "and nothing else".into()), (10.0, "the link has 5 bit/s".into())]
        }

        fn series(&self, _: &FrameRun, measure: &str) -> Vec<(String, String, Points)> {
            let levels = match measure {
                "flow" => (30.0, 3.0),
                "rival" => (20.0, 2.0),
                _ => (50.0, 5.0),
            };
            let at = |second: u32| (f64::from(second), if second < 10 { levels.0 } else { levels.1 });
            vec![("machine".into(), "bit/s".into(), (0..20).map(at).collect())]
        }
    }

    #[test]
    fn several_series_are_lines_of_one_plot_and_a_table_has_their_levels_around_each_event() {
        let text = r#"{"title": "Shares", "kind": "time", "y": "flow, rival, capacity", "label": "rate",
                        "each": ["delivery"]}"#;
        let spec: PlotSpec = serde_json::from_str(text).unwrap();
        let mut frame = Frame::default();
        frame.add_run(&[("delivery", "nack")]);
        let (papers, styles) =
            (Papers::default(), Styles::new(["flow", "rival", "capacity"].map(String::from)));
        let drawing =
            Drawing { frame: &frame, papers: &papers, styles: &styles, series: &Link, width: WIDTH };
        let plot = draw(&spec, drawing).remove(0).unwrap();
        for told in ["Shares: nack", "capacity\nrate (bit/s): 50", "the link has 5 bit/s"] {
            assert!(plot.svg.contains(told), "{told}: {}", plot.svg);
        }
        let expected = "Level before and after each event: rate (bit/s), median\n\
            WHEN                                                 FLOW  RIVAL  CAPACITY\n\
            before                                                 30     20        50\n\
            from 10.0 s: the link has 5 bit/s; and nothing else     3      2         5\n";
        assert_eq!(plot.table.unwrap().to_text(), expected);
    }
}
