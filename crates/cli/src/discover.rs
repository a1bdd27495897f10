//! `treecast discover`: shows the sessions that are announced on the network.

use std::{collections::BTreeMap, process::ExitCode, time::Duration};

use serde_json::{Value, json};
use treecast::unstable::{
    Stop,
    discovery::{self, Announcement, Audience, ForStanding, Interfaces, News, Refusal},
};
use treecast_host::clock::since_1970;

use crate::{
    Outcome,
    arguments::{self, counted},
    figures, output,
};

/// Show the sessions that are announced on this network.
///
/// Asks on the links of this host by mDNS, and listens for SAP, which comes from farther away once in five minutes. Shows
/// sessions of which a sender has signed the announcement (`treecast send --announce`); what is forged, replayed or expired is
/// counted and not shown. The exit code is 0, also if there is none; 3 if some announcements cannot be heard, because a socket
/// could not be opened; 1 if none can.
#[derive(clap::Args)]
pub struct Args {
    /// Network interface to listen on; may be given several times [default: all that are up]
    #[arg(long, value_name = "IF")]
    interface: Vec<String>,
    /// Listen for this long. In seconds or with a unit (90, 90s, 15m)
    #[arg(long, value_name = "SECONDS", default_value_t = 3, value_parser = arguments::seconds, allow_hyphen_values = true)]
    time: u64,
    /// One JSON event a line on standard output
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> Outcome {
    let stop = Stop::on_signals()?;
    let interfaces = Interfaces::named(&args.interface)?;
    let (mut shown, mut is_deaf) = (0, false);
    let mut on_news = |news: News| {
        shown += usize::from(matches!(news, News::Announced(_)));
        is_deaf |= matches!(news, News::Problem(_));
        match args.json {
            true => say!("{}", as_json(&news)),
            false => as_text(&news).into_iter().for_each(|text| say!("{text}")),
        }
    };
    let time = Duration::from_secs(args.time);
    let refused = discovery::listen(&interfaces, time, &stop, &mut on_news)?;
    match args.json {
        true => {
            let refused: BTreeMap<&str, u64> =
                refused.iter().map(|(reason, count)| (reason.words(), *count)).collect();
            say!("{}", json!({"event": "discovered", "sessions": shown, "refused": refused}));
        }
        false => {
            if shown == 0 && is_deaf {
                remark!("no session is announced as far as can be heard here");
            } else if shown == 0 {
                remark!("no session is announced here (`treecast send --announce` does it)");
            }
            // A packet that is only late looks like one that somebody has sent again.
            for (reason, count) in refused.iter().filter(|(reason, _)| **reason != Refusal::Replayed) {
                remark!("{} refused: {}", counted(*count as usize, "announcement"), reason.words());
            }
        }
    }
    Ok(if is_deaf { ExitCode::from(3) } else { ExitCode::SUCCESS })
}

/// A session for a person: what it is, and how it is received. `None` where nothing is new.
fn as_text(news: &News) -> Option<String> {
    let announcement = match news {
        News::Announced(announcement) => announcement,
        News::Renewed(_) => return None,
        News::Withdrawn(announcement) => {
            return Some(output::in_one_line(&format!("{} is over", announcement.name())));
        }
        News::Problem(line) => {
            remark!("treecast: cannot hear all announcements: {line}");
            return None;
        }
    };
    let line = format!(
        "{}: {}, {}, by {}",
        announcement.name(),
        counted(announcement.objects as usize, "file"),
        figures::bytes(announcement.bytes),
        sender(announcement)
    );
    let line = output::in_one_line(&line);
    Some(match announcement.audience {
        Audience { people: true, .. } => format!("{line}\n    treecast receive {}", announcement.ticket()),
        audience => format!("{line}\n    for {audience}"),
    })
}

/// The sender's key in its text form.
fn sender(announcement: &Announcement) -> String {
    discovery::sender(announcement).map(|key| key.to_string()).unwrap_or_default()
}

/// The standing receivers that a session is for, in a word.
fn standing(announcement: &Announcement) -> &'static str {
    match announcement.audience.standing {
        ForStanding::None => "none",
        ForStanding::Any => "any",
        ForStanding::Named { .. } => "named",
    }
}

fn as_json(news: &News) -> Value {
    let (event, announcement) = match news {
        News::Announced(announcement) => ("announced", announcement),
        News::Renewed(announcement) => ("renewed", announcement),
        News::Withdrawn(announcement) => ("withdrawn", announcement),
        News::Problem(line) => return json!({"event": "problem", "text": line}),
    };
    let age = since_1970().saturating_sub(Duration::from_millis(announcement.number));
    json!({
        "event": event,
        "name": announcement.name(),
        "session": format!("{:08x}", announcement.ticket().session.0),
        "key": sender(announcement),
        "for": {"people": announcement.audience.people, "standing": standing(announcement)},
        "objects": announcement.objects,
        "bytes": announcement.bytes,
        "number": announcement.number,
        "seconds_left": u64::from(announcement.valid_seconds).saturating_sub(age.as_secs()),
        "ticket": announcement.ticket().to_string(),
    })
}
