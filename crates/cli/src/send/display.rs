//! The display of `treecast send`: the ticket, a bar, and at the end a table of receivers.

use std::{cmp::Reverse, collections::BTreeMap};

use treecast::unstable::stream::piece_number;
use treecast::unstable::watch::{
    CommandOutcome, FanoutProgress, LocalSending, ReceiverProgress, SendEvent, SendProgress, SendSummary,
    Standing, Way,
};

use super::orders;
use crate::{
    advice::advised,
    arguments::counted,
    figures::{bytes, held_by, left, of_whole, part, percent, rate, slowest, standings},
    moving_line::{Moment, MovingLine},
    output::{self, Lines},
};

/// A reason that names the object.
fn of(name: &str, reason: &str) -> String {
    if reason.contains(name) { reason.to_owned() } else { format!("{name}: {reason}") }
}

pub(super) struct Display {
    json: bool,
    /// What is counted: files, or the pieces of a stream.
    unit: &'static str,
    /// Whether lines at the terminal change for how many receivers the start waits.
    takes_orders: bool,
    /// Whether anybody with the ticket may receive, so that the line for another host is shown.
    pub is_for_anybody: bool,
    line: MovingLine,
    lines: Lines,
    /// The first files of a feed that could not be sent, with the reasons.
    not_sent: Vec<String>,
    /// The session's number in hexadecimal digits. Empty before the ticket is made.
    session: String,
    /// The receivers that have joined while the session waits. `None` when it has started.
    waiting: Option<Waiting>,
}

struct Waiting {
    joined: u32,
    wanted: u32,
}

impl Display {
    /// A display for a session that starts when `wanted` receivers are there. `takes_orders`: a person at the terminal can change that.
    pub fn new(json: bool, wanted: u32, takes_orders: bool, unit: &'static str) -> Self {
        let waiting = Some(Waiting { joined: 0, wanted });
        let line = MovingLine::new(json, "");
        let (lines, not_sent, session) = (Lines::default(), Vec::new(), String::new());
        Self { json, unit, takes_orders, is_for_anybody: true, line, lines, not_sent, session, waiting }
    }

    /// The session's number in hexadecimal digits.
    pub fn session(&self) -> &str {
        &self.session
    }

    pub fn show(&mut self, event: &SendEvent) {
        if let SendEvent::Ready { ticket } = event {
            self.session = format!("{:08x}", ticket.session.0);
        }
        if self.json {
            return match event {
                SendEvent::Idle => self.lines.show(),
                _ => self.lines.add(event, matches!(event, SendEvent::ObjectDone { .. })),
            };
        }
        match event {
            SendEvent::Ready { ticket } => {
                say!("{ticket}");
                if self.is_for_anybody {
                    self.line(&format!("on another host: treecast receive {ticket}"));
                }
                if self.takes_orders {
                    self.line(orders::HELP);
                }
                self.wait_for(0);
            }
            SendEvent::Warning(line) => self.line(&advised(line)),
            SendEvent::Joined { receiver, address, joined, wanted, .. } => {
                let there = match &self.waiting {
                    Some(_) => format!("{joined} of {wanted}"),
                    None => format!("{joined} are there"),
                };
                self.line(&format!("{receiver} joined from {address} ({there})"));
                self.wait_for(*joined);
            }
            SendEvent::WaitsFor { joined, wanted } => {
                self.waiting = Some(Waiting { joined: *joined, wanted: *wanted });
                self.line(&format!(
                    "waits for {} now ({joined} there)",
                    counted(*wanted as usize, "receiver")
                ));
                self.wait_for(*joined);
            }
            SendEvent::Left { receiver, reason } => {
                self.line(&format!("{receiver} left: {reason}"));
                let joined = self.waiting.as_ref().map_or(0, |waiting| waiting.joined.saturating_sub(1));
                self.wait_for(joined);
            }
            SendEvent::Refused { address, reason } => {
                self.line(&format!("a connection from {address} came to nothing: {reason}"));
            }
            SendEvent::CommandEnded { receiver, outcome } => {
                self.line(&format!("{receiver}: its command {}", command(outcome)));
            }
            SendEvent::Started { .. } => self.waiting = None,
            SendEvent::Progress(progress) => self.move_bar(progress),
            SendEvent::Moved { receiver, group, rate_bps } => {
                self.line(&moved(receiver, *group, *rate_bps));
            }
            SendEvent::Way { receiver, way, why } => {
                self.line(&format!("{receiver} is served by {}: {why}", way.title()));
            }
            SendEvent::Withdrawn { name, reason, .. } => self.line(&of(name, reason)),
            SendEvent::NotSent { path, reason, .. } => {
                self.line(&of(path, reason));
                if self.not_sent.len() < MOST_NOT_SENT {
                    self.not_sent.push(of(path, reason));
                }
            }
            _ => {}
        }
    }

