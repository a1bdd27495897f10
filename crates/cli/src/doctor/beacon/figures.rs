//! The matrix as metrics for Prometheus.

use treecast_beacon::{Known, Matrix, Seen};
use treecast_driver::metrics::page::{END, family, label};

/// The largest number of beacons for which each pair has its series. With more, only pairs with this beacon have.
const MAX_PAIRWISE: usize = 64;

/// A metric's name, unit and help text, and how its value is read.
type Metric<Of, Value> = ((&'static str, &'static str, &'static str), fn(&Of) -> Value);

/// The page with the figures. Without a matrix, it is empty.
pub fn page(matrix: Option<&Matrix>) -> String {
    let mut page = String::new();
    let Some(matrix) = matrix else { return page + END };
    let count = [(String::new(), matrix.beacons.len() as f64)];
    family(&mut page, "gauge", ("beacons", "", "Beacons that are known, this one included"), count);
    let pairs: [Metric<Seen, Option<f64>>; 4] = [
        (("beacon_loss", "ratio", "Packets lost in the last two seconds"), |seen| {
            seen.loss_permille.map(|permille| f64::from(permille) / 1000.0)
        }),
        (("beacon_latency", "seconds", "Half of the time there and back"), |seen| {
            seen.latency_us.map(|time| time as f64 / 1e6)
        }),
        (("beacon_hops", "", "Routers on the way"), |seen| seen.hops.map(f64::from)),
        (("beacon_duplicates", "ratio", "Second copies for each packet"), |seen| {
            seen.duplicates_permille.map(|permille| f64::from(permille) / 1000.0)
        }),
    ];
    let own = &matrix.beacons[0].name;
    let is_shown = |seen: &&Seen| matrix.beacons.len() <= MAX_PAIRWISE || seen.to == *own;
    for (metric, value) in pairs {
        let labels = |seen: &Seen| format!("{},{}", label("from", &seen.from), label("to", &seen.to));
        let seen = matrix.seen.iter().filter(is_shown);
        let samples: Vec<_> = seen.filter_map(|seen| Some((labels(seen), value(seen)?))).collect();
        add(&mut page, "gauge", metric, samples);
    }
    let totals: [Metric<Known, u64>; 3] = [
        (("beacon_received_packets", "", "Packets received here"), |known| known.received),
        (("beacon_lost_packets", "", "Packets lost on the way here"), |known| known.lost),
        (("beacon_duplicate_packets", "", "Second copies received here"), |known| known.duplicates),
    ];
    for (metric, value) in totals {
        let samples = matrix.beacons[1..].iter().map(|it| (label("from", &it.name), value(it) as f64));
        add(&mut page, "counter", metric, samples.collect());
    }
    let refused = matrix.refused.iter().map(|(reason, count)| (label("reason", reason), *count as f64));
    add(&mut page, "counter", ("beacon_refused_packets", "", "Packets that do not count"), refused.collect());
    page + END
}

/// Adds a metric, unless it has no samples: a parser takes such a family for none.
fn add(page: &mut String, kind: &str, metric: (&str, &str, &str), samples: Vec<(String, f64)>) {
    if !samples.is_empty() {
        family(page, kind, metric, samples);
    }
}
