//! Axes: the conversion of values to positions, and the places of ticks.

/// A range of values on a linear or logarithmic scale.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    min: f64,
    max: f64,
    logarithmic: bool,
    pub ticks: Vec<f64>,
}

impl Axis {
    /// A linear axis from 0 to a little above `max`.
    pub fn from_zero(max: f64) -> Self {
        let max = if max > 0.0 && max.is_finite() { max } else { 1.0 };
        let top = max * 1.04;
        Self { min: 0.0, max: top, logarithmic: false, ticks: multiples(step_for(max / 5.0), top) }
    }

    /// A linear axis with room for 0 and all `values`, of which some may be below 0.
    pub fn around_zero(values: impl IntoIterator<Item = f64>) -> Self {
        let (low, high) = bounds(values.into_iter().chain([0.0])).unwrap_or((0.0, 1.0));
        if low >= 0.0 {
            return Self::from_zero(high);
        }
        let room = (high - low) * 0.04;
        let step = step_for((high - low) / 5.0);
        let first = (low / step).floor() * step;
        let ticks = multiples(step, high - first + room).into_iter().map(|tick| first + tick);
        let (min, max) = (low - room, high + room);
        Self {
            min,
            max,
            logarithmic: false,
            ticks: ticks.filter(|tick| (min..=max).contains(tick)).collect(),
        }
    }

    /// A linear axis from 0 to exactly `max`, as for a share.
    pub fn to_exactly(max: f64) -> Self {
        Self { min: 0.0, max, logarithmic: false, ticks: multiples(max / 4.0, max) }
    }

    /// A logarithmic axis with room for all `values` above 0. It has ticks at 1, 2 and 5 of each power of ten.
    /// If these are too few it has more ticks; if they are too many, only the powers.
    pub fn logarithmic(values: impl IntoIterator<Item = f64>) -> Self {
        let (low, high) = bounds(values.into_iter().filter(|v| *v > 0.0)).unwrap_or((1.0, 10.0));
        let (min, max) = (low / 1.25, high * 1.25);
        if max / min < 2.5 {
            // Such a narrow axis is nearly linear.
            let ticks = multiples(step_for((max - min) / 6.0), max).into_iter().filter(|tick| *tick >= min);
            return Self { min, max, logarithmic: true, ticks: ticks.collect() };
        }
        let steps: &[f64] = match max / min {
            narrow if narrow < 8.0 => &[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0],
            wide if wide > 2e3 => &[1.0],
            _ => &[1.0, 2.0, 5.0],
        };
        let powers = min.log10().floor() as i32..=max.log10().ceil() as i32;
        let ticks = powers
            .flat_map(|power| steps.iter().map(move |step| step * 10f64.powi(power)))
            .filter(|tick| (min..=max).contains(tick))
            .collect();
        Self { min, max, logarithmic: true, ticks }
    }

    /// A logarithmic axis with a tick at each of `values`, e.g. the sizes that were measured.
    pub fn logarithmic_at(values: &[f64]) -> Self {
        Self { ticks: values.to_vec(), ..Self::logarithmic(values.iter().copied()) }
    }

    /// A linear axis from 0 with a tick at each of `values`.
    pub fn from_zero_at(values: &[f64]) -> Self {
        let max = values.iter().copied().fold(0.0, f64::max);
        Self { min: 0.0, max: max * 1.05, logarithmic: false, ticks: values.to_vec() }
    }

    /// The highest value.
    pub fn end(&self) -> f64 {
        self.max
    }

    /// A linear axis of `count` rows, each 1 high, without ticks.
    pub fn rows(count: f64) -> Self {
        Self { min: 0.0, max: count, logarithmic: false, ticks: Vec::new() }
    }

    /// The value at which bars begin: 0, or the first value of an axis without 0.
    pub fn start(&self) -> f64 {
        if self.logarithmic { self.min } else { 0.0_f64.clamp(self.min, self.max) }
    }