    pub fn finish(&mut self, summary: &SendSummary) {
        self.line.finish();
        if self.json {
            return self.lines.end(&SendEvent::Done(summary.into()));
        }
        say!("{}", in_one_line(summary, self.unit));
        let lines = given_up(summary, &self.not_sent).into_iter().chain(deaf(summary));
        lines.chain(times(&summary.progress.receivers)).for_each(|line| say!("{line}"));
        let lacks_some = |receiver: &ReceiverProgress| receiver.failed + receiver.objects_missed > 0;
        if summary.progress.receivers.iter().any(lacks_some) {
            output::to_stdout(format_args!("{}", failures(summary, self.unit)));
        }
        output::to_stdout(format_args!("{}", commands(summary)));
        if summary.others_failed > 0 {
            say!(
                "{} more left before it had everything",
                counted(summary.others_failed as usize, "receiver")
            );
        }
        if summary.turned_away > 0 {
            say!(
                "receivers at {} could not be admitted: there was no descriptor left (`ulimit -n`)",
                counted(summary.turned_away as usize, "host")
            );
        }
        if summary.never_came > 0 {
            say!(
                "{} that the start waited for never came (--wait)",
                counted(summary.never_came as usize, "receiver")
            );
        }
    }

    fn line(&self, line: &str) {
        self.line.line(line);
    }

    /// Says who is there, while the session waits for others.
    fn wait_for(&mut self, now_joined: u32) {
        let Some(Waiting { joined, wanted }) = &mut self.waiting else { return };
        *joined = now_joined;
        self.line.wait(format!("waiting: {joined} of {}", counted(*wanted as usize, "receiver")));
    }

    /// Moves the bar to the receivers' average progress.
    fn move_bar(&mut self, progress: &SendProgress) {
        if let Some(waiting) = progress.waiting {
            let (figures, remark) = of_feed(progress, waiting, self.unit);
            return self.line.show(&Moment {
                done_bytes: progress.sent_bytes,
                total_bytes: None,
                figures,
                remark,
            });
        }
        let (done_bytes, wanted_bytes) = match &progress.local {
            Some(_) => (progress.sent_bytes, progress.total_bytes),
            None => (progress.done_bytes(), progress.wanted_bytes()),
        };
        let figures = format!(
            "{}, {}, {}",
            of_whole(done_bytes, wanted_bytes),
            rate(progress.leaving_bps()),
            left(progress.seconds_left)
        );
        let total_bytes = Some(wanted_bytes);
        let moment = Moment { done_bytes, total_bytes, figures, remark: remark(progress) };
        self.line.show(&moment);
    }
}

/// A receiver has gone to another group. Its rate is none yet where the sender has to find it.
fn moved(receiver: &str, group: u8, rate_bps: Option<u64>) -> String {
    match rate_bps {
        Some(_) => format!("{receiver} moved to group {group} at {}", rate(rate_bps)),
        None => format!("{receiver} moved to group {group}, whose rate is being found"),
    }
}

/// Says how many receivers are done, what was sent again, and which receiver the session waits for or is
/// slowest.
fn remark(progress: &SendProgress) -> String {
    if let Some(local) = &progress.local {
        let again = local.session_repair_bytes + local.group_repair_bytes;
        let share = again as f64 / (progress.sent_bytes + again).max(1) as f64;
        let receivers = counted(local.receivers as usize, "receiver");
        return format!("{receivers} in local groups, {} sent again", percent(share));
    }
    let receivers = &progress.receivers;
    let stand = |standing| receivers.iter().filter(|receiver| receiver.standing == standing).count() as u32;
    let done = format!("{} of {} done", stand(Standing::Done), counted(receivers.len(), "receiver"));
    let standings = standings(done, stand(Standing::Failed), stand(Standing::Gone));
    let again: u64 = receivers.iter().map(|receiver| receiver.retransmitted_bytes).sum();
    let share = again as f64 / (progress.sent_bytes + again).max(1) as f64;
    let who = match &progress.held_by {
        Some(holder) => format!("; {}", held_by(holder)),
        None => {
            let mut there: Vec<&ReceiverProgress> =
                receivers.iter().filter(|receiver| receiver.is_connected).collect();
            there.sort_by_key(|receiver| receiver.received_bytes);
            let percent = |receiver: &&ReceiverProgress| part(receiver.received_bytes, progress.total_bytes);
            slowest(there.iter().map(|receiver| (receiver.name.as_str(), percent(receiver))), NAMED)
        }
    };
    format!("{standings}, {} sent again{who}", percent(share))
}

/// A piece of a stream, as it is counted.
pub(super) const PIECE: &str = "piece";

/// The number of receivers that the moving line names. More would not fit 80 columns.
const NAMED: usize = 2;

