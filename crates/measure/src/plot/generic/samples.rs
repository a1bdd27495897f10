//! Samples of a series, arranged by the value that another series had at the time.
//!
//! Each value of the other series becomes a run of its own, with that value as a parameter and the samples as rows.
//! So everything that can be drawn over a parameter can be drawn over a series.

use std::collections::{BTreeMap, BTreeSet};

use super::{Drawing, PlotSpec, over_time::Points};
use crate::{
    db::Row,
    expression::Condition,
    frame::{Frame, FrameRun},
};

/// The largest number of values along x. A page cannot show more, and each of them is a run in memory.
const MOST_VALUES: usize = 200;

/// The samples of series `y` in the complete runs that meet all conditions, as runs with series `x` as a parameter.
///
/// # Errors
/// If series `x` has too many values, or is of other nodes than series `y`.
pub fn frame(spec: &PlotSpec, drawing: &Drawing<'_>, conditions: &[Condition]) -> Result<Frame, String> {
    let of_parameters: Vec<&Condition> = conditions.iter().collect();
    let (mut frame, mut values) = (Frame::default(), BTreeSet::new());
    for (_, run) in drawing.frame.runs_that(&of_parameters).filter(|(_, run)| run.is_complete) {
        let by_value = by_value(spec, drawing, run)?;
        values.extend(by_value.keys().cloned());
        if values.len() > MOST_VALUES {
            return Err(format!(
                "{} has more than {MOST_VALUES} values: take a series with few values as x, such as active_clients",
                spec.x.as_deref().unwrap_or_default()
            ));
        }
        frame.runs.extend(by_value.into_iter().map(|(value, rows)| run_of(spec, run, value, rows)));
    }
    Ok(frame)
}

/// The samples of a run by the value of series `x` at the same node, or else of the only series `x` of the run.
fn by_value(
    spec: &PlotSpec,
    drawing: &Drawing<'_>,
    run: &FrameRun,
) -> Result<BTreeMap<String, Vec<Row>>, String> {
    let x = spec.x.as_deref().unwrap_or_default();
    let mut rows: BTreeMap<String, Vec<Row>> = BTreeMap::new();
    let of_x = drawing.series.series(run, x).into_iter();
    let of_x: BTreeMap<String, Points> = of_x.map(|(node, _, points)| (node, points)).collect();
    if of_x.is_empty() {
        return Ok(rows);
    }
    let only = of_x.values().next().filter(|_| of_x.len() == 1);
    for (node, unit, points) in drawing.series.series(run, &spec.y) {
        let xs = of_x.get(&node).or(only).ok_or_else(|| {
            format!(
                "in run {}, {} nodes have the series {x}, but {node}, which has {}, has none: take a series x of \
                 the same nodes or of one node",
                run.id,
                of_x.len(),
                spec.y
            )
        })?;
        for (at, value) in points {
            let before = xs.partition_point(|(from, _)| *from <= at);
            let Some((_, x)) = before.checked_sub(1).map(|index| xs[index]) else { continue };
            rows.entry(x.to_string()).or_default().push(Row::of_run(&spec.y, value, &unit));
        }
    }
    Ok(rows)
}

