//! Runs with their parameters and rows in memory, over which claims, plots and tables are evaluated.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::{
    condition::Condition,
    db::{self, Db, NodeId, NodeInfo, Parameters, Row, RunId, Status},
};

/// The value of the parameter `site` of runs that were computed, and not made in a network.
pub const SIMULATED: &str = "sim";

/// The parameter that says at which site a run was made: [`LAB`] or [`SIMULATED`].
pub const SITE: &str = "site";
pub const LAB: &str = "lab";

/// The measure of a run that treecast refused. The row's note has treecast's reason.
pub const REFUSED: &str = "refused";

/// Runs in the order in which they began. A paper's figures are a frame, too.
#[derive(Debug, Clone, Default)]
pub struct Frame {
    pub runs: Vec<FrameRun>,
}

/// One run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FrameRun {
    /// The run's number in the database.
    pub id: i64,
    pub parameters: Parameters,
    pub nodes: Vec<(NodeId, NodeInfo)>,
    pub rows: Vec<Row>,
    /// Whether the run is complete. A run that was cut short is not used for averages.
    pub is_complete: bool,
    /// Whether the machine limited the run.
    pub is_saturated: bool,
    /// Whether a parameter that the run does not have matches every condition. This is so for a paper's
    /// figures, which name few parameters.
    pub is_open: bool,
}

/// The measures and parameters of an experiment, known before it starts.
#[derive(Debug, Clone, Default)]
pub struct Vocabulary {
    /// The names of the measures, each with its unit.
    pub measures: Vec<(String, String)>,
    /// The names of the series of a run, each with its unit, but for the samples of its nodes (`crate::series`).
    pub series: Vec<(String, String)>,
    /// The parameters of every planned run.
    pub cells: Vec<Parameters>,
    /// Whether `--set` has changed the experiment. A cell that no run has is then no mistake of the file.
    pub is_changed: bool,
}

impl Vocabulary {
    /// Checks that the parameter exists, and that some run has a value that matches.
    pub fn check(&self, condition: &Condition) -> Result<(), String> {
        if condition.is_of_row() || self.is_measure_alone(&condition.key) {
            return Ok(());
        }
        let there_are = self.values_of(&condition.key);
        if there_are.is_empty() {
            let parameters = self.parameters().into_iter().collect::<Vec<_>>().join(", ");
            return Err(format!(
                "no run has a parameter `{}`: there are {parameters}, node and role",
                condition.key
            ));
        }
        match self.is_changed || there_are.iter().any(|value| condition.holds(value)) {
            true => Ok(()),
            false => {
                let there_are: Vec<&str> = there_are.into_iter().collect();
                Err(format!("no run has {condition}: {} is {}", condition.key, there_are.join(", ")))
            }
        }
    }

    /// The planned runs, without values.
    pub fn frame(&self) -> Frame {
        let run = |parameters: &Parameters| FrameRun {
            id: 0,
            parameters: parameters.clone(),
            nodes: Vec::new(),
            rows: Vec::new(),
            is_complete: true,
            is_saturated: false,
            is_open: false,
        };
        Frame { runs: self.cells.iter().map(run).collect() }
    }

    /// The names of all parameters.
    pub fn parameters(&self) -> BTreeSet<&str> {
        self.cells.iter().flat_map(|cell| cell.keys().map(String::as_str)).collect()
    }

    /// Refuses names of which one is no parameter of any run.
    pub fn check_parameters<'n>(&self, names: impl IntoIterator<Item = &'n String>) -> Result<(), String> {
        match names.into_iter().find(|name| !self.has_parameter(name)) {
            None => Ok(()),
            Some(unknown) => {
                let there_are = self.parameters().into_iter().collect::<Vec<_>>().join(", ");
                Err(format!("no run has a parameter `{unknown}`: there are {there_are}"))
            }
        }
    }

    /// Whether `name` is a measure, and no parameter of any run.
    pub fn is_measure_alone(&self, name: &str) -> bool {
        !self.has_parameter(name) && self.measures.iter().any(|(measure, _)| measure == name)
    }

    pub fn has_parameter(&self, name: &str) -> bool {
        self.cells.iter().any(|cell| cell.contains_key(name))
    }

    /// All values of a parameter.
    pub fn values_of(&self, parameter: &str) -> BTreeSet<&str> {
        self.cells.iter().filter_map(|cell| cell.get(parameter).map(String::as_str)).collect()
    }
}