/// How far a feed is, which has no end: files, and who is there.
fn of_feed(progress: &SendProgress, waiting: u64, unit: &str) -> (String, String) {
    let figures = format!(
        "{} done, {} under way, {waiting} waiting; {} sent, {}",
        counted(progress.objects_done as usize, unit),
        progress.objects.saturating_sub(progress.objects_done),
        bytes(progress.sent_bytes),
        rate(progress.leaving_bps())
    );
    if progress.local.is_some() {
        return (figures, remark(progress));
    }
    let there = progress.receivers.iter().filter(|receiver| receiver.is_connected).count();
    let again = progress.sums().retransmitted_bytes;
    let share = again as f64 / (progress.sent_bytes + again).max(1) as f64;
    let who = progress.held_by.as_ref().map(|holder| format!("; {}", held_by(holder))).unwrap_or_default();
    (figures, format!("{}, {} sent again{who}", counted(there, "receiver"), percent(share)))
}

fn in_one_line(summary: &SendSummary, unit: &str) -> String {
    let progress = &summary.progress;
    if let Some(local) = &progress.local {
        return in_local_groups(summary, local, unit);
    }
    let sum = |count: fn(&ReceiverProgress) -> u64| progress.receivers.iter().map(count).sum::<u64>();
    let again = sum(|receiver| receiver.retransmitted_bytes);
    let dropped = sum(|receiver| receiver.dropped_packets);
    let has_lost_none = again + dropped + progress.repair_symbols == 0 && summary.is_everywhere();
    let mut line = format!(
        "{}, {}: {} after {:.2} s{}",
        counted(summary.objects as usize, unit),
        bytes(progress.total_bytes),
        who_has_it(&progress.receivers, if is_partial(summary) { "all that went out" } else { "all of it" }),
        progress.seconds,
        average(progress),
    );
    line += &match (progress.receivers.is_empty(), has_lost_none) {
        (true, _) => String::new(),
        (false, true) => "; nothing was lost".to_owned(),
        (false, false) => {
            format!("; {} sent again, {} dropped", bytes(again), counted(dropped as usize, "packet"))
        }
    };
    if progress.repair_symbols > 0 {
        line += &format!(", {} sent", counted(progress.repair_symbols as usize, "repair symbol"));
    }
    line + &carried(progress) + &progress.fanout.as_ref().map(left_bytes).unwrap_or_default()
}

/// Says how many bytes packets have carried for the objects, where compression and holes left some out.
fn carried(progress: &SendProgress) -> String {
    match progress.zero_bytes {
        0 => String::new(),
        zeros => {
            let sent = progress.sent_bytes.saturating_sub(zeros);
            format!(
                "; {} went out for {} (zeros and what compression saves did not)",
                bytes(sent),
                bytes(progress.sent_bytes)
            )
        }
    }
}

/// Whether the session was to send more than went out: files of a feed that could not be sent, were given up, or wait for the next start.
fn is_partial(summary: &SendSummary) -> bool {
    let is_stopped_feed = summary.interrupted && summary.progress.waiting.is_some();
    is_stopped_feed || summary.not_sent + summary.dropped + summary.expired > 0
}

/// The most files that could not be sent and are named again at the end.
const MOST_NOT_SENT: usize = 10;

/// Says how many files of a feed nobody gets, or not everybody, and names the first ones. `None` if there are none.
fn given_up(summary: &SendSummary, not_sent: &[String]) -> Option<String> {
    let told =
        |count: u64, verb: &str| (count > 0).then(|| format!("{} {verb}", counted(count as usize, "file")));
    let dropped = told(summary.dropped, "dropped because too many waited (--spool-files, --spool-bytes)");
    let expired = told(summary.expired, "expired before all had it");
    let named = not_sent.join("; ");
    let others = if summary.not_sent as usize > not_sent.len() { "; ..." } else { "" };
    let refused = told(summary.not_sent, &format!("not sent ({named}{others})"));
    let parts: Vec<_> = [refused, dropped, expired].into_iter().flatten().collect();
    (!parts.is_empty()).then(|| output::in_one_line(&parts.join("; ")))
}

/// The number of receivers that heard nothing which a line names. The others are counted.
const MOST_DEAF: usize = 8;

/// Names the receivers that got everything over TCP, and how much that was. `None` if there are none.
fn deaf(summary: &SendSummary) -> Option<String> {
    let deaf: Vec<_> = summary.progress.receivers.iter().filter(|receiver| receiver.hears_nothing).collect();
    let named = |receiver: &&ReceiverProgress| {
        format!("{} ({})", output::in_one_line(&receiver.name), bytes(receiver.retransmitted_bytes))
    };
    let mut names: Vec<_> = deaf.iter().take(MOST_DEAF).map(named).collect();
    if deaf.len() > names.len() {
        names.push(format!("{} more", deaf.len() - names.len()));
    }
    let whom = counted(deaf.len(), "receiver");
    (!deaf.is_empty()).then(|| {
        format!("no UDP packet reached {whom}, and everything went there over TCP: {}", names.join(", "))
    })
}

