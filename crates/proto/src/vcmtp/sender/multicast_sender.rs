//! The multicast sender: BOF, blocks and EOF to the group (interdomain-2013, 4.4, table 4.4).
//!
//! It is READY-TO-SEND while nothing is queued or in flight, else SENDING-MSGS. Objects in flight
//! take turns, a run of blocks each, so that a small one need not wait for a large one.

use std::{collections::VecDeque, ops::Range};

use super::{difference::Gathering, objects::Objects};
use crate::{Instant, fec::Schedule};

/// The most objects between their BOF and their end at the last receiver. Above it nothing new
/// starts, so that receivers' memory stays bounded as well.
pub(super) const MAX_STARTED: usize = 4096;

/// Objects of this size, in bytes, and above are announced several times where repair symbols may mend losses.
const LARGE_BYTES: u64 = 1 << 20;

#[derive(Debug, Default)]
pub(super) struct MulticastSender {
    /// API_Send has been called, BOF is not yet out.
    queued: VecDeque<u32>,
    /// BOF is out, EOF is not. The first one's turn is next.
    in_flight: VecDeque<u32>,
    /// BOF is out, and receivers say what they lack before anything else goes out.
    pub(super) gathering: Gathering,
    sent_bytes: u64,
}

impl MulticastSender {
    /// API_Send(i).
    pub(super) fn queue(&mut self, index: u32) {
        self.queued.push_back(index);
    }

    /// The object was over before it was out.
    pub(super) fn queue_again(&mut self, index: u32) {
        let at = self.queued.partition_point(|other| *other < index);
        self.queued.insert(at, index);
    }

    /// The object is withdrawn, or nobody is left who wants it.
    pub(super) fn forget(&mut self, index: u32) {
        self.in_flight.retain(|other| *other != index);
        self.gathering.forget(index);
        // They are in order: one before the first that is queued is not.
        if self.queued.front().is_some_and(|first| index >= *first) {
            self.queued.retain(|other| *other != index);
        }
    }

    /// Bytes of objects multicast so far.
    pub(super) fn sent_bytes(&self) -> u64 {
        self.sent_bytes
    }

    /// Counts bytes that an earlier sender has multicast.
    pub(super) fn skip(&mut self, bytes: u64) {
        self.sent_bytes += bytes;
    }

    /// The number of objects that have not begun.
    pub(super) fn queued(&self) -> usize {
        self.queued.len()
    }

    /// Whether no object waits, and fewer than `at_once` are in flight.
    pub(super) fn has_room(&self, at_once: usize) -> bool {
        self.queued.is_empty() && self.under_way() < at_once.max(1)
    }

    fn under_way(&self) -> usize {
        self.in_flight.len() + self.gathering.len()
    }

    /// Whether all objects are out.
    pub(super) fn is_idle(&self) -> bool {
        self.queued.is_empty() && self.in_flight.is_empty() && self.gathering.is_empty()
    }

    /// Whether nothing new starts because too many objects have and are not over.
    pub(super) fn is_crowded(&self, objects: &Objects, not_counted: usize) -> bool {
        !self.queued.is_empty() && self.started(objects, not_counted) >= MAX_STARTED
    }

    fn started(&self, objects: &Objects, not_counted: usize) -> usize {
        (objects.len() - self.queued.len()).saturating_sub(not_counted)
    }

    /// Starts the next queued object unless `at_once` are in flight; its BOF is to be multicast. Objects that have started
    /// and hold up nobody are not counted among those that must not be too many.
    pub(super) fn begin(
        &mut self,
        now: Instant,
        objects: &mut Objects,
        at_once: usize,
        not_counted: usize,
    ) -> Option<u32> {
        if self.under_way() >= at_once.max(1) || self.started(objects, not_counted) >= MAX_STARTED {
            return None;
        }
        let index = self.queued.pop_front()?;
        let object = objects.get_mut(index)?;
        object.started = Some(now);
        match object.lacks {
            Some(_) => self.gathering.begin(now, index, object.begin.file_size),
            None => self.in_flight.push_back(index),
        }
        Some(index)
    }

    /// Queues the blocks that receivers lack of an object for multicast, because they are all known.
    pub(super) fn gathered(&mut self, index: u32) {
        self.gathering.forget(index);
        self.in_flight.push_back(index);
    }

    /// Ends the object whose turn it is when all of it is out; its EOF is to be multicast.
    pub(super) fn end(&mut self, now: Instant, objects: &mut Objects) -> Option<u32> {
        let index = *self.in_flight.front()?;
        let object = objects.skipped(index)?;
        if object.sent < object.begin.file_size {
            return None;
        }
        object.out = Some(now);
        self.in_flight.pop_front();
        Some(index)
    }

    /// The object whose turn it is, when its BOF is to be multicast again: where repair symbols mend losses,
    /// behind its first run, and whenever twice as much is out. A receiver that has not heard it can make
    /// nothing of repair symbols, and to ask for it takes a round trip or, when that is lost, many. Where
    /// they only may (`is_coding` is false), small objects do without.
    pub(super) fn announce_again(&mut self, objects: &mut Objects, is_coding: bool) -> Option<u32> {
        let index = *self.in_flight.front()?;
        let object = objects.get_mut(index)?;
        let is_under_way = (1..object.begin.file_size).contains(&object.sent);
        let is_worth = is_coding || object.begin.file_size >= LARGE_BYTES;
        if object.schedule.is_none() || !is_worth || !is_under_way || object.sent < object.announce_at {
            return None;
        }
        object.announce_at = object.sent.saturating_mul(2);
        Some(index)
    }

