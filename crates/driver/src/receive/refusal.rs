//! The message for the user of a receiver that was not admitted: the reason, and the person to ask for what.

use std::num::NonZeroU64;

use treecast_wire::message::{PutOut, PutOutCode};

use super::ReceiveOptions;
use crate::{
    clock,
    remedies::{Advised, Remedy},
};

/// The receiver's knowledge of itself that explains a refusal.
#[derive(Debug, Clone, Copy)]
pub(super) struct Refusal {
    /// The time at which the ticket expires, by the sender's clock.
    expires: Option<NonZeroU64>,
    /// Whether it has a key of its own, and not one for this session alone.
    has_own_key: bool,
}

impl Refusal {
    pub fn new(options: &ReceiveOptions) -> Self {
        Self { expires: options.ticket.expires, has_own_key: options.identity.is_some() }
    }

    /// The sender's reason and advice, in one line.
    pub fn line(&self, word: &PutOut) -> Advised {
        let line = format!("{}{}: {}", word.reason, self.other_clock(word.code), self.advice(word.code));
        let remedy = match word.code {
            PutOutCode::NotListed if self.has_own_key => Some(Remedy::ListKey),
            PutOutCode::NotListed => Some(Remedy::ListNewKey),
            PutOutCode::KeyInUse => Some(Remedy::OwnKey),
            PutOutCode::Full => Some(Remedy::AdmitMore),
            _ => None,
        };
        Advised { line, remedy }
    }

    /// The sender's clock decides whether a ticket has expired; where this host's says otherwise, that is told, too.
    fn other_clock(&self, code: PutOutCode) -> String {
        let left = self.expires.and_then(|expires| expires.get().checked_sub(clock::unix_seconds()));
        match left.filter(|left| *left > 0 && code == PutOutCode::Expired) {
            Some(left) => format!("; by this host's clock it has {} left", clock::duration_in_words(left)),
            None => String::new(),
        }
    }

    fn advice(&self, code: PutOutCode) -> &'static str {
        match code {
            PutOutCode::Expired => "ask whoever sends for a new ticket",
            PutOutCode::NotListed if self.has_own_key => {
                "ask whoever sends to add this key to the allow list"
            }
            PutOutCode::NotListed => {
                "that key is for this session alone; make one with `treecast keys new`, ask whoever sends to add what it \
                 prints to the allow list, and start again with that key"
            }
            PutOutCode::KeyInUse => "give each receiver a key of its own (`treecast keys new`)",
            PutOutCode::OtherSession => {
                "ask whoever sends for the ticket of the session that is held there now"
            }
            PutOutCode::OtherVersion => "install the same version of treecast on both hosts",
            PutOutCode::NotMeant => "ask whoever sends to name this receiver",
            PutOutCode::Full => "ask whoever sends to start another sender, or come when some have left",
            PutOutCode::Refused
            | PutOutCode::Stalled
            | PutOutCode::Replaced
            | PutOutCode::Ended
            | PutOutCode::Stopped => "ask whoever sends what to do",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(code: PutOutCode, has_own_key: bool, seconds_left: u64) -> Advised {
        let expires = NonZeroU64::new(clock::unix_seconds() + seconds_left);
        Refusal { expires, has_own_key }.line(&PutOut::new(code, "it is so"))
    }

    #[test]
    fn every_refusal_says_why_and_what_to_do() {
        for code in PutOutCode::ALL {
            let (why, remedy) =
                line(code, true, 0).split_once(": ").map(|(a, b)| (a.len(), b.len())).unwrap();
            assert!(why == "it is so".len() && remedy > 10, "{code:?}");
        }
    }

    #[test]
    fn who_is_on_no_list_asks_for_a_key_that_lasts_to_be_added() {
        assert_eq!(line(PutOutCode::NotListed, true, 0).remedy, Some(Remedy::ListKey));
        let for_once = line(PutOutCode::NotListed, false, 0);
        assert!(
            for_once.contains("for this session alone")
                && for_once.contains("`treecast keys new`")
                && for_once.remedy == Some(Remedy::ListNewKey),
            "{for_once}"
        );
    }

    #[test]
    fn a_clock_that_is_behind_is_told() {
        let told = line(PutOutCode::Expired, true, 7200);
        assert!(told.contains("by this host's clock it has") && told.ends_with("for a new ticket"), "{told}");
        assert!(!line(PutOutCode::Full, true, 7200).contains("clock"));
    }
}