/// Says how a session with local groups has ended. Its sender does not know receivers one by one: it knows the most that
/// have been reported at a time, and that each of those who still report has everything.
fn in_local_groups(summary: &SendSummary, local: &LocalSending, unit: &str) -> String {
    let progress = &summary.progress;
    let receivers = counted(local.receivers as usize, "receiver");
    let there = if summary.is_complete() {
        format!("all of it is at those of {receivers} that stayed to the end")
    } else {
        format!("it went to {receivers}")
    };
    format!(
        "{}, {}: {there} after {:.2} s; {} sent again to all, {} to local groups, {} heard",
        counted(summary.objects as usize, unit),
        bytes(progress.total_bytes),
        progress.seconds,
        bytes(local.session_repair_bytes),
        bytes(local.group_repair_bytes),
        counted((local.reports + local.requests + local.others) as usize, "message"),
    ) + &match local.late_objects {
        0 => String::new(),
        late => format!("; {} given up as late", counted(late as usize, "file")),
    }
}

/// Says how many receivers have everything (`what`), and how many have everything that they wanted.
fn who_has_it(receivers: &[ReceiverProgress], what: &str) -> String {
    if receivers.is_empty() {
        return "no receiver came".to_owned();
    }
    let lacks_nothing = |receiver: &&ReceiverProgress| receiver.failed + receiver.objects_missed == 0;
    let (all, chosen): (Vec<_>, Vec<_>) =
        receivers.iter().filter(lacks_nothing).partition(|receiver| receiver.objects_not_wanted == 0);
    let (all, chosen, of) = (all.len(), chosen.len(), counted(receivers.len(), "receiver"));
    let have = if all == 1 { "has" } else { "have" };
    let have_chosen = if chosen == 1 { "has what it" } else { "have what they" };
    match (all, chosen) {
        (_, 0) => format!("{what} is at {all} of {of}"),
        (0, _) => format!("{chosen} of {of} {have_chosen} wanted (--only),"),
        _ => format!("{all} of {of} {have} everything, {chosen} {have_chosen} wanted (--only),"),
    }
}

/// Says how fast receivers got their files. Receivers that failed are left out, and the text says so.
fn average(progress: &SendProgress) -> String {
    let rates = || {
        progress.receivers.iter().filter(|receiver| receiver.failed == 0).map(|receiver| receiver.run_bytes)
    };
    let count = rates().count();
    if count == 0 {
        return String::new();
    }
    let whom = if count == progress.receivers.len() { "each" } else { "each that has not failed" };
    let mean = rates().sum::<u64>() as f64 / count as f64;
    format!(" ({} at {whom} on average)", rate(Some((mean * 8.0 / progress.seconds.max(1e-9)) as u64)))
}

/// Says how many bytes have left the sender by each fanout.
fn left_bytes(fanout: &FanoutProgress) -> String {
    let ways = [Way::Unicast, Way::Mead, Way::Xcast, Way::Multicast];
    let carried = ways.into_iter().filter_map(|way| Some((way, fanout.get(&way.to_string())?)));
    let used = carried.filter(|(_, carried)| carried.receivers > 0 || carried.left_bytes > 0);
    let told = used.map(|(way, carried)| {
        let receivers = counted(carried.receivers as usize, "receiver");
        format!("{} by {} (at the end {receivers})", bytes(carried.left_bytes), way.title())
    });
    format!("; what left: {}", told.collect::<Vec<_>>().join(", "))
}

/// The least number of receivers with everything whose times are told.
const MANY: usize = 10;

/// Says how long the receivers took that have everything. `None` if they are few, or if no time is known.
fn times(receivers: &[ReceiverProgress]) -> Option<String> {
    let has_all = |receiver: &&ReceiverProgress| receiver.failed + receiver.objects_missed == 0;
    let whole = receivers.iter().filter(has_all);
    let mut times: Vec<_> = whole.filter_map(|one| Some((one.ended_seconds?, &one.name))).collect();
    times.sort_by(|(one, _), (other, _)| one.total_cmp(other));
    let (slowest, name) = times.last().filter(|_| times.len() >= MANY)?;
    let median = times[(times.len() - 1) / 2].0;
    let name = output::in_one_line(name);
    Some(format!(
        "{} have everything: half of them after {median:.2} s, the slowest ({name}) after {slowest:.2} s",
        counted(times.len(), "receiver")
    ))
}

/// The most rows of a table at the session's end. More would push the first ones off a terminal.
const MOST_ROWS: usize = 40;

/// The most reasons that are told for rows that are not shown.
const MOST_REASONS: usize = 5;

