//! What a reader sees first: what was done, what came out, whether to trust it, how to repeat it.

use std::time::SystemTime;

use super::{
    ReportInput, Verdict, generic, headline,
    html::{Page, escape},
};
use crate::{
    analysis::Results,
    db::{Result, Run, Status},
    frame::Frame,
    tables::{self, Cell, Mark, Table},
};

/// Writes the head of the report.
pub fn write(page: &mut Page, results: &Results<'_>, frame: &Frame, input: &ReportInput) -> Result<()> {
    page.raw(&format!("<header><p class=\"eyebrow\">treecast report</p><h1>{}</h1>", escape(&input.title)));
    page.raw(&format!("<p class=\"lede\">{}</p></header>", escape(&what_was_run(results))));
    verification(page, results);
    if let Some((all, sentence)) = generic::copies(frame) {
        page.banner(all, &sentence);
    }
    headline::write_cards(page, results)?;
    warnings(page, results);
    for note in &input.notes {
        page.paragraph(note);
    }
    findings(page, input);
    facts(page, results, input);
    Ok(())
}

/// The result in sentences: which delivery was fastest in each network, and by what factor.
pub fn sentences(results: &Results<'_>) -> Result<Vec<String>> {
    let mut sentences = headline::sentences(results)?;
    sentences.push(Verification::of(results).sentence());
    Ok(sentences)
}

fn what_was_run(results: &Results<'_>) -> String {
    let (deliveries, topologies, schedules) =
        (results.deliveries(), results.topologies(), results.schedules());
    if deliveries.is_empty() {
        if !results.generic.is_empty() {
            return match results.generic.len() {
                1 => "One run.".into(),
                runs => format!("{runs} runs."),
            };
        }
        if !results.sharings.is_empty() {
            return "Flows that share one link, each run ended by time.".into();
        }
        if !results.use_cases.is_empty() {
            return "Use cases of the MEADcast thesis, each way of delivery beside its figures.".into();
        }
        let feeds = results.feeds.len();
        return match feeds {
            0 => "No run is complete.".into(),
            1 => "A feed of objects that come one by one.".into(),
            _ => format!("{feeds} feeds of objects that come one by one."),
        };
    }
    let mut sizes: Vec<u64> = results.settings().into_iter().map(|setting| setting.size_bytes).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let sizes: Vec<String> = sizes.into_iter().map(tables::bytes).collect();
    format!(
        "{} of {} delivered by {}, over {}, on the {} {}.",
        if sizes.len() == 1 { "An object" } else { "Objects" },
        list(&sizes),
        list(&deliveries),
        list(&topologies),
        if schedules.len() == 1 { "schedule" } else { "schedules" },
        list(&schedules),
    )
}

