//! Figures 2.1 to 2.3: bytes and products by minute of a day, and the feed tree.

use std::collections::{BTreeMap, BTreeSet};

use treecast_measure::plot::{Axis, Ink, Mark, Plot, Sheet, Style, plain};

use crate::analysis::{FeedReport, Minute, clock_time};

const DAY_MINUTES: i64 = 1440;

/// The plots of a feed: two of its busiest day, and its tree if the log names one.
pub fn plots(report: &FeedReport) -> Vec<Plot> {
    let busiest = report.minutes.iter().max_by_key(|(_, minute)| minute.bytes);
    let start = busiest.map(|(number, _)| number - number.rem_euclid(DAY_MINUTES));
    let by_minute = start.into_iter().flat_map(|start| {
        [
            by_minute(report, start, "bytes", "MB a minute", &|minute| minute.bytes as f64 / 1e6),
            by_minute(report, start, "products", "products a minute", &|minute| minute.products as f64),
        ]
    });
    by_minute.chain(tree(report)).collect()
}

/// One curve of figure 2.1 or 2.3.
fn by_minute(
    report: &FeedReport,
    start: i64,
    what: &str,
    y_label: &str,
    value: &dyn Fn(&Minute) -> f64,
) -> Plot {
    let points: Vec<(f64, f64)> = (0..DAY_MINUTES)
        .map(|minute| (minute as f64, report.minutes.get(&(start + minute)).map_or(0.0, value)))
        .collect();
    let most = points.iter().map(|(_, value)| *value).fold(0.0, f64::max);
    let day = report.days.days.iter().find(|day| day.day == treecast_measure::date::day(start * 60));
    let day = day.map_or("", |day| day.day.as_str());
    let sheet = Sheet {
        name: format!("{}-{what}", report.feed),
        title: format!("{}: {what} by minute on {day}", report.feed),
        subtitle: "The day with the busiest minute, in UTC.".into(),
        x_label: "time of day",
        y_label,
        left: 76.0,
        ..Sheet::default()
    };
    let ticks: Vec<f64> = (0..=24).step_by(3).map(|hour| f64::from(hour) * 60.0).collect();
    let time = |minute: f64| clock_time(minute as i64);
    sheet.plot((Axis::from_zero_at(&ticks), &time), (Axis::from_zero(most), &plain), |canvas| {
        canvas.line(&points, Ink::Series(0), 1.0);
    })
}

/// Figure 2.2 without its map: roots above middle nodes above leaves, with a line for each connection.
fn tree(report: &FeedReport) -> Option<Plot> {
    let upstream: BTreeSet<&str> = report.links.iter().map(|(up, _)| up.as_str()).collect();
    let fed: BTreeSet<&str> = report.links.iter().map(|(_, down)| down.as_str()).collect();
    let mut rows: [Vec<&str>; 3] = Default::default();
    for host in upstream.union(&fed) {
        rows[usize::from(upstream.contains(host)) + usize::from(!fed.contains(host))].push(host);
    }
    let mut places = BTreeMap::new();
    for (row, hosts) in rows.iter().enumerate() {
        for (at, host) in hosts.iter().enumerate() {
            places.insert(*host, ((at as f64 + 0.5) / hosts.len() as f64, row as f64 + 0.5));
        }
    }
    let style = |row: usize| Style { ink: Ink::Series(row), mark: Mark::Circle };
    let names = ["leaf", "middle", "root"];
    let legend = names.iter().enumerate().rev();
    let sheet = Sheet {
        name: format!("{}-tree", report.feed),
        title: format!("{}: feed tree", report.feed),
        subtitle: format!("{} hosts, {} connections.", places.len(), report.links.len()),
        legend: legend.map(|(row, name)| (format!("{}: {}", name, rows[row].len()), style(row))).collect(),
        ..Sheet::default()
    };
    let no_text = |_: f64| String::new();
    let plot = || {
        sheet.plot((Axis::rows(1.0), &no_text), (Axis::rows(3.0), &no_text), |canvas| {
            for (up, down) in &report.links {
                canvas.line(&[places[up.as_str()], places[down.as_str()]], Ink::Grid, 0.5);
            }
            for (row, hosts) in rows.iter().enumerate() {
                hosts.iter().for_each(|host| canvas.mark(places[host], style(row), 3.0, true));
            }
        })
    };
    (!report.links.is_empty()).then(plot)
}
