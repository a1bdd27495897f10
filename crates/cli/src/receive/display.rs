//! The display of `treecast receive`: a bar, each complete file, and the totals.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use treecast::unstable::reason::Advised;
use treecast::unstable::watch::{
    Hindrance, Lack, ObjectKind, ReceiveEvent, ReceiveProgress, ReceiveSummary, Shortage, Timed, in_a_row,
};
use treecast_host::clock::WallTime;

use crate::{
    advice::advised,
    arguments::counted,
    figures::{self, bytes, left, of_whole, percent, rate},
    moving_line::{Moment, MovingLine},
    output::Lines,
};

pub(super) struct Display {
    json: bool,
    /// Whether standard output has the files' bytes, so that all lines go to standard error.
    is_outlet: bool,
    /// Whether nobody knows how much will come.
    is_feed: bool,
    started: Instant,
    line: MovingLine,
    lines: Lines,
    /// The names of files that have begun and have not ended. A file that begins again, with another sender of the session, counts once.
    under_way: BTreeSet<String>,
    /// The largest file that has begun since the last one of its kind was complete, with its bytes. In a feed, the newest one.
    current: Option<(String, u64)>,
}

impl Display {
    pub fn new(json: bool, is_outlet: bool, is_feed: bool) -> Self {
        let line = MovingLine::new(json, "looking for the sender");
        Self {
            json,
            is_outlet,
            is_feed,
            started: Instant::now(),
            line,
            lines: Lines::default(),
            under_way: BTreeSet::new(),
            current: None,
        }
    }

    pub fn show(&mut self, event: &ReceiveEvent) {
        if self.json {
            return self.show_as_json(event);
        }
        if let ReceiveEvent::Received { name, .. } | ReceiveEvent::Failed { name, .. } = event {
            self.under_way.remove(name);
            self.current.take_if(|(current, _)| current == name && !self.is_feed);
        }
        match event {
            ReceiveEvent::Warning(line) => self.line(&advised(line)),
            ReceiveEvent::Unreachable { addresses, reason, left } => {
                self.line(&unreachable(&in_a_row(addresses), reason, *left));
            }
            ReceiveEvent::Joined { sender, interface } => {
                self.line(&format!("joined the session of {sender} on {interface}"));
                self.line.wait("waiting for the first file".to_owned());
            }
            ReceiveEvent::Announced { name, bytes } => {
                self.under_way.insert(name.clone());
                if self.is_feed || self.current.as_ref().is_none_or(|(_, size)| size < bytes) {
                    self.current = Some((name.clone(), *bytes));
                }
            }
            ReceiveEvent::Ignored { name, exists: true } => {
                self.line(&format!("{name}: is there already, and stays"));
            }
            ReceiveEvent::OlderVersion { name, bytes: copied, why_not } => {
                self.line(&older_version(name, *copied, why_not.as_ref()));
            }
            ReceiveEvent::Full(shortage) => self.line(&full(shortage)),
            ReceiveEvent::Room => self.line("nothing waits for room any more"),
            ReceiveEvent::Moved { group, address } => {
                let at = address.map(|address| format!(" at {address}")).unwrap_or_default();
                self.line(&format!("moved to group {group}{at}: {}", why_moved(*group)));
            }
            ReceiveEvent::Progress(progress) if progress.objects > 0 => self.move_bar(progress),
            ReceiveEvent::Progress(ReceiveProgress { hindrance: Some(Hindrance::Away(seconds)), .. }) => {
                self.line.wait(away(*seconds));
            }
            // Files that are not wanted are counted at the end.
            ReceiveEvent::Progress(_) | ReceiveEvent::Ignored { exists: false, .. } => {}
            // A stream has thousands of pieces, and the first one that fails ends the session.
            ReceiveEvent::Received { .. } | ReceiveEvent::Failed { .. } if self.is_outlet => {}
            ReceiveEvent::Received { name, kind, bytes } => match kind {
                ObjectKind::File => self.line(&format!("{name}: {}, verified", figures::bytes(*bytes))),
                ObjectKind::Link => self.line(&format!("{name}: a symbolic link")),
                ObjectKind::Folder | ObjectKind::Index => {}
            },
            ReceiveEvent::Failed { name, reason, .. } => {
                self.line(&format!("{name}: failed: {}", advised(reason)));
            }
            _ => {}
        }
    }

