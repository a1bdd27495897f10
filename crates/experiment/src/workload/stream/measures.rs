//! Turns the results of a stream's run into rows and series.

use std::time::Duration;

use treecast_measure::db::Row;

use super::{plan::PlannedStream, play::Played, traffic::Tally};
use crate::{
    carried::Carried,
    filing::{Filing, Series},
    plan::Planned,
};

/// The measures of a stream, with their units.
pub const MEASURES: &[(&str, &str)] = &[
    ("time", "s"),
    ("lost", ""),
    ("silence", "s"),
    ("came", "packets"),
    ("expected", "packets"),
    ("duplicates", "packets"),
    ("latency_mean", "s"),
    ("latency_min", "s"),
    ("latency_median", "s"),
    ("latency_p99", "s"),
    ("latency_max", "s"),
    ("latency_peak", ""),
    ("later_latency", "s"),
    ("later_sender_rate", "B/s"),
    ("jitter", "s"),
    ("later_lost", ""),
    ("discoveries", ""),
    ("discovery_bytes", "B"),
    ("discovery_share", ""),
    ("discovery_refused", "packets"),
    ("groups", ""),
    ("computed_network_bytes", "B"),
    ("computed_sender_bytes", "B"),
    ("floor_network_bytes", "B"),
    ("floor_sender_bytes", "B"),
    ("sender_processor", "s"),
];

/// The series of a stream, with their units: a point for each second of its traffic.
pub const SERIES: &[(&str, &str)] =
    &[("latency", "s"), ("highest_latency", "s"), ("lost", "%"), ("stream_sender_rate", "B/s")];

/// One second of a run, from the first datagram on.
struct Second {
    came: u64,
    /// The share of the datagrams sent in it that never came.
    lost: f64,
    latency_mean: f64,
    latency_max: f64,
    sender_bytes: f64,
}

/// Returns the rows and series of a run. `began` is when the traffic began, counted from the run's start.
pub fn rows(
    planned: &Planned,
    stream: &PlannedStream,
    receivers: &[String],
    played: &Played,
    carried: &Carried,
    began: Duration,
) -> Filing {
    let all = played.together();
    let copies = planned.clients();
    let sent = u64::from(played.sent.packets);
    let expected = sent * copies as u64;
    let mut rows: Vec<(Option<String>, Row)> = Vec::new();
    for (receiver, tally) in receivers.iter().zip(&played.tallies) {
        let flows = planned.groups.iter().filter(|group| group.receivers.contains(receiver)).count() as u64;
        rows.extend(of_receiver(tally, sent * flows, played).map(|row| (Some(receiver.clone()), row)));
    }
    let seconds = seconds(stream, played, &all, carried, began, copies);
    let of_run = |measure: &str, value: f64, unit: &str| (None, Row::of_run(measure, value, unit));
    rows.extend([
        of_run("came", all.packets as f64, "packets"),
        of_run("expected", expected as f64, "packets"),
        of_run("duplicates", all.duplicates as f64, "packets"),
        of_run("computed_network_bytes", stream.computed.network as f64, "B"),
        of_run("computed_sender_bytes", stream.computed.sender as f64, "B"),
        of_run("floor_network_bytes", stream.floor.network as f64, "B"),
        of_run("floor_sender_bytes", stream.floor.sender as f64, "B"),
    ]);
    rows.extend(played.sender_cpu.map(|cpu| of_run("sender_processor", cpu.as_secs_f64(), "s")));
    if all.packets > 0 {
        let mean = all.latency_sum.as_secs_f64() / all.packets as f64;
        let jitter = all.jitter_sum.as_secs_f64() / all.jitter_count.max(1) as f64;
        rows.extend([
            of_run("latency_mean", mean, "s"),
            of_run("latency_min", all.latency_min.as_secs_f64(), "s"),
            of_run("latency_median", all.latency_at(0.5).as_secs_f64(), "s"),
            of_run("latency_p99", all.latency_at(0.99).as_secs_f64(), "s"),
            of_run("latency_max", all.latency_max.as_secs_f64(), "s"),
            of_run("jitter", jitter, "s"),
        ]);
    }
    rows.extend(of_discovery(played, &seconds, carried).into_iter().map(|row| (None, row)));
    Filing { rows, series: series(&seconds, began) }
}

fn of_receiver(tally: &Tally, expected: u64, played: &Played) -> impl Iterator<Item = Row> {
    let missing = expected.saturating_sub(tally.packets);
    let last = tally.last.saturating_sub(played.sent.began).as_secs_f64();
    let time = Row::of_run("time", last, "s");
    let silence = Row::of_run("silence", tally.longest_gap.0.as_secs_f64(), "s");
    [
        if tally.packets > 0 { time } else { time.lacking("nothing came") },
        Row::of_run("lost", missing as f64 / expected.max(1) as f64, ""),
        // A sender that dies leaves all receivers at the same time, and none of them in silence.
        match missing {
            0 => silence,
            _ => silence.lacking(format!("{missing} of {expected} packets did not come")),
        },
    ]
    .into_iter()
}

