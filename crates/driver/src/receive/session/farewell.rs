//! What a receiver that ends before its session tells the sender, which would wait for it otherwise (`--linger`).

use treecast_wire::{
    header::FileId,
    message::{Message, PutOut, PutOutCode},
};

use super::Session;

impl Session<'_> {
    /// Says that this receiver will not come again, and why, if the connection takes it at once: a sender that hangs must not
    /// hold it up.
    pub(super) fn say_farewell(&mut self, reason: &str) {
        if !self.line.is_over {
            let word = PutOut::new(PutOutCode::Ended, reason);
            self.line.outbox.push(FileId::new(self.session, 0), Message::PutOut(word));
        }
        self.line.closes = true;
        // Where it cannot be written, the connection's end says the same.
        _ = self.flush();
    }
}
