//! Evaluates expressions over the runs of a frame.

use std::collections::HashMap;

use super::{Aggregate, Condition, Expression, GroupBy, Operator, Selection, number};
use crate::{
    db::{NodeId, Row},
    frame::{Frame, FrameRun},
    statistics::percentile,
};

/// The data that an expression is evaluated over.
#[derive(Clone, Copy)]
pub struct Scope<'f> {
    pub frame: &'f Frame,
    /// The figures that `paper(...)` reads. `None` if there is no paper.
    pub paper: Option<&'f Frame>,
    /// Conditions for every selection that does not name the same parameter itself.
    pub cell: &'f [Condition],
}

/// The result of an expression: a number, or a value for each of many rows or cells, with a unit.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Number(f64, String),
    Set(Vec<Item>, String),
    /// A value for each combination of parameters, and their unit.
    Table(Table, String),
}

/// Values by the combination of parameters that they belong to.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    pub parameters: Vec<String>,
    pub entries: Vec<(Vec<String>, Result<f64, String>)>,
}

/// The value of one row.
#[derive(Debug, Clone, PartialEq)]
pub struct Item {
    /// The index of the run in its frame.
    pub run: usize,
    /// The node; `None` for a value of the whole run.
    pub node: Option<NodeId>,
    /// The value, or the reason why it is missing.
    pub value: Result<f64, String>,
}

/// The reason why an expression has no value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lacking {
    /// No run was made that the expression is about, or the paper has no such figures.
    NotRun(String),
    /// Runs were made, but a value that the expression needs was not measured in all of them.
    NotMeasured(String),
}

/// The index of a run, and a node in it.
type Place = (usize, Option<NodeId>);

type Evaluated<T> = Result<T, Lacking>;