    pub fn finish(&mut self, summary: &ReceiveSummary) {
        self.line.finish();
        if self.json {
            return self.lines.end(&ReceiveEvent::Done(summary.into()));
        }
        let unit = if self.is_outlet { "piece" } else { "file" };
        let line = in_one_line(summary, self.under_way.len(), unit);
        for line in [Some(line), by_difference(summary)].into_iter().flatten() {
            if self.is_outlet { remark!("{line}") } else { say!("{line}") }
        }
    }

    fn line(&self, line: &str) {
        self.line.line(line);
    }

    fn move_bar(&mut self, progress: &ReceiveProgress) {
        self.line.show(&Moment {
            done_bytes: progress.received_bytes,
            total_bytes: (!self.is_feed).then_some(progress.announced_bytes),
            figures: self.figures(progress),
            remark: self.remark(progress),
        });
    }

    /// Says how much has come, and how fast more comes. A feed has no end that anybody knows.
    fn figures(&self, progress: &ReceiveProgress) -> String {
        let (received, now) = (bytes(progress.received_bytes), rate(progress.now_bps));
        if self.is_feed {
            return format!("{}, {received}, {now}", counted(progress.objects_done as usize, "file"));
        }
        let of_all = of_whole(progress.received_bytes, progress.announced_bytes);
        format!("{of_all}, {now}, {}", left(progress.seconds_left))
    }

    /// Says how many files are done, what was sent again, and what delays the session.
    fn remark(&self, progress: &ReceiveProgress) -> String {
        // A carousel has no retransmissions: blocks that come again were there already.
        let again = progress.retransmitted_bytes.max(progress.duplicate_bytes);
        let share = percent((again as f64 / progress.received_bytes.max(1) as f64).min(1.0));
        let counts = match self.is_feed {
            true => format!(
                "{} under way",
                progress.objects.saturating_sub(progress.objects_done + progress.objects_failed)
            ),
            false => {
                format!("{} of {} done", progress.objects_done, counted(progress.objects as usize, "file"))
            }
        };
        let what = match (progress.hindrance, &self.current) {
            (Some(Hindrance::Away(seconds)), _) => return format!("{counts}; {}", away(seconds)),
            (Some(Hindrance::Silent(seconds)), _) => format!("; the sender is silent for {seconds:.0} s"),
            (Some(why), _) => format!("; {why}"),
            (None, Some((name, _))) => format!("; {name}"),
            (None, None) => String::new(),
        };
        format!("{counts}, {share} came again{what}")
    }

    fn show_as_json(&mut self, event: &ReceiveEvent) {
        if matches!(event, ReceiveEvent::Idle) {
            return self.lines.show();
        }
        // There may be thousands of these lines in a second, so they are written together.
        let waits = matches!(event, ReceiveEvent::Announced { .. } | ReceiveEvent::Received { .. });
        let is_timed = waits || matches!(event, ReceiveEvent::Failed { .. });
        let seconds = is_timed.then(|| self.started.elapsed().as_secs_f64());
        self.lines.add(&Timed { event, seconds }, waits);
    }
}

/// Says since when the sender has been away, for so many seconds.
fn away(seconds: f64) -> String {
    let since = SystemTime::now().checked_sub(Duration::try_from_secs_f64(seconds).unwrap_or_default());
    let since = since.and_then(|since| since.duration_since(UNIX_EPOCH).ok());
    let since = since.and_then(|since| WallTime::local(since.as_secs())).map(|time| time.to_string());
    // Without the day.
    let since = since.as_deref().and_then(|time| time.get(11..)).unwrap_or("?");
    format!("the sender has been away since {since} ({})", figures::time(seconds))
}

/// Says what is full, which file waits for room, and how long it waits.
fn full(shortage: &Shortage) -> String {
    let Shortage { name, folder, part, part_bytes, needed, free, lacks, left } = shortage;
    let (folder, needed, free, left) = (folder.display(), bytes(*needed), bytes(*free), left.as_secs());
    let what = match lacks {
        Lack::Bytes => format!("folder {folder} is full: {name} needs {needed} more and {free} are free"),
        Lack::Inodes => format!(
            "folder {folder} has no room for another file, {name}: its file system has no inode left; remove files there"
        ),
        Lack::Quota => format!(
            "folder {folder} takes no more, though {free} are free (a quota?): {name} needs {needed} more"
        ),
    };
    let there = part.as_ref().map(|path| format!("; {} of it are in {}", bytes(*part_bytes), path.display()));
    let there = there.unwrap_or_default();
    format!("{what}{there}; it waits for room for {left} s (--wait-for-space)")
}

/// Says why the receiver moves to this group.
fn why_moved(group: u8) -> &'static str {
    if group == 0 { "the fastest" } else { "it brings what is missing at a lower rate" }
}

