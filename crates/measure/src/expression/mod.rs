//! Expressions over measures, as used by claims and plots: `median(time{delivery = "nack"}) <= 3 s`.
//!
//! [`Claimed::parse`] and [`Expression::parse`] read the text. [`Scope::value`] evaluates an expression over
//! the runs of a [`Frame`]. A selection such as `time{delivery = "nack"}` is a *set*: a value for each row of
//! each run that it selects. Arithmetic on two sets joins them by run and node. An aggregate turns a set into
//! one number; with `by run` into one number for each run, and with `by load, receivers` into one for each
//! combination of these parameters. For example, the share that a run saves against unicast in its own cell is
//! `1 - bytes / median(bytes{delivery = "unicast"} by load, receivers)`.

mod evaluate;
mod lexer;
mod parser;

pub use crate::condition::{Condition, Relation, number};
use crate::frame::{Vocabulary, unit_of_parameter};

pub use evaluate::{Lacking, Scope, Value};

/// An expression without a comparison.
#[derive(Debug, Clone, PartialEq)]
pub enum Expression {
    /// A number in base units, and its unit.
    Number(f64, &'static str),
    Of(Selection),
    Aggregate(Aggregate, Box<Expression>, Option<GroupBy>),
    /// The paper's value, in place of the measured one.
    Paper(Box<Expression>),
    Binary(Operator, Box<Expression>, Box<Expression>),
}

/// A measure, or a numeric parameter, in the runs that match all conditions.
#[derive(Debug, Clone, PartialEq)]
pub struct Selection {
    pub name: String,
    pub conditions: Vec<Condition>,
}

/// The division of a set into groups. Each group is aggregated by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GroupBy {
    Run,
    /// One group for each node of each run.
    Node,
    /// One group for each combination of these parameters.
    Parameters(Vec<String>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
}

/// A function that turns many numbers into one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Aggregate {
    Median,
    Mean,
    Min,
    Max,
    Sum,
    Count,
    /// The value below which this percentage of the values lie, 0 to 100.
    Percentile(f64),
}

/// A chain of comparisons, such as `0.5 <= x <= 2`.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    pub first: Expression,
    pub others: Vec<(Relation, Expression)>,
}

/// The expression of a claim: every comparison has to hold.
#[derive(Debug, Clone, PartialEq)]
pub struct Claimed {
    pub comparisons: Vec<Comparison>,
}

