//! Carries out what the machine wants to be sent.

use std::ops::Range;

use treecast_proto::{
    Instant,
    object::{Destination, ReceiverId, SenderTransmit},
    policy,
};
use treecast_wire::{
    header::{FileId, HEADER_LEN, Header},
    message::{ChunkHashes, Message, Zeros},
};

use super::{super::SendError, Session, kind::Kind};
use crate::{files::SourceError, zeros::is_zero};

impl Session<'_> {
    /// Sends what the machine wants to be sent.
    pub(super) fn transmit(&mut self, now: Instant, transmit: SenderTransmit) -> Result<(), SendError> {
        match transmit {
            SenderTransmit::Message { to, file, message } => self.send_message(now, to, file, &message)?,
            SenderTransmit::Blocks { to, kind, file, range } => {
                let first = Header { file_id: file, sequence: range.start, payload_len: 0, kind, number: 0 };
                let len = (range.end - range.start) as usize;
                match to {
                    Destination::Group => self.send_to_group(now, 0, first, len)?,
                    Destination::Slower(group) => self.send_to_group(now, group, first, len)?,
                    Destination::Receiver(receiver) => self.retransmit(now, receiver, first, len),
                    Destination::Local(to) => {
                        if let Some(local) = self.kind.local() {
                            local.mend(now, to, (first, len), &mut self.objects, &mut self.core);
                        }
                    }
                }
            }
            SenderTransmit::Symbols { to, file, source_block, symbols } => {
                self.send_symbols(now, to, file, source_block, symbols)?;
            }
            SenderTransmit::ChunkHashes { to: Destination::Receiver(to), file, pages } => {
                self.send_chunk_hashes(now, to, file, pages);
            }
            SenderTransmit::ChunkHashes { to, file, pages } => {
                for page in pages {
                    if let Some(page) = self.objects.chunk_hashes(file, page) {
                        self.send_message(now, to, file, &Message::ChunkHashes(page))?;
                    }
                }
            }
            SenderTransmit::CloseConnection(receiver) => {
                if let Some(peer) = self.peers.get_mut(&receiver) {
                    peer.link.closes = true;
                    self.peers.note_ended(receiver, &mut self.core);
                }
            }
        }
        Ok(())
    }

    /// Sends a message, signed where receivers must know that it is the sender's.
    pub(super) fn send_message(
        &mut self,
        now: Instant,
        to: Destination,
        file: FileId,
        message: &Message,
    ) -> Result<(), SendError> {
        let signed = self.objects.manifests.signed(to, file, message, &self.core);
        let message = signed.as_ref().unwrap_or(message);
        match to {
            Destination::Group => self.lanes.send_message(now, 0, file, message, &mut self.core)?,
            Destination::Slower(group) => {
                self.lanes.send_message(now, group, file, message, &mut self.core)?;
            }
            Destination::Receiver(receiver) => {
                let connection = self.peers.get_mut(&receiver).and_then(|peer| peer.link.connection.as_mut());
                if let Some(connection) = connection {
                    connection.queue(&message.to_packet(file));
                }
            }
            Destination::Local(to) => {
                self.kind.local().into_iter().for_each(|local| local.post.tell(to, file, message));
            }
        }
        Ok(())
    }

    /// Sends `len` bytes of an object to a group, from where `first` begins.
    fn send_to_group(&mut self, now: Instant, group: u8, first: Header, len: usize) -> Result<(), SendError> {
        let Self { kind, lanes, objects, core, .. } = self;
        match kind {
            Kind::Connected(_) => {}
            Kind::Ring(ring) => {
                ring.turn_over(now, group, (first, len), objects, core);
                return Ok(());
            }
            Kind::Local(local) => {
                core.start(now, false);
                if !local.prove(now, first, len, objects, lanes, core)? {
                    return Ok(());
                }
            }
        }
        if group == 0 {
            self.multicast(now, first, len)
        } else {
            self.multicast_slowly(now, group, first, len)
        }
    }

    /// Sends `len` bytes of an object to the first group, from where `first` begins.
    fn multicast(&mut self, now: Instant, first: Header, len: usize) -> Result<(), SendError> {
        let (file, range) = (first.file_id, first.sequence..first.sequence + len as u64);
        let sent = match self.objects.sources.read_in_order(file, range.clone()) {
            Ok(run) => self.lanes.multicast(now, first, run, &mut self.core)?,
            Err(error) => {
                self.objects.withdraw(now, file, &error, &mut self.core);
                return Ok(());
            }
        };
        if sent && let Err(error) = self.objects.prepare_symbols(file, range.end, &self.core) {
            self.objects.withdraw(now, file, &error, &mut self.core);
            return Ok(());
        }
        self.objects.note_read(now, file, range.end, &mut self.core);
        Ok(())
    }

    /// Sends blocks that have been read before to a slower group.
    fn multicast_slowly(
        &mut self,
        now: Instant,
        group: u8,
        first: Header,
        len: usize,
    ) -> Result<(), SendError> {
        match self.objects.read_apart(first.file_id, first.sequence, len) {
            Ok(run) => self.lanes.send_run(now, group, first, run, &mut self.core)?,
            Err(error) => self.objects.withdraw(now, first.file_id, &error, &mut self.core),
        }
        Ok(())
    }

    /// Sends blocks again to one receiver, over its connection.
    fn retransmit(&mut self, now: Instant, to: ReceiverId, first: Header, len: usize) {
        let Some(peer) = self.peers.get_mut(&to) else { return };
        let Some(connection) = &mut peer.link.connection else { return };
        let header = Header { payload_len: len as u32, ..first };
        let result = connection.queue_with(HEADER_LEN + len, |packet| {
            let (head, blocks) = packet.split_at_mut(HEADER_LEN);
            head.copy_from_slice(&header.to_bytes());
            self.objects.sources.read_any(first.file_id, first.sequence, blocks).map_err(Some)?;
            if is_zero(blocks) { Err(None::<SourceError>) } else { Ok(()) }
        });
        let packet_len = match result {
            Ok(()) => HEADER_LEN + len,
            Err(None) => {
                let Ok(zeros) = Zeros::new(first.sequence..first.sequence + len as u64) else { return };
                let packet = Message::Zeros(zeros).to_packet(first.file_id);
                connection.queue(&packet);
                packet.len()
            }
            Err(Some(error)) => {
                return self.objects.withdraw(now, first.file_id, &error, &mut self.core);
            }
        };
        peer.tally.retransmitted_bytes += len as u64;
        let bytes = policy::tcp_bytes(packet_len as u64);
        self.lanes.note_repaired(now, peer.group, bytes, &mut self.core);
    }

    /// Sends repair symbols, a packet each to the group, all in one to a receiver.
    fn send_symbols(
        &mut self,
        now: Instant,
        to: Destination,
        file: FileId,
        source_block: u32,
        symbols: Range<u32>,
    ) -> Result<(), SendError> {
        let ring = self.kind.ring();
        match self.objects.symbols(file, source_block, symbols, ring.is_some()) {
            Ok(Some((first, run))) => match (to, ring) {
                (Destination::Group, Some(ring)) => ring.pend(0, first, run, &self.objects),
                (Destination::Slower(group), Some(ring)) => ring.pend(group, first, run, &self.objects),
                (Destination::Group, None) => self.lanes.send_blocks(now, 0, first, &run, &mut self.core)?,
                // Slower groups and local groups get none.
                (Destination::Slower(_) | Destination::Local(_), _) => {}
                (Destination::Receiver(receiver), _) => self.symbols_to(now, receiver, first, &run),
            },
            Ok(None) => {}
            Err(error) => self.objects.withdraw(now, file, &error, &mut self.core),
        }
        Ok(())
    }

    fn symbols_to(&mut self, now: Instant, to: ReceiverId, first: Header, run: &[u8]) {
        let Some(peer) = self.peers.get_mut(&to) else { return };
        let Some(connection) = &mut peer.link.connection else { return };
        let header = Header { payload_len: run.len() as u32, ..first };
        connection.queue(&header.to_bytes());
        connection.queue(run);
        peer.tally.retransmitted_bytes += run.len() as u64;
        let bytes = policy::tcp_bytes((HEADER_LEN + run.len()) as u64);
        self.lanes.note_repaired(now, peer.group, bytes, &mut self.core);
    }

    /// Sends pages of an object's chunk hashes to a receiver whose copy is wrong somewhere, up to the first page that there is not.
    fn send_chunk_hashes(&mut self, now: Instant, to: ReceiverId, file: FileId, pages: Range<u32>) {
        let Some(peer) = self.peers.get_mut(&to) else { return };
        let Some(connection) = &mut peer.link.connection else { return };
        let mut queued = 0;
        for page in pages {
            let known = self.objects.chunk_hashes(file, page);
            let is_last = known.is_none();
            let message = Message::ChunkHashes(known.unwrap_or_else(|| ChunkHashes::none(page)));
            let packet = message.to_packet(file);
            connection.queue(&packet);
            queued += packet.len() as u64;
            if is_last {
                break;
            }
        }
        let bytes = policy::tcp_bytes(queued);
        self.lanes.note_repaired(now, peer.group, bytes, &mut self.core);
    }
}
