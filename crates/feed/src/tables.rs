//! A report as tables.

use treecast_measure::{
    Summary,
    tables::{Table, quantity, three_digits},
};

use crate::analysis::{FeedReport, Report};

/// The number of sites whose access links a table shows.
const SHOWN_SITES: usize = 10;

/// The lines of the logs, and the first wrong ones. `None` if none is wrong.
pub fn wrong_lines(report: &Report) -> Option<Table> {
    let lines = report.lines;
    let all = lines.products + lines.links + lines.other + lines.wrong;
    let mut table = Table::new(
        format!("Wrong lines: {} of {all}", lines.wrong),
        &["LINE", "<FIELD", "<VALUE", "<EXPECTED"],
    );
    for wrong in &report.wrong {
        let error = &wrong.error;
        let value = error.value.escape_debug().to_string();
        table.rows.push(vec![
            wrong.line.to_string().into(),
            error.field.into(),
            value.into(),
            error.expected.into(),
        ]);
    }
    (lines.wrong > 0).then_some(table)
}

/// All tables on a feed.
pub fn feed(report: &FeedReport) -> Vec<Table> {
    let mut tables = vec![by_day(report), over_days(report), silences(report), sizes(report)];
    if report.tree.nodes > 0 {
        tables.extend([tree(report), access_links(report)]);
    }
    tables
}

fn bytes(value: f64) -> String {
    quantity(value, "B")
}

fn by_day(report: &FeedReport) -> Table {
    let columns =
        ["<DAY", "BYTES", "PRODUCTS", "MEAN SIZE", "PEAK/MIN", "PRODUCTS/MIN", "LOWEST/MIN", "<PEAKS AT"];
    let mut table = Table::new(format!("{}: volume by day", report.feed), &columns);
    for day in &report.days.days {
        table.rows.push(vec![
            day.day.as_str().into(),
            bytes(day.bytes as f64).into(),
            day.products.to_string().into(),
            bytes(day.mean_product_bytes).into(),
            bytes(day.peak_minute_bytes as f64).into(),
            day.peak_minute_products.to_string().into(),
            bytes(day.lowest_active_minute_bytes as f64).into(),
            day.peaks.join(" ").into(),
        ]);
    }
    let note = "LOWEST/MIN: the minute with the least volume in which products came and no silence of more than a \
                minute began or ended.";
    table.notes.push(note.into());
    table
}

fn over_days(report: &FeedReport) -> Table {
    let days = &report.days;
    let mut table = Table::new(format!("{}: over days", report.feed), &["<", "MEAN", "SD", "LEAST", "MOST"]);
    let mut row = |name: &str, summary: Option<Summary>, format: &dyn Fn(f64) -> String| {
        let Some(Summary { mean, standard_deviation, min, max, .. }) = summary else { return };
        let values = [mean, standard_deviation, min, max].map(|value| format(value).into());
        table.rows.push([vec![name.into()], values.into()].concat());
    };
    row("bytes a day", days.bytes, &bytes);
    row("products a day", days.products, &three_digits);
    row("mean size of a product", days.mean_product_bytes, &bytes);
    row("bytes in the busiest minute", days.peak_minute_bytes, &bytes);
    row("rate in the busiest minute", days.peak_minute_bytes, &|bytes| quantity(bytes * 8.0 / 60.0, "bit/s"));
    row("products in the busiest minute", days.peak_minute_products, &three_digits);
    table
}

fn silences(report: &FeedReport) -> Table {
    let silences = &report.silences;
    let mut table = Table::new(format!("{}: silences", report.feed), &["<BETWEEN PRODUCTS", "ALL", "A DAY"]);
    let days = report.days.days.len().max(1) as f64;
    for (name, all, a_day) in [
        ("intervals", silences.intervals, silences.intervals_a_day),
        ("longer than 1 s", silences.over_1_s, silences.over_1_s as f64 / days),
        ("longer than 60 s", silences.over_60_s, silences.over_60_s_a_day),
        ("longer than 300 s", silences.over_300_s, silences.over_300_s_a_day),
    ] {
        table.rows.push(vec![name.into(), all.to_string().into(), three_digits(a_day).into()]);
    }
    if silences.longest_seconds > 0.0 {
        let longest = format!("Longest: {} s from {}.", silences.longest_seconds, silences.longest_began);
        table.notes.push(longest);
    }
    table
}

fn sizes(report: &FeedReport) -> Table {
    let sizes = report.sizes;
    let columns = ["MEAN", "SD", "SMALLEST", "MEDIAN", "90 %", "99 %", "LARGEST"];
    let mut table = Table::new(format!("{}: sizes of products", report.feed), &columns);
    let values = [
        sizes.mean,
        sizes.standard_deviation,
        sizes.smallest,
        sizes.p50,
        sizes.p90,
        sizes.p99,
        sizes.largest,
    ];
    table.rows.push(values.map(|value| bytes(value).into()).into());
    table
}

/// Tables 2.1 and 2.2.
fn tree(report: &FeedReport) -> Table {
    let tree = &report.tree;
    let mut table = Table::new(format!("{}: feed tree", report.feed), &["<PARAMETER", "NUMBER"]);
    for (name, number) in [
        ("Total Number of Distinct Nodes", tree.nodes),
        ("Number of Root Nodes", tree.roots),
        ("Number of Middle Nodes", tree.middles),
        ("Number of Leaf Nodes", tree.leaves),
        ("Maximum Fan-out Number", tree.maximum_fanout),
    ] {
        table.rows.push(vec![name.into(), number.to_string().into()]);
    }
    table.notes.push(format!("The maximum fan-out is that of the site {}.", tree.maximum_fanout_site));
    table
}

fn access_links(report: &FeedReport) -> Table {
    let columns = ["<SITE", "FAN-OUT", "PEAK RATE"];
    let mut table =
        Table::new(format!("{}: access links, a connection for each receiver", report.feed), &columns);
    for link in report.access_links.iter().take(SHOWN_SITES) {
        table.rows.push(vec![
            link.site.as_str().into(),
            link.fanout.to_string().into(),
            quantity(link.peak_bps, "bit/s").into(),
        ]);
    }
    let more = report.access_links.len().saturating_sub(SHOWN_SITES);
    if more > 0 {
        table.notes.push(format!("{more} more sites have a smaller fan-out."));
    }
    table
}
