//! Synthetic feeds whose analysis gives the figures of chapter 2 of interdomain-2013 back (2.2.1, 2.2.2).
//!
//! The paper says too little of NEXRAD2's products. Its 81,240 silences a day make 81,241 products, nearly one a second.

use treecast_proto::random::SplitMix64;

use crate::line::{Link, Product};

const DAY_SECONDS: f64 = 86_400.0;

/// The feeds that the paper describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Conduit,
    Nexrad2,
}

/// Quiet times of a CONDUIT day: first and last minute, silences of more than 60 s, and those of more than 300 s among them.
const QUIET: [(f64, f64, u32, u32); 5] = [
    (0.0, 100.0, 12, 3),
    (260.0, 460.0, 25, 4),
    (620.0, 820.0, 25, 4),
    (980.0, 1180.0, 25, 4),
    // The last product is of this day.
    (1340.0, 1439.9, 13, 0),
];

/// The times between quiet times, of which each has its peak in the middle.
const BUSY: [u32; 4] = [100, 460, 820, 1180];
const BUSY_MINUTES: u32 = 160;

/// The minutes of a NEXRAD2 day before its long silence, which ends half a minute before midnight.
const NEXRAD2_MINUTES: u32 = 1352;

/// The number of hosts at the site UCAR that get the feed from nobody.
const UCAR_ROOTS: u32 = 7;

/// The hosts of a feed tree.
struct Tree {
    roots: u32,
    middles: u32,
    leaves: u32,
    /// The number of hosts that UCAR feeds: all middle hosts, and some leaves.
    fanout: u32,
}

impl Kind {
    /// The name of the feed.
    pub fn feed(self) -> &'static str {
        match self {
            Self::Conduit => "CONDUIT",
            Self::Nexrad2 => "NEXRAD2",
        }
    }

    /// Tables 2.1 and 2.2.
    fn tree(self) -> Tree {
        match self {
            Self::Conduit => Tree { roots: 22, middles: 35, leaves: 106, fanout: 104 },
            Self::Nexrad2 => Tree { roots: 36, middles: 40, leaves: 74, fanout: 55 },
        }
    }
}

