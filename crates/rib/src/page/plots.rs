//! Figures 5.3, 5.4 and 6.4, with the paper's values as hollow marks or thin lines.

use treecast_measure::plot::{Axis, Ink, Mark, Plot, Sheet, Style, plain};

use super::tables::{number, origin};
use crate::{
    analysis::growth::Point,
    paper,
    report::{ComparisonReport, FamilyReport},
};

const YEAR_SECONDS: f64 = 365.25 * 86_400.0;

/// A curve of figure 5.3: its name, our values, and the paper's values by year.
type Kind = (&'static str, fn(&Point) -> u64, &'static [(f64, u64)]);

fn style(series: usize, mark: Mark) -> Style {
    Style { ink: Ink::Series(series), mark }
}

fn count(value: f64) -> String {
    number(value.round() as u64)
}

/// A year of the calendar, from seconds since 1970.
fn year(seconds: i64) -> f64 {
    1970.0 + seconds as f64 / YEAR_SECONDS
}

/// An axis of years, whose ticks are whole years. [`Axis`] begins at 0, so positions are years since `first`.
fn years(first: f64, last: f64) -> Axis {
    let step = if last - first > 8.0 { 2 } else { 1 };
    let ticks: Vec<f64> =
        (0..=(last - first).ceil() as usize).step_by(step).map(|year| year as f64).collect();
    Axis::from_zero_at(&ticks)
}

/// Figure 5.3: the number of ASes, stubs and providers over the years.
pub fn figure_5_3(points: &[Point], width: f64) -> Option<Plot> {
    let points: Vec<&Point> = points.iter().filter(|point| point.time > 0).collect();
    if points.is_empty() {
        return None;
    }
    let times = points.iter().map(|point| year(point.time)).chain([2002.5, 2012.92]);
    let (first, last) = times.fold((f64::MAX, f64::MIN), |(low, high), time| (low.min(time), high.max(time)));
    let first = first.floor();
    let most = points.iter().map(|point| point.ases).max().unwrap_or(0).max(paper::ASES);
    let kinds: [Kind; 3] = [
        ("all ASes", |point| point.ases, &[(2012.92, paper::ASES)]),
        ("stubs", |point| point.stubs, &paper::STUBS_BY_YEAR),
        ("providers", |point| point.providers, &paper::PROVIDERS_BY_YEAR),
    ];
    let of = |point: &Point| point.family.map_or(0, |family| usize::from(family.version()));
    let sheet = Sheet {
        name: "figure-5-3".into(),
        title: "Figure 5.3: stubs, providers and all ASes".into(),
        subtitle: "Circles joined by lines: files of relations (real). Triangles: IPv4 tables; squares: IPv6 tables; \
                   small if synthetic. Hollow diamonds: the paper."
            .into(),
        x_label: "year",
        y_label: "ASes",
        legend: kinds.iter().enumerate().map(|(at, kind)| (kind.0.into(), style(at, Mark::Circle))).collect(),
        left: 76.0,
        width,
        ..Sheet::default()
    };
    let words = |value: f64| format!("{:.0}", first + value);
    Some(sheet.plot((years(first, last), &words), (Axis::from_zero(most as f64), &count), |canvas| {
        for (at, (_, value, papers)) in kinds.iter().enumerate() {
            let place = |point: &&Point| (year(point.time) - first, value(point) as f64);
            let relations: Vec<_> = points.iter().copied().filter(|point| of(point) == 0).collect();
            canvas.line(&relations.iter().map(place).collect::<Vec<_>>(), Ink::Series(at), 2.0);
            for point in &points {
                let mark =
                    [Mark::Circle, Mark::Triangle, Mark::Square][of(point) / 4 + usize::from(of(point) == 6)];
                let size = if point.is_synthetic { 3.0 } else { 4.5 };
                canvas.mark(place(point), style(at, mark), size, true);
            }
            for (when, value) in *papers {
                canvas.mark((when - first, *value as f64), style(at, Mark::Diamond), 4.5, false);
            }
        }
    }))
}