impl Scope<'_> {
    /// Evaluates an expression.
    pub fn value(&self, expression: &Expression) -> Evaluated<Value> {
        match expression {
            Expression::Number(value, unit) => Ok(Value::Number(*value, (*unit).to_owned())),
            Expression::Of(selection) => self.selected(selection),
            Expression::Aggregate(aggregate, inner, group) => {
                self.aggregate(*aggregate, inner, group.as_ref())
            }
            Expression::Paper(inner) => {
                let nothing = || Lacking::NotRun("there is no paper to compare with".into());
                Scope { frame: self.paper.ok_or_else(nothing)?, paper: None, cell: self.cell }.value(inner)
            }
            Expression::Binary(operator, left, right) => {
                self.combine(*operator, self.value(left)?, self.value(right)?)
            }
        }
    }

    /// Evaluates an expression that must give one number. A set of one value counts as a number.
    pub fn number(&self, expression: &Expression) -> Evaluated<(f64, String)> {
        let (values, unit): (Vec<Result<f64, String>>, String) = match self.value(expression)? {
            Value::Number(value, unit) => return Ok((value, unit)),
            Value::Set(items, unit) => (items.into_iter().map(|item| item.value).collect(), unit),
            Value::Table(table, unit) => (table.entries.into_iter().map(|(_, value)| value).collect(), unit),
        };
        match &values[..] {
            [one] => Ok((one.clone().map_err(Lacking::NotMeasured)?, unit)),
            many => Err(Lacking::NotMeasured(format!(
                "there are {} values: say which with median(), max() or another aggregate",
                many.len()
            ))),
        }
    }

    fn selected(&self, selection: &Selection) -> Evaluated<Value> {
        let of_cell =
            self.cell.iter().filter(|outer| selection.conditions.iter().all(|own| own.key != outer.key));
        let conditions: Vec<&Condition> = selection.conditions.iter().chain(of_cell).collect();
        // A run that treecast refused has no values.
        let (refused, runs): (Vec<(usize, &FrameRun)>, Vec<_>) =
            self.frame.runs_that(&conditions).partition(|(_, run)| run.refused().is_some());
        if let (Some(words), []) = (refused.first().and_then(|(_, run)| run.refused()), &runs[..]) {
            return Err(Lacking::NotRun(format!("the program refused {selection}: {words}")));
        }
        if runs.is_empty() {
            return Err(Lacking::NotRun(format!("no run of {selection}{}", self.cell_words())));
        }
        if let Some((_, cut)) = runs.iter().find(|(_, run)| !run.is_complete) {
            return Err(Lacking::NotMeasured(format!("run {} was cut short", cut.id)));
        }
        let mut items = Vec::new();
        let mut unit = "";
        // A paper has no values beside those that it names.
        let is_paper = runs.iter().all(|(_, run)| run.is_open);
        for (index, run) in runs {
            if let Some(value) = run.parameters.get(&selection.name).and_then(|text| number(text)) {
                items.push(Item { run: index, node: None, value: Ok(value) });
                unit = crate::frame::unit_of_parameter(&selection.name);
            }
            for row in run.rows.iter().filter(|row| row.measure == selection.name) {
                if conditions.iter().all(|condition| run.row_fulfils(row, condition)) {
                    items.push(Item { run: index, node: row.node, value: of_row(run, row) });
                    unit = &row.unit;
                }
            }
        }
        match items.is_empty() {
            true if is_paper => {
                Err(Lacking::NotRun(format!("no {selection} in the paper{}", self.cell_words())))
            }
            true => Err(Lacking::NotMeasured(format!("{selection} was not measured{}", self.cell_words()))),
            false => Ok(Value::Set(items, unit.to_owned())),
        }
    }

    fn cell_words(&self) -> String {
        match self.cell.iter().map(ToString::to_string).collect::<Vec<_>>() {
            none if none.is_empty() => String::new(),
            some => format!(", {}", some.join(", ")),
        }
    }

    fn aggregate(
        &self,
        aggregate: Aggregate,
        inner: &Expression,
        group: Option<&GroupBy>,
    ) -> Evaluated<Value> {
        let (items, unit) = match self.value(inner)? {
            Value::Number(value, unit) => return Ok(Value::Number(value, unit)),
            Value::Set(items, unit) => (items, unit),
            Value::Table(table, unit) => {
                let item = |(_, value)| Item { run: 0, node: None, value };
                (table.entries.into_iter().map(item).collect(), unit)
            }
        };
        let unit = if aggregate == Aggregate::Count { String::new() } else { unit };
        Ok(match group {
            None => {
                let value = of_all(aggregate, items.iter()).map_err(Lacking::NotMeasured)?;
                Value::Number(value, unit)
            }
            Some(GroupBy::Parameters(names)) => {
                let groups = grouped(&items, |item| self.values_of(item.run, names).unwrap_or_default());
                let of_group =
                    |(key, items): (Vec<String>, Vec<&Item>)| (key, of_all(aggregate, items.into_iter()));
                let entries = groups.into_iter().filter(|(key, _)| !key.is_empty()).map(of_group).collect();
                Value::Table(Table { parameters: names.clone(), entries }, unit)
            }
            Some(group) => {
                let place = |item: &Item| (item.run, item.node.filter(|_| *group == GroupBy::Node));
                let of_group = |((run, node), items): (Place, Vec<&Item>)| Item {
                    run,
                    node,
                    value: of_all(aggregate, items.into_iter()),
                };
                Value::Set(grouped(&items, place).into_iter().map(of_group).collect(), unit)
            }
        })
    }

    /// The values of some parameters of a run. `None` if the run lacks one of them.
    fn values_of(&self, run: usize, names: &[String]) -> Option<Vec<String>> {
        let parameters = &self.frame.runs.get(run)?.parameters;
        names.iter().map(|name| parameters.get(name).cloned()).collect()
    }

    fn combine(&self, operator: Operator, left: Value, right: Value) -> Evaluated<Value> {
        let unit = operator.unit(left.unit(), right.unit());
        let of = |one: &Result<f64, String>, other: &Result<f64, String>| {
            one.clone().and_then(|one| Ok(operator.of(one, other.clone()?)))
        };
        let beside = |table: &Table, run: usize| -> Option<Result<f64, String>> {
            let key = self.values_of(run, &table.parameters)?;
            table.entries.iter().find(|(other, _)| *other == key).map(|(_, value)| value.clone())
        };
        Ok(match (left, right) {
            (Value::Number(one, _), Value::Number(other, _)) => Value::Number(operator.of(one, other), unit),
            (Value::Number(one, _), other) => other.map(unit, |other| operator.of(one, other)),
            (one, Value::Number(other, _)) => one.map(unit, |one| operator.of(one, other)),
            (Value::Set(left, _), Value::Set(right, _)) => Value::Set(join(operator, &left, &right)?, unit),
            (Value::Set(items, _), Value::Table(table, _)) => {
                let with =
                    |item: Item| Some(Item { value: of(&item.value, &beside(&table, item.run)?), ..item });
                Value::Set(some(items.into_iter().filter_map(with).collect())?, unit)
            }
            (Value::Table(table, _), Value::Set(items, _)) => {
                let with =
                    |item: Item| Some(Item { value: of(&beside(&table, item.run)?, &item.value), ..item });
                Value::Set(some(items.into_iter().filter_map(with).collect())?, unit)
            }
            (Value::Table(left, _), Value::Table(right, _)) => {
                let with = |(key, one): &(Vec<String>, Result<f64, String>)| {
                    let (_, other) = right.entries.iter().find(|(other, _)| other == key)?;
                    Some((key.clone(), of(one, other)))
                };
                let same = left.parameters == right.parameters;
                let entries = left.entries.iter().filter(|_| same).filter_map(with).collect();
                Value::Table(Table { parameters: left.parameters.clone(), entries: some(entries)? }, unit)
            }
        })
    }
}