impl Frame {
    /// Loads `runs`, or all runs if the list is empty.
    pub fn load(db: &Db, runs: &[RunId]) -> db::Result<Self> {
        let wanted = |run: &db::Run| runs.is_empty() || runs.contains(&run.id);
        let mut frame = Self::default();
        for run in db.runs()?.into_iter().filter(wanted) {
            frame.runs.push(FrameRun {
                id: run.id.0,
                nodes: db.nodes(run.id)?,
                rows: db.rows(run.id)?,
                parameters: run.parameters,
                is_complete: run.status == Status::Complete,
                is_saturated: run.saturated.is_some(),
                is_open: false,
            });
        }
        Ok(frame)
    }

    /// The runs that meet all conditions on parameters, with their indices.
    pub fn runs_that<'f>(
        &'f self,
        conditions: &'f [&'f Condition],
    ) -> impl Iterator<Item = (usize, &'f FrameRun)> + 'f {
        let fulfils = |run: &&FrameRun| conditions.iter().all(|condition| run.fulfils(condition));
        self.runs.iter().enumerate().filter(move |(_, run)| fulfils(run))
    }

    /// Whether some runs were simulated and others were made in a network. Their values must not be mixed.
    pub fn has_several_sites(&self) -> bool {
        let simulated = self.runs.iter().filter(|run| run.is_simulated()).count();
        (1..self.runs.len()).contains(&simulated)
    }

    /// The combinations of values that the runs have for `parameters`, in order of appearance, as conditions.
    /// Incomplete runs count, too. Runs that lack one of the parameters are left out.
    pub fn cells(&self, parameters: &[String], conditions: &[&Condition]) -> Vec<Vec<Condition>> {
        let mut cells: Vec<Vec<Condition>> = Vec::new();
        for (_, run) in self.runs_that(conditions) {
            let cell = parameters.iter().map(|name| Some(Condition::equal(name, run.parameters.get(name)?)));
            let Some(cell) = cell.collect::<Option<Vec<_>>>() else { continue };
            if !cells.contains(&cell) {
                cells.push(cell);
            }
        }
        cells
    }

    /// The names of all measures with their units, in order of appearance.
    pub fn measures(&self) -> Vec<(String, String)> {
        let mut measures: BTreeMap<&str, (usize, &str)> = BTreeMap::new();
        for row in self.runs.iter().flat_map(|run| &run.rows) {
            let next = measures.len();
            measures.entry(&row.measure).or_insert((next, &row.unit));
        }
        let mut measures: Vec<_> = measures.into_iter().collect();
        measures.sort_by_key(|(_, (place, _))| *place);
        measures.into_iter().map(|(name, (_, unit))| (name.to_owned(), unit.to_owned())).collect()
    }

    /// The measures and parameters of these runs, in the form of an experiment's vocabulary.
    pub fn vocabulary(&self) -> Vocabulary {
        Vocabulary {
            measures: self.measures(),
            series: Vec::new(),
            cells: self.runs.iter().map(|run| run.parameters.clone()).collect(),
            is_changed: false,
        }
    }
}

/// Frames that are made by hand.
#[cfg(test)]
impl Frame {
    /// Adds a complete run without rows; returns its index.
    pub fn add_run(&mut self, parameters: &[(&str, &str)]) -> usize {
        let parameters = parameters.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        self.runs.push(FrameRun {
            id: self.runs.len() as i64,
            parameters: parameters.collect(),
            nodes: Vec::new(),
            rows: Vec::new(),
            is_complete: true,
            is_saturated: false,
            is_open: false,
        });
        self.runs.len() - 1
    }

