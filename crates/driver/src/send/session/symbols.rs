//! Sends repair symbols, which are computed from blocks that are read again.

use std::ops::Range;

use treecast_proto::{
    Instant,
    fec::Layout,
    object::{Destination, ReceiverId},
};
use treecast_wire::header::{FileId, HEADER_LEN, Header, PacketType};

use super::{SendError, Session};
use crate::{fec::read_source_block, files::SourceError, pacer};

impl Session<'_> {
    /// Sends repair symbols, a packet each to the group, all in one to a receiver.
    pub(super) fn send_symbols(
        &mut self,
        now: Instant,
        to: Destination,
        file: FileId,
        source_block: u32,
        symbols: Range<u32>,
    ) -> Result<(), SendError> {
        let Some(layout) = Layout::new(self.objects.sources.size(file), self.plan.block_len) else {
            return Ok(());
        };
        match self.compute(&layout, file, source_block, symbols.clone()) {
            Ok(Some(run)) => {
                let sequence = layout.positions(source_block, &symbols).start;
                let kind = PacketType::RepairSymbol;
                let first = Header { file_id: file, sequence, payload_len: 0, kind, number: 0 };
                match to {
                    Destination::Group if self.ring.is_some() => self.pend(0, first, run),
                    Destination::Slower(group) if self.ring.is_some() => self.pend(group, first, run),
                    Destination::Group => self.multicast_symbols(now, first, &run)?,
                    // Slower groups and local groups get none.
                    Destination::Slower(_) | Destination::Local(_) => {}
                    Destination::Receiver(receiver) => self.symbols_to(now, receiver, first, &run),
                }
            }
            Ok(None) => {}
            Err(error) => self.withdraw(now, file, &error),
        }
        Ok(())
    }

    fn compute(
        &mut self,
        layout: &Layout,
        file: FileId,
        source_block: u32,
        symbols: Range<u32>,
    ) -> Result<Option<Vec<u8>>, SourceError> {
        let (sources, is_ring) = (&mut self.objects.sources, self.ring.is_some());
        let read = || {
            let size = sources.size(file);
            let bytes =
                read_source_block(layout, source_block, size, |at, into| sources.read_any(file, at, into))?;
            // A carousel reads no object to its end any more where that would show.
            if is_ring {
                sources.check_unchanged(file)?;
            }
            Ok(bytes)
        };
        let encoder = self.objects.encoders.get(file, source_block, self.plan.block_len, read)?;
        Ok(encoder.and_then(|encoder| encoder.repair(symbols)))
    }

    /// Has symbols of a source block ready when the last of its blocks is out, if the object has needed symbols before, or will
    /// by what receivers have named. The object has been multicast up to byte `end`. What is encoded has just been read, so
    /// that reading it again takes no time.
    pub(super) fn prepare_symbols(&mut self, file: FileId, end: u64) -> Result<(), SourceError> {
        let size = self.objects.sources.size(file);
        let Some(layout) = Layout::new(size, self.plan.block_len) else { return Ok(()) };
        let next_block = end / layout.block_len();
        let source_block = layout.source_block(next_block);
        let blocks = layout.blocks(source_block);
        let is_near_its_end = (blocks.end - next_block.min(blocks.end)) * 8 <= blocks.end - blocks.start;
        if source_block >= layout.count() || !is_near_its_end {
            return Ok(());
        }
        let is_expected =
            || self.machine.vcmtp().is_some_and(|machine| machine.expects_symbols(file, source_block));
        if !self.objects.encoders.has_any_of(file) && !is_expected() {
            return Ok(());
        }
        let sources = &mut self.objects.sources;
        let read =
            || read_source_block(&layout, source_block, size, |at, into| sources.read_any(file, at, into));
        self.objects.encoders.prepare(file, source_block, self.plan.block_len, read)
    }

    fn multicast_symbols(&mut self, now: Instant, first: Header, run: &[u8]) -> Result<(), SendError> {
        let count = run.len().div_ceil(self.plan.block_len.into()) as u64;
        let first = Header { number: self.number_packets(now, 0, count)?, ..first };
        let sent = self.lanes.group.send_blocks(now, 0, first, run)?;
        self.note_multicast(now, sent);
        Ok(())
    }

    fn symbols_to(&mut self, now: Instant, to: ReceiverId, first: Header, run: &[u8]) {
        let Some(peer) = self.peers.get_mut(&to) else { return };
        let Some(connection) = &mut peer.link.connection else { return };
        let header = Header { payload_len: run.len() as u32, ..first };
        connection.queue(&header.to_bytes());
        connection.queue(run);
        peer.tally.retransmitted_bytes += run.len() as u64;
        let sent = pacer::tcp_bytes((HEADER_LEN + run.len()) as u64);
        self.note_repaired(now, to, sent);
    }
}
