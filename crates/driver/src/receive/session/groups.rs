//! The choice of the session's groups that are listened to.
//!
//! If all come to the receiver's own address, the groups are lanes, which differ by their packets' numbers.
//!
//! A session with a connection is heard in one group. A move takes two steps: the new group is joined first, and the old one
//! left when routers and switches know, so that nothing is missed in between. A carousel is heard in several groups at once,
//! each with other blocks: a receiver that loses packets leaves the fastest, and comes back to it later
//! (librecast-updates-2022, A.3).

use std::{
    net::{IpAddr, SocketAddr, UdpSocket},
    time::Duration,
};

use treecast_host::{interface::Interface, poller::Interest};
use treecast_proto::{
    Instant,
    object::ReceiverInput,
    rates::Mover,
    tfmcc::{self, Arrived},
};
use treecast_wire::ticket::{Ticket, group_address};

use super::{
    super::{RECEIVE_BUFFER_BYTES, ReceiveError, ReceiveEvent},
    GROUP, Session,
    backlog::MOST_HELD,
};
use crate::udp::{GroupAddress, Spare, UdpError, open_group_receiver};

#[derive(Debug)]
pub(super) struct Groups {
    mover: Mover,
    /// The group that is heard.
    heard: u8,
    /// Whether the groups are lanes.
    are_lanes: bool,
    first: SocketAddr,
    source: Option<IpAddr>,
    interface: Interface,
    membership_time: Duration,
    next: Option<Next>,
    layers: Layers,
}

/// The groups of a carousel that are heard besides the fastest one.
#[derive(Debug, Default)]
struct Layers {
    /// The sockets of the slower groups, fastest first.
    slower: Vec<Spare>,
    /// Whether one of them is being read.
    reads_slower: bool,
    /// The group that is to be the fastest one.
    wanted: Option<u8>,
}

/// The group that will be heard.
#[derive(Debug)]
struct Next {
    group: u8,
    /// The group's address and socket. `None` of a lane.
    place: Option<(SocketAddr, UdpSocket)>,
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
            are_lanes: ticket.has_lanes(),
            first: ticket.group,
            source: ticket.source,
            interface,
            membership_time,
            next: None,
            layers: Layers::default(),
        }
    }

    pub fn heard(&self) -> u8 {
        self.heard
    }

    /// Whether the interface has no address of the groups' family, which the user was told at the beginning.
    pub fn lacks_family(&self) -> bool {
        self.interface.check_family(self.first.ip()).is_err()
    }

    /// Returns when the receiver begins to listen to a group that it has joined.
    pub fn moves_at(&self) -> Option<Instant> {
        self.next.as_ref().map(|next| next.at)
    }

    /// The address and interface at which a group is heard.
    fn place(&self, group: u8) -> Option<GroupAddress> {
        let group = group_address(self.first, group)?;
        Some(GroupAddress { group, source: self.source, interface: self.interface.clone() })
    }

    /// Notes that packets of the group have arrived: loss may want another one. Returns a line for the user if that cannot be joined.
    pub fn arrived(&mut self, now: Instant, packets: Arrived, is_carousel: bool) -> Option<String> {
        if self.layers.reads_slower {
            return None;
        }
        let group = self.mover.arrived(now, packets)?;
        if is_carousel {
            self.layers.wanted = Some(group);
            return None;
        }
        self.join_or_stay(now, group)
    }

    /// Notes that the sender wants this receiver in a group. Returns a line for the user if that cannot be joined.
    pub fn called(&mut self, now: Instant, group: u8) -> Option<String> {
        let group = self.mover.called(now, group)?;
        self.join_or_stay(now, group)
    }

    /// Notes that the sender's rate follows the receivers' reports, and so do the groups that they are in.
    pub fn follow_sender(&mut self, now: Instant) {
        self.mover.follow_sender(now);
    }

    fn join_or_stay(&mut self, now: Instant, group: u8) -> Option<String> {
        let error = self.join(now, group).err()?;
        // As if there were no other: what is lost here is mended.
        self.mover = Mover::new(1);
        Some(format!("stays in its group: {error}"))
    }

    fn join(&mut self, now: Instant, group: u8) -> Result<(), UdpError> {
        self.next = None;
        if self.are_lanes {
            self.next = Some(Next { group, place: None, at: now });
            return Ok(());
        }
        let Some(place) = self.place(group) else { return Ok(()) };
        let address = place.group;
        let (socket, _) = open_group_receiver(&place, RECEIVE_BUFFER_BYTES)?;
        self.next = Some(Next { group, place: Some((address, socket)), at: now + self.membership_time });
        Ok(())
    }
}

