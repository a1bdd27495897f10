//! Objects that are sent by difference: receivers say what they lack of each, and the union goes to the group once.
//!
//! The object before such an object is its index, by which a receiver finds what an older version already holds. Its report is a
//! row of [`Message::Lacking`], the last one empty. Reading takes as long as the object is big, so no fixed time is right. When
//! half of the receivers have reported, the others have as long again and 10 s: a receiver that reports early has read little and lacks
//! much, or has a disk like the others'. The blocks that anybody lacks then go out in order, in one pass. What
//! comes too late for the pass is mended as any other loss: the receiver asks for it behind the next block that it hears, or at
//! the end.
//!
//! [`Message::Lacking`]: treecast_wire::message::Message::Lacking

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    time::Duration,
};

use super::{ReceiverId, Sender, objects::Object, retransmitter::Due};
use crate::Instant;

/// The time for reports on an object, besides the time to read it.
const LEAST_PATIENCE: Duration = Duration::from_secs(10);

/// Number of bytes of an older version that a receiver should read and copy in a second, at least: a memory card takes so much.
const READ_BYTES_A_SECOND: u64 = 10_000_000;

/// Number of keepalives after which a receiver that has said nothing at all is not waited for.
const SILENT_KEEPALIVES: u32 = 2;

/// Time after which the announcement is repeated over the connections of receivers that have not reported. The group's may
/// have been lost, and no block follows that would tell.
const REPEAT: Duration = Duration::from_millis(300);

/// The grace of the slower half ends at this part of itself, 1 / 2^3, however often somebody has come too late.
const MAX_HALVINGS: u32 = 3;

/// The time between two looks for silent receivers.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// An object that waits for reports.
#[derive(Debug)]
struct Waiting {
    /// The time when the object was announced.
    since: Instant,
    /// Whether half of the receivers have reported. Then `until` is final.
    is_half: bool,
    /// The time when no receiver is waited for any more.
    until: Instant,
    /// The time when it is announced once more. `None` when it has been.
    repeat_at: Option<Instant>,
}

/// The objects that have begun and wait for reports.
#[derive(Debug, Default)]
pub(super) struct Gathering {
    /// Reports that are waited for, by the number of the object.
    objects: BTreeMap<u32, Waiting>,
    /// The time when silent receivers are looked for next.
    check: Instant,
    /// Receivers that once came too late. They are not waited for again.
    late: BTreeSet<ReceiverId>,
    /// The number of times that the time was up in this session. A receiver that joins again has a new
    /// number, and cannot be told from another.
    vain: u32,
}

impl Gathering {
    pub(super) fn begin(&mut self, now: Instant, index: u32, size: u64) {
        let reading = Duration::from_secs(size / READ_BYTES_A_SECOND);
        if self.is_empty() {
            self.check = now + CHECK_INTERVAL;
        }
        let until = now + (LEAST_PATIENCE + reading);
        let waiting = Waiting { since: now, is_half: false, until, repeat_at: Some(now + REPEAT) };
        self.objects.insert(index, waiting);
    }

    pub(super) fn forget(&mut self, index: u32) {
        self.objects.remove(&index);
    }

    pub(super) fn len(&self) -> usize {
        self.objects.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// The time when something is to be looked at although nothing comes.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let times = self.objects.values().flat_map(|waiting| [Some(waiting.until), waiting.repeat_at]);
        times.flatten().chain((!self.is_empty()).then_some(self.check)).min()
    }

    /// Waits for nobody that has come too late before.
    pub(super) fn excuse(&self, object: &mut Object) {
        if let Some(lacks) = object.lacks.as_mut().filter(|_| !self.late.is_empty()) {
            lacks.awaited.retain(|receiver| !self.late.contains(receiver));
        }
    }
}

impl Sender {
    /// Has those objects sent on which all receivers that are waited for have reported.
    pub(super) fn end_gathering(&mut self, now: Instant) {
        if self.multicast.gathering.is_empty() || self.is_paused() {
            return;
        }
        let Gathering { objects, check, late, vain } = &mut self.multicast.gathering;
        let is_check = *check <= now;
        if is_check {
            *check = now + CHECK_INTERVAL;
        }
        let silence = self.config.keepalive * SILENT_KEEPALIVES;
        let (mut ready, mut untold) = (Vec::new(), Vec::new());
        for (index, waiting) in objects.iter_mut() {
            let lacks = self.objects.get_mut(*index).and_then(|object| object.lacks.as_mut());
            let Some(lacks) = lacks else { continue };
            if is_check {
                let heard = |receiver: &ReceiverId| self.retransmitters.get(receiver).map(|one| one.heard);
                lacks.awaited.retain(|receiver| heard(receiver).is_some_and(|heard| heard + silence > now));
            }
            if waiting.repeat_at.take_if(|time| *time <= now).is_some() {
                untold.push((*index, Vec::from_iter(lacks.awaited.iter().copied())));
            }
            if lacks.reported >= lacks.awaited.len() && lacks.reported > 0 && !waiting.is_half {
                waiting.is_half = true;
                let grace = (now - waiting.since + LEAST_PATIENCE) / 2_u32.pow(*vain);
                waiting.until = waiting.until.min(now + grace);
            }
            if waiting.until <= now && !lacks.awaited.is_empty() {
                late.append(&mut lacks.awaited);
                *vain = (*vain + 1).min(MAX_HALVINGS);
            }
            if lacks.awaited.is_empty() {
                ready.push(*index);
            }
        }
        for (index, receivers) in untold {
            self.tell(index, &receivers, Due::BeginOfFile);
        }
        for index in ready {
            self.multicast.gathered(index);
        }
    }

    /// A receiver lacks these bytes of an object, or with none, has said all that it lacks. What the pass has gone by is not
    /// noted: the receiver will find that gap by itself.
    pub(super) fn report_lacks(&mut self, from: ReceiverId, index: u32, bytes: &Range<u64>) {
        let Some(object) = self.objects.get(index).filter(|object| object.out.is_none()) else { return };
        let passed = self.objects.blocks(object.sent..object.sent).start;
        let blocks = self.objects.blocks(bytes.start..bytes.end.min(object.begin.file_size));
        let Some(lacks) = self.objects.get_mut(index).and_then(|object| object.lacks.as_mut()) else {
            return;
        };
        if bytes.is_empty() {
            lacks.reported += usize::from(lacks.awaited.remove(&from));
        } else if blocks.end > passed {
            lacks.add(blocks.start.max(passed)..blocks.end);
        }
    }

    /// A receiver is gone.
    pub(super) fn forget_late(&mut self, receiver: ReceiverId) {
        self.multicast.gathering.late.remove(&receiver);
    }
}
