//! Runs in which things go wrong on purpose: figure 5.9 of the MEADcast thesis, and who lost what.

use super::html::Page;
use crate::{
    analysis::{UseCaseRow, event_lines},
    plot,
    tables::Table,
};

/// A plot a run; nothing where nothing goes wrong.
pub fn write(page: &mut Page, rows: &[UseCaseRow<'_>]) {
    rows.iter().for_each(|row| page.plot(plot::over_events(row)));
}

/// What was carried before, meanwhile and after, and what the receiver lost that lost most.
pub fn table(rows: &[UseCaseRow<'_>]) -> Table {
    let columns = [
        "<DELIVERY",
        "<WHAT",
        "BEFORE",
        "LOWEST",
        "HIGHEST",
        "AFTER",
        "PEAK OF ALL",
        "<THESIS",
        "MOST LOST",
        "SILENT S",
        "REFUSED",
    ];
    let title =
        "What happens, in MB/s before, meanwhile and after (figure 5.9), and to the receiver that loses most";
    let mut table = Table::new(title, &columns);
    for row in rows.iter().filter(|row| !row.measured.events.is_empty()) {
        let delivery = row.info.delivery.clone();
        let receivers = &row.measured.receivers;
        let most_lost = receivers.iter().map(|receiver| receiver.lost).max().unwrap_or(0);
        let silent = receivers.iter().map(|receiver| receiver.silent_s).fold(0.0, f64::max);
        let refused = row.measured.discovery.map_or(0, |discovery| discovery.refused);
        let mut last =
            vec![most_lost.to_string().into(), format!("{silent:.2}").into(), refused.to_string().into()];
        for line in event_lines(row) {
            let Some(levels) = line.levels else { continue };
            let mb = |value: f64| format!("{value:.3}").into();
            let thesis = line.thesis.map_or(String::new(), |[before, meanwhile, after]| {
                format!("{before} -> {meanwhile} -> {after}")
            });
            let mut cells = vec![delivery.clone().into(), line.name.into()];
            cells.extend([levels.before, levels.lowest, levels.highest, levels.after, levels.peak].map(mb));
            cells.push(thesis.into());
            cells.extend(if last.is_empty() {
                vec!["".into(), "".into(), "".into()]
            } else {
                std::mem::take(&mut last)
            });
            table.rows.push(cells);
        }
        let happened = row.measured.events.iter().map(|event| format!("{:.1} s {}", event.at_s, event.what));
        table.notes.push(format!("{delivery}: {}", happened.collect::<Vec<_>>().join(", ")));
    }
    if !table.rows.is_empty() {
        table.notes.push(
            "Lowest and highest: between the first event and the last. Peak of all: as in the plot, which begins with the \
             first discovery. Receivers: data, all together. Silent: the longest time between two datagrams at any receiver. Refused: \
             discovery responses that were not believed."
                .into(),
        );
    }
    table
}
