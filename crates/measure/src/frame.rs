//! Runs with their parameters and rows in memory: what claims, plots and tables are worked out over.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::{
    condition::Condition,
    db::{self, Db, NodeInfo, Parameters, Role, RunId, Status},
};

/// The measure of a run that the program itself refused; the row's note has the program's words.
pub const REFUSED: &str = "refused";

/// Runs in the order in which they began. A paper's figures are a frame, too.
#[derive(Debug, Clone, Default)]
pub struct Frame {
    pub runs: Vec<FrameRun>,
}

/// One run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FrameRun {
    /// Its number in the database.
    pub id: i64,
    pub parameters: Parameters,
    pub nodes: Vec<NodeInfo>,
    pub rows: Vec<FrameRow>,
    /// False for a run that was cut short: its averages would lack what came last.
    pub is_complete: bool,
    /// The machine was at its limit.
    pub is_saturated: bool,
    /// A parameter that it does not have matches every condition: a paper's figure says nothing about most of them.
    pub is_open: bool,
}

/// One measured value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FrameRow {
    /// The index in [`FrameRun::nodes`]; `None` for a value of the whole run.
    pub node: Option<usize>,
    pub measure: String,
    /// `None` where there should be a value and is none.
    pub value: Option<f64>,
    pub unit: String,
    /// Why there is no value.
    pub note: String,
}

/// What an experiment is going to measure, known before it starts.
#[derive(Debug, Clone, Default)]
pub struct Vocabulary {
    /// The names of the measures, each with its unit.
    pub measures: Vec<(String, String)>,
    /// The parameters of every run that is planned.
    pub cells: Vec<Parameters>,
    /// Whether the command line has changed what the file says: then a cell that no run has is no mistake of the file.
    pub is_changed: bool,
}

impl Vocabulary {
    /// Checks that the parameter exists and that some run has a value that fits.
    pub fn check(&self, condition: &Condition) -> Result<(), String> {
        if condition.is_of_row() {
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

    /// The names of all parameters.
    pub fn parameters(&self) -> BTreeSet<&str> {
        self.cells.iter().flat_map(|cell| cell.keys().map(String::as_str)).collect()
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
    /// Loads `runs`, or all when the list is empty.
    pub fn load(db: &Db, runs: &[RunId]) -> db::Result<Self> {
        let wanted = |run: &db::Run| runs.is_empty() || runs.contains(&run.id);
        let mut frame = Self::default();
        for run in db.runs()?.into_iter().filter(wanted) {
            let (ids, nodes): (Vec<_>, Vec<_>) = db.nodes(run.id)?.into_iter().unzip();
            let rows = db.rows(run.id)?.into_iter().map(|row| FrameRow {
                node: row.node.and_then(|node| ids.iter().position(|id| *id == node)),
                measure: row.measure,
                value: row.value,
                unit: row.unit,
                note: row.note,
            });
            frame.runs.push(FrameRun {
                id: run.id.0,
                parameters: run.parameters,
                nodes,
                rows: rows.collect(),
                is_complete: run.status == Status::Complete,
                is_saturated: run.saturated.is_some(),
                is_open: false,
            });
        }
        Ok(frame)
    }

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
    pub fn add_row(
        &mut self,
        run: usize,
        node: Option<&str>,
        measure: &str,
        value: Option<f64>,
        unit: &str,
        note: &str,
    ) {
        let run = &mut self.runs[run];
        let node = node.map(|name| match run.nodes.iter().position(|node| node.name == name) {
            Some(index) => index,
            None => {
                run.nodes.push(NodeInfo { name: name.to_owned(), role: Role::Client });
                run.nodes.len() - 1
            }
        });
        run.rows.push(FrameRow {
            node,
            measure: measure.to_owned(),
            value,
            unit: unit.to_owned(),
            note: note.to_owned(),
        });
    }

    /// The runs that fulfil all conditions on parameters, with their indices.
    pub fn runs_that<'f>(
        &'f self,
        conditions: &'f [&'f Condition],
    ) -> impl Iterator<Item = (usize, &'f FrameRun)> + 'f {
        let fulfils = |run: &&FrameRun| conditions.iter().all(|condition| run.fulfils(condition));
        self.runs.iter().enumerate().filter(move |(_, run)| fulfils(run))
    }

    /// The combinations of values that complete and other runs have for `parameters`, in order of appearance, as
    /// conditions. Runs that lack one of the parameters are left out.
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

    /// What was measured, in the form of what is planned.
    pub fn vocabulary(&self) -> Vocabulary {
        Vocabulary {
            measures: self.measures(),
            cells: self.runs.iter().map(|run| run.parameters.clone()).collect(),
            is_changed: false,
        }
    }
}

impl FrameRun {
    /// Whether its parameters fulfil a condition. Conditions on rows are fulfilled by every run.
    pub fn fulfils(&self, condition: &Condition) -> bool {
        condition.is_of_row()
            || match self.parameters.get(&condition.key) {
                Some(value) => condition.holds(value),
                None => self.is_open,
            }
    }

    /// The words with which the program refused the run's cell; `None` when it did not.
    pub fn refused(&self) -> Option<&str> {
        self.rows.iter().find(|row| row.measure == REFUSED).map(|row| row.note.as_str())
    }

    /// Whether a row fulfils a condition on its node; other conditions are not about it.
    pub fn row_fulfils(&self, row: &FrameRow, condition: &Condition) -> bool {
        if !condition.is_of_row() {
            return true;
        }
        let Some(node) = row.node.and_then(|node| self.nodes.get(node)) else { return false };
        condition.holds(if condition.key == "role" { node.role.as_str() } else { &node.name })
    }
}

/// The unit of a parameter that is a number, by its name; most have none.
pub fn unit_of_parameter(name: &str) -> &'static str {
    match name {
        "size" => "B",
        "link_rate" | "server_rate" => "bit/s",
        _ => "",
    }
}
