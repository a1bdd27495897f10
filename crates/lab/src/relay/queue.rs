//! Frames under way, limited in bytes. Their memory is reused.

use std::collections::VecDeque;
use std::time::Instant;

/// The largest number of bytes under way. A second of a gigabit in each direction would be 125 MB; beyond this
/// limit, frames are lost as in a full queue.
const MAX_BYTES: usize = 32 << 20;
/// The longest frame in bytes: a super-packet with the kernel's offload header in front.
pub const MAX_FRAME_BYTES: usize = 10 + 14 + 65_536;
/// The number of used frames that are kept for later ones.
const MAX_SPARE: usize = 64;

#[derive(Default)]
pub struct Queue {
    frames: VecDeque<(Instant, Vec<u8>)>,
    bytes: usize,
    spare: Vec<Vec<u8>>,
}

impl Queue {
    /// Reads a frame with `receive`, which fills the buffer and returns whether there was one. Keeps the frame
    /// until `due`, but never lets it overtake an earlier one. `due` is called after the frame has arrived.
    /// Before that, a frame that comes slightly later would be delayed too little.
    pub fn fill(
        &mut self,
        due: impl FnOnce() -> Instant,
        receive: impl FnOnce(&mut Vec<u8>) -> bool,
    ) -> bool {
        let mut frame = self.spare.pop().unwrap_or_default();
        if !receive(&mut frame) {
            self.spare.push(frame);
            return false;
        }
        if self.bytes + frame.len() > MAX_BYTES {
            self.spare.push(frame);
            return true;
        }
        let due = due();
        let due = self.frames.back().map_or(due, |(last, _)| due.max(*last));
        self.bytes += frame.len();
        self.frames.push_back((due, frame));
        true
    }

    pub fn next_due(&self) -> Option<Instant> {
        self.frames.front().map(|(due, _)| *due)
    }

    pub fn take_due(&mut self, now: Instant) -> Option<Vec<u8>> {
        self.next_due().filter(|due| *due <= now)?;
        let (_, frame) = self.frames.pop_front()?;
        self.bytes -= frame.len();
        Some(frame)
    }

    pub fn recycle(&mut self, frame: Vec<u8>) {
        if self.spare.len() < MAX_SPARE {
            self.spare.push(frame);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn put(queue: &mut Queue, due: Instant, byte: u8, length: usize) -> bool {
        queue.fill(
            || due,
            |frame| {
                frame.clear();
                frame.resize(length, byte);
                true
            },
        )
    }

    #[test]
    fn frames_leave_in_order_when_they_are_due() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        put(&mut queue, now + Duration::from_millis(20), 1, 10);
        put(&mut queue, now + Duration::from_millis(10), 2, 10);
        assert!(!queue.fill(|| now, |_| false));
        assert_eq!(queue.take_due(now + Duration::from_millis(19)), None);
        let later = now + Duration::from_millis(20);
        assert_eq!(queue.next_due(), Some(later));
        assert_eq!([queue.take_due(later), queue.take_due(later)].map(|frame| frame.unwrap()[0]), [1, 2]);
        assert_eq!(queue.take_due(later), None);
    }

    #[test]
    fn a_full_queue_loses_what_comes() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        let fits = MAX_BYTES / MAX_FRAME_BYTES;
        (0..fits + 100).for_each(|_| assert!(put(&mut queue, now, 0, MAX_FRAME_BYTES)));
        let passed = std::iter::from_fn(|| queue.take_due(now)).count();
        assert_eq!(passed, fits);
        assert_eq!(queue.bytes, 0);
    }
}
