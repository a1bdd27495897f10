//! Limits warnings to a number that a person, a terminal and a log can take, because events on a network may
//! cause any number of them.

use std::time::Duration;

use treecast_proto::Instant;

/// Something that the daemon tells while it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// The daemon serves its interfaces and has sent the first queries.
    Ready,
    /// A warning, in one line.
    Warning(String),
}

/// The most warnings in a [`PERIOD`].
const MAX_WARNINGS: u32 = 20;

const PERIOD: Duration = Duration::from_secs(60);

/// Passes notices on. Warnings beyond [`MAX_WARNINGS`] in a minute are only counted.
pub struct Notices<'a> {
    notify: &'a mut dyn FnMut(Notice),
    period_ends: Instant,
    warnings: u32,
    is_ready: bool,
}

impl<'a> Notices<'a> {
    pub fn new(notify: &'a mut dyn FnMut(Notice)) -> Self {
        Self { notify, period_ends: Instant::ZERO, warnings: 0, is_ready: false }
    }

    /// Passes on that the daemon is ready, once.
    pub fn ready(&mut self) {
        if !std::mem::replace(&mut self.is_ready, true) {
            (self.notify)(Notice::Ready);
        }
    }

    pub fn warn(&mut self, now: Instant, warning: String) {
        if now >= self.period_ends {
            let unsaid = self.warnings.saturating_sub(MAX_WARNINGS);
            if unsaid > 0 {
                (self.notify)(Notice::Warning(format!("{unsaid} more warnings in the last minute")));
            }
            self.period_ends = now + PERIOD;
            self.warnings = 0;
        }
        self.warnings = self.warnings.saturating_add(1);
        if self.warnings <= MAX_WARNINGS {
            (self.notify)(Notice::Warning(warning));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_warnings_becomes_a_number() {
        let mut heard = Vec::new();
        let mut notify = |notice| heard.push(notice);
        let mut notices = Notices::new(&mut notify);
        for _ in 0..100 {
            notices.warn(Instant::ZERO, "again".into());
        }
        notices.warn(Instant::ZERO + PERIOD, "later".into());
        assert_eq!(heard.len(), 20 + 2);
        assert_eq!(heard[20], Notice::Warning("80 more warnings in the last minute".into()));
        assert_eq!(heard[21], Notice::Warning("later".into()));
    }
}
