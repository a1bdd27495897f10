//! `treecast status --receivers`: the receivers of senders that run.

use clap::ValueEnum;
use serde_json::{Value, json};
use treecast::unstable::{
    status::{Found, Progress, Sending, Snapshot},
    watch::{ReceiverProgress, ReceiverState},
};

use super::orders;
use crate::{
    output,
    roster::{self, Order},
};

/// The number of rows of a table. With its other lines, it fits a terminal of 24 lines.
const ROWS: usize = 20;

/// What of the receivers is shown, and how.
#[derive(clap::Args)]
pub(super) struct ListArgs {
    /// With --receivers, the order: worst, name, state, progress, rate, loss, left (the time) or silent. Each begins with the worst;
    /// -KEY is the other direction [default: worst]
    #[arg(long, value_name = "KEY", value_parser = Order::parse, requires = "receivers", allow_hyphen_values = true)]
    sort: Option<Order>,
    /// With --receivers, turn the order round
    #[arg(long, requires = "receivers")]
    reverse: bool,
    /// With --receivers, show only those in one of these states, with commas between them
    #[arg(long, value_name = "STATE,...", value_enum, value_delimiter = ',', requires = "receivers")]
    only: Vec<Only>,
    /// With --receivers, show only those with PART in their names
    #[arg(long, value_name = "PART", requires = "receivers", allow_hyphen_values = true)]
    name: Option<String>,
    /// With --receivers, the most rows for each sender, or all [default: 20; with --csv and --json all]
    #[arg(long, value_name = "N|all", value_parser = parse_rows, requires = "receivers", allow_hyphen_values = true)]
    rows: Option<usize>,
    /// With --receivers, comma-separated values, with a heading
    #[arg(long, requires = "receivers", conflicts_with_all = ["json", "watch"])]
    csv: bool,
}

/// The states by which receivers are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Only {
    /// There, with nothing yet
    Waiting,
    /// With a part of what they want
    Receiving,
    /// With everything that they want
    Done,
    /// Ended without some file
    Failed,
    /// Left before they had everything
    Gone,
    /// No UDP packet reaches them: everything goes there over TCP, whatever their state
    Tcp,
}

impl Only {
    fn takes(self, receiver: &ReceiverProgress) -> bool {
        match self {
            Self::Waiting => receiver.state() == ReceiverState::Waiting,
            Self::Receiving => receiver.state() == ReceiverState::Receiving,
            Self::Done => receiver.state() == ReceiverState::Done,
            Self::Failed => receiver.state() == ReceiverState::Failed,
            Self::Gone => receiver.state() == ReceiverState::Gone,
            Self::Tcp => receiver.hears_nothing,
        }
    }
}

fn parse_rows(text: &str) -> Result<usize, &'static str> {
    let rows = if text == "all" { Some(usize::MAX) } else { text.parse().ok().filter(|rows| *rows > 0) };
    rows.ok_or("expected a whole number of 1 or more, or all")
}

/// The rows of one sender.
struct List<'a> {
    snapshot: &'a Snapshot,
    sending: &'a Sending,
    receivers: Vec<&'a ReceiverProgress>,
    /// The number of receivers that fit the filters, and are beyond the last row.
    more: usize,
    /// The number of receivers that do not fit the filters.
    others: usize,
}

/// Writes the receivers of the senders that were found, or of the one that is named.
///
/// # Errors
/// One line, if no sender has that name.
pub(super) fn list(
    found: &[Found],
    session: Option<&str>,
    args: &ListArgs,
    as_json: bool,
) -> Result<String, String> {
    let found = match session {
        Some(session) => vec![orders::named(found, session)?],
        None => found.iter().collect(),
    };
    let is_whole = as_json || args.csv;
    let lists: Vec<_> = found
        .iter()
        .filter_map(|found| found.snapshot.as_ref())
        .filter_map(|snapshot| args.list(snapshot, is_whole))
        .collect();
    let silent: Vec<u32> =
        found.iter().filter(|found| found.snapshot.is_none()).map(|found| found.pid).collect();
    if as_json {
        let silent = silent.iter().map(|pid| json!({"pid": pid, "answers": false}));
        let sessions: Vec<_> = lists.iter().map(List::as_json).chain(silent).collect();
        return Ok(format!("{}\n", json!({"event": "receivers", "sessions": sessions})));
    }
    silent.iter().for_each(|pid| remark!("treecast: pid {pid} does not answer: is it stopped?"));
    if args.csv {
        return Ok(as_csv(&lists));
    }
    match lists.is_empty() {
        true => Ok("no sender runs here\n".to_owned()),
        false => Ok(lists.iter().map(List::as_text).collect()),
    }
}

