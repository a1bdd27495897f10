//! Claims: what an experiment is to show, and whether it did.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    expression::{Claimed, Comparison, Condition, Expression, Lacking, Scope, shortened},
    frame::{Frame, SITE, Vocabulary},
    paper::Papers,
    tables::{quantity, three_digits},
    words::cell_in_words,
};

/// A claim, as written in the file of an experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// The claim in words.
    pub says: String,
    /// The claim as an expression with a comparison.
    pub holds: String,
    /// The cells that the claim is about: parameters and their values. If none of them ran, the claim is not
    /// judged.
    #[serde(default, rename = "where")]
    pub cells: BTreeMap<String, Text>,
    /// Parameters: the claim is judged once for each combination of their values.
    #[serde(default)]
    pub each: Vec<String>,
    /// The data file that `paper(...)` reads. `None`: all data files of the experiment.
    pub paper: Option<String>,
}

/// A text, a number, or a list of these, as an experiment's file names the values of a parameter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected a text, a number, or a list of these")]
pub enum Text {
    Text(String),
    Number(f64),
    Several(Vec<Text>),
}

impl Text {
    /// The values that match.
    pub fn values(&self) -> Vec<String> {
        match self {
            Self::Text(text) => vec![text.clone()],
            Self::Number(number) => vec![number.to_string()],
            Self::Several(several) => several.iter().flat_map(Text::values).collect(),
        }
    }
}

/// The conditions of a `where` table.
pub(crate) fn conditions(cells: &BTreeMap<String, Text>) -> Vec<Condition> {
    let of = |(key, text): (&String, &Text)| Condition { values: text.values(), ..Condition::equal(key, "") };
    cells.iter().map(of).collect()
}

/// The result of a claim in one cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Finding {
    pub says: String,
    /// The cell in words, such as `S1L20, 32 MiB`. Empty for a claim about all runs.
    pub cell: String,
    /// The measured value with its unit, or the reason why there is none.
    pub measured: String,
    /// The limit that the value had to meet, e.g. `at most 1.15 s`.
    pub limit: String,
    pub verdict: Verdict,
}

/// Whether a claim holds in a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Holds,
    Fails,
    /// No run was made that the claim is about, its sides cannot be compared, or one is no number.
    NotJudged,
}

impl Claim {
    /// Checks the claim against the planned runs, so that a mistake shows before hours of measuring.
    pub fn check(&self, vocabulary: &Vocabulary) -> Result<(), String> {
        self.checked(vocabulary).map_err(|what| format!("claim `{}`: {what}", shortened(&self.says)))
    }

    /// Checks that each `paper(...)` that is compared by itself is at most one value in every cell of the claim.
    pub fn check_papers(&self, vocabulary: &Vocabulary, papers: &Papers) -> Result<(), String> {
        let Ok(claimed) = Claimed::parse(&self.holds) else { return Ok(()) };
        let (made_for, paper) = (conditions(&self.cells), papers.frame(self.paper.as_deref()));
        let planned = vocabulary.frame();
        for cell in planned.cells(&self.each, &made_for.iter().collect::<Vec<_>>()) {
            let conditions = [cell, made_for.clone()].concat();
            let scope = Scope { frame: &planned, paper: Some(&paper), cell: &conditions };
            for theirs in claimed.expressions().flat_map(Expression::papers) {
                if let Err(Lacking::NotMeasured(what)) = scope.number(theirs) {
                    let cell = cell_in_words(&conditions);
                    return Err(format!("claim `{}`: paper(...) with {cell}: {what}", shortened(&self.says)));
                }
            }
        }
        Ok(())
    }

    /// Whether the claim says of which site its values are, and so compares runs that several commands have made.
    pub fn names_sites(&self) -> bool {
        let claimed = Claimed::parse(&self.holds).ok();
        let selections = claimed.iter().flat_map(Claimed::expressions).flat_map(Expression::selections);
        selections.flat_map(|of| &of.conditions).any(|condition| condition.key == SITE)
    }

    /// The measures that the claim takes from papers.
    pub fn of_papers(&self) -> Vec<String> {
        let claimed = Claimed::parse(&self.holds).ok();
        claimed.iter().flat_map(Claimed::expressions).flat_map(Expression::of_papers).collect()
    }

    fn checked(&self, vocabulary: &Vocabulary) -> Result<(), String> {
        let claimed =
            Claimed::parse(&self.holds).map_err(|what| format!("`{}`: {what}", shortened(&self.holds)))?;
        let cells = conditions(&self.cells);
        cells.iter().try_for_each(|condition| vocabulary.check(condition))?;
        vocabulary.check_parameters(&self.each)?;
        claimed.expressions().try_for_each(|expression| expression.check(vocabulary, &cells))?;
        claimed.comparisons.iter().try_for_each(|comparison| {
            let units: Vec<String> = comparison.expressions().map(|side| side.unit(vocabulary)).collect();
            check_units(units.iter().map(String::as_str))
        })
    }

