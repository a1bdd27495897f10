//! Turns the results of a run into rows.

use std::collections::BTreeMap;

use treecast_load::{combine::Cell, threshold::Threshold};
use treecast_measure::db::Row;

use super::{play::Played, search::Found};
use crate::filing::Filing;

/// The measures of a run, with their units.
pub const MEASURES: &[(&str, &str)] = &[
    // Of each receiver, over all senders.
    ("lost", ""),
    ("invalid", "packets"),
    ("reordered", "packets"),
    ("duplicates", "packets"),
    ("late", "packets"),
    ("kernel_dropped", "packets"),
    // Of each receiver, for each sender of whose packets something was lost, reordered or doubled.
    ("pair_lost", "packets"),
    // Of each sender.
    ("asked_rate", "packets/s"),
    ("real_rate", "packets/s"),
    // Of each host.
    ("host_user", ""),
    ("host_system", ""),
    ("host_processor", ""),
    ("vanished", ""),
    // Of the whole run.
    ("valid", ""),
    ("host_processor_mean", ""),
    ("first_switch_frames", "packets"),
    ("second_switch_frames", "packets"),
    ("packets_sent", "packets"),
    ("packets_expected", "packets"),
    ("packets_lost", "packets"),
    ("packets_invalid", "packets"),
    ("packets_reordered", "packets"),
    ("packets_duplicate", "packets"),
    ("loss_share", ""),
    ("run_length", "packets"),
    ("run_length_max", "packets"),
    ("single_losses", ""),
    ("lost_everywhere", "packets"),
    ("lost_at_one", "packets"),
    ("frames_sent", "packets"),
    ("queue_drops", "packets"),
    ("kernel_drops", "packets"),
    ("machine_user", ""),
    ("machine_nice", ""),
    ("machine_system", ""),
    ("switch_processor", ""),
    ("trial_busy", ""),
    ("frames_computed", "packets"),
    ("frames_ratio", ""),
    // Of a search.
    ("threshold", ""),
    ("threshold_broke", ""),
    ("predicted", ""),
    ("agreement", ""),
    ("machine_limited", ""),
    ("cables_explain", ""),
    ("trials", ""),
];

/// Returns the rows of a run.
pub fn rows(found: &Found) -> Filing {
    let played = &found.played;
    let mut filing = Filing::default();
    of_receivers(&mut filing, played);
    of_hosts(&mut filing, played);
    of_run(&mut filing, played);
    if let Some(predicted) = found.predicted {
        filing.run("predicted", predicted, "");
    }
    if let Some(threshold) = &found.threshold {
        of_threshold(&mut filing, threshold, found.predicted);
    }
    filing
}

fn of_receivers(filing: &mut Filing, played: &Played) {
    let mut by_receiver: BTreeMap<&str, Vec<&Cell>> = BTreeMap::new();
    for cell in played.combined.matrix.iter().filter(|cell| !cell.is_own) {
        by_receiver.entry(&cell.receiver).or_default().push(cell);
    }
    for (receiver, cells) in by_receiver {
        let sum = |of: fn(&Cell) -> u64| cells.iter().map(|cell| of(cell)).sum::<u64>() as f64;
        let expected = sum(|cell| cell.pair.counts.expected).max(1.0);
        filing.node(
            receiver,
            "lost",
            sum(|cell| cell.pair.counts.lost + cell.pair.counts.late) / expected,
            "",
        );
        filing.node(receiver, "invalid", sum(|cell| cell.pair.counts.invalid), "packets");
        filing.node(receiver, "reordered", sum(|cell| cell.pair.counts.reordered), "packets");
        filing.node(receiver, "duplicates", sum(|cell| cell.pair.counts.duplicates), "packets");
        filing.node(receiver, "late", sum(|cell| cell.pair.counts.late), "packets");
        for cell in cells.iter().filter(|cell| cell.pair.counts.invalid + cell.pair.counts.duplicates > 0) {
            let sender = cell.sender_host.clone().unwrap_or_else(|| cell.pair.sender.to_string());
            let lost = Row::of_run("pair_lost", cell.pair.counts.lost as f64, "packets");
            let row = Row { note: format!("from {sender}"), ..lost };
            filing.rows.push((Some(receiver.to_owned()), row));
        }
    }
}

