//! Flows that share a link: who gets how much of it.

use super::{ReportInput, html::Page};
use crate::{
    analysis::{SharedLink, SharingRun},
    plot,
    tables::{Cell, Table},
};

/// The section on shared links; nothing without any.
pub fn write(page: &mut Page, results: &crate::analysis::Results<'_>, input: &ReportInput) {
    let runs = &results.sharings;
    let Some(first) = runs.first() else { return };
    let about = format!(
        "A queue of {:.0} kB in front of the link, {:.0} ms from one end of the path to the other and back.",
        first.info.queue_bytes as f64 / 1e3,
        first.info.round_trip_ms
    );
    page.section("Sharing a link", &about);
    page.table(&table(runs));
    let (shown, repeats): (Vec<_>, Vec<_>) = runs.iter().partition(|run| run.data.run.info.repeat == 0);
    shown.iter().for_each(|run| plots(page, run));
    page.folded("Plots: repeats", |page| repeats.iter().for_each(|run| plots(page, run)));
    page.folded("Networks", |page| {
        for picture in &input.pictures {
            page.picture(&picture.svg, &format!("The network {}", picture.topology));
        }
    });
    page.end_section();
}

fn plots(page: &mut Page, run: &SharingRun) {
    page.plot(plot::link_rates(run));
    if run.info.rates.len() > 1 {
        page.plot(plot::link_loss(run));
    }
    let title = format!("Queue: {}, {}", run.data.run.info.topology, run.data.run.info.delivery);
    page.folded(&title, |page| page.plot(plot::link_queue(run)));
}

/// A row a run.
pub fn table(runs: &[SharingRun]) -> Table {
    let mut table = Table::new(
        "Flows that share a link (Mbit/s)",
        &[
            "<NETWORK",
            "<FLOW",
            "<RIVAL",
            "RUN",
            "FLOW",
            "RIVAL",
            "RATIO",
            "USED",
            "RECEIVER",
            "LOSS",
            "QUEUE KB",
            "CALM",
            "THEN LOST",
        ],
    );
    for run in runs {
        let info = &run.data.run.info;
        let flow = |index: usize| run.info.flows.get(index).map_or("-", |flow| flow.name.as_str());
        let network = match run.data.run.saturated.is_some() {
            true => format!("{} *", info.topology),
            false => info.topology.clone(),
        };
        let repeat = (info.repeat + 1).to_string();
        let mut cells: Vec<Cell> = vec![network.into(), flow(0).into(), flow(1).into(), repeat.into()];
        match &run.measured {
            Some(measured) => cells.extend(figures(measured, run.info.queue_bytes).map(Cell::from)),
            None => cells.extend(std::iter::repeat_n(Cell::from("-"), 9)),
        }
        table.rows.push(cells);
    }
    table.notes.extend(
        [
            "A flow's rate is what leaves the link for its receivers, retransmissions and headers included, while all \
             flows run; a receiver's all that the median receiver of the first flow gets.",
            "Used: what all flows take of the link. Loss: packets that the queue in front of it drops. Queue: what \
             waits in it on average, and what it holds.",
            "Calm: how long after the link's rate changed no second began, for five seconds, in which 5 % or more were \
             lost. Then lost: from 3 s after the change on.",
            "* The machine was at its limit.",
        ]
        .map(String::from),
    );
    table
}

fn figures(measured: &SharedLink, queue_bytes: u64) -> [String; 9] {
    let rate = |index: usize| measured.flows_bps.get(index).map(|bps| format!("{:.2}", bps / 1e6));
    let percent = |share: f64| format!("{:.2} %", share * 100.0);
    let or_none = |text: Option<String>| text.unwrap_or("-".into());
    let calm = match (measured.recovery, measured.loss_after) {
        (Some(after), _) => format!("{:.2} s", after.as_secs_f64()),
        (None, Some(_)) => "never".into(),
        (None, None) => "-".into(),
    };
    [
        or_none(rate(0)),
        or_none(rate(1)),
        or_none(measured.share.map(|share| format!("{share:.3}"))),
        format!("{:.1} %", measured.used * 100.0),
        or_none(measured.receivers_bps.first().map(|bps| format!("{:.2}", bps / 1e6))),
        percent(measured.loss),
        format!("{:.0} of {:.0}", measured.waiting_bytes / 1e3, queue_bytes as f64 / 1e3),
        calm,
        or_none(measured.loss_after.map(percent)),
    ]
}
