//! The senders that are to be told the results of the commands that they wait for.
//!
//! A sender that is started again has a new list of receivers, and is told again: it does not know what the one before it has heard.

use std::collections::BTreeMap;

use treecast_proto::announced::SessionKey;
use treecast_wire::announcement::{Announcement, ForStanding};

use super::{
    command_end::CommandEnd,
    history::{Entry, Happened},
};

/// The largest number of sessions whose results are remembered.
const MOST: usize = 1000;

/// The number of tries to reach a sender.
const MAX_TRIES: u32 = 5;

/// The line of a result where there is no command.
const NO_COMMAND: &str = "it has everything, and its rule has no command";

/// The results of sessions that are complete.
#[derive(Debug, Default)]
pub(super) struct Telling(BTreeMap<SessionKey, Told>);

#[derive(Debug)]
struct Told {
    end: CommandEnd,
    /// The audience whose sender knows the result.
    to: Option<ForStanding>,
    is_under_way: bool,
    /// The number of failed tries to reach the sender of this audience.
    tries: (Option<ForStanding>, u32),
}

impl Telling {
    /// The results that a history knows, of sessions whose command is not still to run.
    pub fn from_history(entries: &[Entry]) -> Self {
        let mut telling = Self::default();
        for entry in entries {
            let Some(session) = entry.key() else { continue };
            match entry.event {
                Happened::Received if entry.owes_command => _ = telling.0.remove(&session),
                Happened::Received | Happened::Finished => telling.note_none(session),
                Happened::CommandRun | Happened::CommandFailed => telling.note(session, entry.command_end()),
                _ => {}
            }
        }
        telling
    }

    /// A session is complete, and its command has ended.
    pub fn note(&mut self, session: SessionKey, end: CommandEnd) {
        if self.0.len() >= MOST {
            self.0.pop_first();
        }
        self.0.insert(session, Told { end, to: None, is_under_way: false, tries: (None, 0) });
    }

    /// A session is complete, and there is no command.
    pub fn note_none(&mut self, session: SessionKey) {
        let end = CommandEnd { code: Some(0), line: NO_COMMAND.to_owned(), ..CommandEnd::default() };
        self.note(session, end);
    }

    /// The result that the sender of an announced session is to be told now, if it is.
    pub fn due(&mut self, announcement: &Announcement) -> Option<CommandEnd> {
        let audience = announcement.audience;
        let session = (announcement.key(), announcement.ticket().session);
        let told = self.0.get_mut(&session).filter(|_| audience.awaits_results)?;
        let is_known = told.to == Some(audience.standing);
        let is_in_vain = told.tries == (Some(audience.standing), MAX_TRIES);
        if is_known || is_in_vain || told.is_under_way {
            return None;
        }
        told.is_under_way = true;
        Some(told.end.clone())
    }

    /// The sender of a session was told, or could not be reached.
    pub fn ended(&mut self, session: &SessionKey, audience: ForStanding, is_told: bool) {
        let Some(told) = self.0.get_mut(session) else { return };
        told.is_under_way = false;
        if is_told {
            told.to = Some(audience);
            return;
        }
        let tries = if told.tries.0 == Some(audience) { told.tries.1 } else { 0 };
        told.tries = (Some(audience), tries + 1);
    }
}

#[cfg(test)]
mod tests {
    use treecast_wire::{
        header::SessionId,
        ticket::{Repair, Security, Ticket},
    };

    use super::*;

    fn announced(session: u32, list: u32) -> Announcement {
        let security = Some(Security { sender_key: [1; 32], secret: None });
        let group = "[ff15::1]:5000".parse().unwrap();
        let ticket = Ticket { security, ..Ticket::new(SessionId(session), Repair::Nack, 1000, group) };
        let mut announcement = Announcement::new("image", ticket).unwrap();
        announcement.audience.standing = ForStanding::Named { list };
        announcement.audience.awaits_results = true;
        announcement
    }

    #[test]
    fn each_sender_is_told_once_and_no_longer_tried_when_it_is_not_there() {
        let mut telling = Telling::default();
        let (one, again) = (announced(1, 7), announced(1, 8));
        let session = (one.key(), one.ticket().session);
        assert_eq!(telling.due(&one), None, "it is not complete");
        let end = CommandEnd { code: Some(3), ..CommandEnd::default() };
        telling.note(session, end.clone());
        assert_eq!(telling.due(&one), Some(end.clone()));
        assert_eq!(telling.due(&one), None, "it is under way");
        telling.ended(&session, one.audience.standing, true);
        assert_eq!(telling.due(&one), None, "it is told");
        for _ in 0..MAX_TRIES {
            assert_eq!(telling.due(&again), Some(end.clone()), "another sender");
            telling.ended(&session, again.audience.standing, false);
        }
        assert_eq!(telling.due(&again), None, "it is not there");
        let mut deaf = announced(1, 9);
        deaf.audience.awaits_results = false;
        assert_eq!(telling.due(&deaf), None, "it does not ask");
        (0..5000).for_each(|number| telling.note_none(([2; 32], SessionId(number))));
        assert_eq!(telling.0.len(), MOST);
    }
}
