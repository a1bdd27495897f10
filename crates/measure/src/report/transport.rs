//! One large object beside interdomain-2013: figures 4.8 and 4.9 with equation 4.1, table 3.1 and figure 3.3.

use super::html::Page;
use crate::{
    analysis::Results,
    db::{Result, Status, Transfer},
    plot::{self, ThroughputLine},
    statistics::Summary,
    tables::{self, Cell, Table},
};

/// Table 3.1: size in MiB, and Mbit/s of receptions without and with retransmissions; 7 receivers at 600 Mbit/s.
const TABLE_3_1: [(u64, f64, Option<f64>); 4] = [
    (512, 579.49, None),
    (1024, 574.75, Some(561.40)),
    (2048, 588.26, Some(580.32)),
    (4096, 582.19, Some(576.10)),
];

/// The receptions of one network, delivery and size.
struct Receptions {
    network: String,
    delivery: String,
    size_bytes: u64,
    clients: u32,
    /// Bits a second.
    without: Option<Summary>,
    with: Option<Summary>,
    all: Summary,
    /// Bytes sent again, as a share of the object.
    sent_again: f64,
}

/// The section; nothing for an experiment in which clients come at random times.
pub fn write(page: &mut Page, results: &Results<'_>) -> Result<()> {
    let models = results.model_rows()?;
    let receptions = receptions(results);
    let mut sizes: Vec<u64> = models.iter().map(|row| row.size_bytes).collect();
    sizes.dedup();
    let mut plots = Vec::new();
    for size_bytes in sizes {
        plots.extend(plot::time_beside_model(&models, size_bytes));
        plots.extend(plot::server_cpu(&models, size_bytes));
    }
    let mut clients: Vec<u32> = receptions.iter().map(|of| of.clients).collect();
    clients.sort_unstable();
    clients.dedup();
    plots.extend(
        clients
            .into_iter()
            .filter_map(|clients| plot::throughput_by_size(&lines(&receptions, clients), clients)),
    );
    if plots.is_empty() {
        return Ok(());
    }
    page.section("One object, many receivers", "");
    plots.into_iter().for_each(|plot| page.plot(Some(plot)));
    page.folded_tables(
        "Table: throughput of receptions without and with retransmissions",
        &[table(&receptions)],
    );
    page.end_section();
    Ok(())
}

/// The table for a terminal; none when no multicast was mended, so that there is nothing to compare.
pub fn to_text(results: &Results<'_>) -> Option<String> {
    let receptions = receptions(results);
    let is_mended = |of: &Receptions| matches!(of.delivery.as_str(), "after" | "nack") && of.with.is_some();
    receptions.iter().any(is_mended).then(|| table(&receptions).to_text())
}

fn receptions(results: &Results<'_>) -> Vec<Receptions> {
    let rows = results.run_times().into_iter().filter(|row| row.key.schedule == "immediate");
    rows.filter_map(|row| {
        let setting = &row.key.setting;
        let runs = results.runs.iter().filter(|data| {
            let info = &data.run.info;
            data.run.status == Status::Complete
                && data.setting() == *setting
                && info.delivery == row.key.delivery
                && info.schedule == row.key.schedule
        });
        let transfers: Vec<&Transfer> =
            runs.flat_map(|data| &data.transfers).map(|(_, transfer)| transfer).collect();
        let rate = |transfer: &&&Transfer| {
            let seconds = transfer.run_time()?.as_secs_f64();
            (seconds > 0.0).then(|| setting.size_bytes as f64 * 8.0 / seconds)
        };
        let of = |wanted: &dyn Fn(&Transfer) -> bool| {
            let chosen = transfers.iter().filter(|transfer| wanted(transfer));
            Summary::of(&chosen.filter_map(|transfer| rate(&transfer)).collect::<Vec<_>>())
        };
        let again: u64 = transfers.iter().map(|transfer| transfer.retransmitted_bytes).sum();
        Some(Receptions {
            network: setting.topology.clone(),
            delivery: row.key.delivery.clone(),
            size_bytes: setting.size_bytes,
            clients: row.clients,
            without: of(&|transfer| transfer.retransmitted_bytes == 0),
            with: of(&|transfer| transfer.retransmitted_bytes > 0),
            all: of(&|_| true)?,
            sent_again: again as f64 / (transfers.len().max(1) as f64 * setting.size_bytes.max(1) as f64),
        })
    })
    .collect()
}

fn lines(receptions: &[Receptions], clients: u32) -> Vec<ThroughputLine> {
    let mut lines: Vec<ThroughputLine> = Vec::new();
    for of in receptions.iter().filter(|of| of.clients == clients) {
        let name = format!("{}, {}", of.delivery, of.network);
        let point = (of.size_bytes, of.all.mean, of.all.standard_deviation);
        match lines.iter_mut().find(|line| line.name == name) {
            Some(line) => line.points.push(point),
            None => {
                let delivery = of.delivery.clone();
                lines.push(ThroughputLine { name, delivery, points: vec![point] });
            }
        }
    }
    lines.iter_mut().for_each(|line| line.points.sort_by_key(|(size_bytes, ..)| *size_bytes));
    lines
}

fn table(receptions: &[Receptions]) -> Table {
    let mut table = Table::new(
        "Throughput of receptions without and with retransmissions, in Mbit/s (table 3.1, figure 3.3)",
        &[
            "<NETWORK",
            "<DELIVERY",
            "SIZE",
            "CLIENTS",
            "WITHOUT",
            "SD",
            "#",
            "PAPER",
            "WITH",
            "SD",
            "#",
            "PAPER",
            "SENT AGAIN",
        ],
    );
    for of in receptions {
        let paper = (of.delivery == "after" && of.clients == 7)
            .then(|| TABLE_3_1.iter().find(|(mebibytes, ..)| of.size_bytes == mebibytes << 20))
            .flatten();
        let number = |value: Option<f64>| Cell::from(value.map_or("-".into(), |value| format!("{value:.1}")));
        let mut cells: Vec<Cell> = vec![of.network.as_str().into(), of.delivery.as_str().into()];
        cells.extend([tables::bytes(of.size_bytes), of.clients.to_string()].map(Cell::from));
        cells.extend(summary_cells(of.without));
        cells.push(number(paper.map(|(_, without, _)| *without)));
        cells.extend(summary_cells(of.with));
        cells.push(number(paper.and_then(|(_, _, with)| *with)));
        cells.push(format!("{:.2} %", of.sent_again * 100.0).into());
        table.rows.push(cells);
    }
    table
}

fn summary_cells(summary: Option<Summary>) -> [Cell; 3] {
    let Some(of) = summary else { return ["-".into(), "-".into(), "0".into()] };
    let mbps = |bps: f64| Cell::from(format!("{:.1}", bps / 1e6));
    [mbps(of.mean), mbps(of.standard_deviation), of.count.to_string().into()]
}
