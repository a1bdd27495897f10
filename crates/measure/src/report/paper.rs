//! The figures of librecast-updates-2022, tables 1 to 5, beside ours.
//!
//! The paper's networks had links of 1 Gbit/s. What it calls `multicast` is a carousel. As its sizes and
//! link rates are seldom ours, both are told in terms of the time that one copy takes at link rate, too.

use crate::{
    analysis::RunTime,
    plot::Pair,
    tables::{self, Cell, Mark, Table},
};

const LINK_BPS: f64 = 1e9;

/// A row of the paper's tables 1 to 5.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PaperRow {
    /// `lan` (tables 1 to 3) or `tree`, three levels of routers (tables 4 and 5).
    pub network: &'static str,
    pub clients: u32,
    pub delivery: &'static str,
    pub schedule: &'static str,
    pub size_bytes: u64,
    pub mean_seconds: f64,
}

impl PaperRow {
    /// The time in terms of the time that one copy takes at link rate.
    pub fn in_copies(&self) -> f64 {
        self.mean_seconds * LINK_BPS / (self.size_bytes as f64 * 8.0)
    }
}

/// All rows of the tables.
pub fn rows() -> Vec<PaperRow> {
    include_str!("librecast_2022.tsv").lines().skip(1).filter_map(parse).collect()
}

fn parse(line: &'static str) -> Option<PaperRow> {
    let columns: Vec<&'static str> = line.split('\t').collect();
    let &[network, clients, delivery, schedule, size_mb, mean, ..] = &columns[..] else { return None };
    Some(PaperRow {
        network,
        clients: clients.parse().ok()?,
        delivery,
        schedule,
        size_bytes: size_mb.parse::<u64>().ok()? << 20,
        mean_seconds: mean.parse().ok()?,
    })
}

/// The paper's row for the same kind of network, clients, delivery and schedule, of the size that is
/// the fewest times larger or smaller; `None` when the paper has none.
pub fn counterpart(ours: &RunTime, paper: &[PaperRow]) -> Option<PaperRow> {
    let network = match ours.router_levels {
        0 => "lan",
        3 => "tree",
        _ => return None,
    };
    let delivery = if ours.key.delivery == "carousel" { "multicast" } else { &*ours.key.delivery };
    let times_off = |row: &PaperRow| {
        let ratio = row.size_bytes as f64 / ours.key.setting.size_bytes.max(1) as f64;
        ratio.max(1.0 / ratio)
    };
    paper
        .iter()
        .filter(|row| row.network == network && row.clients == ours.clients)
        .filter(|row| row.delivery == delivery && row.schedule == ours.key.schedule)
        .min_by(|a, b| times_off(a).total_cmp(&times_off(b)))
        .copied()
}

/// For the plot: what the paper has a counterpart for, each network's largest size, when all clients
/// ask at once.
pub fn pairs(ours: &[RunTime]) -> Vec<Pair> {
    let paper = rows();
    let largest = |row: &RunTime| {
        let of_network = ours.iter().filter(|r| r.key.setting.topology == row.key.setting.topology);
        of_network.map(|r| r.key.setting.size_bytes).max() == Some(row.key.setting.size_bytes)
    };
    ours.iter()
        .filter(|row| row.key.schedule == "immediate" && largest(row))
        .filter_map(|row| {
            let theirs = counterpart(row, &paper)?;
            Some(Pair {
                topology: row.key.setting.topology.clone(),
                size_bytes: row.key.setting.size_bytes,
                delivery: row.key.delivery.clone(),
                ours: row.in_copies()?,
                theirs: theirs.in_copies(),
                their_size_bytes: theirs.size_bytes,
            })
        })
        .collect()
}

/// Ours beside the paper's; empty when the paper has nothing to compare with.
pub fn table(ours: &[RunTime]) -> Table {
    let paper = rows();
    let mut table = Table::new(
        "Average run time, ours and the paper's (librecast-updates-2022, tables 1 to 5)",
        &["<NETWORK", "<UPDATE", "<SCHEDULE", "SIZE", "AVG", "COPIES", "PAPER'S SIZE", "AVG", "COPIES"],
    );
    for row in ours {
        let Some(theirs) = counterpart(row, &paper) else { continue };
        let copies = row.in_copies().map_or("-".into(), |copies| format!("{copies:.2}"));
        table.rows.push(vec![
            row.key.setting.topology.as_str().into(),
            Cell::marked(&*row.key.delivery, Mark::Delivery),
            row.key.schedule.as_str().into(),
            tables::bytes(row.key.setting.size_bytes).into(),
            tables::seconds(row.summary.mean).into(),
            copies.into(),
            tables::bytes(theirs.size_bytes).into(),
            tables::seconds(theirs.mean_seconds).into(),
            format!("{:.2}", theirs.in_copies()).into(),
        ]);
    }
    table.notes.push(
        "COPIES: the average in terms of the time that one copy takes at the rate of a link, ours and the paper's 1 Gbit/s. \
         The paper's machines were real and many, with disks; its multicast is our carousel. Of its sizes, the nearest."
            .into(),
    );
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Five tables of four deliveries, three schedules and four sizes.
    #[test]
    fn all_rows_of_the_five_tables_are_there() {
        let rows = rows();
        assert_eq!(rows.len(), 5 * 4 * 3 * 4);
        for network in [("lan", 20), ("lan", 40), ("lan", 50), ("tree", 20), ("tree", 40)] {
            let of_table = rows.iter().filter(|row| (row.network, row.clients) == network);
            let mut keys: Vec<_> = of_table.map(|r| (r.delivery, r.schedule, r.size_bytes)).collect();
            keys.sort_unstable();
            keys.dedup();
            assert_eq!(keys.len(), 48, "{network:?}");
        }
        let tcp = rows
            .iter()
            .find(|r| r.delivery == "tcp" && r.schedule == "immediate" && r.size_bytes == 512 << 20);
        assert_eq!(tcp.unwrap().mean_seconds, 77.776);
    }

    #[test]
    fn twenty_copies_take_about_twenty_times_as_long() {
        let rows = rows();
        let tcp = rows
            .iter()
            .find(|r| r.delivery == "tcp" && r.schedule == "immediate" && r.size_bytes == 2048 << 20);
        let copies = tcp.unwrap().in_copies();
        assert!((17.0..20.0).contains(&copies), "{copies}");
    }
}
