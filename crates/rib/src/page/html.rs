//! The page: tables 5.2 and 6.1, figures 5.3, 5.4 and 6.4, and equation 6.1.

use treecast_measure::{
    plot::{NARROW, Plot, Styles, WIDTH},
    report::{Page, Report},
};

use super::{plots, tables};
use crate::{
    analysis::growth::Point,
    report::{ComparisonReport, FileReport},
};

/// The content of a page.
#[derive(Debug, Default)]
pub struct Findings {
    pub files: Vec<FileReport>,
    pub comparisons: Vec<ComparisonReport>,
    /// The points, sorted by time.
    pub points: Vec<Point>,
}

/// Writes the page.
pub fn render(findings: &Findings) -> Report {
    let mut page = Page::new(Styles::default());
    page.raw("<h1>Global routing tables</h1>");
    page.paragraph(
        "What routing tables say of the networks in them, as chapters 5 and 6 of the paper interdomain-2013 compute it, \
         beside the paper's own values.",
    );
    what_is_real(&mut page, findings);
    findings.files.iter().for_each(|file| file_sections(&mut page, file));
    page.section("Table 5.2 and figure 5.4", "changes of provider");
    if findings.comparisons.is_empty() {
        page.paragraph("Only the paper's values are here: there are no two tables of one kind to compare.");
    }
    page.table(&tables::table_5_2(&findings.comparisons));
    for comparison in &findings.comparisons {
        draw(&mut page, |width| plots::figure_5_4(comparison, width));
    }
    page.folded_tables("Table: the values of figure 5.4", &[tables::figure_5_4(&findings.comparisons)]);
    page.end_section();
    page.section("Figure 5.3", "the number of ASes over the years");
    draw(&mut page, |width| plots::figure_5_3(&findings.points, width));
    page.table(&tables::figure_5_3(&findings.points));
    page.end_section();
    page.finish("Global routing tables")
}

/// Says which files are real and which are made up.
fn what_is_real(page: &mut Page, findings: &Findings) {
    let files = findings.files.iter().map(|file| (file.file.as_str(), file.synthetic));
    let points = findings.points.iter().filter(|point| point.family.is_none());
    let all: Vec<(&str, bool)> = files.chain(points.map(|point| (point.file.as_str(), false))).collect();
    let named = |is_synthetic: bool| {
        let names: Vec<&str> =
            all.iter().filter(|(_, synthetic)| *synthetic == is_synthetic).map(|(name, _)| *name).collect();
        names.join(", ")
    };
    let (real, synthetic) = (named(false), named(true));
    if !real.is_empty() {
        page.banner(true, &format!("Real: {real}."));
    }
    if !synthetic.is_empty() {
        page.banner(
            false,
            &format!("Synthetic: {synthetic}. `treecast rib synth` made these with counts like the paper's. They show that the \
                 analysis finds what is known, and say nothing of the Internet."),
        );
    }
}

fn file_sections(page: &mut Page, file: &FileReport) {
    let real = tables::origin(file.synthetic);
    page.section(&file.file, &format!("{real}, {}", file.time));
    page.table(&tables::overview(file));
    if let Some(faults) = tables::faults(&file.faults) {
        page.folded_tables("What was not used, by reason", &[faults]);
    }
    for family in &file.families {
        page.raw(&format!("<h3>{}, {real}</h3>", family.family.name()));
        page.table(&tables::table_6_1(family, file.synthetic));
        page.table(&tables::homing(family));
        page.folded_tables("Prefixes by length", &[tables::sizes(family)]);
        page.table(&tables::global_table(family, file.synthetic));
        if let Some(ownership) = &family.ownership {
            page.table(&tables::ownership(ownership, file.synthetic));
        }
        draw(page, |width| plots::figure_6_4(family, &file.file, file.synthetic, width));
        page.table(&tables::equation(family, file.synthetic));
    }
    page.end_section();
}

/// Adds a plot for a wide page, and one for a phone.
fn draw(page: &mut Page, plot: impl Fn(f64) -> Option<Plot>) {
    if let Some(wide) = plot(WIDTH) {
        page.plot(wide, plot(NARROW));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        analysis::{
            growth,
            tests::{dump, small},
        },
        report::{analyse, comparisons},
    };

    #[test]
    fn a_page_has_all_tables_and_figures_and_tells_real_from_synthetic() {
        let mut made_up = dump(
            "2012-12-01",
            &[("10.1.0.0/24", "1 10 100"), ("10.0.0.0/8", "2 1 10"), ("20.0.0.0/8", "2 1 20 300")],
        );
        made_up.view = crate::dump::SYNTHETIC.into();
        let (real, synthetic) = (analyse(&small(), &[]), analyse(&made_up, &[]));
        let comparisons = comparisons(&real, &synthetic).unwrap();
        let mut points = [real.points, synthetic.points].concat();
        growth::sort(&mut points);
        let page = render(&Findings { files: vec![real.report, synthetic.report], comparisons, points });
        for expected in [
            "Table 5.2",
            "Table 6.1",
            "Figure 5.3",
            "Figure 5.4",
            "Figure 6.4",
            "Equation 6.1",
            "24,436",
            "450,000",
            "Real: 2012-11-01.mrt.",
            "Synthetic: 2012-12-01.mrt.",
            "13,613",
            "1,396",
        ] {
            assert!(page.html.contains(expected), "{expected}");
        }
        assert_eq!(
            page.plots.len(),
            5,
            "figure 5.3, figure 5.4, and figure 6.4 for each family of each file"
        );
    }
}