impl Value {
    fn unit(&self) -> &str {
        match self {
            Self::Number(_, unit) | Self::Set(_, unit) | Self::Table(_, unit) => unit,
        }
    }

    /// Changes every value, and the unit.
    fn map(self, unit: String, of: impl Fn(f64) -> f64) -> Self {
        match self {
            Self::Number(value, _) => Self::Number(of(value), unit),
            Self::Set(items, _) => {
                let item = |item: Item| Item { value: item.value.map(&of), ..item };
                Self::Set(items.into_iter().map(item).collect(), unit)
            }
            Self::Table(table, _) => {
                let entries = table.entries.into_iter().map(|(key, value)| (key, value.map(&of))).collect();
                Self::Table(Table { entries, ..table }, unit)
            }
        }
    }
}

/// Groups items by key, in the order in which keys first appear.
fn grouped<K: Clone + Eq + std::hash::Hash>(
    items: &[Item],
    key: impl Fn(&Item) -> K,
) -> Vec<(K, Vec<&Item>)> {
    let mut groups: Vec<(K, Vec<&Item>)> = Vec::new();
    let mut places = HashMap::new();
    for item in items {
        let key = key(item);
        let place = *places.entry(key.clone()).or_insert_with(|| {
            groups.push((key, Vec::new()));
            groups.len() - 1
        });
        groups[place].1.push(item);
    }
    groups
}

/// Returns the joined items, or an error if there are none.
fn some<T>(joined: Vec<T>) -> Evaluated<Vec<T>> {
    match joined.is_empty() {
        true => Err(Lacking::NotMeasured("no run has both of the values that are combined".into())),
        false => Ok(joined),
    }
}

fn of_row(run: &FrameRun, row: &Row) -> Result<f64, String> {
    row.value.ok_or_else(|| {
        let node = run.node(row.node).map_or("", |node| node.name.as_str());
        let note = if row.note.is_empty() { "no value" } else { &row.note };
        [&format!("run {}", run.id), node, note].into_iter().filter(|word| !word.is_empty()).fold(
            String::new(),
            |text, word| if text.is_empty() { word.to_owned() } else { format!("{text}, {word}") },
        )
    })
}

/// Aggregates many values to one. Fails if one of them is missing. Gives no number if one of them is none.
fn of_all<'i>(aggregate: Aggregate, items: impl Iterator<Item = &'i Item>) -> Result<f64, String> {
    let values: Vec<f64> = items.map(|item| item.value.clone()).collect::<Result<_, _>>()?;
    if aggregate != Aggregate::Count && values.iter().any(|value| value.is_nan()) {
        return Ok(f64::NAN);
    }
    let of = |percent: f64| percentile(&values, percent).unwrap_or(f64::NAN);
    Ok(match aggregate {
        Aggregate::Median => of(50.0),
        Aggregate::Percentile(percent) => of(percent),
        Aggregate::Min => of(0.0),
        Aggregate::Max => of(100.0),
        Aggregate::Sum => values.iter().sum(),
        Aggregate::Mean => values.iter().sum::<f64>() / values.len() as f64,
        Aggregate::Count => values.len() as f64,
    })
}