/// A run that has `value` as its parameter `x`. It has these rows alone, and no nodes.
fn run_of(spec: &PlotSpec, run: &FrameRun, value: String, rows: Vec<Row>) -> FrameRun {
    let mut parameters = run.parameters.clone();
    parameters.insert(spec.x.clone().unwrap_or_default(), value);
    FrameRun {
        id: run.id,
        parameters,
        nodes: Vec::new(),
        rows,
        is_complete: run.is_complete,
        is_saturated: run.is_saturated,
        is_open: run.is_open,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        paper::Papers,
        plot::{
            Styles,
            canvas::WIDTH,
            generic::{SeriesSource, draw},
        },
    };

    /// One client is active from second 0, two are from second 2.
    struct Two;

    impl SeriesSource for Two {
        fn events(&self, _: &FrameRun) -> Vec<(f64, String)> {
            Vec::new()
        }

        fn series(&self, _: &FrameRun, measure: &str) -> Vec<(String, String, Vec<(f64, f64)>)> {
            let points = match measure {
                "active_clients" => vec![(0.0, 1.0), (2.0, 2.0)],
                _ => vec![(-1.0, 900.0), (0.0, 10.0), (1.0, 20.0), (2.0, 70.0), (3.0, 90.0)],
            };
            vec![("machine".into(), "B/s".into(), points)]
        }
    }

    #[test]
    fn samples_are_arranged_by_the_value_of_another_series() {
        let text = r#"{"title": "Sent", "kind": "samples", "x": "active_clients", "y": "sender_rate",
                        "each": ["size"]}"#;
        let spec: PlotSpec = serde_json::from_str(text).unwrap();
        let mut frame = Frame::default();
        frame.add_run(&[("delivery", "tcp"), ("size", "1000")]);
        let (papers, styles) = (Papers::default(), Styles::new(["tcp".to_owned()]));
        let drawing = Drawing { frame: &frame, papers: &papers, styles: &styles, series: &Two, width: WIDTH };
        let plots = draw(&spec, drawing);
        assert_eq!(plots.len(), 1);
        let plot = plots[0].as_ref().unwrap();
        assert_eq!(plot.title, "Sent: 1000 B");
        let table = plot.table.as_ref().unwrap();
        let rows: Vec<Vec<&str>> =
            table.rows.iter().map(|row| row.iter().map(|cell| cell.text.as_str()).collect()).collect();
        assert_eq!(rows[0][..6], ["tcp", "1", "2", "15", "10", "20"], "{rows:?}");
        assert_eq!(rows[1][..6], ["tcp", "2", "2", "80", "70", "90"], "{rows:?}");
        assert_eq!(rows.len(), 2);
        assert!(plot.svg.contains("active clients"), "the axis is named in words");
    }
    /// Series `x` has as many values as samples. Series `y` is the same.
    struct Different(usize);

    impl SeriesSource for Different {
        fn events(&self, _: &FrameRun) -> Vec<(f64, String)> {
            Vec::new()
        }

        fn series(&self, _: &FrameRun, _: &str) -> Vec<(String, String, Vec<(f64, f64)>)> {
            let points = (0..self.0).map(|second| (second as f64, second as f64)).collect();
            vec![("machine".into(), "B/s".into(), points)]
        }
    }

    #[test]
    fn a_series_with_too_many_values_is_refused() {
        let text =
            r#"{"title": "Sent", "kind": "samples", "x": "sent", "y": "sender_rate", "each": ["size"]}"#;
        let spec: PlotSpec = serde_json::from_str(text).unwrap();
        let mut frame = Frame::default();
        frame.add_run(&[("size", "1000")]);
        let (papers, styles) = (Papers::default(), Styles::new([]));
        let drawn = |count| {
            let series = &Different(count);
            draw(&spec, Drawing { frame: &frame, papers: &papers, styles: &styles, series, width: WIDTH })
        };
        assert!(drawn(MOST_VALUES)[0].is_ok());
        let why = drawn(MOST_VALUES + 1)[0].clone().unwrap_err();
        let said = "Sent: 1000 B: not drawn: sent has more than 200 values: take a series with few values";
        assert!(why.starts_with(said), "{why}");
    }
    /// A series `level` at the nodes named, each with another value, and a series `sent` at `alice` and `bob`.
    struct Nodes(&'static [(&'static str, f64)]);

    impl SeriesSource for Nodes {
        fn events(&self, _: &FrameRun) -> Vec<(f64, String)> {
            Vec::new()
        }

        fn series(&self, _: &FrameRun, measure: &str) -> Vec<(String, String, Vec<(f64, f64)>)> {
            let nodes = if measure == "level" { self.0 } else { &[("alice", 10.0), ("bob", 20.0)] };
            nodes.iter().map(|(node, value)| ((*node).into(), "B/s".into(), vec![(0.0, *value)])).collect()
        }
    }

    #[test]
    fn samples_of_a_node_are_arranged_by_its_own_series_or_by_the_only_one() {
        let text = r#"{"title": "Sent", "kind": "samples", "x": "level", "y": "sent", "each": ["size"]}"#;
        let spec: PlotSpec = serde_json::from_str(text).unwrap();
        let mut frame = Frame::default();
        frame.add_run(&[("size", "1000")]);
        let (papers, styles) = (Papers::default(), Styles::new([]));
        let arranged = |nodes| {
            let series = &Nodes(nodes);
            let drawing = Drawing { frame: &frame, papers: &papers, styles: &styles, series, width: WIDTH };
            let runs = super::frame(&spec, &drawing, &[])?.runs.into_iter();
            let row = |row: Row| row.value.unwrap();
            let runs =
                runs.map(|run| (run.parameters["level"].clone(), run.rows.into_iter().map(row).collect()));
            Ok::<Vec<(String, Vec<f64>)>, String>(runs.collect())
        };
        let own = [("1".to_owned(), vec![10.0]), ("2".to_owned(), vec![20.0])];
        assert_eq!(arranged(&[("bob", 2.0), ("alice", 1.0)]).unwrap(), own);
        let only = [("3".to_owned(), vec![10.0, 20.0])];
        assert_eq!(arranged(&[("machine", 3.0)]).unwrap(), only);
        assert_eq!(arranged(&[]).unwrap(), []);
        let why = arranged(&[("alice", 1.0), ("carol", 2.0)]).unwrap_err();
        assert!(
            why.starts_with("in run 0, 2 nodes have the series level, but bob, which has sent, has none"),
            "{why}"
        );
    }
}