/// Lists the receivers that lack something, with the reasons, those that lack most first. The pieces of a stream have no names that
/// anybody knows, so they are counted.
fn failures(summary: &SendSummary, unit: &str) -> String {
    let mut lacking: Vec<(&ReceiverProgress, Vec<(String, String)>)> = Vec::new();
    for receiver in &summary.progress.receivers {
        let told = receiver.failures.iter().cloned();
        let told: Vec<_> = if unit == PIECE { as_counts(told, summary.objects) } else { told.collect() };
        let told: Vec<_> = told.into_iter().chain(missed(receiver, summary.objects, unit)).collect();
        if !told.is_empty() {
            lacking.push((receiver, told));
        }
    }
    let all = lacking.iter().map(|(_, told)| told.len()).sum::<usize>();
    if all > MOST_ROWS {
        lacking.sort_by_key(|(receiver, _)| Reverse(receiver.failed + receiver.objects_missed));
    }
    // Each has a row before one has a second.
    let each = if all > MOST_ROWS { (MOST_ROWS / lacking.len()).max(1) } else { all };
    let rows = lacking.iter().flat_map(|(receiver, told)| {
        // Of one that never came, nobody knows the address.
        let address = if receiver.address.is_empty() { "-" } else { &receiver.address };
        let row = move |(object, reason): &(String, String)| {
            [receiver.name.as_str(), address, object, reason].map(output::in_one_line)
        };
        told.iter().take(each).map(row)
    });
    let rows: Vec<[String; 4]> = rows.take(MOST_ROWS).collect();
    let rows: Vec<[&str; 4]> = rows.iter().map(|row| row.each_ref().map(String::as_str)).collect();
    let text = output::table(&["receiver", "address", unit, "why not"], &rows);
    if rows.len() == all {
        return text;
    }
    let reasons = lacking.iter().flat_map(|(_, told)| told.iter().map(|(_, reason)| reason.as_str()));
    format!("{text}{}\n", not_shown(all, rows.len(), lacking.len(), reasons))
}

/// Says what a table of failures leaves out, and which reasons it has.
fn not_shown<'a>(
    all: usize,
    shown: usize,
    receivers: usize,
    reasons: impl Iterator<Item = &'a str>,
) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    reasons.for_each(|reason| *counts.entry(reason).or_default() += 1);
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| Reverse(*count));
    let more = counts.len().saturating_sub(MOST_REASONS);
    let named = counts.iter().take(MOST_REASONS).map(|(reason, count)| format!("{count} times: {reason}"));
    let mut named: Vec<_> = named.collect();
    if more > 0 {
        named.push(counted(more, "other reason"));
    }
    let line = format!(
        "{} more (--json has all, --report FILE a row for each receiver); {} in all at {}: {}",
        counted(all - shown, "row"),
        all,
        counted(receivers, "receiver"),
        named.join("; ")
    );
    output::in_one_line(&line)
}

/// Counts failures by their reasons: "20 of 31 pieces".
fn as_counts(failures: impl Iterator<Item = (String, String)>, objects: u64) -> Vec<(String, String)> {
    let mut counts: Vec<(usize, String)> = Vec::new();
    for (what, reason) in failures {
        // The last row of a receiver may stand for several: "7 files more".
        let several = || what.split(' ').next().and_then(|count| count.parse().ok());
        let pieces = if piece_number(&what).is_some() { 1 } else { several().unwrap_or(1) };
        match counts.iter_mut().find(|(_, other)| *other == reason) {
            Some((count, _)) => *count += pieces,
            None => counts.push((pieces, reason)),
        }
    }
    let of = counted(objects as usize, PIECE);
    counts.into_iter().map(|(count, reason)| (format!("{count} of {of}"), reason)).collect()
}

/// How a command went, in words.
fn command(outcome: &CommandOutcome) -> String {
    let how = match outcome.code {
        Some(0) => "was successful".to_owned(),
        Some(code) => format!("failed with exit code {code}"),
        None => "has no exit code".to_owned(),
    };
    let line = if outcome.line.is_empty() { String::new() } else { format!(": {}", outcome.line) };
    format!("{how} after {:.1} s{line}", outcome.seconds)
}

