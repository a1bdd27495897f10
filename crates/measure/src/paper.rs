//! Figures of papers, from data files beside the experiments. Claims and plots compare measured values with
//! them.
//!
//! A file has a heading, and a line for each value, with tabs between the columns. The columns `figure`,
//! `measure` and `value` are required. The columns `series` (words for a legend), `unit`, `low` and `high` are
//! optional. Every other column is a parameter. Lines that begin with `#` are comments; `# source: NAME` names
//! the paper.
//!
//! Each line counts as a run with these parameters and one row, so that the same expression can be evaluated
//! over the paper and over measured runs. An empty field matches every value of its parameter.

use std::{io, path::Path};

use serde::{Deserialize, Serialize};

use crate::{
    condition::{self, Condition},
    db::Row,
    frame::{Frame, FrameRun, Vocabulary},
};

/// The reference of an experiment to figures, as written in its file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PaperKeys {
    /// The name of the data file, relative to the experiment's folder.
    pub file: String,
    /// The figures that are used. `None`: all figures of the file.
    pub figures: Option<Vec<String>>,
    /// A parameter in which the paper's values and ours may differ. Plots draw the nearest value, and say so.
    pub nearest: Option<String>,
}

/// The figures of all papers that an experiment refers to.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Papers {
    pub papers: Vec<Paper>,
}

/// The figures of one data file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Paper {
    /// The file's name, as written in the experiment.
    pub file: String,
    /// The paper's name. Empty if the file does not name it.
    pub source: String,
    /// The parameter that may differ, if any.
    pub nearest: Option<String>,
    pub points: Vec<Point>,
}

/// One value of a figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Point {
    pub figure: String,
    /// Words for a legend. Empty if the file has none.
    pub series: String,
    /// The parameters and the value, as a run.
    pub run: FrameRun,
    /// The ends of an error bar, if there is one.
    pub range: Option<(f64, f64)>,
    /// The number of the line in the file, from 1.
    pub line: usize,
    /// The unit as the file has it. Empty if it has none. The values are in base units.
    #[serde(default)]
    pub unit: String,
}

/// The column of a parameter that a node has, and not a run: plots over nodes draw a point beside the node that it names.
pub const NODE: &str = "node";

/// The columns that are no parameters.
const OWN: [&str; 7] = ["figure", "measure", "value", "series", "unit", "low", "high"];

impl Papers {
    /// Reads all data files, each with `read`, which refuses what is no file and bounds its length. `folder` is the experiment's folder, and
    /// `name` is what errors call its file.
    pub fn read(
        folder: &Path,
        name: &str,
        keys: &[PaperKeys],
        read: impl Fn(&Path) -> io::Result<String>,
    ) -> Result<Self, String> {
        let read = |keys: &PaperKeys| {
            let path = folder.join(&keys.file);
            let text = read(&path).map_err(|error| {
                format!("papers: cannot read {} (looked for beside {name}): {error}", keys.file)
            })?;
            Paper::parse(&text, keys).map_err(|what| format!("{}: {what}", path.display()))
        };
        Ok(Self { papers: keys.iter().map(read).collect::<Result<_, _>>()? })
    }

    /// The figures of one file, or of all files, as runs. Their parameters include `figure` and `series`, so
    /// that an expression can select one of several figures.
    pub fn frame(&self, file: Option<&str>) -> Frame {
        let papers = self.papers.iter().filter(|paper| file.is_none_or(|file| paper.file == file));
        let run = |point: &Point| {
            let mut run = point.run.clone();
            run.parameters.insert("figure".into(), point.figure.clone());
            run.parameters.insert("series".into(), point.series.clone());
            run
        };
        Frame { runs: papers.flat_map(|paper| &paper.points).map(run).collect() }
    }

    /// The points of a figure of a file.
    pub fn figure(&self, file: &str, figure: &str) -> Result<(&Paper, Vec<&Point>), String> {
        let files = || self.papers.iter().map(|paper| paper.file.as_str()).collect::<Vec<_>>().join(", ");
        let paper = self.papers.iter().find(|paper| paper.file == file);
        let paper =
            paper.ok_or_else(|| format!("`{file}` is none of the experiment's papers: {}", files()))?;
        let points: Vec<&Point> = paper.points.iter().filter(|point| point.figure == figure).collect();
        match points.is_empty() {
            true => Err(format!("{file} has no figure `{figure}`: there are {}", paper.figures().join(", "))),
            false => Ok((paper, points)),
        }
    }

    /// Checks that every column is a parameter of the experiment, that each figure has a point for some run, and that
    /// every measure is one of the runs or one of `named`: a claim or a plot takes these from the papers. A column may also
    /// be [`NODE`], or a series of `sampled_over`, over which a plot draws samples.
    pub fn check(
        &self,
        vocabulary: &Vocabulary,
        named: &[String],
        sampled_over: &[&str],
    ) -> Result<(), String> {
        let check = |paper: &Paper| {
            let checked = paper.check(vocabulary, named, sampled_over);
            checked.map_err(|what| format!("{}: {what}", paper.file))
        };
        self.papers.iter().try_for_each(check)
    }
}

