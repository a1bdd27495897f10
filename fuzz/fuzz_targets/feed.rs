//! Logs of LDM: whatever a log holds, analysing it never panics, and what is parsed is written and read again as it was.
#![no_main]

use libfuzzer_sys::fuzz_target;
use treecast_feed::{
    analysis::Analysis,
    line::{self, Line, Product},
    plots, tables,
};

fuzz_target!(|bytes: &[u8]| {
    let mut analysis = Analysis::new(u64::MAX);
    analysis.read(bytes).expect("memory can be read");
    let report = analysis.finish();
    assert_eq!(report.lines.products, report.feeds.iter().map(|feed| feed.products).sum::<u64>());
    for feed in &report.feeds {
        tables::feed(feed);
        plots::plots(feed);
    }
    for line in String::from_utf8_lossy(bytes).lines() {
        if let Ok(Line::Product(product)) = line::parse(line) {
            // A line has no fraction of a millisecond.
            let product = Product { at_us: product.at_us.div_euclid(1000) * 1000, ..product };
            assert_eq!(line::parse(&product.to_string()), Ok(Line::Product(product)));
        }
    }
});
