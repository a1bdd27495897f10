//! Gathers the values of each x and series from runs, and the paper's values beside them.

use std::collections::BTreeSet;

use super::{Drawing, PlotSpec};
use crate::{
    db::NodeId,
    expression::{Condition, Expression, Scope, Value, number},
    frame::{Frame, FrameRun},
    paper::{NODE, Point},
    plot::{Ink, Mark, Style, canvas::Sheet},
    tables::Scale,
    words::{named_value, value_in_words},
};

/// All data of a plot, in the unit in which it is shown.
pub struct Gathered<'s> {
    pub spec: &'s PlotSpec,
    pub name: String,
    pub title: String,
    pub subtitle: String,
    /// The name of the values, with their unit.
    pub label: String,
    /// The width of the sheet, in points.
    pub width: f64,
    /// The name of the paper's marks in the legend, if there are any.
    pub paper: Option<String>,
    pub groups: Vec<GroupOfValues>,
}

/// The values of one x (and row of a heat map) and series.
#[derive(Debug, Clone, Default)]
pub struct GroupOfValues {
    /// The text of the x parameter. Empty in a plot without x.
    pub x: String,
    pub row: String,
    /// The value of the series' parameter, in words.
    pub series: String,
    pub style: Style,
    pub values: Vec<f64>,
    /// The reason why values are missing. Empty if none are.
    pub lacking: String,
    /// Whether the machine limited one of the runs.
    pub is_saturated: bool,
    pub paper: Option<PaperValue>,
}

/// The paper's value for a group.
#[derive(Debug, Clone, PartialEq)]
pub struct PaperValue {
    pub value: f64,
    pub range: Option<(f64, f64)>,
    /// The value of the parameter that may differ, such as `128 MiB`. Empty if it does not differ.
    pub nearest: String,
}

impl Gathered<'_> {
    /// The numbers along x, ascending. There are fewer than values of x if some of these are no numbers.
    pub fn numbers(&self) -> Vec<f64> {
        let with_values =
            self.groups.iter().filter(|group| !group.values.is_empty() || group.paper.is_some());
        let mut numbers: Vec<f64> = with_values.filter_map(|group| number(&group.x)).collect();
        numbers.sort_by(f64::total_cmp);
        numbers.dedup();
        numbers
    }

    /// The series in order of appearance, each with its style.
    pub fn series(&self) -> Vec<(String, Style)> {
        let mut series: Vec<(String, Style)> = Vec::new();
        for group in &self.groups {
            if !series.iter().any(|(name, _)| *name == group.series) {
                series.push((group.series.clone(), group.style));
            }
        }
        series
    }

    /// All values of a series.
    pub fn values_of(&self, series: &str) -> Vec<f64> {
        let of_series = self.groups.iter().filter(|group| group.series == series);
        of_series.flat_map(|group| group.values.iter().copied()).collect()
    }

    /// The sentences below the title. They also say what is missing from the legend, and why.
    pub fn subtitle(&self) -> String {
        let mut sentences = vec![self.subtitle.clone()];
        for (name, _) in self.series() {
            let mut of_series = self.groups.iter().filter(|group| group.series == name);
            if of_series.clone().all(|group| group.values.is_empty())
                && let Some(group) = of_series.find(|group| !group.lacking.is_empty())
            {
                sentences.push(format!("{name}: {}.", group.lacking.trim_end_matches('.')));
            }
        }
        sentences.join(" ").trim().to_owned()
    }

    /// The distinct values of one column, in order of appearance.
    pub fn distinct(&self, of: impl Fn(&GroupOfValues) -> &String) -> Vec<String> {
        let mut values: Vec<String> = Vec::new();
        for group in &self.groups {
            if !values.contains(of(group)) {
                values.push(of(group).clone());
            }
        }
        // Numbers are sorted; words stay in the order of the experiment.
        if values.iter().all(|value| number(value).is_some()) {
            values.sort_by(|a, b| number(a).unwrap_or(0.0).total_cmp(&number(b).unwrap_or(0.0)));
        }
        values
    }

    /// The name of the paper's marks in the legend. `None` if no value of the paper is drawn.
    pub fn paper_legend(&self) -> Option<String> {
        self.paper.clone().filter(|_| self.groups.iter().any(|group| group.paper.is_some()))
    }

    /// The sheet that all plots of a spec have in common.
    pub fn sheet(&self, height: f64) -> Sheet<'_> {
        let mut legend = self.series();
        let is_drawn = |group: &GroupOfValues| !group.values.is_empty() || group.paper.is_some();
        legend.retain(|(name, _)| {
            !name.is_empty() && self.groups.iter().any(|group| group.series == *name && is_drawn(group))
        });
        for (name, _) in &mut legend {
            if self.groups.iter().any(|group| group.series == *name && group.is_saturated) {
                name.push_str(" *");
            }
        }
        let muted = Style { ink: Ink::Muted, mark: Mark::Diamond };
        legend.extend(self.paper_legend().map(|name| (name, muted)));
        Sheet {
            name: self.name.clone(),
            title: self.title.clone(),
            subtitle: self.subtitle.clone(),
            height,
            width: self.width,
            y_label: &self.label,
            legend,
            ..Sheet::default()
        }
    }

    pub fn is_logarithmic(&self, axis: char) -> bool {
        self.spec.log.contains(axis)
    }
}