/// Figure 5.4: changes of provider by the stub's largest block.
pub fn figure_5_4(found: &ComparisonReport, width: f64) -> Option<Plot> {
    let blocks = &found.changes.by_block;
    let longest = f64::from(*blocks.keys().last()?);
    let papers: &[(&str, u64, u64)] = if longest <= 32.0 { &paper::CHANGES_OF_24 } else { &[] };
    let most =
        blocks.values().map(|changes| changes.total()).chain(papers.iter().map(|paper| paper.1)).max()?;
    let sheet = Sheet {
        name: format!("figure-5-4-{}", found.later),
        title: format!("Figure 5.4: changes of provider in {:.0} days, by block", found.days),
        subtitle: format!(
            "{} to {} ({}, {}). Hollow diamonds: the paper's /24, 195 in 2002 and 543 in 2011.",
            found.earlier,
            found.later,
            found.family.name(),
            origin(found.synthetic)
        ),
        x_label: "length of the stub's shortest prefix",
        y_label: "additions and deletions",
        legend: vec![("changes".into(), style(0, Mark::Circle)), ("paper".into(), style(3, Mark::Diamond))],
        left: 76.0,
        width,
        ..Sheet::default()
    };
    let words = |value: f64| format!("/{value:.0}");
    Some(sheet.plot((Axis::from_zero(longest), &words), (Axis::from_zero(most as f64), &count), |canvas| {
        let points: Vec<_> =
            blocks.iter().map(|(length, changes)| (f64::from(*length), changes.total() as f64)).collect();
        canvas.line(&points, Ink::Series(0), 2.0);
        points.iter().for_each(|point| canvas.mark(*point, style(0, Mark::Circle), 4.0, true));
        for (_, changes, _) in papers {
            canvas.mark((24.0, *changes as f64), style(3, Mark::Diamond), 5.0, false);
        }
    }))
}

/// Figure 6.4: the routing entries of each provider under MAST.
pub fn figure_6_4(family: &FamilyReport, file: &str, is_synthetic: bool, width: f64) -> Option<Plot> {
    let found = &family.equation_6_1;
    let rows: Vec<_> = found.providers.iter().filter(|row| row.upper > 0).collect();
    if rows.is_empty() {
        return None;
    }
    let global = found.global_table() as f64;
    let papers = (family.family == crate::Family::V4).then_some(paper::GLOBAL_TABLE_MAST_2010 as f64);
    let highest = rows[0].upper as f64;
    let plots: [(&str, usize); 4] =
        [("1: global table", 0), ("2: single-homed stubs", 1), ("3: lower bound", 5), ("4: upper bound", 3)];
    let papers_words = if papers.is_some() { " Thin line: the paper's 24,436 of 2010." } else { "" };
    let sheet = Sheet {
        name: format!("figure-6-4-{}", family.family.name()),
        title: format!("Figure 6.4: routing entries under MAST, {}", family.family.name()),
        subtitle: format!(
            "{file} ({}). Providers sorted by the upper bound; the bounds are beside the global table.{papers_words}",
            origin(is_synthetic)
        ),
        x_label: "providers, sorted (logarithmic)",
        y_label: "entries (logarithmic)",
        legend: plots.iter().map(|(name, ink)| ((*name).into(), style(*ink, Mark::Circle))).collect(),
        left: 76.0,
        width,
        ..Sheet::default()
    };
    let last = rows.len() as f64;
    let ends = [1.0, highest, global].into_iter().chain(papers);
    Some(sheet.plot((Axis::logarithmic([1.0, last]), &plain), (Axis::logarithmic(ends), &count), |canvas| {
        let line = |ink: usize, value: &dyn Fn(usize) -> u64| {
            let points = ranks(rows.len()).into_iter().map(|rank| (rank as f64, value(rank - 1) as f64));
            let points: Vec<_> = points.map(|(x, y)| (x, if y > 0.0 { y } else { f64::NAN })).collect();
            canvas.line(&points, Ink::Series(ink), 2.0);
        };
        line(0, &|_| global as u64);
        line(1, &|at| rows[at].provider.single_homed);
        line(5, &|at| rows[at].lower);
        line(3, &|at| rows[at].upper);
        if let Some(papers) = papers {
            canvas.line(&[(1.0, papers), (last, papers)], Ink::Muted, 1.0);
        }
    }))
}

/// The ranks that are drawn on a logarithmic axis: all of the first, and ever fewer behind them.
fn ranks(count: usize) -> Vec<usize> {
    let mut ranks = Vec::new();
    let mut rank = 1;
    while rank <= count {
        ranks.push(rank);
        rank += 1 + rank / 50;
    }
    if ranks.last() != Some(&count) {
        ranks.push(count);
    }
    ranks
}