fn of_hosts(filing: &mut Filing, played: &Played) {
    let seconds = played.lasted.as_secs_f64();
    for host in &played.combined.hosts {
        if !host.has_reported {
            filing.node(&host.host, "vanished", 1.0, "");
            continue;
        }
        filing.node(&host.host, "kernel_dropped", host.kernel_dropped as f64, "packets");
        if host.asked > 0 {
            filing.node(&host.host, "asked_rate", host.asked as f64 / seconds, "packets/s");
            filing.node(&host.host, "real_rate", host.sent as f64 / seconds, "packets/s");
        }
    }
    for (host, user, system) in &played.hosts {
        filing.node(host, "host_user", *user, "");
        filing.node(host, "host_system", *system, "");
        filing.node(host, "host_processor", user + system, "");
    }
    for (switch, load) in &played.switches {
        match load {
            Ok(load) => {
                let row = Row { note: format!("of {switch}"), ..Row::of_run("switch_processor", *load, "") };
                filing.rows.push((None, row));
            }
            Err(why) => filing.lacking(None, "switch_processor", "", &format!("{switch}: {why}")),
        }
    }
}

fn of_run(filing: &mut Filing, played: &Played) {
    let totals = &played.combined.totals;
    let sent: u64 = played.combined.hosts.iter().map(|host| host.sent).sum();
    let kernel_drops: u64 = played.combined.hosts.iter().map(|host| host.kernel_dropped).sum();
    for (measure, value) in [
        ("packets_sent", sent),
        ("packets_expected", totals.expected),
        ("packets_lost", totals.lost + totals.late),
        ("packets_invalid", totals.invalid),
        ("packets_reordered", totals.reordered),
        ("packets_duplicate", totals.duplicates),
        ("queue_drops", played.dropped_packets),
        ("kernel_drops", kernel_drops),
    ] {
        filing.run(measure, value as f64, "packets");
    }
    filing.run("loss_share", played.lost(), "");
    // The paper's word for a rate at which nothing is lost or reordered (5.1).
    let is_whole = played.combined.hosts.iter().all(|host| host.has_reported);
    match is_whole {
        true => filing.run("valid", f64::from(u8::from(totals.invalid == 0)), ""),
        false => filing.lacking(None, "valid", "", "a host vanished in mid-run"),
    }
    let hosts = played.hosts.len().max(1) as f64;
    let processor: f64 = played.hosts.iter().map(|(_, user, system)| user + system).sum();
    filing.run("host_processor_mean", processor / hosts, "");
    of_run_lengths(filing, played);
    of_frames(filing, played);
    let processors = &played.processors;
    filing.run("machine_user", processors.user, "");
    filing.run("machine_nice", processors.nice, "");
    filing.run("machine_system", processors.system, "");
    filing.run("trial_busy", processors.busy(), "");
    // The bridges of a lab forward in soft interrupts. A real switch tells by SNMP.
    if played.switches.is_empty() {
        filing.run("switch_processor", processors.forwarding, "");
    }
}

/// The lengths of runs of lost packets, and where they were lost.
fn of_run_lengths(filing: &mut Filing, played: &Played) {
    let mut runs: BTreeMap<u64, u64> = BTreeMap::new();
    let others = || played.combined.matrix.iter().filter(|cell| !cell.is_own);
    for rate in others().flat_map(|cell| &cell.pair.rates) {
        rate.runs.iter().for_each(|(length, count)| *runs.entry(*length).or_default() += count);
    }
    let count: u64 = runs.values().sum();
    if count > 0 {
        let packets: u64 = runs.iter().map(|(length, count)| length * count).sum();
        filing.run("run_length", packets as f64 / count as f64, "packets");
        filing.run("single_losses", runs.get(&1).copied().unwrap_or(0) as f64 / count as f64, "");
    } else {
        filing.run("run_length", 0.0, "packets");
    }
    let longest = runs.last_key_value().map_or(0, |(length, _)| *length);
    filing.run("run_length_max", longest as f64, "packets");
    let correlations = || played.combined.groups.iter().map(|group| &group.correlation);
    let everywhere: u64 = correlations().map(|of| of.everywhere).sum();
    let at_one: u64 = correlations().flat_map(|of| of.at_one.values()).sum();
    filing.run("lost_everywhere", everywhere as f64, "packets");
    filing.run("lost_at_one", at_one as f64, "packets");
}