    /// Adds a row to a run. A node that the run does not have yet becomes a client of it.
    #[cfg(test)]
    pub(crate) fn add_row(
        &mut self,
        run: usize,
        node: Option<&str>,
        measure: &str,
        value: Option<f64>,
        unit: &str,
        note: &str,
    ) {
        let run = &mut self.runs[run];
        let node = node.map(|name| match run.nodes.iter().find(|(_, node)| node.name == name) {
            Some((id, _)) => *id,
            None => {
                let id = NodeId(run.nodes.len() as i64);
                run.nodes.push((id, NodeInfo { name: name.to_owned(), role: db::Role::Client }));
                id
            }
        });
        let row = Row::of_run(measure, 0.0, unit);
        run.rows.push(Row { node, value, note: note.to_owned(), ..row });
    }
}

impl FrameRun {
    /// Whether the run's parameters meet a condition. Every run meets conditions on rows, and on what it measures.
    pub fn fulfils(&self, condition: &Condition) -> bool {
        condition.is_of_row()
            || match self.parameters.get(&condition.key) {
                Some(value) => condition.holds(value),
                None => self.is_open || self.rows.iter().any(|row| row.measure == condition.key),
            }
    }

    /// Whether the run was computed, and not made in a network.
    pub fn is_simulated(&self) -> bool {
        self.parameters.get("site").is_some_and(|site| site == SIMULATED)
    }

    /// The reason why treecast refused the run. `None` if it did not.
    pub fn refused(&self) -> Option<&str> {
        self.rows.iter().find(|row| row.measure == REFUSED).map(|row| row.note.as_str())
    }

    /// The node of a row or value; `None` for one of the whole run.
    pub fn node(&self, id: Option<NodeId>) -> Option<&NodeInfo> {
        self.nodes.iter().find(|(known, _)| Some(*known) == id).map(|(_, node)| node)
    }

    /// Whether a row meets a condition on its node, or on another measure. The other measure's value is that of the
    /// row's node, or else that of the run. The row meets all conditions on parameters.
    pub fn row_fulfils(&self, row: &Row, condition: &Condition) -> bool {
        if !condition.is_of_row() {
            let of = |node| {
                self.rows.iter().find(move |other| other.measure == condition.key && other.node == node)
            };
            return self.parameters.contains_key(&condition.key)
                || self.rows.iter().all(|other| other.measure != condition.key)
                || of(row.node)
                    .or_else(|| of(None))
                    .and_then(|other| other.value)
                    .is_some_and(|value| condition.holds(&value.to_string()));
        }
        let Some(node) = self.node(row.node) else { return false };
        condition.holds(if condition.key == "role" { node.role.as_str() } else { &node.name })
    }
}

/// The unit of a numeric parameter, by its name. Most have none.
pub(crate) fn unit_of_parameter(name: &str) -> &'static str {
    match name {
        "size" => "B",
        "link_rate" | "server_rate" => "bit/s",
        "round_trip" => "s",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_on_another_measure_takes_the_nodes_value_before_the_runs() {
        let mut frame = Frame::default();
        let run = frame.add_run(&[]);
        frame.add_row(run, None, "hosts", Some(9.0), "", "");
        frame.add_row(run, Some("alice"), "hosts", Some(1.0), "", "");
        frame.add_row(run, Some("alice"), "goodput", Some(5.0), "bit/s", "");
        frame.add_row(run, Some("bob"), "goodput", Some(5.0), "bit/s", "");
        frame.add_row(run, None, "goodput", Some(5.0), "bit/s", "");
        let run = &frame.runs[run];
        let with = |hosts: &str| {
            let condition = Condition::equal("hosts", hosts);
            let rows = run.rows.iter().filter(|row| row.measure == "goodput");
            rows.map(|row| run.row_fulfils(row, &condition)).collect::<Vec<_>>()
        };
        assert_eq!(with("1"), [true, false, false], "alice has a value of her own");
        assert_eq!(with("9"), [false, true, true], "bob has only the run's");
    }
}