/// Comma-separated values. What a sender does not list is told on standard error.
fn as_csv(lists: &[List<'_>]) -> String {
    let mut csv = roster::CsvList::new();
    for List { snapshot, sending, receivers, .. } in lists {
        receivers.iter().for_each(|receiver| csv.add(&snapshot.session, receiver));
        if sending.receivers_not_shown > 0 {
            let (session, count) = (&snapshot.session, sending.receivers_not_shown);
            remark!(
                "treecast: {session}: {count} more receivers are not listed, the best ones; send --report FILE.csv has all"
            );
        }
    }
    csv.finish()
}

impl ListArgs {
    /// The rows of a sender. `None` for a process that is none. With `is_whole`, they are all rows, unless a number is asked for.
    fn list<'a>(&self, snapshot: &'a Snapshot, is_whole: bool) -> Option<List<'a>> {
        let Progress::Send(sending) = &snapshot.progress else { return None };
        let all = &sending.progress.receivers;
        let fits = |receiver: &&ReceiverProgress| {
            let has_state = self.only.is_empty() || self.only.iter().any(|only| only.takes(receiver));
            has_state && self.name.as_ref().is_none_or(|part| receiver.name.contains(part))
        };
        let mut receivers: Vec<_> = all.iter().filter(fits).collect();
        self.sort.unwrap_or_default().turned(self.reverse).sort(&mut receivers);
        let others = all.len() - receivers.len();
        let rows = self.rows.unwrap_or(if is_whole { usize::MAX } else { ROWS });
        let more = receivers.len().saturating_sub(rows);
        receivers.truncate(rows);
        Some(List { snapshot, sending, receivers, more, others })
    }
}