fn seconds(
    stream: &PlannedStream,
    played: &Played,
    all: &Tally,
    carried: &Carried,
    began: Duration,
    copies: usize,
) -> Vec<Second> {
    let second = |(index, of): (usize, &super::traffic::Second)| Second {
        came: of.packets,
        lost: played.loss_in(copies, stream.interval, index),
        latency_mean: of.latency_sum.as_secs_f64() / of.packets.max(1) as f64,
        latency_max: of.latency_max.as_secs_f64(),
        sender_bytes: carried.sender_in_second(began, index),
    };
    all.seconds.iter().enumerate().map(second).collect()
}

/// The cost of looking for routers: of all discoveries, and behind the first one.
fn of_discovery(played: &Played, seconds: &[Second], carried: &Carried) -> Vec<Row> {
    let Some(discovery) = played.discovery else { return Vec::new() };
    let mut rows = vec![
        Row::of_run("groups", discovery.groups as f64, ""),
        Row::of_run("discoveries", discovery.discoveries as f64, ""),
        Row::of_run("discovery_bytes", discovery.bytes as f64, "B"),
        Row::of_run("discovery_refused", discovery.refused as f64, "packets"),
    ];
    if discovery.discoveries > 0 && carried.sender > 0 {
        let later =
            discovery.bytes as f64 * (discovery.discoveries - 1) as f64 / discovery.discoveries as f64;
        rows.push(Row::of_run("discovery_share", later / carried.sender as f64, ""));
    }
    // The whole seconds behind the first discovery, when the group that it made is in place.
    let first_later = (discovery.first_over.as_secs_f64().ceil() as usize).min(seconds.len());
    let whole = played.sent.lasted.as_secs() as usize;
    let later = &seconds[first_later..whole.clamp(first_later, seconds.len())];
    if !later.is_empty() {
        let lost = later.iter().map(|second| second.lost).sum::<f64>() / later.len() as f64;
        rows.push(Row::of_run("later_lost", lost, ""));
        let sent = later.iter().map(|second| second.sender_bytes).sum::<f64>() / later.len() as f64;
        rows.push(Row::of_run("later_sender_rate", sent, "B/s"));
    }
    let came: u64 = later.iter().map(|second| second.came).sum();
    let sum: f64 = later.iter().map(|second| second.latency_mean * second.came as f64).sum();
    if came > 0 {
        rows.push(Row::of_run("later_latency", sum / came as f64, "s"));
    }
    let peak = seconds[..first_later].iter().map(|second| second.latency_mean).reduce(f64::max);
    if let Some(peak) = peak.filter(|_| came > 0) {
        rows.push(Row::of_run("latency_peak", peak / (sum / came as f64), ""));
    }
    rows
}

fn series(seconds: &[Second], began: Duration) -> Vec<Series> {
    let at = |index: usize| began.as_secs_f64() + index as f64 + 0.5;
    let points = |value: fn(&Second) -> f64| {
        seconds.iter().enumerate().map(|(index, second)| (at(index), value(second))).collect()
    };
    let values: [fn(&Second) -> f64; 4] = [
        |second| second.latency_mean,
        |second| second.latency_max,
        |second| 100.0 * second.lost,
        |second| second.sender_bytes,
    ];
    Series::of(SERIES, values.map(points))
}

/// Returns the result of a run in one sentence.
pub fn sentence(filing: &Filing, carried: &Carried, played: &Played) -> String {
    let megabytes = |bytes: u64| bytes as f64 / 1e6;
    let time = filing.rows.iter().filter(|(_, row)| row.measure == "time").filter_map(|(_, row)| row.value);
    let time = time.fold(0.0, f64::max);
    let latency = filing
        .value("latency_mean")
        .zip(filing.value("latency_p99"))
        .map_or_else(String::new, |(mean, p99)| {
            format!(", latency {:.2} ms (99 % {:.2})", mean * 1e3, p99 * 1e3)
        });
    let worst = filing.rows.iter().filter(|(_, row)| row.measure == "lost");
    let worst =
        worst.max_by(|(_, one), (_, other)| one.value.unwrap_or(0.0).total_cmp(&other.value.unwrap_or(0.0)));
    let worst = worst.filter(|_| !played.happened.is_empty()).map_or_else(String::new, |(node, row)| {
        let name = node.as_deref().unwrap_or_default();
        format!("; {name} lost most, {:.2} %", row.value.unwrap_or(0.0) * 100.0)
    });
    format!(
        "{:.1} MB on all links, {:.1} MB from the sender, {time:.2} s, {:.3} % lost{latency}{worst}",
        megabytes(carried.network),
        megabytes(carried.sender),
        lost(filing) * 100.0,
    )
}

/// Returns the share of the datagrams that did not arrive, over all receivers.
pub fn lost(filing: &Filing) -> f64 {
    1.0 - filing.value("came").unwrap_or(0.0) / filing.value("expected").unwrap_or(0.0).max(1.0)
}
