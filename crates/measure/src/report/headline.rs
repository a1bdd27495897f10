//! The main result: for each network, which delivery was fastest, and by what factor.

use super::html::Page;
use crate::{
    expression::Condition, frame::Frame, plot::escape, statistics::Summary, tables::quantity,
    words::value_in_words,
};

/// One sentence for each network, and one that explains the asterisk if there is one.
pub fn sentences(frame: &Frame) -> Vec<String> {
    let headlines = headlines(frame);
    let star = headlines.iter().any(Headline::has_star).then(|| STAR.to_owned());
    headlines.iter().map(Headline::sentence).chain(star).collect()
}

/// The meaning of an asterisk.
const STAR: &str = "* The machine was at its limit in these runs: they might be faster on a larger one.";

/// Writes one card for each network.
pub fn write_cards(page: &mut Page, frame: &Frame) {
    let headlines = headlines(frame);
    if headlines.is_empty() {
        return;
    }
    page.raw("<div class=\"cards\">");
    for headline in headlines {
        let ink = page.styles().of(&headline.fastest.delivery).ink.variable();
        page.raw(&format!(
            "<div class=\"card\"><p class=\"where\">{}</p><p class=\"big\" style=\"--c:var({ink})\">{:.1}×<small> as fast as {}</small></p>\
             <p><b>{}</b> {}</p></div>",
            escape(&headline.cell),
            headline.factor(),
            escape(&headline.other.delivery),
            escape(&headline.fastest.delivery),
            escape(&headline.told()),
        ));
    }
    page.raw("</div>");
}

/// The factor from which on a difference in time is a result. Streams take as long by all deliveries.
const NOTABLE: f64 = 1.05;

/// The result in one network.
struct Headline {
    cell: String,
    fastest: Delivery,
    /// The delivery that the fastest one is compared with: tcp, or unicast with the same repair, if one of them was run,
    /// otherwise the slowest.
    other: Delivery,
}

struct Delivery {
    delivery: String,
    seconds: f64,
    /// The bytes that left the sender, if they were counted.
    sent: Option<f64>,
    is_saturated: bool,
}

impl Headline {
    fn factor(&self) -> f64 {
        self.other.seconds / self.fastest.seconds
    }

    fn has_star(&self) -> bool {
        self.fastest.is_saturated || self.other.is_saturated
    }

    fn told(&self) -> String {
        let star = if self.has_star() { " *" } else { "" };
        let [ours, theirs] = [&self.fastest, &self.other].map(|delivery| quantity(delivery.seconds, "s"));
        let mut told = format!(
            "was the fastest: the median receiver took {ours}, with {} {theirs}{star}.",
            self.other.delivery
        );
        if let Some((few, many)) = self.fastest.sent.zip(self.other.sent) {
            told += &format!(" The sender sent {} instead of {}.", quantity(few, "B"), quantity(many, "B"));
        }
        told
    }

    fn sentence(&self) -> String {
        let told = self.told();
        format!("{}: {} {told} {:.1} times as fast.", self.cell, self.fastest.delivery, self.factor())
    }
}

/// A headline for each network and site in which several deliveries have a time, at the largest size and with all
/// clients at once.
fn headlines(frame: &Frame) -> Vec<Headline> {
    let site = frame.has_several_sites().then(|| "site".to_owned());
    let names: Vec<String> = std::iter::once("network".to_owned()).chain(site).collect();
    frame.cells(&names, &[]).into_iter().filter_map(|cell| headline(frame, cell)).collect()
}

fn headline(frame: &Frame, mut cell: Vec<Condition>) -> Option<Headline> {
    // The hardest cell is used: the largest size, most receivers, and all at once.
    for name in ["size", "receivers", "schedule", "loss"] {
        let of_cell: Vec<&Condition> = cell.iter().collect();
        let values = frame.cells(&[name.to_owned()], &of_cell);
        let rank = |cell: &Vec<Condition>| {
            let value = &cell[0].values[0];
            crate::expression::number(value).unwrap_or(if value == "immediate" { f64::MAX } else { 0.0 })
        };
        let hardest = values.into_iter().max_by(|a, b| rank(a).total_cmp(&rank(b)));
        cell.extend(hardest.into_iter().flatten());
    }
    let of_cell: Vec<&Condition> = cell.iter().collect();
    let mut deliveries: Vec<Delivery> = frame
        .cells(&["delivery".to_owned()], &of_cell)
        .into_iter()
        .filter_map(|delivery| of_delivery(frame, &cell, &delivery[0]))
        .collect();
    deliveries.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    if deliveries.len() < 2 {
        return None;
    }
    let fastest = deliveries.remove(0);
    let repair = |delivery: &str| delivery.split_once(' ').map(|(_, repair)| repair.to_owned());
    let is_unicast = |other: &Delivery| match other.delivery.as_str() {
        "tcp" | "unicast" => true,
        other => other.starts_with("unicast ") && repair(other) == repair(&fastest.delivery),
    };
    let known = deliveries.iter().position(is_unicast);
    let other = deliveries.remove(known.unwrap_or(deliveries.len() - 1));
    if other.seconds < fastest.seconds * NOTABLE {
        return None;
    }
    let words = cell.iter().map(|condition| value_in_words(&condition.key, &condition.values[0]));
    Some(Headline { cell: words.collect::<Vec<_>>().join(" · "), fastest, other })
}

/// The medians of a delivery. `None` if a copy is missing or not whole, so that an incomplete delivery cannot be the fastest.
fn of_delivery(frame: &Frame, cell: &[Condition], delivery: &Condition) -> Option<Delivery> {
    let conditions: Vec<&Condition> = cell.iter().chain([delivery]).collect();
    let runs: Vec<_> =
        frame.runs_that(&conditions).map(|(_, run)| run).filter(|run| run.is_complete).collect();
    let rows = |measure: &'static str| {
        runs.iter().flat_map(move |run| run.rows.iter().filter(move |row| row.measure == measure))
    };
    // The statistic of the plots of boxes and of the heat maps.
    let median = |measure| {
        let values: Option<Vec<f64>> = rows(measure).map(|row| row.value).collect();
        Some(Summary::of(&values?)?.median)
    };
    let is_whole = rows("missing").all(|row| row.value == Some(0.0));
    is_whole.then_some(())?;
    Some(Delivery {
        delivery: delivery.values[0].clone(),
        seconds: median("time")?,
        sent: median("sender_bytes"),
        is_saturated: runs.iter().any(|run| run.is_saturated),
    })
}
