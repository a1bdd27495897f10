//! Tables of a host's results, and of several hosts'.

use std::collections::BTreeSet;

use treecast_measure::tables::{Table, quantity, three_digits};

use crate::{
    combine::{Cell, Combined, GroupMetrics},
    report::{Ending, HostReport, PairReport, RateLosses, SenderReport, Spread},
};

/// The largest number of receivers that the matrix has a column for.
const MAX_COLUMNS: usize = 12;

/// The tables of one host.
pub fn host_tables(report: &HostReport) -> Vec<Table> {
    let mut tables = Vec::new();
    if !report.senders.is_empty() {
        tables.push(sent_table(report));
    }
    if let Some(receiver) = &report.receiver {
        let mut table = received_table(receiver.pairs.iter().map(|pair| (None, pair)));
        let others = [
            (
                receiver.kernel_dropped,
                "packets were dropped by this host's kernel, before this program read them",
            ),
            (report.interface_drops.received, "packets were dropped by the interface"),
            (receiver.foreign, "datagrams were no packets of this format"),
            (receiver.implausible, "packets had numbers that cannot be right"),
        ];
        table.notes.extend(
            others.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")),
        );
        tables.push(table);
        tables.extend(runs_table(receiver.pairs.iter()));
    }
    tables
}

/// The tables of several hosts.
pub fn combined_tables(combined: &Combined) -> Vec<Table> {
    let mut tables = vec![hosts_table(combined), groups_table(combined), matrix_table(combined)];
    tables.push(received_table(combined.matrix.iter().map(|cell| (Some(cell), &cell.pair))));
    tables.extend(runs_table(combined.matrix.iter().map(|cell| &cell.pair)));
    tables
}

fn sent_table(report: &HostReport) -> Table {
    let columns = ["<SENDER", "ASKED/S", "REAL/S", "ASKED", "SENT", "LATE BY: MEAN", "99 %", "MAX"];
    let mut table = Table::new("Sent", &columns);
    for sender in &report.senders {
        table.rows.extend(sent_rows(sender));
    }
    if let Some(left) = report.on_wire {
        table.notes.push(format!("{left} packets left by {}, counted by a packet socket", report.interface));
    }
    table
}

/// One row for each step, and for several steps one for their sum.
fn sent_rows(sender: &SenderReport) -> Vec<Vec<treecast_measure::tables::Cell>> {
    let name = sender.sender.to_string();
    let late = |value: fn(&Spread) -> f64| {
        sender.deadline_error.as_ref().map_or("-".into(), |spread| microseconds(value(spread)))
    };
    let late = [late(|it| it.mean_us), late(|it| it.p99_us), late(|it| it.max_us)];
    let nothing = ["-", "-", "-"].map(str::to_owned);
    let is_single = sender.steps.len() == 1;
    let row =
        |first: &str, asked_pps: String, real_pps: String, asked: u64, sent: u64, late: &[String; 3]| {
            let counts = [first.to_owned(), asked_pps, real_pps, asked.to_string(), sent.to_string()];
            counts.iter().chain(late).map(|text| text.as_str().into()).collect()
        };
    let mut rows = Vec::new();
    for step in &sender.steps {
        let late = if is_single { &late } else { &nothing };
        rows.push(row(&name, three_digits(step.asked_pps), pps(step.real_pps), step.asked, step.sent, late));
    }
    if !is_single {
        rows.push(row(&name, "all".into(), "-".into(), sender.asked, sender.sent, &late));
    }
    rows
}

/// A rate with so many digits that 0.1 % can be seen.
fn pps(rate: f64) -> String {
    if rate < 1.0 { format!("{rate:.5}") } else { format!("{rate:.2}") }
}

fn microseconds(us: f64) -> String {
    quantity(us / 1e6, "s")
}