/// The frames that hosts and switches sent, and what the layout computes for as many packets.
fn of_frames(filing: &mut Filing, played: &Played) {
    let layout = &played.layout;
    let hosts = layout.hosts();
    let sent: u64 = played.combined.hosts.iter().map(|host| host.sent).sum();
    let packets = sent as f64 / hosts.max(1) as f64;
    for (measure, frames) in ["first_switch_frames", "second_switch_frames"].iter().zip(&played.switch_frames)
    {
        if packets > 0.0 {
            filing.run(measure, *frames as f64 / packets, "packets");
        }
    }
    let of_switches: usize = (0..layout.switches.len()).map(|switch| layout.frames_of_switch(switch)).sum();
    let frames = played.passed_packets + played.dropped_packets;
    filing.run("frames_sent", frames as f64, "packets");
    if layout.pattern == treecast_load::threshold::Pattern::ManyToMany && sent > 0 {
        // A host's own frame to its switch, and those that the switches make of it.
        let computed = (hosts + of_switches) as f64 * sent as f64 / hosts as f64;
        filing.run("frames_computed", computed, "packets");
        filing.run("frames_ratio", frames as f64 / computed, "");
    }
}

fn of_threshold(filing: &mut Filing, threshold: &Threshold, predicted: Option<f64>) {
    filing.run("trials", f64::from(threshold.trials), "");
    filing.run("machine_limited", f64::from(u8::from(threshold.is_of_machine())), "");
    filing.run("cables_explain", f64::from(u8::from(threshold.do_cables_explain())), "");
    match threshold.borne {
        Some(borne) => filing.run("threshold", borne, ""),
        None => filing.lacking(None, "threshold", "", &unborne(threshold)),
    }
    match threshold.broke {
        Some(broke) => filing.run("threshold_broke", broke, ""),
        None => filing.lacking(None, "threshold_broke", "", "the highest value that was tried was borne"),
    }
    if let Some((borne, predicted)) = threshold.borne.zip(predicted) {
        filing.run("agreement", borne / predicted, "");
    }
}

fn unborne(threshold: &Threshold) -> String {
    format!("not even {:.4} was borne", threshold.broke.unwrap_or_default())
}

/// Returns the result of a run in one sentence.
pub fn sentence(found: &Found) -> String {
    let played = &found.played;
    let limits: Vec<String> = match &found.threshold {
        Some(threshold) => threshold.limits.iter().map(ToString::to_string).collect(),
        None => played.limits.iter().map(ToString::to_string).collect(),
    };
    let limits = if limits.is_empty() { String::new() } else { format!("; {}", limits.join("; ")) };
    let predicted = |borne: f64| {
        found.predicted.map_or_else(String::new, |predicted| {
            format!(", {:.1} % of the {predicted:.4} that the links allow", borne / predicted * 100.0)
        })
    };
    match &found.threshold {
        None => {
            let totals = &played.combined.totals;
            let lost = totals.lost + totals.late;
            format!(
                "{:.4} packets/s from each sender: {lost} of {} packets lost ({:.3} %), {} reordered{limits}",
                played.rate,
                totals.expected,
                played.lost() * 100.0,
                totals.reordered,
            )
        }
        Some(threshold) => match threshold.borne {
            Some(borne) => format!("threshold {borne:.4}{}{limits}", predicted(borne)),
            None => format!("no threshold: {}{limits}", unborne(threshold)),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_threshold_that_no_rate_meets_is_a_row_without_a_value() {
        let threshold = Threshold { borne: None, broke: Some(50.0), limits: Vec::new(), trials: 3 };
        let mut filing = Filing::default();
        of_threshold(&mut filing, &threshold, Some(10.0));
        let row =
            |measure: &str| filing.rows.iter().find(|(_, row)| row.measure == measure).map(|(_, row)| row);
        assert_eq!((row("threshold").unwrap().value, row("agreement").is_none()), (None, true));
        assert_eq!(row("threshold").unwrap().note, "not even 50.0000 was borne");
    }
}