/// Combines each value of one set with the value of the other set for the same node, or for the whole run.
fn join(operator: Operator, left: &[Item], right: &[Item]) -> Evaluated<Vec<Item>> {
    let mut by_place: HashMap<Place, &Item> = HashMap::new();
    let mut nodes_of: HashMap<usize, Vec<&Item>> = HashMap::new();
    for item in right {
        if by_place.insert((item.run, item.node), item).is_some() {
            return Err(Lacking::NotMeasured(
                "several values of one node are combined with others: aggregate them `by node` first".into(),
            ));
        }
        nodes_of.entry(item.run).or_default().push(item);
    }
    let both = |one: &Item, other: &Item| Item {
        run: one.run,
        node: one.node.or(other.node),
        value: one.value.clone().and_then(|one| Ok(operator.of(one, other.value.clone()?))),
    };
    let mut joined = Vec::new();
    for item in left {
        if let Some(other) = by_place.get(&(item.run, item.node)).or_else(|| by_place.get(&(item.run, None)))
        {
            joined.push(both(item, other));
        } else if item.node.is_none() {
            joined.extend(nodes_of.get(&item.run).into_iter().flatten().map(|other| both(item, other)));
        }
    }
    some(joined)
}

impl Operator {
    fn of(self, left: f64, right: f64) -> f64 {
        match self {
            Self::Add => left + right,
            Self::Subtract => left - right,
            Self::Multiply => left * right,
            // Not infinite: what is divided by that would be a number again.
            Self::Divide if right == 0.0 => f64::NAN,
            Self::Divide => left / right,
        }
    }