/// Gathers the data of a plot for one cell. `None` if there are no values.
pub fn gather<'s>(
    spec: &'s PlotSpec,
    drawing: &Drawing<'_>,
    cell: &[Condition],
    made_for: &[Condition],
) -> Option<Gathered<'s>> {
    let expression = Expression::parse(&spec.y).ok()?;
    let conditions = [cell, made_for].concat();
    let frame = drawing.frame;
    let scope = Scope { frame, paper: None, cell: &conditions };
    let Ok(Value::Set(items, unit)) = scope.value(&expression) else { return None };
    let mut groups: Vec<GroupOfValues> = Vec::new();
    for item in items {
        let run = &frame.runs[item.run];
        let group = group_of(&mut groups, spec, drawing, run, item.node);
        group.is_saturated |= run.is_saturated;
        match item.value {
            Ok(value) if value.is_finite() => group.values.push(value),
            Ok(_) => {}
            Err(why) => group.lacking = why,
        }
    }
    let all: Vec<&Condition> = conditions.iter().collect();
    for (_, run) in frame.runs_that(&all) {
        if let Some(words) = run.refused() {
            group_of(&mut groups, spec, drawing, run, None).lacking = format!("refused: {words}");
        }
    }
    let about: Vec<&FrameRun> = frame.runs_that(&all).map(|(_, run)| run).collect();
    let (legend, nearest) = add_paper(spec, drawing, &about, &mut groups).unwrap_or_default();
    let scale = scale(&mut groups, &unit)?;
    let expression = spec.label.clone().unwrap_or_else(|| spec.y.clone());
    let unit = scale.map_or(unit, |scale| scale.unit.to_owned());
    let saturated = groups.iter().any(|group| group.is_saturated);
    let sentences = [
        spec.note.clone(),
        nearest,
        if saturated { "* The machine was at its limit.".into() } else { String::new() },
    ];
    Some(Gathered {
        spec,
        name: spec.name(cell),
        title: spec.title(cell),
        subtitle: sentences.into_iter().filter(|s| !s.is_empty()).collect::<Vec<_>>().join(" "),
        paper: legend,
        width: drawing.width,
        label: if unit.is_empty() { expression } else { format!("{expression} ({unit})") },
        groups,
    })
}

/// Adds the paper's values to the groups of the runs that a plot is about. Returns the paper's words for a legend, and a
/// sentence about values that are only near; `None` where there is no paper.
fn add_paper(
    spec: &PlotSpec,
    drawing: &Drawing<'_>,
    about: &[&FrameRun],
    groups: &mut [GroupOfValues],
) -> Option<(Option<String>, String)> {
    let paper = spec.paper.as_ref()?;
    let (source, points) = drawing.papers.figure(&paper.file, &paper.figure).ok()?;
    let theirs = Expression::parse(paper.y.as_deref().unwrap_or(&spec.y)).ok()?;
    let mut nearest = BTreeSet::new();
    for group in groups {
        let run = about.iter().find(|run| is_of_group(spec, run, group));
        let node = (spec.x.as_deref() == Some(NODE)).then_some(group.x.as_str());
        group.paper = run.and_then(|run| of_paper(&theirs, &points, (run, node), source.nearest.as_deref()));
        nearest.extend(group.paper.as_ref().filter(|p| !p.nearest.is_empty()).map(|p| p.nearest.clone()));
    }
    let name = source.name();
    let nearest = nearest.into_iter().collect::<Vec<_>>().join(", ");
    let sentence = match nearest.is_empty() {
        true => String::new(),
        false => format!("Of {name}, the nearest is drawn: {nearest}."),
    };
    Some((Some(format!("hollow: {name}, {}", paper.figure)), sentence))
}

