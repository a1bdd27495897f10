//! The lines in which the paper's receiver tells invalid packets (congested-multicast-2019, 4.2 and figures 14 and 15).
//!
//! The last 32 numbers of each sender are kept. When a number does not follow the one before it, and no such line is
//! pending, 23 more packets are waited for. Then the 32 numbers are shown, from the eighth before the invalid one.

use std::{collections::VecDeque, net::Ipv4Addr};

/// The size of the paper's packet buffer.
const BUFFER: usize = 32;
/// The numbers shown before the invalid one.
const BEFORE: usize = 8;

#[derive(Debug, Clone, Default)]
pub struct PaperLog {
    buffer: VecDeque<u64>,
    previous: u64,
    pending: Option<Pending>,
}

#[derive(Debug, Clone, Copy)]
struct Pending {
    number: u64,
    expected: u64,
    /// The number of packets to wait for.
    missing: usize,
}

impl PaperLog {
    /// Takes a packet. Returns a line if one has become complete.
    pub fn take(&mut self, sender: Ipv4Addr, number: u64) -> Option<String> {
        if self.buffer.len() == BUFFER {
            self.buffer.pop_front();
        }
        self.buffer.push_back(number);
        let expected = self.previous + 1;
        self.previous = number;
        match &mut self.pending {
            Some(pending) => pending.missing -= 1,
            None if number != expected && number != 1 => {
                self.pending = Some(Pending { number, expected, missing: BUFFER - BEFORE - 1 });
            }
            None => {}
        }
        let Pending { number, expected, .. } = self.pending.take_if(|pending| pending.missing == 0)?;
        let dropped = number.saturating_sub(expected);
        let numbers = self.buffer.iter().map(u64::to_string).collect::<Vec<_>>().join(" ");
        Some(format!(
            "Invalid packet number: {number} (expected {expected}) {dropped} packets dropped from {sender} | {numbers}"
        ))
    }
}
