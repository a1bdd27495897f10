//! The head of a report: what was done, what came out, whether the results can be trusted, and how to repeat
//! the experiment.

use std::{collections::BTreeSet, time::SystemTime};

use super::{Named, ReportInput, Verdict, generic, headline, html::Page};
use crate::{
    db::{Run, Status},
    frame::Frame,
    plot::escape,
    tables::{self, Cell, Mark, Table},
};

/// Writes the head of the report: what was done and what came out.
pub fn write_head(page: &mut Page, runs: &[Run], frame: &Frame, input: &ReportInput) {
    page.raw(&format!("<header><p class=\"eyebrow\">treecast report</p><h1>{}</h1>", escape(&input.title)));
    page.raw(&format!("<p class=\"lede\">{}</p></header>", escape(&what_was_run(frame))));
    if let Some((all, sentence)) = generic::copies(frame) {
        page.banner(all, &sentence);
    }
    generic::failures(frame).iter().for_each(|failure| page.paragraph(failure));
    headline::write_cards(page, frame);
    warnings(page, runs);
    for note in &input.notes {
        page.paragraph(note);
    }
    names(page, frame, input);
}

/// Writes the meanings of the names in this report.
fn names(page: &mut Page, frame: &Frame, input: &ReportInput) {
    let vocabulary = frame.vocabulary();
    let is_shown = |named: &&Named| {
        let mut values = vocabulary.values_of(&named.parameter).into_iter();
        values.any(|value| value == named.name || value.split(' ').any(|word| word == named.name))
    };
    let mut table = Table::new("What the names mean", &["<NAME", "<MEANING"]);
    for named in input.names.iter().filter(is_shown) {
        table.rows.push(vec![Cell::from(named.name.as_str()), named.meaning.as_str().into()]);
    }
    page.folded_tables("What the names of networks, schedules and deliveries mean", &[table]);
}

/// Writes the claims, and how to repeat the experiment. They follow the plots, which say more at a glance.
pub fn write_claims(page: &mut Page, runs: &[Run], frame: &Frame, input: &ReportInput) {
    findings(page, input);
    facts(page, runs, frame, input);
}

/// The deliveries, and how many runs there are.
fn what_was_run(frame: &Frame) -> String {
    let complete = || frame.runs.iter().filter(|run| run.is_complete);
    let simulated = complete().filter(|run| run.is_simulated()).count();
    let vocabulary = frame.vocabulary();
    // Nobody reads a longer list.
    const MOST: usize = 6;
    let of = |name: &str, many: &str| {
        let words = vocabulary.values_of(name).into_iter().map(str::to_owned).collect::<Vec<_>>();
        if words.len() > MOST { vec![format!("{} {many}", words.len())] } else { words }
    };
    let runs = match complete().count() {
        0 => return "No run is complete.".into(),
        1 if simulated == 1 => "One simulated run".to_owned(),
        1 => "One run".to_owned(),
        many if simulated == many => format!("{many} simulated runs"),
        many if simulated > 0 => format!("{many} runs ({simulated} of them simulated)"),
        many => format!("{many} runs"),
    };
    let parts = [("of", of("delivery", "deliveries")), ("on", of("network", "networks"))];
    let parts = parts.into_iter().filter(|(_, words)| !words.is_empty());
    let parts: String = parts.map(|(word, words)| format!(" {word} {}", list(&words))).collect();
    format!("{runs}{parts}.")
}

/// The words as a list. Words with commas are divided by semicolons.
fn list(words: &[String]) -> String {
    let divider = if words.iter().any(|word| word.contains(',')) { "; " } else { ", " };
    match words {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] if divider == ", " => format!("{} and {last}", first.join(divider)),
        all => all.join(divider),
    }
}

