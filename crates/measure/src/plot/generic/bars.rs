//! Bars and boxes, a row for each x and series.

use plotters::style::text_anchor::HPos;

use super::gather::{Gathered, GroupOfValues};
use crate::{
    plot::{
        Ink, Mark, Plot, Style,
        axis::{Axis, plain},
        canvas::{BODY, Canvas, LETTER, SMALL, Sheet, WIDTH},
    },
    statistics::{Summary, percentile},
    tables::three_digits,
    words::named_value,
};

/// The line that says how to read boxes.
const BOXES: &str =
    "Dot and number: the median. Box: the middle half of the values. Line: from the lowest to the highest.";
const BARS: &str = "Bar and number: the mean.";

/// The place of the words of all rows.
struct Layout {
    /// Whether each row has its words above its bar, because the sheet has no room beside it.
    is_above: bool,
    /// Whether each row names its x.
    names_x: bool,
    /// The widths left and right of the bars, in points.
    left: f64,
    right: f64,
}

impl Layout {
    fn of(gathered: &Gathered<'_>, rows: &[&GroupOfValues], heads: &[String]) -> Self {
        let widest = |words: &mut dyn Iterator<Item = usize>| words.max().unwrap_or(0) as f64;
        let series = widest(&mut rows.iter().map(|row| row.series.chars().count())) * (BODY + 0.5) * LETTER;
        let head = match heads.len() {
            0 | 1 => 0.0,
            _ => widest(&mut heads.iter().map(|head| head.chars().count())) * SMALL * LETTER + 12.0,
        };
        let papers = widest(&mut rows.iter().map(|row| words_of_paper(row).chars().count())) * SMALL * LETTER;
        let is_above = gathered.width < WIDTH;
        Self {
            is_above,
            names_x: head > 0.0,
            left: if is_above { 16.0 } else { (16.0 + series + head + 14.0).min(330.0) },
            right: (76.0 + papers).min(gathered.width / 2.0),
        }
    }

    /// The height of a row, in units of the axis of rows.
    fn row(&self) -> f64 {
        if self.is_above { 1.8 } else { 1.0 }
    }

    /// Draws the words of a row. `head` is the row's x; empty if the row before has the same.
    fn label(&self, canvas: &Canvas<'_>, y: f64, head: &str, group: &GroupOfValues) {
        let ink = group.style.ink;
        match (self.is_above, head) {
            (true, "") => canvas.row_label(y + 0.8, &group.series, ink),
            (true, head) if group.series.is_empty() => canvas.row_label(y + 0.8, head, ink),
            (true, head) => canvas.row_label(y + 0.8, &format!("{head}: {}", group.series), ink),
            (false, head) => {
                canvas.row_label(y, &group.series, ink);
                canvas.left_label(y, head);
            }
        }
    }
}

/// Draws a bar or box for each group of values, or the reason why the group has none.
pub fn plot(gathered: &Gathered<'_>, boxes: bool) -> Option<Plot> {
    let rows: Vec<&GroupOfValues> = gathered
        .groups
        .iter()
        .filter(|group| !group.values.is_empty() || !group.lacking.is_empty())
        .collect();
    if rows.is_empty() {
        return None;
    }
    let xs = gathered.distinct(|group| &group.x);
    let x_name = gathered.spec.x.as_deref().unwrap_or_default();
    let heads: Vec<String> = xs.iter().map(|x| named_value(x_name, x)).collect();
    let layout = Layout::of(gathered, &rows, &heads);
    let lines = rows.len() as f64 * layout.row() + xs.len() as f64 * 0.5;
    let sheet = Sheet {
        x_label: &gathered.label,
        y_label: "",
        left: layout.left,
        right: layout.right,
        ..gathered.sheet(150.0 + lines * 22.0)
    };
    // The labels of the rows explain the colours.
    let paper = gathered.paper_legend();
    let legend = sheet.legend.iter().filter(|(name, _)| Some(name) == paper.as_ref()).cloned().collect();
    let subtitle = format!("{} {}", if boxes { BOXES } else { BARS }, sheet.subtitle);
    let sheet = Sheet { legend, subtitle, ..sheet };
    let axis = axis(gathered, boxes);
    Some(sheet.plot((axis, &plain), (Axis::rows(lines), &plain), |canvas| {
        let mut place = lines;
        for (x, head) in xs.iter().zip(&heads) {
            for (index, group) in rows.iter().filter(|group| group.x == *x).enumerate() {
                place -= layout.row();
                let is_named = layout.names_x && (index == 0 || layout.is_above);
                layout.label(canvas, place + 0.25, if is_named { head } else { "" }, group);
                row(canvas, group, place + 0.25, boxes);
            }
            place -= 0.5;
        }
    }))
}