/// Lists how the commands of standing receivers went. Empty if there was none.
fn commands(summary: &SendSummary) -> String {
    let receivers = summary.progress.receivers.iter();
    let mut ran: Vec<(&str, &CommandOutcome)> =
        receivers.filter_map(|receiver| Some((receiver.name.as_str(), receiver.command.as_ref()?))).collect();
    if ran.is_empty() {
        return String::new();
    }
    ran.sort_by_key(|(_, outcome)| outcome.is_good());
    let good = ran.iter().filter(|(_, outcome)| outcome.is_good()).count();
    let told = format!("the command was successful at {good} of {}\n", counted(ran.len(), "receiver"));
    // Among many, those that went well are told by their number.
    let shown = if ran.len() <= MOST_ROWS { ran.len() } else { (ran.len() - good).min(MOST_ROWS) };
    let hidden = match ran.len() - good > shown {
        true => format!(
            "{} more (--json and --report FILE have all)\n",
            counted(ran.len() - good - shown, "failure")
        ),
        false => String::new(),
    };
    if shown == 0 {
        return told;
    }
    let rows: Vec<[String; 4]> = ran
        .iter()
        .take(shown)
        .map(|(name, outcome)| {
            let code = outcome.code.map_or("none".to_owned(), |code| code.to_string());
            [*name, &*code, &*format!("{:.1} s", outcome.seconds), &*outcome.line].map(output::in_one_line)
        })
        .collect();
    let rows: Vec<[&str; 4]> = rows.iter().map(|row| row.each_ref().map(String::as_str)).collect();
    told + &output::table(&["receiver", "exit code", "time", "first line"], &rows) + &hidden
}

/// A row for the objects that a receiver was never told of. Their names are not known any more.
fn missed(receiver: &ReceiverProgress, objects: u64, unit: &str) -> Option<(String, String)> {
    let missed = Some(receiver.objects_missed).filter(|missed| *missed > 0)?;
    let what = format!("{missed} of {}", counted(objects as usize, unit));
    let why = match unit {
        PIECE => "over when it came: the beginning of a stream is kept with --spool",
        _ => "over when it came: a feed goes on, and does not go back",
    };
    Some((what, why.to_owned()))
}

#[cfg(test)]
mod tests {
    use treecast::unstable::watch::{Hindrance, Holder};

    use super::*;

    #[test]
    fn who_is_waited_for_is_told_in_80_columns() {
        let mut progress = filled!(SendProgress { total_bytes: 1000, sent_bytes: 900 });
        progress.receivers = (0..4)
            .map(|number| {
                filled!(ReceiverProgress {
                    name: format!("client{number}"),
                    received_bytes: 500 - number * 10,
                    retransmitted_bytes: 25,
                    is_connected: true
                })
            })
            .collect();
        let slowest = "0 of 4 receivers done, 10 % sent again; slowest: client3 47 %, client2 48 %";
        assert_eq!(remark(&progress), slowest);
        progress.held_by = Some(Holder::new("client3".into(), Hindrance::Silent(12.0)));
        assert_eq!(
            remark(&progress),
            "0 of 4 receivers done, 10 % sent again; waits for client3: silent for 12 s"
        );
        (progress.receivers[0].standing, progress.receivers[1].standing) = (Standing::Done, Standing::Gone);
        let one_is_gone =
            "1 of 4 receivers done, 1 gone, 10 % sent again; waits for client3: silent for 12 s";
        assert_eq!(remark(&progress), one_is_gone);
        let nobody = SendProgress::default();
        assert_eq!(remark(&nobody), "0 of 0 receivers done, 0.0 % sent again");
    }

    /// It said that a receiver had moved to a group at 60 kbit/s, and then that nothing was sent for half a minute.
    #[test]
    fn rates_are_those_at_which_something_leaves() {
        assert_eq!(moved("c2", 1, None), "c2 moved to group 1, whose rate is being found");
        assert_eq!(moved("c2", 1, Some(4_000_000)), "c2 moved to group 1 at 4.0 Mbit/s");
        let progress = filled!(SendProgress { now_bps: Some(1_700_000), retransmitted_bps: Some(300_000) });
        assert_eq!(rate(progress.leaving_bps()), "2.0 Mbit/s");
        assert_eq!(SendProgress::default().leaving_bps(), None, "nothing is known yet");
    }

    #[test]
    fn a_feed_has_no_percentage() {
        let receivers = [true, true, false];
        let receivers = receivers.map(|is_connected| filled!(ReceiverProgress { is_connected }));
        let progress = filled!(SendProgress {
            objects: 12,
            objects_done: 10,
            sent_bytes: 3_000_000,
            receivers: receivers.to_vec()
        });
        let (figures, remark) = of_feed(&progress, 7, "file");
        assert_eq!(figures, "10 files done, 2 under way, 7 waiting; 2.9 MiB sent, rate unknown");
        assert_eq!(remark, "2 receivers, 0.0 % sent again");
    }

