//! The result in each network: which delivery was fastest, and by what factor.

use super::html::{Page, escape};
use crate::{
    analysis::{Results, RunTime, Setting},
    db::Result,
    plot::style_of,
    tables,
};

/// A sentence a network.
pub fn sentences(results: &Results<'_>) -> Result<Vec<String>> {
    Ok(headlines(results)?.iter().map(Headline::sentence).collect())
}

/// A card a network.
pub fn write_cards(page: &mut Page, results: &Results<'_>) -> Result<()> {
    page.raw("<div class=\"cards\">");
    for headline in headlines(results)? {
        let fastest = &headline.fastest;
        let (big, meaning, sentence) = headline.card();
        let sentence = match &*sentence {
            "" => String::new(),
            text => format!("<p><b>{}</b> {}</p>", escape(&fastest.key.delivery), escape(text)),
        };
        let place = format!(
            "{} · {} clients · {} · {}{}",
            headline.setting.topology,
            fastest.clients,
            tables::bytes(headline.setting.size_bytes),
            headline.schedule,
            if headline.is_saturated() { " *" } else { "" }
        );
        page.raw(&format!(
            "<div class=\"card\"><p class=\"where\">{}</p>\
             <p class=\"big\" style=\"--c:var({})\">{}<small> {}</small></p>{sentence}</div>",
            escape(&place),
            style_of(&fastest.key.delivery).ink.variable(),
            escape(&big),
            escape(&meaning),
        ));
    }
    page.raw("</div>");
    Ok(())
}

/// The result in one network.
struct Headline {
    setting: Setting,
    schedule: String,
    fastest: RunTime,
    fastest_copies: Option<f64>,
    /// What it is compared with: tcp when that was run, else the slowest; `None` when there is but one.
    other: Option<(RunTime, Option<f64>)>,
}

impl Headline {
    fn times_as_fast_as(&self, other: &RunTime) -> f64 {
        other.summary.mean / self.fastest.summary.mean
    }

    fn sentence(&self) -> String {
        let key = &self.fastest.key;
        let mean = tables::seconds(self.fastest.summary.mean);
        let start = format!("{}, {}: {}", self.setting, self.schedule, key.delivery);
        let Some((other, other_copies)) = &self.other else {
            return format!("{start} took {mean} s on average.");
        };
        let mut sentence = format!(
            "{start} was fastest at {mean} s on average, {:.1} times as fast as {}",
            self.times_as_fast_as(other),
            other.key.delivery,
        );
        if let Some((few, many)) = self.fastest_copies.zip(*other_copies) {
            sentence += &format!("; its server sent {few:.2} copies instead of {many:.2}");
        }
        sentence + "."
    }

    /// The number to remember, what it means, and the sentence below it.
    fn card(&self) -> (String, String, String) {
        let mean = tables::seconds(self.fastest.summary.mean);
        let Some((other, other_copies)) = &self.other else {
            return (
                format!("{mean} s"),
                format!("on average by {}", self.fastest.key.delivery),
                String::new(),
            );
        };
        let mut sentence = format!(
            "was the fastest: {mean} s on average, {} took {} s.",
            other.key.delivery,
            tables::seconds(other.summary.mean)
        );
        if let Some((few, many)) = self.fastest_copies.zip(*other_copies) {
            sentence += &format!(" The server sent {few:.2} copies instead of {many:.2}.");
        }
        let factor = format!("{:.1}×", self.times_as_fast_as(other));
        (factor, format!("as fast as {}", other.key.delivery), sentence)
    }

    fn is_saturated(&self) -> bool {
        self.fastest.saturated || self.other.as_ref().is_some_and(|(other, _)| other.saturated)
    }
}

/// One for each network, at its largest size and its hardest schedule.
fn headlines(results: &Results<'_>) -> Result<Vec<Headline>> {
    let (rows, sent) = (results.run_times(), results.server_bytes()?);
    let mut headlines = Vec::new();
    for topology in results.topologies() {
        let Some((setting, schedule)) = hardest(results, &topology) else { continue };
        let compared: Vec<&RunTime> =
            rows.iter().filter(|row| row.key.setting == setting && row.key.schedule == schedule).collect();
        let (Some(fastest), Some(slowest)) = (compared.first(), compared.last()) else { continue };
        let tcp = compared.iter().find(|row| row.key.delivery == "tcp");
        let other = [tcp, Some(slowest)].into_iter().flatten().find(|other| other.key != fastest.key);
        let copies = |row: &RunTime| {
            let key = &row.key;
            sent.iter()
                .find(|s| {
                    s.setting == key.setting && s.delivery == key.delivery && s.schedule == key.schedule
                })
                .map(|s| s.copies())
        };
        headlines.push(Headline {
            fastest: (*fastest).clone(),
            fastest_copies: copies(fastest),
            other: other.map(|other| ((**other).clone(), copies(other))),
            setting,
            schedule,
        });
    }
    Ok(headlines)
}

/// The largest size that a network carried and the schedule in which all clients ask at once, or
/// else its first.
pub fn hardest(results: &Results<'_>, topology: &str) -> Option<(Setting, String)> {
    let of_topology = results.settings().into_iter().filter(|setting| setting.topology == topology);
    let setting = of_topology.max_by_key(|setting| setting.size_bytes)?;
    let schedules: Vec<&str> = results
        .complete()
        .filter(|data| data.setting() == setting)
        .map(|data| data.run.info.schedule.as_str())
        .collect();
    let schedule = schedules.iter().find(|schedule| **schedule == "immediate").or(schedules.first())?;
    Some((setting, (*schedule).to_owned()))
}