impl Paper {
    fn parse(text: &str, keys: &PaperKeys) -> Result<Self, String> {
        let mut source = String::new();
        let mut heading: Option<Vec<&str>> = None;
        let mut points = Vec::new();
        for (line, text) in text.lines().enumerate().map(|(index, text)| (index + 1, text)) {
            if let Some(comment) = text.strip_prefix('#') {
                if let Some(name) = comment.trim().strip_prefix("source:") {
                    source = name.trim().to_owned();
                }
            } else if text.trim().is_empty() {
            } else if let Some(heading) = &heading {
                points.push(point(heading, text, line).map_err(|what| format!("line {line}: {what}"))?);
            } else {
                let columns: Vec<&str> = text.split('\t').map(str::trim).collect();
                for needed in ["figure", "measure", "value"] {
                    if !columns.contains(&needed) {
                        return Err(format!("line {line}: the heading has no column `{needed}`"));
                    }
                }
                heading = Some(columns);
            }
        }
        let mut paper = Self { file: keys.file.clone(), source, nearest: keys.nearest.clone(), points };
        if let Some(figures) = &keys.figures {
            let there_are = paper.figures();
            if let Some(unknown) = figures.iter().find(|figure| !there_are.contains(&figure.as_str())) {
                return Err(format!("there is no figure `{unknown}`: there are {}", there_are.join(", ")));
            }
            paper.points.retain(|point| figures.contains(&point.figure));
        }
        Ok(paper)
    }

    /// The paper's name, or the file's where the file does not say it.
    pub fn name(&self) -> &str {
        if self.source.is_empty() { &self.file } else { &self.source }
    }

    /// The names of the figures, in the file's order.
    pub fn figures(&self) -> Vec<&str> {
        let mut figures: Vec<&str> = Vec::new();
        for point in &self.points {
            if !figures.contains(&point.figure.as_str()) {
                figures.push(&point.figure);
            }
        }
        figures
    }

    fn check(&self, vocabulary: &Vocabulary, named: &[String], sampled_over: &[&str]) -> Result<(), String> {
        let keys = |point: &Point| point.run.parameters.keys().cloned().collect::<Vec<_>>();
        let mut columns: Vec<String> = self.points.iter().flat_map(keys).collect();
        columns.sort();
        columns.dedup();
        columns.retain(|column| column != NODE && !sampled_over.contains(&column.as_str()));
        vocabulary.check_parameters(&columns)?;
        for point in &self.points {
            point.check(vocabulary, named).map_err(|what| format!("line {}: {what}", point.line))?;
        }
        for figure in self.figures() {
            let points = || self.points.iter().filter(|point| point.figure == figure);
            let nearest = self.nearest.as_deref();
            let except: Vec<&str> =
                nearest.into_iter().chain([NODE]).chain(sampled_over.iter().copied()).collect();
            if vocabulary.is_changed
                || points().any(|point| vocabulary.cells.iter().any(|cell| point.is_of(cell, &except)))
            {
                continue;
            }
            let first = points().next().map(|point| point.words()).unwrap_or_default();
            return Err(format!(
                "no run has figure {figure}, whose first point is at {first}; name the figures to take with `figures`"
            ));
        }
        Ok(())
    }
}

impl Point {
    /// Whether the point is about runs with the parameters of `cell`. Those in `except` may differ.
    pub fn is_of(&self, cell: &crate::db::Parameters, except: &[&str]) -> bool {
        let mut parameters = self.run.parameters.iter().filter(|(name, _)| !except.contains(&name.as_str()));
        parameters
            .all(|(name, value)| cell.get(name).is_some_and(|is| Condition::equal(name, value).holds(is)))
    }

    /// Checks the measure and its unit.
    fn check(&self, vocabulary: &Vocabulary, named: &[String]) -> Result<(), String> {
        let row = &self.run.rows[0];
        let measured = vocabulary.measures.iter().find(|(name, _)| *name == row.measure);
        match measured {
            Some((name, unit)) if !self.unit.is_empty() && *unit != row.unit => {
                let unit = if unit.is_empty() { "%, 1" } else { unit };
                Err(format!("`{name}` cannot be in `{}`: expected a unit such as {unit}", self.unit))
            }
            None if !named.contains(&row.measure) => {
                let measures: Vec<&str> = vocabulary.measures.iter().map(|(name, _)| name.as_str()).collect();
                let there_are = measures.join(", ");
                Err(format!(
                    "no run measures `{}`, and no claim or plot takes it from the paper: there are {there_are}",
                    row.measure
                ))
            }
            _ => Ok(()),
        }
    }

