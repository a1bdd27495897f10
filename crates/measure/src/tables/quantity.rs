//! Formats values that have a base unit.

/// A unit for people: its name, and its size in base units.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scale {
    pub unit: &'static str,
    pub factor: f64,
}

impl Scale {
    /// The unit in which values up to `highest` read best. A table or plot uses one scale for all its values of
    /// a kind. `None` for an unknown unit, whose values stay as they are.
    pub fn of(unit: &str, highest: f64) -> Option<Self> {
        let scales: &[(f64, &'static str)] = match unit {
            "s" => &[(1e-6, "µs"), (1e-3, "ms"), (1.0, "s")],
            "B" => &[(1.0, "B"), (1e3, "kB"), (1e6, "MB"), (1e9, "GB")],
            "B/s" => &[(1.0, "B/s"), (1e3, "kB/s"), (1e6, "MB/s"), (1e9, "GB/s")],
            "bit/s" => &[(1.0, "bit/s"), (1e3, "kbit/s"), (1e6, "Mbit/s"), (1e9, "Gbit/s")],
            _ => return None,
        };
        let fits = scales.iter().rev().find(|(factor, _)| highest.abs() >= *factor).or(scales.first());
        fits.map(|&(factor, unit)| Self { unit, factor })
    }
}

/// Formats a value with its unit: `1.23 s`, `12.5 MB`, `0.431`.
pub fn quantity(value: f64, unit: &str) -> String {
    match Scale::of(unit, value) {
        Some(_) if value == 0.0 => format!("0 {unit}"),
        Some(scale) => format!("{} {}", three_digits(value / scale.factor), scale.unit),
        None if unit.is_empty() => three_digits(value),
        None => format!("{} {unit}", three_digits(value)),
    }
}

/// Formats a number with at least three significant digits, and with no more decimals than that needs.
pub fn three_digits(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return if value == 0.0 { "0".into() } else { "-".into() };
    }
    let digits = (2 - value.abs().log10().floor() as i32).clamp(0, 9) as usize;
    let text = format!("{value:.digits$}");
    if value.fract() == 0.0 { format!("{value:.0}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_the_unit_that_reads_best() {
        let written =
            [(0.0123, "s"), (75.4, "s"), (12_500_000.0, "B"), (0.0, "B"), (0.4312, ""), (3.0, "packets")]
                .map(|(value, unit)| quantity(value, unit));
        assert_eq!(written, ["12.3 ms", "75.4 s", "12.5 MB", "0 B", "0.431", "3 packets"]);
        assert_eq!(quantity(94_700_000.0, "bit/s"), "94.7 Mbit/s");
        assert_eq!(quantity(f64::NAN, ""), "-");
        assert_eq!(quantity(123_456.7, ""), "123457");
    }
}
