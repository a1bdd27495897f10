//! What happened while a run went on.

use super::{
    Ink, Mark, Plot, Style,
    axis::{Axis, plain},
    canvas::Sheet,
    style_of,
};
use crate::{
    analysis::{Rate, RouterTraffic, RunTime, Setting},
    db::RunInfo,
    series::Counter,
    statistics, tables,
};

/// More dots than these are no dots any more.
const MAX_DOTS: usize = 80;

/// Megabytes a second that the server sent in one run of each delivery; `None` without samples.
pub fn server_rate(runs: &[(String, Vec<Rate>)], setting: &Setting, schedule: &str) -> Option<Plot> {
    // A rate holds from one sample to the next: a short run has but two samples.
    let points = |rates: &[Rate]| -> Vec<(f64, f64)> {
        let ends = |rate: &Rate| [rate.from, rate.to].map(|at| (at.as_secs_f64(), rate.per_second / 1e6));
        rates.iter().flat_map(ends).collect()
    };
    let (longest, most) = extent(runs.iter().flat_map(|(_, rates)| points(rates)))?;
    let sheet = Sheet {
        name: format!("server-rate-{}-{}", setting.topology, setting.size_bytes),
        title: format!("What the server sends while a run goes on: {setting}, {schedule}"),
        subtitle: "The first run of each delivery; bytes on the server's interface.".into(),
        x_label: "seconds since the run's start",
        y_label: "MB/s (10⁶ bytes)",
        legend: runs.iter().map(|(delivery, _)| (delivery.clone(), style_of(delivery))).collect(),
        ..Sheet::default()
    };
    Some(sheet.plot((Axis::from_zero(longest), &plain), (Axis::from_zero(most), &plain), |canvas| {
        for (delivery, rates) in runs {
            canvas.line(&points(rates), style_of(delivery).ink, 1.75);
        }
    }))
}

/// Into and out of the routers of one run: a colour a router, a line for what comes in from the
/// server's side, dots for what goes on towards the clients. Lines get thinner along the way, as in a
/// network that loses nothing they lie upon each other.
pub fn router_traffic(info: &RunInfo, traffic: &RouterTraffic) -> Option<Plot> {
    let points = |column: usize| -> Vec<(f64, f64)> {
        traffic.rows.iter().map(|(at, rates)| (at.as_secs_f64(), rates[column])).collect()
    };
    // The first row's rates hold from the start: a short run has but one row.
    let line = |column: usize| -> Vec<(f64, f64)> {
        let points = points(column);
        let start = points.first().map(|(_, rate)| (0.0, *rate));
        start.into_iter().chain(points).collect()
    };
    let (longest, most) = extent((0..traffic.columns.len()).flat_map(points))?;
    let styles = column_styles(traffic);
    let sheet = Sheet {
        name: format!("routers-{}-{}-{}", info.topology, info.size_bytes, info.delivery),
        title: format!(
            "Through the routers: {}, {}, {}, {}",
            info.delivery,
            info.topology,
            tables::bytes(info.size_bytes),
            info.schedule
        ),
        subtitle: "On the way from the server to the leftmost clients. Lines: in; dots: out. A wider line is nearer to the server."
            .into(),
        x_label: "seconds since the run's start",
        y_label: "MB/s (10⁶ bytes)",
        legend: traffic.columns.iter().zip(&styles).map(|(column, s)| (column.to_string(), *s)).collect(),
        ..Sheet::default()
    };
    Some(sheet.plot((Axis::from_zero(longest), &plain), (Axis::from_zero(most), &plain), |canvas| {
        for (index, (column, style)) in traffic.columns.iter().zip(&styles).enumerate() {
            if column.counter == Counter::RxBytes {
                let passed = styles[..index].iter().filter(|before| before.mark == style.mark).count();
                canvas.line(&line(index), style.ink, (6.5 - 2.25 * passed as f64).max(1.5));
            }
        }
        let step = traffic.rows.len().div_ceil(MAX_DOTS).max(1);
        for (index, style) in styles.iter().enumerate().filter(|(_, style)| style.mark == Mark::Circle) {
            for point in points(index).into_iter().step_by(step) {
                canvas.mark(point, *style, 2.5, false);
            }
        }
    }))
}

/// The share of clients that had their copy by a time, when all asked at once: one line a delivery.
pub fn completions(rows: &[RunTime], setting: &Setting, schedule: &str) -> Option<Plot> {
    let mut rows: Vec<&RunTime> =
        rows.iter().filter(|row| row.key.setting == *setting && row.key.schedule == schedule).collect();
    rows.sort_by(|a, b| a.summary.mean.total_cmp(&b.summary.mean));
    let slowest = rows.iter().map(|row| row.summary.max).reduce(f64::max)?;
    let fastest = rows.iter().map(|row| row.summary.min).fold(slowest, f64::min);
    let sheet = Sheet {
        name: format!("completions-{}-{}-{schedule}", setting.topology, setting.size_bytes),
        title: format!("Clients that have their copy, over time: {setting}, {schedule}"),
        subtitle: "All runs; each step is one client's checked copy.".into(),
        x_label: "seconds since the client asked (logarithmic)",
        y_label: "share of clients",
        legend: rows.iter().map(|row| (row.key.delivery.clone(), style_of(&row.key.delivery))).collect(),
        ..Sheet::default()
    };
    let x = Axis::logarithmic([fastest, slowest]);
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    Some(sheet.plot((x, &plain), (Axis::to_exactly(1.0), &percent), |canvas| {
        for row in &rows {
            let mut steps = vec![(row.summary.min, 0.0)];
            steps.extend(statistics::cumulative(&row.seconds));
            canvas.steps(&steps, style_of(&row.key.delivery).ink, 2.0);
        }
    }))
}

fn column_styles(traffic: &RouterTraffic) -> Vec<Style> {
    let mut routers: Vec<&str> = Vec::new();
    let mut styles = Vec::new();
    for column in &traffic.columns {
        if !routers.contains(&column.router.as_str()) {
            routers.push(&column.router);
        }
        let mark = if column.counter == Counter::RxBytes { Mark::Square } else { Mark::Circle };
        // Blue, vermilion, green: as far apart as the palette has them.
        let ink = Ink::Series([0, 3, 1, 4, 2, 5, 6, 7][(routers.len() - 1) % 8]);
        styles.push(Style { ink, mark });
    }
    styles
}

/// The largest x and y; `None` when there are no points.
fn extent(points: impl Iterator<Item = (f64, f64)>) -> Option<(f64, f64)> {
    points.reduce(|(x, y), (other_x, other_y)| (x.max(other_x), y.max(other_y)))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_run_of_two_samples_is_a_line() {
        let setting = Setting { topology: "L3".into(), size_bytes: 1 };
        let rate = Rate { from: Duration::ZERO, to: Duration::from_millis(50), per_second: 1e6 };
        let plot = server_rate(&[("nack".into(), vec![rate])], &setting, "immediate").unwrap();
        let lines =
            plot.svg.lines().filter(|line| line.contains("<polyline") && line.contains("stroke-width=\"7\""));
        let points = lines.filter_map(|line| line.split_once("points=\"")?.1.split_once('"'));
        let points = points.map(|(points, _)| points.split_whitespace().collect::<Vec<_>>());
        assert!(points.into_iter().any(|points| points.len() == 2 && points[0] != points[1]), "{}", plot.svg);
        assert_eq!(server_rate(&[("nack".into(), Vec::new())], &setting, "immediate"), None);
    }
}