    fn words(&self) -> String {
        let parameters = self.run.parameters.iter().map(|(name, value)| format!("{name} = {value}"));
        parameters.collect::<Vec<_>>().join(", ")
    }
}

fn point(heading: &[&str], text: &str, line: usize) -> Result<Point, String> {
    let fields: Vec<&str> = text.split('\t').map(str::trim).collect();
    if fields.len() != heading.len() {
        let advice = if fields.len() < heading.len() { ": an empty field needs its tab" } else { "" };
        return Err(format!("{} fields, but the heading has {}{advice}", fields.len(), heading.len()));
    }
    let field = |name: &str| {
        let index = heading.iter().position(|column| *column == name);
        index.and_then(|index| fields.get(index)).copied().unwrap_or_default()
    };
    let (factor, base) = match field("unit") {
        // A file without the column has values in base units. 1 is a count or a share.
        "" | "1" => (1.0, ""),
        named => condition::unit(named)?,
    };
    let number = |name: &str| {
        let text = field(name);
        let is_scaled = !field("unit").is_empty() && text.ends_with(['s', 'n', 'B', '%']);
        match condition::number(text) {
            _ if text.is_empty() => Ok(None),
            Some(_) if is_scaled => Err(format!("`{name}` is `{text}`, with a unit beside that of `unit`")),
            Some(number) => Ok(Some(number * factor)),
            None => Err(format!("`{name}` is `{text}`, no number")),
        }
    };
    let value = number("value")?.ok_or("there is no value")?;
    let parameters =
        heading.iter().zip(&fields).filter(|(name, text)| !OWN.contains(name) && !text.is_empty());
    let row = Row::of_run(field("measure"), value, base);
    Ok(Point {
        figure: field("figure").to_owned(),
        series: field("series").to_owned(),
        run: FrameRun {
            id: line as i64,
            parameters: parameters.map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect(),
            nodes: Vec::new(),
            rows: vec![row],
            is_complete: true,
            is_saturated: false,
            is_open: true,
        },
        range: number("low")?.zip(number("high")?),
        line,
        unit: field("unit").to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        claim::{Claim, Verdict, judge},
        expression::{Expression, Scope},
    };

    const TEXT: &str = "# source: made-up-1999\nfigure\tseries\tmeasure\tvalue\tunit\tdelivery\tsize\n\
        1\tours\ttime\t2.5\ts\tnack\t32Mi\n\n1\ttheirs\ttime\t7\ts\ttcp\t32Mi\n2\t\tsaved\t40%\t\tnack\t\n";

    fn keys(figures: Option<&[&str]>) -> PaperKeys {
        let figures = figures.map(|figures| figures.iter().map(|f| (*f).to_owned()).collect());
        PaperKeys { file: "made-up.tsv".into(), figures, nearest: None }
    }

    fn papers(text: &str, figures: Option<&[&str]>) -> Result<Papers, String> {
        Ok(Papers { papers: vec![Paper::parse(text, &keys(figures))?] })
    }

    fn measured() -> Frame {
        let mut frame = Frame::default();
        let run = frame.add_run(&[("delivery", "nack"), ("size", "33554432")]);
        frame.add_row(run, Some("client0"), "time", Some(2.0), "s", "");
        frame
    }

    #[test]
    fn a_claim_compares_what_was_measured_with_the_paper() {
        let papers = papers(TEXT, None).unwrap();
        assert_eq!(papers.papers[0].source, "made-up-1999");
        let claim = Claim {
            says: "as fast as the paper".into(),
            holds: "median(time{delivery = nack}) <= paper(time{delivery = nack})".into(),
            cells: Default::default(),
            each: vec!["size".into()],
            paper: None,
        };
        let found = judge(std::slice::from_ref(&claim), &measured(), &papers);
        assert_eq!((found[0].verdict, found[0].limit.as_str()), (Verdict::Holds, "at most 2.50 s"));
        let other = Claim { holds: "median(time) <= paper(time{delivery = scp})".into(), ..claim };
        assert_eq!(judge(&[other], &measured(), &papers)[0].verdict, Verdict::NotJudged);
    }

    #[test]
    fn an_empty_field_fits_every_value() {
        let papers = papers(TEXT, Some(&["2"])).unwrap();
        let frame = papers.frame(None);
        let cell = [Condition::equal("size", "7")];
        let scope = Scope { frame: &frame, paper: None, cell: &cell };
        let number = |text: &str| scope.number(&Expression::parse(text).unwrap());
        assert_eq!(number("saved{figure = 2}").unwrap().0, 0.4);
        assert!(number("saved{figure = 1}").is_err());
    }

    #[test]
    fn a_figure_that_no_run_has_is_an_error() {
        let vocabulary = measured().vocabulary();
        let saved = ["saved".to_owned()];
        papers(TEXT, None).unwrap().check(&vocabulary, &saved, &[]).unwrap();
        let error = papers(TEXT, None).unwrap().check(&vocabulary, &[], &[]).unwrap_err();
        assert_eq!(
            error,
            "made-up.tsv: line 6: no run measures `saved`, and no claim or plot takes it from the paper: there are time"
        );
        let other = TEXT.replace("2\t\tsaved\t40%\t\tnack\t", "2\t\tsaved\t40%\t\tscp\t7");
        assert_eq!(
            papers(&other, None).unwrap().check(&vocabulary, &saved, &[]).unwrap_err(),
            "made-up.tsv: no run has figure 2, whose first point is at delivery = scp, size = 7; \
             name the figures to take with `figures`"
        );
        papers(&other, Some(&["1"])).unwrap().check(&vocabulary, &[], &[]).unwrap();
        let column = TEXT.replace("delivery\tsize", "delivery\tlength");
        let error = papers(&column, None).unwrap().check(&vocabulary, &saved, &[]).unwrap_err();
        assert_eq!(error, "made-up.tsv: no run has a parameter `length`: there are delivery, size");
    }

    #[test]
    fn a_point_may_be_about_one_node_of_the_runs() {
        let text = "figure\tmeasure\tvalue\tunit\tdelivery\tnode\n1\ttime\t2.5\ts\tnack\tclient0\n";
        let papers = papers(text, None).unwrap();
        papers.check(&measured().vocabulary(), &[], &[]).unwrap();
        let (_, points) = papers.figure("made-up.tsv", "1").unwrap();
        let of = |node: &str| [("delivery", "nack"), (NODE, node)].map(|(name, is)| (name.into(), is.into()));
        let is_of = |node| points[0].is_of(&of(node).into(), &[]);
        assert!(is_of("client0") && !is_of("client1"));
    }

    #[test]
    fn values_are_converted_into_the_base_unit() {
        let value = |unit: &str, value: &str| {
            let text = format!("figure\tmeasure\tvalue\tunit\tlow\thigh\n1\ttime\t{value}\t{unit}\t1\t2\n");
            papers(&text, None).map(|papers| papers.papers[0].points[0].clone())
        };
        for (unit, base, expected) in [
            ("ns", "s", 20.0 * 1e-9),
            ("µs", "s", 20.0 * 1e-6),
            ("ms", "s", 0.02),
            ("min", "s", 1200.0),
            ("kB", "B", 20_000.0),
            ("MiB", "B", 20_971_520.0),
            ("Mbit/s", "bit/s", 2e7),
            ("%", "", 0.2),
            ("1", "", 20.0),
        ] {
            let point = value(unit, "20").unwrap();
            let row = &point.run.rows[0];
            assert_eq!((row.value, row.unit.as_str()), (Some(expected), base), "{unit}");
            assert_eq!(point.range.unwrap().1, 2.0 * expected / 20.0, "{unit}");
        }
        let error = |unit, text| value(unit, text).unwrap_err();
        assert!(
            error("furlong", "20").starts_with("line 2: there is no unit `furlong`: there are %, s, ms, us")
        );
        assert_eq!(error("s", "20ms"), "line 2: `value` is `20ms`, with a unit beside that of `unit`");
    }

    #[test]
    fn a_unit_of_another_kind_is_refused() {
        let error = |unit: &str| {
            let text = TEXT.replace("2.5\ts", &format!("2.5\t{unit}"));
            papers(&text, Some(&["1"])).unwrap().check(&measured().vocabulary(), &[], &[])
        };
        error("ms").unwrap();
        error("").unwrap();
        assert_eq!(
            error("%").unwrap_err(),
            "made-up.tsv: line 3: `time` cannot be in `%`: expected a unit such as s"
        );
        error("MB").unwrap_err();
    }

    #[test]
    fn errors_name_the_line() {
        let error = |text: &str, figures| papers(text, figures).unwrap_err();
        assert_eq!(error(&TEXT.replace("\t7\t", "\tseven\t"), None), "line 5: `value` is `seven`, no number");
        assert_eq!(error("figure\tvalue\n", None), "line 1: the heading has no column `measure`");
        assert_eq!(error(TEXT, Some(&["3"])), "there is no figure `3`: there are 1, 2");
        assert_eq!(
            error(&TEXT.replace("32Mi\n\n", "32Mi\tmore\n\n"), None),
            "line 3: 8 fields, but the heading has 7"
        );
        assert_eq!(
            error(&TEXT.replace("tcp\t32Mi", "tcp"), None),
            "line 5: 6 fields, but the heading has 7: an empty field needs its tab"
        );
        assert!(
            papers(TEXT, None).unwrap().figure("made-up.tsv", "9").unwrap_err().contains("there are 1, 2")
        );
    }
}
