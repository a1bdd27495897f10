//! The body of the report: how it scales, a section a network, ours beside the paper, and all runs.

use super::{ReportInput, headline::hardest, html::Page, paper};
use crate::{
    analysis::{RateList, Results, RunTime, Setting},
    db::{Result, Role},
    plot::{self, Plot},
    series::Counter,
    tables::{self, Table},
};

/// Points of a line over time; more than a page can show.
const MAX_POINTS: usize = 800;

/// Writes all sections.
pub fn write(page: &mut Page, results: &Results<'_>, input: &ReportInput) -> Result<()> {
    let rows = results.run_times();
    let time_tables = tables::run_time_tables(results);
    more_clients(page, results, &rows);
    for (topology, table) in results.topologies().into_iter().zip(time_tables) {
        page.section(&topology, &describe(results, &topology));
        for picture in input.pictures.iter().filter(|picture| picture.topology == topology) {
            page.picture(&picture.svg, &format!("The network {topology}"));
        }
        run_times(page, results, &rows, &topology, &table);
        if let Some((setting, schedule)) = hardest(results, &topology) {
            server(page, results, &rows, &setting, &schedule)?;
            routers(page, results, &setting, &schedule)?;
        }
        page.end_section();
    }
    beside_the_paper(page, &rows);
    all_runs(page, results)
}

fn describe(results: &Results<'_>, topology: &str) -> String {
    let Some(data) = results.complete().find(|data| data.run.info.topology == topology) else {
        return String::new();
    };
    let info = &data.run.info;
    let clients = if info.clients == 1 { "1 client".to_owned() } else { format!("{} clients", info.clients) };
    match info.router_levels {
        0 => format!("{clients} and the server on one LAN"),
        1 => format!("{clients} behind one router"),
        levels => format!("{clients} behind {levels} levels of routers"),
    }
}

fn run_times(page: &mut Page, results: &Results<'_>, rows: &[RunTime], topology: &str, table: &Table) {
    page.heading("How long the clients took");
    let mut settings: Vec<Setting> =
        results.settings().into_iter().filter(|setting| setting.topology == topology).collect();
    settings.sort_by_key(|setting| std::cmp::Reverse(setting.size_bytes));
    let Some((largest, smaller)) = settings.split_first() else { return };
    let schedules = hardest_first(results);
    let (hardest, others) = schedules.split_at(schedules.len().min(1));
    page.plot(plot::run_time_by_schedule(rows, largest));
    for schedule in hardest {
        page.plot(plot::run_time_by_size(rows, topology, schedule));
        page.plot(plot::completions(rows, largest, schedule));
    }
    page.folded("Plots: other sizes and schedules", |page| {
        smaller.iter().for_each(|setting| page.plot(plot::run_time_by_schedule(rows, setting)));
        for schedule in others {
            page.plot(plot::run_time_by_size(rows, topology, schedule));
            page.plot(plot::completions(rows, largest, schedule));
        }
    });
    page.table(table);
}

fn server(
    page: &mut Page,
    results: &Results<'_>,
    rows: &[RunTime],
    setting: &Setting,
    schedule: &str,
) -> Result<()> {
    let clients = rows.iter().find(|row| row.key.setting == *setting).map_or(0, |row| row.clients);
    page.heading("What it cost the server");
    page.plot(plot::server_copies(&results.server_bytes()?, setting, schedule, clients));
    let mut over_time = Vec::new();
    let mut by_clients = Vec::new();
    for delivery in results.deliveries() {
        let Some(example) = results.example(setting, &delivery, schedule) else { continue };
        for (server, _) in example.nodes_with(Role::Server).take(1) {
            let rates = results.node_counter(server, Counter::TxBytes)?.rates();
            if !rates.is_empty() {
                over_time.push((delivery.clone(), rates.thinned(MAX_POINTS)));
            }
        }
        let rows = results.server_by_active_clients(setting, &delivery, schedule)?;
        if !rows.is_empty() {
            by_clients.push((delivery, rows));
        }
    }
    page.plot(plot::server_rate(&over_time, setting, schedule));
    page.plot(plot::server_rate_by_clients(&by_clients, setting, schedule));
    page.plot(plot::server_load_by_clients(&by_clients, setting, schedule));
    page.folded_tables(
        "Tables: server bytes and load by number of active clients (the paper's tables 6 to 9)",
        &tables::server_tables(results, setting, schedule)?,
    );
    Ok(())
}

fn routers(page: &mut Page, results: &Results<'_>, setting: &Setting, schedule: &str) -> Result<()> {
    let (mut plots, mut tables) = (Vec::new(), Vec::new());
    for delivery in results.deliveries() {
        let Some(example) = results.example(setting, &delivery, schedule) else { continue };
        let traffic = results.router_traffic(example)?;
        tables.extend((!traffic.rows.is_empty()).then(|| tables::router_table(example, &traffic)));
        plots.extend(plot::router_traffic(&example.run.info, &traffic.thinned(MAX_POINTS)));
    }
    if plots.is_empty() {
        return Ok(());
    }
    page.heading("What went through the routers");
    plots.into_iter().for_each(|plot| page.plot(Some(plot)));
    page.folded_tables(
        "Tables: bytes in and out of each router over time (the paper's tables 10 and 11)",
        &tables,
    );
    Ok(())
}

/// How the deliveries scale: what an experiment with several numbers of clients is about.
fn more_clients(page: &mut Page, results: &Results<'_>, rows: &[RunTime]) {
    let mut kinds: Vec<(u32, u64)> =
        rows.iter().map(|row| (row.router_levels, row.key.setting.size_bytes)).collect();
    kinds.sort_unstable_by_key(|&(levels, size_bytes)| (levels, std::cmp::Reverse(size_bytes)));
    kinds.dedup();
    let plots = |schedule: &str| -> Vec<Plot> {
        let of_kind = |&(levels, size_bytes): &(u32, u64)| {
            plot::run_time_by_clients(rows, levels, size_bytes, schedule)
        };
        kinds.iter().filter_map(of_kind).collect()
    };
    let schedules = hardest_first(results);
    let Some((hardest, others)) = schedules.split_first() else { return };
    let (main, other): (Vec<Plot>, Vec<Plot>) =
        (plots(hardest), others.iter().flat_map(|schedule| plots(schedule)).collect());
    if main.is_empty() && other.is_empty() {
        return;
    }
    page.section("More clients", "");
    main.into_iter().for_each(|plot| page.plot(Some(plot)));
    page.folded("Plots: other schedules", |page| other.into_iter().for_each(|plot| page.plot(Some(plot))));
    page.end_section();
}

fn beside_the_paper(page: &mut Page, rows: &[RunTime]) {
    let beside = paper::table(rows);
    if !beside.rows.is_empty() {
        page.section("Beside the paper", "");
        page.plot(plot::beside_the_paper(&paper::pairs(rows)));
        page.folded_tables("Table: our averages and the paper's", &[beside]);
        page.end_section();
    }
}

/// All schedules, `immediate` first.
fn hardest_first(results: &Results<'_>) -> Vec<String> {
    let mut schedules = results.schedules();
    schedules.sort_by_key(|schedule| schedule != "immediate");
    schedules
}

fn all_runs(page: &mut Page, results: &Results<'_>) -> Result<()> {
    page.section("All runs", "");
    page.folded_tables("Table: what the server sent in all", &[tables::server_bytes_table(results)?]);
    page.folded_tables(&format!("Table: all {} runs", results.runs.len()), &[tables::runs_table(results)]);
    page.end_section();
    Ok(())
}
