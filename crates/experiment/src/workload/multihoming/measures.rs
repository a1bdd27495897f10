//! Turns the results of a run into rows.

use std::{collections::BTreeMap, time::Duration};

use super::{
    keys::Transfer,
    plan::{PlannedMultihoming, PlannedTransfer},
    play::{Crossing, Played},
    probes::Probe,
    systems::Told,
    tables::Count,
};
use crate::filing::Filing;

/// The measures of a run, with their units.
pub const MEASURES: &[(&str, &str)] = &[
    // Of each tier-1 network: the largest count during the run.
    ("global_prefixes", ""),
    ("global_blocks", ""),
    ("global_stub_prefixes", ""),
    // Of each other provider.
    ("access_prefixes", ""),
    ("access_stub_prefixes", ""),
    ("access_stub_routes", ""),
    // Of the transfer.
    ("survived", ""),
    ("sent", "B"),
    ("received", "B"),
    // Of each cut.
    ("stall", "s"),
    ("stall_mended", "s"),
    ("back_on_link", "s"),
    ("restored", "s"),
    // Of each cut, at the host inside for outgoing, and at the host outside for incoming connections.
    ("reconnected", "s"),
    ("avoided", "s"),
    ("used_again", "s"),
    // Of all new connections at a host.
    ("connections", ""),
    ("failed_connections", ""),
    ("disturbed", ""),
    // Of a forger.
    ("forged", ""),
    ("refused_messages", ""),
];

/// The times at which a cut begins and ends, and when the next one begins or the transfer ends.
#[derive(Debug, Clone, Copy)]
struct Cut {
    from: Duration,
    mended: Duration,
    next: Duration,
}

/// Returns the rows of a run.
pub fn rows(planned: &PlannedMultihoming, played: &Played) -> Filing {
    let mut filing = Filing::default();
    for (router, Count { prefixes, blocks, stub_prefixes, .. }) in &played.global {
        filing.node(router, "global_prefixes", *prefixes as f64, "");
        filing.node(router, "global_blocks", *blocks as f64, "");
        filing.node(router, "global_stub_prefixes", *stub_prefixes as f64, "");
    }
    for (router, Count { prefixes, stub_prefixes, stub_routes, .. }) in &played.access {
        filing.node(router, "access_prefixes", *prefixes as f64, "");
        filing.node(router, "access_stub_prefixes", *stub_prefixes as f64, "");
        filing.node(router, "access_stub_routes", *stub_routes as f64, "");
    }
    if let (Some(crossing), Some(of_transfer)) = (&played.crossing, &planned.transfer) {
        add_crossing(&mut filing, planned, of_transfer, crossing);
    }
    filing
}

fn add_crossing(
    filing: &mut Filing,
    planned: &PlannedMultihoming,
    PlannedTransfer { transfer, prefix, .. }: &PlannedTransfer,
    crossing: &Crossing,
) {
    let transferred = &crossing.transferred;
    filing.run("survived", f64::from(u8::from(transferred.is_whole())), "");
    filing.run("sent", transferred.sent_bytes as f64, "B");
    filing.run("received", transferred.received_bytes as f64, "B");
    let hosts = [(&planned.inside, &crossing.outgoing), (&planned.outside, &crossing.incoming)];
    let cuts = cuts(transfer);
    for cut in &cuts {
        add_cut(filing, crossing, *cut, (hosts, transfer.rate_bps, prefix.is_some()));
    }
    for (host, probes) in hosts {
        filing.node(host, "connections", probes.len() as f64, "");
        let failed = probes.iter().filter(|probe| !probe.works).count();
        filing.node(host, "failed_connections", failed as f64, "");
        if prefix.is_some() {
            filing.node(host, "disturbed", disturbed(probes, &cuts) as f64, "");
        }
    }
    if let Some(forged) = crossing.forged {
        filing.run("forged", forged.iter().sum::<u64>() as f64, "");
        filing.run("refused_messages", refused(&crossing.told) as f64, "");
    }
}