    /// Whether nothing is to be multicast behind the object whose turn it is.
    pub(super) fn is_at_last(&self) -> bool {
        self.has_room(2)
    }

    /// Whether this object is all out, and blocks of others are to be multicast.
    pub(super) fn has_others(&self, objects: &Objects, index: u32) -> bool {
        let has_blocks =
            |index: u32| objects.get(index).is_some_and(|object| object.sent < object.begin.file_size);
        !has_blocks(index) && self.in_flight.iter().any(|other| has_blocks(*other))
    }

    /// Whether blocks are to be multicast.
    pub(super) fn is_sending(&self) -> bool {
        !self.in_flight.is_empty()
    }

    /// The next run of blocks, at most `max_run_len` bytes (but at least a block) of one object.
    pub(super) fn blocks(&mut self, objects: &mut Objects, max_run_len: u32) -> Option<(u32, Range<u64>)> {
        let index = *self.in_flight.front()?;
        let run = objects.blocks_per_run(max_run_len);
        let object = objects.get(index)?;
        let first = objects.blocks(object.sent..object.sent).start;
        // A run ends with its source block, behind which repair symbols may follow.
        let end = match object.schedule.as_ref().map(Schedule::layout) {
            Some(layout) => (first + run).min(layout.blocks(layout.source_block(first)).end.max(first + 1)),
            None => first + run,
        };
        let lacked = object.lacks.as_ref().and_then(|lacks| lacks.next(first));
        let end = lacked.map_or(end, |lacked| end.min(lacked.end));
        let range = objects.bytes(object, first..end);
        let object = objects.get_mut(index)?;
        object.sent = range.end;
        self.sent_bytes += range.end - range.start;
        // An object that is all out keeps its turn: its EOF follows at once.
        if range.end < object.begin.file_size {
            self.in_flight.rotate_left(1);
        }
        Some((index, range))
    }
}

#[cfg(test)]
mod tests {
    use treecast_wire::{
        header::SessionId,
        message::{BeginOfFile, TransferType},
    };

    use super::*;

    fn sender(sizes: &[u64]) -> (MulticastSender, Objects) {
        let (mut sender, mut objects) =
            (MulticastSender::default(), Objects::new(SessionId(1), 100, false, usize::MAX));
        for size in sizes {
            let begin = BeginOfFile::new(TransferType::DiskToDisk, *size, "name").unwrap();
            sender.queue(objects.add(begin));
        }
        (sender, objects)
    }

    const AT_ONCE: usize = 64;

    /// The output, as in table 4.4: "B0" a BOF, "0:0-250" blocks, "E0" an EOF.
    fn output(sender: &mut MulticastSender, objects: &mut Objects) -> String {
        output_with(sender, objects, AT_ONCE)
    }

    fn output_with(sender: &mut MulticastSender, objects: &mut Objects, at_once: usize) -> String {
        let mut output = Vec::new();
        loop {
            if let Some(index) = sender.begin(Instant::ZERO, objects, at_once, 0) {
                output.push(format!("B{index}"));
            } else if let Some(index) = sender.end(Instant::ZERO, objects) {
                output.push(format!("E{index}"));
            } else if let Some((index, range)) = sender.blocks(objects, 200) {
                output.push(format!("{index}:{}-{}", range.start, range.end));
            } else {
                return output.join(" ");
            }
        }
    }

    #[test]
    fn table_4_4_ready_to_send_api_send() {
        let (mut sender, mut objects) = sender(&[250]);
        assert_eq!(output(&mut sender, &mut objects), "B0 0:0-200 0:200-250 E0");
        assert!(!sender.is_sending(), "READY-TO-SEND: no files pending");
    }

    #[test]
    fn table_4_4_sending_msgs_api_send_for_new_files() {
        let (mut sender, mut objects) = sender(&[600, 150]);
        let out = output(&mut sender, &mut objects);
        assert_eq!(out, "B0 B1 0:0-200 1:0-150 E1 0:200-400 0:400-600 E0", "the small one is not blocked");
    }

    #[test]
    fn one_at_once_leaves_one_behind_the_other() {
        let (mut sender, mut objects) = sender(&[600, 150]);
        let out = output_with(&mut sender, &mut objects, 1);
        assert_eq!(out, "B0 0:0-200 0:200-400 0:400-600 E0 B1 1:0-150 E1");
    }

    #[test]
    fn an_empty_object_is_a_bof_and_an_eof() {
        let (mut sender, mut objects) = sender(&[0]);
        assert_eq!(output(&mut sender, &mut objects), "B0 E0");
    }

    #[test]
    fn a_bounded_number_of_objects_is_in_flight() {
        let (mut sender, mut objects) = sender(&[1000; 100]);
        let begun = std::iter::from_fn(|| sender.begin(Instant::ZERO, &mut objects, AT_ONCE, 0)).count();
        assert_eq!(begun, AT_ONCE);
    }

    #[test]
    fn a_forgotten_object_leaves_its_turn_to_the_others() {
        let (mut sender, mut objects) = sender(&[600, 150]);
        sender.begin(Instant::ZERO, &mut objects, AT_ONCE, 0);
        sender.forget(0);
        objects.remove(0);
        assert_eq!(output(&mut sender, &mut objects), "B1 1:0-150 E1");
    }
}