/// The group of a run's value. It is created for the first value.
fn group_of<'g>(
    groups: &'g mut Vec<GroupOfValues>,
    spec: &PlotSpec,
    drawing: &Drawing<'_>,
    run: &FrameRun,
    node: Option<NodeId>,
) -> &'g mut GroupOfValues {
    let of = |name: Option<&str>| name.map(|name| text_of(run, node, name)).unwrap_or_default();
    let (x, row) = (of(spec.x.as_deref()), of(spec.rows.as_deref()));
    let value = if spec.kind == super::Kind::Heat { String::new() } else { of(Some(spec.series())) };
    let series = named_value(spec.series(), &value);
    let found = groups.iter().position(|group| group.x == x && group.row == row && group.series == series);
    let index = found.unwrap_or_else(|| {
        let style = drawing.styles.of(&value);
        groups.push(GroupOfValues { x, row, series, style, ..GroupOfValues::default() });
        groups.len() - 1
    });
    &mut groups[index]
}

fn text_of(run: &FrameRun, node: Option<NodeId>, name: &str) -> String {
    match (name, run.node(node)) {
        (NODE, Some(node)) => node.name.clone(),
        ("role", Some(node)) => node.role.as_str().to_owned(),
        _ => run.parameters.get(name).cloned().unwrap_or_default(),
    }
}

fn is_of_group(spec: &PlotSpec, run: &FrameRun, group: &GroupOfValues) -> bool {
    let of_run = |name: &str| run.parameters.get(name).map_or("", String::as_str);
    let is = |name: Option<&str>, value: &str| name.is_none_or(|name| of_run(name) == value);
    let series = || named_value(spec.series(), of_run(spec.series()));
    let of_series = spec.kind == super::Kind::Heat || series() == group.series;
    let x = spec.x.as_deref().filter(|x| *x != NODE);
    of_series && is(x, &group.x) && is(spec.rows.as_deref(), &group.row)
}

/// The paper's value for a run, or for a node of it: of the same parameters, but for the one that may differ.
fn of_paper(
    expression: &Expression,
    points: &[&Point],
    (run, node): (&FrameRun, Option<&str>),
    may_differ: Option<&str>,
) -> Option<PaperValue> {
    let except: Vec<&str> = may_differ.into_iter().collect();
    let ours = may_differ.and_then(|name| number(run.parameters.get(name)?));
    let off = |point: &Point| {
        let theirs = may_differ.and_then(|name| number(point.run.parameters.get(name)?));
        ours.zip(theirs).map_or(1.0, |(ours, theirs)| (ours / theirs).max(theirs / ours))
    };
    let mut own = run.parameters.clone();
    own.extend(node.map(|node| (NODE.to_owned(), node.to_owned())));
    let about = points.iter().filter(|point| point.is_of(&own, &except));
    let of_point = |point: &Point| {
        // A parameter that the point does not name, such as a link's rate, is taken from the run.
        let mut parameters = run.parameters.clone();
        parameters.extend(point.run.parameters.clone());
        let frame = Frame { runs: vec![FrameRun { parameters, ..point.run.clone() }] };
        let value = Scope { frame: &frame, paper: None, cell: &[] }.number(expression).ok()?.0;
        let row = point.run.rows.first()?.value?;
        // An error bar is scaled like its value.
        let range = point.range.map(|(low, high)| (low * value / row, high * value / row));
        let nearest = may_differ.filter(|_| off(point) > 1.001);
        let nearest = nearest.and_then(|name| Some(value_in_words(name, point.run.parameters.get(name)?)));
        Some(PaperValue { value, range, nearest: nearest.unwrap_or_default() })
    };
    let mut about: Vec<&Point> = about.copied().collect();
    about.sort_by(|a, b| off(a).total_cmp(&off(b)));
    about.into_iter().find_map(of_point)
}

/// Converts all values to the unit in which they read best. The outer `None` means that there are no values.
fn scale(groups: &mut [GroupOfValues], unit: &str) -> Option<Option<Scale>> {
    let papers = groups.iter().filter_map(|group| group.paper.as_ref()).map(|paper| paper.value);
    let all = groups.iter().flat_map(|group| group.values.iter().copied());
    let highest = all.chain(papers).map(f64::abs).reduce(f64::max);
    let refused = groups.iter().any(|group| !group.lacking.is_empty());
    let highest = highest.or(refused.then_some(1.0))?;
    let scale = Scale::of(unit, highest);
    if let Some(Scale { factor, .. }) = scale {
        for group in groups {
            group.values.iter_mut().for_each(|value| *value /= factor);
            if let Some(paper) = &mut group.paper {
                paper.value /= factor;
                paper.range = paper.range.map(|(low, high)| (low / factor, high / factor));
            }
        }
    }
    Some(scale)
}