/// Adds the rows of a cut. `has_prefix`: the link that is cut has a prefix of its own.
fn add_cut(
    filing: &mut Filing,
    crossing: &Crossing,
    cut: Cut,
    (hosts, rate_bps, has_prefix): ([(&String, &Vec<Probe>); 2], u64, bool),
) {
    filing.run("stall", crossing.transferred.longest_gap(cut.from, cut.mended).as_secs_f64(), "s");
    filing.run("stall_mended", crossing.transferred.longest_gap(cut.mended, cut.next).as_secs_f64(), "s");
    let back = back_on_link(&crossing.carried, cut, rate_bps);
    let mut restored = vec![back];
    file(filing, None, "back_on_link", back, "nothing came over the link again");
    for (host, probes) in hosts {
        let reconnected = since(probes, cut.from, cut.mended, |probe| probe.works);
        file(filing, Some(host), "reconnected", reconnected, "connections failed until the link was mended");
        if !has_prefix {
            continue;
        }
        let avoided = since(probes, cut.from, cut.mended, |probe| probe.uses == Some(false));
        file(filing, Some(host), "avoided", avoided, "the prefix was used until the link was mended");
        let used = since(probes, cut.mended, cut.next, |probe| probe.uses == Some(true));
        file(filing, Some(host), "used_again", used, "the prefix was not used again");
        restored.push(used);
    }
    let all = restored.into_iter().collect::<Option<Vec<_>>>().and_then(|all| all.into_iter().max());
    file(filing, None, "restored", all, "not all came back");
}

fn cuts(transfer: &Transfer) -> Vec<Cut> {
    let nexts = transfer.cuts.iter().skip(1).copied().chain([transfer.lasts]);
    let cut =
        |(from, next): (&Duration, Duration)| Cut { from: *from, mended: *from + transfer.outage, next };
    transfer.cuts.iter().zip(nexts).map(cut).collect()
}

/// Files how long something took. `None`: it did not come about.
fn file(filing: &mut Filing, node: Option<&str>, measure: &str, took: Option<Duration>, why: &str) {
    match (took, node) {
        (Some(took), Some(node)) => filing.node(node, measure, took.as_secs_f64(), "s"),
        (Some(took), None) => filing.run(measure, took.as_secs_f64(), "s"),
        (None, node) => filing.lacking(node, measure, "s", why),
    }
}

/// Returns how long after `from` the first connection began from which on all before `to` are as they should be.
fn since(
    probes: &[Probe],
    from: Duration,
    to: Duration,
    is_right: impl Fn(&Probe) -> bool,
) -> Option<Duration> {
    let during: Vec<&Probe> = probes.iter().filter(|probe| (from..to).contains(&probe.at)).collect();
    let wrong = during.iter().rposition(|probe| !is_right(probe));
    let first = during.get(wrong.map_or(0, |wrong| wrong + 1))?;
    Some(first.at - from)
}

/// Returns how long after a link was mended half of the transfer's data came over it again.
fn back_on_link(carried: &[(Duration, u64)], cut: Cut, rate_bps: u64) -> Option<Duration> {
    /// The share of the transfer's rate from which on it counts as back on the link: more than anything else brings,
    /// and less than a transfer that catches up.
    const SHARE: f64 = 0.5;
    let after = carried.windows(2).filter(|pair| pair[0].0 >= cut.mended && pair[1].0 < cut.next);
    let is_back = |pair: &&[(Duration, u64)]| {
        let (time, bytes) = (pair[1].0 - pair[0].0, pair[1].1.saturating_sub(pair[0].1));
        bytes as f64 * 8.0 >= SHARE * rate_bps as f64 * time.as_secs_f64()
    };
    after.into_iter().find(is_back).map(|pair| pair[1].0 - cut.mended)
}

/// Counts the connections that were misled, such as by a forger. While the link is up, the first connection that uses the prefix shows that
/// the stub has noticed, and each later one that avoids it is misled. While the link is cut, it is the other way round. Connections of
/// which nobody knows what they use do not count.
fn disturbed(probes: &[Probe], cuts: &[Cut]) -> usize {
    let first = cuts.first().map_or(Duration::MAX, |cut| cut.from);
    let wrong = |from: Duration, to: Duration, expected: bool| {
        let during = probes.iter().filter(|probe| (from..to).contains(&probe.at));
        let from_first = during.skip_while(|probe| probe.uses != Some(expected));
        from_first.filter(|probe| probe.uses == Some(!expected)).count()
    };
    let of_cut = |cut: &Cut| wrong(cut.from, cut.mended, false) + wrong(cut.mended, cut.next, true);
    wrong(Duration::ZERO, first, true) + cuts.iter().map(of_cut).sum::<usize>()
}