/// The line that is shown while the sender cannot be reached.
fn unreachable(addresses: &str, reason: &str, left: Duration) -> String {
    let tried = match left.as_secs() {
        0 => "it is tried once more".to_owned(),
        seconds => format!("it is tried for {seconds} s more"),
    };
    format!(
        "cannot reach the sender at {addresses} yet ({reason}): {tried}; see that `treecast send` runs and that its port is open"
    )
}

/// The summary in one line. Its bytes are those of files that are there. `cut_short` files are neither there nor failed.
fn in_one_line(summary: &ReceiveSummary, cut_short: usize, unit: &str) -> String {
    let (received, failed) = ((summary.received + summary.others) as usize, summary.failed as usize);
    let progress = &summary.progress;
    let events = progress.retransmitted_bytes
        + progress.duplicate_blocks
        + progress.dropped_packets
        + progress.decoded_blocks
        + progress.wrong_chunks;
    let losses = match events {
        0 if summary.is_complete() && summary.missed > 0 => {
            "nothing was lost after this receiver came".to_owned()
        }
        0 if summary.is_complete() => "nothing was lost".to_owned(),
        _ => format!(
            "{} sent again, {} twice, {} dropped; {failed} failed",
            bytes(progress.retransmitted_bytes),
            counted(progress.duplicate_blocks as usize, "block"),
            counted(progress.dropped_packets as usize, "packet"),
        ),
    };
    let mut line = format!(
        "{}{}, {} in {:.2} s; {losses}",
        counted(received, unit),
        match summary.others {
            0 => String::new(),
            others => format!(" ({others} of them folders and links)"),
        },
        bytes(summary.received_bytes),
        progress.seconds,
    );
    if summary.missed > 0 {
        line += &format!(", {} had ended before", counted(summary.missed as usize, unit));
    }
    if summary.not_wanted > 0 {
        line += &format!(", {} not wanted", summary.not_wanted);
    }
    let left = progress.kept_bytes.saturating_sub(progress.older_bytes.unwrap_or(0));
    if left > 0 {
        line += &format!(", {} there from before", bytes(left));
    }
    if cut_short > 0 {
        line += &format!(", {cut_short} not complete");
    }
    line
}

/// Says what was fetched and what was there of objects that are sent by difference. `None` if there are none.
fn by_difference(summary: &ReceiveSummary) -> Option<String> {
    let progress = &summary.progress;
    let older = progress.older_bytes?;
    let fetched = bytes(progress.received_bytes.saturating_sub(progress.kept_bytes));
    Some(match older {
        0 => format!("by difference: {fetched} fetched, nothing was in older versions"),
        older => format!("by difference: {fetched} fetched, {} copied from older versions", bytes(older)),
    })
}

