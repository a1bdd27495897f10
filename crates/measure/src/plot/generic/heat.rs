//! A heat map: a square for each pair of two parameters, with a colour and a number.

use plotters::style::text_anchor::HPos;

use super::gather::{Gathered, GroupOfValues};
use crate::{
    plot::{
        Ink, Plot,
        axis::Axis,
        canvas::{BODY, Canvas, SMALL, Sheet, WIDTH},
    },
    statistics::percentile,
    tables::three_digits,
    words::{named_value, parameter_in_words},
};

/// The width of the narrowest map, in points: below it, titles would be too small.
const LEAST_WIDTH: f64 = 450.0;

/// Draws the median of each square. A higher value has a stronger colour.
pub fn plot(gathered: &Gathered<'_>) -> Option<Plot> {
    let (columns, rows) = (gathered.distinct(|group| &group.x), gathered.distinct(|group| &group.row));
    let spec = gathered.spec;
    let words =
        |name: &Option<String>, value: &String| named_value(name.as_deref().unwrap_or_default(), value);
    let heads: Vec<String> = columns.iter().map(|value| words(&spec.x, value)).collect();
    let names: Vec<String> = rows.iter().map(|value| words(&spec.rows, value)).collect();
    let medians: Vec<f64> =
        gathered.groups.iter().filter_map(|group| percentile(&group.values, 50.0)).collect();
    let lowest = medians.iter().copied().reduce(f64::min).unwrap_or(0.0);
    let highest = medians.iter().copied().reduce(f64::max).unwrap_or(1.0);
    let shade = |value: f64| 0.06 + 0.5 * darkness(value, lowest, highest, gathered.is_logarithmic('y'));
    let longest = names.iter().map(|name| name.chars().count()).max().unwrap_or(0) as f64;
    let left = (32.0 + longest * (BODY + 0.5) * 0.6).min(300.0);
    let longest_head = heads.iter().map(|head| head.chars().count()).max().unwrap_or(0) as f64;
    // As narrow as the words allow, so that a phone shows all of it.
    let wanted = columns.len() as f64 * (longest_head * SMALL * 0.6 + 8.0).max(64.0);
    let sheet_width = (left + wanted + 20.0).clamp(LEAST_WIDTH, WIDTH);
    let sheet = Sheet {
        name: gathered.name.clone(),
        title: gathered.title.clone(),
        subtitle: subtitle(gathered),
        height: 132.0 + rows.len() as f64 * 40.0,
        width: sheet_width,
        left,
        right: 20.0,
        ..Sheet::default()
    };
    let width = (sheet_width - left - 20.0) / columns.len().max(1) as f64;
    let size = (width / (BODY * 0.62) / 4.0).clamp(0.7, 1.0) * BODY;
    let (x, y) = (Axis::rows(columns.len() as f64), Axis::rows(rows.len() as f64));
    Some(sheet.plot((x, &|_| String::new()), (y, &|_| String::new()), |canvas| {
        for (place, head) in heads.iter().enumerate() {
            canvas.text((place as f64 + 0.5, 0.0), (0.0, 16.0), head, Ink::Text, SMALL, HPos::Center);
        }
        for (place, (row, name)) in rows.iter().zip(&names).enumerate() {
            let bottom = (rows.len() - place - 1) as f64;
            canvas.row_label(bottom + 0.5, name, Ink::Text);
            for (column, x) in columns.iter().enumerate() {
                let group = gathered.groups.iter().find(|group| group.x == *x && group.row == *row);
                let Some(group) = group else { continue };
                let corner = (column as f64, bottom);
                let value = percentile(&group.values, 50.0).map(|median| (median, shade(median)));
                let told = square(canvas, corner, group, value, size);
                let unit = if value.is_some() { gathered.label.as_str() } else { "" };
                canvas.hover_square(corner, format!("{}, {name}: {told} {unit}", heads[column]).trim_end());
            }
        }
    }))
}

/// The sentences below the title: what the columns, rows, numbers and colours are.
fn subtitle(gathered: &Gathered<'_>) -> String {
    let of = |name: &Option<String>| parameter_in_words(name.as_deref().unwrap_or_default());
    let (columns, rows) = (of(&gathered.spec.x), of(&gathered.spec.rows));
    format!(
        "{}. Columns: {columns}. Rows: {rows}. Number: the median. The stronger the colour, the more. {}",
        gathered.label, gathered.subtitle
    )
}

/// Draws a square with its value and shade, or with the word for why there is none. Returns what the square tells a
/// reader who points at it.
fn square(
    canvas: &Canvas<'_>,
    corner: (f64, f64),
    group: &GroupOfValues,
    value: Option<(f64, f64)>,
    size: f64,
) -> String {
    let middle = (corner.0 + 0.5, corner.1 + 0.5);
    let Some((median, shade)) = value else {
        canvas.square(corner, Ink::Muted, 0.08);
        let text = if group.lacking.contains("refused") { "refused" } else { "failed" };
        canvas.text(middle, (0.0, 0.0), text, Ink::Muted, SMALL, HPos::Center);
        return group.lacking.clone();
    };
    canvas.square(corner, Ink::Series(0), shade);
    let star = if group.is_saturated { "*" } else { "" };
    let text = format!("{}{star}", three_digits(median));
    canvas.text(middle, (0.0, 0.0), &text, Ink::Text, size, HPos::Center);
    text
}

/// The shade of a value: 0 for the lowest value, 1 for the highest.
fn darkness(value: f64, lowest: f64, highest: f64, logarithmic: bool) -> f64 {
    let of = |value: f64| if logarithmic && lowest > 0.0 { value.ln() } else { value };
    let range = of(highest) - of(lowest);
    if range > 0.0 { ((of(value) - of(lowest)) / range).clamp(0.0, 1.0) } else { 0.5 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_value_is_the_darkest_and_equal_ones_are_alike() {
        assert_eq!(darkness(5.0, 5.0, 5.0, false), 0.5);
        assert_eq!([1.0, 10.0, 100.0].map(|value| darkness(value, 1.0, 100.0, true)), [0.0, 0.5, 1.0]);
        assert_eq!(darkness(0.0, 0.0, 8.0, true), 0.0, "no logarithm of nothing");
    }
}
