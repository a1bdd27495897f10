//! The parts of a session that only a member of local groups has: its own socket, the sockets of the groups that it
//! listens to, and what it sends again for others.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    time::Duration,
};

use treecast_host::{interface::Interface, poller::Interest};
use treecast_proto::{
    local::{self, Copies, ReceiverConfig, Tuning},
    object::Channel,
    repair::Receiver,
};
use treecast_wire::{
    message::{GroupId, Member},
    seal::KeyId,
    ticket::Fanout,
};

use super::{
    super::{ReceiveError, ReceiveEvent, ReceiveOptions},
    GROUP, HASH_ATTEMPTS, Session,
};
use crate::{
    clock,
    files::Task,
    local::{Post, member, own_address},
    seal::Secret,
    udp::{DEFAULT_MULTICAST_HOPS, GroupAddress, Spare, UdpError, open_group_receiver},
};

/// The wanted size of a local group's receive buffer, in bytes.
const BUFFER_BYTES: usize = 1 << 20;

/// The most members that are remembered because they have sent what the sender has not signed.
const MAX_PUT_OUT: usize = 1_024;

/// The most calls to the kernel that read one of these sockets before others have their turn.
const READS_A_TURN: usize = 16;

#[derive(Debug)]
pub(super) struct Members {
    /// Sends to members.
    pub post: Post,
    /// The sockets besides that of the session's group: for the own address, under the session's number, and for
    /// local groups.
    ears: BTreeMap<GroupId, Spare>,
    /// Whether the user was told that a local group cannot be heard.
    has_warned: bool,
    /// Members of a sealed session that are not heard any more, and the keys that their packets were sealed with. Another member that
    /// uses their address alone, or their key alone, does not have them put out.
    put_out: BTreeSet<(Member, KeyId)>,
}

impl Members {
    /// Opens the member's own socket. `None` where the session has no local groups.
    pub fn open(options: &ReceiveOptions, interface: &Interface) -> Result<Option<Self>, ReceiveError> {
        let ticket = &options.ticket;
        let Some(local) = ticket.local else {
            return match options.groups {
                Some(_) => Err(ReceiveError::NotStatic),
                None if options.must_send => Err(ReceiveError::NoMembers),
                None => Ok(None),
            };
        };
        if options.must_send && !ticket.has_local_addresses() {
            return Err(ReceiveError::NoMembers);
        }
        match (&options.groups, local.is_static) {
            (None, true) => return Err(ReceiveError::NoGroups),
            (Some(_), false) => return Err(ReceiveError::NotStatic),
            (None, false) | (Some(_), true) => {}
        }
        let session = GroupAddress { group: ticket.group, source: None, interface: interface.clone() };
        let secret = ticket.security.as_ref().and_then(|security| security.secret).map(Secret::from);
        let own = (ticket.block_len, secret.as_ref());
        let at = match &options.groups {
            Some(groups) => groups.own_address(interface, session.group.is_ipv4())?,
            None => own_address(interface, session.group.ip()),
        };
        let port = match (options.port, ticket.fanout) {
            (None, _) => ticket.member_port(),
            (Some(port), Fanout::Multicast) => port,
            // The sender's copies come to the port that was named.
            (Some(port), _) => port.checked_add(1).unwrap_or(1024),
        };
        let at = SocketAddr::new(at, port);
        let post = Post::open(&session, at, DEFAULT_MULTICAST_HOPS, options.offload, own);
        let post = post.map_err(|error| match error {
            UdpError::PortInUse { port } => ReceiveError::PortInUse { port },
            other => other.into(),
        })?;
        let (ears, put_out) = (BTreeMap::new(), BTreeSet::new());
        Ok(Some(Self { post, ears, has_warned: false, put_out }))
    }