    /// What a person reads at a session's end: one word for one thing, one unit, and one as one.
    #[test]
    fn the_last_line_counts_one_as_one() {
        let receiver = |failed| filled!(ReceiverProgress { failed, retransmitted_bytes: 3 << 19 });
        let cases = [
            (
                1,
                5,
                vec![receiver(0)],
                "1 file, 5 B: all of it is at 1 of 1 receiver after 0.00 s (0 bit/s at each on average); \
              1.5 MiB sent again, 0 packets dropped",
            ),
            (1, 5, vec![], "1 file, 5 B: no receiver came after 0.00 s"),
            (
                1,
                5,
                vec![ReceiverProgress::default()],
                "1 file, 5 B: all of it is at 1 of 1 receiver after 0.00 s (0 bit/s at each on average); nothing was lost",
            ),
            (
                9,
                7 << 20,
                vec![receiver(0), receiver(1)],
                "9 files, 7.0 MiB: all of it is at 1 of 2 receivers after 0.00 s (0 bit/s at \
              each that has not failed on average); 3.0 MiB sent again, 0 packets dropped",
            ),
            (
                2,
                0,
                vec![receiver(1)],
                "2 files, 0 B: all of it is at 0 of 1 receiver after 0.00 s; 1.5 MiB sent again, 0 packets dropped",
            ),
        ];
        for (objects, total_bytes, receivers, expected) in cases {
            let progress = filled!(SendProgress { total_bytes, receivers });
            assert_eq!(in_one_line(&filled!(SendSummary { objects, progress }), "file"), expected);
        }
    }

    #[test]
    fn all_of_it_is_not_said_where_files_did_not_go_out() {
        let receivers = vec![ReceiverProgress::default(); 2];
        let mut summary = filled!(SendSummary { objects: 3, not_sent: 1 });
        summary.progress.receivers = receivers;
        let line = in_one_line(&summary, "file");
        assert!(line.starts_with("3 files, 0 B: all that went out is at 2 of 2 receivers after "), "{line}");
        let told = given_up(&summary, &["/no/such: it is not there".to_owned()]);
        assert_eq!(told.as_deref(), Some("1 file not sent (/no/such: it is not there)"));
        (summary.not_sent, summary.interrupted) = (0, true);
        assert!(!is_partial(&summary));
        summary.progress.waiting = Some(7);
        assert!(is_partial(&summary));
    }

    #[test]
    fn who_wanted_a_part_and_has_it_is_not_told_as_a_failure() {
        let receiver = |objects_not_wanted, failed| filled!(ReceiverProgress { objects_not_wanted, failed });
        let (all, part) = (receiver(0, 0), receiver(3, 0));
        for (receivers, expected) in [
            (
                vec![all.clone(), all.clone(), all.clone(), part.clone()],
                "3 of 4 receivers have everything, 1 has what it wanted (--only),",
            ),
            (
                vec![all.clone(), part.clone(), part.clone()],
                "1 of 3 receivers has everything, 2 have what they wanted (--only),",
            ),
            (vec![part.clone()], "1 of 1 receiver has what it wanted (--only),"),
            (vec![part, receiver(3, 1)], "1 of 2 receivers has what it wanted (--only),"),
            (vec![all, receiver(3, 1)], "all of it is at 1 of 2 receivers"),
        ] {
            assert_eq!(who_has_it(&receivers, "all of it"), expected);
        }
    }

    #[test]
    fn the_average_is_of_those_that_have_not_failed() {
        let mut summary = SendSummary::default();
        summary.progress.seconds = 2.0;
        let got = |run_bytes, failed| filled!(ReceiverProgress { run_bytes, failed });
        summary.progress.receivers = vec![got(10_000_000, 0), got(20_000_000, 0)];
        assert!(in_one_line(&summary, "file").contains(" s (60.0 Mbit/s at each on average); "));
        summary.progress.receivers.push(got(0, 1));
        assert!(
            in_one_line(&summary, "file")
                .contains(" s (60.0 Mbit/s at each that has not failed on average); ")
        );
        summary.progress.receivers.drain(..2);
        assert!(in_one_line(&summary, "file").contains(" s; 0 B sent again"));
    }

    #[test]
    fn what_packets_carried_is_told_beside_what_it_stands_for() {
        let progress = filled!(SendProgress {
            total_bytes: 1 << 30,
            sent_bytes: 1 << 30,
            zero_bytes: 3 << 28,
            receivers: vec![ReceiverProgress::default()]
        });
        let line = in_one_line(&filled!(SendSummary { objects: 1, progress }), "file");
        let expected =
            "; nothing was lost; 256 MiB went out for 1.0 GiB (zeros and what compression saves did not)";
        assert!(line.ends_with(expected), "{line}");
    }

    #[test]
    fn the_table_says_who_and_why() {
        let failures_of_one = vec![("file".to_owned(), "the folder is full".to_owned())];
        let failed = filled!(ReceiverProgress {
            name: "client7".into(),
            address: "[::1]:9".into(),
            failures: failures_of_one,
            failed: 1
        });
        let mut summary = SendSummary::default();
        summary.progress.receivers = vec![ReceiverProgress::default(), failed];
        let text = failures(&summary, "file");
        assert_eq!(text, "receiver  address  file  why not\nclient7   [::1]:9  file  the folder is full\n");
    }

