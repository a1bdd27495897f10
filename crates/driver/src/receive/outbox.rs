//! Messages for the sender that its connection has not taken yet. A sender that does not read must cost no
//! memory, so reports replace each other, and requests for one object are merged.

use std::collections::{BTreeMap, VecDeque};

use treecast_wire::{
    header::FileId,
    message::{Message, RetransmissionRequest},
};

/// The number of messages from which on requests are merged. From [`MAX_MESSAGES`] on, the sender is taken to be
/// gone.
const MANY_MESSAGES: usize = 4096;

/// The most messages that are held: more than all objects that can be under way have to say.
const MAX_MESSAGES: usize = 65_536;

#[derive(Debug, Default)]
pub(super) struct Outbox {
    messages: VecDeque<(FileId, Message)>,
    /// The last report of each kind.
    progress: Option<(FileId, Message)>,
    pace: Option<(FileId, Message)>,
    heard: Option<(FileId, Message)>,
    merge_at: usize,
}

impl Outbox {
    pub fn push(&mut self, file: FileId, message: Message) {
        match message {
            Message::Progress(_) => return self.progress = Some((file, message)),
            Message::PaceReport(_) => return self.pace = Some((file, message)),
            Message::Heard(_) => return self.heard = Some((file, message)),
            _ => {}
        }
        self.messages.push_back((file, message));
        if self.messages.len() > self.merge_at.max(MANY_MESSAGES) {
            self.merge();
        }
    }

    /// Takes the next message.
    pub fn pop(&mut self) -> Option<(FileId, Message)> {
        self.heard
            .take()
            .or_else(|| self.messages.pop_front())
            .or_else(|| self.pace.take())
            .or_else(|| self.progress.take())
    }

    /// Whether so many messages are unread that the sender must have stopped reading.
    pub fn is_stuck(&self) -> bool {
        self.messages.len() > MAX_MESSAGES
    }

    /// Makes one request of all those for one object, where the first of them stands. It may ask for blocks in
    /// between, too; they are there already, then.
    fn merge(&mut self) {
        let mut covered = BTreeMap::<FileId, (u64, u64)>::new();
        for (file, message) in &self.messages {
            if let Message::RetransmissionRequest(request) = message {
                let range = request.range();
                let all = covered.entry(*file).or_insert((range.start, range.end));
                *all = (all.0.min(range.start), all.1.max(range.end));
            }
        }
        self.messages = std::mem::take(&mut self.messages)
            .into_iter()
            .filter_map(|(file, message)| match message {
                Message::RetransmissionRequest(_) => {
                    let (start, end) = covered.remove(&file)?;
                    let request = RetransmissionRequest::new(start..end).ok()?;
                    Some((file, Message::RetransmissionRequest(request)))
                }
                message => Some((file, message)),
            })
            .collect();
        self.merge_at = self.messages.len() * 2;
    }
}

#[cfg(test)]
mod tests {
    use treecast_wire::message::Progress;

    use super::*;

    fn request(range: std::ops::Range<u64>) -> Message {
        Message::RetransmissionRequest(RetransmissionRequest::new(range).unwrap())
    }

    #[test]
    fn a_sender_that_does_not_read_costs_little() {
        let mut outbox = Outbox::default();
        for step in 0..1_000_000_u64 {
            outbox.push(FileId(step % 3), request(step * 10..step * 10 + 5));
            outbox.push(FileId(7), Message::Progress(Progress { position: step, ..Progress::default() }));
        }
        assert!(outbox.messages.len() <= MANY_MESSAGES + 1 && !outbox.is_stuck());
        let (file, first) = outbox.pop().unwrap();
        assert!(
            file == FileId(0)
                && matches!(first, Message::RetransmissionRequest(all) if all.range().start == 0)
        );
        let last = std::iter::from_fn(|| outbox.pop()).last();
        let report = Message::Progress(Progress { position: 999_999, ..Progress::default() });
        assert_eq!(last, Some((FileId(7), report)));
    }

    #[test]
    fn what_cannot_be_merged_is_bounded_by_the_end_of_the_session() {
        let mut outbox = Outbox::default();
        for index in 0..=MAX_MESSAGES as u64 {
            assert!(!outbox.is_stuck());
            outbox.push(FileId(index), Message::EndOfRetransmissionRequests);
        }
        assert!(outbox.is_stuck());
    }
}
