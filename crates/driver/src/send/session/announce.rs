//! Announces the session on the network while it lasts.

use treecast_wire::{announcement::Announcement, ticket::Ticket};

use super::super::{Plan, SendError};
use crate::discovery::{Announcing, Notice};

/// Begins to announce a session of so many objects and bytes, if that is wanted.
pub(super) fn start(
    plan: &Plan,
    ticket: &Ticket,
    objects: u64,
    bytes: u64,
) -> Result<Option<Announcing>, SendError> {
    let Some(name) = &plan.options.announce else { return Ok(None) };
    let failed = |error: &dyn std::fmt::Display| SendError::Announce(error.to_string());
    let Some(identity) = plan.identity.clone() else {
        return Err(failed(&"a plain session has no key that could sign"));
    };
    let mut announcement = Announcement::new(name, ticket.clone()).map_err(|error| failed(&error))?;
    (announcement.objects, announcement.bytes) = (u32::try_from(objects).unwrap_or(u32::MAX), bytes);
    let identity = Box::new(identity);
    let notice = Notice::Session { announcement: Box::new(announcement), identity };
    Announcing::start(&plan.group.interface, notice).map(Some).map_err(|error| failed(&error))
}
