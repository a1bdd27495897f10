//! The service of this receiver to other members of local groups, and the members that it does not hear.

use treecast_proto::object::{Address, Channel, ReceiverTransmit};
use treecast_wire::{
    header::{FileId, Header, PacketType},
    message::{Member, Message},
    seal::KeyId,
};

use super::{
    super::{super::LocalProgress, members::Members},
    Delivery, Effect, Sealing,
};
use crate::files::Task;

impl Delivery<'_> {
    /// Whether this member is not heard any more.
    pub(super) fn is_put_out(&self, from: Channel, sealing: Sealing) -> bool {
        let sealed_by = sealed_by(from, sealing);
        let is_listed = |members: &Members| sealed_by.is_some_and(|by| members.has_put_out(by));
        self.members.as_ref().is_some_and(is_listed)
    }

    /// A member has sent something that the sender has not signed. Returns the address by which the machine is to put it out: `None` in a
    /// sealed session, where this is done here.
    pub(super) fn put_out(&mut self, from: Channel, sealing: Sealing) -> Option<Member> {
        let sealed_by = sealed_by(from, sealing);
        if let (Some(by), Some(members)) = (sealed_by, &mut self.members) {
            members.put_out(by);
        }
        match from {
            Channel::Member(member) if !sealing.is_sealed => Some(member),
            _ => None,
        }
    }

    /// Does for other members what the machine wants.
    pub(super) fn serve_members(&mut self, transmit: ReceiverTransmit) {
        match transmit {
            ReceiverTransmit::Tell { to, file, message } => {
                let one_by_one = self.machine.local().and_then(|machine| machine.one_by_one(to));
                let Some(members) = &mut self.members else { return };
                match one_by_one {
                    None => members.post.tell(to, file, &message),
                    Some(all) => all
                        .into_iter()
                        .for_each(|one| members.post.tell(Address::Member(one), file, &message)),
                }
            }
            // Where members are reached one by one, so is the one that lacks this.
            ReceiverTransmit::Send { to, file, range } => match self.store.small.read(file, &range) {
                Some(bytes) => self.send_again(to, file, range.start, &bytes),
                None => self.add(Task::Read { file, range, to }),
            },
            ReceiverTransmit::JoinGroup { group } => self.effects.push(Effect::Hear(group)),
            ReceiverTransmit::LeaveGroup { group } => self.effects.push(Effect::Leave(group)),
            ReceiverTransmit::Release { file } => {
                self.add(Task::Release { file });
                if let Some((pages, _)) = self.trust.group().and_then(|group| group.pages()) {
                    pages.forget(file);
                }
            }
            _ => {}
        }
    }

    /// Tells the sender what was heard at which address.
    pub fn tell_sender(&mut self, message: &Message) {
        let sender = self.machine.local().and_then(|machine| machine.copies()).map(|copies| copies.sender);
        if let (Some(members), Some(sender)) = (&mut self.members, sender) {
            members.post.tell(Address::Member(sender), FileId::new(self.session, 0), message);
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
            run.page.into_iter().for_each(|page| members.post.tell_all(to, &[page]));
            let at = |place: u64| (place - position) as usize;
            let blocks = &bytes[at(run.range.start)..at(run.range.end)];
            members.post.send_blocks(to, Header { sequence: run.range.start, ..first }, blocks);
        }
    }

    /// The progress of local groups so far.
    pub fn local_progress(&self) -> Option<LocalProgress> {
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

/// The member that has sent what came last, and the key that it was sealed with. `None` where packets are plain.
fn sealed_by(from: Channel, sealing: Sealing) -> Option<(Member, KeyId)> {
    let Channel::Member(member) = from else { return None };
    Some((member, sealing.key?))
}