/// Counts the messages that the stub's systems have not believed. A system tells now and then how many it were for a reason.
fn refused(told: &[Told]) -> u64 {
    let mut counts: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for told in told.iter().filter(|told| told.event == "dropped") {
        let text = |key: &str| told.fields.get(key).and_then(serde_json::Value::as_str).unwrap_or_default();
        let count = told.fields.get("count").and_then(serde_json::Value::as_u64).unwrap_or(1);
        let known = counts.entry((&told.node, text("reason"))).or_default();
        *known = count.max(*known);
    }
    counts.values().sum()
}

/// Says in a line what came of a run.
pub fn sentence(filing: &Filing) -> String {
    let most = |measure: &str| {
        let values = filing.rows.iter().filter(|(_, row)| row.measure == measure);
        values.filter_map(|(_, row)| row.value).reduce(f64::max)
    };
    let told = |value: Option<f64>| value.map_or_else(|| "never".into(), |value| format!("{value:.2} s"));
    let global = most("global_prefixes").unwrap_or(0.0);
    let stubs = most("global_stub_prefixes").unwrap_or(0.0);
    let tables = format!("{global} prefixes in the largest global table, {stubs} of stubs");
    match filing.value("survived") {
        None => tables,
        Some(survived) => {
            let survives = if survived > 0.0 { "survived" } else { "broke" };
            let avoided = match most("avoided") {
                Some(avoided) => format!(", discouraged addresses avoided after {avoided:.2} s"),
                None => String::new(),
            };
            let stall = told(most("stall"));
            format!("the transfer {survives}, stalled {stall} at most{avoided}; {tables}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    fn probes(told: &[(f64, bool)]) -> Vec<Probe> {
        let probe = |(at, uses): &(f64, bool)| Probe { at: seconds(*at), uses: Some(*uses), works: true };
        told.iter().map(probe).collect()
    }

    const CUT: Cut =
        Cut { from: Duration::from_secs(10), mended: Duration::from_secs(20), next: Duration::from_secs(30) };

    #[test]
    fn a_prefix_is_avoided_from_its_last_use_on() {
        let all =
            probes(&[(9.0, true), (10.5, false), (11.0, true), (11.5, false), (19.0, false), (21.0, true)]);
        let avoids = |probe: &Probe| probe.uses == Some(false);
        assert_eq!(since(&all, CUT.from, CUT.mended, avoids), Some(seconds(1.5)));
        assert_eq!(since(&all[..3], CUT.from, CUT.mended, avoids), None, "used to the end");
        assert_eq!(since(&[], CUT.from, CUT.mended, avoids), None, "nobody has looked");
    }

    #[test]
    fn the_link_carries_data_again_when_half_of_the_pace_comes() {
        let carried: Vec<(Duration, u64)> =
            [(19.9, 0), (20.1, 0), (20.2, 100), (20.3, 100_100), (20.4, 220_000)]
                .map(|(at, bytes)| (seconds(at), bytes))
                .into();
        assert_eq!(back_on_link(&carried, CUT, 10_000_000).unwrap().as_millis(), 300);
        assert_eq!(back_on_link(&carried[..3], CUT, 10_000_000), None);
    }

    #[test]
    fn connections_that_change_without_a_reason_are_disturbed() {
        let quiet = probes(&[(1.0, true), (11.0, true), (12.0, false), (21.0, false), (22.0, true)]);
        assert_eq!(disturbed(&quiet, &[CUT]), 0);
        let forged =
            probes(&[(1.0, true), (2.0, false), (12.0, false), (13.0, true), (22.0, true), (23.0, false)]);
        assert_eq!(disturbed(&forged, &[CUT]), 3);
    }
}