/// Makes the links of a feed tree with the numbers of hosts of tables 2.1 and 2.2.
///
/// # Errors
/// The first one of `give`.
pub fn links<E>(kind: Kind, mut give: impl FnMut(Link<'_>) -> Result<(), E>) -> Result<(), E> {
    let Tree { roots, middles, leaves, fanout } = kind.tree();
    let mut link = |upstream: String, downstream: String| {
        give(Link { upstream: &upstream, downstream: &downstream, feed: kind.feed() })
    };
    let ucar = |number: u32| format!("idd{}.ucar.edu", number % UCAR_ROOTS + 1);
    let middle = |number: u32| format!("ldm.middle{number}.edu");
    let leaf = |number: u32| format!("ldm.leaf{number}.edu");
    for number in 0..middles {
        link(ucar(number), middle(number))?;
    }
    for number in 0..leaves {
        let is_at_ucar = number < fanout - middles;
        link(if is_at_ucar { ucar(number) } else { middle(number % middles) }, leaf(number))?;
    }
    for number in 0..roots - UCAR_ROOTS {
        link(format!("ldm.root{number}.edu"), middle(number % middles))?;
    }
    // Each host in the middle feeds somebody.
    for number in 0..middles {
        link(middle(number), leaf(number % leaves))?;
    }
    Ok(())
}

/// Products at regular places of a stretch of time.
struct Stretch {
    start_seconds: f64,
    spacing_seconds: f64,
    products: u64,
    bytes: f64,
}

/// Makes the products of some days from `start_seconds` (since 1970) on, in the order of their times. The same seed makes the same products.
///
/// # Errors
/// The first one of `give`.
pub fn products<E>(
    kind: Kind,
    start_seconds: i64,
    days: u32,
    seed: u64,
    mut give: impl FnMut(Product<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let mut random = SplitMix64(seed);
    let [volume, products, peak, peak_products] = [(); 4].map(|()| spread(days, &mut random));
    for day in 0..days as usize {
        let stretches = match kind {
            Kind::Conduit => conduit(
                60e9 + 0.3e9 * volume[day],
                1.6e6 + 0.01e6 * products[day],
                250e6 + 28.8e6 * peak[day],
                8000.0 + 1054.0 * peak_products[day],
                day == 0,
            ),
            Kind::Nexrad2 => nexrad2(56.8e9 + 6.56e9 * volume[day]),
        };
        let midnight = start_seconds as f64 + day as f64 * DAY_SECONDS;
        let mut sequence = 0;
        for stretch in stretches {
            stretch.give(kind.feed(), midnight, &mut sequence, &mut random, &mut give)?;
        }
    }
    Ok(())
}

/// Values for days with mean 0 and, over several days, the standard deviation 1 of a sample. A single day has the mean.
fn spread(days: u32, random: &mut SplitMix64) -> Vec<f64> {
    let values: Vec<f64> = (0..days).map(|_| random.unit()).collect();
    let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let deviation = (squares / f64::from(days.max(2) - 1)).sqrt().max(f64::MIN_POSITIVE);
    values.into_iter().map(|value| (value - mean) / deviation).collect()
}

impl Stretch {
    fn give<E>(
        &self,
        feed: &str,
        midnight: f64,
        sequence: &mut u32,
        random: &mut SplitMix64,
        give: &mut impl FnMut(Product<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut left = self.bytes as u64;
        for index in 0..self.products {
            let rest = self.products - index;
            let share = if rest == 1 { 1.0 } else { (0.5 + random.unit()) / rest as f64 };
            let size_bytes = ((left as f64 * share) as u64).min(left);
            left -= size_bytes;
            let at = midnight + self.start_seconds + index as f64 * self.spacing_seconds;
            let identifier = format!("{feed}/{sequence:07}");
            give(Product {
                at_us: (at * 1000.0).round() as i64 * 1000,
                size_bytes,
                feed,
                sequence: *sequence,
                identifier: &identifier,
                host: None,
                upstream: None,
            })?;
            *sequence += 1;
        }
        Ok(())
    }
}

/// The power at which the sum of `value` over a day is `wanted`. The sum must fall when the power grows.
fn power(wanted: f64, sum: impl Fn(f64) -> f64) -> f64 {
    let (mut low, mut high) = (0.01, 20.0);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if sum(middle) > wanted { low = middle } else { high = middle }
    }
    low
}

fn conduit(
    bytes: f64,
    products: f64,
    peak_bytes: f64,
    peak_products: f64,
    has_longest: bool,
) -> Vec<Stretch> {
    let mut stretches = Vec::new();
    for (from, to, silences, long) in QUIET {
        let silence = |index: u32| match index {
            0 if from == 0.0 && has_longest => 2100.0,
            index if index < long => 420.0,
            index => 70.0 + f64::from(index),
        };
        let silent: f64 = (0..silences).map(silence).sum();
        let active = ((to - from) * 60.0 - silent) / f64::from(silences + 1);
        let count = (active / 2.0).round().max(2.0);
        let mut start_seconds = from * 60.0;
        for index in 0..=silences {
            let spacing_seconds = active / (count - 1.0);
            stretches.push(Stretch {
                start_seconds,
                spacing_seconds,
                products: count as u64,
                bytes: count * 30e3,
            });
            start_seconds += active + silence(index);
        }
    }
    let shape = |minute: u32| (-((f64::from(minute) - 80.0) / 30.0).powi(2) / 2.0).exp();
    let sum = |power: f64| (0..BUSY_MINUTES).map(|minute| shape(minute).powf(power)).sum::<f64>() * 4.0;
    let quiet: f64 = stretches.iter().map(|stretch| stretch.products as f64).sum();
    let of_bytes = power((bytes - quiet * 30e3) / peak_bytes, sum);
    let of_products = power((products - quiet) / peak_products, sum);
    for (start, minute) in BUSY.iter().flat_map(|start| (0..BUSY_MINUTES).map(move |minute| (start, minute)))
    {
        let count = (peak_products * shape(minute).powf(of_products)).round().max(1.0);
        stretches.push(Stretch {
            start_seconds: f64::from(start + minute) * 60.0,
            spacing_seconds: 60.0 / count,
            products: count as u64,
            bytes: peak_bytes * shape(minute).powf(of_bytes),
        });
    }
    stretches.sort_by(|a, b| a.start_seconds.total_cmp(&b.start_seconds));
    stretches
}

fn nexrad2(bytes: f64) -> Vec<Stretch> {
    // From 4.0 to 7.8 Mbit/s, as bytes a minute.
    let (low, high) = (4.0e6 * 7.5, 7.8e6 * 7.5);
    let shape = |minute: u32| (1.0 - (f64::from(minute) / 720.0 * std::f64::consts::PI).cos()) / 2.0;
    let volume = |minute: u32, power: f64| low + (high - low) * shape(minute).powf(power);
    let power = power(bytes, |power| (0..NEXRAD2_MINUTES).map(|minute| volume(minute, power)).sum());
    let minute = |minute: u32| Stretch {
        start_seconds: f64::from(minute) * 60.0,
        // The rest of the minute is its only silence of more than a second.
        spacing_seconds: 0.96,
        products: 60,
        bytes: volume(minute, power),
    };
    let last = Stretch { start_seconds: 86_366.64, spacing_seconds: 0.96, products: 34, bytes: low / 2.0 };
    (0..NEXRAD2_MINUTES).map(minute).chain([last]).collect()
}