fn warnings(page: &mut Page, runs: &[Run]) {
    let complete = || runs.iter().filter(|run| run.status == Status::Complete);
    let saturated = complete().filter(|run| run.saturated.is_some()).count();
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
        let count = runs.iter().filter(|run| run.status == status).count();
        if count > 0 {
            let told = match count {
                1 => format!("1 run was {what}: it is listed, but in no average and no plot."),
                many => format!("{many} runs were {what}: they are listed, but in no average and no plot."),
            };
            page.banner(false, &told);
        }
    }
}

fn findings(page: &mut Page, input: &ReportInput) {
    if input.findings.is_empty() {
        return;
    }
    let mut table = Table::new("What this was to show", &["<CLAIM", "<FOR", "MEASURED", "LIMIT", "<RESULT"]);
    table.key = Some(["the claim holds", "it does not, or what it needs was not measured"]);
    let mut claim = "";
    for finding in &input.findings {
        let (mark, result) = match finding.verdict {
            Verdict::Holds => (Mark::Good, "holds"),
            Verdict::Fails => (Mark::Warning, "does not hold"),
            Verdict::NotJudged => (Mark::Muted, "not judged"),
        };
        // A claim about many cells is written once.
        let is_same = claim == finding.says;
        claim = &finding.says;
        table.rows.push(vec![
            if is_same { "" } else { claim }.into(),
            finding.cell.as_str().into(),
            finding.measured.as_str().into(),
            finding.limit.as_str().into(),
            Cell::marked(result, mark),
        ]);
    }
    page.table(&table);
}

/// Writes where and when the experiment was run, and how to run it again.
fn facts(page: &mut Page, runs: &[Run], frame: &Frame, input: &ReportInput) {
    let (Some(first), Some(last)) = (runs.first(), runs.last()) else { return };
    let machine = &last.machine;
    let command = if input.command.is_empty() { &last.command } else { &input.command };
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
        ("Site", escape(&site(frame))),
        ("Links", escape(&links(runs, &input.impairments))),
    ];
    page.raw("<dl class=\"facts\">");
    for (term, html) in rows {
        page.raw(&format!("<div><dt>{term}</dt><dd>{html}</dd></div>"));
    }
    page.raw("</dl>");
}

/// The place where the runs were made, and the seeds of those that were computed.
fn site(frame: &Frame) -> String {
    let (simulated, others): (Vec<_>, Vec<_>) = frame.runs.iter().partition(|run| run.is_simulated());
    let seeds: BTreeSet<&str> =
        simulated.iter().filter_map(|run| run.parameters.get("seed")).map(String::as_str).collect();
    let seeds: Vec<String> = seeds.into_iter().map(str::to_owned).collect();
    let word = if seeds.len() == 1 { "seed" } else { "seeds" };
    let computed = || format!("simulated in virtual time, from the {word} {}", list(&seeds));
    match (simulated.len(), others.len()) {
        (0, _) => "real processes on this machine".into(),
        (_, 0) => computed(),
        (computed_runs, real) => {
            format!("{real} runs with real processes on this machine; {computed_runs} runs {}", computed())
        }
    }
}

/// The rates of the links, for each network if they differ, and then their loss and delay.
fn links(runs: &[Run], impairments: &[String]) -> String {
    let rates = rates(runs);
    let told = std::iter::once(rates.as_str()).chain(impairments.iter().map(String::as_str));
    told.filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ")
}

fn rates(runs: &[Run]) -> String {
    let parameter = |run: &Run, name: &str| run.parameters.get(name).cloned().unwrap_or_default();
    let rate = |run: &Run| parameter(run, "link_rate").parse().map_or("not limited".to_owned(), tables::rate);
    let mut of_networks: Vec<(String, String)> = Vec::new();
    for run in runs {
        let network = (parameter(run, "network"), rate(run));
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

/// Formats a time as `2026-11-20 19:35`. The calculation uses years that start in March.
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
        assert_eq!(list(&["forged".into(), "forged, with a key".into()]), "forged; forged, with a key");
    }
}
