//! Takes packets from the sockets and from the connection to the machine.

use treecast_host::clock::since_1970;
use treecast_proto::{
    object::{Channel, ReceiverInput},
    tfmcc,
};
use treecast_wire::message::Message;

use super::{
    super::{ReceiveError, ReceiveEvent},
    Session,
    delivery::{Sealing, Trust},
};
use crate::udp::{AtHand, BATCH_LEN, Item, are_zeros};

impl Session<'_> {
    /// Takes a batch from one socket. Returns how many bytes that were, or none when nothing is left there.
    pub(super) fn receive_batch(&mut self) -> Result<Option<u64>, ReceiveError> {
        let before = self.hearing.source.taken();
        let (mut is_empty, mut taken) = (false, 0);
        // Garbage fills no batch.
        while !is_empty
            && taken < BATCH_LEN as u64
            && !self.delivery.store.intake.is_filled()
            && self.hearing.source.fits(self.delivery.store.intake.batch())
        {
            is_empty = !self.hearing.source.receive(self.delivery.store.intake.batch())?;
            taken = self.hearing.source.taken() - before;
        }
        let dropped = self.hearing.source.dropped();
        if dropped != self.hearing.dropped {
            self.hearing.dropped = dropped;
            let input = tfmcc::ReceiverInput::OwnDrops { total: dropped };
            self.hearing.congestion.handle(self.delivery.clock.now(), input);
            self.delivery.handle(ReceiverInput::Dropped { total: dropped }, None);
        }
        self.process(Channel::Group);
        Ok((!is_empty).then_some(taken))
    }

    /// Hands everything new in the batch to the machine, and what the machine keeps of it to the intake.
    pub(super) fn process(&mut self, from: Channel) {
        let batch = self.delivery.store.intake.batch();
        self.delivery.figures.malformed += batch.take_malformed();
        let (arrivals, mut items) = (batch.take_arrivals(), batch.take_items());
        let now = self.delivery.clock.now();
        let session = self.delivery.session;
        let arrivals = arrivals.into_iter().chain(self.hearing.source.take_arrivals());
        for (_, packets) in arrivals.filter(|(of, _)| *of == session && from == Channel::Group) {
            let new = match &mut self.hearing.ears {
                Some(ears) => ears.new_of(packets),
                None => Some(packets),
            };
            let Some(packets) = new else { continue };
            self.hearing.lengths.heard.arrived(packets);
            if !self.are_full_lost() {
                self.hearing.congestion.handle(now, tfmcc::ReceiverInput::Packets(packets));
                let is_carousel = self.delivery.machine.carousel().is_some();
                if let Some(line) = self.hearing.groups.arrived(now, packets, is_carousel) {
                    (self.delivery.on_event)(ReceiveEvent::Warning(line.into()));
                }
            }
        }
        self.judge_lengths(now);
        if !items.is_empty() && from == Channel::Group {
            self.delivery.figures.heard_at.get_or_insert(now);
        }
        for item in self.hearing.source.take_items() {
            self.take_item(from, item);
        }
        let opener = self.hearing.source.opener();
        let sealing = Sealing { is_sealed: opener.is_some(), key: opener.and_then(|opener| opener.key()) };
        for item in items.drain(..) {
            match &self.delivery.trust {
                Trust::Group(_) => {
                    let items = self.delivery.proved(from, item, sealing);
                    items.into_iter().for_each(|item| self.take_item(from, item));
                }
                Trust::Anybody | Trust::Connection { .. } => self.take_item(from, item),
            }
        }
        self.delivery.store.intake.batch().take_back(items);
        self.delivery.store.small.note();
        let is_full = !self.hearing.source.fits(self.delivery.store.intake.batch());
        self.delivery.store.intake.hand_over(self.delivery.clock.now(), is_full);
    }

    /// Hands one thing that has come to the machine.
    fn take_item(&mut self, from: Channel, item: Item) {
        self.note_length(from, &item);
        match item {
            Item::Pace { file, pace, number, stamp } => {
                if from == Channel::Group && file.session() == self.delivery.session && !self.are_full_lost()
                {
                    let now = self.delivery.clock.now();
                    let at = stamp.came(now, since_1970());
                    self.hearing.groups.follow_sender(now);
                    self.hearing.congestion.handle(now, tfmcc::ReceiverInput::Pace { pace, number, at });
                }
            }
            Item::Message { file, message: Message::BeginOfFilePart(part) } => {
                let whole =
                    (file.session() == self.delivery.session).then(|| self.hearing.parts.take(file, &part));
                if let Some(begin) = whole.flatten() {
                    self.take_item(from, Item::Message { file, message: Message::BeginOfFile(begin) });
                }
            }
            Item::Message { file, message } => {
                if let Some(message) = self.delivery.believed(from, file, message) {
                    self.delivery.handle(ReceiverInput::Message { from, file, message }, None);
                }
            }
            Item::Symbols { file, positions, at } => {
                let at_hand = AtHand { start: positions.start, at };
                self.delivery.handle(ReceiverInput::Symbols { from, file, positions }, Some(at_hand));
            }
            // A few of them would take much memory until the object is known.
            Item::Blocks { file, at, .. }
                if are_zeros(at) && !self.delivery.store.begins.contains_key(&file) => {}
            Item::Blocks { file, range, at } => {
                let at_hand = AtHand { start: range.start, at };
                self.delivery.handle(ReceiverInput::Blocks { from, file, range }, Some(at_hand));
            }
        }
    }
}
