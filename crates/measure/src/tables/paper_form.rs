//! The paper's tables (librecast-updates-2022, 5), with the paper's headings.

use super::{Cell, Mark, Table, bytes, seconds};
use crate::{
    analysis::{Results, RouterTraffic, RunData, RunTime, Setting},
    db::{Result, Status},
    statistics::Summary,
};

/// Tables 1 to 5, one for each network: run time by delivery, schedule and size, sorted by average.
pub fn run_time_tables(results: &Results<'_>) -> Vec<Table> {
    let rows = results.run_times();
    results
        .topologies()
        .into_iter()
        .map(|topology| {
            let of_topology: Vec<&RunTime> =
                rows.iter().filter(|row| row.key.setting.topology == topology).collect();
            run_time_table(&topology, &of_topology)
        })
        .collect()
}

fn run_time_table(topology: &str, rows: &[&RunTime]) -> Table {
    let mut table = Table::new(
        format!("Run time in {topology}: seconds (min:s) from a client's request to its checked copy"),
        &["<UPDATE", "<SCHEDULE", "SIZE", "AVG", "#DATA", "MIN", "MAX", "STD", "FAILED"],
    );
    for row in rows {
        let summary = &row.summary;
        let star = if row.saturated { " *" } else { "" };
        table.rows.push(vec![
            Cell::marked(&*row.key.delivery, Mark::Delivery),
            format!("{}{star}", row.key.schedule).into(),
            bytes(row.key.setting.size_bytes).into(),
            seconds(summary.mean).into(),
            summary.count.to_string().into(),
            seconds(summary.min).into(),
            seconds(summary.max).into(),
            seconds(summary.standard_deviation).into(),
            Cell::marked(row.failed.to_string(), if row.failed > 0 { Mark::Warning } else { Mark::Plain }),
        ]);
    }
    if rows.iter().any(|row| row.saturated) {
        table.notes.push(
            "* saturated: in at least one of these runs the machine was at its limit; on a larger one it might be faster.".into(),
        );
    }
    table
}

/// Tables 6 to 9, one for each delivery of a setting and schedule.
pub fn server_tables(results: &Results<'_>, setting: &Setting, schedule: &str) -> Result<Vec<Table>> {
    let mut tables = Vec::new();
    for delivery in results.deliveries() {
        let rows = results.server_by_active_clients(setting, &delivery, schedule)?;
        if rows.is_empty() {
            continue;
        }
        let mut table = Table::new(
            format!(
                "Server by number of active clients: {delivery}, {setting}, {schedule}; network TX in MB/s, load in processors"
            ),
            &["#CLIENTS", "TX AVG", "#DATA", "MIN", "MAX", "STD", "LOAD AVG", "#DATA", "MIN", "MAX", "STD"],
        );
        for row in rows {
            let mut cells = vec![row.clients.to_string().into()];
            cells.extend(summary_cells(row.sent_mb_per_second.as_ref(), 1));
            cells.extend(summary_cells(row.load.as_ref(), 2));
            table.rows.push(cells);
        }
        tables.push(table);
    }
    Ok(tables)
}

fn summary_cells(summary: Option<&Summary>, digits: usize) -> Vec<Cell> {
    let Some(s) = summary else { return vec!["-".into(); 5] };
    let number = |value: f64| Cell::from(format!("{value:.digits$}"));
    let deviation = if s.count > 1 { number(s.standard_deviation) } else { "-".into() };
    vec![number(s.mean), s.count.to_string().into(), number(s.min), number(s.max), deviation]
}

/// Tables 10 and 11: bytes in and out of each router on the way to the leftmost clients, over time.
pub fn router_table(data: &RunData, traffic: &RouterTraffic) -> Table {
    let info = &data.run.info;
    let mut table = Table::new(
        format!(
            "Router traffic in MB/s: {}, {}, {}, {}",
            info.delivery,
            info.topology,
            bytes(info.size_bytes),
            info.schedule
        ),
        &["TIME"],
    );
    let headings = traffic.columns.iter().map(ToString::to_string);
    table.columns.extend(headings.map(|name| super::Column { name, align: super::Align::Right }));
    for (at, rates) in &traffic.rows {
        let mut row = vec![Cell::from(format!("{:.1}", at.as_secs_f64()))];
        row.extend(rates.iter().map(|rate| Cell::from(format!("{rate:.3}"))));
        table.rows.push(row);
    }
    table
}

/// What the server sent in all, in copies of the object.
pub fn server_bytes_table(results: &Results<'_>) -> Result<Table> {
    let mut table = Table::new(
        "What the server sent in all",
        &["<NETWORK", "<UPDATE", "<SCHEDULE", "SIZE", "SENT", "COPIES"],
    );
    for row in results.server_bytes()? {
        table.rows.push(vec![
            row.setting.topology.as_str().into(),
            Cell::marked(&*row.delivery, Mark::Delivery),
            row.schedule.as_str().into(),
            bytes(row.setting.size_bytes).into(),
            bytes(row.sent_bytes as u64).into(),
            format!("{:.2}", row.copies()).into(),
        ]);
    }
    Ok(table)
}

/// Every run, how it ended and what became of its copies.
pub fn runs_table(results: &Results<'_>) -> Table {
    let mut table = Table::new(
        "Runs",
        &["RUN", "<NETWORK", "<UPDATE", "<SCHEDULE", "SIZE", "REPEAT", "SEED", "TOOK", "CHECKED", "<STATE"],
    );
    for data in &results.runs {
        let info = &data.run.info;
        let checked = data.transfers.iter().filter(|(_, t)| t.verified).count();
        let all = checked == info.clients as usize;
        table.rows.push(vec![
            data.run.id.0.to_string().into(),
            info.topology.as_str().into(),
            Cell::marked(&*info.delivery, Mark::Delivery),
            info.schedule.as_str().into(),
            bytes(info.size_bytes).into(),
            format!("#{}", info.repeat + 1).into(),
            info.seed.to_string().into(),
            seconds(data.run.duration.as_secs_f64()).into(),
            Cell::marked(format!("{checked}/{}", info.clients), if all { Mark::Good } else { Mark::Warning }),
            state(data),
        ]);
    }
    table
}

fn state(data: &RunData) -> Cell {
    match (data.run.status, &data.run.saturated) {
        (Status::Complete, None) => Cell::marked("complete", Mark::Good),
        (Status::Complete, Some(why)) => Cell::marked(format!("saturated: {why}"), Mark::Warning),
        (status, _) => Cell::marked(status.as_str(), Mark::Warning),
    }
}
