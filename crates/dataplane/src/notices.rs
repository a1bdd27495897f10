//! Warnings at a pace that a person, a terminal and a log can take: what causes them may come from a network.

use std::time::Duration;

use treecast_proto::Instant;

/// What the daemon has to say while it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// Interfaces are served, first queries are out.
    Ready,
    /// Something is not as it should be; one line.
    Warning(String),
}

/// The most warnings in a [`PERIOD`].
const MAX_WARNINGS: u32 = 20;

const PERIOD: Duration = Duration::from_secs(60);

/// Hands notices on; warnings beyond [`MAX_WARNINGS`] in a minute are counted instead.
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

    /// Says that the daemon is ready, once.
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