    /// The machine of this member, to whose port `copies_port` the sender's copies come where there is no multicast.
    pub fn machine(&self, options: &ReceiveOptions, copies_port: u16) -> Result<Receiver, ReceiveError> {
        let ticket = &options.ticket;
        let local = ticket.local.ok_or(ReceiveError::NoGroups)?;
        let sender = ticket.control.first().copied().map(Member).ok_or(ReceiveError::NoControl)?;
        let seat = options.groups.as_ref().and_then(|groups| groups.seat(self.post.me().0, sender));
        // Multicast from a single source needs no copies.
        let port = if ticket.fanout == Fanout::Multicast { 0 } else { copies_port };
        let deadline = Duration::from_millis(local.deadline_ms.into());
        let tuning = Tuning {
            repair_rate_bps: local.repair_rate_bps,
            congestion_loss: f64::from(local.congestion_loss) / f64::from(u16::MAX),
            deadline: (!deadline.is_zero()).then_some(deadline),
            is_feed: ticket.is_feed,
            member_must_send: options.must_send,
        };
        Ok(Receiver::Local(Box::new(local::Receiver::new(ReceiverConfig {
            session: ticket.session,
            block_len: ticket.block_len,
            me: self.post.me(),
            mode: local.mode,
            seat,
            seed: clock::seed(),
            tuning,
            patience: Some(options.connect_timeout),
            stall_limit: Some(options.stall_limit),
            hash_attempts: HASH_ATTEMPTS,
            copies: (!ticket.has_local_addresses()).then_some(Copies { sender, port }),
        }))))
    }
}

impl Members {
    /// Whether a member is not heard any more.
    pub fn has_put_out(&self, by: (Member, KeyId)) -> bool {
        self.put_out.contains(&by)
    }

    /// Hears a member no more.
    pub fn put_out(&mut self, by: (Member, KeyId)) {
        if self.put_out.len() < MAX_PUT_OUT {
            self.put_out.insert(by);
        }
    }
}

impl Session<'_> {
    /// Begins to hear members, and to serve them.
    pub(super) fn join_members(&mut self, members: Members) -> Result<(), ReceiveError> {
        let own = self.hearing.source.prepare(members.post.ear()?)?;
        self.poller.add(own.socket(), GROUP, Interest::Read)?;
        self.delivery.members = Some(members);
        if let Some(members) = &mut self.delivery.members {
            members.ears.insert(GroupId::SESSION, own);
        }
        self.delivery.add(Task::Serve);
        Ok(())
    }

    /// Takes what members have sent, as [`Session::receive_batch`] does for the session's group.
    pub(super) fn receive_members(&mut self) -> Result<Option<u64>, ReceiveError> {
        let ears: Vec<GroupId> =
            self.delivery.members.iter().flat_map(|members| members.ears.keys().copied()).collect();
        let mut left = None;
        for ear in ears {
            // What comes may have it leave a group.
            let spare = self.delivery.members.as_mut().and_then(|members| members.ears.remove(&ear));
            let Some(mut spare) = spare else { continue };
            self.hearing.source.swap(&mut spare);
            let more = self.receive_from_members();
            self.hearing.source.swap(&mut spare);
            if let Some(members) = &mut self.delivery.members {
                members.ears.insert(ear, spare);
            }
            self.take_effects();
            left = [left, more?].into_iter().flatten().min();
        }
        Ok(left)
    }

    /// Takes some of what is in the socket that is read now. Returns how much where something may be left.
    fn receive_from_members(&mut self) -> Result<Option<u64>, ReceiveError> {
        let before = self.hearing.source.taken();
        for _ in 0..READS_A_TURN {
            let Some(from) = self.hearing.source.receive_from(self.delivery.store.intake.batch())? else {
                return Ok(None);
            };
            self.process(Channel::Member(member(from)));
        }
        Ok(Some(self.hearing.source.taken() - before))
    }

    /// Hears a local group, too.
    pub(super) fn hear_group(&mut self, group: GroupId) {
        let Some(members) = &mut self.delivery.members else { return };
        if members.ears.contains_key(&group) {
            return;
        }
        let opened = open_group_receiver(&members.post.place(group), BUFFER_BYTES);
        let opened = opened.map_err(|error| error.to_string()).and_then(|(socket, _)| {
            let ear = self.hearing.source.prepare(socket).map_err(|error| error.to_string())?;
            self.poller.add(ear.socket(), GROUP, Interest::Read).map_err(|error| error.to_string())?;
            Ok(ear)
        });
        match (opened, &mut self.delivery.members) {
            (Ok(ear), Some(members)) => _ = members.ears.insert(group, ear),
            (Err(error), Some(members)) if !members.has_warned => {
                members.has_warned = true;
                let line = format!("cannot hear local group {}: {error}; the sender mends instead", group.0);
                (self.delivery.on_event)(ReceiveEvent::Warning(line.into()));
            }
            _ => {}
        }
    }

    /// Hears a local group no more.
    pub(super) fn leave_group(&mut self, group: GroupId) {
        // The poller forgets a socket that is closed.
        self.delivery.members.iter_mut().for_each(|members| _ = members.ears.remove(&group));
    }
}
