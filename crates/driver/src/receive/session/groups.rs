//! Which of the session's groups is listened to. A move takes two steps: the new group is joined first, and the old one
//! left when routers and switches know, so that nothing is missed in between.

use std::{
    net::{IpAddr, SocketAddr, UdpSocket},
    time::Duration,
};

use treecast_proto::{Instant, object::ReceiverInput, rates::Mover, tfmcc::Arrived};
use treecast_wire::ticket::{Ticket, group_address};

use super::{
    super::{RECEIVE_BUFFER_BYTES, ReceiveError, ReceiveEvent},
    GROUP, Session,
    backlog::MOST_HELD,
};
use crate::{
    interface::Interface,
    poller::Interest,
    udp::{GroupAddress, UdpError, open_group_receiver},
};

#[derive(Debug)]
pub(super) struct Groups {
    mover: Mover,
    /// The group that is heard.
    heard: u8,
    first: SocketAddr,
    source: Option<IpAddr>,
    interface: Interface,
    membership_time: Duration,
    next: Option<Next>,
}

/// The group that will be heard.
#[derive(Debug)]
struct Next {
    group: u8,
    address: SocketAddr,
    socket: UdpSocket,
    at: Instant,
}

impl Groups {
    pub fn interface_name(&self) -> &str {
        &self.interface.name
    }

    pub fn new(ticket: &Ticket, interface: Interface, membership_time: Duration) -> Self {
        Self {
            mover: Mover::new(ticket.groups),
            heard: 0,
            first: ticket.group,
            source: ticket.source,
            interface,
            membership_time,
            next: None,
        }
    }

    pub fn heard(&self) -> u8 {
        self.heard
    }

    /// When a group that was joined is to be heard.
    pub fn moves_at(&self) -> Option<Instant> {
        self.next.as_ref().map(|next| next.at)
    }

    fn join(&mut self, now: Instant, group: u8) -> Result<(), UdpError> {
        self.next = None;
        let Some(address) = group_address(self.first, group) else { return Ok(()) };
        let place = GroupAddress { group: address, source: self.source, interface: self.interface.clone() };
        let (socket, _) = open_group_receiver(&place, RECEIVE_BUFFER_BYTES)?;
        self.next = Some(Next { group, address, socket, at: now + self.membership_time });
        Ok(())
    }
}

impl Session<'_> {
    /// Packets of the group have arrived: loss may want another one.
    pub(super) fn note_arrived(&mut self, now: Instant, packets: Arrived) {
        if let Some(group) = self.hearing.groups.mover.arrived(now, packets) {
            self.join_group(now, group);
        }
    }

    /// The sender wants this receiver in a group.
    pub(super) fn called_back(&mut self, group: u8) {
        let now = self.clock.now();
        if let Some(group) = self.hearing.groups.mover.called_back(now, group) {
            self.join_group(now, group);
        }
    }

    fn join_group(&mut self, now: Instant, group: u8) {
        if let Err(error) = self.hearing.groups.join(now, group) {
            // As if there were no other: what is lost here is mended.
            self.hearing.groups.mover = Mover::new(1);
            (self.on_event)(ReceiveEvent::Warning(format!("stays in its group: {error}")));
        }
    }

    /// Hears the group that was joined, and no longer the one before, of which everything that has come is taken first.
    pub(super) fn move_if_due(&mut self) -> Result<(), ReceiveError> {
        let now = self.clock.now();
        let Some(Next { group, address, socket, .. }) =
            self.hearing.groups.next.take_if(|next| next.at <= now)
        else {
            return Ok(());
        };
        let mut taken = 0;
        while taken < MOST_HELD
            && let Some(more) = self.receive_group()?
        {
            taken += more;
        }
        let could_read = self.hearing.source.can_read();
        if could_read {
            self.poller.remove(self.hearing.source.socket())?;
        }
        self.hearing.source.replace_socket(socket)?;
        if could_read {
            self.poller.add(self.hearing.source.socket(), GROUP, Interest::Read)?;
        }
        self.hearing.groups.heard = group;
        self.handle(ReceiverInput::Moved { group }, None);
        (self.on_event)(ReceiveEvent::Moved { group, address });
        Ok(())
    }
}