/// The beginning of a text, as much as a message can show of it.
pub(crate) fn shortened(text: &str) -> String {
    const MOST: usize = 60;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

impl Claimed {
    /// Parses the text of a claim. The error names the column and what was expected there.
    pub fn parse(text: &str) -> Result<Self, String> {
        Ok(Self { comparisons: parser::Parser::new(text)?.claim()? })
    }

    /// Every expression of the claim.
    pub fn expressions(&self) -> impl Iterator<Item = &Expression> {
        self.comparisons.iter().flat_map(Comparison::expressions)
    }
}

impl Comparison {
    /// Every side, from left to right.
    pub fn expressions(&self) -> impl Iterator<Item = &Expression> {
        std::iter::once(&self.first).chain(self.others.iter().map(|(_, other)| other))
    }
}

impl Expression {
    /// Parses an expression without a comparison.
    pub fn parse(text: &str) -> Result<Self, String> {
        parser::Parser::new(text)?.expression()
    }

    /// Every selection of measured runs. Selections inside `paper(...)` are left out.
    pub fn selections(&self) -> Vec<&Selection> {
        match self {
            Self::Number(..) | Self::Paper(_) => Vec::new(),
            Self::Of(selection) => vec![selection],
            Self::Aggregate(_, inner, _) => inner.selections(),
            Self::Binary(_, left, right) => [left.selections(), right.selections()].concat(),
        }
    }

    /// Checks names and selections against the planned runs, before anything is measured.
    pub fn check(&self, vocabulary: &Vocabulary, cell: &[Condition]) -> Result<(), String> {
        let grouped = self.grouped();
        if let Some(unknown) = grouped.iter().find(|name| !vocabulary.has_parameter(name)) {
            let there_are = vocabulary.parameters().into_iter().collect::<Vec<_>>().join(", ");
            return Err(format!(
                "`by {unknown}`: no run has that parameter: there are {there_are}, and `run` and `node`"
            ));
        }
        self.selections().into_iter().try_for_each(|selection| selection.check(vocabulary, cell))
    }

    /// The names of the measures that the expression takes from papers.
    pub fn of_papers(&self) -> Vec<String> {
        match self {
            Self::Number(..) | Self::Of(_) => Vec::new(),
            Self::Paper(inner) => inner.selections().iter().map(|of| of.name.clone()).collect(),
            Self::Aggregate(_, inner, _) => inner.of_papers(),
            Self::Binary(_, left, right) => [left.of_papers(), right.of_papers()].concat(),
        }
    }

    /// Every `paper(...)` outside of an aggregate.
    pub fn papers(&self) -> Vec<&Expression> {
        match self {
            Self::Number(..) | Self::Of(_) | Self::Aggregate(..) => Vec::new(),
            Self::Paper(_) => vec![self],
            Self::Binary(_, left, right) => [left.papers(), right.papers()].concat(),
        }
    }

    /// The unit of the expression's values. Empty where it is not known, or where there is none.
    pub fn unit(&self, vocabulary: &Vocabulary) -> String {
        match self {
            Self::Number(_, unit) => (*unit).to_owned(),
            Self::Of(Selection { name, .. }) => {
                let measure = vocabulary.measures.iter().find(|(measure, _)| measure == name);
                measure.map_or_else(|| unit_of_parameter(name).to_owned(), |(_, unit)| unit.clone())
            }
            Self::Aggregate(Aggregate::Count, ..) => String::new(),
            Self::Aggregate(_, inner, _) | Self::Paper(inner) => inner.unit(vocabulary),
            Self::Binary(operator, left, right) => {
                operator.unit(&left.unit(vocabulary), &right.unit(vocabulary))
            }
        }
    }

    /// The parameters that aggregates are grouped by.
    fn grouped(&self) -> Vec<&String> {
        match self {
            Self::Number(..) | Self::Of(_) | Self::Paper(_) => Vec::new(),
            Self::Aggregate(_, inner, Some(GroupBy::Parameters(names))) => {
                inner.grouped().into_iter().chain(names).collect()
            }
            Self::Aggregate(_, inner, _) => inner.grouped(),
            Self::Binary(_, left, right) => [left.grouped(), right.grouped()].concat(),
        }
    }
}

impl Selection {
    fn check(&self, vocabulary: &Vocabulary, cell: &[Condition]) -> Result<(), String> {
        let is_measure = vocabulary.measures.iter().any(|(measure, _)| *measure == self.name);
        if !is_measure && !vocabulary.has_parameter(&self.name) {
            let measures: Vec<&str> = vocabulary.measures.iter().map(|(name, _)| name.as_str()).collect();
            let (name, there_are) = (shortened(&self.name), measures.join(", "));
            return Err(format!("no run measures `{name}`: there are {there_are}"));
        }
        self.conditions.iter().try_for_each(|condition| vocabulary.check(condition))?;
        let of_cell = cell.iter().filter(|outer| self.conditions.iter().all(|own| own.key != outer.key));
        let all: Vec<&Condition> = self.conditions.iter().chain(of_cell).collect();
        let matches = |parameters: &crate::db::Parameters| {
            all.iter().all(|condition| {
                condition.is_of_row()
                    || vocabulary.is_measure_alone(&condition.key)
                    || parameters.get(&condition.key).is_some_and(|is| condition.holds(is))
            })
        };
        match vocabulary.is_changed || vocabulary.cells.iter().any(matches) {
            true => Ok(()),
            false => {
                let all = all.into_iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
                Err(format!("no run has all of {all}"))
            }
        }
    }
}

impl Aggregate {
    const NAMED: [(&'static str, Self); 6] = [
        ("median", Self::Median),
        ("mean", Self::Mean),
        ("min", Self::Min),
        ("max", Self::Max),
        ("sum", Self::Sum),
        ("count", Self::Count),
    ];

    fn parse(name: &str) -> Option<Self> {
        Self::NAMED.into_iter().find(|(named, _)| *named == name).map(|(_, aggregate)| aggregate)
    }
}

impl std::fmt::Display for Selection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)?;
        if self.conditions.is_empty() {
            return Ok(());
        }
        let conditions: Vec<String> = self.conditions.iter().map(ToString::to_string).collect();
        write!(f, "{{{}}}", conditions.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_of_comparisons_is_one() {
        let claimed = Claimed::parse("0.5 <= median(share) <= 2 and max(lost) == 0").unwrap();
        assert_eq!(claimed.comparisons.len(), 2);
        assert_eq!(claimed.comparisons[0].others.len(), 2);
        assert_eq!(claimed.expressions().count(), 5);
    }

    #[test]
    fn products_bind_before_sums_and_left_before_right() {
        let text = Expression::parse("8 - 4 - 2 * 3").unwrap();
        let Expression::Binary(Operator::Subtract, left, right) = text else { panic!("{text:?}") };
        assert!(matches!(*left, Expression::Binary(Operator::Subtract, ..)));
        assert!(matches!(*right, Expression::Binary(Operator::Multiply, ..)));
    }

    #[test]
    fn errors_name_the_column_and_what_was_expected() {
        let error = |text: &str| Claimed::parse(text).unwrap_err();
        assert_eq!(error("median(time)"), "column 13: expected one of <, <=, >, >= and ==, found the end");
        assert_eq!(error("median(time <= 3"), "column 13: expected `)`, found `<=`");
        assert!(error("average(time) < 3").contains("no function `average`: there are median, mean"));
        assert_eq!(error("1 < 2 3"), "column 7: expected `and`, a comparison or the end, found `3`");
        assert!(error("max(time{delivery}) < 3").contains("expected one of =, !="));
        assert!(error("percentile(time) < 3").contains("the percentile"));
        assert!(error(&format!("{}1", "(".repeat(1000))).contains("at most 64 brackets"));
        assert_eq!(error(&"1 + ".repeat(100_000)), "column 4001: expected at most 4000 characters");
    }

    proptest::proptest! {
        /// Any text in an experiment's file is read, or refused with a column.
        #[test]
        fn no_text_can_make_the_parser_panic(text in "[ -~é]{0,40}|([a-z]{1,4}|[0-9.]{1,3}|[(){},|<>=+*/\"-]|by|and| ){0,30}") {
            if let Err(what) = Claimed::parse(&text) {
                proptest::prop_assert!(what.starts_with("column ") || what.starts_with("there is no function"), "{}", what);
            }
            let _ = number(&text);
        }
    }
}