    pub(super) fn unit(self, left: &str, right: &str) -> String {
        match (self, left, right) {
            (Self::Divide, left, right) if left == right => String::new(),
            (Self::Multiply, "s", "bit/s") | (Self::Multiply, "bit/s", "s") => "bit".into(),
            (Self::Divide, "bit", "B") => String::new(),
            (Self::Divide, left, "") => left.to_owned(),
            (Self::Divide, left, right) => format!("{left}/{right}"),
            (_, "", right) => right.to_owned(),
            (Self::Multiply, left, right) if !right.is_empty() => format!("{left} {right}"),
            (_, left, _) => left.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Frame;

    /// Two runs of each delivery; `nack` takes 1 to 4 s, `unicast` 10 to 40 s; node `c1` has none in one run of `after`.
    fn frame() -> Frame {
        let mut frame = Frame::default();
        for (delivery, factor) in [("nack", 1.0), ("unicast", 10.0), ("after", 2.0)] {
            for repeat in 0..2 {
                let run = frame.add_run(&[
                    ("delivery", delivery),
                    ("size", "1000"),
                    ("repeat", &repeat.to_string()),
                ]);
                for node in 0..2 {
                    let value = factor * f64::from(1 + node + 2 * repeat);
                    let value = (delivery != "after" || repeat == 0 || node == 0).then_some(value);
                    frame.add_row(run, Some(&format!("c{node}")), "time", value, "s", "the copy is wrong");
                }
                frame.add_row(run, None, "sent", Some(500.0 * factor), "B", "");
            }
        }
        frame
    }

    fn number(text: &str) -> Evaluated<(f64, String)> {
        let frame = frame();
        Scope { frame: &frame, paper: None, cell: &[] }.number(&Expression::parse(text).unwrap())
    }

    fn of(text: &str) -> f64 {
        number(text).unwrap().0
    }

    #[test]
    fn aggregates_take_all_rows_or_one_of_each_run() {
        assert_eq!(of("median(time{delivery = nack})"), 2.5);
        assert_eq!(of("median(max(time{delivery = nack}) by run)"), 3.0);
        assert_eq!(of("median(max(time{delivery = nack} by run))"), 3.0);
        assert_eq!(of("max(mean(time{delivery = unicast}) by run) / mean(time{delivery = nack})"), 14.0);
        assert_eq!(of("count(time{delivery = nack})"), 4.0);
        assert_eq!(of("percentile(100, time{delivery = nack, node = c0})"), 3.0);
        assert_eq!(of("sum(sent{delivery = nack | unicast, repeat = 0})"), 5500.0);
    }

    #[test]
    fn sets_are_joined_by_run_and_node_and_units_are_kept() {
        assert_eq!(number("max(sent{delivery = unicast} / size)").unwrap(), (5.0, "".into()));
        assert_eq!(number("max(size / time{delivery = nack})").unwrap(), (1000.0, "B/s".into()));
        assert_eq!(number("min(time{delivery = nack} / time{delivery = nack})").unwrap(), (1.0, "".into()));
        assert_eq!(number("2 * max(time{delivery = nack})").unwrap(), (8.0, "s".into()));
        assert_eq!(of("-max(time{delivery = nack}) + 10 s"), 6.0);
        let copies = Operator::Divide.unit(&Operator::Multiply.unit("s", "bit/s"), "B");
        assert_eq!(copies, "", "the time of one copy at the rate of a link is a number");
    }

    #[test]
    fn a_run_is_compared_with_another_delivery_in_its_own_cell() {
        let saved = |cell: &str| {
            format!("1 - time{{delivery = nack{cell}}} / max(time{{delivery = unicast}} by repeat)")
        };
        // The slowest by unicast took 20 s in the first repetition and 40 s in the second.
        assert_eq!(of(&format!("min({})", saved(", repeat = 0"))), 1.0 - 2.0 / 20.0);
        assert_eq!(of(&format!("min({})", saved(", repeat = 1"))), 1.0 - 4.0 / 40.0);
        assert_eq!(
            of("max(max(time{delivery = nack} by repeat) / max(time{delivery = unicast} by repeat))"),
            0.1
        );
        let error = Expression::parse("max(time by size, tiem)").unwrap().check(&frame().vocabulary(), &[]);
        assert!(error.unwrap_err().starts_with("`by tiem`: no run has that parameter: there are delivery"));
    }

    #[test]
    fn a_condition_may_be_about_another_measure_of_the_same_node_or_of_the_run() {
        let mut frame = frame();
        for run in 0..2 {
            frame.add_row(run, Some("c0"), "retransmitted", Some(0.0), "B", "");
            frame.add_row(run, Some("c1"), "retransmitted", Some(7.0), "B", "");
        }
        let number = |text: &str| {
            let expression = Expression::parse(text).unwrap();
            expression.check(&frame.vocabulary(), &[]).unwrap();
            Scope { frame: &frame, paper: None, cell: &[] }.number(&expression).map(|(value, _)| value)
        };
        assert_eq!(number("sum(time{retransmitted = 0})"), Ok(1.0 + 3.0));
        assert_eq!(number("sum(size / time{retransmitted > 0})"), Ok(1000.0 / 2.0 + 1000.0 / 4.0));
        assert_eq!(number("sum(time{delivery = nack, sent >= 500})"), Ok(10.0), "a measure of the whole run");
        assert!(number("max(time{retransmitted > 7})").is_err());
        assert!(
            number("max(time{delivery = unicast, retransmitted = 0})").is_err(),
            "it did not measure that"
        );
    }

    #[test]
    fn what_the_program_refused_was_not_run() {
        let mut frame = frame();
        let run = frame.add_run(&[("delivery", "scp"), ("size", "1000"), ("repeat", "0")]);
        frame.add_row(run, Some("c0"), "time", None, "s", "no");
        frame.add_row(run, None, "sent", Some(0.0), "B", "");
        frame.add_row(run, None, crate::frame::REFUSED, Some(1.0), "", "scp needs ssh");
        let number = |text: &str| {
            Scope { frame: &frame, paper: None, cell: &[] }.number(&Expression::parse(text).unwrap())
        };
        assert_eq!(number("min(sent)").unwrap().0, 500.0);
        assert_eq!(number("max(time{delivery = scp | nack})").unwrap().0, 4.0);
        let refused = Lacking::NotRun("the program refused time{delivery = scp}: scp needs ssh".into());
        assert_eq!(number("max(time{delivery = scp})").unwrap_err(), refused);
    }

    #[test]
    fn what_is_lacking_is_named() {
        let lacking = |text: &str| number(text).unwrap_err();
        assert_eq!(
            lacking("max(time{delivery = after})"),
            Lacking::NotMeasured("run 5, c1, the copy is wrong".into())
        );
        assert_eq!(of("max(time{delivery = after, node = c0})"), 6.0, "the other node has all its values");
        assert_eq!(
            lacking("max(time{delivery = tcp})"),
            Lacking::NotRun("no run of time{delivery = tcp}".into())
        );
        let Lacking::NotMeasured(why) = lacking("max(silence)") else { panic!() };
        assert_eq!(why, "silence was not measured");
        let Lacking::NotMeasured(why) = lacking("time{delivery = nack} * 2") else { panic!() };
        assert!(why.contains("median()"), "{why}");
        let Lacking::NotMeasured(why) = lacking("max(time{delivery = nack} / time{delivery = unicast})")
        else {
            panic!()
        };
        assert!(why.contains("no run has both"), "{why}");
        assert!(matches!(lacking("paper(time)"), Lacking::NotRun(_)));
    }
}
