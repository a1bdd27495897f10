//! The number of ASes over the years: figure 5.3 (interdomain-2013, 5.6.1).

use serde::Serialize;

use super::{Analysis, tables};
use crate::{Dump, Family, date, relations::Relations};

/// The number of ASes on one day.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Point {
    /// Seconds since 1970. 0: the file does not say.
    pub time: i64,
    /// The day, as `2015-09-22`.
    pub date: String,
    /// The family of a routing table. `None`: the file of relations, which tells of no family.
    pub family: Option<Family>,
    pub ases: u64,
    pub stubs: u64,
    pub providers: u64,
    /// The number of prefixes. `None` for relations.
    pub prefixes: Option<u64>,
    /// The greatest number of stubs that one provider has. `None` for relations.
    pub most_stubs: Option<u64>,
    pub is_synthetic: bool,
    pub file: String,
}

/// Sorts the points of figure 5.3 by time.
pub fn sort(points: &mut [Point]) {
    points.sort_by(|one, other| {
        (one.time, one.family, &one.file).cmp(&(other.time, other.family, &other.file))
    });
}

/// The point of one family.
pub(crate) fn of_analysis(dump: &Dump, analysis: &Analysis) -> Point {
    let providers = tables::providers(analysis);
    Point {
        time: dump.time,
        date: date::day(dump.time),
        family: Some(analysis.family),
        ases: analysis.ases.len() as u64,
        stubs: analysis.stubs().count() as u64,
        providers: providers.len() as u64,
        prefixes: Some(analysis.prefixes),
        most_stubs: providers.iter().map(tables::Provider::stubs).max(),
        is_synthetic: dump.is_synthetic(),
        file: dump.file.clone(),
    }
}

/// The point of a file of relations, which calls an AS with a customer a provider.
pub fn of_relations(relations: &Relations) -> Point {
    let (ases, providers) = relations.counts();
    Point {
        time: relations.time,
        date: if relations.time == 0 { "unknown".into() } else { date::day(relations.time) },
        family: None,
        ases,
        stubs: ases - providers,
        providers,
        prefixes: None,
        most_stubs: None,
        is_synthetic: false,
        file: relations.file.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::tests::small;

    #[test]
    fn points_are_sorted_by_date_whatever_the_order_of_files() {
        let relations = Relations::read("1|2|-1\n".as_bytes(), "20110116.txt").unwrap();
        let dump = small();
        let analyses = dump.families().into_iter().map(|family| Analysis::new(&dump, family));
        let mut points: Vec<Point> = analyses.map(|analysis| of_analysis(&dump, &analysis)).collect();
        points.extend([of_relations(&relations), of_relations(&Relations { time: 0, ..relations.clone() })]);
        sort(&mut points);
        let dates: Vec<&str> = points.iter().map(|point| point.date.as_str()).collect();
        assert_eq!(dates, ["unknown", "2011-01-16", "2012-11-01", "2012-11-01"]);
        assert_eq!((points[1].ases, points[1].stubs, points[1].providers), (2, 1, 1));
        assert_eq!((points[2].ases, points[2].stubs, points[2].most_stubs), (9, 6, Some(3)));
    }
}
