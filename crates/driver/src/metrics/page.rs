//! The text format of OpenMetrics. Names and units follow Prometheus: base units, and `_total` for values that only
//! grow.

use std::fmt::Write;

/// The last line of a page.
pub const END: &str = "# EOF\n";

/// Appends a metric: its name without the prefix, its unit (empty for plain numbers) and its help, and its samples,
/// each with its labels. `kind` is "gauge" or "counter".
pub fn family(
    page: &mut String,
    kind: &str,
    (name, unit, help): (&str, &str, &str),
    samples: impl IntoIterator<Item = (String, f64)>,
) {
    let name = if unit.is_empty() { format!("treecast_{name}") } else { format!("treecast_{name}_{unit}") };
    // Writing to a string does not fail.
    _ = writeln!(page, "# HELP {name} {help}\n# TYPE {name} {kind}");
    if !unit.is_empty() {
        _ = writeln!(page, "# UNIT {name} {unit}");
    }
    let total = if kind == "counter" { "_total" } else { "" };
    for (labels, value) in samples {
        let labels = if labels.is_empty() { labels } else { format!("{{{labels}}}") };
        _ = writeln!(page, "{name}{total}{labels} {value}");
    }
}

/// A label with its value. Strangers choose names, so what would end the value is escaped.
pub fn label(name: &str, value: &str) -> String {
    format!("{name}=\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}