impl Session<'_> {
    /// Joins the slower groups of a carousel, too.
    pub(super) fn join_slower(&mut self, groups: u8) -> Result<(), ReceiveError> {
        for group in 1..groups {
            let Some((_, slower)) = self.layer(group)? else { break };
            self.hearing.groups.layers.slower.push(slower);
        }
        Ok(())
    }

    /// Joins a group beside another address that is heard. Returns its address and its socket.
    pub(super) fn layer(&mut self, group: u8) -> Result<Option<(SocketAddr, Spare)>, ReceiveError> {
        let Some(place) = self.hearing.groups.place(group) else { return Ok(None) };
        let (socket, _) = open_group_receiver(&place, RECEIVE_BUFFER_BYTES)?;
        let layer = self.hearing.source.prepare(socket)?;
        self.poller.add(layer.socket(), GROUP, Interest::Read)?;
        Ok(Some((place.group, layer)))
    }

    /// Takes a batch from each of the slower groups, as [`Session::receive_batch`].
    pub(super) fn receive_slower(&mut self) -> Result<Option<u64>, ReceiveError> {
        let mut left: Option<u64> = None;
        for at in 0..self.hearing.groups.layers.slower.len() {
            self.swap_layer(at);
            let more = self.receive_batch();
            self.swap_layer(at);
            left = [left, more?].into_iter().flatten().min();
        }
        Ok(left)
    }

    fn swap_layer(&mut self, at: usize) {
        let layers = &mut self.hearing.groups.layers;
        self.hearing.source.swap(&mut layers.slower[at]);
        layers.reads_slower = !layers.reads_slower;
    }

    /// Leaves the fastest groups of a carousel, or comes back to one.
    fn change_layers(&mut self) -> Result<(), ReceiveError> {
        let Some(group) = self.hearing.groups.layers.wanted.take() else { return Ok(()) };
        let (source, groups) = (&mut self.hearing.source, &mut self.hearing.groups);
        while groups.heard < group && !groups.layers.slower.is_empty() {
            // Its socket is closed with this, and the poller forgets it.
            source.swap(&mut groups.layers.slower[0]);
            groups.layers.slower.remove(0);
            groups.heard += 1;
        }
        if group < groups.heard
            && let Some((_, mut faster)) = self.layer(group)?
        {
            self.hearing.source.swap(&mut faster);
            self.hearing.groups.layers.slower.insert(0, faster);
            self.hearing.groups.heard = group;
        }
        let group = self.hearing.groups.heard;
        if let Some(place) = self.hearing.groups.place(group) {
            (self.delivery.on_event)(ReceiveEvent::Moved { group, address: Some(place.group) });
        }
        Ok(())
    }

    /// Hears the group that was joined, and no longer the one before, of which everything that has come is taken first.
    pub(super) fn move_if_due(&mut self) -> Result<(), ReceiveError> {
        self.change_layers()?;
        let now = self.delivery.clock.now();
        let Some(Next { group, place, .. }) = self.hearing.groups.next.take_if(|next| next.at <= now) else {
            return Ok(());
        };
        let mut taken = 0;
        while taken < MOST_HELD
            && let Some(more) = self.receive_group()?
        {
            taken += more;
        }
        let address = place.as_ref().map(|(address, _)| *address);
        match place {
            Some((_, socket)) => self.replace_socket(socket)?,
            None => self.take_lane(group),
        }
        self.hearing.groups.heard = group;
        self.hearing.congestion.handle(now, tfmcc::ReceiverInput::Moved);
        self.hearing.lengths.heard.moved();
        self.delivery.handle(ReceiverInput::Moved { group }, None);
        (self.delivery.on_event)(ReceiveEvent::Moved { group, address });
        Ok(())
    }

    fn replace_socket(&mut self, socket: UdpSocket) -> Result<(), ReceiveError> {
        let could_read = self.hearing.source.can_read();
        if could_read {
            self.poller.remove(self.hearing.source.socket())?;
        }
        self.hearing.source.replace_socket(socket)?;
        if could_read {
            self.poller.add(self.hearing.source.socket(), GROUP, Interest::Read)?;
        }
        Ok(())
    }
}
