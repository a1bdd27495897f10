//! The measures of the objects that receivers of a feed get.

use treecast_lab::Topology;

use super::keys::Feed;
use crate::{cargo::products::ObjectTime, client::Fared, document::network, filing::Filing};

/// The measures of a feed, with their units.
pub const MEASURES: &[(&str, &str)] =
    &[("robustness", ""), ("throughput", "bit/s"), ("objects", ""), ("have", ""), ("object_time", "s")];

/// Size in bytes above which an object counts for the throughput. For smaller ones a timer's error is too large a
/// part.
const MEASURED_FROM_BYTES: u64 = 500_000;

/// Computes the robustness and the throughput of equation 4.2. Robustness is the share of their objects that
/// the slow receivers got. Throughput is the mean, over fast receivers and large objects, of an object's size
/// divided by its time, in bits a second. Each receiver comes with whether it is a slow one.
pub fn equation_4_2(objects: u32, receivers: &[(bool, &[ObjectTime])]) -> (Option<f64>, Option<f64>) {
    let slow: Vec<_> = receivers.iter().filter(|(is_slow, _)| *is_slow).collect();
    let have: usize = slow.iter().map(|(_, have)| have.len()).sum();
    let robustness =
        (!slow.is_empty() && objects > 0).then(|| have as f64 / (slow.len() as f64 * f64::from(objects)));
    let fast = receivers.iter().filter(|(is_slow, _)| !is_slow).flat_map(|(_, have)| *have);
    let large = fast.filter(|object| object.size_bytes > MEASURED_FROM_BYTES && !object.taken.is_zero());
    let rates: Vec<f64> =
        large.map(|object| object.size_bytes as f64 * 8.0 / object.taken.as_secs_f64()).collect();
    let mean = (!rates.is_empty()).then(|| rates.iter().sum::<f64>() / rates.len() as f64);
    (robustness, mean)
}

/// Returns the rows that a run of a feed files beside those of its session, by what its clients got.
pub fn of_run(feed: &Feed, topology: &Topology, clients: &[(&String, &Fared)]) -> Filing {
    let (slow, _) = network::slow_clients(topology);
    let have = clients.iter().map(|(name, fared)| (*name, fared.objects.as_deref().unwrap_or_default()));
    filing(feed, &slow, &have.collect::<Vec<_>>())
}

/// Returns the rows and series that a run of a feed files. `slow` are the receivers that lose packets.
fn filing(feed: &Feed, slow: &[String], receivers: &[(&String, &[ObjectTime])]) -> Filing {
    let mut filing = Filing::default();
    filing.run("objects", f64::from(feed.objects), "");
    let all: Vec<(bool, &[ObjectTime])> =
        receivers.iter().map(|(name, have)| (slow.contains(name), *have)).collect();
    let (robustness, throughput_bps) = equation_4_2(feed.objects, &all);
    if let Some(robustness) = robustness {
        filing.run("robustness", robustness, "");
    }
    match throughput_bps {
        Some(bps) => filing.run("throughput", bps, "bit/s"),
        None => filing.lacking(None, "throughput", "bit/s", "no fast receiver has a large object"),
    }
    for (name, have) in receivers {
        filing.node(name, "have", have.len() as f64 / f64::from(feed.objects), "");
        for object in *have {
            filing.node(name, "object_time", object.taken.as_secs_f64(), "s");
        }
    }
    filing
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn robustness_is_of_slow_receivers_and_throughput_of_fast_ones() {
        let object = |size_bytes, millis| ObjectTime { size_bytes, taken: Duration::from_millis(millis) };
        let fast = [object(1_000_000, 100), object(1_000_000, 50), object(500_000, 1)];
        let slow = [object(1_000_000, 900)];
        let (robustness, throughput) = equation_4_2(3, &[(false, &fast), (true, &slow), (true, &fast[..2])]);
        assert_eq!(robustness, Some(0.5), "1 and 2 of 3 each");
        assert_eq!(throughput, Some(120e6), "the mean of 80 and 160; the small object does not count");
        assert_eq!(equation_4_2(3, &[(false, &slow[..0])]), (None, None));
    }
}
