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

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::{
    db::Row,
    expression::Condition,
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
}

/// The columns that are no parameters.
const OWN: [&str; 7] = ["figure", "measure", "value", "series", "unit", "low", "high"];

impl Papers {
    /// Reads all data files. `folder` is the experiment's folder.
    pub fn read(folder: &Path, keys: &[PaperKeys]) -> Result<Self, String> {
        let read = |keys: &PaperKeys| {
            let path = folder.join(&keys.file);
            let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
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

    /// Checks that every column is a parameter of the experiment, and that each figure has a point for some
    /// run.
    pub fn check(&self, vocabulary: &Vocabulary) -> Result<(), String> {
        self.papers
            .iter()
            .try_for_each(|paper| paper.check(vocabulary).map_err(|what| format!("{}: {what}", paper.file)))
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

    fn check(&self, vocabulary: &Vocabulary) -> Result<(), String> {
        let keys = |point: &Point| point.run.parameters.keys().cloned().collect::<Vec<_>>();
        let mut columns: Vec<String> = self.points.iter().flat_map(keys).collect();
        columns.sort();
        columns.dedup();
        vocabulary.check_parameters(&columns)?;
        for figure in self.figures() {
            let points = || self.points.iter().filter(|point| point.figure == figure);
            let except: Vec<&str> = self.nearest.as_deref().into_iter().collect();
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

    fn words(&self) -> String {
        let parameters = self.run.parameters.iter().map(|(name, value)| format!("{name} = {value}"));
        parameters.collect::<Vec<_>>().join(", ")
    }
}

fn point(heading: &[&str], text: &str, line: usize) -> Result<Point, String> {
    let fields: Vec<&str> = text.split('\t').map(str::trim).collect();
    if fields.len() > heading.len() {
        return Err(format!("{} fields, but the heading has {}", fields.len(), heading.len()));
    }
    let field = |name: &str| {
        let index = heading.iter().position(|column| *column == name);
        index.and_then(|index| fields.get(index)).copied().unwrap_or_default()
    };
    let number = |name: &str| {
        let text = field(name);
        match text {
            "" => Ok(None),
            text => {
                crate::expression::number(text).map(Some).ok_or(format!("`{name}` is `{text}`, no number"))
            }
        }
    };
    let value = number("value")?.ok_or("there is no value")?;
    let parameters =
        heading.iter().zip(&fields).filter(|(name, text)| !OWN.contains(name) && !text.is_empty());
    let row = Row::of_run(field("measure"), value, field("unit"));
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
        papers(TEXT, None).unwrap().check(&vocabulary).unwrap();
        let other = TEXT.replace("2\t\tsaved\t40%\t\tnack\t", "2\t\tsaved\t40%\t\tscp\t7");
        assert_eq!(
            papers(&other, None).unwrap().check(&vocabulary).unwrap_err(),
            "made-up.tsv: no run has figure 2, whose first point is at delivery = scp, size = 7; \
             name the figures to take with `figures`"
        );
        papers(&other, Some(&["1"])).unwrap().check(&vocabulary).unwrap();
        let column = TEXT.replace("delivery\tsize", "delivery\tlength");
        let error = papers(&column, None).unwrap().check(&vocabulary).unwrap_err();
        assert_eq!(error, "made-up.tsv: no run has a parameter `length`: there are delivery, size");
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
        assert!(
            papers(TEXT, None).unwrap().figure("made-up.tsv", "9").unwrap_err().contains("there are 1, 2")
        );
    }
}