    fn judge(&self, frame: &Frame, papers: &Papers) -> Vec<Finding> {
        let unjudged = |cell: &[Condition], why: String| Finding {
            says: self.says.clone(),
            cell: cell_in_words(cell),
            measured: why,
            limit: String::new(),
            verdict: Verdict::NotJudged,
        };
        let claimed = match Claimed::parse(&self.holds) {
            Ok(claimed) => claimed,
            Err(what) => return vec![Finding { verdict: Verdict::Fails, ..unjudged(&[], what) }],
        };
        let made_for = conditions(&self.cells);
        let paper = papers.frame(self.paper.as_deref());
        let cells = frame.cells(&self.each, &made_for.iter().collect::<Vec<_>>());
        if cells.is_empty() {
            return vec![unjudged(&made_for, "no run was made that it is about".into())];
        }
        let of_cell = |cell: Vec<Condition>| {
            let conditions = [cell.clone(), made_for.clone()].concat();
            let scope = Scope { frame, paper: Some(&paper), cell: &conditions };
            let in_percent = self.holds.contains('%');
            let judged = claimed.comparisons.iter().map(|comparison| judged(&scope, comparison, in_percent));
            let worst = judged.max_by_key(|judged| judged.rank());
            let finding = unjudged(&cell, String::new());
            match worst {
                Some(Judged::Endless(what)) => {
                    Finding { measured: format!("{what} in `{}`", shortened(&self.holds)), ..finding }
                }
                Some(Judged::Unjudged(why)) => Finding { measured: why, ..finding },
                Some(Judged::Lacking(measured)) => Finding { measured, verdict: Verdict::Fails, ..finding },
                Some(Judged::Compared { measured, limit, holds }) => {
                    let verdict = if holds { Verdict::Holds } else { Verdict::Fails };
                    Finding { measured, limit, verdict, ..finding }
                }
                None => finding,
            }
        };
        cells.into_iter().map(of_cell).collect()
    }
}

/// Judges each claim in each of its cells.
pub fn judge(claims: &[Claim], frame: &Frame, papers: &Papers) -> Vec<Finding> {
    claims.iter().flat_map(|claim| claim.judge(frame, papers)).collect()
}

