//! Feeds beside table 4.9 and figures 4.10 to 4.13 of interdomain-2013. Its hosts had links of 100 Mbit/s; the table's
//! runs are those without priority for the multicast threads.

use super::html::Page;
use crate::{
    analysis::{FeedKey, FeedRow, Results},
    plot::{self, FeedPoint, FeedQuantity},
    tables::{Cell, Mark, Table},
};

/// Where the paper has a figure for these.
const PAPER_CLIENTS: [u32; 3] = [10, 20, 30];

/// A cell of the paper's table 4.9: robustness from 0 to 1, throughput in bits a second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PaperCell {
    pub robustness: f64,
    pub throughput_bps: f64,
}

/// What the paper measured in the same configuration, with as many receivers.
pub fn paper(key: &FeedKey) -> Option<PaperCell> {
    let column = PAPER_CLIENTS.iter().position(|clients| *clients == key.clients)?;
    let same =
        |text: &str, value: f64| text.parse::<f64>().is_ok_and(|of_paper| (of_paper - value).abs() < 1e-6);
    include_str!("vcmtp_2013.tsv").lines().skip(1).find_map(|line| {
        let columns: Vec<&str> = line.split('\t').collect();
        let [load, loss, factor, figures @ ..] = &columns[..] else { return None };
        let is_same = same(load, key.load) && same(loss, key.loss) && same(factor, key.factor);
        let figure = |at: usize| figures.get(at)?.parse::<f64>().ok();
        let robustness = is_same.then(|| figure(column)).flatten()? / 100.0;
        Some(PaperCell { robustness, throughput_bps: figure(column + PAPER_CLIENTS.len())? * 1e6 })
    })
}

/// The section on feeds; nothing without any.
pub fn write(page: &mut Page, results: &Results<'_>) {
    let rows = results.feed_rows();
    if rows.is_empty() {
        return;
    }
    let about = "Robustness: the share of their objects that the slow receivers have. Throughput: that of objects above \
                 500 kB at the fast receivers, from the announcement to the checked copy (equation 4.2).";
    page.section("Objects that come one by one", about);
    for priority in priorities(&rows) {
        let of: Vec<&FeedRow> = rows.iter().filter(|row| row.key.priority == priority).collect();
        for quantity in [FeedQuantity::Robustness, FeedQuantity::Throughput] {
            page.plot(plot::feed(&points(&of, quantity), quantity, &priority));
        }
    }
    page.table(&table(&rows));
    page.end_section();
}

fn priorities(rows: &[FeedRow]) -> Vec<String> {
    let mut priorities: Vec<String> = rows.iter().map(|row| row.key.priority.clone()).collect();
    priorities.dedup();
    priorities
}

fn points(rows: &[&FeedRow], quantity: FeedQuantity) -> Vec<FeedPoint> {
    let point = |row: &&FeedRow| {
        let (summary, of_paper): (_, fn(PaperCell) -> f64) = match quantity {
            FeedQuantity::Robustness => (row.robustness?, |cell| cell.robustness * 100.0),
            FeedQuantity::Throughput => (row.throughput_bps?, |cell| cell.throughput_bps / 1e6),
        };
        let scale = if quantity == FeedQuantity::Robustness { 100.0 } else { 1e-6 };
        // The paper tells the figures of the other priority only as a plot.
        let is_of_table = row.key.priority == "fair";
        Some(FeedPoint {
            line: configuration(&row.key),
            clients: row.key.clients,
            value: summary.mean * scale,
            deviation: summary.standard_deviation * scale,
            paper: is_of_table.then(|| paper(&row.key)).flatten().map(of_paper),
        })
    };
    rows.iter().filter_map(point).collect()
}

fn configuration(key: &FeedKey) -> String {
    format!("load {}, loss {} %, factor {}", key.load, key.loss * 100.0, key.factor)
}

/// Table 4.9: ours beside the paper's.
pub fn table(rows: &[FeedRow]) -> Table {
    let mut table = Table::new(
        "Robustness of slow receivers (%) and throughput of fast ones (Mbit/s), beside table 4.9",
        &[
            "<PRIORITY",
            "LOAD",
            "LOSS",
            "FACTOR",
            "RECEIVERS",
            "RUNS",
            "ROBUST",
            "SD",
            "PAPER",
            "FAST",
            "SD",
            "PAPER",
        ],
    );
    for row in rows {
        let paper = paper(&row.key);
        let key = &row.key;
        let runs = row.robustness.or(row.throughput_bps).map_or(0, |summary| summary.count);
        let mut cells: Vec<Cell> = vec![key.priority.as_str().into()];
        cells.extend([key.load.to_string(), format!("{} %", key.loss * 100.0)].map(Cell::from));
        cells.extend([key.factor.to_string(), key.clients.to_string(), runs.to_string()].map(Cell::from));
        let less = row.robustness.zip(paper).is_some_and(|(ours, paper)| ours.mean < paper.robustness);
        cells.extend(summary_cells(
            row.robustness.map(|of| (of.mean * 100.0, of.standard_deviation * 100.0)),
            less,
        ));
        cells.push(paper.map_or("-".into(), |cell| format!("{:.1}", cell.robustness * 100.0).into()));
        cells.extend(summary_cells(
            row.throughput_bps.map(|of| (of.mean / 1e6, of.standard_deviation / 1e6)),
            false,
        ));
        cells.push(paper.map_or("-".into(), |cell| format!("{:.1}", cell.throughput_bps / 1e6).into()));
        table.rows.push(cells);
    }
    table.notes.push(
        "The paper's figures are of runs without priority for the multicast threads (fair here).".into(),
    );
    table
}

fn summary_cells(of: Option<(f64, f64)>, is_less: bool) -> [Cell; 2] {
    let Some((mean, deviation)) = of else { return ["-".into(), "-".into()] };
    let mark = if is_less { Mark::Warning } else { Mark::Plain };
    [Cell::marked(format!("{mean:.1}"), mark), format!("{deviation:.1}").into()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_table_is_read_right() {
        let key =
            |load, loss, factor, clients| FeedKey { clients, load, loss, factor, priority: "fair".into() };
        let cell = paper(&key(0.4, 0.05, 50.0, 30)).unwrap();
        assert!((cell.robustness - 0.975).abs() < 1e-9 && cell.throughput_bps == 85.8e6, "{cell:?}");
        let last = paper(&key(0.8, 0.1, 50.0, 10)).unwrap();
        assert!((last.robustness - 0.563).abs() < 1e-9 && last.throughput_bps == 92.7e6, "{last:?}");
        assert_eq!(paper(&key(0.4, 0.05, 50.0, 12)), None);
        assert_eq!(paper(&key(0.5, 0.05, 50.0, 30)), None);
    }
}
