//! Tells a carousel's sender what is lacking, where its ticket says that it listens.

use treecast_host::interface::Interface;
use treecast_proto::object::Address;
use treecast_wire::{
    message::{Member, Message},
    ticket::{Repair, Ticket},
};

use super::super::{ReceiveOptions, outbox::Outbox};
use crate::{
    local::{Post, own_address},
    seal::Secret,
    udp::{DEFAULT_MULTICAST_HOPS, GroupAddress, UdpError},
};

#[derive(Debug)]
pub(super) struct Reporter {
    post: Post,
    sender: Member,
}

/// Whether the session's sender hears reports.
fn are_heard(ticket: &Ticket) -> bool {
    ticket.repair == Repair::Carousel && !ticket.control.is_empty()
}

impl Reporter {
    /// Opens a socket for reports. `None` where nobody hears them.
    ///
    /// # Errors
    /// If the interface has no address that the sender could be reached from.
    pub fn open(options: &ReceiveOptions, interface: &Interface) -> Result<Option<Self>, UdpError> {
        let ticket = &options.ticket;
        let Some(sender) = ticket.control.first().filter(|_| are_heard(ticket)) else { return Ok(None) };
        let session = GroupAddress { group: ticket.group, source: None, interface: interface.clone() };
        let secret = ticket.security.as_ref().and_then(|security| security.secret).map(Secret::from);
        let at = (own_address(interface, sender.ip()), 0).into();
        let own = (ticket.block_len, secret.as_ref());
        let post = Post::open(&session, at, DEFAULT_MULTICAST_HOPS, options.offload, own)?;
        Ok(Some(Self { post, sender: Member(*sender) }))
    }

    /// Sends what is in the outbox.
    pub fn send(&mut self, outbox: &mut Outbox) {
        let messages = std::iter::from_fn(|| outbox.pop());
        let reports = messages.filter(|(_, message)| matches!(message, Message::Lacking(_)));
        let packets: Vec<_> = reports.map(|(file, report)| report.to_packet(file)).collect();
        self.post.tell_all(Address::Member(self.sender), &packets);
    }
}
