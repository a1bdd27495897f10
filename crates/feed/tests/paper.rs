//! The analysis of synthetic feeds gives the paper's figures back (interdomain-2013, 2.2.1 and 2.2.2).

use treecast_feed::{
    analysis::{Analysis, FeedReport},
    line::Line,
    synth::{Kind, links, products},
};

/// 2010-10-13 00:00:00 UTC.
const START: i64 = 1_286_928_000;

fn report(kind: Kind, days: u32) -> FeedReport {
    let mut analysis = Analysis::new(0);
    links(kind, |link| analysis.add(Line::Link(link))).unwrap();
    products(kind, START, days, 1, |product| analysis.add(Line::Product(product))).unwrap();
    analysis.finish().feeds.remove(0)
}

#[track_caller]
fn close(what: &str, found: f64, paper: f64, tolerance: f64) {
    assert!((found - paper).abs() <= paper * tolerance, "{what}: {found}, in the paper {paper}");
}

#[test]
fn conduit_has_the_figures_of_the_paper() {
    let feed = report(Kind::Conduit, 3);
    let days = &feed.days;
    let (bytes, count, peak) = (days.bytes.unwrap(), days.products.unwrap(), days.peak_minute_bytes.unwrap());
    close("bytes a day", bytes.mean, 60e9, 0.01);
    close("their deviation", bytes.standard_deviation, 0.3e9, 0.05);
    close("products a day", count.mean, 1.6e6, 0.01);
    close("their deviation", count.standard_deviation, 0.01e6, 0.05);
    close("size", days.mean_product_bytes.unwrap().mean, 38e3, 0.02);
    close("busiest minute", peak.mean, 250e6, 0.01);
    close("its deviation", peak.standard_deviation, 28.8e6, 0.05);
    close("its products", days.peak_minute_products.unwrap().mean, 8000.0, 0.01);
    for day in &days.days {
        assert_eq!((day.lowest_minute_bytes, day.peaks.len()), (0, 4), "{day:?}");
    }
    assert!(feed.silences.share_over_1_s < 0.02, "{:?}", feed.silences);
    close("silences of a minute", feed.silences.over_60_s_a_day, 100.0, 0.02);
    close("silences of 5 minutes", feed.silences.over_300_s_a_day, 15.0, 0.02);
    close("the longest", feed.silences.longest_seconds, 2100.0, 0.001);
    assert_eq!(tree(&feed), [163, 22, 35, 106, 104], "table 2.1");
}

#[test]
fn nexrad2_has_the_figures_of_the_paper() {
    let feed = report(Kind::Nexrad2, 7);
    let bytes = feed.days.bytes.unwrap();
    close("bytes a day", bytes.mean, 56.8e9, 0.01);
    close("their deviation", bytes.standard_deviation, 6.56e9, 0.05);
    for day in &feed.days.days {
        close("busiest minute", day.peak_minute_bytes as f64, 7.8e6 * 7.5, 0.01);
        close("quietest minute", day.lowest_active_minute_bytes as f64, 4.0e6 * 7.5, 0.01);
    }
    close("silences", feed.silences.intervals_a_day, 81_240.0, 0.01);
    assert!(feed.silences.share_over_1_s < 0.02, "{:?}", feed.silences);
    assert_eq!(feed.silences.over_300_s, 7);
    close("the longest", feed.silences.longest_seconds, 5250.0, 0.001);
    assert_eq!(tree(&feed), [150, 36, 40, 74, 55], "table 2.2");
}

fn tree(feed: &FeedReport) -> [usize; 5] {
    let tree = &feed.tree;
    [tree.nodes, tree.roots, tree.middles, tree.leaves, tree.maximum_fanout]
}