    /// The position of a value on the axis: 0 at the start, 1 at the end. A value outside is moved to the
    /// nearer end.
    pub fn position(&self, value: f64) -> f64 {
        let value = if value.is_nan() { self.min } else { value.clamp(self.min, self.max) };
        if self.logarithmic {
            (value / self.min).ln() / (self.max / self.min).ln()
        } else {
            (value - self.min) / (self.max - self.min)
        }
    }
}

/// Formats a number for a tick, with no more digits than it needs.
pub fn plain(value: f64) -> String {
    if value == 0.0 {
        return "0".into();
    }
    let digits = (2 - value.abs().log10().floor() as i32).clamp(0, 9) as usize;
    let text = format!("{value:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

fn bounds(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.filter(|v| v.is_finite()).fold(None, |bounds, value| {
        let (low, high) = bounds.unwrap_or((value, value));
        Some((low.min(value), high.max(value)))
    })
}

/// The next larger of 1, 2, 5 times a power of ten.
fn step_for(rough: f64) -> f64 {
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0].into_iter().find(|step| step * power >= rough * 0.999);
    step.unwrap_or(10.0) * power
}

fn multiples(step: f64, top: f64) -> Vec<f64> {
    (0..=(top / step * 1.000_001).floor() as usize).map(|i| i as f64 * step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_linear_axis_has_round_ticks_and_room() {
        let axis = Axis::from_zero(150.0);
        assert_eq!(axis.ticks, [0.0, 50.0, 100.0, 150.0]);
        assert_eq!(axis.position(78.0), 0.5);
        assert_eq!(Axis::from_zero(20.0).ticks, [0.0, 5.0, 10.0, 15.0, 20.0]);
        assert_eq!(axis.position(500.0), 1.0);
        assert_eq!(Axis::to_exactly(1.0).ticks, [0.0, 0.25, 0.5, 0.75, 1.0]);
    }

    #[test]
    fn a_logarithmic_axis_spaces_factors_evenly() {
        let axis = Axis::logarithmic([0.5, 40.0]);
        assert_eq!(axis.ticks, [0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0]);
        let step = |a, b| axis.position(b) - axis.position(a);
        assert!((step(1.0, 2.0) - step(10.0, 20.0)).abs() < 1e-9);
        let nearly_linear: Vec<String> = Axis::logarithmic([5.4, 5.9]).ticks.into_iter().map(plain).collect();
        assert_eq!(nearly_linear, ["5", "6", "7"]);
        let narrow: Vec<String> = Axis::logarithmic([0.6, 2.2]).ticks.into_iter().map(plain).collect();
        assert_eq!(narrow, ["0.5", "0.6", "0.8", "1", "1.5", "2"]);
        assert!(Axis::logarithmic([1e-3, 1e6]).ticks.len() < 12);
    }

    #[test]
    fn an_axis_around_zero_has_room_below_it() {
        let axis = Axis::around_zero([-20.0, 60.0]);
        assert_eq!(axis.ticks, [-20.0, 0.0, 20.0, 40.0, 60.0]);
        assert_eq!(axis.start(), 0.0);
        assert!(axis.position(-20.0) > 0.0 && axis.position(60.0) < 1.0);
        assert_eq!(Axis::around_zero([3.0]), Axis::from_zero(3.0));
    }

    #[test]
    fn nothing_to_show_is_no_division_by_zero() {
        for axis in
            [Axis::from_zero(0.0), Axis::from_zero(f64::NAN), Axis::logarithmic([]), Axis::logarithmic([0.0])]
        {
            assert!((0.0..=1.0).contains(&axis.position(0.0)), "{axis:?}");
            assert_eq!(axis.position(f64::NAN), 0.0, "{axis:?}");
            assert_eq!(axis.position(f64::MAX), 1.0, "{axis:?}");
        }
    }

    #[test]
    fn ticks_are_written_plainly() {
        assert_eq!(
            [0.0, 0.5, 0.02, 1.0, 2.5, 100.0, 12000.0].map(plain),
            ["0", "0.5", "0.02", "1", "2.5", "100", "12000"]
        );
    }
}
