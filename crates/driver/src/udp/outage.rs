//! Errors of a socket that may pass: an interface that is down for a moment, a full queue, a firewall's rule.

use std::{io, time::Duration};

use treecast_proto::Instant;

/// The time for which nothing may leave until that is taken for the end.
const LASTING: Duration = Duration::from_secs(30);

/// The time for which the socket is left alone after a failure. What is sent meanwhile would be lost, too.
const REST: Duration = Duration::from_millis(10);

/// Tracks a socket's failures. A packet that could not be sent counts as lost on the way.
#[derive(Debug, Default)]
pub struct Outage {
    /// The time since which nothing has left.
    since: Option<Instant>,
    rests_until: Option<Instant>,
    /// The first failure, until it is told.
    untold: Option<String>,
    was_told: bool,
}

impl Outage {
    /// Notes the result of an attempt to send.
    ///
    /// # Errors
    /// The error of the attempt, if it is of a kind that does not pass, or has lasted too long.
    pub fn note(&mut self, now: Instant, attempt: io::Result<()>) -> io::Result<()> {
        let Err(error) = attempt else {
            self.since = None;
            self.rests_until = None;
            return Ok(());
        };
        let since = *self.since.get_or_insert(now);
        if !may_pass(&error) || now.saturating_duration_since(since) >= LASTING {
            return Err(error);
        }
        self.rests_until = Some(now + REST);
        if !std::mem::replace(&mut self.was_told, true) {
            self.untold = Some(error.to_string());
        }
        Ok(())
    }

    /// The time until which nothing should be sent.
    pub fn rests_until(&self, now: Instant) -> Option<Instant> {
        self.rests_until.filter(|until| *until > now)
    }

    /// Takes the first failure that was not reported yet.
    pub fn take_untold(&mut self) -> Option<String> {
        self.untold.take()
    }
}

fn may_pass(error: &io::Error) -> bool {
    let passing = [libc::ENETUNREACH, libc::ENETDOWN, libc::ENOBUFS, libc::EHOSTUNREACH, libc::EPERM];
    // What the kernel says of an interface whose addresses are gone while it is down.
    error.raw_os_error().is_some_and(|code| passing.contains(&code) || code == libc::EADDRNOTAVAIL)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::at;

    fn failed(code: i32) -> io::Result<()> {
        Err(io::Error::from_raw_os_error(code))
    }

    #[test]
    fn what_may_pass_is_told_once_and_ends_the_session_when_it_lasts() {
        let mut outage = Outage::default();
        outage.note(at(0), Ok(())).unwrap();
        assert_eq!((outage.rests_until(at(0)), outage.take_untold()), (None, None));
        for start in [1_000, 40_000] {
            for millis in 0..29_999 {
                outage.note(at(start + millis), failed(libc::ENETUNREACH)).unwrap();
            }
            assert!(outage.rests_until(at(start + 30_000)).is_some());
            assert_eq!(outage.take_untold().is_some(), start == 1_000);
            outage.note(at(start + 29_999), Ok(())).unwrap();
            assert_eq!(outage.rests_until(at(start + 30_000)), None);
        }
        outage.note(at(80_000), failed(libc::EPERM)).unwrap();
        let error = outage.note(at(110_000), failed(libc::ENOBUFS)).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENOBUFS));
    }

    #[test]
    fn what_does_not_pass_is_an_error_at_once() {
        assert!(Outage::default().note(at(0), failed(libc::EINVAL)).is_err());
    }
}