/// Says what an older version is good for.
fn older_version(name: &str, copied: u64, why_not: Option<&Advised>) -> String {
    match why_not {
        None if copied == 0 => {
            format!("{name}: nothing of the older version can be used (--old): all of it is fetched")
        }
        None => format!("{name}: {} are in the older version", bytes(copied)),
        Some(why) if copied == 0 => {
            format!("{name}: there is no older version to use ({}): all of it is fetched", advised(why))
        }
        Some(why) => format!(
            "{name}: {} are in the older version, which ended early ({})",
            bytes(copied),
            advised(why)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn announced(name: &str, bytes: u64) -> ReceiveEvent {
        ReceiveEvent::Announced { name: name.into(), bytes }
    }

    #[test]
    fn the_largest_file_that_is_not_complete_is_named() {
        let mut display = Display::new(false, false, false);
        let progress = filled!(ReceiveProgress { objects: 3, objects_done: 1 });
        for (name, bytes) in [("image", 9000), ("note", 5), ("empty", 0)] {
            display.show(&announced(name, bytes));
        }
        assert_eq!(display.remark(&progress), "1 of 3 files done, 0.0 % came again; image");
        display.show(&ReceiveEvent::Received { name: "image".into(), kind: ObjectKind::File, bytes: 9000 });
        assert_eq!(display.remark(&progress), "1 of 3 files done, 0.0 % came again");
    }

    #[test]
    fn a_sender_that_is_away_is_told_of_in_80_columns() {
        let mut display = Display::new(false, false, false);
        display.show(&announced("image", 9000));
        let hindrance = Some(Hindrance::Away(71.2));
        let progress = filled!(ReceiveProgress { objects: 3, objects_done: 1, hindrance });
        let line = display.remark(&progress);
        assert!(
            line.starts_with("1 of 3 files done; the sender has been away since ")
                && line.ends_with(" (1:12)"),
            "{line}"
        );
        assert!(line.len() < 70, "{line}");
    }

    #[test]
    fn a_feed_has_counts_and_its_newest_file_in_place_of_a_share() {
        let mut display = Display::new(false, false, true);
        for (name, bytes) in [("image", 9000), ("radar/7", 5)] {
            display.show(&announced(name, bytes));
        }
        display.show(&ReceiveEvent::Received { name: "radar/7".into(), kind: ObjectKind::File, bytes: 5 });
        let progress = filled!(ReceiveProgress {
            objects: 14,
            objects_done: 12,
            objects_failed: 1,
            received_bytes: 3 << 19,
            announced_bytes: 1 << 30,
            now_bps: Some(94_100_000)
        });
        assert_eq!(display.figures(&progress), "12 files, 1.5 MiB, 94.1 Mbit/s");
        assert_eq!(display.remark(&progress), "1 under way, 0.0 % came again; radar/7");
    }

    #[test]
    fn what_a_carousel_sent_in_vain_came_again() {
        let display = Display::new(false, false, false);
        let progress =
            filled!(ReceiveProgress { objects: 1, received_bytes: 10_000, duplicate_bytes: 5_000 });
        assert_eq!(display.remark(&progress), "0 of 1 file done, 50 % came again");
    }

    #[test]
    fn only_what_is_there_counts() {
        let mut summary = ReceiveSummary::default();
        summary.progress.received_bytes = 900;
        (summary.failed, summary.not_wanted) = (1, 7);
        let line = in_one_line(&summary, 1, "file");
        assert!(
            line.starts_with("0 files, 0 B in ")
                && line.ends_with("; 1 failed, 7 not wanted, 1 not complete"),
            "{line}"
        );
        (summary.received, summary.received_bytes) = (1, 500);
        let line = in_one_line(&summary, 0, "file");
        assert!(
            line.starts_with("1 file, 500 B in ") && line.ends_with("; 1 failed, 7 not wanted"),
            "{line}"
        );
    }

    #[test]
    fn the_last_line_counts_one_as_one() {
        let mut summary = filled!(ReceiveSummary { received: 1, received_bytes: 5 });
        summary.progress.duplicate_blocks = 1;
        let one = "1 file, 5 B in 0.00 s; 0 B sent again, 1 block twice, 0 packets dropped; 0 failed";
        assert_eq!(in_one_line(&summary, 0, "file"), one);
        summary.progress.duplicate_blocks = 0;
        assert_eq!(in_one_line(&summary, 0, "file"), "1 file, 5 B in 0.00 s; nothing was lost");
        summary.missed = 3;
        let late =
            "1 file, 5 B in 0.00 s; nothing was lost after this receiver came, 3 pieces had ended before";
        assert_eq!(in_one_line(&summary, 0, "piece"), late.replacen("file", "piece", 1));
        summary.missed = 0;
        summary.progress.duplicate_blocks = 1;
        (summary.received, summary.others, summary.received_bytes) = (4, 5, 7 << 20);
        summary.progress.retransmitted_bytes = 3 << 19;
        let set = "9 files (5 of them folders and links), 7.0 MiB in 0.00 s; 1.5 MiB sent again, 1 block twice, 0 packets \
                   dropped; 0 failed";
        assert_eq!(in_one_line(&summary, 0, "file"), set);
    }

    #[test]
    fn what_was_fetched_and_what_was_there_is_told_of_updates_alone() {
        let mut summary = ReceiveSummary::default();
        (summary.progress.received_bytes, summary.progress.kept_bytes) = (11 << 20, 8 << 20);
        assert_eq!(by_difference(&summary), None);
        assert!(in_one_line(&summary, 0, "file").ends_with(", 8.0 MiB there from before"));
        summary.progress.older_bytes = Some(8 << 20);
        let line = "by difference: 3.0 MiB fetched, 8.0 MiB copied from older versions";
        assert_eq!(by_difference(&summary).as_deref(), Some(line));
        assert!(in_one_line(&summary, 0, "file").ends_with("; nothing was lost"));
        summary.progress.older_bytes = Some(0);
        assert!(by_difference(&summary).unwrap().ends_with("nothing was in older versions"));
    }

    #[test]
    fn no_time_is_left_is_not_said_as_a_time() {
        let said = |left| unreachable("[::1]:1", "refused", Duration::from_millis(left));
        assert!(said(20_000).contains("for 20 s more") && said(300).contains("once more"), "{}", said(300));
    }
}
