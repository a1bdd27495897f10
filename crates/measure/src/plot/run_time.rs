//! Plots of tables 1 to 5: how long the clients took.

use plotters::style::text_anchor::HPos;

use super::{
    Ink, Plot,
    axis::{Axis, plain},
    canvas::{Canvas, SMALL, Sheet},
    style_of,
};
use crate::{
    analysis::{RunTime, Setting},
    tables,
};

/// One row a delivery and schedule of one setting: the average, and a bar from the fastest to the
/// slowest client. `None` when there is nothing to show.
pub fn run_time_by_schedule(rows: &[RunTime], setting: &Setting) -> Option<Plot> {
    let rows: Vec<&RunTime> = rows.iter().filter(|row| row.key.setting == *setting).collect();
    let first = rows.first()?;
    let deliveries = deliveries_fastest_first(&rows);
    let one_copy = first.in_copies().map(|copies| first.summary.mean / copies);
    let values = rows.iter().flat_map(|row| [row.summary.min, row.summary.max]).chain(one_copy);
    let lines = rows.len() as f64 + deliveries.len() as f64 * 0.4;
    let sheet = Sheet {
        name: format!("run-time-{}-{}", setting.topology, setting.size_bytes),
        title: format!("How long a client waits for its checked copy: {setting}"),
        subtitle: format!(
            "{} clients{}. Mark: average; bar: fastest to slowest client. Lower is better.",
            first.clients,
            first.link_bps.map(|bps| format!(", links of {}", tables::rate(bps))).unwrap_or_default()
        ),
        height: 114.0 + lines * 21.0 + 14.0,
        x_label: "seconds (logarithmic)",
        left: 170.0,
        right: 92.0,
        ..Sheet::default()
    };
    let x = Axis::logarithmic(values);
    // Rows are counted from the top; the first half row is room for the reference's word.
    let y = Axis::rows(lines + 0.9);
    Some(sheet.plot((x, &plain), (y, &plain), |canvas| {
        if let Some(one_copy) = one_copy {
            canvas.reference(one_copy, "one copy at link rate");
        }
        let mut place = lines;
        for delivery in &deliveries {
            let mut of_delivery: Vec<_> = rows.iter().filter(|row| row.key.delivery == *delivery).collect();
            of_delivery.sort_by(|a, b| a.key.schedule.cmp(&b.key.schedule));
            for (index, row) in of_delivery.into_iter().enumerate() {
                place -= 1.0;
                draw_row(canvas, row, place + 0.4, index == 0);
            }
            place -= 0.4;
        }
    }))
}

fn draw_row(canvas: &Canvas<'_>, row: &RunTime, y: f64, first_of_delivery: bool) {
    let style = style_of(&row.key.delivery);
    if first_of_delivery {
        canvas.row_label(y, &row.key.delivery, style.ink);
    }
    let star = if row.saturated { "*" } else { "" };
    let (mean, left) = (row.summary.mean, f64::MIN_POSITIVE);
    canvas.text(
        (left, y),
        (-8.0, 0.0),
        &format!("{}{star}", row.key.schedule),
        Ink::Muted,
        SMALL,
        HPos::Right,
    );
    canvas.horizontal_bar(y, 0.0, row.summary.min, row.summary.max, style.ink);
    canvas.mark((mean, y), style, 4.5, row.key.schedule == "immediate");
    let text = format!("{} s", tables::seconds(mean));
    canvas.text((f64::MAX, y), (10.0, 0.0), &text, Ink::Text, SMALL, HPos::Left);
}

/// Run time against size, a line a delivery, for one network and schedule; `None` unless there are
/// at least two sizes.
pub fn run_time_by_size(rows: &[RunTime], topology: &str, schedule: &str) -> Option<Plot> {
    let rows: Vec<&RunTime> = rows
        .iter()
        .filter(|row| row.key.setting.topology == topology && row.key.schedule == schedule)
        .collect();
    let size = |row: &RunTime| row.key.setting.size_bytes as f64 / (1u64 << 20) as f64;
    let x = Axis::logarithmic_at(&at_least_two(rows.iter().map(|row| size(row)))?);
    let sheet = Sheet {
        name: format!("run-time-by-size-{topology}-{schedule}"),
        title: format!("How long a client waits, by size: {topology}, {schedule}"),
        x_label: "size in MiB (logarithmic)",
        ..lines_sheet(&rows)
    };
    Some(draw_lines(sheet, x, &rows, size))
}

