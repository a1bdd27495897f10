//! The rows and series that a run files: rows by the names of nodes, and series of the whole run.

use treecast_measure::db::Row;

/// The rows and series of a run.
#[derive(Debug, Clone, Default)]
pub struct Filing {
    /// The rows, each with the name of its node; `None` for a row of the whole run.
    pub rows: Vec<(Option<String>, Row)>,
    pub series: Vec<Series>,
}

/// A value over time, in seconds since the run's start.
#[derive(Debug, Clone)]
pub struct Series {
    pub measure: String,
    pub unit: &'static str,
    pub points: Vec<(f64, f64)>,
}

impl Series {
    /// Series with these names and units, in order, and their points.
    pub fn of(
        named: &[(&str, &'static str)],
        points: impl IntoIterator<Item = Vec<(f64, f64)>>,
    ) -> Vec<Self> {
        let of = |((measure, unit), points): (&(&str, &'static str), _)| Self {
            measure: (*measure).to_owned(),
            unit,
            points,
        };
        named.iter().zip(points).map(of).collect()
    }
}

impl Filing {
    /// Adds the rows and series of `other`.
    pub fn extend(&mut self, other: Self) {
        self.rows.extend(other.rows);
        self.series.extend(other.series);
    }

    /// Returns the value of the first row of a measure, when it has one.
    pub fn value(&self, measure: &str) -> Option<f64> {
        self.rows.iter().find(|(_, row)| row.measure == measure)?.1.value
    }

    /// Adds a row of the whole run.
    pub fn run(&mut self, measure: &str, value: f64, unit: &str) {
        self.rows.push((None, Row::of_run(measure, value, unit)));
    }

    /// Adds a row of a node.
    pub fn node(&mut self, node: &str, measure: &str, value: f64, unit: &str) {
        self.rows.push((Some(node.to_owned()), Row::of_run(measure, value, unit)));
    }

    /// Adds a row whose value could not be measured.
    pub fn lacking(&mut self, node: Option<&str>, measure: &str, unit: &str, why: &str) {
        let row = Row::of_run(measure, 0.0, unit).lacking(why);
        self.rows.push((node.map(str::to_owned), row));
    }
}
