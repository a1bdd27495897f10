//! Use cases of the MEADcast thesis: its tables and figures beside ours.

use super::html::Page;
use crate::{
    analysis::{self, Results, UseCaseRow},
    plot::{self, OverTime, Quantity},
    tables::{Cell, Mark, Table},
};

/// The section on use cases; nothing without any.
pub fn write(page: &mut Page, results: &Results<'_>) {
    let rows = analysis::use_case_rows(&results.use_cases);
    if rows.is_empty() {
        return;
    }
    page.section("Use cases", "meadcast-thesis-2024, chapter 5 and appendix B, and the same measured here");
    let styles = page.styles().clone();
    plot::savings(&rows, &styles).into_iter().for_each(|plot| page.plot(Some(plot)));
    tables(&rows).iter().for_each(|table| page.table(table));
    super::events::write(page, &rows);
    for quantity in Quantity::ALL {
        for plot in plot::by_receivers(&rows, quantity, &styles) {
            page.plot(Some(plot));
        }
    }
    if let Some(largest) = analysis::cells(&rows).pop() {
        let of_largest: Vec<&UseCaseRow> = rows.iter().filter(|row| row.cell == largest).collect();
        for quantity in OverTime::ALL {
            page.plot(plot::over_time(&of_largest, quantity, &styles));
        }
        let discovering = with_and_without_discoveries(&of_largest);
        for quantity in OverTime::OF_DISCOVERY {
            page.plot(plot::over_time(&discovering, quantity, &styles));
        }
        page.plot(plot::by_link(&of_largest, &styles));
    }
    page.end_section();
}

/// Deliveries that discover again and again, and those that they are compared with.
fn with_and_without_discoveries<'r, 'a>(rows: &[&'r UseCaseRow<'a>]) -> Vec<&'r UseCaseRow<'a>> {
    let is_base = |name: &str| rows.iter().any(|row| row.info.base.as_deref() == Some(name));
    let is_one = |row: &&&UseCaseRow| row.info.base.is_some() || is_base(&row.info.delivery);
    rows.iter().filter(is_one).copied().collect()
}

