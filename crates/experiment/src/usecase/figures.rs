//! What the thesis measured, as data beside the experiments: each figure with the table that it is from.

use std::path::Path;

use serde::Deserialize;

use super::claims::Measure;
use treecast_lab::read_text;

/// All figures of a file.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figures {
    #[serde(rename = "figure", default)]
    all: Vec<Figure>,
}

/// A column of a table: one way, by the number of receivers in a network.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    pub table: String,
    use_case: String,
    /// As loads are called: `1M` for a stream of 1 Mbit/s, `25M` for a file; none: any.
    load: Option<String>,
    pub measure: Measure,
    /// What a delivery's `thesis` names.
    pub way: String,
    /// Receivers in a network, and what was saved against unicast, in per cent.
    by_receivers: Vec<(usize, f64)>,
}

/// One figure.
#[derive(Debug, Clone)]
pub struct Found<'a> {
    pub figure: &'a Figure,
    /// In per cent.
    pub saved: f64,
}

/// Where a figure is looked for.
#[derive(Debug, Clone, Copy)]
pub struct Cell<'a> {
    pub use_case: &'a str,
    pub load: &'a str,
    pub receivers_per_network: usize,
}

impl Figures {
    pub fn read(path: &Path) -> Result<Self, String> {
        let name = path.display();
        let text = read_text(path, 1 << 20).map_err(|error| format!("cannot read {name}: {error}"))?;
        toml::from_str(&text).map_err(|error| format!("{name}: {}", error.to_string().replace('\n', " ")))
    }

    /// All that the thesis has of some of its ways in a cell.
    pub fn of<'a>(&'a self, cell: Cell<'_>, ways: &[String]) -> Vec<Found<'a>> {
        let is_meant = |figure: &&Figure| {
            figure.use_case == cell.use_case
                && figure.load.as_deref().is_none_or(|load| load == cell.load)
                && ways.contains(&figure.way)
        };
        let found = |figure: &'a Figure| {
            let mut row = figure.by_receivers.iter();
            let (_, saved) = row.find(|(receivers, _)| *receivers == cell.receivers_per_network)?;
            Some(Found { figure, saved: *saved })
        };
        self.all.iter().filter(is_meant).filter_map(found).collect()
    }
}