/// Run time against the number of clients, a line a delivery, over networks with as many levels of
/// routers, for one size and schedule; `None` unless there are at least two numbers.
pub fn run_time_by_clients(
    rows: &[RunTime],
    router_levels: u32,
    size_bytes: u64,
    schedule: &str,
) -> Option<Plot> {
    let rows: Vec<&RunTime> = rows
        .iter()
        .filter(|row| row.router_levels == router_levels && row.key.setting.size_bytes == size_bytes)
        .filter(|row| row.key.schedule == schedule)
        .collect();
    let clients = |row: &RunTime| f64::from(row.clients);
    let x = Axis::from_zero_at(&at_least_two(rows.iter().map(|row| clients(row)))?);
    let network = match router_levels {
        0 => "one LAN".to_owned(),
        1 => "1 router".to_owned(),
        levels => format!("{levels} levels of routers"),
    };
    let sheet = Sheet {
        name: format!("run-time-by-clients-R{router_levels}-{size_bytes}-{schedule}"),
        title: format!(
            "How long a client waits, by number of clients: {network}, {}, {schedule}",
            tables::bytes(size_bytes)
        ),
        x_label: "clients",
        ..lines_sheet(&rows)
    };
    Some(draw_lines(sheet, x, &rows, clients))
}

fn lines_sheet(rows: &[&RunTime]) -> Sheet<'static> {
    let legend = deliveries_fastest_first(rows);
    Sheet {
        subtitle:
            "Until the copy is checked. Average; error bars: its 95 % confidence interval. Lower is better."
                .into(),
        y_label: "seconds (logarithmic)",
        legend: legend.into_iter().map(|delivery| (delivery.clone(), style_of(&delivery))).collect(),
        ..Sheet::default()
    }
}

fn draw_lines(sheet: Sheet<'_>, x: Axis, rows: &[&RunTime], x_of: impl Fn(&RunTime) -> f64) -> Plot {
    let interval = |row: &RunTime| {
        let (mean, half) = (row.summary.mean, row.summary.confidence_95);
        // An interval that reaches 0 has no place on a logarithmic axis.
        ((mean - half).max(row.summary.min.min(mean)), mean + half)
    };
    let y = Axis::logarithmic(rows.iter().flat_map(|row| [interval(row).0, interval(row).1]));
    let legend = sheet.legend.clone();
    sheet.plot((x, &plain), (y, &plain), |canvas| {
        for (delivery, style) in legend {
            let mut points: Vec<&RunTime> =
                rows.iter().copied().filter(|row| row.key.delivery == delivery).collect();
            points.sort_by(|a, b| x_of(a).total_cmp(&x_of(b)));
            let line: Vec<_> = points.iter().map(|row| (x_of(row), row.summary.mean)).collect();
            canvas.line(&line, style.ink, 2.0);
            for row in points {
                let (low, high) = interval(row);
                canvas.vertical_bar(x_of(row), low, high, style.ink);
                canvas.mark((x_of(row), row.summary.mean), style, 4.5, true);
            }
        }
    })
}

/// Deliveries by their average when all clients ask at once, or by any when they never do.
fn deliveries_fastest_first(rows: &[&RunTime]) -> Vec<String> {
    let mut deliveries: Vec<(String, f64)> = Vec::new();
    let immediate = rows.iter().filter(|row| row.key.schedule == "immediate");
    for row in immediate.chain(rows.iter()) {
        if !deliveries.iter().any(|(delivery, _)| *delivery == row.key.delivery) {
            deliveries.push((row.key.delivery.clone(), row.summary.mean));
        }
    }
    deliveries.sort_by(|a, b| a.1.total_cmp(&b.1));
    deliveries.into_iter().map(|(delivery, _)| delivery).collect()
}

/// The distinct values in ascending order; `None` when there are fewer than two.
fn at_least_two(values: impl Iterator<Item = f64>) -> Option<Vec<f64>> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    (values.len() >= 2).then_some(values)
}