/// The thesis' tables 5.1 to 5.5, B.1 and B.2, as far as the runs are about them.
pub fn tables(rows: &[UseCaseRow<'_>]) -> Vec<Table> {
    if rows.is_empty() {
        return Vec::new();
    }
    vec![
        saved_table(rows, "network", "Bytes on all links, saved against unicast (tables 5.1, B.1, B.2)"),
        saved_table(
            rows,
            "sender",
            "Bytes that leave the sender, saved against unicast (tables 5.2, B.1, B.2)",
        ),
        saved_table(rows, "time", "Time until all has come, saved against unicast (tables 5.3, B.1)"),
        packets_table(rows),
        processors_table(rows),
        discovery_table(rows),
        super::events::table(rows),
    ]
}

fn saved_table(rows: &[UseCaseRow<'_>], measure: &str, title: &str) -> Table {
    let columns =
        ["<LOAD", "A NET", "RECEIVERS", "<DELIVERY", "MEASURED", "SAVED", "<THESIS", "COMPUTED", "FLOOR"];
    let mut table = Table::new(title, &columns);
    table.key = Some(["ours saves at least as much as the thesis", "ours saves less"]);
    for row in rows {
        let star = if row.saturated { " *" } else { "" };
        let value = match measure {
            "network" => megabytes(row.network_bytes),
            "sender" => megabytes(row.sender_bytes),
            _ => format!("{:.2} s", row.seconds),
        };
        let part = |of: fn(&analysis::Saved) -> f64| row.saved.as_ref().map(of);
        let (saved, computed, floor) = match measure {
            "network" => (
                part(|saved| saved.network),
                part(|saved| saved.computed_network),
                part(|saved| saved.floor_network),
            ),
            "sender" => (
                part(|saved| saved.sender),
                part(|saved| saved.computed_sender),
                part(|saved| saved.floor_sender),
            ),
            _ => (part(|saved| saved.time), None, None),
        };
        table.rows.push(vec![
            row.cell.load.clone().into(),
            row.cell.receivers_per_network.to_string().into(),
            row.info.receivers.to_string().into(),
            Cell::marked(row.info.delivery.clone(), Mark::Delivery),
            format!("{value}{star}").into(),
            percent(saved).into(),
            thesis_cell(row, measure, saved),
            percent(computed).into(),
            percent(floor).into(),
        ]);
    }
    let notes = [
        "Measured: Ethernet frames by the counters of all interfaces, each counted once. Computed: what the tree says of \
         this delivery, IP packets. Floor: one copy on each link, as IP multicast at its best.",
        "The thesis' tables 5.1 to 5.3 have means of several configurations of MEADcast, B.1 and B.2 what each saved.",
        "* The machine was at its limit.",
    ];
    table.notes.extend(notes.map(String::from));
    table
}

/// What the thesis saved, with the table that says so, marked where ours saves less.
fn thesis_cell(row: &UseCaseRow<'_>, measure: &str, ours: Option<f64>) -> Cell {
    let figures = row.info.thesis.iter().filter(|figure| figure.measure == measure);
    let figures: Vec<_> = figures.collect();
    let text = figures.iter().map(|figure| format!("{:.2} % ({})", figure.saved, figure.table));
    let text = text.collect::<Vec<_>>().join(", ");
    let highest = figures.iter().map(|figure| figure.saved / 100.0).reduce(f64::max);
    match ours.zip(highest) {
        None => text.into(),
        Some((ours, theirs)) => Cell::marked(text, if ours >= theirs { Mark::Good } else { Mark::Warning }),
    }
}

fn packets_table(rows: &[UseCaseRow<'_>]) -> Table {
    let columns = [
        "<LOAD",
        "A NET",
        "<DELIVERY",
        "PACKETS",
        "LOST",
        "TWICE",
        "MEAN MS",
        "MIN",
        "MEDIAN",
        "99 %",
        "MAX",
        "JITTER",
    ];
    let mut table = Table::new("Packets at all receivers: loss and latency (figure 5.6)", &columns);
    for row in rows {
        let (measured, latency) = (row.measured, row.measured.latency);
        // Of a session's packets it is not known.
        let ms = |value: f64| match latency.max_ms {
            0.0 => Cell::from("-"),
            _ => Cell::from(format!("{value:.3}")),
        };
        table.rows.push(vec![
            row.cell.load.clone().into(),
            row.cell.receivers_per_network.to_string().into(),
            Cell::marked(row.info.delivery.clone(), Mark::Delivery),
            measured.expected.to_string().into(),
            format!("{:.4} %", measured.loss() * 100.0).into(),
            measured.duplicates.to_string().into(),
            ms(latency.mean_ms),
            ms(latency.min_ms),
            ms(latency.median_ms),
            ms(latency.p99_ms),
            ms(latency.max_ms),
            ms(latency.jitter_ms),
        ]);
    }
    table.notes.push(
        "Latency: from when the program had a datagram to send until the kernel of the receiver had it, on one clock."
            .into(),
    );
    table
}

fn processors_table(rows: &[UseCaseRow<'_>]) -> Table {
    let columns = ["<LOAD", "A NET", "<DELIVERY", "SENDER S", "MACHINE", "FORWARDING"];
    let mut table = Table::new("Processors", &columns);
    for row in rows {
        let measured = row.measured;
        let share = |share: f64| Cell::from(format!("{:.1} %", share * 100.0));
        table.rows.push(vec![
            row.cell.load.clone().into(),
            row.cell.receivers_per_network.to_string().into(),
            Cell::marked(row.info.delivery.clone(), Mark::Delivery),
            format!("{:.2}", measured.sender_cpu_ms / 1e3).into(),
            share(measured.machine_busy),
            share(measured.machine_forwarding),
        ]);
    }
    table.notes.push(
        "Sender: processor time of the sending programs. Machine: share of all processors' time in the run, other work \
         included. Forwarding: the part of it in soft interrupts, where routers forward packets."
            .into(),
    );
    table
}

/// What periodic discoveries add, beside the same delivery without.
fn discovery_table(rows: &[UseCaseRow<'_>]) -> Table {
    let columns = [
        "<LOAD",
        "A NET",
        "<DELIVERY",
        "NETWORK",
        "SENDER",
        "LATER SENDER",
        "LATENCY",
        "LATER LATENCY",
        "PEAK",
        "REQUESTS",
    ];
    let title = "What discoveries add to a delivery without them, the first one included and without (tables 5.4 and 5.5)";
    let mut table = Table::new(title, &columns);
    for row in rows {
        let Some(discovery) = row.measured.discovery else { continue };
        let base = rows.iter().find(|base| {
            base.cell == row.cell && row.info.base.as_ref().is_some_and(|name| base.info.delivery == *name)
        });
        let Some(base) = base else { continue };
        let more = |one: f64, other: f64| format!("{:+.2} %", (one / other - 1.0) * 100.0);
        let later = row.measured.later_sender_bytes().zip(base.measured.later_sender_bytes());
        let later_latency = row.measured.later_latency_ms().zip(base.measured.later_latency_ms());
        let or_none = |pair: Option<(f64, f64)>| pair.map_or("-".into(), |(one, other)| more(one, other));
        table.rows.push(vec![
            row.cell.load.clone().into(),
            row.cell.receivers_per_network.to_string().into(),
            Cell::marked(row.info.delivery.clone(), Mark::Delivery),
            more(row.network_bytes, base.network_bytes).into(),
            more(row.sender_bytes, base.sender_bytes).into(),
            or_none(later).into(),
            more(row.measured.latency.mean_ms, base.measured.latency.mean_ms).into(),
            or_none(later_latency).into(),
            row.measured.latency_peak().map_or("-".into(), |peak| format!("{peak:.2}")).into(),
            format!("{} B in {}", discovery.bytes, discovery.discoveries).into(),
        ]);
    }
    table.notes.push(
        "The thesis, on average: network +4.69 %, sender +18.36 %, without the first discovery +0.62 % and +0.42 %; latency \
         +39.57 % and +15.69 %. Peak: the mean latency of the worst second of the first discovery, as a part of that behind it."
            .into(),
    );
    table
}

fn megabytes(bytes: f64) -> String {
    format!("{:.2} MB", bytes / 1e6)
}

fn percent(share: Option<f64>) -> String {
    // Without a sign in front of nothing.
    share.map_or("-".into(), |share| format!("{:.2} %", share * 100.0).replace("-0.00 %", "0.00 %"))
}
