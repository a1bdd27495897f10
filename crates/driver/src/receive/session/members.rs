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
    object::{Address, Channel, ReceiverTransmit},
    repair::Receiver,
};
use treecast_wire::{
    header::{FileId, Header, PacketType},
    message::{GroupId, Member, Message},
    seal::KeyId,
    ticket::Fanout,
};

use super::{
    super::{LocalProgress, ReceiveError, ReceiveEvent, ReceiveOptions},
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

/// How many calls to the kernel read one of these sockets before others have their turn.
const READS_A_TURN: usize = 16;

#[derive(Debug)]
pub(super) struct Members {
    post: Post,
    /// What is heard besides the session's group: the own address under the session's number, and local groups.
    ears: BTreeMap<GroupId, Spare>,
    /// The group whose socket is read now, and whether this member has left it meanwhile.
    reads: Option<GroupId>,
    has_left: bool,
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
        Ok(Some(Self { post, ears, reads: None, has_left: false, has_warned: false, put_out }))
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
    /// Takes a socket to be read.
    fn take(&mut self, group: GroupId) -> Option<Spare> {
        let spare = self.ears.remove(&group)?;
        (self.reads, self.has_left) = (Some(group), false);
        Some(spare)
    }

    /// Takes back a socket that has been read. It is closed if the member has left its group.
    fn put_back(&mut self, group: GroupId, spare: Spare) {
        self.reads = None;
        if !self.has_left {
            self.ears.insert(group, spare);
        }
    }

    /// Whether the member is in a group. It is in the one that is being read, whatever it did before.
    fn is_in(&mut self, group: GroupId) -> bool {
        if self.reads == Some(group) {
            self.has_left = false;
        }
        self.reads == Some(group) || self.ears.contains_key(&group)
    }

    fn leave(&mut self, group: GroupId) {
        self.has_left |= self.reads == Some(group);
        self.ears.remove(&group);
    }
}

impl Session<'_> {
    /// Begins to hear members, and to serve them.
    pub(super) fn join_members(&mut self, members: Members) -> Result<(), ReceiveError> {
        let own = self.hearing.source.prepare(members.post.ear()?)?;
        self.poller.add(own.socket(), GROUP, Interest::Read)?;
        self.members = Some(members);
        if let Some(members) = &mut self.members {
            members.ears.insert(GroupId::SESSION, own);
        }
        self.add(Task::Serve);
        Ok(())
    }

    /// Takes what members have sent, as [`Session::receive_batch`] does for the session's group.
    pub(super) fn receive_members(&mut self) -> Result<Option<u64>, ReceiveError> {
        let ears: Vec<GroupId> =
            self.members.iter().flat_map(|members| members.ears.keys().copied()).collect();
        let mut left = None;
        for ear in ears {
            // What comes may have it leave a group.
            let Some(mut spare) = self.members.as_mut().and_then(|members| members.take(ear)) else {
                continue;
            };
            self.hearing.source.swap(&mut spare);
            let more = self.receive_from_members();
            self.hearing.source.swap(&mut spare);
            if let Some(members) = &mut self.members {
                members.put_back(ear, spare);
            }
            left = [left, more?].into_iter().flatten().min();
        }
        Ok(left)
    }

    /// Takes some of what is in the socket that is read now. Returns how much where something may be left.
    fn receive_from_members(&mut self) -> Result<Option<u64>, ReceiveError> {
        let before = self.hearing.source.taken();
        for _ in 0..READS_A_TURN {
            let Some(from) = self.hearing.source.receive_from(self.store.intake.batch())? else {
                return Ok(None);
            };
            self.process(Channel::Member(member(from)));
        }
        Ok(Some(self.hearing.source.taken() - before))
    }

    /// The member that has sent what came last, and the key that it was sealed with. `None` where packets are plain.
    fn sealed_by(&mut self, from: Channel) -> Option<(Member, KeyId)> {
        let Channel::Member(member) = from else { return None };
        Some((member, self.hearing.source.opener()?.key()?))
    }

    /// Whether this member is not heard any more.
    pub(super) fn is_put_out(&mut self, from: Channel) -> bool {
        let sealed_by = self.sealed_by(from);
        let is_listed = |members: &Members| sealed_by.is_some_and(|by| members.put_out.contains(&by));
        self.members.as_ref().is_some_and(is_listed)
    }

    /// A member has sent something that the sender has not signed. Returns the address by which the machine is to put it out: `None` in a
    /// sealed session, where this is done here.
    pub(super) fn put_out(&mut self, from: Channel) -> Option<Member> {
        let sealed_by = self.sealed_by(from);
        if let (Some(by), Some(members)) = (sealed_by, &mut self.members)
            && members.put_out.len() < MAX_PUT_OUT
        {
            members.put_out.insert(by);
        }
        match from {
            Channel::Member(member) if self.hearing.source.opener().is_none() => Some(member),
            _ => None,
        }
    }

    /// Does for other members what the machine wants.
    pub(super) fn serve_members(&mut self, transmit: ReceiverTransmit) {
        match transmit {
            ReceiverTransmit::Tell { to, file, message } => {
                let packet = message.to_packet(file);
                let one_by_one = self.machine.local().and_then(|machine| machine.one_by_one(to));
                let Some(members) = &mut self.members else { return };
                match one_by_one {
                    None => members.post.tell(to, &packet),
                    Some(all) => {
                        all.into_iter().for_each(|one| members.post.tell(Address::Member(one), &packet))
                    }
                }
            }
            // Where members are reached one by one, so is the one that lacks this.
            ReceiverTransmit::Send { to, file, range } => match self.store.small.read(file, &range) {
                Some(bytes) => self.send_again(to, file, range.start, &bytes),
                None => self.add(Task::Read { file, range, to }),
            },
            ReceiverTransmit::JoinGroup { group } => self.hear_group(group),
            ReceiverTransmit::LeaveGroup { group } => {
                // The poller forgets a socket that is closed.
                self.members.iter_mut().for_each(|members| members.leave(group));
            }
            ReceiverTransmit::Release { file } => {
                self.add(Task::Release { file });
                if let Some((pages, _)) = self.trust.group().and_then(|group| group.pages()) {
                    pages.forget(file);
                }
            }
            _ => {}
        }
    }

    fn hear_group(&mut self, group: GroupId) {
        let Some(members) = &mut self.members else { return };
        if members.is_in(group) {
            return;
        }
        let opened = open_group_receiver(&members.post.place(group), BUFFER_BYTES);
        let opened = opened.map_err(|error| error.to_string()).and_then(|(socket, _)| {
            let ear = self.hearing.source.prepare(socket).map_err(|error| error.to_string())?;
            self.poller.add(ear.socket(), GROUP, Interest::Read).map_err(|error| error.to_string())?;
            Ok(ear)
        });
        match (opened, &mut self.members) {
            (Ok(ear), Some(members)) => _ = members.ears.insert(group, ear),
            (Err(error), Some(members)) if !members.has_warned => {
                members.has_warned = true;
                let line = format!("cannot hear local group {}: {error}; the sender mends instead", group.0);
                (self.on_event)(ReceiveEvent::Warning(line));
            }
            _ => {}
        }
    }

    /// Tells the sender what was heard at which address.
    pub(super) fn tell_sender(&mut self, message: &Message) {
        let sender = self.machine.local().and_then(|machine| machine.copies()).map(|copies| copies.sender);
        if let (Some(members), Some(sender)) = (&mut self.members, sender) {
            members.post.tell(Address::Member(sender), &message.to_packet(FileId::new(self.session, 0)));
        }
    }

    /// Sends bytes of an object again. In a sealed session, proofs of what they are go with them.
    pub(super) fn send_again(&mut self, to: Address, file: FileId, position: u64, bytes: &[u8]) {
        let now = self.clock.now();
        let Some(members) = &mut self.members else { return };
        let first = Header {
            file_id: file,
            sequence: position,
            payload_len: 0,
            kind: PacketType::RetransmittedData,
            number: 0,
        };
        let Some((pages, block_len)) = self.trust.group().and_then(|group| group.pages()) else {
            return members.post.send_blocks(to, first, bytes);
        };
        for run in pages.prove(now, (file, position), bytes, block_len) {
            run.page.into_iter().for_each(|page| members.post.tell(to, &page));
            let at = |place: u64| (place - position) as usize;
            let blocks = &bytes[at(run.range.start)..at(run.range.end)];
            members.post.send_blocks(to, Header { sequence: run.range.start, ..first }, blocks);
        }
    }

    pub(super) fn local_progress(&self) -> Option<LocalProgress> {
        let machine = self.machine.local()?;
        let (figures, place) = (machine.figures(), machine.place());
        Some(LocalProgress {
            group: place.map(|place| place.group.0).filter(|group| *group != 0),
            is_controller: machine.is_controller(),
            controller: place.map(|place| place.controller.0),
            clients: machine.clients() as u64,
            loss: machine.loss(),
            data_blocks: figures.data_blocks,
            requests: figures.requests_sent,
            requests_above: figures.requests_above,
            control: figures.control_sent,
            repair_blocks: figures.repair_blocks,
            sent_blocks: figures.sent_blocks,
            lost_blocks: figures.lost_blocks,
            late_objects: figures.late_objects,
            refused_blocks: figures.refused_blocks,
        })
    }
}
