//! Runs that repeat a use case of the MEADcast thesis, averaged over their repeats, and what each way saves against unicast.

use super::{RunData, distinct};
use crate::db::{Measured, Status, UseCaseInfo};

/// A run that repeats a use case.
pub struct UseCaseRun {
    pub data: RunData,
    pub info: UseCaseInfo,
}

/// A use case with one load and number of receivers: what is compared with each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cell {
    pub use_case: String,
    pub load: String,
    pub receivers_per_network: usize,
}

/// A delivery in a cell: the average of its complete runs.
#[derive(Debug, Clone)]
pub struct UseCaseRow<'a> {
    pub cell: Cell,
    /// Of the first run.
    pub info: &'a UseCaseInfo,
    pub measured: &'a Measured,
    pub network_bytes: f64,
    pub sender_bytes: f64,
    pub seconds: f64,
    /// What it saves against unicast of the same cell, from 0 to 1; none without that.
    pub saved: Option<Saved>,
    pub saturated: bool,
}

/// Parts of unicast's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Saved {
    pub network: f64,
    pub sender: f64,
    pub time: f64,
    /// As the tree says, of this delivery and of one copy on each link.
    pub computed_network: f64,
    pub computed_sender: f64,
    pub floor_network: f64,
    pub floor_sender: f64,
}

/// What all others are compared with.
pub const UNICAST: &str = "unicast";

/// One row a delivery and cell, in the order in which they were run first.
pub fn use_case_rows(runs: &[UseCaseRun]) -> Vec<UseCaseRow<'_>> {
    let complete = || runs.iter().filter(|run| run.data.run.status == Status::Complete);
    let keys = distinct(complete().map(|run| (cell(&run.info), run.info.delivery.clone())));
    let mut rows: Vec<UseCaseRow> = Vec::new();
    for (of, delivery) in &keys {
        let mine = || complete().filter(|run| cell(&run.info) == *of && run.info.delivery == *delivery);
        rows.extend(average(of, mine().collect()));
    }
    let unicast: Vec<UseCaseRow> = rows.iter().filter(|row| row.info.delivery == UNICAST).cloned().collect();
    for row in &mut rows {
        row.saved =
            unicast.iter().find(|unicast| unicast.cell == row.cell).map(|unicast| saved(row, unicast));
    }
    rows
}

/// The use cases, loads and numbers of receivers, in their order.
pub fn cells(rows: &[UseCaseRow<'_>]) -> Vec<Cell> {
    distinct(rows.iter().map(|row| row.cell.clone()))
}

fn cell(info: &UseCaseInfo) -> Cell {
    Cell {
        use_case: info.use_case.clone(),
        load: info.load.clone(),
        receivers_per_network: info.receivers_per_network,
    }
}

fn average<'a>(cell: &Cell, runs: Vec<&'a UseCaseRun>) -> Option<UseCaseRow<'a>> {
    let measured: Vec<&Measured> = runs.iter().filter_map(|run| run.info.measured.as_ref()).collect();
    let first = *measured.first()?;
    let mean = |of: fn(&Measured) -> f64| {
        measured.iter().map(|measured| of(measured)).sum::<f64>() / measured.len() as f64
    };
    Some(UseCaseRow {
        cell: cell.clone(),
        info: &runs.first()?.info,
        measured: first,
        network_bytes: mean(|measured| measured.bytes.network as f64),
        sender_bytes: mean(|measured| measured.bytes.sender as f64),
        seconds: mean(|measured| measured.seconds),
        saved: None,
        saturated: runs.iter().any(|run| run.data.run.saturated.is_some()),
    })
}

fn saved(row: &UseCaseRow<'_>, unicast: &UseCaseRow<'_>) -> Saved {
    let part = |one: f64, other: f64| 1.0 - one / other.max(f64::MIN_POSITIVE);
    let (computed, floor, all) = (row.info.computed, row.info.floor, unicast.info.computed);
    Saved {
        network: part(row.network_bytes, unicast.network_bytes),
        sender: part(row.sender_bytes, unicast.sender_bytes),
        time: part(row.seconds, unicast.seconds),
        computed_network: part(computed.network as f64, all.network as f64),
        computed_sender: part(computed.sender as f64, all.sender as f64),
        floor_network: part(floor.network as f64, all.network as f64),
        floor_sender: part(floor.sender as f64, all.sender as f64),
    }
}
