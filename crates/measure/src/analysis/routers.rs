//! What went into and out of the routers over time (librecast-updates-2022, 5.3, tables 10 and 11).

use std::time::Duration;

use super::{Rate, Results, RunData};
use crate::{
    db::{NodeId, Result, Role},
    series::{self, Counter},
};

/// Traffic of the routers on the way from the server to the leftmost clients in one run.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RouterTraffic {
    pub columns: Vec<RouterColumn>,
    /// Time since the run's start, and megabytes (10^6) a second in each column since the row before.
    pub rows: Vec<(Duration, Vec<f64>)>,
}

/// What a router received from or sent to one side. In words: `router 6, from the server` is what the paper calls
/// `6:server:rx`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RouterColumn {
    pub router: String,
    pub interface: String,
    pub counter: Counter,
}

impl std::fmt::Display for RouterColumn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let router = self.router.strip_prefix("router").unwrap_or(&self.router);
        match (self.interface.as_str(), self.counter) {
            ("server", Counter::RxBytes) => write!(f, "router {router}, from the server"),
            ("client", Counter::TxBytes) => write!(f, "router {router}, towards clients"),
            (interface, Counter::RxBytes) => write!(f, "router {router}, in by {interface}"),
            (interface, _) => write!(f, "router {router}, out by {interface}"),
        }
    }
}

impl RouterTraffic {
    /// At most `most` rows: of rows taken together, each column has the mean.
    pub fn thinned(&self, most: usize) -> Self {
        let together = self.rows.len().div_ceil(most.max(1)).max(1);
        let mean = |rows: &[(Duration, Vec<f64>)], column: usize| {
            rows.iter().map(|(_, rates)| rates[column]).sum::<f64>() / rows.len() as f64
        };
        let merged = |rows: &[(Duration, Vec<f64>)]| {
            let (at, _) = rows.last()?;
            Some((*at, (0..self.columns.len()).map(|column| mean(rows, column)).collect()))
        };
        Self { columns: self.columns.clone(), rows: self.rows.chunks(together).filter_map(merged).collect() }
    }
}

impl Results<'_> {
    /// Traffic of a run's routers: received from the server's side, sent to the clients' side; of a
    /// router whose interfaces have other labels, both of each. Empty when the run has no routers.
    pub fn router_traffic(&self, data: &RunData) -> Result<RouterTraffic> {
        let (mut columns, mut rates): (_, Vec<Vec<Rate>>) = (Vec::new(), Vec::new());
        for (router, name) in path_to_the_leftmost(data) {
            for (column, series) in self.columns_of(router, &name)? {
                columns.push(column);
                rates.push(self.series(router, &series)?.rates());
            }
        }
        // Routers are sampled one after the other: the first column's samples make the rows.
        let rows = rates.first().map_or(&[][..], |first| first);
        let values = |row: &Rate| rates.iter().map(|rates| at(rates, row.middle()) / 1e6).collect();
        let rows = rows.iter().map(|row| (row.to, values(row))).collect();
        Ok(RouterTraffic { columns, rows })
    }

    fn columns_of(&self, router: NodeId, name: &str) -> Result<Vec<(RouterColumn, String)>> {
        let mut columns: Vec<(RouterColumn, String)> = Vec::new();
        for series in self.db.series_names(router)? {
            let Some((interface, counter)) = series::parse_interface(&series) else { continue };
            if is_shown(interface, counter) {
                let column =
                    RouterColumn { router: name.to_owned(), interface: interface.to_owned(), counter };
                columns.push((column, series));
            }
        }
        // Towards the server first: the order in which the bytes pass.
        columns.sort_by_key(|(column, _)| (column.counter, column.interface.clone()));
        Ok(columns)
    }
}

/// The rate at a time, a second; 0 where there is none.
fn at(rates: &[Rate], time: Duration) -> f64 {
    let next = rates.partition_point(|rate| rate.to <= time);
    rates.get(next).filter(|rate| rate.from <= time).map_or(0.0, |rate| rate.per_second)
}

fn is_shown(interface: &str, counter: Counter) -> bool {
    match interface {
        "server" => counter == Counter::RxBytes,
        "client" => counter == Counter::TxBytes,
        _ => matches!(counter, Counter::RxBytes | Counter::TxBytes),
    }
}

/// Routers are numbered level by level from the clients up, from left to right (librecast-updates-2022,
/// A.5): with three levels the way is 6, 4, 0. A network that is no such tree shows its first routers.
fn path_to_the_leftmost(data: &RunData) -> Vec<(NodeId, String)> {
    /// More than these no plot can show.
    const MOST: usize = 6;
    let routers: Vec<_> = data.nodes_with(Role::Router).map(|(id, node)| (id, node.name.clone())).collect();
    let first = || routers.iter().take(MOST).cloned().collect();
    let levels = data.run.info.router_levels;
    if levels == 0 || levels > 16 || routers.len() != (1 << levels) - 1 {
        return first();
    }
    let leftmost_of_each_level = (0..levels).map(|level| (1u32 << levels) - (1 << (levels - level)));
    let path: Vec<_> = leftmost_of_each_level
        .rev()
        .filter_map(|number| routers.iter().find(|(_, name)| *name == format!("router{number}")).cloned())
        .collect();
    if path.len() == levels as usize { path } else { first() }
}