fn received_table<'a>(pairs: impl Iterator<Item = (Option<&'a Cell>, &'a PairReport)>) -> Table {
    let columns = [
        "<SENDER",
        "<RECEIVER",
        "SENT",
        "RECEIVED",
        "LOST",
        "LOSS",
        "LATE",
        "COPIES",
        "REORDERED",
        "INVALID",
        "LATENCY",
        "99 %",
        "JITTER",
        "<REMARK",
    ];
    let mut table = Table::new("Received", &columns);
    for (cell, pair) in pairs {
        let spread = |spread: Option<Spread>, value: fn(Spread) -> f64| {
            spread.map_or("-".into(), |spread| microseconds(value(spread)))
        };
        let row = [
            pair.sender.to_string(),
            cell.map_or("-".into(), |cell| cell.receiver.clone()),
            pair.counts.expected.to_string(),
            pair.counts.received.to_string(),
            pair.counts.lost.to_string(),
            format!("{} %", three_digits(pair.loss_ratio() * 100.0)),
            pair.counts.late.to_string(),
            pair.counts.duplicates.to_string(),
            pair.counts.reordered.to_string(),
            pair.counts.invalid.to_string(),
            spread(pair.delay.latency, |it| it.mean_us),
            spread(pair.delay.latency, |it| it.p99_us),
            spread(pair.delay.jitter, |it| it.mean_us),
            remark(pair),
        ];
        table.rows.push(row.iter().map(|text| text.as_str().into()).collect());
    }
    if table.rows.is_empty() {
        table.notes.push("no packet was heard".into());
        return table;
    }
    let title_and_notes = Table { rows: Vec::new(), ..table.clone() };
    table.tidied().unwrap_or(title_and_notes)
}

/// The remark about what is special in a session.
fn remark(pair: &PairReport) -> String {
    let mut remarks = Vec::new();
    match pair.ending {
        // Without a session, there is no end packet either.
        Ending::Vanished if pair.session.is_some() => remarks.push("fell silent".to_owned()),
        Ending::Restarted => remarks.push("ended by a restart".into()),
        Ending::Vanished | Ending::Announced | Ending::Open => {}
    }
    if pair.restart > 0 {
        remarks.push(format!("restart {}", pair.restart));
    }
    if pair.counts.missed > 0 {
        remarks.push(format!("joined after {} packets", pair.counts.missed));
    }
    if pair.counts.lost_before_first > 0 {
        remarks.push(format!("the first {} lost", pair.counts.lost_before_first));
    }
    if pair.shares_identity {
        remarks.push("identity shared".into());
    }
    if pair.counts.stale > 0 {
        remarks.push(format!("{} too old to tell", pair.counts.stale));
    }
    if pair.delay.clock_jumps > 0 {
        remarks.push(format!("clock jumped {} times", pair.delay.clock_jumps));
    }
    if pair.delay.negative > 0 {
        remarks.push("clocks differ".into());
    }
    remarks.join(", ")
}

/// The runs of losses at each rate. `None` if nothing was lost.
fn runs_table<'a>(pairs: impl Iterator<Item = &'a PairReport>) -> Option<Table> {
    let mut rates: Vec<RateLosses> = Vec::new();
    for rate in pairs.flat_map(|pair| &pair.rates) {
        match rates.iter_mut().find(|known| known.rate_pps == rate.rate_pps) {
            Some(known) => {
                known.expected += rate.expected;
                known.lost += rate.lost;
                rate.runs.iter().for_each(|(length, count)| *known.runs.entry(*length).or_default() += count);
            }
            None => rates.push(rate.clone()),
        }
    }
    rates.retain(|rate| rate.lost > 0);
    rates.sort_by(|a, b| a.rate_pps.total_cmp(&b.rate_pps));
    let mut table =
        Table::new("Losses in a row", &["RATE/S", "SENT", "LOST", "SINGLE", "LONGEST", "<LENGTH x COUNT"]);
    for rate in &rates {
        let single = rate.runs.get(&1).copied().unwrap_or(0);
        let longest = rate.runs.keys().next_back().copied().unwrap_or(0);
        let runs: Vec<_> = rate.runs.iter().map(|(length, count)| format!("{length}x{count}")).collect();
        let rate_pps = if rate.rate_pps == 0.0 { "?".into() } else { three_digits(rate.rate_pps) };
        let numbers = [rate.expected, rate.lost, single, longest].map(|number| number.to_string());
        let row = [rate_pps].into_iter().chain(numbers).chain([runs.join(" ")]);
        table.rows.push(row.map(Into::into).collect());
    }
    (!rates.is_empty()).then_some(table)
}

