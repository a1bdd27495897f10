//! The values of a plot as a table: ours, and the paper's beside them.

use super::{Kind, gather::Gathered};
use crate::{
    statistics::Summary,
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