impl List<'_> {
    /// The number of all receivers of the sender.
    fn all(&self) -> usize {
        self.sending.progress.receivers.len() + self.sending.receivers_not_shown as usize
    }

    fn as_text(&self) -> String {
        let Snapshot { pid, session, .. } = self.snapshot;
        let counts = roster::counts(self.all(), &self.sending.sums);
        let mut text =
            output::in_one_line(&format!("send {session}  pid {pid}  {}", self.unknown().unwrap_or(&counts)))
                + "\n";
        if !self.receivers.is_empty() {
            text += &roster::as_table(&self.receivers);
        }
        let hidden = [
            (self.more, "more (--rows all)"),
            (self.others, "that do not fit --only or --name"),
            (self.sending.receivers_not_shown as usize, "better ones that the sender does not list"),
        ];
        let hidden = hidden.iter().filter(|(count, _)| *count > 0);
        let hidden: Vec<_> = hidden.map(|(count, what)| format!("{count} {what}")).collect();
        match hidden.is_empty() {
            true => text,
            false => format!("{text}not shown: {}\n", hidden.join(", ")),
        }
    }

    /// Why the sender knows no receivers one by one. `None` if it does.
    fn unknown(&self) -> Option<&'static str> {
        if self.sending.progress.local.is_some() {
            return Some("receivers are in local groups, and their sender does not know them one by one");
        }
        let is_carousel = self.snapshot.repair == "carousel";
        is_carousel.then_some("a carousel, whose sender does not know its receivers")
    }

    fn as_json(&self) -> Value {
        let Sending { sums, receivers_not_shown, .. } = self.sending;
        let session = &self.snapshot.session;
        json!({
            "pid": self.snapshot.pid,
            "answers": true,
            "session": session,
            "receivers_waiting": sums.receivers_waiting,
            "receivers_receiving": sums.receivers_receiving,
            "receivers_done": sums.receivers_done,
            "receivers_failed": sums.receivers_failed,
            "receivers_gone": sums.receivers_gone,
            "receivers_on_tcp": sums.receivers_on_tcp,
            "receivers": self.receivers.iter().map(|one| roster::record(session, one)).collect::<Vec<_>>(),
            "receivers_left_out": self.more + self.others,
            "receivers_not_shown": receivers_not_shown,
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use treecast::unstable::{status::Phase, watch::SendProgress};

    use super::*;
    use crate::roster::tests::thousand;

    #[derive(Parser)]
    struct Parsed {
        #[command(flatten)]
        list: ListArgs,
        #[arg(long)]
        receivers: bool,
        #[arg(long)]
        json: bool,
        #[arg(long)]
        watch: bool,
    }

    /// The answer of a sender with many receivers.
    fn found(receivers: Vec<ReceiverProgress>) -> Found {
        let mut snapshot = Snapshot { pid: 7, session: "0000feed".into(), ..Snapshot::default() };
        snapshot.note_send(&filled!(SendProgress { receivers }));
        assert_eq!(snapshot.phase, Phase::Running);
        Found { pid: 7, snapshot: Some(snapshot) }
    }

    fn listed(found: &[Found], arguments: &str) -> String {
        let all = ["treecast", "--receivers"].into_iter().chain(arguments.split_whitespace());
        let args = Parsed::try_parse_from(all).unwrap_or_else(|error| panic!("{error}"));
        list(found, None, &args.list, args.json).unwrap()
    }

    fn names(text: &str) -> Vec<&str> {
        text.lines()
            .filter_map(|line| line.split(' ').next())
            .filter(|name| name.starts_with("lab"))
            .collect()
    }

    #[test]
    fn the_worst_of_a_thousand_fit_a_terminal_and_the_others_are_counted() {
        let found = [found(thousand())];
        let text = listed(&found, "");
        let lines: Vec<_> = text.lines().collect();
        assert!(lines.len() < 24, "{text}");
        let head =
            "send 0000feed  pid 7  1000 receivers: 10 failed, 10 gone, 1 waiting, 479 receiving, 500 done";
        assert_eq!(lines[0], head);
        assert_eq!(lines.last(), Some(&"not shown: 980 more (--rows all)"));
        assert_eq!(
            names(&text)[..11].join(" "),
            "lab7 lab107 lab207 lab307 lab407 lab507 lab607 lab707 lab807 lab907 lab8"
        );
        assert_eq!(names(&listed(&found, "--rows all")).len(), 1000);
        let text = listed(&found, "--only failed,tcp --sort -name --rows 3");
        assert_eq!(names(&text), ["lab907", "lab807", "lab707"]);
        assert!(
            text.ends_with("not shown: 7 more (--rows all), 990 that do not fit --only or --name\n"),
            "{text}"
        );
        assert_eq!(names(&listed(&found, "--name 99 --sort name --reverse"))[..2], ["lab999", "lab998"]);
    }

    #[test]
    fn programs_get_all_rows() {
        let found = [found(thousand())];
        let text = listed(&found, "--csv --sort name");
        let rows: Vec<_> = text.split_terminator("\r\n").collect();
        assert_eq!((rows.len(), rows[1].starts_with("0000feed,lab0,waiting,0.0,")), (1001, true));
        let told: Value = serde_json::from_str(&listed(&found, "--json --only gone")).unwrap();
        let session = &told["sessions"][0];
        assert_eq!(session["receivers"].as_array().unwrap().len(), 10);
        assert_eq!(
            (&session["receivers"][0]["state"], &session["receivers_left_out"]),
            (&"gone".into(), &990.into())
        );
        assert_eq!((&session["receivers_done"], &session["receivers_not_shown"]), (&500.into(), &0.into()));
    }

    #[test]
    fn what_a_sender_does_not_list_is_counted() {
        let twice = thousand().into_iter().chain(thousand()).collect();
        let text = listed(&[found(twice)], "--rows 5");
        assert!(text.starts_with("send 0000feed  pid 7  2000 receivers: 20 failed, 20 gone, "), "{text}");
        assert!(
            text.ends_with(
                "not shown: 995 more (--rows all), 1000 better ones that the sender does not list\n"
            )
        );
        assert_eq!(listed(&[], ""), "no sender runs here\n");
    }

    #[test]
    fn a_number_of_rows_is_a_number_or_all() {
        assert_eq!((parse_rows("7"), parse_rows("all")), (Ok(7), Ok(usize::MAX)));
        assert!(["", "0", "-1", "none"].iter().all(|wrong| parse_rows(wrong).is_err()));
    }
}
