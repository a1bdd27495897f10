//! Lines over a parameter, and distributions.

use plotters::style::text_anchor::HPos;

use super::gather::{Gathered, PaperValue};
use crate::{
    expression::number,
    plot::{
        Ink, Mark, Plot, Style,
        axis::{Axis, plain},
        canvas::{Canvas, SMALL, Sheet},
    },
    statistics::{Summary, cumulative},
    words::{parameter_in_words, value_in_words},
};

/// Draws means over a parameter, one line for each series. The paper's values are hollow marks.
pub fn lines(gathered: &Gathered<'_>) -> Option<Plot> {
    let numbers = gathered.numbers();
    let summaries: Vec<_> = gathered.groups.iter().map(|group| Summary::of(&group.values)).collect();
    let papers = || gathered.groups.iter().filter_map(|group| group.paper.as_ref());
    let ends = summaries.iter().flatten().flat_map(|summary| [interval(summary).0, interval(summary).1]);
    let all: Vec<f64> = ends.chain(papers().map(|paper| paper.value)).collect();
    let y = match gathered.is_logarithmic('y') {
        true => Axis::logarithmic(all.iter().copied()),
        false => Axis::from_zero(all.iter().copied().fold(0.0, f64::max)),
    };
    let x = match gathered.is_logarithmic('x') {
        true => Axis::logarithmic_at(&numbers),
        false => Axis::from_zero_at(&numbers),
    };
    let name = gathered.spec.x.as_deref().unwrap_or_default();
    let x_name = parameter_in_words(name);
    let repeated = summaries.iter().flatten().any(|summary| summary.count > 1);
    let sheet = Sheet {
        subtitle: match repeated {
            true => format!("Mean; error bars: its 95 % confidence interval. {}", gathered.subtitle()),
            false => gathered.subtitle(),
        },
        // A word beside the paper's mark names its size.
        right: if papers().any(|paper| !paper.nearest.is_empty()) { 76.0 } else { 24.0 },
        x_label: &x_name,
        ..gathered.sheet(400.0)
    };
    let x_words =
        |value: f64| if name == "size" { value_in_words(name, &value.to_string()) } else { plain(value) };
    Some(sheet.plot((x, &x_words), (y, &plain), |canvas| {
        for (series, style) in gathered.series() {
            line(canvas, gathered, &summaries, &series, style);
        }
    }))
}

/// The 95 % confidence interval of a mean. One that reaches 0 ends at the lowest value, because 0 is not on a logarithmic
/// axis.
fn interval(summary: &Summary) -> (f64, f64) {
    let low = summary.mean - summary.confidence_95;
    (if low > 0.0 { low } else { summary.min.min(summary.mean) }, summary.mean + summary.confidence_95)
}

/// Draws the line of a series, and the paper's line beside it.
fn line(
    canvas: &Canvas<'_>,
    gathered: &Gathered<'_>,
    summaries: &[Option<Summary>],
    series: &str,
    style: Style,
) {
    // The sentence below the title says of which size many marks are.
    const MOST_WORDS: usize = 12;
    let has_words = gathered.groups.iter().filter(|group| group.paper.is_some()).count() <= MOST_WORDS;
    let mut points: Vec<(f64, &Summary)> = Vec::new();
    let mut papers: Vec<(f64, f64)> = Vec::new();
    for (group, summary) in gathered.groups.iter().zip(summaries) {
        let at = number(&group.x).filter(|_| group.series == series);
        points.extend(at.zip(summary.as_ref()));
        if let Some((at, paper)) = at.zip(group.paper.as_ref()) {
            papers.push((at, paper.value));
            let words = if has_words { paper.nearest.as_str() } else { "" };
            paper_mark(canvas, at, paper, words, style);
        }
    }
    papers.sort_by(|a, b| a.0.total_cmp(&b.0));
    canvas.line(&papers, style.ink, 0.75);
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let means: Vec<(f64, f64)> = points.iter().map(|(at, summary)| (*at, summary.mean)).collect();
    canvas.line(&means, style.ink, 2.0);
    for (at, summary) in points {
        if summary.count > 1 {
            let (low, high) = interval(summary);
            canvas.vertical_bar(at, low, high, style.ink);
        }
        canvas.mark((at, summary.mean), style, 4.5, true);
    }
}

/// The paper's value beside ours, with its error bar, and of which parameter it is where that differs.
fn paper_mark(canvas: &Canvas<'_>, at: f64, paper: &PaperValue, nearest: &str, style: Style) {
    if let Some((low, high)) = paper.range {
        canvas.vertical_bar(at, low, high, style.ink);
    }
    canvas.mark((at, paper.value), Style { mark: Mark::Diamond, ..style }, 4.5, false);
    canvas.text((at, paper.value), (8.0, 0.0), nearest, Ink::Muted, SMALL, HPos::Left);
}

/// Draws the share of values up to each value, one line for each series.
pub fn distribution(gathered: &Gathered<'_>) -> Option<Plot> {
    let all = || gathered.groups.iter().flat_map(|group| group.values.iter().copied());
    let x = match gathered.is_logarithmic('x') || gathered.is_logarithmic('y') {
        true => Axis::logarithmic(all()),
        false => Axis::from_zero(all().fold(0.0, f64::max)),
    };
    let sheet = Sheet {
        subtitle: format!(
            "The height of a line is the share of the values that are at most the value below it: where it crosses 50 % is the \
             median. {}",
            gathered.subtitle()
        ),
        x_label: &gathered.label,
        y_label: "share of the values up to this one",
        ..gathered.sheet(400.0)
    };
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    Some(sheet.plot((x, &plain), (Axis::to_exactly(1.0), &percent), |canvas| {
        for (series, style) in gathered.series() {
            let steps = cumulative(&gathered.values_of(&series));
            let first = steps.first().map(|(value, _)| (*value, 0.0));
            canvas.steps(&first.into_iter().chain(steps).collect::<Vec<_>>(), style.ink, 2.0);
        }
    }))
}
