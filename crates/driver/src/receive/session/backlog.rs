//! Tracks how long the group's socket has not been empty. Usually, the control connection is read when the
//! socket is empty. Then the machine is told, too, that it knows everything that the socket held. Under a
//! flood, the socket is never empty. Then reading as many bytes as it can hold counts instead.

use super::super::RECEIVE_BUFFER_BYTES;

/// The kernel holds no more in a socket than twice what was asked for, by its own count, which is never less than
/// [`crate::udp::Collector::taken`]'s.
pub(super) const MOST_HELD: u64 = 2 * RECEIVE_BUFFER_BYTES as u64;

/// The number of bytes that have been taken from the group's socket.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    /// Bytes since the socket was empty, or the connection had its turn.
    since_empty: u64,
    /// Bytes since the machine asked for what the socket held. `None` if it waits for nothing.
    since_asked: Option<u64>,
}

impl Backlog {
    /// Notes that the machine asks to be told when everything that is in the socket now was handed to it.
    pub fn ask(&mut self) {
        self.since_asked.get_or_insert(0);
    }

    /// Whether the machine waits for that.
    pub fn is_asked(&self) -> bool {
        self.since_asked.is_some()
    }

    /// Notes the number of bytes taken from the socket while it is not empty. `None` means that it is empty.
    /// With two sockets, the smaller number counts. `was_asked` says whether the machine waited before. Returns
    /// true if everything that was there when it asked was taken; it then no longer waits.
    pub fn note(&mut self, was_asked: bool, left: Option<u64>) -> bool {
        self.since_empty = left.map_or(0, |taken| self.since_empty + taken);
        let Some(before) = self.since_asked.filter(|_| was_asked) else { return false };
        self.since_asked = left.map(|taken| before + taken).filter(|bytes| *bytes < MOST_HELD);
        self.since_asked.is_none()
    }

    /// Whether the connection is next to be read. It may be read before packets that wait in the socket.
    pub fn gives_way(&mut self) -> bool {
        if self.since_empty >= MOST_HELD {
            self.since_empty = 0;
        }
        self.since_empty == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BATCH: u64 = 256 * 1024;

    #[test]
    fn an_empty_socket_has_nothing_that_the_machine_does_not_know() {
        let mut backlog = Backlog::default();
        assert!(!backlog.note(false, Some(BATCH)) && !backlog.gives_way(), "nobody asked");
        backlog.ask();
        assert!(!backlog.note(false, None) && backlog.is_asked(), "it asked when that had been read");
        assert!(!backlog.note(true, Some(BATCH)) && backlog.is_asked());
        assert!(backlog.note(true, None) && !backlog.is_asked() && backlog.gives_way());
    }

    #[test]
    fn a_flood_keeps_neither_the_machine_nor_the_connection_waiting_for_ever() {
        let mut backlog = Backlog::default();
        backlog.note(false, Some(BATCH));
        backlog.ask();
        let flood = (MOST_HELD / BATCH) as usize;
        let answers: Vec<_> =
            (0..flood).map(|_| (backlog.note(true, Some(BATCH)), backlog.gives_way())).collect();
        let count = |turn: fn(&(bool, bool)) -> bool| answers.iter().filter(|answer| turn(answer)).count();
        assert_eq!((count(|answer| answer.0), count(|answer| answer.1)), (1, 1));
        assert!(answers[flood - 1].0, "as much has been read as was there at most");
    }
}
