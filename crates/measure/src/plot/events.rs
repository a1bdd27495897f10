//! A run in which things go wrong on purpose, second by second (meadcast-thesis-2024, figure 5.9).

use plotters::style::text_anchor::HPos;

use super::{
    Ink, Mark, Plot, Style,
    axis::{Axis, plain},
    canvas::{SMALL, Sheet},
};
use crate::analysis::{UseCaseRow, event_lines};

/// All that was watched, with a line where something happens; nothing where nothing did.
pub fn over_events(row: &UseCaseRow<'_>) -> Option<Plot> {
    let events = &row.measured.events;
    let lines = event_lines(row);
    if events.is_empty() {
        return None;
    }
    let longest = lines.iter().map(|line| line.mb_per_second.len()).max().unwrap_or(0) as f64;
    let highest = lines.iter().flat_map(|line| &line.mb_per_second).copied().fold(0.0, f64::max) * 1.1;
    let legend = lines.iter().enumerate().map(|(index, line)| (line.name.clone(), style(index)));
    let sheet = Sheet {
        name: format!("{}-{}-events", row.cell.use_case, row.info.delivery.replace([' ', ','], "-")),
        title: format!("{}: {}", row.cell.use_case, row.info.delivery),
        subtitle: "As figure 5.9 of the thesis, second by second. Thick grey: the thesis' levels, scaled to ours before."
            .into(),
        x_label: "seconds",
        y_label: "MB/s",
        legend: legend.collect(),
        ..Sheet::default()
    };
    Some(sheet.plot((Axis::from_zero(longest), &plain), (Axis::from_zero(highest), &plain), |canvas| {
        for line in &lines {
            let Some((thesis, levels)) = line.thesis.zip(line.levels) else { continue };
            let scaled = thesis.map(|level| level / thesis[0] * levels.before);
            let first = events.first().map_or(0.0, |event| event.at_s);
            let last = events.last().map_or(longest, |event| event.at_s.max(first));
            for (from, to, level) in
                [(0.0, first, scaled[0]), (first, last, scaled[1]), (last, longest, scaled[2])]
            {
                canvas.line(&[(from, level), (to, level)], Ink::Grid, 5.0);
            }
        }
        for (index, event) in events.iter().enumerate() {
            canvas.line(&[(event.at_s, 0.0), (event.at_s, highest)], Ink::Muted, 0.75);
            let at = (event.at_s, highest);
            canvas.text(
                at,
                (3.0, 10.0 + 11.0 * index as f64),
                &event.what,
                Ink::Muted,
                SMALL * 0.8,
                HPos::Left,
            );
        }
        for (index, line) in lines.iter().enumerate() {
            let seconds = line.mb_per_second.iter().enumerate();
            let points: Vec<(f64, f64)> = seconds.map(|(at, value)| (at as f64 + 0.5, *value)).collect();
            canvas.line(&points, style(index).ink, 1.75);
        }
    }))
}

fn style(index: usize) -> Style {
    let marks = [Mark::Circle, Mark::Square, Mark::Triangle, Mark::Diamond];
    Style { ink: Ink::Series([0, 3, 1, 4, 2, 5, 6, 7][index % 8]), mark: marks[index % marks.len()] }
}