enum Judged {
    Compared {
        measured: String,
        limit: String,
        holds: bool,
    },
    Unjudged(String),
    /// A side is no finite number, for this reason.
    Endless(&'static str),
    Lacking(String),
}

impl Judged {
    /// The order of comparisons that decide a claim: one that fails comes before one that could not be judged,
    /// which comes before one that holds.
    fn rank(&self) -> u8 {
        match self {
            Self::Compared { holds: true, .. } => 0,
            Self::Unjudged(_) | Self::Endless(_) => 1,
            Self::Compared { holds: false, .. } => 2,
            Self::Lacking(_) => 3,
        }
    }
}

fn judged(scope: &Scope<'_>, comparison: &Comparison, in_percent: bool) -> Judged {
    match compared(scope, comparison, in_percent) {
        Ok(judged) => judged,
        Err(Lacking::NotRun(why)) => Judged::Unjudged(why),
        Err(Lacking::NotMeasured(why)) => Judged::Lacking(format!("nothing: {why}")),
    }
}

/// Compares the sides. With `in_percent`, a comparison with a share is written in per cent, as the claim has it.
fn compared(scope: &Scope<'_>, comparison: &Comparison, in_percent: bool) -> Result<Judged, Lacking> {
    let first = scope.number(&comparison.first)?;
    let others = comparison.others.iter();
    let others = others.map(|(relation, other)| Ok((*relation, scope.number(other)?)));
    let others: Vec<_> = others.collect::<Result<_, Lacking>>()?;
    let sides: Vec<&(f64, String)> = std::iter::once(&first).chain(others.iter().map(|(_, v)| v)).collect();
    check_units(sides.iter().map(|(_, unit)| unit.as_str())).map_err(Lacking::NotRun)?;
    if let Some((value, _)) = sides.iter().find(|(value, _)| !value.is_finite()) {
        return Ok(Judged::Endless(if value.is_nan() { "division by 0" } else { "too large a number" }));
    }
    let mut holds = true;
    let mut left = first.0;
    for (relation, (right, _)) in &others {
        holds &= relation.holds(left, *right);
        left = *right;
    }
    // The measured value is the first side that is not a plain number. The other sides are its limits.
    let place =
        comparison.expressions().position(|side| !matches!(side, Expression::Number(..))).unwrap_or(0);
    // A number without a unit, such as the 2 in `2 s <= x`, is written in the unit of what was measured.
    let has_share = |side: &Expression| matches!(side, Expression::Number(value, "") if value.fract() != 0.0);
    let in_percent = in_percent && comparison.expressions().any(has_share);
    let written = |(value, unit): &(f64, String)| {
        let unit = if unit.is_empty() { &sides[place].1 } else { unit };
        match unit.is_empty() && in_percent {
            true => format!("{} %", three_digits(100.0 * value)),
            false => quantity(*value, unit),
        }
    };
    let limit = |index: usize| match index.cmp(&place) {
        std::cmp::Ordering::Less => {
            format!("{} {}", others[index].0.turned().words(), written(sides[index]))
        }
        _ => format!("{} {}", others[index - 1].0.words(), written(sides[index])),
    };
    let limits: Vec<String> = (0..sides.len()).filter(|index| *index != place).map(limit).collect();
    Ok(Judged::Compared { measured: written(sides[place]), limit: limits.join(", "), holds })
}

/// Refuses to compare sides whose units differ. A number without a unit counts as one of any unit.
fn check_units<'u>(sides: impl Iterator<Item = &'u str>) -> Result<(), String> {
    let mut units = sides.filter(|unit| !unit.is_empty());
    match units.next().and_then(|unit| Some((unit, units.find(|other| *other != unit)?))) {
        Some((unit, other)) => Err(format!("{unit} cannot be compared with {other}")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame() -> Frame {
        let mut frame = Frame::default();
        for (delivery, size, seconds) in
            [("nack", "100", 1.0), ("tcp", "100", 4.0), ("nack", "200", 3.0), ("tcp", "200", 5.0)]
        {
            let run = frame.add_run(&[("delivery", delivery), ("size", size)]);
            frame.add_row(run, Some("client0"), "time", Some(seconds), "s", "");
        }
        frame
    }

    fn claim(holds: &str) -> Claim {
        Claim {
            says: "so".into(),
            holds: holds.into(),
            cells: BTreeMap::new(),
            each: Vec::new(),
            paper: None,
        }
    }

    fn judged(claim: &Claim) -> Vec<(String, String, String, Verdict)> {
        let found = judge(std::slice::from_ref(claim), &frame(), &Papers::default());
        found.into_iter().map(|f| (f.cell, f.measured, f.limit, f.verdict)).collect()
    }

    fn one(holds: &str) -> (String, String, Verdict) {
        let (_, measured, limit, verdict) = judged(&claim(holds)).remove(0);
        (measured, limit, verdict)
    }

    const HALF: &str = "median(time{delivery = nack}) <= 0.5 * median(time{delivery = tcp})";

    #[test]
    fn a_claim_is_judged_in_each_cell_of_its_own() {
        let each = Claim { each: vec!["size".into()], ..claim(HALF) };
        let found = judged(&each);
        assert_eq!(found[0], ("100 B".into(), "1 s".into(), "at most 2 s".into(), Verdict::Holds));
        assert_eq!(found[1], ("200 B".into(), "3 s".into(), "at most 2.50 s".into(), Verdict::Fails));
    }

    #[test]
    fn limits_on_both_sides_are_told_in_words_and_in_the_unit() {
        let (measured, limit, verdict) = one("500 ms <= max(time{delivery = nack}) < 2 s");
        assert_eq!((measured.as_str(), limit.as_str()), ("3 s", "at least 500 ms, under 2 s"));
        assert_eq!(verdict, Verdict::Fails);
        let share = one("max(time{delivery = nack}) / max(time) <= 75%");
        assert_eq!(share, ("60 %".into(), "at most 75 %".into(), Verdict::Holds));
        assert_eq!(one("count(time) == 4 and max(time) <= 5").2, Verdict::Holds);
        assert_eq!(
            one("count(time) == 4 and max(time) <= 4"),
            ("5 s".into(), "at most 4 s".into(), Verdict::Fails)
        );
    }

    #[test]
    fn what_was_not_run_is_not_judged_and_what_was_not_measured_fails() {
        assert_eq!(one("max(time{delivery = scp}) < 3").2, Verdict::NotJudged);
        assert_eq!(
            one("max(silence) < 3"),
            ("nothing: silence was not measured".into(), "".into(), Verdict::Fails)
        );
        let elsewhere =
            Claim { cells: BTreeMap::from([("size".into(), Text::Number(7.0))]), ..claim("max(time) < 3") };
        assert_eq!(judged(&elsewhere)[0].3, Verdict::NotJudged);
        let mut cut = frame();
        cut.runs[0].is_complete = false;
        let found = judge(&[claim("max(time) < 30")], &cut, &Papers::default());
        assert_eq!(
            (found[0].verdict, found[0].measured.as_str()),
            (Verdict::Fails, "nothing: run 0 was cut short")
        );
    }

    #[test]
    fn a_value_that_should_be_there_fails_the_claim_and_says_why() {
        let mut frame = frame();
        let run = frame.add_run(&[("delivery", "nack"), ("size", "100")]);
        frame.add_row(run, Some("client1"), "time", None, "s", "the copy's hash is wrong");
        let found = judge(&[claim("min(time{delivery = nack}) < 30")], &frame, &Papers::default());
        assert_eq!(found[0].measured, "nothing: run 4, client1, the copy's hash is wrong");
        assert_eq!(found[0].verdict, Verdict::Fails);
    }

    #[test]
    fn sides_whose_units_differ_are_not_compared() {
        let mut frame = frame();
        frame.add_row(0, None, "sent", Some(500.0), "B", "");
        for (holds, verdict) in [
            ("max(sent) >= max(time)", Verdict::NotJudged),
            ("1 kB <= max(sent) <= 2 s", Verdict::NotJudged),
            ("max(sent) >= 5", Verdict::Holds),
            ("max(sent / time) >= 5", Verdict::Holds),
        ] {
            let found = judge(&[claim(holds)], &frame, &Papers::default());
            assert_eq!(found[0].verdict, verdict, "{holds}");
            assert_eq!(claim(holds).check(&frame.vocabulary()).is_ok(), verdict == Verdict::Holds, "{holds}");
        }
        assert_eq!(
            claim("max(sent) >= max(time)").check(&frame.vocabulary()).unwrap_err(),
            "claim `so`: B cannot be compared with s"
        );
    }

    #[test]
    fn what_is_divided_by_zero_is_not_judged() {
        let mut frame = frame();
        (0..4).for_each(|run| frame.add_row(run, None, "lost", Some(f64::from(u8::from(run == 3))), "", ""));
        for holds in [
            "max(time) / min(lost) >= 1",
            "min(time / lost) >= 1",
            "1 / (max(time) / 0) <= 1",
            "max(time) / min(lost) <= 1 and max(time) < 30",
            "min(lost) / min(lost) < 1",
            "median(time / max(lost by delivery, size)) > 0",
        ] {
            let found = judge(&[claim(holds)], &frame, &Papers::default()).remove(0);
            assert_eq!(
                (found.verdict, found.measured),
                (Verdict::NotJudged, format!("division by 0 in `{holds}`"))
            );
        }
        let found = judge(&[claim("count(time / lost) == 4")], &frame, &Papers::default()).remove(0);
        assert_eq!(found.verdict, Verdict::Holds);
        let text = format!("max(time) / 0 < {}", "1 + ".repeat(900) + "1");
        let found = judge(&[claim(&text)], &frame, &Papers::default()).remove(0);
        assert!(found.measured.chars().count() < 100, "{}", found.measured);
    }

    #[test]
    fn mistakes_show_before_anything_runs() {
        let vocabulary = frame().vocabulary();
        let error = |claim: Claim| claim.check(&vocabulary).unwrap_err();
        assert_eq!(error(claim("max(tiem) < 3")), "claim `so`: no run measures `tiem`: there are time");
        assert_eq!(
            error(claim("max(time{delivery = nak}) < 3")),
            "claim `so`: no run has delivery = nak: delivery is nack, tcp"
        );
        assert_eq!(
            error(claim("max(time{deliver = nack}) < 3")),
            "claim `so`: no run has a parameter `deliver`: there are delivery, size, node and role"
        );
        let each = Claim { each: vec!["sizes".into()], ..claim(HALF) };
        assert!(error(each).contains("no run has a parameter `sizes`: there are delivery, size"));
        assert!(error(claim("max(time)")).contains("`max(time)`: column 10: expected one of <"));
        for long in ["x".repeat(3000), "x".repeat(400_000), "\"".repeat(3000), "max(time) < 1 ".repeat(100)] {
            let said = error(Claim { says: long.clone(), ..claim(&long) });
            assert!(said.chars().count() < 400, "{said}");
            let said = error(claim(&format!("max({long}) < 1")));
            assert!(said.chars().count() < 400, "{said}");
        }
        claim(HALF).check(&vocabulary).unwrap();
        claim("max(time{node = client0} / size) < 1").check(&vocabulary).unwrap();
    }
}
