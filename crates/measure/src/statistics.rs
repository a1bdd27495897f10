//! Statistics of a list of numbers.

/// The statistics of a list of numbers, for tables and plots.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Summary {
    pub count: usize,
    pub mean: f64,
    pub min: f64,
    pub max: f64,
    /// Standard deviation of the sample (divided by n - 1); 0 for a single number.
    pub standard_deviation: f64,
    pub median: f64,
    /// Half the width of the 95 % confidence interval of the mean (Student's t); 0 for a single number.
    pub confidence_95: f64,
}

impl Summary {
    /// Computes the statistics of `values`. Values that are not finite are left out. `None` if none is left.
    pub fn of(values: &[f64]) -> Option<Self> {
        let sorted = sorted(values);
        let (&min, &max) = (sorted.first()?, sorted.last()?);
        let count = sorted.len();
        let mean = sorted.iter().sum::<f64>() / count as f64;
        let standard_deviation = standard_deviation(&sorted, mean);
        Some(Self {
            count,
            mean,
            min,
            max,
            standard_deviation,
            median: percentile_of_sorted(&sorted, 50.0),
            confidence_95: student_t_95(count - 1) * standard_deviation / (count as f64).sqrt(),
        })
    }
}

/// Statistics of numbers that are too many to store (Welford's method).
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Running {
    pub count: u64,
    pub mean: f64,
    pub min: f64,
    pub max: f64,
    squares: f64,
}

impl Running {
    pub fn add(&mut self, value: f64) {
        let first = self.count == 0;
        self.min = if first { value } else { self.min.min(value) };
        self.max = if first { value } else { self.max.max(value) };
        self.count += 1;
        let off = value - self.mean;
        self.mean += off / self.count as f64;
        self.squares += off * (value - self.mean);
    }

    /// Returns the standard deviation of the sample, as in [`Summary`].
    pub fn standard_deviation(&self) -> f64 {
        if self.count < 2 { 0.0 } else { (self.squares / (self.count - 1) as f64).sqrt() }
    }
}

/// The value below which `percent` (0 to 100) of `values` lie, with linear interpolation between
/// neighbours; `None` for an empty list.
pub fn percentile(values: &[f64], percent: f64) -> Option<f64> {
    let sorted = sorted(values);
    (!sorted.is_empty()).then(|| percentile_of_sorted(&sorted, percent))
}

/// The steps of the cumulative distribution: each value, with the share (0 to 1) of values that are not larger.
pub(crate) fn cumulative(values: &[f64]) -> Vec<(f64, f64)> {
    let sorted = sorted(values);
    let count = sorted.len() as f64;
    sorted.into_iter().enumerate().map(|(i, value)| (value, (i + 1) as f64 / count)).collect()
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    sorted
}

fn standard_deviation(values: &[f64], mean: f64) -> f64 {
    if values.len() < 2 {
        return 0.0;
    }
    let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
    (squares / (values.len() - 1) as f64).sqrt()
}

fn percentile_of_sorted(sorted: &[f64], percent: f64) -> f64 {
    let rank = percent.clamp(0.0, 100.0) / 100.0 * (sorted.len() - 1) as f64;
    let (below, above) = (rank.floor() as usize, rank.ceil() as usize);
    sorted[below] + (sorted[above] - sorted[below]) * rank.fract()
}

/// The 97.5 % quantile of Student's t distribution. It comes from a table up to 30 degrees of freedom, and
/// beyond from the first two terms of the expansion around the normal distribution (error below 0.001).
fn student_t_95(degrees_of_freedom: usize) -> f64 {
    const TABLE: [f64; 31] = [
        0.0, 12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
        2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052,
        2.048, 2.045, 2.042,
    ];
    const NORMAL: f64 = 1.959_964;
    match TABLE.get(degrees_of_freedom) {
        Some(&t) => t,
        None => NORMAL + (NORMAL.powi(3) + NORMAL) / (4.0 * degrees_of_freedom as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-3
    }

    /// The textbook list whose population deviation is 2; the sample's is sqrt(32 / 7).
    #[test]
    fn a_known_list() {
        let s = Summary::of(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]).unwrap();
        assert_eq!((s.count, s.mean, s.min, s.max, s.median), (8, 5.0, 2.0, 9.0, 4.5));
        assert!(close(s.standard_deviation, 2.138));
        assert!(close(s.confidence_95, 2.365 * 2.138 / 8f64.sqrt()));
    }

    #[test]
    fn one_number_has_no_spread_and_none_no_summary() {
        let s = Summary::of(&[3.5]).unwrap();
        assert_eq!((s.mean, s.median, s.standard_deviation, s.confidence_95), (3.5, 3.5, 0.0, 0.0));
        assert_eq!(Summary::of(&[]), None);
        assert_eq!(Summary::of(&[f64::NAN, f64::INFINITY]), None);
    }

    #[test]
    fn numbers_that_are_not_kept_give_the_same() {
        let values = [1e9, 1e9 + 4.0, 1e9 - 3.0, 1e9 + 1.0];
        let mut running = Running::default();
        values.iter().for_each(|value| running.add(*value));
        let s = Summary::of(&values).unwrap();
        assert_eq!((running.count, running.min, running.max), (4, s.min, s.max));
        assert!(close(running.mean, s.mean) && close(running.standard_deviation(), s.standard_deviation));
    }

    #[test]
    fn percentiles_interpolate() {
        let values = [40.0, 10.0, 30.0, 20.0];
        assert_eq!(percentile(&values, 0.0), Some(10.0));
        assert_eq!(percentile(&values, 50.0), Some(25.0));
        assert_eq!(percentile(&values, 90.0), Some(37.0));
        assert_eq!(percentile(&values, 100.0), Some(40.0));
        assert_eq!(percentile(&[], 50.0), None);
    }

    #[test]
    fn the_distribution_climbs_to_one() {
        assert_eq!(cumulative(&[3.0, 1.0, 1.0, 2.0]), [(1.0, 0.25), (1.0, 0.5), (2.0, 0.75), (3.0, 1.0)]);
    }

    /// Values of the printed tables: 40, 60 and 120 degrees of freedom.
    #[test]
    fn student_beyond_the_table_agrees_with_the_printed_ones() {
        for (degrees, t) in [(40, 2.021), (60, 2.000), (120, 1.980)] {
            assert!((student_t_95(degrees) - t).abs() < 2e-3, "{degrees}");
        }
    }
}