fn hosts_table(combined: &Combined) -> Table {
    let columns = ["<HOST", "ASKED", "SENT", "LEFT", "DROPPED: KERNEL", "INTERFACE", "FOREIGN", "<REMARK"];
    let mut table = Table::new("Hosts", &columns);
    for host in &combined.hosts {
        let remark = match (host.has_reported, host.is_met) {
            (false, _) => "told nothing".to_owned(),
            (true, false) => "could not send what was asked".into(),
            (true, true) if host.clock_jumps > 0 => "clock jumped".into(),
            (true, true) => String::new(),
        };
        let row = [
            host.host.clone(),
            host.asked.to_string(),
            host.sent.to_string(),
            host.on_wire.map_or("-".into(), |left| left.to_string()),
            host.kernel_dropped.to_string(),
            (host.interface_drops.received + host.interface_drops.sent).to_string(),
            host.foreign.to_string(),
            remark,
        ];
        table.rows.push(row.iter().map(|text| text.as_str().into()).collect());
    }
    table
}

fn groups_table(combined: &Combined) -> Table {
    let columns = [
        "<SENDER",
        "<HOST",
        "RECEIVERS",
        "LOSS",
        "RANGE",
        "DELAY",
        "RANGE",
        "JITTER",
        "LOST EVERYWHERE",
        "AT SOME",
        "AT ONE",
        "<WHICH ONE",
    ];
    let mut table = Table::new("Over the receivers on other hosts (RFC 5644)", &columns);
    for group in &combined.groups {
        table.rows.push(group_row(group).iter().map(|text| text.as_str().into()).collect());
    }
    if combined.groups.iter().any(|group| group.correlation.is_cut) {
        table.notes.push(
            "some receivers had more runs of losses than they told: where packets were lost is too low"
                .into(),
        );
    }
    table
}

fn group_row(group: &GroupMetrics) -> [String; 12] {
    let percent = |ratio: f64| format!("{} %", three_digits(ratio * 100.0));
    let time = |us: Option<f64>| us.map_or("-".into(), microseconds);
    let at_one = &group.correlation.at_one;
    let mut hosts: Vec<_> = at_one.iter().collect();
    hosts.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let hosts: Vec<_> = hosts.iter().take(4).map(|(host, count)| format!("{host} {count}")).collect();
    [
        group.sender.to_string(),
        group.sender_host.clone().unwrap_or_else(|| "?".into()),
        group.receivers.to_string(),
        percent(group.loss_ratio),
        percent(group.loss_ratio_range),
        time(group.mean_delay_us),
        time(group.mean_delay_range_us),
        time(group.mean_jitter_us),
        group.correlation.everywhere.to_string(),
        group.correlation.at_some.to_string(),
        at_one.values().sum::<u64>().to_string(),
        hosts.join(", "),
    ]
}

/// Lost and late packets of each sender at each receiver. When there are too many receivers, those with the most losses have a column.
fn matrix_table(combined: &Combined) -> Table {
    let missing = |cell: &Cell| cell.pair.counts.lost + cell.pair.counts.late;
    let names: BTreeSet<&str> = combined.matrix.iter().map(|cell| cell.receiver.as_str()).collect();
    let mut receivers: Vec<(u64, &str)> = names
        .into_iter()
        .map(|name| {
            let cells = combined.matrix.iter().filter(|cell| cell.receiver == name && !cell.is_own);
            (cells.map(missing).sum(), name)
        })
        .collect();
    let all = receivers.len();
    if all > MAX_COLUMNS {
        receivers.sort_by_key(|(lost, _)| std::cmp::Reverse(*lost));
        receivers.truncate(MAX_COLUMNS);
    }
    let columns: Vec<String> = ["<SENDER".to_owned()]
        .into_iter()
        .chain(receivers.iter().map(|(_, name)| (*name).to_owned()))
        .collect();
    let mut table = Table::new("Lost and late packets, sender by receiver", &columns);
    let mut cells = combined.matrix.iter().peekable();
    for group in &combined.groups {
        let mut row = vec![group.sender.to_string(); 1];
        row.resize(columns.len(), "-".into());
        while let Some(cell) =
            cells.next_if(|cell| (cell.pair.sender, cell.pair.session) == (group.sender, group.session))
        {
            let column = receivers.iter().position(|(_, name)| *name == cell.receiver);
            if let Some(text) = column.and_then(|column| row.get_mut(column + 1)) {
                *text = if cell.is_own { "own".into() } else { missing(cell).to_string() };
            }
        }
        table.rows.push(row.into_iter().map(Into::into).collect());
    }
    if all > MAX_COLUMNS {
        table.notes.push(format!("the {MAX_COLUMNS} of {all} receivers with the most losses"));
    }
    table
}