    /// A summary of a thousand receivers, of which `lacking` lack so many files.
    fn thousand(lacking: usize, files: usize) -> SendSummary {
        let receiver = |number: usize| {
            let reason =
                if number.is_multiple_of(3) { "the folder is full" } else { "the receiver left: it is off" };
            let failure = |file: usize| (format!("file{file}"), reason.to_owned());
            let failures: Vec<_> = (0..if number < lacking { files } else { 0 }).map(failure).collect();
            filled!(ReceiverProgress {
                name: format!("lab{number}"),
                failed: failures.len() as u64,
                failures,
                ended_seconds: Some(number as f64 / 10.0),
                command: Some(filled!(CommandOutcome { code: Some(i32::from(number < lacking)) }))
            })
        };
        let mut summary = filled!(SendSummary { objects: files as u64 });
        summary.progress.receivers = (0..1000).map(receiver).collect();
        summary
    }

    #[test]
    fn a_thousand_receivers_have_an_end_that_fits_a_terminal() {
        let few = failures(&thousand(12, 100), "file");
        assert_eq!(few.lines().count(), 1 + 36 + 1, "each has its first ones: {few}");
        assert!((0..12).all(|number| few.contains(&format!("\nlab{number} "))), "{few}");
        let many = failures(&thousand(300, 7), "file");
        let expected = "2060 rows more (--json has all, --report FILE a row for each receiver); 2100 in all at 300 receivers: \
                        1400 times: the receiver left: it is off; 700 times: the folder is full";
        assert_eq!((many.lines().count(), many.lines().last()), (42, Some(expected)));
        let mut worse = thousand(300, 1);
        worse.progress.receivers[299].failed = 7;
        assert!(
            failures(&worse, "file").lines().nth(1).unwrap().starts_with("lab299 "),
            "who lacks most is first"
        );
        let line =
            "988 receivers have everything: half of them after 50.50 s, the slowest (lab999) after 99.90 s";
        assert_eq!(times(&thousand(12, 1).progress.receivers).as_deref(), Some(line));
        assert_eq!(times(&thousand(991, 1).progress.receivers), None, "few are told by the first line");
        let ran = commands(&thousand(12, 1));
        assert_eq!(
            (ran.lines().count(), ran.lines().next()),
            (14, Some("the command was successful at 988 of 1000 receivers"))
        );
        let failed = commands(&thousand(1000, 1));
        assert_eq!(
            (failed.lines().count(), failed.lines().last()),
            (43, Some("960 failures more (--json and --report FILE have all)"))
        );
        assert_eq!(commands(&thousand(0, 1)).lines().count(), 1);
    }

    #[test]
    fn the_line_that_moves_counts_a_thousand_receivers_before_it_names_two() {
        let mut progress = thousand(3, 1).progress;
        progress.total_bytes = 1000;
        for (number, receiver) in (1_u64..).zip(&mut progress.receivers) {
            receiver.name = format!("{}{number}", "a-long-name-".repeat(10));
            (receiver.received_bytes, receiver.is_connected) = (number, true);
        }
        let remark = remark(&progress);
        assert!(
            remark.starts_with("0 of 1000 receivers done, 0.0 % sent again; slowest: a-long-name-"),
            "{remark}"
        );
        assert!(remark.len() < 400, "{remark}");
    }

    #[test]
    fn pieces_of_a_stream_are_counted_and_not_listed() {
        let failure = |number: usize, why: &str| (format!(".treecast-piece-{number}"), why.to_owned());
        let mut failures_of_one: Vec<_> =
            (0..20).map(|number| failure(number, "the receiver left")).collect();
        failures_of_one.push(("2 files more".to_owned(), "the folder is full".to_owned()));
        let failed = filled!(ReceiverProgress { name: "head".into(), failures: failures_of_one, failed: 21 });
        let mut summary = filled!(SendSummary { objects: 31 });
        summary.progress.receivers =
            vec![failed, filled!(ReceiverProgress { name: "late".into(), objects_missed: 3 })];
        let text = failures(&summary, PIECE);
        let rows: Vec<_> = text.lines().skip(1).collect();
        assert_eq!(
            rows,
            [
                "head      -        20 of 31 pieces  the receiver left",
                "head      -        2 of 31 pieces   the folder is full",
                "late      -        3 of 31 pieces   over when it came: the beginning of a stream is kept with --spool",
            ]
        );
    }

    #[test]
    fn who_came_late_to_a_feed_does_not_have_all() {
        let late = filled!(ReceiverProgress { name: "late".into(), objects_missed: 17 });
        let mut summary = filled!(SendSummary { objects: 20 });
        summary.progress.receivers = vec![ReceiverProgress::default(), late];
        let line = in_one_line(&summary, "file");
        assert!(line.contains("all of it is at 1 of 2 receivers"), "{line}");
        let text = failures(&summary, "file");
        assert!(text.contains("late") && text.contains("17 of 20 files  over when it came"), "{text}");
    }
}