fn list(words: &[String]) -> String {
    match words {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// How many copies came out right.
struct Verification {
    expected: usize,
    verified: usize,
    failures: Vec<String>,
}

impl Verification {
    fn of(results: &Results<'_>) -> Self {
        let mut all = Self { expected: 0, verified: 0, failures: Vec::new() };
        for data in results.complete() {
            all.expected += data.run.info.clients as usize;
            all.verified += data.transfers.iter().filter(|(_, transfer)| transfer.verified).count();
            for (node, transfer) in &data.transfers {
                let Some(why) = &transfer.failure else { continue };
                let name = data.nodes.iter().find(|(id, _)| id == node).map_or("?", |(_, n)| n.name.as_str());
                all.failures.push(format!("run {}, {name}: {why}", data.run.id.0));
            }
        }
        all
    }

    fn sentence(&self) -> String {
        if self.verified == self.expected {
            format!(
                "All {} copies are whole: each was compared with the sender's BLAKE3 hash.",
                self.expected
            )
        } else {
            format!(
                "{} of {} copies are missing or wrong; the others were compared with the sender's BLAKE3 hash.",
                self.expected - self.verified.min(self.expected),
                self.expected
            )
        }
    }
}

fn verification(page: &mut Page, results: &Results<'_>) {
    const MOST_SHOWN: usize = 20;
    let all = Verification::of(results);
    if results.runs.is_empty() {
        return;
    }
    page.banner(all.expected > 0 && all.verified == all.expected, &all.sentence());
    for failure in all.failures.iter().take(MOST_SHOWN) {
        page.paragraph(failure);
    }
    if all.failures.len() > MOST_SHOWN {
        page.paragraph(&format!("... and {} more.", all.failures.len() - MOST_SHOWN));
    }
}

fn warnings(page: &mut Page, results: &Results<'_>) {
    let complete = || results.all().filter(|data| data.run.status == Status::Complete);
    let saturated = complete().filter(|data| data.run.saturated.is_some()).count();
    if saturated > 0 {
        page.banner(
            false,
            &format!(
                "{saturated} of {} complete runs are marked *: the machine was at its limit, so they might be faster on a larger one.",
                complete().count()
            ),
        );
    }
    for (status, what) in [(Status::CutShort, "cut short"), (Status::Running, "still running")] {
        let count = results.all().filter(|data| data.run.status == status).count();
        if count > 0 {
            page.banner(
                false,
                &format!("{count} runs were {what}: they are listed, but in no average and no plot."),
            );
        }
    }
}

fn findings(page: &mut Page, input: &ReportInput) {
    if input.findings.is_empty() {
        return;
    }
    let mut table = Table::new("What this was to show", &["<CLAIM", "<FOR", "MEASURED", "LIMIT", "<RESULT"]);
    table.key = Some(["the claim holds", "it does not, or what it needs was not measured"]);
    for finding in &input.findings {
        let (mark, result) = match finding.verdict {
            Verdict::Holds => (Mark::Good, "holds"),
            Verdict::Fails => (Mark::Warning, "does not hold"),
            Verdict::NotJudged => (Mark::Muted, "not judged"),
        };
        table.rows.push(vec![
            finding.says.as_str().into(),
            finding.cell.as_str().into(),
            finding.measured.as_str().into(),
            finding.limit.as_str().into(),
            Cell::marked(result, mark),
        ]);
    }
    page.table(&table);
}

/// Where and when it was run, and how to run it again.
fn facts(page: &mut Page, results: &Results<'_>, input: &ReportInput) {
    let (Some(first), Some(last)) = (results.all().next(), results.all().last()) else { return };
    let (first, last) = (&first.run, &last.run);
    let machine = &last.info.machine;
    let command = if input.command.is_empty() { &last.info.command } else { &input.command };
    let took = ended(last).duration_since(first.started).unwrap_or_default();
    let rows = [
        ("Repeat it", format!("<code>{}</code>", escape(command))),
        ("When", escape(&format!("{} UTC, {} in all", utc(first.started), whole_seconds(took.as_secs())))),
        (
            "Machine",
            escape(&format!(
                "{}: {}, {} processors, {} memory",
                machine.hostname,
                machine.cpu_model,
                machine.cpus,
                gib(machine.memory_bytes)
            )),
        ),
        ("System", escape(&format!("{}, treecast {}", machine.kernel, machine.treecast_version))),
        ("Links", escape(&links(results, &input.impairments))),
    ];
    page.raw("<dl class=\"facts\">");
    for (term, html) in rows {
        page.raw(&format!("<div><dt>{term}</dt><dd>{html}</dd></div>"));
    }
    page.raw("</dl>");
}

/// The rates of the links, of each network where they differ; then their loss and delay.
fn links(results: &Results<'_>, impairments: &[String]) -> String {
    let rates = rates(results);
    let told = std::iter::once(rates.as_str()).chain(impairments.iter().map(String::as_str));
    told.filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ")
}

fn rates(results: &Results<'_>) -> String {
    let rate = |run: &Run| run.info.link_bps.map_or("not limited".to_owned(), tables::rate);
    let mut of_networks: Vec<(&str, String)> = Vec::new();
    for data in results.all() {
        let network = (&*data.run.info.topology, rate(&data.run));
        if !of_networks.contains(&network) {
            of_networks.push(network);
        }
    }
    match &of_networks[..] {
        [(_, first), others @ ..] if others.iter().all(|(_, rate)| rate == first) => first.clone(),
        all => all.iter().map(|(name, rate)| format!("{name}: {rate}")).collect::<Vec<_>>().join(", "),
    }
}

fn ended(run: &Run) -> SystemTime {
    run.started + run.duration
}

fn gib(bytes: u64) -> String {
    format!("{:.1} GiB", bytes as f64 / (1u64 << 30) as f64)
}

fn whole_seconds(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    }
}

/// `2026-11-20 19:35`, by the rule for the Gregorian calendar with years that start in March.
fn utc(time: SystemTime) -> String {
    let seconds = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    let (days, minute_of_day) = (seconds / 86_400 + 719_468, seconds % 86_400 / 60);
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02}", minute_of_day / 60, minute_of_day % 60)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn dates_are_right_around_leap_days_and_new_year() {
        let at = |seconds| utc(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(0), "1970-01-01 00:00");
        assert_eq!(at(951_782_400), "2000-02-29 00:00");
        assert_eq!(at(1_709_251_199), "2024-02-29 23:59");
        assert_eq!(at(1_767_225_600), "2026-01-01 00:00");
    }

    #[test]
    fn lists_read_as_english() {
        let words = ["a", "b", "c"].map(str::to_owned);
        assert_eq!([list(&words), list(&words[..2]), list(&words[..1])], ["a, b and c", "a and b", "a"]);
    }
}
