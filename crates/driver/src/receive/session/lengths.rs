//! A path that drops full packets and carries short ones. The receiver then does not count as one that hears the group, so the sender
//! serves it over its connection. Where there is no connection, nothing can come, and the session ends.

use std::time::Duration;

use treecast_proto::{
    Instant,
    object::{Channel, ReceiverInput},
};
use treecast_wire::message::BeginOfFile;

use super::{ReceiveEvent, Session};
use crate::{
    remedies::{Advised, Remedy},
    send::MIN_BLOCK_LEN,
    udp::{Item, are_zeros},
};

/// The time that a session without a connection waits for a full packet when only short ones come.
const PATIENCE: Duration = Duration::from_secs(30);

/// The length of blocks, in bytes, that fit into the packets of nearly all networks.
const USUAL_BLOCK_LEN: u16 = 1_400;

/// The blocks of an object that has many full packets.
const LARGE_BLOCKS: u64 = 64;

/// The knowledge about the lengths that arrive.
#[derive(Debug, Default)]
pub(super) struct Lengths {
    pub heard: treecast_proto::lengths::Lengths,
    /// The time since which only short packets have come.
    since: Option<Instant>,
    is_told: bool,
}

impl Session<'_> {
    /// Whether full packets get lost, and short ones do not. An object that has not ended must have many full packets: there are
    /// sessions that have none.
    pub(super) fn are_full_lost(&self) -> bool {
        let least = LARGE_BLOCKS * u64::from(self.delivery.block_len);
        let is_large = |begin: &BeginOfFile| begin.file_size >= least;
        self.hearing.lengths.heard.are_full_lost() && self.delivery.store.begins.values().any(is_large)
    }

    /// Takes note of an item of the group: whether it came in a full packet.
    pub(super) fn note_length(&mut self, from: Channel, item: &Item) {
        let bytes = match item {
            Item::Blocks { range, at, .. } if !are_zeros(*at) => range.end - range.start,
            Item::Symbols { positions, .. } => positions.end - positions.start,
            _ => return,
        };
        if from == Channel::Group && bytes >= u64::from(self.delivery.block_len) {
            self.hearing.lengths.heard.full();
            self.hearing.lengths.since = None;
        }
    }

    /// Says once that full packets do not arrive. Ends a session that has no other way.
    pub(super) fn judge_lengths(&mut self, now: Instant) {
        if !self.are_full_lost() {
            return;
        }
        let lengths = &mut self.hearing.lengths;
        let since = *lengths.since.get_or_insert(now);
        let is_told = std::mem::replace(&mut lengths.is_told, true);
        let has_connection = self.wire.connection.is_some();
        let line = told(self.delivery.block_len, has_connection);
        if !is_told {
            (self.delivery.on_event)(ReceiveEvent::Warning(line.clone()));
        }
        if !has_connection && now >= since + PATIENCE {
            self.delivery.line.remedy = line.remedy;
            self.delivery.handle(ReceiverInput::Close { reason: line.line }, None);
        }
    }
}

fn told(block_len: u16, has_connection: bool) -> Advised {
    let shorter = if block_len > USUAL_BLOCK_LEN { USUAL_BLOCK_LEN } else { MIN_BLOCK_LEN };
    let meanwhile =
        if has_connection { "everything comes over TCP meanwhile" } else { "so no file can come" };
    let line = format!(
        "packets with {block_len} bytes of a file do not arrive, and short ones do: a link on the way has a smaller MTU; {meanwhile}; \
         the sender can start a session with blocks of {shorter} bytes"
    );
    Advised::by(Remedy::ShorterBlocks, line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_names_a_length_that_fits() {
        let line = told(8_900, true);
        assert!(
            line.contains("over TCP") && line.ends_with("start a session with blocks of 1400 bytes"),
            "{line}"
        );
        assert!(
            told(1_400, false)
                .ends_with("so no file can come; the sender can start a session with blocks of 580 bytes")
        );
    }
}
