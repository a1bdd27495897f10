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
    /// Keeps a frame until `due`, but never lets it overtake an earlier one.
    pub fn push(&mut self, due: Instant, frame: &[u8]) {
        if self.bytes + frame.len() > MAX_BYTES {
            return;
        }
        let due = self.frames.back().map_or(due, |(last, _)| due.max(*last));
        let mut kept = self.spare.pop().unwrap_or_default();
        kept.extend_from_slice(frame);
        self.bytes += kept.len();
        self.frames.push_back((due, kept));
    }

    pub fn next_due(&self) -> Option<Instant> {
        self.frames.front().map(|(due, _)| *due)
    }

    /// The frames that are due, in their order.
    pub fn due(&self, now: Instant) -> impl Iterator<Item = &[u8]> {
        self.frames.iter().take_while(move |(due, _)| *due <= now).map(|(_, frame)| &frame[..])
    }

    /// Removes the first frames.
    pub fn remove(&mut self, count: usize) {
        for (_, mut frame) in self.frames.drain(..count) {
            self.bytes -= frame.len();
            if self.spare.len() < MAX_SPARE {
                frame.clear();
                self.spare.push(frame);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn take(queue: &mut Queue, now: Instant) -> Vec<Vec<u8>> {
        let taken: Vec<_> = queue.due(now).map(<[u8]>::to_vec).collect();
        queue.remove(taken.len());
        taken
    }

    #[test]
    fn frames_leave_in_order_when_they_are_due() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        queue.push(now + Duration::from_millis(20), &[1; 10]);
        queue.push(now + Duration::from_millis(10), &[2; 5]);
        assert!(take(&mut queue, now + Duration::from_millis(19)).is_empty());
        let later = now + Duration::from_millis(20);
        assert_eq!(queue.next_due(), Some(later));
        assert_eq!(take(&mut queue, later), [vec![1; 10], vec![2; 5]]);
        assert_eq!(queue.next_due(), None);
        // The memory of used frames holds nothing of them.
        queue.push(later, &[3; 7]);
        assert_eq!(take(&mut queue, later), [vec![3; 7]]);
    }

    #[test]
    fn a_full_queue_loses_what_comes() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        let fits = MAX_BYTES / MAX_FRAME_BYTES;
        (0..fits + 100).for_each(|_| queue.push(now, &[0; MAX_FRAME_BYTES]));
        assert_eq!(take(&mut queue, now).len(), fits);
        assert_eq!(queue.bytes, 0);
    }
}
