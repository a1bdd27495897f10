//! Announces the session on the network while it lasts.

use treecast_wire::{
    announcement::{Announcement, Audience, ForStanding},
    ticket::Ticket,
};

use super::super::{Announce, Plan, SendError};
use crate::{
    discovery::{Announcing, Notice},
    security,
};

/// Begins to announce a session of so many objects and bytes, if that is wanted.
pub(super) fn start(
    plan: &Plan,
    ticket: &Ticket,
    objects: u64,
    bytes: u64,
) -> Result<Option<Announcing>, SendError> {
    let Some(announce) = &plan.options.announce else { return Ok(None) };
    let failed = |error: &dyn std::fmt::Display| SendError::Announce(error.to_string());
    let Some(identity) = plan.identity.clone() else {
        return Err(failed(&"a plain session has no key that could sign"));
    };
    let mut announcement =
        Announcement::new(&announce.name, ticket.clone()).map_err(|error| failed(&error))?;
    (announcement.objects, announcement.bytes) = (u32::try_from(objects).unwrap_or(u32::MAX), bytes);
    announcement.begun = plan.begun_ms;
    announcement.audience = audience(plan, announce)?;
    let identity = Box::new(identity);
    let notice = Notice::Session { announcement: Box::new(announcement), identity };
    Announcing::start(&plan.group.interface, notice).map(Some).map_err(|error| failed(&error))
}

/// The receivers that the session is for. Each start of a sender has a new number for its list, because the list may be another one.
fn audience(plan: &Plan, announce: &Announce) -> Result<Audience, SendError> {
    let standing = match (announce.standing, plan.options.listed().is_empty()) {
        (false, _) => ForStanding::None,
        (true, true) => ForStanding::Any,
        (true, false) => ForStanding::Named { list: u32::from_be_bytes(security::random()?) },
    };
    let awaits_results = announce.standing && plan.options.awaits_results().is_some();
    Ok(Audience { people: announce.people, standing, awaits_results })
}
