//! Repair symbols, which are computed from blocks that are read again.

use std::ops::Range;

use treecast_proto::fec::Layout;
use treecast_wire::header::{FileId, Header, PacketType};

use super::{super::core::Core, Objects};
use crate::{fec::read_source_block, files::SourceError};

impl Objects {
    /// Computes repair symbols. Returns the header of the first one's packet, and the symbols one behind the other. `None` if there are no
    /// such symbols. `is_repeated`: the object is sent again and again, and not read to its end any more where a change would show.
    pub fn symbols(
        &mut self,
        file: FileId,
        source_block: u32,
        symbols: Range<u32>,
        is_repeated: bool,
    ) -> Result<Option<(Header, Vec<u8>)>, SourceError> {
        let sources = &mut self.sources;
        let size = sources.size(file);
        let Some(layout) = Layout::new(size, self.block_len) else { return Ok(None) };
        let read = || {
            let bytes =
                read_source_block(&layout, source_block, size, |at, into| sources.read_any(file, at, into))?;
            if is_repeated {
                sources.check_unchanged(file)?;
            }
            Ok(bytes)
        };
        let encoder = self.encoders.get(file, source_block, self.block_len, read)?;
        let run = encoder.and_then(|encoder| encoder.repair(symbols.clone()));
        Ok(run.map(|run| {
            let sequence = layout.positions(source_block, &symbols).start;
            let kind = PacketType::RepairSymbol;
            (Header { file_id: file, sequence, payload_len: 0, kind, number: 0 }, run)
        }))
    }

    /// Prepares symbols of a source block for the time when the last of its blocks is out, if the object has needed
    /// symbols before, or will by what receivers have named. The object has been multicast up to byte `end`. What is
    /// encoded has just been read, so that reading it again takes no time.
    pub fn prepare_symbols(&mut self, file: FileId, end: u64, core: &Core<'_>) -> Result<(), SourceError> {
        let size = self.sources.size(file);
        let Some(layout) = Layout::new(size, self.block_len) else { return Ok(()) };
        let next_block = end / layout.block_len();
        let source_block = layout.source_block(next_block);
        let blocks = layout.blocks(source_block);
        let is_near_its_end = (blocks.end - next_block.min(blocks.end)) * 8 <= blocks.end - blocks.start;
        if source_block >= layout.count() || !is_near_its_end {
            return Ok(());
        }
        let is_expected =
            || core.machine.vcmtp().is_some_and(|machine| machine.expects_symbols(file, source_block));
        if !self.encoders.has_any_of(file) && !is_expected() {
            return Ok(());
        }
        let sources = &mut self.sources;
        let read =
            || read_source_block(&layout, source_block, size, |at, into| sources.read_any(file, at, into));
        self.encoders.prepare(file, source_block, self.block_len, read)
    }
}
