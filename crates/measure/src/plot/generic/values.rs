//! The values of a plot as a table, and as comma-separated values: ours, and the paper's beside them.

use super::{Kind, gather::Gathered};
use crate::{
    csv::Csv,
    statistics::{Summary, cumulative, percentile},
    tables::{Cell, Mark, Table, three_digits},
    words::{parameter_in_words, value_in_words},
};

/// One row for each value of x and series. A column says which of the paper's values is shown where it is only near.
pub fn table(gathered: &Gathered<'_>) -> Table {
    let x = gathered.spec.x.as_deref().unwrap_or_default();
    let names = [gathered.spec.series.as_deref().unwrap_or("delivery"), x].map(parameter_in_words);
    let [series, number] = names.map(|name| name.to_uppercase());
    let count = if gathered.spec.kind == Kind::Samples { "SAMPLES" } else { "VALUES" };
    let columns = [
        &format!("<{series}"),
        &number,
        count,
        "MEAN",
        "MIN",
        "MAX",
        "STD",
        "± 95 %",
        "PAPER",
        "ITS RANGE",
        "ITS VALUE FOR",
    ];
    let mut table = Table::new(format!("{}: {}", gathered.title, gathered.label), &columns);
    for (name, _) in gathered.series() {
        for x_value in gathered.distinct(|group| &group.x) {
            let group = gathered.groups.iter().find(|group| group.series == name && group.x == x_value);
            let Some((group, summary)) = group.and_then(|group| Some((group, Summary::of(&group.values)?)))
            else {
                continue;
            };
            let mut cells = vec![
                Cell::marked(&name, Mark::Delivery),
                value_in_words(x, &x_value).into(),
                summary.count.to_string().into(),
            ];
            let Summary { mean, min, max, standard_deviation, confidence_95, .. } = summary;
            let numbers = [mean, min, max, standard_deviation, confidence_95];
            cells.extend(numbers.map(|value| three_digits(value).into()));
            let paper = group.paper.as_ref();
            let range = paper.and_then(|paper| paper.range);
            let words = [
                paper.map(|paper| three_digits(paper.value)),
                range.map(|(low, high)| format!("{} to {}", three_digits(low), three_digits(high))),
                paper.map(|paper| paper.nearest.clone()).filter(|nearest| !nearest.is_empty()),
            ];
            cells.extend(words.map(|text| text.unwrap_or_else(|| "-".to_owned()).into()));
            table.rows.push(cells);
        }
    }
    table
}

/// All groups of values, a row each. For a distribution, a row for each value.
pub fn csv(gathered: &Gathered<'_>) -> String {
    let spec = gathered.spec;
    if spec.kind == Kind::Distribution {
        return csv_of_distribution(gathered);
    }
    let named = |name: Option<&str>, other: &str| parameter_in_words(name.unwrap_or(other));
    let heads = [
        named(spec.series.as_deref(), "delivery"),
        named(spec.x.as_deref(), "x"),
        named(spec.rows.as_deref(), "row"),
    ];
    let figures = [
        "what",
        "values",
        "mean",
        "median",
        "lower quartile",
        "upper quartile",
        "lowest",
        "highest",
        "paper",
    ];
    let mut csv = Csv::new(&[&heads.each_ref().map(String::as_str)[..], &figures].concat());
    for group in &gathered.groups {
        let summary = Summary::of(&group.values);
        let number = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
        let of = |figure: fn(&Summary) -> f64| number(summary.as_ref().map(figure));
        let share = |percent| number(percentile(&group.values, percent));
        csv.row([
            group.series.clone(),
            group.x.clone(),
            group.row.clone(),
            gathered.label.clone(),
            group.values.len().to_string(),
            of(|summary| summary.mean),
            share(50.0),
            share(25.0),
            share(75.0),
            of(|summary| summary.min),
            of(|summary| summary.max),
            number(group.paper.as_ref().map(|paper| paper.value)),
        ]);
    }
    csv.finish()
}

fn csv_of_distribution(gathered: &Gathered<'_>) -> String {
    let series = parameter_in_words(gathered.spec.series.as_deref().unwrap_or("delivery"));
    let mut csv = Csv::new(&[series.as_str(), &gathered.label, "share of the values up to this one"]);
    for (name, _) in gathered.series() {
        for (value, share) in cumulative(&gathered.values_of(&name)) {
            csv.row([name.clone(), value.to_string(), share.to_string()]);
        }
    }
    csv.finish()
}