/// A value in digits. One that is nothing beside the highest is 0: a difference of equal values is seldom exactly 0.
fn visible(value: f64, highest: f64) -> String {
    three_digits(if value.abs() < highest.abs() * 1e-6 { 0.0 } else { value })
}

/// The paper's value behind ours, and the parameter that differs. Empty where there is no paper.
fn words_of_paper(group: &GroupOfValues) -> String {
    match &group.paper {
        None => String::new(),
        Some(paper) if paper.nearest.is_empty() => format!("; paper {}", three_digits(paper.value)),
        Some(paper) => format!("; paper {}, {}", three_digits(paper.value), paper.nearest),
    }
}

fn axis(gathered: &Gathered<'_>, boxes: bool) -> Axis {
    let papers = gathered.groups.iter().filter_map(|group| group.paper.as_ref()).map(|paper| paper.value);
    let of_group = |group: &GroupOfValues| match (boxes, Summary::of(&group.values)) {
        (true, Some(summary)) => vec![summary.min, summary.max],
        (false, Some(summary)) => vec![summary.mean],
        (_, None) => Vec::new(),
    };
    let all: Vec<f64> = gathered.groups.iter().flat_map(of_group).chain(papers).collect();
    match boxes && (gathered.is_logarithmic('x') || gathered.is_logarithmic('y')) {
        // A bar has no beginning on a logarithmic axis.
        true => Axis::logarithmic(all),
        false => Axis::around_zero(all),
    }
}

fn row(canvas: &Canvas<'_>, group: &GroupOfValues, y: f64, boxes: bool) {
    let ink = group.style.ink;
    let star = if group.is_saturated { " *" } else { "" };
    let Some(summary) = Summary::of(&group.values) else {
        let text = if group.lacking.is_empty() { "nothing measured" } else { &group.lacking };
        let text: String = text.chars().take(canvas.letters_behind(canvas.x.start())).collect();
        canvas.text((canvas.x.start(), y), (6.0, 0.0), &text, Ink::Muted, SMALL, HPos::Left);
        return;
    };
    let mut end = summary.mean;
    if boxes {
        let of = |percent: f64| percentile(&group.values, percent).unwrap_or(summary.median);
        canvas.horizontal_bar(y, 0.0, summary.min, summary.max, ink);
        canvas.filled((of(25.0), of(75.0)), y, 12.0, ink);
        canvas.mark((summary.median, y), Style { ink, mark: Mark::Circle }, 4.0, false);
        end = summary.max;
    } else {
        canvas.bar(y, summary.mean, 15.0, ink);
    }
    if let Some(paper) = &group.paper {
        canvas.mark((paper.value, y), Style { ink: Ink::Text, mark: Mark::Diamond }, 4.5, false);
    }
    let shown = if boxes { summary.median } else { summary.mean };
    let after = group.paper.as_ref().map_or(end, |paper| paper.value.max(end)).max(0.0);
    let text = format!("{}{star}{}", visible(shown, canvas.x.end()), words_of_paper(group));
    canvas.text((after, y), (9.0, 0.0), &text, Ink::Text, SMALL, HPos::Left);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_rounding_left_is_shown_as_nothing() {
        assert_eq!(
            [2e-7, -1e-8, 0.001, 26.4].map(|value| visible(value, 90.0)),
            ["0", "0", "0.00100", "26.4"]
        );
    }
}
